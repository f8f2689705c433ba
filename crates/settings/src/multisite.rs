//! Whether a WordPress is a network of sites (multisite), read from its `wp-config.php`.
//!
//! WordPress decides it by constants (`is_multisite()` in wp-includes/load.php, `is_subdomain_install()` in
//! wp-includes/ms-load.php). The file is a program; only `define('NAME', value)` and `const NAME = value` are read, outside of
//! comments and strings, and the first of a name counts, as in PHP.

use crate::plan::Multisite;

/// The constants that matter.
const NAMES: [&str; 4] = ["MULTISITE", "SUBDOMAIN_INSTALL", "VHOST", "SUNRISE"];

/// The network that the text of a `wp-config.php` describes; [`Multisite::Off`]: it is a single site.
#[must_use]
pub fn multisite(config: &[u8]) -> Multisite {
    let found = constants(config);
    let [multisite, subdomain, vhost, sunrise] = found.each_ref().map(Option::as_deref);
    // As in is_multisite(): the old constants make a network, too.
    let is_network = multisite.map_or(subdomain.or(vhost).or(sunrise).is_some(), is_true);
    let by_name = subdomain.map_or_else(|| vhost.is_some_and(|word| word == b"yes"), is_true);
    match (is_network, by_name) {
        (false, _) => Multisite::Off,
        (true, false) => Multisite::Subfolder,
        (true, true) => Multisite::Subdomain,
    }
}

/// The directory of WordPress itself below the root, with a slash at the end; empty for the root. `index` is the text of the
/// root's `index.php`.
#[must_use]
pub fn own_folder(index: &[u8]) -> &[u8] {
    let mut tokens = Tokens { text: index };
    while let Some(token) = tokens.next() {
        if let Token::Text(file) = token
            && let Some(folder) = file.strip_suffix(b"wp-blog-header.php")
        {
            let folder = folder.strip_prefix(b".").unwrap_or(folder);
            let folder = folder.strip_prefix(b"/").unwrap_or(folder);
            // A path that leaves the root is not below it.
            let is_below =
                !folder.windows(2).any(|pair| pair == b".." || pair == b"//") && !folder.starts_with(b"/");
            return if is_below { folder } else { b"" };
        }
    }
    b""
}

/// Whether PHP takes a literal for true. An expression - a call, a variable - counts as true, because it can be.
fn is_true(value: &[u8]) -> bool {
    !matches!(value.to_ascii_lowercase().as_slice(), b"" | b"false" | b"0" | b"null")
}

/// The values of [`NAMES`], as written, without quotes.
fn constants(config: &[u8]) -> [Option<Vec<u8>>; NAMES.len()] {
    let mut found = [const { None }; NAMES.len()];
    let mut tokens = Tokens { text: config };
    while let Some(token) = tokens.next() {
        let (name, between) = match token {
            Token::Word(word) if word.eq_ignore_ascii_case(b"define") && tokens.take(b"(") => {
                let Some(Token::Text(name)) = tokens.next() else { continue };
                (name, &b","[..])
            }
            Token::Word(word) if word.eq_ignore_ascii_case(b"const") => {
                let Some(Token::Word(name)) = tokens.next() else { continue };
                (name, &b"="[..])
            }
            _ => continue,
        };
        let Some(at) = NAMES.iter().position(|known| known.as_bytes() == name) else { continue };
        if tokens.take(between) && found[at].is_none() {
            found[at] = match tokens.next() {
                Some(Token::Text(value) | Token::Word(value)) => Some(value.to_vec()),
                Some(Token::Other) => Some(b"?".to_vec()),
                None => None,
            };
        }
    }
    found
}

/// A piece of PHP.
#[derive(Clone, Copy)]
enum Token<'a> {
    /// A name or a number.
    Word(&'a [u8]),
    /// The text between quotes.
    Text(&'a [u8]),
    /// Any other character.
    Other,
}

/// The tokens of a PHP file. Text outside of `<?php ?>` counts as PHP, too: this file has none.
struct Tokens<'a> {
    text: &'a [u8],
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.skip();
        let (&first, rest) = self.text.split_first()?;
        if first == b'\'' || first == b'"' {
            let end = end_of_text(rest, first);
            self.text = rest.get(end + 1..).unwrap_or_default();
            return Some(Token::Text(&rest[..end]));
        }
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = self.text.iter().take_while(|byte| is_word(byte)).count();
        let (token, rest) = self.text.split_at(length.max(1));
        self.text = rest;
        Some(if length > 0 { Token::Word(token) } else { Token::Other })
    }

    /// Takes this character, if it is next.
    fn take(&mut self, character: &[u8]) -> bool {
        self.skip();
        let rest = self.text.strip_prefix(character);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Skips spaces and comments.
    fn skip(&mut self) {
        loop {
            self.text = self.text.trim_ascii_start();
            let end = match self.text {
                [b'#', b'[', ..] => return,
                [b'#', ..] | [b'/', b'/', ..] => {
                    self.text.iter().position(|byte| matches!(byte, b'\n' | b'\r'))
                }
                [b'/', b'*', rest @ ..] => rest.windows(2).position(|pair| pair == b"*/").map(|at| at + 4),
                _ => return,
            };
            self.text = &self.text[end.unwrap_or(self.text.len())..];
        }
    }
}

/// Where a text ends that started with this quote.
fn end_of_text(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_wordpress_has_its_users_write_it() {
        let text = b"<?php\ndefine( 'WP_ALLOW_MULTISITE', true );\ndefine( 'MULTISITE', true );\n\
            define( 'SUBDOMAIN_INSTALL', false );\ndefine( 'DOMAIN_CURRENT_SITE', 'example.com' );\n\
            define( 'PATH_CURRENT_SITE', '/' );\nrequire_once ABSPATH . 'wp-settings.php';";
        assert_eq!(multisite(text), Multisite::Subfolder);
        let subdomain = String::from_utf8_lossy(text).replace("false", "true");
        assert_eq!(multisite(subdomain.as_bytes()), Multisite::Subdomain);
    }

    #[test]
    fn a_single_site() {
        for text in [
            &b""[..],
            b"<?php define('DB_NAME', 'a');",
            // Allowed to become one.
            b"<?php define('WP_ALLOW_MULTISITE', true);",
            b"<?php define('MULTISITE', false); define('SUBDOMAIN_INSTALL', true);",
            b"<?php define('MULTISITE', 0);",
            b"<?php define('MULTISITE', '');",
            b"<?php // define('MULTISITE', true);\n# define('MULTISITE', true);\n/* define('MULTISITE', true); */",
            b"<?php define('AUTH_KEY', 'x define(\\'MULTISITE\\', true);');",
            b"<?php define('AUTH_KEY', '// \\\\'); define('MULTISITE', FALSE);",
            b"<?php define('MULTISITE",
            b"<?php define('MULTISITE',",
            b"<?php /* define('MULTISITE', true);",
            b"<?php undefine('MULTISITE', true); define(MULTISITE, true);",
        ] {
            assert_eq!(multisite(text), Multisite::Off, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn in_other_words() {
        for (text, found) in [
            (&b"<?php define(\"MULTISITE\",true);"[..], Multisite::Subfolder),
            (b"<?php DEFINE ( 'MULTISITE' , TRUE ) ;", Multisite::Subfolder),
            (b"<?php const MULTISITE = 1; const SUBDOMAIN_INSTALL = true;", Multisite::Subdomain),
            (b"<?php Config::define('MULTISITE', true);", Multisite::Subfolder),
            (b"<?php define('MULTISITE', getenv('NETWORK') === '1');", Multisite::Subfolder),
            (b"<?php define('MULTISITE', /* yes */ true); define('MULTISITE', false);", Multisite::Subfolder),
            // Before WordPress 3.0, and with a program that maps domains.
            (b"<?php define('VHOST', 'yes');", Multisite::Subdomain),
            (b"<?php define('VHOST', 'no');", Multisite::Subfolder),
            (b"<?php define('SUNRISE', 'on');", Multisite::Subfolder),
            (b"<?php #[Attribute]\ndefine('MULTISITE', true);", Multisite::Subfolder),
            (
                b"\xef\xbb\xbf<?php define('WP_HOME', 'http://a/'); define('MULTISITE', true);",
                Multisite::Subfolder,
            ),
        ] {
            assert_eq!(multisite(text), found, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn wordpress_in_a_folder_of_its_own() {
        for (index, folder) in [
            (&b"<?php\n/** Loads require 'x/wp-blog-header.php' */\nrequire __DIR__ . '/wp-blog-header.php';"[..], ""),
            (b"<?php require __DIR__ . '/wordpress/wp-blog-header.php';", "wordpress/"),
            (b"<?php require( './wp/wp-blog-header.php' );", "wp/"),
            (b"<?php require 'a/b/wp-blog-header.php';", "a/b/"),
            (b"<?php require __DIR__ . '/../wp/wp-blog-header.php';", ""),
            (b"<?php echo 1;", ""),
            (b"", ""),
        ] {
            assert_eq!(own_folder(index), folder.as_bytes(), "{}", index.escape_ascii());
        }
    }
}
