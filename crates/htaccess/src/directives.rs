//! The directives: one row each, with its meaning in one line, from which `docs/htaccess.md` has its table.

use crate::access::{self, Attribute, Methods, Order, Requirement, Satisfy, SetEnvIf, Test};
use crate::expression::Expression;
use crate::folder::{Document, From, PREPEND, Redirect, Rules};
use crate::header::Change;
use crate::lines::{Line, words};
use crate::media::Expiry;
use crate::pattern::Pattern;
use crate::rewrite::{Condition, Inherit, Rewrite, Rule, Unusable};

/// The line that is being read, and where it goes.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The line.
    pub line: &'a Line,
    /// Its arguments.
    pub words: Vec<String>,
    /// The methods to which an enclosing `<Limit>` restricts it.
    pub methods: &'a Methods,
    /// Its layer.
    pub rules: &'a mut Rules,
}

/// The result of reading a line; an error also says whether the line restricts access, whatever its directive.
type Read = Result<(), (Unusable, bool)>;

/// A directive.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// As Apache's manual writes it.
    pub name: &'static str,
    /// What it does here.
    pub meaning: &'static str,
    /// If a line of it can't be applied, what it covers is refused.
    pub restricts: bool,
    /// Reads a line of it.
    pub read: fn(&mut Reader<'_>) -> Read,
}

/// The directive of this name, which is in lower case.
pub fn find(name: &str) -> Option<&'static Directive> {
    DIRECTIVES.iter().find(|directive| directive.name.eq_ignore_ascii_case(name))
}

const fn row(name: &'static str, meaning: &'static str, read: fn(&mut Reader<'_>) -> Read) -> Directive {
    Directive { name, meaning, restricts: false, read }
}

const fn guard(name: &'static str, meaning: &'static str, read: fn(&mut Reader<'_>) -> Read) -> Directive {
    Directive { name, meaning, restricts: true, read }
}

/// Why a directive of the listing of folders has no effect.
const NO_LISTING: &str = "nothing: Millrace lists no folders";

/// All directives that are read, by module.
pub const DIRECTIVES: &[Directive] = &[
    row("RewriteEngine", "turns the folder's rewrite rules on or off", rewrite_engine),
    row("RewriteBase", "the URL path that stands for the folder in relative substitutions", rewrite_base),
    row("RewriteOptions", "`Inherit`, `InheritBefore`, `AllowNoSlash`, `MergeBase`", rewrite_options),
    row("RewriteCond", "a condition of the next RewriteRule", rewrite_condition),
    row("RewriteRule", "rewrites, redirects or refuses what matches", rewrite_rule),
    row("Redirect", "redirects a path and what is below it, or gives it another status", redirect),
    row("RedirectMatch", "redirects what matches a regular expression", redirect_match),
    row("RedirectPermanent", "`Redirect 301`", |reader| plain_redirect(reader, 301)),
    row("RedirectTemp", "`Redirect 302`", |reader| plain_redirect(reader, 302)),
    guard("Order", "which of Allow and Deny decides", order),
    guard("Allow", "clients that get access", |reader| allow_or_deny(reader, true)),
    guard("Deny", "clients that are refused", |reader| allow_or_deny(reader, false)),
    guard("Satisfy", "whether address and user must be right (`All`), or one of them (`Any`)", satisfy),
    guard("Require", "condition of access", require),
    guard("AuthType", "`Basic`, or `None`; others are refused", auth_type),
    guard("AuthName", "the realm that a browser shows", |r| {
        argument(r, |rules, v| rules.authentication.realm = Some(v))
    }),
    guard("AuthUserFile", "the password file", |r| {
        argument(r, |rules, v| rules.authentication.users = Some(v))
    }),
    guard("AuthGroupFile", "the group file", |r| {
        argument(r, |rules, v| rules.authentication.groups = Some(v))
    }),
    guard("AuthBasicProvider", "`file`; others are refused", auth_provider),
    guard("AuthBasicAuthoritative", "`On`", |reader| only(reader, "on")),
    guard("AuthMerging", "`Off`: requirements replace those of outer folders", |reader| only(reader, "off")),
    guard("SSLRequireSSL", "refuses requests without HTTPS", |reader| {
        reader.rules.requires_https = true;
        Ok(())
    }),
    guard("LimitRequestBody", "the longest content of a request, bytes", body_limit),
    row("Header", "changes header fields of responses", |reader| header(reader, false)),
    row("RequestHeader", "changes header fields of the request, as PHP sees it", |reader| {
        header(reader, true)
    }),
    row("SetEnv", "sets a variable for PHP, after the rewrite rules", set_env),
    row("UnsetEnv", "removes a variable that SetEnv has set in an outer folder", unset_env),
    row("SetEnvIf", "sets variables if a property of the request matches", |reader| {
        set_env_if(reader, false)
    }),
    row("SetEnvIfNoCase", "the same without regard to case", |reader| set_env_if(reader, true)),
    row("SetEnvIfExpr", "sets variables if an expression holds", set_env_if_expression),
    row("BrowserMatch", "`SetEnvIf User-Agent`", |reader| browser_match(reader, false)),
    row("BrowserMatchNoCase", "`SetEnvIfNoCase User-Agent`", |reader| browser_match(reader, true)),
    row("ExpiresActive", "turns Expires* on or off", |reader| {
        reader.rules.expires.active = Some(switch(reader)?);
        Ok(())
    }),
    row("ExpiresDefault", "how long responses stay fresh", expires_default),
    row("ExpiresByType", "how long responses of a media type stay fresh", expires_by_type),
    row("AddType", "the media type of files by extension", add_type),
    row("ForceType", "the media type of all files", force_type),
    row("RemoveType", "takes AddType back", |reader| remove(reader, |rules| &mut rules.kinds.types)),
    row("AddCharset", "the charset of files by extension", |reader| {
        add(reader, |rules| &mut rules.kinds.charsets)
    }),
    row("RemoveCharset", "takes AddCharset back", |reader| remove(reader, |rules| &mut rules.kinds.charsets)),
    row("AddEncoding", "the content coding of files by extension", |reader| {
        add(reader, |rules| &mut rules.kinds.codings)
    }),
    row("RemoveEncoding", "takes AddEncoding back", |reader| {
        remove(reader, |rules| &mut rules.kinds.codings)
    }),
    row("AddLanguage", "the language of files by extension", |reader| {
        add(reader, |rules| &mut rules.kinds.languages)
    }),
    row("RemoveLanguage", "takes AddLanguage back", |reader| {
        remove(reader, |rules| &mut rules.kinds.languages)
    }),
    row("DefaultLanguage", "the language of files without one", |r| {
        argument(r, |rules, v| rules.kinds.default_language = Some(v))
    }),
    row("AddDefaultCharset", "the charset of text/html and text/plain that have none", default_charset),
    row("DirectoryIndex", "the files that stand for a folder", directory_index),
    row("FallbackResource", "the file for paths that lead to nothing; `disabled`: none", fallback),
    row("ErrorDocument", "the page, text or URL for a status of the server's own", error_document),
    row("FileETag", "`None`: no ETag for files", file_etag),
    row("SetHandler", "a handler other than PHP's turns PHP off", set_handler),
    row("AddHandler", "a handler other than PHP's for `.php` turns PHP off", add_handler),
    row("RemoveHandler", "for `.php`: turns PHP off", add_handler),
    row(
        "php_flag",
        "`engine off` turns PHP off; other values belong into `php.ini` of millrace.toml",
        php_value,
    ),
    row(
        "php_value",
        "values belong into `php.ini` of millrace.toml; `auto_prepend_file`, which starts a firewall, into `.user.ini` of the folder: until then a warning says that the firewall is off",
        php_value,
    ),
    row("CacheLookup", "`off`: requests bypass the page cache (LiteSpeed)", |reader| {
        let word = reader.words.first().map(|word| word.to_ascii_lowercase());
        reader.rules.cache_lookup = Some(word.as_deref() != Some("off"));
        Ok(())
    }),
    row(
        "CacheKeyModify",
        "nothing: `cache.ignore_arguments` names the arguments that are not part of a page's key (LiteSpeed)",
        cache_key_modify,
    ),
    row(
        "Options",
        "nothing: folders are never listed, and links are followed as `files.symlinks` says",
        nothing,
    ),
    row("AddOutputFilterByType", "nothing: Millrace compresses by itself", nothing),
    row("AddOutputFilter", "nothing: Millrace compresses by itself", nothing),
    row("SetOutputFilter", "nothing: Millrace compresses by itself", nothing),
    row("SetInputFilter", "nothing", nothing),
    row("FilterDeclare", "nothing: Millrace compresses by itself", nothing),
    row("FilterProvider", "nothing: Millrace compresses by itself", nothing),
    row("FilterChain", "nothing: Millrace compresses by itself", nothing),
    row("FilterProtocol", "nothing: Millrace compresses by itself", nothing),
    row(
        "AcceptPathInfo",
        "whether a path may go on behind a file: `On` for all, `Off` for none, `Default` for scripts",
        path_info,
    ),
    row("ServerSignature", "nothing: error pages name no version", nothing),
    row("DefaultType", "nothing, as in Apache 2.4", nothing),
    row("EnableSendfile", "nothing", nothing),
    row("EnableMMAP", "nothing", nothing),
    row("DirectorySlash", "nothing: a folder without its slash is redirected", nothing),
    row("LanguagePriority", "nothing: languages are not negotiated", nothing),
    row("ForceLanguagePriority", "nothing: languages are not negotiated", nothing),
    row("IndexOptions", NO_LISTING, nothing),
    row("IndexIgnore", NO_LISTING, nothing),
    row("AddIcon", NO_LISTING, nothing),
    row("AddIconByType", NO_LISTING, nothing),
    row("AddDescription", NO_LISTING, nothing),
    row("HeaderName", NO_LISTING, nothing),
    row("ReadmeName", NO_LISTING, nothing),
    row("IndexStyleSheet", NO_LISTING, nothing),
    row("RewriteMap", "not allowed here, as with Apache", not_here),
    row("RewriteLog", "not allowed here, as with Apache", not_here),
];

fn invalid<T>(text: impl Into<String>) -> Result<T, (Unusable, bool)> {
    Err((Unusable::Invalid(text.into()), false))
}

fn unsupported<T>(text: impl Into<String>) -> Result<T, (Unusable, bool)> {
    Err((Unusable::Unsupported(text.into()), false))
}

/// The text and kind of an error of [`access`] and [`Change`].
fn typed((text, is_unsupported): (String, bool)) -> (Unusable, bool) {
    (if is_unsupported { Unusable::Unsupported(text) } else { Unusable::Invalid(text) }, false)
}

fn nothing(_: &mut Reader<'_>) -> Read {
    Ok(())
}

fn not_here(reader: &mut Reader<'_>) -> Read {
    invalid(format!("{} is not allowed in a .htaccess file", reader.line.name))
}

fn argument(reader: &mut Reader<'_>, set: fn(&mut Rules, String)) -> Read {
    let Some(value) = reader.words.first() else { return invalid("an argument is missing") };
    set(reader.rules, value.clone());
    Ok(())
}

/// A directive of which one value is supported.
fn only(reader: &mut Reader<'_>, value: &str) -> Read {
    match &reader.words[..] {
        [word] if word.eq_ignore_ascii_case(value) => Ok(()),
        _ => unsupported(format!("{} {} is not supported", reader.line.name, reader.line.rest)),
    }
}

fn switch(reader: &Reader<'_>) -> Result<bool, (Unusable, bool)> {
    match reader.words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        _ => invalid(format!("{} takes On or Off", reader.line.name)),
    }
}

fn rewrite<'a>(reader: &'a mut Reader<'_>) -> &'a mut Rewrite {
    reader.rules.rewrite.get_or_insert_default()
}

fn rewrite_engine(reader: &mut Reader<'_>) -> Read {
    let engine = switch(reader)?;
    rewrite(reader).engine = Some(engine);
    Ok(())
}

fn rewrite_base(reader: &mut Reader<'_>) -> Read {
    match reader.words.first() {
        Some(base) if base.starts_with('/') => {
            let base = if base.ends_with('/') { base.clone() } else { format!("{base}/") };
            rewrite(reader).base = Some(base);
            Ok(())
        }
        _ => invalid("RewriteBase takes a path that starts with /"),
    }
}

fn rewrite_options(reader: &mut Reader<'_>) -> Read {
    for word in std::mem::take(&mut reader.words) {
        match word.to_ascii_lowercase().as_str() {
            "inherit" => rewrite(reader).inherit = Some(Inherit::After),
            "inheritbefore" => rewrite(reader).inherit = Some(Inherit::Before),
            "allownoslash" => rewrite(reader).allows_no_slash = true,
            "mergebase" => rewrite(reader).merges_base = true,
            "allowanyuri"
            | "legacyprefixdocroot"
            | "longurloptimization"
            | "ignorecontextinfo"
            | "ignoreinherit"
            | "unsafeprefixstat" => {}
            _ => return unsupported(format!("RewriteOptions {word} is not supported")),
        }
    }
    Ok(())
}

fn fallback(reader: &mut Reader<'_>) -> Read {
    let [name] = &reader.words[..] else { return invalid("FallbackResource takes a path, or disabled") };
    reader.rules.fallback = Some((!name.eq_ignore_ascii_case("disabled")).then(|| name.clone()));
    Ok(())
}

fn path_info(reader: &mut Reader<'_>) -> Read {
    reader.rules.path_info =
        Some(match reader.words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
            Some("on") => Some(true),
            Some("off") => Some(false),
            Some("default") => None,
            _ => return invalid("AcceptPathInfo takes On, Off or Default"),
        });
    Ok(())
}

fn rewrite_condition(reader: &mut Reader<'_>) -> Read {
    match Condition::new(&reader.line.rest) {
        Ok(condition) => reader.rules.pending.push(condition),
        Err(why) => {
            reader.rules.pending_lost = true;
            return Err((why, false));
        }
    }
    Ok(())
}

fn rewrite_rule(reader: &mut Reader<'_>) -> Read {
    let conditions = std::mem::take(&mut reader.rules.pending);
    let lost = std::mem::take(&mut reader.rules.pending_lost);
    let line = reader.line.number;
    let rule = Rule::new(line, &reader.line.rest, conditions);
    let result = match rule {
        Ok(rule) if !lost => {
            rewrite(reader).rules.push(rule);
            return Ok(());
        }
        Ok(rule) => {
            let restricts = rule.flags.status.is_some_and(|status| status >= 400);
            Err((Unusable::Unsupported("a condition of this rule is not supported".to_owned()), restricts))
        }
        Err(why) => Err(why),
    };
    rewrite(reader).rules.push(Rule::never(line));
    result
}

fn redirect_status(word: &str) -> Option<u16> {
    match word.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number.parse().ok().filter(|status| (300..600).contains(status)),
    }
}

fn redirect(reader: &mut Reader<'_>) -> Read {
    let status = reader.words.first().and_then(|word| redirect_status(word));
    if status.is_some() {
        reader.words.remove(0);
    }
    plain_redirect(reader, status.unwrap_or(302))
}

fn plain_redirect(reader: &mut Reader<'_>, status: u16) -> Read {
    let needs_url = (300..400).contains(&status);
    let (from, to) = match &reader.words[..] {
        [from, to] if needs_url => (From::Prefix(from.clone()), to.clone()),
        [to] if needs_url => (From::All, to.clone()),
        [from] if from.starts_with('/') => (From::Prefix(from.clone()), String::new()),
        [] if !needs_url => (From::All, String::new()),
        _ => return invalid("Redirect takes a status, a path that starts with / and a URL"),
    };
    if !(to.is_empty() || to.starts_with('/') || to.contains(':')) {
        return invalid(format!("Redirect to \"{to}\": this is neither a URL nor a path that starts with /"));
    }
    reader.rules.redirects.push(Redirect { status, from, to });
    Ok(())
}

fn redirect_match(reader: &mut Reader<'_>) -> Read {
    let status = reader.words.first().and_then(|word| redirect_status(word));
    if status.is_some() {
        reader.words.remove(0);
    }
    let status = status.unwrap_or(302);
    let needs_url = (300..400).contains(&status);
    let (pattern, to) = match &reader.words[..] {
        [pattern, to] if needs_url => (pattern, to.clone()),
        [pattern] if !needs_url => (pattern, String::new()),
        _ => return invalid("RedirectMatch takes a status, a regular expression and a URL"),
    };
    let pattern = Pattern::new(pattern, false).map_err(|why| (Unusable::Unsupported(why), status >= 400))?;
    reader.rules.redirects.push(Redirect { status, from: From::Match(pattern), to });
    Ok(())
}

fn order(reader: &mut Reader<'_>) -> Read {
    let text = reader.words.join(",").to_ascii_lowercase();
    let order = match text.replace(",,", ",").as_str() {
        "deny,allow" => Order::DenyAllow,
        "allow,deny" => Order::AllowDeny,
        "mutual-failure" => Order::MutualFailure,
        _ => return invalid("Order takes deny,allow or allow,deny"),
    };
    let methods = reader.methods.clone();
    reader.rules.compat().orders.push((order, methods));
    Ok(())
}

fn allow_or_deny(reader: &mut Reader<'_>, allows: bool) -> Read {
    let methods = reader.methods.clone();
    let compat = reader.rules.compat();
    let list = if allows { &mut compat.allow } else { &mut compat.deny };
    match access::from(&reader.words) {
        Ok(test) => list.push((test, methods)),
        // An Allow that isn't supported allows nobody.
        Err((text, true)) if allows => {
            return Err((Unusable::Unsupported(text), false));
        }
        Err(why) => return Err(typed(why)),
    }
    Ok(())
}

fn satisfy(reader: &mut Reader<'_>) -> Read {
    let satisfy = match reader.words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("any") => Satisfy::Any,
        Some("all") => Satisfy::All,
        _ => return invalid("Satisfy takes Any or All"),
    };
    let methods = reader.methods.clone();
    reader.rules.compat().satisfy.push((satisfy, methods));
    Ok(())
}

fn require(reader: &mut Reader<'_>) -> Read {
    match access::requirement(&reader.words, reader.methods) {
        Ok(requirement) => reader.rules.require.push(requirement),
        Err(why) => {
            reader.rules.require.push(unmet(&reader.words, false));
            return Err(typed(why));
        }
    }
    Ok(())
}

/// What stands in the place of a requirement that isn't supported: it grants nothing, and denies where it is negated.
pub(crate) fn unmet(words: &[String], negated: bool) -> Requirement {
    match words {
        [not, rest @ ..] if !negated && not.eq_ignore_ascii_case("not") => {
            Requirement::Not(Box::new(unmet(rest, !negated)))
        }
        _ if negated => Requirement::Single(Test::All(true), Methods::All),
        _ => Requirement::Single(Rules::never(), Methods::All),
    }
}

fn auth_type(reader: &mut Reader<'_>) -> Read {
    match reader.words.first() {
        Some(kind) if ["basic", "none"].contains(&kind.to_ascii_lowercase().as_str()) => {
            reader.rules.authentication.kind = Some(kind.to_ascii_lowercase());
            Ok(())
        }
        Some(kind) => unsupported(format!("AuthType {kind} is not supported: use Basic")),
        None => invalid("AuthType takes Basic"),
    }
}

fn auth_provider(reader: &mut Reader<'_>) -> Read {
    match reader.words.iter().find(|word| !word.eq_ignore_ascii_case("file")) {
        None => Ok(()),
        Some(other) => unsupported(format!("AuthBasicProvider {other} is not supported: use file")),
    }
}

fn body_limit(reader: &mut Reader<'_>) -> Read {
    match reader.words.first().and_then(|word| word.parse().ok()) {
        Some(limit) => reader.rules.body_limit = Some(limit),
        None => return invalid("LimitRequestBody takes a number of bytes"),
    }
    Ok(())
}

fn header(reader: &mut Reader<'_>, is_request: bool) -> Read {
    let words = std::mem::take(&mut reader.words);
    if words.last().is_some_and(|word| word.eq_ignore_ascii_case("early")) {
        return unsupported("\"early\" comes before .htaccess files are read: remove the word");
    }
    let change = Change::new(&words, is_request).map_err(typed)?;
    let list = if is_request { &mut reader.rules.request_headers } else { &mut reader.rules.headers };
    list.push(change);
    Ok(())
}

fn set_env(reader: &mut Reader<'_>) -> Read {
    match &reader.words[..] {
        [name, rest @ ..] if rest.len() < 2 => {
            let value = rest.first().cloned().unwrap_or_default();
            reader.rules.environment.push((name.clone(), Some(value)));
            Ok(())
        }
        _ => invalid("SetEnv takes a name and a value"),
    }
}

fn unset_env(reader: &mut Reader<'_>) -> Read {
    let names = reader.words.iter().map(|name| (name.clone(), None));
    reader.rules.environment.extend(names);
    Ok(())
}

fn variables(words: &[String]) -> Result<List, (Unusable, bool)> {
    if words.is_empty() {
        return invalid("a variable is missing");
    }
    let variable = |word: &String| match (word.strip_prefix('!'), word.split_once('=')) {
        (Some(name), _) => (name.to_owned(), None),
        // Without a value it is 1, in Apache also behind an equals sign.
        (None, Some((name, ""))) => (name.to_owned(), Some("1".to_owned())),
        (None, Some((name, value))) => (name.to_owned(), Some(value.to_owned())),
        (None, None) => (word.clone(), Some("1".to_owned())),
    };
    Ok(words.iter().map(variable).collect())
}

fn set_env_if(reader: &mut Reader<'_>, ignores_case: bool) -> Read {
    let [attribute, pattern, rest @ ..] = &reader.words[..] else {
        return invalid("SetEnvIf takes an attribute, a regular expression and variables");
    };
    let regex = |text: &str, ignores_case| {
        Pattern::new(text, ignores_case).map_err(|why| (Unusable::Unsupported(why), false))
    };
    let attribute = match attribute.to_ascii_lowercase().as_str() {
        "remote_addr" | "remote_host" => Attribute::Remote,
        "server_addr" => Attribute::Local,
        "request_method" => Attribute::Method,
        "request_protocol" => Attribute::Protocol,
        "request_uri" => Attribute::Path,
        name if name.starts_with("oid(") => return unsupported("SetEnvIf OID(...) is not supported"),
        _ if attribute.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) => {
            Attribute::Field(attribute.clone())
        }
        _ => Attribute::Fields(regex(attribute, true)?),
    };
    let pattern = regex(pattern, ignores_case)?;
    let variables = variables(rest)?;
    reader.rules.set_env_if.push(SetEnvIf { attribute, pattern, variables, list: 0 });
    Ok(())
}

fn set_env_if_expression(reader: &mut Reader<'_>) -> Read {
    let [expression, rest @ ..] = &reader.words[..] else {
        return invalid("SetEnvIfExpr takes an expression and variables");
    };
    let expression = Expression::parse(expression).map_err(|why| (Unusable::Unsupported(why), false))?;
    let attribute = Attribute::Expression(Box::new(expression));
    let pattern = Pattern::new("", false).map_err(|why| (Unusable::Unsupported(why), false))?;
    let variables = variables(rest)?;
    reader.rules.set_env_if.push(SetEnvIf { attribute, pattern, variables, list: 0 });
    Ok(())
}

fn browser_match(reader: &mut Reader<'_>, ignores_case: bool) -> Read {
    reader.words.insert(0, "User-Agent".to_owned());
    set_env_if(reader, ignores_case)
}

fn expiry(words: &[String]) -> Result<Expiry, (Unusable, bool)> {
    Expiry::new(&words.join(" ")).map_err(|why| (Unusable::Invalid(why), false))
}

fn expires_default(reader: &mut Reader<'_>) -> Read {
    reader.rules.expires.default = Some(expiry(&reader.words)?);
    Ok(())
}

fn expires_by_type(reader: &mut Reader<'_>) -> Read {
    let [kind, rest @ ..] = &reader.words[..] else {
        return invalid("ExpiresByType takes a type and a time");
    };
    let entry = (kind.clone(), expiry(rest)?);
    reader.rules.expires.by_type.push(entry);
    Ok(())
}

/// Names with values; `None` removes.
type List = Vec<(String, Option<String>)>;

fn extension(word: &str) -> String {
    word.strip_prefix('.').unwrap_or(word).to_owned()
}

fn add(reader: &mut Reader<'_>, list: fn(&mut Rules) -> &mut List) -> Read {
    let [value, extensions @ ..] = &reader.words[..] else { return invalid("a value is missing") };
    if extensions.is_empty() {
        return invalid("an extension is missing");
    }
    let entries = extensions.iter().map(|word| (extension(word), Some(value.clone())));
    list(reader.rules).extend(entries);
    Ok(())
}

fn remove(reader: &mut Reader<'_>, list: fn(&mut Rules) -> &mut List) -> Read {
    let entries = reader.words.iter().map(|word| (extension(word), None));
    list(reader.rules).extend(entries);
    Ok(())
}

/// Whether a media type or handler is PHP's.
fn is_php(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("php") || name.starts_with("proxy:")
}

fn add_type(reader: &mut Reader<'_>) -> Read {
    if reader.words.first().is_some_and(|kind| is_php(kind)) {
        return runs_php(reader);
    }
    add(reader, |rules| &mut rules.kinds.types)
}

/// A line that has PHP run files: `.php` files run anyway.
fn runs_php(reader: &Reader<'_>) -> Read {
    let others = reader.words.iter().skip(1).any(|word| extension(word) != "php");
    if others { unsupported("PHP runs files named .php only: rename the scripts") } else { Ok(()) }
}

fn force_type(reader: &mut Reader<'_>) -> Read {
    let Some(kind) = reader.words.first() else { return invalid("ForceType takes a media type") };
    if is_php(kind) {
        return unsupported("PHP runs files named .php only: rename the scripts");
    }
    reader.rules.kinds.forced = Some(Some(kind.clone()).filter(|kind| !kind.eq_ignore_ascii_case("none")));
    Ok(())
}

fn default_charset(reader: &mut Reader<'_>) -> Read {
    let Some(word) = reader.words.first() else { return invalid("AddDefaultCharset takes a charset") };
    reader.rules.kinds.default_charset = Some(match word.to_ascii_lowercase().as_str() {
        "off" => None,
        "on" => Some("iso-8859-1".to_owned()),
        _ => Some(word.clone()),
    });
    Ok(())
}

fn directory_index(reader: &mut Reader<'_>) -> Read {
    match &reader.words[..] {
        [] => return invalid("DirectoryIndex takes names of files"),
        [word] if word.eq_ignore_ascii_case("disabled") => reader.rules.index = Some(Vec::new()),
        names => reader.rules.index.get_or_insert_default().extend_from_slice(names),
    }
    Ok(())
}

fn error_document(reader: &mut Reader<'_>) -> Read {
    let Some((status, text)) = reader.line.rest.split_once(char::is_whitespace) else {
        return invalid("ErrorDocument takes a status and a path, text or URL");
    };
    let Some(status) = status.parse().ok().filter(|status| (400..600).contains(status)) else {
        return invalid(format!("ErrorDocument: \"{status}\" is no error status"));
    };
    let text = text.trim();
    let word = words(text).into_iter().next().unwrap_or_default();
    let document = match &word {
        word if word.eq_ignore_ascii_case("default") => Document::Default,
        word if word.starts_with('/') => Document::Path(word.clone()),
        word if word.contains("://") && !word.contains(' ') => Document::Url(word.clone()),
        // Apache 2 takes the rest of the line, without its quotes.
        _ => {
            let text = text.strip_prefix('"').unwrap_or(text);
            Document::Text(text.strip_suffix('"').unwrap_or(text).to_owned())
        }
    };
    reader.rules.error_documents.push((status, document));
    Ok(())
}

fn file_etag(reader: &mut Reader<'_>) -> Read {
    reader.rules.no_etag = Some(reader.words.iter().any(|word| word.eq_ignore_ascii_case("none")));
    Ok(())
}

fn set_handler(reader: &mut Reader<'_>) -> Read {
    match reader.words.first() {
        Some(handler) if is_php(handler) => Ok(()),
        Some(_) => {
            reader.rules.php = Some(false);
            Ok(())
        }
        None => invalid("SetHandler takes a handler"),
    }
}

/// AddHandler and RemoveHandler.
fn add_handler(reader: &mut Reader<'_>) -> Read {
    let removes = reader.line.name == "removehandler";
    if !removes && reader.words.first().is_some_and(|handler| is_php(handler)) {
        return runs_php(reader);
    }
    let extensions = reader.words.iter().skip(usize::from(!removes));
    let of_php = extensions.clone().any(|word| extension(word).eq_ignore_ascii_case("php"));
    if of_php {
        reader.rules.php = Some(false);
    }
    Ok(())
}

fn php_value(reader: &mut Reader<'_>) -> Read {
    match &reader.words[..] {
        [name, value] if name.eq_ignore_ascii_case("engine") => {
            let is_on = matches!(value.to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes");
            reader.rules.php = Some(is_on);
            Ok(())
        }
        [name, value, ..] if name.eq_ignore_ascii_case(PREPEND) => unsupported(format!(
            "{PREPEND} has no effect here, so a firewall that it starts is OFF: write {PREPEND} = \"{value}\" into .user.ini of this folder"
        )),
        [name, value, ..] => unsupported(format!(
            "{name}: write ini = {{ {name} = \"{value}\" }} below [php] or [site.php] in millrace.toml"
        )),
        _ => invalid(format!("{} takes a name and a value", reader.line.name)),
    }
}

fn cache_key_modify(reader: &mut Reader<'_>) -> Read {
    for word in &reader.words {
        let name = word.strip_prefix("-qs:").unwrap_or(word);
        // Arguments of advertisements are not part of a page's key anyway.
        let usual = ["fbclid", "gclid", "_ga"].contains(&name) || name.starts_with("utm");
        if !usual {
            return unsupported(format!(
                "CacheKeyModify {word}: write cache.ignore_arguments = [\"{name}\"] in millrace.toml"
            ));
        }
    }
    Ok(())
}

/// The table of the directives for `docs/htaccess.md`.
pub fn table() -> String {
    let row = |directive: &Directive| format!("| `{}` | {} |\n", directive.name, directive.meaning);
    let rows: String = DIRECTIVES.iter().map(row).collect();
    format!("| directive | meaning |\n| --- | --- |\n{rows}")
}
