//! A scheduler under test with a ticking clock, and each group's usage.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::policy::Limited;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    BandwidthStat, GroupWeight, Host, Limit, Policy, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker,
    invariants, kernel,
};

use crate::lags::{self, Debts};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
const TICK: u64 = 4 * MS;
const SLICE: u64 = 5 * MS;

#[derive(Default)]
pub(crate) struct Wishes {
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
    timers: BTreeMap<Timer, u64>,
    periods: Vec<GroupId>,
    pub(crate) throttled: u64,
    /// CPUs, since the last check.
    throttled_on: BTreeSet<CpuId>,
    /// Moves of each task, since the last check.
    moved: BTreeMap<TaskId, Vec<[CpuId; 2]>>,
}

impl Host for Wishes {
    fn resched(&mut self, cpu: CpuId) {
        self.resched.push(cpu);
    }
    fn kick_nohz(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        match at {
            Some(at) => self.timers.insert(timer, at),
            None => self.timers.remove(&timer),
        };
    }
    fn event(&mut self, _at: u64, cpu: CpuId, event: &Event) {
        match *event {
            Event::BandwidthPeriod { group, .. } => self.periods.push(group),
            Event::Throttle { .. } => {
                self.throttled += 1;
                self.throttled_on.insert(cpu);
            }
            Event::Migrate { task, from, to, .. } => self.moved.entry(task).or_default().push([from, to]),
            _ => {}
        }
    }
}

/// A group's usage, and that at the last check.
#[derive(Clone, Default)]
struct Usage {
    total: u64,
    at_period: u64,
    /// Usage before the last change of the limit, and periods since.
    at_change: u64,
    periods: u64,
}

pub(crate) struct Bench<P: Policy> {
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) wishes: Wishes,
    pub(crate) now: u64,
    pub(crate) groups: Vec<GroupId>,
    usage: BTreeMap<GroupId, Usage>,
    pub(crate) group_of: BTreeMap<TaskId, GroupId>,
    /// Requested slices.
    slices: BTreeMap<TaskId, Option<u64>>,
    asleep: BTreeSet<TaskId>,
    debts: Debts,
    /// CPUs where, since the last check, a throttled group may have left and returned, or a task with a new affinity or
    /// weight. `Wishes::moved` has tasks that moved twice: all CPUs tick at once, so one may pull what the next pulls
    /// back.
    came_and_went: BTreeSet<CpuId>,
}

impl<P: Policy<Tunables = Knobs> + 'static> Bench<P> {
    /// `parents`: indices of the groups' parents (the root is 0).
    pub(crate) fn new(cpus: u32, name: &str, parents: &[usize]) -> Self {
        let topology = Topology::flat(cpus as usize);
        let config = Config::new(&kernel(name).unwrap(), &topology, 250);
        let debts = Debts::new(&config);
        let shared = Shared::new(topology, config);
        let mut bench = Self {
            rqs: Rq::all(&shared),
            shared,
            wishes: Wishes::default(),
            now: 1_000_000_000,
            groups: vec![GroupId::ROOT],
            usage: BTreeMap::new(),
            group_of: BTreeMap::new(),
            slices: BTreeMap::new(),
            asleep: BTreeSet::new(),
            debts,
            came_and_went: BTreeSet::new(),
        };
        for &parent in parents {
            let parent = bench.groups[parent % bench.groups.len()];
            let group = bench.with(|s| s.new_group(parent, GroupWeight::Weight(100)));
            bench.groups.push(group);
        }
        bench
    }

    pub(crate) fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wishes>) -> T) -> T {
        call(&mut Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.wishes, now: self.now })
    }

    pub(crate) fn fork(&mut self, group: usize, cpu: u32) -> TaskId {
        self.fork_as(group, cpu, 0, None)
    }

    pub(crate) fn fork_as(&mut self, group: usize, cpu: u32, nice: i8, slice: Option<u64>) -> TaskId {
        let group = self.groups[group % self.groups.len()];
        let attrs = TaskAttrs { group, nice, slice, ..TaskAttrs::default() };
        let online = self.shared.online();
        let cpu = online.iter().nth(cpu as usize % online.count()).unwrap();
        let task = self.with(|s| {
            let task = s.new_task(&attrs, cpu);
            s.wake_new(task, cpu);
            task
        });
        self.group_of.insert(task, group);
        self.slices.insert(task, slice);
        self.debts.joins(task, slice, &self.path(group));
        self.obey();
        task
    }

    pub(crate) fn move_to(&mut self, task: TaskId, group: usize) {
        let group = self.groups[group % self.groups.len()];
        self.with(|s| s.move_group(task, group)).unwrap();
        self.group_of.insert(task, group);
        self.debts.joins(task, self.slices[&task], &self.path(group));
        self.obey();
    }

    /// The group and its ancestors.
    fn path(&self, group: GroupId) -> Vec<GroupId> {
        let above = |&group: &GroupId| (group != GroupId::ROOT).then(|| self.shared.group(group).parent);
        std::iter::successors(Some(group), above).collect()
    }

    pub(crate) fn limit(&mut self, group: usize, limit: Option<Limit>) {
        let group = self.groups[group % self.groups.len()];
        let set = self.with(|s| s.set_group_bandwidth(group, limit));
        assert_eq!(set.is_ok(), group != GroupId::ROOT, "{set:?}");
        let usage = self.usage.entry(group).or_default();
        *usage = Usage { at_period: usage.total, at_change: usage.total, periods: 0, ..*usage };
        self.obey();
    }

    pub(crate) fn requeues(&mut self, task: TaskId) {
        let here = self.rqs.iter().filter(|rq| rq.tasks.iter().any(|(_, it)| it.id == task));
        self.came_and_went.extend(here.map(|rq| rq.cpu));
    }

    pub(crate) fn toggle(&mut self, task: TaskId) {
        if self.asleep.remove(&task) {
            let waker = self.shared.online().first().unwrap();
            self.with(|s| assert!(s.wake(task, waker, Waker::Irq)));
        } else if let Some(cpu) = self.rqs.iter().position(|rq| rq.running() == Running::Task(task)) {
            self.asleep.insert(task);
            self.schedule(CpuId(cpu as u32), PrevState::Sleeping);
        }
        self.obey();
    }

    /// Toggles a CPU's online state, except the last one's.
    pub(crate) fn hotplug(&mut self, cpu: CpuId) {
        let last = self.shared.online().count() == 1;
        if !self.shared.is_online(cpu) {
            self.with(|s| s.cpu_up(cpu)).unwrap();
            self.obey();
            if self.rqs[cpu.index()].running() == Running::Idle {
                self.with(|s| s.tick_stopped(cpu));
            }
        } else if !last {
            self.with(|s| s.cpu_down(cpu)).unwrap();
        }
        self.obey();
    }

    fn schedule(&mut self, cpu: CpuId, state: PrevState) {
        let throttled = self.wishes.throttled;
        let next = self.with(|s| s.schedule(cpu, state));
        if self.wishes.throttled == throttled {
            lags::check_picked(&self.rqs[cpu.index()]);
        }
        match next.next {
            Running::Idle => self.with(|s| s.tick_stopped(cpu)),
            Running::Stopper => {
                self.with(|s| s.stopper_work(cpu));
                self.schedule(cpu, PrevState::Sleeping);
            }
            Running::Task(_) => {}
        }
    }

    pub(crate) fn obey(&mut self) {
        for _ in 0..10_000 {
            if let Some(cpu) = self.wishes.resched.pop() {
                self.schedule(cpu, PrevState::Preempted);
            } else if let Some(cpu) = self.wishes.kicks.pop() {
                while self.with(|s| s.nohz_balance(cpu)) {}
            } else if let Some(rq) = self.rqs.iter().find(|rq| rq.notify_resume()) {
                // Every task here is in user mode.
                let cpu = rq.cpu;
                self.came_and_went.insert(cpu);
                self.with(|s| s.return_to_user(cpu));
            } else {
                return;
            }
        }
        panic!("reschedules without end");
    }

    /// Runs timers and ticks until `end`, and checks each period's end.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.now < end {
            let timer = self.wishes.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            let tick = (self.now / TICK + 1) * TICK;
            let next = timer.map_or(tick, |(at, _)| at.max(self.now).min(tick)).min(end);
            self.pass(next - self.now);
            if let Some((at, timer)) = timer
                && at <= self.now
            {
                self.wishes.timers.remove(&timer);
                let on = timer.cpu().or(self.shared.online().first()).unwrap();
                self.with(|s| s.timer(timer, on));
                self.obey();
                self.close_periods();
            } else if self.now == tick {
                for cpu in (0..self.rqs.len() as u32).map(CpuId) {
                    if self.rqs[cpu.index()].running() != Running::Idle && self.with(|s| s.tick(cpu)) {
                        self.with(|s| s.balance(cpu));
                    }
                    self.obey();
                }
            }
            self.check();
        }
    }

    fn pass(&mut self, ns: u64) {
        self.now += ns;
        for rq in &self.rqs {
            let Running::Task(task) = rq.running() else { continue };
            let mut group = self.group_of[&task];
            while group != GroupId::ROOT {
                self.usage.entry(group).or_default().total += ns;
                group = self.shared.group(group).parent;
            }
        }
    }

    /// A CPU may also use the rest of its last slice, and run until the next tick.
    pub(crate) fn overrun(&self) -> u64 {
        self.rqs.len() as u64 * (SLICE + TICK)
    }

    fn close_periods(&mut self) {
        let overrun = self.overrun();
        for group in std::mem::take(&mut self.wishes.periods) {
            let Some(limit) = self.shared.group(group).limit() else { continue };
            let usage = self.usage.entry(group).or_default();
            let used = usage.total - usage.at_period;
            let most = limit.quota_ns() + limit.burst_ns() + overrun;
            assert!(used <= most, "group {group} used {used} ns in a period, {most} at most");
            usage.at_period = usage.total;
            // An overrun is paid back, and does not add up.
            usage.periods += 1;
            let used = usage.total - usage.at_change;
            let most = (usage.periods + 1) * limit.quota_ns() + limit.burst_ns() + overrun;
            assert!(used <= most, "group {group} used {used} ns in {} periods, {most} at most", usage.periods);
        }
    }

    pub(crate) fn check(&mut self) {
        let mut anew = std::mem::take(&mut self.came_and_went);
        anew.append(&mut self.wishes.throttled_on);
        let twice = std::mem::take(&mut self.wishes.moved).into_values().filter(|moves| moves.len() > 1);
        anew.extend(twice.flatten().flatten());
        for rq in &self.rqs {
            invariants::check(rq, &self.shared).unwrap();
            lags::check_sums(rq);
            self.debts.check(rq, anew.contains(&rq.cpu));
            // An idle CPU has no runnable task.
            let waits = rq.tasks.iter().any(|(index, task)| {
                task.on_rq && !self.asleep.contains(&task.id) && !P::Limits::throttled(rq, &self.shared, index)
            });
            assert!(rq.running() != Running::Idle || !waits, "CPU {} idles before a waiting task", rq.cpu);
        }
    }

    pub(crate) fn used(&self, group: usize) -> u64 {
        self.usage.get(&self.groups[group]).map_or(0, |usage| usage.total)
    }

    pub(crate) fn stat(&self, group: usize) -> BandwidthStat {
        self.shared.group(self.groups[group]).bandwidth_stat()
    }
}
