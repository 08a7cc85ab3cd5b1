//! Random calls from a host that knows nothing but the rules: the invariants hold after every one, under every kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use vruntime_sched::class::ClassKind;
use vruntime_sched::class::cfs_2007::Cfs2007;
use vruntime_sched::class::deadline::{DlAttrs, Donor, SchedError};
use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::class::o1::O1;
use vruntime_sched::class::rt::RtLimit;
use vruntime_sched::event::{Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::shared::Config;
use vruntime_sched::task::{Task, TaskState};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    Boost, CpuMask, CpuPlace, CpusetError, Host, HotplugError, Kernel, Limit, Partition, Policy, PolicyKind, Rq,
    SchedAttr, SchedPolicy, Scheduler, Shared, TaskAttrs, Timer, Topology, invariants, kernel,
};

/// A host that does at once what it is asked to do.
#[derive(Default)]
struct Wishes {
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
    timers: BTreeMap<Timer, u64>,
    /// Who was moved by whom, since it was looked at last.
    moves: Vec<(MigrateCause, CpuId, CpuId)>,
    /// Where tasks may run, if that was told.
    told: BTreeMap<TaskId, Option<CpuMask>>,
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
        if let Event::Migrate { from, to, cause, .. } = *event {
            self.moves.push((cause, from, to));
        }
    }
    fn affinity(&mut self, _at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.told.insert(task, cpus.cloned());
    }
}

#[derive(Clone, Debug)]
enum Call {
    Fork { cpu: u8, nice: i8, policy: u8, group: u8, cpus: u8 },
    Wake { task: u8, cpu: u8, sync: bool },
    Block { cpu: u8 },
    Exit { cpu: u8 },
    Yield { cpu: u8 },
    Exec { cpu: u8 },
    Tick { cpu: u8 },
    Nice { task: u8, nice: i8 },
    Group { task: u8, group: u8 },
    Weight { group: u8, weight: u16 },
    IdleGroup { group: u8, idle: bool },
    Affinity { task: u8, cpus: u8 },
    Policy { task: u8, policy: u8, priority: u8 },
    Boost { task: u8, priority: Option<u8> },
    Limit { group: u8, quota_us: u32, period_us: u32, burst: u8 },
    NoLimit { group: u8 },
    Clamp { task: u8, min: Option<u32>, max: Option<u32> },
    GroupClamp { group: u8, min: u32, max: u32 },
    RtLimit { group: u8, runtime_us: u32, period_us: u32 },
    User { cpu: u8 },
    Hotplug { cpu: u8, online: bool },
    Cpus { group: u8, cpus: u8 },
    Partition { group: u8, kind: u8 },
    Pass { us: u32 },
}

fn call() -> impl Strategy<Value = Call> {
    use Call::{Affinity, Block, Exec, Exit, Fork, Group, Limit, Nice, NoLimit, Pass, Tick, User, Wake, Weight, Yield};
    prop_oneof![
        3 => (any::<u8>(), -20i8..20, any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(cpu, nice, policy, group, cpus)| Fork { cpu, nice, policy, group, cpus }),
        8 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(task, cpu, sync)| Wake { task, cpu, sync }),
        7 => any::<u8>().prop_map(|cpu| Block { cpu }),
        1 => any::<u8>().prop_map(|cpu| Exit { cpu }),
        1 => any::<u8>().prop_map(|cpu| Yield { cpu }),
        1 => any::<u8>().prop_map(|cpu| Exec { cpu }),
        8 => any::<u8>().prop_map(|cpu| Tick { cpu }),
        1 => (any::<u8>(), -20i8..20).prop_map(|(task, nice)| Nice { task, nice }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, group)| Group { task, group }),
        1 => (any::<u8>(), 1u16..10_000).prop_map(|(group, weight)| Weight { group, weight }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(group, idle)| Call::IdleGroup { group, idle }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(task, cpus)| Affinity { task, cpus }),
        2 => (any::<u8>(), any::<u8>(), 1u8..6)
            .prop_map(|(task, policy, priority)| Call::Policy { task, policy, priority }),
        1 => (any::<u8>(), prop::option::of(1u8..8)).prop_map(|(task, priority)| Call::Boost { task, priority }),
        2 => (any::<u8>(), 1000u32..12_000, 1000u32..30_000, any::<u8>())
            .prop_map(|(group, quota_us, period_us, burst)| Limit { group, quota_us, period_us, burst }),
        1 => any::<u8>().prop_map(|group| NoLimit { group }),
        1 => (any::<u8>(), prop::option::of(0u32..1030), prop::option::of(0u32..1030))
            .prop_map(|(task, min, max)| Call::Clamp { task, min, max }),
        1 => (any::<u8>(), 0u32..1030, 0u32..1030).prop_map(|(group, min, max)| Call::GroupClamp { group, min, max }),
        2 => (any::<u8>(), 0u32..8_000, 1_000u32..40_000)
            .prop_map(|(group, runtime_us, period_us)| Call::RtLimit { group, runtime_us, period_us }),
        6 => any::<u8>().prop_map(|cpu| User { cpu }),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(cpu, online)| Call::Hotplug { cpu, online }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(group, cpus)| Call::Cpus { group, cpus }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(group, kind)| Call::Partition { group, kind }),
        12 => (1u32..6000).prop_map(|us| Pass { us }),
    ]
}

fn policy_of(byte: u8) -> SchedPolicy {
    match byte % 8 {
        0 => SchedPolicy::Idle,
        1 => SchedPolicy::Batch,
        2 => SchedPolicy::Fifo,
        3 => SchedPolicy::RoundRobin,
        4 => SchedPolicy::Deadline,
        _ => SchedPolicy::Normal,
    }
}

fn mask_of(byte: u8, nr_cpus: usize) -> Option<Arc<CpuMask>> {
    if byte < 160 {
        return None;
    }
    let mut mask: CpuMask =
        (0..nr_cpus as u32).filter(|cpu| ((u32::from(byte) * 37) >> (cpu % 5)) & 1 == 1).map(CpuId).collect();
    if mask.is_empty() {
        mask.insert(CpuId(0));
    }
    Some(Arc::new(mask))
}

struct Bench<P: Policy> {
    rqs: Vec<Rq<P>>,
    shared: Shared<P>,
    wishes: Wishes,
    now: u64,
    tasks: Vec<TaskId>,
    /// Tasks that have gone to sleep and have not been woken.
    asleep: BTreeSet<TaskId>,
    groups: Vec<GroupId>,
    /// There have been deadline tasks.
    promised: bool,
}

impl<P: Policy<Tunables = Knobs>> Bench<P> {
    fn new(topology: Topology, name: &str, isolated: u8) -> Self {
        Self::under(topology, kernel(name).unwrap(), isolated)
    }

    fn under(topology: Topology, mut kernel: Kernel, isolated: u8) -> Self {
        // Short enough for real-time tasks to be throttled often.
        kernel.set("sched_rt_period_us", 20_000).unwrap();
        kernel.set("sched_rt_runtime_us", 12_000).unwrap();
        let mut config = Config::new(&kernel, &topology, 250);
        // Never the first.
        config.isolated =
            (1..topology.nr_cpus() as u32).filter(|cpu| isolated >> (cpu % 8) & 1 == 1).map(CpuId).collect();
        let shared = Shared::new(topology, config);
        let mut bench = Self {
            rqs: Rq::all(&shared),
            shared,
            wishes: Wishes::default(),
            now: 1_000_000,
            tasks: vec![],
            asleep: BTreeSet::new(),
            groups: vec![GroupId::ROOT],
            promised: false,
        };
        for (parent, weight, idle) in [(0, 100, false), (1, 300, false), (1, 50, true), (2, 1000, false), (0, 1, false)]
        {
            let parent = bench.groups[parent];
            let group = bench.with(|scheduler| scheduler.new_group(parent, weight, idle));
            // Refused where there are no guarantees, and where there is no class.
            let _ = bench.with(|scheduler| scheduler.set_group_guarantee(group, 30));
            bench.groups.push(group);
        }
        bench
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wishes>) -> T) -> T {
        call(&mut Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.wishes, now: self.now })
    }

    /// A CPU on which code can run.
    fn cpu(&self, byte: u8) -> CpuId {
        let online = self.shared.online();
        online.iter().nth(byte as usize % online.count()).unwrap()
    }

    fn task(&self, byte: u8) -> Option<TaskId> {
        (!self.tasks.is_empty()).then(|| self.tasks[byte as usize % self.tasks.len()])
    }

    fn apply(&mut self, call: &Call) {
        match *call {
            Call::Fork { cpu, nice, policy, group, cpus } => {
                if self.tasks.len() >= 60 {
                    return;
                }
                let cpu = self.cpu(cpu);
                let attrs = TaskAttrs {
                    policy: policy_of(policy),
                    nice,
                    slice: (policy > 200).then_some(300_000),
                    group: self.groups[group as usize % self.groups.len()],
                    rt_priority: 1 + policy / 64,
                    affinity: mask_of(cpus, self.rqs.len()),
                };
                let task = self.with(|s| {
                    let task = s.new_task(&attrs, cpu);
                    s.wake_new(task, cpu);
                    task
                });
                self.tasks.push(task);
            }
            Call::Wake { task, cpu, sync } => {
                let cpu = self.cpu(cpu);
                if let Some(task) = self.task(task) {
                    let woken = self.with(|s| s.wake(task, cpu, sync, false));
                    assert_eq!(woken, self.asleep.remove(&task), "task {task} asleep and not woken, or the reverse");
                }
            }
            Call::Block { cpu } => self.give_up(cpu, PrevState::Sleeping),
            Call::Exit { cpu } => self.give_up(cpu, PrevState::Dead),
            Call::Yield { cpu } => {
                let at = self.cpu(cpu);
                if self.rqs[at.index()].running().task().is_some() {
                    self.with(|s| s.yield_task(at));
                    self.give_up(cpu, PrevState::Yielded);
                }
            }
            Call::Exec { cpu } => {
                let at = self.cpu(cpu);
                if self.with(|s| s.exec(at)) {
                    self.give_up(cpu, PrevState::Preempted);
                }
            }
            Call::Tick { cpu } => {
                let cpu = self.cpu(cpu);
                if self.with(|s| s.tick(cpu)) {
                    self.with(|s| s.balance(cpu));
                }
            }
            Call::Clamp { task, min, max } => {
                if let Some(task) = self.task(task) {
                    // What makes no sense is refused.
                    let _ = self.with(|s| s.set_uclamp(task, min, max));
                }
            }
            Call::GroupClamp { group, min, max } => {
                let group = self.groups[group as usize % self.groups.len()];
                let _ = self.with(|s| s.set_group_uclamp(group, min, max));
            }
            Call::Nice { task, nice } => {
                if let Some(task) = self.task(task) {
                    self.with(|s| s.set_nice(task, nice));
                }
            }
            Call::Group { task, group } => {
                let group = self.groups[group as usize % self.groups.len()];
                if let Some(task) = self.task(task) {
                    let done = self.with(|s| s.move_group(task, group));
                    let view = self.shared.cpuset(group);
                    match done {
                        Ok(()) => {}
                        Err(SchedError::NoCpus) => {
                            assert!(view.is_none_or(|view| view.effective.is_empty()));
                        }
                        Err(SchedError::Admission(_)) => {
                            assert!(self.shared.root_domains().0.len() > 1 || self.isolated());
                        }
                        Err(SchedError::NoRtRuntime { .. }) => assert!(self.shared.config.rt_group_sched),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            Call::Weight { group, weight } => {
                let group = self.groups[group as usize % self.groups.len()];
                self.with(|s| s.set_group_weight(group, u32::from(weight)));
            }
            Call::IdleGroup { group, idle } => {
                let group = self.groups[group as usize % self.groups.len()];
                self.with(|s| s.set_group_idle(group, idle));
            }
            Call::Affinity { task, cpus } => {
                let mask = mask_of(cpus, self.rqs.len());
                let online = self.shared.online();
                if let Some(task) = self.task(task) {
                    let possible = mask.as_ref().is_none_or(|mask| mask.intersects(&online));
                    let before = self.find(task).affinity.clone();
                    let done = self.with(|s| s.set_affinity(task, mask.clone()));
                    // A deadline task's may be refused for another reason, and that of one whose group has none of these CPUs.
                    assert_eq!(done == Err(SchedError::Offline), !possible);
                    let after = self.find(task).affinity.clone();
                    match done {
                        Ok(()) => {
                            let within = |cpu: CpuId| mask.as_ref().is_none_or(|mask| mask.contains(cpu));
                            assert!(after.is_none_or(|after| after.iter().all(within)), "more than was asked for");
                        }
                        Err(_) => assert_eq!(before, after),
                    }
                }
            }
            Call::Policy { task, policy, priority } => {
                if let Some(task) = self.task(task) {
                    let us = 1000 * u64::from(priority);
                    let deadline = DlAttrs {
                        runtime: 400 * us,
                        deadline: if policy & 16 == 0 { 3000 * us } else { 0 },
                        period: 3000 * us + u64::from(policy / 32) * 1_000_000,
                        reclaim: policy & 8 == 0,
                        overrun_signal: true,
                    };
                    let policy = policy_of(policy);
                    let attr = SchedAttr { policy, rt_priority: priority, deadline, ..SchedAttr::default() };
                    let set = self.with(|s| s.set_scheduler(task, attr));
                    let no_runtime = matches!(set, Err(SchedError::NoRtRuntime { .. }));
                    assert!(
                        set.is_ok() || policy == SchedPolicy::Deadline || (no_runtime && policy.is_rt()),
                        "{set:?}"
                    );
                    self.promised |= policy == SchedPolicy::Deadline;
                }
            }
            Call::Boost { task, priority } => {
                if let Some(task) = self.task(task) {
                    let lend = |priority: u8| match u64::from(priority) {
                        us @ 6.. => Boost::Deadline(Donor {
                            runtime: us * 100_000,
                            deadline: us * 500_000,
                            period: us * 900_000,
                        }),
                        _ => Boost::Rt(priority),
                    };
                    self.with(|s| s.set_boost(task, priority.map(lend)));
                }
            }
            Call::Limit { group, quota_us, period_us, burst } => {
                let quota = u64::from(quota_us) * 1000;
                let limit = Limit::new(quota, u64::from(period_us) * 1000, quota * u64::from(burst) / 255).unwrap();
                let group = self.groups[group as usize % self.groups.len()];
                self.with(|s| s.set_group_bandwidth(group, Some(limit)));
            }
            Call::NoLimit { group } => {
                let group = self.groups[group as usize % self.groups.len()];
                self.with(|s| s.set_group_bandwidth(group, None));
            }
            Call::RtLimit { group, runtime_us, period_us } => {
                let group = self.groups[group as usize % self.groups.len()];
                let (runtime, period) = (Some(u64::from(runtime_us) * 1000), u64::from(period_us) * 1000);
                // Most are more than those above have.
                let _ = self.with(|s| s.set_group_rt(group, RtLimit { runtime, period }));
            }
            Call::User { cpu } => {
                let cpu = self.cpu(cpu);
                if self.rqs[cpu.index()].notify_resume() {
                    self.with(|s| s.return_to_user(cpu));
                }
            }
            Call::Hotplug { cpu, online } => self.hotplug(CpuId(u32::from(cpu) % self.rqs.len() as u32), online),
            Call::Cpus { group, cpus } => {
                let group = self.groups[group as usize % self.groups.len()];
                let nr_cpus = self.rqs.len();
                let beyond: CpuMask = [CpuId(nr_cpus as u32)].into_iter().collect();
                let no_such = CpusetError::NoSuchCpu { cpu: CpuId(nr_cpus as u32), nr_cpus };
                let mask = if cpus < 20 { None } else { mask_of(cpus.max(160), nr_cpus) };
                let before = self.shared.cpuset(group);
                let done = self.with(|s| {
                    let _ = s.set_group_cpus(group, Some(&beyond)).map_err(|error| {
                        assert!(error == no_such || error == CpusetError::Root);
                    });
                    s.set_group_cpus(group, mask.as_deref())
                });
                match done {
                    Ok(()) => assert_eq!(self.shared.cpuset(group).unwrap().cpus.as_ref(), mask.as_deref()),
                    Err(CpusetError::Root) => assert_eq!(group, GroupId::ROOT),
                    Err(CpusetError::Populated | CpusetError::Deadline { .. }) => {
                        assert_eq!(before, self.shared.cpuset(group));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Call::Partition { group, kind } => {
                let group = self.groups[group as usize % self.groups.len()];
                let partition = Partition::ALL[kind as usize % 3].1;
                let done = self.with(|s| s.set_group_partition(group, partition));
                assert_eq!(done.is_err(), group == GroupId::ROOT);
            }
            Call::Pass { us } => self.pass(u64::from(us) * 1000),
        }
        self.obey();
        self.check();
    }

    fn hotplug(&mut self, cpu: CpuId, up: bool) {
        let online = self.shared.online();
        let expected = match (up, online.contains(cpu)) {
            (true, true) => Err(HotplugError::Online(cpu)),
            (false, false) => Err(HotplugError::Offline(cpu)),
            (false, true) if online.count() == 1 => Err(HotplugError::Last(cpu)),
            (false, true)
                if !self.shared.config.isolated.contains(cpu)
                    && online.iter().all(|other| other == cpu || self.shared.config.isolated.contains(other)) =>
            {
                Err(HotplugError::LastHousekeeping(cpu))
            }
            _ => Ok(()),
        };
        let nr_cpus = self.rqs.len();
        // What deadline tasks were promised, even if they are gone since, may not fit on the others: then nothing is changed.
        let promised = self.promised;
        let refused = |done: &Result<(), HotplugError>| promised && matches!(done, Err(HotplugError::Deadline { .. }));
        let beyond = CpuId(nr_cpus as u32);
        let no_such = Err(HotplugError::NoSuchCpu { cpu: beyond, nr_cpus });
        if up {
            assert_eq!(self.with(|s| s.cpu_up(beyond)), no_such);
            assert_eq!(self.with(|s| s.cpu_up(cpu)), expected);
        } else {
            assert_eq!(self.with(|s| s.cpu_down(beyond)), no_such);
            let done = self.with(|s| s.cpu_down(cpu));
            if expected.is_ok() && refused(&done) {
                assert!(self.shared.is_online(cpu));
                return;
            }
            assert_eq!(done, expected);
        }
        if expected.is_ok() && up {
            self.obey();
            if self.rqs[cpu.index()].running() == Running::Idle {
                self.with(|s| s.tick_stopped(cpu));
            }
        }
    }

    /// Time passes, and timers go off when they are due, here on the first CPU.
    fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some((&timer, &at)) =
            self.wishes.timers.iter().min_by_key(|(_, at)| **at).filter(|(_, at)| **at <= end)
        {
            self.now = self.now.max(at);
            self.wishes.timers.remove(&timer);
            let on = timer.cpu().unwrap_or_else(|| self.cpu(0));
            self.with(|s| s.timer(timer, on));
            self.obey();
            self.check();
        }
        self.now = end;
    }

    fn give_up(&mut self, cpu: u8, state: PrevState) {
        let cpu = self.cpu(cpu);
        if let Some(task) = self.rqs[cpu.index()].running().task() {
            let next = self.with(|s| s.schedule(cpu, state));
            if state == PrevState::Sleeping {
                self.asleep.insert(task);
            }
            if state == PrevState::Dead {
                self.tasks.retain(|&other| other != task);
            }
            self.went_idle(cpu, next.next);
        }
    }

    fn went_idle(&mut self, cpu: CpuId, next: Running) {
        match next {
            Running::Idle => self.with(|s| s.tick_stopped(cpu)),
            Running::Stopper => {
                self.with(|s| s.stopper_work(cpu));
                let next = self.with(|s| s.schedule(cpu, PrevState::Sleeping));
                self.went_idle(cpu, next.next);
            }
            Running::Task(_) => {}
        }
    }

    fn obey(&mut self) {
        for _ in 0..1000 {
            if let Some(cpu) = self.wishes.resched.pop() {
                let next = self.with(|s| s.schedule(cpu, PrevState::Preempted));
                self.went_idle(cpu, next.next);
            } else if let Some(cpu) = self.wishes.kicks.pop() {
                self.with(|s| s.nohz_balance(cpu));
            } else {
                return;
            }
        }
        panic!("reschedules without end");
    }

    fn find(&self, task: TaskId) -> &Task<P> {
        let (cpu, index) = self.shared.locate(task).unwrap();
        &self.rqs[cpu.index()].tasks[index]
    }

    fn isolated(&self) -> bool {
        !self.shared.root_domains().1.is_empty()
    }

    /// Root domains, cpusets and where tasks may run: each follows from what was written.
    fn check_cpusets(&mut self) {
        let online = self.shared.online();
        let (mut domains, isolated) = self.shared.root_domains();
        let mut seen = isolated.clone();
        for domain in &domains {
            assert!(!domain.is_empty() && !domain.intersects(&seen), "no CPU is in two root domains");
            domain.iter().for_each(|cpu| seen.insert(cpu));
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), online.iter().collect::<Vec<_>>(), "every CPU is in one");
        // Its scheduling domains are those of a machine that has no other CPUs.
        for cpu in (0..self.rqs.len() as u32).map(CpuId) {
            let sizes: Vec<u32> = self.shared.domains.describe(cpu).iter().map(|(_, size)| *size).collect();
            assert!(sizes.is_sorted() && sizes.iter().all(|&size| size > 1));
            let own = domains.iter().find(|domain| domain.contains(cpu)).map_or(1, CpuMask::count);
            let whole = (own > 1).then_some(own as u32);
            assert_eq!(
                sizes.last().copied(),
                whole,
                "all of a root domain, and none else, are balanced with each other"
            );
        }
        domains.push(isolated.clone());
        for (cause, from, to) in std::mem::take(&mut self.wishes.moves) {
            use MigrateCause::{Active, DlPull, DlPush, NewIdle, NohzIdle, Periodic, RtPull, RtPush};
            let balanced = matches!(cause, Active | NewIdle | NohzIdle | Periodic);
            if balanced || matches!(cause, DlPull | DlPush | RtPull | RtPush) {
                let together = domains.iter().any(|domain| domain.contains(from) && domain.contains(to));
                assert!(together, "{cause:?} from {from} to {to}, which is in another root domain");
            }
            assert!(!balanced || !isolated.contains(from), "{cause:?} from {from}, which is isolated");
        }
        // The CPUs of partitions are theirs alone.
        let view = |group: &GroupId| self.shared.cpuset(*group).map(|view| (*group, view));
        let views: BTreeMap<GroupId, _> = self.groups.iter().filter_map(view).collect();
        let parent = |group: GroupId| self.shared.group(group).parent;
        let is_partition = |group: &GroupId| {
            views.get(group).is_some_and(|view| view.partition != Partition::Member && view.invalid.is_none())
        };
        for (group, view) in &views {
            assert!(view.effective.iter().all(|cpu| online.contains(cpu)));
            if *group == GroupId::ROOT {
                assert!(!view.effective.is_empty(), "the root's tasks have a CPU");
                continue;
            }
            if is_partition(group) {
                assert!(is_partition(&parent(*group)), "a partition is below one");
                for (other, beside) in views.iter().filter(|(other, _)| *other != group) {
                    let below = |mut at: GroupId| {
                        while at != GroupId::ROOT && at != *group {
                            at = parent(at);
                        }
                        at == *group
                    };
                    let shares = beside.effective.intersects(&view.effective);
                    assert!(!shares || (below(*other) && !is_partition(other)), "{group:?} and {other:?}");
                }
            } else {
                let nearest = |mut at: GroupId| loop {
                    at = parent(at);
                    if let Some(view) = views.get(&at) {
                        return &view.effective;
                    }
                };
                let above = nearest(*group);
                assert!(view.effective.iter().all(|cpu| above.contains(cpu)), "a member has what its parent has");
                assert_eq!(view.effective.is_empty(), above.is_empty());
            }
        }
        // Tasks run where their groups may; what was told is what is.
        for rq in &self.rqs {
            for (_, task) in rq.tasks.iter() {
                let (allowed, _) = self.shared.cpus_allowed(task.group, &None);
                if let Some(allowed) = &allowed
                    && task.group != GroupId::ROOT
                    && views.contains_key(&task.group)
                {
                    let mask = task.affinity.as_ref().unwrap();
                    assert!(
                        mask.iter().all(|cpu| allowed.contains(cpu)),
                        "task {} may leave its cpuset: {mask:?} {allowed:?} {views:?} group {:?}",
                        task.id,
                        task.group
                    );
                    assert!(mask.intersects(&online), "task {} may run nowhere", task.id);
                }
                if let Some(told) = self.wishes.told.get(&task.id) {
                    assert_eq!(told.as_ref(), task.affinity.as_deref(), "task {}: where it may run", task.id);
                }
            }
        }
    }

    fn check(&mut self) {
        self.check_cpusets();
        for rq in &self.rqs {
            invariants::check(rq, &self.shared).unwrap();
            if let Running::Task(task) = rq.running() {
                assert!(!self.asleep.contains(&task), "CPU {} runs task {task}, which nobody woke", rq.cpu);
            }
            if !rq.is_online() {
                assert_eq!(rq.running(), Running::Idle, "CPU {} is offline, and runs something", rq.cpu);
                let here = rq.tasks.iter().find(|(_, task)| task.on_rq || task.state == TaskState::Runnable);
                assert!(here.is_none(), "CPU {} is offline, and {here:?} is on it", rq.cpu);
            }
            for (_, task) in rq.tasks.iter().filter(|(_, task)| task.state == TaskState::Runnable) {
                assert!(task.allowed(rq.cpu), "CPU {}: task {} may not be here", rq.cpu, task.id);
            }
            // Nothing runnable waits on a CPU that idles, unless a limit holds it back.
            let may_run = |index: u32, task: &Task<P>| {
                let throttled = match task.kind() {
                    ClassKind::Deadline => task.deadline().is_some_and(|se| se.throttled),
                    ClassKind::Rt => rq.rt.holds_back(index),
                    ClassKind::Fair => P::throttled(rq, &self.shared, index),
                };
                task.on_rq && task.state == TaskState::Runnable && !throttled
            };
            let waits = rq.tasks.iter().any(|(index, task)| may_run(index, task));
            assert!(rq.running() != Running::Idle || !waits, "CPU {} idles before a waiting task", rq.cpu);
        }
        invariants::check_bandwidth(&self.rqs, &self.shared).unwrap();
        invariants::check_sums(&self.shared).unwrap();
        let alive: usize = self.rqs.iter().map(|rq| rq.tasks.len()).sum();
        assert_eq!(alive, self.tasks.len(), "every task is on exactly one run queue");
    }
}

fn machines() -> impl Strategy<Value = Topology> {
    let place = |cores: u32, threads: u32, llc: u32, big: bool| {
        let cpus = (0..cores * threads)
            .map(|cpu| CpuPlace {
                core: cpu / threads,
                cluster: cpu / threads,
                llc: cpu / (threads * llc),
                package: cpu / (threads * llc),
                node: cpu / (threads * llc),
                capacity: if big && cpu % 2 == 0 { 512 } else { 1024 },
            })
            .collect();
        Topology::new(cpus, None).unwrap()
    };
    (1u32..5, 1u32..3, 1u32..3, any::<bool>())
        .prop_map(move |(cores, threads, llc, big)| place(cores, threads, llc, big && threads == 1))
}

/// A machine so large that what the CPUs of each cache publish is added up as they do.
fn large_machine() -> Topology {
    let place = |cpu: u32| CpuPlace {
        core: cpu / 2,
        cluster: cpu / 2,
        llc: cpu / 8,
        package: cpu / 32,
        node: cpu / 32,
        capacity: if cpu % 16 < 4 { 400 } else { 1024 },
    };
    Topology::new((0..64).map(place).collect(), None).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn sums_of_caches_are_exact_after_every_call(calls in prop::collection::vec(call(), 200..300)) {
        let mut bench = Bench::<Eevdf>::new(large_machine(), "6.12", 0);
        for call in &calls {
            bench.apply(call);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_after_every_call(
        topology in machines(),
        name in prop::sample::select(vec!["2.6.15", "2.6.15-cpurc", "2.6.22", "2.6.23", "3.10", "3.12", "3.17", "3.18", "6.1", "6.6", "6.12", "6.18"]),
        isolated in prop_oneof![3 => Just(0u8), 1 => any::<u8>()],
        calls in prop::collection::vec(call(), 1..300),
    ) {
        fn all<P: Policy<Tunables = Knobs>>(topology: Topology, name: &str, isolated: u8, calls: &[Call]) {
            let mut bench = Bench::<P>::new(topology, name, isolated);
            for call in calls {
                bench.apply(call);
            }
        }
        match kernel(name).unwrap().policy {
            PolicyKind::O1 => all::<O1>(topology, name, isolated, &calls),
            PolicyKind::Cfs2007 => all::<Cfs2007>(topology, name, isolated, &calls),
            PolicyKind::Cfs => all::<Cfs>(topology, name, isolated, &calls),
            PolicyKind::Eevdf => all::<Eevdf>(topology, name, isolated, &calls),
        }
    }
}

/// It falls asleep throttled, is lent a deadline over the beginning of its next period, and wakes without it: it is queued.
#[test]
fn a_boost_that_ends_before_its_task_wakes_leaves_it_able_to_run() {
    let mut bench = Bench::<Eevdf>::new(
        Topology::new(vec![CpuPlace { core: 0, cluster: 0, llc: 0, package: 0, node: 0, capacity: 1024 }], None)
            .unwrap(),
        "6.6",
        0,
    );
    let task = bench.with(|s| s.new_task(&TaskAttrs::default(), CpuId(0)));
    bench.with(|s| s.wake_new(task, CpuId(0)));
    bench.tasks.push(task);
    let deadline = DlAttrs { runtime: 1_000_000, deadline: 10_000_000, period: 10_000_000, ..DlAttrs::default() };
    bench.with(|s| {
        s.set_scheduler(task, SchedAttr { policy: SchedPolicy::Deadline, deadline, ..SchedAttr::default() }).unwrap();
    });
    bench.apply(&Call::Pass { us: 500 });
    // It overruns, and sleeps before anybody looks.
    bench.now += 5_000_000;
    bench.apply(&Call::Block { cpu: 0 });
    bench.apply(&Call::Boost { task: 0, priority: Some(6) });
    bench.apply(&Call::Pass { us: 50_000 });
    bench.apply(&Call::Boost { task: 0, priority: None });
    bench.apply(&Call::Wake { task: 0, cpu: 0, sync: false });
    bench.apply(&Call::Pass { us: 100 });
    assert_eq!(bench.rqs[0].running().task(), Some(task));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// With real-time scheduling of groups, on CPUs that lend each other runtime or do not.
    #[test]
    fn invariants_hold_with_real_time_groups(
        topology in machines(),
        name in prop::sample::select(vec!["3.10", "3.18", "6.1", "6.6", "6.12", "6.18"]),
        share in any::<bool>(),
        limits in prop::collection::vec((0u32..3_000, 5_000u32..20_000), 5),
        calls in prop::collection::vec(call(), 1..300),
    ) {
        let mut kernel = kernel(name).unwrap();
        kernel.rt_group_sched = true;
        kernel.feature(if share { "RT_RUNTIME_SHARE" } else { "NO_RT_RUNTIME_SHARE" }).unwrap();
        let limit = |(group, (runtime_us, period_us))| Call::RtLimit { group, runtime_us, period_us };
        let calls = (1u8..).zip(limits).map(limit).chain(calls);
        if kernel.policy == PolicyKind::Cfs {
            let mut bench = Bench::<Cfs>::under(topology, kernel, 0);
            calls.for_each(|call| bench.apply(&call));
        } else {
            let mut bench = Bench::<Eevdf>::under(topology, kernel, 0);
            calls.for_each(|call| bench.apply(&call));
        }
    }
}
