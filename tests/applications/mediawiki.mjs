// MediaWiki 1.39: installed by its own command line installer, with articles behind PATH_INFO (/index.php/Title), then
// read, edited and given a picture by its administrator.

import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit } from '../lib/browser.mjs';
import { expect, privateCopy } from '../lib/copy.mjs';
import { run } from '../lib/processes.mjs';
import { photograph } from '../lib/wordpress.mjs';

export const PACKAGE = '/usr/share/mediawiki/index.php';
export const PROFILE = 'generic';

const ADMIN = 'Miller';
const PASSWORD = 'A rather long pass-phrase 2';

export async function install(site) {
  privateCopy('/usr/share/mediawiki', site.root, {
    copied: ['includes', 'maintenance'],
    without: ['images', 'config', 'LocalSettings.php', 'mw-config'],
  });
  for (const folder of [join(site.root, 'images'), join(site.scratch, 'cache')]) mkdirSync(folder);
  await site.database.create('wiki', 'wiki', 'secret');
  await run('php', [
    join(site.root, 'maintenance/install.php'), '--dbname', 'wiki', '--dbuser', 'wiki', '--dbpass', 'secret',
    '--dbserver', `localhost:${site.database.socket}`, '--server', site.url, '--scriptpath', '', '--pass', PASSWORD,
    '--skins', 'Vector,MonoBook', '--extensions', 'WikiEditor,ParserFunctions,Cite', 'Mill wiki', ADMIN,
  ], { seconds: 110, cwd: site.root });
  appendFileSync(join(site.root, 'LocalSettings.php'), `
$wgCacheDirectory = '${site.scratch}/cache';
$wgArticlePath = '/index.php/$1';
$wgEnableUploads = true;
$wgUseImageMagick = false;
$wgFavicon = '/resources/assets/file-type-icons/fileicon.png';
$wgMainCacheType = CACHE_DB;
`);
  site.picture = await photograph(join(site.scratch, 'Sunrise.jpg'));
}

export const STEPS = [
  ['main page', async (page, site) => {
    const answer = await visit(page, `${site.url}/`);
    expect(answer.status() === 200 && page.url() === `${site.url}/index.php/Main_Page`, `${answer.status()} ${page.url()}`);
    await page.getByText('MediaWiki has been installed').waitFor();
    await picturesDecode(page);
    const width = await page.evaluate(() => document.querySelector('#mw-panel')?.getBoundingClientRect().width);
    expect(width > 0 && width < 1280, `the style sheets are not applied: the navigation is ${width} pixels wide`);
  }],
  ['log in', async (page, site) => {
    await visit(page, `${site.url}/index.php/Special:UserLogin`);
    await page.fill('#wpName1', ADMIN);
    await page.fill('#wpPassword1', PASSWORD);
    await page.click('#wpLoginAttempt');
    await page.getByRole('link', { name: ADMIN, exact: true }).first().waitFor();
    await settle(page);
  }],
  ['write a page', async (page, site) => {
    await visit(page, `${site.url}/index.php?title=The_race&action=edit`);
    await page.fill('#wpTextbox1', '== Water ==\nThe \'\'\'race\'\'\' feeds the [[Wheel]]: {{#expr: 6 * 7}}, ünïcode & all.<ref>Seen</ref>\n\n<references />');
    await page.click('#wpPreview');
    await page.locator('#wikiPreview b').filter({ hasText: 'race' }).waitFor();
    await settle(page);
    await page.click('#wpSave');
    await page.waitForURL(/\/index\.php\/The_race/);
    await settle(page);
  }],
  ['read it', async (page, site) => {
    await visit(page, `${site.url}/index.php/The_race`);
    await page.getByText('The race feeds the Wheel: 42, ünïcode & all.').waitFor();
    await page.locator('h2').filter({ hasText: 'Water' }).waitFor();
  }],
  ['edit it', async (page, site) => {
    await visit(page, `${site.url}/index.php?title=The_race&action=edit`);
    const text = await page.inputValue('#wpTextbox1');
    expect(text.startsWith('== Water ==') && text.includes('ünïcode & all'), `the source is ${text}`);
    await page.fill('#wpTextbox1', `${text}\n\n== Stone ==\nIt grinds.`);
    await page.click('#wpSave');
    await page.locator('h2').filter({ hasText: 'Stone' }).waitFor();
    await settle(page);
  }],
  ['history', async (page, site) => {
    await visit(page, `${site.url}/index.php?title=The_race&action=history`);
    const rows = await page.locator('#pagehistory li').count();
    expect(rows === 2, `${rows} revisions instead of 2`);
  }],
  ['upload a picture', async (page, site) => {
    await visit(page, `${site.url}/index.php/Special:Upload`);
    await page.setInputFiles('#wpUploadFile', site.picture);
    await page.fill('#wpUploadDescription', 'A sunrise');
    await settle(page);
    await page.click('input[name=wpUpload]');
    await page.waitForURL(/File:Sunrise\.jpg/);
    await page.locator('#file img').waitFor();
    await settle(page);
    await picturesDecode(page);
  }],
  ['search', async (page, site) => {
    await visit(page, `${site.url}/index.php?title=Special:Search&search=race&fulltext=1`);
    await page.getByText('Page title matches').or(page.getByText('There is a page named')).first().waitFor();
  }],
  ['API and REST API', async (page, site) => {
    const api = await page.request.get(`${site.url}/api.php?action=parse&page=The_race&prop=wikitext&format=json`);
    expect((await api.json()).parse.wikitext['*'].includes('It grinds.'), 'api.php does not know the page');
    const rest = await page.request.get(`${site.url}/rest.php/v1/page/The_race`);
    expect(rest.status() === 200 && (await rest.json()).source.includes('It grinds.'), `rest.php: status ${rest.status()}`);
  }],
];
