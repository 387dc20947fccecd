// Other systems, each on one thread with the 124M shape. `./build.sh bench --peers` measures them in the same rounds as
// this project. To measure only them, without limits:
//
//     node benches/peers/peers.mjs [--only REGEX] [--rounds N] [--quick] [--json FILE]
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { summarise, table } from '../browser/summary.mjs';
import * as browsers from './browsers.mjs';
import * as native from './native.mjs';

/** @param {{ quick: boolean }} options @returns {import('./samples.mjs').Subject[]} */
export function subjects(options) {
  return [...native.subjects(options), ...browsers.subjects(options)].map((subject) => ({
    ...subject,
    // If one system fails, the results of the others remain.
    round: () => subject.round().catch((error) => {
      console.error(`${subject.system}, ${subject.precision}, failed: ${error.message}`);
      return [];
    }),
  }));
}

async function alone() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' }, rounds: { type: 'string', default: '3' },
      quick: { type: 'boolean', default: false }, json: { type: 'string' },
    },
  });
  const folder = fileURLToPath(new URL('../../target/bench', import.meta.url));
  const only = new RegExp(values.only);
  const chosen = subjects(values).filter(({ system, precision }) => only.test(`${system} ${precision}`));
  for (const subject of chosen) await subject.prepare(folder);
  const samples = [];
  for (let round = 1; round <= Number(values.rounds); round++) {
    for (const subject of chosen) {
      console.error(`round ${round} of ${values.rounds}: ${subject.system}, ${subject.precision}`);
      samples.push(...await subject.round());
    }
  }
  const results = summarise(samples, []);
  console.log(table(results));
  if (values.json) await writeFile(values.json, `${JSON.stringify({ results }, null, 2)}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await alone();
