//! Accounts that are easily confused.

use super::*;
use crate::results::{DeadlineCount, IdleWaits};

/// Only positive nice values make `nice` time.
#[test]
fn nice_time_is_of_the_nice() {
    let mut c = Collector::new(1);
    c.task(TaskId(0), &TaskInfo { name: "a", class: "a", nice: -5, ..TaskInfo::default() });
    let a = Running::Task(TaskId(0));
    fork(&mut c, 0, CPU0, 0);
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, a);
    for (at, nice) in [(100, 5), (300, -3), (350, 0)] {
        c.event(at, CPU0, &Event::SetNice { task: TaskId(0), nice });
    }
    c.finish(400);
    let times = c.into_results().cpus[0].times;
    assert_eq!((times.user, times.nice), (100 + 100, 200));
}

/// A tick is softirq time if it balances, but not after an earlier, free balancing.
#[test]
fn a_search_that_costs_nothing_makes_no_softirq_of_the_next_tick() {
    let mut c = Collector::new(1);
    c.event(
        100,
        CPU0,
        &Event::Balance { kind: BalanceKind::Idle, level: 0, busiest: Some(CPU1), pulled: 0, balanced: false },
    );
    overhead(&mut c, 200, CPU0, OverheadKind::Tick, 5);
    c.finish(300);
    let times = c.into_results().cpus[0].times;
    assert_eq!((times.irq, times.softirq), (5, 0));
}

#[test]
fn no_task_has_more_system_time_than_cpu_time() {
    let mut c = Collector::new(1);
    groups(&mut c);
    let a = task(&mut c, 0, "a", "a", 3);
    fork(&mut c, 995, CPU0, 0);
    switch(&mut c, 995, CPU0, IDLE, PrevState::Preempted, a);
    overhead(&mut c, 995, CPU0, OverheadKind::Switch, 9);
    c.finish(1000);
    let results = c.into_results();
    assert_eq!((results.tasks[0].account.cpu_ns, results.tasks[0].account.system_ns), (5, 5));
    assert!(results.groups.iter().all(|group| group.system_ns == group.cpu_ns), "{:?}", results.groups);
}

/// Task and class keep the maximum in any order.
#[test]
fn the_latest_deadline_and_the_worst_wait_are_kept() {
    let mut c = Collector::new(1);
    for (id, lates) in [(0, &[20, 30, 10][..]), (1, &[5])] {
        task(&mut c, id, &format!("d-{id}"), "d", 0);
        for &late in lates {
            c.event(5, CPU0, &Event::Deadline { task: TaskId(id), what: DeadlineEvent::Miss { late } });
        }
    }
    let results = c.into_results();
    let misses = |misses, max_late_ns| Some(DeadlineCount { misses, max_late_ns, ..DeadlineCount::default() });
    assert_eq!([0, 1].map(|task: usize| results.tasks[task].account.deadline), [misses(3, 30), misses(1, 5)]);
    assert_eq!((results.classes[0].account.deadline, results.account.deadline), (misses(4, 30), misses(4, 30)));
    let wait = |count, total_ns, worst_ns| Account {
        idle_waits: IdleWaits { count, total_ns, worst_ns },
        ..Account::default()
    };
    let mut sum = Account::default();
    for other in [wait(2, 7, 4), wait(1, 6, 6), wait(3, 9, 5)] {
        sum.add(&other);
    }
    assert_eq!(sum, wait(6, 22, 6));
}

#[test]
fn the_work_of_all_loops_is_summed_and_may_be_forgotten() {
    let mut c = Collector::new(1);
    task(&mut c, 0, "a", "a", 0);
    for (at, work) in [(10, 7), (20, 8)] {
        c.event(at, CPU0, &Event::LoopEnd { task: TaskId(0), duration: 10, work });
    }
    let mut results = c.into_results();
    let loops = |account: &Account| (account.loops, account.loop_work_ns);
    assert_eq!([&results.tasks[0].account, &results.classes[0].account].map(loops), [(2, 15); 2]);
    results.forget_loops();
    assert_eq!([&results.tasks[0].account, &results.classes[0].account].map(loops), [(0, 0); 2]);
    assert_eq!((results.tasks[0].loop_duration, results.classes[0].loop_duration), (None, None));
}

/// The root group's throttling is a CPU's. A group's limit is the group's.
#[test]
fn a_cpu_is_throttled_with_the_root_group() {
    let mut c = Collector::new(2);
    groups(&mut c);
    for (at, cpu, group, throttled) in
        [(100, CPU0, 1, true), (130, CPU0, 1, false), (200, CPU1, 0, true), (250, CPU1, 0, false), (990, CPU0, 0, true)]
    {
        let group = GroupId(group);
        let event = if throttled { Event::RtThrottle { group } } else { Event::RtUnthrottle { group } };
        c.event(at, cpu, &event);
    }
    c.finish(1000);
    let results = c.into_results();
    assert_eq!([0, 1].map(|cpu: usize| results.cpus[cpu].rt_throttled_ns), [10, 50]);
    assert_eq!(results.machine().rt_throttled_ns, 60);
    let of = |group: usize| (results.groups[group].nr_rt_throttled, results.groups[group].rt_throttled_ns);
    assert_eq!([of(0), of(1)], [(2, 60), (1, 30)]);
}

/// Beside a group of weight 100, SCHED_IDLE is entitled to 3 of 1027 parts.
#[test]
fn an_idle_task_is_entitled_to_little() {
    let mut c = Collector::new(1);
    groups(&mut c);
    let idle = task(&mut c, 0, "i", "i", 0);
    let b = task(&mut c, 1, "b", "b", 2);
    c.event(0, CPU0, &Event::SetPolicy { task: TaskId(0), policy: SchedPolicy::Idle, rt_priority: 0 });
    for id in 0..2 {
        fork(&mut c, 0, CPU0, id);
    }
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, idle);
    switch(&mut c, 600, CPU0, idle, PrevState::Preempted, b);
    c.finish(1200);
    assert_eq!(c.into_results().groups[2].entitled_ns, 1200 * 1024 / 1027);
}

#[test]
fn a_task_picked_again_does_not_switch() {
    let mut c = Collector::new(1);
    let a = task(&mut c, 0, "a", "a", 0);
    fork(&mut c, 0, CPU0, 0);
    switch(&mut c, 10, CPU0, IDLE, PrevState::Preempted, a);
    switch(&mut c, 60, CPU0, a, PrevState::Preempted, a);
    c.finish(100);
    let results = c.into_results();
    assert_eq!((results.cpus[0].switches, results.tasks[0].account.switches(), results.groups[0].switches), (1, 0, 0));
    assert_eq!(results.tasks[0].account.cpu_ns, 90);
}
