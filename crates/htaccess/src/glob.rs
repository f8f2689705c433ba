//! File name patterns as `apr_fnmatch`: `*`, `?`, `[a-z]`, backslash.

use crate::effort;
use crate::pattern::TooManySteps;

/// What a slash of the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slash {
    /// A byte as any other one.
    Plain,
    /// Only a slash of the pattern matches it (`APR_FNM_PATHNAME`).
    Divides,
}

/// Whether `text` matches `pattern`.
///
/// # Errors
/// Too many steps: a pattern with stars and long sets needs up to `pattern.len() * text.len()`.
pub fn matches(pattern: &[u8], text: &[u8], slash: Slash) -> Result<bool, TooManySteps> {
    let (mut p, mut t) = (0, 0);
    // Where to go on if the rest does not match: behind the last star, one byte further.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        effort::spend(1)?;
        match one(&pattern[p..], text[t], slash) {
            Step::Star => {
                p += 1;
                star = Some((p, t));
            }
            Step::Takes(length) => {
                p += length;
                t += 1;
            }
            Step::Differs => match star {
                Some((_, from)) if slash == Slash::Divides && text[from] == b'/' => return Ok(false),
                Some((behind, from)) => {
                    (p, t) = (behind, from + 1);
                    star = Some((behind, from + 1));
                }
                None => return Ok(false),
            },
        }
    }
    Ok(pattern[p..].iter().all(|byte| *byte == b'*'))
}

enum Step {
    Star,
    Takes(usize),
    Differs,
}

fn one(pattern: &[u8], byte: u8, slash: Slash) -> Step {
    let divides = slash == Slash::Divides;
    match pattern {
        [b'*', ..] => Step::Star,
        [b'?', ..] if divides && byte == b'/' => Step::Differs,
        [b'?', ..] => Step::Takes(1),
        [b'\\', literal, ..] if *literal == byte => Step::Takes(2),
        [b'\\', _, ..] => Step::Differs,
        [b'[', set @ ..] => match counted_class(set, byte, divides) {
            Some((true, _)) if divides && byte == b'/' => Step::Differs,
            Some((true, length)) => Step::Takes(length + 1),
            Some((false, _)) => Step::Differs,
            None if byte == b'[' => Step::Takes(1),
            None => Step::Differs,
        },
        [literal, ..] if *literal == byte => Step::Takes(1),
        _ => Step::Differs,
    }
}

/// The same as [`class`], with its steps counted.
fn counted_class(set: &[u8], byte: u8, divides: bool) -> Option<(bool, usize)> {
    let found = class(set, byte, divides);
    effort::count(found.map_or(set.len(), |(_, length)| length));
    found
}

/// Whether a class without its first bracket has `byte`, and its length; `None`: it is not closed, or has a slash that divides, and its
/// bracket stands for itself.
fn class(set: &[u8], byte: u8, divides: bool) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (first, mut has) = (at, false);
    // A byte of the set, which a backslash may precede, and where the next one is.
    let literal = |at: usize| {
        let at = if set.get(at) == Some(&b'\\') { at + 1 } else { at };
        set.get(at).filter(|byte| !(divides && **byte == b'/')).map(|byte| (*byte, at + 1))
    };
    loop {
        if *set.get(at)? == b']' && at > first {
            return Some((has != negated, at + 1));
        }
        let (low, next) = literal(at)?;
        let is_range = set.get(next) == Some(&b'-') && set.get(next + 1).is_some_and(|high| *high != b']');
        let (high, next) = if is_range { literal(next + 1)? } else { (low, next) };
        has |= (low..=high).contains(&byte);
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::{Slash, matches};

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*.php", "a.php", true),
            ("*.php", "a.php5", false),
            ("wp-*.ph?", "wp-config.php", true),
            ("[a-c]*[!0-9]", "bx", true),
            ("[a-c]*[!0-9]", "b1", false),
            (r"\*", "*", true),
            ("a*b*c", "aXbYbc", true),
            ("[", "[", true),
            ("", "", true),
            ("*", "", true),
            (r"[\]x]y", "]y", true),
            (r"[\]x]y", "\\y", false),
            ("a*c", "a/c", true),
            ("a?c", "a/c", true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), Slash::Plain);
            assert_eq!(found, Ok(expected), "{pattern} {text}");
        }
        assert_eq!(matches("*a".repeat(50).as_bytes(), &[b'a'; 49], Slash::Plain), Ok(false));
    }

    #[test]
    fn slashes_that_divide() {
        for (pattern, text, expected) in [
            ("/a*c", "/abc", true),
            ("/a*c", "/a/c", false),
            ("/a*/*c", "/ab/bc", true),
            ("/a*/*c", "/ab/b/c", false),
            ("/a?c", "/a/c", false),
            ("/a[!x]c", "/a/c", false),
            ("/a[.-0]c", "/a/c", false),
            ("/a[/]c", "/a/c", false),
            ("/a[/]c", "/a[/]c", true),
            ("*", "a/", false),
            ("*/", "a/", true),
            ("/*", "/a/b", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), Slash::Divides);
            assert_eq!(found, Ok(expected), "{pattern} {text}");
        }
    }
}
