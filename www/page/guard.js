// Says why the page does not start, where its modules cannot: without this it would seem to load for ever. A classic
// script, because those still run where modules are refused, and in words that old browsers know.
{
  document.documentElement.dataset.guarded = ''; // takes away the sentence for where not even this runs
  const guard = (/** @type {Event} */ event) => {
    const missing = event.target instanceof HTMLScriptElement && event.target.type === 'module' ? event.target.src : null;
    const thrown = event instanceof ErrorEvent && event.filename.startsWith(new URL('.', document.baseURI).href) ? event.message : null;
    if (missing === null && thrown === null) return;
    removeEventListener('error', guard, true);
    const sentence = document.createElement('p');
    sentence.textContent = missing === null
      ? `This page could not start: ${thrown}. It needs a current browser.`
      : location.protocol === 'file:'
        ? 'Browsers block scripts loaded from disk. Open gpt2-web.html, the one-file version, or serve this folder with a web server.'
        : self.origin === 'null'
          ? 'This frame is sandboxed, so the page\'s scripts are cross-origin. Use gpt2-web.html in this frame, or have their host send the header Access-Control-Allow-Origin.'
          : `${missing} could not be loaded, so the page cannot start. Check the connection and reload; the server must send .js files as text/javascript.`;
    const box = /** @type {HTMLElement} */ (document.getElementById('error'));
    box.hidden = false; // before the text: an alert that appears with its text may go unheard
    box.replaceChildren(sentence);
    document.documentElement.dataset.state = 'error';
    /** @type {HTMLElement} */ (document.getElementById('load-progress')).hidden = true;
    /** @type {HTMLElement} */ (document.getElementById('model-status')).textContent = 'not loaded';
  };
  addEventListener('error', guard, true);
  // By then the page's modules have run, and what fails later says so itself.
  addEventListener('DOMContentLoaded', () => removeEventListener('error', guard, true));
}
