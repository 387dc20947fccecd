// A TypeScript program that uses the client, checked with the strictest options. Each `@ts-expect-error` marks a mistake that
// the types must catch: if the next line is no error, the check fails.
import { Gpt2Error, Gpt2Web, findings, type CatalogEntry, type Findings, type GenerateOptions, type Loaded, type RunEvent } from '../../target/types/gpt2-web.js';

const gpt2 = new Gpt2Web({ base: '/gpt2-web/', stall_ms: 0 });
const loaded: Loaded = await gpt2.loadEmbedded({ onProgress: ({ stage, done, total }) => console.log(stage, done / (total ?? done)) });
const layers: number = loaded.model.n_layer;
const options: GenerateOptions = { max_tokens: 60, temperature: 0, stop: ['\n'], seed: layers };

for await (const text of gpt2.text('Once upon a time', options)) text.toUpperCase();
for await (const event of gpt2.generate('Once upon a time', { ...options, signal: new AbortController().signal })) {
  switch (event.type) {
    case 'delta': event.text.trim(); break;
    case 'step': event.alternatives.map(({ id, logprob }) => id + logprob); break;
    case 'done': event.record.identity.kernel.length; event.stop.reason satisfies string; break;
  }
  // @ts-expect-error: there is no event of this type
  if (event.type === 'dome') break;
  // @ts-expect-error: text is a string
  if (event.type === 'delta') event.text.toFixed();
}

const rows: Findings['rows'] = [];
for await (const event of gpt2.experiment('check', { n: 8 })) {
  if (event.type === 'row') rows.push(event.row);
  if (event.type === 'experiment_done') findings(event, rows).conditions['model'];
}

// @ts-expect-error: there is no option of this name
gpt2.generate('a', { temperture: 7 });
// @ts-expect-error: the prompt is text
gpt2.generate(5);
// @ts-expect-error: there is no such precision
await gpt2.loadRepo('openai-community/gpt2', { precision: 'f64' });

await gpt2.load({ name: 'mine', files: [new File([], 'model.gguf')] }).catch((error: unknown) => {
  if (error instanceof Gpt2Error && error.kind === 'not_a_model') console.log(error.message, error.record?.text);
});
const entries: readonly CatalogEntry[] = await gpt2.catalog();
gpt2.onhashed = ({ model_sha256 }) => console.log(model_sha256?.length, entries.length);
export const last = (events: RunEvent[]): RunEvent | undefined => events.at(-1);
