//! Makes tasks of classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::Step;
use super::global::Global;
use super::names::Names;
use super::task::Class;
use crate::error::Problems;
use crate::groups::GroupTree;
use crate::names::UniqueNames;
use crate::place::{ClassSite, SourceMap};
use crate::program::{Barrier, Mutex, Op, Phase, Semaphore, Task, Timer, Workload};
use crate::suggest::did_you_mean;

/// Limit on total steps of tasks with own timers. Each has a copy of its program.
const MAX_OWN_STEPS: u64 = 1 << 24;

pub(super) fn lower(
    problems: &mut Problems,
    classes: &[Class],
    names: Names,
    groups: GroupTree,
    global: &Global,
    max_tasks: u64,
) -> Option<(Workload, SourceMap)> {
    let first_tasks = first_tasks(problems, classes, max_tasks)?;
    let forks = fork_targets(problems, classes, &first_tasks);
    if problems.has_errors() {
        return None;
    }
    let mut workload = Workload {
        mutexes: names
            .mutexes
            .into_names()
            .into_iter()
            .map(|name| Mutex { name, priority_inheritance: global.pi_enabled, hands_over: false })
            .collect(),
        conditions: names.conditions.into_names(),
        barriers: names
            .barriers
            .into_names()
            .into_iter()
            .zip(names.barrier_mentions)
            // As in rt-app, tasks that are only forked do not count. A barrier has at least 1 party.
            .map(|(name, mentions)| {
                let parties = u32::try_from(mentions.max(1)).unwrap_or(u32::MAX);
                Barrier { name, parties, locked: true }
            })
            .collect(),
        semaphores: names.semaphores.into_names().into_iter().map(|name| Semaphore { name, initial: 0 }).collect(),
        timers: shared_timers(names.timers.into_names(), classes),
        groups: groups.into_groups(),
        ..Workload::default()
    };
    let mut source_map = SourceMap::default();
    let mut taken = UniqueNames::default();
    for class in classes {
        let first = workload.tasks.len();
        instantiate(class, &forks, &mut taken, &mut workload);
        source_map.sites.push(ClassSite {
            tasks: first..workload.tasks.len(),
            source: problems.source.clone(),
            span: class.span.clone(),
            start: class.delay_span.clone().map(|span| (problems.source.clone(), span)),
            phases: class.phases.iter().map(|phase| phase.site.clone()).collect(),
        });
    }
    Some((workload, source_map))
}

/// Returns the index of each class's first task. None if there are too many.
fn first_tasks(problems: &mut Problems, classes: &[Class], max_tasks: u64) -> Option<Vec<usize>> {
    let (mut tasks, mut own_steps) = (0u64, 0u64);
    let mut first_tasks = Vec::with_capacity(classes.len());
    for class in classes {
        first_tasks.push(tasks as usize);
        // No count exceeds max_tasks, so the sum cannot overflow.
        let count = class.instances.max(1);
        tasks += count;
        if tasks > max_tasks {
            let error = problems
                .new_error(class.span.clone(), format!("more than {max_tasks} tasks"), "the limit is passed here")
                .with_help("lower `instance`");
            problems.error(error);
            return None;
        }
        if !class.own_timers.is_empty() {
            let steps = class.phases.iter().map(|phase| 1 + phase.steps.len() as u64).sum::<u64>();
            own_steps = own_steps.saturating_add(steps.saturating_mul(count));
        }
        if own_steps > MAX_OWN_STEPS {
            let message = format!("instances with `unique` timers have more than {MAX_OWN_STEPS} events together");
            let error = problems
                .new_error(class.span.clone(), message, "the limit is passed here")
                .with_help("lower `instance`, or use `sleep`");
            problems.error(error);
            return None;
        }
    }
    Some(first_tasks)
}

/// Returns the first task of every class, by name. Reports forks of unknown classes.
fn fork_targets<'a>(problems: &mut Problems, classes: &'a [Class], first_tasks: &[usize]) -> BTreeMap<&'a str, usize> {
    let mut known = BTreeMap::new();
    for (class, &first) in classes.iter().zip(first_tasks) {
        known.entry(class.name.as_str()).or_insert(first);
    }
    for step in classes.iter().flat_map(|class| &class.phases).flat_map(|phase| &phase.steps) {
        if let Step::Fork(name, span) = step
            && !known.contains_key(name.as_str())
        {
            let error = problems
                .new_error(span.clone(), format!("there is no task `{name}` to fork"), "expected the name of a task")
                .with_help(did_you_mean(name, classes.iter().map(|class| class.name.as_str())));
            problems.error(error);
        }
    }
    known
}

fn instantiate(class: &Class, forks: &BTreeMap<&str, usize>, taken: &mut UniqueNames, workload: &mut Workload) {
    let shared = class.own_timers.is_empty().then(|| program(class, forks, 0));
    for instance in 0..class.instances.max(1) {
        let wanted = if class.instances > 1 { format!("{}-{instance}", class.name) } else { class.name.clone() };
        let name = taken.take(wanted);
        let phases = shared.clone().unwrap_or_else(|| {
            let first_timer = workload.timers.len();
            let own = class.own_timers.names().iter();
            let start = start(class);
            workload.timers.extend(own.map(|timer| Timer { name: format!("{timer}:{name}"), start }));
            program(class, forks, first_timer)
        });
        workload.tasks.push(Task {
            name,
            class: class.name.clone(),
            start: start(class),
            before: None,
            wakee_flips: 0,
            averages: None,
            session: None,
            // rt-app's tasks are threads.
            process: Some(0),
            settings: class.settings.clone(),
            phases,
            repeat: class.repeat,
        });
    }
}

/// Returns the start of a class's tasks. None: when forked.
fn start(class: &Class) -> Option<u64> {
    (class.instances > 0).then_some(class.delay)
}

/// Returns the shared timers. rt-app counts beats from the start of the first task that reaches the timer.
fn shared_timers(names: Vec<String>, classes: &[Class]) -> Vec<Timer> {
    let mut timers: Vec<Timer> = names.into_iter().map(Timer::new).collect();
    for class in classes {
        for step in class.phases.iter().flat_map(|phase| &phase.steps) {
            if let (Step::Op(Op::Timer { timer, .. }), Some(start)) = (step, start(class)) {
                let first = &mut timers[*timer].start;
                *first = Some(first.map_or(start, |first| first.min(start)));
            }
        }
    }
    timers
}

/// Returns the program of a task whose own timers start at index `first_timer`.
fn program(class: &Class, forks: &BTreeMap<&str, usize>, first_timer: usize) -> Arc<[Phase]> {
    let ops = |step: &Step| match step {
        Step::Op(op) => Some(op.clone()),
        Step::OwnTimer { number, period, mode } => {
            Some(Op::Timer { timer: first_timer + number, period: *period, mode: *mode })
        }
        // Targets have been checked.
        Step::Fork(name, _) => forks.get(name.as_str()).map(|task| Op::Fork(*task)),
    };
    class
        .phases
        .iter()
        .map(|phase| Phase {
            name: phase.name.clone(),
            repeat: phase.repeat,
            settings: phase.settings.clone(),
            ops: phase.steps.iter().filter_map(ops).collect(),
        })
        .collect()
}
