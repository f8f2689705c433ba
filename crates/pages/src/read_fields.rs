//! Which fields of the request a page's script has read without saying so in `Vary`: a page has variants by them all the same.
//!
//! The worker says what the script has read of `$_SERVER`, by whatever way, and where (`php/c/fields.c`); a line for each variable:
//!
//! ```text
//!   HTTP_USER_AGENT /srv/www/wp-content/plugins/stat/stat.php:12
//!   REMOTE_ADDR /srv/www/wp-content/plugins/stat/stat.php:14
//!   * ...           all of them: getallheaders(), foreach ($_SERVER as ...)
//!   :mobile ...     what WordPress's wp_is_mobile() reads
//!   :browser ...    one of WordPress's variables about the browser: $is_iphone
//!   :ie ...         $is_IE, $is_winIE or $is_macIE
//!   :app ...        whether the client is WordPress's mobile app: Jetpack
//!   :images ...     which formats of images the client takes: LiteSpeed Cache
//!   :rest ...       all fields, which WordPress's REST server hands on to callbacks
//! ```
//!
//! | what was read | the page |
//! | --- | --- |
//! | a field | varies by its exact value, as if `Vary` named it |
//! | what the key distinguishes, or what makes a request bypass the cache, or what no script gets that makes a page for all ([`crate::ask`]) | doesn't depend on it |
//! | the client's address, the terms of its connection | is not stored: no other client has the same |
//! | all fields | is not stored, unless the response says itself, by a field, that others may have it: frameworks copy `$_SERVER` at the start of each request, and send `Vary` |
//!
//! If nothing is said - by php-fpm, with opcache's JIT, with rewound and persistent workers - then only `Vary` counts.

use crate::ask::{distinguishes, is_ours_in_request, names_client, withheld_from_fill};
use crate::notes::Notes;
use crate::rules::{ReadFields, Rules};
use crate::vary::{APP, BROWSER, IE, IMAGES, MOBILE};

/// The name in [`crate::Terms::vary`] of pages that differ by the client's version of HTTP. It is no name of a field.
pub const PROTOCOL: &str = ":protocol";

/// If a script reads more fields than these, its page depends on all of them.
const MOST_NAMES: usize = 10;

/// Variables about the client and its connection.
pub const OF_CLIENT: [&str; 4] = ["REMOTE_ADDR", "REMOTE_PORT", "SSL_PROTOCOL", "SSL_CIPHER"];

/// A line of the note that says what was read: the name, and where.
type Line<'a> = (&'a str, &'a str);

/// What a response depends on beside its `Vary`.
#[derive(Debug, Default)]
pub struct FieldsRead<'a> {
    /// Names for [`crate::Terms::vary`].
    pub names: Vec<Box<str>>,
    /// It depends on something for which there can be no variant.
    pub never: Option<Line<'a>>,
    /// It depends on all fields.
    pub all: Option<Line<'a>>,
    /// The lines that count, for people.
    pub lines: Vec<Line<'a>>,
}

/// What a variable of PHP stands for.
enum Part {
    /// What all requests for the page have in common, or what no script sees.
    Nothing,
    /// A field, or another name by which the page varies.
    Name(Box<str>),
    /// No other client has the same.
    Never,
    All,
}

impl<'a> FieldsRead<'a> {
    /// What a script has read.
    pub fn hear(rules: &Rules, notes: &'a Notes) -> FieldsRead<'a> {
        let mut read = FieldsRead::default();
        if rules.read_fields == ReadFields::Ignored {
            return read;
        }
        for line in notes.fields.split(|byte| *byte == b'\n') {
            let Some((variable, place)) =
                std::str::from_utf8(line).ok().and_then(|line| line.split_once(' '))
            else {
                // A line that can't be understood.
                read.never = read.never.or((!line.is_empty()).then_some(("?", "")));
                continue;
            };
            if !rules.ignored_fields.matches(setting_of(variable).as_bytes()) {
                read.add(rules, variable, place);
            }
        }
        if read.names.len() > MOST_NAMES {
            read.all = read.all.or(read.lines.last().copied());
            read.names.clear();
        }
        read
    }

    fn add(&mut self, rules: &Rules, variable: &'a str, place: &'a str) {
        let line = (variable, place);
        match part(rules, variable) {
            Part::Nothing => return,
            Part::Name(name) => self.names.push(name),
            Part::Never => self.never = self.never.or(Some(line)),
            Part::All => self.all = self.all.or(Some(line)),
        }
        self.lines.push(line);
    }
}

/// What a variable is called in settings: `user-agent`, `remote-addr`.
pub fn setting_of(variable: &str) -> String {
    match variable {
        ":browser" | ":ie" | ":app" => "user-agent".to_owned(),
        ":images" => "accept".to_owned(),
        other => name_of(other),
    }
}

fn name_of(variable: &str) -> String {
    variable.strip_prefix("HTTP_").unwrap_or(variable).to_ascii_lowercase().replace('_', "-")
}

fn part(rules: &Rules, variable: &str) -> Part {
    match variable {
        "*" => Part::All,
        ":mobile" => Part::Name(MOBILE.into()),
        ":browser" => Part::Name(BROWSER.into()),
        ":ie" => Part::Name(IE.into()),
        ":app" => Part::Name(APP.into()),
        ":images" => Part::Name(IMAGES.into()),
        // What a callback then reads of them, the hooks say (php/inject/wordpress/rest.php).
        ":rest" => Part::Nothing,
        "SERVER_PROTOCOL" | "HTTP2" => Part::Name(PROTOCOL.into()),
        other if OF_CLIENT.contains(&other) || other.starts_with(':') => Part::Never,
        _ => match variable.strip_prefix("HTTP_") {
            Some(_) => field(rules, name_of(variable)),
            // A variable of the server, or one that the site's rules set: rules are part of the key. Requests with a password for the server, or
            // with a client certificate, bypass the cache.
            None => Part::Nothing,
        },
    }
}

fn field(rules: &Rules, name: String) -> Part {
    if names_client(&name) {
        // It is withheld; but the script would have made another page with it.
        return Part::Never;
    }
    let is_of_key = distinguishes(rules, &name) || matches!(&*name, "host" | "accept-encoding" | "cookie");
    match is_of_key
        || name.starts_with("if-")
        || withheld_from_fill(rules, &name)
        || is_ours_in_request(&name)
    {
        true => Part::Nothing,
        false => Part::Name(name.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(note: &str, change: impl FnOnce(&mut Rules)) -> String {
        let mut rules = Rules { read_fields: ReadFields::Observed, ..Rules::profile() };
        change(&mut rules);
        let notes = Notes { fields: note.as_bytes().into(), ..Notes::default() };
        let read = FieldsRead::hear(&rules, &notes);
        let mark = |line: Option<Line<'_>>, mark: &str| line.map(|line| format!("{mark}{}", line.0));
        let marks = [mark(read.never, "!"), mark(read.all, "!!")].into_iter().flatten();
        read.names.iter().map(|name| name.to_string()).chain(marks).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_was_read_is_what_the_page_depends_on() {
        for (note, expected) in [
            ("", ""),
            ("HTTP_USER_AGENT /a b.php:1", "user-agent"),
            ("HTTP_ACCEPT /a.php:1\nHTTP_X_FOO /a.php:2\nHTTP_DNT /a.php:2", "accept x-foo dnt"),
            (":mobile /a.php:1\n:browser /a.php:2\nSERVER_PROTOCOL /a.php:3", ":mobile :browser :protocol"),
            (":ie /a.php:1", ":ie"),
            (":app /a.php:1\nHTTP_DNT /a.php:2", ":app dnt"),
            // In the key, or it bypasses the cache.
            (
                "HTTP_X_FORWARDED_PROTO a:1\nHTTP_CONTENT_TYPE a:1\nHTTP_X_REQUESTED_WITH a:1\nHTTP_AUTHORIZATION a:1",
                "",
            ),
            // Withheld: the server handles them itself.
            (
                "HTTP_RANGE a:1\nHTTP_IF_NONE_MATCH a:1\nHTTP_CACHE_CONTROL a:1\nHTTP_ACCEPT_ENCODING a:1\nHTTP_X_LSCACHE a:1",
                "",
            ),
            ("SERVER_ADDR a:1\nAPP_ENV a:1\nREMOTE_USER a:1\n:rest a:1", ""),
            ("REMOTE_ADDR a:1", "!REMOTE_ADDR"),
            ("HTTP_X_FORWARDED_FOR a:1\nHTTP_CF_CONNECTING_IP a:1", "!HTTP_X_FORWARDED_FOR"),
            ("HTTP_DNT a:1\n* a:1", "dnt !!*"),
            ("HTTP_DNT", "!?"),
            (":unheard a:1", "!:unheard"),
        ] {
            assert_eq!(read(note, |_| ()), expected, "{note}");
        }
        let many: Vec<_> = (0..11).map(|n| format!("HTTP_X_{n} a:{n}")).collect();
        assert_eq!(read(&many.join("\n"), |_| ()), "!!HTTP_X_10");
        // Settings.
        let ignored = |rules: &mut Rules| rules.ignored_fields.extend(["user-agent", "remote-addr"]);
        assert_eq!(read("HTTP_USER_AGENT a:1\nREMOTE_ADDR a:2\nHTTP_DNT a:3", ignored), "dnt");
        assert_eq!(read("* a:1", |rules| rules.ignored_fields.extend(["*"])), "");
        assert_eq!(read("HTTP_USER_AGENT a:1", |rules| rules.key_device = true), "");
        assert_eq!(read("HTTP_CACHE_CONTROL a:1", |rules| rules.faithful = true), "cache-control");
        assert_eq!(read("REMOTE_ADDR a:1", |rules| rules.read_fields = ReadFields::Ignored), "");
    }
}
