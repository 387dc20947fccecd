// Prints how large files are, as they are and as a server would send them.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

/** @param {number} bytes */
const mb = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`.padStart(10);
console.log(`${''.padEnd(20)}${'raw'.padStart(10)}${'gzip'.padStart(10)}${'brotli'.padStart(10)}`);
for (const path of process.argv.slice(2)) {
  const file = await readFile(path);
  // The strongest brotli takes minutes on the one file, which holds compressed parts already.
  const quality = file.length > 8e6 ? 5 : 11;
  const brotli = brotliCompressSync(file, { params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: file.length } });
  console.log(basename(path).padEnd(20) + mb(file.length) + mb(gzipSync(file, { level: 9 }).length) + mb(brotli.length));
}
