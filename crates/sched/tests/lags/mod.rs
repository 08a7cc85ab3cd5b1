//! EEVDF's promises (ARCHITECTURE.md, always true, 3) on a machine of several CPUs on which anything may change at any
//! time.
//!
//! - On every queue of every CPU, throttled or not, what the entities are owed adds up to nothing, to rounding: always.
//! - Who is picked is owed time, or owes none, and so is every group above him on its queue: at every pick. (Where the
//!   predecessor's group has used up its limit it leaves its queue after the pick, in the same switch, as in the
//!   kernel; then the average is another.)
//! - A task that joins a queue brings along a bounded lag. Up to 6.18 the bound is two of its slices, or a tick if that
//!   is more. In late releases of 6.18, and from 7.0 on, it is the longest slice on the queue that it left, and a tick.
//! - Between two changes of a queue that has tasks only (somebody joins or leaves, a weight or a slice is another),
//!   nobody's debt grows beyond a slice of his own and a tick, and who owed more at the change owes no more than then.
//!   The one who has the CPU at the change may end his request first, and owes that much more.
//!
//! A change itself may make anybody owe more: who joins or leaves with a lag of his own moves the average, and the
//! others' lags with it. And a group's entity changes its weight with every tick, so of queues with groups the last
//! rule says nothing.

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

/// How all stand, by queue; nothing under a policy other than EEVDF.
fn queues<P: Policy + 'static>(rq: &Rq<P>) -> Option<BTreeMap<GroupId, Vec<Standing>>> {
    let rq = (rq as &dyn Any).downcast_ref::<Rq<Eevdf>>()?;
    let mut queues: BTreeMap<GroupId, Vec<Standing>> = BTreeMap::new();
    for standing in standings(rq) {
        queues.entry(standing.queue).or_default().push(standing);
    }
    Some(queues)
}

/// What is owed on each queue adds up to nothing.
pub(crate) fn check_sums<P: Policy + 'static>(rq: &Rq<P>) {
    for (queue, all) in queues(rq).into_iter().flatten() {
        let weight: i128 = all.iter().map(|standing| i128::from(standing.weight)).sum();
        let owed: i128 = all.iter().map(|standing| i128::from(standing.lag) * i128::from(standing.weight)).sum();
        // The average is rounded down by less than 1 ns.
        assert!(-weight < owed && owed <= 0, "CPU {} {queue:?}: they are owed {owed}, weigh {weight}: {all:?}", rq.cpu);
    }
}

/// Whoever was picked just now is owed time, and so is every group above him.
pub(crate) fn check_picked<P: Policy + 'static>(rq: &Rq<P>) {
    let Some(queues) = queues(rq) else { return };
    for standing in queues.values().flatten().filter(|standing| standing.running) {
        assert!(standing.eligible, "CPU {}: picked, though it is owed nothing: {standing:?} of {queues:?}", rq.cpu);
    }
}

/// A task as it was when its queue changed last.
#[derive(Clone, Debug)]
struct Base {
    weight: u64,
    slice_ns: u64,
    /// What it owed then, or when it was first seen off the CPU since, ns of CPU time.
    debt: i128,
    /// It has had the CPU ever since.
    runs: bool,
}

/// How much a task may owe, or be owed, when it joins a queue.
#[derive(Debug)]
struct Bounds {
    /// The usual slice with every CPU online, ns. With fewer it is shorter, and who comes may have left where it was
    /// this.
    usual_slice_ns: u64,
    tick_ns: u64,
    /// Whether a lag is limited by the longest slice of a queue (late releases of 6.18, 7.0 and later), and not by the
    /// task's own.
    by_longest: bool,
    /// The longest slice that any task has asked for in each group, or below it, ns.
    longest: BTreeMap<GroupId, u64>,
    /// The groups that each task has been in.
    been_in: BTreeMap<TaskId, BTreeSet<GroupId>>,
}

impl Bounds {
    /// The most that a task owes, or is owed, when it joins a queue, ns of CPU time.
    ///
    /// The scheduler limits a task's lag when the task leaves a queue. Late kernels limit it to the longest slice on
    /// that queue, and a tick. The slices on the queue are those of the group's tasks, and of groups below, each of
    /// which has the shortest slice of its tasks. Some entities may have come and gone within the instant in which the
    /// task left, unseen. So the bound takes every task that was ever in the group, or below it, to have been there.
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

/// The queues that have tasks only, since each changed last.
#[derive(Debug)]
pub(crate) struct Debts {
    queues: BTreeMap<(CpuId, GroupId), BTreeMap<TaskId, Base>>,
    bounds: Bounds,
}

/// What it owes, in CPU time, and how far that is rounded.
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

    /// Notes that a task is in a group from now on. `slice_ns` is what it asked for, `path` the groups from its own up
    /// to the root.
    pub(crate) fn joins(&mut self, task: TaskId, slice_ns: Option<u64>, path: &[GroupId]) {
        for &group in path {
            let longest = self.bounds.longest.entry(group).or_default();
            *longest = slice_ns.unwrap_or(0).max(*longest);
        }
        self.bounds.been_in.entry(task).or_default().extend(path.first());
    }

    /// Checks what has become of a CPU's debts since the last look. Nothing may have happened in between but at one
    /// instant. All is looked at `anew` if at that instant somebody may have come and gone, or gone and come back: a
    /// group whose last task a limit held back, whose lag is the others' now; a task with other CPUs, which begins a
    /// new request.
    pub(crate) fn check<P: Policy + 'static>(&mut self, rq: &Rq<P>, anew: bool) {
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
            if !anew && fresh.is_empty() && known.len() == all.len() {
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
                && !anew
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
