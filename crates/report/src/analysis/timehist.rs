//! `perf sched timehist`: a line for each switch with the leaving task's times, and the summary.
//!
//! As in perf, *wait time* is from the task's last switch away from a CPU to its switch to this one. *Sch delay* is
//! from its wakeup to this switch, and *run time* the time since. Unlike perf, a switch that the trace lacks ends a
//! stay, too ([`super::gaps`]): perf counts the idle time before it as the task's.

use std::fmt::Write as _;

use super::names::Name;
use super::world::{On, Step, What, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind, Shown};
use crate::printable::printable;
use crate::units::counted;

/// The most lines kept. [`TimeHist::notes`] counts the rest.
const MOST: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Line {
    at: i64,
    cpu: u32,
    /// None: the idle task.
    task: Option<u32>,
    comm: Name,
    wait: u64,
    delay: u64,
    run: u64,
}

/// Running mean and spread (Welford), as perf.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
    mean: f64,
    squares: f64,
}

impl Runs {
    fn add(&mut self, ns: u64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.total += ns;
        let off = ns as f64 - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (ns as f64 - self.mean);
    }

    /// Returns the standard error of the mean, relative to it.
    fn spread(&self) -> f64 {
        if self.count < 2 || self.mean == 0.0 {
            return 0.0;
        }
        (self.squares / (self.count - 1) as f64 / self.count as f64).sqrt() / self.mean
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    left: Option<i64>,
    ready: Option<i64>,
    runs: Runs,
    waited: u64,
    delayed: u64,
    migrations: u64,
}

#[derive(Debug, Default)]
pub(super) struct TimeHist {
    tasks: Vec<Task>,
    idle: Vec<Task>,
    /// By CPU.
    last: Vec<Option<i64>>,
    lines: Vec<Line>,
    keep: bool,
    more: u64,
}

impl TimeHist {
    pub(super) fn new(_options: &Options) -> Self {
        Self { keep: true, ..Self::default() }
    }

    pub(super) fn summary(_options: &Options) -> Self {
        Self::default()
    }

    fn task(&mut self, task: u32) -> &mut Task {
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, Task::default());
        }
        &mut self.tasks[task as usize]
    }

    fn woken(&mut self, at: i64, task: u32) {
        self.task(task).ready.get_or_insert(at);
    }

    /// Ends the stay of a CPU's task. An unknown task has no line.
    fn left(&mut self, at: i64, cpu: u32, prev: On, world: &World) {
        if cpu as usize >= self.last.len() {
            self.last.resize(cpu as usize + 1, None);
            self.idle.resize(cpu as usize + 1, Task::default());
        }
        let came = self.last[cpu as usize].replace(at);
        let (who, task) = match prev {
            On::Idle => (None, &mut self.idle[cpu as usize]),
            On::Task(task) => (Some(task), self.task(task)),
            On::Unknown => return,
        };
        let comm = who.map_or_else(Name::default, |task| world.comm_now(task));
        let mut line = Line { at, cpu, task: who, comm, wait: 0, delay: 0, run: 0 };
        if let Some(came) = came {
            let since = |then: Option<i64>| then.map_or(0, |then| came.saturating_sub(then).max(0) as u64);
            line.run = at.saturating_sub(came).max(0) as u64;
            (line.delay, line.wait) = (since(task.ready), since(task.left));
        }
        task.runs.add(line.run);
        task.waited += line.wait;
        task.delayed += line.delay;
        task.left = Some(at);
        task.ready = None;
        if self.keep {
            if self.lines.len() < MOST {
                self.lines.push(line);
            } else {
                self.more += 1;
            }
        }
    }

    fn lines_text(&self, world: &World, lines: usize) -> String {
        let mut text = String::from(
            "           time    cpu  task name                       wait time  sch delay   run time\n\
             \x20                       [tid/pid]                          (msec)     (msec)     (msec)\n\
                 --------------- ------  ------------------------------  ---------  ---------  ---------\n",
        );
        let ms = |ns: u64| format!("{:>5}.{:03}", ns / 1_000_000, ns / 1000 % 1000);
        for line in self.lines.iter().take(lines) {
            let name = match line.task {
                None => "<idle>".to_owned(),
                Some(task) => match world.tgid(task).filter(|&tgid| tgid != world.pid(task) && tgid > 0) {
                    Some(tgid) => format!("{}[{}/{tgid}]", world.comm_of(line.comm), world.pid(task)),
                    None => format!("{}[{}]", world.comm_of(line.comm), world.pid(task)),
                },
            };
            let us = line.at.div_euclid(1000);
            let time = format!("{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{time:>15} [{:04}]  {:<30}  {}  {}  {}",
                line.cpu,
                printable(&name),
                ms(line.wait),
                ms(line.delay),
                ms(line.run)
            );
        }
        text
    }

    fn summary_table(&self, world: &World) -> DataTable {
        let columns = [
            ("task", "Task", Kind::Text),
            ("pid", "Pid", Kind::Count),
            ("sched_in", "Sched-in", Kind::Count),
            ("run_ns", "Run time", Kind::Nanoseconds),
            ("min_run_ns", "Min run", Kind::Nanoseconds),
            ("avg_run_ns", "Avg run", Kind::Nanoseconds),
            ("max_run_ns", "Max run", Kind::Nanoseconds),
            ("spread", "Stddev", Kind::Share),
            ("wait_ns", "Wait time", Kind::Nanoseconds),
            ("delay_ns", "Sch delay", Kind::Nanoseconds),
            ("migrations", "Migrations", Kind::Count),
        ];
        let mut table = DataTable::new("timehist_summary", "Runtime summary", &columns);
        let mut rows: Vec<(u32, &Task)> = (0..).zip(&self.tasks).filter(|(_, task)| task.runs.count > 0).collect();
        rows.sort_by_key(|&(index, task)| (std::cmp::Reverse(task.runs.total), world.pid(index), index));
        for (index, task) in rows {
            table.push(vec![
                world.comm(index).into(),
                world.pid(index).into(),
                task.runs.count.into(),
                task.runs.total.into(),
                task.runs.min.into(),
                (task.runs.mean as u64).into(),
                task.runs.max.into(),
                task.runs.spread().into(),
                task.waited.into(),
                task.delayed.into(),
                task.migrations.into(),
            ]);
        }
        table
    }
}

impl Analysis for TimeHist {
    fn step(&mut self, step: &Step, world: &World) {
        let Step { at, cpu, .. } = *step;
        if let Some(task) = world.unseen {
            self.task(task).ready = None;
        }
        match step.what {
            What::Switch { prev, .. } => self.left(at, cpu, prev, world),
            // Where the switch is missing, the time is known from charges or wakeups.
            What::Arrives | What::Leaves { .. } => {
                if let Some((_, was)) = world.cpu_was.filter(|&(changed, _)| changed == cpu) {
                    self.left(at, cpu, was.on, world);
                }
            }
            What::Waking { task, .. } => self.woken(at, task),
            What::Woken { task, new, .. } if new || !world.has_waking => self.woken(at, task),
            What::Migrate { task, .. } => self.task(task).migrations += 1,
            _ => {}
        }
    }

    fn notes(&self) -> Vec<(u64, &'static str)> {
        vec![(self.more, "switches that the table timehist leaves out (it has the first 1048576)")]
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let summary = self.summary_table(world);
        if !self.keep {
            return vec![summary];
        }
        let columns = [
            ("time_ns", "Time", Kind::Instant),
            ("cpu", "CPU", Kind::Count),
            ("task", "Task", Kind::Text),
            ("pid", "Pid", Kind::Count),
            ("wait_ns", "Wait time", Kind::Nanoseconds),
            ("delay_ns", "Sch delay", Kind::Nanoseconds),
            ("run_ns", "Run time", Kind::Nanoseconds),
        ];
        let more = match self.more {
            0 => String::new(),
            more => format!("; {more} later ones are left out"),
        };
        let mut table = DataTable::new("timehist", format!("Every switch{more}"), &columns);
        for line in &self.lines {
            table.push(vec![
                line.at.into(),
                line.cpu.into(),
                line.task.map_or_else(|| "<idle>".to_owned(), |_| world.comm_of(line.comm)).into(),
                line.task.map_or(0, |task| world.pid(task)).into(),
                line.wait.into(),
                line.delay.into(),
                line.run.into(),
            ]);
        }
        vec![table, summary]
    }

    fn text(&self, world: &World, shown: Shown) -> String {
        if !self.keep {
            return self.summary_table(world).text(shown);
        }
        let mut text = self.lines_text(world, shown.switches);
        let left = self.lines.len().saturating_sub(shown.switches);
        if left > 0 {
            let more = counted(left as u64, "more switch", "more switches");
            let _ = writeln!(text, "and {more} ({} shows them)", shown.option);
        }
        if self.more > 0 {
            let more = counted(self.more, "more switch, which was", "more switches, which were");
            let _ = writeln!(text, "and {more} not kept");
        }
        text
    }
}
