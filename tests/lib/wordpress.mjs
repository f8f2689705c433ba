// A WordPress made by `millrace new wordpress`, whichever server then serves it.

import { cpSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './processes.mjs';
import { program } from './server.mjs';

/** Debian's package wordpress-theme-twentytwentyone: a classic theme, to switch to and to customize. */
const CLASSIC_THEME = '/usr/share/wordpress/wp-content/themes/twentytwentyone';

/**
 * Makes a site in `root`. `socket`, if given, is that of a MariaDB with a database `wordpress` for user `wp`, password
 * `secret`; without it the site has SQLite. Without `installed` WordPress's own installation is left to the browser.
 * $WORDPRESS_FROM (a zip or a directory) replaces the sources of `new`. Returns `{ root, user, password }`.
 */
export async function newWordPress({ root, url, title, socket, installed }) {
  const site = { root, user: 'editor-in-chief', password: 'A rather long pass-phrase 1' };
  const database = socket ? `mysql://wp:secret@localhost/wordpress?socket=${socket}` : 'sqlite';
  const first = installed ? ['--title', title, '--admin', site.user, '--password', site.password] : ['--no-install'];
  const from = process.env.WORDPRESS_FROM ? ['--from', process.env.WORDPRESS_FROM] : [];
  await run(program(), ['new', 'wordpress', root, '--db', database, '--url', url, ...first, ...from], { seconds: 180 });
  stayAtHome(root);
  cpSync(CLASSIC_THEME, join(root, 'wp-content/themes/twentytwentyone'), { recursive: true, dereference: true });
  return site;
}

/** No request to wordpress.org: the test must not depend on it. */
function stayAtHome(root) {
  const file = join(root, 'wp-config.php');
  const { mode } = statSync(file);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('<?php', "<?php\ndefine( 'WP_HTTP_BLOCK_EXTERNAL', true );\n"), { mode });
}

/** PHP's complaints in a server's log, each with the lines after it; that wordpress.org can't be reached is what `stayAtHome` wants. */
export function phpErrors(log) {
  const lines = log.split('\n');
  return lines.flatMap((line, at) => {
    if (!/PHP (Fatal|Parse|Warning|Recoverable)|database error/.test(line) || line.includes('WordPress.org')) return [];
    return [lines.slice(at, at + 14).join(' ').replace(/<[^>]*>|\[[^\]]*\] WARNING: .*? said into stderr:/g, ' ')];
  });
}

/** A photograph-like JPEG of more than a megabyte, so that the upload goes through a spooled file. */
export async function photograph(file) {
  await run('php', ['-n', '-d', 'extension=gd', '-r', `
    mt_srand(7);
    $image = imagecreatetruecolor(2200, 1500);
    for ($y = 0; $y < 1500; $y += 4) for ($x = 0; $x < 2200; $x += 4)
      imagefilledrectangle($image, $x, $y, $x + 3, $y + 3, imagecolorallocate($image,
        min(255, intdiv($x, 9) + mt_rand(0, 40)), min(255, intdiv($y, 7) + mt_rand(0, 40)), mt_rand(90, 160)));
    imagefilledellipse($image, 1100, 750, 700, 700, imagecolorallocate($image, 255, 220, 40));
    imagejpeg($image, $argv[1], 90);`, '--', file]);
  const { size } = statSync(file);
  if (size < 1_100_000 || size > 1_900_000) throw new Error(`the picture has ${size} bytes; it should have 1.1 to 1.9 MB`);
  return file;
}
