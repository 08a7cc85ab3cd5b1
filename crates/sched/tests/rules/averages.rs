//! When averages are updated.

use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::event::PrevState;
use vruntime_sched::policy::{Debugged, Policy};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{SchedAttr, SchedPolicy, TaskAttrs, Waker};

use crate::bench::{CPU, MS, Machine};

/// A put group updates its part of the load at the next tick (`UPDATE_TG`).
#[test]
fn a_group_is_not_updated_when_its_task_gives_way() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let group = machine.group;
    let [task, _other] = [group, vruntime_sched::ids::GroupId::ROOT].map(|group| {
        machine.with(|s| {
            let task = s.new_task(&TaskAttrs { group, ..TaskAttrs::default() }, CPU);
            s.wake_new(task, CPU);
            task
        })
    });
    let load = |machine: &Machine<Eevdf>| {
        let queues = Eevdf::debug(&machine.rqs[0], &machine.shared);
        let queue = queues.into_iter().find(|queue| queue.group == group).unwrap();
        (queue.tg_load_avg_contrib, queue.avg.load_avg)
    };
    while machine.schedule(PrevState::Preempted) != Some(task) {
        machine.pass(MS);
    }
    machine.schedule(PrevState::Sleeping);
    machine.pass(100 * MS);
    let _balance = machine.with(|s| s.tick(CPU));
    machine.with(|s| s.wake(task, CPU, Waker::Task));
    while machine.schedule(PrevState::Preempted) != Some(task) {
        machine.pass(MS);
    }
    let (group_load, before) = load(&machine);
    machine.now += 6 * MS;
    assert_ne!(machine.schedule(PrevState::Preempted), Some(task));
    let (after, now) = load(&machine);
    assert!(after == group_load && now > before + before / 16, "{group_load} {after}, {before} {now}");
    let _balance = machine.with(|s| s.tick(CPU));
    let mut still = load(&machine);
    for _ in 0..3 {
        machine.pass(4 * MS);
        let _balance = machine.with(|s| s.tick(CPU));
        machine.schedule(PrevState::Preempted);
        still = load(&machine);
    }
    assert!(still.0 > group_load, "{still:?}");
}

/// The dequeue before the put updates it.
#[test]
fn a_group_is_updated_when_its_running_task_is_changed() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let group = machine.group;
    let task = machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() });
    machine.schedule(PrevState::Preempted);
    let load = |machine: &Machine<Eevdf>| {
        let queues = Eevdf::debug(&machine.rqs[0], &machine.shared);
        let queue = queues.into_iter().find(|queue| queue.group == group).unwrap();
        (queue.tg_load_avg_contrib, queue.avg.load_avg)
    };
    machine.schedule(PrevState::Sleeping);
    machine.pass(100 * MS);
    machine.with(|s| s.wake(task, CPU, Waker::Task));
    machine.schedule(PrevState::Preempted);
    let (group_load, _) = load(&machine);
    machine.now += 6 * MS;
    machine.with(|s| s.set_uclamp(task, Some(100), None).unwrap());
    let (after, now) = load(&machine);
    assert!(after > group_load + group_load / 16 && after == now, "{group_load} {after} {now}");
}

/// Frequent sleeps within 1024 us give one sample (`UTIL_AVG_UNCHANGED`).
#[test]
fn an_estimate_takes_one_sample_a_period() {
    let mut machine = Machine::<Eevdf>::new("6.12");
    let task = machine.fork(1)[0];
    let estimate = |machine: &Machine<Eevdf>| machine.entity(task).avg.util_est;
    machine.pass(300 * MS);
    machine.schedule(PrevState::Sleeping);
    let high = estimate(&machine);
    // After a long sleep it uses little; its estimate follows by a quarter.
    machine.now += 200 * MS;
    let mut estimates = vec![];
    for pause in [10_000, 10_000, 10_000, 4 * MS] {
        machine.now += pause;
        machine.with(|s| s.wake(task, CPU, Waker::Irq));
        machine.schedule(PrevState::Preempted);
        machine.pass(10_000);
        machine.schedule(PrevState::Sleeping);
        estimates.push(estimate(&machine));
    }
    assert!(
        estimates[0] < high && estimates[1] == estimates[0] && estimates[2] == estimates[0],
        "{high} {estimates:?}"
    );
    assert!(estimates[3] < estimates[0], "{estimates:?}");
}

/// `switched_to_fair`: a sleeping task that returns from a real-time policy adds its decayed averages at once. They
/// decay on its CPU.
#[test]
fn a_task_that_returns_asleep_is_added_at_once() {
    fn run<P: Policy<Tunables = Knobs>>(name: &str) {
        let mut machine = Machine::<P>::new(name);
        let task = machine.fork(1)[0];
        let set = |machine: &mut Machine<P>, policy| {
            let attr = SchedAttr { policy, rt_priority: 1, ..SchedAttr::default() };
            machine.asks(|s| s.set_scheduler(task, attr).unwrap());
        };
        let util = |machine: &Machine<P>| P::Debugging::debug(&machine.rqs[0], &machine.shared)[0].avg.util_avg;
        machine.pass(300 * MS);
        set(&mut machine, SchedPolicy::Fifo);
        machine.schedule(PrevState::Preempted);
        machine.schedule(PrevState::Sleeping);
        machine.pass(32 * MS);
        let _balance = machine.with(|s| s.tick(CPU));
        assert_eq!(util(&machine), 0, "{name}");
        set(&mut machine, SchedPolicy::Normal);
        let back = util(&machine);
        assert!((450..550).contains(&back), "{name}: {back}");
        assert_eq!(machine.entity(task).avg.util_avg, back, "{name}");
        machine.pass(32 * MS);
        let _balance = machine.with(|s| s.tick(CPU));
        machine.with(|s| s.wake(task, CPU, Waker::Task));
        let woken = util(&machine);
        assert!((200..300).contains(&woken) && machine.entity(task).avg.util_avg == woken, "{name}: {woken}");
    }
    run::<Cfs>("6.1");
    run::<Eevdf>("6.12");
}

/// A group's entity copies its queue's runnable sum at joins and leaves. 6.18's copy has 32 bits, and so loses most of
/// a hundred tasks for a while.
#[test]
fn a_groups_entity_forgets_most_of_a_hundred_tasks_in_6_18() {
    for (name, all) in [("6.12", true), ("6.18", false)] {
        let mut machine = Machine::<Eevdf>::new(name);
        let group = machine.group;
        let tasks: Vec<_> = (0..100).map(|_| machine.fork_as(&TaskAttrs { group, ..TaskAttrs::default() })).collect();
        machine.schedule(PrevState::Preempted);
        machine.pass(400 * MS);
        let runnable = |machine: &mut Machine<Eevdf>| {
            let _balance = machine.with(|s| s.tick(CPU));
            let queues = Eevdf::debug(&machine.rqs[0], &machine.shared);
            queues.into_iter().find(|queue| queue.group == group).unwrap().se.unwrap().avg.runnable_avg
        };
        let before = runnable(&mut machine);
        assert!(before > 100 * 1000, "{name}: {before}");
        let attr = SchedAttr { policy: SchedPolicy::Fifo, rt_priority: 1, ..SchedAttr::default() };
        machine.asks(|s| s.set_scheduler(tasks[99], attr).unwrap());
        machine.schedule(PrevState::Preempted);
        machine.pass(2 * MS);
        machine.schedule(PrevState::Sleeping);
        let after = runnable(&mut machine);
        assert_eq!(after > 95 * 1000, all, "{name}: {after}");
    }
}
