//! Scheduler features, by their kernel names.

/// A feature, as in `/sys/kernel/debug/sched/features`. [`FEATURES`] has descriptions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Feature {
    /// `PLACE_LAG`.
    PlaceLag,
    /// `PLACE_DEADLINE_INITIAL`.
    PlaceDeadlineInitial,
    /// `PLACE_REL_DEADLINE`.
    PlaceRelDeadline,
    /// EEVDF: wakeups do not preempt the running task before its slice ends (6.6, 6.12: its 0-lag point; 6.18: the
    /// shortest waiting slice).
    RunToParity,
    /// `PREEMPT_SHORT`.
    PreemptShort,
    /// `NEXT_BUDDY`.
    NextBuddy,
    /// `PICK_BUDDY`.
    PickBuddy,
    /// `LAST_BUDDY`.
    LastBuddy,
    /// `CACHE_HOT_BUDDY`.
    CacheHotBuddy,
    /// `DELAY_DEQUEUE`.
    DelayDequeue,
    /// `DELAY_ZERO`.
    DelayZero,
    /// `WAKEUP_PREEMPTION`.
    WakeupPreemption,
    /// `HRTICK`.
    Hrtick,
    /// `NONTASK_CAPACITY`.
    NontaskCapacity,
    /// `NONTASK_POWER`.
    NontaskPower,
    /// `TTWU_QUEUE`.
    TtwuQueue,
    /// `SIS_UTIL`.
    SisUtil,
    /// `LB_MIN`.
    LbMin,
    /// `ATTACH_AGE_LOAD`.
    AttachAgeLoad,
    /// `WA_IDLE`.
    WaIdle,
    /// `WA_WEIGHT`.
    WaWeight,
    /// `WA_BIAS`.
    WaBias,
    /// `UTIL_EST`.
    UtilEst,
    /// `UTIL_EST_FASTUP`.
    UtilEstFastup,
    /// `SIS_PROP`.
    SisProp,
    /// `RT_PUSH_IPI`.
    RtPushIpi,
    /// `DOUBLE_TICK`.
    DoubleTick,
    /// `WARN_DOUBLE_CLOCK`.
    WarnDoubleClock,
    /// `LATENCY_WARN`.
    LatencyWarn,
    /// `ARCH_POWER`.
    ArchPower,
    /// `ARCH_CAPACITY`.
    ArchCapacity,
    /// `FORCE_SD_OVERLAP`.
    ForceSdOverlap,
    /// `GENTLE_FAIR_SLEEPERS`.
    GentleFairSleepers,
    /// CFS: a new task starts one slice behind (first CFS: half a granularity).
    StartDebit,
    /// `ALT_PERIOD`.
    AltPeriod,
    /// `BASE_SLICE`.
    BaseSlice,
    /// `NI_RANDOM`.
    NiRandom,
    /// `HRTICK_DL`.
    HrtickDl,
    /// A CPU whose real-time tasks have used up their runtime borrows from others, if the kernel throttles (6.1, 6.6;
    /// all with RT_GROUP_SCHED). On up to 3.18; off since 5.10.
    RtRuntimeShare,
    /// `FAIR_SLEEPERS`.
    FairSleepers,
    /// `SLEEPER_AVG`.
    SleeperAvg,
    /// `SLEEPER_LOAD_AVG`.
    SleeperLoadAvg,
    /// `SKIP_INITIAL`.
    SkipInitial,
    /// `PRECISE_CPU_LOAD`.
    PreciseCpuLoad,
    /// `LB_BIAS`.
    LbBias,
    /// `NUMA`.
    Numa,
    /// `NUMA_FORCE`.
    NumaForce,
    /// `NUMA_FAVOUR_HIGHER`.
    NumaFavourHigher,
    /// `NUMA_RESIST_LOWER`.
    NumaResistLower,
    /// `NI_RATE`.
    NiRate,
    /// `PARANOID_AVG`.
    ParanoidAvg,
    /// `CPU_RC_HUNGRY`.
    CpuRcHungry,
    /// `CPU_RC_SCALING`.
    CpuRcScaling,
    /// `CPU_RC_REQUEUE`.
    CpuRcRequeue,
    /// `CPU_RC_TICK`.
    CpuRcTick,
    /// `CPU_RC_WAITING`.
    CpuRcWaiting,
    /// `OLD_GROUP_AVG`.
    OldGroupAvg,
    /// `OLD_NUMA_GROUPS`.
    OldNumaGroups,
    /// `OLD_WAKE_NODE`.
    OldWakeNode,
    /// `OLD_LOST_DOMAINS`.
    OldLostDomains,
}

/// Description of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeatureRow {
    /// The described feature.
    pub feature: Feature,
    /// Its kernel name.
    pub name: &'static str,
    /// Which kernels have it.
    pub of: Of,
    /// What it does when it is on.
    pub what: &'static str,
}

/// Which kernels have a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// All releases from the first up to, but excluding, the second.
    Releases(&'static str, Option<&'static str>),
    /// One supported kernel.
    Kernel(&'static str),
    /// None; it is vruntime's own.
    Vruntime,
}

const fn from(since: &'static str) -> Of {
    Of::Releases(since, None)
}

const fn between(since: &'static str, until: &'static str) -> Of {
    Of::Releases(since, Some(until))
}

const fn row(feature: Feature, name: &'static str, of: Of, what: &'static str) -> FeatureRow {
    FeatureRow { feature, name, of, what }
}

/// Every feature.
pub const FEATURES: &[FeatureRow] = &[
    row(Feature::PlaceLag, "PLACE_LAG", from("6.6"), "a sleeper keeps its lag, and gets it back when it wakes"),
    row(
        Feature::PlaceDeadlineInitial,
        "PLACE_DEADLINE_INITIAL",
        from("6.6"),
        "the first deadline of a new task is half a slice away",
    ),
    row(
        Feature::PlaceRelDeadline,
        "PLACE_REL_DEADLINE",
        from("6.12"),
        "a task that moves to another run queue keeps the rest of its deadline",
    ),
    row(
        Feature::RunToParity,
        "RUN_TO_PARITY",
        from("6.6"),
        "no wakeup preempts the running task before its slice is used up",
    ),
    row(
        Feature::PreemptShort,
        "PREEMPT_SHORT",
        from("6.12"),
        "a wakeup of a task with a shorter slice preempts in spite of RUN_TO_PARITY",
    ),
    row(Feature::NextBuddy, "NEXT_BUDDY", from("2.6.24"), "prefer to run the task woken last"),
    row(Feature::PickBuddy, "PICK_BUDDY", from("6.12"), "with NEXT_BUDDY: only if that task is eligible"),
    row(
        Feature::LastBuddy,
        "LAST_BUDDY",
        between("2.6.24", "6.6"),
        "after a wakeup preemption prefer to go back to the preempted task",
    ),
    row(
        Feature::CacheHotBuddy,
        "CACHE_HOT_BUDDY",
        from("2.6.24"),
        "the balancer leaves buddies where they are: they are cache-hot",
    ),
    row(
        Feature::DelayDequeue,
        "DELAY_DEQUEUE",
        from("6.12"),
        "a sleeper with negative lag stays queued until it is picked",
    ),
    row(
        Feature::DelayZero,
        "DELAY_ZERO",
        from("6.12"),
        "a delayed task that is dequeued or woken loses its positive lag",
    ),
    row(Feature::WakeupPreemption, "WAKEUP_PREEMPTION", from("2.6.24"), "a waking task may preempt the running one"),
    row(Feature::Hrtick, "HRTICK", from("2.6.24"), "end slices by a high-resolution timer instead of the tick"),
    row(Feature::NontaskCapacity, "NONTASK_CAPACITY", from("3.16"), "subtract interrupts from a CPU's capacity"),
    row(
        Feature::NontaskPower,
        "NONTASK_POWER",
        between("2.6.37", "3.16"),
        "subtract interrupts from a CPU's capacity (from 3.16 on: NONTASK_CAPACITY)",
    ),
    row(Feature::TtwuQueue, "TTWU_QUEUE", from("2.6.39"), "remote wakeups are queued, and done by the target CPU"),
    row(
        Feature::SisUtil,
        "SIS_UTIL",
        from("6.0"),
        "bound the search for an idle CPU by the utilisation of the cache domain",
    ),
    row(Feature::LbMin, "LB_MIN", from("2.6.32"), "the balancer does not move less load than 16"),
    row(Feature::AttachAgeLoad, "ATTACH_AGE_LOAD", from("4.4"), "age the load of a task that attaches"),
    row(Feature::WaIdle, "WA_IDLE", from("4.14"), "wake-affine: prefer the waking CPU if it is idle"),
    row(
        Feature::WaWeight,
        "WA_WEIGHT",
        from("4.14"),
        "wake-affine: compare the loads of the waking and the previous CPU",
    ),
    row(Feature::WaBias, "WA_BIAS", from("4.14"), "wake-affine: favour the waking CPU by the domain's imbalance_pct"),
    row(Feature::UtilEst, "UTIL_EST", from("4.17"), "estimate a task's utilisation by its value at the last sleep"),
    row(
        Feature::UtilEstFastup,
        "UTIL_EST_FASTUP",
        between("5.5", "6.8"),
        "the estimate rises at once, and is smoothed only when it falls; later kernels always do so",
    ),
    row(
        Feature::SisProp,
        "SIS_PROP",
        between("4.13", "6.7"),
        "bound the search for an idle CPU by its cost and the CPUs' idle time",
    ),
    row(
        Feature::RtPushIpi,
        "RT_PUSH_IPI",
        from("4.1"),
        "ask a CPU with real-time tasks to spare to push them, instead of pulling them",
    ),
    row(
        Feature::DoubleTick,
        "DOUBLE_TICK",
        between("2.6.27", "6.15"),
        "with HRTICK: the periodic tick checks slices, too",
    ),
    row(
        Feature::WarnDoubleClock,
        "WARN_DOUBLE_CLOCK",
        from("4.8"),
        "report run queue clocks that are updated twice (for kernel developers)",
    ),
    row(
        Feature::LatencyWarn,
        "LATENCY_WARN",
        from("5.13"),
        "report tasks that keep running after a reschedule request (for kernel developers)",
    ),
    row(Feature::ArchPower, "ARCH_POWER", between("2.6.32", "3.16"), "ask the architecture for the capacity of CPUs"),
    row(
        Feature::ArchCapacity,
        "ARCH_CAPACITY",
        between("3.16", "4.1"),
        "ask the architecture for the capacity of CPUs",
    ),
    row(
        Feature::ForceSdOverlap,
        "FORCE_SD_OVERLAP",
        between("3.4", "4.1"),
        "build scheduling groups as if NUMA nodes overlapped",
    ),
    row(
        Feature::GentleFairSleepers,
        "GENTLE_FAIR_SLEEPERS",
        between("2.6.32", "6.6"),
        "a sleeper gets half a latency period of credit, not a whole one",
    ),
    row(Feature::StartDebit, "START_DEBIT", between("2.6.23", "6.6"), "a new task starts one slice behind"),
    row(
        Feature::AltPeriod,
        "ALT_PERIOD",
        between("5.13", "6.6"),
        "compute the period from the tasks of the whole hierarchy",
    ),
    row(Feature::BaseSlice, "BASE_SLICE", between("5.13", "6.6"), "no slice is shorter than the minimal granularity"),
    row(
        Feature::NiRandom,
        "NI_RANDOM",
        from("6.1"),
        "a CPU that becomes idle looks for work more often if it found some before",
    ),
    row(Feature::NiRate, "NI_RATE", from("7.1"), "a CPU that seldom becomes idle looks for work each time"),
    row(
        Feature::ParanoidAvg,
        "PARANOID_AVG",
        from("7.1"),
        "keep the sums of a queue's average coarser once they overflow",
    ),
    row(Feature::HrtickDl, "HRTICK_DL", from("5.12"), "end the runtime of deadline tasks by a high-resolution timer"),
    row(
        Feature::RtRuntimeShare,
        "RT_RUNTIME_SHARE",
        from("2.6.39"),
        "a CPU that used up its real-time runtime borrows from others",
    ),
    row(
        Feature::FairSleepers,
        "FAIR_SLEEPERS",
        between("2.6.23", "2.6.24"),
        "a sleeper gets credit for the time it could have run",
    ),
    row(
        Feature::SleeperAvg,
        "SLEEPER_AVG",
        between("2.6.23", "2.6.24"),
        "with the feature above: as if the sleeper had run meanwhile",
    ),
    row(
        Feature::SleeperLoadAvg,
        "SLEEPER_LOAD_AVG",
        between("2.6.23", "2.6.24"),
        "and by the average load, not that at the wakeup",
    ),
    row(
        Feature::SkipInitial,
        "SKIP_INITIAL",
        between("2.6.23", "2.6.24"),
        "a new task gets no credit for its first wait",
    ),
    row(
        Feature::PreciseCpuLoad,
        "PRECISE_CPU_LOAD",
        between("2.6.23", "2.6.24"),
        "a CPU's average loads count the tasks that ran since the last tick, not the tasks at the tick",
    ),
    row(
        Feature::LbBias,
        "LB_BIAS",
        between("2.6.32", "4.20"),
        "the balancer takes the lower load of busy CPUs, the higher of its own",
    ),
    row(Feature::Numa, "NUMA", between("3.8", "4.1"), "move tasks and their memory to one node"),
    row(Feature::NumaForce, "NUMA_FORCE", between("3.8", "3.13"), "do so, for a test, on machines of one node"),
    row(
        Feature::NumaFavourHigher,
        "NUMA_FAVOUR_HIGHER",
        between("3.13", "4.1"),
        "the balancer prefers to move tasks to nodes where they use more memory",
    ),
    row(
        Feature::NumaResistLower,
        "NUMA_RESIST_LOWER",
        between("3.13", "4.1"),
        "the balancer leaves tasks on nodes where they use more memory",
    ),
    row(
        Feature::CpuRcHungry,
        "CPU_RC_HUNGRY",
        Of::Kernel("2.6.15-cpurc"),
        "a class below its guarantee is hungry only if its tasks wait for long",
    ),
    row(
        Feature::CpuRcScaling,
        "CPU_RC_SCALING",
        Of::Kernel("2.6.15-cpurc"),
        "while a class is hungry the timeslices of the others are scaled down",
    ),
    row(
        Feature::CpuRcRequeue,
        "CPU_RC_REQUEUE",
        Of::Kernel("2.6.15-cpurc"),
        "tasks of a class that stays hungry go back to the active array",
    ),
    row(
        Feature::CpuRcTick,
        "CPU_RC_TICK",
        Of::Kernel("2.6.15-cpurc"),
        "ours: count loads tick by tick, not (as documented) when slices end",
    ),
    row(
        Feature::CpuRcWaiting,
        "CPU_RC_WAITING",
        Of::Kernel("2.6.15-cpurc"),
        "ours: a class may be hungry before its waiting tasks run at last",
    ),
    row(
        Feature::OldGroupAvg,
        "OLD_GROUP_AVG",
        Of::Vruntime,
        "groups of CPUs are compared by average load alone (wasted cores, 3.1)",
    ),
    row(
        Feature::OldNumaGroups,
        "OLD_NUMA_GROUPS",
        Of::Vruntime,
        "overlapping NUMA groups are the first CPU's, for all (wasted cores, 3.2)",
    ),
    row(
        Feature::OldWakeNode,
        "OLD_WAKE_NODE",
        Of::Vruntime,
        "a wakeup looks in the waker's node only (wasted cores, 3.3)",
    ),
    row(
        Feature::OldLostDomains,
        "OLD_LOST_DOMAINS",
        Of::Vruntime,
        "rebuilt domains span one node at most (wasted cores, 3.4)",
    ),
];

impl Feature {
    /// Its kernel name.
    pub fn name(self) -> &'static str {
        FEATURES.iter().find(|row| row.feature == self).map_or("", |row| row.name)
    }

    /// Returns why the feature has no effect here; None if it has one.
    ///
    /// ```
    /// use vruntime_sched::features::Feature;
    /// assert!(Feature::TtwuQueue.without_effect().is_some());
    /// assert_eq!(Feature::RunToParity.without_effect(), None);
    /// ```
    pub const fn without_effect(self) -> Option<&'static str> {
        match self {
            Self::TtwuQueue => Some(
                "the waker enqueues a task on another CPU's run queue at once and spends the time (wakeup_ns); the other CPU spends the time \
                 of the interrupt (ipi_ns)",
            ),
            Self::NontaskCapacity | Self::NontaskPower => Some(
                "interrupts are charged to the task they interrupt, as without IRQ_TIME_ACCOUNTING, so the balancer sees \
                 no capacity lost to them",
            ),
            Self::AttachAgeLoad => {
                Some("averages of a task that changes its group are taken over as of their last update")
            }
            Self::PreciseCpuLoad => Some("a CPU's average loads count the tasks at each tick, as with the feature off"),
            Self::Numa | Self::NumaForce | Self::NumaFavourHigher | Self::NumaResistLower => {
                Some("memory is not modelled, so there is no NUMA balancing: tasks do not prefer a node")
            }
            Self::DoubleTick => Some("the periodic tick looks at slices always"),
            Self::ParanoidAvg => Some("a queue's sums are kept as coarse as up to 7.0, so that they do not overflow"),
            Self::WarnDoubleClock | Self::LatencyWarn => Some("it only prints warnings about the kernel's own code"),
            Self::ArchPower | Self::ArchCapacity => Some("the machine's capacities are those of its description"),
            Self::ForceSdOverlap => Some("groups overlap where the machine's nodes do"),
            _ => None,
        }
    }
}

/// A set of features.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features(u64);

impl Features {
    /// The set of the given features.
    pub const fn of(features: &[Feature]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < features.len() {
            bits |= 1 << features[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// All features of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the feature is on.
    #[inline]
    pub const fn has(self, feature: Feature) -> bool {
        self.0 >> feature as u8 & 1 == 1
    }

    /// Switches a feature.
    pub fn set(&mut self, feature: Feature, on: bool) {
        if on {
            self.0 |= 1 << feature as u8;
        } else {
            self.0 &= !(1 << feature as u8);
        }
    }
}
