import { fromDrop } from './selected-files.js';

/**
 * Accepts files dropped anywhere on the page.
 * @param {HTMLElement} veil shown while files are over the page
 * @param {(selected: import('./selected-files.js').SelectedFile[]) => void} onFiles
 */
export function takeDrops(veil, onFiles) {
  const withFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
  addEventListener('dragover', (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  addEventListener('dragleave', (event) => {
    // When the pointer leaves the window there is no related target.
    if (event.relatedTarget === null) veil.hidden = true;
  });
  addEventListener('drop', async (event) => {
    veil.hidden = true;
    if (!event.dataTransfer || !withFiles(event)) return;
    event.preventDefault();
    const selected = await fromDrop(event.dataTransfer);
    if (selected.length > 0) onFiles(selected);
  });
}
