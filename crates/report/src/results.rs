//! The results of a run: plain data, exact to the nanosecond.

use std::fmt;

use vruntime_trace::{BalanceKind, LoadAvg, MigrateCause, SchedPolicy};

use crate::cputime::CpuTimes;
use crate::frequency::CpuFrequency;
use crate::latency::Latency;

/// Excessive waits: a CPU that the task may use idled throughout, for more than a balance interval. This is
/// `max_interval` of an idle CPU in the lowest domain with both CPUs, in whole ticks, and a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleWaits {
    /// Number of waits.
    pub count: u64,
    /// Time beyond the balance interval, nanoseconds.
    pub total_ns: u64,
    /// The longest of one wait, nanoseconds.
    pub worst_ns: u64,
}

/// The worst [`IdleWaits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstIdleWait {
    /// Index in [`Results::tasks`].
    pub task: usize,
    /// Its last CPU in the wait.
    pub cpu: u32,
    /// Start of the wait, nanoseconds.
    pub since: u64,
    /// End of the wait, nanoseconds.
    pub at: u64,
    /// Time beyond the balance interval, nanoseconds.
    pub ns: u64,
}

/// Work conservation: no CPU should idle for longer than a balance interval while a task that may use it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conservation {
    /// The shortest balance interval of two CPUs, nanoseconds.
    pub least_interval_ns: u64,
    /// The longest, nanoseconds.
    pub most_interval_ns: u64,
    /// The worst wait beyond the interval.
    pub worst: Option<WorstIdleWait>,
}

/// Figures that are 0 because they were not, or not fully, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Unmeasured {
    /// CPU time.
    pub cpu: bool,
    /// Switches.
    pub switches: bool,
    /// Run delays and times asleep.
    pub waits: bool,
    /// Migrations.
    pub migrations: bool,
    /// A group's CPU pressure.
    pub pressure: bool,
}

impl Unmeasured {
    /// Adds figures. A sum with an unmeasured term is unmeasured.
    pub fn add(&mut self, other: Self) {
        self.cpu |= other.cpu;
        self.switches |= other.switches;
        self.waits |= other.waits;
        self.migrations |= other.migrations;
        self.pressure |= other.pressure;
    }
}

/// Times and counts of tasks: `cpu_ns + run_delay_ns + sleeping_ns == life_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// On a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// Part of `cpu_ns` in the kernel: system calls, switches, interrupts.
    pub system_ns: u64,
    /// Runnable but not running, nanoseconds.
    pub run_delay_ns: u64,
    /// Asleep, or created but not started, nanoseconds.
    pub sleeping_ns: u64,
    /// From fork to exit, or to the end of the run, nanoseconds.
    pub life_ns: u64,
    /// Switches to sleep, block or exit (`nr_voluntary_switches`).
    pub voluntary: u64,
    /// Switches while runnable: preempted, end of slice, or, as in the kernel, yielded (`nr_involuntary_switches`).
    pub involuntary: u64,
    /// Moves to another CPU (`nr_migrations`), without the choice at fork.
    pub migrations: u64,
    /// Completed loops of its program.
    pub loops: u64,
    /// CPU work requested by loops, nanoseconds.
    pub loop_work_ns: u64,
    /// Waits beside an idle CPU.
    pub idle_waits: IdleWaits,
    /// Deadlines, if it ever was under SCHED_DEADLINE.
    pub deadline: Option<DeadlineCount>,
    /// Unknown figures.
    pub unmeasured: Unmeasured,
}

/// Deadlines of a SCHED_DEADLINE task. A job lasts from a wakeup to a sleep, yield or exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineCount {
    /// Jobs that ended after their deadline.
    pub misses: u64,
    /// The longest delay, nanoseconds.
    pub max_late_ns: u64,
    /// Waits for the next period after used-up runtime or a yield.
    pub throttled: u64,
    /// Signals for used-up runtime, if requested.
    pub overruns: u64,
}

impl DeadlineCount {
    fn add(&mut self, other: Self) {
        self.misses += other.misses;
        self.max_late_ns = self.max_late_ns.max(other.max_late_ns);
        self.throttled += other.throttled;
        self.overruns += other.overruns;
    }
}

impl Account {
    /// Returns all switches.
    pub const fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Adds another account.
    pub fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.system_ns += other.system_ns;
        self.run_delay_ns += other.run_delay_ns;
        self.sleeping_ns += other.sleeping_ns;
        self.life_ns += other.life_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations += other.migrations;
        self.loops += other.loops;
        self.loop_work_ns += other.loop_work_ns;
        self.idle_waits.count += other.idle_waits.count;
        self.idle_waits.total_ns += other.idle_waits.total_ns;
        self.idle_waits.worst_ns = self.idle_waits.worst_ns.max(other.idle_waits.worst_ns);
        if let Some(deadline) = other.deadline {
            self.deadline.get_or_insert_default().add(deadline);
        }
        self.unmeasured.add(other.unmeasured);
    }
}

/// A task. Latencies are `None` if nothing was recorded, and beyond the first [`DETAILED_TASKS`](crate::DETAILED_TASKS)
/// tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskResult {
    /// Unique name.
    pub name: String,
    /// Index of its class in [`Results::classes`].
    pub class: usize,
    /// Index of its last group in [`Results::groups`].
    pub group: usize,
    /// Nice value at the end.
    pub nice: i8,
    /// Policy at the end.
    pub policy: SchedPolicy,
    /// Real-time priority at the end, 1..=99; 0 for other policies.
    pub rt_priority: u8,
    /// Time of its fork, or of the start if it existed, nanoseconds.
    pub born_ns: u64,
    /// Whether it has exited.
    pub ended: bool,
    /// Time and counts.
    pub account: Account,
    /// From wakeup to running.
    pub wakeup_latency: Option<Latency>,
    /// Lateness of timed sleeps: timer, wakeup, wait for the CPU (`wakeup_latency_us` of recordings).
    pub sleep_return: Option<Latency>,
    /// Duration of its loops.
    pub loop_duration: Option<Latency>,
    /// Response times of its rounds, if measured.
    pub response: Option<Response>,
}

/// Response times of rounds ([`Sink::round_end`](vruntime_trace::Sink::round_end)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// From the due time of a round to its end.
    pub times: Latency,
    /// Rounds beyond [`Results::target_ns`]. 0 without a target.
    pub above_target: u64,
}

impl Response {
    /// Returns the share of rounds above the target, 0 to 1.
    pub fn above(&self) -> f64 {
        self.above_target as f64 / self.times.count.max(1) as f64
    }
}

/// All tasks of a class: instances of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Number of tasks over the run.
    pub tasks: usize,
    /// Index in [`Results::groups`] of the group of all its tasks. None if they are in several.
    pub group: Option<usize>,
    /// Sum over its tasks.
    pub account: Account,
    /// As [`TaskResult::wakeup_latency`].
    pub wakeup_latency: Option<Latency>,
    /// As [`TaskResult::sleep_return`].
    pub sleep_return: Option<Latency>,
    /// As [`TaskResult::loop_duration`].
    pub loop_duration: Option<Latency>,
    /// As [`TaskResult::response`].
    pub response: Option<Response>,
    /// Migrations by cause.
    pub migrations: MigrationCount,
}

impl ClassResult {
    /// Adds a task of a group.
    pub fn add(&mut self, group: usize, account: &Account) {
        let is_alike = self.tasks == 0 || self.group == Some(group);
        self.group = is_alike.then_some(group);
        self.tasks += 1;
        self.account.add(account);
    }

    /// Returns the lateness of timed sleeps. Returns the wakeup latency if they are less than a tenth of wakeups
    /// (timeouts that rarely expire).
    pub fn late(&self) -> Option<Latency> {
        late(self.wakeup_latency, self.sleep_return)
    }
}

/// Implements [`ClassResult::late`].
pub(crate) fn late(wakeup: Option<Latency>, sleep_return: Option<Latency>) -> Option<Latency> {
    let few = |sleeps: &Latency| wakeup.is_some_and(|wakeups| sleeps.count < wakeups.count / 10);
    sleep_return.filter(|sleeps| !few(sleeps)).or(wakeup)
}

impl Results {
    /// Returns the energy of all CPUs, microjoules. None if that of a CPU is unknown.
    pub fn energy_uj(&self) -> Option<u64> {
        if self.frequencies.is_empty() { None } else { self.frequencies.iter().map(|cpu| cpu.energy_uj).sum() }
    }

    /// Clears figures of loops, where they mean nothing.
    pub fn forget_loops(&mut self) {
        let accounts = self.tasks.iter_mut().map(|task| (&mut task.account, &mut task.loop_duration));
        let classes = self.classes.iter_mut().map(|class| (&mut class.account, &mut class.loop_duration));
        for (account, duration) in accounts.chain(classes) {
            (account.loops, account.loop_work_ns, *duration) = (0, 0, None);
        }
    }
}

/// A task group with its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResult {
    /// Absolute path; the root is `/`.
    pub path: String,
    /// Index of its parent in [`Results::groups`].
    pub parent: Option<usize>,
    /// `cpu.weight`. 0 for an idle group.
    pub weight: u32,
    /// `cpu.idle`.
    pub idle: bool,
    /// Guaranteed percent of the machine, as its weight (2.6.15-cpurc).
    pub guarantee: Option<u32>,
    /// Nice value of a session's autogroup, as its weight.
    pub nice: Option<i8>,
    /// Tasks whose last group is this one or a descendant.
    pub tasks: usize,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Part of it in the kernel, nanoseconds (`system_usec` of `cpu.stat`).
    pub system_ns: u64,
    /// Entitlement, nanoseconds: the CPU time of all tasks, divided at each level by the weights, limits and tasks of
    /// each moment. No group gets more than its limit, or than it ran and would have run in bursts that had to wait.
    /// Real-time and deadline tasks are entitled to their use. Affinities and whole CPUs are ignored.
    pub entitled_ns: u64,
    /// Run delay, nanoseconds.
    pub run_delay_ns: u64,
    /// Part of it during which another task of the group or of a descendant had the CPU, nanoseconds. None if unknown,
    /// as in saved results.
    pub own_delay_ns: Option<u64>,
    /// Switches away from its tasks.
    pub switches: u64,
    /// The scheduler's count of them, if it counts.
    pub counted_switches: Option<u64>,
    /// `cpu.pressure`.
    pub pressure: Pressure,
    /// Effect of its CPU limit, if it has one.
    pub limit: Option<LimitResult>,
    /// Its cpuset at the end, if it has one.
    pub cpuset: Option<CpusetResult>,
    /// Throttlings of real-time tasks by its limit, summed over CPUs. The root's limit is the machine's.
    pub nr_rt_throttled: u64,
    /// Their duration, nanoseconds.
    pub rt_throttled_ns: u64,
    /// Unknown figures.
    pub unmeasured: Unmeasured,
}

/// A group's cpuset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpusetResult {
    /// `cpuset.cpus.effective`, such as `0-3,6`.
    pub effective: String,
    /// `cpuset.cpus.partition`: `member`, `root invalid (Parent is not a partition root)`.
    pub partition: String,
}

/// Effect of a group's CPU limit, as in `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitResult {
    /// Last quota and period, nanoseconds. None if the limit was removed, or events lack them.
    pub max: Option<(u64, u64)>,
    /// Periods in which the limit's timer ran: it stops up to two periods after the group's last use.
    pub nr_periods: u64,
    /// Periods that ended throttled on some CPU.
    pub nr_throttled: u64,
    /// Throttled time summed over CPUs, nanoseconds. As in `cpu.stat`, a throttling counts when it ends.
    pub throttled_ns: u64,
    /// Periods with use above the quota.
    pub nr_bursts: u64,
    /// Use above the quota, nanoseconds.
    pub burst_ns: u64,
}

impl LimitResult {
    /// Adds throttled nanoseconds on a CPU.
    pub(crate) fn unthrottled(&mut self, ns: u64) {
        self.throttled_ns = self.throttled_ns.saturating_add(ns);
    }

    /// Ends periods. `burst`: use above the quota, nanoseconds.
    pub(crate) fn period(&mut self, periods: u32, throttled: bool, burst: u64) {
        self.nr_periods = self.nr_periods.saturating_add(periods.into());
        self.nr_throttled = self.nr_throttled.saturating_add(if throttled { periods.into() } else { 0 });
        self.nr_bursts += u64::from(burst > 0);
        self.burst_ns = self.burst_ns.saturating_add(burst);
    }
}

/// A line of `/proc/pressure/cpu` or `cpu.pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Averages of 10, 60 and 300 seconds in the kernel's fixed point: 2048 is 1 %.
    pub averages: [u64; 3],
    /// Total, nanoseconds: a mean over CPUs.
    pub total_ns: u64,
}

impl Stall {
    /// Returns averages in hundredths of a per cent, truncated as the kernel's.
    pub fn hundredths(&self) -> [u64; 3] {
        self.averages.map(|average| (average >> 11) * 100 + (((average & 2047) * 100) >> 11))
    }
}

/// `avg10=0.00 avg60=0.00 avg300=0.00 total=0`, with microseconds.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in ["avg10", "avg60", "avg300"].into_iter().zip(self.hundredths()) {
            write!(f, "{name}={}.{:02} ", value / 100, value % 100)?;
        }
        write!(f, "total={}", self.total_ns / 1000)
    }
}

/// CPU pressure, displayed as `/proc/pressure/cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// A task waited.
    pub some: Stall,
    /// Tasks waited, and none ran. 0 for the root.
    pub full: Stall,
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some {}\nfull {}\n", self.some, self.full)
    }
}

/// A CPU's attempts to pull tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceCount {
    /// Attempts.
    pub attempts: u64,
    /// Attempts that pulled a task.
    pub pulls: u64,
    /// Tasks pulled.
    pub tasks: u64,
}

/// A CPU: `busy_ns + overhead_ns + idle_ns` is the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuResult {
    /// Work of tasks, nanoseconds.
    pub busy_ns: u64,
    /// Overhead, nanoseconds: switches, ticks, interrupts, refilling caches.
    pub overhead_ns: u64,
    /// Idle, nanoseconds.
    pub idle_ns: u64,
    /// Time with all real-time tasks throttled, nanoseconds.
    pub rt_throttled_ns: u64,
    /// Time by the kernel's categories.
    pub times: CpuTimes,
    /// Switches between tasks, with the idle task.
    pub switches: u64,
    /// Balancing, by [`BalanceKind`].
    pub balance: [BalanceCount; 3],
}

/// Updates of a CPU's group loads by the balancer (3.10: `update_h_load`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupVisits {
    /// Number of updates.
    pub updates: u64,
    /// Visits to groups.
    pub groups: u64,
    /// Visits to groups without a task on that CPU.
    pub idle: u64,
}

impl CpuResult {
    /// Returns balancing of one kind.
    pub const fn balance(&self, kind: BalanceKind) -> BalanceCount {
        self.balance[kind as usize]
    }

    /// Returns balancing of all kinds.
    pub fn balance_total(&self) -> BalanceCount {
        self.balance.iter().fold(BalanceCount::default(), |sum, count| BalanceCount {
            attempts: sum.attempts + count.attempts,
            pulls: sum.pulls + count.pulls,
            tasks: sum.tasks + count.tasks,
        })
    }
}

const CAUSES: [MigrateCause; 13] = [
    MigrateCause::Wakeup,
    MigrateCause::Fork,
    MigrateCause::Exec,
    MigrateCause::Periodic,
    MigrateCause::NewIdle,
    MigrateCause::NohzIdle,
    MigrateCause::Active,
    MigrateCause::Affinity,
    MigrateCause::Hotplug,
    MigrateCause::RtPush,
    MigrateCause::RtPull,
    MigrateCause::DlPush,
    MigrateCause::DlPull,
];

/// Migrations by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCount([u64; CAUSES.len()]);

impl MigrationCount {
    /// Returns the number with this cause.
    pub const fn get(&self, cause: MigrateCause) -> u64 {
        self.0[cause as usize]
    }

    /// Returns every cause with its name in JSON and tables, and count.
    pub fn iter(&self) -> impl Iterator<Item = (MigrateCause, &'static str, u64)> + '_ {
        CAUSES.into_iter().map(|cause| (cause, cause_name(cause), self.get(cause)))
    }

    #[inline]
    pub(crate) fn count(&mut self, cause: MigrateCause) {
        self.0[cause as usize] += 1;
    }
}

pub(crate) const fn cause_name(cause: MigrateCause) -> &'static str {
    match cause {
        MigrateCause::Wakeup => "wakeup",
        MigrateCause::Fork => "fork",
        MigrateCause::Exec => "exec",
        MigrateCause::Periodic => "periodic",
        MigrateCause::NewIdle => "newidle",
        MigrateCause::NohzIdle => "nohz_idle",
        MigrateCause::Active => "active",
        MigrateCause::Affinity => "affinity",
        MigrateCause::Hotplug => "hotplug",
        MigrateCause::RtPush => "rt_push",
        MigrateCause::RtPull => "rt_pull",
        MigrateCause::DlPush => "dl_push",
        MigrateCause::DlPull => "dl_pull",
    }
}

/// A share of a class, perhaps in one group, that differs between the last quarter and the whole run. It is the part in
/// the CPU time of tasks that always wanted a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The class, with its group if it is in several.
    pub name: String,
    /// Share of the whole run, millionths.
    pub whole_ppm: u32,
    /// Share in the last quarter, millionths.
    pub last_ppm: u32,
}

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Length of the run, nanoseconds.
    pub elapsed_ns: u64,
    /// Rounds with a longer response time are counted, nanoseconds.
    pub target_ns: Option<u64>,
    /// By task id.
    pub tasks: Vec<TaskResult>,
    /// In order of first appearance.
    pub classes: Vec<ClassResult>,
    /// By group id, with the root first.
    pub groups: Vec<GroupResult>,
    /// By CPU id.
    pub cpus: Vec<CpuResult>,
    /// Sum over all tasks.
    pub account: Account,
    /// Migrations by cause.
    pub migrations: MigrationCount,
    /// From wakeup to running.
    pub wakeup_latency: Option<Latency>,
    /// Work conservation. None without scheduling domains.
    pub conservation: Option<Conservation>,
    /// Frequencies of CPUs with a governor.
    pub frequencies: Vec<CpuFrequency>,
    /// Time in which a CPU had less than a fifth of its capacity free, so that wakeups ignored energy, nanoseconds.
    /// None if they always do.
    pub overutilized_ns: Option<u64>,
    /// Load averages at the end. None without [`Sink::totals`](vruntime_trace::Sink::totals).
    pub loadavg: Option<LoadAvg>,
    /// The balancer's work on group loads (3.10 with balancing).
    pub h_load: Option<GroupVisits>,
    /// Unsettled shares of tasks that always wanted a CPU, by decreasing change.
    pub unsettled: Vec<Unsettled>,
    /// Switches to a task that slept or had ended: events are missing, or the scheduler is wrong. 0 for simulations.
    pub unexplained: u64,
}

impl TaskResult {
    /// Returns the kernel's `prio` at the end, -1 to 139, without inheritance ([`SchedPolicy::prio`]).
    pub fn prio(&self) -> i16 {
        self.policy.prio(self.nice, self.rt_priority)
    }
}

impl Results {
    /// Returns `ns` as a share of a CPU's time. 0 for an empty run.
    pub fn share(&self, ns: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { ns as f64 / self.elapsed_ns as f64 }
    }

    /// Returns a count per second.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Returns the sum over CPUs.
    pub fn machine(&self) -> CpuResult {
        let mut sum = CpuResult::default();
        for cpu in &self.cpus {
            sum.busy_ns += cpu.busy_ns;
            sum.overhead_ns += cpu.overhead_ns;
            sum.idle_ns += cpu.idle_ns;
            sum.rt_throttled_ns += cpu.rt_throttled_ns;
            sum.times.add(&cpu.times);
            sum.switches += cpu.switches;
            for (total, count) in sum.balance.iter_mut().zip(cpu.balance) {
                total.attempts += count.attempts;
                total.pulls += count.pulls;
                total.tasks += count.tasks;
            }
        }
        sum
    }

    /// Returns a note on [`Results::unsettled`]. None if empty.
    pub fn unsettled_note(&self) -> Option<String> {
        const NAMED: usize = 3;
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        let named = self.unsettled.iter().take(NAMED).map(|share| {
            let (whole, last) = (percent(share.whole_ppm), percent(share.last_ppm));
            format!("{} {whole:.1} % over the run, {last:.1} % in its last quarter", share.name)
        });
        let more = self.unsettled.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("{more} more"));
        let named = named.chain(more).collect::<Vec<String>>().join("; ");
        (!self.unsettled.is_empty()).then(|| {
            format!(
                "shares still changed at the end of the run. Parts of the CPU time of tasks that always wanted a CPU: {named}. In a longer \
                 run (--duration), shares approach the entitlements"
            )
        })
    }

    /// Finds a class by name.
    pub fn class(&self, name: &str) -> Option<&ClassResult> {
        self.classes.iter().find(|class| class.name == name)
    }
}
