/** Counts how often the tab was hidden or shown. */
let turns = 0;
document.addEventListener('visibilitychange', () => { turns++; });

/** To run in the task after a frame's painting. @type {(() => void)[]} */
const afterPainting = [];
// One channel for all runs: a port that listens is never collected.
const { port1, port2 } = new MessageChannel();
port1.onmessage = () => afterPainting.shift()?.();

/**
 * How long a delta takes from the worker's post to the page's handler, and to the frame that shows it. Both clocks count
 * milliseconds since the epoch. A frame counts as shown when the task after its painting runs. A hidden tab has no
 * frames: a delta that arrives in one, or waits while the tab is hidden or shown, is not measured.
 */
export class Latency {
  /** @type {number[]} */ handler = [];
  /** @type {number[]} */ frame = [];
  /** @type {{ postedAt: number, turn: number }[]} */ #waiting = [];

  /** @param {number} postedAt */
  arrived(postedAt) {
    this.handler.push(clock() - postedAt);
    if (document.hidden) return;
    if (this.#waiting.push({ postedAt, turn: turns }) === 1) requestAnimationFrame(() => {
      afterPainting.push(() => this.#painted());
      port2.postMessage(null);
    });
  }

  #painted() {
    const now = clock();
    for (const { postedAt, turn } of this.#waiting.splice(0)) if (turn === turns) this.frame.push(now - postedAt);
  }
}

const clock = () => performance.timeOrigin + performance.now();
