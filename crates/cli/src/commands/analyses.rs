//! Options for analyses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use miette::miette;
use vruntime_report::{Analyses, AnalysisKind, AnalysisOptions, MachineGroups, printable};
use vruntime_trace::GroupInfo;
use vruntime_workload::cgroups::{COMMAND as CGROUPS_COMMAND, Cgroups};
use vruntime_workload::program::{Task, Workload};

use crate::output;

/// A requested analysis: `latency`, or `critical-path:TASK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    kind: AnalysisKind,
    task: Option<String>,
}

/// Parses an analysis.
pub(crate) fn word(text: &str) -> Result<Asked, String> {
    let (name, task) = text.split_once(':').map_or((text, None), |(name, task)| (name, Some(task.to_owned())));
    let kind = AnalysisKind::from_str(name).map_err(|error| match name.split_once(',') {
        Some((first, _)) if AnalysisKind::from_str(first).is_ok() => {
            format!("separate words by spaces: {}", name.replace(',', " "))
        }
        _ => error,
    })?;
    match (kind, &task) {
        (AnalysisKind::CriticalPath, task) if task.as_ref().is_none_or(String::is_empty) => {
            Err("name the task: critical-path:NAME, or its pid".to_owned())
        }
        (AnalysisKind::CriticalPath, _) | (_, None) => Ok(Asked { kind, task }),
        (_, Some(_)) => Err(format!("only critical-path accepts a task: `{name}` does not")),
    }
}

/// Combines the requested analyses; default: the usual ones.
pub(crate) fn asked(what: &[Asked], each_task: bool) -> miette::Result<(Vec<AnalysisKind>, AnalysisOptions)> {
    let tasks: Vec<&String> = what.iter().filter_map(|asked| asked.task.as_ref()).collect();
    if tasks.len() > 1 {
        return Err(miette!(
            help = "run the command again for the other task",
            "critical-path accepts one task at a time"
        ));
    }
    let options = AnalysisOptions { each_task, task: tasks.first().map(|&task| task.clone()), replayed: false };
    let kinds: Vec<AnalysisKind> = what.iter().map(|asked| asked.kind).collect();
    Ok((if kinds.is_empty() { AnalysisKind::USUAL.to_vec() } else { kinds }, options))
}

/// The most tasks in a message.
const NAMES: usize = 16;

/// Lists at most [`NAMES`] names, and counts others.
fn some<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| printable(name)).collect();
    let more = names.len().saturating_sub(NAMES);
    let listed = names[..names.len() - more].join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// Checks that the task of the critical path exists, and notes which of several is used. `trace`: the trace, not a run.
pub(crate) fn check(analyses: &Analyses, options: &AnalysisOptions, trace: Option<&Path>) -> miette::Result<()> {
    if let (Some(wanted), Some(task)) = (&options.task, analyses.critical_task()) {
        let mut others = analyses.tasks_called(wanted);
        let count = others.len();
        others.retain(|other| *other != task);
        if count > 1 {
            output::note(&format!(
                "{count} tasks are called `{wanted}`; the critical path is that of {task}, others are {}",
                some(&others)
            ));
        }
    }
    match &options.task {
        Some(task) if analyses.tasks_called(task).is_empty() => {
            let help = match trace {
                Some(trace) => format!("`vruntime trace info {} --all` lists all tasks of the trace", trace.display()),
                None => format!("there are {}", some(&analyses.task_names())),
            };
            Err(miette!(help = help, "there is no task with the name or pid `{task}`"))
        }
        _ => match analyses.lacks() {
            Some((kind, why)) => {
                let help = format!(
                    "give --cgroups FILE. This command writes it on the recorded machine, best just before the trace is recorded:\n\
                     {CGROUPS_COMMAND}\nFor a run of vruntime, the text trace has all of this (trace.txt of `run --out DIR`)"
                );
                Err(miette!(help = help, "`{kind}` is not possible: {why}"))
            }
            None => Ok(()),
        },
    }
}

/// Fails if a workload has no task of that name. Accepts pids, numbered copies (`NAME-2`) and kernel threads, which the
/// run checks.
pub(crate) fn may_be_there(wanted: &str, workload: &Workload) -> miette::Result<()> {
    let numbered = wanted.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok()).map(|(name, _)| name);
    let called = |task: &Task| [Some(wanted), numbered].contains(&Some(&task.name)) || task.class == wanted;
    let of_kernel = wanted.contains('/') || !wanted.chars().any(|letter| !letter.is_ascii_digit());
    if of_kernel || workload.tasks.iter().any(called) || KERNEL_THREADS.contains(&wanted) {
        return Ok(());
    }
    let names: BTreeSet<String> = workload.tasks.iter().map(|task| task.class.clone()).collect();
    Err(miette!(help = format!("there are {}", some(&names)), "there is no task with the name or pid `{wanted}`"))
}

/// Names without numbers of simulated kernel threads.
const KERNEL_THREADS: [&str; 3] = ["kworker", "rcu_preempt", "background"];

/// A machine's recorded groups.
#[derive(Debug)]
pub(crate) struct Machine {
    cgroups: Cgroups,
    /// Nice values of autogroups, by number.
    sessions: BTreeMap<u64, i8>,
}

impl From<Cgroups> for Machine {
    fn from(cgroups: Cgroups) -> Self {
        let sessions = cgroups.sessions().collect();
        Self { cgroups, sessions }
    }
}

/// Prefix of an autogroup's path.
const AUTOGROUP: &str = "/autogroup-";

impl MachineGroups for Machine {
    fn hierarchy(&self) -> i32 {
        self.cgroups.hierarchy()
    }

    fn group_of(&self, thread: i32, cgroup: Option<&str>) -> Option<String> {
        // Only tasks of the root have autogroups.
        let session = || self.cgroups.session(thread).filter(|_| self.cgroups.autogroup());
        let path = match cgroup.or_else(|| self.cgroups.of(thread)) {
            Some(path) => self.cgroups.task_group(path),
            None => session().map(|_| "/")?,
        };
        Some(match session() {
            Some((id, _)) if path == "/" => format!("{AUTOGROUP}{id}"),
            _ => path.to_owned(),
        })
    }

    fn settings(&self, group: &str) -> Option<GroupInfo<'static>> {
        if let Some(group) = self.cgroups.settings(group) {
            let max = group.max.map(|limit| (limit.quota, limit.period));
            return Some(GroupInfo { weight: group.weight, idle: group.idle, max, ..GroupInfo::default() });
        }
        let nice = *self.sessions.get(&group.strip_prefix(AUTOGROUP)?.parse().ok()?)?;
        Some(GroupInfo { weight: 100, nice: Some(nice), ..GroupInfo::default() })
    }

    fn affinity_of(&self, thread: i32) -> Option<&[u32]> {
        self.cgroups.affinity(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_no_run_has_are_known_before() {
        let tasks = [("web", "web"), ("web-1", "web"), ("log", "log")]
            .map(|(name, class)| Task { class: class.to_owned(), ..Task::new(name, []) });
        let workload = Workload { tasks: tasks.into(), ..Workload::default() };
        for there in ["web", "web-1", "log", "log-3", "4000", "kworker/0:0", "migration/1", "rcu_preempt"] {
            assert!(may_be_there(there, &workload).is_ok(), "{there}");
        }
        let error = may_be_there("wbe", &workload).unwrap_err();
        assert_eq!(error.help().unwrap().to_string(), "there are log, web");
        let broken = Workload { tasks: vec![Task::new("a\n\tb", [])], ..Workload::default() };
        let error = may_be_there("wbe", &broken).unwrap_err();
        assert_eq!(error.help().unwrap().to_string(), "there are a\\n\\tb");
    }

    #[test]
    fn a_word_names_an_analysis_and_its_task() {
        assert_eq!(word("latency"), Ok(Asked { kind: AnalysisKind::Latency, task: None }));
        assert_eq!(
            word("critical-path:rustc"),
            Ok(Asked { kind: AnalysisKind::CriticalPath, task: Some("rustc".to_owned()) })
        );
        for nameless in ["critical-path", "critical-path:"] {
            assert!(word(nameless).unwrap_err().contains("critical-path:NAME"), "{nameless}");
        }
        assert!(word("latency:x").unwrap_err().contains("only critical-path"));
        assert!(word("late").unwrap_err().contains("the analyses are latency, timehist"));
    }
}
