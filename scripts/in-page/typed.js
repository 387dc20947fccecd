// Runs in the page of a headless command.

/**
 * Options as texts -> the values of their types. What is no value of its type stays a text: the worker says what the option
 * takes.
 * @param {readonly import('../../www/types/OptionSpec.js').OptionSpec[]} specs
 * @param {readonly (readonly [name: string, value: string])[]} given
 * @returns {Record<string, unknown>}
 */
export function typed(specs, given) {
  /** @type {Record<string, unknown>} */ const options = {};
  const isNumber = (/** @type {string} */ text) => text.trim() !== '' && !Number.isNaN(Number(text));
  for (const [name, text] of given) {
    const type = specs.find((spec) => spec.name === name)?.range.type;
    const parts = text.split(',').filter((part) => part.trim() !== '');
    if (type === 'strings') options[name] = [.../** @type {string[]} */ (options[name] ?? []), text];
    else if (type === 'flag' && /^(true|false)$/.test(text)) options[name] = text === 'true';
    else if ((type === 'integer' || type === 'number') && isNumber(text)) options[name] = Number(text);
    else if (type === 'numbers' && parts.every(isNumber)) options[name] = parts.map(Number);
    else options[name] = text;
  }
  return options;
}
