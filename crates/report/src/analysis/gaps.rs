//! Inserts missing switches that later events prove.
//!
//! Some machines record no switch from the idle task. A task that acts on a seemingly idle CPU arrived without an
//! event: at its wakeup, or as long ago as its charged time. A replaced task left after its charged time. Steps are
//! delayed after the first gap, since later events are needed.

use std::collections::VecDeque;

use vruntime_trace::read::SWITCHING_NS;

use super::world::{MAX_CPUS, On, Step, What};

/// Delay of steps, and of a switch after its guess. It exceeds a tick, which charges the running task.
const STEP_DELAY_NS: u64 = 50_000_000;
const MAX_BUFFERED_STEPS: usize = 1 << 14;

/// A task on a CPU since an unknown time.
#[derive(Clone, Copy, Debug)]
struct Guess {
    /// Earliest possible time.
    least: i64,
    /// Time of its first event.
    made: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    on: On,
    /// Start of the task. On an idle CPU, its last idle event.
    since: i64,
    /// Charged time since then.
    charged: u64,
    /// Set until the first charge, if `since` is a guess.
    guess: Option<Guess>,
    /// Whether its idle task takes the CPU offline.
    offline: bool,
    /// The predecessor of its task in the last switch, until its task acts.
    replaced: Option<On>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    cpu: Option<u32>,
    /// Start of its wait.
    ready: Option<i64>,
    /// Whether it began with a wakeup.
    woken: bool,
    /// Start of charged time without another event.
    charged_from: Option<i64>,
}

/// Whether a CPU may still switch from that task.
fn is_switching(cpu: Cpu, from: On, at: i64) -> bool {
    cpu.replaced == Some(from) && at.abs_diff(cpu.since) <= SWITCHING_NS
}

#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    buffered: VecDeque<Step>,
    /// Steps before a jump of the clock, or a long silence.
    over: usize,
    /// Time of the last released step.
    gone: i64,
    /// Missing switches from the idle task.
    pub(super) arrivals: u64,
    throttle_state: bool,
    /// Whether tasks are charged (`sched_stat_runtime`).
    has_charges: bool,
    /// Whether there is `sched_waking`.
    has_waking: bool,
}

impl Gaps {
    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        if cpu as usize >= self.cpus.len() {
            self.cpus.resize(cpu as usize + 1, Cpu::default());
        }
        &mut self.cpus[cpu as usize]
    }

    fn task(&mut self, task: u32) -> &mut Task {
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, Task::default());
        }
        &mut self.tasks[task as usize]
    }

    pub(super) fn add(&mut self, step: Step) {
        if self.buffered.back().is_some_and(|last| last.at.abs_diff(step.at) > STEP_DELAY_NS) {
            self.over = self.buffered.len();
        }
        if step.cpu < MAX_CPUS && !matches!(step.what, What::Update(_) | What::Named { .. }) {
            self.look(&step);
        }
        self.buffered.push_back(step);
    }

    /// Returns the next step that no later event can precede. `all`: no events follow.
    pub(super) fn next(&mut self, all: bool) -> Option<Step> {
        let (first, last) = (self.buffered.front()?, self.buffered.back()?);
        let late =
            self.over > 0 || last.at.abs_diff(first.at) > STEP_DELAY_NS || self.buffered.len() > MAX_BUFFERED_STEPS;
        if self.throttle_state && !all && (!late || self.is_open(first, last.at)) {
            return None;
        }
        let step = self.buffered.pop_front()?;
        self.gone = if self.over > 0 { i64::MIN } else { step.at };
        self.over = self.over.saturating_sub(1);
        Some(step)
    }

    /// Whether this is a guessed arrival whose time may change.
    fn is_open(&self, first: &Step, now: i64) -> bool {
        let guess = |cpu: &Cpu| cpu.guess.filter(|_| cpu.on == first.by);
        first.what == What::Arrives
            && self.buffered.len() <= MAX_BUFFERED_STEPS
            && self
                .cpus
                .get(first.cpu as usize)
                .and_then(guess)
                .is_some_and(|guess| guess.made.abs_diff(now) <= STEP_DELAY_NS)
    }

    fn look(&mut self, step: &Step) {
        let Step { at, cpu, by, what, .. } = *step;
        let is = *self.cpu(cpu);
        if by == is.on {
            self.cpu(cpu).replaced = None;
        }
        match (is.on, what) {
            (_, What::Lost) => {
                *self.cpu(cpu) = Cpu::default();
                return;
            }
            // perf samples by NMI, also after a switch's event and before the switch itself.
            (_, What::Other) if by != is.on && is_switching(is, by, at) => {}
            (On::Idle, _) => self.add_arrival(step),
            (On::Task(before), What::Switch { prev, .. }) if prev != On::Task(before) => {
                self.replaced(at, cpu, prev);
            }
            (On::Unknown, _) => self.set_current(at, cpu, by),
            // Kernels with `sched_waking` (4.4) disable interrupts there.
            (On::Task(_), What::Woken { .. }) if by == On::Idle && !self.has_waking && is_switching(is, by, at) => {}
            // The task is not there.
            (On::Task(_), _) if by != is.on && by != On::Unknown && !matches!(what, What::Switch { .. }) => {
                if let (On::Task(task), What::Charged { task: charged, ns }) = (by, what)
                    && task == charged
                {
                    self.task(task).charged_from.get_or_insert(at.saturating_sub_unsigned(ns));
                }
                let since = self.replaced(at, cpu, by).unwrap_or(at);
                if since == at && by != On::Idle {
                    self.put_in(Step { at, cpu, by, irq: false, what: What::Arrives });
                }
                self.set_current(since, cpu, by);
            }
            _ => {}
        }
        match what {
            What::Switch { prev, state, next } => {
                if let On::Task(task) = prev {
                    let ready = state.is_runnable().then_some(at);
                    *self.task(task) = Task { ready, ..Task::default() };
                }
                self.set_current(at, cpu, next);
                self.cpu(cpu).replaced = Some(prev);
            }
            What::Waking { task, .. } | What::Woken { task, .. } => {
                let waking = matches!(what, What::Waking { .. });
                self.has_waking |= waking;
                let first = waking || !self.has_waking;
                let task = self.task(task);
                // A task that is woken while it waits since a wakeup has run unseen.
                if task.cpu.is_none() && (task.ready.is_none() || (first && task.woken)) {
                    (task.ready, task.woken, task.charged_from) = (Some(at), true, None);
                }
            }
            What::Charged { task, ns } => self.charged(at, task, ns),
            What::Online(online) if self.cpu(cpu).offline == online => {
                let on = if online { On::Idle } else { On::Unknown };
                *self.cpu(cpu) = Cpu { on, since: at, offline: !online, ..Cpu::default() };
            }
            _ => {}
        }
    }

    fn set_current(&mut self, at: i64, cpu: u32, on: On) {
        if let On::Task(task) = on {
            if let Some(other) = self.task(task).cpu.filter(|&other| other != cpu) {
                self.left(at, other, On::Unknown, true);
            }
            *self.task(task) = Task { cpu: Some(cpu), ..Task::default() };
        }
        let offline = self.cpu(cpu).offline;
        let on = if offline && on == On::Idle { On::Unknown } else { on };
        *self.cpu(cpu) = Cpu { on, since: at, offline, ..Cpu::default() };
    }

    /// Handles an action of a task on a seemingly idle CPU.
    fn add_arrival(&mut self, step: &Step) {
        let Step { at, cpu, by, what, .. } = *step;
        let actor = if let What::Switch { prev, .. } = what { prev } else { by };
        let On::Task(task) = actor else {
            self.cpu(cpu).since = at;
            return;
        };
        let Task { ready, charged_from, .. } = *self.task(task);
        let charged_from = charged_from.or(match what {
            What::Charged { task: charged, ns } if charged == task => Some(at.saturating_sub_unsigned(ns)),
            _ => None,
        });
        let idle = self.cpu(cpu).since;
        let least = ready.map_or(idle, |ready| ready.max(idle));
        let guessed = if ready.is_some() { least } else { at };
        let since = charged_from.map_or(guessed, |from| from.max(least)).min(at);
        self.arrivals += 1;
        self.set_current(since, cpu, actor);
        self.cpu(cpu).guess = charged_from.is_none().then_some(Guess { least, made: at });
        self.put_in(Step { at: since, cpu, by: actor, irq: false, what: What::Arrives });
    }

    /// Handles a switch to `by` without an event, as long ago as its charged time. Returns the time, if known.
    fn replaced(&mut self, at: i64, cpu: u32, by: On) -> Option<i64> {
        self.left(at, cpu, by, false);
        let On::Task(task) = by else { return None };
        let since = self.task(task).charged_from?.max(self.cpu(cpu).since).min(at);
        if since < at {
            self.put_in(Step { at: since, cpu, by, irq: false, what: What::Arrives });
        }
        Some(since)
    }

    /// Handles the departure of the CPU's task without an event. It appeared `elsewhere`, or `next` was there.
    fn left(&mut self, at: i64, cpu: u32, next: On, elsewhere: bool) {
        let row = self.cpu(cpu);
        let Cpu { on, since, charged, offline, .. } = *row;
        *row = Cpu { since: at, offline, ..Cpu::default() };
        if let On::Task(task) = on {
            self.task(task).cpu = None;
            // If tasks are charged, an uncharged task ran only briefly.
            if charged > 0 || self.has_charges {
                let at = since.saturating_add_unsigned(charged).min(at);
                self.cpu(cpu).since = at;
                let what = What::Leaves { idle: next == On::Idle, elsewhere };
                self.put_in(Step { at, cpu, by: on, irq: false, what });
            }
        }
    }

    fn charged(&mut self, at: i64, task: u32, ns: u64) {
        self.has_charges = true;
        let from = at.saturating_sub_unsigned(ns);
        let Some(cpu) = self.task(task).cpu else {
            self.task(task).charged_from.get_or_insert(from);
            return;
        };
        let row = self.cpu(cpu);
        row.charged = row.charged.saturating_add(ns);
        if let Some(guess) = row.guess.take() {
            row.since = from.max(guess.least);
            let (on, at) = (row.on, row.since);
            let guessed = |buffered: &Step| buffered.what == What::Arrives && buffered.cpu == cpu && buffered.by == on;
            if let Some(place) = self.buffered.iter().rposition(guessed)
                && let Some(step) = self.buffered.remove(place)
            {
                self.over -= usize::from(place < self.over);
                self.put_in(Step { at, ..step });
            }
        }
    }

    /// Inserts a step behind those that are not later.
    fn put_in(&mut self, step: Step) {
        self.throttle_state = true;
        let later = self.buffered.iter().rev().take_while(|buffered| buffered.at > step.at).count();
        let at = if self.buffered.len() == later { step.at.max(self.gone) } else { step.at };
        let place = self.buffered.len() - later;
        self.over += usize::from(place < self.over);
        self.buffered.insert(place, Step { at, ..step });
    }
}
