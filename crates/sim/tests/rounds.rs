//! Response times of rounds ([`Sink::round_end`]), worked out by hand.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::Config;
use vruntime_trace::Sink;
use vruntime_workload::program::*;

#[derive(Default)]
struct Rounds(Vec<(u32, u64)>);

impl Sink for Rounds {
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}

    fn wants_rounds(&self) -> bool {
        true
    }

    fn round_end(&mut self, _at: u64, task: TaskId, response: u64) {
        self.0.push((task.0, response));
    }
}

fn rounds_of(workload: &Workload, config: &Config) -> Vec<(u32, u64)> {
    let mut rounds = Rounds::default();
    simulate(workload, config, &mut rounds).unwrap();
    rounds.0
}

fn of(task: u32, rounds: &[(u32, u64)]) -> Vec<u64> {
    rounds.iter().filter(|round| round.0 == task).map(|round| round.1 / US).collect()
}

fn times(name: &str, loops: u64, ops: Vec<Op>) -> Task {
    Task { repeat: Repeat::Times(loops), ..once(name, ops) }
}

fn fifo(task: Task) -> Task {
    let settings = Settings { policy: Some(Policy::Fifo { priority: 1 }), ..task.settings.clone() };
    Task { settings, ..task }
}

/// Waits for the CPU and for a device belong to the round.
#[test]
fn a_round_is_due_with_its_sleep_and_lasts_until_the_next() {
    let config = exact("6.12", "1");
    let worker = times("worker", 2, vec![run(2000), Op::Device { time: MS }, run(1000), sleep(6000)]);
    // The worker's second round is due at 10 ms: the other has the CPU until 13 ms.
    let urgent = fifo(starting(once("urgent", vec![run(4000)]), 9 * MS));
    let rounds = rounds_of(&workload(vec![worker, urgent]), &config);
    assert_eq!(of(0, &rounds), [4000, 3000 + 4000]);
    assert_eq!(of(1, &rounds), [4000]);
}

/// After missed beats, the next job counts from its own beat, unless the late task restarts the timer's beat.
#[test]
fn a_late_job_counts_from_its_beat() {
    let config = exact("6.12", "1");
    let job = |mode| {
        let mut workload =
            workload(vec![times("job", 4, vec![run(15_000), Op::Timer { timer: 0, period: 10 * MS, mode }])]);
        workload.timers = vec![Timer { name: "beat".to_owned(), start: Some(0) }];
        of(0, &rounds_of(&workload, &config))
    };
    assert_eq!(job(TimerMode::Absolute), [15_000, 20_000, 25_000, 30_000]);
    assert_eq!(job(TimerMode::Relative), [15_000; 4]);
}

/// The round is due at the post, although its CPU is busy until later.
#[test]
fn a_woken_task_is_due_when_it_is_woken() {
    let config = exact("6.12", "1");
    let mut workload = workload(vec![
        once("server", vec![Op::SemWait(0), run(1000), Op::SemWait(0), run(2000)]),
        fifo(starting(once("client", vec![Op::SemPost(0), run(3000), Op::SemPost(0)]), 5 * MS)),
    ]);
    workload.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
    let rounds = rounds_of(&workload, &config);
    // Woken at 5 ms, it runs from 8 ms on; then the second request is there, and it begins at once.
    assert_eq!(of(0, &rounds), [4000, 2000]);
}

#[test]
fn a_mutex_belongs_to_the_round_and_a_cut_is_no_end() {
    let config = Config { duration: Some(30 * MS), ..exact("6.12", "core:2") };
    let mut workload = workload(vec![
        starting(once("holder", vec![Op::Lock(0), run(10_000), Op::Unlock(0)]), 0),
        starting(once("waiter", vec![run(1000), Op::Lock(0), run(1000), Op::Unlock(0), sleep(1000), run(900_000)]), MS),
    ]);
    workload.mutexes = vec![Mutex { name: "m".to_owned(), priority_inheritance: false, hands_over: false }];
    let rounds = rounds_of(&workload, &config);
    assert_eq!(of(0, &rounds), [10_000]);
    assert_eq!(of(1, &rounds), [10_000]);
}

/// The test of messages compares the short path with the long one.
#[test]
fn a_reader_works_until_it_waits_again() {
    let config = exact("6.12", "1");
    let mut workload = workload(vec![
        once("reader", (0..3).flat_map(|_| [Op::PipeRead { pipe: 0, bytes: 100 }, run(1000)]).collect()),
        fifo(starting(
            once(
                "writer",
                vec![
                    Op::PipeWrite { pipe: 0, bytes: 100 },
                    Op::PipeWrite { pipe: 0, bytes: 100 },
                    sleep(9000),
                    Op::PipeWrite { pipe: 0, bytes: 100 },
                ],
            ),
            MS,
        )),
    ]);
    workload.pipes = vec![Pipe { name: "p".to_owned(), capacity: 65_536, kind: Channel::Pipe }];
    assert_eq!(of(0, &rounds_of(&workload, &config)), [2000, 1000]);
}
