/** Parts that several panels show: tokens, figures, tables. */

import { make } from '../dom.js';
import { integer, label, number } from '../format.js';

/** @typedef {{ value: string, what: string, note?: string }} Figure */
/**
 * A column of a table. `of` returns what to show; numbers are formatted.
 * @template R
 * @typedef {{ name: string, of: (row: R) => string | number | boolean | null | Node, text?: boolean }} Column
 */

/** The answer in a few numbers. @param {readonly Figure[]} figures */
export const figuresList = (figures) => make('dl', { class: 'lab-figures' },
  ...figures.map(({ value, what, note }) => make('div', {}, make('dt', {}, what), make('dd', {}, make('b', {}, value), ...(note ? [make('small', {}, note)] : [])))));

/** @template R @param {readonly R[]} rows @param {readonly Column<R>[]} columns @param {string} caption */
export function table(rows, columns, caption) {
  const cell = (/** @type {R} */ row, /** @type {Column<R>} */ { of, text }, /** @type {number} */ place) => {
    const value = of(row);
    const shown = value === null ? '–' : typeof value === 'number' ? number(value) : typeof value === 'boolean' ? (value ? 'yes' : 'no') : value;
    return place === 0 ? make('th', { scope: 'row', class: text ? 'text' : undefined }, shown) : make('td', { class: text ? 'text' : undefined }, shown);
  };
  return make('div', { class: 'scroll lab-scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    make('table', {},
      make('caption', { class: 'visually-hidden' }, caption),
      make('thead', {}, make('tr', {}, ...columns.map(({ name, text }) => make('th', { scope: 'col', class: text ? 'text' : undefined }, name)))),
      make('tbody', {}, ...rows.map((row) => make('tr', {}, ...columns.map((column, place) => cell(row, column, place)))))));
}

/** A token as a chip, its white space visible. @param {string} text @param {string} [kind] */
export const chip = (text, kind = '') => make('span', { class: `chip ${kind}`.trim() }, text === '' ? '∅' : label(text));

/** A factor: 28×. @param {number} factor */
export const times = (factor) => `${factor >= 100 ? integer(Math.round(factor)) : factor >= 10 ? factor.toFixed(0) : factor.toFixed(1)}×`;

/** Milliseconds in a table or a figure. @param {number} ms */
export const ms = (ms) => (ms < 0.0095 ? '< 0.01 ms' : ms >= 10_000 ? `${number(ms / 1000)} s` : ms >= 100 ? `${integer(Math.round(ms))} ms` : `${number(Number(ms.toPrecision(3)))} ms`);

/** @param {number} share from 0 to 1 */
export const percent = (share) => {
  if (share === 0) return '0 %';
  const percents = 100 * share;
  if (percents > 0 && percents < 0.01) return power(share);
  return `${percents >= 99.95 ? percents.toFixed(0) : percents >= 10 ? percents.toFixed(0) : percents >= 1 ? percents.toFixed(1) : percents.toFixed(2)} %`;
};

/** A small number as a power of ten. @param {number} value */
export function power(value) {
  const exponent = Math.round(Math.log10(value));
  return `10${String(exponent).replace(/[-\d]/g, (sign) => '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'.charAt(sign === '-' ? 0 : Number(sign) + 1))}`;
}

/** @param {string} text at most this many characters of it @param {number} [most] */
export const short = (text, most = 60) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** Something to put on a slide: a picture and its caption. @param {string | Node} caption @param {...Node} content */
export const figure = (caption, ...content) => make('figure', {}, ...content, make('figcaption', {}, caption));

/** @param {string} word @param {number} count */
export const many = (count, word) => `${integer(count)} ${word}${count === 1 ? '' : 's'}`;
