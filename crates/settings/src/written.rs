//! The configuration as typed: each value read and within its bounds, with its place, and nothing filled in yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::problem::At;
use crate::table::Setting;
use crate::value::Value;

/// Everything that was typed: the file, then the command line over it.
#[derive(Debug, Default)]
pub struct Written {
    /// The configuration file, absolute; `None`: there is none.
    pub(crate) file: Option<PathBuf>,
    /// Outside of sites.
    pub(crate) global: Section,
    /// The sites, in the order written.
    pub(crate) sites: Vec<SiteWritten>,
}

/// A site as typed.
#[derive(Debug)]
pub(crate) struct SiteWritten {
    /// Its header, or the argument that names its folder.
    pub at: Option<At>,
    /// Its values. Keys are whole: `site.root`, `php.workers`.
    pub values: Section,
}

/// Values by the key of their row.
#[derive(Debug, Default)]
pub(crate) struct Section(BTreeMap<&'static str, Typed>);

/// A value and where it was typed.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    /// The value; `None` if it was wrong, which has been reported.
    pub value: Option<Value>,
    /// Where.
    pub at: At,
}

impl Section {
    /// What was typed for `key`.
    pub fn get(&self, key: &str) -> Option<&Typed> {
        self.0.get(key)
    }

    /// Sets `key`, over what was typed before.
    pub fn set(&mut self, row: &'static Setting, typed: Typed) {
        self.0.insert(row.key, typed);
    }

    /// Adds to an open table, over values of the same name.
    pub fn lay_over(&mut self, row: &'static Setting, typed: Typed) {
        let Some(Value::Pairs(new)) = &typed.value else { return self.set(row, typed) };
        let Some(Value::Pairs(pairs)) = self.0.get_mut(row.key).and_then(|old| old.value.as_mut()) else {
            return self.set(row, typed);
        };
        for (name, value) in new {
            pairs.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
            pairs.push((name.clone(), value.clone()));
        }
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }
}
