// The distribution's Chromium, driven by playwright-core, and everything it complains about.
//
//     const browser = await startBrowser(folder);
//     const visitor = await browser.visitor('admin');       // own cookies, own page
//     await visit(visitor.page, url)                         // goes there and waits until no request is under way
//     browser.failures(), browser.complaints()               // what must be empty at the end
//     const other = browser.beside(folder2)                  // the same program; failures, screenshots and visitors of its own
//
// `hosts` are names that lead to a port of this machine: { 'a.test': 8080, '*.a.test': 8080 } has http://a.test/ at port 8080.
//
// Hosts outside this machine don't resolve in it (a resolver rule, not request interception: interception would turn
// the browser's cache off, and with it every conditional request).

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

/** Requests under way, and when the last one ended, a page. */
const traffic = new WeakMap();

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

/** Starts the browser with a fresh profile; screenshots go to `folder`, which is emptied. */
export async function startBrowser(folder, { hosts = {} } = {}) {
  const mapped = Object.entries(hosts).map(([name, port]) => `MAP ${name}:80 127.0.0.1:${port}`);
  const rules = [...mapped, 'MAP * ~NOTFOUND', 'EXCLUDE 127.0.0.1'].join(', ');
  const chrome = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: [...FLAGS, `--host-resolver-rules=${rules}`],
    timeout: 60_000,
  });
  return new Browser(chrome, folder, Object.keys(hosts));
}

class Browser {
  #failures = [];
  #complaints = [];
  #cancelled = [];
  #allowed = [];
  #shots = 0;
  #contexts = [];
  #owner = true;
  answers = 0;

  constructor(chrome, folder, hosts) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    this.chrome = chrome;
    this.folder = folder;
    this.hosts = hosts;
  }

  /** The same browser for another story. Its `close` leaves the program running. */
  beside(folder) {
    const other = new Browser(this.chrome, folder, this.hosts);
    other.#owner = false;
    return other;
  }

  /** A person with cookies of their own, and one page. `trusting`: also of a certificate that nobody vouches for. */
  async visitor(who, { trusting = false } = {}) {
    const viewport = { width: 1280, height: 900 };
    const context = await this.chrome.newContext({ viewport, locale: 'en-US', ignoreHTTPSErrors: trusting });
    this.#contexts.push(context);
    context.setDefaultTimeout(45_000);
    context.on('response', (response) => this.#answered(who, response));
    context.on('requestfailed', (request) => this.#failed(who, request));
    context.on('weberror', (event) => this.#complain(who, event.error().message ?? String(event.error())));
    context.on('console', (message) => {
      if (message.type() === 'error') this.#complain(who, message.text(), message.location()?.url);
    });
    const page = await context.newPage();
    watch(page);
    return { who, context, page };
  }

  /** A failure that the story provokes on purpose: `pattern` is tried on its line. */
  allow(pattern) {
    this.#allowed.push(pattern);
  }

  /** Writes `NN-name.png` of what `page` shows. */
  async shot(page, name) {
    this.#shots += 1;
    const file = `${String(this.#shots).padStart(2, '0')}-${name.replace(/[^a-z0-9]+/gi, '-').toLowerCase()}.png`;
    await page.screenshot({ path: join(this.folder, file), timeout: 15_000 });
  }

  /** Requests that failed (status 400 and up, or no whole answer). */
  failures() {
    return this.#failures.filter((line) => !this.#allowed.some((pattern) => pattern.test(line)));
  }

  /** Errors in the console and exceptions that nobody caught. */
  complaints() {
    return this.#complaints.filter((line) => !this.#allowed.some((pattern) => pattern.test(line)));
  }

  /** Requests that the browser itself gave up, by leaving the page. */
  cancelled() {
    return this.#cancelled;
  }

  async close() {
    if (this.#owner) return this.chrome.close();
    for (const context of this.#contexts) await context.close();
  }

  /** Whether a URL is one of this machine. */
  #isHere(url) {
    const { hostname } = new URL(url);
    const isLike = (host) => (host.startsWith('*') ? hostname.endsWith(host.slice(1)) : hostname === host);
    return hostname === '127.0.0.1' || this.hosts.some(isLike);
  }

  #answered(who, response) {
    this.answers += 1;
    if (response.status() < 400) return;
    const request = response.request();
    this.#failures.push(`${who}: ${response.status()} ${request.method()} ${response.url()}`);
  }

  #failed(who, request) {
    const url = new URL(request.url());
    if (url.protocol === 'blob:' || url.protocol === 'data:') return;
    if (/^https?:$/.test(url.protocol) && !this.#isHere(url)) return;
    const why = request.failure()?.errorText ?? 'failed';
    const line = `${who}: ${why} ${request.method()} ${request.url()}`;
    if (why === 'net::ERR_ABORTED') this.#cancelled.push(line);
    else this.#failures.push(line);
  }

  #complain(who, text, url = '') {
    const outside = url && /^https?:/.test(url) && !this.#isHere(url);
    if (!outside) this.#complaints.push(`${who}: ${text}${url ? ` (${url})` : ''}`);
  }
}

/** The frame that has made a request; null for a worker's. */
function frameOf(request) {
  try {
    return request.frame();
  } catch {
    return null;
  }
}

function watch(page) {
  const state = { open: new Set(), answered: new WeakMap(), quiet: Date.now() };
  traffic.set(page, state);
  const done = (request) => {
    state.open.delete(request);
    state.quiet = Date.now();
  };
  page.on('request', (request) => state.open.add(request));
  page.on('requestfinished', done);
  page.on('requestfailed', done);
  // WordPress asks with OPTIONS what a user may do and reads only the head: such a request never ends.
  page.on('response', (answer) => {
    state.answered.set(answer.request(), answer.status());
    if (answer.request().method() === 'OPTIONS') done(answer.request());
  });
  // The editor replaces the frame that it shows a post in: requests of the old one may end without a word.
  page.on('framedetached', (frame) => {
    for (const request of state.open) if (frameOf(request) === frame) done(request);
  });
  page.on('framenavigated', (frame) => {
    if (frame !== page.mainFrame()) return;
    for (const request of state.open) if (frameOf(request) !== frame) state.open.delete(request); // its frame is gone
  });
}

/** Waits until the page had no request under way for `still` milliseconds; throws after `seconds`. */
export async function settle(page, { still = 300, seconds = 30 } = {}) {
  const state = traffic.get(page);
  const began = Date.now();
  state.quiet = began;
  for (;;) {
    if (state.open.size === 0 && Date.now() - state.quiet >= still) return;
    if (Date.now() - began > seconds * 1000) {
      const open = [...state.open].map((request) => `${request.method()} ${request.url()} (${state.answered.get(request) ?? 'no response'})`);
      throw new Error(`requests without an end after ${seconds} s: ${open.join(' ') || 'they never stop'}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Goes to `url` and waits until all that belongs to the page is there. */
export async function visit(page, url) {
  const answer = await page.goto(url, { waitUntil: 'load' });
  await settle(page);
  return answer;
}

/** Throws unless every picture that `selector` names has been decoded. */
export async function picturesDecode(page, selector = 'img') {
  const broken = await page.$$eval(selector, async (images) => {
    for (const image of images) {
      image.loading = 'eager';
      await image.decode().catch(() => {});
    }
    return images.filter((image) => !(image.complete && image.naturalWidth > 0)).map((image) => image.src);
  });
  if (broken.length > 0) throw new Error(`pictures that don't decode: ${broken.join(' ')}`);
}
