// A private copy of a packaged application: what it writes to or what must find its own place is copied, the rest is
// linked, as Debian itself links.

import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Makes `root` from `source`: files and the directories in `copied` are copied, those in `without` are left out, others linked. */
export function privateCopy(source, root, { copied = [], without = [] } = {}) {
  mkdirSync(root, { recursive: true });
  for (const entry of readdirSync(source, { withFileTypes: true })) {
    const [from, to] = [join(source, entry.name), join(root, entry.name)];
    if (without.includes(entry.name)) continue;
    if (entry.isFile() || copied.includes(entry.name)) cpSync(from, to, { recursive: true });
    else symlinkSync(from, to);
  }
}

/** Throws `why` unless `fine`. */
export function expect(fine, why) {
  if (!fine) throw new Error(why);
}
