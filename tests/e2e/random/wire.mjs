// Watches the messages between the page and its workers: how each request is answered, and that nothing follows its end.
// Also makes a worker fail.

const ENDS = new Set(['ready', 'unloaded', 'done', 'error', 'pong']);

/** Makes the worker obey these messages, which its own code never sees. */
const HURTS = `self.addEventListener('message', (event) => {
  if (!event.data?.hurt) return;
  event.stopImmediatePropagation();
  if (event.data.hurt === 'panic') wasm_bindgen.provoke_panic('a panic on purpose');
  if (event.data.hurt === 'throw') throw new Error('thrown on purpose');
  if (event.data.hurt === 'fall silent') self.close();
});`;

/** Every worker of the page from now on, and what is wrong with its messages. */
export class Wire {
  /** @type {string[]} */ problems = [];
  /** @type {Map<Watched, Map<number, { type: string, end: string | null }>>} Living workers and their requests. */ workers = new Map();
  started = 0;

  constructor() {
    const wire = this;
    const Original = Worker;
    globalThis.Worker = class extends Original {
      /** @param {string | URL} url */
      constructor(url) {
        const base = JSON.stringify(new URL(url, location.href).href);
        const source = `${HURTS} self.GPT2_WEB_BASE = ${base}; importScripts(${base});`;
        super(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
        wire.started++;
        wire.workers.set(this, new Map());
        this.addEventListener('message', ({ data }) => {
          for (const event of [data].flat()) wire.heard(this, event);
        });
      }

      /** @param {any} message @param {any} [transfer] */
      postMessage(message, transfer) {
        super.postMessage(message, transfer);
        wire.sent(this, message);
      }

      terminate() {
        wire.workers.delete(this);
        super.terminate();
        this.dispatchEvent(new Event('gone'));
      }
    };
  }

  /** @param {Watched} worker @param {any} message */
  sent(worker, message) {
    const { type, id } = message ?? {};
    if (type === 'cancel' || type === 'provide_tokenizer' || !Number.isInteger(id)) return;
    this.workers.get(worker)?.set(id, { type, end: null });
  }

  /** @param {Watched} worker @param {any} event */
  heard(worker, event) {
    const asked = this.workers.get(worker);
    // The answer to a message without a usable id has none.
    if (!asked || event.id === null) return;
    const request = asked.get(event.id);
    if (!request) return void this.problems.push(`${event.type} for a request ${event.id} that was not made`);
    if (request.end === 'ready' && event.type === 'hashed') return void (request.end = 'hashed');
    if (request.end) return void this.problems.push(`${event.type} for the ${request.type} ${event.id}, which ended with ${request.end}`);
    if (ENDS.has(event.type)) request.end = event.type;
  }

  /** Resolves when the client has ended the worker. @param {Watched} worker */
  gone(worker) {
    return new Promise((resolve) => worker.addEventListener('gone', resolve, { once: true }));
  }

  /**
   * Resolves when the worker has answered a message with this id, or without one, or is gone; the client has heard it too.
   * @param {Watched} worker @param {unknown} id
   */
  answer(worker, id) {
    const answered = new Promise((resolve) => {
      /** @param {MessageEvent} message */
      const hear = ({ data }) => {
        if ([data].flat().every((event) => event.id !== null && event.id !== id)) return;
        worker.removeEventListener('message', hear);
        resolve(undefined);
      };
      worker.addEventListener('message', hear);
    });
    return Promise.race([answered, this.gone(worker)]);
  }

  /** The present worker. */
  get worker() {
    return [...this.workers.keys()].at(-1);
  }

  /** Requests that have not ended. */
  open() {
    return [...this.workers.values()].flatMap((asked) => [...asked].flatMap(([id, { type, end }]) => (end ? [] : [`${type} ${id}`])));
  }
}

/** @typedef {Worker} Watched */
