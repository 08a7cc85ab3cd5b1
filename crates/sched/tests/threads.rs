//! A threaded host with one lock and thread per CPU, and every verb at once. No task is lost or duplicated, and
//! invariants hold whenever a lock is free.

mod generator;
#[path = "../../../tests/seed.rs"]
mod seed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use generator::Generator;
use seed::any_seed;
use vruntime_sched::class::ClassKind;
use vruntime_sched::class::cfs_2007::Cfs2007;
use vruntime_sched::class::deadline::{DlAttrs, SchedError};
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::class::o1::O1;
use vruntime_sched::class::rt::{RtLimit, RtLimitError};
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::task::{Task, TaskState};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    Boost, CpuMask, CpuPlace, CpusetError, GroupError, GroupWeight, Host, HotplugError, Kernel, Limit, Partition,
    Policy, Rq, Rqs, SchedAttr, SchedPolicy, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker, invariants, kernel,
};

const CPUS: usize = 4;
const CALLS: u32 = 100_000;
/// The most live tasks: few enough for idle CPUs, many enough to crowd.
const TASKS: usize = 24;

const POLICIES: [SchedPolicy; 6] = [
    SchedPolicy::Normal,
    SchedPolicy::Batch,
    SchedPolicy::Idle,
    SchedPolicy::Fifo,
    SchedPolicy::RoundRobin,
    SchedPolicy::Deadline,
];

struct Locks<'l, P: Policy>(&'l [Mutex<Rq<P>>]);

impl<P: Policy> Rqs<P> for Locks<'_, P> {
    type Guard<'a>
        = MutexGuard<'a, Rq<P>>
    where
        Self: 'a;

    fn rq(&mut self, cpu: CpuId) -> MutexGuard<'_, Rq<P>> {
        self.0[cpu.index()].lock().unwrap()
    }

    /// In the order of the CPUs, so that threads cannot deadlock.
    fn pair(&mut self, a: CpuId, b: CpuId) -> (MutexGuard<'_, Rq<P>>, MutexGuard<'_, Rq<P>>) {
        assert_ne!(a, b);
        if a < b {
            let first = self.0[a.index()].lock().unwrap();
            (first, self.0[b.index()].lock().unwrap())
        } else {
            let first = self.0[b.index()].lock().unwrap();
            (self.0[a.index()].lock().unwrap(), first)
        }
    }
}

/// Requests to a CPU, from any thread.
#[derive(Default)]
struct Mailbox {
    resched: AtomicBool,
    kick: AtomicBool,
}

struct World<P: Policy> {
    rqs: Vec<Mutex<Rq<P>>>,
    shared: Shared<P>,
    mail: Vec<Mailbox>,
    clock: AtomicU64,
    alive: Mutex<Vec<TaskId>>,
    groups: Vec<GroupId>,
    pulls: AtomicU64,
    /// When each timer expires.
    timers: Mutex<BTreeMap<Timer, u64>>,
    throttled: AtomicU64,
    /// Number of hotplug operations.
    plugged: AtomicU64,
    /// The number of times with several root domains.
    partitioned: AtomicU64,
    execs: AtomicU64,
    /// Number of groups' real-time limits, and of throttlings by them.
    rt_limits: AtomicU64,
    rt_throttled: AtomicU64,
}

struct Wires<'w, P: Policy>(&'w World<P>);

impl<P: Policy> Host for Wires<'_, P> {
    fn resched(&mut self, cpu: CpuId) {
        self.0.mail[cpu.index()].resched.store(true, Ordering::SeqCst);
    }
    fn kick_nohz(&mut self, cpu: CpuId) {
        self.0.mail[cpu.index()].kick.store(true, Ordering::SeqCst);
    }
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        let mut timers = self.0.timers.lock().unwrap();
        match at {
            Some(at) => timers.insert(timer, at),
            None => timers.remove(&timer),
        };
    }
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        let count = match event {
            Event::Migrate { cause: MigrateCause::Exec, .. } => &self.0.execs,
            Event::Migrate { .. } => &self.0.pulls,
            Event::RtThrottle { group } if *group != GroupId::ROOT => &self.0.rt_throttled,
            Event::Throttle { .. } => &self.0.throttled,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl<P: Policy<Tunables = Knobs>> World<P> {
    fn new(mut kernel: Kernel) -> Self {
        let place = |cpu: u32| CpuPlace {
            core: cpu,
            cluster: cpu,
            llc: cpu / 2,
            package: cpu / 2,
            node: 0,
            capacity: if cpu == 3 { 700 } else { 1024 },
        };
        let topology = Topology::new((0..CPUS as u32).map(place).collect(), None).unwrap();
        kernel.set("sched_rt_period_us", 50_000).unwrap();
        kernel.set("sched_rt_runtime_us", 30_000).unwrap();
        let config = Config::new(&kernel, &topology, 250);
        let shared = Shared::new(topology, config);
        let mut world = Self {
            rqs: Rq::all(&shared).into_iter().map(Mutex::new).collect(),
            shared,
            mail: (0..CPUS).map(|_| Mailbox::default()).collect(),
            clock: AtomicU64::new(1_000_000),
            alive: Mutex::default(),
            groups: vec![GroupId::ROOT],
            pulls: AtomicU64::new(0),
            timers: Mutex::default(),
            throttled: AtomicU64::new(0),
            plugged: AtomicU64::new(0),
            partitioned: AtomicU64::new(0),
            execs: AtomicU64::new(0),
            rt_limits: AtomicU64::new(0),
            rt_throttled: AtomicU64::new(0),
        };
        for (parent, weight) in [(0, GroupWeight::Weight(100)), (1, GroupWeight::Weight(300)), (1, GroupWeight::Idle)] {
            let group = world.with(|s| s.new_group(world.groups[parent], weight));
            world.groups.push(group);
        }
        world
    }

    fn with<T>(&self, call: impl FnOnce(&mut Scheduler<'_, P, Locks<'_, P>, Wires<'_, P>>) -> T) -> T {
        let now = self.clock.load(Ordering::Relaxed);
        let (rqs, host) = (&mut Locks(&self.rqs), &mut Wires(self));
        call(&mut Scheduler { rqs, shared: &self.shared, host, now })
    }

    fn check(&self, cpu: CpuId) {
        invariants::check(&self.rqs[cpu.index()].lock().unwrap(), &self.shared).unwrap();
    }
}

/// A CPU, for which only its own thread calls.
struct Cpu<'w, P: Policy> {
    world: &'w World<P>,
    id: CpuId,
    random: Generator,
    /// The running task, written by its own thread only.
    running: Running,
    /// Whether cpusets change. They may leave groups one CPU, where real-time tasks hide limits.
    partitions: bool,
}

impl<P: Policy<Tunables = Knobs>> Cpu<'_, P> {
    fn some_task(&mut self) -> Option<TaskId> {
        let alive = self.world.alive.lock().unwrap();
        (!alive.is_empty()).then(|| alive[self.random.below(alive.len() as u64) as usize])
    }

    fn some_mask(&mut self) -> Option<Arc<CpuMask>> {
        if self.random.below(2) == 0 {
            return None;
        }
        let bits = self.random.below(15) + 1;
        Some(Arc::new((0..CPUS as u32).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect()))
    }

    fn schedule(&mut self, mut state: PrevState) {
        loop {
            let (cpu, before) = (self.id, self.running);
            let next = self.world.with(|s| s.schedule(cpu, state));
            assert_eq!(next.prev, before, "only this thread changes the task of CPU {cpu}");
            self.running = next.next;
            if next.next == Running::Idle {
                self.world.with(|s| s.tick_stopped(cpu));
            }
            if next.next != Running::Stopper {
                return;
            }
            self.world.with(|s| s.stopper_work(cpu));
            state = PrevState::Sleeping;
        }
    }

    fn fire_timers(&mut self) {
        let now = self.world.clock.load(Ordering::Relaxed);
        let due = {
            let mut timers = self.world.timers.lock().unwrap();
            // A CPU's own timers expire on it, others anywhere.
            let here = |timer: &Timer| timer.cpu().is_none_or(|cpu| cpu == self.id);
            let due = timers.iter().find(|(timer, at)| **at <= now && here(timer)).map(|(timer, _)| *timer);
            due.inspect(|timer| {
                timers.remove(timer);
            })
        };
        if let Some(timer) = due {
            self.world.with(|s| s.timer(timer, self.id));
        }
    }

    fn read_mail(&mut self) {
        let mail = &self.world.mail[self.id.index()];
        let returns = self.world.rqs[self.id.index()].lock().unwrap().notify_resume();
        if returns && !mail.resched.load(Ordering::SeqCst) {
            self.world.with(|s| s.return_to_user(self.id));
        }
        if mail.resched.swap(false, Ordering::SeqCst) {
            self.schedule(PrevState::Preempted);
        }
        if mail.kick.swap(false, Ordering::SeqCst) {
            while self.world.with(|s| s.nohz_balance(self.id)) {}
        }
    }

    fn step(&mut self) {
        let (world, cpu) = (self.world, self.id);
        if !world.shared.is_online(cpu) && self.running == Running::Idle {
            // Only requests from before it went offline.
            self.read_mail();
            return;
        }
        world.clock.fetch_add(self.random.below(400_000), Ordering::Relaxed);
        self.fire_timers();
        match self.random.below(45) {
            0..4 => {
                let mut alive = world.alive.lock().unwrap();
                if alive.len() >= TASKS {
                    return;
                }
                let attrs = TaskAttrs {
                    policy: POLICIES[self.random.below(5) as usize],
                    nice: self.random.below(40) as i8 - 20,
                    slice: (self.random.below(4) == 0).then_some(300_000),
                    group: world.groups[self.random.below(world.groups.len() as u64) as usize],
                    rt_priority: self.random.below(4) as u8 + 1,
                    affinity: None,
                };
                let task = world.with(|s| s.new_task(&attrs, cpu));
                alive.push(task);
                drop(alive);
                // Others may change or try to wake it, but not run it before this.
                world.with(|s| s.wake_new(task, cpu));
            }
            4..14 => {
                if let Some(task) = self.some_task() {
                    let sync = self.random.below(4) == 0;
                    world.with(|s| s.wake(task, cpu, if sync { Waker::TaskSync } else { Waker::Task }));
                }
            }
            14..24 => {
                if self.running.task().is_some() {
                    self.schedule(PrevState::Sleeping);
                }
            }
            24 => {
                if let Some(task) = self.running.task() {
                    world.alive.lock().unwrap().retain(|&other| other != task);
                    self.schedule(PrevState::Dead);
                }
            }
            25 => {
                if self.running.task().is_some() {
                    world.with(|s| s.yield_task(cpu));
                    self.schedule(PrevState::Yielded);
                }
            }
            26..33 => {
                if world.with(|s| s.tick(cpu)) {
                    world.with(|s| s.balance(cpu));
                }
            }
            33 if cpu == CpuId(0) => {
                // One at a time, by a CPU that stays.
                let other = CpuId(self.random.below(CPUS as u64 - 1) as u32 + 1);
                let plugged = world.with(|s| match s.cpu_down(other) {
                    Err(HotplugError::Offline(_)) => s.cpu_up(other),
                    done => done,
                });
                // Deadline tasks may need it.
                let refused = matches!(plugged, Err(HotplugError::Deadline { .. }));
                assert!(refused || plugged == Ok(()), "CPU 0 stays, so any other can go: {plugged:?}");
                world.plugged.fetch_add(1, Ordering::Relaxed);
            }
            34 if cpu == CpuId(0) && self.partitions => {
                // The thread of hotplug also writes cpusets, one at a time.
                let group = world.groups[self.random.below(3) as usize + 1];
                let mask = self.some_mask();
                let (_, partition) = Partition::ALL[self.random.below(3) as usize];
                let done = world.with(|s| match self.random.below(2) {
                    0 => s.set_group_partition(group, partition),
                    _ => s.set_group_cpus(group, mask.as_deref()),
                });
                let fine = matches!(done, Ok(()) | Err(CpusetError::Deadline { .. } | CpusetError::Populated));
                assert!(fine, "{done:?}");
                world.partitioned.fetch_add(u64::from(world.shared.root_domains().0.len() > 1), Ordering::Relaxed);
            }
            33 => {
                let weight = self.random.below(10_000) as u32 + 1;
                let group = world.groups[self.random.below(3) as usize + 1];
                if self.random.below(3) == 0 {
                    world.with(|s| s.set_group_idle(group, weight.is_multiple_of(2))).unwrap();
                } else {
                    // Another thread may just have made it idle.
                    let set = world.with(|s| s.set_group_weight(group, weight));
                    assert!(matches!(set, Ok(()) | Err(GroupError::Idle)), "{set:?}");
                }
            }
            34 => {
                let quota = 1_000_000 + self.random.below(10_000_000);
                let limit = Limit::new(quota, 1_000_000 + self.random.below(20_000_000), self.random.below(quota));
                let limit = (self.random.below(4) > 0).then(|| limit.unwrap());
                let group = world.groups[self.random.below(3) as usize + 1];
                world.with(|s| s.set_group_bandwidth(group, limit)).unwrap();
            }
            41 => {
                if self.running.task().is_some() && world.with(|s| s.exec(cpu)) {
                    self.schedule(PrevState::Preempted);
                }
            }
            42 => {
                let (min, max) = (self.random.below(513) as u32, 512 + self.random.below(513) as u32);
                if let Some(task) = self.some_task() {
                    world.with(|s| s.set_uclamp(task, Some(min), Some(max))).unwrap();
                }
            }
            43 => {
                let (min, max) = (self.random.below(1025) as u32, self.random.below(1025) as u32);
                let group = world.groups[self.random.below(3) as usize + 1];
                world.with(|s| s.set_group_uclamp(group, min, max)).unwrap();
            }
            44 if cpu == CpuId(0) => {
                // One at a time, since limits of groups depend on each other.
                let runtime = Some(self.random.below(4_000_000));
                let limit = RtLimit { runtime, period: 10_000_000 + self.random.below(30_000_000) };
                let group = world.groups[self.random.below(3) as usize + 1];
                let done = world.with(|s| s.set_group_rt(group, limit));
                // Too little for tasks, or more than the parents have, is refused.
                let off = matches!(done, Err(RtLimitError::Off));
                assert_eq!(off, !world.shared.config.rt_group_sched);
                assert!(off || matches!(done, Ok(()) | Err(RtLimitError::Sum { .. } | RtLimitError::Busy)), "{done:?}");
                world.rt_limits.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
            }
            kind => {
                let Some(task) = self.some_task() else { return };
                let number = self.random.below(40);
                let group = world.groups[number as usize % world.groups.len()];
                let mask = self.some_mask();
                world.with(|s| match kind {
                    35 => s.set_boost(task, (number < 10).then_some(Boost::Rt(number as u8 + 1))),
                    36 => s.set_nice(task, number as i8 - 20),
                    37 => {
                        let deadline = DlAttrs::new(200_000 + 10_000 * number, 4_000_000);
                        let policy = POLICIES[number as usize % POLICIES.len()];
                        let set = s.set_scheduler(task, SchedAttr { policy, deadline, ..SchedAttr::default() });
                        // Or the group may have no real-time tasks.
                        let no_runtime = matches!(set, Err(SchedError::NoRtRuntime { .. })) && policy.is_rt();
                        assert!(set.is_ok() || policy == SchedPolicy::Deadline || no_runtime, "{set:?}");
                    }
                    // Or partitions have all CPUs of the group.
                    38 => drop(s.move_group(task, group)),
                    // A deadline task's may be refused.
                    _ => drop(s.set_affinity(task, mask, cpu)),
                });
            }
        }
        self.read_mail();
    }
}

fn drive<P: Policy<Tunables = Knobs>>(name: &str, seed: u64) {
    drive_under::<P>(kernel(name).unwrap(), seed);
}

fn drive_under<P: Policy<Tunables = Knobs>>(kernel: Kernel, seed: u64) {
    let seed = any_seed().wrapping_mul(10_000).wrapping_add(seed);
    let (name, rt_groups) = (kernel.name, kernel.rt_group_sched);
    let world = World::<P>::new(kernel);
    std::thread::scope(|threads| {
        for cpu in (0..CPUS as u32).map(CpuId) {
            let world = &world;
            threads.spawn(move || {
                let random = Generator::new(seed.wrapping_add(u64::from(cpu.0)));
                let mut cpu = Cpu { world, id: cpu, random, running: Running::Idle, partitions: false };
                for call in 0..CALLS {
                    cpu.partitions = call >= CALLS / 4 * 3;
                    cpu.step();
                    if call % 16 == 0 {
                        world.check(cpu.id);
                    }
                }
            });
        }
    });

    let throttled = world.throttled.load(Ordering::Relaxed);
    if name.starts_with("2.6.") {
        assert_eq!(throttled, 0, "there were no groups to have limits");
    } else {
        assert!(throttled > 100, "groups run into their limits: {throttled} times");
    }
    // Tasks that wait for run time may run now.
    for &group in &world.groups {
        let set = world.with(|s| s.set_group_bandwidth(group, None));
        assert_eq!(set.is_ok(), group != GroupId::ROOT);
    }
    // Requests after a CPU's last step remain, and handling one may cause others.
    for round in 0.. {
        assert!(round < 1000, "reschedules without end");
        for cpu in (0..CPUS as u32).map(CpuId) {
            let running = world.with(|s| s.running(cpu));
            Cpu { world: &world, id: cpu, random: Generator::new(0), running, partitions: false }.read_mail();
        }
        if world.mail.iter().all(|mail| !mail.resched.load(Ordering::SeqCst)) {
            break;
        }
    }

    let mut found = Vec::new();
    for cpu in (0..CPUS as u32).map(CpuId) {
        world.check(cpu);
        let rq = world.rqs[cpu.index()].lock().unwrap();
        found.extend(rq.tasks.iter().map(|(_, task)| task.id));
        // A throttled deadline task waits for its replenishment.
        let may_run = |index: u32, task: &Task<P>| match task.kind() {
            ClassKind::Rt => !rq.rt.is_throttled(index),
            ClassKind::Deadline => !task.deadline().is_some_and(|se| se.throttled),
            ClassKind::Fair => true,
        };
        let waits = rq
            .tasks
            .iter()
            .any(|(index, task)| task.on_rq && task.state == TaskState::Runnable && may_run(index, task));
        assert!(rq.running() != Running::Idle || !waits, "CPU {cpu} idles before a waiting task");
        assert_eq!(
            rq.need_resched(),
            world.has_reschedule(cpu),
            "CPU {cpu}: a reschedule was asked for and not passed on"
        );
        let runnable = |task: &Task<P>| task.on_rq && task.state == TaskState::Runnable;
        assert!(rq.is_online() || rq.nr_running == 0, "CPU {cpu} is offline, and has tasks");
        for (_, task) in rq.tasks.iter().filter(|(_, task)| runnable(task)) {
            assert!(task.allowed(cpu), "task {} is left on CPU {cpu}, where it may not run", task.id);
        }
    }
    let mut alive = world.alive.into_inner().unwrap();
    alive.sort();
    found.sort();
    assert_eq!(found, alive, "every task is on exactly one run queue, and nowhere else");
    assert!(world.pulls.load(Ordering::Relaxed) > 100, "the test moves tasks about");
    assert!(world.plugged.load(Ordering::Relaxed) > 20, "CPUs come and go");
    assert!(world.partitioned.load(Ordering::Relaxed) > 20, "root domains come and go");
    assert!(world.execs.load(Ordering::Relaxed) > 20, "tasks move as they call exec");
    let rt = [&world.rt_limits, &world.rt_throttled].map(|count| count.load(Ordering::Relaxed));
    assert!(
        rt.iter().all(|&times| if rt_groups { times > 20 } else { times == 0 }),
        "groups' real-time limits: {rt:?}"
    );
}

impl<P: Policy> World<P> {
    fn has_reschedule(&self, cpu: CpuId) -> bool {
        self.mail[cpu.index()].resched.load(Ordering::SeqCst)
    }
}

#[test]
fn nothing_is_lost_under_eevdf() {
    for seed in 0..4 {
        drive::<Eevdf>("6.12", 100 * seed);
    }
}

#[test]
fn nothing_is_lost_where_tasks_are_throttled_one_by_one() {
    for seed in 0..2 {
        drive::<Eevdf>("6.18", 100 * seed);
    }
}

#[test]
fn nothing_is_lost_under_cfs() {
    for seed in 0..4 {
        drive::<Cfs>("6.1", 100 * seed);
    }
}

#[test]
fn nothing_is_lost_under_the_kernels_before_groups() {
    for seed in 0..2 {
        drive::<O1>("2.6.15", 100 * seed);
        drive::<O1>("2.6.22", 100 * seed);
        drive::<Cfs2007>("2.6.23", 100 * seed);
    }
}

#[test]
fn nothing_is_lost_where_groups_have_real_time_limits() {
    for seed in 0..2 {
        for name in ["6.1", "6.12"] {
            let mut kernel = kernel(name).unwrap();
            kernel.rt_group_sched = true;
            if name == "6.1" {
                drive_under::<Cfs>(kernel, 100 * seed);
            } else {
                drive_under::<Eevdf>(kernel, 100 * seed);
            }
        }
    }
}

/// Compiling is the test.
#[test]
fn state_may_be_shared_between_threads() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Rq<Eevdf>>();
    send::<Rq<Cfs>>();
    sync::<Shared<Eevdf>>();
    sync::<Shared<Cfs>>();
    send::<Shared<Eevdf>>();
}

/// A loop over all groups finds a group behind every id while others are created.
#[test]
fn groups_are_made_while_others_go_through_them() {
    let world = World::<Eevdf>::new(kernel("6.12").unwrap());
    let made = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..20_000 {
                    world.with(|s| s.new_group(GroupId::ROOT, GroupWeight::Weight(100)));
                }
                made.fetch_add(1, Ordering::Relaxed);
            });
        }
        threads.spawn(|| {
            while made.load(Ordering::Relaxed) < 2 {
                world.with(|s| s.set_group_uclamp(world.groups[1], 0, 512)).unwrap();
            }
        });
    });
    assert_eq!(world.shared.nr_groups(), 4 + 2 * 20_000);
}
