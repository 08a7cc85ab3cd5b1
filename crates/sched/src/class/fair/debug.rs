//! The fair class for [`crate::debug`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::discipline::{Discipline, FairCpu, FairShared};
use super::entity::{CfsRq, Entity, ROOT, Se};
use super::pelt::Avg;
use crate::clock::PELT_EPOCH;
use crate::debug::{AvgDebug, CfsDebug, EntityDebug};
use crate::tunables::Tunables;

fn avg(avg: &Avg) -> AvgDebug {
    AvgDebug {
        load_sum: avg.load_sum,
        runnable_sum: avg.runnable_sum,
        util_sum: avg.util_sum,
        load_avg: avg.load_avg,
        runnable_avg: avg.runnable_avg,
        util_avg: avg.util_avg,
        last_update_time: avg.last_update.saturating_sub(PELT_EPOCH),
        util_est: u64::from(avg.util_est),
    }
}

pub(super) fn entity(se: &Entity, queue: &CfsRq) -> EntityDebug {
    let ahead = i128::from(se.vruntime.wrapping_sub(queue.zero) as i64) * i128::from(queue.sum_w);
    EntityDebug {
        exec_start: se.exec_start,
        vruntime: se.vruntime as i64,
        deadline: se.deadline as i64,
        slice: se.slice,
        custom_slice: se.custom_slice,
        sum_exec_runtime: se.sum_exec_runtime,
        weight: se.weight,
        eligible: i128::from(queue.sum_wv) >= ahead,
        delayed: se.delayed,
        avg: avg(&se.avg),
    }
}

/// Returns the queues that tasks have been on here.
pub(super) fn queues<D: Discipline, T: Tunables>(rq: &FairCpu<D, T>, shared: &FairShared<D, T>) -> Vec<CfsDebug> {
    // One pass for all queues.
    let mut queued: BTreeMap<u32, Vec<Se>> = BTreeMap::new();
    let tasks = rq.tasks.iter().map(|(index, _)| Se::task(index));
    let groups = rq.class.groups.iter().skip(1).map(|(index, _)| Se::group(index));
    for se in tasks.chain(groups).filter(|&se| rq.se(se).on_rq) {
        queued.entry(rq.se(se).parent).or_default().push(se);
    }
    let queue = |(slot, group): (u32, &super::entity::GroupRq)| {
        let cfs = &group.cfs;
        let queued = queued.get(&slot).map_or(&[][..], Vec::as_slice);
        // The running entity is not in the tree.
        let tree = queued.iter().filter(|&&se| cfs.curr != Some(se));
        let tree: Vec<&Entity> = tree.map(|&se| rq.se(se)).collect();
        // Vruntimes wrap: their distances from the origin order them.
        let from_zero = |value: u64| value.wrapping_sub(cfs.zero) as i64;
        let first = tree.iter().min_by_key(|se| from_zero(D::key(se)));
        let last = tree.iter().max_by_key(|se| from_zero(D::key(se)));
        let least = tree.iter().map(|se| se.vruntime).min_by_key(|&vruntime| from_zero(vruntime));
        let average = match cfs.sum_w {
            0 => cfs.zero,
            load => cfs.zero.wrapping_add(cfs.sum_wv.div_euclid(load as i64) as u64),
        };
        // The running entity counts, too. An empty queue keeps its origin.
        let running = cfs.curr.map(|curr| rq.se(curr)).filter(|se| se.on_rq);
        let queued = || tree.iter().copied().chain(running);
        let min = match queued().map(|se| se.vruntime).min_by_key(|&vruntime| from_zero(vruntime)) {
            Some(min) if D::AVERAGES => min,
            _ => cfs.zero,
        };
        let (throttled, throttle_count) = cfs.throttles();
        CfsDebug {
            group: group.id,
            left: first.zip(least).map(|(first, least)| (first.deadline as i64, least as i64)),
            right_vruntime: last.map(|last| last.vruntime as i64),
            min_vruntime: min as i64,
            avg_vruntime: average as i64,
            nr_queued: cfs.nr_queued,
            h_nr_runnable: cfs.h_nr_runnable,
            h_nr_queued: cfs.h_nr_queued,
            h_nr_idle: cfs.h_nr_idle,
            nr_idle: queued().filter(|se| se.idle).count() as u32,
            load: cfs.weight,
            avg: AvgDebug { util_est: if slot == ROOT { rq.class.util_est } else { 0 }, ..avg(&cfs.avg) },
            removed: [cfs.removed.load_avg, cfs.removed.util_avg, cfs.removed.runnable_avg],
            tg_load_avg_contrib: cfs.tg_load_avg_contrib,
            tg_load_avg: if slot == ROOT { 0 } else { shared.group(group.id).load_avg() },
            throttled,
            throttle_count,
            se: (slot != ROOT).then(|| entity(rq.se(Se::group(slot)), &rq.class.groups[group.parent].cfs)),
        }
    };
    rq.class.groups.iter().map(queue).collect()
}
