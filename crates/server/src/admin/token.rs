//! `admin.token`: who may read and change something through the admin address.
//!
//! ```text
//!                                       no admin.token     admin.token
//!  program, through the socket [0]      all                all: only its owner can open the file
//!  program, through a loopback, of
//!    root or the server's user [1]      all                reads; changes with the token
//!    a user as which only PHP runs [2]  probes             probes; all with the token
//!    another user                       reads              reads; changes with the token
//!  dashboard, through either            nothing            purges, with the token
//!
//!  [0] unless PHP runs as its user and it is confined as scripts are (or has ended): then as through a loopback
//!  [1] if no PHP scripts run as that user; otherwise it counts as another user
//!  [2] or an unknown one
//! ```
//!
//! So no script can change anything, whatever it connects to. What a script can read if PHP runs as the server's own user, that user's
//! browser and monitoring read, too, and nothing tells them apart.
//!
//! Wrong tokens are logged and counted. After [`WRONG_MOST`] in [`WRONG_PERIOD`] of a user or of the dashboard, none of these is compared any more
//! until some time has passed: right ones neither, or guessing could go on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millrace_settings::plan::Secret;

use super::caller::Caller;
use super::http::{AdminRequest, AdminResponse};

/// What changes something: the paths of POST requests.
const CHANGES: [&str; 4] = ["/reload", "/purge", "/warm", "/shield"];
/// What everyone may read.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];
/// What the dashboard may change.
const OF_DASHBOARD: &str = "/purge";

/// Wrong tokens in [`WRONG_PERIOD`].
const WRONG_MOST: usize = 10;
/// How long a wrong token counts.
const WRONG_PERIOD: Duration = Duration::from_secs(60);

/// Lets requests with the right token pass.
#[derive(Debug, Default)]
pub struct TokenGuard {
    /// When the last wrong tokens came, and from whom: a script's guesses keep out nobody else.
    wrong: VecDeque<(Instant, Caller)>,
}

/// Users of this machine, by their IDs.
#[derive(Debug)]
pub struct AdminUsers {
    /// The server's.
    pub server: u32,
    /// Those as which PHP scripts run.
    pub php: Vec<u32>,
}

/// What a user's programs may do without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserTrust {
    All,
    Reads,
    Probes,
}

impl AdminUsers {
    fn trust(&self, user: Option<u32>) -> UserTrust {
        let Some(user) = user else { return UserTrust::Probes };
        match (self.php.contains(&user), user == self.server) {
            (true, true) => UserTrust::Reads,
            (true, false) => UserTrust::Probes,
            (false, is_server) if is_server || user == 0 => UserTrust::All,
            (false, _) => UserTrust::Reads,
        }
    }
}

/// Why a request is not carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// A program of this user needs a token for this, and none is set.
    NotOfUser(Option<u32>),
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
        users: &AdminUsers,
        now: Instant,
    ) -> Result<(), TokenRefusal> {
        let is_change = asked.method == "POST" && CHANGES.contains(&&*asked.path);
        let without_token = match asked.caller {
            Caller::Owner => return Ok(()),
            Caller::Confined(user) if !user.is_none_or(|user| users.php.contains(&user)) => return Ok(()),
            // It gets the 405 or 404 that everyone gets.
            Caller::Dashboard if asked.method != "POST" => return Ok(()),
            Caller::Dashboard if asked.path != OF_DASHBOARD => return Err(TokenRefusal::NotOfDashboard),
            Caller::Dashboard => Err(TokenRefusal::NoneSet),
            Caller::Program(_) | Caller::Confined(_) if PROBES.contains(&&*asked.path) => return Ok(()),
            Caller::Program(user) | Caller::Confined(user) => match users.trust(user) {
                UserTrust::All | UserTrust::Reads if !is_change => return Ok(()),
                UserTrust::All => Ok(()),
                UserTrust::Reads | UserTrust::Probes => Err(TokenRefusal::NotOfUser(user)),
            },
        };
        match token {
            None => without_token,
            Some(_) if asked.token.is_empty() => Err(TokenRefusal::Missing),
            Some(token) => self.compare(token, asked, now),
        }
    }

    fn compare(&mut self, token: &Secret, asked: &AdminRequest, now: Instant) -> Result<(), TokenRefusal> {
        while self.wrong.front().is_some_and(|(at, _)| now.duration_since(*at) >= WRONG_PERIOD) {
            self.wrong.pop_front();
        }
        let mut its = self.wrong.iter().filter(|(_, caller)| *caller == asked.caller);
        let (first, rest) = (its.next(), its.count());
        if let Some((first, _)) = first.filter(|_| rest + 1 >= WRONG_MOST) {
            return Err(TokenRefusal::TooMany(WRONG_PERIOD - now.duration_since(*first)));
        }
        if token.is(&asked.token) {
            return Ok(());
        }
        self.wrong.push_back((now, asked.caller));
        Err(TokenRefusal::Wrong)
    }
}

impl TokenRefusal {
    /// The response: what is wrong, and what to do.
    pub fn response(&self) -> AdminResponse {
        match self {
            TokenRefusal::NotOfUser(user) => AdminResponse::text(403, refused(*user)),
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

/// What a program of this user is told.
fn refused(user: Option<u32>) -> String {
    let who = match user {
        Some(user) => format!("This request comes from a program of user {user}"),
        None => "It can't be found out which user sends this request".to_owned(),
    };
    format!(
        "{who}, which may be a PHP script. Its changes need the setting admin.token, and what a program of PHP's own user reads \
         through a TCP address needs it, too. Set admin.token and reload the server by SIGHUP, or let PHP run as another user than the \
         server (php.user), and admin.listen be a Unix socket.\n"
    )
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

    fn users() -> AdminUsers {
        AdminUsers { server: 5, php: vec![33] }
    }

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
            TokenGuard::default().admit(&asked, Some(&secret).filter(|_| set), &users(), now)
        };
        let right = "0123456789abcdef";
        for path in CHANGES {
            assert_eq!(said(Caller::Owner, path, "", true), Ok(()));
            assert_eq!(said(Caller::Program(Some(0)), path, "", false), Ok(()));
            assert_eq!(said(Caller::Program(Some(0)), path, "", true), Err(Missing));
            assert_eq!(said(Caller::Program(Some(0)), path, "x", true), Err(Wrong));
            assert_eq!(said(Caller::Program(Some(0)), path, right, true), Ok(()));
        }
        assert_eq!(said(Caller::Program(Some(0)), "/explain", "", true), Ok(()));
        assert_eq!(said(Caller::Dashboard, "/purge", right, true), Ok(()));
        assert_eq!(said(Caller::Dashboard, "/purge", "", true), Err(Missing));
        assert_eq!(said(Caller::Dashboard, "/purge", "0123456789abcdeg", true), Err(Wrong));
        assert_eq!(said(Caller::Dashboard, "/purge", right, false), Err(NoneSet));
        for path in ["/reload", "/warm", "/shield", "/explain", "/x"] {
            assert_eq!(said(Caller::Dashboard, path, right, true), Err(NotOfDashboard), "{path}");
        }
        let put = asked(Caller::Dashboard, "PUT", "/purge", "");
        assert_eq!(TokenGuard::default().admit(&put, Some(&secret), &users(), now), Ok(()));
    }

    /// The rows of the table above, for a server of its own user, of root, and one as whose user PHP runs.
    #[test]
    fn users_of_the_machine() {
        let (www, alice) = (Some(33), Some(1000));
        let (usual, own) = (users(), AdminUsers { server: 1000, php: vec![1000] });
        let rows = [
            (&usual, Some(0), UserTrust::All),
            (&usual, Some(5), UserTrust::All),
            (&usual, alice, UserTrust::Reads),
            (&usual, www, UserTrust::Probes),
            (&usual, None, UserTrust::Probes),
            (&own, alice, UserTrust::Reads),
            (&own, Some(0), UserTrust::All),
            (&own, www, UserTrust::Reads),
        ];
        for (users, user, trust) in rows {
            assert_eq!(users.trust(user), trust, "{users:?} {user:?}");
            let allowed = |method, path, token, set| {
                let secret = Secret("0123456789abcdef".to_owned());
                let asked = asked(Caller::Program(user), method, path, token);
                let set = Some(&secret).filter(|_| set);
                TokenGuard::default().admit(&asked, set, users, Instant::now())
            };
            // A script of the server's own user reaches the socket file, too.
            let asked = asked(Caller::Confined(user), "POST", "/reload", "");
            let through_file = TokenGuard::default().admit(&asked, None, users, Instant::now());
            assert_eq!(through_file.is_ok(), user.is_some_and(|user| !users.php.contains(&user)));
            assert_eq!(allowed("GET", "/healthz", "", true), Ok(()));
            assert_eq!(allowed("GET", "/status.json", "", false).is_ok(), trust != UserTrust::Probes);
            assert_eq!(allowed("GET", "/status.json", "", true).is_ok(), trust != UserTrust::Probes);
            let reload = allowed("POST", "/reload", "", false);
            assert_eq!(
                reload,
                if trust == UserTrust::All { Ok(()) } else { Err(TokenRefusal::NotOfUser(user)) }
            );
            for (method, path) in [("POST", "/reload"), ("GET", "/status.json"), ("POST", "/explain")] {
                assert_eq!(allowed(method, path, "0123456789abcdef", true), Ok(()));
            }
        }
    }

    #[test]
    fn guesses_are_bounded() {
        let secret = Secret("0123456789abcdef".to_owned());
        let (mut guard, began) = (TokenGuard::default(), Instant::now());
        let mut said_by = |caller, token: &str, after: u64| {
            let asked = asked(caller, "POST", "/purge", token);
            guard.admit(&asked, Some(&secret), &users(), began + Duration::from_secs(after))
        };
        for second in 0..10 {
            assert_eq!(said_by(Caller::Dashboard, "guess", second), Err(TokenRefusal::Wrong));
        }
        assert_eq!(said_by(Caller::Program(Some(0)), "0123456789abcdef", 10), Ok(()), "another program");
        let mut said = |token: &str, after| said_by(Caller::Dashboard, token, after);
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
            (TokenRefusal::NotOfUser(None), 403, "It can't be found out which user"),
            (TokenRefusal::NotOfUser(Some(33)), 403, "a program of user 33"),
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
