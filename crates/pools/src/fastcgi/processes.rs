//! php-fpm's processes, if they run on this machine: their processor time shows how many requests should run at once.

use std::fs;

/// The processes of one php-fpm.
#[derive(Debug, Default)]
pub struct Processes {
    pids: Vec<u32>,
    /// They all belong to one pool. If there are several, php-fpm does not say which one serves us.
    is_one_pool: bool,
}

impl Processes {
    /// Lists this master's current processes; `None`: they can't be determined.
    pub fn look(&mut self, master: u32) -> Option<&[u32]> {
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).ok()?;
        let pids: Vec<u32> = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if pids != self.pids {
            self.is_one_pool = are_alike(&pids);
            self.pids = pids;
        }
        (self.is_one_pool && !self.pids.is_empty()).then_some(&self.pids)
    }
}

/// Whether processes have the same title: `php-fpm: pool www`. A newly forked one has its parent's title.
fn are_alike(pids: &[u32]) -> bool {
    let titles = pids.iter().map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    let mut titles = titles.filter(|title| !title.starts_with(b"php-fpm: master"));
    let first = titles.next();
    titles.all(|title| Some(&title) == first.as_ref())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_of_one_kind() {
        let children = |seconds: [&str; 2]| {
            let script = format!("sleep {} & sleep {} & echo x; wait", seconds[0], seconds[1]);
            let mut shell = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
            // The processes exist when it has written its output, and have their titles a moment later.
            std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            let mut processes = Processes::default();
            let began = std::time::Instant::now();
            let sleeps = |pids: &[u32]| {
                pids.len() == 2
                    && pids.iter().all(|pid| {
                        fs::read(format!("/proc/{pid}/cmdline"))
                            .is_ok_and(|title| title.starts_with(b"sleep"))
                    })
            };
            let text = format!("/proc/{0}/task/{0}/children", shell.id());
            let pids = loop {
                let pids: Vec<u32> = fs::read_to_string(&text)
                    .unwrap()
                    .split_ascii_whitespace()
                    .map(|pid| pid.parse().unwrap())
                    .collect();
                if sleeps(&pids) {
                    break pids;
                }
                assert!(began.elapsed().as_secs() < 20, "{pids:?}");
                std::thread::yield_now();
            };
            let found = processes.look(shell.id()).map(<[u32]>::to_vec);
            for pid in &pids {
                let _ = Command::new("kill").arg(pid.to_string()).status();
            }
            shell.wait().unwrap();
            (found, pids)
        };
        let (found, pids) = children(["600", "600"]);
        assert_eq!(found, Some(pids));
        assert_eq!(children(["600", "601"]).0, None, "of two kinds");
        assert_eq!(Processes::default().look(u32::MAX), None);
    }
}
