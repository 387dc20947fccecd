import { escapeStop } from './escapes.js';
import { integer, milliseconds } from './format.js';

/** Why the run ended, in a sentence. @param {import('../types/Record.js').Record} record @returns {string} */
export function explain({ stop, settings, positions_processed }) {
  switch (stop?.reason) {
    case undefined: return 'The run failed here. The text it wrote is kept.';
    case 'eos': return 'The model produced its end-of-text token: it considers the text finished.';
    case 'stop_string': return `Stopped at “${escapeStop(stop?.stop_string ?? '')}”. The stop string is left out of the output.`;
    case 'max_tokens': return `Reached the limit of ${integer(settings.max_tokens)} token${settings.max_tokens === 1 ? '' : 's'}.`;
    case 'context_full': return `The context window is full (${integer(positions_processed)} positions).`;
    case 'cancelled': return 'Stopped by you.';
    case 'timeout': return `Reached the time limit of ${milliseconds(settings.timeout_ms ?? 0)}.`;
  }
}
