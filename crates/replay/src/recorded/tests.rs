//! Small traces and their programs.

use super::*;
use vruntime_workload::program::{Bandwidth, Changed, Clamps, Cpuset, Follow, Op, Partition, Phase, Policy, Repeat};

mod bystanders;
mod cycle;
mod endless;
mod exchanges;
mod execs;
mod exits;
mod flows;
mod habits;
mod handoffs;
mod hotplug;
mod leads;
mod locks;
mod losses;
mod messages;
mod overhead;
mod pools;
mod start;
mod sync;
mod wheel;

/// A wait for the recording's first thread.
fn wait(inbox: usize) -> Op {
    Op::InboxWait { inbox, from: 0 }
}

/// A wakeup by that thread, without a wait.
fn wake(inbox: usize) -> Op {
    Op::InboxWake { inbox, from: 0, follow: Follow::Free, sync: false }
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const IDLE: Named<'static> = Named { pid: 0, comm: b"swapper" };

fn task(pid: i32, comm: &'static str) -> Named<'static> {
    Named { pid, comm: comm.as_bytes() }
}

/// All have nice 0, except `other`.
fn prio(task: Named<'_>) -> i32 {
    if task.comm == b"other" { 90 } else { 120 }
}

/// A trace in the making. It remembers the task of each of two CPUs.
#[derive(Default)]
struct Script {
    recorder: Recorder,
    running: [Option<Named<'static>>; 3],
    /// Whether its events lack processes.
    threads_only: bool,
    /// The file's context of events.
    context: Option<Context>,
}

impl Script {
    fn event(&mut self, at: u64, cpu: usize, what: What<'static>) -> &mut Self {
        let pid = self.running[cpu].map_or(0, |task| task.pid);
        self.recorder.add(&Event {
            at,
            cpu: cpu as u32,
            pid,
            tgid: (pid > 0 && !self.threads_only).then_some(pid / 10),
            context: self.context,
            what,
        });
        self
    }

    fn wake(&mut self, at: u64, cpu: usize, task: Named<'static>) -> &mut Self {
        self.event(at, cpu, What::Woken { task, prio: 120 })
    }

    fn switch(&mut self, at: u64, cpu: usize, left: Left, next: Option<Named<'static>>) -> &mut Self {
        let prev = self.running[cpu].unwrap_or(IDLE);
        let what = What::Switch {
            prev,
            prev_prio: prio(prev),
            left,
            next: next.unwrap_or(IDLE),
            next_prio: prio(next.unwrap_or(IDLE)),
        };
        self.event(at, cpu, what);
        self.running[cpu] = next;
        self
    }

    /// An interrupt wakes the task, which runs 10 us later for `work`, and sleeps.
    fn burst(&mut self, at: u64, cpu: usize, task: Named<'static>, work: u64) -> &mut Self {
        self.wake(at, cpu, task).switch(at + 10 * US, cpu, Left::Runnable, Some(task));
        self.switch(at + 10 * US + work, cpu, Left::Sleeping, None)
    }

    fn finish(&mut self) -> Recorded {
        std::mem::take(&mut self.recorder).finish(&Lateness::default())
    }
}

fn ops(recorded: &Recorded, pid: i32) -> Vec<Op> {
    let thread = recorded.threads.iter().find(|thread| thread.pid == pid).expect("it is in the trace");
    let task = &recorded.workload.tasks[thread.task.expect("it is replayed")];
    task.phases.iter().flat_map(|phase| phase.ops.iter().cloned()).collect()
}

fn habit(recorded: &Recorded, pid: i32) -> Habit {
    recorded.threads.iter().find(|thread| thread.pid == pid).expect("it is in the trace").habit
}

#[test]
fn devices_forks_and_exits() {
    let mut script = Script::default();
    let (parent, child) = (task(5, "parent"), task(6, "parent"));
    script.wake(0, 0, parent).switch(0, 0, Left::Runnable, Some(parent));
    script.event(MS, 0, What::Fork { parent, child, thread: None }).event(
        MS,
        0,
        What::WokenNew { task: child, prio: 125 },
    );
    script.switch(MS, 1, Left::Runnable, Some(task(6, "child"))).switch(2 * MS, 0, Left::Uninterruptible, None);
    script.switch(3 * MS, 1, Left::Dead, None).wake(7 * MS, 1, parent).switch(7 * MS, 0, Left::Runnable, Some(parent));
    script.switch(8 * MS, 0, Left::Dead, None);
    // The pid is given to another.
    script.event(9 * MS, 0, What::WokenNew { task: task(6, "other"), prio: 90 });
    script.switch(9 * MS, 0, Left::Runnable, Some(task(6, "other"))).switch(10 * MS, 0, Left::Dead, None);
    let recorded = script.finish();
    let [run, device] = [Op::Run { work: MS }, Op::Device { time: 5 * MS }];
    assert_eq!(ops(&recorded, 5), [run.clone(), Op::Fork(1), run.clone(), device, run]);
    let tasks = &recorded.workload.tasks;
    assert_eq!(tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["parent-5", "child-6", "other-6"]);
    assert_eq!(tasks.iter().map(|task| task.start).collect::<Vec<_>>(), [Some(0), None, Some(9 * MS)]);
    assert_eq!(tasks[2].settings.policy, Some(Policy::Fifo { priority: 9 }));
    assert_eq!(recorded.counts.reused, 1);
}

#[test]
fn spinners_go_on_and_are_confined_if_they_waited_beside_an_idle_cpu() {
    let mut script = Script::default();
    let (a, b) = (task(5, "spin"), task(6, "spin"));
    script.event(0, 0, What::Rename { task: a });
    for round in 0..50 {
        let (next, _) = if round % 2 == 0 { (a, b) } else { (b, a) };
        script.switch(round * 4 * MS, 1, Left::Runnable, Some(next));
    }
    script.switch(200 * MS, 1, Left::Dead, Some(a)).switch(204 * MS, 1, Left::Dead, None);
    let recorded = script.finish();
    assert_eq!((recorded.counts.endless, recorded.counts.confined), (2, 2));
    assert!(recorded.threads.iter().all(|thread| thread.confined == Some(1) && thread.habit == Habit::Awake));
    for task in &recorded.workload.tasks {
        assert_eq!(task.settings.cpus, Some(vec![1]));
        assert_eq!(task.phases.last().expect("it works").repeat, Repeat::Forever);
    }
    assert_eq!(recorded.busy_ns[1], 204 * MS);
}

#[test]
fn what_is_missing_is_counted_and_nothing_is_made_up() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    script.wake(0, 0, a).switch(0, 0, Left::Runnable, Some(a));
    script.event(MS, 0, What::Charged { task: a, ns: MS });
    // The switches from a and to b are missing. Later b runs again without a wakeup.
    script.running[0] = Some(b);
    script.switch(40 * MS, 0, Left::Sleeping, None).switch(50 * MS, 0, Left::Runnable, Some(b));
    script.switch(51 * MS, 0, Left::Sleeping, None);
    script.event(60 * MS, 0, What::Lost { events: Some(3) }).event(10 * MS, 1, What::Lost { events: None });
    let recorded = script.finish();
    let cpu_ns: Vec<u64> = recorded.threads.iter().map(|thread| thread.cpu_ns).collect();
    assert_eq!(cpu_ns, [MS, MS], "a: what it was charged for; b: without unseen time");
    let counts = recorded.counts;
    assert_eq!((counts.broken_switches, counts.unwoken, counts.losses.gaps, counts.backwards), (1, 1, 2, 1));
    assert_eq!((counts.losses.events, counts.losses.uncounted), (3, 1));
    assert_eq!(counts.running_at_start, 0, "b came later");
    assert_eq!(recorded.duration_ns, 60 * MS);
}

/// Each CPU had at most one task when the trace began. A sleep presumed from a missing switch does not count as
/// unwoken.
#[test]
fn what_is_presumed_is_not_counted() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    script.running[0] = Some(a);
    script.switch(MS, 0, Left::Runnable, Some(b)).event(2 * MS, 0, What::Charged { task: b, ns: MS });
    // The switch from b to a is missing. The trace has the one from a to b, so b need not have slept.
    script.running[0] = Some(a);
    script.switch(10 * MS, 0, Left::Sleeping, Some(b)).switch(12 * MS, 0, Left::Sleeping, None);
    let counts = script.finish().counts;
    assert_eq!((counts.running_at_start, counts.broken_switches, counts.unwoken), (1, 1, 0));
}

/// As on machines that record no switch from the idle task of a CPU.
#[test]
fn charges_else_wakeups_date_an_arrival_without_a_switch() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    let charged = |ns| What::Charged { task: a, ns };
    // The first events of the four arrivals: a charge, a wakeup of b, a charge by the other CPU, and none.
    script.event(0, 0, What::Rename { task: a }).wake(10 * MS, 1, a).running[1] = Some(a);
    script.event(14 * MS, 1, charged(3 * MS)).switch(15 * MS, 1, Left::Sleeping, None);
    script.wake(20 * MS, 1, a).running[1] = Some(a);
    script.wake(23 * MS, 1, b).event(24 * MS, 1, charged(3 * MS)).switch(25 * MS, 1, Left::Sleeping, None);
    script.wake(30 * MS, 1, a).event(34 * MS, 0, charged(3 * MS)).running[1] = Some(a);
    script.switch(35 * MS, 1, Left::Sleeping, None).wake(40 * MS, 1, a).running[1] = Some(a);
    script.switch(45 * MS, 1, Left::Sleeping, None);
    let recorded = script.finish();
    let thread = recorded.threads.iter().find(|thread| thread.pid == 5).unwrap();
    assert_eq!((thread.cpu_ns, recorded.busy_ns[1]), (17 * MS, 17 * MS));
    assert_eq!(thread.latencies, [MS, MS, MS], "the latency of the last wakeup is unknown");
    assert_eq!((recorded.counts.missing_arrivals, recorded.counts.broken_switches), (4, 0));
    assert_eq!(recorded.counts.charged_ns, 9 * MS);
    let runs: Vec<Op> = ops(&recorded, 5).into_iter().filter(|op| !matches!(op, Op::SleepUntil { .. })).collect();
    let run = |ms: u64| Op::Run { work: ms * MS };
    assert_eq!(runs, [run(4), run(2), wake(0), run(2), run(4), run(5)]);
}

/// Both switches between two tasks are missing: each has its charged time.
#[test]
fn a_task_that_replaced_another_without_a_switch_has_its_charges() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    script.burst(MS, 1, b, MS).wake(3 * MS, 0, a).switch(4 * MS, 0, Left::Runnable, Some(a));
    script.event(6 * MS, 0, What::Charged { task: a, ns: 2 * MS }).wake(7 * MS, 0, b).running[0] = Some(b);
    script.event(20 * MS, 0, What::Charged { task: b, ns: 5 * MS }).switch(20 * MS, 0, Left::Sleeping, None);
    let recorded = script.finish();
    let cpu_ns = [5, 6].map(|pid| recorded.threads.iter().find(|thread| thread.pid == pid).unwrap().cpu_ns);
    assert_eq!((cpu_ns, recorded.counts.broken_switches), ([2 * MS, MS + 5 * MS], 1));
}

/// Two hogs on their own CPUs, both throttled for 70 ms of each 100 ms.
fn throttled() -> Recorder {
    let mut script = Script::default();
    let hogs = [task(5, "hog"), task(6, "hog")];
    script.event(0, 0, What::Rename { task: hogs[0] });
    for round in 0..10 {
        for (cpu, hog) in hogs.into_iter().enumerate() {
            script.switch(round * 100 * MS, cpu, Left::Runnable, Some(hog));
        }
        for cpu in 0..2 {
            script.switch(round * 100 * MS + 30 * MS, cpu, Left::Runnable, None);
        }
    }
    script.recorder
}

#[test]
fn a_throttled_task_is_not_pinned() {
    let recorded = throttled().finish(&Lateness::default());
    assert_eq!((recorded.counts.confined, recorded.counts.throttled), (0, 2));
    assert!(recorded.threads.iter().all(|thread| thread.confined.is_none()));
    let text = "/proc/5/task/5/cgroup:0::/qa/b\n/proc/6/task/6/cgroup:0::/qa/b\n/sys/fs/cgroup/qa/cpu.weight:100\n\
                /sys/fs/cgroup/qa/b/cpu.weight:100\n/sys/fs/cgroup/qa/cpu.max:60000 100000\n";
    let cgroups = Cgroups::read("cgroups.txt", text.as_bytes()).unwrap();
    let recorded = throttled().with_cgroups(cgroups.clone()).finish(&Lateness::default());
    assert_eq!((recorded.counts.confined, recorded.counts.throttled), (0, 0), "the limit is known");

    // Another task has the CPU meanwhile, which looks like an affinity. The group's limit explains it.
    let shared = || {
        let mut script = Script::default();
        let (hog, other) = (task(5, "hog"), task(7, "else"));
        script.event(0, 1, What::Rename { task: hog }).event(0, 0, What::Rename { task: hog });
        for round in 0..10 {
            script.switch(round * 100 * MS, 0, Left::Runnable, Some(hog));
            script.wake(round * 100 * MS + 29 * MS, 0, other);
            script.switch(round * 100 * MS + 30 * MS, 0, Left::Runnable, Some(other));
            script.switch(round * 100 * MS + 99 * MS, 0, Left::Sleeping, None);
        }
        script.recorder
    };
    assert_eq!(shared().finish(&Lateness::default()).counts.confined, 1);
    assert_eq!(shared().with_cgroups(cgroups).finish(&Lateness::default()).counts.confined, 0);
}

/// CPU 1's first event is a task's departure: the task was there since the trace began, except while elsewhere.
#[test]
fn no_task_is_on_two_cpus_at_a_time() {
    let mut script = Script::default();
    let roams = task(5, "roams");
    for beat in 1..=10 {
        script.burst(beat * 10 * MS, 0, roams, MS);
    }
    script.running[1] = Some(roams);
    script.switch(105 * MS, 1, Left::Sleeping, None);
    script.burst(110 * MS, 0, roams, MS);
    let recorded = script.finish();
    let seen_last = 101 * MS + 10 * US;
    assert_eq!(recorded.threads[0].cpu_ns, 11 * MS + (105 * MS - seen_last));
    assert_eq!(recorded.busy_ns, [11 * MS, 105 * MS - seen_last]);
    // The task was on CPU 0 first, so it did not run on CPU 1 when the trace began.
    assert_eq!((recorded.counts.running_at_start, recorded.counts.broken_switches), (0, 0));
}

/// Its switch away from CPU 0 is missing: of that time, only its charges are known.
#[test]
fn a_task_that_runs_on_another_cpu_has_left_the_first() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    script.wake(0, 0, a).switch(0, 0, Left::Runnable, Some(a)).event(MS, 0, What::Charged { task: a, ns: MS });
    script.switch(10 * MS, 1, Left::Runnable, Some(a)).running[0] = None;
    script.switch(12 * MS, 0, Left::Runnable, Some(b));
    script.switch(13 * MS, 1, Left::Sleeping, None).switch(15 * MS, 0, Left::Sleeping, None);
    let recorded = script.finish();
    let cpu_ns: Vec<u64> = recorded.threads.iter().map(|thread| thread.cpu_ns).collect();
    assert_eq!(cpu_ns, [MS + 3 * MS, 3 * MS]);
    assert_eq!(recorded.busy_ns, [MS + 3 * MS, 3 * MS]);
    assert_eq!(recorded.counts.broken_switches, 1);
}

/// Work is the recorded CPU time to the nanosecond, however short. Sleeps are shorter by the lateness of the
/// simulator's timers.
#[test]
fn work_is_the_recorded_time() {
    let mut script = Script::default();
    script.burst(MS, 0, task(5, "short"), 5 * US).burst(9 * MS, 0, task(5, "short"), 2 * MS);
    let recorded = std::mem::take(&mut script.recorder).finish(&Lateness { slack: 50 * US, timer: 5 * US });
    let expected = [
        Op::SleepUntil { at: MS - 55 * US },
        Op::Run { work: 5 * US },
        Op::SleepUntil { at: 9 * MS - 55 * US },
        Op::Run { work: 2 * MS },
    ];
    assert_eq!(ops(&recorded, 5), expected);
}

/// Work counts at full speed: a CPU of half the capacity or half the frequency does half as much.
#[test]
fn work_is_counted_at_full_speed() {
    let record = |recorder: Recorder| {
        let mut script = Script { recorder, ..Script::default() };
        script.burst(MS, 0, task(5, "small"), 8 * MS).burst(10 * MS, 1, task(6, "large"), 8 * MS);
        script.event(20 * MS, 1, What::Frequency { cpu: 1, khz: 1_000_000 });
        script.burst(21 * MS, 1, task(6, "large"), 8 * MS);
        script.event(40 * MS, 1, What::Frequency { cpu: 1, khz: 2_000_000 });
        script.wake(41 * MS, 1, task(6, "large")).switch(41 * MS, 1, Left::Runnable, Some(task(6, "large")));
        script.event(45 * MS, 1, What::Frequency { cpu: 1, khz: 1_500_000 });
        script.switch(49 * MS, 1, Left::Sleeping, None);
        script.recorder
    };
    let first = record(Recorder::new().with_capacities(vec![512, 1024]));
    assert!(first.frequencies_were_raised(), "half of the full frequency was taken for full");
    let again = record(Recorder::new().with_capacities(vec![512, 1024]).with_highest_frequencies_of(&first));
    assert!(!again.frequencies_were_raised());
    let recorded = again.finish(&Lateness::default());
    let work = |pid| ops(&recorded, pid).into_iter().filter(|op| matches!(op, Op::Run { .. })).collect::<Vec<_>>();
    assert_eq!(work(5), [Op::Run { work: 4 * MS }]);
    assert_eq!(work(6), [8 * MS, 4 * MS, 7 * MS].map(|work| Op::Run { work }));
    assert_eq!(recorded.threads[1].cpu_ns, 24 * MS, "time is time");
    // Known highest frequencies override a trace in which the machine never was at its fastest.
    let known = record(Recorder::new().with_capacities(vec![512, 1024]).with_highest_frequencies(vec![0, 4_000_000]));
    assert!(!known.frequencies_were_raised());
    let work = ops(&known.finish(&Lateness::default()), 6).into_iter().filter(|op| matches!(op, Op::Run { .. }));
    assert_eq!(work.collect::<Vec<_>>(), [8 * MS, 2 * MS, 7 * MS / 2].map(|work| Op::Run { work }));
}

/// A task with an unrecorded birth is new on an idle CPU; on a busy one it had waited.
#[test]
fn a_task_without_a_fork_is_new_or_has_waited() {
    let mut script = Script { running: [None, Some(task(9, "busy")), None], ..Script::default() };
    script.burst(MS, 0, task(5, "first"), MS).switch(50 * MS, 0, Left::Runnable, Some(task(6, "new")));
    script.switch(52 * MS, 0, Left::Sleeping, None).switch(60 * MS, 1, Left::Runnable, Some(task(7, "waited")));
    script.switch(62 * MS, 1, Left::Sleeping, Some(task(9, "busy"))).switch(100 * MS, 1, Left::Runnable, None);
    let recorded = script.finish();
    let start = |pid: i32| {
        let thread = recorded.threads.iter().find(|thread| thread.pid == pid).unwrap();
        recorded.workload.tasks[thread.task.unwrap()].start
    };
    assert_eq!((start(6), start(7)), (Some(50 * MS), Some(0)));
}

/// Time, tasks and new group.
type Moved<'a> = (u64, Vec<usize>, &'a str);

/// Each task's first group, and all moves.
fn placed(recorded: &Recorded) -> (Vec<(&str, &str)>, Vec<Moved<'_>>) {
    let workload = &recorded.workload;
    let path = |group: Option<usize>| workload.groups[group.unwrap_or(0)].path.as_str();
    let tasks = workload.tasks.iter().map(|task| (task.class.as_str(), path(task.settings.group))).collect();
    let moves = workload.changes.iter().map(|change| match &change.what {
        Changed::Tasks { tasks, settings, nice: None } => (change.at, tasks.clone(), path(settings.group)),
        other => panic!("{other:?}"),
    });
    (tasks, moves.collect())
}

const GROUPS: &[u8] = b"/proc/5/task/5/cgroup:0::/web\n/proc/6/task/6/cgroup:0::/\n\
                        /sys/fs/cgroup/web/cpu.weight:300\n/sys/fs/cgroup/else/cpu.weight:7\n\
                        /sys/fs/cgroup/batch/cpu.weight:100\n/sys/fs/cgroup/batch/x/cpu.weight:100\n";

/// `parent` forks before and after a move, `child` forks `grandchild`; `late` is unknown.
fn moved() -> Recorder {
    let (parent, first, second, grandchild) =
        (task(5, "parent"), task(7, "first"), task(8, "second"), task(9, "grandchild"));
    let mut script = Script::default();
    script.wake(0, 0, parent).switch(MS, 0, Left::Runnable, Some(parent));
    script.event(2 * MS, 0, What::Fork { parent, child: first, thread: None });
    script.event(3 * MS, 0, What::Attached { task: parent, hierarchy: 0, path: b"/batch/x" });
    script.event(3 * MS, 0, What::Attached { task: parent, hierarchy: 4, path: b"/memory" });
    script.event(4 * MS, 0, What::Fork { parent, child: second, thread: None });
    for (at, child) in [(5 * MS, first), (9 * MS, second)] {
        script.event(at, 0, What::WokenNew { task: child, prio: 120 });
        script.switch(at + MS, 0, Left::Sleeping, Some(child));
        if child == second {
            script.event(at + 2 * MS, 0, What::Fork { parent: second, child: grandchild, thread: None });
            script.event(at + 2 * MS, 0, What::WokenNew { task: grandchild, prio: 120 });
        }
        script.switch(at + 3 * MS, 0, Left::Sleeping, None);
    }
    script.switch(20 * MS, 0, Left::Runnable, Some(grandchild)).switch(21 * MS, 0, Left::Sleeping, None);
    script.burst(30 * MS, 1, task(6, "root"), MS).burst(40 * MS, 1, task(10, "late"), MS);
    script.recorder
}

/// In our own traces, marks have the groups' settings. A task born into a group moves there before it acts.
#[test]
fn marks_describe_groups_and_a_task_is_moved_before_it_acts() {
    let (shell, web) = (task(5, "shell"), task(6, "web"));
    let mut script = Script::default();
    let limit = Some((20 * MS, 100 * MS));
    script.event(0, 0, What::Group { path: "/web", weight: 300, idle: false, max: limit });
    script.event(0, 0, What::Group { path: "/web/idle", weight: 100, idle: true, max: None });
    script.wake(0, 0, shell).switch(MS, 0, Left::Runnable, Some(shell));
    script.event(2 * MS, 0, What::Fork { parent: shell, child: web, thread: None });
    script.event(2 * MS, 0, What::Attached { task: web, hierarchy: 0, path: b"/web" });
    script.event(3 * MS, 0, What::WokenNew { task: web, prio: 120 });
    script.switch(4 * MS, 0, Left::Sleeping, Some(web));
    script.event(5 * MS, 0, What::Group { path: "/web", weight: 50, idle: false, max: None });
    script.switch(9 * MS, 0, Left::Sleeping, None);
    let recorded = script.recorder.finish(&Lateness::default());
    let groups = &recorded.workload.groups;
    let described: Vec<_> = groups
        .iter()
        .skip(1)
        .map(|group| (group.path.as_str(), group.weight, group.idle, group.max.map(|max| (max.quota, max.period))))
        .collect();
    assert_eq!(described, [("/web", 300, false, limit), ("/web/idle", 100, true, None)]);
    let of: Vec<Option<usize>> = recorded.workload.tasks.iter().map(|task| task.settings.group).collect();
    assert_eq!(of, [None, Some(1)]);
    assert_eq!(recorded.threads[1].cgroup.as_deref(), Some("/web"));
    assert_eq!((recorded.counts.moves, recorded.counts.grouped), (0, 1));
    let [change] = &recorded.workload.changes[..] else { panic!("{:?}", recorded.workload.changes) };
    let vruntime_workload::program::Changed::Group { group: 1, to } = &change.what else { panic!("{change:?}") };
    assert_eq!((change.at, to.weight, to.idle), (5 * MS, Some(50), None));
    assert_eq!(to.max, Some(vruntime_workload::program::CpuMax::Unlimited));
}

#[test]
fn tasks_are_in_the_groups_their_threads_were_in() {
    let cgroups = Cgroups::read("cgroups.txt", GROUPS).unwrap();
    let recorded = moved().with_cgroups(cgroups).finish(&Lateness::default());
    let (tasks, moves) = placed(&recorded);
    let expected = [
        ("parent", "/web"),
        ("first", "/web"),
        ("second", "/batch/x"),
        ("grandchild", "/batch/x"),
        ("root", "/"),
        ("late", "/"),
    ];
    assert_eq!(tasks, expected);
    assert_eq!(moves, [(3 * MS, vec![0], "/batch/x")]);
    let weights: Vec<(&str, u32)> =
        recorded.workload.groups.iter().skip(1).map(|group| (group.path.as_str(), group.weight)).collect();
    assert_eq!(weights, [("/web", 300), ("/batch", 100), ("/batch/x", 100)]);
    let Counts { grouped, ungrouped, moves, .. } = recorded.counts;
    assert_eq!((grouped, ungrouped, moves), (4, 1, 1));
    let last: Vec<_> = recorded.threads.iter().map(|thread| thread.cgroup.as_deref()).collect();
    assert_eq!(last[..2], [Some("/batch/x"), Some("/web")]);
}

/// Only a trace recorded with `cgroup_attach_task` shows groups by itself.
#[test]
fn without_a_machine_only_the_moves_are_known() {
    let recorded = moved().finish(&Lateness::default());
    let (tasks, moves) = placed(&recorded);
    assert_eq!(tasks[..3], [("parent", "/"), ("first", "/"), ("second", "/batch/x")]);
    assert_eq!(moves, [(3 * MS, vec![0], "/batch/x")]);
    let mut script = Script::default();
    let recorded = script.burst(MS, 0, task(5, "parent"), MS).finish();
    assert_eq!((placed(&recorded), recorded.threads[0].cgroup.as_ref()), ((vec![("parent", "/")], vec![]), None));
}

/// All tasks' sessions, by name, with nice values.
fn sessions(recorded: &Recorded) -> Vec<(&str, Option<(&str, i8)>)> {
    let of = |session: Option<usize>| {
        let session = &recorded.workload.sessions[session?];
        Some((session.name.as_str(), session.nice))
    };
    recorded.workload.tasks.iter().map(|task| (task.class.as_str(), of(task.session))).collect()
}

#[test]
fn tasks_are_in_the_autogroups_of_the_machines_files() {
    // Processes 5 and 6 are in one session, 7 in another, 8 in none. Task 90 and the fork of thread 51 are newer.
    let text = b"/proc/5/task/50/cgroup:0::/\n/proc/5/task/51/cgroup:0::/\n/proc/6/task/60/cgroup:0::/\n\
                 /proc/7/task/70/cgroup:0::/\n/proc/8/task/80/cgroup:0::/\n\
                 /proc/5/autogroup:/autogroup-12 nice 0\n/proc/6/autogroup:/autogroup-12 nice 0\n\
                 /proc/7/autogroup:/autogroup-9 nice -3\n";
    let script = |cgroups: Option<Cgroups>| {
        let mut script = Script::default();
        let (make, cc) = (task(51, "make"), task(155, "cc"));
        script.wake(0, 0, make).switch(MS, 0, Left::Runnable, Some(make));
        script.event(2 * MS, 0, What::Fork { parent: make, child: cc, thread: None });
        script.event(2 * MS, 0, What::WokenNew { task: cc, prio: 120 });
        script.switch(3 * MS, 0, Left::Sleeping, Some(cc)).switch(4 * MS, 0, Left::Sleeping, None);
        for (at, pid, comm) in
            [(10, 60, "ld"), (20, 70, "shell"), (30, 80, "init"), (40, 90, "late"), (50, 7, "kworker/0:1")]
        {
            script.burst(at * MS, 0, task(pid, comm), MS);
        }
        let recorder = std::mem::take(&mut script.recorder);
        cgroups.into_iter().fold(recorder, Recorder::with_cgroups).finish(&Lateness::default())
    };
    let cgroups = Cgroups::read("cgroups.txt", text).unwrap();
    assert!(cgroups.autogroup(), "a file that names autogroups implies them");
    let (one, other) = (Some(("12", 0)), Some(("9", -3)));
    let recorded = script(Some(cgroups));
    let expected = [
        ("make", one),
        ("cc", one),
        ("ld", one),
        ("shell", other),
        ("init", None),
        ("late", Some(("late-90", 0))),
        ("kworker/0:1", None),
    ];
    assert_eq!(sessions(&recorded), expected);
    let sessionless = recorded.workload.sessionless.iter().map(|&task| recorded.workload.tasks[task].class.as_str());
    assert_eq!(sessionless.collect::<Vec<_>>(), ["init"], "it competes in the root group");
    assert_eq!(recorded.counts.autogrouped, 3, "cc has it from make");
    // Without a file, the replay guesses sessions. With a file that has no autogroups, it guesses the same.
    let before = Cgroups::read("cgroups.txt", GROUPS).unwrap();
    assert!(!before.autogroup());
    assert_eq!(sessions(&script(Some(before))), sessions(&script(None)));
    assert_eq!(sessions(&script(None))[3], ("shell", Some(("shell-70", 0))));
    for (enabled, expected) in [("0", false), ("1", true)] {
        let line = format!("/proc/sys/kernel/sched_autogroup_enabled:{enabled}\n");
        let cgroups = Cgroups::read("cgroups.txt", &[line.as_bytes(), text].concat()).unwrap();
        assert_eq!(cgroups.autogroup(), expected, "the machine's own word");
    }
    // On this machine, no task has started a session. Listed tasks are in none. Unlisted ones may have started one.
    let without_autogroup = "/proc/7/task/70/cgroup:0::/\n/proc/sys/kernel/sched_autogroup_enabled:1\n";
    let without_autogroup = script(Some(Cgroups::read("cgroups.txt", without_autogroup.as_bytes()).unwrap()));
    assert_eq!(sessions(&without_autogroup)[3..5], [("shell", None), ("init", Some(("init-80", 0)))]);
}

#[test]
fn groups_have_the_clamps_and_cpusets_they_had() {
    let text = b"/proc/5/task/5/cgroup:0::/web\n/proc/6/task/6/cgroup:0::/ui/low\n/proc/7/task/7/cgroup:0::/web\n\
        /sys/fs/cgroup/web/cpu.weight:100\n/sys/fs/cgroup/web/cpu.uclamp.min:25.00\n/sys/fs/cgroup/web/cpu.uclamp.max:max\n\
        /sys/fs/cgroup/web/cpuset.cpus:1,3\n/sys/fs/cgroup/web/cpuset.cpus.partition:root invalid (Cpu list in cpuset.cpus not exclusive)\n\
        /sys/fs/cgroup/ui/cpu.weight:100\n/sys/fs/cgroup/ui/cpu.uclamp.min:0.00\n/sys/fs/cgroup/ui/cpu.uclamp.max:max\n\
        /sys/fs/cgroup/ui/cpuset.cpus:\n/sys/fs/cgroup/ui/low/cpuset.cpus:0\n/sys/fs/cgroup/own/cpu.weight:100\n\
        /sys/fs/cgroup/own/cpuset.cpus:2-3\n/sys/fs/cgroup/own/cpuset.cpus.partition:isolated\n";
    let cgroups = Cgroups::read("cgroups.txt", text).unwrap();
    let (web, ui) = (task(5, "web"), task(6, "ui"));
    let mut script = Script::default();
    // It waits for CPU 1, beside CPU 0 that is idle, which its cpuset explains.
    script.burst(MS, 0, ui, MS).burst(5 * MS, 1, web, MS).burst(10 * MS, 1, task(7, "other"), MS);
    script.wake(20 * MS, 1, task(7, "other")).switch(20 * MS, 1, Left::Runnable, Some(task(7, "other")));
    script.wake(21 * MS, 1, web).switch(80 * MS, 1, Left::Sleeping, Some(web));
    script.event(81 * MS, 1, What::Attached { task: ui, hierarchy: 0, path: b"/ui" });
    script.switch(90 * MS, 1, Left::Sleeping, None);
    let recorded = |cgroups| {
        let recorder = script.recorder.clone();
        Option::into_iter(cgroups).fold(recorder, Recorder::with_cgroups).finish(&Lateness::default())
    };
    let mut with_file = recorded(Some(cgroups));
    let group = |recorded: &Recorded, path: &str| {
        recorded.workload.groups.iter().find(|group| group.path == path).expect("it is there").clone()
    };
    let cpuset = |list: &[u32], partition| Cpuset { cpus: Some(list.to_vec()), partition };
    assert_eq!(group(&with_file, "/web").uclamp, Some(Clamps { min: 256, max: 1024 }));
    assert_eq!(group(&with_file, "/web").cpuset, cpuset(&[1, 3], Partition::Member), "no valid partition is none");
    assert_eq!(
        (group(&with_file, "/ui").uclamp, group(&with_file, "/ui").cpuset),
        (None, Cpuset::default()),
        "as by default"
    );
    assert_eq!(
        group(&with_file, "/own").cpuset,
        cpuset(&[2, 3], Partition::Isolated),
        "it has CPUs that others have not"
    );
    let cpus = |recorded: &Recorded, class: &str| {
        recorded.workload.tasks.iter().find(|task| task.class == class).expect("it is there").settings.cpus.clone()
    };
    let phases =
        |recorded: &Recorded| recorded.workload.tasks.iter().flat_map(|task| task.phases.to_vec()).collect::<Vec<_>>();
    // Where the `cpu` controller is not enabled, there is no group for it.
    assert_eq!((cpus(&with_file, "ui"), cpus(&with_file, "web")), (Some(vec![0]), None));
    assert_eq!((with_file.counts.confined, recorded(None).counts.confined), (0, 1), "the file has the affinities");
    assert!(phases(&with_file).iter().all(|phase| phase.settings.cpus.is_none()));
    let moved = with_file.workload.changes.iter().find_map(|change| match &change.what {
        Changed::Tasks { settings, .. } => settings.cpus.clone(),
        _ => None,
    });
    assert_eq!(moved, Some(vec![0, 1]), "and where it was moved to, there is none");
    // The CPUs of the machine that the trace shows.
    assert_eq!(fit(&mut with_file.workload, 2), Unfit { tasks: 0, groups: 2, hotplug: 0 });
    assert_eq!(group(&with_file, "/web").cpuset.cpus, Some(vec![1]));
    assert_eq!(group(&with_file, "/own").cpuset, Cpuset::default());
    for (line, message) in [
        ("cpu.uclamp.min:lots", "`lots` is not the format of cpu.uclamp.min"),
        ("cpuset.cpus:3-1", "`3-1` is not the format of cpuset.cpus"),
        ("cpuset.cpus.partition:own", "`own` is not the format of cpuset.cpus.partition"),
    ] {
        let text = format!("/proc/7/task/7/cgroup:0::/a\n/sys/fs/cgroup/a/{line}\n");
        assert_eq!(Cgroups::read("x", text.as_bytes()).unwrap_err().to_string(), message);
    }
    for (line, message) in [
        ("7/autogroup:/autogroup-1 nice 20", "`/autogroup-1 nice 20` is not the format of autogroup"),
        ("sys/kernel/sched_autogroup_enabled:on", "`on` is not the format of sched_autogroup_enabled"),
    ] {
        assert_eq!(Cgroups::read("x", format!("/proc/{line}\n").as_bytes()).unwrap_err().to_string(), message);
    }
}

#[test]
fn rules_know_groups() {
    let cgroups = Cgroups::read("cgroups.txt", GROUPS).unwrap();
    let recorded = moved().with_cgroups(cgroups).finish(&Lateness::default());
    let apply = |rule: &str| {
        let mut rules = rules::Rules::default();
        rules.add(rule).unwrap();
        let mut changed = recorded.clone();
        rules.apply(&mut changed, &recorded.threads, 2).map(|()| changed)
    };
    // The rule matches tasks by their last group. The tasks stay in the rule's group.
    let changed = apply("cgroup=/batch/*: group=/calm weight=10").unwrap();
    let (tasks, moves) = placed(&changed);
    assert_eq!(tasks[..3], [("parent", "/calm"), ("first", "/web"), ("second", "/calm")]);
    assert_eq!(moves, []);
    // Copies move with their original.
    let changed = apply("comm=parent: copies=3").unwrap();
    assert_eq!(placed(&changed).1, [(3 * MS, vec![0, 6, 7], "/batch/x")]);
    // Settings of a group, not of its tasks, change the existing group.
    let changed = apply("cgroup=/web: weight=20 max=5ms/10ms").unwrap();
    let web = &changed.workload.groups[1];
    assert_eq!((web.path.as_str(), web.weight), ("/web", 20));
    assert_eq!(web.max, Some(Bandwidth { quota: 5 * MS, period: 10 * MS, burst: 0 }));
    assert_eq!(placed(&changed), placed(&recorded));
    assert!(apply("cgroup=/nowhere: nice=1").is_err());
    let without =
        Cgroups::read("cgroups.txt", b"/proc/5/task/5/cgroup:0::/web\n/sys/fs/cgroup/x/cpu.weight:1\n").unwrap();
    let recorded = moved().with_cgroups(without).finish(&Lateness::default());
    assert_eq!(placed(&recorded).0[..2], [("parent", "/"), ("first", "/")]);
    let mut rules = rules::Rules::default();
    rules.add("cgroup=/web: weight=20").unwrap();
    let error = rules.apply(&mut recorded.clone(), &recorded.threads, 2).unwrap_err();
    assert_eq!(error.message(), "no cgroup that fits has weights and limits of its own");
}

/// Two tasks take turns on CPU 0 beside a CPU without events. A task without an affinity would have moved there.
#[test]
fn a_cpu_without_events_was_idle() {
    let recorded = |cpus: usize| {
        let mut script = Script::default();
        script.recorder.has_cpus(cpus);
        let tasks = [task(5, "one"), task(6, "other")];
        script.switch(0, 0, Left::Runnable, Some(tasks[0]));
        for turn in 1..=20 {
            script.switch(turn as u64 * 4 * MS, 0, Left::Runnable, Some(tasks[turn % 2]));
        }
        script.finish()
    };
    let of = |recorded: Recorded| {
        (
            recorded.busy_ns.len(),
            recorded.counts.confined,
            recorded.threads.iter().map(|thread| thread.confined).collect::<Vec<_>>(),
        )
    };
    assert_eq!(of(recorded(0)), (1, 0, vec![None, None]));
    assert_eq!(of(recorded(2)), (2, 2, vec![Some(0), Some(0)]));
}

/// CPU time counts for the group in which a thread had it, even after a move while it runs.
#[test]
fn cpu_time_is_of_the_group_that_a_thread_was_in() {
    let mut script = Script::default();
    let a = task(5, "a");
    let attach = |path: &'static [u8]| What::Attached { task: a, hierarchy: 0, path };
    script.event(0, 1, attach(b"/one"));
    script.wake(MS, 0, a).switch(MS, 0, Left::Runnable, Some(a));
    script.event(11 * MS, 1, attach(b"/two")).switch(14 * MS, 0, Left::Sleeping, None);
    script.event(20 * MS, 1, attach(b"/one")).burst(30 * MS, 0, a, 5 * MS);
    let recorded = script.finish();
    let stay = |path: &str, ms: u64| (path.to_owned(), ms * MS);
    assert_eq!(recorded.threads[0].stays, [stay("/one", 10), stay("/two", 3), stay("/one", 5)]);
    assert_eq!(recorded.threads[0].cgroup.as_deref(), Some("/one"));
}
