//! Benchmarks of periodic tasks: `wakers`, `schbench`, `cyclictest`.

use super::args::Args;
use super::{MOST, ModelError, S, US, of_one_process, program, task};
use crate::program::{Op, Policy, Repeat, Semaphore, Timer, TimerMode, Workload};

pub(super) fn wakers(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let tasks = args.number("N", 1..=MOST)?;
    let period = args.time("PERIOD")?;
    let work = if args.is_empty() { 1_500 } else { args.time("WORK")? };
    let body = program(vec![Op::Sleep { time: period }, Op::Run { work }], Repeat::Forever);
    let tasks = (0..tasks).map(|index| task("waker", Some(index), &body));
    Ok(Workload { tasks: tasks.collect(), duration: Some(S), ..Workload::default() })
}

/// Requests in a batch of schbench's `-R`.
const BATCH: u64 = 8;
/// Passes of a message thread before its sleeps repeat.
const PASSES: u64 = 8;

/// Workers request work, sleep until their message thread wakes them, and compute by the clock. A message thread wakes
/// all waiting workers in one pass. Then it sleeps until the next request, and a while longer. With a request rate, it
/// wakes workers in turn, ready or not.
pub(super) fn schbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let messengers = args.option("-m", 1..=1000)?.unwrap_or(2);
    let workers = args.option("-t", 1..=MOST / 1001)?.unwrap_or(16);
    let work = args.option("-c", 1..=1_000_000)?.unwrap_or(30_000) * US;
    let sleep = args.option("-s", 0..=1_000_000)?.unwrap_or(30_000) * US;
    let runtime = args.option("-r", 1..=1_000_000)?.unwrap_or(30);
    let rate = args.option("-R", 1..=1_000_000_000)?;
    let mut workload = Workload { duration: Some(runtime * S), ..Workload::default() };
    for messenger in 0..messengers {
        // The message thread's bell, and two semaphores for each worker.
        let bell = workload.semaphores.len();
        let mut semaphore = |name: String| workload.semaphores.push(Semaphore { name, initial: 0 });
        semaphore(format!("bell-{messenger}"));
        for worker in 0..workers {
            semaphore(format!("asked-{messenger}-{worker}"));
            semaphore(format!("woken-{messenger}-{worker}"));
        }
        let (asked, woken) =
            (|worker: u64| bell + 1 + 2 * worker as usize, |worker: u64| bell + 2 + 2 * worker as usize);
        let mut ops = Vec::new();
        if let Some(rate) = rate {
            let batch = BATCH * messengers * S / rate;
            // Complete batches, and equally many wakeups of each worker.
            for request in 0..workers * BATCH {
                ops.push(Op::SemPost(woken(request % workers)));
                if request % BATCH == BATCH - 1 {
                    ops.push(Op::Sleep { time: batch.max(1) });
                }
            }
        } else {
            for pass in 0..PASSES {
                ops.push(Op::SemReset(bell));
                ops.extend((0..workers).map(|worker| Op::SemMove { from: asked(worker), to: woken(worker) }));
                ops.push(Op::SemWait(bell));
                if sleep > 0 {
                    ops.push(Op::Sleep { time: sleep + jitter(messenger * PASSES + pass, sleep / 4) });
                }
            }
        }
        workload.tasks.push(task("schbench-message", Some(messenger), &program(ops, Repeat::Forever)));
        for worker in 0..workers {
            let asks = [Op::SemPost(asked(worker)), Op::SemPost(bell)];
            let works = [Op::SemWait(woken(worker)), Op::Runtime { time: work }];
            let ops = if rate.is_some() { works.to_vec() } else { [asks, works].concat() };
            let number = Some(messenger * workers + worker);
            workload.tasks.push(task("schbench-worker", number, &program(ops, Repeat::Forever)));
        }
    }
    of_one_process(&mut workload);
    Ok(workload)
}

/// Returns a number below `below`, by `index`. Message threads do not sleep in step.
fn jitter(index: u64, below: u64) -> u64 {
    let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * u128::from(below)) >> 64) as u64
}

/// Threads with absolute timers.
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
        // The evaluation of the time.
        let ops = vec![Op::Timer { timer, period, mode: TimerMode::Absolute }, Op::Run { work: US }];
        let mut thread = task("cyclictest", Some(index), &program(ops, Repeat::Forever));
        thread.settings.policy =
            priority.map(|first| Policy::Fifo { priority: first.saturating_sub(index).max(1) as u8 });
        workload.tasks.push(thread);
    }
    of_one_process(&mut workload);
    Ok(workload)
}
