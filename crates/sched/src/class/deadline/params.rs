//! Parameters that `sched_setattr` accepts for SCHED_DEADLINE.

use core::fmt;

use super::ratio::to_ratio;

/// Parameters of a deadline task, as in `struct sched_attr`. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DlAttrs {
    /// `sched_runtime`: CPU time in each period, at least 1024.
    pub runtime: u64,
    /// `sched_deadline`: relative. 0 means the period.
    pub deadline: u64,
    /// `sched_period`. 0 means the deadline.
    pub period: u64,
    /// SCHED_FLAG_RECLAIM: whether it may use others' unused bandwidth (GRUB).
    pub reclaim: bool,
    /// SCHED_FLAG_DL_OVERRUN: whether a used-up runtime sends a signal (SIGXCPU, here an event).
    pub overrun_signal: bool,
}

/// Bounds of periods, as in `/proc/sys/kernel`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeriodLimits {
    /// `sched_deadline_period_min_us`.
    pub min_us: u64,
    /// `sched_deadline_period_max_us`.
    pub max_us: u64,
}

impl Default for PeriodLimits {
    /// 100 us to 2^22 us, about 4.2 s.
    fn default() -> Self {
        Self { min_us: 100, max_us: 1 << 22 }
    }
}

/// Tunables of the class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DlTunables {
    /// Bounds of periods.
    pub periods: PeriodLimits,
    /// `fair_server/runtime` and `fair_server/period`.
    pub server: ServerLimits,
}

/// Shortest runtime, ns: the scheduler's resolution (2^`DL_SCALE`).
pub const MIN_RUNTIME_NS: u64 = 1 << 10;

/// Why parameters are refused (EINVAL). Times as given, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DlParamError {
    /// No deadline.
    NoDeadline,
    /// A runtime below [`MIN_RUNTIME_NS`].
    RuntimeTooShort {
        /// Runtime.
        runtime: u64,
    },
    /// A runtime above the deadline.
    RuntimeAboveDeadline {
        /// Runtime.
        runtime: u64,
        /// Deadline.
        deadline: u64,
    },
    /// A deadline above the period.
    DeadlineAbovePeriod {
        /// Deadline.
        deadline: u64,
        /// Period.
        period: u64,
    },
    /// Below `sched_deadline_period_min_us`.
    PeriodTooShort {
        /// Period.
        period: u64,
        /// The limit.
        min_us: u64,
    },
    /// Above `sched_deadline_period_max_us`.
    PeriodTooLong {
        /// Period.
        period: u64,
        /// The limit.
        max_us: u64,
    },
}

impl fmt::Display for DlParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoDeadline => {
                write!(f, "no deadline is given: set one, or a period (which is then the deadline, too)")
            }
            Self::RuntimeTooShort { runtime } => {
                write!(f, "a runtime of {runtime} ns is too short: the kernel accepts {MIN_RUNTIME_NS} ns and more")
            }
            Self::RuntimeAboveDeadline { runtime, deadline } => write!(
                f,
                "a runtime of {runtime} ns does not fit a deadline of {deadline} ns; expected runtime <= deadline <= period"
            ),
            Self::DeadlineAbovePeriod { deadline, period } => write!(
                f,
                "a deadline of {deadline} ns is after the end of the period of {period} ns; expected runtime <= deadline <= period"
            ),
            Self::PeriodTooShort { period, min_us } => write!(
                f,
                "a period of {period} ns is too short: sched_deadline_period_min_us is {min_us} us; lengthen the period or \
                 lower that limit"
            ),
            Self::PeriodTooLong { period, max_us } => write!(
                f,
                "a period of {period} ns is too long: sched_deadline_period_max_us is {max_us} us; shorten the period or \
                 raise that limit"
            ),
        }
    }
}

impl core::error::Error for DlParamError {}

impl DlAttrs {
    /// `runtime` in every `period`, with an implicit deadline and no flags. Nanoseconds.
    pub const fn new(runtime: u64, period: u64) -> Self {
        Self { runtime, deadline: period, period, reclaim: false, overrun_signal: false }
    }

    /// Replaces zeros by their meaning, and checks the parameters.
    ///
    /// # Errors
    ///
    /// The kernel would refuse them.
    ///
    /// ```
    /// use vruntime_sched::class::deadline::{DlAttrs, PeriodLimits};
    ///
    /// let limits = PeriodLimits::default();
    /// assert_eq!(DlAttrs::new(10_000_000, 30_000_000).checked(limits).unwrap().deadline, 30_000_000);
    /// let error = DlAttrs::new(1_000, 30_000_000).checked(limits).unwrap_err();
    /// assert_eq!(error.to_string(), "a runtime of 1000 ns is too short: the kernel accepts 1024 ns and more");
    /// ```
    pub fn checked(self, limits: PeriodLimits) -> Result<Self, DlParamError> {
        let deadline = if self.deadline == 0 { self.period } else { self.deadline };
        let period = if self.period == 0 { deadline } else { self.period };
        let runtime = self.runtime;
        if deadline == 0 {
            return Err(DlParamError::NoDeadline);
        }
        if runtime < MIN_RUNTIME_NS {
            return Err(DlParamError::RuntimeTooShort { runtime });
        }
        if runtime > deadline {
            return Err(DlParamError::RuntimeAboveDeadline { runtime, deadline });
        }
        if deadline > period {
            return Err(DlParamError::DeadlineAbovePeriod { deadline, period });
        }
        if period < limits.min_us.saturating_mul(1000) {
            return Err(DlParamError::PeriodTooShort { period, min_us: limits.min_us });
        }
        // Whatever `max_us` is, an instant and a period must add up without overflow.
        if period > limits.max_us.saturating_mul(1000).min(u64::MAX >> 8) {
            return Err(DlParamError::PeriodTooLong { period, max_us: limits.max_us });
        }
        Ok(Self { deadline, period, ..self })
    }

    /// Bandwidth in 2^-20 CPUs (`dl_bw`).
    pub fn bandwidth(&self) -> u64 {
        to_ratio(self.period, self.runtime)
    }

    /// Density in 2^-20 CPUs: runtime over deadline (`dl_density`).
    pub fn density(&self) -> u64 {
        to_ratio(self.deadline, self.runtime)
    }

    /// Whether the deadline is the end of the period.
    pub const fn is_implicit(&self) -> bool {
        self.deadline == self.period
    }
}

/// Runtime and period of the fair servers (`/sys/kernel/debug/sched/fair_server/cpuN`). Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// CPU time of fair tasks in each period; 0: no server.
    pub runtime: u64,
    /// Length of a period.
    pub period: u64,
}

impl Default for ServerLimits {
    /// 50 ms every second.
    fn default() -> Self {
        Self { runtime: 50_000_000, period: 1_000_000_000 }
    }
}

impl ServerLimits {
    /// Part of a CPU, in 2^-20.
    pub fn bandwidth(self) -> u64 {
        to_ratio(self.period, self.runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const MS: u64 = 1_000_000;

    fn refused(runtime: u64, deadline: u64, period: u64) -> DlParamError {
        let attrs = DlAttrs { runtime, deadline, period, ..DlAttrs::default() };
        attrs.checked(PeriodLimits::default()).unwrap_err()
    }

    #[test]
    fn every_limit_is_kept_to_the_nanosecond() {
        let limits = PeriodLimits::default();
        let accepted = |runtime, deadline, period| {
            DlAttrs { runtime, deadline, period, ..DlAttrs::default() }.checked(limits).is_ok()
        };
        assert!(accepted(1024, 100_000, 100_000));
        assert!(accepted(5 * MS, 5 * MS, 5 * MS));
        assert!(accepted(1024, 4_194_304_000, 4_194_304_000));
        assert_eq!(refused(1023, MS, MS), DlParamError::RuntimeTooShort { runtime: 1023 });
        assert_eq!(refused(MS + 1, MS, MS), DlParamError::RuntimeAboveDeadline { runtime: MS + 1, deadline: MS });
        assert_eq!(refused(MS, MS + 1, MS), DlParamError::DeadlineAbovePeriod { deadline: MS + 1, period: MS });
        assert_eq!(refused(1024, 99_999, 99_999), DlParamError::PeriodTooShort { period: 99_999, min_us: 100 });
        let period = 4_194_304_001;
        assert_eq!(refused(MS, MS, period), DlParamError::PeriodTooLong { period, max_us: 4_194_304 });
        assert_eq!(refused(MS, 0, 0), DlParamError::NoDeadline);
    }

    #[test]
    fn a_zero_stands_for_the_other() {
        let limits = PeriodLimits::default();
        let attrs = |deadline, period| DlAttrs { runtime: MS, deadline, period, ..DlAttrs::default() };
        assert_eq!(attrs(3 * MS, 0).checked(limits).unwrap().period, 3 * MS);
        assert_eq!(attrs(0, 4 * MS).checked(limits).unwrap().deadline, 4 * MS);
    }

    #[test]
    fn errors_name_their_limit() {
        let text = refused(2 * MS, 3 * MS, 99_000).to_string();
        assert!(text.contains("3000000 ns is after the end of the period of 99000 ns"), "{text}");
        let text = refused(1024, 90_000, 99_000).to_string();
        assert!(text.contains("sched_deadline_period_min_us is 100 us"), "{text}");
    }
}
