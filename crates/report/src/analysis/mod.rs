//! Analyses of recorded or simulated traces, one file each. They read events in one pass, and keep sums.
//!
//! ```
//! use vruntime_report::{Analyses, AnalysisKind, AnalysisOptions};
//! use vruntime_trace::read::TextReader;
//!
//! let text = b"  bash-7 [001] 0.000001: sched_waking: comm=make pid=8 prio=120 target_cpu=001\n\
//!   bash-7 [001] 0.000005: sched_switch: prev_comm=bash prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=make next_pid=8 next_prio=120\n";
//! let mut reader = TextReader::new(&text[..]);
//! let mut analyses = Analyses::new(&[AnalysisKind::Latency], &AnalysisOptions::default());
//! while let Some(record) = reader.next_record()? {
//!     analyses.add(&record);
//! }
//! analyses.end();
//! let latency = &analyses.tables()[0];
//! assert_eq!(latency.json()[0]["max_delay_ns"], 4_000);
//! # Ok::<(), vruntime_trace::read::Error>(())
//! ```

mod antagonists;
mod bins;
mod cgroups;
mod critical;
mod gaps;
mod groups;
mod idle_waiting;
mod latency;
mod live;
mod migrations;
mod names;
mod overview;
mod records;
mod runqueue;
mod sentences;
mod task_throttles;
mod throttling;
mod timehist;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use vruntime_trace::{CpuMask, Record};

use crate::data::{DataTable, Shown};
use crate::table::fit_text;
use crate::throttle_state::ThrottleCause;
pub use cgroups::MachineGroups;
use cgroups::Update;
use world::{Step, What, World};

/// The analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnalysisKind {
    /// Delays from runnable to running (`perf sched latency`).
    Latency,
    /// Every switch (`perf sched timehist`).
    TimeHist,
    /// Summary of the switches (`perf sched timehist --summary`).
    Summary,
    /// Tasks that had the CPU of waiting tasks.
    Antagonists,
    /// Waits beside an idle CPU that could have run the task.
    IdleWhileWaiting,
    /// Runnable tasks by CPU and time.
    RunQueue,
    /// Migrations by cause.
    Migrations,
    /// Use and entitlement of groups.
    Groups,
    /// Effects of groups' limits.
    Throttling,
    /// Work of a task, and of the tasks that led to its wakeups.
    CriticalPath,
}

impl AnalysisKind {
    /// All analyses.
    pub const ALL: [Self; 10] = [
        Self::Latency,
        Self::TimeHist,
        Self::Summary,
        Self::Antagonists,
        Self::IdleWhileWaiting,
        Self::RunQueue,
        Self::Migrations,
        Self::Groups,
        Self::Throttling,
        Self::CriticalPath,
    ];

    /// Analyses that fit a page and need no further data.
    pub const USUAL: [Self; 5] =
        [Self::Latency, Self::Antagonists, Self::IdleWhileWaiting, Self::RunQueue, Self::Migrations];

    /// Whether it needs groups.
    pub const fn tells_groups(self) -> bool {
        matches!(self, Self::Groups | Self::Throttling | Self::CriticalPath)
    }

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::TimeHist => "timehist",
            Self::Summary => "summary",
            Self::Antagonists => "antagonists",
            Self::IdleWhileWaiting => "idle-while-waiting",
            Self::RunQueue => "runqueue",
            Self::Migrations => "migrations",
            Self::Groups => "groups",
            Self::Throttling => "throttling",
            Self::CriticalPath => "critical-path",
        }
    }
}

impl fmt::Display for AnalysisKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AnalysisKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no analysis `{name}`; the analyses are {names}")
        })
    }
}

/// Options of the analyses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// Whether to have a row for each task, instead of each name (`perf sched latency --pids`).
    pub each_task: bool,
    /// Task of the critical path: pid, name, `name-pid`, or class.
    pub task: Option<String>,
    /// Whether the run replays a recording, whose names and pids tasks then have.
    pub replayed: bool,
}

use AnalysisOptions as Options;

/// An analysis. It receives each step after the world.
trait Analysis: fmt::Debug + Send + Sync {
    fn step(&mut self, step: &Step, world: &World);
    /// Begins a simulated run: all CPUs are idle at 0. Affinities follow.
    fn simulated(&mut self, _cpus: usize) {}
    fn affinity(&mut self, _task: u32, _cpus: Option<&CpuMask>, _world: &World) {}
    /// Reports why a task waits, if not for a CPU. Only in simulated runs with throttled tasks.
    fn throttling_changed(&mut self, _task: u32, _cause: Option<ThrottleCause>, _world: &World) {}
    /// Announces a change of a CPU's limits. Only in simulated runs.
    fn limits_change(&mut self, _cpu: u32, _world: &World) {}
    /// Announces an event at this time, perhaps no step. Only in simulated runs.
    fn passes(&mut self, _at: u64, _world: &World) {}
    /// Reports a fact on groups or weights.
    fn update(&mut self, _update: Update, _world: &World) {}
    fn finish(&mut self, _world: &World) {}
    /// Returns caveats and omissions, each with a count.
    fn notes(&self) -> Vec<(u64, &'static str)> {
        Vec::new()
    }
    /// Returns its task, if it is about one.
    fn task(&self) -> Option<u32> {
        None
    }
    fn tables(&self, world: &World) -> Vec<DataTable>;
    /// Returns text for a terminal.
    fn text(&self, world: &World, shown: Shown) -> String {
        let tables = self.tables(world);
        tables.iter().map(|table| table.text_without(self.spare(), shown)).collect::<Vec<String>>().join("\n")
    }
    /// Returns keys of columns that a narrow terminal omits.
    fn spare(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Analyses of a trace in one pass, by [`Analyses::add`], or as a run's [`Sink`](vruntime_trace::Sink).
#[derive(Debug)]
pub struct Analyses {
    world: World,
    gaps: gaps::Gaps,
    chosen: Vec<(AnalysisKind, Box<dyn Analysis>)>,
    overview: Option<Box<overview::Overview>>,
    replayed: bool,
    /// Unreadable parts of the file, a sentence each.
    damage: Vec<String>,
    /// Where the reading stopped before the end of the trace, a sentence.
    stopped: Option<String>,
}

impl Analyses {
    /// Creates these analyses, each once.
    pub fn new(kinds: &[AnalysisKind], options: &AnalysisOptions) -> Self {
        let mut chosen: Vec<(AnalysisKind, Box<dyn Analysis>)> = Vec::new();
        for &kind in kinds {
            if chosen.iter().any(|&(other, _)| other == kind) {
                continue;
            }
            let analysis: Box<dyn Analysis> = match kind {
                AnalysisKind::Latency => Box::new(latency::Latencies::new(options)),
                AnalysisKind::TimeHist => Box::new(timehist::TimeHist::new(options)),
                AnalysisKind::Summary => Box::new(timehist::TimeHist::summary(options)),
                AnalysisKind::Antagonists => Box::new(antagonists::Antagonists::new(options)),
                AnalysisKind::IdleWhileWaiting => Box::new(idle_waiting::IdleWaiting::new(options)),
                AnalysisKind::RunQueue => Box::new(runqueue::RunQueues::new(options)),
                AnalysisKind::Migrations => Box::new(migrations::Migrations::new(options)),
                AnalysisKind::Groups => Box::new(groups::GroupUse::new(options)),
                AnalysisKind::Throttling => Box::new(throttling::Throttling::new(options)),
                AnalysisKind::CriticalPath => Box::new(critical::CriticalPath::new(options)),
            };
            chosen.push((kind, analysis));
        }
        let mut world = World::default();
        world.cgroups.wanted = chosen.iter().any(|(kind, _)| kind.tells_groups());
        Self {
            world,
            gaps: gaps::Gaps::default(),
            chosen,
            overview: None,
            replayed: options.replayed,
            damage: Vec::new(),
            stopped: None,
        }
    }

    /// Also gathers the charts of a [`Page`](crate::Page).
    #[must_use]
    pub fn with_overview(mut self) -> Self {
        self.overview = Some(Box::default());
        self
    }

    /// Adds the groups of the recorded machine.
    #[must_use]
    pub fn with_groups(mut self, groups: Arc<dyn MachineGroups>) -> Self {
        self.world.cgroups.set_machine(groups);
        self
    }

    /// Adds unreadable parts of the file, a sentence each, for [`Analyses::notes`].
    pub fn add_damage(&mut self, damage: Vec<String>) {
        self.damage.extend(damage);
    }

    /// Sets the sentence that says where the reading stopped before the end of the trace, for [`Analyses::notes`].
    pub fn set_stopped(&mut self, stopped: Option<String>) {
        self.stopped = stopped;
    }

    /// Returns an analysis without a result because facts on groups are unknown, with that fact. Call it after the end.
    pub fn lacks(&self) -> Option<(AnalysisKind, &'static str)> {
        let cgroups = &self.world.cgroups;
        self.chosen.iter().find_map(|&(kind, _)| match kind {
            AnalysisKind::Groups | AnalysisKind::Throttling if !cgroups.known() => {
                Some((kind, "the groups of its tasks are unknown"))
            }
            AnalysisKind::Throttling if !cgroups.settings_known() => {
                Some((kind, "the limits of its groups are unknown"))
            }
            _ => None,
        })
    }

    /// Returns the data of a page's charts. None without [`Analyses::with_overview`].
    pub(crate) fn overview_json(&self) -> Option<Value> {
        self.overview.as_ref().map(|overview| overview.json(&self.world))
    }

    /// Adds the next recorded event.
    pub fn add(&mut self, record: &Record<'_>) {
        let Self { world, gaps, .. } = self;
        records::steps(world, record, |step| gaps.add(step));
        self.process_buffered(false);
    }

    fn process_buffered(&mut self, all: bool) {
        while let Some(step) = self.gaps.next(all) {
            self.step_of_trace(&step);
        }
    }

    fn step(&mut self, step: &Step) {
        if let What::Named { task, name } = step.what {
            self.world.rename(task, name);
            return;
        }
        let step = Step { at: self.world.time(step.at), ..*step };
        if !self.world.apply(&step) {
            return;
        }
        if let What::Update(update) = step.what {
            self.chosen.iter_mut().for_each(|(_, analysis)| analysis.update(update, &self.world));
        } else {
            for (_, analysis) in &mut self.chosen {
                analysis.step(&step, &self.world);
            }
            if let Some(overview) = &mut self.overview {
                overview.step(&step, &self.world);
            }
        }
    }

    /// Ends the trace after the last event. A run calls it itself.
    pub fn end(&mut self) {
        self.process_buffered(true);
        for (_, analysis) in &mut self.chosen {
            analysis.finish(&self.world);
        }
        if let Some(overview) = &mut self.overview {
            overview.finish(&self.world);
        }
    }

    /// Returns the tasks with this pid, name or class, as `name-pid`.
    pub fn tasks_called(&self, wanted: &str) -> Vec<String> {
        let tasks = (0..self.world.tasks() as u32).filter(|&task| self.world.is_called(task, wanted));
        tasks.map(|task| self.world.name(task)).collect()
    }

    /// Returns the distinct names of tasks, or of their classes.
    pub fn task_names(&self) -> BTreeSet<String> {
        let tasks = (0..self.world.tasks() as u32).filter(|&task| self.world.pid(task) != 0);
        tasks.map(|task| self.world.class(task)).collect()
    }

    /// Returns the task of the critical path, as `name-pid`: the first match that did anything.
    pub fn critical_task(&self) -> Option<String> {
        let task = self.chosen.iter().find_map(|(_, analysis)| analysis.task())?;
        Some(self.world.name(task))
    }

    /// Returns all tables, in the requested order.
    pub fn tables(&self) -> Vec<DataTable> {
        self.chosen.iter().flat_map(|(_, analysis)| analysis.tables(&self.world)).collect()
    }

    /// Whether its text is only perf's lines, for programs. The caller then prints [`Analyses::notes`] elsewhere.
    pub fn is_for_machines(&self) -> bool {
        self.chosen.iter().any(|(kind, _)| *kind == AnalysisKind::TimeHist)
    }

    /// Returns text for a terminal, with at most `rows` rows per table and `lines` lines of `timehist`. Notes follow,
    /// unless it is for machines.
    pub fn text(&self, shown: Shown) -> String {
        let parts = self.chosen.iter().map(|(_, analysis)| analysis.text(&self.world, shown));
        let notes = if self.is_for_machines() { Vec::new() } else { self.notes() };
        let lines: Vec<String> = notes.iter().map(|note| fit_text(note, "  ")).collect();
        let known = (!notes.is_empty()).then(|| format!("Notes:\n{}\n", lines.join("\n")));
        parts.chain(known).collect::<Vec<String>>().join("\n")
    }

    /// Returns caveats, a line each.
    pub fn notes(&self) -> Vec<String> {
        let faults = self.world.faults;
        let losses = [
            (faults.losses.gaps, "gaps where events were lost"),
            (faults.losses.events, "events lost in these gaps, as far as the file counts them"),
            (
                self.gaps.arrivals,
                "switches to a task that are missing: assumed at the task's wakeup, or computed back from its run time",
            ),
            (faults.broken, "switches away from a task that was not running (its switch to the CPU is missing)"),
            (faults.unwoken, "sleeps that ended without a wakeup event"),
            (faults.unseen, "wakeups of a task that already waited since a wakeup: it ran in between without an event"),
            (faults.jumps, "jumps of the clock: the time of a jump is left out, and later times are shifted"),
            (faults.unordered, "events earlier than the event before them (read as simultaneous)"),
            (faults.impossible, "pids or CPUs beyond the limits of Linux"),
            (self.world.cgroups.refused, "mentions of groups beyond the first 65536 or more than 256 deep (left out)"),
        ];
        let notes = self.chosen.iter().flat_map(|(_, analysis)| analysis.notes());
        let losses = losses.into_iter().chain(notes).filter(|(count, _)| *count > 0);
        let losses = losses.map(|(count, what)| format!("{what}: {count}"));
        self.stopped.iter().chain(&self.damage).cloned().chain(losses).collect()
    }

    /// Returns all tables by name, and the notes.
    pub fn json(&self) -> Value {
        let tables: Map<String, Value> =
            self.tables().iter().map(|table| (table.name.to_owned(), table.json())).collect();
        let faults = self.world.faults;
        json!({
            "elapsed_ns": self.world.elapsed(),
            "tables": tables,
            "notes": self.notes(),
            "damage": self.damage,
            "stopped_early": self.stopped,
            "faults": {
                "losses": faults.losses.gaps,
                "lost": faults.losses.events,
                "broken_switches": faults.broken,
                "missing_arrivals": self.gaps.arrivals,
                "unwoken": faults.unwoken,
                "unseen_runs": faults.unseen,
                "clock_jumps": faults.jumps,
                "unordered": faults.unordered,
                "impossible": faults.impossible,
            },
        })
    }
}

#[cfg(test)]
mod tests;
