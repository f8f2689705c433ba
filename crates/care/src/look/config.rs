//! `wp-config.php`, read and never run: a site's code must not run with the rights of the doctor.
//!
//! Only constants with literal values are understood; of others it is known that they are computed.

use std::collections::BTreeMap;

/// The constants and the table prefix of a `wp-config.php`.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    constants: BTreeMap<String, Constant>,
    /// `$table_prefix`.
    pub prefix: Option<String>,
}

/// The value of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// A text, or a number as it is written.
    Text(String),
    /// `true` or `false`.
    Is(bool),
    /// An expression.
    Computed,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

impl Config {
    /// Reads the text of the file.
    pub fn read(text: &str) -> Config {
        let tokens = tokens(text);
        let mut config = Config::default();
        for at in 0..tokens.len() {
            match &tokens[at..] {
                [Token::Word(define), Token::Sign('('), Token::Text(name), Token::Sign(','), rest @ ..]
                    if define.eq_ignore_ascii_case("define") =>
                {
                    // The first definition of a constant holds.
                    config.constants.entry(name.clone()).or_insert_with(|| constant(rest));
                }
                [Token::Word(name), Token::Sign('='), Token::Text(value), Token::Sign(';'), ..]
                    if name == "$table_prefix" =>
                {
                    config.prefix = Some(value.clone());
                }
                _ => {}
            }
        }
        config
    }

    /// A constant.
    pub fn get(&self, name: &str) -> Option<&Constant> {
        self.constants.get(name)
    }

    /// A constant's text; an error if it is computed.
    ///
    /// # Errors
    /// The name, if its value is an expression.
    pub fn text(&self, name: &'static str) -> Result<Option<&str>, &'static str> {
        match self.get(name) {
            None | Some(Constant::Is(false)) => Ok(None),
            Some(Constant::Text(text)) => Ok(Some(text)),
            Some(Constant::Is(true)) => Ok(Some("1")),
            Some(Constant::Computed) => Err(name),
        }
    }

    /// Whether a constant is on, as PHP sees it.
    pub fn is_on(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Constant::Is(is)) => *is,
            Some(Constant::Text(text)) => !matches!(text.as_str(), "" | "0"),
            _ => false,
        }
    }
}

fn constant(rest: &[Token]) -> Constant {
    match rest {
        [Token::Text(text), Token::Sign(')'), ..] => Constant::Text(text.clone()),
        [Token::Word(word), Token::Sign(')'), ..] => match word.to_ascii_lowercase().as_str() {
            "true" => Constant::Is(true),
            "false" | "null" => Constant::Is(false),
            number if number.parse::<f64>().is_ok() => Constant::Text(number.to_owned()),
            _ => Constant::Computed,
        },
        _ => Constant::Computed,
    }
}

/// Words, texts and signs of PHP; comments and spaces are left out.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '#' if !rest.starts_with("#[") => until_line(rest),
            '/' if rest.starts_with("//") => until_line(rest),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '\'' | '"' => {
                let (value, length) = quoted(rest, first);
                tokens.push(match value {
                    Some(value) => Token::Text(value),
                    None => Token::Word("\"...\"".to_owned()),
                });
                length
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '$') => {
                let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            c if c.is_whitespace() => c.len_utf8(),
            c => {
                tokens.push(Token::Sign(c));
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    tokens
}

fn until_line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// A quoted text and its length with the quotes; no value if it contains variables.
fn quoted(text: &str, quote: char) -> (Option<String>, usize) {
    let mut value = String::new();
    let mut is_literal = true;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return (is_literal.then_some(value), at + 1),
            '\\' => match chars.next() {
                Some((_, next)) if next == quote || matches!(next, '\\' | '$') => value.push(next),
                // Other escapes of double quotes, such as \n, are rare in a configuration: not understood.
                Some((_, next)) => {
                    is_literal &= quote == '\'';
                    value.extend(['\\', next]);
                }
                None => {}
            },
            '$' if quote == '"' => is_literal = false,
            c => value.push(c),
        }
    }
    (None, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_one() {
        let config = Config::read(
            "<?php\n// define('DB_NAME', 'old');\n/* define('DB_NAME', 'older'); */\n# define('DB_NAME', 'oldest');\n\
             define( 'DB_NAME', 'shop' );\ndefine('DB_NAME', 'second');\ndefine(\"DB_PASSWORD\", 'a\\'b\\\\c$d');\n\
             define('DB_HOST', getenv('H'));\ndefine('WP_DEBUG', TRUE);\ndefine('WP_POST_REVISIONS', 5);\n\
             define('DB_USER', \"$user\");\ndefine( 'DB_DIR', __DIR__ . '/x' );\n$table_prefix = 'wp9_';\n",
        );
        assert_eq!(config.text("DB_NAME"), Ok(Some("shop")));
        assert_eq!(config.text("DB_PASSWORD"), Ok(Some("a'b\\c$d")));
        assert_eq!((config.text("DB_HOST"), config.text("DB_USER")), (Err("DB_HOST"), Err("DB_USER")));
        assert_eq!(config.get("DB_DIR"), Some(&Constant::Computed));
        assert!(config.is_on("WP_DEBUG") && config.is_on("WP_POST_REVISIONS") && !config.is_on("WP_CACHE"));
        assert_eq!(config.prefix.as_deref(), Some("wp9_"));
    }

    #[test]
    fn torn_ones_are_no_panic() {
        for text in ["", "<?php define('", "define(", "define('A',", "/*", "'\\", "\"é$", "$table_prefix = "]
        {
            let config = Config::read(text);
            assert_eq!(config.prefix, None, "{text}");
        }
    }
}
