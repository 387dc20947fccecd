// Seeded random choices.

export class Dice {
  /** @param {number} seed */
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** An integer from 0 to below `limit` (mulberry32). @param {number} limit */
  below(limit) {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor(((t ^ (t >>> 14)) >>> 0) / 2 ** 32 * limit);
  }

  /** True with this probability. @param {number} share */
  chance(share) {
    return this.below(1e6) < share * 1e6;
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  of(list) {
    return /** @type {T} */ (list[this.below(list.length)]);
  }

  /** One of the keys, with the probability of its weight. @param {Record<string, number>} weights */
  weighted(weights) {
    let left = this.below(Object.values(weights).reduce((sum, weight) => sum + weight, 0));
    return /** @type {[string, number]} */ (Object.entries(weights).find(([, weight]) => (left -= weight) < 0))[0];
  }
}
