//! The table of features.

use super::{Feature, FeatureRow, Initial, Of};
use crate::releases::Certainty;

/// Makes the table. Each row has the feature, its name, the kernels that have it, its default, the certainty, the
/// description and, if known, the commits.
macro_rules! features {
    ($($variant:ident $name:ident: $of:expr, $initial:expr, $certainty:ident, $what:literal $(from $source:literal)?;)*) => {
        /// Every feature.
        pub const FEATURES: &[FeatureRow] = &[$(FeatureRow {
            feature: Feature::$variant,
            name: stringify!($name),
            of: $of,
            initial: $initial,
            certainty: Certainty::$certainty,
            origin: concat!($($source)?),
            what: $what,
        },)*];
    };
}

const fn from(since: &'static str) -> Of {
    Of::Releases(since, None)
}

const fn between(since: &'static str, until: &'static str) -> Of {
    Of::Releases(since, Some(until))
}

features! {
    PlaceLag PLACE_LAG: from("6.6"), Initial::On, Recorded,
        "a sleeper keeps its lag, and gets it back when it wakes"
        from "commit 86bfbb7ce4f6 (6.6, sched/fair: Add lag based placement)";
    PlaceDeadlineInitial PLACE_DEADLINE_INITIAL: from("6.6"), Initial::On, Recorded,
        "the first deadline of a new task is half a slice away"
        from "commit 147f3efaa241 (6.6, sched/fair: Implement an EEVDF-like scheduling policy)";
    PlaceRelDeadline PLACE_REL_DEADLINE: from("6.12"), Initial::On, Recorded,
        "a task that moves to another run queue keeps the rest of its deadline"
        from "commit 82e9d0456e06 (6.12, sched/fair: Avoid re-setting virtual deadline on 'migrations')";
    RunToParity RUN_TO_PARITY: from("6.6"), Initial::On, Recorded,
        "no wakeup preempts the running task before its slice is used up"
        from "commit 63304558ba5d (6.6, sched/eevdf: Curb wakeup-preemption)";
    PreemptShort PREEMPT_SHORT: from("6.12"), Initial::On, Recorded,
        "a wakeup of a task with a shorter slice preempts in spite of RUN_TO_PARITY"
        from "commit 85e511df3cec (6.12, sched/eevdf: Allow shorter slices to wakeup-preempt)";
    NextBuddy NEXT_BUDDY: from("2.6.24"), Initial::Off, Recorded,
        "prefer to run the task woken last"
        from "off by commit 4f70f106bca1 (6.19, sched/fair: Disable scheduler feature NEXT_BUDDY); only candidates of \
            6.19 had it on";
    PickBuddy PICK_BUDDY: from("6.14"), Initial::On, Recorded,
        "with NEXT_BUDDY: only if that task is eligible"
        from "commit 2a77e4be12cb (6.14, sched/fair: Untangle NEXT_BUDDY and pick_next_task()), which 6.12.117 has, too";
    LastBuddy LAST_BUDDY: between("2.6.24", "6.6"), Initial::On, Recorded,
        "after a wakeup preemption prefer to go back to the preempted task"
        from "removed by commit 5e963f2bd465 (6.6, sched/fair: Commit to EEVDF)";
    CacheHotBuddy CACHE_HOT_BUDDY: from("2.6.24"), Initial::On, Recorded,
        "the balancer leaves buddies where they are: they are cache-hot";
    DelayDequeue DELAY_DEQUEUE: from("6.12"), Initial::On, Recorded,
        "a sleeper with negative lag stays queued until it is picked"
        from "commit 152e11f6df29 (6.12, sched/fair: Implement delayed dequeue)";
    DelayZero DELAY_ZERO: from("6.12"), Initial::On, Recorded,
        "a delayed task that is dequeued or woken loses its positive lag"
        from "commit 54a58a787791 (6.12, sched/fair: Implement DELAY_ZERO)";
    WakeupPreemption WAKEUP_PREEMPTION: from("2.6.24"), Initial::On, Recorded,
        "a waking task may preempt the running one";
    Hrtick HRTICK: from("2.6.24"), Initial::OnFrom("7.1"), Recorded,
        "end slices by a high-resolution timer instead of the tick"
        from "on by commit 9213aa4784cf (7.1, sched: Default enable HRTICK when deferred rearming is enabled)";
    NontaskCapacity NONTASK_CAPACITY: from("3.16"), Initial::On, Recorded,
        "subtract interrupts from a CPU's capacity";
    NontaskPower NONTASK_POWER: between("2.6.37", "3.16"), Initial::On, Read,
        "subtract interrupts from a CPU's capacity (3.16+: NONTASK_CAPACITY)";
    TtwuQueue TTWU_QUEUE: from("2.6.39"), Initial::On, Recorded,
        "remote wakeups are queued, and done by the target CPU";
    SisUtil SIS_UTIL: from("6.0"), Initial::On, Recorded,
        "bound the search for an idle CPU by the utilisation of the cache domain"
        from "commit 70fb5ccf2ebb (6.0, sched/fair: Introduce SIS_UTIL to search idle CPU based on sum of util_avg)";
    LbMin LB_MIN: from("2.6.32"), Initial::Off, Recorded,
        "the balancer does not move less load than 16";
    AttachAgeLoad ATTACH_AGE_LOAD: from("4.4"), Initial::On, Recorded,
        "age the load of a task that attaches"
        from "commit 6efdb105d392 (4.4, sched/fair: Make the entity load aging on attaching tunable)";
    WaIdle WA_IDLE: from("4.14"), Initial::On, Recorded,
        "wake-affine: prefer the waking CPU if it is idle"
        from "commit d153b153446f (4.14, sched/core: Fix wake_affine() performance regression)";
    WaWeight WA_WEIGHT: from("4.14"), Initial::On, Recorded,
        "wake-affine: compare the loads of the waking and the previous CPU"
        from "commit f2cdd9cc6c97 (4.14, sched/core: Address more wake_affine() regressions)";
    WaBias WA_BIAS: from("4.14"), Initial::On, Recorded,
        "wake-affine: favour the waking CPU by the domain's imbalance_pct"
        from "commit f2cdd9cc6c97 (4.14, sched/core: Address more wake_affine() regressions)";
    UtilEst UTIL_EST: from("4.17"), Initial::On, Recorded,
        "estimate a task's utilisation by its value at the last sleep"
        from "commit 7f65ea42eb00 (4.17, sched/fair: Add util_est on top of PELT)";
    UtilEstFastup UTIL_EST_FASTUP: between("5.5", "6.8"), Initial::On, Recorded,
        "the estimate rises at once, and is smoothed only when it falls; later kernels always do so"
        from "commit b8c96361402a (5.5, sched/fair/util_est: Implement faster ramp-up EWMA on utilization increases); \
            removed by commit 7736ae5572eb (6.8, sched/fair: Remove SCHED_FEAT(UTIL_EST_FASTUP, true))";
    SisProp SIS_PROP: between("4.13", "6.7"), Initial::OnUntil("6.0"), Recorded,
        "bound the search for an idle CPU by its cost and the CPUs' idle time"
        from "commit 1ad3aaf3fcd2 (4.13, sched/core: Implement new approach to scale select_idle_cpu()); off by commit \
            70fb5ccf2ebb (6.0); removed by commit 984ffb6a4366 (6.7, sched/fair: Remove SIS_PROP)";
    RtPushIpi RT_PUSH_IPI: from("4.1"), Initial::OnUntil("7.2"), Recorded,
        "ask a CPU with real-time tasks to spare to push them, instead of pulling them"
        from "commit b6366f048e0c (4.1, sched/rt: Use IPI to trigger RT task push migration instead of pulling); off by \
            commit dd29c017aed6 (7.2, sched/rt: Have RT_PUSH_IPI be default off for non PREEMPT_RT), which 6.1.192, \
            6.12.117 and 7.1.5 have, too";
    DoubleTick DOUBLE_TICK: between("2.6.27", "6.13"), Initial::Off, Recorded,
        "with HRTICK: the periodic tick checks slices, too"
        from "removed by commit e31488c9df27 (6.13, sched/fair: remove the DOUBLE_TICK feature)";
    WarnDoubleClock WARN_DOUBLE_CLOCK: from("4.8"), Initial::Off, Recorded,
        "report run queue clocks that are updated twice (for kernel developers)";
    LatencyWarn LATENCY_WARN: from("5.13"), Initial::Off, Recorded,
        "report tasks that keep running after a reschedule request (for kernel developers)"
        from "commit c006fac556e4 (5.13, sched: Warn on long periods of pending need_resched)";
    ArchPower ARCH_POWER: between("2.6.32", "3.16"), Initial::On, Read,
        "ask the architecture for the capacity of CPUs";
    ArchCapacity ARCH_CAPACITY: between("3.16", "4.1"), Initial::On, Read,
        "ask the architecture for the capacity of CPUs";
    ForceSdOverlap FORCE_SD_OVERLAP: between("3.4", "4.1"), Initial::Off, Read,
        "build scheduling groups as if NUMA nodes overlapped";
    GentleFairSleepers GENTLE_FAIR_SLEEPERS: between("2.6.32", "6.6"), Initial::On, Recorded,
        "a sleeper gets half a latency period of credit, not a whole one"
        from "removed by commit 76cae9dbe185 (6.6, sched/fair: Commit to lag based placement)";
    StartDebit START_DEBIT: between("2.6.23", "6.6"), Initial::On, Recorded,
        "a new task starts one slice behind"
        from "removed by commit e0c2ff903c32 (6.6, sched/fair: Remove sched_feat(START_DEBIT))";
    AltPeriod ALT_PERIOD: between("5.13", "6.6"), Initial::On, Recorded,
        "compute the period from the tasks of the whole hierarchy"
        from "commit 0c2de3f054a5 (5.13, sched,fair: Alternative sched_slice()); removed by commit 5e963f2bd465 (6.6, \
            sched/fair: Commit to EEVDF)";
    BaseSlice BASE_SLICE: between("5.13", "6.6"), Initial::On, Recorded,
        "no slice is shorter than the minimal granularity"
        from "commit 0c2de3f054a5 (5.13, sched,fair: Alternative sched_slice()); removed by commit 5e963f2bd465 (6.6, \
            sched/fair: Commit to EEVDF)";
    NiRandom NI_RANDOM: from("6.19"), Initial::On, Recorded,
        "a CPU that becomes idle looks for work more often if it found some before"
        from "commit 33cf66d88306 (6.19, sched/fair: Proportional newidle balance), which stable 6.1.160, 6.6.120, \
            6.12.65 and 6.18.5 have, too";
    NiRate NI_RATE: from("7.1"), Initial::On, Recorded,
        "a CPU that seldom becomes idle looks for work each time"
        from "commit 9fe89f022c05 (7.1, sched/fair: More complex proportional newidle balance)";
    ParanoidAvg PARANOID_AVG: from("7.1"), Initial::Off, Recorded,
        "keep the sums of a queue's average coarser once they overflow"
        from "commit 4823725d9d1d (7.1, sched/fair: Increase weight bits for avg_vruntime)";
    HrtickDl HRTICK_DL: from("5.12"), Initial::OnFrom("7.1"), Recorded,
        "end the runtime of deadline tasks by a high-resolution timer"
        from "commit e0ee463c93c4 (5.12, sched/features: Distinguish between NORMAL and DEADLINE hrtick); on by commit \
            9213aa4784cf (7.1)";
    RtRuntimeShare RT_RUNTIME_SHARE: from("2.6.39"), Initial::OnUntil("5.10"), Recorded,
        "a CPU that used up its real-time runtime borrows from others"
        from "off by commit 2586af1ac187 (5.10, sched/rt: Disable RT_RUNTIME_SHARE by default)";
    FairSleepers FAIR_SLEEPERS: between("2.6.23", "2.6.24"), Initial::On, Read,
        "a sleeper gets credit for the time it could have run";
    SleeperAvg SLEEPER_AVG: between("2.6.23", "2.6.24"), Initial::On, Read,
        "with the feature above: as if the sleeper had run meanwhile";
    SleeperLoadAvg SLEEPER_LOAD_AVG: between("2.6.23", "2.6.24"), Initial::On, Read,
        "and by the average load, not that at the wakeup";
    SkipInitial SKIP_INITIAL: between("2.6.23", "2.6.24"), Initial::Off, Read,
        "a new task gets no credit for its first wait";
    PreciseCpuLoad PRECISE_CPU_LOAD: between("2.6.23", "2.6.24"), Initial::On, Read,
        "a CPU's average loads count the tasks that ran since the last tick, not the tasks at the tick";
    LbBias LB_BIAS: between("2.6.32", "4.20"), Initial::On, Read,
        "the balancer takes the lower load of busy CPUs, the higher of its own";
    Numa NUMA: between("3.8", "4.1"), Initial::Off, Read,
        "move tasks and their memory to one node";
    NumaForce NUMA_FORCE: between("3.8", "3.13"), Initial::Off, Read,
        "do so, for a test, on machines of one node";
    NumaFavourHigher NUMA_FAVOUR_HIGHER: between("3.13", "4.1"), Initial::On, Read,
        "the balancer prefers to move tasks to nodes where they use more memory";
    NumaResistLower NUMA_RESIST_LOWER: between("3.13", "4.1"), Initial::Off, Read,
        "the balancer leaves tasks on nodes where they use more memory";
    CpuRcHungry CPU_RC_HUNGRY: Of::Kernel("2.6.15-cpurc"), Initial::On, Read,
        "a class below its guarantee is hungry only if its tasks wait for long";
    CpuRcScaling CPU_RC_SCALING: Of::Kernel("2.6.15-cpurc"), Initial::On, Read,
        "while a class is hungry the timeslices of the others are scaled down";
    CpuRcRequeue CPU_RC_REQUEUE: Of::Kernel("2.6.15-cpurc"), Initial::On, Read,
        "tasks of a class that stays hungry go back to the active array";
    CpuRcTick CPU_RC_TICK: Of::Kernel("2.6.15-cpurc"), Initial::On, Read,
        "ours: count loads tick by tick, not (as documented) when slices end";
    CpuRcWaiting CPU_RC_WAITING: Of::Kernel("2.6.15-cpurc"), Initial::On, Read,
        "ours: a class may be hungry before its waiting tasks run at last";
    OldGroupAvg OLD_GROUP_AVG: Of::Vruntime, Initial::Off, Read,
        "groups of CPUs are compared by average load alone (wasted cores, 3.1)";
    OldNumaGroups OLD_NUMA_GROUPS: Of::Vruntime, Initial::Off, Read,
        "overlapping NUMA groups are the first CPU's, for all (wasted cores, 3.2)";
    OldWakeNode OLD_WAKE_NODE: Of::Vruntime, Initial::Off, Read,
        "a wakeup looks in the waker's node only (wasted cores, 3.3)";
    OldLostDomains OLD_LOST_DOMAINS: Of::Vruntime, Initial::Off, Read,
        "rebuilt domains span one node at most (wasted cores, 3.4)";
}
