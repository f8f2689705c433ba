//! The connections of an event loop to an application that speaks HTTP/2. One connection is made at a time: requests
//! that find no room wait for it together, so that a crowd does not make a crowd of connections.

use std::cell::RefCell;
use std::rc::Rc;

use millrace_settings::plan::Proxy;
use tokio::sync::watch;

use super::link::AppLink;
use crate::proxy::connect::{ConnectError, KnownApplication, ProxyThread};

/// How the making of a connection has ended; `None`: it has not.
type LinkOpening = watch::Receiver<Option<Result<(), ConnectError>>>;

/// The connections, and the one that is being made.
#[derive(Debug, Default)]
pub struct LinkPool {
    links: RefCell<Vec<Rc<AppLink>>>,
    opening: RefCell<Option<LinkOpening>>,
}

/// The place of a request on a connection.
#[derive(Debug)]
pub struct StreamSeat {
    /// The connection.
    pub link: Rc<AppLink>,
    /// It has carried another request before.
    pub was_used: bool,
    thread: Rc<ProxyThread>,
    /// Where it is kept if it becomes idle, and how many idle ones there may be; `None`: it ends.
    home: Option<(Rc<KnownApplication>, usize)>,
}

impl StreamSeat {
    /// A place on a connection that has no room for others.
    pub fn alone(thread: &Rc<ProxyThread>, link: Rc<AppLink>) -> StreamSeat {
        let was_used = link.begin();
        StreamSeat { link, was_used, thread: thread.clone(), home: None }
    }

    /// A place for a request to `application`.
    ///
    /// # Errors
    /// [`ConnectError`]: there is no connection with room for it, and none could be made in time.
    pub async fn find(
        thread: &Rc<ProxyThread>,
        application: &Rc<KnownApplication>,
        proxy: &Proxy,
    ) -> Result<StreamSeat, ConnectError> {
        let finding = async {
            loop {
                if let Some(link) = application.links.with_room() {
                    let home = Some((application.clone(), proxy.keepalive));
                    return Ok(StreamSeat { was_used: link.begin(), link, thread: thread.clone(), home });
                }
                let mut opening = begin_opening(thread, application, proxy);
                // Another error: its task has ended without a word, with the event loop.
                let opened = opening.wait_for(Option::is_some).await.map_err(|_| ConnectError::Late)?.clone();
                opened.unwrap_or(Ok(()))?;
            }
        };
        let found = tokio::time::timeout(proxy.connect_timeout, finding).await;
        thread.context.clock.read();
        found.map_err(|_| ConnectError::Late)?
    }
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        self.link.finish(self.thread.context.clock.ticks());
        if !self.link.is_idle() {
            return;
        }
        match &self.home {
            Some((application, keepalive)) => application.links.shed(*keepalive),
            None => self.link.retire(),
        }
    }
}

impl LinkPool {
    /// A connection that takes one more request.
    fn with_room(&self) -> Option<Rc<AppLink>> {
        let mut links = self.links.borrow_mut();
        links.retain(|link| link.is_open());
        links.iter().find(|link| link.has_room()).cloned()
    }

    /// Closes idle connections beyond this many.
    fn shed(&self, keepalive: usize) {
        let mut idle = 0;
        self.links.borrow_mut().retain(|link| {
            idle += usize::from(link.is_idle());
            let stays = !link.is_idle() || idle <= keepalive;
            if !stays {
                link.retire();
            }
            stays && link.is_open()
        });
    }

    /// Closes connections that have been idle since `tick`, and forgets those that have ended. Returns how many are left.
    pub fn sweep(&self, tick: u64) -> usize {
        let mut links = self.links.borrow_mut();
        links.retain(|link| {
            if link.is_idle() && link.idle_since() <= tick {
                link.retire();
            }
            link.is_open()
        });
        links.len()
    }
}

/// Makes a connection, unless one is being made. It goes on if the request that needed it ends.
fn begin_opening(thread: &Rc<ProxyThread>, application: &Rc<KnownApplication>, proxy: &Proxy) -> LinkOpening {
    let mut slot = application.links.opening.borrow_mut();
    if let Some(opening) = &*slot {
        return opening.clone();
    }
    let (tell, opening) = watch::channel(None);
    *slot = Some(opening.clone());
    let (thread, application, proxy) = (thread.clone(), application.clone(), proxy.clone());
    tokio::task::spawn_local(async move {
        let opened = AppLink::open(&thread, &application, &proxy).await;
        let opened = opened.map(|link| {
            application.links.links.borrow_mut().push(link);
            thread.begin_sweeps();
        });
        application.links.opening.take();
        // All who waited may have left.
        let _ = tell.send(Some(opened));
    });
    opening
}
