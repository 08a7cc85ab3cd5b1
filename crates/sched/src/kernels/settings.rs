//! The values of tunables, and the kernels that have them.

use alloc::string::{String, ToString};
use core::fmt;
use core::ops::RangeInclusive;

use super::{Behaviour, Kernel, PolicyKind, TUNABLES, UnknownName, has_feature, kernels, version};
use crate::features::Feature;

/// The values of a debugfs file that holds a `u32`.
const ANY_U32: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// Tunables of 2.6.23, the first CFS.
const OF_FIRST_CFS: [&str; 7] = [
    "sched_granularity_ns",
    "sched_wakeup_granularity_ns",
    "sched_batch_wakeup_granularity_ns",
    "sched_stat_granularity_ns",
    "sched_runtime_limit_ns",
    "sched_child_runs_first",
    "sched_compat_yield",
];

/// Sysctls (`kernel.sched_latency_ns`), and the debugfs files that replaced them in 5.13.
const SYSCTLS: [(&str, &str); 5] = [
    ("sched_latency_ns", "latency_ns"),
    ("sched_min_granularity_ns", "min_granularity_ns"),
    ("sched_wakeup_granularity_ns", "wakeup_granularity_ns"),
    ("sched_migration_cost_ns", "migration_cost_ns"),
    ("sched_nr_migrate", "nr_migrate"),
];

/// Tunables that are newer than 2.6.24, and the releases that introduced them.
const INTRODUCED: [(&str, &str); 6] = [
    ("sched_util_clamp_min", "5.3"),
    ("sched_util_clamp_max", "5.3"),
    ("sched_util_clamp_min_rt_default", "5.9"),
    ("sched_deadline_period_min_us", "5.4"),
    ("sched_deadline_period_max_us", "5.4"),
    // With `cpu.idle`.
    ("idle_min_granularity_ns", "5.15"),
];

/// Why a tunable cannot be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingError {
    /// No kernel has it.
    Unknown(UnknownName),
    /// Only other kernels have it.
    NotHere {
        /// The tunable.
        name: &'static str,
        /// The kernel to set it in.
        kernel: &'static str,
        /// The first and last supported kernels that have it.
        has: (&'static str, &'static str),
    },
    /// The kernel refuses the value.
    OutOfRange {
        /// The tunable.
        name: String,
        /// The value.
        value: u64,
        /// The allowed values.
        range: RangeInclusive<u64>,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => name.fmt(f),
            Self::NotHere { name, kernel, has: (first, last) } if first == last => {
                write!(f, "Linux {kernel} has no {name}: {first} has it")
            }
            Self::NotHere { name, kernel, has: (first, last) } => {
                write!(f, "Linux {kernel} has no {name}: {first} to {last} have it")
            }
            Self::OutOfRange { name, value, range } => {
                write!(f, "{name} cannot be {value}: expected {} to {}", range.start(), range.end())
            }
        }
    }
}

impl core::error::Error for SettingError {}

/// Returns the values that the tunable's file, or the simulation, accepts.
fn range(name: &str) -> RangeInclusive<u64> {
    match name {
        "base_slice_ns" | "min_granularity_ns" | "sched_runtime_limit_ns" => 1..=*ANY_U32.end(),
        "sched_rr_timeslice_ms" => 0..=i32::MAX as u64,
        "sched_rt_period_us" => 1..=i32::MAX as u64,
        // A runtime of at least the period means no limit.
        "sched_rt_runtime_us" => 0..=u64::MAX,
        "fair_server/runtime" => 0..=(1 << 22) * 1000,
        "fair_server/period" => 100_000..=(1 << 22) * 1000,
        "sched_child_runs_first" | "sched_compat_yield" | "sched_energy_aware" => 0..=1,
        "sched_cfs_bandwidth_slice_us" | "CPU_RC_SPREAD_PERIOD" | "CPU_RC_RECALC_INTERVAL" => 1..=1_000_000,
        "CPU_RC_LOAD_SCALE" => 1..=1 << 22,
        "CPU_RC_TSFACTOR_MAX" => 1..=1 << 20,
        "CPU_RC_TSFACTOR_INC" | "CPU_RC_STARVE_THRESHOLD" => 0..=1_000_000,
        _ if name.starts_with("sched_util_clamp_") => 0..=1024,
        _ => ANY_U32,
    }
}

fn has(kernel: &Kernel, name: &str) -> bool {
    let policy = kernel.policy;
    match name {
        "migration_cost_ns" | "sched_rr_timeslice_ms" => true,
        _ if name.starts_with("CPU_RC_") => has_feature(kernel.name, Feature::CpuRcScaling),
        // The O(1) scheduler's numbers were compiled in.
        _ if policy == PolicyKind::O1 => false,
        _ if OF_FIRST_CFS.contains(&name) => policy == PolicyKind::Cfs2007,
        _ if policy == PolicyKind::Cfs2007 => false,
        "nr_migrate" => true,
        _ if INTRODUCED.iter().any(|(new, since)| *new == name && version(kernel.release) < version(since)) => false,
        "sched_energy_aware" => kernel.behaviours.has(Behaviour::Eas),
        "base_slice_ns" => policy == PolicyKind::Eevdf,
        _ if name.starts_with("fair_server/") => kernel.behaviours.has(Behaviour::FairServer),
        _ => name.starts_with("sched_") || policy == PolicyKind::Cfs,
    }
}

impl Kernel {
    /// Returns the name in [`TUNABLES`] for a tunable's sysctl (with or without `kernel.`) or debugfs file.
    pub(super) fn tunable_name<'n>(&self, name: &'n str) -> &'n str {
        let name = name.strip_prefix("kernel.").unwrap_or(name);
        if self.policy == PolicyKind::Cfs2007 && OF_FIRST_CFS.contains(&name) {
            return name;
        }
        SYSCTLS.iter().find(|(sysctl, _)| *sysctl == name).map_or(name, |(_, file)| file)
    }

    /// Returns the kernel's tunables: rows of [`TUNABLES`], with the name for [`set`](Self::set). Each occurs once.
    ///
    /// ```
    /// let kernel = vruntime_sched::kernel("6.1").unwrap();
    /// let names: Vec<&str> = kernel.own_tunables().map(|(name, _)| name).collect();
    /// assert!(names.contains(&"wakeup_granularity_ns"));
    /// // The sysctl is another name of that tunable. The first CFS has a tunable of this name.
    /// assert!(kernel.has_tunable("sched_wakeup_granularity_ns") && !names.contains(&"sched_wakeup_granularity_ns"));
    /// ```
    pub fn own_tunables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        TUNABLES.iter().copied().filter(|(name, _)| has(self, name))
    }

    pub(super) fn unknown_tunable(&self, name: &str) -> UnknownName {
        let own = self.own_tunables().map(|(known, _)| known).collect();
        self.unknown("tunable", name, own, TUNABLES.iter().map(|(known, _)| *known))
    }

    /// Whether the kernel has a tunable, by its kernel name.
    pub fn has_tunable(&self, name: &str) -> bool {
        let name = self.tunable_name(name);
        has(self, name)
    }

    /// Checks whether the kernel has a tunable and accepts a value. [`set`](Self::set) clamps other values.
    ///
    /// # Errors
    ///
    /// If no kernel, or only others, have the tunable, or the value is out of range.
    ///
    /// ```
    /// let kernel = vruntime_sched::kernel("6.12").unwrap();
    /// assert!(kernel.accepts("base_slice_ns", 3_000_000).is_ok());
    /// let error = kernel.accepts("sched_util_clamp_min", 5000).unwrap_err();
    /// assert_eq!(error.to_string(), "sched_util_clamp_min cannot be 5000: expected 0 to 1024");
    /// let error = kernel.accepts("kernel.sched_latency_ns", 6_000_000).unwrap_err();
    /// assert_eq!(error.to_string(), "Linux 6.12 has no latency_ns: 3.10 to 6.4 have it");
    /// ```
    pub fn accepts(&self, name: &str, value: u64) -> Result<(), SettingError> {
        let name = self.tunable_name(name);
        let Some((known, _)) = TUNABLES.iter().find(|(known, _)| *known == name) else {
            return Err(SettingError::Unknown(self.unknown_tunable(name)));
        };
        if !self.has_tunable(name) {
            let mut having = kernels().iter().filter(|row| has(row, name)).map(|row| row.name);
            let first = having.next().unwrap_or(self.name);
            let has = (first, having.next_back().unwrap_or(first));
            return Err(SettingError::NotHere { name: known, kernel: self.name, has });
        }
        let range = range(name);
        if range.contains(&value) {
            Ok(())
        } else {
            Err(SettingError::OutOfRange { name: name.to_string(), value, range })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernel;

    #[test]
    fn a_kernel_has_each_tunable_and_each_has_a_range() {
        for (name, _) in TUNABLES {
            assert!(
                kernels().iter().any(|row| kernel(row.name).is_ok_and(|kernel| kernel.has_tunable(name))),
                "{name}"
            );
            let (least, most) = range(name).into_inner();
            assert!(least < most, "{name}");
        }
    }

    #[test]
    fn sysctls_name_tunables() {
        let set = |kernel_name: &str, name: &str| {
            let mut kernel = kernel(kernel_name).unwrap();
            kernel
                .accepts(name, 1_000_000)
                .and_then(|()| kernel.set(name, 1_000_000).map_err(SettingError::Unknown))?;
            Ok::<_, SettingError>(kernel.tunables(1, 250))
        };
        for name in ["sched_wakeup_granularity_ns", "kernel.sched_wakeup_granularity_ns", "wakeup_granularity_ns"] {
            assert_eq!(set("3.10", name).unwrap().wakeup_granularity_ns, 1_000_000, "{name}");
        }
        assert_eq!(set("6.1", "sched_latency_ns").unwrap().latency_ns, 1_000_000);
        assert_eq!(set("6.1", "sched_min_granularity_ns").unwrap().base_slice_ns, 1_000_000);
        assert_eq!(set("6.12", "sched_migration_cost_ns").unwrap().migration_cost_ns, 1_000_000);
        // In 2.6.23 this name is a tunable of the first CFS.
        assert_eq!(set("2.6.23", "sched_wakeup_granularity_ns").unwrap().cfs_2007.wakeup_granularity_ns, 1_000_000);
        assert!(set("6.12", "sched_latency_ns").is_err());
    }

    #[test]
    fn ranges_are_those_of_the_kernels() {
        let accepts = |kernel_name: &str, name: &str, value| kernel(kernel_name).unwrap().accepts(name, value).is_ok();
        for (kernel, name, least, most) in [
            ("6.12", "sched_util_clamp_max", 0, 1024),
            ("6.18", "fair_server/period", 100_000, 4_194_304_000),
            ("6.12", "base_slice_ns", 1, u64::from(u32::MAX)),
            ("6.1", "sched_cfs_bandwidth_slice_us", 1, 1_000_000),
            ("2.6.23", "sched_compat_yield", 0, 1),
        ] {
            assert!(accepts(kernel, name, least) && accepts(kernel, name, most), "{name}");
            assert!(least == 0 || !accepts(kernel, name, least - 1), "{name}");
            assert!(!accepts(kernel, name, most + 1), "{name}");
        }
        // RHEL 9 has the scheduler of a later release than its name.
        assert!(accepts("5.14-el9", "idle_min_granularity_ns", 1) && !accepts("5.10", "idle_min_granularity_ns", 1));
        for (kernel, name) in [("6.12", "latency_ns"), ("6.1", "fair_server/runtime"), ("6.12", "CPU_RC_LOAD_SCALE")] {
            assert!(!accepts(kernel, name, 1), "{name}");
        }
    }
}
