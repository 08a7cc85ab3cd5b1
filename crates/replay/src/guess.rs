//! Whether the machine of a trace had autogroups, where nobody says it.

use std::collections::BTreeMap;

use vruntime_report::Results;
use vruntime_sim::plan::{self, Overrides, Plan, Trace};

use crate::Error;
use crate::recorded::{self, Recorded};
use crate::recording::{Recording, finish};
use crate::replay::Runner;

/// A session counts if its tasks had so much of the time, in thousandths; with fewer than two of them autogroups change
/// nothing.
const LARGE_PERMILLE: u64 = 10;
/// With autogroups so much more of all CPU time has to be as it was recorded.
const BETTER: f64 = 0.02;

/// Nothing says whether autogroup was on, and the replay is closer to the recording if it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// The share of CPU time that goes to other tasks than recorded, replayed with autogroups.
    pub with: f64,
    /// The same, replayed without.
    pub without: f64,
}

/// Whether the tasks of the root group were in autogroups. Where neither the machine nor the caller says it, they are
/// taken to have been if the trace replayed with autogroups is off by less than half of what it is without; `trace`
/// says so then, and what is returned is to be told.
pub(crate) fn autogroup(
    trace: &mut Trace,
    recording: &Recording,
    overrides: &Overrides,
    keep_times: bool,
    run: &Runner<'_>,
) -> Result<Option<Guess>, Error> {
    if recording.autogroup.is_some() || overrides.autogroup.is_some() {
        return Ok(None);
    }
    let replay = |autogroup| -> Result<(Recorded, Plan), Error> {
        let trace = Trace { autogroup, ..trace.clone() };
        let plan =
            plan::plan(plan::Input::Trace(&trace), overrides, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?;
        let mut recorded = finish(recording.recorder.clone(), &plan.config, keep_times);
        recorded::fit(&mut recorded.workload, plan.config.machine.topology.nr_cpus() as u32);
        Ok((recorded, plan))
    };
    let replays = [replay(false)?, replay(true)?];
    if !sessions_compete(&replays[1].0) {
        return Ok(None);
    }
    let jobs: Vec<_> = replays.iter().map(|(recorded, plan)| (&recorded.workload, plan)).collect();
    let runs = run(&jobs);
    // Why one is refused is told when it counts.
    let off = |(recorded, _): &(Recorded, Plan), run: Option<&Option<Results>>| Some(off(recorded, run?.as_ref()?));
    let [Some(without), Some(with)] = [off(&replays[0], runs.first()), off(&replays[1], runs.get(1))] else {
        return Ok(None);
    };
    trace.autogroup = with < without / 2.0 && without - with > BETTER;
    Ok(trace.autogroup.then_some(Guess { with: with / 2.0, without: without / 2.0 }))
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
fn off(recorded: &Recorded, results: &Results) -> f64 {
    let (mut off, mut all) = (0, 0);
    let replayed: BTreeMap<&str, u64> =
        results.tasks.iter().map(|task| (task.name.as_str(), task.account.cpu_ns)).collect();
    for thread in &recorded.threads {
        let Some(task) = thread.task else { continue };
        let name = recorded.workload.tasks[task].name.as_str();
        off += thread.cpu_ns.abs_diff(replayed.get(name).copied().unwrap_or(0));
        all += thread.cpu_ns;
    }
    off as f64 / all.max(1) as f64
}
