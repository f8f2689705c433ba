//! Applies the rules of a site (`[[site.rule]]`) to a request, before `.htaccess` files, and to its response, after them.
//!
//! The first action that ends the request responds; the effects of all rules that match are noted with the request. What
//! a rule does to a page is part of the page's key. A site without rules pays one branch.

use std::sync::Arc;

use millrace_htaccess::password::credentials;
use millrace_htaccess::{Verdict, escape};
use millrace_pages::ask::Device;
use millrace_settings::plan::{
    BasicAuth, FieldChange, RequestLimit, RuleAction, RuleEffects, RuleTarget, TargetPart,
};
use millrace_wire::conditional::http_date;
use millrace_wire::path::without_dots;
use millrace_wire::percent;

use super::ServeThread;
use super::walk::{Make, Maker, Walk, WalkStep, other_file};
use crate::cache::CacheStatus;
use crate::htaccess::page_key::{cookie, item};
use crate::htaccess::{self, Origin, Password, PasswordWaiter};
use millrace_base::message::Step;
use millrace_base::message::reply::{self, Body, Reply};
use millrace_base::message::request::{AuthState, Request, Ruling};
use millrace_base::site::Site;
use millrace_base::site::rules::{CompiledRule, SiteRules};

/// Applies the rules to a request. Leaves its ruling, and the numbers of the rules with effects, with it.
pub fn apply(walk: &mut Walk<'_>) -> WalkStep {
    let explains = walk.explains();
    let Walk { thread, site, request, path, .. } = walk;
    let Some(rules) = &site.rules else { return Step::Next };
    rules.drop_forged(request);
    let mut passage = Passage {
        thread,
        site: site.number,
        counted: request.found.counted_rules,
        explains,
        request,
        path,
        effects: Vec::new(),
        end: None,
        is_allowed: false,
        rewritten: None,
        files: None,
        user: String::new(),
        challenge: None,
        key: Vec::new(),
    };
    rules.each(request, path, |number, rule| passage.meet(number, rule));
    // If the script has failed, no rule lets the request pass any more.
    let failed = match passage.request.found.auth {
        AuthState::Failed(status) => Some(Step::Refuse(status)),
        AuthState::Unasked | AuthState::Passed => None,
    };
    let Passage { effects, end, files, counted, .. } = &mut passage;
    let (end, files, counted) = (end.take().or(failed), *files, *counted);
    let effects = std::mem::take(effects);
    let ruling = passage.ruling();
    request.found.counted_rules = counted;
    request.found.ruling = ruling.map(Arc::new);
    request.found.rules = (!effects.is_empty()).then(|| effects.into());
    walk.note_path();
    match (end, files) {
        (Some(end), _) => end,
        (None, Some(rule)) => other_file(walk, rule),
        (None, None) => Step::Next,
    }
}

/// A request on its way through the rules.
struct Passage<'a> {
    /// The number of the site.
    site: usize,
    /// As [`Request::counted_rules`].
    counted: u32,
    /// Nothing is counted: it is for an explanation.
    explains: bool,
    thread: &'a ServeThread,
    request: &'a Request,
    path: &'a [u8],
    /// Numbers of rules with effects.
    effects: Vec<u32>,
    /// How the request ends.
    end: Option<WalkStep>,
    /// A rule or a password has let it pass.
    is_allowed: bool,
    /// The path and query that are served instead.
    rewritten: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The number of the rule that serves its files.
    files: Option<u32>,
    /// The user whose password was right.
    user: String,
    /// The realm of the password that the client has to send.
    challenge: Option<String>,
    /// What the rules do to the page, as a part of its key.
    key: Vec<u8>,
}

impl Passage<'_> {
    /// Counts the request for a limit, once: it may be routed again, by another thread or when a password has been checked.
    fn count(&mut self, number: u32, limit: &RequestLimit) {
        let (address, place) = (self.request.ends.client_ip(), (self.site, number));
        if self.explains {
            let refusal =
                self.thread.shield.would_refuse_for_rule(&self.thread.context, place, limit, address);
            self.end = refusal.map(Step::Answer);
            return;
        }
        if number < self.counted {
            return;
        }
        if self.thread.pages.passes_on {
            self.end = Some(Step::Elsewhere);
            return;
        }
        self.counted = number + 1;
        let refusal = self.thread.shield.count_for_rule(&self.thread.context, place, limit, address);
        self.end = refusal.map(Step::Answer);
    }

    /// A rule that matches.
    fn meet(&mut self, number: u32, rule: &CompiledRule) {
        if rule.has_effects {
            self.effects.push(number);
            self.add_to_key(&rule.plan.effects);
        }
        if self.end.is_some() {
            return;
        }
        let is_routed = self.rewritten.is_some() || self.files.is_some();
        match &rule.plan.action {
            Some(RuleAction::Redirect(target, status)) if !is_routed => {
                let location = self.location(&self.url(target, rule));
                self.end = Some(Step::Answer(reply::redirect(*status, &location)));
            }
            Some(RuleAction::Redirects(_)) if !is_routed => {
                if let Some(line) = rule.listed(self.path) {
                    let location = self.location(&line.to);
                    self.end = Some(Step::Answer(reply::redirect(line.status, &location)));
                }
            }
            Some(RuleAction::Rewrite(target)) if !is_routed => self.rewrite(target, rule),
            Some(RuleAction::Files(_)) if !is_routed => self.files = Some(number),
            Some(RuleAction::Return(status, text)) if !is_routed => {
                self.end = Some(match text {
                    None if *status >= 400 => Step::Refuse(*status),
                    text => Step::Answer(returned(*status, text.as_deref().unwrap_or_default())),
                });
            }
            Some(RuleAction::Allow) => self.is_allowed = true,
            Some(RuleAction::Deny) if !self.is_allowed => self.end = Some(Step::Refuse(403)),
            Some(RuleAction::Limit(limit)) if !self.is_allowed => self.count(number, limit),
            Some(RuleAction::Auth(auth)) if !self.is_allowed => self.authenticate(auth),
            Some(RuleAction::AuthScript(_)) if !self.is_allowed => match self.request.found.auth {
                AuthState::Passed => self.is_allowed = true,
                AuthState::Failed(status) => self.end = Some(Step::Refuse(status)),
                AuthState::Unasked => self.end = Some(self.ask(number)),
            },
            _ => {}
        }
    }

    /// A script decides. None runs for what may be a replay.
    fn ask(&self, number: u32) -> WalkStep {
        match self.request.is_early() {
            true => Step::Answer(reply::plain(425)),
            false => Step::Make(Make {
                maker: Maker::Permission(number),
                cache_status: CacheStatus::NOTHING,
                page: None,
            }),
        }
    }

    fn add_to_key(&mut self, effects: &RuleEffects) {
        for name in &effects.cache.key_cookies {
            item(&mut self.key, name.as_bytes(), cookie(self.request, name.as_bytes()).unwrap_or_default());
        }
        if effects.cache.key_device {
            let device = Device::of(self.request.head.field("user-agent").unwrap_or_default());
            item(&mut self.key, b"device", device.word().as_bytes());
        }
    }

    /// The text of a target with its groups, percent-encoded.
    fn url(&self, target: &RuleTarget, rule: &CompiledRule) -> String {
        let groups = rule.groups(self.path);
        let mut url = String::new();
        for part in &target.0 {
            match part {
                TargetPart::Text(text) => url.push_str(text),
                TargetPart::Host => url.push_str(self.request.authority()),
                TargetPart::Group(group) => {
                    let text = escape::path(groups.get(*group).copied().unwrap_or_default());
                    url.push_str(&String::from_utf8_lossy(&text));
                }
            }
        }
        url
    }

    /// The location for a URL or a path: absolute, and with the query of the request if it has none of its own.
    fn location(&self, url: &str) -> String {
        let (url, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
        let mut location = match self.request.authority() {
            // Two slashes would begin an authority.
            authority if url.starts_with('/') && !authority.is_empty() => {
                format!("{}://{authority}", self.request.ends.scheme.text())
            }
            _ => String::new(),
        };
        location.push_str(url.strip_suffix('?').unwrap_or(url));
        if let Some(query) = self.request.query().filter(|query| !query.is_empty() && !url.contains('?')) {
            location.push('?');
            location.push_str(&String::from_utf8_lossy(&escape::rest(query)));
        }
        location.push_str(fragment);
        location
    }

    fn rewrite(&mut self, target: &RuleTarget, rule: &CompiledRule) {
        let groups = rule.groups(self.path);
        let (mut path, mut query): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
        for part in &target.0 {
            let text = match part {
                TargetPart::Text(text) => text.as_bytes(),
                TargetPart::Host => self.request.authority().as_bytes(),
                TargetPart::Group(group) => groups.get(*group).copied().unwrap_or_default(),
            };
            match (&mut query, part, text.iter().position(|byte| *byte == b'?')) {
                (Some(query), TargetPart::Group(_), _) => query.extend(encoded(text)),
                (Some(query), ..) => query.extend_from_slice(text),
                (None, TargetPart::Text(_), Some(mark)) => {
                    path.extend_from_slice(&text[..mark]);
                    query = Some(text[mark + 1..].to_vec());
                }
                (None, ..) => path.extend_from_slice(text),
            }
        }
        let query = query.or_else(|| self.request.query().map(<[u8]>::to_vec));
        let path = without_dots(&path);
        // Another rule, or another client, may lead the same URL elsewhere.
        item(&mut self.key, b"path", &path);
        item(&mut self.key, b"query", query.as_deref().unwrap_or_default());
        self.rewritten = Some((path, query));
    }

    fn authenticate(&mut self, auth: &BasicAuth) {
        let sent = self.request.head.field("authorization").and_then(credentials);
        let known = sent.and_then(|(user, password)| {
            let (_, hash) = auth.users.iter().find(|(name, _)| *name == user)?;
            Some((user, password, hash))
        });
        let Some((user, password, hash)) = known else { return self.challenge(auth) };
        let waiter = PasswordWaiter::new(self.site, self.request.ends.client_ip());
        match self.thread.htaccess.check_password(&hash.0, (&user, &password), waiter) {
            Ok(Password::Right) => {
                self.is_allowed = true;
                self.user = user;
            }
            Ok(Password::Wrong) => self.challenge(auth),
            Ok(Password::Wait(check)) => self.end = Some(Step::after(check)),
            Ok(Password::Busy) => {
                self.end = Some(Step::Answer(reply::plain(503).with("Retry-After", "5")));
            }
            Err(why) => {
                self.thread.context.process.log.error(format_args!("site.rule: user {user}: {why}"));
                self.end = Some(Step::Refuse(500));
            }
        }
    }

    fn challenge(&mut self, auth: &BasicAuth) {
        self.challenge = Some(auth.realm.clone());
        self.end = Some(Step::Refuse(401));
    }

    /// What is kept with the request; `None`: nothing but effects on its response.
    fn ruling(self) -> Option<Ruling> {
        let Passage { request, path, rewritten, user, challenge, key, .. } = self;
        if rewritten.is_none() && user.is_empty() && challenge.is_none() && key.is_empty() {
            return None;
        }
        let own_query = || request.query().map(<[u8]>::to_vec);
        let redirected_from = rewritten.is_some().then(|| (path.to_vec(), own_query()));
        let (path, query) = rewritten.unwrap_or_else(|| (path.to_vec(), own_query()));
        let verdict = Verdict { redirected_from, user, challenge, ..Verdict::serving(path, query) };
        Some(Ruling { verdict, key: key.into() })
    }
}

/// Encodes a text as the value of a query argument.
fn encoded(text: &[u8]) -> Vec<u8> {
    percent::encode_unless(&escape::path(text), |byte| !b"&=+;".contains(&byte)).into_bytes()
}

fn returned(status: u16, text: &str) -> Reply {
    let reply = Reply::new(status).with("Content-Type", "text/plain; charset=utf-8");
    reply.body(Body::Bytes(text.as_bytes().to_vec()))
}

/// The effects of the rules that the request has met, in their order.
fn effects<'s>(site: &'s Site, request: &'s Request) -> impl DoubleEndedIterator<Item = &'s RuleEffects> {
    let rules = site.rules.as_deref().zip(request.found.rules.as_deref());
    let of = |(rules, numbers): (&'s SiteRules, &'s [u32])| {
        numbers.iter().map(|number| &rules.get(*number).plan.effects)
    };
    rules.map(of).into_iter().flatten()
}

/// Whether a rule has the request bypass the page cache.
pub fn bypasses(site: &Site, request: &Request) -> bool {
    effects(site, request).any(|effects| effects.cache.bypass)
}

/// Gives a response for the page cache the lifetime that a rule says, if it sets none itself.
pub fn set_lifetime(site: &Site, request: &Request, reply: &mut Reply) {
    let Some(ttl) = effects(site, request).rev().find_map(|effects| effects.cache.ttl) else { return };
    let speaks = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "expires"
            || name == "x-accel-expires"
            || name == "surrogate-control"
            || name.ends_with("cache-control")
    };
    let own = reply.fields.iter().chain(reply.aside.iter().flat_map(|aside| aside.fields.iter()));
    if reply.status == 200 && !own.into_iter().any(|(name, _)| speaks(name)) {
        let aside = reply.aside.get_or_insert_default();
        aside.fields.push("X-Accel-Expires", ttl.as_secs().to_string().as_bytes());
    }
}

/// Has a page of the site respond for an error, if a rule names one: gives the request a ruling that leads to it.
pub fn error_page(site: &Site, request: &mut Request, path: &[u8], status: u16) -> bool {
    let own = request.found.ruling.as_ref().map(|ruling| &ruling.verdict);
    // A page for an error of a page for an error.
    if own.is_some_and(|verdict| verdict.status.is_some()) {
        return false;
    }
    let page = |effects: &RuleEffects| {
        let mut pages = effects.error_pages.iter().rev();
        pages.find(|(known, _)| *known == status).map(|(_, page)| page.clone())
    };
    let Some(page) = effects(site, request).rev().find_map(page) else { return false };
    let (page, query) = page.split_once('?').map_or((&*page, None), |(page, query)| (page, Some(query)));
    let verdict = Verdict {
        status: Some(status),
        challenge: own.and_then(|verdict| verdict.challenge.clone()),
        redirected_from: Some((path.to_vec(), request.query().map(<[u8]>::to_vec))),
        ..Verdict::serving(without_dots(page.as_bytes()), query.map(|query| query.as_bytes().to_vec()))
    };
    request.found.ruling = Some(Arc::new(Ruling { verdict, key: Box::default() }));
    true
}

/// Applies the rules of `.htaccess` files and of the site to a response.
pub fn change(thread: &ServeThread, site: &Site, request: &Request, origin: Origin, reply: &mut Reply) {
    htaccess::change(&thread.htaccess, &thread.context, site, request, origin, reply);
    if request.found.rules.is_some() {
        change_fields(thread, site, request, origin, reply);
    }
    if request.is_private() {
        keep_private(reply);
    }
}

fn change_fields(thread: &ServeThread, site: &Site, request: &Request, origin: Origin, reply: &mut Reply) {
    // A script that says something about its lifetime has the last word; of rules, the last one that matches.
    let has_own = effects(site, request).any(|effects| effects.expires.is_some())
        && origin == Origin::Script
        && reply.fields.iter().any(|(name, _)| is_lifetime(name));
    for effects in effects(site, request) {
        if !is_for(effects, reply) {
            continue;
        }
        for change in &effects.fields {
            match change {
                FieldChange::Set(name, value) => {
                    reply.fields.remove(name);
                    reply.fields.push(name, value.as_bytes());
                }
                FieldChange::Add(name, value) => reply.fields.push(name, value.as_bytes()),
                FieldChange::Unset(name) => reply.fields.remove(name),
            }
        }
        // What is missing today may be there tomorrow: an error has a lifetime only by a rule that names its status.
        let may_expire = origin != Origin::Server && (reply.status < 400 || !effects.statuses.is_empty());
        if let Some(lifetime) = effects.expires.filter(|_| may_expire && !has_own) {
            expire(thread.context.clock.unix_time().as_secs(), lifetime.as_secs(), reply);
        }
    }
}

/// Whether the effects are for a response of this status and type.
fn is_for(effects: &RuleEffects, reply: &Reply) -> bool {
    let RuleEffects { types, statuses, .. } = effects;
    let has_type = || {
        let own = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let own = own.map_or(&[][..], |(_, value)| value.split(|b| *b == b';').next().unwrap_or_default());
        let own = own.trim_ascii();
        types.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => own.get(..start.len()).is_some_and(|s| s.eq_ignore_ascii_case(start.as_bytes())),
            None => own.eq_ignore_ascii_case(wanted.as_bytes()),
        })
    };
    (statuses.is_empty() || statuses.contains(&reply.status)) && (types.is_empty() || has_type())
}

/// Has no cache but the browser's store a response, whatever the application or another rule says.
fn keep_private(reply: &mut Reply) {
    let values = reply.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
    let directives: Vec<Vec<u8>> = values
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|directive| directive.trim_ascii().to_vec())
        .filter(|directive| !directive.is_empty())
        .collect();
    let is = |directive: &[u8], known: &str| {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(known.as_bytes())
    };
    // `private="Set-Cookie"` is about that field alone.
    let is_private =
        |directive: &[u8]| directive.eq_ignore_ascii_case(b"private") || is(directive, "no-store");
    for name in ["CDN-Cache-Control", "Surrogate-Control"] {
        reply.fields.remove(name);
    }
    if directives.iter().any(|directive| is_private(directive)) {
        return;
    }
    let kept = directives
        .iter()
        .filter(|directive| !["public", "s-maxage", "private"].iter().any(|known| is(directive, known)));
    let control =
        [&b"private"[..]].into_iter().chain(kept.map(Vec::as_slice)).collect::<Vec<_>>().join(&b", "[..]);
    reply.fields.remove("Cache-Control");
    reply.fields.push("Cache-Control", &control);
}

/// Whether a field of this name says how long browsers may keep a response.
fn is_lifetime(name: &str) -> bool {
    name.eq_ignore_ascii_case("cache-control") || name.eq_ignore_ascii_case("expires")
}

/// Sets the lifetime in browsers.
fn expire(now: u64, lifetime: u64, reply: &mut Reply) {
    reply.fields.remove("Cache-Control");
    reply.fields.remove("Expires");
    let control = if lifetime == 0 { "no-cache".to_owned() } else { format!("max-age={lifetime}") };
    reply.fields.push("Cache-Control", control.as_bytes());
    reply.fields.push("Expires", http_date(now + lifetime).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_stays_private() {
        for (said, sent) in [
            (&[][..], "private"),
            (&["max-age=60"], "private, max-age=60"),
            (&["public, max-age=60", "s-maxage=9"], "private, max-age=60"),
            (&["PUBLIC , S-MaxAge = 9, immutable"], "private, immutable"),
            (&["private=\"Set-Cookie\", max-age=1"], "private, max-age=1"),
            (&["private, max-age=60"], "private, max-age=60"),
            (&["no-store"], "no-store"),
        ] {
            let mut reply = Reply::new(200).with("CDN-Cache-Control", "max-age=9");
            said.iter().for_each(|value| reply.fields.push("cache-control", value.as_bytes()));
            keep_private(&mut reply);
            let found: Vec<_> =
                reply.fields.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect();
            assert_eq!(found, [sent], "{said:?}");
        }
    }
}
