//! Why no certificate has come, and what to do about it.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Identifier, Problem};

/// Types of problems that we tell apart (RFC 8555 section 6.7).
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Whose fault it is, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The authority can't be reached, or is not itself.
    Unreachable,
    /// It has been asked too often.
    RateLimited,
    /// It has looked at a name and did not find us.
    NotFoundThere,
    /// It doesn't know our account.
    NoAccount,
    /// It does not want to.
    Refused,
    /// The folder where certificates are kept.
    Disk,
}

/// Why no certificate has come, or none can be kept. The keeper logs it with [`advice`](Failure::advice), and tries again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault.
    pub cause: Cause,
    /// What has happened.
    pub text: String,
    /// When the authority wants to be asked again.
    pub retry_after: Option<Duration>,
    /// Names that are the reason, if some are.
    pub names: Vec<String>,
}

impl Failure {
    /// Something that is not the authority's answer.
    pub fn new(cause: Cause, text: impl Into<String>) -> Failure {
        Failure { cause, text: text.into(), retry_after: None, names: Vec::new() }
    }

    /// The same, if the authority has said for how long it wants to be left alone.
    pub fn not_before(self, pause: Option<Duration>) -> Failure {
        Failure { retry_after: pause.or(self.retry_after), ..self }
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        match self.cause {
            Cause::Unreachable => {
                "this machine has to reach the certificate authority by HTTPS: look at its DNS, its firewall and its clock"
            }
            Cause::RateLimited => {
                "nothing helps but to wait; while you try things out use acme.directory = \"staging\", whose limits are wide \
                 (Let's Encrypt: https://letsencrypt.org/docs/rate-limits/)"
            }
            Cause::NotFoundThere => {
                "every name has to lead to this machine (DNS: A and AAAA records), and port 80 or port 443 has to reach \
                 Millrace from everywhere: look at firewalls, port forwarding and other web servers, then `millrace reload`"
            }
            Cause::NoAccount => "a new account is made",
            Cause::Refused => {
                "correct the names or the settings under [acme] if that is the reason, then `millrace reload`"
            }
            Cause::Disk => "it is tried again by itself",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Api(problem) => {
                let cause = match problem.r#type.as_deref() {
                    Some(RATE_LIMITED) => Cause::RateLimited,
                    Some(NO_ACCOUNT) => Cause::NoAccount,
                    _ => Cause::Refused,
                };
                let text = format!("the certificate authority says: {}", told(&problem));
                // Bad luck several times in a row: a new nonce is all that it takes (RFC 8555 section 6.5). So is a new account.
                let is_soon = cause == Cause::NoAccount || problem.r#type.as_deref() == Some(BAD_NONCE);
                let retry_after = is_soon.then_some(Duration::from_secs(1));
                Failure { cause, text, retry_after, names: names(&problem) }
            }
            Error::Timeout(_) => {
                Failure::new(Cause::Refused, "the certificate authority takes too long to decide")
            }
            Error::Other(error) => match error.downcast::<Failure>() {
                // What our own client has found out.
                Ok(failure) => *failure,
                Err(error) => Failure::new(Cause::Refused, error.to_string()),
            },
            Error::Json(error) => {
                Failure::new(Cause::Unreachable, format!("what answers is no certificate authority: {error}"))
            }
            error => Failure::new(Cause::Refused, error.to_string()),
        }
    }
}

impl std::error::Error for Failure {}

/// Those that the problem is about (RFC 8555 section 6.7.1).
fn names(problem: &Problem) -> Vec<String> {
    let named = problem.subproblems.iter().filter_map(|sub| match &sub.identifier {
        Some(Identifier::Dns(name)) => Some(name.clone()),
        _ => None,
    });
    named.collect()
}

/// A problem in one line.
pub fn told(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or("about:blank");
    let kind = kind.rsplit(':').next().unwrap_or(kind);
    let mut text = match &problem.detail {
        Some(detail) => format!("{detail} ({kind})"),
        None => kind.to_owned(),
    };
    for sub in &problem.subproblems {
        text.push_str(&format!("; {sub}"));
    }
    text
}
