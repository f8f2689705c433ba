// The story: a site is made, installed, written to, read, commented, dressed and examined, once on SQLite and once on
// MariaDB. What a person does in each step is in `steps.mjs`.

import { join } from 'node:path';
import { Ended, Report } from '../lib/report.mjs';
import { cleanUp, freePort, temporary } from '../lib/processes.mjs';
import { startBrowser } from '../lib/browser.mjs';
import { startMariaDb } from '../lib/mariadb.mjs';
import { kind, repository, serve, version } from '../lib/server.mjs';
import { newWordPress, photograph, phpErrors } from '../lib/wordpress.mjs';
import * as steps from './steps.mjs';
import { logInAndComment } from './tester.mjs';

const report = new Report();
const scratch = temporary('wp');
const chosen = process.argv.slice(2);
try {
  report.note(await version());
  const picture = await photograph(join(scratch, 'sunrise.jpg'));
  for (const database of ['sqlite', 'mariadb']) {
    if (chosen.length === 0 || chosen.includes(database)) await story(database, picture);
  }
} catch (error) {
  report.check('the test itself', false, error.stack);
} finally {
  await cleanUp();
  report.finish();
}

/** One story from the empty folder to the verdict; failures end up in the report. */
async function story(database, picture) {
  const part = report.part(database);
  const folder = join(repository, 'target/browser', `${kind}-${database}`);
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const root = join(scratch, database, 'site');
  let browser, server;
  try {
    const site = await part.step('make the site', async () => {
      const maria = database === 'mariadb' && (await startMariaDb(join(scratch, 'db')));
      if (maria) await maria.create('wordpress', 'wp', 'secret');
      const made = await newWordPress({ root, url, title: 'Mill and race', socket: maria?.socket, installed: Boolean(maria) });
      return { ...made, url, picture };
    }, { seconds: 240 });
    server = await part.step('start the server', () => serve({ root, port, scratch: join(scratch, database) }));
    browser = await startBrowser(folder);
    await walk(part, browser, site, database);
    if (database === 'sqlite') server = await oneWorker(part, browser, site, server, { root, port, scratch: join(scratch, database) });
  } catch (error) {
    if (!(error instanceof Ended)) part.check('the story', false, error.stack);
  }
  if (browser) await verdict(part, browser);
  if (server) {
    if (process.env.KEEP) part.note(`site and logs: ${join(scratch, database)}`);
    const complaints = phpErrors(server.log());
    part.check('no PHP error in the log', complaints.length === 0, complaints.join(' | '));
    const end = await server.stop();
    part.check('the server ends as it should', end === '', `${end}: ${server.log().slice(-800)}`);
  }
  part.note(`${part.seconds().toFixed(0)} s; screenshots: ${folder}`);
}

/** The steps in order; each leaves a screenshot. */
async function walk(part, browser, site, database) {
  const admin = await browser.visitor('admin');
  const guest = await browser.visitor('guest');
  const step = (name, who, work, seconds) =>
    part.step(name, () => work(who.page, site), { seconds, after: () => browser.shot(who.page, name) });

  if (database === 'sqlite') await step('five-minute install', admin, steps.install);
  await step('log in', admin, steps.logIn);
  await step('permalink settings', admin, steps.permalinks);
  await step('write a post with a picture', admin, steps.writePost, 150);
  await step('front page', guest, steps.frontPage);
  await step('post by its pretty URL', guest, steps.readPost);
  await step('comment as a visitor', guest, steps.comment);
  await step('approve the comment', admin, steps.approve);
  await step('the comment is there', guest, steps.readComment);
  if (kind === 'millrace') await part.step('the load tester logs in and comments', () => logInAndComment(site, join(scratch, database)));
  await step('media library', admin, steps.mediaLibrary);
  await step('plugins', admin, steps.plugins);
  await step('switch the theme', admin, steps.switchTheme);
  await step('front page in the new theme', guest, steps.newTheme);
  await step('customizer', admin, steps.customize);
  await step('feed, REST API, sitemap, search', guest, steps.machines);
  await part.step('six requests write at the same time', () => steps.writeAtOnce(guest.page, site));
  await part.step('repeat visit is revalidated, not sent again', () => steps.repeatVisit(guest.page, site));
  const health = await step('Site Health', admin, steps.siteHealth, 120);
  for (const line of health.lines) part.note(line);
  part.check('Site Health names no server problem', health.problems.length === 0, health.problems.join('; '));
  browser.allow(/404 GET .*\/no-such-page\//);
  browser.allow(/status of 404.*\/no-such-page\//);
  await step('a page that is not there', guest, steps.missing);
  await step('log out', admin, steps.logOut);
}

/**
 * WordPress calls its own site while it answers. With a single PHP worker such a request must not wait for itself: a
 * php-fpm of one worker fails here, so this is asked of Millrace only. Returns the new server.
 */
async function oneWorker(part, browser, site, server, options) {
  if (kind !== 'millrace') return server;
  const end = await server.stop();
  part.check('the server ends as it should', end === '', end);
  const single = await part.step('start it again with one PHP worker', () => serve({ ...options, workers: 1 }));
  const { page } = await browser.visitor('admin');
  await part.step('log in, one worker', () => steps.logIn(page, site));
  const health = await part.step('Site Health, one worker', () => steps.siteHealth(page, site), {
    seconds: 120,
    after: () => browser.shot(page, 'Site Health, one worker'),
  });
  part.check('Site Health names no problem with one worker', health.problems.length === 0, health.problems.join('; '));
  return single;
}

/** What the browser itself noticed. */
async function verdict(part, browser) {
  const failures = browser.failures();
  part.check(`no failed request among ${browser.answers} answers`, failures.length === 0 && browser.answers > 100, failures.join(' | ') || 'too few answers');
  const complaints = browser.complaints();
  part.check('no error in the console', complaints.length === 0, complaints.join(' | '));
  for (const line of browser.cancelled()) part.note(`given up by the browser: ${line}`);
  await browser.close();
}
