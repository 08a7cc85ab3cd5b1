//! The critical path of a task: its own work, and in its sleeps the work of the tasks that led to its wakeup.
//!
//! Each instant of the task's life belongs to one task and activity. While the task runs or waits for a CPU, this is
//! the task. A sleep is walked backwards from the wakeup: the waker ran, waited or slept. In the waker's sleep, the
//! walk continues with its waker, back to the start of the first sleep. A wakeup by an interrupt (by the trace's flags,
//! or since the CPU was idle) ends the walk. Without such flags (`perf script`), the running task is the waker.
//!
//! Memory is bounded by the work in one sleep of the task.

use std::collections::BTreeMap;

use super::world::{On, Span, State, Step, What, World};
use super::{Analysis, Options};
use crate::data::{DataTable, Kind};

/// The most pieces of other tasks' work in a sleep. Others are counted.
const MOST_PIECES: usize = 1 << 20;
/// The most steps of a walk. Others are counted.
const MOST_STEPS: usize = 1 << 14;
/// The most steps shown of the longest sleep, from its end ([`CriticalPath::notes`]).
const SHOWN_STEPS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Runs,
    Waits,
    Sleeps,
    Unknown,
}

impl Doing {
    const fn text(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Waits => "waits for a CPU",
            Self::Sleeps => "sleeps until an interrupt",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    state: State,
    begin: i64,
    end: i64,
    /// A sleep's waker.
    waker: On,
}

#[derive(Clone, Debug, Default)]
struct Past {
    /// The number of the sleep that this belongs to.
    sleep: u64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    task: u32,
    doing: Doing,
    begin: i64,
    end: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ns: u64,
    count: u64,
    longest: u64,
    longest_at: i64,
}

#[derive(Debug)]
pub(super) struct CriticalPath {
    wanted: String,
    target: Option<u32>,
    asleep: bool,
    sleeps: u64,
    past: Vec<Past>,
    kept: usize,
    /// Pieces beyond the limit, and walks that ended early.
    forgotten: u64,
    cut: u64,
    sums: BTreeMap<(u32, Doing), Sum>,
    longest: (u64, Vec<Link>),
}

impl CriticalPath {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            wanted: options.task.clone().unwrap_or_default(),
            target: None,
            asleep: false,
            sleeps: 0,
            past: Vec::new(),
            kept: 0,
            forgotten: 0,
            cut: 0,
            sums: BTreeMap::new(),
            longest: (0, Vec::new()),
        }
    }

    fn add(&mut self, link: Link) {
        let ns = link.end.saturating_sub(link.begin).max(0) as u64;
        if ns == 0 {
            return;
        }
        let sum = self.sums.entry((link.task, link.doing)).or_default();
        sum.ns += ns;
        sum.count += 1;
        if ns > sum.longest {
            (sum.longest, sum.longest_at) = (ns, link.begin);
        }
    }

    /// Keeps work of a task that may matter to the current sleep.
    fn remember(&mut self, task: u32, was: Span, at: i64, waker: On) {
        if at <= was.since {
            return;
        }
        if self.kept >= MOST_PIECES {
            self.forgotten += 1;
            return;
        }
        if task as usize >= self.past.len() {
            self.past.resize_with(task as usize + 1, Past::default);
        }
        let past = &mut self.past[task as usize];
        if past.sleep != self.sleeps {
            past.sleep = self.sleeps;
            past.pieces.clear();
        }
        past.pieces.push(Piece { state: was.state, begin: was.since, end: at, waker });
        self.kept += 1;
    }

    /// Returns a task's state just before `cursor`.
    fn piece(&self, world: &World, task: u32, cursor: i64) -> Option<Piece> {
        let now = world.state(task);
        if now.since < cursor {
            return Some(Piece { state: now.state, begin: now.since, end: cursor, waker: On::Unknown });
        }
        let past = self.past.get(task as usize).filter(|past| past.sleep == self.sleeps)?;
        let after = past.pieces.partition_point(|piece| piece.begin < cursor);
        past.pieces.get(after.checked_sub(1)?).copied()
    }

    fn walk(&mut self, world: &World, target: u32, floor: i64, at: i64, waker: On) -> Vec<Link> {
        let mut links = Vec::new();
        let On::Task(mut who) = waker else {
            let doing = if waker == On::Idle { Doing::Sleeps } else { Doing::Unknown };
            return vec![Link { task: target, doing, begin: floor, end: at }];
        };
        let mut cursor = at;
        for step in 0.. {
            if cursor <= floor {
                return links;
            }
            if step == MOST_STEPS {
                self.cut += 1;
                break;
            }
            let Some(piece) = self.piece(world, who, cursor).filter(|piece| piece.end >= cursor) else { break };
            let begin = piece.begin.max(floor);
            let doing = match (piece.state, piece.waker) {
                (State::Running, _) => Doing::Runs,
                (State::Waiting, _) => Doing::Waits,
                // An unknown task was woken, so it slept.
                (State::Asleep | State::Unknown, On::Task(other)) if other != who && other != target => {
                    who = other;
                    continue;
                }
                (State::Asleep, _) => Doing::Sleeps,
                _ => Doing::Unknown,
            };
            links.push(Link { task: who, doing, begin, end: cursor });
            cursor = begin;
        }
        if cursor > floor {
            links.push(Link { task: who, doing: Doing::Unknown, begin: floor, end: cursor });
        }
        links
    }
}

impl Analysis for CriticalPath {
    fn step(&mut self, step: &Step, world: &World) {
        let at = step.at;
        if self.target.is_none() {
            self.target =
                world.changes.iter().map(|change| change.task).find(|&task| world.is_called(task, &self.wanted));
        }
        let Some(target) = self.target else { return };
        let waker = match step.what {
            // The interrupted task is not the waker.
            What::Waking { .. } | What::Woken { .. } if step.irq => On::Idle,
            What::Waking { .. } | What::Woken { .. } => step.by,
            _ => On::Unknown,
        };
        for change in &world.changes {
            if change.task != target {
                if self.asleep {
                    self.remember(change.task, change.was, at, waker);
                }
                continue;
            }
            let link = |doing| Link { task: target, doing, begin: change.was.since, end: at };
            match change.was.state {
                State::Running => self.add(link(Doing::Runs)),
                State::Waiting if change.now.state == State::Waiting => {}
                State::Waiting if world.unseen == Some(target) => self.add(link(Doing::Unknown)),
                State::Waiting => self.add(link(Doing::Waits)),
                State::Asleep => {
                    let links = self.walk(world, target, change.was.since, at, waker);
                    let ns = at.saturating_sub(change.was.since).max(0) as u64;
                    for &link in &links {
                        self.add(link);
                    }
                    if ns > self.longest.0 {
                        self.longest = (ns, links);
                    }
                }
                State::Unknown | State::Gone => {}
            }
            self.asleep = change.now.state == State::Asleep;
            if self.asleep {
                self.sleeps += 1;
                self.kept = 0;
            }
        }
    }

    fn task(&self) -> Option<u32> {
        self.target
    }

    fn finish(&mut self, world: &World) {
        let (Some(target), Some((_, end))) = (self.target, world.span) else { return };
        let span = world.state(target);
        let doing = match span.state {
            State::Running => Doing::Runs,
            State::Waiting => Doing::Waits,
            // No event ended the sleep.
            State::Asleep => Doing::Unknown,
            State::Unknown | State::Gone => return,
        };
        self.add(Link { task: target, doing, begin: span.since, end });
    }

    fn notes(&self) -> Vec<(u64, &'static str)> {
        let hidden = self.longest.1.len().saturating_sub(SHOWN_STEPS);
        vec![
            (hidden as u64, "steps that the table critical_path_longest leaves out (it has the last 200)"),
            (self.cut, "sleeps with more than 16384 steps (only the last 16384 are known)"),
            (self.forgotten, "steps of other tasks during sleeps beyond the limit of 1048576 (unknown)"),
        ]
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let name = self.target.map_or_else(|| self.wanted.clone(), |target| world.name(target));
        let groups = world.cgroups.several();
        let mut columns = vec![
            ("task", "Task", Kind::Text),
            ("doing", "Doing", Kind::Text),
            ("total_ns", "Together", Kind::Nanoseconds),
            ("share", "Of its life", Kind::Share),
            ("count", "Times", Kind::Count),
            ("longest_ns", "Longest", Kind::Nanoseconds),
            ("longest_start_ns", "From", Kind::Instant),
        ];
        if groups {
            columns.insert(1, ("group", "Group", Kind::Text));
        }
        let title =
            format!("Critical path of {name}: its own work, and during its sleeps the tasks that led to its wakeup");
        let mut table = DataTable::new("critical_path", title, &columns);
        let total: u64 = self.sums.values().map(|sum| sum.ns).sum();
        let mut rows: Vec<(&(u32, Doing), &Sum)> = self.sums.iter().collect();
        rows.sort_by_key(|&(key, sum)| (std::cmp::Reverse(sum.ns), world.pid(key.0), *key));
        for (&(task, doing), sum) in rows {
            let mut row = vec![
                world.name(task).into(),
                doing.text().into(),
                sum.ns.into(),
                (sum.ns as f64 / total.max(1) as f64).into(),
                sum.count.into(),
                sum.longest.into(),
                sum.longest_at.into(),
            ];
            if groups {
                row.insert(1, world.cgroups.path_of(task).into());
            }
            table.push(row);
        }
        let columns = [
            ("task", "Task", Kind::Text),
            ("doing", "Doing", Kind::Text),
            ("start_ns", "From", Kind::Instant),
            ("duration_ns", "Duration", Kind::Nanoseconds),
        ];
        let mut longest = DataTable::new("critical_path_longest", format!("The longest sleep of {name}"), &columns);
        let links = &self.longest.1;
        let shown = links.len().min(SHOWN_STEPS);
        for link in links[..shown].iter().rev() {
            longest.push(vec![
                world.name(link.task).into(),
                link.doing.text().into(),
                link.begin.into(),
                (link.end - link.begin).into(),
            ]);
        }
        vec![table, longest]
    }
}
