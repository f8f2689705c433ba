//! PHP's report about a visitor, during its run (NOTE frames) and at its end.
//!
//! ```text
//! login by=NAME [issued=VALUE] [user=ID] [site=END:DIGEST]   logged in, proven by the cookie NAME
//! cart by=NAME [issued=VALUE] ...                            something is in the cart
//! own [by=NAME] ...                                          something else that others don't see
//! none [profile] [except=NAME,NAME] ...                      nothing; `profile`: said of the profile's cookies only
//! unsure ...                                                 nothing can be said
//! forget user=ID                                             what was proven for this user, or for all (*), is void
//! end [session=NAME:STATE] [elsewhere] [failed]              the worker's own word, the last of a run
//! ```
//!
//! `by=:authorization` means the field `Authorization`. `issued`: the response sets that cookie to this value, so
//! that it is known before the client sends it.

use super::cookies::{Cookie, Print, PrintKey};
use super::{CookieState, Proof};

/// What a run of PHP has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    word: Option<VisitorStatement>,
    by: Option<Box<[u8]>>,
    issued: Option<Box<[u8]>>,
    user: Option<Box<[u8]>>,
    install: Option<Install>,
    only_profile: bool,
    except: Vec<Box<[u8]>>,
    session: Option<(Box<[u8]>, Session)>,
    /// Sessions are stored where a worker can't look them up.
    pub elsewhere: bool,
}

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
            b"end" => return self.hear_end(parts),
            _ => VisitorStatement::Unsure,
        };
        let session = self.session.take();
        *self = Report { word: Some(word), session, elsewhere: self.elsewhere, ..Report::default() };
        for part in parts {
            let end = memchr::memchr(b'=', part).unwrap_or(part.len());
            let value = part.get(end + 1..).unwrap_or_default();
            match &part[..end] {
                b"by" => self.by = Some(value.into()),
                b"issued" => self.issued = Some(value.into()),
                b"user" => self.user = Some(value.into()),
                b"site" => {
                    let install =
                        |(end, digest): (&[u8], &[u8])| Install { end: end.into(), digest: digest.into() };
                    self.install = pair(value).map(install);
                }
                b"profile" => self.only_profile = true,
                b"except" => self.except = value.split(|byte| *byte == b',').map(Box::from).collect(),
                _ => {}
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
                _ => {
                    let session = part.strip_prefix(b"session=").and_then(pair);
                    self.session = session.map(|(name, state)| (name.into(), Session::of(state)));
                }
            }
        }
        heard
    }

    /// What it says about a cookie; `None`: the cookie's result is to be removed. `installs`: all known installations
    /// of the application; `elsewhere`: a session that could not be looked up says nothing.
    pub fn of(&self, cookie: &Cookie, installs: &[Install], elsewhere: bool) -> Option<CookieState> {
        if let Some((_, session)) = self.session.as_ref().filter(|(name, _)| *name == cookie.name) {
            match session {
                Session::Filled => return Some(CookieState::Proven(Proof::Session)),
                Session::Empty => return Some(CookieState::Anonymous),
                Session::Absent if !elsewhere => return Some(CookieState::Anonymous),
                Session::Gone => return None,
                Session::Absent | Session::Unsure => {}
            }
        }
        let is_meant = self.by.as_deref() == Some(&*cookie.name) && self.issued.is_none();
        Some(match self.word {
            Some(VisitorStatement::Login) if is_meant => CookieState::Proven(Proof::LoggedIn),
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

    /// A cookie that the response sets, and what it proves.
    pub fn issued(&self, key: &PrintKey) -> Option<(Print, Proof)> {
        let proof = match self.word? {
            VisitorStatement::Login => Proof::LoggedIn,
            VisitorStatement::Cart => Proof::Cart,
            _ => return None,
        };
        Some((key.print(self.by.as_ref()?, self.issued.as_ref()?), proof))
    }
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
