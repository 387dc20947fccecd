import { Gpt2Error } from '../error.js';
import { FILES, FOLDER, HUB, decoded, encoded, isHub, placeOf, placeOfHf } from './hub.js';

/**
 * Where a model's files are.
 * @typedef {object} Source
 * @property {string} id its name in the store
 * @property {string} name what the record calls the model
 * @property {string} label what sentences call it
 * @property {(file: string) => URL} url
 * @property {readonly string[]} weights candidates; the first that exists is used
 * @property {readonly string[]} companions files that are required beside the weights
 * @property {boolean} discover whether to look for a configuration and a tokenizer beside the weights
 * @property {boolean} immutable whether the contents of the addresses never change
 * @property {{ url: URL, page: (file: string) => string } | null} listing the address that lists all files, and the page
 *   of one of them; null if there is no list
 */

/**
 * A repository on Hugging Face.
 * @param {string} repo owner/name, or only the name of a few old ones
 * @param {object} [options]
 * @param {string} [options.revision] a branch, a tag or a commit
 * @param {string} [options.folder] inside the repository, instead of `files`
 * @param {readonly string[]} [options.files] exactly these, the weights last; by default what a GPT-2 repository may have
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function repository(repo, { revision = 'main', folder = '', files } = {}) {
  if (typeof repo !== 'string' || !/^(?!\.{1,2}(\/|$))[\w.-]+(\/(?!\.{1,2}$)[\w.-]+)?$/.test(repo)) {
    throw new Gpt2Error('invalid_request', `"${repo}" is not the name of a repository; write it as owner/name, as in openai-community/gpt2`);
  }
  if (typeof revision !== 'string') throw new Gpt2Error('invalid_request', `the revision of ${repo} must be a text: a branch, a tag or a commit`);
  if (files !== undefined && !(Array.isArray(files) && files.length > 0 && files.every((file) => typeof file === 'string' && file !== ''))) {
    throw new Gpt2Error('invalid_request', `the files of ${repo} must be a list of their names, the weights last`);
  }
  if (revision === '') throw new Gpt2Error('invalid_request', `there is no revision after the @ of ${repo}; give a branch, a tag or a commit, or leave the @ out`);
  const at = encodeURIComponent(revision);
  const within = (/** @type {string} */ file) => `${at}/${folder ? `${encoded(folder)}/` : ''}${encoded(file)}`;
  return {
    id: `${HUB}${repo}@${at}${folder ? `${FOLDER}${encodeURIComponent(folder)}` : files ? `${FILES}${files.map(encodeURIComponent).join(',')}` : ''}`,
    name: repo.split('/').at(-1) ?? repo,
    label: `${repo}${folder ? `/${folder}` : ''}${revision === 'main' ? '' : ` (revision ${revision.slice(0, 12)})`}`,
    url: (file) => new URL(`${repo}/resolve/${within(file)}`, HUB),
    weights: files ? files.slice(-1) : ['model.safetensors', 'model.safetensors.index.json'],
    companions: files ? files.slice(0, -1) : [],
    discover: !files,
    immutable: /^[0-9a-f]{40}$/.test(revision),
    listing: { url: new URL(`api/models/${repo}/revision/${at}`, HUB), page: (file) => `${HUB}${repo}/blob/${at}/${encoded(file)}` },
  };
}

/**
 * One address, with the files beside it if the format needs them; or several, and exactly those.
 * @param {string | URL | readonly (string | URL)[]} urls
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function addresses(urls) {
  const all = [urls].flat().map((url) => absolute(url));
  const [first] = all;
  if (!first) throw new Gpt2Error('invalid_request', 'no address was given; give at least that of the weights');
  const named = new Map(all.map((url) => [fileName(url), url]));
  if (named.size < all.length) throw new Gpt2Error('invalid_request', 'two addresses end in the same file name; give each file once');
  const names = [...named.keys()];
  const weights = names.find((name) => /\.(safetensors|gguf)$/i.test(name)) ?? names.find((name) => !/\.(json|txt)$/i.test(name)) ?? names[0] ?? '';
  const alone = all.length === 1;
  return {
    id: all.map(({ href }) => href).join(' '),
    name: modelName(weights, first),
    label: first.host,
    // The query may be what gives access to the folder.
    url: (file) => named.get(file) ?? Object.assign(new URL(encoded(file), first), { search: first.search }),
    weights: [weights],
    companions: names.filter((name) => name !== weights),
    discover: alone && /\.safetensors(\.index\.json)?$/i.test(weights),
    immutable: all.every(({ host, pathname }) => host === 'huggingface.co' && /\/resolve\/[0-9a-f]{40}\//.test(pathname)),
    listing: null,
  };
}

/**
 * The source that a person typed: the name of a repository, any of its pages, or the addresses of files. Also reads the
 * `id` of a source.
 * @param {string} text
 * @returns {Source}
 * @throws {Gpt2Error}
 */
export function typed(text) {
  if (typeof text !== 'string') throw new Gpt2Error('invalid_request', `an address must be a text, not ${text === null ? 'null' : typeof text}; give a repository as owner/name, or the address of a file`);
  const parts = text.trim().replace(/^<(.*)>$|^"(.*)"$|^'(.*)'$/, '$1$2$3').trim().split(/\s+/);
  const [only = ''] = parts;
  if (parts.length > 1) return addresses(parts.map((part) => addressOf(part) ?? notAnAddress(part, 'give one repository, or addresses with blanks between them')));
  if (only === '') throw new Gpt2Error('invalid_request', 'nothing was given; type a repository as owner/name, as in openai-community/gpt2, or the address of a file');
  if (/^hf:/i.test(only)) return ofPlace(placeOfHf(only));
  const url = addressOf(only);
  if (url && !isHub(url.host)) return addresses(url);
  const hub = url ?? absolute(`${HUB}${only}`);
  return ofPlace(placeOf(hub), hub.hash);
}

/**
 * An address, with or without its scheme; null for the name of a repository.
 * @param {string} text
 */
function addressOf(text) {
  if (/^([a-z]:[\\/]|file:)/i.test(text)) return notAnAddress(text, 'a page cannot read a path on this machine; open the file instead');
  if (/^\/\//.test(text)) return absolute(`https:${text}`);
  const [host = '', ...path] = text.replace(/[?#].*$/, '').split('/');
  const local = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i.test(host);
  if (local || /^[\w.-]+:\d+$/.test(host)) return absolute(`${local ? 'http' : 'https'}://${text}`);
  if (/^[a-z][a-z0-9+.-]*:/i.test(text) || /^\.{0,2}$/.test(host)) return absolute(text);
  // The owner of a repository might have a dot in the name. The address of a file has more parts than owner/name.
  const named = /^([\w-]+\.)+[a-z]{2,}$/i.test(host) && (path.filter(Boolean).length > 1 || /\.(safetensors|gguf|json)$/i.test(path[0] ?? ''));
  return named || isHub(host) ? absolute(`https://${text}`) : null;
}

/** @param {import('./hub.js').Place} place @param {string} [hash] */
function ofPlace({ repo, revision, folder, file }, hash = '') {
  if (file) return addresses(fileUrl(repo, revision, file));
  const files = hash.startsWith(FILES) ? hash.slice(FILES.length).split(',').map((name) => decoded(name)) : null;
  return repository(repo, { revision, folder: hash.startsWith(FOLDER) ? decoded(hash.slice(FOLDER.length)) : folder, ...(files && { files }) });
}

/** @param {string} repo @param {string} revision @param {string} file */
const fileUrl = (repo, revision, file) => new URL(`${encoded(repo)}/resolve/${encodeURIComponent(revision)}/${encoded(file)}`, HUB);

/** @param {string | URL} url */
function absolute(url) {
  /** @type {URL} */ let parsed;
  try {
    if (typeof url !== 'string' && !(url instanceof URL)) throw new TypeError(`an address must be a text or a URL, not ${url === null ? 'null' : typeof url}`);
    parsed = new URL(url, globalThis.document?.baseURI);
  } catch (cause) {
    throw new Gpt2Error('invalid_request', `"${url}" is not an address; give one that begins with https://`, { cause });
  }
  if (!/^https?:$/.test(parsed.protocol)) return notAnAddress(String(url), 'give one that begins with https://');
  if (parsed.username || parsed.password) return notAnAddress(parsed.origin, 'it has a user name or a password in it; leave them out');
  if (!isHub(parsed.host)) {
    parsed.hash = '';
    return parsed;
  }
  // The page about a file is not the file itself.
  if (!/\/(blob|resolve|raw|blame)\/[^/]+\/./.test(parsed.pathname) || /^\/(datasets|spaces|api)\//.test(parsed.pathname)) return parsed;
  const { repo, revision, file } = placeOf(parsed);
  return file ? fileUrl(repo, revision, file) : parsed;
}

/** @param {string} text @param {string} advice @returns {never} */
function notAnAddress(text, advice) {
  throw new Gpt2Error('invalid_request', `"${text}" is not an address this page can read; ${advice}`);
}

/** @param {URL} url */
const fileName = ({ pathname }) => decoded(pathname.split('/').pop() || 'model');

/** The name of the weights file, or of its folder if the file is called model. @param {string} weights @param {URL} url */
function modelName(weights, { pathname, host }) {
  const name = weights.replace(/\.(gguf|safetensors)$|\.safetensors\.index\.json$/i, '');
  if (name !== 'model') return name;
  const folders = decoded(pathname).split('/').filter(Boolean).slice(0, -1);
  const at = folders.indexOf('resolve');
  return (at > 0 ? folders[at - 1] : folders.at(-1)) ?? host;
}
