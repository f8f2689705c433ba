//! "Did you mean": the nearest of some words.

use std::fmt;

/// A suggestion instead of a name that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion(pub String);

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Suggestion {}

/// The candidate that `word` is likely a misspelling of (at most a third of its letters differ), or that `word` starts
/// with.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not misspellings, and comparing them is expensive.
    const LONGEST: usize = 64;
    /// A word that starts with a candidate of this length is likely a longer form of it: `warning` of `warn`.
    const STEM: usize = 4;
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let bound = (word.chars().count() / 3).max(1);
    let near = candidates.into_iter().map(|candidate| (distance(&word, candidate), candidate));
    let near = near.filter(|(distance, candidate)| {
        *distance <= bound || (candidate.len() >= STEM && word.starts_with(candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// The nearest candidate with at most this many letters differing.
pub(crate) fn within<'a>(
    most: usize,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Edits between two words: insert, delete, replace, swap neighbours (optimal string alignment).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replace = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisetn", "listen"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_likely_misspellings_are_suggested() {
        let words = ["listen", "threads", "backlog"];
        assert_eq!(nearest("lisen", words), Some("listen"));
        assert_eq!(nearest("Thread", words), Some("threads"));
        assert_eq!(nearest("listen_address", words), Some("listen"));
        assert_eq!(nearest("wordpress", words), None);
        assert_eq!(nearest(&"x".repeat(100_000), words), None);
    }
}
