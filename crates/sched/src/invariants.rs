//! Invariants between two calls, for tests and debug builds.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::attrs::ClassKind;
use crate::balance::roots::Root;
use crate::balance::sums::Sums;
use crate::class;
use crate::class::deadline::verbs as deadline;
pub use crate::class::fair::lags::{Standing, standings};
use crate::class::rt::verbs as rt;
use crate::event::Running;
use crate::policy::{Debugged, Dequeue, Fault, Limited, Policy};
use crate::rq::{Notice, Rq};
use crate::shared::Shared;

/// Checks that each root domain's reserved bandwidth equals the sum over its tasks, departed tasks before their 0-lag
/// times, and fair servers.
///
/// # Errors
///
/// If it does not.
pub fn check_bandwidth<P: Policy>(rqs: &[Rq<P>], shared: &Shared<P>) -> Result<(), String> {
    let mut promised: BTreeMap<Root, u64> = BTreeMap::new();
    let mut add = |root: Root, bw: u64| *promised.entry(root).or_default() += bw;
    add(Root::default(), 0);
    for rq in rqs {
        let root = if shared.is_online(rq.cpu) { shared.root(rq.cpu) } else { Root::Offline };
        add(root, if root == Root::Offline { 0 } else { shared.dl.server_bandwidth() });
        rq.dl.departed_bw().for_each(|(root, bw)| add(root, bw));
        for (_, task) in rq.tasks.iter() {
            let Some(se) = task.dl.as_ref().or(task.dl_kept.as_ref()) else { continue };
            add(se.root, se.bw);
            let root = deadline::root_of(shared, &task.affinity, rq.cpu);
            if se.bw > 0 && se.root != root {
                return Err(format!("task {} belongs to {root:?}, but has its promise from {:?}", task.id, se.root));
            }
        }
    }
    promised.remove(&Root::Offline);
    for (root, wanted) in promised {
        let total = shared.dl.domain(root).total();
        if wanted != total {
            return Err(format!(
                "{root:?} has promised {total}, but tasks, departed ones and fair servers have {wanted}"
            ));
        }
    }
    Ok(())
}

/// Checks the counts, sums and published values of a run queue, in time proportional to its tasks.
///
/// # Errors
///
/// The first violation, in words.
pub fn check<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> Result<(), String> {
    let of = |kind: ClassKind| rq.tasks.iter().filter(move |(_, task)| task.on_rq && task.kind() == kind);
    let ordinary = of(ClassKind::Fair).count() as u32;
    let throttled_count =
        of(ClassKind::Fair).filter(|(index, _)| P::Limits::throttled(rq, shared, *index)).count() as u32;
    // The class checks that all are there.
    let urgent = if rq.rt.throttled() { 0 } else { rq.rt.nr_running() };
    let deadline =
        of(ClassKind::Deadline).filter(|(_, task)| task.dl.as_ref().is_none_or(|se| se.queued())).count() as u32;
    let queued = ordinary - throttled_count + urgent + deadline;
    if queued != rq.nr_running {
        return Err(format!("CPU {}: nr_running is {}, but {queued} tasks are queued", rq.cpu, rq.nr_running));
    }
    if !rq.higher && (rq.dl.in_use() || rq.rt.nr_running() > 0) {
        return Err(format!("CPU {}: the pick skips the classes above the ordinary one", rq.cpu));
    }
    let listed = rq.listed().count() as u32;
    if listed != ordinary || ordinary - throttled_count != rq.nr_ordinary() {
        return Err(format!(
            "CPU {}: {ordinary} ordinary tasks queued, {throttled_count} of them throttled, {listed} listed",
            rq.cpu
        ));
    }
    if rq.curr_ordinary != rq.curr.filter(|&current| rq.tasks[current].kind() == ClassKind::Fair) {
        return Err(format!("CPU {}: {:?} runs, to the ordinary class {:?}", rq.cpu, rq.curr, rq.curr_ordinary));
    }
    for (_, task) in rq.tasks.iter() {
        if task.kind() != ClassKind::of(task.policy, task.lent) {
            return Err(format!("CPU {}: task {} is in the wrong class", rq.cpu, task.id));
        }
    }
    rt::check(rq, shared)?;
    deadline::check(rq, shared)?;
    crate::class::clamps::check(rq)?;
    for (index, task) in rq.tasks.iter() {
        if shared.locate(task.id) != Some((rq.cpu, index)) {
            return Err(format!("CPU {}: task {} is here but is located elsewhere", rq.cpu, task.id));
        }
    }
    match (rq.running, rq.curr) {
        (Running::Task(id), Some(index)) if rq.tasks[index].id == id => {}
        (Running::Idle | Running::Stopper, None) => {}
        // `schedule` unlocked the run queue to balance: no task has the CPU.
        (Running::Task(_), None) if rq.newidle => {}
        (running, curr) => return Err(format!("CPU {}: {running:?} runs, but curr is {curr:?}", rq.cpu)),
    }
    let published = shared.cpu(rq.cpu);
    // Tasks may still be queued: `cpu_down` unlocks between marking it and moving them.
    if !rq.online && published.is_idle() {
        return Err(format!("CPU {}: it is offline, but offers itself as idle", rq.cpu));
    }
    if published.nr_running() != rq.nr_running {
        return Err(format!("CPU {}: publishes {} tasks, has {queued}", rq.cpu, published.nr_running()));
    }
    P::Debugging::check(rq)
}

/// Checks the sums of last-level caches against the CPUs' published values, while no call is under way. Small machines
/// have no sums.
///
/// # Errors
///
/// The first wrong cache.
pub fn check_sums<P: Policy>(shared: &Shared<P>) -> Result<(), String> {
    for (llc, (known, cpus)) in shared.sums.iter().enumerate() {
        let sums = cpus.map(|cpu| Sums::of(shared.cpu(cpu))).fold(Sums::default(), Sums::and);
        if known != sums {
            return Err(format!("cache {llc}: added up to {known:?}, its CPUs publish {sums:?}"));
        }
    }
    Ok(())
}

/// Dequeues ordinary tasks one by one, as if each ended when picked. Returns the first violation of the policy's
/// contract, such as a task that is never picked. For the end of a run: the run queue is unusable afterwards.
pub fn drain<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) -> Option<Fault> {
    while rq.nr_ordinary() > 0 {
        let Some(next) = class::ordinary::pick_ordinary(rq, shared) else { break };
        let prev = rq.curr_ordinary;
        if prev != Some(next) {
            class::switch_ordinary(rq, shared, prev, Some(next));
        }
        class::dequeue(rq, shared, ClassKind::Fair, next, Dequeue::Dead);
    }
    rq.outbox.iter().find_map(|notice| if let Notice::Fault(fault) = notice { Some(*fault) } else { None })
}
