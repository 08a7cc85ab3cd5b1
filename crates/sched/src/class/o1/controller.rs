//! State and arithmetic of the CPU resource controller (`cpurc`).

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use super::tunables::CpuRcTunables;
use crate::features::{Feature, Features};
use crate::ids::CpuId;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64};
use crate::tunables::Tunables;

/// A guarantee of the whole machine.
pub(super) const GUARANTEE_SCALE: u64 = 100;

/// The controller's numbers in ticks, and its features.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuRc {
    pub(super) spread_period: u64,
    pub(super) recalc_interval: u64,
    pub(super) load_scale: u64,
    pub(super) tsfactor_inc: u32,
    pub(super) tsfactor_max: u32,
    pub(super) starve_threshold: u32,
    pub(super) features: Features,
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

    /// Marks a class as maybe hungry if a `slice` is less than the guarantee, which is of all CPUs, of slice and
    /// `waited` ticks.
    pub(super) fn detect_hungry(self, class: &Class, cpu: CpuId, cpus: u64, slice: u32, waited: u64) {
        let guarantee = (u64::from(class.guarantee.load(Relaxed)) * cpus).min(GUARANTEE_SCALE);
        if self.features.has(Feature::CpuRcHungry)
            && u64::from(slice) * GUARANTEE_SCALE < guarantee * (u64::from(slice) + waited)
        {
            class.stats[cpu.index()].maybe_hungry.store(true, Relaxed);
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
    pub(super) guarantee: AtomicU32,
    /// Factor of its tasks' slices.
    pub(super) ts_factor: AtomicU32,
    /// Whether it was hungry at the last recalculation.
    pub(super) hungry: AtomicBool,
    /// Hungry recalculations in a row, at most the threshold + 1.
    pub(super) starving: AtomicU32,
    /// Whether a task has returned to the active array since.
    pub(super) requeued: AtomicBool,
    /// Mean load over the CPUs at the last recalculation.
    pub(super) load: AtomicU64,
    /// The root's: tick of the last recalculation.
    pub(super) recalculated: AtomicU64,
    pub(super) stats: Box<[Stat]>,
}

/// A class on one CPU.
#[derive(Debug, Default)]
pub(super) struct Stat {
    pub(super) load: AtomicU64,
    /// Tick at which `load` was computed.
    pub(super) timestamp: AtomicU64,
    /// Ticks that its tasks have used since the last recalculation.
    pub(super) used: AtomicU64,
    pub(super) maybe_hungry: AtomicBool,
}

impl Stat {
    pub(super) fn fold(&self, rules: CpuRc, since: u64) {
        self.load.store(self.folded(rules, since), Relaxed);
        self.used.store(0, Relaxed);
    }

    /// Returns the load with the used ticks, as if a slice was over.
    pub(super) fn folded(&self, rules: CpuRc, since: u64) -> u64 {
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
    pub(super) fn guaranteed(&self, rules: CpuRc) -> u64 {
        u64::from(self.guarantee.load(Relaxed)) * rules.load_scale
    }

    #[inline]
    pub(super) fn used(&self, cpu: CpuId) {
        // Only this CPU adds to it. Another CPU may fold it meanwhile, and a tick be lost or counted twice.
        let used = &self.stats[cpu.index()].used;
        used.store(used.load(Relaxed) + 1, Relaxed);
    }
}
