/**
 * How far a load is. `done` never falls within a stage and never passes `total`, which is null where it is unknown.
 * In bytes of the files; what is quantised is quantised as it is read.
 * @typedef {{ stage: 'download' | import('../types/Stage.js').Stage, done: number, total: number | null }} Progress
 */

/**
 * A listener that hears of no step back, and of no total that turned out too small.
 * @param {((progress: Progress) => void) | undefined} onProgress
 * @returns {(progress: Progress) => void}
 */
export function monotone(onProgress) {
  /** @type {Map<Progress['stage'], number>} */ const furthest = new Map();
  return ({ stage, done, total }) => {
    if (done < (furthest.get(stage) ?? 0)) return;
    furthest.set(stage, done);
    onProgress?.({ stage, done, total: total !== null && done > total ? null : total });
  };
}
