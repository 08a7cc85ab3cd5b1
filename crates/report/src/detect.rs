//! Detects lasting violations of work conservation: CPUs that idle while tasks that may run there wait elsewhere.
//!
//! *Wasted* CPUs are pairs of a waiting task and an idle CPU that may run it. Throttled tasks, and CPUs with a task on
//! its way, do not count. Short waste is normal, since balancing works in intervals and steps. So waste is averaged
//! over windows of at least 100 ms and four of the longest balance intervals. A violation has more waste than
//! [`tolerated`] in three successive windows, and in the third at least three quarters of the first. Tasks may
//! alternate, so each wait can be short.
//!
//! "A Decade of Wasted Cores" (Lozi et al., EuroSys 2016) checks once a second and confirms after 100 ms. Here windows
//! cover the whole run, and their length follows the machine.
//!
//! The domains that the two CPUs share, and how the tasks came to wait, select one of the paper's four patterns. A
//! fifth is newer: wakeups treat a CPU with only SCHED_IDLE tasks as idle (`sched_idle_cpu`).

mod sink;

use std::collections::BTreeMap;

use serde::Serialize;
use vruntime_trace::{CpuId, CpuMask, DomainInfo, TaskId};

use crate::throttle_state::ThrottleState;
use crate::violation::{Pattern, Side, Violation, cpu_list};

/// The shortest window, nanoseconds: the paper's time of confirmation.
const LEAST_WINDOW_NS: u64 = 100_000_000;
/// The shortest window in longest balance intervals: balancing 8 waiting tasks takes 4 steps.
const INTERVALS: u64 = 4;
const MOST: usize = 64;

/// Longest delay of balancing after a CPU met only pinned tasks, nanoseconds (`MAX_PINNED_INTERVAL`).
const PINNED_NS: u64 = 512_000_000;

/// Effective balancing leaves less than this factor two windows later.
const SLOWLY: f64 = 0.75;

/// Returns the tolerated mean of tasks beside idle CPUs in a window. A wakeup searches only part of one last-level
/// cache. On small machines the bound is most of a CPU. There, short tasks that keep eight CPUs 85 to 90 % busy leave
/// half a task waiting beside an idle CPU.
fn tolerated(cpus: usize) -> f64 {
    (cpus as f64 / 20.0).max(0.75)
}

/// Findings of a detector.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Detected {
    /// Length of a window, nanoseconds. Shorter runs have no findings.
    pub window_ns: u64,
    /// Complete windows.
    pub windows: u64,
    /// The highest mean of tasks that waited beside an idle CPU in a window.
    pub wasted_cpus: f64,
    /// The first 64 violations, in order of time.
    pub violations: Vec<Violation>,
    /// Number of further violations.
    pub more: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Asleep,
    Waiting,
    /// Throttled: its group's limit, the real-time limit, or its runtime is used up.
    Throttled,
    Running,
}

/// Whether a task was woken on its CPU, and not moved since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Woken {
    #[default]
    Elsewhere,
    Here,
    /// The CPU ran a SCHED_IDLE task, and the woken task is of another policy.
    BesideSchedIdle,
}

#[derive(Clone, Debug, Default)]
struct Task {
    name: String,
    state: State,
    cpu: u32,
    /// Index of allowed CPUs in `masks`.
    affinity: u32,
    /// Index in `masks` of allowed CPUs within reach of balancing.
    mask: u32,
    since: u64,
    waited: u64,
    woken: Woken,
    sched_idle: bool,
    /// Whether its wait began when a task of another policy, woken on its CPU, preempted it, or one that is `exiled`.
    /// Only for SCHED_IDLE.
    displaced: bool,
    /// Whether balancing moved it, displaced, to a CPU that ran another SCHED_IDLE task, and not away since. Only for
    /// SCHED_IDLE.
    exiled: bool,
}

impl Task {
    fn place(&self) -> Place {
        Place { state: self.state, cpu: self.cpu as usize, mask: self.mask }
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    cpu: usize,
    /// Index in `masks` of CPUs to which it may move.
    mask: u32,
}

/// Waiting tasks of one affinity on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    count: u32,
    since: u64,
    /// Time in this window with such a task.
    total: u64,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    idle_since: Option<u64>,
    running: Option<TaskId>,
    offline: bool,
    /// Waiting tasks. On an idle CPU they are about to run, and do not count.
    waiting: u32,
    /// Whether it is idle with no task on its way.
    spare: bool,
    idle: u64,
    /// By affinity.
    queues: BTreeMap<u32, Queue>,
    /// Wait time in this window, and that of tasks woken here.
    waited: u64,
    waited_woken: u64,
    /// Wait time of displaced SCHED_IDLE tasks, and of tasks woken beside SCHED_IDLE tasks.
    waited_sched_idle: u64,
    /// Findings of a task to move in this window, by level.
    found: Vec<u32>,
}

/// Identifies findings across windows: the domain, and the first CPU of the waiting tasks' group.
type Key = (Option<u32>, u32);

/// Finds violations in a run, as a [`Sink`](vruntime_trace::Sink).
#[derive(Clone, Debug, Default)]
pub struct Detector {
    now: u64,
    start: u64,
    detected: Detected,
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    domains: Vec<DomainInfo>,
    /// Each CPU's domains, lowest first.
    chains: Vec<Vec<u32>>,
    masks: Vec<Option<CpuMask>>,
    /// CPUs that each CPU is balanced with, if not all: its root domain's, or itself if isolated.
    reach: Vec<CpuMask>,
    /// Intersections of `masks` and `reach`, by mask and the reach's first CPU.
    within: BTreeMap<(u32, u32), u32>,
    /// Each mask's supersets, with itself.
    wider: Vec<Vec<u32>>,
    /// Each mask's spare CPUs, and its tasks that wait on busy CPUs.
    spare: Vec<u32>,
    wanting: Vec<u32>,
    /// Sums over CPUs and tasks.
    all_spare: u32,
    all_wanting: u32,
    /// Integral over this window of [`wasted_now`](Self::wasted_now).
    wasted: u64,
    throttle_state: ThrottleState,
    /// Findings of the last window with their indices in the list. `None`: only counted.
    ongoing: BTreeMap<Key, Option<usize>>,
    /// CPUs wasted in the last two windows.
    before: [f64; 2],
    /// Until then, a changed affinity may go unnoticed.
    unnoticed_until: u64,
}

impl Detector {
    /// Creates a detector for a new run.
    pub fn new() -> Self {
        Self { masks: vec![None], wider: vec![vec![0]], spare: vec![0], wanting: vec![0], ..Self::default() }
    }

    /// Returns the findings.
    pub fn into_detected(self) -> Detected {
        self.detected
    }

    fn task_mut(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::default);
        }
        &mut self.tasks[task.index()]
    }

    fn cpu_mut(&mut self, cpu: usize) -> &mut Cpu {
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        &mut self.cpus[cpu]
    }

    fn account_wait(&mut self, task: TaskId) {
        let now = self.now;
        let it = &mut self.tasks[task.index()];
        let waited = now - it.since;
        it.since = now;
        it.waited += waited;
        let (cpu, woken) = (it.cpu as usize, it.woken != Woken::Elsewhere);
        let by_sched_idle = it.displaced || it.exiled || it.woken == Woken::BesideSchedIdle;
        let cpu = self.cpu_mut(cpu);
        cpu.waited += waited;
        cpu.waited_sched_idle += if by_sched_idle { waited } else { 0 };
        cpu.waited_woken += if woken && !by_sched_idle { waited } else { 0 };
    }

    fn enter(&mut self, task: TaskId, state: State, cpu: CpuId) {
        let before = self.task_mut(task).place();
        if before.state == State::Waiting {
            self.account_wait(task);
            self.leave_queue(before.cpu, before.mask);
        }
        let is_throttled = state == State::Waiting && self.throttle_state.is_throttled(task, cpu);
        let state = if is_throttled { State::Throttled } else { state };
        let mask = self.within_reach(self.tasks[task.index()].affinity, cpu);
        let since = self.now;
        let it = &mut self.tasks[task.index()];
        (it.state, it.cpu, it.since, it.mask) = (state, cpu.0, since, mask);
        if state == State::Waiting {
            self.join_queue(cpu.index(), mask);
        }
    }

    fn leave_queue(&mut self, cpu: usize, mask: u32) {
        let now = self.now;
        let it = self.cpu_mut(cpu);
        let busy = it.idle_since.is_none();
        it.waiting = it.waiting.saturating_sub(1);
        let queue = it.queues.entry(mask).or_default();
        queue.count = queue.count.saturating_sub(1);
        if queue.count == 0 {
            queue.total += now - queue.since;
        }
        if busy {
            self.want(mask, -1);
        }
        self.update_spare(cpu);
    }

    fn join_queue(&mut self, cpu: usize, mask: u32) {
        let now = self.now;
        let it = self.cpu_mut(cpu);
        let busy = it.idle_since.is_none();
        it.waiting += 1;
        let queue = it.queues.entry(mask).or_default();
        if queue.count == 0 {
            queue.since = now;
        }
        queue.count += 1;
        if busy {
            self.want(mask, 1);
        }
        self.update_spare(cpu);
    }

    /// Returns the index in `masks` of an affinity's CPUs within reach of `cpu`.
    fn within_reach(&mut self, affinity: u32, cpu: CpuId) -> u32 {
        let Some(reach) = self.reach.get(cpu.index()) else { return affinity };
        let key = (affinity, reach.first().map_or(cpu.0, |first| first.0));
        if let Some(&known) = self.within.get(&key) {
            return known;
        }
        let both = match &self.masks[affinity as usize] {
            None => reach.clone(),
            Some(mask) => mask.and(reach),
        };
        let mask = self.mask(Some(&both));
        self.within.insert(key, mask);
        mask
    }

    fn mask(&mut self, cpus: Option<&CpuMask>) -> u32 {
        let known = self.masks.iter().position(|mask| mask.as_ref() == cpus);
        known.unwrap_or_else(|| {
            self.new_mask(cpus.cloned());
            self.masks.len() - 1
        }) as u32
    }

    /// Adds `more` to this mask's tasks that wait on busy CPUs.
    fn want(&mut self, mask: u32, more: i32) {
        let wanting = &mut self.wanting[mask as usize];
        *wanting = wanting.saturating_add_signed(more);
        self.all_wanting = self.all_wanting.saturating_add_signed(more);
    }

    /// Updates whether a CPU is spare.
    fn update_spare(&mut self, cpu: usize) {
        let it = &mut self.cpus[cpu];
        let spare = it.idle_since.is_some() && !it.offline && it.waiting == 0;
        if std::mem::replace(&mut it.spare, spare) == spare {
            return;
        }
        let more = if spare { 1 } else { -1 };
        let id = CpuId(cpu as u32);
        for (mask, count) in self.masks.iter().zip(&mut self.spare) {
            if allows(mask.as_ref(), id) {
                *count = count.saturating_add_signed(more);
            }
        }
        self.all_spare = self.all_spare.saturating_add_signed(more);
    }

    /// Sets a CPU idle or busy. Waiting tasks count only on a busy CPU.
    fn set_idle(&mut self, cpu: usize, idle: bool) {
        let now = self.now;
        let it = self.cpu_mut(cpu);
        if idle == it.idle_since.is_some() {
            return;
        }
        if idle {
            it.idle_since = Some(now);
        } else {
            it.idle += it.idle_since.take().map_or(0, |since| now - since);
        }
        let queues: Vec<(u32, u32)> = it.queues.iter().map(|(&mask, queue)| (mask, queue.count)).collect();
        for (mask, count) in queues {
            self.want(mask, if idle { -(count as i32) } else { count as i32 });
        }
        self.update_spare(cpu);
    }

    /// Checks which waiting tasks of a CPU are throttled.
    fn recheck_throttling_on(&mut self, cpu: CpuId) {
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            if task.cpu == cpu.0 && matches!(task.state, State::Waiting | State::Throttled) {
                self.enter(TaskId(index as u32), State::Waiting, cpu);
            }
        }
    }

    /// Checks whether a waiting task is throttled.
    fn recheck_throttling(&mut self, task: TaskId) {
        let Place { state, cpu, .. } = self.task_mut(task).place();
        if matches!(state, State::Waiting | State::Throttled) {
            self.enter(task, State::Waiting, CpuId(cpu as u32));
        }
    }

    /// Returns the number of wasted CPUs. Each waiting task's affinity has tasks that may use all its CPUs, and spare
    /// CPUs. The smaller number counts, for the affinity where it is largest.
    fn wasted_now(&self) -> u32 {
        if self.all_spare == 0 || self.all_wanting == 0 {
            return 0;
        }
        let sets = (0..self.masks.len()).filter(|&set| self.wanting[set] > 0);
        let of = |set: usize| {
            let wanting: u32 = self.wider[set].iter().map(|&mask| self.wanting[mask as usize]).sum();
            wanting.min(self.spare[set])
        };
        let most = sets.map(of).max().unwrap_or(0);
        if most == 0 || self.throttle_state.is_empty() { most } else { most.min(self.wasted_within_limits()) }
    }

    /// Returns an upper bound of [`wasted_now`](Self::wasted_now) under limits. It is the smaller number of tasks that
    /// could use any spare CPU, and of spare CPUs that any task could use.
    fn wasted_within_limits(&self) -> u32 {
        let cpus = (0u32..).map(CpuId).zip(&self.cpus);
        let mut spare: Vec<(CpuId, bool)> = cpus.filter(|(_, it)| it.spare).map(|(cpu, _)| (cpu, false)).collect();
        let mut wanting = 0;
        for (id, task) in (0u32..).map(TaskId).zip(&self.tasks) {
            if task.state != State::Waiting || self.cpus[task.cpu as usize].idle_since.is_some() {
                continue;
            }
            let mask = &self.masks[task.mask as usize];
            let mut could = false;
            for (cpu, used) in &mut spare {
                if allows(mask.as_ref(), *cpu) && !self.throttle_state.is_throttled(id, *cpu) {
                    (could, *used) = (true, true);
                }
            }
            wanting += u32::from(could);
        }
        wanting.min(spare.iter().filter(|(_, used)| *used).count() as u32)
    }

    /// Advances the time to `at`, through the ends of windows.
    fn advance(&mut self, at: u64) {
        while self.detected.window_ns > 0 && at >= self.start + self.detected.window_ns {
            self.integrate(self.start + self.detected.window_ns);
            self.close();
            self.start = self.now;
        }
        self.integrate(at);
    }

    fn integrate(&mut self, to: u64) {
        if to > self.now {
            self.wasted += u64::from(self.wasted_now()) * (to - self.now);
            self.now = to;
        }
    }

    /// Ends the window.
    fn close(&mut self) {
        let now = self.now;
        for index in 0..self.tasks.len() {
            if self.tasks[index].state == State::Waiting {
                self.account_wait(TaskId(index as u32));
            }
        }
        for cpu in &mut self.cpus {
            if let Some(since) = &mut cpu.idle_since {
                cpu.idle += now - std::mem::replace(since, now);
            }
            for queue in cpu.queues.values_mut().filter(|queue| queue.count > 0) {
                queue.total += now - queue.since;
                queue.since = now;
            }
        }
        self.detected.windows += 1;
        self.judge();
        self.wasted = 0;
        for cpu in &mut self.cpus {
            (cpu.idle, cpu.waited, cpu.waited_woken, cpu.waited_sched_idle) = (0, 0, 0, 0);
            cpu.found.clear();
            cpu.queues.retain(|_, queue| queue.count > 0);
            cpu.queues.values_mut().for_each(|queue| queue.total = 0);
        }
        for task in &mut self.tasks {
            task.waited = 0;
            if task.state != State::Waiting {
                task.woken = Woken::Elsewhere;
            }
        }
    }

    /// Checks whether waste lasts, and lists its CPUs.
    fn judge(&mut self) {
        let wasted = self.wasted as f64 / self.detected.window_ns as f64;
        self.detected.wasted_cpus = self.detected.wasted_cpus.max(wasted);
        if self.start < self.unnoticed_until {
            self.before = [0.0; 2];
            self.ongoing.clear();
            return;
        }
        let [first, second] = self.before;
        self.before = [second, wasted];
        let lasts = first.min(second).min(wasted) >= tolerated(self.cpus.len()) && wasted >= SLOWLY * first;
        let seen = if lasts { self.find_violations(wasted) } else { BTreeMap::new() };
        self.record(seen);
    }

    /// Returns pairs of CPUs that idled, and had waiting tasks, for long enough in this window.
    fn find_violations(&self, wasted: f64) -> BTreeMap<Key, Violation> {
        // At least half as long as the longest.
        let longest = self.cpus.iter().filter(|cpu| !cpu.offline).map(|cpu| cpu.idle).max().unwrap_or(0);
        let is_idle = |cpu: &usize| !self.cpus[*cpu].offline && self.cpus[*cpu].idle * 2 >= longest;
        let idle: Vec<usize> = (0..self.cpus.len()).filter(is_idle).collect();
        let queues = self.cpus.iter().flat_map(|cpu| cpu.queues.values());
        let least = queues.map(|queue| queue.total).max().unwrap_or(0) / 2;
        let mut seen: BTreeMap<Key, Violation> = BTreeMap::new();
        for waiting in 0..self.cpus.len() {
            let Some(cpu) = self.nearest(&idle, waiting, least) else { continue };
            let (key, mut violation) = self.describe(cpu, waiting);
            violation.idle_cpus = idle.len();
            violation.wasted_cpus = wasted;
            seen.entry(key)
                .and_modify(|known| {
                    known.waiting_cpus += 1;
                    if known.task_wait_ns < violation.task_wait_ns {
                        violation.waiting_cpus = known.waiting_cpus;
                        *known = violation.clone();
                    }
                })
                .or_insert(violation);
        }
        seen
    }

    /// Returns the idle CPU in the smallest common domain, for tasks that waited on `waiting` for more than `least`.
    fn nearest(&self, idle: &[usize], waiting: usize, least: u64) -> Option<usize> {
        let queues = self.cpus[waiting].queues.iter().filter(|(_, queue)| queue.total > least);
        let masks: Vec<Option<&CpuMask>> = queues.map(|(&mask, _)| self.masks[mask as usize].as_ref()).collect();
        let may_take = |cpu: usize| cpu != waiting && masks.iter().any(|&mask| allows(mask, CpuId(cpu as u32)));
        let size = |&cpu: &usize| {
            let domain = self.common(cpu, waiting);
            domain.map_or(usize::MAX, |(domain, _)| self.domains[domain as usize].span.count())
        };
        idle.iter().copied().filter(|&cpu| may_take(cpu)).min_by_key(size)
    }

    /// Adds a window's violations, or extends the previous window's.
    fn record(&mut self, seen: BTreeMap<Key, Violation>) {
        let mut ongoing = BTreeMap::new();
        for (key, window) in seen {
            let listed = self.ongoing.get(&key).copied().unwrap_or_else(|| {
                let free = self.detected.violations.len() < MOST;
                if free {
                    self.detected.violations.push(window.clone());
                } else {
                    self.detected.more += 1;
                }
                free.then_some(self.detected.violations.len() - 1)
            });
            if let Some(index) = listed {
                self.detected.violations[index].extend(&window);
            }
            ongoing.insert(key, listed);
        }
        self.ongoing = ongoing;
    }

    fn new_mask(&mut self, mask: Option<CpuMask>) {
        let count = |of: &Option<CpuMask>| of.as_ref().map_or(usize::MAX, CpuMask::count);
        let allows_all = |wide: &Option<CpuMask>, narrow: &Option<CpuMask>| match (wide, narrow) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wide), Some(narrow)) => wide.and(narrow).count() == count(&Some(narrow.clone())),
        };
        let new = self.masks.len() as u32;
        let mut wider: Vec<u32> = (0..new).filter(|&other| allows_all(&self.masks[other as usize], &mask)).collect();
        wider.push(new);
        for other in 0..self.masks.len() {
            if allows_all(&mask, &self.masks[other]) {
                self.wider[other].push(new);
            }
        }
        let spare =
            (0u32..).map(CpuId).zip(&self.cpus).filter(|(cpu, it)| it.spare && allows(mask.as_ref(), *cpu)).count();
        self.wider.push(wider);
        self.spare.push(spare as u32);
        self.wanting.push(0);
        self.masks.push(mask);
    }

    /// Returns the lowest domain in which `idle` balances and that spans `other`, and its level.
    fn common(&self, idle: usize, other: usize) -> Option<(u32, usize)> {
        let chain = self.chains.get(idle)?;
        let level =
            chain.iter().position(|&domain| self.domains[domain as usize].span.contains(CpuId(other as u32)))?;
        Some((chain[level], level))
    }

    fn describe(&self, idle: usize, waiting: usize) -> (Key, Violation) {
        let common = self.common(idle, waiting);
        let domain = common.map(|(domain, _)| &self.domains[domain as usize]);
        let (here, there) = self.sides(domain, idle, waiting);
        let longest = self.tasks.iter().filter(|task| task.cpu as usize == waiting).max_by_key(|task| task.waited);
        let key = (common.map(|(domain, _)| domain), there.first().map_or(0, |cpu| cpu.0));
        let violation = Violation {
            pattern: self.pattern(common.map(|(_, level)| level), &here, waiting),
            from_ns: self.start.saturating_sub(2 * self.detected.window_ns),
            until_ns: self.now,
            idle_cpu: idle,
            idle_cpus: 0,
            wasted_cpus: 0.0,
            waiting_cpu: waiting,
            waiting_cpus: 1,
            task: longest.map(|task| task.name.clone()).unwrap_or_default(),
            task_wait_ns: longest.map_or(0, |task| task.waited),
            level: domain.map(|domain| domain.level.to_owned()),
            domain: domain.map(|domain| cpu_list(&domain.span)),
            idle_side: self.side(&here),
            waiting_side: self.side(&there),
        };
        (key, violation)
    }

    /// Returns the groups of both CPUs in their common domain. Without one, all CPUs that each is balanced with.
    fn sides(&self, domain: Option<&DomainInfo>, idle: usize, waiting: usize) -> (CpuMask, CpuMask) {
        let [idle, waiting] = [idle, waiting].map(|cpu| CpuId(cpu as u32));
        let alone = |cpu: CpuId| -> CpuMask { [cpu].into_iter().collect() };
        let Some(domain) = domain else {
            let reach = |of: CpuId| {
                let top = self.chains.get(of.index()).and_then(|chain| chain.last());
                top.map_or_else(|| alone(of), |&domain| self.domains[domain as usize].span.clone())
            };
            return (reach(idle), reach(waiting));
        };
        let own = domain.groups.iter().find(|group| group.contains(idle));
        let own = own.cloned().unwrap_or_else(|| alone(idle));
        let other = domain.groups.iter().find(|group| group.contains(waiting) && **group != own);
        let other = other.cloned().unwrap_or_else(|| alone(waiting));
        (own, other)
    }

    /// Returns the pattern. `level`: the common domain's, in the hierarchy of the idle CPU, whose group is `here`.
    fn pattern(&self, level: Option<usize>, here: &CpuMask, waiting: usize) -> Pattern {
        let queued = &self.cpus[waiting];
        let Some(level) = level else { return Pattern::MissingDomains };
        let found = |cpu: CpuId| self.cpus[cpu.index()].found.get(level).copied().unwrap_or(0);
        if here.contains(CpuId(waiting as u32)) {
            Pattern::GroupConstruction
        } else if queued.waited_woken * 2 >= queued.waited {
            Pattern::OverloadOnWakeup
        } else if queued.waited_sched_idle * 2 >= queued.waited {
            Pattern::SchedIdleCpu
        } else if here.iter().all(|cpu| found(cpu) == 0) {
            Pattern::GroupImbalance
        } else {
            Pattern::Other
        }
    }

    fn side(&self, cpus: &CpuMask) -> Side {
        let window = self.detected.window_ns as f64;
        let inside = || cpus.iter().filter_map(|cpu| self.cpus.get(cpu.index()));
        let idle: u64 = inside().map(|cpu| cpu.idle).sum();
        let waited: u64 = inside().map(|cpu| cpu.waited).sum();
        Side {
            cpus: cpu_list(cpus),
            count: cpus.count(),
            busy: cpus.count() as f64 - idle as f64 / window,
            waiting: waited as f64 / window,
        }
    }
}

fn allows(mask: Option<&CpuMask>, cpu: CpuId) -> bool {
    mask.is_none_or(|mask| mask.contains(cpu))
}

#[cfg(test)]
mod tests;
