//! A snapshot of the machine's tasks and groups.
//!
//! Groups, affinities and autogroups are lines `FILE:CONTENT`, as in `docs/replay.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::{sys, work};

const CGROUPS: &str = "/sys/fs/cgroup";
/// The most nested groups; the kernel limits only paths' length.
const DEPTH: usize = 64;
/// The longest file of a group, bytes.
const LONGEST: usize = 64 << 10;

/// A snapshot of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The start, nanoseconds of CLOCK_MONOTONIC, the clock of the events.
    pub at_ns: u64,
    /// Duration, nanoseconds.
    pub took_ns: u64,
    /// Groups, memberships, affinities and autogroups: lines `FILE:CONTENT`.
    pub cgroups: String,
    /// All threads.
    pub tasks: Vec<TaskState>,
}

/// A thread in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskState {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The process's parent.
    pub ppid: i32,
    /// Its name.
    pub comm: String,
    /// `R`, `S`, `D`, `T`, `Z`, `I` and so on.
    pub state: char,
    /// `other`, `batch`, `idle`, `fifo`, `rr`, `deadline` or `ext`.
    pub policy: &'static str,
    /// The nice value.
    pub nice: i32,
    /// Real-time priority, 1..=99, or 0.
    pub rt_priority: u32,
    /// Requested slice (6.12+) or deadline runtime, nanoseconds; 0: none.
    pub slice_ns: u64,
    /// Deadline and period of deadline tasks, nanoseconds.
    pub deadline_ns: u64,
    /// See `deadline_ns`.
    pub period_ns: u64,
    /// Utilisation clamps, 0..=1024, if the kernel has them.
    pub uclamp: Option<(u32, u32)>,
    /// Whether children do not inherit its policy.
    pub reset_on_fork: bool,
    /// CPU time, nanoseconds; None without kernel accounts.
    pub cpu_ns: Option<u64>,
    /// Its last run, nanoseconds of CLOCK_MONOTONIC; for sleeping tasks about the sleep's start. Different stolen
    /// time on this CPU and the task's falsifies it. None without /proc/PID/sched.
    pub ran_ns: Option<u64>,
}

impl Snapshot {
    /// Takes a snapshot.
    pub fn take() -> Self {
        let began = work::now();
        let mut this = Self { at_ns: began, ..Self::default() };
        let clock = SchedClock::read();
        let mut processes: Vec<i32> = numbers(Path::new("/proc"));
        processes.sort_unstable();
        for pid in processes {
            this.session(pid);
            let mut threads = numbers(Path::new(&format!("/proc/{pid}/task")));
            threads.sort_unstable();
            for tid in threads {
                this.thread(pid, tid, clock);
            }
        }
        if let Some(enabled) = line_of("/proc/sys/kernel/sched_autogroup_enabled") {
            let _ = writeln!(this.cgroups, "/proc/sys/kernel/sched_autogroup_enabled:{enabled}");
        }
        groups(Path::new(CGROUPS), 0, &mut this.cgroups);
        this.took_ns = work::now().saturating_sub(began);
        this
    }

    /// Adds threads created since, and the sessions of new processes.
    pub(super) fn complete(&mut self) {
        let known: std::collections::BTreeSet<i32> = self.tasks.iter().map(|task| task.tid).collect();
        let clock = SchedClock::read();
        for pid in numbers(Path::new("/proc")) {
            if !known.contains(&pid) {
                self.session(pid);
            }
            for tid in numbers(Path::new(&format!("/proc/{pid}/task"))) {
                if !known.contains(&tid) {
                    self.thread(pid, tid, clock);
                }
            }
        }
    }

    /// Returns names of threads, by id.
    pub fn names(&self) -> impl Iterator<Item = (i32, &str)> {
        self.tasks.iter().map(|task| (task.tid, task.comm.as_str()))
    }

    /// Adds a process's autogroup, if it has one.
    fn session(&mut self, pid: i32) {
        let file = format!("/proc/{pid}/autogroup");
        if let Some(session) = line_of(&file) {
            // Writing to a String cannot fail.
            let _ = writeln!(self.cgroups, "{file}:{session}");
        }
    }

    /// Adds a thread, unless it has ended.
    fn thread(&mut self, pid: i32, tid: i32, clock: Option<SchedClock>) {
        let folder = format!("/proc/{pid}/task/{tid}");
        let Some(mut task) = fs::read_to_string(format!("{folder}/stat")).ok().and_then(|stat| of_stat(&stat)) else {
            return;
        };
        // Writing to a String cannot fail.
        for line in fs::read_to_string(format!("{folder}/cgroup")).unwrap_or_default().lines() {
            if schedules(line) {
                let _ = writeln!(self.cgroups, "{folder}/cgroup:{line}");
            }
        }
        let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
        if let Some(allowed) = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")) {
            let _ = writeln!(self.cgroups, "{folder}/status:{allowed}");
        }
        (task.pid, task.tid) = (pid, tid);
        if let Ok(attr) = sys::attr_of(tid as u32) {
            task.has(&attr);
        }
        task.cpu_ns = line_of(&format!("{folder}/schedstat"))
            .and_then(|line| line.split(' ').next()?.parse().ok())
            .filter(|&cpu_ns| cpu_ns > 0 || task.state != 'R');
        task.ran_ns = clock.and_then(|clock| clock.last_ran(&fs::read_to_string(format!("{folder}/sched")).ok()?));
        self.tasks.push(task);
    }
}

impl TaskState {
    fn has(&mut self, attr: &sys::SchedAttr) {
        self.policy = match attr.policy {
            sys::SCHED_OTHER => "other",
            sys::SCHED_FIFO => "fifo",
            sys::SCHED_RR => "rr",
            sys::SCHED_BATCH => "batch",
            sys::SCHED_IDLE => "idle",
            sys::SCHED_DEADLINE => "deadline",
            _ => "ext",
        };
        self.nice = attr.nice;
        self.rt_priority = attr.priority;
        self.slice_ns = attr.runtime;
        (self.deadline_ns, self.period_ns) = (attr.deadline, attr.period);
        let clamps = (attr.util_min, attr.util_max);
        self.uclamp = (attr.size >= 56 && clamps != (0, 0)).then_some(clamps);
        self.reset_on_fork = attr.flags & sys::FLAG_RESET_ON_FORK != 0;
    }
}

/// Offset of CLOCK_MONOTONIC from `/proc/PID/sched`'s clock, nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SchedClock {
    ahead: i64,
}

impl SchedClock {
    const TRIES: u32 = 8;

    /// The calling task's own last-run time is about now. The shortest of several reads counts, since a preemption
    /// between the clocks adds to the offset.
    fn read() -> Option<Self> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let folder = format!("/proc/self/task/{tid}");
        let once = || {
            // Updates the account.
            let _charged = work::cpu_time();
            let ran = exec_start(&fs::read_to_string(format!("{folder}/sched")).ok()?)?;
            Some(work::now() as i64 - ran as i64)
        };
        let ahead = (0..SchedClock::TRIES).map_while(|_| once()).min()?;
        Some(Self { ahead })
    }

    /// Last run from a thread's `/proc/PID/sched`; None if it never ran.
    fn last_ran(self, text: &str) -> Option<u64> {
        let ran = exec_start(text).filter(|&ran| ran > 0)?;
        u64::try_from(ran as i64 + self.ahead).ok()
    }
}

/// Parses `se.exec_start : 494356.879130` of `/proc/PID/sched`, nanoseconds.
fn exec_start(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("se.exec_start"))?;
    let (ms, fraction) = line.split_once(':')?.1.trim().split_once('.')?;
    Some(ms.parse::<u64>().ok()?.checked_mul(1_000_000)? + fraction.parse::<u64>().ok()?)
}

/// Parses `/proc/PID/task/TID/stat`.
fn of_stat(stat: &str) -> Option<TaskState> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, comm) = head.split_once('(')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let ppid = fields.next()?.parse().ok()?;
    let fields: Vec<&str> = fields.collect();
    // Fields 19, 40 and 41 of proc(5); field 5 is next.
    let number = |field: usize| fields.get(field - 5).and_then(|field| field.parse::<i64>().ok());
    let nice = number(19).unwrap_or(0) as i32;
    let rt_priority = number(40).unwrap_or(0) as u32;
    let policy = match number(41) {
        Some(1) => "fifo",
        Some(2) => "rr",
        Some(3) => "batch",
        Some(5) => "idle",
        Some(6) => "deadline",
        Some(7) => "ext",
        _ => "other",
    };
    Some(TaskState { comm: comm.to_owned(), state, ppid, nice, rt_priority, policy, ..TaskState::default() })
}

/// Whether a line of `/proc/PID/cgroup` is of v1's `cpu`, or of v2.
fn schedules(line: &str) -> bool {
    let mut fields = line.splitn(3, ':');
    let (number, controllers) = (fields.next(), fields.next().unwrap_or_default());
    number == Some("0") || controllers.split(',').any(|name| name == "cpu")
}

fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn line_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?;
    (!line.is_empty()).then(|| line.to_owned())
}

/// Adds the `cpu` and `cpuset` files of a group and its descendants.
fn groups(folder: &Path, depth: usize, lines: &mut String) {
    let (mut files, mut below) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        // Links lead to the same groups: /sys/fs/cgroup/cpu to cpu,cpuacct.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            below.push(path);
        } else if let Some(name) = name.to_str().filter(|name| kind.is_file() && is_of_cpu(name)) {
            files.insert(name.to_owned(), path);
        }
    }
    for path in files.values() {
        // Ignore unreadable files, such as write-only ones.
        let Some(text) = fs::read_to_string(path).ok().filter(|text| text.len() <= LONGEST) else { continue };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(lines, "{}:{line}", path.display());
        }
    }
    if depth < DEPTH {
        below.sort_unstable();
        for folder in &below {
            groups(folder, depth + 1, lines);
        }
    }
}

fn is_of_cpu(name: &str) -> bool {
    (name.starts_with("cpu.") || name.starts_with("cpuset.")) && !name.ends_with(".pressure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_in_it() {
        let taken = Snapshot::take();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let this = taken.tasks.iter().find(|task| task.tid == tid).expect("it is there");
        let own = sys::attr().unwrap();
        assert_eq!((this.pid, this.nice, this.state), (std::process::id() as i32, own.nice, 'R'), "{this:?}");
        let line = format!("/proc/{}/task/{tid}/status:Cpus_allowed_list:", this.pid);
        assert!(taken.cgroups.contains(&line), "{line}");
    }

    #[test]
    fn a_process_that_begins_later_has_its_session() {
        if line_of("/proc/self/autogroup").is_none() {
            crate::skip::skip("this process has no autogroup");
            return;
        }
        let mut taken = Snapshot::default();
        taken.complete();
        let line = format!("/proc/{}/autogroup:/autogroup-", std::process::id());
        assert!(taken.cgroups.contains(&line), "{line}");
    }

    /// Compares a sleeper only with itself: the kernel's clock excludes stolen time, so CPUs' times are not
    /// comparable.
    #[test]
    fn sleepers_do_not_run() {
        let (tell, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ended = ended.recv();
        });
        let folder = format!("/proc/self/task/{}", receiver.recv().unwrap());
        let asleep = || {
            let stat = fs::read_to_string(format!("{folder}/stat")).unwrap();
            of_stat(&stat).is_some_and(|task| task.state == 'S')
        };
        while !asleep() {
            std::thread::yield_now();
        }
        let text = fs::read_to_string(format!("{folder}/sched")).unwrap_or_default();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let later = fs::read_to_string(format!("{folder}/sched")).unwrap_or_default();
        let taken = Snapshot::take();
        drop(end);
        sleeper.join().unwrap();
        let Some(ran) = exec_start(&text) else {
            crate::skip::skip("this kernel has no /proc/PID/sched");
            return;
        };
        assert!(ran > 0 && exec_start(&later) == Some(ran), "{text}{later}");
        let task = taken.tasks.iter().find(|task| folder.ends_with(&format!("/{}", task.tid)));
        assert!(task.expect("it is there").ran_ns.is_some());
    }

    #[test]
    fn the_clock_of_the_scheduler_is_translated() {
        let text =
            "a (7, #threads: 1)\n-----\nse.exec_start                :        494356.879130\nse.vruntime : 1.0\n";
        assert_eq!(exec_start(text), Some(494_356_879_130));
        let clock = SchedClock { ahead: -356_879_130 };
        assert_eq!(clock.last_ran(text), Some(494_000_000_000));
        let never = text.replace("494356.879130", "0.000000");
        assert_eq!((clock.last_ran(&never), clock.last_ran("se.exec_start : x")), (None, None));
        assert_eq!(SchedClock { ahead: -500_000_000_000 }.last_ran(text), None, "before the clock began");
    }

    #[test]
    fn names_may_contain_anything() {
        let fields = "0 ".repeat(14);
        let stat = format!("7 (a) b) S 1 {fields}5 {}0 0 0", "0 ".repeat(20));
        let task = of_stat(&stat).unwrap();
        assert_eq!((task.comm.as_str(), task.state, task.ppid, task.nice), ("a) b", 'S', 1, 5));
        assert_eq!(of_stat("7 (a"), None);
    }

    #[test]
    fn only_hierarchies_that_schedule_count() {
        let lines = ["4:cpu,cpuacct:/a", "0::/a", "3:cpuset:/a", "9:name=systemd:/a", "2:cpuacct:/"];
        assert_eq!(lines.map(schedules), [true, true, false, false, false]);
        let names = ["cpu.max", "cpuset.cpus", "cpuacct.usage", "cpu.pressure", "memory.max"];
        assert_eq!(names.map(is_of_cpu), [true, true, false, false, false]);
    }
}
