//! The life of the host: its start, its messages, its loss, and its restart.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use millrace_settings::plan::Sandbox;
use millrace_wire::frames::PROTOCOL;
use millrace_wire::frames::control::{Message, Started as Text};

use super::super::host::{Host, Started, ending, slots};
use super::super::pool::{Seat, ServiceStage, back_off};
use super::super::program::missing_library;
use super::super::rehearsal::{CANNOT_SIGNAL, NO_SIGNALS};
use super::super::start_error::PhpStartError;
use super::{HOST_END, Supervisor};

/// Maximum bytes of the host's standard error that are stored for the message of a failed start.
pub(super) const LAST_WORDS: usize = 4 << 10;
/// A host that ends sooner than this counts as failed.
const HOST_WORKED: Duration = Duration::from_secs(1);
/// Maximum number of failures that count if PHP was up.
const HOST_ENDED: u32 = 2;

impl Supervisor {
    /// Starts a host; false if the pool can't continue without one.
    pub(super) fn launch(&mut self) -> bool {
        match Host::launch(&self.shared.settings, &self.shared.injected) {
            Ok((host, errors)) => {
                let scoreboard = host.scoreboard.clone();
                self.host = Some(host);
                self.errors.push(errors);
                self.last_words.clear();
                let mut state = self.shared.lock();
                state.generation += 1;
                state.scoreboard = Some(scoreboard);
                state.set_seats(slots(&self.shared.settings));
                true
            }
            Err(error) => self.host_failed(error),
        }
    }

    /// There is no host: reports that the first start failed, or schedules another attempt.
    fn host_failed(&mut self, error: PhpStartError) -> bool {
        if let Some(tell) = self.tell.take() {
            let _ = tell.send(Err(error));
            return false;
        }
        self.failed_hosts += 1;
        self.shared.lock().trouble = Some(error.to_string());
        let pause = back_off(self.failed_hosts);
        self.launch_at = self.now() + pause;
        if pause == 0 {
            self.shared.log.error(format_args!("{error}; restarting it now"));
        } else {
            self.shared.log.error(format_args!("{error}; restarting it in {pause} ms"));
        }
        true
    }

    /// The host has gone or is unusable: running requests may finish, everything else ends. False if the pool is over.
    pub(super) fn lose_host(&mut self, how: &str) -> bool {
        let Some(host) = self.host.take() else { return true };
        let (pid, age) = (host.pid(), self.clock.now().saturating_duration_since(host.since));
        let status = host.end(Duration::from_millis(50));
        let mut state = self.shared.lock();
        let was_up = state.started.take().is_some();
        state.generation += 1;
        let idle = state.idle.take_if(|_| true);
        for seat in state.set_seats(0) {
            if let Seat::Live(handle) | Seat::Booting(handle) = seat {
                self.orphans.push(handle);
            }
        }
        let over = state.stage != ServiceStage::Serving && state.dropped;
        drop(state);
        drop(idle);
        if was_up {
            // PHP can be started. If its hosts end one after the other, the pauses must not keep growing.
            let most = if age >= HOST_WORKED { 0 } else { HOST_ENDED };
            self.failed_hosts = self.failed_hosts.min(most);
        }
        if over {
            return true;
        }
        self.read_errors();
        let ending = status.map_or_else(|| how.to_owned(), ending);
        let cure = missing_library(&self.last_words).map(|cure| format!("\n{cure}")).unwrap_or_default();
        let text = match (was_up, self.last_words.trim_end()) {
            (true, _) => format!("the PHP host (process {pid}) {ending}"),
            (false, "") => {
                format!("the PHP host {ending} before PHP was ready; run `millrace-php --check` for details")
            }
            (false, words) => format!("the PHP host {ending} before PHP was ready:\n{words}{cure}"),
        };
        // Killed from outside, by the kernel because memory ran out or by a tool: this says nothing about PHP, not even
        // at the first start.
        if status.is_some_and(|status| status.signal() == Some(9)) && self.failed_hosts < 3 {
            self.failed_hosts += 1;
            self.shared.log.error(format_args!("{text}; restarting it now"));
            return true;
        }
        self.host_failed(PhpStartError::Failed(text))
    }

    /// Reads the control socket; false if the pool is over.
    pub(super) fn read_control(&mut self) -> bool {
        let mut bytes = std::mem::take(&mut self.message);
        let mut go_on = true;
        while let Some(host) = &self.host {
            go_on = match host.receive(&mut bytes) {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.lose_host(&format!("sent invalid data ({error})"))
                }
                Err(_) => self.lose_host("closed its control socket"),
            };
            if !go_on {
                break;
            }
        }
        self.message = bytes;
        go_on
    }

    fn hear(&mut self, message: Message<'_>) -> bool {
        match message {
            Message::Ready(text) => return self.host_ready(text),
            Message::Failed(text) => {
                let mut text = format!("PHP did not start: {text}");
                if let Some(host) = self.host.take() {
                    host.end(HOST_END);
                }
                self.read_errors();
                if !self.last_words.is_empty() {
                    text.push_str(":\n");
                    text.push_str(self.last_words.trim_end());
                }
                return self.host_failed(PhpStartError::Failed(text));
            }
            Message::WorkerStarted { slot, pid } => self.worker_started(slot as usize, pid),
            Message::WorkerExited { slot, pid, status, report, .. } => {
                self.worker_ended(slot as usize, pid, ExitStatus::from_raw(status), report);
            }
            Message::Traced { slot, pid, sequence, text } => self.traced(slot, pid, sequence, text),
            Message::Looked(text) => self.shared.insight.reported(text, self.clock.now()),
            Message::Log { priority, message } => {
                self.shared.log.php("", "", priority as u8, message);
                if self.shared.lock().started.is_none() {
                    keep(&mut self.last_words, &String::from_utf8_lossy(message));
                }
            }
        }
        true
    }

    /// Reads a host's report that PHP is up; the error says what is wrong with the host.
    pub(super) fn read_ready(&self, text: Text<'_>) -> Result<Started, &'static str> {
        if text.get("protocol").is_some_and(|version| version != PROTOCOL.to_string()) {
            return Err("has another version than the server: install both from the same release");
        }
        let php_version = text.get("php_version").unwrap_or("unknown").to_owned();
        if text.get("opcache") != Some("on") {
            let reason = text.get("opcache_reason").unwrap_or("the extension is not loaded");
            self.shared.log.warn(format_args!(
                "opcache is off ({reason}): every request compiles its scripts again; install and enable opcache"
            ));
        }
        let sandbox = text.get("sandbox").unwrap_or("off");
        if self.shared.settings.sandbox == Sandbox::On && !sandbox.contains("landlock") {
            self.shared.log.warn(format_args!(
                "the kernel cannot confine scripts to their sites' folders: it has no Landlock (Linux 5.19), or \
                 Landlock is not enabled (lsm=landlock,... on the kernel command line); see php.open_basedir"
            ));
        }
        if sandbox.contains(NO_SIGNALS) {
            self.shared.log.warn(format_args!("{CANNOT_SIGNAL}"));
        }
        self.shared.log.info(format_args!("PHP {php_version} is ready (sandbox: {sandbox})"));
        Ok(Started { php_version })
    }

    /// Messages from PHP's start about the ini file that the settings name, if PHP started without a part of it: it
    /// would serve without an extension, or without everything after a line that it can't read. For the
    /// distribution's files, and for a PHP that is restarted because it died, such a message is a warning, as under
    /// php-fpm.
    pub(super) fn left_out(&self, words: &str) -> Option<String> {
        let file = self.shared.settings.ini_file.as_deref()?;
        let lines: Vec<&str> = words.lines().filter(|line| is_left_out(line)).collect();
        let what = format!("PHP cannot start as configured in {}:\n{}", file.display(), lines.join("\n"));
        (!lines.is_empty()).then_some(what)
    }

    fn host_ready(&mut self, text: Text<'_>) -> bool {
        let started = match self.read_ready(text) {
            Ok(started) => started,
            Err(why) => return self.lose_host(why),
        };
        self.read_errors();
        if self.tell.is_some()
            && let Some(why) = self.left_out(&self.last_words)
        {
            if let Some(host) = self.host.take() {
                host.retire();
                host.end(HOST_END);
            }
            return self.host_failed(PhpStartError::Failed(why));
        }
        let mut state = self.shared.lock();
        state.started = Some(started);
        state.trouble = None;
        state.spawn_at = 0;
        drop(state);
        if let Some(tell) = self.tell.take() {
            // The receiver may have given up.
            let _ = tell.send(Ok(()));
        }
        true
    }

    pub(super) fn read_errors(&mut self) {
        let log = self.shared.log.clone();
        let last_words = &mut self.last_words;
        self.errors.retain_mut(|errors| {
            errors.read(|line| {
                keep(last_words, line);
                log.warn(format_args!("php: {line}"));
            })
        });
    }
}

/// Whether this is PHP's message about a part of an ini file that it skips: a line that it can't read, an extension
/// that it can't load (main/php_ini.c, ext/standard/dl.c, Zend/zend_extensions.c, Zend/zend_API.c).
fn is_left_out(line: &str) -> bool {
    const MODULES: [&str; 4] = [
        "Unable to load dynamic library",
        "Invalid library",
        "Unable to initialize module",
        "Cannot load module",
    ];
    line.starts_with("PHP:  ")
        || line.starts_with("Failed loading ")
        || MODULES.iter().any(|what| line.starts_with("PHP Warning:") && line.contains(what))
}

/// Stores a line for the message of a failed start.
fn keep(words: &mut String, line: &str) {
    if words.len() + line.len() < LAST_WORDS {
        words.push_str(line);
        words.push('\n');
    }
}
