//! One run of a folder's rewrite rules, in the order of steps of Apache's mod_rewrite.c.

use std::cmp::Ordering;

use crate::effort;
use crate::escape;
use crate::evaluate::{Applied, Halt, ON_DISK, Pass};
use crate::expression::{Scope, number};
use crate::request::World;
use crate::rewrite::{Condition, ConditionTest, Flags, Groups, Inherit, Rewrite, Rule, cookie_name};
use crate::template::{References, Template};
use crate::verdict::Outcome;

/// Longest path, query or variable that rules may make, bytes: they could double it with each line.
pub(crate) const LONGEST: usize = 16 << 10;

/// The result of a run.
pub(crate) enum Rewritten {
    /// The path stays.
    No,
    /// An internal redirect to this URL path.
    To(Vec<u8>),
}

/// The rules that apply to a folder.
struct Plan<'r> {
    base: Option<&'r str>,
    /// Length of the folder's URL path with its slash; `None`: the rules stand in a section, where patterns see the whole file
    /// name, and nothing is relative.
    prefix: Option<usize>,
    rules: Vec<&'r Rule>,
    allows_no_slash: bool,
}

/// Runs the rules that apply to the request.
pub(crate) fn run<W: World>(pass: &mut Pass<'_, W>) -> Result<Rewritten, Halt> {
    // The rules belong to the layers, which stay as they are during the run.
    let layers = std::mem::take(&mut pass.layers);
    let prefix = |layer: &Applied| (!layer.is_section()).then_some(layer.prefix);
    let own: Vec<_> = layers.iter().filter_map(|l| Some((prefix(l), l.rules().rewrite.as_ref()?))).collect();
    let result = match plan(&own) {
        Some(plan) => Run { pass, plan: &plan }.run(),
        None => Ok(Rewritten::No),
    };
    pass.layers = layers;
    result
}

/// Merges the rules of all layers: those of the innermost one, unless it inherits others. `None`: they are off.
fn plan<'r>(layers: &[(Option<usize>, &'r Rewrite)]) -> Option<Plan<'r>> {
    let (mut engine, mut base, mut rules) = (false, None, Vec::new());
    let (mut allows_no_slash, mut merges_base) = (false, false);
    for (_, own) in layers {
        engine = own.engine.unwrap_or(engine);
        merges_base |= own.merges_base;
        base = own.base.as_deref().or(base.filter(|_| merges_base));
        allows_no_slash |= own.allows_no_slash;
        let outer: Vec<&Rule> = std::mem::take(&mut rules);
        let inner = own.rules.iter();
        rules = match own.inherit {
            None => inner.collect(),
            Some(Inherit::After) => inner.chain(outer).collect(),
            Some(Inherit::Before) => outer.into_iter().chain(inner).collect(),
        };
    }
    let (prefix, _) = *layers.last().filter(|_| engine)?;
    Some(Plan { base, prefix, rules, allows_no_slash })
}

/// How a run has changed the request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
    /// By a rule with NE.
    Unescaped,
}

struct Run<'p, 'a, W> {
    pass: &'p mut Pass<'a, W>,
    plan: &'p Plan<'p>,
}

impl<W: World> Run<'_, '_, W> {
    fn run(mut self) -> Result<Rewritten, Halt> {
        let folder = self.folder();
        let without_slash = folder.strip_suffix(b"/");
        if without_slash == Some(&self.pass.filename) && !self.plan.allows_no_slash {
            return Ok(Rewritten::No);
        }
        let original = (self.pass.filename.clone(), self.pass.path_info.clone(), self.pass.query.clone());
        let (changed, status) = self.rules(&folder)?;
        let filename = std::mem::replace(&mut self.pass.filename, original.0.clone());
        self.pass.path_info = original.1;
        if changed == Changed::No {
            return Ok(Rewritten::No);
        }
        if let Some(skip) = scheme_length(&filename) {
            let location = self.location(filename, skip, changed, original.2.as_deref(), &folder)?;
            return Err(Halt::With(Outcome::Redirect(status, location)));
        }
        if !filename.starts_with(b"/") {
            return Err(Halt::With(Outcome::Refuse(400)));
        }
        if filename == original.0 {
            return Ok(Rewritten::No);
        }
        let root = self.pass.request.root;
        let path = match self.plan.base {
            Some(base) => replaced(&filename, &folder, base.as_bytes()).unwrap_or(filename),
            None => match filename.strip_prefix(root).filter(|rest| rest.starts_with(b"/")) {
                Some(rest) => rest.to_vec(),
                None => filename,
            },
        };
        Ok(Rewritten::To(path))
    }

    /// The folder's absolute path with a slash at its end; empty: the rules stand in a section.
    fn folder(&self) -> Vec<u8> {
        let Some(prefix) = self.plan.prefix else { return Vec::new() };
        let mut folder =
            [self.pass.request.root, &self.pass.path[..prefix.min(self.pass.path.len())]].concat();
        // The request may name the folder without its slash.
        if !folder.ends_with(b"/") {
            folder.push(b'/');
        }
        folder
    }

    /// All rules; how they changed the request, and the status of a redirect.
    fn rules(&mut self, folder: &[u8]) -> Result<(Changed, u16), Halt> {
        let (mut changed, mut status) = (Changed::No, 302);
        let (mut at, mut rounds) = (0, 0);
        while let Some(rule) = self.plan.rules.get(at).copied() {
            at += 1;
            // Apache passes over these, also in a chain.
            if self.pass.is_inner && (rule.flags.not_inner || rule.flags.is_redirect) {
                continue;
            }
            if !self.rule(rule, folder)? {
                let mut chained = rule.flags.chained;
                while chained && at < self.plan.rules.len() {
                    chained = self.plan.rules[at].flags.chained;
                    at += 1;
                }
                continue;
            }
            let flags = &rule.flags;
            if let Some(refusal) = flags.status.filter(|_| !flags.redirects()) {
                return Err(Halt::With(Outcome::Refuse(refusal)));
            }
            if self.pass.filename.len() + self.pass.query.as_ref().map_or(0, Vec::len) > LONGEST {
                return Err(Halt::With(Outcome::Refuse(500)));
            }
            if rule.substitution.is_some() {
                changed = if flags.keeps_escapes { Changed::Unescaped } else { Changed::Yes };
                status = flags.status.unwrap_or(302);
            }
            self.pass.ended |= flags.end;
            if flags.last || flags.end {
                break;
            }
            if flags.rounds > 0 {
                rounds += 1;
                if rounds >= flags.rounds {
                    return Err(Halt::With(Outcome::Refuse(500)));
                }
                at = 0;
                continue;
            }
            at += flags.skip;
        }
        Ok((changed, status))
    }

    /// One rule; whether it matched.
    fn rule(&mut self, rule: &Rule, folder: &[u8]) -> Result<bool, Halt> {
        let Some(pattern) = &rule.pattern else { return Ok(false) };
        effort::spend(self.pass.filename.len() + self.pass.path_info.len())?;
        let whole = [&self.pass.filename[..], &self.pass.path_info].concat();
        let subject = whole.strip_prefix(folder).unwrap_or(&whole);
        let found = pattern.captures(subject)?;
        if found.is_some() == rule.negated {
            return Ok(false);
        }
        let mut groups = Groups { condition: None, rule: found.filter(|_| !rule.negated) };
        let mut vary = Vec::new();
        if !self.conditions(&rule.conditions, &mut groups, &mut vary)? {
            return Ok(false);
        }
        for name in vary {
            effort::spend(self.pass.vary.len())?;
            if !self.pass.vary.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                self.pass.vary.push(name);
            }
        }
        let result = rule.substitution.as_ref().map(|template| self.expand(template, &groups, &rule.flags));
        self.side_effects(rule, &groups)?;
        if rule.flags.proxies {
            // As Apache without mod_proxy.
            return Err(Halt::With(Outcome::Refuse(403)));
        }
        if let Some(result) = result {
            // An escaped question mark must not begin a query (CVE-2024-38474).
            let own_mark = rule.substitution.as_ref().is_some_and(Template::has_question_mark);
            let target = self.pass.request.target.to_ascii_lowercase();
            let has_mark = result.contains(&b'?') && target.windows(3).any(|part| part == b"%3f");
            if has_mark && !own_mark && !rule.flags.allows_question_mark {
                return Err(Halt::With(Outcome::Refuse(403)));
            }
            self.substitute(result, rule, folder);
        }
        Ok(true)
    }

    fn expand(&self, template: &Template, groups: &Groups, flags: &Flags) -> Vec<u8> {
        let references = References { rule: groups.rule.as_ref(), condition: groups.condition.as_ref() };
        template.expand(&self.pass.scope(), &references, |group| flags.escaped(group))
    }

    /// Whether all conditions hold; of conditions joined by OR, one.
    fn conditions(
        &self,
        conditions: &[Condition],
        groups: &mut Groups,
        vary: &mut Vec<String>,
    ) -> Result<bool, Halt> {
        let mut at = 0;
        while let Some(condition) = conditions.get(at) {
            let idle = self.idle(condition, groups)?;
            if idle > 0 {
                at += idle;
                continue;
            }
            let holds = self.condition(condition, groups)?;
            if holds && !condition.no_vary {
                // Host is a part of the URL.
                let names = condition.subject.fields().filter(|name| !name.eq_ignore_ascii_case("host"));
                vary.extend(names.map(str::to_owned));
            }
            match (holds, condition.or_next) {
                (true, _) => {
                    while conditions.get(at).is_some_and(|condition| condition.or_next) {
                        at += 1;
                    }
                }
                (false, true) => {}
                (false, false) => return Ok(false),
            }
            at += 1;
        }
        Ok(true)
    }

    /// How many conditions of the list that begins with this one can't match.
    fn idle(&self, condition: &Condition, groups: &Groups) -> Result<usize, Halt> {
        let Some(rare) = condition.list_pattern() else { return Ok(0) };
        let subject = self.expand(&condition.subject, groups, &Flags::default());
        Ok(rare.idle(condition.list, &subject)? as usize)
    }

    fn condition(&self, condition: &Condition, groups: &mut Groups) -> Result<bool, Halt> {
        let scope = self.pass.scope();
        let flags = Flags::default();
        let subject = self.expand(&condition.subject, groups, &flags);
        effort::spend(subject.len())?;
        let holds = match &condition.test {
            ConditionTest::Pattern(pattern) => {
                let found = pattern.captures(&subject)?;
                let matches = found.is_some();
                if matches && !condition.negated {
                    groups.condition = found;
                }
                matches
            }
            ConditionTest::Text(comparison, text) => {
                let (mut left, mut right) = (subject, text.clone().into_bytes());
                if condition.ignores_case {
                    left.make_ascii_lowercase();
                    right.make_ascii_lowercase();
                }
                // As Apache: the longer text is the greater one, but not without regard to case.
                let by_length =
                    if condition.ignores_case { Ordering::Equal } else { left.len().cmp(&right.len()) };
                comparison.holds(by_length.then_with(|| left.cmp(&right)))
            }
            ConditionTest::Number(comparison, wanted) => comparison.holds(number(&subject).cmp(wanted)),
            ConditionTest::File(test) => {
                effort::spend(ON_DISK)?;
                scope.file(*test, &subject)
            }
            ConditionTest::Expression(expression) => {
                let (holds, found) = expression.captures(&scope)?;
                let found = found.filter(|found| holds && !condition.negated && found.has_match());
                groups.condition = found.or(groups.condition.take());
                holds
            }
            ConditionTest::Never => return Ok(false),
        };
        Ok(holds != condition.negated)
    }

    /// Variables, cookies, media type, handler.
    fn side_effects(&mut self, rule: &Rule, groups: &Groups) -> Result<(), Halt> {
        let flags = &rule.flags;
        for template in &flags.environment {
            let text = self.expand(template, groups, &Flags::default());
            if text.len() > LONGEST {
                return Err(Halt::With(Outcome::Refuse(500)));
            }
            effort::spend(self.pass.environment.0.len() + self.pass.cache.vary_cookies.len() * text.len())?;
            self.set_variable(&text);
        }
        for template in &flags.cookies {
            let text = self.expand(template, groups, &Flags::default());
            effort::spend(self.pass.cookies.len())?;
            // The first rule that sets a cookie wins, in all passes, as in Apache.
            if !self.pass.cookies.iter().any(|known| cookie_name(known) == cookie_name(&text)) {
                self.pass.cookies.push(text);
            }
        }
        if let Some(template) = &flags.media_type {
            let text = self.expand(template, groups, &Flags::default());
            self.pass.media_type = Some(text);
        }
        if let Some(handler) = &flags.handler {
            self.pass.php_off |= !handler.to_ascii_lowercase().contains("php");
        }
        Ok(())
    }

    /// `NAME:value`, `NAME`, `!NAME`; and LiteSpeed's names, which speak to the page cache.
    fn set_variable(&mut self, text: &[u8]) {
        if let Some(name) = text.strip_prefix(b"!") {
            return self.pass.environment.unset(name);
        }
        let (name, value) = match text.iter().position(|byte| *byte == b':') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &[][..]),
        };
        let value = String::from_utf8_lossy(value);
        if name.eq_ignore_ascii_case(b"cache-control") {
            for word in value.split(',').map(str::trim) {
                match word.split_once('=') {
                    Some(("vary", vary)) => {
                        let vary = vary.trim_start_matches('+').as_bytes().to_vec();
                        self.pass.environment.set(b"LSCACHE_VARY_VALUE", vary);
                    }
                    _ if ["no-cache", "private", "no-store"].contains(&word) => self.pass.cache.bypass = true,
                    _ => {}
                }
            }
        } else if name.eq_ignore_ascii_case(b"cache-vary") {
            let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
            for name in names {
                if !self.pass.cache.vary_cookies.iter().any(|known| known == name) {
                    self.pass.cache.vary_cookies.push(name.to_owned());
                }
            }
            let all = self.pass.cache.vary_cookies.join(",").into_bytes();
            self.pass.environment.set(b"LSCACHE_VARY_COOKIE", all);
        } else {
            self.pass.environment.set(name, value.into_owned().into_bytes());
        }
    }

    /// Makes the result of a rule the new file name or URL, and splits the query off.
    fn substitute(&mut self, result: Vec<u8>, rule: &Rule, folder: &[u8]) {
        let flags = &rule.flags;
        if flags.drops_path_info {
            self.pass.path_info.clear();
        }
        let mut filename = self.split_query(result, flags);
        if !filename.starts_with(b"/") && scheme_length(&filename).is_none() {
            filename = [folder, &filename].concat();
        }
        if flags.redirects() {
            if scheme_length(&filename).is_none() {
                filename = [self.pass.origin().as_bytes(), &filename].concat();
            }
        } else if let Some(path) = self.own_path(&filename) {
            // A URL of this site is a path of it.
            filename = path;
        }
        self.pass.filename = filename;
    }

    /// The path of a URL that leads to this site at the port of this connection.
    fn own_path(&self, url: &[u8]) -> Option<Vec<u8>> {
        let request = self.pass.request;
        let (scheme, usual) = if request.https { (&b"https://"[..], 443) } else { (&b"http://"[..], 80) };
        let rest = url.strip_prefix(scheme)?;
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let authority = std::str::from_utf8(&rest[..end]).ok()?;
        let parts = |text: &str| match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host.to_ascii_lowercase(), port.parse().unwrap_or(0))
            }
            _ => (text.to_ascii_lowercase(), usual),
        };
        let (host, port) = parts(authority);
        let is_own = host == parts(request.authority).0 && port == request.port;
        is_own.then(|| if end == rest.len() { b"/".to_vec() } else { rest[end..].to_vec() })
    }

    fn split_query(&mut self, mut filename: Vec<u8>, flags: &Flags) -> Vec<u8> {
        if flags.drops_query {
            self.pass.query = None;
        }
        let mark = match flags.last_question_mark {
            true => filename.iter().rposition(|byte| *byte == b'?'),
            false => filename.iter().position(|byte| *byte == b'?'),
        };
        let Some(mark) = mark else { return filename };
        let mut query = filename.split_off(mark + 1);
        filename.pop();
        let known = self.pass.query.take().filter(|_| flags.appends_query);
        // With QSA, and nothing to append, Apache leaves an ampersand at the end.
        let is_trimmed = known.is_some() || !flags.appends_query;
        if let Some(known) = known {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend(known);
        }
        if is_trimmed && query.ends_with(b"&") {
            query.pop();
        }
        self.pass.query = Some(query).filter(|query| !query.is_empty());
        filename
    }

    /// The location of a redirect to an absolute URL, whose scheme and `//` take `skip` bytes.
    fn location(
        &self,
        url: Vec<u8>,
        skip: usize,
        changed: Changed,
        original_query: Option<&[u8]>,
        folder: &[u8],
    ) -> Result<String, Halt> {
        let slash = url[skip..].iter().position(|byte| *byte == b'/').map_or(url.len(), |at| skip + at);
        let (host, mut path) = (url[..slash].to_vec(), url[slash..].to_vec());
        if let Some(base) = self.plan.base {
            path = replaced(&path, folder, base.as_bytes()).unwrap_or(path);
        }
        let mut location = host;
        match changed {
            Changed::Unescaped => location.extend(path),
            _ => location.extend(escape::path(&path)),
        }
        if let Some(query) = &self.pass.query {
            location.push(b'?');
            // As it is, it would split the field; Apache refuses that, too (AH10411).
            let as_it_is = changed == Changed::Unescaped || original_query == Some(&query[..]);
            if as_it_is && query.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
                return Err(Halt::With(Outcome::Refuse(403)));
            }
            location.extend(if as_it_is { query.clone() } else { escape::path(query) });
        }
        Ok(String::from_utf8_lossy(&location).into_owned())
    }
}

/// `path` with `base` instead of the folder at its start.
fn replaced(path: &[u8], folder: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(folder.strip_suffix(b"/")?).filter(|rest| rest.starts_with(b"/"))?;
    Some([base.strip_suffix(b"/").unwrap_or(base), rest].concat())
}

/// Schemes that make a substitution an absolute URL.
const SCHEMES: [&[u8]; 8] =
    [b"http://", b"https://", b"ftp://", b"ws://", b"wss://", b"mailto:", b"news:", b"ldap://"];

fn scheme_length(url: &[u8]) -> Option<usize> {
    let is =
        |scheme: &&&[u8]| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    SCHEMES.iter().find(is).map(|scheme| scheme.len())
}
