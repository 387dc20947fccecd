/** Locks for stored models: one tab at a time (Web Locks). */

/**
 * Runs `action` while no other tab loads or deletes the same model: a second download waits and finds it stored.
 * @template T @param {string} id @param {() => Promise<T>} action @param {AbortSignal} [signal] ends the wait
 * @returns {Promise<T>}
 */
export const withLock = (id, action, signal) => request(id, { ...(signal && { signal }) }, action);

/** Runs `action` with the lock, or not at all if another tab has it. @param {string} id @param {() => Promise<void>} action */
export const ifUnlocked = (id, action) => request(id, { ifAvailable: true }, async (lock) => { if (lock) await action(); });

/**
 * @template T @param {string} id @param {LockOptions} options @param {(lock: unknown) => Promise<T>} action
 * @returns {Promise<T>}
 */
async function request(id, options, action) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return action({});
  /** @type {Promise<T> | undefined} */ let running;
  try {
    await locks.request(`gpt2-web-models/${id}`, options, (lock) => (running = action(lock)));
  } catch (cause) {
    if (!running) {
      if (options.signal?.aborted || !(cause instanceof DOMException)) throw cause;
      // A page without an origin, as in a sandboxed frame, has no locks, and no storage that two tabs could share.
      return action({});
    }
  }
  // A stolen lock ends before the action, which continues. This throws the action's own failure.
  return /** @type {Promise<T>} */ (running);
}
