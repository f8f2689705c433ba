//! A host process: the program `millrace-php`, started with a control socket and a scoreboard, and its messages.

use std::ffi::OsString;
use std::io::{self, IoSlice, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_settings::plan::{self, OpenBasedir, Rewind, Sandbox};
use millrace_wire::frames::control::{self, Message};
use millrace_wire::frames::{CONTROL_DESCRIPTOR, CONTROL_MAX, SCOREBOARD_DESCRIPTOR};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, send, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::inject::Injected;
use super::pool::growth::EXTRA;
use super::program::program;
use super::scoreboard::Scoreboard;
use super::start_error::PhpStartError;

/// Prefix of environment variables that the program passes to its scripts.
const VARIABLE: &str = "MILLRACE_ENV_";
/// Maximum length of a line of the host's standard error; a longer one is cut.
const LINE_BYTES: usize = 8 << 10;

/// A running host.
#[derive(Debug)]
pub struct Host {
    /// The memory that it shares with its workers and the server.
    pub scoreboard: Arc<Scoreboard>,
    /// When it was started.
    pub since: Instant,
    control: OwnedFd,
    child: Child,
}

/// A host's standard error and standard output (scripts write to `php://stdout`), which its workers share: it can outlive the host.
#[derive(Debug)]
pub struct Errors {
    pipe: PipeReader,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
}

/// A host's report that PHP is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// `8.2.29`
    pub php_version: String,
}

/// Number of slots of a scoreboard: besides the serving workers, closed workers that are about to end have slots.
pub fn slots(settings: &plan::Php) -> usize {
    settings.workers * 2 + EXTRA + 4
}

impl Host {
    /// Starts the program; PHP is up when it says READY.
    ///
    /// # Errors
    /// The program is not found or can't be started, and what to do.
    pub fn launch(settings: &plan::Php, injected: &Injected) -> Result<(Host, Errors), PhpStartError> {
        let program = program(settings)?;
        let launch = || {
            let scoreboard = Scoreboard::create(slots(settings) as u32, rewinds(settings))?;
            let flags = SocketFlags::CLOEXEC;
            let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            let mut command = Command::new(&program);
            command.args(arguments(settings));
            command.args(confinement(settings, injected.directory()));
            // Not as arguments: every user of the machine can read these.
            command.envs(settings.env.0.iter().map(|(name, value)| (format!("{VARIABLE}{name}"), value)));
            let (pipe, written) = io::pipe()?;
            command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written);
            let given = vec![
                (theirs, CONTROL_DESCRIPTOR),
                (scoreboard.as_fd().try_clone_to_owned()?, SCOREBOARD_DESCRIPTOR),
            ];
            let child = millrace_sys::give_descriptors(command, given)?;
            rustix::io::ioctl_fionbio(&pipe, true)?;
            let host = Host { scoreboard: Arc::new(scoreboard), since: Instant::now(), control: ours, child };
            Ok((host, Errors { pipe, partial: Vec::new() }))
        };
        launch().map_err(|error: io::Error| PhpStartError::Program(program.clone(), error))
    }

    /// The control socket.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes the host fork a worker for a slot; returns the server's end of its socket.
    ///
    /// # Errors
    /// No descriptor is left, the host is too slow (`WouldBlock`), or it is gone.
    pub fn spawn(&self, slot: u32) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        self.scoreboard.prepare(slot);
        let attached = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&attached));
        let message = control::spawn(slot);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(&self.control, &[IoSlice::new(&message)], &mut ancillary, flags);
        if let Err(error) = sent {
            self.scoreboard.free(slot);
            return Err(error.into());
        }
        Ok(ours)
    }

    /// Asks for the backtrace of a slot's worker: TRACED responds, if there is one.
    ///
    /// # Errors
    /// The host is too slow (`WouldBlock`), or is gone.
    pub fn trace(&self, slot: u32) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.control, &control::trace(slot), flags)?;
        Ok(())
    }

    /// Makes the host interrupt the system call of a worker whose time limit is over; programs that the worker waits
    /// for are terminated, or killed if `at_last`.
    pub fn let_go(&self, slot: u32, at_last: bool) {
        // If the host is gone or hangs, the worker is killed at the end of its grace period.
        let message = control::let_go(slot, at_last);
        let _ = send(&self.control, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Asks for PHP's settings and opcache: LOOKED responds.
    ///
    /// # Errors
    /// The host is too slow (`WouldBlock`), or is gone.
    pub fn ask(&self) -> io::Result<()> {
        send(&self.control, &control::look(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Tells the host to end after its workers.
    pub fn retire(&self) {
        // If it is gone or hangs: the caller waits for its end and then kills it.
        let _ = send(&self.control, &control::retire(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Receives the next message into `bytes`; `None`: there is none.
    ///
    /// # Errors
    /// The host has gone, or has sent invalid data.
    pub fn receive<'b>(&self, bytes: &'b mut Vec<u8>) -> io::Result<Option<Message<'b>>> {
        bytes.resize(CONTROL_MAX, 0);
        let length = loop {
            match recv(&self.control, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((length, _)) => break length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
        };
        Message::decode(&bytes[..length])
            .map(Some)
            .map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))
    }

    /// Continues the host if a signal has stopped it: a script may send one.
    pub fn go_on(&self) {
        let Ok(pid) = i32::try_from(self.pid()) else { return };
        let Some(pid) = Pid::from_raw(pid) else { return };
        if let Ok(Some(_)) = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
            // It may have ended.
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end for up to `patience`, then kills it; returns its exit status if it ended by itself.
    pub fn end(mut self, patience: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if began.elapsed() >= patience {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // It may have ended just now; the wait below tells.
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Errors {
    /// The pipe.
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Passes each complete line to `log`; false at the end.
    pub fn read(&mut self, mut log: impl FnMut(&str)) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(0) => {
                    let rest = std::mem::take(&mut self.partial);
                    tell(&rest, &mut log);
                    return false;
                }
                Ok(length) => self.split(&bytes[..length], &mut log),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn split(&mut self, bytes: &[u8], log: &mut impl FnMut(&str)) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            tell(&line, log);
        }
        if self.partial.len() > LINE_BYTES {
            let line = std::mem::take(&mut self.partial);
            tell(&line, log);
        }
    }
}

fn tell(line: &[u8], log: &mut impl FnMut(&str)) {
    let line = String::from_utf8_lossy(line.trim_ascii_end());
    if !line.is_empty() {
        log(&line);
    }
}

pub(super) fn arguments(settings: &plan::Php) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: OsString| arguments.extend([OsString::from(name), value]);
    for (name, value) in [("--user", &settings.user), ("--group", &settings.group)] {
        if let Some(value) = value {
            add(name, value.into());
        }
    }
    if let Some(file) = &settings.ini_file {
        add("--ini-file", file.into());
    }
    for (name, value) in &settings.ini {
        add("-d", format!("{name}={value}").into());
    }
    if settings.max_requests > 0 {
        add("--max-requests", settings.max_requests.to_string().into());
    }
    if let Some(worker) = &settings.worker {
        let mut add = |name: &str, value: OsString| arguments.extend([OsString::from(name), value]);
        add("--worker-script", worker.file.clone().into());
        add("--worker-name", worker.name.clone().into());
        add("--worker-root", worker.root.clone().into());
    }
    arguments
}

/// Whether its workers are rewound: persistent ones are not.
fn rewinds(settings: &plan::Php) -> bool {
    settings.rewind != Rewind::Off && settings.worker.is_none()
}

/// Whether a site has WooCommerce, whose session is loaded again for each rewound request (php/inject/wordpress/rewound-shop.php).
fn has_shop(settings: &plan::Php) -> bool {
    settings.folders.iter().any(|folder| folder.path.join("wp-content/plugins/woocommerce").is_dir())
}

/// Restrictions of its workers: options of php/c/main.c.
fn confinement(settings: &plan::Php, injected: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    arguments.extend(match settings.sandbox {
        Sandbox::On => Some("--sandbox".into()),
        Sandbox::Privileges => Some("--no-new-privileges".into()),
        Sandbox::Off => None,
    });
    for folder in &settings.folders {
        let option = if folder.writable { "--folder" } else { "--read-folder" };
        arguments.extend([option.into(), folder.path.clone().into()]);
    }
    arguments.extend(["--read-folder".into(), injected.into()]);
    if let Some(dir) = &settings.temp_dir {
        arguments.extend(["--temp-base".into(), dir.into()]);
    }
    if rewinds(settings) {
        arguments.push(if has_shop(settings) { "--rewind-methods" } else { "--rewind" }.into());
        if !settings.rewind_except.is_empty() {
            arguments.extend(["--rewind-except".into(), settings.rewind_except.join(",").into()]);
        }
    }
    let when = match settings.open_basedir {
        OpenBasedir::Auto if settings.sandbox == Sandbox::On => Some("needed"),
        OpenBasedir::Site => Some("always"),
        OpenBasedir::Auto | OpenBasedir::Off => None,
    };
    arguments.extend(when.into_iter().flat_map(|when| ["--open-basedir".into(), when.into()]));
    if !settings.disable_functions.is_empty() {
        arguments.extend(["--disable-functions".into(), settings.disable_functions.join(",").into()]);
    }
    arguments
}

/// How a process ended, as text.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was terminated by signal {signal}{name}")
        }
        (Some(code), _) => format!("exited with status {code}"),
        _ => "exited".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_in_words() {
        assert_eq!(ending(ExitStatus::from_raw(11)), "was terminated by signal 11 (SIGSEGV)");
        assert_eq!(ending(ExitStatus::from_raw(3 << 8)), "exited with status 3");
    }
}
