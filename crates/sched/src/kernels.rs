//! The supported kernels: policy, features, tunables and balancing behaviour, one row each. Users choose by number, and
//! may override features and tunables by their kernel names.

pub mod behaviours;
mod differences;
mod distributions;
mod settings;
mod switches;
mod table;
mod versions;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use once_cell::race::OnceBox;

use crate::class::cfs_2007::tunables::Tunables2007;
use crate::class::deadline::params::DlTunables;
use crate::class::o1::tunables::CpuRcTunables;
use crate::features::{FEATURES, Feature, Features, Of};
use crate::tunables::{Knobs, scaling};
use crate::uclamp::{SCALE, UclampTunables};

pub use behaviours::{Behaviour, Behaviours, Impossible};
pub use differences::Difference;
pub use distributions::Distribution;
pub use settings::SettingError;
pub(crate) use versions::version;
pub use versions::{Neighbours, series};

/// The policies of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyKind {
    /// O(1): priority arrays, and an estimate of interactivity.
    O1,
    /// The first Completely Fair Scheduler: runs the task that waited most for its share.
    Cfs2007,
    /// Completely Fair Scheduler: least vruntime first.
    Cfs,
    /// Earliest Eligible Virtual Deadline First.
    Eevdf,
}

const MS: u64 = 1_000_000;

/// A kernel's table entry, with changes by hand.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name for users.
    pub name: &'static str,
    /// Its mainline release, whose [behaviours] it has.
    pub release: &'static str,
    /// Distribution's kernel: part of its releases' names (`uname -r`); else empty.
    pub vendor: &'static str,
    /// Its policy.
    pub policy: PolicyKind,
    /// Features that are on.
    pub features: Features,
    /// Its behaviours.
    pub behaviours: Behaviours,
    /// Real-time scheduling of groups (CONFIG_RT_GROUP_SCHED, `rt_group_sched=`); off, as in distributions.
    pub rt_group_sched: bool,
    /// Whether to count switches away from each group; off.
    pub group_switches: bool,
    /// Slice (EEVDF) or minimal granularity (CFS), unscaled by CPUs, ns.
    pub base_slice_ns: u64,
    /// How long a task stays cache-hot, ns.
    pub migration_cost_ns: u64,
    /// What was not compared with that kernel; empty: nothing.
    pub unverified: &'static str,
    /// Changes from the kernel before, and why.
    pub change: &'static str,
    /// Features beyond its release's.
    extra: &'static [Feature],
    /// Features that are off, though on by default in its release.
    off: &'static [Feature],
    /// Behaviours beyond its release's.
    plus: &'static [Behaviour],
    /// Release behaviours that it lacks.
    minus: &'static [Behaviour],
    /// What its later stable releases changed.
    later: &'static [Later],
    /// Tunables set by hand, ordered.
    overrides: Vec<(String, u64)>,
    /// Behaviours added or removed by hand, ordered.
    forced: Vec<(Behaviour, bool)>,
}

/// What a stable release and its successors have beyond the kernel in the table.
#[derive(Debug)]
struct Later {
    /// The first of these releases.
    since: [u32; 3],
    /// The first release without it. `None`: all later ones have it.
    until: Option<[u32; 3]>,
    /// The first build of a distribution: the number after the version. 0: all builds.
    build: u32,
    /// A part of the releases' names; empty: all have it.
    part: &'static str,
    /// Behaviours that the table's kernel lacks.
    plus: &'static [Behaviour],
    /// Behaviours of the table's kernel that they lack.
    minus: &'static [Behaviour],
    /// Features that they switch off.
    off: &'static [Feature],
}

/// An unknown name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// Its kind: "kernel", "feature", "tunable".
    pub kind: &'static str,
    /// The given name.
    pub name: Box<str>,
    /// The most similar known name.
    pub nearest: Option<&'static str>,
    /// All known names; features and tunables are those of `of`.
    pub known: Box<[&'static str]>,
    /// The kernel of a feature or tunable.
    pub of: Option<&'static str>,
    /// For a kernel's version: its supported neighbours.
    pub neighbours: Option<Neighbours>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no {} '{}'", self.kind, self.name)?;
        if let Some(neighbours) = self.neighbours {
            write!(f, ": {neighbours}")?;
        }
        if let Some(nearest) = self.nearest {
            write!(f, "; did you mean '{nearest}'?")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownName {}

fn unknown(kind: &'static str, name: &str, known: Vec<&'static str>) -> UnknownName {
    let nearest = nearest(name, &known);
    UnknownName { kind, name: name.into(), nearest, known: known.into(), of: None, neighbours: None }
}

/// Returns the candidate most similar to `name`, or None if none is near.
///
/// ```
/// assert_eq!(vruntime_sched::kernels::nearest("swich_ns", &["switch_ns", "tick_ns"]), Some("switch_ns"));
/// ```
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let alike = candidates.iter().map(|candidate| (distance(name, candidate), *candidate));
    alike
        .filter(|(edits, candidate)| *edits <= candidate.len().div_ceil(2))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().take(64).map(|byte| byte.to_ascii_lowercase()).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let replace = diagonal + usize::from(byte != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Returns the supported kernels, oldest first.
pub fn kernels() -> &'static [Kernel] {
    static ALL: OnceBox<Vec<Kernel>> = OnceBox::new();
    ALL.get_or_init(|| Box::new(table::kernels()))
}

/// Returns the kernel called `name`.
///
/// # Errors
///
/// An unknown name; the error holds the nearest.
///
/// ```
/// assert_eq!(vruntime_sched::kernel("6.12").unwrap().name, "6.12");
/// assert_eq!(vruntime_sched::kernel("6.13").unwrap_err().nearest, Some("6.12"));
/// ```
pub fn kernel(name: &str) -> Result<Kernel, UnknownName> {
    kernels().iter().find(|kernel| kernel.name == name).cloned().ok_or_else(|| {
        let names = kernels().iter().map(|kernel| kernel.name).collect();
        let mut unknown = unknown("kernel", name, names);
        if let Some(neighbours) = versions::neighbours(name) {
            (unknown.nearest, unknown.neighbours) = (neighbours.nearest(name), Some(neighbours));
        }
        unknown
    })
}

/// Whether a kernel has a feature, on or off.
pub fn has_feature(kernel: &str, feature: Feature) -> bool {
    kernels().iter().find(|row| row.name == kernel).is_some_and(|row| row.has_feature(feature))
}

/// Returns a feature's first and last kernels.
pub fn with_feature(feature: Feature) -> Option<(&'static str, &'static str)> {
    let mut having = kernels().iter().filter(|row| row.has_feature(feature)).map(|row| row.name);
    let first = having.next()?;
    Some((first, having.next_back().unwrap_or(first)))
}

/// Returns the meaning of a tunable's negative value: -1 is no limit of real-time bandwidth, any the default slice of
/// SCHED_RR. `None`: the kernel rejects it.
///
/// ```
/// use vruntime_sched::kernels::negative;
/// assert_eq!(negative("sched_rt_runtime_us", -1), Some(u64::MAX));
/// assert_eq!(negative("base_slice_ns", -1), None);
/// ```
pub fn negative(name: &str, value: i64) -> Option<u64> {
    match (name.strip_prefix("kernel.").unwrap_or(name), value) {
        ("sched_rt_runtime_us", -1) => Some(u64::MAX),
        ("sched_rr_timeslice_ms", ..0) => Some(0),
        _ => None,
    }
}

/// Splits a switch into a feature's or behaviour's name, and whether it is on.
///
/// ```
/// use vruntime_sched::kernels::bare_feature;
/// assert_eq!(bare_feature("NO_HRTICK"), ("HRTICK", false));
/// assert_eq!(bare_feature("+TASK_THROTTLE"), ("TASK_THROTTLE", true));
/// ```
pub fn bare_feature(name: &str) -> (&str, bool) {
    let off = name.strip_prefix("NO_").or(name.strip_prefix('-'));
    off.map_or((name.strip_prefix('+').unwrap_or(name), true), |bare| (bare, false))
}

/// Returns SCHED_RR's slice for `ms` in whole ticks, rounded up (`msecs_to_jiffies`); 0: the default.
fn rr_timeslice(ms: u64, hz: u32) -> u64 {
    let hz = u64::from(hz.max(1));
    match ms {
        0 => 100 * MS,
        ms => ms.saturating_mul(hz).div_ceil(1000).saturating_mul(1_000_000_000 / hz),
    }
}

/// Settable tunables, with descriptions.
pub const TUNABLES: &[(&str, &str)] = &[
    ("base_slice_ns", "EEVDF: slice of a task without a custom slice"),
    ("latency_ns", "CFS: period in which every runnable task runs once"),
    ("min_granularity_ns", "CFS: shortest slice"),
    ("wakeup_granularity_ns", "CFS: how far behind a waking task must be to preempt"),
    ("idle_min_granularity_ns", "CFS: shortest slice of SCHED_IDLE entities"),
    ("migration_cost_ns", "a task that ran less than this ago is cache-hot"),
    ("nr_migrate", "most tasks a balancing pass looks at"),
    ("sched_rr_timeslice_ms", "slice of a SCHED_RR task, milliseconds, rounded up to whole ticks; 0: 100"),
    ("sched_rt_period_us", "period of real-time bandwidth, microseconds, at least 1"),
    ("sched_rt_runtime_us", "what real-time tasks may have of it, microseconds; -1, or the period or more: no limit"),
    ("sched_deadline_period_min_us", "shortest period of a deadline task, microseconds"),
    ("sched_deadline_period_max_us", "longest period of a deadline task, microseconds"),
    ("fair_server/runtime", "6.12+: what each CPU keeps for starving fair tasks, nanoseconds; 0: nothing"),
    ("fair_server/period", "6.12+: in each such period, nanoseconds, 100 us to 4.194304 s"),
    ("sched_cfs_bandwidth_slice_us", "run time a CPU draws at a time from a group's limit"),
    ("sched_granularity_ns", "2.6.23: a task runs until another task is owed more by this time, at nice 0"),
    ("sched_wakeup_granularity_ns", "2.6.23: a waking task preempts if it is owed more by this time"),
    ("sched_batch_wakeup_granularity_ns", "2.6.23: the same for a waking SCHED_BATCH task"),
    ("sched_stat_granularity_ns", "2.6.23: smallest step of accounting"),
    ("sched_runtime_limit_ns", "2.6.23: the most that a task is owed, or owes"),
    ("sched_child_runs_first", "2.6.23: whether a forked task runs before its parent, 0 or 1"),
    ("sched_compat_yield", "2.6.23: whether a task that yields is queued behind all others, 0 or 1"),
    ("CPU_RC_SPREAD_PERIOD", "2.6.15-cpurc: milliseconds over which the load of a class is averaged"),
    ("CPU_RC_RECALC_INTERVAL", "2.6.15-cpurc: milliseconds between two checks for hungry classes"),
    ("CPU_RC_LOAD_SCALE", "2.6.15-cpurc: load of a class that has all of a CPU, 1 to 2^22"),
    ("CPU_RC_TSFACTOR_INC", "2.6.15-cpurc: step by which scaling factors rise while no class is hungry"),
    ("CPU_RC_TSFACTOR_MAX", "2.6.15-cpurc: the scaling factor of a whole timeslice, 1 to 2^20"),
    ("CPU_RC_STARVE_THRESHOLD", "2.6.15-cpurc: a class that is hungry in more checks than this starves"),
    ("sched_util_clamp_min", "highest util_min that any task gets, of 1024"),
    ("sched_util_clamp_max", "highest util_max that any task gets, of 1024"),
    ("sched_util_clamp_min_rt_default", "util_min of real-time tasks without one, of 1024"),
    ("sched_energy_aware", "wakeups look at energy where the machine has a model of it, 0 or 1"),
];

impl Kernel {
    /// Whether it has a feature, on or off.
    pub fn has_feature(&self, feature: Feature) -> bool {
        let row = FEATURES.iter().find(|row| row.feature == feature);
        row.is_some_and(|row| match row.of {
            Of::Releases(since, until) => {
                let reached = |from| versions::version(self.release) >= versions::version(from);
                let has = reached(since) && !until.is_some_and(reached);
                has || self.extra.contains(&feature)
            }
            Of::Kernel(name) => self.name == name,
            Of::Vruntime => false,
        })
    }

    /// Sets a tunable by its sysctl's or debugfs file's name, unscaled by CPUs. [`accepts`](Self::accepts) says whether
    /// the kernel would accept the value.
    ///
    /// # Errors
    ///
    /// An unknown name.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownName> {
        let name = self.tunable_name(name);
        if !TUNABLES.iter().any(|(known, _)| *known == name) {
            return Err(self.unknown_tunable(name));
        }
        self.overrides.push((name.to_string(), value));
        Ok(())
    }

    /// Switches a feature or [behaviour](behaviours) by name: on, with an optional `+`, or off with `NO_` or `-`.
    /// [`check`](Self::check) checks dependencies.
    ///
    /// # Errors
    ///
    /// An unknown name.
    ///
    /// ```
    /// use vruntime_sched::kernels::Behaviour;
    /// let mut kernel = vruntime_sched::kernel("6.12").unwrap();
    /// kernel.feature("+TASK_THROTTLE").unwrap();
    /// kernel.feature("-DELAY_DEQUEUE").unwrap();
    /// assert!(kernel.behaviours.has(Behaviour::TaskThrottle) && kernel.check().is_ok());
    /// ```
    pub fn feature(&mut self, name: &str) -> Result<(), UnknownName> {
        let (bare, on) = bare_feature(name);
        if let Some(behaviour) = Behaviour::named(bare) {
            self.force(behaviour, on);
            return Ok(());
        }
        let Some(row) = FEATURES.iter().find(|row| row.name == bare) else {
            let ours = |row: &crate::features::FeatureRow| row.of == Of::Vruntime && self.policy != PolicyKind::O1;
            let own = FEATURES.iter().filter(|row| ours(row) || has_feature(self.name, row.feature));
            let own = own.map(|row| row.name).collect();
            let all = FEATURES.iter().map(|row| row.name).chain(behaviours::BEHAVIOURS.iter().map(|row| row.name));
            return Err(self.unknown("feature", bare, own, all));
        };
        self.features.set(row.feature, on);
        Ok(())
    }

    /// Adds or removes a behaviour. [`Behaviour::Eevdf`] also changes policy and features.
    pub fn force(&mut self, behaviour: Behaviour, on: bool) {
        self.behaviours.set(behaviour, on);
        self.forced.retain(|(other, _)| *other != behaviour);
        self.forced.push((behaviour, on));
        if behaviour == Behaviour::Eevdf {
            self.policy = if on { PolicyKind::Eevdf } else { PolicyKind::Cfs };
            for &feature in table::EEVDF {
                self.features.set(feature, on);
            }
            for &feature in table::CFS {
                self.features.set(feature, !on);
            }
        }
    }

    /// Returns behaviours added or removed by hand.
    pub fn forced(&self) -> &[(Behaviour, bool)] {
        &self.forced
    }

    /// Checks behaviours added or removed by hand.
    ///
    /// # Errors
    ///
    /// One does not concern the policy, has no effect, or two contradict each other.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.forced.is_empty() {
            return Ok(());
        }
        for &(behaviour, _) in &self.forced {
            if !behaviour.concerns(self.policy) {
                return Err(Impossible::OtherPolicy(behaviour, self.policy));
            }
        }
        self.behaviours.check(self.policy)?;
        let added = self.forced.iter().filter(|(_, on)| *on);
        added.map(|(one, _)| one).try_for_each(|one| one.check_added(&self.behaviours, self.features))
    }

    /// Returns the error for an unknown name; prefers the kernel's `own` among equally near names.
    fn unknown(
        &self,
        kind: &'static str,
        name: &str,
        own: Vec<&'static str>,
        all: impl Iterator<Item = &'static str>,
    ) -> UnknownName {
        let candidates: Vec<&'static str> = own.iter().copied().chain(all).collect();
        UnknownName { known: own.into(), of: Some(self.name), ..unknown(kind, name, candidates) }
    }

    /// Returns the tunables on a machine of `cpus` CPUs with `hz` ticks a second.
    pub fn tunables(&self, cpus: usize, hz: u32) -> Knobs {
        // The O(1) scheduler's values do not scale.
        let factor = if self.policy == PolicyKind::O1 { 1 } else { scaling(cpus) };
        let mut knobs = Knobs {
            base_slice_ns: self.base_slice_ns * factor,
            latency_ns: 6 * MS * factor,
            wakeup_granularity_ns: MS * factor,
            idle_min_granularity_ns: 750_000,
            migration_cost_ns: self.migration_cost_ns,
            nr_migrate: 32,
            cfs_bandwidth_slice_ns: 5 * MS,
            tick_ns: 1_000_000_000 / u64::from(hz.max(1)),
            rr_timeslice_ns: 100 * MS,
            rt_period_ns: 1000 * MS,
            rt_runtime_ns: if self.behaviours.has(Behaviour::DeadlineWhole) { 1000 * MS } else { 950 * MS },
            deadline: DlTunables::default(),
            cfs_2007: Tunables2007::scaled(cpus, hz),
            uclamp: UclampTunables::default(),
            cpu_rc: CpuRcTunables::default(),
            energy_aware: true,
        };
        let clamp = |value: u64| value.min(u64::from(SCALE)) as u16;
        for (name, value) in &self.overrides {
            match name.as_str() {
                "base_slice_ns" | "min_granularity_ns" => knobs.base_slice_ns = (*value).max(1),
                "latency_ns" => knobs.latency_ns = *value,
                "wakeup_granularity_ns" => knobs.wakeup_granularity_ns = *value,
                "idle_min_granularity_ns" => knobs.idle_min_granularity_ns = *value,
                "migration_cost_ns" => knobs.migration_cost_ns = *value,
                "sched_cfs_bandwidth_slice_us" => {
                    knobs.cfs_bandwidth_slice_ns = value.clamp(&1, &1_000_000) * 1000;
                }
                "nr_migrate" => knobs.nr_migrate = (*value).min(u64::from(u32::MAX)) as u32,
                "sched_rr_timeslice_ms" => knobs.rr_timeslice_ns = rr_timeslice(*value, hz),
                "sched_rt_period_us" => knobs.rt_period_ns = value.saturating_mul(1000).max(1000),
                "sched_rt_runtime_us" => knobs.rt_runtime_ns = value.saturating_mul(1000),
                "sched_deadline_period_min_us" => knobs.deadline.periods.min_us = *value,
                "sched_deadline_period_max_us" => knobs.deadline.periods.max_us = *value,
                "sched_util_clamp_min" => knobs.uclamp.system.min = clamp(*value),
                "sched_util_clamp_max" => knobs.uclamp.system.max = clamp(*value),
                "sched_util_clamp_min_rt_default" => knobs.uclamp.min_rt_default = clamp(*value),
                "sched_energy_aware" => knobs.energy_aware = *value != 0,
                "sched_granularity_ns" => knobs.cfs_2007.granularity_ns = *value,
                "sched_wakeup_granularity_ns" => knobs.cfs_2007.wakeup_granularity_ns = *value,
                "sched_batch_wakeup_granularity_ns" => knobs.cfs_2007.batch_wakeup_granularity_ns = *value,
                "sched_stat_granularity_ns" => knobs.cfs_2007.stat_granularity_ns = *value,
                "sched_runtime_limit_ns" => knobs.cfs_2007.runtime_limit_ns = (*value).max(1),
                "sched_child_runs_first" => knobs.cfs_2007.child_runs_first = *value != 0,
                "sched_compat_yield" => knobs.cfs_2007.compat_yield = *value != 0,
                "CPU_RC_SPREAD_PERIOD" => knobs.cpu_rc.spread_period_ms = (*value).clamp(1, 1_000_000),
                "CPU_RC_RECALC_INTERVAL" => knobs.cpu_rc.recalc_interval_ms = (*value).clamp(1, 1_000_000),
                "CPU_RC_LOAD_SCALE" => knobs.cpu_rc.load_scale = (*value).clamp(1, 1 << 22),
                "CPU_RC_TSFACTOR_INC" => knobs.cpu_rc.tsfactor_inc = (*value).min(1_000_000) as u32,
                "CPU_RC_TSFACTOR_MAX" => knobs.cpu_rc.tsfactor_max = (*value).clamp(1, 1 << 20) as u32,
                "CPU_RC_STARVE_THRESHOLD" => knobs.cpu_rc.starve_threshold = (*value).min(1_000_000) as u32,
                "fair_server/runtime" => knobs.deadline.server.runtime = *value,
                "fair_server/period" => knobs.deadline.server.period = (*value).clamp(MS / 10, (1 << 22) * 1000),
                _ => {}
            }
        }
        let server = &mut knobs.deadline.server;
        server.runtime = server.runtime.min(server.period);
        knobs
    }
}

#[cfg(test)]
mod tests;
