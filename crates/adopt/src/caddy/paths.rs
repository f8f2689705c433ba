//! Patterns of paths: exact, or with `*` for any text, as rules have them. What two of them have in common.

/// Whether `wide` matches whatever `narrow` matches. A `*` of `narrow` counts as a letter: only a `*` of `wide` takes it.
pub fn covers(wide: &str, narrow: &str) -> bool {
    let narrow = narrow.as_bytes();
    // reachable[j]: what is read of `wide` takes the first `j` bytes of `narrow`.
    let mut reachable = vec![false; narrow.len() + 1];
    reachable[0] = true;
    for letter in wide.bytes() {
        let before = reachable;
        reachable = vec![false; narrow.len() + 1];
        for j in 0..=narrow.len() {
            reachable[j] = match letter {
                b'*' => before[j] || (j > 0 && reachable[j - 1]),
                _ => j > 0 && before[j - 1] && letter == narrow[j - 1],
            };
        }
    }
    reachable[narrow.len()]
}

/// Whether some path matches both.
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // reachable[j]: what is before `i` of the one and `j` of the other can match the same text.
    let mut reachable = vec![false; other.len() + 1];
    for i in 0..=one.len() {
        let before = std::mem::take(&mut reachable);
        reachable = vec![false; other.len() + 1];
        for j in 0..=other.len() {
            let from_one = i > 0 && before[j] && one[i - 1] == b'*';
            let from_other = j > 0 && reachable[j - 1] && other[j - 1] == b'*';
            let from_both = i > 0 && j > 0 && {
                let (a, b) = (one[i - 1], other[j - 1]);
                match (a == b'*', b == b'*') {
                    (false, false) => a == b && before[j - 1],
                    // A `*` takes the letter, and may take more.
                    (true, false) => reachable[j - 1],
                    (false, true) => before[j],
                    (true, true) => before[j - 1],
                }
            };
            reachable[j] = (i == 0 && j == 0) || from_one || from_other || from_both;
        }
    }
    reachable[other.len()]
}

/// The paths that match one of each list. `None`: no list of patterns says that.
pub fn common(outer: &[String], inner: &[String]) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for one in inner {
        for other in outer {
            match () {
                () if covers(other, one) => all.push(one.clone()),
                () if covers(one, other) => all.push(other.clone()),
                () if !overlap(one, other) => {}
                () => all.push(joined(other, one).or_else(|| joined(one, other))?),
            }
        }
    }
    let mut least: Vec<String> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let is_in_another = all
            .iter()
            .enumerate()
            .any(|(n, other)| n != at && covers(other, one) && (n < at || !covers(one, other)));
        if !is_in_another {
            least.push(one.clone());
        }
    }
    Some(least)
}

/// `/a/*` and `*.txt` together: `/a/*.txt`.
fn joined(begins: &str, ends: &str) -> Option<String> {
    let (start, end) = (begins.strip_suffix('*')?, ends.strip_prefix('*')?);
    let is_plain = !start.contains('*') && !end.contains('*');
    // The end must not begin in the start: no path is that short.
    let is_apart = start.ends_with('/') && !end.contains('/');
    (is_plain && is_apart).then(|| format!("{start}*{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_have_something_in_common() {
        for (one, other, expected) in [
            ("/a", "/a", true),
            ("/a", "/b", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
            ("/a/*", "*.txt", true),
            ("/a/*", "/b/*", false),
            ("*/x/*", "/a/*", true),
            ("*.jpg", "*.txt", false),
            ("*", "", true),
            ("/*.html", "*/deep/*", true),
            ("/a*", "/ab*c", true),
            ("/a*b", "/a*c", false),
        ] {
            assert_eq!((overlap(one, other), overlap(other, one)), (expected, expected), "{one} {other}");
        }
    }

    /// Every pattern and text of up to four letters.
    #[test]
    fn as_slow_ones_say() {
        fn all(letters: &str, most: usize) -> Vec<String> {
            let mut found = vec![String::new()];
            let mut last = found.clone();
            for _ in 0..most {
                last =
                    last.iter().flat_map(|word| letters.chars().map(move |c| format!("{word}{c}"))).collect();
                found.extend(last.clone());
            }
            found
        }
        let texts = all("ab", 5);
        let patterns = all("ab*", 3);
        let matches: Vec<Vec<bool>> =
            patterns.iter().map(|p| texts.iter().map(|t| covers(p, t)).collect()).collect();
        for (i, one) in patterns.iter().enumerate() {
            for (j, other) in patterns.iter().enumerate() {
                let pairs = || matches[i].iter().zip(&matches[j]);
                assert_eq!(overlap(one, other), pairs().any(|(a, b)| *a && *b), "{one} {other}");
                assert_eq!(covers(one, other), pairs().all(|(a, b)| *a || !*b), "{one} {other}");
            }
        }
    }

    #[test]
    fn together() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (outer, inner, expected) in [
            (&["/a/*"][..], &["/a/b", "/c"][..], Some(&["/a/b"][..])),
            (&["/a/b"], &["/a/*"], Some(&["/a/b"])),
            (&["/a/*"], &["*.txt"], Some(&["/a/*.txt"])),
            (&["*.txt"], &["/a/*"], Some(&["/a/*.txt"])),
            (&["/a/*"], &["/b/*"], Some(&[])),
            (&["/a*"], &["*.txt"], None),
            (&["/a/*", "/a/b/*"], &["/a/b/c"], Some(&["/a/b/c"])),
        ] {
            assert_eq!(common(&list(outer), &list(inner)), expected.map(list), "{outer:?} {inner:?}");
        }
    }
}
