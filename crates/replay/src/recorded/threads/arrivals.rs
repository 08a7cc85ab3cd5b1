//! Arrivals and departures that a trace lacks: some kernels omit switches, mostly those of the idle task.

use super::{Activity, Cpu, Current, End, State};
use crate::recorded::{Event, Named, What};

/// A task on a CPU since an unknown time: it acted there, and the switch to it is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    /// Its wakeup. None: it has none.
    woken: Option<u64>,
    /// Its earliest possible arrival.
    least: u64,
}

impl Activity {
    /// Handles a task's action on a CPU that seems idle. It got the CPU without an event, after the last idle sighting
    /// and its own wakeup.
    pub(super) fn add_arrival(&mut self, at: u64, cpu: usize, event: &Event<'_>) {
        let idle = self.cpus[cpu].current == Current::Idle;
        if !idle && !self.is_replaced(cpu, event) {
            return;
        }
        let task = match event.what {
            What::Switch { prev, .. } => prev,
            What::Charged { task, .. } if task.pid == event.pid => task,
            // Neither is an action of the task that runs there.
            What::Lost { .. } | What::Rename { .. } | What::Migrated { .. } => return,
            _ => Named { pid: event.pid, comm: b"" },
        };
        if task.pid <= 0 {
            self.cpus[cpu].since = at;
            return;
        }
        // Another task is known to have run there as long as it was charged for.
        let Cpu { since: had_since, charged, .. } = self.cpus[cpu];
        let free_from = if idle { had_since } else { had_since.saturating_add(charged).min(at) };
        if !idle {
            // It is counted at the next switch, if that is not away from the task that was there before.
            if let Current::Thread(before) = self.cpus[cpu].current {
                self.cpus[cpu].unseen.get_or_insert(self.threads[before].pid);
            }
            self.forget(at, cpu);
        }
        let thread = self.thread(task);
        self.leaves_elsewhere(thread, at);
        let mut guess = None;
        let this = &mut self.threads[thread];
        let mut least = free_from.max(this.last_seen());
        let charged_from = this.charged_from.or(match event.what {
            What::Charged { ns, .. } => Some(at.saturating_sub(ns)),
            _ => None,
        });
        let mut since = at;
        if let State::Waiting { since: waits, woken, .. } = &mut this.state {
            least = least.max(*waits);
            since = least;
            if charged_from.is_none() {
                guess = Some(Guess { woken: std::mem::take(woken).then_some(*waits), least });
            }
        } else if charged_from.is_none() {
            guess = Some(Guess { woken: None, least });
        }
        since = charged_from.map_or(since, |from| from.max(least)).min(at);
        self.counts.missing_arrivals += u64::from(idle);
        if idle && self.idle == 1 {
            // It was not the only idle one all the time, for it was not idle.
            let sole = &mut self.cpus[cpu].sole;
            let wrong = (at - since).min(*sole);
            *sole -= wrong;
            self.any_idle = self.any_idle.saturating_sub(wrong);
        }
        if idle {
            self.rested(cpu, since);
        }
        let prio = self.threads[thread].stretches.last().map_or(120, |last| last.prio);
        self.switch_in(since, cpu, task, prio);
        self.cpus[cpu].guess = guess;
    }

    /// Whether the file names another, runnable thread on that CPU than the switches: a switch is missing. Some old
    /// kernels name a thread that sleeps.
    fn is_replaced(&self, cpu: usize, event: &Event<'_>) -> bool {
        let names_current = matches!(
            event.what,
            What::Woken { .. }
                | What::Enqueued { .. }
                | What::WokenNew { .. }
                | What::Fork { .. }
                | What::Charged { .. }
        );
        let Current::Thread(thread) = self.cpus[cpu].current else { return false };
        let waits = |pid: i32| self.pids.get(&pid).is_some_and(|&thread| self.threads[thread].waits());
        names_current && event.pid > 0 && self.threads[thread].pid != event.pid && waits(event.pid)
    }

    /// Sets a CPU's task to unknown. It left at an unknown time; only its charged time (`sched_stat_runtime`) is
    /// certain. It counts as asleep: a runnable task would stay or return.
    pub(super) fn forget(&mut self, at: u64, cpu: usize) {
        if let Current::Thread(thread) = self.cpus[cpu].current {
            self.threads[thread].replaced = true;
        }
        self.forget_asleep(at, cpu);
    }

    /// As [`Self::forget`], for a CPU that was idle since: its task sleeps.
    pub(super) fn forget_asleep(&mut self, at: u64, cpu: usize) {
        match std::mem::take(&mut self.cpus[cpu].current) {
            Current::Idle => self.rested(cpu, at),
            Current::Thread(thread) => {
                let (since, charged) = (self.cpus[cpu].since, self.cpus[cpu].charged);
                self.charge(cpu, thread, at.min(since + charged));
                self.not_covered(at, cpu);
                let this = &mut self.threads[thread];
                (this.state, this.presumed) = (State::Asleep, true);
                if let Some(stretch) = this.stretches.last_mut() {
                    stretch.end = End::Sleep;
                }
            }
            Current::Unknown => {}
        }
        self.cpus[cpu].since = at;
    }

    /// Moves a thread to a CPU: if it was on another, its switch away is missing.
    pub(super) fn leaves_elsewhere(&mut self, thread: usize, at: u64) {
        if self.threads[thread].state != State::Running {
            return;
        }
        if let Some(other) = self.cpus.iter().position(|cpu| cpu.current == Current::Thread(thread)) {
            self.counts.broken_switches += 1;
            self.forget(at, other);
        }
    }

    /// Charges a task for its run time, from any CPU.
    pub(super) fn charged(&mut self, at: u64, cpu: usize, task: Named<'_>, ns: u64) {
        if task.pid <= 0 {
            return;
        }
        self.counts.charged_ns = self.counts.charged_ns.saturating_add(ns);
        let Some(&thread) = self.pids.get(&task.pid) else { return };
        let from = at.saturating_sub(ns);
        if self.threads[thread].state != State::Running {
            self.threads[thread].charged_from.get_or_insert(from);
            return;
        }
        let has = |cpu: &usize| self.cpus[*cpu].current == Current::Thread(thread);
        let Some(cpu) = Some(cpu).filter(has).or_else(|| (0..self.cpus.len()).find(has)) else { return };
        self.cpus[cpu].charged = self.cpus[cpu].charged.saturating_add(ns);
        if let Some(guess) = self.cpus[cpu].guess.take() {
            self.came(cpu, thread, from, guess);
        }
    }

    /// Corrects a guessed arrival by the first charged time.
    fn came(&mut self, cpu: usize, thread: usize, from: u64, guess: Guess) {
        let guessed = self.cpus[cpu].since;
        let this = &mut self.threads[thread];
        let Some(stretch) = this.stretches.last_mut() else { return };
        let from = from.max(guess.least);
        self.cpus[cpu].since = from;
        stretch.resumed = from;
        if stretch.runs == 1 {
            stretch.began = from;
            stretch.woken = stretch.woken.min(from);
        }
        let (later, stretch_work) = (from.saturating_sub(guessed), stretch.work);
        for (done, _) in stretch.acts.iter_mut().filter(|(done, _)| *done > stretch.work) {
            *done = done.saturating_sub(later).max(stretch.work);
        }
        this.latencies.extend(guess.woken.map(|woken| from.saturating_sub(woken)));
        let (place, work) = ((thread, this.stretches.len() - 1), stretch_work);
        self.transferred_later(place, work, (guessed, later));
    }
}
