//! `--map`: rules that change tasks and groups of a trace or a file (`docs/replay.md`).

use std::path::Path;

use miette::miette;
use vruntime_replay::recorded::Thread;
use vruntime_replay::recorded::rules::{Overruled, Rules};
use vruntime_report::counted;
use vruntime_sched::kernels::negative;
use vruntime_sim::Error;
use vruntime_workload::program::{Group, Workload};

use crate::args::Model;
use crate::input::Input;
use crate::simulate::Failure;
use crate::{error_place, input, output};

/// Reads rules of the command line: files, or rules.
pub(crate) fn read(map: &[String]) -> miette::Result<Rules> {
    let mut rules = Rules::default();
    for text in map {
        let path = Path::new(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            let bytes = input::contents(path, "name a file of rules, such as map.toml (docs/replay.md)")?;
            rules.add_file(text, &bytes)?;
        } else if !text.contains(':') && path.is_file() {
            let help = "end its name with .toml: such a file has [[rule]] tables (docs/replay.md)";
            return Err(miette!(help = help, "`{text}` is a file whose name does not end with .toml"));
        } else {
            rules.add(text)?;
        }
    }
    Ok(rules)
}

/// Describes the command line's changes, one line each: rules, and settings of the kernel.
pub(crate) fn changes(rules: &Rules, model: &Model) -> Vec<String> {
    let settings = model.set.iter().map(|(name, value)| format!("{name} = {}", written(name, *value)));
    let features = model.feature.iter().map(|name| format!("feature {name}"));
    rules.texts().map(str::to_owned).chain(settings).chain(features).collect()
}

/// Formats a tunable's value, which may stand for a negative number.
pub(crate) fn written(name: &str, value: u64) -> String {
    let signed = value.cast_signed();
    let is_negative = signed < 0 && negative(name, signed) == Some(value);
    if is_negative { signed.to_string() } else { value.to_string() }
}

/// Warns of rules for groups without tasks.
pub(crate) fn note_idle_groups(rules: &Rules, groups: &[Group], whose: &str) {
    for path in rules.idle_groups(groups) {
        output::note(&format!(
            "the rule for [groups.\"{path}\"] matches no tasks: the {whose} has no such group, and no rule puts tasks there (group=\"{path}\")"
        ));
    }
}

/// Notes how many tasks of a trace no rule changes, although a rule changes the tasks that forked them.
pub(crate) fn note_unreached(rules: &Rules, threads: &[Thread]) {
    let unreached = rules.unreached(threads);
    if unreached > 0 {
        let left = counted(
            unreached as u64,
            "task is left as it was, although the one that forked it is not",
            "tasks are unchanged, although the tasks that forked them are changed",
        );
        output::note(&format!(
            "{left}: a rule changes only the tasks that it names. tree=PID names a task and all its descendants"
        ));
    }
}

/// Notes each limit that two rules set.
pub(crate) fn note_overruled(rules: &Rules, groups: &[Group]) {
    for Overruled { group, key, first, second } in rules.overruled(groups) {
        output::note(&format!("two rules set `{key}` of group {group}: '{second}' counts, '{first}' does not"));
    }
}

/// Applies rules to a file's workload.
pub(crate) fn applied(rules: &Rules, input: &Input, file: &Path) -> miette::Result<Workload> {
    note_idle_groups(rules, &input.workload.groups, "file");
    let mut workload = input.workload.clone();
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    rules.apply_to(&mut workload, &name)?;
    note_overruled(rules, &workload.groups);
    Ok(workload)
}

/// Returns the error of a run. If the kernel rejects a task's request, it names the rule with the policy, or else the
/// place in the file.
pub(crate) fn report(rules: &Rules, input: &Input, failure: Failure) -> miette::Report {
    if let Failure::Refused(error @ Error::Refused { task, .. }) = &failure
        && let Some(task) = input.workload.tasks.iter().position(|known| known.name == *task)
    {
        let help = error.help().unwrap_or_else(|| "choose others, or another policy".to_owned());
        if let Some(error) = rules.wrong_policy_in(&input.workload, task, &error.to_string(), &help) {
            return error.into();
        }
    }
    error_place::report(input, failure)
}
