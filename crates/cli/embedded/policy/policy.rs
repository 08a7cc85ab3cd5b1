//! The policy: round robin. Every task in turn runs for `TICKS` ticks.
//!
//! The page "Policies" (docs/policy.md) describes all calls and the rules that a policy has to follow.

use std::collections::VecDeque;

use vruntime_sched::ids::CpuId;
use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, Rq, Shared, TaskAttrs};

/// The policy, as a type without data. Data is in [`Queue`] for each CPU, and in `Task` for each task.
#[derive(Debug)]
pub struct RoundRobin;

/// The slice, ticks.
const TICKS: u32 = 3;

/// A CPU's queue, the next task in front, without the running task.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<u32>,
    /// Ticks left of the running task's slice.
    left: u32,
}

impl Policy for RoundRobin {
    type Tunables = Knobs;
    type Rq = Queue;
    type Task = ();
    // What a policy may leave out: balancing between CPUs, changes of tasks, limits, and debugging texts.
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

    /// Returns the running task until its slice is over, then the first of the queue.
    fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
        let running = rq.curr_ordinary.filter(|&curr| rq.tasks[curr].on_rq);
        let goes_on = running.filter(|_| rq.class.left > 0);
        goes_on.or(rq.class.waiting.front().copied()).or(running)
    }

    /// Puts the previous task back into the queue, and takes the next out.
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

    /// A woken task waits for its turn.
    fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}

    fn yield_task(rq: &mut Rq<Self>, _shared: &Shared<Self>) {
        rq.class.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use vruntime_report::Collector;
    use vruntime_sched::kernel;
    use vruntime_sim::{Config, Costs, Error, MachineSpec, parse_topology, run_policy};
    use vruntime_workload::program::{Op, Phase, Task, Workload};

    use super::RoundRobin;

    const MS: u64 = 1_000_000;

    /// Four tasks that always want to run, on one CPU for 1.2 s: each gets a quarter, in turns of three ticks.
    #[test]
    fn tasks_run_in_turn() -> Result<(), Error> {
        let hog = |number| Task::new(format!("hog-{number}"), [Phase::forever([Op::Run { work: MS }])]);
        let workload = Workload { tasks: (0..4).map(hog).collect(), ..Workload::default() };
        let machine = MachineSpec { costs: Costs::ZERO, ..MachineSpec::new(parse_topology("1").expect("one CPU")) };
        let config =
            Config { duration: Some(1200 * MS), ..Config::new(kernel("6.12").expect("a known kernel"), machine) };
        let mut collector = Collector::new(1);
        run_policy::<RoundRobin, _>(&workload, &config, &mut collector)?;
        let results = collector.into_results();
        // 12 ms are a slice at 250 Hz.
        for task in &results.tasks {
            assert!(task.account.cpu_ns.abs_diff(300 * MS) <= 12 * MS, "{}: {:?}", task.name, task.account);
            assert!((24..=26).contains(&task.account.involuntary), "{}: {:?}", task.name, task.account);
        }
        Ok(())
    }
}
