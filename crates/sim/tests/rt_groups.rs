//! Real-time group scheduling (CONFIG_RT_GROUP_SCHED): each group's time, to the tick, and refusals.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::*;
use vruntime_report::{Collector, Results};
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sim::{Config, Error};
use vruntime_trace::{Sink, TaskInfo};
use vruntime_workload::program::*;

const FAIR: Policy = Policy::Other { nice: 0, slice: None };
const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];

fn hog(name: &str, policy: Policy, group: usize) -> Task {
    let mut task = task(name, vec![phase(vec![Op::Run { work: MS }], Repeat::Forever)]);
    task.settings = Settings { policy: Some(policy), group: Some(group), ..Settings::default() };
    task
}

const fn fifo(priority: u8) -> Policy {
    Policy::Fifo { priority }
}

/// Runtime and period, milliseconds.
#[expect(clippy::unnecessary_wraps, reason = "as a group has it")]
fn rt(runtime: u64, period: u64) -> Option<RtBandwidth> {
    Some(RtBandwidth { runtime: Some(RtRuntime::Limited(runtime * MS)), period: Some(period * MS) })
}

fn group(path: &str, parent: usize, rt: Option<RtBandwidth>) -> Group {
    let (path, parent) = (path.to_owned(), Some(parent));
    Group { path, parent, rt, ..Group::default() }
}

fn grouped(tasks: Vec<Task>, groups: Vec<Group>) -> Workload {
    let mut workload = workload(tasks);
    workload.groups.extend(groups);
    workload
}

fn lasting(kernel: &str, machine: &str, ms: u64) -> Config {
    Config { duration: Some(ms * MS), ..exact(kernel, machine) }
}

/// Turns in milliseconds.
#[derive(Default)]
struct Turns {
    running: BTreeMap<CpuId, (u64, TaskId)>,
    turns: Vec<(u64, u64, u32)>,
}

impl Sink for Turns {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let Event::Switch { next, .. } = *event else { return };
        if let Some((since, task)) = self.running.remove(&cpu)
            && at > since
        {
            self.turns.push((since / MS, at / MS, task.0));
        }
        if let Running::Task(task) = next {
            self.running.insert(cpu, (at, task));
        }
    }
}

fn turns(workload: &Workload, config: &Config) -> Vec<(u64, u64, u32)> {
    let mut turns = Turns::default();
    simulate(workload, config, &mut turns).unwrap();
    turns.turns
}

fn results(workload: &Workload, config: &Config) -> Results {
    let mut collector = Collector::new(config.machine.topology.nr_cpus());
    simulate(workload, config, &mut collector).unwrap();
    collector.into_results()
}

/// 20 ms of each 100: the tick notices 4 ms late, which every later period pays for.
#[test]
fn a_group_has_its_runtime_of_each_period() {
    for kernel in KERNELS {
        let tasks = || vec![hog("rt", fifo(50), 1), hog("fair", FAIR, 0)];
        let workload = grouped(tasks(), vec![group("/g", 0, rt(20, 100))]);
        let turns = turns(&workload, &lasting(kernel, "1", 390));
        let expected =
            [(0, 24, 0), (24, 100, 1), (100, 120, 0), (120, 200, 1), (200, 220, 0), (220, 300, 1), (300, 320, 0)];
        assert_eq!(turns, expected, "{kernel}");
        // Alone on its CPU it still waits.
        let alone = grouped(vec![hog("rt", fifo(50), 1)], vec![group("/g", 0, rt(20, 100))]);
        let found = results(&alone, &lasting(kernel, "1", 1000));
        assert_eq!(found.tasks[0].account.cpu_ns, 204 * MS, "{kernel}");
        assert_eq!(found.account.idle_waits.count, 0);
    }
}

/// A group's time counts for its ancestors: of 30 ms in `/a` the more urgent `/a/b` has its 20, `/a/c` the rest.
#[test]
fn limits_nest() {
    let groups = vec![group("/a", 0, rt(30, 100)), group("/a/b", 1, rt(20, 100)), group("/a/c", 1, rt(10, 100))];
    for kernel in KERNELS {
        let tasks = vec![hog("b", fifo(50), 2), hog("a", fifo(40), 1), hog("fair", FAIR, 0)];
        let turns = turns(&grouped(tasks, groups.clone()), &lasting(kernel, "1", 290));
        // `/a/b` runs 4 ms too long at first; `/a` has used up its 30 ms at 32, and pays 2 of them back.
        let expected = [(0, 24, 0), (24, 32, 1), (32, 100, 2), (100, 120, 0), (120, 132, 1), (132, 200, 2)];
        assert_eq!(turns[..6], expected, "{kernel}");
    }
}

/// A group's priority is that of its most urgent task that may run.
#[test]
fn priorities_count_across_groups() {
    let groups = vec![group("/a", 0, rt(300, 1000)), group("/b", 0, rt(300, 1000)), group("/b/c", 2, rt(200, 1000))];
    let job = |name: &str, priority, group| {
        let mut task = once(name, vec![Op::Run { work: 10 * MS }]);
        task.settings = Settings { policy: Some(fifo(priority)), group: Some(group), ..Settings::default() };
        task
    };
    for kernel in KERNELS {
        let tasks = vec![job("a", 20, 1), job("b", 10, 2), job("c", 30, 3), job("root", 25, 0)];
        let order: Vec<u32> =
            turns(&grouped(tasks, groups.clone()), &lasting(kernel, "1", 200)).iter().map(|turn| turn.2).collect();
        assert_eq!(order, [2, 3, 0, 1], "{kernel}");
    }
}

#[test]
fn groups_take_turns() {
    let groups = vec![group("/a", 0, rt(450, 1000)), group("/b", 0, rt(450, 1000))];
    let rr = Policy::RoundRobin { priority: 5 };
    let mut config = lasting("6.12", "1", 401);
    config.kernel.set("sched_rr_timeslice_ms", 40).unwrap();
    let turns = turns(&grouped(vec![hog("a", rr, 1), hog("b", rr, 2)], groups), &config);
    let expected: Vec<(u64, u64, u32)> = (0..10).map(|turn| (turn * 40, turn * 40 + 40, turn as u32 % 2)).collect();
    assert_eq!(turns, expected);
}

/// From 6.12 on, only kernels without groups leave the machine's limit to the fair server.
#[test]
fn the_machines_limit_is_the_roots() {
    for kernel in KERNELS {
        let share = |groups: bool| {
            let mut config = lasting(kernel, "1", 4000);
            config.kernel.set("sched_rt_runtime_us", 500_000).unwrap();
            config.kernel.rt_group_sched = groups;
            let workload = workload(vec![hog("rt", fifo(50), 0), hog("fair", FAIR, 0)]);
            let mut sinks = (Collector::new(1), Log::default());
            simulate(&workload, &config, &mut sinks).unwrap();
            let root = |_, event| matches!(event, Event::RtThrottle { group: GroupId::ROOT }).then_some(());
            (sinks.0.into_results().tasks[1].account.cpu_ns / MS, sinks.1.pick(root).len())
        };
        // 500 ms, and a tick in the first period.
        assert_eq!(share(true), (1996, 4), "{kernel}");
        let without = if matches!(kernel, "6.1" | "6.6") { (1996, 4) } else { (200, 0) };
        assert_eq!(share(false), without, "{kernel}");
    }
}

/// A lent priority lets a task of a throttled group run until its unlock.
#[test]
fn the_owner_of_a_contended_mutex_runs_in_a_throttled_group() {
    let groups = || vec![group("/g", 0, rt(10, 100))];
    let settings =
        |priority, group| Settings { policy: Some(fifo(priority)), group: Some(group), ..Settings::default() };
    for (mutex, expected) in [(2, 49), (0, 207)] {
        let mut holder = once("holder", vec![Op::Lock(mutex), Op::Run { work: 30 * MS }, Op::Unlock(mutex)]);
        holder.settings = settings(10, 1);
        let mut waiter =
            once("waiter", vec![Op::Sleep { time: 30 * MS }, Op::Lock(mutex), Op::Run { work: MS }, Op::Unlock(mutex)]);
        waiter.settings = settings(20, 0);
        let tasks = vec![holder, waiter, hog("fair", FAIR, 0)];
        let mut log = Log::default();
        simulate(&grouped(tasks, groups()), &lasting("6.6", "1", 500), &mut log).unwrap();
        let done = log.pick(|at, event| matches!(event, Event::Exit { task: TaskId(1) }).then_some(at / MS));
        // The group is throttled at 12 ms. With the lent priority at 30 ms, the holder does its other 18 ms at once.
        // Otherwise it has 12 ms from 100 on (it owes 2, so the tick after 8 finds only its 10 used) and the other 6
        // from 200 on. The waiter then needs 1 ms.
        assert_eq!(done, [expected], "mutex {mutex}");
    }
}

fn fails(workload: &Workload, config: &Config) -> String {
    let error = simulate(workload, config, &mut Log::default()).unwrap_err();
    error.help().map_or_else(|| error.to_string(), |help| format!("{error}; {help}"))
}

#[test]
fn what_does_not_fit_is_refused_with_the_arithmetic() {
    let config = lasting("6.6", "2", 100);
    let run = |groups: Vec<Group>| fails(&grouped(vec![hog("t", FAIR, 0)], groups), &config);
    let text = run(vec![group("/a", 0, rt(400, 1000)), group("/a/b", 1, rt(30, 100)), group("/a/c", 1, rt(15, 100))]);
    assert_eq!(
        text,
        "`rt_runtime` of group `/a/c`: in group `/a`: its child groups would have 45.00 % in total, but it has 400000 of 1000000 us = 40.00 \
         % (EINVAL); raise its runtime, or lower theirs"
    );
    let text = run(vec![group("/a", 0, rt(96, 100))]);
    assert!(text.contains("96000 of 100000 us = 96.00 % is more than the machine's limit of 950000 of"), "{text}");
    let text = run(vec![group("/a", 0, rt(10, 100)), group("/a/b", 1, rt(0, 100)), group("/c", 0, rt(10, 5))]);
    assert!(text.contains("group `/c`: a runtime of 10000 us does not fit a period of 5000 us"), "{text}");
    let unlimited = Some(RtBandwidth { runtime: Some(RtRuntime::Unlimited), period: None });
    let text = run(vec![group("/a", 0, unlimited)]);
    assert!(text.contains("no limit is more than the machine's"), "{text}");
}

#[test]
fn a_group_without_runtime_has_no_real_time_tasks() {
    let config = lasting("6.12", "2", 100);
    let groups = || vec![group("/a", 0, rt(10, 100)), group("/b", 0, None)];
    let text = fails(&grouped(vec![hog("t", fifo(1), 2)], groups()), &config);
    assert!(
        text.starts_with("task `t`: group `/b` may have no real-time tasks (EPERM), for its `rt_runtime` is 0; write"),
        "{text}"
    );
    // A task that becomes real-time there, one that moves there, and one that does both where it may.
    let late = |settings| {
        let mut task = hog("t", FAIR, 2);
        let then = Phase { settings, ..phase(vec![Op::Run { work: MS }], Repeat::Forever) };
        task.phases = vec![phase(vec![Op::Run { work: 5 * MS }], Repeat::Times(1)), then].into();
        grouped(vec![task], groups())
    };
    let text = fails(&late(Settings { policy: Some(fifo(1)), ..Settings::default() }), &config);
    assert!(text.starts_with("task `t` at 5.000 ms: group `/b` may"), "{text}");
    let both = late(Settings { policy: Some(fifo(1)), group: Some(1), ..Settings::default() });
    simulate(&both, &config, &mut Log::default()).unwrap();
    let mut moves = hog("t", fifo(1), 1);
    moves.phases = vec![
        phase(vec![Op::Run { work: 5 * MS }], Repeat::Times(1)),
        Phase {
            settings: Settings { group: Some(2), ..Settings::default() },
            ..phase(vec![Op::Run { work: MS }], Repeat::Forever)
        },
    ]
    .into();
    let text = fails(&grouped(vec![moves], groups()), &config);
    assert!(text.starts_with("task `t` at 5.000 ms: group `/b` may"), "{text}");
    // Without the limit, or without groups, all is allowed.
    let mut unlimited = lasting("6.12", "2", 100);
    unlimited.kernel.set("sched_rt_runtime_us", 2_000_000).unwrap();
    simulate(&grouped(vec![hog("t", fifo(1), 2)], groups()), &unlimited, &mut Log::default()).unwrap();
    simulate(&grouped(vec![hog("t", fifo(1), 1)], vec![group("/b", 0, None)]), &config, &mut Log::default()).unwrap();
}

/// An autogroup's real-time tasks belong to the root.
#[test]
fn autogroups_have_no_limit_of_their_own() {
    let mut config = lasting("6.6", "1", 500);
    config.autogroup = true;
    let turns = turns(&grouped(vec![hog("t", fifo(1), 0)], vec![group("/a", 0, rt(10, 100))]), &config);
    assert_eq!(turns, [], "it runs until the end");
}

/// A changed limit applies from the next period; it may not become 0 while a real-time task needs it.
#[test]
fn limits_change_at_run_time() {
    let change = |at, rt| Change {
        at: at * MS,
        what: Changed::Group { group: 1, to: GroupChange { rt, ..GroupChange::default() } },
    };
    for kernel in ["6.1", "6.18"] {
        let tasks = || vec![hog("rt", fifo(50), 1), hog("fair", FAIR, 0)];
        let groups = || vec![group("/g", 0, rt(20, 100))];
        let workload = Workload { changes: vec![change(150, rt(40, 100))], ..grouped(tasks(), groups()) };
        let found = turns(&workload, &lasting(kernel, "1", 450));
        let of_rt: Vec<(u64, u64)> = found.iter().filter(|turn| turn.2 == 0).map(|turn| (turn.0, turn.1)).collect();
        // Owed: 24 - 20 at 100; nothing at 200 (24 - 40).
        assert_eq!(of_rt, [(0, 24), (100, 120), (200, 244), (300, 340), (400, 440)], "{kernel}");
        let workload = Workload { changes: vec![change(150, rt(0, 100))], ..grouped(tasks(), groups()) };
        let text = fails(&workload, &lasting(kernel, "1", 450));
        assert!(text.starts_with("`rt_runtime` of group `/g` at 150.000 ms: it has real-time tasks"), "{text}");
        assert!(matches!(
            simulate(&workload, &lasting(kernel, "1", 450), &mut Log::default()),
            Err(Error::BadRtLimit { .. })
        ));
    }
}

#[test]
fn leaving_a_throttled_group_is_the_end_of_waiting() {
    let groups = vec![group("/g", 0, rt(10, 100)), group("/h", 0, rt(50, 100))];
    let what =
        Changed::Tasks { tasks: vec![0], settings: Settings { group: Some(2), ..Settings::default() }, nice: None };
    let workload =
        Workload { changes: vec![Change { at: 60 * MS, what }], ..grouped(vec![hog("t", fifo(9), 1)], groups) };
    let turns = turns(&workload, &lasting("6.6", "1", 150));
    assert_eq!(turns[..2], [(0, 12, 0), (60, 112, 0)]);
}

/// A period timer that fired in vain keeps its time: a task that returns before gets the rest of a period first.
#[test]
fn a_timer_that_stopped_keeps_its_beat_for_one_period() {
    let run = |ms| Op::Run { work: ms * MS };
    let mut job = once("job", vec![run(5), Op::Sleep { time: 145 * MS }, run(30)]);
    job.settings = Settings { policy: Some(fifo(9)), group: Some(1), ..Settings::default() };
    let workload = grouped(vec![job.clone()], vec![group("/g", 0, rt(20, 100))]);
    for kernel in KERNELS {
        let turns = turns(&workload, &lasting(kernel, "1", 1000));
        assert_eq!(turns, [(0, 5, 0), (150, 172, 0), (200, 208, 0)], "{kernel}");
    }
    // After a whole period a new one begins.
    job.phases = vec![phase(vec![run(5), Op::Sleep { time: 245 * MS }, run(30)], Repeat::Times(1))].into();
    let workload = grouped(vec![job], vec![group("/g", 0, rt(20, 100))]);
    assert_eq!(turns(&workload, &lasting("6.1", "1", 1000)), [(0, 5, 0), (250, 272, 0), (350, 358, 0)]);
}

/// Time since the last tick counts in the new period.
#[test]
fn what_ran_since_the_tick_belongs_to_the_new_period() {
    let run = |ms| Op::Run { work: ms * MS };
    let mut job = once("job", vec![run(1), Op::Sleep { time: 79 * MS }, run(60)]);
    job.settings = Settings { policy: Some(fifo(9)), group: Some(1), ..Settings::default() };
    let workload = grouped(vec![job], vec![group("/g", 0, rt(19, 98))]);
    for kernel in KERNELS {
        let turns = turns(&workload, &lasting(kernel, "1", 1000));
        assert_eq!(turns[..3], [(0, 1, 0), (80, 116, 0), (196, 216, 0)], "{kernel}");
    }
}

/// A throttled group's task makes its CPU overloaded beside another real-time task, and is pushed to a CPU where its
/// group has runtime.
#[test]
fn tasks_of_throttled_groups_are_pushed() {
    let beat = |name: &str, cpu: u32, start: u64| {
        let ops = vec![Op::Run { work: 5 * MS }, Op::Sleep { time: 95 * MS }];
        let mut task = starting(pinned(task(name, vec![phase(ops, Repeat::Forever)]), &[cpu]), start * MS);
        task.settings.policy = Some(fifo(90));
        task
    };
    let tasks = vec![hog("inner", fifo(50), 1), beat("outer0", 0, 40), beat("outer1", 1, 75)];
    let workload = grouped(tasks, vec![group("/g", 0, rt(20, 100))]);
    for kernel in KERNELS {
        let cpu_ms = results(&workload, &lasting(kernel, "2", 3000)).tasks[0].account.cpu_ns / MS;
        assert!((1150..1250).contains(&cpu_ms), "{kernel}: {cpu_ms} ms, twice 20 of 100");
    }
}

/// CPU time of each group, with descendants, by CPU and period of the group.
struct Shares {
    parents: Vec<Option<usize>>,
    periods: Vec<u64>,
    task_groups: Vec<usize>,
    realtime: Vec<bool>,
    running: BTreeMap<CpuId, (u64, TaskId)>,
    used: BTreeMap<(u32, usize, u64), u64>,
}

impl Shares {
    fn of(workload: &Workload) -> Self {
        let period = |group: &Group| group.rt.and_then(|rt| rt.period).unwrap_or(1000 * MS);
        Self {
            parents: workload.groups.iter().map(|group| group.parent).collect(),
            periods: workload.groups.iter().map(period).collect(),
            task_groups: vec![],
            realtime: vec![],
            running: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    fn book(&mut self, cpu: CpuId, since: u64, until: u64, task: TaskId) {
        let mut at = Some(self.task_groups[task.index()]).filter(|_| self.realtime[task.index()]);
        while let Some(group) = at {
            let period = self.periods[group];
            let mut from = since;
            while from < until {
                let end = until.min((from / period + 1) * period);
                *self.used.entry((cpu.0, group, from / period)).or_default() += end - from;
                from = end;
            }
            at = self.parents[group];
        }
    }
}

impl Sink for Shares {
    fn task(&mut self, _id: TaskId, info: &TaskInfo<'_>) {
        self.task_groups.push(info.group.index());
        self.realtime.push(info.policy.is_rt());
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let Event::Switch { next, .. } = *event else { return };
        if let Some((since, task)) = self.running.remove(&cpu) {
            self.book(cpu, since, at, task);
        }
        if let Running::Task(task) = next {
            self.running.insert(cpu, (at, task));
        }
    }
    fn finish(&mut self, at: u64) {
        for (cpu, (since, task)) in std::mem::take(&mut self.running) {
            self.book(cpu, since, at, task);
        }
    }
}

/// `/a`, `/a/b`, `/a/c` and `/d`, with limits that fit: per mille of a CPU, and the period in ms.
fn tree(parts: [(u64, u64); 4], equal: bool) -> Vec<Group> {
    let [(a, a_period), (b, b_period), (c, c_period), (d, d_period)] = parts;
    let limit = |permille: u64, period: u64| {
        let period = if equal { a_period } else { period };
        Some(RtBandwidth {
            runtime: Some(RtRuntime::Limited((permille * period * 1000).max(1000))),
            period: Some(period * MS),
        })
    };
    // b and c leave some of a, and a and d some of the machine.
    vec![
        group("/a", 0, limit(a, a_period)),
        group("/a/b", 1, limit(a * b / 1000 * 9 / 10, b_period)),
        group("/a/c", 1, limit(a * c / 1000 * 9 / 10, c_period)),
        group("/d", 0, limit(d, d_period)),
    ]
}

fn parts() -> impl Strategy<Value = [(u64, u64); 4]> {
    let period = || 20u64..120;
    ((50u64..450, period()), (100u64..500, period()), (100u64..500, period()), (50u64..450, period()))
        .prop_map(|(a, b, c, d)| [a, b, c, d])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// On no CPU a group has more than its runtime and a tick in any of its periods; fair tasks have the rest.
    #[test]
    fn no_group_has_more_than_its_runtime(
        kernel in prop::sample::select(KERNELS.to_vec()),
        cpus in 1usize..=8,
        parts in parts(),
        tasks in prop::collection::vec((1u8..20, any::<bool>(), 1usize..5, 10_000u64..9_000_000, 0u64..9_000_000, 0u8..4), 0..16),
    ) {
        // A hog in each group keeps the periods' starts: at 0.
        let mut all: Vec<Task> = (1..5).map(|group| hog(&format!("always{group}"), fifo(group as u8), group)).collect();
        for (index, &(priority, rr, group, work, sleep, pin)) in tasks.iter().enumerate() {
            let policy = if rr { Policy::RoundRobin { priority } } else { fifo(priority) };
            let mut task = task(&format!("t{index}"), vec![phase(vec![Op::Run { work }, Op::Sleep { time: sleep }], Repeat::Forever)]);
            task.settings = Settings { policy: Some(policy), group: Some(group), ..Settings::default() };
            all.push(if pin == 0 { pinned(task, &[index as u32 % cpus as u32]) } else { task });
        }
        all.extend((0..cpus as u32).map(|cpu| pinned(hog(&format!("fair{cpu}"), FAIR, 0), &[cpu])));
        let workload = grouped(all, tree(parts, false));
        let config = lasting(kernel, &cpus.to_string(), 600);
        let mut sinks = (Shares::of(&workload), Collector::new(cpus));
        simulate(&workload, &config, &mut sinks).unwrap();
        for (&(cpu, group, period), &used) in &sinks.0.used {
            let Some(RtBandwidth { runtime: Some(RtRuntime::Limited(runtime)), .. }) = workload.groups[group].rt else { continue };
            prop_assert!(used <= runtime + 4 * MS, "CPU {cpu}, {}, period {period}: {used} of {runtime}", workload.groups[group].path);
        }
        let results = sinks.1.into_results();
        for (cpu, result) in results.cpus.iter().enumerate() {
            prop_assert_eq!(result.idle_ns, 0, "CPU {} has a fair task", cpu);
        }
    }

    /// With hogs everywhere and equal periods each group has exactly its runtime.
    #[test]
    fn each_group_has_its_runtime(
        kernel in prop::sample::select(KERNELS.to_vec()),
        cpus in 1u32..=4,
        parts in parts(),
        priorities in prop::array::uniform3(1u8..50),
        rr in any::<bool>(),
    ) {
        let mut tasks = Vec::new();
        for cpu in 0..cpus {
            for (group, priority) in [2, 3, 4].into_iter().zip(priorities) {
                let policy = if rr { Policy::RoundRobin { priority } } else { fifo(priority) };
                tasks.push(pinned(hog(&format!("rt{group}-{cpu}"), policy, group), &[cpu]));
            }
            tasks.push(pinned(hog(&format!("fair{cpu}"), FAIR, 0), &[cpu]));
        }
        let workload = grouped(tasks, tree(parts, true));
        let mut config = lasting(kernel, &cpus.to_string(), parts[0].1 * 30);
        // Late ticks must not affect the others.
        config.machine.hz = 10_000;
        let results = results(&workload, &config);
        for (task, found) in results.tasks.iter().enumerate() {
            let group = workload.tasks[task].settings.group.unwrap();
            let Some(RtBandwidth { runtime: Some(RtRuntime::Limited(runtime)), .. }) = workload.groups[group].rt else { continue };
            let (had, due) = (found.account.cpu_ns, runtime * 30);
            prop_assert!((due..=due + MS / 10).contains(&had), "{}: {had} of {due}", found.name);
        }
    }
}

/// Without real-time tasks in groups, the option changes nothing.
#[test]
fn the_roots_tasks_run_as_without_groups() {
    for kernel in ["6.1", "6.6"] {
        let task = |index: u64| {
            let ops = vec![Op::Run { work: (index + 1) * 3 * MS }, Op::Sleep { time: (7 - index % 5) * MS }];
            let mut task = task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)]);
            let priority = 1 + (index % 3) as u8;
            task.settings.policy =
                Some(if index.is_multiple_of(2) { fifo(priority) } else { Policy::RoundRobin { priority } });
            task
        };
        let digest = |grouped: bool| {
            let mut config = lasting(kernel, "4", 5000);
            config.kernel.rt_group_sched = grouped;
            let mut log = Log::default();
            simulate(&workload((0..9).map(task).collect()), &config, &mut log).unwrap();
            log.events
        };
        let (flat, grouped) = (digest(false), digest(true));
        assert!(flat.iter().any(|(.., event)| matches!(event, Event::Switch { prev_state: PrevState::Preempted, .. })));
        assert!(flat == grouped, "{kernel}");
    }
}
