/**
 * The way of a delta from the worker's post to the page's handler, and to the frame that shows it. Both clocks count
 * milliseconds since the epoch; a frame counts when the task after its painting runs. A hidden tab has no frames.
 */
export class Hop {
  /** @type {number[]} */ handler = [];
  /** @type {number[]} */ frame = [];
  /** @type {number[]} */ #waiting = [];
  #painted = new MessageChannel();

  constructor() {
    this.#painted.port1.onmessage = () => {
      const now = clock();
      for (const postedAt of this.#waiting.splice(0)) this.frame.push(now - postedAt);
    };
  }

  /** @param {number} postedAt */
  arrived(postedAt) {
    this.handler.push(clock() - postedAt);
    if (this.#waiting.push(postedAt) === 1) requestAnimationFrame(() => this.#painted.port2.postMessage(null));
  }
}

const clock = () => performance.timeOrigin + performance.now();
