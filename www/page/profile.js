import { make } from './dom.js';
import { integer, milliseconds, share } from './format.js';

/** @typedef {import('../types/Profile.js').Profile} Profile */
/** @typedef {import('../types/Identity.js').Identity} Identity */

/** The parts of a step, in the order of its work. @type {[field: Exclude<keyof Profile, 'steps'>, name: string][]} */
const PARTS = [
  ['embedding_ms', 'Embedding'],
  ['attention_ms', 'Attention'],
  ['mlp_ms', 'MLP'],
  ['lm_head_ms', 'Output layer'],
  ['sampling_ms', 'Sampling'],
  ['messages_ms', 'Messages'],
  ['other_ms', 'Other'],
];

/**
 * Shows where the time per token went, or nothing if it was not measured.
 * @param {HTMLDetailsElement} fold @param {Profile | null} profile @param {Identity} [identity] what computed the steps
 */
export function showProfile(fold, profile, identity) {
  fold.hidden = profile === null;
  fold.querySelector('table')?.remove();
  fold.querySelector('p')?.remove();
  if (profile) fold.append(table(profile));
  if (profile && identity) fold.append(make('p', {}, engine(identity)));
}

/** How the products were computed. @param {Identity} identity */
function engine({ kernel, readers, readers_trial }) {
  const [first, ...others] = readers_trial.toSorted((a, b) => b.gb_s - a.gb_s);
  const speed = (/** @type {Identity['readers_trial'][number]} */ { readers, gb_s }) => `${readers} places at ${gb_s.toFixed(1)} GB/s`;
  const tried = first ? ` Tried when the model loaded: ${[first, ...others].map(speed).join(', ')}.` : '';
  return `Kernel: ${kernel}. It reads each matrix in ${readers} places at once.${tried}`;
}

/** @param {Profile} profile */
function table(profile) {
  const times = PARTS.map(([field]) => profile[field]);
  const total = times.reduce((sum, ms) => sum + ms, 0);
  const longest = Math.max(...times);
  const steps = `${integer(profile.steps)} step${profile.steps === 1 ? '' : 's'}`;
  return make('table', { class: 'profile' },
    make('caption', {}, `${milliseconds(total)} per token on average (${steps}).`),
    make('thead', {}, make('tr', {},
      make('th', { scope: 'col' }, 'stage'),
      make('td', { 'aria-hidden': 'true' }),
      make('th', { scope: 'col' }, 'ms per step'),
      make('th', { scope: 'col' }, 'share'))),
    make('tbody', {}, ...PARTS.map(([field, name]) => row(name, profile[field], total, bar(profile[field] / longest)))),
    make('tfoot', {}, row('Total', total, total)));
}

/** @param {string} name @param {number} ms @param {number} total @param {HTMLElement[]} bars */
function row(name, ms, total, ...bars) {
  return make('tr', {},
    make('th', { scope: 'row' }, name),
    make('td', { 'aria-hidden': 'true' }, ...bars),
    make('td', {}, hundredths(ms)),
    make('td', {}, share(ms / total)));
}

/** @param {number} length in widths of the longest */
function bar(length) {
  const bar = make('span', { class: 'bar' });
  bar.style.setProperty('--share', String(length));
  return bar;
}

/** Always two decimals, so that the points align. @param {number} ms */
const hundredths = (ms) => (ms > 0 && ms < 0.005 ? '< 0.01' : ms.toFixed(2));
