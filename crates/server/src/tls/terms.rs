//! What all encrypted connections of a configuration share: versions, ciphers, certificates, sessions.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use millrace_settings::{CertificateFacts, plan};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache};

use super::certificates::{Certificates, Pair};
use super::clients::{self, Policy};
use super::error::TlsError;
use super::issued::{CHALLENGE_PROTOCOL, Issued};
use super::kernel::{Ability, ability};
use millrace_base::context::log::Log;

/// Maximum number of stored sessions, for clients without tickets, and for all if early data is accepted.
const SESSIONS: usize = 16_384;

/// Maximum early data of a client: a request with all its cookies, bytes.
const EARLY_BYTES: u32 = 16 << 10;

/// The terms of encrypted connections.
pub struct Terms {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    memory: ResumptionState,
    /// What the kernel may do for connections.
    ability: Ability,
    /// Policies of sites that ask clients for certificates.
    policies: Vec<Policy>,
    /// The port suffix of a host, if HTTPS is not on its default port.
    port: String,
    /// Certificates from files.
    given: Mutex<Vec<Pair>>,
    /// Certificates from an authority. They outlive a reload.
    issued: Arc<Issued>,
    /// A self-signed certificate, if there is one.
    own: Option<Pair>,
    /// The state of the files when they were last read.
    seen: Mutex<Vec<TermsStamp>>,
}

/// Sessions of earlier clients. All threads share them, and they outlive a reload, so that it causes no full
/// handshakes.
#[derive(Clone)]
pub(super) struct ResumptionState {
    /// Keys of session tickets (RFC 8446 section 4.6.1, RFC 5077): rustls makes new ones every few hours.
    tickets: Arc<dyn ProducesTickets>,
    /// Sessions by number. A TLS 1.3 session is forgotten when it is used: so early data can't be replayed.
    sessions: Arc<ServerSessionMemoryCache>,
}

impl ResumptionState {
    fn new() -> Result<ResumptionState, TlsError> {
        let tickets = aws_lc_rs::Ticketer::new().map_err(TlsError::Tickets)?;
        Ok(ResumptionState { tickets, sessions: ServerSessionMemoryCache::new(SESSIONS) })
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// Changes when a file changes.
type TermsStamp = Option<(SystemTime, u64)>;

impl Terms {
    /// The terms of a plan; `None`: it has no HTTPS. Reuses what it can from `before`.
    ///
    /// # Errors
    /// A certificate is unusable, or the machine's cryptography does not work.
    pub fn new(plan: &plan::Plan, before: Option<&Terms>) -> Result<Option<Terms>, TlsError> {
        if plan.https.listen.is_empty() {
            return Ok(None);
        }
        let seen = stamps(&plan.https);
        let given = load(&plan.https)?;
        let own = own(plan, before)?;
        let issued = before.map(|before| before.issued.clone()).unwrap_or_default();
        let memory = before.map_or_else(ResumptionState::new, |before| Ok(before.memory.clone()))?;
        let certificates = Arc::new(Certificates::new(issued.clone()));
        let asks = Asks::Nobody { early: plan.https.early_data };
        let ability = allowed(&plan.https);
        let config = config(&certificates, &memory, asks, protocols(plan), ability)?;
        let (policies, port) = (policies(plan, before, &certificates, ability)?, port(&plan.https));
        let (given, seen) = (Mutex::new(given), Mutex::new(seen));
        let terms = Terms { config, certificates, memory, ability, policies, port, given, issued, own, seen };
        terms.refresh();
        Ok(Some(terms))
    }

    /// The policy for clients of a site; `None`: they are not asked for certificates.
    pub fn policy(&self, site: &plan::Site) -> Option<&Policy> {
        let clients = site.clients.as_ref()?;
        self.policies.iter().find(|policy| policy.written == *clients)
    }

    /// Whether clients of any site are asked for certificates.
    pub fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// The port suffix of a host: `:8443`, or empty for the default port.
    pub fn port(&self) -> &str {
        &self.port
    }

    /// What the kernel may do for connections.
    pub fn ability(&self) -> Ability {
        self.ability
    }

    /// Certificates from an authority.
    pub fn issued(&self) -> &Arc<Issued> {
        &self.issued
    }

    /// Puts newly issued certificates in force. Open connections continue.
    pub fn refresh(&self) {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.certificates.replace(given, self.own.as_ref());
    }

    /// What the certificates from files say, in the order of the configuration.
    pub fn given(&self) -> Vec<CertificateFacts> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.iter().filter_map(|pair| pair.facts().ok()).collect()
    }

    /// The configuration for rustls.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Whether a client that asked for `asked` got a certificate that covers `host`, too.
    pub fn covers(&self, asked: &str, host: &str) -> bool {
        self.certificates.covers(asked, host)
    }

    /// Reads changed certificate files again. If that fails, the old ones stay in force.
    pub fn renew(&self, https: &plan::Https, log: &Log) {
        if https.certificates.is_empty() {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(https);
        if *seen == now {
            return;
        }
        match load(https) {
            Ok(pairs) => {
                *self.given.lock().unwrap_or_else(PoisonError::into_inner) = pairs;
                self.refresh();
                log.info(format_args!("reloaded certificates: their files have changed"));
            }
            // Logged once: as long as the files stay unchanged, there is nothing new.
            Err(why) => {
                log.error(format_args!("cannot reload certificates, the old ones stay in force: {why}"))
            }
        }
        *seen = now;
    }
}

/// What the kernel supports, if the settings allow it.
fn allowed(https: &plan::Https) -> Ability {
    if !https.kernel_tls {
        return Ability::NONE;
    }
    ability().as_ref().copied().unwrap_or_default()
}

/// Whether a rustls configuration asks clients for a certificate.
enum Asks {
    Nobody { early: bool },
    Clients(Arc<dyn ClientCertVerifier>),
}

fn config(
    certificates: &Arc<Certificates>,
    memory: &ResumptionState,
    asks: Asks,
    protocols: Vec<Vec<u8>>,
    ability: Ability,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Cryptography)?;
    let early = matches!(asks, Asks::Nobody { early: true });
    let builder = match asks {
        Asks::Nobody { .. } => builder.with_no_client_auth(),
        Asks::Clients(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let mut config = builder.with_cert_resolver(certificates.clone());
    config.alpn_protocols = protocols;
    // All of ours are good; but testing tools prefer that the server decides.
    config.ignore_client_order = true;
    // The kernel gets the keys of connections that switch to it.
    config.enable_secret_extraction = ability.is_any();
    config.session_storage = memory.sessions.clone();
    if early {
        // A ticket could be used twice, and early data be replayed with it; rustls accepts early data only without
        // tickets.
        config.max_early_data_size = EARLY_BYTES;
        config.send_half_rtt_data = true;
    } else {
        config.ticketer = memory.tickets.clone();
    }
    Ok(Arc::new(config))
}

/// The protocols inside, best first (ALPN). The challenge protocol comes last: only authorities offer it.
fn protocols(plan: &plan::Plan) -> Vec<Vec<u8>> {
    let has_acme = plan.sites.iter().any(|site| !site.acme.is_empty());
    let wanted: [(bool, &[u8]); 3] =
        [(plan.https.http2, b"h2"), (true, b"http/1.1"), (has_acme, CHALLENGE_PROTOCOL)];
    wanted.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_vec()).collect()
}

/// A self-signed certificate, if there is no other or none yet.
fn own(plan: &plan::Plan, before: Option<&Terms>) -> Result<Option<Pair>, TlsError> {
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

/// One for each way in which sites check clients.
fn policies(
    plan: &plan::Plan,
    before: Option<&Terms>,
    certificates: &Arc<Certificates>,
    ability: Ability,
) -> Result<Vec<Policy>, TlsError> {
    let mut policies: Vec<Policy> = Vec::new();
    for written in plan.sites.iter().filter_map(|site| site.clients.as_ref()) {
        if policies.iter().any(|policy| policy.written == *written) {
            continue;
        }
        let (verifier, number) = clients::verifier(written)?;
        let same = before.and_then(|before| before.policies.iter().find(|policy| policy.number == number));
        let memory = same.map_or_else(ResumptionState::new, |policy| Ok(policy.memory.clone()))?;
        let config = config(certificates, &memory, Asks::Clients(verifier), protocols(plan), ability)?;
        policies.push(Policy { written: written.clone(), number, config, memory });
    }
    Ok(policies)
}

/// The port of the first address, unless one of them has the default port.
fn port(https: &plan::Https) -> String {
    let ports = || {
        https.listen.iter().filter_map(|address| match address {
            plan::Address::Tcp(address) => Some(address.port()).filter(|port| *port != 0),
            plan::Address::Unix(_) => None,
        })
    };
    match ports().next() {
        Some(port) if ports().all(|port| port != 443) => format!(":{port}"),
        _ => String::new(),
    }
}

/// The cryptography: aws-lc, with rustls's current recommendations.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn load(https: &plan::Https) -> Result<Vec<Pair>, TlsError> {
    https.certificates.iter().map(|files| Pair::load(&files.cert, &files.key)).collect()
}

fn stamps(https: &plan::Https) -> Vec<TermsStamp> {
    https.certificates.iter().flat_map(|files| [stamp(&files.cert), stamp(&files.key)]).collect()
}

fn stamp(path: &Path) -> TermsStamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// The names of all sites, as in a certificate.
fn names(plan: &plan::Plan) -> Vec<String> {
    let mut names: Vec<String> = plan.sites.iter().flat_map(|site| site.names.clone()).collect();
    names.sort();
    names.dedup();
    names
}
