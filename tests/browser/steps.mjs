// What a person does with WordPress in a browser, a function a step: (page, site) => done, or an Error that says what is
// not as it should be. `site` is { url, root, user, password, picture }, and steps leave there what later ones need.

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit as go } from '../lib/browser.mjs';

const TITLE = 'A picture from the mill';
const WORDS = 'The water turns the wheel';

function expect(fine, why) {
  if (!fine) throw new Error(why);
}

/** Goes to `path` of the site. */
function visit(page, site, path) {
  return go(page, site.url + path);
}

export async function install(page, site) {
  await visit(page, site, '/');
  expect(page.url().endsWith('/wp-admin/install.php'), `sent to ${page.url()}, not to the installation`);
  await page.fill('#weblog_title', 'Mill and race');
  await page.fill('#user_login', site.user);
  await page.fill('#pass1', site.password);
  await page.fill('#admin_email', 'miller@example.com');
  await page.click('#submit');
  await page.getByRole('heading', { name: 'Success!' }).waitFor();
  await settle(page);
}

export async function logIn(page, site) {
  await visit(page, site, '/wp-admin/');
  expect(page.url().includes('/wp-login.php'), `the administration is open to strangers: ${page.url()}`);
  await page.fill('#user_login', site.user);
  await page.fill('#user_pass', site.password);
  await page.click('#wp-submit');
  await page.waitForURL(/\/wp-admin\//);
  await page.getByRole('heading', { name: 'Dashboard', exact: true }).waitFor();
  await settle(page);
}

export async function permalinks(page, site) {
  await visit(page, site, '/wp-admin/options-permalink.php');
  const offered = await page.locator('#permalink-input-post-name').getAttribute('value');
  expect(offered === '/%postname%/', `WordPress believes that this server cannot rewrite URLs: it offers ${offered}`);
  await page.check('#permalink-input-post-name');
  await page.click('#submit');
  await page.getByText('Permalink structure updated').waitFor();
  await settle(page);
}

export async function writePost(page, site) {
  await visit(page, site, '/wp-admin/post-new.php');
  await page.keyboard.press('Escape'); // the welcome guide, if it came up
  const close = page.getByRole('button', { name: 'Close', exact: true });
  if (await close.isVisible().catch(() => false)) await close.click();
  const framed = await page.locator('iframe[name="editor-canvas"]').count();
  const canvas = framed ? page.frameLocator('iframe[name="editor-canvas"]') : page;
  await canvas.getByRole('textbox', { name: 'Add title' }).click();
  await page.keyboard.type(TITLE);
  await page.keyboard.press('Enter');
  await page.keyboard.type(WORDS);
  await page.keyboard.press('Enter');
  await page.keyboard.type('/image');
  await page.getByRole('option', { name: 'Image', exact: true }).click();
  await canvas.locator('.wp-block-image input[type=file], .block-editor-media-placeholder input[type=file]').first()
    .setInputFiles(site.picture);
  await canvas.locator('.wp-block-image img[src^="http"]').waitFor({ timeout: 60_000 });
  await page.waitForFunction(() => !window.wp.data.select('core/editor').isPostSavingLocked());
  await page.getByRole('button', { name: 'Publish', exact: true }).first().click();
  await page.getByRole('region', { name: 'Editor publish' }).getByRole('button', { name: 'Publish', exact: true }).click();
  const link = page.getByRole('region', { name: 'Editor publish' }).getByRole('link', { name: 'View Post' });
  await link.waitFor({ timeout: 45_000 });
  site.post = await link.getAttribute('href');
  expect(site.post === `${site.url}/a-picture-from-the-mill/`, `the post's address is ${site.post}`);
  await settle(page);
}

export async function frontPage(page, site) {
  const answer = await visit(page, site, '/');
  expect(answer.status() === 200, `status ${answer.status()}`);
  expect((await page.title()).includes('Mill and race'), `title ${await page.title()}`);
  await page.getByRole('link', { name: TITLE }).first().waitFor();
}

export async function readPost(page, site) {
  await page.getByRole('link', { name: TITLE }).first().click();
  await page.waitForURL(site.post);
  await settle(page);
  await page.getByText(WORDS).first().waitFor();
  const image = page.locator('.wp-block-image img');
  await image.waitFor();
  await picturesDecode(page);
  const [width, shown] = await image.evaluate((img) => [img.naturalWidth, img.currentSrc]);
  expect(width > 300, `the picture ${shown} is ${width} pixels wide`);
}

export async function comment(page, site) {
  await visit(page, site, '/a-picture-from-the-mill/');
  await page.fill('#comment', 'A comment <b>from</b> a visitor: ünïcode & all');
  await page.fill('#author', 'Visitor');
  await page.fill('#email', 'visitor@example.com');
  await page.getByRole('button', { name: 'Post Comment' }).click();
  await page.waitForURL(/#comment-\d+/);
  await page.getByText('awaiting moderation').waitFor();
  await settle(page);
}

export async function approve(page, site) {
  await visit(page, site, '/wp-admin/edit-comments.php');
  const row = page.locator('#the-comment-list tr').filter({ hasText: 'from a visitor' });
  await row.hover();
  const done = page.waitForResponse((answer) => answer.url().endsWith('/admin-ajax.php') && answer.request().postData()?.includes('dim-comment'));
  await row.getByRole('button', { name: 'Approve this comment' }).or(row.getByRole('link', { name: 'Approve this comment' })).click();
  expect((await done).status() === 200, `admin-ajax.php answered ${(await done).status()}`);
  await settle(page);
}

export async function readComment(page, site) {
  await visit(page, site, '/a-picture-from-the-mill/');
  await page.getByText('a visitor: ünïcode & all').waitFor();
  expect(!(await page.getByText('awaiting moderation').count()), 'the comment still waits');
}

export async function mediaLibrary(page, site) {
  await visit(page, site, '/wp-admin/upload.php?mode=grid');
  await page.locator('.attachment-preview img').first().waitFor();
  await picturesDecode(page, '.attachment-preview img');
  await page.locator('.attachment-preview').first().click();
  await page.getByRole('heading', { name: 'Attachment details' }).waitFor();
  await picturesDecode(page, '.attachment-details img');
  await page.getByText('sunrise').first().waitFor();
  await settle(page);
}

export async function plugins(page, site) {
  await visit(page, site, '/wp-admin/plugins.php');
  await page.getByRole('link', { name: 'Activate Hello Dolly' }).click();
  await page.getByText('Plugin activated.').waitFor();
  await page.locator('#dolly').waitFor();
  await settle(page);
}

export async function switchTheme(page, site) {
  await visit(page, site, '/wp-admin/themes.php');
  const theme = page.locator('.theme[data-slug="twentytwentyone"]');
  await theme.hover();
  await picturesDecode(page, '.theme-screenshot img');
  await theme.getByRole('link', { name: /^Activate/ }).click();
  await page.getByText('New theme activated.').waitFor();
  await settle(page);
}

export async function newTheme(page, site) {
  await visit(page, site, '/');
  const styles = await page.$$eval('link[rel=stylesheet]', (links) => links.map((link) => link.href));
  expect(styles.some((href) => href.includes('/themes/twentytwentyone/')), `style sheets: ${styles.join(' ')}`);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(ground === 'rgb(209, 228, 221)', `the theme's style sheet is not applied: the page is ${ground}`);
  await picturesDecode(page);
}

export async function customize(page, site) {
  await visit(page, site, '/wp-admin/customize.php');
  await page.locator('#customize-preview iframe').waitFor();
  await page.locator('#accordion-section-title_tagline').click();
  const field = page.locator('#customize-control-blogdescription input');
  await field.waitFor();
  await field.fill('Ground fine');
  await page.frameLocator('#customize-preview iframe').last().getByText('Ground fine').waitFor();
  await page.waitForFunction(() => !document.querySelector('#save').disabled);
  await page.click('#save');
  await page.waitForFunction(() => window.wp.customize.state('saved').get() === true);
  await settle(page);
}

/** What machines read: fetched with the visitor's browser context, so that it counts like any other request. */
export async function machines(page, site) {
  const get = async (path) => {
    const answer = await page.request.get(site.url + path);
    expect(answer.status() === 200, `${path}: status ${answer.status()}`);
    return { text: await answer.text(), type: answer.headers()['content-type'] };
  };
  const feed = await get('/feed/');
  expect(/^application\/rss\+xml/.test(feed.type) && feed.text.includes(`<title>${TITLE}</title>`), `feed: ${feed.type}`);
  expect((await get('/comments/feed/')).text.includes('visitor'), 'the comment is not in the comments feed');
  const posts = JSON.parse((await get('/wp-json/wp/v2/posts?search=picture')).text);
  expect(posts[0]?.link === site.post, `REST API: ${JSON.stringify(posts[0]?.link)}`);
  expect((await get('/wp-sitemap.xml')).text.includes('wp-sitemap-posts-post-1.xml'), 'the sitemap names no posts');
  expect((await get('/wp-sitemap-posts-post-1.xml')).text.includes(site.post), 'the post is not in the sitemap');
  expect((await get('/robots.txt')).text.includes('Disallow: /wp-admin/'), 'robots.txt is not WordPress\'s');
  expect((await get('/?s=wheel')).text.includes(TITLE), 'the search does not find the post');
}

/** Writes an option thirty times, and says how many of them failed. */
const WRITER = `<?php
require 'wp-load.php';
$wpdb->suppress_errors();
$lost = 0;
for ($i = 0; $i < 30; $i++) {
  $wpdb->last_error = '';
  update_option('written_by_' . (int) $_GET['n'], $i);
  if ($wpdb->last_error) $lost++;
  $wpdb->get_var("SELECT COUNT(*) FROM $wpdb->posts");
}
echo $lost;
`;

/** Six requests write at the same time: nothing of it may be lost, on SQLite neither. */
export async function writeAtOnce(page, site) {
  const script = join(site.root, 'write-at-once.php');
  writeFileSync(script, WRITER);
  const asked = [1, 2, 3, 4, 5, 6].map((n) => page.request.get(`${site.url}/write-at-once.php?n=${n}`));
  const lost = await Promise.all((await Promise.all(asked)).map((answer) => answer.text()));
  rmSync(script);
  expect(lost.every((text) => text === '0'), `writes that were lost: ${lost.join(' ')}`);
}

/** Reads the post again: pictures, styles and scripts come from the browser's cache or with 304. */
export async function repeatVisit(page, site) {
  await visit(page, site, '/a-picture-from-the-mill/');
  const again = [];
  const listen = (answer) => again.push(answer);
  page.on('response', listen);
  await page.reload({ waitUntil: 'load' });
  await settle(page);
  page.off('response', listen);
  const files = again.filter((answer) => /\.(jpe?g|png|css|js|woff2?)(\?|$)/.test(answer.url()));
  expect(files.length > 2, `only ${files.length} files on the page`);
  const sent = [];
  for (const answer of files) {
    const sizes = await answer.request().sizes().catch(() => null);
    if (answer.status() !== 304 && sizes && sizes.responseBodySize > 0) sent.push(`${answer.status()} ${answer.url()}`);
  }
  expect(sent.length === 0, `sent again: ${sent.join(' ')}`);
}

/** Results that say something about this test's surroundings and nothing about the server, each with its reason. */
const ELSEWHERE = {
  https_status: 'plain HTTP on the loopback address',
  dotorg_communication: 'the test lets WordPress talk to no other machine',
  http_requests: 'the test blocks outside requests on purpose',
  background_updates: 'needs wordpress.org',
  theme_version: 'one theme more than WordPress recommends is installed',
  wordpress_version: 'needs wordpress.org',
  php_extensions: 'the distribution\'s choice of PHP modules',
  persistent_object_cache: 'none is installed',
  page_cache: 'a recommendation; judged by the page cache\'s own tests',
  available_updates_disk_space: 'needs wordpress.org',
};

/** Those that may even be critical, because the test blocks outside requests. */
const BLOCKED = ['dotorg_communication', 'http_requests'];

/** The tests that judge the server: each must be there, and good. */
const SERVER_TESTS = ['loopback_requests', 'authorization_header', 'rest_availability', 'scheduled_events', 'file_uploads', 'php_sessions'];

export async function siteHealth(page, site) {
  const results = new Map();
  const listen = async (answer) => {
    if (!/wp-site-health\/v1\/tests\//.test(decodeURIComponent(answer.url()))) return;
    const result = await answer.json().catch(() => null);
    if (result?.test) results.set(result.test, result);
  };
  page.on('response', listen);
  await visit(page, site, '/wp-admin/site-health.php');
  await page.waitForFunction(() => {
    const wrapper = document.querySelector('.site-health-progress-wrapper');
    return wrapper && !wrapper.classList.contains('loading') && Object.values(window.SiteHealth?.site_status.async ?? {}).every((test) => test.completed);
  }, null, { timeout: 100_000 });
  await settle(page);
  page.off('response', listen);
  for (const result of await page.evaluate(() => window.SiteHealth.site_status.direct)) results.set(result.test, result);

  const lines = [];
  const problems = [];
  for (const [name, { status, label, description }] of results) {
    if (status === 'good') continue;
    const reason = status === 'critical' && !BLOCKED.includes(name) ? undefined : ELSEWHERE[name];
    lines.push(`Site Health, ${status}: ${name}: ${label}${name === 'php_extensions' ? description.replace(/<[^>]*>|\s+/g, ' ').replace(/^.*hosting provider\.?/, '') : ''}${reason ? ` (${reason})` : ''}`);
    if (!reason) problems.push(`${name} is ${status}: ${label}: ${description.replace(/<[^>]*>/g, ' ')}`);
  }
  for (const name of SERVER_TESTS) if (!results.has(name)) problems.push(`no result of ${name}`);
  lines.unshift(`Site Health: ${results.size} results, good: ${[...results].filter(([, r]) => r.status === 'good').map(([name]) => name).join(' ')}`);
  return { lines, problems };
}

export async function missing(page, site) {
  const answer = await visit(page, site, '/no-such-page/');
  expect(answer.status() === 404, `status ${answer.status()}`);
  expect(answer.headers()['content-type'].startsWith('text/html'), 'not a page');
  await page.getByText('Nothing here').first().waitFor();
}

export async function logOut(page, site) {
  await visit(page, site, '/wp-admin/');
  await page.hover('#wp-admin-bar-my-account');
  await page.click('#wp-admin-bar-logout a');
  await page.getByText('You are now logged out.').waitFor();
  await settle(page);
  await page.goto(`${site.url}/wp-admin/`, { waitUntil: 'load' });
  expect(page.url().includes('/wp-login.php'), 'still logged in');
}
