//! Which files the scripts of a site consist of, as its PHP workers say (`php/c/code.c`). `serve/code` takes them, and looks whether
//! they change.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first word of such a report, where a purge has `soft` or `hard`; behind it, how long PHP may run old code, in seconds, or `-`.
const RAN: &[u8] = b"ran ";
/// Between paths.
const SEPARATOR: u8 = 0x1f;
/// Files of a site that wait to be taken; further ones are lost.
const MOST: usize = 50_000;

/// What was said and not taken yet, by the names of sites.
#[derive(Debug, Default)]
pub struct Code(Mutex<HashMap<Box<str>, SaidFiles>>);

/// Size, modified: seconds, nanoseconds. PHP looks at the latter. Rights and inodes are no code.
pub type CodeStamp = (u64, i64, i64);

/// Files of one site.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SaidFiles {
    /// Each with its state when it had run; paths are without symbolic links.
    pub files: Vec<(PathBuf, CodeStamp)>,
    /// Seconds until PHP looks at a file again; `None`: it doesn't, until the next reload.
    pub pause: Option<u64>,
}

impl Code {
    /// Takes a report of a worker; false: it is something else.
    pub fn hear(&self, site: &str, text: &[u8]) -> bool {
        let Some(text) = text.strip_prefix(RAN) else { return false };
        let mut items = text.split(|byte| *byte == SEPARATOR);
        let pause = items.next().and_then(|head| head.strip_suffix(b",")).map(String::from_utf8_lossy);
        let mut sites = self.lock();
        let said = sites.entry(Box::from(site)).or_default();
        said.pause = pause.and_then(|pause| pause.parse().ok());
        let room = MOST.saturating_sub(said.files.len());
        said.files.extend(items.filter_map(file).take(room));
        true
    }

    /// What was said about a site since the last call.
    pub fn take(&self, site: &str) -> Option<SaidFiles> {
        self.lock().remove(site)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, SaidFiles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `MODIFIED NANOSECONDS SIZE PATH`
fn file(item: &[u8]) -> Option<(PathBuf, CodeStamp)> {
    let mut parts = item.splitn(4, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<i64>().ok();
    let (seconds, nanoseconds, size) = (number()?, number()?, number()?);
    let path = PathBuf::from(OsStr::from_bytes(parts.next()?));
    Some((path, (u64::try_from(size).ok()?, seconds, nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_once() {
        let code = Code::default();
        assert!(!code.hear("a", b"wrote, post-1") && !code.hear("a", b"soft, *"));
        assert!(code.hear("a", b"ran 2,\x1f17 5 300 /srv/a, b.php\x1f17 6 0 /srv/c.php"));
        assert!(code.hear("a", b"ran 2,\x1f18 0 1 /srv/d.php\x1fbroken"));
        assert!(code.hear("b", b"ran -,\x1f17 5 300 /x.php"));
        let files = [("/srv/a, b.php", (300, 17, 5)), ("/srv/c.php", (0, 17, 6)), ("/srv/d.php", (1, 18, 0))];
        let files = files.map(|(path, stamp)| (PathBuf::from(path), stamp)).to_vec();
        assert_eq!(code.take("a"), Some(SaidFiles { files, pause: Some(2) }));
        assert_eq!(code.take("a"), None);
        assert_eq!(code.take("b").unwrap().pause, None);
    }
}
