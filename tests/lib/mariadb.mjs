// A MariaDB of the test's own: fresh data directory, no network, one Unix socket.
//
//     const database = await startMariaDb(directory);
//     await database.create('wp', 'wp_user', 'secret');     // database and user
//     database.socket

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Daemon, run, superuser } from './processes.mjs';

/** Starts mariadbd in `directory` (created; its path must be short) and waits until it answers. */
export async function startMariaDb(directory) {
  mkdirSync(directory, { recursive: true });
  const data = join(directory, 'data');
  const socket = join(directory, 's');
  const user = superuser ? ['--user=root'] : [];
  await run('mariadb-install-db', [
    '--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db', ...user,
  ]);
  const daemon = new Daemon('mariadbd', [
    '--no-defaults', `--datadir=${data}`, `--socket=${socket}`, `--pid-file=${join(directory, 'pid')}`,
    '--skip-networking', '--innodb-buffer-pool-size=64M', '--innodb-flush-log-at-trx-commit=2',
    '--character-set-server=utf8mb4', ...user,
  ], { log: join(directory, 'log') });
  const sql = (text) => run('mariadb', ['--no-defaults', `--socket=${socket}`, '--user=root', '--batch'], { input: text });
  await daemon.until(async () => existsSync(socket) && (await sql('SELECT 1').then(() => true, () => false)));
  return {
    socket,
    sql,
    async create(name, user, password) {
      await sql(`CREATE DATABASE \`${name}\`; GRANT ALL ON \`${name}\`.* TO '${user}'@'localhost' IDENTIFIED BY '${password}'`);
    },
    stop: () => daemon.stop(20),
  };
}
