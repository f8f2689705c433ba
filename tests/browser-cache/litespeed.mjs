// A plugin that behaves as LiteSpeed Cache does (litespeed-cache/, a stand-in: the plugin itself is in no registry that a test
// may use): a function a step, as in steps.mjs. What Millrace's own hooks do must not be done any more.

import { settle, visit as go } from '../lib/browser.mjs';
import { ask, changes, expect, look, warm } from './watch.mjs';
import { api } from './steps.mjs';

const PREFIX = 'e1f_';

function visit(page, site, path) {
  return go(page, site.url + path);
}

/** What the plugin says of its server. */
async function status(site, headers) {
  return JSON.parse((await ask(`${site.url}/?ls_status=${Math.random()}`, { headers })).text);
}

/** A form of the administration that ends with a purge. */
async function order(page, site, purge, purge2) {
  const form = { action: 'ls_purge', purge, ...(purge2 && { purge2 }) };
  const answer = await page.request.post(`${site.url}/wp-admin/admin-post.php`, { form, maxRedirects: 0 });
  expect(answer.status() === 302, `status ${answer.status()} to a purge`);
  const ours = Object.keys(answer.headers()).filter((name) => /^x-litespeed-(purge|tag|cache-control)/.test(name));
  expect(ours.length === 0, `the client sees ${ours}`);
}

export async function activate(page, site) {
  const before = await warm(site, ['/', '/about/']);
  await visit(page, site, '/wp-admin/plugins.php');
  await page.getByRole('link', { name: 'Activate Stand-in for LiteSpeed Cache' }).click();
  await page.getByText('Plugin activated.').waitFor();
  await settle(page);
  const says = await status(site);
  expect(says.type === 'LITESPEED_SERVER_OLS' && says.allowed, JSON.stringify(says));
  expect(says['x-lscache'] === 'on,crawler' && /^Openlitespeed /.test(says.edition), JSON.stringify(says));
  expect(says.url === '/' && says.uri === `${site.url}/`, JSON.stringify(says));
  // What a client says of itself has no effect.
  const told = await status(site, { 'X-LSCACHE': 'on,esi', 'X-LSCACHE-Vary-Value': 'ismobile', 'X-LiteMage': '1' });
  expect(told.type === 'LITESPEED_SERVER_OLS' && told.vary === null, JSON.stringify(told));
  for (const path of before.keys()) expect((await look(site, path)).made !== before.get(path), `${path} is kept, without the plugin's tags`);
}

export async function hits(page, site) {
  for (const path of ['/', '/alpha/', '/category/red/', '/feed/', '/?utm_source=x&fbclid=2']) {
    const first = await look(site, path);
    const second = await look(site, path);
    expect(second.hit && second.headers['x-litespeed-cache'] === 'hit', `${path}: ${second.said}`);
    for (const { headers } of [first, second]) {
      const ours = Object.keys(headers).filter((name) => /^(x-litespeed-(tag|purge|vary|cache-control)|lsc-cookie)/.test(name));
      expect(ours.length === 0, `${path}: the client sees ${ours}`);
    }
    const left = Number(/ttl=(\d+)/.exec(second.said)?.[1]);
    expect(left > 0.9 * 604_800 && left <= 604_800, `${path} is kept for ${left} s, not for a week`);
  }
}

const OF_ALPHA = ['/alpha/', '/', '/category/red/', '/feed/', '/author/editor-in-chief/', '/2021/'];
const NOT_OF_ALPHA = ['/beta/', '/category/blue/', '/author/writer/', '/2019/', '/about/'];

/** By the field of the answer to the REST request that the block editor sends. */
export async function publish(page, site) {
  const edit = () => api(page, site, 'POST', `posts/${site.alpha}`, { title: 'Alpha anew' });
  await changes(site, edit, { fresh: OF_ALPHA.map((path) => [path, 'Alpha anew']), kept: NOT_OF_ALPHA });
  const hide = () => api(page, site, 'POST', `posts/${site.Five}`, { status: 'draft' });
  await changes(site, hide, { fresh: [['/five/', (gone) => gone.status === 404], ['/', ({ text }) => !text.includes('>Five<')]], kept: ['/alpha/', '/beta/'] });
}

/** On a redirect after a POST; of all kinds. */
export async function purges(page, site) {
  const all = ['/', '/alpha/', '/beta/', '/about/', '/category/blue/'];
  const but = (...gone) => ({ fresh: gone, kept: all.filter((path) => !gone.includes(path)) });
  const ordered = (what, more) => () => order(page, site, what, more);
  await changes(site, ordered(`public,${PREFIX}Po.${site.alpha}`), but('/alpha/'));
  await changes(site, ordered(`${PREFIX}Po.${site.alpha},,${PREFIX}Po.${site.beta}`), but('/alpha/', '/beta/'));
  await changes(site, ordered(`public,tag=${PREFIX}Po.${site.alpha};private,*`), but('/alpha/'));
  await changes(site, ordered(`public,stale,${PREFIX}F`), but('/'));
  await changes(site, ordered(`public,${PREFIX}Po.${site.beta}~s`), but('/beta/'));
  await changes(site, ordered('/alpha/'), but('/alpha/'));
  await changes(site, ordered(`public,${PREFIX}T.${site.Blue}`, `public,${PREFIX}Po.${site.About}`), but('/category/blue/', '/about/'));
  await changes(site, ordered('private,*'), { fresh: [], kept: all });
  await changes(site, ordered(`public,${PREFIX}`), { fresh: all });
  await changes(site, ordered('*'), { fresh: all });
}

/** Nobody who is known gets a stranger's page, nor a stranger his. */
export async function vary(page, site, { admin, writer, other }) {
  await warm(site, ['/', '/alpha/', '/beta/']);
  const mine = await visit(admin.page, site, '/alpha/');
  expect(await admin.page.locator('#wpadminbar').count(), `the administrator gets a stranger's page: ${mine.headers()['cache-status']}`);
  expect((await look(site, '/alpha/')).hit, 'his visit has pushed out the strangers\' page');
  // He comes in, and a cookie of the plugin with him.
  await visit(writer.page, site, '/wp-login.php');
  await writer.page.fill('#user_login', 'writer');
  await writer.page.fill('#user_pass', site.password);
  await writer.page.click('#wp-submit');
  await writer.page.waitForURL(/\/wp-admin\//);
  await settle(writer.page);
  const known = (await writer.page.context().cookies()).find(({ name }) => name === '_lscache_vary');
  expect(/^[0-9a-f]{32}$/.test(known?.value), `_lscache_vary is ${known?.value}`);
  // Somebody claims to be of his kind without being logged in, or to be anything: no page of his, and none that others get.
  for (const value of [known.value, 'commenter', 'anything']) {
    for (let turn = 0; turn < 2; turn += 1) await look(site, '/alpha/', { headers: { Cookie: `_lscache_vary=${value}` } });
  }
  expect((await look(site, '/alpha/')).hit, 'strangers');
  // A commenter.
  await visit(page, site, '/beta/');
  await page.fill('#comment', 'A word from a passer-by');
  await page.fill('#author', 'Passer-by');
  await page.fill('#email', 'visitor@example.com');
  const consent = page.locator('#wp-comment-cookies-consent');
  if (await consent.count()) await consent.check();
  await page.getByRole('button', { name: 'Post Comment' }).click();
  await page.getByText('awaiting moderation').first().waitFor();
  await settle(page);
  const vary = (await page.context().cookies()).find(({ name }) => name === '_lscache_vary');
  expect(vary?.value === 'commenter', `_lscache_vary is ${vary?.value}`);
  await visit(page, site, '/beta/');
  expect(await page.locator('#author').inputValue() === 'Passer-by', 'the form does not know its commenter');
  for (const who of [{}, { headers: { Cookie: '_lscache_vary=commenter' } }]) {
    const strangers = await look(site, '/beta/', who);
    expect(!/Passer-by|awaiting moderation/.test(strangers.text), 'others see the commenter\'s page');
  }
  await visit(other.page, site, '/beta/');
  expect(await other.page.locator('#author').inputValue() === '', 'the form knows somebody else');
  await page.context().clearCookies();
}

/** By page. */
export async function controls(page, site) {
  const missing = async () => look(site, '/there-is-nothing-here/');
  await missing();
  const again = await missing();
  const left = Number(/ttl=(\d+)/.exec(again.said)?.[1]);
  expect(again.hit && again.status === 404 && left > 3200 && left <= 3600, `404: ${again.said}`);
  for (const path of ['/cart/', '/?no=1', '/wp-login.php']) {
    await look(site, path);
    expect(!(await look(site, path)).hit, `${path} is kept`);
  }
  // A currency, by X-LiteSpeed-Vary.
  const shop = (currency) => look(site, '/shop/', currency && { headers: { Cookie: `currency=${currency}` } });
  for (const currency of ['EUR', 'USD', undefined]) await shop(currency);
  for (const currency of ['EUR', 'USD', undefined]) expect((await shop(currency)).hit, `the shop in ${currency} is not kept`);
  expect(!(await shop('CHF')).hit, 'the shop in CHF is another\'s');
  expect((await look(site, '/alpha/', { headers: { Cookie: 'currency=GBP' } })).hit, 'a page without currencies differs by them');
  // A cookie that every visitor of the page gets, out of the cache as well.
  await ask(`${site.url}/about/`);
  const about = await ask(`${site.url}/about/`);
  expect(about.hit && about.cookies.length === 1 && /^seen_about=1; path=\/$/.test(about.cookies[0]), `${about.said}: ${about.cookies}`);
  const telephone = { headers: { 'User-Agent': 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148' } };
  expect((await look(site, '/alpha/', telephone)).status === 200, 'no page for a telephone');
}

/** It asks as the plugin's does, and counts what it sees as the plugin's does. */
export async function crawler(page, site) {
  const headers = { 'User-Agent': 'lscache_runner 7.0', 'Cache-Control': 'max-age=0', 'Accept-Encoding': 'gzip' };
  const walk = async (path, agent = headers) => {
    const { headers: said } = await ask(site.url + path, { headers: agent });
    if (said['x-litespeed-cache-control'] === 'no-cache') return 'not for the cache';
    const found = said['x-litespeed-cache'];
    return found === undefined ? 'black list' : found === 'miss' ? 'miss' : 'hit';
  };
  // Nobody has asked for them yet; those that were purged, the server may have made anew by itself.
  const paths = ['/?crawled=1', '/alpha/?crawled=1'];
  const first = [];
  for (const path of paths) first.push(await walk(path));
  expect(first.every((found) => found === 'miss'), `of cold pages it thinks ${first}`);
  const second = [];
  for (const path of [...paths, '/beta/']) second.push(await walk(path));
  expect(second.every((found) => found === 'hit'), `of pages that are kept it thinks ${second}`);
  expect(await walk('/cart/') === 'not for the cache', `of the cart it thinks "${await walk('/cart/')}"`);
  expect((await ask(`${site.url}/cart/`)).headers['x-litespeed-cache-control'] === undefined, 'others see it too');
}

/** The configuration is read again. */
export async function reload(page, site) {
  await warm(site, ['/', '/alpha/', '/beta/']);
  site.server.reload();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  for (const path of ['/', '/alpha/', '/beta/']) expect((await look(site, path)).hit, `${path} is gone`);
}
