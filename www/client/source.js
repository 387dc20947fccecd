import { Gpt2Error } from './error.js';

/**
 * Where a model's files are.
 * @typedef {object} Source
 * @property {string} id what the store knows it by
 * @property {string} name what the record calls the model
 * @property {string} label what sentences call it
 * @property {(file: string) => URL} url
 * @property {readonly string[]} weights the first of these that exists
 * @property {readonly string[]} beside files that have to be there
 * @property {boolean} look whether a configuration and a tokenizer are looked for beside the weights
 * @property {boolean} fixed whether the addresses never change their contents
 */

const HUB = 'https://huggingface.co/';
/** Before the names of the files, where exactly these were asked for: others are another model. */
const FILES = '#files=';

/**
 * A repository on Hugging Face.
 * @param {string} repo owner/name
 * @param {object} [options]
 * @param {string} [options.revision] a branch, a tag or a commit
 * @param {readonly string[]} [options.files] exactly these, the weights last; else what a GPT-2 repository may have
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function repository(repo, { revision = 'main', files } = {}) {
  if (!/^[\w.-]+\/[\w.-]+$/.test(repo)) {
    throw new Gpt2Error('invalid_request', `"${repo}" is no repository name; write it as owner/name, as in openai-community/gpt2`);
  }
  return {
    id: `${HUB}${repo}@${encodeURIComponent(revision)}${files ? `${FILES}${files.map(encodeURIComponent).join(',')}` : ''}`,
    name: repo.split('/')[1] ?? repo,
    label: revision === 'main' ? repo : `${repo} (revision ${revision.slice(0, 12)})`,
    url: (file) => new URL(`${repo}/resolve/${encodeURIComponent(revision)}/${file}`, HUB),
    weights: files ? files.slice(-1) : ['model.safetensors', 'model.safetensors.index.json'],
    beside: files ? files.slice(0, -1) : [],
    look: !files,
    fixed: /^[0-9a-f]{40}$/.test(revision),
  };
}

/**
 * One address, with what lies beside it where the format needs that; or several, and then exactly those.
 * @param {string | URL | readonly (string | URL)[]} urls
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function addresses(urls) {
  const all = [urls].flat().map((url) => absolute(url));
  const [first] = all;
  if (!first) throw new Gpt2Error('invalid_request', 'there is no address; give at least that of the weights');
  const named = new Map(all.map((url) => [fileName(url), url]));
  if (named.size < all.length) throw new Gpt2Error('invalid_request', 'two addresses end in the same file name; give each file once');
  const names = [...named.keys()];
  const weights = names.find((name) => /\.(safetensors|gguf)$/i.test(name)) ?? names.find((name) => !/\.(json|txt)$/i.test(name)) ?? names[0] ?? '';
  const alone = all.length === 1;
  return {
    id: all.map(({ href }) => href).join(' '),
    name: modelName(weights, first),
    label: first.host,
    // A neighbour keeps the query, which may be the key to the folder.
    url: (file) => named.get(file) ?? Object.assign(new URL(file, first), { search: first.search }),
    weights: [weights],
    beside: names.filter((name) => name !== weights),
    look: alone && /\.safetensors(\.index\.json)?$/i.test(weights),
    fixed: all.every(({ host, pathname }) => host === 'huggingface.co' && /\/resolve\/[0-9a-f]{40}\//.test(pathname)),
  };
}

/**
 * What a person typed: a repository's name, its page, or the address of a file or several. Also the `id` of a source.
 * @param {string} text
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function typed(text) {
  const address = text.trim();
  const several = address.split(/\s+/);
  if (several.length > 1) return addresses(several);
  if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) {
    const [, repo, revision] = /^([^@\s]+?)(?:@([\w./-]+))?$/.exec(address) ?? [];
    return repository(repo ?? address, revision ? { revision } : {});
  }
  const url = absolute(address);
  if (!/^(www\.)?huggingface\.co$|^hf\.co$/.test(url.host)) return addresses(url);
  const [owner, name, kind, revision, ...path] = url.pathname.split('/').filter(Boolean);
  if (path.length > 0 && (kind === 'blob' || kind === 'resolve')) {
    // The page about a file is not the file.
    return addresses(new URL(`${owner}/${name}/resolve/${revision}/${path.join('/')}`, HUB));
  }
  const [repo, at] = `${owner}/${name}`.split('@');
  const given = at ?? (kind === 'tree' ? revision : undefined);
  const files = url.hash.startsWith(FILES) ? url.hash.slice(FILES.length).split(',').map((name) => decoded(name)) : null;
  return repository(repo ?? '', { ...(given && { revision: decoded(given) }), ...(files && { files }) });
}

/** @param {string | URL} url */
function absolute(url) {
  /** @type {URL} */ let parsed;
  try {
    parsed = new URL(url, globalThis.document?.baseURI);
  } catch (cause) {
    throw new Gpt2Error('invalid_request', `"${url}" is no address; give one that begins with https://`, { cause });
  }
  if (!/^https?:$/.test(parsed.protocol)) {
    throw new Gpt2Error('invalid_request', `"${url}" is no address this page can read; give one that begins with https://`);
  }
  return parsed;
}

/** @param {string} text of an address */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new Gpt2Error('invalid_request', `"${text}" is no part of an address: a % in it stands before no character; write the % itself as %25`, { cause });
  }
}

/** @param {URL} url */
const fileName = ({ pathname }) => decoded(pathname.split('/').pop() || 'model');

/** The weights' name, or their folder's where all models call theirs alike. @param {string} weights @param {URL} url */
function modelName(weights, { pathname, host }) {
  const name = weights.replace(/\.(gguf|safetensors)$|\.safetensors\.index\.json$/i, '');
  if (name !== 'model') return name;
  const folders = decoded(pathname).split('/').filter(Boolean).slice(0, -1);
  const at = folders.indexOf('resolve');
  return (at > 0 ? folders[at - 1] : folders.at(-1)) ?? host;
}
