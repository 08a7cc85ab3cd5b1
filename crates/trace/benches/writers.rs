//! Speed of the writers, compared with a sink that only hashes events.
//!
//! `cargo bench -p vruntime-trace`. The events are those of 8 CPUs that pass messages: wakeup, switch in, switch out.

use std::fs::File;
use std::io::{self, Write};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use vruntime_trace::{
    CpuId, Digest, Event, FtraceWriter, PerfettoOptions, PerfettoWriter, PrevState, Running, Sink, TaskId, TaskInfo,
};

const ROUNDS: u32 = 50_000;

fn main() {
    divan::main();
}

/// Four events per round; 200,000 in all.
fn feed(sink: &mut impl Sink) {
    for id in 0..64 {
        let name = format!("messenger-{id}");
        let info = TaskInfo { name: &name, class: "messenger", ..TaskInfo::default() };
        sink.task(TaskId(id), &info);
    }
    let mut at = 0;
    for round in 0..ROUNDS {
        let (cpu, waker) = (CpuId(round % 8), CpuId((round + 3) % 8));
        let (task, other) = (TaskId(round % 64), TaskId((round + 8) % 64));
        at += 700;
        sink.event(at, waker, &Event::Waking { task, irq: false });
        sink.event(at + 100, waker, &Event::Wakeup { task, target: cpu });
        let prev = Running::Task(other);
        let next = Running::Task(task);
        sink.event(at + 200, cpu, &Event::Switch { prev, prev_state: PrevState::Sleeping, next });
        sink.event(at + 300, cpu, &Event::Switch { prev: next, prev_state: PrevState::Preempted, next: prev });
    }
    sink.finish(at + 1000);
}

fn events() -> ItemsCount {
    ItemsCount::new(4 * ROUNDS)
}

#[divan::bench]
fn digest(bencher: Bencher<'_, '_>) {
    bencher.counter(events()).bench_local(|| {
        let mut sink = Digest::default();
        feed(&mut sink);
        sink.value()
    });
}

#[divan::bench]
fn perfetto(bencher: Bencher<'_, '_>) {
    bencher.counter(events()).bench_local(|| {
        let mut sink = PerfettoWriter::new(Discard::default());
        feed(&mut sink);
        sink.finish_writing().map(|out| black_box(out.0)).ok()
    });
}

#[divan::bench]
fn perfetto_without_counters(bencher: Bencher<'_, '_>) {
    let options = PerfettoOptions { counters: false, slices: false, ..PerfettoOptions::default() };
    bencher.counter(events()).bench_local(|| {
        let mut sink = PerfettoWriter::with_options(Discard::default(), &options);
        feed(&mut sink);
        sink.finish_writing().map(|out| black_box(out.0)).ok()
    });
}

#[divan::bench]
fn perfetto_to_a_file(bencher: Bencher<'_, '_>) {
    let path = std::env::temp_dir().join(format!("vruntime-bench-{}.pftrace", std::process::id()));
    bencher.counter(events()).bench_local(|| -> io::Result<()> {
        let mut sink = PerfettoWriter::new(File::create(&path)?);
        feed(&mut sink);
        sink.finish_writing().map(drop)
    });
    // A missing file is fine.
    let _ = std::fs::remove_file(&path);
}

#[divan::bench]
fn ftrace_text(bencher: Bencher<'_, '_>) {
    bencher.counter(events()).bench_local(|| {
        let mut sink = FtraceWriter::new(Discard::default(), 8);
        feed(&mut sink);
        sink.finish_writing().map(|out| black_box(out.0)).ok()
    });
}

#[derive(Debug, Default)]
struct Discard(u64);

impl Write for Discard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += black_box(bytes).len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
