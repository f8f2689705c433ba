//! Millrace itself, as a child, serving one folder on a socket that only we can reach.

use crate::failure::{Explain, Failure};
use crate::wordpress::address::SiteAddress;
use crate::wordpress::random;
use millrace_settings::plan::Address;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// PHP starts within a second; a machine busy with other things takes longer.
const START: Duration = Duration::from_secs(60);

/// Runs before each script of the installation: otherwise WordPress would request its scheduled events at the site's
/// address, where no server, or another site, listens, and assume that they are running: then none starts for a
/// minute.
const NO_CRON: &str = "<?php define( 'DISABLE_WP_CRON', true );\n";

/// A server that ends when this is dropped.
pub struct Served {
    child: Child,
    address: Address,
    /// Contains the socket and the server's output; private.
    private: PathBuf,
}

impl Served {
    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// When it exits instead, with its output.
    pub fn start(site: &Path, address: &SiteAddress) -> Result<Served, Failure> {
        let private = std::env::temp_dir().join(format!("millrace-{}", &random::hex()?[..12]));
        fs::DirBuilder::new().mode(0o700).create(&private).or_fail(|| private.display().to_string())?;
        let socket = private.join("socket");
        let mut served = Served {
            child: spawn(site, &private, &socket, address)?,
            address: Address::Unix(socket),
            private,
        };
        served.wait_until_up()?;
        Ok(served)
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Ends it, and returns the errors it reported.
    pub fn stop(mut self) -> String {
        self.end();
        self.errors()
    }

    fn wait_until_up(&mut self) -> Result<(), Failure> {
        let Address::Unix(socket) = &self.address else { return Ok(()) };
        let deadline = Instant::now() + START;
        loop {
            if UnixStream::connect(socket).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let why = Failure::new(format!("the temporary server for the installation ended ({status})"));
                return Err(why.detail(self.errors()));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(
                    "the temporary server for the installation does not respond within a minute",
                )
                .next(self.errors()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM, and SIGKILL for one that doesn't listen.
    fn end(&mut self) -> Option<ExitStatus> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Ok(status) => return status,
                Err(_) => break,
            }
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }

    /// The last lines of the server's output.
    fn errors(&self) -> String {
        let said = fs::read_to_string(self.private.join("log")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.private);
    }
}

fn spawn(site: &Path, private: &Path, socket: &Path, address: &SiteAddress) -> Result<Child, Failure> {
    let program = std::env::current_exe().or_fail(|| "cannot find the executable of this program".into())?;
    let log = File::create(private.join("log")).or_fail(|| private.display().to_string())?;
    let said = log.try_clone().or_fail(|| private.display().to_string())?;
    let mut command = Command::new(program);
    command.arg("serve").arg(site).arg("--listen").arg(format!("unix:{}", socket.display()));
    command.args(["--profile", "wordpress", "--set", "admin.listen=off", "--set", "php.workers=2"]);
    command.args(["--set", "log.level=warn"]);
    let no_cron = private.join("no-cron.php");
    fs::write(&no_cron, NO_CRON).or_fail(|| no_cron.display().to_string())?;
    command.arg("--set").arg(format!("php.ini.auto_prepend_file={}", no_cron.display()));
    if address.is_https() {
        command.args(["--set", "server.trusted_proxies=unix"]);
    }
    command.stdin(Stdio::null()).stdout(said).stderr(log);
    command.spawn().or_fail(|| "cannot start the temporary server for the installation".into())
}
