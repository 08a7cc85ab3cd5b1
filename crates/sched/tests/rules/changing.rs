//! Effects of changed task attributes: reschedules, and the state of a task with a delayed dequeue.

use std::sync::Arc;

use vruntime_sched::class::deadline::DlAttrs;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::event::{MigrateCause, PrevState};
use vruntime_sched::ids::{CpuId, GroupId};
use vruntime_sched::invariants::standings;
use vruntime_sched::policy::Policy;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{CpuMask, Limit, Rq, SchedAttr, SchedPolicy, Scheduler, TaskAttrs, Waker};

use crate::bench::{CPU, MS, Machine, Wish};

/// Whether a change of the first of `count` tasks, which runs, or of the second reschedules.
fn asks<P: Policy<Tunables = Knobs>>(name: &str, count: usize, whose: usize, what: What) -> bool {
    let mut machine = Machine::<P>::new(name);
    let (tasks, group) = (machine.fork(count), machine.group);
    let task = tasks[whose];
    machine.asks(|s| match what {
        What::Nice(nice) => s.set_nice(task, nice),
        What::Other(nice) => s.set_scheduler(task, SchedAttr { nice, ..SchedAttr::default() }).unwrap(),
        What::Clamp => s.set_uclamp(task, Some(100), None).unwrap(),
        What::Group => s.move_group(task, group).unwrap(),
    })
}

#[derive(Clone, Copy)]
enum What {
    Nice(i8),
    Other(i8),
    Clamp,
    Group,
}

/// `prio_changed_fair`: only a running task whose weight fell is rescheduled, if there is another. A move to another
/// group always reschedules it.
#[test]
fn only_a_task_that_lost_weight_is_rescheduled() {
    let asks = |name, count, whose, what| {
        if name == "6.1" { asks::<Cfs>(name, count, whose, what) } else { asks::<Eevdf>(name, count, whose, what) }
    };
    for name in ["6.1", "6.6", "6.12"] {
        let asks = |count, whose, what| asks(name, count, whose, what);
        assert!(asks(2, 0, What::Nice(5)) && asks(2, 0, What::Other(5)), "{name}");
        for what in [What::Nice(0), What::Nice(-5), What::Other(0), What::Other(-5), What::Clamp] {
            assert!(!asks(2, 0, what), "{name}");
        }
        assert!(!asks(1, 0, What::Nice(5)), "{name}: there is no other task");
        assert!(asks(2, 0, What::Group) && asks(1, 0, What::Group), "{name}");
    }
}

/// 3.x: any higher weight reschedules the running task.
#[test]
fn before_6_1_a_better_nice_value_is_enough() {
    let asks = asks::<Cfs>;
    assert!(asks("3.10", 2, 1, What::Nice(-1)) && !asks("6.1", 2, 1, What::Nice(-1)));
    assert!(!asks("3.10", 2, 1, What::Nice(1)) && asks("3.10", 2, 0, What::Nice(-1)));
    assert!(asks("3.10", 2, 0, What::Nice(1)) && !asks("3.10", 2, 0, What::Group));
}

#[test]
fn the_limit_of_a_new_group_holds_at_once() {
    fn run<P: Policy<Tunables = Knobs>>(name: &str) {
        let mut machine = Machine::<P>::new(name);
        let group = machine.group;
        machine.asks(|s| s.set_group_bandwidth(group, Some(Limit::new(MS, 100 * MS, 0).unwrap())).unwrap());
        machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() });
        machine.schedule(PrevState::Preempted);
        machine.pass(2 * MS);
        machine.schedule(PrevState::Preempted);
        let task = machine.fork(1)[0];
        assert!(machine.asks(|s| s.move_group(task, group).unwrap()), "{name}");
        assert_eq!(machine.schedule(PrevState::Preempted), None, "{name}");
    }
    run::<Cfs>("3.10");
    run::<Cfs>("6.1");
    run::<Eevdf>("6.12");
}

/// A change of CPUs or nice value does not evade a new limit, which has charged nothing yet.
#[test]
fn a_change_is_no_way_around_a_limit() {
    fn run<P: Policy<Tunables = Knobs>>(name: &str, affinity: bool) {
        let mut machine = Machine::<P>::with_cpus(name, 2);
        let group = machine.group;
        let task = machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() });
        machine.schedule(PrevState::Preempted);
        // The other CPU takes all runtime.
        let other = machine.with(|s| {
            let task = s.new_task(&TaskAttrs { group, ..TaskAttrs::default() }, CpuId(1));
            s.set_group_bandwidth(group, Some(Limit::new(MS, 100 * MS, 0).unwrap())).unwrap();
            s.wake_new(task, CpuId(1));
            s.schedule(CpuId(1), PrevState::Preempted).next.task()
        });
        assert!(other.is_some(), "{name}");
        let here = Some(Arc::new([CPU].into_iter().collect()));
        let change = |s: &mut Scheduler<'_, P, Vec<Rq<P>>, Wish>| {
            if affinity { s.set_affinity(task, here.clone(), CpuId(0)).unwrap() } else { s.set_nice(task, 1) }
        };
        assert!(machine.asks(change), "{name}");
        assert_eq!(machine.schedule(PrevState::Preempted), None, "{name}");
    }
    for affinity in [true, false] {
        run::<Cfs>("6.1", affinity);
        run::<Eevdf>("6.12", affinity);
    }
}

/// `sched_setscheduler` with unchanged values does not dequeue, and begins no request. 6.12+: it resets a requested
/// slice, unless the slice is given, too.
#[test]
fn unchanged_attributes_begin_no_request() {
    let unchanged = |name: &str, attr: SchedAttr| {
        let mut machine = Machine::<Eevdf>::new(name);
        let task = machine.fork(2)[0];
        machine.pass(MS / 2);
        machine.asks(|s| s.set_scheduler(task, attr).unwrap());
        machine.pass(MS / 4);
        let before = (machine.entity(task).exec_start, machine.entity(task).deadline - machine.entity(task).vruntime);
        machine.now += MS / 8;
        machine.asks(|s| s.set_scheduler(task, attr).unwrap());
        before == (machine.entity(task).exec_start, machine.entity(task).deadline - machine.entity(task).vruntime)
    };
    let usual = SchedAttr::default();
    let nice = SchedAttr { nice: 3, ..usual };
    assert!(unchanged("6.6", usual) && unchanged("6.6", nice));
    assert!(!unchanged("6.12", usual) && unchanged("6.12", SchedAttr { slice: Some(3 * MS), ..nice }));
}

/// A task with a delayed dequeue stays queued in another group or with another nice value, but not in another class.
#[test]
fn a_task_with_a_delayed_dequeue_stays_queued() {
    for name in ["6.12", "6.18", "7.1"] {
        let mut machine = Machine::<Eevdf>::new(name);
        let (tasks, group) = (machine.fork(3), machine.group);
        let task = tasks[0];
        machine.pass(MS / 2);
        assert_ne!(machine.schedule(PrevState::Sleeping), Some(task));
        assert!(machine.is_queued(task), "{name}: it owes");
        machine.asks(|s| s.set_nice(task, 3));
        assert!(machine.is_queued(task), "{name}: its nice value");
        machine.asks(|s| s.move_group(task, group).unwrap());
        assert!(machine.is_queued(task), "{name}: its group");
        machine.asks(|s| s.set_uclamp(task, Some(100), None).unwrap());
        assert!(machine.is_queued(task), "{name}: its clamps");
        machine.asks(|s| assert!(s.wake(task, CPU, Waker::Task)));
        machine.asks(|s| s.set_nice(task, -3));
        assert!(machine.is_queued(task), "{name}: awake");

        let mut machine = Machine::<Eevdf>::new(name);
        let tasks = machine.fork(3);
        machine.pass(MS / 2);
        machine.schedule(PrevState::Sleeping);
        let fifo = SchedAttr { policy: SchedPolicy::Fifo, rt_priority: 1, ..SchedAttr::default() };
        machine.asks(|s| s.set_scheduler(tasks[0], fifo).unwrap());
        assert!(!machine.is_queued(tasks[0]), "{name}: its class");
    }
}

fn fifo() -> SchedAttr {
    SchedAttr { policy: SchedPolicy::Fifo, rt_priority: 10, ..SchedAttr::default() }
}

fn deadline() -> SchedAttr {
    SchedAttr { policy: SchedPolicy::Deadline, deadline: DlAttrs::new(10 * MS, 100 * MS), ..SchedAttr::default() }
}

/// POSIX: a lowered task moves to its list's head. From deadline to real-time is lowered.
#[test]
fn from_deadline_to_real_time_is_down() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let tasks = machine.fork(2);
    machine.asks(|s| s.set_scheduler(tasks[0], deadline()).unwrap());
    machine.asks(|s| s.set_scheduler(tasks[1], fifo()).unwrap());
    assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[0]));
    machine.asks(|s| s.set_scheduler(tasks[0], fifo()).unwrap());
    assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[0]), "before its like");
}

/// Another group moves a real-time task to its list's end.
#[test]
fn a_real_time_task_is_last_in_another_group() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let (tasks, group) = (machine.fork(2), machine.group);
    for &task in &tasks {
        machine.asks(|s| s.set_scheduler(task, fifo()).unwrap());
    }
    let runs = machine.schedule(PrevState::Preempted).unwrap();
    assert_eq!(machine.schedule(PrevState::Preempted), Some(runs));
    assert!(!machine.asks(|s| s.move_group(runs, vruntime_sched::ids::GroupId::ROOT).unwrap()), "it is there");
    assert!(machine.asks(|s| s.move_group(runs, group).unwrap()));
    assert_ne!(machine.schedule(PrevState::Preempted), Some(runs));
}

/// Up to 6.11 (here: 6.6) a task that wakes beside a deadline task looks for another CPU; since then it is pushed.
#[test]
fn a_real_time_task_wakes_beside_a_deadline_task() {
    for (name, cause) in [("6.1", MigrateCause::Wakeup), ("6.6", MigrateCause::Wakeup), ("6.12", MigrateCause::RtPush)]
    {
        let moved = if name == "6.1" { wakes_beside::<Cfs>(name) } else { wakes_beside::<Eevdf>(name) };
        assert_eq!(moved, [cause], "{name}");
    }
}

fn wakes_beside<P: Policy<Tunables = Knobs>>(name: &str) -> Vec<MigrateCause> {
    let mut machine = Machine::<P>::with_cpus(name, 2);
    let tasks = machine.fork(2);
    machine.schedule(PrevState::Sleeping);
    machine.asks(|s| s.set_scheduler(tasks[0], fifo()).unwrap());
    for &task in &tasks {
        machine.asks(|s| s.set_affinity(task, None, CpuId(0)).unwrap());
    }
    machine.asks(|s| s.set_scheduler(tasks[1], deadline()).unwrap());
    assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[1]));
    machine.wish.moved.clear();
    machine.asks(|s| s.wake(tasks[0], CPU, Waker::Task));
    machine.wish.moved.iter().map(|&(_, cause)| cause).collect()
}

/// `do_set_cpus_allowed`: a task leaves its queue briefly, and in 6.6 begins a new request. Unchanged CPUs do nothing.
#[test]
fn other_cpus_are_another_request() {
    for (name, anew) in [("6.6", true), ("6.12", false)] {
        let mut machine = Machine::<Eevdf>::with_cpus(name, 2);
        let tasks = machine.fork(2);
        machine.pass(MS / 2);
        let deadline = |machine: &Machine<Eevdf>| machine.entity(tasks[0]).deadline;
        let before = deadline(&machine);
        let here: CpuMask = [CPU].into_iter().collect();
        machine.asks(|s| s.set_affinity(tasks[0], Some(Arc::new(here)), CpuId(0)).unwrap());
        assert_eq!(deadline(&machine), before, "{name}: nothing is changed");
        machine.asks(|s| s.set_affinity(tasks[0], None, CpuId(0)).unwrap());
        assert_eq!(deadline(&machine) > before, anew, "{name}");
    }
}

/// CFS: the running task gets a whole new slice.
#[test]
fn other_cpus_are_another_slice() {
    let given_way = |changes: bool| {
        let mut machine = Machine::<Cfs>::with_cpus("6.1", 2);
        let tasks = machine.fork(2);
        // The other task is behind, so that only the end of the slice stops this one.
        machine.pass(4 * MS);
        assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[1]));
        for tick in 1.. {
            machine.now += 4 * MS;
            if machine.asks(|s| s.tick(CPU)) {
                return tick;
            }
            if changes && tick == 1 {
                machine.asks(|s| s.set_affinity(tasks[1], None, CpuId(0)).unwrap());
            }
        }
        unreachable!()
    };
    let (changed, left) = (given_way(true), given_way(false));
    assert!(changed > left, "{changed} {left}");
}

/// `tg_set_cfs_bandwidth` charges no task: runtime since the last update counts against the new limit.
#[test]
fn a_new_limit_is_charged_for_what_ran_before_it() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let group = machine.group;
    machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() });
    machine.schedule(PrevState::Preempted);
    machine.now += 3 * MS;
    machine.asks(|s| s.set_group_bandwidth(group, Some(Limit::new(5 * MS, 100 * MS, 0).unwrap())).unwrap());
    let mut ran = 0;
    while !machine.asks(|s| s.update_curr(CPU)) {
        machine.now += MS / 4;
        ran += 1;
    }
    assert_eq!(ran, 8, "quarters of a millisecond: 2 of the 5 ms are left");
}

/// Averages decay during a sleep in a higher class, too.
#[test]
fn averages_decay_in_a_higher_class() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let tasks = machine.fork(2);
    machine.pass(300 * MS);
    while machine.schedule(PrevState::Preempted) != Some(tasks[0]) {
        machine.pass(MS);
    }
    machine.pass(3 * MS);
    machine.schedule(PrevState::Sleeping);
    machine.pass(3 * MS);
    machine.asks(|s| s.set_scheduler(tasks[0], fifo()).unwrap());
    let before = machine.entity(tasks[0]).avg.util_avg;
    machine.pass(64 * MS);
    machine.asks(|s| s.set_scheduler(tasks[0], SchedAttr::default()).unwrap());
    machine.asks(|s| s.wake(tasks[0], CPU, Waker::Irq));
    let after = machine.entity(tasks[0]).avg.util_avg;
    assert!(before > 40 && (before / 5..before / 3).contains(&after), "{before} {after}");
}

/// Runs a group beside an equally heavy task of the root, and changes its weight slightly. Returns the group's lag
/// times its weight, before and after, and whether the next update reschedules.
fn reweighted(name: &str, ran: u64) -> (i128, i128, bool) {
    let mut machine = Machine::<Eevdf>::new(name);
    let group = machine.group;
    machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() });
    machine.schedule(PrevState::Preempted);
    machine.fork_as(&TaskAttrs::default());
    machine.pass(ran);
    let owed = |machine: &Machine<Eevdf>| {
        let all = standings(&machine.rqs[0]);
        let its = all.iter().find(|it| it.queue == GroupId::ROOT && it.running).unwrap();
        i128::from(its.lag) * i128::from(its.weight)
    };
    let before = owed(&machine);
    machine.with(|s| s.set_group_weight(group, 101).unwrap());
    let after = owed(&machine);
    machine.now += MS / 100;
    (before, after, machine.asks(|s| s.update_curr(CPU)))
}

/// 6.18's `reweight_entity` enqueues the running entity on a queue that it has not left. If it weighs as much as all
/// others, its distance from the average grows by a quarter. (Read in 6.18.15, and in a 6.18.44's instructions.) 7.1
/// keeps its place relative to the average. 6.18.15 also writes the lag over the protection's end; in 6.12 a changed
/// deadline ends the protection.
#[test]
fn in_6_18_a_change_of_weight_moves_the_running_entity_further_from_the_average() {
    for (name, times, unprotected) in
        [("6.12", 1.0, true), ("6.18", 1.25, true), ("6.18.44", 1.25, false), ("7.1", 1.0, false)]
    {
        let (before, after, asks) = reweighted(name, MS / 4);
        assert!(before < 0, "{name}: it has run");
        let found = after as f64 / before as f64;
        assert!((found - times).abs() < 0.005, "{name}: {found}");
        assert_eq!(asks, unprotected, "{name}");
    }
}

/// Another nice value protects the running task again in 6.18.15 (`set_next_entity`), and ends its protection in late
/// 6.18.
#[test]
fn protection_after_a_change_is_a_matter_of_the_release() {
    for (name, asks) in [("6.18", false), ("6.18.44", true)] {
        let mut machine = Machine::<Eevdf>::new(name);
        let tasks = machine.fork(2);
        machine.pass(MS / 4);
        machine.with(|s| s.set_nice(tasks[0], -1));
        machine.now += MS / 100;
        assert_eq!(machine.asks(|s| s.update_curr(CPU)), asks, "{name}");
    }
}

/// 6.18 lets a throttled group's task run until it returns to user mode. Then the group's next task follows at once, as
/// after a sleep (`dequeue_entities`).
#[test]
fn a_throttled_task_is_followed_by_its_groups_next_task() {
    let mut machine = Machine::<Eevdf>::new("6.18");
    let group = machine.group;
    machine.asks(|s| s.set_group_bandwidth(group, Some(Limit::new(MS, 100 * MS, 0).unwrap())).unwrap());
    let ahead = machine.fork(1)[0];
    let long = TaskAttrs { group, slice: Some(100 * MS), ..TaskAttrs::default() };
    let inside: Vec<_> = (0..2).map(|_| machine.fork_as(&long)).collect();
    machine.pass(5 * MS);
    assert!(inside.contains(&machine.schedule(PrevState::Preempted).unwrap()), "{ahead:?} has had its part");
    machine.pass(MS);
    let next = machine.schedule(PrevState::Preempted).unwrap();
    assert!(inside.contains(&next), "its group has nothing left, and is owed time all the same");
    let short = TaskAttrs { slice: Some(MS / 10), ..TaskAttrs::default() };
    machine.fork_as(&short);
    machine.pass(MS);
    machine.with(|s| s.return_to_user(CPU));
    let after = machine.schedule(PrevState::Preempted).unwrap();
    assert!(inside.contains(&after) && after != next, "{after:?} follows {next:?}");
}
