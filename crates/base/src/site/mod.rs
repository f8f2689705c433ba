//! A site as it runs: its part of the plan, what is known about its application, its visitors, and the PHP pool of a
//! request. Values for the rooms behind the pipeline; nothing here responds to a request.

mod content;
mod hosts;
mod multisite;
mod origin;
mod pool_rules;
mod profile;
mod reach;
pub mod rules;
mod running;
mod script;
mod setup;
pub mod visitors;

pub use pool_rules::{PoolId, Rank};
pub use profile::{AtPath, Closing, Profile, Rewritten};
pub use reach::Reach;
pub use running::Site;
pub use script::{Script, WorkerKind};
pub use setup::SiteSetup;
