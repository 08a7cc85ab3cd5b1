//! No nanosecond is lost: busy + idle + overhead of every CPU is the run, and running + waiting + sleeping of every
//! task its life. Sums of the events equal the machine's own accounts, over random machines and workloads, and a run
//! repeats.

mod support;

use proptest::prelude::*;
use support::*;
use vruntime_report::Collector;
use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sim::stalls::Stall;
use vruntime_sim::{Config, Costs, MachineSpec, Preempt, parse_topology};
use vruntime_trace::{Digest, Sink};
use vruntime_workload::program::*;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u64..3_000_000).prop_map(|work| Op::Run { work }),
        2 => (1u64..500_000).prop_map(|time| Op::Runtime { time }),
        6 => (0u64..5_000_000).prop_map(|time| Op::Sleep { time }),
        2 => (1u64..4_000_000, any::<bool>()).prop_map(|(period, relative)| Op::Timer {
            timer: usize::from(relative),
            period,
            mode: if relative { TimerMode::Relative } else { TimerMode::Absolute },
        }),
        2 => Just(Op::Yield),
        1 => Just(Op::Exec),
        2 => Just(Op::SemPost(0)),
        1 => Just(Op::SemWait(0)),
        2 => Just(Op::Signal(0)),
        2 => Just(Op::Broadcast(1)),
        1 => Just(Op::Suspend { condition: 1, mutex: 3 }),
        1 => Just(Op::Barrier(0)),
        2 => (1u32..200).prop_map(|bytes| Op::PipeWrite { pipe: 0, bytes }),
        1 => (1u32..200).prop_map(|bytes| Op::PipeRead { pipe: 0, bytes }),
        1 => (1u64..100_000).prop_map(|bytes| Op::Io { bytes }),
    ]
}

/// A few operations, some of them inside a critical section.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let section = (0usize..3, prop::collection::vec(op(), 0..3), any::<bool>()).prop_map(|(mutex, inner, waits)| {
        let mut ops = vec![Op::Lock(mutex)];
        ops.extend(inner);
        if waits {
            ops.push(Op::Sync { condition: 0, mutex });
        }
        ops.push(Op::Unlock(mutex));
        ops
    });
    let part = prop_oneof![4 => op().prop_map(|op| vec![op]), 1 => section];
    // At least one operation takes time.
    (1u64..1_000_000, prop::collection::vec(part, 0..5)).prop_map(|(work, parts)| {
        let mut ops = vec![Op::Run { work }];
        ops.extend(parts.into_iter().flatten());
        ops
    })
}

fn settings(cpus: usize) -> impl Strategy<Value = Settings> {
    let policy = prop_oneof![
        3 => (-20i8..=19).prop_map(|nice| Policy::Other { nice, slice: None }),
        1 => (-20i8..=19).prop_map(|nice| Policy::Batch { nice, slice: None }),
        1 => Just(Policy::Idle),
        1 => (1u8..5).prop_map(|priority| Policy::Fifo { priority }),
        1 => (1u8..5).prop_map(|priority| Policy::RoundRobin { priority }),
    ];
    let affinity = prop::collection::btree_set(0..cpus as u32, 1..=cpus).prop_map(|set| set.into_iter().collect());
    (prop::option::of(policy), prop::option::of(affinity), prop::option::of(0usize..4))
        .prop_map(|(policy, cpus, group)| Settings { policy, cpus, group, ..Settings::default() })
}

fn tasks(cpus: usize) -> impl Strategy<Value = Vec<Task>> {
    let phases = prop::collection::vec((ops(), 1u64..20, prop::option::weighted(0.3, settings(cpus))), 1..3);
    let one = (phases, settings(cpus), 0u64..10_000_000, any::<bool>(), any::<bool>());
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let last = all.len() - 1;
        let build =
            |(index, (phases, settings, start, forever, forks)): (usize, (Vec<_>, Settings, u64, bool, bool))| {
                let build_phase = |(mut ops, times, settings): (Vec<Op>, u64, Option<Settings>)| {
                    if forks && index < last {
                        // Where costs are zero, a loop of a few nanoseconds would fork too many tasks.
                        ops.extend([Op::Run { work: 20_000 }, Op::Fork(last)]);
                    }
                    let settings = settings.unwrap_or_default();
                    Phase { settings, ..phase(ops, Repeat::Times(times)) }
                };
                let phases: Vec<Phase> = phases.into_iter().map(build_phase).collect();
                // The forked task ends, or the run gets long.
                let repeat = if forever && index < last { Repeat::Forever } else { Repeat::Times(1) };
                let start = (index < last || last == 0).then_some(start);
                Task { settings, start, repeat, ..task(&format!("t{index}"), phases) }
            };
        all.into_iter().enumerate().map(build).collect()
    })
}

fn config() -> impl Strategy<Value = (Config, usize)> {
    let topology = prop::sample::select(vec![
        "1",
        "2",
        "pack:1 core:2 pu:2",
        "pack:2 core:2 pu:1",
        "pack:1 core:4(capacity=1024,333)",
        "numa:2 core:2 pu:2",
    ]);
    let kernel = prop::sample::select(vec!["6.1", "6.6", "6.12", "6.18", "7.1"]);
    let costs = prop::sample::select(Costs::PROFILES.to_vec());
    let preempt = prop::sample::select(vec![Preempt::None, Preempt::Full]);
    let hz = prop::sample::select(vec![100u32, 250, 300, 1000]);
    let host_cpus = prop::option::weighted(0.3, 1u32..4);
    let stall = (1u64..8 * MS, 0u64..20 * MS).prop_map(|(length_ns, every_ns)| Stall { length_ns, every_ns });
    let host = (host_cpus, prop::option::weighted(0.3, stall));
    (topology, kernel, costs, preempt, hz, any::<bool>(), 0u64..3, any::<bool>(), host).prop_map(
        |(topology, kernel, costs, preempt, hz, autogroup, seed, skew_tick, (host_cpus, stalls))| {
            let mut spec = MachineSpec::new(parse_topology(topology).unwrap());
            spec.costs = Costs::profile(costs).unwrap();
            spec.hz = hz;
            spec.skew_tick = skew_tick;
            spec.host_cpus = host_cpus;
            spec.stalls = stalls;
            let cpus = spec.topology.nr_cpus();
            let kernel = vruntime_sched::kernel(kernel).unwrap();
            let config = Config { preempt, autogroup, seed, duration: Some(60 * MS), ..Config::new(kernel, spec) };
            (config, cpus)
        },
    )
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let limit = (1u64..20, 1u64..20, 0u64..=100).prop_map(|(quota, period, burst)| Bandwidth {
        quota: quota * MS,
        period: period * MS,
        burst: quota * MS * burst / 100,
    });
    prop::collection::vec(prop::option::weighted(0.4, limit), 3).prop_map(|limits| {
        let group =
            |path: &str, parent, weight, max| Group { path: path.to_owned(), parent, weight, max, ..Group::default() };
        vec![
            group("/", None, 100, None),
            group("/a", Some(0), 300, limits[0]),
            group("/b", Some(0), 50, limits[1]),
            group("/a/c", Some(1), 100, limits[2]),
        ]
    })
}

/// No task starts, wakes or moves on an offline CPU. None stays there beyond a tick and the kernel's path to the
/// stopper.
#[derive(Default)]
struct NobodyOffline {
    /// The time it went offline.
    offline: std::collections::BTreeMap<CpuId, u64>,
    running: std::collections::BTreeMap<CpuId, Running>,
    most: u64,
}

impl Sink for NobodyOffline {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match *event {
            Event::CpuDown => assert_eq!(self.offline.insert(cpu, at), None),
            Event::CpuUp => assert!(self.offline.remove(&cpu).is_some()),
            Event::Wakeup { target, .. } | Event::WakeupNew { target, .. } => {
                assert!(!self.offline.contains_key(&target), "at {at}: {event:?}");
            }
            Event::Migrate { to, .. } => assert!(!self.offline.contains_key(&to), "at {at}: {event:?}"),
            Event::Switch { next, .. } => {
                self.running.insert(cpu, next);
                assert!(next.task().is_none() || !self.offline.contains_key(&cpu), "at {at} on {cpu}: {event:?}");
            }
            _ => {}
        }
        for (cpu, since) in &self.offline {
            let runs = self.running.get(cpu).is_some_and(|running| *running != Running::Idle);
            assert!(!runs || at - since <= self.most, "at {at} CPU {cpu} still works, offline since {since}");
        }
    }
}

const NONE: Vec<u64> = Vec::new();

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn time_is_conserved_and_runs_repeat(
        (config, tasks, hotplug) in
            config().prop_flat_map(|(config, cpus)| (Just(config), tasks(cpus), hotplug(cpus, 60 * MS))),
        groups in groups(),
        counts in any::<bool>(),
    ) {
        let mut config = config;
        config.kernel.group_switches = counts;
        let workload = Workload { groups, hotplug, ..workload(tasks) };
        let mut sinks = (
            (Ledger::default(), Collector::new(config.machine.topology.nr_cpus())),
            Digest::default(),
            NobodyOffline::default(),
        );
        let costs = &config.machine.costs;
        sinks.2.most = 1_000_000_000 / u64::from(config.machine.hz) + 2 * (costs.exec_ns + costs.fork_ns);
        if config.machine.host_cpus.is_some() || config.machine.stalls.is_some() {
            // The host may delay the stop.
            sinks.2.most = 61 * MS;
        }
        let outcome = simulate(&workload, &config, &mut sinks).unwrap();
        let ((mut ledger, collector), digest, _) = sinks;
        prop_assert!(outcome.end <= 60 * MS + MS);
        ledger.check(&outcome);
        // The scheduler's counts equal those of the events, including switches to idle.
        let results = collector.into_results();
        let traced: Vec<u64> = results.groups.iter().map(|group| group.switches).collect();
        prop_assert_eq!(&outcome.group_switches, if counts { &traced } else { &NONE });
        // Observers receive them.
        let counted: Vec<u64> = results.groups.iter().filter_map(|group| group.counted_switches).collect();
        prop_assert_eq!(&counted, &outcome.group_switches);
        prop_assert_eq!(results.loadavg, Some(outcome.loadavg));
        let mut again = Digest::default();
        let second = simulate(&workload, &config, &mut again).unwrap();
        prop_assert_eq!(digest.value(), again.value());
        prop_assert_eq!(outcome, second);
    }
}
