//! Benchmarks of messages: `lat_ctx`, `pipe-test`, `hackbench`, `stress-ng --pipe`.

use std::ops::RangeInclusive;

use super::args::Args;
use super::{MOST, ModelError, S, of_one_process, phase, program, task};
use crate::program::{Barrier, Channel, Op, Pipe, Repeat, Workload};

/// Bytes that a pipe of Linux holds.
const PIPE: u32 = 65_536;
/// hackbench's bytes that a stream socket holds: each message takes 768 of its 212992 bytes.
const SOCKET: u32 = 212_992 * MESSAGE / 768;
/// Bytes of hackbench's message.
const MESSAGE: u32 = 100;
/// Senders, and receivers, of a group of hackbench.
const FDS: u64 = 20;

fn pipe(name: String) -> Pipe {
    Pipe { name, capacity: PIPE, kind: Channel::Pipe }
}

fn socket(name: String) -> Pipe {
    Pipe { name, capacity: SOCKET, kind: Channel::Socket }
}

/// A byte circulates in a ring. The task that has it reads an array.
pub(super) fn lat_ctx(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let kib = args.option("-s", 0..=1 << 20)?.unwrap_or(0);
    let tasks = args.number("N", 2..=MOST)? as usize;
    let link = |index: usize| index % tasks;
    let work = (kib > 0).then_some(Op::Mem { bytes: kib << 10 });
    let ring = (0..tasks).map(|index| {
        let read = Op::PipeRead { pipe: index, bytes: 1 };
        let write = Op::PipeWrite { pipe: link(index + 1), bytes: 1 };
        // The first task begins.
        let ops =
            if index == 0 { [Some(write), Some(read), work.clone()] } else { [Some(read), work.clone(), Some(write)] };
        let program = program(ops.into_iter().flatten().collect(), Repeat::Forever);
        task("lat_ctx", Some(index as u64), &program)
    });
    Ok(Workload {
        tasks: ring.collect(),
        pipes: (0..tasks).map(|index| pipe(format!("ring-{index}"))).collect(),
        duration: Some(S),
        ..Workload::default()
    })
}

/// Two tasks answer each other.
pub(super) fn pipe_test(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    const INT: u32 = 4;
    let loops = if args.is_empty() { None } else { Some(args.number("LOOPS", 1..=1 << 32)?) };
    let repeat = loops.map_or(Repeat::Forever, Repeat::Times);
    let write = |pipe| Op::PipeWrite { pipe, bytes: INT };
    let read = |pipe| Op::PipeRead { pipe, bytes: INT };
    let parent = program(vec![write(0), read(1)], repeat);
    let child = program(vec![read(0), write(1)], repeat);
    Ok(Workload {
        tasks: vec![task("pipe-test", Some(0), &parent), task("pipe-test", Some(1), &child)],
        pipes: vec![pipe("there".to_owned()), pipe("back".to_owned())],
        duration: loops.is_none().then_some(S),
        ..Workload::default()
    })
}

/// Groups of senders and receivers. All wait for each other to start, and end after all messages.
pub(super) fn hackbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    // The old form has its words in order, that of rt-tests has options.
    let pipes = ["-pipe", "--pipe", "-p"].map(|name| args.flag(name)).contains(&true);
    let processes = ["process", "--process", "-P"].map(|name| args.flag(name)).contains(&true);
    let threads = ["thread", "--threads", "-T"].map(|name| args.flag(name)).contains(&true);
    if processes && threads {
        return Err(args.wrong("it is either `process` or `thread`".to_owned()));
    }
    let mut either = |long, short, range: RangeInclusive<u64>| match args.option(long, range.clone())? {
        None => args.option(short, range),
        some => Ok(some),
    };
    let fds = either("--fds", "-f", 1..=MOST / 2)?.unwrap_or(FDS) as usize;
    let bytes = either("--datasize", "-s", 1..=1 << 20)?.unwrap_or(MESSAGE.into()) as u32;
    let most = MOST / (2 * fds as u64);
    let loops = either("--loops", "-l", 1..=1 << 32)?;
    let groups = either("--groups", "-g", 1..=most)?;
    let (groups, loops) = match (groups, loops) {
        // Without groups, rt-tests' program makes 10.
        (None, Some(loops)) if args.is_empty() => (most.min(10), loops),
        (groups, loops) => {
            let groups = groups.map_or_else(|| args.number("GROUPS", 1..=most), Ok)?;
            let last = if args.is_empty() { 100 } else { args.number("LOOPS", 1..=1 << 32)? };
            (groups, loops.unwrap_or(last))
        }
    };
    let groups = groups as usize;
    // What a socket holds depends on the size of a message, with the kernel's 668 bytes for each.
    let held = if bytes == MESSAGE { SOCKET } else { (212_992 / (u64::from(bytes) + 668)).max(1) as u32 * bytes };
    let channel = |name| if pipes { pipe(name) } else { Pipe { capacity: held, ..socket(name) } };
    let mut workload = Workload {
        barriers: vec![Barrier { name: "ready".to_owned(), parties: (2 * fds * groups) as u32, locked: false }],
        ..Workload::default()
    };
    let ready = || phase(vec![Op::Barrier(0)], Repeat::Times(1));
    for group in 0..groups {
        let first = group * fds;
        let number = |index: usize| Some((first + index) as u64);
        for index in 0..fds {
            workload.pipes.push(channel(format!("{group}-{index}")));
            let read = Op::PipeRead { pipe: first + index, bytes };
            let receiver = [ready(), phase(vec![read], Repeat::Times(loops.saturating_mul(fds as u64)))].into();
            workload.tasks.push(task("hackbench-receiver", number(index), &receiver));
        }
        let sends = (0..fds).map(|to| Op::PipeWrite { pipe: first + to, bytes });
        let sender = [ready(), phase(sends.collect(), Repeat::Times(loops))].into();
        workload.tasks.extend((0..fds).map(|index| task("hackbench-sender", number(index), &sender)));
    }
    if threads {
        of_one_process(&mut workload);
    }
    Ok(workload)
}

/// Pairs of a writer and a reader, with pipes of packets: each of the 16 pages holds one message. The writer computes
/// before each message.
pub(super) fn stress_ng(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    // 20.3 s of user time for 46.8 million messages of 512 bytes (lkml, 18 April 2026).
    const USER_NS_IN_512: u64 = 434;
    let bytes = args.option("--pipe-data-size", 8..=4096)?.unwrap_or(512);
    let timeout = args.option("--timeout", 1..=86_400)?.unwrap_or(10);
    let Some(pairs) = args.option("--pipe", 1..=MOST / 2)? else {
        return Err(args.wrong("`--pipe N` is missing, the only stressor known".to_owned()));
    };
    let (make, bytes) = (Op::Run { work: bytes * USER_NS_IN_512 / 512 }, bytes as u32);
    let mut workload = Workload { duration: Some(timeout * S), ..Workload::default() };
    for pipe_index in 0..pairs as usize {
        let write = vec![make.clone(), Op::PipeWrite { pipe: pipe_index, bytes }];
        let read = vec![Op::PipeRead { pipe: pipe_index, bytes }];
        let (write, read) = (program(write, Repeat::Forever), program(read, Repeat::Forever));
        workload.pipes.push(Pipe { kind: Channel::Packets, ..pipe(format!("stress-{pipe_index}")) });
        workload.tasks.push(task("stress-ng-writer", Some(pipe_index as u64), &write));
        workload.tasks.push(task("stress-ng-reader", Some(pipe_index as u64), &read));
    }
    Ok(workload)
}
