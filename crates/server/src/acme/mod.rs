//! Certificates that come by themselves (ACME, RFC 8555), renew themselves, and are kept on disk.
//!
//! ```text
//!  keeper    a thread of its own: what is wanted, what is due, what went wrong
//!    |-- job       one certificate as a value: what is due when
//!    |-- order     one certificate: order, challenges, key, chain          \
//!    |-- client    HTTP to the authority, for the crate instant-acme        > asks the authority
//!    |-- account   who we are there                                        /
//!    |-- schedule  when it is renewed, when a failure is tried again: values, no clock
//!    |-- retry     what of failures outlives the server
//!    |-- kept      a certificate that we have, and what stands in it
//!    `-- store     the folder: account, keys, certificates
//!  challenges    what event loops answer when the authority looks, at port 80; at port 443 that is tls::Issued
//!  board         how things stand, for the status and the metrics
//! ```
//!
//! Event loops know nothing of it but two look-ups: a token in [`Acme::answer`], a name in `tls::Issued`. Both are empty unless
//! an order is under way. Certificates are put in force for handshakes that begin from then on; no connection is touched.

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

use millrace_settings::Plan;
use tokio::sync::Notify;

use crate::context::log::Log;
use crate::context::{Process, Swapped};
use crate::tls::Terms;

pub use board::Standing;

/// Names in one certificate, at most: the limit of Let's Encrypt.
const MOST_NAMES: usize = 100;

/// What the room shows to the others.
#[derive(Debug, Default)]
pub struct Acme {
    challenges: Arc<challenges::Challenges>,
    board: board::Board,
    /// Another set-up is in force.
    changed: Notify,
    /// Whether the keeper runs.
    kept: AtomicBool,
}

impl Acme {
    /// What an authority gets that looks for the answer to its challenge; `None`: the request is an ordinary one, whatever
    /// its path. Comes before redirects and sites: the authority asks by HTTP, and perhaps for a name that is redirected.
    pub fn answer(&self, method: &str, path: &[u8]) -> Option<String> {
        self.challenges.answer(method, path)
    }

    /// How each certificate stands.
    pub fn standing(&self) -> Vec<Standing> {
        self.board.read()
    }
}

/// What the keeper works with.
#[derive(Clone, Debug)]
pub struct Concern {
    /// The logs, and when the process ends.
    pub process: Arc<Process>,
    /// What the room shows to the others.
    pub acme: Arc<Acme>,
    /// The configuration in force.
    pub plan: Arc<Swapped<Plan>>,
    /// The terms of encrypted connections in force.
    pub terms: Arc<Swapped<Option<Terms>>>,
}

/// Looks after the certificates of the configuration in force, from now on: starts to, or learns that it is another one. `is_start`:
/// the server has just been started, perhaps not for the first time; otherwise what is wanted has been changed.
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

/// Puts in force what is on the disk already, so that nobody who comes first sees a self-signed certificate.
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

/// A certificate that there should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedCertificate {
    /// The name under which it is kept: that of its first host.
    id: String,
    /// Host names.
    names: Vec<String>,
}

/// One a site; more where it has too many names for one.
fn certificates(plan: &Plan) -> Vec<WantedCertificate> {
    if plan.https.listen.is_empty() {
        return Vec::new();
    }
    let chunks = plan.sites.iter().flat_map(|site| site.acme.chunks(MOST_NAMES));
    chunks.map(|names| WantedCertificate { id: names[0].clone(), names: names.to_vec() }).collect()
}
