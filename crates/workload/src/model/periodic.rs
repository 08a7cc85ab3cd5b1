//! Benchmarks whose tasks wake again and again: `wakers`, `schbench`, `cyclictest`.

use super::args::Args;
use super::{MOST, ModelError, S, US, of_one_process, program, task};
use crate::program::{Op, Policy, Repeat, Semaphore, Timer, TimerMode, Workload};

/// Threads that sleep in a loop.
pub(super) fn wakers(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let tasks = args.number("N", 1..=MOST)?;
    let period = args.time("PERIOD")?;
    let work = if args.is_empty() { 1_500 } else { args.time("WORK")? };
    let body = program(vec![Op::Sleep { time: period }, Op::Run { work }], Repeat::Forever);
    let tasks = (0..tasks).map(|index| task("waker", Some(index), &body));
    Ok(Workload { tasks: tasks.collect(), duration: Some(S), ..Workload::default() })
}

/// Workers that ask their message thread for work, and are woken by it.
pub(super) fn schbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let messengers = args.option("-m", 1..=1000)?.unwrap_or(2);
    let workers = args.option("-t", 1..=MOST / 1001)?.unwrap_or(16);
    let work = args.option("-c", 1..=1_000_000)?.unwrap_or(30_000) * US;
    let mut workload = Workload { duration: Some(30 * S), ..Workload::default() };
    for messenger in 0..messengers {
        // One counts the requests, the other those that were granted.
        let (asked, granted) = (workload.semaphores.len(), workload.semaphores.len() + 1);
        for what in ["asked", "granted"] {
            workload.semaphores.push(Semaphore { name: format!("{what}-{messenger}"), initial: 0 });
        }
        let grants = program(vec![Op::SemWait(asked), Op::SemPost(granted)], Repeat::Forever);
        workload.tasks.push(task("schbench-message", Some(messenger), &grants));
        let works = program(vec![Op::SemPost(asked), Op::SemWait(granted), Op::Run { work }], Repeat::Forever);
        let number = |index| Some(messenger * workers + index);
        workload.tasks.extend((0..workers).map(|index| task("schbench-worker", number(index), &works)));
    }
    of_one_process(&mut workload);
    Ok(workload)
}

/// Threads that want to wake at fixed times.
pub(super) fn cyclictest(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let threads = args.option("-t", 1..=1000)?.unwrap_or(1);
    let priority = args.option("-p", 1..=99)?;
    let interval = args.option("-i", 10..=10_000_000)?.unwrap_or(1_000);
    let distance = args.option("-d", 0..=10_000_000)?.unwrap_or(500);
    let mut workload = Workload { duration: Some(10 * S), ..Workload::default() };
    for index in 0..threads {
        let timer = workload.timers.len();
        workload.timers.push(Timer::new(format!("cyclictest-{index}")));
        let period = (interval + index * distance) * US;
        // What it does with the time it has read.
        let ops = vec![Op::Timer { timer, period, mode: TimerMode::Absolute }, Op::Run { work: US }];
        let mut thread = task("cyclictest", Some(index), &program(ops, Repeat::Forever));
        thread.settings.policy =
            priority.map(|first| Policy::Fifo { priority: first.saturating_sub(index).max(1) as u8 });
        workload.tasks.push(thread);
    }
    of_one_process(&mut workload);
    Ok(workload)
}
