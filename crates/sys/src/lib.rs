//! The only unsafe Rust of Millrace: memory shared with other processes, descriptors at fixed numbers in a child,
//! descriptor tables of threads, descriptors from a service manager, socket options, TLS in the kernel, scheduling of threads, and prefetching. Besides,
//! how files at paths that others can choose are opened, which programs serve sites, and the calendar.
//!
//! Every `unsafe` block says in a SAFETY sentence why it is sound; the public functions of this crate are safe to
//! call.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks, missing_docs)]

mod child;
mod descriptors;
mod inherited;
pub mod kernel_tls;
mod limits;
pub mod links;
mod network;
mod option;
mod orphans;
mod prefetch;
mod process;
mod programs;
mod regular;
mod rights;
mod schedule;
mod shared;
mod signals;
mod socket_user;
mod thread;
mod users;

pub use child::give_descriptors;
pub use descriptors::{own_descriptor_table, own_descriptor_table_of};
pub use inherited::take_inherited_listeners;
pub use limits::raise_descriptor_limit;
pub use network::{SocketMemory, accept_queue, choose_port_when_connecting, socket_memory};
pub use option::unread;
pub use orphans::Orphans;
pub use prefetch::{prefetch, prefetch_shared};
pub use process::{Process, Signal};
pub use programs::{is_backend, serves_sites};
pub use regular::{LARGEST_CONFIGURATION, check_storage, open_regular, read_regular, read_regular_text};
pub use rights::{Entered, Rights, is_only_ours, open_socket_to, open_to_append, rights_in};
pub use schedule::run_when_idle;
pub use shared::SharedWords;
pub use signals::block_signals;
pub use socket_user::{is_unconfined, user_of_peer};
pub use thread::{ThreadTimes, thread_id, thread_report, thread_times};
pub use users::{Account, group_id, user};
