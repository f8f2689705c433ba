//! PHP's report about a visitor, during its run (NOTE frames) and at its end.
//!
//! ```text
//! login by=NAME [issued=VALUE] [user=ID] [rights=edit] [site=END:DIGEST]   logged in, proven by the cookie NAME; may edit
//! cart by=NAME [issued=VALUE] [CART] ...                     something is in the cart
//! own [by=NAME] ...                                          something else that others don't see
//! none [profile] [except=NAME,NAME] ...                      nothing; `profile`: said of the profile's cookies only
//! unsure ...                                                 nothing can be said
//! forget user=ID                                             what was proven for this user, or for all (*), is void
//! changed items=TAG,TAG                                      passes of carts with such a product are void; *: all
//! end [session=NAME:STATE] [elsewhere] [failed] [unread]     the worker's own word, the last of a run; `unread`: the script has read nothing
//!                                                            of the cart
//! ```
//!
//! `by=:authorization` means the field `Authorization`. `issued`: the response sets that cookie to this value, so
//! that it is known before the client sends it.
//!
//! CART says whether the visitor may have public pages ([`super::pass`]): `held=WORD`, why not; or
//!
//! ```text
//! pass=SECONDS                    how long at most
//! with=NAME:VALUE,NAME:VALUE      the cookies that the browser sends with it from now on
//! items=TAG,TAG                   products in the cart, as tags of their pages
//! [address=1]                     the visitor has given an address
//! [kind=TAG [blank=SEL,SEL]]      this page's kind, and the elements that the browser fills, percent-encoded selectors
//! ```
//!
//! `login` may say whether the member may have pages that were made for others with the same rights ([`super::member`]): `held=WORD`, or
//!
//! ```text
//! pass=SECONDS role=KEY rows=DIGEST values=VALUE,VALUE   what pages depend on, and what is filled into them, percent-encoded
//! kind=none                                              this page is the member's own
//! kind=TAG page=SECONDS                                  others may have it, too, for so long; a note `tags TAG,TAG` comes first
//! ```

use std::sync::Arc;

use millrace_wire::percent;

use super::cookies::{Cookie, Print, PrintKey};
use super::member::{MemberHold, MemberPage, MemberPass, MemberState, SharedPage};
use super::pass::{CartHold, CartPage, CartState, Pass};
use super::{CookieState, Proof};
use crate::Millis;
use crate::members::{MOST_VALUES, Values};

/// What a run of PHP has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    word: Option<VisitorStatement>,
    by: Option<Box<[u8]>>,
    issued: Option<Box<[u8]>>,
    user: Option<Box<[u8]>>,
    may_edit: bool,
    install: Option<Install>,
    only_profile: bool,
    except: Vec<Box<[u8]>>,
    session: Option<(Box<[u8]>, Session)>,
    pass: PassNote,
    /// Tags of the page.
    tags: Vec<u8>,
    /// Sessions are stored where a worker can't look them up.
    pub elsewhere: bool,
    /// The script has read nothing of the cart, as far as the page is concerned.
    is_unread: bool,
}

/// Name and value of a cookie.
type NamedValue = (Box<[u8]>, Box<[u8]>);

/// What a report says about the pass of a visitor with a cart, or of a member, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PassNote {
    held: Option<Box<[u8]>>,
    seconds: Option<u64>,
    with: Vec<NamedValue>,
    items: Vec<Box<[u8]>>,
    has_address: bool,
    kind: Option<Box<[u8]>>,
    blanks: Vec<String>,
    role: Option<Box<[u8]>>,
    rows: Option<Box<[u8]>>,
    /// `None`: there are none, or one of them is no text.
    values: Option<Vec<String>>,
    page: Option<u64>,
}

/// Carts with more products get no pass.
const MOST_ITEMS: usize = 100;
/// A pass can't have more companions.
const MOST_COMPANIONS: usize = 8;
/// A member with longer ones gets no pass, bytes: role, digest and values are kept for each member.
const MOST_OF_PASS: usize = 2048;
/// A page with longer tags is not shared, bytes.
const MOST_TAGS: usize = 64 << 10;

/// An installation of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// Suffix of its cookies' names.
    pub end: Box<[u8]>,
    /// A digest of the keys by which they are signed.
    pub digest: Box<[u8]>,
}

/// The application's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitorStatement {
    /// Logged in.
    Login,
    /// Something is in the cart.
    Cart,
    /// Something else of this visitor.
    Own,
    /// Nothing.
    None,
    /// It can't tell.
    Unsure,
}

/// The state of the PHP session that a cookie names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// It contains data.
    Filled,
    /// It was started, and is empty.
    Empty,
    /// It was not started, and does not exist in PHP's configured storage.
    Absent,
    /// It was ended in this run, or has a new name.
    Gone,
    /// It was not started, and can't be looked up.
    Unsure,
}

/// The meaning of a note for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportNote<'a> {
    /// More will come.
    More,
    /// What was proven for this user is void.
    Forget(&'a [u8]),
    /// These products, separated by commas, or all (`*`), have changed: passes of carts with them are void.
    Changed(&'a [u8]),
    /// It was the last one: the report is complete.
    End,
    /// It was the last one, and the script failed: the report does not count.
    Failed,
}

impl Report {
    /// Adds a note.
    pub fn hear<'a>(&mut self, text: &'a [u8]) -> ReportNote<'a> {
        let mut parts = text.split(|byte| *byte == b' ').filter(|part| !part.is_empty());
        let word = match parts.next().unwrap_or_default() {
            b"login" => VisitorStatement::Login,
            b"cart" => VisitorStatement::Cart,
            b"own" => VisitorStatement::Own,
            b"none" => VisitorStatement::None,
            b"forget" => {
                let user = parts.find_map(|part| part.strip_prefix(b"user="));
                return user.map_or(ReportNote::More, ReportNote::Forget);
            }
            b"changed" => {
                let items = parts.find_map(|part| part.strip_prefix(b"items="));
                return items.map_or(ReportNote::More, ReportNote::Changed);
            }
            b"end" => return self.hear_end(parts),
            b"tags" => {
                self.tags = parts.next().unwrap_or_default().into();
                return ReportNote::More;
            }
            _ => VisitorStatement::Unsure,
        };
        let (session, tags) = (self.session.take(), std::mem::take(&mut self.tags));
        *self = Report { word: Some(word), session, tags, elsewhere: self.elsewhere, ..Report::default() };
        for part in parts {
            let end = memchr::memchr(b'=', part).unwrap_or(part.len());
            let value = part.get(end + 1..).unwrap_or_default();
            match &part[..end] {
                b"by" => self.by = Some(value.into()),
                b"issued" => self.issued = Some(value.into()),
                b"user" => self.user = Some(value.into()),
                b"rights" => self.may_edit = value == b"edit",
                b"site" => {
                    let install =
                        |(end, digest): (&[u8], &[u8])| Install { end: end.into(), digest: digest.into() };
                    self.install = pair(value).map(install);
                }
                b"profile" => self.only_profile = true,
                b"except" => self.except = value.split(|byte| *byte == b',').map(Box::from).collect(),
                name => self.pass.hear(name, value),
            }
        }
        ReportNote::More
    }

    fn hear_end<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> ReportNote<'static> {
        let mut heard = ReportNote::End;
        for part in parts {
            match part {
                b"failed" => heard = ReportNote::Failed,
                b"elsewhere" => self.elsewhere = true,
                b"unread" => self.is_unread = true,
                _ => {
                    let session = part.strip_prefix(b"session=").and_then(pair);
                    self.session = session.map(|(name, state)| (name.into(), Session::of(state)));
                }
            }
        }
        heard
    }

    /// What it says about a cookie; `None`: the cookie's result is to be removed. `installs`: all known installations
    /// of the application; `elsewhere`: a session without content says nothing: a handler of the application's own may
    /// keep more than PHP sees, and so may a script that stores something by the session's name.
    pub fn of(&self, cookie: &Cookie, installs: &[Install], elsewhere: bool) -> Option<CookieState> {
        if let Some((_, session)) = self.session.as_ref().filter(|(name, _)| *name == cookie.name) {
            match session {
                Session::Filled => return Some(CookieState::Proven(Proof::Session)),
                Session::Empty | Session::Absent if !elsewhere => return Some(CookieState::Anonymous),
                Session::Gone => return None,
                Session::Empty | Session::Absent | Session::Unsure => {}
            }
        }
        let is_meant = self.by.as_deref() == Some(&*cookie.name) && self.issued.is_none();
        Some(match self.word {
            Some(VisitorStatement::Login) if is_meant => CookieState::Proven(self.login()),
            Some(VisitorStatement::Cart) if is_meant => CookieState::Proven(Proof::Cart),
            Some(VisitorStatement::Own) if is_meant || self.by.is_none() => CookieState::Own,
            Some(VisitorStatement::None) if self.covers(cookie, installs) => CookieState::Anonymous,
            _ => CookieState::Unjudged,
        })
    }

    /// Whether the report of nothing covers this cookie.
    fn covers(&self, cookie: &Cookie, installs: &[Install]) -> bool {
        let own = self.install.as_ref().map(|install| &install.end);
        let of_another = |other: &Install| own != Some(&other.end) && cookie.name.ends_with(&other.end);
        cookie.name.first() != Some(&b':')
            && !cookie.is_chosen
            && (cookie.of_application || !self.only_profile)
            && !self.except.contains(&cookie.name)
            && !installs.iter().any(of_another)
    }

    /// Whether the application has checked this cookie, whatever it found.
    pub fn is_about(&self, cookie: &Cookie) -> bool {
        let said = matches!(
            self.word,
            Some(
                VisitorStatement::Login
                    | VisitorStatement::Cart
                    | VisitorStatement::Own
                    | VisitorStatement::None
            )
        );
        said && cookie.of_application && !self.except.contains(&cookie.name)
    }

    /// The installation of the application that reports.
    pub fn install(&self) -> Option<&Install> {
        self.install.as_ref()
    }

    /// A number for the logged-in user; 0: none.
    pub fn user(&self, key: &PrintKey) -> u64 {
        self.user.as_ref().map_or(0, |user| key.tag(user))
    }

    fn login(&self) -> Proof {
        if self.may_edit { Proof::Editor } else { Proof::LoggedIn }
    }

    /// A cookie that the response sets, and what it proves.
    pub fn issued(&self, key: &PrintKey) -> Option<(Print, Proof)> {
        let proof = match self.word? {
            VisitorStatement::Login => self.login(),
            VisitorStatement::Cart => Proof::Cart,
            _ => return None,
        };
        Some((key.print(self.by.as_ref()?, self.issued.as_ref()?), proof))
    }
}

impl Report {
    /// What it says about the cart that it proves, for a run that began at `begun`. `longest`: how long a pass is
    /// valid at most; 0: there are none.
    pub fn cart(&self, key: &PrintKey, begun: Millis, longest: Millis) -> CartState {
        let note = &self.pass;
        let Some(seconds) = note.seconds.filter(|_| note.held.is_none()) else {
            return CartState::Held(note.held.as_deref().map_or(CartHold::Unknown, CartHold::of));
        };
        let is_fit = !note.with.is_empty()
            && note.with.len() <= MOST_COMPANIONS
            && !note.items.is_empty()
            && note.items.len() <= MOST_ITEMS
            && self.word == Some(VisitorStatement::Cart);
        let time = seconds.saturating_mul(1000).min(longest);
        if !is_fit || time == 0 {
            return CartState::Held(if is_fit { CartHold::Expired } else { CartHold::Unknown });
        }
        let companions = note.with.iter().map(|(name, value)| key.print(name, value)).collect();
        let items = note.items.clone().into();
        let (until, has_address) = (begun.saturating_add(time), note.has_address);
        CartState::Passes(Arc::new(Pass { until, companions, items, has_address }))
    }

    /// The page that the run has made, if its visitor is worth a pass; `cookies`: those of its request.
    pub fn cart_page<'a>(
        &self,
        key: &PrintKey,
        mut cookies: impl Iterator<Item = &'a Cookie>,
    ) -> Option<CartPage> {
        let note = &self.pass;
        let is_worth =
            note.seconds.is_some() && note.held.is_none() && self.word == Some(VisitorStatement::Cart);
        let kind = note.kind.clone().filter(|_| is_worth)?;
        let (blanks, items) = (note.blanks.clone(), note.items.clone().into());
        let known = cookies.find(|cookie| self.by.as_deref() == Some(&*cookie.name));
        let visitor = self.issued(key).map(|(print, _)| print).or_else(|| Some(known?.print))?;
        let (has_address, is_unread) = (note.has_address, self.is_unread);
        Some(CartPage { kind, blanks, items, has_address, is_unread, visitor })
    }

    /// What it says about the member whose login it proves, as for [`Report::cart`]. `None`: nothing, what was said before holds.
    pub fn member(&self, key: &PrintKey, begun: Millis, longest: Millis) -> Option<MemberState> {
        if self.word != Some(VisitorStatement::Login) || self.is_issued() {
            return None;
        }
        if let Some(why) = &self.pass.held {
            return Some(MemberState::Held(MemberHold::of(why)));
        }
        let time = self.pass.seconds?.saturating_mul(1000).min(longest);
        Some(match self.member_pass(key, begun.saturating_add(time)) {
            Some(pass) if time > 0 => MemberState::Passes(Arc::new(pass)),
            Some(_) => MemberState::Held(MemberHold::Expired),
            None => MemberState::Held(MemberHold::Unknown),
        })
    }

    fn member_pass(&self, key: &PrintKey, until: Millis) -> Option<MemberPass> {
        let note = &self.pass;
        let (id, role, rows) = (self.user.clone()?, note.role.clone()?, note.rows.clone()?);
        let values: Values = note.values.iter().flatten().map(|value| value.as_bytes().into()).collect();
        let bytes =
            id.len() + role.len() + rows.len() + values.iter().map(|value| value.len()).sum::<usize>();
        let is_fit = !id.is_empty()
            && note.values.is_some()
            && !role.is_empty()
            && !rows.is_empty()
            && bytes <= MOST_OF_PASS
            && values.len() <= MOST_VALUES;
        is_fit.then(|| MemberPass { until, user: key.tag(&id), id, role, rows, values })
    }

    /// The page that the run has made for the member who gets this pass.
    pub fn member_page(&self, state: &MemberState) -> Option<MemberPage> {
        let MemberState::Passes(pass) = state else { return None };
        let note = &self.pass;
        let kind = note.kind.clone()?;
        let shared = note.page.filter(|_| *kind != *b"none" && self.tags.len() <= MOST_TAGS);
        // With one that is lost, a purge might miss the page.
        let tags = self.tags.split(|byte| *byte == b',').map(decoded).collect::<Option<Vec<_>>>();
        let shared = shared.zip(tags).map(|(seconds, tags)| {
            let tags = tags.join(",").into_bytes().into();
            SharedPage { kind, seconds, tags }
        });
        Some(MemberPage { pass: pass.clone(), shared })
    }

    /// Whether the cookie that proves the visitor is one that the response sets, not one of the request.
    pub fn is_issued(&self) -> bool {
        self.issued.is_some()
    }

    /// Whether the request already had a cookie of the name that proves the visitor.
    pub fn replaces<'a>(&self, mut cookies: impl Iterator<Item = &'a Cookie>) -> bool {
        cookies.any(|cookie| self.by.as_deref() == Some(&*cookie.name))
    }
}

impl PassNote {
    fn hear(&mut self, name: &[u8], value: &[u8]) {
        let list = || value.split(|byte| *byte == b',').filter(|item| !item.is_empty());
        let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match name {
            b"held" => self.held = Some(value.into()),
            b"pass" => self.seconds = number(),
            b"with" => self.with = list().filter_map(first_pair).collect(),
            b"items" => self.items = list().map(Box::from).collect(),
            b"address" => self.has_address = value == b"1",
            b"kind" => self.kind = Some(value.into()),
            b"blank" => self.blanks = list().filter_map(decoded).collect(),
            b"role" => self.role = Some(value.into()),
            b"rows" => self.rows = Some(value.into()),
            b"page" => self.page = number(),
            // An empty one is a value, too.
            b"values" => self.values = value.split(|byte| *byte == b',').map(decoded).collect(),
            _ => {}
        }
    }
}

/// `name:value`; of several colons the first one counts.
fn first_pair(text: &[u8]) -> Option<NamedValue> {
    let at = memchr::memchr(b':', text)?;
    Some((text[..at].into(), text[at + 1..].into()))
}

/// Percent-encoded text.
fn decoded(text: &[u8]) -> Option<String> {
    String::from_utf8(percent::decode(text)?).ok()
}

impl Session {
    fn of(state: &[u8]) -> Session {
        match state {
            b"filled" => Session::Filled,
            b"empty" => Session::Empty,
            b"absent" => Session::Absent,
            b"gone" => Session::Gone,
            _ => Session::Unsure,
        }
    }
}

/// `a:b`; of several colons the last one counts.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b':', text)?;
    Some((&text[..at], &text[at + 1..])).filter(|(first, _)| !first.is_empty())
}
