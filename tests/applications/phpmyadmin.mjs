// phpMyAdmin 5.2: a person logs in with a user of the database (cookie authentication), makes a database and a table,
// fills it, asks it and takes a copy home.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { picturesDecode, settle, visit } from '../lib/browser.mjs';
import { expect, privateCopy } from '../lib/copy.mjs';

export const PACKAGE = '/usr/share/phpmyadmin/index.php';
export const PROFILE = 'generic';

export async function install(site) {
  privateCopy('/usr/share/phpmyadmin', site.root, { copied: ['libraries'] });
  const temporary = join(site.scratch, 'tmp/');
  mkdirSync(temporary);
  const places = `<?php
$config = require '/usr/share/phpmyadmin/libraries/vendor_config.php';
$config['tempDir'] = '${temporary}';
$config['configFile'] = '${site.scratch}/config.inc.php';
$config['cacheDir'] = '${temporary}';
return $config;
`;
  writeFileSync(join(site.root, 'libraries/vendor_config.php'), places);
  writeFileSync(join(site.scratch, 'config.inc.php'), `<?php
$cfg['blowfish_secret'] = str_repeat('mill', 8);
$cfg['Servers'][1] = ['auth_type' => 'cookie', 'host' => 'localhost', 'socket' => '${site.database.socket}'];
$cfg['TempDir'] = '${temporary}';
$cfg['SendErrorReports'] = 'never';
`);
  await site.database.sql("CREATE USER 'clerk'@'localhost' IDENTIFIED BY 'paper'; GRANT ALL ON *.* TO 'clerk'@'localhost'");
}

/** Runs SQL in the query box of a database; throws what the server says against it. */
async function query(page, site, text) {
  await visit(page, `${site.url}/index.php?route=/database/sql&db=granary`);
  await page.locator('#sqlqueryform .CodeMirror').evaluate((box, sql) => box.CodeMirror.setValue(sql), text);
  const answer = page.waitForResponse((response) => response.url().includes('route=/import') && response.request().method() === 'POST');
  await page.click('#button_submit_query');
  const result = await (await answer).json();
  expect(result.success, `the query failed: ${result.error ?? result.message}`);
  await settle(page);
}

export const STEPS = [
  ['log-in page', async (page, site) => {
    const answer = await visit(page, `${site.url}/`);
    expect(answer.status() === 200, `status ${answer.status()}`);
    await page.locator('#input_username').waitFor();
    await picturesDecode(page);
    const face = await page.evaluate(() => getComputedStyle(document.querySelector('#input_go')).borderRadius);
    expect(face !== '0px', 'the style sheet is not applied');
  }],
  ['a wrong password is refused', async (page) => {
    await page.fill('#input_username', 'clerk');
    await page.fill('#input_password', 'wrong');
    await page.click('#input_go');
    await page.getByText('Access denied for user').first().waitFor();
    await settle(page);
  }],
  ['log in', async (page) => {
    await page.fill('#input_username', 'clerk');
    await page.fill('#input_password', 'paper');
    await page.click('#input_go');
    await page.getByText('Database server').first().waitFor();
    await page.locator('#pma_navigation_tree').waitFor();
    await settle(page);
  }],
  ['list databases', async (page, site) => {
    await visit(page, `${site.url}/index.php?route=/server/databases`);
    await page.locator('#dbStatsForm, #tableDatabases').first().waitFor();
    await page.locator('table').getByRole('link', { name: 'information_schema' }).first().waitFor();
  }],
  ['make a database', async (page, site) => {
    const answer = page.waitForResponse((response) => response.url().includes('route=/server/databases/create'));
    await page.fill('#text_create_db', 'granary');
    await page.click('#buttonGo');
    const result = await (await answer).json();
    expect(result.success, `no database: ${result.error ?? result.message}`);
    await settle(page);
    await visit(page, `${site.url}/index.php?route=/database/structure&db=granary`);
    await page.getByText('No tables found in database').waitFor();
  }],
  ['make a table by a query', (page, site) => query(page, site,
    "CREATE TABLE sacks (id INT PRIMARY KEY AUTO_INCREMENT, grain VARCHAR(40), weight INT); INSERT INTO sacks (grain, weight) VALUES ('Rye', 50), ('Öats', 40), ('Wheat', 60);")],
  ['run a query', async (page, site) => {
    await query(page, site, 'SELECT grain, weight FROM sacks ORDER BY weight DESC');
    await page.locator('.table_results tbody').waitFor();
    const cells = await page.locator('.table_results tbody td.data').allTextContents();
    expect(cells.map((cell) => cell.trim()).join() === 'Wheat,60,Rye,50,Öats,40', `the result is ${cells.join()}`);
  }],
  ['browse the table', async (page, site) => {
    await visit(page, `${site.url}/index.php?route=/sql&db=granary&table=sacks&pos=0`);
    await page.locator('.table_results').getByText('Öats').waitFor();
    await picturesDecode(page);
  }],
  ['export', async (page, site) => {
    await visit(page, `${site.url}/index.php?route=/database/export&db=granary`);
    const download = page.waitForEvent('download');
    await page.click('#buttonGo');
    const file = await download;
    const text = readFileSync(await file.path(), 'utf8');
    expect(file.suggestedFilename() === 'granary.sql' && text.includes("'Öats', 40"), `${file.suggestedFilename()}: ${text.slice(0, 200)}`);
  }],
  ['log out', async (page) => {
    await page.locator('#pma_navigation a.logout, #pma_navigation a[title="Log out"]').first().click();
    await page.locator('#input_username').waitFor();
    await settle(page);
  }],
];
