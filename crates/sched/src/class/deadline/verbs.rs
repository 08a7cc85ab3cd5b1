//! Calls from the core: the rules of `queue` for a run queue's tasks.

use alloc::string::String;
use alloc::vec::Vec;

use super::entity::{DlEntity, Donor};
use super::params::{DlAttrs, ServerLimits};
use super::place::{entity, later_cpu};
pub(crate) use super::place::{select_cpu, woken};
use super::queue::{Charged, DlDequeue, DlEnqueue, DlRq, DlTimer, Env, SERVER};
use crate::attrs::ClassKind;
use crate::balance::roots::Root;
use crate::class::fair::pelt::update_avg;
use crate::class::ordinary::pick_ordinary;
use crate::class::pushable::Callback;
use crate::class::rt::verbs::charge_deadline;
use crate::event::{DeadlineEvent, Event, Running};
use crate::host::{Host, Timer};
use crate::ids::CpuId;
use crate::policy::{Dequeue, Enqueue, Policy};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::{Affinity, SchedPolicy, Task, TaskState};

fn env<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> Env {
    let domain = shared.dl.domain(shared.root(rq.cpu));
    let server = shared.dl.server_rules;
    Env { server, ..Env::new(rq.clock.now(), rq.clock.speed(), domain, shared.dl.grub) }
}

#[expect(clippy::expect_used, reason = "a task of the class has its entity")]
fn with<P: Policy, T>(rq: &mut Rq<P>, index: u32, call: impl FnOnce(&mut DlRq, &mut DlEntity) -> T) -> T {
    let se = rq.tasks[index].dl.as_mut().expect("a task of the deadline class has an entity");
    call(&mut rq.dl, se)
}

/// Queues and counts a task, unless it must wait for its next period.
#[inline(never)]
pub(crate) fn enqueue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Enqueue) {
    let env = env(rq, shared);
    let boosted = entity(rq, index).donor.is_some();
    let why = match why {
        Enqueue::New | Enqueue::Wakeup | Enqueue::WakeupMigrated | Enqueue::Delayed => DlEnqueue::Wakeup,
        Enqueue::Move => DlEnqueue::Move,
        Enqueue::Restore if boosted => DlEnqueue::RestoreReplenish,
        Enqueue::Restore => DlEnqueue::Restore,
    };
    let queued = with(rq, index, |dl, se| {
        if se.donor.is_some() && core::mem::take(&mut se.throttled) {
            // A boost overrides throttling.
            se.replenish_at = None;
        }
        if why == DlEnqueue::Wakeup {
            se.job = Some(env.now + se.attrs.deadline);
        }
        dl.enqueue(se, index, why, &env)
    });
    rq.tasks[index].on_rq = true;
    rq.tasks[index].state = TaskState::Runnable;
    if queued {
        joined(rq, shared, index);
    }
}

/// Counts a task that was just queued.
fn joined<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    rq.nr_running += 1;
    if rq.curr != Some(index) {
        set_pushable(rq, shared, index, true);
    }
}

#[inline(never)]
pub(crate) fn dequeue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Dequeue) {
    update_curr(rq, shared);
    let now = rq.clock.now();
    let ends = matches!(why, Dequeue::Sleep | Dequeue::Dead | Dequeue::Delayed);
    if ends {
        job_ends(rq, index);
    }
    let queued = entity(rq, index).queued();
    with(rq, index, |dl, se| dl.dequeue(se, index, if ends { DlDequeue::Sleep } else { DlDequeue::Save }, now));
    rq.tasks[index].on_rq = false;
    rq.nr_running -= u32::from(queued);
}

fn tell<P: Policy>(rq: &mut Rq<P>, index: u32, what: DeadlineEvent) {
    let task = rq.tasks[index].id;
    rq.dl.events.push(Event::Deadline { task, what });
}

/// Ends the task's job, and reports a missed deadline.
fn job_ends<P: Policy>(rq: &mut Rq<P>, index: u32) {
    let now = rq.clock.now();
    let deadline = with(rq, index, |_, se| se.job.take());
    if let Some(deadline) = deadline
        && now > deadline
    {
        tell(rq, index, DeadlineEvent::Miss { late: now - deadline });
    }
}

/// Notes whether other CPUs may take a queued task. A pinned task is never pushable.
pub(crate) fn set_pushable<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, pushable: bool) {
    let pushable = pushable && rq.tasks[index].nr_cpus_allowed(shared.nr_cpus()) > 1;
    with(rq, index, |dl, se| dl.set_pushable(se, index, pushable));
}

/// Picks the entity with the earliest deadline, and its class. If that is the fair server, picks a fair task.
///
/// A server that finds no fair task stops. 6.18: it stays queued on the idle CPU until a task runs there. This needs
/// that no task of a class above fair is queued or has just run (`above`). `__pick_next_task` then calls only the fair
/// class, since `nr_running` does not count servers.
#[inline(never)]
pub(crate) fn pick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, above: bool) -> Option<(u32, ClassKind)> {
    let asked = !shared.dl.server_rules.stays || above || rq.nr_running > rq.nr_ordinary();
    loop {
        match rq.dl.first()? {
            SERVER => {
                if let Some(fair) = pick_ordinary(rq, shared) {
                    return Some((fair, ClassKind::Fair));
                }
                if !asked {
                    return None;
                }
                rq.dl.server_stop(rq.clock.now());
            }
            first => return Some((first, ClassKind::Deadline)),
        }
    }
}

/// Updates the server. Returns whether the running task, of this class, has left the queue.
#[cold]
pub(crate) fn before_pick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) -> bool {
    if rq.dl.server().is_some() {
        sync_server(rq, shared);
    }
    rq.curr.is_some_and(|prev| rq.tasks[prev].dl.as_ref().is_some_and(|se| !se.queued()))
}

#[inline(never)]
pub(crate) fn set_next<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    let now = rq.clock.now();
    update_load_as(rq, false);
    set_pushable(rq, shared, index, false);
    with(rq, index, |_, se| se.exec_start = now);
    if !rq.dl.pushable.is_empty() {
        rq.dl.callback = Some(Callback::Push);
    }
}

/// Takes the CPU from a task of the class, queued or not.
#[inline(never)]
pub(crate) fn put_prev<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    update_curr(rq, shared);
    update_load_as(rq, true);
    if rq.tasks[index].on_rq {
        set_pushable(rq, shared, index, true);
    }
}

#[inline(never)]
pub(crate) fn update_curr<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let Some(current) = rq.curr.filter(|&current| rq.tasks[current].kind == ClassKind::Deadline) else { return };
    let env = env(rq, shared);
    let (charged, delta) = with(rq, current, |dl, se| {
        let delta = env.now.saturating_sub(se.exec_start);
        se.exec_start = env.now;
        // Off the queue, it was charged already.
        let charges = se.queued() && (delta > 0 || se.yielded);
        (charges.then(|| dl.charge(se, current, delta, &env)), if charges { delta } else { 0 })
    });
    if delta > 0 {
        rq.tasks[current].ran_above += delta;
        charge_deadline(rq, shared, delta);
    }
    match charged {
        None | Some(Charged::Runs) => return,
        Some(Charged::Throttled) => {
            rq.nr_running -= 1;
            tell(rq, current, DeadlineEvent::Throttle);
        }
        Some(Charged::Renewed) => {}
    }
    if with(rq, current, |_, se| core::mem::take(&mut se.overrun)) {
        tell(rq, current, DeadlineEvent::Overrun);
    }
    if rq.dl.first() != Some(current) {
        rq.resched();
    }
}

#[inline(never)]
pub(crate) fn tick<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    update_curr(rq, shared);
    update_load_as(rq, true);
}

/// Updates the average of the class's CPU time.
pub(crate) fn update_load<P: Policy>(rq: &mut Rq<P>) {
    let running = rq.curr.is_some_and(|current| rq.tasks[current].kind == ClassKind::Deadline);
    update_load_as(rq, running);
}

fn update_load_as<P: Policy>(rq: &mut Rq<P>, running: bool) {
    update_avg(&mut rq.dl.avg, rq.clock.pelt(), running);
}

/// Shorter timers cost more than they gain.
const LEAST_NS: u64 = 10_000;

/// Returns when the runtime of a running deadline task ends.
pub(crate) fn runtime_ends<P: Policy>(rq: &Rq<P>) -> Option<u64> {
    let current = rq.curr.filter(|&current| rq.tasks[current].kind == ClassKind::Deadline)?;
    let se = entity(rq, current);
    (se.queued() && se.runtime > 0).then(|| se.exec_start + se.runtime.unsigned_abs().max(LEAST_NS))
}

/// `sched_yield`: the running task continues in its next period.
#[inline(never)]
pub(crate) fn yield_task<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    job_ends(rq, index);
    with(rq, index, |_, se| se.yielded = true);
    update_curr(rq, shared);
    // If the next period has already begun, so has a job.
    with(rq, index, |_, se| {
        if se.queued() {
            se.job = Some(se.deadline);
        }
    });
}

/// Handles the wakeup of `index` while `curr`, also of this class, runs.
#[inline(never)]
pub(crate) fn wakeup_preempt<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, curr: u32, index: u32) {
    let (running, woken) = (entity(rq, curr), entity(rq, index));
    if !woken.queued() {
        return;
    }
    if woken.deadline < running.deadline {
        rq.resched();
    } else if woken.deadline == running.deadline && !rq.resched_is_due() {
        // Of two equals, the task that can move should. If only the running one can, it has to.
        let elsewhere = |task: u32| {
            rq.tasks[task].nr_cpus_allowed(shared.nr_cpus()) > 1
                && later_cpu(shared, &rq.tasks[task], entity(rq, task).deadline, rq.cpu, rq.cpu).is_some()
        };
        if elsewhere(curr) && !elsewhere(index) {
            rq.resched();
        }
    }
}

/// Removes a task that moves away. A sleeper's bandwidth stops being active here (`migrate_task_rq_dl`).
pub(crate) fn detach<P: Policy>(rq: &mut Rq<P>, index: u32) {
    if let Some(se) = rq.tasks[index].dl_kept.as_mut() {
        rq.dl.forget_timers(se, index);
    }
    let Some(se) = rq.tasks[index].dl.as_mut() else { return };
    se.non_contending = false;
    se.inactive_at = None;
    rq.dl.sub_running_bw(se);
    rq.dl.sub_rq_bw(se);
    rq.dl.forget_timers(se, index);
}

/// Adds a task from another run queue, with its reservation.
pub(crate) fn attach<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if shared.is_split() {
        account(rq, shared, index);
    }
    if let Some(se) = rq.tasks[index].dl_kept.as_mut() {
        rq.higher |= se.inactive_at.is_some();
        rq.dl.sync_timers(se, index);
    }
    let Some(se) = rq.tasks[index].dl.as_mut() else { return };
    rq.higher = true;
    if se.attrs.runtime > 0 {
        rq.dl.add_rq_bw(se);
    }
    rq.dl.sync_timers(se, index);
}

/// Returns the root domain that admits a deadline task of this affinity. It is that of `cpu` if the task may run there,
/// or that of the first CPU where it may.
pub(crate) fn root_of<P: Policy>(shared: &Shared<P>, affinity: &Affinity, cpu: CpuId) -> Root {
    if !shared.is_split() {
        return Root::default();
    }
    let here = |cpu: CpuId| affinity.as_ref().is_none_or(|mask| mask.contains(cpu)) && shared.is_online(cpu);
    let there = affinity.as_ref().and_then(|mask| mask.iter().find(|&cpu| cpu.index() < shared.nr_cpus() && here(cpu)));
    match shared.root(if here(cpu) { cpu } else { there.unwrap_or(cpu) }) {
        // Only if the task may run nowhere.
        Root::Offline => Root::default(),
        root => root,
    }
}

pub(crate) fn account<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    let task = &mut rq.tasks[index];
    let Some(se) = task.dl.as_mut().or(task.dl_kept.as_mut()) else { return };
    let root = root_of(shared, &task.affinity, rq.cpu);
    shared.dl.move_bw(core::mem::replace(&mut se.root, root), root, se.bw);
}

/// Moves all reservations here after root domains have changed (`dl_rebuild_rd_accounting`).
pub(crate) fn account_all<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let has = |task: &Task<P>| task.dl.is_some() || task.dl_kept.is_some();
    let all: Vec<u32> = rq.tasks.iter().filter(|(_, task)| has(task)).map(|(index, _)| index).collect();
    for index in all {
        account(rq, shared, index);
    }
    let root = root_of(shared, &None, rq.cpu);
    rq.dl.move_departed(root, |from, bw| shared.dl.move_bw(from, root, bw));
}

/// `switched_to_dl`. The task's kept bandwidth no longer ends at its 0-lag time.
fn join<P: Policy>(rq: &mut Rq<P>, index: u32) {
    rq.higher = true;
    if rq.tasks[index].dl.is_none() {
        let mut se = rq.tasks[index].dl_kept.take().unwrap_or_default();
        se.inactive_at = None;
        rq.dl.sync_timers(&mut se, index);
        rq.tasks[index].dl = Some(se);
    }
}

/// Sets a dequeued task's admitted parameters. Runtime and deadline stay.
pub(crate) fn set_attrs<P: Policy>(rq: &mut Rq<P>, index: u32, attrs: DlAttrs, root: Root) {
    join(rq, index);
    with(rq, index, |dl, se| {
        se.root = root;
        dl.change_bw(se, |se| se.set_attrs(attrs));
        dl.add_rq_bw(se);
    });
}

/// Removes a dequeued task from the class.
pub(crate) fn leave<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, ends: bool) {
    let task = &mut rq.tasks[index];
    let Some(mut se) = task.dl.take().or_else(|| task.dl_kept.take()) else { return };
    let now = rq.clock.now();
    let domain = shared.dl.domain(se.root);
    if ends {
        rq.dl.depart(&mut se, index, now, domain);
    } else {
        rq.dl.step_out(&mut se, index, now, domain);
        rq.tasks[index].dl_kept = Some(se);
    }
}

/// Keeps a boosted task of a new policy in the class, with its reservation, until the boost ends.
pub(crate) fn stay_for_donor<P: Policy>(rq: &mut Rq<P>, index: u32) {
    with(rq, index, |_, se| se.donor = se.offer);
}

/// Boosts a dequeued task by a waiter's parameters and absolute deadline, or ends the boost. A task's own reservation
/// counts, with throttling, unless its deadline is later.
pub(crate) fn lend<P: Policy>(rq: &mut Rq<P>, index: u32, offer: Option<(Donor, u64)>) {
    rq.higher = true;
    if offer.is_some() {
        join(rq, index);
    }
    let own = rq.tasks[index].policy == SchedPolicy::Deadline;
    let Some(se) = rq.tasks[index].dl.as_mut() else { return };
    if se.bw > 0 {
        rq.dl.add_rq_bw(se);
    }
    se.offer = offer.map(|(donor, _)| donor);
    se.donor = offer.filter(|&(_, deadline)| !own || deadline < se.deadline).map(|(donor, _)| donor);
}

#[inline(never)]
pub(crate) fn timers<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let env = env(rq, shared);
    (rq.dl.armed_for, rq.dl.timers_changed) = (None, true);
    rq.dl.free_departed(env.now, |root, bw| shared.dl.domain(root).release(bw));
    while let Some((id, timer)) = rq.dl.due_timer(env.now) {
        match (id, timer) {
            (SERVER, _) => {
                rq.dl.server_fired(timer);
                match timer {
                    DlTimer::Inactive => rq.dl.server_became_inactive(),
                    DlTimer::Replenish => {
                        if rq.dl.server_timer(&env) {
                            server_queued(rq);
                        }
                    }
                }
            }
            (index, timer) if rq.tasks[index].dl.is_none() => kept_timer(rq, shared, index, timer),
            (index, DlTimer::Inactive) => with(rq, index, |dl, se| {
                dl.fired(se, index, timer);
                dl.became_inactive(se);
            }),
            (index, DlTimer::Replenish) => replenish(rq, shared, index, &env),
        }
    }
}

/// Handles a timer of a task that has left the class. At the task's 0-lag time, its bandwidth becomes free
/// (`inactive_task_timer`). At the start of its next period, its throttling ends. Kernels do not end it then, and never
/// queue the task again if it returns to the class before its 0-lag time.
#[expect(clippy::expect_used, reason = "a timer is of an entity, in the class or out of it")]
fn kept_timer<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, timer: DlTimer) {
    let se = rq.tasks[index].dl_kept.as_mut().expect("a task with a timer has an entity");
    match timer {
        DlTimer::Replenish => (se.throttled, se.yielded) = (false, false),
        DlTimer::Inactive => {
            shared.dl.domain(se.root).release(se.bw);
            se.clear();
        }
    }
    rq.dl.fired(se, index, timer);
}

/// Begins a task's next period (`dl_task_timer`).
fn replenish<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, env: &Env) {
    let on_rq = rq.tasks[index].on_rq;
    let was_throttled = entity(rq, index).throttled;
    let queued = with(rq, index, |dl, se| {
        dl.fired(se, index, DlTimer::Replenish);
        if !se.throttled {
            return false;
        }
        if se.donor.is_some() {
            // A boost overrides throttling, and no timer follows it. The kernel leaves the task throttled: if it
            // sleeps, and the boost ends before it wakes, it is never queued again.
            se.throttled = false;
            return false;
        }
        if !on_rq {
            // It fell asleep when it was throttled: its wakeup will queue it.
            se.replenish(env.now);
            dl.sync_timers(se, index);
            return false;
        }
        let yielded = se.yielded;
        let queued = dl.replenished(se, index, env);
        if yielded {
            se.job = Some(se.deadline);
        }
        queued
    });
    if was_throttled && !entity(rq, index).throttled {
        tell(rq, index, DeadlineEvent::Replenish);
    }
    if !queued {
        return;
    }
    joined(rq, shared, index);
    match rq.curr {
        Some(current) if rq.tasks[current].kind == ClassKind::Deadline && current != index => {
            wakeup_preempt(rq, shared, current, index);
        }
        _ => rq.resched(),
    }
    if !rq.dl.pushable.is_empty() {
        rq.dl.callback = Some(Callback::Push);
    }
}

fn server_queued<P: Policy>(rq: &mut Rq<P>) {
    let earlier = rq.curr.filter(|&current| rq.tasks[current].kind == ClassKind::Deadline);
    let server = rq.dl.server().map_or(0, |server| server.entity().deadline);
    if earlier.is_none_or(|current| server < entity(rq, current).deadline) {
        rq.resched();
    }
}

/// Updates the fair server: before a pick, after every verb.
fn sync_server<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let env = env(rq, shared);
    let delta = env.now.saturating_sub(core::mem::replace(&mut rq.dl.server_since, env.now));
    let fair_runs = rq.curr_ordinary.is_some();
    if delta > 0 && fair_runs {
        let queued = rq.dl.server().is_some_and(|server| server.se.queued());
        if rq.dl.server_charge(delta, &env) != Charged::Runs && queued {
            rq.resched();
        }
    } else if delta > 0 && rq.running == Running::Idle {
        rq.dl.server_idle(delta);
    }
    let active = rq.dl.server().is_some_and(|server| server.active);
    let wanted = rq.nr_ordinary() > 0;
    if wanted && !active {
        if rq.dl.server_start(&env) {
            server_queued(rq);
        }
    } else if active && !wanted && !(rq.online && shared.dl.server_rules.lingers) {
        rq.dl.server_stop(env.now);
    }
}

pub(crate) fn start_server<P: Policy>(rq: &mut Rq<P>, limits: ServerLimits) {
    rq.higher = true;
    rq.dl.add_server(limits);
    rq.dl.server_since = rq.clock.now();
}

/// Ends a verb: updates the server, and arms the first timer.
#[cold]
pub(crate) fn finish_verb<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H) {
    if rq.dl.server().is_some() {
        sync_server(rq, shared);
    }
    if core::mem::take(&mut rq.dl.timers_changed) {
        let next = rq.dl.next_timer();
        if core::mem::replace(&mut rq.dl.armed_for, next) != next {
            rq.arm(Timer::Deadline(rq.cpu), next);
        }
    }
    tell_host(rq, host);
}

#[cold]
pub(crate) fn tell_host<P: Policy, H: Host>(rq: &mut Rq<P>, host: &mut H) {
    for event in core::mem::take(&mut rq.dl.events) {
        host.event(rq.clock.now(), rq.cpu, &event);
    }
}

pub(crate) fn check<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> Result<(), String> {
    let wrong = |what: String| Err(alloc::format!("CPU {}: deadline class: {what}", rq.cpu));
    let entities =
        rq.tasks.iter().filter_map(|(index, task)| Some((index, task.dl.as_deref().or(task.dl_kept.as_deref())?)));
    if let Err(what) = rq.dl.check(entities) {
        return wrong(what);
    }
    for (index, task) in rq.tasks.iter() {
        if task.dl.is_some() != (task.kind == ClassKind::Deadline) {
            return wrong(alloc::format!("task {} is of {:?}, its entity: {:?}", task.id, task.kind, task.dl));
        }
        if let Some(se) = &task.dl_kept
            && (task.dl.is_some() || se.queued() || se.counted || se.active || se.donor.is_some())
        {
            return wrong(alloc::format!("task {} has left the class, but: {se:?}", task.id));
        }
        let Some(se) = &task.dl else { continue };
        if se.queued() && !(task.on_rq && task.kind == ClassKind::Deadline) {
            return wrong(alloc::format!("task {} is queued, but is not on the run queue", task.id));
        }
        if task.on_rq
            && task.kind == ClassKind::Deadline
            && !se.queued()
            && !(se.throttled && se.replenish_at.is_some())
        {
            return wrong(alloc::format!("task {} is neither queued nor waits for its period: {se:?}", task.id));
        }
        let movable = se.queued() && rq.curr != Some(index) && task.nr_cpus_allowed(shared.nr_cpus()) > 1;
        if movable != se.pushable {
            return wrong(alloc::format!("task {} can be pushed: {movable}, listed: {}", task.id, se.pushable));
        }
    }
    if !shared.dl.shows(rq.cpu, &rq.dl) {
        return wrong("what is published is not what is there".into());
    }
    Ok(())
}

/// Handles a changed affinity of a queued task.
pub(crate) fn affinity_changed<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].kind != ClassKind::Deadline || !rq.tasks[index].on_rq {
        return;
    }
    let waits = rq.curr != Some(index);
    set_pushable(rq, shared, index, waits);
}
