import { byId, make } from './dom.js';

/** An error as a sentence. @param {unknown} cause */
export function describe(cause) {
  const message = cause instanceof Error ? cause.message : String(cause);
  // If it begins with the name of a file or an option, that keeps its spelling.
  const sentence = message.replace(/^[a-z]+(?=[ ,])/, (word) => word.charAt(0).toUpperCase() + word.slice(1));
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** @param {string} message @param {{ label: string, run: () => void }} [remedy] */
export function showError(message, remedy) {
  const box = byId('error');
  const close = make('button', { type: 'button', class: 'icon', 'aria-label': 'Dismiss' }, '×');
  close.addEventListener('click', () => { box.hidden = true; });
  const children = [make('p', {}, message), close];
  if (remedy) {
    const button = make('button', { type: 'button', class: 'button' }, remedy.label);
    button.addEventListener('click', remedy.run);
    children.splice(1, 0, button);
  }
  box.hidden = false; // before the text: screen readers may miss an alert that appears with its text
  box.replaceChildren(...children);
  box.scrollIntoView({ block: 'nearest' });
}

/** @param {string} title @param {readonly string[]} sentences */
export function showNotices(title, sentences) {
  const notice = byId('notice');
  notice.hidden = sentences.length === 0;
  notice.replaceChildren(...(title ? [make('p', {}, title)] : []), make('ul', {}, ...sentences.map((sentence) => make('li', {}, sentence))));
}

export function hideMessages() {
  byId('error').hidden = true;
  byId('notice').hidden = true;
}
