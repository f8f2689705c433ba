//! `shield`: shows, orders and ends bans of the running server.

use crate::admin;
use crate::args::{Shield, ShieldArgs};
use crate::failure::Failure;
use crate::http::form;
use crate::serve::say;

/// Carries out a command, and prints what came of it.
///
/// # Errors
/// When no server responds, or it rejects the order.
pub fn shield(command: &Shield) -> Result<(), Failure> {
    let (order, args) = order(command);
    let answer = admin::ask(&args.admin, "POST", "/shield", &order)?;
    let text = answer.text();
    match answer.status {
        200 => say(text.trim_end()),
        404 => Err(Failure::new("the running server is older than this command: it has no shield")
            .next("restart the server with this version of Millrace")),
        _ => Err(Failure::new(format!("the shield refuses: {}", text.trim_end()))),
    }
}

/// The form of a command.
fn order(command: &Shield) -> (Vec<u8>, &ShieldArgs) {
    let seconds;
    let (mut pairs, args) = match command {
        Shield::List(args) => (vec![("do", "list")], args),
        Shield::Unban { network, args } => (vec![("do", "unban"), ("address", network.as_str())], args),
        Shield::Explain { address, args } => (vec![("do", "explain"), ("address", address.as_str())], args),
        Shield::Ban { network, time, reason, args } => {
            let mut pairs = vec![("do", "ban"), ("address", network.as_str())];
            seconds = time.map(|time| time.as_secs().max(1).to_string());
            pairs.extend(seconds.as_deref().map(|seconds| ("time", seconds)));
            pairs.extend(reason.as_deref().map(|reason| ("reason", reason)));
            (pairs, args)
        }
    };
    pairs.extend(args.json.then_some(("json", "1")));
    (form(&pairs), args)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_ordered_is_sent() {
        let text = |command: &Shield| String::from_utf8(order(command).0).expect("ASCII");
        let args = ShieldArgs::default;
        assert_eq!(text(&Shield::List(ShieldArgs { json: true, ..args() })), "do=list&json=1");
        let unban = Shield::Unban { network: "2001:db8::/32".to_owned(), args: args() };
        assert_eq!(text(&unban), "do=unban&address=2001%3Adb8%3A%3A%2F32");
        let ban = Shield::Ban {
            network: "192.0.2.1".to_owned(),
            time: Some(Duration::from_millis(90_500)),
            reason: Some("a b".to_owned()),
            args: args(),
        };
        assert_eq!(text(&ban), "do=ban&address=192.0.2.1&time=90&reason=a+b");
        let explain = Shield::Explain { address: "::1".to_owned(), args: args() };
        assert_eq!(text(&explain), "do=explain&address=%3A%3A1");
    }
}
