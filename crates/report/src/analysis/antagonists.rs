//! Who delayed whom: for every task that waited on a CPU's run queue, who had that CPU meanwhile, and for how long.
//!
//! A wait on a CPU whose task nobody knows (events are lost) is nobody's doing; so is one beside the idle task, while the CPU
//! wakes up: those are the rows of `(unknown)` and `(idle)`.

use std::collections::BTreeMap;

use super::world::{Cpu, On, Span, State, Step, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind};

/// So many pairs are told apart; what others did is summed up.
const MOST_PAIRS: usize = 1 << 18;
/// Who is none of the tasks, in a pair.
const IDLE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const OTHERS: u32 = u32::MAX - 2;

/// What one did to another.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    ns: u64,
    /// How many waits.
    waits: u64,
    /// The most in one wait, when that ended, and where.
    worst: u64,
    worst_at: i64,
    worst_cpu: u32,
}

/// What has been added to a wait that goes on: by whom, how much.
type Shares = Vec<(u32, u64)>;

/// The analysis.
#[derive(Debug, Default)]
pub(super) struct Antagonists {
    /// For each CPU those who wait there.
    queues: Vec<Vec<u32>>,
    /// Of each task: since when its wait is not yet booked, and what is.
    waits: Vec<(i64, Shares)>,
    pairs: BTreeMap<(u32, u32), Pair>,
    by_name: bool,
}

impl Antagonists {
    pub(super) fn new(options: &Options) -> Self {
        Self { by_name: !options.each_task, ..Self::default() }
    }

    fn queue(&mut self, cpu: u32) -> &mut Vec<u32> {
        if cpu as usize >= self.queues.len() {
            self.queues.resize(cpu as usize + 1, Vec::new());
        }
        &mut self.queues[cpu as usize]
    }

    fn wait(&mut self, task: u32) -> &mut (i64, Shares) {
        if task as usize >= self.waits.len() {
            self.waits.resize(task as usize + 1, (0, Vec::new()));
        }
        &mut self.waits[task as usize]
    }

    /// Books what `on` did to a waiting task until now.
    fn book(&mut self, at: i64, task: u32, on: On) {
        let who = match on {
            On::Task(other) => other,
            On::Idle => IDLE,
            On::Unknown => UNKNOWN,
        };
        let (since, shares) = self.wait(task);
        let ns = at.saturating_sub(*since).max(0) as u64;
        *since = at.max(*since);
        if ns == 0 || who == task {
            return;
        }
        match shares.iter_mut().find(|(by, _)| *by == who) {
            Some((_, sum)) => *sum += ns,
            None => shares.push((who, ns)),
        }
    }

    /// A wait is over.
    fn end(&mut self, at: i64, task: u32, cpu: u32) {
        let shares = std::mem::take(&mut self.wait(task).1);
        for (who, ns) in shares {
            let full = self.pairs.len() >= MOST_PAIRS;
            let key = if full && !self.pairs.contains_key(&(task, who)) { (OTHERS, OTHERS) } else { (task, who) };
            let pair = self.pairs.entry(key).or_default();
            pair.ns += ns;
            pair.waits += 1;
            if ns > pair.worst {
                (pair.worst, pair.worst_at, pair.worst_cpu) = (ns, at, cpu);
            }
        }
    }

    fn leave(&mut self, at: i64, task: u32, span: Span, on: On) {
        self.book(at, task, on);
        let queue = self.queue(span.cpu);
        if let Some(place) = queue.iter().position(|&other| other == task) {
            queue.swap_remove(place);
        }
    }

    fn name(world: &World, who: u32, by_name: bool) -> String {
        match who {
            IDLE => "(idle)".to_owned(),
            UNKNOWN => "(unknown)".to_owned(),
            OTHERS => "(others)".to_owned(),
            task if by_name => world.class(task),
            task => world.name(task),
        }
    }
}

impl Analysis for Antagonists {
    fn step(&mut self, step: &Step, world: &World) {
        let at = step.at;
        // Who had the CPU until now.
        let before = |cpu: u32| match world.cpu_was {
            Some((other, was)) if other == cpu => was.on,
            _ => world.cpus().get(cpu as usize).map_or(On::Unknown, |row: &Cpu| row.on),
        };
        if let Some((cpu, was)) = world.cpu_was {
            let waiting = std::mem::take(self.queue(cpu));
            for &task in &waiting {
                self.book(at, task, was.on);
            }
            *self.queue(cpu) = waiting;
        }
        for change in &world.changes {
            if change.was.state == State::Waiting {
                self.leave(at, change.task, change.was, before(change.was.cpu));
                if change.now.state != State::Waiting {
                    self.end(at, change.task, change.was.cpu);
                }
            }
            if change.now.state == State::Waiting {
                if change.was.state != State::Waiting {
                    self.wait(change.task).0 = at;
                }
                self.queue(change.now.cpu).push(change.task);
            }
        }
    }

    fn finish(&mut self, world: &World) {
        let Some((_, at)) = world.span else { return };
        for cpu in 0..self.queues.len() as u32 {
            let on = world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on);
            for task in std::mem::take(self.queue(cpu)) {
                self.book(at, task, on);
                self.end(at, task, cpu);
            }
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let mut named: BTreeMap<(String, String), Pair> = BTreeMap::new();
        let mut total: BTreeMap<String, u64> = BTreeMap::new();
        for (&(task, who), pair) in &self.pairs {
            let (task, who) = (Self::name(world, task, self.by_name), Self::name(world, who, self.by_name));
            *total.entry(task.clone()).or_default() += pair.ns;
            let sum = named.entry((task, who)).or_default();
            (sum.ns, sum.waits) = (sum.ns + pair.ns, sum.waits + pair.waits);
            if pair.worst > sum.worst {
                (sum.worst, sum.worst_at, sum.worst_cpu) = (pair.worst, pair.worst_at, pair.worst_cpu);
            }
        }
        let mut rows: Vec<(&(String, String), &Pair)> = named.iter().collect();
        rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(b.0)));
        let columns = [
            ("waited", "Waited", Kind::Text),
            ("for_task", "For", Kind::Text),
            ("total_ns", "Together", Kind::Nanoseconds),
            ("share", "Of its waits", Kind::Share),
            ("waits", "Waits", Kind::Count),
            ("worst_ns", "Worst", Kind::Nanoseconds),
            ("worst_end_ns", "Until", Kind::Instant),
            ("worst_cpu", "CPU", Kind::Count),
        ];
        let mut table = DataTable::new("antagonists", "Who waited while whom had its CPU", &columns);
        for ((task, who), pair) in rows {
            table.push(vec![
                task.as_str().into(),
                who.as_str().into(),
                pair.ns.into(),
                (pair.ns as f64 / total[task].max(1) as f64).into(),
                pair.waits.into(),
                pair.worst.into(),
                pair.worst_at.into(),
                pair.worst_cpu.into(),
            ]);
        }
        vec![table]
    }
}
