//! The section of `vruntime record` in a trace.dat, for a replay.

use std::collections::BTreeMap;
use std::path::Path;

use miette::{WrapErr, miette};
use serde::Deserialize;
use vruntime_replay::ReadOptions;
use vruntime_report::{ReplayCheck, ReplayTask, counted};
use vruntime_sched::features::FEATURES;
use vruntime_sched::kernels::has_feature;
use vruntime_sim::plan::{Machine, parse_kernel};
use vruntime_sim::{Costs, SwitchCosts};
use vruntime_trace::read::{self, Events, TraceDat};
use vruntime_trace::recording::Recording;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::Policy;
use vruntime_workload::{Error, Source};

use super::notes::Notes;
use crate::args::MAX_EVENT_COST;
use crate::machine_file;
use crate::trace_file::explain;

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) about: About,
    /// The recorded machine, with its costs if measured.
    pub(crate) machine: Machine,
    /// Groups before the first event, unless the part is empty.
    pub(crate) cgroups: Option<Cgroups>,
    /// Tasks before the first event, by thread id.
    pub(crate) tasks: BTreeMap<i32, Task>,
    /// Tasks after the last event, if listed.
    later: Vec<Task>,
}

/// The part `recording`. Unknown fields are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct About {
    pub(crate) vruntime: String,
    pub(crate) date: String,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The recorded group (`--cgroup`).
    pub(crate) cgroup: Option<String>,
    pub(crate) kernel: AboutKernel,
    pub(crate) machine: AboutMachine,
    began_ns: u64,
    ended_ns: u64,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) event_cost: Option<EventCost>,
    /// Where the events are from, by a name of [`lacks`]; missing in older recordings, which are from tracefs.
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) recorder_tids: Vec<i32>,
}

/// Returns what a recording with events from `source` lacks, if anything.
pub(crate) fn lacks(source: &str) -> Option<&'static str> {
    match source {
        "perf-switches" => Some("it has no wakeups, so time asleep and waits for a CPU cannot be separated"),
        "perf-command" => Some(
            "it has only the command's tasks, and no wakeups, so time asleep and waits for a CPU cannot be separated",
        ),
        _ => None,
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AboutKernel {
    pub(crate) release: String,
    #[serde(default)]
    pub(crate) features: Vec<String>,
    #[serde(default)]
    pub(crate) tunables: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AboutMachine {
    cpus: u32,
    #[serde(default)]
    frequencies: Vec<Frequency>,
}

#[derive(Clone, Debug, Deserialize)]
struct Frequency {
    cpu: u32,
    highest_khz: u32,
}

/// The cost of recording an event, nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct EventCost {
    pub(crate) ns: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Task {
    pub(crate) tid: i32,
    #[serde(default)]
    pid: i32,
    #[serde(default)]
    ppid: i32,
    pub(crate) state: String,
    policy: String,
    #[serde(default)]
    slice_ns: u64,
}

impl Section {
    /// Reads the section of a file, if it has one. Standard input cannot be read twice, and gives none.
    pub(crate) fn of(path: &Path) -> miette::Result<Option<Self>> {
        if path == Path::new("-") {
            return Ok(None);
        }
        // Reading the events reports this error.
        let Ok(mut file) = std::fs::File::open(path) else { return Ok(None) };
        let mut first = [0; 16];
        let read = std::io::Read::read(&mut file, &mut first).unwrap_or(0);
        if read::detect(&first[..read]) != Some(read::Kind::TraceDat) {
            return Ok(None);
        }
        let dat = TraceDat::new(file).map_err(|error| explain(path, &error))?;
        let Some(recording) = Events::notes(&dat).recording.clone() else { return Ok(None) };
        let cpus = Events::notes(&dat).cpus;
        Self::read(&path.display().to_string(), &recording, cpus).map(Some)
    }

    /// Reads the parts. `cpus` is the file's own number of CPUs.
    pub(crate) fn read(name: &str, recording: &Recording, cpus: Option<u32>) -> miette::Result<Self> {
        let part = |part: &str| Part::of(name, recording, part);
        let about: About = part("recording")?.json()?;
        let tasks: Vec<Task> = part("tasks")?.json()?;
        let after: Vec<Task> = recording.part("tasks-after").map_or(Ok(Vec::new()), |_| part("tasks-after")?.json())?;
        let machine = part("machine")?;
        let known = machine_file::parse(&machine.name, &machine.text)?.known(&machine.name);
        let machine = known.wrap_err_with(|| format!("{} describes no machine", machine.name))?;
        let machine = Machine { name: "as recorded".to_owned(), ..machine };
        let cgroups = part("cgroups")?;
        let cgroups = (!cgroups.text.is_empty()).then(|| cgroups.cgroups()).transpose()?;
        let count = tasks.len();
        let tasks: BTreeMap<i32, Task> = tasks.into_iter().map(|task| (task.tid, task)).collect();
        let this = Self { about, machine, cgroups, tasks, later: after };
        this.contradiction(&part("recording")?, count, cpus).map_or(Ok(this), |error| Err(error.into()))
    }

    /// Returns the error if parts contradict each other.
    fn contradiction(&self, part: &Part, tasks: usize, cpus: Option<u32>) -> Option<Error> {
        let about = &self.about;
        let has = self.machine.topology.nr_cpus();
        if about.ended_ns < about.began_ns {
            return Some(part.wrong("\"ended_ns\"", "the recording ends before it begins"));
        }
        if self.tasks.len() < tasks {
            return Some(part.wrong("", "the part `tasks` has a task twice"));
        }
        if has < about.machine.cpus as usize {
            let message = format!("{} CPUs were recorded, and the machine has {has}", about.machine.cpus);
            return Some(part.wrong("\"cpus\"", &message));
        }
        if let Some(cpus) = cpus.filter(|&cpus| cpus != about.machine.cpus) {
            let message = format!("{} CPUs were recorded, and the file has events of {cpus}", about.machine.cpus);
            return Some(part.wrong("\"cpus\"", &message));
        }
        None
    }

    /// Returns the highest frequency of each CPU, kHz; empty if one is unknown.
    pub(crate) fn highest_khz(&self) -> Vec<u32> {
        let AboutMachine { cpus, frequencies } = &self.about.machine;
        let of = |cpu: u32| frequencies.iter().find(|of| of.cpu == cpu).map(|of| of.highest_khz);
        (0..*cpus).map(of).collect::<Option<Vec<u32>>>().unwrap_or_default()
    }

    /// Returns the cost of recording an event, nanoseconds, if measured.
    pub(crate) fn event_cost_ns(&self) -> Option<u64> {
        self.about.event_cost.map(|cost| cost.ns.min(MAX_EVENT_COST))
    }

    /// Notes lost and missing events and the recorded group, and puts the group's tasks first.
    pub(crate) fn add_notes(&self, check: &mut ReplayCheck, notes: &mut Notes) {
        if self.about.lost > 0 {
            notes.is_guessed(&format!(
                "{} could not be kept when this was recorded",
                counted(self.about.lost, "event", "events")
            ));
        }
        if let Some(lacks) = self.about.source.as_deref().and_then(lacks) {
            notes.is_guessed(&format!("this was recorded without the necessary privileges: {lacks}"));
        }
        let Some(path) = &self.about.cgroup else { return };
        let inside = |task: &ReplayTask| {
            let rest = task.cgroup.as_deref().and_then(|cgroup| cgroup.strip_prefix(path.trim_end_matches('/')));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let count = check.tasks.iter().filter(|task| inside(task)).count() as u64;
        // A stable sort.
        check.tasks.sort_by_key(|task| !inside(task));
        notes.all.push(format!(
            "the recording is of the task group {path}: the first rows are its {}, and all other tasks are background",
            counted(count, "task", "tasks")
        ));
    }

    /// Returns what a reader must know of the recording. `switch_costs` precede its own.
    pub(crate) fn read_options(&self, switch_costs: Option<SwitchCosts>) -> ReadOptions {
        let own_costs = || self.machine.costs.as_ref().map(Costs::of_switches);
        ReadOptions {
            duration: None,
            machine: Some(self.machine.topology.clone()),
            highest_khz: self.highest_khz(),
            event_cost: self.event_cost_ns().unwrap_or(0),
            switch_costs: switch_costs.or_else(own_costs),
        }
    }

    /// Returns a kernel with the recorded features and tunables that are not its defaults, such as
    /// `6.12+NO_RUN_TO_PARITY`.
    pub(crate) fn kernel(&self, name: &str) -> String {
        let Ok((kernel, _)) = parse_kernel(name) else { return name.to_owned() };
        let AboutKernel { features, tunables, .. } = &self.about.kernel;
        let mut all = name.to_owned();
        for feature in features {
            let (bare, on) = feature.strip_prefix("NO_").map_or((feature.as_str(), true), |bare| (bare, false));
            let row = FEATURES.iter().find(|row| row.name == bare && has_feature(kernel.name, row.feature));
            if row.is_some_and(|row| kernel.features.has(row.feature) != on) {
                all.extend(["+", feature]);
            }
        }
        let usual = kernel.tunables(self.machine.topology.nr_cpus(), self.machine.hz.unwrap_or(250));
        let known = [
            ("base_slice_ns", usual.base_slice_ns),
            ("migration_cost_ns", usual.migration_cost_ns),
            ("nr_migrate", u64::from(usual.nr_migrate)),
        ];
        for (tunable, usual) in known {
            if let Some(&value) = tunables.get(tunable)
                && value != usual
                && kernel.accepts(tunable, value).is_ok()
            {
                all.extend(["+", tunable, "=", &value.to_string()]);
            }
        }
        all
    }

    /// Returns the number of tasks listed only after the last event.
    pub(crate) fn came(&self) -> usize {
        self.later.iter().filter(|task| !self.tasks.contains_key(&task.tid)).count()
    }

    /// Returns (thread, (process, parent process)). Tasks before the first event take precedence.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (i32, (i32, i32))> {
        let later = self.later.iter().filter(|task| !self.tasks.contains_key(&task.tid));
        let all = self.tasks.values().chain(later).filter(|task| task.pid > 0);
        all.map(|task| (task.tid, (task.pid, task.ppid)))
    }

    /// Returns initial policies and slices by thread id. Events only have priorities.
    pub(crate) fn policies(&self) -> BTreeMap<i32, Policy> {
        let usual = self.usual_slice();
        let policy = |task: &Task| {
            let slice = Some(task.slice_ns).filter(|&ns| ns != 0 && Some(ns) != usual && SLICES.contains(&ns));
            Some(match task.policy.as_str() {
                "other" if slice.is_some() => Policy::Other { nice: 0, slice },
                "batch" => Policy::Batch { nice: 0, slice },
                "idle" => Policy::Idle,
                "rr" => Policy::RoundRobin { priority: 1 },
                _ => return None,
            })
        };
        self.tasks.iter().filter_map(|(&tid, task)| Some((tid, policy(task)?))).collect()
    }

    /// Returns the default slice, nanoseconds: the kernel's tunable, else the most frequent slice.
    fn usual_slice(&self) -> Option<u64> {
        let recorded_slice = self.about.kernel.tunables.get("base_slice_ns").copied();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for task in self.tasks.values().filter(|task| task.policy == "other" && task.slice_ns != 0) {
            *counts.entry(task.slice_ns).or_default() += 1;
        }
        recorded_slice.or_else(|| counts.into_iter().max_by_key(|&(_, count)| count).map(|(ns, _)| ns))
    }
}

/// The slices that tasks can request, nanoseconds.
const SLICES: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// A part, and its name in errors.
struct Part {
    name: String,
    text: String,
}

impl Part {
    fn of(file: &str, recording: &Recording, part: &str) -> miette::Result<Self> {
        let help = "record it again; `vruntime trace info` describes the file";
        let missing = || miette!(help = help, "{file} is a recording without the part `{part}`");
        let text = recording.part(part).ok_or_else(missing)?.to_owned();
        let at = recording.offset(part).unwrap_or(0);
        Ok(Self { name: format!("{file} (part `{part}`, byte {at})"), text })
    }

    fn json<'a, T: Deserialize<'a>>(&'a self) -> miette::Result<T> {
        serde_json::from_str(&self.text).map_err(|error| {
            let before = self.text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len);
            let at = (before.sum::<usize>() + error.column().saturating_sub(1)).min(self.text.len());
            // Columns count bytes, and may be inside a character.
            let at = (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
            let end = (at + 1..=self.text.len()).find(|&end| self.text.is_char_boundary(end)).unwrap_or(at);
            let whole = error.to_string();
            let message = whole.split(" at line ").next().unwrap_or(&whole);
            let help = "`vruntime record` writes such parts; record it again";
            Source::new(&self.name, &self.text).error_at(at..end, message, "here", help).into()
        })
    }

    fn cgroups(&self) -> Result<Cgroups, Error> {
        Cgroups::read(&self.name, self.text.as_bytes()).map_err(|error| match error.location() {
            Some(_) => error,
            None => self.wrong("", &error.to_string()),
        })
    }

    /// Returns an error at the first `word` of the part.
    fn wrong(&self, word: &str, message: &str) -> Error {
        let at = self.text.find(word).unwrap_or(0);
        let help = "`vruntime record` writes such parts; record it again";
        Source::new(&self.name, &self.text).error_at(at..at + word.len(), message, "here", help)
    }
}
