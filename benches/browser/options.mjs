// The options of `./build.sh bench`.
import { open } from 'node:fs/promises';
import { parseArgs } from 'node:util';

/** @param {string} message @returns {never} */
export function usage(message) {
  console.error(`build.sh bench: ${message}`);
  process.exit(2);
}

/**
 * @param {string[]} given
 * @returns {Promise<{ site: string, probe: string, json: string | undefined, only: RegExp | null, rounds: number, quick: boolean, peers: boolean }>}
 */
export async function options(given) {
  try {
    const { values } = parseArgs({
      args: given,
      options: {
        site: { type: 'string' },
        probe: { type: 'string' },
        json: { type: 'string' },
        only: { type: 'string' },
        rounds: { type: 'string' },
        quick: { type: 'boolean', default: false },
        peers: { type: 'boolean', default: false },
      },
    });
    const { site, probe, json, only, quick, peers } = values;
    if (!site) usage('--site is missing: the folder of the assembled page');
    if (!probe) usage('--probe is missing: the folder of the compiled probe');
    const rounds = Number(values.rounds ?? (quick ? 1 : 3));
    if (!Number.isInteger(rounds) || rounds < 1) usage(`--rounds takes a whole number from 1, not '${values.rounds}'`);
    // Fail before the measurements instead of after them.
    if (json) await (await open(json, 'a')).close();
    return { site, probe, json, only: only === undefined ? null : new RegExp(only), rounds, quick, peers };
  } catch (error) {
    return usage(/** @type {Error} */ (error).message);
  }
}
