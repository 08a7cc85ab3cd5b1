//! Faults of mutexes, conditions, barriers, semaphores, wait queues, spin words and completions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, Finder, Kind, Place, happens, repeats};
use crate::program::{Op, Repeat};

pub(super) fn check(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    for class in classes {
        mutexes(finder, class);
    }
    conditions(finder, classes);
    barriers(finder, classes);
    semaphores(finder, classes);
    wait_queues(finder, classes);
    spins(finder, classes);
    completions(finder, classes);
}

/// Executes a class's program with each loop at most twice. This shows every mutex fault of a single task.
fn mutexes(finder: &mut Finder<'_>, class: &Class<'_>) {
    let task = class.task;
    let locks = |op: &Op| matches!(op, Op::Lock(_) | Op::Unlock(_) | Op::Wait { .. });
    // A program does not show whether it has a mutex after a try.
    let tries = |op: &Op| matches!(op, Op::TryLock { .. } | Op::EnsureLock(_));
    if !class.ops().any(|(_, op)| locks(op)) || class.ops().any(|(_, op)| tries(op)) {
        return;
    }
    let mut held = BTreeMap::new();
    for _ in 0..twice(task.repeat) {
        for (index, phase) in task.phases.iter().enumerate() {
            for _ in 0..twice(phase.repeat) {
                for (number, op) in phase.ops.iter().enumerate() {
                    mutex_op(finder, class, (index, number), op, &mut held);
                }
            }
        }
    }
    for (mutex, at) in held {
        let message = format!("task `{}` keeps mutex `{}`", task.class, finder.workload.mutexes[mutex].name);
        finder.warn(
            Kind::Held,
            Place::op(class, at),
            &message,
            "locked here, and never unlocked after",
            "add an `unlock`",
        );
    }
}

fn twice(repeat: Repeat) -> u32 {
    u32::from(happens(repeat)) + u32::from(repeats(repeat))
}

/// `held` maps each held mutex to the place of its lock.
fn mutex_op(
    finder: &mut Finder<'_>,
    class: &Class<'_>,
    at: (usize, usize),
    op: &Op,
    held: &mut BTreeMap<usize, (usize, usize)>,
) {
    let place = Place::op(class, at);
    let name = &class.task.class;
    let mutex_name = |mutex: usize| &finder.workload.mutexes[mutex].name;
    match *op {
        Op::Lock(mutex) if held.insert(mutex, at).is_some() => {
            let message = format!("task `{name}` locks mutex `{}` which it holds already", mutex_name(mutex));
            let help = "it waits for itself for ever; add an `unlock` before, or at the end of the loop";
            finder.warn(Kind::Relock, place, &message, "held when this is reached", help);
        }
        Op::Unlock(mutex) if held.remove(&mutex).is_none() => {
            let message = format!("task `{name}` unlocks mutex `{}` which it does not hold", mutex_name(mutex));
            finder.warn(Kind::Unlock, place, &message, "not held when this is reached", "add a `lock` before it");
        }
        Op::Wait { mutex, .. } if !held.contains_key(&mutex) => {
            let message = format!("task `{name}` waits without holding mutex `{}`", mutex_name(mutex));
            let help = "put `lock` before the `wait` and `unlock` after it, as pthread_cond_wait(3) asks";
            finder.warn(Kind::WaitUnlocked, place, &message, "not held when this is reached", help);
        }
        _ => {}
    }
}

/// The first class that uses an object, and whether several tasks use it.
#[derive(Clone, Copy, Default)]
struct Users {
    first: Option<(usize, (usize, usize))>,
    several: bool,
}

impl Users {
    fn add(&mut self, index: usize, class: &Class<'_>, at: (usize, usize)) {
        self.several |= class.count > 1 || self.first.is_some_and(|(other, _)| other != index);
        self.first = self.first.or(Some((index, at)));
    }

    /// Whether a task other than the only one of class `index` uses it.
    fn besides(self, index: usize) -> bool {
        self.several || self.first.is_some_and(|(other, _)| other != index)
    }
}

fn conditions(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let count = finder.workload.conditions.len();
    let (mut waiters, mut wakers) = (vec![Users::default(); count], vec![Users::default(); count]);
    for (index, class) in classes.iter().enumerate() {
        for (at, op) in class.ops() {
            match *op {
                Op::Wait { condition, .. } | Op::Suspend { condition, .. } => waiters[condition].add(index, class, at),
                Op::Signal(condition) | Op::Broadcast(condition) | Op::Resume { condition, .. } => {
                    wakers[condition].add(index, class, at);
                }
                Op::Sync { condition, .. } => {
                    waiters[condition].add(index, class, at);
                    wakers[condition].add(index, class, at);
                }
                _ => {}
            }
        }
    }
    for (condition, (waiters, wakers)) in waiters.into_iter().zip(wakers).enumerate() {
        let name = &finder.workload.conditions[condition];
        match (waiters.first, wakers.first) {
            (Some((index, at)), _) if !wakers.besides(index) && (wakers.first.is_none() || !waiters.several) => {
                let class = &classes[index];
                let message = format!("no task wakes task `{}` from `{name}`", class.task.class);
                let help = format!("another task must `resume` or `signal` \"{name}\"");
                finder.warn(Kind::NeverWoken, Place::op(class, at), &message, "it waits here for ever", &help);
            }
            (None, Some((index, at))) => {
                let class = &classes[index];
                let message = format!("task `{}` wakes no task: none waits on `{name}`", class.task.class);
                let waited = classes.iter().flat_map(Class::ops).filter_map(|(_, op)| match *op {
                    Op::Wait { condition, .. } | Op::Sync { condition, .. } | Op::Suspend { condition, .. } => {
                        Some(finder.workload.conditions[condition].as_str())
                    }
                    _ => None,
                });
                // 1000 names suffice for a suggestion.
                let waited: BTreeSet<&str> = waited.take(1000).collect();
                let help = crate::suggest::nearest(name, waited).map_or_else(
                    || format!("let a task `suspend` or `wait` on \"{name}\", or remove it"),
                    |meant| format!("did you mean `{meant}`?"),
                );
                finder.warn(Kind::WakesNobody, Place::op(class, at), &message, "it has no effect", &help);
            }
            _ => {}
        }
        if finder.found.len() >= super::KEPT {
            return;
        }
    }
}

fn barriers(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let count = finder.workload.barriers.len();
    let mut tasks = vec![0u64; count];
    let mut last_class = vec![usize::MAX; count];
    let mut forked = vec![false; count];
    let mut first = vec![None; count];
    for (index, class) in classes.iter().enumerate() {
        for (at, op) in class.ops() {
            let &Op::Barrier(barrier) = op else { continue };
            if last_class[barrier] != index {
                last_class[barrier] = index;
                tasks[barrier] += class.count;
            }
            // The number of forked tasks is unknown.
            forked[barrier] |= class.task.start.is_none();
            first[barrier] = first[barrier].or(Some((index, at)));
        }
    }
    for (barrier, first) in first.into_iter().enumerate() {
        let Some((index, at)) = first else { continue };
        let object = &finder.workload.barriers[barrier];
        let (name, parties, tasks) = (&object.name, u64::from(object.parties), tasks[barrier]);
        let place = Place::op(&classes[index], at);
        if parties > tasks && !forked[barrier] {
            let message = format!("barrier `{name}` waits for {parties} tasks, but only {tasks} use it");
            let help = "rt-app counts every mention of a barrier; give each meeting point its own name";
            finder.warn(Kind::Barrier, place, &message, "tasks stay at the barrier for ever", help);
        } else if parties == 1 && !forked[barrier] {
            let message = format!("no other task uses barrier `{name}`");
            finder.warn(Kind::Barrier, place, &message, "it has no effect", "name it in another task, or remove it");
        }
    }
}

fn semaphores(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let count = finder.workload.semaphores.len();
    let mut posted = vec![false; count];
    let mut waited = vec![None; count];
    for (index, class) in classes.iter().enumerate() {
        for (at, op) in class.ops() {
            match *op {
                Op::SemPost(semaphore) | Op::SemMove { to: semaphore, .. } => posted[semaphore] = true,
                Op::SemWait(semaphore) => waited[semaphore] = waited[semaphore].or(Some((index, at))),
                _ => {}
            }
        }
    }
    for (semaphore, waited) in waited.into_iter().enumerate() {
        let object = &finder.workload.semaphores[semaphore];
        let Some((index, at)) = waited.filter(|_| !posted[semaphore] && object.initial == 0) else { continue };
        let class = &classes[index];
        let message = format!("no task posts semaphore `{}`", object.name);
        let label = format!("task `{}` waits here for ever", class.task.class);
        finder.warn(Kind::Semaphore, Place::op(class, at), &message, &label, "add a `sem_post` to another task");
    }
}

/// Finds wait queues whose waiters no task wakes.
fn wait_queues(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let waits = |op: &Op| match *op {
        Op::WaitEvent { queue, timeout: None, .. } => Some(queue),
        _ => None,
    };
    let ends = |op: &Op| match *op {
        Op::WakeUp { queue, events, .. } if events > 0 => Some(queue),
        _ => None,
    };
    let requested = |queue| finder.workload.requests.iter().any(|requests| requests.queue == queue);
    let mut unended = unended(classes, finder.workload.wait_queues.len(), waits, ends);
    unended.retain(|(queue, ..)| !requested(*queue));
    for (queue, place, class) in unended {
        let message = format!("no task wakes wait queue `{}`", finder.workload.wait_queues[queue]);
        let label = format!("task `{class}` waits here for ever");
        let help = "add a `wake_up` with `events` to another task, or a `timeout` here";
        finder.warn(Kind::NeverWoken, place, &message, &label, help);
    }
}

/// Finds spin words to which no task posts, and misused spin locks.
fn spins(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let waits = |op: &Op| match *op {
        Op::SpinWait { spin, lock: false } => Some(spin),
        _ => None,
    };
    let ends = |op: &Op| match *op {
        Op::SpinPost { spin, .. } => Some(spin),
        _ => None,
    };
    for (spin, place, class) in unended(classes, finder.workload.spins.len(), waits, ends) {
        let message = format!("no task posts to `{}`", finder.workload.spins[spin].name);
        let label = format!("task `{class}` spins here for ever");
        finder.warn(Kind::NeverWoken, place, &message, &label, "add a `spin_post` to another task");
    }
    for class in classes {
        let mut held: Vec<(usize, (usize, usize))> = Vec::new();
        for (at, op) in class.ops() {
            match *op {
                Op::SpinWait { spin, lock: true } => held.push((spin, at)),
                Op::SpinPost { spin, .. } => held.retain(|(lock, _)| *lock != spin),
                _ => {}
            }
        }
        for (spin, at) in held {
            let message = format!("task `{}` keeps spinlock `{}`", class.task.class, finder.workload.spins[spin].name);
            let label = "locked here, and never unlocked after";
            finder.warn(Kind::Held, Place::op(class, at), &message, label, "add a `spin_unlock`");
        }
    }
}

/// Finds completions that no task completes.
fn completions(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let waits = |op: &Op| match *op {
        Op::WaitForCompletion { completion, timeout: None } => Some(completion),
        _ => None,
    };
    let ends = |op: &Op| match *op {
        Op::Complete(completion) | Op::CompleteAll(completion) => Some(completion),
        _ => None,
    };
    for (completion, place, class) in unended(classes, finder.workload.completions.len(), waits, ends) {
        let message = format!("no task completes `{}`", finder.workload.completions[completion]);
        let label = format!("task `{class}` waits here for ever");
        let help = "add a `complete` or `complete_all` to another task, or a `timeout` here";
        finder.warn(Kind::NeverCompleted, place, &message, &label, help);
    }
}

/// Objects below `count` that tasks wait for and none ends: object, first wait, waiting class.
fn unended<'a>(
    classes: &[Class<'a>],
    count: usize,
    waits: impl Fn(&Op) -> Option<usize>,
    ends: impl Fn(&Op) -> Option<usize>,
) -> Vec<(usize, Place, &'a str)> {
    let (mut first, mut ended) = (vec![None; count], vec![false; count]);
    for class in classes {
        for (at, op) in class.ops() {
            if let Some(object) = ends(op) {
                ended[object] = true;
            }
            if let Some(object) = waits(op) {
                first[object] = first[object].or(Some((Place::op(class, at), class.task.class.as_str())));
            }
        }
    }
    let waited = first.into_iter().enumerate().filter_map(|(object, found)| Some((object, found?)));
    waited.filter(|(object, _)| !ended[*object]).map(|(object, (place, class))| (object, place, class)).collect()
}
