//! Whether the machine of a trace had autogroups, where nobody says it.

use std::collections::BTreeMap;

use vruntime_replay::recorded::{self, Recorded};
use vruntime_sim::plan::{Machine, Trace};

use super::recording::{Reading, finish};
use crate::args::Model;
use crate::plan::{Plan, plan_of_trace};
use crate::simulate::{self, Done, Job};

/// A session counts if its tasks had so much of the time, in thousandths; with fewer than two of them autogroups change
/// nothing.
const LARGE_PERMILLE: u64 = 10;
/// With autogroups so much more of all CPU time has to be as it was recorded.
const BETTER: f64 = 0.02;

/// Whether the tasks of the root group were in autogroups. Where neither the machine nor an option says it, they are
/// taken to have been if the trace replayed with autogroups is off by less than half of what it is without; `trace`
/// says so then, and what is returned is to be told.
pub(in crate::commands) fn autogroup(
    trace: &mut Trace,
    reading: &Reading,
    machine: Option<&Machine>,
    model: &Model,
    keep_times: bool,
) -> miette::Result<Option<String>> {
    if reading.autogroup.is_some() || model.autogroup || model.no_autogroup {
        return Ok(None);
    }
    // What is tried out is no part of how it was recorded.
    let model = Model { set: Vec::new(), feature: Vec::new(), ..model.clone() };
    let replay = |autogroup| -> miette::Result<(Recorded, Plan)> {
        let plan = plan_of_trace(&Trace { autogroup, ..trace.clone() }, machine.cloned(), &model)?;
        let mut recorded = finish(reading.recorder.clone(), &plan.config, keep_times, 0);
        recorded::fit(&mut recorded.workload, plan.config.machine.topology.nr_cpus() as u32);
        Ok((recorded, plan))
    };
    let replays = [replay(false)?, replay(true)?];
    if !sessions_compete(&replays[1].0) {
        return Ok(None);
    }
    let jobs: Vec<Job<'_>> = replays
        .iter()
        .map(|(recorded, plan)| Job::new(&recorded.workload, plan.config.clone(), &plan.kernel))
        .collect();
    let runs = simulate::all(&jobs);
    // Why one is refused is told when it counts.
    let off = |(recorded, _): &(Recorded, Plan), run: &Result<_, _>| run.as_ref().ok().map(|run| off(recorded, run));
    let [Some(without), Some(with)] = [off(&replays[0], &runs[0]), off(&replays[1], &runs[1])] else {
        return Ok(None);
    };
    trace.autogroup = with < without / 2.0 && without - with > BETTER;
    Ok(trace.autogroup.then(|| {
        format!(
            "nothing says whether autogroup was on: taken to have been, for replayed with it {:.1} % of the CPU time goes \
             to other tasks than recorded, and {:.1} % without; --autogroup and --no-autogroup say it",
            with * 50.0,
            without * 50.0
        )
    }))
}

/// Whether two sessions or more had enough of the time to be in each other's way.
fn sessions_compete(recorded: &Recorded) -> bool {
    let mut had = vec![0; recorded.workload.sessions.len()];
    for thread in &recorded.threads {
        if let Some(session) = thread.task.and_then(|task| recorded.workload.tasks[task].session) {
            had[session] += thread.cpu_ns;
        }
    }
    let large = had.iter().filter(|&&had| had >= recorded.duration_ns / 1000 * LARGE_PERMILLE).count();
    large >= 2
}

/// How much more or less CPU time than in the recording tasks have in a replay, all together: of all of it, twice what
/// goes to others.
fn off(recorded: &Recorded, run: &Done) -> f64 {
    let (mut off, mut all) = (0, 0);
    let replayed: BTreeMap<&str, u64> =
        run.results.tasks.iter().map(|task| (task.name.as_str(), task.account.cpu_ns)).collect();
    for thread in &recorded.threads {
        let Some(task) = thread.task else { continue };
        let name = recorded.workload.tasks[task].name.as_str();
        off += thread.cpu_ns.abs_diff(replayed.get(name).copied().unwrap_or(0));
        all += thread.cpu_ns;
    }
    off as f64 / all.max(1) as f64
}
