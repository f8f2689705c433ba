//! Static files.

use super::{Default, GB, H, Kind, MB, Page, ROW, SITE, Setting, Word, count, duration, size};

pub(super) static PAGE: Page = Page {
    name: "files",
    title: "Static files",
    line: "Which files the server sends, how browsers cache them, and how scripts send protected files.",
    guide: "files.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "site.allow_files",
        kind: Kind::Words(Word::Path),
        default: Default::Unset("none"),
        line: "Files to serve although their names suggest a secret, source code or a backup: `*.db` as a \
               suffix, `/downloads` and everything below it, `*/install.sh` at any depth. Scripts below \
               `vendor/` and `node_modules/` run if they are named.",
        reason: "Keys, databases, logs, archives in the root and source code of programs that don't run here \
                 are 404 for every visitor. Hidden files, PHP source code, wp-config.php and private \
                 directories stay 404 whatever is written here.",
        example: "[\"*.db\", \"/downloads\"]",
        elsewhere: &["allow", "never_served", "unprotect"],
        ..SITE
    },
    Setting {
        key: "files.symlinks",
        kind: Kind::Choice(&[
            ("owner", "out of the site's root, too, if the owner agrees"),
            ("inside", "only to a place inside the site's root"),
            ("follow", "anywhere"),
        ]),
        default: Default::Fixed("owner"),
        line: "Where symbolic links in a site's root may lead. `owner`: out of the root if root has made the link, or if \
               link and target have the same owner, or if the target is in a folder that the site's scripts may use \
               (`php.folders`); never to a hidden place. A server that is root opens files with the rights of the \
               site's user in any case.",
        reason: "Applications and deployments link shared folders from outside (Laravel's `storage:link`). A link to / \
                 made by a hijacked plugin must not publish the machine.",
        example: "\"inside\"",
        elsewhere: &["disable_symlinks", "followsymlinks", "symlinksifownermatch"],
        ..ROW
    },
    Setting {
        key: "files.expires",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to send `Cache-Control` by type: a year for images, fonts, media, css and js with a \
               version in name or query (`?ver=6.4`, `app.3f2a9c1b.js`); without one, ten minutes for images, \
               fonts and media, and browsers revalidate css, js and html.",
        reason: "A browser that has cached a page's parts requests only the page. A file without a version \
                 may be edited, and returning visitors must see that.",
        example: "false",
        elsewhere: &["expiresactive", "expiresbytype", "cache_control"],
        ..ROW
    },
    Setting {
        key: "files.small_file",
        kind: size(0, 16 * MB),
        default: Default::Fixed("64KB"),
        line: "Maximum size of files that are held in memory with their header fields; larger ones are sent \
               with sendfile.",
        reason: "One write of header fields and content is cheaper than a write and a sendfile until the \
                 copying outweighs it.",
        example: "\"16KB\"",
        ..ROW
    },
    Setting {
        key: "files.cache_entries",
        kind: count(0, 10_000_000),
        default: Default::Fixed("10000"),
        line: "Maximum entries of the open-file cache, all threads together. Missing files take no entry.",
        reason: "A site has a few thousand files in use. An entry for a large file holds a descriptor.",
        example: "2000",
        elsewhere: &["open_file_cache", "open_file_cache_max"],
        ..ROW
    },
    Setting {
        key: "files.cache_bytes",
        kind: size(0, 1024 * GB),
        default: Default::Fixed("64MB"),
        line: "Maximum size of the open-file cache, all threads together, compressed copies included.",
        reason: "Small files are sent from it with one write. Large ones stay in the kernel's page cache.",
        example: "\"256MB\"",
        elsewhere: &["cache_size"],
        ..ROW
    },
    Setting {
        key: "files.revalidate",
        kind: duration(0, H),
        default: Default::Fixed("1s"),
        line: "How long to use a cached file before comparing it with the disk again.",
        reason: "A change is visible within a second, and a file requested a thousand times a second costs \
                 one check of the disk, not a thousand. Missing files are not remembered: a new file is \
                 found at once.",
        example: "\"10s\"",
        elsewhere: &["open_file_cache_valid"],
        ..ROW
    },
    Setting {
        key: "site.sendfile_roots",
        kind: Kind::Folders,
        default: Default::Unset("only files below the site's root"),
        line: "Directories besides the site's root from which a script may send files: `X-Sendfile: \
               /srv/private/file`.",
        reason: "The server can read files that PHP can't, so its configuration must allow them. Below the \
                 root the rules for visitors apply: no source code of scripts, no hidden file.",
        example: "[\"/srv/other\"]",
        elsewhere: &["xsendfilepath", "xsendfile", "x-sendfile-docroot"],
        ..SITE
    },
    Setting {
        key: "site.internal",
        kind: Kind::Places,
        default: Default::Unset("`X-Accel-Redirect` leads to files below the site's root"),
        line: "Paths reachable only by `X-Accel-Redirect`, and their directories: a table `[site.internal]`, \
               `\"/protected/\" = \"/srv/private\"`. Clients get 404 for them.",
        reason: "Like `location /protected/ { internal; alias /srv/private/; }` in nginx: a script decides \
                 which visitor may have a file, and the server sends it, with range requests and all.",
        example: "{ \"/protected/\" = \"/srv/other\" }",
        elsewhere: &["alias", "location"],
        ..SITE
    },
];
