//! Messages of sockets.

use proptest::prelude::*;
use vruntime_workload::program::Room;

use super::*;

const SERVER: Named<'static> = Named { pid: 10, comm: b"server" };
const CLIENTS: [Named<'static>; 2] = [Named { pid: 20, comm: b"one" }, Named { pid: 30, comm: b"two" }];

/// The sockets of a client's connection: its own, and the server's.
const fn sockets(client: usize) -> (u64, u64) {
    (100 + client as u64, 200 + client as u64)
}

/// A server on CPU 0 and two clients, in the making. Each step takes 10 us.
struct Talk {
    script: Script,
    now: u64,
    /// Requests that the server has not read, and answers that each client has not read.
    requests: [u64; 2],
    answers: [u64; 2],
    sent: u64,
}

impl Talk {
    /// All run.
    fn new() -> Self {
        let mut script = Script::default();
        script.switch(0, 0, Left::Runnable, Some(SERVER));
        for client in [0, 1] {
            script.switch(0, client + 1, Left::Runnable, Some(CLIENTS[client]));
        }
        Self { script, now: 0, requests: [0; 2], answers: [0; 2], sent: 0 }
    }

    fn event(&mut self, cpu: usize, what: What<'static>) {
        self.now += 10 * US;
        self.script.event(self.now, cpu, what);
    }

    /// Sends a byte, and wakes the other if it sleeps.
    fn sends(&mut self, cpu: usize, socket: u64, other: (usize, Named<'static>)) {
        let wakes = self.script.running[other.0].is_none();
        if wakes {
            self.event(cpu, What::Woken { task: other.1, prio: 120 });
        }
        self.script.event(self.now + US, cpu, What::Sent { socket, bytes: 1 });
        self.now += 10 * US;
        if wakes {
            self.script.switch(self.now, other.0, Left::Runnable, Some(other.1));
        }
        self.sent += 1;
    }

    fn asks(&mut self, client: usize) {
        if self.script.running[client + 1].is_some() {
            self.sends(client + 1, sockets(client).0, (0, SERVER));
            self.requests[client] += 1;
        }
    }

    fn reads_request(&mut self, client: usize) {
        if self.requests[client] > 0 {
            self.requests[client] -= 1;
            self.event(0, What::Received { socket: sockets(client).1, bytes: 1 });
        }
    }

    fn answers(&mut self, client: usize) {
        if self.script.running[0].is_some() {
            self.sends(0, sockets(client).1, (client + 1, CLIENTS[client]));
            self.answers[client] += 1;
        }
    }

    fn reads_answer(&mut self, client: usize) {
        if self.answers[client] > 0 {
            self.answers[client] -= 1;
            self.event(client + 1, What::Received { socket: sockets(client).0, bytes: 1 });
        }
    }

    /// Sleeps, if nothing is there to read.
    fn sleeps(&mut self, cpu: usize) {
        let there = cpu.checked_sub(1).map_or_else(|| self.requests.iter().sum(), |client| self.answers[client]);
        if there == 0 && self.script.running[cpu].is_some() {
            self.now += 10 * US;
            self.script.switch(self.now, cpu, Left::Sleeping, None);
        }
    }

    /// A round: both clients ask the server while it sleeps. It reads both requests, and answers both.
    fn round(&mut self) {
        self.sleeps(0);
        self.asks(0);
        self.asks(1);
        self.sleeps(1);
        self.sleeps(2);
        self.reads_request(0);
        self.reads_request(1);
        self.answers(0);
        self.reads_answer(0);
        self.answers(1);
        self.reads_answer(1);
    }

    /// All read everything, and sleep.
    fn rests(&mut self) {
        for client in [0, 1] {
            while self.requests[client] > 0 {
                self.reads_request(client);
            }
            while self.answers[client] > 0 {
                self.reads_answer(client);
            }
        }
        (0..3).for_each(|cpu| self.sleeps(cpu));
    }

    fn finish(mut self) -> Recorded {
        self.script.recorder.goes_on_until(self.now + 10 * US);
        self.script.recorder.with_messages().finish(&Lateness::default())
    }
}

fn count(recorded: &Recorded, pid: i32, is: impl Fn(&Op) -> bool) -> usize {
    ops(recorded, pid).iter().filter(|op| is(op)).count()
}

fn is_possible(recorded: &Recorded) -> bool {
    possible::stuck(&recorded.workload, recorded.first_link).is_empty()
}

fn is_wait(op: &Op) -> bool {
    matches!(op, Op::InboxWait { .. })
}

/// The second request arrives while the server is awake, so no wakeup shows it.
#[test]
fn a_message_to_an_awake_thread_is_waited_for() {
    let mut talk = Talk::new();
    (0..20).for_each(|_| talk.round());
    let recorded = talk.finish();
    assert_eq!(recorded.counts.messages, 80);
    assert!(is_possible(&recorded));
    assert_eq!(count(&recorded, SERVER.pid, is_wait), 40);
    assert_eq!(count(&recorded, CLIENTS[0].pid, is_wait), 20);
}

/// With one request there, the server answers it alone.
#[test]
fn a_thread_that_reads_all_first_puts_its_answers_off() {
    let mut talk = Talk::new();
    (0..20).for_each(|_| talk.round());
    let recorded = talk.finish();
    let server = ops(&recorded, SERVER.pid);
    let put_off = |op: &Op| matches!(op, Op::PutOff { .. });
    // Nothing follows the last.
    assert_eq!(server.iter().filter(|op| put_off(op)).count(), 39);
    for (at, _) in server.iter().enumerate().filter(|(_, op)| is_wait(op)) {
        let answer: Vec<&Op> = server[at + 1..].iter().take_while(|op| !is_wait(op)).collect();
        let sends = answer.iter().filter(|op| matches!(op, Op::InboxWake { .. })).count();
        assert_eq!(sends, 1, "after {at}: {answer:?}");
    }
    let client = ops(&recorded, CLIENTS[0].pid);
    assert!(!client.iter().any(put_off), "{client:?}");
}

/// A thread answers the first of two messages later, after others (`pgbench` at the end of a transaction). The answer
/// does not wait for the others.
#[test]
fn an_answer_after_other_messages_is_of_its_own_message() {
    let mut talk = Talk::new();
    for round in 0..44 {
        if round % 11 < 10 {
            talk.round();
            continue;
        }
        talk.asks(0);
        talk.asks(1);
        talk.reads_request(0);
        for _ in 0..2 {
            talk.reads_request(1);
            talk.answers(1);
            talk.reads_answer(1);
            talk.asks(1);
        }
        talk.reads_request(1);
        talk.answers(1);
        talk.answers(0);
        talk.reads_answer(1);
        talk.reads_answer(0);
    }
    let recorded = talk.finish();
    assert!(is_possible(&recorded));
    let server = ops(&recorded, SERVER.pid);
    // The inboxes of the answers to each client.
    let (mut last, mut sent) = (None, BTreeMap::<usize, BTreeSet<usize>>::new());
    for op in &server {
        match *op {
            Op::InboxWait { from, .. } => last = Some(from),
            Op::InboxWake { inbox, .. } => {
                sent.entry(last.expect("requests come first")).or_default().insert(inbox);
            }
            _ => {}
        }
    }
    assert_eq!(sent.len(), 2);
    assert!(sent.values().all(|inboxes| inboxes.len() == 1), "{sent:?}");
}

/// Threads that serve messages wake each other for locks. In another order of events, they contend at other places.
#[test]
fn a_thread_that_serves_messages_does_not_wait_for_the_wakeups_of_another() {
    let mut talk = Talk::new();
    for round in 0..60 {
        talk.round();
        if round == 30 {
            talk.sleeps(2);
            talk.event(1, What::Woken { task: CLIENTS[1], prio: 120 });
            talk.script.switch(talk.now + 10 * US, 2, Left::Runnable, Some(CLIENTS[1]));
            talk.now += 10 * US;
        }
    }
    let recorded = talk.finish();
    let inbox = |pid| {
        ops(&recorded, pid).iter().find_map(|op| if let Op::InboxWait { inbox, .. } = *op { Some(inbox) } else { None })
    };
    let other = inbox(CLIENTS[1].pid).expect("it takes messages");
    let wakes = |op: &Op| matches!(*op, Op::InboxWake { inbox, .. } if inbox == other);
    assert_eq!(count(&recorded, CLIENTS[0].pid, wakes), 0);
    assert_eq!(count(&recorded, SERVER.pid, wakes), 60);
    let sleeps = |op: &Op| matches!(op, Op::SleepUntil { .. } | Op::Sleep { .. } | Op::Device { .. });
    assert_eq!(count(&recorded, CLIENTS[1].pid, sleeps), 1);
}

/// A stretch costs 20 us and 30 us for each request.
#[test]
fn the_work_for_a_sleep_does_not_depend_on_the_messages() {
    let mut script = Script::default();
    let (own, servers) = sockets(0);
    let mut at = 100 * US;
    for round in 0..100 {
        let count = 1 + round % 3;
        script.wake(at - 20 * US, 1, CLIENTS[0]).switch(at - 10 * US, 1, Left::Runnable, Some(CLIENTS[0]));
        script.wake(at, 1, SERVER).event(at + US, 1, What::Sent { socket: own, bytes: 5 });
        for more in 1..count {
            script.event(at + US + more, 1, What::Sent { socket: own, bytes: 5 });
        }
        script.switch(at + 5 * US, 1, Left::Sleeping, None);
        script.switch(at + 10 * US, 0, Left::Runnable, Some(SERVER));
        for message in 0..count {
            let read = at + 20 * US + message * 30 * US;
            script.event(read, 0, What::Received { socket: servers, bytes: 5 });
        }
        script.switch(at + 30 * US + count * 30 * US, 0, Left::Sleeping, None);
        at += 500 * US;
    }
    let recorded = script.recorder.with_messages().finish(&Lateness::default());
    let server = ops(&recorded, SERVER.pid);
    let costs = |op: &Op| if let Op::RunIfSlept { work, .. } = *op { Some(work) } else { None };
    assert!(server.iter().filter_map(costs).all(|work| work == 20 * US), "{server:?}");
    assert_eq!(count(&recorded, SERVER.pid, is_wait), 199);
    // A sleep's work is not done twice.
    let alone: Vec<u64> =
        server.iter().filter_map(|op| if let Op::Run { work } = *op { Some(work) } else { None }).collect();
    let recorded_ns = recorded.threads.iter().find(|thread| thread.pid == SERVER.pid).expect("it ran").cpu_ns;
    assert_eq!(alone.iter().sum::<u64>() + 100 * 20 * US, recorded_ns);
}

/// Threads of Go take requests from any socket. A message to a particular thread would hold up the others' work.
#[test]
fn a_socket_from_which_several_threads_receive_has_no_messages() {
    let readers = [(0, SERVER), (2, CLIENTS[1])];
    let messages = |others: usize| {
        let mut talk = Talk::new();
        (0..3).for_each(|cpu| talk.sleeps(cpu));
        talk.script.switch(talk.now, 1, Left::Runnable, Some(CLIENTS[0]));
        for round in 0..40 {
            let reader = readers[usize::from(round % 8 < others)];
            talk.sends(1, 100, reader);
            talk.event(reader.0, What::Received { socket: 200, bytes: 1 });
            talk.sleeps(reader.0);
        }
        let counts = talk.finish().counts;
        (counts.messages, counts.shared_sockets)
    };
    assert_eq!(messages(0), (40, 0));
    assert_eq!(messages(4), (0, 1));
}

/// If threads of a process share most of its data, a connection is one thread's by chance.
#[test]
fn a_process_whose_threads_share_their_sockets_has_no_messages() {
    let mate = Named { pid: 11, ..SERVER };
    let messages = |own: usize| {
        let mut talk = Talk::new();
        (0..3).for_each(|cpu| talk.sleeps(cpu));
        talk.script.switch(talk.now, 1, Left::Runnable, Some(CLIENTS[0]));
        let shared = (0..40).map(|round| (200, [(0, SERVER), (2, mate)][round % 2]));
        for (socket, reader) in shared.chain(std::iter::repeat_n((201, (0, SERVER)), own)) {
            talk.sends(1, socket - 100, reader);
            talk.event(reader.0, What::Received { socket, bytes: 1 });
            talk.sleeps(reader.0);
        }
        talk.finish().counts.messages
    };
    assert_eq!(messages(60), 60);
    assert_eq!(messages(30), 0);
}

/// One's request ends the server's sleep, and the server reads that of two first. This wakeup is the only sign of
/// which sockets are connected. Another task would wait for ever, so the replay leaves that connection out.
#[test]
fn a_connection_that_a_wakeup_shows_wrongly_is_impossible() {
    let mut talk = Talk::new();
    talk.answers(0);
    talk.sleeps(0);
    talk.reads_answer(0);
    talk.asks(0);
    talk.asks(1);
    talk.reads_request(1);
    talk.answers(1);
    talk.rests();
    assert!(!is_possible(&talk.finish()));
}

/// The buffer has room for ten messages. The sender sleeps when it is full, and wakes when two are left.
#[test]
fn a_sender_sleeps_when_the_buffer_is_full() {
    let recorded = |fills: &dyn Fn(u64) -> u64| {
        let mut talk = Talk::new();
        (0..3).for_each(|_| talk.round());
        (0..2).for_each(|_| talk.asks(0));
        for round in 0..30 {
            let count = fills(round);
            (0..count).for_each(|_| talk.asks(0));
            talk.sleeps(1);
            (0..count).for_each(|_| talk.reads_request(0));
            talk.event(0, What::Woken { task: CLIENTS[0], prio: 120 });
            talk.now += 10 * US;
            talk.script.switch(talk.now, 1, Left::Runnable, Some(CLIENTS[0]));
        }
        talk.asks(0);
        talk.rests();
        talk.finish()
    };
    let full = recorded(&|_| 8);
    assert_eq!(full.workload.rooms.values().copied().collect::<Vec<_>>(), [Room { most: 10, few: 2 }]);
    // It waits for the answers of the rounds, and the server only sends these.
    assert_eq!(count(&full, CLIENTS[0].pid, is_wait), 3);
    assert_eq!(count(&full, SERVER.pid, |op| matches!(op, Op::InboxWake { .. })), 6);
    assert!(is_possible(&full));
    // Something else makes it wait.
    let other = recorded(&|round| 2 + 3 * (round % 5));
    assert!(other.workload.rooms.is_empty());
    assert!(count(&other, CLIENTS[0].pid, is_wait) > 20);
}

/// A failed or repeated look at data is no message.
#[test]
fn sockets_without_a_partner_have_no_messages() {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, Some(SERVER));
    for round in 1..50 {
        script.event(round * MS, 0, What::Sent { socket: 7, bytes: 10 });
    }
    let recorded = script.recorder.with_messages().finish(&Lateness::default());
    assert_eq!(recorded.counts.messages, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Whatever the order of messages, each is sent and waited for, and no thread waits for ever. The rounds show which
    /// sockets are connected: a single wakeup can be for another message than the first one read.
    #[test]
    fn every_recorded_order_is_possible(steps in prop::collection::vec((0..5_u8, 0..2_usize), 1..200)) {
        let mut talk = Talk::new();
        (0..3).for_each(|_| talk.round());
        for (step, client) in steps {
            match step {
                0 => talk.asks(client),
                1 => talk.reads_request(client),
                2 => talk.answers(client),
                3 => talk.reads_answer(client),
                _ => {
                    talk.sleeps(0);
                    talk.sleeps(client + 1);
                }
            }
        }
        talk.rests();
        let sent = talk.sent;
        let recorded = talk.finish();
        prop_assert!(is_possible(&recorded));
        prop_assert!(recorded.counts.messages <= sent);
        let mut balance = BTreeMap::<(usize, usize), i64>::new();
        for task in &recorded.workload.tasks {
            for op in task.phases.iter().flat_map(|phase| &phase.ops) {
                match *op {
                    Op::InboxWake { inbox, from, .. } => *balance.entry((inbox, from)).or_default() += 1,
                    Op::InboxWait { inbox, from } => *balance.entry((inbox, from)).or_default() -= 1,
                    _ => {}
                }
            }
        }
        prop_assert!(balance.values().all(|left| *left >= 0), "{:?}", balance);
    }
}
