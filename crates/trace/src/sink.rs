//! The receivers of events.

use vruntime_sched::energy::EnergyModel;
use vruntime_sched::event::{DeadlineEvent, Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::loadavg::LoadAvg;
use vruntime_sched::{CpuMask, SchedPolicy};

/// A task, beyond its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskInfo<'a> {
    /// The task's name (`comm`), such as `web-3`.
    pub name: &'a str,
    /// Class of identical tasks, such as `web`; a single task's name.
    pub class: &'a str,
    /// Its first group.
    pub group: GroupId,
    /// Its nice value, -20..=19.
    pub nice: i8,
    /// Its first policy.
    pub policy: SchedPolicy,
    /// 1..=99 under SCHED_FIFO and SCHED_RR, else 0.
    pub rt_priority: u8,
}

/// A task group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo<'a> {
    /// Absolute path, such as `/web/api`; the root is `/`.
    pub path: &'a str,
    /// The parent; none for the root.
    pub parent: Option<GroupId>,
    /// `cpu.weight`, 1..=10000.
    pub weight: u32,
    /// `cpu.idle`: `weight` has no effect.
    pub idle: bool,
    /// Guaranteed percent of the machine (CPU resource controller of 2006). Without one, a group has no weight there.
    pub guarantee: Option<u32>,
    /// `cpu.max`: quota and period, nanoseconds; none if unlimited.
    pub max: Option<(u64, u64)>,
    /// Nice value, and so the weight, of an autogroup (`/proc/PID/autogroup`).
    pub nice: Option<i8>,
}

impl<'a> GroupInfo<'a> {
    /// Returns path and changeable attributes like cgroup v2's files, in microseconds: `/web cpu.weight=300
    /// cpu.max=50000 100000`.
    pub fn settings(&self) -> String {
        let weight = match (self.guarantee, self.nice) {
            (Some(percent), _) => format!("guarantee={percent}"),
            _ if self.idle => "cpu.idle=1".to_owned(),
            (_, Some(nice)) => format!("nice={nice}"),
            _ => format!("cpu.weight={}", self.weight),
        };
        match self.max {
            Some((quota, period)) => format!("{} {weight} cpu.max={} {}", self.path, quota / 1000, period / 1000),
            None => format!("{} {weight} cpu.max=max", self.path),
        }
    }

    /// Parses the output of [`GroupInfo::settings`]. A weight replaced by nice value, guarantee or `cpu.idle` is 100.
    pub fn from_settings(text: &'a str) -> Option<Self> {
        // A path may contain anything, so the text is parsed from its end.
        let (rest, max) = text.rsplit_once(" cpu.max=")?;
        let max = if max == "max" {
            None
        } else {
            let (quota, period) = max.split_once(' ')?;
            let ns = |us: &str| us.parse::<u64>().ok()?.checked_mul(1000).filter(|&ns| ns > 0);
            Some((ns(quota)?, ns(period)?))
        };
        let (path, word) = rest.rsplit_once(' ')?;
        if !path.starts_with('/') {
            return None;
        }
        let info = Self { path, weight: 100, max, ..Self::default() };
        let (key, value) = word.split_once('=')?;
        Some(match key {
            "cpu.weight" => Self { weight: value.parse().ok().filter(|weight| (1..=10_000).contains(weight))?, ..info },
            "cpu.idle" if value == "1" => Self { idle: true, ..info },
            "nice" => Self { nice: Some(value.parse().ok().filter(|nice| (-20..=19).contains(nice))?), ..info },
            "guarantee" => {
                Self { guarantee: Some(value.parse().ok().filter(|&percent: &u32| percent <= 100)?), ..info }
            }
            _ => return None,
        })
    }
}

/// A group's cpuset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusetInfo<'a> {
    /// The group's absolute path below the root.
    pub path: &'a str,
    /// `cpuset.cpus.effective`: the CPUs its tasks may run on.
    pub effective: &'a CpuMask,
    /// `cpuset.cpus.partition` as read: `member`, `root`, `root invalid (Parent is not a partition root)`.
    pub partition: &'a str,
}

impl CpusetInfo<'_> {
    /// Returns it like cgroup v2's files: `/web cpuset.cpus.effective=0-2,5 cpuset.cpus.partition=root`.
    pub fn settings(&self) -> String {
        let cpus: Vec<u32> = self.effective.iter().map(|cpu| cpu.0).collect();
        let run = |run: &[u32]| match *run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(u32::to_string).collect(),
        };
        let list: Vec<String> = cpus.chunk_by(|a, b| a + 1 == *b).map(run).collect();
        format!("{} cpuset.cpus.effective={} cpuset.cpus.partition={}", self.path, list.join(","), self.partition)
    }
}

/// A scheduling domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainInfo {
    /// Kernel's level name, such as `MC` or `NUMA`.
    pub level: &'static str,
    /// Its CPUs.
    pub span: CpuMask,
    /// CPUs that balance here. With overlapping NUMA nodes, several domains span the same CPUs.
    pub members: CpuMask,
    /// Groups to balance between; may overlap.
    pub groups: Vec<CpuMask>,
    /// Longest time between balances when idle, nanoseconds (`max_interval`).
    pub interval_ns: u64,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo<'a> {
    /// Number of CPUs.
    pub cpus: usize,
    /// Tick period, nanoseconds.
    pub tick_ns: u64,
    /// Its scheduling domains, lowest level first.
    pub domains: &'a [DomainInfo],
    /// The power of its CPUs, if known.
    pub energy: Option<EnergyInfo<'a>>,
}

/// The energy model of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyInfo<'a> {
    /// Power by frequency.
    pub model: &'a EnergyModel,
    /// Whether wakeups consider energy.
    pub is_energy_aware: bool,
}

/// A run's counts that no event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals<'a> {
    /// The load averages at the end.
    pub loadavg: LoadAvg,
    /// Switches away from each group's tasks and descendants, by group id. Empty unless counted
    /// ([`Kernel::group_switches`](vruntime_sched::Kernel::group_switches)).
    pub group_switches: &'a [u64],
}

/// One program loop as rt-app logs it, beyond [`Event::LoopEnd`]. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTimes {
    /// Work that `run` and `runtime` requested (`c_duration`).
    pub asked: u64,
    /// Their duration, CPU waits included (`run`).
    pub run: u64,
    /// Work in them, as time at full capacity (`perf`, calibrated loops).
    pub work: u64,
    /// Sum of the timers' periods (`c_period`).
    pub period: u64,
    /// Time left of the last timer's period on arrival; negative if late (`slack`).
    pub slack: i64,
    /// Sum of that over the timers (`slack` with `cumulative_slack`).
    pub cumulative_slack: i64,
    /// Total lateness after timers (`wu_lat`). A timer without a wait zeroes it.
    pub wakeup_latency: u64,
}

/// Receives the events of a run, in order.
///
/// `at` is nanoseconds since the start. Groups and tasks are announced before events name them.
pub trait Sink {
    /// The machine; the first call.
    fn machine(&mut self, _info: &MachineInfo<'_>) {}

    /// Scheduling domains, rebuilt for CPU hotplug.
    fn domains(&mut self, _at: u64, _domains: &[DomainInfo]) {}

    /// Root domains and isolated CPUs from `at` on. Nothing is balanced between root domains, no fair task between
    /// isolated CPUs. Called only if several root domains exist or existed.
    fn root_domains(&mut self, _at: u64, _roots: &[CpuMask], _isolated: &CpuMask) {}

    /// A new task group.
    fn group(&mut self, _id: GroupId, _info: &GroupInfo<'_>) {}
    /// A group's new weight or limit.
    fn group_changed(&mut self, _at: u64, _id: GroupId, _info: &GroupInfo<'_>) {}
    /// A group's cpuset from `at` on. Follows the group.
    fn cpuset(&mut self, _at: u64, _id: GroupId, _info: &CpusetInfo<'_>) {}
    /// A new task.
    fn task(&mut self, _id: TaskId, _info: &TaskInfo<'_>) {}
    /// A task's allowed CPUs from `at` on; `None`: all, the default.
    fn affinity(&mut self, _at: u64, _task: TaskId, _cpus: Option<&CpuMask>) {}
    /// Whether to call [`Sink::loop_end`], at a small cost. Read once, at the start.
    fn wants_loops(&self) -> bool {
        false
    }
    /// `task` completed a loop of `duration`. Follows its [`Event::LoopEnd`].
    fn loop_end(&mut self, _at: u64, _task: TaskId, _duration: u64, _times: &LoopTimes) {}
    /// Whether to call [`Sink::round_end`], at a small cost. Read once, at the start.
    fn wants_rounds(&self) -> bool {
        false
    }
    /// `task` completed a round, `response` nanoseconds after it was due. A round lasts from one wait's end (timer,
    /// task, data) to the next wait.
    fn round_end(&mut self, _at: u64, _task: TaskId, _response: u64) {}
    /// An event on `cpu`.
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event);
    /// `cpu` rescheduled without a switch. No event says this.
    #[inline]
    fn stays(&mut self, _at: u64, _cpu: CpuId) {}
    /// Whether a virtual machine's host delays busy `cpu` from `at` on.
    fn stolen(&mut self, _at: u64, _cpu: CpuId, _waits: bool) {}
    /// Totals, right before the end.
    fn totals(&mut self, _totals: &Totals<'_>) {}
    /// The run ended.
    fn finish(&mut self, _at: u64) {}
}

/// Discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl Sink for NoSink {
    #[inline]
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn wants_loops(&self) -> bool {
        (**self).wants_loops()
    }
    fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
        (**self).loop_end(at, task, duration, times);
    }
    fn wants_rounds(&self) -> bool {
        (**self).wants_rounds()
    }
    #[inline]
    fn round_end(&mut self, at: u64, task: TaskId, response: u64) {
        (**self).round_end(at, task, response);
    }
    fn machine(&mut self, info: &MachineInfo<'_>) {
        (**self).machine(info);
    }
    fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
        (**self).domains(at, domains);
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        (**self).affinity(at, task, cpus);
    }
    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        (**self).root_domains(at, roots, isolated);
    }
    fn cpuset(&mut self, at: u64, id: GroupId, info: &CpusetInfo<'_>) {
        (**self).cpuset(at, id, info);
    }
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        (**self).group(id, info);
    }
    fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
        (**self).group_changed(at, id, info);
    }
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        (**self).task(id, info);
    }
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        (**self).event(at, cpu, event);
    }
    #[inline]
    fn stays(&mut self, at: u64, cpu: CpuId) {
        (**self).stays(at, cpu);
    }
    fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
        (**self).stolen(at, cpu, waits);
    }
    fn totals(&mut self, totals: &Totals<'_>) {
        (**self).totals(totals);
    }
    fn finish(&mut self, at: u64) {
        (**self).finish(at);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn wants_loops(&self) -> bool {
        self.as_ref().is_some_and(Sink::wants_loops)
    }
    fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
        if let Some(sink) = self {
            sink.loop_end(at, task, duration, times);
        }
    }
    fn wants_rounds(&self) -> bool {
        self.as_ref().is_some_and(Sink::wants_rounds)
    }
    fn round_end(&mut self, at: u64, task: TaskId, response: u64) {
        if let Some(sink) = self {
            sink.round_end(at, task, response);
        }
    }
    fn machine(&mut self, info: &MachineInfo<'_>) {
        if let Some(sink) = self {
            sink.machine(info);
        }
    }
    fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
        if let Some(sink) = self {
            sink.domains(at, domains);
        }
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        if let Some(sink) = self {
            sink.affinity(at, task, cpus);
        }
    }
    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        if let Some(sink) = self {
            sink.root_domains(at, roots, isolated);
        }
    }
    fn cpuset(&mut self, at: u64, id: GroupId, info: &CpusetInfo<'_>) {
        if let Some(sink) = self {
            sink.cpuset(at, id, info);
        }
    }
    fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
        if let Some(sink) = self {
            sink.group_changed(at, id, info);
        }
    }
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        if let Some(sink) = self {
            sink.group(id, info);
        }
    }
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        if let Some(sink) = self {
            sink.task(id, info);
        }
    }
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        if let Some(sink) = self {
            sink.event(at, cpu, event);
        }
    }
    #[inline]
    fn stays(&mut self, at: u64, cpu: CpuId) {
        if let Some(sink) = self {
            sink.stays(at, cpu);
        }
    }
    fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
        if let Some(sink) = self {
            sink.stolen(at, cpu, waits);
        }
    }
    fn totals(&mut self, totals: &Totals<'_>) {
        if let Some(sink) = self {
            sink.totals(totals);
        }
    }
    fn finish(&mut self, at: u64) {
        if let Some(sink) = self {
            sink.finish(at);
        }
    }
}

macro_rules! tuple_sink {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Sink),+> Sink for ($($name,)+) {
            fn wants_loops(&self) -> bool {
                $(self.$index.wants_loops())||+
            }
            fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
                $(self.$index.loop_end(at, task, duration, times);)+
            }
            fn wants_rounds(&self) -> bool {
                $(self.$index.wants_rounds())||+
            }
            #[inline]
            fn round_end(&mut self, at: u64, task: TaskId, response: u64) {
                $(self.$index.round_end(at, task, response);)+
            }
            fn machine(&mut self, info: &MachineInfo<'_>) {
                $(self.$index.machine(info);)+
            }
            fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
                $(self.$index.domains(at, domains);)+
            }
            fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
                $(self.$index.affinity(at, task, cpus);)+
            }
            fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
                $(self.$index.root_domains(at, roots, isolated);)+
            }
            fn cpuset(&mut self, at: u64, id: GroupId, info: &CpusetInfo<'_>) {
                $(self.$index.cpuset(at, id, info);)+
            }
            fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
                $(self.$index.group(id, info);)+
            }
            fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
                $(self.$index.group_changed(at, id, info);)+
            }
            fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
                $(self.$index.task(id, info);)+
            }
            #[inline]
            fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
                $(self.$index.event(at, cpu, event);)+
            }
            #[inline]
            fn stays(&mut self, at: u64, cpu: CpuId) {
                $(self.$index.stays(at, cpu);)+
            }
            fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
                $(self.$index.stolen(at, cpu, waits);)+
            }
            fn totals(&mut self, totals: &Totals<'_>) {
                $(self.$index.totals(totals);)+
            }
            fn finish(&mut self, at: u64) {
                $(self.$index.finish(at);)+
            }
        }
    };
}
tuple_sink!(A 0);
tuple_sink!(A 0, B 1);
tuple_sink!(A 0, B 1, C 2);
tuple_sink!(A 0, B 1, C 2, D 3);
tuple_sink!(A 0, B 1, C 2, D 3, E 4);
tuple_sink!(A 0, B 1, C 2, D 3, E 4, F 5);

/// A 64-bit digest of the event stream: equal digests mean equal runs.
///
/// Every event field enters. Our function (multiply and rotate 64-bit words, like FxHash) never changes: tests pin
/// its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Digest {
    /// Returns the digest so far.
    pub const fn value(&self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

fn running(who: Running) -> u64 {
    match who {
        Running::Idle => 0,
        Running::Stopper => 1,
        Running::Task(task) => 2 + u64::from(task.0),
    }
}

fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

impl Sink for Digest {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.word(at);
        let (tag, a, b) = match *event {
            Event::Fork { parent, child } => (1, parent.map_or(0, |p| u64::from(p.0) + 1), u64::from(child.0)),
            Event::Exit { task } => (2, u64::from(task.0), 0),
            Event::Waking { task, .. } => (3, u64::from(task.0), 0),
            Event::Wakeup { task, target } => (4, u64::from(task.0), u64::from(target.0)),
            Event::WakeupNew { task, target } => (5, u64::from(task.0), u64::from(target.0)),
            Event::Switch { prev, prev_state, next } => {
                // The idle task's state has no meaning.
                let state = match prev_state {
                    _ if prev.task().is_none() => 0,
                    PrevState::Preempted => 0,
                    PrevState::Yielded => 1,
                    PrevState::Sleeping => 2,
                    PrevState::Blocked => 3,
                    PrevState::Dead => 4,
                };
                (6, running(prev), running(next) << 3 | state)
            }
            Event::Migrate { task, from, to, cause } => (7, pair(task.0, cause as u32), pair(from.0, to.0)),
            Event::SetNice { task, nice } => (8, u64::from(task.0), nice as u64),
            Event::MoveGroup { task, group } => (9, u64::from(task.0), u64::from(group.0)),
            // Only statistics use `balanced`.
            Event::Balance { kind, level, busiest, pulled, balanced: _ } => {
                (10, pair(kind as u32, u32::from(level)), pair(busiest.map_or(u32::MAX, |cpu| cpu.0), pulled))
            }
            Event::Overhead { kind, ns } => (11, kind as u64, ns),
            Event::LoopEnd { task, duration, work } => {
                self.word(work);
                (12, u64::from(task.0), duration)
            }
            Event::SleepReturn { task, late } => (13, u64::from(task.0), late),
            Event::Deadline { task, what } => {
                let (kind, late) = match what {
                    DeadlineEvent::Throttle => (0, 0),
                    DeadlineEvent::Replenish => (1, 0),
                    DeadlineEvent::Overrun => (2, 0),
                    DeadlineEvent::Miss { late } => (3, late),
                };
                (17, pair(task.0, kind), late)
            }
            Event::SetPolicy { task, policy, rt_priority } => (14, pair(task.0, policy as u32), u64::from(rt_priority)),
            Event::PiSetprio { task, old, new } => (15, u64::from(task.0), pair(old as u32, new as u32)),
            Event::CpuFrequency { khz } => (29, u64::from(khz), 0),
            Event::Throttle { group } => (20, u64::from(group.0), 0),
            Event::Unthrottle { group, ns } => (21, u64::from(group.0), ns),
            Event::BandwidthPeriod { group, periods, throttled, burst } => {
                (22, pair(group.0, periods), burst << 1 | u64::from(throttled))
            }
            Event::RtThrottle { group } => (26, u64::from(group.0), 0),
            Event::RtUnthrottle { group } => (27, u64::from(group.0), 0),
            Event::HLoad { of, groups, idle } => (28, u64::from(of.0), pair(groups, idle)),
            Event::Overutilized { root, on } => (30, u64::from(root.0), u64::from(on)),
            Event::CpuDown => (23, 0, 0),
            Event::CpuUp => (24, 0, 0),
            Event::AffinityLost { task } => (25, u64::from(task.0), 0),
        };
        self.word(u64::from(cpu.0) << 8 | tag);
        self.word(a);
        self.word(b);
    }
}
