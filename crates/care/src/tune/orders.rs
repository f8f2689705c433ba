//! Whether the database of a machine holds orders: then no committed transaction may be lost.
//!
//! Each InnoDB table has a file of its name in the folder of its database, so that names can be read without a password. Any table with
//! `order` in its name counts (WooCommerce, PrestaShop, Magento, OpenCart, Shopware, Drupal Commerce, Easy Digital Downloads): too many are
//! found rather than too few.

use super::root::Root;

/// Where MariaDB and MySQL have their data unless an option file says otherwise, below the root.
const USUAL: &str = "var/lib/mysql";
/// Databases of the server itself.
const OWN: [&str; 4] = ["mysql", "performance_schema", "sys", "information_schema"];

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
    /// Looks at the names of all tables of the database that has its files below `root`.
    pub fn look(root: &Root) -> Orders {
        let folder = folder(root);
        let mut count = 0;
        for database in root.names(&folder).iter().filter(|name| !OWN.contains(&name.as_str())) {
            let files = root.names(&format!("{folder}/{database}"));
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
        match count {
            0 => Orders::Unknown(format!("/{folder} shows no tables of a site yet, or is not readable")),
            count => Orders::None(count),
        }
    }
}

/// The data folder that the option files name.
fn folder(root: &Root) -> String {
    let files = [
        "etc/my.cnf",
        "etc/mysql/my.cnf",
        "etc/my.cnf.d/*",
        "etc/mysql/conf.d/*",
        "etc/mysql/mariadb.conf.d/*",
        "etc/mysql/mysql.conf.d/*",
    ];
    let texts =
        files.iter().flat_map(|pattern| root.matching(pattern)).filter_map(|path| root.read(&path).ok());
    let mut named = texts.filter_map(|text| {
        let value = |line: &str| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "datadir").then(|| value.trim().trim_matches(['"', '\'', '/']).to_owned())
        };
        text.lines().rev().find_map(value)
    });
    named.next_back().unwrap_or_else(|| USUAL.to_owned())
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
}
