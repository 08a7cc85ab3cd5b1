//! Why a change of a task's policy or CPUs is refused.

use alloc::boxed::Box;
use core::fmt;

use super::bandwidth::AdmissionError;
use super::params::DlParamError;
use crate::ids::GroupId;

/// Why `sched_setattr` or `sched_setaffinity` is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SchedError {
    /// The parameters are invalid (EINVAL).
    Params(DlParamError),
    /// There is no bandwidth for them (EBUSY).
    Admission(Box<AdmissionError>),
    /// A deadline task must be allowed on all CPUs of its root domain (EPERM, EBUSY).
    Affinity {
        /// Allowed CPUs of the domain.
        allowed: usize,
        /// CPUs of the domain.
        cpus: usize,
    },
    /// Its group has no real-time runtime (EPERM; EINVAL when it joins the group).
    NoRtRuntime {
        /// The group.
        group: GroupId,
    },
    /// No requested CPU is online (EINVAL).
    Offline,
    /// The task's cpuset has no requested CPU (EINVAL).
    Cpuset,
    /// Partitions below the group have all its CPUs (ENOSPC).
    NoCpus,
}

impl fmt::Display for SchedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params(error) => error.fmt(f),
            Self::Admission(error) => error.fmt(f),
            Self::Affinity { allowed, cpus } => write!(
                f,
                "a SCHED_DEADLINE task must be allowed on all CPUs of its root domain, here {allowed} of {cpus}: admission \
                 counts on it; lift the affinity, or switch admission off (sched_rt_runtime_us above sched_rt_period_us)"
            ),
            Self::NoRtRuntime { group } => write!(
                f,
                "group {group} may have no real-time tasks, for its rt_runtime is 0 (CONFIG_RT_GROUP_SCHED); give it one, or \
                 choose another group or policy"
            ),
            Self::Offline => {
                write!(f, "none of the requested CPUs is online; bring one online first, or request others")
            }
            Self::Cpuset => write!(
                f,
                "the cpuset of its group has no requested CPU that is online (EINVAL); request others, or give the group more"
            ),
            Self::NoCpus => write!(
                f,
                "the group has no CPU for a task (ENOSPC): child partitions own all; move the task to a partition, or leave the group a CPU"
            ),
        }
    }
}

impl core::error::Error for SchedError {}
