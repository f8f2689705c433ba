//! Certificates by ACME (RFC 8555): ordered and renewed automatically, and stored on disk.
//!
//! ```text
//!  keeper    a thread of its own: what is wanted, what is due, what went wrong
//!    |-- job       one certificate as a value: what is due when
//!    |-- order     one certificate: order, challenges, key, chain          \
//!    |-- client    HTTP to the authority, for the crate instant-acme        > asks the authority
//!    |-- account   our account there                                       /
//!    |-- schedule  when it is renewed, when a failure is tried again: values, no clock
//!    |-- retry     what of failures outlives the server
//!    |-- kept      a certificate that we have, and what stands in it
//!    `-- store     the folder: account, keys, certificates
//!  challenges    what event loops answer when the authority looks, at port 80; at port 443 that is tls::Issued
//!  board         how things stand, for the status and the metrics
//! ```
//!
//! Event loops use only two lookups: a token in [`Acme::answer`], a name in `tls::Issued`. Both are empty unless an
//! order is in progress. New certificates apply to handshakes from then on; existing connections are not affected.

mod account;
mod board;
mod challenges;
mod client;
mod failure;
mod job;
mod keeper;
mod kept;
mod order;
mod retry;
mod schedule;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use millrace_settings::Plan;
use tokio::sync::Notify;

use crate::tls::Terms;
use millrace_base::context::log::Log;
use millrace_base::context::{Process, Swapped};

pub use board::Standing;

/// Maximum number of names in one certificate: the limit of Let's Encrypt.
const MOST_NAMES: usize = 100;

/// The part of this room that others use.
#[derive(Debug, Default)]
pub struct Acme {
    challenges: Arc<challenges::Challenges>,
    board: board::Board,
    /// Notified when another setup is in force.
    changed: Notify,
    /// Whether the keeper runs.
    kept: AtomicBool,
}

impl Acme {
    /// The response to an authority's challenge; `None`: it is an ordinary request, whatever its path. Checked before
    /// redirects and sites: the authority uses HTTP, perhaps for a name that is redirected.
    pub fn answer(&self, method: &str, path: &[u8]) -> Option<String> {
        self.challenges.answer(method, path)
    }

    /// Answers a challenge from now on.
    #[cfg(test)]
    pub fn prove(&self, token: &str, proof: &str) {
        self.challenges.locked().insert(token.to_owned(), proof.to_owned());
    }

    /// The state of each certificate.
    pub fn standing(&self) -> Vec<Standing> {
        self.board.read()
    }
}

/// What the keeper needs.
#[derive(Clone, Debug)]
pub struct Concern {
    /// The logs, and the stage of the process.
    pub process: Arc<Process>,
    /// The part of this room that others use.
    pub acme: Arc<Acme>,
    /// The configuration in force.
    pub plan: Arc<Swapped<Plan>>,
    /// The terms of encrypted connections in force.
    pub terms: Arc<Swapped<Option<Terms>>>,
}

impl Concern {
    /// The state of each certificate: first those of files, then those of the keeper.
    pub fn standing(&self) -> Vec<Standing> {
        let (plan, terms) = (self.plan.get(), self.terms.get());
        let given = terms.as_ref().as_ref().map(Terms::given).unwrap_or_default();
        let files = plan.https.certificates.iter().map(|files| &files.cert);
        let now = SystemTime::now();
        let own = files.zip(given).map(|(file, facts)| Standing::of_file(file, &facts, now));
        own.chain(self.acme.standing()).collect()
    }
}

/// Makes sure that the certificates of the configuration in force are kept valid: starts the keeper, or tells it that
/// the configuration has changed. `is_start`: the server has just been started, perhaps not for the first time;
/// otherwise the configuration has changed.
pub fn attend(concern: &Concern, is_start: bool) {
    let acme = &concern.acme;
    if acme.kept.load(Ordering::Acquire) {
        return acme.changed.notify_one();
    }
    if certificates(&concern.plan.get()).is_empty() {
        return;
    }
    let theirs = concern.clone();
    match std::thread::Builder::new().name("acme".to_owned()).spawn(move || keeper::run(theirs, is_start)) {
        Ok(_) => acme.kept.store(true, Ordering::Release),
        Err(error) => concern
            .process
            .log
            .error(format_args!("cannot obtain certificates: cannot start a thread: {error}")),
    }
}

/// Puts stored certificates in force, so that the first client doesn't get a self-signed one.
pub fn serve_kept(plan: &Plan, terms: Option<&Terms>, log: &Log) {
    let (Some(terms), Some(store)) = (terms, store::Store::of(&plan.acme)) else { return };
    for wanted in certificates(plan).into_iter().filter(|wanted| !terms.issued().has(&wanted.id)) {
        match kept::StoredCertificate::load(&store, &wanted.id) {
            Ok(Some(kept)) => terms.issued().add(&wanted.id, kept.pair),
            Ok(None) => {}
            Err(why) => log.error(format_args!("{why}")),
        }
    }
    terms.refresh();
}

/// A certificate that the configuration wants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedCertificate {
    /// The ID under which it is stored: its first host name.
    id: String,
    /// Host names.
    names: Vec<String>,
}

/// One per site; several if a site has too many names for one.
fn certificates(plan: &Plan) -> Vec<WantedCertificate> {
    if plan.https.listen.is_empty() {
        return Vec::new();
    }
    let chunks = plan.sites.iter().flat_map(|site| site.acme.chunks(MOST_NAMES));
    chunks.map(|names| WantedCertificate { id: names[0].clone(), names: names.to_vec() }).collect()
}
