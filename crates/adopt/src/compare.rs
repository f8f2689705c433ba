//! Compares the responses of two servers to one request: status, Location, Content-Type and content.

use millrace_wire::percent;

/// What is compared of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// `Location`.
    pub location: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// Content, decoded.
    pub content: Vec<u8>,
}

/// A difference: its kind, for counting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// `status`, `location`, `type` or `content`.
    pub kind: &'static str,
    /// What was, and what is.
    pub text: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What differs.
    pub differences: Vec<Difference>,
    /// The content was not compared: it changes with each request in more than a few words.
    pub is_unsteady: bool,
}

/// Compares `new` with two responses of the old server, one from before it and one from after it: what differs between
/// them is noise. `hosts` are the names of both servers and the host that was asked for.
#[must_use]
pub fn compare(before: &Answer, new: &Answer, after: &Answer, hosts: &[String]) -> Comparison {
    let mut comparison = Comparison::default();
    if before.status != after.status {
        comparison.is_unsteady = true;
        return comparison;
    }
    let mut add = |kind, text: String| comparison.differences.push(Difference { kind, text });
    if before.status != new.status {
        add("status", format!("{} -> {}", before.status, new.status));
        return comparison;
    }
    let (old_location, new_location) = (place(before, hosts), place(new, hosts));
    if old_location != new_location && place(after, hosts) == old_location {
        add(
            "location",
            format!("{} -> {}", old_location.unwrap_or_default(), new_location.unwrap_or_default()),
        );
    }
    // The text of a redirect or an error is the server's own.
    if before.status != 200 {
        return comparison;
    }
    if !same_type(before.content_type.as_deref(), new.content_type.as_deref()) {
        let text = |answer: &Answer| answer.content_type.clone().unwrap_or_else(|| "none".to_owned());
        add("type", format!("{} -> {}", text(before), text(new)));
    }
    match same_content(&before.content, &new.content, &after.content) {
        Some(true) => {}
        Some(false) => {
            let text = format!("{} bytes -> {} bytes", before.content.len(), new.content.len());
            comparison.differences.push(Difference { kind: "content", text });
        }
        None => comparison.is_unsteady = true,
    }
    comparison
}

/// A location without the name and port of its server, if that is one of the two.
fn place(answer: &Answer, hosts: &[String]) -> Option<String> {
    let location = &decoded(answer.location.as_deref()?);
    let Some((scheme, rest)) = location.split_once("://") else { return Some(location.to_owned()) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let name = |authority: &str| {
        let end =
            authority.rfind(':').filter(|at| !authority[*at..].contains(']')).unwrap_or(authority.len());
        authority[..end].to_ascii_lowercase()
    };
    let is_own = hosts.iter().any(|host| name(host) == name(authority));
    let path = if path.is_empty() { "/" } else { path };
    Some(match (is_own, scheme) {
        // A redirect to the same place over TLS is no redirect to the same place.
        (true, "https") => format!("https:{path}"),
        (true, _) => path.to_owned(),
        (false, _) => format!("{scheme}://{authority}{path}"),
    })
}

/// A URL without needless percent-encoding: `%6e` is `n` (RFC 3986 section 6.2.2.2).
fn decoded(url: &str) -> String {
    let (mut out, mut rest) = (String::new(), url);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let octet = percent::octet(after.as_bytes());
        match octet.filter(|octet| octet.is_ascii_alphanumeric() || b"-._~".contains(octet)) {
            Some(octet) => {
                out.push(char::from(octet));
                rest = &after[2..];
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out + rest
}

/// Whether two media types mean the same; a charset counts if both have one.
fn same_type(old: Option<&str>, new: Option<&str>) -> bool {
    let parts = |text: &str| {
        let text = text.to_ascii_lowercase();
        let (kind, rest) = text.split_once(';').unwrap_or((&text, ""));
        let charset = rest
            .split(';')
            .find_map(|part| part.trim().strip_prefix("charset=").map(|c| c.trim_matches('"').to_owned()));
        let kind = match kind.trim() {
            "application/javascript" | "application/x-javascript" => "text/javascript",
            "application/xml" => "text/xml",
            "image/vnd.microsoft.icon" => "image/x-icon",
            "application/font-woff" | "application/x-font-woff" => "font/woff",
            "application/x-font-ttf" => "font/ttf",
            kind => kind,
        };
        (kind.to_owned(), charset)
    };
    match (old.map(parts), new.map(parts)) {
        (Some((old, old_charset)), Some((new, new_charset))) => {
            old == new && (old_charset.is_none() || new_charset.is_none() || old_charset == new_charset)
        }
        // nginx says application/octet-stream where others say nothing.
        (None, Some((kind, _))) | (Some((kind, _)), None) => kind == "application/octet-stream",
        (None, None) => true,
    }
}

/// Whether the content is the same but for words that change in the old server by itself; `None`: it has other words each
/// time.
fn same_content(before: &[u8], new: &[u8], after: &[u8]) -> Option<bool> {
    if before == new || after == new {
        return Some(true);
    }
    if before == after {
        return Some(false);
    }
    let (before, new, after) = (words(before), words(new), words(after));
    if before.len() != after.len() {
        return None;
    }
    let fixed = before.iter().zip(&after).map(|(one, other)| (one == other).then_some(one));
    Some(
        before.len() == new.len()
            && fixed.zip(&new).all(|(fixed, new)| fixed.is_none_or(|fixed| fixed == new)),
    )
}

/// Words, and what is between them.
fn words(content: &[u8]) -> Vec<&[u8]> {
    content.chunk_by(|one, other| one.is_ascii_alphanumeric() == other.is_ascii_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, location: &str, kind: &str, content: &str) -> Answer {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Answer {
            status,
            location: some(location),
            content_type: some(kind),
            content: content.as_bytes().to_vec(),
        }
    }

    fn kinds(old: &Answer, new: &Answer) -> Vec<&'static str> {
        let hosts = ["a.example".to_owned(), "127.0.0.1:8080".to_owned()];
        compare(old, new, old, &hosts).differences.iter().map(|difference| difference.kind).collect()
    }

    #[test]
    fn what_differs() {
        let page = answer(200, "", "text/html", "<p>a");
        assert!(kinds(&page, &page).is_empty());
        assert_eq!(kinds(&page, &answer(404, "", "text/html", "<p>a")), ["status"]);
        assert_eq!(kinds(&page, &answer(200, "", "text/plain", "<p>b")), ["type", "content"]);
        assert!(kinds(&page, &answer(200, "", "text/html; charset=utf-8", "<p>a")).is_empty());
        assert_eq!(
            kinds(
                &answer(200, "", "text/html; charset=latin1", ""),
                &answer(200, "", "text/html; charset=utf-8", "")
            ),
            ["type"]
        );
        assert!(
            kinds(
                &answer(200, "", "application/javascript", ""),
                &answer(200, "", "text/javascript; charset=utf-8", "")
            )
            .is_empty()
        );
        assert!(kinds(&answer(404, "", "", "nginx"), &answer(404, "", "", "Millrace")).is_empty());
    }

    #[test]
    fn locations_without_their_servers() {
        let to = |location: &str| answer(301, location, "", "");
        assert!(kinds(&to("http://a.example:8080/x"), &to("/x")).is_empty());
        assert!(kinds(&to("http://127.0.0.1/x"), &to("http://a.example/x")).is_empty());
        assert!(kinds(&to("/%6eew%2f%"), &to("/new%2f%")).is_empty());
        assert_eq!(kinds(&to("http://a.example/x"), &to("/y")), ["location"]);
        assert_eq!(kinds(&to("https://a.example/x"), &to("/x")), ["location"]);
        assert_eq!(kinds(&to("https://b.example/x"), &to("https://c.example/x")), ["location"]);
    }

    #[test]
    fn what_changes_by_itself_is_noise() {
        let page = |nonce: &str, text: &str| {
            answer(200, "", "text/html", &format!("<a href='?n={nonce}'>{text}</a>"))
        };
        let by = |new: &Answer| compare(&page("1f", "x"), new, &page("2e", "x"), &[]);
        assert_eq!(by(&page("3d", "x")), Comparison::default());
        assert_eq!(by(&page("3d", "y")).differences[0].kind, "content");
        assert!(compare(&page("1", "x"), &page("2", "x"), &page("3 4", "x"), &[]).is_unsteady);
    }
}
