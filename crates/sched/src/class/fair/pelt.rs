//! Per-entity load tracking: averages over the last few hundred milliseconds.
//!
//! A period has 1024 us, and `n` periods ago the weight y^n, with y^32 = 1/2. An always runnable entity's `load_avg`
//! converges to its weight, an always running one's `util_avg` to 1024. Integers have the kernel's resolution, so
//! rounding and comparisons are equal.

/// y^n x 2^32 for n in 0..32, y = 2^(-1/32).
const DECAY: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];
/// Periods after which half is left.
const HALF_LIFE: u64 = 32;
/// Limit of an always runnable entity's sum.
pub(crate) const LOAD_AVG_MAX: u64 = 47742;

#[inline]
fn decay(value: u64, periods: u64) -> u64 {
    if periods > HALF_LIFE * 63 {
        return 0;
    }
    let halved = value >> (periods / HALF_LIFE);
    ((u128::from(halved) * u128::from(DECAY[(periods % HALF_LIFE) as usize])) >> 32) as u64
}

/// Averages of an entity, or of a run queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(clippy::struct_field_names)] // the kernel's names
pub(crate) struct Avg {
    /// Last update on the PELT clock, ns, in units of 1024 ns; 0 if not attached.
    pub(crate) last_update: u64,
    /// Counted part of the present period, of 1024.
    pub(crate) period_contrib: u32,
    /// Estimate, of 1024. Up to 6.7, without UTIL_EST_FASTUP: also the average behind it.
    pub(crate) util_est: u16,
    pub(crate) util_est_ewma: u16,
    pub(crate) load_sum: u64,
    pub(crate) runnable_sum: u64,
    pub(crate) util_sum: u64,
    pub(crate) load_avg: u64,
    pub(crate) runnable_avg: u64,
    pub(crate) util_avg: u64,
}

impl Avg {
    /// Divisor from sums to averages.
    #[inline]
    pub(crate) const fn divider(&self) -> u64 {
        LOAD_AVG_MAX - 1024 + self.period_contrib as u64
    }

    #[inline]
    pub(crate) fn is_current(&self, now: u64) -> bool {
        now.wrapping_sub(self.last_update) < 1 << 10
    }

    /// Updates the sums to `now`. Returns whether the averages must change.
    #[inline]
    pub(crate) fn accumulate(&mut self, now: u64, load: u64, runnable: u64, running: bool) -> bool {
        let delta = now.wrapping_sub(self.last_update);
        if (delta as i64) < 0 {
            self.last_update = now;
            return false;
        }
        let micros = delta >> 10;
        micros != 0 && self.advance(micros, load, runnable, running)
    }

    #[inline]
    fn advance(&mut self, micros: u64, load: u64, runnable: u64, running: bool) -> bool {
        self.last_update += micros << 10;
        let total = micros + u64::from(self.period_contrib);
        if total >= 1024 {
            self.begin_periods(total, load, runnable, running);
            return true;
        }
        self.period_contrib = total as u32;
        self.count(micros, load, runnable, running);
        false
    }

    /// Adds `contrib` to the sums. Without load, the entity has left, and nothing is added.
    #[inline]
    fn count(&mut self, contrib: u64, load: u64, runnable: u64, running: bool) {
        if load == 0 {
            return;
        }
        self.load_sum += load * contrib;
        self.runnable_sum += (runnable * contrib) << 10;
        self.util_sum += (u64::from(running) * contrib) << 10;
    }

    /// Counts `micros` of the present period, with constant `load` and `running`. `runnable_micros`: each microsecond
    /// times the runnable tasks.
    pub(crate) fn catch_up(&mut self, micros: u64, load: u64, runnable_micros: u64, running: bool) {
        debug_assert!(u64::from(self.period_contrib) + micros < 1024 || micros == 0, "averages would have changed");
        self.last_update += micros << 10;
        self.period_contrib += micros as u32;
        if load > 0 {
            self.load_sum += load * micros;
            self.runnable_sum += runnable_micros << 10;
            self.util_sum += (u64::from(running) * micros) << 10;
        }
    }

    /// Ends the open period, and begins others. `total`: us since the start of the open period.
    #[inline(never)]
    fn begin_periods(&mut self, total: u64, load: u64, runnable: u64, running: bool) {
        let (periods, rest) = (total / 1024, total % 1024);
        self.load_sum = decay(self.load_sum, periods);
        self.runnable_sum = decay(self.runnable_sum, periods);
        self.util_sum = decay(self.util_sum, periods);
        if load > 0 {
            // Rest of the open period, whole periods, and part of the new one.
            let open = decay(1024 - u64::from(self.period_contrib), periods);
            let whole = LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - 1024;
            self.count(open + whole + rest, load, runnable, running);
        }
        self.period_contrib = rest as u32;
    }

    /// As [`Self::catch_up`], then enters another period. `runnable`: number after the deferred microseconds. `weight`:
    /// see [`Self::average`].
    #[inline]
    pub(crate) fn step(
        &mut self,
        step: &Step,
        (load, weight): (u64, u64),
        (runnable_micros, runnable): (u64, u64),
        running: bool,
    ) {
        debug_assert!(self.last_update + (step.micros << 10) == step.last_update, "not in step");
        self.last_update = step.last_update;
        self.period_contrib = step.rest;
        let deferred = if load > 0 { step.deferred } else { 0 };
        let running = u64::from(running);
        self.load_sum = decay(self.load_sum + load * deferred, step.periods);
        self.runnable_sum = decay(self.runnable_sum + if load > 0 { runnable_micros << 10 } else { 0 }, step.periods);
        self.util_sum = decay(self.util_sum + ((running * deferred) << 10), step.periods);
        if load > 0 {
            self.load_sum += load * step.contrib;
            self.runnable_sum += (runnable * step.contrib) << 10;
            self.util_sum += (running * step.contrib) << 10;
        }
        self.load_avg = weight * self.load_sum / step.divider;
        self.runnable_avg = self.runnable_sum / step.divider;
        self.util_avg = self.util_sum / step.divider;
    }

    /// `weight`: the entity's, in the user's scale; 1 for a run queue, whose sums include it.
    #[inline(never)]
    pub(crate) fn average(&mut self, weight: u64) {
        let divider = self.divider();
        self.load_avg = weight * self.load_sum / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = self.util_sum / divider;
    }
}

/// A step into another period, common to many averages.
#[derive(Debug)]
pub(crate) struct Step {
    micros: u64,
    /// Deferred part of `micros`, in the present period.
    deferred: u64,
    periods: u64,
    contrib: u64,
    rest: u32,
    divider: u64,
    last_update: u64,
}

impl Step {
    /// `deferred` microseconds within the period of `avg`, and `micros`, which end it.
    pub(crate) fn new(avg: &Avg, deferred: u64, micros: u64) -> Self {
        let open = u64::from(avg.period_contrib) + deferred;
        let total = open + micros;
        debug_assert!(open < 1024 && total >= 1024);
        let (periods, rest) = (total / 1024, total % 1024);
        let whole = LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - 1024;
        Self {
            micros: deferred + micros,
            deferred,
            periods,
            contrib: decay(1024 - open, periods) + whole + rest,
            rest: rest as u32,
            divider: LOAD_AVG_MAX - 1024 + rest,
            last_update: avg.last_update + ((deferred + micros) << 10),
        }
    }

    pub(crate) fn last_update(&self) -> u64 {
        self.last_update
    }

    /// Microseconds from the update to the end of the period.
    pub(crate) fn next_period(&self) -> u64 {
        1024 - u64::from(self.rest)
    }
}

/// Subtracts `amount`, down to 0: rounding may have left less.
#[inline]
pub(crate) fn sub(value: &mut u64, amount: u64) {
    *value = value.saturating_sub(amount);
}

/// Least divisor: the lower bound of a sum after a subtraction.
pub(crate) const MIN_DIVIDER: u64 = LOAD_AVG_MAX - 1024;

/// Updates a class above fair to `now`. `running`: whether it ran since the last update.
pub(crate) fn update_avg(avg: &mut Avg, now: u64, running: bool) {
    if avg.last_update == 0 {
        avg.last_update = now & !1023;
    }
    if avg.accumulate(now, u64::from(running), u64::from(running), running) {
        avg.average(1);
        if !running && avg.util_sum == 0 {
            // Until a task of the class runs again, there is nothing to update.
            *avg = Avg::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_running_converges_to_full() {
        let mut avg = Avg { last_update: 1024, ..Avg::default() };
        let mut now = 1024;
        for _ in 0..1000 {
            now += 1_000_000;
            if avg.accumulate(now, 1, 1, true) {
                avg.average(1024);
            }
        }
        assert!((1020..=1024).contains(&avg.util_avg), "{avg:?}");
        assert!((1020..=1024).contains(&avg.load_avg), "{avg:?}");
        assert!((1020..=1024).contains(&avg.runnable_avg), "{avg:?}");
    }

    #[test]
    fn half_is_left_after_32_periods() {
        assert_eq!(decay(1 << 20, 32), (1 << 19) - 1);
        assert_eq!(decay(u64::MAX, 32 * 64), 0);
        let mut avg = Avg { last_update: 1 << 20, load_sum: 40_000, util_sum: 40_000 << 10, ..Avg::default() };
        avg.accumulate((1 << 20) + (32 << 20), 0, 0, false);
        assert!(avg.load_sum.abs_diff(20_000) <= 1 && avg.util_sum.abs_diff(20_000 << 10) <= 1, "{avg:?}");
    }

    #[test]
    fn one_step_or_many_give_the_same_sum() {
        let start = Avg { last_update: 1 << 20, ..Avg::default() };
        let (mut one, mut many) = (start, start);
        one.accumulate((1 << 20) + (100 << 20), 3, 2, true);
        for step in 1..=100 {
            many.accumulate((1 << 20) + (step << 20), 3, 2, true);
        }
        // Decaying a hundred times rounds down a hundred times.
        assert!(one.load_sum.abs_diff(many.load_sum) < 3 * 100, "{one:?} {many:?}");
    }
}
