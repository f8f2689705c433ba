//! OpenLiteSpeed: `httpd_config.conf` with the virtual hosts that it names, or one `vhconf.conf`.

mod host;
mod lex;

use std::path::Path;

use crate::files::Files;
use crate::listen;
use crate::value::{Adopted, Options, Site};
use lex::Entry;

/// Blocks and values of the server that Millrace does not need, in lower case.
const NEEDLESS: &[(&str, &str)] = &[
    ("tuning", "limits have defaults for this machine; compression and caching of files are on"),
    ("accessdenydir", "only files of the sites' roots are sent, and hidden ones never"),
    ("filelocking", "no such setting"),
    ("module", "Millrace has no modules; the page cache and HTTP/2 are built in"),
    ("lsrecaptcha", "`php.waiting_room` holds a crowd; there is no captcha"),
    ("cgirlimit", "`php.worker_memory` and the time limits bound scripts"),
    ("extprocessor", "Millrace runs PHP in workers of its own"),
    ("scripthandler", "Millrace runs PHP in workers of its own"),
    ("railsdefaults", "Millrace starts no Ruby, Python or Entry: name their servers in [[site.proxy]]"),
    ("wsgidefaults", "Millrace starts no Ruby, Python or Entry: name their servers in [[site.proxy]]"),
    ("nodedefaults", "Millrace starts no Ruby, Python or Entry: name their servers in [[site.proxy]]"),
    ("index", "`files.index` is index.php, index.html, index.htm"),
    ("expires", "files have an age of their own; `expires` of a rule sets another"),
    ("fileaccesscontrol", "`files.symlinks` says where links may lead"),
    ("general", "sites say it"),
    ("suexec", "`php.user` is the user of a site's scripts"),
];

/// Converts a file.
pub fn adopt(path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let nodes = lex::read(path, files)?;
    let mut adopted = Adopted::default();
    let base = path.parent().unwrap_or(Path::new(""));
    let Some(_) = nodes.iter().find(|node| node.is("virtualhost")) else {
        if !nodes.iter().any(|node| node.is("docroot")) {
            return Err(format!("{} has no virtual host and no docRoot", path.display()));
        }
        return Ok(one_host(path, &nodes, options, adopted));
    };
    // `conf/httpd_config.conf` is in the folder of the server.
    let root = base.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    for node in &nodes {
        let source = &node.source;
        match node.name.as_str() {
            "virtualhost" => virtual_host(node, &root, files, options, &mut adopted)?,
            "listener" => {}
            "user" => {
                adopted.settings.set("php.user", node.value.as_str());
                adopted.notes.carried(source);
            }
            "errorlog" | "accesslog" => host::log(node, &root, &mut adopted),
            "accesscontrol"
                if node
                    .inner
                    .iter()
                    .all(|inner| inner.value == "ALL" || inner.value.is_empty() || inner.value == "*") =>
            {
                adopted.notes.needless(&node.whole(), "every client may connect");
            }
            "vhtemplate" => adopted.notes.lost(&node.whole(), "write a [[site]] for each of its members"),
            name => match NEEDLESS.iter().find(|(known, _)| *known == name) {
                Some((_, why)) => adopted.notes.needless(&node.whole(), *why),
                None if node.inner.is_empty() => adopted
                    .notes
                    .needless(source, "a setting of the process: Millrace has defaults for this machine"),
                None => adopted
                    .notes
                    .lost(&node.whole(), "not supported by adopt; docs/settings.md lists the settings"),
            },
        }
    }
    nodes.iter().filter(|node| node.is("listener")).for_each(|node| listener(node, &root, &mut adopted));
    adopted.sites.iter_mut().for_each(default_names);
    listen::widest(&mut adopted);
    Ok(adopted)
}

/// A `vhconf.conf` alone: its listeners are in another file.
fn one_host(path: &Path, nodes: &[Entry], options: &Options, mut adopted: Adopted) -> Adopted {
    let source = crate::value::Source {
        text: format!("the virtual host of {}", path.display()),
        ..nodes[0].source.clone()
    };
    let mut site = Site::new(source);
    site.plain = true;
    let place = host::Names {
        root: path.ancestors().nth(4).unwrap_or(Path::new("")).to_string_lossy().into_owned(),
        name: path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned(),
        host_root: String::new(),
    };
    host::of_nodes(&mut site, nodes, &place, options, &mut adopted);
    default_names(&mut site);
    adopted.settings.add("server.listen", ":80");
    if site.secure {
        adopted.settings.add("https.listen", ":443");
    }
    site.default = site.names.is_empty();
    adopted.sites.push(site);
    adopted
}

/// `*` as a domain is the default site.
fn default_names(site: &mut Site) {
    let before = site.names.len();
    site.names.retain(|name| name != "*");
    site.default |= site.names.len() != before;
}

fn virtual_host(
    node: &Entry,
    root: &str,
    files: &dyn Files,
    options: &Options,
    adopted: &mut Adopted,
) -> Result<(), String> {
    let mut site = Site::new(node.source.clone());
    site.notes.carried(&node.source);
    let value = |name: &str| node.inner.iter().find(|inner| inner.is(name)).map(|inner| inner.value.clone());
    let mut place = host::Names { root: root.to_owned(), name: node.value.clone(), host_root: String::new() };
    place.host_root = place.expand(&value("vhroot").unwrap_or_default()).trim_end_matches('/').to_owned();
    for inner in &node.inner {
        match inner.name.as_str() {
            "vhroot" | "configfile" | "user" | "group" => site.notes.carried(&inner.source),
            "setuidmode" | "allowsymbollink" | "enablescript" | "restrained" | "chrootmode"
            | "maxkeepalivereq" | "note" => {
                site.notes.needless(&inner.source, "`php.user`, `php.sandbox` and `files.symlinks` say it");
            }
            "virtualhostconfig" => host::of_nodes(&mut site, &inner.inner, &place, options, adopted),
            _ => {
                site.notes.lost(&inner.whole(), "not supported by adopt; docs/settings.md lists the settings")
            }
        }
    }
    if let Some(user) = value("user") {
        site.settings.set("php.user", user);
    }
    if let Some(file) = value("configfile") {
        // A relative name starts at the folder of the server.
        let path = if file.starts_with(['/', '$']) {
            place.expand(&file)
        } else {
            format!("{root}/{}", place.expand(&file))
        };
        match lex::read(Path::new(&path), files) {
            Ok(nodes) => host::of_nodes(&mut site, &nodes, &place, options, adopted),
            Err(why) if site.root.is_none() => return Err(why),
            Err(_) => {}
        }
    }
    adopted.sites.push(site);
    Ok(())
}

/// `listener Default { address *:80; secure 0; map Example example.com, www.example.com }`
fn listener(node: &Entry, root: &str, adopted: &mut Adopted) {
    let place = host::Names { root: root.to_owned(), ..host::Names::default() };
    let value =
        |name: &str| node.inner.iter().find(|inner| inner.is(name)).map(|inner| place.expand(&inner.value));
    let secure = value("secure").is_some_and(|value| value == "1");
    let address = value("address").unwrap_or_default().replace("ANY", "*");
    match listen::address(&address, 80) {
        Some(address) => {
            adopted.settings.add(if secure { "https.listen" } else { "server.listen" }, &address)
        }
        None => return adopted.notes.lost(&node.whole(), "`server.listen` takes an address and a port"),
    }
    adopted.notes.carried(&node.source);
    if let (true, Some(cert), Some(key)) = (secure, value("certfile"), value("keyfile")) {
        adopted.certificate(&cert, &key);
    }
    for inner in &node.inner {
        if !inner.is("map") {
            match inner.name.as_str() {
                "address" | "secure" | "keyfile" | "certfile" => adopted.notes.carried(&inner.source),
                _ => adopted
                    .notes
                    .needless(&inner.source, "TLS 1.2 and 1.3 with secure ciphers, on all addresses alike"),
            }
            continue;
        }
        let (name, domains) = inner.value.split_once(char::is_whitespace).unwrap_or((&inner.value, ""));
        let site = adopted.sites.iter_mut().find(|site| site.source.text == format!("virtualhost {name}"));
        let Some(site) = site else {
            adopted.notes.lost(&inner.source, "there is no virtual host of this name");
            continue;
        };
        for domain in domains.split(',').map(str::trim).filter(|domain| !domain.is_empty()) {
            site.name(domain);
        }
        site.secure |= secure;
        site.plain |= !secure;
        site.notes.carried(&inner.source);
    }
}
