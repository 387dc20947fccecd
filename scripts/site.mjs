// Assembles the page from its parts: www/, the compiled module, the vendored libraries, and docs/lab.md as a page.
//
//     node scripts/site.mjs --wasm DIR --out DIR [--link]
import { cp, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { marked } from 'marked';

const { values } = parseArgs({
  options: { wasm: { type: 'string' }, out: { type: 'string' }, link: { type: 'boolean', default: false } },
});
const { wasm, out, link } = values;
if (!wasm || !out) throw new Error('site.mjs needs --wasm and --out');

// The libraries for plots, in the versions of package-lock.json.
const VENDORED = {
  'uPlot.esm.js': 'uplot/dist/uPlot.esm.js', 'uPlot.min.css': 'uplot/dist/uPlot.min.css', 'uPlot.LICENSE': 'uplot/LICENSE',
  'd3-ticks.js': 'd3-array/src/ticks.js', 'd3-ticks.LICENSE': 'd3-array/LICENSE',
};
// Only for type checking.
const NOT_PART_OF_THE_PAGE = new Set(['types', 'vendor', 'worker-globals.d.ts']);

/** @type {[from: string, to: string][]} */
const parts = [
  ...(await readdir('www')).filter((name) => !NOT_PART_OF_THE_PAGE.has(name)).map((name) => /** @type {[string, string]} */ ([join('www', name), name])),
  [join(wasm, 'gpt2_web.js'), 'gpt2_web.js'],
  [join(wasm, 'gpt2_web_bg.wasm'), 'gpt2_web_bg.wasm'],
  ...Object.entries(VENDORED).map(([name, path]) => /** @type {[string, string]} */ ([join('node_modules', path), join('vendor', name)])),
];

await rm(out, { recursive: true, force: true });
await mkdir(join(out, 'vendor'), { recursive: true });
for (const [from, to] of parts) {
  if (link) await symlink(resolve(from), join(out, to));
  else await cp(from, join(out, to), { recursive: true });
}

// The panels of the lab link to their sections. A heading's id is its text, as on GitHub.
const lab = await marked.parse(await readFile('docs/lab.md', 'utf8'));
const sections = lab.replaceAll(/<h2>(.*?)<\/h2>/g, (_, title) => `<h2 id="${title.replaceAll(/[^\w-]+/g, '-').toLowerCase()}">${title}</h2>`);
await writeFile(join(out, 'lab.html'), `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The lab – gpt2-web</title>
<link rel="stylesheet" href="style.css">
<link rel="stylesheet" href="lab.css">
</head>
<body>
<main class="lab-document">
<p><a href="index.html#lab">To the lab</a></p>
${sections}</main>
</body>
</html>
`);
