//! `vruntime replay`: what a trace did, again.

mod autogroups;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use miette::miette;
use serde_json::json;
use vruntime_report::{Analyses, ReplayCheck, ReplayGroup, ReplayMeasure, ReplayTask, Results, fit_text, latency_of};
use vruntime_sched::class::deadline::SchedError;
use vruntime_sched::{Topology, kernel};
use vruntime_sim::plan::Trace;
use vruntime_sim::{Config, Error};
use vruntime_trace::read::{self, Summary};
use vruntime_workload::SourceMap;
use vruntime_workload::program::{Group, Workload};
use vruntime_workload::recorded::rules::Rules;
use vruntime_workload::recorded::{self, Cgroups, Charges, Event, Recorded, Recorder, Thread};

use super::identities::identities;
use super::ran_json;
use super::replayed::{Clock, MAX_CPUS, what};
use super::trace::{explain, open};
use super::traced::{self, semaphores, without_semaphores};
use crate::args::{Model, Replay, Wakeups};
use crate::input::{Input, Says};
use crate::places::Places;
use crate::plan::{Plan, machine_words, plan, series};
use crate::simulate::{self, Done, Failure, Job};
use crate::{Ended, input, interrupt, machine, output, rules};

/// Events between two looks for Ctrl-C.
const ROUND: u64 = 1 << 16;

/// The kernel of a trace that does not say.
const RECORDED_KERNEL: &str = "6.18";

/// What `--out` leaves of each run.
const TRACES: [&str; 2] = ["trace.perfetto-trace", "trace.txt"];

pub(crate) fn replay(arguments: &Replay) -> miette::Result<Ended> {
    // What is wrong on the command line is told before a long file is read.
    let folders = ["replayed", "what-if"].map(|run| arguments.out.as_ref().map(|folder| folder.join(run)));
    let places = folders
        .iter()
        .flatten()
        .fold(Places::default(), |places, folder| places.folder("--out", Some(folder), &TRACES));
    let inputs = std::iter::once(&arguments.file).chain(&arguments.cgroups).chain(&arguments.beside);
    arguments.reports.places(places.reads(inputs)).check()?;
    let rules = rules::read(&arguments.map)?;
    let beside =
        arguments.beside.iter().map(|file| input::read(file, None, false)).collect::<miette::Result<Vec<_>>>()?;
    let described = arguments.recorded_machine.as_deref().map(machine::parse).transpose()?;
    let highest_khz = arguments.recorded_machine.as_deref().map(machine::highest_khz).transpose()?.unwrap_or_default();
    let cgroups = arguments.cgroups.as_deref().map(cgroups).transpose()?;
    let watched = arguments.reports.html.is_some();
    let Some(mut reading) = read(&arguments.file, arguments.duration, described.as_ref(), highest_khz, watched)? else {
        return Ok(Ended::Interrupted);
    };
    let autogroup = cgroups.as_ref().is_some_and(Cgroups::autogroup);
    if let Some(cgroups) = cgroups {
        reading.recorder = reading.recorder.with_cgroups(cgroups);
    }
    let cpus = described.as_ref().map_or(reading.cpus, Topology::nr_cpus);
    let input = Input {
        name: "replay".to_owned(),
        folder: PathBuf::new(),
        workload: Workload::default(),
        places: SourceMap::default(),
        says: reading.says(&arguments.file, arguments.recorded_kernel.as_deref(), cpus, autogroup),
    };
    for (file, _) in arguments.beside.iter().zip(&beside).filter(|(_, input)| !input.workload.hotplug.is_empty()) {
        output::note(&format!(
            "[[hotplug]] of {} is left out: whoever runs beside a recording has no say about its machine",
            file.display()
        ));
    }
    let neighbours = beside.iter().map(|input| format!("beside {}", input.name));
    let changes: Vec<String> = rules::changes(&rules, &arguments.model).into_iter().chain(neighbours).collect();
    let model = Model { set: Vec::new(), feature: Vec::new(), ..arguments.model.clone() };
    let machine = arguments.recorded_machine.clone().unwrap_or_else(|| cpus.to_string());
    let as_recorded = plan(&input, None, Some(&machine), &model)?;
    let asks = !arguments.as_recorded
        && (arguments.kernel.is_some()
            || arguments.machine.is_some()
            || !(rules.is_empty()
                && beside.is_empty()
                && arguments.model.set.is_empty()
                && arguments.model.feature.is_empty()));
    let what_if = asks
        .then(|| {
            plan(
                &input,
                arguments.kernel.as_deref(),
                Some(arguments.machine.as_deref().unwrap_or(&machine)),
                &arguments.model,
            )
        })
        .transpose()?;
    let keep_times = arguments.wakeups == Wakeups::Recorded;
    let finish = |recorder| finish(recorder, &as_recorded.config, keep_times);
    let again = rules.removes().then(|| reading.recorder.clone());
    let mut recorded = finish(reading.recorder);
    if recorded.workload.tasks.is_empty() {
        return Err(nothing_ran(&arguments.file));
    }
    let without = |threads| again.map_or_else(|| recorded.clone(), |recorder| finish(recorder.without(threads)));
    let changed = what_if.as_ref().map(|plan| change(&recorded, &rules, plan, without)).transpose()?;
    let unreached = rules.unreached(&recorded.threads);
    if unreached > 0 {
        output::note(&format!(
            "{unreached} tasks are left as they were, although those that forked them are not: a rule is of the tasks it names. tree=PID \
             names a task and all that it forks"
        ));
    }
    rules::tell_idle_groups(&rules, &recorded.workload.groups, "trace");
    traced::fit(&mut recorded.workload, &as_recorded.config);
    // A rule that removes tasks makes other programs, with names of their own.
    let mut inside = semaphores(&recorded.workload);
    inside.extend(changed.iter().flat_map(semaphores));
    let copies = changed.as_ref().map_or(0, |changed| changed.tasks.len());
    let with_neighbours =
        |changed: Workload| beside.iter().fold(changed, |workload, input| workload.beside(&input.workload));
    let changed = changed.map(with_neighbours);
    let [of_replayed, of_what_if] = folders;
    let job = |workload, plan: &Plan, traces: Option<PathBuf>, copies| Job {
        workload,
        config: plan.config.clone(),
        identities: traces
            .is_some()
            .then(|| identities(&recorded, workload, copies, plan.config.machine.topology.nr_cpus())),
        traces,
        rtapp_log: None,
        detect: false,
        analyse: arguments.reports.html.is_some().then(super::html::watch_replayed),
        overview: true,
        kernel: plan.kernel.clone(),
    };
    let mut jobs = vec![job(&recorded.workload, &as_recorded, of_replayed, recorded.workload.tasks.len())];
    if let (Some(workload), Some(plan)) = (&changed, &what_if) {
        jobs.push(job(workload, plan, of_what_if, copies));
    }
    let runs = simulate::all(&jobs).into_iter();
    let explained = runs.map(|run| run.map_err(|failure| refused(failure, &rules, &recorded, changed.as_ref())));
    let mut runs = explained.collect::<miette::Result<Vec<Done>>>()?;
    without_semaphores(&mut runs, &inside);
    super::tell_notes(&runs);
    let check = checked(&recorded, changed.as_ref(), &runs, cpus);
    let mut told = notes(&recorded, reading.clock.jumps, as_recorded.config.tick_phase.is_some());
    if reading.release.is_none() && arguments.recorded_kernel.is_none() {
        told.all.insert(told.grave, unknown_kernel(&as_recorded.kernel));
        told.grave += 1;
    }
    let what_if = what_if.as_ref().map(|plan| (plan, &changes[..]));
    report(arguments, &as_recorded, what_if, &check, &told, reading.analyses.as_ref(), &runs)?;
    if arguments.json {
        let mut json = check.json();
        if let serde_json::Value::Object(fields) = &mut json {
            fields.insert("notes".to_owned(), json!(told.all));
            fields.insert(
                "digests".to_owned(),
                json!(runs.iter().map(|run| format!("{:016x}", run.digest)).collect::<Vec<_>>()),
            );
            fields.insert("runs".to_owned(), ran(arguments, &as_recorded, what_if, &runs));
        }
        output::print_json(&json);
    } else {
        output::print(&text(arguments, &as_recorded, what_if, &recorded, &told, &check));
        if let Some(folder) = &arguments.out {
            let folder = folder.display();
            let also = what_if.as_ref().map_or_else(String::new, |_| format!(", of the what-if in {folder}/what-if"));
            let told = format!(
                "traces of the replay are in {folder}/replayed{also}; open trace.perfetto-trace on https://ui.perfetto.dev, or compare \
                 with the recording: vruntime diff {} {folder}/replayed/trace.txt",
                arguments.file.display()
            );
            output::print(&format!("\n{}\n", fit_text(&told, "")));
        }
    }
    Ok(if runs.iter().any(|run| run.outcome.interrupted) { Ended::Interrupted } else { Ended::Well })
}

/// What was run: the replay as recorded, and the what-if if there is one.
fn ran(
    arguments: &Replay,
    as_recorded: &Plan,
    what_if: Option<(&Plan, &[String])>,
    runs: &[Done],
) -> serde_json::Value {
    let plans = [("replayed", as_recorded, &[][..])];
    let plans = plans.into_iter().chain(what_if.map(|(plan, changes)| ("what_if", plan, changes)));
    let file = &arguments.file;
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("trace");
    let each = plans.zip(runs.chunks(1));
    each.map(|((label, plan, changes), run)| ran_json(label, file, name, plan, changes, run)).collect()
}

/// Writes what is asked for in files.
fn report(
    arguments: &Replay,
    as_recorded: &Plan,
    what_if: Option<(&Plan, &[String])>,
    check: &ReplayCheck,
    notes: &Notes,
    recording: Option<&Analyses>,
    runs: &[Done],
) -> miette::Result<()> {
    if let Some(path) = &arguments.reports.html {
        let watched = ["replayed", "what if"]
            .into_iter()
            .zip(runs)
            .filter_map(|(label, done)| Some((label.to_owned(), done.analyses.as_deref()?)));
        let watched: Vec<(String, &Analyses)> =
            recording.map(|analyses| ("recorded".to_owned(), analyses)).into_iter().chain(watched).collect();
        let Plan { kernel, costs, config, .. } = as_recorded;
        let machine = machine_words(as_recorded);
        let mut lead =
            format!("Replayed as recorded: {machine} under {kernel} (costs: {costs}, seed {}).", config.seed);
        if let Some((plan, changes)) = what_if {
            lead.extend([" What if: ", &machine_words(plan), " under ", &plan.kernel]);
            for change in changes {
                lead.extend(["; ", change.trim()]);
            }
            lead.push('.');
        }
        let title = format!("Replay of {}", super::html::short(&arguments.file));
        super::html::write(&super::html::replay_page(&title, &lead, check, notes, &watched), path)?;
    }
    if let Some(folder) = &arguments.reports.tables.folder {
        crate::tables::write(folder, arguments.reports.tables.format, "", &check.tables())?;
    }
    Ok(())
}

pub(super) fn nothing_ran(path: &Path) -> miette::Report {
    miette!(help = "record while something runs", "nothing but the idle tasks ran in {}", path.display())
}

/// The programs of a trace, for a machine of this kind. They may name CPUs that it does not have: cpusets, where nothing ever happened on some.
pub(super) fn finish(recorder: Recorder, config: &Config, keep_times: bool) -> Recorded {
    let recorder = if keep_times { recorder.keep_times() } else { recorder };
    let mut recorded = recorder.finish(&charges(config));
    if !config.autogroup {
        recorded.workload.sessions.clear();
        for task in &mut recorded.workload.tasks {
            task.session = None;
        }
    }
    recorded
}

/// Reads a trace of a machine; none: Ctrl-C came before its end.
pub(super) fn read(
    path: &Path,
    duration: Option<u64>,
    machine: Option<&Topology>,
    highest_khz: Vec<u32>,
    watched: bool,
) -> miette::Result<Option<Reading>> {
    let capacities: Vec<u32> =
        machine.map(|machine| machine.cpus().iter().map(|cpu| cpu.capacity).collect()).unwrap_or_default();
    let recorder = || Recorder::new().with_capacities(capacities.clone());
    let analyses = || {
        let (kinds, options) = super::html::watch(None);
        watched.then(|| Analyses::new(&kinds, &options).with_overview())
    };
    let first = recorder().with_highest_frequencies(highest_khz);
    let mut reading = Reading { recorder: first, analyses: analyses(), ..Reading::default() };
    if reading.read(path, duration)? == Ended::Interrupted {
        return Ok(None);
    }
    // What full speed is comes out on the way, and a file can be read again.
    if reading.recorder.frequencies_were_raised() && path != Path::new("-") {
        let recorder = recorder().with_highest_frequencies_of(&reading.recorder);
        reading = Reading { recorder, analyses: analyses(), ..Reading::default() };
        if reading.read(path, duration)? == Ended::Interrupted {
            return Ok(None);
        }
    }
    if let Some(machine) = machine
        && reading.cpus > machine.nr_cpus()
    {
        let help = "describe all CPUs with --recorded-machine";
        let (has, said) = (reading.cpus, machine.nr_cpus());
        return Err(miette!(help = help, "{} has events of {has} CPUs, and the machine has {said}", path.display()));
    }
    if let Some(machine) = machine {
        reading.recorder.has_cpus(machine.nr_cpus());
    }
    Ok(Some(reading))
}

/// A trace that is being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) recorder: Recorder,
    summary: Summary,
    pub(super) cpus: usize,
    pub(super) clock: Clock,
    /// The release of the kernel it was recorded under.
    release: Option<String>,
    /// What the recording itself says, for a page.
    analyses: Option<Analyses>,
}

impl Reading {
    /// How the trace is replayed as recorded, on so many CPUs: under the kernel that the user names, else under that of the trace, or the
    /// nearest there is.
    pub(super) fn says(&self, path: &Path, named: Option<&str>, cpus: usize, autogroup: bool) -> Says {
        // As `uname -r` has it (`6.12.3`, `6.1.0-28-amd64`, `6.12+deb13-amd64`), which tells more than the series.
        let is_release = |named: &&str| {
            let numbers = named.split(['-', '+']).next().unwrap_or_default().split('.');
            numbers.clone().all(|number| number.parse::<u32>().is_ok())
                && (numbers.count() > 2 || named.contains('-'))
                && vruntime_sched::kernel(named).is_err()
                // Features and tunables are a kernel's of the user's own.
                && !named.contains(|letter: char| letter.is_ascii_uppercase() || letter == '=')
        };
        let release = named.filter(is_release).map(str::to_owned).or_else(|| self.release.clone());
        let kernel = match named {
            Some(named) if !is_release(&named) => named.to_owned(),
            _ => recorded_under(path, release.as_deref()),
        };
        Says::Trace(Trace { kernel, release, cpus, autogroup, ticks: self.recorder.ticks() })
    }

    /// Reads the file, or `duration` of it.
    fn read(&mut self, path: &Path, duration: Option<u64>) -> miette::Result<Ended> {
        let mut events = open(path)?;
        let mut end = 0;
        while let Some(record) = events.next_record().map_err(|error| explain(path, &error))? {
            let at = self.clock.time(&record);
            if duration.is_some_and(|duration| at > duration) {
                break;
            }
            end = end.max(at);
            self.summary.add(&record);
            if self.summary.events().is_multiple_of(ROUND) && interrupt::asked() {
                return Ok(Ended::Interrupted);
            }
            if let Some(analyses) = &mut self.analyses {
                analyses.add(&record);
            }
            self.cpus = self.cpus.max(record.cpu as usize + 1);
            if self.cpus <= MAX_CPUS
                && let Some(what) = what(&record)
            {
                let vruntime_trace::Record { cpu, pid, tgid, hardirq, .. } = record;
                self.recorder.add(&Event { at, cpu, pid, tgid, hardirq, what });
            }
        }
        if let Some(analyses) = &mut self.analyses {
            analyses.end();
        }
        self.recorder.goes_on_until(end);
        let notes = events.notes();
        self.cpus = self.cpus.max(notes.cpus.unwrap_or(0) as usize);
        self.recorder.has_cpus(self.cpus.min(MAX_CPUS));
        self.release.clone_from(&notes.release);
        let needs = read::needs(&self.summary, notes);
        if notes.counts_for_time {
            let help = "record with a clock of nanoseconds: trace-cmd record -C mono, or echo mono > /sys/kernel/tracing/trace_clock";
            let why = "its times are counts of a clock without a unit (/sys/kernel/tracing/trace_clock says which)";
            return Err(miette!(help = help, "{} cannot be replayed: {why}", path.display()));
        }
        if let Some(duration) = duration.filter(|_| !needs.replayable && self.summary.count_of("sched_switch") == 0) {
            let seconds = duration as f64 / 1e9;
            let help = "give a longer --duration, or none; if it has none at all, `vruntime trace info` says how to record them";
            return Err(miette!(help = help, "{} has no sched_switch in its first {seconds} s", path.display()));
        }
        if !needs.replayable {
            let why = needs.missing.first().map_or("there is no event in it", String::as_str);
            let help = format!("this records what a replay uses:\n{}", needs.record.join("\n"));
            return Err(miette!(help = help, "{} cannot be replayed, for it lacks {why}", path.display()));
        }
        if self.cpus > MAX_CPUS {
            return Err(miette!("{} has events of CPU {}, and no Linux has so many", path.display(), self.cpus - 1));
        }
        Ok(Ended::Well)
    }
}

/// The kernel that replays a trace of this release as recorded.
fn recorded_under(path: &Path, release: Option<&str>) -> String {
    let Some(release) = release else { return RECORDED_KERNEL.to_owned() };
    // Up to 2.6 the third number was the version.
    let series = match release.strip_prefix("2.6.") {
        Some(rest) => format!("2.6.{}", rest.split(['.', '-']).next().unwrap_or_default()),
        None => series(release),
    };
    match kernel(&series) {
        Ok(_) => series,
        Err(unknown) => {
            let nearest = unknown.neighbours.and(unknown.nearest).unwrap_or(RECORDED_KERNEL);
            let path = path.display();
            output::note(&format!(
                "{path} was recorded under Linux {release}, which is not on offer: {nearest} stands for it (--recorded-kernel names another)"
            ));
            nearest.to_owned()
        }
    }
}

/// What the simulated machine charges for by itself.
fn charges(config: &Config) -> Charges {
    let costs = &config.machine.costs;
    Charges {
        // Most switches in a trace are to another process.
        switch: costs.switch_ns + costs.mm_switch_ns,
        sleep: costs.syscall_ns + costs.timer_arm_ns + costs.syscall_return_ns,
        enter: costs.syscall_ns + costs.timer_arm_ns,
        interrupt: costs.timer_ns,
        wake: costs.syscall_ns + costs.wakeup_ns,
        fork: costs.syscall_ns + costs.fork_ns,
        ticks: costs.tick_ns * u64::from(config.machine.hz),
        timer: costs.irq_latency_ns + costs.irq_jitter_ns + costs.timer_ns,
        slack: config.machine.timer_slack_ns,
    }
}

/// What `--cgroups` names.
pub(crate) fn cgroups(path: &Path) -> miette::Result<Cgroups> {
    let bytes = input::contents(path, "name what the script of docs/replay.md wrote")?;
    Ok(Cgroups::read(&path.display().to_string(), &bytes)?)
}

/// The workload of a what-if, but for who runs beside it. `replay` makes the recording's programs without the threads it is given.
fn change(
    recorded: &Recorded,
    rules: &Rules,
    plan: &Plan,
    replay: impl FnOnce(BTreeSet<usize>) -> Recorded,
) -> miette::Result<Workload> {
    let removed = rules.removed(&recorded.threads);
    let mut changed = if removed.is_empty() { recorded.clone() } else { replay(removed) };
    let cpus = plan.config.machine.topology.nr_cpus();
    traced::fit(&mut changed.workload, &plan.config);
    rules.apply(&mut changed, &recorded.threads, cpus)?;
    Ok(changed.workload)
}

/// Why a run failed: what the kernel refuses a task is told with the rule that gives the task its policy.
fn refused(failure: Failure, rules: &Rules, recorded: &Recorded, changed: Option<&Workload>) -> miette::Report {
    let Failure::Refused(Error::Refused { task, error, .. }) = &failure else { return failure.into() };
    // A copy is refused what the first of them is, which comes before it.
    let is_named = |thread: &&Thread| thread.task.is_some_and(|index| recorded.workload.tasks[index].name == *task);
    let Some(thread) = recorded.threads.iter().position(|thread| is_named(&thread)) else { return failure.into() };
    // When the task asks for it is the rule's doing.
    let told = Error::Refused { task: task.clone(), now: 0, error: error.clone() };
    let now = changed.and_then(|changed| changed.tasks.iter().find(|changed| changed.name == *task));
    // From the start, or from where it waited beside an idle CPU.
    let confined = now.is_some_and(|task| {
        task.settings.cpus.is_some() || task.phases.iter().any(|phase| phase.settings.cpus.is_some())
    });
    let help = match error {
        SchedError::Affinity { .. } if confined => {
            "add cpus=all to the rule, which lifts the affinity that the task has in the recording, or switch admission off \
             (sched_rt_runtime_us above sched_rt_period_us)"
                .to_owned()
        }
        _ => told.help().unwrap_or_else(|| "choose others, or another policy".to_owned()),
    };
    rules.wrong_policy(&recorded.threads, thread, &told.to_string(), &help).map_or_else(|| failure.into(), Into::into)
}

/// The recording beside its replays.
pub(super) fn checked(recorded: &Recorded, changed: Option<&Workload>, runs: &[Done], cpus: usize) -> ReplayCheck {
    let by_name = |results: &Results| -> BTreeMap<String, ReplayMeasure> {
        results.tasks.iter().map(|task| (task.name.clone(), task.into())).collect()
    };
    let measured: Vec<_> = runs.iter().map(|run| by_name(&run.results)).collect();
    let tasks = recorded.threads.iter().filter_map(|thread| {
        let name = &recorded.workload.tasks[thread.task?].name;
        Some(ReplayTask {
            name: name.clone(),
            comm: thread.comm.clone(),
            habit: thread.habit.name().to_owned(),
            cgroup: thread.cgroup.clone(),
            confined: thread.confined,
            computes_for: thread.computes_for,
            recorded: ReplayMeasure {
                cpu_ns: thread.cpu_ns,
                switches: thread.switches,
                wakeup: latency_of(&thread.latencies),
            },
            replayed: measured.first().and_then(|run| run.get(name)).copied().unwrap_or_default(),
            what_if: measured.get(1).map(|run| run.get(name).copied().unwrap_or_default()),
        })
    });
    // Copies, and whoever runs beside them.
    let known: BTreeSet<&str> = recorded.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let added =
        changed.into_iter().flat_map(|workload| &workload.tasks).filter(|task| !known.contains(task.name.as_str()));
    let added = added.map(|task| ReplayTask {
        name: task.name.clone(),
        what_if: measured.get(1).map(|run| run.get(&task.name).copied().unwrap_or_default()),
        ..ReplayTask::default()
    });
    let busy = |run: &Done| {
        run.results.cpus.iter().map(|cpu| run.outcome.end.saturating_sub(cpu.idle_ns)).collect::<Vec<u64>>()
    };
    let replayed = runs.first().map(busy).unwrap_or_default();
    let pair = |cpu: usize| (recorded.busy_ns.get(cpu).copied().unwrap_or(0), replayed.get(cpu).copied().unwrap_or(0));
    // A run ends early if every task has; the machine would have been idle from then on.
    let end = |index: usize| runs.get(index).map_or(0, |run| run.outcome.end.max(recorded.duration_ns));
    let mut check = ReplayCheck {
        tasks: tasks.chain(added).collect(),
        groups: groups(recorded, runs),
        cpus: (0..cpus).map(pair).collect(),
        what_if_cpus: runs.get(1).map(busy),
        charged_ns: recorded.counts.charged_ns,
        elapsed_ns: (recorded.duration_ns, end(0), end(1)),
    };
    check.sort();
    check
}

/// The groups of all runs, and what the trace gave them: every thread counts for each group while it was in it.
fn groups(recorded: &Recorded, runs: &[Done]) -> Vec<ReplayGroup> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut groups = ReplayGroup::all(&first.results, runs.get(1).map(|run| &run.results));
    let of_trace: BTreeSet<&str> = recorded.workload.groups.iter().map(|group| group.path.as_str()).collect();
    for group in groups.iter_mut().filter(|group| of_trace.contains(group.path.as_str())) {
        let inside =
            |path: &str| path.strip_prefix(&group.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let had = |thread: &Thread| -> u64 {
            if group.path == "/" {
                return thread.cpu_ns;
            }
            thread.stays.iter().filter(|(path, _)| inside(path)).map(|(_, cpu_ns)| cpu_ns).sum()
        };
        group.recorded_ns = Some(recorded.threads.iter().map(had).sum());
    }
    for group in groups.iter_mut().filter(|group| group.recorded_ns.is_none()) {
        group.recorded_ns = autogroups::recorded_ns(recorded, &group.path);
    }
    groups
}

/// What there is to know about how a trace was read, a sentence each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The gravest first.
    pub(crate) all: Vec<String>,
    /// So many of them, the first, tell what the replay lacks, or cannot be taken at its word for.
    pub(crate) grave: usize,
}

impl Notes {
    fn tell(&mut self, count: u64, what: &str) {
        if count > 0 {
            self.all.push(format!("{count} {what}"));
        }
    }
}

/// Which kernel it is matters to all that follows.
fn unknown_kernel(assumed: &str) -> String {
    format!("nothing says which kernel this was: {assumed} is taken for it; --recorded-kernel names another")
}

/// What there is to know about how the trace was read.
pub(super) fn notes(recorded: &Recorded, jumps: u64, ticks_known: bool) -> Notes {
    let counts = &recorded.counts;
    let mut notes = Notes::default();
    notes.tell(counts.losses, "times the trace has lost events: what happened meanwhile is not replayed");
    notes.tell(
        counts.broken_switches,
        "switches away from a task are missing: it is taken to have run for what it was charged, and to sleep from then on",
    );
    notes.tell(
        counts.missing_arrivals,
        "switches from the idle task to another are missing: that one is taken to have come as long before \
         as it was charged for, or when it was woken",
    );
    notes.tell(
        counts.throttled,
        "tasks waited although their own CPU was idle, as those do whose group has used up its limit (cpu.max): \
         --cgroups says which, and the replay has the limit then",
    );
    notes.tell(
        counts.frequencies,
        "changes of CPU frequency: work is counted at the highest of each CPU, and the replay runs at that, so that it takes less time",
    );
    notes.tell(
        counts.deadline,
        "deadline tasks are replayed as the most urgent SCHED_FIFO: traces do not have their parameters",
    );
    notes.tell(jumps, "times the clock jumped: no time passes there in the replay");
    notes.tell(counts.backwards, "events are earlier than those before them and were taken to be simultaneous");
    notes.tell(counts.reused, "pids were given to a second task");
    notes.tell(
        counts.sharing,
        "tasks wake at the very times of others: which of them comes first is chance, and can stay so for long; judge them together",
    );
    notes.tell(counts.unwoken, "sleeps were ended by no event of the trace: they keep their times");
    notes.tell(counts.ungrouped, "tasks of which nothing says in which group they were: they are in the root group");
    notes.tell(
        counts.bare_groups,
        "task groups of which nothing says what they weigh and whether they have limits: each weighs 100 and has none; --cgroups tells",
    );
    notes.grave = notes.all.len();
    let habit = |habit| recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.habit == habit).count();
    notes.all.push(format!(
        "of {} tasks {} sleep by a clock of their own, {} for a constant time, {} until recorded times, {} until others wake them",
        recorded.workload.tasks.len(),
        habit(recorded::Habit::Periodic),
        habit(recorded::Habit::Relative),
        habit(recorded::Habit::Recorded),
        habit(recorded::Habit::Woken),
    ));
    notes.tell(counts.confined, "tasks waited beside an idle CPU and are taken to be confined to theirs");
    notes.tell(
        counts.affinities,
        "tasks are confined to the CPUs that the machine says (Cpus_allowed_list), their own or their parent's",
    );
    let groups = recorded.workload.groups.len().saturating_sub(1);
    notes.tell(counts.grouped, &format!("tasks begin in task groups other than the root, of which there are {groups}"));
    notes.tell(counts.hotplug, "times a CPU goes offline or comes back, as it did in the recording");
    notes.tell(counts.moves, "times a task is moved to another group");
    let of_groups = |has: fn(&Group) -> bool| recorded.workload.groups.iter().filter(|group| has(group)).count() as u64;
    notes.tell(of_groups(|group| group.cpuset.cpus.is_some()), "task groups have CPUs of their own (cpuset.cpus)");
    notes.tell(of_groups(|group| group.uclamp.is_some()), "task groups have utilisation clamps");
    if !recorded.workload.sessions.is_empty() {
        notes.tell(
            counts.autogrouped,
            "tasks begin in the autogroups that the machine says; others are in their parent's, or in one of their process",
        );
    }
    let clocks =
        recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.computes_for.is_some()).count();
    notes.tell(clocks as u64, "tasks compute until a time, whoever has the CPU meanwhile");
    let ticks = recorded.ticks.filter(|_| ticks_known).map_or(0, |ticks| ticks.hz);
    notes.tell(
        u64::from(ticks),
        "ticks a second come when they came in the recording, as its charges (sched_stat_runtime) show",
    );
    notes.tell(counts.endless, "tasks computed until the trace ended and go on as long as the replay lasts");
    notes.tell(counts.running_at_start, "tasks ran when the trace began");
    notes.tell(counts.left_out, "migration threads are left out: the simulator has its own");
    notes
}

fn text(
    arguments: &Replay,
    as_recorded: &Plan,
    what_if: Option<(&Plan, &[String])>,
    recorded: &Recorded,
    notes: &Notes,
    check: &ReplayCheck,
) -> String {
    let head = format!(
        "{}: {:.3} s on {}, replayed as recorded under {} (costs: {}, seed {})",
        arguments.file.display(),
        recorded.duration_ns as f64 / 1e9,
        machine_words(as_recorded),
        as_recorded.kernel,
        as_recorded.costs,
        as_recorded.config.seed,
    );
    let mut text = format!("{}\n\n{}\n", fit_text(&head, ""), check.check_table(arguments.all));
    text.push_str(&fit_text(&check.summary(), ""));
    text.push_str("\n\nTo know:\n");
    for note in &notes.all {
        text.push_str(&fit_text(note, "  "));
        text.push('\n');
    }
    if let (Some((plan, changes)), Some(table)) = (what_if, check.what_if_table(arguments.all)) {
        let head = format!("\nWhat if: {} under {}\n", machine_words(plan), plan.kernel);
        text.push_str(&head);
        for change in changes {
            text.push_str("  ");
            text.push_str(change);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&table);
        text.push_str(
            &check.what_if_sentence().map_or_else(String::new, |sentence| format!("\n{}\n", fit_text(&sentence, ""))),
        );
    }
    text
}
