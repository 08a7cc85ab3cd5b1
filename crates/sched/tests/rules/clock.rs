//! Charges for the time between a wakeup and its switch.

use vruntime_sched::Waker;
use vruntime_sched::class::fair::Cfs;
use vruntime_sched::event::PrevState;

use crate::bench::{CPU, MS, Machine};

/// The charges of waker and woken task, us: 50 us from the wakeup to the switch, 30 us to the next update.
fn charged(kernel: &str, waker: Waker) -> [u64; 2] {
    let mut machine = Machine::<Cfs>::new(kernel);
    let tasks = machine.fork(2);
    // One sleeps, the other runs: a wakeup then preempts.
    machine.pass(MS);
    assert_eq!(machine.schedule(PrevState::Sleeping), Some(tasks[1]));
    machine.pass(20 * MS);
    let before = [1, 0].map(|task| machine.entity(tasks[task]).sum_exec_runtime);
    assert!(machine.asks(|s| s.wake(tasks[0], CPU, waker)));
    machine.now += 50_000;
    assert_eq!(machine.schedule(PrevState::Preempted), Some(tasks[0]));
    machine.pass(30_000);
    let after = [1, 0].map(|task| machine.entity(tasks[task]).sum_exec_runtime);
    [0, 1].map(|task| (after[task] - before[task]) / 1000)
}

/// `rq_clock_skip_update`: the switch after a wakeup uses the wakeup's clock, except after a wakeup by an interrupt.
#[test]
fn a_preempting_task_is_charged_from_the_wakeup_on() {
    for kernel in ["3.10", "6.1"] {
        assert_eq!(charged(kernel, Waker::Task), [0, 80], "{kernel}");
        assert_eq!(charged(kernel, Waker::Irq), [50, 30], "{kernel}");
    }
}
