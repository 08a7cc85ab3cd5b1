//! Scheduler features, by their kernel names.

/// A switch in the scheduler's behaviour, as in `/sys/kernel/debug/sched/features`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Feature {
    /// EEVDF: a task that sleeps keeps its lag, and gets it back at wakeup.
    PlaceLag,
    /// EEVDF: a task that begins gets half a slice for its first deadline.
    PlaceDeadlineInitial,
    /// EEVDF (6.12): a task that moves to another run queue keeps the rest of its deadline.
    PlaceRelDeadline,
    /// EEVDF: the running task is not preempted at wakeup before its slice (6.6, 6.12: its lag turned into 0 point; 6.18: the
    /// shortest slice waiting) is used up.
    RunToParity,
    /// EEVDF (6.12): a task with a shorter slice may preempt in spite of `RUN_TO_PARITY`.
    PreemptShort,
    /// Prefer to run the task woken last.
    NextBuddy,
    /// EEVDF (6.12): honour the next buddy when it is eligible.
    PickBuddy,
    /// CFS: after a wakeup preemption prefer to go back to the preempted task.
    LastBuddy,
    /// Buddies are cache-hot: the balancer leaves them where they are.
    CacheHotBuddy,
    /// EEVDF (6.12): a task that sleeps with negative lag stays queued until it is picked.
    DelayDequeue,
    /// EEVDF (6.12): a delayed task that is dequeued or woken loses its positive lag.
    DelayZero,
    /// A waking task may preempt the running one.
    WakeupPreemption,
    /// End slices by a high-resolution timer instead of the tick.
    Hrtick,
    /// Scale load by what interrupts and real-time tasks leave of the CPU.
    NontaskCapacity,
    /// Remote wakeups are queued and done by the target CPU.
    TtwuQueue,
    /// Bound the search for an idle CPU by the cache domain's utilisation.
    SisUtil,
    /// The balancer moves at least so much load even if it is small.
    LbMin,
    /// Load of a task that attaches is aged to now.
    AttachAgeLoad,
    /// Wake-affine: prefer the waking CPU when it is idle.
    WaIdle,
    /// Wake-affine: compare the loads of the waking and the previous CPU.
    WaWeight,
    /// Wake-affine: give the comparison a bias by the domain's imbalance percentage.
    WaBias,
    /// Estimate a task's utilisation from what it was when it last went to sleep.
    UtilEst,
    /// CFS: a sleeper gets half a latency period of credit instead of a whole one.
    GentleFairSleepers,
    /// CFS: a new task starts one slice behind (first CFS: half a granularity in debt).
    StartDebit,
    /// CFS: compute the scheduling period from the whole hierarchy's tasks.
    AltPeriod,
    /// CFS: a slice is never shorter than the minimal granularity.
    BaseSlice,
    /// The newly idle balance goes by its own chance of success.
    NiRandom,
    /// End the runtime of deadline tasks by a high-resolution timer instead of the tick.
    HrtickDl,
    /// A CPU whose real-time tasks have used up what they may have borrows from the others, where they are throttled (6.1, 6.6; with
    /// real-time scheduling of groups all kernels). On up to 3.18; off since 5.10.
    RtRuntimeShare,
    /// First CFS: a sleeper gets credit for the time it could have run.
    FairSleepers,
    /// First CFS: that is reckoned as if it had run meanwhile.
    SleeperAvg,
    /// First CFS: by the run queue's average load instead of what it is at the wakeup.
    SleeperLoadAvg,
    /// First CFS: a new task is given no credit for its first wait.
    SkipInitial,
    /// 3.10 to 3.18: the balancer takes the lower of present and average load for who may be pulled from, the higher for who may pull.
    LbBias,
    /// Ours, in no kernel on offer: the balancer compares groups by their average load alone ("A Decade of Wasted Cores", 3.1).
    OldGroupAvg,
    /// Ours, in no kernel on offer: overlapping groups of NUMA nodes are those of the first CPU, for all (the same, 3.2).
    OldNumaGroups,
    /// Ours, in no kernel on offer: a wakeup looks for a CPU in the waker's node only (the same, 3.3).
    OldWakeNode,
    /// Ours, in no kernel on offer: when the domains are built anew, after a CPU came or went, those of several NUMA nodes are
    /// left out (the same, 3.4).
    OldLostDomains,
}

/// Every feature with its kernel name.
pub const FEATURES: &[(Feature, &str)] = &[
    (Feature::PlaceLag, "PLACE_LAG"),
    (Feature::PlaceDeadlineInitial, "PLACE_DEADLINE_INITIAL"),
    (Feature::PlaceRelDeadline, "PLACE_REL_DEADLINE"),
    (Feature::RunToParity, "RUN_TO_PARITY"),
    (Feature::PreemptShort, "PREEMPT_SHORT"),
    (Feature::NextBuddy, "NEXT_BUDDY"),
    (Feature::PickBuddy, "PICK_BUDDY"),
    (Feature::LastBuddy, "LAST_BUDDY"),
    (Feature::CacheHotBuddy, "CACHE_HOT_BUDDY"),
    (Feature::DelayDequeue, "DELAY_DEQUEUE"),
    (Feature::DelayZero, "DELAY_ZERO"),
    (Feature::WakeupPreemption, "WAKEUP_PREEMPTION"),
    (Feature::Hrtick, "HRTICK"),
    (Feature::NontaskCapacity, "NONTASK_CAPACITY"),
    (Feature::TtwuQueue, "TTWU_QUEUE"),
    (Feature::SisUtil, "SIS_UTIL"),
    (Feature::LbMin, "LB_MIN"),
    (Feature::AttachAgeLoad, "ATTACH_AGE_LOAD"),
    (Feature::WaIdle, "WA_IDLE"),
    (Feature::WaWeight, "WA_WEIGHT"),
    (Feature::WaBias, "WA_BIAS"),
    (Feature::UtilEst, "UTIL_EST"),
    (Feature::GentleFairSleepers, "GENTLE_FAIR_SLEEPERS"),
    (Feature::StartDebit, "START_DEBIT"),
    (Feature::AltPeriod, "ALT_PERIOD"),
    (Feature::BaseSlice, "BASE_SLICE"),
    (Feature::NiRandom, "NI_RANDOM"),
    (Feature::HrtickDl, "HRTICK_DL"),
    (Feature::RtRuntimeShare, "RT_RUNTIME_SHARE"),
    (Feature::FairSleepers, "FAIR_SLEEPERS"),
    (Feature::SleeperAvg, "SLEEPER_AVG"),
    (Feature::SleeperLoadAvg, "SLEEPER_LOAD_AVG"),
    (Feature::SkipInitial, "SKIP_INITIAL"),
    (Feature::LbBias, "LB_BIAS"),
    (Feature::OldGroupAvg, "OLD_GROUP_AVG"),
    (Feature::OldNumaGroups, "OLD_NUMA_GROUPS"),
    (Feature::OldWakeNode, "OLD_WAKE_NODE"),
    (Feature::OldLostDomains, "OLD_LOST_DOMAINS"),
];

impl Feature {
    /// Its kernel name.
    pub fn name(self) -> &'static str {
        FEATURES.iter().find(|(feature, _)| *feature == self).map_or("", |(_, name)| name)
    }

    /// Why it makes no difference here, if it does not: a word for those who switch it.
    ///
    /// ```
    /// use vruntime_sched::features::Feature;
    /// assert!(Feature::TtwuQueue.without_effect().is_some());
    /// assert_eq!(Feature::RunToParity.without_effect(), None);
    /// ```
    pub const fn without_effect(self) -> Option<&'static str> {
        match self {
            Self::TtwuQueue => Some(
                "the waker enqueues a task on another CPU's run queue at once and pays for it (wakeup_ns); the other CPU \
                 pays for the interrupt that tells it (ipi_ns)",
            ),
            Self::NontaskCapacity => Some(
                "interrupts are charged to the task they interrupt, as without IRQ_TIME_ACCOUNTING, so the balancer sees \
                 no capacity lost to them",
            ),
            Self::AttachAgeLoad => {
                Some("averages of a task that changes its group are taken over as of their last update")
            }
            _ => None,
        }
    }
}

/// A set of features.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features(u64);

impl Features {
    /// The set of these.
    pub const fn of(features: &[Feature]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < features.len() {
            bits |= 1 << features[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// All of both sets.
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
