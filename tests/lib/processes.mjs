// Child processes that never outlive the test: each is stopped by its own id, politely first, and all of them when the
// test ends for whatever reason. Also the temporary directory and free ports.

import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const running = new Set();
const directories = new Set();

/** Whether the test runs as the superuser: then servers must be told to stay it. */
export const superuser = process.getuid() === 0;

/** A started daemon whose standard output and error go to `log`. */
export class Daemon {
  constructor(command, args, { log, env = {}, cwd } = {}) {
    const out = openSync(log, 'a');
    this.name = command;
    this.log = log;
    this.child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', out, out],
    });
    closeSync(out);
    this.exited = new Promise((resolve) => {
      this.child.on('error', (error) => resolve((this.ended = `cannot be started: ${error.message}`)));
      this.child.on('exit', (code, signal) => resolve((this.ended = `ended with ${signal ?? code}`)));
    });
    running.add(this);
    this.exited.then(() => running.delete(this));
  }

  get pid() {
    return this.child.pid;
  }

  /** Waits until `ready()` is true; throws with the end of the log if the process ends or `seconds` pass. */
  async until(ready, seconds = 30) {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      if (await ready()) return;
      if (this.ended) throw new Error(`${this.name} ${this.ended}: ${this.tail()}`);
      if (Date.now() > deadline) throw new Error(`${this.name} is not ready after ${seconds} s: ${this.tail()}`);
      await pause(50);
    }
  }

  /** The end of what it printed. */
  tail(bytes = 1500) {
    return readFileSync(this.log, 'utf8').slice(-bytes);
  }

  /** SIGTERM, and SIGKILL when it has not ended after `seconds`. Returns how it ended. */
  async stop(seconds = 10) {
    if (!this.ended) this.child.kill('SIGTERM');
    const slow = setTimeout(() => {
      this.killed = true;
      this.child.kill('SIGKILL');
    }, seconds * 1000);
    const end = await this.exited;
    clearTimeout(slow);
    return this.killed ? `killed after ${seconds} s` : end;
  }
}

/** Runs a command to its end within `seconds`; returns standard output, throws with standard error otherwise. */
export async function run(command, args, { seconds = 60, env = {}, cwd, input } = {}) {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  child.stdin.on('error', () => {}); // a child that reads nothing is no fault of ours
  child.stdin.end(input ?? '');
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, seconds * 1000);
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      err += error.message;
      resolve(-1);
    });
    child.on('close', (code, signal) => resolve(signal ?? code));
  });
  clearTimeout(timer);
  if (code !== 0) {
    const why = late ? `not finished within ${seconds} s` : `exit ${code}`;
    throw new Error(`${command} ${args[0] ?? ''}: ${why}: ${(err || out).slice(-1500)}`);
  }
  return out;
}

/** A private directory with a short path (Unix socket paths are limited to 107 bytes), removed at the end unless KEEP is set. */
export function temporary(name) {
  const path = mkdtempSync(join(tmpdir(), `mr-${name}-`));
  directories.add(path);
  return path;
}

/** A TCP port of the loopback address that nobody listens on now. */
export function freePort() {
  return Number(execFileSync('python3', [join(import.meta.dirname, '../support/ports.py')]));
}

export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Stops what still runs, the youngest first, and removes the temporary directories. */
export async function cleanUp() {
  for (const daemon of [...running].reverse()) await daemon.stop();
  for (const path of directories) {
    if (process.env.KEEP) console.log(`# kept: ${path}`);
    else rmSync(path, { recursive: true, force: true });
  }
  directories.clear();
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => cleanUp().finally(() => process.exit(1)));
}
for (const event of ['uncaughtException', 'unhandledRejection']) {
  process.once(event, (error) => {
    console.log(`not ok the test itself: ${String(error?.stack ?? error).replace(/\s+/g, ' ')}`);
    cleanUp().finally(() => process.exit(1));
  });
}
process.on('exit', () => {
  for (const daemon of running) daemon.child.kill('SIGKILL');
});
