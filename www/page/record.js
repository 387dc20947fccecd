import { byId, terms } from './dom.js';
import { escapeStop } from './escapes.js';

/** @typedef {import('../types/Settings.js').Settings} Settings */

/**
 * Copies `text` and says so on the button. If the page may not use the clipboard (in a sandboxed frame or an old browser),
 * it shows the text, selected, for the user to copy.
 * @param {HTMLElement} button @param {string} text
 */
export async function copy(button, text) {
  const fallback = byId('copy-fallback', HTMLTextAreaElement);
  fallback.hidden = true;
  try {
    await navigator.clipboard.writeText(text);
    flash(button, 'Copied');
  } catch {
    button.closest('.actions')?.after(fallback);
    fallback.hidden = false;
    fallback.value = text;
    fallback.focus();
    fallback.select();
    announce('This page may not use the clipboard. The text is selected; copy it with Ctrl+C.');
  }
}

/** @param {HTMLElement} button @param {string} name of the file @param {string} text */
export function save(button, name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  flash(button, 'Saved');
}

/** Shows `word` on the button for a moment, at the same width. @param {HTMLElement} button @param {string} word */
export function flash(button, word) {
  const text = (button.dataset.text ??= button.textContent ?? '');
  button.style.minWidth = `${button.offsetWidth}px`;
  button.textContent = word;
  setTimeout(() => { button.textContent = text; }, 1500);
  announce(word);
}

/** @param {string} sentence */
const announce = (sentence) => { byId('toast').textContent = sentence; };

/** @param {HTMLElement} list a `dl` @param {Settings} settings every default filled in */
export function showSettings(list, settings) {
  list.replaceChildren(...terms(Object.entries(settings).map(([name, value]) => [name, show(value)])));
}

/** @param {Settings[keyof Settings]} value */
function show(value) {
  if (Array.isArray(value)) return value.length ? value.map((text) => `“${escapeStop(text)}”`).join(' ') : 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return value === null ? 'none' : String(value);
}
