//! Sites, front controllers and redirects.

use super::{Default, Kind, Page, ROW, SITE, Setting};
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "sites",
    title: "Sites, front controllers and redirects",
    line: "Which host names and which directory a site has, which application it runs, and which requests it \
           redirects.",
    guide: "wordpress.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "site.names",
        kind: Kind::HostNames,
        default: Default::Unset("every host name, for the default site only"),
        line: "Host names without port; the first is the site's primary name (SERVER_NAME). `*.example.com` \
               matches one or more labels.",
        reason: "A request goes to the site that its Host field names. An exact name wins over a wildcard, a \
                 longer wildcard over a shorter one.",
        example: "[\"example.com\", \"www.example.com\"]",
        elsewhere: &[
            "server_name",
            "servername",
            "serveralias",
            "host",
            "hosts",
            "domain",
            "domains",
            "name",
        ],
        ..SITE
    },
    Setting {
        key: "site.default",
        kind: Kind::Switch,
        default: Default::Computed {
            says: "the first site, if no site sets it",
            from: |_| Value::Switch(false),
        },
        line: "Whether this site answers requests for unknown host names.",
        reason: "Exactly one site must answer them.",
        example: "true",
        elsewhere: &["default_server"],
        ..SITE
    },
    Setting {
        key: "site.root",
        kind: Kind::Path { word: None },
        default: Default::Unset("required"),
        line: "Directory to serve. A relative path starts at the directory of the configuration file.",
        reason: "The server sends no file outside of it, except files that scripts send from \
                 `site.sendfile_roots` and `site.internal`. If it is the project of a known application, without a \
                 page of its own, the folder with the public files is served, like `public`.",
        example: "\"/srv/other\"",
        elsewhere: &["documentroot", "document_root", "docroot", "directory", "path", "dir", "folder"],
        ..SITE
    },
    Setting {
        key: "site.profile",
        kind: Kind::Choice(&[
            ("auto", "detected from the files in the root"),
            ("wordpress", "WordPress and systems built on it"),
            ("drupal", "Drupal 7 and later, and Backdrop"),
            ("joomla", "Joomla"),
            ("nextcloud", "Nextcloud"),
            ("mediawiki", "MediaWiki"),
            ("matomo", "Matomo"),
            ("phpmyadmin", "phpMyAdmin"),
            ("magento", "Magento 2"),
            ("prestashop", "PrestaShop"),
            ("opencart", "OpenCart"),
            ("moodle", "Moodle"),
            ("typo3", "TYPO3"),
            ("dokuwiki", "DokuWiki"),
            ("roundcube", "Roundcube"),
            ("craft", "Craft CMS"),
            ("codeigniter", "CodeIgniter 4"),
            ("laravel", "Laravel"),
            ("symfony", "Symfony"),
            ("generic", "plain PHP and files"),
        ]),
        default: Default::Fixed("auto"),
        line: "Rules of the application: its front controller, what is never served, and which scripts run.",
        reason: "At start and reload, `auto` looks for files that only the application has; \
                 docs/applications.md lists them. `millrace check` prints what it has found.",
        example: "\"drupal\"",
        elsewhere: &["application", "app", "type", "cms"],
        ..SITE
    },
    Setting {
        key: "site.network",
        kind: Kind::Choice(&[
            ("auto", "as wp-config.php says, even if it changes while the server runs"),
            (
                "subfolder",
                "sites are `/one/`, `/two/`: `/one/wp-admin/`, `/one/wp-includes/` and `/one/x.php` are \
                 files in the root",
            ),
            ("subdomain", "each site has its own host name"),
            ("off", "a single site"),
        ]),
        default: Default::Fixed("auto"),
        line: "Whether WordPress is a network of sites (multisite), and how their URLs differ.",
        reason: "`auto` reads the constants MULTISITE and SUBDOMAIN_INSTALL. Set it here if wp-config.php \
                 takes them from elsewhere, or if the server may not read that file.",
        example: "\"off\"",
        elsewhere: &["multisite", "subdomain_install"],
        ..SITE
    },
    Setting {
        key: "site.front_controller",
        kind: Kind::UrlPath { word: "off" },
        default: Default::Computed {
            says: "that of the application, off for generic",
            from: |view| view.front_controller(),
        },
        line: "Script below the root that answers URLs without a file: `/index.php`, or `off` to answer 404.",
        reason: "Applications with readable URLs need it. With plain PHP an unknown URL is 404, as on every \
                 server.",
        example: "\"/app.php\"",
        elsewhere: &["index_php", "router", "fallback"],
        ..SITE
    },
    Setting {
        key: "site.try_files",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to look for a file or directory with the name in the URL before running the front \
               controller.",
        reason: "`false` passes every URL to the front controller, for applications that serve their files \
                 themselves.",
        example: "false",
        elsewhere: &["rewrite", "rewriteengine", "fallbackresource"],
        ..SITE
    },
    Setting {
        key: "site.htaccess",
        kind: Kind::Choice(&[
            ("auto", "apply the rules of `.htaccess` files"),
            ("off", "ignore these files"),
        ]),
        default: Default::Fixed("auto"),
        line: "Whether `.htaccess` files in the site's folders have an effect.",
        reason: "Applications and plugins protect folders with these files, and rely on them. Changes apply within a \
                 second. A folder without such files costs nothing; `off` is for sites whose files must not count, for \
                 example because visitors can write some.",
        example: "\"off\"",
        elsewhere: &["allowoverride", "autoloadhtaccess", "accessfilename"],
        ..SITE
    },
    Setting {
        key: "files.index",
        kind: Kind::FileNames,
        default: Default::Fixed("index.php, index.html, index.htm"),
        line: "File names to try in a directory, in this order.",
        reason: "An application's index.php comes before an index.html that a hosting provider left behind.",
        example: "[\"index.html\"]",
        elsewhere: &["directoryindex", "index_files"],
        ..ROW
    },
    Setting {
        key: "site.headers",
        kind: Kind::Fields,
        default: Default::Unset("no field is added"),
        line: "Header fields to add to every response of the site: a table `[site.headers]`.",
        reason: "For `Strict-Transport-Security`, `Content-Security-Policy` and the like.",
        example: "{ X-Frame-Options = \"SAMEORIGIN\" }",
        elsewhere: &["add_header", "header", "more_set_headers"],
        ..SITE
    },
    Setting {
        key: "site.redirect.https",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether to redirect `http` requests to `https`, except for paths below \
               `/.well-known/acme-challenge/`.",
        reason: "The redirect precedes everything else, so the server never sends a page unencrypted. \
                 Certificate authorities check a name over http before they issue a certificate.",
        example: "true",
        elsewhere: &["force_https", "https_only", "ssl_redirect", "return"],
        ..SITE
    },
    Setting {
        key: "site.redirect.www",
        kind: Kind::Choice(&[
            ("keep", "serve both"),
            ("add", "redirect `example.com` to `www.example.com`"),
            ("remove", "redirect `www.example.com` to `example.com`"),
        ]),
        default: Default::Fixed("keep"),
        line: "How to treat a leading `www.` in the host name.",
        reason: "A page needs one address: search engines and caches count two addresses as two pages. Over `http`, paths below \
               `/.well-known/acme-challenge/` are not redirected: certificate authorities check both names.",
        example: "\"remove\"",
        elsewhere: &["www_redirect"],
        ..SITE
    },
    Setting {
        key: "site.redirect.status",
        kind: Kind::Choice(&[
            ("auto", "301 for GET and HEAD, 308 for other methods"),
            ("301", "always 301: browsers turn a POST into a GET"),
            ("308", "always 308: keeps the method, but very old clients do not support it"),
        ]),
        default: Default::Fixed("auto"),
        line: "Status code of redirects to `https` and to or from `www.`.",
        reason: "Search engines and old clients know 301 best, but it turns a POST into a GET, which 308 \
                 does not.",
        example: "\"308\"",
        elsewhere: &["redirect_code"],
        ..SITE
    },
];
