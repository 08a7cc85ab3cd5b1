//! Which sockets are connected, and which bytes make each message.
//!
//! Few events show which sockets are connected. But a thread that sends wakes the thread that receives. The bytes of
//! such a message have the same place in what one socket sent and the other received, and so have all that follow.

use std::collections::{BTreeMap, BTreeSet};

use super::by_stretch::ByStretch;
use super::{Message, stretch_of};
use crate::recorded::Context;
use crate::recorded::threads::{Act, End, Place, Thread, Transfer, Waker};

/// The event of a message may come this much later than the wakeup by it, nanoseconds.
const LATE_NS: u64 = 200_000;
/// The event of a message may come this much later than its receipt on another CPU, nanoseconds.
const RACE_NS: u64 = 50_000;
/// The least percentage of receipts that must come after their messages.
const AFTER_PCT: usize = 98;
/// The least percentage of a socket's receipts by one thread, if the socket is that thread's. It is 100 for redis,
/// PostgreSQL, nginx and Node.js, and mostly 30 to 60 for Go.
const READER_PCT: usize = 90;
/// The least percentage of a process's receipts from sockets of several threads, if none of its sockets is one
/// thread's. It is 100 (rounded) in five recordings of Go, and 0 for Node.js.
const SHARED_PCT: usize = 50;

/// What each socket sent and received.
pub(super) struct Streams<'a> {
    transfers: &'a [Transfer],
    /// The bytes of each transfer's socket and direction before it.
    before: Vec<u64>,
    by_stretch: ByStretch,
    sent: BTreeMap<usize, Vec<usize>>,
    received: BTreeMap<usize, Vec<usize>>,
    /// The wakeup by each sent message, if it caused one: when, and the waker's work before.
    woke: Vec<Option<(u64, u64)>>,
}

/// Sender, receiver, and the bytes that the sender had sent at the receiver's first byte.
pub(super) type Link = (usize, usize, i64);

impl<'a> Streams<'a> {
    pub(super) fn new(threads: &[Thread], transfers: &'a [Transfer]) -> Self {
        let places = transfers.iter().enumerate();
        let places = places.filter_map(|(index, transfer)| Some((index, stretch_of(transfer.place?))));
        let mut this = Self {
            transfers,
            before: Vec::with_capacity(transfers.len()),
            by_stretch: ByStretch::new(threads, places),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            woke: vec![None; transfers.len()],
        };
        let mut bytes = BTreeMap::<(usize, bool), u64>::new();
        for (index, transfer) in transfers.iter().enumerate() {
            let sum = bytes.entry((transfer.socket, transfer.sent)).or_default();
            this.before.push(*sum);
            *sum += transfer.bytes;
            let all = if transfer.sent { &mut this.sent } else { &mut this.received };
            all.entry(transfer.socket).or_default().push(index);
        }
        this
    }

    /// Returns the first transfer of a thread from that time on, in that stretch.
    fn next(&self, thread: usize, stretch: usize, at: u64) -> Option<usize> {
        let is_next = |index: usize| self.transfers[index].at >= at;
        let first = self.by_stretch.of(thread, stretch).iter().copied().find(|&index| is_next(index))?;
        (!self.by_stretch.before(thread, stretch).is_some_and(is_next)).then_some(first)
    }

    /// Returns the first transfer of a thread in a stretch.
    pub(super) fn first(&self, thread: usize, stretch: usize) -> Option<&Transfer> {
        self.first_index(thread, stretch).map(|index| &self.transfers[index])
    }

    fn first_index(&self, thread: usize, stretch: usize) -> Option<usize> {
        self.by_stretch.of(thread, stretch).first().copied()
    }

    /// Finds which socket sends to which.
    pub(super) fn links(&mut self, threads: &[Thread], known: &BTreeMap<usize, usize>) -> Vec<Link> {
        // How often a wakeup shows each pair, by the difference of their bytes.
        let mut votes = BTreeMap::<(usize, usize), BTreeMap<i64, u64>>::new();
        for (by, life) in threads.iter().enumerate() {
            for (number, stretch) in life.stretches.iter().enumerate() {
                for &(done, act) in &stretch.acts {
                    let Act::Wake { thread: woken, stretch: of_woken } = act else { continue };
                    let at = threads[woken].stretches[of_woken].woken;
                    let Some(sent) = self.next(by, number, at) else { continue };
                    let transfer = self.transfers[sent];
                    if !transfer.sent || transfer.at - at > LATE_NS {
                        continue;
                    }
                    let Some(received) = self.next(woken, of_woken, at).filter(|&index| !self.transfers[index].sent)
                    else {
                        continue;
                    };
                    let difference = self.before[sent] as i64 - self.before[received] as i64;
                    let pair = (transfer.socket, self.transfers[received].socket);
                    *votes.entry(pair).or_default().entry(difference).or_default() += 1;
                    self.woke[sent].get_or_insert((at, done));
                }
            }
        }
        let sum = |from: usize, to: usize| votes.get(&(from, to)).map_or(0, |votes| votes.values().sum::<u64>());
        let mut pairs: Vec<(u64, usize, usize)> =
            votes.keys().map(|&(from, to)| (sum(from, to) + sum(to, from), from.min(to), from.max(to))).collect();
        pairs.sort_unstable_by(|one, two| two.cmp(one));
        pairs.dedup();
        let mut peers = known.clone();
        for (_, one, two) in pairs {
            if one != two && !peers.contains_key(&one) && !peers.contains_key(&two) {
                peers.extend([(one, two), (two, one)]);
            }
        }
        let of_any = self.processes_of_any_thread(threads);
        let is_of_any = |to: usize| self.process(threads, to).is_some_and(|process| of_any.contains(&process));
        let mut links = Vec::new();
        for (from, to) in peers {
            let best = votes.get(&(from, to)).and_then(|votes| votes.iter().max_by_key(|(_, votes)| **votes));
            // Of a connection that began in the trace, every byte is there.
            let best = if known.contains_key(&from) { Some((&0, &0)) } else { best };
            let offset = best.map_or_else(|| self.in_step(from, to), |(&difference, _)| Some(difference));
            let offset =
                offset.filter(|&offset| self.is_of_one_thread(to) && !is_of_any(to) && self.agrees(from, to, offset));
            links.extend(offset.map(|offset| (from, to, offset)));
        }
        links
    }

    /// Returns the processes whose threads share their sockets. In Go, any thread may continue a goroutine. A
    /// connection of few messages is then one thread's by chance.
    fn processes_of_any_thread(&self, threads: &[Thread]) -> BTreeSet<i32> {
        let mut receipts = BTreeMap::<i32, (usize, usize)>::new();
        for (&socket, received) in &self.received {
            let Some(process) = self.process(threads, socket) else { continue };
            let (shared, all) = receipts.entry(process).or_default();
            *all += received.len();
            *shared += if self.is_of_one_thread(socket) { 0 } else { received.len() };
        }
        receipts.retain(|_, (shared, all)| *shared * 100 >= *all * SHARED_PCT);
        receipts.into_keys().collect()
    }

    /// Returns the process that receives from a socket, by the first receipt.
    fn process(&self, threads: &[Thread], socket: usize) -> Option<i32> {
        let first = *self.received.get(&socket)?.first()?;
        threads[self.transfers[first].place?.thread].tgid
    }

    /// Returns the least bytes that a receiver lacks at the start, if it never waited for that sender.
    fn in_step(&self, from: usize, to: usize) -> Option<i64> {
        let (sent, received) = (self.sent.get(&from)?, self.received.get(&to)?);
        let mut there = 0;
        let offset = |&index: &usize| {
            let transfer = self.transfers[index];
            let is_there = |sent: &&usize| self.transfers[**sent].at <= transfer.at + RACE_NS;
            there += sent[there..].iter().take_while(is_there).count();
            let bytes =
                there.checked_sub(1).map_or(0, |last| self.before[sent[last]] + self.transfers[sent[last]].bytes);
            bytes as i64 - (self.before[index] + transfer.bytes) as i64
        };
        received.iter().map(offset).min().map(|least| least.min(0))
    }

    /// Whether mostly one thread receives.
    fn is_of_one_thread(&self, socket: usize) -> bool {
        let received = self.received.get(&socket).into_iter().flatten();
        is_of_one_thread(received.map(|&index| &self.transfers[index]))
    }

    /// Whether nearly all bytes are received after they were sent.
    fn agrees(&self, from: usize, to: usize, offset: i64) -> bool {
        let (Some(sent), Some(received)) = (self.sent.get(&from), self.received.get(&to)) else { return false };
        let mut needs = 0;
        let after = |&&index: &&usize| {
            let transfer = self.transfers[index];
            let last = (self.before[index] + transfer.bytes) as i64 + offset;
            needs += sent[needs..].iter().take_while(|&&sent| (self.before[sent] as i64) < last).count();
            needs.checked_sub(1).is_none_or(|needs| {
                let needed = self.transfers[sent[needs]];
                needed.at <= transfer.at + RACE_NS && self.before[sent[needs]] + needed.bytes >= last as u64
            })
        };
        received.iter().filter(after).count() * 100 >= received.len() * AFTER_PCT
    }

    /// Returns the messages of a link.
    pub(super) fn messages(
        &self,
        threads: &[Thread],
        (from, to, offset): Link,
        (link, connection): (usize, usize),
    ) -> Vec<Message> {
        let (Some(sent), Some(received)) = (self.sent.get(&from), self.received.get(&to)) else { return Vec::new() };
        let mut messages = Vec::new();
        let mut next = 0;
        for &index in received {
            let transfer = self.transfers[index];
            let until = (self.before[index] + transfer.bytes) as i64 + offset;
            let begin = self.before[index] as i64 + offset;
            while let Some(&number) = sent.get(next).filter(|&&number| (self.before[number] as i64) < until) {
                next += 1;
                // What was on its way when the trace began is there.
                if (self.before[number] as i64) < begin {
                    continue;
                }
                let sending = self.transfers[number];
                let (Some(from), Some(to)) = (sending.place, transfer.place) else { continue };
                let (at, done) = self.woke[number].unwrap_or((sending.at, from.done));
                let sent = at.min(transfer.at);
                let first = self.first_index(to.thread, to.stretch) == Some(index);
                let ends_sleep = first && waits_at(&threads[to.thread], to.stretch, at);
                let from = Place { done, ..from };
                messages.push(Message { from, to, sent, taken: transfer.at, link, connection, ends_sleep });
            }
        }
        messages
    }
}

/// Whether mostly one thread has these receipts. Threads that receive from the same sockets, as in Go, do each other's
/// work: no message is for a particular one.
fn is_of_one_thread<'a>(received: impl Iterator<Item = &'a Transfer>) -> bool {
    let mut receipts = BTreeMap::<usize, usize>::new();
    for place in received.filter_map(|transfer| transfer.place) {
        *receipts.entry(place.thread).or_default() += 1;
    }
    let (most, all) = (receipts.values().max().copied().unwrap_or(0), receipts.values().sum::<usize>());
    most * 100 >= all * READER_PCT
}

/// Counts the sockets from which several threads receive.
pub(in crate::recorded) fn shared(transfers: &[Transfer]) -> u64 {
    let mut received = BTreeMap::<usize, Vec<&Transfer>>::new();
    for transfer in transfers.iter().filter(|transfer| !transfer.sent) {
        received.entry(transfer.socket).or_default().push(transfer);
    }
    received.values().filter(|received| !is_of_one_thread(received.iter().copied())).count() as u64
}

/// Whether a thread slept before that stretch until something came at that time.
fn waits_at(thread: &Thread, stretch: usize, at: u64) -> bool {
    let this = &thread.stretches[stretch];
    let slept = match stretch.checked_sub(1).map(|before| &thread.stretches[before]) {
        Some(before) if before.end == End::Sleep => before.ended,
        None if thread.asleep_first => 0,
        _ => return false,
    };
    let by_task = matches!(this.waker, Waker::Thread(_)) && this.surely != Some(false);
    let by_softirq = this.context == Some(Context::Softirq);
    (by_task || by_softirq) && at + RACE_NS >= slept && at <= this.woken + RACE_NS
}
