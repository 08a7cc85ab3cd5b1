//! The verbs of the scheduler: wake, schedule, tick, fork, exit, and changes of attributes.

use crate::balance::active::Push;
use crate::balance::{self, Balancing};
use crate::event::{Event, MigrateCause, PrevState, Running};
use crate::features::Feature;
use crate::host::{Host, Timer};
use crate::ids::{CpuId, GroupId, TaskId};
use crate::policy::{Dequeue, Enqueue, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::shared::{Place, Shared};
use crate::task::{Affinity, NIL, SchedPolicy, Task, TaskAttrs, TaskState};
use crate::weight;

/// What a CPU does after [`Scheduler::schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct NextTask {
    /// Who had the CPU.
    pub prev: Running,
    /// Who has it now; equal to `prev` when nothing changes.
    pub next: Running,
    /// `next` is a task that ran last on another CPU: its cache is cold here.
    pub migrated: bool,
}

/// The scheduler, borrowed for one call: the run queues, what they share, the host, and the time.
#[derive(Debug)]
pub struct Scheduler<'a, P: Policy, R: Rqs<P>, H: Host> {
    /// The run queues.
    pub rqs: &'a mut R,
    /// What they share.
    pub shared: &'a Shared<P>,
    /// The machine around.
    pub host: &'a mut H,
    /// Now, nanoseconds.
    pub now: u64,
}

/// With the feature HRTICK: has the end of the running task's slice timed.
fn time_slice<P: Policy, H: Host>(rq: &Rq<P>, shared: &Shared<P>, host: &mut H) {
    if shared.config.features.has(Feature::Hrtick) {
        /// Shorter timers cost more than they gain.
        const LEAST_NS: u64 = 10_000;
        let left = P::slice_left(rq, shared).map(|left| rq.clock.now() + left.max(LEAST_NS));
        host.arm(Timer::Hrtick(rq.cpu), left);
    }
}

/// Publishes what a run queue changed, and passes a reschedule it asked for on to the host.
pub(crate) fn settle<P: Policy, H: Host>(rq: &mut Rq<P>, shared: &Shared<P>, host: &mut H) {
    rq.publish(shared);
    if rq.need_resched {
        let told = &shared.cpu(rq.cpu).need_resched;
        if !told.swap(true, core::sync::atomic::Ordering::Relaxed) {
            host.resched(rq.cpu);
        }
    }
}

/// Queues a task that is on `rq` but not queued.
pub(crate) fn activate<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Enqueue) {
    P::enqueue(rq, shared, index, why);
    rq.tasks[index].on_rq = true;
    rq.tasks[index].state = TaskState::Runnable;
    rq.list(index);
    rq.nr_running += 1;
    if rq.nr_running >= 2 {
        shared.set_overloaded(true);
    }
}

/// Takes a task off the queue; false if the policy keeps it for a while.
pub(crate) fn deactivate<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, why: Dequeue) -> bool {
    let gone = P::dequeue(rq, shared, index, why);
    if gone {
        rq.finish_delayed(index);
    }
    gone
}

/// A task joined `rq`: whoever runs there may have to give way.
pub(crate) fn check_preempt<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, wake: Wake) {
    match rq.running {
        Running::Idle => rq.resched(),
        // Without `curr` the CPU is between two tasks: it is about to pick.
        Running::Task(_) if rq.curr.is_some() => P::wakeup_preempt(rq, shared, index, wake),
        Running::Task(_) | Running::Stopper => {}
    }
}

/// The running task may no longer run here: the stopper shall push it away. That comes before an active balance.
fn push_running<P: Policy>(rq: &mut Rq<P>) {
    rq.push = Some(Push::Affinity);
    rq.balance.active_balance = false;
    rq.resched();
}

/// `chosen` if the affinity allows it, else `prev`, else the first that it allows.
fn allowed_cpu<P: Policy>(shared: &Shared<P>, affinity: &Affinity, chosen: CpuId, prev: CpuId) -> CpuId {
    match affinity {
        None => chosen,
        Some(mask) if mask.contains(chosen) => chosen,
        Some(mask) if mask.contains(prev) => prev,
        Some(mask) => mask.iter().find(|cpu| cpu.index() < shared.nr_cpus()).unwrap_or(prev),
    }
}

/// Takes the run queue a task is on: that, and the task's index there; none if it has ended. Where locks guard the run
/// queues the task may move between the look and the taking: then it looks again. (A macro, as a function cannot return
/// a guard from a loop that lets go of others.)
macro_rules! rq_of {
    ($scheduler:ident, $task:expr) => {
        loop {
            match $scheduler.shared.place($task) {
                Place::Gone => break None,
                // On its way to another run queue: it will be there in a moment.
                Place::InFlight => crate::sync::spin(),
                Place::On(cpu, _) => {
                    let rq = $scheduler.rqs.rq(cpu);
                    if let Some(index) = rq.find($scheduler.shared, $task) {
                        break Some((rq, index));
                    }
                }
            }
        }
    };
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Makes a task group inside `parent` with cgroup weight `weight` (1..=10000).
    pub fn new_group(&mut self, parent: GroupId, weight: u32, idle: bool) -> GroupId {
        let shares = if idle { weight::IDLE_WEIGHT << weight::SHIFT } else { weight::of_cgroup(weight) };
        self.shared.new_group(parent, shares, idle)
    }

    /// Gives a group another cgroup weight (1..=10000).
    pub fn set_group_weight(&mut self, group: GroupId, weight: u32) {
        if group == GroupId::ROOT {
            return;
        }
        self.shared.group(group).set_shares(weight::of_cgroup(weight));
        for cpu in (0..self.shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now, self.shared);
            P::group_weight_changed(&mut rq, self.shared, group);
            settle(&mut rq, self.shared, self.host);
        }
    }

    /// Makes a task, on the run queue of the CPU that forks it. It does not run before [`Self::wake_new`].
    pub fn new_task(&mut self, attrs: &TaskAttrs, on: CpuId) -> TaskId {
        let id = self.shared.new_task_id();
        let task = Task {
            id,
            state: TaskState::New,
            policy: attrs.policy,
            nice: attrs.nice.clamp(-20, 19),
            group: attrs.group,
            affinity: attrs.affinity.clone(),
            on_rq: false,
            migrated: false,
            last_ran: 0,
            recent_used_cpu: on,
            last_wakee: None,
            wakee_flips: 0,
            wakee_flip_decay: 0,
            newer: NIL,
            older: NIL,
            class: P::new_task(self.shared, attrs),
        };
        let mut rq = self.rqs.rq(on);
        let index = rq.adopt(self.shared, task);
        P::attach(&mut rq, self.shared, index);
        id
    }

    /// Lets a new task run for the first time, from code running on `on` (`wake_up_new_task`).
    pub fn wake_new(&mut self, task: TaskId, on: CpuId) {
        let wake = Wake { fork: true, ..Wake::default() };
        self.wake_from(task, on, wake, TaskState::New);
    }

    /// Wakes a task from code running on `on`. `sync`: the waker is about to sleep. `irq`: an interrupt handler wakes. False
    /// if the task is not asleep.
    pub fn wake(&mut self, task: TaskId, on: CpuId, sync: bool, irq: bool) -> bool {
        self.wake_from(task, on, Wake { sync, irq, ..Wake::default() }, TaskState::Sleeping)
    }

    fn wake_from(&mut self, task: TaskId, on: CpuId, mut wake: Wake, from: TaskState) -> bool {
        if !wake.fork {
            let mut waker = self.rqs.rq(on);
            record_wakee(&mut waker, self.now, task);
            if let Some(curr) = waker.curr {
                wake.waker_flips = waker.tasks[curr].wakee_flips;
                if wake.sync {
                    wake.waker_load = P::task_load(&mut waker, self.shared, curr);
                }
            }
        }
        let Some((mut rq, index)) = rq_of!(self, task) else { return false };
        let prev = rq.cpu;
        if rq.tasks[index].state != from {
            return false;
        }
        if !wake.fork {
            self.host.event(self.now, on, &Event::Waking { task });
        }
        rq.update_clock(self.now, self.shared);

        if rq.tasks[index].on_rq {
            // It never left: its dequeue was delayed.
            P::enqueue(&mut rq, self.shared, index, Enqueue::Delayed);
            rq.tasks[index].state = TaskState::Runnable;
            if rq.curr != Some(index) {
                check_preempt(&mut rq, self.shared, index, wake);
            }
            self.host.event(self.now, on, &Event::Wakeup { task, target: prev });
            settle(&mut rq, self.shared, self.host);
            return true;
        }

        let chosen = P::select_cpu(&mut rq, self.shared, index, on, wake);
        let target = allowed_cpu(self.shared, &rq.tasks[index].affinity, chosen, prev);
        let mut why = if wake.fork { Enqueue::New } else { Enqueue::Wakeup };
        let (mut rq, index) = if target == prev {
            (rq, index)
        } else {
            P::detach(&mut rq, self.shared, index);
            let mut moving = rq.take(self.shared, index);
            rq.publish(self.shared);
            drop(rq);
            moving.migrated = true;
            moving.last_ran = 0;
            if !wake.fork {
                why = Enqueue::WakeupMigrated;
            }
            let cause = if wake.fork { MigrateCause::Fork } else { MigrateCause::Wakeup };
            if !wake.fork {
                self.host.event(self.now, on, &Event::Migrate { task, from: prev, to: target, cause });
            }
            let mut rq = self.rqs.rq(target);
            let index = rq.adopt(self.shared, moving);
            P::attach(&mut rq, self.shared, index);
            (rq, index)
        };
        rq.update_clock(self.now, self.shared);
        activate(&mut rq, self.shared, index, why);
        check_preempt(&mut rq, self.shared, index, wake);
        let now = self.now;
        rq.balance.idle_ended(now);
        time_slice(&rq, self.shared, self.host);
        let event = if wake.fork { Event::WakeupNew { task, target } } else { Event::Wakeup { task, target } };
        self.host.event(now, on, &event);
        settle(&mut rq, self.shared, self.host);
        true
    }

    /// `__schedule`: the running task of `cpu` gives way for the reason `prev_state`, and the next is chosen. Before the CPU
    /// goes idle it looks for work elsewhere.
    pub fn schedule(&mut self, cpu: CpuId, prev_state: PrevState) -> NextTask {
        let shared = self.shared;
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, shared);
        let (prev, prev_index) = (rq.running, rq.curr);
        if let Some(index) = prev_index {
            match prev_state {
                PrevState::Preempted | PrevState::Yielded => {}
                PrevState::Sleeping | PrevState::Blocked => {
                    rq.tasks[index].state = TaskState::Sleeping;
                    deactivate(&mut rq, shared, index, Dequeue::Sleep);
                }
                PrevState::Dead => {
                    deactivate(&mut rq, shared, index, Dequeue::Dead);
                }
            }
        }

        let wants_stopper = |rq: &Rq<P>| rq.push.is_some() && prev != Running::Stopper;
        let mut next = None;
        let mut left = false;
        let mut stopper = wants_stopper(&rq);
        if !stopper {
            next = P::pick(&mut rq, shared);
            if next.is_none() {
                // Nothing to do here: look elsewhere, and look again at what came meanwhile. The run queue is let go of for
                // that, so `prev` must be off the CPU first: somebody may wake it and take it to another.
                if let Some(index) = prev_index {
                    rq.tasks[index].last_ran = self.now;
                    P::switch(&mut rq, shared, prev_index, None);
                    rq.curr = None;
                    left = true;
                }
                rq.newidle = true;
                rq.publish(shared);
                drop(rq);
                let mut balancing = Balancing { rqs: self.rqs, shared, host: self.host, now: self.now };
                balancing.newidle(cpu);
                rq = self.rqs.rq(cpu);
                rq.newidle = false;
                stopper = wants_stopper(&rq);
                if !stopper {
                    next = P::pick(&mut rq, shared);
                }
            }
        }

        rq.need_resched = false;
        shared.cpu(cpu).need_resched.store(false, core::sync::atomic::Ordering::Relaxed);
        let running = match next {
            _ if stopper => Running::Stopper,
            Some(index) => Running::Task(rq.tasks[index].id),
            None => Running::Idle,
        };
        let mut migrated = false;
        let curr = rq.curr;
        if next != curr {
            P::switch(&mut rq, shared, curr, next);
            rq.curr = next;
            let now = self.now;
            if let Some(index) = curr {
                rq.tasks[index].last_ran = now;
            }
            if let Some(index) = next {
                migrated = core::mem::replace(&mut rq.tasks[index].migrated, false);
            }
        }
        rq.running = running;
        time_slice(&rq, shared, self.host);
        if running != prev {
            self.host.event(self.now, cpu, &Event::Switch { prev, prev_state, next: running });
        } else if left && prev.task().is_some() {
            // Woken, by another CPU, before this one had found anything else to do: it went, and it came back.
            let idle = Running::Idle;
            self.host.event(self.now, cpu, &Event::Switch { prev, prev_state, next: idle });
            let prev_state = PrevState::Preempted;
            self.host.event(self.now, cpu, &Event::Switch { prev: idle, prev_state, next: running });
        }
        if let (Some(index), PrevState::Dead) = (prev_index, prev_state) {
            P::detach(&mut rq, shared, index);
            let task = rq.take(shared, index);
            shared.forget(task.id);
        }
        settle(&mut rq, shared, self.host);
        NextTask { prev, next: running, migrated }
    }

    /// The scheduler's tick on `cpu`. True when the balancing softirq is due: call [`Self::balance`] next.
    #[must_use]
    pub fn tick(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, shared);
        if let Some(curr) = rq.curr {
            P::tick(&mut rq, shared, curr);
        }
        let due = self.now >= rq.balance.next_balance;
        settle(&mut rq, shared, self.host);
        let kick = balance::nohz_kick(&mut rq, shared, self.now);
        drop(rq);
        if let Some(target) = kick {
            self.host.kick_nohz(target);
        }
        due
    }

    /// A timer armed through [`Host::arm`] went off, on the CPU `on`: its own ([`Timer::cpu`]), or else the one it was armed on.
    pub fn timer(&mut self, timer: Timer, on: CpuId) {
        debug_assert!(timer.cpu().is_none_or(|cpu| cpu == on), "{timer:?} fires on CPU {on}");
        match timer {
            Timer::Hrtick(cpu) => self.hrtick(cpu),
            // Nobody arms these yet.
            Timer::RtPeriod | Timer::GroupPeriod(_) | Timer::GroupSlack(_) => {}
        }
    }

    /// The running task's slice is over.
    fn hrtick(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, self.shared);
        if let Some(curr) = rq.curr {
            P::tick(&mut rq, self.shared, curr);
            rq.resched();
        }
        settle(&mut rq, self.shared, self.host);
    }

    /// The balancing softirq of `cpu`.
    pub fn balance(&mut self, cpu: CpuId) {
        let idle = self.shared.cpu(cpu).is_idle();
        let mut balancing =
            Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
        balance::rebalance_domains(&mut balancing, cpu, idle);
    }

    /// `cpu`, idle and without a tick, was kicked to balance for all CPUs like it.
    pub fn nohz_balance(&mut self, cpu: CpuId) {
        let mut balancing =
            Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
        balancing.nohz_idle(cpu);
    }

    /// The host stopped the tick of an idle CPU.
    pub fn tick_stopped(&mut self, cpu: CpuId) {
        self.rqs.rq(cpu).balance.tick_stopped = true;
        self.shared.nohz.enter(cpu);
    }

    /// The stopper has the CPU: does what it was woken for. Then the host calls [`Self::schedule`] with
    /// [`PrevState::Sleeping`].
    pub fn stopper_work(&mut self, cpu: CpuId) {
        let push = self.rqs.rq(cpu).push.take();
        match push {
            Some(Push::Balance { to, position }) => {
                let mut balancing =
                    Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
                balancing.push(cpu, to, position);
            }
            Some(Push::Affinity) => self.push_forbidden(cpu),
            None => {}
        }
    }

    /// Moves every queued task that may no longer run on `cpu`.
    fn push_forbidden(&mut self, cpu: CpuId) {
        loop {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now, self.shared);
            let stray = rq.tasks.iter().find(|(index, task)| {
                task.on_rq && task.state == TaskState::Runnable && !task.allowed(cpu) && rq.curr != Some(*index)
            });
            let Some((index, _)) = stray else {
                // One that began to run a moment ago is a matter for the stopper.
                if let Some(curr) = rq.curr
                    && rq.push.is_none()
                    && allowed_cpu(self.shared, &rq.tasks[curr].affinity, cpu, cpu) != cpu
                {
                    push_running(&mut rq);
                    settle(&mut rq, self.shared, self.host);
                }
                return;
            };
            let target = allowed_cpu(self.shared, &rq.tasks[index].affinity, cpu, cpu);
            if target == cpu {
                return;
            }
            deactivate(&mut rq, self.shared, index, Dequeue::Move);
            P::detach(&mut rq, self.shared, index);
            let mut moving = rq.take(self.shared, index);
            settle(&mut rq, self.shared, self.host);
            drop(rq);
            moving.migrated = true;
            moving.last_ran = 0;
            let task = moving.id;
            let cause = MigrateCause::Affinity;
            self.host.event(self.now, cpu, &Event::Migrate { task, from: cpu, to: target, cause });
            self.arrive(moving, target);
        }
    }

    /// A runnable task that was taken from another run queue joins that of `cpu`.
    fn arrive(&mut self, moving: Task<P>, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, self.shared);
        let index = rq.adopt(self.shared, moving);
        P::attach(&mut rq, self.shared, index);
        activate(&mut rq, self.shared, index, Enqueue::Move);
        check_preempt(&mut rq, self.shared, index, Wake::default());
        settle(&mut rq, self.shared, self.host);
    }

    /// The running task yields (`sched_yield`); the host calls [`Self::schedule`] with [`PrevState::Yielded`] next.
    pub fn yield_task(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, self.shared);
        P::yield_task(&mut rq, self.shared);
        settle(&mut rq, self.shared, self.host);
    }

    /// The running task of `cpu` reads its own CPU clock, which brings its accounts up to date (and may end its slice).
    pub fn update_curr(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now, self.shared);
        P::update_curr(&mut rq, self.shared);
        settle(&mut rq, self.shared, self.host);
    }

    /// Whether a reschedule of `cpu` was asked for.
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        self.shared.cpu(cpu).need_resched.load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Who has a CPU.
    pub fn running(&mut self, cpu: CpuId) -> Running {
        self.rqs.rq(cpu).running
    }

    /// Changes a task's nice value (clamped to -20..=19).
    pub fn set_nice(&mut self, task: TaskId, nice: i8) {
        let nice = nice.clamp(-20, 19);
        let cpu = self.change(task, |rq, shared, index| {
            rq.tasks[index].nice = nice;
            P::attrs_changed(rq, shared, index, None);
        });
        if let Some(cpu) = cpu {
            self.host.event(self.now, cpu, &Event::SetNice { task, nice });
        }
    }

    /// Changes a task's policy, nice value and slice.
    pub fn set_policy(&mut self, task: TaskId, policy: SchedPolicy, nice: i8, slice: Option<u64>) {
        let nice = nice.clamp(-20, 19);
        let cpu = self.change(task, |rq, shared, index| {
            rq.tasks[index].policy = policy;
            rq.tasks[index].nice = nice;
            P::attrs_changed(rq, shared, index, slice);
        });
        if let Some(cpu) = cpu {
            self.host.event(self.now, cpu, &Event::SetNice { task, nice });
        }
    }

    /// Moves a task to another group.
    pub fn move_group(&mut self, task: TaskId, group: GroupId) {
        let cpu = self.change(task, |rq, shared, index| {
            if rq.tasks[index].group != group {
                rq.tasks[index].group = group;
                P::group_changed(rq, shared, index);
            }
        });
        if let Some(cpu) = cpu {
            self.host.event(self.now, cpu, &Event::MoveGroup { task, group });
        }
    }

    /// Changes something of a task while it is off its queue, wherever it is. The CPU it is on; none if it has ended.
    fn change(&mut self, task: TaskId, with: impl FnOnce(&mut Rq<P>, &Shared<P>, u32)) -> Option<CpuId> {
        let shared = self.shared;
        let (mut rq, index) = rq_of!(self, task)?;
        let cpu = rq.cpu;
        rq.update_clock(self.now, shared);
        let running = rq.curr == Some(index);
        let asleep = rq.tasks[index].state != TaskState::Runnable;
        let queued = rq.tasks[index].on_rq;
        if running {
            P::switch(&mut rq, shared, Some(index), None);
            rq.curr = None;
        }
        if queued {
            if asleep {
                // Its dequeue was delayed; a change of attributes ends that.
                deactivate(&mut rq, shared, index, Dequeue::Delayed);
            } else {
                P::dequeue(&mut rq, shared, index, Dequeue::Save);
                rq.tasks[index].on_rq = false;
            }
        }
        with(&mut rq, shared, index);
        if queued && !asleep {
            P::enqueue(&mut rq, shared, index, Enqueue::Restore);
            rq.tasks[index].on_rq = true;
        }
        if running {
            P::switch(&mut rq, shared, None, Some(index));
            rq.curr = Some(index);
        }
        if queued && !asleep {
            // Its weight or place changed: who should run is to be looked at again.
            if running {
                rq.resched();
            } else {
                check_preempt(&mut rq, shared, index, Wake::default());
            }
        }
        settle(&mut rq, shared, self.host);
        Some(cpu)
    }

    /// Changes the CPUs a task may run on. If it is on another now, it moves: at once when it waits, through the stopper when
    /// it runs, at its next wakeup when it sleeps.
    pub fn set_affinity(&mut self, task: TaskId, affinity: Affinity) {
        let shared = self.shared;
        let Some((mut rq, index)) = rq_of!(self, task) else { return };
        let cpu = rq.cpu;
        rq.update_clock(self.now, shared);
        rq.tasks[index].affinity = affinity;
        let target = allowed_cpu(self.shared, &rq.tasks[index].affinity, cpu, cpu);
        let runnable = rq.tasks[index].state == TaskState::Runnable && rq.tasks[index].on_rq;
        if target == cpu || !runnable {
            if target != cpu && rq.tasks[index].on_rq {
                deactivate(&mut rq, shared, index, Dequeue::Delayed);
            }
            settle(&mut rq, shared, self.host);
            return;
        }
        if rq.curr == Some(index) {
            push_running(&mut rq);
            settle(&mut rq, shared, self.host);
            return;
        }
        drop(rq);
        self.push_forbidden(cpu);
    }
}

/// Remembers whom the running task wakes: one that wakes many different tasks is a master of many, and they had better be
/// spread (`wake_wide`).
fn record_wakee<P: Policy>(rq: &mut Rq<P>, now: u64, wakee: TaskId) {
    /// The count of changes halves once a second.
    const DECAY_NS: u64 = 1_000_000_000;
    let Some(curr) = rq.curr else { return };
    let task = &mut rq.tasks[curr];
    if now > task.wakee_flip_decay + DECAY_NS {
        task.wakee_flips >>= 1;
        task.wakee_flip_decay = now;
    }
    if task.last_wakee != Some(wakee) {
        task.last_wakee = Some(wakee);
        task.wakee_flips += 1;
    }
}
