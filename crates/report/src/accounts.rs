//! The collector's accounts of tasks, classes, groups and CPUs.

use vruntime_trace::{CpuId, Running, SchedPolicy};

use crate::collector::DETAILED_TASKS;
use crate::cputime::Spent;
use crate::latency::Recorder;
use crate::results::{Account, CpuResult, CpusetResult, LimitResult, MigrationCount, Response};
use crate::throttles::BoundBy;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    #[default]
    Unborn,
    Sleeping,
    /// Waits since a wakeup: a wakeup latency.
    Woken,
    /// Waits since a fork, preemption or yield.
    Waiting,
    Running,
    Dead,
}

impl State {
    #[inline]
    pub(crate) fn is_runnable(self) -> bool {
        matches!(self, Self::Woken | Self::Waiting | Self::Running)
    }
}

// 64 bytes per paragraph in memory. Fields that every event reads are first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Task {
    pub(crate) state: State,
    pub(crate) nice: i8,
    pub(crate) rt_priority: u8,
    /// Whether it is a deadline task that waits for its next period.
    pub(crate) throttled: bool,
    pub(crate) bound_by: BoundBy,
    pub(crate) policy: SchedPolicy,
    pub(crate) class: u32,
    pub(crate) group: u32,
    /// The CPU where it blocked for a device.
    pub(crate) blocked_on: Option<CpuId>,
    pub(crate) since: u64,
    pub(crate) detail: Option<Box<Detail>>,

    pub(crate) account: Account,
    pub(crate) rhythm: Rhythm,
    pub(crate) born: u64,
    pub(crate) name: Box<str>,
}

/// A task's rhythm. A *burst* is the computation from a wakeup to the next sleep or exit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rhythm {
    /// CPU time at the end of the first burst since [`Shares`](crate::shares::Shares) read it.
    pub(crate) ended: Option<u64>,
    /// Run delay at the end of the last burst.
    pub(crate) delay: u64,
    wakeups: u32,
    woken: u64,
    asleep: u64,
    /// Last sleep, and last interval between wakeups.
    slept: u64,
    interval: u64,
    /// Decaying sums of differences between successive ones.
    slept_differs: u64,
    interval_differs: u64,
}

impl Rhythm {
    /// Wakeups needed for [`Self::waits_cost_bursts`].
    const TELLING: u32 = 4;

    #[inline]
    fn sleeps(&mut self, at: u64, account: &Account) {
        self.ended.get_or_insert(account.cpu_ns);
        self.delay = account.run_delay_ns;
        self.asleep = at;
    }

    #[inline]
    fn wakes(&mut self, at: u64) {
        let (slept, interval) = (at.saturating_sub(self.asleep), at.saturating_sub(self.woken));
        self.wakeups = self.wakeups.saturating_add(1);
        // The first sleep is the creation. The first interval ends with the second wakeup.
        if self.wakeups > 2 {
            self.slept_differs += slept.abs_diff(self.slept);
            self.slept_differs -= self.slept_differs / 16;
            self.interval_differs += interval.abs_diff(self.interval);
            self.interval_differs -= self.interval_differs / 16;
        }
        (self.woken, self.slept, self.interval) = (at, slept, interval);
    }

    /// Whether sleeps are equally long after early and late bursts: relative sleeps, or waits for other tasks. Each
    /// wait then reduces demand. With a clock, demand is constant.
    pub(crate) fn waits_cost_bursts(&self) -> bool {
        self.wakeups >= Self::TELLING && self.interval_differs >= self.slept_differs
    }
}

/// Histograms of a task, or of its class's tasks without their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    pub(crate) wakeup_latency: Recorder,
    pub(crate) sleep_return: Recorder,
    pub(crate) loop_duration: Recorder,
    pub(crate) response: Recorder,
    pub(crate) above_target: u64,
}

impl Detail {
    pub(crate) fn flush(&mut self) {
        let Self { wakeup_latency, sleep_return, loop_duration, response, above_target: _ } = self;
        for recorder in [wakeup_latency, sleep_return, loop_duration, response] {
            recorder.flush();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.wakeup_latency.merge(&other.wakeup_latency);
        self.sleep_return.merge(&other.sleep_return);
        self.loop_duration.merge(&other.loop_duration);
        self.response.merge(&other.response);
        self.above_target += other.above_target;
    }

    pub(crate) fn response(&self) -> Option<Response> {
        Some(Response { times: self.response.latency()?, above_target: self.above_target })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) detail: Detail,
    pub(crate) migrations: MigrationCount,
}

/// A task group, without its descendants.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) path: String,
    pub(crate) parent: Option<u32>,
    pub(crate) weight: u32,
    /// `cpu.idle`.
    pub(crate) idle: bool,
    /// Percent of the machine (2.6.15-cpurc).
    pub(crate) guarantee: Option<u32>,
    pub(crate) nice: Option<i8>,
    pub(crate) cpu_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) run_delay_ns: u64,
    pub(crate) switches: u64,
    pub(crate) limit: Option<LimitResult>,
    pub(crate) cpuset: Option<CpusetResult>,
    pub(crate) nr_rt_throttled: u64,
    pub(crate) rt_throttled_ns: u64,
}

impl Group {
    /// Returns a group of default weight without a limit.
    pub(crate) fn new(path: String, parent: Option<u32>) -> Self {
        Self {
            path,
            parent,
            weight: 100,
            nice: None,
            idle: false,
            guarantee: None,
            cpu_ns: 0,
            system_ns: 0,
            run_delay_ns: 0,
            switches: 0,
            limit: None,
            cpuset: None,
            nr_rt_throttled: 0,
            rt_throttled_ns: 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(crate) running: Running,
    pub(crate) since: u64,
    /// Announced overhead not yet subtracted.
    pub(crate) owed: u64,
    /// Kind of the last overhead.
    pub(crate) last: Spent,
    pub(crate) switched: bool,
    /// Whether a task with positive nice value runs.
    pub(crate) niced: bool,
    /// Tasks that blocked here for a device (`nr_iowait`).
    pub(crate) iowait: u32,
    /// Whether it is a virtual CPU that waits for its host.
    pub(crate) stolen: bool,
    pub(crate) result: CpuResult,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            running: Running::Idle,
            since: 0,
            owed: 0,
            last: Spent::default(),
            switched: false,
            niced: false,
            iowait: 0,
            stolen: false,
            result: CpuResult::default(),
        }
    }
}

impl Cpu {
    #[inline]
    pub(crate) fn advance(&mut self, at: u64) {
        let passed = at.saturating_sub(self.since);
        self.since = self.since.max(at);
        if self.stolen {
            self.result.times.steal += passed;
            // The guest counts it as its current activity.
            *(if self.running == Running::Idle { &mut self.result.idle_ns } else { &mut self.result.busy_ns }) +=
                passed;
            return;
        }
        let overhead = passed.min(self.owed);
        self.owed -= overhead;
        self.result.overhead_ns += overhead;
        let rest = passed - overhead;
        let times = &mut self.result.times;
        match self.running {
            Running::Idle => {
                self.result.idle_ns += rest;
                *(if self.iowait > 0 { &mut times.iowait } else { &mut times.idle }) += rest;
            }
            Running::Task(_) => {
                self.result.busy_ns += rest;
                *(if self.niced { &mut times.nice } else { &mut times.user }) += rest;
            }
            Running::Stopper => {
                self.result.busy_ns += rest;
                times.system += rest;
            }
        }
    }

    /// Adds overhead. Returns whether it is the running task's system time.
    pub(crate) fn owes(&mut self, ns: u64, spent: Spent) -> bool {
        self.owed += ns;
        self.last = spent;
        *self.result.times.field(spent) += ns;
        !matches!(spent, Spent::User | Spent::Nice)
    }

    /// Ends the run, and returns unspent overhead.
    pub(crate) fn finish(&mut self, at: u64) {
        self.advance(at);
        self.result.times.give_back(std::mem::take(&mut self.owed), self.last);
    }
}

impl Task {
    /// Begins its life asleep.
    #[inline]
    pub(crate) fn be_born(&mut self, at: u64) {
        if self.state == State::Unborn {
            self.state = State::Sleeping;
            self.born = at;
            self.since = at;
        }
    }

    pub(crate) fn detail<'a>(&'a mut self, id: usize, classes: &'a mut [Class]) -> &'a mut Detail {
        if id < DETAILED_TASKS { self.detail.get_or_insert_default() } else { &mut classes[self.class as usize].detail }
    }

    /// Books the time up to `at` to the old state, and returns it. Only between birth and death.
    #[inline]
    pub(crate) fn enter(&mut self, at: u64, state: State, groups: &mut [Group]) -> u64 {
        if matches!(self.state, State::Unborn | State::Dead) {
            return 0;
        }
        let passed = at.saturating_sub(self.since);
        self.since = self.since.max(at);
        match self.state {
            State::Unborn | State::Dead => {}
            State::Sleeping => {
                self.account.sleeping_ns += passed;
                if state.is_runnable() {
                    self.rhythm.wakes(at);
                }
            }
            State::Woken | State::Waiting => {
                self.account.run_delay_ns += passed;
                groups[self.group as usize].run_delay_ns += passed;
            }
            State::Running => {
                self.account.cpu_ns += passed;
                groups[self.group as usize].cpu_ns += passed;
            }
        }
        if self.state.is_runnable() && !state.is_runnable() {
            self.rhythm.sleeps(at, &self.account);
        }
        self.state = state;
        passed
    }
}
