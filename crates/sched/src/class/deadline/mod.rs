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
//! | `balance` | wakeup, push and pull |

mod balance;
mod bandwidth;
mod cpudeadline;
mod entity;
mod grub;
mod params;
mod queue;
mod server;
#[cfg(test)]
mod tests;
mod verbs;

pub use bandwidth::{AdmissionError, BW_SHIFT, BW_UNIT, GlobalLimit, Reclaim, RootDomain, to_ratio};
pub use cpudeadline::CpuDeadline;
pub use entity::{DlEntity, Donor};
pub use grub::Grub;
pub use params::{DlAttrs, DlParamError, DlTunables, MIN_RUNTIME_NS, PeriodLimits, SchedError};
pub use queue::{Charged, DlDequeue, DlEnqueue, DlRq, DlTimer, Env, SERVER};
pub use server::{Server, ServerLimits, ServerRules};

pub(crate) use balance::{DlShared, affinity_changed, overloaded, select_cpu, woken};
pub(crate) use bandwidth::Cpus;
pub(crate) use verbs::{
    account, account_all, attach, before_pick, check, dequeue, detach, enqueue, finish_verb, leave, lend, pick,
    put_prev, root_of, runtime_ends, set_attrs, set_next, start_server, stay_for_donor, tell_host, tick, timers,
    update_curr, update_load, wakeup_preempt, yield_task,
};
