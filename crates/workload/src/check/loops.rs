//! Loops that never end.

use super::{Class, Finder, Kind, Place, happens, is_endless};
use crate::program::{Op, Phase, Task};

pub(super) fn check(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let mut endless = None;
    for class in classes {
        let task = class.task;
        if !happens(task.repeat) {
            let message = format!("task `{}` loops 0 times", task.class);
            let help = "let it loop once at least, or remove it";
            finder.warn(Kind::NothingToDo, Place::task(class), &message, "it does nothing", help);
            continue;
        }
        if task.phases.iter().all(|phase| phase.ops.is_empty() || !happens(phase.repeat)) && !never_ends(task) {
            let message = format!("task `{}` does nothing", task.class);
            finder.warn(
                Kind::NothingToDo,
                Place::task(class),
                &message,
                "it has no events",
                "give it a `run` or a `sleep`",
            );
        }
        check_task(finder, class);
        if task.start.is_some() && never_ends(task) {
            endless = endless.or(Some(class));
        }
    }
    if let (Some(class), None) = (endless, finder.workload.duration) {
        let message = format!("nothing ends this workload: task `{}` loops for ever", class.task.class);
        let help = "give a duration, or a number to its `loop`";
        finder.warn(Kind::Endless, Place::task(class), &message, "without end, and there is no duration", help);
    }
}

fn check_task(finder: &mut Finder<'_>, class: &Class<'_>) {
    const HELP: &str = "give the loop something that takes time (`run`, `sleep`, `timer`), or an end (`loop`)";
    let task = class.task;
    let phases = || task.phases.iter().enumerate().filter(|(_, phase)| happens(phase.repeat));
    if let Some((index, phase)) = phases().find(|(_, phase)| is_endless(phase.repeat)) {
        if !takes_time(phase) {
            let message = format!("task `{}` loops for ever in phase `{}` and takes no time", task.class, phase.name);
            finder.error(Kind::Endless, Place::phase(class, index), &message, "nothing else can ever happen", HELP);
        }
        if let Some((next, unreached)) = phases().find(|(next, _)| *next > index) {
            let message = format!("phase `{}` of task `{}` is never reached", unreached.name, task.class);
            let help = format!("phase `{}` loops for ever; give a number to its `loop`", phase.name);
            finder.warn(Kind::Unreached, Place::phase(class, next), &message, "after a phase without end", &help);
        }
        return;
    }
    if is_endless(task.repeat) && !phases().any(|(_, phase)| takes_time(phase)) {
        let message = format!("task `{}` loops for ever and takes no time", task.class);
        finder.error(Kind::Endless, Place::task(class), &message, "nothing else can ever happen", HELP);
    }
}

/// Whether a started task never ends.
pub(super) fn never_ends(task: &Task) -> bool {
    let endless =
        |phase: &Phase| is_endless(phase.repeat) || happens(phase.repeat) && phase.ops.iter().any(Op::is_endless);
    happens(task.repeat) && (is_endless(task.repeat) || task.phases.iter().any(endless))
}

/// Whether an operation takes time: work, sleep, a wait, or a call. The simulator detects calls that cost 0.
pub(super) fn takes_time(phase: &Phase) -> bool {
    phase.ops.iter().any(|op| match *op {
        Op::Run { work: amount }
        | Op::PoolRun { work: amount, .. }
        | Op::PoolHelp { work: amount, .. }
        | Op::PoolWait { time: amount, .. }
        | Op::Runtime { time: amount }
        | Op::Device { time: amount }
        | Op::Timer { period: amount, .. }
        | Op::Mem { bytes: amount }
        | Op::Io { bytes: amount } => amount > 0,
        Op::MemRun(ref run) => run.count > 0,
        // In a loop, only the first one sleeps.
        Op::SleepUntil { .. } => false,
        _ => true,
    })
}
