//! The output of our writers, read back.

use std::collections::BTreeMap;
use std::io::Cursor;

use prost::Message;
use vruntime_trace::perfetto::proto::{Data, Trace};
use vruntime_trace::read::{self, Kind, Notes, Summary, TextReader};
use vruntime_trace::{
    CpuId, DeadlineEvent, Event, FtraceWriter, MigrateCause, PerfettoOptions, PerfettoWriter, PrevState,
    RecordedPerfetto, RecordedText, Running, SchedPolicy, Sink, TaskId, TaskInfo, Tracepoint,
};

/// Every event with a tracepoint, on several CPUs, from a fixed sequence of numbers.
fn feed(sink: &mut impl Sink, rounds: u32) {
    for id in 0..32 {
        let name = format!("task {id}");
        sink.task(TaskId(id), &TaskInfo { name: &name, class: &name, nice: (id % 7) as i8, ..TaskInfo::default() });
    }
    let (mut at, mut seed) = (0, 12345_u64);
    let mut current = [Running::Idle; 6];
    for round in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |modulo: u64, shift: u32| (seed >> shift) % modulo;
        at += 1 + pick(5000, 33);
        let cpu = CpuId(pick(6, 20) as u32);
        let task = TaskId(pick(32, 40) as u32);
        let target = CpuId(pick(6, 50) as u32);
        let event = match round % 8 {
            0 => Event::Waking { task, irq: pick(2, 10) == 1 },
            1 => Event::Wakeup { task, target },
            2 => Event::WakeupNew { task, target },
            3 => Event::Migrate { task, from: cpu, to: target, cause: MigrateCause::Periodic },
            4 if round % 64 == 4 => Event::Fork { parent: None, child: task },
            4 => Event::CpuFrequency { khz: 1_000_000 + round },
            5 if round % 64 == 5 => Event::Exit { task },
            _ => {
                let states = [
                    PrevState::Preempted,
                    PrevState::Yielded,
                    PrevState::Sleeping,
                    PrevState::Blocked,
                    PrevState::Dead,
                ];
                let next = match pick(4, 12) {
                    0 => Running::Idle,
                    1 => Running::Stopper,
                    _ => Running::Task(task),
                };
                let prev = std::mem::replace(&mut current[cpu.index()], next);
                Event::Switch { prev, prev_state: states[pick(5, 8) as usize], next }
            }
        };
        sink.event(at, cpu, &event);
    }
    sink.finish(at + 1);
}

fn read(bytes: Vec<u8>) -> (Vec<String>, Summary, Notes) {
    let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
    let (mut lines, mut summary) = (Vec::new(), Summary::new());
    while let Some(record) = events.next_record().unwrap() {
        summary.add(&record);
        // In text an idle or a stopper task has its own state. Undecoded events do not count.
        if !matches!(record.point, Tracepoint::Other { .. }) {
            let name = String::from_utf8_lossy(record.name).into_owned();
            lines.push(format!("{} {} {} {name} {:?}", record.at, record.cpu, record.pid, record.point));
        }
    }
    (lines, summary, events.notes().clone())
}

/// A run that was stopped early ends with a mark, behind its end. Readers find all its events.
#[test]
fn an_interrupted_run_ends_with_a_mark() {
    const MARK: &[u8] = b"interrupted: the trace lacks the rest of the run";
    let (mut text, mut perfetto) = (FtraceWriter::new(Vec::new(), 6), PerfettoWriter::new(Vec::new()));
    feed(&mut text, 500);
    feed(&mut perfetto, 500);
    text.mark_interrupted(10_000_000);
    perfetto.mark_interrupted(10_000_000);
    for bytes in [text.finish_writing().unwrap(), perfetto.finish_writing().unwrap()] {
        let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
        let mut prints = Vec::new();
        while let Some(record) = events.next_record().unwrap() {
            if let Tracepoint::Print { text } = record.point {
                prints.push((record.at, text.to_vec()));
            }
        }
        let texts: Vec<String> = prints.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
        assert_eq!(prints.last().map(|(at, _)| *at), Some(10_000_000), "{texts:?}");
        assert!(prints.last().is_some_and(|(_, text)| text.ends_with(MARK)), "{texts:?}");
        assert!(texts[texts.len() - 2].ends_with("end of run"), "{texts:?}");
    }
}

#[test]
fn both_formats_have_the_same_events() {
    let mut sinks = (
        FtraceWriter::new(Vec::new(), 6).nanoseconds(),
        PerfettoWriter::with_options(Vec::new(), &PerfettoOptions::default()),
    );
    feed(&mut sinks, 20_000);
    let (mut text, of_text, text_notes) = read(sinks.0.finish_writing().unwrap());
    let (mut binary, of_binary, binary_notes) = read(sinks.1.finish_writing().unwrap());
    let ends = [text.pop().unwrap(), binary.pop().unwrap()];
    assert!(ends[0] == ends[1] && ends[0].contains(" print "), "{ends:?}");
    assert_eq!((text_notes.kind, binary_notes.kind), (Some(Kind::TraceCmdReport), Some(Kind::Perfetto)));
    for notes in [text_notes, binary_notes] {
        assert_eq!((notes.not_understood.count, notes.malformed.count, notes.unterminated), (0, 0, None), "{notes:?}");
    }
    // Initial nice values are marks after the fork in text, and instants on tracks in Perfetto.
    let place = |line: &str| line.splitn(4, ' ').take(3).collect::<Vec<_>>().join(" ");
    for pair in text.windows(2).filter(|pair| pair[1].contains(" print ")) {
        assert!(pair[0].contains(" sched_process_fork ") && place(&pair[0]) == place(&pair[1]), "{pair:?}");
    }
    let (marks, text): (Vec<String>, Vec<String>) = text.into_iter().partition(|line| line.contains(" print "));
    assert_eq!((marks.len(), text.len()), (269, 20_000));
    for (text, binary) in text.iter().zip(&binary) {
        assert_eq!(text, binary);
    }
    assert_eq!(text.len(), binary.len());
    let [of_text_counts, of_binary_counts] = [&of_text, &of_binary].map(|summary| {
        let mut counts = summary.counts();
        counts.retain(|(name, _)| name != "print");
        counts
    });
    assert_eq!(of_text_counts, of_binary_counts);
    assert_eq!(of_binary.clock().unordered(), 0);
    assert!(of_binary.has_tgid() && !of_text.has_tgid());
}

/// Policies, nice values and deadlines: marks in text, read back literally and twice, and instants on the task's
/// track.
#[test]
fn what_has_no_tracepoint_is_read_back() {
    let task = |id| TaskId(id);
    let mut text = FtraceWriter::new(Vec::new(), 2).nanoseconds();
    let mut perfetto = PerfettoWriter::new(Vec::new());
    let mut sinks = (&mut text, &mut perfetto);
    let info = |name: &'static str, policy, rt_priority, nice| TaskInfo {
        name,
        class: name,
        policy,
        rt_priority,
        nice,
        ..TaskInfo::default()
    };
    for (id, info) in [
        info("plain", SchedPolicy::Normal, 0, 0),
        info("two words", SchedPolicy::Batch, 0, 5),
        info("fifo", SchedPolicy::Fifo, 7, 0),
        info("dated", SchedPolicy::Deadline, 0, 0),
    ]
    .iter()
    .enumerate()
    {
        sinks.task(task(id as u32), info);
        sinks.event(10 + id as u64, CpuId(1), &Event::Fork { parent: None, child: task(id as u32) });
    }
    let dated = |what| Event::Deadline { task: task(3), what };
    let events = [
        (20, Event::SetPolicy { task: task(0), policy: SchedPolicy::RoundRobin, rt_priority: 99 }),
        (21, Event::SetPolicy { task: task(2), policy: SchedPolicy::Idle, rt_priority: 0 }),
        (22, Event::SetNice { task: task(1), nice: -20 }),
        (23, dated(DeadlineEvent::Throttle)),
        (24, dated(DeadlineEvent::Overrun)),
        (25, dated(DeadlineEvent::Replenish)),
        (26, dated(DeadlineEvent::Miss { late: 1234 })),
    ];
    for (at, event) in events {
        sinks.event(at, CpuId(0), &event);
    }
    sinks.finish(30);
    let written = text.finish_writing().unwrap();
    let marks = |bytes: Vec<u8>| {
        let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
        let mut marks = Vec::new();
        while let Some(record) = events.next_record().unwrap() {
            if let Tracepoint::Print { text } = record.point {
                marks.push((record.at, record.cpu, String::from_utf8_lossy(text).into_owned()));
            }
        }
        let notes = events.notes();
        assert_eq!((notes.not_understood.count, notes.malformed.count, notes.unterminated), (0, 0, None), "{notes:?}");
        marks
    };
    let expected = [
        (11, 1, "sched_setscheduler: comm=two words pid=1001 policy=SCHED_BATCH rt_priority=0"),
        (11, 1, "set_user_nice: comm=two words pid=1001 nice=5"),
        (12, 1, "sched_setscheduler: comm=fifo pid=1002 policy=SCHED_FIFO rt_priority=7"),
        (13, 1, "sched_setscheduler: comm=dated pid=1003 policy=SCHED_DEADLINE rt_priority=0"),
        (20, 0, "sched_setscheduler: comm=plain pid=1000 policy=SCHED_RR rt_priority=99"),
        (21, 0, "sched_setscheduler: comm=fifo pid=1002 policy=SCHED_IDLE rt_priority=0"),
        (22, 0, "set_user_nice: comm=two words pid=1001 nice=-20"),
        (23, 0, "sched_deadline: comm=dated pid=1003 what=throttle"),
        (24, 0, "sched_deadline: comm=dated pid=1003 what=overrun"),
        (25, 0, "sched_deadline: comm=dated pid=1003 what=replenish"),
        (26, 0, "sched_deadline: comm=dated pid=1003 what=miss late_ns=1234"),
        (30, 0, "end of run"),
    ];
    let expected = expected.map(|(at, cpu, text)| (at, cpu, text.to_owned()));
    assert_eq!(marks(written.clone()), expected);
    let mut events = read::from_reader(Cursor::new(written)).unwrap();
    let mut again = RecordedText::new(Vec::new(), 2);
    while let Some(record) = events.next_record().unwrap() {
        again.record(&record);
    }
    assert_eq!(marks(again.finish_writing().unwrap()), expected);

    let bytes = perfetto.finish_writing().unwrap();
    let trace = Trace::decode(bytes.as_slice()).unwrap();
    assert_eq!(trace.encoded_len(), bytes.len());
    let instants: Vec<(u64, String)> = trace
        .packet
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::TrackEvent(event)) => {
                Some((packet.timestamp?, String::from_utf8_lossy(event.name.as_ref()?).into_owned()))
            }
            _ => None,
        })
        .collect();
    let expected = [
        (11, "policy: SCHED_BATCH"),
        (11, "nice: 5"),
        (12, "policy: SCHED_FIFO 7"),
        (13, "policy: SCHED_DEADLINE"),
        (20, "policy: SCHED_RR 99"),
        (21, "policy: SCHED_IDLE"),
        (22, "nice: -20"),
        (23, "throttled"),
        (24, "runtime overrun"),
        (25, "replenished"),
        (26, "deadline missed"),
    ];
    assert_eq!(instants, expected.map(|(at, name)| (at, name.to_owned())));
    let (lines, _, notes) = read(bytes);
    assert_eq!((lines.len(), notes.not_understood.count, notes.malformed.count), (5, 0, 0), "four forks and the end");
}

#[test]
fn a_perfetto_trace_cut_or_damaged_is_refused_or_read() {
    let mut sink = PerfettoWriter::new(Vec::new());
    feed(&mut sink, 60);
    let whole = sink.finish_writing().unwrap();
    let (all, _, _) = read(whole.clone());
    assert_eq!(all.len(), 60 + 1, "the end of the run");
    let events = |bytes: Vec<u8>| -> Option<(usize, Notes)> {
        let mut events = read::from_reader(Cursor::new(bytes)).ok()?;
        let mut count = 0;
        loop {
            match events.next_record() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break,
                Err(_) => return None,
            }
        }
        Some((count, events.notes().clone()))
    };
    let mut partly = 0;
    for end in 0..whole.len() {
        let Some((found, notes)) = events(whole[..end].to_vec()) else { continue };
        // A cut between two packets is not visible.
        assert!(found <= 61 && (found > 0 || notes.unterminated.is_some()), "{end}");
        partly += usize::from(found > 0);
    }
    assert!(partly > 100, "{partly}");
    let (mut read, mut untold) = (0, 0);
    for at in 0..whole.len() {
        for bit in [at % 8, (at + 5) % 8] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let Some((found, notes)) = events(bytes) else { continue };
            read += 1;
            assert!(found <= 62, "byte {at} bit {bit}: {found} events");
            let is_noted = notes.not_understood.count + notes.malformed.count > 0 || notes.unterminated.is_some();
            untold += usize::from(found < 61 && !is_noted);
        }
    }
    // A field with an unknown number is skipped with its event, since newer writers have such fields: one in a
    // hundred.
    assert!(read > 10_000 && untold * 50 < read, "of {read} that were read {untold} have lost events and do not tell");
}

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// All recordings by name, uncompressed, without `compact.pftrace` and the small cases.
fn recordings() -> impl Iterator<Item = (String, Vec<u8>)> {
    let entries = std::fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap());
    let files = entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    let others = ["README.md", "compact.pftrace", "mix.rtapp.json", "rename.txt", "twice.txt"];
    files.filter(move |(name, _)| !others.contains(&name.as_str())).map(|(name, file)| {
        if name.strip_suffix(".zst").is_none() {
            return (name, file);
        }
        let mut bytes = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&file[..]).unwrap();
        std::io::Read::read_to_end(&mut decoder, &mut bytes).unwrap();
        (name, bytes)
    })
}

/// What survives a conversion: all but processes, and additional records except new names.
fn lines(bytes: Vec<u8>) -> Vec<String> {
    let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = events.next_record().unwrap() {
        let renamed = record.is_perf_rename();
        if record.name.starts_with(b"PERF_RECORD_") && !renamed {
            continue;
        }
        let point = match record.point {
            Tracepoint::TaskRename { task, .. } => format!("{task:?}"),
            point => format!("{point:?}"),
        };
        let name = String::from_utf8_lossy(if renamed { b"task_rename" } else { record.name }).into_owned();
        let irq = record.context;
        lines.push(format!("{} {} {} {irq:?} {name} {point}", record.at, record.cpu, record.pid));
    }
    lines
}

#[test]
fn every_recording_converted_to_text_is_the_same() {
    for (name, recording) in recordings() {
        let mut events = read::from_reader(Cursor::new(recording.clone())).unwrap();
        let mut writer = RecordedText::new(Vec::new(), 2);
        while let Some(record) = events.next_record().unwrap() {
            writer.record(&record);
        }
        let text = writer.finish_writing().unwrap();
        let (before, after) = (lines(recording), lines(text));
        for (after, before) in after.iter().zip(&before) {
            assert_eq!(after, before, "{name}");
        }
        assert_eq!(after.len(), before.len());
        assert!(after.len() > 100);
    }
}

/// Returns the processes of threads with events.
fn processes(bytes: Vec<u8>) -> BTreeMap<i32, i32> {
    let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
    let mut processes = BTreeMap::new();
    while let Some(record) = events.next_record().unwrap() {
        if !record.name.starts_with(b"PERF_RECORD_")
            && let Some(tgid) = record.tgid.filter(|&tgid| tgid > 0 && record.pid > 0)
        {
            processes.insert(record.pid, tgid);
        }
    }
    processes
}

#[test]
fn processes_are_written() {
    for name in ["perf.data", "ftrace-tgid.txt"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let mut events = read::from_reader(Cursor::new(bytes.clone())).unwrap();
        let (mut text, mut perfetto) = (RecordedText::new(Vec::new(), 2), RecordedPerfetto::new(Vec::new(), 2));
        while let Some(record) = events.next_record().unwrap() {
            text.record(&record);
            perfetto.record(&record);
        }
        let before = processes(bytes);
        assert!(before.len() > 5, "{name}: {before:?}");
        assert_eq!(processes(text.finish_writing().unwrap()), before, "{name}");
        assert_eq!(processes(perfetto.finish_writing().unwrap()), before, "{name}");
    }
}

#[test]
fn processes_known_from_elsewhere_are_written_or_counted() {
    let text = "a 7 [000] 1.000000: PERF_RECORD_COMM a:5/7\nb 8 [000] 0.000000: PERF_RECORD_COMM b:8/8\n\
        a 7 [000] 2.000000: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n";
    let mut reader = TextReader::new(text.as_bytes());
    let mut writer = RecordedText::new(Vec::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        writer.record(&record);
    }
    assert_eq!(writer.omitted(), 1, "b has no event");
    assert_eq!(processes(writer.finish_writing().unwrap()), BTreeMap::from([(7, 5)]));
}

#[test]
fn how_many_cpus_there_are_is_known_before_the_first_event() {
    let event = "a-7 [001] 0.000000001: sched_waking: comm=b pid=8 prio=120 target_cpu=001\n";
    for (header, cpus) in [
        ("# entries-in-buffer/entries-written: 1/1   #P:8\n", Some(8)),
        ("cpus=6\n", Some(6)),
        ("cpus=0\n", None),
        ("", None),
    ] {
        let text = format!("{header}{event}{event}").into_bytes();
        let mut reader = read::from_reader(Cursor::new(text)).unwrap();
        for _ in 0..2 {
            reader.begin().unwrap();
            assert_eq!(reader.notes().cpus, cpus, "{header}");
        }
        let known = cpus.unwrap_or(0);
        let (mut text, mut perfetto) = (RecordedText::new(Vec::new(), known), RecordedPerfetto::new(Vec::new(), known));
        let mut count = 0;
        while let Some(record) = reader.next_record().unwrap() {
            count += 1;
            text.record(&record);
            perfetto.record(&record);
        }
        assert_eq!(count, 2, "none is lost");
        for written in [text.finish_writing().unwrap(), perfetto.finish_writing().unwrap()] {
            let mut again = read::from_reader(Cursor::new(written)).unwrap();
            again.begin().unwrap();
            assert_eq!(again.notes().cpus, cpus, "{header}");
        }
    }
    assert!(read::from_reader(Cursor::new(b"cpus=2\n".to_vec())).unwrap().begin().is_err(), "no event");
}

#[test]
fn every_recording_converted_to_perfetto_is_the_same_but_for_what_it_cannot_say() {
    for (name, recording) in recordings() {
        let mut events = read::from_reader(Cursor::new(recording.clone())).unwrap();
        let mut writer = RecordedPerfetto::new(Vec::new(), 2);
        while let Some(record) = events.next_record().unwrap() {
            writer.record(&record);
        }
        assert_eq!(writer.omitted(), 0, "{name}");
        let perfetto = writer.finish_writing().unwrap();
        // Markers have one name there, and the end of a process is missing. At one time, CPUs are in order.
        let plain = |line: String| {
            line.replace("tracing_mark_write", "print")
                .replace("group_dead: Some(true)", "group_dead: None")
                .replace("group_dead: Some(false)", "group_dead: None")
        };
        let order = |line: &String| {
            let mut words = line.split(' ').map(|word| word.parse::<i64>().unwrap_or(0));
            (words.next(), words.next())
        };
        let mut before: Vec<String> = lines(recording).into_iter().map(plain).collect();
        let mut after: Vec<String> = lines(perfetto).into_iter().map(plain).collect();
        before.sort_by_key(order);
        after.sort_by_key(order);
        for (after, before) in after.iter().zip(&before) {
            assert_eq!(after, before, "{name}");
        }
        assert_eq!(after.len(), before.len());
        assert!(after.len() > 100, "{name}: {}", after.len());
    }
}

/// perf has no ids of an exiting task, which is not the idle task.
#[test]
fn an_unknown_task_is_not_idle() {
    let text = "b 11/11 [000] 1.000000: sched:sched_waking: comm=a pid=10 prio=120 target_cpu=000\n\
        :-1 11/-1 [000] 2.000000: sched:sched_stat_runtime: comm=b pid=11 runtime=17556 [ns]\n\
        :-1 -1/-1 [000] 3.000000: sched:sched_switch: prev_comm=b prev_pid=11 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120\n\
        swapper 0/0 [000] 4.000000: sched:sched_waking: comm=a pid=10 prio=120 target_cpu=000\n";
    let mut reader = TextReader::new(text.as_bytes());
    let (mut written, mut perfetto) = (RecordedText::new(Vec::new(), 1), RecordedPerfetto::new(Vec::new(), 1));
    while let Some(record) = reader.next_record().unwrap() {
        written.record(&record);
        perfetto.record(&record);
    }
    let before = lines(text.as_bytes().to_vec());
    assert_eq!(before.iter().filter(|line| line.contains(" -1 ")).count(), 2, "{before:?}");
    let written = written.finish_writing().unwrap();
    assert_eq!(lines(written.clone()), before);
    assert_eq!(String::from_utf8(written).unwrap().matches("<...>-0 ").count(), 2);
    assert_eq!(lines(perfetto.finish_writing().unwrap()), before);
}

/// The next event reports a loss, even before the first one.
#[test]
fn a_loss_is_as_late_as_what_follows() {
    let text = "CPU:1 [LOST 5 EVENTS]\nCPU:0 [LOST EVENTS]\n\
        a-7 [001] 48097.000001: softirq_raise: vec=1\nCPU:1 [LOST 5 EVENTS]\na-7 [001] 48097.000002: softirq_raise: vec=1\nCPU:0 [LOST EVENTS]\n";
    let mut reader = TextReader::new(text.as_bytes());
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        times.push((record.at - 48_097_000_000_000, record.cpu, matches!(record.point, Tracepoint::Lost { .. })));
    }
    let expected =
        [(1000, 1, true), (1000, 0, true), (1000, 1, false), (2000, 1, true), (2000, 1, false), (2000, 0, true)];
    assert_eq!(times, expected);
}

#[test]
fn losses_and_odd_events_survive_text() {
    let text = "cpus=2\n            a-7     [000]    -1.000000005: sched_waking:         comm=b pid=2 prio=120 success=0 target_cpu=001\n\
        CPU:0 [LOST 12 EVENTS]\nCPU:1 [LOST EVENTS]\n\
        a-7 [001] 0.000000001: do_idle <-cpu_idle\n\
        a-7 [001] 0.000000002: softirq_raise: vec=1 [action=TIMER]\n";
    let mut reader = TextReader::new(text.as_bytes());
    let mut writer = RecordedText::new(Vec::new(), 2);
    while let Some(record) = reader.next_record().unwrap() {
        writer.record(&record);
    }
    let again = writer.finish_writing().unwrap();
    assert_eq!(lines(again.clone()), lines(text.as_bytes().to_vec()));
    assert!(String::from_utf8(again).unwrap().contains("CPU:0 [LOST 12 EVENTS]\nCPU:1 [LOST EVENTS]\n"));
    let mut writer = RecordedPerfetto::new(Vec::new(), 2);
    let mut reader = TextReader::new(text.as_bytes());
    while let Some(record) = reader.next_record().unwrap() {
        writer.record(&record);
    }
    assert_eq!(writer.omitted(), 1, "before 0");
    let perfetto = lines(writer.finish_writing().unwrap());
    assert_eq!(perfetto.iter().filter(|line| line.contains("Lost")).count(), 2, "{perfetto:?}");
    assert_eq!(
        perfetto[perfetto.len() - 2..],
        lines(text.as_bytes().to_vec())[3..],
        "events of which only the text is known"
    );
}

/// Android's substitute for `sched_process_fork`, there and back.
#[test]
fn new_tasks_are_written() {
    let text =
        b"a-7     (    5) [001] d..2. 1.000000: task_newtask: pid=8 comm=a b clone_flags=3d0f00 oom_score_adj=-800\n\
        a-7     (    5) [001] d..2. 1.000001: sched_process_fork: comm=a pid=7 child_comm=a b child_pid=8\n\
        a-7     (    5) [001] d..2. 1.000002: sched_wakeup_new: comm=a b pid=8 prio=120 target_cpu=001\n";
    let mut events = read::from_reader(Cursor::new(text.to_vec())).unwrap();
    let (mut again, mut perfetto) = (RecordedText::new(Vec::new(), 2), RecordedPerfetto::new(Vec::new(), 2));
    let mut summary = read::Summary::default();
    while let Some(record) = events.next_record().unwrap() {
        summary.add(&record);
        again.record(&record);
        perfetto.record(&record);
    }
    let child = summary.tasks().into_iter().find(|task| task.pid == 8).map(|task| (task.reuses, task.wakeups()));
    assert_eq!(child, Some((0, 1)), "both events tell of one fork");
    let points = |bytes: Vec<u8>| -> Vec<String> {
        let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
        let mut points = Vec::new();
        while let Some(record) = events.next_record().unwrap() {
            if !record.name.starts_with(b"PERF_RECORD_") {
                points.push(format!("{} {:?}", String::from_utf8_lossy(record.name), record.point));
            }
        }
        points
    };
    let read = points(text.to_vec());
    assert!(read[0].starts_with("task_newtask TaskNew") && read[0].contains("oom_score_adj: -800"), "{read:?}");
    assert_eq!(points(again.finish_writing().unwrap()), read);
    assert_eq!(points(perfetto.finish_writing().unwrap()), read);
}

#[test]
fn a_perfetto_trace_cut_off_at_its_beginning_is_reported() {
    let mut writer = PerfettoWriter::new(Vec::new());
    feed(&mut writer, 100);
    let whole = writer.finish_writing().unwrap();
    let complaint = |bytes: &[u8]| match read::from_reader(Cursor::new(bytes.to_vec())) {
        Err(error) => error.to_string(),
        Ok(events) => format!("{:?}", events.notes().unterminated),
    };
    // The first packets are the system's and the processes'.
    let system = 2 + usize::from(whole[1]);
    let cut = complaint(&whole[..system + 5]);
    assert!(cut.contains("cut off before its first events of ftrace"), "{cut}");
    let none = complaint(&whole[..system]);
    assert!(none.contains("a Perfetto trace without events of ftrace"), "{none}");
}
