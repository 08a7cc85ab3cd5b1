//! Load balancing: which CPU takes work from which, when, and how much.

pub mod active;
pub(crate) mod by_load;
pub(crate) mod cpu_load;
mod detach;
pub mod domains;
pub(crate) mod early;
mod groups;
pub(crate) mod idle;
mod imbalance;
mod loads;
pub mod nohz;
pub(crate) mod pull;
pub(crate) mod roots;
pub(crate) mod sets;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod sums;
pub(crate) mod when;

pub use sets::DomainSets;
