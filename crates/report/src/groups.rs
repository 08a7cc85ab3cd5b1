//! What the groups of a run got, and what they were entitled to.

use vruntime_trace::weight;

use crate::accounts::{Group, Task};
use crate::entitlement::{Claim, divide, group_weight, nice_weight};
use crate::results::{GroupResult, Pressure};

/// Whether a CPU limit may make tasks of a group wait while CPUs are idle: such waits say nothing of the balancer.
pub(crate) fn limited(groups: &[Group], group: u32) -> bool {
    let mut at = Some(group);
    while let Some(index) = at
        && let Some(group) = groups.get(index as usize)
    {
        if group.limit.is_some() {
            return true;
        }
        // Parents come before their children.
        at = group.parent.filter(|&parent| parent < index);
    }
    false
}

/// Sums over the tree, and the entitlements down it. `capacity` is all CPU time that tasks got in `elapsed`.
pub(crate) fn group_results(groups: &[Group], tasks: &[Task], capacity: u64, elapsed: u64) -> Vec<GroupResult> {
    let mut results: Vec<GroupResult> = groups
        .iter()
        .map(|group| GroupResult {
            path: group.path.clone(),
            parent: group.parent.map(|parent| parent as usize),
            weight: group.nice.map_or(group.weight, autogroup_weight),
            nice: group.nice,
            tasks: 0,
            cpu_ns: group.cpu_ns,
            system_ns: group.system_ns.min(group.cpu_ns),
            entitled_ns: 0,
            run_delay_ns: group.run_delay_ns,
            switches: group.switches,
            counted_switches: None,
            limit: group.limit,
            nr_rt_throttled: group.nr_rt_throttled,
            rt_throttled_ns: group.rt_throttled_ns,
            pressure: Pressure::default(),
            cpuset: group.cpuset.clone(),
        })
        .collect();
    let mut members: Vec<Vec<Member>> = vec![Vec::new(); groups.len()];
    let mut demand = vec![0_u64; groups.len()];
    let mut realtime = vec![0_u64; groups.len()];
    for task in tasks {
        let group = task.group as usize;
        results[group].tasks += 1;
        if task.policy.is_rt() {
            // It takes what it wants, whatever its group's weight.
            realtime[group] += task.account.cpu_ns;
            continue;
        }
        let wants = task.account.demand_ns();
        demand[group] += wants;
        if wants > 0 {
            members[group].push(Member { group: None, claim: Claim { weight: nice_weight(task.nice), demand: wants } });
        }
    }
    // Parents come before their children, so one pass backwards sums the tree and one forwards divides it.
    for index in (0..results.len()).rev() {
        let Some(parent) = results[index].parent.filter(|&parent| parent < index) else { continue };
        let (head, tail) = results.split_at_mut(index);
        let (sum, part) = (&mut head[parent], &tail[0]);
        sum.tasks += part.tasks;
        sum.cpu_ns += part.cpu_ns;
        sum.system_ns += part.system_ns;
        sum.run_delay_ns += part.run_delay_ns;
        sum.switches += part.switches;
        if part.limit.is_some() {
            demand[index] = demand[index].min(u64::try_from(groups[index].allowed_by(elapsed)).unwrap_or(u64::MAX));
        }
        demand[parent] += demand[index];
        realtime[parent] += realtime[index];
        let claim = Claim { weight: groups[index].mean_weight(elapsed), demand: demand[index] };
        members[parent].push(Member { group: Some(index), claim });
    }
    if let Some(root) = results.first_mut() {
        root.entitled_ns = capacity.saturating_sub(realtime[0]);
    }
    for index in 0..results.len() {
        let claims: Vec<Claim> = members[index].iter().map(|member| member.claim).collect();
        let parts = divide(results[index].entitled_ns, &claims);
        for (member, part) in members[index].iter().zip(parts) {
            if let Some(child) = member.group {
                results[child].entitled_ns = part;
            }
        }
    }
    for (result, realtime) in results.iter_mut().zip(realtime) {
        result.entitled_ns += realtime;
    }
    results
}

/// What `cpu.weight` would say of an autogroup: it weighs as much as a task of its nice value, and 1024 is 100
/// (`cpu_weight_read_u64`, rounded to nearest).
fn autogroup_weight(nice: i8) -> u32 {
    ((weight::down(weight::of_nice(nice)) * 100 + 512) / 1024).max(1) as u32
}

impl Group {
    fn claim(&self) -> u64 {
        self.nice.map_or_else(|| group_weight(self.weight), nice_weight)
    }

    /// Books weight and limit, as they are until now, for the time since the last change.
    pub(crate) fn advance(&mut self, at: u64) {
        (self.weighed, self.allowed, self.since) = (self.weighed_by(at), self.allowed_by(at), at);
    }

    fn weighed_by(&self, at: u64) -> u128 {
        self.weighed + u128::from(self.claim()) * u128::from(at.saturating_sub(self.since))
    }

    /// What its limit let it have until `at`, nanoseconds; time without one counts as more than any machine has.
    fn allowed_by(&self, at: u64) -> u128 {
        let (quota, period) = self.limit.and_then(|limit| limit.max).unwrap_or((1 << 32, 1));
        self.allowed + u128::from(at.saturating_sub(self.since)) * u128::from(quota) / u128::from(period.max(1))
    }

    /// Its weight on average until `at`, in the scale of claims.
    fn mean_weight(&self, at: u64) -> u64 {
        if self.since == 0 { self.claim() } else { (self.weighed_by(at) / u128::from(at.max(1))) as u64 }
    }
}

#[derive(Clone, Copy)]
struct Member {
    group: Option<usize>,
    claim: Claim,
}
