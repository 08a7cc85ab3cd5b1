//! The end of every verb.

use core::sync::atomic::Ordering::Relaxed;

use super::deadline::verbs as dl;
use crate::host::Host;
use crate::policy::Policy;
use crate::rq::{Notice, Rq};
use crate::shared::Shared;

/// Ends a verb: publishes changes, and passes reschedule requests to the host.
#[inline(always)]
#[allow(clippy::inline_always)] // at the end of every verb: a call would cost a third as much as what it does
pub(crate) fn finish_verb<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H) {
    if rq.uses_dl() {
        dl::finish_verb(rq, shared, host);
    }
    rq.publish(shared);
    if !rq.outbox.is_empty() {
        tell(rq, host);
    }
    if rq.resched_is_due() {
        // Only the holder of the run queue writes this.
        let flag = &shared.cpu(rq.cpu).need_resched;
        if !flag.load(Relaxed) {
            flag.store(true, Relaxed);
            host.resched(rq.cpu);
        }
    }
}

#[cold]
fn tell<P: Policy, H: Host>(rq: &mut Rq<P>, host: &mut H) {
    for notice in core::mem::take(&mut rq.outbox) {
        match notice {
            Notice::Arm(timer, at) => host.arm(timer, at),
            Notice::Event(event) => host.event(rq.clock.latest(), rq.cpu, &event),
            Notice::Fault(fault) => host.policy_fault(rq.cpu, fault),
        }
    }
}
