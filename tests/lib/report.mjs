// What a test says: one line a step on standard output, `ok NAME` or `not ok NAME: why`, and its time; exit status
// 0 only if every step was fine.
//
//     const report = new Report();
//     await report.step('front page', async () => { ... });     // throws: not ok, and the story ends (Ended)
//     report.check('no failed request', failures.length === 0, failures.join('; '));
//     report.finish();                                           // sets process.exitCode

/** Thrown by `step` after it reported a failure: the steps that follow would only repeat it. */
export class Ended extends Error {}

/** One line, at most `limit` characters. */
function line(text, limit = 600) {
  const flat = String(text).replace(/\u001b\[[0-9;]*m/g, '').replace(/\s+/g, ' ').trim();
  return flat.length > limit ? `${flat.slice(0, limit)}...` : flat;
}

export class Report {
  #failed = 0;
  #passed = 0;
  #prefix;
  #started = Date.now();

  /** `prefix` stands before every name: which story this is. */
  constructor(prefix = '') {
    this.#prefix = prefix;
  }

  /** A report for a part of the test, whose result counts here too. */
  part(prefix) {
    const part = new Report(`${this.#prefix}${prefix}: `);
    part.parent = this;
    return part;
  }

  /** Runs one step within `seconds`; what it returns is returned. `after` (a screenshot) runs in either case. */
  async step(name, work, { seconds = 90, after } = {}) {
    const began = Date.now();
    let value, fault, timer;
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not finished within ${seconds} s`)), seconds * 1000);
      });
      value = await Promise.race([work(), late]);
    } catch (error) {
      fault = error;
    } finally {
      clearTimeout(timer);
    }
    const time = ((Date.now() - began) / 1000).toFixed(1);
    if (after) await after(name).catch((error) => console.log(`# ${line(error.message)}`));
    this.check(`${name} (${time} s)`, !fault, fault && (fault.message ?? fault));
    if (fault) {
      if (process.env.TEST_TRACE) console.error(fault.stack);
      throw new Ended(name);
    }
    return value;
  }

  /** Reports one fact. */
  check(name, fine, why = '') {
    console.log(fine ? `ok ${this.#prefix}${name}` : `not ok ${this.#prefix}${name}: ${line(why)}`);
    for (let report = this; report; report = report.parent) report.#count(fine);
    return fine;
  }

  /** Something that can't be played here. */
  skip(name, why) {
    console.log(`skipped ${this.#prefix}${name}: ${line(why)}`);
  }

  /** A remark that counts for nothing. */
  note(text) {
    console.log(`# ${this.#prefix}${line(text, 2000)}`);
  }

  #count(fine) {
    if (fine) this.#passed += 1;
    else this.#failed += 1;
  }

  /** Seconds since this report was begun. */
  seconds() {
    return (Date.now() - this.#started) / 1000;
  }

  /** Prints the sum and sets the exit status of the process. A test that checked nothing has failed. */
  finish() {
    const fine = this.#failed === 0 && this.#passed > 0;
    console.log(`# ${this.#passed} ok, ${this.#failed} not ok, ${this.seconds().toFixed(0)} s`);
    process.exitCode = fine ? 0 : 1;
  }
}
