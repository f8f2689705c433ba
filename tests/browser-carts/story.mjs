// The stories: a shop, a theme, and two visitors whose carts must be right on every page, whoever made it.

import { createHash } from 'node:crypto';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Ended, Report } from '../lib/report.mjs';
import { cleanUp, freePort, run, temporary } from '../lib/processes.mjs';
import { startBrowser, visit } from '../lib/browser.mjs';
import { startMariaDb } from '../lib/mariadb.mjs';
import { repository, serve, version } from '../lib/server.mjs';
import { newWordPress, phpErrors } from '../lib/wordpress.mjs';
import { ask, expect } from '../browser-cache/watch.mjs';
import { Shopper } from './shopper.mjs';

/** Theme, options of the shop, the element that shows the cart, and whether visitors with a cart get public pages. */
const STORIES = {
  classic: { theme: 'twentytwentyone', options: {}, cart: '#mini-cart', cached: true },
  block: { theme: '', options: {}, cart: '#mini-cart', cached: true },
  'mini-cart-block': { theme: '', options: { test_mini_cart_block: 1, test_without_fragments: 1 }, cart: '#mini-cart-block', cached: false },
  'interactive-cart': { theme: '', options: { test_interactive_cart: "'11'" }, cart: '#interactive-cart b', cached: true },
  // As WooCommerce did it before: only on demand.
  'interactive-cart-10.9': { theme: '', options: { test_interactive_cart: "'10.9'" }, cart: '#interactive-cart b', cached: true, onDemand: true },
  'interactive-cart-10.5': { theme: '', options: { test_interactive_cart: "'10.5'" }, cart: '#interactive-cart b', cached: true, onDemand: true },
};
/** So many pages of a kind are compared at most before it is known whether they are the same with a cart. */
const PROOFS = 12;

const report = new Report();
const scratch = temporary('carts');
const chosen = process.argv.slice(2);
try {
  report.note(await version());
  const database = await startMariaDb(join(scratch, 'db'));
  await database.create('wordpress', 'wp', 'secret');
  const port = freePort();
  const site = await report.step('make the shop', () => make(database, port), { seconds: 240 });
  for (const [name, story] of Object.entries(STORIES)) {
    if (chosen.length === 0 ? !story.onDemand : chosen.includes(name)) await play(name, story, { ...site, port });
  }
} catch (error) {
  if (!(error instanceof Ended)) report.check('the test itself', false, error.stack);
} finally {
  await cleanUp();
  report.finish();
}

/** A WordPress with the shop; `products` are numbers by name. */
async function make(database, port) {
  const root = join(scratch, 'site');
  const url = `http://127.0.0.1:${port}`;
  await newWordPress({ root, url, title: 'Mill and race', socket: database.socket, installed: true });
  const plugins = join(root, 'wp-content/mu-plugins');
  mkdirSync(plugins, { recursive: true });
  const copy = (files, folder) => files.forEach((file) => cpSync(join(import.meta.dirname, file), join(folder, file.split('/').pop())));
  mkdirSync(join(root, 'wp-content/plugins/woocommerce'), { recursive: true });
  copy(['../shop/woocommerce.php', '../shop/blocks.php', 'mini-cart.php'], join(root, 'wp-content/plugins/woocommerce'));
  copy(['../shop/theme.php', 'carts.php'], plugins);
  cpSync(join(import.meta.dirname, 'cart-module.js'), join(root, 'wp-content/cart-module.js'));
  const products = JSON.parse(await run('php', [join(import.meta.dirname, '../shop/seed.php'), root], { seconds: 120 }));
  return { root, url, products };
}

/** A server of its own, so that nothing is cached yet. */
async function play(name, story, site) {
  const part = report.part(name);
  const folder = join(repository, 'target/browser-carts', name);
  let browser, server;
  try {
    await prepare(site, story);
    server = await part.step('start the server', () => serve({ ...site, scratch: join(scratch, name), settings: { 'cache.dir': 'off' } }));
    browser = await startBrowser(folder);
    await walk(part, browser, site, story);
  } catch (error) {
    if (!(error instanceof Ended)) part.check('the story', false, error.stack);
  }
  if (browser) await verdict(part, browser);
  if (server) {
    const complaints = phpErrors(server.log());
    part.check('no PHP error in the log', complaints.length === 0, complaints.join(' | '));
    const end = await server.stop();
    part.check('the server ends as it should', end === '', `${end}: ${server.log().slice(-800)}`);
  }
  part.note(`${part.seconds().toFixed(0)} s; screenshots: ${folder}`);
}

/** Theme and options, by a process without a server. */
async function prepare({ root }, { theme, options }) {
  const set = Object.entries({ test_mini_cart_block: 0, test_interactive_cart: 0, test_without_fragments: 0, ...options }).map(([option, value]) => `update_option('${option}', ${value});`);
  const code = `$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
    require $argv[1] . '/wp-load.php'; switch_theme('${theme}' ?: WP_DEFAULT_THEME); ${set.join(' ')}`;
  await run('php', ['-r', code, '--', root], { seconds: 60 });
}

async function walk(part, browser, site, story) {
  const [mine, other] = [new Shopper(await browser.visitor('mine'), site, story), new Shopper(await browser.visitor('other'), site, story)];
  const step = (name, who, work) => part.step(name, work, { after: () => browser.shot(who.page, name) });
  await step('an empty cart on a page from the cache', mine, () => empty(mine, site));
  await step('the first product', mine, () => mine.add('thing-1'));
  await step('own cart on pages of the catalogue', mine, () => catalogue(mine));
  await step('another visitor, another cart', other, () => another(mine, other));
  await step('two of one product', mine, () => mine.add('thing-2').then(() => mine.add('thing-2')));
  await step('a second tab, then back in the first', mine, () => tabs(mine));
  await step('a page that the browser has from before', mine, () => back(mine));
  await step('the other cart is still its own', other, () => other.see('/shop/'));
  await step('an emptied cart', mine, () => emptied(mine, site));
  await step('strangers see no cart', mine, () => strangers(site));
}

/** Pages until they come from the cache; or, if they must not, PHP's, each with the right cart. */
async function catalogue(shopper) {
  for (const path of ['/', '/shop/', '/product-category/wheels/', '/product/thing-1/', '/product/thing-7/']) {
    let said = '';
    for (let turn = 0; turn < (shopper.story.cached ? PROOFS : 4) && !/; hit/.test(said); turn += 1) said = await shopper.see(path);
    expect(/; hit/.test(said) === shopper.story.cached, `${path}: ${said}`);
    if (shopper.story.cached) expect(said.includes('detail=cart'), `${path} is not sent as one for a visitor with a cart: ${said}`);
  }
}

async function empty(shopper, site) {
  for (const path of ['/', '/shop/', '/product-category/wheels/', '/product/thing-1/', '/product/thing-7/']) await cached(site, path);
  const said = await shopper.see('/shop/');
  expect(/; hit/.test(said), `not from the cache: ${said}`);
}

/** A stranger's page is in the cache, in the end: after a change of the theme WordPress still writes options in its first requests. */
async function cached(site, path) {
  const end = Date.now() + 30_000;
  let page;
  do page = await ask(site.url + path); while (!page.hit && Date.now() < end);
  expect(page.hit, `${path} is not cached: ${page.said}`);
  return page;
}

async function another(mine, other) {
  await other.see('/shop/');
  await other.add('thing-3');
  await other.see('/shop/');
  await mine.see('/shop/');
}

/** What one tab changes, the other shows with its next page. */
async function tabs(shopper) {
  const tab = await shopper.context.newPage();
  await tab.goto(`${shopper.site.url}/shop/`, { waitUntil: 'networkidle' });
  expect(await tab.locator(shopper.story.cart).textContent() === shopper.expected, 'the second tab shows another cart');
  await Promise.all([tab.waitForURL(/add-to-cart=/), tab.locator('a.add_to_cart_button').first().click()]);
  const id = Number(/add-to-cart=(\d+)/.exec(tab.url())[1]);
  const name = Object.entries(shopper.site.products).find(([, number]) => number === id)[0];
  shopper.cart.set(name, (shopper.cart.get(name) ?? 0) + 1);
  await tab.close();
  await shopper.see('/');
}

/** The browser's own copy of a page must not bring back an old cart. */
async function back(shopper) {
  await shopper.see('/product-category/wheels/');
  await shopper.add('thing-5');
  await shopper.page.goBack({ waitUntil: 'load' });
  await shopper.page.reload({ waitUntil: 'load' });
  await shopper.check(shopper.page, 'after going back and reloading');
  await shopper.see('/product-category/wheels/');
}

async function emptied(shopper, site) {
  await shopper.see('/cart/');
  for (const name of [...shopper.cart.keys()]) {
    shopper.cart.delete(name);
    await visit(shopper.page, `${shopper.site.url}/cart/?remove_item=${keyOf(site.products[name])}&back=/shop/`);
    await shopper.check(shopper.page, `without ${name}`);
  }
  await shopper.see('/shop/');
  const said = await shopper.see('/shop/');
  expect(/; hit/.test(said) && !said.includes('detail=cart'), `with an emptied cart: ${said}`);
}

/** The key of a product in the cart. */
function keyOf(number) {
  return createHash('md5').update(String(number)).digest('hex');
}

async function strangers(site) {
  for (const path of ['/', '/shop/', '/product/thing-1/', '/product/thing-3/']) {
    const page = await cached(site, path);
    expect(!/[1-9]\d* in the cart/.test(page.text), `${path} shows a cart to a stranger`);
    expect(page.cookies.length === 0, `${path} sets ${page.cookies}`);
  }
}

/** What the browser itself noticed. */
async function verdict(part, browser) {
  const failures = browser.failures();
  part.check(`no failed request among ${browser.answers} responses`, failures.length === 0 && browser.answers > 30, failures.join(' | ') || 'too few responses');
  const complaints = browser.complaints();
  part.check('no error in the console', complaints.length === 0, complaints.join(' | '));
  await browser.close();
}
