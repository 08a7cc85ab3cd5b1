//! Runnable tasks and utilisation of each CPU over time.

use std::fmt::Write as _;

use super::bins::{Bins, Load};
use super::world::{On, State, Step, World};
use super::{Analysis, Options};
use crate::data::{Cell, DataTable, Kind, Shown};
use crate::units::counted;

/// Counted lengths: 0, 1, 2, 3, 4 and more.
const LENGTHS: usize = 5;
/// Columns of the text's picture.
const WIDTH: usize = 72;
const PICTURED: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    runnable: u32,
    since: i64,
    max: u32,
    max_at: i64,
    area: u64,
    times: [u64; LENGTHS],
    unknown: u64,
}

#[derive(Debug, Default)]
pub(super) struct RunQueues {
    queues: Vec<Queue>,
    bins: Bins,
    begun: Option<i64>,
}

/// Whether the task is on a run queue.
const fn counts(state: State) -> bool {
    matches!(state, State::Running | State::Waiting)
}

impl RunQueues {
    pub(super) fn new(_options: &Options) -> Self {
        Self::default()
    }

    pub(super) fn bins(&self) -> &Bins {
        &self.bins
    }

    fn queue(&mut self, cpu: u32) -> &mut Queue {
        if cpu as usize >= self.queues.len() {
            let begun = self.begun.unwrap_or(0);
            self.queues.resize(cpu as usize + 1, Queue { since: begun, max_at: begun, ..Queue::default() });
        }
        &mut self.queues[cpu as usize]
    }

    /// Accounts for time until now. `on`: the CPU's task.
    fn advance(&mut self, at: i64, cpu: u32, on: On, start: i64) {
        let queue = self.queue(cpu);
        if at <= queue.since {
            return;
        }
        let ns = (at - queue.since) as u64;
        let known = on != On::Unknown;
        if known {
            queue.area = queue.area.saturating_add(ns.saturating_mul(u64::from(queue.runnable)));
            queue.times[(queue.runnable as usize).min(LENGTHS - 1)] += ns;
        } else {
            queue.unknown += ns;
        }
        let (begin, end) = (queue.since.saturating_sub(start).max(0) as u64, at.saturating_sub(start).max(0) as u64);
        let load = Load { runnable: queue.runnable, busy: matches!(on, On::Task(_)), known };
        queue.since = at;
        self.bins.add(cpu as usize, begin, end, load);
    }

    fn change(&mut self, at: i64, cpu: u32, by: i32) {
        let queue = self.queue(cpu);
        queue.runnable = queue.runnable.saturating_add_signed(by);
        if queue.runnable > queue.max {
            (queue.max, queue.max_at) = (queue.runnable, at);
        }
    }

    fn picture(&self, end: u64) -> String {
        const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let used = (end.div_ceil(self.bins.width) as usize).min(self.bins.len());
        if used < 2 {
            return String::new();
        }
        let columns = used.min(WIDTH);
        let mut text = String::new();
        let most = self.queues.iter().map(|queue| queue.max).max().unwrap_or(1).max(1);
        for (cpu, row) in self.bins.rows.iter().enumerate().take(PICTURED) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cpu:>4} ");
            for column in 0..columns {
                let range = column * used / columns..((column + 1) * used / columns).max(column * used / columns + 1);
                let max = range.filter_map(|bin| row.get(bin)).map(|bin| bin.max).max().unwrap_or(0);
                text.push(LEVELS[(max * 8).div_ceil(most).min(8) as usize]);
            }
            text.push('\n');
        }
        if let Some(more @ 1..) = self.bins.rows.len().checked_sub(PICTURED) {
            let _ =
                writeln!(text, "and {} (--json and --tables have all)", counted(more as u64, "more CPU", "more CPUs"));
        }
        let each = crate::units::time(used as f64 * self.bins.width as f64 / columns as f64);
        format!(
            "\nThe longest queue of each CPU, {each} a column; a full block is {}:\n{text}",
            counted(u64::from(most), "task", "tasks")
        )
    }
}

impl Analysis for RunQueues {
    fn step(&mut self, step: &Step, world: &World) {
        let at = step.at;
        let start = world.span.map_or(at, |(first, _)| first);
        self.begun.get_or_insert(start);
        let now = |cpu: u32| world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on);
        if let Some((cpu, was)) = world.cpu_was {
            self.advance(at, cpu, was.on, start);
        }
        for change in &world.changes {
            let (was, is) = (counts(change.was.state), counts(change.now.state));
            if was && is && change.was.cpu == change.now.cpu {
                continue;
            }
            if was {
                self.advance(at, change.was.cpu, now(change.was.cpu), start);
                self.change(at, change.was.cpu, -1);
            }
            if is {
                self.advance(at, change.now.cpu, now(change.now.cpu), start);
                self.change(at, change.now.cpu, 1);
            }
        }
    }

    fn finish(&mut self, world: &World) {
        let Some((start, end)) = world.span else { return };
        for (cpu, row) in world.cpus().iter().enumerate() {
            self.advance(end, cpu as u32, row.on, start);
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let columns = [
            ("cpu", "CPU", Kind::Count),
            ("known", "Known", Kind::Share),
            ("busy", "Busy", Kind::Share),
            ("mean", "Mean", Kind::Number),
            ("max", "Max", Kind::Count),
            ("max_at_ns", "At", Kind::Instant),
            ("length_0", "0", Kind::Share),
            ("length_1", "1", Kind::Share),
            ("length_2", "2", Kind::Share),
            ("length_3", "3", Kind::Share),
            ("length_4_or_more", "4 or more", Kind::Share),
        ];
        let mut table =
            DataTable::new("runqueue", "Runnable tasks on each CPU, in percent of the known time", &columns);
        for (cpu, queue) in self.queues.iter().enumerate() {
            let known: u64 = queue.times.iter().sum();
            let part = |ns: u64| if known == 0 { f64::NAN } else { ns as f64 / known as f64 };
            let busy: u64 = self.bins.rows.get(cpu).map_or(0, |row| row.iter().map(|bin| bin.busy).sum());
            let all = known + queue.unknown;
            let known = if all == 0 { f64::NAN } else { known as f64 / all as f64 };
            let mut row: Vec<Cell> = vec![
                cpu.into(),
                known.into(),
                part(busy).into(),
                part(queue.area).into(),
                queue.max.into(),
                queue.max_at.into(),
            ];
            row.extend(queue.times.iter().map(|&ns| Cell::from(part(ns))));
            table.push(row);
        }
        let columns = [
            ("time_ns", "Time", Kind::Instant),
            ("width_ns", "Length", Kind::Nanoseconds),
            ("cpu", "CPU", Kind::Count),
            ("busy", "Busy", Kind::Share),
            ("mean", "Mean", Kind::Number),
            ("max", "Max", Kind::Count),
        ];
        let mut over_time = DataTable::new("runqueue_over_time", "Runnable tasks over time", &columns);
        let (start, end) = (world.span.map_or(0, |(first, _)| first), world.elapsed());
        for (cpu, row) in self.bins.rows.iter().enumerate() {
            for (index, bin) in row.iter().enumerate() {
                let from = index as u64 * self.bins.width;
                let width = self.bins.width.min(end.saturating_sub(from));
                let part = |ns: u64| ns as f64 / width.saturating_sub(bin.unknown) as f64;
                over_time.push(vec![
                    start.saturating_add_unsigned(from).into(),
                    width.into(),
                    cpu.into(),
                    part(bin.busy).into(),
                    part(bin.area).into(),
                    bin.max.into(),
                ]);
            }
        }
        vec![table, over_time]
    }

    fn text(&self, world: &World, shown: Shown) -> String {
        let table = self.tables(world).swap_remove(0).text(shown);
        format!("{table}{}", self.picture(world.elapsed()))
    }
}
