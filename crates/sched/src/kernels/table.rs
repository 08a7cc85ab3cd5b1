//! The table of supported kernels.

use alloc::vec;
use alloc::vec::Vec;

use super::{Behaviour, Behaviours, Kernel, Later, MS, PolicyKind};
use crate::features::{FEATURES, Feature, FeatureRow, Features};

/// Returns what most kernels have in common. A row of the table states the rest.
fn row() -> Kernel {
    Kernel {
        name: "",
        release: "",
        vendor: "",
        policy: PolicyKind::Cfs,
        features: Features::default(),
        behaviours: Behaviours::default(),
        rt_group_sched: false,
        group_switches: false,
        base_slice_ns: 750_000,
        migration_cost_ns: 500_000,
        unverified: "",
        change: "",
        extra: &[],
        off: &[],
        plus: &[],
        minus: &[],
        later: &[],
        overrides: Vec::new(),
        forced: Vec::new(),
    }
}

/// Later releases of 6.18. 6.18.33 is from a list of its changes. 6.18.44 was observed, and confirmed in the running
/// kernel's instructions: what it has came after 6.18.15, at an unknown release.
///
/// The patch of a cloud (`sched_vcpu_pack=15` on its command line) has the name of its builds (`-fc-`).
const LATE_6_18: &[Later] = &[
    Later { plus: &[Behaviour::NewidleCostRises], ..before_2026([6, 18, 1], [6, 18, 5]) },
    Later {
        since: [6, 18, 33],
        plus: &[Behaviour::BuddyInPick, Behaviour::ForkWaits, Behaviour::PicksAwake, Behaviour::ShortensAlways],
        ..LATER
    },
    Later {
        since: [6, 18, 44],
        plus: &[Behaviour::LagByLongest, Behaviour::RestoreKeeps, Behaviour::ReweightKeeps],
        minus: &[Behaviour::CountsForbidden, Behaviour::ServerForgets, Behaviour::ServerStays],
        off: &[Feature::RtPushIpi],
        ..LATER
    },
    Later { since: [6, 18, 44], part: "-fc-", plus: &[Behaviour::VcpuPack], ..LATER },
];

/// Returns what stable releases before January 2026 lack.
const fn before_2026(since: [u32; 3], until: [u32; 3]) -> Later {
    Later { since, until: Some(until), off: SINCE_2026, ..LATER }
}

/// What most stable releases have in common.
const LATER: Later = Later { since: [0; 3], until: None, build: 0, part: "", plus: &[], minus: &[], off: &[] };

/// RHEL 8.1 and later: quotas do not expire. RHEL 8.0 is build 80, and 8.1 is build 147. Read in 4.18.0-147.5.1;
/// whether the first updates of build 147 have it is not known.
const LATE_EL8: &[Later] = &[Later { since: [4, 18, 0], build: 147, minus: &[Behaviour::SlicesExpire], ..LATER }];

/// What is known of kernels without a recording.
const PARTS: &str = "it has no recording, and not all of its source was read";

/// Behaviours that were not distinguished when these kernels were added.
const IN_3: &[Behaviour] = &[Behaviour::EmptyKeepsWeight, Behaviour::SmtIgnoresHeat];
const IN_3_17: &[Behaviour] = &[Behaviour::EmptyKeepsWeight, Behaviour::SmtIgnoresHeat, Behaviour::AnyLoaded];

/// Features that come with EEVDF, and those that go with CFS.
pub(super) const EEVDF: &[Feature] = &[Feature::PlaceLag, Feature::PlaceDeadlineInitial, Feature::RunToParity];
pub(super) const CFS: &[Feature] =
    &[Feature::GentleFairSleepers, Feature::StartDebit, Feature::LastBuddy, Feature::AltPeriod, Feature::BaseSlice];

/// Late stable releases leave RT_PUSH_IPI to PREEMPT_RT: 6.1.192, 6.12.117, and 7.1.5 (not 7.1.3).
const LATE: &[Feature] = &[Feature::RtPushIpi];

/// 6.19, and stable releases from January 2026 on: 6.1.160, 6.6.120, 6.12.65, 6.18.5.
const SINCE_2026: &[Feature] = &[Feature::NiRandom];

/// Returns all kernels, oldest first, without their features and behaviours.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Kernel> {
    vec![
        Kernel {
            name: "2.6.15",
            release: "2.6.15",
            migration_cost_ns: 2_500_000,
            policy: PolicyKind::O1,
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
            base_slice_ns: 750_000,
            change: "An idle CPU does not pull from a group that is not overloaded and has about as many idle CPUs. Forks and \
                 execs choose the idle CPU in the shallowest idle state.",
            ..row()
        },
        Kernel {
            name: "4.18-el8",
            release: "4.18",
            vendor: ".el8",
            later: LATE_EL8,
            // 3.17+: in force; mended in RHEL 8.1.
            minus: &[Behaviour::LimitLastFirst],
            unverified: "the facts are of RHEL 8.0, with some of 8.1; Red Hat updates the scheduler at minor releases, and later ones were not read",
            change: "Red Hat Enterprise Linux 8. CFS: wakeups prefer idle CPUs (WA_IDLE) and search for idle cores; balancing \
                 compares load averages over ticks (LB_BIAS), and calls a group overloaded by its utilisation. A CPU's unused \
                 quota expires with the period.",
            ..row()
        },
        Kernel {
            name: "4.19",
            release: "4.19",
            minus: &[Behaviour::LimitLastFirst, Behaviour::NewidleBacksOff, Behaviour::SlicesExpire],
            unverified: "that capacities come from averages of real-time and interrupt load is not distinguished from 4.18",
            change: "CFS (October 2018), as 4.18 in everything modelled here, except that quotas do not expire, and that \
                 newly-idle balancing does not lengthen the intervals of balancing. This is a late stable release: 4.19.88 removed the \
                 expiry, and 4.19.87 the longer intervals.",
            ..row()
        },
        Kernel {
            name: "5.4",
            release: "5.4",
            unverified: "the simulator moves misfit tasks only from 5.5 on",
            change: "CFS (November 2019): the last balancer by load. It compares the present load only (4.20 removed LB_BIAS, \
                 and 5.3 cpu_load[]). For wakeups, a CPU that runs only SCHED_IDLE tasks counts as idle.",
            ..row()
        },
        Kernel {
            name: "5.10",
            release: "5.10",
            // Read in 5.10.135 and 5.10.265.
            plus: &[Behaviour::KthreadsStay, Behaviour::GroupClampsProtect],
            unverified: "it was recorded under emulation only",
            change: "CFS (December 2020): wakeups search for an idle core first, then for an idle CPU; the measured cost of \
                 searches bounds both (SIS_PROP). Two tasks may stay together on a node. Real-time tasks no longer borrow \
                 runtime from other CPUs (RT_RUNTIME_SHARE).",
            ..row()
        },
        Kernel {
            name: "5.14-el9",
            release: "5.19",
            vendor: ".el9",
            extra: &[Feature::SisUtil],
            off: &[Feature::SisProp],
            unverified: "Red Hat updates the scheduler at minor releases; 5.19 with SIS_UTIL is assumed",
            change: "Red Hat Enterprise Linux 9: 5.14 by name, with a later scheduler. CFS.",
            ..row()
        },
        Kernel {
            name: "5.15",
            release: "5.15",
            unverified: PARTS,
            change: "CFS (October 2021): one search finds an idle core or CPU. Slices in groups have a minimum (BASE_SLICE). \
                 There are SCHED_IDLE groups. A quarter of a node may fill up before tasks move to another node.",
            ..row()
        },
        Kernel {
            name: "6.1",
            release: "6.1",
            extra: SINCE_2026,
            later: const { &[before_2026([6, 1, 1], [6, 1, 160])] },
            off: LATE,
            plus: &[Behaviour::SparesBigCpus],
            minus: &[Behaviour::NarrowSum],
            policy: PolicyKind::Cfs,
            base_slice_ns: 750_000,
            change: "The last long-term kernel with CFS: least vruntime first, sleepers get up to half a latency period of \
                 credit, slices come from the latency target. This is the stable release 6.1.192.",
            ..row()
        },
        Kernel {
            name: "6.4",
            release: "6.4",
            unverified: PARTS,
            change: "CFS (June 2023), as in 6.1: a task keeps the CPUs it asked for when its cpuset changes (6.2), and limits of different groups \
                 begin their periods at different instants.",
            ..row()
        },
        Kernel {
            name: "6.6",
            release: "6.6",
            extra: SINCE_2026,
            later: const { &[before_2026([6, 6, 1], [6, 6, 120])] },
            off: LATE,
            // Not read: 6.1.192 and 6.12.117 have both.
            plus: &[Behaviour::SparesBigCpus],
            minus: &[Behaviour::NarrowSum],
            policy: PolicyKind::Eevdf,
            base_slice_ns: 750_000,
            change: "EEVDF replaces CFS: among the tasks that are owed time, the one with the earliest virtual deadline runs. A \
                 sleeper keeps the lag that it had, and gets no credit. This is a late stable release, with the backports of \
                 6.1.192 and 6.12.117.",
            ..row()
        },
        Kernel {
            name: "6.8",
            release: "6.8",
            policy: PolicyKind::Eevdf,
            unverified: PARTS,
            change: "EEVDF, as in 6.6: wakeups search the cluster before the rest of the cache (6.7); a waiting real-time task \
                 is offered to other CPUs (6.7); utilisation estimates do not fall for tasks that had to wait.",
            ..row()
        },
        Kernel {
            name: "6.11",
            release: "6.11",
            policy: PolicyKind::Eevdf,
            unverified: PARTS,
            change: "The last EEVDF without delayed dequeue: a forked task starts with its share of the queue's utilisation, and misfit tasks no longer \
                 lengthen balancing intervals (6.10).",
            ..row()
        },
        Kernel {
            name: "6.12",
            release: "6.12",
            extra: &[Feature::NiRandom, Feature::PickBuddy],
            later: const { &[before_2026([6, 12, 1], [6, 12, 65])] },
            off: LATE,
            plus: &[
                Behaviour::IdleGivesWay,
                Behaviour::ForfeitsOnYield,
                Behaviour::BoostMovesOwn,
                Behaviour::EmptyKeepsWeight,
                Behaviour::ServerLingers,
                Behaviour::SparesBigCpus,
            ],
            minus: &[Behaviour::NarrowSum],
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            change: "Delayed dequeue: a task that sleeps while it owes time stays queued until it has paid. Custom slices can \
                 preempt longer ones. The base slice is not a multiple of common ticks. This is the stable release 6.12.117.",
            ..row()
        },
        Kernel {
            name: "6.14",
            release: "6.14",
            plus: &[Behaviour::IdleGivesWay],
            policy: PolicyKind::Eevdf,
            unverified: PARTS,
            change: "As 6.12, but changed weights place an entity again (6.13). The balancer no longer counts tasks with a \
                 delayed dequeue, and pulls tasks that are not eligible only after it has failed. The base slice is 0.75 ms.",
            ..row()
        },
        Kernel {
            name: "6.17",
            release: "6.17",
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            unverified: PARTS,
            change: "The running task is protected for the shortest slice that waits, as in 6.18; CPU limits still take a whole group off its queue, \
                 as in 6.12. A newly-idle balance that pulls nothing raises its cost, so that the next ones are rarer.",
            ..row()
        },
        Kernel {
            name: "6.18",
            release: "6.18",
            extra: SINCE_2026,
            minus: &[Behaviour::NewidleCostRises],
            later: LATE_6_18,
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            change: "Slice protection is a virtual time of its own, at most the shortest waiting slice; a task that runs past it \
                 is rescheduled. CPU limits stop each task at its return to user mode. This is the stable release 6.18.15: newly-idle \
                 balances are drawn by their success (NI_RANDOM, 6.18.5), and failures no longer raise their cost.",
            ..row()
        },
        Kernel {
            name: "7.0",
            release: "7.0",
            plus: &[Behaviour::PicksAwake],
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            change: "A new task preempts only a task with a longer custom slice. A woken task is compared with the task that \
                 would be picked without sleeping tasks. A wakeup that does not preempt shortens the protection of the running \
                 task. This is the stable release 7.0.13.",
            ..row()
        },
        Kernel {
            name: "7.1",
            release: "7.1",
            off: LATE,
            plus: &[Behaviour::BoostMovesOwn],
            minus: &[Behaviour::EstBefore],
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            change: "A timer ends slices on time, instead of the next tick (HRTICK is on). A sleeping task with a delayed \
                 dequeue adds nothing to its debt. For a SCHED_IDLE task, a CPU that runs only SCHED_IDLE tasks no longer counts \
                 as idle. This is the stable release 7.1.13.",
            ..row()
        },
        Kernel {
            name: "7.2",
            release: "7.2",
            plus: &[Behaviour::SparesBigCpus],
            minus: &[Behaviour::NarrowSum],
            policy: PolicyKind::Eevdf,
            base_slice_ns: 700_000,
            unverified: "as 7.1: what is new in it (SCHED_CACHE, which keeps the threads of a process in one cache) is not modelled",
            change: "As 7.1, but deadline tasks may have the whole period. This is the stable release 7.2.13. SCHED_CACHE, which \
                 keeps the threads of a process in one cache on machines with several, is not modelled.",
            ..row()
        },
    ]
}

/// Returns all kernels, oldest first.
pub(super) fn kernels() -> Vec<Kernel> {
    let mut all = rows();
    for kernel in &mut all {
        let by_default = |row: &&FeatureRow| {
            kernel.has_feature(row.feature) && row.is_on_at(kernel.release) && !kernel.off.contains(&row.feature)
        };
        let mut features = Features::default();
        for row in FEATURES.iter().filter(by_default) {
            features.set(row.feature, true);
        }
        kernel.features = features;
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
