//! The results of groups.

use vruntime_trace::weight;

use crate::accounts::{Group, Task};
use crate::entitlement::{IDLE_WEIGHT, group_weight, guaranteed_weight, nice_weight};
use crate::results::{GroupResult, Pressure, Unmeasured};

/// Sums over the tree, with each group's entitlement.
pub(crate) fn group_results(groups: &[Group], tasks: &[Task], entitled: &[u64]) -> Vec<GroupResult> {
    let mut results: Vec<GroupResult> = groups
        .iter()
        .zip(entitled)
        .map(|(group, &entitled_ns)| GroupResult {
            path: group.path.clone(),
            parent: group.parent.map(|parent| parent as usize),
            weight: group.weight(),
            idle: group.idle,
            guarantee: group.guarantee,
            nice: group.nice,
            tasks: 0,
            cpu_ns: group.cpu_ns,
            system_ns: group.system_ns.min(group.cpu_ns),
            entitled_ns,
            run_delay_ns: group.run_delay_ns,
            own_delay_ns: None,
            switches: group.switches,
            counted_switches: None,
            limit: group.limit,
            nr_rt_throttled: group.nr_rt_throttled,
            rt_throttled_ns: group.rt_throttled_ns,
            pressure: Pressure::default(),
            cpuset: group.cpuset.clone(),
            unmeasured: Unmeasured::default(),
        })
        .collect();
    for task in tasks {
        results[task.group as usize].tasks += 1;
    }
    // Parents precede children, so one backward pass sums the tree.
    for index in (0..results.len()).rev() {
        let Some(parent) = results[index].parent.filter(|&parent| parent < index) else { continue };
        let (head, tail) = results.split_at_mut(index);
        let (sum, part) = (&mut head[parent], &tail[0]);
        sum.tasks += part.tasks;
        sum.cpu_ns += part.cpu_ns;
        sum.system_ns += part.system_ns;
        sum.run_delay_ns += part.run_delay_ns;
        sum.switches += part.switches;
    }
    results
}

/// Returns an autogroup's `cpu.weight`: that of a task of its nice value, where 1024 is 100 (`cpu_weight_read_u64`,
/// rounded to nearest).
fn autogroup_weight(nice: i8) -> u32 {
    ((weight::down(weight::of_nice(nice)) * 100 + 512) / 1024).max(1) as u32
}

impl Group {
    /// Returns its weight on the scale of claims.
    pub(crate) fn claim(&self) -> u64 {
        match (self.guarantee, self.nice) {
            (Some(percent), _) => guaranteed_weight(percent),
            _ if self.idle => IDLE_WEIGHT,
            (_, Some(nice)) => nice_weight(nice),
            _ => group_weight(self.weight),
        }
    }

    /// Returns its `cpu.weight` as read. 0 for an idle group.
    fn weight(&self) -> u32 {
        if self.idle { 0 } else { self.nice.map_or(self.weight, autogroup_weight) }
    }
}
