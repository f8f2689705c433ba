//! The configuration as written: each value read and within its bounds, with its place, without defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::problem::At;
use crate::rule::WrittenRule;
use crate::table::Setting;
use crate::value::Value;

/// All written values: the file, overridden by the command line.
#[derive(Debug, Default)]
pub struct Written {
    /// The configuration file, absolute; `None`: there is none.
    pub(crate) file: Option<PathBuf>,
    /// Outside of sites.
    pub(crate) global: Section,
    /// The sites, in the order written.
    pub(crate) sites: Vec<WrittenTable>,
    /// The `[[tls]]` tables, in the order written.
    pub(crate) tls: Vec<WrittenTable>,
}

/// A site as written; or another table that may be repeated.
#[derive(Debug)]
pub(crate) struct WrittenTable {
    /// Its header, or the argument that names its directory.
    pub at: Option<At>,
    /// Its values. Keys are full names: `site.root`, `php.workers`.
    pub values: Section,
    /// The rules of a site.
    pub rules: Vec<WrittenRule>,
}

/// Values by the key of their row.
#[derive(Debug, Default)]
pub(crate) struct Section {
    values: BTreeMap<&'static str, Typed>,
    /// Named tables in the order of their first appearance, with the place of that.
    named: Vec<(String, At, BTreeMap<&'static str, Typed>)>,
    /// The `[[site.proxy]]` tables of a site, in the order written.
    pub proxies: Vec<WrittenTable>,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    /// The value; `None` if it was wrong and has been reported.
    pub value: Option<Value>,
    /// Where.
    pub at: At,
}

impl Section {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Typed> {
        self.values.get(key)
    }

    /// Sets `key`, replacing an earlier value.
    pub fn set(&mut self, row: &'static Setting, typed: Typed) {
        self.values.insert(row.key, typed);
    }

    /// The value of `key` in the table with this name.
    pub fn get_named(&self, name: &str, key: &str) -> Option<&Typed> {
        self.named.iter().find(|(own, ..)| own == name)?.2.get(key)
    }

    /// Sets `key` in the table with this name.
    pub fn set_named(&mut self, name: &str, row: &'static Setting, typed: Typed) {
        self.add_name(name, &typed.at).insert(row.key, typed);
    }

    /// Adds the table with this name, unless it exists, and returns its values.
    pub fn add_name(&mut self, name: &str, at: &At) -> &mut BTreeMap<&'static str, Typed> {
        let found = self.named.iter().position(|(own, ..)| own == name);
        let position = found.unwrap_or_else(|| {
            self.named.push((name.to_owned(), at.clone(), BTreeMap::new()));
            self.named.len() - 1
        });
        &mut self.named[position].2
    }

    /// The names, each with its first place.
    pub fn names(&self) -> impl Iterator<Item = (&str, &At)> {
        self.named.iter().map(|(name, at, _)| (&**name, at))
    }

    /// Adds to an open table, replacing values with the same name.
    pub fn lay_over(&mut self, row: &'static Setting, typed: Typed) {
        let Some(Value::Pairs(new)) = &typed.value else { return self.set(row, typed) };
        let Some(Value::Pairs(pairs)) = self.values.get_mut(row.key).and_then(|old| old.value.as_mut())
        else {
            return self.set(row, typed);
        };
        for (name, value) in new {
            pairs.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
            pairs.push((name.clone(), value.clone()));
        }
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(key);
    }
}
