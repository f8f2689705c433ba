// A network of WordPress sites, of all three kinds, on one WordPress: made by its own pages with a site in a folder; then that
// site gets a domain of its own; then sites have names below the network's. In each, the super admin edits a post of the second
// site in the block editor, with an upload, and it is read at its clean URL.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit } from '../lib/browser.mjs';
import { expect } from '../lib/copy.mjs';
import { run } from '../lib/processes.mjs';
import { photograph } from '../lib/wordpress.mjs';
import { place } from './wordpress.mjs';

export { PACKAGE, PROFILE } from './wordpress.mjs';

const MAIN = 'network.test';
const MAPPED = 'mapped.test';
const THIRD = `third.${MAIN}`;
/** Names that lead to the server, without its port: a network has none in its URLs. */
export const HOSTS = [MAIN, `*.${MAIN}`, MAPPED];
export const SETTINGS = { 'site.names': JSON.stringify(HOSTS) };
/**
 * Pages of a site that is not there; WordPress sends its sign-up page with 404, behind nginx, too; and its TinyMCE complains in some runs when
 * the page is left while it starts in the block editor.
 */
export const EXPECTED = [/^network: Node cannot be null or undefined$/, /404 (GET|HEAD) http:\/\/network\.test\/(none\/|wp-signup\.php)/, /404 \(Not Found\) \(http:\/\/network\.test\/(none\/|wp-signup\.php)/];
/** For nginx: the rules of wordpress.org for sites in folders. */
export const NGINX = `if (!-e $request_filename) { rewrite /wp-admin$ $scheme://$host$uri/ permanent;
rewrite ^(/[^/]+)?(/wp-.*) $2 last; rewrite ^(/[^/]+)?(/.*\\.php)$ $2 last; }`;

const USER = 'miller';
const PASSWORD = 'A rather long pass-phrase 5';
const NETWORK = `define('MULTISITE', true); define('SUBDOMAIN_INSTALL', false); define('DOMAIN_CURRENT_SITE', '${MAIN}');
define('PATH_CURRENT_SITE', '/'); define('SITE_ID_CURRENT_SITE', 1); define('BLOG_ID_CURRENT_SITE', 1);`;

export async function install(site) {
  await place(site, 'network', "define('WP_ALLOW_MULTISITE', true);\n/* the network */");
  writeFileSync(join(site.scratch, 'install.php'), `<?php
define('WP_INSTALLING', true); $_SERVER['HTTP_HOST'] = '${MAIN}';
require '${site.root}/wp-load.php'; require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('The network', '${USER}', 'miller@example.com', true, '', '${PASSWORD}');
update_option('siteurl', 'http://${MAIN}'); update_option('home', 'http://${MAIN}');
`);
  await run('php', [join(site.scratch, 'install.php')], { seconds: 60 });
  site.picture = await photograph(join(site.scratch, 'wheel.jpg'));
}

/** Replaces a part of wp-config.php, and waits for the page on which PHP has noticed it: it looks at a file every two seconds. */
async function configure(page, site, from, to, url, selector) {
  const file = join(site.root, 'wp-config.php');
  const text = readFileSync(file, 'utf8');
  expect(text.includes(from), `wp-config.php has no ${from}`);
  writeFileSync(file, text.replace(from, to));
  const end = Date.now() + 20_000;
  do {
    await visit(page, url);
    if (await page.locator(selector).count()) return;
  } while (Date.now() < end);
  throw new Error(`wp-config.php was changed, and ${url} has no ${selector}`);
}

async function logIn(page, base) {
  await visit(page, `${base}/wp-login.php`);
  await page.fill('#user_login', USER);
  await page.fill('#user_pass', PASSWORD);
  await page.click('#wp-submit');
  await page.waitForURL(`${base}/wp-admin/`);
  await page.getByRole('heading', { name: 'Dashboard', exact: true }).waitFor();
  await settle(page);
}

async function addSite(page, name) {
  await visit(page, `http://${MAIN}/wp-admin/network/site-new.php`);
  await page.fill('#site-address', name);
  await page.fill('#site-title', `Site ${name}`);
  await page.fill('#admin-email', 'miller@example.com');
  await page.click('#add-site');
  await page.getByText('Site added.').waitFor();
  await settle(page);
}

/** Gives the first post of a site another title and a picture, in the block editor. */
async function editPost(page, base, picture, title) {
  await visit(page, `${base}/wp-admin/post.php?post=1&action=edit`);
  const close = page.getByRole('dialog').getByRole('button', { name: 'Close' });
  const heading = page.getByRole('textbox', { name: 'Add title' });
  await heading.or(close).first().waitFor();
  if (await page.evaluate(() => window.wp.data.select('core/edit-post').isFeatureActive('welcomeGuide'))) await close.click();
  const pictures = page.locator('.wp-block-image img[src^="http"]');
  const before = await pictures.count();
  await heading.fill(title);
  await heading.press('Enter');
  await page.keyboard.type('/image');
  await page.getByRole('option', { name: 'Image', exact: true }).click();
  await page.locator('.block-editor-media-placeholder input[type=file]').first().setInputFiles(picture);
  await pictures.nth(before).waitFor({ timeout: 60_000 });
  await page.waitForFunction(() => !window.wp.data.select('core/editor').isPostSavingLocked());
  await page.getByRole('button', { name: 'Update', exact: true }).click();
  await page.getByText('Post updated.').first().waitFor();
  await settle(page);
  return page.evaluate(() => window.wp.data.select('core/editor').getPermalink());
}

/** Reads a post at its clean URL: the title, the picture by its URL below `uploads`. */
async function readPost(page, { post, title, uploads }) {
  expect(/\/\d{4}\/\d\d\/\d\d\/hello-world\/$/.test(post), `the post's address is ${post}`);
  const answer = await visit(page, post);
  expect(answer.status() === 200 && page.url() === post, `${post}: ${answer.status()} ${page.url()}`);
  await page.getByRole('heading', { name: title }).first().waitFor();
  await picturesDecode(page, '.wp-block-image img');
  const picture = await page.locator('.wp-block-image img').first().evaluate((image) => image.currentSrc);
  expect(picture.startsWith(uploads), `the picture's URL is ${picture}`);
  const [status, kind] = await page.evaluate((url) => fetch(url).then((answer) => [answer.status, answer.headers.get('content-type')]), picture);
  expect(status === 200 && kind === 'image/jpeg', `${picture}: ${status} ${kind}`);
}

export const STEPS = [
  ['log in, and make a network', async (page, site) => {
    await logIn(page, `http://${MAIN}`);
    await visit(page, `http://${MAIN}/wp-admin/network.php`);
    await page.locator('input[name=subdomain_install][value="0"]').check();
    await page.click('#submit');
    await page.getByText('Enabling the Network').waitFor();
    await settle(page);
    await configure(page, site, '/* the network */', NETWORK, `http://${MAIN}/wp-signup.php`, '#signup-content');
    await logIn(page, `http://${MAIN}`);
  }],
  ['network administration: registration, a second site', async (page) => {
    await visit(page, `http://${MAIN}/wp-admin/network/settings.php`);
    await page.locator('input[name=registration][value=all]').check();
    await page.click('#submit');
    await page.getByText('Settings saved.').waitFor();
    await settle(page);
    await addSite(page, 'second');
  }],
  ['in a folder: dashboard, and its files', async (page) => {
    const styles = [];
    const note = (answer) => styles.push([answer.url(), answer.status()]);
    page.on('response', note);
    await visit(page, `http://${MAIN}/second/wp-admin/`);
    page.off('response', note);
    await page.locator('#wp-admin-bar-site-name').getByText('Site second').first().waitFor();
    const below = (part) => styles.some(([url, status]) => url.startsWith(`http://${MAIN}/second/${part}`) && status === 200);
    expect(below('wp-admin/load-') && below('wp-includes/'), `not all files came from /second/: ${styles.map(([url]) => url).join(' ')}`);
  }],
  ['in a folder: edit a post', async (page, site) => {
    site.post = await editPost(page, `http://${MAIN}/second`, site.picture, 'The wheel of the second site');
    await readPost(page, { post: site.post, title: 'The wheel of the second site', uploads: `http://${MAIN}/second/wp-content/uploads/sites/2/` });
    expect(site.post.startsWith(`http://${MAIN}/second/`), `the post's address is ${site.post}`);
  }],
  ['sign up, and a site that is not there', async (page) => {
    await visit(page, `http://${MAIN}/wp-signup.php`);
    await page.locator('#setupform').waitFor();
    const answer = await visit(page, `http://${MAIN}/none/`);
    expect(answer.status() === 404, `/none/: ${answer.status()}`);
    await page.getByText(/page can.t be found|could not be found|Nothing (here|found)|404/i).first().waitFor();
    const admin = await visit(page, `http://${MAIN}/none/wp-admin/`);
    expect([404, 200].includes(admin.status()) && !page.url().includes('/none/wp-admin/index'), `/none/wp-admin/: ${admin.status()} ${page.url()}`);
  }],
  ['a domain of its own: set, log in', async (page) => {
    await visit(page, `http://${MAIN}/wp-admin/network/site-info.php?id=2`);
    await page.fill('#url', `http://${MAPPED}/`);
    await page.click('#submit');
    await page.getByText('Site info updated.').waitFor();
    await settle(page);
    await logIn(page, `http://${MAPPED}`);
    await page.locator('#wp-admin-bar-site-name').getByText('Site second').first().waitFor();
    await page.locator('#wp-admin-bar-network-admin a').first().waitFor({ state: 'attached' });
  }],
  ['a domain of its own: edit a post', async (page, site) => {
    site.post = await editPost(page, `http://${MAPPED}`, site.picture, 'The wheel of the mapped site');
    await readPost(page, { post: site.post, title: 'The wheel of the mapped site', uploads: `http://${MAPPED}/wp-content/uploads/sites/2/` });
    expect(site.post.startsWith(`http://${MAPPED}/`), `the post's address is ${site.post}`);
    const answer = await visit(page, `http://${MAIN}/wp-admin/network/sites.php`);
    expect(answer.status() === 200, `the network's sites: ${answer.status()}`);
    await page.locator('#the-list').getByRole('link', { name: MAPPED }).first().waitFor();
  }],
  ['names below the network: a third site, log in', async (page, site) => {
    const name = '#site-address ~ .no-break';
    await configure(page, site, "'SUBDOMAIN_INSTALL', false", "'SUBDOMAIN_INSTALL', true", `http://${MAIN}/wp-admin/network/site-new.php`, name);
    await addSite(page, 'third');
    await logIn(page, `http://${THIRD}`);
    await page.locator('#wp-admin-bar-site-name').getByText('Site third').first().waitFor();
  }],
  ['names below the network: edit a post', async (page, site) => {
    site.post = await editPost(page, `http://${THIRD}`, site.picture, 'The wheel of the third site');
    await readPost(page, { post: site.post, title: 'The wheel of the third site', uploads: `http://${THIRD}/wp-content/uploads/sites/3/` });
    await visit(page, `http://none.${MAIN}/`);
    expect(page.url() === `http://${MAIN}/wp-signup.php?new=none`, `a name without a site leads to ${page.url()}`);
  }],
];
