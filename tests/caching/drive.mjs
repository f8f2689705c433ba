// Runs http-cache-tests against a server and prints what came of each test, as JSON:
//
//   node drive.mjs PACKAGES URL PAUSE [TEST...]
//
// PACKAGES is what `fetch` prints, or a folder with the sources of the suite's repository, beside whose node_modules/ with undici; PAUSE are milliseconds before each request. {ID: {suite, kind, name, result, why}}; `kind` is required, optimal or check; `result` is one of the words
// below, by the suite's own judgement (lib/display.mjs): a test whose dependency did not pass says nothing.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const WORDS = {
  '✅': 'pass', '⛔️': 'fail', '⚠️': 'optional fail', Y: 'yes', N: 'no',
  '🔹': 'set-up failed', '⁉️': 'harness failed', '⚪️': 'dependency failed', '↻': 'retry', '-': 'untested',
};

const [packages, url, pause, ...wanted] = process.argv.slice(2);
const sources = existsSync(join(packages, 'test-engine'));
const base = sources ? packages : join(packages, 'node_modules/http-cache-tests');
const from = (file) => import(pathToFileURL(join(base, file)));
const fetch = sources ? globalThis.fetch : createRequire(join(packages, 'x.js'))('node-fetch');

const [{ default: suites }, runner, { determineTestResult }] = await Promise.all((sources
  ? ['tests/index.mjs', 'test-engine/client/runner.mjs', 'test-engine/lib/results.mjs']
  : ['tests/index.mjs', 'client/runner.mjs', 'lib/display.mjs']).map(from));
if (!sources) suites.push((await from('tests/surrogate-control.mjs')).default);

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const patient = async (...request) => {
  await sleep(Number(pause));
  return fetch(...request);
};
const runs = Number(pause) ? patient : fetch;
if (sources) globalThis.fetch = runs;
await runner.runTests(...(sources ? [chosen(), false, url] : [chosen(), runs, false, url]));
const found = runner.getResults();
const results = {};
for (const suite of suites) {
  for (const test of suite.tests) {
    if (!(test.id in found)) continue; // for browsers only
    const result = WORDS[determineTestResult(suites, test.id, found)[2]];
    const why = Array.isArray(found[test.id]) ? found[test.id].join(': ') : undefined;
    results[test.id] = { suite: suite.id, kind: test.kind ?? 'required', name: test.name, result, why };
  }
}
process.stdout.write(`${JSON.stringify(results, null, 1)}\n`);

/** The suites, or those tests that are wanted and what they depend on. */
function chosen() {
  if (wanted.length === 0) return suites;
  const all = new Map(suites.flatMap((suite) => suite.tests).map((test) => [test.id, test]));
  const take = new Set();
  const add = (id) => {
    if (!all.has(id)) throw new Error(`there is no test ${id}`);
    if (take.has(id)) return;
    take.add(id);
    (all.get(id).depends_on ?? []).forEach(add);
  };
  wanted.forEach(add);
  return suites.map((suite) => ({ ...suite, tests: suite.tests.filter((test) => take.has(test.id)) }));
}
