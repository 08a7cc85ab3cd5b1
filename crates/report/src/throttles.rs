//! Groups that are throttled on each CPU, for their real-time tasks or by `cpu.max`. Their tasks wait for the end of a
//! period, not for a CPU.

use std::collections::BTreeMap;

use vruntime_trace::{CpuId, GroupId, SchedPolicy};

/// Which limit is for a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BoundBy {
    /// That of its group.
    #[default]
    Group,
    /// The bandwidth of real-time tasks: its priority is a real-time one, its own or one it was lent.
    Realtime,
    /// Neither: a deadline task has its own runtime, or one it was lent.
    Nothing,
}

impl From<SchedPolicy> for BoundBy {
    fn from(policy: SchedPolicy) -> Self {
        match policy {
            SchedPolicy::Deadline => Self::Nothing,
            policy if policy.is_rt() => Self::Realtime,
            _ => Self::Group,
        }
    }
}

impl BoundBy {
    /// By the kernel's `prio`.
    pub(crate) fn of_priority(prio: i16) -> Self {
        match prio {
            ..0 => Self::Nothing,
            0..=99 => Self::Realtime,
            _ => Self::Group,
        }
    }
}

/// The throttlings that last, of a CPU and a group: since when, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throttles(BTreeMap<(u32, u32), u64>);

impl Throttles {
    /// The tasks of a group have used up what they may have of `cpu`.
    pub(crate) fn begin(&mut self, at: u64, cpu: CpuId, group: GroupId) {
        self.0.entry((cpu.0, group.0)).or_insert(at);
    }

    /// Ends a throttling. Returns its length, if its start is known.
    pub(crate) fn end(&mut self, at: u64, cpu: CpuId, group: GroupId) -> Option<u64> {
        self.0.remove(&(cpu.0, group.0)).map(|since| at.saturating_sub(since))
    }

    /// Whether no group is throttled.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which throttled group holds the tasks of `group` back on `cpu`: it itself, or the nearest above it.
    pub(crate) fn holder(&self, cpu: u32, group: u32, parent: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut at = Some(group).filter(|_| !self.is_empty());
        while let Some(group) = at {
            if self.0.contains_key(&(cpu, group)) {
                return Some(group);
            }
            // Parents come before their children.
            at = parent(group).filter(|&parent| parent < group);
        }
        None
    }

    /// Whether the tasks of `group` are throttled on `cpu`.
    pub(crate) fn hold(&self, cpu: u32, group: u32, parent: impl Fn(u32) -> Option<u32>) -> bool {
        self.holder(cpu, group, parent).is_some()
    }

    /// Ends them all: CPU, group and how long each lasted.
    pub(crate) fn finish(&mut self, now: u64) -> impl Iterator<Item = (u32, u32, u64)> + use<> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(move |((cpu, group), since)| (cpu, group, now.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutex lends an ordinary task a deadline or a real-time priority: its group's limit is none for it until it
    /// gives that back.
    #[test]
    fn what_a_task_is_lent_decides_which_limit_is_for_it() {
        let lent = [(-1, BoundBy::Nothing), (0, BoundBy::Realtime), (98, BoundBy::Realtime), (120, BoundBy::Group)];
        for (prio, bound_by) in lent {
            assert_eq!(BoundBy::of_priority(prio), bound_by, "{prio}");
        }
        for (policy, bound_by) in [
            (SchedPolicy::Deadline, BoundBy::Nothing),
            (SchedPolicy::RoundRobin, BoundBy::Realtime),
            (SchedPolicy::Batch, BoundBy::Group),
        ] {
            assert_eq!(BoundBy::from(policy), bound_by);
        }
    }
}
