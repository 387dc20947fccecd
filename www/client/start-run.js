/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./requests.js').Requests} Requests */
/** @typedef {import('./run.js').RunEvent | import('./run.js').ExperimentEvent} RunEvent */
/** @typedef {{ type: 'generate', prompt: string } | { type: 'experiment', name: string }} Work */
/** @typedef {import('./turns.js').Turns} Turns */

/**
 * Sends a run or an experiment to the worker when its turn has come.
 * @param {{ turns: Turns, model: Model, requests: Requests }} parts
 * @param {import('./run.js').Run<any>} run receives the events
 * @param {Work} work @param {{ [name: string]: unknown }} options @param {AbortSignal | null | undefined} signal
 * @returns {import('./run.js').Begun}
 * @throws {import('./error.js').Gpt2Error} `busy`
 */
export function startRun({ turns, model, requests }, run, work, options, signal) {
  // The settings of a record have null for an option that was not given.
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null));
  const turn = turns.enter(work.type === 'generate' ? 'a run' : 'an experiment', () => run.left || signal?.aborted === true);
  /** @type {import('./requests.js').Sent | null} */ let sent = null;
  let over = () => {};
  const ended = /** @type {Promise<void>} */ (new Promise((resolve) => { over = resolve; }));
  const end = () => { turn.leave(); over(); };
  const fail = (/** @type {unknown} */ error) => { end(); run.fail(error); };
  const send = async () => {
    if (turn.before) await turn.before;
    await model.recovered(signal ?? null);
    if (run.left) return;
    sent = requests.send({ ...work, options: given, ...(signal?.aborted && { cancelled: true }) }, {
      receive: (event) => {
        if (event.type === 'done' || event.type === 'experiment_done') end();
        run.receive(/** @type {RunEvent} */ (event));
      },
      fail,
    }, signal);
  };
  send().catch(fail);
  return { ended, cancel: () => (sent ? sent.cancel() : end()) };
}
