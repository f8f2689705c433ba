// 300 sites, a few requests, and what the dashboard, the metrics and the probes say about them.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { startBrowser } from '../lib/browser.mjs';
import { expect } from '../lib/copy.mjs';
import { cleanUp, Daemon, freePort, run, temporary } from '../lib/processes.mjs';
import { Ended, Report } from '../lib/report.mjs';
import { program, repository } from '../lib/server.mjs';

const SITES = 300;
const PHP_SITES = 3;
const PAGE = `<?php
if ($_SERVER['REQUEST_URI'] === '/wait') { touch(__DIR__ . '/waits'); while (!file_exists(__DIR__ . '/go')) { usleep(10000); clearstatcache(); } }
if ($_SERVER['REQUEST_URI'] === '/slow') usleep(150000);
if ($_SERVER['REQUEST_URI'] === '/error') http_response_code(500);
if ($_SERVER['REQUEST_URI'] === '/run') { header('Cache-Control: max-age=600'); exit(uniqid()); }
header('Cache-Control: max-age=60');
echo str_repeat('page ', 400);`;

const TOKEN = '0d1f6c2be98a47d35b60';

const report = new Report();
const scratch = temporary('dashboard');
const place = (name) => join(scratch, name);
const [port, adminPort] = [freePort(), freePort()];
const admin = `http://127.0.0.1:${adminPort}`;
let browser, server;
try {
  server = await report.step('start the server', start);
  await report.step('probes of a server that is ready', async () => {
    await until(async () => (await fetch(`${admin}/readyz`)).status === 200);
    expect((await fetch(`${admin}/healthz`)).status === 200, '/healthz');
  });
  await report.step('requests', traffic);
  await report.step('metrics of 300 sites', metrics);
  await report.step('millrace top --once', top);
  browser = await startBrowser(join(repository, 'target/dashboard'));
  for (const [width, height, ground] of [[1400, 900, 'light'], [1400, 900, 'dark'], [390, 844, 'light'], [390, 844, 'dark'], [360, 740, 'light']]) {
    await report.step(`${width} wide, ${ground}`, () => look(width, height, ground));
  }
  await report.step('what the doctor finds', finding);
  await report.step('sort, filter and choose', use);
  await report.step('purge with the token', purge);
  await report.step('no button without admin.token', readOnly);
  report.check('nothing in the console', browser.complaints().length === 0, browser.complaints().join('; '));
  report.check('no failed request', browser.failures().length === 0, browser.failures().join('; '));
  await browser.close();
  browser = null;
  await report.step('not ready while it drains', drain);
} catch (error) {
  if (!(error instanceof Ended)) report.check('the test itself', false, error.stack);
} finally {
  await browser?.close();
  await server?.stop();
  await cleanUp();
  report.finish();
}

async function start() {
  const site = (number) => {
    const root = place(`site${number}`);
    mkdirSync(root);
    writeFileSync(join(root, 'a.txt'), 'x'.repeat(1000));
    if (number < PHP_SITES) writeFileSync(join(root, 'index.php'), PAGE);
    const php = number < PHP_SITES ? 'front_controller = "/index.php"' : '';
    return `[[site]]\nnames = ["${host(number)}"]\nroot = "${root}"\nprofile = "generic"\n${php}\n`;
  };
  writeFileSync(place('millrace.toml'), `
[server]
listen = ["127.0.0.1:${port}"]
threads = 2
[admin]
listen = "127.0.0.1:${adminPort}"
token = "${TOKEN}"
[cache]
dir = "off"
[php]
workers = 4
ini = { "opcache.enable" = false }
folders = ["${scratch}"]
${Array.from({ length: SITES }, (_, number) => site(number)).join('')}`);
  const daemon = new Daemon(program(), ['serve', '--config', place('millrace.toml')], { log: place('millrace.log'), cwd: scratch });
  await daemon.until(() => fetch(`${admin}/healthz`).then(() => true, () => false));
  return daemon;
}

function host(number) {
  return `site${String(number).padStart(3, '0')}.example`;
}

/** One request to a site; its status. */
async function ask(number, path, headers = {}) {
  return (await answered(number, path, headers)).status;
}

/** One request to a site; status and text. */
function answered(number, path, headers = {}) {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, headers: { Host: host(number), ...headers } }, async (answer) => {
      const parts = await answer.toArray();
      resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString() });
    });
    asked.on('error', reject);
    asked.end();
  });
}

async function until(holds, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`it does not hold after ${seconds} s: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Until the history has two points of the site: the rates come from them. */
async function traffic() {
  const points = async () => {
    const answer = await fetch(`${admin}/history.json?site=${host(0)}`);
    return (await answer.json()).hour.points.requests_per_second.filter((rate) => rate > 0).length;
  };
  for (let number = 0; number < SITES; number += 1) expect((await ask(number, '/a.txt')) === 200, host(number));
  let errors = 0;
  await until(async () => {
    for (const path of ['/', '/', '/slow?x', '/none.txt']) await ask(0, path);
    await ask(1, '/', { Cookie: 'PHPSESSID=1' });
    await ask(1, '/slow', { Cookie: 'PHPSESSID=1' });
    errors += (await ask(2, '/error')) === 500;
    return (await points()) >= 2;
  }, 60);
  expect(errors > 0, 'no response with 500');
  const status = await (await fetch(`${admin}/status.json`)).json();
  const [first, , third] = status.sites.map((site) => site.traffic);
  expect(first.cache.hits > 0 && first.php_requests > 0 && first.php_seconds > 0, JSON.stringify(first));
  expect(third.replies['5xx'] === errors, `${third.replies['5xx']} of ${errors} errors`);
  expect(first.last_minute.requests_per_second > 0 && first.last_minute.hit_ratio > 0, JSON.stringify(first.last_minute));
  const log = await fetch(`${admin}/history.json?site=nowhere.example`);
  expect(log.status === 404, `${log.status} for the history of a site that does not exist`);
}

async function metrics() {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const samples = text.split('\n').filter((line) => line.startsWith('millrace_site_'));
  const sites = new Set(samples.map((line) => /site="([^"]*)"/.exec(line)[1]));
  expect(sites.size === SITES, `${sites.size} sites`);
  expect(samples.length === SITES * 10, `${samples.length} samples for ${SITES} sites`);
  expect(text.includes(`millrace_site_requests_total{site="${host(299)}",status="2xx"} 1\n`), 'the last site');
  report.note(`/metrics: ${(text.length / 1024).toFixed(0)} KiB`);
}

async function top() {
  const frame = await run(program(), ['top', '--once', '--admin', `127.0.0.1:${adminPort}`]);
  report.note(/^Doctor .*/m.exec(frame)?.[0]);
  const lines = frame.split('\n');
  expect(lines.every((line) => line.length <= 80) && lines.length <= 25, `a frame of ${lines.length} lines`);
  for (const word of [host(0), 'Requests', 'PHP', 'Slowest', 'Connections', 'Doctor']) expect(frame.includes(word), `${word} is not in\n${frame}`);
}

async function look(width, height, ground) {
  const { page, context } = await browser.visitor(`${width} ${ground}`);
  const others = [];
  page.on('request', (one) => one.url().startsWith(admin) || one.url().startsWith('data:') || others.push(one.url()));
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: ground });
  await page.goto(`${admin}/`);
  await ready(page);
  const before = Number(await page.getAttribute('body', 'data-events'));
  const requests = await shownRequests(page);
  for (let more = 0; more < 5; more += 1) await ask(3, '/a.txt');
  await page.waitForFunction((events) => Number(document.body.dataset.events) > events, before + 1);
  const later = await shownRequests(page);
  expect(later >= requests + 5, `the page still shows ${later} requests, after ${requests}`);
  const seen = await page.evaluate(measure);
  expect(seen.wider <= 0, `${seen.wider} pixels wider than the window: ${seen.widest}`);
  expect(seen.cut <= 0, `${seen.cut} pixels of the table of sites are cut off`);
  expect(seen.curves === 6 && seen.lines >= 5, `${seen.curves} curves with ${seen.lines} lines`);
  expect(seen.rows === 25 && seen.unnamed === 0, `${seen.rows} sites, ${seen.unnamed} controls without a name`);
  expect(/150|\d{3} ms/.test(seen.slow) && /cookie|session/i.test(seen.causes), `${seen.slow} / ${seen.causes}`);
  expect(others.length === 0, others.join(' '));
  await browser.shot(page, `${width}-${ground}`);
  await page.screenshot({ path: join(repository, `target/dashboard/whole-${width}-${ground}.png`), fullPage: true });
  await context.close();
}

async function ready(page) {
  await page.locator('#state.good').waitFor();
  await page.locator('#curves .line0').first().waitFor();
}

async function shownRequests(page) {
  return Number((await page.textContent('#uptime')).match(/([\d,]+) requests/)[1].replaceAll(',', ''));
}

/** In the page. */
function measure() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const width = document.documentElement.clientWidth;
  const outside = all('main *').filter((node) => node.getBoundingClientRect().right > width + 1 && !node.closest('.table'));
  return {
    wider: document.documentElement.scrollWidth - width,
    widest: outside[0]?.outerHTML.slice(0, 200),
    cut: ((card) => card.scrollWidth - card.clientWidth)(document.getElementById('sites').closest('.table')),
    curves: all('#curves svg[aria-label]').length,
    lines: all('#curves [class^=line], #curves [class^=dot]').length,
    rows: all('#sites tbody tr').length,
    unnamed: all('button, input').filter((node) => !(node.textContent.trim() || node.ariaLabel || node.labels?.length) && !node.hidden).length,
    slow: document.getElementById('slow').innerText,
    causes: document.getElementById('causes').innerText,
  };
}

async function use() {
  const { page } = await browser.visitor('user');
  await page.goto(`${admin}/dashboard`);
  await ready(page);
  const first = () => page.textContent('#sites tbody tr:first-child td');
  await page.click('#sites th:first-child button');
  expect((await first()) === host(0), `sorted by name: ${await first()}`);
  await page.click('#sites th:first-child button');
  expect((await first()) === host(299), `sorted backwards: ${await first()}`);
  await page.fill('#filter', 'site00');
  expect((await page.locator('#sites tbody tr').count()) === 10, 'the filter');
  await page.fill('#filter', '');
  await page.click('#more');
  expect((await page.locator('#sites tbody tr').count()) === SITES, 'all sites');
  await page.fill('#filter', 'site000');
  await page.click('#sites tbody button');
  await page.getByRole('img', { name: /PHP response time/ }).waitFor();
  await browser.shot(page, 'a-site');
  await page.click('#scope button');
  await page.getByRole('img', { name: /^Response time/ }).waitFor();
  await page.click('[data-range=day]');
  expect((await page.getAttribute('[data-range=day]', 'aria-pressed')) === 'true', 'the range');
}

/** A wrong token, a soft purge with the right one, and a hard one that needs no token again; on a desktop and on a phone. */
async function purge() {
  browser.allow(/401/);
  for (const [width, height, ground] of [[1400, 900, 'light'], [1400, 900, 'dark'], [390, 844, 'light'], [360, 740, 'dark']]) {
    const { page, context } = await browser.visitor(`purge ${width}`);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: ground });
    await page.goto(`${admin}/dashboard`);
    await ready(page);
    await page.fill('#filter', host(1));
    const run = async () => (await answered(1, '/run')).text;
    const button = page.getByRole('button', { name: `Purge the pages of ${host(1)}` });
    const open = async () => {
      await button.click();
      await page.getByRole('dialog', { name: `Purge all cached pages of ${host(1)}?` }).waitFor();
    };
    const first = await run();
    expect(first === (await run()), 'the page is not cached');

    await open();
    await page.keyboard.press('Escape');
    await page.locator('#purge').waitFor({ state: 'hidden' });
    await open();
    await page.click('#purge-go');
    await page.getByText('Type the token').waitFor();
    await page.fill('#token', 'not the token');
    await page.keyboard.press('Enter');
    await page.getByText('A token has no spaces').waitFor();
    await page.fill('#token', `${TOKEN.slice(0, -1)}1`);
    await page.keyboard.press('Enter');
    await page.getByText('The token is wrong').waitFor();
    await browser.shot(page, `purge-wrong-${width}-${ground}`);
    expect((await run()) === first, 'a wrong token has purged the page');

    await page.fill('#token', TOKEN);
    await page.click('#purge-go');
    await page.getByText(`Purged 1 page of ${host(1)}: stale until the next request refreshes them.`).waitFor();
    const second = await run();
    expect(second !== first && second === (await run()), 'a stale page is served, or none is cached');

    await open();
    expect(!(await page.locator('#token').isVisible()), 'it asks for the token again');
    await page.getByText('Delete: what must not be seen').click();
    await browser.shot(page, `purge-${width}-${ground}`);
    await page.click('#purge-go');
    await page.getByText(`Purged 1 page of ${host(1)}, deleted.`).waitFor();
    expect((await run()) !== second, 'a deleted page is served');
    await browser.shot(page, `purged-${width}-${ground}`);
    const seen = await page.evaluate(measure);
    expect(seen.wider <= 0 && seen.unnamed === 0, `${seen.wider} pixels wider than the window: ${seen.widest}`);
    expect(!page.url().includes(TOKEN) && (await page.evaluate(() => localStorage.length)) === 0, 'the token is kept elsewhere, too');
    await page.fill('#filter', '');
    await page.locator('#sites').scrollIntoViewIfNeeded();
    await browser.shot(page, `buttons-${width}-${ground}`);
    await context.close();
  }
}

/** A reload without the token takes the buttons away from a page that is open; what is sent all the same is refused. */
async function readOnly() {
  const { page, context } = await browser.visitor('reader');
  await page.goto(`${admin}/dashboard`);
  await ready(page);
  const buttons = page.locator('#sites button.purge');
  await buttons.first().waitFor();
  writeFileSync(place('millrace.toml'), readFileSync(place('millrace.toml'), 'utf8').replace(`token = "${TOKEN}"\n`, ''));
  await run(program(), ['reload', '--admin', `127.0.0.1:${adminPort}`], { env: { MILLRACE_ADMIN_TOKEN: TOKEN } });
  await buttons.first().waitFor({ state: 'detached' });
  const refused = await page.evaluate((token) => fetch('/purge', { method: 'POST', body: 'all=1', headers: { Authorization: `Bearer ${token}` } }).then((answer) => answer.text()), TOKEN);
  expect(refused.includes('set admin.token'), refused);
  browser.allow(/403/);
  await context.close();
}

/** opcache is off, whatever else holds this machine back while the test runs. */
async function finding() {
  const { page, context } = await browser.visitor('doctor');
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(`${admin}/dashboard`);
  const one = page.locator('#doctor details[data-id=opcache-off]');
  await one.waitFor();
  if ((await one.getAttribute('open')) === null) await one.locator('summary').click();
  const text = await one.innerText();
  expect(/opcache is off for/.test(text) && text.includes('opcache.enable = 0') && text.includes('[php] ini = { "opcache.enable" = "1" }'), text);
  const seen = await page.evaluate(measure);
  expect(seen.wider <= 0, `${seen.wider} pixels wider than the window: ${seen.widest}`);
  expect(seen.cut <= 0, `${seen.cut} pixels of the table of sites are cut off`);
  const { state, report: whole } = await (await fetch(`${admin}/doctor.json`)).json();
  expect(state === 'ready' && whole.findings.some((each) => each.id === 'opcache-off'), JSON.stringify(whole));
  expect(whole.could_not_look.some((each) => each.id === 'net-ports'), 'it reads the list of all sockets');
  await page.locator('#doctor').scrollIntoViewIfNeeded();
  await browser.shot(page, 'doctor');
  await context.close();
}

async function drain() {
  const waiting = ask(0, '/wait');
  await until(() => existsSync(place('site0/waits')));
  server.child.kill('SIGTERM');
  let text;
  await until(async () => {
    const answer = await fetch(`${admin}/readyz`);
    text = await answer.text();
    return answer.status === 503;
  });
  expect(text.startsWith('draining'), text);
  expect((await fetch(`${admin}/healthz`)).status === 200, '/healthz while it drains');
  writeFileSync(place('site0/go'), '');
  expect((await waiting) === 200, 'the request that was running');
}
