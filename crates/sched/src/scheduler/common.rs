//! Parts of several verbs.

use crate::balance::active::Push;
use crate::class::deadline::verbs::runtime_ends;
use crate::class::finish::finish_verb;
use crate::class::moves::detach_task;
use crate::event::Running;
use crate::features::Feature;
use crate::host::{Host, Timer};
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;

/// Arms the timer for the end of the running task's slice (feature HRTICK).
#[inline]
pub(super) fn arm_slice_timer<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H, cause: ArmCause) {
    let features = shared.config.features;
    if features.has(Feature::Hrtick) || features.has(Feature::HrtickDl) {
        arm_hrtick(rq, shared, host, cause);
    }
}

/// Why the timer of a slice may have to be armed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArmCause {
    /// A task was switched in, or continues after its timer has fired.
    Start,
    /// The running task was picked again.
    PickedAgain,
    /// Another task was enqueued.
    Enqueued,
}

/// 6.12+: arms the timer when a task is switched in (`set_next_task_fair`), or another one is enqueued. So a task
/// picked again at the end of its slice runs until a tick or wakeup. 7.1+: an enqueue does not change an armed timer
/// (`hrtick_update`). The timer of an earlier task stays armed beside a lone task, until the CPU idles.
#[inline(never)]
fn arm_hrtick<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H, cause: ArmCause) {
    let features = shared.config.features;
    let once = shared.config.has(Behaviour::HrtickOnce);
    if cause == ArmCause::PickedAgain && shared.config.has(Behaviour::HrtickAtSwitch) {
        if !once {
            rq.hrtick = false;
            host.arm(Timer::Hrtick(rq.cpu), None);
        }
        return;
    }
    if once && cause == ArmCause::Enqueued && rq.hrtick {
        return;
    }
    let mut ends = None;
    if features.has(Feature::HrtickDl) {
        ends = runtime_ends(rq);
    }
    if ends.is_none() && features.has(Feature::Hrtick) {
        /// Shorter timers cost more than they gain.
        const LEAST_NS: u64 = 10_000;
        ends = P::slice_left(rq, shared).map(|left| rq.clock.now() + left.max(LEAST_NS));
    }
    if once && ends.is_none() && rq.running != Running::Idle {
        return;
    }
    rq.hrtick = ends.is_some();
    host.arm(Timer::Hrtick(rq.cpu), ends);
}

/// Detaches a queued task from `rq`, for another run queue.
pub(super) fn take_away<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H, index: u32) -> Task<P> {
    let moving = detach_task(rq, shared, index);
    finish_verb(rq, shared, host);
    moving
}

/// Has the stopper push away the running task, before an active balance.
pub(super) fn push_running<P: Policy>(rq: &mut Rq<P>) {
    rq.push = Some(Push::Affinity);
    rq.balance.active_balance = false;
    rq.resched();
}

/// Locks the run queue of a task, and returns it with the task's index; None if the task has ended. Repeats if the task
/// moves first. (A macro, since a function cannot return a guard from a loop.)
macro_rules! rq_of {
    ($scheduler:ident, $task:expr) => {
        loop {
            match $scheduler.shared.place($task) {
                Place::Gone => break None,
                // On its way to another run queue.
                Place::InFlight => crate::sync::spin(),
                Place::On(cpu, _) => {
                    let rq = $scheduler.rqs.rq(cpu);
                    if let Some(index) = rq.find($scheduler.shared, $task) {
                        break Some((rq, index));
                    }
                }
            }
        }
    };
}

pub(super) use rq_of;
