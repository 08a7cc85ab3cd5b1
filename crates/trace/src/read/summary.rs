//! Summary of a trace, for `vruntime trace info`.

use std::collections::BTreeMap;

use super::clock::Clock;
use super::head::MAX_CPUS;
use super::notes::Losses;
use crate::event::{Named, Record, Tracepoint, Wakeup};

/// The most event names counted; kernels have some 2000.
const MAX_NAMES: usize = 1 << 16;
/// The most tasks. Linux stops at 4,194,304 pids.
const MAX_TASKS: usize = 1 << 22;
/// The most reused pids with own rows.
const MAX_REUSED_PIDS: usize = 1 << 18;
/// The most names of one task.
const MAX_COMMS: usize = 8;

/// Summary of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its thread id.
    pub pid: i32,
    /// Its process, if the file has it.
    pub tgid: Option<i32>,
    /// Its first eight names.
    pub comms: Vec<Vec<u8>>,
    /// Renames.
    pub renames: u64,
    /// Known CPU time, nanoseconds; running tasks until the trace's end.
    pub cpu_ns: u64,
    /// Switches away from it.
    pub switches: u64,
    /// Switches to it.
    came: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Whether it was running when the trace began.
    pub running_at_start: bool,
    /// Later tasks with its pid: at most one, unless without own rows.
    pub reuses: u64,
    /// Runs after a sleep without a known wakeup.
    pub unwoken: u64,
    queued: u64,
    wakings: u64,
    asleep: bool,
    /// Set if forked, and still inactive.
    newborn: bool,
    on: Option<u32>,
    /// When its wait began.
    ready: Option<i64>,
    /// The wakeup that began its wait.
    woken: Option<i64>,
    /// Start of its charged time, if its switch is missing.
    charged_from: Option<i64>,
}

impl TaskSummary {
    /// Returns its latest name.
    pub fn comm(&self) -> String {
        String::from_utf8_lossy(self.comms.last().map_or(&b"?"[..], Vec::as_slice)).into_owned()
    }

    /// Returns wakeups: `sched_wakeup` and `sched_wakeup_new`, or `sched_waking` without these.
    pub fn wakeups(&self) -> u64 {
        if self.queued > 0 { self.queued } else { self.wakings }
    }
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    events: u64,
    losses: Losses,
    /// The running task, and since when; none after a loss.
    current: Option<(i32, i64)>,
    /// That time, if guessed; at least this.
    guess: Option<i64>,
    /// The predecessor of the idle task in the last switch, until the idle task acts.
    replaced: Option<i32>,
    /// The latest switch was from a task elsewhere.
    torn: bool,
    seen: bool,
}

/// Events counted without a map.
const KNOWN: [&[u8]; 14] = [
    b"sched_switch",
    b"sched_waking",
    b"sched_wakeup",
    b"sched_wakeup_new",
    b"sched_migrate_task",
    b"sched_stat_runtime",
    b"sched_process_fork",
    b"sched_process_exec",
    b"sched_process_exit",
    b"task_rename",
    b"cpu_idle",
    b"cpu_frequency",
    b"print",
    b"tracing_mark_write",
];

const WAKING: usize = 1;

/// The longest time between a switch's event and the switch itself, nanoseconds. Until the switch, samples of perf name
/// the previous task. Interrupts on ARM up to 3.11 do, too.
pub const SWITCHING_NS: u64 = 50_000;

/// Summarizes a trace. Memory: bounded tasks, CPUs and event names.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    known: [u64; KNOWN.len()],
    names: BTreeMap<Vec<u8>, u64>,
    unnamed: u64,
    cpus: Vec<Cpu>,
    tasks: Vec<TaskSummary>,
    /// By pid: index of its latest task plus one.
    index: Vec<u32>,
    /// Number of rows of reused pids.
    reused_rows: usize,
    tasks_left_out: u64,
    clock: Clock,
    events: u64,
    broken_switches: u64,
    missing_arrivals: u64,
    has_tgid: bool,
    finer_than_us: bool,
    /// Highest CPU in any record, plus one.
    named_cpus: u32,
    /// Names of tasks that no event of the scheduler named before, by pid.
    columns: BTreeMap<i32, Vec<u8>>,
}

impl Summary {
    /// Creates an empty summary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record<'_>) {
        let cpu = record.cpu.min(MAX_CPUS - 1) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        if let Tracepoint::Lost { events } = record.point {
            let row = &mut self.cpus[cpu];
            row.losses.add(events);
            row.current = None;
            return;
        }
        // perf's records of tasks are no events, and have no time.
        if record.name.starts_with(b"PERF_RECORD_") {
            if let Tracepoint::TaskRename { task, tgid } = record.point {
                self.name(task, tgid);
            }
            return;
        }
        self.events += 1;
        self.named_cpus = self.named_cpus.max(record.highest_cpu().saturating_add(1));
        self.count(record.name);
        self.clock.add(cpu, record.at);
        self.finer_than_us |= record.at % 1000 != 0;
        let row = &mut self.cpus[cpu];
        row.events += 1;
        if !std::mem::replace(&mut row.seen, true) {
            let since = self.since(record);
            let row = &mut self.cpus[cpu];
            row.current = (record.pid >= 0).then_some((record.pid, since));
            if record.pid > 0
                && let Some(task) = self.task(record.pid)
            {
                (task.running_at_start, task.on) = (true, Some(cpu as u32));
            }
        }
        if let Some(tgid) = record.tgid
            && record.pid > 0
            && tgid >= 0
        {
            self.has_tgid = true;
            if let Some(task) = self.task(record.pid) {
                task.tgid = Some(tgid);
            }
        }
        self.add_arrival(cpu, record);
        self.point(cpu, record);
        // Other events than the scheduler's name the running task in their first column only.
        if record.pid > 0
            && !record.comm.is_empty()
            && record.comm != b"<...>"
            && self.task(record.pid).is_some_and(|task| task.comms.is_empty())
        {
            self.columns.entry(record.pid).or_insert_with(|| record.comm.to_vec());
        }
    }

    /// Returns the start of a CPU's first known task: by charged time, if known.
    fn since(&self, record: &Record<'_>) -> i64 {
        let began = self.clock.stretches().last().map_or(record.at, |&(began, _)| began);
        match record.point {
            Tracepoint::StatRuntime { task, runtime_ns, .. } if task.pid == record.pid => {
                record.at.saturating_sub_unsigned(runtime_ns).max(began).min(record.at)
            }
            _ => record.at,
        }
    }

    /// Counts running tasks' time up to now. Call it once. Skips CPUs whose last switch was inconsistent or before a
    /// clock jump, and traces without switches.
    pub fn end(&mut self) {
        for (pid, comm) in std::mem::take(&mut self.columns) {
            if let Some(task) = self.task(pid).filter(|task| task.comms.is_empty()) {
                task.renamed(&comm);
            }
        }
        let Some(&(began, now)) = self.clock.stretches().last() else { return };
        if self.count_of("sched_switch") == 0 {
            return;
        }
        for cpu in 0..self.cpus.len() {
            if let Cpu { current: Some((pid, since)), torn: false, .. } = self.cpus[cpu]
                && (began..=now).contains(&since)
                && let Some(task) = self.task(pid)
            {
                task.cpu_ns = task.cpu_ns.saturating_add(now.abs_diff(since));
            }
            self.cpus[cpu].current = None;
        }
    }

    /// Handles a task's action on a seemingly idle CPU. Some machines do not record switches from idle: it got the
    /// CPU at its wakeup, or its charged time ago.
    fn add_arrival(&mut self, cpu: usize, record: &Record<'_>) {
        let Some((0, idle)) = self.cpus[cpu].current else { return };
        let (pid, charged) = match record.point {
            Tracepoint::Switch { prev, .. } => (prev.pid, None),
            Tracepoint::StatRuntime { task, runtime_ns, .. } if task.pid == record.pid => (task.pid, Some(runtime_ns)),
            _ => (record.pid, None),
        };
        if pid == 0 {
            (self.cpus[cpu].current, self.cpus[cpu].replaced) = (Some((0, record.at)), None);
        }
        let is_sample = matches!(record.point, Tracepoint::Other { .. });
        let switches = self.cpus[cpu].replaced == Some(pid) && record.at.abs_diff(idle) <= SWITCHING_NS;
        if pid <= 0 || (is_sample && switches) {
            return;
        }
        let Some(task) = self.task(pid) else { return };
        let charged_from = task.charged_from.take().or(charged.map(|ns| record.at.saturating_sub_unsigned(ns)));
        let least = task.ready.map_or(idle, |ready| ready.max(idle));
        let guessed = if task.ready.is_some() { least } else { record.at };
        let elsewhere = task.on;
        task.came(cpu);
        self.leaves_elsewhere(pid, elsewhere, cpu);
        let row = &mut self.cpus[cpu];
        row.current = Some((pid, charged_from.map_or(guessed, |from| from.max(least)).min(record.at)));
        row.guess = charged_from.is_none().then_some(least);
        self.missing_arrivals += 1;
    }

    /// Handles a switch to a task seemingly on another CPU, whose switch is missing.
    fn leaves_elsewhere(&mut self, pid: i32, elsewhere: Option<u32>, cpu: usize) {
        let Some(row) = elsewhere.and_then(|other| self.cpus.get_mut(other as usize)) else { return };
        if elsewhere != Some(cpu as u32) && row.current.is_some_and(|(current, _)| current == pid) {
            row.current = None;
            self.broken_switches += 1;
        }
    }

    /// Sets a task's guessed start to its charged time's.
    fn charged(&mut self, at: i64, cpu: usize, pid: i32, ns: u64) {
        let from = at.saturating_sub_unsigned(ns);
        let has = |cpu: &usize| self.cpus[*cpu].current.is_some_and(|(current, _)| current == pid);
        if let Some(cpu) = Some(cpu).filter(has).or_else(|| (0..self.cpus.len()).find(has)) {
            let row = &mut self.cpus[cpu];
            if let Some(least) = row.guess.take() {
                row.current = Some((pid, from.max(least)));
            }
        } else if let Some(task) = self.task(pid) {
            task.charged_from.get_or_insert(from);
        }
    }

    fn point(&mut self, cpu: usize, record: &Record<'_>) {
        match record.point {
            // The task after it is unknown.
            Tracepoint::Malformed { .. } if record.name == b"sched_switch" => self.cpus[cpu].current = None,
            Tracepoint::Switch { prev, prev_state, next, .. } => {
                let row = &mut self.cpus[cpu];
                (row.guess, row.torn, row.replaced) = (None, false, Some(prev.pid));
                match self.cpus[cpu].current.replace((next.pid, record.at)) {
                    Some((pid, since)) if pid == prev.pid => {
                        if let Some(task) = self.task(pid) {
                            task.cpu_ns =
                                task.cpu_ns.saturating_add(u64::try_from(record.at.saturating_sub(since)).unwrap_or(0));
                        }
                    }
                    Some((pid, _)) => {
                        self.broken_switches += 1;
                        self.cpus[cpu].torn = true;
                        if let Some(task) = self.task(pid) {
                            task.on = None;
                        }
                    }
                    None => {}
                }
                if prev.pid != 0
                    && let Some(task) = self.name(prev, None)
                {
                    task.switches += 1;
                    task.asleep = !prev_state.is_runnable();
                    task.on = None;
                    task.ready = prev_state.is_runnable().then_some(record.at);
                    task.woken = None;
                    task.charged_from = None;
                }
                if next.pid != 0
                    && let Some(task) = self.name(next, None)
                {
                    let elsewhere = task.on;
                    task.came(cpu);
                    self.leaves_elsewhere(next.pid, elsewhere, cpu);
                }
            }
            Tracepoint::Waking(wakeup) => self.woken(record.at, &wakeup, false),
            Tracepoint::Wakeup(wakeup) | Tracepoint::WakeupNew(wakeup) => self.woken(record.at, &wakeup, true),
            Tracepoint::MigrateTask { task, .. } => {
                if let Some(task) = self.name(task, None) {
                    task.migrations += 1;
                }
            }
            Tracepoint::StatRuntime { task, runtime_ns, .. } => {
                self.name(task, None);
                if task.pid > 0 {
                    self.charged(record.at, cpu, task.pid, runtime_ns);
                }
            }
            Tracepoint::ProcessFork { parent, child } => {
                self.name(parent, None);
                self.born(child.pid);
                self.name(child, None);
            }
            Tracepoint::TaskNew { task, .. } => {
                self.born(task.pid);
                self.name(task, None);
            }
            Tracepoint::ProcessExit { task, .. } => {
                self.name(task, None);
            }
            Tracepoint::TaskRename { task, tgid } => {
                self.name(task, tgid);
            }
            _ => {}
        }
    }

    /// Handles a fork: the pid's earlier task has ended, and keeps its row.
    fn born(&mut self, pid: i32) {
        let room = self.reused_rows < MAX_REUSED_PIDS;
        let Some(task) = self.task(pid) else { return };
        // A name alone, from perf, may be that of the new task.
        let lived = task.came + task.queued + task.wakings > 0 || task.running_at_start;
        if std::mem::replace(&mut task.newborn, true) && !lived {
            // Second event of the same fork.
            return;
        }
        task.reuses += u64::from(!task.comms.is_empty());
        (task.asleep, task.ready, task.woken, task.charged_from) = (false, None, None, None);
        if lived && room {
            self.reused_rows += 1;
            self.tasks.push(TaskSummary { pid, newborn: true, ..TaskSummary::default() });
            self.index[pid as usize] = self.tasks.len() as u32;
            for row in &mut self.cpus {
                // The earlier task left its CPU unseen.
                row.current = row.current.filter(|&(current, _)| current != pid);
            }
        } else {
            task.tgid = None;
            task.comms.clear();
        }
    }

    fn woken(&mut self, at: i64, wakeup: &Wakeup<'_>, queued: bool) {
        let first = !queued || self.known[WAKING] == 0;
        if let Some(task) = self.name(wakeup.task, None) {
            // A task that is woken while it waits since a wakeup has run unseen.
            if task.ready.is_none() || (first && task.woken.is_some()) {
                (task.ready, task.woken, task.charged_from) = (Some(at), Some(at), None);
            }
            task.asleep = false;
            if queued {
                task.queued += u64::from(wakeup.success);
            } else {
                task.wakings += 1;
            }
        }
    }

    fn count(&mut self, name: &[u8]) {
        if let Some(known) = KNOWN.iter().position(|&known| known == name) {
            self.known[known] += 1;
        } else if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(name.to_vec(), 1);
        } else {
            self.unnamed += 1;
        }
    }

    #[inline]
    fn task(&mut self, pid: i32) -> Option<&mut TaskSummary> {
        let slot = usize::try_from(pid).ok().filter(|&pid| pid <= MAX_TASKS);
        let Some(slot) = slot else {
            // -1: unknown in the file.
            self.tasks_left_out += u64::from(pid != -1);
            return None;
        };
        if slot >= self.index.len() {
            self.index.resize(slot + 1, 0);
        }
        if self.index[slot] == 0 {
            self.tasks.push(TaskSummary { pid, ..TaskSummary::default() });
            self.index[slot] = self.tasks.len() as u32;
        }
        Some(&mut self.tasks[self.index[slot] as usize - 1])
    }

    /// Returns the row of a task, renamed.
    #[inline]
    fn name(&mut self, named: Named<'_>, tgid: Option<i32>) -> Option<&mut TaskSummary> {
        let task = self.task(named.pid)?;
        if let Some(tgid) = tgid.filter(|&tgid| tgid >= 0) {
            task.tgid = Some(tgid);
        }
        if task.comms.last().is_none_or(|comm| comm != named.comm) && named.comm != b"<...>" {
            task.renamed(named.comm);
        }
        Some(task)
    }

    /// Returns the number of events, without losses.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of events with this name.
    pub fn count_of(&self, name: &str) -> u64 {
        match KNOWN.iter().position(|&known| known == name.as_bytes()) {
            Some(known) => self.known[known],
            None => self.names.get(name.as_bytes()).copied().unwrap_or(0),
        }
    }

    /// Returns names with counts, the most frequent first.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let known = KNOWN.iter().map(|name| name.to_vec()).zip(self.known).filter(|&(_, count)| count > 0);
        let others = self.names.iter().map(|(name, &count)| (name.clone(), count));
        let mut all: Vec<(String, u64)> =
            known.chain(others).map(|(name, count)| (String::from_utf8_lossy(&name).into_owned(), count)).collect();
        if self.unnamed > 0 {
            all.push(("(others)".to_owned(), self.unnamed));
        }
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Returns the clock: span, jumps, strays.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns CPUs with their numbers of events.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.events > 0).map(|(id, cpu)| (id as u32, cpu.events))
    }

    /// Returns the minimum number of CPUs: the highest recorded, plus one.
    pub fn named_cpus(&self) -> u32 {
        self.named_cpus
    }

    /// Returns the lost events of all CPUs.
    pub fn losses(&self) -> Losses {
        self.cpus.iter().fold(Losses::default(), |losses, cpu| losses.plus(cpu.losses))
    }

    /// Counts switches from tasks not on the CPU.
    pub fn broken_switches(&self) -> u64 {
        self.broken_switches
    }

    /// Counts missing switches from idle, after which the task acted on its CPU.
    pub fn missing_arrivals(&self) -> u64 {
        self.missing_arrivals
    }

    /// Returns non-idle tasks by decreasing CPU time.
    pub fn tasks(&self) -> Vec<&TaskSummary> {
        let mut tasks: Vec<&TaskSummary> = self.tasks.iter().filter(|task| task.pid != 0).collect();
        tasks.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then_with(|| a.pid.cmp(&b.pid)));
        tasks
    }

    /// Counts mentions of impossible pids: negative or beyond 4,194,304.
    pub fn impossible_pids(&self) -> u64 {
        self.tasks_left_out
    }

    /// Whether the trace has any process id.
    pub fn has_tgid(&self) -> bool {
        self.has_tgid
    }

    /// Whether any time is finer than a microsecond.
    pub fn has_nanoseconds(&self) -> bool {
        self.finer_than_us
    }

    /// Whether the trace has wakeups, which [`TaskSummary::unwoken`] needs.
    pub fn has_wakeups(&self) -> bool {
        self.count_of("sched_waking") + self.count_of("sched_wakeup") > 0
    }
}

impl TaskSummary {
    fn came(&mut self, cpu: usize) {
        self.on = Some(cpu as u32);
        self.came += 1;
        let is_stopper = self.comms.last().is_some_and(crate::is_stopper);
        self.unwoken += u64::from(std::mem::take(&mut self.asleep) && !is_stopper);
        (self.ready, self.woken, self.charged_from) = (None, None, None);
    }

    #[cold]
    fn renamed(&mut self, comm: &[u8]) {
        self.renames += u64::from(!self.comms.is_empty());
        let comm = comm[..comm.len().min(256)].to_vec();
        if self.comms.len() < MAX_COMMS {
            self.comms.push(comm);
        } else {
            self.comms[MAX_COMMS - 1] = comm;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::TextReader;

    fn summary(text: &[u8]) -> Summary {
        let (mut reader, mut summary) = (TextReader::new(text), Summary::new());
        while let Some(record) = reader.next_record().expect("it is a trace") {
            summary.add(&record);
        }
        summary
    }

    /// Some machines never record switches from idle. Charges, else wakeups, then date the arrival.
    #[test]
    fn a_task_that_arrived_without_a_switch_has_its_time() {
        let text = b"\
  <idle>-0 [001] 1.000000: sched_waking: comm=a pid=7 prio=120 target_cpu=001
  a-7 [001] 1.003000: sched_waking: comm=b pid=8 prio=120 target_cpu=000
  a-7 [001] 1.004000: sched_stat_runtime: comm=a pid=7 runtime=3900000 [ns]
  a-7 [001] 1.004000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
  <idle>-0 [001] 1.010000: sched_waking: comm=a pid=7 prio=120 target_cpu=001
  a-7 [001] 1.012000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
  <idle>-0 [001] 1.020000: sched_waking: comm=a pid=7 prio=120 target_cpu=001
  c-9 [000] 1.021000: sched_stat_runtime: comm=a pid=7 runtime=500000 [ns]
  a-7 [001] 1.022000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
        let summary = summary(text);
        let tasks = summary.tasks();
        let a = tasks.iter().find(|task| task.pid == 7).expect("it is in the trace");
        assert_eq!((a.cpu_ns, a.switches, a.unwoken), (3_900_000 + 2_000_000 + 1_500_000, 3, 0));
        assert_eq!((summary.missing_arrivals(), summary.broken_switches()), (3, 0));
    }

    /// perf samples by NMI, also between the event of a switch and the switch itself.
    #[test]
    fn a_sample_in_a_switch_to_the_idle_task_is_no_arrival() {
        let missing = |sample: &str| {
            let left = |comm: &str, pid: u32| format!("prev_comm={comm} prev_pid={pid} prev_prio=120 prev_state=S");
            let came = |comm: &str, pid: u32| format!("next_comm={comm} next_pid={pid} next_prio=120");
            let to_a = |at: &str| {
                format!("x 0 [001] {at}: sched:sched_switch: {} ==> {}\n", left("swapper/1", 0), came("a", 7))
            };
            let off = |at: &str| {
                format!("x 7 [001] {at}: sched:sched_switch: {} ==> {}\n", left("a", 7), came("swapper/1", 0))
            };
            let text = [&to_a("1.000000"), &off("1.003000"), sample, &to_a("1.009000"), &off("1.010000")].concat();
            let summary = summary(text.as_bytes());
            (summary.tasks()[0].cpu_ns, summary.missing_arrivals(), summary.broken_switches())
        };
        assert_eq!(missing("a 7 [001] 1.003020: 38933 cpu-cycles: \n"), (4_000_000, 0, 0));
        assert_eq!(missing("a 7 [001] 1.003060: 38933 cpu-cycles: \n"), (4_000_000, 1, 1), "much later");
        let idle = "swapper 0 [001] 1.003010: 1 cpu-cycles: \na 7 [001] 1.003020: 1 cpu-cycles: \n";
        assert_eq!(missing(idle), (4_000_000, 1, 1), "the idle task has run");
        assert_eq!(missing("b 8 [001] 1.003020: 38933 cpu-cycles: \n").1, 1, "another task");
    }

    #[test]
    fn a_task_that_runs_on_another_cpu_has_left_the_first() {
        let text = b"\
  <idle>-0 [000] 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
  <idle>-0 [001] 1.004000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
  b-8 [000] 1.005000: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  a-7 [001] 1.006000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
        let summary = summary(text);
        let a = summary.tasks().into_iter().find(|task| task.pid == 7).expect("it is in the trace");
        assert_eq!((a.cpu_ns, summary.missing_arrivals(), summary.broken_switches()), (2_000_000, 0, 1));
    }

    #[test]
    fn a_running_task_has_not_switched() {
        let text = b"b-8 [000] 1.000000: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120\n";
        let summary = summary(text);
        let switches: BTreeMap<i32, u64> = summary.tasks().iter().map(|task| (task.pid, task.switches)).collect();
        assert_eq!(switches, BTreeMap::from([(7, 0), (8, 1)]));
    }

    /// A run's traces lack the stopper's wakeups.
    #[test]
    fn a_stopper_is_not_missed_a_wakeup() {
        let unwoken = |comm: &str| {
            let turn = |at: u32| {
                format!(
                    "<idle>-0 [000] {at}.0: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm={comm} next_pid=7 \
                     next_prio=120\n{comm}-7 [000] {at}.5: sched_switch: prev_comm={comm} prev_pid=7 prev_prio=120 prev_state=S ==> \
                     next_comm=swapper/0 next_pid=0 next_prio=120\n"
                )
            };
            summary([1, 2, 3].map(turn).concat().as_bytes()).tasks()[0].unwoken
        };
        assert_eq!((unwoken("a"), unwoken("migration/0")), (2, 0));
    }

    #[test]
    fn cpu_time_includes_the_beginning_and_the_end_of_the_trace() {
        let cpu_ns = |text: &str| {
            let mut summary = summary(text.as_bytes());
            summary.end();
            [7, 8].map(|pid| summary.tasks().iter().find(|task| task.pid == pid).map(|task| task.cpu_ns / 1_000_000))
        };
        let begins = "<idle>-0 [001] 1.000000: sched_waking: comm=a pid=7 prio=120 target_cpu=001\n";
        let charge = "a-7 [000] 1.003000: sched_stat_runtime: comm=a pid=7 runtime=4000000 [ns]\n";
        let switch = |at: &str, prev: &str, next: &str| {
            format!("x-1 [000] {at}: sched_switch: {prev} prev_prio=120 prev_state=R ==> {next} next_prio=120\n")
        };
        let switch_out = switch("1.010000", "prev_comm=a prev_pid=7", "next_comm=b next_pid=8");
        let switch_in = switch("1.011000", "prev_comm=b prev_pid=8", "next_comm=a next_pid=7");
        let ends = "<idle>-0 [001] 1.020000: sched_waking: comm=b pid=8 prio=120 target_cpu=001\n";
        // The charge includes a millisecond before the trace.
        let whole = [begins, charge, &switch_out, &switch_in, ends].concat();
        assert_eq!(cpu_ns(&whole), [Some(10 + 9), Some(1)]);
        // The switch is inconsistent, so it is unknown whether the next task stays.
        let torn = switch("1.012000", "prev_comm=b prev_pid=8", "next_comm=a next_pid=7");
        assert_eq!(cpu_ns(&[begins, charge, &switch_out, &switch_in, &torn, ends].concat()), [Some(10), Some(1)]);
        assert_eq!(cpu_ns(&[begins, charge, ends].concat()), [Some(0), Some(0)], "it tells of no switches");
    }

    #[test]
    fn each_life_of_a_pid_has_a_row() {
        let switch = |at: &str, (comm, pid): (&str, i32), state: &str, (next, next_pid): (&str, i32)| {
            format!(
                "{comm}-{pid} [000] {at}: sched_switch: prev_comm={comm} prev_pid={pid} prev_prio=120 prev_state={state} ==> \
                 next_comm={next} next_pid={next_pid} next_prio=120\n"
            )
        };
        let (sh, idle) = (("sh", 5), ("swapper/0", 0));
        let fork = |at: &str| format!("sh-5 [000] {at}: sched_process_fork: comm=sh pid=5 child_comm=sh child_pid=7\n");
        let exec =
            |at: &str, name: &str| format!("sh-7 [000] {at}: task_rename: pid=7 oldcomm=sh newcomm={name} x=0\n");
        let text = [
            fork("1.000000"),
            switch("1.001000", sh, "S", ("sh", 7)),
            exec("1.001001", "ls"),
            switch("1.003000", ("ls", 7), "X", sh),
            fork("1.004000"),
            switch("1.005000", sh, "S", ("sh", 7)),
            exec("1.005001", "mk"),
            switch("1.010000", ("mk", 7), "S", idle),
            fork("1.011000"),
        ]
        .concat();
        let summary = summary(text.as_bytes());
        let reused_rows: Vec<_> = summary
            .tasks()
            .iter()
            .filter(|task| task.pid == 7)
            .map(|task| (task.comm(), task.cpu_ns, task.switches, task.reuses))
            .collect();
        let row = |comm: &str, ms: u64, switches, reuses| (comm.to_owned(), ms * 1_000_000, switches, reuses);
        assert_eq!(reused_rows, [row("mk", 5, 1, 1), row("ls", 2, 1, 1), row("sh", 0, 0, 0)]);
    }
}
