//! The concerned cookies of a request, and their keyed hashes.

use std::hash::{BuildHasher, RandomState};

use crate::ask::{add_cookie, as_php_sees, each_cookie};
use crate::rules::{Patterns, Rules};

/// A keyed hash of a cookie: std's SipHash, with a random key in each process, once for each half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Print(u128);

/// The key of all [`Print`]s of a process.
#[derive(Clone, Debug, Default)]
pub struct PrintKey(RandomState);

impl PrintKey {
    /// The print of a cookie, from its name as PHP sees it and its value as sent.
    pub fn print(&self, name: &[u8], value: &[u8]) -> Print {
        let half = |number: u8| u128::from(self.0.hash_one((number, name, value)));
        Print(half(0) << 64 | half(1))
    }

    /// A number for a user; 0 for `*`, which means all users.
    pub fn tag(&self, user: &[u8]) -> u64 {
        if user == b"*" { 0 } else { self.0.hash_one((2u8, user)) | 1 }
    }
}

/// Which cookies are concerned.
#[derive(Debug)]
pub struct ConcernedCookies {
    all: Patterns,
    application: Patterns,
    harmless: Rules,
    chosen: Patterns,
}

/// The name of `Authorization` among the cookies: no cookie can have it.
pub const AUTHORIZATION: &[u8] = b":authorization";
/// A request with more concerned cookies never gets priority.
const MOST: usize = 32;

/// A concerned cookie of a request.
#[derive(Debug)]
pub struct Cookie {
    /// Its keyed hash.
    pub print: Print,
    /// Its name, as PHP sees it.
    pub name: Box<[u8]>,
    /// The application's own hooks can judge it.
    pub of_application: bool,
    /// The site's settings name it: what the application says about it does not count.
    pub is_chosen: bool,
}

/// The concerned cookies of a request.
#[derive(Debug, Default)]
pub struct Cookies {
    list: Vec<Cookie>,
    /// There are too many, several with one name, or ones whose name PHP changes.
    torn: bool,
}

impl ConcernedCookies {
    /// The cookies that an application's profile names, which its hooks can judge, session cookies of PHP and
    /// frameworks, and the ones that the settings have `chosen` for bypassing the page cache.
    pub fn new(application: &[&str], chosen: &[String]) -> ConcernedCookies {
        let mut harmless = Rules::profile();
        harmless.chosen_cookies.extend(chosen);
        let mut all = Patterns::new(crate::rules::SESSION_COOKIES);
        all.extend(application);
        all.extend(chosen);
        ConcernedCookies {
            all,
            application: Patterns::new(application),
            harmless,
            chosen: Patterns::new(chosen),
        }
    }

    /// Whether a cookie with this name, as sent, is concerned.
    pub fn is_concerned(&self, name: &[u8]) -> bool {
        self.matches(as_php_sees(name, &mut [0; 128]))
    }

    fn matches(&self, seen: Option<&[u8]>) -> bool {
        seen.is_some_and(|seen| self.all.matches(seen) && !self.harmless.is_harmless(seen))
    }

    /// The concerned cookies of a request with these fields.
    pub fn read<'a>(&self, fields: impl Iterator<Item = (&'a str, &'a [u8])>, key: &PrintKey) -> Cookies {
        let mut cookies = Cookies::default();
        for (name, value) in fields {
            if name.eq_ignore_ascii_case("cookie") {
                each_cookie(value).for_each(|(name, cookie)| self.take(name, cookie, key, &mut cookies));
            } else if name.eq_ignore_ascii_case("authorization") {
                let print = key.print(AUTHORIZATION, value);
                cookies.add(Cookie {
                    print,
                    name: AUTHORIZATION.into(),
                    of_application: true,
                    is_chosen: false,
                });
            }
        }
        cookies
    }

    fn take(&self, name: &[u8], cookie: &[u8], key: &PrintKey, cookies: &mut Cookies) {
        let mut room = [0; 128];
        let Some(seen) = as_php_sees(name, &mut room).filter(|seen| self.matches(Some(seen))) else { return };
        // PHP makes an array of these, or another name in another version: it has not seen this cookie.
        cookies.torn |= name.iter().any(|byte| matches!(byte, b'[' | b'%' | b'+'));
        let print = key.print(seen, value_of(cookie));
        let (of_application, is_chosen) = (self.application.matches(seen), self.chosen.matches(seen));
        cookies.add(Cookie { print, name: seen.into(), of_application, is_chosen });
    }

    /// Appends the cookies of a field that are not concerned to `others`, and of the rest those that the application can't judge to
    /// `sessions`. If nothing is appended, the field must be omitted.
    pub fn divide(&self, value: &[u8], others: &mut Vec<u8>, sessions: &mut Vec<u8>) {
        for (name, cookie) in each_cookie(value) {
            let is_judged =
                || as_php_sees(name, &mut [0; 128]).is_some_and(|seen| self.application.matches(seen));
            if !self.is_concerned(name) {
                add_cookie(others, cookie);
            } else if !is_judged() {
                add_cookie(sessions, cookie);
            }
        }
    }
}

/// The value of `name=value`, as PHP reads it: the part after the first `=`.
fn value_of(cookie: &[u8]) -> &[u8] {
    memchr::memchr(b'=', cookie).map_or(&[][..], |at| &cookie[at + 1..])
}

impl Cookies {
    fn add(&mut self, cookie: Cookie) {
        if self.list.len() == MOST || self.list.iter().any(|other| other.name == cookie.name) {
            self.torn = true;
        } else {
            self.list.push(cookie);
        }
    }

    /// Each cookie once.
    pub fn iter(&self) -> impl Iterator<Item = &Cookie> {
        self.list.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether they are few, and all have different names: then it is known which of them PHP has seen.
    pub fn is_whole(&self) -> bool {
        !self.torn
    }

    /// Whether the site's settings name one of them: then requests bypass the page cache, whatever PHP says about it.
    pub fn has_chosen(&self) -> bool {
        self.list.iter().any(|cookie| cookie.is_chosen)
    }
}
