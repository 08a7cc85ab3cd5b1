//! The detector on four CPUs: two pairs, and all.

use vruntime_trace::{Event, GroupId, GroupInfo, MachineInfo, PrevState, Running, SchedPolicy, Sink, TaskInfo};

use super::*;

const MS: u64 = 1_000_000;

fn mask(cpus: std::ops::Range<u32>) -> CpuMask {
    cpus.map(CpuId).collect()
}

/// The domain of four compares the pairs, or `groups`. Without groups, only pairs exist.
fn watch(groups: Option<Vec<CpuMask>>) -> Detector {
    let pair = |first: u32| DomainInfo {
        level: "MC",
        span: mask(first..first + 2),
        members: mask(first..first + 2),
        groups: vec![mask(first..first + 1), mask(first + 1..first + 2)],
        interval_ns: 4 * MS,
    };
    let mut domains = vec![pair(0), pair(2)];
    domains.extend(groups.map(|groups| DomainInfo {
        level: "NUMA",
        span: mask(0..4),
        members: mask(0..4),
        groups,
        interval_ns: 8 * MS,
    }));
    let mut detector = Detector::new();
    detector.machine(&MachineInfo { cpus: 4, tick_ns: 4 * MS, domains: &domains, energy: None });
    for (id, name) in ["a", "b", "c"].into_iter().enumerate() {
        detector.task(TaskId(id as u32), &TaskInfo { name, class: name, ..TaskInfo::default() });
    }
    detector
}

fn pairs() -> Vec<CpuMask> {
    vec![mask(0..2), mask(2..4)]
}

fn switch(detector: &mut Detector, at: u64, cpu: u32, prev: Option<u32>, next: Option<u32>) {
    let who = |task: Option<u32>| task.map_or(Running::Idle, |task| Running::Task(TaskId(task)));
    let event = Event::Switch { prev: who(prev), prev_state: PrevState::Preempted, next: who(next) };
    detector.event(at, CpuId(cpu), &event);
}

/// Tasks a and b alternate on CPU 2 until `until`, c runs on CPU 3. CPUs 0 and 1 idle.
fn take_turns(detector: &mut Detector, until: u64) {
    for task in 0..3 {
        let target = CpuId(if task == 2 { 3 } else { 2 });
        detector.event(0, target, &Event::WakeupNew { task: TaskId(task), target });
    }
    switch(detector, 0, 3, None, Some(2));
    switch(detector, 0, 2, None, Some(0));
    for turn in 1..until / (3 * MS) {
        let (prev, next) = if turn % 2 == 1 { (0, 1) } else { (1, 0) };
        switch(detector, turn * 3 * MS, 2, Some(prev), Some(next));
    }
}

fn patterns(detected: &Detected) -> Vec<Pattern> {
    detected.violations.iter().map(|violation| violation.pattern).collect()
}

#[test]
fn turns_beside_idle_cpus_are_found_though_each_wait_is_short() {
    let mut detector = watch(Some(pairs()));
    take_turns(&mut detector, 350 * MS);
    detector.finish(350 * MS);
    let detected = detector.into_detected();
    assert_eq!((detected.window_ns, detected.windows, detected.more), (100 * MS, 3, 0));
    assert_eq!(patterns(&detected), [Pattern::GroupImbalance]);
    let violation = &detected.violations[0];
    assert_eq!((violation.from_ns, violation.until_ns), (0, 300 * MS));
    assert_eq!((violation.idle_cpu, violation.idle_cpus, violation.waiting_cpu), (0, 2, 2));
    assert_eq!((violation.idle_side.cpus.as_str(), violation.waiting_side.cpus.as_str()), ("0-1", "2-3"));
    assert!((violation.waiting_side.busy - 2.0).abs() < 1e-9 && violation.idle_side.busy.abs() < 1e-9);
    let text = violation.to_string();
    assert!(
        text.starts_with("0.000 s to 0.300 s, group imbalance: CPU 0 was idle while tasks waited on CPU 2"),
        "{text}"
    );
}

#[test]
fn what_ends_within_a_window_is_balancing_at_work() {
    let mut detector = watch(Some(pairs()));
    take_turns(&mut detector, 85 * MS);
    // The waiting task a moves to CPU 0.
    assert_eq!([0, 1].map(|task: usize| detector.tasks[task].state), [State::Waiting, State::Running]);
    let migrate =
        Event::Migrate { task: TaskId(0), from: CpuId(2), to: CpuId(0), cause: vruntime_trace::MigrateCause::NohzIdle };
    detector.event(85 * MS, CpuId(0), &migrate);
    switch(&mut detector, 85 * MS, 0, None, Some(0));
    detector.finish(1000 * MS);
    assert_eq!(detector.into_detected().violations, []);
}

#[test]
fn tasks_that_may_not_run_on_the_idle_cpu_are_nobodys_fault() {
    let mut detector = watch(Some(pairs()));
    for task in 0..2 {
        detector.affinity(0, TaskId(task), Some(&mask(2..4)));
    }
    take_turns(&mut detector, 350 * MS);
    detector.finish(350 * MS);
    assert_eq!(detector.into_detected().violations, []);
}

/// They were pinned, so balancing waits for 512 ms. Tasks that wait for three more windows are reported.
#[test]
fn tasks_that_may_leave_their_cpu_from_now_on_are_not_seen_at_once() {
    let found = |until: u64| {
        let mut detector = watch(Some(pairs()));
        for task in 0..2 {
            detector.affinity(0, TaskId(task), Some(&mask(2..4)));
        }
        for task in 0..2 {
            detector.affinity(1, TaskId(task), None);
        }
        take_turns(&mut detector, until);
        detector.finish(until);
        detector.into_detected().violations.len()
    };
    assert_eq!((found(800 * MS), found(950 * MS)), (0, 1));
}

#[test]
fn one_group_for_both_cpus_is_a_matter_of_construction() {
    let mut detector = watch(Some(vec![mask(0..3), mask(1..4)]));
    take_turns(&mut detector, 350 * MS);
    detector.finish(350 * MS);
    assert_eq!(patterns(&detector.into_detected()), [Pattern::GroupConstruction]);
}

#[test]
fn cpus_without_a_domain_in_common_are_reported_as_such() {
    let mut detector = watch(None);
    take_turns(&mut detector, 350 * MS);
    detector.finish(350 * MS);
    let detected = detector.into_detected();
    assert_eq!(patterns(&detected), [Pattern::MissingDomains]);
    assert_eq!((detected.violations[0].level.as_deref(), detected.violations[0].domain.as_deref()), (None, None));
}

#[test]
fn what_one_window_shows_is_not_enough() {
    let mut detector = watch(Some(pairs()));
    take_turns(&mut detector, 100 * MS);
    detector.event(100 * MS, CpuId(2), &Event::Exit { task: TaskId(0) });
    let event =
        Event::Switch { prev: Running::Task(TaskId(0)), prev_state: PrevState::Dead, next: Running::Task(TaskId(1)) };
    detector.event(100 * MS, CpuId(2), &event);
    detector.finish(1000 * MS);
    assert_eq!(detector.into_detected().violations, []);
}

#[test]
fn an_imbalance_that_was_seen_is_none_of_the_four() {
    let mut detector = watch(Some(pairs()));
    take_turns(&mut detector, 50 * MS);
    let kind = vruntime_trace::BalanceKind::Idle;
    let found = Event::Balance { kind, level: 1, busiest: Some(CpuId(2)), pulled: 0, balanced: false };
    for at in [60 * MS, 160 * MS, 260 * MS] {
        detector.event(at, CpuId(1), &found);
    }
    detector.finish(300 * MS);
    assert_eq!(patterns(&detector.into_detected()), [Pattern::Other]);
}

#[test]
fn tasks_woken_onto_a_busy_cpu_are_distinguished() {
    let mut detector = watch(Some(pairs()));
    detector.event(0, CpuId(2), &Event::WakeupNew { task: TaskId(0), target: CpuId(2) });
    switch(&mut detector, 0, 2, None, Some(0));
    for turn in 0..50 {
        // b is woken on a's CPU, waits 6 ms, runs for no time, and sleeps 0.1 ms.
        let at = turn * 6 * MS;
        detector.event(at + MS / 10, CpuId(2), &Event::Wakeup { task: TaskId(1), target: CpuId(2) });
        switch(&mut detector, at + 6 * MS, 2, Some(0), Some(1));
        let sleeps = Event::Switch {
            prev: Running::Task(TaskId(1)),
            prev_state: PrevState::Sleeping,
            next: Running::Task(TaskId(0)),
        };
        detector.event(at + 6 * MS, CpuId(2), &sleeps);
    }
    detector.finish(300 * MS);
    assert_eq!(patterns(&detector.into_detected()), [Pattern::OverloadOnWakeup]);
}

/// Every 10 ms, b wakes up on CPU 2, where a runs, and runs for 9 ms, so a waits beside idle CPUs. The pattern is
/// `sched_idle_cpu` only if a is SCHED_IDLE, b is not, and b was woken on CPU 2.
#[test]
fn sched_idle_tasks_that_wakeups_preempt_are_a_pattern() {
    let found = |policies: [SchedPolicy; 2], woken: bool, reset: bool| {
        let mut detector = watch(Some(pairs()));
        for (id, policy) in (0..).zip(policies) {
            detector.task(TaskId(id), &TaskInfo { name: "x", class: "x", policy, ..TaskInfo::default() });
        }
        detector.event(0, CpuId(2), &Event::WakeupNew { task: TaskId(0), target: CpuId(2) });
        switch(&mut detector, 0, 2, None, Some(0));
        if reset {
            let policy = Event::SetPolicy { task: TaskId(0), policy: SchedPolicy::Normal, rt_priority: 0 };
            detector.event(0, CpuId(2), &policy);
        }
        for turn in 0..30 {
            let at = turn * 10 * MS;
            let target = CpuId(if woken { 2 } else { 3 });
            detector.event(at, target, &Event::Wakeup { task: TaskId(1), target });
            if !woken {
                let cause = vruntime_trace::MigrateCause::NohzIdle;
                detector.event(at, CpuId(2), &Event::Migrate { task: TaskId(1), from: target, to: CpuId(2), cause });
            }
            switch(&mut detector, at, 2, Some(0), Some(1));
            let sleeps = Event::Switch {
                prev: Running::Task(TaskId(1)),
                prev_state: PrevState::Sleeping,
                next: Running::Task(TaskId(0)),
            };
            detector.event(at + 9 * MS, CpuId(2), &sleeps);
        }
        detector.finish(300 * MS);
        patterns(&detector.into_detected())
    };
    let (idle, normal) = (SchedPolicy::Idle, SchedPolicy::Normal);
    assert_eq!(found([idle, normal], true, false), [Pattern::SchedIdleCpu]);
    assert_eq!(found([idle, normal], false, false), [Pattern::GroupImbalance], "b was moved to CPU 2");
    assert_eq!(found([idle, idle], true, false), [Pattern::GroupImbalance]);
    assert_eq!(found([normal, normal], true, false), [Pattern::GroupImbalance]);
    assert_eq!(found([idle, normal], true, true), [Pattern::GroupImbalance], "a is no longer SCHED_IDLE");
}

/// Every 10 ms, b wakes up on CPU 2, where a runs. Then a, preempted, waits on CPU 3 for 9 ms, or b, preempted by a.
/// That is `sched_idle_cpu` if a is SCHED_IDLE.
#[test]
fn waits_that_follow_from_such_a_wakeup_are_of_its_pattern() {
    let found = |policy: SchedPolicy, moved: bool| {
        let mut detector = watch(Some(pairs()));
        detector.task(TaskId(0), &TaskInfo { name: "a", class: "a", policy, ..TaskInfo::default() });
        let wakes = |task: u32, cpu: u32| Event::Wakeup { task: TaskId(task), target: CpuId(cpu) };
        detector.event(0, CpuId(2), &Event::WakeupNew { task: TaskId(0), target: CpuId(2) });
        switch(&mut detector, 0, 2, None, Some(0));
        detector.event(0, CpuId(3), &Event::WakeupNew { task: TaskId(2), target: CpuId(3) });
        switch(&mut detector, 0, 3, None, Some(2));
        for turn in 0..30 {
            let at = turn * 10 * MS;
            detector.event(at, CpuId(2), &wakes(1, 2));
            switch(&mut detector, at, 2, Some(0), Some(1));
            let mut moves = |at: u64, from: u32, to: u32| {
                let (from, to) = (CpuId(from), CpuId(to));
                let cause = vruntime_trace::MigrateCause::NohzIdle;
                detector.event(at, to, &Event::Migrate { task: TaskId(0), from, to, cause });
            };
            if moved {
                moves(at, 2, 3);
                moves(at + 9 * MS, 3, 2);
            } else {
                switch(&mut detector, at, 2, Some(1), Some(0));
                switch(&mut detector, at + 9 * MS, 2, Some(0), Some(1));
            }
            let (prev, next) = (Running::Task(TaskId(1)), Running::Task(TaskId(0)));
            detector.event(at + 9 * MS, CpuId(2), &Event::Switch { prev, prev_state: PrevState::Sleeping, next });
        }
        detector.finish(300 * MS);
        patterns(&detector.into_detected())
    };
    assert_eq!(found(SchedPolicy::Idle, true), [Pattern::SchedIdleCpu]);
    assert_eq!(found(SchedPolicy::Idle, false), [Pattern::SchedIdleCpu]);
    assert_eq!(found(SchedPolicy::Normal, true), [Pattern::GroupImbalance]);
    assert_eq!(found(SchedPolicy::Normal, false), [Pattern::OverloadOnWakeup]);
}

/// A task wakes up on CPU 2 and preempts a, which then waits on CPU 3 and takes turns with c there, for many windows.
/// Both are SCHED_IDLE, so their waits follow from that wakeup.
#[test]
fn displaced_tasks_that_share_another_cpu_are_of_its_pattern() {
    let found = |policies: [SchedPolicy; 2], displaced: bool| {
        let mut detector = watch(Some(pairs()));
        for (id, policy) in [0, 2].into_iter().zip(policies) {
            detector.task(TaskId(id), &TaskInfo { name: "x", class: "x", policy, ..TaskInfo::default() });
        }
        for (task, cpu) in [(0, 2), (2, 3)] {
            detector.event(0, CpuId(cpu), &Event::WakeupNew { task: TaskId(task), target: CpuId(cpu) });
            switch(&mut detector, 0, cpu, None, Some(task));
        }
        let by = if displaced { 1 } else { 3 };
        let target = CpuId(2);
        let wakes = if displaced {
            Event::Wakeup { task: TaskId(by), target }
        } else {
            Event::WakeupNew { task: TaskId(by), target }
        };
        detector.event(0, target, &wakes);
        switch(&mut detector, 0, 2, Some(0), Some(by));
        let cause = vruntime_trace::MigrateCause::NohzIdle;
        detector.event(0, CpuId(3), &Event::Migrate { task: TaskId(0), from: CpuId(2), to: CpuId(3), cause });
        for turn in 0..100 {
            let [from, to] = if turn % 2 == 0 { [2, 0] } else { [0, 2] };
            switch(&mut detector, (turn + 1) * 10 * MS, 3, Some(from), Some(to));
        }
        detector.finish(1000 * MS);
        patterns(&detector.into_detected())
    };
    let (idle, normal) = (SchedPolicy::Idle, SchedPolicy::Normal);
    assert_eq!(found([idle, idle], true), [Pattern::SchedIdleCpu]);
    assert_eq!(found([idle, idle], false), [Pattern::GroupImbalance], "a new task, and no wakeup");
    assert_eq!(found([normal, idle], true), [Pattern::GroupImbalance]);
    assert_eq!(found([idle, normal], true), [Pattern::GroupImbalance]);
}

/// Every CPU is idle half the time, and has two tasks otherwise, so it never idles beside waiting tasks.
#[test]
fn a_cpu_is_not_idle_beside_its_own_tasks() {
    let mut detector = watch(Some(pairs()));
    for id in 3..8 {
        detector.task(TaskId(id), &TaskInfo { name: "x", class: "x", ..TaskInfo::default() });
    }
    let sleeps = |detector: &mut Detector, at: u64, cpu: u32, prev: u32, next: Running| {
        let prev = Running::Task(TaskId(prev));
        detector.event(at, CpuId(cpu), &Event::Switch { prev, prev_state: PrevState::Sleeping, next });
    };
    for half in 0..12 {
        let (at, first) = (half * 50 * MS, if half % 2 == 0 { 0 } else { 2 });
        for cpu in first..first + 2 {
            let tasks = [2 * cpu, 2 * cpu + 1];
            for task in tasks.map(TaskId) {
                detector.event(at, CpuId(cpu), &Event::Wakeup { task, target: CpuId(cpu) });
            }
            switch(&mut detector, at, cpu, None, Some(tasks[0]));
        }
        for cpu in first..first + 2 {
            let (one, other) = (2 * cpu, 2 * cpu + 1);
            sleeps(&mut detector, at + 50 * MS, cpu, one, Running::Task(TaskId(other)));
            sleeps(&mut detector, at + 50 * MS, cpu, other, Running::Idle);
        }
    }
    detector.finish(600 * MS);
    let violations = detector.into_detected().violations;
    assert!(!violations.is_empty());
    for violation in violations {
        assert_ne!(violation.idle_cpu, violation.waiting_cpu, "{violation}");
    }
}

#[test]
fn cpus_are_listed_as_the_kernel_lists_them() {
    let cpus: CpuMask = [0, 1, 2, 5, 8, 9].into_iter().map(CpuId).collect();
    assert_eq!(cpu_list(&cpus), "0-2,5,8-9");
}

/// A throttled task is no violation. Without the limit it is.
#[test]
fn a_task_that_waits_for_a_limit_does_not_count() {
    for limited in [true, false] {
        let mut detector = watch(Some(pairs()));
        let group = GroupId(1);
        detector.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
        detector
            .group(group, &GroupInfo { path: "/g", parent: Some(GroupId::ROOT), weight: 100, ..GroupInfo::default() });
        detector.event(0, CpuId(2), &Event::MoveGroup { task: TaskId(1), group });
        if limited {
            detector.event(0, CpuId(2), &Event::Throttle { group });
        }
        for (task, cpu) in [(0, 2), (1, 2), (2, 3)] {
            detector.event(0, CpuId(cpu), &Event::WakeupNew { task: TaskId(task), target: CpuId(cpu) });
        }
        switch(&mut detector, 0, 2, None, Some(0));
        switch(&mut detector, 0, 3, None, Some(2));
        detector.finish(400 * MS);
        let detected = detector.clone().into_detected();
        assert_eq!(detected.violations.len(), usize::from(!limited));
        detector.event(400 * MS, CpuId(2), &Event::Unthrottle { group, ns: 400 * MS });
        detector.finish(800 * MS);
        assert_eq!(detector.into_detected().violations.len(), 1);
    }
}

#[test]
fn what_gets_less_is_no_violation() {
    let mut detector = watch(Some(pairs()));
    for task in 0..3 {
        detector.event(0, CpuId(2), &Event::WakeupNew { task: TaskId(task), target: CpuId(2) });
    }
    switch(&mut detector, 0, 2, None, Some(0));
    // Two wait, then one, for three windows, then none.
    for (at, task, to) in [(150, 1, 0), (280, 2, 1)] {
        let migrate = Event::Migrate {
            task: TaskId(task),
            from: CpuId(2),
            to: CpuId(to),
            cause: vruntime_trace::MigrateCause::NohzIdle,
        };
        detector.event(at * MS, CpuId(to), &migrate);
        switch(&mut detector, at * MS, to, None, Some(task));
    }
    detector.finish(900 * MS);
    let detected = detector.into_detected();
    assert_eq!(detected.violations, []);
    assert!((detected.wasted_cpus - 2.0).abs() < 1e-9, "{}", detected.wasted_cpus);
}

/// Neither an offline CPU is idle, nor one where a task was just woken.
#[test]
fn cpus_that_no_task_can_use_are_not_wasted() {
    let mut detector = watch(Some(pairs()));
    for cpu in 0..2 {
        detector.event(0, CpuId(cpu), &Event::CpuDown);
    }
    take_turns(&mut detector, 400 * MS);
    detector.finish(400 * MS);
    let detected = detector.into_detected();
    assert_eq!((detected.violations.len(), detected.wasted_cpus), (0, 0.0));
}

/// Idle CPUs in another root domain, or isolated, are not wasted. Those that a partition returned are.
#[test]
fn root_domains_waste_nothing_of_each_other() {
    let found = |roots: &[CpuMask], isolated: CpuMask| {
        let mut detector = watch(None);
        detector.root_domains(0, roots, &isolated);
        take_turns(&mut detector, 1000 * MS);
        detector.finish(1000 * MS);
        patterns(&detector.into_detected())
    };
    assert_eq!(found(&[mask(0..4)], CpuMask::new()), [Pattern::MissingDomains]);
    assert_eq!(found(&[mask(0..2), mask(2..4)], CpuMask::new()), []);
    assert_eq!(found(&[mask(2..4)], mask(0..2)), []);
    let mut detector = watch(None);
    detector.root_domains(0, &[mask(0..2), mask(2..4)], &CpuMask::new());
    take_turns(&mut detector, 1000 * MS);
    detector.root_domains(1000 * MS, &[mask(0..4)], &CpuMask::new());
    for turn in 334..700 {
        let (prev, next) = if turn % 2 == 1 { (0, 1) } else { (1, 0) };
        switch(&mut detector, turn * 3 * MS, 2, Some(prev), Some(next));
    }
    detector.finish(2100 * MS);
    assert_eq!(patterns(&detector.into_detected()), [Pattern::MissingDomains]);
}
