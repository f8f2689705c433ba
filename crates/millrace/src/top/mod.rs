//! `top`: the running server in the terminal. A frame is text ([`frame`]); `--once` prints one, otherwise [`terminal`] shows one every
//! two seconds and whenever a key changes the view.

mod findings;
mod frame;
mod terminal;

use std::io::IsTerminal;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::admin::ask;
use crate::args::{AdminArgs, TopArgs};
use crate::failure::{Explain, Failure};
use crate::http::form;
use crate::serve::say;
use frame::{Question, Snapshot, View};
use terminal::{Key, Terminal};

/// Distance of the frames.
const EVERY: Duration = Duration::from_secs(2);
/// How long a single frame waits for the doctor's report, which takes two seconds if no page watches the server.
const PATIENCE: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(100);
/// A frame that is not shown on a terminal: columns and lines.
const PLAIN: (usize, usize) = (80, 24);

/// Shows the server until a key ends it, or once.
///
/// # Errors
/// No server responds, or standard input or output is not a terminal.
pub fn top(args: &TopArgs) -> Result<(), Failure> {
    if args.once {
        let lines = frame::draw(&examined(&args.admin)?, &View::default(), PLAIN);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.trim_end()).collect();
        return say(texts.join("\n").trim_end());
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::new("standard input or output is not a terminal")
            .next("millrace top --once prints one frame"));
    }
    // Before the screen is taken: an error is readable then.
    let mut now = snapshot(&args.admin)?;
    let mut terminal = Terminal::open()?;
    let mut view = View::default();
    loop {
        let size = terminal.size();
        terminal.show(&frame::draw(&now, &view, size))?;
        let end = Instant::now() + EVERY;
        while let Some(key) = terminal.key(end.saturating_duration_since(Instant::now()))? {
            if !press(key, &mut view, &now, &args.admin)? {
                return Ok(());
            }
            let most = frame::most_scrolled(&now, size);
            view.findings = view.findings.map(|scrolled| scrolled.min(most));
            terminal.show(&frame::draw(&now, &view, size))?;
        }
        now = snapshot(&args.admin)?;
    }
}

fn snapshot(admin: &AdminArgs) -> Result<Snapshot, Failure> {
    let json = |target| json(admin, target);
    Ok(Snapshot {
        status: json("/status.json")?,
        history: json("/history.json")?,
        doctor: json("/doctor.json")?,
    })
}

/// What the server says when its doctor has ended an examination, or has taken too long.
fn examined(admin: &AdminArgs) -> Result<Snapshot, Failure> {
    let end = Instant::now() + PATIENCE;
    while json(admin, "/doctor.json")?["state"] == "examining" && Instant::now() < end {
        sleep(PAUSE);
    }
    snapshot(admin)
}

fn json(admin: &AdminArgs, target: &str) -> Result<Value, Failure> {
    let answer = ask(admin, "GET", target, b"")?;
    match answer.status {
        200 => serde_json::from_str(&answer.text()).or_fail(|| format!("cannot read the server's {target}")),
        404 => {
            Err(Failure::new(format!("the server has no {target}"))
                .next("restart it: it is of an older version"))
        }
        status => Err(Failure::new(format!("the server responds to {target} with {status}"))),
    }
}

/// Follows a key; false: the end.
fn press(key: Key, view: &mut View, now: &Snapshot, admin: &AdminArgs) -> Result<bool, Failure> {
    view.message = None;
    match (view.question.take(), key) {
        (Some(Question::Filter), Key::Text(c)) => {
            view.filter.push(c);
            view.question = Some(Question::Filter);
        }
        (Some(Question::Filter), Key::Erase) => {
            view.filter.pop();
            view.question = Some(Question::Filter);
        }
        (Some(Question::Filter), Key::Escape) => view.filter.clear(),
        (Some(Question::Purge(site)), Key::Text('y')) => view.message = Some(purge(&site, admin)?),
        (Some(_), _) => {}
        (None, Key::Text('q') | Key::Interrupt) => return Ok(false),
        (None, Key::Text('d')) => view.findings = view.findings.xor(Some(0)),
        (None, key) if view.findings.is_some() => scroll(key, view),
        (None, Key::Text('s')) => view.sort = view.sort.next(),
        (None, Key::Text('r')) => view.reversed = !view.reversed,
        (None, Key::Text('/')) => view.question = Some(Question::Filter),
        (None, Key::Escape) => view.filter.clear(),
        (None, Key::Down | Key::Text('j')) => view.selected = view.selected.saturating_add(1),
        (None, Key::Up | Key::Text('k')) => view.selected = view.selected.saturating_sub(1),
        (None, Key::Text('p')) => view.question = frame::selected(now, view).map(Question::Purge),
        (None, _) => {}
    }
    // The list may be shorter than the selection goes.
    view.selected = view.selected.min(frame::sites(now, view).len().saturating_sub(1));
    Ok(true)
}

/// Follows a key while the doctor's findings are shown.
fn scroll(key: Key, view: &mut View) {
    view.findings = match (key, view.findings) {
        (Key::Escape, _) => None,
        (Key::Down | Key::Text('j'), Some(line)) => Some(line.saturating_add(1)),
        (Key::Up | Key::Text('k'), Some(line)) => Some(line.saturating_sub(1)),
        (_, same) => same,
    };
}

/// Purges all pages of a site, which become stale; says what came of it.
fn purge(site: &str, admin: &AdminArgs) -> Result<String, Failure> {
    let answer = ask(admin, "POST", "/purge", &form(&[("site", site), ("all", "1")]))?;
    let said = answer.text();
    Ok(match answer.status {
        200 => format!("purged {} of {site}: stale until the next request refreshes them", said.trim_end()),
        _ => format!("cannot purge {site}: {}", said.trim_end()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_change_the_view() {
        let now = Snapshot {
            status: json!({ "sites": [{ "names": ["a.example"] }, { "names": ["b.example"] }] }),
            history: json!({}),
            doctor: json!(null),
        };
        let admin =
            AdminArgs { admin: Some("unix:/nonexistent/millrace.sock".to_owned()), ..AdminArgs::default() };
        let mut view = View::default();
        let keys = |text: &str, view: &mut View| {
            text.chars().all(|c| press(Key::Text(c), view, &now, &admin).expect("no request"))
        };
        assert!(keys("sr/b.e", &mut view));
        assert_eq!((view.filter.as_str(), view.reversed, view.selected), ("b.e", true, 0));
        press(Key::Enter, &mut view, &now, &admin).expect("no request");
        assert!(keys("jjj", &mut view));
        assert_eq!(view.selected, 0, "only one site is left");
        assert!(keys("p", &mut view));
        assert_eq!(view.question, Some(Question::Purge("b.example".to_owned())));
        // Anything but y is a no, and q is one, too.
        assert!(keys("q", &mut view));
        assert_eq!((view.question.clone(), view.message.clone()), (None, None));
        assert!(keys("p", &mut view));
        assert!(
            press(Key::Text('y'), &mut view, &now, &admin).is_err(),
            "it asks the server, which is not there"
        );
        press(Key::Escape, &mut view, &now, &admin).expect("no request");
        assert_eq!(view.filter, "");
        // Keys of the sites do nothing to what is hidden behind the findings.
        assert!(keys("djjjkp", &mut view));
        assert_eq!((view.findings, view.question.clone(), view.selected), (Some(2), None, 0));
        assert!(keys("d", &mut view));
        assert_eq!(view.findings, None);
        assert!(keys("d", &mut view));
        press(Key::Escape, &mut view, &now, &admin).expect("no request");
        assert_eq!(view.findings, None);
        assert!(!keys("dq", &mut view));
    }
}
