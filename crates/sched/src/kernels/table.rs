//! The table of supported kernels.

use alloc::vec;
use alloc::vec::Vec;

use super::{Behaviour, Behaviours, Kernel, MS, PolicyKind};
use crate::features::{Feature, Features};

/// What most kernels have in common. A row of the table states the rest.
fn row() -> Kernel {
    Kernel {
        name: "",
        release: "",
        vendor: "",
        policy: PolicyKind::Cfs,
        features: Features::of(&[]),
        behaviours: Behaviours::default(),
        rt_group_sched: false,
        group_switches: false,
        base_slice_ns: 750_000,
        migration_cost_ns: 500_000,
        unverified: "",
        change: "",
        extra: &[],
        lacks: &[],
        plus: &[],
        minus: &[],
        overrides: Vec::new(),
        forced: Vec::new(),
    }
}

/// Behaviours that were not distinguished when these kernels were added.
const IN_3: &[Behaviour] = &[Behaviour::EmptyKeepsWeight, Behaviour::SmtIgnoresHeat];
const IN_3_17: &[Behaviour] = &[Behaviour::EmptyKeepsWeight, Behaviour::SmtIgnoresHeat, Behaviour::AnyLoaded];

/// On in all supported kernels from 6.1 on.
const COMMON: &[Feature] = &[
    Feature::CacheHotBuddy,
    Feature::WakeupPreemption,
    Feature::NontaskCapacity,
    Feature::TtwuQueue,
    Feature::SisUtil,
    Feature::AttachAgeLoad,
    Feature::WaIdle,
    Feature::WaWeight,
    Feature::WaBias,
    Feature::UtilEst,
    // Newer, but in every stable kernel since late 2025: the recorded 6.1.y and 6.12.y have it.
    Feature::NiRandom,
];

/// On in all supported kernels from 5.4 on.
const FROM_5_4: &[Feature] = &[
    Feature::CacheHotBuddy,
    Feature::WakeupPreemption,
    Feature::NontaskCapacity,
    Feature::TtwuQueue,
    Feature::AttachAgeLoad,
    Feature::WaIdle,
    Feature::WaWeight,
    Feature::WaBias,
    Feature::UtilEst,
];

const UP_TO_5_19: &[Feature] = &[Feature::SisProp, Feature::RtPushIpi];

const UP_TO_5_9: &[Feature] = &[Feature::RtRuntimeShare];

const UP_TO_4_19: &[Feature] = &[Feature::LbBias];

/// On up to 5.12, which has neither ALT_PERIOD nor BASE_SLICE.
const CFS_5_5: &[Feature] = &[Feature::GentleFairSleepers, Feature::StartDebit, Feature::LastBuddy];

/// On in mainline 6.0+; stable releases of 6.1 and 6.12 leave RT_PUSH_IPI to PREEMPT_RT.
const FROM_6_0: &[Feature] = &[Feature::RtPushIpi, Feature::SisUtil];

const UP_TO_6_6: &[Feature] = &[Feature::UtilEstFastup];

const CFS_6_1: &[Feature] =
    &[Feature::GentleFairSleepers, Feature::StartDebit, Feature::LastBuddy, Feature::AltPeriod, Feature::BaseSlice];

const CFS_3_10: &[Feature] = &[
    Feature::CacheHotBuddy,
    Feature::WakeupPreemption,
    Feature::TtwuQueue,
    Feature::GentleFairSleepers,
    Feature::StartDebit,
    Feature::LastBuddy,
    Feature::LbBias,
    Feature::RtRuntimeShare,
];

const UP_TO_3_15: &[Feature] = &[Feature::ArchPower, Feature::NontaskPower];
const FROM_3_16: &[Feature] = &[Feature::ArchCapacity, Feature::NontaskCapacity, Feature::NumaFavourHigher];

/// Features that come with EEVDF, and those that go with CFS.
pub(super) const EEVDF: &[Feature] = EEVDF_6_6;
pub(super) const CFS: &[Feature] = CFS_6_1;

const EEVDF_6_6: &[Feature] = &[Feature::PlaceLag, Feature::PlaceDeadlineInitial, Feature::RunToParity];

/// On in the source of 6.18.15, 6.19.14 and 7.0.13. The recorded stable releases of 6.1 and 6.12, and 7.1, leave it to
/// PREEMPT_RT.
const EEVDF_6_18: &[Feature] = &[Feature::RtPushIpi];

const FROM_7_1: &[Feature] = &[Feature::Hrtick, Feature::HrtickDl, Feature::NiRate];

const fn features(lists: &[&[Feature]]) -> Features {
    let mut all = Features::of(&[]);
    let mut index = 0;
    while index < lists.len() {
        all = Features::union(all, Features::of(lists[index]));
        index += 1;
    }
    all
}

const EEVDF_6_12: &[Feature] =
    &[Feature::PlaceRelDeadline, Feature::PreemptShort, Feature::PickBuddy, Feature::DelayDequeue, Feature::DelayZero];

/// Returns all kernels, oldest first, without their behaviours.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Kernel> {
    vec![
        Kernel {
            name: "2.6.15",
            release: "2.6.15",
            migration_cost_ns: 2_500_000,
            policy: PolicyKind::O1,
            features: Features::of(&[]),
            base_slice_ns: 100 * MS,
            change: "The O(1) scheduler (January 2006): slices of 5 to 800 ms by nice value, an active and an expired priority \
                 array. A task that sleeps much is interactive and stays in the active array. Balancing counts tasks.",
            ..row()
        },
        Kernel {
            name: "2.6.15-cpurc",
            release: "2.6.15",
            migration_cost_ns: 2_500_000,
            policy: PolicyKind::O1,
            features: Features::of(&[
                Feature::CpuRcHungry,
                Feature::CpuRcScaling,
                Feature::CpuRcRequeue,
                Feature::CpuRcTick,
                Feature::CpuRcWaiting,
            ]),
            base_slice_ns: 100 * MS,
            change: "2.6.15 with CKRM's CPU resource controller (a patch of January 2006): groups below the root are classes \
                 with guarantees. If a class is hungry, the slices of the others are scaled down, and its own tasks can stay in \
                 the active array.",
            ..row()
        },
        Kernel {
            name: "2.6.22",
            release: "2.6.22",
            migration_cost_ns: 2_500_000,
            policy: PolicyKind::O1,
            features: Features::of(&[]),
            base_slice_ns: 100 * MS,
            change: "The last O(1) scheduler (July 2007): SCHED_BATCH (2.6.16); one long sleep makes a task at most interactive \
                 (2.6.17); balancing weighs tasks by their slices (smpnice, 2.6.18).",
            ..row()
        },
        Kernel {
            name: "2.6.23",
            release: "2.6.23",
            migration_cost_ns: 0,
            policy: PolicyKind::Cfs2007,
            features: Features::of(&[
                Feature::FairSleepers,
                Feature::SleeperAvg,
                Feature::SleeperLoadAvg,
                Feature::StartDebit,
                Feature::PreciseCpuLoad,
            ]),
            base_slice_ns: 8 * MS,
            change: "The first CFS, as of 2 August 2007 (rc2; the granularity does not shrink with the number of tasks, as that \
                 of the release does). No slices: each task is owed what a fair CPU would have given it (wait_runtime). The \
                 task that is owed most runs, once the difference exceeds the granularity. SCHED_IDLE.",
            ..row()
        },
        Kernel {
            name: "3.10",
            release: "3.10",
            plus: IN_3,
            policy: PolicyKind::Cfs,
            features: features(&[CFS_3_10, UP_TO_3_15]),
            base_slice_ns: 750_000,
            change: "CFS with groups (June 2013): least vruntime first. Balancing compares the queued weights. Before tasks are \
                 pulled, the load of every group of the system is computed.",
            ..row()
        },
        Kernel {
            name: "3.12",
            release: "3.12",
            plus: IN_3,
            policy: PolicyKind::Cfs,
            features: features(&[CFS_3_10, UP_TO_3_15]),
            base_slice_ns: 750_000,
            change: "Balancing compares the average runnable load (3.11). The load of a group is computed on demand, so idle \
                 groups cost nothing. Wakers of many tasks no longer pull these tasks to their CPU (wake_wide).",
            ..row()
        },
        Kernel {
            name: "3.17",
            release: "3.17",
            plus: IN_3_17,
            policy: PolicyKind::Cfs,
            features: features(&[CFS_3_10, FROM_3_16]),
            base_slice_ns: 750_000,
            change: "A state on the way to 3.18 (commit caeb178c60, which is not in the release): a group that is not overloaded \
                 can be the busiest, so running tasks are pushed back and forth between idle CPUs. SCHED_DEADLINE (3.14).",
            ..row()
        },
        Kernel {
            name: "3.18",
            release: "3.18",
            plus: IN_3,
            policy: PolicyKind::Cfs,
            features: features(&[CFS_3_10, FROM_3_16]),
            base_slice_ns: 750_000,
            change: "An idle CPU does not pull from a group that is not overloaded and has about as many idle CPUs. Forks and \
                 execs choose the idle CPU in the shallowest idle state.",
            ..row()
        },
        Kernel {
            name: "4.18-el8",
            release: "4.18",
            vendor: ".el8",
            features: features(&[FROM_5_4, UP_TO_5_19, CFS_5_5, UP_TO_5_9, UP_TO_4_19]),
            unverified: "the facts are of RHEL 8.0; Red Hat updates the scheduler at minor releases, and later ones were not read",
            change: "Red Hat Enterprise Linux 8. CFS: wakeups prefer idle CPUs (WA_IDLE) and search for idle cores; balancing \
                 compares load averages over ticks (LB_BIAS), and calls a group overloaded by its utilisation. A CPU's unused \
                 quota expires with the period.",
            ..row()
        },
        Kernel {
            name: "4.19",
            release: "4.19",
            minus: &[Behaviour::NewidleBacksOff, Behaviour::SlicesExpire],
            features: features(&[FROM_5_4, UP_TO_5_19, CFS_5_5, UP_TO_5_9, UP_TO_4_19]),
            unverified: "the releases of its changes are from memory; that capacities come from averages of real-time and interrupt load \
                         is not distinguished from 4.18",
            change: "CFS (October 2018), as 4.18 in everything modelled here, except that quotas do not expire, and that \
                 newly-idle balancing does not lengthen the intervals of balancing. This is a late stable release: 4.19.88 removed the \
                 expiry, and 4.19.87 the longer intervals.",
            ..row()
        },
        Kernel {
            name: "5.4",
            release: "5.4",
            features: features(&[FROM_5_4, UP_TO_5_19, CFS_5_5, UP_TO_5_9]),
            unverified: "the releases of its changes are from memory; the simulator moves misfit tasks only from 5.5 on",
            change: "CFS (November 2019): the last balancer by load. It compares the present load only (4.20 removed LB_BIAS, \
                 and 5.3 cpu_load[]). For wakeups, a CPU that runs only SCHED_IDLE tasks counts as idle.",
            ..row()
        },
        Kernel {
            name: "5.10",
            release: "5.10",
            features: features(&[FROM_5_4, UP_TO_5_19, UP_TO_6_6, CFS_5_5]),
            unverified: "the balancing of groups and the search for an idle CPU were read in an Android 5.10; the rest is from memory",
            change: "CFS (December 2020): wakeups search for an idle core first, then for an idle CPU; the measured cost of \
                 searches bounds both (SIS_PROP). Two tasks may stay together on a node. Real-time tasks no longer borrow \
                 runtime from other CPUs (RT_RUNTIME_SHARE).",
            ..row()
        },
        Kernel {
            name: "5.14-el9",
            release: "5.19",
            vendor: ".el9",
            features: features(&[FROM_5_4, UP_TO_6_6, CFS_6_1, FROM_6_0]),
            extra: &[Feature::SisUtil],
            unverified: "Red Hat updates the scheduler at minor releases; 5.19 with SIS_UTIL is assumed",
            change: "Red Hat Enterprise Linux 9: 5.14 by name, with a later scheduler. CFS.",
            ..row()
        },
        Kernel {
            name: "5.15",
            release: "5.15",
            features: features(&[FROM_5_4, UP_TO_5_19, UP_TO_6_6, CFS_6_1]),
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "CFS (October 2021): one search finds an idle core or CPU. Slices in groups have a minimum (BASE_SLICE). \
                 There are SCHED_IDLE groups. A quarter of a node may fill up before tasks move to another node.",
            ..row()
        },
        Kernel {
            name: "6.1",
            release: "6.1",
            policy: PolicyKind::Cfs,
            features: features(&[COMMON, UP_TO_6_6, CFS_6_1]),
            base_slice_ns: 750_000,
            change: "The last long-term kernel with CFS: least vruntime first, sleepers get up to half a latency period of \
                 credit, slices come from the latency target.",
            ..row()
        },
        Kernel {
            name: "6.4",
            release: "6.4",
            features: features(&[FROM_5_4, UP_TO_6_6, CFS_6_1, FROM_6_0]),
            lacks: &[Feature::NiRandom],
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "CFS (June 2023), as in 6.1: a task keeps the CPUs it asked for when its cpuset changes (6.2), and limits of different groups \
                 begin their periods at different instants.",
            ..row()
        },
        Kernel {
            name: "6.6",
            release: "6.6",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, UP_TO_6_6, EEVDF_6_6]),
            base_slice_ns: 750_000,
            change: "EEVDF replaces CFS: among the tasks that are owed time, the one with the earliest virtual deadline runs. A \
                 sleeper keeps the lag that it had, and gets no credit.",
            ..row()
        },
        Kernel {
            name: "6.8",
            release: "6.8",
            policy: PolicyKind::Eevdf,
            features: features(&[FROM_5_4, EEVDF_6_6, FROM_6_0]),
            lacks: &[Feature::NiRandom],
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "EEVDF, as in 6.6: wakeups search the cluster before the rest of the cache (6.7); a waiting real-time task \
                 is offered to other CPUs (6.7); utilisation estimates do not fall for tasks that had to wait.",
            ..row()
        },
        Kernel {
            name: "6.11",
            release: "6.11",
            policy: PolicyKind::Eevdf,
            features: features(&[FROM_5_4, EEVDF_6_6, FROM_6_0]),
            lacks: &[Feature::NiRandom],
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "The last EEVDF without delayed dequeue: a forked task starts with its share of the queue's utilisation, and misfit tasks no longer \
                 lengthen balancing intervals (6.10).",
            ..row()
        },
        Kernel {
            name: "6.12",
            release: "6.12",
            plus: &[Behaviour::IdleGivesWay, Behaviour::ForfeitsOnYield, Behaviour::BoostMovesOwn],
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12]),
            base_slice_ns: 700_000,
            change: "Delayed dequeue: a task that sleeps while it owes time stays queued until it has paid. Custom slices can \
                 preempt longer ones. The base slice is not a multiple of common ticks.",
            ..row()
        },
        Kernel {
            name: "6.14",
            release: "6.14",
            plus: &[Behaviour::IdleGivesWay],
            policy: PolicyKind::Eevdf,
            features: features(&[FROM_5_4, EEVDF_6_6, EEVDF_6_12, FROM_6_0]),
            lacks: &[Feature::NiRandom],
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "As 6.12, but changed weights place an entity again (6.13). The balancer no longer counts tasks with a \
                 delayed dequeue, and pulls tasks that are not eligible only after it has failed. The base slice is 0.75 ms.",
            ..row()
        },
        Kernel {
            name: "6.17",
            release: "6.17",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12, EEVDF_6_18]),
            base_slice_ns: 700_000,
            unverified: "the releases of its changes are from memory, not compared with its source",
            change: "The running task is protected for the shortest slice that waits, as in 6.18; CPU limits still take a whole group off its queue, \
                 as in 6.12.",
            ..row()
        },
        Kernel {
            name: "6.18",
            release: "6.18",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12, EEVDF_6_18]),
            base_slice_ns: 700_000,
            change: "Slice protection is a virtual time of its own, at most the shortest waiting slice; a task that runs past it \
                 is rescheduled. CPU limits stop each task at its return to user mode.",
            ..row()
        },
        Kernel {
            name: "7.0",
            release: "7.0",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12, EEVDF_6_18]),
            base_slice_ns: 700_000,
            change: "A new task preempts only a task with a longer custom slice. A woken task is compared with the task that \
                 would be picked without sleeping tasks. A wakeup that does not preempt shortens the protection of the running \
                 task.",
            ..row()
        },
        Kernel {
            name: "7.1",
            release: "7.1",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12, FROM_7_1]),
            base_slice_ns: 700_000,
            change: "A timer ends slices on time, instead of the next tick (HRTICK is on). A sleeping task with a delayed \
                 dequeue adds nothing to its debt. For a SCHED_IDLE task, a CPU that runs only SCHED_IDLE tasks no longer counts \
                 as idle.",
            ..row()
        },
        Kernel {
            name: "7.2",
            release: "7.2",
            policy: PolicyKind::Eevdf,
            features: features(&[COMMON, EEVDF_6_6, EEVDF_6_12, FROM_7_1]),
            base_slice_ns: 700_000,
            unverified: "as 7.1: what is new in it (SCHED_CACHE, which keeps the threads of a process in one cache) is not modelled",
            change: "As 7.1. SCHED_CACHE, which keeps the threads of a process in one cache on machines with several, is not modelled.",
            ..row()
        },
    ]
}

/// Returns all kernels, oldest first.
pub(super) fn kernels() -> Vec<Kernel> {
    let mut all = rows();
    for kernel in &mut all {
        kernel.behaviours = Behaviours::at(kernel.release);
        for &one in kernel.plus {
            kernel.behaviours.set(one, true);
        }
        for &one in kernel.minus {
            kernel.behaviours.set(one, false);
        }
    }
    all
}
