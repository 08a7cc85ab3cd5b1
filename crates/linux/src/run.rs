//! A run: creates all threads, begins and ends them together, and measures them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vruntime_workload::program::{Change, Changed, Policy, Settings, Workload};

use crate::cgroup::Cgroups;
use crate::check;
use crate::common::Common;
use crate::error::{Error, limits_of_threads};
use crate::ftrace::RunTrace;
use crate::measured::{GroupMeasured, Measured, TaskMeasured};
use crate::objects::Objects;
use crate::others::Look;
use crate::processes::{self, Child};
use crate::program::{self, Running};
use crate::{stat, sys, work};

/// Time from ready to start, total and per thread, nanoseconds: threads read counters and fall asleep.
const LEAD_NS: u64 = 20_000_000;
const LEAD_EACH_NS: u64 = 200_000;
/// [`LEAD_NS`] with real-time tasks. A real-time bandwidth period (1 s) begins with the first one's creation, and
/// must not end during measured throttling.
const LEAD_REAL_TIME_NS: u64 = 300_000_000;
/// Interval of checks for readiness.
const LOOK: Duration = Duration::from_millis(100);
/// How often to call `stopped`, which costs the workload CPU time, and how long a signal handler (Ctrl-C) may take to
/// report.
const LOOK_DURING: Duration = Duration::from_secs(1);
const HANDLING: Duration = Duration::from_millis(10);
/// The most threads.
pub(crate) const MAX_THREADS: usize = 30_000;
/// With more processes, all tasks are threads of one.
const MAX_PROCESSES: usize = 4000;
/// Bytes; the programs are loops.
pub(crate) const STACK: usize = 256 << 10;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Duration, nanoseconds; None: the workload's.
    pub duration: Option<u64>,
    /// Where to keep the kernel's recording (ftrace text).
    pub trace: Option<PathBuf>,
    /// Run workloads that may hang the machine, too.
    pub force: bool,
    /// Threads' timer slack, nanoseconds; None: the kernel's default, 50 us.
    pub timer_slack_ns: Option<u64>,
    /// Create all tasks as threads of one process.
    pub threads: bool,
    /// Keep rt-app's log of each loop ([`TaskMeasured::logged`]).
    pub log_loops: bool,
}

pub(crate) struct Shared {
    pub(crate) workload: Workload,
    timer_slack_ns: Option<u64>,
    /// See [`Options::threads`].
    threads_only: bool,
    pub(crate) log_loops: bool,
    pub(crate) objects: Objects,
    pub(crate) cgroups: Option<Cgroups>,
    /// The part that other processes see, too.
    pub(crate) common: Common,
    /// Unfinished programs of this process.
    live: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
    measured: Mutex<Vec<TaskMeasured>>,
    notes: Mutex<BTreeSet<String>>,
    gate: Gate,
}

/// Where threads await the start, and finally the measurement.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Default)]
struct GateState {
    open: bool,
    parked: Vec<TaskMeasured>,
    leave: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    fn wait(&self, until: impl Fn(&GateState) -> bool) {
        let mut state = locked(&self.state);
        while !until(&state) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut locked(&self.state));
        self.moved.notify_all();
    }
}

impl Shared {
    /// For `begun` initial tasks. `across`: they are in several processes.
    fn new(
        workload: &Workload,
        options: &Options,
        cgroups: Option<Cgroups>,
        begun: usize,
        across: bool,
    ) -> Result<Self, Error> {
        let none = |what: &'static str| move |cause| Error::Io { what: what.to_owned(), path: None, cause };
        let objects = Objects::new(workload, across).map_err(none("cannot make the workload's pipes"))?;
        let changed = |change: &Change| matches!(change.what, Changed::Tasks { .. });
        let common = Common::new(workload.tasks.len(), begun, workload.changes.iter().any(changed))
            .map_err(none("cannot map memory"))?;
        Ok(Self {
            workload: workload.clone(),
            timer_slack_ns: options.timer_slack_ns,
            threads_only: options.threads,
            log_loops: options.log_loops,
            objects,
            cgroups,
            common,
            live: AtomicUsize::new(if across { 0 } else { begun }),
            threads: Mutex::new(Vec::new()),
            measured: Mutex::new(Vec::new()),
            notes: Mutex::new(BTreeSet::new()),
            gate: Gate::default(),
        })
    }

    /// Monotonic nanoseconds.
    pub(crate) fn start(&self) -> u64 {
        self.common.start()
    }

    pub(crate) fn end(&self) -> u64 {
        self.common.end()
    }

    pub(crate) fn over(&self) -> bool {
        self.common.over()
    }

    /// Sets the calling thread's timer slack; cannot fail.
    fn set_slack(&self) {
        if let Some(ns) = self.timer_slack_ns.and_then(std::num::NonZeroU64::new) {
            let _set = rustix::thread::set_current_timer_slack(Some(ns));
        }
    }

    /// Adds a note, once.
    pub(crate) fn note(&self, note: String) {
        locked(&self.notes).insert(note);
    }

    pub(crate) fn fork(self: &Arc<Self>, template: usize) {
        let count = self.common.forked[template].fetch_add(1, Ordering::Relaxed);
        let task = &self.workload.tasks[template];
        if task.process.is_none() && !self.threads_only {
            self.note("forked processes are threads of their parent".to_owned());
        }
        let first = count == 0 && task.start.is_none();
        let name = if first { task.name.clone() } else { format!("{}-{}", task.name, count + 1) };
        if locked(&self.threads).len() >= MAX_THREADS {
            self.note(format!("no more than {MAX_THREADS} threads: forks beyond that were left out"));
            return;
        }
        self.live.fetch_add(1, Ordering::SeqCst);
        self.common.one_more();
        let shared = self.clone();
        let settings = task.settings.clone();
        let body = move || {
            let born = work::now();
            let mut this = Running::new(shared.clone(), template, name);
            shared.set_slack();
            let here = shared.common.here_is(template, this.measured.tid);
            this.apply(&settings);
            this.run();
            shared.common.gone(here);
            stat::read_at_end(&mut this.measured);
            this.note_attributes();
            this.measured.life_ns = work::now().min(shared.end()).saturating_sub(born);
            locked(&shared.measured).push(std::mem::take(&mut this.measured));
            shared.one_less();
        };
        match thread::Builder::new().name(short(&task.name)).stack_size(STACK).spawn(body) {
            Ok(handle) => locked(&self.threads).push(handle),
            Err(error) => {
                self.one_less();
                let help = limits_of_threads(&error).map_or_else(String::new, |help| format!(": {help}"));
                self.note(format!("a fork was refused: {error}{help}"));
            }
        }
    }

    /// Counts an ended program; the last ends the run.
    fn one_less(&self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
        self.common.one_less();
    }

    /// Runs an initial task from creation to end.
    fn task(self: &Arc<Self>, template: usize) {
        let task = &self.workload.tasks[template];
        let mut this = Running::new(self.clone(), template, task.name.clone());
        self.set_slack();
        self.common.here_is(template, this.measured.tid);
        this.apply(&task.settings);
        self.common.is_ready();
        self.gate.wait(|gate| gate.open);
        let mut before = TaskMeasured { tid: this.measured.tid, ..TaskMeasured::default() };
        stat::read_own(&mut before);
        let born = self.start() + task.start.unwrap_or(0);
        if self.start() > 0 && born < self.end() {
            let _slept =
                rustix::thread::clock_nanosleep_absolute(rustix::time::ClockId::Monotonic, &work::timespec(born));
            this.run();
        }
        // From here on it waits for locks and wakes at the ends of others, which the workload does not include.
        stat::read_at_end(&mut this.measured);
        this.measured.life_ns = work::now().min(self.end()).saturating_sub(born);
        this.note_attributes();
        let mut measured = std::mem::take(&mut this.measured);
        measured.cpu_ns = measured.cpu_ns.saturating_sub(before.cpu_ns);
        // It slept once between `before` and the start.
        measured.voluntary = measured.voluntary.saturating_sub(before.voluntary + 1);
        measured.involuntary = measured.involuntary.saturating_sub(before.involuntary);
        // The values before the run, until the thread is measured.
        (measured.run_delay_ns, measured.migrations) = (before.run_delay_ns, before.migrations);
        self.one_less();
        self.gate.change(|gate| gate.parked.push(measured));
        self.gate.wait(|gate| gate.leave);
    }

    /// Reads what only `/proc` has of a parked thread. `task`: the values before the run.
    fn measure(task: &TaskMeasured) -> TaskMeasured {
        let mut now = task.clone();
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        stat::wait_for_sleep(task.tid);
        if !stat::read(task.tid, &mut now) {
            return TaskMeasured { run_delay_ns: None, migrations: None, ..task.clone() };
        }
        let run_delay_ns = since(now.run_delay_ns, task.run_delay_ns);
        TaskMeasured { run_delay_ns, migrations: since(now.migrations, task.migrations), ..task.clone() }
    }

    fn change(&self, change: &Change) {
        match &change.what {
            Changed::Group { group, to } => {
                let done = self.cgroups.as_ref().map(|cgroups| cgroups.change(*group, to));
                if let Some(Err(error)) = done {
                    self.note(error.to_string());
                }
            }
            Changed::Tasks { tasks, settings, nice } => {
                let policy = settings.policy.or(nice.map(|nice| Policy::Other { nice, slice: None }));
                let settings = Settings { policy, ..settings.clone() };
                for (template, tid) in self.common.threads().filter(|(template, _)| tasks.contains(template)) {
                    program::apply(self, tid, &self.workload.tasks[template].name, &settings);
                }
            }
            Changed::Cpuset { .. } | Changed::Session { .. } => {
                self.note("changes of cpusets and sessions are left out".to_owned());
            }
        }
    }
}

/// Returns a thread's name, cut like the kernel's.
fn short(name: &str) -> String {
    name.bytes().filter(u8::is_ascii_graphic).take(15).map(char::from).collect()
}

fn has_realtime(workload: &Workload) -> bool {
    let realtime =
        |settings: &Settings| matches!(settings.policy, Some(Policy::Fifo { .. } | Policy::RoundRobin { .. }));
    let changed = |change: &Change| match &change.what {
        Changed::Tasks { settings, .. } => realtime(settings),
        _ => false,
    };
    let at_some_time = workload
        .tasks
        .iter()
        .any(|task| realtime(&task.settings) || task.phases.iter().any(|phase| realtime(&phase.settings)));
    at_some_time || workload.changes.iter().any(changed)
}

/// Initial tasks by process; none if too many processes.
fn processes_of(workload: &Workload, begun: &[usize], notes: &mut Vec<String>) -> Vec<Vec<usize>> {
    let mut shared: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut all = Vec::new();
    for &task in begun {
        match workload.tasks[task].process {
            Some(process) => shared.entry(process).or_default().push(task),
            None => all.push(vec![task]),
        }
    }
    all.extend(shared.into_values());
    if all.len() > MAX_PROCESSES {
        notes.push(format!("tasks are threads of one process: more than {MAX_PROCESSES} processes are not made"));
        all.clear();
    }
    all
}

/// Runs a workload as threads of this process, or its own processes, and measures them. Ends if `stopped`, called
/// regularly, returns true.
///
/// # Errors
/// [`Error::Impossible`], [`Error::Endless`], [`Error::TooMany`] for workloads that cannot run; [`Error::Hangs`] for
/// those that should not; and kernel refusals that leave nothing to run.
pub fn run(workload: &Workload, options: &Options, stopped: &dyn Fn() -> bool) -> Result<Measured, Error> {
    let duration = options.duration.or(workload.duration);
    check::check(workload, duration, options.force)?;
    let begun: Vec<usize> = (0..workload.tasks.len()).filter(|&task| workload.tasks[task].start.is_some()).collect();
    if begun.len() > MAX_THREADS {
        return Err(Error::TooMany { wanted: begun.len(), limit: MAX_THREADS });
    }
    let mut notes = crate::clean();
    let cgroups = cgroups_of(workload, &mut notes);
    left_out(workload, &mut notes);
    inherited(workload, &begun, &mut notes);
    let processes = if options.threads { Vec::new() } else { processes_of(workload, &begun, &mut notes) };
    let across = processes.len() > 1;
    let shared = Arc::new(Shared::new(workload, options, cgroups, begun.len(), across)?);
    if let Some(note) = work::prepare() {
        shared.note(note);
    }
    let mut children = make_ready(&shared, &begun, if across { &processes } else { &[] })?;
    // All tasks are in place, and wait.
    let recorded = RunTrace::begin(options.trace.as_deref(), shared.cgroups.is_some(), &mut notes);
    let before = Look::now();
    let interrupted = last(&shared, begun.len() as u64, duration, &mut children, stopped);
    let over = work::now().min(shared.end());
    let others = before.since(&|process, thread| is_ours(&children, process, thread));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let (trace, groups_file, unwritten) = recorded.finish(&kernel);
    let (tasks, groups) = gather(&shared, begun.len(), children, &mut notes);
    let unseen = others.unseen(tasks.iter().map(|task| task.cpu_ns).sum());
    Ok(Measured {
        elapsed_ns: over.saturating_sub(shared.start()),
        tasks,
        groups,
        kernel,
        cpus: check::online(),
        others: others.residents,
        unseen,
        notes,
        interrupted,
        trace,
        groups_file,
        unwritten,
    })
}

/// Returns the groups, if used, and allowed by the kernel.
fn cgroups_of(workload: &Workload, notes: &mut Vec<String>) -> Option<Cgroups> {
    if workload.groups.len() <= 1 {
        return None;
    }
    match Cgroups::new(&workload.groups, has_realtime(workload), notes) {
        Ok(cgroups) => Some(cgroups),
        Err(error) => {
            notes.push(format!("all groups, their weights and limits are left out: {error}"));
            None
        }
    }
}

/// Notes workload parts that no kernel supports.
fn left_out(workload: &Workload, notes: &mut Vec<String>) {
    if !workload.hotplug.is_empty() {
        notes.push("CPUs stay online: hotplug is left out".to_owned());
    }
    if workload.groups.iter().any(|group| group.guarantee.is_some()) {
        notes.push("current kernels have no guarantees: they are left out".to_owned());
    }
    if !workload.sessions.is_empty() {
        notes.push("all threads are of one session: sessions are left out".to_owned());
    }
}

/// Notes attributes that tasks inherit from this program.
fn inherited(workload: &Workload, begun: &[usize], notes: &mut Vec<String>) {
    if let Ok(attr) = sys::attr()
        && begun.iter().any(|&task| workload.tasks[task].settings.policy.is_none())
    {
        let policy = match attr.policy {
            sys::SCHED_OTHER if attr.nice == 0 => None,
            sys::SCHED_OTHER => Some(format!("with nice {}", attr.nice)),
            sys::SCHED_BATCH => Some(format!("under SCHED_BATCH, with nice {}", attr.nice)),
            sys::SCHED_IDLE => Some("under SCHED_IDLE".to_owned()),
            _ => Some("under a real-time policy".to_owned()),
        };
        if let Some(policy) = policy {
            notes.push(format!("this program runs {policy}, which tasks without a policy of their own inherit"));
        }
    }
}

/// Creates all processes and threads, and awaits readiness.
fn make_ready(shared: &Arc<Shared>, begun: &[usize], processes: &[Vec<usize>]) -> Result<Vec<Child>, Error> {
    let mut children = Vec::new();
    let made = if processes.is_empty() {
        begin(shared, begun).map_err(|cause| Error::Fork { what: "cannot make a thread", cause })
    } else {
        processes.iter().try_for_each(|tasks| {
            children.push(Child::begin(shared, tasks)?);
            Ok(())
        })
    };
    let all_ready = made.map(|()| all_ready(shared, begun.len(), &mut children));
    if !matches!(all_ready, Ok(true)) {
        end(shared);
    }
    match all_ready {
        Ok(true) => Ok(children),
        Ok(false) => Err(Child::why_gone(children)),
        Err(error) => Err(error),
    }
}

fn is_ours(children: &[Child], process: i32, thread: i32) -> bool {
    let this = std::process::id() as i32;
    if process == this { thread != this } else { children.iter().any(|child| child.pid() == Some(process)) }
}

/// Collects results of tasks and groups, and ends this process's threads if it is the only one.
fn gather(
    shared: &Arc<Shared>,
    begun: usize,
    children: Vec<Child>,
    notes: &mut Vec<String>,
) -> (Vec<TaskMeasured>, Vec<GroupMeasured>) {
    let (mut tasks, mut of_children) =
        if children.is_empty() { (parked(shared, begun), Vec::new()) } else { processes::gather(children, notes) };
    tasks.sort_by_key(|task| task.template);
    let groups = shared.cgroups.as_ref().map(|cgroups| cgroups.measure(&shared.workload.groups)).unwrap_or_default();
    end(shared);
    let mut forked = std::mem::take(&mut *locked(&shared.measured));
    forked.append(&mut of_children);
    if !forked.is_empty() {
        notes
            .push("forked threads: how long they waited for a CPU and how often they moved is not measured".to_owned());
    }
    tasks.append(&mut forked);
    notes.extend(std::mem::take(&mut *locked(&shared.notes)));
    (tasks, groups)
}

/// Creates the threads of this process.
pub(crate) fn begin(shared: &Arc<Shared>, begun: &[usize]) -> io::Result<()> {
    for &template in begun {
        let this = shared.clone();
        let name = short(&shared.workload.tasks[template].name);
        let handle = thread::Builder::new().name(name).stack_size(STACK).spawn(move || this.task(template))?;
        locked(&shared.threads).push(handle);
    }
    Ok(())
}

/// Awaits all threads' readiness; false if a process ended before.
fn all_ready(shared: &Shared, count: usize, children: &mut [Child]) -> bool {
    let look = work::timespec(LOOK.as_nanos() as u64);
    loop {
        let ready = shared.common.ready.load(Ordering::SeqCst);
        if ready as usize >= count {
            return true;
        }
        if Child::any_is_gone(children) {
            return false;
        }
        shared.common.ready.wait_for(ready, Some(&look));
    }
}

/// Runs a child process. Returns its initial and forked tasks' results.
///
/// # Errors
/// If a thread is refused.
pub(crate) fn as_child(shared: &Arc<Shared>, tasks: &[usize]) -> io::Result<processes::Report> {
    shared.live.store(tasks.len(), Ordering::SeqCst);
    begin(shared, tasks)?;
    shared.common.wait_for_begin();
    shared.gate.change(|gate| gate.open = true);
    shared.common.wait_for_stop();
    let measured = parked(shared, tasks.len());
    end(shared);
    let forked = std::mem::take(&mut *locked(&shared.measured));
    let notes = std::mem::take(&mut *locked(&shared.notes)).into_iter().collect();
    Ok(processes::Report { begun: measured, forked, notes, refused: None })
}

/// Opens the gate, and awaits the run's end. Returns whether it was stopped.
fn last(
    shared: &Arc<Shared>,
    threads: u64,
    duration: Option<u64>,
    children: &mut [Child],
    stopped: &dyn Fn() -> bool,
) -> bool {
    let real_time = has_realtime(&shared.workload);
    let lead = if real_time { LEAD_REAL_TIME_NS } else { LEAD_NS };
    let start = work::now() + lead + threads * LEAD_EACH_NS;
    let end = duration.map_or(u64::MAX, |duration| start.saturating_add(duration));
    shared.common.begin(start, end);
    shared.gate.change(|gate| gate.open = true);
    let mut changes = shared.workload.changes.iter().peekable();
    let mut interrupted = false;
    while shared.common.live() > 0 {
        let now = work::now();
        if now >= end {
            break;
        }
        if stopped() {
            interrupted = true;
            shared.common.end_at(now);
            break;
        }
        if Child::any_is_gone(children) {
            shared.note("another program ended a process; its work is not measured".to_owned());
            shared.common.end_at(now);
            break;
        }
        while let Some(change) = changes.next_if(|change| start + change.at <= now) {
            shared.change(change);
        }
        let next = changes.peek().map_or(u64::MAX, |change| start + change.at).min(end);
        let wait = LOOK_DURING.min(Duration::from_nanos(next.saturating_sub(now)));
        shared.common.wait_until_done(wait);
        if shared.common.live() > 0 && work::now() < now + wait.as_nanos() as u64 {
            shared.common.wait_until_done(HANDLING);
        }
    }
    shared.common.stop_all();
    interrupted
}

/// Wakes waiting threads until all have ended.
fn wait_until_parked(shared: &Arc<Shared>, count: usize) {
    while locked(&shared.gate.state).parked.len() < count || shared.live.load(Ordering::SeqCst) > 0 {
        shared.objects.stop();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the results of the threads of this process.
fn parked(shared: &Arc<Shared>, count: usize) -> Vec<TaskMeasured> {
    wait_until_parked(shared, count);
    let parked = std::mem::take(&mut locked(&shared.gate.state).parked);
    parked.iter().map(Shared::measure).collect()
}

/// Releases all threads, and joins them.
fn end(shared: &Arc<Shared>) {
    shared.common.stop_all();
    shared.common.open_all();
    shared.gate.change(|gate| (gate.open, gate.leave) = (true, true));
    loop {
        let threads = std::mem::take(&mut *locked(&shared.threads));
        if threads.is_empty() {
            return;
        }
        for handle in threads {
            shared.objects.stop();
            // A thread that panicked has reported it on standard error.
            let _ended = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::attr_of;
    use crate::sys;
    use vruntime_workload::program::Policy;

    #[test]
    fn names_are_what_the_kernel_keeps() {
        assert_eq!(short("a task with spaces"), "ataskwithspaces");
        assert_eq!(short("0123456789abcdefgh"), "0123456789abcde");
    }

    #[test]
    fn policies_are_the_kernels() {
        let attr = attr_of(Policy::Deadline { runtime: 1, deadline: 2, period: 3, reclaim: true, overrun: false });
        assert_eq!((attr.policy, attr.flags, attr.runtime, attr.deadline, attr.period), (6, 2, 1, 2, 3));
        assert_eq!(attr_of(Policy::Other { nice: -3, slice: Some(5) }).runtime, 5);
        assert_eq!(sys::SCHED_IDLE, 5);
    }
}
