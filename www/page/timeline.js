import uPlot from '../vendor/uPlot.esm.js';
import { make } from './dom.js';
import { integer, label, milliseconds, number, quantile } from './format.js';
import { textOf } from './inspector.js';
import { cost, summarise } from './timeline-summary.js';

/** @typedef {import('../types/StepRecord.js').StepRecord} StepRecord */
/** @typedef {import('./timeline-summary.js').Chunk} Chunk */

/** Milliseconds per position: the prefill in its own colour, then one bar per step. */
export class Timeline {
  #parts;
  #onSelect;
  /** @type {Chunk[]} */ #prefill = [];
  /** @type {readonly StepRecord[]} */ #steps = [];
  /** @type {number | null} */ #selected = null;
  /** @type {uPlot | null} */ #plot = null;

  /**
   * @param {{ section: HTMLElement, summary: HTMLElement, plot: HTMLElement, readout: HTMLElement, table: HTMLDetailsElement }} parts
   * @param {(step: number | null) => void} onSelect
   */
  constructor(parts, onSelect) {
    this.#parts = parts;
    this.#onSelect = onSelect;
    new ResizeObserver(() => this.#resize()).observe(parts.plot);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#rebuild());
    matchMedia('(forced-colors: active)').addEventListener('change', () => this.#rebuild());
    parts.table.addEventListener('toggle', () => this.#fillTable());
  }

  /** @param {readonly StepRecord[]} steps filled while the run goes on */
  begin(steps) {
    this.#prefill = [];
    this.#steps = steps;
    this.#selected = null;
    this.#parts.section.hidden = true;
    this.#parts.table.open = false;
  }

  /** A chunk of the prompt. @param {number} to position after its last @param {number} ms */
  prefill(to, ms) {
    this.#prefill.push({ from: this.#prefill.at(-1)?.to ?? 0, to, ms });
  }

  /** Draws everything up to now. */
  update() {
    if (this.#prefill.length === 0) return;
    this.#parts.section.hidden = false;
    this.#parts.summary.textContent = summarise(this.#prefill, this.#steps);
    if (this.#plot) this.#plot.setData(this.#data());
    else this.#rebuild();
    this.#fillTable();
  }

  /** @param {number | null} step */
  select(step) {
    this.#selected = step;
    this.#plot?.redraw(false);
  }

  /** @returns {uPlot.AlignedData} */
  #data() {
    const prompt = this.#prefill.at(-1)?.to ?? 0;
    const positions = Array.from({ length: prompt + this.#steps.length }, (_, position) => position);
    const prefill = positions.map((position) => {
      const chunk = this.#prefill.find(({ to }) => position < to);
      return chunk ? chunk.ms / (chunk.to - chunk.from) : null;
    });
    const decode = positions.map((position) => {
      const record = this.#steps[position - prompt];
      return record && record.step > 0 ? cost(record) : null;
    });
    return [positions, prefill, decode];
  }

  #rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    if (this.#prefill.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    const font = '12px system-ui, sans-serif';
    const { plot } = this.#parts;
    const bars = uPlot.paths.bars?.({ size: [0.82, 14], radius: 0.15 });
    /** @type {uPlot.Axis} */
    const axis = { stroke: colour('muted'), font, ticks: { show: false }, grid: { stroke: colour('line'), width: 1 } };
    this.#plot = new uPlot({
      width: plot.clientWidth,
      height: plot.clientWidth < 500 ? 170 : 220,
      padding: [12, 4, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: (_, min, max) => [min - 0.6, Math.max(max, min + 12) + 0.6] },
        y: { range: (self) => [0, this.#top(self)] },
      },
      axes: [
        { ...axis, grid: { show: false }, space: 60, size: 26, gap: 4, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
        { ...axis, size: 52, gap: 6, space: 36, values: (_, splits) => splits.map((split) => `${number(split)} ms`) },
      ],
      series: [
        {},
        { fill: colour('prefill'), width: 0, ...(bars && { paths: bars }), points: { show: false } },
        { fill: colour('accent'), width: 0, ...(bars && { paths: bars }), points: { show: false } },
      ],
      hooks: {
        draw: [(self) => this.#mark(self, colour('ink'))],
        setCursor: [(self) => this.#read(self.cursor.idx)],
      },
    }, this.#data(), plot);
    this.#plot.over.addEventListener('click', () => {
      const step = this.#stepAt(this.#plot?.cursor.idx);
      if (step !== null) this.#onSelect(step);
    });
  }

  /** The plot's upper end. A single outlier may go beyond it; the readout and the table still show it. @param {uPlot} self */
  #top(self) {
    const values = [...(self.data[1] ?? []), ...(self.data[2] ?? [])].filter((value) => typeof value === 'number');
    if (values.length === 0) return 1;
    return Math.min(Math.max(...values), 4 * quantile(values, 0.9)) * 1.08 || 1;
  }

  /** A frame around the selected step. @param {uPlot} self @param {string} colour */
  #mark({ ctx, bbox, valToPos }, colour) {
    const record = this.#selected === null ? undefined : this.#steps[this.#selected];
    if (!record) return;
    const x = valToPos(record.position, 'x', true);
    ctx.save();
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top + 2);
    ctx.lineTo(x - 5 * devicePixelRatio, bbox.top - 7 * devicePixelRatio);
    ctx.lineTo(x + 5 * devicePixelRatio, bbox.top - 7 * devicePixelRatio);
    ctx.fill();
    ctx.globalAlpha = 0.35;
    ctx.fillRect(x - 0.5, bbox.top, 1, bbox.height);
    ctx.restore();
  }

  /** @param {number | null | undefined} position */
  #stepAt(position) {
    const step = (position ?? -1) - (this.#prefill.at(-1)?.to ?? 0);
    return step >= 0 && step < this.#steps.length ? step : null;
  }

  /** Shows the step under the pointer. @param {number | null | undefined} position */
  #read(position) {
    const step = this.#stepAt(position);
    const record = step === null ? undefined : this.#steps[step];
    this.#parts.readout.textContent = record ? `position ${record.position} “${label(textOf(record))}” ${milliseconds(cost(record))}` : '';
  }

  #resize() {
    const { plot } = this.#parts;
    if (this.#plot && plot.clientWidth > 0 && plot.clientWidth !== this.#plot.width) this.#rebuild();
  }

  /** The table is large, so it is built only while it is open. */
  #fillTable() {
    const { table } = this.#parts;
    if (!table.open) return;
    table.querySelector('.scroll')?.replaceChildren(make('table', {},
      make('thead', {}, make('tr', {}, ...['position', 'token', 'forward, ms', 'sampling, ms'].map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, ...this.#steps.map((record) => make('tr', {},
        make('td', {}, integer(record.position)),
        make('th', { scope: 'row' }, label(textOf(record))),
        make('td', {}, record.step === 0 ? 'prefill' : record.forward_ms.toFixed(2)),
        make('td', {}, record.sample_ms.toFixed(2)))))));
  }
}
