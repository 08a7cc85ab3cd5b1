//! Scenario files (TOML): workloads with their machine, kernel and groups.
//!
//! `docs/scenario.md` is the reference. Missing keys are `None`: callers apply the command line and defaults.
//!
//! ```
//! use vruntime_workload::scenario;
//!
//! let text = br#"
//! kernel = ["6.1", "6.12"]
//! machine = "pack:1 core:4"
//! duration = "5s"
//!
//! [groups."/batch"]
//! weight = 20
//!
//! [[task]]
//! name = "hog"
//! instance = 8
//! group = "/batch"
//! run = "1ms"
//! "#;
//! let no_files = &mut |path: &std::path::Path| Err(std::io::Error::other(format!("{} is not here", path.display())));
//! let scenario = scenario::parse("batch.toml", text, &Default::default(), no_files)?;
//! assert_eq!(scenario.workload.tasks.len(), 8);
//! assert_eq!(scenario.workload.groups[1].weight, 20);
//! assert_eq!(scenario.kernel[1].value, "6.12");
//! # Ok::<(), vruntime_workload::Error>(())
//! ```

mod change;
mod cpuset;
mod fields;
mod find;
mod group;
mod hotplug;
mod machine;
mod objects;
mod requests;
mod rt;
mod session;
mod step;
mod task;
mod uclamp;
mod workload;

pub(crate) use cpuset::ranges as cpu_ranges;
pub(crate) use objects::OwnObjects;
pub(crate) use uclamp::utilisation;

use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

use toml::de::{DeTable, DeValue};

pub use find::Part;
pub use machine::{FrequencyTable, IdleTable, Machine};

use crate::error::{Error, Problems, Source};
use crate::merge::Merged;
use crate::place::SourceMap;
use crate::program::{Requests, Workload};
use crate::rtapp::Options;
use crate::suggest::{did_you_mean, nearest};
use fields::{Fields, Value};

/// Reads a file at a path relative to the scenario's folder.
pub type Loader<'a> = dyn FnMut(&Path) -> io::Result<Vec<u8>> + 'a;

/// A value with its place in the scenario's text, for [`Scenario::error_at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The bytes in the text.
    pub span: Range<usize>,
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The preemption model: where in the kernel a task can be preempted. User code always can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preempt {
    /// `PREEMPT_NONE`: at the end of system calls.
    None,
    /// `PREEMPT_VOLUNTARY`: also at points in long calls. Simulated calls are too short, so it equals `None`.
    #[default]
    Voluntary,
    /// `PREEMPT_LAZY` (6.13+): a call is preempted only after the next tick. Simulated calls are shorter. A fair task's
    /// CPU is not interrupted for another fair task. That CPU reschedules when it next leaves the kernel, at the latest
    /// at the tick.
    Lazy,
    /// `PREEMPT` (full): anywhere in a system call. The rest of the call follows when the task runs again.
    Full,
}

impl Preempt {
    /// Every model with its kernel name.
    pub const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("voluntary", Self::Voluntary), ("lazy", Self::Lazy), ("full", Self::Full)];

    /// Returns the model of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, preempt)| *preempt)
    }

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, preempt)| *preempt == self).map_or("", |(name, _)| name)
    }
}

/// Costs of switches, interrupts and other work of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The initial profile: `default`, `zero`, `vm`, `emulated`. The machine crate checks it.
    pub profile: Option<Spanned<String>>,
    /// Single costs, also checked there.
    pub values: Vec<Setting>,
}

/// A name and a number, checked by the owner of such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: Spanned<String>,
    /// The number.
    pub value: Spanned<i64>,
}

/// The content of a scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The text of the file, which spans refer to.
    pub source: Source,
    /// The name, by default the file's stem.
    pub name: String,
    /// The description, possibly empty.
    pub description: String,
    /// Kernels to run under, possibly none.
    pub kernel: Vec<Spanned<String>>,
    /// The machine.
    pub machine: Option<Machine>,
    /// Ticks per second, 1..=10000.
    pub hz: Option<u32>,
    /// The preemption model.
    pub preempt: Option<Preempt>,
    /// Whether tasks exist and sleep until they start, instead of being forked then.
    pub gate: Option<bool>,
    /// Whether each session is an autogroup in the root group.
    pub autogroup: Option<bool>,
    /// CONFIG_RT_GROUP_SCHED. A group with `rt_runtime` also enables it.
    pub rt_group_sched: Option<bool>,
    /// Whether to count the context switches of each group.
    pub group_switches: Option<bool>,
    /// Number of tasks that may exist besides the file's.
    pub threads_max: Option<usize>,
    /// Costs.
    pub costs: Option<Costs>,
    /// Seed of the run.
    pub seed: Option<u64>,
    /// Features by kernel name (`NO_RUN_TO_PARITY`).
    pub features: Vec<Spanned<String>>,
    /// Tunables by kernel name.
    pub set: Vec<Setting>,
    /// All tasks. The default duration is the longest of the rt-app files, if all have one.
    pub workload: Workload,
    /// The places of the workload's parts.
    pub source_map: SourceMap,
    /// CPUs of groups and their changes, to check against the machine.
    pub cpus: Vec<Spanned<Vec<u32>>>,
    /// Probable mistakes.
    pub warnings: Vec<Error>,
}

impl Scenario {
    /// Returns an error at a place of the file, for later checks of kernel, tunables, topology.
    pub fn error_at(&self, span: Range<usize>, message: &str, label: &str, help: &str) -> Error {
        self.source.error_at(span, message, label, help)
    }
}

/// Reads a scenario. `name` is for messages. `loader` reads files that it names.
///
/// # Errors
///
/// If the text is not UTF-8 or TOML, a key is unknown, a value is wrong, or tasks exceed `options.max_tasks`. If a file
/// is unreadable or wrong.
pub fn parse(name: &str, bytes: &[u8], options: &Options, loader: &mut Loader<'_>) -> Result<Scenario, Error> {
    let source = Source::decode(name, bytes)?;
    let mut problems = Problems::new(source.clone(), options.strict);
    let text = source.text();
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().trim_end().replace('\n', "; ");
        Error::new(&source, message).at(span, "not TOML here").with_help("docs/scenario.md shows the file's form")
    })?;
    let end = text.len();
    let mut root = Fields::root(&mut problems, table.get_ref(), end.saturating_sub(1)..end);

    let header = root.get("scenario");
    let mut scenario = settings(&mut root, &source, header);
    let groups = root.get("groups");
    let sessions = root.get("sessions");
    let workloads = root.array("workload", "tables: [[workload]]").unwrap_or_default();
    let tasks = root.array("task", "tables: [[task]]").unwrap_or_default();
    let requests = root.array("requests", "tables: [[requests]]").unwrap_or_default();
    let pipes = root.get("pipes");
    let hotplug = root.array("hotplug", "tables: [[hotplug]]").unwrap_or_default();
    let changes = root.array("change", "tables: [[change]]").unwrap_or_default();
    root.finish();
    let mut merged = Merged::new();
    let mut declared = Vec::new();
    if let Some(groups) = groups {
        scenario.cpus = group::parse_all(&mut problems, groups, &mut merged.groups);
        declared = merged.groups.paths();
    }
    if workloads.is_empty() && tasks.is_empty() && !problems.has_errors() {
        let error = problems
            .new_error(end.saturating_sub(1)..end, "a scenario without tasks", "expected one before here")
            .with_help("add a [[workload]] with rtapp = \"file.json\", or a [[task]]");
        problems.error(error);
    }

    let mut durations = Vec::new();
    for value in workloads {
        let several = workloads.len() > 1;
        let added = workload::parse(&mut problems, value, loader, options, &mut merged, several)?;
        if let Some(added) = added {
            durations.push(added.duration);
            scenario.warnings.extend(added.warnings);
        }
    }
    same_names(&mut problems, tasks);
    if let Some(pipes) = pipes {
        objects::parse_pipes(&mut problems, pipes, &mut merged.own);
    }
    let other_queues = merged.workload.wait_queues.len();
    for value in tasks {
        task::parse(&mut problems, value, &mut merged, options.max_tasks);
    }
    if !problems.has_errors() {
        merged.own.check(&mut problems);
    }
    let requests = requests::parse_all(&mut problems, requests, loader, &mut merged.queues)?;
    merged
        .workload
        .requests
        .extend(requests.into_iter().map(|requests| Requests { queue: requests.queue + other_queues, ..requests }));
    let hotplug = hotplug::parse_all(&mut problems, hotplug);
    let duration = scenario.workload.duration;
    (scenario.workload, scenario.source_map) = merged.finish();
    scenario.workload.hotplug = hotplug;
    // Tasks of the short form have no duration, and run as long as the others.
    let longest = durations.iter().copied().collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    scenario.workload.duration = duration.or(longest);
    if let Some(sessions) = sessions {
        session::parse_all(&mut problems, sessions, &mut scenario.workload.sessions);
    }
    scenario.workload.changes = change::parse_all(&mut problems, changes, &scenario.workload, &mut scenario.cpus);
    if !problems.has_errors() {
        undeclared_groups(&mut problems, &declared, &scenario);
    }
    scenario.warnings.extend(problems.finish()?);
    Ok(scenario)
}

/// Warns of `[[task]]`s with equal names, which become one class.
fn same_names(problems: &mut Problems, tasks: &[Value<'_>]) {
    let mut seen = std::collections::BTreeSet::new();
    for task in tasks {
        let Some(name) = task.get_ref().as_table().and_then(|table| table.get("name")) else { continue };
        let DeValue::String(text) = name.get_ref() else { continue };
        if !seen.insert(&**text) {
            let error = problems
                .new_error(
                    name.span(),
                    format!("a second [[task]] is called `{text}`"),
                    "results have them as one class",
                )
                .with_help("give it another name, or write `instance` for several that are alike");
            problems.warn(error);
        }
    }
}

/// `PID_MAX_LIMIT`.
const MOST_THREADS: i64 = 1 << 22;

/// Reads everything but groups and tasks, from `[scenario]` or the top level.
fn settings(root: &mut Fields<'_, '_>, source: &Source, header: Option<&Value<'_>>) -> Scenario {
    let stem = Path::new(source.name()).file_stem().and_then(|stem| stem.to_str()).unwrap_or("scenario");
    let mut scenario = Scenario {
        source: source.clone(),
        name: stem.to_owned(),
        description: String::new(),
        kernel: Vec::new(),
        machine: None,
        hz: None,
        preempt: None,
        gate: None,
        autogroup: None,
        rt_group_sched: None,
        group_switches: None,
        threads_max: None,
        costs: None,
        seed: None,
        features: Vec::new(),
        set: Vec::new(),
        workload: Workload::default(),
        source_map: SourceMap::default(),
        cpus: Vec::new(),
        warnings: Vec::new(),
    };
    scenario.read(root);
    if let Some(header) = header {
        let above = root.given();
        let mut fields = Fields::new(root.problems, "[scenario]", header);
        scenario.read(&mut fields);
        fields.twice(&above);
        fields.finish();
    }
    scenario
}

impl Scenario {
    fn read(&mut self, fields: &mut Fields<'_, '_>) {
        if let Some((name, _)) = fields.string("name", "a name") {
            name.clone_into(&mut self.name);
        }
        if let Some((description, _)) = fields.string("description", "a sentence") {
            description.clone_into(&mut self.description);
        }
        let spanned = |(text, span): (&str, _)| Spanned { value: text.to_owned(), span };
        if let Some(value) = fields.get("kernel")
            && matches!(value.get_ref(), DeValue::Array(kernels) if kernels.is_empty())
        {
            let help = "write kernel = \"6.12\", or leave it out for the default";
            fields.bad(
                value.span(),
                "`kernel` is an empty list".to_owned(),
                "expected a kernel such as \"6.12\"",
                help,
            );
        }
        self.kernel.extend(fields.strings("kernel", "a kernel such as \"6.12\", in quotes").into_iter().map(spanned));
        self.machine = machine::parse(fields).or(self.machine.take());
        self.hz = fields.integer("hz", 1..=10_000, "ticks a second").map(|hz| hz as u32).or(self.hz);
        self.preempt = preempt(fields).or(self.preempt);
        self.gate = fields.boolean("gate").or(self.gate);
        self.autogroup = fields.boolean("autogroup").or(self.autogroup);
        self.rt_group_sched = fields.boolean("rt_group_sched").or(self.rt_group_sched);
        self.group_switches = fields.boolean("group_switches").or(self.group_switches);
        let threads = fields.integer("threads_max", 1..=MOST_THREADS, "a number of tasks");
        self.threads_max = threads.map(|threads| threads as usize).or(self.threads_max);
        self.costs = costs(fields).or(self.costs.take());
        self.seed = fields.integer("seed", 0..=i64::MAX, "a seed").map(|seed| seed as u64).or(self.seed);
        let duration = fields.length("duration");
        self.workload.duration = duration.or(self.workload.duration);
        let features = fields.strings("features", "the name of a feature, in quotes");
        overridden(fields, &features);
        self.features.extend(features.into_iter().map(spanned));
        if let Some(value) = fields.get("set") {
            self.set.extend(numbers(fields, "[set]", value, i64::MIN));
        }
    }
}

/// Reports features that later ones override.
fn overridden(fields: &mut Fields<'_, '_>, features: &[(&str, Range<usize>)]) {
    for (index, (name, span)) in features.iter().enumerate() {
        let other = name.strip_prefix("NO_").map_or_else(|| format!("NO_{name}"), str::to_owned);
        if features[index + 1..].iter().any(|(later, _)| *later == other) {
            let message = format!("`{name}` has no effect: `{other}` overrides it");
            let error = fields.problems.new_error(span.clone(), message, "this one is the opposite");
            fields.warn(error.with_help("leave one out"));
        }
    }
}

fn preempt(fields: &mut Fields<'_, '_>) -> Option<Preempt> {
    let names = Preempt::ALL.iter().map(|(name, _)| *name);
    let (name, span) = fields.string("preempt", "the name of a preemption model, such as \"full\"")?;
    let preempt = Preempt::from_name(name);
    if preempt.is_none() {
        let message = format!("unknown preemption model `{name}`");
        fields.bad(span, message, "expected none, voluntary, lazy or full", did_you_mean(name, names));
    }
    preempt
}

fn costs(fields: &mut Fields<'_, '_>) -> Option<Costs> {
    let value = fields.get("costs")?;
    match value.get_ref() {
        DeValue::String(profile) => {
            let profile = Some(Spanned { value: profile.to_string(), span: value.span() });
            Some(Costs { profile, values: Vec::new() })
        }
        DeValue::Table(table) => {
            let profile = table.get("profile").and_then(|value| {
                if let DeValue::String(profile) = value.get_ref() {
                    return Some(Spanned { value: profile.to_string(), span: value.span() });
                }
                fields.wrong("profile", value, "the name of a profile, such as \"vm\"");
                None
            });
            Some(Costs { profile, values: numbers(fields, "[costs]", value, 0) })
        }
        _ => {
            fields.wrong("costs", value, "the name of a profile such as \"vm\", or a table of nanoseconds");
            None
        }
    }
}

/// Reads names and whole numbers of at least `least`, in the order of the text. Skips `profile`.
fn numbers(fields: &mut Fields<'_, '_>, place: &str, value: &Value<'_>, least: i64) -> Vec<Setting> {
    let DeValue::Table(table) = value.get_ref() else {
        fields.wrong(place, value, "a table of numbers");
        return Vec::new();
    };
    let mut settings = Vec::new();
    for (key, value) in table {
        if place == "[costs]" && key.get_ref() == "profile" {
            continue;
        }
        // Without quotes, `kernel.sched_rt_runtime_us` is a table `kernel`.
        if let ("[set]", "kernel", DeValue::Table(_)) = (place, key.get_ref().as_ref(), value.get_ref()) {
            let mut sysctls = numbers(fields, "[set.kernel]", value, least);
            for setting in &mut sysctls {
                setting.name.value.insert_str(0, "kernel.");
            }
            settings.extend(sysctls);
            continue;
        }
        if let Some(number) = fields.integer_in(key.get_ref(), value, least..=i64::MAX, "a whole number") {
            settings.push(Setting {
                name: Spanned { value: key.get_ref().to_string(), span: key.span() },
                value: Spanned { value: number, span: value.span() },
            });
        }
    }
    settings.sort_by_key(|setting| setting.name.span.start);
    settings
}

/// Warns of tasks' groups with names similar to declared ones.
fn undeclared_groups(problems: &mut Problems, declared: &[String], scenario: &Scenario) {
    for (index, group) in scenario.workload.groups.iter().enumerate().skip(declared.len().max(1)) {
        let names = declared.iter().map(String::as_str).filter(|path| *path != "/");
        // Groups below a declared group may have similar names.
        let Some(meant) = nearest(&group.path, names).filter(|meant| !group.path.starts_with(*meant)) else { continue };
        let task = scenario.workload.tasks.iter().position(|task| task.settings.group == Some(index));
        let message = format!("group `{}` is not declared; it has the default weight", group.path);
        let mut error = Error::new(&problems.source, message.clone());
        if let Some((source, span)) = task.and_then(|task| scenario.source_map.place(task, None, None)) {
            error = Error::new(source, message).at(span, "this task is put there");
        }
        problems.warn(error.with_help(format!("did you mean `{meant}`? else declare [groups.\"{}\"]", group.path)));
    }
}
