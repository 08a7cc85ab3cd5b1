//! CKRM's CPU resource controller (KUROSAWA Takahiro, January 2006), in `2.6.15-cpurc`: shares of the machine for
//! classes of tasks, by scaled timeslices. A class is a task group below the root. The root's own tasks are a class
//! with the unused guarantee (`cnt_unused_guarantee`).
//!
//! - **Load estimation.** A class's load on a CPU is its CPU time there, averaged over `CPU_RC_SPREAD_PERIOD`: older
//!   time decays in proportion to its age. The class's load is the mean over the CPUs. All below is computed each
//!   `CPU_RC_RECALC_INTERVAL`.
//! - **Hungry detection.** A class is maybe hungry while the slice of a waiting task is less than the guarantee of
//!   the time since its activation or last slice. It is hungry if its load is also below its guarantee.
//! - **Timeslice scaling.** Slices are multiplied by `F / CPU_RC_TSFACTOR_MAX`. While a class is hungry, the factors
//!   of the others are multiplied by guarantee / load, and its own rises by 1. Otherwise all factors rise by
//!   `CPU_RC_TSFACTOR_INC`.
//! - **Task requeueing.** A slice is at least a tick, so many tasks can still exceed their share. A class that is
//!   hungry for more than `CPU_RC_STARVE_THRESHOLD` recalculations starves: its tasks return to the active array,
//!   until the expired array has waited too long.
//!
//! `docs/cpurc.md` has the differences from the document, which takes a task's load at the end of its slice
//! (`NO_CPU_RC_TICK`). `CPU_RC_TICK` counts at each tick.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::O1;
use crate::features::{Feature, Features};
use crate::group::TaskGroup;
use crate::ids::{CpuId, GroupId};
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64};
use crate::tunables::Tunables;

/// A guarantee of the whole machine.
const GUARANTEE_SCALE: u64 = 100;

/// Numbers of the controller, by the document's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuRcTunables {
    /// `CPU_RC_SPREAD_PERIOD`, milliseconds.
    pub spread_period_ms: u64,
    /// `CPU_RC_RECALC_INTERVAL`, milliseconds.
    pub recalc_interval_ms: u64,
    /// `CPU_RC_LOAD_SCALE`: load of a class that has all of a CPU.
    pub load_scale: u64,
    /// `CPU_RC_TSFACTOR_INC`: rise of factors while no class is hungry.
    pub tsfactor_inc: u32,
    /// `CPU_RC_TSFACTOR_MAX`: factor of a slice that is not scaled.
    pub tsfactor_max: u32,
    /// `CPU_RC_STARVE_THRESHOLD`: hungry recalculations before a class starves.
    pub starve_threshold: u32,
}

impl Default for CpuRcTunables {
    fn default() -> Self {
        Self {
            spread_period_ms: 1000,
            recalc_interval_ms: 500,
            load_scale: 1 << 20,
            tsfactor_inc: 5,
            tsfactor_max: 200,
            starve_threshold: 2,
        }
    }
}

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

/// The controller's numbers in ticks, and its features.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuRc {
    spread_period: u64,
    recalc_interval: u64,
    load_scale: u64,
    tsfactor_inc: u32,
    tsfactor_max: u32,
    starve_threshold: u32,
    features: Features,
}

impl CpuRc {
    /// Without any of these there is no controller.
    const PARTS: [Feature; 5] =
        [Feature::CpuRcHungry, Feature::CpuRcScaling, Feature::CpuRcRequeue, Feature::CpuRcTick, Feature::CpuRcWaiting];

    pub(super) fn new<T: Tunables>(features: Features, tunables: &T) -> Option<Self> {
        is_on(features).then(|| {
            let CpuRcTunables { load_scale, tsfactor_inc, tsfactor_max, starve_threshold, .. } = tunables.cpu_rc();
            // The limits prevent overflows of products.
            let ticks = |ms: u64| (ms.saturating_mul(1_000_000) / tunables.tick_ns().max(1)).clamp(1, 1 << 20);
            Self {
                spread_period: ticks(tunables.cpu_rc().spread_period_ms),
                recalc_interval: ticks(tunables.cpu_rc().recalc_interval_ms),
                load_scale: load_scale.clamp(1, 1 << 22),
                tsfactor_inc,
                tsfactor_max: tsfactor_max.clamp(1, 1 << 20),
                starve_threshold,
                features,
            }
        })
    }

    pub(super) fn by_tick(self) -> bool {
        self.features.has(Feature::CpuRcTick)
    }

    pub(super) fn scale(self, class: &Class, slice: u32) -> u32 {
        if !self.features.has(Feature::CpuRcScaling) {
            return slice;
        }
        let scaled = u64::from(slice) * u64::from(class.ts_factor.load(Relaxed)) / u64::from(self.tsfactor_max);
        (scaled as u32).max(1)
    }

    /// Whether a class's tasks return to the active array: while it starves, until it has its guarantee.
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

    /// Adds a finished slice, `slice` ticks since `since`, to the class's load (`cpu_rc_account`).
    pub(super) fn account(self, class: &Class, cpu: CpuId, slice: u32, since: u64, now: u64) {
        let period = self.spread_period;
        let took = now.saturating_sub(since).max(1);
        let slice = u64::from(slice).min(took) * self.load_scale;
        let task = if took > period { slice * period / took } else { slice };
        let stat = &class.stats[cpu.index()];
        let before = stat.timestamp.swap(now, Relaxed);
        let past = stat.load.load(Relaxed) * period.saturating_sub(now.saturating_sub(before));
        stat.load.store((task + past) / period, Relaxed);
    }

    /// Marks a class as maybe hungry if a task's `slice` is less than the guarantee of slice and `waited` ticks. The
    /// guarantee is of all CPUs, but a task runs on one.
    pub(super) fn detect_hungry(self, class: &Class, cpu: CpuId, cpus: u64, slice: u32, waited: u64) {
        let guarantee = (u64::from(class.guarantee.load(Relaxed)) * cpus).min(GUARANTEE_SCALE);
        if self.features.has(Feature::CpuRcHungry)
            && u64::from(slice) * GUARANTEE_SCALE < guarantee * (u64::from(slice) + waited)
        {
            class.stats[cpu.index()].maybe_hungry.store(true, Relaxed);
        }
    }

    /// Whether this tick has to check waiting tasks: once before each recalculation, in the last quarter of the
    /// interval.
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

pub(crate) fn is_on(features: Features) -> bool {
    CpuRc::PARTS.iter().any(|&part| features.has(part))
}

/// The CPUs' common state of a class (`struct cpu_rc`).
#[derive(Debug)]
pub(crate) struct Class {
    /// Percent of the machine.
    guarantee: AtomicU32,
    /// Factor of its tasks' slices.
    ts_factor: AtomicU32,
    /// Whether it was hungry at the last recalculation.
    hungry: AtomicBool,
    /// Recalculations in a row at which it was hungry, at most the threshold + 1.
    starving: AtomicU32,
    /// Whether a task has returned to the active array since.
    requeued: AtomicBool,
    /// Mean load over the CPUs at the last recalculation.
    load: AtomicU64,
    /// The root's: tick of the last recalculation.
    recalculated: AtomicU64,
    stats: Box<[Stat]>,
}

/// A class on one CPU.
#[derive(Debug, Default)]
struct Stat {
    load: AtomicU64,
    /// Tick at which `load` was computed.
    timestamp: AtomicU64,
    /// Ticks that its tasks have used since the last recalculation.
    used: AtomicU64,
    maybe_hungry: AtomicBool,
}

impl Stat {
    fn fold(&self, rules: CpuRc, since: u64) {
        self.load.store(self.folded(rules, since), Relaxed);
        self.used.store(0, Relaxed);
    }

    /// The load with the used ticks, as if a slice was over.
    fn folded(&self, rules: CpuRc, since: u64) -> u64 {
        let used = self.used.load(Relaxed) * rules.load_scale;
        let (period, since) = (rules.spread_period, since.max(1));
        let task = if since > period { used * period / since } else { used };
        let past = self.load.load(Relaxed) * period.saturating_sub(since);
        (task + past) / period
    }
}

impl Class {
    pub(crate) fn new(cpus: usize, guarantee: u32, tsfactor_max: u32) -> Self {
        Self {
            guarantee: AtomicU32::new(guarantee),
            ts_factor: AtomicU32::new(tsfactor_max.max(1)),
            hungry: AtomicBool::new(false),
            starving: AtomicU32::new(0),
            requeued: AtomicBool::new(false),
            load: AtomicU64::new(0),
            recalculated: AtomicU64::new(0),
            stats: (0..cpus).map(|_| Stat::default()).collect(),
        }
    }

    /// In the scale of loads times percent.
    fn guaranteed(&self, rules: CpuRc) -> u64 {
        u64::from(self.guarantee.load(Relaxed)) * rules.load_scale
    }

    #[inline]
    pub(super) fn used(&self, cpu: CpuId) {
        // Only this CPU adds to it. Another CPU may fold it meanwhile, and a tick be lost or counted twice.
        let used = &self.stats[cpu.index()].used;
        used.store(used.load(Relaxed) + 1, Relaxed);
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

/// Guarantees a group `percent` of the machine; the root has the rest.
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
