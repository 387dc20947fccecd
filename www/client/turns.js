import { Gpt2Error } from './error.js';

/** @typedef {{ what: string, cancelled: () => boolean, left: Promise<void> }} Holder */
/**
 * A place in the queue. `before` resolves when it is the first; null if it already is. The holder must call `leave`.
 * @typedef {{ before: Promise<unknown> | null, leave: () => void }} Turn
 */

/**
 * One request at a time. A second request is refused as `busy`. If the first one was cancelled, the second one waits for
 * its end, which is near.
 */
export class Turns {
  /** @type {Set<Holder>} */ #holders = new Set();

  /** @throws {Gpt2Error} `busy` */
  check() {
    const active = [...this.#holders].find(({ cancelled }) => !cancelled());
    if (active) throw new Gpt2Error('busy', `${active.what} has not ended yet; wait for its end or cancel it first`);
  }

  /**
   * @param {string} what it is, for the sentence that refuses the next request
   * @param {() => boolean} cancelled whether the request was cancelled
   * @param {{ patient?: boolean }} [options] `patient`: waits for all requests before it
   * @returns {Turn}
   * @throws {Gpt2Error} `busy`
   */
  enter(what, cancelled, { patient = false } = {}) {
    if (!patient) this.check();
    const before = [...this.#holders].map(({ left }) => left);
    let leave = () => {};
    const left = /** @type {Promise<void>} */ (new Promise((resolve) => { leave = resolve; }));
    const holder = { what, cancelled, left };
    this.#holders.add(holder);
    return {
      before: before.length > 0 ? Promise.all(before) : null,
      leave: () => {
        this.#holders.delete(holder);
        leave();
      },
    };
  }
}
