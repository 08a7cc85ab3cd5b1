//! rt-app's log of each loop ([`LoopTimes`]), worked out by hand.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::Config;
use vruntime_trace::{LoopTimes, Sink};
use vruntime_workload::program::*;

#[derive(Default)]
struct Loops(Vec<(TaskId, LoopTimes)>);

impl Sink for Loops {
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}

    fn wants_loops(&self) -> bool {
        true
    }

    fn loop_end(&mut self, _at: u64, task: TaskId, _duration: u64, times: &LoopTimes) {
        self.0.push((task, *times));
    }
}

fn loops_of(tasks: Vec<Task>, config: &Config) -> Vec<(TaskId, LoopTimes)> {
    let mut loops = Loops::default();
    simulate(&workload(tasks), config, &mut loops).unwrap();
    loops.0
}

fn only_loop(ops: Vec<Op>, others: Vec<Task>, config: &Config) -> LoopTimes {
    let tasks = [once("a", ops)].into_iter().chain(others);
    loops_of(tasks.collect(), config).into_iter().find(|(task, _)| *task == TaskId(0)).unwrap().1
}

const fn runtime(us: u64) -> Op {
    Op::Runtime { time: us * US }
}

/// Of a `runtime`, the work that the CPU does in the task's part of it; of a `run` all.
#[test]
fn work_is_what_was_done_in_the_time() {
    let small = exact("6.12", "core:1(capacity=512)");
    let mut urgent = starting(once("urgent", vec![run(3000)]), 2 * MS);
    urgent.settings.policy = Some(Policy::Fifo { priority: 1 });
    // Six milliseconds of the first twenty belong to another task.
    let times = only_loop(vec![runtime(20_000), runtime(10_000), run(1000)], vec![urgent], &small);
    assert_eq!((times.asked, times.work), (31 * MS, (7 + 5 + 1) * MS));
    assert_eq!(times.run, (20 + 10 + 2) * MS);
}

/// Both timers in time, and then the second too late.
#[test]
fn slack_is_of_the_last_timer_and_lateness_of_all_but_the_missed() {
    let mut config = exact("6.12", "1");
    config.machine.timer_slack_ns = 50 * US;
    let timer = |timer, ms: u64| Op::Timer { timer, period: ms * MS, mode: TimerMode::Absolute };
    // Back at 5.05 and 8.05 ms.
    let times = only_loop(vec![run(1000), timer(0, 5), run(1950), timer(1, 8)], Vec::new(), &config);
    assert_eq!((times.period, times.slack, times.cumulative_slack), (13 * MS, MS as i64, 5 * MS as i64));
    assert_eq!(times.wakeup_latency, 100 * US);
    let late = only_loop(vec![run(1000), timer(0, 5), run(5950), timer(1, 8)], Vec::new(), &config);
    assert_eq!((late.slack, late.cumulative_slack, late.wakeup_latency), (-3 * MS as i64, MS as i64, 0));
    // A sleep is no timer.
    let slept = only_loop(vec![timer(0, 5), sleep(1000)], Vec::new(), &config);
    assert_eq!(slept.wakeup_latency, 50 * US);
}

#[test]
fn only_the_workloads_tasks_have_loops() {
    let mut config = Config { duration: Some(3000 * MS), ..exact("6.12", "2") };
    config.machine.costs.kworker_ns = 30 * US;
    let loops = loops_of(vec![task("a", vec![phase(vec![run(10), sleep(100_000)], Repeat::Times(20))])], &config);
    let events = {
        let mut log = Log::default();
        let tasks = vec![task("a", vec![phase(vec![run(10), sleep(100_000)], Repeat::Times(20))])];
        simulate(&workload(tasks), &config, &mut log).unwrap();
        log.pick(|_, event| matches!(event, Event::LoopEnd { .. }).then_some(())).len()
    };
    assert_eq!(loops.len(), 20);
    assert!(loops.iter().all(|(task, _)| *task == TaskId(0)) && events > 20, "{events}");
}
