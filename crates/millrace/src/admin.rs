//! `status` and `reload`: asking the running server on its admin address.

use crate::args::{AdminArgs, ConfigArgs};
use crate::failure::Failure;
use crate::http::{HttpRequest, exchange};
use crate::serve::{load, say, source};
use millrace_settings::plan::{Address, Secret};
use millrace_wire::response::Response;
use std::io::ErrorKind;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// The variable that has `admin.token` where no configuration does.
const TOKEN: &str = "MILLRACE_ADMIN_TOKEN";
/// Time limit of a response.
const PATIENCE: Duration = Duration::from_secs(60);
/// A reload starts new PHP hosts before the server responds: with many sites that takes long.
const RELOAD_PATIENCE: Duration = Duration::from_secs(600);
/// Interval at which a reload says what it waits for.
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
    let asked = args.clone();
    // Ends with the answer, which drops the other end.
    std::thread::spawn(move || {
        let mut said = String::new();
        while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(NOTICE) {
            match reloading(&asked) {
                Some(what) if what != said => {
                    eprintln!("millrace: still reloading: {what}; the old configuration serves meanwhile");
                    said = what;
                }
                _ => {}
            }
        }
    });
    let answer = ask_within(args, "POST", "/reload", b"", RELOAD_PATIENCE);
    drop(done);
    let answer = answer?;
    if answer.status != 200 {
        return Err(refused("reload", &answer));
    }
    say(answer.text().trim_end())
}

/// What the server's reload is doing; `None`: there is none, or no server responds.
fn reloading(args: &AdminArgs) -> Option<String> {
    let answer = ask_within(args, "GET", "/status.json", b"", NOTICE).ok()?;
    let status: serde_json::Value = serde_json::from_str(&answer.text()).ok()?;
    status["reloading"].as_str().map(str::to_owned)
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
    let fields: Vec<(&str, String)> =
        token.map(|token| ("Authorization", format!("Bearer {token}"))).into_iter().collect();
    let ask = HttpRequest { method, target, fields: &fields, body };
    exchange(&address, "localhost", &ask, patience).map_err(|error| {
        let failure = Failure::new(format!("no Millrace answers at {}: {error}", shown(&address)));
        match error.kind() {
            ErrorKind::PermissionDenied => failure.next("the server runs as another user: run this command as that user, or as root"),
            // Somebody accepts connections there.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => failure.next(format!(
                "it runs, but has not answered within {} s; a reload goes on: `millrace status` says what it does, and the error log \
                 what came of it",
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
        assert!(
            text.contains("`millrace status` says what it does") && !text.contains("is it running?"),
            "{text}"
        );
    }

    #[test]
    fn wrong_addresses() {
        for bad in ["", "unix:", "localhost", "127.0.0.1", "http://127.0.0.1:1"] {
            assert!(parse(bad).is_err(), "{bad} was taken");
        }
        assert_eq!(parse("[::1]:99").expect("good"), Address::Tcp("[::1]:99".parse().expect("good")));
    }
}
