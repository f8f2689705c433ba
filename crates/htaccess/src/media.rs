//! Media types, charsets, codings and languages by file name (mod_mime), and how long responses stay fresh
//! (mod_expires).

/// What the extensions of file names say. Later entries replace earlier ones; `None` removes.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// `AddType`
    pub types: Vec<(String, Option<String>)>,
    /// `AddCharset`
    pub charsets: Vec<(String, Option<String>)>,
    /// `AddEncoding`
    pub codings: Vec<(String, Option<String>)>,
    /// `AddLanguage`
    pub languages: Vec<(String, Option<String>)>,
    /// `DefaultLanguage`
    pub default_language: Option<String>,
    /// `ForceType`; `Some(None)`: `None` takes an outer one back.
    pub forced: Option<Option<String>>,
    /// `AddDefaultCharset`; `Some(None)`: `Off`.
    pub default_charset: Option<Option<String>>,
}

impl Kinds {
    /// Adds what an inner folder says.
    pub fn add(&mut self, inner: &Kinds) {
        self.types.extend_from_slice(&inner.types);
        self.charsets.extend_from_slice(&inner.charsets);
        self.codings.extend_from_slice(&inner.codings);
        self.languages.extend_from_slice(&inner.languages);
        self.default_language = inner.default_language.clone().or(self.default_language.take());
        self.forced = inner.forced.clone().or(self.forced.take());
        self.default_charset = inner.default_charset.clone().or(self.default_charset.take());
    }

    /// The media type that rules give to a file name.
    pub fn type_of(&self, name: &str) -> Option<&str> {
        self.forced.as_ref().and_then(Option::as_deref).or_else(|| last(&self.types, name))
    }

    /// The charset that rules give to a file name.
    pub fn charset_of(&self, name: &str) -> Option<&str> {
        last(&self.charsets, name)
    }

    /// The content coding that rules give to a file name.
    pub fn coding_of(&self, name: &str) -> Option<&str> {
        last(&self.codings, name)
    }

    /// The language that rules give to a file name.
    pub fn language_of(&self, name: &str) -> Option<&str> {
        last(&self.languages, name).or(self.default_language.as_deref())
    }

    /// Steps of finding what rules say about a file name: each extension is looked for in each list.
    pub fn steps(&self, name: &str) -> usize {
        let lists = [&self.types, &self.charsets, &self.codings, &self.languages];
        let entries: usize = lists.iter().map(|list| list.len()).sum();
        entries * name.split('.').count()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.types, &self.charsets, &self.codings, &self.languages];
        lists.iter().all(|list| list.is_empty())
            && self.forced.is_none()
            && self.default_charset.is_none()
            && self.default_language.is_none()
    }
}

/// The value for the last extension of a name that has one.
fn last<'a>(list: &'a [(String, Option<String>)], name: &str) -> Option<&'a str> {
    let of = |extension: &str| {
        let known = list.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(extension))?;
        known.1.as_deref()
    };
    name.split('.').skip(1).filter_map(of).last()
}

/// When a response expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// From the time of the file's modification, not of the request.
    pub from_modification: bool,
    /// Seconds.
    pub seconds: i64,
}

/// `Expires*` directives.
#[derive(Clone, Debug, Default)]
pub struct Expires {
    /// `ExpiresActive`
    pub active: Option<bool>,
    /// `ExpiresDefault`
    pub default: Option<Expiry>,
    /// `ExpiresByType`
    pub by_type: Vec<(String, Expiry)>,
}

impl Expires {
    /// Adds what an inner folder says.
    pub fn add(&mut self, inner: &Expires) {
        self.active = inner.active.or(self.active);
        self.default = inner.default.or(self.default);
        self.by_type.extend_from_slice(&inner.by_type);
    }

    /// The expiry for a media type, without parameters.
    pub fn of(&self, media_type: &str) -> Option<Expiry> {
        if self.active != Some(true) {
            return None;
        }
        let find = |wanted: &str| {
            let mut known = self.by_type.iter().rev();
            known.find(|(known, _)| known.eq_ignore_ascii_case(wanted)).map(|(_, expiry)| *expiry)
        };
        let major = media_type.split('/').next().map(|major| format!("{major}/*"));
        find(media_type).or_else(|| find(&major?)).or(self.default)
    }
}

impl Expiry {
    /// `A3600`, `M3600`, `access plus 1 month 2 days`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn new(text: &str) -> Result<Expiry, String> {
        let error = || format!("\"{text}\" is no expiry time: write for example \"access plus 1 month\"");
        if let Some(first @ ('A' | 'a' | 'M' | 'm')) = text.chars().next()
            && let Ok(seconds) = text[1..].parse()
        {
            return Ok(Expiry { from_modification: matches!(first, 'M' | 'm'), seconds });
        }
        let mut words = text.split_ascii_whitespace();
        let base = words.next().ok_or_else(error)?.to_ascii_lowercase();
        let from_modification = match base.as_str() {
            "now" | "access" => false,
            "modification" => true,
            _ => return Err(error()),
        };
        let mut words = words.peekable();
        words.next_if(|word| word.eq_ignore_ascii_case("plus"));
        let mut seconds: i64 = 0;
        while let Some(number) = words.next() {
            let number: i64 = number.parse().map_err(|_| error())?;
            let unit = unit(words.next().ok_or_else(error)?).ok_or_else(error)?;
            seconds = seconds.saturating_add(number.saturating_mul(unit));
        }
        Ok(Expiry { from_modification, seconds })
    }
}

/// Seconds of a unit, which Apache knows by its first letters.
fn unit(word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    let units =
        [("years", 31_536_000), ("months", 2_592_000), ("weeks", 604_800), ("days", 86_400), ("hours", 3600)];
    let units = units.into_iter().chain([("minutes", 60), ("seconds", 1)]);
    // The third byte may stand within a letter that no unit has.
    let start = word.get(..word.len().min(3)).filter(|start| !start.is_empty())?;
    let mut known = units.filter(|(unit, _)| unit.starts_with(start));
    known.next().map(|(_, seconds)| seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_times() {
        let seconds = |text: &str| Expiry::new(text).map(|expiry| (expiry.from_modification, expiry.seconds));
        assert_eq!(seconds("A60"), Ok((false, 60)));
        assert_eq!(seconds("M60"), Ok((true, 60)));
        assert_eq!(seconds("access plus 1 month 2 days"), Ok((false, 2_764_800)));
        assert_eq!(seconds("modification 1 hour"), Ok((true, 3600)));
        assert_eq!(seconds("now plus 3 minutes"), Ok((false, 180)));
        assert!(seconds("access plus 1 a€€").is_err());
        for wrong in ["", "tomorrow", "access plus 1", "access plus x days", "access plus 1 fortnight"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_known_extension_counts() {
        let add = |extension: &str, value: &str| (extension.to_owned(), Some(value.to_owned()));
        let kinds = Kinds {
            types: vec![add("html", "text/html"), add("x", "a/x"), add("x", "a/y")],
            ..Kinds::default()
        };
        assert_eq!(kinds.type_of("a.x.html.unknown"), Some("text/html"));
        assert_eq!(kinds.type_of("a.X"), Some("a/y"));
        assert_eq!(kinds.type_of("x"), None);
    }
}
