//! `vruntime trace analyse`.

use std::ops::ControlFlow;
use std::sync::Arc;

use miette::miette;
use serde_json::json;
use vruntime_report::{Analyses, AnalysisKind, Shown};
use vruntime_trace::Tracepoint;

use super::{COUNTS_FOR_TIME, UNREAD, stopped_early};
use crate::args::TraceAnalyse;
use crate::commands::analyses::{Machine, asked, check};
use crate::commands::html;
use crate::output_paths::OutputPaths;
use crate::trace_file::{cgroups, each_event, open};
use crate::{Ended, interrupt, output, tables};

/// The help for a file without events, or without switches, and without damage.
const NO_EVENT: &str = "vruntime trace info prints what the file has, and how to record events";
/// The number of rows of a table without `--rows`.
const DEFAULT_ROWS: usize = 25;

pub(super) fn analyse(arguments: &TraceAnalyse) -> miette::Result<Ended> {
    let inputs = std::iter::once(&arguments.file).chain(&arguments.cgroups);
    arguments.reports.output_paths(OutputPaths::default().reads(inputs)).check()?;
    let mut chosen = asked(&arguments.what, arguments.each_task)?;
    if arguments.reports.html.is_some() && arguments.what.is_empty() {
        chosen = html::watch(Some(chosen));
    }
    let (mut kinds, options) = chosen;
    let machine = arguments.cgroups.as_deref().map(cgroups).transpose()?;
    if machine.is_some() {
        if arguments.what.is_empty() {
            kinds.extend([AnalysisKind::Groups, AnalysisKind::Throttling]);
        } else if !kinds.iter().any(|kind| kind.tells_groups() || *kind == AnalysisKind::IdleWhileWaiting) {
            let help = "request groups, throttling, critical-path or idle-while-waiting, too, or leave --cgroups out";
            return Err(miette!(
                help = help,
                "no requested analysis needs groups or affinities, which --cgroups supplies"
            ));
        }
    }
    let mut events = open(&arguments.file)?;
    let mut analyses = Analyses::new(&kinds, &options);
    if let Some(cgroups) = machine {
        analyses = analyses.with_groups(Arc::new(Machine::from(cgroups)));
    }
    if arguments.reports.html.is_some() {
        analyses = analyses.with_overview();
    }
    let (mut count, mut has_switches) = (0_u64, false);
    let stopped = each_event(&arguments.file, &mut *events, |record| {
        analyses.add(record);
        count += 1;
        has_switches |= matches!(record.point, Tracepoint::Switch { .. });
        ControlFlow::Continue(())
    })?;
    analyses.end();
    if let Some(stopped) = stopped.as_ref().filter(|_| count == 0) {
        output::note(&stopped_early(stopped));
        return Ok(Ended::Interrupted);
    }
    let needs_switches = kinds.iter().any(|kind| *kind != AnalysisKind::Migrations);
    if stopped.is_none() && (count == 0 || (needs_switches && !has_switches)) {
        let (file, damage) = (arguments.file.display(), events.notes().damage());
        let help = if damage.is_empty() { NO_EVENT.to_owned() } else { damage.join("\n") };
        return Err(match count {
            0 => miette!(help = help, "there is no event in {file}"),
            _ => miette!(help = help, "{file} has no sched_switch, so it is unknown which tasks ran"),
        });
    }
    let mut lacking = check(&analyses, &options, Some(&arguments.file)).err();
    // With several analyses, prints the others first.
    if let Some(error) = lacking.take_if(|_| kinds.len() == 1) {
        return Err(error);
    }
    analyses.add_damage(events.notes().damage());
    analyses.set_stopped(stopped.as_ref().map(|stopped| format!("{}: {UNREAD}", stopped_early(stopped))));
    if events.notes().counts_for_time {
        output::note(COUNTS_FOR_TIME);
    }
    let write_all = || {
        let path = arguments.reports.html.as_ref();
        let page = path.map(|path| html::write(&html::trace_page(&arguments.file, &analyses), path));
        let asked = &arguments.reports.tables;
        let tables = asked.folder.as_ref().map_or_else(Vec::new, |_| vec![analyses.tables().into()]);
        let written = tables::write(asked, "trace analyse", tables, &analyses.notes());
        written.and(page.unwrap_or(Ok(())))
    };
    let print = || {
        if arguments.json {
            let mut json = analyses.json();
            json["file"] = json!(arguments.file.display().to_string());
            output::print_json(&json);
        } else {
            let shown = if arguments.all {
                Shown::rows(usize::MAX)
            } else {
                // Scripts read all of timehist, as of perf's, unless --rows is given.
                let switches = arguments.rows.unwrap_or(usize::MAX);
                Shown { switches, ..Shown::rows(arguments.rows.unwrap_or(DEFAULT_ROWS)) }
            };
            output::print(&analyses.text(shown));
        }
    };
    // Prints the results before errors of writing.
    let written = interrupt::write_and_print(write_all, print);
    // The text has notes at its end, and JSON and tables in `notes`. `timehist` has no room for them.
    if !arguments.json && analyses.is_for_machines() {
        analyses.notes().iter().for_each(|note| output::note(note));
    }
    let ended = if stopped.is_some() { Ended::Interrupted } else { Ended::Well };
    written?;
    lacking.map_or(Ok(ended), Err)
}
