//! Latency tables like `perf sched latency`: the time from runnable to running.
//!
//! A delay begins with a wakeup (`sched_waking`, or else `sched_wakeup`), or when a runnable task leaves its CPU. It
//! ends when the task runs. As in perf, a wakeup before the task has left its CPU does not count. A task whose first
//! event is a switch to a CPU has no delay. Tasks of one name share a row, unless options request each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::world::{On, State, Step, What, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind, Shown};
use crate::printable::printable;
use crate::units::counted;

/// A delay (perf: atom).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Atom {
    #[default]
    None,
    Asleep {
        since: i64,
    },
    Waiting {
        since: i64,
    },
    /// Ended, or not begun.
    Over,
}

/// Delays of a task, or of tasks of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delays {
    count: u64,
    total: u64,
    max: u64,
    max_start: i64,
    max_end: i64,
    /// By `sched_stat_runtime`, and by switches.
    charged: u64,
    ran: u64,
}

impl Delays {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.charged += other.charged;
        self.ran += other.ran;
        if self.max < other.max {
            (self.max, self.max_start, self.max_end) = (other.max, other.max_start, other.max_end);
        }
    }

    fn average(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    atom: Atom,
    delays: Delays,
}

#[derive(Debug, Default)]
pub(super) struct Latencies {
    rows: Vec<Row>,
    each: bool,
}

impl Latencies {
    pub(super) fn new(options: &Options) -> Self {
        Self { rows: Vec::new(), each: options.each_task }
    }

    fn row(&mut self, task: u32) -> &mut Row {
        if task as usize >= self.rows.len() {
            self.rows.resize(task as usize + 1, Row::default());
        }
        &mut self.rows[task as usize]
    }

    fn woken(&mut self, at: i64, task: u32) {
        let row = self.row(task);
        match row.atom {
            Atom::Asleep { since } if at < since => {}
            Atom::None | Atom::Asleep { .. } => row.atom = Atom::Waiting { since: at },
            Atom::Waiting { .. } | Atom::Over => {}
        }
    }

    /// Returns tasks or names with delays in perf's order: decreasing average, maximum, count, run time.
    fn sorted(&self, world: &World) -> Vec<(String, Option<i32>, usize, Delays)> {
        let tasks = (0..self.rows.len() as u32).filter(|&task| self.rows[task as usize].delays.count > 0);
        let mut all: Vec<(String, Option<i32>, usize, Delays)> = if self.each {
            tasks.map(|task| (world.comm(task), Some(world.pid(task)), 1, self.rows[task as usize].delays)).collect()
        } else {
            let mut by_name: BTreeMap<String, (Option<i32>, usize, Delays)> = BTreeMap::new();
            for task in tasks {
                let (pid, number, sum) = by_name.entry(world.comm(task)).or_default();
                *pid = (*number == 0).then(|| world.pid(task));
                *number += 1;
                sum.add(&self.rows[task as usize].delays);
            }
            by_name.into_iter().map(|(name, (pid, number, sum))| (name, pid, number, sum)).collect()
        };
        let runtime = |delays: &Delays| if world.has_charges { delays.charged } else { delays.ran };
        let key = |delays: &Delays| (delays.average(), delays.max, delays.count, runtime(delays));
        all.sort_by_key(|row| (std::cmp::Reverse(key(&row.3)), row.1.filter(|_| self.each)));
        all
    }
}

impl Analysis for Latencies {
    fn step(&mut self, step: &Step, world: &World) {
        let at = step.at;
        if let Some(task) = world.unseen {
            self.row(task).atom = Atom::None;
        }
        match step.what {
            What::Switch { prev, state, next } => {
                if let On::Task(task) = prev {
                    self.row(task).atom =
                        if state.is_runnable() { Atom::Waiting { since: at } } else { Atom::Asleep { since: at } };
                }
                if let On::Task(task) = next {
                    let row = self.row(task);
                    if row.atom == Atom::None {
                        row.atom = Atom::Waiting { since: at };
                    }
                    if let Atom::Waiting { since } = row.atom {
                        row.atom = Atom::Over;
                        if at >= since {
                            let (delay, delays) = ((at - since) as u64, &mut row.delays);
                            delays.count += 1;
                            delays.total += delay;
                            if delay > delays.max {
                                (delays.max, delays.max_start, delays.max_end) = (delay, since, at);
                            }
                        }
                    }
                }
            }
            What::Waking { task, .. } => self.woken(at, task),
            What::Woken { task, new, .. } if new || !world.has_waking => self.woken(at, task),
            What::Charged { task, ns } => {
                let row = self.row(task);
                if row.atom == Atom::None {
                    row.atom = Atom::Waiting { since: at };
                }
                row.delays.charged = row.delays.charged.saturating_add(ns);
            }
            _ => {}
        }
        for change in world.changes.iter().filter(|change| change.was.state == State::Running) {
            self.row(change.task).delays.ran += at.saturating_sub(change.was.since).max(0) as u64;
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let columns = [
            ("task", "Task", Kind::Text),
            ("pid", "Pid", Kind::Count),
            ("tasks", "Tasks", Kind::Count),
            ("runtime_ns", "Runtime", Kind::Nanoseconds),
            ("count", "Count", Kind::Count),
            ("avg_delay_ns", "Avg delay", Kind::Nanoseconds),
            ("max_delay_ns", "Max delay", Kind::Nanoseconds),
            ("max_delay_start_ns", "Max delay start", Kind::Instant),
            ("max_delay_end_ns", "Max delay end", Kind::Instant),
        ];
        let mut table = DataTable::new("latency", "Delays from runnable to running", &columns);
        for (name, pid, number, delays) in self.sorted(world) {
            table.push(vec![
                name.into(),
                pid.into(),
                number.into(),
                if world.has_charges { delays.charged } else { delays.ran }.into(),
                delays.count.into(),
                delays.average().into(),
                delays.max.into(),
                delays.max_start.into(),
                delays.max_end.into(),
            ]);
        }
        vec![table]
    }

    /// perf's columns.
    fn text(&self, world: &World, shown: Shown) -> String {
        let rows = shown.rows;
        let rule = |length: usize| format!(" {}\n", "-".repeat(length));
        let mut text = rule(139);
        text.push_str(
            "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |\n",
        );
        text.push_str(&rule(139));
        let ms = |ns: u64| ns as f64 / 1e6;
        let us = |ns: i64| {
            let us = ns.div_euclid(1000);
            format!("{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))
        };
        let (mut runtime, mut count) = (0, 0);
        let all = self.sorted(world);
        for (index, (name, pid, number, delays)) in all.iter().enumerate() {
            let ran = if world.has_charges { delays.charged } else { delays.ran };
            runtime += ran;
            count += delays.count;
            if index >= rows {
                continue;
            }
            let name = printable(name);
            let task = pid.map_or_else(|| format!("{name}:({number})"), |pid| format!("{name}:{pid}"));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "  {task:<21} |{:11.3} ms |{:9} | avg:{:8.3} ms | max:{:8.3} ms | max start: {:>12} s | max end: {:>12} s",
                ms(ran),
                delays.count,
                ms(delays.average()),
                ms(delays.max),
                us(delays.max_start),
                us(delays.max_end),
            );
        }
        text.push_str(&rule(113));
        let _ = writeln!(text, "  TOTAL:                |{:11.3} ms |{count:9} |", ms(runtime));
        text.push_str(&rule(51));
        if all.len() > rows {
            let more = counted((all.len() - rows) as u64, "more row", "more rows");
            let _ = writeln!(text, "and {more} ({} shows them)", shown.option);
        }
        text
    }
}
