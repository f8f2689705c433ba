//! The pass of a member: a logged-in visitor, who may have pages that PHP has made for other members with the same rights
//! ([`crate::members`] says which pages).
//!
//! A run of PHP gives it, for the login cookie that it has verified, if WordPress shows no admin bar, and the user may edit nothing and
//! owns nothing. It is valid
//!
//! - for a set time, and not longer than the cookie;
//! - until a request of this visitor begins that may change something: then until a run that began later gives another one;
//! - until PHP, in Millrace or outside of it, is about to write the user's rows, and again when it has ([`super::Visitors::void`]); or the
//!   roles. Only a run that began after that gives another one;
//! - until plain SQL changes these rows: the pass has a digest of them, and the site's PHP looks at them twice a second;
//! - as long as the login: a log-out, a new password and new keys end that.

use std::sync::Arc;

use super::pass::PassState;
use super::shelf::CookieEntry;
use super::{CookieState, Cookies, Print, Run, Visitors};
use crate::Millis;
use crate::members::Values;

/// A pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPass {
    /// Until when it is valid.
    pub until: Millis,
    /// The member, as a number that nothing but this process knows.
    pub user: u64,
    /// The member's number in the database.
    pub id: Box<[u8]>,
    /// All that pages may depend on: roles, capabilities, language, which values are empty. Members with the same share pages.
    pub role: Box<[u8]>,
    /// A digest of the member's rows in the database.
    pub rows: Box<[u8]>,
    /// What is filled into shared pages.
    pub values: Values,
}

/// Why a member gets a page from PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberHold {
    /// PHP has not said anything about this login lately.
    Unknown,
    /// A request that may change something is in progress, or was while the last page was made.
    Changing,
    /// The user has changed, or the roles.
    Changed,
    /// PHP has not looked at the user for a while.
    Expired,
    /// WordPress shows the admin bar.
    Bar,
    /// The user may edit something, or has posts of his own.
    Rights,
    /// The user's name has characters that are written in different ways in different places.
    Name,
    /// There is another cookie that identifies a visitor.
    Cookie,
    /// There is no fresh page for members with these rights in the cache: perhaps PHP says that it is personal.
    Page,
    /// Too few pages of this kind, or this page for too few members, were compared.
    Unproven,
    /// This kind of page differs between members with the same rights.
    Differs,
    /// It asks for a part of the page.
    Range,
}

impl MemberHold {
    /// For `Cache-Status` and counters. Stable.
    pub fn word(self) -> &'static str {
        match self {
            MemberHold::Unknown => "member-unknown",
            MemberHold::Changing => "member-changing",
            MemberHold::Changed => "member-changed",
            MemberHold::Expired => "member-expired",
            MemberHold::Bar => "member-bar",
            MemberHold::Rights => "member-rights",
            MemberHold::Name => "member-name",
            MemberHold::Cookie => "member-cookie",
            MemberHold::Page => "member-page",
            MemberHold::Unproven => "member-unproven",
            MemberHold::Differs => "member-differs",
            MemberHold::Range => "member-range",
        }
    }

    /// As PHP reports it.
    pub(super) fn of(word: &[u8]) -> MemberHold {
        match word {
            b"bar" => MemberHold::Bar,
            b"rights" => MemberHold::Rights,
            b"name" => MemberHold::Name,
            b"changed" => MemberHold::Changed,
            _ => MemberHold::Unknown,
        }
    }
}

/// A member's number in the database, and a digest of his rows.
pub type MemberRow = (Box<[u8]>, Box<[u8]>);

/// What is known of a proven login.
pub type MemberState = PassState<MemberPass, MemberHold>;

/// What PHP has made for a member with a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPage {
    /// The member's pass.
    pub pass: Arc<MemberPass>,
    /// What it is, if members with the same rights may share it; `None`: it is this member's own.
    pub shared: Option<SharedPage>,
}

/// A page that members with the same rights may share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPage {
    /// The tag of its kind, for these rights.
    pub kind: Box<[u8]>,
    /// How long it may be stored, seconds.
    pub seconds: u64,
    /// Names of its tags, separated by commas.
    pub tags: Box<[u8]>,
}

impl Visitors {
    /// The pass of the member who sent these cookies, or the reason why there is none. `None`: the cookies prove no login, or there
    /// are no passes for members.
    pub fn member(&mut self, cookies: &Cookies, now: Millis) -> Option<Result<Arc<MemberPass>, MemberHold>> {
        if self.limits.member == 0 || !cookies.is_whole() || cookies.has_chosen() {
            return None;
        }
        let login = cookies.iter().find_map(|cookie| {
            let entry = self.logins.get(cookie.print)?;
            Some((cookie.print, entry))
        });
        let (print, entry) = login?;
        if self.is_being_changed(print) {
            return Some(Err(MemberHold::Changing));
        }
        let pass = match entry.member {
            _ if now >= entry.until => return Some(Err(MemberHold::Unknown)),
            MemberState::Held(why) => return Some(Err(why)),
            MemberState::Passes(pass) if now >= pass.until => return Some(Err(MemberHold::Expired)),
            MemberState::Passes(pass) => pass,
        };
        let mut others = cookies.iter().map(|cookie| cookie.print).filter(|other| *other != print);
        let is_alone = others.all(|other| {
            self.state(other, now) == Some(CookieState::Anonymous) && !self.is_being_changed(other)
        });
        Some(if is_alone { Ok(pass) } else { Err(MemberHold::Cookie) })
    }

    /// The rows of this user are being written, or were, or those of all users (0): passes are void, and so is what runs report that
    /// have begun.
    pub fn void(&mut self, user: u64) {
        self.sequence += 1;
        self.voided.set(user, self.sequence);
        let is_meant = |entry: &&mut CookieEntry| user == 0 || entry.tag == user;
        for entry in self.logins.entries_mut().filter(is_meant) {
            entry.member = MemberState::Held(MemberHold::Changed);
        }
    }

    /// Members with a pass, at most `most`: their numbers in the database, and the digests of their rows.
    pub fn members(&mut self, most: usize, now: Millis) -> Vec<MemberRow> {
        let mut found: Vec<MemberRow> = Vec::new();
        for entry in self.logins.entries_mut() {
            let MemberState::Passes(pass) = &entry.member else { continue };
            if now < pass.until && found.len() < most {
                found.push((pass.id.clone(), pass.rows.clone()));
            } else {
                // Nothing would look after it.
                entry.member = MemberState::Held(MemberHold::Expired);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The rows of a member in the database have this digest; `None`: there are none. Passes that were given with another one are void.
    pub fn check(&mut self, user: u64, rows: Option<&[u8]>) {
        for entry in self.logins.entries_mut().filter(|entry| entry.tag == user) {
            if matches!(&entry.member, MemberState::Passes(pass) if Some(&*pass.rows) != rows) {
                entry.member = MemberState::Held(MemberHold::Changed);
            }
        }
    }

    /// What a run that is over may say about the member whose login this cookie proves: only if nothing of it has changed since it began.
    pub(super) fn granted_member(
        &self,
        print: Print,
        run: &Run,
        member: &MemberState,
        user: u64,
    ) -> MemberState {
        let own = u32::from(run.is_write);
        let is_newest = self
            .running
            .get(&print)
            .is_some_and(|now| now.written <= run.number && now.writers <= own && !run.is_write);
        if !is_newest {
            return MemberState::Held(MemberHold::Changing);
        }
        if run.number < self.voided.of(user) || run.sworn < self.forgotten.of(user) {
            return MemberState::Held(MemberHold::Changed);
        }
        member.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MEMBER, Site};
    use super::*;
    use crate::visitors::Limits;

    const OTHER: &str = "wordpress_logged_in_5f=bert";
    const PASS: &str = "login by=wordpress_logged_in_5f user=7 pass=9000 role=gold rows=ab values=Anna%20Alt,,00aa kind=none";
    const BERTS: &str =
        "login by=wordpress_logged_in_5f user=8 pass=9000 role=gold rows=cd values=Bert,,11bb kind=none";
    const SILENT: &str = "login by=wordpress_logged_in_5f user=7";

    /// The member's pass, or why there is none; `None`: no login, or no passes at all.
    fn pass(site: &mut Site, cookies: &str, now: Millis) -> Option<Result<Arc<MemberPass>, MemberHold>> {
        let cookies = site.cookies(cookies);
        site.table.member(&cookies, now)
    }

    fn held(site: &mut Site, cookies: &str) -> MemberHold {
        pass(site, cookies, 0).expect("a login").expect_err("no pass")
    }

    fn passes(site: &mut Site, cookies: &str) -> bool {
        pass(site, cookies, 0).is_some_and(|found| found.is_ok())
    }

    #[test]
    fn php_gives_a_pass_for_the_one_cookie() {
        let mut site = Site::new();
        assert_eq!(pass(&mut site, MEMBER, 0), None, "PHP has not seen it");
        site.run(MEMBER, false, &[PASS, "end"]);
        let found = pass(&mut site, MEMBER, 0).unwrap().unwrap();
        assert_eq!((&*found.role, &*found.rows, &*found.id), (&b"gold"[..], &b"ab"[..], &b"7"[..]));
        assert_eq!(
            found.values.iter().map(|value| &**value).collect::<Vec<_>>(),
            [&b"Anna Alt"[..], b"", b"00aa"]
        );
        assert_eq!(found.user, site.key.tag(b"7"));
        for other in
            [OTHER, "wordpress_logged_in_x=anna", "wordpress_logged_in_5f=anna; wordpress_logged_in_5f=x"]
        {
            assert_eq!(pass(&mut site, other, 0), None, "{other}");
        }
        let more = format!("{MEMBER}; comment_author_5f=x");
        assert_eq!(held(&mut site, &more), MemberHold::Cookie);
        assert_eq!(pass(&mut site, &format!("{MEMBER}; member=1"), 0), None, "the settings name a cookie");
        // 5 minutes, or until the login ends.
        assert!(pass(&mut site, MEMBER, 299_999).unwrap().is_ok());
        assert_eq!(pass(&mut site, MEMBER, 300_000), Some(Err(MemberHold::Expired)));
        site.run(MEMBER, false, &[&PASS.replace("pass=9000", "pass=2"), "end"]);
        assert_eq!(pass(&mut site, MEMBER, 2000), Some(Err(MemberHold::Expired)));
        site.table.set_limits(Limits { member: 0, ..super::super::tests::LIMITS });
        assert_eq!(pass(&mut site, MEMBER, 0), None, "it is off");
        site.table.set_limits(super::super::tests::LIMITS);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changed, "what came meanwhile was not heard");
    }

    #[test]
    fn what_is_not_whole_gives_none() {
        let none = |note: String| {
            let mut site = Site::new();
            site.run(MEMBER, false, &[&note, "end"]);
            held(&mut site, MEMBER)
        };
        for (part, with) in [("role=gold", ""), ("rows=ab", "rows="), ("user=7", ""), ("pass=9000", "pass=x")]
        {
            assert_eq!(none(PASS.replace(part, with)), MemberHold::Unknown, "{part}");
        }
        assert_eq!(none(PASS.replace("pass=9000", "pass=0")), MemberHold::Expired);
        assert_eq!(none(PASS.replace("00aa", &"x".repeat(2048))), MemberHold::Unknown, "too long");
        for (word, why) in [
            ("bar", MemberHold::Bar),
            ("rights", MemberHold::Rights),
            ("name", MemberHold::Name),
            ("x", MemberHold::Unknown),
        ] {
            assert_eq!(none(format!("{SILENT} held={word}")), why);
        }
    }

    #[test]
    fn it_ends_with_the_beginning_of_a_change() {
        let mut site = Site::new();
        site.run(MEMBER, false, &[PASS, "end"]);
        let reader = site.begin(MEMBER, false);
        assert!(passes(&mut site, MEMBER), "a run that changes nothing");
        let writer = site.begin(MEMBER, true);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changing);
        site.end(MEMBER, reader, &[PASS, "end"]);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changing, "it began before");
        let meanwhile = site.begin(MEMBER, false);
        site.end(MEMBER, writer, &[PASS, "end"]);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changing, "what changes something shows no page");
        site.end(MEMBER, meanwhile, &[PASS, "end"]);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changing, "it ran at the same time");
        site.run(MEMBER, false, &[PASS, "end"]);
        assert!(passes(&mut site, MEMBER));
        // What says nothing about the member changes nothing.
        site.run(MEMBER, false, &[SILENT, "end"]);
        assert!(passes(&mut site, MEMBER));
        site.run(MEMBER, true, &[SILENT, "end"]);
        assert!(!passes(&mut site, MEMBER));
    }

    #[test]
    fn it_ends_when_the_users_rows_are_written() {
        let mut site = Site::new();
        let (anna, bert) = (site.key.tag(b"7"), site.key.tag(b"8"));
        site.run(MEMBER, false, &[PASS, "end"]);
        site.run(OTHER, false, &[BERTS, "end"]);
        let before = site.begin(MEMBER, false);
        site.table.void(anna);
        assert_eq!((held(&mut site, MEMBER), passes(&mut site, OTHER)), (MemberHold::Changed, true));
        site.end(MEMBER, before, &[PASS, "end"]);
        assert_eq!(held(&mut site, MEMBER), MemberHold::Changed, "it may have read the old row");
        site.run(MEMBER, false, &[PASS, "end"]);
        assert!(passes(&mut site, MEMBER));
        let before = site.begin(MEMBER, false);
        site.table.void(0);
        assert!(!passes(&mut site, MEMBER) && !passes(&mut site, OTHER), "the roles");
        site.end(MEMBER, before, &[PASS, "end"]);
        assert!(!passes(&mut site, MEMBER));
        site.run(MEMBER, false, &[PASS, "end"]);
        site.run(OTHER, false, &[BERTS, "end"]);
        // As SQL finds them.
        site.table.check(anna, Some(b"ab"));
        site.table.check(bert, Some(b"other"));
        assert_eq!((passes(&mut site, MEMBER), held(&mut site, OTHER)), (true, MemberHold::Changed));
        site.table.check(anna, None);
        assert!(!passes(&mut site, MEMBER));
    }

    #[test]
    fn it_ends_with_the_login() {
        let mut site = Site::new();
        site.run(MEMBER, false, &[PASS, "end"]);
        let before = site.begin(MEMBER, false);
        site.run("", true, &["forget user=7", "none", "end"]);
        assert_eq!(pass(&mut site, MEMBER, 0), None);
        site.end(MEMBER, before, &[PASS, "end"]);
        assert_eq!(pass(&mut site, MEMBER, 0), None, "of a run from before the log-out");
        site.run(MEMBER, false, &["none site=5f:k1 profile", "end"]);
        assert_eq!(pass(&mut site, MEMBER, 0), None);
    }

    #[test]
    fn members_whose_rows_are_looked_at() {
        let mut site = Site::new();
        site.run(MEMBER, false, &[PASS, "end"]);
        site.run(OTHER, false, &[BERTS, "end"]);
        let row = |id: &str, rows: &str| (Box::from(id.as_bytes()), Box::from(rows.as_bytes()));
        assert_eq!(site.table.members(9, 0), [row("7", "ab"), row("8", "cd")]);
        assert_eq!(site.table.members(1, 0).len(), 1);
        let left = [MEMBER, OTHER].into_iter().filter(|cookies| passes(&mut site, cookies)).count();
        assert_eq!(left, 1, "nothing looks after more passes than that");
        assert_eq!(site.table.members(9, 300_000), []);
    }

    #[test]
    fn the_page_of_a_run() {
        let (key, mut report) = (super::super::PrintKey::default(), super::super::Report::default());
        let mut page = |notes: &[&str]| {
            for note in notes {
                report.hear(note.as_bytes());
            }
            let state = report.member(&key, 0, 300_000)?;
            report.member_page(&state)
        };
        assert_eq!(page(&[PASS]).unwrap().shared, None);
        let kind = PASS.replace("kind=none", "kind=member-kind-1 page=60");
        let shared = page(&["tags post-1,a%20b", &kind]).unwrap().shared.unwrap();
        assert_eq!(
            (&*shared.kind, shared.seconds, &*shared.tags),
            (&b"member-kind-1"[..], 60, &b"post-1,a b"[..])
        );
        let torn = page(&["tags post-1,a%ff", &kind]).unwrap();
        assert_eq!(torn.shared, None, "a tag that can't be read");
        assert_eq!(page(&[&kind.replace("00aa", "%ff")]), None, "a value");
        assert_eq!(page(&[&kind.replace("values=", "x=")]), None);
        assert_eq!(page(&[SILENT]), None);
        assert_eq!(page(&[&format!("{SILENT} held=bar")]), None);
        assert_eq!(page(&[&kind.replace("user=7", "user=7 issued=x")]), None, "a log-in");
        assert_eq!(page(&[&kind.replace("login", "none")]), None);
    }
}
