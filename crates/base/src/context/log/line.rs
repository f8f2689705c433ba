//! Formats lines of the access log. All data from a client is escaped: a line is one line, and a client can't forge
//! quotes.

use std::io::Write;
use std::time::Duration;

use super::access::{AccessEntry, LoggedRequest};
use super::time::CivilTime;

/// The current time in both formats, formatted once per second or millisecond instead of once per line.
#[derive(Debug, Default)]
pub struct LogTime {
    since: Option<Duration>,
    common: Vec<u8>,
    rfc3339: Vec<u8>,
}

impl LogTime {
    /// Sets the time since 1970.
    pub fn set(&mut self, since: Duration) {
        let known = |d: Duration| d.as_millis() == since.as_millis();
        if self.since.is_some_and(known) {
            return;
        }
        let time = CivilTime::from_unix(since);
        if self.since.is_none_or(|d| d.as_secs() != since.as_secs()) {
            self.common.clear();
            time.write_common_log(&mut self.common);
        }
        self.rfc3339.clear();
        time.write_rfc3339(&mut self.rfc3339);
        self.since = Some(since);
    }
}

/// `client - - [time] "request line" status bytes "referer" "user agent" seconds "host"`: the combined format of
/// Apache and nginx, whose parsers ignore the part after the user agent.
pub fn combined(out: &mut Vec<u8>, stamp: &LogTime, entry: &AccessEntry<'_>) {
    push_client(out, entry);
    out.extend_from_slice(b" - - [");
    out.extend_from_slice(&stamp.common);
    out.extend_from_slice(b"] \"");
    match entry.asked {
        LoggedRequest::Request { head, .. } => {
            out.extend_from_slice(head.method().as_bytes());
            out.push(b' ');
            push_quoted(out, head.target());
            out.push(b' ');
            out.extend_from_slice(head.version().text().as_bytes());
        }
        LoggedRequest::Malformed(start) => push_quoted(out, first_line(start)),
    }
    out.extend_from_slice(b"\" ");
    push_number(out, entry.status.into());
    out.push(b' ');
    push_number(out, entry.bytes);
    for name in ["Referer", "User-Agent"] {
        out.extend_from_slice(b" \"");
        match field(entry, name) {
            Some(value) => push_quoted(out, value),
            None => out.push(b'-'),
        }
        out.push(b'"');
    }
    out.push(b' ');
    push_seconds(out, entry.duration);
    out.extend_from_slice(b" \"");
    match entry.asked {
        LoggedRequest::Request { host, .. } if !host.is_empty() => {
            push_quoted(out, host.as_bytes());
        }
        _ => out.push(b'-'),
    }
    out.extend_from_slice(b"\"\n");
}

/// One JSON object (RFC 8259). Bytes that are not UTF-8 become the text `\xff`, as in the combined format.
pub fn json(out: &mut Vec<u8>, stamp: &LogTime, entry: &AccessEntry<'_>) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(&stamp.rfc3339);
    out.extend_from_slice(b"\",\"client\":\"");
    push_client(out, entry);
    out.push(b'"');
    match entry.asked {
        LoggedRequest::Request { head, host, site } => {
            push_member(out, "host", Some(host.as_bytes()));
            push_member(out, "site", site.map(str::as_bytes));
            push_member(out, "method", Some(head.method().as_bytes()));
            push_member(out, "target", Some(head.target()));
            push_member(out, "protocol", Some(head.version().text().as_bytes()));
        }
        LoggedRequest::Malformed(start) => push_member(out, "malformed", Some(first_line(start))),
    }
    out.extend_from_slice(b",\"status\":");
    push_number(out, entry.status.into());
    out.extend_from_slice(b",\"bytes\":");
    push_number(out, entry.bytes);
    out.extend_from_slice(b",\"seconds\":");
    push_seconds(out, entry.duration);
    push_member(out, "referer", field(entry, "Referer"));
    push_member(out, "user_agent", field(entry, "User-Agent"));
    out.extend_from_slice(b"}\n");
}

/// Bytes of a malformed request that are shown.
const MALFORMED_SHOWN: usize = 200;

fn first_line(start: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'\r', b'\n', start).unwrap_or(start.len());
    &start[..end.min(MALFORMED_SHOWN)]
}

fn field<'a>(entry: &AccessEntry<'a>, name: &str) -> Option<&'a [u8]> {
    match entry.asked {
        LoggedRequest::Request { head, .. } => head.field(name),
        LoggedRequest::Malformed(_) => None,
    }
}

fn push_client(out: &mut Vec<u8>, entry: &AccessEntry<'_>) {
    match entry.client {
        Some(std::net::IpAddr::V4(ip)) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                push_number(out, octet.into());
            }
        }
        // Writing to memory can't fail.
        Some(ip) => drop(write!(out, "{ip}")),
        None => out.extend_from_slice(b"unix"),
    }
}

/// Escapes as nginx does: quote, backslash, control characters and non-ASCII bytes become `\xHH`.
fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    push_escaped(
        out,
        text,
        |b| !matches!(b, b' '..=b'~') || matches!(b, b'"' | b'\\'),
        |out, piece| {
            push_hex(out, b"\\x", piece[0]);
            1
        },
    );
}

fn push_member(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    let Some(value) = value else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    push_escaped(out, value, |b| !matches!(b, b' '..=b'~') || matches!(b, b'"' | b'\\'), escape_json);
    out.push(b'"');
}

/// Escapes the start of `piece` for JSON; returns how many bytes that took.
fn escape_json(out: &mut Vec<u8>, piece: &[u8]) -> usize {
    match piece[0] {
        byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
        b'\t' => out.extend_from_slice(b"\\t"),
        byte @ (0..0x20 | 0x7f) => push_hex(out, b"\\u00", byte),
        byte => {
            let longest = &piece[..piece.len().min(4)];
            let valid = longest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let Some(character) = valid.chars().next() else {
                push_hex(out, b"\\\\x", byte);
                return 1;
            };
            let length = character.len_utf8();
            if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
                // Some parsers take both for line breaks.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            } else {
                out.extend_from_slice(&piece[..length]);
            }
            return length;
        }
    }
    1
}

/// Copies runs of plain bytes at once; `escape` handles the start of the rest and returns how much it took.
fn push_escaped(
    out: &mut Vec<u8>,
    text: &[u8],
    special: impl Fn(u8) -> bool,
    mut escape: impl FnMut(&mut Vec<u8>, &[u8]) -> usize,
) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| special(b)) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let taken = escape(out, rest);
        rest = &rest[taken..];
    }
    out.extend_from_slice(rest);
}

fn push_hex(out: &mut Vec<u8>, prefix: &[u8], byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(prefix);
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Seconds with six digits after the point.
fn push_seconds(out: &mut Vec<u8>, duration: Duration) {
    push_number(out, duration.as_secs());
    out.push(b'.');
    let mut digits = [b'0'; 6];
    let mut micros = duration.subsec_micros();
    for digit in digits.iter_mut().rev() {
        *digit += (micros % 10) as u8;
        micros /= 10;
    }
    out.extend_from_slice(&digits);
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::Head;

    use super::*;
    use millrace_wire::head::Limits;

    fn parsed(head: &[u8]) -> Head {
        let mut parsed = Head::default();
        parsed.parse(head, &Limits { bytes: 16_384, fields: 100, target: 8_192 }).unwrap().unwrap();
        parsed
    }

    fn request_of(head: &Head) -> LoggedRequest<'_> {
        LoggedRequest::Request { head, host: head.authority(), site: Some("blog") }
    }

    fn lines(asked: LoggedRequest<'_>, client: Option<&str>) -> (String, String) {
        let mut stamp = LogTime::default();
        stamp.set(Duration::from_millis(1_795_295_443_120));
        let client = client.map(|ip| ip.parse().unwrap());
        let duration = Duration::from_micros(12_001_234);
        let entry = AccessEntry { asked, client, status: 200, bytes: 10_450, duration };
        let (mut one, mut two) = (Vec::new(), Vec::new());
        combined(&mut one, &stamp, &entry);
        json(&mut two, &stamp, &entry);
        (String::from_utf8(one).unwrap(), String::from_utf8(two).unwrap())
    }

    #[test]
    fn an_ordinary_request() {
        let head = parsed(b"GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x/1\r\n\r\n");
        let (combined, json) = lines(request_of(&head), Some("192.0.2.1"));
        assert_eq!(
            combined,
            "192.0.2.1 - - [21/Nov/2026:21:10:43 +0000] \"GET /a?b=c HTTP/1.1\" 200 10450 \"-\" \"x/1\" \
             12.001234 \"example.com\"\n"
        );
        assert_eq!(
            json,
            "{\"time\":\"2026-11-21T21:10:43.120Z\",\"client\":\"192.0.2.1\",\"host\":\"example.com\",\"site\":\"blog\",\
             \"method\":\"GET\",\"target\":\"/a?b=c\",\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":10450,\
             \"seconds\":12.001234,\"referer\":null,\"user_agent\":\"x/1\"}\n"
        );
    }

    #[test]
    fn what_a_client_sends_is_escaped() {
        let head = parsed(
            b"GET / HTTP/1.1\r\nHost: a\r\nReferer: \"x\\\ty\"\r\nUser-Agent: \xc3\xa9\xff\xe2\x80\xa8\xe2\x28\r\n\r\n",
        );
        let (combined, json) = lines(request_of(&head), Some("2001:db8::1"));
        assert!(combined.starts_with("2001:db8::1 - - ["), "{combined}");
        assert!(combined.contains(r#""\x22x\x5C\x09y\x22" "\xC3\xA9\xFF\xE2\x80\xA8\xE2(""#), "{combined}");
        assert!(json.contains(r#""referer":"\"x\\\ty\"""#), "{json}");
        assert!(json.contains("\"user_agent\":\"é\\\\xFF\\u2028\\\\xE2(\"}"), "{json}");
        assert_eq!(combined.lines().count() + json.lines().count(), 2);
    }

    #[test]
    fn a_malformed_request() {
        let (combined, json) = lines(LoggedRequest::Malformed(b"\x16\x03\"GET\r\nmore"), None);
        assert!(combined.starts_with("unix - - ["), "{combined}");
        assert!(combined.contains(r#"] "\x16\x03\x22GET" 200 10450 "-" "-" 12.001234 "-""#), "{combined}");
        assert!(json.contains(r#""client":"unix","malformed":"\u0016\u0003\"GET","status":200"#), "{json}");
        assert!(lines(LoggedRequest::Malformed(b""), None).0.contains("] \"\" 200"));
    }

    #[test]
    fn numbers_have_all_their_digits() {
        let mut out = Vec::new();
        push_number(&mut out, 0);
        out.push(b' ');
        push_number(&mut out, u64::MAX);
        out.push(b' ');
        push_seconds(&mut out, Duration::from_micros(7));
        assert_eq!(out, format!("0 {} 0.000007", u64::MAX).as_bytes());
    }
}
