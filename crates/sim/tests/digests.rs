//! Pinned digests of whole runs: the same input and seed give the same events on every machine and build. Commits that
//! change one state a reason.

use std::ops::ControlFlow;

use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run_dyn};
use vruntime_trace::Digest;
use vruntime_workload::program::{Group, Op, Phase, Policy, Settings, Task, Workload};

fn task(name: String, nice: i8, group: usize, ops: Vec<Op>) -> Task {
    let policy = Some(Policy::Other { nice, slice: None });
    let settings = Settings { policy, group: Some(group), ..Settings::default() };
    Task { settings, ..Task::new(name, [Phase::forever(ops)]) }
}

/// Hogs, wakers and a nested group on eight CPUs with SMT and two caches.
fn mixed() -> Workload {
    let group = |path: &str, parent, weight| Group { path: path.to_owned(), parent, weight, ..Group::default() };
    let mut workload = Workload {
        groups: vec![group("/", None, 100), group("/a", Some(0), 300), group("/a/b", Some(1), 50)],
        ..Workload::default()
    };
    for index in 0..24_u64 {
        let run = Op::Run { work: 150_000 + 37_000 * index };
        let ops = if index % 3 == 0 { vec![run] } else { vec![run, Op::Sleep { time: 400_000 + 91_000 * index }] };
        workload.tasks.push(task(format!("t{index}"), (index % 5) as i8 - 2, (index % 3) as usize, ops));
    }
    workload
}

fn digest(kernel: &str, costs: Costs, seed: u64) -> u64 {
    let mut machine = MachineSpec::new(parse_topology("pack:2 core:2 pu:2").unwrap());
    machine.costs = costs;
    let config =
        Config { duration: Some(300_000_000), seed, ..Config::new(vruntime_sched::kernel(kernel).unwrap(), machine) };
    let mut digest = Digest::default();
    run_dyn(&mixed(), &config, &mut digest, &mut |_| ControlFlow::Continue(())).unwrap();
    digest.value()
}

#[test]
fn digests_are_pinned() {
    let found: Vec<(&str, u64, u64)> = ["6.1", "6.6", "6.12", "6.18", "7.1"]
        .map(|kernel| (kernel, digest(kernel, Costs::ZERO, 0), digest(kernel, Costs::EMULATED, 7)))
        .to_vec();
    let pinned = [
        ("6.1", 15_266_796_777_025_019_127, 14_241_714_535_896_311_138),
        ("6.6", 8_943_512_921_266_561_052, 12_279_558_652_979_178_972),
        ("6.12", 4_793_812_369_070_374_489, 5_140_059_080_463_340_773),
        ("6.18", 10_307_640_860_043_918_311, 2_767_331_487_745_636_864),
        ("7.1", 16_285_845_261_059_774_099, 171_684_519_325_100_878),
    ];
    assert_eq!(found, pinned);
}
