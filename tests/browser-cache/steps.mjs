// What editors and visitors do, a function a step: (page, site, people) => done, or an Error that says what is not as it
// should be. Steps leave in `site` what later ones need.

import { settle, visit as go } from '../lib/browser.mjs';
import { ask, changes, expect, look, until, warm } from './watch.mjs';
import { siteHealth as allOfSiteHealth } from '../browser/steps.mjs';

/** Goes to `path` of the site. */
function visit(page, site, path) {
  return go(page, site.url + path);
}

/** WordPress's REST interface, with the session of the browser. */
export async function api(page, site, method, route, data) {
  const nonce = await (await page.request.get(`${site.url}/wp-admin/admin-ajax.php?action=rest-nonce`)).text();
  const answer = await page.request.fetch(`${site.url}/wp-json/wp/v2/${route}`, { method, data, headers: { 'X-WP-Nonce': nonce } });
  const text = await answer.text();
  expect(answer.ok(), `${method} ${route}: ${answer.status()} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

/** Two authors, three categories, posts that have nothing to do with each other, pages of a shop; no widgets. */
export async function furnish(page, site) {
  const make = (route, data) => api(page, site, 'POST', route, { status: 'publish', ...data });
  const writer = await make('users', { username: 'writer', name: 'Wanda', email: 'writer@example.com', password: site.password, roles: ['author'] });
  for (const name of ['Red', 'Blue', 'Green']) site[name] = (await make('categories', { name })).id;
  const post = async (title, year, category, author, more) => {
    const made = await make('posts', { title, content: `Words of ${title}`, date: `${year}-03-05T10:00:00`, categories: [site[category]], author, ...more });
    return made.id;
  };
  site.beta = await post('Beta', 2019, 'Blue', writer.id);
  for (const between of ['One', 'Two', 'Three']) await post(between, 2020, 'Green');
  site.alpha = await post('Alpha', 2021, 'Red');
  for (const between of ['Four', 'Five', 'Six']) site[between] = await post(between, 2022, 'Green');
  const pages = { Shop: '[test_shop]', Cart: '[test_cart]', Basket: '[test_cart]', Checkout: '[test_cart]', Form: '[test_form]', About: 'About us' };
  for (const [title, content] of Object.entries(pages)) site[title] = (await make('pages', { title, content })).id;
  site.writer = writer.id;
}

/** All pages show it. Then there are no widgets, so that each page shows only what it is about. */
export async function theme(page, site) {
  const change = async () => {
    await visit(page, site, '/wp-admin/themes.php');
    const one = page.locator('.theme[data-slug="twentytwentyone"]');
    await one.hover();
    await one.getByRole('link', { name: /^Activate/ }).click();
    await page.getByText('New theme activated.').waitFor();
    await settle(page);
  };
  const sheet = 'themes/twentytwentyone/style.css';
  await changes(site, change, { fresh: [['/', sheet], ['/alpha/', sheet], ['/category/red/', sheet], ['/about/', sheet]] });
  for (const { id } of await api(page, site, 'GET', 'sidebars?context=edit')) {
    if (id !== 'wp_inactive_widgets') await api(page, site, 'POST', `sidebars/${id}`, { widgets: [] });
  }
}

/** A browser without a name, and one that counts its visitors. */
export async function hits(page, site) {
  await warm(site, ['/', '/alpha/']);
  for (const path of ['/', '/alpha/', '/alpha/?utm_source=mail&fbclid=1']) {
    const answer = await visit(page, site, path);
    const headers = answer.headers();
    expect(/; hit/.test(headers['cache-status']), `${path}: ${headers['cache-status']}`);
    expect(headers['x-litespeed-cache'] === 'hit' && headers['x-cache'] === 'HIT' && Number(headers.age) >= 0, JSON.stringify(headers));
    expect(!headers['set-cookie'] && !(await page.locator('#wpadminbar').count()), `${path} has something personal`);
  }
  const coded = await ask(`${site.url}/alpha/`, { headers: { 'Accept-Encoding': 'gzip', Cookie: '_ga=GA1.2.3; cookie_notice_accepted=true' } });
  expect(coded.hit && coded.headers['content-encoding'] === 'gzip', `${coded.said}, ${coded.headers['content-encoding']}`);
  const same = await ask(`${site.url}/alpha/`, { headers: { 'Accept-Encoding': 'gzip', 'If-None-Match': coded.headers.etag } });
  expect(same.status === 304, `status ${same.status} to ${coded.headers.etag}`);
  expect((await ask(`${site.url}/alpha/`, { method: 'HEAD' })).hit, 'HEAD is no hit');
}

/** What lists Alpha, and what has nothing to do with it. */
const OF_ALPHA = ['/alpha/', '/', '/category/red/', '/author/editor-in-chief/', '/2021/', '/2021/03/', '/2021/03/05/', '/feed/', '/category/red/feed/', '/wp-json/wp/v2/posts'];
const NOT_OF_ALPHA = ['/beta/', '/category/blue/', '/author/writer/', '/2019/', '/2019/03/', '/about/', '/category/blue/feed/'];

/** In the block editor. */
export async function edit(page, site, { guest }) {
  const change = async () => {
    await visit(page, site, `/wp-admin/post.php?post=${site.alpha}&action=edit`);
    await page.keyboard.press('Escape'); // the welcome guide, if it came up
    const close = page.getByRole('button', { name: 'Close', exact: true });
    if (await close.isVisible().catch(() => false)) await close.click();
    const framed = await page.locator('iframe[name="editor-canvas"]').count();
    const canvas = framed ? page.frameLocator('iframe[name="editor-canvas"]') : page;
    await canvas.getByRole('textbox', { name: 'Add title' }).click();
    await page.keyboard.press('End');
    await page.keyboard.type(' anew');
    const saved = page.waitForResponse((answer) => answer.url().includes(`/posts/${site.alpha}`) && answer.request().method() !== 'GET' && answer.request().method() !== 'OPTIONS');
    await page.getByRole('region', { name: 'Editor top bar' }).getByRole('button', { name: /^(Update|Save)$/ }).click();
    expect((await saved).ok(), `saving: ${(await saved).status()}`);
  };
  await changes(site, change, { fresh: OF_ALPHA.map((path) => [path, 'Alpha anew']), kept: NOT_OF_ALPHA });
  await settle(page);
  await visit(guest.page, site, '/');
  await guest.page.getByText('Alpha anew').first().waitFor();
}

/** The visitor sees at once that it waits; all others see it when it is approved. */
export async function comment(page, site, { admin }) {
  await warm(site, ['/alpha/']);
  await visit(page, site, '/alpha/');
  await page.fill('#comment', 'A word from a passer-by');
  await page.fill('#author', 'Passer-by');
  await page.fill('#email', 'visitor@example.com');
  const consent = page.locator('#wp-comment-cookies-consent');
  if (await consent.count()) await consent.check();
  await page.getByRole('button', { name: 'Post Comment' }).click();
  await page.getByText('awaiting moderation').first().waitFor();
  await settle(page);
  const strangers = await look(site, new URL(page.url()).pathname);
  expect(!strangers.text.includes('A word from a passer-by'), 'a stranger sees what is not approved');
  await visit(page, site, '/alpha/');
  expect(await page.getByText('awaiting moderation').count(), 'the commenter does not see his own any more');
  expect(await page.locator('#author').inputValue() === 'Passer-by', 'the form does not know its commenter');
  expect(!(await look(site, '/alpha/')).text.includes('Passer-by'), 'a stranger is called by the commenter\'s name');

  const approve = async () => {
    await visit(admin.page, site, '/wp-admin/edit-comments.php');
    const row = admin.page.locator('#the-comment-list tr').filter({ hasText: 'A word from a passer-by' });
    await row.hover();
    const done = admin.page.waitForResponse((answer) => answer.url().endsWith('/admin-ajax.php') && answer.request().postData()?.includes('dim-comment'));
    await row.getByRole('button', { name: 'Approve this comment' }).or(row.getByRole('link', { name: 'Approve this comment' })).click();
    expect((await done).status() === 200, `admin-ajax.php answered ${(await done).status()}`);
    await settle(admin.page);
  };
  const words = 'A word from a passer-by';
  await changes(site, approve, { fresh: [['/alpha/', words], ['/comments/feed/', words], ['/alpha/feed/', words]], kept: ['/beta/', '/about/', '/category/blue/'] });
}

/** Made, and changed. */
export async function menu(page, site) {
  let item;
  const make = async () => {
    const { id } = await api(page, site, 'POST', 'menus', { name: 'Main', locations: ['primary'] });
    item = await api(page, site, 'POST', 'menu-items', { title: 'To the mill', url: `${site.url}/about/`, status: 'publish', menus: id, menu_order: 1 });
  };
  await changes(site, make, { fresh: ['/', '/alpha/', '/beta/', '/about/'].map((path) => [path, 'To the mill']) });
  const rename = () => api(page, site, 'POST', `menu-items/${item.id}`, { title: 'To the race' });
  await changes(site, rename, { fresh: ['/', '/alpha/', '/beta/', '/about/'].map((path) => [path, 'To the race']) });
}

/** Put into the footer and taken away, by the requests of the editor of widgets. */
export async function widget(page, site) {
  let made;
  const add = async () => {
    made = await api(page, site, 'POST', 'widgets', { id_base: 'block', sidebar: 'sidebar-1', instance: { raw: { content: '<p>Widget words</p>' } } });
    await api(page, site, 'POST', 'sidebars/sidebar-1', { widgets: [made.id] });
  };
  await changes(site, add, { fresh: ['/', '/alpha/', '/beta/', '/category/blue/'].map((path) => [path, 'Widget words']) });
  const remove = () => api(page, site, 'DELETE', `widgets/${made.id}?force=true`);
  await changes(site, remove, { fresh: ['/', '/alpha/'].map((path) => [path, ({ text }) => !text.includes('Widget words')]) });
}

/** Of the site, a category, a user: wherever they are shown. */
export async function names(page, site) {
  const words = async () => {
    await visit(page, site, '/wp-admin/options-general.php');
    await page.fill('#blogdescription', 'Ground fine');
    await page.click('#submit');
    await page.getByText('Settings saved.').waitFor();
    await settle(page);
  };
  await changes(site, words, { fresh: ['/', '/alpha/', '/about/'].map((path) => [path, 'Ground fine']) });
  const category = () => api(page, site, 'POST', `categories/${site.Blue}`, { name: 'Azure' });
  await changes(site, category, { fresh: [['/beta/', 'Azure'], ['/category/blue/', 'Azure']], kept: ['/alpha/', '/category/red/'] });
  const author = () => api(page, site, 'POST', `users/${site.writer}`, { name: 'Walter' });
  await changes(site, author, { fresh: [['/beta/', 'Walter'], ['/author/writer/', 'Walter']], kept: ['/alpha/', '/category/red/'] });
}

/** It is gone for everybody at once, wherever it was. */
export async function unpublish(page, site) {
  const gone = (title) => ({ text, status }) => status === 404 || !text.includes(`>${title}<`);
  const lists = (title) => ['/', '/feed/', '/category/green/', '/2022/'].map((path) => [path, gone(title)]);
  const missing = ({ status }) => status === 404;
  const kept = ['/beta/', '/category/blue/', '/about/'];
  await changes(site, () => api(page, site, 'POST', `posts/${site.Four}`, { status: 'draft' }), { fresh: [['/four/', missing], ...lists('Four')], kept });
  await changes(site, () => api(page, site, 'POST', `posts/${site.Five}`, { status: 'private' }), { fresh: [['/five/', missing], ...lists('Five')], kept });
  await changes(site, () => api(page, site, 'DELETE', `posts/${site.Six}`), { fresh: [['/six/', missing], ...lists('Six')], kept });
  // What was not there is there.
  await changes(site, () => api(page, site, 'POST', `posts/${site.Four}`, { status: 'publish' }), { fresh: [['/four/', 'Words of Four'], ['/', 'Four'], ['/feed/', 'Four']], kept });
}

/** Who knows it sees the post; the next visitor does not. */
export async function password(page, site, { admin }) {
  const protect = () => api(admin.page, site, 'POST', `posts/${site.Four}`, { password: 'sesame' });
  await warm(site, ['/four/', '/', '/beta/']);
  await protect();
  const hidden = ({ text }) => !text.includes('Words of Four') && text.includes('post_password');
  expect(hidden(await look(site, '/four/')), 'the post is still there without its password');
  expect(!(await look(site, '/')).text.includes('Words of Four'), 'the front page tells it');
  expect(!(await look(site, '/feed/')).text.includes('Words of Four'), 'the feed tells it');
  expect((await look(site, '/beta/')).hit, 'another post is gone');
  await visit(page, site, '/four/');
  await page.locator('input[name=post_password]').fill('sesame');
  await page.locator('input[type=submit][name=Submit], .post-password-form input[type=submit]').first().click();
  await page.getByText('Words of Four').first().waitFor();
  await settle(page);
  for (let turn = 0; turn < 3; turn += 1) expect(hidden(await look(site, '/four/')), 'a stranger sees it after somebody who knows the password');
  await visit(page, site, '/four/');
  expect(await page.getByText('Words of Four').count(), 'who knows it has to say it again');
  await page.context().clearCookies();
}

/** His pages are his own, and when he leaves he is a stranger. */
export async function logInAndOut(page, site) {
  await warm(site, ['/', '/alpha/']);
  await visit(page, site, '/wp-login.php');
  await page.fill('#user_login', 'writer');
  await page.fill('#user_pass', site.password);
  await page.click('#wp-submit');
  await page.waitForURL(/\/wp-admin\//);
  await settle(page);
  for (const path of ['/', '/alpha/']) {
    const answer = await visit(page, site, path);
    expect(/fwd=bypass/.test(answer.headers()['cache-status']), `${path}: ${answer.headers()['cache-status']}`);
    expect(await page.locator('#wpadminbar').count(), `${path} does not know him`);
    expect((await look(site, path)).hit, `${path}: his visit has pushed out the strangers' page`);
  }
  await page.hover('#wp-admin-bar-my-account');
  await page.click('#wp-admin-bar-logout a');
  await page.getByText('You are now logged out.').waitFor();
  await settle(page);
  const answer = await visit(page, site, '/alpha/');
  expect(/; hit/.test(answer.headers()['cache-status']), `after he left: ${answer.headers()['cache-status']}`);
  expect(!(await page.locator('#wpadminbar').count()), 'he is still there');
}

/** An administrator, a visitor with a cart and strangers ask for cold pages at the same time. */
export async function everybodyAtOnce(page, site) {
  const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  expect(/wordpress_logged_in/.test(cookies), 'nobody is logged in');
  for (let turn = 0; turn < 4; turn += 1) {
    await ask(`${site.url}/alpha/`, { method: 'PURGE' });
    const [mine, ...theirs] = await Promise.all([
      ask(`${site.url}/alpha/`, { headers: { Cookie: cookies } }),
      ...Array.from({ length: 5 }, () => look(site, '/alpha/')),
      look(site, '/alpha/', { headers: { Cookie: 'woocommerce_items_in_cart=1' } }),
      look(site, '/alpha/', { headers: { Cookie: 'wordpress_test_cookie=WP+Cookie+check' } }),
    ]);
    expect(mine.text.includes('wpadminbar') && !mine.hit, `the administrator got a stranger's page: ${mine.said}`);
    expect(theirs.every(({ status }) => status === 200), theirs.map(({ status, said }) => `${status} ${said}`).join());
  }
}

/** It says how old the page is that others see, and purges it. */
export async function adminBar(page, site) {
  const press = async (name) => {
    await visit(page, site, '/alpha/');
    const item = page.locator('#wp-admin-bar-millrace > .ab-item');
    await page.waitForFunction(() => /cached/.test(document.querySelector('#wp-admin-bar-millrace > .ab-item').textContent));
    expect(/^Millrace: cached \d+ (s|min|h) ago$/.test(await item.textContent()), `the bar says "${await item.textContent()}"`);
    await page.hover('#wp-admin-bar-millrace');
    await page.getByRole('menuitem', { name }).click();
    await page.waitForLoadState('load');
    // It purges, and comes back to the page, which then asks how old it is.
    await page.waitForFunction(() => / (cached|not cached)/.test(document.querySelector('#wp-admin-bar-millrace > .ab-item')?.textContent));
    expect(new URL(page.url()).pathname === '/alpha/', `sent to ${page.url()}`);
  };
  await changes(site, () => press('Purge this page'), { fresh: ['/alpha/'], kept: ['/beta/', '/'] });
  await changes(site, () => press('Purge all'), { fresh: ['/beta/', '/'] });
}

/** Everybody has a cart of his own, and strangers have none. */
export async function shop(page, site, { other }) {
  await warm(site, ['/shop/']);
  const cart = async (who, path, selector) => {
    await visit(who, site, path);
    return who.locator(selector).textContent();
  };
  const add = async (who) => {
    await visit(who, site, '/shop/');
    await who.click('#add');
    await who.waitForURL(`${site.url}/shop/`);
    await settle(who);
    return /Cart of (t_\w+): /.exec(await who.locator('#mini-cart').textContent())?.[1];
  };
  const mine = await add(page);
  expect(mine, 'no cart on the shop\'s page');
  expect(await cart(other.page, '/shop/', '#mini-cart') === 'Cart of nobody: 0', 'the other has a cart before he has one');
  const his = await add(other.page);
  expect(his && his !== mine, `two with the same cart: ${mine} ${his}`);
  await add(page);
  for (const path of ['/cart/', '/basket/', '/checkout/']) {
    expect(await cart(page, path, '#cart') === `Cart of ${mine}: 2`, `${path} is not mine`);
    expect(await cart(other.page, path, '#cart') === `Cart of ${his}: 1`, `${path} is not his`);
    for (let turn = 0; turn < 2; turn += 1) {
      const strangers = await look(site, path);
      expect(!strangers.hit && strangers.text.includes('Cart of nobody: 0'), `${path} for strangers: ${strangers.said}`);
    }
  }
  for (const path of ['/shop/', '/', '/shop/?add-to-cart=7&x=1']) {
    const strangers = await look(site, path);
    expect(!/Cart of t_/.test(strangers.text), `${path} shows a cart to a stranger: ${strangers.said}`);
  }
  expect((await look(site, '/shop/')).hit, 'the shop is not kept for strangers');
  await page.context().clearCookies();
  await other.page.context().clearCookies();
}

/** It is good for twelve hours at least: the page for ten. */
export async function nonce(page, site) {
  await warm(site, ['/form/', '/about/']);
  const left = async (path) => Number(/ttl=(\d+)/.exec((await look(site, path)).said)?.[1]);
  const [form, about] = [await left('/form/'), await left('/about/')];
  expect(form > 3600 && form <= 36000, `a page with a nonce is kept for ${form} s`);
  expect(about > 36000, `one without, for ${about} s`);
}

/** Nobody does anything: WordPress's clock publishes it, and pages that were kept meanwhile show it. */
export async function scheduled(page, site, { admin }) {
  const due = new Date(Date.now() + 4000).toISOString().slice(0, 19);
  await warm(site, ['/', '/feed/', '/beta/']);
  const { status, id } = await api(admin.page, site, 'POST', 'posts', { title: 'Tomorrow', content: 'Words of Tomorrow', status: 'future', date_gmt: due });
  expect(status === 'future', `it is ${status}`);
  expect((await look(site, `/?p=${id}`)).status === 404, 'it is there before its time');
  await warm(site, ['/']);
  for (const path of ['/', '/feed/', '/category/uncategorized/']) {
    await until(async () => (await look(site, path)).text.includes('Tomorrow'), 20, `${path} does not show what is published`);
  }
  await visit(page, site, '/tomorrow/');
  await page.getByText('Words of Tomorrow').first().waitFor();
  expect((await look(site, '/beta/')).hit, 'another post is gone');
}

/** And its other verdicts on the server are as good as in tests/browser. */
export async function siteHealth(page, site) {
  const { lines } = await allOfSiteHealth(page, site);
  expect(/good:.*\bpage_cache\b/.test(lines[0]), `${lines.filter((line) => /page_cache/.test(line)).join() || 'no result of page_cache'}`);
}
