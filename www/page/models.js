import { Gpt2Error } from '../gpt2-web.js';
import { verdict } from '../client/memory.js';
import { storageEstimate } from '../client/store/index.js';
import { byId, make, switchOff } from './dom.js';
import { bytes } from './format.js';
import { parameters } from './loading.js';
import { fromInput } from './selected-files.js';

/** @typedef {import('../gpt2-web.js').Gpt2Web} Gpt2Web */
/** @typedef {import('../gpt2-web.js').CatalogEntry} CatalogEntry */
/** @typedef {import('../gpt2-web.js').Precision} Precision */
/** @typedef {import('../gpt2-web.js').StoredModelInfo} StoredModelInfo */
/** @typedef {import('./selected-files.js').SelectedFile} SelectedFile */

/**
 * What the user chose to load. Without a precision, the file decides.
 * @typedef {{ entry: CatalogEntry, precision: Precision | undefined } | { stored: StoredModelInfo, precision: Precision | undefined }
 *   | { address: string, precision: Precision | undefined } | { selected: SelectedFile[] }} Choice
 */

/** The dialog to open a model: from the catalogue, this device, a URL, or the saved models. */
export class ModelsDialog {
  #gpt2;
  #onChoose;
  #dialog = byId('models', HTMLDialogElement);
  #precision = byId('precision', HTMLSelectElement);
  #address = byId('model-address', HTMLInputElement);
  /** @type {readonly CatalogEntry[]} */ #catalog = [];
  #disabled = false;

  /**
   * @param {Gpt2Web} gpt2
   * @param {(choice: Choice) => void} onChoose
   */
  constructor(gpt2, onChoose) {
    this.#gpt2 = gpt2;
    this.#onChoose = onChoose;
    gpt2.catalog().then((catalog) => { this.#catalog = catalog; this.#showCatalog(); }, (cause) => {
      byId('catalog').replaceChildren(make('li', {}, cause.message));
    });
    byId('open-model').addEventListener('click', () => this.#open());
    byId('models-close').addEventListener('click', () => this.#dialog.close());
    // A click outside the dialog hits its backdrop, and its target is the dialog.
    this.#dialog.addEventListener('click', ({ target }) => { if (target === this.#dialog) this.#dialog.close(); });
    this.#precision.addEventListener('change', () => this.#showCatalog());
    for (const id of ['model-files', 'model-folder']) {
      const input = byId(id, HTMLInputElement);
      input.addEventListener('change', () => {
        const selected = fromInput(input.files ?? []);
        input.value = ''; // so that the same file can be selected again
        if (selected.length > 0) this.#onChoose({ selected });
      });
    }
    byId('load-address').addEventListener('click', () => this.#takeAddress());
    this.#address.addEventListener('keydown', (event) => { if (event.key === 'Enter') this.#takeAddress(); });
    this.#address.addEventListener('input', () => this.#refuse(''));
    byId('delete-all').addEventListener('click', () => this.#delete(() => gpt2.store.clear()));
    byId('keep').addEventListener('click', async () => {
      const kept = await navigator.storage.persist().catch(() => false);
      byId('room').textContent = kept ? 'The browser will keep them until you delete them.' : 'The browser declined; it may delete them when space runs low.';
      byId('keep').hidden = true;
    });
    byId('hub').hidden = gpt2.inOneFile;
    byId('no-network').hidden = !gpt2.inOneFile;
  }

  /** @param {boolean} disabled */
  set disabled(disabled) {
    switchOff(byId('open-model'), disabled);
    this.#disabled = disabled;
    for (const id of ['model-files', 'model-folder']) byId(id, HTMLInputElement).disabled = disabled;
  }

  /** The precision for a file: the chosen one, or else unchanged for GGUF and q8_0 for the rest. @param {string} name @returns {Precision | undefined} */
  precisionFor(name) {
    const chosen = /** @type {Precision | ''} */ (this.#precision.value);
    return chosen === '' ? (/\.gguf$/i.test(name) ? undefined : 'q8_0') : chosen;
  }

  close() {
    this.#dialog.close();
  }

  #open() {
    if (this.#disabled) return;
    this.#dialog.showModal();
    this.#showStored();
  }

  #takeAddress() {
    const address = this.#address.value.trim();
    if (address === '') return this.#refuse('Enter a repository, such as openai-community/gpt2, or a file\'s URL.');
    this.#onChoose({ address, precision: this.precisionFor(address.replace(/[?#].*$/, '')) });
  }

  /** @param {string} message empty for none */
  #refuse(message) {
    byId('address-error').textContent = message;
    this.#address.toggleAttribute('aria-invalid', message !== '');
    if (message !== '') this.#address.focus();
  }

  /** Shows whether each known model fits, before anything is downloaded. */
  #showCatalog() {
    const device = /** @type {{ deviceMemory?: number }} */ (navigator).deviceMemory;
    byId('catalog').replaceChildren(...this.#catalog.map((entry) => {
      const precision = entry.repo ? this.precisionFor('') ?? 'q8_0' : 'q8_0';
      const needed = entry.memory[precision];
      const { fits, why } = needed === undefined ? { fits: /** @type {const} */ ('yes'), why: '' } : verdict(needed, device);
      const facts = [
        `${parameters(entry.parameters)} parameters`, entry.repo ? `${bytes(entry.download)} to download` : 'included',
        ...(needed === undefined ? [] : [`needs ${bytes(needed)} of memory (${precision})`]),
      ];
      const about = `about-${entry.name}`;
      return make('li', { 'data-fits': fits },
        make('div', {},
          make('h4', {}, entry.name),
          make('p', { id: about }, `${entry.about} `, make('span', { class: 'nowrap' }, entry.licence),
            ...(entry.repo ? [' · ', make('a', { href: entry.source, rel: 'noreferrer', target: '_blank' }, 'source')] : [])),
          make('p', { class: 'muted' }, facts.join(' · ')),
          ...(fits === 'yes' ? [] : [make('p', { class: 'fit' }, fits === 'no' ? `Does not fit: ${why}.` : `May not fit: ${why}.`)])),
        this.#action(entry, fits === 'no', about));
    }));
  }

  /** @param {CatalogEntry} entry @param {boolean} tooLarge @param {string} about */
  #action(entry, tooLarge, about) {
    if (entry.repo && this.#gpt2.inOneFile) {
      const files = `https://huggingface.co/${entry.repo}/tree/${entry.revision ?? 'main'}`;
      return make('a', { class: 'button', href: files, rel: 'noreferrer', target: '_blank', 'aria-label': `The files of ${entry.name}` }, 'Files');
    }
    const button = make('button', { type: 'button', class: 'button', disabled: tooLarge, 'aria-describedby': about, 'aria-label': `Load ${entry.name}` }, 'Load');
    button.addEventListener('click', () => this.#onChoose({ entry, precision: entry.repo ? this.precisionFor('') : undefined }));
    return button;
  }

  async #showStored() {
    const [stored, space] = await Promise.all([this.#gpt2.store.list().catch(() => []), storageEstimate()]);
    byId('stored-section').hidden = stored.length === 0;
    byId('stored').replaceChildren(...stored.map((model) => this.#storedRow(model)));
    byId('room').textContent = space ? `${bytes(space.used)} used of ${bytes(space.quota)} available.` : '';
    byId('keep').hidden = space?.persisted !== false;
  }

  /** @param {StoredModelInfo} model */
  #storedRow(model) {
    const when = model.date?.toLocaleDateString('en', { year: 'numeric', month: 'short', day: 'numeric' });
    const load = make('button', { type: 'button', class: 'button', 'aria-label': `Load the saved ${model.name}` }, model.complete ? 'Load' : 'Resume');
    load.addEventListener('click', () => this.#onChoose({ stored: model, precision: this.precisionFor(/\.gguf(\?|$)/i.test(model.source) ? 'a.gguf' : '') }));
    const remove = make('button', { type: 'button', class: 'button quiet', 'aria-label': `Delete the saved ${model.name}` }, 'Delete');
    remove.addEventListener('click', () => this.#delete(() => this.#gpt2.store.delete(model.id)));
    return make('li', {},
      make('div', {},
        make('h4', {}, model.name),
        make('p', { class: 'muted source' }, model.source.replace(/#(files|folder)=.*$/, '').replace(/@main$/, '')),
        make('p', { class: 'muted' }, model.complete ? `${bytes(model.bytes)} · ${when}` : `${bytes(model.bytes)} downloaded; the download was interrupted`)),
      make('div', { class: 'actions' }, load, remove));
  }

  /** @param {() => Promise<void>} action */
  async #delete(action) {
    let failure = '';
    await action().catch((cause) => { failure = `Some files could not be deleted: ${cause instanceof Gpt2Error ? cause.message : cause}.`; });
    await this.#showStored();
    if (failure) byId('room').textContent = failure;
    // The button that was pressed is gone with its row.
    if (!this.#dialog.contains(document.activeElement)) byId('models-title').focus();
  }
}
