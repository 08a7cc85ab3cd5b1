//! The scheduler's part of frequency scaling (`cpufreq_schedutil.c`): the demand of a CPU, and averages at lower
//! frequencies. The machine chooses frequencies, and how long changes take.

use crate::uclamp::Clamps;

/// A CPU's demand of frequency, of 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The wanted capacity, including a fifth to spare; may exceed `max`.
    pub util: u64,
    /// Its capacity at the highest frequency.
    pub max: u64,
    /// Reserved by deadline tasks. When it grows, the frequency must rise at once.
    pub bw_dl: u64,
    /// Whether an upper clamp lowers it, so that the frequency may fall though the CPU is busy (`uclamp_rq_is_capped`).
    pub capped: bool,
}

/// Adds a quarter: a CPU at this frequency has a fifth to spare (`map_util_perf`).
const fn with_headroom(util: u64) -> u64 {
    util + (util >> 2)
}

/// Returns the frequency at which a CPU of capacity `max` at `highest` provides `util` (`map_util_freq`), in the unit
/// of `highest`.
pub fn map_util_freq(util: u64, highest: u32, max: u64) -> u64 {
    u64::from(highest) * util / max.max(1)
}

/// Utilisation, reservations and clamps of a CPU, of 1024.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    /// Utilisation of fair tasks, or their estimate.
    pub(crate) fair: u64,
    pub(crate) rt: u64,
    pub(crate) dl: u64,
    /// Reserved by deadline tasks.
    pub(crate) bw_dl: u64,
    pub(crate) rt_runnable: bool,
    pub(crate) clamps: Clamps,
}

impl Demands {
    /// Returns the capacity that a CPU of capacity `max` requests, with a fifth to spare. `used`: utilisation clamps
    /// are in use. Up to 6.7 clamped utilisation plus reservations get a quarter more; 6.8+: only utilisation does.
    pub(crate) fn wanted(&self, headroom_of_use: bool, max: u64, used: bool) -> u64 {
        let Self { fair, rt, dl, bw_dl, clamps, .. } = *self;
        // Without clamps, real-time tasks get the full capacity.
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
