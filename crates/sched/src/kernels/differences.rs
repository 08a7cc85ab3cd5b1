//! Differences of two kernels.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::behaviours::{Area, Certainty};
use super::{Behaviour, FEATURES, Impossible, Kernel, PolicyKind, TUNABLES, table};
use crate::features::{Feature, FeatureRow};

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
    /// Another tunable that was set by hand, by its name in [`TUNABLES`].
    Tunable(&'static str),
}

/// The names of the base slice.
pub(super) const SLICE: &[&str] = &["base_slice_ns", "min_granularity_ns"];
/// The names of the time for which a task is cache-hot.
pub(super) const COST: &[&str] = &["migration_cost_ns"];

impl Difference {
    /// Returns its name, as a behaviour, feature or tunable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => Behaviour::Eevdf.name(),
            Self::Behaviour(behaviour) => behaviour.name(),
            Self::Feature(feature) => feature.name(),
            Self::BaseSlice => "base_slice_ns",
            Self::MigrationCost => "migration_cost_ns",
            Self::Tunable(name) => name,
        }
    }

    /// Returns its releases; empty for numbers and for features that releases only switch.
    pub fn releases(self) -> String {
        match self {
            Self::Policy => Behaviour::Eevdf.row().releases().to_string(),
            Self::Behaviour(behaviour) => behaviour.row().releases().to_string(),
            Self::Feature(feature) => feature.row().map(FeatureRow::releases).unwrap_or_default(),
            Self::BaseSlice | Self::MigrationCost | Self::Tunable(_) => String::new(),
        }
    }

    /// Returns its description in the table of behaviours or features.
    pub fn what(self) -> &'static str {
        match self {
            Self::Policy => Behaviour::Eevdf.row().what,
            Self::Behaviour(behaviour) => behaviour.row().what,
            Self::Feature(feature) => feature.row().map_or("", |row| row.what),
            Self::BaseSlice => "the slice of a task without a custom slice",
            Self::MigrationCost => "a task that ran less than this ago is cache-hot",
            Self::Tunable(name) => TUNABLES.iter().find(|(known, _)| *known == name).map_or("", |(_, what)| what),
        }
    }
}

impl Difference {
    /// Whether it is something that programs or groups can ask for. A workload that runs under both kernels does not
    /// depend on it.
    pub fn is_interface(self) -> bool {
        matches!(self, Self::Behaviour(behaviour) if behaviour.row().area == Area::Interface)
    }

    /// Returns how its releases are known. `None`: a number.
    pub fn certainty(self) -> Option<Certainty> {
        match self {
            Self::Policy => Some(Behaviour::Eevdf.row().certainty),
            Self::Behaviour(behaviour) => Some(behaviour.row().certainty),
            Self::Feature(feature) => feature.row().map(|row| row.certainty),
            Self::BaseSlice | Self::MigrationCost | Self::Tunable(_) => None,
        }
    }

    /// Returns the source of its releases: commits, or the kind of source. Empty: a number.
    pub fn source(self) -> &'static str {
        match self {
            Self::Policy => Behaviour::Eevdf.row().source(),
            Self::Behaviour(behaviour) => behaviour.row().source(),
            Self::Feature(feature) => feature.row().map_or("", FeatureRow::source),
            Self::BaseSlice | Self::MigrationCost | Self::Tunable(_) => "",
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
        // A value set by hand is not scaled by CPUs, as the default is.
        let slice = |kernel: &Self| kernel.set_by_hand(SLICE).ok_or(kernel.base_slice_ns);
        let slices = (slice(self) != slice(other)).then_some(Difference::BaseSlice);
        let cost = |kernel: &Self| kernel.set_by_hand(COST).unwrap_or(kernel.migration_cost_ns);
        let costs = (cost(self) != cost(other)).then_some(Difference::MigrationCost);
        let policy = policy.then_some(Difference::Policy);
        let numbers = slices.into_iter().chain(costs).chain(self.tunable_differences(other));
        Some(policy.into_iter().chain(behaviours).chain(features).chain(numbers).collect())
    }

    /// Returns the tunables that were set by hand to different values, or in one kernel only.
    fn tunable_differences<'k>(&'k self, other: &'k Self) -> impl Iterator<Item = Difference> + use<'k> {
        let names = TUNABLES.iter().map(|(name, _)| *name).filter(|name| !SLICE.contains(name) && !COST.contains(name));
        names.filter(|&name| self.set_by_hand(&[name]) != other.set_by_hand(&[name])).map(Difference::Tunable)
    }

    /// Returns the value to which a tunable of one of these names was set.
    pub(super) fn set_by_hand(&self, names: &[&str]) -> Option<u64> {
        self.overrides.iter().rfind(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| *value)
    }

    /// Takes over the value of a tunable, set or not.
    fn take_tunable(&mut self, other: &Self, names: &[&str]) {
        self.overrides.retain(|(name, _)| !names.contains(&name.as_str()));
        let theirs = other.overrides.iter().filter(|(name, _)| names.contains(&name.as_str()));
        self.overrides.extend(theirs.cloned());
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
                Impossible::OtherPolicy(..) | Impossible::NeedsFeature(..) => break,
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
            Difference::BaseSlice => {
                self.base_slice_ns = other.base_slice_ns;
                self.take_tunable(other, SLICE);
            }
            Difference::MigrationCost => {
                self.migration_cost_ns = other.migration_cost_ns;
                self.take_tunable(other, COST);
            }
            Difference::Tunable(name) => self.take_tunable(other, &[name]),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

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

    /// A tunable of a kernel's name (`6.12+base_slice_ns=3000000`) is a difference like others.
    #[test]
    fn tunables_set_by_hand_are_differences() {
        let with = |name: &str, values: &[(&str, u64)]| {
            let mut kernel = kernel(name).unwrap();
            for &(name, value) in values {
                kernel.set(name, value).unwrap();
            }
            kernel
        };
        let (from, to) = (kernel("6.12").unwrap(), with("6.12", &[("kernel.sched_rt_runtime_us", 1)]));
        assert_eq!(from.differences(&to), Some(vec![Difference::Tunable("sched_rt_runtime_us")]));
        let (moved, _) = to.taking(&from, &[Difference::Tunable("sched_rt_runtime_us")]);
        assert_eq!(moved.tunables(4, 250).rt_runtime_ns, from.tunables(4, 250).rt_runtime_ns);
        let to = with("6.12", &[("base_slice_ns", 3_000_000), ("migration_cost_ns", 1)]);
        assert_eq!(from.differences(&to), Some(vec![Difference::BaseSlice, Difference::MigrationCost]));
        let (moved, _) = from.taking(&to, &[Difference::BaseSlice]);
        assert_eq!(moved.tunables(8, 250).base_slice_ns, 3_000_000);
        // Equal values are no difference, even where the defaults differ.
        let older = with("6.1", &[("min_granularity_ns", 3_000_000)]);
        assert!(!older.differences(&to).unwrap().contains(&Difference::BaseSlice));
    }
}
