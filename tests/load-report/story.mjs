// Two short runs of the load tester, and what they leave: files that a browser shows without asking anybody for anything.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startBrowser } from '../lib/browser.mjs';
import { expect } from '../lib/copy.mjs';
import { cleanUp, freePort, run, temporary } from '../lib/processes.mjs';
import { Ended, Report } from '../lib/report.mjs';
import { program, repository, serve } from '../lib/server.mjs';

const SCENARIO = `
think = "20ms-60ms"
[[step]]
get = "/index.html"
page = true
check = { status = 200, text = "</html>" }
[[step]]
get = "/missing.html"
check = { status = 404 }
[[step]]
get = "/missing-too.html"
`;

const report = new Report();
const scratch = temporary('load-report');
const place = (name) => join(scratch, name);
let browser, server;
try {
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  makeSite(place('site'));
  server = await report.step('start the server', () => serve({ root: place('site'), port, scratch, profile: 'generic' }));
  await report.step('a run by a scenario file', () => {
    writeFileSync(place('steps.toml'), SCENARIO);
    return load(url, '--scenario', place('steps.toml'), '--ramp', '0:20:4s,=20:2s', '--json', place('a.json'), '--csv', place('a.csv'),
      '--report', place('run.html'));
  });
  await report.step('a run of one URL', () => load(url, '--ramp', '0:20:4s,=20:2s', '--json', place('b.json'), '--quiet'));
  await report.step('what the runs counted', () => counted(place('a.json'), place('a.csv')));
  await report.step('a comparison', () =>
    load('--compare', place('a.json'), place('b.json'), '--name', 'first', '--name', 'second', '--report', place('comparison.html')));
  browser = await startBrowser(join(repository, 'target/load-report'));
  for (const name of ['run', 'comparison']) {
    for (const [width, ground] of [[1280, 'light'], [390, 'dark']]) {
      await report.step(`${name}, ${width} wide, ${ground}`, () => look(name, width, ground));
    }
  }
  report.check('nothing in the console', browser.complaints().length === 0, browser.complaints().join('; '));
} catch (error) {
  if (!(error instanceof Ended)) report.check('the test itself', false, error.stack);
} finally {
  await browser?.close();
  await server?.stop();
  await cleanUp();
  report.finish();
}

function makeSite(root) {
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'index.html'), '<!DOCTYPE html><html><link rel="stylesheet" href="/a.css"><img src="/b.svg"></html>');
  writeFileSync(join(root, 'a.css'), 'body { background: url(c.svg) }');
  for (const name of ['b.svg', 'c.svg']) writeFileSync(join(root, name), '<svg xmlns="http://www.w3.org/2000/svg"/>');
}

function load(...args) {
  return run(program(), ['load', ...args], { seconds: 60, cwd: scratch });
}

/** Whole pages with their three parts, and one step of three that is meant to fail. */
function counted(json, csv) {
  const { format, total, seconds, outcome } = JSON.parse(readFileSync(json, 'utf8'));
  expect(format === 'millrace-load/1' && outcome.end === 'complete', `${format}, ${outcome.end}`);
  expect(total.pages > 0 && total.pages_failed === 0, `${total.pages} pages, ${total.pages_failed} failed`);
  expect(total.objects >= 3 * total.pages, `${total.objects} parts of ${total.pages} pages`);
  expect(total.failures.status_4xx > 0 && total.failures.status_4xx === total.failed, JSON.stringify(total.failures));
  const lines = readFileSync(csv, 'utf8').trimEnd().split('\r\n');
  expect(lines.length === seconds.length + 1, `${lines.length} lines for ${seconds.length} seconds`);
}

async function look(name, width, ground) {
  const { page } = await browser.visitor(name);
  const requests = [];
  page.on('request', (request) => request.url().startsWith('data:') || requests.push(request.url()));
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: ground });
  await page.goto(`file://${place(`${name}.html`)}`);
  await browser.shot(page, `${name}-${width}-${ground}`);
  expect(requests.length === 1, requests.join(' '));
  const seen = await page.evaluate(measure);
  expect(seen.charts >= 4 && seen.empty === 0, `${seen.charts} charts, ${seen.empty} of them without a line`);
  expect(seen.wider <= 0, `${seen.wider} pixels wider than the window`);
  expect(seen.letters >= 9, `letters of ${seen.letters} pixels`);
  expect(/Survivability/.test(seen.text) && /Ultra-fast|Stable|Sluggish|Failing/.test(seen.text), 'no table of verdicts');
  await page.close();
}

/** In the page: its visible charts, and whether anything is too wide or too small. */
function measure() {
  const charts = [...document.querySelectorAll('svg')].filter((svg) => svg.getBoundingClientRect().width > 0);
  const isEmpty = (svg) => !svg.querySelector('path.line, path.stack, circle.dot');
  const heights = charts.flatMap((svg) => [...svg.querySelectorAll('text.tick')])
    .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
  return {
    charts: charts.length,
    empty: charts.filter(isEmpty).length,
    wider: document.documentElement.scrollWidth - window.innerWidth,
    letters: Math.min(...heights),
    text: document.body.innerText,
  };
}
