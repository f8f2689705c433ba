//! Regular expressions for the backtracking engine, which is built without Unicode's tables: case and classes as PCRE has
//! them for bytes, written out.

/// Writes `text` so that it needs no tables: `\d`, `\w`, `\s` as sets, and letters in both cases if case is ignored.
pub fn spelled_out(text: &str, ignores_case: bool) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(next, false, &mut out),
            '[' => set(next, ignores_case, &mut out),
            '(' => group(next, &mut out),
            c if ignores_case && c.is_ascii_alphabetic() => {
                out.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
                next
            }
            c => {
                out.push(c);
                next
            }
        };
    }
    out
}

/// What opens a group: its flags and its name are no letters to be matched.
fn group<'t>(text: &'t str, out: &mut String) -> &'t str {
    out.push('(');
    let Some(inner) = text.strip_prefix('?') else { return text };
    let is_name = inner.starts_with("P<")
        || (inner.starts_with('<') && !inner.starts_with("<=") && !inner.starts_with("<!"));
    let end = if is_name {
        inner.find('>').map(|at| at + 1)
    } else {
        inner.find(|c: char| !c.is_ascii_alphabetic())
    };
    let end = end.unwrap_or(0);
    out.push('?');
    out.push_str(&inner[..end]);
    &inner[end..]
}

/// The rest of an escape, behind its backslash.
fn escape<'t>(text: &'t str, in_set: bool, out: &mut String) -> &'t str {
    let Some(c) = text.chars().next() else {
        out.push('\\');
        return text;
    };
    let (mut next, mut inside, mut negated) = (&text[c.len_utf8()..], "", false);
    match c {
        'd' | 'D' => (inside, negated) = ("0-9", c == 'D'),
        'w' | 'W' => (inside, negated) = ("0-9A-Za-z_", c == 'W'),
        's' | 'S' => (inside, negated) = ("\\t-\\r ", c == 'S'),
        _ => {}
    }
    match (inside, in_set, negated) {
        ("", ..) | (_, true, true) => {
            out.push('\\');
            out.push(c);
            // Digits of \xHH are no letters.
            if c == 'x' && !next.starts_with('{') {
                let end = next.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                out.push_str(&next[..end]);
                next = &next[end..];
            }
        }
        (inside, true, false) => out.push_str(inside),
        (inside, false, negated) => {
            out.push_str(if negated { "[^" } else { "[" });
            out.push_str(inside);
            out.push(']');
        }
    }
    next
}

/// The rest of a set, behind its bracket.
fn set<'t>(text: &'t str, ignores_case: bool, out: &mut String) -> &'t str {
    out.push('[');
    let mut rest = text;
    if let Some(next) = rest.strip_prefix('^') {
        out.push('^');
        rest = next;
    }
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            ']' => {
                out.push(']');
                return next;
            }
            '\\' => escape(next, true, out),
            '[' => match next.split_once(":]") {
                Some((name, next)) => {
                    out.push_str(&format!("[{name}:]"));
                    next
                }
                None => {
                    out.push('[');
                    next
                }
            },
            c if ignores_case && c.is_ascii_alphabetic() => letters(c, next, out),
            c => {
                out.push(c);
                next
            }
        };
    }
    rest
}

/// A letter of a set, or a range of letters, in both cases.
fn letters<'t>(first: char, next: &'t str, out: &mut String) -> &'t str {
    let last = next.strip_prefix('-').and_then(|text| text.chars().next()).filter(char::is_ascii_alphabetic);
    match last {
        Some(last) if last.is_ascii_lowercase() == first.is_ascii_lowercase() => {
            let (low, high) = (first.to_ascii_lowercase(), last.to_ascii_lowercase());
            out.push_str(&format!("{low}-{high}{}-{}", low.to_ascii_uppercase(), high.to_ascii_uppercase()));
            &next[2..]
        }
        // A range over both cases and what stands between them has the other case of its letters.
        Some(last) => {
            out.push_str(&format!("{first}-{last}A-Za-z"));
            &next[2..]
        }
        None => {
            out.extend([first.to_ascii_lowercase(), first.to_ascii_uppercase()]);
            next
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_classes() {
        for (text, plain, folded) in [
            ("a1", "a1", "[aA]1"),
            (r"\d\W\.x", r"[0-9][^0-9A-Za-z_]\.x", r"[0-9][^0-9A-Za-z_]\.[xX]"),
            (r"[\w-]\x4a", r"[0-9A-Za-z_-]\x4a", r"[0-9A-Za-z_-]\x4a"),
            ("(?!ab)(?<n>c)(?:d)", "(?!ab)(?<n>c)(?:d)", "(?![aA][bB])(?<n>[cC])(?:[dD])"),
            ("[^a-cX]", "[^a-cX]", "[^a-cA-CxX]"),
            ("[[:alpha:]b]", "[[:alpha:]b]", "[[:alpha:]bB]"),
        ] {
            assert_eq!(spelled_out(text, false), plain);
            assert_eq!(spelled_out(text, true), folded);
        }
    }
}
