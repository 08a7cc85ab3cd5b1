//! A scheduling policy of your own: round robin, in 65 lines, compared with 6.12.
//!
//! `cargo run -p vruntime-sim --example round_robin` runs three tasks that always want to run, and one that sleeps
//! half of its time, on one CPU.

use std::collections::{BTreeMap, VecDeque};

use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, Rq, Shared, TaskAttrs, kernel};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run, run_policy};
use vruntime_trace::Sink;
use vruntime_workload::program::{Op, Phase, Task, Workload};

/// Every task in turn runs for `TICKS` ticks.
#[derive(Debug)]
struct RoundRobin;

/// The slice, ticks.
const TICKS: u32 = 3;

/// A CPU's queue, the next task in front, without the running task.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<u32>,
    /// Ticks left of the running task's slice.
    left: u32,
}

impl Policy for RoundRobin {
    type Tunables = Knobs;
    type Rq = Queue;
    type Task = ();
    type Balance = Plain;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Plain;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> Queue {
        Queue::default()
    }

    fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) {}

    fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Enqueue) {
        rq.class.waiting.push_back(task);
    }

    fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Dequeue) -> bool {
        rq.class.waiting.retain(|&other| other != task);
        true
    }

    fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
        let running = rq.curr_ordinary.filter(|&curr| rq.tasks[curr].on_rq);
        let goes_on = running.filter(|_| rq.class.left > 0);
        goes_on.or(rq.class.waiting.front().copied()).or(running)
    }

    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        if let Some(prev) = prev.filter(|&prev| rq.tasks[prev].on_rq) {
            rq.class.waiting.push_back(prev);
        }
        if let Some(next) = next {
            Self::dequeue(rq, shared, next, Dequeue::Save);
        }
        rq.class.left = TICKS;
    }

    fn tick(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {
        rq.class.left = rq.class.left.saturating_sub(1);
        if rq.class.left == 0 && !rq.class.waiting.is_empty() {
            rq.resched();
        }
    }

    fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}

    fn yield_task(rq: &mut Rq<Self>, _shared: &Shared<Self>) {
        rq.class.left = 0;
    }
}

/// The turns in order, with their lengths.
#[derive(Default)]
struct Turns {
    order: Vec<(TaskId, u64)>,
    running: Option<(TaskId, u64)>,
    cpu_time: BTreeMap<TaskId, (u64, u32)>,
}

impl Sink for Turns {
    fn event(&mut self, at: u64, _cpu: CpuId, event: &Event) {
        let Event::Switch { next, .. } = event else { return };
        if let Some((task, since)) = self.running.take() {
            let account = self.cpu_time.entry(task).or_default();
            account.0 += at - since;
            account.1 += 1;
            self.order.push((task, at - since));
        }
        self.running = if let Running::Task(task) = *next { Some((task, at)) } else { None };
    }
}

const MS: u64 = 1_000_000;

/// `hogs` tasks that always want to run; with `sleeper` one more that runs and sleeps 2 ms each.
fn workload(hogs: usize, sleeper: bool) -> Workload {
    let forever = |name: String, ops: &[Op]| Task::new(name, [Phase::forever(ops)]);
    let mut tasks: Vec<Task> = (0..hogs).map(|hog| forever(format!("hog-{hog}"), &[Op::Run { work: MS }])).collect();
    if sleeper {
        tasks.push(forever("sleeper".to_owned(), &[Op::Run { work: 2 * MS }, Op::Sleep { time: 2 * MS }]));
    }
    Workload { tasks, ..Workload::default() }
}

/// One CPU without costs, for a second.
fn config() -> Config {
    let mut machine = MachineSpec::new(parse_topology("1").expect("one CPU"));
    machine.costs = Costs::ZERO;
    Config { duration: Some(1000 * MS), ..Config::new(kernel("6.12").expect("a known kernel"), machine) }
}

fn main() -> Result<(), vruntime_sim::Error> {
    let (workload, config) = (workload(3, true), config());
    let (mut robin, mut fair) = (Turns::default(), Turns::default());
    run_policy::<RoundRobin, _>(&workload, &config, &mut robin)?;
    run(&workload, &config, &mut fair)?;
    println!("{:<10} {:>22} {:>22}", "", "round robin", "6.12 (EEVDF)");
    println!("{:<10} {:>12} {:>9} {:>12} {:>9}", "task", "cpu time", "turns", "cpu time", "turns");
    for (index, task) in workload.tasks.iter().enumerate() {
        let id = TaskId(index as u32);
        let of = |turns: &Turns| turns.cpu_time.get(&id).copied().unwrap_or_default();
        let ((robin_ns, robin_turns), (fair_ns, fair_turns)) = (of(&robin), of(&fair));
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 / MS as f64);
        println!("{:<10} {:>12} {robin_turns:>9} {:>12} {fair_turns:>9}", task.name, ms(robin_ns), ms(fair_ns));
    }
    let first: Vec<&str> = robin.order.iter().take(8).map(|(id, _)| workload.tasks[id.index()].name.as_str()).collect();
    println!("\nround robin's first turns: {}, ...", first.join(", "));
    Ok(())
}

/// `cargo test -p vruntime-sim --example round_robin`.
#[test]
fn the_tasks_run_in_turn() {
    let mut turns = Turns::default();
    let outcome = run_policy::<RoundRobin, _>(&workload(4, false), &config(), &mut turns);
    assert!(outcome.is_ok());
    let ids: Vec<u32> = turns.order.iter().map(|(task, _)| task.0).collect();
    assert!(ids.len() > 50, "{} turns in a second", ids.len());
    assert!(ids.iter().enumerate().all(|(turn, &id)| id == turn as u32 % 4), "in turn: {ids:?}");
    // The tick is every 4 ms: each turn is three of them, except the first, which begins between two.
    assert!(turns.order[1..].iter().all(|&(_, ns)| ns == u64::from(TICKS) * 4 * MS), "{:?}", turns.order);
}
