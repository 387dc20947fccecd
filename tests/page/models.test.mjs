/** Choosing a model, in real browsers, against the fake worker and a hostile host of another origin. */

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { hostile, noise } from '../support/hostile-server.mjs';
import { BROWSERS, axe, click, fill, reach, text, withFakeWorker } from '../support/harness.mjs';
import { POLICY } from '../../scripts/server.mjs';

/** @typedef {import('puppeteer-core').Page} Page */

const WEIGHTS = noise(300_000);

/** @param {Page} page @param {string} address */
async function load(page, address) {
  await page.click('#open-model');
  await fill(page, '#model-address', address);
  await click(page, '#load-address');
}

/** @param {Page} page @param {string} name */
const loaded = (page, name) => page.waitForFunction((name) => document.documentElement.dataset['state'] === 'ready'
  && document.querySelector('#model-name')?.textContent === name, {}, name);

/** @param {Page} page @param {string} selector */
const hidden = (page, selector) => page.$eval(selector, (element) => /** @type {HTMLElement} */ (element).hidden);

/** @param {Page} page */
const rows = (page) => page.$$eval('#stored li', (rows) => rows.map((row) => row.textContent ?? ''));

for (const name of BROWSERS) {
  describe(name, async () => {
    const { cleanup, open } = await withFakeWorker(name);
    /** @type {{ [path: string]: import('../support/hostile-server.mjs').Behaviour }} */ const paths = {};
    const host = await hostile(paths);
    cleanup.push(host.close);
    /** A page that is ready, and a host with one model. @param {Parameters<typeof open>[0] & { before?: () => void }} [options] */
    async function ready(options) {
      for (const path of Object.keys(paths)) delete paths[path];
      Object.assign(paths, { 'm/config.json': { body: '{}' }, 'm/model.safetensors': { body: WEIGHTS }, 'q.gguf': { body: WEIGHTS } });
      host.requests.length = 0;
      const opened = await open(options);
      await reach(opened.page, 'ready');
      return opened;
    }
    const address = (path = 'm/model.safetensors') => host.url(path).href;

    test('the dialog opens, is walked by keyboard, and says what fits before anything is downloaded', async () => {
      const { page, server, complaints } = await ready();
      await page.focus('#open-model');
      await page.keyboard.press('Enter');
      assert.equal(await page.$eval('#models', (dialog) => /** @type {HTMLDialogElement} */ (dialog).open), true);
      assert.equal(await page.evaluate(() => document.querySelector('#models')?.contains(document.activeElement)), true);
      const known = await page.$$eval('#catalog li', (rows) => rows.map((row) => row.textContent ?? ''));
      assert.equal(known.length, 6);
      assert.match(known[2] ?? '', /gpt2.*MIT \(modified\).*124 M parameters · 548 MB to download · needs 232 MB of memory \(q8_0\)/);
      await axe(page);
      await page.select('#precision', 'f32');
      const xl = await page.$eval('#catalog li:last-child', (row) => row.textContent ?? '');
      assert.match(xl, /Does not fit: needs 6\.9 GB, and a page can have 4\.3 GB/);
      assert.equal(await page.$eval('#catalog li:last-child button', (button) => /** @type {HTMLButtonElement} */ (button).disabled), true);
      await axe(page);
      await page.keyboard.press('Escape');
      assert.equal(await page.$eval('#models', (dialog) => /** @type {HTMLDialogElement} */ (dialog).open), false);
      assert.equal(await page.evaluate(() => document.activeElement?.id), 'open-model');
      assert.ok(server.requests.includes('/models/catalog.json'));
      assert.deepEqual(complaints, []);
      await page.close();
    });

    test('a model is downloaded, kept, loaded again without the network, and deleted', async () => {
      const { page, server } = await ready();
      paths['m/model.safetensors'] = { body: WEIGHTS, pause: 2 };
      await load(page, address());
      await page.waitForFunction(() => Number(document.querySelector('#stages progress')?.getAttribute('value')) > 0);
      assert.match(await text(page, '#loading'), /Loading http.*Download.*MB of 0\.3 MB/s);
      await axe(page);
      await loaded(page, 'm');
      assert.equal(await text(page, '#model-status'), 'q8_0');
      assert.equal(await hidden(page, '#loading'), true);
      assert.deepEqual(host.asked().filter((path) => /weights|model\.safe/.test(path)), ['m/model.safetensors']);

      await page.goto(server.url);
      await reach(page, 'ready');
      host.requests.length = 0;
      await page.click('#open-model');
      await page.waitForSelector('#stored li');
      const [row] = await rows(page);
      assert.match(row ?? '', /^m.*model\.safetensors0\.3 MB · \w{3} \d+, \d{4}LoadDelete$/);
      assert.match(await text(page, '#room'), /MB used of .*B available/);
      await axe(page);
      await click(page, '#stored .button');
      await loaded(page, 'm');
      assert.deepEqual(host.requests, []);

      await page.click('#open-model');
      await page.waitForSelector('#stored li');
      await click(page, '#stored .quiet');
      await page.waitForSelector('#stored-section[hidden]');
      await page.close();
    });

    test('what cannot be deleted is still there, and the dialog says why', async () => {
      const { page } = await ready({ before: () => {
        FileSystemDirectoryHandle.prototype.removeEntry = async () => { throw new DOMException('no', 'NoModificationAllowedError'); };
      } });
      await load(page, address());
      await loaded(page, 'm');
      for (const button of ['#stored .quiet', '#delete-all']) {
        if (!(await page.$eval('#models', (dialog) => /** @type {HTMLDialogElement} */ (dialog).open))) await page.click('#open-model');
        await page.waitForSelector('#stored li');
        await page.$eval('#room', (room) => { room.textContent = ''; });
        await click(page, button);
        await page.waitForFunction(() => /could not be deleted: another tab is writing/.test(document.querySelector('#room')?.textContent ?? ''));
        assert.equal((await rows(page)).length, 1);
      }
      await page.close();
    });

    test('a cancel ends a download and leaves nothing', async () => {
      const { page } = await ready();
      paths['m/model.safetensors'] = { body: WEIGHTS, pause: 20 };
      await load(page, address());
      await page.waitForFunction(() => Number(document.querySelector('#stages progress')?.getAttribute('value')) > 0);
      await click(page, '#cancel-load');
      await loaded(page, 'fairy-12m');
      assert.equal(await hidden(page, '#error'), true);
      await host.closing('m/model.safetensors');
      await page.click('#open-model');
      await page.waitForFunction(() => document.querySelector('#room')?.textContent !== '');
      assert.deepEqual(await rows(page), []);
      await page.close();
    });

    test('what is no model is a sentence, and the model before it still writes', async () => {
      const { page } = await ready();
      /** @type {[string, import('../support/hostile-server.mjs').Behaviour | null, RegExp][]} */ const cases = [
        ['gone.gguf', null, /download of gone\.gguf failed: 127.* answered 404: there is no such file/],
        ['page.gguf', { body: '<!doctype html>', headers: { 'content-type': 'text/html' } }, /HTML page instead of a file/],
        ['secret.gguf', { status: 403, body: '' }, /answered 403: it requires a login/],
        ['closed.gguf', { body: WEIGHTS, closed: true }, /cannot be reached.*\(CORS\)/],
      ];
      for (const [path, behaviour, said] of cases) {
        if (behaviour) paths[path] = behaviour;
        await load(page, address(path));
        await reach(page, 'error');
        assert.match(await text(page, '#error'), said);
        assert.match(await text(page, '#error'), /fairy-12m is still loaded/);
      }
      await load(page, 'https://huggingface.co/datasets/x/y');
      await page.waitForFunction(() => /a dataset, not a model; give a repository as owner\/name/.test(document.querySelector('#error')?.textContent ?? ''));
      await page.click('#open-model');
      await fill(page, '#model-address', ' ');
      await click(page, '#load-address');
      assert.match(await text(page, '#address-error'), /Enter a repository/);
      assert.equal(await page.evaluate(() => document.activeElement?.id), 'model-address');
      await axe(page);
      await page.keyboard.press('Escape');
      await click(page, '#generate');
      await reach(page, 'done');
      await page.close();
    });

    test('a policy that forbids the host is named by its directive', async () => {
      const { page } = await ready({ policy: POLICY.replace(/connect-src.*/, "connect-src 'self'") });
      await load(page, address('q.gguf'));
      await reach(page, 'error');
      assert.match(await text(page, '#error'), /Content-Security-Policy forbids a request to 127.*it needs connect-src http:\/\/127/);
      await page.close();
    });

    for (const [what, sabotage, said] of /** @type {[string, () => void, RegExp][]} */ ([
      ['no storage', () => { StorageManager.prototype.getDirectory = async () => { throw new DOMException('no', 'SecurityError'); }; }, /not saved for the next visit: this page has no storage/],
      ['a full one', () => {
        const write = FileSystemWritableFileStream.prototype.write;
        FileSystemWritableFileStream.prototype.write = async function (data) {
          if (data instanceof Blob) throw new DOMException('full', 'QuotaExceededError');
          return write.call(this, data);
        };
      }, /not saved for the next visit: the browser's storage is full/],
      ['too little', () => { StorageManager.prototype.estimate = async () => ({ usage: 0, quota: 1000 }); }, /gives this page 0 MB of storage/],
    ])) {
      test(`with ${what} the model streams into the worker, once, with a notice`, async () => {
        const { page } = await ready({ before: sabotage });
        await load(page, address());
        await loaded(page, 'm');
        assert.match(await text(page, '#notice'), said);
        assert.deepEqual(host.asked().filter((path) => path === 'm/model.safetensors').length, 1);
        await page.click('#open-model');
        await page.waitForFunction(() => document.querySelector('#room')?.textContent !== '');
        assert.deepEqual(await rows(page), []);
        await page.close();
      });
    }

    for (const [what, before, said] of /** @type {[string, () => void, RegExp][]} */ ([
      ['that no page may write to', () => { Reflect.deleteProperty(FileSystemFileHandle.prototype, 'createWritable'); }, /does not let pages write files to its storage.*Safari before 26.*newer version/],
      ['that plain http does not give', () => {
        Object.defineProperty(globalThis, 'isSecureContext', { value: false });
        for (const name of ['storage', 'locks']) Object.defineProperty(Navigator.prototype, name, { get: () => undefined });
        Object.defineProperty(Crypto.prototype, 'subtle', { get: () => undefined });
      }, /came over plain http.*only to https and localhost/],
    ])) {
      test(`with a storage ${what} a model runs uncached, and the notice says why`, async () => {
        const { page } = await ready({ before });
        await load(page, address());
        await loaded(page, 'm');
        assert.match(await text(page, '#notice'), said);
        assert.doesNotMatch(await text(page, '#notice'), /private window|from disk/);
        assert.deepEqual(host.asked().filter((path) => path === 'm/model.safetensors').length, 1);
        await page.close();
      });
    }

    test('in a sandboxed frame, which has no origin, a model runs uncached', async () => {
      Object.assign(paths, { 'm/config.json': { body: '{}' }, 'm/model.safetensors': { body: WEIGHTS } });
      host.requests.length = 0;
      const { page } = await open({
        policy: `${POLICY}; frame-src 'self'`,
        files: { '/': '<!doctype html><iframe sandbox="allow-scripts" src="index.html" width="1000" height="800"></iframe>' },
      });
      const frame = await page.waitForFrame((frame) => frame.url().endsWith('index.html'));
      await frame.waitForSelector('[data-state="ready"]');
      await frame.evaluate((address) => {
        /** @type {HTMLElement | null} */ (document.querySelector('#open-model'))?.click();
        /** @type {HTMLInputElement} */ (document.querySelector('#model-address')).value = address;
        /** @type {HTMLElement | null} */ (document.querySelector('#load-address'))?.click();
      }, address());
      await frame.waitForFunction(() => document.documentElement.dataset['state'] === 'ready' && document.querySelector('#model-name')?.textContent === 'm');
      assert.match(await frame.$eval('#notice', (notice) => notice.textContent ?? ''), /not saved.*sandboxed frame.*allow-same-origin/);
      assert.deepEqual(host.asked().filter((path) => path === 'm/model.safetensors').length, 1);
      await page.close();
    });

    test('of two tabs that want the same model one downloads it, and the other finds it', async () => {
      const { page, server } = await ready();
      const other = await page.browser().newPage();
      await other.goto(server.url);
      await reach(other, 'ready');
      paths['m/model.safetensors'] = { body: WEIGHTS, pause: 2 };
      await page.bringToFront(); // only there a page is watched
      await load(page, address());
      await page.waitForFunction(() => Number(document.querySelector('#stages progress')?.getAttribute('value')) > 0);
      await other.bringToFront();
      await load(other, address());
      await loaded(other, 'm');
      await page.bringToFront();
      await loaded(page, 'm');
      assert.deepEqual(host.asked().filter((path) => path === 'm/model.safetensors'), ['m/model.safetensors']);
      await other.close();
      await page.close();
    });

    test('of a compressed answer of another origin, which does not show that it is one, every byte is handed over', async () => {
      const { page } = await ready();
      const body = new Uint8Array(300_000);
      paths['packed.gguf'] = { body, gzip: true };
      const streamed = await page.evaluate(async (address) => {
        const { ModelDownload } = await import(/** @type {any} */ ('/client/download/model-download.js'));
        const { ModelStore } = await import(/** @type {any} */ ('/client/store/model-store.js'));
        const { addresses } = await import(/** @type {any} */ ('/client/download/source.js'));
        const store = new ModelStore({ root: async () => { throw new DOMException('no', 'SecurityError'); } });
        const { files } = await new ModelDownload(addresses(address), { store }).run();
        return { size: files[0].size, bytes: (await new Response(files[0].stream).arrayBuffer()).byteLength };
      }, address('packed.gguf'));
      assert.deepEqual(streamed, { size: null, bytes: body.length });
      await page.close();
    });

    test('shards stream one after the other', async () => {
      const { page } = await ready({ before: () => { StorageManager.prototype.getDirectory = async () => { throw new DOMException('no', 'SecurityError'); }; } });
      const shards = [1, 2, 3].map((at) => `model-0000${at}-of-00003.safetensors`);
      paths['m/model.safetensors.index.json'] = { body: JSON.stringify({ weight_map: Object.fromEntries(shards.map((shard) => [shard, shard])) }) };
      for (const shard of shards) paths[`m/${shard}`] = { body: WEIGHTS, pause: 0 };
      host.log.length = 0;
      await load(page, address('m/model.safetensors.index.json'));
      await loaded(page, 'm');
      assert.deepEqual(host.log.filter((entry) => /-of-/.test(entry)), shards.flatMap((shard) => [`begin m/${shard}`, `end m/${shard}`]));
      await page.close();
    });

    test('files dropped anywhere on the page are opened; a notice of the worker is shown', async () => {
      const { page } = await ready();
      /** @param {string} type @param {string[]} names */
      const drag = (type, names) => page.evaluate((type, names) => {
        const dataTransfer = new DataTransfer();
        for (const name of names) dataTransfer.items.add(new File(['contents'], name));
        document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
      }, type, names);
      await drag('dragover', ['guess.gguf']);
      assert.equal(await hidden(page, '#veil'), false);
      await drag('drop', ['guess.gguf']);
      assert.equal(await hidden(page, '#veil'), true);
      await loaded(page, 'guess');
      assert.match(await text(page, '#notice'), /The number of heads is a guess/);
      await drag('drop', ['small.safetensors', 'config.json']);
      await loaded(page, 'small');
      assert.equal(await text(page, '#model-status'), 'q8_0');
      assert.equal(await hidden(page, '#notice'), true);
      await page.close();
    });

    test('a folder is opened for the model in it', { skip: name === 'firefox' && 'its driver takes no folder; `modelFiles` has its own test' }, async () => {
      const { page } = await ready();
      const folder = await mkdtemp(join(tmpdir(), 'gpt2-web-'));
      cleanup.push(() => rm(folder, { recursive: true }));
      const model = join(folder, 'tales');
      await mkdir(join(model, 'onnx'), { recursive: true });
      for (const file of ['README.md', 'config.json', 'model.safetensors', 'pytorch_model.bin', 'onnx/model.onnx']) await writeFile(join(model, file), 'x');
      const input = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await page.$('#model-folder'));
      await input.uploadFile(model);
      await loaded(page, 'tales');
      await page.close();
    });

    test('the page in one file says that it downloads nothing, and opens files all the same', async () => {
      const { page } = await ready({ before: () => {
        Object.assign(globalThis, { GPT2_WEB_INLINE: {
          workerSource: async () => (await fetch('worker.js')).text(), wasm: async () => new ArrayBuffer(8), model: async () => new Blob(['x']),
          catalog: { models: [{ name: 'gpt2', about: 'a', source: 'https://huggingface.co/openai-community/gpt2', licence: 'MIT', repo: 'openai-community/gpt2', files: [], download: 1, sha256: null, precisions: ['q8_0'], parameters: 1, memory: { q8_0: 1 } }] },
        } });
      } });
      await page.click('#open-model');
      assert.equal(await hidden(page, '#hub'), true);
      assert.match(await page.$eval('#no-network:not([hidden])', (sentence) => sentence.textContent ?? ''), /makes no requests, so it cannot download/);
      assert.equal(await page.$eval('#catalog a.button', (link) => /** @type {HTMLAnchorElement} */ (link).href), 'https://huggingface.co/openai-community/gpt2/tree/main');
      await axe(page);
      await page.close();
    });
  });
}
