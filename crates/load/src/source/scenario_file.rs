//! Scenarios as people write them: TOML. `docs/load-scenarios.md` describes the format.
//!
//! Every mistake is found, not only the first one; each has its line and its cure.

use std::time::Duration;

use millrace_wire::percent;
use toml_span::value::{Table, ValueInner};
use toml_span::{Span, Value};

use super::time::durations;
use super::{Problem, line_at, shown};
use crate::scenario::{
    Check, Dynamic, Extract, Flow, MOST_REDIRECTS, Origin, Pattern, Place, Request, Scenario, Step,
};
use crate::url::Url;

/// Reads a scenario. `origin` overrides the file's `url` as the destination of requests.
///
/// # Errors
/// All errors in it.
pub fn read(text: &str, origin: Option<&Origin>) -> Result<Scenario, Vec<Problem>> {
    let mut document = toml_span::parse(text).map_err(|error| {
        let line = line_at(text, error.span.start);
        vec![Problem::new(
            line,
            format!("it is not valid TOML: {error}"),
            "see https://toml.io, and docs/load-scenarios.md for an example",
        )]
    })?;
    let mut reader = ScenarioReader { text, problems: Vec::new() };
    let scenario = match document.take() {
        ValueInner::Table(table) => reader.scenario(table, origin),
        _ => None,
    };
    match scenario {
        Some(scenario) if reader.problems.is_empty() => Ok(scenario),
        _ => {
            reader.problems.sort_by_key(|problem| problem.line);
            Err(reader.problems)
        }
    }
}

struct ScenarioReader<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

/// A list of names and values, as fields are written.
type Pairs = Vec<(String, String)>;

impl ScenarioReader<'_> {
    fn problem(&mut self, span: Span, what: impl Into<String>, cure: impl Into<String>) {
        self.problems.push(Problem::new(line_at(self.text, span.start), what, cure));
    }

    fn scenario(&mut self, mut table: Table<'_>, origin: Option<&Origin>) -> Option<Scenario> {
        let whole = Span::new(0, 0);
        let written = self.take(&mut table, "url", Self::url);
        let name = self.take(&mut table, "name", Self::string);
        let think = self.take(&mut table, "think", Self::times);
        let cookies = self.take(&mut table, "cookies", Self::switch).unwrap_or(false);
        let browser_cache = self.take(&mut table, "browser_cache", Self::switch).unwrap_or(false);
        let fields = self.take(&mut table, "fields", |reader, value| {
            let span = value.span;
            let fields = reader.pairs(value)?;
            reader.no_values_in(&fields, span);
            Some(fields)
        });
        let fields = fields.unwrap_or_default();
        let dynamic = self.take(&mut table, "dynamic", Self::dynamics).unwrap_or_default();
        let mut flows =
            self.take(&mut table, "flow", |reader, value| reader.flows(value, think)).unwrap_or_default();
        if let Some(steps) = self.take(&mut table, "step", |reader, value| reader.steps(value, think)) {
            flows.push(Flow { name: name.clone().unwrap_or_else(|| "flow".to_owned()), weight: 1, steps });
        }
        self.nothing_else(table, "name, url, think, cookies, browser_cache, fields, dynamic, flow or step");
        if flows.is_empty() && self.problems.is_empty() {
            self.problem(
                whole,
                "it has no steps",
                "write [[step]] with get = \"/\", or [[flow]] with [[flow.step]]",
            );
        }
        let Some(origin) = origin.cloned().or(written) else {
            if self.problems.is_empty() {
                self.problem(
                    whole,
                    "no server is named",
                    "write url = \"http://HOST\" at the top of the file, or give the URL on the command line",
                );
            }
            return None;
        };
        let name = name.unwrap_or_else(|| flows.first().map_or_else(String::new, |flow| flow.name.clone()));
        Some(Scenario { name, origin, flows, timeline: None, cookies, browser_cache, fields, dynamic })
    }

    fn url(&mut self, value: Value<'_>) -> Option<Origin> {
        let span = value.span;
        let text = self.string(value)?;
        match Url::parse(&text) {
            Ok(url) => Some(url.origin),
            Err(error) => {
                self.problem(span, format!("{} is not a URL", shown(&text)), error.to_string());
                None
            }
        }
    }

    fn dynamics(&mut self, value: Value<'_>) -> Option<Vec<Dynamic>> {
        self.tables(value, "[[dynamic]]", |reader, mut table, span| {
            let before = reader.take(&mut table, "before", Self::string);
            let after = reader.take(&mut table, "after", Self::string).unwrap_or_default();
            reader.nothing_else(table, "before or after");
            match before {
                Some(before) if !before.is_empty() => Some(Dynamic { before, after }),
                _ => {
                    reader.problem(span, "before is missing", "write before = \"...\"");
                    None
                }
            }
        })
    }

    fn flows(&mut self, value: Value<'_>, think: Option<(Duration, Duration)>) -> Option<Vec<Flow>> {
        let mut number = 0;
        self.tables(value, "[[flow]]", |reader, mut table, span| {
            number += 1;
            let name =
                reader.take(&mut table, "name", Self::string).unwrap_or_else(|| format!("flow {number}"));
            let weight = reader
                .take(&mut table, "weight", |reader, value| reader.number(value, 1, 1_000_000))
                .unwrap_or(1);
            let think = reader.take(&mut table, "think", Self::times).or(think);
            let steps = reader.take(&mut table, "step", |reader, value| reader.steps(value, think));
            reader.nothing_else(table, "name, weight, think or step");
            match steps {
                Some(steps) if !steps.is_empty() => Some(Flow { name, weight: weight as u32, steps }),
                Some(_) => None,
                None => {
                    reader.problem(
                        span,
                        format!("{} has no steps", shown(&name)),
                        "write [[flow.step]] with get = \"/\" below it",
                    );
                    None
                }
            }
        })
    }

    fn steps(&mut self, value: Value<'_>, think: Option<(Duration, Duration)>) -> Option<Vec<Step>> {
        let mut known: Vec<String> = Vec::new();
        self.tables(value, "[[step]]", |reader, table, span| {
            let mut step = reader.step(table, span)?;
            step.think = step.think.or(think);
            reader.values_are_known(&step, &known, span);
            known.extend(step.extract.iter().map(|extract| extract.name.clone()));
            Some(step)
        })
    }

    fn step(&mut self, mut table: Table<'_>, span: Span) -> Option<Step> {
        let request = self.request(&mut table, span);
        let page = self.take(&mut table, "page", Self::switch).unwrap_or(false);
        let think = self.take(&mut table, "think", Self::times);
        let redirects = self.take(&mut table, "redirects", |reader, value| reader.number(value, 0, 50));
        let redirects = Some(redirects.map_or(MOST_REDIRECTS, |most| most as u8));
        let checks = self.take(&mut table, "check", Self::checks).unwrap_or_default();
        let extract = self.take(&mut table, "extract", Self::extracts).unwrap_or_default();
        self.nothing_else(
            table,
            "get, post, request, form, body, fields, page, redirects, think, check or extract",
        );
        Some(Step { request: request?, page, checks, extract, think, redirects })
    }

    fn request(&mut self, table: &mut Table<'_>, span: Span) -> Option<Request> {
        let asked = [
            ("GET", self.take(table, "get", Self::string)),
            ("POST", self.take(table, "post", Self::string)),
            ("", self.take(table, "request", Self::string)),
        ];
        let fields = self.take(table, "fields", Self::pairs).unwrap_or_default();
        let form = self.take(table, "form", Self::pairs);
        let body = self.take(table, "body", Self::string);
        let mut asked =
            asked.into_iter().filter_map(|(method, target)| target.map(|target| (method, target)));
        let cure = "write get = \"/PATH\", post = \"/PATH\" or request = \"METHOD /PATH\"";
        let (Some((method, target)), None) = (asked.next(), asked.next()) else {
            self.problem(span, "a step is one request", cure);
            return None;
        };
        let (method, target) = match target.split_once(' ') {
            Some((written, target)) if method.is_empty() => {
                (written.to_ascii_uppercase(), target.trim().to_owned())
            }
            _ => (method.to_owned(), target),
        };
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) || !target.starts_with('/') {
            self.problem(span, format!("{} is not a path", shown(&target)), cure);
            return None;
        }
        if form.is_some() && body.is_some() {
            self.problem(span, "a request has either a form or a body", "remove one of them");
        }
        let mut request =
            Request { method, target: escaped(&target), fields, body: body.unwrap_or_default().into_bytes() };
        if let Some(form) = form {
            let pairs: Vec<String> =
                form.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
            request.body = pairs.join("&").into_bytes();
            if !request.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                request
                    .fields
                    .push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
            }
        }
        Some(request)
    }

    fn checks(&mut self, value: Value<'_>) -> Option<Vec<Check>> {
        let mut table = self.table(value)?;
        let mut checks = Vec::new();
        let status = |reader: &mut Self, value: Value<'_>| {
            reader.several(value, |reader, value| reader.number(value, 100, 599).map(|status| status as u16))
        };
        checks.extend(self.take(&mut table, "status", status).map(Check::Status));
        checks.extend(
            self.take(&mut table, "length", |reader, value| reader.number(value, 0, i64::MAX))
                .map(|n| Check::Length(n as u64)),
        );
        let texts = |reader: &mut Self, value: Value<'_>| reader.several(value, Self::string);
        checks.extend(self.take(&mut table, "text", texts).unwrap_or_default().into_iter().map(Check::Text));
        checks.extend(
            self.take(&mut table, "no_text", texts).unwrap_or_default().into_iter().map(Check::NoText),
        );
        self.nothing_else(table, "status, length, text or no_text");
        Some(checks)
    }

    fn extracts(&mut self, value: Value<'_>) -> Option<Vec<Extract>> {
        let mut all: Vec<(Span, Extract)> = Vec::new();
        for (key, value) in self.table(value)? {
            let name = key.name.into_owned();
            if !is_name(&name) {
                self.problem(
                    key.span,
                    format!("{} is not a valid name for a value", shown(&name)),
                    "use letters, digits and underscores",
                );
            }
            if let Some(from) = self.place(value) {
                all.push((key.span, Extract { name, from }));
            }
        }
        all.sort_by_key(|(span, _)| span.start);
        Some(all.into_iter().map(|(_, extract)| extract).collect())
    }

    fn place(&mut self, value: Value<'_>) -> Option<Place> {
        let span = value.span;
        let mut table = self.table(value)?;
        let cure = "write { regex = \"...\" }, { between = [\"before\", \"after\"] }, { cookie = \"NAME\" } or { field = \"NAME\" }";
        let mut places = Vec::new();
        if let Some((span, text)) =
            self.take(&mut table, "regex", |reader, value| Some((value.span, reader.string(value)?)))
        {
            match Pattern::new(&text) {
                Ok(pattern) => places.push(Place::Regex(pattern)),
                Err(error) => {
                    self.problem(
                        span,
                        format!("{} is not a valid regular expression", shown(&text)),
                        error.to_string(),
                    );
                }
            }
        }
        if let Some(texts) =
            self.take(&mut table, "between", |reader, value| reader.several(value, Self::string))
        {
            match <[String; 2]>::try_from(texts) {
                Ok([before, after]) => places.push(Place::Between { before, after }),
                Err(_) => self.problem(span, "between needs two texts", cure),
            }
        }
        places.extend(self.take(&mut table, "cookie", Self::string).map(Place::Cookie));
        places.extend(self.take(&mut table, "field", Self::string).map(Place::Field));
        self.nothing_else(table, "regex, between, cookie or field");
        if places.len() > 1 {
            self.problem(span, "a value has one source", cure);
        } else if places.is_empty()
            && !self.problems.iter().any(|problem| problem.line == line_at(self.text, span.start))
        {
            self.problem(span, "the value has no source", cure);
        }
        places.pop()
    }

    /// Fields of all requests are also sent before any response has arrived.
    fn no_values_in(&mut self, fields: &[(String, String)], span: Span) {
        for name in fields.iter().flat_map(|(_, value)| names_in(value)).collect::<Vec<_>>() {
            self.problem(
                span,
                format!("{{{name}}} is not available in the fields of all requests"),
                "write fields = { ... } in steps after the value is extracted",
            );
        }
    }

    /// A `{name}` that no earlier step takes is a mistake, most of the time of spelling.
    fn values_are_known(&mut self, step: &Step, known: &[String], span: Span) {
        let body = String::from_utf8_lossy(&step.request.body);
        let texts = step.request.fields.iter().map(|(_, value)| value.as_str());
        let used: Vec<String> = texts.chain([step.request.target.as_str()]).flat_map(names_in).collect();
        // In a body braces may be its own: JSON.
        let in_form =
            if body.trim_start().starts_with(['{', '[']) { Vec::new() } else { names_in(&body).collect() };
        for name in used.into_iter().chain(in_form).filter(|name| !known.contains(name)) {
            self.problem(
                span,
                format!("no earlier step extracts {{{name}}} from a response"),
                format!("write extract = {{ {name} = {{ ... }} }} in an earlier step"),
            );
        }
    }

    /// Takes `key` out of a table and reads it.
    fn take<T>(
        &mut self,
        table: &mut Table<'_>,
        key: &'static str,
        read: impl FnOnce(&mut Self, Value<'_>) -> Option<T>,
    ) -> Option<T> {
        let value = table.remove(key)?;
        read(self, value)
    }

    /// Remaining keys of a table are unknown.
    fn nothing_else(&mut self, table: Table<'_>, known: &str) {
        for (key, _) in table {
            self.problem(
                key.span,
                format!("unknown key {}", shown(&key.name)),
                format!("allowed here: {known}"),
            );
        }
    }

    fn tables<T>(
        &mut self,
        mut value: Value<'_>,
        header: &str,
        mut read: impl FnMut(&mut Self, Table<'_>, Span) -> Option<T>,
    ) -> Option<Vec<T>> {
        let span = value.span;
        let ValueInner::Array(values) = value.take() else {
            self.problem(span, "it must be a list of tables", format!("write its header as {header}"));
            return None;
        };
        let mut all = Vec::new();
        for value in values {
            let span = value.span;
            if let Some(table) = self.table(value) {
                all.extend(read(self, table, span));
            }
        }
        Some(all)
    }

    fn table<'v>(&mut self, mut value: Value<'v>) -> Option<Table<'v>> {
        match value.take() {
            ValueInner::Table(table) => Some(table),
            _ => {
                self.problem(value.span, "it must be a table", "write { name = value }");
                None
            }
        }
    }

    fn pairs(&mut self, value: Value<'_>) -> Option<Pairs> {
        let mut pairs = Vec::new();
        for (key, value) in self.table(value)? {
            if let Some(text) = self.string(value) {
                pairs.push((key.span.start, (key.name.into_owned(), text)));
            }
        }
        pairs.sort_by_key(|(place, _)| *place);
        Some(pairs.into_iter().map(|(_, pair)| pair).collect())
    }

    /// One, or a list of them.
    fn several<T>(
        &mut self,
        mut value: Value<'_>,
        mut read: impl FnMut(&mut Self, Value<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        match value.take() {
            ValueInner::Array(values) => {
                Some(values.into_iter().filter_map(|value| read(self, value)).collect())
            }
            one => read(self, Value::with_span(one, value.span)).map(|one| vec![one]),
        }
    }

    fn string(&mut self, mut value: Value<'_>) -> Option<String> {
        match value.take() {
            ValueInner::String(text) => Some(text.into_owned()),
            ValueInner::Integer(number) => Some(number.to_string()),
            _ => {
                self.problem(value.span, "it must be a string", "write it in quotes");
                None
            }
        }
    }

    fn number(&mut self, mut value: Value<'_>, least: i64, most: i64) -> Option<i64> {
        match value.take() {
            ValueInner::Integer(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                self.problem(
                    value.span,
                    "it must be a number in range",
                    format!("use a number from {least} to {most}"),
                );
                None
            }
        }
    }

    fn switch(&mut self, mut value: Value<'_>) -> Option<bool> {
        match value.take() {
            ValueInner::Boolean(on) => Some(on),
            _ => {
                self.problem(value.span, "it must be true or false", "write true or false");
                None
            }
        }
    }

    fn times(&mut self, value: Value<'_>) -> Option<(Duration, Duration)> {
        let span = value.span;
        let text = self.string(value)?;
        match durations(&text) {
            Ok(times) => Some(times),
            Err(error) => {
                self.problem(
                    span,
                    format!("{} is not a think time", shown(&text)),
                    format!("write \"2s\" or \"1s-5s\": {error}"),
                );
                None
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The names in braces.
fn names_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name.to_owned())
        .filter(|name| is_name(name))
}

/// A target with spaces and other letters escaped; braces stay, they are filled in later.
fn escaped(target: &str) -> String {
    percent::encode_unless(target.as_bytes(), |byte| byte.is_ascii_graphic() && !b"\"<>`#".contains(&byte))
}

/// `application/x-www-form-urlencoded`, but for `{name}`, which is filled in later.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
            && is_name(name)
        {
            encoded.push_str(&format!("{{{name}}}"));
            rest = after;
            continue;
        }
        let (piece, after) = rest.split_at(first.len_utf8());
        encoded.push_str(&percent::encode_form(piece));
        rest = after;
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As in docs/load-scenarios.md.
    const SHOP: &str = r#"
name = "shop"
url = "http://127.0.0.1:8080"
cookies = true
think = "1s-3s"
fields = { Accept-Language = "en" }

[[dynamic]]
before = 'nonce":"'
after = '"'

[[flow]]
name = "visitor"
weight = 9
[[flow.step]]
get = "/"
page = true
check = { status = 200, text = "</html>", no_text = ["Fatal error", "Warning"] }

[[flow]]
name = "buyer"
[[flow.step]]
get = "/shop/?a=b c"
extract = { product = { regex = 'data-product_id="([0-9]+)"' }, nonce = { between = ['nonce":"', '"'] } }
[[flow.step]]
post = "/?wc-ajax=add_to_cart"
form = { product_id = "{product}", quantity = 1, note = "a&b c" }
fields = { X-Nonce = "{nonce}" }
check = { status = [200, 302] }
think = "500ms"
"#;

    #[test]
    fn all_of_it() {
        let scenario = read(SHOP, None).unwrap();
        assert_eq!((scenario.name.as_str(), scenario.origin.port, scenario.cookies), ("shop", 8080, true));
        assert_eq!(scenario.dynamic.len(), 1);
        let [visitor, buyer] = scenario.flows.as_slice() else { panic!() };
        assert_eq!((visitor.weight, visitor.steps[0].page, visitor.steps[0].checks.len()), (9, true, 4));
        assert_eq!(visitor.steps[0].think, Some((Duration::from_secs(1), Duration::from_secs(3))));
        let [look, add] = buyer.steps.as_slice() else { panic!() };
        assert_eq!(look.request.target, "/shop/?a=b%20c");
        assert_eq!(look.extract.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["product", "nonce"]);
        assert_eq!(add.request.body, b"product_id={product}&quantity=1&note=a%26b+c");
        assert_eq!(add.request.fields[1].1, "application/x-www-form-urlencoded");
        assert_eq!(add.checks, [Check::Status(vec![200, 302])]);
        let other = Origin { tls: true, host: "b.test".to_owned(), port: 443 };
        assert_eq!(read(SHOP, Some(&other)).unwrap().origin, other);
    }

    #[test]
    fn every_mistake_has_its_line_and_cure() {
        let text = "url = \"a.test\"\nthink = \"long\"\ncolour = 1\n[[step]]\nget = \"x\"\n[[step]]\nget = \"/{nonce}\"\n\
                    check = { status = 99 }\n[[step]]\npost = \"/\"\nform = { a = \"1\" }\nbody = \"x\"\nextract = { v = { regex = \"(\" } }\n";
        let problems = read(text, None).unwrap_err();
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 6, 8, 9, 13], "{problems:#?}");
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[2],
            "line 3: unknown key `colour`; allowed here: name, url, think, cookies, browser_cache, fields, dynamic, \
             flow or step"
        );
        assert_eq!(
            texts[4],
            "line 6: no earlier step extracts {nonce} from a response; write extract = { nonce = { ... } } in an \
             earlier step"
        );
        assert_eq!(read("a = ", None).unwrap_err()[0].line, 1);
        assert!(read("", None).unwrap_err()[0].cure.contains("[[step]]"));
        assert!(read("[[step]]\nget = \"/\"", None).unwrap_err()[0].what.contains("no server"));
    }

    #[test]
    fn the_documented_ones_can_be_read() {
        const PAGE: &str = include_str!("../../../../docs/load-scenarios.md");
        let examples: Vec<&str> = PAGE
            .split("```toml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"))
            .map(|(text, _)| text)
            .collect();
        assert_eq!(examples.len(), 2);
        for text in examples {
            assert!(read(text, None).is_ok(), "{:?}", read(text, None));
        }
    }

    #[test]
    fn braces_of_json_are_its_own() {
        let text = "url = \"http://a\"\n[[step]]\nrequest = \"PUT /x\"\nbody = '{\"a\":{b}}'";
        let scenario = read(text, None).unwrap();
        assert_eq!(
            (scenario.flows[0].steps[0].request.method.as_str(), scenario.flows[0].name.as_str()),
            ("PUT", "flow")
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(at in 0..SHOP.len(), length in 0..40usize, more in "[\\[\\]{}=\"'a-z0-9é \n,-]{0,12}") {
            let end = (at + length).min(SHOP.len());
            let _ = read(&format!("{}{more}{}", &SHOP[..at], &SHOP[end..]), None);
        }
    }
}
