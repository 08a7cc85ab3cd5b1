//! Random calls of a host.

use std::sync::Arc;

use proptest::prelude::*;
use vruntime_sched::ids::CpuId;
use vruntime_sched::{CpuMask, SchedPolicy};

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Fork { cpu: u8, nice: i8, policy: u8, group: u8, cpus: u8 },
    Wake { task: u8, cpu: u8, sync: bool },
    Block { cpu: u8 },
    Exit { cpu: u8 },
    Yield { cpu: u8 },
    Exec { cpu: u8 },
    Tick { cpu: u8 },
    Nice { task: u8, nice: i8 },
    Group { task: u8, group: u8 },
    Weight { group: u8, weight: u16 },
    IdleGroup { group: u8, idle: bool },
    Affinity { task: u8, cpus: u8 },
    Policy { task: u8, policy: u8, priority: u8 },
    Boost { task: u8, priority: Option<u8> },
    Limit { group: u8, quota_us: u32, period_us: u32, burst: u8 },
    NoLimit { group: u8 },
    Clamp { task: u8, min: Option<u32>, max: Option<u32> },
    GroupClamp { group: u8, min: u32, max: u32 },
    RtLimit { group: u8, runtime_us: u32, period_us: u32 },
    User { cpu: u8 },
    Hotplug { cpu: u8, online: bool },
    Cpus { group: u8, cpus: u8 },
    Partition { group: u8, kind: u8 },
    Pass { us: u32 },
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    use Call::{Affinity, Block, Exec, Exit, Fork, Group, Limit, Nice, NoLimit, Pass, Tick, User, Wake, Weight, Yield};
    prop_oneof![
        3 => (any::<u8>(), -20i8..20, any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(cpu, nice, policy, group, cpus)| Fork { cpu, nice, policy, group, cpus }),
        8 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(task, cpu, sync)| Wake { task, cpu, sync }),
        7 => any::<u8>().prop_map(|cpu| Block { cpu }),
        1 => any::<u8>().prop_map(|cpu| Exit { cpu }),
        1 => any::<u8>().prop_map(|cpu| Yield { cpu }),
        1 => any::<u8>().prop_map(|cpu| Exec { cpu }),
        8 => any::<u8>().prop_map(|cpu| Tick { cpu }),
        1 => (any::<u8>(), -20i8..20).prop_map(|(task, nice)| Nice { task, nice }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, group)| Group { task, group }),
        1 => (any::<u8>(), 1u16..10_000).prop_map(|(group, weight)| Weight { group, weight }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(group, idle)| Call::IdleGroup { group, idle }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, cpus)| Affinity { task, cpus }),
        2 => (any::<u8>(), any::<u8>(), 1u8..6)
            .prop_map(|(task, policy, priority)| Call::Policy { task, policy, priority }),
        1 => (any::<u8>(), prop::option::of(1u8..8)).prop_map(|(task, priority)| Call::Boost { task, priority }),
        2 => (any::<u8>(), 1000u32..12_000, 1000u32..30_000, any::<u8>())
            .prop_map(|(group, quota_us, period_us, burst)| Limit { group, quota_us, period_us, burst }),
        1 => any::<u8>().prop_map(|group| NoLimit { group }),
        1 => (any::<u8>(), prop::option::of(0u32..1030), prop::option::of(0u32..1030))
            .prop_map(|(task, min, max)| Call::Clamp { task, min, max }),
        1 => (any::<u8>(), 0u32..1030, 0u32..1030).prop_map(|(group, min, max)| Call::GroupClamp { group, min, max }),
        2 => (any::<u8>(), 0u32..8_000, 1_000u32..40_000)
            .prop_map(|(group, runtime_us, period_us)| Call::RtLimit { group, runtime_us, period_us }),
        6 => any::<u8>().prop_map(|cpu| User { cpu }),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(cpu, online)| Call::Hotplug { cpu, online }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(group, cpus)| Call::Cpus { group, cpus }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(group, kind)| Call::Partition { group, kind }),
        12 => (1u32..6000).prop_map(|us| Pass { us }),
    ]
}

pub(crate) fn policy_of(byte: u8) -> SchedPolicy {
    match byte % 8 {
        0 => SchedPolicy::Idle,
        1 => SchedPolicy::Batch,
        2 => SchedPolicy::Fifo,
        3 => SchedPolicy::RoundRobin,
        4 => SchedPolicy::Deadline,
        _ => SchedPolicy::Normal,
    }
}

/// The affinity of a task; mostly all CPUs.
pub(crate) fn mask_of(byte: u8, nr_cpus: usize) -> Option<Arc<CpuMask>> {
    (byte >= 160).then(|| Arc::new(some_of(byte, nr_cpus)))
}

/// At least one CPU: bits of a five-CPU pattern, repeated every 32 CPUs; empty stands for CPU 0.
pub(crate) fn some_of(byte: u8, nr_cpus: usize) -> CpuMask {
    let mut mask: CpuMask =
        (0..nr_cpus as u32).filter(|cpu| ((u32::from(byte) * 37) >> (cpu % 5)) & 1 == 1).map(CpuId).collect();
    if mask.is_empty() {
        mask.insert(CpuId(0));
    }
    mask
}
