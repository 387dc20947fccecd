/**
 * Which token a piece of streamed text belongs to.
 *
 * A delta is not a token: text is held back while it may become a stop string, and the bytes of one character may come
 * in several tokens. The bytes in the step records say where each token ends in the text; a character belongs to the
 * token that completes it.
 */
export class TokenSpans {
  // Replaces each maximal invalid part by one U+FFFD, as the worker's decoder does.
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  /** @type {number[]} Where the text of each step ends, in UTF-16 units. */ #ends = [];
  #emitted = 0;
  #step = 0;

  /** The next token's bytes. @param {readonly number[]} bytes */
  add(bytes) {
    const text = this.#decoder.decode(new Uint8Array(bytes), { stream: true });
    this.#ends.push((this.#ends.at(-1) ?? 0) + text.length);
  }

  /**
   * The next emitted text, cut at the ends of the tokens added so far. What lies beyond them (the U+FFFD for a tail
   * that never completed) belongs to the last.
   * @param {string} text
   * @returns {{ step: number, text: string }[]}
   */
  take(text) {
    const pieces = [];
    while (text) {
      while (this.#step < this.#ends.length - 1 && this.#end() <= this.#emitted) this.#step++;
      const last = this.#step >= this.#ends.length - 1;
      const length = last ? text.length : Math.min(text.length, this.#end() - this.#emitted);
      pieces.push({ step: this.#step, text: text.slice(0, length) });
      this.#emitted += length;
      text = text.slice(length);
    }
    return pieces;
  }

  #end() {
    return this.#ends[this.#step] ?? Infinity;
  }
}
