//! Translates tasks to flat code, which tasks with the same phases share. It finds all errors of a workload before the
//! first event.

mod phases;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vruntime_sched::class::deadline::{DlAttrs, PeriodLimits, SchedError};
use vruntime_sched::{CpuMask, Limit, SchedAttr, SchedPolicy};
use vruntime_workload::program::{
    Change, Changed, CpuMax, Follow, MemRun, Op, Phase, Policy, Repeat, Room, Settings, Task, TimerMode, WaitMode,
    Workload,
};

use crate::costs::Costs;
use crate::cpu::NEVER;
use crate::error::{Error, GroupError, Subject};
use crate::sync::answers::{Answers, NO_ANSWERS};

pub(crate) const FOREVER: u64 = u64::MAX;

/// The mutex of a [`Code::Barrier`] without one.
pub(crate) const NO_MUTEX: u32 = u32::MAX;

/// One instruction. Objects are indices into the workload's lists. Times are nanoseconds.
//
// The tag is a word. With a byte, the rest would be copied in two overlapping pieces and read before both arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    /// Changes the task's attributes: index into [`Programs::settings`].
    Settings(u32),
    Phase {
        loops: u64,
    },
    Loop,
    /// A loop of the phase ends. The place of its [`Code::Loop`].
    LoopEnd {
        back: u32,
    },
    /// The program's last phase has ended. The place of its first.
    Repeat {
        back: u32,
    },
    Exit,
    /// Kills the other tasks of the process.
    ExitGroup,
    AwaitKill,
    Run(u64),
    Runtime(u64),
    /// Work of a pool that another member may have done.
    PoolRun {
        pool: u32,
        work: u64,
    },
    /// Other members' work while the pool lacks work.
    PoolHelp {
        pool: u32,
        work: u64,
    },
    /// As `Run`, for memory or a device: rt-app counts it neither as `run` nor as `perf`.
    Mem(u64),
    Sleep(u64),
    /// A time after the start.
    SleepUntil(u64),
    Timer {
        timer: u32,
        period: u64,
    },
    TimerAbsolute {
        timer: u32,
        period: u64,
    },
    PoolSleep {
        pool: u32,
        work: u64,
    },
    /// Skips the sleep and [`Code::PoolAgain`] behind it if the pool has done enough.
    PoolWait {
        pool: u32,
        work: u64,
    },
    /// Returns to the sleep before it if the pool has not done enough.
    PoolAgain {
        pool: u32,
    },
    Device(u64),
    Lock(u32),
    /// No timeout is [`crate::cpu::NEVER`].
    TryLock {
        mutex: u32,
        time: u64,
    },
    EnsureLock(u32),
    Nudge(u32),
    Unlock(u32),
    Wait {
        condition: u32,
        mutex: u32,
    },
    Signal(u32),
    Broadcast(u32),
    Sync {
        condition: u32,
        mutex: u32,
    },
    /// Between its own `Lock` and `Unlock` if it has a mutex, or with [`NO_MUTEX`].
    Barrier {
        barrier: u32,
        mutex: u32,
    },
    SemPost(u32),
    SemWait(u32),
    SemMove {
        from: u32,
        to: u32,
    },
    SemReset(u32),
    InboxWait {
        inbox: u32,
        /// Index in [`Programs::answers`] or [`NO_ANSWERS`].
        answers: u32,
    },
    InboxWake {
        inbox: u32,
        from: u32,
        follow: Follow,
        sync: bool,
    },
    /// Puts off the code until `to`, which is behind a [`Code::PutOffEnd`].
    PutOff {
        inbox: u32,
        to: u32,
    },
    PutOffEnd {
        inbox: u32,
    },
    CatchUp {
        inbox: u32,
    },
    RunIfSlept {
        inbox: u32,
        work: u64,
    },
    LeadMoves(u32),
    LeadAwaits(u32),
    /// Between its own `Lock` and `Unlock`.
    Suspend {
        condition: u32,
        mutex: u32,
    },
    Yield,
    Exec,
    Fork(u32),
    PipeWrite {
        pipe: u32,
        bytes: u32,
    },
    PipeRead {
        pipe: u32,
        bytes: u32,
    },
    /// `lock`: the wait counts as work.
    SpinWait {
        spin: u32,
        lock: bool,
    },
    SpinPost {
        spin: u32,
        events: u32,
    },
    SpinBarrier(u32),
    /// No timeout is [`crate::cpu::NEVER`].
    WaitEvent {
        queue: u32,
        mode: WaitMode,
        timeout: u64,
    },
    WakeUp {
        queue: u32,
        nr: u32,
        events: u32,
        sync: bool,
    },
    /// As for `WaitEvent`.
    WaitForCompletion {
        completion: u32,
        timeout: u64,
    },
    Complete(u32),
    CompleteAll(u32),
    ReinitCompletion(u32),
}

pub(crate) fn lock_of(workload: &Workload, barrier: u32) -> u32 {
    workload.mutexes.len() as u32 + barrier
}

/// The scheduler's attributes. `None` keeps the old value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) policy: Option<SchedAttr>,
    pub(crate) affinity: Option<Arc<CpuMask>>,
    pub(crate) group: Option<u32>,
    pub(crate) util_min: Option<u32>,
    pub(crate) util_max: Option<u32>,
}

impl Attributes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) code: Vec<Code>,
    pub(crate) settings: Vec<Attributes>,
    pub(crate) entry: Vec<u32>,
    pub(crate) initial: Vec<u32>,
    pub(crate) changes: Vec<u32>,
    /// For phases with waits for several wakers.
    pub(crate) answers: Vec<Answers>,
    /// The room for the wakeups of wakers, if it is limited.
    pub(crate) rooms: BTreeMap<u32, Room>,
    pub(crate) notes: Vec<String>,
}

/// When a task requests its settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before it starts: a refusal is an error of the file.
    Start,
    /// In a phase, or by a change: the run handles a refusal.
    Later,
}

struct Compiler<'a> {
    workload: &'a Workload,
    cpus: usize,
    costs: &'a Costs,
    periods: PeriodLimits,
    out: Programs,
    clamps: Option<&'a str>,
    nodes: Option<&'a str>,
    accesses: Option<&'a str>,
    /// Whether groups with changes so far are idle.
    idle: BTreeMap<usize, bool>,
    wakers: BTreeMap<usize, u32>,
    /// Wakers that are connections.
    connections: BTreeSet<u32>,
    /// The answers at each inbox where the current program takes messages of connections.
    talks: BTreeMap<usize, u32>,
}

/// Checks `workload` for a machine of `cpus` CPUs and translates it. `clamps_matter`: utilisation clamps have effect.
pub(crate) fn compile(
    workload: &Workload,
    cpus: usize,
    costs: &Costs,
    periods: PeriodLimits,
    clamps_matter: bool,
) -> Result<Programs, Error> {
    let mut compiler = Compiler {
        workload,
        cpus,
        costs,
        periods,
        out: Programs::default(),
        clamps: None,
        nodes: None,
        accesses: None,
        idle: BTreeMap::new(),
        wakers: BTreeMap::new(),
        connections: BTreeSet::new(),
        talks: BTreeMap::new(),
    };
    for (&from, &room) in &workload.rooms {
        let from = compiler.waker(from);
        compiler.out.rooms.insert(from, room);
    }
    compiler.connections = workload.connections.iter().map(|&from| compiler.waker(from)).collect();
    for session in &workload.sessions {
        if !(-20..=19).contains(&session.nice) {
            let (subject, value) = (Subject::Session(session.name.clone()), session.nice.into());
            return Err(Error::OutOfRange { subject, what: "nice", value, expected: "-20 to 19" });
        }
    }
    let root = workload.groups.first().map(|root| &root.path);
    if root.is_none_or(|path| path != "/") {
        return Err(Error::NoRoot { first: root.cloned() });
    }
    for (index, group) in workload.groups.iter().enumerate() {
        Compiler::group(index, group)?;
    }
    // Instances of a class share phases through an `Arc`, translated once. The map is never iterated over, so addresses
    // do not affect the result.
    let mut known: BTreeMap<(*const Phase, usize, u64), u32> = BTreeMap::new();
    let mut last: Option<(&Settings, u32)> = None;
    for task in &workload.tasks {
        Compiler::session(task, workload)?;
        let repeat = times(task.repeat);
        let identity = (task.phases.as_ptr(), task.phases.len(), repeat);
        let entry = match known.get(&identity) {
            Some(entry) if !task.phases.is_empty() => *entry,
            _ => {
                let entry = compiler.program(task, repeat)?;
                known.insert(identity, entry);
                entry
            }
        };
        compiler.out.entry.push(entry);
        let initial = match last {
            Some((settings, index)) if *settings == task.settings => index,
            _ => compiler.settings(task, &task.settings, At::Start)?,
        };
        last = Some((&task.settings, initial));
        compiler.out.initial.push(initial);
    }
    let mut last = 0;
    for change in &workload.changes {
        if change.at < last {
            return Err(Error::ChangeOrder { at: change.at });
        }
        last = change.at;
        let settings = compiler.change(change)?;
        compiler.out.changes.push(settings);
    }
    if let Some(task) = compiler.clamps
        && !clamps_matter
    {
        let note = format!(
            "utilisation clamps (task `{task}`) have no effect here: all CPUs are equal, and their frequency is fixed"
        );
        compiler.out.notes.push(note);
    }
    if let Some(task) = compiler.nodes {
        let note = format!("memory binding (task `{task}`) has no effect: memory access costs the same on every node");
        compiler.out.notes.push(note);
    }
    if let Some(task) = compiler.accesses {
        let note = format!(
            "`type` and `pattern` of `memrun` (task `{task}`) have no effect: only `size` and `stride` determine the cost of an access"
        );
        compiler.out.notes.push(note);
    }
    Ok(compiler.out)
}

pub(crate) fn times(repeat: Repeat) -> u64 {
    match repeat {
        Repeat::Forever => FOREVER,
        Repeat::Times(times) => times.min(FOREVER - 1),
    }
}

impl<'a> Compiler<'a> {
    fn group(index: usize, group: &vruntime_workload::program::Group) -> Result<(), Error> {
        let subject = || Subject::Group(group.path.clone());
        if let Some(max) = group.max {
            if index == 0 {
                return Err(Error::BadLimit { subject: subject(), error: GroupError::RootLimit });
            }
            if let Err(error) = Limit::new(max.quota, max.period, max.burst) {
                return Err(Error::BadLimit { subject: subject(), error: GroupError::Limit(error) });
            }
        }
        for (what, clamp) in
            group.uclamp.iter().flat_map(|clamps| [("uclamp.min", clamps.min), ("uclamp.max", clamps.max)])
        {
            if clamp > 1024 {
                return Err(Error::OutOfRange {
                    subject: subject(),
                    what,
                    value: clamp.into(),
                    expected: "0 to 1024, a whole CPU",
                });
            }
        }
        if !(1..=10_000).contains(&group.weight) {
            let value = i64::from(group.weight);
            return Err(Error::OutOfRange { subject: subject(), what: "weight", value, expected: "1 to 10000" });
        }
        if index > 0 && group.parent.is_none_or(|parent| parent >= index) {
            let value = group.parent.map_or(-1, |parent| parent as i64);
            return Err(Error::OutOfRange {
                subject: subject(),
                what: "parent",
                value,
                expected: "a group listed before it",
            });
        }
        Ok(())
    }

    /// Checks a change, and returns the index of the tasks' new attributes.
    fn change(&mut self, change: &'a Change) -> Result<u32, Error> {
        let workload = self.workload;
        let check = |kind, index: usize, count: usize| {
            let subject = Subject::Change(change.at);
            if index < count { Ok(index) } else { Err(Error::Dangling { subject, kind, index, count }) }
        };
        let nice_of = |subject: Subject, nice: i8| {
            let fine = (-20..=19).contains(&nice);
            let error = Error::OutOfRange { subject, what: "nice", value: nice.into(), expected: "-20 to 19" };
            if fine { Ok(()) } else { Err(error) }
        };
        match &change.what {
            Changed::Tasks { tasks, settings, nice } => {
                let mut index = 0;
                for &task in tasks {
                    let task = &workload.tasks[check("task", task, workload.tasks.len())?];
                    index = self.settings(task, settings, At::Later)?;
                    if let Some(nice) = *nice {
                        nice_of(Subject::Task(task.name.clone()), nice)?;
                    }
                }
                return Ok(index);
            }
            Changed::Group { group, to } => {
                let index = check("group", *group, workload.groups.len())?;
                let mut group = workload.groups[index].clone();
                group.weight = to.weight.unwrap_or(group.weight);
                group.max = match to.max {
                    Some(CpuMax::Limited(max)) => Some(max),
                    _ => None,
                };
                group.uclamp = to.uclamp;
                if index == 0 {
                    return Err(Error::BadLimit { subject: Subject::Change(change.at), error: GroupError::Root });
                }
                let idle = self.idle.entry(index).or_insert(group.idle);
                *idle = to.idle.unwrap_or(*idle);
                if to.weight.is_some() && *idle {
                    let error = GroupError::IdleWeight { group: group.path.clone() };
                    return Err(Error::BadLimit { subject: Subject::Change(change.at), error });
                }
                Self::group(index, &group)?;
            }
            // Already reported.
            Changed::Cpuset { .. } => {}
            Changed::Session { session, nice } => {
                let session = &workload.sessions[check("session", *session, workload.sessions.len())?];
                nice_of(Subject::Session(session.name.clone()), *nice)?;
            }
        }
        Ok(0)
    }

    fn session(task: &Task, workload: &Workload) -> Result<(), Error> {
        let count = workload.sessions.len();
        match task.session.filter(|&session| session >= count) {
            Some(index) => {
                Err(Error::Dangling { subject: Subject::Task(task.name.clone()), kind: "session", index, count })
            }
            None => Ok(()),
        }
    }

    fn program(&mut self, task: &'a Task, repeat: u64) -> Result<u32, Error> {
        let entry = self.out.code.len() as u32;
        self.talks.clear();
        if repeat > 0 {
            for phase in task.phases.iter() {
                self.phase(task, phase)?;
            }
            if repeat > 1 && (self.out.code.len() as u32) > entry {
                self.out.code.push(Code::Repeat { back: entry });
            }
        }
        self.out.code.push(Code::Exit);
        if self.out.code.len() > u32::MAX as usize / 2 {
            return Err(Error::TooMany { limit: u32::MAX as usize / 2 });
        }
        Ok(entry)
    }

    fn op(&mut self, task: &'a Task, op: &Op) -> Result<(), Error> {
        let workload = self.workload;
        let check = |kind, index: usize, count: usize| {
            if index < count {
                Ok(index as u32)
            } else {
                Err(Error::Dangling { subject: Subject::Task(task.name.clone()), kind, index, count })
            }
        };
        let mutex = |index| check("mutex", index, workload.mutexes.len());
        let condition = |index| check("condition", index, workload.conditions.len());
        let semaphore = |index| check("semaphore", index, workload.semaphores.len());
        let pool = |index| check("pool", index, workload.pools.len());
        let inbox = |index| check("inbox", index, workload.inboxes.len());
        let lead = |index| check("lead", index, workload.leads.len());
        let queue = |index| check("wait queue", index, workload.wait_queues.len());
        let spin = |index| check("spin word", index, workload.spins.len());
        let completion = |index| check("completion", index, workload.completions.len());
        let code = match *op {
            Op::Run { work } => Code::Run(work),
            Op::Runtime { time } => Code::Runtime(time),
            Op::InboxWait { inbox: index, .. } => Code::InboxWait { inbox: inbox(index)?, answers: NO_ANSWERS },
            Op::InboxWake { inbox: index, from, follow, sync } => {
                Code::InboxWake { inbox: inbox(index)?, from: self.waker(from), follow, sync }
            }
            // Without an end, nothing is put off.
            Op::PutOff { inbox: index } => Code::PutOff { inbox: inbox(index)?, to: self.out.code.len() as u32 + 1 },
            Op::PutOffEnd { inbox: index } => Code::PutOffEnd { inbox: inbox(index)? },
            Op::RunIfSlept { inbox: index, work } => Code::RunIfSlept { inbox: inbox(index)?, work },
            Op::CatchUp { inbox: index } => Code::CatchUp { inbox: inbox(index)? },
            Op::LeadMoves { lead: index } => Code::LeadMoves(lead(index)?),
            Op::LeadAwaits { lead: index } => Code::LeadAwaits(lead(index)?),
            Op::PoolRun { pool: p, work } => Code::PoolRun { pool: pool(p)?, work },
            Op::PoolHelp { pool: p, work } => Code::PoolHelp { pool: pool(p)?, work },
            Op::PoolSleep { pool: p, work } => Code::PoolSleep { pool: pool(p)?, work },
            Op::PoolWait { pool: p, work, time } => {
                let pool = pool(p)?;
                self.out.code.extend([Code::PoolWait { pool, work }, Code::Sleep(time)]);
                Code::PoolAgain { pool }
            }
            Op::ExitGroup => Code::ExitGroup,
            Op::AwaitKill => Code::AwaitKill,
            Op::Sleep { time } => Code::Sleep(time),
            Op::SleepUntil { at } => Code::SleepUntil(at),
            Op::Device { time } => Code::Device(time),
            Op::Timer { timer, period, mode } => {
                let timer = check("timer", timer, workload.timers.len())?;
                match mode {
                    TimerMode::Relative => Code::Timer { timer, period },
                    TimerMode::Absolute => Code::TimerAbsolute { timer, period },
                }
            }
            Op::Lock(index) => Code::Lock(mutex(index)?),
            Op::TryLock { mutex: m, time } => Code::TryLock { mutex: mutex(m)?, time: time.unwrap_or(NEVER) },
            Op::EnsureLock(index) => Code::EnsureLock(mutex(index)?),
            Op::Nudge(index) => Code::Nudge(mutex(index)?),
            Op::Unlock(index) => Code::Unlock(mutex(index)?),
            Op::Wait { condition: c, mutex: m } => Code::Wait { condition: condition(c)?, mutex: mutex(m)? },
            Op::Signal(index) => Code::Signal(condition(index)?),
            Op::Broadcast(index) => Code::Broadcast(condition(index)?),
            Op::Sync { condition: c, mutex: m } => Code::Sync { condition: condition(c)?, mutex: mutex(m)? },
            Op::Barrier(index) => {
                let barrier = check("barrier", index, workload.barriers.len())?;
                if workload.barriers[index].locked {
                    let mutex = lock_of(workload, barrier);
                    self.out.code.extend([Code::Lock(mutex), Code::Barrier { barrier, mutex }]);
                    Code::Unlock(mutex)
                } else {
                    Code::Barrier { barrier, mutex: NO_MUTEX }
                }
            }
            Op::SemPost(index) => Code::SemPost(semaphore(index)?),
            Op::SemWait(index) => Code::SemWait(semaphore(index)?),
            Op::SemMove { from, to } => Code::SemMove { from: semaphore(from)?, to: semaphore(to)? },
            Op::SemReset(index) => Code::SemReset(semaphore(index)?),
            Op::Suspend { condition: c, mutex: m } => {
                let (condition, mutex) = (condition(c)?, mutex(m)?);
                self.out.code.extend([Code::Lock(mutex), Code::Suspend { condition, mutex }]);
                Code::Unlock(mutex)
            }
            Op::Resume { condition: c, mutex: m } => {
                let (condition, mutex) = (condition(c)?, mutex(m)?);
                self.out.code.extend([Code::Lock(mutex), Code::Broadcast(condition)]);
                Code::Unlock(mutex)
            }
            Op::Mem { bytes } => Code::Mem(per_kib(bytes, self.costs.mem_ns_per_kib)),
            Op::MemRun(ref run) => {
                if run.kind != MemRun::KIND || run.pattern != MemRun::PATTERN {
                    self.accesses.get_or_insert(&task.name);
                }
                Code::Mem(self.memrun(run))
            }
            Op::Io { bytes } => {
                self.out.code.push(Code::Mem(per_kib(bytes, self.costs.io_ns_per_kib)));
                Code::Device(per_kib(bytes, self.costs.io_device_ns_per_kib))
            }
            Op::Yield => Code::Yield,
            Op::Exec => Code::Exec,
            Op::Fork(index) => Code::Fork(check("task", index, workload.tasks.len())?),
            Op::SpinWait { spin: index, lock } => Code::SpinWait { spin: spin(index)?, lock },
            Op::SpinPost { spin: index, events } => Code::SpinPost { spin: spin(index)?, events },
            Op::SpinBarrier(index) => Code::SpinBarrier(spin(index)?),
            Op::WaitEvent { queue: q, mode, timeout } => {
                Code::WaitEvent { queue: queue(q)?, mode, timeout: timeout.unwrap_or(NEVER) }
            }
            Op::WakeUp { queue: q, nr, events, sync } => Code::WakeUp { queue: queue(q)?, nr, events, sync },
            Op::WaitForCompletion { completion: c, timeout } => {
                Code::WaitForCompletion { completion: completion(c)?, timeout: timeout.unwrap_or(NEVER) }
            }
            Op::Complete(index) => Code::Complete(completion(index)?),
            Op::CompleteAll(index) => Code::CompleteAll(completion(index)?),
            Op::ReinitCompletion(index) => Code::ReinitCompletion(completion(index)?),
            Op::PipeWrite { pipe, bytes } => Code::PipeWrite { pipe: self.pipe(task, pipe, bytes)?, bytes },
            Op::PipeRead { pipe, bytes } => Code::PipeRead { pipe: self.pipe(task, pipe, bytes)?, bytes },
        };
        self.out.code.push(code);
        Ok(())
    }

    fn pipe(&self, task: &Task, index: usize, bytes: u32) -> Result<u32, Error> {
        let task = || task.name.clone();
        let count = self.workload.pipes.len();
        let Some(pipe) = self.workload.pipes.get(index) else {
            return Err(Error::Dangling { subject: Subject::Task(task()), kind: "pipe", index, count });
        };
        if bytes > pipe.capacity {
            let (pipe, capacity) = (pipe.name.clone(), pipe.capacity);
            return Err(Error::MessageTooLong { task: task(), pipe, bytes, capacity });
        }
        Ok(index as u32)
    }

    /// An access hits in the previous one's cache line, or in a buffer that fits a private cache.
    fn memrun(&self, run: &MemRun) -> u64 {
        let hits = run.stride < 64 || run.size <= 1 << 20;
        run.count.saturating_mul(if hits { self.costs.mem_hit_ns } else { self.costs.mem_miss_ns })
    }

    fn settings(&mut self, task: &'a Task, settings: &Settings, at: At) -> Result<u32, Error> {
        let subject = || Subject::Task(task.name.clone());
        let range = |what, value: i64, least, most, expected| {
            let fine = (least..=most).contains(&value);
            if fine { Ok(()) } else { Err(Error::OutOfRange { subject: subject(), what, value, expected }) }
        };
        let fair = |policy, nice: i8, slice| {
            range("nice", nice.into(), -20, 19, "-20 to 19")?;
            Ok(Some(SchedAttr { policy, nice, slice, ..SchedAttr::default() }))
        };
        let realtime = |policy, rt_priority: u8| {
            range("real-time priority", rt_priority.into(), 1, 99, "1 to 99, 99 the most urgent")?;
            Ok(Some(SchedAttr { policy, rt_priority, ..SchedAttr::default() }))
        };
        let policy = match settings.policy {
            None => None,
            Some(Policy::Other { nice, slice }) => fair(SchedPolicy::Normal, nice, slice)?,
            Some(Policy::Batch { nice, slice }) => fair(SchedPolicy::Batch, nice, slice)?,
            Some(Policy::Idle) => fair(SchedPolicy::Idle, 0, None)?,
            Some(Policy::Fifo { priority }) => realtime(SchedPolicy::Fifo, priority)?,
            Some(Policy::RoundRobin { priority }) => realtime(SchedPolicy::RoundRobin, priority)?,
            Some(Policy::Deadline { runtime, deadline, period, reclaim, overrun }) => {
                let wanted = DlAttrs { runtime, deadline, period, reclaim, overrun_signal: overrun };
                let deadline = match wanted.checked(self.periods) {
                    Err(error) if at == At::Start => {
                        let error = SchedError::Params(error);
                        return Err(Error::Refused { task: task.name.clone(), now: 0, errno: "EINVAL", error });
                    }
                    // The call is refused when it is made.
                    checked => checked.unwrap_or(wanted),
                };
                Some(SchedAttr { policy: SchedPolicy::Deadline, deadline, ..SchedAttr::default() })
            }
        };
        let mut attributes = Attributes { policy, ..Attributes::default() };
        if let Some(cpus) = &settings.cpus {
            if let Some(&cpu) = cpus.iter().find(|&&cpu| cpu as usize >= self.cpus) {
                return Err(Error::NoSuchCpu { subject: Subject::Task(task.name.clone()), cpu, cpus: self.cpus });
            }
            if !cpus.is_empty() {
                attributes.affinity = Some(Arc::new(cpus.iter().map(|&cpu| vruntime_sched::ids::CpuId(cpu)).collect()));
            }
        }
        if let Some(group) = settings.group {
            let count = self.workload.groups.len();
            if group >= count.max(1) {
                let subject = Subject::Task(task.name.clone());
                return Err(Error::Dangling { subject, kind: "group", index: group, count });
            }
            attributes.group = Some(group as u32);
        }
        let clamp = |what, value: Option<u32>| match value {
            Some(value) => range(what, value.into(), 0, 1024, "0 to 1024, a whole CPU").map(|()| Some(value)),
            None => Ok(None),
        };
        attributes.util_min = clamp("util_min", settings.util_min)?;
        attributes.util_max = clamp("util_max", settings.util_max)?;
        if let (Some(min), Some(max)) = (settings.util_min, settings.util_max) {
            range("util_min", min.into(), 0, max.into(), "no more than util_max")?;
        }
        if attributes.util_min.is_some() || attributes.util_max.is_some() {
            self.clamps.get_or_insert(&task.name);
        }
        if settings.nodes.is_some() {
            self.nodes.get_or_insert(&task.name);
        }
        if let Some(known) = self.out.settings.last()
            && *known == attributes
        {
            return Ok(self.out.settings.len() as u32 - 1);
        }
        self.out.settings.push(attributes);
        Ok(self.out.settings.len() as u32 - 1)
    }
}

fn per_kib(bytes: u64, ns: u64) -> u64 {
    let total = u128::from(bytes) * u128::from(ns) / 1024;
    u64::try_from(total).unwrap_or(u64::MAX)
}
