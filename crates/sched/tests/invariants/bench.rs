//! A scheduler under test; its host obeys at once.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_sched::class::ClassKind;
use vruntime_sched::class::deadline::{DlAttrs, Donor, SchedError};
use vruntime_sched::class::rt::RtLimit;
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::task::Task;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    Boost, CpuMask, CpusetError, GroupError, GroupWeight, Host, HotplugError, Kernel, Limit, NextTask, Partition,
    Policy, Rq, SchedAttr, SchedPolicy, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker, kernel,
};

use crate::calls::{Call, mask_of, policy_of, some_of};
use crate::lags;

#[derive(Default)]
pub(crate) struct Wishes {
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
    timers: BTreeMap<Timer, u64>,
    /// Cause, from and to of moves since the last check.
    pub(crate) moves: Vec<(MigrateCause, CpuId, CpuId)>,
    throttled: u64,
    /// Reported affinities.
    pub(crate) affinities: BTreeMap<TaskId, Option<CpuMask>>,
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
            Event::Migrate { from, to, cause, .. } => self.moves.push((cause, from, to)),
            Event::Throttle { .. } => self.throttled += 1,
            _ => {}
        }
    }
    fn affinity(&mut self, _at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.affinities.insert(task, cpus.cloned());
    }
}

/// A late 6.18 of a cloud.
pub(crate) const LATE: &str = "6.18.44-fc-v657";

/// The kernel of that name, or [`LATE`].
pub(crate) fn release(name: &str) -> Kernel {
    let mut kernel = kernel(if name == LATE { "6.18" } else { name }).unwrap();
    kernel.as_of(name);
    kernel
}

pub(crate) struct Bench<P: Policy> {
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) wishes: Wishes,
    pub(crate) now: u64,
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) asleep: BTreeSet<TaskId>,
    pub(crate) groups: Vec<GroupId>,
    /// Whether there were deadline tasks.
    promised: bool,
}

impl<P: Policy<Tunables = Knobs> + 'static> Bench<P> {
    pub(crate) fn new(topology: Topology, name: &str, isolated: u8) -> Self {
        Self::under(topology, release(name), isolated)
    }

    pub(crate) fn under(topology: Topology, kernel: Kernel, isolated: u8) -> Self {
        Self::with_levels(topology, kernel, isolated, true)
    }

    /// `quiet_levels`: updates are deferred.
    pub(crate) fn with_levels(topology: Topology, mut kernel: Kernel, isolated: u8, quiet_levels: bool) -> Self {
        // Short enough to throttle real-time tasks often.
        kernel.set("sched_rt_period_us", 20_000).unwrap();
        kernel.set("sched_rt_runtime_us", 12_000).unwrap();
        let mut config = Config::new(&kernel, &topology, 250);
        config.quiet_levels = quiet_levels;
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
        for (parent, weight) in [
            (0, GroupWeight::Weight(100)),
            (1, GroupWeight::Weight(300)),
            (1, GroupWeight::Idle),
            (2, GroupWeight::Weight(1000)),
            (0, GroupWeight::Weight(1)),
        ] {
            let parent = bench.groups[parent];
            let group = bench.with(|scheduler| scheduler.new_group(parent, weight));
            // Refused without guarantees, or without a class.
            let _ = bench.with(|scheduler| scheduler.set_group_guarantee(group, 30));
            bench.groups.push(group);
        }
        bench
    }

    pub(crate) fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wishes>) -> T) -> T {
        call(&mut Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.wishes, now: self.now })
    }

    fn cpu(&self, byte: u8) -> CpuId {
        let online = self.shared.online();
        online.iter().nth(byte as usize % online.count()).unwrap()
    }

    fn task(&self, byte: u8) -> Option<TaskId> {
        (!self.tasks.is_empty()).then(|| self.tasks[byte as usize % self.tasks.len()])
    }

    pub(crate) fn apply(&mut self, call: &Call) {
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
                    let woken = self.with(|s| s.wake(task, cpu, if sync { Waker::TaskSync } else { Waker::Task }));
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
                    // Invalid clamps are refused.
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
                let refused = if self.shared.group(group).idle() {
                    Err(GroupError::Idle)
                } else if group == GroupId::ROOT {
                    Err(GroupError::Root)
                } else {
                    Ok(())
                };
                assert_eq!(self.with(|s| s.set_group_weight(group, u32::from(weight))), refused);
            }
            Call::IdleGroup { group, idle } => {
                let group = self.groups[group as usize % self.groups.len()];
                let set = self.with(|s| s.set_group_idle(group, idle));
                assert_eq!(set.is_ok(), group != GroupId::ROOT);
            }
            Call::Affinity { task, cpus } => {
                let mask = mask_of(cpus, self.rqs.len());
                let online = self.shared.online();
                if let Some(task) = self.task(task) {
                    let possible = mask.as_ref().is_none_or(|mask| mask.intersects(&online));
                    let before = self.find(task).affinity.clone();
                    let done = self.with(|s| s.set_affinity(task, mask.clone(), CpuId(0)));
                    // A deadline task's may be refused for other reasons, as may that of a task whose group has none of
                    // these CPUs.
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
                    let now = self.now;
                    let lend = |priority: u8| match u64::from(priority) {
                        us @ 6.. => {
                            let deadline = us * 500_000;
                            let donor = Donor { runtime: us * 100_000, deadline, period: us * 900_000 };
                            Boost::Deadline { donor, deadline: now + deadline }
                        }
                        _ => Boost::Rt(priority),
                    };
                    self.with(|s| s.set_boost(task, priority.map(lend)));
                }
            }
            Call::Limit { group, quota_us, period_us, burst } => {
                let quota = u64::from(quota_us) * 1000;
                let limit = Limit::new(quota, u64::from(period_us) * 1000, quota * u64::from(burst) / 255).unwrap();
                let group = self.groups[group as usize % self.groups.len()];
                let set = self.with(|s| s.set_group_bandwidth(group, Some(limit)));
                assert_eq!(set.is_ok(), group != GroupId::ROOT);
            }
            Call::NoLimit { group } => {
                let group = self.groups[group as usize % self.groups.len()];
                let set = self.with(|s| s.set_group_bandwidth(group, None));
                assert_eq!(set.is_ok(), group != GroupId::ROOT);
            }
            Call::RtLimit { group, runtime_us, period_us } => {
                let group = self.groups[group as usize % self.groups.len()];
                let (runtime, period) = (Some(u64::from(runtime_us) * 1000), u64::from(period_us) * 1000);
                // Most exceed the parents'.
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
                let refused = Err(if group == GroupId::ROOT { CpusetError::Root } else { no_such });
                let mask = (cpus >= 20).then(|| some_of(cpus, nr_cpus));
                let before = self.shared.cpuset(group);
                assert_eq!(self.with(|s| s.set_group_cpus(group, Some(&beyond))), refused);
                let done = self.with(|s| s.set_group_cpus(group, mask.as_ref()));
                match done {
                    Ok(()) => assert_eq!(self.shared.cpuset(group).unwrap().cpus, mask),
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
        // Bandwidth of deadline tasks, even departed ones, may not fit on the others.
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

    /// Passes time, with all timers on the first CPU.
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
            let next = self.schedule(cpu, state);
            if state == PrevState::Sleeping {
                self.asleep.insert(task);
            }
            if state == PrevState::Dead {
                self.tasks.retain(|&other| other != task);
            }
            self.went_idle(cpu, next.next);
        }
    }

    /// A picked fair task is eligible ([`lags`]).
    fn schedule(&mut self, cpu: CpuId, state: PrevState) -> NextTask {
        let throttled = self.wishes.throttled;
        let next = self.with(|s| s.schedule(cpu, state));
        let fair = next.next.task().is_some_and(|task| self.find(task).kind() == ClassKind::Fair);
        if fair && self.wishes.throttled == throttled {
            lags::check_picked(&self.rqs[cpu.index()]);
        }
        next
    }

    fn went_idle(&mut self, cpu: CpuId, next: Running) {
        match next {
            Running::Idle => self.with(|s| s.tick_stopped(cpu)),
            Running::Stopper => {
                self.with(|s| s.stopper_work(cpu));
                let next = self.schedule(cpu, PrevState::Sleeping);
                self.went_idle(cpu, next.next);
            }
            Running::Task(_) => {}
        }
    }

    fn obey(&mut self) {
        for _ in 0..1000 {
            if let Some(cpu) = self.wishes.resched.pop() {
                let next = self.schedule(cpu, PrevState::Preempted);
                self.went_idle(cpu, next.next);
            } else if let Some(cpu) = self.wishes.kicks.pop() {
                while self.with(|s| s.nohz_balance(cpu)) {}
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

    pub(crate) fn isolated(&self) -> bool {
        !self.shared.root_domains().1.is_empty()
    }
}
