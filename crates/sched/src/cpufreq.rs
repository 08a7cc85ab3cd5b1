//! What the scheduler knows of frequencies (`cpufreq_schedutil.c`): what a CPU asks for, and how averages are kept
//! while it runs slower than it can. Choosing a frequency, and how long a change of it takes, is the machine's.

use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::uclamp::{Clamps, SCALE};

/// What a CPU asks of its frequency. All of 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The capacity it wants, a fifth to spare included; may be above what it has.
    pub util: u64,
    /// The capacity it has at its highest frequency.
    pub max: u64,
    /// What its deadline tasks were promised: when that grows, the frequency must at once.
    pub bw_dl: u64,
    /// An upper clamp keeps it lower than its utilisation asks for: then the frequency may fall though the CPU is busy
    /// (`uclamp_rq_is_capped`).
    pub capped: bool,
}

/// A quarter more: a CPU at this frequency has a fifth to spare (`map_util_perf`).
const fn with_headroom(util: u64) -> u64 {
    util + (util >> 2)
}

/// The frequency at which a CPU that has `max` of `highest` has `util` (`map_util_freq`), in the unit of `highest`.
pub fn map_util_freq(util: u64, highest: u32, max: u64) -> u64 {
    u64::from(highest) * util / max.max(1)
}

/// What of a CPU is used, promised and bounded. All of 1024.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    /// What fair tasks use, or are expected to.
    pub(crate) fair: u64,
    /// What real-time tasks use.
    pub(crate) rt: u64,
    /// What deadline tasks use.
    pub(crate) dl: u64,
    /// What deadline tasks were promised.
    pub(crate) bw_dl: u64,
    /// A real-time task is runnable.
    pub(crate) rt_runnable: bool,
    /// The bounds of the CPU's tasks.
    pub(crate) clamps: Clamps,
}

impl Demands {
    /// Returns the capacity that a CPU with capacity `max` requests, with a fifth to spare. `used`: utilisation clamps
    /// are in use.
    /// Up to 6.7: clamped utilisation plus reserved deadline bandwidth, plus a quarter of the sum. 6.8+: the quarter
    /// applies only to utilisation, and not to clamps and reservations.
    pub(crate) fn wanted(&self, headroom_of_use: bool, max: u64, used: bool) -> u64 {
        let Self { fair, rt, dl, bw_dl, clamps, .. } = *self;
        // Where nobody clamps, real-time tasks get all there is.
        let all = !used && self.rt_runnable;
        if headroom_of_use {
            let actual = (fair + rt + dl).min(max);
            let least = if all { max } else { bw_dl.max(if used { clamps.min.into() } else { 0 }) };
            let most = if used { max.min(clamps.max.into()) } else { max };
            least.max(most.min(with_headroom(actual)))
        } else {
            let clamped = if used { clamps.apply(fair + rt) } else { fair + rt };
            let whole = all || clamped + dl >= max;
            with_headroom(if whole { max } else { (clamped + bw_dl).min(max) })
        }
    }
}

impl<P: Policy> Rq<P> {
    /// What of this CPU is used, with `fair` for what the fair class uses.
    pub(crate) fn demands(&self, fair: u64) -> Demands {
        const BW_SHIFT: u32 = 20;
        Demands {
            fair,
            rt: self.rt.util_avg(),
            dl: self.dl.util_avg(),
            bw_dl: (self.dl.running_bw() * u64::from(SCALE)) >> BW_SHIFT,
            rt_runnable: self.rt.runnable(),
            clamps: self.clamps(),
        }
    }

    /// What this CPU asks of its frequency (`sugov_get_util`). From 6.5 on tasks that wait count as if they
    /// ran (`runnable_avg`).
    pub fn cpufreq_demand(&self, shared: &Shared<P>) -> Demand {
        let published = shared.cpu(self.cpu);
        let max = u64::from(published.capacity());
        let boost = if shared.config.has(Behaviour::BoostsRunnable) { published.runnable() } else { 0 };
        let fair = published.util().max(boost).min(max);
        let demands = self.demands(fair);
        let used = shared.uclamp_used();
        let Demands { rt, bw_dl, clamps, .. } = demands;
        let capped = used && fair + rt >= u64::from(clamps.max) && clamps.max != SCALE;
        Demand { util: demands.wanted(shared.config.has(Behaviour::HeadroomOfUse), max, used), max, bw_dl, capped }
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// From now on `cpu` runs at `scale` of its highest frequency, 1..=1024 (`arch_scale_freq_capacity`): its averages
    /// count time by that much less.
    pub fn set_frequency(&mut self, cpu: CpuId, scale: u32) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        rq.clock.set_frequency(scale.clamp(1, u32::from(SCALE)));
    }
}
