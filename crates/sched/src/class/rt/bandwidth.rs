//! The limit of the real-time class on each CPU, so that a runaway task cannot lock out all others.
//!
//! Up to 6.6, the class is throttled ([`Behaviour::RtThrottle`]): in every `sched_rt_period_us` (1 s), its tasks may
//! run for `sched_rt_runtime_us` (950 ms) on each CPU. Then they wait for the end of the period, even on an idle CPU.
//! An overrun up to the next tick is subtracted from the next period. With the feature RT_RUNTIME_SHARE, CPUs lend each
//! other unused runtime (`share`). A limit of 0 means no limit.
//!
//! 3.14 to 6.6: time of deadline tasks counts, too, so that both classes together leave the rest to others. Only
//! real-time tasks are throttled for it.
//!
//! With real-time scheduling of groups, the limit is the root group's, one of many (`limits`).
//!
//! 6.12+ ([`Behaviour::FairServer`]): the class is not throttled. Instead a deadline server runs starved fair tasks. It
//! belongs to the deadline class.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;

use super::limits;
use super::share::Lending;
use crate::cpumask::CpuMask;
use crate::event::Event;
use crate::features::Feature;
use crate::host::{Host, Timer};
use crate::ids::{CpuId, GroupId};
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::{Scheduler, finish_verb};
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64};
use crate::tunables::Tunables;

/// The machine's period of real-time bandwidth (`def_rt_bandwidth`).
#[derive(Debug, Default)]
pub(crate) struct RtBandwidth {
    /// The timer is armed.
    active: AtomicBool,
    /// When the period ends, nanoseconds.
    ends: AtomicU64,
    /// Deadline tasks have run while the timer was not armed.
    unseen: AtomicBool,
    /// The runtime of each CPU. Created when the first task runs, if CPUs lend runtime.
    lending: OnceBox<Lending>,
}

impl RtBandwidth {
    /// What each CPU has of `runtime`, if they lend each other.
    pub(super) fn lending<P: Policy>(&self, shared: &Shared<P>, runtime: u64) -> Option<&Lending> {
        let share = shared.config.features.has(Feature::RtRuntimeShare);
        let new = || Box::new(Lending::new(shared.nr_cpus(), runtime, &shared.online()));
        share.then(|| self.lending.get_or_init(new))
    }

    /// Arms the timer if it is not armed. With a phase, periods begin at this number of nanoseconds after any multiple
    /// of the period. Without, the period begins now, unless the last period is not over: the timer then keeps its time
    /// (`hrtimer_forward`).
    /// 4.7+: the timer fires at once if deadline tasks have run meanwhile, which forgives a period's runtime of it.
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

    /// Whether run time of deadline tasks counts on a CPU whose class has used `time` of `runtime`. While no timer
    /// begins new periods, the sum is bounded (`sched_rt_bandwidth_account`).
    pub(super) fn counts_deadline(&self, time: u64, runtime: u64) -> bool {
        let active = self.active.load(Relaxed);
        if !active {
            self.unseen.store(true, Relaxed);
        }
        active || time < runtime
    }

    /// How many periods have ended by now: the timer may come late.
    pub(super) fn overrun(&self, now: u64, period: u64) -> u64 {
        now.saturating_sub(self.ends.load(Relaxed)) / period + 1
    }

    /// The timer has done its work: when it is to go off next, if it is needed.
    pub(super) fn next(&self, overrun: u64, period: u64, needed: bool) -> Option<u64> {
        let ends = self.ends.load(Relaxed) + overrun * period;
        self.ends.store(ends, Relaxed);
        if !needed {
            self.active.store(false, Relaxed);
        }
        needed.then_some(ends)
    }

    /// A CPU neither lends nor borrows from now on, for it is offline; each has `runtime`.
    pub(super) fn disable(&self, cpu: CpuId, runtime: u64, span: &CpuMask) {
        if let Some(lending) = self.lending.get() {
            lending.disable(cpu, runtime, span);
        }
    }

    /// A CPU is online.
    pub(super) fn enable(&self, cpu: CpuId, runtime: u64) {
        if let Some(lending) = self.lending.get() {
            lending.enable(cpu, runtime);
        }
    }

    /// A CPU has `runtime` from now on, whatever it has lent or borrowed.
    pub(super) fn reset(&self, cpu: CpuId, runtime: u64) {
        if let Some(lending) = self.lending.get() {
            lending.reset(cpu, runtime);
        }
    }
}

/// The CPUs that lend to each other: those of the root domain.
pub(super) fn span<P: Policy>(shared: &Shared<P>, cpu: CpuId) -> CpuMask {
    shared.root_span(shared.root(cpu))
}

/// What the class may have of a period, if that is limited.
fn runtime<P: Policy>(shared: &Shared<P>) -> Option<u64> {
    let tunables = &shared.config.tunables;
    let runtime = tunables.rt_runtime_ns();
    (shared.config.has(Behaviour::RtThrottle) && runtime < tunables.rt_period_ns()).then_some(runtime)
}

/// A task of the class becomes runnable: the period timer has to run. Its beat is the machine's
/// ([`Config::rt_period_phase_ns`](crate::config::Config::rt_period_phase_ns)), or begins now.
pub(super) fn start<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    if runtime(shared).is_some() {
        let phase = shared.config.rt_period_phase_ns;
        shared.rt.bandwidth.start(rq, shared, Timer::RtPeriod, shared.config.tunables.rt_period_ns(), phase);
    }
}

/// The class has run for `delta` on this CPU. On one that is going offline there is no limit.
pub(super) fn charge<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    let Some(runtime) = runtime(shared).filter(|_| rq.online) else { return };
    if runtime == 0 {
        // No period would ever make up for it: nobody is throttled.
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
    // Somebody has to end that.
    start(rq, shared);
    // To everybody else they are not there.
    rq.nr_running -= rq.rt.nr_running;
    rq.resched();
}

/// Charges `delta` of a deadline task to the real-time class of this CPU. A task of this class checks the limit when it
/// runs.
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

/// The class may run again.
fn unthrottle<P: Policy>(rq: &mut Rq<P>) {
    rq.rt.throttled = false;
    rq.event(Event::RtUnthrottle { group: GroupId::ROOT });
    rq.nr_running += rq.rt.nr_running;
    if rq.rt.nr_running > 0 {
        rq.resched();
    }
}

/// The CPU goes offline: its tasks are to leave, throttled or not (`__disable_runtime`).
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

/// The CPU is online again, and has what each has (`__enable_runtime`).
pub(crate) fn rq_online<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) {
    if shared.config.rt_group_sched {
        limits::rq_online(rq, shared);
    } else if let Some(runtime) = runtime(shared) {
        shared.rt.bandwidth.enable(rq.cpu, runtime);
    }
}

/// The period is over on one CPU, `overrun` of them: whether the timer is still needed for it.
fn replenish<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, mut runtime: u64, overrun: u64) -> bool {
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

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// The period of real-time bandwidth is over, perhaps more than one: every CPU gets its part of the next.
    pub(crate) fn rt_period_timer(&mut self) {
        let shared = self.shared;
        if shared.config.rt_group_sched {
            self.rt_group_period_timer(GroupId::ROOT);
            return;
        }
        let bandwidth = &shared.rt.bandwidth;
        let Some(runtime) = runtime(shared) else { return };
        let period = shared.config.tunables.rt_period_ns();
        let overrun = bandwidth.overrun(self.now, period);
        let mut needed = false;
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            if rq.rt.nr_running > 0 || rq.rt.rt_time > 0 {
                // Who runs is not charged: what he has run since the tick counts in the new period.
                rq.update_clock(self.now);
                needed |= replenish(&mut rq, shared, runtime, overrun);
                finish_verb(&mut rq, shared, self.host);
            }
        }
        let next = bandwidth.next(overrun, period, needed);
        if next.is_some() {
            self.host.arm(Timer::RtPeriod, next);
        }
    }
}
