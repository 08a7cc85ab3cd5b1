//! Random changes: no group exceeds its limit, and EEVDF's invariants hold.

use proptest::prelude::*;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{CpuMask, Limit, Policy, PolicyKind, kernel};

use crate::KERNELS;
use crate::bench::{Bench, MS, US};

#[derive(Clone, Debug)]
enum Step {
    Fork { group: u8, cpu: u8, nice: i8, slice: Option<u64> },
    Toggle { task: u8 },
    Limit { group: u8, quota: u64, period: u64, burst: u8 },
    NoLimit { group: u8 },
    Move { task: u8, group: u8 },
    Affinity { task: u8, cpus: u8 },
    Nice { task: u8, nice: i8 },
    Hotplug { cpu: u8 },
    Pass { us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<u8>(), any::<u8>(), -20i8..20, prop::option::weighted(0.3, 100_000u64..20_000_000))
            .prop_map(|(group, cpu, nice, slice)| Step::Fork { group, cpu, nice, slice }),
        4 => any::<u8>().prop_map(|task| Step::Toggle { task }),
        2 => (any::<u8>(), MS..40 * MS, MS..60 * MS, any::<u8>())
            .prop_map(|(group, quota, period, burst)| Step::Limit { group, quota, period, burst }),
        1 => any::<u8>().prop_map(|group| Step::NoLimit { group }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, group)| Step::Move { task, group }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, cpus)| Step::Affinity { task, cpus }),
        1 => (any::<u8>(), -20i8..20).prop_map(|(task, nice)| Step::Nice { task, nice }),
        1 => any::<u8>().prop_map(|cpu| Step::Hotplug { cpu }),
        6 => (1u64..40_000).prop_map(|us| Step::Pass { us }),
    ]
}

fn random<P: Policy<Tunables = Knobs> + 'static>(cpus: u32, name: &str, parents: &[usize], steps: &[Step]) {
    let mut bench = Bench::<P>::new(cpus, name, parents);
    for step in steps {
        let tasks: Vec<TaskId> = bench.group_of.keys().copied().collect();
        let task = |byte: u8| (!tasks.is_empty()).then(|| tasks[byte as usize % tasks.len()]);
        match *step {
            Step::Fork { group, cpu, nice, slice } if tasks.len() < 30 => {
                bench.fork_as(group as usize, u32::from(cpu), nice, slice);
            }
            Step::Fork { .. } => {}
            Step::Toggle { task: byte } => {
                if let Some(task) = task(byte) {
                    bench.toggle(task);
                }
            }
            Step::Limit { group, quota, period, burst } => {
                let limit = Limit::new(quota, period, quota * u64::from(burst) / 255).unwrap();
                bench.limit(group as usize, Some(limit));
            }
            Step::NoLimit { group } => bench.limit(group as usize, None),
            Step::Move { task: byte, group } => {
                if let Some(task) = task(byte) {
                    bench.move_to(task, group as usize);
                }
            }
            Step::Affinity { task: byte, cpus: bits } => {
                let mask: CpuMask = (0..cpus).filter(|cpu| bits >> cpu & 1 != 0).map(CpuId).collect();
                if let Some(task) = task(byte).filter(|_| !mask.is_empty()) {
                    let possible = mask.intersects(&bench.shared.online());
                    bench.requeues(task);
                    let done = bench.with(|s| s.set_affinity(task, Some(mask.into()), CpuId(0)));
                    assert_eq!(done.is_ok(), possible, "{done:?}");
                    bench.obey();
                }
            }
            // 6.12 does not scale the rest of a request with the weight of a dequeued task: a heavier one then owes
            // more than a slice.
            Step::Nice { task: byte, nice } => {
                if let Some(task) = task(byte).filter(|_| name != "6.12") {
                    bench.requeues(task);
                    bench.with(|s| s.set_nice(task, nice));
                    bench.obey();
                }
            }
            Step::Hotplug { cpu } => bench.hotplug(CpuId(u32::from(cpu) % cpus)),
            Step::Pass { us } => {
                let end = bench.now + us * US;
                bench.run_until(end);
            }
        }
        bench.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_group_uses_more_than_its_limit_and_lags_keep_their_bounds(
        cpus in 1u32..5,
        name in prop::sample::select(KERNELS.to_vec()),
        parents in prop::collection::vec(0usize..6, 1..6),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        if kernel(name).unwrap().policy == PolicyKind::Cfs {
            random::<Cfs>(cpus, name, &parents, &steps);
        } else {
            random::<Eevdf>(cpus, name, &parents, &steps);
        }
    }
}
