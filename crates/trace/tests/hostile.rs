//! Hostile files: damage is counted, nothing panics, and memory is bounded.

use std::io::{self, Read, Write};
use std::path::Path;

use proptest::prelude::*;
use vruntime_trace::Tracepoint;
use vruntime_trace::read::{Error, Place, Summary, TextReader, open};
use vruntime_trace::recording::Recording;

/// Generates a file while it is read.
struct Made<F> {
    line: F,
    count: u64,
    done: u64,
    buffer: Vec<u8>,
    start: usize,
}

impl<F: FnMut(u64, &mut Vec<u8>)> Made<F> {
    fn new(count: u64, line: F) -> Self {
        Self { line, count, done: 0, buffer: Vec::new(), start: 0 }
    }
}

impl<F: FnMut(u64, &mut Vec<u8>)> Read for Made<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
            while self.buffer.len() < 60_000 && self.done < self.count {
                (self.line)(self.done, &mut self.buffer);
                self.done += 1;
            }
        }
        let n = out.len().min(self.buffer.len() - self.start);
        out[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        Ok(n)
    }
}

fn summary<R: Read>(reader: R) -> (Summary, TextReader<R>) {
    let (mut reader, mut summary) = (TextReader::new(reader), Summary::new());
    while let Some(record) = reader.next_record().unwrap() {
        summary.add(&record);
    }
    (summary, reader)
}

#[test]
fn ten_million_events_at_one_time() {
    let line = b"a-1 [000] 5.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
    let (summary, _) = summary(Made::new(10_000_000, |_, out| out.extend_from_slice(line)));
    assert_eq!(summary.events(), 10_000_000);
    assert_eq!(summary.count_of("sched_waking"), 10_000_000);
    assert_eq!(summary.clock().span_ns(), 0);
    assert_eq!((summary.clock().unordered(), summary.clock().jumps(), summary.clock().strays()), (0, 0, 0));
}

#[test]
fn a_hundred_thousand_cpus_and_a_pid_each() {
    let (summary, reader) = summary(Made::new(100_000, |n, out| {
        writeln!(out, "a-{n} [{n:03}] 5.{n:06}: sched_waking: comm=b pid={} prio=120 target_cpu={n:03}", n + 100_000)
            .unwrap();
    }));
    assert_eq!(summary.cpus().count(), 100_000);
    assert_eq!(summary.clock().span_ns(), 99_999_000);
    assert_eq!(summary.tasks().len(), 199_999, "all but the idle task");
    assert_eq!(reader.notes().not_understood.count, 0);
}

#[test]
fn cpus_and_pids_that_cannot_be_are_refused() {
    let text = b"a-1 [4294967295] 5.0: sched_waking: comm=b pid=2 prio=120 target_cpu=1\n\
                 a-1 [000] 5.0: sched_waking: comm=b pid=2147483647 prio=120 target_cpu=1\n\
                 a-1 [000] 5.0: sched_waking: comm=b pid=-2147483648 prio=120 target_cpu=1\n";
    let (summary, reader) = summary(&text[..]);
    assert_eq!((summary.events(), summary.impossible_pids()), (2, 2));
    assert_eq!((reader.notes().not_understood.count, reader.notes().not_understood.first), (1, Some(Place::Line(1))));
}

#[test]
fn a_line_of_a_gigabyte() {
    let line = b"a-1 [000] 5.000001: print: ";
    let end = b"\na-1 [000] 5.000002: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
    let (summary, reader) = summary(line.chain(io::repeat(b'x').take(1 << 30)).chain(&end[..]));
    assert_eq!((summary.events(), summary.count_of("print"), summary.count_of("sched_waking")), (2, 1, 1));
    assert_eq!((reader.notes().cut_lines.count, reader.notes().cut_lines.first), (1, Some(Place::Line(1))));
}

#[test]
fn a_gigabyte_that_is_no_trace() {
    let mut reader = TextReader::new(io::repeat(0).take(1 << 30));
    assert!(matches!(reader.next_record(), Err(Error::NoEvents { lines: 1 })));
    let mut reader = TextReader::new(io::repeat(b'\n').take(1 << 24));
    let error = reader.next_record().unwrap_err();
    assert_eq!(error.to_string(), "it has no events in 16777216 lines");
    assert!(error.help().is_some_and(|help| help.contains("expected")));
}

#[test]
fn times_of_every_kind() {
    let text = b"a-1 [000] -3.000001: x: y\n\
                 a-1 [000] 0.0: x: y\n\
                 a-1 [000] 9223372036.854775: x: y\n\
                 a-1 [000] 9223372036.854776: x: y\n\
                 a-1 [000] 99999999999999999999.000000: x: y\n";
    let (summary, reader) = summary(&text[..]);
    assert_eq!(summary.events(), 3);
    assert_eq!(reader.notes().not_understood.count, 2, "beyond what 64 bits of nanoseconds hold");
    assert_eq!(summary.clock().stretches()[0], (-3_000_001_000, 0));
}

#[test]
fn a_hundred_thousand_names_of_events() {
    let (summary, _) = summary(Made::new(100_000, |n, out| writeln!(out, "a-1 [000] 5.0: event{n}: x").unwrap()));
    assert_eq!(summary.events(), 100_000);
    let counts = summary.counts();
    assert_eq!(counts[0], ("(others)".to_owned(), 100_000 - 65_536));
}

/// Disks and copies leave NUL or 0xff in place of lost blocks. What remains of two lines is no event.
#[test]
fn holes_in_text_are_unreadable_lines() {
    let line = "a-1 [000] 5.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
    let whole = line.repeat(30);
    for byte in [0, 0xff] {
        for from in [3, 12, 25, 33, 50, 60] {
            for length in [1, 40, 71, 500] {
                let mut bytes = whole.clone().into_bytes();
                let from = line.len() + from;
                bytes[from..from + length].fill(byte);
                let (summary, reader) = summary(&bytes[..]);
                let found = (summary.events(), reader.notes().not_understood.count);
                let lines = bytes.split(|&byte| byte == b'\n').count() as u64 - 1;
                let whole = whole_lines(&bytes, line);
                assert_eq!(found, (whole, lines - whole), "{byte} {from} {length}");
            }
        }
    }
    let other = "a-1 [000] 5.000000: sched_w\u{fc}king: comm=b pid=2\n".to_owned() + line;
    let (summary, reader) = summary(other.as_bytes());
    assert_eq!((summary.events(), reader.notes().not_understood.count), (1, 1), "a name is an identifier");
}

/// Returns the losses of a text: time in us, CPU.
fn losses_of(text: &[u8]) -> Vec<(i64, u32)> {
    let (mut reader, mut losses) = (TextReader::new(text), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        if let Tracepoint::Lost { events: None } = record.point {
            losses.push((record.at / 1000, record.cpu));
        }
    }
    losses
}

/// An unreadable line may have been any CPU's event. A part of a line with its CPU was that CPU's.
#[test]
fn unreadable_lines_are_losses_of_cpus() {
    let line =
        |cpu: u32, at: u32| format!("a-1 [{cpu:03}] 5.{at:06}: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n");
    let before = line(0, 1) + &line(2, 2);
    for hole in ["\0\0\0", "a-1 [002] 5.0000\0\0\0 sched_waking: comm=b\n\0\n"] {
        let text = format!("{before}{hole}\n{}{}", line(1, 3), line(2, 4));
        assert_eq!(losses_of(text.as_bytes()), [(5_000_002, 0), (5_000_002, 2)], "{hole:?}");
        let end = format!("{before}{hole}");
        assert_eq!(losses_of(end.as_bytes()), [(5_000_002, 0), (5_000_002, 2)], "at the end: {hole:?}");
    }
    let part = format!("{before}a-1 [002] d..2. 5.00\n{}", line(0, 3));
    assert_eq!(losses_of(part.as_bytes()), [(5_000_002, 2)]);
    // Notes and continued marks are no events, and before the first event nothing is known.
    for other in ["a note of a user\n", "xyz = 0x0 abc = 0x0\n"] {
        assert_eq!(losses_of(format!("{before}{other}{}", line(0, 3)).as_bytes()), []);
    }
    assert_eq!(losses_of(format!("\0\n{before}").as_bytes()), []);
    let lost = format!("{before}\0\nCPU:2 [LOST 3 EVENTS]\n{}", line(2, 4));
    assert_eq!(losses_of(lost.as_bytes()), [(5_000_002, 0), (5_000_002, 2)]);
}

/// Addresses in programs may be short, and atrace prints lines before the trace.
#[test]
fn stacks_and_marks_are_no_damage() {
    let found = |text: &str| {
        let (summary, reader) = summary(text.as_bytes());
        (summary, reader.notes().not_understood.count)
    };
    let event = "a 1 [000] 5.000001: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
    let stack = "\t             993 main (/root/noploop)\n\t            f7eb __libc_recv (/lib/libpthread.so)\n\
                 \t              10 [unknown] ([unknown])\n";
    let (summary, unknown) = found(&format!("{event}{stack}\n{event}"));
    assert_eq!((summary.events(), unknown), (2, 0));
    let marks = "capturing trace... done\nTRACE:\n# tracer: nop\n";
    let (mut summary, unknown) = found(&format!("{marks}a-1 [000] d..2. 5.000001: tracing_mark_write: C|1|x|3\n"));
    assert_eq!((summary.events(), unknown), (1, 0));
    // Only the first column names the task.
    summary.end();
    let names: Vec<_> = summary.tasks().iter().flat_map(|task| task.comms.clone()).collect();
    assert_eq!(names, [b"a".to_vec()]);
    assert_eq!(found(&format!("{event}993 main\n")).1, 1);
}

/// The number of whole lines.
fn whole_lines(bytes: &[u8], line: &str) -> u64 {
    bytes.split_inclusive(|&byte| byte == b'\n').filter(|found| *found == line.as_bytes()).count() as u64
}

/// The fuzzers' initial and kept inputs.
#[test]
fn the_fuzzers_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (folder, at_least) in [("trace_text", 9), ("trace_dat", 2), ("perf_data", 1), ("perfetto", 2)] {
        let mut read = 0;
        for entry in std::fs::read_dir(corpus.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let (mut summary, Ok(mut events)) = (Summary::new(), open(&path)) else { continue };
            while let Ok(Some(record)) = events.next_record() {
                summary.add(&record);
            }
            read += u32::from(summary.events() > 0);
        }
        assert!(read >= at_least, "{folder}: events in {read} files");
    }
}

/// As above, for recordings' sections: most are of a real one, cut or changed.
#[test]
fn the_fuzzers_sections() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let (mut read, mut refused) = (0, 0);
    for entry in std::fs::read_dir(corpus).unwrap() {
        match Recording::parse(&std::fs::read(entry.unwrap().path()).unwrap(), 0) {
            Ok(recording) => {
                assert_eq!(Recording::parse(&recording.to_bytes(), 0).unwrap().to_bytes(), recording.to_bytes());
                read += 1;
            }
            Err(Error::Damaged { .. } | Error::NotRead { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(read >= 1 && refused >= 3, "{read} {refused}");
}

proptest! {
    #[test]
    fn any_section_is_read_or_refused(head in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let first: &[u8] = if head { b"vruntime-recording 1\n" } else { b"" };
        if let Ok(recording) = Recording::parse(&[first, &bytes].concat(), 7) {
            prop_assert_eq!(Recording::parse(&recording.to_bytes(), 0).unwrap().to_bytes(), recording.to_bytes());
        }
    }

    #[test]
    fn any_parts_come_back(parts in prop::collection::btree_map("[a-z-]{1,32}", ".{0,60}", 0..6)) {
        let mut recording = Recording::default();
        for (name, text) in &parts {
            recording.add(name, text.clone());
        }
        let read = Recording::parse(&recording.to_bytes(), 0).unwrap();
        for (name, text) in &parts {
            prop_assert_eq!(read.part(name), Some(text.as_str()));
        }
        prop_assert_eq!(read.parts().count(), parts.len());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (mut reader, mut summary) = (TextReader::new(&bytes[..]), Summary::new());
        while let Ok(Some(record)) = reader.next_record() {
            summary.add(&record);
        }
        prop_assert!(summary.events() <= bytes.len() as u64);
    }

    /// Any combination of the words of real traces.
    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(vec![
        "a", "-", "12", " ", "[", "001", "]", "(", ")", "d..2.", " 5.000001", ":", "sched_switch", "sched:", "prev_comm=", "prev_pid=",
        "prev_prio=", "prev_state=", "==>", "next_comm=", "next_pid=", "next_prio=", "comm=", "pid=", "prio=", "\n", "CPU:", "LOST ",
        "EVENTS]", "#", "0x", "ip=", "buf=", "<html>\n", "class=\"trace-data\"\n", "</script>", "PERF_RECORD_COMM", "/", "us+",
    ]), 0..200)) {
        let text = words.concat();
        let (mut reader, mut summary) = (TextReader::new(text.as_bytes()), Summary::new());
        while let Ok(Some(record)) = reader.next_record() {
            summary.add(&record);
        }
        prop_assert!(summary.events() <= text.lines().count() as u64);
    }
}
