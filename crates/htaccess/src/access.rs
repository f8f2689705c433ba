//! Access to a resource: `Require` (mod_authz_core, mod_authz_host), and `Order`, `Allow`, `Deny`
//! (mod_access_compat).

use std::net::IpAddr;

use millrace_wire::network::Network;

use crate::expression::{Expression, Scope};
use crate::pattern::{Pattern, TooManySteps};
use crate::request::Checked;

/// Methods that a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// All.
    #[default]
    All,
    /// `<Limit>`: these. GET includes HEAD.
    Only(Vec<String>),
    /// `<LimitExcept>`: all others.
    Except(Vec<String>),
}

/// The methods that `<Limit>` and `<LimitExcept>` may name in a `.htaccess` file (http_protocol.c).
const KNOWN_METHODS: [&str; 26] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
];

impl Methods {
    /// Those of a `<Limit>`, or a `<LimitExcept>`, within `self`.
    ///
    /// # Errors
    /// Apache refuses it: why.
    pub fn limited(&self, words: &[String], is_except: bool) -> Result<Methods, String> {
        let mut list = Vec::new();
        for word in words {
            if !KNOWN_METHODS.contains(&word.as_str()) && word != "MERGE" {
                return Err(format!("\"{word}\" is no method: methods have capital letters"));
            }
            if word == "TRACE" && !is_except {
                return Err("TRACE is not controlled here: leave it out".to_owned());
            }
            list.push(if word == "HEAD" { "GET" } else { word }.to_owned());
        }
        let inner = if is_except { Methods::Except(list) } else { Methods::Only(list) };
        let Some(own) = self.names() else { return Ok(inner) };
        let both: Vec<String> = own.iter().filter(|name| inner.include(name)).cloned().collect();
        match both.len() {
            0 => Err("no method is left of those of the section around it".to_owned()),
            left if left == own.len() => {
                Err("it names what the section around it excludes already".to_owned())
            }
            _ => Ok(Methods::Only(both)),
        }
    }

    /// The names of all known ones among them; `None`: all.
    fn names(&self) -> Option<Vec<String>> {
        let known = KNOWN_METHODS.iter().filter(|name| **name != "HEAD" && self.include(name));
        (*self != Methods::All).then(|| known.map(|name| (*name).to_owned()).collect())
    }

    /// Whether a method is among them.
    pub fn include(&self, method: &str) -> bool {
        let method = if method == "HEAD" { "GET" } else { method };
        match self {
            Methods::All => true,
            Methods::Only(list) => list.iter().any(|known| known == method),
            Methods::Except(list) => !list.iter().any(|known| known == method),
        }
    }
}

/// A network, or a part of an IPv4 address: `10.1.2.3`, `10.1`, `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `2001:db8::/32`.
///
/// # Errors
/// It is none of these.
pub fn network(text: &str) -> Result<Network, String> {
    let error = || format!("\"{text}\" is no address or network");
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let (address, given) = match address.parse::<IpAddr>() {
        Ok(address) => (address, if address.is_ipv4() { 32 } else { 128 }),
        Err(_) => part(address).ok_or_else(error)?,
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match mask {
        None => given,
        Some(mask) => match (mask.parse::<u8>(), mask.parse::<std::net::Ipv4Addr>()) {
            (Ok(bits), _) if bits <= most => bits,
            (_, Ok(mask))
                if address.is_ipv4() && u32::from(mask).leading_ones() == u32::from(mask).count_ones() =>
            {
                u32::from(mask).count_ones() as u8
            }
            _ => return Err(error()),
        },
    };
    Ok(Network::new(address, bits))
}

/// One to three numbers of an IPv4 address: `10.`, `10.1`.
fn part(text: &str) -> Option<(IpAddr, u8)> {
    let mut octets = [0; 4];
    let mut count = 0;
    for number in text.strip_suffix('.').unwrap_or(text).split('.') {
        *octets.get_mut(count).filter(|_| count < 3)? = number.parse().ok()?;
        count += 1;
    }
    Some((octets.into(), u8::try_from(count).ok()? * 8))
}

/// What a single `Require` or `Allow from` asks for.
#[derive(Clone, Debug)]
pub enum Test {
    /// `all granted`, `all denied`
    All(bool),
    /// `ip`, and addresses of `Allow from`.
    Networks(Vec<Network>),
    /// `local`
    Local,
    /// `method`
    Method(Vec<String>),
    /// `env`; with `!`: it is not set.
    Environment(Vec<(bool, String)>),
    /// `expr`
    Expression(Box<Expression>),
    /// `valid-user`
    ValidUser,
    /// `user`
    Users(Vec<String>),
    /// `group`
    Groups(Vec<String>),
    /// Not supported: no request passes it.
    Never,
}

/// A tree of requirements.
#[derive(Clone, Debug)]
pub enum Requirement {
    /// One, for some methods.
    Single(Test, Methods),
    /// `not`
    Not(Box<Requirement>),
    /// `<RequireAll>`
    All(Vec<Requirement>),
    /// `<RequireAny>`, and a folder's own list.
    Any(Vec<Requirement>),
    /// `<RequireNone>`
    None(Vec<Requirement>),
}

/// The result of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// It is met.
    Yes,
    /// It is not met.
    No,
    /// It is not met, and a user could change that.
    NeedsUser,
    /// It says nothing.
    Neutral,
}

/// What requirements ask about beside expressions.
pub trait Client: Scope {
    /// The request's method.
    fn method(&self) -> &str;
    /// The server's address.
    fn local(&self) -> Option<IpAddr>;
    /// The authenticated user; empty: none has been asked for yet.
    fn user(&self) -> &str;
    /// Whether the user is in one of these groups.
    fn in_group(&self, groups: &[String]) -> Checked;
}

impl Test {
    /// Whether the client meets it; `None`: a user is needed.
    fn met(&self, client: &impl Client) -> Result<Option<bool>, TooManySteps> {
        let user = client.user();
        let by_user = |test: &dyn Fn() -> bool| (!user.is_empty()).then(test);
        Ok(match self {
            Test::All(granted) => Some(*granted),
            Test::Networks(networks) => {
                let remote = client.remote();
                Some(remote.is_some_and(|remote| networks.iter().any(|network| network.contains(remote))))
            }
            Test::Local => {
                Some(client.remote().is_none_or(|remote| {
                    remote.to_canonical().is_loopback() || Some(remote) == client.local()
                }))
            }
            Test::Method(methods) => Some(Methods::Only(methods.clone()).include(client.method())),
            Test::Environment(names) => {
                Some(names.iter().any(|(is_set, name)| client.has_variable(name) == *is_set))
            }
            Test::Expression(expression) => Some(expression.holds(client)?),
            Test::ValidUser => by_user(&|| true),
            Test::Users(users) => by_user(&|| users.iter().any(|known| known == user)),
            Test::Groups(groups) => by_user(&|| client.in_group(groups) == Checked::Yes),
            Test::Never => Some(false),
        })
    }
}

impl Requirement {
    /// The result for a client.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn result(&self, client: &impl Client) -> Result<Granted, TooManySteps> {
        Ok(match self {
            Requirement::Single(_, methods) if !methods.include(client.method()) => Granted::Neutral,
            Requirement::Single(test, _) => match test.met(client)? {
                Some(true) => Granted::Yes,
                Some(false) => Granted::No,
                None => Granted::NeedsUser,
            },
            Requirement::Not(inner) => negated(inner.result(client)?),
            Requirement::All(list) => all(list, client)?,
            Requirement::Any(list) => any(list, client)?,
            Requirement::None(list) => negated(any(list, client)?),
        })
    }

    /// Whether it is a negation, which grants nothing by itself.
    fn is_negation(&self) -> bool {
        matches!(self, Requirement::Not(_) | Requirement::None(_))
    }

    /// Whether a part of it is for this method: if none is, everybody has access.
    pub fn is_about(&self, method: &str) -> bool {
        match self {
            Requirement::Single(_, methods) => methods.include(method),
            Requirement::Not(inner) => inner.is_about(method),
            Requirement::All(list) | Requirement::Any(list) | Requirement::None(list) => {
                list.iter().any(|inner| inner.is_about(method))
            }
        }
    }
}

/// Whether Apache refuses a list (mod_authz_core.c, `add_authz_provider` and `add_authz_section`): a container in it is empty, or
/// it has a negation without effect because one of the list is enough (not `needs_all`).
pub fn is_malformed(list: &[Requirement], needs_all: bool) -> bool {
    let has_idle_negation = !needs_all && list.iter().any(Requirement::is_negation);
    has_idle_negation
        || list.iter().any(|inner| match inner {
            Requirement::All(list) => list.is_empty() || is_malformed(list, true),
            Requirement::Any(list) | Requirement::None(list) => list.is_empty() || is_malformed(list, false),
            Requirement::Single(..) | Requirement::Not(_) => false,
        })
}

/// No grant comes from a negation.
fn negated(result: Granted) -> Granted {
    if result == Granted::Yes { Granted::No } else { Granted::Neutral }
}

fn all(list: &[Requirement], client: &impl Client) -> Result<Granted, TooManySteps> {
    let mut result = Granted::Neutral;
    for requirement in list {
        match requirement.result(client)? {
            Granted::No => return Ok(Granted::No),
            Granted::NeedsUser => result = Granted::NeedsUser,
            Granted::Yes if result == Granted::Neutral => result = Granted::Yes,
            Granted::Yes | Granted::Neutral => {}
        }
    }
    Ok(result)
}

fn any(list: &[Requirement], client: &impl Client) -> Result<Granted, TooManySteps> {
    let mut result = Granted::Neutral;
    for requirement in list {
        match requirement.result(client)? {
            Granted::Yes => return Ok(Granted::Yes),
            Granted::NeedsUser => result = Granted::NeedsUser,
            Granted::No if result == Granted::Neutral => result = Granted::No,
            Granted::No | Granted::Neutral => {}
        }
    }
    Ok(result)
}

/// `Order`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// `deny,allow`: what neither names has access.
    #[default]
    DenyAllow,
    /// `allow,deny`: what neither names has none.
    AllowDeny,
    /// `mutual-failure`
    MutualFailure,
}

/// `Order`, `Allow`, `Deny` and `Satisfy` of one folder or section: they replace those of outer folders together.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    /// The order, and the methods that it is for; the last one that is for the method counts.
    pub orders: Vec<(Order, Methods)>,
    /// `Allow from`
    pub allow: Vec<(Test, Methods)>,
    /// `Deny from`
    pub deny: Vec<(Test, Methods)>,
    /// `Satisfy`; as with the order.
    pub satisfy: Vec<(Satisfy, Methods)>,
}

impl Compat {
    /// Whether address and user must be right for this method, or one of them.
    pub fn satisfy(&self, method: &str) -> Satisfy {
        let own = self.satisfy.iter().rev().find(|(_, methods)| methods.include(method));
        own.map(|(satisfy, _)| *satisfy).unwrap_or_default()
    }

    /// Whether the client has access.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn allows(&self, client: &impl Client) -> Result<bool, TooManySteps> {
        let method = client.method();
        let order = self.orders.iter().rev().find(|(_, methods)| methods.include(method));
        let named = |list: &[(Test, Methods)]| -> Result<bool, TooManySteps> {
            for (test, methods) in list {
                if methods.include(method) && test.met(client)? == Some(true) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let (allowed, denied) = (named(&self.allow)?, named(&self.deny)?);
        Ok(match order.map(|(order, _)| *order).unwrap_or_default() {
            Order::DenyAllow => allowed || !denied,
            Order::AllowDeny | Order::MutualFailure => allowed && !denied,
        })
    }
}

/// Reads the arguments of a `Require`.
///
/// # Errors
/// It is malformed; or, with `true`, not supported.
pub fn requirement(words: &[String], methods: &Methods) -> Result<Requirement, (String, bool)> {
    let [kind, rest @ ..] = words else { return Err(("Require needs an argument".to_owned(), false)) };
    let is_not = |word: &String| word.eq_ignore_ascii_case("not");
    if is_not(kind) {
        if rest.first().is_some_and(is_not) {
            return Err(("Require has \"not\" twice".to_owned(), false));
        }
        return Ok(Requirement::Not(Box::new(requirement(rest, methods)?)));
    }
    let invalid = |text: String| (text, false);
    let test = match (kind.to_ascii_lowercase().as_str(), rest) {
        ("all", [what]) if what.eq_ignore_ascii_case("granted") => Test::All(true),
        ("all", [what]) if what.eq_ignore_ascii_case("denied") => Test::All(false),
        ("ip", [_, ..]) => Test::Networks(networks(rest).map_err(invalid)?),
        ("local", []) => Test::Local,
        ("method", [_, ..]) => Test::Method(rest.to_vec()),
        ("env", [_, ..]) => Test::Environment(rest.iter().map(|name| variable(name)).collect()),
        ("expr", [_, ..]) => {
            Test::Expression(Box::new(Expression::parse(&rest.join(" ")).map_err(|why| (why, true))?))
        }
        ("valid-user", _) => Test::ValidUser,
        ("user", [_, ..]) => Test::Users(rest.to_vec()),
        ("group", [_, ..]) => Test::Groups(rest.to_vec()),
        ("host" | "forward-dns", [_, ..]) => {
            return Err(("host names of clients are not looked up: name their addresses".to_owned(), true));
        }
        ("all" | "ip" | "method" | "env" | "expr" | "user" | "group" | "local", _) => {
            return Err(invalid(format!("Require {}: wrong arguments", words.join(" "))));
        }
        _ => return Err((format!("Require {kind} is not supported"), true)),
    };
    Ok(Requirement::Single(test, methods.clone()))
}

fn variable(name: &str) -> (bool, String) {
    match name.strip_prefix('!') {
        Some(name) => (false, name.to_owned()),
        None => (true, name.to_owned()),
    }
}

fn networks(words: &[String]) -> Result<Vec<Network>, String> {
    words.iter().map(|word| network(word)).collect()
}

/// Reads what follows `Allow from` or `Deny from`.
///
/// # Errors
/// It is malformed; or, with `true`, not supported.
pub fn from(words: &[String]) -> Result<Test, (String, bool)> {
    let [keyword, rest @ ..] = words else { return Err(("\"from\" is missing".to_owned(), false)) };
    let [first, ..] = rest else { return Err(("an address is missing".to_owned(), false)) };
    if !keyword.eq_ignore_ascii_case("from") {
        return Err(("\"from\" is missing".to_owned(), false));
    }
    if rest.iter().any(|word| word.eq_ignore_ascii_case("all")) {
        return Ok(Test::All(true));
    }
    if let Some(name) = first.get(..4).filter(|start| start.eq_ignore_ascii_case("env=")).map(|_| &first[4..])
    {
        return Ok(Test::Environment(vec![variable(name)]));
    }
    networks(rest).map(Test::Networks).map_err(|_| {
        (
            format!("\"{}\": host names of clients are not looked up: name their addresses", rest.join(" ")),
            true,
        )
    })
}

/// Basic authentication (mod_auth_basic, mod_authn_file, mod_authz_groupfile).
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// AuthType; `None`: not set here.
    pub kind: Option<String>,
    /// AuthName
    pub realm: Option<String>,
    /// AuthUserFile
    pub users: Option<String>,
    /// AuthGroupFile
    pub groups: Option<String>,
}

/// `Satisfy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Satisfy {
    /// Address and user.
    #[default]
    All,
    /// One of them.
    Any,
}

/// `SetEnvIf` and its relatives.
#[derive(Clone, Debug)]
pub struct SetEnvIf {
    /// The tested property.
    pub attribute: Attribute,
    /// The pattern.
    pub pattern: Pattern,
    /// Variables to set, with their values, or to unset.
    pub variables: Vec<(String, Option<String>)>,
    /// How many from this one on test the same field with patterns that follow one another in the file's index.
    pub list: u32,
}

/// Finds the lists among the SetEnvIf of a layer.
pub fn mark_lists(rules: &mut [SetEnvIf]) {
    for at in (0..rules.len()).rev() {
        let (rule, next) = (&rules[at], rules.get(at + 1));
        let (Attribute::Field(name), Some(rare)) = (&rule.attribute, rule.pattern.rare()) else { continue };
        let goes_on = next.filter(|next| {
            matches!(&next.attribute, Attribute::Field(other) if other.eq_ignore_ascii_case(name))
                && next.pattern.rare().is_some_and(|next| rare.precedes(next))
        });
        rules[at].list = 1 + goes_on.map_or(0, |next| next.list);
    }
}

/// What a SetEnvIf tests.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// `Remote_Addr`, `Remote_Host`
    Remote,
    /// `Server_Addr`
    Local,
    /// `Request_Method`
    Method,
    /// `Request_Protocol`
    Protocol,
    /// `Request_URI`
    Path,
    /// A header field, or else an environment variable.
    Field(String),
    /// The first header field with this name.
    Fields(Pattern),
    /// `SetEnvIfExpr`
    Expression(Box<Expression>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_by_part_bits_and_mask() {
        for (text, inside, outside) in [
            ("10.1", "10.1.2.3", "10.2.0.1"),
            ("10.", "10.9.9.9", "11.0.0.1"),
            ("10.1.0.0/16", "10.1.255.1", "10.2.0.1"),
            ("10.1.0.0/255.255.0.0", "10.1.0.1", "10.2.0.1"),
            ("2001:db8::/32", "2001:db8::1", "2001:db9::1"),
            ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.2"),
            ("::1", "::1", "::2"),
        ] {
            let known = network(text).unwrap();
            assert!(known.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!known.contains(outside.parse().unwrap()), "{text} {outside}");
        }
        for wrong in ["", "a", "10.1.2.3.4", "10/33", "1.2.3.4/255.0.255.0", "::1/129"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
        assert!(network("0.0.0.0/0").unwrap().contains("9.9.9.9".parse().unwrap()));
    }
}
