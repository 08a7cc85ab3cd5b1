//! Checks the policy's picks among ordinary tasks, those of the fair class.

use crate::attrs::ClassKind;
use crate::policy::{Fault, Policy};
use crate::rq::Rq;
use crate::shared::Shared;

/// Returns the policy's pick. An invalid pick is reported to the host as a [`Fault`].
#[inline]
pub(crate) fn pick_ordinary<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) -> Option<u32> {
    let picked = P::pick(rq, shared);
    let valid = match picked {
        Some(index) => rq.tasks.get(index).is_some_and(|task| task.on_rq && task.kind == ClassKind::Fair),
        None => rq.nr_ordinary() == 0,
    };
    if valid { picked } else { picked_wrongly(rq, picked) }
}

/// Handles an invalid pick of a policy: no task runs.
#[cold]
fn picked_wrongly<P: Policy>(rq: &mut Rq<P>, picked: Option<u32>) -> Option<u32> {
    let fault = match picked.map(|index| (index, rq.tasks.get(index))) {
        Some((_, Some(task))) => Fault::PickedUnqueued { task: task.id },
        Some((index, None)) => Fault::PickedNoTask { index },
        None => {
            let oldest = rq.oldest()?;
            Fault::PickedNobody { queued: rq.nr_ordinary(), task: rq.tasks[oldest].id }
        }
    };
    rq.fault(fault);
    None
}
