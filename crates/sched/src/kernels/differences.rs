//! Differences of two kernels.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Behaviour, FEATURES, Impossible, Kernel, Of, PolicyKind, table};
use crate::features::Feature;

/// A difference of two kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Difference {
    /// CFS or EEVDF, with its features.
    Policy,
    /// A behaviour of one kernel.
    Behaviour(Behaviour),
    /// A feature that is on in one kernel.
    Feature(Feature),
    /// The base slice (EEVDF) or minimal granularity (CFS).
    BaseSlice,
    /// How long a task is cache-hot.
    MigrationCost,
}

impl Difference {
    /// Returns its name, as a behaviour, feature or tunable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => Behaviour::Eevdf.name(),
            Self::Behaviour(behaviour) => behaviour.name(),
            Self::Feature(feature) => feature.name(),
            Self::BaseSlice => "base_slice_ns",
            Self::MigrationCost => "migration_cost_ns",
        }
    }

    /// Returns its releases; empty for numbers and for features that releases only switch.
    pub fn releases(self) -> String {
        match self {
            Self::Policy => Behaviour::Eevdf.row().releases().to_string(),
            Self::Behaviour(behaviour) => behaviour.row().releases().to_string(),
            Self::Feature(feature) => match FEATURES.iter().find(|row| row.feature == feature).map(|row| row.of) {
                Some(Of::Releases(since, None)) => format!("{since}+"),
                Some(Of::Releases(since, Some(until))) => format!("{since} to before {until}"),
                _ => String::new(),
            },
            Self::BaseSlice | Self::MigrationCost => String::new(),
        }
    }

    /// Returns its description in the table of behaviours or features.
    pub fn what(self) -> &'static str {
        match self {
            Self::Policy => Behaviour::Eevdf.row().what,
            Self::Behaviour(behaviour) => behaviour.row().what,
            Self::Feature(feature) => FEATURES.iter().find(|row| row.feature == feature).map_or("", |row| row.what),
            Self::BaseSlice => "the slice of a task without a custom slice",
            Self::MigrationCost => "a task that ran less than this ago is cache-hot",
        }
    }

    /// Returns how a real kernel that has it switches it; empty if only another kernel does.
    pub fn switch(self, on: bool) -> String {
        match self {
            Self::Feature(feature) => {
                let no = if on { "NO_" } else { "" };
                format!("echo {no}{} > /sys/kernel/debug/sched/features", feature.name())
            }
            Self::Behaviour(behaviour) if behaviour.row().switch.starts_with("NO_") => {
                format!("echo {} > /sys/kernel/debug/sched/features", behaviour.row().switch)
            }
            Self::Behaviour(behaviour) => behaviour.row().switch.to_string(),
            Self::BaseSlice => "write /sys/kernel/debug/sched/base_slice_ns".to_string(),
            Self::MigrationCost => "write /sys/kernel/debug/sched/migration_cost_ns".to_string(),
            Self::Policy => String::new(),
        }
    }
}

impl Kernel {
    /// Returns the differences that matter under one of the two policies. `None` if only one is a kernel before groups:
    /// then nothing lies between them.
    ///
    /// ```
    /// use vruntime_sched::kernels::{Behaviour, Difference};
    /// let kernel = |name| vruntime_sched::kernel(name).unwrap();
    /// let differences = kernel("6.17").differences(&kernel("6.18")).unwrap();
    /// assert!(differences.contains(&Difference::Behaviour(Behaviour::TaskThrottle)));
    /// assert!(kernel("2.6.22").differences(&kernel("6.12")).is_none());
    /// ```
    pub fn differences(&self, other: &Self) -> Option<Vec<Difference>> {
        let is_new = |kernel: &Self| matches!(kernel.policy, PolicyKind::Cfs | PolicyKind::Eevdf);
        if self.policy != other.policy && !(is_new(self) && is_new(other)) {
            return None;
        }
        let policy = self.policy != other.policy;
        let concerns = |behaviour: Behaviour| {
            (behaviour.concerns(self.policy) || behaviour.concerns(other.policy)) && behaviour != Behaviour::Eevdf
        };
        let rows = super::behaviours::BEHAVIOURS.iter().map(|row| row.behaviour);
        let behaviours = rows
            .filter(|&one| self.behaviours.has(one) != other.behaviours.has(one) && concerns(one))
            .map(Difference::Behaviour);
        let of_policy = |feature: &Feature| table::EEVDF.contains(feature) || table::CFS.contains(feature);
        let features = FEATURES.iter().map(|row| row.feature);
        let features = features
            .filter(|&one| self.features.has(one) != other.features.has(one) && !(policy && of_policy(&one)))
            .filter(|one| one.without_effect().is_none())
            .map(Difference::Feature);
        let slices = (self.base_slice_ns != other.base_slice_ns).then_some(Difference::BaseSlice);
        let costs = (self.migration_cost_ns != other.migration_cost_ns).then_some(Difference::MigrationCost);
        let policy = policy.then_some(Difference::Policy);
        Some(policy.into_iter().chain(behaviours).chain(features).chain(slices).chain(costs).collect())
    }

    /// Returns the kernel with some differences of another, and with those that they need or contradict. Also returns
    /// the adopted differences.
    pub fn taking(&self, other: &Self, which: &[Difference]) -> (Self, Vec<Difference>) {
        let mut taken = which.to_vec();
        let mut moved = self.clone();
        for &one in which {
            moved.take_over(other, one);
        }
        let differs = |one: Behaviour| self.behaviours.has(one) != other.behaviours.has(one);
        while let Err(wrong) = moved.behaviours.check(moved.policy) {
            let candidates = match wrong {
                Impossible::Needs(one, other) => [other, one],
                Impossible::Excludes(one, other) => [one, other],
                Impossible::OtherPolicy(..) => break,
            };
            let next = candidates.map(Difference::Behaviour).into_iter().zip(candidates);
            let next = next.filter(|(one, behaviour)| differs(*behaviour) && !taken.contains(one)).map(|(one, _)| one);
            let Some(next) = next.into_iter().next() else { break };
            moved.take_over(other, next);
            taken.push(next);
        }
        (moved, taken)
    }

    fn take_over(&mut self, other: &Self, difference: Difference) {
        match difference {
            Difference::Policy => {
                self.policy = other.policy;
                self.behaviours.set(Behaviour::Eevdf, other.behaviours.has(Behaviour::Eevdf));
                for &feature in table::EEVDF.iter().chain(table::CFS) {
                    self.features.set(feature, other.features.has(feature));
                }
            }
            Difference::Behaviour(one) => self.behaviours.set(one, other.behaviours.has(one)),
            Difference::Feature(one) => self.features.set(one, other.features.has(one)),
            Difference::BaseSlice => self.base_slice_ns = other.base_slice_ns,
            Difference::MigrationCost => self.migration_cost_ns = other.migration_cost_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{kernel, kernels};

    /// Adopting all makes one kernel the other, and any single one leaves a possible kernel.
    #[test]
    fn differences_lead_from_one_kernel_to_another() {
        let new = || kernels().iter().filter(|row| matches!(row.policy, PolicyKind::Cfs | PolicyKind::Eevdf));
        for from in new() {
            for to in new() {
                let (from, to) = (kernel(from.name).unwrap(), kernel(to.name).unwrap());
                let all = from.differences(&to).unwrap();
                let (moved, _) = from.taking(&to, &all);
                assert_eq!(moved.differences(&to), Some(Vec::new()), "{} to {}", from.name, to.name);
                for &one in &all {
                    let (moved, taken) = from.taking(&to, &[one]);
                    let possible = moved.behaviours.check(moved.policy);
                    assert_eq!(possible, Ok(()), "{} with {:?} of {}", from.name, taken, to.name);
                }
            }
        }
    }
}
