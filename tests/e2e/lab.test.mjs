// The lab on the served page and in the one file: every experiment is run, its table read, and what it exports compared.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { BROWSERS, Site, axe } from '../support/harness.mjs';

/** @typedef {import('../support/harness.mjs').Visit} Visit */
/** @typedef {{ experiment: string, conditions: Record<string, any>, rows: any[], summary: any }} Findings */

const TINY = 'tests/fixtures/gguf/f32.gguf';
const near = (/** @type {number} */ got, /** @type {number} */ right, allowed = 1e-6) => assert.ok(Math.abs(got - right) <= allowed, `${got} for ${right}`);
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((sum, number) => sum + number, 0);

/**
 * Every experiment with settings that are over soon, as its link has them; how many rows its table then has, and what must
 * be true of what it finds.
 * @type {[name: string, settings: string, tableRows: number, check: (found: Findings) => void][]}
 */
const EXPERIMENTS = [
  ['naive', 'lengths=4,8', 2, ({ rows }) => {
    const [first, second] = rows;
    // The prompt has nine tokens.
    assert.deepEqual([first.tokens, first.naive_positions, first.cached_positions, second.naive_positions, second.cached_positions], [4, 42, 12, 100, 16]);
    near(second.waste_factor, 100 / 16);
    assert.ok(first.equal && second.equal && second.textbook_ms !== null);
  }],
  ['check', 'n=16&repeats=2', 4, ({ rows }) => {
    assert.deepEqual(rows.map(({ tokens, agree }) => [tokens, agree]), [[2, 2], [4, 4], [8, 8], [16, 16]]);
    for (const { ratio, produce_ms, check_ms } of rows) near(ratio, produce_ms / check_ms);
  }],
  ['sampled-check', 'n=12', 12, ({ rows, summary }) => {
    for (const { probability, target_probability, accept_probability, expected_acceptance } of rows) {
      near(accept_probability, Math.min(1, target_probability / probability));
      assert.ok(expected_acceptance > 0 && expected_acceptance <= 1);
    }
    near(summary.agree_share, rows.filter(({ agree }) => agree).length / 12);
  }],
  ['eos', 'n=12&prompts=Once+upon+a+time&prompts=The+end.', 2, ({ rows, summary }) => {
    assert.deepEqual(rows.map(({ prompt }) => prompt), ['Once upon a time', 'The end.']);
    for (const { probabilities, ranks, max_probability, best_rank, tokens } of rows) {
      assert.deepEqual([probabilities.length, ranks.length], [tokens, tokens]);
      assert.deepEqual([Math.max(...probabilities), Math.min(...ranks)], [max_probability, best_rank]);
    }
    assert.equal(summary.steps, sum(rows.map(({ tokens }) => tokens)));
  }],
  ['sweep', 'prompt_lengths=8,32&output_lengths=4,16&repeats=1', 6, ({ rows, summary }) => {
    assert.deepEqual(rows.map(({ arm, prompt_tokens, output_tokens }) => [arm, prompt_tokens, output_tokens]),
      [['prompt', 8, 16], ['prompt', 32, 16], ['output', 16, 4], ['output', 16, 16], ['contrast', 30, 3], ['contrast', 3, 30]]);
    for (const { first_token_ms, output_tokens, between_tokens_ms, formula_ms } of rows) near(formula_ms, first_token_ms + (output_tokens - 1) * between_tokens_ms);
    assert.deepEqual([summary.prompt_line.residuals.length, summary.output_line.residuals.length], [2, 2]);
  }],
  ['latency', 'n=40', 39, ({ rows, summary }) => {
    assert.deepEqual(rows.map(({ position }) => position), Array.from({ length: 39 }, (_, step) => 9 + step));
    near(summary.first_half_ms, sum(rows.slice(0, 19).map(({ ms }) => ms)) / 19);
    assert.ok(summary.arithmetic_slope_ms !== null);
  }],
  ['tokens', '', 9, ({ rows, summary }) => {
    assert.equal(rows.map(({ emitted }) => emitted).join(''), '推論 café 😀');
    assert.deepEqual([summary.tokens, summary.stop[0].token_id], [9, 628]);
    assert.ok(summary.cuts.some((/** @type {any} */ cut) => cut.left === '\n' && !cut.found_by_ids));
  }],
  ['hold-back', 'n=40&stop=.+The+end&temperature=0', -1, ({ rows, summary }) => {
    assert.equal(rows.map(({ text }) => text).join(''), summary.text);
    assert.equal(summary.held_characters, sum(rows.map(({ held_characters }) => held_characters)));
    // Each full stop waits for the token after it.
    assert.ok(rows.filter(({ text }) => /^\.(?! The)./s.test(text)).every(({ delay_steps }) => delay_steps >= 1));
  }],
  ['cancel', 'n=24&runs=6', 6, ({ rows, summary }) => {
    for (const { done_steps, steps_before, asked_steps } of rows) assert.ok(done_steps - steps_before <= 1 && asked_steps === 24);
    assert.ok(summary.saved_share > 0 && summary.saved_share < 0.2);
    assert.notEqual(summary.with_prefix, summary.without_prefix);
  }],
  ['one-word', 'n=16&prompts=There+was+a+{king|queen}+who', 1, ({ rows: [row] }) => {
    assert.deepEqual([row.prompt, row.changed], ['There was a king who', 'There was a queen who']);
    assert.ok(row.text.startsWith(row.common) && row.changed_text.startsWith(row.common));
    assert.equal(row.first_difference === null, row.text === row.changed_text);
  }],
  ['precision', 'n=8&prompts=Once+upon+a+time&text=There+was+once+a+king+who+had+a+daughter.', 3, ({ rows }) => {
    assert.deepEqual(rows.map(({ precision, loaded }) => [precision, loaded]), [['f32', false], ['q8_0', true], ['q4_0', false]]);
    const [full, eight, four] = rows;
    assert.deepEqual([full.mean_divergence, full.e], [0, 0]);
    assert.ok(eight.mean_divergence > 0 && four.mean_divergence > 5 * eight.mean_divergence);
    assert.ok(full.perplexity > 1 && full.weight_bytes > 3 * eight.weight_bytes);
  }],
  ['greedy', 'n=24&temperatures=1&seeds=1', 2, ({ rows }) => {
    assert.deepEqual(rows.map(({ temperature, seed, tokens }) => [temperature, seed, tokens]), [[0, null, 24], [1, 1, 24]]);
    near(rows[0].repeated_share + rows[0].distinct_share, 1);
    assert.ok(rows[0].mean_logprob > rows[1].mean_logprob);
  }],
  ['trace', 'n=4', 0, ({ rows, summary }) => {
    assert.deepEqual(rows.map(({ positions }) => positions), [9, 1, 1, 1]);
    for (const { chosen, candidates, rank } of rows) assert.deepEqual([candidates[0].token_id, rank], [chosen.token_id, 1]);
    near(summary.probability, rows.reduce((product, { probability }) => product * probability, 1));
  }],
  ['lengths', 'runs=4&n=24', 4, ({ rows, summary }) => {
    assert.deepEqual(rows.map(({ seed }) => seed), [1, 2, 3, 4]);
    near(summary.hazard, rows.filter(({ stop_reason }) => stop_reason !== 'max_tokens').length / sum(rows.map(({ tokens }) => tokens)));
  }],
  ['sampling', 'top_k=5&draws=500&most=8', 0, ({ rows, summary }) => {
    near(sum(rows.map(({ filtered_probability }) => filtered_probability)), 1, 1e-9);
    assert.deepEqual(rows.map(({ removed_by }) => removed_by === 'top_k'), [false, false, false, false, false, true, true, true]);
    assert.deepEqual([summary.kept <= 5, sum(rows.map(({ drawn }) => drawn))], [true, 500]);
  }],
  ['inside', '', 63, ({ rows, summary }) => {
    const attention = rows.filter((row) => 'weights' in row);
    assert.deepEqual([attention.length, summary.layers, summary.heads], [6 * 3 * 9, 6, 3]);
    for (const { weights, query } of attention) {
      assert.equal(weights.length, query + 1);
      near(sum(weights), 1, 1e-3);
    }
    const last = rows.filter((row) => row.layer === 6 && row.position === 8);
    assert.equal(last[0].token, ' had');
  }],
];

/** Opens a panel by its link. @param {Visit} visit @param {string} name @param {string} [settings] */
async function open({ page }, name, settings = '') {
  await page.evaluate((hash) => { location.hash = hash; }, `#lab=${name}${settings && `&${settings}`}`);
  await page.waitForSelector(`.lab-index a[aria-current][data-name="${name}"]`);
}

/** Presses Run and waits for the end. @param {Visit} visit */
async function run(visit) {
  await visit.page.click('.lab-actions .primary');
  await visit.reaches('done', 'error');
  return visit.page.$eval('.lab-message', ({ textContent }) => textContent ?? '');
}

/** What a button saves. @param {Visit} visit @param {string} label @returns {Promise<{ type: string, text: string, size: number }>} */
async function saved({ page }, label) {
  return page.evaluate(async (label) => {
    const create = URL.createObjectURL;
    const file = /** @type {Promise<Blob>} */ (new Promise((resolve) => {
      URL.createObjectURL = (blob) => {
        resolve(/** @type {Blob} */ (blob));
        return 'data:,';
      };
    }));
    const button = [...document.querySelectorAll('.lab-foot button')].find(({ textContent }) => textContent === label);
    /** @type {HTMLElement} */ (button).click();
    const blob = await file;
    URL.createObjectURL = create;
    return { type: blob.type, text: await blob.text(), size: blob.size };
  }, label);
}

for (const browser of BROWSERS) {
  describe(`the lab in ${browser}`, () => {
    /** @type {Site} */ let site;
    before(async () => { site = await Site.open(browser); });
    after(() => site.close());

    test('every experiment runs from its link, shows a table, and exports what it found', async () => {
      const visit = await site.served();
      for (const [name, settings, tableRows, check] of EXPERIMENTS) {
        await open(visit, name, settings);
        assert.equal(await run(visit), '', name);
        const { type, text } = await saved(visit, 'JSON');
        const found = JSON.parse(text);
        assert.deepEqual([type, found.experiment, found.conditions.model, found.conditions.precision], ['application/json', name, 'fairy-12m', 'q8_0']);
        assert.ok(found.conditions.timer_resolution_ms > 0 && found.conditions.kernel && found.conditions.browser, name);
        assert.doesNotThrow(() => check(found), `${name}: ${text.slice(0, 400)}`);
        const shown = await visit.page.$$eval('.lab-result > .lab-scroll tbody tr', ({ length }) => length);
        assert.equal(shown, tableRows < 0 ? found.rows.length : tableRows, name);
        assert.ok(await visit.page.$$eval('.lab-figures b', (values) => values.length > 0 && values.every(({ textContent }) => textContent && !/NaN|undefined|Infinity/.test(textContent))), name);
        const csv = (await saved(visit, 'CSV')).text.split('\r\n');
        assert.equal(csv[0], `# experiment: ${name}`);
        assert.ok(csv.some((line) => line.startsWith('# precision: q8_0')), name);
        await axe(visit.page);
      }
      await visit.leave();
    });

    test('a picture is saved as SVG and PNG', async () => {
      const visit = await site.served();
      await open(visit, 'inside');
      await run(visit);
      const svg = await saved(visit, 'SVG');
      assert.match(svg.text, /^<svg[^>]* xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
      // Colours come from the page's style sheet, and must be in the file.
      assert.match(svg.text, /fill="rgb\(11, 107, 99\)"/);
      const png = await saved(visit, 'PNG');
      assert.deepEqual([png.type, png.text.slice(1, 4)], ['image/png', 'PNG']);
      assert.ok(png.size > 1000);
      await visit.leave();
    });

    test('an experiment can be stopped, and what was found before stays', async () => {
      const visit = await site.served();
      await open(visit, 'check', 'n=8&repeats=1');
      assert.equal(await run(visit), '');
      await open(visit, 'check', 'n=400&repeats=20');
      await visit.page.click('.lab-actions .primary');
      await visit.reaches('running');
      await visit.page.click('.lab-actions .button:not(.primary, .quiet)');
      await visit.reaches('done');
      assert.match(await visit.page.$eval('.lab-message', ({ textContent }) => textContent ?? ''), /^Stopped after \d rows?\. The result before is still shown\.$/);
      assert.equal(JSON.parse((await saved(visit, 'JSON')).text).conditions.n, 8);
      // The page goes on.
      await visit.page.evaluate(() => { location.hash = ''; });
      assert.equal((await visit.run('Once upon a time', { max_tokens: 5, seed: 1 })).steps, 5);
      await visit.leave();
    });

    test('an experiment goes on in a tab that is not in front', async () => {
      const visit = await site.served();
      await open(visit, 'check', 'n=100&repeats=2');
      await visit.page.click('.lab-actions .primary');
      await visit.reaches('running', 'done');
      const other = await site.browser.newPage();
      await other.bringToFront();
      // Frames, for which `reaches` waits, do not come there.
      const state = () => visit.page.evaluate(() => document.documentElement.dataset.state);
      while (await state() === 'running') await new Promise((resolve) => setTimeout(resolve, 50));
      assert.equal(await state(), 'done');
      await other.close();
      await visit.page.bringToFront();
      assert.equal(JSON.parse((await saved(visit, 'JSON')).text).rows.at(-1).agree, 100);
      await visit.leave();
    });

    test('a model that was changed in between is the one that the next result names', async () => {
      const visit = await site.served();
      await open(visit, 'check', 'n=8&repeats=1');
      await run(visit);
      await visit.pick(TINY);
      assert.match(await visit.page.$eval('.lab-conditions', ({ textContent }) => textContent ?? ''), /^fairy-12m · q8_0/);
      assert.equal(await run(visit), '');
      assert.match(await visit.page.$eval('.lab-conditions', ({ textContent }) => textContent ?? ''), /f32 ·/);
      await open(visit, 'naive', 'lengths=100');
      assert.match(await run(visit), /100 more do not fit into the context of 64/);
      await visit.leave();
    });

    test('a trace goes on from another choice', async () => {
      const visit = await site.served();
      await open(visit, 'trace', 'n=3');
      await run(visit);
      const opened = () => visit.page.$$eval('.trace-step:not([hidden])', ({ length }) => length);
      assert.equal(await opened(), 1, 'no step is open before the one it needs');
      await visit.page.click('.trace + .actions .primary');
      assert.equal(await opened(), 2);
      const second = '.trace-step:nth-child(2) .candidates li:nth-child(3) button';
      const text = await visit.page.$eval(`${second} .candidate-text`, ({ textContent }) => textContent);
      await visit.page.click(second);
      await visit.page.waitForFunction(() => document.querySelector('.trace-step .given'));
      const found = JSON.parse((await saved(visit, 'JSON')).text);
      assert.deepEqual([found.rows[1].given, found.rows[1].rank, found.rows[1].chosen.text.replaceAll(' ', '␣')], [true, 3, text]);
      await visit.leave();
    });

    test('the sampling bench follows a slider without running the model, and looks into the last run', async () => {
      const visit = await site.served();
      await visit.run('Once upon a time', { max_tokens: 6, seed: 3 });
      await open(visit, 'sampling');
      await visit.page.click('.lab-actions .quiet');
      await visit.reaches('done');
      const kept = () => visit.page.$eval('.lab-figures b', ({ textContent }) => textContent);
      const before = await kept();
      await visit.page.$eval('.lab-field input[type="range"][max="100"]', (slider) => {
        /** @type {HTMLInputElement} */ (slider).value = '2';
        slider.dispatchEvent(new Event('input', { bubbles: true }));
      });
      await visit.page.waitForFunction((before) => document.querySelector('.lab-figures b')?.textContent !== before, {}, before);
      const found = JSON.parse((await saved(visit, 'JSON')).text);
      assert.deepEqual([found.summary.reused, found.conditions.top_k, found.summary.text.length], [true, 2, 10]);
      // Another token of the run.
      await visit.page.click('.token-row button:nth-child(6)');
      await visit.page.waitForFunction(() => document.querySelector('.token-row .asks')?.matches(':nth-child(6)'));
      assert.equal(JSON.parse((await saved(visit, 'JSON')).text).summary.position, 5);
      await visit.leave();
    });

    test('settings that are wrong are told beside their field, and a link says what it ignored', async () => {
      const visit = await site.served();
      await open(visit, 'check', 'n=many&colour=red');
      const message = await visit.page.$eval('.lab-message', ({ textContent }) => textContent ?? '');
      assert.match(message, /n=many must be a number/);
      assert.match(message, /colour=red is not a setting of this experiment/);
      await visit.page.$eval('#lab-n', (field) => { /** @type {HTMLInputElement} */ (field).value = '0'; });
      await visit.page.click('.lab-actions .primary');
      assert.equal(await visit.page.$eval('#lab-n-error', ({ textContent }) => textContent), 'Tokens must be at least 1.');
      assert.deepEqual(await visit.page.evaluate(() => [document.activeElement?.id, document.documentElement.dataset.state]), ['lab-n', 'ready']);
      await visit.leave();
    });

    test('the one file has the lab, opened by a link or by its tab', async () => {
      const visit = await site.fromDisk();
      await visit.page.click('#to-lab');
      await visit.page.waitForSelector('.lab-panel h2');
      await open(visit, 'inside');
      assert.equal(await run(visit), '');
      assert.equal(await visit.page.$$eval('.map .cell', ({ length }) => length), 45);
      await visit.leave();
    });
  });
}
