//! Rules as users write them, and their effects on a small trace.

use super::super::{Closed, Event, Lateness, Left, Named, Recorded, Recorder, What as Happens};
use super::Rules;
use vruntime_workload::Error;
use vruntime_workload::groups::GroupTree;
use vruntime_workload::program::{Bandwidth, Follow, Group, Op, Policy, Task, Workload};

const MS: u64 = 1_000_000;
const IDLE: Named<'static> = Named { pid: 0, comm: b"swapper/0" };
const CLIENT: Named<'static> = Named { pid: 5, comm: b"web-client" };
const SERVER: Named<'static> = Named { pid: 6, comm: b"web server" };
const LOGGER: Named<'static> = Named { pid: 7, comm: b"logger:0" };

/// Interrupts wake the client, which wakes the server in the middle of its work; the logger computes.
fn recorder() -> Recorder {
    let mut recorder = Recorder::new();
    let mut add = |at, cpu, pid, what| {
        recorder.add(&Event {
            at,
            cpu,
            pid,
            tgid: (pid > 0).then_some(if pid == 7 { 7 } else { 5 }),
            context: None,
            what,
        });
    };
    let switch = |prev, left, next| Happens::Switch { prev, prev_prio: 120, left, next, next_prio: 120 };
    add(0, 1, 0, switch(IDLE, Left::Runnable, LOGGER));
    for (round, gap) in [3, 9, 4, 17, 1, 12, 8, 2, 6].into_iter().enumerate() {
        let at = (round as u64 * 20 + gap) * MS;
        add(at, 0, 0, Happens::Woken { task: CLIENT, prio: 120 });
        add(at, 0, 0, switch(IDLE, Left::Runnable, CLIENT));
        add(at + MS / 2, 0, 5, Happens::Woken { task: SERVER, prio: 120 });
        add(at + MS, 0, 5, switch(CLIENT, Left::Sleeping, SERVER));
        add(at + 2 * MS, 0, 6, switch(SERVER, Left::Sleeping, IDLE));
    }
    add(181 * MS, 1, 7, switch(LOGGER, Left::Sleeping, IDLE));
    recorder
}

fn applied(texts: &[&str]) -> Result<Recorded, Error> {
    let mut rules = Rules::default();
    for text in texts {
        rules.add(text)?;
    }
    let recorded = recorder().finish(&Lateness::default());
    let mut changed = recorder().without(rules.removed(&recorded.threads)).finish(&Lateness::default());
    rules.apply(&mut changed, &recorded.threads, 2)?;
    Ok(changed)
}

fn policy(recorded: &Recorded, name: &str) -> Option<Policy> {
    recorded.workload.tasks.iter().find(|task| task.name == name).expect("it is there").settings.policy
}

fn ops(recorded: &Recorded, name: &str) -> Vec<Op> {
    let task = recorded.workload.tasks.iter().find(|task| task.name == name).expect("it is there");
    task.phases.iter().flat_map(|phase| phase.ops.iter().cloned()).collect()
}

#[test]
fn rules_match_tasks_by_name_pid_and_process() {
    let nice_of = |who: &str| {
        let changed = applied(&[&format!("{who}: nice=7")]).unwrap_or_else(|error| panic!("{who}: {error}"));
        let tasks = ["web-client-5", "web server-6", "logger:0-7"];
        tasks.map(|name| policy(&changed, name) == Some(Policy::Other { nice: 7, slice: None }))
    };
    assert_eq!(nice_of("web*"), [true, true, false]);
    assert_eq!(nice_of("web server"), [false, true, false]);
    assert_eq!(nice_of("logger:?"), [false, false, true]);
    assert_eq!(nice_of("{logger,web}[:-]*"), [true, false, true]);
    assert_eq!(nice_of("regex=^web.(client|x)$"), [true, false, false]);
    assert_eq!(nice_of("pid=6-9"), [false, true, true]);
    assert_eq!(nice_of("tgid=5"), [true, true, false]);
    assert_eq!(nice_of("tgid=5 comm=*client"), [true, false, false]);
    // Names may contain spaces.
    assert_eq!(nice_of("comm=web server tgid=5"), [false, true, false]);
    assert_eq!(nice_of("regex=^web s"), [false, true, false]);
}

#[test]
fn what_a_rule_does() {
    let fifo =
        applied(&["*: nice=3", "logger*: policy=fifo:50 cpus=1", "web server: policy=deadline:2ms/10ms"]).unwrap();
    assert_eq!(policy(&fifo, "web-client-5"), Some(Policy::Other { nice: 3, slice: None }));
    assert_eq!(policy(&fifo, "logger:0-7"), Some(Policy::Fifo { priority: 50 }));
    let deadline =
        Policy::Deadline { runtime: 2 * MS, deadline: 10 * MS, period: 10 * MS, reclaim: false, overrun: false };
    assert_eq!(policy(&fifo, "web server-6"), Some(deadline));
    let logger = fifo.workload.tasks.iter().find(|task| task.class == "logger:0").unwrap();
    assert_eq!(logger.settings.cpus, Some(vec![1]));

    let grouped =
        applied(&["web*: group=/a/web weight=50 max=20ms/100ms", "logger*: group=/b max=30000 50000 nice=-3"]).unwrap();
    let group = |path: &str| grouped.workload.groups.iter().position(|group| group.path == path).unwrap();
    let (web, b) = (&grouped.workload.groups[group("/a/web")], &grouped.workload.groups[group("/b")]);
    assert_eq!((web.weight, web.max), (50, Some(Bandwidth { quota: 20 * MS, period: 100 * MS, burst: 0 })));
    assert_eq!((b.weight, b.max), (100, Some(Bandwidth { quota: 30 * MS, period: 50 * MS, burst: 0 })));
    assert_eq!(grouped.workload.tasks[0].settings.group.map(|index| index > 0), Some(true));

    let cpus = applied(&["web*: group=/a max=500m", "logger*: group=/b max=0.25", "*: group=/c max=2"]).unwrap();
    let quotas = cpus.workload.groups.iter().filter_map(|group| Some((group.path.as_str(), group.max?.quota)));
    assert_eq!(
        quotas.collect::<Vec<_>>(),
        [("/a", 50 * MS), ("/b", 25 * MS), ("/c", 200 * MS)],
        "as Kubernetes has it"
    );
}

/// `500m/10ms` is half a CPU in periods of 10 ms; a burst is a time, or microseconds.
#[test]
fn a_rule_sets_burst_and_period() {
    let limit = |rule: &str| {
        let recorded = applied(&[rule])?;
        Ok::<_, Error>(recorded.workload.groups.last().and_then(|group| group.max))
    };
    let expected = |quota_ms: u64, period_ms: u64, burst_ms: u64| {
        let ms = |ms: u64| ms * 1_000_000;
        Some(Bandwidth { quota: ms(quota_ms), period: ms(period_ms), burst: ms(burst_ms) })
    };
    assert_eq!(limit("web*: group=/a max=500m/10ms burst=4ms").unwrap(), expected(5, 10, 4));
    assert_eq!(limit("web*: group=/a burst=4000 max=20000 100000").unwrap(), expected(20, 100, 4));
    assert_eq!(limit("web*: group=/a burst=4000 max=20000/100000").unwrap(), expected(20, 100, 4));
    assert_eq!(limit("web*: group=/a max=\"20000 100000\" burst=4000").unwrap(), expected(20, 100, 4));
    assert_eq!(limit("web*: group=/a max=max burst=0").unwrap(), None);
    let wrong = |rule: &str| limit(rule).unwrap_err().to_string();
    assert!(wrong("web*: group=/a burst=4ms").contains("without a limit: group `/a`"));
    assert!(wrong("web*: group=/a max=20ms/100ms burst=21ms").contains("above the quota of group `/a`, 20000 us"));
    assert!(wrong("web*: group=/a max=1 burst=much").contains("`much` is no burst"));
}

/// Spellings: the kernel's with `priority=`, the short one, and names of cgroup files.
#[test]
fn both_spellings_are_rules() {
    let fifo = Some(Policy::Fifo { priority: 50 });
    for rule in ["policy=fifo:50", "policy=SCHED_FIFO priority=50", "priority=50 policy=fifo", "policy=SCHED_FIFO:50"] {
        assert_eq!(policy(&applied(&[&format!("web-client: {rule}")]).unwrap(), "web-client-5"), fifo, "{rule}");
    }
    let limited = |rule: &str| applied(&[rule]).unwrap().workload.groups;
    assert_eq!(
        limited("web*: group=/a cpu.weight=50 cpu.max=20000 100000 cpu.max.burst=4000"),
        limited("web*: group=/a weight=50 max=20ms/100ms burst=4ms")
    );
    let wrong = |rule: &str| {
        let error = applied(&[rule]).unwrap_err();
        format!("{error} {}", error.help().unwrap_or_default())
    };
    assert!(wrong("web*: policy=SCHED_FIFO").contains("needs a priority"));
    assert!(wrong("web*: policy=fifo:50 priority=4").contains("given twice"));
    assert!(wrong("web*: policy=batch priority=4").contains("without a real-time policy"));
    assert!(wrong("web*: group=/a max=1 cpu.max=2").contains("given twice"));
    assert!(wrong("web*: group=/a shares=512").contains("1024 shares of cgroup v1"));
}

/// The second of two rules for one limit counts. A note says so only if the values differ.
#[test]
fn two_rules_for_one_limit_are_known() {
    let texts = ["web*: group=/a max=1 weight=20", "logger*: group=/b max=2", "web*: group=/a max=3 weight=20"];
    let mut rules = Rules::default();
    for text in texts {
        rules.add(text).unwrap();
    }
    rules.add_file("map.toml", b"[groups.\"/b\"]\nburst = \"1ms\"\nmax = \"500m\"\n").unwrap();
    let overruled = rules.overruled(&applied(&texts).unwrap().workload.groups);
    let known: Vec<_> = overruled.iter().map(|one| (one.group.as_str(), one.key, one.first.as_str())).collect();
    assert_eq!(known, [("/a", "max", texts[0]), ("/b", "max", texts[1])]);
    assert!(overruled[0].second == texts[2] && overruled[1].second.starts_with("[groups."), "{overruled:?}");
}

#[test]
fn a_removed_task_wakes_no_task_and_others_keep_their_times() {
    let changed = applied(&["web-client: remove"]).unwrap();
    assert!(changed.workload.tasks.iter().all(|task| task.class != "web-client"));
    let first = [Op::SleepUntil { at: 3 * MS + MS / 2 }, Op::Run { work: MS }];
    assert_eq!(ops(&changed, "web server-6")[..2], first);
}

/// A wakeup by the client, without a wait.
fn wake(inbox: usize) -> Op {
    Op::InboxWake { inbox, from: 1, follow: Follow::Free, sync: false }
}

#[test]
fn copies_wake_copies() {
    let changed = applied(&["tgid=5: copies=3"]).unwrap();
    assert_eq!((changed.workload.tasks.len(), changed.workload.inboxes.len()), (7, 3));
    let posts = |name: &str| {
        ops(&changed, name).into_iter().filter(|op| matches!(op, Op::InboxWake { .. })).collect::<Vec<_>>()
    };
    for (number, name) in ["", "#2", "#3"].into_iter().enumerate() {
        assert_eq!(posts(&format!("web-client-5{name}")), vec![wake(number); 9]);
        assert_eq!(ops(&changed, &format!("web server-6{name}"))[0], Op::InboxWait { inbox: number, from: 1 });
    }
    // Only the server: its client wakes all of them.
    let changed = applied(&["web server: copies=3"]).unwrap();
    assert_eq!(ops(&changed, "web-client-5")[2..5], [0, 1, 2].map(wake));
}

#[test]
fn a_server_answers_each_copy_of_its_client() {
    let once = ops(&applied(&[]).unwrap(), "web server-6");
    let changed = applied(&["web-client: copies=2"]).unwrap();
    let twice = ops(&changed, "web server-6");
    let wakers = |name: &str| {
        let from = |op| if let Op::InboxWake { inbox: 0, from, .. } = op { Some(from) } else { None };
        ops(&changed, name).into_iter().filter_map(from).collect::<Vec<_>>()
    };
    assert_eq!((wakers("web-client-5"), wakers("web-client-5#2")), (vec![1; 9], vec![3; 9]));
    for from in [1, 3] {
        assert_eq!(twice.iter().filter(|op| **op == Op::InboxWait { inbox: 0, from }).count(), 9);
    }
    let work = |ops: &[Op]| ops.iter().map(|op| if let Op::Run { work } = op { *work } else { 0 }).sum::<u64>();
    assert_eq!(work(&twice), 2 * work(&once));
    let last = twice.iter().rfind(|op| matches!(op, Op::InboxWait { .. }));
    assert_eq!(last, Some(&Op::InboxWait { inbox: 0, from: 1 }), "the loop ends behind the answer to the original");
}

#[test]
fn a_file_says_the_same_as_lines() {
    let file = br#"
        [[rule]]
        comm = "web*"
        group = "/web"
        nice = 5
        cpus = [0, 1]

        [[rule]]
        regex = "^logger"
        policy = "rr:10"
        copies = 2

        [groups."/web"]
        weight = 30
        max = "10ms/50ms"
    "#;
    let mut rules = Rules::default();
    rules.add_file("rules.toml", file).unwrap();
    let recorded = recorder().finish(&Lateness::default());
    let mut changed = recorded.clone();
    rules.apply(&mut changed, &recorded.threads, 2).unwrap();
    let lines = ["web*: group=/web nice=5 cpus=0-1 weight=30 max=10ms/50ms", "regex=^logger: policy=rr:10 copies=2"];
    assert_eq!(changed.workload, applied(&lines).unwrap().workload);
}

/// Only text in the form of a selector is one.
#[test]
fn names_have_equals_signs_in_them() {
    for who in ["comm=com=spin", "*=spin", "my com=spin"] {
        assert!(Rules::default().add(&format!("{who}: nice=3")).is_ok(), "{who}");
    }
}

#[test]
fn the_rules_groups_without_tasks_are_known() {
    let mut rules = Rules::default();
    rules.add("web*: group=/a/web nice=5").unwrap();
    let file = b"[groups.\"/a\"]\nweight = 3\n[groups.\"/c\"]\nweight = 3\n[groups.\"/t\"]\nweight = 3\n[groups.\"/aa\"]\nweight = 3\n";
    rules.add_file("rules.toml", file).unwrap();
    assert_eq!(rules.groups().count(), 4);
    let mut recorded = recorder().finish(&Lateness::default());
    recorded.workload.groups.push(Group { path: "/t/below".to_owned(), ..Group::default() });
    let mut idle: Vec<&str> = rules.idle_groups(&recorded.workload.groups).collect();
    idle.sort_unstable();
    assert_eq!(idle, ["/aa", "/c"]);
}

/// The error points at the policy of the last rule that has one.
#[test]
fn the_error_of_a_policy_names_its_rule() {
    let mut rules = Rules::default();
    for text in ["web*: policy=deadline:2ms/10ms", "web server: policy=fifo:3 nice=1", "*: nice=4"] {
        rules.add(text).unwrap();
    }
    let recorded = recorder().finish(&Lateness::default());
    let at = |name: &str| {
        let thread = recorded.threads.iter().position(|thread| thread.comm == name).expect("it is there");
        rules.wrong_policy(&recorded.threads, thread, "no", "mend it").map(|error| message_of(&error))
    };
    assert_eq!(at("web-client").as_deref(), Some("no | deadline:2ms/10ms | requested here | mend it"));
    assert_eq!(at("web server").as_deref(), Some("no | fifo:3 | requested here | mend it"));
    assert_eq!(at("logger:0"), None);
}

/// An error's message, its text, and its help.
fn message_of(error: &Error) -> String {
    let span = error.span().expect("it has a place");
    let at = error.source_text().text()[span].to_owned();
    format!("{} | {at} | {} | {}", error.message(), error.label(), error.help().unwrap_or_default())
}

#[test]
fn errors_have_their_place() {
    let texts = [
        "web",
        "web: nise=3",
        "web: nice=20",
        "web: policy=fifo",
        "web: policy=deadline:9ms/2ms",
        "web: weight=3",
        "web: remove nice=3",
        "web: cgroup=/x",
        "web*=nice:10",
        "regex=(: nice=1",
        "[a: nice=1",
        ": nice=1",
        "web: ",
        "web: group=/x max=20x",
        "web: group=/x max=17592186044416 100000",
        "webb-client: nice=1",
        "tgid=99: nice=1",
        "web*: cpus=0-7",
        "*: copies=10001",
        "web*: nice=0 nice=19",
        "com=web: nice=3",
        "comm=web tgidd=5: nice=3",
        "web*: nice=abc",
    ];
    let all: Vec<String> =
        texts.iter().map(|text| format!("{text}\n    {}", message_of(&applied(&[text]).unwrap_err()))).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn errors_in_a_file_have_their_place() {
    let texts = [
        "rule = 3",
        "[[rule]]\nnice = 3",
        "[[rule]]\ncomm = \"a\"\nnice = 1.5",
        "[[rule]]\ncomm = \"a\"\nnice = 99",
        "[groups.\"/\"]\nweight = 3",
        "[groups.\"/a\"]\nnice = 3",
        "[[rulez]]",
        "[[rule",
        "# nothing\n",
    ];
    let all: Vec<String> = texts
        .iter()
        .map(|text| {
            let error = Rules::default().add_file("rules.toml", text.as_bytes()).unwrap_err();
            format!("{}\n    {}", text.replace('\n', " / "), message_of(&error))
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// A shell forks another, which forks a third; one task is unrelated.
#[test]
fn a_rule_reaches_what_a_task_forks_if_it_says_so() {
    let named = |pid: i32| Named { pid, comm: b"sh" };
    let switch = |prev: i32, left: Left, next: i32| Happens::Switch {
        prev: named(prev),
        prev_prio: 120,
        left,
        next: named(next),
        next_prio: 120,
    };
    let mut recorder = Recorder::new();
    let mut event = |at: u64, pid: i32, what: Happens<'static>| {
        recorder.add(&Event { at: at * MS, cpu: 0, pid, tgid: None, context: None, what });
    };
    event(0, 0, switch(0, Left::Runnable, 5));
    for (at, parent, child) in [(1, 5, 6), (2, 6, 7), (3, 7, 0)] {
        if child > 0 {
            event(at, parent, Happens::Fork { parent: named(parent), child: named(child), thread: None });
            event(at, parent, Happens::WokenNew { task: named(child), prio: 120 });
        }
        event(at + 1, parent, switch(parent, Left::Dead, child));
    }
    event(6, 0, switch(0, Left::Runnable, 9));
    event(7, 9, switch(9, Left::Sleeping, 0));
    let recorded = recorder.finish(&Lateness::default());
    let nices = |rule: &str| {
        let mut rules = Rules::default();
        rules.add(rule).unwrap();
        let mut changed = recorded.clone();
        rules.apply(&mut changed, &recorded.threads, 1).unwrap();
        let tasks = ["sh-5", "sh-6", "sh-7", "sh-9"];
        let nice = |name| policy(&changed, name) == Some(Policy::Other { nice: 7, slice: None });
        (tasks.map(nice), rules.unreached(&recorded.threads))
    };
    assert_eq!(nices("pid=5: nice=7"), ([true, false, false, false], 2));
    assert_eq!(nices("tree=5: nice=7"), ([true, true, true, false], 0));
    assert_eq!(nices("tree=6: nice=7"), ([false, true, true, false], 0));
    assert_eq!(nices("tree=5 pid=6-7: nice=7"), ([false, true, true, false], 0));
}

#[test]
fn loops_are_closed_or_open_as_a_rule_says() {
    let mut rules = Rules::default();
    rules.add("web-*: closed").unwrap();
    rules.add("w*: loop=open nice=3").unwrap();
    let recorded = recorder().finish(&Lateness::default());
    let closed = rules.closed(&recorded.threads);
    let named = |index: &usize| recorded.threads[*index].comm.starts_with('w');
    assert!(!closed.is_empty() && closed.iter().all(|(index, closed)| named(index) && *closed == Closed::No));
    let error = rules.add("web-*: loop=round").unwrap_err();
    assert!(error.to_string().contains("`round` is neither closed nor open"), "{error}");
}

/// A pattern that cannot be compiled is an error of the rule, not a panic.
#[test]
fn patterns_may_be_too_deep_or_too_large() {
    for pattern in
        ["{".repeat(250) + "a" + &"}".repeat(250), "{a,".repeat(250) + "a" + &"}".repeat(250), "*".repeat(60_000)]
    {
        for rule in [format!("{pattern}: nice=1"), format!("cgroup=/{pattern}: nice=1")] {
            let error = Rules::default().add(&rule).expect_err("it is refused").to_string();
            assert!(error.contains("too large a pattern, or has too many braces"), "{error}");
        }
    }
    let changed = applied(&["{web-*,{x,lo[a-z]ger}:?}: nice=5"]).unwrap();
    let nice = |name| policy(&changed, name);
    assert_eq!(
        (nice("web-client-5"), nice("logger:0-7")),
        (Some(Policy::Other { nice: 5, slice: None }), Some(Policy::Other { nice: 5, slice: None }))
    );
    assert_eq!(nice("web server-6"), policy(&applied(&[]).unwrap(), "web server-6"));
}

#[test]
fn a_comma_between_changes_is_an_error() {
    for (text, help) in [
        ("a: policy=SCHED_FIFO, priority=30", "separate changes by spaces: policy=SCHED_FIFO priority=30"),
        ("cgroup=/a: max=500m, burst=20ms", "separate changes by spaces: max=500m burst=20ms"),
    ] {
        let error = Rules::default().add(text).unwrap_err();
        assert_eq!((error.message(), error.help()), ("a comma between two changes", Some(help)));
    }
    assert!(Rules::default().add("a: cpus=0,2 nice=3").is_ok());
}

/// If each rule looked at each task, this test would take minutes.
#[test]
fn many_rules_name_many_tasks() {
    const TASKS: usize = 60_000;
    const RULES: usize = 20_000;
    let name = |index: usize| format!("t{index}");
    let task = |index| Task { class: name(index), ..Task::new(format!("{}-0", name(index)), vec![]) };
    let mut groups = GroupTree::new();
    for index in 0..RULES / 2 {
        groups.ensure(&format!("/{}", name(index)));
    }
    let mut workload =
        Workload { tasks: (0..TASKS).map(task).collect(), groups: groups.into_groups(), ..Workload::default() };
    let mut rules = Rules::default();
    for index in 0..RULES / 2 {
        rules.add(&format!("{}: nice=5", name(index))).unwrap();
        rules.add(&format!("cgroup=/{}: weight=200", name(index))).unwrap();
    }
    rules.add("t7-?: nice=7").unwrap();
    rules.apply_to(&mut workload, "w.toml").unwrap();
    let nice = |index: usize| match workload.tasks[index].settings.policy {
        Some(Policy::Other { nice, .. }) => nice,
        _ => 0,
    };
    assert_eq!([6, 7, RULES / 2 - 1, RULES / 2, TASKS - 1].map(nice), [5, 7, 5, 0, 0]);
    assert!(workload.groups[1..].iter().all(|group| group.weight == 200) && workload.groups[0].weight == 100);
}

/// A name without wildcards matches as a pattern of that name does: a task's own name, or its class's.
#[test]
fn names_match_as_patterns_do() {
    let task = |name: &str, class: &str| Task { class: class.to_owned(), ..Task::new(name, vec![]) };
    let tasks = vec![task("web", "web"), task("web-0", "web"), task("Web", "Web"), task("web,x", "x"), task("", "x")];
    let workload = Workload { tasks, ..Workload::default() };
    for name in ["web", "web-0", "Web", "web,x", "x", "nothing"] {
        let changed = |selector: &str| {
            let (mut rules, mut workload) = (Rules::default(), workload.clone());
            rules.add(&format!("{selector}: nice=5")).unwrap();
            let applied = rules.apply_to(&mut workload, "w.toml").map_err(|error| error.to_string());
            applied.map(|()| workload.tasks.iter().map(|task| task.settings.policy).collect::<Vec<_>>())
        };
        let pattern = format!("[{}]{}", &name[..1], &name[1..]);
        assert_eq!(changed(name).ok(), changed(&pattern).ok(), "{name}");
        assert_eq!(changed(name).is_err(), name == "nothing");
    }
}
