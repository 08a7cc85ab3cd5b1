//! The O(1) scheduler of 2.6.15 and 2.6.22: two priority arrays, slices, and an estimate of interactivity.
//!
//! The first task of the most urgent level of the active array runs. After its slice, it moves to the expired array
//! with a new one. The arrays are exchanged when the active one is empty, so no task waits longer than all tasks'
//! slices. A task that sleeps much (`interactivity`) is more urgent than its nice value, and returns to the *active*
//! array. Exception: the expired array has waited a second per task, or has a better nice value. Interactive tasks of
//! one level take turns within their slices.
//!
//! A new task takes half of the rest of its parent's slice. If it ends within it on the parent's CPU, the parent gets
//! the rest back. The parent is the task that runs on the fork's CPU. Without one, the task starts like init: full
//! slice, sleep average 0. It is a process (no CLONE_VM), and runs before its parent on that CPU.
//!
//! 2.6.16+: SCHED_BATCH is never interactive, and wakes up into the expired array.
//!
//! Real-time tasks are in the same arrays in these kernels, and in `class/rt` here, in the same order and without
//! throttling (2.6.25+). Differences: a SCHED_RR slice is `sched_rr_timeslice_ms` at every nice value, and push and
//! pull spread real-time tasks instead of balancing.
//!
//! Not modelled: TASK_NONINTERACTIVE sleeps (waits for pipes), and the SMT nice of 2.6.15 (`dependent_sleeper`).

pub(crate) mod controller;
mod cpurc;
mod interactivity;
mod prio_array;
mod standing;
pub(crate) mod tunables;

use core::marker::PhantomData;

pub use self::cpurc::GuaranteeError;
pub(crate) use self::cpurc::set_guarantee;
pub use self::standing::{O1Standing, standings};
pub use self::tunables::CpuRcTunables;

use self::controller::CpuRc;
use self::cpurc::class_of;
use self::interactivity::{Activated, Interactivity};
use self::prio_array::{MAX_PRIO, PrioArray};
use crate::balance::early;
use crate::ids::{CpuId, TaskId};
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Debugged, Dequeue, Enqueue, Plain, Policy, Wake};
use crate::rq::Rq;
use crate::shared::{FairStats, Shared};
use crate::task::{NIL, SchedPolicy, TaskAttrs};
use crate::tunables::{Knobs, Tunables};
use crate::weight::NICE_0_WEIGHT;

/// The O(1) scheduler. `Config::behaviours` has the version.
#[derive(Debug)]
pub struct O1<T = Knobs>(PhantomData<T>);

/// State of a CPU.
#[derive(Debug)]
pub struct O1Rq {
    rules: Interactivity,
    cpu_rc: Option<CpuRc>,
    /// Tick of the last check of waiting tasks ([`CpuRc::looks_at_waiting`]).
    looked: u64,
    arrays: [PrioArray; 2],
    active: usize,
    /// Tick of the first expiry since the last exchange.
    expired_timestamp: Option<u64>,
    best_expired_prio: u8,
    /// Sum of the weights of the queued tasks.
    load: u64,
}

/// State of a task. Times are nanoseconds.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct O1Task {
    /// Neighbours in its queue.
    before: u32,
    after: u32,
    array: usize,
    /// Whether it was dequeued from the expired array.
    expired: bool,
    /// Whether it was dequeued for a change of its attributes.
    saved: bool,
    /// Level, 100..=139.
    prio: u8,
    /// Weight to the balancer.
    weight: u64,
    sleep_avg: u64,
    /// Since when it runs, waits or sleeps.
    timestamp: u64,
    activated: Activated,
    /// Ticks left of its slice.
    time_slice: u32,
    /// Whole slice, and the tick of its start. For the CPU resource controller.
    last_slice: u32,
    ts_alloced: u64,
    /// Tick of its activation or end of slice, until it runs.
    last_activated: Option<u64>,
    /// Whether it is in its first slice, a part of its parent's.
    first_time_slice: bool,
    parent: Option<TaskId>,
    /// Whether its fork is done.
    born: bool,
    /// Whether it slept uninterruptibly.
    uninterruptible: bool,
    /// Whether an interrupt wakes it.
    by_interrupt: bool,
    /// CPU of a waker that is about to sleep.
    sync_from: Option<CpuId>,
}

fn rules<T: Tunables>(shared: &Shared<O1<T>>) -> Interactivity {
    Interactivity::new(shared.config.tunables.tick_ns(), shared.config.has(Behaviour::BoundsSleep))
}

fn static_prio(nice: i8) -> u8 {
    (120 + i16::from(nice)).clamp(100, 139) as u8
}

impl<T: Tunables> Rq<O1<T>> {
    fn static_prio(&self, task: u32) -> u8 {
        static_prio(self.tasks[task].nice)
    }

    fn enqueue_task(&mut self, task: u32, expired: bool) {
        let array = self.class.active ^ usize::from(expired);
        self.tasks[task].class.array = array;
        self.class.arrays[array].enqueue(&mut self.tasks, task);
    }

    fn dequeue_task(&mut self, task: u32) {
        let array = self.tasks[task].class.array;
        self.class.arrays[array].dequeue(&mut self.tasks, task);
    }

    fn requeue_task(&mut self, task: u32) {
        let expired = self.is_expired(task);
        self.dequeue_task(task);
        self.enqueue_task(task, expired);
    }

    fn is_expired(&self, task: u32) -> bool {
        self.tasks[task].class.array != self.class.active
    }

    fn is_batch(&self, rules: Interactivity, task: u32) -> bool {
        rules.since_2_6_17 && self.tasks[task].policy == SchedPolicy::Batch
    }

    fn effective_prio(&self, rules: Interactivity, task: u32) -> u8 {
        rules.effective_prio(self.static_prio(task), self.tasks[task].class.sleep_avg)
    }

    /// Credits a dequeued task with `ns` of sleep. Returns its new level.
    fn recalc_task_prio(&mut self, rules: Interactivity, task: u32, ns: u64) -> u8 {
        let ns = if self.is_batch(rules, task) { 0 } else { ns };
        let static_prio = self.static_prio(task);
        let this = &mut self.tasks[task].class;
        (this.sleep_avg, this.activated) = rules.slept(static_prio, this.sleep_avg, this.activated, ns);
        rules.effective_prio(static_prio, this.sleep_avg)
    }

    fn charge(&mut self, rules: Interactivity, task: u32) {
        let now = self.clock.now();
        let this = &mut self.tasks[task].class;
        this.sleep_avg = rules.ran(this.sleep_avg, now.saturating_sub(this.timestamp));
        this.timestamp = now;
    }

    /// Whether the expired array has waited too long.
    fn expired_starving(&self, rules: Interactivity, curr: u32) -> bool {
        if self.static_prio(curr) > self.class.best_expired_prio {
            return true;
        }
        self.expired_too_long(rules)
    }

    /// Whether it has waited too long for a starving class.
    fn expired_too_long(&self, rules: Interactivity) -> bool {
        let limit = rules.starvation_limit() * u64::from(self.nr_running);
        let since = self.class.expired_timestamp.map(|since| (self.clock.now() / rules.tick_ns).saturating_sub(since));
        since.is_some_and(|ticks| ticks > limit)
    }

    fn expire(&mut self, rules: Interactivity, shared: &Shared<O1<T>>, task: u32) {
        self.dequeue_task(task);
        let static_prio = self.static_prio(task);
        let prio = self.effective_prio(rules, task);
        let tick = self.clock.now() / rules.tick_ns;
        let mut slice = rules.timeslice(static_prio);
        let mut starves = false;
        if let Some(rc) = self.class.cpu_rc {
            let class = class_of(shared, self.tasks[task].group);
            let this = &mut self.tasks[task].class;
            if !rc.by_tick() {
                rc.account(class, self.cpu, this.last_slice, this.ts_alloced, tick);
            }
            slice = rc.scale(class, slice);
            starves = rc.starves(shared, class, tick);
            (this.last_slice, this.ts_alloced, this.last_activated) = (slice, tick, Some(tick));
        }
        let this = &mut self.tasks[task].class;
        this.prio = prio;
        this.time_slice = slice;
        this.first_time_slice = false;
        self.class.expired_timestamp.get_or_insert(tick);
        let stays = if starves {
            !self.expired_too_long(rules)
        } else {
            rules.is_interactive(static_prio, prio) && !self.expired_starving(rules, task)
        };
        let expires = !stays;
        if expires {
            self.class.best_expired_prio = self.class.best_expired_prio.min(static_prio);
        }
        self.enqueue_task(task, expires);
        self.resched();
    }

    fn cpu_rc_tick(&mut self, rc: CpuRc, rules: Interactivity, shared: &Shared<O1<T>>, task: u32) {
        let now = self.clock.now() / rules.tick_ns;
        if rc.by_tick() {
            let class = class_of(shared, self.tasks[task].group);
            class.used(self.cpu);
            // A slice that was scaled down meanwhile is cut at once.
            let most = rc.scale(class, rules.timeslice(self.static_prio(task)));
            let this = &mut self.tasks[task].class;
            this.time_slice = this.time_slice.min(most);
        }
        if rc.looks_at_waiting(shared, self.class.looked, now) {
            self.class.looked = now;
            let cpus = shared.nr_online() as u64;
            for index in self.listed() {
                let this = &self.tasks[index];
                if let Some(since) = this.class.last_activated {
                    let class = class_of(shared, this.group);
                    rc.detect_hungry(class, self.cpu, cpus, this.class.last_slice, now.saturating_sub(since));
                }
            }
        }
        rc.recalc(shared, now);
    }

    /// Gives the child half of the rest of the parent's slice, and the parent's average.
    fn fork(&mut self, shared: &Shared<O1<T>>, parent: u32, child: u32) {
        let rules = self.class.rules;
        self.charge(rules, parent);
        let id = self.tasks[parent].id;
        let old = &mut self.tasks[parent].class;
        let (slice, sleep_avg) = (old.time_slice, old.sleep_avg);
        let (last_slice, ts_alloced) = (old.last_slice, old.ts_alloced);
        old.time_slice = slice / 2;
        old.sleep_avg = rules.forked_parent(sleep_avg);
        let ends = old.time_slice == 0;
        let new = &mut self.tasks[child].class;
        new.time_slice = slice.div_ceil(2);
        new.sleep_avg = rules.forked_child(sleep_avg);
        new.parent = Some(id);
        // Copied like the rest of the parent's state.
        (new.last_slice, new.ts_alloced) = (last_slice, ts_alloced);
        if ends && self.tasks[parent].on_rq {
            self.expire(rules, shared, parent);
        }
    }

    fn waiting_parent(&self, child: u32) -> Option<u32> {
        let parent = self.tasks[child].class.parent;
        self.curr_ordinary.filter(|&curr| parent == Some(self.tasks[curr].id) && self.tasks[curr].on_rq)
    }

    fn enqueue_child(&mut self, parent: u32, child: u32) {
        let O1Task { prio, array, .. } = self.tasks[parent].class;
        let now = self.clock.now();
        let new = &mut self.tasks[child].class;
        (new.prio, new.array, new.timestamp) = (prio, array, now);
        self.class.load += new.weight;
        self.class.arrays[array].enqueue_before(&mut self.tasks, child, parent);
        self.resched();
    }

    /// Gives an ended child's first slice back to its parent, and weighs in its average.
    fn reap(&mut self, shared: &Shared<O1<T>>, child: u32) {
        let Some(parent) = self.tasks[child].class.parent.and_then(|parent| self.find(shared, parent)) else { return };
        let mut full = self.class.rules.timeslice(self.static_prio(child));
        if let Some(rc) = self.class.cpu_rc {
            full = rc.scale(class_of(shared, self.tasks[child].group), full);
        }
        let O1Task { first_time_slice, time_slice, sleep_avg, .. } = self.tasks[child].class;
        let old = &mut self.tasks[parent].class;
        if first_time_slice {
            old.time_slice = (old.time_slice + time_slice).min(full);
        }
        old.sleep_avg = Interactivity::reaped(old.sleep_avg, sleep_avg);
    }
}

impl<T: Tunables> Policy for O1<T> {
    type Tunables = T;
    type Rq = O1Rq;
    type Task = O1Task;
    type Balance = Self;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Self;

    fn new_rq(shared: &Shared<Self>, _cpu: CpuId) -> O1Rq {
        let arrays = [PrioArray::default(), PrioArray::default()];
        let cpu_rc = CpuRc::new(shared.config.features, &shared.config.tunables);
        O1Rq {
            rules: rules(shared),
            cpu_rc,
            looked: 0,
            arrays,
            active: 0,
            expired_timestamp: None,
            best_expired_prio: MAX_PRIO,
            load: 0,
        }
    }

    fn new_task(shared: &Shared<Self>, attrs: &TaskAttrs) -> O1Task {
        let (rules, static_prio) = (rules(shared), static_prio(attrs.nice));
        O1Task {
            before: NIL,
            after: NIL,
            array: 0,
            expired: false,
            saved: false,
            prio: static_prio,
            weight: weight(rules, static_prio),
            sleep_avg: 0,
            timestamp: 0,
            activated: Activated::Not,
            time_slice: rules.timeslice(static_prio),
            last_slice: rules.timeslice(static_prio),
            ts_alloced: 0,
            last_activated: None,
            first_time_slice: true,
            parent: None,
            born: false,
            uninterruptible: false,
            by_interrupt: false,
            sync_from: None,
        }
    }

    fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, why: Enqueue) {
        if why == Enqueue::New
            && let Some(parent) = rq.waiting_parent(task)
        {
            rq.enqueue_child(parent, task);
            return;
        }
        let rules = rq.class.rules;
        let now = rq.clock.now();
        if rq.class.cpu_rc.is_some() && why != Enqueue::Move && why != Enqueue::Restore {
            rq.tasks[task].class.last_activated = Some(now / rules.tick_ns);
        }
        let expired = match why {
            Enqueue::New => {
                let prio = rq.effective_prio(rules, task);
                let batch = rq.is_batch(rules, task);
                let this = &mut rq.tasks[task].class;
                (this.prio, this.timestamp) = (prio, now);
                batch
            }
            Enqueue::Wakeup | Enqueue::WakeupMigrated | Enqueue::Delayed => {
                let this = &mut rq.tasks[task].class;
                this.activated =
                    if core::mem::take(&mut this.uninterruptible) { Activated::NonInteractive } else { Activated::Not };
                let slept = now.saturating_sub(this.timestamp);
                let prio = rq.recalc_task_prio(rules, task, slept);
                let batch = rq.is_batch(rules, task);
                let this = &mut rq.tasks[task].class;
                if this.activated == Activated::Not {
                    this.activated = if this.by_interrupt { Activated::ByInterrupt } else { Activated::ByTask };
                }
                (this.prio, this.timestamp) = (prio, now);
                batch
            }
            // A pulled task stays in the same kind of array.
            Enqueue::Move => rq.tasks[task].class.expired,
            Enqueue::Restore => {
                let prio = rq.effective_prio(rules, task);
                let this = &mut rq.tasks[task].class;
                this.prio = prio;
                this.expired
            }
        };
        rq.class.load += rq.tasks[task].class.weight;
        rq.enqueue_task(task, expired);
    }

    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool {
        let expired = rq.is_expired(task);
        rq.dequeue_task(task);
        let blocked = rq.tasks[task].blocked;
        let this = &mut rq.tasks[task].class;
        this.expired = expired;
        this.saved = why == Dequeue::Save;
        this.uninterruptible = why == Dequeue::Sleep && blocked;
        rq.class.load -= this.weight;
        if why == Dequeue::Dead {
            rq.reap(shared, task);
        }
        true
    }

    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32> {
        let rules = rq.class.rules;
        if let Some(prev) = rq.curr_ordinary {
            rq.charge(rules, prev);
        }
        if rq.class.arrays[rq.class.active].nr_active == 0 {
            rq.class.expired_timestamp = None;
            if rq.class.arrays[rq.class.active ^ 1].nr_active == 0 {
                return None;
            }
            rq.class.active ^= 1;
            rq.class.best_expired_prio = MAX_PRIO;
        }
        let next = rq.class.arrays[rq.class.active].first()?;
        let now = rq.clock.now();
        let this = &mut rq.tasks[next].class;
        let waited = Interactivity::waited(this.activated, now.saturating_sub(this.timestamp));
        if let Some(waited) = waited {
            let old = this.prio;
            let prio = rq.recalc_task_prio(rules, next, waited);
            if prio != old {
                rq.dequeue_task(next);
                rq.tasks[next].class.prio = prio;
                rq.enqueue_task(next, false);
            } else if !rules.since_2_6_17 {
                rq.requeue_task(next);
            }
        }
        let this = &mut rq.tasks[next].class;
        this.activated = Activated::Not;
        // Most tasks run in the tick of their activation and need no look-up.
        if rq.class.cpu_rc.is_some()
            && let Some(since) = this.last_activated.take()
            && now / rules.tick_ns > since
            && let Some(rc) = rq.class.cpu_rc
        {
            let (slice, waited) = (this.last_slice, now / rules.tick_ns - since);
            let class = class_of(shared, rq.tasks[next].group);
            rc.detect_hungry(class, rq.cpu, shared.nr_online() as u64, slice, waited);
        }
        Some(next)
    }

    fn switch(rq: &mut Rq<Self>, _shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        if let Some(prev) = prev {
            rq.charge(rq.class.rules, prev);
        }
        if let Some(next) = next {
            rq.tasks[next].class.timestamp = rq.clock.now();
        }
    }

    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        if !rq.tasks[task].on_rq {
            return;
        }
        // It yielded, but runs on.
        if rq.is_expired(task) {
            rq.resched();
            return;
        }
        let rules = rq.class.rules;
        if let Some(rc) = rq.class.cpu_rc {
            rq.cpu_rc_tick(rc, rules, shared, task);
        }
        let static_prio = rq.static_prio(task);
        let this = &mut rq.tasks[task].class;
        this.time_slice = this.time_slice.saturating_sub(1);
        if this.time_slice == 0 {
            rq.expire(rules, shared, task);
            return;
        }
        let left = u64::from(this.time_slice);
        let granularity = rules.granularity(this.sleep_avg, shared.nr_online() as u64);
        let whole = if rq.class.cpu_rc.is_some() { this.last_slice } else { rules.timeslice(static_prio) };
        let used = u64::from(whole).saturating_sub(left);
        if rules.is_interactive(static_prio, this.prio) && used.is_multiple_of(granularity) && left >= granularity {
            rq.requeue_task(task);
            rq.resched();
        }
    }

    fn wakeup_preempt(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _wake: Wake) {
        let cpu = rq.cpu;
        let this = &mut rq.tasks[task].class;
        // A waker that is about to sleep is not preempted on its own CPU.
        let waits = this.sync_from.take() == Some(cpu);
        let prio = this.prio;
        if !waits && rq.curr_ordinary.is_some_and(|curr| prio < rq.tasks[curr].class.prio) {
            rq.resched();
        }
    }

    fn yield_task(rq: &mut Rq<Self>, _shared: &Shared<Self>) {
        let Some(curr) = rq.curr_ordinary.filter(|&curr| rq.tasks[curr].on_rq) else { return };
        if rq.class.cpu_rc.is_some() {
            rq.tasks[curr].class.last_activated = Some(rq.clock.now() / rq.class.rules.tick_ns);
        }
        rq.dequeue_task(curr);
        rq.enqueue_task(curr, true);
    }

    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        let this = &mut rq.tasks[task].class;
        this.by_interrupt = wake.irq;
        this.sync_from = wake.sync.then_some(on);
        early::select_cpu(rq, shared, task, on, wake)
    }

    fn select_cpu_exec(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> CpuId {
        early::select_cpu_exec(rq, shared, task)
    }

    fn attach(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        let tick = rq.clock.now() / rq.class.rules.tick_ns;
        let this = &mut rq.tasks[task].class;
        // A task that returns from the real-time class joins the active array.
        this.expired &= !this.saved;
        if !core::mem::replace(&mut this.born, true) {
            this.ts_alloced = tick;
            if let Some(parent) = rq.curr_ordinary {
                rq.fork(shared, parent, task);
            }
        }
    }

    fn attrs_changed(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        let weight = weight(rq.class.rules, rq.static_prio(task));
        rq.tasks[task].class.weight = weight;
    }
}

impl<T: Tunables> Balanced<Self> for O1<T> {
    fn task_load(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) -> u64 {
        rq.tasks[task].class.weight
    }

    fn dynamic_prio(rq: &Rq<Self>, task: u32) -> i16 {
        i16::from(rq.tasks[task].class.prio)
    }

    fn pull_order(rq: &Rq<Self>) -> alloc::vec::Vec<u32> {
        let [active, expired] = [0, 1].map(|which| &rq.class.arrays[rq.class.active ^ which]);
        // First those that would not run soon.
        expired.in_pull_order(&rq.tasks).chain(active.in_pull_order(&rq.tasks)).collect()
    }

    fn publish(rq: &Rq<Self>, shared: &Shared<Self>) {
        let nr = rq.nr_ordinary();
        let above = u64::from(rq.nr_running - nr);
        // A real-time task weighs as much as the heaviest other one.
        let each = if rq.class.rules.since_2_6_17 { 8 * NICE_0_WEIGHT } else { NICE_0_WEIGHT };
        shared.cpu(rq.cpu).publish_fair(FairStats {
            load: rq.class.load + above * each,
            runnable: u64::from(nr) * NICE_0_WEIGHT,
            util: u64::from(nr.min(1)) * NICE_0_WEIGHT,
            util_est: 0,
            h_nr_runnable: nr,
            h_nr_queued: nr,
            h_nr_idle: 0,
        });
    }
}

impl<T: Tunables> Debugged<Self> for O1<T> {
    fn check(rq: &Rq<Self>) -> Result<(), alloc::string::String> {
        let wrong = |what: &str| Err(alloc::format!("CPU {}: {what}", rq.cpu));
        for array in &rq.class.arrays {
            array.check(&rq.tasks).or_else(wrong)?;
        }
        let queued = rq.listed().count() as u32;
        if queued != rq.class.arrays.iter().map(|array| array.nr_active).sum::<u32>() {
            return wrong("a task is in no priority array, or in two");
        }
        let mut load = 0;
        for task in rq.listed() {
            let this = &rq.tasks[task].class;
            load += this.weight;
            if this.time_slice == 0 {
                return wrong("a queued task has no slice");
            }
        }
        if load == rq.class.load { Ok(()) } else { wrong("the load is not the sum of the weights") }
    }
}

/// Returns the weight to the balancer: 2.6.15 counts tasks, later kernels slices.
fn weight(rules: Interactivity, static_prio: u8) -> u64 {
    if rules.since_2_6_17 { rules.weight(static_prio) } else { NICE_0_WEIGHT }
}
