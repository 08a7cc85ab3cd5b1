//! Shortest expected burst first, as a policy.

use std::collections::BTreeSet;

use vruntime_sched::ids::CpuId;
use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, Rq, Shared, TaskAttrs};

const MS: u64 = 1_000_000;

/// Each task has a deadline: the time it was queued plus the expected length of its burst. No task starves, because
/// deadlines pass.
#[derive(Debug)]
pub(crate) struct Shortest;

/// A task's bursts, nanoseconds.
#[derive(Debug)]
pub(crate) struct Burst {
    /// The average time between two sleeps.
    expected: u64,
    /// The time since the last sleep.
    had: u64,
    deadline: u64,
}

/// A CPU's waiting tasks by deadline, and the time up to which the running one has been charged.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeSet<(u64, u32)>,
    since: u64,
}

impl Shortest {
    fn charge(rq: &mut Rq<Self>) {
        let (now, since) = (rq.clock.now(), rq.class.since);
        if let Some(curr) = rq.curr_ordinary {
            rq.tasks[curr].class.had += now - since;
        }
        rq.class.since = now;
    }

    fn set_deadline(rq: &mut Rq<Self>, task: u32) {
        let now = rq.clock.now();
        let burst = &mut rq.tasks[task].class;
        burst.deadline = now + burst.expected.max(burst.had).min(20 * MS);
    }

    fn key(rq: &Rq<Self>, task: u32) -> (u64, u32) {
        (rq.tasks[task].class.deadline, task)
    }
}

impl Policy for Shortest {
    type Tunables = Knobs;
    type Rq = Queue;
    type Task = Burst;
    type Balance = Plain;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Plain;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> Queue {
        Queue::default()
    }

    fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) -> Burst {
        Burst { expected: 3 * MS, had: 0, deadline: 0 }
    }

    fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Enqueue) {
        Self::set_deadline(rq, task);
        let key = Self::key(rq, task);
        rq.class.waiting.insert(key);
    }

    fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, why: Dequeue) -> bool {
        Self::charge(rq);
        rq.class.waiting.remove(&Self::key(rq, task));
        if why == Dequeue::Sleep {
            let burst = &mut rq.tasks[task].class;
            burst.expected = (3 * burst.expected + burst.had) / 4;
            burst.had = 0;
        }
        true
    }

    fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
        let running = rq.curr_ordinary.filter(|&curr| rq.tasks[curr].on_rq).map(|curr| Self::key(rq, curr));
        rq.class.waiting.first().copied().into_iter().chain(running).min().map(|(_, task)| task)
    }

    fn switch(rq: &mut Rq<Self>, _shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        Self::charge(rq);
        let back = prev.filter(|&prev| rq.tasks[prev].on_rq).map(|prev| Self::key(rq, prev));
        rq.class.waiting.extend(back);
        if let Some(next) = next {
            rq.class.waiting.remove(&Self::key(rq, next));
        }
    }

    fn tick(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        Self::charge(rq);
        Self::set_deadline(rq, task);
        if rq.class.waiting.first().is_some_and(|&first| first < Self::key(rq, task)) {
            rq.resched();
        }
    }

    fn wakeup_preempt(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _wake: Wake) {
        if rq.curr_ordinary.is_some_and(|curr| Self::key(rq, task) < Self::key(rq, curr)) {
            rq.resched();
        }
    }

    fn yield_task(rq: &mut Rq<Self>, _shared: &Shared<Self>) {
        if let Some(curr) = rq.curr_ordinary {
            Self::set_deadline(rq, curr);
        }
    }

    /// The CPU with the fewest tasks; of these one whose core is idle, that is big, in the same cache, the previous
    /// one.
    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, _on: CpuId, _wake: Wake) -> CpuId {
        let (topology, here, task) = (&shared.topology, rq.cpu, &rq.tasks[task]);
        let llc = topology.place(here).llc;
        let cost = |cpu: CpuId| {
            let (place, nr_running) = (topology.place(cpu), shared.cpu(cpu).nr_running());
            let siblings = topology.sharing(cpu, |place| place.core);
            let busy = siblings.iter().filter(|&sibling| !shared.cpu(sibling).is_idle()).count();
            (nr_running, busy, 1024 - place.capacity, place.llc != llc, cpu != here, cpu)
        };
        let all = (0..shared.nr_cpus() as u32).map(CpuId);
        all.filter(|&cpu| task.allowed(cpu) && shared.is_online(cpu)).min_by_key(|&cpu| cost(cpu)).unwrap_or(here)
    }
}
