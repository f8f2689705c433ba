//! The applications that Millrace knows: how each is recognised, where its public files are, and which script answers
//! its readable URLs. What is refused, what runs and what is rewritten is in the server's `site/profile/`.
//!
//! An application is recognised by files that only it has, never by the name of a folder. To add one: a row here, its
//! name in [`Profile`] and in the choices of `site.profile`, and a file in `site/profile/`.

use std::path::{Path, PathBuf};

use crate::environment::{Disk, Found};
use crate::plan::Profile;

/// What is known about an application.
#[derive(Debug)]
pub struct Application {
    /// Its rules.
    pub profile: Profile,
    /// Its word in `site.profile`.
    pub word: &'static str,
    /// Its name, for people.
    pub name: &'static str,
    /// Sets of files below the document root; `../` leads to the project around it. One complete set is enough.
    pub signs: &'static [&'static [&'static str]],
    /// Projects with the document root in a folder: that folder, and files of the project.
    pub projects: &'static [Project],
    /// The script that answers URLs without a file.
    pub front_controller: Option<&'static str>,
}

/// The folder of an application's public files, and files below the project that only such a project has.
#[derive(Debug)]
pub struct Project {
    /// `public`.
    pub folder: &'static str,
    /// Below the project.
    pub signs: &'static [&'static str],
    /// An index of the project's own says only which folder to serve.
    pub index_is_a_hint: bool,
}

impl Project {
    /// A project that is served as it is if it has an index of its own.
    const fn new(folder: &'static str, signs: &'static [&'static str]) -> Project {
        Project { folder, signs, index_is_a_hint: false }
    }
}

/// All applications: the first that is recognised counts, so those that contain another one come first.
pub const APPLICATIONS: &[Application] = &[
    Application {
        profile: Profile::WordPress,
        word: "wordpress",
        name: "WordPress",
        // wp-config.php may be in the directory above WordPress, so it only counts with WordPress's own files.
        signs: &[
            &["wp-load.php"],
            &["wp-includes/version.php"],
            &["wp-config.php"],
            &["wp-blog-header.php", "../wp-config.php"],
        ],
        // Bedrock (https://github.com/roots/bedrock).
        projects: &[Project::new("web", &["config/application.php", "web/wp-config.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Drupal,
        word: "drupal",
        name: "Drupal",
        signs: &[
            &["core/lib/Drupal.php"],
            // Drupal 7, and its fork Backdrop.
            &["modules/system/system.module", "includes/bootstrap.inc"],
            &["core/modules/system/system.module", "core/includes/bootstrap.inc"],
        ],
        // drupal/recommended-project.
        projects: &[Project::new("web", &["composer.json", "web/core/lib/Drupal.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Joomla,
        word: "joomla",
        name: "Joomla",
        signs: &[&["administrator/manifests/files/joomla.xml"]],
        projects: &[],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Nextcloud,
        word: "nextcloud",
        name: "Nextcloud",
        signs: &[&["lib/versioncheck.php", "ocs/v2.php", "remote.php"]],
        projects: &[],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::MediaWiki,
        word: "mediawiki",
        name: "MediaWiki",
        // The manual's place for it is the folder w, so that /wiki/ is free.
        signs: &[&["includes/WebStart.php", "load.php"], &["w/includes/WebStart.php", "w/load.php"]],
        projects: &[],
        // See `articles`.
        front_controller: None,
    },
    Application {
        profile: Profile::Matomo,
        word: "matomo",
        name: "Matomo",
        signs: &[&["matomo.php", "core/Piwik.php"]],
        projects: &[],
        front_controller: None,
    },
    Application {
        profile: Profile::PhpMyAdmin,
        word: "phpmyadmin",
        name: "phpMyAdmin",
        signs: &[&["libraries/classes/Config.php", "url.php"]],
        projects: &[],
        front_controller: None,
    },
    Application {
        profile: Profile::Magento,
        word: "magento",
        name: "Magento 2",
        signs: &[&["get.php", "static.php", "../bin/magento"]],
        projects: &[Project::new("pub", &["bin/magento", "pub/get.php", "pub/static.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::PrestaShop,
        word: "prestashop",
        name: "PrestaShop",
        signs: &[&["config/defines_uri.inc.php", "classes/Product.php"]],
        projects: &[],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::OpenCart,
        word: "opencart",
        name: "OpenCart",
        signs: &[&["system/startup.php", "catalog/controller/startup/seo_url.php"]],
        projects: &[],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Moodle,
        word: "moodle",
        name: "Moodle",
        signs: &[&["lib/moodlelib.php", "lang/en/moodle.php"]],
        // Since Moodle 5.1.
        projects: &[Project::new("public", &["config-dist.php", "public/lib/moodlelib.php"])],
        front_controller: Some("/r.php"),
    },
    Application {
        profile: Profile::Typo3,
        word: "typo3",
        name: "TYPO3",
        signs: &[
            &["index.php", "typo3/sysext/core/Classes/Core/Bootstrap.php"],
            &["index.php", "../vendor/typo3/cms-core/Classes/Core/Bootstrap.php"],
        ],
        projects: &[Project::new(
            "public",
            &["public/index.php", "vendor/typo3/cms-core/Classes/Core/Bootstrap.php"],
        )],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::DokuWiki,
        word: "dokuwiki",
        name: "DokuWiki",
        signs: &[&["doku.php", "lib/exe/fetch.php"]],
        projects: &[],
        front_controller: Some("/doku.php"),
    },
    Application {
        profile: Profile::Roundcube,
        word: "roundcube",
        name: "Roundcube",
        signs: &[
            &["index.php", "program/lib/Roundcube/bootstrap.php"],
            &["index.php", "../program/lib/Roundcube/bootstrap.php"],
        ],
        projects: &[Project {
            folder: "public_html",
            signs: &["public_html/static.php", "program/lib/Roundcube/bootstrap.php"],
            index_is_a_hint: true,
        }],
        front_controller: None,
    },
    Application {
        profile: Profile::Craft,
        word: "craft",
        name: "Craft CMS",
        signs: &[&["index.php", "../craft", "../config/general.php"]],
        projects: &[Project::new("web", &["craft", "config/general.php", "web/index.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::CodeIgniter,
        word: "codeigniter",
        name: "CodeIgniter 4",
        signs: &[&["index.php", "../spark", "../app/Config/App.php"]],
        projects: &[Project::new("public", &["spark", "app/Config/App.php", "public/index.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Laravel,
        word: "laravel",
        name: "Laravel",
        signs: &[&["index.php", "../artisan", "../bootstrap/app.php"]],
        projects: &[Project::new("public", &["artisan", "bootstrap/app.php", "public/index.php"])],
        front_controller: INDEX,
    },
    Application {
        profile: Profile::Symfony,
        word: "symfony",
        name: "Symfony",
        signs: &[&["index.php", "../bin/console", "../config/bundles.php"]],
        projects: &[Project::new("public", &["bin/console", "config/bundles.php", "public/index.php"])],
        front_controller: INDEX,
    },
    GENERIC,
];

const INDEX: Option<&str> = Some("/index.php");

/// Everything else.
const GENERIC: Application = Application {
    profile: Profile::Generic,
    word: "generic",
    name: "plain PHP and files",
    signs: &[],
    projects: &[],
    front_controller: None,
};

impl Application {
    /// What is known about the application of a profile.
    pub fn of(profile: Profile) -> &'static Application {
        let found = APPLICATIONS.iter().find(|known| known.profile == profile);
        found.expect("every profile has a row")
    }

    /// By its word in `site.profile`; `None` for `auto`.
    pub(crate) fn named(word: &str) -> Option<&'static Application> {
        APPLICATIONS.iter().find(|known| known.word == word)
    }

    fn is_in(&self, root: &Path, disk: &dyn Disk) -> bool {
        self.signs.iter().any(|signs| has_all(root, signs, disk))
            || self.profile == Profile::WordPress && loads_wordpress(root, disk)
    }

    /// The folder with its public files, if `project` is a project of this application.
    pub(crate) fn public_folder(&self, project: &Path, disk: &dyn Disk) -> Option<&'static str> {
        self.project_in(project, disk).map(|known| known.folder)
    }

    fn project_in(&self, folder: &Path, disk: &dyn Disk) -> Option<&'static Project> {
        self.projects.iter().find(|known| has_all(folder, known.signs, disk))
    }
}

/// Whether all of these files exist.
fn has_all(root: &Path, files: &[&str], disk: &dyn Disk) -> bool {
    files.iter().all(|name| disk.look(&root.join(name)) == Found::File)
}

/// WordPress in its own directory: the root has only an index.php that loads it.
fn loads_wordpress(root: &Path, disk: &dyn Disk) -> bool {
    let index = root.join("index.php");
    disk.look(&index) == Found::File
        && disk.read(&index).is_ok_and(|text| text.contains("/wp-blog-header.php"))
}

/// The applications that a document root has the files of; the first one counts.
pub(crate) fn recognised(root: &Path, disk: &dyn Disk) -> impl Iterator<Item = &'static Application> {
    APPLICATIONS.iter().filter(move |known| known.is_in(root, disk))
}

/// The application of a document root.
pub(crate) fn detect(root: &Path, disk: &dyn Disk) -> Profile {
    recognised(root, disk).next().map_or(Profile::Generic, |known| known.profile)
}

/// The document root that `root` stands for: the folder with the public files if `root` is the project of a known
/// application, and has no page of its own. `chosen`: the application that the configuration names.
pub(crate) fn document_root(root: PathBuf, chosen: Option<&Application>, disk: &dyn Disk) -> PathBuf {
    let is_meant = |known: &&Application| chosen.is_none_or(|chosen| chosen.profile == known.profile);
    let mut known = APPLICATIONS.iter().filter(is_meant);
    let project = known.find_map(|known| known.project_in(&root, disk));
    match project.filter(|project| project.index_is_a_hint || !has_index(&root, disk)) {
        Some(project) => root.join(project.folder),
        None => root,
    }
}

/// The directory below `root` that the user probably meant, if `root` is a project with separate public files; and the
/// name of its application, if that is known.
pub(crate) fn public_folder(root: &Path, disk: &dyn Disk) -> Option<(&'static str, Option<&'static str>)> {
    let of_known = |known: &'static Application| Some((known.public_folder(root, disk)?, Some(known.name)));
    let has = |name: &str| disk.look(&root.join(name)) == Found::File;
    let project = || has("composer.json") && !has_index(root, disk);
    let of_any = || {
        let mut folders = ["web", "public", "docroot"].into_iter();
        folders.find(|folder| project() && has(&format!("{folder}/index.php"))).map(|folder| (folder, None))
    };
    // A project whose own root is an application's document root: WordPress with a composer.json and so on.
    APPLICATIONS.iter().find_map(of_known).filter(|_| detect(root, disk) == Profile::Generic).or_else(of_any)
}

fn has_index(root: &Path, disk: &dyn Disk) -> bool {
    ["index.php", "index.html"].iter().any(|name| disk.look(&root.join(name)) == Found::File)
}

/// The front controller of a MediaWiki, and the path below which its articles are, as `$wgArticlePath` in its
/// LocalSettings.php says: `/index.php` and `/wiki/`. `None`: articles have no paths of their own, as at first, or only
/// PHP can tell.
pub(crate) fn articles(root: &Path, disk: &dyn Disk) -> Option<(String, String)> {
    let (folder, settings) = wiki(root, disk);
    let path = article_path(&disk.read(&settings).ok()?, folder)?;
    let below = path.strip_suffix("$1").filter(|below| below.starts_with('/') && is_plain(below))?;
    Some((format!("{folder}/index.php"), below.to_owned()))
}

/// Why it is not known where a MediaWiki has its articles; `None`: it is.
pub(crate) fn unclear_articles(root: &Path, disk: &dyn Disk) -> Option<String> {
    let (folder, settings) = wiki(root, disk);
    if articles(root, disk).is_some() || disk.look(&settings) != Found::File {
        return None;
    }
    let Ok(text) = disk.read(&settings) else {
        return Some(format!("{} cannot be read", settings.display()));
    };
    let is_set = text.lines().any(|line| line.trim_start().starts_with("$wgArticlePath"));
    // With a script's name in it, articles need no front controller.
    let has_script =
        |path: &String| path.contains(".php") || path.contains("$wgScript") || path.contains('?');
    let is_clear = !is_set || article_path(&text, folder).is_some_and(|path| has_script(&path));
    (!is_clear).then(|| format!("$wgArticlePath in {} is not a plain path", settings.display()))
}

/// The path of a MediaWiki below the root, and its settings.
fn wiki(root: &Path, disk: &dyn Disk) -> (&'static str, PathBuf) {
    let folder = if has_all(root, &["includes/WebStart.php"], disk) { "" } else { "/w" };
    (folder, root.join(folder.trim_start_matches('/')).join("LocalSettings.php"))
}

/// The text of `$wgArticlePath`; `folder` stands for `$wgScriptPath` if that is not set.
fn article_path(settings: &str, folder: &str) -> Option<String> {
    let script_path = assigned(settings, "$wgScriptPath").unwrap_or(folder);
    let path = assigned(settings, "$wgArticlePath")?;
    Some(path.replace("{$wgScriptPath}", script_path).replace("$wgScriptPath", script_path))
}

/// Whether a path has no variables, no query and no script.
fn is_plain(path: &str) -> bool {
    !path.contains(['$', '{', '?', '%']) && !path.contains(".php")
}

/// The text that the last plain assignment of a PHP variable gives it.
fn assigned<'t>(text: &'t str, variable: &str) -> Option<&'t str> {
    let value = |line: &'t str| {
        let value = line.trim_start().strip_prefix(variable)?.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        value[1..].split_once(quote).map(|(text, _)| text)
    };
    text.lines().filter_map(value).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::fake::FakeDisk;
    use crate::table::{self, Kind};

    /// A disk with these empty files below `/s`.
    fn tree(files: &[&str]) -> FakeDisk {
        let names: Vec<String> = files.iter().map(|file| format!("/s/{file}")).collect();
        let entries: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        FakeDisk::with(&entries)
    }

    /// The application in `/s` with these files.
    fn found(files: &[&str]) -> &'static str {
        Application::of(detect(Path::new("/s"), &tree(files))).word
    }

    #[test]
    fn each_application_is_recognised_by_each_set_of_its_files_and_by_no_part_of_it() {
        for known in APPLICATIONS {
            for signs in known.signs {
                // The document root is below the project.
                let at = |sign: &str| match sign.strip_prefix("../") {
                    Some(above) => format!("/p/{above}"),
                    None => format!("/p/root/{sign}"),
                };
                let whole: Vec<String> = signs.iter().map(|sign| at(sign)).collect();
                let detected = |files: &[String]| {
                    let mut entries: Vec<(&str, &str)> =
                        files.iter().map(|file| (file.as_str(), "")).collect();
                    entries.push(("/p/root/", ""));
                    detect(Path::new("/p/root"), &FakeDisk::with(&entries))
                };
                assert_eq!(detected(&whole), known.profile, "{signs:?}");
                for missing in 0..whole.len() {
                    let mut part = whole.clone();
                    part.remove(missing);
                    assert_eq!(detected(&part), Profile::Generic, "{part:?}");
                }
            }
        }
    }

    #[test]
    fn words_are_the_choices_of_the_setting() {
        let row = table::find("site.profile").unwrap();
        let Kind::Choice(choices) = &row.kind else { panic!() };
        let mut choices: Vec<&str> = choices.iter().map(|(word, _)| *word).filter(|w| *w != "auto").collect();
        let mut words: Vec<&str> = APPLICATIONS.iter().map(|known| known.word).collect();
        choices.sort_unstable();
        words.sort_unstable();
        assert_eq!(choices, words);
    }

    #[test]
    fn the_page_of_applications_has_all_signs() {
        let page = include_str!("../../../docs/applications.md");
        for known in APPLICATIONS.iter().filter(|known| known.profile != Profile::Generic) {
            let word = format!("| `{}` | ", known.word);
            let line = page.lines().find(|line| line.contains(&word)).unwrap_or_else(|| panic!("{word}"));
            for sign in known.signs.iter().flat_map(|signs| *signs) {
                assert!(line.contains(&format!("`{sign}`")), "{}: {sign}", known.word);
            }
            for project in known.projects {
                let signs: Vec<String> = project.signs.iter().map(|sign| format!("`{sign}`")).collect();
                let row = format!("| {} | `{}` |", signs.join(", "), project.folder);
                assert!(page.contains(&row), "{row}");
            }
        }
    }

    #[test]
    fn look_alikes_are_not_recognised() {
        for files in [
            // Folders with an application's name, and files with names that many have.
            &["joomla/index.php", "administrator/index.php"][..],
            &["wordpress/wp-load.php", "index.html"],
            &["moodle/lib/moodlelib.php"],
            &["index.php", "config/general.php"],
            &["index.php", "load.php", "api.php"],
            &["matomo.php", "piwik.php"],
            &["index.php", "get.php", "static.php"],
            &["doku.php"],
            &["url.php", "libraries/config.default.php"],
            &["artisan", "index.php"],
            // ownCloud.
            &["index.php", "remote.php", "ocs/v2.php", "core/shipped.json"],
        ] {
            assert_eq!(found(files), "generic", "{files:?}");
        }
    }

    #[test]
    fn the_first_of_two_applications_counts() {
        assert_eq!(found(&["wp-load.php", "administrator/manifests/files/joomla.xml"]), "wordpress");
        assert_eq!(found(&["matomo.php", "core/Piwik.php", "doku.php", "lib/exe/fetch.php"]), "matomo");
        let both = tree(&["wp-load.php", "doku.php", "lib/exe/fetch.php"]);
        let words: Vec<&str> = recognised(Path::new("/s"), &both).map(|known| known.word).collect();
        assert_eq!(words, ["wordpress", "dokuwiki"]);
    }

    #[test]
    fn the_public_folder_of_a_project_is_served() {
        let root = |files: &[&str], chosen: Option<&str>| {
            let chosen = chosen.and_then(Application::named);
            let root = document_root("/s".into(), chosen, &tree(files));
            root.strip_prefix("/s").unwrap().to_str().unwrap().to_owned()
        };
        let laravel = ["composer.json", "artisan", "bootstrap/app.php", "public/index.php"];
        assert_eq!(root(&laravel, None), "public");
        assert_eq!(root(&laravel, Some("laravel")), "public");
        for other in ["generic", "symfony", "wordpress"] {
            assert_eq!(root(&laravel, Some(other)), "", "{other}");
        }
        // It has a page of its own: somebody serves it as it is.
        assert_eq!(root(&[&laravel[..], &["index.php"]].concat(), None), "");
        assert_eq!(root(&[&laravel[..], &["index.html"]].concat(), None), "");
        for (files, folder) in [
            (&["bin/magento", "pub/get.php", "pub/static.php"][..], "pub"),
            (&["bin/console", "config/bundles.php", "public/index.php"], "public"),
            (&["config/application.php", "web/wp-config.php", "web/index.php"], "web"),
            (&["composer.json", "web/core/lib/Drupal.php"], "web"),
            (&["craft", "config/general.php", "web/index.php"], "web"),
            // Its index.php says no more than that.
            (&["index.php", "public_html/static.php", "program/lib/Roundcube/bootstrap.php"], "public_html"),
            // Until 1.6 it may be served as it is.
            (&["index.php", "public_html/index.php", "program/lib/Roundcube/bootstrap.php"], ""),
            (&["composer.json", "public/index.php"], ""),
            (&["index.php", "bin/magento", "pub/get.php", "pub/static.php"], ""),
        ] {
            assert_eq!(root(files, None), folder, "{files:?}");
        }
    }

    #[test]
    fn the_articles_of_a_wiki() {
        let articles = |at: &str, settings: &str| {
            let (start, local) =
                (format!("/s/{at}includes/WebStart.php"), format!("/s/{at}LocalSettings.php"));
            articles(Path::new("/s"), &FakeDisk::with(&[(&start, ""), (&local, settings)]))
        };
        let is = |found: Option<(String, String)>, front: &str, below: &str| {
            assert_eq!(found, Some((front.to_owned(), below.to_owned())));
        };
        is(articles("", "<?php\n$wgArticlePath = \"/wiki/$1\";\n"), "/index.php", "/wiki/");
        is(articles("", "$wgArticlePath='/$1';"), "/index.php", "/");
        is(
            articles("w/", "$wgScriptPath = \"/w\";\n  $wgArticlePath = '/wiki/$1'; # x"),
            "/w/index.php",
            "/wiki/",
        );
        is(
            articles("", "$wgScriptPath = '/x';\n$wgArticlePath = \"$wgScriptPath/a/$1\";"),
            "/index.php",
            "/x/a/",
        );
        is(articles("", "$wgArticlePath = '/a/$1';\n$wgArticlePath = '/b/$1';"), "/index.php", "/b/");
        let unclear = |settings: &str| {
            let disk =
                FakeDisk::with(&[("/s/includes/WebStart.php", ""), ("/s/LocalSettings.php", settings)]);
            unclear_articles(Path::new("/s"), &disk)
        };
        for (none, is_unclear) in [
            ("", false),
            ("# $wgArticlePath = '/wiki/$1';", false),
            ("$wgArticlePath = '/index.php/$1';", false),
            ("$wgArticlePath = \"$wgScript/$1\";", false),
            ("$wgArticlePath = '/index.php?title=$1';", false),
            ("$wgArticlePath = $path;", true),
            ("$wgArticlePath = \"/$lang/$1\";", true),
            ("$wgArticlePath = '/wiki/", true),
            ("$wgArticlePath = 'wiki/$1';", true),
        ] {
            assert_eq!(articles("", none), None, "{none}");
            assert_eq!(unclear(none).is_some(), is_unclear, "{none}");
        }
        assert_eq!(unclear("$wgArticlePath = '/wiki/$1';"), None);
    }
}
