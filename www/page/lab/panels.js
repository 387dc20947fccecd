/** Every panel, by the name of its experiment. */

import { cancel } from './panels/cancel.js';
import { check } from './panels/check.js';
import { eos } from './panels/eos.js';
import { greedy } from './panels/greedy.js';
import { holdBack } from './panels/hold-back.js';
import { inside } from './panels/inside.js';
import { latency } from './panels/latency.js';
import { lengths } from './panels/lengths.js';
import { naive } from './panels/naive.js';
import { oneWord } from './panels/one-word.js';
import { precision } from './panels/precision.js';
import { sampledCheck } from './panels/sampled-check.js';
import { sampling } from './panels/sampling.js';
import { sweep } from './panels/sweep.js';
import { tokens } from './panels/tokens.js';
import { trace } from './panels/trace.js';

/** @type {ReadonlyMap<string, import('./panel.js').PanelSpec<any, any>>} */
export const PANELS = new Map([
  trace, naive, check, latency, sweep, sampling, greedy, oneWord, sampledCheck, eos, lengths, cancel, holdBack, tokens, inside, precision,
].map((panel) => [panel.name, panel]));
