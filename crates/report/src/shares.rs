//! What every group was entitled to, as time goes by: who wants a CPU changes, and so do weights, limits and groups.
//!
//! A run is cut where a task is born, where weights, policies, limits or groups change, and every [`WINDOW`]. In each piece the CPU time
//! that all tasks got together is divided down the tree ([`divide`]) among those who wanted it then. What a task wanted is the time it
//! lived in the piece, divided between running and sleeping as it did of late, for whoever only waited would have slept, too.

use vruntime_trace::SchedPolicy;

use crate::accounts::{Group, State, Task};
use crate::entitlement::{Claim, IDLE_WEIGHT, divide, guaranteed_weight, nice_weight};

/// Nanoseconds between two cuts at most, while tasks are few.
const WINDOW: u64 = 100_000_000;
/// The same for each task, so that cutting costs little of the time that tasks take.
const WINDOW_PER_TASK: u64 = 10_000;
/// Nanoseconds between two cuts at least, for each task.
const LEAST_PER_TASK: u64 = 20;

/// What a task's book said at the last cut, and how it divided its time of late.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    cpu: u64,
    sleeping: u64,
    waiting: u64,
    /// Running and sleeping; what was halves with every piece in which it did either.
    ran: u64,
    slept: u64,
}

/// What is known up to the last cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// When that was.
    from: u64,
    /// When the next is due.
    until: u64,
    seen: Vec<Seen>,
    /// Tasks that may have done something since, each at most once.
    living: Vec<u32>,
    /// How many tasks were known then.
    known: usize,
    /// What each group was entitled to, what its real-time and deadline tasks took included.
    entitled: Vec<u64>,
    /// What each group's limit grants that it was not entitled to yet.
    granted: Vec<u64>,
}

/// What one group and those below it want in a piece.
#[derive(Clone, Debug, Default)]
struct Wants {
    demand: u64,
    /// Taken by real-time and deadline tasks, whatever their groups weigh.
    urgent: u64,
    members: Vec<(Option<usize>, Claim)>,
}

impl Shares {
    /// Whether a cut is due.
    #[inline]
    pub(crate) fn due(&self, at: u64) -> bool {
        at >= self.until
    }

    /// When the last cut was.
    pub(crate) fn last(&self) -> u64 {
        self.from
    }

    /// Cuts at `at`, before something changes, if the last cut was long enough ago.
    pub(crate) fn change(&mut self, at: u64, tasks: &[Task], groups: &[Group]) {
        if groups.len() > 1 && at.saturating_sub(self.from) > LEAST_PER_TASK * tasks.len() as u64 {
            self.cut(at, tasks, groups);
        }
    }

    /// Divides what was got since the last cut. Parents come before their children.
    pub(crate) fn cut(&mut self, at: u64, tasks: &[Task], groups: &[Group]) {
        let from = std::mem::replace(&mut self.from, at);
        self.until = at.saturating_add(WINDOW.max(WINDOW_PER_TASK * tasks.len() as u64));
        self.entitled.resize(groups.len(), 0);
        self.granted.resize(groups.len(), 0);
        self.seen.resize(tasks.len(), Seen::default());
        self.living.extend(self.known as u32..tasks.len() as u32);
        self.known = tasks.len();

        let mut wants = vec![Wants::default(); groups.len()];
        let mut capacity = 0;
        let seen = &mut self.seen;
        self.living.retain(|&index| {
            let task = &tasks[index as usize];
            let (got, demand) = seen[index as usize].piece(task, at);
            capacity += got;
            let group = &mut wants[task.group as usize];
            match task.policy {
                SchedPolicy::Fifo | SchedPolicy::RoundRobin | SchedPolicy::Deadline => group.urgent += got,
                policy if demand > 0 => {
                    let weight = if policy == SchedPolicy::Idle { IDLE_WEIGHT } else { nice_weight(task.nice) };
                    group.demand += demand;
                    group.members.push((None, Claim { weight, demand }));
                }
                _ => {}
            }
            task.state != State::Dead
        });
        for index in (0..groups.len()).rev() {
            let group = &groups[index];
            if let Some((quota, period)) = group.limit.and_then(|limit| limit.max) {
                let periods = at.div_ceil(period.max(1)) - from.div_ceil(period.max(1));
                self.granted[index] = self.granted[index].min(quota).saturating_add(quota.saturating_mul(periods));
                wants[index].demand = wants[index].demand.min(self.granted[index]);
            }
            let Some(parent) = group.parent.map(|parent| parent as usize).filter(|&parent| parent < index) else {
                continue;
            };
            let Wants { demand, urgent, .. } = wants[index];
            wants[parent].demand += demand;
            wants[parent].urgent += urgent;
            if demand > 0 {
                wants[parent].members.push((Some(index), Claim { weight: group.claim(), demand }));
            }
        }
        share_guarantees(groups, &mut wants);
        let mut parts = vec![0; groups.len()];
        if let (Some(part), Some(root)) = (parts.first_mut(), wants.first()) {
            *part = capacity.saturating_sub(root.urgent);
        }
        for (index, wants) in wants.iter().enumerate() {
            let part = parts[index];
            self.granted[index] = self.granted[index].saturating_sub(part);
            self.entitled[index] += part + wants.urgent;
            let claims: Vec<Claim> = wants.members.iter().map(|&(_, claim)| claim).collect();
            for (&(group, _), part) in wants.members.iter().zip(divide(part, &claims)) {
                if let Some(group) = group {
                    parts[group] = part;
                }
            }
        }
    }

    /// What each group was entitled to by the last cut, nanoseconds.
    pub(crate) fn entitled(&self, groups: usize) -> Vec<u64> {
        let mut entitled = self.entitled.clone();
        entitled.resize(groups, 0);
        entitled
    }
}

/// Where groups are guaranteed parts of the machine, the root's own tasks have together what is guaranteed to nobody, and a group
/// without a guarantee has none.
fn share_guarantees(groups: &[Group], wants: &mut [Wants]) {
    if groups.iter().all(|group| group.guarantee.is_none()) {
        return;
    }
    let Some(root) = wants.first_mut() else { return };
    let rest = 100_u32.saturating_sub(groups.iter().filter_map(|group| group.guarantee).sum());
    let own = root.members.iter().filter(|(group, _)| group.is_none());
    let demand = own.map(|(_, claim)| claim.demand).sum();
    root.members.retain(|(group, _)| group.is_some());
    for (group, claim) in &mut root.members {
        claim.weight = guaranteed_weight(group.and_then(|group| groups[group].guarantee).unwrap_or(0));
    }
    root.members.push((None, Claim { weight: guaranteed_weight(rest), demand }));
}

impl Seen {
    /// What a task got in the piece that ends at `at`, and what it wanted.
    fn piece(&mut self, task: &Task, at: u64) -> (u64, u64) {
        // Its book ends with its last change of state.
        let since = at.saturating_sub(task.since);
        let (mut cpu, mut sleeping, mut waiting) =
            (task.account.cpu_ns, task.account.sleeping_ns, task.account.run_delay_ns);
        match task.state {
            State::Unborn | State::Dead => {}
            State::Sleeping => sleeping += since,
            State::Woken | State::Waiting => waiting += since,
            State::Running => cpu += since,
        }
        let (ran, slept, waited) = (cpu - self.cpu, sleeping - self.sleeping, waiting - self.waiting);
        (self.cpu, self.sleeping, self.waiting) = (cpu, sleeping, waiting);
        if ran + slept > 0 {
            (self.ran, self.slept) = (self.ran / 2 + ran, self.slept / 2 + slept);
        }
        let alive = u128::from(ran + slept + waited);
        let known = u128::from(self.ran) + u128::from(self.slept);
        // Whoever has only ever waited wanted all there was.
        let wanted = (alive * u128::from(self.ran)).checked_div(known).map_or(waited, |wanted| wanted as u64);
        (ran, wanted.max(ran))
    }
}
