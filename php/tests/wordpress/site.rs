//! A WordPress of its own for each test, and the cache that the tests play.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use millrace_wire::frames::NoteKind;

use crate::driver::{Answer, Ask, Host, Worker};

pub const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nopcache.revalidate_freq=0\nextension=mbstring\nextension=pdo\n\
    extension=dom\nextension=xml\nextension=ctype\nextension=tokenizer\nextension=simplexml\nextension=pdo_sqlite\nextension=sqlite3\n\
    memory_limit=256M\n";

/// Three posts of two authors in two categories, in three months; two pages.
const CONTENT: &str = r#"
    $jane = wp_insert_user(['user_login' => 'jane', 'user_pass' => 'x', 'display_name' => 'Jane', 'role' => 'author']);
    foreach (['news', 'music'] as $slug) $term[$slug] = wp_insert_term(ucfirst($slug), 'category', ['slug' => $slug])['term_id'];
    foreach ([['a', 'news', 1, '2026-01-10'], ['b', 'music', $jane, '2026-02-10'], ['c', 'news', 1, '2026-03-10']] as [$name, $category, $author, $date])
        wp_insert_post(['post_name' => $name, 'post_title' => "Title $name", 'post_content' => "Text $name", 'post_status' => 'publish',
            'post_author' => $author, 'post_category' => [$term[$category]], 'post_date' => "$date 10:00:00"]);
    foreach (['about', 'imprint'] as $name)
        wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => "Title $name", 'post_status' => 'publish', 'post_author' => 1]);
"#;

/// Pages of that content that the tests look at.
pub const PAGES: [&str; 18] = [
    "/",
    "/a/",
    "/b/",
    "/c/",
    "/about/",
    "/category/news/",
    "/category/music/",
    "/author/admin/",
    "/author/jane/",
    "/2026/01/",
    "/2026/02/",
    "/feed/",
    "/category/music/feed/",
    "/?s=nowhere",
    "/missing/",
    "/wp-sitemap-posts-post-1.xml",
    "/index.php?rest_route=/wp/v2/posts",
    "/index.php?rest_route=/wp/v2/users",
];

pub struct Site {
    pub host: Host,
    pub worker: Worker,
    pub root: PathBuf,
    /// Value of `Host`.
    pub name: &'static str,
    changes: u32,
}

/// A page as a cache would keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub control: String,
    /// Why the hooks refuse it.
    pub because: String,
    pub tags: BTreeSet<String>,
}

/// What a request purged.
#[derive(Debug, Default)]
pub struct Purges {
    pub soft: BTreeSet<String>,
    pub hard: BTreeSet<String>,
    /// Rows that were written, whether or not a page shows them.
    pub wrote: BTreeSet<String>,
}

/// Pages that a cache had, by their addresses.
pub struct Kept(BTreeMap<String, Page>);

impl Site {
    /// A copy of the site in `MILLRACE_WORDPRESS`, with some content; `plugin` is the code of a plugin.
    pub fn start(plugin: &str) -> Site {
        let from =
            std::env::var("MILLRACE_WORDPRESS").expect("MILLRACE_WORDPRESS is not set: run tests/hooks/run");
        let mut host = Host::start(INI, &[]);
        let root = host.root.join("site");
        copy(Path::new(&from), &root);
        std::fs::create_dir_all(root.join("wp-content/mu-plugins")).unwrap();
        let worker = host.worker(0);
        let mut site = Site { host, worker, root, name: "127.0.0.1:8080", changes: 0 };
        // No request to others, and none to itself: nobody serves it.
        site.configure("define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);");
        site.change(CONTENT);
        // The first page makes the menu of the theme.
        site.page("/");
        std::fs::write(site.root.join("wp-content/mu-plugins/test.php"), format!("<?php {plugin}")).unwrap();
        site
    }

    /// Puts code at the start of wp-config.php.
    pub fn configure(&self, code: &str) {
        let file = self.root.join("wp-config.php");
        let (text, before) =
            (std::fs::read_to_string(&file).unwrap(), file.metadata().unwrap().modified().unwrap());
        std::fs::write(&file, text.replacen("<?php", &format!("<?php {code}"), 1)).unwrap();
        // opcache looks at a file's time in seconds.
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(before + Duration::from_secs(1)).unwrap();
    }

    /// A request for a script of the site.
    pub fn ask(&self, script: &Path, uri: &str) -> Ask {
        let inject = Path::new(env!("CARGO_MANIFEST_DIR")).join("inject/wordpress.php");
        let name = format!("/{}", script.strip_prefix(&self.root).unwrap_or(script).display());
        Ask::get(script)
            .set("MILLRACE_INJECT", inject.to_str().unwrap())
            .set("DOCUMENT_ROOT", self.root.to_str().unwrap())
            .set("HTTP_HOST", self.name)
            .set("SERVER_NAME", "127.0.0.1")
            .set("SERVER_PORT", self.name.split_once(':').map_or("80", |(_, port)| port))
            .set("SCRIPT_NAME", &name)
            .set("PHP_SELF", &name)
            .set("REQUEST_URI", uri)
            .set("QUERY_STRING", uri.split_once('?').map_or("", |(_, query)| query))
    }

    /// A request for a page.
    pub fn ask_page(&self, uri: &str) -> Ask {
        self.ask(&self.root.join("index.php"), uri)
    }

    /// The page that a visitor gets, as a cache would keep it.
    pub fn page(&mut self, uri: &str) -> Page {
        let ask = self.ask_page(uri);
        Page::of(&self.worker.run(&ask))
    }

    /// All of [`PAGES`] and these.
    pub fn pages(&mut self, more: &[&str]) -> Kept {
        let uris = PAGES.iter().chain(more);
        Kept(uris.map(|uri| ((*uri).to_owned(), self.page(uri))).collect())
    }

    /// Runs code in WordPress, in a POST of an administrator: what it purged.
    pub fn change(&mut self, code: &str) -> Purges {
        Purges::of(&self.run("wp_set_current_user(1);", code))
    }

    /// The same in a POST of nobody.
    pub fn anonymous(&mut self, code: &str) -> Purges {
        Purges::of(&self.run("", code))
    }

    /// What the code returns, as text.
    pub fn value(&mut self, code: &str) -> String {
        let answer = self.run("wp_set_current_user(1);", &format!("ob_clean(); echo {code}"));
        answer.text().strip_suffix("\ndone").unwrap().to_owned()
    }

    fn run(&mut self, first: &str, code: &str) -> Answer {
        let text = format!(
            "<?php ob_start(); define('WP_ADMIN', true); require '{}/wp-load.php';
             require_once ABSPATH . 'wp-admin/includes/admin.php'; {first} {code}; echo \"\\ndone\";",
            self.root.display()
        );
        // opcache looks at a file's time in seconds: each code in a file of its own.
        self.changes += 1;
        let script = self.host.script(&format!("change{}.php", self.changes), &text);
        let ask = self.ask(&script, "/wp-admin/admin.php").set("REQUEST_METHOD", "POST");
        let answer = self.worker.run(&ask);
        let text = answer.text();
        // A page with an error begins with a hundred lines of styles.
        let said = text.find("<body").map_or(&text[..], |at| &text[at..]);
        assert!(text.ends_with("\ndone"), "{code}: {said} {:?}", answer.log);
        answer
    }

    /// The value of `Cookie` of a user who is logged in.
    pub fn cookie(&mut self, user: u32) -> String {
        self.value(&format!(
            "LOGGED_IN_COOKIE . '=' . urlencode($c = wp_generate_auth_cookie({user}, time() + 3600, 'logged_in', 'token'))
             . '; ' . AUTH_COOKIE . '=' . urlencode(wp_generate_auth_cookie({user}, time() + 3600, 'auth', 'token'));
             WP_Session_Tokens::get_instance({user})->update('token', ['expiration' => time() + 3600, 'login' => time()])"
        ))
    }
}

impl Page {
    pub fn of(answer: &Answer) -> Page {
        let said = |kind| answer.notes.iter().filter(move |note| note.0 == kind).map(|note| &note.1[..]);
        let control = said(NoteKind::Control).next_back().unwrap_or_default().replace(", fallback", "");
        let (control, because) = control.split_once(", because=").unwrap_or((&control, ""));
        Page {
            status: answer.status,
            control: control.to_owned(),
            because: because.to_owned(),
            tags: said(NoteKind::Tag).flat_map(|text| text.split(", ")).map(str::to_owned).collect(),
        }
    }

    /// Seconds that it may be kept.
    pub fn seconds(&self) -> Option<u64> {
        let rest = self.control.strip_prefix("public, max-age=")?;
        rest.split(',').next()?.parse().ok()
    }
}

impl Purges {
    pub fn of(answer: &Answer) -> Purges {
        let mut purges = Purges::default();
        for (_, text) in answer.notes.iter().filter(|note| note.0 == NoteKind::Purge) {
            let (how, items) = text.split_once(", ").unwrap();
            let list = match how {
                "hard" => &mut purges.hard,
                "wrote" => &mut purges.wrote,
                _ => &mut purges.soft,
            };
            list.extend(items.split(", ").map(str::to_owned));
        }
        purges
    }

    /// Whether it purged all of the site.
    pub fn all(&self) -> bool {
        self.soft.contains("*")
    }

    /// Whether it took away all of the site.
    pub fn gone(&self) -> bool {
        self.hard.contains("*")
    }

    pub fn nothing(&self) -> bool {
        self.soft.is_empty() && self.hard.is_empty()
    }
}

impl Kept {
    /// Pages that carry one of these tags.
    fn hit(&self, tags: &BTreeSet<String>) -> BTreeSet<&str> {
        let carries = |page: &Page| !page.tags.is_disjoint(tags);
        self.0.iter().filter(|(_, page)| carries(page)).map(|(uri, _)| &uri[..]).collect()
    }

    /// Asserts exactly which pages these purges make stale, and which they take away.
    pub fn assert(&self, what: &str, purges: &Purges, stale: &[&str], gone: &[&str]) {
        let (hard, soft) = (self.hit(&purges.hard), self.hit(&purges.soft));
        let soft: BTreeSet<&str> = soft.difference(&hard).copied().collect();
        let expected = (stale.iter().copied().collect(), gone.iter().copied().collect());
        assert_eq!((soft, hard), expected, "{what}: {purges:#?}");
    }

    /// Asserts that these pages are purged, and those are not.
    pub fn assert_some(&self, what: &str, purges: &Purges, purged: &[&str], kept: &[&str]) {
        let mut hit = self.hit(&purges.hard);
        hit.extend(self.hit(&purges.soft));
        let old: Vec<_> = purged.iter().filter(|uri| !hit.contains(*uri)).collect();
        let lost: Vec<_> = kept.iter().filter(|uri| hit.contains(*uri)).collect();
        assert!(old.is_empty() && lost.is_empty(), "{what}: {old:?} stay, {lost:?} go: {purges:#?}");
    }

    /// Asserts that these pages are taken away.
    pub fn assert_gone(&self, what: &str, purges: &Purges, gone: &[&str]) {
        let hit = self.hit(&purges.hard);
        let old: Vec<_> = gone.iter().filter(|uri| !hit.contains(*uri)).collect();
        assert!(old.is_empty(), "{what}: {old:?} stay: {purges:#?}");
    }

    pub fn page(&self, uri: &str) -> &Page {
        &self.0[uri]
    }
}

/// Copies a site; what nobody changes is linked.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if ["wp-includes", "themes", "plugins"].iter().any(|name| entry.file_name() == *name) {
            std::os::unix::fs::symlink(std::fs::canonicalize(source).unwrap(), target).unwrap();
        } else if entry.file_type().unwrap().is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(source, target).unwrap();
        }
    }
}
