//! The digests of the rows that a site's pages show, as of the last look at its database; what has changed between two looks, and
//! which of it purges now. A value without clock and database.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem;

/// Milliseconds on any clock.
pub type Millis = u64;

/// A row that changes again and again ...
const AGAIN: u32 = 5;
/// ... purges once in this time: a plugin counts there by SQL of its own, or another machine feeds it.
const PAUSE: Millis = 60_000;
/// After this time without a purge, a row is like any other.
const QUIET: Millis = 10 * PAUSE;
/// Rows that purge one by one; if more have changed, the whole site is purged.
const MOST: usize = 200;

/// What PHP has printed does not describe the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookProblem {
    /// The site can't be watched: why.
    Unsupported(String),
    /// Anything else: its beginning.
    Incomplete(String),
}

impl LookProblem {
    /// PHP prints something else.
    pub fn incomplete(text: &str) -> LookProblem {
        LookProblem::Incomplete(text.chars().take(200).collect())
    }
}

impl fmt::Display for LookProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(why) => f.write_str(why),
            Self::Incomplete(text) => write!(f, "PHP says \"{}\"", text.escape_debug()),
        }
    }
}

/// What has become of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It is new.
    New,
    /// It is gone.
    Gone,
    /// It has changed.
    Changed,
}

/// A row that has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowChange {
    how: How,
    /// What it is: `post`, `meta`, `option`.
    kind: Box<str>,
    /// Its key, percent-encoded.
    key: Box<str>,
}

impl RowChange {
    fn name(&self) -> String {
        format!("{} {}", self.kind, self.key)
    }

    /// The name by which PHP reports that it has written the row: fields and terms of a post are of its family.
    pub fn row(&self) -> (&str, &str) {
        let family = match &*self.kind {
            "place" | "meta" | "class" => "post",
            "termfield" => "term",
            "userfield" => "user",
            kind => kind,
        };
        (family, &self.key)
    }
}

impl fmt::Display for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.how {
            How::New => '+',
            How::Gone => '-',
            How::Changed => '~',
        };
        write!(f, "{sign} {} {}", self.kind, self.key)
    }
}

/// Changes as PHP reads them.
pub fn order(changes: &[RowChange]) -> String {
    if changes.len() > MOST {
        return "all".to_owned();
    }
    changes.iter().map(RowChange::to_string).collect::<Vec<_>>().join(";")
}

/// The digests of rows by their keys.
type Digests = HashMap<Box<str>, u64>;

/// What one look has found.
#[derive(Debug, Default, PartialEq)]
pub struct Look {
    /// When each table was changed, in the words of the database.
    times: BTreeMap<String, String>,
    /// The rows of each kind that was looked at.
    kinds: HashMap<Box<str>, Digests>,
    /// Digests of the rows of the members that were asked for; `None`: their tables have not changed.
    pub members: Option<HashMap<Box<str>, Box<str>>>,
}

impl Look {
    /// Reads what `php/inject/wordpress/sql.php` prints.
    ///
    /// # Errors
    /// The site can't be watched, or the text is something else.
    pub fn read(text: &str) -> Result<Look, LookProblem> {
        let incomplete = || LookProblem::incomplete(text);
        let mut look = Look::default();
        let mut part: Vec<&str> = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(first), Some(second)) = (words.next(), words.next()) else {
                return if line == "end" { Ok(look) } else { Err(incomplete()) };
            };
            match first {
                "unsupported" => return Err(LookProblem::Unsupported(line[first.len() + 1..].to_owned())),
                "time" => {
                    let time = words.next().ok_or_else(incomplete)?;
                    look.times.insert(second.to_owned(), time.to_owned());
                }
                "members" => {
                    let pairs = second.split(',').filter_map(|member| member.split_once(':'));
                    look.members = Some(pairs.map(|(id, rows)| (id.into(), rows.into())).collect());
                }
                "part" => {
                    part = second.split('+').collect();
                    look.kinds.extend(part.iter().map(|kind| (Box::from(*kind), Digests::new())));
                }
                "=" => {
                    for (kind, digest) in part.iter().zip(words) {
                        let digest = digest.parse().map_err(|_| incomplete())?;
                        look.kinds.get_mut(*kind).ok_or_else(incomplete)?.insert(Box::from(second), digest);
                    }
                }
                _ => return Err(incomplete()),
            }
        }
        Err(incomplete())
    }

    /// Whether it had to read rows.
    pub fn has_rows(&self) -> bool {
        !self.kinds.is_empty()
    }
}

/// The rows of a site.
#[derive(Debug, Default)]
pub struct Rows {
    times: BTreeMap<String, String>,
    kinds: HashMap<Box<str>, Digests>,
    /// How often a row has purged without a pause, and when last, by kind and key.
    lately: HashMap<String, (u32, Millis)>,
    /// Changes that wait for the end of their pause.
    held: Vec<RowChange>,
}

impl Rows {
    /// The times of the tables, as PHP reads them.
    pub fn times(&self) -> String {
        self.times.iter().map(|(table, time)| format!("{table}={time}")).collect::<Vec<_>>().join(";")
    }

    /// Takes over a look. Returns what has changed since the last one that saw the same kind of rows.
    pub fn take(&mut self, look: Look) -> Vec<RowChange> {
        let mut changes = Vec::new();
        self.times = look.times;
        for (kind, now) in look.kinds {
            let Some(before) = self.kinds.get(&kind) else {
                self.kinds.insert(kind, now);
                continue;
            };
            let change = |how, key: &str| RowChange { how, kind: kind.clone(), key: Box::from(key) };
            changes.extend(now.iter().filter_map(|(key, digest)| match before.get(key) {
                None => Some(change(How::New, key)),
                Some(old) => (old != digest).then(|| change(How::Changed, key)),
            }));
            changes.extend(
                before.keys().filter(|key| !now.contains_key(*key)).map(|key| change(How::Gone, key)),
            );
            self.kinds.insert(kind, now);
        }
        changes
    }

    /// Keeps changes that could not purge until the next look.
    pub fn hold(&mut self, changes: Vec<RowChange>) {
        self.held.extend(changes);
    }

    /// Which changes purge now: these, and those that were held. Rows that keep changing are held until their pause is over.
    pub fn due(&mut self, changes: Vec<RowChange>, now: Millis) -> Vec<RowChange> {
        self.lately.retain(|_, (_, last)| now < *last + QUIET);
        let mut all = mem::take(&mut self.held);
        all.retain(|held| !changes.iter().any(|new| new.name() == held.name()));
        all.extend(changes);
        all.sort();
        let is_held = |change: &RowChange| {
            self.lately
                .get(&change.name())
                .is_some_and(|(times, last)| *times >= AGAIN && now < *last + PAUSE)
        };
        let (held, due): (Vec<_>, Vec<_>) = all.into_iter().partition(is_held);
        self.held = held;
        for change in due.iter().take(MOST) {
            let (times, last) = self.lately.entry(change.name()).or_default();
            *times = if now < *last + PAUSE || *times >= AGAIN { *times + 1 } else { 1 };
            *last = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Look {
        Look::read(&format!("{text}end\n")).unwrap()
    }

    fn shown(changes: &[RowChange]) -> Vec<String> {
        let mut shown: Vec<String> = changes.iter().map(RowChange::to_string).collect();
        shown.sort();
        shown
    }

    #[test]
    fn rows_that_differ_are_found() {
        let mut rows = Rows::default();
        let first = "time posts 1%202\ntime options -\npart post+place\n= 1 10 11\n= 2 20 21\npart option\n= a%20b 5\n";
        assert!(rows.take(look(first)).is_empty(), "nothing to compare with");
        assert_eq!(rows.times(), "options=-;posts=1%202");
        assert!(rows.take(look(first)).is_empty());
        let changes = rows.take(look("time posts 3\npart post+place\n= 1 10 12\n= 3 20 21\n"));
        assert_eq!(shown(&changes), ["+ place 3", "+ post 3", "- place 2", "- post 2", "~ place 1"]);
        let place = changes.iter().find(|change| change.how == How::Changed).unwrap();
        assert_eq!(place.row(), ("post", "1"));
        assert_eq!(shown(&rows.take(look("part option\n= a%20b 6\n"))), ["~ option a%20b"]);
        assert_eq!(shown(&rows.take(look("part option\n"))), ["- option a%20b"]);
        assert!(!look("time posts 3\n").has_rows() && look("part option\n").has_rows());
    }

    #[test]
    fn the_rows_of_members() {
        let members = |text: &str| look(text).members;
        assert_eq!(members("time users 1\n"), None, "nothing has changed");
        assert_eq!(members("members -\n").unwrap().len(), 0, "there are none of them");
        let found = members("members 5:ab,17:cd\n").unwrap();
        assert_eq!((&*found["5"], &*found["17"], found.len()), ("ab", "cd", 2));
    }

    #[test]
    fn anything_else_is_no_look() {
        let incomplete = |text: &str| matches!(Look::read(text), Err(LookProblem::Incomplete(_)));
        assert!(
            incomplete("") && incomplete("time posts 1\n") && incomplete("part post\n= 1 2\n"),
            "cut off"
        );
        assert!(incomplete("<p>Error establishing a database connection</p>\nend\n"));
        assert!(incomplete("part post\n= 1 x\nend\n") && incomplete("time posts\nend\n"));
        let unsupported = Look::read("unsupported a network of sites\n");
        assert_eq!(unsupported, Err(LookProblem::Unsupported("a network of sites".to_owned())));
    }

    #[test]
    fn rows_that_keep_changing_purge_once_a_minute() {
        let change = |key: &str| RowChange { how: How::Changed, kind: "meta".into(), key: key.into() };
        let (mut rows, mut purged) = (Rows::default(), Vec::new());
        for second in 0..600 {
            let due = rows.due(vec![change("1")], second * 1000);
            purged.extend((!due.is_empty()).then_some(second));
        }
        assert_eq!(purged, [0, 1, 2, 3, 4, 64, 124, 184, 244, 304, 364, 424, 484, 544]);
        assert_eq!(rows.due(vec![change("2")], 600_000).len(), 1, "another row");
        assert_eq!(rows.due(Vec::new(), 603_000).len(), 0);
        assert_eq!(rows.due(Vec::new(), 604_000).len(), 1, "the last change is not lost");
        assert_eq!(rows.due(Vec::new(), 800_000).len(), 0);
        for minute in 100..120 {
            assert_eq!(rows.due(vec![change("1")], minute * 60_000).len(), 1, "it has been quiet");
        }
    }

    #[test]
    fn many_changes_are_the_whole_site() {
        let changes: Vec<RowChange> = (0..=MOST)
            .map(|n| RowChange { how: How::New, kind: "post".into(), key: n.to_string().into() })
            .collect();
        assert_eq!(order(&changes[..2]), "+ post 0;+ post 1");
        assert_eq!(order(&changes), "all");
    }
}
