//! Decides what a trace leaves open, by the replay that is nearest to it: whether the machine had autogroups, and how
//! closely tasks that wake each other stay together.

use std::collections::BTreeMap;
use std::iter;

use vruntime_report::Results;
use vruntime_sim::plan::{self, Overrides, Plan, Trace};

use crate::Error;
use crate::check::by_task;
use crate::recorded::Coupling;
use crate::recorded::{self, Recorded};
use crate::recording::{How, Recording, finish};
use crate::replay::Runner;

/// A session counts if its tasks had at least this part of the time, in thousandths. With fewer than two such sessions,
/// autogroups change nothing.
const LARGE_PERMILLE: u64 = 10;
/// With autogroups, at least this part more of all CPU time has to be as recorded.
const BETTER: f64 = 0.02;

/// At most this number of pools is tried: those that used most CPU time.
const MOST_POOLS: usize = 4;

/// The weight of a wrong share of CPU time, relative to a wrong number of switches.
const CPU_TIMES: f64 = 3.0;

/// Nothing says whether autogroup was on, and the replay is closer to the recording if it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// The part of the CPU time that differs from the recording, replayed with autogroups.
    pub with: f64,
    /// The same, replayed without.
    pub without: f64,
}

/// Decides whether the tasks of the root group were in autogroups, if neither the machine nor the caller says so. They
/// were if a replay with autogroups has less than half of the error of one without, and the errors differ by more than
/// [`BETTER`]. Sets `trace.autogroup`, and returns what the caller has to report.
pub(crate) fn autogroup(
    trace: &mut Trace,
    recording: &Recording,
    overrides: &Overrides,
    how: How,
    run: &Runner<'_>,
) -> Result<Option<Guess>, Error> {
    if recording.autogroup.is_some() || overrides.autogroup.is_some() {
        return Ok(None);
    }
    let replay = |autogroup| -> Result<(Recorded, Plan), Error> {
        let trace = Trace { autogroup, ..trace.clone() };
        let plan =
            plan::plan(plan::Input::Trace(&trace), overrides, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?;
        let mut recorded = finish(recording.recorder.clone(), &plan.config, how);
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
    let off =
        |(recorded, _): &(Recorded, Plan), run: Option<&Option<Results>>| Some(off(recorded, run?.as_ref()?, false));
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

/// What a trace leaves open about the tasks that wake each other, and how it was decided.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// How closely tasks stay together that wake each other.
    pub coupling: Coupling,
    /// The names of the pools whose members do each other's work.
    pub pools: Vec<String>,
    /// What was tried, in this order; empty if the trace leaves nothing open.
    pub tried: Vec<Tried>,
}

/// One way to make the programs, and how far its replay is from the recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tried {
    /// As in [`Choice::coupling`].
    pub coupling: Coupling,
    /// As in [`Choice::pools`].
    pub pools: Vec<String>,
    /// The difference of CPU times from the recording, as a part of all, times three; in a replay as recorded plus that
    /// of switches. 0: none.
    pub distance: f64,
}

impl Choice {
    fn new(best: How, tried: &[(How, f64)], names: &[String]) -> Self {
        let names = |pools: u32| {
            let chosen = names.iter().enumerate().filter(|(number, _)| *number < 32 && pools >> number & 1 == 1);
            chosen.map(|(_, name)| name.clone()).collect()
        };
        let tried =
            tried.iter().map(|&(how, distance)| Tried { coupling: how.coupling, pools: names(how.pools), distance });
        Self { coupling: best.coupling, pools: names(best.pools), tried: tried.collect() }
    }
}

/// Returns how to make the programs of the replay nearest to the recording, by CPU times, and in a replay as recorded
/// also by switches: how closely tasks that wake each other stay together, and which pools exist. The rest is as in
/// `how`.
///
/// A what-if always has pools. A replay without them keeps recorded times where a thread waited for others, so it is
/// near to the recording, but says nothing on other conditions.
pub(crate) fn nearest(recording: &Recording, plan: &Plan, how: How, run: &Runner<'_>) -> (How, Choice) {
    let cpus = plan.config.machine.topology.nr_cpus() as u32;
    let replay = |how: How| {
        let mut recorded = finish(recording.recorder.clone(), &plan.config, how);
        recorded::fit(&mut recorded.workload, cpus);
        (how, recorded)
    };
    let distances = |replays: &[(How, Recorded)]| -> Vec<(How, f64)> {
        let jobs: Vec<_> = replays.iter().map(|(_, recorded)| (&recorded.workload, plan)).collect();
        let runs = run(&jobs);
        let all = replays.iter().zip(&runs);
        all.filter_map(|((how, recorded), results)| Some((*how, distance(*how, recorded, results.as_ref()?)))).collect()
    };

    let mut first = replay(how);
    let (counts, names) = (first.1.counts, first.1.pools.clone());
    if counts.together == 0 && names.is_empty() {
        return (how, Choice::new(how, &[], &names));
    }
    if how.goes_on && counts.pools_of_threads != 0 {
        first = replay(How { pools: counts.pools_of_threads, ..how });
    }
    let how = first.0;
    let rest = Coupling::ALL.into_iter().filter(|&coupling| coupling != how.coupling && counts.together > 0);
    let replays: Vec<_> = iter::once(first).chain(rest.map(|coupling| replay(How { coupling, ..how }))).collect();
    let mut tried = distances(&replays);
    // Of equally close ones the first.
    let nearest = |tried: &[(How, f64)]| tried.iter().copied().reduce(|one, two| if two.1 < one.1 { two } else { one });
    let Some(mut best) = nearest(&tried) else { return (how, Choice::new(how, &[], &names)) };
    for pool in (0..names.len().min(MOST_POOLS)).filter(|pool| how.pools >> pool & 1 == 0) {
        let with = |&(how, _): &(How, Recorded)| replay(How { pools: best.0.pools | 1 << pool, ..how });
        tried.extend(distances(&replays.iter().map(with).collect::<Vec<_>>()));
        best = nearest(&tried).unwrap_or(best);
    }
    (best.0, Choice::new(best.0, &tried, &names))
}

/// Returns the distance of a replay from the recording. A what-if is asked for shares of CPU time; switches only show
/// how these arise.
fn distance(how: How, recorded: &Recorded, results: &Results) -> f64 {
    CPU_TIMES * off(recorded, results, how.goes_on) + if how.goes_on { 0.0 } else { switches_off(recorded, results) }
}

/// How many more or fewer switches there are in a replay than in the recording, of all.
fn switches_off(recorded: &Recorded, results: &Results) -> f64 {
    let replayed = by_task(recorded, results);
    let all: u64 = recorded.threads.iter().filter(|thread| thread.task.is_some()).map(|thread| thread.switches).sum();
    let now: u64 = replayed.values().map(|measure| measure.switches).sum();
    now.abs_diff(all) as f64 / all.max(1) as f64
}

/// Returns the difference of CPU times from the recording, as a part of the total: twice the time that other tasks get.
/// With `by_name`, tasks of one name count together, since chance decides which of them does the work.
fn off(recorded: &Recorded, results: &Results, by_name: bool) -> f64 {
    let replayed = by_task(recorded, results);
    let (mut off, mut all, mut shared) = (0, 0, BTreeMap::<&str, (u64, u64)>::new());
    for thread in &recorded.threads {
        let Some(task) = thread.task else { continue };
        let name = recorded.workload.tasks[task].name.as_str();
        let now = replayed.get(name).map_or(0, |measure| measure.cpu_ns);
        all += thread.cpu_ns;
        match Some(thread.comm.as_str()).filter(|_| by_name) {
            Some(name) => {
                let sums = shared.entry(name).or_default();
                *sums = (sums.0 + thread.cpu_ns, sums.1 + now);
            }
            None => off += thread.cpu_ns.abs_diff(now),
        }
    }
    off += shared.values().map(|(then, now)| then.abs_diff(*now)).sum::<u64>();
    off as f64 / all.max(1) as f64
}
