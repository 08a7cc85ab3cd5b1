//! The first CFS, as merged for 2.6.23 (here: of 2 August 2007).
//!
//! A run queue's *fair clock* advances like that of a task that shares the CPU fairly: slower with more queued weight.
//! A waiting task earns a fair CPU's time on its account, `wait_runtime`. A running task pays what it gets beyond that.
//! Tasks are ordered by the fair clock less their account (`fair_key`). There are no slices. At the tick, a task a
//! granularity ahead of the running one preempts it; at its wakeup, one a wakeup granularity ahead.
//!
//! A sleeper earns as if runnable (FAIR_SLEEPERS, SLEEPER_AVG), by its CPU's average load (SLEEPER_LOAD_AVG), up to
//! `sched_runtime_limit_ns`. Running tasks pay for it (`sleeper_bonus`).
//!
//! A new task is a process (no CLONE_VM), and a child of the task that runs on the fork's CPU. There it runs before its
//! parent (`sched_child_runs_first`), half a granularity in debt (START_DEBIT). A weight change clears the account.
//!
//! Balancing is in `balance/early.rs`, as in 2.6.22 with these weights: it pulls the first task in the order, and no
//! task is cache-hot. CPU loads are plain averages (no PRECISE_CPU_LOAD). `sched_compat_yield` is from later release
//! candidates.

mod entity;
pub(crate) mod tunables;

use core::marker::PhantomData;

pub use entity::Entity2007;
use entity::{WEIGHT_RT, weight_of};
pub use tunables::Tunables2007;

use crate::balance::early;
use crate::class::fair::timeline::Timeline;
use crate::debug::{AvgDebug, CfsDebug, EntityDebug};
use crate::features::Feature;
use crate::ids::{CpuId, GroupId};
use crate::policy::{Balanced, Debugged, Dequeue, Enqueue, Plain, Policy, Wake};
use crate::rq::Rq;
use crate::shared::{FairStats, Shared};
use crate::task::{SchedPolicy, TaskAttrs};
use crate::tunables::{Knobs, Tunables};
use crate::weight::{self, NICE_0_WEIGHT, scale};

/// The first CFS, its tunables from `T`: knobs, or constants.
#[derive(Debug)]
pub struct Cfs2007<T = Knobs>(PhantomData<T>);

/// State of a CPU.
#[derive(Debug)]
pub struct CfsRq2007 {
    timeline: Timeline,
    /// Nanoseconds of a nice-0 task's fair share.
    fair_clock: u64,
    /// Sum of the queued weights.
    load: u64,
    /// Sleepers' nanoseconds that running tasks have yet to pay.
    sleeper_bonus: u64,
}

impl<T: Tunables> Rq<Cfs2007<T>> {
    fn charge(&mut self, shared: &Shared<Cfs2007<T>>) {
        let Some(curr) = self.curr_ordinary else { return };
        let tunables = &shared.config.tunables;
        let now = self.clock.now();
        let se = &mut self.tasks[curr].class;
        se.delta_exec += now.saturating_sub(se.exec_start);
        se.exec_start = now;
        if se.delta_exec <= tunables.cfs_2007().stat_granularity_ns {
            return;
        }
        let ran = core::mem::take(&mut se.delta_exec);
        se.sum_exec_runtime += ran;
        let queue = &mut self.class;
        if queue.load == 0 {
            return;
        }
        let mut mine = scale(ran, se.weight, queue.load) as i64;
        if queue.sleeper_bonus > tunables.cfs_2007().granularity_ns {
            let paid = scale(queue.sleeper_bonus, se.weight, queue.load).min(queue.sleeper_bonus);
            queue.sleeper_bonus -= paid;
            mine -= paid as i64;
        }
        queue.fair_clock = queue.fair_clock.wrapping_add(scale(ran, NICE_0_WEIGHT, queue.load));
        se.add_wait_runtime(tunables, mine - ran as i64);
    }

    fn wait_ends(&mut self, shared: &Shared<Cfs2007<T>>, task: u32) {
        let tunables = &shared.config.tunables;
        let numbers = tunables.cfs_2007();
        let clock = self.class.fair_clock;
        let se = &mut self.tasks[task].class;
        let Some(start) = se.wait_start_fair.take() else { return };
        se.delta_fair_run += clock.wrapping_sub(start).min(2 * numbers.runtime_limit_ns);
        if se.delta_fair_run >= numbers.stat_granularity_ns {
            let fair = core::mem::take(&mut se.delta_fair_run);
            se.add_wait_runtime(tunables, se.own(fair));
        }
    }

    fn sleep_ends(&mut self, shared: &Shared<Cfs2007<T>>, task: u32) {
        let features = shared.config.features;
        let numbers = shared.config.tunables.cfs_2007();
        let Some(start) = self.tasks[task].class.sleep_start_fair.take() else { return };
        if self.tasks[task].policy == SchedPolicy::Batch || !features.has(Feature::FairSleepers) {
            return;
        }
        let slept = (self.class.fair_clock.wrapping_sub(start) as i64).max(0) as u64;
        let mut load = self.class.load;
        if features.has(Feature::SleeperLoadAvg)
            && let Some(loads) = &shared.cpu_loads
        {
            load = loads.average(shared, self.cpu, 3, self.clock.now());
        }
        let se = &mut self.tasks[task].class;
        se.delta_fair_sleep += slept.min(2 * numbers.runtime_limit_ns);
        if se.delta_fair_sleep < numbers.stat_granularity_ns {
            return;
        }
        let mut fair = core::mem::take(&mut se.delta_fair_sleep);
        if features.has(Feature::SleeperAvg) {
            // The clock would have been slower with this task.
            fair = scale(fair, load, load + se.weight);
        }
        let before = se.wait_runtime;
        se.add_wait_runtime(&shared.config.tunables, se.own(fair));
        self.class.sleeper_bonus += (se.wait_runtime - before).max(0) as u64;
    }

    /// Queues a task by its account. Its wait begins, unless it runs.
    fn insert(&mut self, task: u32) {
        let clock = self.class.fair_clock;
        let waits = self.curr_ordinary != Some(task);
        let se = &mut self.tasks[task].class;
        if waits {
            se.wait_start_fair = Some(clock);
        }
        se.fair_key = se.key(clock);
        self.insert_by_key(task);
    }

    fn insert_by_key(&mut self, task: u32) {
        let se = &mut self.tasks[task].class;
        se.ticket = Some(self.class.timeline.insert(task, se.fair_key, se.fair_key, 0));
        self.class.load += se.weight;
    }

    fn remove(&mut self, task: u32) {
        let se = &mut self.tasks[task].class;
        if let Some(ticket) = se.ticket.take() {
            self.class.timeline.remove(ticket);
            self.class.load -= se.weight;
        }
    }

    /// Returns how far `task` is ahead of the running `curr`, fair nanoseconds.
    fn ahead(&self, task: u32, curr: u32) -> i64 {
        self.tasks[curr].class.fair_key.wrapping_sub(self.tasks[task].class.fair_key) as i64
    }

    fn insert_child(&mut self, shared: &Shared<Cfs2007<T>>, parent: u32, child: u32) {
        let numbers = shared.config.tunables.cfs_2007();
        let features = shared.config.features;
        let granularity = self.tasks[parent].class.niced(numbers.granularity_ns);
        let key = self.tasks[parent].class.fair_key.wrapping_sub(granularity as u64 + 1);
        let clock = self.class.fair_clock;
        let se = &mut self.tasks[child].class;
        se.fair_key = key;
        se.wait_start_fair = (!features.has(Feature::SkipInitial)).then_some(clock);
        if features.has(Feature::StartDebit) {
            se.wait_runtime = 0;
            se.add_wait_runtime(&shared.config.tunables, -(numbers.granularity_ns.min(1 << 40) as i64 / 2));
        }
        self.insert_by_key(child);
    }
}

fn wants(attrs: (SchedPolicy, i8)) -> u64 {
    weight_of(attrs.1, attrs.0 == SchedPolicy::Idle)
}

impl<T: Tunables> Policy for Cfs2007<T> {
    type Tunables = T;
    type Rq = CfsRq2007;
    type Task = Entity2007;
    type Balance = Self;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Self;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> CfsRq2007 {
        CfsRq2007 { timeline: Timeline::new(), fair_clock: 0, load: 0, sleeper_bonus: 0 }
    }

    fn new_task(_shared: &Shared<Self>, attrs: &TaskAttrs) -> Entity2007 {
        Entity2007 { weight: wants((attrs.policy, attrs.nice)), ..Entity2007::default() }
    }

    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue) {
        rq.charge(shared);
        match why {
            Enqueue::New if shared.config.tunables.cfs_2007().child_runs_first => {
                let parent = rq.tasks[task].class.parent;
                let runs = |&curr: &u32| parent == Some(rq.tasks[curr].id) && rq.tasks[curr].class.ticket.is_some();
                if let Some(parent) = rq.curr_ordinary.filter(runs) {
                    rq.insert_child(shared, parent, task);
                    return;
                }
            }
            Enqueue::Wakeup | Enqueue::WakeupMigrated | Enqueue::Delayed => rq.sleep_ends(shared, task),
            Enqueue::New | Enqueue::Move | Enqueue::Restore => {}
        }
        rq.insert(task);
    }

    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool {
        rq.charge(shared);
        if rq.curr_ordinary != Some(task) {
            rq.wait_ends(shared, task);
        }
        if why == Dequeue::Sleep {
            rq.tasks[task].class.sleep_start_fair = Some(rq.class.fair_clock);
        }
        rq.remove(task);
        true
    }

    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32> {
        rq.charge(shared);
        rq.class.timeline.first()
    }

    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        if let Some(prev) = prev
            && rq.tasks[prev].class.ticket.is_some()
        {
            rq.charge(shared);
            rq.tasks[prev].class.wait_start_fair = Some(rq.class.fair_clock);
        }
        if let Some(next) = next {
            rq.wait_ends(shared, next);
            rq.tasks[next].class.exec_start = rq.clock.now();
        }
    }

    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        if rq.tasks[task].class.ticket.is_none() {
            return;
        }
        rq.charge(shared);
        rq.remove(task);
        rq.insert(task);
        let granularity = rq.tasks[task].class.niced(shared.config.tunables.cfs_2007().granularity_ns);
        if let Some(first) = rq.class.timeline.first()
            && first != task
            && rq.ahead(first, task) > granularity
        {
            rq.resched();
        }
    }

    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, _wake: Wake) {
        let Some(curr) = rq.curr_ordinary else { return };
        let numbers = shared.config.tunables.cfs_2007();
        let batch = rq.tasks[task].policy == SchedPolicy::Batch;
        let granularity = if batch { numbers.batch_wakeup_granularity_ns } else { numbers.wakeup_granularity_ns };
        if rq.ahead(task, curr) > rq.tasks[curr].class.niced(granularity) {
            rq.resched();
        }
    }

    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        let Some(curr) = rq.curr_ordinary.filter(|&curr| rq.tasks[curr].class.ticket.is_some()) else { return };
        rq.charge(shared);
        rq.remove(curr);
        let last = rq.class.timeline.last().map(|last| rq.tasks[last].class.fair_key);
        match last.filter(|_| shared.config.tunables.cfs_2007().compat_yield) {
            Some(last) => {
                rq.tasks[curr].class.fair_key = last.wrapping_add(1);
                rq.insert_by_key(curr);
            }
            None => rq.insert(curr),
        }
    }

    fn update_curr(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.charge(shared);
    }

    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        early::select_cpu(rq, shared, task, on, wake)
    }

    fn select_cpu_exec(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> CpuId {
        early::select_cpu_exec(rq, shared, task)
    }

    fn detach(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        // Between CPUs: the length of its sleep, since each CPU has its own clock.
        let clock = rq.class.fair_clock;
        let se = &mut rq.tasks[task].class;
        se.sleep_start_fair = se.sleep_start_fair.map(|start| start.wrapping_sub(clock));
    }

    fn attach(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        let clock = rq.class.fair_clock;
        let parent = rq.curr_ordinary.map(|curr| rq.tasks[curr].id);
        let se = &mut rq.tasks[task].class;
        se.sleep_start_fair = se.sleep_start_fair.map(|start| start.wrapping_add(clock));
        if !core::mem::replace(&mut se.born, true) {
            se.parent = parent;
        }
    }

    fn attrs_changed(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        let weight = wants((rq.tasks[task].policy, rq.tasks[task].nice));
        let se = &mut rq.tasks[task].class;
        if se.weight != weight {
            (se.weight, se.wait_runtime) = (weight, 0);
        }
    }
}

impl<T: Tunables> Balanced<Self> for Cfs2007<T> {
    fn task_load(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) -> u64 {
        rq.tasks[task].class.weight
    }

    fn pull_order(rq: &Rq<Self>) -> alloc::vec::Vec<u32> {
        rq.class.timeline.iter().collect()
    }

    fn publish(rq: &Rq<Self>, shared: &Shared<Self>) {
        let nr = rq.nr_ordinary();
        shared.cpu(rq.cpu).publish_fair(FairStats {
            load: rq.class.load + u64::from(rq.nr_running - nr) * WEIGHT_RT,
            runnable: u64::from(nr) * NICE_0_WEIGHT,
            util: u64::from(nr.min(1)) * NICE_0_WEIGHT,
            util_est: 0,
            h_nr_runnable: nr,
            h_nr_queued: nr,
            h_nr_idle: 0,
        });
    }
}

impl<T: Tunables> Debugged<Self> for Cfs2007<T> {
    fn debug(rq: &Rq<Self>, _shared: &Shared<Self>) -> alloc::vec::Vec<CfsDebug> {
        let key = |task: u32| rq.tasks[task].class.fair_key as i64;
        let nr = rq.nr_ordinary();
        alloc::vec![CfsDebug {
            group: GroupId::ROOT,
            left: rq.class.timeline.first().map(|first| (key(first), key(first))),
            right_vruntime: rq.class.timeline.last().map(key),
            min_vruntime: rq.class.fair_clock as i64,
            avg_vruntime: rq.class.fair_clock as i64,
            nr_queued: nr,
            h_nr_runnable: nr,
            h_nr_queued: nr,
            h_nr_idle: 0,
            nr_idle: 0,
            load: rq.class.load << weight::SHIFT,
            avg: AvgDebug::default(),
            removed: [0; 3],
            tg_load_avg_contrib: 0,
            tg_load_avg: 0,
            throttled: false,
            throttle_count: 0,
            se: None,
        }]
    }

    fn debug_task(rq: &Rq<Self>, task: u32) -> Option<EntityDebug> {
        let se = &rq.tasks[task].class;
        Some(EntityDebug {
            exec_start: se.exec_start,
            vruntime: se.fair_key as i64,
            sum_exec_runtime: se.sum_exec_runtime,
            weight: se.weight << weight::SHIFT,
            ..EntityDebug::default()
        })
    }

    fn check(rq: &Rq<Self>) -> Result<(), alloc::string::String> {
        let wrong = |what: &str| Err(alloc::format!("CPU {}: {what}", rq.cpu));
        let queued = rq.listed().count();
        if queued != rq.class.timeline.len() || rq.listed().any(|task| rq.tasks[task].class.ticket.is_none()) {
            return wrong("the queued tasks differ from those of the timeline");
        }
        let load: u64 = rq.listed().map(|task| rq.tasks[task].class.weight).sum();
        if load != rq.class.load {
            return wrong("the load is not the sum of the weights");
        }
        if rq.listed().any(|task| (rq.tasks[task].class.wait_start_fair.is_some()) && rq.curr_ordinary == Some(task)) {
            return wrong("the running task waits");
        }
        Ok(())
    }
}
