//! Wakers: which task wakes which, at which point of its work, and in which context.

use super::{Act, Activity, Current, State, Waker};
use crate::recorded::{Context, Event, Named};

/// A wakeup of a running task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    cpu: u32,
    /// The waker and its stretch.
    by: Option<(usize, usize)>,
    /// The waker's work in that stretch by then.
    done: u64,
    context: Option<Context>,
}

impl Activity {
    /// Returns the context of an event about the task `about`.
    pub(super) fn context(&self, event: &Event<'_>, about: i32) -> Waker {
        if event.context == Some(Context::Hardirq) {
            return Waker::Interrupt;
        }
        let current = match self.cpus[event.cpu as usize].current {
            Current::Thread(thread) => Some(thread),
            Current::Idle => None,
            Current::Unknown => self.pids.get(&event.pid).copied(),
        };
        match current {
            // A task that has done nothing yet has no place in its work where it could wake another.
            Some(thread) if self.threads[thread].pid != about && !self.threads[thread].stretches.is_empty() => {
                Waker::Thread(thread)
            }
            _ => Waker::Interrupt,
        }
    }

    /// Returns a thread's run time since it came onto its CPU, and that CPU, if it is on one.
    pub(super) fn not_booked(&self, thread: usize) -> Option<(usize, u64)> {
        let cpu = self.cpus.iter().position(|cpu| cpu.current == Current::Thread(thread))?;
        Some((cpu, self.now - self.cpus[cpu].since))
    }

    pub(super) fn act(&mut self, by: Option<usize>, act: Act) {
        let Some(by) = by else { return };
        let done = self.done(by);
        if let Some(stretch) = self.threads[by].stretches.last_mut() {
            stretch.acts.push((done, act));
        }
    }

    /// Returns a thread's work in its last stretch so far.
    pub(super) fn done(&self, thread: usize) -> u64 {
        let more = self.not_booked(thread).map_or(0, |(cpu, time)| self.at_full_speed(cpu, time - self.not_work(cpu)));
        self.threads[thread].stretches.last().map_or(0, |stretch| stretch.work + more)
    }

    pub(super) fn enqueued(&mut self, at: u64, cpu: usize) {
        if let Some(cpu) = self.cpus.get_mut(cpu) {
            cpu.enqueued = Some(at);
        }
    }

    /// Handles the departure of a runnable task from a CPU, and remembers it unless a wakeup there explains it. The
    /// task may have yielded, or its slice was over.
    pub(super) fn left(&mut self, at: u64, cpu: usize, prev: Named<'_>, next: Named<'_>) {
        let this = self.cpus[cpu];
        let Some(&thread) = self.pids.get(&prev.pid) else { return };
        if this.current != Current::Thread(thread) || next.pid == 0 || crate::recorded::is_stopper_name(next.comm) {
            return;
        }
        let joined = match self.pids.get(&next.pid).map(|&next| self.threads[next].state) {
            // The task that left this CPU for it has waited since then, and did not join another.
            Some(State::Waiting { since, woken, .. }) => since > this.since || (woken && since == this.since),
            // Its wakeup is missing.
            Some(State::Asleep | State::Running | State::Gone) | None => true,
        };
        if joined || this.enqueued.is_some_and(|enqueued| enqueued >= this.since) {
            return;
        }
        self.act(Some(thread), Act::Left { at, ran: at - this.since });
    }

    pub(super) fn woken(
        &mut self,
        at: u64,
        cpu: usize,
        task: Named<'_>,
        prio: i32,
        (waker, context): (Waker, Option<Context>),
    ) {
        self.wakeups = true;
        let thread = self.thread(task);
        // No task is woken that is runnable: one that seems to wait for a CPU has had it meanwhile, unseen.
        if matches!(self.threads[thread].state, State::Running | State::Waiting { .. }) {
            let by = match waker {
                Waker::Thread(by) => self.threads[by].stretches.len().checked_sub(1).map(|stretch| (by, stretch)),
                Waker::Start | Waker::Interrupt => None,
            };
            let done = by.map_or(0, |(by, _)| self.done(by));
            self.threads[thread].early = Some(Early { cpu: cpu as u32, by, done, context });
            if let State::Waiting { since, woken: true, .. } = &mut self.threads[thread].state {
                // How long it waited before is not known.
                *since = at;
                self.starts_waiting(thread);
            }
            return;
        }
        if self.threads[thread].state != State::Asleep {
            return;
        }
        self.counts_wakee(cpu, task);
        let last_cpu = self.threads[thread].stretches.last().map(|slept| slept.last_cpu);
        let stretch = self.wakes(at, cpu, thread, prio, (waker, context));
        if let Waker::Thread(by) = waker {
            self.act(Some(by), Act::Wake { thread, stretch });
            self.wakes_up(at, cpu, last_cpu.is_some_and(|last| last != cpu as u32));
        }
    }

    /// Wakes a sleeping thread. Returns the new stretch.
    pub(super) fn wakes(
        &mut self,
        at: u64,
        cpu: usize,
        thread: usize,
        prio: i32,
        (waker, context): (Waker, Option<Context>),
    ) -> usize {
        let all_busy = self.idle == 0;
        let this = &mut self.threads[thread];
        if this.stretches.is_empty() && this.born.is_none() {
            this.asleep_first = true;
        }
        let elsewhere = this.stretches.last().is_some_and(|slept| slept.last_cpu != cpu as u32);
        this.begins(at, waker, cpu, prio);
        (this.state, this.replaced, this.charged_from) = (State::waiting(at, true), false, None);
        let stretch = this.stretches.len() - 1;
        this.stretches[stretch].surely = match (waker, context) {
            (Waker::Thread(_), Some(Context::Task | Context::Softirq)) => Some(true),
            (Waker::Thread(_), None) => elsewhere.then_some(true),
            (Waker::Thread(_), Some(Context::Hardirq)) | (Waker::Start | Waker::Interrupt, _) => Some(false),
        };
        this.stretches[stretch].context = context;
        this.stretches[stretch].taken_in = (elsewhere && all_busy).then_some(false);
        self.starts_waiting(thread);
        stretch
    }

    pub(super) fn starts_waiting(&mut self, thread: usize) {
        let Some(stay) = self.threads[thread].stay else { return };
        let idle = (self.others_idle(stay.cpu), self.own_idle(stay.cpu));
        if let State::Waiting { beside_idle, own_idle, .. } = &mut self.threads[thread].state {
            (*beside_idle, *own_idle) = idle;
        }
    }

    /// Handles a sleep that a wakeup preceded.
    pub(super) fn woken_early(&mut self, at: u64, thread: usize, prio: i32, Early { cpu, by, done, context }: Early) {
        let waker = by.map_or(Waker::Interrupt, |(by, _)| Waker::Thread(by));
        let stretch = self.wakes(at, cpu as usize, thread, prio, (waker, context));
        self.threads[thread].stretches[stretch].early = true;
        // The waker's place is where it was then; what it has done since follows.
        if let Some((by, its)) = by {
            let acts = &mut self.threads[by].stretches[its].acts;
            let place = acts.partition_point(|(before, _)| *before <= done);
            acts.insert(place, (done, Act::Wake { thread, stretch }));
        }
    }
}
