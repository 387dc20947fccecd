import { Gpt2Error } from '../gpt2-web.js';
import { entryFrom } from '../client/catalog.js';
import { byId, terms } from './dom.js';
import { LoadProgress, modelFacts } from './loading.js';
import { describe, showError, showNotices } from './messages.js';
import { ModelsDialog } from './models.js';
import { modelFiles } from './selected-files.js';

/** @typedef {import('../gpt2-web.js').Gpt2Web} Gpt2Web */
/** @typedef {import('../gpt2-web.js').Loaded} Loaded */
/** @typedef {import('../gpt2-web.js').LoadHooks} LoadHooks */
/** @typedef {import('./models.js').Choice} Choice */

/** Opens models, one at a time, and shows the one in use. */
export class Opening {
  /** @type {Loaded | null} */ loaded = null;
  #gpt2;
  #activity;
  #onLoaded;
  #dialog;
  #progress = new LoadProgress();
  /** @type {Loaded['model'] | null} The model whose SHA-256 will never be known. */ #withoutHash = null;

  /**
   * @param {Gpt2Web} gpt2
   * @param {import('./activity.js').Activity} activity
   * @param {(loaded: Loaded, embedded: boolean) => void} onLoaded
   */
  constructor(gpt2, activity, onLoaded) {
    this.#gpt2 = gpt2;
    this.#activity = activity;
    this.#onLoaded = onLoaded;
    this.#dialog = new ModelsDialog(gpt2, (choice) => this.choose(choice));
    gpt2.onhashed = ({ model_sha256, notice }) => {
      if (model_sha256 === null) this.#withoutHash = this.loaded?.model ?? null;
      this.#show();
      if (notice !== null) showNotices('', [notice]);
    };
  }

  /** @param {boolean} disabled */
  set disabled(disabled) {
    this.#dialog.disabled = disabled;
  }

  /** @returns {Promise<void>} */
  embedded() {
    return this.#open((hooks) => this.#gpt2.loadEmbedded(hooks), (cause) => {
      // Trying again does not help a browser that lacks something.
      const hopeless = cause instanceof Gpt2Error && cause.kind === 'unsupported';
      showError(`The embedded model could not be loaded. ${describe(cause)}`, hopeless ? undefined : { label: 'Try again', run: () => void this.embedded() });
    });
  }

  /** @param {Choice} choice @returns {Promise<void>} */
  async choose(choice) {
    this.#dialog.close();
    if (this.#activity.busy) return showError('A run or download is still in progress. Stop it, then open the model.');
    if ('entry' in choice && !choice.entry.repo) return this.embedded();
    const title = titleOf(choice);
    await this.#open((hooks) => this.#load(choice, hooks), (cause) => {
      const stays = this.loaded ? ` ${this.loaded.model.name} is still loaded.` : '';
      // A selected file will not change; a download may work the next time.
      const remedy = cause instanceof Gpt2Error && cause.kind === 'download_failed' ? { label: 'Try again', run: () => void this.choose(choice) } : undefined;
      showError(`${title} could not be opened. ${describe(cause)}${stays}`, remedy);
    }, title);
  }

  /** The worker was lost, and the model with it. */
  lost() {
    this.loaded = null;
    this.#show();
  }

  /**
   * Loads a model, with the progress in the header. If it fails, the previous model stays.
   * @param {(hooks: LoadHooks) => Promise<Loaded>} load
   * @param {(cause: unknown) => void} failed
   * @param {string | null} title the panel's name for the model; null for the embedded one
   */
  async #open(load, failed, title = null) {
    if (this.#activity.busy) return;
    const embedded = title === null;
    byId('error').hidden = true;
    if (!embedded) byId('notice').hidden = true;
    this.#progress.begin(title);
    const signal = this.#activity.begin('loading');
    /** @type {'ready' | 'error'} */ let state = 'ready';
    try {
      this.loaded = await load({
        onProgress: (progress) => this.#progress.report(progress), onNotice: (sentence) => showNotices('', [sentence]), signal,
      });
      byId('about').hidden = byId('settings-note').hidden = !embedded;
      if (this.loaded.notices.length > 0) showNotices('', this.loaded.notices);
    } catch (cause) {
      this.#activity.queue(false); // the queued run was for this model
      // Stopping a load is not an error if another model is loaded.
      if (!this.loaded || !(cause instanceof Gpt2Error && cause.kind === 'cancelled')) {
        state = 'error';
        failed(cause);
      }
    }
    this.#progress.end();
    this.#show();
    this.#activity.end(state);
    if (state === 'ready' && this.loaded) this.#onLoaded(this.loaded, embedded);
  }

  /** Shows the model in use in the header and in its card. */
  #show() {
    byId('model-status').textContent = this.loaded ? this.loaded.model.precision : 'not loaded';
    if (!this.loaded) return;
    const { model, load_ms, memory_bytes } = this.loaded;
    byId('model-name').textContent = model.name;
    byId('model-facts').replaceChildren(...terms(modelFacts(model, load_ms, memory_bytes, this.#withoutHash === model)));
  }

  /** @param {Choice} choice @param {LoadHooks} hooks @returns {Promise<Loaded>} */
  async #load(choice, hooks) {
    const gpt2 = this.#gpt2;
    if ('selected' in choice) {
      const { name, files } = modelFiles(choice.selected);
      return gpt2.load({ name, files, precision: this.#dialog.precisionFor(files.some((file) => /\.safetensors$/i.test(file.name)) ? '' : 'a.gguf'), ...hooks });
    }
    const options = { precision: choice.precision, ...hooks };
    if ('stored' in choice && choice.stored.complete) return gpt2.loadStored(choice.stored.id, options);
    // A resumed download is checked like a new one.
    const entry = 'entry' in choice ? choice.entry : 'stored' in choice ? entryFrom(await gpt2.catalog().catch(() => []), choice.stored.source) : undefined;
    if (entry) {
      const { repo = '', revision, files, sha256 } = entry;
      return gpt2.loadRepo(repo, { revision, files, sha256, ...options });
    }
    return gpt2.loadFrom('stored' in choice ? choice.stored.source : 'address' in choice ? choice.address : '', options);
  }
}

/** @param {Choice} choice */
function titleOf(choice) {
  if ('entry' in choice) return choice.entry.name;
  if ('stored' in choice) return choice.stored.name;
  if ('address' in choice) return choice.address;
  return choice.selected.length > 4 ? choice.selected[0]?.path.split('/')[0] ?? '' : choice.selected.map(({ file }) => file.name).join(', ');
}
