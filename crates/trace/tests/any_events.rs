//! For any events in any order, the writers do not panic, and their output can be read back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;
use vruntime_trace::perfetto::proto::{Data, Trace};
use vruntime_trace::{
    BalanceKind, CpuId, DeadlineEvent, Event, FtraceWriter, GroupId, GroupInfo, MigrateCause, OverheadKind,
    PerfettoWriter, PrevState, Running, SchedPolicy, Sink, TaskId, TaskInfo,
};

fn task() -> impl Strategy<Value = TaskId> {
    (0..40_u32).prop_map(TaskId)
}

fn cpu() -> impl Strategy<Value = CpuId> {
    prop_oneof![(0..6_u32).prop_map(CpuId), (1020..1030_u32).prop_map(CpuId)]
}

fn running() -> impl Strategy<Value = Running> {
    prop_oneof![Just(Running::Idle), Just(Running::Stopper), task().prop_map(Running::Task)]
}

fn prev_state() -> impl Strategy<Value = PrevState> {
    prop::sample::select(vec![
        PrevState::Preempted,
        PrevState::Yielded,
        PrevState::Sleeping,
        PrevState::Blocked,
        PrevState::Dead,
    ])
}

fn cause() -> impl Strategy<Value = MigrateCause> {
    prop::sample::select(vec![
        MigrateCause::Wakeup,
        MigrateCause::Fork,
        MigrateCause::Exec,
        MigrateCause::Periodic,
        MigrateCause::NewIdle,
        MigrateCause::NohzIdle,
        MigrateCause::Active,
        MigrateCause::Affinity,
        MigrateCause::Hotplug,
        MigrateCause::RtPush,
        MigrateCause::RtPull,
        MigrateCause::DlPush,
        MigrateCause::DlPull,
    ])
}

fn event() -> impl Strategy<Value = Event> {
    let group = || (0..300_u32).prop_map(GroupId);
    prop_oneof![
        (prop::option::of(task()), task()).prop_map(|(parent, child)| Event::Fork { parent, child }),
        task().prop_map(|task| Event::Exit { task }),
        (task(), any::<bool>()).prop_map(|(task, irq)| Event::Waking { task, irq }),
        (task(), cpu()).prop_map(|(task, target)| Event::Wakeup { task, target }),
        (task(), cpu()).prop_map(|(task, target)| Event::WakeupNew { task, target }),
        (running(), prev_state(), running()).prop_map(|(prev, prev_state, next)| Event::Switch {
            prev,
            prev_state,
            next
        }),
        (task(), cpu(), cpu(), cause()).prop_map(|(task, from, to, cause)| Event::Migrate { task, from, to, cause }),
        (task(), any::<i8>()).prop_map(|(task, nice)| Event::SetNice { task, nice }),
        (task(), 1..100_u8).prop_map(|(task, rt_priority)| Event::SetPolicy {
            task,
            policy: if rt_priority < 90 { SchedPolicy::Fifo } else { SchedPolicy::Normal },
            rt_priority
        }),
        (task(), any::<i16>(), any::<i16>()).prop_map(|(task, old, new)| Event::PiSetprio { task, old, new }),
        (task(), group()).prop_map(|(task, group)| Event::MoveGroup { task, group }),
        any::<u32>().prop_map(|khz| Event::CpuFrequency { khz }),
        (cpu(), any::<bool>()).prop_map(|(root, on)| Event::Overutilized { root, on }),
        group().prop_map(|group| Event::Throttle { group }),
        (group(), any::<u64>()).prop_map(|(group, ns)| Event::Unthrottle { group, ns }),
        group().prop_map(|group| Event::RtThrottle { group }),
        group().prop_map(|group| Event::RtUnthrottle { group }),
        (group(), any::<u32>(), any::<bool>(), any::<u64>())
            .prop_map(|(group, periods, throttled, burst)| Event::BandwidthPeriod { group, periods, throttled, burst }),
        (cpu(), any::<u32>()).prop_map(|(cpu, pulled)| Event::Balance {
            kind: BalanceKind::Idle,
            level: 0,
            busiest: Some(cpu),
            pulled,
            balanced: false,
        }),
        (cpu(), any::<u32>(), any::<u32>()).prop_map(|(of, groups, idle)| Event::HLoad { of, groups, idle }),
        any::<u64>().prop_map(|ns| Event::Overhead { kind: OverheadKind::Tick, ns }),
        (task(), any::<u64>(), any::<u64>()).prop_map(|(task, duration, work)| Event::LoopEnd { task, duration, work }),
        (task(), any::<u64>()).prop_map(|(task, late)| Event::SleepReturn { task, late }),
        (task(), any::<u64>()).prop_map(|(task, late)| Event::Deadline { task, what: DeadlineEvent::Miss { late } }),
        (task(), 0..3_u8).prop_map(|(task, what)| {
            let what = match what {
                0 => DeadlineEvent::Throttle,
                1 => DeadlineEvent::Replenish,
                _ => DeadlineEvent::Overrun,
            };
            Event::Deadline { task, what }
        }),
        Just(Event::CpuDown),
        Just(Event::CpuUp),
        task().prop_map(|task| Event::AffinityLost { task }),
    ]
}

fn is_traced(event: &Event) -> bool {
    !matches!(
        event,
        Event::SetNice { .. }
            | Event::SetPolicy { .. }
            | Event::Deadline { .. }
            | Event::Throttle { .. }
            | Event::Unthrottle { .. }
            | Event::RtThrottle { .. }
            | Event::RtUnthrottle { .. }
            | Event::BandwidthPeriod { .. }
            | Event::Balance { .. }
            | Event::HLoad { .. }
            | Event::Overhead { .. }
            | Event::LoopEnd { .. }
            | Event::SleepReturn { .. }
            | Event::AffinityLost { .. }
    )
}

fn is_perfetto(event: &Event) -> bool {
    is_traced(event) && !matches!(event, Event::PiSetprio { .. } | Event::Overutilized { .. })
}

/// Number of marks (`print`): initial policies and nice values unless default, their changes, results of deadlines,
/// limits of groups and their effects.
fn marks(names: usize, events: &[(u64, CpuId, Event)]) -> usize {
    let (mut policies, mut nices) = (BTreeMap::new(), BTreeMap::new());
    let mut marks = 0;
    for (at, (_, _, event)) in events.iter().enumerate() {
        // The tasks with names are announced one before each of the first events.
        if at < names {
            // Each announces a group as well, with its limit; the root has none.
            marks += usize::from(at % 5 != 0);
            nices.insert(TaskId(at as u32), (at % 40) as i8 - 20);
            policies.insert(TaskId(at as u32), SchedPolicy::Normal);
        }
        match *event {
            Event::Fork { child, .. } => {
                marks += usize::from(policies.get(&child).is_some_and(|&policy| policy != SchedPolicy::Normal));
                marks += usize::from(nices.get(&child).is_some_and(|&nice| nice != 0));
            }
            Event::SetPolicy { task, policy, .. } => {
                policies.insert(task, policy);
                marks += 1;
            }
            Event::SetNice { task, nice } => {
                nices.insert(task, nice);
                marks += 1;
            }
            Event::Deadline { .. }
            | Event::Throttle { .. }
            | Event::Unthrottle { .. }
            | Event::BandwidthPeriod { .. } => marks += 1,
            _ => {}
        }
    }
    marks
}

/// Whether each event is the birth of a task into another group than its parent's, which has a further tracepoint.
fn births(names: usize, events: &[(u64, CpuId, Event)]) -> Vec<bool> {
    let (mut groups, mut current) = (BTreeMap::new(), BTreeMap::new());
    let births = events.iter().enumerate().map(|(at, (_, cpu, event))| {
        if at < names {
            groups.insert(TaskId(at as u32), GroupId(at as u32 % 5));
        }
        let of = |task: Option<TaskId>| task.and_then(|task| groups.get(&task).copied()).unwrap_or(GroupId::ROOT);
        match *event {
            Event::Fork { parent, child } => {
                let running = current.get(cpu).copied().unwrap_or(Running::Idle);
                return of(Some(child)) != of(parent.or(running.task()));
            }
            Event::MoveGroup { task, group } => drop(groups.insert(task, group)),
            Event::Switch { next, .. } => drop(current.insert(*cpu, next)),
            _ => {}
        }
        false
    });
    births.collect()
}

/// Number of tracepoints: a hotplug step has a beginning and an end.
fn tracepoints(event: &Event) -> usize {
    if matches!(event, Event::CpuDown | Event::CpuUp) { 2 } else { 1 }
}

/// Announcements between the events; names of any kind, and some missing.
fn feed(sink: &mut impl Sink, names: &[String], events: &[(u64, CpuId, Event)]) {
    let mut names = names.iter().zip(0_u32..);
    for (at, cpu, event) in events {
        if let Some((name, id)) = names.next() {
            let group = GroupId(id % 5);
            sink.group(
                group,
                &GroupInfo { path: name, parent: id.checked_sub(1).map(GroupId), weight: 100, ..GroupInfo::default() },
            );
            sink.task(
                TaskId(id),
                &TaskInfo { name, class: "class", group, nice: (id % 40) as i8 - 20, ..TaskInfo::default() },
            );
        }
        sink.event(*at, *cpu, event);
    }
    sink.finish(events.last().map_or(0, |event| event.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_written_event_is_read_back(
        names in prop::collection::vec(any::<String>(), 0..20),
        steps in prop::collection::vec((prop_oneof![Just(0), 0..5_000_u64, any::<u64>()], cpu(), event()), 0..200),
    ) {
        let mut now = 0_u64;
        let events: Vec<_> = steps.into_iter().map(|(step, cpu, event)| {
            now = now.saturating_add(step);
            (now, cpu, event)
        }).collect();
        let births = births(names.len(), &events);
        let traced: usize = events.iter().filter(|event| is_traced(&event.2)).map(|event| tracepoints(&event.2)).sum();
        let traced = traced + births.iter().filter(|&&birth| birth).count();

        let mut perfetto = PerfettoWriter::new(Vec::new());
        feed(&mut perfetto, &names, &events);
        let omitted = perfetto.omitted() as usize;
        prop_assert_eq!(omitted, events.iter().filter(|(_, cpu, event)| is_perfetto(event) && cpu.0 >= 1024).count());
        let bytes = perfetto.finish_writing().expect("memory does not fail");
        let trace = Trace::decode(bytes.as_slice()).expect("what was written can be read");
        let mut read = 0;
        for packet in &trace.packet {
            if let Some(Data::FtraceEvents(bundle)) = &packet.data {
                prop_assert!(bundle.event.is_sorted_by_key(|event| event.timestamp));
                prop_assert!(bundle.event.iter().all(|event| event.event.is_some() && event.timestamp.is_some()));
                read += bundle.event.len();
            }
        }
        let kept = |(_, cpu, event): &&(u64, CpuId, Event)| is_perfetto(event) && cpu.0 < 1024;
        let born = events.iter().zip(&births).filter(|((_, cpu, _), birth)| **birth && cpu.0 < 1024).count();
        // The end of the run is the last event.
        prop_assert_eq!(read, 1 + born + events.iter().filter(kept).map(|event| tracepoints(&event.2)).sum::<usize>());
        // Encoding what was decoded gives the same size: no field was lost or unknown.
        prop_assert_eq!(trace.encoded_len(), bytes.len());

        let mut text = FtraceWriter::new(Vec::new(), 8);
        feed(&mut text, &names, &events);
        let text = text.finish_writing().expect("memory does not fail");
        let text = String::from_utf8(text).expect("names are text");
        let lines = 1 + traced + marks(names.len(), &events) + 2;
        prop_assert_eq!(text.split('\n').count(), lines, "a header, a line a tracepoint or mark, that of the end, and the end");
    }
}
