//! `cache explain`: has the running server say why a page is or isn't cached.

use crate::admin;
use crate::args::CacheExplainArgs;
use crate::failure::Failure;
use crate::http::form;
use crate::serve::say;

/// Prints why a page is or isn't cached.
///
/// # Errors
/// When no server responds, or it rejects the question.
pub fn explain(args: &CacheExplainArgs) -> Result<(), Failure> {
    let answer = admin::ask(&args.admin, "POST", "/explain", &question(args))?;
    let text = answer.text();
    match answer.status {
        200 => say(text.trim_end()),
        404 => Err(Failure::new("the running server is older than this command: it can't explain pages")
            .next("restart the server with this version of Millrace")),
        413 => Err(Failure::new("cannot explain: the cookies and header fields are too long")
            .next("leave out those that have nothing to do with the page")),
        _ => Err(Failure::new(format!("cannot explain: {}", text.trim_end()))),
    }
}

fn question(args: &CacheExplainArgs) -> Vec<u8> {
    let client = args.client.map(|address| address.to_string());
    let mut pairs = vec![("url", args.url.as_str())];
    pairs.extend(client.iter().map(|address| ("client", address.as_str())));
    pairs.extend(args.cookie.iter().map(|cookie| ("cookie", cookie.as_str())));
    pairs.extend(args.header.iter().map(|header| ("field", header.as_str())));
    pairs.extend(args.json.then_some(("json", "1")));
    form(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_sent() {
        let args = CacheExplainArgs {
            url: "/a?b=1".to_owned(),
            cookie: vec!["x=1 2".to_owned(), "y=".to_owned()],
            header: vec!["Accept: a/b".to_owned()],
            json: true,
            ..CacheExplainArgs::default()
        };
        let sent = String::from_utf8(question(&args)).expect("ASCII");
        assert_eq!(sent, "url=%2Fa%3Fb%3D1&cookie=x%3D1+2&cookie=y%3D&field=Accept%3A+a%2Fb&json=1");
    }
}
