/** Small helpers over the document; the page has no framework. */

/**
 * The element with this id, of this class; a mistake in the page is an error at once.
 * @template {Element} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [kind]
 * @returns {T}
 */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof (kind ?? HTMLElement))) throw new Error(`#${id} is missing in the page`);
  return /** @type {T} */ (/** @type {unknown} */ (element));
}

/**
 * A new element with children. Strings become text, never markup.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {{ [name: string]: string | number | boolean | null | undefined }} [attributes] null, undefined and false are left out
 * @param {...(Node | string)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Switches a button off and on. `disabled` would drop the focus of a button that was just pressed; `aria-disabled` keeps
 * it, so click handlers must check whether there is anything to do.
 * @param {HTMLElement} button @param {boolean} off
 */
export const switchOff = (button, off) => button.setAttribute('aria-disabled', String(off));

/**
 * Terms and descriptions for a `dl`.
 * @param {[term: string, description: Node | string][]} rows
 */
export function terms(rows) {
  return rows.map(([term, description]) => make('div', {}, make('dt', {}, term), make('dd', {}, description)));
}
