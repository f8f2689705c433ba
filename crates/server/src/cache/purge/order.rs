//! A purge order in terms of sites, and the texts from which it is read.

use std::fmt;

use millrace_pages::{Hardness, Place, Purge, Tag};
use millrace_settings::plan::Address;
use millrace_wire::path;

use millrace_base::message::host_of;
use millrace_base::site::{Site, SiteSetup};

/// Maximum number of tags in one request.
pub(super) const MOST_TAGS: usize = 256;

/// A purge order, valid for the setup with which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeOrder {
    /// What to purge: at least one thing.
    pub what: Vec<What>,
    /// Hard or soft.
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
    /// The pages of a path: with any query, or with this one. The path is normalised, the query is unchanged.
    Page {
        /// The site.
        site: usize,
        /// Host and port as in keys; `None`: all hosts of the site.
        host: Option<String>,
        /// Normalised.
        path: Vec<u8>,
        /// As in the URL.
        query: Option<Vec<u8>>,
    },
    /// All pages whose path begins with this one.
    Prefix {
        /// The site.
        site: usize,
        /// As for a page.
        host: Option<String>,
        /// Normalised.
        path: Vec<u8>,
    },
}

/// An invalid order to purge pages, to warm one up or to explain one: it names something that does not exist, or has a wrong format.
/// Nothing has been done; the text suggests what could be meant. The admin address responds with 422, `PURGE` and
/// `BAN` with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// The form has an unknown field.
    UnknownField(String),
    /// It names nothing to purge.
    Empty,
    /// Neither a URL nor a path.
    NotUrl(String),
    /// A URL whose path leads out of the site, or has invalid bytes.
    PathOfUrl(String),
    /// A URL's host belongs to no site.
    UnknownHost { authority: String, sites: String },
    /// A URL belongs to another site than the named one.
    OtherSite { authority: String, site: String },
    /// There are several sites; `what` doesn't say which one.
    WhichSite { what: String, sites: String },
    /// There is no site with this name.
    UnknownSite { name: String, sites: String },
    /// The text can't be a tag.
    NotTag(String),
    /// A path, and more than one host is possible.
    WhichHost(String),
    /// The cache is off for the site of a URL.
    CacheOff(String),
    /// The URL has characters that no request can have.
    IllegalUrl(String),
    /// The path of a `PURGE` or `BAN` is invalid.
    NotPath,
    /// A `PURGE` by a regular expression that is more than a prefix.
    Pattern,
    /// A field for tags is empty.
    NoTag,
    /// More than [`MOST_TAGS`].
    ManyTags,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField(name) => {
                write!(f, "unknown field \"{name}\"; the fields are url, tag, site, all and hard")
            }
            Self::Empty => f.write_str("nothing to purge: give a URL, a tag, or all"),
            Self::NotUrl(url) => {
                write!(f, "{url} is not a URL: write https://host/path, or a path that begins with /")
            }
            Self::PathOfUrl(url) => write!(f, "the path of {url} is invalid"),
            Self::UnknownHost { authority, sites } => write!(f, "no site answers for {authority}; {sites}"),
            Self::OtherSite { authority, site } => {
                write!(f, "{authority} does not belong to the site {site}")
            }
            Self::WhichSite { what, sites } => {
                write!(f, "{what} needs a site: name it with --site; {sites}")
            }
            Self::UnknownSite { name, sites } => write!(f, "no site is named {name}; {sites}"),
            Self::NotTag(tag) => write!(f, "\"{}\" is not a tag", tag.escape_default()),
            Self::WhichHost(url) => write!(f, "{url} needs a host: write the full URL"),
            Self::CacheOff(url) => write!(
                f,
                "the page cache is off for {url}: cache.mode is \"off\" for its site, or the site runs no PHP"
            ),
            Self::IllegalUrl(url) => write!(f, "{} is not a URL", url.escape_debug()),
            Self::NotPath => f.write_str("The path is invalid."),
            Self::Pattern => f.write_str("X-Purge-Method: regex supports only paths that end in .*"),
            Self::NoTag => f.write_str("The request names no tag."),
            Self::ManyTags => write!(f, "The request names more than {MOST_TAGS} tags."),
        }
    }
}

impl std::error::Error for OrderError {}

impl PurgeOrder {
    /// Reads the form that `millrace purge` sends: `url`, `tag`, `site`, `all`, `hard`.
    ///
    /// # Errors
    /// What is wrong, and what could be meant.
    pub fn from_form(setup: &SiteSetup, form: &[(String, String)]) -> Result<PurgeOrder, OrderError> {
        let on = |name: &str| form.iter().any(|(n, v)| n == name && !matches!(v.as_str(), "" | "0" | "no"));
        let values =
            |name: &'static str| form.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str());
        if let Some((name, _)) =
            form.iter().find(|(n, _)| !matches!(n.as_str(), "url" | "tag" | "site" | "all" | "hard"))
        {
            return Err(OrderError::UnknownField(name.clone()));
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
            return Err(OrderError::Empty);
        }
        Ok(PurgeOrder { what, hardness: if on("hard") { Hardness::Hard } else { Hardness::Soft } })
    }

    /// The purges for the store.
    pub fn purges(&self, setup: &SiteSetup) -> Vec<(Purge, Hardness)> {
        let mut purges = Vec::new();
        for what in &self.what {
            what.purges(setup, &mut |purge| purges.push((purge, self.hardness)));
        }
        purges
    }

    /// For the log: `a.example/x, tag b of a.example, hard`.
    pub fn shown<'a>(&'a self, setup: &'a SiteSetup) -> impl fmt::Display + 'a {
        Shown { order: self, setup }
    }
}

impl What {
    fn purges(&self, setup: &SiteSetup, add: &mut dyn FnMut(Purge)) {
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

/// The hosts under which a site's pages are stored, as far as they are known: its names, or the machine's if it has
/// none, without port and with each port of a listener.
fn hosts(setup: &SiteSetup, site: &Site) -> Vec<String> {
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

/// An authority as keys have it: in lower case, without the scheme's default port.
pub fn key_host(authority: &str, scheme: &str) -> String {
    let usual = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase()
}

/// The name of a site in keys.
fn key_name(site: &Site) -> &str {
    site.name().unwrap_or("")
}

/// A URL, or a path if the site is unambiguous; with `*` at its end, all that begin with it.
fn from_url(setup: &SiteSetup, site: Option<usize>, url: &str) -> Result<What, OrderError> {
    let (site, host, target) = site_and_target(setup, site, url)?;
    from_target(site, host, target.as_bytes()).ok_or_else(|| OrderError::PathOfUrl(url.to_owned()))
}

/// The site of a URL, its host as in keys, and the rest; a path belongs to `site`, or to the only site.
///
/// # Errors
/// The URL belongs to no site, or is not a URL.
pub fn site_and_target<'u>(
    setup: &SiteSetup,
    site: Option<usize>,
    url: &'u str,
) -> Result<(usize, Option<String>, &'u str), OrderError> {
    Ok(match url.split_once("://") {
        Some((scheme, rest)) if matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (site_of(setup, site, authority)?, Some(key_host(authority, scheme)), target)
        }
        _ if url.starts_with('/') => (of_which_site(setup, site, &format!("the path {url}"))?, None, url),
        _ => return Err(OrderError::NotUrl(url.to_owned())),
    })
}

/// Path and query as in a request; `None`: the path is invalid.
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

/// The site that has an authority among its names: the default site doesn't count for a name that it doesn't have.
fn site_of(setup: &SiteSetup, wanted: Option<usize>, authority: &str) -> Result<usize, OrderError> {
    let site = setup.site_for(authority);
    let host = host_of(authority);
    if host.is_empty() || !(site.plan.names.is_empty() || site.answers_for(&host.to_ascii_lowercase())) {
        return Err(OrderError::UnknownHost { authority: authority.to_owned(), sites: sites(setup) });
    }
    match wanted.filter(|wanted| *wanted != site.index) {
        Some(wanted) => Err(OrderError::OtherSite {
            authority: authority.to_owned(),
            site: name_of(&setup.sites[wanted]).to_owned(),
        }),
        None => Ok(site.index),
    }
}

/// The named site, or the only one.
fn of_which_site(setup: &SiteSetup, site: Option<usize>, what: &str) -> Result<usize, OrderError> {
    match (site, setup.sites.len()) {
        (Some(site), _) => Ok(site),
        (None, 1) => Ok(0),
        (None, _) => Err(OrderError::WhichSite { what: what.to_owned(), sites: sites(setup) }),
    }
}

fn site_named(setup: &SiteSetup, name: &str) -> Result<usize, OrderError> {
    let named = |site: &&std::sync::Arc<Site>| {
        name_of(site) == name || site.plan.names.iter().any(|one| one.eq_ignore_ascii_case(name))
    };
    match setup.sites.iter().find(named) {
        Some(site) => Ok(site.index),
        None => Err(OrderError::UnknownSite { name: name.to_owned(), sites: sites(setup) }),
    }
}

/// The list of sites, for an order with an unknown one.
fn sites(setup: &SiteSetup) -> String {
    const SHOWN: usize = 20;
    let names: Vec<&str> = setup.sites.iter().take(SHOWN).map(|site| name_of(site)).collect();
    let more = if setup.sites.len() > SHOWN { ", and more" } else { "" };
    match setup.sites.as_slice() {
        [_] => format!("the site is {}", names[0]),
        _ => format!("the sites are {}{more}", names.join(", ")),
    }
}

/// The name of a site in messages.
pub fn name_of(site: &Site) -> &str {
    site.name().unwrap_or("default")
}

/// A tag as scripts can set it: visible characters without commas.
pub(super) fn legal_tag(tag: &str) -> Result<&str, OrderError> {
    const LONGEST: usize = 1024;
    let tag = tag.trim();
    if tag.is_empty() || tag.len() > LONGEST || tag.contains(|c: char| c == ',' || c.is_control()) {
        return Err(OrderError::NotTag(tag.to_owned()));
    }
    Ok(tag)
}

struct Shown<'a> {
    order: &'a PurgeOrder,
    setup: &'a SiteSetup,
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
    use millrace_base::testing::Dir;

    /// Sites a.example (with www and *.cdn) and b.example, the default; or one without a name.
    pub fn setup(named: bool) -> SiteSetup {
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
        SiteSetup::new(plan.into(), sites)
    }

    fn order(setup: &SiteSetup, form: &str) -> Result<PurgeOrder, OrderError> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        PurgeOrder::from_form(setup, &form.split_whitespace().map(pair).collect::<Vec<_>>())
    }

    fn shown(setup: &SiteSetup, form: &str) -> String {
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

    /// Purges match the implicit tags of pages.
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
        // Arguments in any order, and without the ignored ones.
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
        let error = |form: &str| order(&setup, form).unwrap_err();
        let sites = || "the sites are a.example, b.example".to_owned();
        // The default site responds there too, but a purge for a name that it doesn't have is a mistake.
        let (authority, site) = ("c.example".to_owned(), "b.example".to_owned());
        assert_eq!(error("url=http://c.example/"), OrderError::UnknownHost { authority, sites: sites() });
        let name = "c".to_owned();
        assert_eq!(error("site=c all=1"), OrderError::UnknownSite { name, sites: sites() });
        let which = |what: &str| OrderError::WhichSite { what: what.to_owned(), sites: sites() };
        assert_eq!((error("tag=x"), error("url=/x")), (which("a tag"), which("the path /x")));
        let authority = "a.example".to_owned();
        assert_eq!(error("site=b.example url=http://a.example/"), OrderError::OtherSite { authority, site });
        let authority = String::new();
        assert_eq!(error("url=http:///x"), OrderError::UnknownHost { authority, sites: sites() });
        for (form, expected) in [
            ("hard=1", OrderError::Empty),
            ("all=0", OrderError::Empty),
            ("url=x", OrderError::NotUrl("x".to_owned())),
            ("url=ftp://a.example/", OrderError::NotUrl("ftp://a.example/".to_owned())),
            ("url=http://a.example/../x", OrderError::PathOfUrl("http://a.example/../x".to_owned())),
            ("url=http://a.example/%00", OrderError::PathOfUrl("http://a.example/%00".to_owned())),
            ("site=a.example tag=a,b", OrderError::NotTag("a,b".to_owned())),
            ("colour=red", OrderError::UnknownField("colour".to_owned())),
        ] {
            assert_eq!(error(form), expected, "{form}");
        }
        assert_eq!(
            error("tag=x").to_string(),
            "a tag needs a site: name it with --site; the sites are a.example, b.example"
        );
    }
}
