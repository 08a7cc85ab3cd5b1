//! What cannot be run, and what had better not be.

use std::fs;

use vruntime_workload::program::{Op, Phase, Policy, Repeat, Task, Workload};
use vruntime_workload::{Severity, SourceMap};

use crate::error::Error;

/// What a program cannot ask the kernel for.
fn impossible(op: &Op) -> Option<&'static str> {
    match op {
        Op::WaitEvent { .. } | Op::WakeUp { .. } => Some("a wait queue of the kernel"),
        Op::WaitForCompletion { .. } | Op::Complete(_) | Op::CompleteAll(_) | Op::ReinitCompletion(_) => {
            Some("a completion of the kernel")
        }
        _ => None,
    }
}

/// Looks the workload over before anything is begun.
pub(crate) fn check(workload: &Workload, duration: Option<u64>, force: bool) -> Result<(), Error> {
    for task in &workload.tasks {
        let ops = task.phases.iter().flat_map(|phase| &phase.ops);
        if let Some(what) = { ops }.find_map(impossible) {
            return Err(Error::Impossible { task: task.name.clone(), what });
        }
    }
    let found = vruntime_workload::check::check(workload, &SourceMap::default());
    if let Some(error) = found.into_iter().find(|error| error.severity() == Severity::Error) {
        return Err(Error::Workload(error));
    }
    let endless =
        |task: &Task| task.repeat == Repeat::Forever || task.phases.iter().any(|phase| phase.repeat == Repeat::Forever);
    if duration.is_none() && workload.tasks.iter().any(endless) {
        return Err(Error::Endless);
    }
    let cpus = online();
    let hogs = hogs(workload, cpus);
    if hogs >= cpus && !throttled() && !force {
        return Err(Error::Hangs { hogs, cpus });
    }
    Ok(())
}

/// CPUs this process may run on.
pub(crate) fn online() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Real-time tasks that never sleep, each of which may have any CPU.
fn hogs(workload: &Workload, cpus: usize) -> usize {
    let real_time = |policy: Option<Policy>| matches!(policy, Some(Policy::Fifo { .. } | Policy::RoundRobin { .. }));
    let hog = |task: &&Task| {
        let is = real_time(task.settings.policy) || task.phases.iter().any(|phase| real_time(phase.settings.policy));
        let confined = task.settings.cpus.as_ref().is_some_and(|allowed| allowed.len() < cpus);
        is && !confined && task.phases.iter().any(never_sleeps)
    };
    workload.tasks.iter().filter(hog).count()
}

/// Whether a phase goes on for long without ever giving the CPU away.
fn never_sleeps(phase: &Phase) -> bool {
    const LONG_NS: u64 = 1_000_000_000;
    let computes = |op: &Op| match op {
        Op::Run { work } => Some(*work),
        Op::Runtime { time } => Some(*time),
        Op::Mem { .. } | Op::MemRun(_) | Op::Io { .. } | Op::Unlock(_) | Op::Signal(_) | Op::Broadcast(_) => Some(0),
        _ => None,
    };
    let Some(once) = phase.ops.iter().map(computes).sum::<Option<u64>>() else { return false };
    match phase.repeat {
        Repeat::Forever => true,
        Repeat::Times(times) => once.saturating_mul(times) > LONG_NS,
    }
}

/// Whether the kernel keeps real-time tasks from having everything: its throttling, or a server for the others (6.12 on).
fn throttled() -> bool {
    let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let runtime = number("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or(-1);
    let period = number("/proc/sys/kernel/sched_rt_period_us").unwrap_or(0);
    (0..period).contains(&runtime)
        || number("/sys/kernel/debug/sched/fair_server/cpu0/runtime").is_some_and(|ns| ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(repeat: Repeat, ops: Vec<Op>) -> Phase {
        Phase { name: "p".to_owned(), repeat, settings: vruntime_workload::program::Settings::default(), ops }
    }

    #[test]
    fn only_endless_computation_is_a_hog() {
        let second = Op::Run { work: 1_000_000_000 };
        assert!(never_sleeps(&phase(Repeat::Forever, vec![second.clone()])));
        assert!(never_sleeps(&phase(Repeat::Times(2), vec![second.clone()])));
        assert!(!never_sleeps(&phase(Repeat::Times(1), vec![second.clone()])));
        assert!(!never_sleeps(&phase(Repeat::Forever, vec![second, Op::Sleep { time: 1 }])));
    }
}
