//! CKRM's CPU resource controller (KUROSAWA Takahiro, January 2006), in `2.6.15-cpurc`: shares for classes of tasks, by
//! scaled timeslices. A class is a task group below the root. The root's own tasks are a class with the unused
//! guarantee (`cnt_unused_guarantee`).
//!
//! - **Load estimation.** A class's load on a CPU is its CPU time there, averaged over `CPU_RC_SPREAD_PERIOD`; older
//!   time decays linearly. The class's load is the CPUs' mean. All below is computed each `CPU_RC_RECALC_INTERVAL`.
//! - **Hungry detection.** A class is maybe hungry while a waiting task's slice is less than the guarantee of the time
//!   since its activation or last slice. It is hungry if its load is also below its guarantee.
//! - **Timeslice scaling.** Slices are multiplied by `F / CPU_RC_TSFACTOR_MAX`. While a class is hungry, the factors
//!   of the others are multiplied by guarantee / load, and its own rises by 1. Otherwise all factors rise by
//!   `CPU_RC_TSFACTOR_INC`.
//! - **Task requeueing.** A slice is at least a tick, which lets many tasks exceed their share. A class hungry for
//!   more than `CPU_RC_STARVE_THRESHOLD` recalculations starves: its tasks return to the active array, until the
//!   expired array has waited too long.
//!
//! `docs/cpurc.md` has the differences from the document, which takes a task's load at the end of its slice
//! (`NO_CPU_RC_TICK`). `CPU_RC_TICK` counts at each tick.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::O1;
use super::controller::{Class, CpuRc, GUARANTEE_SCALE};
use crate::features::Feature;
use crate::group::TaskGroup;
use crate::ids::GroupId;
use crate::shared::Shared;
use crate::tunables::Tunables;

/// Why a guarantee is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuaranteeError {
    /// The kernel has no CPU resource controller.
    NotThere,
    /// Only groups right below the root are classes.
    NoClass,
    /// The guarantees would exceed the machine.
    Sum {
        /// Their sum, percent.
        percent: u32,
    },
}

impl fmt::Display for GuaranteeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => {
                f.write_str("there is no CPU resource controller (2.6.15-cpurc has it), or it is switched off")
            }
            Self::NoClass => f.write_str("only a group right below the root can have a guarantee"),
            Self::Sum { percent } => write!(f, "the guarantees would add up to {percent} %, more than the machine"),
        }
    }
}

impl core::error::Error for GuaranteeError {}

impl CpuRc {
    /// Whether a class's tasks return to the active array: it starves, until it has its guarantee.
    pub(super) fn starves<T: Tunables>(self, shared: &Shared<O1<T>>, class: &Class, now: u64) -> bool {
        if !self.features.has(Feature::CpuRcRequeue) || class.starving.load(Relaxed) <= self.starve_threshold {
            return false;
        }
        if !self.by_tick() {
            return true;
        }
        let since = now.saturating_sub(class_of(shared, GroupId::ROOT).recalculated.load(Relaxed));
        let load =
            class.stats.iter().map(|stat| stat.folded(self, since)).sum::<u64>() / shared.nr_online().max(1) as u64;
        let starves = load * GUARANTEE_SCALE < class.guaranteed(self);
        if starves {
            class.requeued.store(true, Relaxed);
        }
        starves
    }

    /// Whether this tick checks waiting tasks: once in the last quarter of each recalculation interval.
    pub(super) fn looks_at_waiting<T: Tunables>(self, shared: &Shared<O1<T>>, looked: u64, now: u64) -> bool {
        let last = class_of(shared, GroupId::ROOT).recalculated.load(Relaxed);
        self.features.has(Feature::CpuRcWaiting)
            && looked <= last
            && now >= last + self.recalc_interval - self.recalc_interval / 4
    }

    pub(super) fn recalc<T: Tunables>(self, shared: &Shared<O1<T>>, now: u64) {
        let stamp = &class_of(shared, GroupId::ROOT).recalculated;
        let last = stamp.load(Relaxed);
        if now < last + self.recalc_interval || stamp.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let cpus = shared.nr_online().max(1) as u64;
        let mut anyone = false;
        for class in classes(shared) {
            let mut sum = 0;
            // A class whose tasks do not wait because they return to the active array is no less hungry.
            let mut maybe = !self.features.has(Feature::CpuRcHungry) || class.requeued.load(Relaxed);
            for stat in &class.stats {
                if self.by_tick() {
                    stat.fold(self, now - last);
                }
                sum += stat.load.load(Relaxed);
                maybe |= stat.maybe_hungry.swap(false, Relaxed);
            }
            let load = sum / cpus;
            class.load.store(load, Relaxed);
            let hungry = maybe && load * GUARANTEE_SCALE < class.guaranteed(self);
            anyone |= hungry;
            class.hungry.store(hungry, Relaxed);
        }
        for class in classes(shared) {
            let factor = u64::from(class.ts_factor.load(Relaxed));
            let (load, hungry) = (class.load.load(Relaxed), class.hungry.load(Relaxed));
            let requeued = class.requeued.swap(false, Relaxed);
            let starving = match class.starving.load(Relaxed) {
                count if hungry => count.saturating_add(1).min(self.starve_threshold.saturating_add(1)),
                // Only the requeueing feeds it.
                count if requeued => count,
                count if self.by_tick() => count.saturating_sub(1),
                _ => 0,
            };
            class.starving.store(starving, Relaxed);
            let new = if !anyone {
                factor + u64::from(self.tsfactor_inc)
            } else if hungry {
                factor + 1
            } else {
                (factor * class.guaranteed(self)).checked_div(load * GUARANTEE_SCALE).unwrap_or(u64::MAX)
            };
            class.ts_factor.store(new.clamp(1, u64::from(self.tsfactor_max)) as u32, Relaxed);
        }
    }
}

/// Returns the class of the group, or of its ancestor right below the root.
#[expect(clippy::expect_used, reason = "with a controller every group below the root is made with a class")]
pub(super) fn class_of<T: Tunables>(shared: &Shared<O1<T>>, mut group: GroupId) -> &Class {
    let mut found = shared.group(group);
    while found.depth > 1 {
        group = found.parent;
        found = shared.group(group);
    }
    found.cpu_rc.as_deref().expect("with a controller every group below the root is a class")
}

fn classes<T: Tunables>(shared: &Shared<O1<T>>) -> impl Iterator<Item = &Class> {
    shared.group_ids().filter_map(|id| shared.group(id).cpu_rc.as_deref())
}

/// Guarantees a group `percent`; the root has the rest.
pub(crate) fn set_guarantee<'a>(
    groups: impl Iterator<Item = &'a TaskGroup> + Clone,
    group: &TaskGroup,
    percent: u32,
) -> Result<(), GuaranteeError> {
    let Some(class) = group.cpu_rc.as_deref() else {
        return Err(if group.depth > 1 { GuaranteeError::NoClass } else { GuaranteeError::NotThere });
    };
    if group.depth == 0 {
        return Err(GuaranteeError::NoClass);
    }
    let guaranteed = |class: &Class| class.guarantee.load(Relaxed);
    let others = groups.clone().filter(|other| other.depth == 1).filter_map(|other| other.cpu_rc.as_deref());
    let others: u32 = others.map(guaranteed).sum::<u32>() - guaranteed(class);
    let sum = others.saturating_add(percent);
    if u64::from(sum) > GUARANTEE_SCALE {
        return Err(GuaranteeError::Sum { percent: sum });
    }
    class.guarantee.store(percent, Relaxed);
    if let Some(root) = groups.into_iter().next().and_then(|root| root.cpu_rc.as_deref()) {
        root.guarantee.store(GUARANTEE_SCALE as u32 - sum, Relaxed);
    }
    Ok(())
}
