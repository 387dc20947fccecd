/** What a 32-bit WebAssembly module can address. */
const MAX_BYTES = 2 ** 32;

/**
 * Whether a page can have this much memory, in a word and a sentence.
 * @param {number} needed in bytes
 * @param {number | undefined} [device] the device's memory in GiB, roughly, if the browser tells (`navigator.deviceMemory`)
 * @returns {{ fits: 'yes' | 'perhaps' | 'no', why: string }}
 */
export function verdict(needed, device) {
  const gigabytes = (/** @type {number} */ bytes) => `${(bytes / 1e9).toFixed(1)} GB`;
  if (needed > MAX_BYTES) return { fits: 'no', why: `needs ${gigabytes(needed)}, and a page can have ${gigabytes(MAX_BYTES)}` };
  const bytes = device === undefined ? Infinity : device * 2 ** 30;
  if (needed > bytes) return { fits: 'no', why: `needs ${gigabytes(needed)}, and this device has about ${device} GiB` };
  if (needed > bytes / 2) return { fits: 'perhaps', why: `more than half of this device's ${device} GiB` };
  if (needed > 0.9 * MAX_BYTES) return { fits: 'perhaps', why: `nearly all of the ${gigabytes(MAX_BYTES)} a page can have` };
  return { fits: 'yes', why: 'fits' };
}
