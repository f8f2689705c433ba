// DokuWiki, MediaWiki, phpMyAdmin and WordPress - alone and as a network of sites - as Debian packages them, each in a private copy,
// on one private MariaDB, served and used in one browser. What each application needs and what a person does with it is in the file of its name.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Ended, Report } from '../lib/report.mjs';
import { cleanUp, freePort, temporary } from '../lib/processes.mjs';
import { startBrowser } from '../lib/browser.mjs';
import { startMariaDb } from '../lib/mariadb.mjs';
import { kind, repository, serve, version } from '../lib/server.mjs';
import { phpErrors } from '../lib/wordpress.mjs';
import * as dokuwiki from './dokuwiki.mjs';
import * as mediawiki from './mediawiki.mjs';
import * as network from './network.mjs';
import * as phpmyadmin from './phpmyadmin.mjs';
import * as wordpress from './wordpress.mjs';

const APPLICATIONS = { dokuwiki, mediawiki, network, phpmyadmin, wordpress };
const report = new Report();
const scratch = temporary('apps');
const chosen = process.argv.slice(2);
const ports = new Map(Object.keys(APPLICATIONS).map((name) => [name, freePort()]));
const shots = (name) => join(repository, 'target/applications', `${kind}-${name}`);
try {
  report.note(await version());
  report.skip('Drupal', 'it is in no registry that this test may use');
  const database = await report.step('start MariaDB', () => startMariaDb(join(scratch, 'db')));
  const hosts = Object.fromEntries(network.HOSTS.map((host) => [host, ports.get('network')]));
  const browser = await report.step('start the browser', () => startBrowser(shots('browser'), { hosts }));
  for (const [name, application] of Object.entries(APPLICATIONS)) {
    if (chosen.length === 0 || chosen.includes(name)) await use(name, application, database, browser.beside(shots(name)));
  }
  await browser.close();
} catch (error) {
  if (!(error instanceof Ended)) report.check('the test itself', false, error.stack);
} finally {
  await cleanUp();
  report.finish();
}

/** Installs one application, serves it, walks through it and reads what browser and server complained about. */
async function use(name, application, database, browser) {
  const part = report.part(name);
  const port = ports.get(name);
  const site = { url: `http://127.0.0.1:${port}`, root: join(scratch, name, 'site'), scratch: join(scratch, name), database };
  let server;
  try {
    await part.step('install from the package', () => {
      if (!existsSync(application.PACKAGE)) throw new Error(`${application.PACKAGE} is not there: apt-get install --no-install-recommends ${name === 'network' ? 'wordpress' : name}`);
      return application.install(site);
    }, { seconds: 120 });
    server = await part.step('start the server', () => serve({ ...site, port, profile: application.PROFILE, settings: application.SETTINGS, rules: application.NGINX }));
    const person = await browser.visitor(name);
    for (const [title, work] of application.STEPS) {
      await part.step(title, () => work(person.page, site), { after: () => browser.shot(person.page, title) });
    }
  } catch (error) {
    if (!(error instanceof Ended)) part.check('the story', false, error.stack);
  }
  for (const pattern of application.EXPECTED ?? []) browser.allow(pattern);
  const failures = browser.failures();
  part.check(`no failed request among ${browser.answers} answers`, failures.length === 0, failures.join(' | '));
  const complaints = browser.complaints();
  part.check('no error in the console', complaints.length === 0, complaints.join(' | '));
  for (const line of browser.cancelled()) part.note(`given up by the browser: ${line}`);
  await browser.close();
  if (server) {
    const complaints = phpErrors(server.log()).filter((line) => !application.KNOWN?.test(line));
    part.check('no PHP error in the log', complaints.length === 0, complaints.join(' | '));
    const end = await server.stop();
    part.check('the server ends as it should', end === '', `${end}: ${server.log().slice(-800)}`);
  }
  part.note(`${part.seconds().toFixed(0)} s; screenshots: ${browser.folder}`);
}
