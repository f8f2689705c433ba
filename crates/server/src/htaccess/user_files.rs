//! Password and group files, read on another thread: their place may be a network's disk that does not respond.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use millrace_sys::{LARGEST_CONFIGURATION, read_regular_text};
use tokio::sync::Semaphore;

use super::folders::REVALIDATE;
use millrace_base::site::{Reach, Site};

/// Maximum number of files whose text an event loop has at a time.
const MOST_FILES: usize = 16;

/// How long requests wait for the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files that an event loop has read lately. A change of one counts after [`REVALIDATE`], as that of an `.htaccess` file.
#[derive(Debug, Default)]
pub struct UserFiles(Rc<RefCell<HashMap<UserFileName, UserFile>>>);

/// The root of a site, and a file: what one site's user may read, another one's need not.
type UserFileName = (PathBuf, PathBuf);

#[derive(Debug)]
struct UserFile {
    text: Result<Arc<str>, String>,
    /// When it was asked for, in the clock's ticks.
    asked: u64,
    /// Until when its text counts; 0: nobody has seen it yet.
    until: Cell<u64>,
}

impl UserFiles {
    /// The text of a file, or why there is none; `None`: it must be read first.
    pub fn text(&self, root: &Path, name: &Path, now: u64) -> Option<Result<Arc<str>, String>> {
        let mut files = self.0.borrow_mut();
        let name = (root.to_owned(), name.to_owned());
        let file = files.get(&name)?;
        if file.until.get() == 0 {
            // A request may need several files: the first one must still count when the last one has come, however slow the disk is.
            let took = now.saturating_sub(file.asked);
            file.until.set(now + REVALIDATE + 4 * took);
        }
        if now >= file.until.get() {
            files.remove(&name);
            return None;
        }
        Some(file.text.clone())
    }

    /// Reads a file with the rights of the site's user. One of a site is read at a time: a disk that does not respond keeps one thread, not all.
    pub fn read(
        &self,
        site: &Site,
        name: PathBuf,
        turn: Arc<Semaphore>,
        now: u64,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        self.read_within((site.plan.root.clone(), name), site.reach.clone(), turn, now, PATIENCE)
    }

    fn read_within(
        &self,
        name: UserFileName,
        reach: Reach,
        turn: Arc<Semaphore>,
        now: u64,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        let files = self.0.clone();
        Box::pin(async move {
            let text = match tokio::time::timeout(patience, read(name.1.clone(), reach, turn)).await {
                Ok(text) => text,
                Err(_) => Err(format!("its disk has not responded for {} s", patience.as_secs())),
            };
            let text = text.map_err(|why| format!("{}: {why}", name.1.display()));
            let mut files = files.borrow_mut();
            if files.len() >= MOST_FILES {
                files.clear();
            }
            files.insert(name, UserFile { text, asked: now, until: Cell::new(0) });
        })
    }
}

async fn read(name: PathBuf, reach: Reach, turn: Arc<Semaphore>) -> Result<Arc<str>, String> {
    let turn = turn.acquire_owned().await.map_err(|error| error.to_string())?;
    let read = tokio::task::spawn_blocking(move || {
        // The turn ends with the reading, even if nobody waits for it any more.
        let _turn = turn;
        let _rights = reach.enter()?;
        read_regular_text(&name, LARGEST_CONFIGURATION)
    });
    let text = read.await.map_err(|error| error.to_string())?;
    text.map(Arc::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(files: &UserFiles, name: &Path, now: u64) {
        let turn = Arc::new(Semaphore::new(1));
        let name = (PathBuf::from("/srv"), name.to_owned());
        files.read_within(name, Reach::default(), turn, now, PATIENCE).await;
    }

    #[tokio::test]
    async fn a_text_counts_for_a_while() {
        let name = std::env::temp_dir().join(format!("millrace-users-{}", std::process::id()));
        std::fs::write(&name, "ann:x").unwrap();
        let files = UserFiles::default();
        assert_eq!(files.text(Path::new("/srv"), &name, 5), None);
        read(&files, &name, 5).await;
        let is = |now| files.text(Path::new("/srv"), &name, now).map(|text| text.unwrap().to_string());
        assert_eq!(is(6).as_deref(), Some("ann:x"));
        assert_eq!(is(6 + REVALIDATE).as_deref(), Some("ann:x"), "it took a moment");
        assert_eq!(is(100 + REVALIDATE), None);
        assert_eq!(
            files.text(Path::new("/other"), &name, 6),
            None,
            "another site reads it with its own rights"
        );
        std::fs::write(&name, [0xFF]).unwrap();
        read(&files, &name, 2000).await;
        assert!(
            files.text(Path::new("/srv"), &name, 2000).unwrap().unwrap_err().ends_with("it is not UTF-8")
        );
        std::fs::remove_file(&name).unwrap();
        read(&files, &name, 3000).await;
        assert!(
            files.text(Path::new("/srv"), &name, 2001).unwrap().is_err(),
            "a slow disk's text still counts"
        );
    }

    #[tokio::test]
    async fn a_disk_that_does_not_respond_is_given_up() {
        let files = UserFiles::default();
        let (name, turn) = (Path::new("/nowhere"), Arc::new(Semaphore::new(1)));
        let _kept = turn.clone().acquire_owned().await.unwrap();
        let file = (PathBuf::from("/srv"), name.to_owned());
        files.read_within(file, Reach::default(), turn, 1, Duration::from_millis(1)).await;
        assert!(files.text(Path::new("/srv"), name, 1).unwrap().unwrap_err().contains("has not responded"));
    }
}
