import { Gpt2Error } from './error.js';

/** @typedef {{ what: string, leaving: () => boolean, left: Promise<void> }} Present */
/**
 * A place in the order. `before` resolves when it is the first; null where it is already. Who has it must leave it.
 * @typedef {{ before: Promise<unknown> | null, leave: () => void }} Turn
 */

/**
 * One at a time. Whoever comes while another works is refused as `busy`, unless that one is leaving, because it was
 * cancelled: then one waits for its end, which is near.
 */
export class Turns {
  /** @type {Set<Present>} */ #present = new Set();

  /** @throws {Gpt2Error} `busy` */
  check() {
    const wanted = [...this.#present].find(({ leaving }) => !leaving());
    if (wanted) throw new Gpt2Error('busy', `${wanted.what} is in progress; wait for it to finish or cancel it first`);
  }

  /**
   * @param {string} what it is, for the sentence that refuses the next one
   * @param {() => boolean} leaving whether its end was asked for
   * @param {{ patient?: boolean }} [options] `patient`: waits for whoever is there
   * @returns {Turn}
   * @throws {Gpt2Error} `busy`
   */
  enter(what, leaving, { patient = false } = {}) {
    if (!patient) this.check();
    const before = [...this.#present].map(({ left }) => left);
    let leave = () => {};
    const left = /** @type {Promise<void>} */ (new Promise((resolve) => { leave = resolve; }));
    const present = { what, leaving, left };
    this.#present.add(present);
    return {
      before: before.length > 0 ? Promise.all(before) : null,
      leave: () => {
        this.#present.delete(present);
        leave();
      },
    };
  }
}
