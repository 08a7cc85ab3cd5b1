//! A CPU's deadline class: waiting entities by absolute deadline, bandwidth sums, timers.
//!
//! Entities are numbers, so tests can drive the rules alone; `verbs` maps them to tasks.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::bandwidth::{Reclaim, RootDomain};
use super::entity::DlEntity;
use super::grub::Grub;
use super::server::{Server, ServerRules};
use crate::balance::roots::Root;
use crate::class::fair::pelt::Avg;
use crate::class::pushable::{Callback, Pushable};
use crate::event::Event;

/// Number of a CPU's fair server.
pub const SERVER: u32 = u32::MAX;

/// A timer of an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DlTimer {
    /// A new period begins, or a deferred server can wait no longer (`dl_timer`).
    Replenish,
    /// The 0-lag time of a sleeper (`inactive_timer`).
    Inactive,
}

/// Why an entity is enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DlEnqueue {
    /// `ENQUEUE_WAKEUP`.
    Wakeup,
    /// It gets a new runtime (`ENQUEUE_REPLENISH`).
    Replenish,
    /// It moves here, runnable (`ENQUEUE_MIGRATING`).
    Move,
    /// Its attributes have changed (`ENQUEUE_RESTORE`).
    Restore,
    /// `Restore` with a new runtime: its boost began or ended.
    RestoreReplenish,
}

/// Why an entity is dequeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DlDequeue {
    /// It sleeps or ends.
    Sleep,
    /// It moves to another CPU, or its attributes change.
    Save,
    /// It is throttled.
    Throttle,
}

/// Result of charging an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charged {
    /// It has runtime left.
    Runs,
    /// It is throttled and off the queue.
    Throttled,
    /// Its runtime was used up, but the next period has begun.
    Renewed,
}

/// The bandwidth of a task that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Departed {
    bw: u64,
    /// Root domain that has reserved it.
    root: Root,
    /// Whether it counts on this CPU: not if the task had left the class before.
    counted: bool,
}

/// Inputs of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// The run queue's time, nanoseconds.
    pub now: u64,
    /// The CPU's capacity at its frequency, of 1024.
    pub capacity: u32,
    /// Input of reclaiming.
    pub reclaim: Reclaim,
    /// Equation of reclaiming.
    pub grub: Grub,
    /// Rules of fair servers.
    pub server: ServerRules,
}

impl Env {
    /// On a CPU of `capacity` in `domain`, at `now`.
    pub fn new(now: u64, capacity: u32, domain: &RootDomain, grub: Grub) -> Self {
        Self { now, capacity, reclaim: domain.reclaim(), grub, server: ServerRules::default() }
    }
}

/// The deadline class of one CPU (`struct dl_rq`).
#[derive(Debug, Default)]
pub struct DlRq {
    /// Deadline, order of arrival, number.
    queue: BTreeSet<(u64, u64, u32)>,
    /// Entities of `queue` that another CPU could run.
    pub(crate) pushable: Pushable,
    arrivals: u64,
    timers: BTreeSet<(u64, u32, DlTimer)>,
    /// Ended tasks by 0-lag time, when their bandwidth becomes free.
    departed: BTreeMap<(u64, u64), Departed>,
    /// Whether timers changed since the host's last call.
    pub(super) timers_changed: bool,
    /// Bandwidth of all tasks of this CPU, asleep or not.
    this_bw: u64,
    /// Active part of `this_bw`: before the 0-lag time.
    running_bw: u64,
    pub(super) server: Option<Box<Server>>,
    pub(super) armed_for: Option<u64>,
    /// Time up to which the server is charged.
    pub(super) server_since: u64,
    in_use: bool,
    pub(super) avg: Avg,
    pub(crate) callback: Option<Callback>,
    pub(crate) events: Vec<Event>,
}

impl DlRq {
    /// Number of queued tasks, with the running, without throttled ones.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        let server = self.server.as_ref().is_some_and(|server| server.se.queued());
        self.queue.len() as u32 - u32::from(server)
    }

    /// Whether a deadline task or a server has been here.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.in_use
    }

    /// Average part of the CPU's time, of 1024.
    pub fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }

    pub(crate) fn util_sum(&self) -> u64 {
        self.avg.util_sum
    }

    #[inline]
    pub(crate) fn has_load(&self) -> bool {
        self.avg.last_update != 0
    }

    /// Whether no entity is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the earliest deadline's entity; of equals, the first queued.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.queue.first().map(|&(_, _, id)| id)
    }

    /// Returns the earliest deadline (`earliest_dl.curr`).
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        self.queue.first().map(|&(deadline, _, _)| deadline)
    }

    /// Bandwidth of all tasks of this CPU, in 2^-20 CPUs.
    pub fn this_bw(&self) -> u64 {
        self.this_bw
    }

    /// Active bandwidth.
    pub fn running_bw(&self) -> u64 {
        self.running_bw
    }

    /// Time of the first timer.
    pub fn next_timer(&self) -> Option<u64> {
        let departed = self.departed.first_key_value().map(|(&(at, _), _)| at);
        let first = self.timers.first().map(|&(at, _, _)| at);
        first.into_iter().chain(departed).min()
    }

    /// `switched_from_dl`. The task's bandwidth in `domain` becomes free at its 0-lag time, or now.
    pub fn step_out(&mut self, se: &mut DlEntity, id: u32, now: u64, domain: &RootDomain) {
        self.remove(se, id);
        self.sub_running_bw(se);
        self.sub_rq_bw(se);
        (se.non_contending, se.donor, se.offer, se.job) = (false, None, None, None);
        let zero_lag = se.zero_lag();
        if se.attrs.runtime > 0 && zero_lag > i128::from(now) {
            se.inactive_at = Some(zero_lag as u64);
        } else {
            domain.release(se.bw);
            se.inactive_at = None;
            se.clear();
        }
        self.sync_timers(se, id);
    }

    /// Removes an ended task. Its bandwidth becomes free as in [`Self::step_out`]. Until then it counts on this CPU,
    /// unless the task had left the class.
    pub fn depart(&mut self, se: &mut DlEntity, id: u32, now: u64, domain: &RootDomain) {
        self.remove(se, id);
        let zero_lag = se.zero_lag();
        let waits = se.bw > 0 && zero_lag > i128::from(now);
        let counted = waits && se.active;
        if waits {
            self.arrivals += 1;
            self.departed.insert((zero_lag as u64, self.arrivals), Departed { bw: se.bw, root: se.root, counted });
        } else {
            domain.release(se.bw);
        }
        let stays = if counted { se.bw } else { 0 };
        self.sub_running_bw(se);
        self.sub_rq_bw(se);
        self.running_bw += stays;
        self.this_bw += stays;
        self.forget_timers(se, id);
        self.timers_changed = true;
    }

    /// Reserved bandwidths of ended tasks, and their root domains.
    pub(crate) fn departed_bw(&self) -> impl Iterator<Item = (Root, u64)> + '_ {
        self.departed.values().map(|gone| (gone.root, gone.bw))
    }

    /// Moves ended tasks' bandwidth to `root`. Calls `move_bw` with old domain and bandwidth.
    pub(crate) fn move_departed(&mut self, root: Root, mut move_bw: impl FnMut(Root, u64)) {
        for gone in self.departed.values_mut().filter(|gone| gone.root != root) {
            move_bw(core::mem::replace(&mut gone.root, root), gone.bw);
        }
    }

    /// Calls `release` with root domain and bandwidth of ended tasks past their 0-lag time.
    pub(crate) fn free_departed(&mut self, now: u64, mut release: impl FnMut(Root, u64)) {
        while let Some(entry) = self.departed.first_entry()
            && entry.key().0 <= now
        {
            let gone = entry.remove();
            if gone.counted {
                self.running_bw -= gone.bw;
                self.this_bw -= gone.bw;
            }
            release(gone.root, gone.bw);
            self.timers_changed = true;
        }
    }

    /// Returns the first timer, if due at `now`. The caller then calls [`Self::fired`].
    pub fn due_timer(&self, now: u64) -> Option<(u32, DlTimer)> {
        self.timers.first().filter(|(at, _, _)| *at <= now).map(|&(_, id, timer)| (id, timer))
    }

    /// Removes a timer that has fired.
    pub fn fired(&mut self, se: &mut DlEntity, id: u32, timer: DlTimer) {
        match timer {
            DlTimer::Replenish => se.replenish_at = None,
            DlTimer::Inactive => se.inactive_at = None,
        }
        self.sync_timers(se, id);
    }

    /// Arms and cancels timers as the entity's fields say.
    pub fn sync_timers(&mut self, se: &mut DlEntity, id: u32) {
        let wanted = [(se.replenish_at, DlTimer::Replenish), (se.inactive_at, DlTimer::Inactive)];
        for (armed, (at, timer)) in se.armed.iter_mut().zip(wanted) {
            if *armed == at {
                continue;
            }
            self.timers_changed = true;
            if let Some(old) = armed.take() {
                self.timers.remove(&(old, id, timer));
            }
            if let Some(at) = at {
                self.timers.insert((at, id, timer));
                *armed = Some(at);
            }
        }
    }

    /// Cancels the timers of an entity that leaves this CPU.
    pub fn forget_timers(&mut self, se: &mut DlEntity, id: u32) {
        for (armed, timer) in se.armed.iter_mut().zip([DlTimer::Replenish, DlTimer::Inactive]) {
            if let Some(at) = armed.take() {
                self.timers.remove(&(at, id, timer));
                self.timers_changed = true;
            }
        }
    }

    /// Adds its bandwidth to `this_bw`.
    pub fn add_rq_bw(&mut self, se: &mut DlEntity) {
        self.in_use = true;
        if !core::mem::replace(&mut se.counted, true) {
            self.this_bw += se.bw;
        }
    }

    /// Removes its bandwidth from `this_bw`.
    pub fn sub_rq_bw(&mut self, se: &mut DlEntity) {
        if core::mem::replace(&mut se.counted, false) {
            self.this_bw -= se.bw;
        }
    }

    fn add_running_bw(&mut self, se: &mut DlEntity) {
        if !core::mem::replace(&mut se.active, true) {
            self.running_bw += se.bw;
        }
    }

    /// Removes its bandwidth from `running_bw`.
    pub fn sub_running_bw(&mut self, se: &mut DlEntity) {
        if core::mem::replace(&mut se.active, false) {
            self.running_bw -= se.bw;
        }
    }

    /// Changes an entity's parameters (`dl_change_utilization`).
    pub fn change_bw(&mut self, se: &mut DlEntity, change: impl FnOnce(&mut DlEntity)) {
        let (counted, active) = (se.counted, se.active);
        self.sub_running_bw(se);
        self.sub_rq_bw(se);
        change(se);
        if counted {
            self.add_rq_bw(se);
        }
        if active {
            self.add_running_bw(se);
        }
    }

    fn insert(&mut self, se: &mut DlEntity, id: u32) {
        debug_assert!(se.key.is_none());
        self.arrivals += 1;
        se.key = Some((se.deadline, self.arrivals));
        self.queue.insert((se.deadline, self.arrivals, id));
    }

    fn remove(&mut self, se: &mut DlEntity, id: u32) {
        self.set_pushable(se, id, false);
        if let Some((deadline, arrival)) = se.key.take() {
            self.queue.remove(&(deadline, arrival, id));
        }
    }

    /// Notes whether another CPU could now run a queued entity.
    pub fn set_pushable(&mut self, se: &mut DlEntity, id: u32, pushable: bool) {
        let Some((deadline, arrival)) = se.key else { return };
        if core::mem::replace(&mut se.pushable, pushable) != pushable {
            self.pushable.set((deadline, arrival, id), pushable);
        }
    }

    /// Counts a woken entity as active (`task_contending`).
    fn contending(&mut self, se: &mut DlEntity) {
        self.add_rq_bw(se);
        if core::mem::replace(&mut se.non_contending, false) {
            se.inactive_at = None;
        } else {
            self.add_running_bw(se);
        }
    }

    /// Keeps a sleeper's bandwidth active until its 0-lag time (`task_non_contending`). Returns false if that has
    /// passed.
    pub fn non_contending(&mut self, se: &mut DlEntity, id: u32, now: u64) -> bool {
        if se.attrs.runtime == 0 {
            return true;
        }
        let zero_lag = se.zero_lag();
        let waits = zero_lag >= i128::from(now) && se.inactive_at.is_none();
        if waits {
            se.non_contending = true;
            se.inactive_at = Some(zero_lag as u64);
            self.sync_timers(se, id);
        } else {
            self.sub_running_bw(se);
        }
        waits
    }

    /// Enqueues an entity, or returns false if it waits for its next period.
    pub fn enqueue(&mut self, se: &mut DlEntity, id: u32, why: DlEnqueue, env: &Env) -> bool {
        let joined = self.try_enqueue(se, id, why, env);
        self.sync_timers(se, id);
        joined
    }

    fn try_enqueue(&mut self, se: &mut DlEntity, id: u32, why: DlEnqueue, env: &Env) -> bool {
        let replenishes = matches!(why, DlEnqueue::Replenish | DlEnqueue::RestoreReplenish);
        if !se.throttled && !se.attrs.is_implicit() {
            se.check_constrained(env.now);
        }
        if matches!(why, DlEnqueue::Move | DlEnqueue::Restore | DlEnqueue::RestoreReplenish) {
            self.add_rq_bw(se);
            self.add_running_bw(se);
        }
        // Its timer will queue it. It is active all the same.
        if !se.defer && se.throttled && !replenishes {
            if why == DlEnqueue::Wakeup {
                self.contending(se);
            }
            return false;
        }
        match why {
            DlEnqueue::Wakeup => {
                self.contending(se);
                se.wake(env.now, !env.server.forgets);
            }
            DlEnqueue::Replenish | DlEnqueue::RestoreReplenish => se.replenish(env.now),
            DlEnqueue::Restore => {
                if se.donor.is_none() && (se.deadline < env.now || se.deadline == 0) {
                    se.set_up(env.now);
                }
            }
            DlEnqueue::Move => {}
        }
        if se.throttled {
            if se.start_timer(env.now) {
                return false;
            }
            se.replenish_at = None;
            se.defer_armed = false;
            se.throttled = false;
        }
        self.insert(se, id);
        true
    }

    /// Dequeues an entity.
    pub fn dequeue(&mut self, se: &mut DlEntity, id: u32, why: DlDequeue, now: u64) {
        self.remove(se, id);
        match why {
            DlDequeue::Sleep => {
                self.non_contending(se, id, now);
            }
            DlDequeue::Save => {
                self.sub_running_bw(se);
                self.sub_rq_bw(se);
            }
            DlDequeue::Throttle => {}
        }
    }

    /// Returns the runtime that `delta` ns on the CPU use up.
    pub fn scaled(&self, se: &DlEntity, delta: u64, env: &Env) -> u64 {
        if se.attrs.reclaim {
            env.grub.used(delta, se.bw, self.this_bw - self.running_bw, env.reclaim)
        } else if env.capacity == 1024 {
            delta
        } else {
            ((u128::from(delta) * u128::from(env.capacity)) >> 10) as u64
        }
    }

    /// Charges the running entity, or lets it yield (`update_curr_dl_se`).
    pub fn charge(&mut self, se: &mut DlEntity, id: u32, delta: u64, env: &Env) -> Charged {
        se.runtime -= self.scaled(se, delta, env) as i64;
        self.throttle_if_exceeded(se, id, env)
    }

    pub(super) fn throttle_if_exceeded(&mut self, se: &mut DlEntity, id: u32, env: &Env) -> Charged {
        if !se.exceeded() && !se.yielded {
            return Charged::Runs;
        }
        se.throttled = true;
        se.overrun |= se.exceeded() && se.attrs.overrun_signal;
        self.dequeue(se, id, DlDequeue::Throttle, env.now);
        if se.donor.is_some() || !se.start_timer(env.now) {
            if id == SERVER && env.server.waits {
                se.new_period(env.now);
                se.start_timer(env.now);
                self.sync_timers(se, id);
                return Charged::Throttled;
            }
            let queued = self.enqueue(se, id, DlEnqueue::Replenish, env);
            return if queued { Charged::Renewed } else { Charged::Throttled };
        }
        self.sync_timers(se, id);
        Charged::Throttled
    }

    /// Enqueues an entity with a new runtime, after its timer.
    pub fn replenished(&mut self, se: &mut DlEntity, id: u32, env: &Env) -> bool {
        self.enqueue(se, id, DlEnqueue::Replenish, env)
    }

    /// Handles the inactive timer.
    pub fn became_inactive(&mut self, se: &mut DlEntity) {
        if core::mem::replace(&mut se.non_contending, false) {
            self.sub_running_bw(se);
        }
    }

    /// Checks the sums against the entities that belong here.
    ///
    /// # Errors
    ///
    /// The first violation, in words.
    pub fn check<'a>(&'a self, entities: impl Iterator<Item = (u32, &'a DlEntity)>) -> Result<(), String> {
        let (mut queued, mut pushable, mut timers) = (0, 0, 0);
        let mut this_bw = self.departed.values().filter(|gone| gone.counted).map(|gone| gone.bw).sum::<u64>();
        let mut running_bw = this_bw;
        let server = self.server().map(|server| (SERVER, server.entity()));
        for (id, se) in entities.chain(server) {
            this_bw += if se.counted { se.bw } else { 0 };
            running_bw += if se.active { se.bw } else { 0 };
            if se.active && !se.counted {
                return Err(format!("entity {id} is active but does not count"));
            }
            if se.non_contending && (!se.active || se.inactive_at.is_none()) {
                return Err(format!(
                    "entity {id} waits for its 0-lag time: active {}, timer {:?}",
                    se.active, se.inactive_at
                ));
            }
            if let Some((deadline, arrival)) = se.key {
                queued += 1;
                if se.throttled || deadline != se.deadline || !self.queue.contains(&(deadline, arrival, id)) {
                    return Err(format!("entity {id} is queued at {deadline}: {se:?}"));
                }
                if se.pushable {
                    pushable += 1;
                    if !self.pushable.entries().contains(&(deadline, arrival, id)) {
                        return Err(format!("entity {id} can be pushed but is not listed"));
                    }
                }
            }
            if se.armed != [se.replenish_at, se.inactive_at] {
                return Err(format!("entity {id}: its timers are not those that are armed: {se:?}"));
            }
            timers += usize::from(se.replenish_at.is_some()) + usize::from(se.inactive_at.is_some());
        }
        if (this_bw, running_bw) != (self.this_bw, self.running_bw) {
            return Err(format!(
                "this_bw is {} and running_bw {}, the sums are {this_bw} and {running_bw}",
                self.this_bw, self.running_bw
            ));
        }
        if (queued, pushable, timers) != (self.queue.len(), self.pushable.entries().len(), self.timers.len()) {
            return Err(format!(
                "{} queued, {} pushable, {} timers, but entities have {queued}, {pushable}, {timers}",
                self.queue.len(),
                self.pushable.entries().len(),
                self.timers.len()
            ));
        }
        Ok(())
    }
}
