//! Replays of traces with messages of sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use vruntime_replay::{ReadOptions, Recording, Replay, Setup};

const NAMES: [&str; 5] = ["swapper", "client", "server", "one", "two"];
const PIDS: [u32; 5] = [0, 11, 12, 13, 14];

/// Rounds of 100 us. A client on CPU 0 sends two messages to a server on CPU 1, and sleeps. The server is awake when
/// the second arrives. It receives both, of `received` bytes each, and answers both.
fn trace(rounds: u64, received: u64) -> String {
    written(rounds, received, false)
}

/// As [`trace`]. With `race`, two more tasks run: each seems to receive a message before the other sends it.
fn written(rounds: u64, received: u64, race: bool) -> String {
    let mut lines = Vec::new();
    for round in 0..rounds {
        let mut add =
            |us: u64, cpu: usize, task: usize, event: String| lines.push((round * 100 + us, cpu, task, event));
        let waking = |task: usize| {
            format!("sched_waking: comm={} pid={} prio=120 target_cpu=00{}", NAMES[task], PIDS[task], task - 1)
        };
        let moved = |which: &str, socket: u64, length: u64| {
            let head = format!("sock_{which}_length: sk address = {socket:016x}, family = AF_INET");
            format!("{head} protocol = IPPROTO_TCP, length = {length}, error = 0, flags = 0x0")
        };
        let switch = |prev: usize, state: &str, next: usize| {
            let next = format!("next_comm={} next_pid={} next_prio=120", NAMES[next], PIDS[next]);
            format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> {next}",
                NAMES[prev], PIDS[prev]
            )
        };
        add(10, 0, 1, waking(2));
        add(11, 0, 1, moved("send", 0xa1, 50));
        add(12, 1, 0, switch(0, "R", 2));
        add(15, 0, 1, moved("send", 0xa1, 50));
        add(16, 0, 1, switch(1, "S", 0));
        add(20, 1, 2, moved("recv", 0xb2, received));
        add(30, 1, 2, moved("recv", 0xb2, received));
        add(40, 1, 2, waking(1));
        add(41, 1, 2, moved("send", 0xb2, 5));
        add(42, 0, 0, switch(0, "R", 1));
        add(45, 1, 2, moved("send", 0xb2, 5));
        add(46, 1, 2, switch(2, "S", 0));
        add(50, 0, 1, moved("recv", 0xa1, 5));
        add(55, 0, 1, moved("recv", 0xa1, 5));
        if race {
            add(8, 2, 0, waking(3));
            add(9, 2, 0, switch(0, "R", 3));
            add(10, 2, 3, waking(4));
            add(11, 2, 3, moved("send", 0xc3, 1));
            add(12, 3, 0, switch(0, "R", 4));
            add(13, 3, 4, moved("recv", 0xd4, 1));
            add(20, 2, 3, moved("recv", 0xc3, 1));
            add(22, 2, 3, moved("send", 0xc3, 1));
            add(24, 3, 4, moved("recv", 0xd4, 1));
            add(25, 3, 4, moved("send", 0xd4, 1));
            add(30, 3, 4, switch(4, "S", 0));
            add(31, 2, 3, switch(3, "S", 0));
        }
    }
    lines.sort_by_key(|line| line.0);
    let mut text = String::new();
    for (us, cpu, task, event) in lines {
        let (name, pid) = if task == 0 { ("<idle>", 0) } else { (NAMES[task], PIDS[task]) };
        let _ = writeln!(text, "{name:>16}-{pid} [00{cpu}] d..2. 0.{us:06}: {event}");
    }
    text
}

fn open(trace: &str) -> Recording {
    Recording::from_bytes("messages.txt", trace.as_bytes(), &ReadOptions::default()).expect("it is whole")
}

#[test]
fn what_ifs_have_messages() {
    let recording = open(&trace(2_000, 50));
    let replay = Replay::new(&recording, &Setup::default()).expect("it has tasks");
    let (recorded, choice) = replay.going_on(BTreeSet::new(), BTreeMap::new());
    assert!(choice.messages, "{choice:?}");
    // The client is unknown when it sends its first two.
    assert_eq!((recorded.counts.messages, recorded.counts.left_out_connections), (7_998, 0));
    // The replay as recorded has tried both.
    let tried: BTreeSet<bool> = replay.choice.tried.iter().map(|tried| tried.messages).collect();
    assert_eq!(tried, BTreeSet::from([false, true]));
}

/// The server receives more than the client sends, and the client as much as the server sends.
#[test]
fn sockets_with_other_bytes_are_not_connected() {
    let recording = open(&trace(2_000, 80));
    let replay = Replay::new(&recording, &Setup::default()).expect("it has tasks");
    let (recorded, _) = replay.going_on(BTreeSet::new(), BTreeMap::new());
    assert_eq!((recorded.counts.messages, recorded.counts.left_out_connections), (4_000, 0));
}

/// A task cannot wait for a message before the send that the other does only after it. The rest keeps its messages.
#[test]
fn a_connection_that_stalls_its_tasks_is_left_out() {
    let recording = open(&written(2_000, 50, true));
    let replay = Replay::new(&recording, &Setup::default()).expect("it has tasks");
    let (recorded, choice) = replay.going_on(BTreeSet::new(), BTreeMap::new());
    assert!(choice.messages, "{choice:?}");
    assert_eq!((recorded.counts.messages, recorded.counts.left_out_connections), (7_998, 1));
}
