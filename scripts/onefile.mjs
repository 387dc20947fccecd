// Packs the page into one HTML file that makes no request and also runs when it is opened from disk.
//
//     node scripts/onefile.mjs --site DIR --out FILE
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { encode } from './onefile/base64.mjs';

const MODEL = 'models/fairy-12m-q8_0.gguf';
/** Lines of a bundle are broken after this many characters, where possible: a mail server may refuse more than 998. */
const LINE = 160;
const PARTS = join(dirname(fileURLToPath(import.meta.url)), 'onefile');
/** @type {import('esbuild').BuildOptions & { write: false }} */
const ESBUILD = {
  bundle: true, minify: true, write: false, format: 'iife', charset: 'utf8', target: 'es2022', legalComments: 'inline',
  lineLimit: LINE, logOverride: { 'empty-import-meta': 'silent' }, // the client uses it only if its files are not inline
};

const { values: { site, out } } = parseArgs({ options: { site: { type: 'string' }, out: { type: 'string' } } });
if (!site || !out) throw new Error('onefile.mjs needs --site and --out');

/** @param {string} path within the site */
const read = (path) => readFile(join(site, path), 'utf8');

/** Bundles from an entry into one script. @param {import('esbuild').BuildOptions} options */
async function script(options) {
  const { outputFiles } = await build({ ...ESBUILD, ...options });
  return inline(/** @type {import('esbuild').OutputFile[]} */ (outputFiles)[0]?.text.trim() ?? '');
}

/** Checks that a source can be an inline script. @param {string} source */
function inline(source) {
  // One ends the script element; the other puts the parser into a state in which the element does not end.
  if (/<!--|<\/script/i.test(source)) throw new Error('a source contains a string that an inline script must not contain');
  return source;
}

/** @param {string} source */
const hash = (source) => `'sha256-${createHash('sha256').update(source).digest('base64')}'`;

/** Text that the browser does not run. @param {string} id @param {string} text @param {string} [attributes] */
const part = (id, text, attributes = '') => `<script type="text/plain" id="${id}"${attributes}>\n${text.trim()}\n</script>\n`;

/** @param {string} id @param {string} path within the site */
const packed = async (id, path) => {
  const file = await readFile(join(site, path));
  return part(id, encode(gzipSync(file, { level: 9 })), ` data-size="${file.length}"`);
};

let html = await read('index.html');

/** Removes elements from the page and returns the address in each. @param {RegExp} element @param {string} what */
function take(element, what) {
  const found = [...html.matchAll(element)].map((match) => /** @type {string} */ (match[1]));
  if (found.length === 0) throw new Error(`index.html has no ${what}`);
  html = html.replace(element, '');
  return found;
}

const sheets = take(/<link rel="stylesheet" href="([^"]+)">\n?/g, 'stylesheet');
take(/<script src="([^"]+)"><\/script>\n?/g, 'guard'); // in one file nothing can fail to load
const modules = take(/<script type="module" src="([^"]+)"><\/script>\n?/g, 'module script');

const style = await script({
  stdin: { contents: sheets.map((sheet) => `@import ${JSON.stringify(`./${sheet}`)};`).join('\n'), loader: 'css', resolveDir: site },
  preserveSymlinks: true,
});
const unpack = await script({ entryPoints: [join(PARTS, 'unpack-worker.js')] });
const main = await script({
  stdin: { contents: [join(PARTS, 'assets.js'), ...modules.map((path) => `./${path}`)].map((path) => `import ${JSON.stringify(path)};`).join('\n'), resolveDir: resolve(site) },
  preserveSymlinks: true,
});

// With this policy the browser prevents every request.
const policy = [
  "default-src 'none'", `script-src ${hash(main)} 'wasm-unsafe-eval'`, 'worker-src blob:', `style-src ${hash(style)}`,
  'img-src data:', "base-uri 'none'", "form-action 'none'",
].join('; ');

// Functions as replacements, because `$` has a meaning in strings.
html = html
  .replace(/<meta charset="utf-8">/, (charset) => `${charset}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`)
  .replace('</head>', () => `<style>${style}</style>\n</head>`);
const parts = part('gpt2-web-unpack', unpack)
  + part('gpt2-web-worker', inline(`${await read('gpt2_web.js')}\n${await read('worker.js')}`))
  + await packed('gpt2-web-wasm', 'gpt2_web_bg.wasm') + await packed('gpt2-web-model', MODEL);
html = html.replace('</body>', () => `${parts}<script>${main}</script>\n</body>`);
if (!html.includes('Content-Security-Policy') || !html.includes(style) || !html.includes(parts)) {
  throw new Error('index.html lacks <meta charset="utf-8">, </head> or </body>');
}
await writeFile(out, html);
