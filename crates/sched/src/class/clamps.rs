//! Counts the [clamps](crate::uclamp) of runnable tasks.

use alloc::boxed::Box;

use crate::attrs::ClassKind;
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;
use crate::tunables::Tunables;
use crate::uclamp::{Aggregate, BUCKET, Clamps, NOTHING, RqUclamp, SCALE, TaskUclamp};

/// Updates the effective clamps of every group (`cpu_util_update_eff`).
pub(crate) fn update_groups<P: Policy>(shared: &Shared<P>) {
    for id in shared.group_ids().skip(1) {
        // Parents have lower numbers than their children.
        let group = shared.group(id);
        group.uclamp.inherit(shared.group(group.parent).uclamp.holds());
    }
}

/// Returns the effective clamps of a task (`uclamp_eff_value`): those of its enqueue, or the present ones.
pub(crate) fn effective<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    task.uclamp.active().unwrap_or_else(|| restricted(shared, task))
}

/// Returns the requests of a task (`uclamp_req`), with defaults for what it does not request.
pub(crate) fn requested<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    let asked = |value: u16, otherwise| if value == NOTHING { otherwise } else { value };
    let default = if task.policy.is_rt() { shared.config.tunables.uclamp().min_rt_default } else { 0 };
    Clamps { min: asked(task.uclamp.min, default), max: asked(task.uclamp.max, SCALE) }
}

fn restricted<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    let tunables = shared.config.tunables.uclamp();
    let Clamps { mut min, mut max } = requested(shared, task);
    // Only the system's limits bound tasks of the root.
    if task.group != GroupId::ROOT {
        let group = shared.group(task.group).uclamp.holds();
        (min, max) = if shared.config.has(Behaviour::GroupClampsProtect) {
            (min.clamp(group.min, group.max), max.clamp(group.min, group.max))
        } else {
            // The group's bounds stand for what the task does not request, and lower what it does.
            (task.uclamp.min.min(group.min), task.uclamp.max.min(group.max))
        };
    }
    Clamps { min: min.min(tunables.system.min), max: max.min(tunables.system.max) }
}

#[inline]
pub(crate) fn inc<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32) {
    if shared.uclamp_used() && kind != ClassKind::Deadline {
        count(rq, shared, index);
    }
}

#[cold]
fn count<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].uclamp.active().is_some() {
        return;
    }
    let clamps = restricted(shared, &rq.tasks[index]);
    rq.tasks[index].uclamp.active = clamps;
    rq.clamped = true;
    rq.uclamp.get_or_insert_with(|| Box::new(RqUclamp::new())).inc(clamps);
}

/// Stops counting a task that leaves the queue, or stays there but is not runnable.
#[inline]
pub(crate) fn dec<P: Policy>(rq: &mut Rq<P>, index: u32) {
    if rq.clamped {
        discount(rq, index);
    }
}

#[cold]
fn discount<P: Policy>(rq: &mut Rq<P>, index: u32) {
    if let (Some(clamps), Some(uclamp)) = (rq.tasks[index].uclamp.active(), &mut rq.uclamp) {
        uclamp.dec(clamps);
        rq.tasks[index].uclamp.active = TaskUclamp::default().active;
    }
}

/// Counts a queued task again after a change.
pub(crate) fn refresh<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    dec(rq, index);
    inc(rq, shared, rq.tasks[index].kind(), index);
}

/// Counts the tasks here again after a change of their group's clamps.
pub(crate) fn update_active<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let active = |(index, task): (u32, &Task<P>)| task.uclamp.active().map(|_| index);
    let indices: alloc::vec::Vec<u32> = rq.tasks.iter().filter_map(active).collect();
    for index in indices {
        discount(rq, index);
        count(rq, shared, index);
    }
}

impl<P: Policy> Rq<P> {
    /// Returns the clamps of this CPU: for both bounds the maximum of its runnable tasks.
    pub fn clamps(&self) -> Clamps {
        self.uclamp.as_ref().map_or(Clamps::NONE, |uclamp| uclamp.clamps())
    }
}

/// Checks the counts. For tests: slow.
pub(crate) fn check<P: Policy>(rq: &Rq<P>) -> Result<(), alloc::string::String> {
    let Some(uclamp) = &rq.uclamp else { return Ok(()) };
    let active: alloc::vec::Vec<Clamps> = rq.tasks.iter().filter_map(|(_, task)| task.uclamp.active()).collect();
    let counted = |aggregate: &Aggregate| aggregate.buckets.iter().map(|bucket| bucket.tasks as usize).sum::<usize>();
    let stray = rq.tasks.iter().any(|(_, task)| task.uclamp.active().is_some() && !task.on_rq);
    if stray || counted(&uclamp.min) != active.len() || counted(&uclamp.max) != active.len() {
        return Err(alloc::format!("CPU {}: the clamps counted are not those of its runnable tasks", rq.cpu));
    }
    // Too high by less than a bucket, never too low.
    let highest = |of: fn(&Clamps) -> u16| active.iter().map(of).max();
    for (value, highest) in [(uclamp.min.value, highest(|c| c.min)), (uclamp.max.value, highest(|c| c.max))] {
        if let Some(highest) = highest
            && !(highest..highest + 2 * BUCKET).contains(&value)
        {
            return Err(alloc::format!("CPU {}: a clamp of {value}, the highest of its tasks is {highest}", rq.cpu));
        }
    }
    Ok(())
}
