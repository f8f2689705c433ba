//! `admin.token`: who may change something through the admin address.
//!
//! ```text
//!                                   no admin.token     admin.token
//!  program, through the socket      all                all: only its owner can open the file
//!  program, through a loopback      all                with the token
//!  dashboard, through either        nothing            purges, with the token
//! ```
//!
//! Wrong tokens are logged and counted. After [`WRONG_MOST`] in [`WRONG_PERIOD`], none is compared any more until some time has passed: right
//! ones neither, or guessing could go on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millrace_settings::plan::Secret;

use super::caller::Caller;
use super::http::{AdminRequest, AdminResponse};

/// What changes something: the paths of POST requests.
const CHANGES: [&str; 4] = ["/reload", "/purge", "/warm", "/shield"];
/// What the dashboard may change.
const OF_DASHBOARD: &str = "/purge";

/// Wrong tokens in [`WRONG_PERIOD`].
const WRONG_MOST: usize = 10;
/// How long a wrong token counts.
const WRONG_PERIOD: Duration = Duration::from_secs(60);

/// Lets requests with the right token pass.
#[derive(Debug, Default)]
pub struct TokenGuard {
    /// When the last wrong tokens came.
    wrong: VecDeque<Instant>,
}

/// Why a request may not change anything.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// The dashboard may not do this, whatever its token.
    NotOfDashboard,
    /// The dashboard has nothing to prove itself with.
    NoneSet,
    /// The request has no token.
    Missing,
    /// It has another one.
    Wrong,
    /// So many were wrong that this one was not looked at.
    TooMany(Duration),
}

impl TokenGuard {
    /// Whether the request may be carried out.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(
        &mut self,
        asked: &AdminRequest,
        token: Option<&Secret>,
        now: Instant,
    ) -> Result<(), TokenRefusal> {
        let is_change = asked.method == "POST" && CHANGES.contains(&&*asked.path);
        match asked.caller {
            Caller::Owner => return Ok(()),
            Caller::Program if !is_change => return Ok(()),
            // It gets the 405 or 404 that everyone gets.
            Caller::Dashboard if asked.method != "POST" => return Ok(()),
            Caller::Dashboard if asked.path != OF_DASHBOARD => return Err(TokenRefusal::NotOfDashboard),
            Caller::Program | Caller::Dashboard => {}
        }
        match (asked.caller, token) {
            (Caller::Dashboard, None) => Err(TokenRefusal::NoneSet),
            (_, None) => Ok(()),
            (_, Some(_)) if asked.token.is_empty() => Err(TokenRefusal::Missing),
            (_, Some(token)) => self.compare(token, &asked.token, now),
        }
    }

    fn compare(&mut self, token: &Secret, said: &str, now: Instant) -> Result<(), TokenRefusal> {
        while self.wrong.front().is_some_and(|at| now.duration_since(*at) >= WRONG_PERIOD) {
            self.wrong.pop_front();
        }
        if let Some(first) = self.wrong.front().filter(|_| self.wrong.len() >= WRONG_MOST) {
            return Err(TokenRefusal::TooMany(WRONG_PERIOD - now.duration_since(*first)));
        }
        if token.is(said) {
            return Ok(());
        }
        self.wrong.push_back(now);
        Err(TokenRefusal::Wrong)
    }
}

impl TokenRefusal {
    /// The response: what is wrong, and what to do.
    pub fn response(&self) -> AdminResponse {
        match self {
            TokenRefusal::NotOfDashboard => AdminResponse::text(
                403,
                "The dashboard can only purge pages. The command `millrace` does everything else: see `millrace help`.\n",
            ),
            TokenRefusal::NoneSet => AdminResponse::text(
                403,
                "The dashboard only reads. To purge with it, set admin.token in the configuration and reload the server.\n",
            ),
            TokenRefusal::Missing => challenge("Bearer realm=\"Millrace\"", "This request needs the token"),
            TokenRefusal::Wrong => challenge(
                "Bearer realm=\"Millrace\", error=\"invalid_token\"",
                "The token is wrong: this is not the one",
            ),
            TokenRefusal::TooMany(left) => {
                let seconds = left.as_secs().max(1).to_string();
                let text = format!(
                    "{WRONG_MOST} wrong tokens came within a minute: try again in {seconds} s. Through a Unix socket, `millrace` needs no token.\n"
                );
                AdminResponse::text(429, text).with("Retry-After", seconds)
            }
        }
    }
}

fn challenge(field: &str, what: &str) -> AdminResponse {
    let text = format!(
        "{what} of the setting admin.token. Send it as `Authorization: Bearer TOKEN`; the commands read it from the server's configuration, or \
         from the variable MILLRACE_ADMIN_TOKEN. If you have just changed it, the server has the old one until it is reloaded with SIGHUP.\n"
    );
    AdminResponse::text(401, text).with("WWW-Authenticate", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(caller: Caller, method: &str, path: &str, token: &str) -> AdminRequest {
        AdminRequest {
            caller,
            token: token.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            wants_page: false,
            content: Vec::new(),
        }
    }

    #[test]
    fn who_may_change_what() {
        use TokenRefusal::{Missing, NoneSet, NotOfDashboard, Wrong};
        let secret = Secret("0123456789abcdef".to_owned());
        let now = Instant::now();
        let said = |caller, path: &str, token: &str, set: bool| {
            let asked = asked(caller, "POST", path, token);
            TokenGuard::default().admit(&asked, Some(&secret).filter(|_| set), now)
        };
        let right = "0123456789abcdef";
        for path in CHANGES {
            assert_eq!(said(Caller::Owner, path, "", true), Ok(()));
            assert_eq!(said(Caller::Program, path, "", false), Ok(()));
            assert_eq!(said(Caller::Program, path, "", true), Err(Missing));
            assert_eq!(said(Caller::Program, path, "x", true), Err(Wrong));
            assert_eq!(said(Caller::Program, path, right, true), Ok(()));
        }
        assert_eq!(said(Caller::Program, "/explain", "", true), Ok(()));
        assert_eq!(said(Caller::Dashboard, "/purge", right, true), Ok(()));
        assert_eq!(said(Caller::Dashboard, "/purge", "", true), Err(Missing));
        assert_eq!(said(Caller::Dashboard, "/purge", "0123456789abcdeg", true), Err(Wrong));
        assert_eq!(said(Caller::Dashboard, "/purge", right, false), Err(NoneSet));
        for path in ["/reload", "/warm", "/shield", "/explain", "/x"] {
            assert_eq!(said(Caller::Dashboard, path, right, true), Err(NotOfDashboard), "{path}");
        }
        let put = asked(Caller::Dashboard, "PUT", "/purge", "");
        assert_eq!(TokenGuard::default().admit(&put, Some(&secret), now), Ok(()));
    }

    #[test]
    fn guesses_are_bounded() {
        let secret = Secret("0123456789abcdef".to_owned());
        let (mut guard, began) = (TokenGuard::default(), Instant::now());
        let mut said = |token: &str, after: u64| {
            let asked = asked(Caller::Dashboard, "POST", "/purge", token);
            guard.admit(&asked, Some(&secret), began + Duration::from_secs(after))
        };
        for second in 0..10 {
            assert_eq!(said("guess", second), Err(TokenRefusal::Wrong));
        }
        assert_eq!(said("guess", 10), Err(TokenRefusal::TooMany(Duration::from_secs(50))));
        assert_eq!(said("0123456789abcdef", 59), Err(TokenRefusal::TooMany(Duration::from_secs(1))));
        // No token is no guess.
        assert_eq!(said("", 59), Err(TokenRefusal::Missing));
        assert_eq!(said("0123456789abcdef", 60), Ok(()));
        assert_eq!(said("guess", 60), Err(TokenRefusal::Wrong));
        assert_eq!(said("guess", 60), Err(TokenRefusal::TooMany(Duration::from_secs(1))));
        assert_eq!(said("guess", 61), Err(TokenRefusal::Wrong));
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (refusal, status, words) in [
            (TokenRefusal::NoneSet, 403, "set admin.token"),
            (TokenRefusal::NotOfDashboard, 403, "millrace help"),
            (TokenRefusal::Missing, 401, "Authorization: Bearer TOKEN"),
            (TokenRefusal::Wrong, 401, "The token is wrong"),
            (TokenRefusal::TooMany(Duration::from_secs(9)), 429, "try again in 9 s"),
        ] {
            let response = refusal.response();
            assert_eq!(response.status(), status);
            assert!(format!("{response:?}").contains(words), "{response:?}");
        }
    }
}
