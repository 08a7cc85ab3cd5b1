//! A CPU's state of the deadline class: waiting entities by absolute deadline, sums of bandwidth, and timers.
//!
//! Entities have numbers and no tasks here, so the rules can be tested alone. `verbs` maps them to tasks.

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
use crate::class::rt::Callback;
use crate::event::Event;

/// The number of the fair server of a CPU.
pub const SERVER: u32 = u32::MAX;

/// A timer of an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DlTimer {
    /// A new period begins, or a deferred server can wait no longer (`dl_timer`).
    Replenish,
    /// The 0-lag time of a sleeper (`inactive_timer`).
    Inactive,
}

/// Why an entity joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DlEnqueue {
    /// It wakes (`ENQUEUE_WAKEUP`).
    Wakeup,
    /// It has a new runtime coming (`ENQUEUE_REPLENISH`).
    Replenish,
    /// It moves here, runnable (`ENQUEUE_MIGRATING`).
    Move,
    /// It is back after a change of its attributes (`ENQUEUE_RESTORE`).
    Restore,
    /// The same, with a new runtime: it was boosted or came out of a boost.
    RestoreReplenish,
}

/// Why an entity leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DlDequeue {
    /// It sleeps or ends.
    Sleep,
    /// It moves to another CPU, or its attributes change.
    Save,
    /// It is throttled.
    Throttle,
}

/// What came of charging an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charged {
    /// It has some runtime left.
    Runs,
    /// It is throttled and off the queue.
    Throttled,
    /// Its runtime was used up, but its next period has begun: it is back on the queue, with a later deadline.
    Renewed,
}

/// What is left of a task that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Departed {
    bw: u64,
    /// The root domain that has promised it.
    root: Root,
    /// It still counts on this CPU; if it had left the class before, only in the root domain.
    counted: bool,
}

/// What the rules read of the world.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// The run queue's clock, nanoseconds.
    pub now: u64,
    /// The CPU's capacity at its frequency now, of 1024: on a slow CPU a runtime lasts longer.
    pub capacity: u32,
    /// For reclaiming.
    pub reclaim: Reclaim,
    /// Its equation.
    pub grub: Grub,
    /// What fair servers do.
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
    /// Those of them that another CPU could run.
    pushable: BTreeSet<(u64, u64, u32)>,
    arrivals: u64,
    timers: BTreeSet<(u64, u32, DlTimer)>,
    /// Tasks that ended before their 0-lag times, by those: until then their bandwidth is not free.
    departed: BTreeMap<(u64, u64), Departed>,
    /// Set if the timers have changed since the host was last called.
    pub(super) timers_changed: bool,
    /// Bandwidth of all tasks that belong here, asleep or not.
    this_bw: u64,
    /// Of those that are active: not yet past their 0-lag time.
    running_bw: u64,
    pub(super) server: Option<Box<Server>>,
    /// When the host's timer is armed for.
    pub(super) armed_for: Option<u64>,
    /// Up to when what the server is charged with is accounted.
    pub(super) server_since: u64,
    in_use: bool,
    /// How much of the CPU the class takes, on average.
    pub(super) avg: Avg,
    /// Work on other CPUs after this run queue is unlocked.
    pub(crate) callback: Option<Callback>,
    /// Events for the host.
    pub(crate) events: Vec<Event>,
}

impl DlRq {
    /// Tasks queued, the running one included; those that are throttled are not.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        let server = self.server.as_ref().is_some_and(|server| server.se.queued());
        self.queue.len() as u32 - u32::from(server)
    }

    /// A deadline task or a server is or has been here.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.in_use
    }

    /// Part of the CPU's time that the class takes, on average, of 1024.
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

    /// Returns the entity with the earliest deadline; among equals the one that was queued first.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.queue.first().map(|&(_, _, who)| who)
    }

    /// The earliest deadline (`earliest_dl.curr`).
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        self.queue.first().map(|&(deadline, _, _)| deadline)
    }

    /// The earliest deadline of those that could be pushed away (`earliest_dl.next`).
    #[inline]
    pub fn earliest_pushable(&self) -> Option<u64> {
        self.pushable.first().map(|&(deadline, _, _)| deadline)
    }

    /// Those that could be pushed away, by deadline.
    pub fn pushables(&self) -> impl Iterator<Item = u32> + '_ {
        self.pushable.iter().map(|&(_, _, who)| who)
    }

    /// Sum of the bandwidths of all that belong here, in 2^-20 CPUs.
    pub fn this_bw(&self) -> u64 {
        self.this_bw
    }

    /// Sum of those that are active.
    pub fn running_bw(&self) -> u64 {
        self.running_bw
    }

    /// When the first timer is due.
    pub fn next_timer(&self) -> Option<u64> {
        let departed = self.departed.first_key_value().map(|(&(at, _), _)| at);
        let first = self.timers.first().map(|&(at, _, _)| at);
        first.into_iter().chain(departed).min()
    }

    /// Removes a task that changes to another class (`switched_from_dl`). The bandwidth that `domain` has reserved for
    /// it becomes free at its 0-lag time, or now.
    pub fn step_out(&mut self, se: &mut DlEntity, who: u32, now: u64, domain: &RootDomain) {
        self.remove(se, who);
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
        self.sync_timers(se, who);
    }

    /// A task ends: its bandwidth becomes free at its 0-lag time, or now. Until then it counts on this CPU, unless it
    /// had left the class before. `domain` is the root domain that has promised it.
    pub fn depart(&mut self, se: &mut DlEntity, who: u32, now: u64, domain: &RootDomain) {
        self.remove(se, who);
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
        self.forget_timers(se, who);
        self.timers_changed = true;
    }

    /// Bandwidths of tasks that are gone but not past their 0-lag times, and the root domains that have promised them.
    pub(crate) fn departed_bw(&self) -> impl Iterator<Item = (Root, u64)> + '_ {
        self.departed.values().map(|gone| (gone.root, gone.bw))
    }

    /// Moves the bandwidth of departed tasks before their 0-lag time to another root domain. Calls `move_bw` with the
    /// old domain and the bandwidth.
    pub(crate) fn move_departed(&mut self, root: Root, mut move_bw: impl FnMut(Root, u64)) {
        for gone in self.departed.values_mut().filter(|gone| gone.root != root) {
            move_bw(core::mem::replace(&mut gone.root, root), gone.bw);
        }
    }

    /// Frees the bandwidth of tasks whose 0-lag time has passed. Calls `release` with the root domain and the
    /// bandwidth.
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

    /// The first timer if it is due at `now`. The caller marks it as gone off ([`Self::fired`]).
    pub fn due_timer(&self, now: u64) -> Option<(u32, DlTimer)> {
        self.timers.first().filter(|(at, _, _)| *at <= now).map(|&(_, who, timer)| (who, timer))
    }

    /// A timer has gone off.
    pub fn fired(&mut self, se: &mut DlEntity, who: u32, timer: DlTimer) {
        match timer {
            DlTimer::Replenish => se.replenish_at = None,
            DlTimer::Inactive => se.inactive_at = None,
        }
        self.sync_timers(se, who);
    }

    /// Brings the list of timers in line with what the entity wants.
    pub fn sync_timers(&mut self, se: &mut DlEntity, who: u32) {
        let wanted = [(se.replenish_at, DlTimer::Replenish), (se.inactive_at, DlTimer::Inactive)];
        for (armed, (at, timer)) in se.armed.iter_mut().zip(wanted) {
            if *armed == at {
                continue;
            }
            self.timers_changed = true;
            if let Some(old) = armed.take() {
                self.timers.remove(&(old, who, timer));
            }
            if let Some(at) = at {
                self.timers.insert((at, who, timer));
                *armed = Some(at);
            }
        }
    }

    /// An entity leaves this CPU: its timers go with it, to be armed where it arrives ([`Self::sync_timers`]).
    pub fn forget_timers(&mut self, se: &mut DlEntity, who: u32) {
        for (armed, timer) in se.armed.iter_mut().zip([DlTimer::Replenish, DlTimer::Inactive]) {
            if let Some(at) = armed.take() {
                self.timers.remove(&(at, who, timer));
                self.timers_changed = true;
            }
        }
    }

    /// Its bandwidth counts here from now on.
    pub fn add_rq_bw(&mut self, se: &mut DlEntity) {
        self.in_use = true;
        if !core::mem::replace(&mut se.counted, true) {
            self.this_bw += se.bw;
        }
    }

    /// It counts here no longer.
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

    /// It is not active any more.
    pub fn sub_running_bw(&mut self, se: &mut DlEntity) {
        if core::mem::replace(&mut se.active, false) {
            self.running_bw -= se.bw;
        }
    }

    /// Gives an entity that stays other parameters (`dl_change_utilization`).
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

    fn insert(&mut self, se: &mut DlEntity, who: u32) {
        debug_assert!(se.key.is_none());
        self.arrivals += 1;
        se.key = Some((se.deadline, self.arrivals));
        self.queue.insert((se.deadline, self.arrivals, who));
    }

    fn remove(&mut self, se: &mut DlEntity, who: u32) {
        self.set_pushable(se, who, false);
        if let Some((deadline, arrival)) = se.key.take() {
            self.queue.remove(&(deadline, arrival, who));
        }
    }

    /// Whether another CPU could run a queued entity now.
    pub fn set_pushable(&mut self, se: &mut DlEntity, who: u32, pushable: bool) {
        let Some((deadline, arrival)) = se.key else { return };
        if core::mem::replace(&mut se.pushable, pushable) != pushable {
            let place = (deadline, arrival, who);
            if pushable {
                self.pushable.insert(place)
            } else {
                self.pushable.remove(&place)
            };
        }
    }

    /// It asks for the CPU again before its 0-lag time, or after (`task_contending`).
    fn contending(&mut self, se: &mut DlEntity) {
        self.add_rq_bw(se);
        if core::mem::replace(&mut se.non_contending, false) {
            se.inactive_at = None;
        } else {
            self.add_running_bw(se);
        }
    }

    /// It asks for the CPU no longer (`task_non_contending`): its bandwidth stays active until its 0-lag time. False if
    /// that has passed.
    pub fn non_contending(&mut self, se: &mut DlEntity, who: u32, now: u64) -> bool {
        if se.attrs.runtime == 0 {
            return true;
        }
        let zero_lag = se.zero_lag();
        let waits = zero_lag >= i128::from(now) && se.inactive_at.is_none();
        if waits {
            se.non_contending = true;
            se.inactive_at = Some(zero_lag as u64);
            self.sync_timers(se, who);
        } else {
            self.sub_running_bw(se);
        }
        waits
    }

    /// An entity joins. False if it must wait for its next period first; its timer is armed then.
    pub fn enqueue(&mut self, se: &mut DlEntity, who: u32, why: DlEnqueue, env: &Env) -> bool {
        let joined = self.try_enqueue(se, who, why, env);
        self.sync_timers(se, who);
        joined
    }

    fn try_enqueue(&mut self, se: &mut DlEntity, who: u32, why: DlEnqueue, env: &Env) -> bool {
        let replenishes = matches!(why, DlEnqueue::Replenish | DlEnqueue::RestoreReplenish);
        if !se.throttled && !se.attrs.is_implicit() {
            se.check_constrained(env.now);
        }
        if matches!(why, DlEnqueue::Move | DlEnqueue::Restore | DlEnqueue::RestoreReplenish) {
            self.add_rq_bw(se);
            self.add_running_bw(se);
        }
        // Its timer has not gone off yet: that will queue it. It is active all the same.
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
        self.insert(se, who);
        true
    }

    /// An entity leaves.
    pub fn dequeue(&mut self, se: &mut DlEntity, who: u32, why: DlDequeue, now: u64) {
        self.remove(se, who);
        match why {
            DlDequeue::Sleep => {
                self.non_contending(se, who, now);
            }
            DlDequeue::Save => {
                self.sub_running_bw(se);
                self.sub_rq_bw(se);
            }
            DlDequeue::Throttle => {}
        }
    }

    /// How much runtime `delta` ns on the CPU use up.
    pub fn scaled(&self, se: &DlEntity, delta: u64, env: &Env) -> u64 {
        if se.attrs.reclaim {
            env.grub.used(delta, se.bw, self.this_bw - self.running_bw, env.reclaim)
        } else if env.capacity == 1024 {
            delta
        } else {
            ((u128::from(delta) * u128::from(env.capacity)) >> 10) as u64
        }
    }

    /// The running entity has had the CPU for `delta` ns; or it yields (`update_curr_dl_se`).
    pub fn charge(&mut self, se: &mut DlEntity, who: u32, delta: u64, env: &Env) -> Charged {
        se.runtime -= self.scaled(se, delta, env) as i64;
        self.throttle_if_exceeded(se, who, env)
    }

    pub(super) fn throttle_if_exceeded(&mut self, se: &mut DlEntity, who: u32, env: &Env) -> Charged {
        if !se.exceeded() && !se.yielded {
            return Charged::Runs;
        }
        se.throttled = true;
        se.overrun |= se.exceeded() && se.attrs.overrun_signal;
        self.dequeue(se, who, DlDequeue::Throttle, env.now);
        if se.donor.is_some() || !se.start_timer(env.now) {
            if who == SERVER && env.server.waits {
                se.new_period(env.now);
                se.start_timer(env.now);
                self.sync_timers(se, who);
                return Charged::Throttled;
            }
            let queued = self.enqueue(se, who, DlEnqueue::Replenish, env);
            return if queued { Charged::Renewed } else { Charged::Throttled };
        }
        self.sync_timers(se, who);
        Charged::Throttled
    }

    /// The replenishment timer has gone off for an entity that is runnable: it joins with a new runtime.
    pub fn replenished(&mut self, se: &mut DlEntity, who: u32, env: &Env) -> bool {
        self.enqueue(se, who, DlEnqueue::Replenish, env)
    }

    /// The inactive timer has gone off.
    pub fn became_inactive(&mut self, se: &mut DlEntity) {
        if core::mem::replace(&mut se.non_contending, false) {
            self.sub_running_bw(se);
        }
    }

    /// Checks the sums against the entities that belong here.
    ///
    /// # Errors
    ///
    /// The first thing that does not hold, in words.
    pub fn check<'a>(&'a self, entities: impl Iterator<Item = (u32, &'a DlEntity)>) -> Result<(), String> {
        let (mut queued, mut pushable, mut timers) = (0, 0, 0);
        let mut this_bw = self.departed.values().filter(|gone| gone.counted).map(|gone| gone.bw).sum::<u64>();
        let mut running_bw = this_bw;
        let server = self.server().map(|server| (SERVER, server.entity()));
        for (who, se) in entities.chain(server) {
            this_bw += if se.counted { se.bw } else { 0 };
            running_bw += if se.active { se.bw } else { 0 };
            if se.active && !se.counted {
                return Err(format!("entity {who} is active but does not count"));
            }
            if se.non_contending && (!se.active || se.inactive_at.is_none()) {
                return Err(format!(
                    "entity {who} waits for its 0-lag time: active {}, timer {:?}",
                    se.active, se.inactive_at
                ));
            }
            if let Some((deadline, arrival)) = se.key {
                queued += 1;
                if se.throttled || deadline != se.deadline || !self.queue.contains(&(deadline, arrival, who)) {
                    return Err(format!("entity {who} is queued at {deadline}: {se:?}"));
                }
                if se.pushable {
                    pushable += 1;
                    if !self.pushable.contains(&(deadline, arrival, who)) {
                        return Err(format!("entity {who} can be pushed but is not listed"));
                    }
                }
            }
            if se.armed != [se.replenish_at, se.inactive_at] {
                return Err(format!("entity {who}: its timers are not those that are armed: {se:?}"));
            }
            timers += usize::from(se.replenish_at.is_some()) + usize::from(se.inactive_at.is_some());
        }
        if (this_bw, running_bw) != (self.this_bw, self.running_bw) {
            return Err(format!(
                "this_bw is {} and running_bw {}, the sums are {this_bw} and {running_bw}",
                self.this_bw, self.running_bw
            ));
        }
        if (queued, pushable, timers) != (self.queue.len(), self.pushable.len(), self.timers.len()) {
            return Err(format!(
                "{} queued, {} pushable, {} timers, but entities have {queued}, {pushable}, {timers}",
                self.queue.len(),
                self.pushable.len(),
                self.timers.len()
            ));
        }
        Ok(())
    }
}
