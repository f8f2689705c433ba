//! HTTP/1 request heads: `httparse` for the grammar, and here the rules that it leaves to its user, which prevent
//! request smuggling (RFC 9112 sections 2.2, 3, 5, 6 and 11.2). Anything ambiguous is refused, never guessed.
//!
//! A [`Head`] owns its bytes and refers to them by spans, so that it outlives the read buffer without a copy per
//! value, and is reused for the next request without an allocation. Method, authority and names of fields are stored
//! as text: iterating over the fields does not validate bytes again.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Maximum of the setting `http.head_fields`.
pub const MOST_FIELDS: usize = 256;

/// Maximum length of a method, bytes. Real ones are less than half as long.
const METHOD_BYTES: usize = 32;

/// Maximum number of empty lines skipped before a request line (RFC 9112 section 2.2 asks for at least one).
const LEADING_EMPTY_LINES: usize = 2;

/// Limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Request line and fields, bytes.
    pub bytes: usize,
    /// Number of fields, at most [`MOST_FIELDS`].
    pub fields: usize,
    /// Request target, bytes.
    pub target: usize,
}

/// The parts of an HTTP/2 request that are not fields.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `:method`
    pub method: &'a str,
    /// `:authority`; empty if it is missing.
    pub authority: &'a str,
    /// `:path`; empty for CONNECT.
    pub path_query: &'a str,
    /// Content follows the head.
    pub has_content: bool,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400, with the violated rule.
    Bad(&'static str),
    /// 411: an HTTP/1.0 request with content must state its length.
    LengthRequired,
    /// 414: the target is longer than [`Limits::target`].
    TargetTooLong,
    /// 417: an expectation other than `100-continue`.
    Expectation,
    /// 431: the head is larger, or has more fields, than [`Limits`] allow.
    TooLarge,
    /// 421: a target with `https` over an unencrypted connection (RFC 9110 section 7.4). Only the caller knows the
    /// connection.
    Misdirected,
    /// 501: the method is longer than any known one (RFC 9112 section 3).
    Method,
    /// 501: a transfer coding other than chunked.
    TransferCoding,
    /// 505: neither HTTP/1.0 nor HTTP/1.1.
    Version,
}

impl Refusal {
    /// The status code of the response.
    pub fn status(self) -> u16 {
        match self {
            Refusal::Bad(_) => 400,
            Refusal::LengthRequired => 411,
            Refusal::TargetTooLong => 414,
            Refusal::Expectation => 417,
            Refusal::Misdirected => 421,
            Refusal::TooLarge => 431,
            Refusal::Method | Refusal::TransferCoding => 501,
            Refusal::Version => 505,
        }
    }

    /// The violated rule as text, for the error log.
    pub fn rule(self) -> &'static str {
        match self {
            Refusal::Bad(rule) => rule,
            Refusal::LengthRequired => "an HTTP/1.0 request with content needs Content-Length",
            Refusal::TargetTooLong => "the request target is too long",
            Refusal::Expectation => "unknown expectation",
            Refusal::TooLarge => "the request header section is too large",
            Refusal::Misdirected => "https request target on an unencrypted connection",
            Refusal::Method => "the method is too long",
            Refusal::TransferCoding => "the transfer coding is not chunked",
            Refusal::Version => "the HTTP version is neither 1.0 nor 1.1",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.rule(), self.status())
    }
}

/// HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl Version {
    /// The value of `SERVER_PROTOCOL`.
    pub fn text(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// How the content after a head is delimited (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing follows.
    None,
    /// This many bytes follow; 0 differs from `None` in that the client has stated it.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Start and end of a part of a head's bytes, or of its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    /// In the words.
    name: Span,
    /// In the bytes.
    value: Span,
}

/// A request head that obeys all rules of this module.
#[derive(Clone, Debug)]
pub struct Head {
    bytes: Vec<u8>,
    target: Span,
    /// Path and query of the target, without scheme and authority.
    path_query: Span,
    /// The end of its path: at the `?`, or at its end.
    path_end: u32,
    /// Method, names and authority in sequence.
    words: String,
    method: Span,
    authority: Span,
    /// The target is in absolute form and begins with `https`.
    names_https: bool,
    version: Version,
    framing: Framing,
    keep_alive: bool,
    expects_continue: bool,
    fields: Vec<Field>,
}

impl Default for Head {
    fn default() -> Head {
        Head {
            bytes: Vec::new(),
            target: Span::default(),
            path_query: Span::default(),
            path_end: 0,
            words: String::new(),
            method: Span::default(),
            authority: Span::default(),
            names_https: false,
            version: Version::Http11,
            framing: Framing::None,
            keep_alive: false,
            expects_continue: false,
            fields: Vec::new(),
        }
    }
}

impl Head {
    /// Reads one head from the start of `input` into `self`, replacing its contents.
    ///
    /// `Ok(None)`: the head is incomplete. `Ok(Some(n))`: the head took `n` bytes of `input`.
    ///
    /// # Errors
    /// After a [`Refusal`] the connection can't continue: the start of the next request is unknown.
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, Refusal> {
        let skipped = leading_empty_lines(input);
        let input = &input[skipped..];
        check_method(input)?;
        let Some(length) = head_length(input, limits)? else { return Ok(None) };
        self.read_grammar(&input[..length], limits)?;
        let absolute = self.read_target()?;
        self.read_fields(absolute)?;
        Ok(Some(skipped + length))
    }

    /// Fills `self` with an HTTP/2 request (RFC 9113 section 8.3), whose parts are separate, replacing its contents.
    /// The rules are the same as in [`parse`](Self::parse), so that later code need not distinguish the protocols.
    /// `has_content`: content follows.
    ///
    /// # Errors
    /// As in `parse`; other requests of the connection are not affected.
    pub fn assemble<'a>(
        &mut self,
        parts: &Parts<'_>,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        self.clear();
        let Parts { method, authority, path_query, has_content } = *parts;
        if path_query.len() > limits.target {
            return Err(Refusal::TargetTooLong);
        }
        if method.len() > METHOD_BYTES {
            return Err(Refusal::Method);
        }
        if !before_query(path_query.as_bytes()).is_ascii() {
            return Err(BEYOND_ASCII);
        }
        (self.version, self.keep_alive) = (Version::Http2, true);
        self.method = self.word(method);
        self.target = self.append(path_query.as_bytes());
        self.lead_to(self.target);
        let mut seen = Seen::default();
        let mut host = None;
        for (name, value) in fields {
            if has_outer_blank(value) {
                return Err(OUTER_BLANK);
            }
            match name {
                // `:authority` replaces it (RFC 9113 section 8.3.1).
                "host" if host.is_some() => return Err(Refusal::Bad("repeated Host")),
                "host" => {
                    host = Some(value);
                    continue;
                }
                "expect" => seen.expect(value)?,
                "content-length" => seen.content_length(value)?,
                "connection" | "transfer-encoding" | "upgrade" => {
                    return Err(Refusal::Bad("connection-specific header field in HTTP/2"));
                }
                _ => {}
            }
            if self.fields.len() >= limits.fields.min(MOST_FIELDS) || self.bytes.len() > limits.bytes {
                return Err(Refusal::TooLarge);
            }
            self.push(name, value);
        }
        self.settle_authority(authority, host)?;
        match path_query.as_bytes() {
            [b'/', ..] => {}
            b"*" if method == "OPTIONS" => {}
            b"" if method == "CONNECT" => {
                self.target = self.authority_as_target();
                self.lead_to(Span::default());
            }
            _ => return Err(Refusal::Bad("the request target is not a path")),
        }
        self.expects_continue = seen.expects_continue && has_content;
        self.framing = match (seen.length, has_content) {
            (Some(length), true) => Framing::Length(length),
            (Some(0), false) => Framing::Length(0),
            (Some(_), false) => {
                return Err(Refusal::Bad("the content announced by Content-Length is missing"));
            }
            (None, true) => Framing::Chunked,
            (None, false) => Framing::None,
        };
        Ok(())
    }

    /// Clears everything but keeps the memory.
    fn clear(&mut self) {
        self.bytes.clear();
        self.words.clear();
        self.fields.clear();
        let (bytes, words, fields) = (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.words),
            std::mem::take(&mut self.fields),
        );
        *self = Head { bytes, words, fields, ..Head::default() };
    }

    /// The authority from `:authority`, or from `Host` if that is missing; both must agree.
    fn settle_authority(&mut self, authority: &str, host: Option<&[u8]>) -> Result<(), Refusal> {
        let said = match (authority, host) {
            ("", None) => return Err(Refusal::Bad("missing Host")),
            ("", Some(host)) => host,
            (authority, None) => authority.as_bytes(),
            (authority, Some(host)) if authority.as_bytes().eq_ignore_ascii_case(host) => host,
            _ => return Err(Refusal::Bad("Host and :authority differ")),
        };
        if !is_authority(said) {
            return Err(Refusal::Bad("illegal :authority"));
        }
        // It is ASCII, as checked before.
        self.authority = self.word(std::str::from_utf8(said).unwrap_or(""));
        Ok(())
    }

    fn authority_as_target(&mut self) -> Span {
        let start = self.bytes.len() as u32;
        let Span { start: from, end } = self.authority;
        self.bytes.extend_from_slice(&self.words.as_bytes()[from as usize..end as usize]);
        Span { start, end: self.bytes.len() as u32 }
    }

    /// Builds an HTTP/2 head from parts that need no check: for the server's own requests.
    pub fn from_parts<'a>(
        method: &str,
        authority: &str,
        path_query: &str,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Head {
        let mut head = Head { version: Version::Http2, keep_alive: true, ..Head::default() };
        head.method = head.word(method);
        head.authority = head.word(authority);
        head.target = head.append(path_query.as_bytes());
        head.lead_to(head.target);
        for (name, value) in fields {
            head.push(name, value);
        }
        head
    }

    /// The same request with another method, path and query, and without content: only the fields that `keeps`
    /// accepts by name, followed by `more`.
    pub fn rewritten(
        &self,
        method: &str,
        path_query: &[u8],
        keeps: impl Fn(&str) -> bool,
        more: &[(&str, Vec<u8>)],
    ) -> Head {
        let mut head = Head { framing: Framing::None, expects_continue: false, ..self.clone() };
        head.method = head.word(method);
        let path_query = head.append(path_query);
        head.lead_to(path_query);
        head.fields.retain(|f| keeps(self.said(f.name)));
        for (name, value) in more {
            head.push(name, value);
        }
        head
    }

    /// Removes the fields whose names `drops` accepts, and adds `more`, whose names and values are valid.
    pub fn replace(&mut self, drops: impl Fn(&str) -> bool, more: &[(String, Vec<u8>)]) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.retain(|f| !drops(self.said(f.name)));
        self.fields = fields;
        for (name, value) in more {
            self.push(name, value);
        }
    }

    /// Replaces the value of every field with this name by the result of `change`; `None`: it stays. Returns whether
    /// any was changed.
    pub fn change(&mut self, name: &str, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> bool {
        let mut changed = false;
        for at in 0..self.fields.len() {
            let field = self.fields[at];
            if !self.said(field.name).eq_ignore_ascii_case(name) {
                continue;
            }
            if let Some(value) = change(self.text(field.value)) {
                self.fields[at].value = self.append(&value);
                changed = true;
            }
        }
        changed
    }

    /// The method, case-sensitive.
    pub fn method(&self) -> &str {
        self.said(self.method)
    }

    /// The request target as it was sent.
    pub fn target(&self) -> &[u8] {
        self.text(self.target)
    }

    /// Path and query of the target, as sent: `/a%20b?c=d`; `*` for `OPTIONS *`. It has no scheme and authority.
    pub fn path_query(&self) -> &[u8] {
        self.text(self.path_query)
    }

    /// The path of the target, as sent, without query.
    pub fn path(&self) -> &[u8] {
        self.text(Span { end: self.path_end, ..self.path_query })
    }

    /// The query as sent, without `?`; `None` if there is no `?`.
    pub fn query(&self) -> Option<&[u8]> {
        let Span { end, .. } = self.path_query;
        (self.path_end < end).then(|| self.text(Span { start: self.path_end + 1, end }))
    }

    /// Host and port of the request: from an absolute-form target, otherwise from the Host field. Empty for an
    /// HTTP/1.0 request without either. Only valid host characters (RFC 3986 section 3.2.2), case unchanged.
    pub fn authority(&self) -> &str {
        self.said(self.authority)
    }

    /// Whether the target is in absolute form with the scheme `https`: such a request must come over a secured
    /// connection (RFC 9110 section 7.4).
    pub fn names_https(&self) -> bool {
        self.names_https
    }

    /// HTTP version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// How the content that follows is delimited.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the client wants a keep-alive connection (RFC 9112 section 9.3).
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for `100 Continue` before it sends content.
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// All fields in order, names as sent.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.fields.iter().map(|f| (self.said(f.name), self.text(f.value)))
    }

    /// The value of the first field with this name; case is ignored.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|f| self.said(f.name).eq_ignore_ascii_case(name)).map(|f| self.text(f.value))
    }

    /// The same as text, if it is ASCII.
    pub fn field_text(&self, name: &str) -> Option<&str> {
        self.field(name).and_then(|v| std::str::from_utf8(v).ok()).filter(|v| v.is_ascii())
    }

    fn text(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..span.end as usize]
    }

    /// An authority as a word; `None`: it is invalid.
    fn checked(&mut self, span: Span) -> Option<Span> {
        let start = self.words.len() as u32;
        let text = &self.bytes[span.start as usize..span.end as usize];
        self.words.push_str(std::str::from_utf8(text).ok().filter(|text| is_authority(text.as_bytes()))?);
        Some(Span { start, end: self.words.len() as u32 })
    }

    fn said(&self, span: Span) -> &str {
        &self.words[span.start as usize..span.end as usize]
    }

    fn word(&mut self, word: &str) -> Span {
        let start = self.words.len() as u32;
        self.words.push_str(word);
        Span { start, end: self.words.len() as u32 }
    }

    fn push(&mut self, name: &str, value: &[u8]) {
        let (name, value) = (self.word(name), self.append(value));
        self.fields.push(Field { name, value });
    }

    fn append(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        Span { start, end: self.bytes.len() as u32 }
    }

    /// The lines of the head. A query that is not UTF-8, as old clients send it, is read with these bytes
    /// percent-encoded: the parser accepts only text, and a script decodes both to the same bytes. The result must
    /// not exceed the maximum length of a target.
    fn read_grammar(&mut self, input: &[u8], limits: &Limits) -> Result<(), Refusal> {
        let Err(refusal) = self.read_lines(input, limits) else { return Ok(()) };
        let encoded = with_ascii_query(input).ok_or(refusal)?;
        self.read_lines(&encoded, limits)?;
        if self.target().len() > limits.target { Err(Refusal::TargetTooLong) } else { Ok(()) }
    }

    fn read_lines(&mut self, input: &[u8], limits: &Limits) -> Result<(), Refusal> {
        self.bytes.clear();
        self.bytes.extend_from_slice(input);
        self.fields.clear();
        let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let room = &mut room[..limits.fields.min(MOST_FIELDS)];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(input, room) {
            Ok(httparse::Status::Complete(n)) if n == input.len() => {}
            Ok(_) => return Err(Refusal::Bad("unexpected end of the header section")),
            Err(error) => return Err(grammar_refusal(error, input)),
        }
        let span = |text: &[u8]| {
            let start = text.as_ptr() as usize - input.as_ptr() as usize;
            Span { start: start as u32, end: (start + text.len()) as u32 }
        };
        self.words.clear();
        self.method = self.word(request.method.unwrap_or(""));
        self.target = span(request.path.unwrap_or("").as_bytes());
        self.version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        for field in request.headers.iter() {
            // An absent value is a static empty string, which is outside of `input`.
            let value = if field.value.is_empty() { Span::default() } else { span(field.value) };
            let name = self.word(field.name);
            self.fields.push(Field { name, value });
        }
        Ok(())
    }

    /// The four forms of a request target (RFC 9112 section 3.2). Returns the authority, where it has one.
    fn read_target(&mut self) -> Result<Option<Span>, Refusal> {
        self.names_https = false;
        if !before_query(self.target()).is_ascii() {
            return Err(BEYOND_ASCII);
        }
        if self.target().contains(&b'#') {
            return Err(Refusal::Bad("the request target contains a fragment"));
        }
        self.lead_to(self.target);
        match self.target() {
            [b'/', ..] => Ok(None),
            b"*" if self.method() == "OPTIONS" => Ok(None),
            _ if self.method() == "CONNECT" => Ok(Some(self.target)),
            _ => self.read_absolute_form().map(Some),
        }
    }

    fn read_absolute_form(&mut self) -> Result<Span, Refusal> {
        let Span { start, end } = self.target;
        let target = self.target();
        let scheme = ["http://", "https://"]
            .iter()
            .find(|s| target.len() > s.len() && target[..s.len()].eq_ignore_ascii_case(s.as_bytes()))
            .ok_or(Refusal::Bad("the request target is neither a path nor an http URI"))?;
        let names_https = scheme.len() == "https://".len();
        let rest = &target[scheme.len()..];
        let length = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        let path = start + (scheme.len() + length) as u32;
        let authority = Span { start: start + scheme.len() as u32, end: path };
        let mut path_query = Span { start: path, end };
        if !self.text(path_query).starts_with(b"/") {
            // `GET http://example.com?a`: the path is `/` (RFC 9112 section 3.2.1).
            let with_path = [b"/", self.text(path_query)].concat();
            path_query = self.append(&with_path);
        }
        self.lead_to(path_query);
        self.names_https = names_https;
        Ok(authority)
    }

    /// Sets the path and query; many callers need the path alone.
    fn lead_to(&mut self, path_query: Span) {
        self.path_query = path_query;
        let mark = memchr::memchr(b'?', self.text(path_query));
        self.path_end = mark.map_or(path_query.end, |at| path_query.start + at as u32);
    }

    /// Fields that determine the destination and the end of the request. `absolute`: the authority of the target.
    fn read_fields(&mut self, absolute: Option<Span>) -> Result<(), Refusal> {
        let mut seen = Seen::default();
        for index in 0..self.fields.len() {
            let Field { name, value } = self.fields[index];
            let (name, text) = (self.said(name), self.text(value));
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => seen.host(value)?,
                6 if name.eq_ignore_ascii_case("expect") => seen.expect(text)?,
                10 if name.eq_ignore_ascii_case("connection") => seen.connection(text),
                14 if name.eq_ignore_ascii_case("content-length") => seen.content_length(text)?,
                17 if name.eq_ignore_ascii_case("transfer-encoding") => seen.transfer_encoding(text)?,
                _ => {}
            }
        }
        let host = match seen.host {
            Some(host) => Some(self.checked(host).ok_or(Refusal::Bad("illegal Host"))?),
            None if self.version == Version::Http11 => return Err(Refusal::Bad("missing Host")),
            None => None,
        };
        let illegal = Refusal::Bad("illegal authority in the request target");
        let absolute = absolute.map(|span| self.checked(span).ok_or(illegal)).transpose()?;
        self.authority = absolute.or(host).unwrap_or_default();
        self.framing = seen.framing(self.version, self.method())?;
        self.expects_continue = seen.expects_continue && self.version == Version::Http11;
        self.keep_alive = match self.version {
            Version::Http10 => seen.keep_alive && !seen.close,
            _ => !seen.close,
        };
        Ok(())
    }
}

/// What the fields of one head have set so far.
#[derive(Default)]
struct Seen {
    host: Option<Span>,
    length: Option<u64>,
    transfer_encoding: bool,
    expects_continue: bool,
    keep_alive: bool,
    close: bool,
}

impl Seen {
    fn host(&mut self, value: Span) -> Result<(), Refusal> {
        match self.host.replace(value) {
            None => Ok(()),
            Some(_) => Err(Refusal::Bad("repeated Host")),
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
        if self.expects_continue { Ok(()) } else { Err(Refusal::Expectation) }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// A field that must contain only digits. A list of equal lengths, which RFC 9110 section 8.6 lets a recipient
    /// accept, is refused like any other repetition.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.length.is_some() {
            return Err(Refusal::Bad("repeated Content-Length"));
        }
        if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
            return Err(Refusal::Bad("malformed Content-Length"));
        }
        self.length = Some(value.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')));
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.transfer_encoding {
            return Err(Refusal::Bad("repeated Transfer-Encoding"));
        }
        self.transfer_encoding = true;
        // Empty elements of a list are skipped (RFC 9110 section 5.6.1.2).
        let codings = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
        let mut codings = codings.filter(|coding| !coding.is_empty());
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        match (codings.next(), codings.next_back()) {
            (Some(only), None) if is_chunked(only) => Ok(()),
            (None, _) => Err(Refusal::Bad("empty Transfer-Encoding")),
            (Some(first), Some(_)) if is_chunked(first) => {
                Err(Refusal::Bad("chunked is not the last coding"))
            }
            (_, Some(last)) if !is_chunked(last) => Err(Refusal::Bad("the last coding is not chunked")),
            _ => Err(Refusal::TransferCoding),
        }
    }

    fn framing(&self, version: Version, method: &str) -> Result<Framing, Refusal> {
        match (self.transfer_encoding, self.length) {
            (true, _) if version == Version::Http10 => Err(Refusal::Bad("Transfer-Encoding in HTTP/1.0")),
            (true, Some(_)) => Err(Refusal::Bad("both Content-Length and Transfer-Encoding")),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(length)) => Ok(Framing::Length(length)),
            (false, None) if version == Version::Http10 && matches!(method, "POST" | "PUT" | "PATCH") => {
                Err(Refusal::LengthRequired)
            }
            (false, None) => Ok(Framing::None),
        }
    }
}

fn leading_empty_lines(input: &[u8]) -> usize {
    let mut skipped = 0;
    while skipped < 2 * LEADING_EMPTY_LINES && input[skipped..].starts_with(b"\r\n") {
        skipped += 2;
    }
    skipped
}

/// RFC 9113 section 8.2.1.
pub const OUTER_BLANK: Refusal = Refusal::Bad("the value of a header field begins or ends with a blank");

/// Whether a field's value begins or ends with a blank or a tab.
pub fn has_outer_blank(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.first()) || is_blank(value.last())
}

const BEYOND_ASCII: Refusal = Refusal::Bad("the path of the request target contains non-ASCII bytes");

/// A target without its query, which only the script interprets: for years browsers sent it in the page's own
/// encoding, and some programs still do.
fn before_query(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

/// Refuses input that does not begin with a method as early as possible: otherwise a TLS hello on a port without TLS
/// would be held until the timeout.
fn check_method(input: &[u8]) -> Result<(), Refusal> {
    let start = &input[..input.len().min(METHOD_BYTES + 1)];
    match start.iter().position(|b| !is_token_char(*b)) {
        None if start.len() > METHOD_BYTES => Err(Refusal::Method),
        None => Ok(()),
        // Another empty line, or one whose line feed has not arrived.
        Some(0) if input[0] == b'\r' && (input.len() == 1 || input[1] == b'\n') => Ok(()),
        Some(end) if end > 0 && input[end] == b' ' => Ok(()),
        // The grammar distinguishes a line that ends here from one with other characters.
        Some(end) if end > 0 && matches!(input[end], b'\r' | b'\n') => Ok(()),
        Some(_) => Err(Refusal::Bad("illegal character in the method")),
    }
}

/// Whether a byte is valid in a method, or in the name of a field: `tchar` (RFC 9110 section 5.6.2).
pub(crate) fn is_token_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Length of the head at the start of `input` with its empty line; `None` if it is incomplete.
///
/// Line ends are checked here because httparse accepts a bare LF.
fn head_length(input: &[u8], limits: &Limits) -> Result<Option<usize>, Refusal> {
    let window = &input[..input.len().min(limits.bytes)];
    let first = memchr::memchr(b'\n', window);
    match first {
        // One more empty line than are skipped: the grammar reports it.
        Some(1) if window[0] == b'\r' => return Ok(Some(2)),
        Some(end) if end == 0 || window[end - 1] != b'\r' => return Err(BARE_LF),
        end => check_target_length(&window[..end.unwrap_or(window.len())], limits)?,
    }
    let end = END.find(window).map(|at| at + 4);
    if has_bare_lf(&window[..end.unwrap_or(window.len())]) {
        return Err(BARE_LF);
    }
    if end.is_none() && input.len() >= limits.bytes {
        let in_target = first.is_none() && memchr::memchr_iter(b' ', window).count() == 1;
        return Err(if in_target { Refusal::TargetTooLong } else { Refusal::TooLarge });
    }
    Ok(end)
}

/// The end of the last line and the empty line.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

const BARE_LF: Refusal = Refusal::Bad("a line of the header section ends with a bare LF");

/// Whether a line feed follows anything but a carriage return. One pass without a branch per byte: a browser's head
/// has a dozen lines and more.
fn has_bare_lf(text: &[u8]) -> bool {
    let pairs = text.iter().zip(text.iter().skip(1));
    pairs.fold(0, |found, (before, byte)| found | u8::from(*byte == b'\n') & u8::from(*before != b'\r')) != 0
}

fn check_target_length(line: &[u8], limits: &Limits) -> Result<(), Refusal> {
    if line.len() <= limits.target {
        return Ok(());
    }
    let mut spaces = memchr::memchr_iter(b' ', line);
    let Some(start) = spaces.next() else { return Ok(()) };
    let end = spaces.next().unwrap_or(line.len());
    if end - start - 1 > limits.target { Err(Refusal::TargetTooLong) } else { Ok(()) }
}

/// The head with the query's bytes above 127 percent-encoded, if only these prevent its request line from being
/// UTF-8.
fn with_ascii_query(input: &[u8]) -> Option<Vec<u8>> {
    let line = input.split(|b| *b == b'\r').next()?;
    std::str::from_utf8(line).err()?;
    let start = line.iter().position(|b| *b == b' ')? + 1;
    let end = start + line[start..].iter().position(|b| *b == b' ')?;
    let path = before_query(&line[start..end]);
    if !path.is_ascii() {
        return None;
    }
    let query = start + path.len();
    let mut encoded = input[..query].to_vec();
    for byte in &input[query..end] {
        match byte {
            0x80.. => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => encoded.push(*byte),
        }
    }
    encoded.extend_from_slice(&input[end..]);
    Some(encoded)
}

fn grammar_refusal(error: httparse::Error, input: &[u8]) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal::TooLarge,
        httparse::Error::Version if names_a_version(input) => Refusal::Version,
        httparse::Error::Version => Refusal::Bad("malformed HTTP version"),
        httparse::Error::HeaderName => Refusal::Bad("illegal field name"),
        httparse::Error::HeaderValue => Refusal::Bad("illegal field value"),
        httparse::Error::Token => Refusal::Bad("illegal character in the request line"),
        httparse::Error::NewLine => Refusal::Bad("a bare CR"),
        httparse::Error::Status => Refusal::Bad("malformed request line"),
    }
}

/// Whether the request line has three words, the last a well-formed `HTTP/digit.digit`.
fn names_a_version(input: &[u8]) -> bool {
    let line = input.split(|b| *b == b'\r').next().unwrap_or(&[]);
    let mut words = line.split(|b| *b == b' ').skip(2);
    let version = words.next().unwrap_or(&[]);
    words.next().is_none()
        && matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// `uri-host [":" port]` (RFC 9110 section 7.2): no user information, at least one character of host.
fn is_authority(text: &[u8]) -> bool {
    let (host_length, port) = match text {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|b| *b == b']') else { return false };
            let address = std::str::from_utf8(&rest[..end]).unwrap_or("");
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            (end, &rest[end + 1..])
        }
        _ => {
            let end = text.iter().position(|b| !IN_HOST[usize::from(*b)]).unwrap_or(text.len());
            (end, &text[end..])
        }
    };
    (1..=255).contains(&host_length)
        && match port {
            [] => true,
            [b':', port @ ..] => {
                port.len() <= 5
                    && port.iter().all(u8::is_ascii_digit)
                    && std::str::from_utf8(port).is_ok_and(|p| p.is_empty() || p.parse::<u16>().is_ok())
            }
            _ => false,
        }
}

/// Bytes of a host that is not an IPv6 address.
const IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'.' | b'_' | b'~');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
