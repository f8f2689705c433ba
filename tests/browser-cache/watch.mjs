// Looking at the cache as an anonymous visitor does, without a browser: one request, no cookies but those given.

import { request } from 'node:http';
import { pause } from '../lib/processes.mjs';

/** What Chromium says of itself: themes that ask WordPress about the browser have a page for each kind. */
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/130.0.0.0 Safari/537.36';

/**
 * Sends a request. Returns `{ status, headers, text, hit, said, cookies, made }`: `said` is Cache-Status, `cookies` what
 * it sets, `made` the number of the run of PHP that made the page (of shop.php).
 */
export function ask(url, { method = 'GET', headers = {}, body } = {}) {
  const { promise, resolve, reject } = Promise.withResolvers?.() ?? deferred();
  const asked = request(url, { method, headers: { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'User-Agent': AGENT, ...headers }, agent: false, timeout: 30_000 }, (answer) => {
    const pieces = [];
    answer.on('data', (piece) => pieces.push(piece));
    answer.on('error', reject);
    answer.on('end', () => {
      const said = answer.headers['cache-status'] ?? '';
      const cookies = answer.headers['set-cookie'] ?? [];
      resolve({ status: answer.statusCode, headers: answer.headers, text: Buffer.concat(pieces).toString(), said, hit: /; hit\b/.test(said), cookies, made: answer.headers['x-made'] });
    });
  });
  asked.on('timeout', () => asked.destroy(new Error(`${url}: no answer`)));
  asked.on('error', reject);
  asked.end(body);
  return promise;
}

function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

export function expect(fine, why) {
  if (!fine) throw new Error(why);
}

/** What must never be in a page for strangers. */
const PERSONAL = /wpadminbar|admin-bar-inline|wp-admin-bar-|Howdy|logged-in/;

/** A page as everybody gets it: nothing in it is anybody's own. */
export async function look(site, path, more) {
  const page = await ask(site.url + path, more);
  const own = PERSONAL.exec(page.text);
  expect(!own, `${path} shows ${own?.[0]} to a stranger: ${page.said}`);
  // litespeed-cache/ has one for everybody on one page.
  const cookies = page.cookies.filter((cookie) => !cookie.startsWith('seen_about='));
  expect(!page.hit || cookies.length === 0, `${path}: a cookie out of the cache: ${cookies}`);
  return page;
}

/** Asks for pages until each is a hit; throws if one does not become one. Returns which run of PHP made each, by path. */
export async function warm(site, paths) {
  const made = new Map();
  for (const path of paths) {
    let page;
    for (let turn = 0; turn < 3 && !page?.hit; turn += 1) page = await look(site, path);
    expect(page.hit, `${path} is not kept: ${page.status}, ${page.said}`);
    expect(page.made, `${path} does not say when it was made`);
    made.set(path, page.made);
  }
  return made;
}

/**
 * Plays `change`. At the very next request each page of `fresh` (a path, or a path and what it must then show: text, or a
 * function of the page) must be another one, made since - for this visitor, or before him: what is wanted most is made anew
 * by the server itself - and each of `kept` must be the same still.
 */
export async function changes(site, change, { fresh, kept = [] }) {
  const pages = fresh.map((one) => (Array.isArray(one) ? one : [one]));
  const before = await warm(site, [...pages.map(([path]) => path), ...kept]);
  await change();
  const wrong = [];
  for (const [path, shows] of pages) {
    const page = await look(site, path);
    if (page.made === before.get(path)) wrong.push(`${path} is the old one: ${page.said}`);
    else if (typeof shows === 'function' ? !shows(page) : shows && !page.text.includes(shows)) wrong.push(`${path} (${page.said}) does not show ${shows}`);
  }
  for (const path of kept) {
    const page = await look(site, path);
    if (page.made !== before.get(path)) wrong.push(`${path}, which has nothing to do with it, is another: ${page.said}`);
  }
  expect(wrong.length === 0, wrong.join('; '));
}

/** Waits until `test()` is true. */
export async function until(test, seconds, why) {
  const end = Date.now() + seconds * 1000;
  while (!(await test())) {
    expect(Date.now() < end, `${why} after ${seconds} s`);
    await pause(250);
  }
}
