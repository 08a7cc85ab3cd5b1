//! What a scenario changes while it runs.

use vruntime_workload::program::{Bandwidth, Changed, Clamps, CpuMax, GroupChange, Policy, Settings};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

use crate::{TASK, files, read};

#[test]
fn changes_come_in_order_of_time() {
    let scenario = read(
        r#"
autogroup = true
[groups."/web"]
max = "100000 100000"
burst = "50ms"
[groups."/batch"]
[[task]]
name = "hog"
instance = 2
group = "/web"
run = "1ms"
[[task]]
name = "shell"
session = "desktop"
run = "1ms"
[[change]]
at = "3s"
group = "/web"
max = "max"
[[change]]
at = "1s"
group = "/web"
weight = 500
max = "50000 100000"
[[change]]
at = "1s"
task = "hog"
policy = "SCHED_FIFO"
priority = 7
cpus = [1, 0]
group = "/batch"
[[change]]
at = "2s"
task = "hog-1"
nice = -3
[[change]]
at = "2500ms"
session = "desktop"
nice = 5

[[change]]
at = "4s"
group = "/web"
idle = true
uclamp.min = "25.00"

[[change]]
at = "5s"
group = "/web"
idle = false
weight = 40
uclamp.max = 50

[[change]]
at = "5500ms"
group = "/web"
guarantee = 30

[[change]]
at = "6s"
task = "shell"
util_max = 300
"#,
    );
    let (web, batch) = (2, 1);
    let limited = CpuMax::Limited(Bandwidth { quota: 50_000_000, period: 100_000_000, burst: 50_000_000 });
    let realtime = Settings {
        policy: Some(Policy::Fifo { priority: 7 }),
        cpus: Some(vec![0, 1]),
        group: Some(batch),
        ..Settings::default()
    };
    let clamps = |min, max| Some(Clamps { min, max });
    let idle = GroupChange { idle: Some(true), uclamp: clamps(256, 1024), ..GroupChange::default() };
    let ordinary =
        GroupChange { idle: Some(false), weight: Some(40), uclamp: clamps(256, 512), ..GroupChange::default() };
    let clamped = Settings { util_max: Some(300), ..Settings::default() };
    let found: Vec<_> = scenario.workload.changes.iter().map(|change| (change.at / 1_000_000, &change.what)).collect();
    let expected = [
        (
            1000,
            Changed::Group {
                group: web,
                to: GroupChange { weight: Some(500), max: Some(limited), ..GroupChange::default() },
            },
        ),
        (1000, Changed::Tasks { tasks: vec![0, 1], settings: realtime, nice: None }),
        (2000, Changed::Tasks { tasks: vec![1], settings: Settings::default(), nice: Some(-3) }),
        (2500, Changed::Session { session: 0, nice: 5 }),
        (
            3000,
            Changed::Group { group: web, to: GroupChange { max: Some(CpuMax::Unlimited), ..GroupChange::default() } },
        ),
        (4000, Changed::Group { group: web, to: idle }),
        // What is not written again stays.
        (5000, Changed::Group { group: web, to: ordinary }),
        (5500, Changed::Group { group: web, to: GroupChange { guarantee: Some(30), ..GroupChange::default() } }),
        (6000, Changed::Tasks { tasks: vec![2], settings: clamped, nice: None }),
    ];
    assert_eq!(found, expected.iter().map(|(at, what)| (*at, what)).collect::<Vec<_>>());
}

/// A burst changes without its limit. A group that is not idle stays so.
#[test]
fn a_change_is_what_is_different() {
    let change = |at: u32, keys: &str| format!("[[change]]\nat = \"{at}s\"\ngroup = \"/web\"\n{keys}\n");
    let changes =
        [(1, "burst = \"20ms\""), (2, "idle = false\nweight = 300"), (3, "max = \"50000 100000\"\nweight = 50")];
    let changes: String = changes.iter().map(|(at, keys)| change(*at, keys)).collect();
    let group = "[groups.\"/web\"]\nmax = \"50000 100000\"\n";
    let scenario = read(&format!("{group}{TASK}group = \"/web\"\n{changes}"));
    let limit = CpuMax::Limited(Bandwidth { quota: 50_000_000, period: 100_000_000, burst: 20_000_000 });
    let expected = [
        GroupChange { max: Some(limit), ..GroupChange::default() },
        GroupChange { weight: Some(300), ..GroupChange::default() },
        GroupChange { weight: Some(50), ..GroupChange::default() },
    ];
    let found = scenario.workload.changes.iter().map(|change| change.what.clone()).collect::<Vec<_>>();
    assert_eq!(found, expected.map(|to| Changed::Group { group: 1, to }));
}

#[test]
fn changes_that_cannot_be_name_the_limit() {
    let rows = [
        ("group = \"/g\"\nweight = 5", "a [[change]] without a time"),
        ("at = 5\ngroup = \"/g\"\nweight = 5", "`at` is a whole number"),
        ("at = \"1s\"", "a [[change]] that names nothing to change"),
        ("at = \"1s\"\ngroup = \"/g\"\nsession = \"s\"", "a [[change]] that names nothing to change"),
        ("at = \"1s\"\ngroup = \"/g\"", "a [[change]] that changes nothing"),
        ("at = \"1s\"\ntask = \"t\"", "a [[change]] that changes nothing"),
        ("at = \"1s\"\nsession = \"s\"", "a [[change]] that changes nothing"),
        ("at = \"1s\"\ngroup = \"/h\"\nweight = 5", "there is no group `/h`"),
        ("at = \"1s\"\ngroup = \"/\"\nweight = 5", "the root group has no weight and no limit"),
        ("at = \"1s\"\ngroup = \"/i\"\nweight = 5", "group `/i` is idle"),
        ("at = \"1s\"\ngroup = \"/g\"\nweight = 10001", "`weight` is out of range"),
        ("at = \"1s\"\ngroup = \"/g\"\nguarantee = 101", "`guarantee` is out of range"),
        ("at = \"1s\"\ngroup = \"/\"\nguarantee = 5", "the root group has no weight and no limit"),
        ("at = \"1s\"\ngroup = \"/g\"\nmax = \"500 100000\"", "`max` has a quota of 500 us"),
        ("at = \"1s\"\ngroup = \"/g\"\nmax = \"10000 100000\"", "a burst of 20000 us above the quota of 10000 us"),
        ("at = \"1s\"\ntask = \"u\"\nnice = 5", "there is no task `u`"),
        ("at = \"1s\"\ntask = \"t\"\nnice = 20", "`nice` is out of range"),
        ("at = \"1s\"\ntask = \"t\"\npriority = 20", "`priority` without a policy"),
        ("at = \"1s\"\ntask = \"t\"\npolicy = \"SCHED_FIFO\"\npriority = 140", "`priority` is out of range"),
        ("at = \"1s\"\nsession = \"x\"\nnice = 1", "no task is in session `x`"),
        ("at = \"1s\"\ngroup = \"/g\"\nwieght = 5", "unknown key `wieght`"),
    ];
    for (text, message) in rows {
        let groups = "[groups.\"/g\"]\nmax = \"50000 100000\"\nburst = \"20ms\"\n[groups.\"/i\"]\nidle = true\n";
        let text = format!("{groups}{TASK}session = \"s\"\n[[change]]\n{text}\n");
        let error = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut files).unwrap_err();
        assert!(error.to_string().contains(message), "{text}\n{error}");
    }
}
