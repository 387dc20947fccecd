import { Gpt2Error } from '../error.js';

/** Addresses on Hugging Face: which repository they name, and which part of it. */

/**
 * `folder` and `file` are paths inside the repository; both are empty for the repository itself.
 * @typedef {{ repo: string, revision: string, folder: string, file: string }} Place
 */

export const HUB = 'https://huggingface.co/';
/** In an id, precedes the names of the files that were requested: other files are another model. */
export const FILES = '#files=';
/** In an id, precedes the folder of the repository that was requested. */
export const FOLDER = '#folder=';

const HOST = /^(www\.)?(huggingface\.co|hf\.co)$/i;
/** Pages about one file; followed by the revision and the path of the file. */
const FILE_PAGES = new Set(['blob', 'resolve', 'raw', 'blame', 'edit']);
/** Pages about a revision, which may contain slashes. */
const REVISION_PAGES = new Set(['tree', 'commits', 'commit']);
/** Pages about the repository as a whole. */
const OTHER_PAGES = new Set(['discussions', 'settings', 'community', 'colab', 'edit-model-card']);
/** Pages that are not about a model, although their addresses look like it. @type {{ [first: string]: string }} */
const NO_MODELS = Object.assign(Object.create(null), {
  datasets: 'is a dataset, not a model', spaces: 'is a Space, an app, not a model', models: 'is a list of models',
  ...Object.fromEntries(['api', 'blog', 'chat', 'collections', 'docs', 'enterprise', 'join', 'kernels', 'learn', 'login', 'new',
    'organizations', 'papers', 'posts', 'pricing', 'search', 'settings', 'tasks'].map((name) => [name, 'is not the page of a model'])),
});
const WEIGHTS = /\.(safetensors|gguf)$|\.safetensors\.index\.json$/i;

/** @param {string} host */
export const isHub = (host) => HOST.test(host);

/**
 * @param {URL} url any page on Hugging Face
 * @returns {Place}
 * @throws {Gpt2Error} if it is not the page of a model
 */
export function placeOf({ pathname, href }) {
  const path = pathname.split('/').filter(Boolean);
  const [first = '', second = ''] = path;
  if (first === '') throw refused(href, 'is the front page of Hugging Face');
  const no = NO_MODELS[first];
  if (no) throw refused(href, no);
  if (path.length === 1 && WEIGHTS.test(first)) throw refused(href, 'names a file without its repository');

  const marked = path.slice(0, 2).findIndex((part) => part.includes('@'));
  if (marked >= 0) {
    const [name = '', ...revision] = path.slice(marked).join('/').split('@');
    return { repo: decoded([...path.slice(0, marked), name].join('/')), revision: decoded(revision.join('@')), folder: '', file: '' };
  }
  // A few old repositories have no owner in their names.
  const isPage = (/** @type {string | undefined} */ part = '') => FILE_PAGES.has(part) || REVISION_PAGES.has(part) || OTHER_PAGES.has(part);
  const old = (isPage(second) && !isPage(path[2])) || (path.length === 2 && /^model\.safetensors/.test(second));
  const [kind, ...rest] = path.slice(old ? 1 : 2);
  const repo = decoded(path.slice(0, old ? 1 : 2).join('/'));
  if (kind === undefined || OTHER_PAGES.has(kind)) return { repo, revision: 'main', folder: '', file: '' };
  if (FILE_PAGES.has(kind)) {
    const [revision, file] = split(rest, true);
    return { repo, revision, folder: '', file };
  }
  if (REVISION_PAGES.has(kind)) {
    const [revision, folder] = split(rest, false);
    return { repo, revision, folder, file: '' };
  }
  const file = decoded([kind, ...rest].join('/'));
  if (WEIGHTS.test(file)) return { repo, revision: 'main', folder: '', file };
  throw refused(href, `is not a page of ${repo} that this program knows (a folder of it is ${HUB}${repo}/tree/main/${file})`);
}

/**
 * `hf://owner/name@revision/path`, as `huggingface_hub` writes it.
 * @param {string} text
 * @returns {Place}
 * @throws {Gpt2Error}
 */
export function placeOfHf(text) {
  const path = text.replace(/^hf:\/*/i, '').replace(/[?#].*$/, '').split('/').filter(Boolean);
  const owned = path.length > 1 && !path[0]?.includes('@') && !WEIGHTS.test(path[1] ?? '');
  const place = placeOf(new URL(path.slice(0, owned ? 2 : 1).join('/'), HUB));
  const rest = path.slice(owned ? 2 : 1);
  if (place.revision === 'refs') place.revision = ['refs', ...rest.splice(0, 2)].join('/');
  const within = decoded(rest.join('/'));
  return WEIGHTS.test(within) ? { ...place, file: within } : { ...place, folder: within };
}

/**
 * The revision, and the path after it. The name of a branch may contain slashes, so where it ends is ambiguous: all parts
 * are the branch, unless the first part is known to be a revision or a file has to follow.
 * @param {string[]} rest @param {boolean} file
 * @returns {[string, string]}
 */
function split(rest, file) {
  const [first = 'main', , third] = rest;
  const parts = first === 'refs' && third !== undefined ? 3
    : file || /^(main|master|[0-9a-f]{7,40})$|%2f/i.test(first) ? 1
    : rest.length;
  return [decoded(rest.slice(0, parts).join('/') || 'main'), decoded(rest.slice(parts).join('/'))];
}

/** @param {string} href @param {string} what */
const refused = (href, what) => new Gpt2Error('invalid_request',
  `${href} ${what}; give a repository as owner/name, as in openai-community/gpt2, or the address of a .safetensors or .gguf file`);

/** @param {string} text of an address @throws {Gpt2Error} */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new Gpt2Error('invalid_request', `"${text}" cannot be decoded: a % in it is not followed by two digits; write the % itself as %25`, { cause });
  }
}

/** @param {string} path keeps its slashes */
export const encoded = (path) => path.split('/').map(encodeURIComponent).join('/');
