/** Charts as SVG: text keeps its size whatever the width, colours follow the theme, and print and export are the same. */

import ticks from '../../vendor/d3-ticks.js';
import { make } from '../dom.js';
import { number } from '../format.js';
import { svg } from './svg.js';

/** @typedef {'accent' | 'warm' | 'ink' | 'quiet'} Tone */
/** @typedef {readonly [x: number, y: number]} Point */
/**
 * @typedef {object} Series
 * @property {'line' | 'dots' | 'steps'} kind
 * @property {readonly Point[]} points
 * @property {Tone} tone
 * @property {string} [label] written beside its last point
 * @property {boolean} [dashed]
 * @property {readonly (readonly [low: number, high: number])[]} [ranges] of the points
 */
/** @typedef {{ kind: 'bars', bars: readonly { from: number, to: number, y: number, title?: string, tone?: Tone }[], tone: Tone, label?: string }} Bars */
/** @typedef {{ kind: 'rule', tone: Tone, label: string, x?: number, y?: number }} Rule */
/**
 * @typedef {object} Axis
 * @property {string} title with its unit
 * @property {number} [min]
 * @property {number} [max]
 * @property {boolean} [log] powers of ten
 * @property {readonly number[]} [at] ticks
 * @property {(value: number) => string} [format]
 */
/** @typedef {{ title: string, x: Axis, y: Axis, marks: readonly (Series | Bars | Rule)[], height?: number }} Chart */

const FONT = 12;
/** Space around the plot, for ticks and titles. @param {Pick<Chart, 'x' | 'y'>} chart */
const marginOf = ({ x, y }) => ({ top: y.title ? 22 : 8, right: 14, bottom: x.title ? 40 : 24, left: 46 });
/** Below this width labels of series stand above the chart and not in it. */
const NARROW = 520;

/** Redraws charts whose width changes. */
const watched = /** @type {WeakMap<Element, (width: number) => void>} */ (new WeakMap());
const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) if (contentRect.width > 0) watched.get(target)?.(contentRect.width);
});

/** @param {Chart} chart @returns {HTMLElement} a drawing that fills its width, and a line that says what is under the pointer */
export function chart(chart) {
  const drawing = make('div', { class: 'chart' });
  const readout = make('p', { class: 'chart-readout', 'aria-hidden': 'true' });
  const frame = make('div', { class: 'chart-frame' }, drawing, readout);
  let drawn = 0;
  watched.set(drawing, (width) => {
    if (Math.round(width) === drawn) return;
    drawn = Math.round(width);
    drawing.replaceChildren(...draw(chart, drawn, readout));
  });
  observer.observe(drawing);
  return frame;
}

/** @param {Chart} chart @param {number} width @param {HTMLElement} readout */
function draw({ title, x, y, marks, height = 260 }, width, readout) {
  const narrow = width < NARROW;
  const MARGIN = marginOf({ x, y });
  const xs = scale(x, values(marks, 0), [MARGIN.left, width - MARGIN.right]);
  const ys = scale(y, values(marks, 1), [height - MARGIN.bottom, MARGIN.top]);
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title, class: 'chart-drawing' });
  for (const at of y.at ?? ys.ticks(narrow ? 4 : 5)) {
    root.append(
      svg('line', { class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: ys.place(at), y2: ys.place(at) }),
      svg('text', { class: 'tick', x: MARGIN.left - 8, y: ys.place(at) + 4, 'text-anchor': 'end' }, (y.format ?? number)(at)));
  }
  for (const at of x.at ?? xs.ticks(Math.max(2, Math.floor(width / 110)))) {
    root.append(svg('text', { class: 'tick', x: xs.place(at), y: height - MARGIN.bottom + 18, 'text-anchor': 'middle' }, (x.format ?? number)(at)));
  }
  root.append(
    svg('text', { class: 'axis', x: 0, y: 10 }, y.title),
    svg('text', { class: 'axis', x: width - MARGIN.right, y: height - 4, 'text-anchor': 'end' }, x.title));

  /** @type {{ text: string, x: number, y: number, tone: Tone, end: boolean }[]} */ const labels = [];
  for (const mark of marks) {
    if (mark.kind === 'bars') {
      for (const { from, to, y: value, title, tone } of mark.bars) {
        const [left, right] = [xs.place(from), xs.place(to)];
        const top = ys.place(value);
        const gap = Math.min(2, (right - left) / 4);
        root.append(svg('rect', { class: `bar-${tone ?? mark.tone}`, x: left + gap / 2, width: Math.max(right - left - gap, 1), y: top, height: Math.max(ys.place(ys.low) - top, 0) },
          ...(title ? [svg('title', {}, title)] : [])));
      }
    } else if (mark.kind === 'rule') {
      const at = mark.x === undefined ? { y1: ys.place(mark.y ?? 0), y2: ys.place(mark.y ?? 0), x1: MARGIN.left, x2: width - MARGIN.right }
        : { x1: xs.place(mark.x), x2: xs.place(mark.x), y1: MARGIN.top, y2: height - MARGIN.bottom };
      root.append(svg('line', { class: `rule ${mark.tone}`, ...at }));
      if (mark.x === undefined) labels.push({ text: mark.label, x: at.x2, y: at.y1 - 5, tone: mark.tone, end: true });
      else labels.push({ text: mark.label, x: at.x1 + (at.x1 > width / 2 ? -6 : 6), y: MARGIN.top + 10, tone: mark.tone, end: at.x1 > width / 2 });
    } else {
      const points = mark.points.filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py) && (!y.log || py > 0));
      const placed = points.map(([px, py]) => [xs.place(px), ys.place(py)]);
      if (mark.kind === 'dots') for (const [cx, cy] of placed) root.append(svg('circle', { class: `dot-${mark.tone}`, cx, cy, r: points.length > 120 ? 1.6 : 3.2 }));
      else {
        const path = placed.map(([px, py], place) => (mark.kind === 'steps' && place > 0 ? `H${px}V${py}` : `${place ? 'L' : 'M'}${px} ${py}`)).join('');
        root.append(svg('path', { class: `line ${mark.tone}${mark.dashed ? ' dashed' : ''}`, d: path }));
      }
      for (const [place, range] of (mark.ranges ?? []).entries()) {
        const px = placed[place]?.[0];
        root.append(svg('line', { class: `range ${mark.tone}`, x1: px, x2: px, y1: ys.place(range[0]), y2: ys.place(range[1]) }));
      }
      const last = placed.at(-1);
      if (mark.label && last) labels.push({ text: mark.label, x: last[0] ?? 0, y: (last[1] ?? 0) - 7, tone: mark.tone, end: true });
    }
  }
  const legend = narrow && labels.length > 1;
  if (legend) labels.length = 0;
  for (const { text, x, y, tone, end } of apart(labels, MARGIN.top, height - MARGIN.bottom)) {
    root.append(svg('text', { class: `label ${tone}`, x, y, 'text-anchor': end ? 'end' : 'start' }, text));
  }
  follow(root, { marks, xs, ys, width, height, x, y }, readout);
  return legend ? [key(marks), root] : [root];
}

/** The labels of the series, above a narrow chart. @param {Chart['marks']} marks */
function key(marks) {
  return make('p', { class: 'chart-key' }, ...marks.flatMap(({ label, tone, kind }) => (label
    ? [make('span', {}, make('i', { class: `key-${tone}${kind === 'rule' ? ' key-rule' : ''}`, 'aria-hidden': 'true' }), label), ' '] : [])));
}

/** Moves labels up that would stand on one another. @template {{ text: string, x: number, y: number, end: boolean }} T @param {T[]} labels @param {number} top @param {number} bottom */
function apart(labels, top, bottom) {
  const wide = (/** @type {T} */ { text }) => text.length * FONT * 0.56;
  const placed = /** @type {T[]} */ ([]);
  for (const label of [...labels].sort((a, b) => b.y - a.y)) {
    const left = (/** @type {T} */ one) => (one.end ? one.x - wide(one) : one.x);
    let y = Math.min(Math.max(label.y, top), bottom - 4);
    for (const other of placed) {
      const beside = left(label) + wide(label) < left(other) || left(other) + wide(other) < left(label);
      if (!beside && Math.abs(other.y - y) < FONT + 3) y = other.y - FONT - 3;
    }
    placed.push({ ...label, y });
  }
  return placed;
}

/**
 * @param {Axis} axis @param {readonly number[]} values @param {readonly [number, number]} pixels
 * @returns {{ low: number, high: number, place: (value: number) => number, invert: (pixel: number) => number, ticks: (count: number) => number[] }}
 */
function scale({ min, max, log = false }, values, [from, to]) {
  const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let low = min ?? Math.min(...finite, ...(log ? [] : [Infinity]));
  let high = max ?? Math.max(...finite);
  if (!Number.isFinite(low)) low = 0;
  if (!Number.isFinite(high)) high = low + 1;
  if (high <= low) high = low + (log ? 9 * low : 1);
  const to01 = log ? (/** @type {number} */ value) => Math.log10(Math.max(value, low) / low) / Math.log10(high / low) : (/** @type {number} */ value) => (value - low) / (high - low);
  const from01 = log ? (/** @type {number} */ share) => low * (high / low) ** share : (/** @type {number} */ share) => low + share * (high - low);
  return {
    low, high,
    place: (value) => from + to01(value) * (to - from),
    invert: (pixel) => from01((pixel - from) / (to - from)),
    ticks: (count) => {
      if (!log) return ticks(low, high, count);
      const powers = ticks(Math.log10(low), Math.log10(high), count).filter((power) => Number.isInteger(power));
      return powers.map((power) => 10 ** power);
    },
  };
}

/** All values of one dimension. @param {Chart['marks']} marks @param {0 | 1} dimension */
function values(marks, dimension) {
  return marks.flatMap((mark) => {
    if (mark.kind === 'bars') return mark.bars.flatMap(({ from, to, y }) => (dimension === 0 ? [from, to] : [0, y]));
    if (mark.kind === 'rule') return [dimension === 0 ? mark.x : mark.y].filter((value) => value !== undefined);
    return [...mark.points.map((point) => point[dimension]), ...(dimension === 1 ? (mark.ranges ?? []).flat() : [])];
  });
}

/**
 * Says below the chart what is under the pointer.
 * @param {SVGSVGElement} root
 * @param {{ marks: Chart['marks'], xs: ReturnType<typeof scale>, ys: ReturnType<typeof scale>, width: number, height: number, x: Axis, y: Axis }} parts
 * @param {HTMLElement} readout
 */
function follow(root, { marks, xs, width, height, x, y }, readout) {
  const series = marks.flatMap((mark) => (mark.kind === 'line' || mark.kind === 'dots' || mark.kind === 'steps' ? [mark] : []));
  const bars = marks.flatMap((mark) => (mark.kind === 'bars' ? mark.bars : []));
  const MARGIN = marginOf({ x, y });
  const line = svg('line', { class: 'pointer', y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: 'hidden' });
  root.append(line);
  const show = (/** @type {(value: number) => string} */ format, /** @type {number} */ value) => format(value);
  root.addEventListener('pointermove', ({ clientX }) => {
    const box = root.getBoundingClientRect();
    const at = xs.invert(((clientX - box.left) / box.width) * width);
    const nearest = (/** @type {readonly Point[]} */ points) => points.reduce((/** @type {Point | undefined} */ best, point) => (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), undefined);
    const found = series.flatMap(({ points, label }) => {
      const point = nearest(points);
      return point ? [{ point, label }] : [];
    });
    const bar = bars.find(({ from, to }) => at >= from && at < to);
    const first = found[0]?.point[0] ?? (bar ? (bar.from + bar.to) / 2 : undefined);
    line.setAttribute('visibility', first === undefined ? 'hidden' : 'visible');
    if (first === undefined) return;
    line.setAttribute('x1', String(xs.place(first)));
    line.setAttribute('x2', String(xs.place(first)));
    const texts = found.map(({ point, label }) => `${label ? `${label}: ` : ''}${show(y.format ?? number, point[1])}`);
    readout.textContent = bar && texts.length === 0 ? bar.title ?? '' : `${x.title} ${show(x.format ?? number, first)}  ·  ${texts.join('  ·  ')}`;
  });
  root.addEventListener('pointerleave', () => {
    line.setAttribute('visibility', 'hidden');
    readout.textContent = '';
  });
}
