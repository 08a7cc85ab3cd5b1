//! The scheduler, borrowed for one call.

use crate::host::Host;
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::shared::Shared;

/// The scheduler, borrowed for one call.
///
/// Every verb locks the run queues that it needs, and unlocks all. Several threads may each have a scheduler over the
/// same run queues and [`Shared`] (`tests/threads.rs`). The obligations of a host are at [`Rqs`], [`Host`],
/// [`Self::wake`] and [`Self::schedule`].
#[derive(Debug)]
pub struct Scheduler<'a, P: Policy, R: Rqs<P>, H: Host> {
    /// The run queues.
    pub rqs: &'a mut R,
    /// The state that they share.
    pub shared: &'a Shared<P>,
    /// The machine.
    pub host: &'a mut H,
    /// Now, nanoseconds.
    pub now: u64,
}
