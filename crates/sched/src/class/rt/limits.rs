//! Limits of groups' real-time tasks on each CPU (`group`): `cpu.rt_runtime_us` of every `cpu.rt_period_us`.
//!
//! The root's limit is the machine's (`sched_rt_runtime_us`), in all kernels. A new group has a runtime of 0, and
//! may have no real-time tasks. The children's limits must fit into the group's (`Scheduler::set_group_rt`). All
//! limits are off if the machine's is (`sched_rt_runtime_us` above the period, the kernel's -1).

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use super::group::{GroupRq, RtGroups, Urgency};
use super::period::RtBandwidth;
use super::place::{set_pushable, span};
use super::queue::End;
use crate::attrs::{NO_RT_PRIO, SchedPolicy};
use crate::class::deadline::ratio::to_ratio;
use crate::event::{Event, Running};
use crate::host::Timer;
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::Task;
use crate::tunables::Tunables;

/// Stored for no limit.
pub(super) const INFINITE: u64 = u64::MAX;

/// CPU time of a group's real-time tasks on each CPU. Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtLimit {
    /// `cpu.rt_runtime_us`, in nanoseconds; `None` is -1, no limit.
    pub runtime: Option<u64>,
    /// `cpu.rt_period_us`, in nanoseconds.
    pub period: u64,
}

impl RtLimit {
    fn ratio(self) -> u64 {
        self.runtime.map_or(1 << 20, |runtime| to_ratio(self.period, runtime))
    }
}

impl fmt::Display for RtLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runtime {
            None => write!(f, "no limit"),
            Some(runtime) => {
                write!(f, "{} of {} us = {}", runtime / 1000, self.period / 1000, Percent(self.ratio()))
            }
        }
    }
}

struct Percent(u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (u128::from(self.0) * 10_000 + (1 << 19)) >> 20;
        write!(f, "{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}

/// Why a group cannot have a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtLimitError {
    /// The kernel has no real-time scheduling of groups.
    Off,
    /// The root's limit is the machine's.
    Root,
    /// The period is 0 (EINVAL).
    NoPeriod,
    /// The runtime exceeds the period (EINVAL).
    AbovePeriod(RtLimit),
    /// The limit exceeds the machine's (EINVAL).
    AboveMachine {
        /// The requested limit.
        limit: RtLimit,
        /// The machine's limit.
        machine: RtLimit,
    },
    /// The children of a group would have more than the group (EINVAL).
    Sum {
        /// The group itself, or its parent.
        of: GroupId,
        /// The limit of that group.
        has: RtLimit,
        /// The sum of its children, in 2^-20 CPUs.
        children: u64,
    },
    /// A runtime of 0, for a group with real-time tasks (EBUSY).
    Busy,
}

impl fmt::Display for RtLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => {
                write!(f, "this kernel has no real-time scheduling of groups (CONFIG_RT_GROUP_SCHED); switch it on")
            }
            Self::Root => {
                write!(f, "the root's limit is the machine's: set sched_rt_runtime_us and sched_rt_period_us")
            }
            Self::NoPeriod => write!(f, "a period of 0 is none (EINVAL); the default is sched_rt_period_us"),
            Self::AbovePeriod(RtLimit { runtime, period }) => write!(
                f,
                "a runtime of {} us does not fit a period of {} us (EINVAL); lower the one or lengthen the other",
                runtime.unwrap_or(0) / 1000,
                period / 1000
            ),
            Self::AboveMachine { limit, machine } => write!(
                f,
                "{limit} is more than the machine's limit of {machine} (EINVAL); ask for less, or raise sched_rt_runtime_us"
            ),
            Self::Sum { has, children, .. } => write!(
                f,
                "its child groups would have {} in total, but it has {has} (EINVAL); raise its runtime, or lower theirs",
                Percent(*children)
            ),
            Self::Busy => {
                write!(f, "it has real-time tasks, which could never run with a runtime of 0 (EBUSY); move them first")
            }
        }
    }
}

impl core::error::Error for RtLimitError {}

/// Whether throttling is on (`rt_bandwidth_enabled`).
pub(super) fn enabled<P: Policy>(shared: &Shared<P>) -> bool {
    machine(shared).runtime.is_some()
}

fn machine<P: Policy>(shared: &Shared<P>) -> RtLimit {
    let tunables = &shared.config.tunables;
    let (runtime, period) = (tunables.rt_runtime_ns(), tunables.rt_period_ns());
    RtLimit { runtime: (runtime <= period).then_some(runtime), period }
}

pub(crate) fn limit<P: Policy>(shared: &Shared<P>, group: GroupId) -> RtLimit {
    let machine = machine(shared);
    if group == GroupId::ROOT {
        return machine;
    }
    match shared.group(group).rt.0.get() {
        None => RtLimit { runtime: Some(0), period: machine.period },
        Some(own) => {
            let runtime = own.runtime.load(Relaxed);
            RtLimit { runtime: (runtime != INFINITE).then_some(runtime), period: own.period.load(Relaxed) }
        }
    }
}

pub(super) fn bandwidth_of<P: Policy>(shared: &Shared<P>, group: GroupId) -> Option<&RtBandwidth> {
    if group == GroupId::ROOT {
        return Some(&shared.rt.bandwidth);
    }
    shared.group(group).rt.0.get().map(|own| &own.bandwidth)
}

/// Returns the group whose limit counts for `group`.
fn home<P: Policy>(shared: &Shared<P>, group: GroupId) -> GroupId {
    if shared.group(group).rt.is_redirected() { GroupId::ROOT } else { group }
}

/// Whether a group may have real-time tasks.
pub(crate) fn may_join<P: Policy>(shared: &Shared<P>, group: GroupId) -> bool {
    !shared.config.rt_group_sched || !enabled(shared) || limit(shared, home(shared, group)).runtime != Some(0)
}

/// Whether a task may move to a group (`sched_rt_can_attach`). Until 6.6, deadline tasks count as real-time.
pub(crate) fn may_attach<P: Policy>(shared: &Shared<P>, task: &Task<P>, group: GroupId) -> bool {
    let prio = task.prio();
    let counts = prio >= 0 || shared.config.has(Behaviour::RtThrottle);
    // Unlike a change of policy, this requires a runtime even if throttling is off.
    !shared.config.rt_group_sched || prio >= 100 || !counts || limit(shared, home(shared, group)).runtime != Some(0)
}

fn urgency<P: Policy>(task: &Task<P>) -> Urgency {
    let own = if matches!(task.policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin) { task.rt_priority } else { 0 };
    Urgency { level: task.rt_level(), boosted: task.lent.is_some_and(|lent| lent.rt_priority() > own) }
}

/// Changes the arrays, and updates the run queue from the root's.
fn change<P: Policy, T>(rq: &mut Rq<P>, with: impl FnOnce(&mut RtGroups) -> T) -> T {
    let counted = |rq: &Rq<P>| if rq.rt.throttled { 0 } else { rq.rt.nr_running };
    let before = counted(rq);
    let mut groups = rq.rt.groups.take().unwrap_or_default();
    let answer = with(&mut groups);
    let top = groups.top();
    rq.rt.nr_running = top.nr_running();
    rq.rt.throttled = top.is_throttled();
    rq.rt.active = if top.nr_running() == 0 { 0 } else { 1 << top.highest() };
    rq.rt.groups = Some(groups);
    rq.nr_running = rq.nr_running - before + counted(rq);
    answer
}

pub(super) fn enqueue<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32, end: End) {
    let urgency = urgency(&rq.tasks[index]);
    let group = home(shared, rq.tasks[index].group);
    rq.tasks[index].rt.level = urgency.level;
    change(rq, |groups| {
        groups.know(group, |group| shared.group(group).parent);
        groups.enqueue(index, group, urgency, end);
    });
    start_up(rq, shared, group);
}

pub(super) fn dequeue<P: Policy>(rq: &mut Rq<P>, index: u32) {
    change(rq, |groups| groups.dequeue(index));
}

pub(super) fn has_moved<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, groups: &RtGroups, index: u32) -> bool {
    let task = &rq.tasks[index];
    !groups.is_seated(index, home(shared, task.group), urgency(task))
}

pub(super) fn reprioritise<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    set_pushable(rq, shared, index, false);
    let urgency = urgency(&rq.tasks[index]);
    let group = home(shared, rq.tasks[index].group);
    change(rq, |groups| {
        groups.know(group, |group| shared.group(group).parent);
        groups.reseat(index, group, urgency);
    });
    rq.tasks[index].rt.level = urgency.level;
    start_up(rq, shared, group);
    // A running task may have joined a throttled group, a waiting one left it.
    if rq.curr == Some(index) || (!rq.rt.is_throttled(index) && is_urgent(rq, urgency.level)) {
        rq.resched();
    }
    set_pushable(rq, shared, index, rq.curr != Some(index));
    shared.rt.publish(rq.cpu, &rq.rt);
}

/// Starts the period timers of a runnable group and its ancestors.
fn start_up<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, group: GroupId) {
    let mut at = group;
    while at != GroupId::ROOT {
        start(rq, shared, at);
        at = shared.group(at).parent;
    }
    start(rq, shared, at);
}

fn start<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, group: GroupId) {
    let RtLimit { runtime: Some(1..), period } = limit(shared, group) else { return };
    let Some(bandwidth) = bandwidth_of(shared, group).filter(|_| enabled(shared)) else { return };
    let (timer, phase) = match group {
        GroupId::ROOT => (Timer::RtPeriod, shared.config.rt_period_phase_ns),
        group => (Timer::RtGroupPeriod(group), None),
    };
    bandwidth.start(rq, shared, timer, period, phase);
}

/// Charges the running task's `delta` to its group and ancestors.
pub(super) fn charge<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    if !rq.online || !enabled(shared) {
        return;
    }
    let groups = rq.rt.groups.as_ref();
    let mut at = rq.curr.and_then(|current| groups?.group_of(current));
    while let Some(group) = at {
        charge_one(rq, shared, group, delta);
        at = (group != GroupId::ROOT).then(|| shared.group(group).parent);
    }
}

/// Charges the root (all kernels that have the class).
pub(super) fn charge_deadline<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, delta: u64) {
    let RtLimit { runtime: Some(runtime), .. } = limit(shared, GroupId::ROOT) else { return };
    if !rq.online {
        return;
    }
    let bandwidth = &shared.rt.bandwidth;
    let Some(root) = rq.rt.groups.get_or_insert_default().rq_mut(GroupId::ROOT) else { return };
    if bandwidth.counts_deadline(root.time, runtime) {
        root.time += delta;
        if let Some(lending) = bandwidth.lending(shared, runtime) {
            lending.note(rq.cpu, root.time);
        }
    }
}

fn charge_one<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, group: GroupId, delta: u64) {
    let RtLimit { runtime: Some(runtime), period } = limit(shared, group) else { return };
    let cpu = rq.cpu;
    let Some(this) = rq.rt.groups.as_mut().and_then(|groups| groups.rq_mut(group)) else { return };
    this.time += delta;
    let time = this.time;
    let lending = bandwidth_of(shared, group).and_then(|bandwidth| bandwidth.lending(shared, runtime));
    if this.throttled {
        if let Some(lending) = lending {
            lending.note(cpu, time);
        }
        if this.is_throttled() {
            rq.resched();
        }
        return;
    }
    let exceeded = match lending {
        None => runtime < period && time > runtime,
        Some(lending) => lending.exceeded(cpu, time, period, &span(shared, cpu)),
    };
    if !exceeded {
        return;
    }
    if runtime == 0 {
        // Only a boosted task runs there, and no period could pay for that.
        this.time = 0;
        return;
    }
    change(rq, |groups| groups.set_throttled(group, true));
    rq.event(Event::RtThrottle { group });
    start(rq, shared, group);
    if rq.rt.groups.as_ref().and_then(|groups| groups.rq(group)).is_some_and(GroupRq::is_throttled) {
        rq.resched();
    }
    shared.rt.publish(cpu, &rq.rt);
}

fn unthrottle<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, group: GroupId) {
    let (highest, runs) = change(rq, |groups| {
        groups.set_throttled(group, false);
        groups.rq(group).map_or((NO_RT_PRIO, 0), |this| (this.highest(), this.nr_running()))
    });
    rq.event(Event::RtUnthrottle { group });
    if runs > 0 {
        start_up(rq, shared, group);
    }
    if runs > 0 && is_urgent(rq, highest) {
        rq.resched();
    }
    shared.rt.publish(rq.cpu, &rq.rt);
}

fn is_urgent<P: Policy>(rq: &Rq<P>, level: u8) -> bool {
    match rq.curr {
        Some(current) => i16::from(level) < rq.tasks[current].prio(),
        None => rq.running != Running::Stopper,
    }
}

/// Ends `overrun` periods of a group on one CPU. Returns whether it needs the timer.
pub(super) fn replenish<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, group: GroupId, overrun: u64) -> bool {
    let RtLimit { runtime, period } = limit(shared, group);
    let mut runtime = runtime.unwrap_or(INFINITE);
    let lending = bandwidth_of(shared, group).and_then(|bandwidth| bandwidth.lending(shared, runtime));
    let cpu = rq.cpu;
    let span = lending.map(|_| span(shared, cpu));
    let Some(this) = rq.rt.groups.as_mut().and_then(|groups| groups.rq_mut(group)) else { return false };
    if let Some((lending, span)) = lending.zip(span) {
        if this.throttled {
            lending.balance(cpu, this.time, period, &span);
        }
        runtime = lending.runtime(cpu).unwrap_or(INFINITE);
    }
    this.time = this.time.saturating_sub(overrun.saturating_mul(runtime));
    if let Some(lending) = lending {
        lending.note(cpu, this.time);
    }
    let (time, over) = (this.time, this.throttled && this.time < runtime);
    let waits = time > 0 || this.nr_running() > 0;
    if over {
        unthrottle(rq, shared, group);
    }
    waits
}

/// Lifts throttling for going offline (`__disable_runtime`).
pub(super) fn rq_offline<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    for group in shared.group_ids() {
        if let (Some(runtime), Some(bandwidth)) = (limit(shared, group).runtime, bandwidth_of(shared, group)) {
            bandwidth.disable(rq.cpu, runtime, &shared.online());
        }
        let Some(this) = rq.rt.groups.as_mut().and_then(|groups| groups.rq_mut(group)) else { continue };
        this.time = 0;
        if this.throttled {
            unthrottle(rq, shared, group);
        }
    }
}

/// Restores the CPU's runtimes (`__enable_runtime`).
pub(super) fn rq_online<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) {
    for group in shared.group_ids() {
        if let (Some(runtime), Some(bandwidth)) = (limit(shared, group).runtime, bandwidth_of(shared, group)) {
            bandwidth.enable(rq.cpu, runtime);
        }
    }
}

/// Checks the tree as if `group` had `wanted` (`tg_rt_schedulable`).
pub(super) fn schedulable<P: Policy>(shared: &Shared<P>, group: GroupId, wanted: RtLimit) -> Result<(), RtLimitError> {
    let of = |id: GroupId| if id == group { wanted } else { limit(shared, id) };
    let machine = machine(shared);
    let all = || shared.group_ids();
    let alone = |has: RtLimit| {
        if has.runtime.is_some_and(|runtime| runtime > has.period) {
            Err(RtLimitError::AbovePeriod(has))
        } else if has.ratio() > machine.ratio() {
            Err(RtLimitError::AboveMachine { limit: has, machine })
        } else {
            Ok(())
        }
    };
    // Its own errors precede.
    alone(wanted)?;
    for id in all().filter(|&id| !shared.group(id).rt.is_redirected()) {
        let has = of(id);
        alone(has)?;
        let inside = |&child: &GroupId| {
            child != GroupId::ROOT && shared.group(child).parent == id && !shared.group(child).rt.is_redirected()
        };
        let children: u64 = all().filter(inside).map(|child| of(child).ratio()).sum();
        if children > has.ratio() {
            return Err(RtLimitError::Sum { of: id, has, children });
        }
    }
    Ok(())
}

impl<P: Policy> Shared<P> {
    /// Whether a group may have real-time tasks.
    pub fn may_have_rt(&self, group: GroupId) -> bool {
        may_join(self, group)
    }
}
