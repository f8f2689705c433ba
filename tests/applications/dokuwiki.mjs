// DokuWiki: installed by its own page, with readable URLs (userewrite = 1); a page with a picture is written and read, and what
// must not be served is not.

import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit } from '../lib/browser.mjs';
import { expect } from '../lib/copy.mjs';
import { run } from '../lib/processes.mjs';

export const PACKAGE = '/usr/share/dokuwiki/doku.php';
export const PROFILE = 'dokuwiki';
/** The start page is not written yet; DokuWiki looks itself whether `data` is closed; it has no icon before it is installed. */
export const EXPECTED = [/404 GET .*\/(start|data\/dont-panic[^/]*)$/, /404 \(Not Found\) \(.*\/(start|data\/dont-panic[^/]*|favicon\.ico)\)/];
/** For nginx: the rules of DokuWiki's .htaccess.dist. */
export const NGINX = String.raw`location ~ ^/(bin|conf|data|inc|vendor)/|^/VERSION$ { return 404; }
rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last; rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;
rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;
if (!-e $request_filename) { rewrite ^/(.*)$ /doku.php?id=$1 last; }`;

const PASSWORD = 'A rather long pass-phrase 4';
const FOLDERS = ['attic', 'cache', 'index', 'locks', 'media', 'media_attic', 'media_meta', 'meta', 'pages', 'tmp', 'log'];

export async function install(site) {
  cpSync('/usr/share/dokuwiki', site.root, { recursive: true, dereference: true });
  // Debian's own places in /etc and /var; and the files that refuse, so that Millrace's rules have to.
  for (const name of ['inc/preload.php', '.htaccess', 'inc/.htaccess', 'bin/.htaccess', 'vendor/.htaccess']) rmSync(join(site.root, name), { force: true });
  cpSync('/etc/dokuwiki', join(site.root, 'conf'), { recursive: true, dereference: true });
  for (const name of ['local.php', 'users.auth.php', 'acl.auth.php', 'plugins.local.php', '.htaccess']) rmSync(join(site.root, 'conf', name), { force: true });
  const defaults = join(site.root, 'conf/dokuwiki.php');
  const text = readFileSync(defaults, 'utf8').replace(/\$conf\['savedir'\].*/, "$conf['savedir'] = './data';");
  expect(text.includes("= './data';"), `${defaults} has no savedir`);
  writeFileSync(defaults, text);
  for (const folder of FOLDERS) mkdirSync(join(site.root, 'data', folder), { recursive: true });
  writeFileSync(join(site.root, 'data/pages/hidden.txt'), 'source of a page');
  site.picture = join(site.scratch, 'wheel.png');
  await run('php', ['-n', '-d', 'extension=gd', '-r', '$i = imagecreatetruecolor(320, 200); imagefill($i, 0, 0, 0x3366aa); imagepng($i, $argv[1]);', '--', site.picture]);
  // The logo, which Debian keeps in /var.
  mkdirSync(join(site.root, 'data/media/wiki'));
  cpSync(site.picture, join(site.root, 'data/media/wiki/dokuwiki-128.png'));
}

export const STEPS = [
  ['install', async (page, site) => {
    await visit(page, `${site.url}/install.php`);
    await page.fill('[name="d[title]"]', 'Mill notes');
    if (!(await page.isChecked('[name="d[acl]"]'))) await page.check('[name="d[acl]"]');
    for (const [name, text] of Object.entries({ superuser: 'miller', fullname: 'The Miller', email: 'miller@example.com', password: PASSWORD, confirm: PASSWORD })) {
      await page.fill(`[name="d[${name}]"]`, text);
    }
    const usage = page.locator('[name="d[pop]"]');
    if (await usage.count()) await usage.uncheck();
    await page.locator('button[type=submit], input[type=submit]').last().click();
    await page.getByText('The configuration was finished successfully').waitFor();
    await settle(page);
    appendFileSync(join(site.root, 'conf/local.php'), "\n$conf['userewrite'] = 1;\n$conf['send404'] = 1;\n");
  }],
  ['log in', async (page, site) => {
    await visit(page, `${site.url}/start?do=login`);
    await page.fill('[name=u]', 'miller');
    await page.fill('[name=p]', PASSWORD);
    await page.locator('#dw__login button[type=submit]').click();
    await page.getByText('The Miller').first().waitFor();
    await settle(page);
  }],
  ['upload a picture', async (page, site) => {
    await visit(page, `${site.url}/start?do=media&tab_files=upload`);
    await page.setInputFiles('.qq-uploader input[type=file], input[type=file]', site.picture);
    await page.locator('.qq-action-container, .qq-uploader').getByRole('button', { name: 'Upload', exact: true }).first().click();
    await page.locator('.qq-upload-success, li:has(.success)').first().waitFor();
    await settle(page);
  }],
  ['write a page', async (page, site) => {
    await visit(page, `${site.url}/mill:race?do=edit`);
    await page.fill('#wiki__text', '====== The race ======\n\nIt feeds the **wheel**, ünïcode & all. {{:wheel.png?160}}\n\n===== Water =====\n\nIt runs.');
    await page.click('#edbtn__save');
    await page.waitForURL(`${site.url}/mill:race`);
    await settle(page);
  }],
  ['read it', async (page, site) => {
    const answer = await visit(page, `${site.url}/mill:race`);
    expect(answer.status() === 200, `status ${answer.status()}`);
    await page.getByText('It feeds the wheel, ünïcode & all.').waitFor();
    const picture = await page.locator('.page img.media').getAttribute('src');
    expect(picture.startsWith('/_media/wheel.png'), `the picture's URL is ${picture}`);
    await picturesDecode(page);
    const width = await page.evaluate(() => document.querySelector('#dokuwiki__content').getBoundingClientRect().width);
    expect(width > 0 && width < 1280, `the style sheets are not applied: the content is ${width} pixels wide`);
  }],
  ['edit a section', async (page, site) => {
    await page.locator('.sectionedit2 + .secedit button, .secedit.editbutton_2 button').first().click();
    await page.locator('#wiki__text').waitFor();
    const text = await page.inputValue('#wiki__text');
    expect(text.startsWith('===== Water'), `the section is ${text}`);
    await page.fill('#wiki__text', `${text}\nAnd it is cold.`);
    await page.click('#edbtn__save');
    await page.getByText('And it is cold.').waitFor();
    await settle(page);
    await visit(page, `${site.url}/mill:race?do=revisions`);
    const count = await page.locator('#page__revisions li').count();
    expect(count === 2, `${count} revisions instead of 2`);
  }],
  ['search and export', async (page, site) => {
    await visit(page, `${site.url}/start?do=search&q=wheel`);
    await page.locator('.search_fullpage_result, .search_results').getByRole('link', { name: /race/ }).first().waitFor();
    const answer = await page.request.get(`${site.url}/_export/raw/mill:race`);
    expect((await answer.text()).startsWith('====== The race'), `/_export/raw: ${answer.status()}`);
  }],
  ['what is not there, and what is not served', async (page, site) => {
    const nothing = await page.request.get(`${site.url}/nothing`);
    expect(nothing.status() === 404 && (await nothing.text()).includes('This topic does not exist yet'), `a missing page: ${nothing.status()}`);
    for (const path of ['conf/local.php', 'conf/users.auth.php', 'data/pages/hidden.txt', 'data/pages/mill/race.txt', 'inc/init.php', 'bin/dwpage.php', 'vendor/autoload.php', 'VERSION']) {
      expect(existsSync(join(site.root, path)), `${path} is not there: nothing is tested`);
      const answer = await page.request.get(`${site.url}/${path}`);
      expect(answer.status() === 404, `/${path}: ${answer.status()} ${(await answer.text()).slice(0, 100)}`);
    }
  }],
];
