//! The run queue: everything about one CPU, and the tasks on it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::DerefMut;

use crate::arena::Arena;
use crate::balance::RqBalance;
use crate::balance::sums::Sums;
use crate::class::deadline::{self, DlRq};
use crate::class::rt::RtRq;
use crate::clock::Clock;
use crate::config::Preemption;
use crate::event::{Event, Running};
use crate::host::Timer;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;
use crate::list::TaskList;
use crate::loadavg::RqLoad;
use crate::policy::{Fault, Policy};
use crate::shared::Shared;
use crate::task::{NIL, SchedPolicy, Task};
use crate::tunables::Tunables;
use crate::uclamp::RqUclamp;

/// A message for the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// A timer is to be armed, or cancelled.
    Arm(Timer, Option<u64>),
    /// Something happened.
    Event(Event),
    /// The policy has not kept a promise.
    Fault(Fault),
}

/// One CPU.
//
// In this order in memory, and within it a cache line for each paragraph: what every verb reads comes first, and what
// only tasks of the higher classes need last, so that a large machine's run queues share the caches. The alignment
// keeps one run queue's lines from another's.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Rq<P: Policy> {
    /// The CPU whose run queue this is.
    pub cpu: CpuId,
    /// Queued tasks of every class, including the running one, but without throttled tasks of any class.
    pub nr_running: u32,
    /// The running task, if it is one of the policy's.
    pub curr_ordinary: Option<u32>,
    /// The running task, of whatever class.
    pub curr: Option<u32>,
    pub(crate) running: Running,
    /// Its clocks.
    pub clock: Clock,
    pub(crate) need_resched: bool,
    /// Preemption is lazy.
    lazy: bool,
    /// The reschedule that is pending is a lazy one.
    pub(crate) resched_lazily: bool,
    /// Set if the next `schedule` does not update the clock.
    pub(crate) keeps_clock: bool,
    /// Whether this kernel keeps the clock between a wakeup and its switch: since 2.6.37 (here: 3.10).
    may_keep_clock: bool,
    /// The policy wants to know when the running task returns to user mode.
    pub(crate) notify_resume: bool,
    /// Set if `schedule` has unlocked it to balance: the previous task is off the CPU, the next is not chosen.
    pub(crate) newidle: bool,
    /// Something of the running task was changed: it is put back on the CPU, which is no choice of it.
    pub(crate) restoring: bool,
    /// The timer that ends slices (HRTICK) is running.
    pub(crate) hrtick: bool,
    /// Set if a real-time or deadline task, or a fair server, is or has been here. Otherwise `rt` and `dl` are not
    /// checked.
    pub(crate) higher: bool,
    /// There is something in `uclamp`.
    pub(crate) clamped: bool,
    /// Set if the CPU is online. Otherwise no task joins it, and its running task is about to be pushed away.
    pub(crate) online: bool,

    /// Its tasks: running, queued, and those that sleep here.
    pub tasks: Arena<Task<P>>,
    /// Work for the stopper, which precedes everything while this is set.
    pub(crate) push: Option<crate::balance::active::Push>,

    /// The policy's own state.
    pub class: P::Rq,

    /// Messages for the host, sent when this run queue is unlocked.
    pub(crate) outbox: Vec<Notice>,
    pub(crate) load: RqLoad,
    /// See [`Self::listed`].
    movable: TaskList,
    /// The clamps of its tasks. Created with the first task that has any.
    pub(crate) uclamp: Option<Box<RqUclamp>>,

    pub(crate) balance: RqBalance,

    /// Switches away from the tasks of each group, without those below it, by its id.
    group_switches: Vec<u64>,
    /// Its real-time tasks.
    pub rt: RtRq,
    /// Its deadline tasks, and its fair server.
    pub dl: DlRq,
}

impl<P: Policy> Rq<P> {
    /// A CPU without tasks.
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
            balance: RqBalance::new(shared, cpu),
            load: RqLoad::new(shared.config.tunables.tick_ns()),
            uclamp: None,
            movable: TaskList::default(),
            outbox: Vec::new(),
            group_switches: Vec::new(),
        }
    }

    /// Every CPU of the machine.
    pub fn all(shared: &Shared<P>) -> Vec<Self> {
        (0..shared.nr_cpus() as u32).map(|cpu| Self::new(shared, CpuId(cpu))).collect()
    }

    /// Asks for the running task to be rescheduled as soon as possible.
    #[inline]
    pub fn resched(&mut self) {
        self.need_resched = true;
        self.resched_lazily = false;
    }

    /// As [`Self::resched`], but with lazy preemption ([`Config::preemption`](crate::config::Config::preemption)) the
    /// CPU is not interrupted, and reschedules when it next leaves the kernel (`resched_curr_lazy`). For an ordinary
    /// task that another one preempts.
    #[inline]
    pub fn resched_lazy(&mut self) {
        self.resched_lazily = self.lazy && (self.resched_lazily || !self.need_resched);
        self.need_resched = true;
    }

    /// Whether a reschedule was asked for.
    #[inline]
    pub fn need_resched(&self) -> bool {
        self.need_resched
    }

    /// Whether a reschedule that is not lazy is requested (`test_tsk_need_resched`), so that a pick is near in any
    /// case. Callers continue if preemption is lazy.
    #[inline]
    pub(crate) fn resched_is_due(&self) -> bool {
        self.need_resched && !self.resched_lazily
    }

    /// Whether [`Scheduler::return_to_user`](crate::Scheduler::return_to_user) is to be called when the running task
    /// next returns to user mode, or at once if it is there (`TIF_NOTIFY_RESUME`).
    #[inline]
    pub fn notify_resume(&self) -> bool {
        self.notify_resume
    }

    /// Whether the CPU is online.
    #[inline]
    pub fn is_online(&self) -> bool {
        self.online
    }

    /// Returns the running task of the CPU.
    #[inline]
    pub fn running(&self) -> Running {
        self.running
    }

    /// Returns the kernel's `prio` of the running task. The idle task's is that of nice 0, the stopper's that of the
    /// most urgent real-time task. None while the CPU is between two tasks.
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

    /// Keeps the clock until the switch that follows an enqueue with preemption. The next task is charged for the time
    /// until then (`rq_clock_skip_update`).
    #[inline]
    pub(crate) fn keep_clock(&mut self) {
        // Between two tasks, too: the end of the switch forgets it.
        self.keeps_clock |= self.may_keep_clock && self.resched_is_due();
    }

    /// The clock of a `schedule`.
    #[inline]
    pub(crate) fn switch_clock(&mut self, now: u64) {
        if core::mem::take(&mut self.keeps_clock) {
            self.clock.skip(now);
        } else {
            self.update_clock(now);
        }
    }

    /// Tells the other CPUs how things stand here.
    #[inline(never)]
    pub(crate) fn publish(&self, shared: &Shared<P>) {
        // What more there is to tell is apart, so that most CPUs keep nothing over a call.
        if shared.tells_more() {
            self.publish_more(shared);
        } else if self.uses_dl() {
            self.publish_dl(shared);
        } else {
            self.publish_own(shared);
        }
    }

    /// What every CPU tells.
    #[inline]
    fn publish_own(&self, shared: &Shared<P>) {
        shared.cpu(self.cpu).publish_core(self.nr_running, self.running == Running::Idle && self.online);
        P::publish(self, shared);
    }

    /// As [`Self::publish`], with what it has to tell of deadline tasks.
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

    /// As [`Self::publish`], on a machine that keeps sums over its CPUs, or considers energy.
    #[inline(never)]
    fn publish_more(&self, shared: &Shared<P>) {
        let this = shared.cpu(self.cpu);
        let before = shared.sums.kept().then(|| Sums::of(this));
        self.publish_own(shared);
        P::publish_usage(self, shared);
        if self.uses_dl() {
            self.publish_deadlines(shared);
        }
        if let Some(before) = before {
            shared.sums.replace(self.cpu, before, Sums::of(this));
        }
    }

    /// Whether there is, or has been, anything of the deadline class.
    #[inline]
    pub(crate) fn uses_dl(&self) -> bool {
        self.higher && self.dl.in_use()
    }

    /// A policy calls this when a task whose dequeue it had delayed has left at last.
    pub fn finish_delayed(&mut self, task: u32) {
        if !self.tasks[task].on_rq {
            return self.fault(Fault::FinishedTwice { task: self.tasks[task].id });
        }
        self.finish_dequeue(task);
    }

    /// An ordinary task has left its queue, and not to move.
    pub(crate) fn finish_dequeue(&mut self, task: u32) {
        self.load.nr_uninterruptible += i64::from(self.tasks[task].blocked);
        self.leave(task);
    }

    /// An ordinary task is off its queue.
    #[inline]
    pub(crate) fn leave(&mut self, task: u32) {
        self.tasks[task].on_rq = false;
        self.unlist(task);
        self.nr_running -= 1;
    }

    /// A switch away from a task of `group`: counted, if anything is.
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

    /// What [`Self::count_switch`] has counted here, by group.
    pub(crate) fn group_switches(&self) -> &[u64] {
        &self.group_switches
    }

    /// Arms a timer for `at`, nanoseconds, or cancels it (`None`), when this run queue is unlocked, in the order of the
    /// calls ([`Host::arm`](crate::Host::arm)). The core handles all timers
    /// ([`Scheduler::timer`](crate::Scheduler::timer)), and a policy has no kind of its own. A policy that wants timed
    /// slices implements [`Policy::slice_left`].
    pub fn arm(&mut self, timer: Timer, at: Option<u64>) {
        self.outbox.push(Notice::Arm(timer, at));
    }

    /// Sends an event to the host, with the time of the run queue's clock, when this run queue is unlocked, in the
    /// order of the calls ([`Host::event`](crate::Host::event)).
    pub fn event(&mut self, event: Event) {
        self.outbox.push(Notice::Event(event));
    }

    /// Reports a violation of the policy's contract to the host when this run queue is unlocked.
    #[cold]
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.outbox.push(Notice::Fault(fault));
    }

    /// Puts a task at the recently-run end of the list of movable tasks.
    pub(crate) fn list(&mut self, index: u32) {
        self.movable.push_back(&mut self.tasks, index);
    }

    pub(crate) fn unlist(&mut self, index: u32) {
        self.movable.remove(&mut self.tasks, index);
    }

    /// Moves a listed task to the recently-run end.
    #[inline]
    pub(crate) fn relist(&mut self, index: u32) {
        if self.movable.last() != Some(index) {
            self.unlist(index);
            self.list(index);
        }
    }

    /// The queued task that ran longest ago.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.movable.first()
    }

    /// The one that ran longest ago but for `index` and those before it.
    pub(crate) fn listed_after(&self, index: u32) -> Option<u32> {
        let after = self.tasks[index].after;
        (after != NIL).then_some(after)
    }

    /// Returns the policy's queued tasks, including throttled ones and the running one, in the order in which the
    /// balancer tries to move them: the task that ran longest ago first. Tasks move to the tail when enqueued, when
    /// switched in, and when the balancer fails to move them.
    pub fn listed(&self) -> impl Iterator<Item = u32> + '_ {
        self.movable.iter(&self.tasks)
    }

    /// Returns the number of queued tasks of the ordinary class, including the running one, without throttled ones.
    #[inline]
    pub fn nr_ordinary(&self) -> u32 {
        if !self.higher {
            return self.nr_running;
        }
        let realtime = if self.rt.throttled() { 0 } else { self.rt.nr_running() };
        self.nr_running - realtime - self.dl.nr_running()
    }

    /// Takes a task away, to be put on another run queue or dropped.
    pub(crate) fn take(&mut self, shared: &Shared<P>, index: u32) -> Task<P> {
        if self.tasks[index].dl.is_some() || self.tasks[index].dl_kept.is_some() {
            deadline::detach(self, index);
        }
        let task = self.tasks.remove(index);
        shared.set_location(task.id, None);
        task
    }

    /// Gives a home to a task that was taken from another run queue, or is new.
    pub(crate) fn adopt(&mut self, shared: &Shared<P>, task: Task<P>) -> u32 {
        let id = task.id;
        let index = self.tasks.insert(task);
        shared.set_location(id, Some((self.cpu, index)));
        if self.tasks[index].dl.is_some() || self.tasks[index].dl_kept.is_some() {
            deadline::attach(self, shared, index);
        }
        index
    }

    /// The index of a task, if it is here.
    #[inline]
    pub(crate) fn find(&self, shared: &Shared<P>, task: TaskId) -> Option<u32> {
        let (cpu, index) = shared.locate(task)?;
        (cpu == self.cpu && self.tasks.get(index).is_some_and(|found| found.id == task)).then_some(index)
    }
}

/// A host's access to run queues: directly, as in a `Vec<Rq<P>>`, or through a lock for each, as `Locks` in
/// `tests/threads.rs` of this crate.
///
/// A run queue is locked while its guard exists. A verb of [`Scheduler`](crate::Scheduler) locks one at a time, or two
/// by [`Self::pair`], and none while it holds any. So locks need not be recursive. No run queue is locked when a verb
/// is called, or after it has returned.
pub trait Rqs<P: Policy> {
    /// A run queue held for use.
    type Guard<'a>: DerefMut<Target = Rq<P>>
    where
        Self: 'a;

    /// Takes one run queue, and waits until it is free.
    fn rq(&mut self, cpu: CpuId) -> Self::Guard<'_>;

    /// Locks two different run queues, and returns that of `a`, then that of `b`.
    ///
    /// Another thread may request the same pair in reverse. Lock them in one fixed order, such as by CPU number,
    /// whatever the order of the arguments.
    fn pair(&mut self, a: CpuId, b: CpuId) -> (Self::Guard<'_>, Self::Guard<'_>);
}

impl<P: Policy> Rqs<P> for Vec<Rq<P>> {
    type Guard<'a> = &'a mut Rq<P>;

    #[inline]
    fn rq(&mut self, cpu: CpuId) -> &mut Rq<P> {
        &mut self[cpu.index()]
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "nobody asks for a CPU beside itself")]
    fn pair(&mut self, a: CpuId, b: CpuId) -> (&mut Rq<P>, &mut Rq<P>) {
        let [a, b] = self.get_disjoint_mut([a.index(), b.index()]).expect("two different CPUs of the machine");
        (a, b)
    }
}
