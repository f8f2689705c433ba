//! Regular expressions of other servers (PCRE) as Millrace takes them: the crate `regex`, linear time.

use regex::bytes::{Regex, RegexBuilder};

/// An expression as rules take it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Its text.
    pub text: String,
    /// The names of its groups, by their numbers.
    pub groups: Vec<Option<String>>,
    /// Paths that it is not for: what a look-ahead has excepted.
    pub unless: Vec<String>,
}

/// The expression, if Millrace can match it.
///
/// # Errors
/// Why not, with what to do.
pub fn carried(pattern: &str, ignore_case: bool) -> Result<Carried, String> {
    let (plain, unless) = without_well_known(&unescaped(pattern));
    let text = if ignore_case { format!("(?i){plain}") } else { plain };
    match compile(&text) {
        Some(regex) => {
            let groups = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
            Ok(Carried { text, groups, unless })
        }
        None => Err("Millrace's regular expressions have no look-around and no back references, so that they take linear \
                     time: write the condition with `path` and `unless_path`"
            .to_owned()),
    }
}

/// An expression, as rules match it; `None`: it is none.
pub fn compile(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).unicode(false).size_limit(1 << 20).build().ok()
}

/// `/\.(?!well-known)`, the common way to close hidden files: without the look-ahead, and the path that it excepts.
fn without_well_known(pattern: &str) -> (String, Vec<String>) {
    let Some(start) = pattern.find("(?!").filter(|at| {
        pattern[at + 3..].trim_start_matches(['\\', '.', '/', '(', '?', ':']).starts_with("well")
    }) else {
        return (pattern.to_owned(), Vec::new());
    };
    let mut depth = 0;
    for (at, c) in pattern[start..].char_indices() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            let rest = &pattern[start + at + 1..];
            return (format!("{}{rest}", &pattern[..start]), vec!["/.well-known/*".to_owned()]);
        }
    }
    (pattern.to_owned(), Vec::new())
}

/// An expression that matches one of these index files, so that it matches their folders, too; `None`: it matches none, or folders already.
pub fn with_folders<S: AsRef<str>>(pattern: &str, index: &[S]) -> Option<String> {
    let compiled = compile(pattern)?;
    let has_index = index.iter().any(|name| compiled.is_match(format!("/x/{}", name.as_ref()).as_bytes()));
    (has_index && !compiled.is_match(b"/x/")).then(|| format!("(?:{pattern})|/$"))
}

/// Removes escapes that the crate `regex` rejects: `\/`, `\_`.
fn unescaped(pattern: &str) -> String {
    let (mut out, mut chars) = (String::new(), pattern.chars().peekable());
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some('\\') if c == '\\' => {
                out.push_str("\\\\");
                chars.next();
            }
            Some('/' | '_' | '\'' | '"' | '=' | ',' | ':' | ';' | '%' | '@' | '!' | ' ') if c == '\\' => {}
            _ => out.push(c),
        }
    }
    out
}

/// The expression for a whole prefix of a path.
pub fn escaped(text: &str) -> String {
    regex::escape(text)
}

/// `a|b|c` of `^(a|b|c)$` and the like, if these are plain words; `None` for anything else.
pub fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    let inner = inner.strip_prefix("(?:").or_else(|| inner.strip_prefix('(')).unwrap_or(inner);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    let words: Vec<String> =
        inner.split('|').map(|word| word.replace("\\.", ".").replace("\\-", "-")).collect();
    let plain = |word: &String| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_. /".contains(&b))
    };
    words.iter().all(plain).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (pattern, ignores, expected) in [
            (r"^\/a\_b", false, r"^/a_b"),
            (r"\.(js|css)$", true, r"(?i)\.(js|css)$"),
            (r"/\.(?!well-known).*", false, r"/\..*"),
            (r"/\.(?!(well-known|x)).*", false, r"/\..*"),
            (r"a\\/b", false, r"a\\/b"),
        ] {
            assert_eq!(
                carried(pattern, ignores).map(|carried| carried.text).as_deref(),
                Ok(expected),
                "{pattern}"
            );
        }
        assert_eq!(carried(r"/\.(?!well-known)", false).unwrap().unless, ["/.well-known/*"]);
        assert!(carried("^/(?!a)", false).is_err() && carried(r"(a)\1", false).is_err());
        assert_eq!(alternatives("^(a|b-c)$").unwrap(), ["a", "b-c"]);
        assert_eq!(alternatives("a.*b"), None);
    }
}
