//! What all encrypted connections of a configuration share: versions, ciphers, certificates, session tickets.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use millrace_settings::plan;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache};

use super::certificates::{Certificates, Pair};
use crate::log::Log;

/// Sessions that are remembered for clients that take no tickets.
const SESSIONS: usize = 4096;

/// On what terms clients are talked to.
pub struct Terms {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    /// Keys of session tickets (RFC 8446 section 4.6.1, RFC 5077): rustls makes new ones every few hours. All threads share
    /// them, and they outlive a reload, so that no client needs a whole handshake because of one.
    tickets: Arc<dyn ProducesTickets>,
    /// A certificate of our own, if there is one.
    own: Option<Pair>,
    /// The files, as they were when they were last read.
    seen: Mutex<Vec<Stamp>>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// What shows that a file is another one now.
type Stamp = Option<(SystemTime, u64)>;

impl Terms {
    /// The terms of a plan; `None`: it has no HTTPS. What can go on from those `before` does.
    ///
    /// # Errors
    /// A certificate can't be used, or the machine's cryptography does not work.
    pub fn new(plan: &plan::Plan, before: Option<&Terms>) -> Result<Option<Terms>, String> {
        if plan.https.listen.is_empty() {
            return Ok(None);
        }
        let seen = stamps(&plan.https);
        let own = match (plan.https.certificates.is_empty(), before.and_then(|before| before.own.clone())) {
            (false, _) => None,
            (true, Some(own)) => Some(own),
            (true, None) => Some(Pair::self_signed(&names(plan))?),
        };
        let pairs = match &own {
            Some(own) => vec![own.clone()],
            None => load(&plan.https)?,
        };
        let tickets = match before {
            Some(before) => before.tickets.clone(),
            None => aws_lc_rs::Ticketer::new()
                .map_err(|error| format!("TLS can't be used: no keys for session tickets: {error}"))?,
        };
        let certificates = Arc::new(Certificates::new(pairs));
        let config = config(certificates.clone(), tickets.clone(), plan.https.http2)?;
        Ok(Some(Terms { config, certificates, tickets, own, seen: Mutex::new(seen) }))
    }

    /// As rustls takes them.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Whether a client that asked for `asked` has a certificate that is for `host`, too.
    pub fn covers(&self, asked: &str, host: &str) -> bool {
        self.certificates.covers(asked, host)
    }

    /// Reads files of certificates again that have changed. If that is not possible the old ones stay in force.
    pub fn renew(&self, https: &plan::Https, log: &Log) {
        if self.own.is_some() {
            return;
        }
        let now = stamps(https);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        match load(https) {
            Ok(pairs) => {
                self.certificates.replace(pairs);
                log.info(format_args!("the certificates have been read again: their files have changed"));
            }
            // Said once: as long as the files stay as they are, nothing is new.
            Err(why) => log.error(format_args!("the old certificates stay in force: {why}")),
        }
        *seen = now;
    }
}

fn config(
    certificates: Arc<Certificates>,
    tickets: Arc<dyn ProducesTickets>,
    http2: bool,
) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be used: {error}"))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.ticketer = tickets;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// The cryptography: aws-lc, with what rustls holds good today.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn load(https: &plan::Https) -> Result<Vec<Pair>, String> {
    https.certificates.iter().map(|files| Pair::load(&files.cert, &files.key)).collect()
}

fn stamps(https: &plan::Https) -> Vec<Stamp> {
    let files = https.certificates.iter().flat_map(|files| [&files.cert, &files.key]);
    files.map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// The names of all sites, as a certificate has them.
fn names(plan: &plan::Plan) -> Vec<String> {
    let mut names: Vec<String> = plan.sites.iter().flat_map(|site| site.names.clone()).collect();
    names.sort();
    names.dedup();
    names
}
