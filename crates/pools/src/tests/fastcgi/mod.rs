//! FastCGI: the rules for connections, with FakeFpm at the other end.

mod fpm;
mod health;
mod pools;
mod talk;

use fpm::FakeFpm;

use super::*;

/// A site whose PHP is `fpms` FakeFpms, each with `children` connections.
fn rig(fpms: usize, children: usize, change: impl FnOnce(&mut plan::Php)) -> (Rig, Vec<FakeFpm>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = |which: usize| {
        std::env::temp_dir().join(format!("millrace-fpm-{}-{number}-{which}.sock", std::process::id()))
    };
    let fpms: Vec<FakeFpm> = (0..fpms).map(|which| FakeFpm::start(&path(which), children)).collect();
    let rig = Rig::new(|php| {
        php.fastcgi = fpms.iter().map(FakeFpm::backend).collect();
        change(php);
    });
    (rig, fpms)
}

impl Scene {
    /// Connections whose process waits for a request.
    fn idle_processes(&self) -> usize {
        let Some(PhpService::FastCgi(backends)) = self.site.service.as_deref() else {
            unreachable!("it has php-fpm")
        };
        backends.shared().lock().idle.iter().filter(|connection| connection.is_free()).count()
    }

    /// Waits until the one process waits for a request: a process that is not yet so far gets none, a new connection does.
    async fn until_free(&self) {
        self.until(20.0, "the process waits", |_| self.idle_processes() == 1).await;
    }
}

impl FakeFpm {
    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }
}

const HELLO: &str = "head:Content-type=text/html;body:hello;end";
