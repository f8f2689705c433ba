//! Texts with references: `$1`, `%1`, `%{VARIABLE}`; and the variables.

use std::net::IpAddr;

use millrace_wire::date::Civil;

use crate::effort;
use crate::pattern::Captures;
use crate::request::Request;
use crate::rewriting::LONGEST;

/// A text with references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// `$N`
    Rule(usize),
    /// `%N`
    Condition(usize),
    Variable(Variable),
}

/// A variable of mod_rewrite and of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `HTTP:Name`, and `HTTP_USER_AGENT` and the like.
    Field(String),
    /// `ENV:NAME`
    Environment(String),
    /// `resp('Name')` of expressions
    ResponseField(String),
    /// All others, by name in upper case. An unknown one is empty.
    Named(String),
}

/// Fields that have a variable of their own.
const FIELDS: [(&str, &str); 7] = [
    ("HTTP_USER_AGENT", "User-Agent"),
    ("HTTP_REFERER", "Referer"),
    ("HTTP_COOKIE", "Cookie"),
    ("HTTP_FORWARDED", "Forwarded"),
    ("HTTP_HOST", "Host"),
    ("HTTP_PROXY_CONNECTION", "Proxy-Connection"),
    ("HTTP_ACCEPT", "Accept"),
];

impl Variable {
    /// By its name between the braces.
    pub fn new(name: &str) -> Variable {
        let mut name = name;
        // The value that it has when all rules have run: here, the one that it has now. A loop: a line has room for many.
        while let Some(rest) = ["LA-U:", "LA-F:"].iter().find_map(|prefix| behind(name, prefix)) {
            name = rest;
        }
        if let Some(field) = behind(name, "HTTP:") {
            return Variable::Field(field.to_owned());
        }
        if let Some(name) = behind(name, "ENV:") {
            return Variable::Environment(name.to_owned());
        }
        let upper = name.to_ascii_uppercase();
        match FIELDS.iter().find(|(known, _)| *known == upper) {
            Some((_, field)) => Variable::Field((*field).to_owned()),
            None => Variable::Named(upper),
        }
    }
}

/// What follows a prefix, whatever its case.
fn behind<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// What a text refers to.
#[derive(Debug, Default)]
pub struct References<'a> {
    /// Of the rule: `$N`.
    pub rule: Option<&'a Captures>,
    /// Of the last condition that matched: `%N`.
    pub condition: Option<&'a Captures>,
}

impl Template {
    /// Reads a text in mod_rewrite's syntax.
    ///
    /// # Errors
    /// It uses a map, which `.htaccess` can't define.
    pub fn new(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let bytes = text.as_bytes();
        let last_brace = text.rfind('}').unwrap_or(0);
        let mut at = 0;
        while at < bytes.len() {
            let next = bytes.get(at + 1).copied();
            let piece = match (bytes[at], next) {
                (b'\\', Some(next)) => {
                    plain.push(next);
                    at += 2;
                    continue;
                }
                (b'$', Some(digit @ b'0'..=b'9')) => Some((Piece::Rule(usize::from(digit - b'0')), 2)),
                (b'%', Some(digit @ b'0'..=b'9')) => Some((Piece::Condition(usize::from(digit - b'0')), 2)),
                (b'$', Some(b'{')) => return Err(format!("\"{text}\" uses a RewriteMap")),
                (b'%', Some(b'{')) if at < last_brace => text[at..]
                    .find('}')
                    .map(|end| (Piece::Variable(Variable::new(&text[at + 2..at + end])), end + 1)),
                _ => None,
            };
            let Some((piece, length)) = piece else {
                plain.push(bytes[at]);
                at += 1;
                continue;
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            at += length;
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// The text, with each reference to a group changed by `escape`. If it becomes too long, the evaluation has no steps left.
    pub fn expand(
        &self,
        values: &impl Values,
        references: &References<'_>,
        escape: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Vec<u8> {
        let group = |captures: Option<&Captures>, number| {
            captures.map_or_else(Vec::new, |captures| escape(captures.group(number)))
        };
        let mut out = Vec::new();
        for piece in &self.0 {
            // A line has room for a hundred thousand, also of such as are empty.
            if effort::spend(1).is_err() {
                break;
            }
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Rule(number) => out.extend(group(references.rule, *number)),
                Piece::Condition(number) => out.extend(group(references.condition, *number)),
                Piece::Variable(variable) => out.extend(values.value(variable)),
            }
            // The whole query and path may stand in a line a thousand times.
            if out.len() > 2 * LONGEST {
                effort::exhaust();
                break;
            }
        }
        out
    }

    /// Whether its own text has a question mark.
    pub fn has_question_mark(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains(&b'?')))
    }

    /// Names of the request's fields in it.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(Variable::Field(name)) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Values of variables.
pub trait Values {
    /// The value of a variable; empty if it has none.
    fn value(&self, variable: &Variable) -> Vec<u8>;
}

/// The values of a request at one moment of its evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The request.
    pub request: &'a Request<'a>,
    /// The current path, decoded.
    pub path: &'a [u8],
    /// The current query.
    pub query: Option<&'a [u8]>,
    /// The current file name.
    pub filename: &'a [u8],
    /// What follows the file's part of the path.
    pub path_info: &'a [u8],
    /// Environment variables.
    pub environment: &'a Environment,
    /// The authenticated user.
    pub user: &'a str,
    /// Whether this is an internal look-up for an index file.
    pub is_inner: bool,
    /// The response, once there is one.
    pub response: Option<Responding<'a>>,
}

/// A response on its way out, as expressions of `Header` see it.
#[derive(Clone, Copy, Debug)]
pub struct Responding<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a [(String, Vec<u8>)],
}

impl Responding<'_> {
    fn field(&self, name: &str) -> Vec<u8> {
        let mut fields = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        fields.next().map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// Environment variables in the order of their first setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub Vec<(Vec<u8>, Vec<u8>)>);

impl Environment {
    /// The value of a variable.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &[u8], value: Vec<u8>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_vec(), value)),
        }
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &[u8]) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The variables after an internal redirect: each has the prefix `REDIRECT_`.
    pub fn redirected(&mut self) {
        for (name, _) in &mut self.0 {
            *name = [b"REDIRECT_", &name[..]].concat();
        }
    }
}

impl Values for Moment<'_> {
    fn value(&self, variable: &Variable) -> Vec<u8> {
        match variable {
            Variable::Field(name) if name.eq_ignore_ascii_case("host") => {
                self.request.authority.as_bytes().to_vec()
            }
            Variable::Field(name) => self.request.field(name).unwrap_or_default().to_vec(),
            Variable::Environment(name) => {
                effort::count(self.environment.0.len());
                self.environment.get(name.as_bytes()).unwrap_or_default().to_vec()
            }
            // Apache does not keep it among the fields.
            Variable::ResponseField(name) if name.eq_ignore_ascii_case("content-type") => Vec::new(),
            Variable::ResponseField(name) => {
                self.response.map(|response| response.field(name)).unwrap_or_default()
            }
            Variable::Named(name) => self.named(name),
        }
    }
}

impl Moment<'_> {
    fn named(&self, name: &str) -> Vec<u8> {
        let request = self.request;
        let text = |text: &str| text.as_bytes().to_vec();
        let address = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default().into_bytes();
        match name {
            "REQUEST_URI" => self.path.to_vec(),
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => self.filename.to_vec(),
            "PATH_INFO" => self.path_info.to_vec(),
            "QUERY_STRING" => self.query.unwrap_or_default().to_vec(),
            "REQUEST_METHOD" => text(request.method),
            "REQUEST_SCHEME" => text(if request.https { "https" } else { "http" }),
            "HTTPS" => text(if request.https { "on" } else { "off" }),
            "THE_REQUEST" => {
                [request.method.as_bytes(), b" ", request.target, b" ", request.protocol.as_bytes()].concat()
            }
            "DOCUMENT_ROOT" | "CONTEXT_DOCUMENT_ROOT" => request.root.to_vec(),
            "REMOTE_ADDR" | "REMOTE_HOST" | "CONN_REMOTE_ADDR" => address(request.remote.get()),
            "REMOTE_PORT" => text(&request.remote_port.get().to_string()),
            "REMOTE_USER" => text(self.user),
            "AUTH_TYPE" => text(if self.user.is_empty() { "" } else { "Basic" }),
            "SERVER_NAME" => text(request.server_name),
            "SERVER_ADDR" => address(request.local),
            "SERVER_PORT" => text(&request.port.to_string()),
            "SERVER_PROTOCOL" => text(request.protocol),
            "SERVER_SOFTWARE" => text(request.software),
            "IS_SUBREQ" => text(if self.is_inner { "true" } else { "false" }),
            "IPV6" => text(match request.remote.get() {
                Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => "on",
                _ => "off",
            }),
            // Only Apache's expressions know these two, and before the response they say nothing.
            "CONTENT_TYPE" => {
                self.response.map(|response| response.field("content-type")).unwrap_or_default()
            }
            "REQUEST_STATUS" => {
                text(&self.response.map_or(String::new(), |response| response.status.to_string()))
            }
            "API_VERSION" => text("20120211:142"),
            _ if name.starts_with("TIME") => time(name, request.now.get()),
            _ => Vec::new(),
        }
    }
}

/// `TIME_YEAR` and the like, in UTC; empty for other names.
fn time(name: &str, now: u64) -> Vec<u8> {
    let Civil { year, month, day, hour, minute, second } = Civil::from_unix(now);
    let text = match name {
        "TIME_YEAR" => format!("{year:04}"),
        "TIME_MON" => format!("{month:02}"),
        "TIME_DAY" => format!("{day:02}"),
        "TIME_HOUR" => format!("{hour:02}"),
        "TIME_MIN" => format!("{minute:02}"),
        "TIME_SEC" => format!("{second:02}"),
        "TIME_WDAY" => ((now / 86_400 + 4) % 7).to_string(),
        "TIME" => format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"),
        _ => String::new(),
    };
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now = 951_827_696; // 2000-02-29 12:34:56, a Tuesday
        assert_eq!(time("TIME", now), b"20000229123456");
        assert_eq!(time("TIME_WDAY", now), b"2");
        assert_eq!(time("NO_SUCH", now), b"");
    }

    #[test]
    fn maps_are_refused() {
        assert!(Template::new("${map:$1}").unwrap_err().contains("RewriteMap"));
        assert_eq!(Template::new("100% $ \\$1").unwrap(), Template(vec![Piece::Text(b"100% $ $1".to_vec())]));
    }
}
