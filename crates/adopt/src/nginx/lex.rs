//! nginx's syntax: directives, blocks, quoting, includes (`ngx_conf_file.c`).

use std::path::Path;
use std::sync::Arc;

use crate::files::{DEEPEST_INCLUDE, Files, found};
use crate::value::{Notes, Place, Source};

/// Maximum depth of nested blocks.
const DEEPEST_BLOCK: usize = 32;

/// A directive with its arguments, and its block if it has one.
#[derive(Clone, Debug)]
pub struct Directive {
    pub name: String,
    pub args: Vec<String>,
    pub block: Option<Vec<Directive>>,
    pub source: Source,
}

impl Directive {
    /// An argument; empty if it is missing.
    pub fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// With its block, in one line.
    pub fn whole(&self) -> Source {
        let mut source = self.source.clone();
        if let Some(block) = &self.block {
            let inner: String = block.iter().map(|inner| format!("{}; ", inner.whole().text)).collect();
            source.text = format!("{} {{ {inner}}}", source.text);
        }
        source
    }

    /// The directives of its block.
    pub fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Files that come with nginx. Millrace needs none of them: it does what they say by itself.
const KNOWN_INCLUDES: &[(&str, &str)] = &[
    ("mime.types", "Millrace knows the media types of files"),
    ("fastcgi_params", "Millrace sets PHP's variables"),
    ("fastcgi.conf", "Millrace sets PHP's variables"),
    ("fastcgi-php.conf", "Millrace sets PHP's variables, and splits PATH_INFO"),
    ("uwsgi_params", "Millrace passes requests by HTTP or FastCGI"),
    ("scgi_params", "Millrace passes requests by HTTP or FastCGI"),
    ("proxy_params", "Millrace tells an application the host, the client's address and the scheme"),
    ("options-ssl-nginx.conf", "Millrace has TLS 1.2 and 1.3 with secure ciphers"),
    ("modules-enabled", "Millrace has no modules"),
];

/// Reads the file and those that it includes.
///
/// # Errors
/// The file can't be read, or is no configuration.
pub fn read(path: &Path, files: &dyn Files, notes: &mut Notes) -> Result<Vec<Directive>, String> {
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    Includes { files, base: &base, notes }.file(path, 0)
}

struct Includes<'a> {
    files: &'a dyn Files,
    /// The folder of the first file: names of included files start there.
    base: &'a Path,
    notes: &'a mut Notes,
}

impl Includes<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, String> {
        let text =
            self.files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut words = Words { text: &text, at: 0, line: 1, file: path.to_string_lossy().into() };
        let directives = block(&mut words, 0)?;
        self.included(directives, depth)
    }

    /// Puts the content of included files in the place of `include`.
    fn included(&mut self, directives: Vec<Directive>, depth: usize) -> Result<Vec<Directive>, String> {
        let mut all = Vec::new();
        for mut directive in directives {
            if directive.name != "include" {
                if let Some(inner) = directive.block.take() {
                    directive.block = Some(self.included(inner, depth)?);
                }
                all.push(directive);
                continue;
            }
            let name = directive.arg(0);
            if let Some((_, why)) = KNOWN_INCLUDES.iter().find(|(known, _)| name.contains(known)) {
                self.notes.needless(&directive.source, *why);
                continue;
            }
            if depth >= DEEPEST_INCLUDE {
                return Err(format!(
                    "{}: includes nested more than {DEEPEST_INCLUDE} deep",
                    directive.source.place
                ));
            }
            let found = found(self.files, self.base, name);
            if found.is_empty() && !name.contains('*') {
                self.notes.lost(
                    &directive.source,
                    "there is no such file: adopt the configuration on the machine that has it",
                );
                continue;
            }
            self.notes.carried(&directive.source);
            for path in found {
                all.extend(self.file(&path, depth + 1)?);
            }
        }
        Ok(all)
    }
}

/// The directives up to the end of the block.
fn block(words: &mut Words<'_>, depth: usize) -> Result<Vec<Directive>, String> {
    if depth > DEEPEST_BLOCK {
        return Err(format!("{}: blocks nested more than {DEEPEST_BLOCK} deep", words.place()));
    }
    let mut directives = Vec::new();
    let mut line: Vec<String> = Vec::new();
    let mut place = words.place();
    while let Some(token) = words.next()? {
        match token {
            Token::Word(word) => {
                if line.is_empty() {
                    place = words.place();
                }
                line.push(word);
            }
            Token::End | Token::Open if line.is_empty() => {
                // Harmless, and common after a block: `};`
                if matches!(token, Token::Open) {
                    return Err(format!("{}: a block without a name", words.place()));
                }
            }
            Token::End => directives.push(directive(&mut line, None, &place)),
            Token::Open => {
                let inner = if line[0].ends_with("_by_lua_block") || line[0] == "perl_set" {
                    words.skip_block()?;
                    Vec::new()
                } else {
                    block(words, depth + 1)?
                };
                directives.push(directive(&mut line, Some(inner), &place));
            }
            Token::Close if depth == 0 => return Err(format!("{}: a closing brace too many", words.place())),
            Token::Close if !line.is_empty() => {
                return Err(format!("{place}: {} lacks its semicolon", line[0]));
            }
            Token::Close => return Ok(directives),
        }
    }
    match (depth, line.first()) {
        (_, Some(name)) => Err(format!("{place}: {name} lacks its semicolon")),
        (0, None) => Ok(directives),
        _ => Err(format!("{}: the file ends within a block", words.place())),
    }
}

fn directive(line: &mut Vec<String>, block: Option<Vec<Directive>>, place: &Place) -> Directive {
    let text = line.join(" ");
    let mut words = std::mem::take(line).into_iter();
    let name = words.next().unwrap_or_default();
    Directive { name, args: words.collect(), block, source: Source { place: place.clone(), text } }
}

enum Token {
    Word(String),
    End,
    Open,
    Close,
}

struct Words<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    file: Arc<str>,
}

impl Words<'_> {
    fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += u32::from(c == '\n');
        Some(c)
    }

    fn next(&mut self) -> Result<Option<Token>, String> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some('#') => while self.bump().is_some_and(|c| c != '\n') {},
                Some(c) if c.is_whitespace() => {
                    self.bump();
                }
                Some(';') => {
                    self.bump();
                    return Ok(Some(Token::End));
                }
                Some('{') => {
                    self.bump();
                    return Ok(Some(Token::Open));
                }
                Some('}') => {
                    self.bump();
                    return Ok(Some(Token::Close));
                }
                Some(quote @ ('"' | '\'')) => {
                    self.bump();
                    return self.quoted(quote).map(|word| Some(Token::Word(word)));
                }
                Some(_) => return Ok(Some(Token::Word(self.plain()))),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let (begin, mut word) = (self.place(), String::new());
        while let Some(c) = self.bump() {
            match c {
                '\\' => self.escape(&mut word),
                c if c == quote => return Ok(word),
                c => word.push(c),
            }
        }
        Err(format!("{begin}: a quote has no end"))
    }

    fn plain(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            // `${name}` is a variable, any other brace begins a block.
            if c.is_whitespace() || c == ';' || (c == '{' && !word.ends_with('$')) {
                break;
            }
            self.bump();
            if c == '\\' { self.escape(&mut word) } else { word.push(c) }
        }
        word
    }

    /// What follows a backslash: only quotes, backslashes and white space lose it.
    fn escape(&mut self, word: &mut String) {
        match self.bump() {
            Some(c @ ('"' | '\'')) => word.push(c),
            Some('\\') => word.push_str("\\\\"),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }

    /// Skips a block of Lua, up to its closing brace: braces in strings and comments do not count.
    fn skip_block(&mut self) -> Result<(), String> {
        let (begin, mut depth) = (self.place(), 1);
        while let Some(c) = self.bump() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => {
                    self.quoted(c)?;
                }
                '-' if self.peek() == Some('-') => while self.bump().is_some_and(|c| c != '\n') {},
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(format!("{begin}: the file ends within a block"))
    }
}
