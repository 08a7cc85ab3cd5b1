//! Idle states of CPUs, as an option of the machine. Deeper states have longer exit latencies.
//!
//! An idle CPU enters the deepest state whose target residency is at most the time to its next timer. A wakeup by
//! another CPU cannot be predicted, and pays the exit latency. The stopped tick and balancing for others are no timers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use vruntime_sched::ids::CpuId;
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::cpu::{IDLE, NEVER};
use crate::host::Core;
use crate::machine::{Machine, sched};

/// A CPU's idle state (`cpuidle_state`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// The name, such as `C1`.
    pub name: String,
    /// Additional time from an interrupt to its handling, after [`Costs::idle_exit_ns`](crate::Costs::idle_exit_ns),
    /// nanoseconds.
    pub exit_latency_ns: u64,
    /// The shortest idle time that justifies the state, nanoseconds.
    pub target_residency_ns: u64,
}

/// Additional exit latency after a longer idle time, whatever the state. It models a host's idle states, a virtual
/// machine's polling, or any governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleDepth {
    /// The shortest idle time, nanoseconds.
    pub after_ns: u64,
    /// The additional latency, nanoseconds.
    pub extra_ns: u64,
}

/// An error in idle states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IdleStateError {
    /// An empty list.
    None,
    /// A state not deeper than the one before.
    Order {
        /// The state.
        name: String,
        /// The state before it.
        before: String,
    },
    /// An exit latency above a second.
    Latency {
        /// The state.
        name: String,
    },
}

impl fmt::Display for IdleStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "the list of idle states is empty; leave it out, or name one"),
            Self::Order { name, before } => write!(
                f,
                "idle state `{name}` must have a longer exit latency than `{before}` before it, and no shorter a residency: \
                 list them from the shallowest to the deepest"
            ),
            Self::Latency { name } => write!(f, "idle state `{name}` has an exit latency above 1 s"),
        }
    }
}

impl std::error::Error for IdleStateError {}

/// Checks that states are listed from the shallowest to the deepest.
///
/// # Errors
///
/// If they are not, if there is none, or if an exit latency exceeds a second.
pub fn check(states: &[IdleState]) -> Result<(), IdleStateError> {
    if states.is_empty() {
        return Err(IdleStateError::None);
    }
    if let Some(state) = states.iter().find(|state| state.exit_latency_ns > 1_000_000_000) {
        return Err(IdleStateError::Latency { name: state.name.clone() });
    }
    let deeper = |pair: &&[IdleState]| {
        pair[0].exit_latency_ns < pair[1].exit_latency_ns && pair[0].target_residency_ns <= pair[1].target_residency_ns
    };
    match states.windows(2).find(|pair| !deeper(pair)) {
        Some(pair) => Err(IdleStateError::Order { name: pair[1].name.clone(), before: pair[0].name.clone() }),
        None => Ok(()),
    }
}

#[derive(Debug)]
pub(crate) struct Idle {
    states: Vec<IdleState>,
    timers: Vec<BTreeSet<(u64, u32)>>,
    armed: BTreeMap<u32, (usize, u64)>,
}

impl Idle {
    pub(crate) fn new(states: &[IdleState], cpus: usize) -> Self {
        Self { states: states.to_vec(), timers: vec![BTreeSet::new(); cpus], armed: BTreeMap::new() }
    }

    pub(crate) fn arm(&mut self, task: u32, cpu: usize, at: u64) {
        self.disarm(task);
        self.timers[cpu].insert((at, task));
        self.armed.insert(task, (cpu, at));
    }

    pub(crate) fn disarm(&mut self, task: u32) {
        if let Some((cpu, at)) = self.armed.remove(&task) {
            self.timers[cpu].remove(&(at, task));
        }
    }
}

impl<S: Sink> Core<'_, S> {
    /// Returns the time to wake up for an interrupt at `at`.
    #[inline]
    pub(crate) fn idle_exit(&self, cpu: usize, at: u64) -> u64 {
        let this = &self.cpus[cpu];
        let shallow = self.costs.idle_exit_ns + this.exit_latency;
        if self.idle_depths.is_empty() {
            return shallow;
        }
        let idle_for = at.saturating_sub(this.kernel_end);
        let depth = self.idle_depths.iter().rfind(|depth| depth.after_ns <= idle_for);
        shallow.saturating_add(depth.map_or(0, |depth| depth.extra_ns))
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    #[cold]
    pub(crate) fn choose_idle_state(&mut self, cpu: usize) {
        let Some(idle) = &self.idle else { return };
        if self.core.cpus[cpu].curr != IDLE {
            return;
        }
        let own = idle.timers[cpu].first().map(|(at, _)| *at);
        let next = own.into_iter().chain(self.core.timers.next_on(cpu as u32)).min().unwrap_or(NEVER);
        let sleep = next.saturating_sub(self.core.now);
        let pays = idle.states.iter().rposition(|state| state.target_residency_ns <= sleep).unwrap_or(0);
        let latency = idle.states[pays].exit_latency_ns;
        self.core.cpus[cpu].exit_latency = latency;
        sched!(self, cpu).set_idle_state(CpuId(cpu as u32), Some(latency));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_listed_from_the_shallowest() {
        let state = |name: &str, exit_latency_ns, target_residency_ns| IdleState {
            name: name.to_owned(),
            exit_latency_ns,
            target_residency_ns,
        };
        assert_eq!(check(&[state("a", 1, 1), state("b", 5, 9)]), Ok(()));
        assert_eq!(check(&[]), Err(IdleStateError::None));
        let order = Err(IdleStateError::Order { name: "b".to_owned(), before: "a".to_owned() });
        assert_eq!(check(&[state("a", 5, 1), state("b", 5, 9)]), order);
        assert_eq!(check(&[state("a", 5, 10), state("b", 6, 9)]), order);
        assert!(matches!(check(&[state("a", 2_000_000_000, 1)]), Err(IdleStateError::Latency { .. })));
    }
}
