// The load tester as a visitor of WordPress: it logs in by the form, is redirected to the dashboard, and leaves a comment.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from '../lib/copy.mjs';
import { run } from '../lib/processes.mjs';
import { program } from '../lib/server.mjs';

const COMMENT = 'said by the load tester: well & good';

/** Six requests, all of which have to be right: two of them are where the others lead. */
export async function logInAndComment(site, scratch) {
  const place = (name) => join(scratch, `tester-${name}`);
  writeFileSync(place('steps.toml'), scenario(site));
  await run(program(), ['load', '--scenario', place('steps.toml'), '-n', '6', '-u', '1', '--quiet', '--json', place('run.json')]);
  const { total, notes } = JSON.parse(readFileSync(place('run.json'), 'utf8'));
  const seen = `${total.ok} right, ${total.flows} flows, ${total.redirects} redirects, failed: ${JSON.stringify(total.failures)} ${notes}`;
  expect(total.ok === 6 && total.flows === 1 && total.redirects === 2, seen);
  const page = await (await fetch(`${site.url}/a-picture-from-the-mill/`)).text();
  expect(page.includes('said by the load tester'), 'the comment is not on the page that visitors see');
}

function scenario({ url, user, password }) {
  return `
url = "${url}"
cookies = true
[[step]]
get = "/wp-login.php"
check = { text = "user_login" }
[[step]]
post = "/wp-login.php"
form = { log = "${user}", pwd = "${password}", testcookie = 1, redirect_to = "/wp-admin/" }
check = { status = 200, text = "wp-admin-bar-my-account" }
[[step]]
get = "/a-picture-from-the-mill/"
check = { text = "wp-admin-bar-my-account" }
extract = { post = { regex = 'name=.comment_post_ID. value=.([0-9]+)' } }
[[step]]
post = "/wp-comments-post.php"
form = { comment_post_ID = "{post}", comment_parent = 0, comment = "${COMMENT}" }
check = { status = 200, text = "said by the load tester" }
`;
}
