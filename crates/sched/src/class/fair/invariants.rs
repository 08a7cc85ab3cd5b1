//! Checks counts and sums of the fair class on a CPU (ARCHITECTURE.md, "Always true", 1). Each queue's stored values
//! must equal those of its entities, with deferred changes (`quiet`) added.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::discipline::{Discipline, Fair};
use super::entity::{ROOT, Se};
use crate::rq::Rq;
use crate::task::{SchedPolicy, TaskState};
use crate::tunables::Tunables;
use crate::weight;

/// Counts and sums of a queue, recomputed from its entities or as the queue stores them.
#[derive(Default, PartialEq, Eq, Debug)]
struct Sums {
    weight: u64,
    nr_queued: u32,
    h_nr_queued: u32,
    h_nr_runnable: u32,
    h_nr_idle: u32,
    sum_wv: i64,
    sum_w: u64,
}

/// Returns the first violation, in words.
pub(crate) fn check<D: Discipline, T: Tunables>(rq: &Rq<Fair<D, T>>) -> Result<(), String> {
    if !rq.online && rq.class.groups.iter().any(|(_, slot)| slot.cfs.tg_load_avg_contrib > 0) {
        return Err(format!("CPU {}: it is offline, and counts in its groups' load", rq.cpu));
    }
    let mut sums: BTreeMap<u32, Sums> = rq.class.groups.iter().map(|(index, _)| (index, Sums::default())).collect();
    let groups = rq.class.groups.iter().filter(|(index, _)| *index != ROOT).map(|(index, _)| Se::group(index));
    let tasks = rq.tasks.iter().map(|(index, _)| Se::task(index));
    for se in groups.chain(tasks) {
        let entity = rq.se(se);
        if !entity.on_rq {
            if entity.ticket.is_some() {
                return Err(format!("CPU {}: {se:?} is not queued, but is in the timeline", rq.cpu));
            }
            continue;
        }
        let zero = rq.class.groups[entity.parent].cfs.zero;
        let is_curr = rq.class.groups[entity.parent].cfs.curr == Some(se);
        if is_curr == entity.ticket.is_some() {
            return Err(format!("CPU {}: {se:?} is both running and in the timeline, or neither", rq.cpu));
        }
        let sum = sums.entry(entity.parent).or_default();
        sum.weight += entity.weight;
        sum.nr_queued += 1;
        if D::AVERAGES {
            sum.sum_wv += entity.vruntime.wrapping_sub(zero) as i64 * weight::down(entity.weight) as i64;
            sum.sum_w += weight::down(entity.weight);
        } else if !is_curr {
            // CFS: load averages of the waiting entities.
            sum.sum_w += entity.avg.load_avg;
        }
        if let Some(index) = se.as_task() {
            let runnable = u32::from(!entity.delayed);
            if entity.delayed != (rq.tasks[index].state == TaskState::Sleeping) {
                return Err(format!(
                    "CPU {}: task {} is queued, but asleep without a delayed dequeue, or the reverse",
                    rq.cpu, rq.tasks[index].id
                ));
            }
            let mut group = entity.parent;
            let mut idle = rq.tasks[index].policy == SchedPolicy::Idle;
            loop {
                let sum = sums.entry(group).or_default();
                sum.h_nr_queued += 1;
                sum.h_nr_runnable += runnable;
                sum.h_nr_idle += u32::from(idle);
                if group == ROOT || rq.class.groups[group].cfs.is_off() {
                    break;
                }
                idle |= rq.class.entities[Se::group(group)].idle;
                group = rq.class.groups[group].parent;
            }
        }
    }
    for (index, group) in rq.class.groups.iter() {
        let cfs = &group.cfs;
        let deferred = rq.deferred_counts(index);
        let stored = Sums {
            weight: cfs.weight,
            nr_queued: cfs.nr_queued,
            h_nr_queued: cfs.h_nr_queued.wrapping_add_signed(deferred[0]),
            h_nr_runnable: cfs.h_nr_runnable.wrapping_add_signed(deferred[1]),
            h_nr_idle: cfs.h_nr_idle.wrapping_add_signed(deferred[2]),
            sum_wv: cfs.sum_wv,
            sum_w: cfs.sum_w,
        };
        if stored != sums[&index] {
            return Err(format!(
                "CPU {} group {}: stored {stored:?}, but its entities have {:?}",
                rq.cpu, group.id, sums[&index]
            ));
        }
        let present = cfs.timeline.len() as u32 + u32::from(cfs.curr.is_some_and(|curr| rq.se(curr).on_rq));
        if present != cfs.nr_queued {
            return Err(format!(
                "CPU {} group {}: {} entities are queued, but the timeline and the CPU have {present}",
                rq.cpu, group.id, cfs.nr_queued
            ));
        }
        let should_be_queued = cfs.nr_queued > 0 && !cfs.is_off();
        let se = &rq.class.entities[Se::group(index)];
        if index != ROOT && se.on_rq != should_be_queued && !se.delayed {
            return Err(format!("CPU {} group {}: queued entity of an empty group, or the reverse", rq.cpu, group.id));
        }
        if index != ROOT && se.delayed && (cfs.nr_queued > 0 || !se.on_rq) {
            return Err(format!(
                "CPU {} group {}: its delayed entity has queued children, or is not queued",
                rq.cpu, group.id
            ));
        }
        rq.check_limits(index)?;
    }
    Ok(())
}
