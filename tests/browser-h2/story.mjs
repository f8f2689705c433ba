// A WordPress over HTTPS: everything that the browser loads of its front page and its administration comes by HTTP/2, and
// nothing fails.

import { join } from 'node:path';
import { Ended, Report } from '../lib/report.mjs';
import { cleanUp, freePort, temporary } from '../lib/processes.mjs';
import { settle, startBrowser, visit } from '../lib/browser.mjs';
import { repository, serve, version } from '../lib/server.mjs';
import { newWordPress, phpErrors } from '../lib/wordpress.mjs';
import * as steps from '../browser/steps.mjs';

const report = new Report();
const scratch = temporary('h2');
try {
  report.note(await version());
  await story();
} catch (error) {
  report.check('the test itself', false, error.stack);
} finally {
  await cleanUp();
  report.finish();
}

async function story() {
  const part = report.part('h2');
  const port = freePort();
  const url = `https://127.0.0.1:${port}`;
  const root = join(scratch, 'site');
  let browser, server;
  try {
    const site = await part.step('make the site', async () => ({ ...(await newWordPress({ root, url, title: 'Mill and race', installed: true })), url }), { seconds: 240 });
    server = await part.step('start the server', () => serve({ root, port, scratch, secure: true }));
    browser = await startBrowser(join(repository, 'target/browser-h2'));
    await walk(part, browser, site);
    await verdict(part, browser);
  } catch (error) {
    if (!(error instanceof Ended)) part.check('the story', false, error.stack);
  }
  if (!server) return;
  const complaints = phpErrors(server.log());
  part.check('no PHP error in the log', complaints.length === 0, complaints.join(' | '));
  const end = await server.stop();
  part.check('the server ends as it should', end === '', `${end}: ${server.log().slice(-800)}`);
}

/** What a visitor and an administrator look at; on each page all of it has to have come by HTTP/2. */
async function walk(part, browser, site) {
  const guest = await browser.visitor('guest', { trusting: true });
  const admin = await browser.visitor('admin', { trusting: true });
  const step = (name, who, work) =>
    part.step(name, async () => {
      await work(who.page);
      await allByH2(who.page);
    }, { after: () => browser.shot(who.page, name) });

  await step('front page', guest, (page) => open(page, `${site.url}/`));
  await step('front page, out of the cache', guest, (page) => open(page, `${site.url}/`));
  await step('log in', admin, (page) => steps.logIn(page, site));
  await step('list of posts', admin, (page) => open(page, `${site.url}/wp-admin/edit.php`));
  await step('block editor', admin, (page) => open(page, `${site.url}/wp-admin/post-new.php`));
  await step('themes', admin, (page) => open(page, `${site.url}/wp-admin/themes.php`));
}

async function open(page, url) {
  const answer = await visit(page, url);
  if (answer.status() !== 200) throw new Error(`status ${answer.status()}`);
  await settle(page);
}

/** Throws unless the page and all that it has loaded over the network came by HTTP/2. */
async function allByH2(page) {
  const seen = await page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .filter((entry) => entry.name.startsWith(location.origin))
      .map((entry) => [entry.nextHopProtocol, entry.transferSize, entry.name]));
  if (seen.length === 0 || seen[0][0] !== 'h2') throw new Error(`the page came by ${seen[0]?.[0]}`);
  // What the browser had kept has no protocol.
  const others = seen.filter(([protocol, size]) => protocol !== 'h2' && (protocol !== '' || size > 0));
  if (others.length > 0) throw new Error(`not by h2: ${JSON.stringify(others.slice(0, 5))}`);
}

async function verdict(part, browser) {
  const failures = browser.failures();
  part.check(`no failed request among ${browser.answers} answers`, failures.length === 0 && browser.answers > 50, failures.join(' | ') || 'too few answers');
  const complaints = browser.complaints();
  part.check('no error in the console', complaints.length === 0, complaints.join(' | '));
  await browser.close();
}
