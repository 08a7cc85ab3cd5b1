//! How much of each CPU the class may have, so that a task gone wild cannot lock everybody else out.
//!
//! Up to 6.6 the class is throttled ([`Limit::Throttle`]): of every `sched_rt_period_us` (1 s) its tasks may run
//! `sched_rt_runtime_us` (950 ms) on each CPU; when they have, they wait for the end of the period, even if the CPU is idle
//! meanwhile. What a tick let them run beyond is taken off the next period. CPUs do not lend each other what they have left
//! (feature RT_RUNTIME_SHARE, off since 5.10).
//!
//! From 6.12 on ([`Limit::FairServer`]) nothing stops the class; instead a deadline server runs fair tasks that it has kept
//! waiting. That server belongs to the deadline class.

use core::sync::atomic::Ordering::Relaxed;

use crate::host::{Host, Timer};
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::{Scheduler, settle};
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64};
use crate::tunables::Tunables;

/// What keeps real-time tasks from taking all of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// They are throttled (up to 6.6).
    Throttle,
    /// A deadline server runs the fair tasks that starve (from 6.12 on).
    FairServer,
}

/// The machine's period of real-time bandwidth (`def_rt_bandwidth`).
#[derive(Debug, Default)]
pub(crate) struct RtBandwidth {
    /// The timer is armed.
    active: AtomicBool,
    /// When the period ends, nanoseconds.
    ends: AtomicU64,
}

/// What the class may have of a period, if that is limited.
fn runtime<P: Policy>(shared: &Shared<P>) -> Option<u64> {
    let tunables = &shared.config.tunables;
    let runtime = tunables.rt_runtime_ns();
    (shared.config.rt_limit == Limit::Throttle && runtime < tunables.rt_period_ns()).then_some(runtime)
}

/// A task of the class becomes runnable: the period timer has to run. Its beat is the machine's
/// ([`Config::rt_period_phase_ns`](crate::shared::Config::rt_period_phase_ns)), or begins now.
pub(super) fn start<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if runtime(shared).is_none() || shared.rt.bandwidth.active.load(Relaxed) {
        return;
    }
    if shared.rt.bandwidth.active.swap(true, Relaxed) {
        return;
    }
    let (now, period) = (rq.clock.now(), shared.config.tunables.rt_period_ns());
    let ends = match shared.config.rt_period_phase_ns {
        None => now + period,
        Some(phase) => now + period - (now + period - phase % period) % period,
    };
    shared.rt.bandwidth.ends.store(ends, Relaxed);
    rq.arm(Timer::RtPeriod, Some(ends));
}

/// The class has run for `delta` on this CPU.
pub(super) fn charge<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    let Some(runtime) = runtime(shared) else { return };
    rq.rt.rt_time += delta;
    if rq.rt.rt_time <= runtime || rq.rt.throttled {
        return;
    }
    rq.rt.throttled = true;
    // Somebody has to end that.
    start(rq, shared);
    // To everybody else they are not there.
    rq.nr_running -= rq.rt.nr_running;
    rq.resched();
}

/// The CPU goes offline: its tasks are to leave, throttled or not (`__disable_runtime`).
pub(crate) fn rq_offline<P: Policy>(rq: &mut Rq<P>) {
    rq.rt.rt_time = 0;
    if core::mem::take(&mut rq.rt.throttled) {
        rq.nr_running += rq.rt.nr_running;
    }
}

/// The period is over on one CPU, `overrun` of them: whether the timer is still needed for it.
fn replenish<P: Policy>(rq: &mut Rq<P>, runtime: u64, overrun: u64) -> bool {
    let rt = &mut rq.rt;
    if rt.rt_time == 0 {
        return rt.nr_running > 0;
    }
    rt.rt_time = rt.rt_time.saturating_sub(overrun.saturating_mul(runtime));
    if rt.throttled && rt.rt_time < runtime {
        rt.throttled = false;
        rq.nr_running += rq.rt.nr_running;
        if rq.rt.nr_running > 0 {
            rq.resched();
        }
    }
    rq.rt.rt_time > 0 || rq.rt.nr_running > 0
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// The period of real-time bandwidth is over, perhaps more than one: every CPU gets its part of the next.
    pub(crate) fn rt_period_timer(&mut self) {
        let shared = self.shared;
        let bandwidth = &shared.rt.bandwidth;
        let Some(runtime) = runtime(shared) else { return };
        let period = shared.config.tunables.rt_period_ns();
        let ended = bandwidth.ends.load(Relaxed);
        let overrun = self.now.saturating_sub(ended) / period + 1;
        let mut needed = false;
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            if rq.rt.nr_running > 0 || rq.rt.rt_time > 0 {
                rq.update_clock(self.now, shared);
                super::update_curr(&mut rq, shared);
                needed |= replenish(&mut rq, runtime, overrun);
                settle(&mut rq, shared, self.host);
            }
        }
        if needed {
            let ends = ended + overrun * period;
            bandwidth.ends.store(ends, Relaxed);
            self.host.arm(Timer::RtPeriod, Some(ends));
        } else {
            bandwidth.active.store(false, Relaxed);
        }
    }
}
