//! Valid combinations of behaviours.

use core::fmt;

use super::{Area, Behaviour, Behaviours};
use crate::features::{Feature, Features};
use crate::kernels::PolicyKind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    With(Behaviour),
    Without(Behaviour),
}

use Needs::{With, Without};

const RULES: &[(Behaviour, Needs)] = &[
    (Behaviour::ByType, Without(Behaviour::Early)),
    (Behaviour::ByType, Without(Behaviour::CpuLoads)),
    (Behaviour::CountsTasks, With(Behaviour::Early)),
    (Behaviour::PowerPerThread, With(Behaviour::Early)),
    (Behaviour::TriesOneQueue, With(Behaviour::Early)),
    (Behaviour::LeavesFitting, Without(Behaviour::LeavesIdler)),
    (Behaviour::WakeWideFlips, With(Behaviour::WakeWide)),
    (Behaviour::Vprot, Without(Behaviour::ShortOvertakes)),
    (Behaviour::ShortensAlways, With(Behaviour::Vprot)),
    (Behaviour::RestoreKeeps, With(Behaviour::Vprot)),
    (Behaviour::ReweightKeeps, With(Behaviour::Vprot)),
    (Behaviour::BuddyIfProtected, With(Behaviour::BuddyInPick)),
    (Behaviour::FairServer, Without(Behaviour::RtThrottle)),
    (Behaviour::ServerStays, With(Behaviour::FairServer)),
    (Behaviour::ServerForgets, With(Behaviour::FairServer)),
    (Behaviour::ServerWaits, With(Behaviour::FairServer)),
    (Behaviour::ServerLingers, With(Behaviour::FairServer)),
    (Behaviour::ByType, With(Behaviour::WakeIdleCores)),
    (Behaviour::VcpuPack, With(Behaviour::ByType)),
    (Behaviour::LazyOrFull, With(Behaviour::LazyPreemption)),
    (Behaviour::RtGroups, With(Behaviour::TaskGroups)),
    (Behaviour::Autogroups, With(Behaviour::TaskGroups)),
    (Behaviour::GroupLimits, With(Behaviour::TaskGroups)),
    (Behaviour::IdleGroups, With(Behaviour::TaskGroups)),
    (Behaviour::GroupUtilClamps, With(Behaviour::TaskGroups)),
    (Behaviour::GroupUtilClamps, With(Behaviour::UtilClamps)),
    (Behaviour::LimitBursts, With(Behaviour::GroupLimits)),
    (Behaviour::DeadlineReclaims, With(Behaviour::SchedDeadline)),
    (Behaviour::DeadlineOverruns, With(Behaviour::SchedDeadline)),
    (Behaviour::NumaPair, Without(Behaviour::NumaQuarter)),
    (Behaviour::NumaPair, Without(Behaviour::NumaByCaches)),
    (Behaviour::NumaQuarter, Without(Behaviour::NumaByCaches)),
];

/// Behaviours of the balancer by load that nothing asks for once groups have types. Kernels in between may have both.
const BY_LOAD: &[Behaviour] = &[
    Behaviour::WeightIsLoad,
    Behaviour::HLoadOfAll,
    Behaviour::UnevenBySpread,
    Behaviour::AnyLoaded,
    Behaviour::LeavesIdler,
    Behaviour::LeavesFitting,
    Behaviour::GroupsByUtil,
];

/// Behaviours that only one balancer, or one search at wakeups, asks for. Kernels in between may have them.
const OF_OTHERS: &[(Behaviour, Behaviour)] = &[
    (Behaviour::FullyBusySmt, Behaviour::ByType),
    (Behaviour::MisfitFirst, Behaviour::ByType),
    (Behaviour::MisfitWaits, Behaviour::ByType),
    (Behaviour::NumaPair, Behaviour::ByType),
    (Behaviour::NumaQuarter, Behaviour::ByType),
    (Behaviour::NumaByCaches, Behaviour::ByType),
    (Behaviour::SiblingByCores, Behaviour::ByType),
    (Behaviour::SiblingOfBusiest, Behaviour::ByType),
    (Behaviour::SmtBalance, Behaviour::ByType),
    (Behaviour::SpareCore, Behaviour::ByType),
    (Behaviour::SparesBigCpus, Behaviour::ByType),
    (Behaviour::AgesIdle, Behaviour::WakeIdleCores),
    (Behaviour::ClusterFirst, Behaviour::WakeIdleCores),
    (Behaviour::RecentCpu, Behaviour::WakeIdleCores),
    (Behaviour::SearchOnce, Behaviour::WakeIdleCores),
    (Behaviour::SiblingsOfPrev, Behaviour::WakeIdleCores),
];

/// Behaviours that do nothing without one of some features. A kernel can have them and switch the features off.
const OF_FEATURES: &[(Behaviour, &[Feature])] = &[
    (Behaviour::AgesIdle, &[Feature::SisProp]),
    (Behaviour::DelayedCounts, &[Feature::DelayDequeue]),
    (Behaviour::DelayedKeepsDebt, &[Feature::DelayDequeue]),
    (Behaviour::HrtickOnce, &[Feature::Hrtick, Feature::HrtickDl]),
    (Behaviour::SliceByDeadline, &[Feature::Hrtick]),
];

/// A combination of behaviours that no kernel can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// One behaviour needs another.
    Needs(Behaviour, Behaviour),
    /// Two behaviours exclude each other.
    Excludes(Behaviour, Behaviour),
    /// A behaviour needs a feature that is off.
    NeedsFeature(Behaviour, Feature),
    /// The behaviour belongs to another policy.
    OtherPolicy(Behaviour, PolicyKind),
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Needs(one, other) => write!(f, "{} needs {}", one.name(), other.name()),
            Self::Excludes(one, other) => write!(f, "{} excludes {}", one.name(), other.name()),
            Self::NeedsFeature(one, feature) => write!(f, "{} needs {}", one.name(), feature.name()),
            Self::OtherPolicy(one, policy) => {
                let policy = match policy {
                    PolicyKind::O1 => "the O(1) scheduler",
                    PolicyKind::Cfs2007 => "the first CFS",
                    PolicyKind::Cfs => "CFS",
                    PolicyKind::Eevdf => "EEVDF",
                };
                write!(f, "{} means nothing to {policy}", one.name())
            }
        }
    }
}

impl core::error::Error for Impossible {}

impl Behaviours {
    /// Checks that a kernel of this policy can have the set.
    ///
    /// # Errors
    ///
    /// If two behaviours exclude each other, or one lacks another.
    pub fn check(&self, policy: PolicyKind) -> Result<(), Impossible> {
        for &(one, needs) in RULES.iter().filter(|(one, _)| self.has(*one)) {
            match needs {
                With(other) if !self.has(other) => return Err(Impossible::Needs(one, other)),
                Without(other) if self.has(other) => return Err(Impossible::Excludes(one, other)),
                _ => {}
            }
        }
        let early = matches!(policy, PolicyKind::O1 | PolicyKind::Cfs2007);
        if self.has(Behaviour::Early) != early {
            return Err(Impossible::OtherPolicy(Behaviour::Early, policy));
        }
        if self.has(Behaviour::SchedIdle) && policy == PolicyKind::O1 {
            return Err(Impossible::OtherPolicy(Behaviour::SchedIdle, policy));
        }
        Ok(())
    }
}

impl Behaviour {
    /// Checks that a behaviour that was added by hand has an effect beside the others.
    pub(crate) fn check_added(self, behaviours: &Behaviours, features: Features) -> Result<(), Impossible> {
        if behaviours.has(Behaviour::ByType) && BY_LOAD.contains(&self) {
            return Err(Impossible::Excludes(self, Behaviour::ByType));
        }
        if let Some((_, other)) = OF_OTHERS.iter().find(|(one, other)| *one == self && !behaviours.has(*other)) {
            return Err(Impossible::Needs(self, *other));
        }
        let of_features = OF_FEATURES.iter().find(|(one, _)| *one == self).map_or(&[][..], |(_, some)| *some);
        match of_features {
            [first, ..] if !of_features.iter().any(|one| features.has(*one)) => {
                Err(Impossible::NeedsFeature(self, *first))
            }
            _ => Ok(()),
        }
    }

    /// Whether the behaviour can make a difference under a policy.
    pub fn concerns(self, policy: PolicyKind) -> bool {
        match (self.row().area, policy) {
            (Area::Debug | Area::Kernel, _) => true,
            (Area::O1, _) => policy == PolicyKind::O1,
            (Area::Interface, PolicyKind::O1 | PolicyKind::Cfs2007) => {
                matches!(self, Self::SchedBatch | Self::SchedIdle)
            }
            (Area::Cfs, _) => policy == PolicyKind::Cfs,
            (Area::Eevdf, _) => policy == PolicyKind::Eevdf,
            (_, PolicyKind::Cfs | PolicyKind::Eevdf) => self != Self::Early,
            (Area::OldBalance | Area::Balance | Area::Wakeup | Area::Realtime, _) => true,
            _ => false,
        }
    }
}
