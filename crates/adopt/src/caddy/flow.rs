//! The directives of a block in the order in which they decide, each with the requests that get to it: those of the blocks around it,
//! without those that others have taken.

use super::conditions::{self, both, is_rest, without};
use super::lex::CaddyLine;
use super::order::{ends, is_step, restricts, sorted};
use super::site::Converter;
use crate::value::{Adopted, OPEN, Toml, When};

/// What to write instead of passwords in the Caddyfile.
const PASSWORDS: &str = "put the users into a file as `htpasswd -B` writes it, and write auth = { users = \"FILE\" } instead of `deny`: until \
     then, all requests are refused";

/// What the blocks around a directive say.
#[derive(Clone, Default)]
pub struct CaddyScope {
    /// Which requests get there.
    pub when: When,
    /// What `handle_path` has removed from the path.
    pub prefix: String,
    /// Their own `root`.
    pub folder: Option<String>,
    /// `route`: directives decide as they stand.
    pub is_route: bool,
}

/// Where a walk through the directives of a block is.
struct Walk {
    /// The requests that no directive before has responded to; `None`: there are none.
    left: Option<When>,
    /// Conditions of the `handle` blocks so far: a request enters only the first one that matches.
    handled: Vec<When>,
    /// Each of these blocks responds to all of its requests.
    all_end: bool,
}

impl Converter<'_> {
    /// The directives of a block.
    pub fn directives(&mut self, nodes: &[CaddyLine], scope: &CaddyScope, adopted: &mut Adopted) {
        for node in nodes.iter().filter(|node| node.word(0).starts_with('@')) {
            self.site.notes.carried(&node.whole());
            self.matchers.push((node.word(0).to_owned(), conditions::matcher(node)));
        }
        let rest: Vec<CaddyLine> =
            nodes.iter().filter(|node| !node.word(0).starts_with('@')).cloned().collect();
        let ordered = match scope.is_route {
            true => rest.iter().collect(),
            false => sorted(&rest, |node| self.own(node, scope).ok()),
        };
        let mut walk = Walk { left: Some(scope.when.clone()), handled: Vec::new(), all_end: true };
        for node in ordered {
            match is_step(node.word(0)) {
                true => self.step(node, &mut walk, scope, adopted),
                false => self.directive(node, &scope.when, scope, adopted),
            }
        }
    }

    /// One directive, for the requests that get to it.
    fn step(&mut self, node: &CaddyLine, walk: &mut Walk, scope: &CaddyScope, adopted: &mut Adopted) {
        let Some(here) = walk.left.clone() else {
            let why = "no request gets there: what stands before responds to all";
            return self.site.notes.needless(&node.whole(), why);
        };
        let own = self.own(node, scope);
        let found = own.clone().and_then(|own| both(&here, &own));
        let (Ok(mut taken), Some(mut when)) = (own, self.reached(node, found)) else { return };
        if matches!(node.word(0), "handle" | "handle_path") {
            let Some(remaining) = self.not_handled(node, &taken, when, &walk.handled) else { return };
            when = remaining;
            walk.handled.push(taken.clone());
            if !walk.all_end {
                taken.clone_from(&when);
            }
            walk.all_end &= is_end(node);
        }
        self.directive(node, &when, scope, adopted);
        if is_end(node) {
            walk.left = without(&here, &taken).unwrap_or_else(|_| {
                let why = "what stands behind it in the same block is for these requests, too: rules can't except them";
                self.site.notes.lost(&node.source, why);
                Some(here)
            });
        }
    }

    /// The requests that get to a directive, if there are any and rules can say which.
    fn reached(&mut self, node: &CaddyLine, found: Result<Option<When>, String>) -> Option<When> {
        match found {
            Ok(Some(when)) => return Some(when),
            Ok(None) => {
                let why = "no request gets there: the blocks around it are for others";
                self.site.notes.needless(&node.whole(), why);
            }
            Err(why) => {
                let open = if restricts(node) { OPEN } else { "" };
                self.site.notes.lost(&node.whole(), format!("{why}{open}"));
            }
        }
        None
    }

    /// What other `handle` blocks have left; `None`: nothing. Blocks with the same matcher (`own`) become one.
    fn not_handled(
        &mut self,
        node: &CaddyLine,
        own: &When,
        mut when: When,
        handled: &[When],
    ) -> Option<When> {
        for other in handled.iter().filter(|other| *other != own) {
            match without(&when, other) {
                Ok(Some(left)) => when = left,
                Ok(None) => {
                    self.site
                        .notes
                        .needless(&node.whole(), "no request gets there: other blocks have taken them");
                    return None;
                }
                Err(_) => {
                    let why = "its rules are for requests of the `handle` blocks before it, too: rules can't except them";
                    self.site.notes.lost(&node.source, why);
                }
            }
        }
        Some(when)
    }

    /// The conditions of a directive's own matcher, for the whole path.
    fn own(&self, node: &CaddyLine, scope: &CaddyScope) -> Result<When, String> {
        let own = match matcher_of(node) {
            None => When::new(),
            Some(name) if name.starts_with('@') => {
                match self.matchers.iter().find(|(known, _)| known == name) {
                    Some((_, found)) => found.clone()?,
                    None => return Err(format!("there is no matcher {name}")),
                }
            }
            Some(path) => conditions::inline(path)?,
        };
        conditions::below(own, &scope.prefix)
    }

    fn directive(&mut self, node: &CaddyLine, when: &When, scope: &CaddyScope, adopted: &mut Adopted) {
        let at = 1 + usize::from(matcher_of(node).is_some());
        let args: Vec<String> = node.words.iter().skip(at).cloned().collect();
        let owned = || when.clone();
        match node.word(0) {
            // The block's own folder is known already.
            "root" if scope.folder.is_some() && matcher_of(node).is_none_or(|word| word == "*") => {
                self.site.notes.carried(&node.source);
            }
            "root" => self.root(node, when, &args),
            "file_server" => self.file_server(node, when, scope),
            "php_fastcgi" | "php_server" => self.php(node, &args, scope),
            "reverse_proxy" => self.proxy(node, when, &args, scope),
            "redir" => self.redirect(node, owned(), &args, &scope.prefix),
            "rewrite" => self.rewrite(node, owned(), &args, &scope.prefix),
            "try_files" => self.try_files(node, &args),
            "respond" | "error" => self.respond(node, owned(), &args),
            "abort" => self.action(&node.source, owned(), vec![("return", Toml::Number(403))]),
            "header" => self.header(node, owned(), &args),
            "basic_auth" | "basicauth" => self.closed(node, owned(), PASSWORDS.to_owned()),
            "forward_auth" => self.script(node, owned(), &args),
            "rate_limit" => self.limits(node, when),
            "handle" | "route" | "handle_path" => self.block(node, when, scope, adopted),
            "handle_errors" => self.errors(node),
            "tls" => self.tls(node, adopted),
            "log" => self.log(node, adopted),
            "uri" if args.len() == 2 && args[0] == "strip_prefix" && args[1] == scope.prefix => {
                self.site.notes.carried(&node.source);
            }
            "request_header" | "uri" => {
                let why = "requests are passed as they are: an application behind a prefix has `strip`";
                self.site.notes.lost(&node.source, why);
            }
            _ => self.other(node),
        }
    }

    /// A block of directives for some requests.
    fn block(&mut self, node: &CaddyLine, when: &When, scope: &CaddyScope, adopted: &mut Adopted) {
        self.site.notes.carried(&node.source);
        let root = node
            .block
            .iter()
            .find(|inner| inner.word(0) == "root" && matcher_of(inner).is_none_or(|word| word == "*"));
        let folder = root.and_then(|root| root.words.last()).filter(|folder| !folder.contains('{')).cloned();
        let folder =
            folder.filter(|folder| !self.is_folder_of_site(folder, when)).or_else(|| scope.folder.clone());
        let prefix = match (node.word(0), stripped(&node.block)) {
            ("handle_path", _) => node.word(1).trim_end_matches('*').trim_end_matches('/').to_owned(),
            (_, Some(prefix)) if only_below(when, &prefix) => prefix,
            _ => String::new(),
        };
        if !prefix.is_empty() && !ends(&node.block) {
            let why = format!(
                "for what stands behind this block, the path of these requests is without {prefix} in Caddy, and whole here"
            );
            self.site.notes.lost(&node.source, why);
        }
        let prefix = format!("{}{prefix}", scope.prefix);
        let inner = CaddyScope { when: when.clone(), prefix, folder, is_route: node.word(0) == "route" };
        self.directives(&node.block, &inner, adopted);
    }

    /// Whether a block's `root` is the site's: it has none so far, and the block is for all that others leave.
    fn is_folder_of_site(&self, folder: &str, when: &When) -> bool {
        self.site.root.as_deref().map_or_else(|| is_rest(when), |known| known == folder)
    }
}

/// The matcher of a directive. `root`, `rewrite` and the like with one word have none, although it begins with a slash.
fn matcher_of(node: &CaddyLine) -> Option<&str> {
    let takes_path = node.words.len() == 2 && matches!(node.word(0), "root" | "rewrite" | "uri" | "log");
    let has_none = takes_path || matches!(node.word(0), "try_files" | "handle_errors" | "tls" | "import");
    let word = node.words.get(1).filter(|_| !has_none)?;
    (word == "*" || word.starts_with(['/', '@'])).then_some(word)
}

/// Whether requests go no further than this directive, though no rule responds: what stands behind it is not for them.
fn is_end(node: &CaddyLine) -> bool {
    match node.word(0) {
        "file_server" | "reverse_proxy" | "php_server" => true,
        "handle" | "handle_path" | "route" => ends(&node.block),
        _ => false,
    }
}

/// The prefix that a block removes from all of its requests: `uri strip_prefix /api`.
fn stripped(block: &[CaddyLine]) -> Option<String> {
    let uri = block.iter().find(|inner| inner.word(0) == "uri" && inner.word(1) == "strip_prefix")?;
    Some(uri.word(2).trim_end_matches('/').to_owned()).filter(|prefix| prefix.starts_with('/'))
}

/// Whether all paths are below a prefix.
fn only_below(when: &When, prefix: &str) -> bool {
    conditions::of(when, "path").is_some_and(|paths| paths == [format!("{prefix}/*")])
}
