//! Event streams with known results.

use super::*;
use crate::results::{self, Account, Results};
use proptest::prelude::*;

mod accounts;

const CPU0: CpuId = CpuId(0);
const CPU1: CpuId = CpuId(1);
const IDLE: Running = Running::Idle;

fn task(collector: &mut Collector, id: u32, name: &str, class: &str, group: u32) -> Running {
    collector.task(TaskId(id), &TaskInfo { name, class, group: GroupId(group), ..TaskInfo::default() });
    Running::Task(TaskId(id))
}

fn fork(collector: &mut Collector, at: u64, cpu: CpuId, id: u32) {
    collector.event(at, cpu, &Event::Fork { parent: None, child: TaskId(id) });
    collector.event(at, cpu, &Event::WakeupNew { task: TaskId(id), target: cpu });
}

fn switch(collector: &mut Collector, at: u64, cpu: CpuId, prev: Running, prev_state: PrevState, next: Running) {
    collector.event(at, cpu, &Event::Switch { prev, prev_state, next });
}

fn wakeup(collector: &mut Collector, at: u64, cpu: CpuId, id: u32) {
    collector.event(at, cpu, &Event::Waking { task: TaskId(id), irq: false });
    collector.event(at, cpu, &Event::Wakeup { task: TaskId(id), target: cpu });
}

/// Two tasks on a CPU: `a` is preempted and sleeps once, `b` yields and exits.
fn two_tasks() -> Results {
    let mut c = Collector::new(1);
    let a = task(&mut c, 0, "a", "a", 0);
    let b = task(&mut c, 1, "b", "b", 0);
    fork(&mut c, 0, CPU0, 0);
    fork(&mut c, 0, CPU0, 1);
    switch(&mut c, 10, CPU0, IDLE, PrevState::Preempted, a);
    switch(&mut c, 110, CPU0, a, PrevState::Preempted, b);
    switch(&mut c, 160, CPU0, b, PrevState::Yielded, a);
    switch(&mut c, 200, CPU0, a, PrevState::Sleeping, b);
    wakeup(&mut c, 300, CPU0, 0);
    c.event(330, CPU0, &Event::Exit { task: TaskId(1) });
    switch(&mut c, 333, CPU0, b, PrevState::Dead, a);
    c.event(340, CPU0, &Event::SleepReturn { task: TaskId(0), late: 45 });
    c.event(350, CPU0, &Event::LoopEnd { task: TaskId(0), duration: 340, work: 100 });
    switch(&mut c, 400, CPU0, a, PrevState::Blocked, IDLE);
    c.finish(1000);
    c.into_results()
}

#[test]
fn times_and_counts_are_exact() {
    let results = two_tasks();
    assert_eq!(
        results.tasks[0].account,
        Account {
            cpu_ns: 100 + 40 + 67,
            system_ns: 0,
            run_delay_ns: 10 + 50 + 33,
            sleeping_ns: 100 + 600,
            life_ns: 1000,
            voluntary: 2,
            involuntary: 1,
            migrations: 0,
            loops: 1,
            loop_work_ns: 100,
            idle_waits: results::IdleWaits::default(),
            deadline: None,
            unmeasured: results::Unmeasured::default(),
        }
    );
    let b = results.tasks[1].account;
    assert_eq!((b.cpu_ns, b.run_delay_ns, b.sleeping_ns, b.life_ns), (50 + 133, 110 + 40, 0, 333));
    // As in the kernel, a yield that gives way is involuntary, and exiting is voluntary.
    assert_eq!((b.voluntary, b.involuntary), (1, 1));
    assert_eq!(results.account.life_ns, 1333);
}

#[test]
fn only_a_wakeup_makes_a_wakeup_latency() {
    let results = two_tasks();
    let latency = results.tasks[0].wakeup_latency.unwrap();
    assert_eq!((latency.count, latency.p50_ns, latency.max_ns), (1, 33, 33));
    assert_eq!(results.tasks[0].sleep_return.unwrap().max_ns, 45);
    assert_eq!(results.tasks[0].loop_duration.unwrap().count, 1);
    assert_eq!(results.tasks[1].wakeup_latency, None);
    assert_eq!(results.wakeup_latency.unwrap().count, 1);
}

#[test]
fn a_task_woken_before_it_left_the_cpu_runs_on() {
    let mut c = Collector::new(1);
    let a = task(&mut c, 0, "a", "a", 0);
    fork(&mut c, 0, CPU0, 0);
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, a);
    wakeup(&mut c, 50, CPU0, 0);
    c.finish(100);
    let results = c.into_results();
    assert_eq!(results.tasks[0].account.cpu_ns, 100);
    assert_eq!(results.tasks[0].wakeup_latency, None);
}

#[test]
fn overhead_is_taken_from_the_time_that_follows() {
    let mut c = Collector::new(2);
    let a = task(&mut c, 0, "a", "a", 0);
    // A timer interrupt of 30 on an idle CPU wakes `a`, whose switch costs 20.
    c.event(100, CPU0, &Event::Overhead { kind: OverheadKind::Timer, ns: 30 });
    fork(&mut c, 100, CPU0, 0);
    switch(&mut c, 130, CPU0, IDLE, PrevState::Preempted, a);
    c.event(130, CPU0, &Event::Overhead { kind: OverheadKind::Switch, ns: 20 });
    // Overhead beyond the run's end does not count.
    c.event(995, CPU0, &Event::Overhead { kind: OverheadKind::Tick, ns: 9 });
    c.finish(1000);
    let results = c.into_results();
    let cpu = results.cpus[0];
    assert_eq!((cpu.idle_ns, cpu.overhead_ns, cpu.busy_ns), (100, 30 + 20 + 5, 845));
    assert_eq!(results.tasks[0].account.cpu_ns, 870, "overhead is charged to the running task");
    assert_eq!(results.cpus[1].idle_ns, 1000);
    assert_eq!(results.machine().idle_ns, 1100);
}

#[test]
fn migrations_are_counted_by_cause_and_fork_is_none() {
    let mut c = Collector::new(2);
    task(&mut c, 0, "w-0", "w", 0);
    task(&mut c, 1, "w-1", "w", 0);
    for (id, cause) in
        [(0, MigrateCause::Fork), (0, MigrateCause::Wakeup), (1, MigrateCause::NewIdle), (1, MigrateCause::NewIdle)]
    {
        c.event(5, CPU0, &Event::Migrate { task: TaskId(id), from: CPU0, to: CPU1, cause });
    }
    let results = c.into_results();
    assert_eq!((results.tasks[0].account.migrations, results.tasks[1].account.migrations), (1, 2));
    assert_eq!(results.classes.len(), 1);
    let class = &results.classes[0];
    assert_eq!((class.tasks, class.account.migrations), (2, 3));
    assert_eq!(class.migrations.get(MigrateCause::Fork), 1);
    assert_eq!(class.migrations.get(MigrateCause::NewIdle), 2);
    assert_eq!(results.migrations, class.migrations);
}

#[test]
fn balancing_is_counted_where_it_was_done() {
    let mut c = Collector::new(2);
    for (kind, pulled) in [(BalanceKind::Busy, 0), (BalanceKind::NewIdle, 2), (BalanceKind::NewIdle, 0)] {
        c.event(1, CPU1, &Event::Balance { kind, level: 0, busiest: None, pulled, balanced: pulled == 0 });
    }
    let results = c.into_results();
    assert_eq!(results.cpus[1].balance(BalanceKind::NewIdle), BalanceCount { attempts: 2, pulls: 1, tasks: 2 });
    assert_eq!(results.cpus[1].balance_total(), BalanceCount { attempts: 3, pulls: 1, tasks: 2 });
    assert_eq!(results.cpus[0].balance_total(), BalanceCount::default());
}

fn groups(c: &mut Collector) {
    for (id, path, parent, weight) in
        [(0, "/", None, 100), (1, "/a", Some(0), 200), (2, "/b", Some(0), 100), (3, "/b/x", Some(2), 300)]
    {
        c.group(GroupId(id), &GroupInfo { path, parent: parent.map(GroupId), weight, ..GroupInfo::default() });
    }
}

#[test]
fn policies_and_priorities() {
    let run = |changes: &[Event]| {
        let mut c = Collector::new(1);
        for id in 0..4 {
            task(&mut c, id, &format!("w-{id}"), "w", 0);
            fork(&mut c, 0, CPU0, id);
        }
        for event in changes {
            c.event(1, CPU0, event);
        }
        c.finish(100);
        c.into_results()
    };
    assert!(!crate::results_table(&run(&[])).contains("policy"));
    let set = |id, policy, rt_priority| Event::SetPolicy { task: TaskId(id), policy, rt_priority };
    let results = run(&[
        set(0, SchedPolicy::Fifo, 30),
        set(1, SchedPolicy::Deadline, 0),
        Event::SetNice { task: TaskId(2), nice: -5 },
    ]);
    let table = crate::results_table(&results);
    let policies: Vec<Vec<&str>> =
        table.lines().filter(|line| line.contains("SCHED")).map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        ["w", "SCHED_DEADLINE", "-1", "-", "0"],
        ["w", "SCHED_FIFO", "69", "30", "0"],
        ["w", "SCHED_OTHER", "115", "-", "-5"],
        ["w", "SCHED_OTHER", "120", "-", "0"],
    ];
    assert_eq!(policies, expected);
    let json = crate::observed_json(&results, 1, 0);
    let of = |name: &str| {
        let task = &json["tasks"][name];
        (task["policy"].clone(), task["prio"].clone(), task["nice"].clone(), task.get("rt_priority").cloned())
    };
    assert_eq!(of("w-0"), ("SCHED_FIFO".into(), 69.into(), 0.into(), Some(30.into())));
    assert_eq!(of("w-1"), ("SCHED_DEADLINE".into(), (-1).into(), 0.into(), None));
    assert_eq!(of("w-2"), ("SCHED_OTHER".into(), 115.into(), (-5).into(), None));
}

/// An autogroup's nice value decides its weight: 3121 to 1024.
#[test]
fn autogroups_are_entitled_by_their_nice_value() {
    let mut c = Collector::new(1);
    for (id, path, nice) in [(0, "/", None), (1, "/autogroup-a", Some(-5)), (2, "/autogroup-b", Some(0))] {
        let parent = (id > 0).then_some(GroupId::ROOT);
        c.group(GroupId(id), &GroupInfo { path, parent, weight: 100, nice, ..GroupInfo::default() });
    }
    let a = task(&mut c, 0, "a", "a", 1);
    let b = task(&mut c, 1, "b", "b", 2);
    for id in 0..2 {
        fork(&mut c, 0, CPU0, id);
    }
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, b);
    switch(&mut c, 4000, CPU0, b, PrevState::Preempted, a);
    c.finish(8000);
    let results = c.into_results();
    let entitled = results.groups[1].entitled_ns;
    assert!(entitled.abs_diff(8000 * 3121 / 4145) <= 20, "{entitled}");
    assert_eq!(results.groups.iter().map(|group| group.weight).collect::<Vec<u32>>(), [100, 305, 100]);
    let json = crate::observed_json(&results, 1, 0);
    assert_eq!((&json["groups"]["/autogroup-a"]["nice"], json["groups"]["/"].get("nice")), (&(-5).into(), None));
}

/// Steal time is neither user nor system time. Tasks are charged for it. Overhead continues when the CPU is back.
#[test]
fn stolen_time_has_its_own_account() {
    let mut c = Collector::new(1);
    let a = task(&mut c, 0, "a", "a", 0);
    fork(&mut c, 0, CPU0, 0);
    // Woken while idle, it gets no CPU for 50 ns.
    c.stolen(100, CPU0, true);
    c.stolen(150, CPU0, false);
    switch(&mut c, 150, CPU0, IDLE, PrevState::Preempted, a);
    overhead(&mut c, 150, CPU0, OverheadKind::Switch, 20);
    // 10 of the 20 precede the steal time.
    c.stolen(160, CPU0, true);
    overhead(&mut c, 200, CPU0, OverheadKind::Timer, 5);
    c.stolen(260, CPU0, false);
    switch(&mut c, 400, CPU0, a, PrevState::Sleeping, IDLE);
    c.stolen(950, CPU0, true);
    c.finish(1000);
    let results = c.into_results();
    let cpu = results.cpus[0];
    let expected = crate::CpuTimes {
        user: 250 - 100 - 25,
        system: 20,
        irq: 5,
        idle: 100 + 550,
        steal: 50 + 100 + 50,
        ..cpu.times
    };
    assert_eq!(cpu.times, expected);
    assert_eq!(cpu.times.iter().map(|(_, ns)| ns).sum::<u64>(), 1000);
    assert_eq!((cpu.busy_ns, cpu.overhead_ns, cpu.idle_ns), (225, 25, 750));
    assert_eq!(results.tasks[0].account.cpu_ns, 250);
}

/// A real-time task takes what it wants, whatever its group's weight. Others divide the rest.
#[test]
fn real_time_tasks_are_entitled_to_what_they_took() {
    let mut c = Collector::new(1);
    groups(&mut c);
    let a = task(&mut c, 0, "a", "a", 1);
    let b = task(&mut c, 1, "b", "b", 2);
    let x = task(&mut c, 2, "x", "x", 3);
    c.event(0, CPU0, &Event::SetPolicy { task: TaskId(1), policy: SchedPolicy::Fifo, rt_priority: 50 });
    for id in 0..3 {
        fork(&mut c, 0, CPU0, id);
    }
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, b);
    switch(&mut c, 300, CPU0, b, PrevState::Sleeping, a);
    switch(&mut c, 900, CPU0, a, PrevState::Preempted, x);
    c.finish(1200);
    let results = c.into_results();
    assert_eq!((results.tasks[1].policy, results.tasks[1].rt_priority), (SchedPolicy::Fifo, 50));
    let entitled: Vec<u64> = results.groups.iter().map(|group| group.entitled_ns).collect();
    // 900 are left: /a : /b = 2 : 1, and /b/x has all of /b's part.
    assert_eq!(entitled, [1200, 600, 300 + 300, 300]);
}

#[test]
fn groups_sum_up_the_tree_and_are_entitled_down_it() {
    let mut c = Collector::new(1);
    groups(&mut c);
    let a = task(&mut c, 0, "a", "a", 1);
    let b = task(&mut c, 1, "b", "b", 2);
    let x = task(&mut c, 2, "x", "x", 3);
    for id in 0..3 {
        fork(&mut c, 0, CPU0, id);
    }
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, a);
    switch(&mut c, 600, CPU0, a, PrevState::Preempted, b);
    switch(&mut c, 800, CPU0, b, PrevState::Preempted, x);
    c.finish(1200);
    let results = c.into_results();
    let cpu: Vec<u64> = results.groups.iter().map(|group| group.cpu_ns).collect();
    assert_eq!(cpu, [1200, 600, 600, 400]);
    let entitled: Vec<u64> = results.groups.iter().map(|group| group.entitled_ns).collect();
    // /a : /b = 2 : 1 of 1200; in /b the task (100) : /b/x (300) = 1 : 3.
    assert_eq!(entitled, [1200, 800, 400, 300]);
    let switches: Vec<u64> = results.groups.iter().map(|group| group.switches).collect();
    assert_eq!(switches, [2, 1, 1, 0]);
    let tasks: Vec<usize> = results.groups.iter().map(|group| group.tasks).collect();
    assert_eq!(tasks, [3, 1, 2, 1]);
    assert_eq!(results.groups[2].run_delay_ns, 600 + 400 + 800);
}

#[test]
fn time_stays_with_the_group_it_was_spent_in() {
    let mut c = Collector::new(1);
    groups(&mut c);
    let a = task(&mut c, 0, "a", "a", 1);
    fork(&mut c, 0, CPU0, 0);
    switch(&mut c, 10, CPU0, IDLE, PrevState::Preempted, a);
    c.event(100, CPU0, &Event::MoveGroup { task: TaskId(0), group: GroupId(3) });
    c.finish(150);
    let results = c.into_results();
    let cpu: Vec<u64> = results.groups.iter().map(|group| group.cpu_ns).collect();
    assert_eq!(cpu, [140, 90, 50, 50]);
    assert_eq!(results.tasks[0].group, 3);
}

#[test]
fn beyond_the_detailed_tasks_times_go_to_the_class() {
    let mut c = Collector::new(1);
    let last = DETAILED_TASKS as u32;
    for id in 0..=last {
        task(&mut c, id, &format!("w-{id}"), "w", 0);
    }
    for id in [last - 1, last] {
        c.event(5, CPU0, &Event::SleepReturn { task: TaskId(id), late: u64::from(id) });
    }
    let results = c.into_results();
    assert!(results.tasks[DETAILED_TASKS - 1].sleep_return.is_some());
    assert!(results.tasks[DETAILED_TASKS].sleep_return.is_none());
    let class = results.classes[0].sleep_return.unwrap();
    assert_eq!((class.count, class.max_ns), (2, u64::from(last)));
}

#[test]
fn a_stream_cut_at_its_beginning_is_understood() {
    let mut c = Collector::new(1);
    // Task 3 is unannounced, and ran before the first event.
    switch(&mut c, 100, CPU1, Running::Task(TaskId(3)), PrevState::Sleeping, IDLE);
    c.event(150, CPU1, &Event::MoveGroup { task: TaskId(0), group: GroupId(4) });
    c.finish(200);
    let results = c.into_results();
    assert_eq!(results.tasks.len(), 4);
    assert_eq!(results.tasks[3].name, "task-3");
    let account = results.tasks[3].account;
    assert_eq!((account.cpu_ns, account.sleeping_ns, account.life_ns), (100, 100, 200));
    assert_eq!((results.cpus[1].busy_ns, results.cpus[1].idle_ns), (100, 100));
    assert_eq!(results.groups.len(), 5);
}

#[test]
fn a_sleeping_task_that_runs_is_noticed() {
    assert_eq!(two_tasks().unexplained, 0);
    let mut c = Collector::new(1);
    let a = task(&mut c, 0, "a", "a", 0);
    fork(&mut c, 0, CPU0, 0);
    switch(&mut c, 1, CPU0, IDLE, PrevState::Preempted, a);
    switch(&mut c, 2, CPU0, a, PrevState::Sleeping, IDLE);
    switch(&mut c, 3, CPU0, IDLE, PrevState::Preempted, a);
    switch(&mut c, 4, CPU0, a, PrevState::Dead, IDLE);
    switch(&mut c, 5, CPU0, IDLE, PrevState::Preempted, a);
    assert_eq!(c.into_results().unexplained, 2);
}

#[test]
fn tables_of_a_small_run() {
    let text = crate::results_table(&two_tasks());
    assert!(text.lines().all(|line| line.chars().count() <= usize::from(crate::WIDTH)), "{text}");
    insta::assert_snapshot!(text);
}

/// A class may be called like the row of totals.
#[test]
fn the_row_of_all_tasks_is_distinguished_from_a_class_called_all() {
    let rows = |names: &[&str]| -> Vec<String> {
        let mut c = Collector::new(1);
        for (id, name) in (0..).zip(names) {
            let running = task(&mut c, id, name, name, 0);
            fork(&mut c, 0, CPU0, id);
            switch(&mut c, 10, CPU0, IDLE, PrevState::Preempted, running);
            switch(&mut c, 20, CPU0, running, PrevState::Sleeping, IDLE);
        }
        c.finish(1000);
        let text = crate::results_table(&c.into_results());
        let table = text.split("\n\n").next().unwrap_or_default();
        // At least two blanks follow the name.
        table.lines().skip(2).map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(rows(&["a", "b"]), ["a", "b", "all"]);
    assert_eq!(rows(&["all", "b"]), ["all", "b", "all tasks"]);
    assert_eq!(rows(&["all tasks", "all"]), ["all tasks", "all", "all tasks (2)"]);
}

/// The balance interval is that of the waiting task's CPU, not of one where its group is throttled.
#[test]
fn a_wait_ends_where_it_was_when_a_limit_holds_the_task_back_elsewhere() {
    const MS: u64 = 1_000_000;
    let pair = |cpus: std::ops::Range<u32>, ms: u64| vruntime_trace::DomainInfo {
        span: cpus.clone().map(CpuId).collect(),
        members: cpus.map(CpuId).collect(),
        interval_ns: ms * MS,
        ..vruntime_trace::DomainInfo::default()
    };
    let run = |limited: bool| {
        let mut c = Collector::new(4);
        // With a tick more: 4 ms within a pair, 8 between them.
        c.machine(&MachineInfo {
            cpus: 4,
            tick_ns: MS,
            domains: &[pair(0..2, 3), pair(2..4, 3), pair(0..4, 7)],
            energy: None,
        });
        groups(&mut c);
        let hogs = [0, 1, 2].map(|id| task(&mut c, id, "hog", "hog", 0));
        task(&mut c, 3, "waiter", "waiter", 1);
        for (cpu, hog) in hogs.into_iter().enumerate() {
            switch(&mut c, 0, CpuId(cpu as u32), IDLE, PrevState::Preempted, hog);
        }
        if limited {
            c.event(0, CpuId(2), &Event::Throttle { group: GroupId(1) });
        }
        fork(&mut c, 0, CPU1, 3);
        // CPU 3 idles. At 6 ms a task on CPU 2 has waited too long, and a task on CPU 1 has not.
        let cause = MigrateCause::Affinity;
        c.event(6 * MS, CpuId(2), &Event::Migrate { task: TaskId(3), from: CPU1, to: CpuId(2), cause });
        switch(&mut c, 6 * MS, CpuId(2), hogs[2], PrevState::Sleeping, Running::Task(TaskId(3)));
        c.finish(7 * MS);
        c.into_results().tasks[3].account.idle_waits.total_ns
    };
    assert_eq!(run(false), 2 * MS, "it went on waiting on CPU 2");
    assert_eq!(run(true), 0);
}

#[test]
fn a_limit_of_a_group_is_booked_as_in_cpu_stat() {
    let mut c = Collector::new(2);
    c.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    c.group(
        GroupId(1),
        &GroupInfo {
            path: "/q",
            parent: Some(GroupId::ROOT),
            weight: 100,
            max: Some((5_000, 10_000)),
            ..GroupInfo::default()
        },
    );
    let group = GroupId(1);
    let period = |periods, throttled, burst| Event::BandwidthPeriod { group, periods, throttled, burst };
    c.event(10, CPU0, &Event::Throttle { group });
    c.event(12, CPU1, &Event::Throttle { group });
    c.event(100, CPU0, &period(1, true, 0));
    c.event(100, CPU0, &Event::Unthrottle { group, ns: 90 });
    c.event(150, CPU1, &Event::Unthrottle { group, ns: 138 });
    c.event(200, CPU0, &period(2, false, 7_000));
    c.event(300, CPU0, &period(3, true, 0));
    c.finish(1000);
    let results = c.into_results();
    let max = Some((5_000, 10_000));
    let expected =
        LimitResult { max, nr_periods: 6, nr_throttled: 4, throttled_ns: 228, nr_bursts: 1, burst_ns: 7_000 };
    assert_eq!((results.groups[0].limit, results.groups[1].limit), (None, Some(expected)));
    let json = crate::observed_json(&results, 1, 0);
    let group = &json["groups"]["/q"];
    assert_eq!(
        (&group["nr_periods"], &group["nr_throttled"], &group["burst_ns"]),
        (&6.into(), &4.into(), &7000.into())
    );
    assert!(json["groups"]["/"].get("nr_periods").is_none());
    let text = crate::results_table(&results);
    let row = text.lines().skip_while(|line| !line.starts_with("limited group")).nth(2).unwrap();
    assert_eq!((&group["quota_ns"], &group["period_ns"]), (&5000.into(), &10_000.into()));
    assert!(
        row.starts_with("/q")
            && row.contains("50.00")
            && row.contains("66.67")
            && text.lines().all(|l| l.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn json_of_a_small_run() {
    let json = crate::observed_json(&two_tasks(), 1, 0xabc);
    // Sorted, since another crate may make serde_json keep the order of insertion.
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!(json) });
}

proptest! {
    /// Every nanosecond of every task and CPU is in one account.
    #[test]
    fn time_is_conserved(steps in prop::collection::vec((0_u64..1000, 0_u32..3, 0_u32..5, 0_u8..9), 0..200)) {
        let mut c = Collector::new(3);
        let mut now = 0;
        let mut current = [IDLE; 3];
        for (passed, cpu, id, what) in steps {
            now += passed;
            let task = TaskId(id);
            let here = CpuId(cpu);
            match what {
                0 => c.event(now, here, &Event::Fork { parent: None, child: task }),
                1 => c.event(now, here, &Event::Wakeup { task, target: here }),
                2 => c.event(now, here, &Event::Overhead { kind: OverheadKind::Tick, ns: passed }),
                3 => c.event(now, here, &Event::MoveGroup { task, group: GroupId(id) }),
                4 => c.event(now, here, &Event::Exit { task }),
                5 | 6 => {
                    let prev_state = if what == 5 { PrevState::Preempted } else { PrevState::Sleeping };
                    let prev = std::mem::replace(&mut current[cpu as usize], IDLE);
                    switch(&mut c, now, here, prev, prev_state, IDLE);
                }
                _ if current.contains(&Running::Task(task)) => {}
                _ => {
                    let prev = std::mem::replace(&mut current[cpu as usize], Running::Task(task));
                    switch(&mut c, now, here, prev, PrevState::Preempted, Running::Task(task));
                }
            }
        }
        c.finish(now + 7);
        let results = c.into_results();
        for task in &results.tasks {
            let account = task.account;
            prop_assert_eq!(account.cpu_ns + account.run_delay_ns + account.sleeping_ns, account.life_ns);
        }
        for cpu in &results.cpus {
            prop_assert_eq!(cpu.busy_ns + cpu.overhead_ns + cpu.idle_ns, now + 7);
        }
        if let Some(root) = results.groups.first() {
            prop_assert_eq!(root.cpu_ns, results.account.cpu_ns);
        }
    }
}

#[test]
fn no_group_is_entitled_to_more_than_its_limit() {
    let mut c = Collector::new(1);
    c.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    let limited = GroupInfo {
        path: "/q",
        parent: Some(GroupId::ROOT),
        weight: 300,
        max: Some((20, 100)),
        ..GroupInfo::default()
    };
    c.group(GroupId(1), &limited);
    c.group(GroupId(2), &GroupInfo { path: "/o", parent: Some(GroupId::ROOT), weight: 100, ..GroupInfo::default() });
    let q = task(&mut c, 0, "q", "q", 1);
    let o = task(&mut c, 1, "o", "o", 2);
    fork(&mut c, 0, CPU0, 0);
    fork(&mut c, 0, CPU0, 1);
    switch(&mut c, 0, CPU0, IDLE, PrevState::Preempted, q);
    switch(&mut c, 200, CPU0, q, PrevState::Preempted, o);
    c.finish(1000);
    let entitled: Vec<u64> = c.into_results().groups.iter().map(|group| group.entitled_ns).collect();
    assert_eq!(entitled, [1000, 200, 800]);
}

fn overhead(c: &mut Collector, at: u64, cpu: CpuId, kind: OverheadKind, ns: u64) {
    c.event(at, cpu, &Event::Overhead { kind, ns });
}

/// A CPU's time has the names of `/proc/stat`. An interrupted task has the interrupt in its system time.
#[test]
fn cpu_time_in_the_words_of_proc_stat() {
    let mut c = Collector::new(2);
    c.group(GroupId(0), &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    c.group(GroupId(1), &GroupInfo { path: "/g", parent: Some(GroupId(0)), weight: 100, ..GroupInfo::default() });
    let a = task(&mut c, 0, "a", "a", 1);
    let niced = TaskInfo { name: "b", class: "b", nice: 5, ..TaskInfo::default() };
    c.task(TaskId(1), &niced);
    let b = Running::Task(TaskId(1));
    // CPU 0 is idle for 100 ns, 10 of them in a timer's interrupt.
    overhead(&mut c, 50, CPU0, OverheadKind::Timer, 10);
    fork(&mut c, 100, CPU0, 0);
    switch(&mut c, 100, CPU0, IDLE, PrevState::Preempted, a);
    overhead(&mut c, 100, CPU0, OverheadKind::Switch, 20);
    // A tick that balances.
    overhead(&mut c, 200, CPU0, OverheadKind::Tick, 5);
    let balance = Event::Balance { kind: BalanceKind::Busy, level: 0, busiest: Some(CPU1), pulled: 0, balanced: false };
    c.event(200, CPU0, &balance);
    overhead(&mut c, 200, CPU0, OverheadKind::Tick, 7);
    overhead(&mut c, 300, CPU0, OverheadKind::Migration, 30);
    overhead(&mut c, 350, CPU0, OverheadKind::Syscall, 3);
    // It waits 600 ns for a device, 200 of them idle.
    fork(&mut c, 350, CPU0, 1);
    switch(&mut c, 400, CPU0, a, PrevState::Blocked, b);
    overhead(&mut c, 500, CPU0, OverheadKind::Ipi, 2);
    switch(&mut c, 600, CPU0, b, PrevState::Sleeping, Running::Stopper);
    switch(&mut c, 640, CPU0, Running::Stopper, PrevState::Sleeping, IDLE);
    wakeup(&mut c, 1000, CPU1, 0);
    c.event(1000, CPU0, &Event::Exit { task: TaskId(0) });
    // The run ends 4 ns into a tick of 10.
    overhead(&mut c, 1996, CPU0, OverheadKind::Tick, 10);
    c.finish(2000);
    let results = c.into_results();
    let times = results.cpus[0].times;
    assert_eq!(
        times,
        crate::CpuTimes {
            user: (300 - 20 - 5 - 7 - 3),
            nice: 200 - 2,
            system: 20 + 3 + 40,
            idle: 90 + 1000 - 4,
            iowait: 360,
            irq: 10 + 5 + 2 + 4,
            softirq: 7,
            steal: 0,
        }
    );
    assert_eq!(times.iter().map(|(_, ns)| ns).sum::<u64>(), results.elapsed_ns);
    assert_eq!(results.cpus[1].times.idle, 2000);
    assert_eq!((results.tasks[0].account.cpu_ns, results.tasks[0].account.system_ns), (300, 35));
    assert_eq!((results.tasks[1].account.cpu_ns, results.tasks[1].account.system_ns), (200, 2));
    let groups: Vec<_> = results.groups.iter().map(|group| (group.cpu_ns, group.system_ns)).collect();
    assert_eq!(groups, [(500, 37), (300, 35)]);
    let json = crate::observed_json(&results, 0, 0);
    assert_eq!(
        json["groups"]["/g"]["cpu.stat"],
        serde_json::json!({"usage_usec": 0, "user_usec": 0, "system_usec": 0})
    );
    assert_eq!(json["cpus"][0]["stat_ns"]["softirq"], 7);
}
