//! From records to the fields and content of a response.

use std::sync::Arc;

use millrace_wire::fastcgi::{CgiHead, HeadError, Record, RequestEnd};

use super::backends::FastcgiShared;
use crate::answer::{AnswerHead, PhpResponse};
use millrace_base::context::log::is_fatal;
use millrace_base::site::Script;

/// When messages together exceed this length, bytes, they are logged in pieces.
const MESSAGES_MAX: usize = 16 << 10;
/// What php-fpm puts before each message of PHP; it puts `; ` between them.
const MARK: &[u8] = b"PHP message: ";
/// What php-fpm says when it does not find a script.
const UNKNOWN_SCRIPT: &[u8] = b"Primary script unknown";

/// Takes a response's records.
#[derive(Debug)]
pub struct RecordReader {
    /// What the script wrote to the log.
    pub messages: ScriptMessages,
    /// How it ended.
    pub end: Option<RequestEnd>,
    /// The start of the head.
    start: Vec<u8>,
    /// Why the head is invalid.
    broken: Option<HeadError>,
}

impl RecordReader {
    /// A reader before the first record of a response.
    pub fn new(messages: ScriptMessages) -> RecordReader {
        RecordReader { messages, end: None, start: Vec::new(), broken: None }
    }

    /// Takes the next record.
    pub fn take(&mut self, record: Record<'_>, answer: &mut PhpResponse) {
        match record {
            Record::Stdout(piece) if answer.head.is_some() => answer.content.extend_from_slice(piece),
            Record::Stdout(piece) if self.start.is_empty() => {
                if !self.read_head(piece, 0, answer) {
                    self.start.extend_from_slice(piece);
                }
            }
            Record::Stdout(piece) => {
                let mut start = std::mem::take(&mut self.start);
                let known = start.len();
                start.extend_from_slice(piece);
                if !self.read_head(&start, known, answer) {
                    self.start = start;
                }
            }
            Record::Stderr(piece) => self.messages.take(piece),
            Record::End(end) => self.end = Some(end),
        }
    }

    /// Why what has arrived is not a response.
    pub fn broken(&self) -> Option<HeadError> {
        self.broken
    }

    /// Reads the head if it is complete; what follows it is content.
    fn read_head(&mut self, bytes: &[u8], known: usize, answer: &mut PhpResponse) -> bool {
        if self.broken.is_some() {
            return true;
        }
        match CgiHead::parse(bytes, known) {
            Ok(None) => false,
            Ok(Some((head, length))) => {
                answer.begin(AnswerHead::read(200, b"", || head.fields()));
                answer.content.extend_from_slice(&bytes[length..]);
                true
            }
            Err(error) => {
                self.broken = Some(error);
                true
            }
        }
    }
}

/// What scripts and php-fpm write beside the response, for the error log.
#[derive(Debug)]
pub struct ScriptMessages {
    shared: Arc<FastcgiShared>,
    site: String,
    script: std::rc::Rc<[u8]>,
    backend: usize,
    /// What has not been logged.
    text: Vec<u8>,
    /// One of them was a fatal error.
    pub failed: bool,
}

impl ScriptMessages {
    /// Messages about a script of a site, from a backend.
    pub fn new(
        shared: &Arc<FastcgiShared>,
        site: Option<&str>,
        script: &Script,
        backend: usize,
    ) -> ScriptMessages {
        let site = site.unwrap_or_default().to_owned();
        ScriptMessages {
            shared: shared.clone(),
            site,
            script: script.filename.clone(),
            backend,
            text: Vec::new(),
            failed: false,
        }
    }

    /// Takes a piece of the messages.
    pub fn take(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
        if self.text.len() > MESSAGES_MAX {
            self.end();
        }
    }

    /// Logs the messages: no more will arrive.
    pub fn end(&mut self) {
        let text = std::mem::take(&mut self.text);
        let mut rest = text.trim_ascii();
        while !rest.is_empty() {
            let next = memchr::memmem::find(&rest[1..], MARK).map_or(rest.len(), |at| at + 1);
            self.log(&rest[..next]);
            rest = &rest[next..];
        }
    }

    fn log(&mut self, message: &[u8]) {
        let message = message.strip_prefix(MARK).unwrap_or(message).trim_ascii();
        let message = message.strip_suffix(b";").unwrap_or(message);
        if message.is_empty() {
            return;
        }
        let script = String::from_utf8_lossy(&self.script);
        if message == UNKNOWN_SCRIPT {
            let address = &self.shared.backends[self.backend].address;
            return self.shared.log.error(format_args!(
                "php-fpm at {address} cannot find {script}: set php.fastcgi_root if php-fpm sees the site under \
                 another path, or let its user read the file"
            ));
        }
        let priority = priority(message);
        self.failed |= priority <= 3;
        self.shared.log.php(&self.site, &script, priority, message);
    }
}

impl Drop for ScriptMessages {
    fn drop(&mut self) {
        self.end();
    }
}

/// syslog's priority of a message, as main/main.c of php-src assigns it to each kind of error.
fn priority(message: &[u8]) -> u8 {
    let is = |kind: &str| message.strip_prefix(b"PHP ").is_some_and(|rest| rest.starts_with(kind.as_bytes()));
    if is_fatal(message) {
        3
    } else if is("Warning") {
        4
    } else {
        5
    }
}
