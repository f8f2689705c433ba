//! One page: the request to the server, and its response.
//!
//! `POST /warm` with `url`, and `content=1` to get the content if it is XML or plain text. The response is 200 with
//! lines `name: value` (`outcome`, `status`, `detail`), and after an empty line the content; or 422 with what is
//! wrong with the URL.

use crate::admin;
use crate::args::AdminArgs;
use crate::failure::Failure;
use crate::http::form;
use std::time::Duration;

/// How often progress is printed without a terminal.
pub const TELL_EVERY: Duration = Duration::from_secs(10);

/// The server's result for a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The outcome.
    pub outcome: Outcome,
    /// Why it is not cached, or what is wrong with the URL.
    pub detail: String,
    /// The content, if it was requested and may be a sitemap.
    pub content: Option<String>,
}

/// The outcome for a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was generated and is cached now.
    Stored,
    /// It was already cached.
    Hit,
    /// It was generated and is not cacheable.
    NotKept,
    /// PHP is busy with visitors: try again.
    Busy,
    /// PHP failed.
    Failed,
    /// It is not on this server.
    Foreign,
}

/// Makes the server fetch `url`.
///
/// # Errors
/// No server responds, or it rejects the URL.
pub fn fetch(admin: &AdminArgs, url: &str, content: bool) -> Result<Fetched, Failure> {
    let form = form(&[("url", url), ("content", if content { "1" } else { "0" })]);
    let answer = admin::ask(admin, "POST", "/warm", &form)?;
    match answer.status {
        200 => read(&answer.text()).ok_or_else(|| Failure::new("the server's response is invalid")),
        422 => Ok(Fetched {
            outcome: Outcome::Foreign,
            detail: answer.text().trim_end().to_owned(),
            content: None,
        }),
        status => Err(Failure::new(format!("warming failed ({status}): {}", answer.text().trim_end()))),
    }
}

fn read(text: &str) -> Option<Fetched> {
    let (head, content) = text.split_once("\n\n").unwrap_or((text, ""));
    let value = |name: &str| {
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.to_owned())
    };
    let outcome = match value("outcome")?.as_str() {
        "stored" => Outcome::Stored,
        "hit" => Outcome::Hit,
        "not cached" => Outcome::NotKept,
        "busy" => Outcome::Busy,
        "failed" => Outcome::Failed,
        _ => return None,
    };
    let status = value("status").unwrap_or_default();
    let detail = match value("detail").filter(|detail| !detail.is_empty()) {
        Some(detail) => detail,
        None => format!("status {status}"),
    };
    Some(Fetched { outcome, detail, content: (!content.is_empty()).then(|| content.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let fetched = read("outcome: not cached\nstatus: 200\ndetail: private\n\n<urlset/>\n\nmore")
            .expect("an answer");
        assert_eq!(
            (fetched.outcome, fetched.detail.as_str(), fetched.content.as_deref()),
            (Outcome::NotKept, "private", Some("<urlset/>\n\nmore"))
        );
        let fetched = read("outcome: failed\nstatus: 500\n").expect("an answer");
        assert_eq!(
            (fetched.outcome, fetched.detail.as_str(), fetched.content),
            (Outcome::Failed, "status 500", None)
        );
        assert_eq!(read("outcome: strange\n"), None);
        assert_eq!(read("<html>"), None);
    }
}
