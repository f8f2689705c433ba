//! Checks of applications, if the settings want them: on one event loop, for all.

use std::rc::Rc;
use std::time::Duration;

use millrace_settings::plan::Proxy;

use super::connect::{KnownApplication, ProxyThread};
use super::exchange::{AppExchange, ExchangeError};
use super::h2::{self, AppLink, StreamExchange, StreamSeat};
use super::upload::{AppUpload, UploadContent};

/// How often to see which checks are due.
const TICK: Duration = Duration::from_secs(1);

/// Checks applications for as long as the event loop runs.
pub async fn watch(thread: Rc<ProxyThread>) {
    loop {
        tokio::time::sleep(TICK).await;
        thread.context.clock.read();
        let (plan, now) = (thread.context.plan(), thread.shared.at(thread.context.clock.now()));
        for proxy in plan.sites.iter().flat_map(|site| &site.proxies) {
            let Some(path) = &proxy.health_path else { continue };
            for url in &proxy.to {
                let application = thread.known(proxy, url);
                let interval = proxy.health_interval;
                if application.shared.is_check_due(now, interval.as_millis() as u64) {
                    let (thread, proxy, path) = (thread.clone(), proxy.clone(), path.clone());
                    tokio::task::spawn_local(
                        async move { check(&thread, &application, &proxy, &path).await },
                    );
                }
            }
        }
    }
}

async fn check(thread: &Rc<ProxyThread>, application: &KnownApplication, proxy: &Proxy, path: &str) {
    let asked = tokio::time::timeout(proxy.health_interval, ask(thread, application, proxy, path)).await;
    let log = &thread.context.process.log;
    match asked.unwrap_or_else(|_| Err("it took too long (proxy.health.interval)".to_owned())) {
        Ok(()) => application.shared.succeeds(log),
        Err(why) => application.shared.fails_check(log, &format!("the check {path}: {why}")),
    }
}

/// One check, on a connection of its own.
async fn ask(
    thread: &Rc<ProxyThread>,
    application: &KnownApplication,
    proxy: &Proxy,
    path: &str,
) -> Result<(), String> {
    let (url, limit) = (&application.shared.url, proxy.health_interval);
    let begun = if proxy.http2 {
        let link = AppLink::open(thread, application, proxy).await.map_err(|error| error.to_string())?;
        let request = h2::plain(url, path).ok_or_else(|| ExchangeError::Unsendable.to_string())?;
        let exchange =
            StreamExchange::new(StreamSeat::alone(thread, link), request, UploadContent::default(), false);
        let mut exchange = exchange.map_err(|(_, error)| error.to_string())?;
        exchange.begin(None, limit, limit).await
    } else {
        let connection = thread.connect(application, proxy).await.map_err(|error| error.to_string())?;
        let head = format!(
            "GET {}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Millrace\r\nConnection: close\r\n\r\n",
            url.base, url.authority
        );
        let upload = AppUpload::new(head.into_bytes(), UploadContent::default());
        AppExchange::new(connection, upload, false, None).begin(None, limit, limit).await
    };
    match begun.map_err(|error| error.to_string())?.outline.status {
        200..=399 => Ok(()),
        status => Err(format!("status {status}")),
    }
}
