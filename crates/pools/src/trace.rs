//! Where a worker is, or was when it crashed: reads the host's report and formats it for the log.

use std::fmt;

/// Functions of PHP that wait for something with a name, by the prefixes of their names, in lower case.
const WAITS: &[(&str, &str)] = &[
    ("mysqli", "the database"),
    ("pdo", "the database"),
    ("pg_", "the database"),
    ("sqlite3", "the database"),
    ("oci_", "the database"),
    ("odbc_", "the database"),
    ("sqlsrv_", "the database"),
    ("mongodb\\", "the database"),
    ("redis", "the object cache"),
    ("memcache", "the object cache"),
    ("curl_", "another server"),
    ("soapclient", "another server"),
    ("fsockopen", "another server"),
    ("stream_socket_", "another server"),
    ("gethostby", "a name server"),
    ("dns_", "a name server"),
    ("session_", "the session lock"),
    ("flock", "a lock"),
    ("exec", "another program"),
    ("shell_exec", "another program"),
    ("system", "another program"),
    ("passthru", "another program"),
    ("proc_", "another program"),
    ("sleep", "time to pass"),
    ("usleep", "time to pass"),
    ("time_nanosleep", "time to pass"),
];

/// The text of a TRACED frame, or of an EXITED frame after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What the worker waits for: a system call, perhaps with its target, or `running`, or empty. After a crash: the
    /// reason.
    pub reason: String,
    /// One line per PHP frame, the innermost first.
    pub frames: Vec<String>,
}

impl Trace {
    /// Reads the text.
    pub fn read(text: &[u8]) -> Trace {
        let text = String::from_utf8_lossy(text);
        // A script can write into the memory in which its worker would report its crash.
        let mut lines = text.split('\n').map(|line| line.replace(char::is_control, "?"));
        let reason = lines.next().unwrap_or_default();
        Trace { reason, frames: lines.filter(|line| !line.is_empty()).collect() }
    }

    /// What it waits for, in words that follow "it waits": `for the database, in mysqli_query(): poll() for
    /// 127.0.0.1:3306`. `None` if it runs.
    pub fn waits(&self) -> Option<String> {
        // "#0 mysqli_query()", without a place: PHP's own functions have none.
        let innermost = self.frames.first().and_then(|frame| frame.strip_prefix("#0 "));
        let own = innermost.filter(|frame| frame.ends_with("()"));
        let named = own.and_then(|name| {
            let name = name.to_ascii_lowercase();
            WAITS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, what)| *what)
        });
        let call = Some(&self.reason[..]).filter(|reason| !matches!(*reason, "" | "running"));
        if self.reason == "running" || (named.is_none() && call.is_none()) {
            return None;
        }
        let mut words = named.map(|what| format!("for {what}, ")).unwrap_or_default();
        words.extend(own.iter().flat_map(|own| ["in ", own]));
        words.extend(call.iter().flat_map(|call| [if own.is_some() { ": " } else { "in " }, call]));
        Some(words)
    }
}

impl fmt::Display for Trace {
    /// The frames, each on its own line, with the newline before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frames.is_empty() {
            f.write_str("\n(no PHP backtrace available)")?;
        }
        self.frames.iter().try_for_each(|frame| write!(f, "\n{frame}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for() {
        let cases = [
            (
                "poll() for 127.0.0.1:3306\n#0 mysqli_query()\n#1 {main} in /x.php:2",
                Some("for the database, in mysqli_query(): poll() for 127.0.0.1:3306"),
            ),
            ("\n#0 PDOStatement::execute()", Some("for the database, in PDOStatement::execute()")),
            ("sleep()\n#0 sleep()\n#1 nap() in /x.php:3", Some("for time to pass, in sleep(): sleep()")),
            ("recv() for /run/a.sock\n#0 custom_read()", Some("in custom_read(): recv() for /run/a.sock")),
            ("read() for pipe:[1]\n#0 f() in /x.php:3", Some("in read() for pipe:[1]")),
            ("running\n#0 mysqli_query()", None),
            ("running\n#0 f() in /x.php:3", None),
            ("\n#0 sleepless() in /x.php:3", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Trace::read(text.as_bytes()).waits().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_terminal_is_not_spoken_to() {
        let trace = Trace::read(b"a\x1b[2J\r\n#0 f()\x07\n\n");
        assert_eq!((trace.reason.as_str(), &trace.frames[..]), ("a?[2J?", &["#0 f()?".to_owned()][..]));
    }

    #[test]
    fn frames_follow_on_lines_of_their_own() {
        let trace = Trace::read(b"sleep()\n#0 sleep()\n#1 {main} in /x.php:2");
        assert_eq!(trace.to_string(), "\n#0 sleep()\n#1 {main} in /x.php:2");
        assert_eq!(Trace::read(b"").to_string(), "\n(no PHP backtrace available)");
    }
}
