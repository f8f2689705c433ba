//! A site as it runs: its part of the plan, what is known about its application, its visitors, and which of its PHP pools a request
//! is for. Values that the rooms behind the pipeline look at; nothing here answers a request.

mod hosts;
mod lanes;
mod network;
mod origin;
mod profile;
mod running;
mod script;
mod setup;
pub mod visitors;

pub use lanes::{LaneId, Rank};
pub use network::Network;
pub use running::Site;
pub use script::Script;
pub use setup::Setup;
