//! Scenario files: a workload, or several, with the machine, the kernel and the groups they run in.
//!
//! Files are TOML; `docs/scenario.md` is the reference. A key that the file does not have is `None` here, so that
//! callers can apply the command line and the defaults.
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

/// Reads the file at a path relative to the scenario's folder.
pub type Loader<'a> = dyn FnMut(&Path) -> io::Result<Vec<u8>> + 'a;

/// A value and the bytes of the scenario's text it stands at, for [`Scenario::error_at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The kernel's preemption model: where in the kernel a task can be preempted. Code of its own always can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preempt {
    /// `PREEMPT_NONE`: at the end of a system call.
    None,
    /// `PREEMPT_VOLUNTARY`: there and at points inside long calls. No simulated call is long enough to have one, so
    /// it does what `None` does.
    #[default]
    Voluntary,
    /// `PREEMPT_LAZY` (6.13+): a call is preempted only from the next tick on, and simulated calls are shorter than a
    /// tick. A CPU that runs a fair task is not interrupted for another fair task: it reschedules when it next leaves
    /// the kernel, at the tick at the latest.
    Lazy,
    /// `PREEMPT` (full): anywhere in a system call; the rest of the call is done when the task runs again.
    Full,
}

impl Preempt {
    /// Every model with the kernel's name for it.
    pub const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("voluntary", Self::Voluntary), ("lazy", Self::Lazy), ("full", Self::Full)];

    /// The model called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, preempt)| *preempt)
    }

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, preempt)| *preempt == self).map_or("", |(name, _)| name)
    }
}

/// What switches, interrupts and the like cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The initial profile: `default`, `zero`, `vm`, `emulated`. The owner of the profiles checks the name.
    pub profile: Option<Spanned<String>>,
    /// Single costs, checked there too.
    pub values: Vec<Setting>,
}

/// A name and a number. The owner of the names checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name, and where it stands.
    pub name: Spanned<String>,
    /// The number, and where it stands.
    pub value: Spanned<i64>,
}

/// What a scenario file says.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's text, which spans are of.
    pub source: Source,
    /// Its name; the file's stem if it gives none.
    pub name: String,
    /// A sentence or two for people; may be empty.
    pub description: String,
    /// Kernels to run under, for a comparison several; empty if it names none.
    pub kernel: Vec<Spanned<String>>,
    /// The machine.
    pub machine: Option<Machine>,
    /// Ticks a second, 1..=10000.
    pub hz: Option<u32>,
    /// The preemption model.
    pub preempt: Option<Preempt>,
    /// Whether tasks sleep until they start, and are not forked then.
    pub gate: Option<bool>,
    /// Whether the root's tasks are in autogroups, one a session.
    pub autogroup: Option<bool>,
    /// Real-time scheduling of groups (CONFIG_RT_GROUP_SCHED). A group with `rt_runtime` switches it on, too.
    pub rt_group_sched: Option<bool>,
    /// Whether the scheduler counts switches away from the tasks of each group.
    pub group_switches: Option<bool>,
    /// How many tasks may be alive besides those of the file.
    pub threads_max: Option<usize>,
    /// Costs.
    pub costs: Option<Costs>,
    /// Seed of the run.
    pub seed: Option<u64>,
    /// Features, by the kernel's names (`NO_RUN_TO_PARITY`).
    pub features: Vec<Spanned<String>>,
    /// Tunables, by the kernel's names.
    pub set: Vec<Setting>,
    /// Every task of the file. Its `duration` is the file's; without one, the longest of its rt-app files' if each
    /// has one.
    pub workload: Workload,
    /// Where everything of the workload was written.
    pub places: SourceMap,
    /// The CPUs that groups, and changes of groups, name, for a check against the machine.
    pub cpus: Vec<Spanned<Vec<u32>>>,
    /// What is probably not what was meant.
    pub warnings: Vec<Error>,
}

impl Scenario {
    /// An error at a place of the file, for what is checked later: a kernel, a tunable, a topology.
    pub fn error_at(&self, span: Range<usize>, message: &str, label: &str, help: &str) -> Error {
        self.source.error_at(span, message, label, help)
    }
}

/// Reads a scenario. `name` is its name in messages. `loader` reads the rt-app files that it names.
///
/// # Errors
/// The text is not UTF-8 or not TOML, a key is unknown, a value is of the wrong type or out of its range, a file
/// cannot be read or is itself wrong, or there are more than `options.max_tasks` tasks.
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
    (scenario.workload, scenario.places) = merged.finish();
    scenario.workload.hotplug = hotplug;
    // A task of the short form has no duration of its own; it runs as long as the others.
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

/// Several `[[task]]`s of one name are one class of tasks: hardly what was meant.
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

/// As many as Linux ever allows (`PID_MAX_LIMIT`).
const MOST_THREADS: i64 = 1 << 22;

/// Everything but groups and tasks: in `[scenario]`, or at the top level of short files.
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
        places: SourceMap::default(),
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

/// Tells of features that others further on in the list turn round.
fn overridden(fields: &mut Fields<'_, '_>, features: &[(&str, Range<usize>)]) {
    for (index, (name, span)) in features.iter().enumerate() {
        let other = name.strip_prefix("NO_").map_or_else(|| format!("NO_{name}"), str::to_owned);
        if features[index + 1..].iter().any(|(later, _)| *later == other) {
            let message = format!("`{name}` has no effect: `{other}` overrides it");
            let error = fields.problems.new_error(span.clone(), message, "this one is turned round");
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

/// Names and whole numbers of at least `least`, in the order of the text. `profile` is not one of them.
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
        // Without quotes `kernel.sched_rt_runtime_us` is a table `kernel`.
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

/// A task's group that is nearly, but not quite, one of those declared is probably misspelt.
fn undeclared_groups(problems: &mut Problems, declared: &[String], scenario: &Scenario) {
    for (index, group) in scenario.workload.groups.iter().enumerate().skip(declared.len().max(1)) {
        let names = declared.iter().map(String::as_str).filter(|path| *path != "/");
        // Below a declared group new ones may well be called like it.
        let Some(meant) = nearest(&group.path, names).filter(|meant| !group.path.starts_with(*meant)) else { continue };
        let task = scenario.workload.tasks.iter().position(|task| task.settings.group == Some(index));
        let message = format!("group `{}` is not declared; it has the default weight", group.path);
        let mut error = Error::new(&problems.source, message.clone());
        if let Some((source, span)) = task.and_then(|task| scenario.places.place(task, None, None)) {
            error = Error::new(source, message).at(span, "this task is put there");
        }
        problems.warn(error.with_help(format!("did you mean `{meant}`? else declare [groups.\"{}\"]", group.path)));
    }
}
