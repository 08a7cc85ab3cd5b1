//! Analyses as they are asked for on the command line.

use std::str::FromStr;

use miette::miette;
use vruntime_report::{Analyses, AnalysisKind, AnalysisOptions};

/// One word: `latency`, or `critical-path:TASK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    kind: AnalysisKind,
    task: Option<String>,
}

/// Reads a word.
pub(crate) fn word(text: &str) -> Result<Asked, String> {
    let (name, task) = text.split_once(':').map_or((text, None), |(name, task)| (name, Some(task.to_owned())));
    let kind = AnalysisKind::from_str(name)?;
    match (kind, &task) {
        (AnalysisKind::CriticalPath, None) => Err("say of which task: critical-path:NAME, or its pid".to_owned()),
        (AnalysisKind::CriticalPath, Some(_)) | (_, None) => Ok(Asked { kind, task }),
        (_, Some(_)) => Err(format!("only critical-path is of one task: `{name}` takes none")),
    }
}

/// What to look for; the usual if nothing is said.
pub(crate) fn asked(what: &[Asked], each_task: bool) -> miette::Result<(Vec<AnalysisKind>, AnalysisOptions)> {
    let tasks: Vec<&String> = what.iter().filter_map(|asked| asked.task.as_ref()).collect();
    if tasks.len() > 1 {
        return Err(miette!(help = "ask again for the other", "critical-path is of one task at a time"));
    }
    let options = AnalysisOptions { each_task, task: tasks.first().map(|&task| task.clone()), replayed: false };
    let kinds: Vec<AnalysisKind> = what.iter().map(|asked| asked.kind).collect();
    Ok((if kinds.is_empty() { AnalysisKind::USUAL.to_vec() } else { kinds }, options))
}

/// Whether the task of the critical path was there.
pub(crate) fn check(analyses: &Analyses, options: &AnalysisOptions) -> miette::Result<()> {
    match &options.task {
        Some(task) if !analyses.has_task(task) => Err(miette!(
            help = "`vruntime trace info TRACE --all` lists all tasks of a trace",
            "there is no task with the name or pid `{task}`"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(word("latency"), Ok(Asked { kind: AnalysisKind::Latency, task: None }));
        assert_eq!(
            word("critical-path:rustc"),
            Ok(Asked { kind: AnalysisKind::CriticalPath, task: Some("rustc".to_owned()) })
        );
        assert!(word("critical-path").unwrap_err().contains("critical-path:NAME"));
        assert!(word("latency:x").unwrap_err().contains("only critical-path"));
        assert!(word("late").unwrap_err().contains("there are latency, timehist"));
    }
}
