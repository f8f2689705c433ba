//! `[[site.rule]]`: what a rule matches, and what it does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Peers, Secret};

/// A rule of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteRule {
    /// Where it is written: `millrace.toml:12`.
    pub place: String,
    /// What it matches.
    pub condition: RuleCondition,
    /// What becomes of the request; `None`: other rules and the application decide.
    pub action: Option<RuleAction>,
    /// What it does besides.
    pub effects: RuleEffects,
}

/// What a rule matches: every part that is given must hold; of a list, one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleCondition {
    /// Paths, decoded, with `*` for any text; empty: any path.
    pub paths: Vec<String>,
    /// Paths that it does not match.
    pub unless_paths: Vec<String>,
    /// A regular expression that the path matches.
    pub regex: Option<String>,
    /// Host names, `*.` in front allowed; empty: any.
    pub hosts: Vec<String>,
    /// Request methods; empty: any.
    pub methods: Vec<String>,
    /// Query arguments: `name` or `name=value`; empty: any query.
    pub queries: Vec<String>,
    /// Header fields of the request: a name, and a text with `*` that the value is like.
    pub headers: Vec<(String, Option<String>)>,
    /// Networks of clients; `None`: any client.
    pub from: Option<Vec<Peers>>,
    /// Networks of clients that it does not match.
    pub unless_from: Vec<Peers>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// A redirect with this status.
    Redirect(RuleTarget, u16),
    /// Redirects by path, decoded; none for a path that is not in the list.
    Redirects(Arc<[ListedRedirect]>),
    /// The site serves this path, and this query if the target has one, instead.
    Rewrite(RuleTarget),
    /// The files of another directory.
    Files(OtherFiles),
    /// A response of the server's own.
    Return(u16, Option<String>),
    /// Later access rules do not count.
    Allow,
    /// 403.
    Deny,
    /// 429 for clients that send more.
    Limit(RequestLimit),
    /// Only users with a password pass.
    Auth(BasicAuth),
    /// Only requests pass that a script of the site lets pass.
    AuthScript(ScriptAuth),
}

/// How many requests a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimit {
    /// Requests in `minutes` minutes.
    pub number: u64,
    /// At least 1.
    pub minutes: u64,
    /// Maximum number of requests at once.
    pub burst: u64,
}

/// Files of a directory that is not the site's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFiles {
    /// The directory, absolute.
    pub folder: PathBuf,
    /// Whether what is before the `*` of the rule's path is left out of the files' paths: `alias`, not `root`.
    pub strips: bool,
}

/// A script that decides about requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptAuth {
    /// Its path below the root: `/auth.php`.
    pub script: String,
    /// Names of the header fields of its response that the request gets.
    pub copy: Vec<String>,
}

/// A line of a file of redirects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRedirect {
    /// The path, decoded.
    pub from: String,
    /// A path or a URL.
    pub to: String,
    /// The status.
    pub status: u16,
}

/// Users with passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAuth {
    /// What browsers show.
    pub realm: String,
    /// Names and password hashes.
    pub users: Vec<(String, Secret)>,
}

/// A text with references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTarget(pub Vec<TargetPart>);

/// A part of a [`RuleTarget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// As it is.
    Text(String),
    /// `$0`: the path; `$1`: what the first `*` or group of the pattern stands for.
    Group(usize),
    /// `$host`
    Host,
}

impl RuleTarget {
    /// The text, if it has no reference.
    #[must_use]
    pub fn plain(&self) -> Option<&str> {
        match &self.0[..] {
            [TargetPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// What a rule does to responses, and says to the page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleEffects {
    /// Changes of header fields.
    pub fields: Vec<FieldChange>,
    /// Lifetime in browsers; zero: they ask each time.
    pub expires: Option<Duration>,
    /// Media types of responses that `fields` and `expires` change: `text/html`, `image/*`; empty: any.
    pub types: Vec<String>,
    /// Statuses of these responses; empty: any.
    pub statuses: Vec<u16>,
    /// Paths of the site that respond instead of the server's own error pages.
    pub error_pages: Vec<(u16, String)>,
    /// What it says to the page cache.
    pub cache: RuleCache,
}

/// What a rule says to the page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleCache {
    /// The request bypasses the cache.
    pub bypass: bool,
    /// Lifetime of pages whose response sets none.
    pub ttl: Option<Duration>,
    /// Cookies whose values are part of the key.
    pub key_cookies: Vec<String>,
    /// The class of the device is part of the key.
    pub key_device: bool,
}

/// A change of a response's header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// One field with this value, instead of all of this name.
    Set(String, String),
    /// One more field.
    Add(String, String),
    /// No field of this name.
    Unset(String),
}
