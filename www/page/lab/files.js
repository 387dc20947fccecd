/** What an experiment found, as files. */

/** @typedef {import('../../gpt2-web.js').Findings} Findings */

/** @param {Findings} findings */
export const asJson = (findings) => `${JSON.stringify(findings, null, 2)}\n`;

/**
 * The rows as CSV (RFC 4180), under lines that begin with # and hold the conditions. Lists are JSON in their cell.
 * @param {Findings} findings
 */
export function asCsv({ experiment, conditions, rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (/** @type {unknown} */ value) => {
    const text = value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    // A cell that begins with one of these would be a formula in a spreadsheet.
    const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const head = [['experiment', experiment], ...Object.entries(conditions)].map(([name, value]) => `# ${name}: ${typeof value === 'string' ? value.replaceAll(/\s+/g, ' ') : JSON.stringify(value)}`);
  const body = [names, ...rows.map((row) => names.map((name) => /** @type {Record<string, unknown>} */ (row)[name]))];
  return `${[...head, ...body.map((cells) => cells.map(cell).join(','))].join('\r\n')}\r\n`;
}

/** Saves a file. @param {string} name @param {Blob} file */
export function save(name, file) {
  const url = URL.createObjectURL(file);
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
