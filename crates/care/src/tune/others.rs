//! Files of other tools that are read after ours, and say otherwise.

use super::fpm::{self, Line};
use super::root::Root;
use super::table::{Layer, Row};

/// A line that would win over ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// The file, below the root.
    pub file: String,
    /// The setting, as we name it.
    pub name: &'static str,
    /// Its value there.
    pub value: String,
}

/// All lines that would win over those of ours (path, row and value).
pub fn conflicts(root: &Root, ours: &[(&str, &'static Row, &str)]) -> Vec<Other> {
    let mut found = Vec::new();
    let mut layers: Vec<(Layer, &str)> = ours.iter().map(|(path, row, _)| (row.layer, *path)).collect();
    layers.dedup();
    // Where nginx has a directive already, our file does not have it.
    layers.retain(|(layer, _)| *layer != Layer::Nginx);
    for (layer, path) in layers {
        for (file, text) in later(root, layer, path) {
            for (key, value) in assignments(&text, layer) {
                let name = |row: &Row| row.layer == layer && named(row.name, layer) == key;
                let Some((_, row, own)) = ours.iter().find(|(_, row, _)| name(row)) else { continue };
                if !wins(row, own, &value) {
                    continue;
                }
                found.push(Other { file: file.clone(), name: row.name, value });
            }
        }
    }
    found
}

/// Whether a later value takes away something: a higher one does not, where ours is the least.
fn wins(row: &Row, own: &str, later: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (row.is_least, number(own), number(later)) {
        (true, Some(own), Some(later)) => later < own,
        _ => own != later,
    }
}

/// The files that are read after ours, with their texts.
fn later(root: &Root, layer: Layer, own: &str) -> Vec<(String, String)> {
    let (folder, name) = own.rsplit_once('/').unwrap_or(("", own));
    let folders: Vec<&str> = match layer {
        // sysctl.d(5): a file hides those of the same name in later folders; all are read in the order of their names.
        Layer::Kernel => vec![folder, "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"],
        // Folders are read in the order of their lines in my.cnf.
        Layer::Database if folder == "etc/mysql/conf.d" => {
            vec![folder, "etc/mysql/mariadb.conf.d", "etc/mysql/mysql.conf.d"]
        }
        _ => vec![folder],
    };
    let end = match layer {
        Layer::Database => ".cnf",
        Layer::Php => ".ini",
        _ => ".conf",
    };
    let mut seen: Vec<String> = Vec::new();
    let mut files = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        for other in root.names(folder) {
            let is_later = if at > 0 && layer == Layer::Database { true } else { *other > *name };
            if is_later && other.ends_with(end) && !(layer == Layer::Kernel && seen.contains(&other)) {
                files.push(format!("{folder}/{other}"));
            }
            seen.push(other);
        }
    }
    if layer == Layer::Kernel && !seen.iter().any(|other| other == "99-sysctl.conf") {
        // `sysctl --system` reads it last; where it is a link in sysctl.d, it was read there.
        files.push("etc/sysctl.conf".to_owned());
    }
    let mut texts: Vec<(String, String)> =
        files.into_iter().filter_map(|path| Some((path.clone(), root.read(&path).ok()?))).collect();
    if layer == Layer::Database {
        texts.extend(["etc/mysql/my.cnf", "etc/my.cnf"].into_iter().filter_map(|path| {
            let text = root.read(path).ok()?;
            let after = text.rfind("!includedir").map(|at| text[at..].to_owned())?;
            Some((path.to_owned(), after))
        }));
    }
    if layer == Layer::Fpm {
        let main = format!("{}/php-fpm.conf", folder.rsplit_once('/').map_or("", |(parent, _)| parent));
        texts.extend(root.read(&main).ok().map(|text| (main, fpm::after_includes(&text))));
    }
    texts
}

/// The assignments that count: of option files those of the server's sections, of php-fpm those of pools.
fn assignments(text: &str, layer: Layer) -> Vec<(String, String)> {
    if matches!(layer, Layer::Fpm | Layer::Php) {
        let mut is_global = false;
        let of = |line| match Line::of(line) {
            Line::Section(name) => {
                is_global = name == "global";
                None
            }
            Line::Setting(name, value) if !is_global => Some((name.to_owned(), value.to_owned())),
            _ => None,
        };
        return text.lines().filter_map(of).collect();
    }
    let mut is_server = layer != Layer::Database;
    let mut all = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            if layer == Layer::Database {
                is_server = ["mysqld", "mariadb", "mariadbd", "server"].iter().any(|name| {
                    section == *name || section.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
                });
            }
            continue;
        }
        if !is_server || line.starts_with(['#', ';', '!']) {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        all.push((named(key.trim().trim_start_matches('-'), layer), value));
    }
    all
}

/// One spelling of a name: sysctl allows / for ., option files - for _.
fn named(name: &str, layer: Layer) -> String {
    match layer {
        Layer::Kernel => name.trim().replace('/', "."),
        Layer::Database => name.trim().replace('-', "_"),
        _ => name.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::proposal::Proposal;
    use super::super::proposal::tests::{tree, web_tree, wish};

    fn said(path: &str, text: &str) -> String {
        let tree = tree();
        let full = tree.root().join(path);
        std::fs::create_dir_all(full.parent().expect("a folder")).expect("made");
        std::fs::write(full, text).expect("written");
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        proposal.check_others().err().map(|why| why.to_string()).unwrap_or_default()
    }

    #[test]
    fn later_files_that_say_otherwise() {
        for (path, text) in [
            ("etc/sysctl.d/99-tuned.conf", "vm/swappiness=60\n"),
            ("etc/sysctl.d/99-sysctl.conf", "-vm.swappiness = 1"),
            ("usr/lib/sysctl.d/70-x.conf", "vm.swappiness = 1\n"),
            ("etc/systemd/system/millrace.service.d/override.conf", "[Service]\nLimitNOFILE=1024\n"),
            ("etc/mysql/mariadb.conf.d/99-mine.cnf", "[client]\nx=1\n[mariadb-10.11]\nmax-connections = 9\n"),
            ("etc/mysql/my.cnf", "!includedir /etc/mysql/mariadb.conf.d\n[mysqld]\nmax_connections=9\n"),
        ] {
            let why = said(path, text);
            assert!(why.contains(&format!("/{path} sets ")) && why.contains("--without "), "{path}: {why}");
        }
    }

    #[test]
    fn later_files_of_php_fpm() {
        let said = |path: &str, text: &str| {
            let tree = web_tree(&[(path, text)]);
            let proposal = Proposal::of(&wish(&tree)).expect("computed");
            proposal.check_others().err().map(|why| why.to_string()).unwrap_or_default()
        };
        for (path, text) in [
            ("etc/php/8.2/fpm/pool.d/zzz.conf", "[www]\npm.max_children = 3\n"),
            ("etc/php/8.2/fpm/php-fpm.conf", "include=/etc/php/8.2/fpm/pool.d/*.conf\n[www]\npm = static\n"),
            ("etc/php/8.2/fpm/conf.d/99-mine.ini", "opcache.memory_consumption=\"64\"\n"),
        ] {
            let why = said(path, text);
            assert!(why.contains(&format!("/{path} sets ")) && why.contains("--without "), "{path}: {why}");
        }
        for (path, text) in [
            (
                "etc/php/8.2/fpm/pool.d/zzz.conf",
                "[www]\n;pm = static\nlisten.backlog = 65535\n[global]\npm = x\n",
            ),
            (
                "etc/php/8.2/fpm/php-fpm.conf",
                "[www]\npm = static\n[global]\ninclude=/etc/php/8.2/fpm/pool.d/*.conf\n",
            ),
            ("etc/php/8.2/fpm/conf.d/20-mine.ini", "opcache.memory_consumption=64\n"),
            ("etc/php/8.2/fpm/conf.d/99-mine.ini", "[opcache]\nopcache.memory_consumption = 128 ; MB\n"),
        ] {
            assert_eq!(said(path, text), "", "{path}");
        }
    }

    #[test]
    fn files_that_do_not_matter() {
        for (path, text) in [
            ("etc/sysctl.d/10-a.conf", "vm.swappiness = 60\n"),
            (
                "etc/sysctl.d/99-a.conf",
                "vm.swappiness =  10\nnet.core.somaxconn=65535\n# vm.swappiness = 1\n",
            ),
            ("etc/sysctl.d/99-a.txt", "vm.swappiness = 60\n"),
            ("etc/mysql/mariadb.conf.d/99-a.cnf", "[mysqldump]\nmax_connections = 9\n"),
            ("etc/mysql/conf.d/99-a.cnf", "[mysqld]\nmax_connections = 9\n"),
        ] {
            assert_eq!(said(path, text), "", "{path}");
        }
    }
}
