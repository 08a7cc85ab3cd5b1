//! What came out of a run: plain data, exact to the nanosecond.

use std::fmt;

use vruntime_trace::{BalanceKind, LoadAvg, MigrateCause, SchedPolicy};

use crate::cputime::CpuTimes;
use crate::frequency::CpuFrequency;
use crate::latency::Latency;

/// Excessive waits: for more than a balance interval, a CPU that the task may run on was idle throughout.
///
/// The balance interval is that of the lowest scheduling domain with the idle CPU and the task's: the longest time
/// between two balances of an idle CPU there (`max_interval`), in whole ticks and a tick more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleWaits {
    /// How many waits.
    pub count: u64,
    /// What they went on beyond the balance interval, nanoseconds.
    pub total_ns: u64,
    /// The most that one wait did, nanoseconds.
    pub worst_ns: u64,
}

/// The worst of all [`IdleWaits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstIdleWait {
    /// The waiting task: index in [`Results::tasks`].
    pub task: usize,
    /// The CPU it waited on at the end.
    pub cpu: u32,
    /// When the wait began, nanoseconds.
    pub since: u64,
    /// When it ended, nanoseconds.
    pub at: u64,
    /// What of it was too long, nanoseconds.
    pub ns: u64,
}

/// Work conservation: no CPU should stay idle for longer than a balance interval while a task that may run there waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conservation {
    /// The shortest balance interval of two CPUs of the machine, nanoseconds.
    pub least_interval_ns: u64,
    /// The longest one, nanoseconds.
    pub most_interval_ns: u64,
    /// The worst wait beyond it, if there was any.
    pub worst: Option<WorstIdleWait>,
}

/// Figures of a task, of several, or of a group that are 0 because they were not measured, at least in part. A
/// simulation measures all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmeasured {
    /// Run delays, and with them how long it slept.
    pub waits: bool,
    /// Migrations.
    pub migrations: bool,
    /// A group's CPU pressure.
    pub pressure: bool,
}

impl Unmeasured {
    /// Of a sum is not known what is not of a part of it.
    pub fn add(&mut self, other: Self) {
        self.waits |= other.waits;
        self.migrations |= other.migrations;
        self.pressure |= other.pressure;
    }
}

/// The time and the counts of one task, or the sum of them over several.
///
/// Always: `cpu_ns + run_delay_ns + sleeping_ns == life_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// On a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// In the kernel, of `cpu_ns`: system calls, switches and the interrupts that hit it, nanoseconds.
    pub system_ns: u64,
    /// Runnable but not running, nanoseconds.
    pub run_delay_ns: u64,
    /// Neither, nanoseconds: asleep, or created but not yet started.
    pub sleeping_ns: u64,
    /// From fork to exit, or to the end of the run, nanoseconds.
    pub life_ns: u64,
    /// Switches away by its own doing: it slept, blocked or exited (`nr_voluntary_switches`).
    pub voluntary: u64,
    /// Switches away while it could have run on: preempted, slice ended, or yielded (`nr_involuntary_switches`). The
    /// kernel counts a `sched_yield` that gives way here, not among the voluntary ones.
    pub involuntary: u64,
    /// Moves to another CPU, as `nr_migrations` counts them: the choice of a CPU at fork is not one.
    pub migrations: u64,
    /// Completed loops of its program.
    pub loops: u64,
    /// CPU work those loops asked for, nanoseconds.
    pub loop_work_ns: u64,
    /// Waits beyond a balance interval beside an idle CPU.
    pub idle_waits: IdleWaits,
    /// What became of its deadlines, if it ever was under SCHED_DEADLINE.
    pub deadline: Option<DeadlineCount>,
    /// What of all that is not known.
    pub unmeasured: Unmeasured,
}

/// Deadlines of a SCHED_DEADLINE task, as the scheduler counts them: a job begins at a wakeup and ends at a sleep,
/// yield or exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineCount {
    /// Jobs that ended after their deadline.
    pub misses: u64,
    /// How late the latest was, nanoseconds.
    pub max_late_ns: u64,
    /// How often it had used up its runtime, or yielded, and had to wait for its next period.
    pub throttled: u64,
    /// Signals for a used-up runtime; 0 if it did not request any.
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
    /// Voluntary and involuntary switches.
    pub const fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Adds another account to this one.
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

/// One task. The latencies are `None` where nothing was recorded, and for all tasks beyond the first
/// [`DETAILED_TASKS`](crate::DETAILED_TASKS), whose times are in their class only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskResult {
    /// Its name; unique in the run.
    pub name: String,
    /// Index of its class in [`Results::classes`].
    pub class: usize,
    /// Index of its group, the last it was in, in [`Results::groups`].
    pub group: usize,
    /// Its nice value at the end.
    pub nice: i8,
    /// Its policy at the end.
    pub policy: SchedPolicy,
    /// Its real-time priority at the end, 1..=99; 0 if it is no real-time task.
    pub rt_priority: u8,
    /// When its life began, nanoseconds: it was forked, or, if it was there before it started, the run began.
    pub born_ns: u64,
    /// It has exited.
    pub ended: bool,
    /// Time and counts.
    pub account: Account,
    /// From wakeup to running.
    pub wakeup_latency: Option<Latency>,
    /// How late timed sleeps returned: timer, wakeup and wait for the CPU together. This is what a program sees, and
    /// what the recordings call `wakeup_latency_us`.
    pub sleep_return: Option<Latency>,
    /// Duration of its loops.
    pub loop_duration: Option<Latency>,
    /// How long its rounds took, from when they were due; none if it had none, or if the host does not
    /// measure them.
    pub response: Option<Response>,
}

/// Response times of rounds ([`Sink::round_end`](vruntime_trace::Sink::round_end)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// From when a round was due until it was done.
    pub times: Latency,
    /// How many rounds took longer than [`Results::target_ns`]; 0 if there is no target.
    pub above_target: u64,
}

impl Response {
    /// Returns the share of rounds that took longer than the target, 0 to 1.
    pub fn above(&self) -> f64 {
        self.above_target as f64 / self.times.count.max(1) as f64
    }
}

/// All tasks of one class: instances of the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// How many tasks have been.
    pub tasks: usize,
    /// Sum over its tasks.
    pub account: Account,
    /// From wakeup to running, over all its tasks.
    pub wakeup_latency: Option<Latency>,
    /// How late timed sleeps returned, over all its tasks.
    pub sleep_return: Option<Latency>,
    /// Duration of loops, over all its tasks.
    pub loop_duration: Option<Latency>,
    /// How long rounds took, over all its tasks.
    pub response: Option<Response>,
    /// Moves by cause.
    pub migrations: MigrationCount,
}

impl ClassResult {
    /// How late its tasks are: what a program sees whose sleeps are timed, else the wait that follows its wakeups. Few
    /// timed sleeps among many wakeups, timeouts that have nearly never come, are no measure of it.
    pub fn late(&self) -> Option<Latency> {
        late(self.wakeup_latency, self.sleep_return)
    }
}

/// The rule of [`ClassResult::late`].
pub(crate) fn late(wakeup: Option<Latency>, sleep_return: Option<Latency>) -> Option<Latency> {
    let few = |sleeps: &Latency| wakeup.is_some_and(|wakeups| sleeps.count < wakeups.count / 10);
    sleep_return.filter(|sleeps| !few(sleeps)).or(wakeup)
}

impl Results {
    /// What the machine's CPUs took while they were busy, microjoules; none if that is not known of any of them.
    pub fn energy_uj(&self) -> Option<u64> {
        if self.frequencies.is_empty() { None } else { self.frequencies.iter().map(|cpu| cpu.energy_uj).sum() }
    }

    /// Leaves out what is known of loops, where they mean nothing.
    pub fn forget_loops(&mut self) {
        let accounts = self.tasks.iter_mut().map(|task| (&mut task.account, &mut task.loop_duration));
        let classes = self.classes.iter_mut().map(|class| (&mut class.account, &mut class.loop_duration));
        for (account, duration) in accounts.chain(classes) {
            (account.loops, account.loop_work_ns, *duration) = (0, 0, None);
        }
    }
}

/// One task group, with everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResult {
    /// Absolute path; the root is `/`.
    pub path: String,
    /// Index of its parent in [`Results::groups`].
    pub parent: Option<usize>,
    /// `cpu.weight`; 0 of an idle group.
    pub weight: u32,
    /// `cpu.idle`: its tasks get the time that other tasks leave.
    pub idle: bool,
    /// Percent of the machine it is guaranteed, which is its weight then (2.6.15-cpurc).
    pub guarantee: Option<u32>,
    /// Of a session's autogroup its nice value, which is its weight then.
    pub nice: Option<i8>,
    /// Tasks whose last group is this one or one below it.
    pub tasks: usize,
    /// CPU time of its tasks and of the groups below, nanoseconds.
    pub cpu_ns: u64,
    /// In the kernel, of that, nanoseconds (`system_usec` of `cpu.stat`); the rest is `user_usec`.
    pub system_ns: u64,
    /// Its entitlement, nanoseconds: the CPU time of all tasks, divided level by level in proportion to weight, by the
    /// weights, limits and tasks of each moment. No group gets more than its demand (the time it ran, and the rest of
    /// bursts that had to wait) or its limit. Real-time and deadline tasks are entitled to the time they used.
    /// Affinities, and the granularity of whole CPUs, are ignored.
    pub entitled_ns: u64,
    /// Run delay of its tasks and of the groups below, nanoseconds.
    pub run_delay_ns: u64,
    /// Switches away from its tasks, groups below included.
    pub switches: u64,
    /// The same as the scheduler counted it, where it was asked to.
    pub counted_switches: Option<u64>,
    /// How much of the time its tasks, groups below included, waited for a CPU (`cpu.pressure`).
    pub pressure: Pressure,
    /// What its own CPU limit did, if it has one.
    pub limit: Option<LimitResult>,
    /// Its CPUs at the end, if it has a cpuset of its own.
    pub cpuset: Option<CpusetResult>,
    /// How often its real-time tasks were throttled, by its own limit of them; the root's is the machine's. Summed over
    /// CPUs.
    pub nr_rt_throttled: u64,
    /// For how long, nanoseconds, summed over CPUs.
    pub rt_throttled_ns: u64,
    /// What of all that is not known.
    pub unmeasured: Unmeasured,
}

/// A group's cpuset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpusetResult {
    /// `cpuset.cpus.effective`, such as `0-3,6`.
    pub effective: String,
    /// `cpuset.cpus.partition`, such as `member` or `root invalid (Parent is not a partition root)`.
    pub partition: String,
}

/// What a group's CPU limit did: `cpu.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitResult {
    /// Quota and period it began with, nanoseconds; none if the events came without.
    pub max: Option<(u64, u64)>,
    /// Periods that passed while anything of the group ran or waited.
    pub nr_periods: u64,
    /// Those at whose end it was throttled on some CPU.
    pub nr_throttled: u64,
    /// How long it was throttled, nanoseconds, summed over CPUs. As in `cpu.stat`, a throttling counts when it ends.
    pub throttled_ns: u64,
    /// Periods in which it used more than its quota.
    pub nr_bursts: u64,
    /// How much more, nanoseconds.
    pub burst_ns: u64,
}

impl LimitResult {
    /// Adds `ns` nanoseconds of throttling on a CPU.
    pub(crate) fn unthrottled(&mut self, ns: u64) {
        self.throttled_ns = self.throttled_ns.saturating_add(ns);
    }

    /// Ends periods, with the group throttled on a CPU or not, and `burst` nanoseconds above the quota.
    pub(crate) fn period(&mut self, periods: u32, throttled: bool, burst: u64) {
        self.nr_periods = self.nr_periods.saturating_add(periods.into());
        self.nr_throttled = self.nr_throttled.saturating_add(if throttled { periods.into() } else { 0 });
        self.nr_bursts += u64::from(burst > 0);
        self.burst_ns = self.burst_ns.saturating_add(burst);
    }
}

/// One line of `/proc/pressure/cpu` or `cpu.pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Averages of 10, 60 and 300 seconds in the kernel's fixed point: 2048 is 1 %.
    pub averages: [u64; 3],
    /// All of the time, nanoseconds: a mean over the CPUs, so at most the length of the run.
    pub total_ns: u64,
}

impl Stall {
    /// `avg10`, `avg60` and `avg300` in hundredths of a per cent, cut off as the kernel does.
    pub fn hundredths(&self) -> [u64; 3] {
        self.averages.map(|average| (average >> 11) * 100 + (((average & 2047) * 100) >> 11))
    }
}

/// `avg10=0.00 avg60=0.00 avg300=0.00 total=0`, the total in microseconds.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in ["avg10", "avg60", "avg300"].into_iter().zip(self.hundredths()) {
            write!(f, "{name}={}.{:02} ", value / 100, value % 100)?;
        }
        write!(f, "total={}", self.total_ns / 1000)
    }
}

/// Pressure on the CPUs. Its text is that of `/proc/pressure/cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited.
    pub some: Stall,
    /// No task of the group ran while some waited: others had the CPU. 0 for the root, where it has no meaning.
    pub full: Stall,
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some {}\nfull {}\n", self.some, self.full)
    }
}

/// How often a CPU looked for work to pull, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceCount {
    /// Attempts.
    pub attempts: u64,
    /// Attempts that pulled at least one task.
    pub pulls: u64,
    /// Tasks pulled.
    pub tasks: u64,
}

/// One CPU. Always: `busy_ns + overhead_ns + idle_ns == ` the run's elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuResult {
    /// Doing tasks' work, nanoseconds.
    pub busy_ns: u64,
    /// In the kernel on the scheduler's behalf: switches, ticks, interrupts, refilling caches; nanoseconds.
    pub overhead_ns: u64,
    /// Idle, nanoseconds.
    pub idle_ns: u64,
    /// The time in which all real-time tasks were throttled here, nanoseconds, whether other tasks ran or not.
    pub rt_throttled_ns: u64,
    /// The same time in the kernel's words.
    pub times: CpuTimes,
    /// Switches from one task to another, the idle task included.
    pub switches: u64,
    /// Balancing, by [`BalanceKind`]: busy, idle, newly idle.
    pub balance: [BalanceCount; 3],
}

/// How often the balancer computed what all groups weigh on a CPU (3.10: `update_h_load`), and what it visited for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupVisits {
    /// How often.
    pub updates: u64,
    /// Visits to groups.
    pub groups: u64,
    /// Those to groups without a task on that CPU.
    pub idle: u64,
}

impl CpuResult {
    /// Balancing of one kind.
    pub const fn balance(&self, kind: BalanceKind) -> BalanceCount {
        self.balance[kind as usize]
    }

    /// Balancing of every kind.
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
    /// How many had this cause.
    pub const fn get(&self, cause: MigrateCause) -> u64 {
        self.0[cause as usize]
    }

    /// Every cause with its count and its name in JSON and tables.
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

/// A share that had not settled: in the last quarter of the run it was another than over the whole run. Of all tasks
/// that always wanted a CPU, it is what those of one class, or of one class in one group, got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The class, and the group where it is in several.
    pub name: String,
    /// The share over the whole run, millionths.
    pub whole_ppm: u32,
    /// The share in the last quarter of the run, millionths.
    pub last_ppm: u32,
}

/// Everything that came out of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Length of the run, nanoseconds.
    pub elapsed_ns: u64,
    /// The response time above which rounds are counted, nanoseconds; none if there is no target.
    pub target_ns: Option<u64>,
    /// By task id.
    pub tasks: Vec<TaskResult>,
    /// In order of first appearance.
    pub classes: Vec<ClassResult>,
    /// By group id; the root first.
    pub groups: Vec<GroupResult>,
    /// By CPU id.
    pub cpus: Vec<CpuResult>,
    /// Sum over all tasks.
    pub account: Account,
    /// All moves by cause.
    pub migrations: MigrationCount,
    /// From wakeup to running, over all tasks.
    pub wakeup_latency: Option<Latency>,
    /// Whether work was conserved; none if the stream does not tell the machine's scheduling domains, or it has none.
    pub conservation: Option<Conservation>,
    /// The frequencies of each CPU that has a governor; empty if none has.
    pub frequencies: Vec<CpuFrequency>,
    /// The time in which a CPU had less than a fifth of its capacity free, so that wakeups ignored energy, nanoseconds.
    /// None if they always do.
    pub overutilized_ns: Option<u64>,
    /// The load averages at the end; none of a stream that does not tell them
    /// ([`Sink::totals`](vruntime_trace::Sink::totals)).
    pub loadavg: Option<LoadAvg>,
    /// What the balancer of 3.10 did for the weights of groups; none under other kernels, or without balancing.
    pub h_load: Option<GroupVisits>,
    /// The shares of tasks that always wanted a CPU that had not settled when the run ended, from the one that moved
    /// most.
    pub unsettled: Vec<Unsettled>,
    /// The number of switches to a task that slept or had ended by the known events: events are missing, or the
    /// scheduler is wrong. 0 for every run of the simulator.
    pub unexplained: u64,
}

impl TaskResult {
    /// The kernel's `prio` at the end, -1 to 139, without what it was lent: see [`SchedPolicy::prio`].
    pub fn prio(&self) -> i16 {
        self.policy.prio(self.nice, self.rt_priority)
    }
}

impl Results {
    /// `ns` as a share of one CPU's time over the whole run: 1.0 is one CPU all along. 0 for a run of no length.
    pub fn share(&self, ns: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { ns as f64 / self.elapsed_ns as f64 }
    }

    /// A count as a rate, per second of the run.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Sum over the CPUs.
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

    /// Returns a note on shares that had not settled when the run ended; none if all had.
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

    /// A class by its name.
    pub fn class(&self, name: &str) -> Option<&ClassResult> {
        self.classes.iter().find(|class| class.name == name)
    }
}
