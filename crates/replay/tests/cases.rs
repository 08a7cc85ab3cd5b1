//! Small recordings that were once replayed wrongly, each for a kind of fault.

use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_report::{ReplayCheck, ReplayTask};
use vruntime_sim::plan::Overrides;

/// The costs of the simulated machine are zero, so a task gets its recorded CPU time.
fn setup() -> Setup {
    Setup { overrides: Overrides { costs: Some("zero".to_owned()), ..Overrides::default() }, ..Setup::default() }
}

fn replayed(name: &str, text: &[u8]) -> ReplayCheck {
    let recording = Recording::from_bytes(name, text, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &setup()).unwrap();
    let run = replay.run().unwrap();
    replay.compare(run.ran(), None)
}

fn task<'a>(check: &'a ReplayCheck, name: &str) -> &'a ReplayTask {
    let names = || check.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>();
    check.tasks.iter().find(|task| task.name == name).unwrap_or_else(|| panic!("no {name} among {:?}", names()))
}

/// `w` works 20 us when it is woken, every tenth time 300 us, and is then preempted shortly before its end. It does the
/// same work each time, and does not compute by the clock.
#[test]
fn work_that_a_preemption_ends_shortly_after_is_work() {
    let check = replayed("clockmini.txt", include_bytes!("data/clockmini.txt"));
    let w = task(&check, "w-200");
    assert_eq!((w.computes_for, w.recorded.cpu_ns), (None, 9_620_000));
    assert_eq!(w.replayed.cpu_ns, w.recorded.cpu_ns);
    let m = task(&check, "m-100");
    assert_eq!(m.computes_for, None);
}

/// A client and its server on one CPU. Wakeups over loopback have softirq context, but the client causes them.
#[test]
fn wakeups_in_softirq_context_have_wakers() {
    let text = include_str!("data/ping-s.txt");
    for text in [text.to_owned(), text.replace(" d.s2. ", " d..2. ")] {
        let check = replayed("ping-s.txt", text.as_bytes());
        let server = task(&check, "server-200");
        assert_eq!(server.habit, "woken");
        assert!(server.replayed.cpu_ns >= 9_300_000, "{server:?}");
    }
}

/// A maker forks children that work 20 us on the other CPU. The recorded times include the costs of a fork and a
/// migration.
#[test]
fn what_was_recorded_is_not_charged_again() {
    let check = replayed("forkmini20.txt", include_bytes!("data/forkmini20.txt"));
    let children: Vec<&ReplayTask> = check.tasks.iter().filter(|task| task.name != "maker-100").collect();
    assert_eq!(children.len(), 20);
    for child in children {
        let ns = child.replayed.cpu_ns;
        assert!((19_600..=20_400).contains(&ns), "{child:?}");
    }
    let maker = task(&check, "maker-100");
    assert_eq!(maker.replayed.cpu_ns, maker.recorded.cpu_ns);
    assert!(check.elapsed_ns.1 <= check.elapsed_ns.0 * 102 / 100, "{:?}", check.elapsed_ns);
}

/// `hog` and `worker` run for 3 s. Shortly before the end, a shell forks a thread that runs 0.45 ms and ends. Without
/// `exit`, only its last switch shows that.
fn short_life_at_the_end(exit: bool) -> String {
    let switch = |us: u64, cpu: u32, prev: (&str, u32), state: &str, next: (&str, u32)| {
        let time = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        format!(
            "{0}-{1} [{cpu:03}] d..2. {time}000: sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state={state} ==> \
             next_comm={2} next_pid={3} next_prio=120\n",
            prev.0, prev.1, next.0, next.1
        )
    };
    let (idle0, idle1) = (("swapper/0", 0), ("swapper/1", 0));
    let (sh, hog, child) = (("sh", 10), ("hog", 20), ("sh", 30));
    let mut text = String::from("# tracer: nop\n# entries-in-buffer/entries-written: 1/1   #P:2\n");
    text += &switch(0, 0, idle0, "R", hog);
    for ms in (0..2990).step_by(10) {
        let at = ms * 1000;
        let (seconds, micros) = (at / 1_000_000, at % 1_000_000);
        let woken = format!(
            "<idle>-0 [001] d.h2. {seconds}.{micros:06}000: sched_waking: comm=sh pid=10 prio=120 target_cpu=001\n"
        );
        text += &woken;
        text += &switch(at + 1, 1, idle1, "R", sh);
        text += &switch(at + 1001, 1, sh, "S", idle1);
    }
    text += "<idle>-0 [001] d.h2. 2.999190000: sched_waking: comm=sh pid=10 prio=120 target_cpu=001\n";
    text += &switch(2_999_191, 1, idle1, "R", sh);
    text += "sh-10 [001] d..2. 2.999300000: sched_process_fork: comm=sh pid=10 child_comm=sh child_pid=30\n";
    text += "sh-10 [001] d..2. 2.999301000: sched_wakeup_new: comm=sh pid=30 prio=120 target_cpu=001\n";
    text += &switch(2_999_310, 1, sh, "S", child);
    if exit {
        text += "sh-30 [001] d..2. 2.999759000: sched_process_exit: comm=sh pid=30 prio=120\n";
    }
    text += &switch(2_999_760, 1, child, "X", idle1);
    text += &switch(3_000_000, 0, hog, "R", hog);
    text
}

#[test]
fn a_child_that_ended_shortly_before_the_end_does_not_continue() {
    for exit in [false, true] {
        let check = replayed("short.txt", short_life_at_the_end(exit).as_bytes());
        let child = task(&check, "sh-30");
        assert_eq!(child.recorded.cpu_ns, 450_000);
        assert!((441_000..=459_000).contains(&child.replayed.cpu_ns), "{child:?}");
    }
}

/// The scheduler's and the idle task's events of one CPU, from two data sources that were flushed at different moments.
#[test]
fn two_sources_of_events_are_one_recording() {
    let check = replayed("twosrc.pftrace", include_bytes!("../../trace/tests/data/twosrc.pftrace"));
    let task = task(&check, "t10-10");
    let share = |cpu_ns: u64, of: u64| cpu_ns as f64 / of as f64;
    let recorded = share(task.recorded.cpu_ns, check.elapsed_ns.0);
    assert!((recorded - 0.5085).abs() < 0.000_05, "{recorded}");
    let replayed = share(task.replayed.cpu_ns, check.elapsed_ns.1);
    assert!((replayed - recorded).abs() < 0.01, "{replayed}");
}

/// CPU 3 has no event, but wakeups name it.
#[test]
fn cpus_that_events_name_exist() {
    let text = include_str!("../../trace/tests/data/twice.txt");
    for text in [text.to_owned(), text.replace("#P:4", "")] {
        let recording = Recording::from_bytes("twice.txt", text.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(recording.cpus(), 4);
    }
}

/// `b` is woken twice before it is seen to run: it has run in between, and has waited since the last wakeup only.
#[test]
fn a_wait_begins_with_the_last_wakeup() {
    let text = "<idle>-0 [000] d..2. 1.000000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
                next_comm=a next_pid=20 next_prio=120\n\
                a-20 [000] d..2. 1.001000000: sched_waking: comm=b pid=30 prio=120 target_cpu=003\n\
                a-20 [000] d..2. 1.101000000: sched_waking: comm=b pid=30 prio=120 target_cpu=003\n\
                <idle>-0 [003] d..2. 1.101010000: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> \
                next_comm=b next_pid=30 next_prio=120\n\
                b-30 [003] d..2. 1.102010000: sched_switch: prev_comm=b prev_pid=30 prev_prio=120 prev_state=S ==> \
                next_comm=swapper/3 next_pid=0 next_prio=120\n\
                a-20 [000] d..2. 1.202000000: sched_switch: prev_comm=a prev_pid=20 prev_prio=120 prev_state=S ==> \
                next_comm=swapper/0 next_pid=0 next_prio=120\n";
    let check = replayed("again.txt", text.as_bytes());
    let b = task(&check, "b-30");
    assert_eq!(b.recorded.cpu_ns, 1_000_000);
    assert_eq!(b.recorded.wakeup.map(|wakeup| (wakeup.count, wakeup.max_ns)), Some((1, 10_000)));
}
