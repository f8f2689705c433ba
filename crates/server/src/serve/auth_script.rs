//! Has a script of the site decide whether a request may pass (`auth.script` of a rule), as nginx's `auth_request` and
//! Caddy's `forward_auth` do.
//!
//! ```text
//!  request ── GET of the script, with the request's fields, without its content ──> PHP
//!     2xx, complete, without a fatal error ── fields of `auth.copy` ──> the request goes on; its response is private
//!     401, 403, a redirect ─────────────────────────────────────────> the client
//!     all else ─────────────────────────────────────────────────────> 500 or 503: nothing passes by a mistake
//! ```
//!
//! The script runs by itself: rules are not applied to its request, so that it cannot be asked about itself.

use std::rc::Rc;
use std::sync::Arc;

use millrace_settings::plan::{RuleAction, ScriptAuth};

use super::walk::WalkStep;
use super::{ExchangeTrouble, ServeThread};
use crate::route;
use millrace_base::message::reply::{Aside, Body, Reply};
use millrace_base::message::request::{AuthState, is_same_variable};
use millrace_base::message::{Request, Step};
use millrace_base::site::Script;
use millrace_pools::{self as php, SiteWorkers};

/// A copied field of a response.
type CopiedField = (String, Vec<u8>);

/// Runs the script of the site's rule with this number for `request`, and notes the decision there: then the request walks again; or it
/// is refused with a response. `gone`: its client.
///
/// # Errors
/// Its client has gone.
pub async fn ask(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    rule: u32,
    gone: impl Future<Output = ()>,
) -> Result<WalkStep, ExchangeTrouble> {
    let rule = site.rules.as_ref().map(|rules| rules.get(rule));
    let Some(RuleAction::AuthScript(auth)) = rule.and_then(|rule| rule.plan.action.as_ref()) else {
        return Ok(fail(thread, request, "", 500, "it has no such rule"));
    };
    let Some(script) = route::find_script(&thread.context, &thread.files, site, &auth.script) else {
        return Ok(fail(thread, request, &auth.script, 500, "it is missing, or may not run"));
    };
    let mut asking = asking(request, auth);
    // By the fields as the client sent them: they tell an untrusted proxy.
    let own = request.derived(auth.script.as_bytes(), |_| true, &[]);
    let seen = thread.shield.look(&thread.context, site, &own, &script);
    let _pass = match thread.shield.admit(&thread.context, site, seen, &mut asking).await {
        Ok(pass) => pass,
        Err(refusal) => return Ok(turned_away(thread, site, request, &script, refusal)),
    };
    let reply = php::run_while(&thread.php, site, &mut asking, &script, gone).await;
    thread.context.clock.read();
    if let Some(reply) = &reply {
        thread.shield.checked(&thread.context, seen, reply.status);
    }
    match reply {
        None => Err(ExchangeTrouble::Gone),
        Some(reply) if reply.is_turned_away() => Ok(turned_away(thread, site, request, &script, reply)),
        Some(reply) => Ok(judge(thread, request, auth, reply).await),
    }
}

/// The request that the script gets.
fn asking(request: &Request, auth: &ScriptAuth) -> Request {
    let mut more: Vec<(&str, Vec<u8>)> = vec![
        ("X-Original-URI", request.head.path_query().to_vec()),
        ("X-Original-Method", request.head.method().into()),
        ("X-Forwarded-Uri", request.head.path_query().to_vec()),
        ("X-Forwarded-Method", request.head.method().into()),
        ("X-Forwarded-Proto", request.ends.scheme.text().into()),
        ("X-Forwarded-Host", request.authority().into()),
    ];
    if let Some(ip) = request.ends.client_ip() {
        more.push(("X-Forwarded-For", ip.to_string().into()));
    }
    let mut asking = request.derived(auth.script.as_bytes(), is_for_script, &more);
    // What rules have made of the request is not about the script.
    (asking.found.ruling, asking.found.rules) = (None, None);
    asking
}

/// Whether the script gets a field of the request: not those of its content, of conditions and parts, of its connection,
/// and none by which the server itself speaks to the script.
fn is_for_script(name: &str) -> bool {
    const NOT: [&str; 9] = [
        "connection",
        "expect",
        "forwarded",
        "http2-settings",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    const BEGINS: [&str; 4] = ["content-", "if-", "x-forwarded-", "x-original-"];
    let begins = |start: &str| name.get(..start.len()).is_some_and(|begin| is_same_variable(begin, start));
    !NOT.iter().any(|known| is_same_variable(name, known)) && !BEGINS.into_iter().any(begins)
}

/// There is no worker for the script, or its client has sent too many requests.
fn turned_away(
    thread: &ServeThread,
    site: &SiteWorkers,
    request: &Request,
    script: &Script,
    reply: Reply,
) -> WalkStep {
    Step::Answer(php::seat(&thread.php, site, request, script, reply))
}

async fn judge(thread: &ServeThread, request: &mut Request, auth: &ScriptAuth, mut reply: Reply) -> WalkStep {
    match reply.status {
        200..=299 => {
            let fields = copied(auth, &reply);
            match finish(&mut reply).await {
                Ok(()) => pass(request, auth, &fields),
                Err((status, why)) => fail(thread, request, &auth.script, status, why),
            }
        }
        401 | 403 => Step::Answer(refusal(reply)),
        301..=303 | 307 | 308 if reply.fields.has("location") => Step::Answer(refusal(reply)),
        // PHP's own failures: no worker, a crash, a time limit.
        502..=504 => fail(thread, request, &auth.script, 503, "it did not respond"),
        status => {
            let why = format!(
                "it responded with {status}; 2xx lets a request pass, 401, 403 and redirects refuse it"
            );
            fail(thread, request, &auth.script, 500, &why)
        }
    }
}

/// The script's fields that the request gets.
fn copied(auth: &ScriptAuth, reply: &Reply) -> Vec<CopiedField> {
    let is_copied = |name: &str| auth.copy.iter().find(|known| known.eq_ignore_ascii_case(name));
    reply.fields.iter().filter_map(|(name, value)| Some((is_copied(name)?.clone(), value.to_vec()))).collect()
}

/// Waits for the end of the script: after its header section it may still fail.
async fn finish(reply: &mut Reply) -> Result<(), (u16, &'static str)> {
    let failed = |aside: &Option<Box<Aside>>| aside.as_ref().is_some_and(|aside| aside.failed);
    let mut has_failed = failed(&reply.aside);
    if let Body::Stream(content) = &mut reply.body {
        let mut buffer = Vec::new();
        while content.next(&mut buffer).await.map_err(|_| (503, "it broke off"))? {
            buffer.clear();
        }
        has_failed |= failed(&content.take_aside());
    }
    if has_failed { Err((500, "it ended in a fatal error")) } else { Ok(()) }
}

fn pass(request: &mut Request, auth: &ScriptAuth, fields: &[CopiedField]) -> WalkStep {
    let is_copied = |name: &str| auth.copy.iter().any(|known| is_same_variable(name, known));
    request.head.replace(is_copied, fields);
    // The client names fields of its own there: it must not take away what the script has added.
    request.head.change("connection", |names| {
        let names = names.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let keeps = |name: &&[u8]| std::str::from_utf8(name).is_ok_and(|name| !is_copied(name));
        Some(names.filter(keeps).collect::<Vec<_>>().join(&b", "[..]))
    });
    request.found.auth = AuthState::Passed;
    Step::Next
}

/// The script's response for the client. No cache may have it: the next request may pass.
fn refusal(mut reply: Reply) -> Reply {
    reply.aside = None;
    if !reply.fields.has("cache-control") {
        reply.fields.push("Cache-Control", b"no-store");
    }
    reply
}

/// Nothing passes if the script has not decided.
fn fail(thread: &ServeThread, request: &mut Request, script: &str, status: u16, why: &str) -> WalkStep {
    thread.context.process.log.error(format_args!(
        "auth.script {script}: {why}; answered {} {}{} with {status}",
        request.head.method(),
        request.authority(),
        request.raw_path()[..request.raw_path().len().min(200)].escape_ascii()
    ));
    request.found.auth = AuthState::Failed(status);
    Step::Next
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use millrace_base::message::request::{Ends, Scheme};

    #[test]
    fn a_client_takes_away_nothing_that_the_script_has_added() {
        for (names, left) in [
            ("X-User", ""),
            ("close, x_user", "close"),
            ("X-USER,Upgrade ,x-groups", "Upgrade"),
            ("X-Users", "X-Users"),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nX-User: forged\r\nConnection: {names}\r\n\r\n");
            let mut head = Head::default();
            head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 100 }).unwrap().unwrap();
            let ends = Ends { client: None, local: None, scheme: Scheme::Http, tls: None };
            let mut request = Request::direct(head, ends);
            let auth = ScriptAuth { script: "/a.php".into(), copy: vec!["X-User".into(), "X-Groups".into()] };
            pass(&mut request, &auth, &[("X-User".into(), b"ann".to_vec())]);
            let found = (request.head.field("connection"), request.head.field("x-user"));
            assert_eq!(found, (Some(left.as_bytes()), Some(&b"ann"[..])), "{names}");
        }
    }
}
