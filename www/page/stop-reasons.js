import { escapeStop } from './escapes.js';
import { integer, milliseconds } from './format.js';

/** Each stop reason in a sentence. @param {import('../types/Record').Record} record @returns {string} */
export function explain({ stop, settings, positions_processed }) {
  switch (stop?.reason) {
    case undefined: return 'The run failed here; what it had written until then is kept.';
    case 'eos': return 'The model chose its end-of-text token: to it, the text is complete.';
    case 'stop_string': return `The text reached “${escapeStop(stop?.stop_string ?? '')}”, which you asked to stop at; it is not part of the output.`;
    case 'max_tokens': return `That is as many tokens as you asked for: ${integer(settings.max_tokens)}.`;
    case 'context_full': return `All ${integer(positions_processed)} positions of the context are taken; this model cannot look further.`;
    case 'cancelled': return 'You stopped it.';
    case 'timeout': return `The time you allowed is used up: ${milliseconds(settings.timeout_ms ?? 0)}.`;
  }
}
