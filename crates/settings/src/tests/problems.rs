//! Texts of problems. Each is a snapshot, so that a review shows every change of words.

use std::collections::BTreeSet;

use super::{SITE, disk_with, load};
use crate::environment::Environment;
use crate::load::{Source, load_on};
use crate::problem::{Severity, What};

/// The drawing of all problems of `text`, errors or warnings.
fn drawn(text: &str) -> String {
    match load(text, &[]) {
        Ok((_, warnings)) if warnings.is_empty() => panic!("nothing is wrong with:\n{text}"),
        Ok((_, warnings)) => warnings.iter().map(|warning| warning.draw(false) + "\n\n").collect(),
        Err(problems) => problems.draw(false),
    }
}

macro_rules! snapshots {
    ($($name:ident: $text:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(drawn(&$text));
        })*
    };
}

snapshots! {
    all_at_once: r#"
[http]
head_timeout = "2h"
keep_alive = 60
body_size = "64MB"

[sever]
threads = 2

[[site]]
names = ["example.com", "example.com:80"]
root = "/srv/nowhere"
defalt = true

[site.headers]
Content-Length = "3"
"#;

    https_without_certificate: format!("[https]\nlisten = [\":443\", \"unix:/run/a.sock\"]\n{SITE}");

    https_and_http_at_once: format!(
        "[server]\nlisten = [\":443\"]\n[https]\nlisten = [\"127.0.0.1:443\"]\nself_signed = true\n{SITE}"
    );

    certificates: format!(r#"
[[tls]]
cert = "/srv/app/index.php"
[[tls]]
cert = "/srv/none.pem"
key = "/srv/app"
root = "/a"
names = 3
{SITE}cert = "/a"
"#);

    certificates_that_come_by_themselves: format!(r#"
[https]
listen = [":443"]
acme = true
[acme]
email = "mailto:me@example.com"
directory = "http://ca.example.com/"
ca_file = "/srv/none.pem"
dir = "/srv/app/keys"
{SITE}names = ["example.com", "localhost"]
[[site]]
names = ["*.example.com", "10.0.0.1"]
root = "/srv/app"
[[site]]
names = ["intranet"]
root = "/srv/app"
[[site]]
names = ["*.example.org"]
root = "/srv/app"
[site.https]
acme = false
"#);

    certificates_for_no_name: format!("[https]\nlisten = [\":443\"]\nacme = true\n[acme]\nterms_agreed = true\n{SITE}");

    certificates_without_https: format!("[https]\nacme = true\n{SITE}");

    certificates_of_clients: format!(r#"
{SITE}client_verify = "required"
[[site]]
names = ["b"]
root = "/srv/app"
client_verify = "optional"
client_ca = "/srv/none.pem"
"#);

    one_tls_bracket: format!("[tls]\ncert = \"/srv/app/index.php\"\n{SITE}");

    tls_is_no_table: format!("tls = 3\n{SITE}");

    fastcgi: format!(r#"
[php]
fastcgi = [":9000", "php", "unix:", "127.0.0.1:0", "/run/php.sock", "a b:9000", 9000]
{SITE}"#);

    php_version: format!(r#"
{SITE}[site.php]
version = "7.4"
[[site]]
names = ["b"]
root = "/srv/app"
php.version = 8.4
"#);

    php_version_and_program: format!(r#"
[php]
version = "8.2"
program = "/usr/lib/millrace/8.3/millrace-php"
{SITE}"#);

    fastcgi_in_short: format!(r#"php = "fpm:127.0.0.1:9000"
{SITE}php = "fastcgi:localhost"
"#);

    fastcgi_and_settings_of_our_own_workers: format!(r#"
[php]
fastcgi = ["unix:/run/php.sock", "unix:/srv/file.txt", "php:9000"]
program = "/usr/lib/millrace/8.3/millrace-php"
ini.memory_limit = "1G"
{SITE}"#);

    durations: format!(r#"
[http]
head_timeout = "10"
body_timeout = "10 seconds"
send_timeout = "1.5s"
keep_alive = "soon"
[server]
shutdown_grace = "99999999999999999d"
[files]
revalidate = true
[php]
idle_timeout = -1
request_timeout = "50ms"
{SITE}"#);

    sizes: format!(r#"
[http]
head_bytes = "1B"
body_bytes = "1.5GB"
body_memory = "a lot"
body_min_rate = "1KB/s"
target_bytes = -1
[files]
cache_bytes = "9999999999999TB"
small_file = 3.5
{SITE}"#);

    counts: format!(r#"
[server]
threads = 0
backlog = "128"
connections = -5
[http]
head_fields = 5000
[php]
workers = 2.5
queue = true
{SITE}"#);

    switches_words_and_lists: format!(r#"
[files]
compress = "yes"
expires = 0
symlinks = "inside only"
index = []
[log]
level = "warning"
access_format = 3
access = ""
[server]
pin_threads = [true]
trusted_proxies = ["10.0.0.1/8", "proxy", 5, "10.0.0.0/40"]
{SITE}"#);

    applications: r#"
[[site]]
root = "/srv/app"
[[site.proxy]]
path = "api/*"
to = ["127.0.0.1:3000", "ftp://a", "h2c://a:3000", "http://a:99999", "http://a/b?c", "https://a/../b", 5]
host = "a b"
retries = 99
health = { path = "up", intervall = "5s" }
keep_alive = 3
[[site.proxy]]
path = "/b/*"
http = 3
to = []
websocket = "yes"
[[site.proxy]]
path = "/a//b"
"#;

    applications_that_conflict: r#"
[[site]]
root = "/srv/app"
proxy = 5
[[site]]
names = ["b"]
root = "/srv/app"
[site.proxy]
path = "/x"
[[site]]
names = ["c"]
[[site.proxy]]
path = "/c"
strip = true
to = "unix:/srv/app/index.php"
[[site.proxy]]
path = "/c"
to = "unix:/run/no.sock"
ca = "/srv/none.pem"
[proxy]
path = "/"
"#;

    a_socket_that_is_not_there: r#"
[[site]]
[[site.proxy]]
path = "/"
to = "unix:/run/no.sock"
"#;

    addresses: format!(r#"
[server]
listen = ["8080", "localhost:80", "http://127.0.0.1", "::1:80", "[::1]", "127.0.0.1:99999", "/run/a.sock", "unix:", "*:80"]
[admin]
listen = "0.0.0.0:9180"
{SITE}"#);

    conflicting_addresses: format!(r#"
[server]
listen = [":80", "127.0.0.1:80", "unix:/run/a.sock", "unix:/run/a.sock", "127.0.0.1:9180"]
[admin]
listen = "127.0.0.1:9180"
{SITE}"#);

    unknown_keys: r#"
head_timeout = "5s"
root = "/srv/app"
colour = "blue"
[http]
client_max_body_size = "8MB"
keepalive_timeout = "5s"
head_timout = "5s"
workers = 3
[php]
max_children = 5
pool = "dynamic"
[files]
gzip = true
[[site]]
root = "/srv/app"
server_name = "example.com"
http.head_timeout = "5s"
[site.php]
wokers = 3
[site.redirekt]
https = true
[headers]
X-A = "1"
"#;

    tables_and_values_confused: r#"
http = 3
site = "example.com"
[server]
listen = { a = 1 }
[php]
ini = "memory_limit=1G"
"#;

    one_site_bracket: r#"
[site]
root = "/srv/app"
"#;

    sites_among_each_other: r#"
[[site]]
names = ["example.com", "www.example.com"]
root = "/srv/app"
default = true

[[site]]
names = ["WWW.example.com."]
root = "/srv/plain"
default = true

[[site]]
root = "/srv/app"

[[site]]
names = ["c.example"]
"#;

    host_names: r#"
[[site]]
root = "/srv/app"
names = ["http://example.com/", "example.com:8080", "bücher.example", "a_b.example", "a..b", "www.*.com", "::1", ""]
"#;

    roots: r#"
[[site]]
names = ["a.example"]
root = "/srv/file.txt"
[[site]]
names = ["b.example"]
root = "/srv/app/public/htdocs"
[[site]]
names = ["c.example"]
root = "relative/to/the/file"
[[site]]
names = ["d.example"]
root = 7
"#;

    front_controllers: r#"
[[site]]
names = ["a.example"]
root = "/srv/app"
front_controller = "/../index.php"
[[site]]
names = ["b.example"]
root = "/srv/app"
front_controller = "index.php"
[[site]]
names = ["c.example"]
root = "/srv/app"
try_files = false
[[site]]
names = ["d.example"]
root = "/srv/app"
front_controller = "/index.php"
php.enabled = false
[[site]]
names = ["e.example"]
root = "/srv/app"
front_controller = "/index.php?x=1"
"#;

    headers: format!(r#"{SITE}
[site.headers]
"X Frame" = "a"
X-Break = "a\r\nSet-Cookie: b=c"
Transfer-Encoding = "chunked"
X-Number = 5
X-Nested.Name = "a"
"#);

    php: format!(r#"
[php]
workers = 2
workers_start = 3
workers_spare = 4
ini_file = "/etc/nowhere.ini"
program = "/srv/app"
user = "www-data"
group = "-x"
[php.ini]
"memory limit" = "1G"
extension = "redis"
disable_functions = ["exec"]
error_log = "a\nb"
{SITE}"#);

    object_cache: format!(r#"
[object_cache]
redis = "10.0.0.5:6379"
{SITE}[site.object_cache]
memcached = "198.51.100.7:11211"
[[site]]
names = ["other.example"]
root = "/srv/app"
[site.object_cache]
redis = "off"
memcached = "10.0.0.5:11211"
"#);

    pools: format!(r#"
[php]
workers = 4
[php.pool.admin]
workers = 9
keep = 3
[php.pool.front]
workers = 2
keep = 3
methods = ["post"]
paths = ["*", "/a?b=c"]
max_children = 5
[php.pool.API]
workers = 1
[php.pool.reports]
nice = 20
arguments = ["action=export", "a&b"]
[php.pool]
other = 3
{SITE}"#);

    pools_as_a_list: format!("[[php.pool]]\nname = \"admin\"\n{SITE}");

    folders: format!(r#"
[server]
spool_dir = "/srv/file.txt"
[log]
access = "/var/log/nowhere/access.log"
error = "/srv/app"
{SITE}"#);

    environment: format!(r#"
[php]
env = {{ "1A" = "x", "A B" = "x", HTTP_PROXY = "x", SCRIPT_NAME = "x", PHP_VALUE = "x", OK = [1], GOOD = "x" }}
env_pass = ["*", "A-B", "HTTP_X", "APP_*"]
[cache]
purge_token = "short"
[admin]
token = "0123456789"
{SITE}"#);

    page_cache: format!(r#"
[cache]
mode = "on"
memory = "1KB"
page_bytes = "2MB"
dir = "/srv/file.txt"
fill_wait = "1h"
variants = 0
purge_from = ["10.0.0.1/8"]
ignore_arguments = ["utm*source", "*", 3]
bypass_cookies = ["session=1"]
bypass_paths = ["cart", "/a?b=c", "/caf%C3%A9", "/../x", "/a*b"]
vary_fields = ["Cookie", "X Y"]
key_scheme = "both"
[cache.ttl]
page = "10"
feeds = "1m"
{SITE}"#);

    page_cache_against_each_other: format!(r#"
[cache]
memory = "7GB"
dir = "/srv/plain/cache"
[cache.ttl]
max = "1h"
{SITE}
[site.cache]
page_bytes = "8GB"
stale_if_error = "30d"
ttl.page = "2h"
memory = "1GB"
"#);

    sizes_against_each_other: format!(r#"
[http]
head_bytes = "4KB"
target_bytes = "8KB"
[files]
compress_from = "16MB"
{SITE}"#);

    warnings: r#"
[http]
body_bytes = "128MB"
[php.ini]
post_max_size = "8M"
[[site]]
names = ["example.com"]
root = "/srv/app"
front_controller = "/missing.php"
[site.redirect]
https = true
www = "add"
"#;

    not_toml: "[http]\nkeep_alive = 60s\n";
    unquoted: "[http]\nkeep_alive = soon\n";
    twice: "[http]\nkeep_alive = \"1s\"\nkeep_alive = \"2s\"\n";
    header_twice: "[http]\n[php]\n[http]\n";
    both_site_headers: "[site]\nroot = \"/srv/app\"\n[[site]]\nroot = \"/srv/app\"\n";
    no_end: "[http]\nkeep_alive = \"60s\n";
    bad_escape: "[[site]]\nroot = \"C:\\www\"\n";
    half: "[http]\nkeep_alive =";
    bracket: "[http\nkeep_alive = 1\n";
    nothing: "";
    a_value_with_keys: "php.workers = 3\nphp.workers.most = 4\n";
    too_deep: format!("a = {}", "[".repeat(1000));
}

#[test]
fn projects_and_root_are_warned_of() {
    let disk = disk_with(&[("/srv/project/composer.json", ""), ("/srv/project/public/index.php", "")]);
    let warnings = |dir: &str, uid| {
        let machine = Environment { uid, ..disk.machine() };
        let source = Source { site_dir: Some(dir.into()), ..Source::default() };
        let (_, warnings) = load_on(&source, &machine).unwrap();
        assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning));
        warnings.iter().map(|warning| warning.draw(false) + "\n\n").collect::<String>()
    };
    insta::assert_snapshot!([warnings("/srv/project", 0), warnings("/", 1000)].join("----\n\n"));
}

/// A front controller that is a link to a file outside the root. The fake disk has no links, so this one is real.
#[test]
fn a_front_controller_may_not_be_a_link_out_of_the_root() {
    let dir = std::env::temp_dir().join(format!("millrace-settings-{}", std::process::id()));
    let root = dir.join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(dir.join("outside.php"), "").unwrap();
    std::os::unix::fs::symlink("../outside.php", root.join("index.php")).unwrap();
    let load = |set: &[&str]| {
        let set = set.iter().map(|text| (*text).to_owned()).collect();
        crate::load(&Source { site_dir: Some(root.clone()), set, ..Source::default() })
    };
    let inside = load(&["site.front_controller=/index.php", "files.symlinks=inside"]);
    let owner = load(&["site.front_controller=/index.php"]);
    let follow = load(&["site.front_controller=/index.php", "files.symlinks=follow"]);
    std::fs::remove_dir_all(&dir).unwrap();
    let problems = inside.unwrap_err();
    assert!(problems.0.iter().any(|problem| problem.what == What::Conflict), "{problems}");
    assert!(follow.is_ok() && owner.is_ok());
}

#[test]
fn every_problem_has_a_place_and_a_cure() {
    let text = r#"
        http.head_timeout = "2h"
        nothing = 1
        [[site]]
        names = ["a", "a"]
        root = "/srv/nowhere"
        [site.headers]
        Date = "now"
    "#;
    let problems = load(text, &[]).unwrap_err();
    let kinds: BTreeSet<String> = problems.0.iter().map(|problem| format!("{:?}", problem.what)).collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["Conflict", "Duplicate", "NotFound", "OutOfBounds", "UnknownKey"]
    );
    for problem in &problems.0 {
        assert!(!problem.places.is_empty() && !problem.cure.is_empty(), "{problem}");
        assert!(problem.draw(false).contains("millrace.toml:"), "{problem}");
    }
}

#[test]
fn colour_is_asked_for() {
    let problems = load("[http]\nkeep_alive = 1\n", &[]).unwrap_err();
    assert!(problems.draw(true).contains("\u{1b}["));
    assert!(!problems.draw(false).contains('\u{1b}'));
}
