//! Regular expressions for the backtracking engine, which is built without Unicode's tables: case and classes as PCRE has
//! them for bytes, written out.

/// `\b` and `\B`: the engine would look words up in Unicode's tables, and panics without them.
const AT_WORD_EDGE: &str = "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))";
const NOT_AT_WORD_EDGE: &str = "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))";

/// Writes `text` so that it needs no tables: `\d`, `\w`, `\s` as sets, `\b` as look-around, and letters in both cases where case
/// is ignored, by `ignores_case` or by a flag such as `(?i)`, which is left out.
pub fn spelled_out(text: &str, ignores_case: bool) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    // Whether case is ignored: in the group that is open, and in those around it.
    let (mut folds, mut around) = (ignores_case, Vec::new());
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(next, false, &mut out),
            '[' => set(next, folds, &mut out),
            '(' => group(next, &mut folds, &mut around, &mut out),
            ')' => {
                folds = around.pop().unwrap_or(ignores_case);
                out.push(')');
                next
            }
            c if folds && c.is_ascii_alphabetic() => {
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

/// What opens a group: its flags and its name are no letters to be matched. `(?i)` opens none: it is for the rest of the group
/// in which it stands.
fn group<'t>(text: &'t str, folds: &mut bool, around: &mut Vec<bool>, out: &mut String) -> &'t str {
    let outer = *folds;
    let Some(inner) = text.strip_prefix('?') else {
        around.push(outer);
        out.push('(');
        return text;
    };
    let end = inner.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(inner.len());
    let (flags, after) = inner.split_at(end);
    let is_flags = !flags.is_empty() && after.starts_with([')', ':']);
    let (on, off) = flags.split_once('-').unwrap_or((flags, ""));
    if is_flags && (on.contains('i') || off.contains('i')) {
        *folds = !off.contains('i');
    }
    if is_flags && after.starts_with(')') {
        let others = flags.replace('i', "");
        if !others.trim_matches('-').is_empty() {
            out.push_str(&format!("(?{})", others.trim_end_matches('-')));
        }
        return &after[1..];
    }
    around.push(outer);
    if is_flags {
        out.push_str(&format!("(?{}", flags.replace('i', "").trim_end_matches('-')));
        return after;
    }
    let is_name = inner.starts_with("P<")
        || (inner.starts_with('<') && !inner.starts_with("<=") && !inner.starts_with("<!"));
    let end = if is_name { inner.find('>').map_or(0, |at| at + 1) } else { end };
    out.push_str("(?");
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
        'b' | 'B' if !in_set => {
            out.push_str(if c == 'b' { AT_WORD_EDGE } else { NOT_AT_WORD_EDGE });
            return next;
        }
        _ => {}
    }
    match (inside, in_set, negated) {
        ("", ..) => {
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
        (_, true, true) => out.push_str(all_but(c)),
        (inside, false, negated) => {
            out.push_str(if negated { "[^" } else { "[" });
            out.push_str(inside);
            out.push(']');
        }
    }
    next
}

/// What `\D`, `\W` and `\S` mean in a set: the other bytes.
fn all_but(class: char) -> &'static str {
    match class {
        'D' => r"\x00-/:-\xFF",
        'W' => r"\x00-/:-@\x5B-\x5E`\x7B-\xFF",
        _ => r"\x00-\x08\x0E-\x1F!-\xFF",
    }
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
            ("a(?i)b", "a[bB]", "[aA][bB]"),
            ("(?i:a)b", "(?:[aA])b", "(?:[aA])[bB]"),
            ("(a(?i)b)c", "(a[bB])c", "([aA][bB])[cC]"),
            ("(?-i:a)(?-i)b", "(?:a)b", "(?:a)b"),
            ("(?sim-x:a)(?s)", "(?sm-x:[aA])(?s)", "(?sm-x:[aA])(?s)"),
            (r"[\b]", r"[\b]", r"[\b]"),
            (r"[\s\S]", r"[\t-\r \x00-\x08\x0E-\x1F!-\xFF]", r"[\t-\r \x00-\x08\x0E-\x1F!-\xFF]"),
        ] {
            assert_eq!(spelled_out(text, false), plain);
            assert_eq!(spelled_out(text, true), folded);
        }
    }

    #[test]
    fn edges_of_words_need_no_tables() {
        let text = spelled_out(r"\ba\B", false);
        assert_eq!(text, format!("{AT_WORD_EDGE}a{NOT_AT_WORD_EDGE}"));
    }

    /// No engine may see a flag or an escape for which it would look into a table: it refuses the one and panics at the other.
    #[test]
    fn nothing_needs_tables() {
        for text in [r"(?!x)\bbot\b", "(?<!x)(?i:php)$", "(?!a)(?i)b", r"(a)(?i:\1)", "(?i-s:a)(?!b)"] {
            let out = spelled_out(text, false);
            let flags = out.split("(?").skip(1).filter_map(|part| part.split([':', ')']).next());
            let has_flag = flags.filter(|part| part.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-'));
            assert!(!has_flag.into_iter().any(|part| part.contains('i')), "{out}");
            assert!(!out.contains(r"\b") && !out.contains(r"\w"), "{out}");
        }
    }
}
