//! `auth_request`: which script of the site decides, and which fields of its response the request gets.

use super::lex::Directive;
use super::location::{Kind, Location};
use super::rewrite::script_in;
use super::server::Server;
use crate::pattern;
use crate::value::{Toml, is_copied};

/// Why what PHP sends the client with the decision does not reach it.
const DROPPED: &str = "of a script that lets a request pass only the fields in `copy` are used: set the cookie where the page is made";

/// What `auth` of a rule is for `auth_request uri` at this place.
///
/// # Errors
/// Why no script of the site decides, with what to write.
pub fn table(server: &mut Server<'_>, uri: &str, location: Option<&Location<'_>>) -> Result<Toml, String> {
    let script = script(server, &server.expand(uri))?;
    let mut entries = vec![("script".to_owned(), Toml::Text(script))];
    let copied = copied(server, location);
    if !copied.is_empty() {
        entries.push(("copy".to_owned(), Toml::List(copied)));
    }
    Ok(Toml::Table(entries))
}

/// The script that answers a request of the server for `uri`.
fn script(server: &Server<'_>, uri: &str) -> Result<String, String> {
    if uri.contains(['$', '?', '#', '%']) || !uri.starts_with('/') {
        return Err(
            "`auth.script` names one script, without variables and a query: it finds the request in \
                    $_SERVER['HTTP_X_ORIGINAL_URI']"
                .to_owned(),
        );
    }
    let location = locate(server, uri);
    let inner = location.map(|location| location.directive.inner()).unwrap_or_default();
    let of = |name: &str| inner.iter().find(|inner| inner.name == name);
    if let Some(pass) = of("proxy_pass") {
        return Err(format!(
            "the application at {} decides, and `auth.script` runs a script of the site: write one that asks the application \
             (docs/adopt.md has one)",
            pass.arg(0)
        ));
    }
    if of("return").is_some() {
        return Err("nothing decides there, it always responds with the same status".to_owned());
    }
    let runs_php = |inner: &[Directive]| inner.iter().any(|inner| inner.name == "fastcgi_pass");
    let led = of("rewrite").and_then(|rewrite| script_in(rewrite.arg(1)));
    let led =
        led.or_else(|| of("try_files").and_then(|files| files.args.iter().find_map(|arg| script_in(arg))));
    let script = match (led, runs_php(inner)) {
        (Some(script), _)
            if !uri.ends_with(".php") && server.front_controller_of_all().as_ref() == Some(&script) =>
        {
            return Err(format!(
                "{script} decides by the URL {uri}, but a script of a rule runs for itself: write one that decides"
            ));
        }
        (Some(script), _) => script,
        (None, true) => filename(server, uri, inner)?,
        (None, false) => return Err(format!("no location runs a script for {uri}")),
    };
    let is_plain = !script.contains(['$', '?', '#', '%', '*', '\\']) && !script.contains("/../");
    match script.ends_with(".php") && is_plain {
        true => Ok(script),
        false => Err(format!("{script} is not the name of a script that ends with .php")),
    }
}

/// The path of the script that `SCRIPT_FILENAME` names, below the root.
fn filename(server: &Server<'_>, uri: &str, inner: &[Directive]) -> Result<String, String> {
    let root = inner.iter().find(|inner| matches!(inner.name.as_str(), "root" | "alias"));
    let root = root.map(|root| server.expand(root.arg(0)));
    if root.as_ref().is_some_and(|root| Some(root) != server.own_root().as_ref()) {
        return Err("the script is in a folder of its own: put it into the root".to_owned());
    }
    // Of several values PHP takes the last.
    let named =
        inner.iter().rfind(|inner| inner.name == "fastcgi_param" && inner.arg(0) == "SCRIPT_FILENAME");
    let Some(named) = named.map(|named| server.expand(named.arg(1))) else { return Ok(uri.to_owned()) };
    let own = server.own_root().unwrap_or_default();
    let roots = ["$document_root", "${document_root}", "$realpath_root", own.as_str()];
    let below = roots.iter().filter(|root| !root.is_empty()).find_map(|root| named.strip_prefix(root));
    match below {
        Some("$fastcgi_script_name" | "$uri" | "$document_uri") => Ok(uri.to_owned()),
        Some(below) if below.starts_with('/') => Ok(below.to_owned()),
        _ if named == "$request_filename" => Ok(uri.to_owned()),
        _ => Err(format!("the script {named} is outside of the root: put it there")),
    }
}

/// The location that has a path, as nginx chooses it.
fn locate<'s, 'a>(server: &'s Server<'a>, uri: &str) -> Option<&'s Location<'a>> {
    let all = || server.locations.iter();
    let exact = all().find(|location| matches!(&location.kind, Kind::Exact(path) if path == uri));
    let prefix = all()
        .filter(|location| !matches!(location.kind, Kind::Exact(_)))
        .filter(|location| location.prefix().is_some_and(|prefix| uri.starts_with(prefix)))
        .max_by_key(|location| location.prefix().map_or(0, str::len));
    let is_first = prefix.is_some_and(|location| matches!(location.kind, Kind::First(_)));
    let regex = all().filter(|_| !is_first).find(|location| {
        matches!(&location.kind, Kind::Regex(regex)
            if pattern::compile(regex).is_some_and(|regex| regex.is_match(uri.as_bytes())))
    });
    exact.or(regex).or(prefix)
}

/// The paths that `auth_request` of the server names.
pub fn is_asked(server: &Server<'_>, path: &str) -> bool {
    server.everywhere().iter().any(|inner| inner.name == "auth_request" && inner.arg(0) == path)
}

/// Whether requests of the server are decided by others.
pub fn is_used(server: &Server<'_>) -> bool {
    server.everywhere().iter().any(|inner| inner.name == "auth_request" && inner.arg(0) != "off")
}

/// The fields that applications or PHP get, of those that `auth_request_set` takes from the response.
fn copied(server: &mut Server<'_>, location: Option<&Location<'_>>) -> Vec<String> {
    let mut names = Vec::new();
    for set in server.effective(&["auth_request_set"], location) {
        let field = field(&set);
        let is_sent = server.everywhere().iter().any(|inner| {
            matches!(inner.name.as_str(), "fastcgi_param" | "proxy_set_header" | "uwsgi_param")
                && is_variable(inner.arg(1), set.arg(0))
        });
        let notes = &mut server.site.notes;
        match field {
            Some(name) if name == "Set-Cookie" => notes.lost(&set.source, DROPPED),
            Some(name) if !is_copied(&name) => {
                let why = format!(
                    "a script cannot give a request {name}: let it send a field of its own, like X-User"
                );
                notes.lost(&set.source, why);
            }
            Some(name) if is_sent => {
                notes.carried(&set.source);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Some(_) => {
                notes.needless(&set.source, "no request gets it by `fastcgi_param` or `proxy_set_header`")
            }
            None => notes.lost(&set.source, "`auth.copy` takes header fields of the script's response"),
        }
    }
    names
}

/// The field that a variable of `auth_request_set` is, wherever the server sets it.
pub fn field_of(server: &Server<'_>, value: &str) -> Option<String> {
    let set = server
        .everywhere()
        .into_iter()
        .find(|inner| inner.name == "auth_request_set" && is_variable(value, inner.arg(0)))?;
    field(set).filter(|name| is_copied(name))
}

/// `$upstream_http_x_user` is the field `X-User`.
fn field(set: &Directive) -> Option<String> {
    let name = set.arg(1).strip_prefix("$upstream_http_")?;
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| words.collect::<Vec<_>>().join("-"))
}

fn is_variable(value: &str, name: &str) -> bool {
    value == name
        || value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) == name.strip_prefix('$')
}
