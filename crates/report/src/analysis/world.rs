//! State and CPU of every task.
//!
//! Records and simulated events become [`Step`]s. A task is an index. A reused pid gets a second one.

pub(crate) use vruntime_trace::MAX_CPUS;
use vruntime_trace::read::Losses;
use vruntime_trace::{MigrateCause, TaskState};

use super::cgroups::{Cgroups, Update};
use super::names::{Name, Names};
use super::task_throttles::TaskThrottles;

/// The largest pid of any Linux (`PID_MAX_LIMIT`).
const MAX_PID: i32 = 4_194_304;
/// A longer time without a scheduler event is a jump of the clock.
const JUMP_NS: i64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum On {
    /// Before the first event, or after lost events.
    #[default]
    Unknown,
    Idle,
    Task(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Nanoseconds.
    pub(crate) at: i64,
    pub(crate) cpu: u32,
    pub(crate) by: On,
    /// Whether an interrupt handler did it.
    pub(crate) irq: bool,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Switch {
        prev: On,
        state: TaskState,
        next: On,
    },
    /// A wakeup begins. `cpu` is the task's last CPU.
    Waking {
        task: u32,
        cpu: Option<u32>,
    },
    /// The task is enqueued on `cpu`.
    Woken {
        task: u32,
        cpu: Option<u32>,
        new: bool,
    },
    /// `realtime`: the task has real-time or deadline priority.
    Migrate {
        task: u32,
        from: u32,
        to: u32,
        cause: Option<MigrateCause>,
        realtime: bool,
    },
    Charged {
        task: u32,
        ns: u64,
    },
    Fork {
        child: u32,
    },
    Exit,
    /// The acting task got this CPU without an event ([`super::gaps`]).
    Arrives,
    /// The task has left without an event. `idle`: to the idle task. `elsewhere`: it is on another CPU.
    Leaves {
        idle: bool,
        elsewhere: bool,
    },
    Lost,
    Online(bool),
    /// A fact on groups or weights, which analyses receive separately.
    Update(Update),
    /// A rename, which analyses do not receive.
    Named {
        task: u32,
        name: Name,
    },
    /// Only its time counts.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Unknown,
    Running,
    /// Runnable, while another task runs.
    Waiting,
    Asleep,
    Gone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) state: State,
    pub(crate) since: i64,
    pub(crate) cpu: u32,
    /// Whether a wait began with a wakeup, and no event has enqueued the task.
    pub(crate) placing: bool,
    /// Whether a wait began with a wakeup.
    pub(crate) woken: bool,
    /// Whether a wait began with a fork.
    pub(crate) new: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) task: u32,
    pub(crate) was: Span,
    pub(crate) now: Span,
}

#[derive(Clone, Debug, Default)]
struct Task {
    pid: i32,
    tgid: Option<i32>,
    /// The class of identical tasks, in our runs.
    class: Option<String>,
    name: Option<String>,
    /// The current name, and that of the latest record, which precedes the steps.
    comm: Name,
    read: Name,
    span: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) on: On,
    pub(crate) since: i64,
    /// Whether it had an event.
    pub(crate) seen: bool,
    /// Whether its idle task takes the CPU offline.
    pub(crate) offline: bool,
    /// Whether a task has left it unseen, so that the next switch is inconsistent.
    pub(crate) torn: bool,
}

/// Inconsistencies of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Switches from a task that was not on the CPU.
    pub(crate) broken: u64,
    /// Tasks that ran after a sleep without a wakeup.
    pub(crate) unwoken: u64,
    pub(crate) losses: Losses,
    pub(crate) jumps: u64,
    /// Tasks that ran unseen: they were woken while waiting since a wakeup.
    pub(crate) unseen: u64,
    /// Events out of order.
    pub(crate) unordered: u64,
    /// Events of impossible tasks or CPUs.
    pub(crate) impossible: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    tasks: Vec<Task>,
    names: Names,
    /// Tasks with a new name in the last record.
    pub(super) renamed: Vec<(u32, Name)>,
    /// Time of the last record that is a step.
    pub(super) read_at: i64,
    /// Each pid's index of a task plus one, or 0.
    by_pid: Vec<u32>,
    cpus: Vec<Cpu>,
    pub(crate) changes: Vec<Change>,
    /// The CPU whose task the last step changed, with its previous state.
    pub(crate) cpu_was: Option<(u32, Cpu)>,
    /// The task that ran unseen before this step ([`Faults::unseen`]). It has two changes: the end of a wait of unknown
    /// length, and the begin of the next.
    pub(crate) unseen: Option<u32>,
    pub(crate) span: Option<(i64, i64)>,
    pub(crate) faults: Faults,
    /// Correction after jumps of the clock.
    moved_by: i64,
    /// Whether the clock has jumped since the last step.
    jumped: bool,
    /// Whether there was a `sched_waking`, and a `sched_stat_runtime`.
    pub(crate) has_waking: bool,
    pub(crate) has_charges: bool,
    pub(crate) cgroups: Cgroups,
    /// For our runs.
    pub(super) throttles: TaskThrottles,
}

impl World {
    /// Begins with `cpus` idle CPUs at time 0.
    pub(crate) fn all_idle(&mut self, cpus: usize) {
        self.cpus =
            vec![Cpu { on: On::Idle, since: 0, seen: true, offline: false, torn: false }; cpus.min(MAX_CPUS as usize)];
        self.span = Some((0, 0));
    }

    /// Returns the index of the task with this pid. [`renamed`](Self::renamed) keeps a new name until the record's
    /// step. None for impossible pids, and 0.
    pub(crate) fn task(&mut self, pid: i32, comm: &[u8]) -> Option<u32> {
        self.meet(pid, comm, false)
    }

    /// `again`: a new task has a reused pid.
    fn meet(&mut self, pid: i32, comm: &[u8], again: bool) -> Option<u32> {
        if !(1..=MAX_PID).contains(&pid) {
            self.faults.impossible += u64::from(pid != 0 && pid != -1);
            return None;
        }
        let slot = pid as usize;
        if slot >= self.by_pid.len() {
            self.by_pid.resize(slot + 1, 0);
        }
        if self.by_pid[slot] == 0 {
            self.tasks.push(Task { pid, ..Task::default() });
            self.by_pid[slot] = self.tasks.len() as u32;
            self.cgroups.meets(self.tasks.len() as u32 - 1, pid, again);
        }
        let index = self.by_pid[slot] - 1;
        let task = &mut self.tasks[index as usize];
        if !comm.is_empty() && comm != b"<...>" && !self.names.is(task.read, comm) {
            let first = task.read == Name::default();
            task.read = self.names.intern(comm);
            if first {
                task.comm = task.read;
            } else {
                self.renamed.push((index, task.read));
            }
        }
        Some(index)
    }

    /// Returns a newly forked task, even if its pid is reused.
    pub(crate) fn new_task(&mut self, pid: i32, comm: &[u8]) -> Option<u32> {
        let slot = usize::try_from(pid).ok().and_then(|slot| self.by_pid.get_mut(slot));
        let mut again = false;
        // A fork may have two events. A new task that has done nothing is the forked one.
        let other = |span: Span| span.state != State::Unknown && !(span.state == State::Asleep && span.new);
        if let Some(slot) = slot
            && *slot > 0
            && other(self.tasks[*slot as usize - 1].span)
        {
            *slot = 0;
            again = true;
        }
        self.meet(pid, comm, again)
    }

    pub(crate) fn on(&mut self, pid: i32, comm: &[u8]) -> On {
        match pid {
            0 => On::Idle,
            _ => self.task(pid, comm).map_or(On::Unknown, On::Task),
        }
    }

    /// Whether this is our run, with classes and all events.
    pub(crate) fn is_live(&self) -> bool {
        self.tasks.iter().any(|task| task.class.is_some())
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    pub(crate) fn state(&self, task: u32) -> Span {
        self.tasks[task as usize].span
    }

    pub(crate) fn set_tgid(&mut self, task: u32, tgid: i32) {
        self.tasks[task as usize].tgid = Some(tgid);
    }

    pub(crate) fn set_class(&mut self, task: u32, class: &str) {
        self.tasks[task as usize].class = Some(class.to_owned());
    }

    /// Identifies a replayed task by its name: the recorded name and pid, with a suffix (`.2`, `#2`) for further ones.
    pub(crate) fn set_recorded(&mut self, task: u32, name: &str, comm: &str) {
        let Some(rest) = name.strip_prefix(comm).and_then(|rest| rest.strip_prefix('-')) else { return };
        let (pid, mark) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (Ok(pid), true) = (pid.parse(), mark.is_empty() || mark.starts_with(['.', '#'])) else { return };
        let comm = self.names.intern(comm.as_bytes());
        let task = &mut self.tasks[task as usize];
        (task.pid, task.comm, task.read) = (pid, comm, comm);
        // A second thread of a pid has the first one's name in the recording. A copy is not recorded.
        task.name = mark.starts_with('#').then(|| name.to_owned());
    }

    /// Returns its class, or its name without classes.
    pub(crate) fn class(&self, task: u32) -> String {
        self.tasks[task as usize].class.clone().unwrap_or_else(|| self.comm(task))
    }

    pub(crate) fn tgid(&self, task: u32) -> Option<i32> {
        self.tasks[task as usize].tgid
    }

    pub(crate) fn pid(&self, task: u32) -> i32 {
        self.tasks[task as usize].pid
    }

    pub(crate) fn comm(&self, task: u32) -> String {
        self.comm_of(self.comm_now(task))
    }

    /// Returns the current name, for [`World::comm_of`].
    pub(crate) fn comm_now(&self, task: u32) -> Name {
        self.tasks[task as usize].comm
    }

    pub(crate) fn comm_of(&self, name: Name) -> String {
        self.names.text(name).map_or_else(|| "<...>".to_owned(), |comm| String::from_utf8_lossy(comm).into_owned())
    }

    pub(crate) fn rename(&mut self, task: u32, name: Name) {
        self.tasks[task as usize].comm = name;
    }

    /// `comm-pid`.
    pub(crate) fn name(&self, task: u32) -> String {
        let name = &self.tasks[task as usize].name;
        name.clone().unwrap_or_else(|| format!("{}-{}", self.comm(task), self.pid(task)))
    }

    /// Whether this is the task's pid, name or class.
    pub(crate) fn is_called(&self, task: u32, wanted: &str) -> bool {
        wanted.parse() == Ok(self.pid(task))
            || wanted == self.comm(task)
            || wanted == self.name(task)
            || wanted == self.class(task)
    }

    pub(crate) fn elapsed(&self) -> u64 {
        self.span.map_or(0, |(first, last)| last.saturating_sub(first).max(0) as u64)
    }

    fn enter(&mut self, at: i64, task: u32, state: State, cpu: u32) {
        self.put(task, Span { state, since: at, cpu, ..Span::default() });
    }

    fn put(&mut self, task: u32, now: Span) {
        let was = std::mem::replace(&mut self.tasks[task as usize].span, now);
        if was != now {
            self.changes.push(Change { task, was, now });
        }
    }

    fn set_cpu(&mut self, at: i64, cpu: u32, on: On) {
        let row = &mut self.cpus[cpu as usize];
        let on = if row.offline && on == On::Idle { On::Unknown } else { on };
        let now = Cpu { on, since: at, seen: true, offline: row.offline, torn: row.torn };
        let was = std::mem::replace(row, now);
        if was.on != on || !was.seen {
            self.cpu_was = Some((cpu, was));
        } else {
            row.since = was.since;
        }
    }

    fn forget(&mut self, at: i64, cpu: u32) {
        if let On::Task(task) = self.cpus[cpu as usize].on {
            self.enter(at, task, State::Unknown, cpu);
        }
        self.set_cpu(at, cpu, On::Unknown);
    }

    fn forget_all(&mut self, at: i64) {
        self.faults.jumps += 1;
        for task in 0..self.tasks.len() as u32 {
            if self.state(task).state != State::Unknown {
                self.enter(at, task, State::Unknown, self.state(task).cpu);
            }
        }
        for cpu in &mut self.cpus {
            (cpu.on, cpu.since, cpu.torn) = (On::Unknown, at, false);
        }
    }

    /// Returns the time of an event, which never decreases: a slightly earlier event, as in merged text, is moved. A
    /// jump of the clock takes no time, shifts later times, and makes all tasks unknown.
    pub(crate) fn time(&mut self, at: i64) -> i64 {
        let moved = at.saturating_add(self.moved_by);
        let Some((_, last)) = self.span else { return moved };
        let difference = moved.saturating_sub(last);
        if !(-JUMP_NS..=JUMP_NS).contains(&difference) {
            self.moved_by = last.saturating_sub(at);
            self.jumped = true;
            return last;
        }
        self.faults.unordered += u64::from(difference < 0);
        moved.max(last)
    }

    /// Applies a step. Returns false for impossible CPUs.
    pub(crate) fn apply(&mut self, step: &Step) -> bool {
        self.changes.clear();
        self.cpu_was = None;
        self.unseen = None;
        let Step { at, cpu, by, what, .. } = *step;
        if cpu >= MAX_CPUS {
            self.faults.impossible += 1;
            return false;
        }
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first, last.max(at)));
        if std::mem::take(&mut self.jumped) {
            self.forget_all(at);
        }
        if cpu as usize >= self.cpus.len() {
            self.cpus.resize(cpu as usize + 1, Cpu::default());
        }
        if what == What::Lost {
            self.cpus[cpu as usize].torn = false;
            self.forget(at, cpu);
            return true;
        }
        if !self.cpus[cpu as usize].seen && by != On::Unknown {
            self.arrive(at, cpu, by);
        }
        match what {
            What::Switch { prev, state, next } => self.switch(at, cpu, prev, state, next),
            What::Waking { task, cpu: target } => {
                self.has_waking = true;
                self.wake(at, task, target, true);
            }
            What::Woken { task, cpu: target, new } => self.woken(at, task, target, new),
            What::Migrate { task, to, .. } if to < MAX_CPUS => {
                let span = self.state(task);
                if span.state != State::Running {
                    self.put(task, Span { cpu: to, ..span });
                }
            }
            What::Charged { .. } => self.has_charges = true,
            What::Update(update) => self.cgroups.apply(update),
            What::Fork { child } => {
                if let On::Task(parent) = by {
                    self.cgroups.inherits(child, parent);
                }
                let span = self.state(child);
                self.put(child, Span { state: State::Asleep, since: at, cpu, new: true, ..span });
            }
            // A hotplug step of unknown function may be of an online CPU.
            What::Online(online) if self.cpus[cpu as usize].offline == online => {
                self.cpus[cpu as usize].offline = !online;
                self.set_cpu(at, cpu, On::Idle);
            }
            What::Arrives if matches!(self.cpus[cpu as usize].on, On::Idle | On::Unknown) => self.arrive(at, cpu, by),
            What::Leaves { idle, elsewhere } if self.cpus[cpu as usize].on == by => {
                self.faults.broken += u64::from(elsewhere);
                self.cpus[cpu as usize].torn = !elsewhere;
                self.forget(at, cpu);
                if idle && !self.cpus[cpu as usize].offline {
                    self.cpus[cpu as usize].on = On::Idle;
                }
            }
            What::Migrate { .. }
            | What::Online(_)
            | What::Exit
            | What::Arrives
            | What::Leaves { .. }
            | What::Named { .. }
            | What::Lost
            | What::Other => {}
        }
        true
    }

    /// Gives a CPU to a task without a known switch. The time is unknown after an unrecorded switch.
    fn arrive(&mut self, at: i64, cpu: u32, on: On) {
        if let On::Task(task) = on {
            self.switch_in(at, task, cpu, self.cpus[cpu as usize].on == On::Idle);
        }
        self.set_cpu(at, cpu, on);
    }

    /// Gives a CPU to a task. `was_idle`: whether the CPU was known to be idle.
    fn switch_in(&mut self, at: i64, task: u32, cpu: u32, was_idle: bool) {
        let span = self.state(task);
        // A new task has not slept. Android's systrace has forks, and no `sched_wakeup_new`.
        let unwoken = matches!(span.state, State::Asleep | State::Gone) && !span.new;
        self.faults.unwoken += u64::from(was_idle && unwoken && !self.is_stopper(task));
        self.leave_elsewhere(at, task, cpu);
        self.enter(at, task, State::Running, cpu);
    }

    fn leave_elsewhere(&mut self, at: i64, task: u32, cpu: u32) {
        let span = self.state(task);
        if span.state == State::Running && span.cpu != cpu {
            self.faults.broken += 1;
            if self.cpus.get(span.cpu as usize).is_some_and(|elsewhere| elsewhere.on == On::Task(task)) {
                let row = &mut self.cpus[span.cpu as usize];
                (row.on, row.since) = (On::Unknown, at);
            }
        }
    }

    fn switch(&mut self, at: i64, cpu: u32, prev: On, state: TaskState, next: On) {
        let before = self.cpus[cpu as usize].on;
        let differs = before != prev && before != On::Unknown;
        self.faults.broken += u64::from(std::mem::take(&mut self.cpus[cpu as usize].torn) || differs);
        if differs && let On::Task(task) = before {
            self.enter(at, task, State::Unknown, cpu);
        }
        if let On::Task(task) = prev {
            let to = if state.is_runnable() {
                State::Waiting
            } else if state.is_gone() {
                State::Gone
            } else {
                State::Asleep
            };
            self.enter(at, task, to, cpu);
        }
        if let On::Task(task) = next {
            self.switch_in(at, task, cpu, true);
        }
        self.set_cpu(at, cpu, next);
    }

    pub(crate) fn is_stopper(&self, task: u32) -> bool {
        self.names.text(self.comm_now(task)).is_some_and(vruntime_trace::is_stopper)
    }

    fn wake(&mut self, at: i64, task: u32, target: Option<u32>, placing: bool) {
        let mut span = self.state(task);
        // Linux wakes no runnable task, except one preempted on its way to sleep.
        if span.state == State::Waiting && span.woken && at > span.since {
            self.faults.unseen += 1;
            self.unseen = Some(task);
            self.enter(at, task, State::Unknown, span.cpu);
            span = self.state(task);
        }
        // A running task has not slept. The next wakeup shows if it is about to.
        if matches!(span.state, State::Asleep | State::Unknown) {
            let cpu = target.filter(|&cpu| cpu < MAX_CPUS).unwrap_or(span.cpu);
            self.put(task, Span { state: State::Waiting, since: at, cpu, placing, woken: true, new: span.new });
        }
    }

    fn woken(&mut self, at: i64, task: u32, target: Option<u32>, new: bool) {
        let span = self.state(task);
        // The wakeup that `sched_waking` announced, if the trace has it.
        if span.state == State::Waiting && (self.has_waking || !span.woken) {
            let cpu = target.filter(|&cpu| cpu < MAX_CPUS).unwrap_or(span.cpu);
            self.put(task, Span { cpu, placing: false, ..span });
        } else if new && span.state == State::Gone {
            // A reused pid without its fork.
            self.put(task, Span { state: State::Asleep, ..span });
            self.wake(at, task, target, false);
        } else {
            self.wake(at, task, target, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: i64, cpu: u32, by: On, what: What) -> Step {
        Step { at, cpu, by, irq: false, what }
    }

    /// Only the stopper thread and the idle task run there again.
    #[test]
    fn a_cpu_that_is_offline_is_not_idle() {
        let mut world = World::default();
        let (a, stopper) = (world.task(7, b"a").unwrap(), world.task(8, b"migration/0").unwrap());
        let switch = |prev, next| What::Switch { prev, state: TaskState::Sleeping, next };
        world.apply(&step(10, 0, On::Task(a), What::Online(false)));
        assert_eq!(world.cpus()[0].on, On::Unknown);
        world.apply(&step(11, 0, On::Task(a), switch(On::Task(a), On::Task(stopper))));
        assert_eq!(world.cpus()[0].on, On::Task(stopper));
        world.apply(&step(12, 0, On::Task(stopper), switch(On::Task(stopper), On::Idle)));
        assert_eq!(world.cpus()[0].on, On::Unknown);
        world.apply(&step(20, 0, On::Idle, What::Online(true)));
        assert_eq!(world.cpus()[0].on, On::Idle);
        world.apply(&step(21, 0, On::Idle, switch(On::Idle, On::Task(a))));
        world.apply(&step(22, 0, On::Task(a), What::Online(true)));
        assert_eq!(world.cpus()[0].on, On::Task(a), "it is online already");
    }

    #[test]
    fn a_life_as_the_events_tell_it() {
        let mut world = World::default();
        let (a, b) = (world.task(7, b"a").unwrap(), world.task(8, b"b").unwrap());
        world.apply(&step(10, 0, On::Task(a), What::Waking { task: b, cpu: Some(1) }));
        assert_eq!(world.state(a).state, State::Running, "its first event shows which task runs when the trace begins");
        assert!(world.state(b).placing);
        world.apply(&step(11, 0, On::Task(a), What::Migrate { task: b, from: 1, to: 0, cause: None, realtime: false }));
        world.apply(&step(12, 0, On::Task(a), What::Woken { task: b, cpu: Some(0), new: false }));
        let wait = Span { state: State::Waiting, since: 10, woken: true, ..Span::default() };
        assert_eq!(world.state(b), wait, "the wait is one, on both CPUs");
        let switch = What::Switch { prev: On::Task(a), state: TaskState::Preempted, next: On::Task(b) };
        world.apply(&step(20, 0, On::Task(a), switch));
        assert_eq!(world.changes.len(), 2);
        assert_eq!((world.state(a).state, world.state(b).state), (State::Waiting, State::Running));
        world.apply(&step(25, 0, On::Unknown, What::Lost));
        assert_eq!((world.state(b).state, world.cpus()[0].on), (State::Unknown, On::Unknown));
        assert_eq!(world.faults, Faults::default());
    }

    /// Our traces have no wakeup of the stopper.
    #[test]
    fn a_stopper_is_not_missed_a_wakeup() {
        let mut world = World::default();
        let (task, stopper) = (world.task(7, b"a").unwrap(), world.task(8, b"migration/0").unwrap());
        let mut turns = |on: u32| {
            for at in [0, 20] {
                for (at, prev, next) in [(at, On::Idle, On::Task(on)), (at + 10, On::Task(on), On::Idle)] {
                    let switch = What::Switch { prev, state: TaskState::Sleeping, next };
                    world.apply(&step(at, 0, prev, switch));
                }
            }
            world.faults.unwoken
        };
        assert_eq!(turns(stopper), 0);
        assert_eq!(turns(task), 1);
    }

    #[test]
    fn what_cannot_be_is_counted_and_breaks_nothing() {
        let mut world = World::default();
        assert_eq!(world.task(-5, b"x"), None);
        assert_eq!(world.task(i32::MAX, b"x"), None);
        let a = world.task(7, b"a").unwrap();
        assert!(!world.apply(&step(0, u32::MAX, On::Idle, What::Other)));
        for (at, cpu) in [(0, 0), (5, 1), (i64::MIN, 0), (i64::MAX, 1)] {
            let switch = What::Switch { prev: On::Idle, state: TaskState::Running, next: On::Task(a) };
            let at = world.time(at);
            world.apply(&step(at, cpu, On::Idle, switch));
        }
        assert_eq!(world.faults.impossible, 3);
        assert!(world.faults.broken > 0 && world.faults.jumps == 2, "{:?}", world.faults);
        let again = world.new_task(7, b"b").unwrap();
        assert_ne!(again, a, "a pid given again is another task");
    }
}
