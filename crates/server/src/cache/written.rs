//! What PHP has written to a site's database, as its hooks say (`php/inject/wordpress/written.php`): rows whose change needs no
//! purge, because the hooks have judged it. `serve/sql` asks for it, when it has found rows that have changed.
//!
//! A report belongs to the look that sees the write: it comes after the one before has begun, and before this one is judged.
//!
//! ```text
//!   look 1 begins           look 2 begins       look 2 is judged
//!     |------ before ----------|-------- since ---------|          both count for look 2; `since` counts for look 3, too
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first word of such a report, where a purge has `soft` or `hard`.
const WROTE: &[u8] = b"wrote,";
/// Rows that are told apart; beyond them, all of the site count as written.
const MOST: usize = 10_000;

/// The reports of all sites that are watched.
#[derive(Debug, Default)]
pub struct Written(Mutex<HashMap<Box<str>, Reports>>);

/// Rows as `FAMILY-KEY`; `FAMILY-*`: any of the family.
#[derive(Debug, Default)]
struct Reports {
    before: HashSet<Box<str>>,
    since: HashSet<Box<str>>,
    /// There were more than [`MOST`].
    all: (bool, bool),
}

impl Written {
    /// Takes a report of a script of a site; returns the rows. `None`: it is something else.
    pub fn hear<'a>(&self, site: &str, text: &'a [u8]) -> Option<&'a [u8]> {
        let items = text.strip_prefix(WROTE)?;
        if let Some(reports) = self.lock().get_mut(site) {
            reports.all.1 |= reports.since.len() >= MOST;
            if !reports.all.1 {
                let items = std::str::from_utf8(items).unwrap_or_default();
                reports.since.extend(items.split(',').map(|item| Box::from(item.trim())));
            }
        }
        Some(items)
    }

    /// A look at the site's database begins. From the first one on, its reports are kept.
    pub fn begin(&self, site: &str) {
        let mut sites = self.lock();
        let reports = sites.entry(Box::from(site)).or_default();
        reports.before.extend(reports.since.drain());
        reports.all.0 |= std::mem::take(&mut reports.all.1);
    }

    /// The look has succeeded, and what it has found is judged.
    pub fn judged(&self, site: &str) {
        if let Some(reports) = self.lock().get_mut(site) {
            reports.before.clear();
            reports.all.0 = false;
        }
    }

    /// The site is watched no more.
    pub fn forget(&self, site: &str) {
        self.lock().remove(site);
    }

    /// Which of these rows, as (family, key), no PHP has written.
    pub fn foreign<T>(&self, site: &str, rows: Vec<T>, name: impl Fn(&T) -> (&str, &str)) -> Vec<T> {
        let sites = self.lock();
        let Some(reports) = sites.get(site) else { return rows };
        rows.into_iter().filter(|row| !reports.has(name(row))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Reports>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    fn has(&self, (family, key): (&str, &str)) -> bool {
        let has = |item: &str| self.before.contains(item) || self.since.contains(item);
        self.all.0 || self.all.1 || has(&format!("{family}-{key}")) || has(&format!("{family}-*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(written: &Written, rows: &[(&'static str, &'static str)]) -> usize {
        written.foreign("a", rows.to_vec(), |row| *row).len()
    }

    #[test]
    fn a_report_counts_for_the_look_that_sees_the_write() {
        let written = Written::default();
        assert_eq!(written.hear("a", b"wrote, post-1"), Some(&b" post-1"[..]));
        assert_eq!(written.hear("a", b"soft, post-1"), None);
        written.begin("a");
        assert_eq!(foreign(&written, &[("post", "1")]), 1, "the site was not watched yet");
        written.hear("a", b"wrote, post-2, option-a%20b");
        written.hear("b", b"wrote, post-1");
        let rows = [("post", "1"), ("post", "2"), ("option", "a%20b"), ("option", "2")];
        assert_eq!(foreign(&written, &rows), 2, "reported after the look began");
        written.judged("a");
        written.begin("a");
        assert_eq!(foreign(&written, &rows), 2, "reported before the next one");
        written.begin("a");
        assert_eq!(foreign(&written, &rows), 2, "that one failed");
        written.hear("a", b"wrote, option-*");
        assert_eq!(foreign(&written, &rows), 1);
        written.judged("a");
        assert_eq!(foreign(&written, &rows), 2);
        written.begin("a");
        written.judged("a");
        assert_eq!(foreign(&written, &rows), 4);
        written.forget("a");
        assert_eq!(foreign(&written, &rows), 4);
    }

    #[test]
    fn too_many_rows_are_all_rows() {
        let written = Written::default();
        written.begin("a");
        for n in 0..=MOST {
            written.hear("a", format!("wrote, post-{n}").as_bytes());
        }
        assert_eq!(foreign(&written, &[("user", "1")]), 0);
        written.judged("a");
        written.begin("a");
        assert_eq!(foreign(&written, &[("user", "1")]), 0);
        written.judged("a");
        assert_eq!(foreign(&written, &[("user", "1")]), 1);
    }
}
