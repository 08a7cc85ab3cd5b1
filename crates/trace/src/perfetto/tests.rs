use std::io;

use prost::Message;

use super::proto::{CpuhpEnter, CpuhpExit, FtraceEventBundle, FtraceEventKind, TYPE_COUNTER, Trace, TracePacket};
use super::*;
use crate::ftrace::tests::story;
use crate::output::tests::FullDisk;

fn decode(writer: PerfettoWriter<Vec<u8>>) -> Trace {
    let bytes = writer.finish_writing().expect("memory does not fail");
    Trace::decode(bytes.as_slice()).expect("what was written can be read")
}

fn trace_of_the_story(options: &PerfettoOptions) -> Trace {
    let mut writer = PerfettoWriter::with_options(Vec::new(), options);
    story(&mut writer);
    decode(writer)
}

fn bundles(trace: &Trace) -> impl Iterator<Item = &FtraceEventBundle> {
    trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::FtraceEvents(bundle)) => Some(bundle),
        _ => None,
    })
}

/// All but the mark at the end.
fn events(trace: &Trace) -> impl Iterator<Item = (u32, &FtraceEvent)> {
    all_events(trace).filter(|(_, event)| !matches!(event.event, Some(FtraceEventKind::Print(_))))
}

fn all_events(trace: &Trace) -> impl Iterator<Item = (u32, &FtraceEvent)> {
    bundles(trace).flat_map(|bundle| bundle.event.iter().map(|event| (bundle.cpu.unwrap_or(u32::MAX), event)))
}

#[test]
fn the_end_of_the_run_is_an_event() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let next = Running::Task(TaskId(0));
    writer.event(10, CpuId(1), &Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next });
    writer.finish(5_000);
    let trace = decode(writer);
    let last = all_events(&trace).max_by_key(|(_, event)| event.timestamp);
    let print = last.map(|(cpu, event)| (cpu, event.timestamp, matches!(event.event, Some(FtraceEventKind::Print(_)))));
    assert_eq!(print, Some((0, Some(5_000), true)));
}

fn tracks(trace: &Trace) -> impl Iterator<Item = &TrackDescriptor> {
    trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackDescriptor(track)) => Some(track),
        _ => None,
    })
}

fn track_events(trace: &Trace) -> impl Iterator<Item = (u64, &TrackEvent)> {
    trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) => Some((packet.timestamp.unwrap_or(u64::MAX), event)),
        _ => None,
    })
}

#[test]
fn the_switches_carry_what_the_sched_table_needs() {
    let trace = trace_of_the_story(&PerfettoOptions::default());
    let switches: Vec<_> = events(&trace)
        .filter_map(|(cpu, event)| match &event.event {
            Some(FtraceEventKind::SchedSwitch(switch)) => Some((cpu, event, switch)),
            _ => None,
        })
        .collect();
    assert_eq!(switches.len(), 10);
    let (cpu, event, preemption) = &switches[1];
    assert_eq!((*cpu, event.timestamp, event.pid), (0, Some(4_000_000), Some(1000)));
    assert_eq!(preemption.prev_comm.as_deref(), Some(b"web-0".as_slice()));
    assert_eq!(
        (preemption.prev_pid, preemption.prev_prio, preemption.prev_state),
        (Some(1000), Some(120), Some(0x100))
    );
    assert_eq!(preemption.next_comm.as_deref(), Some(b"a batch job with a long name".as_slice()));
    assert_eq!((preemption.next_pid, preemption.next_prio), (Some(1001), Some(125)));

    // CPU 0's bundle is first: idle, preempted, yielded, asleep, preempted by the stopper, the stopper asleep.
    let states: Vec<_> = switches.iter().filter_map(|(_, _, switch)| switch.prev_state).collect();
    assert_eq!(states, [0, 0x100, 0, 1, 0x100, 1, 0, 2, 0, 0x10]);
    // On each CPU, a switch's previous task is the one that the switch before picked.
    for pair in switches.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        assert_eq!(pair[0].2.next_pid, pair[1].2.prev_pid);
    }
}

#[test]
fn the_events_of_a_remote_wakeup_are_in_order_of_time() {
    let trace = trace_of_the_story(&PerfettoOptions::default());
    let woken: Vec<_> = events(&trace)
        .filter_map(|(_, event)| match &event.event {
            Some(FtraceEventKind::SchedWaking(wakeup)) => Some(("waking", wakeup.target_cpu)),
            Some(FtraceEventKind::SchedWakeup(wakeup)) => Some(("wakeup", wakeup.target_cpu)),
            Some(FtraceEventKind::SchedWakeupNew(wakeup)) => Some(("wakeup_new", wakeup.target_cpu)),
            Some(FtraceEventKind::SchedMigrateTask(migrate)) => Some(("migrate", migrate.dest_cpu)),
            _ => None,
        })
        .collect();
    let expected = [
        ("wakeup_new", Some(0)),
        ("wakeup_new", Some(0)),
        ("migrate", Some(1)), // of batch, by the stopper of CPU 0
        ("waking", Some(0)),  // CPU 1 wakes web, last on CPU 0 ...
        ("migrate", Some(1)), // ... takes it over ...
        ("wakeup", Some(1)),  // ... and queues it.
    ];
    assert_eq!(woken, expected);
}

/// The events of one task, sorted by time as Perfetto does, are in the order in which they happened. Ties are sorted
/// by CPU, the worst order for us.
#[test]
fn events_of_one_instant_on_several_cpus_keep_their_order() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let task = TaskId(0);
    let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
    // A machine without costs: CPU 2 wakes the task, it runs on 1, sleeps at once, is woken by 3 and runs on 0.
    let happened = [
        (2, Event::Waking { task, irq: true }),
        (2, Event::Wakeup { task, target: CpuId(1) }),
        (1, switch(Running::Idle, PrevState::Preempted, Running::Task(task))),
        (1, switch(Running::Task(task), PrevState::Sleeping, Running::Idle)),
        (3, Event::Waking { task, irq: false }),
        (3, Event::Wakeup { task, target: CpuId(0) }),
        (0, switch(Running::Idle, PrevState::Preempted, Running::Task(task))),
    ];
    for (cpu, event) in happened {
        writer.event(0, CpuId(cpu), &event);
    }
    writer.finish(10);
    let trace = decode(writer);
    let mut sorted: Vec<_> = events(&trace).map(|(cpu, event)| (event.timestamp, cpu)).collect();
    sorted.sort_by_key(|&(timestamp, cpu)| (timestamp, cpu));
    assert_eq!(sorted.iter().map(|&(_, cpu)| cpu).collect::<Vec<_>>(), [2, 2, 1, 1, 3, 3, 0]);
    assert_eq!(sorted.last().map(|&(timestamp, _)| timestamp), Some(Some(3)), "a nanosecond for each change of CPU");
    // An interrupt hit CPU 2, not CPU 3. Switches have no flags.
    let mut flags: Vec<_> = events(&trace).map(|(cpu, event)| (cpu, event.common_flags)).collect();
    flags.sort_unstable();
    let twice = |cpu, flags| [(cpu, flags); 2];
    assert_eq!(flags[..1], [(0, None)]);
    assert_eq!(flags[1..], [twice(1, None), twice(2, Some(HARDIRQ)), twice(3, Some(0))].concat());
}

#[test]
fn processes_are_classes_in_groups_and_threads_are_tasks() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let mut names = Vec::new();
    for (id, (name, class, group)) in
        [("web-0", "web", 1), ("web-1", "web", 1), ("web-2", "web", 0), ("single task", "single task", 0)]
            .into_iter()
            .enumerate()
    {
        if id == 0 {
            writer.group(
                GroupId(1),
                &GroupInfo { path: "/site", parent: Some(GroupId::ROOT), weight: 100, ..GroupInfo::default() },
            );
        }
        writer.task(TaskId(id as u32), &TaskInfo { name, class, group: GroupId(group), ..TaskInfo::default() });
    }
    let trace = decode(writer);
    for packet in &trace.packet {
        if let Some(Data::ProcessTree(tree)) = &packet.data {
            for process in &tree.processes {
                names.push(format!("process {} {}", process.pid.unwrap_or(-1), process.cmdline.join(" ")));
            }
            for thread in &tree.threads {
                let name = String::from_utf8_lossy(thread.name.as_deref().unwrap_or_default()).into_owned();
                names.push(format!("thread {} of {} {name}", thread.tid.unwrap_or(-1), thread.tgid.unwrap_or(-1)));
            }
        }
    }
    let expected = [
        "process 1 vruntime",
        "process 2 kthreadd",
        "process 1000 /site:web cgroup=/site",
        "thread 1000 of 1000 web-0",
        "thread 1001 of 1000 web-1",
        "process 1002 web cgroup=/",
        "thread 1002 of 1002 web-2",
        "process 1003 single task cgroup=/",
        "thread 1003 of 1003 single task",
    ];
    assert_eq!(names, expected);
}

#[test]
fn counters_and_slices_are_on_their_tracks() {
    let trace = trace_of_the_story(&PerfettoOptions::default());
    let uuid =
        |name: &str| tracks(&trace).find(|track| track.name.as_deref() == Some(name)).and_then(|track| track.uuid);
    let lengths = |track: Option<u64>| -> Vec<_> {
        track_events(&trace)
            .filter(|(_, event)| event.track_uuid == track && event.r#type == Some(TYPE_COUNTER))
            .map(|(at, event)| (at, event.counter_value.unwrap_or(-1)))
            .collect()
    };
    let of_cpu_0 = lengths(uuid("nr_running CPU 0"));
    assert_eq!(of_cpu_0, [(0, 1), (1_500, 2), (6_000_000, 1), (8_501_000, 0)]);
    let use_of_root: Vec<_> = track_events(&trace)
        .filter(|(_, event)| event.track_uuid == uuid("/"))
        .map(|(at, event)| (at, event.double_counter_value.unwrap_or(-1.0)))
        .collect();
    assert_eq!(use_of_root.first(), Some(&(0, 1.0997)), "9.999 + 1 - 0.002 ms of the first 10");

    let track = tracks(&trace).find(|track| track.thread.as_ref().is_some_and(|thread| thread.tid == Some(1000)));
    let marks: Vec<_> = track_events(&trace)
        .filter(|(_, event)| event.track_uuid == track.and_then(|track| track.uuid))
        .map(|(at, event)| (at, event.r#type.unwrap_or(0)))
        .collect();
    assert_eq!(marks, [(1_000, TYPE_SLICE_BEGIN), (6_000_000, TYPE_SLICE_END), (7_000_100, TYPE_INSTANT)]);
    // Every used track is described before.
    let mut described = std::collections::BTreeSet::new();
    for packet in &trace.packet {
        match &packet.data {
            Some(Data::TrackDescriptor(track)) => {
                assert!(described.insert(track.uuid), "described twice: {track:?}");
                assert!(track.parent_uuid.is_none() || described.contains(&track.parent_uuid));
            }
            Some(Data::TrackEvent(event)) => assert!(described.contains(&event.track_uuid)),
            _ => {}
        }
    }
}

#[test]
fn what_is_switched_off_is_not_written() {
    let options = PerfettoOptions { counters: false, slices: false, ..PerfettoOptions::default() };
    let trace = trace_of_the_story(&options);
    assert_eq!(track_events(&trace).count() + tracks(&trace).count(), 0);
    // The kernel's tracepoints, and two births into other groups.
    assert_eq!(events(&trace).count(), 22);
}

#[test]
fn loops_of_one_task_never_overlap() {
    let mut writer = PerfettoWriter::new(Vec::new());
    for at in [100, 150, 400] {
        writer.event(at, CpuId(0), &Event::LoopEnd { task: TaskId(0), duration: 200, work: 1 });
    }
    let trace = decode(writer);
    assert_eq!(track_events(&trace).map(|(at, _)| at).collect::<Vec<_>>(), [0, 100, 100, 150, 200, 400]);
}

#[test]
fn bundles_stream_and_hold_back_little() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let switch = |prev, next| Event::Switch { prev, prev_state: PrevState::Preempted, next };
    let task = Running::Task(TaskId(0));
    for at in 0..10_000 {
        for cpu in 0..4 {
            let event = if at % 2 == 0 { switch(Running::Idle, task) } else { switch(task, Running::Idle) };
            writer.event(at, CpuId(cpu), &event);
        }
        assert!(writer.bundles.pending() < 4 * 17 * 1024);
    }
    writer.finish(10_000);
    assert_eq!(writer.bundles.pending(), 0);
    let trace = decode(writer);
    assert!(bundles(&trace).count() > 40);
    let mut latest = [0; 4];
    for (cpu, event) in events(&trace) {
        let at = event.timestamp.expect("every event has a time");
        assert!(at >= latest[cpu as usize], "bundles of a CPU are in order, and so are the events in them");
        latest[cpu as usize] = at;
    }
    assert_eq!(events(&trace).count(), 40_000);
}

#[test]
fn very_many_cpus_share_the_memory() {
    let mut writer =
        PerfettoWriter::with_options(Vec::new(), &PerfettoOptions { counters: false, ..PerfettoOptions::default() });
    let name = "n".repeat(8000);
    writer.task(TaskId(0), &TaskInfo { name: &name, class: &name, ..TaskInfo::default() });
    let mut most = 0;
    for at in 0..3 {
        for cpu in 0..1024 {
            writer.event(at, CpuId(cpu), &Event::Waking { task: TaskId(0), irq: false });
            most = most.max(writer.bundles.pending());
        }
    }
    assert!((8 << 20..17 << 20).contains(&most), "{most}");
}

#[test]
fn cpus_perfetto_cannot_read_are_counted_not_written() {
    let mut writer = PerfettoWriter::new(Vec::new());
    for cpu in [1023, 1024, 2000] {
        writer.event(5, CpuId(cpu), &Event::Waking { task: TaskId(0), irq: false });
    }
    assert_eq!(writer.omitted(), 2);
    assert_eq!(events(&decode(writer)).map(|(cpu, _)| cpu).collect::<Vec<_>>(), [1023]);
}

#[test]
fn the_release_is_one_whose_states_perfetto_reads_as_ours() {
    for (kernel, expected) in [
        ("6.12", "6.12.0-vruntime"),
        ("6.18.3-rc1", "6.18.0-vruntime"),
        ("3.10", "4.14.0-vruntime"),
        ("2.6.15-cpurc", "4.14.0-vruntime"),
        ("mine", "4.14.0-vruntime"),
    ] {
        assert_eq!(release(kernel), expected);
    }
    let trace = trace_of_the_story(&PerfettoOptions { kernel: "6.1".to_owned(), ..PerfettoOptions::default() });
    let Some(TracePacket { data: Some(Data::SystemInfo(info)), sequence_flags, .. }) = trace.packet.first() else {
        panic!("the first packet tells how to read the others")
    };
    assert_eq!(*sequence_flags, Some(SEQ_INCREMENTAL_STATE_CLEARED));
    let release = info.utsname.as_ref().and_then(|utsname| utsname.release.as_deref());
    assert_eq!(release, Some("6.1.0-vruntime"));
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    let mut writer = PerfettoWriter::new(FullDisk { room: 1000 });
    story(&mut writer);
    assert_eq!(writer.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    story(&mut writer);
    assert_eq!(writer.finish_writing().map_err(|error| error.kind()).err(), Some(io::ErrorKind::StorageFull));
}

#[test]
fn an_impossible_id_ends_a_readable_trace() {
    let mut writer = PerfettoWriter::new(Vec::new());
    writer.event(0, CpuId(0), &Event::Waking { task: TaskId(0), irq: false });
    writer.event(0, CpuId(u32::MAX), &Event::Waking { task: TaskId(0), irq: false });
    assert_eq!(writer.error().map(io::Error::kind), Some(io::ErrorKind::InvalidInput));
    assert!(writer.finish_writing().is_err());
}

#[test]
fn a_throttled_group_is_a_slice_on_each_cpu() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let group = GroupId(1);
    writer.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    writer.group(group, &GroupInfo { path: "/Q", parent: Some(GroupId::ROOT), weight: 100, ..GroupInfo::default() });
    writer.event(10, CpuId(1), &Event::Throttle { group });
    writer.event(20, CpuId(0), &Event::Throttle { group });
    writer.event(30, CpuId(1), &Event::Unthrottle { group, ns: 20 });
    // Not throttled, as if the limit is lifted twice.
    writer.event(31, CpuId(1), &Event::Unthrottle { group, ns: 0 });
    writer.finish(40);
    let trace = decode(writer);
    let named: Vec<_> = tracks(&trace).filter_map(|track| track.name.as_deref()).collect();
    assert_eq!(named, ["Throttled groups (cpu.max)", "/Q CPU 1", "/Q CPU 0"]);
    let uuids: Vec<_> = tracks(&trace).skip(1).filter_map(|track| track.uuid).collect();
    let slices: Vec<_> = track_events(&trace).map(|(at, event)| (at, event.track_uuid, event.r#type)).collect();
    let (one, zero) = (Some(uuids[0]), Some(uuids[1]));
    let (begin, end) = (Some(TYPE_SLICE_BEGIN), Some(TYPE_SLICE_END));
    assert_eq!(slices, [(10, one, begin), (20, zero, begin), (30, one, end), (40, zero, end)]);
}

#[test]
fn real_time_throttling_is_a_slice_on_each_cpu() {
    let mut writer = PerfettoWriter::new(Vec::new());
    let group = GroupId(1);
    writer.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    writer.group(group, &GroupInfo { path: "/Q", parent: Some(GroupId::ROOT), weight: 100, ..GroupInfo::default() });
    writer.event(10, CpuId(1), &Event::RtThrottle { group: GroupId::ROOT });
    writer.event(20, CpuId(1), &Event::RtThrottle { group });
    writer.event(30, CpuId(1), &Event::RtUnthrottle { group: GroupId::ROOT });
    writer.finish(40);
    let trace = decode(writer);
    let named: Vec<_> = tracks(&trace).filter_map(|track| track.name.as_deref()).collect();
    assert_eq!(named, ["Real-time throttling", "/ CPU 1", "/Q CPU 1"]);
    let slices: Vec<_> = track_events(&trace).map(|(at, event)| (at, event.r#type)).collect();
    let (begin, end) = (Some(TYPE_SLICE_BEGIN), Some(TYPE_SLICE_END));
    assert_eq!(slices, [(10, begin), (20, begin), (30, end), (40, end)]);
    assert!(events(&trace).next().is_none(), "the kernel has no tracepoint for it");
}

#[test]
fn a_cpu_that_is_offline_has_a_slice_and_the_kernels_tracepoints() {
    let mut writer = PerfettoWriter::new(Vec::new());
    writer.event(10, CpuId(3), &Event::CpuDown);
    writer.event(30, CpuId(3), &Event::CpuUp);
    writer.event(40, CpuId(2), &Event::CpuDown);
    writer.finish(50);
    let trace = decode(writer);
    let named: Vec<_> = tracks(&trace).filter_map(|track| track.name.as_deref()).collect();
    assert_eq!(named, ["CPU hotplug", "CPU 3", "CPU 2"]);
    let slices: Vec<_> = track_events(&trace).map(|(at, event)| (at, event.r#type, event.name.as_deref())).collect();
    let (begin, end) = (Some(TYPE_SLICE_BEGIN), Some(TYPE_SLICE_END));
    let offline = Some(&b"offline"[..]);
    assert_eq!(slices, [(10, begin, offline), (30, end, None), (40, begin, offline), (50, end, None)]);
    let kinds: Vec<_> =
        events(&trace).filter(|(cpu, _)| *cpu == 3).map(|(_, event)| (event.timestamp, event.event.clone())).collect();
    let enter = |target| FtraceEventKind::CpuhpEnter(CpuhpEnter { cpu: Some(3), idx: Some(168), target: Some(target) });
    let exit =
        || FtraceEventKind::CpuhpExit(CpuhpExit { cpu: Some(3), idx: Some(168), ret: Some(0), state: Some(168) });
    let expected = [(10, enter(0)), (10, exit()), (30, enter(169)), (30, exit())];
    assert_eq!(kinds, expected.map(|(at, kind)| (Some(at), Some(kind))));
}
