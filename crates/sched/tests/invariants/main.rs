//! Invariants hold after random calls, under every kernel.

mod bench;
mod calls;
mod check;
#[path = "../lags/mod.rs"]
mod lags;
mod quiet;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use vruntime_sched::class::cfs_2007::Cfs2007;
use vruntime_sched::class::deadline::DlAttrs;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::class::o1::O1;
use vruntime_sched::ids::CpuId;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{CpuPlace, Policy, PolicyKind, SchedAttr, SchedPolicy, TaskAttrs, Topology};

use bench::{Bench, LATE, release};
use calls::{Call, call};

/// Failed cases are kept beside this file and tried first.
fn config(cases: u32) -> ProptestConfig {
    let kept = FileFailurePersistence::Direct("tests/invariants/regressions.txt");
    ProptestConfig { cases, failure_persistence: Some(Box::new(kept)), ..ProptestConfig::default() }
}

fn machines() -> impl Strategy<Value = Topology> {
    let place = |cores: u32, threads: u32, llc: u32, big: bool| {
        let cpus = (0..cores * threads)
            .map(|cpu| CpuPlace {
                core: cpu / threads,
                cluster: cpu / threads,
                llc: cpu / (threads * llc),
                package: cpu / (threads * llc),
                node: cpu / (threads * llc),
                capacity: if big && cpu % 2 == 0 { 512 } else { 1024 },
            })
            .collect();
        Topology::new(cpus, None).unwrap()
    };
    (1u32..5, 1u32..3, 1u32..3, any::<bool>())
        .prop_map(move |(cores, threads, llc, big)| place(cores, threads, llc, big && threads == 1))
}

/// A machine that keeps sums of caches.
fn large_machine() -> Topology {
    let place = |cpu: u32| CpuPlace {
        core: cpu / 2,
        cluster: cpu / 2,
        llc: cpu / 8,
        package: cpu / 32,
        node: cpu / 32,
        capacity: if cpu % 16 < 4 { 400 } else { 1024 },
    };
    Topology::new((0..64).map(place).collect(), None).unwrap()
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn sums_of_caches_are_exact_after_every_call(calls in prop::collection::vec(call(), 200..300)) {
        let mut bench = Bench::<Eevdf>::new(large_machine(), "6.12", 0);
        for call in &calls {
            bench.apply(call);
        }
    }
}

const KERNELS: [&str; 14] = [
    "2.6.15",
    "2.6.15-cpurc",
    "2.6.22",
    "2.6.23",
    "3.10",
    "3.12",
    "3.17",
    "3.18",
    "6.1",
    "6.6",
    "6.12",
    "6.18",
    LATE,
    "7.1",
];

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn invariants_hold_after_every_call(
        topology in machines(),
        name in prop::sample::select(KERNELS.to_vec()),
        isolated in prop_oneof![3 => Just(0u8), 1 => any::<u8>()],
        calls in prop::collection::vec(call(), 1..300),
    ) {
        fn all<P: Policy<Tunables = Knobs> + 'static>(topology: Topology, name: &str, isolated: u8, calls: &[Call]) {
            let mut bench = Bench::<P>::new(topology, name, isolated);
            for call in calls {
                bench.apply(call);
            }
        }
        match release(name).policy {
            PolicyKind::O1 => all::<O1>(topology, name, isolated, &calls),
            PolicyKind::Cfs2007 => all::<Cfs2007>(topology, name, isolated, &calls),
            PolicyKind::Cfs => all::<Cfs>(topology, name, isolated, &calls),
            PolicyKind::Eevdf => all::<Eevdf>(topology, name, isolated, &calls),
        }
    }
}

/// It sleeps throttled, inherits a deadline into its next period, wakes without it, and is queued.
#[test]
fn a_boost_that_ends_before_its_task_wakes_leaves_it_able_to_run() {
    let mut bench = Bench::<Eevdf>::new(
        Topology::new(vec![CpuPlace { core: 0, cluster: 0, llc: 0, package: 0, node: 0, capacity: 1024 }], None)
            .unwrap(),
        "6.6",
        0,
    );
    let task = bench.with(|s| s.new_task(&TaskAttrs::default(), CpuId(0)));
    bench.with(|s| s.wake_new(task, CpuId(0)));
    bench.tasks.push(task);
    let deadline = DlAttrs { runtime: 1_000_000, deadline: 10_000_000, period: 10_000_000, ..DlAttrs::default() };
    bench.with(|s| {
        s.set_scheduler(task, SchedAttr { policy: SchedPolicy::Deadline, deadline, ..SchedAttr::default() }).unwrap();
    });
    bench.apply(&Call::Pass { us: 500 });
    // It overruns, and sleeps before an update.
    bench.now += 5_000_000;
    bench.apply(&Call::Block { cpu: 0 });
    bench.apply(&Call::Boost { task: 0, priority: Some(6) });
    bench.apply(&Call::Pass { us: 50_000 });
    bench.apply(&Call::Boost { task: 0, priority: None });
    bench.apply(&Call::Wake { task: 0, cpu: 0, sync: false });
    bench.apply(&Call::Pass { us: 100 });
    assert_eq!(bench.rqs[0].running().task(), Some(task));
}

proptest! {
    #![proptest_config(config(2000))]

    /// On CPUs that lend each other runtime, or do not.
    #[test]
    fn invariants_hold_with_real_time_groups(
        topology in machines(),
        name in prop::sample::select(vec!["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", LATE, "7.1"]),
        share in any::<bool>(),
        limits in prop::collection::vec((0u32..3_000, 5_000u32..20_000), 5),
        calls in prop::collection::vec(call(), 1..300),
    ) {
        let mut kernel = release(name);
        kernel.rt_group_sched = true;
        kernel.feature(if share { "RT_RUNTIME_SHARE" } else { "NO_RT_RUNTIME_SHARE" }).unwrap();
        let limit = |(group, (runtime_us, period_us))| Call::RtLimit { group, runtime_us, period_us };
        let calls = (1u8..).zip(limits).map(limit).chain(calls);
        if kernel.policy == PolicyKind::Cfs {
            let mut bench = Bench::<Cfs>::under(topology, kernel, 0);
            calls.for_each(|call| bench.apply(&call));
        } else {
            let mut bench = Bench::<Eevdf>::under(topology, kernel, 0);
            calls.for_each(|call| bench.apply(&call));
        }
    }
}
