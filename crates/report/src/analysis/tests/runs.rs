//! Runs of ours, and the text that they leave: who was woken by an interrupt.

use vruntime_trace::{CpuId, Event, FtraceWriter, MachineInfo, PrevState, Running, Sink, TaskId, TaskInfo};

use super::*;

const MS: u64 = 1_000_000;

/// The analyses of a run, and of the text that it leaves.
fn both(kinds: &[AnalysisKind], options: &AnalysisOptions, run: impl Fn(&mut dyn FnMut(Told<'_>))) -> [Analyses; 2] {
    let mut live = Analyses::new(kinds, options);
    live.machine(&MachineInfo { cpus: 2, tick_ns: 4 * MS, domains: &[], energy: None });
    let mut text = FtraceWriter::new(Vec::new(), 2).nanoseconds();
    run(&mut |told| {
        told.to(&mut live);
        told.to(&mut text);
    });
    let text = String::from_utf8(text.finish_writing().unwrap()).unwrap();
    [live, analyse(kinds, options, &text)]
}

/// What happens in a run.
enum Told<'a> {
    Task(u32, TaskInfo<'a>),
    Event(u64, u32, Event),
    End(u64),
}

impl Told<'_> {
    fn to(&self, sink: &mut impl Sink) {
        match self {
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

/// An interrupt that hits `noise` ends the sleep of `api` once, and `noise` itself another time.
#[test]
fn who_is_hit_by_an_interrupt_wakes_nobody() {
    let run = |tell: &mut dyn FnMut(Told<'_>)| {
        for (id, name) in [(0, "api"), (1, "noise")] {
            tell(Told::Task(id, TaskInfo { name, class: name, ..TaskInfo::default() }));
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
            tell(Told::Event(at * MS, 0, event));
        }
        tell(Told::End(26 * MS));
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
