//! Reads the trace of a replay, and prints notes on its programs.

use std::path::Path;

use vruntime_replay::{Guess, LeftOut, ReadOptions, Reader, Recording, Substitute, TaskTotals};
use vruntime_report::{Analyses, counted};
use vruntime_sim::Config;
use vruntime_workload::program::Workload;

use crate::plan::{Plan, report_of_trace};
use crate::simulate::{self, Job};
use crate::trace_file::{ROUND, explain, open, reads_again};
use crate::{interrupt, output};

/// A trace, its analyses, and the unreadable parts of its file.
pub(super) type Read = (Recording, Option<Analyses>, Vec<String>);

/// Reads a trace, and passes its events to `analyses`. `None` after Ctrl-C.
pub(super) fn read(
    path: &Path,
    options: &ReadOptions,
    analyses: Option<&dyn Fn() -> Analyses>,
) -> miette::Result<Option<Read>> {
    let mut reader = Reader::new(&path.display().to_string(), options);
    loop {
        let mut analyses = analyses.map(|analyses| analyses());
        let mut events = open(path)?;
        let mut count = 0_u64;
        while let Some(record) = events.next_record().map_err(|error| explain(path, &error))? {
            if !reader.add(&record) {
                break;
            }
            count += 1;
            if count.is_multiple_of(ROUND) && interrupt::asked() {
                return Ok(None);
            }
            if let Some(analyses) = &mut analyses {
                analyses.add(&record);
            }
        }
        if interrupt::asked() {
            return Ok(None);
        }
        if let Some(analyses) = &mut analyses {
            analyses.end();
        }
        // Files can be read again.
        if let Some(again) = reader.again().filter(|_| reads_again(path)) {
            reader = again;
            continue;
        }
        let damage = events.notes().damage();
        if let Some(analyses) = &mut analyses {
            analyses.add_damage(damage.clone());
        }
        return Ok(Some((reader.finish(events.notes()).map_err(report_of_trace)?, analyses, damage)));
    }
}

/// Runs trial replays, several at once.
pub(super) fn run(replays: &[(&Workload, &Plan)]) -> Vec<Option<Vec<TaskTotals>>> {
    let jobs = replays.iter().map(|(workload, plan)| Job::new(workload, plan.config.clone(), &plan.kernel));
    simulate::totals(&jobs.collect::<Vec<Job<'_>>>())
}

/// Notes the kernel that replaces a trace's.
pub(super) fn note_substitute(path: &Path, substitute: Option<&Substitute>) {
    if let Some(Substitute { release, kernel }) = substitute {
        let path = path.display();
        output::note(&format!(
            "{path} was recorded under Linux {release}, which is not supported: {kernel} replaces it (--recorded-kernel sets another)"
        ));
    }
}

/// Returns the note on assumed autogroups.
pub(super) fn guessed(guess: &Guess) -> String {
    format!(
        "the trace does not say whether autogroup was on: it is assumed, because {:.1} % of the CPU time differs from the recording with it, \
         and {:.1} % without (--autogroup and --no-autogroup set it)",
        guess.with * 100.0,
        guess.without * 100.0
    )
}

/// Notes parts of a trace's programs that a kernel and its machine lack.
pub(super) fn note_left_out(left_out: &LeftOut, config: &Config) {
    let LeftOut { clamps, partitions, unfit } = *left_out;
    for (count, what) in [(clamps, "utilisation clamps"), (partitions, "partitions")] {
        if count > 0 {
            let groups = counted(count as u64, "group", "groups");
            output::note(&format!("{what} of {groups} are left out: Linux {} lacks them", config.kernel.name));
        }
    }
    if unfit.tasks > 0 {
        output::note(&format!(
            "{} confined to a CPU that this machine does not have may run anywhere on it",
            counted(unfit.tasks as u64, "task", "tasks")
        ));
    }
    if unfit.groups > 0 {
        let cpusets = counted(unfit.groups as u64, "cpuset loses", "cpusets lose");
        output::note(&format!("{cpusets} CPUs that this machine does not have"));
    }
    if unfit.hotplug > 0 {
        output::note(&format!(
            "{} left out: this machine lacks the CPU, or has no other",
            counted(
                unfit.hotplug as u64,
                "change of a CPU to offline or online is",
                "changes of CPUs to offline or online are"
            )
        ));
    }
}
