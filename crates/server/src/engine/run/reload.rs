//! A reload: everything that takes long or can fail happens on a thread of its own, and the control thread puts the result in force.
//!
//! ```text
//!  control thread                        thread "reload"
//!  SIGHUP, POST /reload ───────────────> reads the configuration, binds new addresses, reads certificates,
//!    │ serves the admin address,         starts new PHP hosts beside the old ones
//!    │ renews certificates, ends on          │
//!    │ SIGTERM                               │
//!    <── ReadyReload, or why not ────────────┘
//!  take_over(): replaces the setup
//! ```
//!
//! One reload at a time: orders that arrive meanwhile wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_settings::Plan;
use millrace_settings::plan::Address;
use tokio::sync::oneshot;

use super::{BoundListener, Reload, ReloadAsked, Server, addresses, policies, port, terms};
use crate::accept;
use crate::engine::crowd;
use crate::engine::error::{ReloadError, StartError};
use crate::serve::{self, Built, Service};
use crate::tls::Terms;
use millrace_base::context::Swapped;
use millrace_objects::{Objects, Prepared};

/// A reload whose thread runs.
pub(super) struct RunningReload {
    result: oneshot::Receiver<Result<ReadyReload, ReloadError>>,
    /// Waits for the result.
    asker: Option<ReloadAsked>,
}

/// A new configuration that can be put in force.
pub(super) struct ReadyReload {
    pub warnings: Vec<String>,
    pub bound: Vec<(Address, BoundListener)>,
    pub terms: Option<Terms>,
    pub objects: Prepared,
    pub built: Built,
}

impl RunningReload {
    /// Starts it.
    pub fn start(server: &Server, reload: &Arc<Reload>, asker: Option<ReloadAsked>) -> RunningReload {
        let (tell, result) = oneshot::channel();
        let preparation = Preparation::of(server);
        let reload = reload.clone();
        // If it can't be started, its end of the channel is dropped.
        let _ = std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
            let service = preparation.service.clone();
            service.process.set_reloading(Some("reading the configuration".to_owned()));
            let result = preparation.make(&reload);
            service.process.set_reloading(None);
            // The server is shutting down: the process is about to end, and PHP with it.
            let _ = tell.send(result);
        });
        RunningReload { result, asker }
    }

    /// Waits for the end of the reload, if there is one. Cancel-safe.
    pub async fn end(
        running: &mut Option<RunningReload>,
    ) -> (Result<ReadyReload, ReloadError>, Option<ReloadAsked>) {
        let Some(reload) = running else { return std::future::pending().await };
        let lost = || StartError::System("reload", std::io::Error::other("its thread has ended"));
        let result = (&mut reload.result).await.unwrap_or_else(|_| Err(lost().into()));
        let asker = reload.asker.take();
        *running = None;
        (result, asker)
    }
}

/// What the thread knows of the server.
struct Preparation {
    service: Arc<Service>,
    terms: Arc<Swapped<Option<Terms>>>,
    objects: Arc<Objects>,
    /// The addresses in use, and whether they are encrypted.
    listeners: BTreeMap<Address, bool>,
    descriptors: u64,
    crowd: usize,
    given: Arc<accept::GivenSockets>,
}

impl Preparation {
    fn of(server: &Server) -> Preparation {
        let listeners = server.listeners.iter().map(|(address, active)| (address.clone(), active.is_secure));
        Preparation {
            service: server.service.clone(),
            terms: server.terms.clone(),
            objects: server.objects.clone(),
            listeners: listeners.collect(),
            descriptors: server.descriptors,
            crowd: server.crowd(),
            given: server.given.clone(),
        }
    }

    fn make(&self, reload: &Reload) -> Result<ReadyReload, ReloadError> {
        let (mut plan, mut warnings) = reload().map_err(ReloadError::Settings)?;
        let old = self.service.setup();
        warnings.extend(self.needs_restart(&old.plan, &plan));
        plan.server.threads = old.plan.server.threads;
        let bound = self.bind(&plan)?;
        let terms = terms(&plan, self.terms.get().as_ref().as_ref(), &self.service.process.log)?;
        let objects = self.objects.prepare(&plan, &self.service.process.log);
        let (policy_of, port) = (policies(&terms), port(&terms));
        let built =
            serve::build(plan, &policy_of, &port, Some(&old), &self.service.process, &self.service.cache)
                .map_err(StartError::Php)?;
        drop(policy_of);
        Ok(ReadyReload { warnings, bound, terms, objects, built })
    }

    /// What only a restart applies.
    fn needs_restart(&self, old: &Plan, new: &Plan) -> Vec<String> {
        let keys = old.restart_needed(new);
        let mut warnings: Vec<String> =
            keys.iter().map(|key| format!("{key} has changed: restart Millrace to apply it")).collect();
        let crowd = crowd::loops(new.server.connections, self.descriptors);
        if crowd > self.crowd {
            warnings.push(format!(
                "server.connections needs {crowd} crowd loops, but only {} are running: restart Millrace to start them",
                self.crowd
            ));
        }
        warnings
    }

    /// Binds the addresses that are new.
    fn bind(&self, plan: &Plan) -> Result<Vec<(Address, BoundListener)>, ReloadError> {
        let mut bound = Vec::new();
        for (address, is_secure) in addresses(plan) {
            match self.listeners.get(address) {
                Some(known) if *known == is_secure => {}
                Some(_) => return Err(ReloadError::OtherProtocol(address.clone(), is_secure)),
                None => {
                    let new = BoundListener::new(
                        address,
                        is_secure,
                        plan,
                        self.descriptors,
                        self.crowd,
                        &self.given,
                    )?;
                    bound.push((address.clone(), new));
                }
            }
        }
        Ok(bound)
    }
}
