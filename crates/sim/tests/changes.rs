//! Changes during a run.

mod support;

use proptest::prelude::*;
use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::{CpuId, GroupId};
use vruntime_sched::task::SchedPolicy;
use vruntime_sim::{Config, Error};
use vruntime_trace::{Digest, GroupInfo, Sink};
use vruntime_workload::program::*;

fn hog(name: &str, group: usize) -> Task {
    let mut task = pinned(task(name, vec![phase(vec![Op::Run { work: MS }], Repeat::Forever)]), &[0]);
    task.settings.group = Some(group);
    task
}

fn grouped(tasks: Vec<Task>, changes: Vec<(u64, Changed)>) -> Workload {
    let mut workload = workload(tasks);
    for path in ["/a", "/b"] {
        workload.groups.push(Group { path: path.to_owned(), parent: Some(0), ..Group::default() });
    }
    workload.changes = changes.into_iter().map(|(at, what)| Change { at, what }).collect();
    workload
}

fn of_task(task: usize, settings: Settings) -> Changed {
    Changed::Tasks { tasks: vec![task], settings, nice: None }
}

fn run_it(workload: &Workload, cpus: &str, end: u64) -> (Log, Vec<String>) {
    let mut log = Log::default();
    let config = Config { duration: Some(end * MS), ..exact("6.12", cpus) };
    let notes = simulate(workload, &config, &mut log).unwrap().notes;
    (log, notes)
}

fn loops(log: &Log, name: &str, from: u64, to: u64) -> usize {
    log.loops(name).iter().filter(|(at, _)| (from * MS..to * MS).contains(at)).count()
}

#[test]
fn a_groups_weight() {
    let change = Changed::Group { group: 1, to: GroupChange { weight: Some(300), ..GroupChange::default() } };
    let (log, _) = run_it(&grouped(vec![hog("a", 1), hog("b", 2)], vec![(1000 * MS + 17, change)]), "1", 2000);
    let shares = [0, 1000].map(|from| (loops(&log, "a", from, from + 1000), loops(&log, "b", from, from + 1000)));
    let near = |(a, b): (usize, usize), (x, y)| a.abs_diff(x) <= 12 && b.abs_diff(y) <= 12;
    assert!(near(shares[0], (500, 500)) && near(shares[1], (750, 250)), "{shares:?}");
}

#[test]
fn a_group_becomes_idle_and_ordinary_again() {
    let idle = |idle| Changed::Group { group: 1, to: GroupChange { idle: Some(idle), ..GroupChange::default() } };
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let changes = vec![(1000 * MS + 17, idle(true)), (2000 * MS + 17, idle(false))];
        let mut log = Log::default();
        let config = Config { duration: Some(4000 * MS), ..exact(kernel, "1") };
        simulate(&grouped(vec![hog("a", 1), hog("b", 2)], changes), &config, &mut log).unwrap();
        let done: Vec<usize> = (0..4).map(|second| loops(&log, "a", second * 1000, second * 1000 + 1000)).collect();
        // CFS does not scale a vruntime with the weight: the idle group's last tick delays it 341 times as long.
        // EEVDF scales the lag.
        let owed = if kernel == "6.1" { 250 } else { 470 };
        // Beside weight 100 an idle group's 3/1024 are a thirtieth of the CPU at most.
        let even = |count: usize| count.abs_diff(500) <= 30;
        assert!(even(done[0]) && (1..=34).contains(&done[1]) && even(done[3]), "{kernel}: {done:?}");
        assert!((owed..=530).contains(&done[2]), "{kernel}: {done:?}");
    }
}

#[test]
fn a_change_is_made_though_nothing_else_happens_any_more() {
    #[derive(Default)]
    struct Changes(Vec<(u64, u32)>);
    impl Sink for Changes {
        fn event(&mut self, _: u64, _: CpuId, _: &Event) {}
        fn group_changed(&mut self, at: u64, _: GroupId, info: &GroupInfo<'_>) {
            self.0.push((at, info.weight));
        }
    }
    let to = GroupChange { weight: Some(300), ..GroupChange::default() };
    let asleep = task("asleep", vec![phase(vec![Op::SemWait(0)], Repeat::Forever)]);
    let mut workload = grouped(vec![asleep], vec![(500 * MS, Changed::Group { group: 1, to })]);
    workload.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
    let mut changes = Changes::default();
    let config = Config { duration: Some(1000 * MS), ..exact("6.12", "1") };
    simulate(&workload, &config, &mut changes).unwrap();
    assert_eq!(changes.0, [(500 * MS, 300)]);
}

#[test]
fn a_groups_limit_is_set_changed_and_removed() {
    let max = |percent: u64| CpuMax::Limited(Bandwidth { quota: percent * MS, period: 100 * MS, burst: 0 });
    let limit = |max| Changed::Group { group: 1, to: GroupChange { max: Some(max), ..GroupChange::default() } };
    let changes = vec![(1000 * MS, limit(max(20))), (2000 * MS, limit(max(50))), (3000 * MS, limit(CpuMax::Unlimited))];
    let (log, _) = run_it(&grouped(vec![hog("a", 1)], changes), "1", 4000);
    let done: Vec<usize> = (0..4).map(|second| loops(&log, "a", second * 1000, second * 1000 + 1000)).collect();
    // Each change grants a quota at once; a tick's overrun is paid back.
    let within = |count: usize, quota: usize| (10 * quota - 8..=11 * quota + 8).contains(&count);
    assert!(done[0] >= 999 && within(done[1], 20) && within(done[2], 50) && done[3] >= 999, "{done:?}");
}

/// `setpriority` changes only the nice value, and a policy without slice requests none.
#[test]
fn a_slice_of_its_own_stays_when_nice_changes_or_the_policy_has_none() {
    let slice = |nice| Policy::Other { nice, slice: Some(50 * MS) };
    let long = Settings { policy: Some(slice(0)), ..Settings::default() };
    let own = |name: &str| Task { settings: long.clone(), ..hog(name, 0) };
    let nice = Changed::Tasks { tasks: vec![0, 1], settings: Settings::default(), nice: Some(3) };
    let turns = |changes| {
        let config = Config { duration: Some(4000 * MS), ..exact("6.12", "1") };
        simulate(&grouped(vec![own("x"), own("y")], changes), &config, &mut Log::default()).unwrap().switches
    };
    let usual = turns(vec![]);
    assert!((70..90).contains(&usual), "{usual}");
    assert!(turns(vec![(10 * MS, nice)]).abs_diff(usual) < 8);
    let idle = Settings { policy: Some(Policy::Idle), ..Settings::default() };
    let idle = Changed::Tasks { tasks: vec![0, 1], settings: idle, nice: None };
    assert!(turns(vec![(10 * MS, idle)]).abs_diff(usual) < 8);
    let plain = Settings { policy: Some(Policy::Other { nice: 0, slice: None }), ..Settings::default() };
    let plain = Changed::Tasks { tasks: vec![0, 1], settings: plain, nice: None };
    assert!(turns(vec![(10 * MS, plain)]) > 300, "asked for, it is the usual one");
}

#[test]
fn nice_policy_affinity_and_group_of_tasks() {
    let realtime = Settings { policy: Some(Policy::Fifo { priority: 5 }), ..Settings::default() };
    let fair = Settings { policy: Some(Policy::Other { nice: 0, slice: None }), ..Settings::default() };
    let away = Settings { cpus: Some(vec![1]), ..Settings::default() };
    let moved = Settings { group: Some(2), ..Settings::default() };
    let changes = vec![
        (1000 * MS, Changed::Tasks { tasks: vec![0], settings: Settings::default(), nice: Some(5) }),
        (2000 * MS + 1, of_task(1, realtime)),
        (2500 * MS, of_task(1, fair)),
        (3000 * MS + 7, of_task(0, away)),
        (3500 * MS, of_task(0, moved)),
    ];
    let mut config = Config { duration: Some(4000 * MS), ..exact("6.12", "2") };
    config.kernel.set("sched_rt_runtime_us", 1_000_000).unwrap();
    let workload = grouped(vec![hog("x", 0), hog("y", 0)], changes);
    let mut log = Log::default();
    let outcome = simulate(&workload, &config, &mut log).unwrap();
    assert_eq!(outcome.notes, Vec::<String>::new());
    let share = |name: &str, from: u64, to: u64| loops(&log, name, from, to) as f64 * 1000.0 / (to - from) as f64;
    assert!((share("x", 0, 1000) - 500.0).abs() < 10.0);
    assert!((share("x", 1000, 2000) - 1000.0 * 335.0 / 1359.0).abs() < 15.0);
    assert!(share("x", 2010, 2500) < 5.0 && share("y", 2010, 2500) > 990.0);
    assert!(share("x", 3001, 4000) > 995.0 && share("y", 3001, 4000) > 995.0);
    let times = log.pick(|at, event| match event {
        Event::SetNice { .. } | Event::SetPolicy { .. } | Event::MoveGroup { .. } => Some(at),
        Event::Migrate { to, .. } if at > 0 => Some(at).filter(|_| to == CpuId(1)),
        _ => None,
    });
    assert_eq!(times, [1000 * MS, 2000 * MS + 1, 2500 * MS, 2500 * MS, 3000 * MS + 7, 3500 * MS]);
}

#[test]
fn a_sessions_nice_value() {
    let mut workload =
        grouped(vec![hog("a", 0), hog("b", 0)], vec![(1000 * MS, Changed::Session { session: 1, nice: -5 })]);
    workload.sessions = ["one", "two"].map(|name| Session { name: name.to_owned(), nice: 0 }).into();
    (workload.tasks[0].session, workload.tasks[1].session) = (Some(0), Some(1));
    let mut log = Log::default();
    let config = Config { autogroup: true, duration: Some(2000 * MS), ..exact("6.12", "1") };
    simulate(&workload, &config, &mut log).unwrap();
    assert!(loops(&log, "b", 0, 1000).abs_diff(500) <= 8);
    assert!(loops(&log, "b", 1000, 2000).abs_diff(753) <= 12, "{}", loops(&log, "b", 1000, 2000));
}

#[test]
fn a_change_reaches_all_living_and_later_instances_and_no_other_task() {
    let mut tasks: Vec<Task> = (0..3).map(|index| hog(&format!("w-{index}"), 0)).collect();
    tasks[0].repeat = Repeat::Times(0);
    tasks[2].start = Some(50 * MS);
    let what = |tasks| Changed::Tasks { tasks, settings: Settings::default(), nice: Some(7) };
    let changes = vec![(20 * MS, what(vec![2])), (30 * MS, what(vec![0, 1])), (60 * MS, what(vec![0]))];
    let (log, notes) = run_it(&grouped(tasks, changes), "1", 100);
    let changed = log.pick(|at, event| match event {
        Event::SetNice { task, nice: 7 } => Some((at / MS, task.0)),
        _ => None,
    });
    assert_eq!(changed, [(20, 2), (30, 1)], "one that is yet to start starts with it");
    assert_eq!(notes, ["the change of task `w-0` at 60 ms has no effect: no task of this name exists at that time"]);
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let refused = |changes: Vec<(u64, Changed)>| {
        let config = Config { duration: Some(100 * MS), ..exact("6.12", "1") };
        simulate(&grouped(vec![hog("a", 1)], changes), &config, &mut Log::default()).unwrap_err()
    };
    let group = |group, weight| Changed::Group { group, to: GroupChange { weight, ..GroupChange::default() } };
    assert!(refused(vec![(0, group(0, Some(5)))]).to_string().contains("root group"));
    assert!(refused(vec![(0, group(1, Some(0)))]).to_string().contains("weight is 0, expected 1 to 10000"));
    let mut idle = grouped(vec![hog("a", 1)], vec![(0, group(1, Some(5)))]);
    idle.groups[1].idle = true;
    let config = Config { duration: Some(100 * MS), ..exact("6.12", "1") };
    let error = simulate(&idle, &config, &mut Log::default()).unwrap_err().to_string();
    assert!(error.contains("`/a`") && error.contains("idle group"), "{error}");
    // The state at that time decides.
    let idle = |to| Changed::Group { group: 1, to: GroupChange { idle: Some(to), ..GroupChange::default() } };
    let error = refused(vec![(0, idle(true)), (5, group(1, Some(5)))]).to_string();
    assert!(error.contains("`/a`") && error.contains("idle group"), "{error}");
    let error = refused(vec![(0, idle(true)), (5, group(1, Some(5))), (9, idle(false))]).to_string();
    assert!(error.contains("idle group"), "{error}");
    let woken = vec![(0, idle(true)), (4, idle(false)), (5, group(1, Some(5)))];
    let config = Config { duration: Some(100 * MS), ..exact("6.12", "1") };
    simulate(&grouped(vec![hog("a", 1)], woken), &config, &mut Log::default()).unwrap();
    assert!(refused(vec![(0, group(7, None))]).to_string().contains("group number 7"));
    let guaranteed = GroupChange { guarantee: Some(5), ..GroupChange::default() };
    assert!(
        refused(vec![(0, Changed::Group { group: 7, to: guaranteed })]).to_string().contains("group number 7"),
        "also where the kernel has no guarantees"
    );
    assert_eq!(refused(vec![(5, group(1, Some(5))), (4, group(1, Some(5)))]), Error::ChangeOrder { at: 4 });
    let cpus = Settings { cpus: Some(vec![3]), ..Settings::default() };
    assert!(matches!(refused(vec![(0, of_task(0, cpus))]), Error::NoSuchCpu { cpu: 3, .. }));
    let max = Bandwidth { quota: 5, period: 100 * MS, burst: 0 };
    let limit =
        Changed::Group { group: 1, to: GroupChange { max: Some(CpuMax::Limited(max)), ..GroupChange::default() } };
    assert!(refused(vec![(0, limit)]).to_string().contains("quota"));
    // A deadline task needs all CPUs; and a whole CPU is more than the limit.
    let greedy =
        Policy::Deadline { runtime: 10 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
    let settings = Settings { policy: Some(greedy), ..Settings::default() };
    assert!(matches!(refused(vec![(50 * MS, of_task(0, settings))]), Error::Refused { now, .. } if now == 50 * MS));
}

/// Refused parameters of a change leave the task as it was, with a note.
#[test]
fn a_change_with_refused_parameters_changes_nothing() {
    let dated = |runtime, deadline, period| {
        let policy = Policy::Deadline { runtime, deadline, period, reclaim: false, overrun: false };
        of_task(0, Settings { policy: Some(policy), ..Settings::default() })
    };
    for change in [dated(1000, 10 * MS, 10 * MS), dated(20 * MS, 10 * MS, 10 * MS), dated(MS, 9000 * MS, 9000 * MS)] {
        let workload = grouped(vec![hog("a", 1)], vec![(50 * MS, change)]);
        let config = Config { duration: Some(100 * MS), end_if_refused: false, ..exact("6.12", "1") };
        let notes = simulate(&workload, &config, &mut Log::default()).unwrap().notes;
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert!(note.contains("task `a` at 50.000 ms") && note.contains("(EINVAL)"), "{note}");
        assert!(note.contains("the task kept its settings"), "{note}");
        let strict = Config { end_if_refused: true, ..config };
        let error = simulate(&workload, &strict, &mut Log::default()).unwrap_err();
        assert!(matches!(error, Error::Refused { now, errno: "EINVAL", .. } if now == 50 * MS), "{error}");
    }
}

/// The error of a refused admission names its number.
#[test]
fn a_refused_admission_names_its_number() {
    let greedy =
        Policy::Deadline { runtime: 10 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
    let settings = Settings { policy: Some(greedy), ..Settings::default() };
    let workload = grouped(vec![hog("a", 1)], vec![(50 * MS, of_task(0, settings))]);
    let config = Config { duration: Some(100 * MS), end_if_refused: true, ..exact("6.12", "1") };
    let error = simulate(&workload, &config, &mut Log::default()).unwrap_err().to_string();
    assert!(error.contains("(EBUSY)"), "{error}");
}

#[test]
fn observers_receive_changes() {
    #[derive(Default)]
    struct Changes(Vec<(u64, GroupId, String)>);
    impl Sink for Changes {
        fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
            self.0.push((at / MS, id, info.settings()));
        }
        fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
    }
    let max = CpuMax::Limited(Bandwidth { quota: 50 * MS, period: 100 * MS, burst: 0 });
    let changes = vec![
        (10 * MS, Changed::Group { group: 2, to: GroupChange { weight: Some(7), ..GroupChange::default() } }),
        (20 * MS, Changed::Group { group: 2, to: GroupChange { max: Some(max), ..GroupChange::default() } }),
        (30 * MS, Changed::Group { group: 2, to: GroupChange { idle: Some(true), ..GroupChange::default() } }),
        (40 * MS, Changed::Group { group: 2, to: GroupChange { idle: Some(false), ..GroupChange::default() } }),
    ];
    let mut sink = Changes::default();
    let config = Config { duration: Some(50 * MS), ..exact("6.12", "1") };
    simulate(&grouped(vec![hog("a", 1)], changes), &config, &mut sink).unwrap();
    let expected = [
        (10, "/b cpu.weight=7 cpu.max=max"),
        (20, "/b cpu.weight=7 cpu.max=50000 100000"),
        (30, "/b cpu.idle=1 cpu.max=50000 100000"),
        // With the default weight, as in the kernel.
        (40, "/b cpu.weight=100 cpu.max=50000 100000"),
    ];
    assert_eq!(sink.0, expected.map(|(at, text)| (at, GroupId(2), text.to_owned())));
}

/// Removes weights of idle groups, which the kernel refuses.
fn acceptable(mut changes: Vec<(u64, Changed)>) -> Vec<(u64, Changed)> {
    changes.sort_by_key(|(at, _)| *at);
    let mut idle = [false; 3];
    for (_, what) in &mut changes {
        if let Changed::Group { group, to } = what {
            idle[*group] = to.idle.unwrap_or(idle[*group]);
            to.weight = to.weight.filter(|_| !idle[*group]);
        }
    }
    changes
}

fn any_change() -> impl Strategy<Value = Changed> {
    let slice = prop::option::of((1u64..=1000).prop_map(|slice| slice * 100_000));
    let policy = prop_oneof![
        (-20i8..20, slice.clone()).prop_map(|(nice, slice)| Policy::Other { nice, slice }),
        (-20i8..20, slice).prop_map(|(nice, slice)| Policy::Batch { nice, slice }),
        Just(Policy::Idle),
        (1u8..100).prop_map(|priority| Policy::Fifo { priority }),
        (1u8..100).prop_map(|priority| Policy::RoundRobin { priority }),
        Just(Policy::Deadline { runtime: MS, deadline: 10 * MS, period: 20 * MS, reclaim: false, overrun: false }),
    ];
    let cpus = prop::sample::subsequence(vec![0u32, 1, 2, 3], 1..=4);
    let max = prop::option::of((1u64..20, 1u64..20, 0u64..=100)).prop_map(|limit| match limit {
        None => CpuMax::Unlimited,
        Some((quota, period, burst)) => {
            let (quota, period) = (quota * MS, period * MS);
            CpuMax::Limited(Bandwidth { quota, period, burst: quota * burst / 100 })
        }
    });
    let tasks = || prop::sample::subsequence((0..12).collect::<Vec<usize>>(), 1..4);
    prop_oneof![
        (tasks(), policy).prop_map(|(tasks, policy)| {
            // Deadline tasks have all CPUs, or are refused.
            let cpus = matches!(policy, Policy::Deadline { .. }).then(|| vec![0, 1, 2, 3]);
            let settings = Settings { policy: Some(policy), cpus, ..Settings::default() };
            Changed::Tasks { tasks, settings, nice: None }
        }),
        (tasks(), -20i8..20).prop_map(|(tasks, nice)| Changed::Tasks {
            tasks,
            settings: Settings::default(),
            nice: Some(nice)
        }),
        (tasks(), cpus).prop_map(|(tasks, cpus)| {
            // A preceding change of policy makes the affinity valid for all.
            let policy = Some(Policy::Other { nice: 0, slice: None });
            let settings = Settings { policy, cpus: Some(cpus), ..Settings::default() };
            Changed::Tasks { tasks, settings, nice: None }
        }),
        (tasks(), 0usize..3).prop_map(|(tasks, group)| {
            let settings = Settings { group: Some(group), ..Settings::default() };
            Changed::Tasks { tasks, settings, nice: None }
        }),
        (1usize..3, prop::option::of(1u32..10_000), prop::option::of(max)).prop_map(|(group, weight, max)| {
            Changed::Group { group, to: GroupChange { weight, max, ..GroupChange::default() } }
        }),
        (1usize..3, prop::option::of(any::<bool>()), (0u32..1025, 0u32..1025)).prop_map(|(group, idle, (min, max))| {
            let uclamp = Some(Clamps { min, max });
            Changed::Group { group, to: GroupChange { idle, uclamp, ..GroupChange::default() } }
        }),
        (0usize..2, -20i8..20).prop_map(|(session, nice)| Changed::Session { session, nice }),
    ]
}

/// Twelve tasks that work, most of which sleep, in three groups and two sessions.
fn dozen() -> Vec<Task> {
    let one = |index: u64| {
        let mut ops = vec![Op::Run { work: (1 + index) * 300 * US }];
        if !index.is_multiple_of(3) {
            ops.push(Op::Sleep { time: index * 200 * US });
        }
        let mut task = task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)]);
        task.settings.group = Some(index as usize % 3);
        task.session = [None, Some(0), Some(1)][index as usize / 4];
        task
    };
    (0..12).map(one).collect()
}

/// The unused part of a job's runtime: see `deadline.rs`.
const SPARE: u64 = 2048;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Always true, 6 (ARCHITECTURE.md), with all other changes: deadline tasks that one CPU can serve miss no deadline
    /// on several. While a job due by d waits, its CPU runs one due by d. So the work on such jobs is at least the time
    /// since there was none. No more work was requested by d (Liu & Layland, JACM 1973). 6.12+: the fair servers of 5 %
    /// on four CPUs may all run before a job.
    #[test]
    fn deadlines_that_one_cpu_can_keep_are_kept_whatever_else_changes(
        kernel in prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18", "7.1"]),
        jobs in prop::collection::vec((1u64..=10, 4u64..=30), 1..8),
        changes in prop::collection::vec((0..200 * MS, any_change()), 0..30),
        hotplug in hotplug(4, 200 * MS),
    ) {
        let promised = |what: &Changed| matches!(what, Changed::Tasks { settings: Settings { policy: Some(Policy::Deadline { .. }), .. }, .. });
        let changes = acceptable(changes.into_iter().filter(|(_, what)| !promised(what)).collect());
        let mut tasks = dozen();
        for task in &mut tasks {
            task.session = None;
        }
        // Together 75 % of a CPU, or nearly.
        let parts: u64 = jobs.iter().map(|(part, _)| part).sum();
        let jobs: Vec<(u64, u64)> = jobs.iter().map(|&(part, ms)| (750 * part * ms * MS / parts / 1000, ms * MS)).collect();
        for (number, &(runtime, period)) in jobs.iter().enumerate() {
            let work = runtime - SPARE;
            let ops = vec![Op::Timer { timer: number, period, mode: TimerMode::Absolute }, Op::Run { work }];
            let mut job = task(&format!("d{number}"), vec![phase(ops, Repeat::Forever)]);
            job.settings.policy = Some(Policy::Deadline { runtime, deadline: period, period, reclaim: false, overrun: false });
            tasks.push(job);
        }
        let changes = changes.into_iter().filter(|(_, what)| !matches!(what, Changed::Session { .. }));
        let mut workload = grouped(tasks, changes.collect());
        workload.timers = (0..jobs.len()).map(|number| Timer::new(format!("timer{number}"))).collect();
        workload.hotplug = hotplug;
        let (log, notes) = {
            let mut log = Log::default();
            let config = Config { duration: Some(200 * MS), ..exact(kernel, "pack:2 core:2") };
            let notes = simulate(&workload, &config, &mut log).unwrap().notes;
            (log, notes)
        };
        prop_assert!(!notes.iter().any(|note| note.contains("CPU") && note.contains("promised")), "{:?}", notes);
        for (number, &(_, period)) in jobs.iter().enumerate() {
            let done = log.loops(&format!("d{number}"));
            let late = (1u64..).zip(&done).find(|(job, (at, _))| *at > (job + 1) * period);
            prop_assert_eq!(late, None, "d{}", number);
            let due = (200 * MS / period).saturating_sub(1);
            prop_assert!(done.len() as u64 >= due, "d{}: {} jobs of {} are done", number, done.len(), due);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_at_any_time(
        kernel in prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18", "7.1"]),
        autogroup in any::<bool>(),
        changes in prop::collection::vec((0..60 * MS, any_change()), 0..30),
        hotplug in hotplug(4, 60 * MS),
    ) {
        let mut workload = grouped(dozen(), acceptable(changes));
        workload.hotplug = hotplug;
        workload.sessions = ["one", "two"].map(|name| Session { name: name.to_owned(), nice: 0 }).into();
        let config = Config { autogroup, duration: Some(60 * MS), ..exact(kernel, "pack:2 core:2") };
        let mut sinks = (Ledger::default(), Digest::default());
        match simulate(&workload, &config, &mut sinks) {
            Ok(outcome) => sinks.0.check(&outcome),
            // Too many deadline tasks, or one that had lost a CPU.
            Err(Error::Refused { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
        let mut again = Digest::default();
        let _ = simulate(&workload, &config, &mut again);
        prop_assert_eq!(sinks.1.value(), again.value());
    }
}

/// `sched_setattr` ignores the nice value of a task that is SCHED_IDLE already.
#[test]
fn an_idle_task_that_is_made_idle_keeps_its_nice_value() {
    let idle = Settings { policy: Some(Policy::Idle), ..Settings::default() };
    let nice = Changed::Tasks { tasks: vec![0], settings: Settings::default(), nice: Some(5) };
    let changes = vec![(10 * MS, of_task(0, idle.clone())), (20 * MS, nice), (30 * MS, of_task(0, idle))];
    for kernel in ["3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let config = Config { duration: Some(1000 * MS), debug_at: Some(40 * MS), ..exact(kernel, "1") };
        let seen = simulate(&grouped(vec![hog("x", 0)], changes.clone()), &config, &mut Log::default()).unwrap();
        let task = &seen.debug.unwrap().cpus[0].tasks[0];
        assert_eq!((task.policy, task.prio), (SchedPolicy::Idle, 125), "{kernel}");
    }
}

/// Counts changes of groups.
#[derive(Default)]
struct GroupChanges(u32);

impl Sink for GroupChanges {
    fn event(&mut self, _: u64, _: CpuId, _: &Event) {}
    fn group_changed(&mut self, _: u64, _: GroupId, _: &GroupInfo<'_>) {
        self.0 += 1;
    }
}

/// Each change may concern all tasks, so the watcher is called between two changes of one instant.
#[test]
fn a_run_stops_between_changes() {
    let to = |group| Changed::Group { group, to: GroupChange { weight: Some(300), ..GroupChange::default() } };
    let changes = vec![(5 * MS, to(1)), (5 * MS, to(2))];
    let load = grouped(vec![hog("a", 1), hog("b", 2)], changes);
    let config = Config { duration: Some(100 * MS), ..exact("6.12", "1") };
    let mut sink = GroupChanges::default();
    let mut watch = |progress: vruntime_sim::Progress| {
        if progress.now == 5 * MS { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    };
    let outcome = vruntime_sim::run_dyn(&load, &config, &mut sink, &mut watch).unwrap();
    assert!(outcome.interrupted && outcome.end == 5 * MS, "{}", outcome.end);
    assert_eq!(sink.0, 1);
}
