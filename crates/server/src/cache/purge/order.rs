//! What somebody wants purged, in terms of sites, and the words it is given in.

use std::fmt;

use millrace_pages::{Hardness, Place, Purge, Tag};
use millrace_settings::plan::Address;
use millrace_wire::path;

use crate::message::host_of;
use crate::site::{Setup, Site};

/// An order to purge. Makes sense for the set-up that it was read with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What: at least one thing.
    pub what: Vec<What>,
    /// How.
    pub hardness: Hardness,
}

/// One thing to purge. Sites are named by their position in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// All pages of all sites.
    Everything,
    /// All pages of a site.
    Site(usize),
    /// All pages of a site that carry a tag.
    Tag(usize, String),
    /// The pages of a path: of any query, or of the one that is given. The path is normalised, the query as it came.
    Page {
        /// The site.
        site: usize,
        /// Host and port as in keys; none: of every host of the site.
        host: Option<String>,
        /// Normalised.
        path: Vec<u8>,
        /// As in the URL.
        query: Option<Vec<u8>>,
    },
    /// All pages whose path begins so.
    Prefix {
        /// The site.
        site: usize,
        /// As with a page.
        host: Option<String>,
        /// Normalised.
        path: Vec<u8>,
    },
}

impl Order {
    /// Reads the form that `millrace purge` sends: `url`, `tag`, `site`, `all`, `hard`.
    ///
    /// # Errors
    /// What is wrong, and what could be meant instead.
    pub fn from_form(setup: &Setup, form: &[(String, String)]) -> Result<Order, String> {
        let on = |name: &str| form.iter().any(|(n, v)| n == name && !matches!(v.as_str(), "" | "0" | "no"));
        let values =
            |name: &'static str| form.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str());
        if let Some((name, _)) =
            form.iter().find(|(n, _)| !matches!(n.as_str(), "url" | "tag" | "site" | "all" | "hard"))
        {
            return Err(format!("unknown field \"{name}\"; the fields are url, tag, site, all and hard"));
        }
        let site = values("site").next_back().map(|name| site_named(setup, name)).transpose()?;
        let mut what = Vec::new();
        for url in values("url") {
            what.push(from_url(setup, site, url)?);
        }
        for tag in values("tag") {
            what.push(What::Tag(of_which_site(setup, site, "a tag")?, legal_tag(tag)?.to_owned()));
        }
        if on("all") {
            what.push(site.map_or(What::Everything, What::Site));
        }
        if what.is_empty() {
            return Err("nothing to purge: give a URL, a tag, or all".to_owned());
        }
        Ok(Order { what, hardness: if on("hard") { Hardness::Hard } else { Hardness::Soft } })
    }

    /// What the store is told.
    pub fn purges(&self, setup: &Setup) -> Vec<(Purge, Hardness)> {
        let mut purges = Vec::new();
        for what in &self.what {
            what.purges(setup, &mut |purge| purges.push((purge, self.hardness)));
        }
        purges
    }

    /// For the log: `a.example/x, tag b of a.example, hard`.
    pub fn shown<'a>(&'a self, setup: &'a Setup) -> impl fmt::Display + 'a {
        Shown { order: self, setup }
    }
}

impl What {
    fn purges(&self, setup: &Setup, add: &mut dyn FnMut(Purge)) {
        let site_of = |site: &usize| setup.sites.get(*site);
        match self {
            What::Everything => add(Purge::Everything),
            What::Site(site) => {
                site_of(site).into_iter().for_each(|site| add(Purge::Tag(Tag::site(key_name(site)))))
            }
            What::Tag(site, tag) => site_of(site)
                .into_iter()
                .for_each(|site| add(Purge::Tag(Tag::named(key_name(site), tag.as_bytes())))),
            What::Page { site, host, path, query } => {
                let Some(site) = site_of(site) else { return };
                let hosts = host.as_ref().map_or_else(|| hosts(setup, site), |host| vec![host.clone()]);
                hosts.iter().for_each(|host| add(Purge::Tag(page_tag(site, host, path, query.as_deref()))));
            }
            What::Prefix { site, host, path } => {
                let Some(site) = site_of(site) else { return };
                let host = host.as_deref().map(Box::from);
                add(Purge::Prefix { site: key_name(site).into(), host, path: path.as_slice().into() });
            }
        }
    }
}

fn page_tag(site: &Site, host: &str, path: &[u8], query: Option<&[u8]>) -> Tag {
    match (query, &site.cache) {
        (Some(query), Some(rules)) => {
            let (site, mut written) = (key_name(site), Vec::new());
            Place { site, host, path, query: Some(query) }.write_query(rules, &mut written);
            Tag::url(site, host, path, &written)
        }
        _ => Tag::path(key_name(site), host, path),
    }
}

/// Under which hosts a site's pages are kept, as far as can be known: its names, or those of this machine if it has none,
/// without port and with each that is listened on.
fn hosts(setup: &Setup, site: &Site) -> Vec<String> {
    let port = |address: &Address| match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    };
    let mut ports: Vec<u16> = setup.plan.server.listen.iter().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    let own: Vec<&str> =
        site.plan.names.iter().filter(|name| !name.starts_with('*')).map(String::as_str).collect();
    let names = if own.is_empty() { vec!["localhost", "127.0.0.1", "[::1]"] } else { own };
    let with_ports = |name: &&str| {
        let name = (*name).to_owned();
        let with_port: Vec<String> = ports.iter().map(|port| format!("{name}:{port}")).collect();
        std::iter::once(name).chain(with_port)
    };
    names.iter().flat_map(with_ports).collect()
}

/// An authority as keys have it: lower case, without the port that the scheme has anyway.
pub fn key_host(authority: &str, scheme: &str) -> String {
    let usual = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase()
}

/// The name of a site in keys.
fn key_name(site: &Site) -> &str {
    site.name().unwrap_or("")
}

/// A URL, or a path where there can be no doubt about the site; with `*` at its end all that begin so.
fn from_url(setup: &Setup, site: Option<usize>, url: &str) -> Result<What, String> {
    let (site, host, target) = site_and_target(setup, site, url)?;
    from_target(site, host, target.as_bytes()).ok_or_else(|| format!("the path of {url} is invalid"))
}

/// The site that a URL is of, its host as keys have it, and what follows; a path is of `site`, or of the only one.
///
/// # Errors
/// It is of no site, or not a URL.
pub fn site_and_target<'u>(
    setup: &Setup,
    site: Option<usize>,
    url: &'u str,
) -> Result<(usize, Option<String>, &'u str), String> {
    Ok(match url.split_once("://") {
        Some((scheme, rest)) if matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (site_of(setup, site, authority)?, Some(key_host(authority, scheme)), target)
        }
        _ if url.starts_with('/') => (of_which_site(setup, site, &format!("the path {url}"))?, None, url),
        _ => {
            return Err(format!("{url} is not a URL: write https://host/path, or a path that begins with /"));
        }
    })
}

/// Path and query as in a request; `None`: there is no such path.
pub(super) fn from_target(site: usize, host: Option<String>, target: &[u8]) -> Option<What> {
    let target = target.split(|b| *b == b'#').next().unwrap_or_default();
    let (raw, query) = match memchr::memchr(b'?', target) {
        Some(mark) => (&target[..mark], Some(target[mark + 1..].to_vec())),
        None => (target, None),
    };
    let (raw, is_prefix) = match raw.strip_suffix(b"*") {
        Some(raw) if query.is_none() => (raw, true),
        _ => (raw, false),
    };
    let mut path = Vec::new();
    path::normalise(if raw.is_empty() { b"/" } else { raw }, &mut path).ok()?;
    Some(match (is_prefix, path.as_slice()) {
        (true, b"/") if host.is_none() => What::Site(site),
        (true, _) => What::Prefix { site, host, path },
        (false, _) => What::Page { site, host, path, query },
    })
}

/// The site that answers for an authority by one of its names: not the default site for a name that it doesn't have.
fn site_of(setup: &Setup, wanted: Option<usize>, authority: &str) -> Result<usize, String> {
    let site = setup.site_for(authority);
    let host = host_of(authority);
    if host.is_empty() || !(site.plan.names.is_empty() || site.answers_for(&host.to_ascii_lowercase())) {
        return Err(format!("no site answers for {authority}; {}", sites(setup)));
    }
    match wanted.filter(|wanted| *wanted != site.index) {
        Some(wanted) => {
            Err(format!("{authority} does not belong to the site {}", name_of(&setup.sites[wanted])))
        }
        None => Ok(site.index),
    }
}

/// The site that is named, or the only one there is.
fn of_which_site(setup: &Setup, site: Option<usize>, what: &str) -> Result<usize, String> {
    match (site, setup.sites.len()) {
        (Some(site), _) => Ok(site),
        (None, 1) => Ok(0),
        (None, _) => Err(format!("{what} needs a site: name it with --site; {}", sites(setup))),
    }
}

fn site_named(setup: &Setup, name: &str) -> Result<usize, String> {
    let named = |site: &&std::sync::Arc<Site>| {
        name_of(site) == name || site.plan.names.iter().any(|one| one.eq_ignore_ascii_case(name))
    };
    match setup.sites.iter().find(named) {
        Some(site) => Ok(site.index),
        None => Err(format!("no site is named {name}; {}", sites(setup))),
    }
}

/// Which sites there are: what to say when somebody names another.
fn sites(setup: &Setup) -> String {
    const SHOWN: usize = 20;
    let names: Vec<&str> = setup.sites.iter().take(SHOWN).map(|site| name_of(site)).collect();
    let more = if setup.sites.len() > SHOWN { ", and more" } else { "" };
    match setup.sites.as_slice() {
        [_] => format!("the site is {}", names[0]),
        _ => format!("the sites are {}{more}", names.join(", ")),
    }
}

/// The name that a site is called by where people read.
pub fn name_of(site: &Site) -> &str {
    site.name().unwrap_or("default")
}

/// A tag as scripts can set it: visible characters, no comma.
pub(super) fn legal_tag(tag: &str) -> Result<&str, String> {
    const LONGEST: usize = 1024;
    let tag = tag.trim();
    if tag.is_empty() || tag.len() > LONGEST || tag.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!("\"{}\" is not a tag", tag.escape_default()));
    }
    Ok(tag)
}

struct Shown<'a> {
    order: &'a Order,
    setup: &'a Setup,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        let name = |site: &usize| self.setup.sites.get(*site).map_or("?", |site| name_of(site));
        for (number, what) in self.order.what.iter().take(SHOWN).enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            match what {
                What::Everything => f.write_str("everything")?,
                What::Site(site) => write!(f, "all pages of {}", name(site))?,
                What::Tag(site, tag) => write!(f, "tag {tag} of {}", name(site))?,
                What::Page { site, host, path, query } => {
                    write!(f, "{}{}", host.as_deref().unwrap_or(name(site)), path.escape_ascii())?;
                    if let Some(query) = query {
                        write!(f, "?{}", query.escape_ascii())?;
                    }
                }
                What::Prefix { site, host, path } => {
                    write!(f, "{}{}*", host.as_deref().unwrap_or(name(site)), path.escape_ascii())?;
                }
            }
        }
        match self.order.what.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        f.write_str(if self.order.hardness == Hardness::Hard { ", hard" } else { ", soft" })
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::context::log::tests::Dir;

    /// Sites a.example (with www and *.cdn) and b.example, the default; or one without a name.
    pub fn setup(named: bool) -> Setup {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = Dir::new(&format!("purge-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let config = folder.path("millrace.toml");
        let sites: &[(&str, &str)] = if named {
            &[
                ("names = ['a.example', 'www.a.example', '*.cdn.example']", ""),
                ("names = ['b.example']", "default = true"),
            ]
        } else {
            &[("", "")]
        };
        let text: String =
            sites.iter().map(|(names, more)| format!("[[site]]\nroot = '/'\n{names}\n{more}\n")).collect();
        std::fs::write(&config, text).unwrap();
        let source = millrace_settings::Source { config: Some(config), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        let sites: Vec<Arc<Site>> =
            plan.sites.iter().enumerate().map(|(n, site)| Site::new(n, site.clone())).collect();
        Setup::new(plan.into(), sites)
    }

    fn order(setup: &Setup, form: &str) -> Result<Order, String> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        Order::from_form(setup, &form.split_whitespace().map(pair).collect::<Vec<_>>())
    }

    fn shown(setup: &Setup, form: &str) -> String {
        match order(setup, form) {
            Ok(order) => order.shown(setup).to_string(),
            Err(why) => format!("error: {why}"),
        }
    }

    #[test]
    fn orders_of_one_site() {
        let setup = setup(false);
        let shown = |form: &str| shown(&setup, form);
        assert_eq!(shown("url=/a%2Fb//c?x=1"), "default/a/b/c?x=1, soft");
        assert_eq!(shown("url=/news/* hard=1"), "default/news/*, hard");
        assert_eq!(shown("url=/*"), "all pages of default, soft");
        assert_eq!(
            shown("url=https://Any.example:8443/#top tag=post-1"),
            "any.example:8443/, tag post-1 of default, soft"
        );
        assert_eq!(shown("all=1"), "everything, soft");
        assert_eq!(shown("all=1 site=default"), "all pages of default, soft");
        assert_eq!(
            order(&setup, "url=http://h?q").unwrap().what,
            [What::Page { site: 0, host: Some("h".into()), path: b"/".into(), query: Some(b"q".into()) }]
        );
    }

    /// What is purged is what pages carry: their implicit tags.
    #[test]
    fn pages_are_met_by_their_tags() {
        let meets = |named: bool, form: &str, site: &str, host: &str, path: &str, query: Option<&str>| {
            let setup = setup(named);
            let order = order(&setup, form).unwrap();
            let mut written = Vec::new();
            let place = Place { site, host, path: path.as_bytes(), query: query.map(str::as_bytes) };
            let rules = millrace_pages::Rules::profile();
            place.write_query(&rules, &mut written);
            let tags = Tag::implicit(&place, &written);
            order
                .purges(&setup)
                .iter()
                .any(|(purge, _)| matches!(purge, Purge::Tag(tag) if tags.contains(tag)))
        };
        assert!(meets(true, "url=https://A.example:443/x", "a.example", "a.example", "/x", Some("y=1")));
        assert!(meets(true, "site=a.example url=/x", "a.example", "www.a.example", "/x", None));
        assert!(meets(true, "site=a.example url=/x", "a.example", "a.example:8080", "/x", None));
        assert!(!meets(true, "site=a.example url=/x", "a.example", "a.example", "/xy", None));
        assert!(!meets(true, "site=a.example url=/x", "b.example", "b.example", "/x", None));
        assert!(meets(true, "site=b.example all=1", "b.example", "b.example", "/x", None));
        // Arguments in any order, and without those that make no other page.
        let (form, host) = ("url=https://a.example/x?b=1&utm_source=z&a=2", "a.example");
        assert!(meets(true, form, host, host, "/x", Some("a=2&b=1")));
        assert!(!meets(true, form, host, host, "/x", Some("a=2")));
        assert!(meets(false, "url=/x", "", "localhost:8080", "/x", None));
        assert!(meets(false, "url=http://127.0.0.1:99/x", "", "127.0.0.1:99", "/x", None));
    }

    #[test]
    fn orders_of_several_sites() {
        let setup = setup(true);
        let shown = |form: &str| shown(&setup, form);
        assert_eq!(shown("url=https://www.a.example/x"), "www.a.example/x, soft");
        assert_eq!(shown("url=https://x.cdn.example/x*"), "x.cdn.example/x*, soft");
        assert_eq!(
            shown("site=www.a.example url=/x tag=t all=1"),
            "a.example/x, tag t of a.example, all pages of a.example, soft"
        );
        assert_eq!(order(&setup, "url=http://b.example/").unwrap().what.len(), 1);
        let many: Vec<String> = (0..12).map(|n| format!("url=http://b.example/{n}")).collect();
        assert!(shown(&many.join(" ")).ends_with("b.example/9 and 2 more, soft"));
    }

    #[test]
    fn orders_that_make_no_sense_say_what_would() {
        let setup = setup(true);
        let shown = |form: &str| shown(&setup, form);
        let sites = "the sites are a.example, b.example";
        // The default site answers there too, but a purge for a name that it doesn't have is a mistake.
        assert_eq!(shown("url=http://c.example/"), format!("error: no site answers for c.example; {sites}"));
        assert_eq!(shown("site=c all=1"), format!("error: no site is named c; {sites}"));
        assert_eq!(shown("tag=x"), format!("error: a tag needs a site: name it with --site; {sites}"));
        assert!(shown("url=/x").starts_with("error: the path /x needs a site: "));
        assert_eq!(
            shown("site=b.example url=http://a.example/"),
            "error: a.example does not belong to the site b.example"
        );
        for (form, says) in [
            ("hard=1", "nothing to purge"),
            ("all=0", "nothing to purge"),
            ("url=x", "is not a URL"),
            ("url=ftp://a.example/", "is not a URL"),
            ("url=http:///x", "no site answers"),
            ("url=http://a.example/../x", "is invalid"),
            ("url=http://a.example/%00", "is invalid"),
            ("site=a.example tag=a,b", "is not a tag"),
            ("colour=red", "unknown field \"colour\""),
        ] {
            assert!(
                shown(form).starts_with("error: ") && shown(form).contains(says),
                "{form}: {}",
                shown(form)
            );
        }
    }
}
