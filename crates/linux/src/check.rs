//! Checks before a run.

use std::path::Path;

use vruntime_workload::program::{Op, Phase, Repeat, Task, Workload};
use vruntime_workload::{Severity, SourceMap};

use crate::error::Error;
use crate::hogs::{self, Machine, Takers};

fn impossible(op: &Op) -> Option<&'static str> {
    match op {
        Op::WaitEvent { .. } | Op::WakeUp { .. } => Some("a wait queue of the kernel"),
        Op::WaitForCompletion { .. } | Op::Complete(_) | Op::CompleteAll(_) | Op::ReinitCompletion(_) => {
            Some("a completion of the kernel")
        }
        Op::PoolRun { .. } | Op::PoolHelp { .. } | Op::PoolSleep { .. } | Op::PoolWait { .. } => {
            Some("a pool whose members do each other's work")
        }
        Op::InboxWait { .. }
        | Op::InboxWake { .. }
        | Op::PutOff { .. }
        | Op::PutOffEnd { .. }
        | Op::RunIfSlept { .. }
        | Op::CatchUp { .. } => Some("an inbox"),
        Op::TryLock { .. } | Op::EnsureLock(_) | Op::Nudge(_) => Some("a mutex that it may get within a time"),
        Op::ExitGroup | Op::AwaitKill => Some("the end of a process"),
        Op::LeadMoves { .. } | Op::LeadAwaits { .. } => Some("the progress of another task"),
        _ => None,
    }
}

/// Checks the workload before the run.
pub(crate) fn check(workload: &Workload, duration: Option<u64>, force: bool) -> Result<(), Error> {
    for task in &workload.tasks {
        let mutex = |op: &Op| if let Op::Lock(mutex) = *op { workload.mutexes.get(mutex) } else { None };
        let ops = task.phases.iter().flat_map(|phase| &phase.ops);
        let what = |op: &Op| {
            impossible(op).or_else(|| mutex(op).filter(|mutex| mutex.hands_over).map(|_| "a mutex that is handed over"))
        };
        if let Some(what) = { ops }.find_map(what) {
            return Err(Error::Impossible { task: task.name.clone(), what });
        }
    }
    let found = vruntime_workload::check::check(workload, &SourceMap::default());
    if let Some(error) = found.into_iter().find(|error| error.severity() == Severity::Error) {
        return Err(Error::Workload(error));
    }
    let endless = |task: &Task| {
        let endless = |phase: &Phase| phase.repeat == Repeat::Forever || phase.ops.iter().any(Op::is_endless);
        task.repeat == Repeat::Forever || task.phases.iter().any(endless)
    };
    if duration.is_none() && workload.tasks.iter().any(endless) {
        return Err(Error::Endless);
    }
    let machine = Machine::this();
    if force || hogs::throttled(Path::new("/"), &machine.online) {
        return Ok(());
    }
    let cpus = machine.online.len();
    match hogs::take_all(workload, &machine) {
        Some(Takers::Hogs(hogs)) => Err(Error::Hangs { hogs, cpus }),
        Some(Takers::Together { tasks, percent }) => Err(Error::Crowds { tasks, percent, cpus }),
        None => Ok(()),
    }
}

/// Number of CPUs that this process may use.
pub(crate) fn online() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
