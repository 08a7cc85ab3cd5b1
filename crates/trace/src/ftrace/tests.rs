use std::io;

use vruntime_sched::event::MigrateCause;

use super::*;
use crate::event::Context;
use crate::output::tests::FullDisk;

/// Two tasks and two CPUs: fork, preemption, sleep, remote wakeup, active balance, move between groups, exit.
pub(crate) fn story(sink: &mut impl Sink) {
    let (zero, one) = (CpuId(0), CpuId(1));
    let (web, batch) = (TaskId(0), TaskId(1));
    sink.group(GroupId::ROOT, &GroupInfo { path: "/", parent: None, weight: 100, ..GroupInfo::default() });
    sink.group(
        GroupId(1),
        &GroupInfo { path: "/web/api", parent: Some(GroupId::ROOT), weight: 300, ..GroupInfo::default() },
    );
    sink.task(web, &TaskInfo { name: "web-0", class: "web", group: GroupId(1), ..TaskInfo::default() });
    sink.task(
        batch,
        &TaskInfo { name: "a batch job with a long name", class: "batch", nice: 5, ..TaskInfo::default() },
    );
    let on = Running::Task;
    let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
    let events = [
        (0, zero, Event::Fork { parent: None, child: web }),
        (0, zero, Event::WakeupNew { task: web, target: zero }),
        (1_000, zero, switch(Running::Idle, PrevState::Preempted, on(web))),
        (1_499, zero, Event::Fork { parent: Some(web), child: batch }),
        (1_500, zero, Event::WakeupNew { task: batch, target: zero }),
        (4_000_000, zero, switch(on(web), PrevState::Preempted, on(batch))),
        (5_000_000, zero, switch(on(batch), PrevState::Yielded, on(web))),
        (5_500_000, zero, Event::SetNice { task: batch, nice: -3 }),
        (6_000_000, zero, Event::LoopEnd { task: web, duration: 5_999_000, work: 4_000_000 }),
        (6_000_000, zero, switch(on(web), PrevState::Sleeping, on(batch))),
        (7_000_000, one, Event::Waking { task: web, irq: true }),
        (7_000_000, one, Event::Migrate { task: web, from: zero, to: one, cause: MigrateCause::Wakeup }),
        (7_000_000, one, Event::Wakeup { task: web, target: one }),
        (7_000_000, one, switch(Running::Idle, PrevState::Preempted, on(web))),
        (7_000_100, one, Event::SleepReturn { task: web, late: 100 }),
        (8_000_000, one, switch(on(web), PrevState::Blocked, Running::Idle)),
        (8_500_000, zero, switch(on(batch), PrevState::Preempted, Running::Stopper)),
        (8_501_000, zero, Event::Migrate { task: batch, from: zero, to: one, cause: MigrateCause::Active }),
        (8_502_000, zero, switch(Running::Stopper, PrevState::Sleeping, Running::Idle)),
        (8_502_000, one, switch(Running::Idle, PrevState::Preempted, on(batch))),
        (8_600_000, one, Event::MoveGroup { task: batch, group: GroupId(1) }),
        (12_345_678_999, one, Event::Exit { task: batch }),
        (12_345_678_999, one, switch(on(batch), PrevState::Dead, Running::Idle)),
    ];
    for (at, cpu, event) in events {
        sink.event(at, cpu, &event);
    }
    sink.finish(12_345_678_999);
}

fn text_of(mut writer: FtraceWriter<Vec<u8>>) -> String {
    story(&mut writer);
    String::from_utf8(writer.finish_writing().expect("memory does not fail")).expect("the names are text")
}

#[test]
fn the_story_reads_as_trace_cmd_prints_it() {
    insta::assert_snapshot!(text_of(FtraceWriter::new(Vec::new(), 2)));
}

#[test]
fn a_cpu_is_offline_and_online_again() {
    let mut text = FtraceWriter::new(Vec::new(), 4);
    text.event(1_000, CpuId(3), &Event::CpuDown);
    text.event(2_000, CpuId(3), &Event::CpuUp);
    let text = text_of(text);
    let lines: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split_once("[003] ")).map(|line| line.1).collect();
    assert_eq!(
        lines,
        [
            "    0.000001: cpuhp_enter:          cpu: 0003 target:   0 step: 168 (sched_cpu_deactivate)",
            "    0.000001: cpuhp_exit:            cpu: 0003  state: 168 step: 168 ret: 0",
            "    0.000002: cpuhp_enter:          cpu: 0003 target: 169 step: 168 (sched_cpu_activate)",
            "    0.000002: cpuhp_exit:            cpu: 0003  state: 168 step: 168 ret: 0",
        ]
    );
}

#[test]
fn nanoseconds_on_request() {
    let text = text_of(FtraceWriter::new(Vec::new(), 2).nanoseconds());
    let line = text.lines().find(|line| line.contains("sched_process_exit")).expect("a task exits");
    assert!(line.contains("[001]    12.345678999: sched_process_exit:"), "{line}");
}

/// A tool's view of a line: task column, CPU, time in ns, event name, fields. Written from the format of `trace-cmd
/// report`, not from the writer.
type Line<'a> = (&'a str, i64, u32, u64, &'a str, Vec<(&'a str, &'a str)>);

fn parse(line: &str) -> Option<Line<'_>> {
    let (head, rest) = line.split_once(" [")?;
    let (comm, pid) = head.trim().rsplit_once('-')?;
    let (cpu, rest) = rest.split_once("] ")?;
    let rest = rest.strip_prefix("..... ").or(rest.strip_prefix("..h.. ")).unwrap_or(rest);
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, fraction) = time.split_once('.')?;
    let scale = 10_u64.checked_pow(9_u32.checked_sub(fraction.len() as u32)?)?;
    let ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()? * scale;
    let (event, mut rest) = rest.split_once(": ")?;
    rest = rest.trim_start();
    let mut fields = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        // A value ends at the blank before the next `name=`.
        let end = after.find('=').map_or(after.len(), |next| after[..next].rfind(' ').unwrap_or(0));
        fields.push((name, after[..end].trim_end_matches(" ==>")));
        rest = after[end..].trim_start_matches("==>").trim_start();
    }
    Some((comm, pid.trim().parse().ok()?, cpu.parse().ok()?, ns, event, fields))
}

#[test]
fn a_parser_of_its_own_gets_every_field_back() {
    let text = text_of(FtraceWriter::new(Vec::new(), 2).nanoseconds());
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("cpus=2"));
    let parsed: Vec<_> = lines.map(|line| parse(line).unwrap_or_else(|| panic!("unreadable: {line}"))).collect();
    // All but LoopEnd and SleepReturn, the nice value of `batch`, a group's weight, the groups of two new tasks, and
    // the end of the run.
    assert_eq!(parsed.len(), 26);
    assert!(parsed.is_sorted_by_key(|line| line.3));

    let switches: Vec<_> = parsed.iter().filter(|line| line.4 == "sched_switch").collect();
    let field = |line: &Line<'_>, name: &str| line.5.iter().find(|f| f.0 == name).map(|f| f.1.to_owned());
    let states: Vec<_> = switches.iter().filter_map(|line| field(line, "prev_state")).collect();
    assert_eq!(states, ["R", "R+", "R", "S", "R", "D", "R+", "S", "R", "X"]);
    // The nice value set at 5.5 ms shows in the next switch.
    let prios: Vec<_> = switches.iter().filter_map(|line| field(line, "next_prio")).collect();
    assert_eq!(prios, ["120", "125", "120", "117", "120", "120", "0", "120", "117", "120"]);
    // The first column has the running task, which leaves at the next switch.
    for line in &switches {
        assert_eq!(field(line, "prev_pid"), Some(line.1.to_string()), "{line:?}");
    }
    let batch = switches.iter().find(|line| line.1 == 1001).expect("batch runs");
    assert_eq!(batch.0, "a batch job with a long name");
    assert_eq!(field(batch, "prev_comm").as_deref(), Some("a batch job with a long name"));
    let stopper = switches.iter().find(|line| line.1 == 4_000_000).expect("the stopper runs");
    assert_eq!(field(stopper, "prev_comm").as_deref(), Some("migration/0"));
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    let mut writer = FtraceWriter::new(FullDisk { room: 100 }, 2);
    story(&mut writer);
    assert_eq!(writer.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    story(&mut writer);
    assert_eq!(writer.finish_writing().map_err(|error| error.kind()).err(), Some(io::ErrorKind::StorageFull));
}

#[test]
fn an_impossible_id_is_an_error_not_a_crash() {
    let mut writer = FtraceWriter::new(Vec::new(), 1);
    writer.event(0, CpuId(0), &Event::Waking { task: TaskId(u32::MAX), irq: false });
    writer.event(1, CpuId(0), &Event::Waking { task: TaskId(0), irq: false });
    let error = writer.finish_writing().expect_err("the id cannot have been counted");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("task 4294967295"), "{error}");
}

#[test]
fn numbers_are_padded_with_zeros() {
    for (value, digits, text) in
        [(0, 1, "0"), (0, 3, "000"), (7, 3, "007"), (1234, 3, "1234"), (u64::MAX, 1, "18446744073709551615")]
    {
        let mut buffer = Vec::new();
        push_number(&mut buffer, value, digits);
        assert_eq!(buffer, text.as_bytes());
    }
}

#[test]
fn changes_of_groups_are_printed() {
    let mut text = FtraceWriter::new(Vec::new(), 1);
    let parent = Some(GroupId::ROOT);
    let mut info =
        GroupInfo { path: "/web", parent, weight: 300, max: Some((50_000_000, 100_000_000)), ..GroupInfo::default() };
    text.group_changed(1_000_000, GroupId(1), &info);
    (info.max, info.nice) = (None, Some(-5));
    text.group_changed(2_000_000, GroupId(1), &info);
    let text = String::from_utf8(text.finish_writing().unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).map(|line| line.split_once("print:").unwrap().1.trim()).collect();
    assert_eq!(lines, ["/web cpu.weight=300 cpu.max=50000 100000", "/web nice=-5 cpu.max=max"]);
}

/// Initial settings of a group are no change.
#[test]
fn cpusets_that_change_are_printed() {
    let mut text = FtraceWriter::new(Vec::new(), 2);
    let effective = [0, 1, 2, 5].map(CpuId).into_iter().collect();
    let info = CpusetInfo { path: "/web", effective: &effective, partition: "root" };
    text.cpuset(0, GroupId(1), &info);
    text.cpuset(3_000_000, GroupId(1), &info);
    text.finish(4_000_000);
    let written = String::from_utf8(text.finish_writing().unwrap()).unwrap();
    let printed: Vec<&str> = written.lines().filter(|line| line.contains("print:")).collect();
    assert_eq!(printed.len(), 2, "{written}");
    assert!(printed[1].contains("0.004000: print:") && printed[1].ends_with(" end of run"), "{written}");
    assert!(printed[0].ends_with("/web cpuset.cpus.effective=0-2,5 cpuset.cpus.partition=root"), "{written}");
}

/// Waking and wakeup of a task, by an interrupt of another task and by that task, with flags.
#[test]
fn a_wakeup_tells_whether_an_interrupt_did_it() {
    let mut text = FtraceWriter::new(Vec::new(), 2);
    let (task, zero, one) = (TaskId(0), CpuId(0), CpuId(1));
    text.event(0, zero, &Event::WakeupNew { task, target: zero });
    for (at, irq) in [(1_000, true), (2_000, false)] {
        text.event(at, zero, &Event::Waking { task, irq });
        text.event(at, zero, &Event::Migrate { task, from: zero, to: one, cause: MigrateCause::Wakeup });
        text.event(at, zero, &Event::Wakeup { task, target: one });
    }
    let text = text.finish_writing().unwrap();
    let mut reader = crate::read::TextReader::new(&text[..]);
    let mut contexts = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        contexts.push((String::from_utf8_lossy(record.name).into_owned(), record.context));
    }
    let contexts: Vec<(&str, Option<Context>)> = contexts.iter().map(|(name, irq)| (name.as_str(), *irq)).collect();
    assert_eq!(
        contexts,
        [
            ("sched_wakeup_new", None),
            ("sched_waking", Some(Context::Hardirq)),
            ("sched_migrate_task", None),
            ("sched_wakeup", Some(Context::Hardirq)),
            ("sched_waking", Some(Context::Task)),
            ("sched_migrate_task", None),
            ("sched_wakeup", Some(Context::Task)),
        ]
    );
}

/// A reader finds the kernel in the header; a name without a version is left out.
#[test]
fn the_header_names_the_kernel() {
    for (kernel, release) in [
        ("6.12", Some("6.12.0-vruntime")),
        ("2.6.23", Some("2.6.23-vruntime")),
        ("6.12-patched", Some("6.12.0-vruntime")),
        ("mine", None),
        ("7", None),
    ] {
        let text = text_of(FtraceWriter::new(Vec::new(), 2).with_kernel(kernel));
        let mut reader = crate::read::TextReader::new(text.as_bytes());
        while reader.next_record().unwrap().is_some() {}
        let notes = reader.notes();
        assert_eq!(notes.release.as_deref(), release, "{kernel}");
        assert_eq!((notes.cpus, notes.not_understood.count), (Some(2), 0));
    }
}
