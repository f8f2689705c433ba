// The server under test, behind one function. SERVER=millrace (the default) or SERVER=nginx: nginx + php-fpm, against
// which the tests themselves are tested: what fails on both is a fault of the test. SETTINGS="php.rewind=on ..." adds settings
// of Millrace.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Daemon, run, superuser } from './processes.mjs';

export const repository = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const kind = process.env.SERVER ?? 'millrace';

/**
 * Serves `root` on 127.0.0.1:`port`. `scratch` holds configuration and logs. Options: `profile` (`wordpress`,
 * `generic`), `workers` (of PHP, at most), `settings` (others, of Millrace),
 * `secure` (HTTPS with a certificate of Millrace's own), `rules` (of nginx, for its server block).
 * Returns `{ url, stop, log }`, of Millrace also `reload`; `stop` answers how the server ended, '' if as it should; `log` reads its error log.
 */
export async function serve({ root, port, scratch, profile = 'wordpress', workers, settings = {}, secure = false, rules = '' }) {
  mkdirSync(scratch, { recursive: true });
  if (kind === 'nginx') return nginx({ root, port, scratch, profile, workers, rules });
  if (kind === 'millrace') return millrace({ root, port, scratch, profile, workers, settings, secure });
  throw new Error(`SERVER is ${kind}; it must be millrace or nginx`);
}

/** The program under test: $MILLRACE, or what `cargo build --release` made. */
export function program() {
  const path = process.env.MILLRACE || join(repository, 'target/release/millrace');
  if (!existsSync(path)) throw new Error(`${path} is not there: cargo build --release, or set MILLRACE`);
  return path;
}

async function millrace({ root, port, scratch, profile, workers, settings, secure }) {
  const args = ['serve', root, '--listen', `127.0.0.1:${port}`, '--profile', profile];
  if (secure) args.push('--tls-self-signed');
  if (workers) args.push('--set', `php.workers=${workers}`);
  // Applications of the tests keep their own temporary files beside the root.
  const chosen = { 'cache.dir': join(scratch, 'kept'), 'php.folders': scratch, ...settings };
  for (const [name, value] of Object.entries(chosen)) args.push('--set', `${name}=${value}`);
  for (const setting of process.env.SETTINGS?.split(' ') ?? []) args.push('--set', setting);
  const daemon = new Daemon(program(), args, { log: join(scratch, 'millrace.log'), cwd: scratch });
  await daemon.until(() => answers(port));
  return {
    url: `${secure ? 'https' : 'http'}://127.0.0.1:${port}`,
    log: () => readFileSync(daemon.log, 'utf8'),
    reload: () => daemon.child.kill('SIGHUP'),
    async stop() {
      const early = daemon.ended;
      const end = await daemon.stop(35); // a request that still runs has 30 s
      return early ?? (end === 'ended with 0' ? '' : end);
    },
  };
}

async function nginx({ root, port, scratch, profile, workers = 4, rules }) {
  const socket = join(scratch, 'fpm');
  writeFileSync(join(scratch, 'fpm.conf'), fpmConfiguration(scratch, socket, workers));
  writeFileSync(join(scratch, 'nginx.conf'), await nginxConfiguration(root, port, scratch, socket, profile, rules));
  const fpm = new Daemon('php-fpm8.2', [...(superuser ? ['-R'] : []), '-F', '-y', join(scratch, 'fpm.conf')], {
    log: join(scratch, 'fpm.log'),
  });
  await fpm.until(() => existsSync(socket));
  const front = new Daemon('nginx', ['-c', join(scratch, 'nginx.conf'), '-e', join(scratch, 'error.log')], {
    log: join(scratch, 'nginx.log'),
  });
  await front.until(() => answers(port));
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => ['nginx.log', 'error.log', 'fpm.log'].map((name) => readFileSync(join(scratch, name), 'utf8')).join(''),
    async stop() {
      await front.stop();
      await fpm.stop();
      return '';
    },
  };
}

function fpmConfiguration(scratch, socket, workers) {
  return `[global]
error_log = ${join(scratch, 'fpm.log')}
daemonize = no
[www]
${superuser ? 'user = root\ngroup = root' : ''}
listen = ${socket}
pm = static
pm.max_children = ${workers}
catch_workers_output = yes
`;
}

async function nginxConfiguration(root, port, scratch, socket, profile, rules) {
  const parameters = readFileSync('/etc/nginx/fastcgi_params', 'utf8')
    .split('\n')
    .filter((line) => !line.includes('HTTP_HOST')) // Debian's drops the port
    .join('\n');
  const temporaries = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${join(scratch, name)};`);
  const missing = profile === 'wordpress' ? 'try_files $uri $uri/ /index.php$is_args$args;' : '';
  return `daemon off; ${superuser ? 'user root;' : ''} worker_processes 1; pid ${join(scratch, 'nginx.pid')};
error_log ${join(scratch, 'error.log')}; events {}
http { include /etc/nginx/mime.types; access_log off; client_max_body_size 64m; ${temporaries.join(' ')}
server { listen 127.0.0.1:${port}; root ${root}; index index.php index.html;
${rules}
location / { ${missing} }
location ~ ^(.+?\\.php)(/.*)?$ {
${parameters}
fastcgi_param SCRIPT_NAME $1; fastcgi_param PATH_INFO $2; fastcgi_param SCRIPT_FILENAME $document_root$1;
fastcgi_read_timeout 120; fastcgi_pass unix:${socket}; } } }
`;
}

/** Whether something accepts connections on the port. */
function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.setTimeout(1000, () => socket.destroy(new Error('slow')));
    socket.on('connect', () => (socket.destroy(), resolve(true)));
    socket.on('error', () => resolve(false));
  });
}

/** The version line of the server under test, for the report. */
export async function version() {
  if (kind === 'nginx') return `nginx + ${(await run('php-fpm8.2', ['-v'])).split('\n')[0]}`;
  return (await run(program(), ['--version'])).trim();
}
