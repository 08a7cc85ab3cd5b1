//! What `vruntime record` has left in a file beside the events, as a replay uses it.

use std::collections::BTreeMap;
use std::path::Path;

use miette::{WrapErr, miette};
use serde::Deserialize;
use vruntime_report::{ReplayCheck, ReplayTask, counted};
use vruntime_sched::features::FEATURES;
use vruntime_sched::kernels::has_feature;
use vruntime_sim::plan::{Machine, parse_kernel};
use vruntime_trace::read::{self, Events, TraceDat};
use vruntime_trace::recording::Recording;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::Policy;
use vruntime_workload::{Error, Source};

use super::notes::Notes;
use crate::machine_file;
use crate::trace_file::explain;

/// A recording's section, read.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) about: About,
    /// The machine it was recorded on, and what its kernel takes if that was measured.
    pub(crate) machine: Machine,
    /// The groups of that machine before the first event; none if it says nothing of any task.
    pub(crate) cgroups: Option<Cgroups>,
    /// Its tasks before the first event, by their ids.
    pub(crate) tasks: BTreeMap<i32, Task>,
    /// Its tasks after the last event, none if the file does not list them.
    later: Vec<Task>,
}

/// What was recorded, and how. Fields that are not known here are passed over.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct About {
    pub(crate) vruntime: String,
    pub(crate) date: String,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// The group that the recording is about.
    pub(crate) cgroup: Option<String>,
    pub(crate) kernel: AboutKernel,
    pub(crate) machine: AboutMachine,
    began_ns: u64,
    ended_ns: u64,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) event_cost: Option<EventCost>,
    #[serde(default)]
    pub(crate) recorder_tids: Vec<i32>,
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

/// What recording an event took.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct EventCost {
    /// Nanoseconds.
    pub(crate) ns: u64,
}

/// A task before the first event.
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
    /// The section of a file; none if it has none, or is read from standard input, which cannot be read twice.
    pub(crate) fn of(path: &Path) -> miette::Result<Option<Self>> {
        if path == Path::new("-") {
            return Ok(None);
        }
        // What cannot be opened, or is no such file, is told when its events are read.
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

    /// Reads the parts; `cpus` is how many CPUs the file itself says that the machine has.
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

    /// What cannot be true at once, of what the parts say.
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

    /// The highest frequency of each CPU, kHz; empty unless it is known of all.
    pub(crate) fn highest_khz(&self) -> Vec<u32> {
        let AboutMachine { cpus, frequencies } = &self.about.machine;
        let of = |cpu: u32| frequencies.iter().find(|of| of.cpu == cpu).map(|of| of.highest_khz);
        (0..*cpus).map(of).collect::<Option<Vec<u32>>>().unwrap_or_default()
    }

    /// Says what the recording is about, and puts the tasks of its group first.
    pub(crate) fn tell(&self, check: &mut ReplayCheck, notes: &mut Notes) {
        if self.about.lost > 0 {
            notes.is_guessed(&format!(
                "{} could not be kept when this was recorded",
                counted(self.about.lost, "event", "events")
            ));
        }
        let Some(path) = &self.about.cgroup else { return };
        let inside = |task: &ReplayTask| {
            let rest = task.cgroup.as_deref().and_then(|cgroup| cgroup.strip_prefix(path.trim_end_matches('/')));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let count = check.tasks.iter().filter(|task| inside(task)).count() as u64;
        // Each part stays in its order.
        check.tasks.sort_by_key(|task| !inside(task));
        notes.all.push(format!(
            "the recording is of the task group {path}: the table begins with its {}, and all other tasks are background",
            counted(count, "task", "tasks")
        ));
    }

    /// A machine of a what-if: what nothing says of it is as on the machine that was recorded.
    pub(crate) fn completes(&self, machine: Machine) -> Machine {
        let own = &self.machine;
        let measured = machine.costs.is_some();
        Machine {
            hz: machine.hz.or(own.hz),
            preempt: machine.preempt.or(own.preempt),
            stalls: if measured { machine.stalls } else { own.stalls },
            idle_depths: if measured || !machine.idle_depths.is_empty() {
                machine.idle_depths
            } else {
                own.idle_depths.clone()
            },
            costs: machine.costs.or_else(|| own.costs.clone()),
            ..machine
        }
    }

    /// A kernel with the features and tunables that the machine's had, where they differ from what is usual: such as
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
                && kernel.takes(tunable, value).is_ok()
            {
                all.extend(["+", tunable, "=", &value.to_string()]);
            }
        }
        all
    }

    /// Returns the number of tasks that were there only after the last event.
    pub(crate) fn came(&self) -> usize {
        self.later.iter().filter(|task| !self.tasks.contains_key(&task.tid)).count()
    }

    /// Returns the process of each thread and the parent of that process: (thread, (process, parent)). A thread that
    /// was there before the first event has the process that it had then.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (i32, (i32, i32))> {
        let later = self.later.iter().filter(|task| !self.tasks.contains_key(&task.tid));
        let all = self.tasks.values().chain(later).filter(|task| task.pid > 0);
        all.map(|task| (task.tid, (task.pid, task.ppid)))
    }

    /// The policies and slices that tasks had when the recording began, by their ids. Events only have priorities.
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

    /// The slice of tasks that asked for none: what the kernel says, else what most have.
    fn usual_slice(&self) -> Option<u64> {
        let said = self.about.kernel.tunables.get("base_slice_ns").copied();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for task in self.tasks.values().filter(|task| task.policy == "other" && task.slice_ns != 0) {
            *counts.entry(task.slice_ns).or_default() += 1;
        }
        said.or_else(|| counts.into_iter().max_by_key(|&(_, count)| count).map(|(ns, _)| ns))
    }
}

/// The slices that tasks can ask for, nanoseconds.
const SLICES: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// A part, and what errors call it.
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
            // A column is of bytes, and may be in the midst of a letter.
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

    /// What is wrong with what a word of the part says.
    fn wrong(&self, word: &str, message: &str) -> Error {
        let at = self.text.find(word).unwrap_or(0);
        let help = "`vruntime record` writes such parts; record it again";
        Source::new(&self.name, &self.text).error_at(at..at + word.len(), message, "here", help)
    }
}
