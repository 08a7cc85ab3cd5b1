//! CPU limits on a small machine with a clock: no group uses more than its limit lets it (design: invariant 5), whatever is
//! nested in what, and however limits, groups, affinities and the CPUs themselves change; and a group that wants all it may have gets it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::shared::Config;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    BandwidthStat, CpuMask, Host, Limit, Policy, PolicyKind, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology,
    invariants, kernel,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TICK: u64 = 4 * MS;
const SLICE: u64 = 5 * MS;

#[derive(Default)]
struct Wishes {
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
    timers: BTreeMap<Timer, u64>,
    periods: Vec<GroupId>,
    throttled: u64,
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
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        match *event {
            Event::BandwidthPeriod { group, .. } => self.periods.push(group),
            Event::Throttle { .. } => self.throttled += 1,
            _ => {}
        }
    }
}

/// What a group has used, and what it had used when the books were last closed.
#[derive(Clone, Default)]
struct Usage {
    total: u64,
    at_period: u64,
    /// Since the limit was last changed: use before it, and periods that ended.
    at_change: u64,
    periods: u64,
}

struct Bench<P: Policy> {
    rqs: Vec<Rq<P>>,
    shared: Shared<P>,
    wishes: Wishes,
    now: u64,
    groups: Vec<GroupId>,
    usage: BTreeMap<GroupId, Usage>,
    group_of: BTreeMap<TaskId, GroupId>,
    asleep: BTreeSet<TaskId>,
}

impl<P: Policy<Tunables = Knobs>> Bench<P> {
    /// `parents` says in which of the groups before it (the root is 0) each group is.
    fn new(cpus: u32, name: &str, parents: &[usize]) -> Self {
        let topology = Topology::flat(cpus as usize);
        let config = Config::new(&kernel(name).unwrap(), &topology, 250);
        let shared = Shared::new(topology, config);
        let mut bench = Self {
            rqs: Rq::all(&shared),
            shared,
            wishes: Wishes::default(),
            now: 1_000_000_000,
            groups: vec![GroupId::ROOT],
            usage: BTreeMap::new(),
            group_of: BTreeMap::new(),
            asleep: BTreeSet::new(),
        };
        for &parent in parents {
            let parent = bench.groups[parent % bench.groups.len()];
            let group = bench.with(|s| s.new_group(parent, 100, false));
            bench.groups.push(group);
        }
        bench
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wishes>) -> T) -> T {
        call(&mut Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.wishes, now: self.now })
    }

    fn fork(&mut self, group: usize, cpu: u32) -> TaskId {
        let group = self.groups[group % self.groups.len()];
        let attrs = TaskAttrs { group, ..TaskAttrs::default() };
        let online = self.shared.online();
        let cpu = online.iter().nth(cpu as usize % online.count()).unwrap();
        let task = self.with(|s| {
            let task = s.new_task(&attrs, cpu);
            s.wake_new(task, cpu);
            task
        });
        self.group_of.insert(task, group);
        self.obey();
        task
    }

    fn limit(&mut self, group: usize, limit: Option<Limit>) {
        let group = self.groups[group % self.groups.len()];
        self.with(|s| s.set_group_bandwidth(group, limit));
        let usage = self.usage.entry(group).or_default();
        *usage = Usage { at_period: usage.total, at_change: usage.total, periods: 0, ..*usage };
        self.obey();
    }

    fn toggle(&mut self, task: TaskId) {
        if self.asleep.remove(&task) {
            let waker = self.shared.online().first().unwrap();
            self.with(|s| assert!(s.wake(task, waker, false, true)));
        } else if let Some(cpu) = self.rqs.iter().position(|rq| rq.running() == Running::Task(task)) {
            self.asleep.insert(task);
            self.schedule(CpuId(cpu as u32), PrevState::Sleeping);
        }
        self.obey();
    }

    /// The CPU goes, unless it is the last one, or comes back.
    fn hotplug(&mut self, cpu: CpuId) {
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
        let next = self.with(|s| s.schedule(cpu, state));
        match next.next {
            Running::Idle => self.with(|s| s.tick_stopped(cpu)),
            Running::Stopper => {
                self.with(|s| s.stopper_work(cpu));
                self.schedule(cpu, PrevState::Sleeping);
            }
            Running::Task(_) => {}
        }
    }

    fn obey(&mut self) {
        for _ in 0..10_000 {
            if let Some(cpu) = self.wishes.resched.pop() {
                self.schedule(cpu, PrevState::Preempted);
            } else if let Some(cpu) = self.wishes.kicks.pop() {
                self.with(|s| s.nohz_balance(cpu));
            } else if let Some(rq) = self.rqs.iter().find(|rq| rq.notify_resume()) {
                // Every task here is in user mode.
                let cpu = rq.cpu;
                self.with(|s| s.return_to_user(cpu));
            } else {
                return;
            }
        }
        panic!("reschedules without end");
    }

    /// Lets time pass, timers and ticks come, and looks at every period that ends.
    fn run_until(&mut self, end: u64) {
        while self.now < end {
            let timer = self.wishes.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            let tick = (self.now / TICK + 1) * TICK;
            let next = timer.map_or(tick, |(at, _)| at.max(self.now).min(tick)).min(end);
            self.pass(next - self.now);
            if let Some((at, timer)) = timer
                && at <= self.now
            {
                self.wishes.timers.remove(&timer);
                let on = self.shared.online().first().unwrap();
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

    /// Beyond what the pool had, a CPU may use up what was left of its last slice, and run on to the next tick.
    fn overrun(&self) -> u64 {
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
            // And what was too much is paid back: it does not add up.
            usage.periods += 1;
            let used = usage.total - usage.at_change;
            let most = (usage.periods + 1) * limit.quota_ns() + limit.burst_ns() + overrun;
            assert!(used <= most, "group {group} used {used} ns in {} periods, {most} at most", usage.periods);
        }
    }

    fn check(&self) {
        for rq in &self.rqs {
            invariants::check(rq, &self.shared).unwrap();
            // An idle CPU has nobody to run.
            let waits = rq.tasks.iter().any(|(index, task)| {
                task.on_rq && !self.asleep.contains(&task.id) && !P::throttled(rq, &self.shared, index)
            });
            assert!(rq.running() != Running::Idle || !waits, "CPU {} idles before a waiting task", rq.cpu);
        }
    }

    fn used(&self, group: usize) -> u64 {
        self.usage.get(&self.groups[group]).map_or(0, |usage| usage.total)
    }

    fn stat(&self, group: usize) -> BandwidthStat {
        self.shared.group(self.groups[group]).bandwidth_stat()
    }
}

fn limit(quota: u64, period: u64) -> Limit {
    Limit::new(quota, period, 0).unwrap()
}

/// Runs `$body` with `$bench` made for each kernel.
macro_rules! for_each_kernel {
    ($bench:ident = ($cpus:expr, $parents:expr), $name:ident, $body:block) => {
        for $name in ["6.1", "6.6", "6.12", "6.18"] {
            if kernel($name).unwrap().policy == PolicyKind::Cfs {
                #[allow(unused_mut)]
                let mut $bench = Bench::<Cfs>::new($cpus, $name, $parents);
                $body
            } else {
                #[allow(unused_mut)]
                let mut $bench = Bench::<Eevdf>::new($cpus, $name, $parents);
                $body
            }
        }
    };
}

/// Within `percent` of what is expected.
fn close(used: u64, expected: u64, percent: u64) -> bool {
    used.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn a_group_that_wants_more_gets_its_quota_and_no_more() {
    for_each_kernel!(bench = (2, &[0]), name, {
        bench.limit(1, Some(limit(30 * MS, 100 * MS)));
        for cpu in 0..4 {
            bench.fork(1, cpu);
        }
        bench.fork(0, 0);
        let start = bench.now;
        bench.run_until(start + 2_000 * MS);
        let stat = bench.stat(1);
        // The first period may be a short one; it has a whole quota all the same.
        assert!((19..=20).contains(&stat.nr_periods), "{name}: {stat:?}");
        let (used, quotas) = (bench.used(1), stat.nr_periods * 30 * MS);
        assert!((quotas..=quotas + 30 * MS + bench.overrun()).contains(&used), "{name}: {used} ns, {stat:?}");
        assert!(stat.nr_throttled >= stat.nr_periods - 1, "{name}: {stat:?}");
        assert!(bench.wishes.throttled > 0 && stat.throttled_ns > 0, "{name}: {stat:?}");
    });
}

#[test]
fn a_quota_of_more_than_its_tasks_can_use_changes_nothing() {
    for_each_kernel!(bench = (2, &[0]), name, {
        bench.limit(1, Some(limit(220 * MS, 100 * MS)));
        bench.fork(1, 0);
        bench.fork(1, 1);
        let start = bench.now;
        bench.run_until(start + 1_000 * MS);
        assert_eq!((bench.used(1), bench.wishes.throttled), (2_000 * MS, 0), "{name}");
    });
}

/// The parent's limit binds: two children with more than half of it each share it.
#[test]
fn nested_quotas_add_up() {
    for_each_kernel!(bench = (4, &[0, 1, 1, 1]), name, {
        bench.limit(1, Some(limit(100 * MS, 100 * MS)));
        bench.limit(2, Some(limit(20 * MS, 100 * MS)));
        bench.limit(3, Some(limit(90 * MS, 50 * MS)));
        for cpu in 0..4 {
            bench.fork(2, cpu);
            bench.fork(3, cpu);
            bench.fork(4, cpu);
        }
        let start = bench.now;
        bench.run_until(start + 3_000 * MS);
        let used = [1, 2, 3, 4].map(|group| bench.used(group));
        assert!(close(used[0], 3_000 * MS, 5), "{name}: {used:?}");
        assert_eq!(used[1] + used[2] + used[3], used[0], "{name}");
        // The first child has more than its quota allows only by what it may overrun.
        assert!(used[1] <= 600 * MS + bench.overrun(), "{name}: {used:?}");
        assert!(used[2] > used[1] && used[3] > used[1], "{name}: {used:?}");
    });
}

/// 6.1 counts a CPU's throttled time from when its queue was taken off; all do when a task waits there.
#[test]
fn throttled_time_is_that_of_the_cpus_that_wait() {
    for_each_kernel!(bench = (1, &[0]), name, {
        bench.limit(1, Some(limit(25 * MS, 100 * MS)));
        bench.fork(1, 0);
        let start = bench.now;
        bench.run_until(start + 1_050 * MS);
        let stat = bench.stat(1);
        // Throttled at the tick after 25 ms, let go at the next period.
        let (used, throttled) = (bench.used(1), stat.throttled_ns);
        assert!(close(used + throttled, 1_000 * MS, 10), "{name}: used {used}, throttled {throttled}");
    });
}

#[test]
fn a_limit_that_is_taken_away_lets_go_at_once() {
    for_each_kernel!(bench = (1, &[0, 1]), name, {
        bench.limit(1, Some(limit(MS, 1_000 * MS)));
        bench.fork(2, 0);
        let start = bench.now;
        bench.run_until(start + 500 * MS);
        assert!(bench.used(1) <= MS + bench.overrun(), "{name}");
        assert_eq!(bench.rqs[0].running(), Running::Idle, "{name}");
        bench.limit(1, None);
        assert!(bench.rqs[0].running() != Running::Idle, "{name}");
        let before = bench.used(1);
        bench.run_until(start + 900 * MS);
        assert_eq!(bench.used(1) - before, 400 * MS, "{name}");
    });
}

#[test]
fn what_was_saved_is_used_in_a_burst() {
    for_each_kernel!(bench = (1, &[0]), name, {
        bench.limit(1, Some(Limit::new(20 * MS, 100 * MS, 20 * MS).unwrap()));
        let task = bench.fork(1, 0);
        bench.toggle(task);
        // Short work, so that the timer runs and saves up.
        let start = bench.now;
        for step in 1..=10 {
            bench.toggle(task);
            bench.run_until(start + step * 50 * MS - 49 * MS);
            bench.toggle(task);
            bench.run_until(start + step * 50 * MS);
        }
        let before = bench.used(1);
        bench.toggle(task);
        bench.run_until(start + 950 * MS);
        let used = bench.used(1) - before;
        // 450 ms: four or five periods of 20 ms and once 20 ms more.
        assert!((100 * MS..=130 * MS).contains(&used), "{name}: {used}");
        let stat = bench.stat(1);
        assert!(stat.nr_bursts >= 1 && stat.burst_ns >= 10 * MS, "{name}: {stat:?}");
    });
}

#[derive(Clone, Debug)]
enum Step {
    Fork { group: u8, cpu: u8 },
    Toggle { task: u8 },
    Limit { group: u8, quota: u64, period: u64, burst: u8 },
    NoLimit { group: u8 },
    Move { task: u8, group: u8 },
    Affinity { task: u8, cpus: u8 },
    Hotplug { cpu: u8 },
    Pass { us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<u8>(), any::<u8>()).prop_map(|(group, cpu)| Step::Fork { group, cpu }),
        4 => any::<u8>().prop_map(|task| Step::Toggle { task }),
        2 => (any::<u8>(), MS..40 * MS, MS..60 * MS, any::<u8>())
            .prop_map(|(group, quota, period, burst)| Step::Limit { group, quota, period, burst }),
        1 => any::<u8>().prop_map(|group| Step::NoLimit { group }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, group)| Step::Move { task, group }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, cpus)| Step::Affinity { task, cpus }),
        1 => any::<u8>().prop_map(|cpu| Step::Hotplug { cpu }),
        6 => (1u64..40_000).prop_map(|us| Step::Pass { us }),
    ]
}

fn random<P: Policy<Tunables = Knobs>>(cpus: u32, name: &str, parents: &[usize], steps: &[Step]) {
    let mut bench = Bench::<P>::new(cpus, name, parents);
    for step in steps {
        let tasks: Vec<TaskId> = bench.group_of.keys().copied().collect();
        let task = |byte: u8| (!tasks.is_empty()).then(|| tasks[byte as usize % tasks.len()]);
        match *step {
            Step::Fork { group, cpu } if tasks.len() < 30 => {
                bench.fork(group as usize, u32::from(cpu));
            }
            Step::Fork { .. } => {}
            Step::Toggle { task: byte } => {
                if let Some(task) = task(byte) {
                    bench.toggle(task);
                }
            }
            Step::Limit { group, quota, period, burst } => {
                let limit = Limit::new(quota, period, quota * u64::from(burst) / 255).unwrap();
                bench.limit(group as usize, Some(limit));
            }
            Step::NoLimit { group } => bench.limit(group as usize, None),
            Step::Move { task: byte, group } => {
                if let Some(task) = task(byte) {
                    let group = bench.groups[group as usize % bench.groups.len()];
                    bench.with(|s| s.move_group(task, group)).unwrap();
                    bench.group_of.insert(task, group);
                    bench.obey();
                }
            }
            Step::Affinity { task: byte, cpus: bits } => {
                let mask: CpuMask = (0..cpus).filter(|cpu| bits >> cpu & 1 != 0).map(CpuId).collect();
                if let Some(task) = task(byte).filter(|_| !mask.is_empty()) {
                    let possible = mask.intersects(&bench.shared.online());
                    let done = bench.with(|s| s.set_affinity(task, Some(mask.into())));
                    assert_eq!(done.is_ok(), possible, "{done:?}");
                    bench.obey();
                }
            }
            Step::Hotplug { cpu } => bench.hotplug(CpuId(u32::from(cpu) % cpus)),
            Step::Pass { us } => {
                let end = bench.now + us * US;
                bench.run_until(end);
            }
        }
        bench.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_group_uses_more_than_its_limit(
        cpus in 1u32..5,
        name in prop::sample::select(vec!["3.10", "3.18", "6.1", "6.6", "6.12", "6.18"]),
        parents in prop::collection::vec(0usize..6, 1..6),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        if kernel(name).unwrap().policy == PolicyKind::Cfs {
            random::<Cfs>(cpus, name, &parents, &steps);
        } else {
            random::<Eevdf>(cpus, name, &parents, &steps);
        }
    }
}
