/** @typedef {import('./run.js').ExperimentEvent} ExperimentEvent */
/** @typedef {import('../types/Row.js').Row} Row */
/** @typedef {import('../types/Summary.js').Summary} Summary */

/**
 * All that an experiment found, and under which conditions: plain data, for a table or a file.
 * @typedef {object} Findings
 * @property {string} experiment its name
 * @property {Record<string, unknown>} conditions the model, the options in effect, the clock and the machine, the browser
 * @property {Row[]} rows
 * @property {Summary | null} summary null if it was cancelled
 */

/**
 * @param {Extract<ExperimentEvent, { type: 'experiment_done' }>} done
 * @param {Row[]} rows of the `row` events
 * @returns {Findings}
 */
export function findings({ name, gpt2_web, identity, findings: { options, machine, summary } }, rows) {
  const browser = globalThis.navigator?.userAgent ?? null; // none outside a browser
  return { experiment: name, conditions: { ...identity, ...options, ...machine, browser, gpt2_web }, rows, summary };
}
