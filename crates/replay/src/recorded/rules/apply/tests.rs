//! Rules of tasks and groups that were written, and not recorded.

use std::path::Path;

use crate::recorded::rules::Rules;
use vruntime_workload::Error;
use vruntime_workload::program::{Bandwidth, Changed, Group, Policy, Settings, Workload};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

const MS: u64 = 1_000_000;

/// A group with a nested group, tasks without a policy, and one that moves between groups.
const FILE: &str = r#"
[groups."/app"]
weight = 50

[groups."/app/web"]
max = "20ms/100ms"
burst = "15ms"

[[task]]
name = "web"
instance = 2
group = "/app/web"
run = "1ms"

[[workload]]
rtapp = "mover.json"

[[change]]
at = "1s"
task = "web"
group = "/other"
nice = 5

[[change]]
at = "2s"
task = "web"
group = "/app/web"
"#;

const MOVER: &[u8] = br#"{"tasks": {"mover": {"phases": {
    "here": {"run": 10, "taskgroup": "/other"},
    "there": {"run": 10, "taskgroup": "/app", "priority": 3},
    "still": {"run": 10}
}}}}"#;

fn changed(rules: &[&str]) -> Result<Workload, Error> {
    let mut loader = |_: &Path| Ok(MOVER.to_vec());
    let read = scenario::parse("app.toml", FILE.as_bytes(), &Options::default(), &mut loader);
    let mut workload = read.unwrap_or_else(|error| panic!("{error}")).workload;
    let mut all = Rules::default();
    for rule in rules {
        all.add(rule)?;
    }
    all.apply_to(&mut workload, "app.toml")?;
    Ok(workload)
}

fn group<'a>(workload: &'a Workload, path: &str) -> &'a Group {
    workload.groups.iter().find(|group| group.path == path).expect("it is there")
}

fn message_of(rules: &[&str]) -> String {
    let error = changed(rules).expect_err("it is wrong");
    format!("{error}; {}", error.help().unwrap_or_default())
}

#[test]
fn groups_are_changed_with_tasks_in_them_or_without() {
    let workload = changed(&["cgroup=/app: weight=200"]).unwrap();
    let weights = ["/app", "/app/web"].map(|path| group(&workload, path).weight);
    assert_eq!(weights, [200, 100], "it has no task of its own");
    let workload = changed(&["cgroup=/app*: weight=7"]).unwrap();
    assert!(["/app", "/app/web"].iter().all(|path| group(&workload, path).weight == 7));
    assert_eq!(group(&workload, "/other").weight, 100);
    // A group that a rule makes exists for later rules.
    let workload = changed(&["web: group=/new/one", "cgroup=/new: weight=30"]).unwrap();
    assert_eq!(group(&workload, "/new").weight, 30);
    assert!(message_of(&["cgroup=/new: weight=30", "web: group=/new"]).starts_with("no task group of app.toml fits"));
}

/// As when `cpu.max` is written, but that the kernel would refuse a burst above the quota.
#[test]
fn a_limit_keeps_its_burst() {
    let limit = |rule: &str| group(&changed(&[rule]).unwrap(), "/app/web").max;
    let of = |quota, burst| Some(Bandwidth { quota: quota * MS, period: 100 * MS, burst: burst * MS });
    assert_eq!(limit("cgroup=/app/web: max=50ms/100ms"), of(50, 15));
    assert_eq!(limit("cgroup=/app/web: max=10ms/100ms"), of(10, 10));
    assert_eq!(limit("cgroup=/app/web: max=max"), None);
}

#[test]
fn tasks_are_known_by_their_names_and_those_of_their_classes() {
    let nice_of = |rule: &str| {
        let workload = changed(&[rule]).unwrap();
        ["web-0", "web-1", "mover"].map(|name| {
            let task = workload.tasks.iter().find(|task| task.name == name).expect("it is there");
            task.settings.policy == Some(Policy::Other { nice: 7, slice: None })
        })
    };
    assert_eq!(nice_of("web: nice=7"), [true, true, false]);
    assert_eq!(nice_of("web-1: nice=7"), [false, true, false]);
    assert_eq!(nice_of("regex=^(web-0|mover)$: nice=7"), [true, false, true]);
    assert_eq!(nice_of("cgroup=/app/*: nice=7"), [true, true, false]);
    let workload = changed(&["mover: policy=fifo:9"]).unwrap();
    let mover = workload.tasks.iter().find(|task| task.name == "mover").expect("it is there");
    let phases = mover.phases.iter().filter_map(|phase| phase.settings.policy);
    let policies: Vec<Policy> = mover.settings.policy.into_iter().chain(phases).collect();
    assert!(
        policies.len() >= 2 && policies.iter().all(|policy| *policy == Policy::Fifo { priority: 9 }),
        "{policies:?}"
    );
}

/// The rule's group replaces later groups of the task. All its other settings and changes stay.
#[test]
fn a_task_stays_in_the_group_of_its_rule() {
    let before = changed(&[]).unwrap();
    let workload = changed(&["*: group=/mine"]).unwrap();
    let mine = workload.groups.iter().position(|group| group.path == "/mine");
    assert!(mine.is_some() && workload.tasks.iter().all(|task| task.settings.group == mine));
    let phases =
        || workload.tasks.iter().zip(&before.tasks).flat_map(|(now, then)| now.phases.iter().zip(&*then.phases));
    for (now, then) in phases() {
        assert_eq!(now.settings, Settings { group: None, ..then.settings.clone() });
    }
    assert!(phases().any(|(_, then)| then.settings.group.is_some()), "one was moved before");
    let changes: Vec<_> = workload.changes.iter().map(|change| (change.at / MS, &change.what)).collect();
    let [(1000, Changed::Tasks { settings, nice: Some(5), .. })] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(settings.group, None);
}

#[test]
fn rules_that_match_no_task_or_only_traces_are_errors() {
    assert!(
        message_of(&["cgroup=/apps: weight=3"]).contains("did you mean `/app`? the groups are /app, /app/web, /other;")
    );
    assert!(message_of(&["wbe: nice=3"]).contains("did you mean `web`? the tasks are mover, web;"));
    let no_task = message_of(&["comm=mover cgroup=/app/web: nice=3"]);
    assert!(no_task.starts_with("no task of app.toml fits this rule; the tasks are mover, web;"), "{no_task}");
    assert!(message_of(&["pid=3: nice=3"]).starts_with("`pid` is of traces: app.toml is none"));
    assert!(message_of(&["web: remove"]).starts_with("`remove` is of traces"));
    assert!(message_of(&["cgroup=/: weight=3"]).starts_with("the root group has no weight and no limit"));
}
