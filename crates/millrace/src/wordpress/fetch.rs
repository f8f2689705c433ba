//! Downloads over HTTPS by `curl` or `wget`, stored in the cache folder, checked against a digest.

use crate::failure::{Explain, Failure};
use rustix::fs::FlockOperation;
use rustix::process::geteuid;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A digest that a file must have, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    /// The digest that wordpress.org publishes beside each archive.
    Sha1(String),
    /// The digest by which this program pins archives of wordpress.org.
    Sha256(&'static str),
    /// The digest that pins npm packages.
    Sha512(&'static str),
}

impl Digest {
    /// Whether the file at `path` is the one that is meant.
    ///
    /// # Errors
    /// When it can't be read, or differs.
    pub fn check(&self, path: &Path) -> Result<(), Failure> {
        let (expected, found) = match self {
            Digest::Sha1(hex) => (hex.as_str(), digest::<Sha1>(path)?),
            Digest::Sha256(hex) => (*hex, digest::<Sha256>(path)?),
            Digest::Sha512(hex) => (*hex, digest::<Sha512>(path)?),
        };
        if expected.eq_ignore_ascii_case(&found) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} is not the expected file: its digest is {found}, expected {expected}",
            path.display()
        )))
    }
}

fn digest<D: sha2::Digest>(path: &Path) -> Result<String, Failure> {
    let unreadable = || format!("cannot read {}", path.display());
    let mut file = File::open(path).or_fail(unreadable)?;
    let mut state = D::new();
    let mut piece = vec![0_u8; 1 << 20];
    loop {
        match file.read(&mut piece).or_fail(unreadable)? {
            0 => return Ok(state.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            n => state.update(&piece[..n]),
        }
    }
}

/// The folder for downloads: `$XDG_CACHE_HOME/millrace`, else `~/.cache/millrace`, else, also for a command that acts as another user
/// than the one whose home this is, a folder of the user's own among the temporary ones.
pub fn cache_dir() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let home = base.map(|base| base.join("millrace"));
    if let Some(dir) = home.filter(|dir| make_own(dir).is_ok()) {
        return Ok(dir);
    }
    let dir = std::env::temp_dir().join(format!("millrace-{}", geteuid().as_raw()));
    make_own(&dir).or_fail(|| format!("cannot create the download folder {}", dir.display()))?;
    Ok(dir)
}

/// Makes a folder that nobody else can put links into: downloads are written there, and run.
fn make_own(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let data = fs::metadata(dir)?;
    if data.uid() != geteuid().as_raw() || data.mode() & 0o022 != 0 {
        return Err(io::Error::other("it belongs to another user, or others may write to it"));
    }
    // It may be read-only for this command.
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)
}

/// The text at `url`, where the server can be reached at all.
pub fn text(url: &str) -> Result<String, Failure> {
    let output = run(&mut command(url, None, 20)?, url)?;
    String::from_utf8(output.stdout).or_fail(|| url.to_owned())
}

/// The right to download to `path`: waits until no other process has it. It ends with the file that is returned.
pub fn turn(path: &Path) -> Result<File, Failure> {
    let path = path.with_extension("lock");
    let explain = || format!("cannot lock {}", path.display());
    let lock = File::create(&path).or_fail(explain)?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        super::step("Waiting for another millrace process that downloads the same file");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from).or_fail(explain)?;
    }
    Ok(lock)
}

/// Downloads `url` to `path`, which appears only when it is complete.
pub fn file(url: &str, path: &Path, digest: Option<&Digest>) -> Result<(), Failure> {
    let _turn = turn(path)?;
    super::step(&format!("Downloading {url}"));
    let part = path.with_extension("part");
    let got = run(&mut command(url, Some(&part), 900)?, url)
        .and_then(|_| digest.map_or(Ok(()), |digest| digest.check(&part)))
        .and_then(|()| fs::rename(&part, path).or_fail(|| path.display().to_string()));
    if got.is_err() {
        let _ = fs::remove_file(&part);
    }
    got
}

/// `curl` or `wget`, whichever is installed.
fn command(url: &str, into: Option<&Path>, seconds: u32) -> Result<Command, Failure> {
    let target = into.unwrap_or(Path::new("-"));
    let mut command;
    if installed("curl") {
        command = Command::new("curl");
        command.args(["--fail", "--location", "--proto", "=https", "--silent", "--show-error"]);
        command.args(["--connect-timeout", "10", "--max-time", &seconds.to_string(), "--output"]);
        command.arg(target);
    } else if installed("wget") {
        command = Command::new("wget");
        command.args(["--no-verbose", "--https-only", "--tries=2", "--timeout=15", "-O"]).arg(target);
    } else {
        return Err(Failure::new("neither curl nor wget is installed").next("apt-get install curl"));
    }
    command.arg(url);
    Ok(command)
}

/// Whether a program of that name is in PATH.
pub fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Runs a helper program to its end; its last line of complaint becomes the error.
pub fn run(command: &mut Command, what: &str) -> Result<Output, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().or_fail(|| format!("cannot run {name}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // npm's last lines only name the place of its own log.
    let about =
        errors.lines().map(|line| line.trim_start_matches("npm ERR!").trim_start_matches("npm error").trim());
    let reason =
        about.take_while(|line| !line.contains("complete log")).filter(|line| !line.is_empty()).last();
    let last = reason.unwrap_or("no reason given");
    Err(Failure::new(format!("{what}: {name} says: {}", last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn digests_of_abc() {
        // The examples of FIPS 180.
        let scratch = Scratch::new();
        let path = scratch.path().join("abc");
        fs::write(&path, "abc").expect("written");
        Digest::Sha1("A9993E364706816ABA3E25717850C26C9CD0D89D".into()).check(&path).expect("SHA-1");
        Digest::Sha256("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
            .check(&path)
            .expect("SHA-256");
        Digest::Sha512(
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        )
        .check(&path)
        .expect("SHA-512");
        Digest::Sha1("a9993e364706816aba3e25717850c26c9cd0d89e".into())
            .check(&path)
            .expect_err("another file");
    }

    #[test]
    fn one_at_a_time_downloads_a_file() {
        let scratch = Scratch::new();
        let path = scratch.path().join("package.tgz");
        let first = turn(&path).expect("free");
        let (of, other) = (path.clone(), scratch.path().join("other.tgz"));
        let second = std::thread::spawn(move || {
            let _turn = turn(&of).expect("waited for");
            fs::read_to_string(&of).expect("the first one's file is there")
        });
        drop(turn(&other).expect("another file is free"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::write(&path, "whole").expect("written");
        drop(first);
        assert_eq!(second.join().expect("no panic"), "whole");
    }

    #[test]
    fn the_reason_is_found_in_what_npm_says() {
        let said = "npm ERR! code X\nnpm ERR! request failed\n\nnpm ERR! A complete log of this run\nnpm ERR!     /a.log";
        let error = run(Command::new("sh").args(["-c", &format!("printf '{said}' >&2; exit 1")]), "it");
        assert_eq!(error.expect_err("exit 1").to_string(), "millrace: it: sh says: request failed");
    }

    #[test]
    fn a_failed_helper_is_quoted() {
        let error =
            run(Command::new("sh").args(["-c", "echo one >&2; echo 'two ' >&2; exit 3"]), "the thing");
        assert_eq!(error.expect_err("exit 3").to_string(), "millrace: the thing: sh says: two");
        run(&mut Command::new("millrace-no-such-program"), "x").expect_err("not installed");
    }
}
