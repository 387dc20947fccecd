// Says why the page does not start when its modules cannot run; otherwise it would seem to load forever. This is a classic
// script, which runs even where modules are refused, written in syntax that old browsers know.
{
  document.documentElement.dataset.guarded = ''; // hides the sentence that is for browsers where not even this script runs
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
    box.hidden = false; // before the text: screen readers may miss an alert that appears with its text
    box.replaceChildren(sentence);
    document.documentElement.dataset.state = 'error';
    /** @type {HTMLElement} */ (document.getElementById('load-progress')).hidden = true;
    /** @type {HTMLElement} */ (document.getElementById('model-status')).textContent = 'not loaded';
  };
  addEventListener('error', guard, true);
  // By then the modules have run, and they report later failures themselves.
  addEventListener('DOMContentLoaded', () => removeEventListener('error', guard, true));
}
