// The stories: a WordPress whose editors work in a browser, while anonymous visitors ask for its pages. `hooks`: WordPress
// as it is, and what Millrace adds to it. `litespeed`: with a plugin that speaks to the cache as LiteSpeed Cache does.

import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Ended, Report } from '../lib/report.mjs';
import { cleanUp, freePort, temporary } from '../lib/processes.mjs';
import { startBrowser } from '../lib/browser.mjs';
import { repository, serve, version } from '../lib/server.mjs';
import { newWordPress, phpErrors } from '../lib/wordpress.mjs';
import { logIn, permalinks } from '../browser/steps.mjs';
import * as steps from './steps.mjs';
import * as litespeed from './litespeed.mjs';

const report = new Report();
const scratch = temporary('pages');
const chosen = process.argv.slice(2);
try {
  report.note(await version());
  for (const [name, walk] of [['hooks', hooks], ['litespeed', plugin]]) {
    if (chosen.length === 0 || chosen.includes(name)) await story(name, walk);
  }
} catch (error) {
  report.check('the test itself', false, error.stack);
} finally {
  await cleanUp();
  report.finish();
}

/** One story from the empty folder to the verdict. */
async function story(name, walk) {
  const part = report.part(name);
  const folder = join(repository, 'target/browser-cache', name);
  const port = freePort();
  const root = join(scratch, name, 'site');
  let browser, server;
  try {
    const site = await part.step('make the site', async () => {
      const made = await newWordPress({ root, url: `http://127.0.0.1:${port}`, title: 'Mill and race', installed: true });
      mkdirSync(join(root, 'wp-content/mu-plugins'), { recursive: true });
      cpSync(join(import.meta.dirname, 'shop.php'), join(root, 'wp-content/mu-plugins/shop.php'));
      cpSync(join(import.meta.dirname, 'litespeed-cache'), join(root, 'wp-content/plugins/litespeed-cache'), { recursive: true });
      return { ...made, url: `http://127.0.0.1:${port}` };
    }, { seconds: 240 });
    server = await part.step('start the server', () => serve({ root, port, scratch: join(scratch, name), settings: { 'cache.dir': 'off' } }));
    browser = await startBrowser(folder);
    site.server = server;
    await walk(part, browser, site);
  } catch (error) {
    if (!(error instanceof Ended)) part.check('the story', false, error.stack);
  }
  if (browser) await verdict(part, browser);
  if (server) {
    if (process.env.KEEP) part.note(`site and logs: ${join(scratch, name)}`);
    const complaints = phpErrors(server.log());
    part.check('no PHP error in the log', complaints.length === 0, complaints.join(' | '));
    const end = await server.stop();
    part.check('the server ends as it should', end === '', `${end}: ${server.log().slice(-800)}`);
  }
  part.note(`${part.seconds().toFixed(0)} s; screenshots: ${folder}`);
}

/** Three people, and `step`, which takes a photograph of what the one sees who does it. */
async function cast(part, browser, site) {
  const [admin, writer, guest, other] = await Promise.all(['admin', 'writer', 'guest', 'other'].map((who) => browser.visitor(who)));
  const step = (name, who, work, seconds) =>
    part.step(name, () => work(who.page, site, { admin, writer, guest, other }), { seconds, after: () => browser.shot(who.page, name) });
  await step('log in', admin, logIn);
  await step('permalinks', admin, permalinks);
  await step('users, posts and pages', admin, steps.furnish);
  return { admin, writer, guest, other, step };
}

async function hooks(part, browser, site) {
  const { admin, writer, guest, step } = await cast(part, browser, site);
  await step('another theme', admin, steps.theme);
  await step('strangers get kept pages', guest, steps.hits);
  await step('a post is edited', admin, steps.edit, 120);
  await step('a comment, and its approval', guest, steps.comment);
  await step('a menu', admin, steps.menu);
  await step('a widget', admin, steps.widget);
  await step('title, category, author are renamed', admin, steps.names);
  await step('unpublished, binned, deleted', admin, steps.unpublish);
  await step('a post with a password', guest, steps.password);
  await step('a writer logs in and out', writer, steps.logInAndOut);
  await step('a page while everybody asks for it', admin, steps.everybodyAtOnce);
  await step('the cache in the admin bar', admin, steps.adminBar);
  await step('a shop', guest, steps.shop);
  await step('a form with a nonce', guest, steps.nonce);
  await step('a scheduled post', guest, steps.scheduled);
  await step('Site Health finds the page cache', admin, steps.siteHealth, 120);
}

async function plugin(part, browser, site) {
  const { admin, guest, step } = await cast(part, browser, site);
  await step('the plugin finds its server', admin, litespeed.activate);
  await step('the second request is a hit', guest, litespeed.hits);
  await step('publishing purges by tags', admin, litespeed.publish);
  await step('purges on any answer', admin, litespeed.purges);
  await step('users and commenters have pages of their own', guest, litespeed.vary);
  await step('a shop', guest, steps.shop);
  await step('lifetimes, cookies, refusals', guest, litespeed.controls);
  await step('the crawler', guest, litespeed.crawler);
  await step('pages outlive a reload', guest, litespeed.reload);
}

/** What the browser itself noticed. */
async function verdict(part, browser) {
  const failures = browser.failures();
  part.check(`no failed request among ${browser.answers} answers`, failures.length === 0 && browser.answers > 30, failures.join(' | ') || 'too few answers');
  const complaints = browser.complaints();
  part.check('no error in the console', complaints.length === 0, complaints.join(' | '));
  await browser.close();
}
