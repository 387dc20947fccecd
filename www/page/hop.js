/** Counts how often the tab was hidden or shown. */
let turns = 0;
document.addEventListener('visibilitychange', () => { turns++; });

/**
 * The way of a delta from the worker's post to the page's handler, and to the frame that shows it. Both clocks count
 * milliseconds since the epoch; a frame counts when the task after its painting runs. A hidden tab has no frames: what
 * arrives in it, or waits when it is hidden or shown, is not measured.
 */
export class Hop {
  /** @type {number[]} */ handler = [];
  /** @type {number[]} */ frame = [];
  /** @type {{ postedAt: number, turn: number }[]} */ #waiting = [];
  #painted = new MessageChannel();

  constructor() {
    this.#painted.port1.onmessage = () => {
      const now = clock();
      for (const { postedAt, turn } of this.#waiting.splice(0)) if (turn === turns) this.frame.push(now - postedAt);
    };
  }

  /** @param {number} postedAt */
  arrived(postedAt) {
    this.handler.push(clock() - postedAt);
    if (document.hidden) return;
    if (this.#waiting.push({ postedAt, turn: turns }) === 1) requestAnimationFrame(() => this.#painted.port2.postMessage(null));
  }
}

const clock = () => performance.timeOrigin + performance.now();
