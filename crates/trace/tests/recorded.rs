//! Traces of real kernels, recorded for these tests (Linux 6.18; `data/README.md`). `cargo xtask traces` checks those
//! of other projects.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use vruntime_trace::read::{self, Events, Forked, Kind, Notes, Summary, TextReader};
use vruntime_trace::{Record, Tracepoint};

#[path = "recorded/dresses.rs"]
mod dresses;
#[path = "recorded/whole.rs"]
mod whole;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Every event of a trace as text.
fn read_lines(path: &Path, line: impl Fn(&Record<'_>) -> String) -> (Vec<String>, Summary, Notes) {
    read_events(read::open(path).unwrap(), line)
}

fn read_events(mut events: Box<dyn Events>, line: impl Fn(&Record<'_>) -> String) -> (Vec<String>, Summary, Notes) {
    let (mut lines, mut summary) = (Vec::new(), Summary::new());
    while let Some(record) = events.next_record().unwrap() {
        summary.add(&record);
        lines.push(line(&record));
    }
    (lines, summary, events.notes().clone())
}

fn summary(path: &Path) -> (Summary, Notes) {
    let (_, summary, notes) = read_lines(path, |_| String::new());
    (summary, notes)
}

/// The common part of all formats of an event: no processes, no running task (latency-format cuts its name), and no
/// unknown fields.
fn bare(record: &Record<'_>) -> String {
    let fields = match record.point {
        Tracepoint::Other { .. } => String::new(),
        Tracepoint::Malformed { .. } => panic!("{record:?}"),
        Tracepoint::Print { text } => String::from_utf8_lossy(text).trim_end().to_owned(),
        point => format!("{point:?}"),
    };
    format!("{} {} {} {} {fields}", record.at, record.cpu, record.pid, String::from_utf8_lossy(record.name))
}

/// Compares line by line, for readable failures.
fn same(name: &str, found: &[String], expected: &[String]) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{name}: event {at}");
    }
    assert_eq!(found.len(), expected.len(), "{name}");
}

fn without_loss(notes: &Notes, kind: Kind) {
    assert_eq!(notes.kind, Some(kind));
    assert_eq!(notes.not_understood.count + notes.malformed.count + notes.cut_lines.count, 0, "{notes:?}");
    assert_eq!(notes.unterminated, None);
}

#[test]
fn trace_cmd_says_the_same_in_every_dress() {
    let (plain, summary, notes) = read_lines(&fixture("trace-cmd-report-N.txt"), bare);
    assert_eq!(plain.len(), 159);
    assert_eq!(summary.events(), 159);
    assert_eq!(notes.cpus, Some(2));
    without_loss(&notes, Kind::TraceCmdReport);
    for (name, kind) in [
        ("trace-cmd-report.txt", Kind::TraceCmdReport),
        ("trace-cmd-report-R.txt", Kind::TraceCmdRaw),
        ("trace-cmd-report-l.txt", Kind::TraceCmdReport),
    ] {
        let (lines, _, notes) = read_lines(&fixture(name), bare);
        without_loss(&notes, kind);
        if name == "trace-cmd-report.txt" {
            // trace-cmd's plugin has an old table of states, without preempted tasks and idle kernel threads.
            let known = |line: &String| {
                line.replace("Preempted", "Running")
                    .replace("Zombie", "Dead")
                    .replace("prev_state: Idle", "prev_state: DiskSleep")
            };
            let plain: Vec<String> = plain.iter().map(known).collect();
            same(name, &lines, &plain);
        } else {
            same(name, &lines, &plain);
        }
    }
}

#[test]
fn the_kernel_says_the_same_with_every_option() {
    let (plain, summary, notes) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    assert_eq!(plain.len(), 138);
    assert!(summary.has_tgid());
    assert_eq!(notes.cpus, Some(2));
    assert_eq!(notes.overwritten, Some(0));
    without_loss(&notes, Kind::Ftrace);
    for name in ["ftrace.txt", "ftrace-plain.txt"] {
        let (lines, summary, notes) = read_lines(&fixture(name), bare);
        without_loss(&notes, Kind::Ftrace);
        assert!(!summary.has_tgid());
        same(name, &lines[..137], &plain[..137]);
    }
    // Microseconds since the first event, and idle tasks without their brackets.
    let (lines, _, notes) =
        read_lines(&fixture("ftrace-latency.txt"), |record| bare(record).split_once(' ').unwrap().1.to_owned());
    without_loss(&notes, Kind::Ftrace);
    let plain: Vec<String> = plain.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    same("ftrace-latency.txt", &lines[..137], &plain[..137]);
}

#[test]
fn perf_script_says_the_same_with_every_field() {
    let (plain, _, notes) = read_lines(&fixture("perf-script.txt"), bare);
    assert_eq!(plain.len(), 160);
    without_loss(&notes, Kind::PerfScript);
    for name in ["perf-script-tgid.txt", "perf-script-period.txt"] {
        let (lines, summary, notes) = read_lines(&fixture(name), bare);
        without_loss(&notes, Kind::PerfScript);
        assert_eq!(summary.has_tgid(), name == "perf-script-tgid.txt");
        same(name, &lines, &plain);
    }
}

#[test]
fn trace_dat_has_what_trace_cmd_reads_in_it() {
    let (text, _, _) = read_lines(&fixture("trace-dat.txt"), bare);
    for name in ["trace-v6.dat", "trace-v7-zstd.dat"] {
        let (lines, summary, notes) = read_lines(&fixture(name), bare);
        without_loss(&notes, Kind::TraceDat);
        assert_eq!((notes.cpus, notes.overwritten, notes.counts_for_time), (Some(2), Some(0), false));
        assert_eq!(summary.clock().unordered(), 0);
        same(name, &lines, &text);
    }
}

/// The time since the previous event is no part of the name.
#[test]
fn trace_cmd_with_differences_says_the_same() {
    let (text, _, _) = read_lines(&fixture("trace-dat.txt"), bare);
    let (lines, _, notes) = read_lines(&fixture("trace-cmd-report-ts-diff.txt"), bare);
    without_loss(&notes, Kind::TraceCmdReport);
    same("trace-cmd-report-ts-diff.txt", &lines, &text);
}

#[test]
fn wakeups_by_interrupts_are_reported() {
    let wakeups = |name: &str| {
        let (lines, _, _) = read_lines(&fixture(name), |record| match record.name {
            b"sched_waking" => format!("{} {:?}", record.at / 1000, record.context),
            _ => String::new(),
        });
        lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let count = |lines: &[String], end: &str| lines.iter().filter(|line| line.ends_with(end)).count();
    for name in ["ftrace.txt", "trace-v6.dat", "perf.data"] {
        let found = wakeups(name);
        assert!(count(&found, "Some(Hardirq)") > 0 && count(&found, "Some(Task)") > 0, "{name}: {found:?}");
    }
    let text = std::fs::read_to_string(fixture("ftrace.txt")).unwrap();
    let flags = |line: &&str| {
        line.contains("sched_waking:") && line.split_once("] ").is_some_and(|(_, rest)| &rest[2..3] == "s")
    };
    assert_eq!(count(&wakeups("ftrace.txt"), "Some(Softirq)"), text.lines().filter(flags).count());
    assert_eq!(wakeups("trace-v7-zstd.dat"), wakeups("trace-v6.dat"));
    assert_eq!(count(&wakeups("perf-script.txt"), "None"), wakeups("perf-script.txt").len());
}

#[test]
fn perf_data_has_what_perf_script_reads_in_it() {
    // perf makes up names of earlier tasks, at time 0, and prints further records that are no events.
    let all = |record: &Record<'_>| match record.name {
        name if name.starts_with(b"PERF_RECORD_") => String::new(),
        _ => format!("{} {:?} {}", String::from_utf8_lossy(record.comm), record.tgid, bare(record)),
    };
    let events = |lines: Vec<String>| lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<String>>();
    let (text, of_text, _) = read_lines(&fixture("perf-data.txt"), all);
    let (lines, of_data, notes) = read_lines(&fixture("perf.data"), all);
    without_loss(&notes, Kind::PerfData);
    assert_eq!(notes.cpus, Some(2));
    assert!(of_data.has_tgid());
    assert_eq!(of_data.clock().unordered(), 0);
    let (text, lines) = (events(text), events(lines));
    assert!(lines.len() > 200);
    same("perf.data", &lines, &text);
    assert_eq!(of_data.counts(), of_text.counts());
    let names = |summary: &Summary| summary.tasks().iter().map(|task| (task.pid, task.comm())).collect::<Vec<_>>();
    assert_eq!(names(&of_data), names(&of_text));
}

/// Threads before the first event, with their parents, in the file and from `perf script --show-task-events`. A later
/// fork is an event.
#[test]
fn perf_knows_earlier_threads_and_their_parents() {
    let was_there = |mut events: Box<dyn Events>| {
        while events.next_record().unwrap().is_some() {}
        events.notes().forked.clone()
    };
    let of = |process, thread, parent| Forked { process, thread, parent };
    let there = was_there(read::open(&fixture("perf.data")).unwrap());
    // perf found 95 threads, and one was forked while perf started.
    assert_eq!((there.len(), there[0], there[2]), (96, of(1, 1, 0), of(3, 3, 2)));
    let text = "swapper 0 [000] 0.000000: PERF_RECORD_FORK(30:31):(30:30)\n\
                swapper 0 [000] 0.000000: PERF_RECORD_FORK(40:40):(30\n\
                a 7 [000] 2.000000: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n\
                a 7 [000] 2.000001: PERF_RECORD_FORK(50:50):(7:7)\n";
    let text = read::from_reader(Cursor::new(text.as_bytes().to_vec())).unwrap();
    assert_eq!(was_there(text), [of(30, 31, 30)]);
}

/// For an exiting task perf has no ids, but the event has.
#[test]
fn the_event_names_the_running_task_if_perf_does_not() {
    let mut bytes = std::fs::read(fixture("perf.data")).unwrap();
    let (before, ..) = read_lines(&fixture("perf.data"), bare);
    let ids = [12_691_u32.to_le_bytes(), 12_691_u32.to_le_bytes()].concat();
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == ids).collect();
    assert!(places.len() > 18, "{places:?}");
    for place in places {
        bytes[place..place + 8].fill(0xff);
    }
    let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
    let (mut after, mut of_none) = (Vec::new(), 0);
    while let Some(record) = events.next_record().unwrap() {
        after.push(bare(&record));
        of_none += u64::from(record.pid == 12_691 && record.tgid.is_none());
    }
    let is_event = |line: &&String| !line.contains("PERF_RECORD_");
    let [before, after] =
        [&before, &after].map(|lines| lines.iter().filter(is_event).cloned().collect::<Vec<String>>());
    same("perf.data", &after, &before);
    assert!(of_none > 18, "{of_none}");
}

#[test]
fn a_trace_tells_the_kernel_it_was_recorded_under() {
    for (name, release) in [
        ("perf.data", Some("6.18.44-fc-v657")),
        ("trace-v6.dat", Some("6.18.44-fc-v657")),
        ("trace-v7-zstd.dat", Some("6.18.44-fc-v657")),
        ("trace-cmd-report.txt", None),
        ("compact.pftrace", None),
    ] {
        assert_eq!(summary(&fixture(name)).1.release.as_deref(), release, "{name}");
    }
    let text = std::fs::read(fixture("perf-script.txt")).unwrap();
    for (line, release) in [
        ("# os release : 5.15.0-91-generic\n", Some("5.15.0-91-generic")),
        ("# os release : \n", None),
        ("# os release : \u{7}\n", None),
    ] {
        let with_header = [b"# ========\n# hostname : web-7\n", line.as_bytes(), &text].concat();
        let mut events = TextReader::new(Cursor::new(with_header));
        while events.next_record().unwrap().is_some() {}
        assert_eq!(events.notes().release.as_deref(), release, "{line}");
        assert_eq!(events.notes().not_understood.count, 0);
    }
}

#[test]
fn perf_data_cut_or_damaged_is_refused_or_read() {
    let whole = std::fs::read(fixture("perf.data")).unwrap();
    let (all, _) = damaged(whole.clone()).unwrap();
    for end in 10..whole.len() {
        // The descriptions of its events are at its end.
        assert!(damaged(whole[..end].to_vec()).is_none_or(|(found, _)| found == all), "{end}");
    }
    let (mut read, mut untold) = (0, 0);
    for at in (10..whole.len()).step_by(11) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let Some((found, notes)) = damaged(bytes) else { continue };
        read += 1;
        untold += u64::from(found < all && !counted(&notes));
    }
    assert!(read > 1000, "{read}");
    // An unknown record is skipped, since newer kernels have such records: one in a hundred.
    assert!(untold * 50 < read, "of {read} that were read {untold} have lost events and do not tell");
}

#[test]
fn switches_in_columns_are_those_of_a_switch_each() {
    let line = |record: &Record<'_>| {
        format!("{} {} {:?}", String::from_utf8_lossy(record.comm), record.tgid.unwrap_or(0), bare(record))
    };
    let (lines, summary, notes) = read_lines(&fixture("compact.pftrace"), line);
    without_loss(&notes, Kind::Perfetto);
    let losses = summary.losses();
    assert_eq!((losses.gaps, losses.uncounted, losses.events), (1, 1, 0));
    assert_eq!((summary.broken_switches(), summary.impossible_pids(), summary.clock().unordered()), (0, 0, 0));
    let expected = [
        "900 1 -1 sched_waking Waking web 10",
        "1000 1 -1 sched_switch Switch ? -1 R > web 10",
        "1400 0 -1 lost_events Lost",
        "1400 0 0 sched_waking Waking web 10",
        "1500 1 10 sched_switch Switch web 10 R+ > web-worker 11",
        "1600 1 11 sched_waking Waking web-worker 11",
        "1650 1 11 print Print C|10|x|1",
        "1690 1 11 irq_handler_entry Other",
        "1700 1 11 sched_switch Switch web-worker 11 S > swapper/1 0",
        "2000 1 0 sched_switch Switch swapper/1 0 R > web 10",
    ];
    let text =
        |bytes: &[u8]| if bytes.is_empty() { "?".to_owned() } else { String::from_utf8_lossy(bytes).into_owned() };
    let short = |record: &Record<'_>| {
        let point = match record.point {
            Tracepoint::Waking(wakeup) => format!("Waking {} {}", text(wakeup.task.comm), wakeup.task.pid),
            Tracepoint::Switch { prev, prev_state, next, .. } => {
                let (left, came) = (text(prev.comm), text(next.comm));
                format!("Switch {left} {} {} > {came} {}", prev.pid, prev_state.letters(), next.pid)
            }
            Tracepoint::Lost { .. } => "Lost".to_owned(),
            Tracepoint::Print { text: mark } => format!("Print {}", text(mark)),
            _ => "Other".to_owned(),
        };
        format!("{} {} {} {} {point}", record.at, record.cpu, record.pid, text(record.name))
    };
    let (found, _, _) = read_lines(&fixture("compact.pftrace"), short);
    same("compact.pftrace", &found, &expected.map(str::to_owned));
    assert!(
        lines.iter().any(|line| line.starts_with("web-worker 10 ")),
        "threads have their names and processes: {lines:?}"
    );
}

#[test]
fn tasks_of_a_recording() {
    let (summary, _) = summary(&fixture("ftrace-tgid.txt"));
    let tasks = summary.tasks();
    let sleeper = tasks.iter().find(|task| task.comms.len() > 1 && task.comm() == "sleep").expect("exec'd by work.sh");
    assert_eq!(sleeper.comms.first().map(Vec::as_slice), Some(&b"work.sh"[..]));
    assert!(sleeper.cpu_ns > 0 && sleeper.switches > 0 && sleeper.wakeups() > 0);
    assert!(sleeper.tgid.is_some());
    assert!(tasks.iter().any(|task| task.running_at_start));
    assert!(tasks.is_sorted_by(|a, b| a.cpu_ns >= b.cpu_ns));
}

/// Up to any byte: events or an error, and the loss reported.
#[test]
fn a_trace_cut_anywhere_is_read_to_there() {
    for name in [
        "ftrace-tgid.txt",
        "ftrace-latency.txt",
        "perf-script-tgid.txt",
        "trace-cmd-report.txt",
        "trace-cmd-report-R.txt",
    ] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let whole = &whole[..whole.len().min(6000)];
        let mut last = 0;
        for end in 0..whole.len() {
            let mut reader = TextReader::new(&whole[..end]);
            let mut events = 0;
            let ended = loop {
                match reader.next_record() {
                    Ok(Some(_)) => events += 1,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            assert_eq!(ended.is_err(), events == 0, "{name}: {end}");
            assert!(events >= last, "{name}: {end}");
            let mid_line = end > 0 && whole[end - 1] != b'\n';
            assert_eq!(reader.notes().unterminated.is_some(), mid_line, "{name}: {end}");
            last = events;
        }
        assert!(last > 20);
    }
}

#[test]
fn flipped_bits_are_counted_at_worst() {
    for name in ["ftrace-tgid.txt", "perf-script-tgid.txt", "trace-cmd-report.txt"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let (before, _) = summary(&fixture(name));
        for at in 0..whole.len().min(1500) {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let mut reader = TextReader::new(&bytes[..]);
                let mut summary = Summary::new();
                while let Some(record) = reader.next_record().unwrap() {
                    summary.add(&record);
                }
                // A line may become two, or two one, whose fields then include the second.
                let lost = before.events().abs_diff(summary.events());
                assert!(lost <= 1, "{name}: byte {at} bit {bit}: {lost} events lost");
                let read_lines = lost == 0 || counted(reader.notes()) || whole[at] == b'\n';
                assert!(read_lines, "{name}: byte {at} bit {bit}: an event is lost, and not counted");
            }
        }
    }
}

/// Whether a reader reports damage.
fn counted(notes: &Notes) -> bool {
    notes.not_understood.count + notes.malformed.count > 0 || notes.unterminated.is_some()
}

/// Reads bytes to the end; returns events and notes, or none if the header is rejected.
fn damaged(bytes: Vec<u8>) -> Option<(u64, Notes)> {
    let size = bytes.len() as u64;
    let mut events = read::from_reader(Cursor::new(bytes)).ok()?;
    let mut summary = Summary::new();
    while let Some(record) = events.next_record().unwrap() {
        summary.add(&record);
    }
    assert!(summary.events() <= size);
    Some((summary.events(), events.notes().clone()))
}

#[test]
fn trace_dat_cut_anywhere_is_refused_or_read_to_there() {
    for (name, events) in [("trace-v6.dat", 174), ("trace-v7-zstd.dat", 174)] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let (all, _) = damaged(whole.clone()).unwrap();
        assert_eq!(all, events);
        let mut partly = 0;
        // An empty file and parts of the magic are no text.
        for end in 0..whole.len() {
            let Some((found, notes)) = (end >= 10).then(|| damaged(whole[..end].to_vec())).flatten() else { continue };
            partly += u64::from(found > 0);
            assert!(found <= all, "{name}: {end}");
            // Only unused data follows the pages.
            assert!(notes.unterminated.is_some() || found == all, "{name}: {end}");
        }
        // Version 7 has its options at the end.
        assert_eq!(partly > 4000, name == "trace-v6.dat", "{name}: {partly}");
    }
}

#[test]
fn trace_dat_with_flipped_bits_is_refused_or_read() {
    for name in ["trace-v6.dat", "trace-v7-zstd.dat"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let (mut read, mut untold) = (0, 0);
        for at in (10..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let Some((found, notes)) = damaged(bytes) else { continue };
            read += 1;
            untold += u64::from(found < 174 && !counted(&notes));
        }
        assert!(read > 1000, "{name}: {read}");
        // There are no checksums, so a record of another kind or length can pass as valid.
        assert!(untold * 100 < read, "{name}: of {read} that were read {untold} have lost events and do not tell");
    }
}

/// Disks and copies replace blocks by zeros.
#[test]
fn trace_dat_with_zeros_is_refused_or_reports_them() {
    // The pages of version 6 follow its header. Version 7 has its header behind its pages.
    for (name, first) in [("trace-v6.dat", 12288), ("trace-v7-zstd.dat", 10)] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let mut fewer = 0;
        for length in [64, 512, 4096] {
            for at in (first..whole.len()).step_by(64) {
                let mut bytes = whole.clone();
                bytes.get_mut(at..(at + length).min(whole.len())).unwrap_or_default().fill(0);
                let Some((found, notes)) = damaged(bytes) else { continue };
                fewer += u64::from(found < 174);
                assert!(found == 174 || counted(&notes), "{name}: {length} zeros at {at}: {found} events");
            }
        }
        assert!(fewer > 20, "{name}: {fewer}");
    }
}

/// The time of an overwritten page is a loss on its CPU.
#[test]
fn a_page_of_zeros_is_a_loss() {
    for (at, cpu) in [(12288, 0), (16384, 1)] {
        let mut bytes = std::fs::read(fixture("trace-v6.dat")).unwrap();
        bytes[at..at + 4096].fill(0);
        let mut events = read::from_reader(Cursor::new(bytes)).unwrap();
        let mut lost = Vec::new();
        while let Some(record) = events.next_record().unwrap() {
            if matches!(record.point, Tracepoint::Lost { .. }) {
                lost.push(record.cpu);
            }
        }
        assert_eq!(events.notes().not_understood.first.unwrap().to_string(), format!("byte {at}"));
        assert_eq!(lost, [cpu], "{at}");
    }
}

#[test]
fn names_of_data_are_documented() {
    let readme = std::fs::read_to_string(fixture("README.md")).unwrap();
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || readme.contains(&name), "{name} is not in README.md");
    }
}
