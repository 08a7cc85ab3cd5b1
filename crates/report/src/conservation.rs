//! Work conservation: waits beside an idle CPU that may run the task, beyond the time in which balancing notices.
//!
//! An idle CPU balances in each of its scheduling domains at least every `max_interval`. It does so at its own tick,
//! or at that of a busy CPU that kicks it. So balancing should find a waiting task within a *balance interval*. This is
//! the interval of the lowest domain with both CPUs, rounded up to ticks, and a tick. The wait beyond it counts, if the
//! same CPU stays idle and the task may run there.
//!
//! A pair of a wait and an idle interval is examined when either ends, unless they overlap for at most the shortest
//! balance interval. Both are listed by their start, so other events cost only a list operation.
//!
//! A throttled task cannot run on CPUs where its group's limit is used up. The collector bars and frees such pairs.

use std::collections::BTreeMap;

use vruntime_trace::{CpuId, CpuMask, MachineInfo, TaskId};

use crate::results::{Account, WorstIdleWait};

/// No index.
const NONE: u32 = u32::MAX;

/// Indices in the order of start times: a list through an array.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    since: u64,
    older: u32,
    newer: u32,
    listed: bool,
}

impl Default for Since {
    fn default() -> Self {
        Self { nodes: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Since {
    /// Adds `index`, with a time not before the others, unless present.
    #[inline]
    pub(crate) fn begin(&mut self, index: usize, at: u64) {
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, Node { since: 0, older: NONE, newer: NONE, listed: false });
        }
        if self.nodes[index].listed {
            return;
        }
        let older = self.newest;
        self.nodes[index] = Node { since: at, older, newer: NONE, listed: true };
        match older {
            NONE => self.oldest = index as u32,
            older => self.nodes[older as usize].newer = index as u32,
        }
        self.newest = index as u32;
    }

    /// Removes `index`, and returns its start time.
    #[inline]
    pub(crate) fn end(&mut self, index: usize) -> Option<u64> {
        let node = self.nodes.get_mut(index).filter(|node| node.listed)?;
        node.listed = false;
        let Node { since, older, newer, .. } = *node;
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        Some(since)
    }

    /// Returns indices and start times, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let node = |index: u32| (index != NONE).then_some(index);
        std::iter::successors(node(self.oldest), move |&index| node(self.nodes[index as usize].newer))
            .map(|index| (index as usize, self.nodes[index as usize].since))
    }
}

#[derive(Clone, Debug, Default)]
struct Waiter {
    cpu: u32,
    /// Allowed CPUs. None: all.
    allowed: Option<Box<CpuMask>>,
}

/// Adds excessive waits to accounts, from states of tasks and CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Conservation {
    waiting: Since,
    idle: Since,
    /// Offline CPUs are never idle.
    offline: CpuMask,
    waiters: Vec<Waiter>,
    domains: Vec<(CpuMask, u64)>,
    /// Each CPU's domains, lowest first.
    chains: Vec<Vec<u32>>,
    /// Each CPU's root domain. None: isolated. Empty: one for all.
    roots: Vec<Option<u32>>,
    /// Shortest and longest balance interval, nanoseconds.
    pub(crate) range: (u64, u64),
    /// Excess times of current waits, disjoint and in order.
    excess: BTreeMap<u32, Vec<(u64, u64)>>,
    /// The end of the bar of a waiting task from a CPU in this wait.
    freed: BTreeMap<(u32, u32), u64>,
    pub(crate) worst: Option<WorstIdleWait>,
}

impl Conservation {
    /// Begins with all CPUs idle. None without domains.
    pub(crate) fn new(info: &MachineInfo<'_>) -> Option<Self> {
        let tick = info.tick_ns.max(1);
        let interval = |ns: u64| ns.div_ceil(tick).saturating_mul(tick).saturating_add(tick);
        let domains: Vec<(CpuMask, u64)> =
            info.domains.iter().map(|domain| (domain.span.clone(), interval(domain.interval_ns))).collect();
        let least = domains.iter().map(|&(_, interval)| interval).min()?;
        let most = domains.iter().map(|&(_, interval)| interval).max()?;
        let mut chains = vec![Vec::new(); info.cpus];
        for (index, domain) in info.domains.iter().enumerate() {
            for cpu in domain.members.iter().filter(|cpu| cpu.index() < info.cpus) {
                chains[cpu.index()].push(index as u32);
            }
        }
        let mut idle = Since::default();
        for cpu in 0..info.cpus {
            idle.begin(cpu, 0);
        }
        let (waiting, waiters) = (Since::default(), Vec::new());
        let (excess, freed) = (BTreeMap::new(), BTreeMap::new());
        let (offline, roots) = (CpuMask::new(), Vec::new());
        let range = (least, most);
        Some(Self { waiting, idle, offline, waiters, domains, chains, roots, range, excess, freed, worst: None })
    }

    /// Sets root domains and isolated CPUs. Idle CPUs in another root domain do not count.
    #[cold]
    pub(crate) fn root_domains(
        &mut self,
        at: u64,
        domains: &[CpuMask],
        isolated: &CpuMask,
        barred: impl Fn(TaskId, CpuId) -> bool,
    ) {
        // Idle time until now counts by the previous root domains.
        let idle: Vec<usize> = self.idle.iter().map(|(cpu, _)| cpu).collect();
        for cpu in idle {
            self.gets_busy(at, CpuId(cpu as u32), &barred);
            self.idle.begin(cpu, at);
        }
        let number = |cpu: CpuId| domains.iter().position(|domain| domain.contains(cpu)).map(|number| number as u32);
        let is_partitioned = domains.len() > 1 || !isolated.is_empty();
        let cpus = if is_partitioned { self.chains.len() as u32 } else { 0 };
        self.roots = (0..cpus).map(|cpu| number(CpuId(cpu))).collect();
    }

    fn is_balanced_with(&self, a: usize, b: u32) -> bool {
        let root = |cpu: usize| self.roots.get(cpu).copied().flatten();
        self.roots.is_empty() || (root(a).is_some() && root(a) == root(b as usize))
    }

    #[inline]
    fn waiter(&mut self, task: TaskId) -> &mut Waiter {
        if task.index() >= self.waiters.len() {
            self.waiters.resize_with(task.index() + 1, Waiter::default);
        }
        &mut self.waiters[task.index()]
    }

    #[inline]
    pub(crate) fn waits(&mut self, at: u64, task: TaskId, cpu: CpuId) {
        self.waiter(task).cpu = cpu.0;
        self.waiting.begin(task.index(), at);
    }

    #[inline]
    pub(crate) fn moves(&mut self, task: TaskId, to: CpuId) {
        self.waiter(task).cpu = to.0;
    }

    /// Returns the waiting tasks, longest wait first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiting.iter().map(|(task, _)| TaskId(task as u32))
    }

    /// Returns the CPU of a task's current or last wait.
    pub(crate) fn cpu(&mut self, task: TaskId) -> CpuId {
        CpuId(self.waiter(task).cpu)
    }

    /// Ends a wait of a task that was `barred` from some CPUs until now.
    #[inline]
    pub(crate) fn runs(&mut self, at: u64, task: TaskId, account: &mut Account, barred: impl Fn(CpuId) -> bool) {
        let Some(since) = self.waiting.end(task.index()) else { return };
        if at.saturating_sub(since) > self.range.0 {
            self.long_wait(at, task, since, account, barred);
        }
        while let Some((&pair, _)) = self.freed.range((task.0, 0)..=(task.0, u32::MAX)).next() {
            self.freed.remove(&pair);
        }
    }

    /// Bars a waiting task from `cpu`.
    pub(crate) fn is_barred(&mut self, at: u64, task: TaskId, cpu: CpuId) {
        let begin_of =
            |list: &Since, index: usize| list.nodes.get(index).filter(|node| node.listed).map(|node| node.since);
        if let (Some(waits), Some(idle)) = (begin_of(&self.waiting, task.index()), begin_of(&self.idle, cpu.index())) {
            self.overlap(at, task, waits, cpu, idle);
        }
    }

    /// Ends [`is_barred`](Self::is_barred).
    pub(crate) fn is_freed(&mut self, at: u64, task: TaskId, cpu: CpuId) {
        self.freed.insert((task.0, cpu.0), at);
    }

    #[inline]
    pub(crate) fn goes_idle(&mut self, at: u64, cpu: CpuId) {
        if cpu.index() < self.chains.len() && !self.offline.contains(cpu) {
            self.idle.begin(cpu.index(), at);
        }
    }

    /// Ends a CPU's idle time. Some tasks were `barred` from it until now.
    #[inline]
    pub(crate) fn gets_busy(&mut self, at: u64, cpu: CpuId, barred: impl Fn(TaskId, CpuId) -> bool) {
        let Some(since) = self.idle.end(cpu.index()) else { return };
        if at.saturating_sub(since) > self.range.0 {
            self.long_idle(at, cpu, since, barred);
        }
    }

    /// Takes a CPU offline.
    #[cold]
    pub(crate) fn cpu_offline(&mut self, at: u64, cpu: CpuId, barred: impl Fn(TaskId, CpuId) -> bool) {
        self.gets_busy(at, cpu, barred);
        if cpu.index() < self.chains.len() {
            self.offline.insert(cpu);
        }
    }

    /// Takes a CPU online.
    #[cold]
    pub(crate) fn cpu_online(&mut self, at: u64, cpu: CpuId, idle: bool) {
        self.offline.remove(cpu);
        if idle {
            self.goes_idle(at, cpu);
        }
    }

    /// Changes a task's affinity, which restarts its wait.
    pub(crate) fn affinity(
        &mut self,
        at: u64,
        task: TaskId,
        cpus: Option<&CpuMask>,
        account: &mut Account,
        barred: impl Fn(CpuId) -> bool,
    ) {
        let waits = self.waiting.nodes.get(task.index()).is_some_and(|node| node.listed);
        self.runs(at, task, account, barred);
        self.waiter(task).allowed = cpus.cloned().map(Box::new);
        if waits {
            self.waiting.begin(task.index(), at);
        }
    }

    /// Returns the balance interval between an idle CPU and a waiting task's.
    fn interval(&self, idle: usize, waits_on: u32) -> u64 {
        let chain = self.chains[idle].iter().map(|&domain| &self.domains[domain as usize]);
        let shared = chain.clone().find(|(span, _)| span.contains(CpuId(waits_on)));
        // Without a common domain, nothing balances between the CPUs.
        shared.map_or(self.range.1, |&(_, interval)| interval)
    }

    /// Returns when the wait since `waits` beside a CPU idle since `idle` became too long, disregarding limits.
    fn too_long(&self, at: u64, task: TaskId, waits: u64, cpu: CpuId, idle: u64) -> Option<u64> {
        let waiter = &self.waiters[task.index()];
        let freed = self.freed.get(&(task.0, cpu.0)).copied().unwrap_or(0);
        let begin = waits.max(idle).max(freed) + self.interval(cpu.index(), waiter.cpu);
        let allowed = || waiter.allowed.as_ref().is_none_or(|mask| mask.contains(cpu));
        (begin < at && self.is_balanced_with(cpu.index(), waiter.cpu) && allowed()).then_some(begin)
    }

    fn overlap(&mut self, at: u64, task: TaskId, waits: u64, cpu: CpuId, idle: u64) {
        if let Some(begin) = self.too_long(at, task, waits, cpu, idle) {
            add(self.excess.entry(task.0).or_default(), begin, at);
        }
    }

    #[cold]
    fn long_wait(&mut self, at: u64, task: TaskId, since: u64, account: &mut Account, barred: impl Fn(CpuId) -> bool) {
        let long = self.idle.iter().take_while(|&(_, idle)| at.saturating_sub(idle.max(since)) > self.range.0);
        let beside = long.map(|(cpu, idle)| (CpuId(cpu as u32), idle)).filter(|&(cpu, _)| !barred(cpu));
        if let Some(begin) = beside.filter_map(|(cpu, idle)| self.too_long(at, task, since, cpu, idle)).min() {
            add(self.excess.entry(task.0).or_default(), begin, at);
        }
        let Some(parts) = self.excess.remove(&task.0) else { return };
        let ns = parts.iter().map(|(begin, end)| end - begin).sum();
        let waits = &mut account.idle_waits;
        waits.count += 1;
        waits.total_ns += ns;
        waits.worst_ns = waits.worst_ns.max(ns);
        if self.worst.is_none_or(|worst| worst.ns < ns) {
            self.worst = Some(WorstIdleWait { task: task.index(), cpu: self.waiters[task.index()].cpu, since, at, ns });
        }
    }

    #[cold]
    fn long_idle(&mut self, at: u64, cpu: CpuId, since: u64, barred: impl Fn(TaskId, CpuId) -> bool) {
        let long = self.waiting.iter().take_while(|&(_, waits)| at.saturating_sub(waits.max(since)) > self.range.0);
        let long: Vec<(TaskId, u64)> = long.map(|(task, waits)| (TaskId(task as u32), waits)).collect();
        for (task, waits) in long {
            if !barred(task, cpu) {
                self.overlap(at, task, waits, cpu, since);
            }
        }
    }
}

/// Adds an interval that ends last.
pub(crate) fn add(parts: &mut Vec<(u64, u64)>, mut begin: u64, end: u64) {
    while let Some(&(earlier, until)) = parts.last()
        && until >= begin
    {
        begin = begin.min(earlier);
        parts.pop();
    }
    parts.push((begin, end));
}

#[cfg(test)]
mod tests;
