//! New versions of pages: a page that was purged and made again while the load went on differs from its reference response, and is right.
//!
//! ```text
//!   thread:   a content that is not the reference's  -> unknown: counted apart, and asked about once
//!   reviewer: asks the server for the page in quiet  -> the same content, twice, and similar to the reference: right
//!                                                    -> anything else: wrong
//!   end:      what was counted apart becomes right or wrong
//! ```
//!
//! So a page that the server sends only under load, to one visitor or as an error remains wrong.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use twox_hash::XxHash3_64;

use super::judge::Expected;
use super::quiet::Reviewer;
use crate::record::{Failure, Run, Tally};

/// Versions of a page that are asked about: a page that is another one each time is not worth more.
const MOST_VERSIONS: usize = 16;
/// How long questions are answered after the end of the load.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the server is asked while the page is changing.
const MOST_TRIES: usize = 3;

/// What is known about the contents of a page that are not its reference's, by their hash.
#[derive(Debug, Default)]
pub struct Versions(Mutex<HashMap<u64, Version>>);

/// What is known about a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The reviewer was asked.
    Unknown,
    /// The page was made again, and this is what it is now.
    Right,
    /// The server sends it under load only.
    Wrong,
}

/// Responses with a content that may be a new version of their page.
#[derive(Debug)]
pub struct Differing {
    /// The page.
    pub expected: Arc<Expected>,
    /// Hash of the content.
    pub hash: u64,
    /// The failure that each of them is if the content is wrong.
    pub failure: Failure,
    /// The row of their step.
    pub row: usize,
    /// How many.
    pub count: u64,
}

/// A question to the reviewer.
#[derive(Debug)]
pub struct Review {
    expected: Arc<Expected>,
    hash: u64,
    is_similar: bool,
}

impl Versions {
    /// What is known about a content, and whether this is the first question about it.
    fn look(&self, hash: u64) -> (Version, bool) {
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(&hash) {
            Some(version) => (*version, false),
            None if versions.len() >= MOST_VERSIONS => (Version::Wrong, false),
            None => {
                versions.insert(hash, Version::Unknown);
                (Version::Unknown, true)
            }
        }
    }

    fn decide(&self, hash: u64, version: Version) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, version);
    }
}

/// What is known about `content`, without its dynamic parts, of a page; `Some`: a question that nobody has asked yet.
pub fn look(expected: &Arc<Expected>, content: &[u8]) -> (Version, u64, Option<Review>) {
    let hash = XxHash3_64::oneshot(content);
    let (version, is_first) = expected.versions.look(hash);
    let review = is_first.then(|| Review {
        expected: expected.clone(),
        hash,
        is_similar: is_similar(&expected.content, content),
    });
    (version, hash, review)
}

/// Decides about contents until there are no more questions; those that are left [`PATIENCE`] after the end of the load (`is_over`) are wrong.
/// Returns notes for the report.
pub fn review(reviewer: &Reviewer<'_>, questions: Receiver<Review>, is_over: &AtomicBool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut deadline = None;
    for Review { expected, hash, is_similar } in questions {
        if deadline.is_none() && is_over.load(Ordering::Relaxed) {
            deadline = Some(Instant::now() + PATIENCE);
        }
        let is_late = deadline.is_some_and(|deadline| Instant::now() > deadline);
        let is_right = is_similar && !is_late && is_current(reviewer, &expected, hash);
        expected.versions.decide(hash, if is_right { Version::Right } else { Version::Wrong });
        if is_right {
            notes.push(format!(
                "{} was made again during the test: its new version counts as successful",
                expected.request.target
            ));
        }
    }
    notes
}

/// Whether the server sends this content in quiet, too.
fn is_current(reviewer: &Reviewer<'_>, expected: &Expected, hash: u64) -> bool {
    for _ in 0..MOST_TRIES {
        let Some((status, content)) = reviewer.settled(expected) else { return false };
        if status == expected.status && XxHash3_64::oneshot(&content) == hash {
            return true;
        }
        if status != expected.status || content == expected.content {
            return false;
        }
    }
    false
}

/// Whether two contents are most likely versions of one page: half of it is the same.
fn is_similar(one: &[u8], two: &[u8]) -> bool {
    let longer = one.len().max(two.len());
    let before = one.iter().zip(two).take_while(|(a, b)| a == b).count();
    let left = one.len().min(two.len()) - before;
    let behind = one.iter().rev().zip(two.iter().rev()).take(left).take_while(|(a, b)| a == b).count();
    (before + behind) * 2 >= longer || same_lines(one, two) * 2 >= longer
}

/// Bytes of `two` in lines that `one` has as well.
fn same_lines(one: &[u8], two: &[u8]) -> usize {
    let lines: std::collections::HashSet<&[u8]> = one.split(|byte| *byte == b'\n').collect();
    two.split(|byte| *byte == b'\n').filter(|line| lines.contains(line)).map(|line| line.len() + 1).sum()
}

/// Counts the responses of a second as what their contents have turned out to be.
pub fn settle(run: &mut Run, second: u32, differing: &Differing) {
    let Differing { expected, hash, failure, row, count } = differing;
    let is_right = expected.versions.look(*hash).0 == Version::Right;
    let add = |tally: &mut Tally| match is_right {
        true => tally.ok += count,
        false => (0..*count).for_each(|_| tally.failures.count(*failure)),
    };
    add(&mut run.total);
    if let Some(row) = run.steps.get_mut(*row) {
        (0..*count).for_each(|_| row.count((!is_right).then_some(*failure), None));
    }
    let Some(second) = run.seconds.get_mut(second as usize) else { return };
    match is_right {
        true => second.ok += count,
        false => (0..*count).for_each(|_| second.failures.count(*failure)),
    }
    if let Some(stage) = run.stages.get_mut(second.stage) {
        add(&mut stage.tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Request;

    fn expected() -> Arc<Expected> {
        Arc::new(Expected::new(Request::default(), 0, 200, b"<html>\nhead\nbody\nfoot\n</html>".to_vec()))
    }

    #[test]
    fn a_content_is_asked_about_once() {
        let expected = expected();
        let (version, hash, review) = look(&expected, b"<html>\nhead\nbody, new\nfoot\n</html>");
        assert_eq!(version, Version::Unknown);
        assert!(review.is_some_and(|review| review.is_similar && review.hash == hash));
        let (version, _, review) = look(&expected, b"<html>\nhead\nbody, new\nfoot\n</html>");
        assert!(version == Version::Unknown && review.is_none());
        expected.versions.decide(hash, Version::Right);
        assert_eq!(look(&expected, b"<html>\nhead\nbody, new\nfoot\n</html>").0, Version::Right);
    }

    #[test]
    fn a_page_that_never_is_the_same_is_wrong() {
        let expected = expected();
        let versions = (0..100_u32).map(|number| look(&expected, &number.to_be_bytes()).0);
        assert_eq!(versions.filter(|version| *version == Version::Unknown).count(), MOST_VERSIONS);
    }

    #[test]
    fn an_error_is_no_version_of_a_page() {
        let page: String = (0..50).map(|number| format!("<p>paragraph {number}</p>\n")).collect();
        let changed =
            page.replace("paragraph 7<", "another paragraph<").replace("paragraph 40<", "and one more<");
        assert!(is_similar(page.as_bytes(), changed.as_bytes()));
        assert!(is_similar(
            page.replace('\n', "").as_bytes(),
            page.replace('\n', "").replace("h 7<", "h seven<").as_bytes()
        ));
        assert!(!is_similar(page.as_bytes(), b"<h1>Error establishing a database connection</h1>"));
        assert!(!is_similar(page.as_bytes(), b""));
    }
}
