//! Applies the rules of all folders on a request's way. One pass is one request of Apache: SetEnvIf, access, rewriting,
//! redirects; an internal redirect and an index file begin another one.

use std::net::IpAddr;
use std::sync::Arc;

use millrace_wire::path::without_dots;

use crate::access::{Attribute, Client, SetEnvIf};
use crate::effort;
use crate::escape;
use crate::expression::Scope;
use crate::folder::{Folder, From, Rules};
use crate::pattern::{Captures, TooManySteps};
use crate::request::{Checked, Node, Request, World};
use crate::request_header::FieldsBehind;
use crate::rewrite::FileTest;
use crate::rewriting::{self, LONGEST, Rewritten};
use crate::template::{Environment, Moment, Values, Variable};
use crate::verdict::{CacheWord, Outcome, Verdict};

/// Steps of a look at the disk.
pub(crate) const ON_DISK: usize = 500;

/// Maximum of internal redirects, as Apache's LimitInternalRecursion.
const MOST_PASSES: usize = 10;

/// Ends an evaluation early.
pub(crate) enum Halt {
    /// With this outcome.
    With(Outcome),
}

impl std::convert::From<TooManySteps> for Halt {
    fn from(_: TooManySteps) -> Halt {
        Halt::With(Outcome::Refuse(403))
    }
}

pub(crate) fn refuse<T>(status: u16) -> Result<T, Halt> {
    Err(Halt::With(Outcome::Refuse(status)))
}

/// What the rules on its way say about a request. `None`: there are none.
pub fn evaluate(request: &Request<'_>, world: &impl World) -> Option<Verdict> {
    effort::begin();
    let folders = world.folders(request.path);
    if folders.is_empty() {
        return None;
    }
    let pass = Pass::new(request, world, request.path.to_vec(), request.query.map(<[u8]>::to_vec), folders);
    Some(pass.run())
}

/// What the rules say about the error document `path`, which is sent instead of the server's own page for `status`.
/// `failed` is the verdict on the request that has failed.
pub fn for_error(
    request: &Request<'_>,
    world: &impl World,
    failed: &Verdict,
    path: &str,
    status: u16,
) -> Verdict {
    effort::begin();
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes().to_vec())),
        None => (path, None),
    };
    let path = without_dots(path.as_bytes());
    let folders = world.folders(&path);
    let mut pass = Pass::new(request, world, path, query, folders);
    pass.environment = failed.environment.clone();
    pass.environment.redirected();
    pass.environment.set(b"REDIRECT_STATUS", status.to_string().into_bytes());
    pass.redirected_from = Some((failed.path.clone(), failed.query.clone()));
    pass.passes = 1;
    pass.failed = Some(failed);
    Verdict { status: Some(status), challenge: failed.challenge.clone(), ..pass.run() }
}

/// A layer that applies, and the length of its folder's path.
#[derive(Clone)]
pub(crate) struct Applied {
    pub(crate) folder: Arc<Folder>,
    pub(crate) layer: usize,
    /// Length of the folder's URL path with its slash.
    pub(crate) prefix: usize,
}

impl Applied {
    /// Its directives.
    pub(crate) fn rules(&self) -> &Rules {
        &self.folder.layers[self.layer].rules
    }

    /// Whether its directives stand in `<Files>`, `<If>` or the like.
    pub(crate) fn is_section(&self) -> bool {
        !self.folder.layers[self.layer].conditions.is_empty()
    }
}

/// One evaluation.
pub(crate) struct Pass<'a, W> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) world: &'a W,
    folders: Vec<(usize, Arc<Folder>)>,
    pub(crate) layers: Vec<Applied>,
    pub(crate) path: Vec<u8>,
    pub(crate) query: Option<Vec<u8>>,
    pub(crate) filename: Vec<u8>,
    pub(crate) path_info: Vec<u8>,
    pub(crate) environment: Environment,
    pub(crate) user: String,
    pub(crate) vary: Vec<String>,
    pub(crate) cookies: Vec<Vec<u8>>,
    pub(crate) media_type: Option<Vec<u8>>,
    /// A rule has set a handler other than PHP's.
    pub(crate) php_off: bool,
    pub(crate) cache: CacheWord,
    /// It looks for an index file.
    pub(crate) is_inner: bool,
    /// A rule with END has matched.
    pub(crate) ended: bool,
    /// Whether one had matched before an index file was looked for, for which the rules run again.
    pub(crate) ended_outside: bool,
    redirected_from: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The request's fields as the passes before have left them.
    pub(crate) fields_before: Option<FieldsBehind>,
    /// It is for a page that is sent instead of this request's response.
    pub(crate) failed: Option<&'a Verdict>,
    passes: usize,
}

/// The values of a moment, and the disk.
#[derive(Debug)]
pub(crate) struct Scoped<'a, W> {
    pub(crate) moment: Moment<'a>,
    pub(crate) world: &'a W,
    pub(crate) groups_file: Option<&'a str>,
    /// Fields of the request that `RequestHeader` has changed.
    pub(crate) changed: &'a [(String, Option<Vec<u8>>)],
}

impl<W: World> Values for Scoped<'_, W> {
    fn value(&self, variable: &Variable) -> Vec<u8> {
        self.moment.value(variable)
    }
}

impl<W: World> Scope for Scoped<'_, W> {
    fn file(&self, test: FileTest, path: &[u8]) -> bool {
        let node = |path: &[u8]| if path.starts_with(b"/") { self.world.node(path) } else { None };
        match test {
            FileTest::File => matches!(node(path), Some(Node::File { .. })),
            FileTest::NotEmpty => matches!(node(path), Some(Node::File { size: 1.., .. })),
            FileTest::Directory => node(path) == Some(Node::Directory),
            FileTest::Executable => matches!(node(path), Some(Node::File { executable: true, .. })),
            FileTest::Exists => node(path).is_some(),
            FileTest::Link => path.starts_with(b"/") && self.world.is_link(path),
            FileTest::Url => {
                let inside = node(path).is_some() && path.starts_with(self.moment.request.root);
                inside || node(&[self.moment.request.root, path].concat()).is_some()
            }
        }
    }

    fn has_variable(&self, name: &str) -> bool {
        self.moment.environment.get(name.as_bytes()).is_some()
    }

    fn remote(&self) -> Option<IpAddr> {
        self.moment.request.remote.get()
    }

    fn request_fields(&self) -> Vec<(String, Vec<u8>)> {
        let changed = |name: &str| self.changed.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let all = self.moment.request.fields.all().iter();
        let kept = all.filter(|(name, _)| changed(name).is_none());
        let kept = kept.map(|(name, value)| ((*name).to_owned(), value.to_vec()));
        let set = self.changed.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        kept.chain(set).collect()
    }
}

impl<W: World> Client for Scoped<'_, W> {
    fn method(&self) -> &str {
        self.moment.request.method
    }

    fn local(&self) -> Option<IpAddr> {
        self.moment.request.local
    }

    fn user(&self) -> &str {
        self.moment.user
    }

    fn in_group(&self, groups: &[String]) -> Checked {
        match self.groups_file {
            Some(file) => self.world.in_group(file, self.moment.user, groups),
            None => Checked::No,
        }
    }
}

impl<W> Clone for Pass<'_, W> {
    fn clone(&self) -> Self {
        Pass {
            folders: self.folders.clone(),
            layers: self.layers.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            filename: self.filename.clone(),
            path_info: self.path_info.clone(),
            environment: self.environment.clone(),
            user: self.user.clone(),
            vary: self.vary.clone(),
            cookies: self.cookies.clone(),
            media_type: self.media_type.clone(),
            cache: self.cache.clone(),
            redirected_from: self.redirected_from.clone(),
            fields_before: self.fields_before.clone(),
            ..*self
        }
    }
}

impl<'a, W: World> Pass<'a, W> {
    fn new(
        request: &'a Request<'a>,
        world: &'a W,
        path: Vec<u8>,
        query: Option<Vec<u8>>,
        folders: Vec<(usize, Arc<Folder>)>,
    ) -> Pass<'a, W> {
        Pass {
            request,
            world,
            folders,
            layers: Vec::new(),
            path,
            query,
            filename: Vec::new(),
            path_info: Vec::new(),
            environment: Environment::default(),
            user: String::new(),
            vary: Vec::new(),
            cookies: Vec::new(),
            media_type: None,
            php_off: false,
            cache: CacheWord::default(),
            is_inner: false,
            ended: false,
            ended_outside: false,
            redirected_from: None,
            fields_before: None,
            failed: None,
            passes: 0,
        }
    }

    /// Passes until no rule begins another one.
    fn run(mut self) -> Verdict {
        let outcome = loop {
            let pass = self.pass().and_then(|goes_on| Ok(effort::spend(0).map(|()| goes_on)?));
            match pass {
                Ok(true) if self.passes < MOST_PASSES => self.passes += 1,
                Ok(true) => break Outcome::Refuse(500),
                Ok(false) => break Outcome::Serve,
                Err(Halt::With(outcome)) => break outcome,
            }
        };
        let request_fields = self.request_fields();
        let (request_fields, outcome) = match request_fields {
            Ok(fields) => (fields, outcome),
            Err(TooManySteps) => (Vec::new(), Outcome::Refuse(403)),
        };
        let php = !self.php_off && self.layers.iter().rev().find_map(|l| l.rules().php).unwrap_or(true);
        let mut cache = std::mem::take(&mut self.cache);
        let lookup = self.layers.iter().rev().find_map(|layer| layer.rules().cache_lookup);
        cache.bypass |= lookup == Some(false);
        Verdict {
            path: self.path,
            query: self.query,
            filename: self.filename,
            path_info: self.path_info,
            redirected_from: self.redirected_from,
            environment: self.environment,
            user: self.user,
            request_fields,
            vary: self.vary,
            cookies: self.cookies,
            media_type: self.media_type,
            php,
            cache,
            challenge: match &outcome {
                Outcome::Unauthorized(realm) => Some(realm.clone()),
                _ => None,
            },
            outcome,
            status: None,
            active: self.layers.into_iter().map(|applied| (applied.folder, applied.layer)).collect(),
        }
    }

    pub(crate) fn scope(&self) -> Scoped<'_, W> {
        let moment = Moment {
            request: self.request,
            path: &self.path,
            query: self.query.as_deref(),
            filename: &self.filename,
            path_info: &self.path_info,
            environment: &self.environment,
            user: &self.user,
            is_inner: self.is_inner,
            response: None,
        };
        Scoped { moment, world: self.world, groups_file: None, changed: &[] }
    }

    /// One pass; true: another one follows.
    pub(crate) fn pass(&mut self) -> Result<bool, Halt> {
        self.locate();
        self.apply_layers()?;
        // Apache reads the header section once, and not for the look-up of an index file.
        if !self.is_inner {
            self.set_variables()?;
        }
        self.check_access()?;
        self.check_content()?;
        let rewritten = if self.ended { Rewritten::No } else { rewriting::run(self)? };
        self.redirect()?;
        self.set_environment()?;
        if let Rewritten::To(path) = rewritten {
            self.add_slash()?;
            self.fields_before = self.fields_behind()?;
            self.redirected(path)?;
            return Ok(true);
        }
        self.accept_path_info()?;
        Ok(self.find_index()? || self.fall_back()?)
    }

    /// Splits the path into the part that names a file and what follows it.
    fn locate(&mut self) {
        let root = self.request.root;
        let absolute = |path: &[u8]| [root, path].concat();
        self.path_info.clear();
        if self.world.node(&absolute(&self.path)).is_none() {
            let slashes = self.path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
            for (end, _) in slashes {
                match self.world.node(&absolute(&self.path[..end])) {
                    Some(Node::Directory) => {}
                    // A file, or the first missing name: the rest is PATH_INFO.
                    _ => {
                        self.path_info = self.path[end..].to_vec();
                        self.filename = absolute(&self.path[..end]);
                        return;
                    }
                }
            }
        }
        self.filename = absolute(&self.path);
    }

    /// Finds the layers that apply: directives of all folders, then of all `<Files>`, then of all `<If>`.
    fn apply_layers(&mut self) -> Result<(), Halt> {
        if let Some(status) = self.folders.iter().find_map(|(_, folder)| folder.closed) {
            return refuse(status);
        }
        let name = self.filename.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        self.layers.clear();
        for rank in 0..3 {
            for at in 0..self.folders.len() {
                let (prefix, folder) = self.folders[at].clone();
                for layer in 0..folder.layers.len() {
                    let candidate = &folder.layers[layer];
                    effort::spend(1 + candidate.conditions.len())?;
                    if candidate.rank() == rank && candidate.applies(&name, &self.scope())? {
                        self.layers.push(Applied { folder: folder.clone(), layer, prefix });
                    }
                }
            }
        }
        match self.layers.iter().any(|layer| layer.rules().refuses.is_some()) {
            true => refuse(403),
            false => Ok(()),
        }
    }

    /// SetEnvIf: those of inner folders first.
    fn set_variables(&mut self) -> Result<(), Halt> {
        for at in (0..self.layers.len()).rev() {
            let folder = self.layers[at].folder.clone();
            let mut rules = &folder.layers[self.layers[at].layer].rules.set_env_if[..];
            while let [rule, others @ ..] = rules {
                match self.idle(rule)? {
                    0 => {
                        self.set_env_if(rule)?;
                        rules = others;
                    }
                    idle => rules = rules.get(idle..).unwrap_or_default(),
                }
            }
        }
        Ok(())
    }

    /// How many SetEnvIf of the list that begins with this one can't match.
    fn idle(&self, rule: &SetEnvIf) -> Result<usize, Halt> {
        let (Attribute::Field(name), Some(rare)) = (&rule.attribute, rule.pattern.rare()) else {
            return Ok(0);
        };
        // Without the field, it is a variable that counts, which the list may set.
        let Some(value) = self.request.field(name) else { return Ok(0) };
        Ok(rare.idle(rule.list, value)? as usize)
    }

    fn set_env_if(&mut self, rule: &SetEnvIf) -> Result<(), Halt> {
        let request = self.request;
        let value = match &rule.attribute {
            Attribute::Remote => {
                request.remote.get().map(|ip| ip.to_string()).unwrap_or_default().into_bytes()
            }
            Attribute::Local => request.local.map(|ip| ip.to_string()).unwrap_or_default().into_bytes(),
            Attribute::Method => request.method.as_bytes().to_vec(),
            Attribute::Protocol => request.protocol.as_bytes().to_vec(),
            Attribute::Path => self.path.clone(),
            Attribute::Field(name) => match request.field(name) {
                Some(value) => value.to_vec(),
                None => self.environment.get(name.as_bytes()).unwrap_or_default().to_vec(),
            },
            Attribute::Fields(pattern) => {
                let mut found = Vec::new();
                for (name, value) in request.fields.all() {
                    if pattern.matches(name.as_bytes())? {
                        found = value.to_vec();
                        break;
                    }
                }
                found
            }
            Attribute::Expression(expression) => {
                let (holds, groups) = expression.captures(&self.scope())?;
                return if holds { self.set_by(rule, &groups.unwrap_or_default()) } else { Ok(()) };
            }
        };
        match rule.pattern.captures(&value)? {
            Some(groups) => self.set_by(rule, &groups),
            None => Ok(()),
        }
    }

    /// Sets the variables of a SetEnvIf that holds.
    fn set_by(&mut self, rule: &SetEnvIf, groups: &Captures) -> Result<(), Halt> {
        for (name, template) in &rule.variables {
            match template {
                None => self.environment.unset(name.as_bytes()),
                Some(template) => {
                    let mut text = Vec::new();
                    let mut bytes = template.bytes().peekable();
                    while let Some(byte) = bytes.next() {
                        match bytes.peek().copied().filter(|b| byte == b'$' && b.is_ascii_digit()) {
                            Some(digit) => {
                                text.extend_from_slice(groups.group(usize::from(digit - b'0')));
                                bytes.next();
                                if text.len() > LONGEST {
                                    return refuse(500);
                                }
                            }
                            None => text.push(byte),
                        }
                    }
                    if text.len() > LONGEST {
                        return refuse(500);
                    }
                    effort::spend(self.environment.0.len())?;
                    self.environment.set(name.as_bytes(), text);
                }
            }
        }
        Ok(())
    }

    fn check_content(&self) -> Result<(), Halt> {
        let limit = self.layers.iter().rev().find_map(|layer| layer.rules().body_limit);
        let Some(limit) = limit.filter(|limit| *limit > 0) else { return Ok(()) };
        let length = self.request.content_length.get();
        if length.is_some_and(|length| length > limit) { refuse(413) } else { Ok(()) }
    }

    /// Redirect and RedirectMatch: those of inner folders first.
    fn redirect(&self) -> Result<(), Halt> {
        for layer in self.layers.iter().rev() {
            for redirect in &layer.rules().redirects {
                effort::spend(32)?;
                let target = match &redirect.from {
                    From::All => Some(redirect.to.clone().into_bytes()),
                    From::Prefix(prefix) => rest_of(&self.path, prefix.as_bytes())
                        .map(|rest| [redirect.to.as_bytes(), &escape::path(rest)].concat()),
                    From::Match(pattern) => {
                        pattern.captures(&self.path)?.map(|groups| substituted(&redirect.to, &groups))
                    }
                };
                let Some(mut target) = target else { continue };
                effort::spend(0)?;
                if !(300..400).contains(&redirect.status) {
                    return refuse(redirect.status);
                }
                if let Some(query) = &self.query
                    && !target.contains(&b'?')
                {
                    target.push(b'?');
                    target.extend_from_slice(query);
                }
                return Err(Halt::With(Outcome::Redirect(redirect.status, self.located(&target))));
            }
        }
        Ok(())
    }

    /// A folder without its slash is redirected although rules have rewritten it, with the query that they made.
    fn add_slash(&self) -> Result<(), Halt> {
        if self.path.ends_with(b"/") || self.world.node(&self.filename) != Some(Node::Directory) {
            return Ok(());
        }
        let mut target = escape::path(&self.path);
        target.push(b'/');
        if let Some(query) = &self.query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Err(Halt::With(Outcome::Redirect(301, self.located(&target))))
    }

    /// A location with scheme and host.
    pub(crate) fn located(&self, target: &[u8]) -> String {
        let target = String::from_utf8_lossy(target);
        match target.starts_with('/') {
            true => format!("{}{target}", self.origin()),
            false => target.into_owned(),
        }
    }

    /// `https://host:port` of the request.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.request.https { "https" } else { "http" };
        let host =
            if self.request.authority.is_empty() { self.request.server_name } else { self.request.authority };
        format!("{scheme}://{host}")
    }

    /// Begins an internal redirect.
    fn redirected(&mut self, path: Vec<u8>) -> Result<(), Halt> {
        // What follows a question mark is the query, whatever made it; what follows a number sign is for browsers.
        let query_before = self.query.clone();
        let without_fragment = |text: &[u8]| text.iter().position(|byte| *byte == b'#').unwrap_or(text.len());
        let path = &path[..without_fragment(&path)];
        if let Some(query) = &mut self.query {
            query.truncate(without_fragment(query));
        }
        let (path, more) = match path.iter().position(|byte| *byte == b'?') {
            Some(at) => (&path[..at], Some(&path[at + 1..])),
            None => (path, None),
        };
        self.query = match (more, self.query.take()) {
            (Some(more), Some(query)) => Some([more, b"?", &query].concat()),
            (Some(more), None) => Some(more.to_vec()),
            (None, query) => query,
        };
        let is_bare = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
        if self.query.as_ref().is_some_and(|query| query.iter().any(is_bare)) {
            return refuse(403);
        }
        let Some(decoded) = escape::decode(path) else { return refuse(400) };
        let from = std::mem::replace(&mut self.path, without_dots(&decoded));
        self.redirected_from = Some((from, query_before));
        self.environment.redirected();
        self.environment.set(b"REDIRECT_STATUS", b"200".to_vec());
        self.media_type = None;
        if std::mem::take(&mut self.is_inner) {
            self.ended = self.ended_outside;
        }
        self.begin();
        Ok(())
    }

    /// Begins a pass for the current path.
    pub(crate) fn begin(&mut self) {
        self.folders = self.world.folders(&self.path);
        self.user.clear();
    }

    /// SetEnv and UnsetEnv, which come after rewriting.
    fn set_environment(&mut self) -> Result<(), Halt> {
        let changes: Vec<_> =
            self.layers.iter().flat_map(|layer| layer.rules().environment.clone()).collect();
        for (name, value) in &changes {
            effort::spend(self.environment.0.len())?;
            match value {
                Some(value) => self.environment.set(name.as_bytes(), value.clone().into_bytes()),
                None => self.environment.unset(name.as_bytes()),
            }
        }
        Ok(())
    }
}

/// What follows `prefix` in `path`, if the prefix ends at the end of a segment.
fn rest_of<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with(b"/") || prefix.ends_with(b"/")).then_some(rest)
}

/// The target of a RedirectMatch, with the groups of its match.
fn substituted(template: &str, groups: &crate::pattern::Captures) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = template.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek().copied()) {
            (b'$', Some(digit @ b'0'..=b'9')) => {
                out.extend_from_slice(groups.group(usize::from(digit - b'0')));
                bytes.next();
                if out.len() > 2 * LONGEST {
                    effort::exhaust();
                    break;
                }
            }
            (b'\\', Some(next @ (b'$' | b'\\'))) => {
                out.push(next);
                bytes.next();
            }
            (byte, _) => out.push(byte),
        }
    }
    let mark = out.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(out.len());
    [escape::path(&out[..mark]), escape::rest(&out[mark..])].concat()
}
