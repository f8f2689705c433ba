//! Why no certificate was issued, and what to do about it.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Identifier, Problem};

/// Types of problems that are distinguished (RFC 8555 section 6.7).
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The certificate authority is unreachable, or its TLS certificate is invalid.
    Unreachable,
    /// A rate limit of the authority is exceeded.
    RateLimited,
    /// The authority could not validate a name: it does not lead to this server.
    NotFoundThere,
    /// The authority does not know the account.
    NoAccount,
    /// The authority rejects the order.
    Refused,
    /// The folder for certificates is not usable.
    Disk,
}

/// Why there is no certificate, or why it cannot be stored. The keeper logs it with [`advice`](AcmeFailure::advice), and retries by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeFailure {
    /// The kind of failure.
    pub cause: Cause,
    /// The error, for the log.
    pub text: String,
    /// How long the authority asks to wait.
    pub retry_after: Option<Duration>,
    /// Names that failed, if the failure is about some of them.
    pub names: Vec<String>,
}

impl AcmeFailure {
    /// A failure without a response of the authority.
    pub fn new(cause: Cause, text: impl Into<String>) -> AcmeFailure {
        AcmeFailure { cause, text: text.into(), retry_after: None, names: Vec::new() }
    }

    /// Adds how long the authority asks to wait.
    pub fn not_before(self, pause: Option<Duration>) -> AcmeFailure {
        AcmeFailure { retry_after: pause.or(self.retry_after), ..self }
    }

    /// What the administrator can do.
    pub fn advice(&self) -> &'static str {
        match self.cause {
            Cause::Unreachable => {
                "this machine must reach the certificate authority over HTTPS: check its DNS, firewall and clock"
            }
            Cause::RateLimited => {
                "wait until the rate limit expires; for tests, use acme.directory = \"staging\", which has higher \
                 limits (Let's Encrypt: https://letsencrypt.org/docs/rate-limits/)"
            }
            Cause::NotFoundThere => {
                "every name must point to this machine (DNS: A and AAAA records), and port 80 or port 443 must reach \
                 Millrace from the internet: check firewalls, port forwarding and other web servers, then run \
                 `millrace reload`"
            }
            Cause::NoAccount => "Millrace registers a new account",
            Cause::Refused => {
                "if the names or the settings in [acme] are wrong, correct them, then run `millrace reload`"
            }
            Cause::Disk => "Millrace retries automatically",
        }
    }
}

impl fmt::Display for AcmeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for AcmeFailure {
    fn from(error: Error) -> AcmeFailure {
        match error {
            Error::Api(problem) => {
                let cause = match problem.r#type.as_deref() {
                    Some(RATE_LIMITED) => Cause::RateLimited,
                    Some(NO_ACCOUNT) => Cause::NoAccount,
                    _ => Cause::Refused,
                };
                let text = format!("the certificate authority reports: {}", told(&problem));
                // Bad nonces several times in a row: a new one is enough (RFC 8555 section 6.5). So is a new account.
                let is_soon = cause == Cause::NoAccount || problem.r#type.as_deref() == Some(BAD_NONCE);
                let retry_after = is_soon.then_some(Duration::from_secs(1));
                AcmeFailure { cause, text, retry_after, names: names(&problem) }
            }
            Error::Timeout(_) => AcmeFailure::new(
                Cause::Refused,
                "the certificate authority takes too long to validate the order",
            ),
            Error::Other(error) => match error.downcast::<AcmeFailure>() {
                // Found by our own client.
                Ok(failure) => *failure,
                Err(error) => AcmeFailure::new(Cause::Refused, error.to_string()),
            },
            Error::Json(error) => AcmeFailure::new(
                Cause::Unreachable,
                format!("the server at acme.directory is not a certificate authority: {error}"),
            ),
            error => AcmeFailure::new(Cause::Refused, error.to_string()),
        }
    }
}

impl std::error::Error for AcmeFailure {}

/// The names of a problem (RFC 8555 section 6.7.1).
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
