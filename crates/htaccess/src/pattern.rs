//! Regular expressions as Apache's PCRE reads them: on bytes, `.` matches a line feed and `$` only the end
//! (`RegexDefaultOptions`). Most run in linear time; look-around, backreferences and atomic groups backtrack, with a
//! limit on their steps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ascii::spelled_out;
use crate::effort;
use crate::literals::{self, Rare};

/// Maximum of backtracking steps of one match: about a millisecond.
const STEPS: usize = 20_000;

/// Maximum size of a compiled expression, bytes.
const SIZE: usize = 1 << 18;

/// A larger compiled expression counts as large: a file may have only a few of them. Bytes.
const LARGE: usize = 1 << 15;

/// Maximum length of an expression, bytes: a longer one would be too large once it is compiled.
const LONGEST: usize = 1 << 15;

/// Maximum depth of groups, sets and repetitions: the engine's compiler calls itself for each.
pub(crate) const DEEPEST: u32 = 64;

/// Maximum length of an expression of a long list, bytes: it is not compiled to find out whether it is small.
const RARE: usize = 256;

/// Compiled expressions of long lists that a thread keeps.
const MOST_RARE: usize = 128;

/// Steps of the compilation of such an expression: about 50 µs.
const COMPILATION: usize = 20_000;

/// Maximum memory of an engine for the states that it makes while it matches, bytes and thread.
const STATES: usize = 1 << 17;

/// Steps of a match that does not depend on the length of its subject.
const MATCH: usize = 32;

/// Groups that can be referred to: `$0` to `$9`.
const GROUPS: usize = 10;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(Engine);

#[derive(Clone, Debug)]
enum Engine {
    Linear(regex::bytes::Regex),
    Backtracking(Box<fancy_regex::Regex>),
    Rare(Box<RarePattern>),
}

/// One of a long list, which is compiled when a subject contains what its matches contain.
#[derive(Clone, Debug)]
struct RarePattern {
    rare: Rare,
    text: Box<str>,
    ignores_case: bool,
    /// Its name among those that threads keep compiled.
    key: u64,
}

impl RarePattern {
    fn new(rare: Rare, text: &str, ignores_case: bool) -> RarePattern {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        RarePattern { rare, text: text.into(), ignores_case, key: KEYS.fetch_add(1, Ordering::Relaxed) }
    }

    /// It, compiled; `None`: the subject has nothing that its matches have.
    fn for_subject(&self, subject: &[u8]) -> Result<Option<regex::bytes::Regex>, TooManySteps> {
        thread_local! {
            static KEPT: RefCell<HashMap<u64, regex::bytes::Regex>> = RefCell::default();
        }
        if !self.rare.may_match(subject)? {
            return Ok(None);
        }
        KEPT.with_borrow_mut(|kept| {
            if let Some(regex) = kept.get(&self.key) {
                return Ok(Some(regex.clone()));
            }
            effort::spend(COMPILATION)?;
            // It is known to be well-formed.
            let regex = compiled(&self.text, self.ignores_case, SIZE).map_err(|_| TooManySteps)?;
            if kept.len() >= MOST_RARE {
                kept.clear();
            }
            kept.insert(self.key, regex.clone());
            Ok(Some(regex))
        })
    }
}

/// A match needed too many steps. The request that caused it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

/// What a match has captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    groups: [Option<(usize, usize)>; GROUPS],
    subject: Vec<u8>,
}

impl Captures {
    /// Group `number`; empty if it took no part.
    pub fn group(&self, number: usize) -> &[u8] {
        let span = self.groups.get(number).copied().flatten();
        span.map_or(&[], |(start, end)| &self.subject[start..end])
    }

    /// Whether there was a match.
    pub fn has_match(&self) -> bool {
        self.groups[0].is_some()
    }

    /// Start and end of the whole match.
    pub fn span(&self) -> (usize, usize) {
        self.groups[0].unwrap_or((0, 0))
    }
}

impl Pattern {
    /// Compiles a PCRE expression.
    ///
    /// # Errors
    /// It is malformed, or uses what neither engine has; the text names the part.
    pub fn new(text: &str, ignores_case: bool) -> Result<Pattern, String> {
        // A recursion in PCRE; a flag in `regex`, which would match something else.
        if text.contains("(?R") {
            return Err(format!("regular expression \"{text}\": recursion is not supported"));
        }
        let too_large = || Err("the regular expression is too large".to_owned());
        if text.len() > LONGEST {
            return too_large();
        }
        let translated = translate(text);
        let is_small = translated.len() <= RARE && !translated.contains('{');
        if let Some(rare) = is_small.then(|| literals::rare(&translated, ignores_case)).flatten() {
            return Ok(Pattern(Engine::Rare(Box::new(RarePattern::new(rare, &translated, ignores_case)))));
        }
        let mut linear = compiled(&translated, ignores_case, LARGE);
        if matches!(linear, Err(regex::Error::CompiledTooBig(_))) {
            if !effort::allows_large() {
                return Err("the file has too many large regular expressions: split it".to_owned());
            }
            linear = compiled(&translated, ignores_case, SIZE);
        }
        let why = match linear {
            Ok(regex) => return Ok(Pattern(Engine::Linear(regex))),
            Err(why) => why,
        };
        if matches!(why, regex::Error::CompiledTooBig(_)) {
            return too_large();
        }
        // Each byte of pattern and subject is a character of its own, as PCRE sees them.
        let (own, rest) = leading_flags(&translated);
        let bytes: String = rest.bytes().map(char::from).collect();
        let bytes = spelled_out(&bytes, ignores_case || own.contains('i'));
        let flags = own.replace('i', "");
        let backtracking = fancy_regex::RegexBuilder::new(&format!("(?s{flags}){bytes}"))
            .backtrack_limit(STEPS)
            .delegate_size_limit(SIZE)
            .build();
        match backtracking {
            Ok(regex) => Ok(Pattern(Engine::Backtracking(Box::new(regex)))),
            Err(_) => {
                let why = why.to_string();
                let last = why.lines().last().unwrap_or("").trim_start_matches("error: ");
                Err(format!("regular expression \"{text}\": {last}"))
            }
        }
    }

    /// Whether it has groups.
    pub fn has_groups(&self) -> bool {
        match &self.0 {
            Engine::Linear(regex) => regex.captures_len() > 1,
            Engine::Backtracking(regex) => regex.captures_len() > 1,
            Engine::Rare(pattern) => pattern.rare.has_groups(),
        }
    }

    /// Its place in the index of its file, if that has many patterns.
    pub(crate) fn rare(&self) -> Option<&Rare> {
        match &self.0 {
            Engine::Rare(pattern) => Some(&pattern.rare),
            Engine::Linear(_) | Engine::Backtracking(_) => None,
        }
    }

    /// Whether it matches.
    ///
    /// # Errors
    /// Too many steps.
    pub fn matches(&self, subject: &[u8]) -> Result<bool, TooManySteps> {
        match &self.0 {
            Engine::Linear(regex) => {
                effort::spend(MATCH + subject.len())?;
                Ok(regex.is_match(subject))
            }
            Engine::Backtracking(_) => Ok(self.captures_at(subject, 0)?.is_some()),
            Engine::Rare(pattern) => match pattern.for_subject(subject)? {
                Some(regex) => {
                    effort::spend(MATCH + subject.len())?;
                    Ok(regex.is_match(subject))
                }
                None => Ok(false),
            },
        }
    }

    /// What it captures; `None`: it does not match.
    ///
    /// # Errors
    /// Too many steps.
    pub fn captures(&self, subject: &[u8]) -> Result<Option<Captures>, TooManySteps> {
        self.captures_at(subject, 0)
    }

    /// The same from byte `start` on.
    ///
    /// # Errors
    /// Too many steps.
    pub fn captures_at(&self, subject: &[u8], start: usize) -> Result<Option<Captures>, TooManySteps> {
        let mut groups = [None; GROUPS];
        match &self.0 {
            Engine::Linear(regex) => return linear_captures(regex, subject, start),
            Engine::Rare(pattern) => {
                let regex = pattern.for_subject(subject)?;
                return regex.map_or(Ok(None), |regex| linear_captures(&regex, subject, start));
            }
            Engine::Backtracking(regex) => {
                effort::spend(MATCH + subject.len() + STEPS)?;
                let text: String = subject.iter().copied().map(char::from).collect();
                let place = text.char_indices().nth(start).map_or(text.len(), |(at, _)| at);
                let found = regex.captures_from_pos(&text, place).map_err(|_| {
                    effort::exhaust();
                    TooManySteps
                })?;
                let Some(found) = found else { return Ok(None) };
                let at = |position: usize| text[..position].chars().count();
                for (group, found) in groups.iter_mut().zip(found.iter()) {
                    *group = found.map(|found| (at(found.start()), at(found.end())));
                }
            }
        }
        Ok(Some(Captures { groups, subject: subject.to_vec() }))
    }
}

fn linear_captures(
    regex: &regex::bytes::Regex,
    subject: &[u8],
    start: usize,
) -> Result<Option<Captures>, TooManySteps> {
    effort::spend(MATCH + subject.len())?;
    let Some(found) = regex.captures_at(subject, start) else { return Ok(None) };
    let mut groups = [None; GROUPS];
    for (group, found) in groups.iter_mut().zip(found.iter()) {
        *group = found.map(|found| (found.start(), found.end()));
    }
    Ok(Some(Captures { groups, subject: subject.to_vec() }))
}

/// Flags at the start of an expression, as in `(?i)a`, without `s`, and the rest: the backtracking engine wants all flags in
/// one place.
fn leading_flags(text: &str) -> (String, &str) {
    let flags = text.strip_prefix("(?").and_then(|text| text.split_once(')'));
    match flags.filter(|(flags, _)| !flags.is_empty() && flags.bytes().all(|b| b"imsx".contains(&b))) {
        Some((flags, rest)) => (flags.replace('s', ""), rest),
        None => (String::new(), text),
    }
}

/// Compiles for the engine that needs linear time.
fn compiled(text: &str, ignores_case: bool, size: usize) -> Result<regex::bytes::Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(text)
        .unicode(false)
        .dot_matches_new_line(true)
        .case_insensitive(ignores_case)
        .size_limit(size)
        .dfa_size_limit(STATES)
        .nest_limit(DEEPEST)
        .build()
}

/// The same expression in the syntax of `regex`: what PCRE takes literally and `regex` does not.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(after, &mut out),
            '[' => class(after, &mut out),
            '{' if !is_quantifier(after) => {
                out.push_str("\\{");
                after
            }
            '}' if !out.ends_with(|c: char| c.is_ascii_digit() || c == ',') => {
                out.push_str("\\}");
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// Whether a repetition such as `{2}`, `{2,}` or `{2,3}` follows its brace.
fn is_quantifier(after: &str) -> bool {
    // No look for the brace's end: many that have none would be looked for up to the end of the text.
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    let has_low = rest.len() < after.len();
    let rest =
        rest.strip_prefix(',').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    has_low && rest.starts_with('}')
}

/// Translates what follows a backslash; returns the rest.
fn escape<'a>(after: &'a str, out: &mut String) -> &'a str {
    let Some(c) = after.chars().next() else {
        out.push_str("\\\\");
        return after;
    };
    let rest = &after[c.len_utf8()..];
    match c {
        'h' => out.push_str("[ \\t]"),
        'e' => out.push_str("\\x1B"),
        'Z' => out.push_str("\\z"),
        'Q' => {
            let (literal, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(literal));
            return rest;
        }
        'E' => {}
        c if c.is_ascii_alphanumeric() => {
            out.push('\\');
            out.push(c);
        }
        // `\<` has a meaning of its own in `regex`.
        c if c.is_ascii() => {
            let _ = write!(out, "\\x{:02X}", c as u32);
        }
        c => out.push(c),
    }
    rest
}

/// Translates a character class whose bracket has been read; returns the rest.
fn class<'a>(after: &'a str, out: &mut String) -> &'a str {
    let mut rest = after;
    out.push('[');
    if let Some(inner) = rest.strip_prefix('^') {
        out.push('^');
        rest = inner;
    }
    if let Some(inner) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = inner;
    }
    let mut after_set = false;
    while let Some(c) = rest.chars().next() {
        let next = &rest[c.len_utf8()..];
        let mut is_set = false;
        rest = match c {
            ']' => {
                out.push(']');
                return next;
            }
            '[' => match next.strip_prefix(':').and_then(named_set) {
                Some((name, next)) => {
                    let _ = write!(out, "[:{name}:]");
                    is_set = true;
                    next
                }
                None => {
                    out.push_str("\\[");
                    next
                }
            },
            '\\' => {
                is_set = next.starts_with(['w', 'W', 'd', 'D', 's', 'S', 'h']);
                match next.strip_prefix('h') {
                    Some(next) => {
                        out.push_str(" \\t");
                        next
                    }
                    None => escape(next, out),
                }
            }
            // A set before or behind a dash: no range.
            '-' if after_set || starts_set(next) => {
                out.push_str("\\-");
                next
            }
            '&' | '~' => {
                out.push('\\');
                out.push(c);
                next
            }
            _ => {
                out.push(c);
                next
            }
        };
        after_set = is_set;
    }
    out.push_str("\\z]");
    rest
}

/// The name of `[:name:]` and what follows it.
fn named_set(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphabetic() || c == '^'))?;
    Some((&text[..end], text[end..].strip_prefix(":]")?))
}

fn starts_set(text: &str) -> bool {
    text.strip_prefix('\\').is_some_and(|text| text.starts_with(['w', 'W', 'd', 'D', 's', 'S', 'h']))
        || text.starts_with("[:")
        || text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(pattern: &str, subject: &str) -> Option<Vec<String>> {
        let found = Pattern::new(pattern, false).unwrap().captures(subject.as_bytes()).unwrap()?;
        Some((0..3).map(|n| String::from_utf8_lossy(found.group(n)).into_owned()).collect())
    }

    #[test]
    fn what_pcre_takes_literally() {
        for (pattern, yes, no) in [
            (r"^a\/b\-c\ d\<$", "a/b-c d<", "a/b"),
            (r"^[\w-.]+$", "a-b.c", "a/b"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[a[]&&$", "[&&", "a"),
            (r"^\{a{2}\}{b$", "{aa}{b", "{a}"),
            (r"^[[:alpha:]-]+$", "a-b", "1"),
            (r"^a$", "a", "a\n"),
            (r"^a.b$", "a\nb", "ab"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"(?i)(\.tpl|(?<!robots)\.txt)$", "A.TXT", "robots.txt"),
            (r"^(?!\d)[\w.]+$", "a1.b", "1a"),
            (r"(?!x)\bbot\b", "a bot", "robots"),
            (r"^(?!x)a\Bb", "ab", "a b"),
            (r"^(?!x)[^\W_]+$", "a1", "a_"),
            (r"^(?!x)[\D]+$", "a/:é", "a0"),
            (r"^(?!x)[\s\S]$", "\n", ""),
            (r"^(?!x)[\S]$", "!", "\t"),
            (r"^(?!x)[\W]$", "[", "z"),
            (r"(?<!x)a(?i:php)$", "aPHP", "APHP"),
            (r"^(?!x)a(?i)b", "aB", "Ab"),
        ] {
            let pattern = Pattern::new(pattern, false).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert!(pattern.matches(yes.as_bytes()).unwrap(), "{pattern:?} {yes}");
            assert!(!pattern.matches(no.as_bytes()).unwrap(), "{pattern:?} {no}");
        }
    }

    #[test]
    fn groups_of_both_engines() {
        assert_eq!(groups("^(a+)(b)?", "aac").unwrap(), ["aa", "aa", ""]);
        assert_eq!(groups("^(?!x)(é)(.)", "éab").unwrap()[1..], ["é", "a"]);
        assert_eq!(groups(r"(a)\1", "baa").unwrap()[0], "aa");
        assert_eq!(groups("^(?!index)", "index.php"), None);
        let folded = Pattern::new("^((?!public/).*)$", true).unwrap();
        assert!(folded.matches(b"a").unwrap() && !folded.matches(b"PUBLIC/a").unwrap());
    }

    #[test]
    fn no_expression_overflows_the_stack() {
        for deep in [format!("a{}", "*".repeat(240)), "(".repeat(240) + &")*".repeat(240)] {
            assert!(Pattern::new(&deep, false).unwrap_err().contains("nested"), "{deep}");
        }
        assert!(Pattern::new(&("(".repeat(30) + "a" + &")".repeat(30)), false).is_ok());
    }

    #[test]
    fn no_expression_is_slow() {
        let evil = Pattern::new(r"^(?=(a+)+$)(a|aa)+\1$", false).unwrap();
        assert_eq!(evil.matches(&[b'a'; 5000]), Err(TooManySteps));
        assert!(Pattern::new("(a{1000}){1000}", false).is_err());
        assert!(Pattern::new("(", false).unwrap_err().contains("unclosed group"));
    }
}
