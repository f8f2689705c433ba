//! Pages for members: made by PHP for one logged-in visitor, and sent to others with the same rights.
//!
//! # What must hold
//!
//! 1. **The visitor is who PHP says he is.** PHP has verified a login cookie, and given it a pass; no other cookie counts, and this one only
//!    while its pass is valid ([`crate::visitors::member`] says what ends it). When anything is not known for sure, PHP makes the page.
//! 2. **Same rights.** The key of the page contains the pass's *role*: a digest of everything about the user that a page may depend on.
//! 3. **PHP saw nothing else.** While PHP makes such a page, its hooks watch what is read of the user
//!    (`php/inject/wordpress/member.php`). A page is shared only if nothing was read but what the role contains, and the *values* below.
//! 4. **Values are filled in.** The member's name and nonces are cut out where they stand as a word of their own ([`blanked`]), and each
//!    member gets his own ([`filled`]). No shared page contains a value of its first reader.
//! 5. **Two members agree.** A page is sent only if PHP has made it for two members with different values and initials, and what is sent
//!    is exactly what both got ([`MadePages`], [`common`]). That finds a value that was not cut out, and a word that was cut out by mistake.
//!    A member with a longer or shorter name than theirs gets the page from PHP first, because it may cut a long name short.
//! 6. **Its kind is proven**, as for carts ([`crate::carts`]): pages of this kind were the same for three members with this role other than
//!    those for whom they were made first; one difference, or one page that PHP calls personal, closes the kind for an hour.
//! 7. **Nothing is stale.** Pages for members are purged by the same tags as public ones, are never used when stale, and are not stored if
//!    anything was purged while they were made. They are not written to disk.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use memchr::memmem;

use crate::Millis;
use crate::carts::without_times;
use crate::visitors::MemberPass;

/// The values of a member that are filled into pages, each in its place; empty values are never replaced.
pub type Values = Box<[Box<[u8]>]>;

/// Maximum number of values.
pub const MOST_VALUES: usize = 16;

/// Maximum number of places in a page where one is filled in.
const MOST_HOLES: usize = 1024;

/// Digits of a nonce (wp_create_nonce()).
const NONCE: usize = 10;

/// Bytes of the mark that stands for a value: NUL, its number + 1, NUL.
const MARK: usize = 3;

/// A page without the values of its member. `None`: it can't be shared, because it contains a NUL, or very many values.
pub fn blanked(page: &[u8], values: &[Box<[u8]>]) -> Option<Vec<u8>> {
    if memchr::memchr(0, page).is_some() || values.len() > MOST_VALUES {
        return None;
    }
    let places = places(page, values);
    if places.len() > MOST_HOLES {
        return None;
    }
    let mut out = Vec::with_capacity(page.len() + MARK * places.len());
    let mut from = 0;
    for place in places {
        // What begins within the one before is part of it.
        if place.start >= from {
            out.extend_from_slice(&page[from..place.start]);
            out.extend_from_slice(&[0, place.value as u8 + 1, 0]);
            from = place.end;
        }
    }
    out.extend_from_slice(&page[from..]);
    Some(out)
}

/// A page that PHP has made for two members, without the values of either: `other`'s, with marks where each has the own value. What is
/// the same on both stays, even if it equals one member's value, such as a comment author's name. `None`: they differ.
pub fn common(one: &MadeFor<'_>, other: &MadeFor<'_>) -> Option<Vec<u8>> {
    let (mut out, mut at, mut from) = (Vec::with_capacity(other.page.len()), 0, 0);
    for place in places(&other.same, other.values) {
        if place.start < from {
            continue;
        }
        let before = &other.same[from..place.start];
        let rest = one.same.get(at..)?.strip_prefix(before)?;
        at += before.len();
        out.extend_from_slice(&other.page[from..place.start]);
        let (its, own) = (one.values.get(place.value)?, &other.values[place.value]);
        if !its.is_empty() && its != own && rest.starts_with(its) {
            out.extend_from_slice(&[0, place.value as u8 + 1, 0]);
            at += its.len();
        } else {
            rest.strip_prefix(&**own)?;
            out.extend_from_slice(&other.page[place.start..place.end]);
            at += own.len();
        }
        from = place.end;
    }
    out.extend_from_slice(&other.page[from..]);
    (one.same.get(at..)? == &other.same[from..] && memchr::memchr(0, &other.page).is_none()).then_some(out)
}

/// A page, and the values of the member for whom PHP has made it.
#[derive(Debug)]
pub struct MadeFor<'a> {
    /// The page.
    pub page: Cow<'a, [u8]>,
    /// As long as the page, and without what differs by itself.
    same: Vec<u8>,
    values: &'a [Box<[u8]>],
}

impl<'a> MadeFor<'a> {
    /// A page that PHP has made for the member with these values. `now`: seconds since 1970.
    pub fn new(page: impl Into<Cow<'a, [u8]>>, values: &'a [Box<[u8]>], now: u64) -> MadeFor<'a> {
        let page = page.into();
        let same = without_times(&page, now);
        MadeFor { page, same, values }
    }

    /// Whether it is the same as what would be sent to the member.
    pub fn is(&self, sent: &[u8], now: u64) -> bool {
        self.page.len() == sent.len() && self.same == without_times(sent, now)
    }
}

/// A value in a page.
struct ValuePlace {
    start: usize,
    end: usize,
    value: usize,
}

/// Where values stand as words, the first place first; of those that begin at the same place, the longest first.
fn places(page: &[u8], values: &[Box<[u8]>]) -> Vec<ValuePlace> {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80);
    let mut places = Vec::new();
    for (value, text) in values.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        for start in memmem::find_iter(page, text) {
            let end = start + text.len();
            let before = start.checked_sub(1).and_then(|at| page.get(at));
            if !is_part(before) && !is_part(page.get(end)) {
                places.push(ValuePlace { start, end, value });
            }
        }
    }
    places.sort_by_key(|place| (place.start, usize::MAX - place.end, place.value));
    places
}

/// Whether values are to be filled in.
pub fn has_marks(page: &[u8]) -> bool {
    memchr::memchr(0, page).is_some()
}

/// The page with these values in place of the marks. `None`: there is no such value, which means that the page has another role.
pub fn filled(page: &[u8], values: &[Box<[u8]>]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(page.len() + 256);
    let mut rest = page;
    while let Some(at) = memchr::memchr(0, rest) {
        let mark = rest.get(at..at + MARK).filter(|mark| mark[2] == 0)?;
        let value = values.get(usize::from(mark[1]).checked_sub(1)?).filter(|value| !value.is_empty())?;
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(value);
        rest = &rest[at + MARK..];
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Whether it says something that pages for two members are the same: all their values differ, and names begin with different letters, so
/// that initials differ, too. Values that both lack don't count.
fn are_told_apart(one: &[Box<[u8]>], other: &[Box<[u8]>]) -> bool {
    let initial = |value: &[u8]| value.first().map(u8::to_ascii_lowercase);
    let is_nonce = |value: &[u8]| value.len() == NONCE && value.iter().all(u8::is_ascii_hexdigit);
    let differ = |one: &[u8], other: &[u8]| match is_nonce(one) && is_nonce(other) {
        true => one != other,
        false => one.is_empty() && other.is_empty() || initial(one) != initial(other),
    };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| differ(one, other))
}

/// For whom the stored pages were made first, and which of them another member has got from PHP, too: a table by the hash of the key.
#[derive(Debug, Default)]
pub struct MadePages(HashMap<u64, MadePage>);

/// Maximum number of them. With more, the table starts again, and so do the pages.
const MOST_PAGES: usize = 1 << 16;

#[derive(Debug)]
struct MadePage {
    /// When it was stored: another one may have taken its place.
    stored: Millis,
    by: Arc<MemberPass>,
    is_confirmed: bool,
    /// The shortest and the longest value of each kind of those for whom it was the same: a page may cut a long name short.
    lengths: Vec<(usize, usize)>,
}

/// What another member's page says about a stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is the same.
    Same,
    /// It differs.
    Differs,
    /// That it is the same says nothing: it is the same member's, or one's with such a name.
    Own,
    /// It is not known for whom the stored one was made.
    Unknown,
}

impl MadePages {
    /// A page was stored that PHP has made for this member.
    pub fn add(&mut self, key: u64, stored: Millis, by: Arc<MemberPass>) {
        if self.0.len() >= MOST_PAGES && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let lengths = by.values.iter().map(|value| (value.len(), value.len())).collect();
        self.0.insert(key, MadePage { stored, by, is_confirmed: false, lengths });
    }

    /// Whether PHP has made this page for two members, and this one's values are neither shorter nor longer than theirs.
    pub fn is_confirmed(&self, key: u64, stored: Millis, member: &MemberPass) -> bool {
        let fits = |made: &MadePage| {
            let mut pairs = made.lengths.iter().zip(&member.values);
            made.lengths.len() == member.values.len()
                && pairs.all(|((least, most), value)| (*least..=*most).contains(&value.len()))
        };
        self.0.get(&key).is_some_and(|made| made.stored == stored && made.is_confirmed && fits(made))
    }

    /// For whom this page was made first, and whether it is confirmed.
    pub fn maker(&self, key: u64, stored: Millis) -> Option<(Arc<MemberPass>, bool)> {
        let made = self.0.get(&key).filter(|made| made.stored == stored)?;
        Some((made.by.clone(), made.is_confirmed))
    }

    /// PHP has made this page for another member: `is_same` as the stored one, without the values of each.
    pub fn compare(&mut self, key: u64, stored: Millis, member: &MemberPass, is_same: bool) -> Comparison {
        let Some(made) = self.0.get_mut(&key).filter(|made| made.stored == stored) else {
            return Comparison::Unknown;
        };
        if !is_same {
            made.is_confirmed = false;
            return Comparison::Differs;
        }
        if made.by.user == member.user || !are_told_apart(&made.by.values, &member.values) {
            return Comparison::Own;
        }
        made.is_confirmed = true;
        for ((least, most), value) in made.lengths.iter_mut().zip(&member.values) {
            (*least, *most) = ((*least).min(value.len()), (*most).max(value.len()));
        }
        Comparison::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[&str]) -> Values {
        all.iter().map(|value| value.as_bytes().into()).collect()
    }

    fn pass(user: u64, all: &[&str]) -> Arc<MemberPass> {
        let some = || Box::from(&b"x"[..]);
        Arc::new(MemberPass { until: 0, user, id: some(), role: some(), rows: some(), values: values(all) })
    }

    #[test]
    fn each_member_gets_his_own_values() {
        let (anna, bert) =
            (values(&["Anna Alt", "Anna", "", "00aa"]), values(&["Bert Box", "Bert", "", "11bb"]));
        let page = |name: &str, first: &str, nonce: &str| {
            format!("<p>Hello {name}</p><a href=\"?n={nonce}&x\">{first}'s</a>").into_bytes()
        };
        let made = blanked(&page("Anna Alt", "Anna", "00aa"), &anna).unwrap();
        assert!(has_marks(&made) && memmem::find(&made, b"Anna").is_none());
        assert_eq!(filled(&made, &bert).unwrap(), page("Bert Box", "Bert", "11bb"));
        assert_eq!(Some(&made), blanked(&page("Bert Box", "Bert", "11bb"), &bert).as_ref());
        assert_eq!(filled(&made, &anna).unwrap(), page("Anna Alt", "Anna", "00aa"));
    }

    #[test]
    fn what_two_pages_have_in_common() {
        let (anna, bert) = (values(&["Anna Alt", "0aaa"]), values(&["Bert Box", "1bbb"]));
        let common = |one: &str, other: &str| {
            let one = MadeFor::new(one.as_bytes(), &anna, 0);
            let other = MadeFor::new(other.as_bytes(), &bert, 0);
            super::common(&one, &other).map(|page| String::from_utf8(page).unwrap())
        };
        let page = |name: &str, nonce: &str| {
            format!("<i>Hello {name}</i><a>?n={nonce}</a><p>Anna Alt said</p><p>Bert Box said: 1bbb</p>")
        };
        let found = common(&page("Anna Alt", "0aaa"), &page("Bert Box", "1bbb")).unwrap();
        assert_eq!(found, page("\0\x01\0", "\0\x02\0"), "who has written stays");
        for (name, nonce) in
            [("Bert Bix", "1bbb"), ("Anna", "1bbb"), ("Bert Box", "1bb"), ("BERT BOX", "1bbb")]
        {
            assert_eq!(common(&page("Anna Alt", "0aaa"), &page(name, nonce)), None, "{name} {nonce}");
        }
        assert_eq!(common("a", "a").as_deref(), Some("a"));
        for (one, other) in [
            ("a", "ab"),
            ("ab", "a"),
            ("", "Bert Box"),
            ("Anna Alt", ""),
            ("Anna Alt", "Bert Box!"),
            ("a\0", "a\0"),
        ] {
            assert_eq!(common(one, other), None, "{one} {other}");
        }
        // One member's own value at a place where the other has his is cut out, whatever else is there.
        assert_eq!(common("Anna Alt, Bert Box", "Bert Box, Bert Box").as_deref(), Some("\0\x01\0, Bert Box"));
    }

    #[test]
    fn only_whole_words_are_values() {
        let ann = values(&["Ann", "no"]);
        for same in ["Announcement, Anna, bAnn", "Ann\u{e9}", "1Ann", "none"] {
            assert_eq!(blanked(same.as_bytes(), &ann).unwrap(), same.as_bytes());
        }
        assert_eq!(blanked(b"(Ann)-AnnAnn", &ann).unwrap(), b"(\0\x01\0)-AnnAnn");
        assert_eq!(blanked(b"Ann", &ann).unwrap(), b"\0\x01\0");
        assert_eq!(blanked(b"", &ann).unwrap(), b"");
        // Of values that overlap, the first and longest one counts.
        let two = values(&["b", "a b", "b c"]);
        assert_eq!(blanked(b"a b c", &two).unwrap(), b"\0\x02\0 c");
    }

    #[test]
    fn what_cannot_be_filled_in_is_not() {
        assert_eq!(blanked(b"a\0b", &values(&["x"])), None);
        let many = "x ".repeat(MOST_HOLES + 1);
        assert_eq!(blanked(many.as_bytes(), &values(&["x"])), None);
        assert_eq!(blanked(b"x", &values(&["x"; MOST_VALUES + 1])), None);
        let short = values(&["a", ""]);
        for torn in [&b"\0"[..], b"\0\x01", b"\0\x01x", b"\0\0\0", b"\0\x02\0", b"\0\x03\0"] {
            assert_eq!(filled(torn, &short), None, "{torn:?}");
        }
        assert_eq!(filled(b"none", &short).unwrap(), b"none");
    }

    #[test]
    fn another_member_with_other_values_confirms_a_page() {
        let mut made = MadePages::default();
        let (anna, bert) = (pass(5, &["Anna", ""]), pass(7, &["Bert", ""]));
        made.add(1, 10, anna.clone());
        let mut compare = |member: &MemberPass, is_same| {
            let found = made.compare(1, 10, member, is_same);
            (found, made.is_confirmed(1, 10, &anna))
        };
        assert_eq!(compare(&anna, true), (Comparison::Own, false));
        for like in ["Anna", "Alf", "anton"] {
            assert_eq!(compare(&pass(6, &[like, ""]), true), (Comparison::Own, false), "{like}");
        }
        assert_eq!(compare(&pass(6, &["Bert"]), true), (Comparison::Own, false), "fewer values");
        assert!(are_told_apart(&values(&["a012345678"]), &values(&["a012345679"])), "nonces");
        assert!(!are_told_apart(&values(&["a012345678"]), &values(&["a012345678"])));
        assert_eq!(compare(&bert, true), (Comparison::Same, true));
        assert_eq!(compare(&anna, false), (Comparison::Differs, false));
        assert_eq!(made.compare(1, 11, &bert, true), Comparison::Unknown);
        made.add(1, 11, anna.clone());
        let is_confirmed = |key, stored| made.is_confirmed(key, stored, &anna);
        assert!(!is_confirmed(1, 10) && !is_confirmed(1, 11) && !is_confirmed(2, 10));
    }

    #[test]
    fn a_page_is_for_names_as_long_as_those_for_whom_it_was_the_same() {
        let mut made = MadePages::default();
        let named = |name: &str| pass(1, &[name]);
        made.add(1, 10, pass(5, &["Anna"]));
        made.compare(1, 10, &pass(6, &["Berta"]), true);
        let may =
            |made: &MadePages, names: [&str; 4]| names.map(|name| made.is_confirmed(1, 10, &named(name)));
        let names = ["Eva", "Emil", "Edgar", "Eduard"];
        assert_eq!(may(&made, names), [false, true, true, false]);
        made.compare(1, 10, &pass(7, &["Christopher"]), true);
        assert_eq!(may(&made, names), [false, true, true, true]);
        assert!(!made.is_confirmed(1, 10, &pass(1, &[])));
    }

    #[test]
    fn who_has_made_a_page() {
        let mut made = MadePages::default();
        made.add(1, 10, pass(5, &["Anna"]));
        assert_eq!(made.maker(1, 10).map(|(by, is_confirmed)| (by.user, is_confirmed)), Some((5, false)));
        made.compare(1, 10, &pass(6, &["Bert"]), true);
        assert!(made.maker(1, 10).unwrap().1 && made.maker(1, 11).is_none() && made.maker(2, 10).is_none());
        let page = MadeFor::new(&b"id=6b04fbf39cec1"[..], &[], 0x6b04_fbf3);
        assert!(page.is(b"id=6b04fbf6b9554", 0x6b04_fbf3) && !page.is(b"id=6b04fbf6b955", 0x6b04_fbf3));
    }

    #[test]
    fn the_table_is_bounded() {
        let (mut made, by) = (MadePages::default(), pass(1, &[]));
        (0..3 * MOST_PAGES as u64).for_each(|key| made.add(key, 0, by.clone()));
        assert!(made.0.len() <= MOST_PAGES);
    }
}
