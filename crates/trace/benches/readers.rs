//! Speed of the readers, compared with only finding lines.
//!
//! `cargo bench -p vruntime-trace --bench readers`. The events are those of 8 CPUs that pass messages.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use std::io::Cursor;

use vruntime_trace::read::{Events, PerfData, PerfettoTrace, Summary, TextReader, TraceDat};
use vruntime_trace::{
    CpuId, Event, FtraceWriter, PerfettoOptions, PerfettoWriter, PrevState, Running, Sink, TaskId, TaskInfo,
};

const ROUNDS: u32 = 50_000;

fn main() {
    divan::main();
}

fn feed(sink: &mut impl Sink) {
    for id in 0..64 {
        let name = format!("messenger-{id}");
        sink.task(TaskId(id), &TaskInfo { name: &name, class: "messenger", ..TaskInfo::default() });
    }
    let mut at = 0;
    for round in 0..ROUNDS {
        let (cpu, waker) = (CpuId(round % 8), CpuId((round + 3) % 8));
        let (task, other) = (TaskId(round % 64), TaskId((round + 8) % 64));
        at += 700;
        sink.event(at, waker, &Event::Waking { task, irq: false });
        sink.event(at + 100, waker, &Event::Wakeup { task, target: cpu });
        let (prev, next) = (Running::Task(other), Running::Task(task));
        sink.event(at + 200, cpu, &Event::Switch { prev, prev_state: PrevState::Sleeping, next });
        sink.event(at + 300, cpu, &Event::Switch { prev: next, prev_state: PrevState::Preempted, next: prev });
    }
    sink.finish(at + 1000);
}

fn text() -> Vec<u8> {
    let mut sink = FtraceWriter::new(Vec::new(), 8).nanoseconds();
    feed(&mut sink);
    sink.finish_writing().unwrap_or_default()
}

fn perf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    for line in text.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let Some((who, rest)) = line.split_once(" [") else { continue };
        let Some((comm, pid)) = who.rsplit_once('-') else { continue };
        let (place, event) = rest.split_once(": ").unwrap_or_default();
        out.extend_from_slice(format!("{comm} {}/{} [{place}: sched:{event}\n", pid.trim(), pid.trim()).as_bytes());
    }
    out
}

fn bench(bencher: Bencher<'_, '_>, text: &[u8], read: impl Fn(&[u8]) -> u64) {
    let events = read(text);
    bencher.counter(ItemsCount::new(events)).counter(BytesCount::of_slice(text)).bench_local(|| black_box(read(text)));
}

fn events(text: &[u8]) -> u64 {
    let mut reader = TextReader::new(text);
    let mut count = 0;
    while let Ok(Some(record)) = reader.next_record() {
        count += 1;
        black_box(record);
    }
    assert_eq!(count, 4 * u64::from(ROUNDS) + 1, "each, and the end of the run");
    count
}

fn summarised(text: &[u8]) -> u64 {
    let (mut reader, mut summary) = (TextReader::new(text), Summary::new());
    while let Ok(Some(record)) = reader.next_record() {
        summary.add(&record);
    }
    summary.events()
}

#[divan::bench]
fn lines_only(bencher: Bencher<'_, '_>) {
    bench(bencher, &text(), |text| text.split(|&byte| byte == b'\n').count() as u64);
}

#[divan::bench]
fn ftrace_text(bencher: Bencher<'_, '_>) {
    bench(bencher, &text(), events);
}

#[divan::bench]
fn ftrace_text_info(bencher: Bencher<'_, '_>) {
    bench(bencher, &text(), summarised);
}

#[divan::bench]
fn perf_script(bencher: Bencher<'_, '_>) {
    bench(bencher, &perf(&text()), events);
}

/// A recording with its pages a thousand times.
fn trace_dat_file() -> Vec<u8> {
    const TIMES: usize = 1000;
    let mut file = include_bytes!("../tests/data/trace-v6.dat").to_vec();
    let table = file.windows(10).position(|window| window == b"flyrecord\0").map_or(0, |at| at + 10);
    let number = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap_or_default()) as usize;
    for cpu in 0..2 {
        let (offset, size) = (number(&file, table + cpu * 16), number(&file, table + cpu * 16 + 8));
        let pages = file[offset..offset + size].repeat(TIMES);
        let place = [file.len() as u64, pages.len() as u64].map(u64::to_le_bytes).concat();
        file[table + cpu * 16..table + cpu * 16 + 16].copy_from_slice(&place);
        file.extend_from_slice(&pages);
    }
    file
}

fn trace_dat_events(file: &[u8]) -> u64 {
    let mut count = 0;
    if let Ok(mut reader) = TraceDat::new(Cursor::new(file)) {
        while let Ok(Some(record)) = reader.next_record() {
            count += 1;
            black_box(record);
        }
    }
    assert_eq!(count, 174_000);
    count
}

#[divan::bench]
fn trace_dat(bencher: Bencher<'_, '_>) {
    bench(bencher, &trace_dat_file(), trace_dat_events);
}

fn perfetto_file() -> Vec<u8> {
    let options = PerfettoOptions { counters: false, slices: false, ..PerfettoOptions::default() };
    let mut sink = PerfettoWriter::with_options(Vec::new(), &options);
    feed(&mut sink);
    sink.finish_writing().unwrap_or_default()
}

fn binary_events(mut events: impl Events) -> u64 {
    let mut count = 0;
    while let Ok(Some(record)) = events.next_record() {
        count += 1;
        black_box(record);
    }
    count
}

#[divan::bench]
fn perfetto(bencher: Bencher<'_, '_>) {
    bench(bencher, &perfetto_file(), |file| PerfettoTrace::new(Cursor::new(file)).map_or(0, binary_events));
}

/// A recording with its records a thousand times.
fn perf_data_file() -> Vec<u8> {
    let file = include_bytes!("../tests/data/perf.data");
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap_or_default()) as usize;
    let (start, size) = (number(40), number(48));
    let records = file[start..start + size].repeat(500);
    let grown = (records.len() - size) as u64;
    let mut all = [&file[..start], &records, &file[start + size..]].concat();
    all[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    // The table of features has moved, with its content.
    let table = start + records.len();
    for feature in 0..(0..4).map(|word| number(72 + word * 8).count_ones() as usize).sum() {
        let at = table + feature * 16;
        let moved = u64::from_le_bytes(all[at..at + 8].try_into().unwrap_or_default()) + grown;
        all[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    }
    all
}

#[divan::bench]
fn perf_data(bencher: Bencher<'_, '_>) {
    bench(bencher, &perf_data_file(), |file| PerfData::new(Cursor::new(file)).map_or(0, binary_events));
}
