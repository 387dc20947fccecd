// Starts a module with its glue as the worker does. An optimiser that does not know the compiler's features may write a
// module that validates but does not start.
//
//     node scripts/check-module.mjs DIR
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runInThisContext } from 'node:vm';

const folder = process.argv[2];
if (!folder) throw new Error('check-module.mjs needs the folder of gpt2_web.js and gpt2_web_bg.wasm');
const glue = runInThisContext(`${await readFile(join(folder, 'gpt2_web.js'), 'utf8')}\nwasm_bindgen`);
glue.initSync({ module: await readFile(join(folder, 'gpt2_web_bg.wasm')) });
