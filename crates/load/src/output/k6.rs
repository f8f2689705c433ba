//! A scenario as a script for k6 (grafana.com/k6), for load from several machines at once. Comments in it name what
//! k6 can't express.

use std::fmt::Write;
use std::time::Duration;

use crate::plan::{ArrivalModel, Curve, Plan};
use crate::scenario::{Check, Extract, Flow, Place, Scenario, Step};

/// The script.
pub fn script(scenario: &Scenario, plan: &Plan) -> String {
    let mut text = format!(
        "// {}: written by `millrace load --export k6`. Run it with `k6 run FILE`.\nimport http from \
         'k6/http';\nimport {{ check, sleep }} from 'k6';\n\nconst origin = {};\n",
        comment(&scenario.name),
        quoted(&scenario.origin.to_string())
    );
    // Writing to memory can't fail.
    let _ = writeln!(text, "const common = {};\n", object(&common_fields(scenario, plan)));
    options(plan, &mut text);
    left_out(scenario, plan, &mut text);
    for (index, flow) in scenario.flows.iter().enumerate() {
        write_flow(index, flow, plan, &mut text);
    }
    choose(scenario, &mut text);
    text.push_str(HELPERS);
    text
}

/// The end of every script.
const HELPERS: &str = r#"
// What stands in `content` between two texts.
function between(content, before, after) {
  const start = content.indexOf(before);
  if (start < 0) return undefined;
  const end = content.indexOf(after, start + before.length);
  return end < 0 ? undefined : content.substring(start + before.length, end);
}

// Style sheets, scripts and pictures of the same server, all at once as a browser would.
function fetchParts(page) {
  const found = new Set();
  const take = (tag, attribute) => page.html().find(tag).each((_, element) => {
    const value = element.getAttribute(attribute);
    if (!value) return;
    const url = value.startsWith('/') && !value.startsWith('//') ? origin + value : value;
    if (url.startsWith(origin + '/')) found.add(url.split('#')[0]);
  });
  take('link[rel=stylesheet]', 'href');
  take('script[src]', 'src');
  take('img[src]', 'src');
  const answers = http.batch([...found].map((url) => ['GET', url, null, { headers: common }]));
  check(answers, { 'parts of the page': (all) => all.every((one) => one.status < 400) });
}

function think(least, most) {
  sleep(least + Math.random() * (most - least));
}
"#;

fn common_fields(scenario: &Scenario, plan: &Plan) -> Vec<(String, String)> {
    let mut fields = scenario.fields.clone();
    if !plan.accept_encoding.is_empty()
        && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"))
    {
        fields.push(("Accept-Encoding".to_owned(), plan.accept_encoding.clone()));
    }
    // An empty one is not sent; k6 would send it.
    fields.retain(|(_, value)| !value.is_empty());
    fields
}

fn options(plan: &Plan, text: &mut String) {
    let stages = |curve: &Curve| -> String {
        let mut last = None;
        let mut stages = String::new();
        for stage in &curve.stages {
            if last != Some(stage.from) && (last.is_some() || stage.from > 0.0) {
                let _ = writeln!(stages, "        {{ duration: '0s', target: {} }},", stage.from.round());
            }
            let _ = writeln!(
                stages,
                "        {{ duration: '{}', target: {} }},",
                time(stage.time),
                stage.to.round()
            );
            last = Some(stage.to);
        }
        stages
    };
    let peak = plan.curve.stages.iter().map(|stage| stage.from.max(stage.to)).fold(1.0, f64::max).ceil();
    let executor = match plan.arrivals {
        ArrivalModel::Closed => {
            "executor: 'ramping-vus',\n      startVUs: 0,\n      gracefulRampDown: '30s',".to_owned()
        }
        ArrivalModel::Open => {
            let most = plan.connections.map_or(peak * 4.0, f64::from).max(1.0);
            format!(
                "executor: 'ramping-arrival-rate',\n      timeUnit: '1s',\n      preAllocatedVUs: {peak},\n      maxVUs: {most},"
            )
        }
    };
    let _ = write!(
        text,
        "export const options = {{\n  insecureSkipTLSVerify: true,\n  noConnectionReuse: {},\n  thresholds: {},\n  scenarios: {{\n    load: {{\n      {executor}\n      \
         stages: [\n{}      ],\n    }},\n  }},\n}};\n\n",
        !plan.keep_alive,
        thresholds(plan),
        stages(&plan.curve)
    );
}

fn thresholds(plan: &Plan) -> String {
    let mut all = Vec::new();
    if let Some(share) = plan.stop.failed_share {
        all.push(format!("http_req_failed: [{{ threshold: 'rate<{share}', abortOnFail: true }}]"));
    }
    if let Some(p99) = plan.stop.p99 {
        all.push(format!(
            "http_req_duration: [{{ threshold: 'p(99)<{}', abortOnFail: true }}]",
            p99.as_millis()
        ));
    }
    if all.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", all.join(", ")) }
}

/// Comments that list what the script does not do.
fn left_out(scenario: &Scenario, plan: &Plan, text: &mut String) {
    if scenario.timeline.is_some() {
        text.push_str(
            "// Not in this script: the recorded times of the replay; its requests are chosen evenly.\n",
        );
    }
    if scenario.browser_cache {
        text.push_str("// Not in this script: the browser cache.\n");
    }
    if plan.sameness {
        text.push_str("// Not in this script: the comparison with reference responses.\n");
    }
}

fn write_flow(index: usize, flow: &Flow, plan: &Plan, text: &mut String) {
    let _ = writeln!(
        text,
        "// {}\nfunction flow{index}() {{\n  const value = {{}};\n  let answer;",
        comment(&flow.name)
    );
    for step in &flow.steps {
        write_step(step, plan, text);
    }
    text.push_str("}\n\n");
}

fn write_step(step: &Step, plan: &Plan, text: &mut String) {
    let request = &step.request;
    let body = if request.body.is_empty() {
        "null".to_owned()
    } else {
        template(&String::from_utf8_lossy(&request.body))
    };
    let fields: Vec<String> =
        request.fields.iter().map(|(name, value)| format!("{}: {}", quoted(name), template(value))).collect();
    let _ = writeln!(
        text,
        "  answer = http.request({}, origin + {}, {body}, {{ headers: Object.assign({{}}, common, {{ {} }}), timeout: '{}' }});",
        quoted(&request.method),
        template(&request.target),
        fields.join(", "),
        time(plan.timeout)
    );
    let checks: Vec<String> =
        checks(step).into_iter().map(|(name, code)| format!("{}: (a) => {code}", quoted(&name))).collect();
    let _ = writeln!(text, "  if (!check(answer, {{ {} }})) return;", checks.join(", "));
    for extract in &step.extract {
        write_extract(extract, text);
    }
    if step.page {
        text.push_str("  fetchParts(answer);\n");
    }
    if let Some((least, most)) = step.think.or(plan.think) {
        let _ = writeln!(text, "  think({}, {});", least.as_secs_f64(), most.as_secs_f64());
    }
}

fn checks(step: &Step) -> Vec<(String, String)> {
    let has_status = step.checks.iter().any(|check| matches!(check, Check::Status(_)));
    let usual = (!has_status).then(|| ("status".to_owned(), "a.status >= 200 && a.status < 400".to_owned()));
    let one = |check: &Check| match check {
        Check::Status(all) => ("status".to_owned(), format!("{all:?}.includes(a.status)")),
        Check::Length(bytes) => (format!("{bytes} bytes"), format!("a.body.length === {bytes}")),
        Check::Text(text) => (format!("has {text}"), format!("a.body.includes({})", quoted(text))),
        Check::NoText(text) => (format!("has no {text}"), format!("!a.body.includes({})", quoted(text))),
    };
    usual.into_iter().chain(step.checks.iter().map(one)).collect()
}

fn write_extract(extract: &Extract, text: &mut String) {
    let code = match &extract.from {
        Place::Between { before, after } => {
            format!("between(answer.body, {}, {})", quoted(before), quoted(after))
        }
        Place::Regex(pattern) => {
            format!("(answer.body.match(new RegExp({})) || []).slice(0, 2).pop()", quoted(pattern.as_str()))
        }
        Place::Field(name) => format!("answer.headers[{}]", quoted(&canonical(name))),
        Place::Cookie(name) => format!("(answer.cookies[{0}] || [{{}}])[0].value", quoted(name)),
    };
    let _ = writeln!(
        text,
        "  value[{0}] = {code};\n  if (value[{0}] === undefined) return;",
        quoted(&extract.name)
    );
}

/// The function that k6 calls: it picks a flow by its weight.
fn choose(scenario: &Scenario, text: &mut String) {
    let all: u64 = scenario.flows.iter().map(|flow| u64::from(flow.weight)).sum();
    let _ = writeln!(
        text,
        "export default function () {{\n  {}",
        if scenario.cookies { "// k6 keeps cookies by default." } else { "http.cookieJar().clear(origin);" }
    );
    if scenario.flows.len() == 1 {
        text.push_str("  flow0();\n}\n");
        return;
    }
    let _ = writeln!(text, "  let pick = Math.random() * {all};");
    for (index, flow) in scenario.flows.iter().enumerate() {
        let _ = writeln!(text, "  if ((pick -= {}) < 0) return flow{index}();", flow.weight);
    }
    text.push_str("}\n");
}

/// A text of JavaScript.
fn quoted(text: &str) -> String {
    // JSON's texts are JavaScript's, but for two line ends that were not allowed before 2019.
    serde_json::to_string(text)
        .expect("texts are JSON")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// The same with `{name}` filled in.
fn template(text: &str) -> String {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        plain.push_str(&rest[..at]);
        match rest[at + 1..].split_once('}') {
            Some((name, after)) if is_name(name) => {
                pieces.push(quoted(&std::mem::take(&mut plain)));
                pieces.push(format!("value[{}]", quoted(name)));
                rest = after;
            }
            _ => {
                plain.push('{');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(quoted(&plain));
    }
    pieces.join(" + ")
}

fn object(fields: &[(String, String)]) -> String {
    let all: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
    format!("{{ {} }}", all.join(", "))
}

/// Text on one line, as it may stand in a comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}

/// The name of a field as Go writes it.
fn canonical(name: &str) -> String {
    let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase();
    let is_plain = name.is_ascii();
    name.split('-')
        .map(|part| if part.is_empty() || !is_plain { part.to_owned() } else { word(part) })
        .collect::<Vec<_>>()
        .join("-")
}

fn time(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_texts_and_values_are_filled_in() {
        assert_eq!(template("/a?x={id}&y={not a name}"), r#""/a?x=" + value["id"] + "&y={not a name}""#);
        assert_eq!(template("{id}"), r#""" + value["id"]"#);
        assert_eq!(template(""), r#""""#);
        assert_eq!(quoted("a\"b\n\u{2028}"), r#""a\"b\n\u2028""#);
        assert_eq!(
            (canonical("x-wp-nonce"), canonical("LOCATION"), comment("a\nb")),
            ("X-Wp-Nonce".into(), "Location".into(), "a b".into())
        );
    }
}
