//! The lines of a configuration file: continuation lines joined, comments dropped, sections nested; and the words of a
//! line. As `ap_cfg_getline`, `ap_getword_conf` and mod_rewrite's `parseargline` read them.

use std::fmt;

/// Maximum depth of nested sections: deeper ones serve nobody, and the reader is recursive.
const DEEPEST: usize = 32;

/// A directive as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of its first line, from 1.
    pub number: u32,
    /// Its name in lower case.
    pub name: String,
    /// The rest of the line.
    pub rest: String,
}

/// A directive, or a section with what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A directive.
    Directive(Line),
    /// `<Name rest> items </Name>`
    Section(Line, Vec<Item>),
}

/// The file is no configuration; Apache answers 500 then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line number.
    pub line: u32,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Reads a file.
///
/// # Errors
/// A section is not closed, not open, or nested too deeply.
pub fn read(text: &str) -> Result<Vec<Item>, SyntaxError> {
    let mut open: Vec<(Line, Vec<Item>)> = Vec::new();
    let mut items = Vec::new();
    for (number, text) in logical_lines(text) {
        let error = |text: String| Err(SyntaxError { line: number, text });
        if let Some(name) = text.strip_prefix("</") {
            let name = name.trim_end().strip_suffix('>').unwrap_or(name).trim().to_ascii_lowercase();
            let Some((line, outer)) = open.pop() else { return error(format!("</{name}> without <{name}>")) };
            if line.name != name {
                return error(format!("</{name}> where </{}> of line {} is due", line.name, line.number));
            }
            let inner = std::mem::replace(&mut items, outer);
            items.push(Item::Section(line, inner));
        } else if let Some(section) = text.strip_prefix('<') {
            let Some(section) = section.trim_end().strip_suffix('>') else {
                return error(format!("<{section} lacks its \">\""));
            };
            if open.len() >= DEEPEST {
                return error(format!("sections nested more than {DEEPEST} deep"));
            }
            open.push((line(number, section), std::mem::take(&mut items)));
        } else {
            items.push(Item::Directive(line(number, &text)));
        }
    }
    match open.pop() {
        None => Ok(items),
        Some((line, _)) => {
            Err(SyntaxError { line: line.number, text: format!("<{}> is not closed", line.name) })
        }
    }
}

fn line(number: u32, text: &str) -> Line {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Line { number, name: text[..end].to_ascii_lowercase(), rest: text[end..].trim().to_owned() }
}

/// Lines with their continuations (a backslash at the end), trimmed, without empty ones and comments.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, part) in (1..).zip(text.split('\n')) {
        let part = part.strip_suffix('\r').unwrap_or(part);
        let (start, mut joined) = open.take().unwrap_or((number, String::new()));
        match part.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                open = Some((start, joined));
            }
            None => {
                joined.push_str(part);
                lines.push((start, joined));
            }
        }
    }
    lines.extend(open);
    let trimmed = lines.into_iter().map(|(number, line)| (number, line.trim().to_owned()));
    trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The first word of `text`, without quotes and their escapes, and the rest.
pub fn word(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let first = text.chars().next()?;
    let quote = Some(first).filter(|c| matches!(c, '"' | '\''));
    let body = if quote.is_some() { &text[1..] } else { text };
    let (mut out, mut chars) = (String::new(), body.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote {
            return Some((out, body[at + 1..].trim_start()));
        }
        if quote.is_none() && c.is_whitespace() {
            return Some((out, body[at..].trim_start()));
        }
        let escaped = chars.peek().map(|(_, next)| *next).filter(|n| *n == '\\' || Some(*n) == quote);
        match escaped.filter(|_| c == '\\') {
            Some(next) => {
                out.push(next);
                chars.next();
            }
            None => out.push(c),
        }
    }
    Some((out, ""))
}

/// All words of `text`.
pub fn words(text: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), text);
    while let Some((word, after)) = word(rest) {
        words.push(word);
        rest = after;
    }
    words
}

/// Up to three arguments of a RewriteRule or RewriteCond: quoted as a whole, and nothing is unescaped.
pub fn rewrite_arguments(text: &str) -> Vec<&str> {
    let (mut arguments, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() && arguments.len() < 3 {
        let bytes = rest.as_bytes();
        let quote = Some(bytes[0]).filter(|b| matches!(b, b'"' | b'\''));
        let start = usize::from(quote.is_some());
        let mut end = start;
        while end < bytes.len() {
            let is_end = match quote {
                Some(quote) => bytes[end] == quote,
                None => bytes[end].is_ascii_whitespace(),
            };
            if is_end {
                break;
            }
            let skips = bytes[end] == b'\\' && bytes.get(end + 1).is_some_and(u8::is_ascii_whitespace);
            end += if skips { 2 } else { 1 };
        }
        let end = end.min(bytes.len());
        arguments.push(&rest[start..end]);
        rest = rest.get(end + usize::from(quote.is_some())..).unwrap_or("").trim_start();
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_continue_and_sections_nest() {
        let items =
            read("# c \\\n still c\nA 1 \\\n 2\r\n<IfModule x>\n<Files y>\nB\n</files>\n</IfModule>\n");
        let [Item::Directive(a), Item::Section(outer, inner)] = &items.unwrap()[..] else { panic!() };
        assert_eq!((a.number, a.name.as_str(), a.rest.as_str()), (3, "a", "1  2"));
        assert_eq!((outer.name.as_str(), outer.rest.as_str()), ("ifmodule", "x"));
        assert!(matches!(&inner[..], [Item::Section(files, _)] if files.rest == "y"));
    }

    #[test]
    fn broken_files_say_where() {
        for (text, line) in [("<A>\n", 1), ("x\n</A>", 2), ("<A>\n<B>\n</A>", 3), ("<A", 1)] {
            assert_eq!(read(text).unwrap_err().line, line, "{text}");
        }
        assert!(read(&"<A>\n".repeat(100)).unwrap_err().text.contains("nested"));
    }

    #[test]
    fn words_are_quoted_as_in_apache() {
        assert_eq!(
            words(r#"a "b \"c\" d" 'e "f"' g\\h i\j "k"#),
            ["a", "b \"c\" d", "e \"f\"", "g\\h", "i\\j", "k"]
        );
        assert_eq!(rewrite_arguments(r#""a b" c\ d [R,L] x"#), ["a b", r"c\ d", "[R,L]"]);
        assert_eq!(rewrite_arguments("a\\ "), ["a\\ "]);
    }
}
