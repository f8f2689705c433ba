//! File name patterns as `apr_fnmatch` without flags: `*`, `?`, `[a-z]`, backslash.

use crate::effort;
use crate::pattern::TooManySteps;

/// Whether `text` matches `pattern`.
///
/// # Errors
/// Too many steps: a pattern with stars and long sets needs up to `pattern.len() * text.len()`.
pub fn matches(pattern: &[u8], text: &[u8]) -> Result<bool, TooManySteps> {
    let (mut p, mut t) = (0, 0);
    // Where to go on if the rest does not match: behind the last star, one byte further.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        effort::spend(1)?;
        match one(&pattern[p..], text[t]) {
            Step::Star => {
                p += 1;
                star = Some((p, t));
            }
            Step::Takes(length) => {
                p += length;
                t += 1;
            }
            Step::Differs => match star {
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

fn one(pattern: &[u8], byte: u8) -> Step {
    match pattern {
        [b'*', ..] => Step::Star,
        [b'?', ..] => Step::Takes(1),
        [b'\\', literal, ..] if *literal == byte => Step::Takes(2),
        [b'\\', _, ..] => Step::Differs,
        [b'[', set @ ..] => match counted_class(set, byte) {
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
fn counted_class(set: &[u8], byte: u8) -> Option<(bool, usize)> {
    let found = class(set, byte);
    effort::count(found.map_or(set.len(), |(_, length)| length));
    found
}

/// Whether a class without its first bracket has `byte`, and its length; `None`: it is not closed.
fn class(set: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (first, mut has) = (at, false);
    loop {
        let low = *set.get(at)?;
        if low == b']' && at > first {
            return Some((has != negated, at + 1));
        }
        match (set.get(at + 1), set.get(at + 2)) {
            (Some(b'-'), Some(high)) if *high != b']' => {
                has |= (low..=*high).contains(&byte);
                at += 3;
            }
            _ => {
                has |= low == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

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
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), Ok(expected), "{pattern} {text}");
        }
        assert_eq!(matches("*a".repeat(50).as_bytes(), &[b'a'; 49]), Ok(false));
    }
}
