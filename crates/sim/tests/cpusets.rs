//! cpusets of groups, and isolated CPUs: placement, refusals and reports.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::*;
use vruntime_sched::CpuMask;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sim::{Config, Error};
use vruntime_trace::{CpusetInfo, Digest, Sink};
use vruntime_workload::program::*;

fn hog(name: &str, group: usize) -> Task {
    let mut task = task(name, vec![phase(vec![Op::Run { work: MS }], Repeat::Forever)]);
    task.settings.group = Some(group);
    task
}

fn group(path: &str, parent: usize, cpus: &[u32], partition: Partition) -> Group {
    let cpus = (!cpus.is_empty()).then(|| cpus.to_vec());
    Group { path: path.to_owned(), parent: Some(parent), cpuset: Cpuset { cpus, partition }, ..Group::default() }
}

fn grouped(tasks: Vec<Task>, groups: Vec<Group>, changes: Vec<(u64, Changed)>) -> Workload {
    let mut workload = workload(tasks);
    workload.groups.extend(groups);
    workload.changes = changes.into_iter().map(|(at, what)| Change { at: at * MS, what }).collect();
    workload
}

/// Allowed CPUs, turns, and reported cpusets.
#[derive(Default)]
struct Watch {
    allowed: BTreeMap<TaskId, (u64, CpuMask)>,
    running: BTreeMap<CpuId, Running>,
    /// The time until the stopper moves a task away.
    grace: u64,
    /// Each task's turns: ms and CPU.
    ran: BTreeMap<TaskId, Vec<(u64, u32)>>,
    cpusets: Vec<(u64, GroupId, String, String)>,
    roots: Vec<(u64, usize, usize)>,
}

impl Watch {
    fn check(&self, at: u64) {
        for (cpu, running) in &self.running {
            if let Running::Task(task) = running
                && let Some((since, mask)) = self.allowed.get(task)
            {
                let fine = mask.contains(*cpu) || at - since <= self.grace;
                assert!(fine, "at {at} task {task} runs on CPU {cpu}; since {since} it may run on {mask:?} only");
            }
        }
    }
}

impl Sink for Watch {
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.check(at);
        match cpus {
            Some(mask) => drop(self.allowed.insert(task, (at, mask.clone()))),
            None => drop(self.allowed.remove(&task)),
        }
    }
    fn cpuset(&mut self, at: u64, id: GroupId, info: &CpusetInfo<'_>) {
        let cpus: Vec<String> = info.effective.iter().map(|cpu| cpu.0.to_string()).collect();
        self.cpusets.push((at / MS, id, cpus.join(","), info.partition.to_owned()));
    }
    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        self.roots.push((at / MS, roots.len(), isolated.count()));
    }
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.check(at);
        if let Event::Switch { next, .. } = *event {
            if let Running::Task(task) = next {
                self.ran.entry(task).or_default().push((at / MS, cpu.0));
                if let Some((_, mask)) = self.allowed.get(&task) {
                    assert!(mask.contains(cpu), "at {at} task {task} begins to run on CPU {cpu}, not one of {mask:?}");
                }
            }
            self.running.insert(cpu, next);
        }
    }
}

fn run_it(workload: &Workload, config: &Config) -> (Watch, Vec<String>, Vec<u64>) {
    let mut watch = Watch::default();
    let outcome = simulate(workload, config, &mut watch).unwrap();
    (watch, outcome.notes, outcome.cpus.iter().map(|cpu| cpu.busy / MS).collect())
}

fn machine(name: &str, cpus: &str, ms: u64) -> Config {
    Config { duration: Some(ms * MS), ..exact(name, cpus) }
}

#[test]
fn partitions_keep_their_cpus_and_changes_move_tasks() {
    let tasks = vec![hog("a", 1), hog("b", 1), hog("c", 1), hog("free", 0)];
    let groups = vec![group("/p", 0, &[2, 3], Partition::Root)];
    let cpus = |cpus: &[u32]| Changed::Cpuset { group: 1, cpus: Some(cpus.to_vec()), partition: None };
    let end = Changed::Cpuset { group: 1, cpus: None, partition: Some(Partition::Member) };
    let workload = grouped(tasks, groups, vec![(100, cpus(&[3])), (200, end), (300, cpus(&[0, 1, 2]))]);
    let (watch, notes, _) = run_it(&workload, &machine("6.12", "4", 400));
    assert_eq!(notes, Vec::<String>::new());
    for (task, ran) in &watch.ran {
        for &(ms, cpu) in ran {
            let of_partition = match ms {
                ..100 => 2..4,
                // From 200 ms on a member, of the same CPU.
                100..300 => 3..4,
                _ => 0..3,
            };
            let fine =
                if task.0 < 3 { of_partition.contains(&cpu) } else { ms >= 200 || cpu < 2 || ms > 100 && cpu == 2 };
            assert!(fine, "{task:?} on CPU {cpu} at {ms} ms");
        }
    }
    let group = GroupId(1);
    let change = |at, cpus: &str, partition: &str| (at, group, cpus.to_owned(), partition.to_owned());
    let expected = [
        change(0, "2,3", "root"),
        change(100, "3", "root"),
        change(200, "3", "member"),
        change(300, "0,1,2", "member"),
    ];
    assert_eq!(watch.cpusets, expected);
    assert_eq!(watch.roots, [(0, 2, 0), (100, 2, 0), (200, 1, 0)]);
}

#[test]
fn isolated_cpus_run_only_tasks_that_ask_for_them() {
    let mut config = machine("6.12", "4", 200);
    config.machine.isolated = [2, 3].map(CpuId).into_iter().collect();
    let mut tasks: Vec<Task> = (0..4).map(|index| hog(&format!("h{index}"), 0)).collect();
    let (_, _, busy) = run_it(&grouped(tasks.clone(), vec![], vec![]), &config);
    assert_eq!(busy, [200, 200, 0, 0]);
    // Two on isolated CPUs stay together.
    tasks.extend(["x", "y"].map(|name| pinned(hog(name, 0), &[2, 3])));
    let (_, notes, busy) = run_it(&grouped(tasks, vec![], vec![]), &config);
    assert_eq!((busy, notes), (vec![200, 200, 200, 0], vec![]));
    let mut all = config.clone();
    all.machine.isolated = (0..4).map(CpuId).collect();
    let refused = simulate(&grouped(vec![], vec![], vec![]), &all, &mut Watch::default());
    assert_eq!(refused, Err(Error::AllIsolated));
    // The last CPU that is not isolated has to stay online.
    let mut plugged = grouped(vec![hog("a", 0)], vec![], vec![]);
    plugged.hotplug = [0, 1].map(|cpu| Hotplug { at: MS * u64::from(cpu + 1), cpu, online: false }).into();
    let error = simulate(&plugged, &config, &mut Watch::default()).unwrap_err().to_string();
    assert!(error.contains("CPU 1 cannot go offline (EBUSY): all other online CPUs are isolated"), "{error}");
}

#[test]
fn what_the_kernel_refuses_or_finds_invalid_is_noted() {
    let stray = pinned(hog("stray", 1), &[0]);
    let mut wanders = hog("wanders", 1);
    let away = Settings { cpus: Some(vec![1]), ..Settings::default() };
    let first = Phase { repeat: Repeat::Times(20), ..wanders.phases[0].clone() };
    let second = Phase { settings: away, ..wanders.phases[0].clone() };
    wanders.phases = [first, second].into();
    let groups = vec![group("/p", 0, &[2, 3], Partition::Member), group("/p/q", 1, &[3], Partition::Root)];
    let empty = Changed::Cpuset { group: 1, cpus: Some(vec![]), partition: None };
    let workload = grouped(vec![stray, wanders], groups, vec![(50, empty)]);
    let (watch, notes, _) = run_it(&workload, &machine("6.12", "4", 100));
    assert_eq!(
        notes,
        [
            "group `/p/q` is no partition from 0 ns on: root invalid (Parent is not a partition root)",
            "emptying `cpus` of group `/p` at 50 ms is refused, as in Linux: the group has tasks, and has to have \
             CPUs (ENOSPC); move its tasks elsewhere first",
            "task `stray` asked for CPUs outside its cpuset (EINVAL), and kept its affinity",
            "task `wanders` asked for CPUs outside its cpuset (EINVAL), and kept its affinity",
        ]
    );
    assert!(watch.ran.values().flatten().all(|&(_, cpu)| cpu >= 2));
    let refused = |groups: Vec<Group>, changes| {
        let workload = grouped(vec![hog("a", 1)], groups, changes);
        simulate(&workload, &machine("6.12", "4", 10), &mut Watch::default()).unwrap_err().to_string()
    };
    let error = refused(vec![group("/p", 0, &[3, 4], Partition::Member)], vec![]);
    assert!(error.starts_with("group `/p` names CPU 4, but the machine has 4 CPU(s), 0 to 3"), "{error}");
    let whole = vec![group("/p", 0, &[2, 3], Partition::Root), group("/p/q", 1, &[2, 3], Partition::Root)];
    assert!(refused(whole, vec![]).starts_with("group `/p` of task `a` has no CPUs left: child partitions"));
    let root = Changed::Cpuset { group: 0, cpus: None, partition: Some(Partition::Root) };
    assert!(
        refused(vec![group("/p", 0, &[], Partition::Member)], vec![(1, root)]).contains("the root group has all CPUs")
    );
}

#[test]
fn deadline_tasks_are_admitted_by_their_partition() {
    let promised = |name: &str, group| {
        let mut task = hog(name, group);
        let policy =
            Policy::Deadline { runtime: 6 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
        task.settings.policy = Some(policy);
        task
    };
    let groups = || vec![group("/p", 0, &[2, 3], Partition::Root)];
    // 0.6 each, of 1.9 on either side, without fair servers.
    let three = |group| ["a", "b", "c"].map(|name| promised(&format!("{name}{group}"), group));
    let tasks: Vec<Task> = three(0).into_iter().chain(three(1)).collect();
    let (watch, notes, _) = run_it(&grouped(tasks.clone(), groups(), vec![]), &machine("6.6", "4", 100));
    assert_eq!(notes, Vec::<String>::new());
    for (task, ran) in &watch.ran {
        assert!(ran.iter().all(|&(_, cpu)| (cpu >= 2) == (task.0 >= 3)), "{task:?}: {ran:?}");
    }
    let more = tasks.iter().cloned().chain([promised("d", 1)]).collect();
    let error = simulate(&grouped(more, groups(), vec![]), &machine("6.6", "4", 100), &mut Watch::default());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("1.800 CPUs are taken and 0.600 more") && text.contains("of 2 CPU(s)"), "{text}");
    // A move to where there is no room is refused, and so is less room.
    let settings = Settings { group: Some(1), ..Settings::default() };
    let shrink = Changed::Cpuset { group: 1, cpus: Some(vec![3]), partition: None };
    let changes = vec![(20, Changed::Tasks { tasks: vec![0], settings, nice: None }), (30, shrink)];
    let (_, notes, _) = run_it(&grouped(tasks, groups(), changes), &machine("6.6", "4", 100));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("task `a0` stays in its group at 20 ms, as in Linux: not admitted: 1.800 CPUs"));
    let refused = "the change of the cpuset of group `/p` at 30 ms is refused, as in Linux: SCHED_DEADLINE tasks (and fair servers)";
    assert!(notes[1].starts_with(refused) && notes[1].contains("have reserved 1.800 CPUs"), "{}", notes[1]);
}

fn any_change() -> impl Strategy<Value = Changed> {
    let cpus = || prop::sample::subsequence(vec![0u32, 1, 2, 3, 4, 5], 1..=4);
    let tasks = || prop::sample::subsequence((0..10).collect::<Vec<usize>>(), 1..4);
    let policy = prop_oneof![
        6 => (-20i8..20).prop_map(|nice| Policy::Other { nice, slice: None }),
        6 => (1u8..100).prop_map(|priority| Policy::Fifo { priority }),
        // Often refused, which ends the run.
        1 => Just(Policy::Deadline { runtime: MS, deadline: 10 * MS, period: 20 * MS, reclaim: false, overrun: false }),
    ];
    let of_tasks = |(tasks, settings)| Changed::Tasks { tasks, settings, nice: None };
    prop_oneof![
        3 => (1usize..5, prop::option::of(prop_oneof![9 => cpus(), 1 => Just(vec![])]),
                prop::option::of(prop::sample::select(Partition::ALL.map(|(_, partition)| partition).to_vec())))
            .prop_map(|(group, cpus, partition)| Changed::Cpuset { group, cpus, partition }),
        1 => (tasks(), 0usize..5)
            .prop_map(move |(tasks, group)| of_tasks((tasks, Settings { group: Some(group), ..Settings::default() }))),
        1 => (tasks(), cpus()).prop_map(move |(tasks, cpus)| {
            let policy = Some(Policy::Other { nice: 0, slice: None });
            of_tasks((tasks, Settings { policy, cpus: Some(cpus), ..Settings::default() }))
        }),
        1 => (tasks(), policy)
            .prop_map(move |(tasks, policy)| of_tasks((tasks, Settings { policy: Some(policy), ..Settings::default() }))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Partitions, CPUs, groups, affinities, policies and hotplug change at any time. Time is conserved, and a run
    /// repeats.
    #[test]
    fn no_task_runs_outside_its_cpuset(
        kernel in prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18", "7.1"]),
        isolated in prop_oneof![Just(0u32), 0u32..31],
        mut changes in prop::collection::vec((0..60u64, any_change()), 0..30),
        mut plugs in prop::collection::vec((0..60u64, 0u32..6), 0..8),
    ) {
        changes.sort_by_key(|(at, _)| *at);
        plugs.sort_unstable();
        let tasks = (0..10_u64).map(|index| {
            let mut ops = vec![Op::Run { work: (1 + index) * 300 * US }];
            if index % 3 > 0 {
                ops.push(Op::Sleep { time: index * 200 * US });
            }
            let mut task = task(&format!("t{index}"), vec![phase(ops, Repeat::Forever)]);
            task.settings.group = Some(index as usize % 5);
            if index % 4 == 3 {
                task = pinned(task, &[index as u32 % 6, 5]);
            }
            task
        });
        let plain = |path: &str, parent| group(path, parent, &[], Partition::Member);
        let groups = vec![plain("/a", 0), plain("/b", 0), plain("/a/c", 1), plain("/a/d", 1)];
        let mut workload = grouped(tasks.collect(), groups, changes);
        let mut config = machine(kernel, "pack:2 core:3", 60);
        // CPU 0 is never isolated or offline.
        config.machine.isolated = (1..6).filter(|cpu| isolated >> (cpu - 1) & 1 == 1).map(CpuId).collect();
        let mut online = [true; 6];
        for (at, cpu) in plugs.into_iter().filter(|(_, cpu)| *cpu > 0) {
            let state = &mut online[cpu as usize];
            *state = !*state;
            workload.hotplug.push(Hotplug { at: at * MS, cpu, online: *state });
        }
        let mut sinks = (Ledger::default(), Digest::default(), Watch::default());
        sinks.2.grace = 1_000_000_000 / u64::from(config.machine.hz);
        match simulate(&workload, &config, &mut sinks) {
            Ok(outcome) => sinks.0.check(&outcome),
            // Too many deadline tasks, or one that is not allowed on all of its root domain.
            Err(Error::Refused { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
        let mut again = Digest::default();
        let _ = simulate(&workload, &config, &mut again);
        prop_assert_eq!(sinks.1.value(), again.value());
    }
}

/// The balance interval depends on the whole cache's CPUs (`sd_init`). Three hogs of a partition of two of 64 CPUs move
/// less often than on a machine of two.
#[test]
fn a_partition_balances_as_seldom_as_the_whole_cache() {
    let moves = |cpus: &str, partition: &[u32]| {
        let groups = match partition {
            [] => vec![],
            cpus => vec![group("/p", 0, cpus, Partition::Root)],
        };
        let tasks = (0..3).map(|number| hog(&format!("h{number}"), groups.len())).collect();
        let mut log = Log::default();
        simulate(&grouped(tasks, groups, vec![]), &machine("6.12", cpus, 6000), &mut log).unwrap();
        log.pick(|_, event| matches!(event, Event::Migrate { .. }).then_some(())).len()
    };
    let (alone, part) = (moves("2", &[]), moves("64", &[0, 1]));
    assert!(alone > 40 && part < alone / 4, "{alone} on a machine of its own, {part} in a partition");
}

/// The allowed imbalance of nodes depends on the partition's CPUs.
#[test]
fn a_partition_fills_its_nodes_evenly() {
    let tasks = (0..4).map(|number| hog(&format!("h{number}"), 1)).collect();
    let cpus = [0, 1, 2, 3, 32, 33, 34, 35];
    let workload = grouped(tasks, vec![group("/p", 0, &cpus, Partition::Root)], vec![]);
    let mut log = Log::default();
    simulate(&workload, &machine("6.12", "pack:2 numa:1 core:32", 20), &mut log).unwrap();
    let nodes = log.pick(|_, event| match event {
        Event::WakeupNew { target, .. } => Some(target.0 / 32),
        _ => None,
    });
    assert_eq!(nodes.iter().filter(|&&node| node == 1).count(), 2, "{nodes:?}");
}
