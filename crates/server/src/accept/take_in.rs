//! Connections that another event loop passes on.

use std::rc::Rc;

use tokio::net::TcpStream;

use super::{AcceptThread, room};
use crate::connection::{Accepted, ClientStream, Passed, PassingEntry};
use crate::protocol;
use millrace_base::context::stats::Counter;

/// Accepts passed-on connections until no more can come.
pub async fn take_in(thread: Rc<AcceptThread>, mut entry: PassingEntry) {
    while let Some((descriptor, Passed { ends, permit, begun })) = entry.next().await {
        match descriptor.map(|descriptor| TcpStream::from_std(descriptor.into())) {
            Some(Ok(stream)) => {
                thread.context.stats.add(Counter::ConnectionsPassed, 1);
                protocol::resume(
                    &thread.protocol,
                    Accepted { stream: ClientStream::Tcp(stream), ends, permit },
                    begun,
                );
            }
            _ => {
                thread.context.stats.add(Counter::AcceptNoDescriptors, 1);
                thread.context.process.log.warn(format_args!("lost a connection: out of file descriptors"));
                room::free_descriptors(&thread);
            }
        }
    }
}
