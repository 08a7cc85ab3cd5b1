//! What undoes a difference on a real kernel.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::differences::{COST, SLICE};
use super::{Behaviour, Difference, FEATURES, Kernel, PolicyKind, TUNABLES};
use crate::features::Feature;

impl Difference {
    /// Returns the command that gives a real `kernel` of `cpus` CPUs what `other` has; empty if nothing does.
    ///
    /// ```
    /// use vruntime_sched::features::Feature;
    /// use vruntime_sched::kernels::Difference;
    /// let kernel = |name| vruntime_sched::kernel(name).unwrap();
    /// let difference = Difference::Feature(Feature::RtRuntimeShare);
    /// let command = difference.switch(&kernel("5.10"), &kernel("5.4"), 4);
    /// assert_eq!(command, "echo RT_RUNTIME_SHARE > /sys/kernel/debug/sched_features");
    /// let command = Difference::BaseSlice.switch(&kernel("6.1"), &kernel("6.12"), 4);
    /// assert_eq!(command, "echo 2100000 > /sys/kernel/debug/sched/min_granularity_ns");
    /// ```
    pub fn switch(self, kernel: &Kernel, other: &Kernel, cpus: usize) -> String {
        let knobs = other.tunables(cpus, 250);
        match self {
            Self::Feature(feature) => kernel.switch_feature(feature, other.features.has(feature)),
            Self::Behaviour(behaviour) if kernel.behaviours.has(behaviour) => kernel.switch_off(behaviour),
            Self::Behaviour(_) | Self::Policy => String::new(),
            Self::BaseSlice if kernel.policy == PolicyKind::Eevdf => kernel.write(SLICE[0], knobs.base_slice_ns),
            Self::BaseSlice => kernel.write(SLICE[1], knobs.base_slice_ns),
            Self::MigrationCost => kernel.write("migration_cost_ns", knobs.migration_cost_ns),
            Self::Tunable(name) => match other.set_by_hand(&[name]) {
                Some(value) => kernel.write(name, value),
                None => format!("leave {name} at its default"),
            },
        }
    }
}

impl Difference {
    /// Returns the values of a tunable in two kernels, in nanoseconds or as set. `None`: no tunable, or not set.
    pub fn values(self, one: &Kernel, other: &Kernel) -> Option<[String; 2]> {
        let both = [one, other];
        Some(match self {
            Self::BaseSlice => both.map(|kernel| kernel.set_by_hand(SLICE).unwrap_or(kernel.base_slice_ns).to_string()),
            Self::MigrationCost => {
                both.map(|kernel| kernel.set_by_hand(COST).unwrap_or(kernel.migration_cost_ns).to_string())
            }
            Self::Tunable(name) => both.map(|kernel| match kernel.set_by_hand(&[name]) {
                Some(u64::MAX) => "-1".to_string(),
                Some(value) => value.to_string(),
                None => "default".to_string(),
            }),
            _ => return None,
        })
    }
}

/// The effect of a command.
enum Command {
    FeatureOff(Feature),
    Tunable(&'static str, u64),
}

impl Kernel {
    /// Whether features and tunables are in a folder of debugfs.
    fn has_folder(&self) -> bool {
        self.behaviours.has(Behaviour::DebugFolder)
    }

    /// Returns the command that switches a feature; empty if the kernel lacks the feature.
    ///
    /// ```
    /// use vruntime_sched::features::Feature;
    /// let kernel = vruntime_sched::kernel("5.10").unwrap();
    /// let command = kernel.switch_feature(Feature::SisProp, false);
    /// assert_eq!(command, "echo NO_SIS_PROP > /sys/kernel/debug/sched_features");
    /// ```
    pub fn switch_feature(&self, feature: Feature, on: bool) -> String {
        let Some(row) = FEATURES.iter().find(|row| row.feature == feature && self.has_feature(feature)) else {
            return String::new();
        };
        let (no, separator) = (if on { "" } else { "NO_" }, if self.has_folder() { '/' } else { '_' });
        format!("echo {no}{} > /sys/kernel/debug/sched{separator}features", row.name)
    }

    /// Returns the kernel after the commands that undo `set`, some of its differences to `other`. The command of a
    /// behaviour can switch more than the behaviour. A command that is not simulated does what the difference does.
    ///
    /// ```
    /// use vruntime_sched::features::Feature;
    /// use vruntime_sched::kernels::{Behaviour, Difference};
    /// let kernel = |name| vruntime_sched::kernel(name).unwrap();
    /// // NO_RUN_TO_PARITY ends all protection, not only its shortening.
    /// let shortens = Behaviour::ShortensAlways;
    /// let after = kernel("7.0").after_commands(&kernel("6.18"), &[Difference::Behaviour(shortens)]);
    /// assert!(after.behaviours.has(shortens) && !after.features.has(Feature::RunToParity));
    /// ```
    #[must_use]
    pub fn after_commands(&self, other: &Self, set: &[Difference]) -> Self {
        let (commands, others): (Vec<Difference>, Vec<Difference>) =
            set.iter().partition(|&&one| self.simulated(one).is_some());
        let (mut kernel, _) = self.taking(other, &others);
        for command in commands.into_iter().filter_map(|one| self.simulated(one)) {
            match command {
                Command::FeatureOff(feature) => kernel.features.set(feature, false),
                Command::Tunable(name, value) => kernel.overrides.push((name.to_string(), value)),
            }
        }
        kernel
    }

    /// Returns what the command of a behaviour does here. `None`: no behaviour, or the command has no effect here.
    fn simulated(&self, difference: Difference) -> Option<Command> {
        let Difference::Behaviour(behaviour) = difference else { return None };
        if self.switch_off(behaviour).is_empty() {
            return None;
        }
        let switch = behaviour.row().switch;
        if let Some(name) = switch.strip_prefix("NO_") {
            let row = FEATURES.iter().find(|row| row.name == name && row.feature.without_effect().is_none());
            return row.map(|row| Command::FeatureOff(row.feature));
        }
        let of_server = || switch.strip_prefix("echo ")?.split_once(" | tee /sys/kernel/debug/sched/fair_server/cpu*/");
        let (name, value) = match switch.strip_prefix("kernel.").and_then(|sysctl| sysctl.split_once('=')) {
            Some((name, value)) => (name.to_string(), value),
            None => of_server().map(|(value, file)| (format!("fair_server/{file}"), value))?,
        };
        // -1 is without a limit.
        let value = if value == "-1" { u64::MAX } else { value.parse().ok()? };
        TUNABLES.iter().find(|(known, _)| *known == name).map(|(known, _)| Command::Tunable(known, value))
    }

    /// Returns the command that switches a behaviour off; empty if nothing does.
    fn switch_off(&self, behaviour: Behaviour) -> String {
        // `voluntary` is no longer there.
        if behaviour == Behaviour::LazyPreemption && self.behaviours.has(Behaviour::LazyOrFull) {
            return String::new();
        }
        let switch = behaviour.row().switch;
        let feature = switch.strip_prefix("NO_").and_then(|name| FEATURES.iter().find(|row| row.name == name));
        match feature {
            Some(row) => self.switch_feature(row.feature, false),
            None if switch.starts_with("kernel.") => format!("sysctl -w {switch}"),
            None if self.has_folder() => switch.to_string(),
            None => switch.replace("/sys/kernel/debug/sched/domains/", "/proc/sys/kernel/sched_domain/"),
        }
    }

    /// Returns the command that sets a tunable; empty if the kernel lacks the tunable.
    fn write(&self, name: &str, value: u64) -> String {
        if !self.has_tunable(name) || matches!(self.policy, PolicyKind::O1) {
            return String::new();
        }
        // Real-time bandwidth without a limit.
        let value = if value == u64::MAX { "-1".to_string() } else { value.to_string() };
        match name.strip_prefix("fair_server/") {
            Some(file) => format!("echo {value} | tee /sys/kernel/debug/sched/fair_server/cpu*/{file}"),
            None if name.starts_with("sched_") => format!("sysctl -w kernel.{name}={value}"),
            None if self.has_folder() => format!("echo {value} > /sys/kernel/debug/sched/{name}"),
            None => format!("sysctl -w kernel.sched_{name}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{kernel, kernels};

    #[test]
    fn commands_are_those_of_the_release() {
        let command = |difference: Difference, name: &str, other: &str| {
            difference.switch(&kernel(name).unwrap(), &kernel(other).unwrap(), 4)
        };
        let delayed = Difference::Feature(Feature::DelayDequeue);
        assert_eq!(command(delayed, "6.12", "6.6"), "echo NO_DELAY_DEQUEUE > /sys/kernel/debug/sched/features");
        assert_eq!(command(delayed, "6.6", "6.12"), "");
        let slice = Difference::BaseSlice;
        assert_eq!(command(slice, "6.12", "6.14"), "echo 2250000 > /sys/kernel/debug/sched/base_slice_ns");
        assert_eq!(command(slice, "5.10", "6.14"), "sysctl -w kernel.sched_min_granularity_ns=2250000");
        let cost = Difference::MigrationCost;
        assert_eq!(command(cost, "5.10", "5.15"), "sysctl -w kernel.sched_migration_cost_ns=500000");
        assert_eq!(command(cost, "5.15", "5.10"), "echo 500000 > /sys/kernel/debug/sched/migration_cost_ns");
        let busy = Difference::Behaviour(Behaviour::BusyFactor16);
        assert_eq!(
            command(busy, "5.10", "5.4"),
            "echo 32 | tee /proc/sys/kernel/sched_domain/cpu*/domain*/busy_factor"
        );
        let (mut loose, strict) = (kernel("6.12").unwrap(), kernel("6.12").unwrap());
        loose.set("sched_rt_runtime_us", u64::MAX).unwrap();
        let limit = Difference::Tunable("sched_rt_runtime_us");
        assert_eq!(limit.switch(&strict, &loose, 4), "sysctl -w kernel.sched_rt_runtime_us=-1");
        assert_eq!(limit.switch(&loose, &strict, 4), "leave sched_rt_runtime_us at its default");
    }

    /// `DEBUG_FOLDER`: without it, the commands write to a file of features, and to sysctls.
    #[test]
    fn features_and_tunables_are_in_one_folder() {
        let commands = |on| {
            let mut kernel = kernel("5.15").unwrap();
            kernel.force(Behaviour::DebugFolder, on);
            [kernel.switch_feature(Feature::SisProp, false), kernel.write("migration_cost_ns", 1)]
        };
        assert_eq!(
            commands(true),
            [
                "echo NO_SIS_PROP > /sys/kernel/debug/sched/features",
                "echo 1 > /sys/kernel/debug/sched/migration_cost_ns"
            ]
        );
        assert_eq!(
            commands(false),
            ["echo NO_SIS_PROP > /sys/kernel/debug/sched_features", "sysctl -w kernel.sched_migration_cost_ns=1"]
        );
    }

    #[test]
    fn commands_of_behaviours_are_simulated() {
        let kernel = |name| kernel(name).unwrap();
        let (new, old) = (kernel("7.2"), kernel("6.11"));
        let after = |behaviours: &[Behaviour]| {
            let set: Vec<Difference> = behaviours.iter().copied().map(Difference::Behaviour).collect();
            new.after_commands(&old, &set)
        };
        let after_one = |behaviour| after(&[behaviour]);
        assert!(!after_one(Behaviour::BuddyInPick).features.has(Feature::PickBuddy));
        assert_eq!(after_one(Behaviour::FairServer).tunables(4, 250).deadline.server.runtime, 0);
        let whole = after_one(Behaviour::DeadlineWhole);
        assert_eq!(whole.tunables(4, 250).rt_runtime_ns, 950_000_000);
        // Without a simulated command, the behaviour is as in the other kernel.
        assert!(!after_one(Behaviour::Schedstat17).behaviours.has(Behaviour::Schedstat17));
        let both = after(&[Behaviour::BuddyInPick, Behaviour::Schedstat17]);
        assert!(!both.features.has(Feature::PickBuddy) && !both.behaviours.has(Behaviour::Schedstat17));
        let limited = kernel("5.4").after_commands(&kernel("6.12"), &[Difference::Behaviour(Behaviour::RtThrottle)]);
        assert_eq!(limited.tunables(4, 250).rt_runtime_ns, u64::MAX);
    }

    /// 7.0+: x86 and arm64 lack `voluntary`.
    #[test]
    fn a_command_of_an_older_kernel_is_not_suggested() {
        let lazy = Difference::Behaviour(Behaviour::LazyPreemption);
        let command = |name| lazy.switch(&kernel(name).unwrap(), &kernel("6.12").unwrap(), 4);
        assert_eq!(command("6.18"), "echo voluntary > /sys/kernel/debug/sched/preempt");
        assert_eq!(command("7.0"), "");
    }

    /// No bare paths or assignments.
    #[test]
    fn switches_of_behaviours_are_commands() {
        for kernel in kernels() {
            for row in kernel.behaviours.rows().filter(|row| !row.switch.is_empty()) {
                let command = kernel.switch_off(row.behaviour);
                let is_command = ["echo ", "sysctl -w ", "boot "].iter().any(|start| command.starts_with(start));
                assert!(command.is_empty() || is_command, "{}: {command}", row.name);
            }
        }
    }
}
