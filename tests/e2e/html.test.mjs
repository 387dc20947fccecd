// The page and the page in one file are HTML as the standard has it, which mail, editors and course systems hand on.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { HtmlValidate, StaticConfigLoader } from 'html-validate';
import { parse } from 'parse5';
import { required } from '../support/harness.mjs';

const rules = new HtmlValidate(new StaticConfigLoader({ extends: ['html-validate:standard'] }));

for (const [name, path] of /** @type {const} */ ([
  ['index.html', join(required('GPT2_WEB_SITE'), 'index.html')],
  ['the page in one file', required('GPT2_WEB_ONE_FILE')],
])) {
  test(`${name} is valid HTML`, async () => {
    const html = await readFile(path, 'utf8');
    /** @type {string[]} */ const errors = [];
    parse(html, { onParseError: ({ code, startLine, startCol }) => errors.push(`${startLine}:${startCol} ${code}`) });
    assert.deepEqual(errors, []);
    const { results } = await rules.validateString(html);
    assert.deepEqual(results.flatMap(({ messages }) => messages.map(({ line, message }) => `${line}: ${message}`)), []);
  });

  test(`${name} is text: printable characters in lines that a mail server lets through`, async () => {
    const html = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
    assert.deepEqual(html.match(/(?![\n\t])\p{Cc}/gu) ?? [], []);
    const long = html.split('\n').filter((line) => Buffer.byteLength(line) > 998);
    assert.deepEqual(long.map((line) => line.slice(0, 80)), []);
  });
}
