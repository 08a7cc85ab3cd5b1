//! Finds faults of a workload before it runs.
//!
//! Errors are workloads that cannot run: a missing object, an endless loop that takes no time. Warnings are probable
//! mistakes: a wait that no task ends, a mutex never unlocked. Only the simulator finds deadlocks.

mod forks;
mod loops;
mod objects;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Source};
use crate::place::SourceMap;
use crate::program::{Op, Phase, Repeat, Task, Workload};

/// Returns errors and warnings, with the places in `source_map`.
///
/// Takes time in proportion to the operations of distinct programs, not to tasks.
///
/// ```
/// use vruntime_workload::{check, rtapp};
///
/// let file = br#"{ "tasks" : { "a" : { "loop" : -1, "run" : 0 } }, "global" : { "duration" : 1 } }"#;
/// let read = rtapp::parse("spin.json", file, &Default::default())?;
/// let found = check::check(&read.workload, &read.source_map);
/// assert_eq!(found[0].message(), "task `a` loops for ever and takes no time");
/// # Ok::<(), vruntime_workload::Error>(())
/// ```
pub fn check(workload: &Workload, source_map: &SourceMap) -> Vec<Error> {
    let mut finder = Finder { workload, source_map, found: Vec::new(), seen: BTreeSet::new() };
    let classes = classes(workload);
    if workload.tasks.is_empty() {
        finder.general("the workload has no tasks", "add one");
    }
    if !references_hold(&mut finder, &classes) {
        // The other checks use these indices.
        return finder.found;
    }
    loops::check(&mut finder, &classes);
    objects::check(&mut finder, &classes);
    forks::check(&mut finder, &classes);
    finder.found
}

/// Consecutive tasks with the same program.
struct Class<'a> {
    /// Index of the first task.
    first: usize,
    count: u64,
    task: &'a Task,
}

impl<'a> Class<'a> {
    /// Operations with the indices of phase and operation.
    fn ops(&self) -> impl Iterator<Item = ((usize, usize), &'a Op)> + use<'a> {
        let phases = self.task.phases.iter().enumerate();
        phases.flat_map(|(p, phase)| phase.ops.iter().enumerate().map(move |(o, op)| ((p, o), op)))
    }
}

fn classes(workload: &Workload) -> Vec<Class<'_>> {
    let mut classes: Vec<Class<'_>> = Vec::new();
    for (index, task) in workload.tasks.iter().enumerate() {
        match classes.last_mut() {
            Some(class) if class.task.class == task.class && same_program(&class.task.phases, &task.phases) => {
                class.count += 1;
            }
            _ => classes.push(Class { first: index, count: 1, task }),
        }
    }
    classes
}

/// Whether programs are equal except for their timers, which each instance has.
fn same_program(one: &Arc<[Phase]>, other: &Arc<[Phase]>) -> bool {
    let same_op = |(one, other): (&Op, &Op)| match (one, other) {
        (Op::Timer { .. }, Op::Timer { .. }) => true,
        _ => one == other,
    };
    Arc::ptr_eq(one, other)
        || one.len() == other.len()
            && one
                .iter()
                .zip(other.iter())
                .all(|(one, other)| one.ops.len() == other.ops.len() && one.ops.iter().zip(&other.ops).all(same_op))
}

/// Each place reports a kind once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Endless,
    Unreached,
    NothingToDo,
    Relock,
    Unlock,
    Held,
    WaitUnlocked,
    NeverWoken,
    NeverCompleted,
    WakesNobody,
    Barrier,
    Semaphore,
    Fork,
    Reference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    task: usize,
    phase: Option<usize>,
    op: Option<usize>,
}

impl Place {
    fn task(class: &Class<'_>) -> Self {
        Self { task: class.first, phase: None, op: None }
    }

    fn phase(class: &Class<'_>, phase: usize) -> Self {
        Self { task: class.first, phase: Some(phase), op: None }
    }

    fn op(class: &Class<'_>, (phase, op): (usize, usize)) -> Self {
        Self { task: class.first, phase: Some(phase), op: Some(op) }
    }
}

/// Findings of one kind at one spot are duplicates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Written(String, usize),
    Built(Place),
}

const KEPT: usize = 100;

struct Finder<'a> {
    workload: &'a Workload,
    source_map: &'a SourceMap,
    found: Vec<Error>,
    seen: BTreeSet<(Kind, Spot)>,
}

impl Finder<'_> {
    fn warn(&mut self, kind: Kind, place: Place, message: &str, label: &str, help: &str) {
        self.tell(kind, place, message, label, help, Error::warning);
    }

    fn error(&mut self, kind: Kind, place: Place, message: &str, label: &str, help: &str) {
        self.tell(kind, place, message, label, help, |error| error);
    }

    fn tell(&mut self, kind: Kind, place: Place, message: &str, label: &str, help: &str, finish: fn(Error) -> Error) {
        if self.found.len() == KEPT {
            return;
        }
        let written = self.source_map.place(place.task, place.phase, place.op);
        // Copies of a workload share their places.
        let spot = match &written {
            Some((source, span)) => Spot::Written(source.name().to_owned(), span.start),
            None => Spot::Built(place),
        };
        if !self.seen.insert((kind, spot)) {
            return;
        }
        let error = match written {
            Some((source, span)) => Error::new(source, message).at(span, label),
            None => Error::new(&Source::new("workload", ""), message),
        };
        self.found.push(finish(error.with_help(help)));
    }

    fn general(&mut self, message: &str, help: &str) {
        let source =
            self.source_map.sites.first().map_or_else(|| Source::new("workload", ""), |site| site.source.clone());
        self.found.push(Error::new(&source, message).with_help(help).warning());
    }
}

/// Whether every index is valid, which only readers ensure.
fn references_hold(finder: &mut Finder<'_>, classes: &[Class<'_>]) -> bool {
    let workload = finder.workload;
    let before = finder.found.len();
    let group_holds = |group: Option<usize>| group.is_none_or(|group| group < workload.groups.len());
    let within = |number: usize, what: &'static str, len: usize| (number >= len).then_some((what, number));
    for class in classes {
        let settings = class.task.phases.iter().map(|phase| &phase.settings).chain([&class.task.settings]);
        let mut wrong: Vec<(Place, (&str, usize))> = settings
            .filter_map(|settings| settings.group.filter(|_| !group_holds(settings.group)))
            .map(|group| (Place::task(class), ("group", group)))
            .collect();
        let session = class.task.session.and_then(|session| within(session, "session", workload.sessions.len()));
        wrong.extend(session.map(|found| (Place::task(class), found)));
        for (at, op) in class.ops() {
            let mutex = |number| within(number, "mutex", workload.mutexes.len());
            let condition = |number| within(number, "condition", workload.conditions.len());
            let found = match *op {
                Op::Lock(number)
                | Op::TryLock { mutex: number, .. }
                | Op::EnsureLock(number)
                | Op::Nudge(number)
                | Op::Unlock(number) => mutex(number),
                Op::Wait { condition: c, mutex: m }
                | Op::Sync { condition: c, mutex: m }
                | Op::Suspend { condition: c, mutex: m }
                | Op::Resume { condition: c, mutex: m } => condition(c).or(mutex(m)),
                Op::Signal(number) | Op::Broadcast(number) => condition(number),
                Op::Timer { timer, .. } => within(timer, "timer", workload.timers.len()),
                Op::Barrier(number) => within(number, "barrier", workload.barriers.len()),
                Op::SemPost(number) | Op::SemWait(number) | Op::SemReset(number) => {
                    within(number, "semaphore", workload.semaphores.len())
                }
                Op::SemMove { from, to } => within(from.max(to), "semaphore", workload.semaphores.len()),
                Op::Fork(task) => within(task, "task", workload.tasks.len()),
                Op::PipeWrite { pipe, .. } | Op::PipeRead { pipe, .. } => within(pipe, "pipe", workload.pipes.len()),
                Op::PoolRun { pool, .. }
                | Op::PoolHelp { pool, .. }
                | Op::PoolSleep { pool, .. }
                | Op::PoolWait { pool, .. } => within(pool, "pool", workload.pools.len()),
                Op::InboxWait { inbox, .. }
                | Op::InboxWake { inbox, .. }
                | Op::PutOff { inbox }
                | Op::PutOffEnd { inbox }
                | Op::RunIfSlept { inbox, .. }
                | Op::CatchUp { inbox } => within(inbox, "inbox", workload.inboxes.len()),
                Op::LeadMoves { lead } | Op::LeadAwaits { lead } => within(lead, "lead", workload.leads.len()),
                Op::SpinWait { spin: number, .. } | Op::SpinPost { spin: number, .. } | Op::SpinBarrier(number) => {
                    within(number, "spin word", workload.spins.len())
                }
                Op::WaitEvent { queue, .. } | Op::WakeUp { queue, .. } => {
                    within(queue, "wait queue", workload.wait_queues.len())
                }
                Op::WaitForCompletion { completion: number, .. }
                | Op::Complete(number)
                | Op::CompleteAll(number)
                | Op::ReinitCompletion(number) => within(number, "completion", workload.completions.len()),
                _ => None,
            };
            wrong.extend(found.map(|found| (Place::op(class, at), found)));
        }
        for (place, (what, number)) in wrong {
            let message = format!("task `{}` refers to {what} {number}, which does not exist", class.task.name);
            let help = format!("the workload's {what}s are numbered from 0; declare it first");
            finder.error(Kind::Reference, place, &message, "here", &help);
        }
    }
    finder.found.len() == before
}

fn is_endless(repeat: Repeat) -> bool {
    repeat == Repeat::Forever
}

fn happens(repeat: Repeat) -> bool {
    repeat != Repeat::Times(0)
}

fn repeats(repeat: Repeat) -> bool {
    !matches!(repeat, Repeat::Times(0 | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, start: Option<u64>, ops: Vec<Op>) -> Task {
        Task { start, ..Task::new(name, [Phase::times(1, ops)]) }
    }

    fn messages(tasks: Vec<Task>) -> Vec<String> {
        let workload = Workload { tasks, duration: Some(1), ..Workload::default() };
        check(&workload, &SourceMap::default()).iter().map(|error| error.message().to_owned()).collect()
    }

    #[test]
    fn references_to_nothing_are_errors() {
        let ops = [
            (Op::Lock(0), "mutex 0"),
            (Op::Wait { condition: 3, mutex: 0 }, "condition 3"),
            (Op::Barrier(1), "barrier 1"),
            (Op::SemWait(2), "semaphore 2"),
            (Op::Fork(1), "task 1"),
            (Op::Resume { condition: 0, mutex: 0 }, "condition 0"),
            (Op::PipeRead { pipe: 4, bytes: 1 }, "pipe 4"),
            (Op::WakeUp { queue: 0, nr: 1, events: 1, sync: false }, "wait queue 0"),
            (Op::Complete(2), "completion 2"),
        ];
        for (op, what) in ops {
            let found = messages(vec![task("t", Some(0), vec![op])]);
            assert_eq!(found, [format!("task `t` refers to {what}, which does not exist")]);
        }
        let mut lost = task("t", Some(0), vec![Op::Yield]);
        lost.settings.group = Some(7);
        assert_eq!(messages(vec![lost]), ["task `t` refers to group 7, which does not exist"]);
    }

    #[test]
    fn only_circles_of_forks_are_circles() {
        let chain = vec![
            task("a", Some(0), vec![Op::Fork(1), Op::Fork(2)]),
            task("b", None, vec![Op::Fork(2)]),
            task("c", None, vec![Op::Run { work: 1 }]),
        ];
        assert_eq!(messages(chain), Vec::<String>::new());
        let circle = vec![
            task("a", Some(0), vec![Op::Fork(1)]),
            task("b", None, vec![Op::Fork(2)]),
            task("c", None, vec![Op::Fork(1)]),
        ];
        let expected =
            ["task `c` forks itself again, through other tasks", "task `b` forks itself again, through other tasks"];
        assert_eq!(messages(circle), expected);
    }

    #[test]
    fn no_tasks_and_tasks_without_events_are_warned_of() {
        assert_eq!(messages(Vec::new()), ["the workload has no tasks"]);
        assert_eq!(messages(vec![task("t", Some(0), Vec::new())]), ["task `t` does nothing"]);
    }
}
