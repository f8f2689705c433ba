//! The page cache, without I/O and without a clock: what may be stored, under which key, for how long, for which
//! requests; and the store of pages. The server's `cache` connects it with the path of a request.
//!
//! A request's path through the modules:
//!
//! ```text
//!  request --> ask ----> Key, or a reason to bypass           rules: what a site wants, resolved once
//!              |
//!              v
//!            store.look(Key)
//!              |-- Fresh ----------------------------> the page's form for the client's coding (page)
//!              |-- Stale, with what is allowed ------> the stale page, or wait; one fill runs
//!              |-- Miss, perhaps a fill runs --------> store.lead() and run PHP, or wait for the running fill
//!              '-- Pass (known to be uncacheable) ---> PHP, without waiting
//!
//!  PHP's answer --> judge --> Terms: store.store()     notes: what the script said by function calls
//!              |         '--> refused: store.pass(), so that later requests do not wait for it
//!              |-- failed: store.abandon()
//!              |-- 304: store.freshen()
//!              '--> Purge: store.purge()               tag: what pages are purged by
//! ```
//!
//! # Ownership of memory
//!
//! A [`Pages`] is one shard; each has its own byte budget, and the server holds it behind a mutex. It owns, and
//! counts against its budget:
//!
//! - the entries (a dense slab of fixed slots), one for each stored variant of a page, each mark "uncacheable" (hit
//!   for miss) and each list of Vary fields of a page with variants; and their keys;
//! - the index from key hash to slot, the table of tags with their generations, the ghosts of S3-FIFO, the running fills,
//!   the prefix bans;
//! - all memory of each stored [`Page`], as [`Page::bytes`] returns it, and the [`Terms`].
//!
//! A `Page` is immutable except for codings added later, and shared by `Arc`: a connection that sends it keeps it
//! alive after its eviction. Such pages no longer count; they belong to their connections. When memory is short, the
//! store first replaces pages by slim ones, without the uncoded content ([`Page::slim`]), before it evicts any.
//!
//! `F` of `Pages<F>` is the server's handle of a running fill. The store clones it for requests for the same page,
//! and drops it when the fill ends. A [`Ticket`] belongs to the task that runs the fill, which must give it back.

pub mod ask;
pub mod carts;
pub mod control;
mod image_formats;
pub mod judge;
pub mod key;
pub mod looked;
pub mod members;
pub mod notes;
pub mod own_script;
pub mod page;
pub mod place;
pub mod places;
pub mod purge;
pub mod read_fields;
pub mod record;
pub mod redirect;
pub mod rules;
pub mod status;
pub mod store;
pub mod tag;
pub mod terms;
pub mod vary;
pub mod visitors;

pub use ask::{Asked, Asking, Bypass, ask};
pub use judge::{Answer, Refusal, Verdict, judge};
pub use key::Key;
pub use notes::{Note, Notes};
pub use page::{Form, Page};
pub use place::Place;
pub use rules::{Mode, Rules};
pub use store::{
    Grace, Hit, Hold, Kept, Lookup, Pages, Peek, PeekEntry, PeekPage, Select, StoreOutcome, StoreUsage,
    Ticket, Wanted,
};
pub use tag::{Hardness, Purge, Tag};
pub use terms::Terms;

/// Wall-clock milliseconds since 1970, which never go backwards during a process.
pub type Millis = u64;
