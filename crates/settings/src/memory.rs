//! Default shares of the machine's memory: three quarters of it are planned; the page cache, small files and PHP have their
//! shares, and connections get the rest.

use std::fmt;

use crate::plan::{Php, Site};
use crate::resolve::View;

/// Assumed memory of a PHP worker without a configured limit, bytes: WordPress with a shop has 30 to 60 MB of its own.
const WORKER: u64 = 64 << 20;

/// Shares of a machine's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// All memory for this process and its children.
    pub machine: u64,
    /// `cache.memory`.
    pub pages: u64,
    /// `files.cache_bytes`.
    pub files: u64,
    /// PHP workers, all pools together; at most half of the planned memory.
    pub php: u64,
    /// Maximum PHP workers, all pools together.
    pub workers: u64,
    /// PHP hosts: sites with the same settings share one.
    pub hosts: u64,
    /// Connections: the rest, at least a sixteenth of all.
    pub connections: u64,
}

impl Shares {
    /// The shares with this number of PHP workers, which take `php` bytes.
    fn new(view: &View<'_>, hosts: u64, workers: u64, php: u64) -> Shares {
        let machine = view.environment().memory;
        let planned = machine / 4 * 3;
        let (pages, files) = (view.number("cache.memory"), view.number("files.cache_bytes"));
        let php = php.min(planned / 2);
        let left = planned.saturating_sub(pages).saturating_sub(files).saturating_sub(php);
        Shares { machine, pages, files, php, workers, hosts, connections: left.max(machine / 16) }
    }

    /// The shares with the PHP of these sites; sites with the same settings share their workers.
    pub(crate) fn with(view: &View<'_>, sites: &[Site]) -> Shares {
        let mut known: Vec<&Php> = Vec::new();
        for php in sites.iter().flat_map(|site| site.php.iter().chain(&site.persistent)) {
            if !known.contains(&php) {
                known.push(php);
            }
        }
        let workers = known.iter().map(|php| php.workers as u64).sum();
        let bytes =
            |php: &&Php| php.workers as u64 * php.worker_memory.filter(|most| *most > 0).unwrap_or(WORKER);
        Shares::new(view, known.len() as u64, workers, known.iter().map(bytes).sum())
    }

    /// The shares with one set of PHP workers.
    pub(crate) fn with_one(view: &View<'_>) -> Shares {
        let workers = view.number("php.workers");
        Shares::new(view, 1, workers, workers * WORKER)
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let least = if self.connections == self.machine / 16 { ", but no less than 1/16 of it" } else { "" };
        write!(
            f,
            "75 % of {:.1} GB, without {:.2} GB for pages, {:.2} GB for files and {:.2} GB for {} PHP workers{least}",
            gigabytes(self.machine),
            gigabytes(self.pages),
            gigabytes(self.files),
            gigabytes(self.php),
            self.workers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::environment::fake::FakeDisk;
    use crate::written::Written;

    const MB: u64 = 1 << 20;

    fn on(memory: u64) -> Shares {
        let disk = FakeDisk::with(&[]);
        let machine = Environment { memory, cores: 2, ..disk.machine() };
        Shares::with_one(&View::new(&Written::default(), None, &machine))
    }

    #[test]
    fn connections_have_what_is_left_of_three_quarters() {
        let small = on(2048 * MB);
        // 1,536 MB less 256 for pages, 64 for files, and half of all for PHP.
        assert_eq!((small.pages, small.files, small.php), (256 * MB, 64 * MB, 768 * MB));
        assert_eq!(small.connections, 448 * MB);
        assert_eq!(
            small.to_string(),
            "75 % of 2.0 GB, without 0.25 GB for pages, 0.06 GB for files and 0.75 GB for 16 PHP workers"
        );
        let large = on(24 << 30);
        assert_eq!(large.connections, (18 << 30) - (3 << 30) - 64 * MB - 16 * 64 * MB);
        for memory in [64 * MB, 256 * MB, 512 * MB, 1 << 40] {
            let shares = on(memory);
            assert!(shares.connections >= memory / 16, "{shares:?}");
        }
    }
}
