//! Cost of collecting results, compared with a sink that only hashes the events.
//!
//! `cargo bench -p vruntime-report`. The events are those of 8 CPUs that pass messages among `TASKS` tasks: waking,
//! wakeup, switch in, switch out. Time is per event.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use vruntime_report::Collector;
use vruntime_trace::{
    CpuId, CpuMask, Digest, DomainInfo, Event, MachineInfo, PrevState, Running, Sink, TaskId, TaskInfo,
};

const ROUNDS: u32 = 100_000;

fn main() {
    divan::main();
}

fn announce(sink: &mut impl Sink, tasks: u32) {
    for id in 0..tasks {
        let name = format!("messenger-{id}");
        sink.task(TaskId(id), &TaskInfo { name: &name, class: "messenger", ..TaskInfo::default() });
    }
}

fn feed(sink: &mut impl Sink, tasks: u32) {
    let idle = Running::Idle;
    for round in 0..ROUNDS {
        let at = u64::from(round) * 700;
        let (cpu, waker) = (CpuId(round % 8), CpuId((round + 3) % 8));
        let task = TaskId(round.wrapping_mul(2_654_435_761) % tasks);
        let next = Running::Task(task);
        sink.event(at, waker, &Event::Waking { task, irq: false });
        sink.event(at + 100, waker, &Event::Wakeup { task, target: cpu });
        sink.event(at + 200, cpu, &Event::Switch { prev: idle, prev_state: PrevState::Preempted, next });
        sink.event(at + 300, cpu, &Event::Switch { prev: next, prev_state: PrevState::Sleeping, next: idle });
    }
}

#[divan::bench(args = [64, 1_000, 100_000])]
fn collector(bencher: Bencher<'_, '_>, tasks: u32) {
    let mut collector = Collector::new(8);
    let domains = [DomainInfo {
        span: CpuMask::all(8),
        members: CpuMask::all(8),
        interval_ns: 16_000_000,
        ..DomainInfo::default()
    }];
    collector.machine(&MachineInfo { cpus: 8, tick_ns: 4_000_000, domains: &domains, energy: None });
    announce(&mut collector, tasks);
    bencher.counter(ItemsCount::new(4 * ROUNDS)).bench_local(|| feed(black_box(&mut collector), tasks));
}

#[divan::bench(args = [64])]
fn digest(bencher: Bencher<'_, '_>, tasks: u32) {
    let mut digest = Digest::default();
    bencher.counter(ItemsCount::new(4 * ROUNDS)).bench_local(|| feed(black_box(&mut digest), tasks));
}
