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
use super::issued::{CHALLENGE_PROTOCOL, Issued};
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
    /// Those of the files.
    given: Mutex<Vec<Pair>>,
    /// What an authority has issued. It outlives a reload.
    issued: Arc<Issued>,
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
        let given = load(&plan.https)?;
        let own = own(plan, before)?;
        let issued = before.map(|before| before.issued.clone()).unwrap_or_default();
        let tickets = match before {
            Some(before) => before.tickets.clone(),
            None => aws_lc_rs::Ticketer::new()
                .map_err(|error| format!("TLS can't be used: no keys for session tickets: {error}"))?,
        };
        let certificates = Arc::new(Certificates::new(issued.clone()));
        let config = config(certificates.clone(), tickets.clone(), protocols(plan))?;
        let (given, seen) = (Mutex::new(given), Mutex::new(seen));
        let terms = Terms { config, certificates, tickets, given, issued, own, seen };
        terms.refresh();
        Ok(Some(terms))
    }

    /// What an authority has issued.
    pub fn issued(&self) -> &Arc<Issued> {
        &self.issued
    }

    /// Puts in force what has been issued meanwhile. Connections that are open go on.
    pub fn refresh(&self) {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.certificates.replace(given, self.own.as_ref());
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
        if https.certificates.is_empty() {
            return;
        }
        let now = stamps(https);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return;
        }
        match load(https) {
            Ok(pairs) => {
                *self.given.lock().unwrap_or_else(PoisonError::into_inner) = pairs;
                self.refresh();
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
    protocols: Vec<Vec<u8>>,
) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be used: {error}"))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = protocols;
    config.ticketer = tickets;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// What is spoken inside, best first (ALPN). That of an authority's challenges comes last: nobody else offers it.
fn protocols(plan: &plan::Plan) -> Vec<Vec<u8>> {
    let has_acme = plan.sites.iter().any(|site| !site.acme.is_empty());
    let wanted: [(bool, &[u8]); 3] =
        [(plan.https.http2, b"h2"), (true, b"http/1.1"), (has_acme, CHALLENGE_PROTOCOL)];
    wanted.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_vec()).collect()
}

/// A certificate of our own, where there is no other or none yet.
fn own(plan: &plan::Plan, before: Option<&Terms>) -> Result<Option<Pair>, String> {
    let has_acme = plan.sites.iter().any(|site| !site.acme.is_empty());
    if !plan.https.certificates.is_empty() && !has_acme {
        return Ok(None);
    }
    let names = names(plan);
    let is_ip = |name: &String| name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let is_same = |own: &Pair| names.iter().all(|name| is_ip(name) || own.names().contains(name));
    match before.and_then(|before| before.own.clone()).filter(is_same) {
        Some(own) => Ok(Some(own)),
        None => Pair::self_signed(&names).map(Some),
    }
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
