//! Long lists of regular expressions, such as public lists of bad bots: thousands of lines, of which a request matches none or two.
//!
//! ```text
//!  pattern -> required: the texts of which a match contains one      "^(.*?)(\\bEvilBot\\b)(.*)$" -> "evilbot"
//!  file    -> Index: one automaton for the texts of all its patterns
//!  subject -> Index -> the patterns whose text is in it, remembered for the evaluation; only they are tried
//! ```
//!
//! A pattern that is tried rarely is not kept compiled: thousands of them would take hundreds of megabytes.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::effort;
use crate::pattern::{DEEPEST, TooManySteps};

/// So many patterns of a file are compiled and tried without an index: for a few, one would be slower.
const EAGER: u32 = 64;

/// Minimum length of a required text, bytes: shorter ones are in most subjects.
const SHORTEST: usize = 4;

/// Maximum number of required texts of a pattern.
const MOST_TEXTS: usize = 64;

/// Subjects that are remembered during an evaluation: a list is about two or three header fields.
const MOST_SUBJECTS: usize = 8;

/// The texts of a file's patterns.
#[derive(Debug)]
struct Index {
    automaton: AhoCorasick,
    /// The pattern to which each text belongs.
    owners: Vec<u32>,
    /// Number of patterns.
    count: u32,
}

/// A pattern's place in the index of its file.
#[derive(Clone, Debug)]
pub(crate) struct Rare {
    index: Arc<OnceLock<Index>>,
    number: u32,
    has_groups: bool,
}

/// The patterns of the file that this thread compiles.
#[derive(Debug, Default)]
struct Collected {
    patterns: u32,
    index: Arc<OnceLock<Index>>,
    texts: Vec<Vec<u8>>,
    owners: Vec<u32>,
    count: u32,
}

/// A subject that an index has looked at.
struct Looked {
    index: Arc<OnceLock<Index>>,
    subject: Vec<u8>,
    /// A bit for each pattern whose text it contains.
    present: Vec<u64>,
}

thread_local! {
    static COLLECTED: RefCell<Option<Collected>> = const { RefCell::new(None) };
    static LOOKED: RefCell<Vec<Looked>> = const { RefCell::new(Vec::new()) };
}

/// Begins the compilation of a file.
pub(crate) fn begin_file() {
    COLLECTED.set(Some(Collected::default()));
}

/// Ends the compilation of a file: makes its index.
pub(crate) fn end_file() {
    let Some(collected) = COLLECTED.take() else { return };
    let automaton = AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(&collected.texts);
    // Without an index, all patterns are tried.
    if let Ok(automaton) = automaton {
        let Collected { owners, count, index, .. } = collected;
        let _ = index.set(Index { automaton, owners, count });
    }
}

/// Begins an evaluation: what an earlier one has looked at is forgotten.
pub(crate) fn begin() {
    LOOKED.with_borrow_mut(Vec::clear);
}

/// A place in the index of the file that is being compiled, if the file has many patterns, and a match of this one contains a text
/// that few subjects have.
pub(crate) fn rare(text: &str, ignores_case: bool) -> Option<Rare> {
    COLLECTED.with_borrow_mut(|collected| {
        let collected = collected.as_mut()?;
        collected.patterns += 1;
        if collected.patterns <= EAGER {
            return None;
        }
        let (texts, has_groups) = required(text, ignores_case)?;
        let number = collected.count;
        collected.count += 1;
        collected.owners.extend(std::iter::repeat_n(number, texts.len()));
        collected.texts.extend(texts);
        Some(Rare { index: collected.index.clone(), number, has_groups })
    })
}

impl Rare {
    /// Whether the pattern may match: the subject contains one of its texts.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn may_match(&self, subject: &[u8]) -> Result<bool, TooManySteps> {
        self.looked(subject, |present| bit(present, self.number))
    }

    /// How many patterns from this one on, up to `most`, can't match; they have the places behind it.
    ///
    /// # Errors
    /// Too many steps.
    pub(crate) fn idle(&self, most: u32, subject: &[u8]) -> Result<u32, TooManySteps> {
        let last = self.number + most;
        self.looked(subject, |present| {
            let mut at = self.number;
            while at < last && !bit(present, at) {
                // A word of bits at a time.
                let is_start = at.is_multiple_of(64) && present.get(at as usize / 64) == Some(&0);
                at += if is_start { 64 } else { 1 };
            }
            at.min(last) - self.number
        })
    }

    /// Whether `next` has the place behind this one in the same index.
    pub(crate) fn precedes(&self, next: &Rare) -> bool {
        Arc::ptr_eq(&self.index, &next.index) && next.number == self.number + 1
    }

    /// Whether the pattern has groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.has_groups
    }

    fn looked<T>(&self, subject: &[u8], read: impl FnOnce(&[u64]) -> T) -> Result<T, TooManySteps> {
        effort::spend(1 + subject.len() / 64)?;
        LOOKED.with_borrow_mut(|all| {
            let is_it =
                |looked: &Looked| Arc::ptr_eq(&looked.index, &self.index) && looked.subject == subject;
            if let Some(looked) = all.iter().find(|looked| is_it(looked)) {
                return Ok(read(&looked.present));
            }
            if all.len() >= MOST_SUBJECTS {
                all.remove(0);
            }
            let present = self.present(subject)?;
            let value = read(&present);
            all.push(Looked { index: self.index.clone(), subject: subject.to_vec(), present });
            Ok(value)
        })
    }

    fn present(&self, subject: &[u8]) -> Result<Vec<u64>, TooManySteps> {
        let Some(index) = self.index.get() else {
            return Ok(vec![u64::MAX; self.number as usize / 64 + 1]);
        };
        effort::spend(4 * subject.len())?;
        let mut present = vec![0; index.count as usize / 64 + 1];
        for found in index.automaton.find_overlapping_iter(subject) {
            // A text may end at each byte, of many patterns.
            effort::spend(1)?;
            let owner = index.owners[found.pattern().as_usize()] as usize;
            present[owner / 64] |= 1 << (owner % 64);
        }
        Ok(present)
    }
}

/// Whether a bit is set; without an index, all are.
fn bit(bits: &[u64], at: u32) -> bool {
    bits.get(at as usize / 64).is_none_or(|word| word & (1 << (at % 64)) != 0)
}

/// Texts in lower case, of which each match contains at least one, whatever its case; and whether the pattern has groups.
fn required(text: &str, ignores_case: bool) -> Option<(Vec<Vec<u8>>, bool)> {
    let mut parser = ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .dot_matches_new_line(true)
        .case_insensitive(ignores_case)
        .nest_limit(DEEPEST)
        .build();
    let hir = parser.parse(text).ok()?;
    Some((texts_of(&hir)?, hir.properties().explicit_captures_len() > 0))
}

fn texts_of(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Capture(capture) => texts_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => texts_of(&repetition.sub),
        HirKind::Alternation(list) => {
            let all: Option<Vec<_>> = list.iter().map(texts_of).collect();
            all.map(|all| all.concat()).filter(|all| all.len() <= MOST_TEXTS)
        }
        HirKind::Concat(list) => texts_in(list),
        HirKind::Literal(_) => texts_in(std::slice::from_ref(hir)),
        _ => None,
    }
}

/// The best of a sequence: the longest text of neighbours that say exactly what they match, or what one of them requires.
fn texts_in(list: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let shortest = |texts: &Vec<Vec<u8>>| texts.iter().map(Vec::len).min().unwrap_or(0);
    let (mut best, mut run): (Vec<Vec<u8>>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut take = |texts: Vec<Vec<u8>>| {
        if shortest(&texts) > shortest(&best) {
            best = texts;
        }
    };
    for hir in list {
        if exact(hir, &mut run) {
            continue;
        }
        take(vec![std::mem::take(&mut run)]);
        texts_of(hir).into_iter().for_each(&mut take);
    }
    take(vec![run]);
    Some(best).filter(|best| shortest(best) >= SHORTEST)
}

/// Adds the only text that matches, in lower case, to `out`; false: there are others, and `out` is as it was.
fn exact(hir: &Hir, out: &mut Vec<u8>) -> bool {
    let length = out.len();
    let is_exact = match hir.kind() {
        HirKind::Literal(literal) => {
            out.extend(literal.0.to_ascii_lowercase());
            true
        }
        HirKind::Look(_) | HirKind::Empty => true,
        HirKind::Capture(capture) => exact(&capture.sub, out),
        HirKind::Concat(list) => list.iter().all(|hir| exact(hir, out)),
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.ranges();
            let letter = |byte: u8| byte.to_ascii_lowercase();
            let first = ranges.first().map(|range| letter(range.start()));
            let is_one = ranges
                .iter()
                .all(|range| range.start() == range.end() && Some(letter(range.start())) == first);
            out.extend(first.filter(|_| is_one));
            is_one && first.is_some()
        }
        _ => false,
    };
    if !is_exact {
        out.truncate(length);
    }
    is_exact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn texts_that_a_match_contains() {
        for (pattern, expected) in [
            (r"^(.*?)(\bEvilBot\b)(.*)$", Some(vec!["evilbot"])),
            (r"(?i)semalt\.com", Some(vec!["semalt.com"])),
            (r"^https?://([^/]+\.)?example\.com", Some(vec!["example.com"])),
            ("(libwww|wget|curl)/", Some(vec!["libwww", "wget", "curl"])),
            ("(libwww|.*)", None),
            ("(evilbot)?", None),
            ("(evilbot)+x", Some(vec!["evilbot"])),
            ("bot", None),
            ("[a-z]+[0-9]", None),
            ("ev[iI]l[bB]o[tx]", Some(vec!["evilbo"])),
        ] {
            let found = required(pattern, false).map(|(texts, _)| {
                texts.iter().map(|text| String::from_utf8(text.clone()).unwrap()).collect::<Vec<_>>()
            });
            let expected = expected.map(|texts| texts.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, expected, "{pattern}");
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }

        fn text(&mut self, of: &[&str], most: usize) -> String {
            (0..=self.below(most)).map(|_| of[self.below(of.len())]).collect()
        }
    }

    /// Patterns behind an index say the same as those that are tried at once, whatever the pattern and the subject.
    #[test]
    fn an_index_changes_nothing() {
        let parts = [
            "ab", "c", "AB", "d", ".", ".*", "(ab|cd)", "(abcd)?", "(cdab)+", "[aA]", r"\b", "^", "$",
            "(?i)", "a{2}", "[^a]", "|",
        ];
        let subjects = ["ab", "cd", "AB", "C", "d", "a", " ", "xyz", "abcd"];
        let random = &mut Random(7);
        let (mut indexed, mut matches) = (0, 0);
        for _ in 0..20 {
            let texts: Vec<(String, bool)> =
                (0..150).map(|_| (random.text(&parts, 8), random.below(2) == 0)).collect();
            let alone: Vec<_> = texts.iter().map(|(text, folds)| Pattern::new(text, *folds)).collect();
            begin_file();
            let made: Vec<_> = texts.iter().map(|(text, folds)| Pattern::new(text, *folds)).collect();
            end_file();
            let pairs: Vec<_> = made.iter().flatten().zip(alone.iter().flatten()).collect();
            for _ in 0..20 {
                effort::begin();
                let subject = random.text(&subjects, 12);
                for (made, alone) in &pairs {
                    let found = made.captures(subject.as_bytes()).unwrap();
                    let is_behind = made.rare().is_some();
                    (indexed, matches) = (
                        indexed + usize::from(is_behind),
                        matches + usize::from(is_behind && found.is_some()),
                    );
                    assert_eq!(found, alone.captures(subject.as_bytes()).unwrap(), "{made:?} {subject}");
                    assert_eq!(made.has_groups(), alone.has_groups(), "{made:?}");
                }
            }
        }
        assert!(indexed > 1000 && matches > 100, "{indexed} behind the index, {matches} matches");
    }
}
