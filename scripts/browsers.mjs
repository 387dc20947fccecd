// Starts the headless browsers that `generate` and the end-to-end tests drive.
import puppeteer from 'puppeteer-core';

/** @typedef {'chrome' | 'firefox'} BrowserName */

/**
 * Launches a browser with a new profile. It ends with this process.
 * @param {BrowserName} name
 * @param {import('puppeteer-core').LaunchOptions} [options]
 */
export function launch(name, options = {}) {
  const executablePath = name === 'chrome' ? process.env.CHROME ?? '/usr/bin/chromium' : process.env.FIREFOX ?? '/usr/bin/firefox-esr';
  return puppeteer.launch({ browser: name, executablePath, headless: true, ...(name === 'chrome' ? CHROME() : FIREFOX), ...options });
}

const FIREFOX = {
  // Puppeteer lets a page from disk read its folder; users' browsers do not.
  extraPrefsFirefox: { 'security.fileuri.strict_origin_policy': true },
};

const CHROME = () => ({
  // The browser ends when the pipe does, even if this process is killed.
  pipe: true,
  args: [
    // Chromium's sandbox does not work as root, the user in a container.
    ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
    '--disable-gpu', '--disable-quic', '--disable-dev-shm-usage', '--no-first-run', '--disable-background-networking',
  ],
});
