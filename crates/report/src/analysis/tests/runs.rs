//! Our runs and their text traces: wakeups by interrupts, and throttled tasks.

use vruntime_trace::{
    CpuId, DeadlineEvent, Event, FtraceWriter, GroupId, GroupInfo, MachineInfo, PrevState, Running, SchedPolicy, Sink,
    TaskId, TaskInfo,
};

use super::*;

const MS: u64 = 1_000_000;

/// Analyses of a run and of its text trace.
fn both(kinds: &[AnalysisKind], options: &AnalysisOptions, run: impl Fn(&mut dyn FnMut(Update<'_>))) -> [Analyses; 2] {
    let mut live = Analyses::new(kinds, options);
    live.machine(&MachineInfo { cpus: 2, tick_ns: 4 * MS, domains: &[], energy: None });
    let mut text = FtraceWriter::new(Vec::new(), 2).nanoseconds();
    run(&mut |update| {
        update.to(&mut live);
        update.to(&mut text);
    });
    let text = String::from_utf8(text.finish_writing().unwrap()).unwrap();
    [live, analyse(kinds, options, &text)]
}

enum Update<'a> {
    Group(u32, GroupInfo<'a>),
    Task(u32, TaskInfo<'a>),
    Event(u64, u32, Event),
    End(u64),
}

impl Update<'_> {
    fn to(&self, sink: &mut impl Sink) {
        match self {
            Self::Group(id, info) => sink.group(GroupId(*id), info),
            Self::Task(id, info) => sink.task(TaskId(*id), info),
            Self::Event(at, cpu, event) => sink.event(*at, CpuId(*cpu), event),
            Self::End(at) => sink.finish(*at),
        }
    }
}

const API: TaskId = TaskId(0);
const NOISE: TaskId = TaskId(1);

fn switch(prev: Option<TaskId>, prev_state: PrevState, next: Option<TaskId>) -> Event {
    let on = |task: Option<TaskId>| task.map_or(Running::Idle, Running::Task);
    Event::Switch { prev: on(prev), prev_state, next: on(next) }
}

/// `api`, two groups below one with a limit, runs for 1 ms. Then its group is throttled for 60, in which `noise` has
/// the CPU for 10, and for 3 after the limit. CPU 1 is idle.
fn limited(policy: SchedPolicy, tell: &mut dyn FnMut(Update<'_>)) {
    let zero = CpuId(0);
    for (id, path, parent) in [(0, "/", None), (1, "/pod", Some(GroupId(0))), (2, "/pod/app", Some(GroupId(1)))] {
        let max = (id == 1).then_some((20 * MS, 100 * MS));
        tell(Update::Group(id, GroupInfo { path, parent, max, weight: 100, ..GroupInfo::default() }));
    }
    let rt_priority = if policy.is_rt() { 5 } else { 0 };
    let (name, group) = ("api", GroupId(2));
    tell(Update::Task(0, TaskInfo { name, class: name, group, policy, rt_priority, ..TaskInfo::default() }));
    tell(Update::Task(1, TaskInfo { name: "noise", class: "noise", ..TaskInfo::default() }));
    // Shows in the text that CPU 1 is idle.
    tell(Update::Event(0, 1, Event::CpuFrequency { khz: 1 }));
    let events = [
        (0, Event::Fork { parent: None, child: API }),
        (0, Event::WakeupNew { task: API, target: zero }),
        (0, switch(None, PrevState::Preempted, Some(API))),
        (1, Event::Throttle { group: GroupId(1) }),
        (1, switch(Some(API), PrevState::Preempted, None)),
        (11, Event::Fork { parent: None, child: NOISE }),
        (11, Event::WakeupNew { task: NOISE, target: zero }),
        (11, switch(None, PrevState::Preempted, Some(NOISE))),
        (21, switch(Some(NOISE), PrevState::Sleeping, None)),
        (58, Event::Waking { task: NOISE, irq: true }),
        (58, Event::Wakeup { task: NOISE, target: zero }),
        (58, switch(None, PrevState::Preempted, Some(NOISE))),
        (61, Event::Unthrottle { group: GroupId(1), ns: 60 * MS }),
        (64, switch(Some(NOISE), PrevState::Sleeping, Some(API))),
    ];
    for (at, event) in events {
        tell(Update::Event(at * MS, 0, event));
    }
    tell(Update::End(64 * MS));
}

fn waits(analyses: &Analyses) -> Vec<(String, u64)> {
    let rows = analyses.tables()[0].json();
    let rows = rows.as_array().unwrap().iter().filter(|row| row["waited"] == "api");
    rows.map(|row| (row["for_task"].as_str().unwrap().to_owned(), row["total_ns"].as_u64().unwrap() / MS)).collect()
}

const KINDS: [AnalysisKind; 3] = [AnalysisKind::Antagonists, AnalysisKind::IdleWhileWaiting, AnalysisKind::Latency];

#[test]
fn throttling_is_not_a_delay_by_another_task() {
    for analyses in both(&KINDS, &AnalysisOptions::default(), |tell| limited(SchedPolicy::Normal, tell)) {
        let expected = [("(throttled: /pod)".to_owned(), 60), ("noise".to_owned(), 3)];
        assert_eq!(waits(&analyses), expected);
        let sentences = analyses.sentences().concat();
        let sentence =
            "api waited most while the limit of /pod throttled it: 60.0 ms in total, 95.24 % of its waiting time.";
        assert!(sentences.contains(sentence), "{sentences}");
        assert!(
            sentences.contains("Tasks waited") && sentences.contains(" for a CPU or a limit on average ("),
            "{sentences}"
        );
    }
}

/// CPU 1 was idle, but could not help before the limit's next period.
#[test]
fn a_throttled_task_does_not_wait_beside_an_idle_cpu() {
    for analyses in both(&KINDS, &AnalysisOptions::default(), |tell| limited(SchedPolicy::Normal, tell)) {
        let rows = analyses.tables()[1].json();
        // The text lacks affinities.
        let ns = |row: &Value| row["could_ns"].as_u64().max(row["might_ns"].as_u64());
        assert_eq!(rows.as_array().unwrap().iter().map(ns).collect::<Vec<_>>(), [Some(3 * MS)], "{rows}");
    }
}

#[test]
fn limits_throttle_only_fair_tasks() {
    for policy in [SchedPolicy::Fifo, SchedPolicy::Deadline] {
        for analyses in both(&KINDS, &AnalysisOptions::default(), |tell| limited(policy, tell)) {
            let waits = waits(&analyses);
            assert!(waits.iter().all(|(who, _)| !who.starts_with("(throttled")), "{policy:?}: {waits:?}");
        }
    }
}

#[test]
fn a_deadline_task_that_waits_for_its_period_waits_for_no_cpu() {
    let run = |tell: &mut dyn FnMut(Update<'_>)| {
        let policy = SchedPolicy::Deadline;
        tell(Update::Task(0, TaskInfo { name: "api", class: "api", policy, ..TaskInfo::default() }));
        let events = [
            (0, Event::Fork { parent: None, child: API }),
            (0, Event::WakeupNew { task: API, target: CpuId(0) }),
            (0, switch(None, PrevState::Preempted, Some(API))),
            (2, Event::Deadline { task: API, what: DeadlineEvent::Throttle }),
            (2, switch(Some(API), PrevState::Preempted, None)),
            (10, Event::Deadline { task: API, what: DeadlineEvent::Replenish }),
            (11, switch(None, PrevState::Preempted, Some(API))),
        ];
        for (at, event) in events {
            tell(Update::Event(at * MS, 0, event));
        }
        tell(Update::End(11 * MS));
    };
    for analyses in both(&KINDS, &AnalysisOptions::default(), run) {
        assert_eq!(waits(&analyses), [("(throttled: own runtime)".to_owned(), 8), ("(idle)".to_owned(), 1)]);
    }
}

/// An interrupt during `noise` wakes `api` the first time. `noise` itself wakes it the second time.
#[test]
fn an_interrupted_task_is_not_the_waker() {
    let run = |tell: &mut dyn FnMut(Update<'_>)| {
        for (id, name) in [(0, "api"), (1, "noise")] {
            tell(Update::Task(id, TaskInfo { name, class: name, ..TaskInfo::default() }));
        }
        let mut events = vec![
            (0, Event::Fork { parent: None, child: API }),
            (0, Event::WakeupNew { task: API, target: CpuId(0) }),
            (0, switch(None, PrevState::Preempted, Some(API))),
            (0, Event::Fork { parent: Some(API), child: NOISE }),
            (0, Event::WakeupNew { task: NOISE, target: CpuId(0) }),
        ];
        for (at, irq) in [(10, true), (20, false)] {
            events.push((at, switch(Some(API), PrevState::Sleeping, Some(NOISE))));
            events.push((at + 6, Event::Waking { task: API, irq }));
            events.push((at + 6, Event::Wakeup { task: API, target: CpuId(0) }));
            events.push((at + 6, switch(Some(NOISE), PrevState::Preempted, Some(API))));
        }
        for (at, event) in events {
            tell(Update::Event(at * MS, 0, event));
        }
        tell(Update::End(26 * MS));
    };
    let options = AnalysisOptions { task: Some("api".to_owned()), ..AnalysisOptions::default() };
    for analyses in both(&[AnalysisKind::CriticalPath], &options, run) {
        let rows = analyses.tables()[0].json();
        let of = |task: &str, doing: &str| {
            let mut rows = rows.as_array().unwrap().iter();
            let is = |row: &&Value| row["task"].as_str().unwrap().starts_with(task) && row["doing"] == doing;
            rows.find(is).map_or(0, |row| row["total_ns"].as_u64().unwrap() / MS)
        };
        assert_eq!(of("api", "sleeps until an interrupt"), 6, "{rows}");
        assert_eq!((of("noise", "runs"), of("noise", "sleeps until an interrupt")), (6, 0), "{rows}");
    }
}

/// Our run knows all groups and their tasks, even if they exceed a recording's limit.
#[test]
fn a_run_may_have_any_number_of_groups() {
    let kinds = [AnalysisKind::Groups, AnalysisKind::Throttling];
    let mut live = Analyses::new(&kinds, &AnalysisOptions::default());
    live.machine(&MachineInfo { cpus: 2, tick_ns: 4 * MS, domains: &[], energy: None });
    {
        let mut tell = |update: Update<'_>| update.to(&mut live);
        for id in 0..70_000 {
            let path = if id == 0 { "/".to_owned() } else { format!("/g{id}") };
            let parent = (id > 0).then_some(GroupId(0));
            let max = (id == 69_999).then_some((20 * MS, 100 * MS));
            tell(Update::Group(id, GroupInfo { path: &path, parent, max, weight: 100, ..GroupInfo::default() }));
        }
        for (id, group) in [(0, 69_999), (1, 70_001)] {
            let info = TaskInfo { name: "t", class: "t", group: GroupId(group), ..TaskInfo::default() };
            tell(Update::Task(id, info));
        }
        let move_group = |group| Event::MoveGroup { task: API, group: GroupId(group) };
        for (at, event) in [
            (0, Event::Fork { parent: None, child: API }),
            (0, Event::WakeupNew { task: API, target: CpuId(0) }),
            (0, switch(None, PrevState::Preempted, Some(API))),
            (2, Event::Throttle { group: GroupId(69_999) }),
            (2, Event::Unthrottle { group: GroupId(69_999), ns: MS }),
            (3, move_group(68_000)),
            (5, move_group(70_500)),
            (7, switch(Some(API), PrevState::Sleeping, None)),
        ] {
            tell(Update::Event(at * MS, 0, event));
        }
        tell(Update::End(10 * MS));
    }
    let used = |analyses: &Analyses, group: &str| {
        analyses.tables()[0]
            .json()
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["group"] == group).map(|row| row["cpu_ns"].clone()))
    };
    assert_eq!((used(&live, "/g69999"), used(&live, "/g68000")), (Some((3 * MS).into()), Some((4 * MS).into())));
    assert_eq!(live.tables()[1].rows.len(), 1);
    assert!(live.notes().iter().any(|note| note.ends_with("(left out): 2")), "{:?}", live.notes());
}
