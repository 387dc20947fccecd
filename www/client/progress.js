/**
 * The progress of a load, in bytes of the files. Within a stage `done` never falls. It never exceeds `total`, which is null
 * if it is unknown.
 * @typedef {{ stage: 'download' | import('../types/Stage.js').Stage, done: number, total: number | null }} Progress
 */

/**
 * Wraps a listener: `done` never falls, and a `total` that was too small becomes null.
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
