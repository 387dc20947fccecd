/** A run's prompt and settings in the fragment of a URL, which is never sent to a server. */

/** @typedef {{ [name: string]: string | string[] }} Fields Option names to what their fields hold. */

/** @param {string} prompt @param {Fields} fields @returns {string} the fragment, with its # */
export function encodeLink(prompt, fields) {
  const parameters = new URLSearchParams({ prompt });
  for (const [name, value] of Object.entries(fields)) for (const each of [value].flat()) parameters.append(name, each);
  return `#${parameters}`;
}

/**
 * @param {string} fragment
 * @returns {{ prompt: string | null, fields: Fields, problems: string[] } | null} null if the fragment is empty
 */
export function decodeLink(fragment) {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ''));
  if (parameters.size === 0) return null;
  /** @type {Fields} */ const fields = Object.create(null); // a link may name anything, __proto__ too
  const problems = [];
  for (const name of new Set(parameters.keys())) {
    const values = parameters.getAll(name);
    if (name === 'stop') fields[name] = values;
    else {
      if (values.length > 1) problems.push(`${name} appears ${values.length} times; using the first`);
      if (name !== 'prompt') fields[name] = values[0] ?? '';
    }
  }
  return { prompt: parameters.get('prompt'), fields, problems };
}
