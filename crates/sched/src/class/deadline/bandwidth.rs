//! Bandwidth: arithmetic, root domains' reservations, and admission.
//!
//! A bandwidth is a fraction of a CPU in fixed point, [`BW_UNIT`] for a whole CPU. A root domain admits tasks while
//! their bandwidths fit its CPUs' limit: `sched_rt_runtime_us` of every `sched_rt_period_us`, 95 % by default
//! (Documentation/scheduler/sched-deadline, section 4). One CPU then meets all implicit deadlines. On several,
//! tardiness is bounded (Devi & Anderson, "Tardiness bounds under global EDF scheduling on a multiprocessor", RTSS
//! 2005).

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::params::DlAttrs;
use super::ratio::{BW_SHIFT, BW_UNIT, to_ratio};
use crate::sync::{AtomicI64, AtomicU32, AtomicU64};
/// Bits after the point of [`Reclaim::bw_ratio`].
pub(super) const RATIO_SHIFT: u32 = 8;
/// Capacity of the fastest CPU, in bits.
const CAPACITY_SHIFT: u32 = 10;

/// Limit of real-time tasks on each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobalLimit {
    /// `sched_rt_runtime_us`; `None` is -1: no limit, and no admission control.
    pub runtime_us: Option<u64>,
    /// `sched_rt_period_us`.
    pub period_us: u64,
}

impl Default for GlobalLimit {
    fn default() -> Self {
        Self { runtime_us: Some(950_000), period_us: 1_000_000 }
    }
}

impl GlobalLimit {
    /// Bandwidth of one CPU; `None` without a limit.
    pub fn per_cpu(self) -> Option<u64> {
        self.runtime_us.map(|runtime| to_ratio(self.period_us, runtime))
    }
}

/// Why a task is not admitted (EBUSY). Bandwidths are in 2^-20 CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionError {
    /// Requested parameters.
    pub attrs: DlAttrs,
    /// Requested bandwidth.
    pub new: u64,
    /// Bandwidth that the task already has.
    pub old: u64,
    /// Reserved bandwidth, with `old` and (6.12+) the fair servers.
    pub total: u64,
    /// Bandwidth that may be reserved.
    pub cap: u64,
    /// Number of CPUs.
    pub cpus: usize,
    /// Limit of each CPU.
    pub limit: GlobalLimit,
}

/// A bandwidth in CPUs, to the thousandth.
pub(crate) struct Cpus(pub(crate) u64);

impl Cpus {
    fn thousandths(&self) -> u128 {
        (u128::from(self.0) * 1000 + u128::from(BW_UNIT / 2)) >> BW_SHIFT
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.thousandths();
        write!(f, "{}.{:03}", thousandths / 1000, thousandths % 1000)
    }
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attrs, new, old, total, cap, cpus, limit } = *self;
        let rest = total - old;
        write!(
            f,
            "not admitted: {} CPUs are taken and {} more (runtime {} ns every {} ns) make {}, above the cap of {}",
            Cpus(rest),
            Cpus(new),
            attrs.runtime,
            attrs.period,
            Cpus(rest + new),
            Cpus(cap)
        )?;
        if Cpus(rest + new).thousandths() == Cpus(cap).thousandths() {
            write!(f, " ({rest} + {new} > {cap} in 2^-20 CPUs)")?;
        }
        if let Some(runtime) = limit.runtime_us {
            let period = limit.period_us;
            write!(f, ", which is sched_rt_runtime_us/sched_rt_period_us = {runtime}/{period} of {cpus} CPU(s)")?;
        }
        write!(f, "; lower the runtime, lengthen the period, or use fewer deadline tasks")
    }
}

impl core::error::Error for AdmissionError {}

/// A root domain's reserved bandwidth (`struct dl_bw`).
#[derive(Debug)]
pub struct RootDomain {
    limit: GlobalLimit,
    /// Online CPUs.
    cpus: AtomicU32,
    /// Sum of their capacities, at most 1024 each.
    capacity: AtomicU64,
    total_bw: AtomicU64,
    /// For each CPU: its limit less its share of reservations (`dl_rq.extra_bw`).
    extra_bw: AtomicI64,
}

/// Inputs of reclaiming beside a run queue's own sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reclaim {
    /// Most that can be reclaimed of a CPU (`Umax`).
    pub max_bw: u64,
    /// Bandwidth that no task has reserved (`Uextra`).
    pub extra_bw: i64,
    /// `1 / Umax` in 2^-8.
    pub bw_ratio: u64,
}

impl RootDomain {
    /// Returns a domain of CPUs of these capacities (1..=1024) without reservations.
    pub fn new(capacities: impl Iterator<Item = u32>, limit: GlobalLimit) -> Self {
        let (mut cpus, mut capacity) = (0, 0);
        for each in capacities {
            cpus += 1;
            capacity += u64::from(each);
        }
        let max_bw = limit.per_cpu().unwrap_or(BW_UNIT);
        Self {
            limit,
            cpus: AtomicU32::new(cpus),
            capacity: AtomicU64::new(capacity),
            total_bw: AtomicU64::new(0),
            extra_bw: AtomicI64::new(max_bw as i64),
        }
    }

    /// Returns its limit.
    pub fn limit(&self) -> GlobalLimit {
        self.limit
    }

    /// Bandwidth that may be reserved; `None` without a limit.
    pub fn cap(&self) -> Option<u64> {
        self.cap_of(self.capacity.load(Relaxed))
    }

    fn cap_of(&self, capacity: u64) -> Option<u64> {
        // In the kernel's order: a bandwidth of one CPU scaled by the capacity of all.
        Some((self.limit.per_cpu()? * capacity) >> CAPACITY_SHIFT)
    }

    /// Number of its online CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.load(Relaxed) as usize
    }

    /// Checks whether a CPU may go offline, with its `server` bandwidth (`dl_bw_manage`). Other reservations must fit
    /// on the remaining CPUs. None fits if no CPU remains.
    ///
    /// # Errors
    ///
    /// The reserved bandwidth, and the future cap.
    pub fn may_lose(&self, capacity: u32, server: u64) -> Result<(), (u64, u64)> {
        let promised = self.total() - server;
        let left = if self.cpus() > 1 {
            self.cap_of(self.capacity.load(Relaxed).saturating_sub(u64::from(capacity)))
        } else {
            Some(0)
        };
        match left {
            Some(cap) if promised > cap => Err((promised, cap)),
            _ => Ok(()),
        }
    }

    /// Changes a CPU's state, with its `server` bandwidth. One caller at a time, without admission.
    pub(super) fn set_online(&self, capacity: u32, server: u64, online: bool) {
        if online {
            self.cpus.fetch_add(1, Relaxed);
            self.capacity.fetch_add(u64::from(capacity), Relaxed);
            self.total_bw.fetch_add(server, Relaxed);
        } else {
            self.cpus.fetch_sub(1, Relaxed);
            self.capacity.fetch_sub(u64::from(capacity), Relaxed);
            self.total_bw.fetch_sub(server, Relaxed);
        }
        // Another number of CPUs shares the reservations.
        let max_bw = self.limit.per_cpu().unwrap_or(BW_UNIT);
        self.extra_bw.store(max_bw as i64 - self.share(self.total()), Relaxed);
    }

    /// Checks whether `cpus` CPUs have room for the reservations (`cpuset_cpumask_can_shrink`).
    ///
    /// # Errors
    ///
    /// As [`Self::may_lose`].
    pub fn may_shrink(&self, cpus: usize) -> Result<(), (u64, u64)> {
        let promised = self.total();
        match self.limit.per_cpu().map(|bw| bw * cpus as u64) {
            Some(cap) if promised > cap => Err((promised, cap)),
            _ => Ok(()),
        }
    }

    /// Reserved bandwidth.
    pub fn total(&self) -> u64 {
        self.total_bw.load(Relaxed)
    }

    /// Reserves the bandwidth of `attrs` instead of the task's `old` one.
    ///
    /// # Errors
    ///
    /// Above the cap; nothing is changed then.
    pub fn admit(&self, old: u64, attrs: DlAttrs) -> Result<(), AdmissionError> {
        let new = attrs.bandwidth();
        let cap = self.cap();
        let fits = |total: u64| cap.is_none_or(|cap| total - old + new <= cap).then_some(total - old + new);
        if let Err(total) = self.total_bw.fetch_update(Relaxed, Relaxed, fits) {
            let (cpus, limit) = (self.cpus(), self.limit);
            return Err(AdmissionError { attrs, new, old, total, cap: cap.unwrap_or(u64::MAX), cpus, limit });
        }
        self.spread(-self.share(new) + self.share(old));
        Ok(())
    }

    /// Reserves a bandwidth even without room: a fair server's, or a task's that another domain admitted.
    pub(super) fn reserve(&self, bw: u64) {
        self.total_bw.fetch_add(bw, Relaxed);
        self.spread(-self.share(bw));
    }

    /// Releases a reserved bandwidth.
    pub fn release(&self, bw: u64) {
        let before = self.total_bw.fetch_sub(bw, Relaxed);
        debug_assert!(before >= bw, "more is given back than was promised");
        self.spread(self.share(bw));
    }

    /// Returns each CPU's share of a bandwidth.
    fn share(&self, bw: u64) -> i64 {
        bw as i64 / i64::from(self.cpus.load(Relaxed).max(1))
    }

    fn spread(&self, delta: i64) {
        self.extra_bw.fetch_add(delta, Relaxed);
    }

    /// Inputs of reclaiming.
    pub fn reclaim(&self) -> Reclaim {
        let extra_bw = self.extra_bw.load(Relaxed);
        match self.limit.runtime_us {
            None => Reclaim { max_bw: BW_UNIT, extra_bw, bw_ratio: 1 << RATIO_SHIFT },
            Some(runtime) => Reclaim {
                max_bw: to_ratio(self.limit.period_us, runtime),
                extra_bw,
                bw_ratio: to_ratio(runtime, self.limit.period_us) >> (BW_SHIFT - RATIO_SHIFT),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const MS: u64 = 1_000_000;

    fn domain(cpus: usize) -> RootDomain {
        RootDomain::new(core::iter::repeat_n(1024, cpus), GlobalLimit::default())
    }

    #[test]
    fn defaults_are_the_kernels() {
        let domain = domain(4);
        assert_eq!(domain.cap(), Some(4 * 996_147));
        assert_eq!(domain.reclaim(), Reclaim { max_bw: 996_147, extra_bw: 996_147, bw_ratio: 269 });
        assert_eq!(to_ratio(100 * MS, 10 * MS), 104_857);
    }

    #[test]
    fn the_cap_is_kept_to_the_last_unit() {
        let domain = domain(2);
        let half = DlAttrs::new(50 * MS, 100 * MS);
        for _ in 0..3 {
            domain.admit(0, half).unwrap();
        }
        let rest = DlAttrs::new(40 * MS, 100 * MS);
        domain.admit(0, rest).unwrap();
        // 1.9 of 1.9 are taken: only a runtime that rounds to nothing would fit.
        let error = domain.admit(0, DlAttrs::new(100_000, 100 * MS)).unwrap_err();
        assert_eq!((error.total, error.new, error.cap), (3 * 524_288 + 419_430, 1048, 2 * 996_147));
        assert_eq!(domain.total(), 3 * 524_288 + 419_430);
        // A task that changes its parameters gives back its own: as much is admitted, more is not.
        domain.admit(rest.bandwidth(), rest).unwrap();
        domain.admit(rest.bandwidth(), DlAttrs::new(40 * MS + 200, 100 * MS)).unwrap_err();
        domain.release(rest.bandwidth());
        assert_eq!(domain.total(), 3 * 524_288);
    }

    #[test]
    fn a_refusal_shows_the_sum() {
        let domain = domain(1);
        domain.admit(0, DlAttrs::new(6 * MS, 10 * MS)).unwrap();
        let text = domain.admit(0, DlAttrs::new(4 * MS, 10 * MS)).unwrap_err().to_string();
        assert_eq!(
            text,
            "not admitted: 0.600 CPUs are taken and 0.400 more (runtime 4000000 ns every 10000000 ns) make 1.000, above \
             the cap of 0.950, which is sched_rt_runtime_us/sched_rt_period_us = 950000/1000000 of 1 CPU(s); lower the \
             runtime, lengthen the period, or use fewer deadline tasks"
        );
    }

    #[test]
    fn a_refusal_by_a_hair_shows_it() {
        let domain = domain(1);
        domain.admit(0, DlAttrs::new(900 * MS, 1000 * MS)).unwrap();
        let error = domain.admit(0, DlAttrs::new(50 * MS + 2000, 1000 * MS)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("make 0.950, above the cap of 0.950 (943718 + 52430 > 996147 in 2^-20 CPUs)"), "{text}");
    }

    #[test]
    fn slow_cpus_count_for_less() {
        let domain = RootDomain::new([1024, 512].into_iter(), GlobalLimit::default());
        assert_eq!(domain.cap(), Some(996_147 * 1536 / 1024));
    }

    #[test]
    fn without_a_limit_everything_is_admitted() {
        let domain = RootDomain::new(core::iter::once(1024), GlobalLimit { runtime_us: None, period_us: 1_000_000 });
        for _ in 0..3 {
            domain.admit(0, DlAttrs::new(MS, MS)).unwrap();
        }
        assert_eq!(domain.reclaim(), Reclaim { max_bw: BW_UNIT, extra_bw: -2 * BW_UNIT as i64, bw_ratio: 256 });
    }

    /// The kernel checks the rest without the CPU and its fair server.
    #[test]
    fn a_cpu_may_go_while_what_is_promised_fits_on_the_others() {
        let domain = domain(3);
        let server = to_ratio(1000 * MS, 50 * MS);
        (0..3).for_each(|_| domain.reserve(server));
        let half = DlAttrs::new(50 * MS, 100 * MS);
        for _ in 0..4 {
            domain.admit(0, half).unwrap();
        }
        // 2.0 for tasks and 0.1 for two servers, of 1.9.
        assert_eq!(domain.may_lose(1024, server), Err((4 * 524_288 + 2 * server, 2 * 996_147)));
        domain.release(half.bandwidth());
        domain.may_lose(1024, server).unwrap();
        domain.set_online(1024, server, false);
        assert_eq!((domain.cpus(), domain.cap()), (2, Some(2 * 996_147)));
        assert_eq!(domain.reclaim().extra_bw, 996_147 - (3 * 262_144 + server as i64));
        domain.may_lose(1024, server).unwrap_err();
        domain.set_online(1024, server, true);
        assert_eq!(domain.total(), 3 * 524_288 + 3 * server);
        // With servers only, every CPU may go.
        let domain = RootDomain::new(core::iter::once(1024), GlobalLimit::default());
        domain.reserve(server);
        domain.may_lose(1024, server).unwrap();
        domain.admit(0, DlAttrs::new(MS, 100 * MS)).unwrap();
        assert_eq!(domain.may_lose(1024, server), Err((10_485, 0)));
    }

    #[test]
    fn what_is_extra_is_each_cpus_share() {
        let domain = domain(4);
        let attrs = DlAttrs::new(50 * MS, 100 * MS);
        domain.admit(0, attrs).unwrap();
        assert_eq!(domain.reclaim().extra_bw, 996_147 - 524_288 / 4);
        domain.release(attrs.bandwidth());
        assert_eq!(domain.reclaim().extra_bw, 996_147);
    }
}
