//! Small files that were once read wrongly, one for each kind of fault.

use std::io::Cursor;

use vruntime_trace::read::{self, Error, Summary, TextReader};
use vruntime_trace::{Record, Tracepoint};

const TWO_SOURCES: &[u8] = include_bytes!("data/twosrc.pftrace");

fn all<T>(bytes: &[u8], each: impl Fn(&Record<'_>) -> T) -> (Vec<T>, Summary) {
    let mut events = read::from_reader(Cursor::new(bytes.to_vec())).unwrap();
    let (mut found, mut summary) = (Vec::new(), Summary::new());
    while let Some(record) = events.next_record().unwrap() {
        summary.add(&record);
        found.push(each(&record));
    }
    summary.end();
    (found, summary)
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

fn bytes(tag: u64, value: &[u8]) -> Vec<u8> {
    [varint(tag << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A packet with a bundle of CPU 0. `first`: whether its sequence precedes the events.
fn packet(sequence: u64, first: bool, events: &[Vec<u8>]) -> Vec<u8> {
    let id = number(10, sequence);
    let bundle = bytes(1, &[number(1, 0), events.concat()].concat());
    bytes(1, &if first { [id, bundle].concat() } else { [bundle, id].concat() })
}

fn event(at: u64, pid: u64, tag: u64, message: &[u8]) -> Vec<u8> {
    bytes(2, &[number(1, at), number(2, pid), bytes(tag, message)].concat())
}

fn switch(at: u64, prev: u64, next: u64) -> Vec<u8> {
    let message = [bytes(1, b"x"), number(2, prev), number(3, 120), number(4, 0), bytes(5, b"x"), number(6, next)];
    event(at, prev, 4, &[message.concat(), number(7, 120)].concat())
}

fn idle(at: u64, state: u64) -> Vec<u8> {
    event(at, 0, 13, &[number(1, state), number(2, 0)].concat())
}

/// Data sources are flushed separately: the bundles of one CPU are not in order.
#[test]
fn bundles_of_several_data_sources_are_merged_by_time() {
    let (times, summary) = all(TWO_SOURCES, |record| record.at);
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!((summary.clock().unordered(), summary.broken_switches()), (0, 0));
    let ran = summary.tasks().iter().find(|task| task.pid == 10).unwrap().cpu_ns;
    assert_eq!(ran / 10_000_000, 150, "50 of each 100 ms: {ran}");
}

#[test]
fn the_sequence_of_a_packet_may_stand_behind_its_events() {
    for first in [true, false] {
        let trace = [
            packet(2, first, &[switch(10, 0, 7), switch(40, 7, 0)]),
            packet(3, first, &[idle(5, 1), idle(9, u64::from(u32::MAX))]),
            packet(2, first, &[switch(50, 0, 8)]),
            packet(3, first, &[idle(45, 1)]),
        ]
        .concat();
        let (found, _) = all(&trace, |record| (record.at, record.pid));
        assert_eq!(found, [(5, 0), (9, 0), (10, 0), (40, 7), (45, 0), (50, 0)], "{first}");
    }
}

#[test]
fn an_event_of_two_data_sources_is_one() {
    let switches = [switch(10, 0, 7), switch(40, 7, 0), switch(40, 0, 8)];
    let trace = [packet(2, true, &switches), packet(3, true, &[&switches[..], &[idle(40, 1)]].concat())].concat();
    let (found, summary) = all(&trace, |record| (record.at, record.pid, record.name.to_vec()));
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!((summary.count_of("sched_switch"), summary.broken_switches()), (3, 0));
}

/// trace-cmd 3's version 7 without events: no CPU has pages. Version 6 has CPUs without pages.
#[test]
fn a_trace_dat_without_events_is_not_damaged() {
    let error_of = |bytes: Vec<u8>| match read::from_reader(Cursor::new(bytes)) {
        Err(error @ Error::WithoutEvents { .. }) => {
            format!("{error}; {}", error.help().unwrap())
        }
        Err(error) => panic!("{error}"),
        Ok(mut events) => panic!("{:?}", events.next_record()),
    };
    for bytes in [empty_v6(), empty_v7()] {
        let message = error_of(bytes);
        assert!(message.starts_with("there is no event in this trace.dat of trace-cmd; "), "{message}");
        assert!(message.contains("trace-cmd record -e sched"), "{message}");
    }
}

fn empty_v6() -> Vec<u8> {
    let mut bytes = include_bytes!("data/trace-v6.dat").to_vec();
    let at = bytes.windows(10).position(|word| word == b"flyrecord\0").unwrap() + 10;
    // Offsets and sizes of two CPUs' pages.
    for cpu in 0..2 {
        bytes[at + cpu * 16 + 8..at + cpu * 16 + 16].fill(0);
    }
    bytes.truncate(at + 32);
    bytes
}

fn empty_v7() -> Vec<u8> {
    let mut bytes = include_bytes!("data/trace-v7-zstd.dat").to_vec();
    let word = |bytes: &[u8], at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte))
    };
    let text = |bytes: &[u8], at: usize| at + bytes[at..].iter().position(|&byte| byte == 0).unwrap() + 1;
    // Version, byte order, size of long, size of pages, compression and its version.
    let compression = text(&bytes, 10) + 2 + 4;
    let mut next = word(&bytes, text(&bytes, text(&bytes, compression).min(bytes.len())), 8);
    let mut changed = false;
    while next > 0 {
        let mut at = next + 16;
        loop {
            let (id, size) = (word(&bytes, at, 2), word(&bytes, at + 2, 4));
            if id == 3 {
                // Offset of the section, name, clock, size of pages, count of CPUs.
                let count = text(&bytes, text(&bytes, at + 6 + 8)) + 4;
                bytes[count..count + 4].fill(0);
                changed = true;
            }
            at += 6 + size;
            if id == 0 {
                next = word(&bytes, at - size, 8);
                break;
            }
        }
    }
    assert!(changed);
    bytes
}

#[test]
fn cpus_that_events_name_exist() {
    let cpus = |text: &str| {
        let (mut reader, mut summary) = (TextReader::new(text.as_bytes()), Summary::new());
        while let Some(record) = reader.next_record().unwrap() {
            summary.add(&record);
        }
        (summary.cpus().count(), summary.named_cpus())
    };
    assert_eq!(cpus(include_str!("data/twice.txt")), (1, 4));
    let event = |fields: &str| format!("a-1 [001] d..2. 1.000001: {fields}\n");
    for (fields, named) in [
        ("sched_waking: comm=b pid=2 prio=120 target_cpu=007", 8),
        ("sched_wakeup: comm=b pid=2 prio=120 target_cpu=007", 8),
        ("sched_wakeup_new: comm=b pid=2 prio=120 target_cpu=007", 8),
        ("sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=6 dest_cpu=0", 7),
        ("sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=0 dest_cpu=6", 7),
        ("cpu_frequency: state=1800000 cpu_id=5", 6),
        ("cpu_idle: state=1 cpu_id=5", 6),
        ("sched_waking: comm=b pid=2 prio=120 target_cpu=000", 2),
        ("sched_waking: comm=b pid=2 prio=120 target_cpu=4000000000", 2),
    ] {
        assert_eq!(cpus(&event(fields)), (1, named), "{fields}");
    }
}

/// A task that is woken again before its next event has run unseen: it came after the last wakeup.
#[test]
fn an_arrival_is_guessed_from_the_last_wakeup() {
    let text = "<idle>-0 [000] d..2. 1.000000: cpu_idle: state=1 cpu_id=0\n\
                a-1 [001] d..2. 1.001000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
                a-1 [001] d..2. 1.101000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n\
                b-2 [000] d..2. 1.102000: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> \
                next_comm=swapper/0 next_pid=0 next_prio=120\n";
    let (found, summary) = all(text.as_bytes(), |record| matches!(record.point, Tracepoint::Switch { .. }));
    assert_eq!(found, [false, false, false, true]);
    let b = summary.tasks().into_iter().find(|task| task.pid == 2).unwrap().cpu_ns;
    assert_eq!(b, 1_000_000);
}
