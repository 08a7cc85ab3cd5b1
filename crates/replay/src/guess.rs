//! Decides what a trace leaves open, by the nearest replay: whether the machine had autogroups, and how closely tasks
//! that wake each other stay together.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use vruntime_sim::plan::{self, Overrides, Plan, Trace};
use vruntime_sim::{Config, both, parallel};
use vruntime_workload::program::{Follow, Op, Task, Workload};

use crate::Error;
use crate::distance::{distance, off};
use crate::recorded::{self, Connection, Coupling, Prepared, Reads, Recorded, Recorder};
use crate::recording::{How, Recording, prepare, programs};
use crate::replay::Runner;
use crate::source::Source;
use crate::tally::TaskTotals;

/// Thousandths of the time from which a session or a pool counts, or the tasks of a coupling. With fewer than two
/// sessions, autogroups change nothing.
const LARGE_PERMILLE: u64 = 10;
/// How much autogroups must lower the error. The error counts CPU time twice, at the task that lacks it and at the one
/// that has it. So this is 1 % of all CPU time.
const BETTER: f64 = 0.02;

/// The most pools to try, by CPU time.
const MOST_POOLS: usize = 4;

/// A coupling this many times farther from the recording than the nearest is not tried with other pools. Choices that
/// far are not tried with charged switches.
const FAR: f64 = 2.0;

/// Distances up to this one are alike: CPU times that differ by a fifteenth.
const NEAR: f64 = 0.2;

/// How often connections are left out, and the programs made again. Programs without them have other repetitions.
const ATTEMPTS: usize = 4;

/// Autogroup was unknown, and the replay with it is nearer to the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Part of CPU time that differs from the recording, with autogroups.
    pub with: f64,
    /// `with`, but without autogroups.
    pub without: f64,
}

/// Decides whether the root group had autogroups, if neither machine nor caller says so. It had if a replay with them
/// has less than half of the error, and errors differ by more than [`BETTER`]. Sets `trace.autogroup`, and returns what
/// the caller must report.
pub(crate) fn autogroup(
    trace: &mut Trace,
    (recording, whole): (&Recording, &Prepared),
    overrides: &Overrides,
    run: &Runner<'_>,
) -> Result<Option<Guess>, Error> {
    if recording.autogroup.is_some() || overrides.autogroup.is_some() {
        return Ok(None);
    }
    let replay = |autogroup| -> Result<(Recorded, Plan), Error> {
        let trace = Trace { autogroup, ..trace.clone() };
        let plan =
            plan::plan(plan::Input::Trace(&trace), overrides, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?;
        let mut recorded = programs(whole, &plan.config, How::default());
        recorded::fit(&mut recorded.workload, plan.config.machine.topology.nr_cpus() as u32);
        Ok((recorded, plan))
    };
    let replays = [replay(false)?, replay(true)?];
    if !sessions_compete(&replays[1].0) {
        return Ok(None);
    }
    let jobs: Vec<_> = replays.iter().map(|(recorded, plan)| (&recorded.workload, plan)).collect();
    let runs = run(&jobs);
    // A rejected replay is reported when it counts.
    let off = |(recorded, _): &(Recorded, Plan), run: Option<&Option<Vec<TaskTotals>>>| {
        Some(off(recorded, run?.as_ref()?, false))
    };
    let [Some(without), Some(with)] = [off(&replays[0], runs.first()), off(&replays[1], runs.get(1))] else {
        return Ok(None);
    };
    trace.autogroup = with < without / 2.0 && without - with > BETTER;
    Ok(trace.autogroup.then_some(Guess { with: with / 2.0, without: without / 2.0 }))
}

/// Whether at least two sessions had enough time to compete.
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

/// Decisions about tasks that wake each other.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a decision of its own")]
#[non_exhaustive]
pub struct Choice {
    /// How closely such tasks stay together.
    pub coupling: Coupling,
    /// Names of the pools, whose members do each other's work.
    pub pools: Vec<String>,
    /// Whether wakeups are synchronous, as those by pipes and sockets: the woken task may get the waker's CPU.
    pub sync: bool,
    /// Whether tasks wait for the recorded messages, and not only for wakeups.
    pub messages: bool,
    /// Whether switches and wakeups cost what they do on the recorded machine. Else their recorded costs are work.
    pub charged: bool,
    /// Whether closed loops continue after their recorded work. Always in a what-if.
    pub goes_on: bool,
    /// Attempts in order. Empty if the trace leaves nothing open.
    pub tried: Vec<Tried>,
}

/// An attempt, and the distance of its replay from the recording.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a decision of its own")]
#[non_exhaustive]
pub struct Tried {
    /// As in [`Choice::coupling`].
    pub coupling: Coupling,
    /// As in [`Choice::pools`].
    pub pools: Vec<String>,
    /// As in [`Choice::sync`].
    pub sync: bool,
    /// As in [`Choice::messages`].
    pub messages: bool,
    /// As in [`Choice::charged`].
    pub charged: bool,
    /// As in [`Choice::goes_on`].
    pub goes_on: bool,
    /// Three times the part of CPU time that differs from the recording. A replay as recorded adds the parts of
    /// switches and of waiting for a CPU. 0: none.
    pub distance: f64,
}

impl Choice {
    fn new(best: How, reads: Reads, tried: &[(How, f64)], names: &[String]) -> Self {
        let messages = reads == Reads::Messages;
        let How { coupling, sync, goes_on, .. } = best;
        let tried = tried.iter().map(|&(how, distance)| Tried::new(how, reads, distance, names)).collect();
        Self { coupling, pools: chosen(best.pools, names), sync, messages, charged: false, goes_on, tried }
    }
}

impl Tried {
    fn new(how: How, reads: Reads, distance: f64, names: &[String]) -> Self {
        let How { coupling, sync, goes_on, .. } = how;
        let messages = reads == Reads::Messages;
        Self { coupling, pools: chosen(how.pools, names), sync, messages, charged: false, goes_on, distance }
    }
}

/// Returns the names of chosen pools.
fn chosen(pools: u32, names: &[String]) -> Vec<String> {
    let chosen = names.iter().enumerate().filter(|(number, _)| *number < 32 && pools >> number & 1 == 1);
    chosen.map(|(_, name)| name.clone()).collect()
}

/// The replay nearest to the recording.
#[derive(Debug)]
pub(crate) struct Nearest {
    pub(crate) how: How,
    pub(crate) reads: Reads,
    pub(crate) choice: Choice,
    /// Its distance from the recording. None: nothing was tried.
    distance: Option<f64>,
    /// The programs of the whole recording, if they are made already.
    pub(crate) programs: Option<Recorded>,
    /// The choices, if they were tried.
    way: Option<Way>,
    /// The other ones of [`nearest`], with messages instead of without, or the reverse.
    other: Option<Way>,
}

impl Nearest {
    /// Whether attempts showed that it is nearer to the recording than the other.
    fn is_nearer(&self, than: &Self) -> bool {
        let far = f64::INFINITY;
        self.distance.unwrap_or(far) < than.distance.unwrap_or(far)
    }
}

/// Finds the replay nearest to the recording, with messages or without. Returns its preparation, too. `ready` is the
/// one without, if it is made already.
///
/// A what-if has messages wherever that is possible. A replay without them keeps the recorded distance between tasks.
/// So it is near to the recording, but says nothing about other conditions.
pub(crate) fn nearest(
    source: &Source,
    ready: Option<Prepared>,
    (plan, reads): (&Plan, Reads),
    how: How,
    run: &Runner<'_>,
) -> (Prepared, Nearest) {
    let with = || {
        let (with, all) = with_messages(source, (plan, reads), how)?;
        let nearest = nearest_of(source, (&with, all), (plan, Reads::Messages), how, run);
        Some((with, nearest))
    };
    let without = || {
        let without = ready.unwrap_or_else(|| prepare(source.recorder.clone(), &plan.config, reads));
        let all = programs(&without, &plan.config, how);
        let nearest = nearest_of(source, (&without, all), (plan, reads), how, run);
        (without, nearest)
    };
    let (with, (without, mut nearest)) = if how.goes_on {
        match with() {
            Some(with) => return with,
            None => (None, without()),
        }
    } else {
        both(with, without)
    };
    let Some((with, mut other)) = with else { return (without, nearest) };
    let nearer = other.is_nearer(&nearest);
    if nearer {
        std::mem::swap(&mut nearest, &mut other);
    }
    nearest.other = other.way;
    nearest.choice.tried.append(&mut other.choice.tried);
    (if nearer { with } else { without }, nearest)
}

/// Returns a replay with [charged](Choice::charged) switches, if it is nearer than `work` to the recording, and to its
/// beginning if that selects. Its other choices are the same. Otherwise returns `work`, without a preparation. The
/// choice has the attempts of both. `source` and `plan` charge switches.
pub(crate) fn charged(
    source: &Source,
    plan: &Plan,
    mut work: Nearest,
    run: &Runner<'_>,
) -> (Option<Prepared>, Nearest) {
    let Some(least) = work.way.as_ref().map(|way| way.distance) else { return (None, work) };
    let near = |way: &&Way| way.distance <= least * FAR;
    let mut ways: Vec<Way> = work.way.iter().chain(&work.other).filter(near).cloned().collect();
    // Tasks that are done early would leave the others alone.
    let messages = ways.iter().find(|way| way.reads == Reads::Messages).cloned();
    ways.extend(messages.map(|way| Way { how: How { goes_on: true, ..way.how }, ..way }));
    let distances = parallel(&ways, |_, way| {
        let prepared = way.prepare(way.decided_by(source), plan);
        let recorded = programs(&prepared, &plan.config, way.how);
        distance_of(false, &recorded, plan, run)
    });
    let (mut least, mut best) = (least, None);
    for (way, distance) in ways.into_iter().zip(distances) {
        let Some(distance) = distance else { continue };
        work.choice.tried.push(Tried { charged: true, ..Tried::new(way.how, way.reads, distance, &way.pools) });
        if distance < least {
            (least, best) = (distance, Some(way));
        }
    }
    let Some(way) = best else { return (None, work) };
    let whole = way.prepare(&source.recorder, plan);
    let all = programs(&whole, &plan.config, way.how);
    let distance = if way.by_beginning { distance_of(false, &all, plan, run) } else { Some(least) };
    if distance.is_none() || distance >= work.distance {
        return (None, work);
    }
    let tried = work.choice.tried;
    let choice = Choice { charged: true, tried, ..Choice::new(way.how, way.reads, &[], &way.pools) };
    let Way { how, reads, .. } = way;
    (Some(whole), Nearest { how, reads, choice, distance, programs: Some(all), way: None, other: None })
}

/// Choices of a replay, and what they are for.
#[derive(Clone, Debug)]
struct Way {
    how: How,
    reads: Reads,
    distance: f64,
    /// The names of all pools.
    pools: Vec<String>,
    /// Whether the beginning of the recording decides, with the pools of the whole.
    by_beginning: bool,
    without_connections: BTreeSet<Connection>,
}

impl Way {
    /// Returns the part of a recording that decides.
    fn decided_by<'a>(&self, source: &'a Source) -> &'a Recorder {
        source.sample().filter(|_| self.by_beginning).map_or(&source.recorder, |(_, beginning)| beginning)
    }

    fn prepare(&self, recorder: &Recorder, plan: &Plan) -> Prepared {
        prepare(recorder.clone().without_connections(self.without_connections.clone()), &plan.config, self.reads)
    }
}

/// Prepares a replay with messages, and makes its programs. Leaves out connections whose messages a task would wait for
/// for ever: their sockets were paired wrongly, or something else let the task go on. None: there are no messages.
fn with_messages(source: &Source, (plan, reads): (&Plan, Reads), how: How) -> Option<(Prepared, Recorded)> {
    if reads != Reads::Wakeups || !source.recorder.may_have_messages() {
        return None;
    }
    let mut without = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        let recorder = source.recorder.clone().without_connections(without.clone());
        let with = prepare(recorder, &plan.config, Reads::Messages);
        let all = programs(&with, &plan.config, how);
        if all.counts.messages == 0 {
            return None;
        }
        let impossible = with.impossible(&all);
        if impossible.is_empty() {
            return Some((with, all));
        }
        without.extend(impossible);
    }
    None
}

/// Returns coupling and pools of the replay nearest to the recording by CPU times. As recorded, switches and waiting
/// for a CPU count, too. The rest is as in `how`, with which `all` is made. The [beginning](Source::sample) of a long
/// recording selects two ways, and the whole decides. If replays of the whole are much farther from it or much nearer,
/// the whole selects, too. Tasks may wait for each other for ever, or begin in another way.
///
/// A what-if always has pools. A replay without them keeps recorded times of waits for other threads: it is near to the
/// recording, but says nothing about other conditions.
fn nearest_of(
    source: &Source,
    (whole, all): (&Prepared, Recorded),
    (plan, reads): (&Plan, Reads),
    how: How,
    run: &Runner<'_>,
) -> Nearest {
    let names = &all.pools;
    let undecided = |programs| Nearest {
        how,
        reads,
        choice: Choice::new(how, reads, &[], names),
        distance: None,
        programs,
        way: None,
        other: None,
    };
    if all.counts.follows == 0 && names.is_empty() {
        return Nearest { programs: Some(all.clone()), ..undecided(None) };
    }
    let make = |way: How| {
        let made = if way == how { Some(all.clone()) } else { recoupled_from((how, &all), way) };
        made.unwrap_or_else(|| programs(whole, &plan.config, way))
    };
    let beginning = Trial::of_beginning(source, (plan, reads), how, (whole, &all));
    let by_beginning = beginning.and_then(|trial| {
        let tried = trial.search((how, &all), plan, run);
        drop(trial);
        let best = decided_by_whole(&tried, &make, plan, run)?;
        Some((best, tried))
    });
    let is_by_beginning = by_beginning.is_some();
    let found = by_beginning.or_else(|| {
        let tried = Trial::of_whole(plan, how, (whole, &all)).search((how, &all), plan, run);
        let (best, distance) = nearest_way(&tried)?;
        Some((Decided { how: best, distance, of_trial: distance, programs: None }, tried))
    });
    let Some((best, tried)) = found else { return undecided(None) };
    let way = Way {
        how: best.how,
        reads,
        distance: best.of_trial,
        pools: names.clone(),
        by_beginning: best.how.pools == 0 && is_by_beginning,
        without_connections: whole.without_connections().clone(),
    };
    let programs = best.programs.unwrap_or_else(|| make(best.how));
    let choice = Choice::new(best.how, reads, &tried, names);
    Nearest {
        how: best.how,
        reads,
        choice,
        distance: Some(best.distance),
        programs: Some(programs),
        way: Some(way),
        other: None,
    }
}

/// A decision, with the programs of the whole recording.
struct Decided {
    how: How,
    /// Its distance in the whole recording, and in the part that was tried.
    distance: f64,
    of_trial: f64,
    programs: Option<Recorded>,
}

/// Decides between the two nearest ways of a beginning, by replays of the whole recording. None: the beginning says
/// little about the whole, since the better one is much farther from it, or much nearer.
fn decided_by_whole(
    tried: &[(How, f64)],
    make: &(impl Fn(How) -> Recorded + Sync),
    plan: &Plan,
    run: &Runner<'_>,
) -> Option<Decided> {
    let first = nearest_way(tried)?;
    // Equally near ways are mostly the same programs.
    let others: Vec<(How, f64)> = tried.iter().copied().filter(|(_, distance)| *distance > first.1).collect();
    let ways: Vec<(How, f64)> = iter::once(first).chain(nearest_way(&others)).collect();
    let decided = parallel(&ways, |_, &(how, of_trial)| {
        let programs = make(how);
        let distance = distance_of(how.goes_on, &programs, plan, run)?;
        Some(Decided { how, distance, of_trial, programs: Some(programs) })
    });
    let best = decided.into_iter().flatten().reduce(|one, two| if two.distance < one.distance { two } else { one })?;
    let is_alike = best.distance <= (best.of_trial * FAR).max(NEAR) && best.of_trial <= (best.distance * FAR).max(NEAR);
    is_alike.then_some(best)
}

/// Runs programs, and returns their distance from the recording. None: the machine rejects them.
fn distance_of(what_if: bool, programs: &Recorded, plan: &Plan, run: &Runner<'_>) -> Option<f64> {
    let mut fitting = programs.clone();
    recorded::fit(&mut fitting.workload, plan.config.machine.topology.nr_cpus() as u32);
    let ran = run(&[(&fitting.workload, plan)]).pop()??;
    Some(distance(what_if, &fitting, &ran))
}

/// Returns the nearest of the tried ways: the first of equally near ones.
fn nearest_way(tried: &[(How, f64)]) -> Option<(How, f64)> {
    tried.iter().copied().reduce(|one, two| if two.1 < one.1 { two } else { one })
}

/// Returns programs from those of other choices, if only the coupling differs, and only in how wakers follow.
fn recoupled_from((made, programs): (How, &Recorded), how: How) -> Option<Recorded> {
    let alike = made.coupling == Coupling::Together && made == How { coupling: made.coupling, ..how };
    (alike && how.coupling.only_follows()).then(|| recorded::recoupled(programs, how.coupling))
}

/// The recording's beginning, or all of it.
struct Trial<'a> {
    prepared: Cow<'a, Prepared>,
    cpus: u32,
    /// The beginning's number of each pool of the whole. None if trials use the whole.
    pools: Option<Vec<Option<usize>>>,
    /// Programs that are made already, and their choices.
    ready: (How, Recorded),
    /// Programs that differ from trials only in the coupling, by their choices.
    bases: Mutex<Vec<(How, Arc<OnceLock<Recorded>>)>>,
}

impl<'a> Trial<'a> {
    /// The beginning, if it has the whole's pools, and all continuing threads exist in half of it.
    fn of_beginning(
        source: &Source,
        (plan, reads): (&Plan, Reads),
        how: How,
        (whole, all): (&Prepared, &Recorded),
    ) -> Option<Self> {
        let (end, recorder) = source.sample().filter(|sample| all.repeats_from <= sample.0 / 2)?;
        let recorder = recorder.clone().without_connections(whole.without_connections().clone());
        let prepared = prepare(recorder, &plan.config, reads);
        let beginning = programs(&prepared, &plan.config, how);
        let pools = same_pools(all, &beginning).filter(|_| beginning.repeats_from <= end / 2)?;
        Some(Self::new(plan, Cow::Owned(prepared), Some(pools), (how, beginning)))
    }

    fn of_whole(plan: &Plan, how: How, (whole, all): (&'a Prepared, &Recorded)) -> Self {
        Self::new(plan, Cow::Borrowed(whole), None, (how, all.clone()))
    }

    fn new(
        plan: &Plan,
        prepared: Cow<'a, Prepared>,
        pools: Option<Vec<Option<usize>>>,
        mut ready: (How, Recorded),
    ) -> Self {
        let cpus = plan.config.machine.topology.nr_cpus() as u32;
        recorded::fit(&mut ready.1.workload, cpus);
        Self { prepared, cpus, pools, ready, bases: Mutex::default() }
    }

    /// Tries couplings, pools and synchronous wakeups. `first` is how `all` is made of the whole recording. Returns all
    /// tried ways with their distances.
    fn search(&self, (first, all): (How, &Recorded), plan: &Plan, run: &Runner<'_>) -> Vec<(How, f64)> {
        let names = &all.pools;
        let distances = |ways: &[How]| -> Vec<(How, f64)> {
            // Ways with the same pools are neighbours. Their programs exist at the same time.
            let all =
                ways.chunk_by(|one, next| one.pools == next.pools).flat_map(|ways| self.distances(ways, plan, run));
            let all = all.collect();
            self.forget();
            all
        };
        let always = if first.goes_on { all.counts.certain_pools } else { first.pools };
        let how = How { pools: always, ..first };
        let couples = couples(all);
        let rest = Coupling::ALL.into_iter().filter(|&coupling| coupling != how.coupling && couples);
        let ways: Vec<How> = iter::once(how).chain(rest.map(|coupling| How { coupling, ..how })).collect();
        let mut tried = distances(&ways);
        let Some(mut best) = nearest_way(&tried) else { return tried };
        let near = tried.iter().filter(|(_, distance)| *distance <= best.1 * FAR);
        let couplings: Vec<How> = near.map(|&(how, _)| how).collect();
        let open = (0..names.len().min(MOST_POOLS)).filter(|&pool| how.pools >> pool & 1 == 0 && self.shows(pool));
        let mut open: Vec<usize> = open.collect();
        while !open.is_empty() {
            // Each with the best pools so far, all at once. A pool that is better changes what follows.
            let pools: Vec<u32> = open.iter().map(|pool| best.0.pools | 1 << pool).collect();
            let with = |&pools: &u32| couplings.iter().map(move |&how| How { pools, ..how });
            let mut found = distances(&pools.iter().flat_map(with).collect::<Vec<_>>());
            let better = pools.iter().position(|pools| {
                tried.extend(found.extract_if(.., |(how, _)| how.pools == *pools));
                let now = nearest_way(&tried).unwrap_or(best);
                std::mem::replace(&mut best, now) != now
            });
            open.drain(..better.map_or(open.len(), |better| better + 1));
        }
        if all.counts.follows > 0 {
            let how = How { sync: true, ..best.0 };
            // If no wakeup can be synchronous, the programs are the same.
            let same = !best.0.sync && !self.synchronizes(how);
            tried.extend(if same { vec![(how, best.1)] } else { distances(&[how]) });
        }
        tried
    }

    /// Whether trials have a pool, by its number in the whole.
    fn shows(&self, pool: usize) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools[pool].is_some())
    }

    /// Returns these choices with the trials' numbers of pools.
    fn renumbered(&self, how: How) -> How {
        let renumbered = |numbers: &Vec<Option<usize>>| {
            let chosen = numbers.iter().take(32).enumerate().filter(|(pool, _)| how.pools >> pool & 1 == 1);
            chosen
                .filter_map(|(_, &number)| number.filter(|&number| number < 32))
                .fold(0, |all, number| all | 1 << number)
        };
        How { pools: self.pools.as_ref().map_or(how.pools, renumbered), ..how }
    }

    /// Whether trials have wakeups that may be synchronous.
    fn synchronizes(&self, how: How) -> bool {
        self.prepared.synchronizes(self.renumbered(how).pools, how.goes_on)
    }

    /// Returns the distances of replays from the recording. Leaves out rejected ones. Equal programs run once.
    fn distances(&self, ways: &[How], plan: &Plan, run: &Runner<'_>) -> Vec<(How, f64)> {
        let made = parallel(ways, |_, how| self.programs(&plan.config, *how));
        let equals = |one: usize, other: usize| have_equal_operations(&made[one].workload, &made[other].workload);
        let first_equal = |index: usize| (0..index).find(|&first| equals(first, index));
        let firsts: Vec<usize> = (0..made.len()).map(|index| first_equal(index).unwrap_or(index)).collect();
        let different: Vec<usize> = (0..made.len()).filter(|&index| firsts[index] == index).collect();
        let found = parallel(&different, |_, &index| {
            let ran = run(&[(&made[index].workload, plan)]).pop()??;
            Some(distance(ways[index].goes_on, &made[index], &ran))
        });
        let found: BTreeMap<usize, Option<f64>> = different.into_iter().zip(found).collect();
        let each = ways.iter().zip(&firsts);
        each.filter_map(|(&how, first)| Some((how, found.get(first).copied()??))).collect()
    }

    fn programs(&self, config: &Config, how: How) -> Cow<'_, Recorded> {
        let how = self.renumbered(how);
        let (made, ready) = &self.ready;
        if *made == how {
            return Cow::Borrowed(ready);
        }
        if let Some(recoupled) = recoupled_from((*made, ready), how) {
            return Cow::Owned(recoupled);
        }
        if !how.coupling.only_follows() {
            return Cow::Owned(self.make(config, how));
        }
        let base = self.base(How { coupling: Coupling::Together, ..how });
        // A thread that needs the same base waits until it is made.
        let made = base.get_or_init(|| self.make(config, How { coupling: Coupling::Together, ..how }));
        Cow::Owned(recorded::recoupled(made, how.coupling))
    }

    fn make(&self, config: &Config, how: How) -> Recorded {
        let mut recorded = programs(&self.prepared, config, how);
        recorded::fit(&mut recorded.workload, self.cpus);
        recorded
    }

    /// Returns the place of programs from which others are made.
    fn base(&self, how: How) -> Arc<OnceLock<Recorded>> {
        // The data of a poisoned lock is whole.
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, base)) = bases.iter().find(|(made, _)| *made == how) {
            return Arc::clone(base);
        }
        let base = Arc::default();
        bases.push((how, Arc::clone(&base)));
        base
    }

    /// Frees programs that later trials do not need.
    fn forget(&self) {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Whether the tasks that a coupling concerns had enough time to make a difference. With this limit, 47 of 48
/// recordings of programs have the same replays as without, and all have the same what-if.
fn couples(together: &Recorded) -> bool {
    let follows = |op: &Op| matches!(op, Op::InboxWake { follow: Follow::Together, .. });
    let tasks = &together.workload.tasks;
    let wakes = |task: usize| tasks[task].phases.iter().any(|phase| phase.ops.iter().any(follows));
    let concerned = together.threads.iter().filter(|thread| thread.task.is_some_and(wakes));
    concerned.map(|thread| thread.cpu_ns).sum::<u64>() >= together.duration_ns / 1000 * LARGE_PERMILLE
}

/// Whether programs of one recording differ in no operation. Of other choices, they have the same tasks and objects.
fn have_equal_operations(one: &Workload, other: &Workload) -> bool {
    let equal = |(one, other): (&Task, &Task)| Arc::ptr_eq(&one.phases, &other.phases) || one.phases == other.phases;
    one.inboxes == other.inboxes && one.leads == other.leads && one.tasks.iter().zip(&other.tasks).all(equal)
}

/// Returns the beginning's number of each pool of the whole, or none for a missing pool with little work. Returns no
/// numbers if another pool is missing, or the beginning splits one.
fn same_pools(whole: &Recorded, beginning: &Recorded) -> Option<Vec<Option<usize>>> {
    let mut numbers: Vec<Option<usize>> = vec![None; whole.pools.len()];
    let mut cpu_ns = vec![0; whole.pools.len()];
    for (index, thread) in whole.threads.iter().enumerate() {
        let Some(pool) = thread.pool else { continue };
        cpu_ns[pool] += thread.cpu_ns;
        let Some(number) = beginning.threads.get(index).and_then(|thread| thread.pool) else { continue };
        if *numbers[pool].get_or_insert(number) != number {
            return None;
        }
    }
    let little = whole.duration_ns / 1000 * LARGE_PERMILLE;
    let all_there = numbers.iter().zip(cpu_ns).all(|(number, cpu_ns)| number.is_some() || cpu_ns < little);
    all_there.then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Replay, Setup};

    /// The near way's replay of the whole is as recorded. In the other one's, no task runs.
    #[test]
    fn a_far_way_is_never_taken_if_the_near_one_is_even_nearer_in_the_whole() {
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/groups.pftrace");
        let recording = Recording::open(trace, &ReadOptions::default()).unwrap();
        let replay = Replay::new(&recording, &Setup::default()).unwrap();
        let near = How { goes_on: true, ..How::default() };
        let far = How { sync: true, ..near };
        let make = |how: How| {
            let mut programs = replay.recorded.clone();
            programs.workload.duration = Some(u64::from(how.sync));
            programs
        };
        let as_recorded = |thread: &recorded::Thread| {
            let name = replay.recorded.workload.tasks[thread.task?].name.clone();
            Some(TaskTotals { name, cpu_ns: thread.cpu_ns - thread.subtracted_ns, ..TaskTotals::default() })
        };
        let run = |jobs: &[(&Workload, &Plan)]| {
            let ran = |(workload, _): &(&Workload, &Plan)| {
                let runs = workload.duration == Some(0);
                Some(replay.recorded.threads.iter().filter_map(as_recorded).filter(|_| runs).collect())
            };
            jobs.iter().map(ran).collect()
        };
        let decided = |of_near| {
            let tried = [(near, of_near), (far, 2.5)];
            decided_by_whole(&tried, &make, &replay.plan, &run).map(|it| (it.how.sync, it.distance))
        };
        assert_eq!(decided(0.1), Some((false, 0.0)), "both are near");
        assert_eq!(decided(0.5), None, "the beginning says little");
    }
}
