//! The rules of a site (`[[site.rule]]`), compiled for finding those that match a request.
//!
//! ```text
//!  path -> PathIndex -> candidates -> in their order: method, host, query, header fields, client -> rules that match
//! ```

mod paths;

use std::cell::RefCell;

use hashbrown::HashTable;
use millrace_settings::plan::{ListedRedirect, NetworkSet, RuleAction, RuleCondition, SiteRule};
use millrace_wire::glob::{self, Glob};
use regex::bytes::Regex;
use twox_hash::XxHash3_64;

use crate::message::Request;
use crate::message::host_of;
use crate::message::request::{AuthState, is_same_variable};
use paths::PathIndex;

thread_local! {
    /// Numbers of the rules that may match a request. Never borrowed while another request is looked at.
    static CANDIDATES: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// The rules of a site.
#[derive(Debug)]
pub struct SiteRules {
    rules: Vec<CompiledRule>,
    index: PathIndex,
    /// Names of the header fields that only scripts give requests (`auth.copy`).
    copied: Box<[String]>,
}

/// A rule, ready to be matched.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule as configured.
    pub plan: SiteRule,
    /// The lines of its file of redirects, by path.
    listed: HashTable<u32>,
    paths: Vec<Glob>,
    unless_paths: Vec<Glob>,
    regex: Option<Regex>,
    headers: Vec<(String, Option<Glob>)>,
    from: Option<NetworkSet>,
    unless_from: NetworkSet,
    /// Whether nothing but the path matters.
    only_path: bool,
    /// Whether it has effects.
    pub has_effects: bool,
    /// The number of its directory among those of all rules, if it serves the files of one.
    pub folder: usize,
}

impl SiteRules {
    /// The rules of a site; `None`: it has none.
    pub fn new(plan: &[SiteRule]) -> Option<Box<SiteRules>> {
        let mut rules: Vec<CompiledRule> = plan.iter().cloned().map(CompiledRule::new).collect();
        let with_files =
            rules.iter_mut().filter(|rule| matches!(rule.plan.action, Some(RuleAction::Files(_))));
        with_files.enumerate().for_each(|(number, rule)| rule.folder = number);
        let copied = rules.iter().flat_map(|rule| match &rule.plan.action {
            Some(RuleAction::AuthScript(auth)) => auth.copy.as_slice(),
            _ => &[],
        });
        let copied = copied.cloned().collect();
        (!rules.is_empty()).then(|| Box::new(SiteRules { index: PathIndex::new(&rules), rules, copied }))
    }

    /// Removes header fields that only scripts give requests from one that comes from its client. The same names for
    /// the whole site: an application believes them wherever they come from.
    pub fn drop_forged(&self, request: &mut Request) {
        if !self.copied.is_empty() && request.found.auth == AuthState::Unasked {
            let is_copied = |name: &str| self.copied.iter().any(|known| is_same_variable(name, known));
            request.head.replace(is_copied, &[]);
        }
    }

    /// Calls `see` for each rule that matches, in their order, with its number. `path` is the normalised path.
    pub fn each<'r>(&'r self, request: &Request, path: &[u8], mut see: impl FnMut(u32, &'r CompiledRule)) {
        CANDIDATES.with_borrow_mut(|candidates| {
            candidates.clear();
            self.index.find(path, candidates);
            candidates.sort_unstable();
            candidates.dedup();
            for number in &*candidates {
                let rule = &self.rules[*number as usize];
                if rule.only_path || (rule.lets(path) && rule.matches(request)) {
                    see(*number, rule);
                }
            }
        });
    }

    /// The rule of this number.
    pub fn get(&self, number: u32) -> &CompiledRule {
        &self.rules[number as usize]
    }
}

impl CompiledRule {
    fn new(mut plan: SiteRule) -> CompiledRule {
        let mut listed = HashTable::new();
        if let Some(RuleAction::Redirects(lines)) = &plan.action {
            for (number, line) in (0..).zip(lines.iter()) {
                let is_same = |other: &u32| lines[*other as usize].from == line.from;
                if listed.find(hash(line.from.as_bytes()), is_same).is_none() {
                    listed.insert_unique(hash(line.from.as_bytes()), number, |other: &u32| {
                        hash(lines[*other as usize].from.as_bytes())
                    });
                }
            }
        }
        let RuleCondition { paths, unless_paths, regex, hosts, methods, queries, headers, from, unless_from } =
            &mut plan.condition;
        let globs = |paths: &[String]| paths.iter().map(|path| Glob::new(path)).collect();
        let header = |(name, like): &(String, Option<String>)| {
            (name.clone(), like.as_ref().map(|like| Glob::new(&like.to_ascii_lowercase())))
        };
        let built = |text: &String| paths::builder(text).build().expect("the settings have checked it");
        let regex = regex.as_ref().map(built);
        let only_path = hosts.is_empty()
            && methods.is_empty()
            && queries.is_empty()
            && headers.is_empty()
            && unless_paths.is_empty()
            && from.is_none()
            && unless_from.is_empty();
        CompiledRule {
            listed,
            paths: globs(paths),
            unless_paths: globs(unless_paths),
            regex,
            headers: headers.iter().map(header).collect(),
            // Lists of a country's networks are long: only the set stays.
            from: from.as_mut().map(|networks| NetworkSet::new(&std::mem::take(networks))),
            unless_from: NetworkSet::new(&std::mem::take(unless_from)),
            only_path,
            has_effects: plan.effects != Default::default(),
            folder: 0,
            plan,
        }
    }

    /// Whether everything but the path is as the rule says.
    fn matches(&self, request: &Request) -> bool {
        let RuleCondition { hosts, methods, queries, .. } = &self.plan.condition;
        let ip = request.ends.client_ip();
        (methods.is_empty() || methods.iter().any(|method| is_method(method, request.head.method())))
            && (hosts.is_empty() || hosts.iter().any(|host| is_host(host, host_of(request.authority()))))
            && (queries.is_empty() || queries.iter().any(|wanted| has_argument(request.query(), wanted)))
            && (self.headers.is_empty() || self.headers.iter().any(|wanted| has_field(request, wanted)))
            && self.from.as_ref().is_none_or(|networks| networks.contains(ip))
            && !self.unless_from.contains(ip)
    }

    /// Whether `path`, for which the index has found the rule, is none of its exceptions.
    fn lets(&self, path: &[u8]) -> bool {
        !self.unless_paths.iter().any(|glob| glob.matches(path))
    }

    /// What the groups of its pattern stand for in `path`; the first one is the whole path.
    pub fn groups<'p>(&self, path: &'p [u8]) -> Vec<&'p [u8]> {
        let mut groups = vec![path];
        if let Some(found) = self.regex.as_ref().and_then(|regex| regex.captures(path)) {
            groups.extend((1..found.len()).map(|at| found.get(at).map_or(&[][..], |group| group.as_bytes())));
        } else if let Some(found) = self.paths.iter().find_map(|glob| glob.groups(path)) {
            groups.extend(found);
        }
        groups
    }

    /// Where in its directory the file for `path` is; empty for the directory itself without a slash.
    pub fn below(&self, path: &[u8]) -> Vec<u8> {
        let Some(RuleAction::Files(files)) = &self.plan.action else { return Vec::new() };
        match (files.strips, &self.groups(path)[..]) {
            (false, _) => path.to_vec(),
            // What `*` stands for begins behind the slash before it: `/docs/*` never leads to a neighbour of its directory.
            (true, [_, rest, ..]) => [b"/", *rest].concat(),
            (true, _) => Vec::new(),
        }
    }

    /// The line of its file of redirects for `path`.
    pub fn listed(&self, path: &[u8]) -> Option<&ListedRedirect> {
        let Some(RuleAction::Redirects(lines)) = &self.plan.action else { return None };
        let is_it = |line: &u32| lines[*line as usize].from.as_bytes() == path;
        self.listed.find(hash(path), is_it).map(|line| &lines[*line as usize])
    }
}

fn hash(path: &[u8]) -> u64 {
    XxHash3_64::oneshot(path)
}

/// Whether `host` is this name; `*.` in front stands for one or more labels.
fn is_host(name: &str, host: &str) -> bool {
    match name.strip_prefix('*') {
        Some(end) => {
            host.len() > end.len()
                && host.as_bytes()[host.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
        }
        None => name.eq_ignore_ascii_case(host),
    }
}

/// Whether a request's method is this one. What holds for GET holds for HEAD.
fn is_method(wanted: &str, method: &str) -> bool {
    wanted == method || (wanted == "GET" && method == "HEAD")
}

/// Whether a query has an argument: `name`, `name=value`, `*` at either end.
fn has_argument(query: Option<&[u8]>, wanted: &str) -> bool {
    let mut arguments = query.unwrap_or_default().split(|byte| *byte == b'&').filter(|a| !a.is_empty());
    let name = |argument: &'_ [u8]| argument.iter().position(|b| *b == b'=').unwrap_or(argument.len());
    arguments.any(|argument| {
        let text = if wanted.contains('=') { argument } else { &argument[..name(argument)] };
        glob::is_like(wanted, text)
    })
}

/// Whether a request has a field of this name, with a value like this.
fn has_field(request: &Request, (name, like): &(String, Option<Glob>)) -> bool {
    let mut fields = request.head.fields().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.any(|(_, value)| like.as_ref().is_none_or(|like| like.matches(&value.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use millrace_settings::plan;
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use crate::message::request::{Ends, Scheme};

    #[test]
    fn hosts_and_arguments() {
        assert!(is_host("*.example.com", "a.b.Example.com") && is_host("a.com", "A.com"));
        assert!(!is_host("*.example.com", "example.com") && !is_host("*.b", ".b") && !is_host("a", "b"));
        let has = |query: &str, wanted| has_argument(Some(query.as_bytes()), wanted);
        assert!(has("a=1&b", "b") && has("a=1&b", "a") && has("a=1", "a=1") && has("utm_x=1", "utm_*"));
        assert!(!has("a=1", "b") && !has("a=12", "a=1") && !has("", "a") && !has("ab=1", "a"));
        assert!(!has_argument(None, "a"));
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }

        fn some(&mut self, of: &[&str], most: usize) -> Vec<String> {
            let count = self.below(most + 1);
            (0..count).map(|_| of[self.below(of.len())].to_owned()).collect()
        }
    }

    const PATTERNS: [&str; 14] = [
        "/", "/a", "/a/", "/a/b", "/*", "/a*", "/a/*", "/a/b*", "*", "*/b", "*.c", "/a/*/b", "/a*b*c", "/b/*",
    ];

    fn rule(random: &mut Random) -> SiteRule {
        let mut condition = RuleCondition::default();
        match random.below(4) {
            0 => condition.regex = Some(["^/a", "b$", "(a|b)/", "^/$"][random.below(4)].to_owned()),
            _ => condition.paths = random.some(&PATTERNS, 3),
        }
        condition.unless_paths = random.some(&PATTERNS, 1);
        condition.methods = random.some(&["GET", "POST"], 1);
        condition.hosts = random.some(&["a.test", "*.test"], 1);
        SiteRule { condition, ..SiteRule::default() }
    }

    /// What the index finds is what comparing every rule finds.
    #[test]
    fn the_index_finds_what_each_rule_matches() {
        const PATHS: [&str; 12] =
            ["/", "/a", "/a/", "/a/b", "/a/b/", "/a/x/b", "/ab.c", "/b", "/b/b", "/x", "/a/b.c", "/abc"];
        let mut found = 0;
        for seed in 0..300 {
            let random = &mut Random(seed);
            let plan: Vec<SiteRule> = (0..1 + random.below(12)).map(|_| rule(random)).collect();
            let rules = SiteRules::new(&plan).unwrap();
            for path in PATHS {
                let method = ["GET", "HEAD", "POST"][random.below(3)];
                let host = ["a.test", "b.test", "c"][random.below(3)];
                let request = request(method, host, path);
                let mut by_index = Vec::new();
                rules.each(&request, path.as_bytes(), |number, _| by_index.push(number as usize));
                let like = |patterns: &[String]| {
                    patterns.iter().any(|pattern| Glob::new(pattern).matches(path.as_bytes()))
                };
                let is_met = |rule: &SiteRule| {
                    let RuleCondition { paths, unless_paths, regex, hosts, methods, .. } = &rule.condition;
                    (regex.is_some() || paths.is_empty() || like(paths))
                        && regex
                            .as_ref()
                            .is_none_or(|text| Regex::new(text).unwrap().is_match(path.as_bytes()))
                        && !like(unless_paths)
                        && (hosts.is_empty() || hosts.iter().any(|name| is_host(name, host)))
                        && (methods.is_empty() || methods.iter().any(|name| is_method(name, method)))
                };
                let all: Vec<usize> = (0..plan.len()).filter(|number| is_met(&plan[*number])).collect();
                assert_eq!(by_index, all, "seed {seed}: {method} {host} {path}\n{plan:#?}");
                found += all.len();
            }
        }
        assert!(found > 1000, "{found}");
    }

    fn request(method: &str, host: &str, target: &str) -> Request {
        let mut head = Head::default();
        let text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        head.parse(text.as_bytes(), &Limits { bytes: 16384, fields: 100, target: 8192 }).unwrap().unwrap();
        Request::direct(head, Ends { client: None, local: None, scheme: Scheme::Http, tls: None })
    }

    #[test]
    fn files_of_another_directory_begin_behind_a_slash() {
        let rule = |paths: &[&str], strips| {
            let condition = RuleCondition {
                paths: paths.iter().map(|path| (*path).to_owned()).collect(),
                ..RuleCondition::default()
            };
            let files = plan::OtherFiles { folder: "/srv/docs".into(), strips };
            let action = Some(RuleAction::Files(files));
            CompiledRule::new(SiteRule { condition, action, ..SiteRule::default() })
        };
        let alias = rule(&["/docs", "/docs/*", "/more/docs/*"], true);
        for (path, below) in [
            ("/docs/a.txt", "/a.txt"),
            ("/docs/deep/b", "/deep/b"),
            ("/docs/", "/"),
            ("/docs", ""),
            ("/more/docs/a", "/a"),
            ("/more/docs/", "/"),
        ] {
            assert_eq!(alias.below(path.as_bytes()), below.as_bytes(), "{path}");
        }
        assert_eq!(rule(&["/docs/*"], false).below(b"/docs/a.txt"), b"/docs/a.txt");
        let rules = ["/a/*", "/b/*", "/c/*"].map(|path| rule(&[path], true).plan);
        let rules = SiteRules::new(&rules).unwrap();
        assert_eq!(
            [0, 1, 2].map(|number| rules.get(number).folder),
            [0, 1, 2],
            "one place in the cache each"
        );
    }

    /// Whatever a client writes: what an alias makes of it is a path within its directory.
    #[test]
    fn no_target_leads_out_of_a_directory() {
        const PIECES: [&str; 20] = [
            "/docs", "/docs/", "/", "//", ".", "..", "/..", "/../", "%2e", "%2E%2e", "%2f", "%5c", "\\",
            "%00", "%25", "a", "docs", "-old", ";", "/./",
        ];
        let condition =
            RuleCondition { paths: vec!["/docs".into(), "/docs/*".into()], ..RuleCondition::default() };
        let files = plan::OtherFiles { folder: "/srv/docs".into(), strips: true };
        let action = Some(RuleAction::Files(files));
        let rules = SiteRules::new(&[SiteRule { condition, action, ..SiteRule::default() }]).unwrap();
        let (mut random, mut path, mut met) = (Random(1), Vec::new(), 0);
        for _ in 0..50_000 {
            let target = format!("/docs{}", random.some(&PIECES, 8).concat());
            if millrace_wire::path::normalise(target.as_bytes(), &mut path).is_err() {
                continue;
            }
            rules.each(&request("GET", "a.test", "/"), &path, |_, rule| {
                let below = rule.below(&path);
                met += 1;
                assert_eq!([b"/docs", &below[..]].concat(), path, "{target}");
                assert!(below.is_empty() || below.starts_with(b"/"), "{target}");
                assert!(!below.split(|byte| *byte == b'/').any(|part| part == b".."), "{target}");
                assert!(!below.contains(&0), "{target}");
            });
        }
        assert!(met > 5000, "{met}");
    }

    #[test]
    fn only_scripts_give_requests_the_fields_that_they_copy() {
        let auth = plan::ScriptAuth { script: "/auth.php".into(), copy: vec!["X-User".into()] };
        let action = Some(RuleAction::AuthScript(auth));
        let rules = SiteRules::new(&[SiteRule { action, ..SiteRule::default() }]).unwrap();
        let mut request = request("GET", "a.test", "/");
        request
            .head
            .replace(|_| false, &[("x_user".into(), b"eve".to_vec()), ("X-USER".into(), b"eve".to_vec())]);
        rules.drop_forged(&mut request);
        assert_eq!(request.head.fields().map(|(name, _)| name).collect::<Vec<_>>(), ["Host"]);
        request.head.replace(|_| false, &[("X-User".into(), b"ann".to_vec())]);
        request.found.auth = AuthState::Passed;
        rules.drop_forged(&mut request);
        assert_eq!(request.head.field("x-user"), Some(&b"ann"[..]), "the script's own");
    }

    #[test]
    fn the_first_line_of_a_path_in_a_list_counts() {
        let line = |from: &str, to: &str| ListedRedirect { from: from.into(), to: to.into(), status: 301 };
        let lines = (0..5000).map(|number| line(&format!("/{number}"), "/x")).chain([line("/7", "/y")]);
        let action = Some(RuleAction::Redirects(lines.collect()));
        let rule = CompiledRule::new(SiteRule { action, ..SiteRule::default() });
        assert_eq!(rule.listed(b"/7").map(|line| &*line.to), Some("/x"));
        assert_eq!(rule.listed(b"/4999").map(|line| &*line.to), Some("/x"));
        assert_eq!(rule.listed(b"/5000"), None);
    }
}
