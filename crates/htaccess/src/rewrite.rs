//! mod_rewrite in `.htaccess`: rules as values, and one run of a folder's rules. The order of steps is that of
//! `hook_fixup` and `apply_rewrite_rule` in Apache's mod_rewrite.c.

use crate::expression::{Expression, number};
use crate::lines::rewrite_arguments;
use crate::literals::Rare;
use crate::pattern::{Captures, Pattern};
use crate::template::Template;

/// Default of `[N]`, and its maximum here: each round runs all rules.
const MOST_ROUNDS: u32 = 100;

/// A RewriteRule with its conditions.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Line number.
    pub line: u32,
    /// `None`: it never matches, because it isn't supported.
    pub pattern: Option<Pattern>,
    /// `!pattern`
    pub negated: bool,
    /// `None`: `-`, the path stays.
    pub substitution: Option<Template>,
    /// Conditions that must hold.
    pub conditions: Vec<Condition>,
    /// Flags.
    pub flags: Flags,
}

/// Flags of a rule.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `R`: a redirect with this status; `F`, `G` and `R=404`: this status and nothing else.
    pub status: Option<u16>,
    /// `R`, with any status: the rule says nothing about index files.
    pub is_redirect: bool,
    /// `L`
    pub last: bool,
    /// `END`
    pub end: bool,
    /// `PT`
    pub passes_through: bool,
    /// `N`: maximum of rounds; 0: it is not set.
    pub rounds: u32,
    /// `S=N`
    pub skip: usize,
    /// `C`
    pub chained: bool,
    /// `NC`
    pub ignores_case: bool,
    /// `NE`
    pub keeps_escapes: bool,
    /// `NS`
    pub not_inner: bool,
    /// `QSA`
    pub appends_query: bool,
    /// `QSD`
    pub drops_query: bool,
    /// `QSL`
    pub last_question_mark: bool,
    /// `B`: bytes to escape; `Some(None)`: all but letters and digits.
    pub escapes: Option<Option<Vec<u8>>>,
    /// `BNE`: bytes that `B` does not escape.
    pub unescaped: Vec<u8>,
    /// `BCTLS`: control characters and spaces are escaped.
    pub escapes_controls: bool,
    /// `BNP`: a space becomes `%20`, not `+`.
    pub space_as_percent: bool,
    /// `UnsafeAllow3F`: a question mark may come from an escape in the URL.
    pub allows_question_mark: bool,
    /// `DPI`
    pub drops_path_info: bool,
    /// `P`
    pub proxies: bool,
    /// `T=type`
    pub media_type: Option<Template>,
    /// `H=handler`
    pub handler: Option<String>,
    /// `E=NAME:value`, `E=!NAME`
    pub environment: Vec<Template>,
    /// `CO=...`
    pub cookies: Vec<Template>,
}

/// A RewriteCond.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The tested text.
    pub subject: Template,
    /// The test.
    pub test: ConditionTest,
    /// `!`
    pub negated: bool,
    /// `NC`
    pub ignores_case: bool,
    /// `OR`
    pub or_next: bool,
    /// `NV`
    pub no_vary: bool,
    /// How many from this one on, joined by OR, test the same text with patterns that follow one another in the file's index.
    pub list: u32,
}

/// Finds the lists among the conditions of a rule.
fn mark_lists(conditions: &mut [Condition]) {
    for at in (0..conditions.len()).rev() {
        let (condition, next) = (&conditions[at], conditions.get(at + 1));
        let Some(rare) = condition.list_pattern() else { continue };
        let goes_on = next.filter(|next| {
            next.subject == condition.subject && next.list_pattern().is_some_and(|next| rare.precedes(next))
        });
        conditions[at].list = 1 + goes_on.map_or(0, |next| next.list);
    }
}

/// What a condition tests.
#[derive(Clone, Debug)]
pub enum ConditionTest {
    /// It matches.
    Pattern(Pattern),
    /// `=`, `<`, `>`, `<=`, `>=` as texts: the longer one is greater.
    Text(Comparison, String),
    /// `-eq` and the like, as integers.
    Number(Comparison, i64),
    /// `-f`, `-d` and the like.
    File(FileTest),
    /// `expr`
    Expression(Box<Expression>),
    /// Not supported: it never holds.
    Never,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Whether it holds for this order.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

/// A test of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`, and `-F` and `-U`, which Apache tests by an internal request.
    File,
    /// `-s`: a file that is not empty.
    NotEmpty,
    /// `-d`
    Directory,
    /// `-l`, `-h`, `-L`
    Link,
    /// `-x`
    Executable,
    /// `-e` of expressions.
    Exists,
    /// `-F`: a file; `-U`: a file or folder of the site by its URL.
    Url,
}

/// A directive that can't be used: the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Apache refuses it, too.
    Invalid(String),
    /// Apache knows it.
    Unsupported(String),
}

impl Condition {
    /// Reads the arguments of a RewriteCond.
    ///
    /// # Errors
    /// It is malformed or not supported.
    pub fn new(text: &str) -> Result<Condition, Unusable> {
        let invalid = |text: &str| Unusable::Invalid(text.to_owned());
        let arguments = rewrite_arguments(text);
        let [subject, pattern, flags @ ..] = &arguments[..] else {
            return Err(invalid("RewriteCond needs a test string and a pattern"));
        };
        let (mut ignores_case, mut or_next, mut no_vary) = (false, false, false);
        for flag in list(flags.first().copied().unwrap_or(""))? {
            match flag.to_ascii_uppercase().as_str() {
                "NC" | "NOCASE" => ignores_case = true,
                "OR" | "ORNEXT" => or_next = true,
                "NV" | "NOVARY" => no_vary = true,
                _ => return Err(Unusable::Invalid(format!("RewriteCond: unknown flag \"{flag}\""))),
            }
        }
        let is_expression = subject.eq_ignore_ascii_case("expr");
        let subject =
            Template::new(if is_expression { "" } else { subject }).map_err(Unusable::Unsupported)?;
        let (test, negated) = if is_expression {
            let expression = Expression::parse(pattern).map_err(Unusable::Unsupported)?;
            (ConditionTest::Expression(Box::new(expression)), false)
        } else {
            test(pattern, ignores_case)?
        };
        Ok(Condition { subject, test, negated, ignores_case, or_next, no_vary, list: 0 })
    }

    /// The place of its pattern in the file's index, if the next condition is tested when this one does not match.
    pub(crate) fn list_pattern(&self) -> Option<&Rare> {
        match &self.test {
            ConditionTest::Pattern(pattern) if self.or_next && !self.negated => pattern.rare(),
            _ => None,
        }
    }
}

fn test(pattern: &str, ignores_case: bool) -> Result<(ConditionTest, bool), Unusable> {
    let (pattern, negated) = match pattern.strip_prefix('!') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let file = match pattern {
        "-f" => Some(FileTest::File),
        "-s" => Some(FileTest::NotEmpty),
        "-d" => Some(FileTest::Directory),
        "-l" | "-h" | "-L" => Some(FileTest::Link),
        "-x" => Some(FileTest::Executable),
        "-F" | "-U" => Some(FileTest::Url),
        _ => None,
    };
    if let Some(file) = file {
        return Ok((ConditionTest::File(file), negated));
    }
    let numbers = [
        ("-eq", Comparison::Equal),
        ("-ne", Comparison::NotEqual),
        ("-lt", Comparison::Less),
        ("-le", Comparison::AtMost),
        ("-gt", Comparison::Greater),
        ("-ge", Comparison::AtLeast),
    ];
    for (name, comparison) in numbers {
        if let Some(digits) = pattern.strip_prefix(name) {
            return Ok((ConditionTest::Number(comparison, number(digits.as_bytes())), negated));
        }
    }
    let texts = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
    ];
    for (name, comparison) in texts {
        // One character alone is a regular expression.
        if let Some(text) = pattern.strip_prefix(name).filter(|_| pattern.len() > 1) {
            let text = if text == "\"\"" { "" } else { text };
            return Ok((ConditionTest::Text(comparison, text.to_owned()), negated));
        }
    }
    let pattern = Pattern::new(pattern, ignores_case).map_err(Unusable::Unsupported)?;
    Ok((ConditionTest::Pattern(pattern), negated))
}

impl Rule {
    /// Reads the arguments of a RewriteRule.
    ///
    /// # Errors
    /// It is malformed or not supported; and whether it would have refused what it matches.
    pub fn new(line: u32, text: &str, mut conditions: Vec<Condition>) -> Result<Rule, (Unusable, bool)> {
        mark_lists(&mut conditions);
        let arguments = rewrite_arguments(text);
        let [pattern, substitution, flags @ ..] = &arguments[..] else {
            let text = "RewriteRule needs a pattern and a substitution".to_owned();
            return Err((Unusable::Invalid(text), false));
        };
        let flags = Flags::new(flags.first().copied().unwrap_or("")).map_err(|why| (why, false))?;
        let restricts = flags.status.is_some_and(|status| status >= 400);
        let unsupported = |why| (Unusable::Unsupported(why), restricts);
        let (pattern, negated) = match pattern.strip_prefix('!') {
            Some(pattern) => (pattern, true),
            None => (*pattern, false),
        };
        let pattern = Some(Pattern::new(pattern, flags.ignores_case).map_err(unsupported)?);
        let stays = *substitution == "-" || restricts;
        let substitution = if stays { None } else { Some(Template::new(substitution).map_err(unsupported)?) };
        Ok(Rule { line, pattern, negated, substitution, conditions, flags })
    }

    /// A rule that never matches in the place of one that isn't supported, so that `[S]` counts right.
    pub fn never(line: u32) -> Rule {
        Rule {
            line,
            pattern: None,
            negated: false,
            substitution: None,
            conditions: Vec::new(),
            flags: Flags::default(),
        }
    }
}

impl Flags {
    fn new(text: &str) -> Result<Flags, Unusable> {
        let mut flags = Flags::default();
        for flag in list(text)? {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            flags.add(flag, &name.to_ascii_uppercase(), value)?;
        }
        // Apache ends the pass with PT before it looks at END.
        flags.end &= !flags.passes_through;
        Ok(flags)
    }

    fn add(&mut self, flag: &str, name: &str, value: &str) -> Result<(), Unusable> {
        let template = |text: &str| Template::new(text).map_err(Unusable::Unsupported);
        let invalid = || Unusable::Invalid(format!("RewriteRule: invalid flag \"{flag}\""));
        match name {
            "B" => self.escapes = Some(Some(value.as_bytes().to_vec()).filter(|bytes| !bytes.is_empty())),
            "BNP" | "BACKREFNOPLUS" => self.space_as_percent = true,
            "BNE" => self.unescaped = value.as_bytes().to_vec(),
            "BCTLS" => self.escapes_controls = true,
            "C" | "CHAIN" => self.chained = true,
            "CO" | "COOKIE" => self.cookies.push(template(value)?),
            "DPI" | "DISCARDPATH" => self.drops_path_info = true,
            "E" | "ENV" => self.environment.push(template(value.trim_matches('"'))?),
            "END" => self.end = true,
            "F" | "FORBIDDEN" => self.status = Some(403),
            "G" | "GONE" => self.status = Some(410),
            "H" | "HANDLER" => self.handler = Some(value.to_owned()),
            "L" | "LAST" => self.last = true,
            "PT" | "PASSTHROUGH" => (self.last, self.passes_through) = (true, true),
            "N" | "NEXT" => self.rounds = value.parse::<u32>().unwrap_or(MOST_ROUNDS).clamp(1, MOST_ROUNDS),
            "NC" | "NOCASE" => self.ignores_case = true,
            "NE" | "NOESCAPE" => self.keeps_escapes = true,
            "NS" | "NOSUBREQ" => self.not_inner = true,
            "P" | "PROXY" => self.proxies = true,
            "QSA" | "QSAPPEND" => self.appends_query = true,
            "QSD" | "QSDISCARD" => self.drops_query = true,
            "QSL" | "QSLAST" => self.last_question_mark = true,
            "R" | "REDIRECT" => {
                self.status = Some(status(value).ok_or_else(invalid)?);
                self.is_redirect = true;
            }
            "S" | "SKIP" => self.skip = value.parse().map_err(|_| invalid())?,
            "T" | "TYPE" => self.media_type = Some(template(value)?),
            "UNSAFEALLOW3F" => self.allows_question_mark = true,
            "UNSAFEPREFIXSTAT" | "UNC" => {}
            _ => return Err(Unusable::Invalid(format!("RewriteRule: unknown flag \"{flag}\""))),
        }
        Ok(())
    }

    /// Whether the rule redirects the client.
    pub fn redirects(&self) -> bool {
        self.status.is_some_and(|status| (300..400).contains(&status))
    }

    /// The escaped form of a group.
    pub fn escaped(&self, group: &[u8]) -> Vec<u8> {
        if self.escapes.is_none() && !self.escapes_controls {
            return group.to_vec();
        }
        let mut out = Vec::with_capacity(group.len());
        for byte in group {
            let is_control = *byte <= b' ' || *byte == 0x7f;
            let is_plain = match &self.escapes {
                _ if self.escapes_controls && is_control => false,
                None => true,
                Some(Some(only)) => !only.contains(byte),
                Some(None) => byte.is_ascii_alphanumeric() || *byte == b'_' || self.unescaped.contains(byte),
            };
            match byte {
                _ if is_plain => out.push(*byte),
                b' ' if !self.space_as_percent => out.push(b'+'),
                byte => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            }
        }
        out
    }
}

/// The status of `R=`.
fn status(value: &str) -> Option<u16> {
    match value {
        "" | "temp" => Some(302),
        "permanent" => Some(301),
        "seeother" => Some(303),
        _ => value.parse().ok().filter(|status| (200..600).contains(status)),
    }
}

/// The flags of a list in brackets. A comma in quotes separates nothing.
fn list(text: &str) -> Result<Vec<&str>, Unusable> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let Some(text) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        let why = "flags stand in brackets without a space between them, such as [R=301,L]";
        return Err(Unusable::Invalid(format!("\"{text}\": {why}; a text with a space needs quotes")));
    };
    let mut flags = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, byte) in text.bytes().enumerate().chain([(text.len(), b',')]) {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted || at == text.len() => {
                let flag = text[start..at].trim();
                let flag = flag.strip_prefix('"').and_then(|f| f.strip_suffix('"')).unwrap_or(flag);
                if !flag.is_empty() {
                    flags.push(flag);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    Ok(flags)
}

/// The rules of one folder.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// RewriteEngine; `None`: it is not set here.
    pub engine: Option<bool>,
    /// RewriteBase.
    pub base: Option<String>,
    /// RewriteOptions MergeBase: the base of the folder above counts if there is none here.
    pub merges_base: bool,
    /// RewriteOptions Inherit (after the folder's own rules) or InheritBefore.
    pub inherit: Option<Inherit>,
    /// RewriteOptions AllowNoSlash.
    pub allows_no_slash: bool,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// Where rules of the folder above run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// After the folder's own.
    After,
    /// Before them.
    Before,
}

/// The name of the cookie that the text of a `CO` flag sets.
pub fn cookie_name(text: &[u8]) -> &[u8] {
    let (separator, text) = text.strip_prefix(b";").map_or((b':', text), |text| (b';', text));
    text.split(|byte| *byte == separator).next().unwrap_or(text)
}

/// The text a `CO` flag makes: the value of a Set-Cookie field.
pub fn cookie(text: &[u8], now: u64, date: impl Fn(u64) -> String) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let (separator, text) = match text.strip_prefix(';') {
        Some(rest) => (';', rest.to_owned()),
        None => (':', text.into_owned()),
    };
    let parts: Vec<&str> = text.split(separator).collect();
    let [name, value, domain, rest @ ..] = &parts[..] else { return None };
    let part = |at: usize| rest.get(at).copied().filter(|text| !text.is_empty());
    let is_set = |text: Option<&str>, word: &str| {
        text.is_some_and(|text| ["true", "1"].contains(&text) || text.eq_ignore_ascii_case(word))
    };
    let mut out = format!("{name}={value}; path={}", part(1).unwrap_or("/"));
    out.push_str(&format!("; domain={domain}"));
    let minutes: i64 = part(0).and_then(|text| text.parse().ok()).unwrap_or(0);
    if minutes != 0 {
        out.push_str(&format!("; expires={}", date(now.saturating_add_signed(minutes.saturating_mul(60)))));
    }
    if is_set(part(2), "secure") {
        out.push_str("; secure");
    }
    if is_set(part(3), "httponly") {
        out.push_str("; HttpOnly");
    }
    if let Some(same_site) = part(4).filter(|text| !matches!(*text, "0" | "false")) {
        out.push_str(&format!("; SameSite={same_site}"));
    }
    Some(out)
}

/// The last groups of conditions that matched, and of the rule.
#[derive(Debug, Default)]
pub struct Groups {
    /// `%N`
    pub condition: Option<Captures>,
    /// `$N`
    pub rule: Option<Captures>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let flags = Flags::new(r#"[R=301,L,NC,QSA,E=a:b,"E=c:1,2",S=3,co=n:v:d]"#).unwrap();
        assert_eq!((flags.status, flags.last, flags.skip), (Some(301), true, 3));
        assert_eq!((flags.environment.len(), flags.cookies.len()), (2, 1));
        assert!(flags.appends_query && flags.ignores_case && flags.redirects());
        for wrong in ["[X]", "[R=100]", "[S=x]"] {
            assert!(Flags::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn escapes() {
        let all = Flags::new("[B]").unwrap();
        assert_eq!(all.escaped(b"a b&/_"), b"a+b%26%2f_");
        assert_eq!(Flags::new("[B=&,BNP]").unwrap().escaped(b"a b&/"), b"a b%26/");
    }

    #[test]
    fn cookies() {
        let date = |seconds: u64| seconds.to_string();
        assert_eq!(cookie(b"n:v:.example.com", 0, date).unwrap(), "n=v; path=/; domain=.example.com");
        assert_eq!(
            cookie(b";n;a:b;d;1;/x;true;1;Lax", 100, date).unwrap(),
            "n=a:b; path=/x; domain=d; expires=160; secure; HttpOnly; SameSite=Lax"
        );
        assert_eq!(cookie(b"n:v", 0, date), None);
    }
}
