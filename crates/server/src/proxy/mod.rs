//! Applications behind the server that speak HTTP: `[[site.proxy]]`.
//!
//! ```text
//!   serve ── find ── run ── choose an application ── idle connection, or a new one ──┐
//!                     ▲                                                               │
//!                     └── again: it was never sent, or repeating it changes nothing ──┤
//!                                                                                     ▼
//!   Reply <── whole response, or a ContentSource that reads on demand <── send, read the head
//! ```
//!
//! - [`target`]: which requests go to which application, and the path that it gets; [`head`]: the request's header
//!   section; [`answer`]: the response's;
//! - [`application`]: what all event loops know of an application: whether it is up, how busy it is;
//! - [`connect`]: connections, and the idle ones of an event loop; [`stream`]: their sockets;
//! - [`exchange`]: one request on one connection; [`upload`]: the request on its way; [`h2`]: the same where requests share
//!   connections; [`transfer`]: either; [`content`]: a long response;
//! - [`switch`]: WebSocket and other protocols; [`tunnel`]: a connection that has switched;
//! - [`health`]: checks, if the settings want them;
//! - [`run`]: the attempts of a request, and the response if all fail.
//!
//! A response is read only as fast as its client takes it: a slow client holds a connection to the application, and
//! no memory but one piece of the response.

mod answer;
mod application;
mod connect;
mod content;
mod exchange;
mod h2;
mod head;
mod health;
mod run;
mod stream;
mod switch;
mod target;
mod transfer;
mod tunnel;
mod upload;

pub use application::{ApplicationStatus, Applications};
pub use connect::ProxyThread;
pub use health::watch;
pub use run::run;
pub use target::{escape, find};
