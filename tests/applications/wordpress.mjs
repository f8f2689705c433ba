// WordPress 6.1 as Debian packages it, its libraries linked out of the root: installed through the browser, read, entered.

import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit } from '../lib/browser.mjs';
import { expect, privateCopy } from '../lib/copy.mjs';

export const PACKAGE = '/usr/share/wordpress/wp-load.php';
export const PROFILE = 'wordpress';
/** PHP's complaints that are the package's own: its patch of wp-admin/install.php uses variables that it doesn't set. */
export const KNOWN = /Undefined variable \$upload_(url_)?path in .*install\.php/;

const USER = 'miller';
const PASSWORD = 'A rather long pass-phrase 3';

/** Debian's WordPress with a database of its own, not yet installed. `lines` are more PHP for wp-config.php. */
export async function place(site, name, lines = '') {
  privateCopy('/usr/share/wordpress', site.root, { copied: ['wp-admin'], without: ['wp-content', 'wp-config.php', '.htaccess'] });
  mkdirSync(join(site.root, 'wp-content/plugins'), { recursive: true });
  cpSync('/usr/share/wordpress/wp-content/themes', join(site.root, 'wp-content/themes'), { recursive: true });
  await site.database.create(name, name, 'secret');
  const keys = ['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT'];
  writeFileSync(join(site.root, 'wp-config.php'), `<?php
define('DB_NAME', '${name}'); define('DB_USER', '${name}'); define('DB_PASSWORD', 'secret');
define('DB_HOST', 'localhost:${site.database.socket}'); define('DB_CHARSET', 'utf8mb4');
${keys.map((key) => `define('${key}', '${key} of a test');`).join('\n')}
define('WP_HTTP_BLOCK_EXTERNAL', true);
${lines}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
`);
}

export const install = (site) => place(site, 'debwp');

export const STEPS = [
  ['five-minute install', async (page, site) => {
    await visit(page, `${site.url}/`);
    const next = page.getByRole('button', { name: 'Continue' });
    if (await next.isVisible()) await next.click();
    await page.fill('#weblog_title', 'The packaged mill');
    await page.fill('#user_login', USER);
    await page.fill('#pass1', PASSWORD);
    await page.fill('#admin_email', 'miller@example.com');
    await page.click('#submit');
    await page.getByRole('heading', { name: 'Success!' }).waitFor();
    await settle(page);
  }],
  ['front page', async (page, site) => {
    const answer = await visit(page, `${site.url}/`);
    expect(answer.status() === 200 && (await page.title()).includes('The packaged mill'), `${answer.status()} ${await page.title()}`);
    await page.getByRole('link', { name: 'Hello world!' }).first().waitFor();
    await picturesDecode(page);
  }],
  ['log in', async (page, site) => {
    await visit(page, `${site.url}/wp-login.php`);
    await page.fill('#user_login', USER);
    await page.fill('#user_pass', PASSWORD);
    await page.click('#wp-submit');
    await page.getByRole('heading', { name: 'Dashboard', exact: true }).waitFor();
    await settle(page);
  }],
  ['block editor', async (page, site) => {
    await visit(page, `${site.url}/wp-admin/post-new.php`);
    await page.locator('.block-editor-block-list__layout, iframe[name="editor-canvas"]').first().waitFor();
  }],
];
