//! Scheduler features, by their kernel names.

mod rows;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::releases::{Certainty, version};

pub use rows::FEATURES;

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
    /// EEVDF: wakeups do not preempt the running task before its slice ends. 6.6 to 6.16: or before its lag is used up.
    /// 6.17+: or before the shortest waiting slice has passed.
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
    /// A CPU whose real-time tasks have used up their runtime borrows from others. Only kernels that throttle the class
    /// do so: up to 6.11, and all with RT_GROUP_SCHED. On before 5.10.
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
    /// Whether it is on by default.
    pub initial: Initial,
    /// How the releases were found.
    pub certainty: Certainty,
    /// The commits that introduced, switched or removed it; empty if only the certainty is known.
    pub origin: &'static str,
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

/// The default of a feature in the kernels that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Initial {
    /// Off in all.
    Off,
    /// On in all.
    On,
    /// On from a release on.
    OnFrom(&'static str),
    /// On up to, but excluding, a release.
    OnUntil(&'static str),
}

impl FeatureRow {
    /// Returns the releases that have it: `6.12+`. Empty if it belongs to a single kernel, or to vruntime.
    pub fn releases(&self) -> String {
        match self.of {
            Of::Releases(since, None) => format!("{since}+"),
            Of::Releases(since, Some(until)) => format!("{since} to before {until}"),
            Of::Kernel(_) | Of::Vruntime => String::new(),
        }
    }

    /// Returns its default: `on`, `off` or `on from 7.1`.
    pub fn default(&self) -> String {
        match self.initial {
            Initial::Off => "off".to_owned(),
            Initial::On => "on".to_owned(),
            Initial::OnFrom(since) => format!("on from {since}"),
            Initial::OnUntil(until) => format!("on to before {until}"),
        }
    }

    /// Returns the source of its releases: commits, or the kind of source by the certainty. Empty: vruntime's own.
    pub const fn source(&self) -> &'static str {
        match self.of {
            Of::Vruntime => "",
            _ if self.origin.is_empty() => self.certainty.source(),
            _ => self.origin,
        }
    }

    /// Whether it is on by default at a release that has it.
    pub(crate) fn is_on_at(&self, release: &str) -> bool {
        let reached = |from: &str| version(release) >= version(from);
        match self.initial {
            Initial::Off => false,
            Initial::On => true,
            Initial::OnFrom(since) => reached(since),
            Initial::OnUntil(until) => !reached(until),
        }
    }
}

impl Feature {
    /// Returns its row in [`FEATURES`].
    pub fn row(self) -> Option<&'static FeatureRow> {
        FEATURES.iter().find(|row| row.feature == self)
    }

    /// Returns its kernel name.
    pub fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
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
            Self::AttachAgeLoad => Some("a task that changes its group keeps the averages of their last update"),
            Self::PreciseCpuLoad => Some("a CPU's average loads count the tasks at each tick, as with the feature off"),
            Self::Numa | Self::NumaForce | Self::NumaFavourHigher | Self::NumaResistLower => {
                Some("memory is not modelled, so there is no NUMA balancing: tasks do not prefer a node")
            }
            Self::DoubleTick => Some("the periodic tick always checks slices"),
            Self::ParanoidAvg => Some("a queue's sums have the precision of 7.0 and before, so they do not overflow"),
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
    /// Returns the set of the given features.
    pub const fn of(features: &[Feature]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < features.len() {
            bits |= 1 << features[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// Returns the features of both sets.
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
