//! Traces in `vruntime compare`, and the check of their replays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use miette::{Context, Report, miette};
use serde_json::{Value, json};
use vruntime_replay::recorded::Recorded;
use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::{Ran, ReadOptions, Replay, Setup, compare, refused};
use vruntime_report::{ReplayCheck, counted};
use vruntime_workload::SourceMap;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::Workload;

use super::notes::notes;
use super::replay_input::{self, guessed, note_left_out, note_substitute, read};
use super::section::Section;
use crate::args::Model;
use crate::input::{Input, InputKind};
use crate::plan::{Plan, machine_words, overrides_of_trace, print_plan_notes, report_of_trace, switch_costs};
use crate::simulate::{Done, Failure, Job};
use crate::{output, rules};

#[derive(Debug)]
pub(crate) struct ComparedTrace {
    file: PathBuf,
    recorded: Recorded,
    /// Number of clock jumps.
    jumps: u64,
    /// Assumptions that make the replay closer.
    guessed: Option<String>,
    /// Unreadable parts of the file.
    damage: Vec<String>,
    cpus: usize,
    /// The plan of the replay as recorded.
    as_recorded: Plan,
    /// The programs under each set of rules; `None` for an empty set. They are not yet fit to a machine.
    what_ifs: Vec<Option<Workload>>,
}

/// Reads a trace, and applies each set of `rules` to it. `None` after Ctrl-C.
pub(crate) fn compared_trace(
    path: &Path,
    recorded_kernel: Option<&str>,
    cgroups: Option<&Cgroups>,
    model: &Model,
    rules: &[Rules],
) -> miette::Result<Option<(Input, ComparedTrace)>> {
    let section = Section::of(path)?;
    let costs = switch_costs(model);
    let options = match &section {
        Some(section) => section.read_options(costs),
        None => ReadOptions { switch_costs: costs, ..ReadOptions::default() },
    };
    let Some((mut recording, _, damage)) = read(path, &options, None)? else { return Ok(None) };
    if let Some(cgroups) = cgroups.or_else(|| section.as_ref()?.cgroups.as_ref()) {
        recording = recording.with_cgroups(cgroups);
    }
    if let Some(section) = &section {
        recording = recording.with_policies(section.policies()).with_processes(section.processes());
    }
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("trace").to_owned();
    let recorded_on = section.as_ref().map(|section| section.machine.clone());
    let overrides = overrides_of_trace(recorded_on.clone(), model);
    let own_kernel = || section.as_ref().map(|section| section.kernel(&recording.kernel()));
    let kernel = recorded_kernel.map(str::to_owned).or_else(own_kernel);
    let setup = Setup { kernel, overrides, ..Setup::default() };
    let replay = Replay::with_runner(&recording, &setup, &replay_input::run).map_err(report_of_trace)?;
    for what in &damage {
        output::note(&format!("{}: {what}", path.display()));
    }
    note_substitute(path, replay.substitute.as_ref());
    let guessed = replay.guess.as_ref().map(guessed);
    if let Some(guessed) = &guessed {
        output::note(&format!("{}: {guessed}", path.display()));
    }
    print_plan_notes(&replay.plan.notes);
    note_left_out(&replay.unfit, &replay.plan.config);
    let unchanged = replay.going_on(BTreeSet::new(), BTreeMap::new()).0;
    let applied = |rules: &Rules| (!rules.is_empty()).then(|| applied(rules, path, &replay, &unchanged)).transpose();
    let what_ifs = rules.iter().map(applied).collect::<miette::Result<_>>()?;
    let workload = unchanged.workload;
    let kind = InputKind::Trace(replay.trace().clone(), recorded_on.map(Box::new));
    let input = Input { name, example: None, folder: PathBuf::new(), workload, source_map: SourceMap::default(), kind };
    let Replay { recorded, plan: as_recorded, .. } = replay;
    let (cpus, jumps) = (recording.cpus(), recording.clock_jumps());
    let file = path.to_owned();
    Ok(Some((input, ComparedTrace { file, recorded, jumps, guessed, damage, cpus, as_recorded, what_ifs })))
}

/// Applies rules to a trace. `unchanged`: its programs without rules. CPUs of rules are checked when the machine is
/// known.
fn applied(rules: &Rules, path: &Path, replay: &Replay<'_>, unchanged: &Recorded) -> miette::Result<Workload> {
    let threads = &replay.recorded.threads;
    let (removed, closed) = (rules.removed(threads), rules.closed(threads));
    let mut changed =
        if removed.is_empty() && closed.is_empty() { unchanged.clone() } else { replay.going_on(removed, closed).0 };
    rules::note_unreached(rules, threads);
    rules::note_idle_groups(rules, &changed.workload.groups, "trace");
    rules
        .apply(&mut changed, threads, usize::MAX)
        .map_err(Report::from)
        .wrap_err_with(|| path.display().to_string())?;
    rules::note_overruled(rules, &changed.workload.groups);
    Ok(changed.workload)
}

impl ComparedTrace {
    /// Returns the programs under each set of rules.
    pub(crate) fn what_ifs(&self) -> &[Option<Workload>] {
        &self.what_ifs
    }

    /// Returns the error of a failed what-if. If the kernel rejects a task's request, it names the rule with the
    /// policy.
    pub(crate) fn report(&self, failure: Failure, what_if: &Workload, rules: &Rules) -> Report {
        if let Failure::Refused(error) = &failure
            && let Some(error) = refused(&self.recorded, error, Some(what_if), rules)
        {
            return error.into();
        }
        failure.into()
    }

    pub(crate) fn job(&self) -> Job<'_> {
        let Plan { config, kernel, .. } = &self.as_recorded;
        Job::new(&self.recorded.workload, config.clone(), kernel)
    }

    pub(crate) fn check(&self, replayed: &Done) -> Checked<'_> {
        let ran = Ran { results: &replayed.results, end: replayed.outcome.end };
        Checked { trace: self, check: compare(&self.recorded, None, &[ran], self.cpus) }
    }
}

/// The accuracy of a trace's replay as recorded.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    trace: &'a ComparedTrace,
    check: ReplayCheck,
}

impl Checked<'_> {
    /// Describes the accuracy in sentences, on one line.
    pub(crate) fn summary(&self) -> String {
        self.summary_of(&self.trace.file.display().to_string())
    }

    /// Returns the unreadable parts of the file, in sentences.
    pub(crate) fn damage(&self) -> Vec<String> {
        let ComparedTrace { file, damage, .. } = self.trace;
        damage.iter().map(|what| format!("{}: {what}", file.display())).collect()
    }

    pub(crate) fn file(&self) -> &Path {
        &self.trace.file
    }

    /// Returns [`Checked::summary`] with another name.
    pub(crate) fn summary_of(&self, file: &str) -> String {
        let plan @ Plan { kernel, costs, config, .. } = &self.trace.as_recorded;
        let (machine_words, seed) = (machine_words(plan), config.seed);
        format!(
            "{file} replayed as recorded, on {machine_words} under {kernel} (costs: {costs}, seed {seed}): {}",
            self.check.summary()
        )
    }

    pub(crate) fn json(&self) -> Value {
        let ComparedTrace { file, recorded, jumps, guessed, damage, as_recorded, .. } = self.trace;
        let mut notes = notes(recorded, *jumps, as_recorded.config.tick_phase.is_some());
        notes.is_damaged(damage);
        if let Some(guessed) = guessed {
            notes.is_guessed(guessed);
        }
        json!({
            "file": file.display().to_string(),
            "kernel": as_recorded.kernel,
            "machine": as_recorded.machine,
            "check": self.check.json()["check"],
            "notes": notes.all,
        })
    }
}

/// Assigns snapshots to traces: one for all, or one each.
pub(crate) fn snapshots(cgroups: &[Cgroups], traces: usize) -> miette::Result<Vec<Option<&Cgroups>>> {
    match cgroups {
        [] => Ok(vec![None; traces]),
        [_, ..] if traces == 0 => {
            let help = "give a trace, or leave --cgroups out: a scenario file has its own groups";
            Err(miette!(help = help, "--cgroups describes the machine of a trace, and none of these files is a trace"))
        }
        [one] => Ok(vec![Some(one); traces]),
        each if each.len() == traces => Ok(each.iter().map(Some).collect()),
        each => {
            let help = "give --cgroups once for all traces, or once for each, in their order";
            let traces = counted(traces as u64, "trace", "traces");
            Err(miette!(help = help, "{} times --cgroups for {traces}", each.len()))
        }
    }
}

/// Gives tasks of traces, also under rules, the class of another file's task of that name. Recordings have names of
/// threads (`web-0` for `vruntime real`), cut to 15 characters.
pub(crate) fn match_classes(inputs: &mut [Input], traces: &mut [ComparedTrace]) {
    let is_trace = |input: &Input| matches!(input.kind, InputKind::Trace(..));
    let mut classes: BTreeMap<String, Option<String>> = BTreeMap::new();
    for task in inputs.iter().filter(|input| !is_trace(input)).flat_map(|input| &input.workload.tasks) {
        let class = classes.entry(comm(&task.name)).or_insert_with(|| Some(task.class.clone()));
        // Ambiguous: tasks of two classes have this name.
        if class.as_ref().is_some_and(|class| *class != task.class) {
            *class = None;
        }
    }
    let as_recorded = inputs.iter_mut().filter(|input| is_trace(input)).map(|input| &mut input.workload);
    let what_ifs = traces.iter_mut().flat_map(|trace| trace.what_ifs.iter_mut().flatten());
    for task in as_recorded.chain(what_ifs).flat_map(|workload| &mut workload.tasks) {
        if let Some(Some(class)) = classes.get(&task.class) {
            task.class.clone_from(class);
        }
    }
}

/// Maps groups of a trace that `vruntime real` created (`/vruntime-PID-START-NUMBER/app`) to their names in the
/// workload (`/app`), if another file has the name.
pub(crate) fn match_groups(input: &Input, inputs: &[Input]) -> BTreeMap<String, String> {
    if !matches!(input.kind, InputKind::Trace(..)) {
        return BTreeMap::new();
    }
    let paths = |input: &Input| input.workload.groups.iter().map(|group| group.path.clone()).collect::<Vec<String>>();
    let others = inputs.iter().filter(|other| !std::ptr::eq(*other, input)).flat_map(paths);
    let others: BTreeSet<String> = others.map(|path| made_for(&path).unwrap_or(&path).to_owned()).collect();
    let own = paths(input);
    let mut matched: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for path in &own {
        if let Some(name) = made_for(path).filter(|name| others.contains(*name)) {
            // Ambiguous: the machine has a group of that name, or two runs were recorded.
            let only = !own.iter().any(|other| other == name);
            matched.entry(name).and_modify(|path| *path = None).or_insert(only.then_some(path));
        }
    }
    matched.into_iter().filter_map(|(name, path)| Some((path?.to_owned(), name.to_owned()))).collect()
}

/// Returns the workload's name of a group that `vruntime real` created, other than its parent group.
fn made_for(path: &str) -> Option<&str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_own = |name: &str| {
        let numbers = name.strip_prefix("vruntime-").unwrap_or_default();
        numbers.split('-').count() == 3 && numbers.split('-').all(is_number)
    };
    path.match_indices('/').find_map(|(at, _)| {
        let (name, below) = path[at + 1..].split_at_checked(path[at + 1..].find('/')?)?;
        is_own(name).then_some(below)
    })
}

/// Cuts a thread's name as the kernel does.
fn comm(name: &str) -> String {
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= 15).last();
    name[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::made_for;

    #[test]
    fn groups_of_a_run_are_distinguished_from_others() {
        assert_eq!(made_for("/vruntime-77-1234-0/app"), Some("/app"));
        assert_eq!(
            made_for("/user.slice/vruntime-77-1234-0/app/db"),
            Some("/app/db"),
            "cgroup v1: below where it was begun"
        );
        for other in
            ["/", "/app", "/vruntime-77-1234-0", "/vruntime-77-1234/app", "/vruntime-a-1-0/app", "/vruntime-1--0/app"]
        {
            assert_eq!(made_for(other), None, "{other}");
        }
    }
}
