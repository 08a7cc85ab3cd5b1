//! Requests and replies that only wakeups show: of pipes, futexes and event counters.
//!
//! A worker works for a request, replies, and sleeps until the next. Its server wakes it in answer to the reply: right
//! after the reply has woken the server. So the server awaited the reply, also where it was awake and no wakeup shows
//! it. It may serve other workers meanwhile. Then one wakeup of the server precedes its answers to several workers, and
//! a replay by wakeups would not wait for one that is late.
//!
//! Such pairs get a connection, with a message of one byte for each reply and each request.

use std::collections::{BTreeMap, BTreeSet};

use super::causes;
use super::habits::percentile;
use super::progress::Progress;
use super::sessions::is_kernel_thread;
use super::threads::{Act, End, Place, Stretch, Thread, Transfer, Waker};

/// Fewer sleeps show no exchange.
const FEWEST: usize = 50;
/// The least percentage of a worker's sleeps that the server must end. Others may be for locks.
const BY_SERVER_PCT: usize = 80;
/// The least percentage of the worker's wakeups of the server that it must answer before it sleeps.
const ANSWERED_PCT: usize = 90;
/// The least percentage of requests that must answer a reply that woke the server. Two threads of a pool that rarely
/// sleep have 5 (x264) and 16 (Erlang), workers of Node.js 50 to 70. It excludes threads of Ruby at a queue, too.
const AFTER_WAKEUP_PCT: usize = 25;
/// A worker sleeps after its reply: it works on for at most this long, or for a fifth of its work. In the middle, it is
/// 2 to 12 % for workers of Node.js and ffmpeg. It is 25 % (30 us) for Erlang, whose threads look for other work. A
/// worker that works longer has found another request without a sleep.
const AT_ONCE_NS: u64 = 10_000;
/// The greatest percentage of a worker's sleeps that may begin while the server sleeps on: without a reply. Threads of
/// Node.js share one event counter, and the wakeup for all of them. They have 10 to 15, and 26 in one recording, whose
/// exchange is missed. Of 342 recordings, this bound excludes no other.
const WITHOUT_REPLY_PCT: usize = 20;

/// The messages of all exchanges, in order of time, and the connected sockets.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    pub(super) transfers: Vec<Transfer>,
    pub(super) peers: BTreeMap<usize, usize>,
    pub(super) workers: BTreeSet<usize>,
}

impl Exchanges {
    /// Finds the exchanges of threads that take none of `transfers`. Their sockets have numbers from `first` on.
    pub(super) fn new(threads: &[Thread], transfers: &[Transfer], first: usize) -> Self {
        let readers: BTreeSet<usize> = transfers
            .iter()
            .filter(|transfer| !transfer.sent)
            .filter_map(|transfer| Some(transfer.place?.thread))
            .collect();
        let mut servers: BTreeMap<usize, Vec<Pair>> = BTreeMap::new();
        for worker in (0..threads.len()).filter(|worker| !readers.contains(worker)) {
            if let Some(pair) = Pair::find(threads, worker).filter(|pair| !readers.contains(&pair.server)) {
                servers.entry(pair.server).or_default().push(pair);
            }
        }
        // A coupling knows how closely two threads stay together. It cannot tell several workers apart.
        servers.retain(|_, pairs| pairs.len() > 1);
        let mut this = Self::default();
        for (&server, pairs) in &servers {
            let progress = Progress::new(&threads[server]);
            // Of two threads that answer each other, one is the worker.
            for pair in pairs.iter().filter(|pair| pair.worker < server || !answers(&servers, pair)) {
                this.add(threads, pair, &progress, first);
            }
        }
        this.transfers.sort_by_key(|transfer| transfer.at);
        this
    }

    fn add(&mut self, threads: &[Thread], pair: &Pair, progress: &Progress, first: usize) {
        let &Pair { worker, server, .. } = pair;
        let (its, servers) = (first + 2 * worker, first + 2 * worker + 1);
        self.peers.extend([(its, servers), (servers, its)]);
        self.workers.insert(worker);
        let mut add = |at, place, socket, sent| {
            self.transfers.push(Transfer { at, place: Some(place), socket, bytes: 1, sent });
        };
        let after = pair.after_reply(threads);
        for &Answer { stretch, of_server, done } in &pair.answers {
            let (before, woken) = (&threads[worker].stretches[stretch - 1], threads[worker].stretches[stretch].woken);
            let (replied, from) = match reply(before, server) {
                Some((done, reply)) => (threads[server].stretches[reply].woken, done),
                None => (before.ended.min(woken), before.work.saturating_sub(after)),
            };
            add(replied, Place { thread: worker, stretch: stretch - 1, done: from }, its, true);
            let Stretch { began, acts, .. } = &threads[server].stretches[of_server];
            // A server handles one reply after the other. It takes the next when it has answered the last.
            let is_this =
                |act: &Act| matches!(act, Act::Wake { thread, stretch: of } if (*thread, *of) == (worker, stretch));
            let earlier = acts.iter().take_while(|(_, act)| !is_this(act));
            let answered = earlier.filter(|(_, act)| matches!(act, Act::Wake { .. })).last();
            let (from, last) = answered.map_or((0, *began), |&(done, act)| (done, causes::time(threads, act)));
            let until = progress.work(*began, replied.max(last).min(woken)).max(from).min(done);
            // After that answer, which has the same place.
            let taken = replied.max(last + 1).min(woken);
            add(taken, Place { thread: server, stretch: of_server, done: until }, servers, false);
            add(woken, Place { thread: server, stretch: of_server, done }, servers, true);
            add(woken, Place { thread: worker, stretch, done: 0 }, its, false);
        }
    }
}

/// Whether the server of a pair is a worker of its worker.
fn answers(servers: &BTreeMap<usize, Vec<Pair>>, pair: &Pair) -> bool {
    servers.get(&pair.worker).is_some_and(|others| others.iter().any(|other| other.worker == pair.server))
}

/// A worker and its server.
#[derive(Debug)]
struct Pair {
    worker: usize,
    server: usize,
    answers: Vec<Answer>,
}

/// A wakeup of a worker by its server.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// The worker's stretch after it.
    stretch: usize,
    /// The server's stretch, and its work before.
    of_server: usize,
    done: u64,
}

impl Pair {
    /// Returns the server that a thread works for, if it replies to it.
    fn find(threads: &[Thread], worker: usize) -> Option<Self> {
        let stretches = &threads[worker].stretches;
        if stretches.len() <= FEWEST || is_kernel_thread(&threads[worker].comm) {
            return None;
        }
        let mut wakers: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for pair in stretches.windows(2).filter(|pair| pair[0].end == End::Sleep) {
            *wakers.entry(waker(&pair[1])).or_default() += 1;
        }
        let sleeps: usize = wakers.values().sum();
        let (server, wakeups) = wakers.into_iter().max_by_key(|(_, wakeups)| *wakeups)?;
        let server = server.filter(|&server| server != worker && wakeups >= FEWEST)?;
        let of_server = &threads[server].stretches;
        if wakeups * 100 < sleeps * BY_SERVER_PCT || is_kernel_thread(&threads[server].comm) {
            return None;
        }
        let mut answers = Vec::with_capacity(wakeups);
        for (number, stretch) in of_server.iter().enumerate() {
            for &(done, act) in &stretch.acts {
                if let Act::Wake { thread, stretch: woken } = act
                    && thread == worker
                    && woken.checked_sub(1).is_some_and(|before| stretches[before].end == End::Sleep)
                    && waker(&stretches[woken]) == Some(server)
                {
                    answers.push(Answer { stretch: woken, of_server: number, done });
                }
            }
        }
        // The stretches of the server after replies that woke it.
        let woken_by = |answer: &Answer| reply(&stretches[answer.stretch - 1], server).map(|(_, stretch)| stretch);
        let woken = answers.iter().filter_map(|answer| Some((woken_by(answer)?, answer.of_server)));
        let (replies, answered) =
            woken.fold((0, 0), |(all, answered), (woken, answers)| (all + 1, answered + usize::from(woken == answers)));
        let silent = answers.iter().filter(|answer| {
            let before = &stretches[answer.stretch - 1];
            reply(before, server).is_none() && sleeps_at(of_server, before.ended)
        });
        let found = replies >= FEWEST / 2
            && replies * 100 >= answers.len() * AFTER_WAKEUP_PCT
            && answered * 100 >= replies * ANSWERED_PCT
            && silent.count() * 100 <= answers.len() * WITHOUT_REPLY_PCT;
        found.then_some(Self { worker, server, answers })
    }

    /// Returns the worker's work between its reply and its sleep, in the middle.
    fn after_reply(&self, threads: &[Thread]) -> u64 {
        let before = self.answers.iter().map(|answer| &threads[self.worker].stretches[answer.stretch - 1]);
        let mut after: Vec<u64> =
            before.filter_map(|before| Some(before.work - reply(before, self.server)?.0.min(before.work))).collect();
        after.sort_unstable();
        if after.is_empty() { 0 } else { percentile(&after, 50) }
    }
}

/// Returns the thread that certainly woke another for that stretch.
fn waker(stretch: &Stretch) -> Option<usize> {
    match stretch.waker {
        Waker::Thread(by) if stretch.surely != Some(false) => Some(by),
        _ => None,
    }
}

/// Returns the reply at the end of a stretch, if it woke the server: the work before, and the server's stretch.
fn reply(stretch: &Stretch, server: usize) -> Option<(u64, usize)> {
    let (done, woken) = stretch.acts.iter().rev().find_map(|&(done, act)| match act {
        Act::Wake { thread, stretch } if thread == server => Some((done, stretch)),
        _ => None,
    })?;
    (stretch.work.saturating_sub(done) <= AT_ONCE_NS.max(stretch.work / 5)).then_some((done, woken))
}

/// Whether a thread sleeps at that time.
fn sleeps_at(stretches: &[Stretch], at: u64) -> bool {
    let last = stretches.partition_point(|stretch| stretch.woken <= at).checked_sub(1);
    last.is_some_and(|last| stretches[last].end == End::Sleep && stretches[last].ended <= at)
}
