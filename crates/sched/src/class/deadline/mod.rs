//! The deadline class: SCHED_DEADLINE, a constant bandwidth server (CBS) for every task, earliest deadline first.
//!
//! | here | what |
//! |---|---|
//! | `params` | parameters of `sched_setattr` |
//! | `bandwidth` | bandwidths, root domains, admission |
//! | `entity` | one server: runtime, deadline, their renewal |
//! | `grub` | reclaiming |
//! | `queue` | a CPU: order, sums of bandwidth, timers, throttling |
//! | `server` | the fair server (6.12+) |
//! | `cpudeadline` | the CPU with the latest deadline |
//! | `verbs` | calls from the core |
//! | `place` | the CPU for a wakeup |
//! | `shared` | what the CPUs share |

pub(crate) mod bandwidth;
mod cpudeadline;
pub(crate) mod entity;
mod error;
mod grub;
pub(crate) mod params;
pub(crate) mod place;
pub(crate) mod queue;
pub(crate) mod ratio;
mod server;
pub(crate) mod shared;
#[cfg(test)]
mod tests;
pub(crate) mod verbs;

pub use bandwidth::{AdmissionError, GlobalLimit, Reclaim, RootDomain};
pub use cpudeadline::CpuDeadline;
pub use entity::{DlEntity, Donor};
pub use error::SchedError;
pub use grub::Grub;
pub use params::{DlAttrs, DlParamError, DlTunables, MIN_RUNTIME_NS, PeriodLimits, ServerLimits};
pub use queue::{Charged, DlDequeue, DlEnqueue, DlRq, DlTimer, Env, SERVER};
pub use ratio::{BW_SHIFT, BW_UNIT, to_ratio};
pub use server::{Server, ServerRules};
