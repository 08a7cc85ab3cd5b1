//! The real-time class's limit on each CPU, against runaway tasks.
//!
//! Up to 6.11, the class is throttled ([`Behaviour::RtThrottle`]): in every `sched_rt_period_us` (1 s), its tasks may
//! run for `sched_rt_runtime_us` (950 ms) on each CPU. Then they wait for the period's end, even on an idle CPU. The
//! next period pays an overrun. With RT_RUNTIME_SHARE, CPUs lend unused runtime (`share`). 0 means no limit. With
//! scheduling of groups, this is the root's limit (`limits`).
//!
//! 3.14 to 6.11: time of deadline tasks counts, too, but only real-time tasks are throttled for it.
//!
//! 6.12+ ([`Behaviour::FairServer`]): a deadline server runs starved fair tasks instead.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use super::limits;
use super::period::RtBandwidth;
use super::place::span;
use super::share::Lending;
use crate::event::Event;
use crate::features::Feature;
use crate::host::Timer;
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;

impl RtBandwidth {
    pub(super) fn lending<P: Policy>(&self, shared: &Shared<P>, runtime: u64) -> Option<&Lending> {
        let share = shared.config.features.has(Feature::RtRuntimeShare);
        let new = || Box::new(Lending::new(shared.nr_cpus(), runtime, &shared.online()));
        share.then(|| self.lending.get_or_init(new))
    }

    /// Arms the timer if needed. With a phase, periods begin `phase` nanoseconds after their multiples. Without, the
    /// period begins now, unless the last is not over (`hrtimer_forward`).
    ///
    /// 4.7+: the timer fires at once if deadline tasks have run meanwhile, which forgives a period's runtime.
    pub(super) fn start<P: Policy>(
        &self,
        rq: &mut Rq<P>,
        shared: &Shared<P>,
        timer: Timer,
        period: u64,
        phase: Option<u64>,
    ) {
        if self.active.load(Relaxed) || self.active.swap(true, Relaxed) {
            return;
        }
        let now = rq.clock.now();
        let unseen = self.unseen.load(Relaxed) && self.unseen.swap(false, Relaxed);
        let ends = match phase {
            None if self.ends.load(Relaxed) > now => self.ends.load(Relaxed),
            None if unseen && shared.config.has(Behaviour::RtTimerAtOnce) => now,
            None => now + period,
            Some(phase) => now + period - (now + period - phase % period) % period,
        };
        self.ends.store(ends, Relaxed);
        rq.arm(timer, Some(ends));
    }
}

/// Returns the class's runtime in a period, if there is a limit.
pub(super) fn runtime<P: Policy>(shared: &Shared<P>) -> Option<u64> {
    let tunables = &shared.config.tunables;
    let runtime = tunables.rt_runtime_ns();
    (shared.config.has(Behaviour::RtThrottle) && runtime < tunables.rt_period_ns()).then_some(runtime)
}

/// Starts the period timer, with [`Config::rt_period_phase_ns`](crate::config::Config::rt_period_phase_ns).
pub(super) fn start<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if runtime(shared).is_some() {
        let phase = shared.config.rt_period_phase_ns;
        shared.rt.bandwidth.start(rq, shared, Timer::RtPeriod, shared.config.tunables.rt_period_ns(), phase);
    }
}

/// Charges `delta` of the class. A CPU that is going offline has no limit.
pub(super) fn charge<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    let Some(runtime) = runtime(shared).filter(|_| rq.online) else { return };
    if runtime == 0 {
        // No period could pay for that: there is no throttling.
        rq.rt.rt_time = 0;
        return;
    }
    rq.rt.rt_time += delta;
    let time = rq.rt.rt_time;
    let exceeded = match shared.rt.bandwidth.lending(shared, runtime) {
        None => time > runtime,
        Some(lending) if rq.rt.throttled => {
            lending.note(rq.cpu, time);
            false
        }
        Some(lending) => lending.exceeded(rq.cpu, time, shared.config.tunables.rt_period_ns(), &span(shared, rq.cpu)),
    };
    if !exceeded || rq.rt.throttled {
        return;
    }
    rq.rt.throttled = true;
    rq.event(Event::RtThrottle { group: GroupId::ROOT });
    // The timer must end that.
    start(rq, shared);
    // Throttled tasks do not count.
    rq.nr_running -= rq.rt.nr_running;
    rq.resched();
}

/// Charges a deadline task's `delta` to the real-time class, whose next task checks the limit.
pub(crate) fn charge_deadline<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    if shared.config.rt_group_sched {
        limits::charge_deadline(rq, shared, delta);
        return;
    }
    let Some(runtime) = runtime(shared).filter(|_| rq.online) else { return };
    if shared.rt.bandwidth.counts_deadline(rq.rt.rt_time, runtime) {
        rq.rt.rt_time += delta;
        if let Some(lending) = shared.rt.bandwidth.lending(shared, runtime) {
            lending.note(rq.cpu, rq.rt.rt_time);
        }
    }
}

fn unthrottle<P: Policy>(rq: &mut Rq<P>) {
    rq.rt.throttled = false;
    rq.event(Event::RtUnthrottle { group: GroupId::ROOT });
    rq.nr_running += rq.rt.nr_running;
    if rq.rt.nr_running > 0 {
        rq.resched();
    }
}

/// Lifts throttling for going offline (`__disable_runtime`).
pub(crate) fn rq_offline<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if shared.config.rt_group_sched {
        limits::rq_offline(rq, shared);
        return;
    }
    if let Some(runtime) = runtime(shared) {
        shared.rt.bandwidth.disable(rq.cpu, runtime, &shared.online());
    }
    rq.rt.rt_time = 0;
    if rq.rt.throttled {
        unthrottle(rq);
    }
}

/// Restores the CPU's runtime (`__enable_runtime`).
pub(crate) fn rq_online<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) {
    if shared.config.rt_group_sched {
        limits::rq_online(rq, shared);
    } else if let Some(runtime) = runtime(shared) {
        shared.rt.bandwidth.enable(rq.cpu, runtime);
    }
}

/// Ends `overrun` periods on one CPU. Returns whether it still needs the timer.
pub(super) fn replenish<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, mut runtime: u64, overrun: u64) -> bool {
    if rq.rt.rt_time == 0 {
        return rq.rt.nr_running > 0;
    }
    let lending = shared.rt.bandwidth.lending(shared, runtime);
    if let Some(lending) = lending {
        if rq.rt.throttled {
            lending.balance(rq.cpu, rq.rt.rt_time, shared.config.tunables.rt_period_ns(), &span(shared, rq.cpu));
        }
        runtime = lending.runtime(rq.cpu).unwrap_or(u64::MAX);
    }
    rq.rt.rt_time = rq.rt.rt_time.saturating_sub(overrun.saturating_mul(runtime));
    if let Some(lending) = lending {
        lending.note(rq.cpu, rq.rt.rt_time);
    }
    if rq.rt.throttled && rq.rt.rt_time < runtime {
        unthrottle(rq);
    }
    rq.rt.rt_time > 0 || rq.rt.nr_running > 0
}
