//! Deferred updates of hierarchy levels give bit-identical results.

use proptest::prelude::*;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::ids::GroupId;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{CpuPlace, GroupWeight, Policy, PolicyKind, Topology};

use crate::bench::{Bench, LATE, release};
use crate::calls::{Call, call};

const DEPTH: usize = 5;

/// Mostly wakeups, sleeps and short times in the deep groups.
fn steps() -> impl Strategy<Value = Vec<Call>> {
    // The bench has six groups; later ones are nested.
    let deep = prop_oneof![3 => Just(5 + DEPTH as u8), 2 => 6u8..6 + DEPTH as u8];
    // SCHED_OTHER, with a requested slice, SCHED_IDLE, SCHED_BATCH.
    let policy = prop_oneof![6 => Just(7u8), 1 => Just(255), 1 => Just(0), 1 => Just(1)];
    let nice = prop_oneof![4 => Just(0i8), 1 => -20i8..20];
    let cpus = prop_oneof![1 => Just(0u8), 1 => any::<u8>()];
    let fork = (any::<u8>(), deep, policy, nice, cpus).prop_map(|(cpu, group, policy, nice, cpus)| Call::Fork {
        cpu,
        nice,
        policy,
        group,
        cpus,
    });
    let short = prop_oneof![6 => 1u32..40, 3 => 40u32..500, 1 => 500u32..3000].prop_map(|us| Call::Pass { us });
    let step = prop_oneof![
        2 => fork,
        20 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(task, cpu, sync)| Call::Wake { task, cpu, sync }),
        14 => any::<u8>().prop_map(|cpu| Call::Block { cpu }),
        4 => any::<u8>().prop_map(|cpu| Call::Tick { cpu }),
        1 => any::<u8>().prop_map(|cpu| Call::Yield { cpu }),
        25 => short,
        1 => call(),
    ];
    prop::collection::vec(step, 100..400)
}

fn machine(cpus: u32) -> Topology {
    let place = |core| CpuPlace { core, cluster: core, llc: 0, package: 0, node: 0, capacity: 1024 };
    Topology::new((0..cpus).map(place).collect(), None).unwrap()
}

/// One bench that defers updates, and one that does not.
fn benches<P: Policy<Tunables = Knobs> + 'static>(cpus: u32, name: &str, weight: u32, feature: &str) -> [Bench<P>; 2] {
    [true, false].map(|quiet| {
        let mut kernel = release(name);
        let _ = kernel.feature(feature);
        let mut bench = Bench::<P>::with_levels(machine(cpus), kernel, 0, quiet);
        let mut parent = GroupId::ROOT;
        for level in 0..DEPTH {
            // A weight other than nice 0's at one level, or at none.
            let weight = if level == 2 { weight } else { 100 };
            parent = bench.with(|scheduler| scheduler.new_group(parent, GroupWeight::Weight(weight)));
            bench.groups.push(parent);
        }
        bench
    })
}

fn compare<P: Policy<Tunables = Knobs> + 'static>(mut benches: [Bench<P>; 2], steps: &[Call], look: usize) {
    for (count, step) in steps.iter().enumerate() {
        let seen = benches.each_mut().map(|bench| {
            bench.apply(step);
            let running: Vec<_> = bench.rqs.iter().map(vruntime_sched::Rq::running).collect();
            let published: Vec<String> = bench.rqs.iter().map(|rq| format!("{:?}", bench.shared.cpu(rq.cpu))).collect();
            (running, published)
        });
        assert_eq!(seen[0], seen[1], "after step {count}, {step:?}");
        // A snapshot flushes deferred updates.
        if count % look == look - 1 {
            #[allow(clippy::redundant_closure_for_method_calls)] // the method is not general enough
            let all = benches.each_mut().map(|bench| bench.with(|s| s.snapshot()));
            if all[0] != all[1] {
                let [quiet, updated] = all.map(|one| format!("{one:#?}"));
                panic!("after step {count}, {step:?}: {}", difference(&quiet, &updated));
            }
        }
    }
}

/// The first different line, with its context.
fn difference(quiet: &str, updated: &str) -> String {
    let at = quiet.lines().zip(updated.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let from = at.saturating_sub(40);
    let context: Vec<&str> = quiet.lines().skip(from).take(at - from).collect();
    let [a, b] = [quiet, updated].map(|text| text.lines().nth(at).unwrap_or_default());
    format!("{}\nput off: {a}\nat once: {b}", context.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn quiet_levels_catch_up_to_where_they_would_have_been(
        cpus in 1u32..4,
        name in prop::sample::select(vec!["3.10", "3.12", "3.18", "6.1", "6.6", "6.12", "6.18", LATE, "7.1"]),
        weight in prop::sample::select(vec![100, 100, 100, 37]),
        feature in prop::sample::select(vec!["GENTLE_FAIR_SLEEPERS", "NEXT_BUDDY", "NO_DELAY_DEQUEUE", "NO_RUN_TO_PARITY"]),
        look in prop::sample::select(vec![1, 7, 50]),
        steps in steps(),
    ) {
        match release(name).policy {
            PolicyKind::Cfs => compare(benches::<Cfs>(cpus, name, weight, feature), &steps, look),
            _ => compare(benches::<Eevdf>(cpus, name, weight, feature), &steps, look),
        }
    }
}

/// A second CPU runs tasks of the group: its weight is split within the same PELT period.
#[test]
fn a_group_that_is_no_longer_alone_shares_its_weight_at_once() {
    // By `calls::some_of`: CPU 0, CPU 1.
    let (first, second) = (161, 162);
    let fork = |cpus| Call::Fork { cpu: 0, nice: 0, policy: 7, group: 5 + DEPTH as u8, cpus };
    let mut steps = vec![fork(first), fork(first), fork(first), Call::Pass { us: 20_000 }, Call::Tick { cpu: 0 }];
    // Tasks leave and return, without an update of the levels above each time.
    let wake = |task| Call::Wake { task, cpu: 0, sync: false };
    let come_and_go = [Call::Block { cpu: 0 }, Call::Pass { us: 30 }, wake(0), wake(1), wake(2)];
    for _ in 0..8 {
        steps.extend(come_and_go.clone());
    }
    steps.push(fork(second));
    steps.extend(come_and_go);
    for name in ["6.1", "6.6", "6.12", "6.18", LATE, "7.1"] {
        match release(name).policy {
            PolicyKind::Cfs => compare(benches::<Cfs>(2, name, 100, "GENTLE_FAIR_SLEEPERS"), &steps, steps.len()),
            _ => compare(benches::<Eevdf>(2, name, 100, "NO_DELAY_DEQUEUE"), &steps, steps.len()),
        }
    }
}
