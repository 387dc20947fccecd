import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

test('every command only prints the usage for --help', () => {
  for (const command of ['generate', 'serve', 'build', 'test', 'bench', 'setup']) {
    const { status, stdout, stderr } = spawnSync('./build.sh', [command, '--help'], { encoding: 'utf8', timeout: 120_000 });
    assert.deepEqual([status, stderr], [0, ''], command);
    assert.match(stdout, /^gpt2-web: .*\.\/build\.sh generate "PROMPT"/s, command);
  }
});
