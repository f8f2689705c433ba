//! The life of the process: start, reload, drain, end.

mod reload;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use millrace_settings::plan::{self, Address};
use millrace_settings::{Plan, Problems};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use self::reload::{ReadyReload, RunningReload};
use super::crowd;
use super::error::{ReloadError, StartError};
use super::event_loop::{self, EventLoop, Hang, LoopOrder, Settle};
use super::memory;
use super::service_manager::ServiceManager;
use super::watch::{LOOK as LOOK_AT_LOOPS, LoopWatch};
use crate::accept;
use crate::acme;
use crate::admin;
use crate::connection::{ConnectionLimits, Most};
use crate::serve::explain::Question;
use crate::serve::{Service, Setup};
use crate::tls::{self, Terms};
use crate::warm::Errand;
use millrace_base::context::log::Log;
use millrace_base::context::stats::Registry;
use millrace_base::context::{Process, ProcessStage, Swapped, WorkCount};
use millrace_objects::Objects;

/// Reads the configuration again: the new plan with its warnings, or the problems.
pub type Reload = Box<dyn Fn() -> Result<(Plan, Vec<String>), Problems> + Send + Sync>;

/// Descriptors wanted if the process may raise its own limit.
const DESCRIPTORS_WANTED: u64 = 1 << 20;
/// Interval at which certificate files are checked for changes.
const CERTIFICATES_AGE: Duration = Duration::from_secs(5);

/// Serves `plan` until SIGTERM or SIGINT; SIGHUP calls `reload`. `doctor` examines the machine for the admin address.
///
/// # Errors
/// An address can't be bound, a log can't be opened, or PHP does not start.
pub fn run(plan: Plan, reload: Reload, doctor: admin::Doctor) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::System("start the control loop", error))?;
    // The admin address is registered with this runtime when it is bound.
    let _inside = runtime.enter();
    // Before anything is started: a signal that arrives meanwhile waits, and does not end the process.
    let signals = Signals::catch()?;
    let mut server = Server::start(plan)?;
    let control = server.control(Arc::new(reload), doctor, signals);
    let result = tokio::task::LocalSet::new().block_on(&runtime, control);
    server.end();
    result
}

/// The handled signals.
struct Signals {
    hangup: Signal,
    reopen: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Signals, StartError> {
        let on = |kind| signal(kind).map_err(|error| StartError::System("wait for signals", error));
        Ok(Signals {
            hangup: on(SignalKind::hangup())?,
            reopen: on(SignalKind::user_defined1())?,
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }
}

/// A running server, as its control thread sees it.
struct Server {
    service: Arc<Service>,
    /// The terms of encrypted connections in force.
    terms: Arc<Swapped<Option<Terms>>>,
    loops: Vec<EventLoop>,
    listeners: BTreeMap<Address, ActiveListener>,
    /// Sockets that the service manager has opened.
    given: Arc<accept::GivenSockets>,
    /// Maximum number of descriptors of the process.
    descriptors: u64,
    /// Setups that were in force. A crowd loop must not be the last to drop one, because it would close the wrong
    /// descriptors.
    retired: Vec<Arc<Setup>>,
    /// The object cache.
    objects: Arc<Objects>,
    started: SystemTime,
    /// Present until it is served.
    admin: Option<admin::AdminListener>,
    admin_task: Option<tokio::task::JoinHandle<()>>,
    /// What has started the process.
    manager: ServiceManager,
}

/// A listening address.
struct ActiveListener {
    limits: Arc<ConnectionLimits>,
    is_secure: bool,
    is_crowd: bool,
    closed: watch::Sender<bool>,
}

impl Server {
    fn start(plan: Plan) -> Result<Server, StartError> {
        // Before anything listens.
        let given = Arc::new(accept::GivenSockets::of_process());
        let descriptors = millrace_sys::raise_descriptor_limit(DESCRIPTORS_WANTED).unwrap_or(1024);
        let log = Log::open(&plan.log).map_err(StartError::Log)?;
        let crowd = crowd::loops(plan.server.connections, descriptors);
        let stats = Registry::new(plan.server.threads + crowd);
        // Addresses first: if a port is taken, PHP need not start. The admin address before them: it is there as soon as a port answers.
        let admin = bind_admin(&plan, &log)?;
        warn_of_unused(&given, &plan, &log);
        let mut bound = Vec::new();
        for (address, is_secure) in addresses(&plan) {
            let listener = BoundListener::new(address, is_secure, &plan, descriptors, crowd, &given)?;
            bound.push((address.clone(), listener));
        }
        let terms = terms(&plan, None, &log)?;
        let process = Process::new(stats, log, plan.server.connection_memory);
        let (policy_of, port) = (policies(&terms), port(&terms));
        let objects = Arc::new(Objects::start(&plan, &process));
        let service = Service::start(plan, process, &policy_of, &port).map_err(StartError::Php)?;
        drop(policy_of);
        let (setup, terms) = (service.setup(), Swapped::new(Arc::new(terms)));
        // Half: scripts and other listeners need descriptors, too.
        let room = ConnectionLimits::new(Most { connections: (descriptors / 2) as usize, ..Most::default() });
        let loops = event_loop::start(&service, &terms, crowd, &room)
            .map_err(|error| StartError::System("start an event loop", error))?;
        if crowd > 0 {
            service.process.log.info(format_args!(
                "server.connections = {} with {descriptors} file descriptors per table: using {crowd} crowd loops to \
                 hold connections",
                service.setup().plan.server.connections
            ));
        }
        let (listeners, started) = (BTreeMap::new(), SystemTime::now());
        let mut server = Server {
            service,
            terms,
            loops,
            listeners,
            given,
            descriptors,
            retired: Vec::new(),
            objects,
            started,
            admin,
            admin_task: None,
            manager: ServiceManager::of_process(),
        };
        for (address, bound) in bound {
            server.listen(address, bound);
        }
        server.announce(&setup);
        memory::announce(&setup.plan.server, &server.service.process.log);
        acme::attend(&server.concern(), true);
        Ok(server)
    }

    /// The input of the keeper of certificates.
    fn concern(&self) -> acme::Concern {
        let Service { process, plan, acme, .. } = &*self.service;
        acme::Concern {
            process: process.clone(),
            acme: acme.clone(),
            plan: plan.clone(),
            terms: self.terms.clone(),
        }
    }

    fn listen(&mut self, address: Address, bound: BoundListener) {
        let (closed, is_closed) = watch::channel(false);
        let shown = bound.shown(&address);
        let loops = self.loops.iter().filter(|event_loop| event_loop.is_crowd() == bound.is_crowd);
        for (event_loop, socket) in loops.zip(bound.sockets) {
            if let Err(error) = event_loop.listen(socket, is_closed.clone()) {
                self.service
                    .process
                    .log
                    .error(format_args!("an event loop cannot listen on {shown}: {error}"));
            }
        }
        self.service.process.log.info(format_args!("listening on {shown}"));
        let active = ActiveListener {
            limits: bound.limits,
            is_secure: bound.is_secure,
            is_crowd: bound.is_crowd,
            closed,
        };
        self.listeners.insert(address, active);
    }

    fn announce(&self, setup: &Setup) {
        if setup.plan.https.kernel_tls && self.terms.get().is_some() {
            match tls::ability() {
                Ok(able) => self
                    .service
                    .process
                    .log
                    .info(format_args!("kernel TLS is on for large files: {}", able.shown())),
                Err(why) => {
                    self.service.process.log.info(format_args!("kernel TLS is off: {why}"));
                }
            }
        }
        for site in &setup.sites {
            let name = site.name().unwrap_or("any host");
            let php = if site.plan.php.is_some() { "with PHP" } else { "without PHP" };
            self.service.process.log.info(format_args!(
                "serving {} for {name} as {}, {php}",
                site.plan.root.display(),
                site.plan.profile.name()
            ));
        }
    }

    /// Number of crowd loops.
    fn crowd(&self) -> usize {
        self.loops.iter().filter(|event_loop| event_loop.is_crowd()).count()
    }

    /// Waits for signals and the admin address until the server must end.
    async fn control(
        &mut self,
        reload: Arc<Reload>,
        doctor: admin::Doctor,
        mut signals: Signals,
    ) -> Result<(), StartError> {
        let mut reloads = self.serve_admin(doctor);
        let mut running = None;
        let mut look_again = tokio::time::interval(CERTIFICATES_AGE);
        // Only process 1 of a container gets any.
        let mut orphans = millrace_sys::Orphans::default();
        let mut look_at_memory = tokio::time::interval(memory::LOOK);
        let (mut look_at_loops, mut loops) = (tokio::time::interval(LOOK_AT_LOOPS), LoopWatch::default());
        look_at_loops.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.manager.ready("serving");
        loop {
            tokio::select! {
                _ = signals.hangup.recv(), if running.is_none() => {
                    self.manager.reloading();
                    running = Some(RunningReload::start(self, &reload, None));
                }
                Some(asker) = reloads.recv(), if running.is_none() => {
                    self.manager.reloading();
                    running = Some(RunningReload::start(self, &reload, Some(asker)));
                }
                (prepared, asker) = RunningReload::end(&mut running) => self.finish_reload(prepared, asker),
                _ = signals.reopen.recv() => self.service.process.log.reopen(&self.service.setup().plan.log),
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = look_at_loops.tick() => {
                    loops.look(&self.service);
                    if self.service.process.pulses.hung().is_empty() {
                        self.manager.alive();
                    }
                }
                _ = look_at_memory.tick() => memory::heed(&self.service),
                _ = look_again.tick() => {
                    self.renew_certificates();
                    if std::process::id() == 1 {
                        orphans.reap();
                    }
                    self.retired.retain(|setup| Arc::strong_count(setup) > 1);
                }
            }
        }
        drop(running);
        self.manager.stopping();
        let until = Instant::now() + self.service.setup().plan.server.shutdown_grace;
        tokio::select! {
            () = async { self.drain(until).await; self.stop_pools(until).await } => {}
            _ = signals.terminate.recv() => self.give_up().await,
            _ = signals.interrupt.recv() => self.give_up().await,
        }
        Ok(())
    }

    /// Reads certificate files that have changed, without being told.
    fn renew_certificates(&self) {
        let setup = self.service.setup();
        if let Some(terms) = self.terms.get().as_ref() {
            terms.renew(&setup.plan.https, &self.service.process.log);
        }
    }

    /// Starts to serve the admin address; returns the channel of its reload orders.
    fn serve_admin(&mut self, doctor: admin::Doctor) -> mpsc::UnboundedReceiver<ReloadAsked> {
        let (ask, reloads) = mpsc::unbounded_channel::<ReloadAsked>();
        if let Some(listener) = self.admin.take() {
            let service = self.service.clone();
            let scripted = self.loops.iter().filter(|event_loop| !event_loop.is_crowd());
            let loops: Vec<_> = scripted.map(EventLoop::orders).collect();
            let next = Cell::new(0);
            // The loops take turns.
            let send = Rc::new(move |order| {
                let turn = next.replace(next.get() + 1) % loops.len();
                loops[turn].send(order).map_err(|_| admin::Ending)
            });
            let ask_loop = send.clone();
            let concern = self.concern();
            let all: Vec<_> = self.loops.iter().map(EventLoop::orders).collect();
            let to_settle = all.clone();
            let state = admin::AdminState {
                service: self.service.clone(),
                objects: self.objects.board.clone(),
                started: self.started,
                certificates: Box::new(move || concern.standing()),
                pools: Box::new(move || service.setup().pool_status()),
                fetch: Box::new(move |wanted| {
                    let (asker, result) = oneshot::channel();
                    let sent = send(LoopOrder::Fetch(Errand { wanted, asker }));
                    Box::pin(async move { sent.and(result.await.map_err(|_| admin::Ending)) })
                }),
                explain: Box::new(move |asked| {
                    let (asker, result) = oneshot::channel();
                    let sent = ask_loop(LoopOrder::Explain(Question { asked, asker }));
                    Box::pin(async move { sent.and(result.await.map_err(|_| admin::Ending)) })
                }),
                hang: Box::new(move |number, lasts, computes| {
                    all.get(number)
                        .is_some_and(|orders| orders.send(LoopOrder::Hang(Hang { lasts, computes })).is_ok())
                }),
                settle: Box::new(move |patience| Box::pin(settle(to_settle.clone(), patience))),
                doctor: Some(doctor),
                reload: Box::new(move || {
                    let (asker, result) = oneshot::channel();
                    let sent = ask.send(asker);
                    Box::pin(async move {
                        match (sent, result.await) {
                            (Ok(()), Ok(result)) => Ok(result?.join("\n")),
                            _ => Err(admin::Ending.into()),
                        }
                    })
                }),
            };
            self.admin_task = Some(tokio::task::spawn_local(admin::serve(listener, Rc::new(state))));
        }
        reloads
    }

    /// A reload has been prepared: puts it in force, or tells why not; the old configuration stays then.
    fn finish_reload(&mut self, prepared: Result<ReadyReload, ReloadError>, asker: Option<ReloadAsked>) {
        let result = prepared.map(|ready| self.take_over(ready));
        let log = &self.service.process.log;
        match &result {
            Ok(warnings) => {
                warnings.iter().for_each(|w| log.warn(format_args!("{w}")));
                log.info(format_args!("reloaded the configuration"));
                self.manager.ready("serving");
            }
            Err(why) => {
                log.error(format_args!(
                    "cannot reload the configuration, the old one stays in force:\n{why}"
                ));
                self.manager.ready("serving by the old configuration: the new one has mistakes, see the log");
            }
        }
        // Its client may have gone.
        let _ = asker.map(|asker| asker.send(result));
    }

    /// Puts a new configuration in force. Returns the warnings.
    fn take_over(&mut self, ready: ReadyReload) -> Vec<String> {
        let ReadyReload { warnings, bound, terms, objects, built } = ready;
        let (old, setup) = (self.service.setup(), built.setup.clone());
        self.service.cache.set_limits(&setup.plan.cache);
        self.service.process.budget.change(setup.plan.server.connection_memory);
        if setup.plan.server.connection_memory != old.plan.server.connection_memory {
            memory::announce(&setup.plan.server, &self.service.process.log);
        }
        self.service.process.log.reopen(&setup.plan.log);
        self.terms.replace(Arc::new(terms));
        self.service.replace_setup(setup.clone());
        self.objects.serve(objects);
        acme::attend(&self.concern(), false);
        self.renew_certificates();
        built.commit();
        for (address, bound) in bound {
            self.listen(address, bound);
        }
        self.listeners.retain(|address, active| {
            active.limits.change(most_connections(&setup.plan, self.descriptors, active.is_crowd));
            let stays = addresses(&setup.plan).any(|(other, _)| other == address);
            if !stays {
                let _ = active.closed.send(true);
            }
            stays
        });
        old.retire_pools(&setup);
        self.retired.push(old);
        warnings
    }

    /// Accepts no more connections and lets requests in progress finish, until the configured time is over.
    async fn drain(&self, until: Instant) {
        let grace = self.service.setup().plan.server.shutdown_grace;
        self.service
            .process
            .log
            .info(format_args!("shutting down: waiting up to {} s for running requests", grace.as_secs()));
        self.service.process.set_stage(ProcessStage::Draining);
        for active in self.listeners.values() {
            let _ = active.closed.send(true);
        }
        for event_loop in &self.loops {
            event_loop.order(LoopOrder::Drain { until });
        }
        while self.loops.iter().any(|l| !l.is_finished()) && Instant::now() < until + Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Scripts that still run after their response may use the rest of the time, too.
    async fn stop_pools(&self, until: Instant) {
        let setup = self.service.setup();
        let (done, ended) = oneshot::channel();
        let stopping = std::thread::Builder::new().name("stop-php".to_owned()).spawn(move || {
            setup.stop_pools(until);
            // A second signal may have ended the wait.
            let _ = done.send(());
        });
        if stopping.is_ok() {
            let _ = ended.await;
        }
    }

    /// A second signal: ends all waiting.
    async fn give_up(&mut self) {
        self.service
            .process
            .log
            .warn(format_args!("shutting down now, without waiting for running requests"));
        if let Some(task) = self.admin_task.take() {
            // This removes its socket file.
            task.abort();
            let _ = task.await;
        }
        self.service.setup().stop_pools(Instant::now());
        self.remove_sockets();
        self.objects.stop();
        self.service.process.log.close();
        std::process::exit(1);
    }

    fn end(&mut self) {
        self.remove_sockets();
        self.objects.stop();
        self.service.cache.disk().close();
        self.service.process.log.info(format_args!("shut down"));
        self.service.process.log.close();
    }

    fn remove_sockets(&self) {
        for address in self.listeners.keys() {
            if let Address::Unix(path) = address
                && !self.given.have(address)
            {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Waits until all event loops have done the work that they had begun, or until `patience` is over: what is open then.
async fn settle(
    loops: Vec<mpsc::UnboundedSender<LoopOrder>>,
    patience: Duration,
) -> Result<WorkCount, admin::Ending> {
    let mut answers = Vec::with_capacity(loops.len());
    for orders in &loops {
        let (done, answer) = oneshot::channel();
        orders.send(LoopOrder::Settle(Settle { patience, done })).map_err(|_| admin::Ending)?;
        answers.push(answer);
    }
    let mut open = WorkCount::default();
    for answer in answers {
        open = open + answer.await.map_err(|_| admin::Ending)?;
    }
    Ok(open)
}

/// Waits for the result of a reload.
type ReloadAsked = oneshot::Sender<Result<Vec<String>, ReloadError>>;

/// The admin address. Sites are served without it if it can't be bound: another Millrace of the same user has it, or
/// the folder is not writable.
fn bind_admin(plan: &Plan, log: &Log) -> Result<Option<admin::AdminListener>, StartError> {
    let Some(address) = &plan.admin.listen else { return Ok(None) };
    match admin::AdminListener::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Err(StartError::Admin(error)),
        Err(error) => {
            log.warn(format_args!(
                "{error}\n`millrace status` and `millrace reload` cannot reach this server"
            ));
            Ok(None)
        }
    }
}

fn warn_of_unused(given: &accept::GivenSockets, plan: &Plan, log: &Log) {
    let addresses: Vec<&Address> = addresses(plan).map(|(address, _)| address).collect();
    for unused in given.unused(&addresses) {
        log.warn(format_args!(
            "the service manager listens at {unused}, which is in neither server.listen nor https.listen: nobody answers there"
        ));
    }
}

/// An address that is bound for all event loops.
struct BoundListener {
    sockets: Vec<accept::Unstarted>,
    limits: Arc<ConnectionLimits>,
    is_secure: bool,
    /// For crowd loops.
    is_crowd: bool,
}

impl BoundListener {
    fn new(
        address: &Address,
        is_secure: bool,
        plan: &Plan,
        descriptors: u64,
        crowd: usize,
        given: &accept::GivenSockets,
    ) -> Result<BoundListener, StartError> {
        // An encrypted connection can't be passed on, and a Unix socket is for a proxy, which opens few connections.
        let is_crowd = crowd > 0 && !is_secure && matches!(address, Address::Tcp(_));
        let limits = ConnectionLimits::new(most_connections(plan, descriptors, is_crowd));
        let loops = if is_crowd { crowd } else { plan.server.threads };
        let sockets = accept::bind(address, loops, plan.server.backlog, &limits, is_secure, given)
            .map_err(|error| StartError::Listen(address.clone(), error))?;
        Ok(BoundListener { sockets, limits, is_secure, is_crowd })
    }

    /// The address as a user would type it into a browser.
    fn shown(&self, address: &Address) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        match (address, self.sockets.first().and_then(accept::Unstarted::local_addr)) {
            (_, Some(tcp)) => format!("{scheme}://{tcp}/"),
            (Address::Unix(path), None) => format!("unix:{}", path.display()),
            (Address::Tcp(tcp), None) => format!("{scheme}://{tcp}/"),
        }
    }
}

/// The addresses to listen on, and whether connections there are encrypted.
fn addresses(plan: &Plan) -> impl Iterator<Item = (&Address, bool)> {
    let plain = plan.server.listen.iter().map(|address| (address, false));
    plain.chain(plan.https.listen.iter().map(|address| (address, true)))
}

/// Maximum numbers of connections per listener and per address. Some descriptors are reserved for files and PHP.
fn most_connections(plan: &Plan, descriptors: u64, is_crowd: bool) -> Most {
    let (written, per_address) = (plan.server.connections, plan.server.connections_per_address);
    if is_crowd {
        return Most { connections: written, per_address, is_natural: false };
    }
    let kept = (descriptors / 16).clamp(64, 2048);
    let room = usize::try_from(descriptors.saturating_sub(kept)).unwrap_or(usize::MAX);
    let is_natural = written == 0 || written > room;
    Most { connections: if is_natural { room } else { written }, per_address, is_natural }
}

/// The TLS terms of a plan, with the certificates that an authority has issued.
fn terms(plan: &Plan, old: Option<&Terms>, log: &Log) -> Result<Option<Terms>, StartError> {
    let terms = Terms::new(plan, old).map_err(StartError::Tls)?;
    acme::serve_kept(plan, terms.as_ref(), log);
    Ok(terms)
}

/// The policy by which the clients of a site are asked for certificates.
fn policies(terms: &Option<Terms>) -> impl Fn(&plan::Site) -> Option<u64> {
    |site| Some(terms.as_ref()?.policy(site)?.number())
}

/// The port suffix of a host, if HTTPS is not on its default port.
fn port(terms: &Option<Terms>) -> String {
    terms.as_ref().map_or_else(String::new, |terms| terms.port().to_owned())
}
