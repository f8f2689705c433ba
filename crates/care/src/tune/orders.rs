//! Whether the database of a machine holds orders: then no committed transaction may be lost.
//!
//! Each InnoDB table has a file of its name in the folder of its database, so that names can be read without a password. Any table with
//! `order` in its name counts (WooCommerce, PrestaShop, Magento, OpenCart, Shopware, Drupal Commerce, Easy Digital Downloads): too many are
//! found rather than too few.

use std::io::ErrorKind;

use super::root::Root;

/// Where MariaDB and MySQL have their data unless an option file says otherwise, below the root.
const USUAL: &str = "var/lib/mysql";
/// Folders that hold no site's database: those of the server itself, and what a file system of its own has. Neither is readable for others.
const OWN: [&str; 5] = ["mysql", "performance_schema", "sys", "information_schema", "lost+found"];

/// What the tables say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orders {
    /// There is a table of orders: its database and name.
    Found(String),
    /// There are tables of sites, and none is of orders: how many.
    None(usize),
    /// It can't be seen: why.
    Unknown(String),
}

impl Orders {
    /// Looks at the names of all tables of the database that has its files below `root`. What can't be read may hold orders, unless
    /// some are found elsewhere.
    pub fn look(root: &Root) -> Orders {
        let (folder, mut hidden) = folder(root);
        let mut count = 0;
        let databases = root.entries(&folder).unwrap_or_default();
        for database in databases.iter().filter(|name| !OWN.contains(&name.as_str())) {
            let path = format!("{folder}/{database}");
            let files = match root.entries(&path) {
                Ok(files) => files,
                // A file of the server, or a database that was dropped a moment ago.
                Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => {
                    continue;
                }
                Err(error) => {
                    hidden.get_or_insert(format!("/{path} can't be read ({error})"));
                    continue;
                }
            };
            let tables = files
                .iter()
                .filter_map(|file| file.strip_suffix(".ibd").or_else(|| file.strip_suffix(".frm")));
            for table in tables {
                if table.to_ascii_lowercase().contains("order") {
                    return Orders::Found(format!("{database}.{table}"));
                }
                count += 1;
            }
        }
        match (hidden, count) {
            (Some(why), _) => Orders::Unknown(why),
            (None, 0) => {
                Orders::Unknown(format!("/{folder} shows no tables of a site yet, or is not readable"))
            }
            (None, count) => Orders::None(count),
        }
    }
}

/// The data folder that the option files name, and which of them can't be read: it may name another one.
fn folder(root: &Root) -> (String, Option<String>) {
    let files = [
        "etc/my.cnf",
        "etc/mysql/my.cnf",
        "etc/my.cnf.d/*",
        "etc/mysql/conf.d/*",
        "etc/mysql/mariadb.conf.d/*",
        "etc/mysql/mysql.conf.d/*",
    ];
    let (mut folder, mut hidden) = (USUAL.to_owned(), None);
    for path in files.iter().flat_map(|pattern| root.matching(pattern)) {
        match root.read(&path) {
            Ok(text) => folder = text.lines().rev().find_map(datadir).unwrap_or(folder),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
            Err(error) => hidden = Some(format!("/{path} can't be read ({error})")),
        }
    }
    (folder, hidden)
}

/// The value of a line `datadir = ...`.
fn datadir(line: &str) -> Option<String> {
    let (name, value) = line.split_once('=')?;
    (name.trim() == "datadir").then(|| value.trim().trim_matches(['"', '\'', '/']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn look(files: &[(&str, &str)]) -> Orders {
        let tree = Tree::of(files);
        Orders::look(&Root::new(tree.root()))
    }

    #[test]
    fn tables_of_orders_are_found() {
        let shop = [
            ("var/lib/mysql/mysql/order_of_columns.ibd", ""),
            ("var/lib/mysql/blog/wp_posts.ibd", ""),
            ("var/lib/mysql/shop/wp_wc_orders.ibd", ""),
        ];
        assert_eq!(look(&shop), Orders::Found("shop.wp_wc_orders".to_owned()));
        assert_eq!(look(&shop[..2]), Orders::None(1));
        for table in [
            "ps_orders",
            "sales_order",
            "oc_order",
            "edd_orders",
            "commerce_order",
            "wp_woocommerce_order_items",
            "Order",
        ] {
            assert!(
                matches!(look(&[(&format!("var/lib/mysql/a/{table}.ibd"), "")]), Orders::Found(_)),
                "{table}"
            );
        }
    }

    #[test]
    fn what_cannot_be_seen_is_unknown() {
        assert!(matches!(look(&[("etc/x", "")]), Orders::Unknown(_)));
        assert!(matches!(look(&[("var/lib/mysql/mysql/user.ibd", "")]), Orders::Unknown(_)));
        let moved = [
            ("etc/mysql/my.cnf", "[mysqld]\n"),
            ("etc/mysql/mariadb.conf.d/50-server.cnf", "[mysqld]\ndatadir = /data/db/\n"),
            ("data/db/shop/ps_orders.ibd", ""),
        ];
        assert_eq!(look(&moved), Orders::Found("shop.ps_orders".to_owned()));
    }
    /// Beside databases that can be read, one that can't is no empty one. As root everything can be read, so that a link that leads
    /// to itself stands for a folder without rights here.
    #[test]
    fn what_cannot_be_read_may_hold_orders() {
        let blog = ("var/lib/mysql/blog/wp_posts.ibd", "");
        let shop = ("var/lib/mysql/shop/ps_orders.ibd", "");
        let none_of = |what: &str, files: &[(&str, &str)]| {
            let tree = Tree::of(files);
            let path = tree.root().join(what);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::os::unix::fs::symlink(path.file_name().expect("a name"), &path).expect("a link");
            Orders::look(&Root::new(tree.root()))
        };
        for hidden in ["var/lib/mysql/closed", "etc/my.cnf", "etc/mysql/conf.d/site.cnf"] {
            let Orders::Unknown(why) = none_of(hidden, &[blog]) else { panic!("{hidden} was ignored") };
            assert!(why.starts_with(&format!("/{hidden} can't be read (")), "{why}");
            assert_eq!(none_of(hidden, &[blog, shop]), Orders::Found("shop.ps_orders".to_owned()));
        }
        assert_eq!(none_of("var/lib/mysql/lost+found", &[blog]), Orders::None(1));
        assert_eq!(look(&[blog, ("var/lib/mysql/ib_logfile0", "")]), Orders::None(1));
    }
}
