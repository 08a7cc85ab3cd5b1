//! Throttled groups of CPUs, for real-time tasks or by `cpu.max`.

use std::collections::BTreeMap;

use vruntime_trace::{CpuId, GroupId, SchedPolicy};

/// The limit that applies to a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BoundBy {
    /// Its group's.
    #[default]
    Group,
    /// The bandwidth of real-time tasks, by own or inherited priority.
    Realtime,
    /// None: a deadline task has an own or inherited runtime.
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
    /// Returns the limit by the kernel's `prio`.
    pub(crate) fn of_priority(prio: i16) -> Self {
        match prio {
            ..0 => Self::Nothing,
            0..=99 => Self::Realtime,
            _ => Self::Group,
        }
    }
}

/// Start times of current throttlings, by CPU and group, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throttles(BTreeMap<(u32, u32), u64>);

impl Throttles {
    /// Begins a throttling of a group.
    pub(crate) fn begin(&mut self, at: u64, cpu: CpuId, group: GroupId) {
        self.0.entry((cpu.0, group.0)).or_insert(at);
    }

    /// Ends a throttling. Returns its length, if its start is known.
    pub(crate) fn end(&mut self, at: u64, cpu: CpuId, group: GroupId) -> Option<u64> {
        self.0.remove(&(cpu.0, group.0)).map(|since| at.saturating_sub(since))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what throttles `group` on `cpu`: itself, or the nearest throttled ancestor.
    pub(crate) fn holder(&self, cpu: u32, group: u32, parent: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut at = Some(group).filter(|_| !self.is_empty());
        while let Some(group) = at {
            if self.0.contains_key(&(cpu, group)) {
                return Some(group);
            }
            // Parents precede children.
            at = parent(group).filter(|&parent| parent < group);
        }
        None
    }

    /// Whether the tasks of `group` are throttled on `cpu`.
    pub(crate) fn is_throttled(&self, cpu: u32, group: u32, parent: impl Fn(u32) -> Option<u32>) -> bool {
        self.holder(cpu, group, parent).is_some()
    }

    /// Ends all throttlings, and returns CPU, group and length.
    pub(crate) fn finish(&mut self, now: u64) -> impl Iterator<Item = (u32, u32, u64)> + use<> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(move |((cpu, group), since)| (cpu, group, now.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An inherited deadline or real-time priority exempts a task from its group's limit.
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
