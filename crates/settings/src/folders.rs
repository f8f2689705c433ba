//! The directories that the scripts of a site may use.

use std::path::Path;

use crate::application::Application;
use crate::environment::{Environment, Found};
use crate::plan::{Folder, Php, Profile, Site};

/// Fills in the directories of all sites. Sites with equal PHP settings share workers, and therefore directories.
pub(crate) fn share(sites: &mut [Site], environment: &Environment<'_>) {
    share_of(sites, environment, |site| site.php.as_mut());
    share_of(sites, environment, |site| site.persistent.as_mut());
}

fn share_of(sites: &mut [Site], environment: &Environment<'_>, of: impl Fn(&mut Site) -> Option<&mut Php>) {
    let settings: Vec<_> = sites.iter_mut().map(|site| of(site).cloned()).collect();
    let mut done: Vec<usize> = Vec::new();
    for (at, php) in settings.iter().enumerate() {
        let Some(php) = php.as_ref().filter(|_| !done.contains(&at)) else { continue };
        let alike: Vec<usize> =
            (at..sites.len()).filter(|other| settings[*other].as_ref() == Some(php)).collect();
        let mut folders = php.folders.clone();
        alike.iter().for_each(|other| add_site(&mut folders, &sites[*other], environment));
        // The script of persistent workers may be elsewhere.
        if let Some(above) = php.worker.as_ref().and_then(|worker| worker.file.parent()) {
            add(&mut folders, above, false);
        }
        for other in alike {
            if let Some(php) = of(&mut sites[other]) {
                php.folders.clone_from(&folders);
            }
            done.push(other);
        }
    }
}

fn add_site(folders: &mut Vec<Folder>, site: &Site, environment: &Environment<'_>) {
    add(folders, &site.root, true);
    if let Some(objects) = site.objects.as_ref().filter(|_| site.profile == Profile::WordPress) {
        add(folders, &objects.lost, true);
    }
    for path in &site.sendfile_roots {
        add(folders, path, true);
    }
    for (_, path) in &site.internal {
        add(folders, path, true);
    }
    let real = environment.disk.real(&site.root);
    for root in [Some(&site.root), real.as_ref()].into_iter().flatten() {
        if let Some(above) = root.parent().filter(|above| is_of_one_site(above)) {
            add_above(folders, above, site.profile, environment);
        }
    }
}

/// Whether a directory can belong to one site: not `/`, `/srv` or a home directory.
fn is_of_one_site(folder: &Path) -> bool {
    folder.components().count() > 2 && folder.parent() != Some(Path::new("/home"))
}

/// The directory above the root. A Composer application is there, or another project of a known application, and only
/// its `public` or `web` is the root. WordPress reads wp-config.php from there, unless that is another WordPress
/// (wp-load.php checks for wp-settings.php).
fn add_above(folders: &mut Vec<Folder>, above: &Path, profile: Profile, environment: &Environment<'_>) {
    let has = |name: &str| environment.disk.look(&above.join(name)) == Found::File;
    let is_project = || Application::of(profile).public_folder(above, environment.disk).is_some();
    if has("composer.json") || is_project() {
        add(folders, above, true);
    } else if profile == Profile::WordPress && has("wp-config.php") && !has("wp-settings.php") {
        add(folders, above, false);
    }
}

fn add(folders: &mut Vec<Folder>, path: &Path, writable: bool) {
    match folders.iter_mut().find(|folder| folder.path == path) {
        Some(folder) => folder.writable |= writable,
        None => folders.push(Folder { path: path.to_owned(), writable }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::fake::FakeDisk;
    use crate::load::{Source, load_on};

    /// The folders of each site of a configuration, as `path` or `path (read)`.
    fn of(text: &str, files: &[&str]) -> Vec<Vec<String>> {
        let usual =
            ["/tmp/x", "/srv/a/index.html", "/srv/b/index.html", "/srv/p/web/index.php", "/var/tmp/x"];
        let mut all: Vec<(&str, &str)> = usual.iter().chain(files).map(|path| (*path, "")).collect();
        all.push(("/etc/m.toml", text));
        let disk = FakeDisk::with(&all);
        let source = Source { config: Some("/etc/m.toml".into()), ..Source::default() };
        let (plan, _) = load_on(&source, &disk.machine()).unwrap();
        let shown = |folder: &Folder| {
            format!("{}{}", folder.path.display(), if folder.writable { "" } else { " (read)" })
        };
        plan.sites.iter().map(|site| site.php.as_ref().unwrap().folders.iter().map(shown).collect()).collect()
    }

    #[test]
    fn sites_that_share_workers_share_folders() {
        let two = "[[site]]\nnames = \"a.test\"\nroot = \"/srv/a\"\n[[site]]\nnames = \"b.test\"\nroot = \"/srv/b\"\n";
        assert_eq!(of(two, &[]), [["/srv/a", "/srv/b"], ["/srv/a", "/srv/b"]]);
        let apart = format!("{two}[site.php]\nworkers = 1\nworkers_start = 1\nfolders = \"/srv/a\"\n");
        assert_eq!(of(&apart, &[]), [vec!["/srv/a"], vec!["/srv/a", "/srv/b"]]);
        let files = format!("{two}sendfile_roots = [\"/var/tmp\"]\n");
        assert_eq!(of(&files, &[])[0], ["/srv/a", "/srv/b", "/var/tmp"]);
    }

    #[test]
    fn persistent_workers() {
        let text = "[[site]]\nroot = \"/srv/a\"\n[site.php]\nworker_script = \"/srv/w/worker.php\"\n";
        let disk = FakeDisk::with(&[
            ("/tmp/x", ""),
            ("/var/tmp/x", ""),
            ("/srv/a/index.php", ""),
            ("/srv/w/worker.php", ""),
            ("/etc/m.toml", text),
        ]);
        let source = Source { config: Some("/etc/m.toml".into()), ..Source::default() };
        let (plan, _) = load_on(&source, &disk.machine()).unwrap();
        let folders = &plan.sites[0].persistent.as_ref().unwrap().folders;
        let shown: Vec<_> =
            folders.iter().map(|folder| (folder.path.to_str().unwrap(), folder.writable)).collect();
        assert_eq!(shown, [("/srv/a", true), ("/srv/w", false)]);
    }

    #[test]
    fn above_the_root() {
        let site = "[[site]]\nroot = \"/srv/p/web\"\n";
        assert_eq!(of(site, &[]), [["/srv/p/web"]]);
        assert_eq!(of(site, &["/srv/p/composer.json"]), [["/srv/p/web", "/srv/p"]]);
        let laravel = ["/srv/p/artisan", "/srv/p/bootstrap/app.php", "/srv/p/public/index.php"];
        let public = "[[site]]\nroot = \"/srv/p/public\"\n";
        assert_eq!(of(public, &laravel), [["/srv/p/public", "/srv/p"]], "without composer.json");
        assert_eq!(
            of("[[site]]\nroot = \"/srv/p\"\n", &laravel),
            [["/srv/p/public", "/srv/p"]],
            "its project"
        );
        assert_eq!(of(public, &laravel[1..]), [["/srv/p/public"]]);
        let wordpress = format!("{site}profile = \"wordpress\"\n");
        let lost = "/run/user/1000/millrace-objects/web-55f9bf1b4c98c303.lost";
        assert_eq!(of(&wordpress, &["/srv/p/wp-config.php"]), [["/srv/p/web", lost, "/srv/p (read)"]]);
        assert_eq!(
            of(&wordpress, &["/srv/p/wp-config.php", "/srv/p/wp-settings.php"]),
            [["/srv/p/web", lost]]
        );
        assert_eq!(of(site, &["/srv/p/wp-config.php"]), [["/srv/p/web"]], "not WordPress");
        assert_eq!(
            of("[[site]]\nroot = \"/srv/a\"\n", &["/srv/composer.json"]),
            [["/srv/a"]],
            "shared by all"
        );
    }
}
