//! What rules say about a request, and about its response.

use std::sync::Arc;

use crate::effort;
use crate::folder::{Document, Folder, Rules};
use crate::header::{Action, Change};
use crate::media::{Expires, Kinds};
use crate::pattern::TooManySteps;
use crate::request::{Request, World};
use crate::rewrite::cookie;
use crate::template::{Environment, Moment, Responding};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is for this path, decoded, and this query.
    Serve,
    /// A redirect.
    Redirect(u16, String),
    /// A refusal.
    Refuse(u16),
    /// 401 with this realm.
    Unauthorized(String),
    /// A password is being checked: evaluate again when that has ended.
    Wait,
}

/// Header fields with new values; `None`: without one.
pub type ChangedFields = Vec<(String, Option<Vec<u8>>)>;

/// A layer whose conditions hold: a folder's file, and the number of the layer in it.
pub type Active = (Arc<Folder>, usize);

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What becomes of the request.
    pub outcome: Outcome,
    /// The path after all rewriting, decoded.
    pub path: Vec<u8>,
    /// The query after all rewriting.
    pub query: Option<Vec<u8>>,
    /// The file name that rules see: below the document root, without what follows a file.
    pub filename: Vec<u8>,
    /// What follows the file in the path.
    pub path_info: Vec<u8>,
    /// The path and query before the last internal redirect.
    pub redirected_from: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Variables for PHP.
    pub environment: Environment,
    /// The authenticated user; empty: none.
    pub user: String,
    /// Header fields of the request that PHP sees otherwise; `None`: not at all.
    pub request_fields: ChangedFields,
    /// Fields by which the response varies.
    pub vary: Vec<String>,
    /// Values of Set-Cookie fields.
    pub cookies: Vec<Vec<u8>>,
    /// The media type that a rule has set.
    pub media_type: Option<Vec<u8>>,
    /// Whether scripts may run.
    pub php: bool,
    /// What rules say to the page cache.
    pub cache: CacheWord,
    /// The realm of the password that the client has to send.
    pub challenge: Option<String>,
    /// The status of the response, if it is an error document.
    pub status: Option<u16>,
    /// The layers whose conditions hold, in the order in which they are merged.
    pub active: Vec<Active>,
}

/// What rules say to the page cache, as to LiteSpeed's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheWord {
    /// `no-cache`, `private`, `CacheLookup off`: the request bypasses the cache.
    pub bypass: bool,
    /// Names of cookies whose values are part of the key.
    pub vary_cookies: Vec<String>,
}

/// A response's status and fields, on their way out.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The status.
    pub status: u16,
    /// The fields, without those of the connection.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The response is the server's own, for an error or a redirect.
    pub is_error: bool,
    /// The file's modification, seconds since 1970; `None`: it is no file.
    pub modified: Option<u64>,
    /// `Wed, 01 Jan 2026 00:00:00 GMT` of seconds since 1970.
    pub date: fn(u64) -> String,
}

impl Leaving {
    /// The first field of a name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..])
    }

    fn set(&mut self, name: &str, value: Vec<u8>) {
        self.remove(name);
        self.fields.push((name.to_owned(), value));
    }

    fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }
}

impl Verdict {
    /// A verdict without directives: the request is for this path and query.
    pub fn serving(path: Vec<u8>, query: Option<Vec<u8>>) -> Verdict {
        Verdict {
            outcome: Outcome::Serve,
            path,
            query,
            filename: Vec::new(),
            path_info: Vec::new(),
            redirected_from: None,
            environment: Environment::default(),
            user: String::new(),
            request_fields: Vec::new(),
            vary: Vec::new(),
            cookies: Vec::new(),
            media_type: None,
            php: true,
            cache: CacheWord::default(),
            challenge: None,
            status: None,
            active: Vec::new(),
        }
    }

    /// The directives that apply, in the order in which they are merged.
    pub fn rules(&self) -> impl DoubleEndedIterator<Item = &Rules> {
        self.active.iter().map(|(folder, layer)| &folder.layers[*layer].rules)
    }

    /// The variables that PHP gets: without those by which rules speak to Apache's own modules: most
    /// differ by browser, and PHP has no use for them.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        const OF_MODULES: [&[u8]; 9] = [
            b"no-gzip",
            b"no-brotli",
            b"gzip-only-text/html",
            b"nokeepalive",
            b"downgrade-1.0",
            b"force-response-1.0",
            b"dont-vary",
            b"force-no-vary",
            b"redirect-carefully",
        ];
        let variables = self.environment.0.iter().map(|(name, value)| (&name[..], &value[..]));
        variables.filter(|(name, _)| !OF_MODULES.contains(name))
    }

    /// What is sent for a status of the server's own.
    pub fn document(&self, status: u16) -> &Document {
        let documents = self.rules().rev().flat_map(|rules| rules.error_documents.iter().rev());
        let mut documents = documents.filter(|(known, _)| *known == status);
        documents.next().map_or(&Document::Default, |(_, document)| document)
    }

    /// Names of index files; `None`: the server's own.
    pub fn index(&self) -> Option<&[String]> {
        self.rules().rev().find_map(|rules| rules.index.as_deref())
    }

    /// Whether anything of it changes responses.
    pub fn changes_responses(&self) -> bool {
        let changes = |rules: &Rules| {
            let Rules { headers, kinds, expires, no_etag, .. } = rules;
            !headers.is_empty() || !kinds.is_empty() || expires.active.is_some() || no_etag.is_some()
        };
        !self.vary.is_empty()
            || !self.cookies.is_empty()
            || self.media_type.is_some()
            || self.challenge.is_some()
            || self.rules().any(changes)
    }

    /// Changes the fields of a response.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn change(
        &self,
        request: &Request<'_>,
        world: &impl World,
        leaving: &mut Leaving,
    ) -> Result<(), TooManySteps> {
        effort::begin();
        if !leaving.is_error {
            self.drop_default_freshness(leaving);
            self.describe(leaving)?;
            // A page for an error does not stay fresh, whoever makes it.
            if self.status.is_none() && leaving.status < 400 {
                let own = leaving.field("content-type").unwrap_or_default();
                let kind = String::from_utf8_lossy(own).into_owned();
                self.expire(request.now.get(), &kind, leaving);
            }
        } else if (300..400).contains(&leaving.status) && self.status.is_none() {
            // As Apache's, whose redirects have a page.
            self.expire(request.now.get(), "text/html", leaving);
        }
        if let Some(realm) = &self.challenge {
            let realm = realm.replace(['"', '\\'], "");
            leaving.set("WWW-Authenticate", format!("Basic realm=\"{realm}\"").into_bytes());
        }
        for name in &self.vary {
            leaving.fields.push(("Vary".to_owned(), name.clone().into_bytes()));
        }
        for text in &self.cookies {
            if let Some(value) = cookie(text, request.now.get(), leaving.date) {
                leaving.fields.push(("Set-Cookie".to_owned(), value.into_bytes()));
            }
        }
        let own = self.change_fields(request, world, leaving)?;
        if leaving.is_error {
            // Such as the server's own Retry-After.
            leaving.fields.retain(|(name, _)| !own.iter().any(|(set, _)| set.eq_ignore_ascii_case(name)));
        }
        leaving.fields.splice(0..0, own);
        Ok(())
    }

    /// `Header`: changes the fields of the response; returns those of `always`, which are apart, as in Apache.
    fn change_fields(
        &self,
        request: &Request<'_>,
        world: &impl World,
        leaving: &mut Leaving,
    ) -> Result<Vec<(String, Vec<u8>)>, TooManySteps> {
        let status = leaving.status;
        let apply = |change: &Change, fields: &mut Vec<_>, seen: &[(String, Vec<u8>)]| {
            let moment = Moment {
                request,
                path: &self.path,
                query: self.query.as_deref(),
                filename: &self.filename,
                path_info: &self.path_info,
                environment: &self.environment,
                user: &self.user,
                is_inner: false,
                response: Some(Responding { status, fields: seen }),
            };
            let changed = &self.request_fields;
            change.apply(fields, &crate::evaluate::Scoped { moment, world, groups_file: None, changed })
        };
        let changes = |always| {
            self.rules().flat_map(|rules| &rules.headers).filter(move |c: &&Change| c.always == always)
        };
        let mut own = Vec::new();
        for change in changes(true) {
            let seen = if change.sees_response() { [&leaving.fields[..], &own].concat() } else { Vec::new() };
            apply(change, &mut own, &seen)?;
        }
        if !leaving.is_error {
            for change in changes(false) {
                let seen = if change.sees_response() { leaving.fields.clone() } else { Vec::new() };
                apply(change, &mut leaving.fields, &seen)?;
            }
        }
        Ok(own)
    }

    /// Takes away what the server says about a file's freshness by itself, if rules add to that field: they expect none.
    fn drop_default_freshness(&self, leaving: &mut Leaving) {
        let adds = |change: &Change| {
            change.name.eq_ignore_ascii_case("cache-control")
                && matches!(
                    change.action,
                    Action::Append(_) | Action::Merge(_) | Action::Add(_) | Action::SetIfEmpty(_)
                )
        };
        if leaving.modified.is_some() && self.rules().any(|rules| rules.headers.iter().any(adds)) {
            leaving.remove("Cache-Control");
        }
    }

    /// Media type, charset, coding and language.
    fn describe(&self, leaving: &mut Leaving) -> Result<(), TooManySteps> {
        let mut kinds = Kinds::default();
        self.rules().for_each(|rules| kinds.add(&rules.kinds));
        let name = self.filename.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        effort::spend(kinds.steps(&name))?;
        // Parts of a file have a type of their own, and 304 has none.
        let own = leaving.field("content-type");
        if own.is_none_or(|own| own.starts_with(b"multipart/byteranges")) {
            return Ok(());
        }
        let is_file = leaving.modified.is_some();
        // A script names its own type.
        if let Some(value) = self.media_type.as_ref().filter(|_| is_file) {
            leaving.set("Content-Type", value.clone());
        } else if let Some(value) = kinds.type_of(&name).filter(|_| is_file) {
            leaving.set("Content-Type", value.as_bytes().to_vec());
        }
        if let Some(value) = kinds.coding_of(&name).filter(|_| is_file)
            && leaving.field("content-encoding").is_none()
        {
            leaving.set("Content-Encoding", value.as_bytes().to_vec());
        }
        if let Some(value) = kinds.language_of(&name)
            && leaving.field("content-language").is_none()
        {
            leaving.set("Content-Language", value.as_bytes().to_vec());
        }
        let Some(own) = leaving.field("content-type").map(<[u8]>::to_vec) else { return Ok(()) };
        let (plain, parameters) = match own.iter().position(|byte| *byte == b';') {
            Some(at) => own.split_at(at),
            None => (&own[..], &[][..]),
        };
        let is_forced = matches!(kinds.forced, Some(Some(_)));
        let charset = kinds.charset_of(&name).filter(|_| is_file && !is_forced);
        let is_text = [&b"text/html"[..], b"text/plain"].contains(&plain.trim_ascii());
        let default = kinds.default_charset.as_ref();
        let has_none = parameters.is_empty() || is_file;
        let wanted = match (charset, default) {
            (Some(charset), _) => Some(charset),
            (None, Some(Some(charset))) if is_text && has_none => Some(charset.as_str()),
            (None, Some(None)) if is_text && is_file && kinds.type_of(&name).is_none() => None,
            _ => return Ok(()),
        };
        let mut value = plain.to_vec();
        if let Some(charset) = wanted {
            value.extend_from_slice(format!("; charset={charset}").as_bytes());
        }
        leaving.set("Content-Type", value);
        Ok(())
    }

    /// `Expires` and `max-age` by the media type. For a file they replace the server's own.
    fn expire(&self, now: u64, kind: &str, leaving: &mut Leaving) {
        if self.rules().rev().find_map(|rules| rules.no_etag) == Some(true) {
            leaving.remove("ETag");
        }
        let mut expires = Expires::default();
        self.rules().for_each(|rules| expires.add(&rules.expires));
        if expires.active != Some(true) {
            return;
        }
        if leaving.modified.is_some() {
            leaving.remove("Expires");
            leaving.remove("Cache-Control");
        } else if leaving.field("expires").is_some() {
            return;
        }
        let Some(expiry) = expires.of(kind.split(';').next().unwrap_or("").trim()) else { return };
        let base = match (expiry.from_modification, leaving.modified) {
            (false, _) => now,
            (true, Some(modified)) => modified,
            (true, None) => return,
        };
        let until = base.saturating_add_signed(expiry.seconds).max(now);
        let age = format!("max-age={}", until - now).into_bytes();
        let control = match leaving.field("cache-control") {
            Some(known) => [known, b", ", &age].concat(),
            None => age,
        };
        leaving.set("Cache-Control", control);
        leaving.set("Expires", (leaving.date)(until).into_bytes());
    }
}
