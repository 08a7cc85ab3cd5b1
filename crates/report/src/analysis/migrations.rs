//! Migrations by cause, from simulated runs, or from other events around `sched_migrate_task`:
//!
//! | cause | evidence |
//! |---|---|
//! | `wakeup` | it follows the task's `sched_waking` on the same CPU (interrupts are off until placement); without `sched_waking`: the task slept |
//! | `fork` | the task is new |
//! | `newidle` | recorded on the destination CPU, where the next switch is away from a task that sleeps or has exited |
//! | `idle` | as `newidle`, but the CPU is idle |
//! | `periodic` | as `newidle`, but the running task continues or is preempted |
//! | `nohz_idle` | recorded on a third, idle CPU, which balances for the destination |
//! | `stopper` | `migration/N` runs on the source CPU: active balancing, a changed affinity, or exec |
//! | `rt_push`, `rt_pull` | a real-time or deadline task that its CPU pushes, or another pulls |
//! | `asleep` | the task sleeps: its affinity changed, or its CPU went offline |
//! | `other` | anything else, mostly affinity |
//!
//! Without `sched_migrate_task`, only migrations between runs show: `wakeup` if the task slept in between, else `while
//! runnable`. A note says that others are missing.

use std::collections::BTreeMap;

use vruntime_trace::MigrateCause;

use super::world::{On, State, Step, What, World};
use super::{Analysis, Options};
use crate::data::{Cell, DataTable, Kind};
use crate::results::cause_name;

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// The task being woken here.
    waking: Option<u32>,
    /// Tasks pulled since the last switch, once per pull.
    pulled: Vec<u32>,
}

/// The title without events of migrations.
pub(super) const FROM_SWITCHES: &str =
    "Migrations that sched_switch shows (record sched_migrate_task for all migrations, and their causes)";

#[derive(Debug, Default)]
struct Tally {
    causes: BTreeMap<&'static str, u64>,
    /// By task: all, at wakeup or fork, by balancing.
    tasks: Vec<[u64; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Ran {
    cpu: u32,
    /// Set if it went to sleep there.
    slept: bool,
}

#[derive(Debug, Default)]
pub(super) struct Migrations {
    cpus: Vec<Cpu>,
    tally: Tally,
    /// From switches alone.
    switches: Tally,
    ran: Vec<Option<Ran>>,
    /// Whether the scheduler reports causes.
    causes_known: bool,
    /// Whether there is an event of a migration.
    recorded: bool,
}

impl Tally {
    fn count(&mut self, task: u32, cause: &'static str) {
        *self.causes.entry(cause).or_default() += 1;
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, [0; 3]);
        }
        let row = &mut self.tasks[task as usize];
        row[0] += 1;
        match cause {
            "wakeup" | "fork" => row[1] += 1,
            "while runnable" | "newidle" | "idle" | "periodic" | "nohz_idle" | "active" => row[2] += 1,
            _ => {}
        }
    }
}

impl Migrations {
    pub(super) fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn ran(&mut self, task: u32, ran: Ran) {
        if task as usize >= self.ran.len() {
            self.ran.resize(task as usize + 1, None);
        }
        let last = self.ran[task as usize].replace(ran);
        if let Some(last) = last.filter(|last| last.cpu != ran.cpu) {
            self.switches.count(task, if last.slept { "wakeup" } else { "while runnable" });
        }
    }

    /// Counts tasks pulled since a CPU's last switch.
    fn count_pulled(&mut self, cpu: u32, cause: &'static str) {
        for task in std::mem::take(&mut self.cpus[cpu as usize].pulled) {
            self.tally.count(task, cause);
        }
    }

    fn migrate(&mut self, step: &Step, world: &World, task: u32, from: u32, to: u32, realtime: bool) {
        let span = world.state(task);
        let waking = self.cpus[step.cpu as usize].waking == Some(task);
        let stopper = match step.by {
            On::Task(by) => world.is_stopper(by),
            On::Idle | On::Unknown => false,
        };
        let cause = match span.state {
            _ if waking => "wakeup",
            State::Asleep if span.new => "fork",
            State::Asleep if !world.has_waking => "wakeup",
            State::Asleep => "asleep",
            _ if stopper && step.cpu == from => "stopper",
            _ if realtime && step.cpu == from => "rt_push",
            _ if realtime && step.cpu == to => "rt_pull",
            _ if step.cpu == to && step.by == On::Idle => "idle",
            _ if step.cpu == to => return self.cpus[to as usize].pulled.push(task),
            _ if step.cpu != from && step.by == On::Idle => "nohz_idle",
            _ => "other",
        };
        self.tally.count(task, cause);
    }
}

impl Analysis for Migrations {
    fn step(&mut self, step: &Step, world: &World) {
        if world.cpus().len() > self.cpus.len() {
            self.cpus.resize_with(world.cpus().len(), Cpu::default);
        }
        self.recorded |= matches!(step.what, What::Migrate { .. });
        match step.what {
            What::Migrate { task, cause: Some(cause), .. } => {
                self.causes_known = true;
                // The kernel does not count forks, which choose the first CPU.
                if cause != MigrateCause::Fork {
                    self.tally.count(task, cause_name(cause));
                }
            }
            What::Migrate { task, from, to, cause: None, realtime } if (to as usize) < self.cpus.len() => {
                self.migrate(step, world, task, from, to, realtime);
            }
            What::Migrate { task, .. } => self.tally.count(task, "other"),
            What::Switch { prev, state, next } => {
                let cause = match prev {
                    On::Idle => "idle",
                    _ if state.is_runnable() => "periodic",
                    _ => "newidle",
                };
                self.count_pulled(step.cpu, cause);
                if !self.recorded {
                    for (on, slept) in [(prev, !state.is_runnable()), (next, false)] {
                        if let On::Task(task) = on {
                            self.ran(task, Ran { cpu: step.cpu, slept });
                        }
                    }
                }
            }
            _ => {}
        }
        self.cpus[step.cpu as usize].waking = match step.what {
            What::Waking { task, .. } => Some(task),
            _ => None,
        };
    }

    fn finish(&mut self, _world: &World) {
        (0..self.cpus.len() as u32).for_each(|cpu| self.count_pulled(cpu, "periodic"));
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let derived = !self.recorded && !world.is_live();
        let tally = if derived { &self.switches } else { &self.tally };
        let total: u64 = tally.causes.values().sum();
        let columns =
            [("cause", "Cause", Kind::Text), ("count", "Migrations", Kind::Count), ("share", "Part", Kind::Share)];
        let title = match (derived, self.causes_known || world.is_live()) {
            (true, _) => FROM_SWITCHES,
            (false, true) => "Migrations by cause",
            (false, false) => "Migrations by cause, inferred from the events around them",
        };
        let mut causes = DataTable::new("migrations", title.to_owned(), &columns);
        let mut rows: Vec<(&str, u64)> = tally.causes.iter().map(|(&cause, &count)| (cause, count)).collect();
        rows.sort_by_key(|&(cause, count)| (std::cmp::Reverse(count), cause));
        for (cause, count) in rows {
            causes.push(vec![cause.into(), count.into(), (count as f64 / total.max(1) as f64).into()]);
        }
        let columns = [
            ("task", "Task", Kind::Text),
            ("migrations", "Migrations", Kind::Count),
            ("at_wakeup", "At wakeup", Kind::Count),
            ("by_balancing", "By balancing", Kind::Count),
        ];
        let mut tasks = DataTable::new("migrations_by_task", "Migrated tasks", &columns);
        let mut rows: Vec<(u32, &[u64; 3])> = (0..).zip(&tally.tasks).filter(|(_, counts)| counts[0] > 0).collect();
        rows.sort_by_key(|&(task, counts)| (std::cmp::Reverse(counts[0]), world.pid(task), task));
        for (task, counts) in rows {
            let mut row: Vec<Cell> = vec![world.name(task).into()];
            row.extend(counts.iter().map(|&count| Cell::from(count)));
            tasks.push(row);
        }
        vec![causes, tasks]
    }
}
