//! Messages' short path has the results of the long one, which observers of loops need.

mod support;

use proptest::prelude::*;
use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernel;
use vruntime_sim::{Config, Costs, Error, MachineSpec, parse_topology};
use vruntime_trace::{Digest, Sink};
use vruntime_workload::program::*;

/// A digest of all events, optionally with loops.
struct Watcher {
    events: Digest,
    loops: bool,
}

impl Sink for Watcher {
    fn wants_loops(&self) -> bool {
        self.loops
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.events.event(at, cpu, event);
    }
}

const PIPES: usize = 3;

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![Just(0_u32), Just(1), Just(100), 1_u32..=4096];
    let message = (0..PIPES, bytes, any::<bool>()).prop_map(|(pipe, bytes, write)| {
        if write { Op::PipeWrite { pipe, bytes } } else { Op::PipeRead { pipe, bytes } }
    });
    prop_oneof![8 => message, 1 => (0_u64..300).prop_map(run), 1 => (1_u64..500).prop_map(sleep)]
}

fn pipes() -> impl Strategy<Value = Vec<Pipe>> {
    let capacity = prop_oneof![Just(65_536_u32), Just(4096), 9000_u32..40_000];
    let kind = prop_oneof![2 => Just(Channel::Pipe), 1 => Just(Channel::Socket)];
    let pipe = (capacity, kind).prop_map(|(capacity, kind)| Pipe { name: "p".to_owned(), capacity, kind });
    prop::collection::vec(pipe, PIPES)
}

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let repeat = prop_oneof![3 => Just(Repeat::Forever), 1 => (1_u64..50).prop_map(Repeat::Times)];
    let program = (prop::collection::vec(op(), 1..6), repeat).prop_map(|(ops, repeat)| phase(ops, repeat));
    prop::collection::vec(prop::collection::vec(program, 1..3).prop_map(|phases| task("t", phases)), 1..8)
}

/// The outcome, and the digest of the events.
fn outcome(workload: &Workload, config: &Config, loops: bool) -> (String, u64) {
    let mut watcher = Watcher { events: Digest::default(), loops };
    let outcome = simulate(workload, config, &mut watcher);
    if let Err(error) = &outcome {
        assert!(matches!(error, Error::NoProgress { .. } | Error::Stalled { .. }), "{error}");
    }
    (format!("{outcome:?}"), watcher.events.value())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_short_way_is_the_long_way(
        tasks in tasks(),
        pipes in pipes(),
        (kernel_name, cpus) in (prop::sample::select(&["6.12", "6.1", "6.18", "3.10"]), 1_u32..4),
        costs in prop::sample::select(&["default", "zero", "vm", "call"]),
        (seed, stop) in (0_u64..1000, prop::sample::select(&[Stop::AtOnce, Stop::AfterInstruction])),
    ) {
        let mut spec = MachineSpec::new(parse_topology(&cpus.to_string()).unwrap());
        spec.costs = Costs::profile(if costs == "call" { "zero" } else { costs }).unwrap();
        if costs == "call" {
            (spec.costs.syscall_ns, spec.costs.socket_ns, spec.costs.cold_socket_ns) = (700, 0, 40_000);
        }
        let config = Config { duration: Some(10 * MS), seed, ..Config::new(kernel(kernel_name).unwrap(), spec) };
        let mut workload = Workload { pipes, stop, ..workload(tasks) };
        // A group that is throttled now and then.
        let max = Some(Bandwidth { quota: MS, period: 2 * MS, burst: 0 });
        workload.groups.push(Group { path: "/g".to_owned(), parent: Some(0), weight: 100, max, ..Group::default() });
        for task in &mut workload.tasks[1..] {
            task.settings.group = Some(1);
        }
        prop_assert_eq!(outcome(&workload, &config, false), outcome(&workload, &config, true));
    }
}
