//! Expressions of `<If>`, `RewriteCond expr`, `Require expr` and `Header ... expr=` (Apache's "Expressions in Apache HTTP
//! Server"). What isn't here is an error, so that a section with it can be treated as restricting.

use std::net::IpAddr;

use aws_lc_rs::digest;
use data_encoding::{BASE64, HEXLOWER};
use md5::{Digest, Md5};

use millrace_wire::network::Network;

use crate::access;
use crate::effort;
use crate::evaluate::ON_DISK;
use crate::glob::{self, Slash};
use crate::pattern::{Captures, Pattern, TooManySteps};
use crate::rewrite::{Comparison, FileTest};
use crate::rewriting::LONGEST;
use crate::template::{Values, Variable};

/// Maximum depth of parentheses and negations.
const DEEPEST: usize = 32;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// `true`, `false`
    Constant(bool),
    /// `!a`
    Not(Box<Expression>),
    /// `a && b && c`: a list, because a tree would be as deep as the text is long.
    And(Vec<Expression>),
    /// `a || b || c`
    Or(Vec<Expression>),
    /// `a == b` and the like, as texts or as integers.
    Compare(Word, Comparison, Word, bool),
    /// `a =~ m#b#`, `a !~ m#b#`
    Match(Word, Pattern, bool),
    /// `a in {'b', 'c'}`
    In(Word, Vec<Word>),
    /// `a -ipmatch 'b'`
    Address(Word, Network),
    /// `a -strmatch 'b*'`, and `-strcmatch`: without regard to case. `a -fnmatch 'b*'`: stars end at slashes.
    Glob(Word, Word, Globbing),
    /// `-n a`, `-z a`: not empty, empty.
    Empty(Word, bool),
    /// `-T a`: neither empty nor `0`, `off`, `false`, `no`.
    Truth(Word),
    /// `-f a` and the like.
    File(FileTest, Word),
    /// `-R 'network'`
    Remote(Network),
}

/// A text of an expression: pieces in sequence.
#[derive(Clone, Debug)]
pub struct Word(Vec<WordPiece>);

#[derive(Clone, Debug)]
enum WordPiece {
    Text(Vec<u8>),
    Variable(Variable),
    /// `$1`: of the last match in the expression by a pattern with groups.
    Group(usize),
    Function(Function, Box<Word>),
}

/// A function of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Field,
    Environment,
    ResponseField,
    Lower,
    Upper,
    Escape,
    Unescape,
    Base64,
    FromBase64,
    Md5,
    Sha1,
}

/// How a text is compared with a pattern that has stars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Globbing {
    /// `-strmatch`
    Text,
    /// `-strcmatch`
    AnyCase,
    /// `-fnmatch`
    Path,
}

/// What the last match in an expression has captured. As in Apache, only a pattern with groups changes it, and one that does not match
/// empties it. `None`: there was none.
type ExpressionGroups = Option<Captures>;

/// What expressions ask about beside variables.
pub trait Scope: Values {
    /// Whether an absolute path is so.
    fn file(&self, test: FileTest, path: &[u8]) -> bool;
    /// Whether an environment variable is set; it may be empty.
    fn has_variable(&self, name: &str) -> bool;
    /// The client's address.
    fn remote(&self) -> Option<IpAddr>;
    /// The header fields of the request, as rules have changed them.
    fn request_fields(&self) -> Vec<(String, Vec<u8>)>;
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is malformed, or uses what is not supported.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let expression = parser.or()?;
        parser.space();
        if parser.at < text.len() {
            return Err(format!("expression \"{text}\": can't read \"{}\"", &text[parser.at..]));
        }
        Ok(expression)
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn holds(&self, scope: &impl Scope) -> Result<bool, TooManySteps> {
        self.test(scope, &mut None)
    }

    /// The same, with what its last match by a pattern with groups has captured; `None`: it has none such.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn captures(&self, scope: &impl Scope) -> Result<(bool, Option<Captures>), TooManySteps> {
        let mut groups = None;
        Ok((self.test(scope, &mut groups)?, groups))
    }

    fn test(&self, scope: &impl Scope, groups: &mut ExpressionGroups) -> Result<bool, TooManySteps> {
        effort::spend(1)?;
        Ok(match self {
            Expression::Constant(value) => *value,
            Expression::Not(inner) => !inner.test(scope, groups)?,
            Expression::And(list) => !one_is(list, false, scope, groups)?,
            Expression::Or(list) => one_is(list, true, scope, groups)?,
            Expression::Compare(a, comparison, b, as_numbers) => {
                let (a, b) = (a.value(scope, groups), b.value(scope, groups));
                comparison.holds(if *as_numbers { number(&a).cmp(&number(&b)) } else { a.cmp(&b) })
            }
            Expression::Match(word, pattern, wanted) => {
                let text = word.value(scope, groups);
                let matches = if pattern.has_groups() {
                    let found = pattern.captures(&text)?;
                    let matches = found.is_some();
                    *groups = Some(found.unwrap_or_default());
                    matches
                } else {
                    pattern.matches(&text)?
                };
                matches == *wanted
            }
            Expression::In(word, list) => {
                let value = word.value(scope, groups);
                effort::spend(list.len())?;
                list.iter().any(|item| item.value(scope, groups) == value)
            }
            Expression::Address(word, network) => {
                let value = word.value(scope, groups);
                let address = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                address.is_some_and(|address| network.contains(address))
            }
            Expression::Glob(word, pattern, globbing) => {
                let (mut value, mut pattern) = (word.value(scope, groups), pattern.value(scope, groups));
                if *globbing == Globbing::AnyCase {
                    value.make_ascii_lowercase();
                    pattern.make_ascii_lowercase();
                }
                let slash = if *globbing == Globbing::Path { Slash::Divides } else { Slash::Plain };
                glob::matches(&pattern, &value, slash)?
            }
            Expression::Empty(word, wanted) => word.value(scope, groups).is_empty() == *wanted,
            Expression::Truth(word) => {
                let value = word.value(scope, groups).to_ascii_lowercase();
                !matches!(&value[..], b"" | b"0" | b"off" | b"false" | b"no")
            }
            Expression::File(test, word) => {
                effort::spend(ON_DISK)?;
                scope.file(*test, &word.value(scope, groups))
            }
            Expression::Remote(network) => scope.remote().is_some_and(|address| network.contains(address)),
        })
    }
}

/// Whether an expression of `list` is `wanted`; those after it are not tested.
fn one_is(
    list: &[Expression],
    wanted: bool,
    scope: &impl Scope,
    groups: &mut ExpressionGroups,
) -> Result<bool, TooManySteps> {
    for expression in list {
        if expression.test(scope, groups)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The integer at the start of a text, as C's `atoi`.
pub fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&text[..sign + digits]).unwrap_or("");
    text.parse().unwrap_or(0)
}

impl Word {
    /// Its value, as `expr=` of a header field: without a match before it.
    pub(crate) fn text(&self, scope: &impl Scope) -> Vec<u8> {
        self.value(scope, &None)
    }

    fn value(&self, scope: &impl Scope, groups: &ExpressionGroups) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            if effort::spend(1).is_err() {
                break;
            }
            match piece {
                WordPiece::Text(text) => out.extend_from_slice(text),
                WordPiece::Variable(variable) => out.extend(scope.value(variable)),
                WordPiece::Group(number) => {
                    out.extend_from_slice(groups.as_ref().map_or(&[], |groups| groups.group(*number)));
                }
                WordPiece::Function(function, word) => {
                    out.extend(function.call(scope, word.value(scope, groups)));
                }
            }
            if out.len() > 2 * LONGEST {
                effort::exhaust();
                break;
            }
        }
        out
    }

    /// Reads the inside of a quoted text, or a word.
    ///
    /// # Errors
    /// It uses what is not supported.
    pub(crate) fn new(text: &str) -> Result<Word, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        let mut plain = Vec::new();
        let behind_last = text.rfind('}').map_or(0, |at| text.len() - at);
        while !rest.is_empty() {
            let may_end = rest.starts_with("%{") && rest.len() > behind_last && behind_last > 0;
            let end = if may_end { closing(rest) } else { None };
            let digit =
                rest.strip_prefix('$').and_then(|rest| rest.bytes().next()).filter(u8::is_ascii_digit);
            if let Some(escaped) = rest.strip_prefix('\\') {
                rest = escape(escaped, &mut plain)?;
                continue;
            }
            let (piece, length) = match (end, digit) {
                (Some(end), _) => (reference(&rest[2..end])?, end + 1),
                (None, Some(digit)) => (WordPiece::Group(usize::from(digit - b'0')), 2),
                (None, None) => {
                    let c = rest.chars().next().map_or(1, char::len_utf8);
                    plain.extend_from_slice(&rest.as_bytes()[..c]);
                    rest = &rest[c..];
                    continue;
                }
            };
            if !plain.is_empty() {
                pieces.push(WordPiece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = &rest[length..];
        }
        if !plain.is_empty() {
            pieces.push(WordPiece::Text(plain));
        }
        Ok(Word(pieces))
    }
}

/// What follows a backslash in a text (util_expr_scan.l); returns the rest.
fn escape<'t>(text: &'t str, out: &mut Vec<u8>) -> Result<&'t str, String> {
    let Some(c) = text.chars().next() else {
        out.push(b'\\');
        return Ok(text);
    };
    let digits = text.bytes().take(3).take_while(|byte| (b'0'..b'8').contains(byte)).count();
    if digits > 0 {
        let code = u8::from_str_radix(&text[..digits], 8);
        out.push(code.map_err(|_| format!("the escape sequence \\{} is too large", &text[..digits]))?);
        return Ok(&text[digits..]);
    }
    let control = [('n', b'\n'), ('r', b'\r'), ('t', b'\t'), ('b', 8), ('f', 12)];
    match control.iter().find(|(name, _)| *name == c) {
        Some((_, byte)) => out.push(*byte),
        None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    Ok(&text[c.len_utf8()..])
}

/// The length of the text up to its closing quote, which a backslash may escape.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// Where the brace is closed that a text begins with, behind those of inner references.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        if depth > DEEPEST {
            return None;
        }
    }
    None
}

/// What stands between `%{` and `}`.
fn reference(name: &str) -> Result<WordPiece, String> {
    let upper = name.to_ascii_uppercase();
    if let Some((function, argument)) = name.split_once(':')
        && !["HTTP", "ENV"].contains(&function.to_ascii_uppercase().as_str())
    {
        return Ok(WordPiece::Function(Function::new(function)?, Box::new(Word::new(argument)?)));
    }
    const NOT_HERE: [&str; 5] = ["REMOTE_IDENT", "HANDLER", "RESOURCE", "CONN_LOG_ID", "REQUEST_LOG_ID"];
    if NOT_HERE.contains(&upper.as_str()) {
        return Err(format!("the variable {name} is not supported in expressions"));
    }
    Ok(WordPiece::Variable(Variable::new(name)))
}

impl Function {
    fn new(name: &str) -> Result<Function, String> {
        Ok(match name {
            "http" | "req" | "req_novary" => Function::Field,
            "env" | "reqenv" | "note" | "osenv" => Function::Environment,
            "resp" => Function::ResponseField,
            "tolower" => Function::Lower,
            "toupper" => Function::Upper,
            "escape" => Function::Escape,
            "unescape" => Function::Unescape,
            "base64" => Function::Base64,
            "unbase64" => Function::FromBase64,
            "md5" => Function::Md5,
            "sha1" => Function::Sha1,
            _ => return Err(format!("the function {name} is not supported in expressions")),
        })
    }

    fn call(self, scope: &impl Scope, argument: Vec<u8>) -> Vec<u8> {
        let name = || String::from_utf8_lossy(&argument).into_owned();
        match self {
            Function::Field => scope.value(&Variable::Field(name())),
            Function::Environment => scope.value(&Variable::Environment(name())),
            Function::ResponseField => scope.value(&Variable::ResponseField(name())),
            Function::Lower => argument.to_ascii_lowercase(),
            Function::Upper => argument.to_ascii_uppercase(),
            Function::Escape => crate::escape::path(&argument),
            Function::Unescape => crate::escape::decode(&argument).unwrap_or_default(),
            Function::Base64 => BASE64.encode(&argument).into_bytes(),
            Function::FromBase64 => BASE64.decode(&argument).unwrap_or_default(),
            Function::Md5 => HEXLOWER.encode(&Md5::digest(&argument)).into_bytes(),
            Function::Sha1 => {
                let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &argument);
                HEXLOWER.encode(sum.as_ref()).into_bytes()
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// Binary operators on words, the longer ones first.
const COMPARISONS: [(&str, Comparison, bool); 19] = [
    ("==", Comparison::Equal, false),
    ("!=", Comparison::NotEqual, false),
    ("<=", Comparison::AtMost, false),
    (">=", Comparison::AtLeast, false),
    ("<", Comparison::Less, false),
    (">", Comparison::Greater, false),
    ("-eq", Comparison::Equal, true),
    ("eq", Comparison::Equal, true),
    ("-ne", Comparison::NotEqual, true),
    ("ne", Comparison::NotEqual, true),
    ("-lt", Comparison::Less, true),
    ("lt", Comparison::Less, true),
    ("-le", Comparison::AtMost, true),
    ("le", Comparison::AtMost, true),
    ("-gt", Comparison::Greater, true),
    ("gt", Comparison::Greater, true),
    ("-ge", Comparison::AtLeast, true),
    ("ge", Comparison::AtLeast, true),
    ("=", Comparison::Equal, false),
];

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn fail<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("expression \"{}\": {what} at \"{}\"", self.text, self.rest()))
    }

    /// Takes `token` if it is next; a token of letters must be a word of its own.
    fn take(&mut self, token: &str) -> bool {
        self.space();
        let Some(after) = self.rest().strip_prefix(token) else { return false };
        let is_word = token.ends_with(|c: char| c.is_ascii_alphabetic());
        if is_word && after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return false;
        }
        self.at += token.len();
        true
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut list = vec![self.and()?];
        while self.take("||") || self.take("or") {
            list.push(self.and()?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Expression::Or(list) })
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut list = vec![self.term()?];
        while self.take("&&") || self.take("and") {
            list.push(self.term()?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Expression::And(list) })
    }

    fn term(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.fail("nested too deeply");
        }
        let expression = self.inner_term();
        self.depth -= 1;
        expression
    }

    fn inner_term(&mut self) -> Result<Expression, String> {
        if self.take("!") || self.take("not") {
            return Ok(Expression::Not(Box::new(self.term()?)));
        }
        if self.take("(") {
            let inner = self.or()?;
            return if self.take(")") { Ok(inner) } else { self.fail("\")\" is missing") };
        }
        if self.take("true") {
            return Ok(Expression::Constant(true));
        }
        if self.take("false") {
            return Ok(Expression::Constant(false));
        }
        self.space();
        let bytes = self.rest().as_bytes();
        if let [b'-', letter, b' ' | b'\t' | b'\'' | b'"' | b'%', ..] = bytes
            && letter.is_ascii_alphabetic()
        {
            let letter = *letter;
            self.at += 2;
            return self.unary(letter);
        }
        let word = self.word()?;
        self.binary(word)
    }

    fn unary(&mut self, letter: u8) -> Result<Expression, String> {
        let word = self.word()?;
        let file = |test, word| Ok(Expression::File(test, word));
        match letter {
            b'f' => file(FileTest::File, word),
            b'd' => file(FileTest::Directory, word),
            b'e' => file(FileTest::Exists, word),
            b's' => file(FileTest::NotEmpty, word),
            b'L' | b'h' => file(FileTest::Link, word),
            b'x' => file(FileTest::Executable, word),
            b'F' | b'U' | b'A' => file(FileTest::Url, word),
            b'n' => Ok(Expression::Empty(word, false)),
            b'z' => Ok(Expression::Empty(word, true)),
            b'T' => Ok(Expression::Truth(word)),
            b'R' => Ok(Expression::Remote(access::network(&constant(&word)?)?)),
            _ => self.fail("this test is not supported"),
        }
    }

    fn binary(&mut self, word: Word) -> Result<Expression, String> {
        for (operator, wanted) in [("=~", true), ("!~", false)] {
            if self.take(operator) {
                return Ok(Expression::Match(word, self.pattern()?, wanted));
            }
        }
        if self.take("-in") || self.take("in") {
            return self.list(word);
        }
        if self.take("-ipmatch") {
            let network = constant(&self.word()?)?;
            return Ok(Expression::Address(word, access::network(&network)?));
        }
        for (operator, globbing) in
            [("-strcmatch", Globbing::AnyCase), ("-strmatch", Globbing::Text), ("-fnmatch", Globbing::Path)]
        {
            if self.take(operator) {
                return Ok(Expression::Glob(word, self.word()?, globbing));
            }
        }
        for (operator, comparison, as_numbers) in COMPARISONS {
            if self.take(operator) {
                return Ok(Expression::Compare(word, comparison, self.word()?, as_numbers));
            }
        }
        self.fail("an operator is missing")
    }

    fn list(&mut self, word: Word) -> Result<Expression, String> {
        if !self.take("{") {
            return self.fail("\"{\" is missing");
        }
        let mut items = vec![self.word()?];
        while self.take(",") {
            items.push(self.word()?);
        }
        if self.take("}") { Ok(Expression::In(word, items)) } else { self.fail("\"}\" is missing") }
    }

    /// `/expression/i` or `m#expression#i`.
    fn pattern(&mut self) -> Result<Pattern, String> {
        self.space();
        let rest = self.rest();
        let body = rest.strip_prefix('m').unwrap_or(rest);
        let Some(delimiter) = body.chars().next().filter(|c| c.is_ascii_punctuation()) else {
            return self.fail("a regular expression is missing");
        };
        let Some(end) = body[1..].find(delimiter) else {
            return self.fail("the regular expression has no end");
        };
        let (pattern, after) = (&body[1..=end], &body[end + 2..]);
        let flags = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        self.at = self.text.len() - after.len() + flags;
        Pattern::new(pattern, after[..flags].contains('i'))
    }

    /// A quoted text, a variable, a number or a bare word.
    fn word(&mut self) -> Result<Word, String> {
        self.space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return self.fail("a value is missing") };
        if matches!(first, '\'' | '"') {
            let Some(end) = quoted(&rest[1..], first) else { return self.fail("a quote is not closed") };
            self.at += end + 2;
            return Word::new(&rest[1..=end]);
        }
        let length = if rest.starts_with("%{") {
            closing(rest).map(|end| end + 1)
        } else {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '$');
            Some(rest.find(|c| !is_part(c)).unwrap_or(rest.len())).filter(|length| *length > 0)
        };
        let Some(length) = length else { return self.fail("a value is missing") };
        self.at += length;
        let word = &rest[..length];
        match word.split_once(':').filter(|_| rest[length..].starts_with('(')) {
            Some(_) => self.fail("this function is not supported"),
            None if rest[length..].starts_with('(') => self.call(word),
            None => Word::new(word),
        }
    }

    /// `function('argument')`
    fn call(&mut self, name: &str) -> Result<Word, String> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.fail("nested too deeply");
        }
        let argument = self.word()?;
        self.depth -= 1;
        if !self.take(")") {
            return self.fail("\")\" is missing");
        }
        Ok(Word(vec![WordPiece::Function(Function::new(name)?, Box::new(argument))]))
    }
}

/// The text of a word without references.
fn constant(word: &Word) -> Result<String, String> {
    match &word.0[..] {
        [WordPiece::Text(text)] => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err("an address in an expression must be a constant".to_owned()),
    }
}
