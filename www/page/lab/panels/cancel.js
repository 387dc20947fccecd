import { make } from '../../dom.js';
import { integer } from '../../format.js';
import { chart } from '../chart.js';
import { figure, ms, percent } from '../pieces.js';

/** @typedef {import('../../../types/CancelRow.js').CancelRow} CancelRow */
/** @typedef {import('../../../types/CancelSummary.js').CancelSummary} CancelSummary */

/** @type {import('../panel.js').PanelSpec<CancelRow, CancelSummary>} */
export const cancel = {
  name: 'cancel',
  lead: 'A run is cancelled at a random moment, many times. The step that is running must end first. How long does that take, and what is saved if the runs of readers who left are ended?',
  first: ['prompt', 'n', 'runs', 'abandoned'],
  figures(_, { latency, step_ms, saved_share, abandoned, readers, overshoot_ms, timeout_ms }) {
    return [
      { value: ms(latency.median), what: 'from cancel to end, median', note: `at most ${ms(latency.max)}; a step takes ${ms(step_ms)}` },
      { value: percent(saved_share), what: 'of the work saved', note: `${integer(abandoned)} of ${integer(readers)} readers leave` },
      { value: ms(Math.max(0, overshoot_ms)), what: 'late', note: `with a time limit of ${ms(timeout_ms)}, less than a step` },
    ];
  },
  draw(rows, { step_ms, suffix, with_prefix, without_prefix }) {
    const drawing = chart({
      title: 'Time from cancel to end, by the moment of the cancel',
      height: 220,
      x: { title: 'cancelled after, ms', min: 0 },
      y: { title: 'milliseconds from cancel to end', min: 0 },
      marks: [
        { kind: 'rule', y: step_ms, tone: 'quiet', label: `one step: ${ms(step_ms)}` },
        { kind: 'dots', tone: 'accent', points: rows.map(({ cancelled_at_ms, latency_ms }) => /** @type {const} */ ([cancelled_at_ms, latency_ms])) },
      ],
    });
    const line = (/** @type {string} */ what, /** @type {string} */ before, /** @type {string} */ after) => make('div', {}, make('dt', {}, what), make('dd', {}, before, make('b', {}, after)));
    return [
      figure('Each dot is a cancelled run.', drawing),
      figure('A step cannot be skipped: the same few tokens go on differently without the text before them.', make('dl', { class: 'lab-lines' },
        line('after the whole text', `…${suffix}`, with_prefix),
        line('after these tokens alone', suffix, without_prefix))),
    ];
  },
  columns: [
    { name: 'run', of: ({ run }) => run + 1 },
    { name: 'cancelled after, ms', of: ({ cancelled_at_ms }) => cancelled_at_ms },
    { name: 'steps before', of: ({ steps_before }) => steps_before },
    { name: 'steps done', of: ({ done_steps }) => done_steps },
    { name: 'of', of: ({ asked_steps }) => asked_steps },
    { name: 'cancel to end, ms', of: ({ latency_ms }) => latency_ms.toFixed(2) },
  ],
  read: 'A cancel waits for the step that is running, half a step on average. A time limit is checked between steps too, so one that is shorter than a step still lets that step end. Who does not pass a reader’s cancel on to the model pays for text that nobody reads.',
  not: 'the time that a message takes from the page to the worker. The readers who leave are played through with random numbers; the model does not run for them.',
};
