//! The shield as values, without I/O and clock: the server passes in addresses, times and the text of files.
//!
//! ```text
//!  request ── class: which limit applies ── table: may this address and its network send one more ── share: has the class
//!                                                                                       used up its part of PHP's time
//!  address ── bans, lists, crawlers: sets of networks, each found by its prefix
//! ```

pub mod arguments;
pub mod bans;
pub mod class;
pub mod list;
pub mod network;
pub mod rate;
pub mod share;
pub mod table;

pub use bans::{Ban, BanTerms, Bans};
pub use class::{Class, Form, Target};
pub use network::Networks;
pub use rate::Rate;
pub use share::Share;
pub use table::{Asked, Limit, Table};
