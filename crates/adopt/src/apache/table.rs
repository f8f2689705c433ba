//! Directives of Apache that need no thought.

use super::read::Item;
use crate::value::{Notes, STAPLING};

/// Of the server as a whole: a name, or with a `*` at its end the beginning of names; and why Millrace does not need it.
const SERVER: &[(&str, &str)] = &[
    ("serverroot", "relative names of files start at this configuration"),
    ("loadmodule", "Millrace has no modules"),
    ("group", "PHP runs with the group of its user"),
    ("pidfile", "the service manager knows the process; `millrace reload` finds it"),
    ("mutex", "there are no such locks"),
    ("defaultruntimedir", "the runtime folder is the system's"),
    ("startservers", "one event loop for each core"),
    ("minspare*", "one event loop for each core"),
    ("maxspare*", "one event loop for each core"),
    ("threadsperchild", "one event loop for each core"),
    ("threadlimit", "one event loop for each core"),
    ("serverlimit", "one event loop for each core"),
    ("maxrequestworkers", "`server.connections` limits connections, `php.workers` scripts"),
    ("maxclients", "`server.connections` limits connections, `php.workers` scripts"),
    ("maxconnectionsperchild", "`php.max_requests` replaces workers"),
    ("maxrequestsperchild", "`php.max_requests` replaces workers"),
    ("timeout", "each phase of a request has a limit of its own: `http.head_timeout` and its like"),
    (
        "requestreadtimeout",
        "each phase of a request has a limit of its own: `http.head_timeout` and its like",
    ),
    ("keepalive*", "idle connections are kept for `http.keep_alive`, and cost less than a kilobyte"),
    ("maxkeepaliverequests", "`http.keep_alive_requests` is the limit"),
    ("doshash*", "tables have the size that they need"),
    ("hostnamelookups", "logs have addresses"),
    ("logformat", "`log.access_format` is combined or json"),
    ("servertokens", "Millrace never sends its version"),
    ("traceenable", "TRACE is refused"),
    ("accessfilename", "`.htaccess` is the name"),
    ("namevirtualhost", "every site has its names"),
    ("typesconfig", "Millrace knows the media types of files"),
    ("mimemagicfile", "Millrace knows the media types of files"),
    ("coredumpdirectory", "the system says where"),
    ("sslrandomseed", "the system has randomness"),
    ("sslpassphrasedialog", "keys are read without a password"),
    ("sslsessioncache*", "Millrace resumes sessions by tickets, and changes their keys by itself"),
    ("sslcryptodevice", "no such device"),
    ("sslstaplingcache", STAPLING),
    ("protocols", "HTTP/2 is on with TLS"),
    ("h2*", "HTTP/2 is on with TLS"),
];

/// Of virtual hosts and their sections.
const NEEDLESS: &[(&str, &str)] = &[
    ("serveradmin", "Millrace's own pages have no mail address"),
    ("serversignature", "Millrace never sends its version"),
    ("usecanonicalname", "redirects stay on the host that the client asked for"),
    ("usecanonicalphysicalport", "redirects stay on the host that the client asked for"),
    ("enablesendfile", "files are sent by the kernel"),
    ("enablemmap", "files are sent by the kernel"),
    ("fileetag", "files have ETag and Last-Modified"),
    ("loglevel", "`log.level` is warnings, unless set"),
    ("transferlog", "there is one access log for all sites"),
    ("addoutputfilterbytype", "compression is on: gzip, brotli and zstd, and compressed pages are cached"),
    ("deflate*", "compression is on: gzip, brotli and zstd, and compressed pages are cached"),
    ("brotli*", "compression is on: gzip, brotli and zstd, and compressed pages are cached"),
    ("setoutputfilter", "compression is on: gzip, brotli and zstd, and compressed pages are cached"),
    ("addtype", "Millrace knows the media types of files; a .htaccess file can add others"),
    ("addhandler", "PHP runs files that end with .php; Millrace starts no other programs"),
    ("addencoding", "`.br`, `.zst` and `.gz` beside a file are sent"),
    ("addlanguage", "there is no negotiation by language"),
    ("languagepriority", "there is no negotiation by language"),
    ("forcelanguagepriority", "there is no negotiation by language"),
    ("adddefaultcharset", "HTML and text files are sent as utf-8"),
    ("addcharset", "HTML and text files are sent as utf-8"),
    ("allowencodedslashes", "paths are decoded once"),
    ("acceptpathinfo", "scripts get PATH_INFO"),
    ("rewriteengine", "rules are on"),
    ("rewriteoptions", "rules are on"),
    ("rewritebase", "rules have whole paths"),
    ("expiresactive", "rules are on"),
    ("proxypassreverse*", "`proxy.host` is the visitor's, so that an application's redirects are right"),
    ("proxyrequests", "Millrace is no forward proxy"),
    ("proxyvia", "no Via field is added"),
    ("proxyaddheaders", "an application gets the host, the client's address and the scheme"),
    ("proxypreservehost", "`proxy.host` of each application"),
    ("proxytimeout", "`proxy.read_timeout` is 60s, unless set"),
    ("proxyerroroverride", "an application's error pages stay"),
    ("proxyfcgibackendtype", "php-fpm is known"),
    ("proxyfcgisetenvif", "Millrace sets PHP's variables"),
    ("sslproxyengine", "`proxy.to` with https:// is TLS"),
    ("sslprotocol", "TLS 1.2 and 1.3"),
    ("sslciphersuite", "only secure ciphers"),
    ("sslhonorcipherorder", "only secure ciphers"),
    ("sslcompression", "there is none"),
    ("sslsessiontickets", "Millrace resumes sessions by tickets, and changes their keys by itself"),
    ("sslusestapling", STAPLING),
    ("sslstapling*", STAPLING),
    ("sslopenssl*", "only secure ciphers"),
    ("ssloptions", "scripts get the usual variables of TLS"),
    ("sslstrictsnivhostcheck", "a name is one site on all ports"),
    ("browsermatch", "no work-arounds for old browsers"),
    ("indexoptions", "Millrace lists no folders"),
    ("indexignore", "Millrace lists no folders"),
    ("addicon*", "Millrace lists no folders"),
    ("defaulticon", "Millrace lists no folders"),
    ("readmename", "Millrace lists no folders"),
    ("headername", "Millrace lists no folders"),
    ("passenv", "`php.env_pass` names variables of the server's environment"),
    ("cgipassauth", "scripts get the field Authorization"),
    ("directoryslash", "a folder's URL ends with a slash"),
    ("contentdigest", "no such field"),
    ("limitxmlrequestbody", "`body_bytes` limits all content"),
    ("limitrequestfield*", "`http.head_bytes` and `http.head_fields` are the limits"),
    ("limitrequestline", "`http.target_bytes` is the limit"),
    ("removehandler", "PHP runs files that end with .php"),
    ("removetype", "PHP runs files that end with .php"),
    ("suexecusergroup", "`php.user` is the user of a site's scripts"),
];

/// Directives that have no equal.
const LOST: &[(&str, &str)] = &[
    ("sec*", "there is no web application firewall: use one of the application, such as a plugin"),
    ("modsecurity*", "there is no web application firewall: use one of the application, such as a plugin"),
    (
        "scriptalias*",
        "Millrace starts no programs (CGI): let the application have a server of its own, and name it in [[site.proxy]]",
    ),
    (
        "wsgi*",
        "applications are reached by HTTP: run it by gunicorn or the like, and name it in [[site.proxy]]",
    ),
    ("passenger*", "applications are reached by HTTP: name theirs in [[site.proxy]]"),
    ("dav*", "there is no WebDAV in the server"),
    ("extfilter*", "responses are not changed"),
    ("substitute", "responses are not changed: change them where they are made"),
    (
        "dospage*",
        "write a rule with the `path` and `limit = \"2/s\"`, the numbers of DOSPageCount and DOSPageInterval (docs/rules.md): a client gets \
         429 while it sends more, and is not locked out for a time; until then, nothing limits these requests",
    ),
    (
        "dossite*",
        "write a rule with `limit = \"50/s\"`, the numbers of DOSSiteCount and DOSSiteInterval (docs/rules.md): a client gets 429 while it \
         sends more, and is not locked out for a time; until then, nothing limits these requests",
    ),
    (
        "dosblocking*",
        "a client beyond `limit` of a rule gets 429 while it sends more, and is not locked out for a time",
    ),
    ("doswhitelist*", "a rule with `from` and `allow = true` before those with `limit`: docs/rules.md"),
    ("dos*", "a rule with `limit` refuses requests, and starts no program: docs/rules.md"),
    (
        "qs_*",
        "rules with `limit` and `burst` (docs/rules.md), `server.connections_per_address`, and the shield (docs/shield.md)",
    ),
    ("setenvif*", "rules match `header` themselves; in a .htaccess file SetEnvIf works (docs/htaccess.md)"),
    ("requestheader", "requests are passed as they are: configure the application"),
    ("rewritemap", "redirects of a map belong into a file: `redirects = \"FILE.csv\"` of a rule"),
    ("mdomain", "`https.acme` obtains certificates for the names of the sites"),
    ("md*", "`https.acme` obtains certificates for the names of the sites"),
    ("sslcacertificatepath", "`client_ca` is one file"),
    ("sslverifydepth", "chains are checked in full"),
    ("sslproxy*", "an application's certificate is always checked; `proxy.ca` names its authority"),
    ("cache*", "the page cache is on, and changed pages are purged: docs/cache.md"),
    ("use", "macros are not resolved: write what it stands for"),
    ("macro", "macros are not resolved: write what it stands for"),
    ("assignuserid", "`php.user` is the user of a site's scripts"),
    ("php_admin_flag", "php.ini of the site"),
];

/// Whether a directive says something only of the server as a whole.
pub fn is_of_server(name: &str) -> bool {
    find(SERVER, name).is_some()
}

/// Notes a directive of the tables.
pub fn tell(item: &Item, notes: &mut Notes) {
    let (source, name) = (item.whole(), item.name.as_str());
    if name == "setoutputfilter" && item.arg(0).eq_ignore_ascii_case("rate_limit") {
        return notes
            .lost(&source, "responses are not slowed down; requests have `limit` of a rule: docs/rules.md");
    }
    if let Some(why) = find(SERVER, name).or_else(|| find(NEEDLESS, name)) {
        return notes.needless(&source, why);
    }
    if item.arg(0).eq_ignore_ascii_case("off") {
        return notes.needless(&source, "it is off");
    }
    let unknown = "not supported by adopt; docs/settings.md and docs/rules.md list the settings, docs/htaccess.md what .htaccess files can do";
    notes.lost(&source, find(LOST, name).unwrap_or(unknown));
}

fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let fits =
        |pattern: &str| pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start));
    table.iter().find(|(pattern, _)| fits(pattern)).map(|(_, why)| *why)
}
