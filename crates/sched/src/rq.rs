//! The run queue: one CPU and its tasks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::DerefMut;

use crate::arena::Arena;
use crate::balance::state::RqBalance;
use crate::balance::sums::Sums;
use crate::class::deadline::queue::DlRq;
use crate::class::rt::queue::RtRq;
use crate::clock::Clock;
use crate::config::Preemption;
use crate::event::{Event, Running};
use crate::host::Timer;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;
use crate::list::TaskList;
use crate::loadavg::RqLoad;
use crate::policy::fault::Fault;
use crate::policy::{Balanced, Policy};
use crate::shared::Shared;
use crate::task::{NIL, SchedPolicy, Task};
use crate::tunables::Tunables;
use crate::uclamp::RqUclamp;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Arm(Timer, Option<u64>),
    Event(Event),
    Fault(Fault),
}

/// One CPU.
// In memory order, one cache line per paragraph: what every verb reads is first, what only higher classes need is last.
// So the run queues of a large machine share caches. The alignment separates the lines of two run queues.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Rq<P: Policy> {
    /// Its CPU.
    pub cpu: CpuId,
    /// Queued tasks of every class, including the running one, without throttled ones.
    pub nr_running: u32,
    /// The running task, if it is the policy's.
    pub curr_ordinary: Option<u32>,
    /// The running task of any class.
    pub curr: Option<u32>,
    pub(crate) running: Running,
    /// Its clocks.
    pub clock: Clock,
    pub(crate) need_resched: bool,
    lazy: bool,
    /// Whether the pending reschedule is lazy.
    pub(crate) resched_lazily: bool,
    /// Whether the next `schedule` skips the update of the clock.
    pub(crate) keeps_clock: bool,
    /// Whether this kernel keeps it between a wakeup and its switch (2.6.37+).
    may_keep_clock: bool,
    /// Whether the policy wants a call at the running task's return to user mode.
    pub(crate) notify_resume: bool,
    /// Set while `schedule` has unlocked to balance: the previous task is put, the next not picked.
    pub(crate) newidle: bool,
    /// Sets the running task again after an attribute change: no new pick.
    pub(crate) restoring: bool,
    /// Whether the slice timer (HRTICK) runs.
    pub(crate) hrtick: bool,
    /// Set at the first real-time or deadline task, or fair server. Until then nothing reads `rt` and `dl`.
    pub(crate) higher: bool,
    pub(crate) clamped: bool,
    pub(crate) online: bool,

    /// Its tasks: running, queued and sleeping.
    pub tasks: Arena<Task<P>>,
    /// Stopper work, which precedes all tasks.
    pub(crate) push: Option<crate::balance::active::Push>,

    /// The policy's state.
    pub class: P::Rq,

    pub(crate) outbox: Vec<Notice>,
    pub(crate) load: RqLoad,
    /// See [`Self::listed`].
    movable: TaskList,
    /// Clamps of its tasks, created with the first.
    pub(crate) uclamp: Option<Box<RqUclamp>>,

    pub(crate) balance: RqBalance,

    /// Switches away from each group's own tasks, by group id.
    group_switches: Vec<u64>,
    /// Real-time tasks.
    pub rt: RtRq,
    /// Deadline tasks, and fair server.
    pub dl: DlRq,
}

impl<P: Policy> Rq<P> {
    /// Returns a CPU without tasks.
    pub fn new(shared: &Shared<P>, cpu: CpuId) -> Self {
        Self {
            cpu,
            clock: Clock::new(shared.capacity(cpu)),
            tasks: Arena::default(),
            class: P::new_rq(shared, cpu),
            nr_running: 0,
            curr_ordinary: None,
            curr: None,
            rt: RtRq::default(),
            dl: DlRq::default(),
            running: Running::Idle,
            need_resched: false,
            lazy: shared.config.preemption == Preemption::Lazy,
            resched_lazily: false,
            keeps_clock: false,
            may_keep_clock: shared.config.has(Behaviour::SkipsClock),
            notify_resume: false,
            restoring: false,
            hrtick: false,
            newidle: false,
            higher: false,
            clamped: false,
            online: true,
            push: None,
            balance: RqBalance::new(&shared.domains, &shared.config, cpu, shared.balance_time(0)),
            load: RqLoad::new(shared.config.tunables.tick_ns()),
            uclamp: None,
            movable: TaskList::default(),
            outbox: Vec::new(),
            group_switches: Vec::new(),
        }
    }

    /// Returns all CPUs.
    pub fn all(shared: &Shared<P>) -> Vec<Self> {
        (0..shared.nr_cpus() as u32).map(|cpu| Self::new(shared, CpuId(cpu))).collect()
    }

    /// Requests a reschedule.
    #[inline]
    pub fn resched(&mut self) {
        self.need_resched = true;
        self.resched_lazily = false;
    }

    /// As [`Self::resched`], for preemption among ordinary tasks. Under lazy
    /// [`preemption`](crate::config::Config::preemption) the CPU reschedules when it next leaves the kernel
    /// (`resched_curr_lazy`).
    #[inline]
    pub fn resched_lazy(&mut self) {
        self.resched_lazily = self.lazy && (self.resched_lazily || !self.need_resched);
        self.need_resched = true;
    }

    /// Whether a reschedule is pending.
    #[inline]
    pub fn need_resched(&self) -> bool {
        self.need_resched
    }

    /// As [`Self::need_resched`], not lazy (`test_tsk_need_resched`).
    #[inline]
    pub(crate) fn resched_is_due(&self) -> bool {
        self.need_resched && !self.resched_lazily
    }

    /// Whether the host must call [`Scheduler::return_to_user`](crate::Scheduler::return_to_user) at the running task's
    /// next user mode (`TIF_NOTIFY_RESUME`).
    #[inline]
    pub fn notify_resume(&self) -> bool {
        self.notify_resume
    }

    /// Whether the CPU is online.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.online
    }

    /// Returns the running task.
    #[inline]
    pub fn running(&self) -> Running {
        self.running
    }

    /// Returns the running task's `prio`: nice 0 for idle, the most urgent for the stopper. None between two tasks.
    pub(crate) fn prio_of_running(&self) -> Option<i16> {
        match (self.curr, self.running) {
            (Some(current), _) => Some(self.tasks[current].prio()),
            (None, Running::Idle) => Some(SchedPolicy::Normal.prio(0, 0)),
            (None, Running::Stopper) => Some(SchedPolicy::Fifo.prio(0, 99)),
            (None, Running::Task(_)) => None,
        }
    }

    #[inline]
    pub(crate) fn update_clock(&mut self, now: u64) {
        let idle = self.running == Running::Idle;
        self.clock.update(now, idle);
    }

    /// Keeps the clock from a preempting enqueue to its switch (`rq_clock_skip_update`). The next task is charged for
    /// that time.
    #[inline]
    pub(crate) fn keep_clock(&mut self) {
        // Also between two tasks: the end of the switch resets it.
        self.keeps_clock |= self.may_keep_clock && self.resched_is_due();
    }

    #[inline]
    pub(crate) fn switch_clock(&mut self, now: u64) {
        if core::mem::take(&mut self.keeps_clock) {
            self.clock.skip(now);
        } else {
            self.update_clock(now);
        }
    }

    /// Publishes this run queue's state.
    #[inline(never)]
    pub(crate) fn publish(&self, shared: &Shared<P>) {
        // A function of its own, so that most CPUs save no registers over a call.
        if shared.tells_more() {
            self.publish_more(shared);
        } else if self.uses_dl() {
            self.publish_dl(shared);
        } else {
            self.publish_own(shared);
        }
    }

    #[inline]
    fn publish_own(&self, shared: &Shared<P>) {
        shared.cpu(self.cpu).publish_core(self.nr_running, self.running == Running::Idle && self.online);
        P::Balance::publish(self, shared);
    }

    /// Also publishes what deadline tasks need.
    #[inline(never)]
    fn publish_dl(&self, shared: &Shared<P>) {
        self.publish_own(shared);
        self.publish_deadlines(shared);
    }

    fn publish_deadlines(&self, shared: &Shared<P>) {
        let had = shared.dl.has_deadline(self.cpu);
        shared.dl.publish(self.cpu, &self.dl);
        if had == self.dl.is_empty() {
            shared.rt.deadlines_changed(self.cpu, !had);
        }
    }

    /// Publishes on a machine with sums over CPUs, or energy.
    #[inline(never)]
    fn publish_more(&self, shared: &Shared<P>) {
        let this = shared.cpu(self.cpu);
        let before = shared.sums.kept().then(|| Sums::of(this));
        self.publish_own(shared);
        P::Balance::publish_usage(self, shared);
        if self.uses_dl() {
            self.publish_deadlines(shared);
        }
        if let Some(before) = before {
            shared.sums.replace(self.cpu, before, Sums::of(this));
        }
    }

    /// Whether the deadline class is, or was, in use.
    #[inline]
    pub(crate) fn uses_dl(&self) -> bool {
        self.higher && self.dl.in_use()
    }

    /// Completes a delayed dequeue; for policies.
    pub fn finish_delayed(&mut self, task: u32) {
        if !self.tasks[task].on_rq {
            return self.fault(Fault::FinishedTwice { task: self.tasks[task].id });
        }
        self.finish_dequeue(task);
    }

    /// An ordinary task left its queue without moving.
    pub(crate) fn finish_dequeue(&mut self, task: u32) {
        self.load.nr_uninterruptible += i64::from(self.tasks[task].blocked);
        self.leave(task);
    }

    #[inline]
    pub(crate) fn leave(&mut self, task: u32) {
        self.tasks[task].on_rq = false;
        self.unlist(task);
        self.nr_running -= 1;
    }

    /// Counts a switch away from `group`'s task, if [`group_switches`](crate::config::Config::group_switches) is on.
    #[inline]
    pub(crate) fn count_switch(&mut self, shared: &Shared<P>, group: GroupId) {
        if shared.config.group_switches {
            let group = group.index();
            match self.group_switches.get_mut(group) {
                Some(count) => *count += 1,
                None => self.count_first_switch(group),
            }
        }
    }

    #[cold]
    fn count_first_switch(&mut self, group: usize) {
        self.group_switches.resize(group + 1, 0);
        self.group_switches[group] = 1;
    }

    pub(crate) fn group_switches(&self) -> &[u64] {
        &self.group_switches
    }

    /// Arms a timer for `at`, nanoseconds, or cancels it (`None`). The host gets calls in order at the unlock
    /// ([`Host::arm`](crate::Host::arm)); the core handles expiry ([`Scheduler::timer`](crate::Scheduler::timer)). For
    /// timed slices, see [`Policy::slice_left`].
    pub fn arm(&mut self, timer: Timer, at: Option<u64>) {
        self.outbox.push(Notice::Arm(timer, at));
    }

    /// Sends an event at the run queue's time to the host, in order at the unlock
    /// ([`Host::event`](crate::Host::event)).
    pub fn event(&mut self, event: Event) {
        self.outbox.push(Notice::Event(event));
    }

    /// Reports a policy's breach of contract to the host.
    #[cold]
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.outbox.push(Notice::Fault(fault));
    }

    pub(crate) fn list(&mut self, index: u32) {
        self.movable.push_back(&mut self.tasks, index);
    }

    pub(crate) fn unlist(&mut self, index: u32) {
        self.movable.remove(&mut self.tasks, index);
    }

    #[inline]
    pub(crate) fn relist(&mut self, index: u32) {
        if self.movable.last() != Some(index) {
            self.unlist(index);
            self.list(index);
        }
    }

    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.movable.first()
    }

    pub(crate) fn listed_after(&self, index: u32) -> Option<u32> {
        let after = self.tasks[index].after;
        (after != NIL).then_some(after)
    }

    /// Returns the policy's queued tasks, including throttled ones and the running one, in the balancer's order:
    /// longest ago run first. Tasks move to the tail when enqueued, switched in, or not movable.
    pub fn listed(&self) -> impl Iterator<Item = u32> + '_ {
        self.movable.iter(&self.tasks)
    }

    /// Like [`Self::nr_running`], of ordinary tasks.
    #[inline]
    pub fn nr_ordinary(&self) -> u32 {
        if !self.higher {
            return self.nr_running;
        }
        let realtime = if self.rt.throttled() { 0 } else { self.rt.nr_running() };
        self.nr_running - realtime - self.dl.nr_running()
    }

    #[inline]
    pub(crate) fn find(&self, shared: &Shared<P>, task: TaskId) -> Option<u32> {
        let (cpu, index) = shared.locate(task)?;
        (cpu == self.cpu && self.tasks.get(index).is_some_and(|found| found.id == task)).then_some(index)
    }
}

/// A host's run queues: direct, as in `Vec<Rq<P>>`, or a lock each, as in `tests/threads.rs`.
///
/// A run queue is locked while its guard exists. A verb of [`Scheduler`](crate::Scheduler) locks one at a time, or two
/// by [`Self::pair`] while it holds none, and returns with none. So locks need not be recursive.
pub trait Rqs<P: Policy> {
    /// A locked run queue.
    type Guard<'a>: DerefMut<Target = Rq<P>>
    where
        Self: 'a;

    /// Waits until the run queue is free, and locks it.
    fn rq(&mut self, cpu: CpuId) -> Self::Guard<'_>;

    /// Locks two different run queues, returned in the given order. Threads may request the reverse: lock in a fixed
    /// order, such as by CPU number.
    fn pair(&mut self, a: CpuId, b: CpuId) -> (Self::Guard<'_>, Self::Guard<'_>);
}

impl<P: Policy> Rqs<P> for Vec<Rq<P>> {
    type Guard<'a> = &'a mut Rq<P>;

    #[inline]
    fn rq(&mut self, cpu: CpuId) -> &mut Rq<P> {
        &mut self[cpu.index()]
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "callers never ask for a CPU beside itself")]
    fn pair(&mut self, a: CpuId, b: CpuId) -> (&mut Rq<P>, &mut Rq<P>) {
        let [a, b] = self.get_disjoint_mut([a.index(), b.index()]).expect("two different CPUs of the machine");
        (a, b)
    }
}
