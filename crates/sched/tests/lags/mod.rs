//! EEVDF's invariants (ARCHITECTURE.md, always true, 3) on several CPUs with arbitrary changes.
//!
//! - The lags on a queue, throttled or not, add up to 0, to rounding.
//! - A picked task and each group above it have a lag of at least 0. (A previous group that has used up its limit
//!   leaves after the pick, as in the kernel. Then the average changes.)
//! - A task joins a queue with a bounded lag. Up to 6.18 the bound is the larger of two own slices and a tick. In late
//!   6.18 and 7.0+ it is the longest slice on the queue that it left, and a tick.
//! - Between two changes of a queue of tasks only, a debt does not exceed the task's slice and a tick. A higher one
//!   does not grow. The running task may end its request first, and owes that much more.
//!
//! A change (a join, a leave, a new weight or slice) moves the average, and may increase debts. Groups' weights change
//! with every tick, so the last rule does not cover queues with groups.

#![allow(dead_code)] // each test binary uses some of it

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::class::fair::Eevdf;
use vruntime_sched::config::Config;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::invariants::{Standing, standings};
use vruntime_sched::kernels::Behaviour;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, Rq};

/// All entities, by queue; None without EEVDF.
fn queues<P: Policy + 'static>(rq: &Rq<P>) -> Option<BTreeMap<GroupId, Vec<Standing>>> {
    let rq = (rq as &dyn Any).downcast_ref::<Rq<Eevdf>>()?;
    let mut queues: BTreeMap<GroupId, Vec<Standing>> = BTreeMap::new();
    for standing in standings(rq) {
        queues.entry(standing.queue).or_default().push(standing);
    }
    Some(queues)
}

pub(crate) fn check_sums<P: Policy + 'static>(rq: &Rq<P>) {
    for (queue, all) in queues(rq).into_iter().flatten() {
        let weight: i128 = all.iter().map(|standing| i128::from(standing.weight)).sum();
        let owed: i128 = all.iter().map(|standing| i128::from(standing.lag) * i128::from(standing.weight)).sum();
        // The average is rounded down by less than 1 ns.
        assert!(-weight < owed && owed <= 0, "CPU {} {queue:?}: they are owed {owed}, weigh {weight}: {all:?}", rq.cpu);
    }
}

pub(crate) fn check_picked<P: Policy + 'static>(rq: &Rq<P>) {
    let Some(queues) = queues(rq) else { return };
    for standing in queues.values().flatten().filter(|standing| standing.running) {
        assert!(standing.eligible, "CPU {}: picked, though it is owed nothing: {standing:?} of {queues:?}", rq.cpu);
    }
}

/// A task at the last change of its queue.
#[derive(Clone, Debug)]
struct Base {
    weight: u64,
    slice_ns: u64,
    /// Its debt then, or when first seen off the CPU since, ns of CPU time.
    debt: i128,
    /// Whether it has run ever since.
    runs: bool,
}

/// The allowed lag of a joining task.
#[derive(Debug)]
struct Bounds {
    /// The default slice with every CPU online, ns: CPUs may go offline after a task left.
    usual_slice_ns: u64,
    tick_ns: u64,
    /// Whether a queue's longest slice limits lag (late 6.18, 7.0+), and not the task's own.
    by_longest: bool,
    /// The longest slice requested in each group or its descendants, ns.
    longest: BTreeMap<GroupId, u64>,
    been_in: BTreeMap<TaskId, BTreeSet<GroupId>>,
}

impl Bounds {
    /// The highest absolute lag at joining, ns of CPU time. The scheduler limits lag at dequeue, and others may join
    /// and leave unseen. So the slices of all tasks ever in the group or its descendants count.
    fn at_joining(&self, standing: &Standing) -> i128 {
        let usual = self.usual_slice_ns.max(standing.slice_ns);
        i128::from(if self.by_longest {
            let been_in = standing.task.and_then(|task| self.been_in.get(&task)).into_iter().flatten();
            let longest = been_in.filter_map(|group| self.longest.get(group)).copied().max();
            longest.unwrap_or(0).max(usual) + self.tick_ns
        } else {
            (2 * usual).max(self.tick_ns)
        })
    }
}

/// Debts on the queues of tasks only, each since its last change.
#[derive(Debug)]
pub(crate) struct Debts {
    queues: BTreeMap<(CpuId, GroupId), BTreeMap<TaskId, Base>>,
    bounds: Bounds,
}

/// The debt in CPU time, and its rounding.
fn debt(standing: &Standing) -> (i128, i128) {
    let weight = i128::from(standing.weight);
    (-i128::from(standing.lag) * weight / 1024, weight / 1024 + 1)
}

impl Debts {
    /// With every CPU online.
    pub(crate) fn new(config: &Config<Knobs>) -> Self {
        let bounds = Bounds {
            usual_slice_ns: config.tunables.base_slice_ns,
            tick_ns: config.tunables.tick_ns,
            by_longest: config.has(Behaviour::LagByLongest),
            longest: BTreeMap::new(),
            been_in: BTreeMap::new(),
        };
        Self { queues: BTreeMap::new(), bounds }
    }

    /// Notes a task's requested slice, and the groups from its own to the root.
    pub(crate) fn joins(&mut self, task: TaskId, slice_ns: Option<u64>, path: &[GroupId]) {
        for &group in path {
            let longest = self.bounds.longest.entry(group).or_default();
            *longest = slice_ns.unwrap_or(0).max(*longest);
        }
        self.bounds.been_in.entry(task).or_default().extend(path.first());
    }

    /// Checks a CPU's debts against the last call's, with events at one instant between them. `restart` starts over,
    /// for entities that may have left and returned: throttled groups, and tasks with a new affinity, which begin a
    /// request.
    pub(crate) fn check<P: Policy + 'static>(&mut self, rq: &Rq<P>, restart: bool) {
        let Some(queues) = queues(rq) else { return };
        self.queues.retain(|(cpu, queue), _| *cpu != rq.cpu || queues.contains_key(queue));
        for (queue, all) in queues {
            let key = (rq.cpu, queue);
            let Some(tasks) = all.iter().map(|standing| standing.task).collect::<Option<Vec<TaskId>>>() else {
                self.queues.remove(&key);
                continue;
            };
            let known = self.queues.entry(key).or_default();
            let is_known = |task: &TaskId, standing: &Standing| {
                known.get(task).map(|base| (base.weight, base.slice_ns)) == Some((standing.weight, standing.slice_ns))
            };
            let fresh: Vec<&Standing> =
                tasks.iter().zip(&all).filter(|(task, standing)| !is_known(task, standing)).map(|it| it.1).collect();
            if !restart && fresh.is_empty() && known.len() == all.len() {
                for (task, standing) in tasks.iter().zip(&all) {
                    let base = known.get_mut(task).unwrap();
                    let (owes, rounding) = debt(standing);
                    let own = i128::from(standing.slice_ns + self.bounds.tick_ns);
                    let most = if base.runs { base.debt.max(0) + own } else { base.debt.max(own) };
                    assert!(
                        owes <= most + rounding,
                        "it owes {owes}, {most} at most: {standing:?} of {all:?}, {known:?}"
                    );
                    if base.runs && !standing.running {
                        (base.runs, base.debt) = (false, owes);
                    }
                }
                continue;
            }
            if let [standing] = fresh[..]
                && !restart
                && known.len() + 1 == all.len()
                && !known.contains_key(&standing.task.unwrap())
            {
                let (owes, rounding) = debt(standing);
                let most = self.bounds.at_joining(standing);
                assert!(owes.abs() <= most + rounding, "it came owing {owes}, {most} at most: {standing:?} of {all:?}");
            }
            let base = |standing: &Standing| Base {
                weight: standing.weight,
                slice_ns: standing.slice_ns,
                debt: debt(standing).0,
                runs: standing.running,
            };
            *known = tasks.into_iter().zip(all.iter().map(base)).collect();
        }
    }
}
