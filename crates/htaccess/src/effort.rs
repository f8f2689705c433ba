//! Limits on the work for one request and for one file, so that no `.htaccess` file makes a server slow: its author may be
//! a customer, its input comes from clients, and both run on an event loop.
//!
//! A step is a byte that a regular expression reads or a text copies, or an item of a list that is looked through. The count is
//! of the thread: an evaluation runs on one thread from its start to its end.

use std::cell::Cell;

use crate::literals;
use crate::pattern::TooManySteps;

/// Maximum of steps of one evaluation: about 50 ms. A file with 5,000 rules needs about 500,000.
pub const MOST_STEPS: u64 = 20_000_000;

/// Maximum of large regular expressions in a file: each takes milliseconds to compile, and up to 256 KB.
const MOST_LARGE: u32 = 200;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static LARGE: Cell<u32> = const { Cell::new(0) };
}

/// Begins an evaluation.
pub fn begin() {
    STEPS.set(0);
    literals::begin();
}

/// Begins the compilation of a file.
pub(crate) fn begin_file() {
    LARGE.set(0);
    literals::begin_file();
}

/// Steps of the evaluation that this thread has run last.
pub fn steps() -> u64 {
    STEPS.get()
}

/// Whether it had too many, so that what it says is a refusal.
pub fn is_exhausted() -> bool {
    STEPS.get() > MOST_STEPS
}

/// Counts steps.
///
/// # Errors
/// There were too many, now or before.
pub(crate) fn spend(steps: usize) -> Result<(), TooManySteps> {
    let spent = STEPS.get().saturating_add(steps as u64);
    STEPS.set(spent);
    if spent > MOST_STEPS { Err(TooManySteps) } else { Ok(()) }
}

/// Counts steps where nothing can be refused: the next [`spend`] is.
pub(crate) fn count(steps: usize) {
    STEPS.set(STEPS.get().saturating_add(steps as u64));
}

/// Makes every later step of the evaluation one too many: a text has become too long.
pub(crate) fn exhaust() {
    STEPS.set(STEPS.get().max(MOST_STEPS + 1));
}

/// Counts a large regular expression of a file; whether it may have one more.
pub(crate) fn allows_large() -> bool {
    LARGE.set(LARGE.get() + 1);
    LARGE.get() <= MOST_LARGE
}
