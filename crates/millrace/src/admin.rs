//! `status` and `reload`: asking the running server on its admin address.

use crate::args::{AdminArgs, ConfigArgs};
use crate::failure::Failure;
use crate::http::{HttpRequest, exchange};
use crate::serve::{load, say, source};
use millrace_settings::plan::{Address, Secret};
use millrace_wire::response::Response;
use serde_json::Value;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The variable that has `admin.token` where no configuration does.
const TOKEN: &str = "MILLRACE_ADMIN_TOKEN";
/// A reload that another command has ordered may be in progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// A reload starts new PHP hosts before the server responds: with many sites that takes long.
const RELOAD_PATIENCE: Duration = Duration::from_secs(600);
/// After this time, a reload says what it waits for.
const NOTICE: Duration = Duration::from_secs(3);

/// Prints the server's status.
///
/// # Errors
/// When no server responds.
pub fn status(args: &AdminArgs, json: bool) -> Result<(), Failure> {
    let answer = ask(args, "GET", if json { "/status.json" } else { "/status" }, b"")?;
    if answer.status != 200 {
        return Err(refused("status", &answer));
    }
    say(answer.text().trim_end())
}

/// Makes the server read its configuration again.
///
/// # Errors
/// When no server responds, or the configuration is invalid: then the old one stays in force.
pub fn reload(args: &AdminArgs) -> Result<(), Failure> {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let answer = std::thread::scope(|scope| {
        scope.spawn(move || tell_progress(args, &is_done));
        let answer = ask_within(args, "POST", "/reload", b"", RELOAD_PATIENCE);
        drop(done);
        answer
    });
    let answer = answer?;
    if answer.status != 200 {
        return Err(refused("reload", &answer));
    }
    say(answer.text().trim_end())
}

/// Says what a reload waits for, again when that changes, until it `is_done`: the other end is dropped then.
fn tell_progress(args: &AdminArgs, is_done: &Receiver<()>) {
    let mut told = None;
    while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(NOTICE) {
        let status = ask_within(args, "GET", "/status.json", b"", NOTICE).ok();
        let status = status.and_then(|answer| serde_json::from_str::<Value>(&answer.text()).ok());
        let what = status.as_ref().and_then(|status| status["reload_waits_for"].as_str());
        let what = what.unwrap_or("the server, which reads the configuration").to_owned();
        if told.as_ref() != Some(&what) {
            eprintln!(
                "millrace: still reloading: waiting for {what}; the old configuration serves meanwhile"
            );
            told = Some(what);
        }
    }
}

/// Sends a request to the selected server.
///
/// # Errors
/// When none responds.
pub fn ask(args: &AdminArgs, method: &str, target: &str, body: &[u8]) -> Result<Response, Failure> {
    ask_within(args, method, target, body, PATIENCE)
}

fn ask_within(
    args: &AdminArgs,
    method: &str,
    target: &str,
    body: &[u8],
    patience: Duration,
) -> Result<Response, Failure> {
    let AdminServer { address, token } = server(args)?;
    // Through a socket file, that it can be opened is proof enough; what only reads needs none.
    let token = token.filter(|_| method == "POST" && matches!(address, Address::Tcp(_)));
    let fields: Vec<(&str, String)> =
        token.map(|token| ("Authorization", format!("Bearer {token}"))).into_iter().collect();
    let ask = HttpRequest { method, target, fields: &fields, body };
    exchange(&address, "localhost", &ask, patience).map_err(|error| {
        let failure = Failure::new(format!("no Millrace answers at {}: {error}", shown(&address)));
        match error.kind() {
            ErrorKind::PermissionDenied => failure.next("the server runs as another user: run this command as that user, or as root"),
            // Somebody accepts connections there.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => failure.next(format!(
                "it runs, but has not answered within {} s: it may be busy with a reload, which goes on; its error log says what \
                 came of it, and `millrace status` answers when it is done",
                patience.as_secs()
            )),
            _ => failure.next(
                "is it running? If so, give its admin address (--admin), or the configuration that it runs with \
                 (--config, --set)",
            ),
        }
    })
}

fn refused(what: &str, answer: &Response) -> Failure {
    Failure::new(format!("{what} failed ({}):\n{}", answer.status, answer.text().trim_end()))
}

/// The admin address of the selected server.
///
/// # Errors
/// The configuration cannot be used, or has none.
pub fn find(args: &AdminArgs) -> Result<Address, Failure> {
    server(args).map(|server| server.address)
}

/// Where a server is asked, and what proves that we may change something.
struct AdminServer {
    address: Address,
    token: Option<String>,
}

/// With `--admin`, a token comes from the variable, or from a configuration that is named, too: the usual one may be another server's.
fn server(args: &AdminArgs) -> Result<AdminServer, Failure> {
    let named = args.admin.as_deref().map(parse).transpose()?;
    let plan = match named {
        Some(_) if args.config.is_none() => None,
        _ => {
            let args =
                ConfigArgs { config: args.config.clone(), set: args.set.clone(), ..ConfigArgs::default() };
            Some(load(&source(&args))?.0.admin)
        }
    };
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let (listen, written) = plan.map(|admin| (admin.listen, admin.token)).unwrap_or_default();
    let address = named.or(listen).ok_or_else(|| {
        Failure::new("this configuration has no admin address (admin.listen is \"off\")")
            .next("set admin.listen and restart the server; without an admin address, SIGHUP reloads it")
    })?;
    Ok(AdminServer { address, token: token.or(written.map(|Secret(token)| token)) })
}

/// An address as it is typed.
pub fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => socket.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn parse(text: &str) -> Result<Address, Failure> {
    let bad = || Failure::new(format!("--admin {text}: write unix:/PATH or 127.0.0.1:PORT"));
    match text.strip_prefix("unix:") {
        Some("") => Err(bad()),
        Some(path) => Ok(Address::Unix(path.into())),
        None => text.parse().map(Address::Tcp).map_err(|_| bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(admin: &str) -> AdminArgs {
        AdminArgs { admin: Some(admin.to_owned()), ..AdminArgs::default() }
    }

    #[test]
    fn a_server_that_is_not_there() {
        let text = status(&at("unix:/nonexistent/millrace.sock"), false).expect_err("nobody").to_string();
        assert!(
            text.starts_with("millrace: no Millrace answers at unix:/nonexistent/millrace.sock: "),
            "{text}"
        );
        assert!(text.contains("next: is it running?"), "{text}");
    }

    /// A socket whose owner accepts and says nothing: nobody is asked whether it is running.
    #[test]
    fn a_server_that_does_not_answer() {
        let path = std::env::temp_dir().join(format!("millrace-silent-{}", std::process::id()));
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let args = at(&format!("unix:{}", path.display()));
        let short = Duration::from_millis(20);
        let text = ask_within(&args, "GET", "/status", b"", short).expect_err("silence").to_string();
        std::fs::remove_file(&path).expect("the socket");
        assert!(text.contains("it may be busy with a reload") && !text.contains("is it running?"), "{text}");
    }

    #[test]
    fn wrong_addresses() {
        for bad in ["", "unix:", "localhost", "127.0.0.1", "http://127.0.0.1:1"] {
            assert!(parse(bad).is_err(), "{bad} was taken");
        }
        assert_eq!(parse("[::1]:99").expect("good"), Address::Tcp("[::1]:99".parse().expect("good")));
    }
}
