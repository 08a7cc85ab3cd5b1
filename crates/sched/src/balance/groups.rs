//! Numbers of a group of CPUs: capacities and sums.

use super::domains::{Part, SchedGroup};
use super::sums::Sums;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::shared::Shared;

impl SchedGroup {
    /// Sum of the capacities that higher classes leave.
    #[inline]
    pub(crate) fn capacity_of<P: Policy>(&self, shared: &Shared<P>) -> u64 {
        if !shared.pressed() {
            return self.capacity;
        }
        self.cpus.iter().map(|&cpu| u64::from(shared.cpu(cpu).capacity_of())).sum()
    }

    /// Lowest and highest capacity that higher classes leave of a CPU.
    pub(crate) fn capacity_range<P: Policy>(&self, shared: &Shared<P>) -> (u64, u64) {
        if !shared.pressed() {
            return (self.min_capacity, self.max_capacity);
        }
        let each = self.cpus.iter().map(|&cpu| u64::from(shared.cpu(cpu).capacity_of()));
        each.fold((u64::MAX, 0), |(least, most), left| (least.min(left), most.max(left)))
    }
}

impl Sums {
    #[cold]
    pub(crate) fn of_some<P: Policy>(shared: &Shared<P>, group: &SchedGroup, counts: impl Fn(CpuId) -> bool) -> Self {
        let some = group.cpus.iter().filter(|&&cpu| counts(cpu));
        some.map(|&cpu| Self::of(shared.cpu(cpu))).fold(Self::default(), Self::and)
    }

    /// Sums a group, reading one cache line for each CPU or, where sums are kept, for each last-level cache.
    #[inline]
    pub(crate) fn of_group<P: Policy>(shared: &Shared<P>, group: &SchedGroup) -> Self {
        let sums = Self::of_part(shared, &group.part);
        if group.more_parts.is_empty() { sums } else { Self::of_parts(shared, &group.more_parts).and(sums) }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // a call costs as much as the part of one CPU itself
    fn of_part<P: Policy>(shared: &Shared<P>, part: &Part) -> Self {
        match part {
            Part::Caches(run) => shared.sums.of_caches(run).fold(Self::default(), Self::and),
            Part::Cpus(run) => shared.cpus(run).iter().map(Self::of).fold(Self::default(), Self::and),
        }
    }

    #[cold]
    fn of_parts<P: Policy>(shared: &Shared<P>, parts: &[Part]) -> Self {
        parts.iter().map(|part| Self::of_part(shared, part)).fold(Self::default(), Self::and)
    }
}
