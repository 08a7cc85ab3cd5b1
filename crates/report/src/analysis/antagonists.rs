//! Antagonists: the tasks that had a CPU while others waited there, and for how long.
//!
//! Three rows are not tasks. `(unknown)` is an unknown task after lost events, also if the waiting task must have run
//! unseen. `(idle)` is a CPU that wakes up. `(throttled: /its/group)` is a group's limit, from simulated runs and their
//! text traces.

use std::collections::BTreeMap;

use super::world::{Cpu, On, Span, State, Step, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind};
use crate::throttle_state::ThrottleCause;

/// The most pairs with their own row. Others are summed.
const MOST_PAIRS: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Task(u32),
    Idle,
    Unknown,
    /// A limit, not a CPU.
    Throttled(ThrottleCause),
}

/// The longest [`Queue::log`].
const MOST_LOGGED: usize = 1 << 14;

pub(super) const THROTTLED: &str = "(throttled: ";

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    ns: u64,
    waits: u64,
    /// The longest delay of a wait, with end and CPU.
    worst: u64,
    worst_at: i64,
    worst_cpu: u32,
}

impl Pair {
    fn add(&mut self, ns: u64, at: i64, cpu: u32) {
        self.ns += ns;
        self.waits += 1;
        if ns > self.worst {
            (self.worst, self.worst_at, self.worst_cpu) = (ns, at, cpu);
        }
    }
}

/// Times by cause, sorted by cause.
type Shares = Vec<(By, u64)>;

#[derive(Clone, Debug, Default)]
struct Wait {
    /// The CPU and the part of its log that `shares` lack, while the task waits.
    queued: Option<(u32, usize)>,
    /// The limit that it waits for.
    cause: Option<ThrottleCause>,
    shares: Shares,
}

/// The waiting tasks of a CPU.
#[derive(Clone, Debug, Default)]
struct Queue {
    tasks: Vec<u32>,
    /// What the CPU did while tasks waited, in order. One log serves all waiting tasks.
    log: Vec<(By, u64)>,
    /// The log's end.
    until: i64,
}

impl Queue {
    /// Adds to the log that `on` had the CPU until `at`.
    fn log(&mut self, at: i64, on: On) {
        let ns = at.saturating_sub(self.until).max(0) as u64;
        self.until = at.max(self.until);
        if ns > 0 && !self.tasks.is_empty() {
            let who = match on {
                On::Task(other) => By::Task(other),
                On::Idle => By::Idle,
                On::Unknown => By::Unknown,
            };
            self.log.push((who, ns));
        }
    }
}

/// Sorts times by cause, and sums those of one cause.
fn summed(mut shares: Shares) -> Shares {
    shares.sort_unstable_by_key(|&(who, _)| who);
    shares.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    shares
}

#[derive(Debug, Default)]
pub(super) struct Antagonists {
    queues: Vec<Queue>,
    waits: Vec<Wait>,
    /// Delays of each task by cause, sorted by cause.
    pairs: Vec<Vec<(By, Pair)>>,
    /// Number of pairs, and the sum of those beyond [`MOST_PAIRS`].
    count: usize,
    others: Pair,
    by_name: bool,
}

impl Antagonists {
    pub(super) fn new(options: &Options) -> Self {
        Self { by_name: !options.each_task, ..Self::default() }
    }

    fn queue(&mut self, cpu: u32) -> &mut Queue {
        if cpu as usize >= self.queues.len() {
            self.queues.resize_with(cpu as usize + 1, Queue::default);
        }
        &mut self.queues[cpu as usize]
    }

    fn wait(&mut self, task: u32) -> &mut Wait {
        if task as usize >= self.waits.len() {
            self.waits.resize(task as usize + 1, Wait::default());
        }
        &mut self.waits[task as usize]
    }

    /// Adds what the log has of a waiting task to the task's shares.
    fn book(&mut self, task: u32) {
        let Some(wait) = self.waits.get_mut(task as usize) else { return };
        let Some((cpu, from)) = wait.queued else { return };
        let log = &self.queues[cpu as usize].log;
        wait.queued = Some((cpu, log.len()));
        let new = &log[from..];
        if new.is_empty() {
            return;
        }
        if let Some(cause) = wait.cause {
            wait.shares.push((By::Throttled(cause), new.iter().map(|(_, ns)| ns).sum()));
        } else {
            wait.shares.extend(new.iter().filter(|(who, _)| *who != By::Task(task)));
        }
        wait.shares = summed(std::mem::take(&mut wait.shares));
    }

    /// Adds to a CPU's log that `on` had the CPU until `at`.
    fn log(&mut self, cpu: u32, at: i64, on: On) {
        let queue = self.queue(cpu);
        queue.log(at, on);
        if queue.log.len() > MOST_LOGGED {
            for place in 0..queue.tasks.len() {
                let task = self.queues[cpu as usize].tasks[place];
                self.book(task);
                self.wait(task).queued = Some((cpu, 0));
            }
            self.queue(cpu).log.clear();
        }
    }

    /// Ends a wait. `seen`: an event shows its end.
    fn end(&mut self, at: i64, task: u32, cpu: u32, seen: bool) {
        let mut shares = std::mem::take(&mut self.wait(task).shares);
        if !seen {
            shares = vec![(By::Unknown, shares.iter().map(|(_, ns)| ns).sum())];
        }
        if task as usize >= self.pairs.len() {
            self.pairs.resize_with(task as usize + 1, Vec::new);
        }
        let pairs = &mut self.pairs[task as usize];
        let (known, few) = (pairs.len(), shares.len() * 16 < pairs.len());
        let mut place = 0;
        for (who, ns) in shares {
            // Both are sorted, so one pass finds all.
            place = if few {
                pairs[..known].partition_point(|pair| pair.0 < who)
            } else {
                place + pairs[place..known].iter().take_while(|pair| pair.0 < who).count()
            };
            let pair = match pairs[..known].get_mut(place) {
                Some((by, pair)) if *by == who => pair,
                _ if self.count < MOST_PAIRS => {
                    self.count += 1;
                    let mut pair = Pair::default();
                    pair.add(ns, at, cpu);
                    pairs.push((who, pair));
                    continue;
                }
                _ => &mut self.others,
            };
            pair.add(ns, at, cpu);
        }
        if pairs.len() > known {
            pairs.sort_by_key(|&(who, _)| who);
        }
    }

    fn join(&mut self, at: i64, task: u32, cpu: u32, on: On) {
        self.log(cpu, at, on);
        let queue = self.queue(cpu);
        queue.tasks.push(task);
        let from = queue.log.len();
        self.wait(task).queued = Some((cpu, from));
    }

    fn leave(&mut self, at: i64, task: u32, span: Span, on: On) {
        self.log(span.cpu, at, on);
        self.book(task);
        self.wait(task).queued = None;
        let queue = self.queue(span.cpu);
        if let Some(place) = queue.tasks.iter().position(|&other| other == task) {
            queue.tasks.swap_remove(place);
        }
        if queue.tasks.is_empty() {
            queue.log.clear();
        }
    }

    fn name(&self, world: &World, who: By) -> String {
        match who {
            By::Task(task) if self.by_name => world.class(task),
            By::Task(task) => world.name(task),
            By::Idle => "(idle)".to_owned(),
            By::Unknown => "(unknown)".to_owned(),
            By::Throttled(ThrottleCause::Group(group)) => {
                let path = world.cgroups.rows().get(group as usize).map_or("", |row| &row.path);
                format!("{THROTTLED}{path})")
            }
            By::Throttled(ThrottleCause::Realtime) => format!("{THROTTLED}real-time)"),
            By::Throttled(ThrottleCause::Runtime) => format!("{THROTTLED}own runtime)"),
        }
    }
}

impl Analysis for Antagonists {
    fn step(&mut self, step: &Step, world: &World) {
        let at = step.at;
        // The CPU's previous task.
        let before = |cpu: u32| match world.cpu_was {
            Some((other, was)) if other == cpu => was.on,
            _ => world.cpus().get(cpu as usize).map_or(On::Unknown, |row: &Cpu| row.on),
        };
        if let Some((cpu, was)) = world.cpu_was {
            self.log(cpu, at, was.on);
        }
        for change in &world.changes {
            if change.was.state == State::Waiting {
                self.leave(at, change.task, change.was, before(change.was.cpu));
                if change.now.state != State::Waiting {
                    self.end(at, change.task, change.was.cpu, world.unseen != Some(change.task));
                }
            }
            if change.now.state == State::Waiting {
                if change.was.state != State::Waiting {
                    self.wait(change.task).cause = None;
                }
                self.join(at, change.task, change.now.cpu, before(change.now.cpu));
            }
        }
    }

    fn throttling_changed(&mut self, task: u32, cause: Option<ThrottleCause>, world: &World) {
        let Some((_, at)) = world.span else { return };
        if let Some((cpu, _)) = self.wait(task).queued {
            self.log(cpu, at, world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on));
            self.book(task);
        }
        self.wait(task).cause = cause;
    }

    fn finish(&mut self, world: &World) {
        let Some((_, at)) = world.span else { return };
        for cpu in 0..self.queues.len() as u32 {
            let on = world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on);
            self.log(cpu, at, on);
            for task in std::mem::take(&mut self.queue(cpu).tasks) {
                self.book(task);
                self.end(at, task, cpu, true);
            }
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let mut named: BTreeMap<(String, String), Pair> = BTreeMap::new();
        let mut total: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |task: String, who: String, pair: &Pair| {
            *total.entry(task.clone()).or_default() += pair.ns;
            let sum = named.entry((task, who)).or_default();
            (sum.ns, sum.waits) = (sum.ns + pair.ns, sum.waits + pair.waits);
            if pair.worst > sum.worst {
                (sum.worst, sum.worst_at, sum.worst_cpu) = (pair.worst, pair.worst_at, pair.worst_cpu);
            }
        };
        if self.others.waits > 0 {
            add("(others)".to_owned(), "(others)".to_owned(), &self.others);
        }
        for (task, pairs) in self.pairs.iter().enumerate().filter(|(_, pairs)| !pairs.is_empty()) {
            let waited = self.name(world, By::Task(task as u32));
            for (who, pair) in pairs {
                add(waited.clone(), self.name(world, *who), pair);
            }
        }
        let mut rows: Vec<(&(String, String), &Pair)> = named.iter().collect();
        rows.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(b.0)));
        let columns = [
            ("waited", "Waited", Kind::Text),
            ("for_task", "Waited for", Kind::Text),
            ("total_ns", "Total", Kind::Nanoseconds),
            ("share", "Share of wait", Kind::Share),
            ("waits", "Waits", Kind::Count),
            ("worst_ns", "Worst", Kind::Nanoseconds),
            ("worst_end_ns", "Until", Kind::Instant),
            ("worst_cpu", "CPU", Kind::Count),
        ];
        let mut table = DataTable::new("antagonists", "Tasks that waited, and the tasks that had their CPU", &columns);
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
