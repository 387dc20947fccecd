// Decodes and decompresses one part in a worker, so that the page stays responsive.
import { decode } from './base64.mjs';

self.onmessage = async ({ data: { text, size } }) => {
  try {
    const parts = decode(text);
    const packed = new ReadableStream({
      pull(controller) {
        const { value, done } = parts.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    const whole = new Uint8Array(size);
    let done = 0;
    const reader = packed.pipeThrough(new DecompressionStream('gzip')).getReader();
    for (let part; !(part = await reader.read()).done; ) {
      whole.set(part.value, done);
      done += part.value.length;
      self.postMessage({ done });
    }
    self.postMessage({ whole: whole.buffer }, { transfer: [whole.buffer] });
  } catch (error) {
    self.postMessage({ error: `a part of this file is damaged: ${/** @type {Error} */ (error).message}` });
  }
};
