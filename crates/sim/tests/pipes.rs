//! Wakeups at pipes and sockets with several waiters.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const fn write(bytes: u32) -> Op {
    Op::PipeWrite { pipe: 0, bytes }
}

const fn read(bytes: u32) -> Op {
    Op::PipeRead { pipe: 0, bytes }
}

/// Runs each of `programs`, named `t0`, `t1`, ..., on its own CPU, with one pipe or socket.
fn on_own_cpus(kind: Channel, capacity: u32, programs: &[&[Op]]) -> Log {
    let tasks = programs.iter().enumerate();
    let tasks = tasks.map(|(cpu, ops)| pinned(once(&format!("t{cpu}"), ops.to_vec()), &[cpu as u32])).collect();
    let mut workload = workload(tasks);
    workload.pipes = vec![Pipe { name: "p".to_owned(), capacity, kind }];
    let mut log = Log::default();
    simulate(&workload, &exact("6.12", &programs.len().to_string()), &mut log).unwrap();
    log
}

fn ends(log: &Log) -> Vec<Option<u64>> {
    (0..log.names.len()).map(|index| log.exit(&format!("t{index}")).map(|ns| ns / US)).collect()
}

/// A read page has room for both: the reader wakes one writer, which wakes the other.
#[test]
fn a_writer_that_was_woken_wakes_the_next() {
    let fills = [write(1000), write(1000), write(1000), write(1000), run(1)];
    let writes = [run(10), write(1000), run(1)];
    let log = on_own_cpus(Channel::Pipe, 4096, &[&fills, &writes, &writes, &[run(100), read(4000)]]);
    assert_eq!(ends(&log), [Some(1), Some(101), Some(101), Some(100)]);
}

/// Two messages at once for two readers: the writer wakes the first, which wakes the second.
#[test]
fn a_write_to_a_pipe_with_unread_data_wakes_no_reader() {
    let reads = [read(100), run(1)];
    let log = on_own_cpus(Channel::Pipe, 4096, &[&reads, &reads, &[run(50), write(100), write(100)]]);
    let wakeups: Vec<(u32, u32)> = log
        .events
        .iter()
        .filter_map(|(_, by, event)| match event {
            Event::Wakeup { task, .. } => Some((by.0, task.0)),
            _ => None,
        })
        .collect();
    assert_eq!(wakeups, [(2, 0), (0, 1)]);
}

/// Writers wait for more than the room of one message.
#[test]
fn the_writers_of_a_socket_wait_for_three_quarters() {
    let writes = [write(100), write(100), write(100), write(100), write(100)];
    let reads = [run(50), read(100), run(50), read(100), run(50), read(100), run(50), read(100), read(100)];
    let log = on_own_cpus(Channel::Socket, 400, &[&writes, &reads]);
    assert_eq!(ends(&log), [Some(150), Some(200)]);
}

#[test]
fn sockets_are_cold_by_what_is_in_sockets() {
    let length = |unread| {
        let message = |pipe| [Op::PipeWrite { pipe, bytes: 1 }, Op::PipeRead { pipe, bytes: 1 }];
        let fill = phase(vec![message(0)[0].clone()], Repeat::Times(unread));
        let mut all = workload(vec![task("t", vec![fill, phase(message(1).to_vec(), Repeat::Times(1))])]);
        let channel = |kind| Pipe { name: "p".to_owned(), capacity: 10_000, kind };
        all.pipes = vec![channel(Channel::Pipe), channel(Channel::Socket)];
        let mut config = exact("6.12", "1");
        config.machine.costs.cold_socket_ns = 1024;
        simulate(&all, &config, &mut NoSink).unwrap().end
    };
    // The read finds its own message.
    assert_eq!((length(0), length(100)), (1, 1));
}
