// A real browser for tests of the page. Every page is watched: requests to other addresses, errors of scripts
// and violations of the content security policy are kept in `complaints`.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kPatienceMs, source } from './service.mjs';

export const screenshots = join(source, 'build/screenshots');

/** Ends the program with 77 and a sentence. */
export function skip(sentence) {
  console.log(`page: ${sentence}`);
  process.exit(77);
}

function needed() {
  const require = createRequire(join(source, 'web/package.json'));
  const executable = ['chromium', 'chromium-browser', 'google-chrome']
    .flatMap((name) => (process.env.PATH ?? '').split(':').map((folder) => join(folder, name)))
    .find((path) => existsSync(path));
  if (!executable) skip('no chromium here: see tests/page/install');
  try {
    return { executable, chromium: require('playwright-core').chromium, axe: require.resolve('axe-core/axe.min.js') };
  } catch {
    return skip('no web/node_modules here: see tests/page/install');
  }
}

const { executable, chromium, axe } = needed();

export class Browser {
  complaints = [];

  static async start({ headless = true } = {}) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), 'cohort-browser-'));
    browser.browser = await chromium.launch({
      executablePath: executable,
      headless,
      timeout: kPatienceMs,
      args: [
        '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--enable-precise-memory-info',
      ], // prettier-ignore
      env: { ...process.env, HOME: browser.folder, XDG_CONFIG_HOME: browser.folder, XDG_CACHE_HOME: browser.folder },
    });
    return browser;
  }

  /** A person with an own window, signed in by a one-time link unless `signed_in` is false. */
  async person(service, { width = 1280, height = 800, dark = false, still = false, signed_in = true, token } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: still ? 'reduce' : 'no-preference',
      acceptDownloads: true,
    });
    context.setDefaultTimeout(kPatienceMs);
    const page = await context.newPage();
    this.watch(page, service.address);
    if (signed_in) {
      const { path } = await service.call('POST', '/v1/links', undefined, token);
      await page.goto(service.address + path);
    }
    return page;
  }

  watch(page, address) {
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(`${address}/`) && !/^(data|blob):/.test(url)) this.complaints.push(`request to ${url}`);
    });
    page.on('pageerror', (error) => this.complaints.push(`error: ${error.stack ?? error.message}`));
    page.on('console', (message) => {
      const text = message.text();
      if (/Content Security Policy|Refused to|TypeError|ReferenceError/.test(text)) this.complaints.push(`console: ${text}`);
    });
    page.on('dialog', (dialog) => {
      this.complaints.push(`a script of the content ran: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }

  async close() {
    await this.browser.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

export async function shoot(page, name) {
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`) });
}

/** What axe finds wrong on the page, one sentence each. */
export async function axe_violations(page) {
  await page.evaluate(readFileSync(axe, 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.target.join(' ')}: ${violation.help}`));
}
