// Prints the sizes of files, raw and compressed as a server would send them.
import { basename } from 'node:path';
import { compressedSizes } from './compressed.mjs';

/** @param {number} bytes */
const mb = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`.padStart(10);
console.log(`${''.padEnd(20)}${'raw'.padStart(10)}${'gzip'.padStart(10)}${'brotli'.padStart(10)}`);
for (const path of process.argv.slice(2)) {
  const { raw, gzip, brotli } = await compressedSizes(path);
  console.log(basename(path).padEnd(20) + mb(raw) + mb(gzip) + mb(brotli));
}
