//! Autogroups.

mod support;

use support::*;
use vruntime_sim::Config;
use vruntime_workload::program::*;

#[test]
fn autogroup_puts_the_tasks_of_the_root_in_one_group() {
    let grouped = |mut task: Task| {
        task.settings.group = Some(1);
        task
    };
    let hog = |name: &str| pinned(task(name, vec![phase(vec![run(1000)], Repeat::Forever)]), &[0]);
    let mut workload = workload(vec![hog("a"), hog("b"), hog("c"), grouped(hog("g"))]);
    workload.groups.push(Group { path: "/g".to_owned(), parent: Some(0), ..Group::default() });
    let share = |autogroup| {
        let mut log = Log::default();
        let config = Config { autogroup, duration: Some(2000 * MS), ..exact("6.12", "1") };
        simulate(&workload, &config, &mut log).unwrap();
        log.loops("g").len()
    };
    assert!((480..520).contains(&share(false)), "one of four: {}", share(false));
    assert!((980..1020).contains(&share(true)), "one of two groups: {}", share(true));
}

#[test]
fn tasks_without_session_stay_in_the_root_group() {
    let tasks = ["kworker", "init", "a"].map(|name| once(name, vec![run(1)]));
    let mut workload = workload(tasks.to_vec());
    (workload.kernel_threads, workload.sessionless) = ([0].into(), [1].into());
    let mut log = Log::default();
    simulate(&workload, &Config { autogroup: true, ..exact("6.12", "1") }, &mut log).unwrap();
    let groups: Vec<&str> = log.task_groups.iter().map(|group| log.groups[group.index()].as_str()).collect();
    assert_eq!(groups, ["/", "/", "/autogroup"]);
}

/// A note reports a session without autogroup because its tasks are in groups, unless one moves to the root.
#[test]
fn a_session_without_tasks_in_the_root_is_reported() {
    let session = Session { name: "desktop".to_owned(), nice: -5 };
    let task_of = |name: &str, group: usize, later: Option<usize>| {
        let later = Phase {
            settings: Settings { group: later, ..Settings::default() },
            ..phase(vec![run(1000)], Repeat::Times(1))
        };
        let mut task = task(name, vec![later]);
        (task.session, task.settings.group) = (Some(0), Some(group));
        task
    };
    let notes = |tasks: Vec<Task>| {
        let mut workload = workload(tasks);
        workload.groups.push(Group { path: "/g".to_owned(), parent: Some(0), ..Group::default() });
        workload.sessions = vec![session.clone()];
        let config = Config { autogroup: true, duration: Some(5 * MS), ..exact("6.12", "2") };
        simulate(&workload, &config, &mut Log::default()).unwrap().notes
    };
    let expected =
        ["session `desktop` has no effect: its tasks are in `/g`, and only tasks of the root group are in autogroups"];
    assert_eq!(notes(vec![task_of("a", 1, None), task_of("b", 1, Some(1))]), expected);
    assert!(notes(vec![task_of("a", 1, None), task_of("b", 0, None)]).is_empty());
    assert!(notes(vec![task_of("a", 1, None), task_of("b", 1, Some(0))]).is_empty());
}

/// Two sessions with three hogs and one: their nice values decide, not the number of tasks. A task that returns to
/// the root group returns to its session.
#[test]
fn a_session_has_an_autogroup_and_a_nice_value() {
    let hog = |name: &str, session| {
        let there = Phase {
            settings: Settings { group: Some(1), ..Settings::default() },
            ..phase(vec![run(1000)], Repeat::Times(1))
        };
        let back = Phase {
            settings: Settings { group: Some(0), ..Settings::default() },
            ..phase(vec![run(1000)], Repeat::Forever)
        };
        Task { session, ..pinned(task(name, vec![there, back]), &[0]) }
    };
    let hogs = vec![hog("a0", Some(0)), hog("a1", Some(0)), hog("a2", Some(0)), hog("b", Some(1)), hog("c", None)];
    let mut workload = workload(hogs);
    workload.groups.push(Group { path: "/g".to_owned(), parent: Some(0), ..Group::default() });
    for (nice, weight) in [(0, 1024.0), (-5, 3121.0), (5, 335.0)] {
        let session = |name: &str, nice| Session { name: name.to_owned(), nice };
        workload.sessions = vec![session("one", 0), session("two", nice)];
        let mut log = Log::default();
        let config = Config { autogroup: true, duration: Some(5000 * MS), ..exact("6.12", "1") };
        simulate(&workload, &config, &mut log).unwrap();
        assert_eq!(log.groups, ["/", "/g", "/autogroup", "/autogroup-one", "/autogroup-two"]);
        let share = |name: &str| log.loops(name).len() as f64 / 5000.0;
        let total = 1024.0 + 1024.0 + weight;
        for (found, expected) in [
            (share("a0") + share("a1") + share("a2"), 1024.0 / total),
            (share("b"), weight / total),
            (share("c"), 1024.0 / total),
        ] {
            assert!((found - expected).abs() < 0.01, "nice {nice}: {found} for {expected}");
        }
    }
    // Without autogroups a session has no effect.
    let config = Config { duration: Some(500 * MS), ..exact("6.12", "1") };
    let mut log = Log::default();
    let outcome = simulate(&workload, &config, &mut log).unwrap();
    assert!((98..=102).contains(&log.loops("b").len()) && log.groups == ["/", "/g"]);
    assert_eq!(outcome.notes, ["sessions have no effect: autogroup is off"]);
    workload.sessions.pop();
    let error = simulate(&workload, &config, &mut Log::default()).unwrap_err().to_string();
    assert!(error.contains("session number 1, but the workload has 1"), "{error}");
}
