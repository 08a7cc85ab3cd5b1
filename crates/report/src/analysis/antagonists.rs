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

/// Delayed task and cause. None: pairs beyond [`MOST_PAIRS`].
type Key = Option<(u32, By)>;

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

#[derive(Clone, Debug, Default)]
struct Wait {
    /// `shares` include the time up to here.
    since: i64,
    /// The limit that it waits for.
    cause: Option<ThrottleCause>,
    shares: Vec<(By, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Antagonists {
    /// Waiting tasks by CPU.
    queues: Vec<Vec<u32>>,
    waits: Vec<Wait>,
    pairs: BTreeMap<Key, Pair>,
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

    fn wait(&mut self, task: u32) -> &mut Wait {
        if task as usize >= self.waits.len() {
            self.waits.resize(task as usize + 1, Wait::default());
        }
        &mut self.waits[task as usize]
    }

    /// Books the delay of a waiting task by `on` until now.
    fn book(&mut self, at: i64, task: u32, on: On) {
        let wait = self.wait(task);
        let who = match (wait.cause, on) {
            (Some(cause), _) => By::Throttled(cause),
            (None, On::Task(other)) => By::Task(other),
            (None, On::Idle) => By::Idle,
            (None, On::Unknown) => By::Unknown,
        };
        let ns = at.saturating_sub(wait.since).max(0) as u64;
        wait.since = at.max(wait.since);
        if ns == 0 || who == By::Task(task) {
            return;
        }
        let shares = &mut wait.shares;
        match shares.iter_mut().find(|(by, _)| *by == who) {
            Some((_, sum)) => *sum += ns,
            None => shares.push((who, ns)),
        }
    }

    /// Ends a wait. `seen`: an event shows its end.
    fn end(&mut self, at: i64, task: u32, cpu: u32, seen: bool) {
        let mut shares = std::mem::take(&mut self.wait(task).shares);
        if !seen {
            shares = vec![(By::Unknown, shares.iter().map(|(_, ns)| ns).sum())];
        }
        for (who, ns) in shares {
            let full = self.pairs.len() >= MOST_PAIRS;
            let key = Some((task, who)).filter(|_| !full || self.pairs.contains_key(&Some((task, who))));
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

    fn names(&self, world: &World, key: Key) -> (String, String) {
        match key {
            Some((task, who)) => (self.name(world, By::Task(task)), self.name(world, who)),
            None => ("(others)".to_owned(), "(others)".to_owned()),
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
                    self.end(at, change.task, change.was.cpu, world.unseen != Some(change.task));
                }
            }
            if change.now.state == State::Waiting {
                if change.was.state != State::Waiting {
                    let wait = self.wait(change.task);
                    (wait.since, wait.cause) = (at, None);
                }
                self.queue(change.now.cpu).push(change.task);
            }
        }
    }

    fn throttling_changed(&mut self, task: u32, cause: Option<ThrottleCause>, world: &World) {
        let Some((_, at)) = world.span else { return };
        let cpu = world.state(task).cpu;
        self.book(at, task, world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on));
        self.wait(task).cause = cause;
    }

    fn finish(&mut self, world: &World) {
        let Some((_, at)) = world.span else { return };
        for cpu in 0..self.queues.len() as u32 {
            let on = world.cpus().get(cpu as usize).map_or(On::Unknown, |row| row.on);
            for task in std::mem::take(self.queue(cpu)) {
                self.book(at, task, on);
                self.end(at, task, cpu, true);
            }
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let mut named: BTreeMap<(String, String), Pair> = BTreeMap::new();
        let mut total: BTreeMap<String, u64> = BTreeMap::new();
        for (&key, pair) in &self.pairs {
            let (task, who) = self.names(world, key);
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
