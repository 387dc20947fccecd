// The size of a file, raw and compressed as a server would send it.
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** @param {string} path @returns {Promise<{ raw: number, gzip: number, brotli: number }>} bytes */
export async function compressedSizes(path) {
  const file = await readFile(path);
  // Brotli's highest quality takes minutes for the page in one file, which holds compressed parts already.
  const quality = file.length > 8e6 ? 5 : 11;
  const brotli = await promisify(brotliCompress)(file, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: file.length,
    },
  });
  return { raw: file.length, gzip: (await promisify(gzip)(file, { level: 9 })).length, brotli: brotli.length };
}
