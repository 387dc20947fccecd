import { fromDrop } from './selected-files.js';

/**
 * Files may be dropped anywhere on the page.
 * @param {HTMLElement} veil shown while files are over the page
 * @param {(picked: import('./selected-files.js').Picked[]) => void} onFiles
 */
export function takeDrops(veil, onFiles) {
  const withFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
  addEventListener('dragover', (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  addEventListener('dragleave', (event) => {
    // From one element into another there is a next one; out of the window there is none.
    if (event.relatedTarget === null) veil.hidden = true;
  });
  addEventListener('drop', async (event) => {
    veil.hidden = true;
    if (!event.dataTransfer || !withFiles(event)) return;
    event.preventDefault();
    const picked = await fromDrop(event.dataTransfer);
    if (picked.length > 0) onFiles(picked);
  });
}
