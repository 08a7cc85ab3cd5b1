//! Messages, from the trace's events of sending and receiving by sockets, and from [exchanges](super::exchanges).
//!
//! A wakeup shows one message, and only to a sleeping thread. These events show all. So a replayed thread takes a
//! message where its thread took it, and sleeps when the message is not there yet. If it is faster or slower than its
//! partner, it sleeps at other places than in the recording. Like a server, it takes the first message of any socket.

mod by_stretch;
mod rooms;
mod streams;
mod successive;

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Cause;
use super::habits::percentile;
use super::threads::{Act, Place, Thread, Transfer};
use super::{Connection, batches, causes};
use batches::{Answers, Manner};
use by_stretch::ByStretch;
use rooms::Rooms;
use smallvec::SmallVec;
use streams::Streams;
pub(super) use streams::shared;

/// Fewer stretches show no typical work.
const FEWEST: usize = 20;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) sent: u64,
    /// When it was taken, at least `sent`.
    pub(super) taken: u64,
    /// The number of its connection and direction.
    pub(super) link: usize,
    /// The number of its connection, for both directions.
    pub(super) connection: usize,
    /// Whether the receiver slept until it came.
    pub(super) ends_sleep: bool,
}

/// All messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    pub(super) all: Vec<Message>,
    /// Threads' stretches after sleeps that messages ended, in order, and these messages.
    ended: Vec<((usize, usize), usize)>,
    /// Each thread's work for a sleep, whatever the number of messages that it then finds.
    sleeps: Vec<u64>,
    /// The connection of each link, or the first one of its [talk](successive).
    pub(super) connections: Vec<Connection>,
    /// The connections of each talk, by the first one.
    talks: BTreeMap<Connection, Vec<Connection>>,
    pub(super) rooms: Rooms,
}

impl Messages {
    /// Finds the messages of `transfers`, which are in order of time, except those of the connections `without`.
    pub(super) fn new(
        threads: &[Thread],
        transfers: &[Transfer],
        peers: &BTreeMap<usize, usize>,
        without: &BTreeSet<Connection>,
    ) -> Self {
        if transfers.is_empty() {
            return Self::default();
        }
        let mut streams = Streams::new(threads, transfers);
        let (mut all, mut numbers, mut connections) = (Vec::new(), BTreeMap::new(), Vec::new());
        let links = streams.links(threads, peers);
        for (link, &(from, to, offset)) in links.iter().enumerate() {
            let connection = (from.min(to), from.max(to));
            connections.push(connection);
            if !without.contains(&connection) {
                let next = numbers.len();
                let number = *numbers.entry(connection).or_insert(next);
                all.extend(streams.messages(threads, (from, to, offset), (link, number)));
            }
        }
        all.sort_by_key(|message| (message.taken, message.link));
        let taken = all.iter().enumerate().map(|(number, message)| (number, stretch_of(message.to)));
        let taken = ByStretch::new(threads, taken);
        let ended = spread(threads, &mut all, &taken);
        let sleeps = sleeps(threads, &all, &taken);
        let rooms = Rooms::new(threads, &streams, &links, &all);
        let of_number: BTreeMap<usize, Connection> =
            numbers.iter().map(|(&connection, &number)| (number, connection)).collect();
        let joined = successive::join(&mut all, &|number| peers.contains_key(&of_number[&number].0));
        let mut talks: BTreeMap<Connection, Vec<Connection>> = BTreeMap::new();
        for (number, first) in joined {
            talks.entry(of_number[&first]).or_default().push(of_number[&number]);
        }
        Self { all, ended, sleeps, connections, talks, rooms }
    }

    /// Returns the connections whose messages are on a link.
    pub(super) fn connections_of(&self, link: usize) -> Vec<Connection> {
        let first = self.connections[link];
        self.talks.get(&first).cloned().unwrap_or_else(|| vec![first])
    }

    /// Overrides the causes of sleeps until messages: their senders.
    pub(super) fn add_causes(&self, kept: &[bool], causes: &mut [Vec<Cause>]) {
        for &((thread, stretch), number) in &self.ended {
            let from = self.all[number].from.thread;
            if kept[thread] && kept[from] && from != thread {
                causes[thread][stretch] = Cause::Thread(from);
            }
        }
    }

    /// Adds the acts of sending and taking to the stretches.
    pub(super) fn add_acts(&self, threads: &mut [Thread]) {
        // Even numbers are messages taken, odd ones messages sent.
        let ends = self.all.iter().enumerate();
        let ends = ends.flat_map(|(number, it)| [(2 * number, it.to), (2 * number + 1, it.from)]);
        let ends = ByStretch::new(threads, ends.map(|(end, place)| (end, stretch_of(place))));
        let (mut acts, mut stretches, mut sorted) = (Vec::new(), Vec::new(), Vec::new());
        for ((thread, stretch), ends) in ends.iter() {
            let mut sort = |done, rank, act| sorted.push((done, causes::time(threads, act), rank, act));
            for &end in ends {
                let message = end / 2;
                let it = &self.all[message];
                if end % 2 == 0 {
                    sort(it.to.done, 0, Act::TakesMessage { message, at: it.taken });
                } else {
                    sort(it.from.done, 2, Act::SendsMessage { message, at: it.sent });
                }
            }
            for &(done, act) in &threads[thread].stretches[stretch].acts {
                sort(done, 1, act);
            }
            // Of acts at the same place, the earlier is first. Of those at the same time, a message is taken first. It
            // is sent last.
            sorted.sort_by_key(|&(done, at, rank, _)| (done, at, rank));
            let begin = acts.len();
            acts.extend(sorted.drain(..).map(|(done, _, _, act)| (done, act)));
            stretches.push(((thread, stretch), begin..acts.len()));
        }
        let manners = self.manners(threads.len(), stretches.iter().map(|(of, range)| (of.0, &acts[range.clone()])));
        for ((thread, stretch), range) in stretches {
            let stretch = &mut threads[thread].stretches[stretch];
            let acts = batches::regrouped(&self.all, &acts[range], stretch.work, manners[thread]);
            stretch.acts = SmallVec::from_slice(&acts);
        }
    }

    /// Returns how each thread mostly answers, by the acts of its stretches. Messages that came alone do not show
    /// whether it reads all of them first.
    fn manners<'a>(&self, threads: usize, acts: impl Iterator<Item = (usize, &'a [(u64, Act)])>) -> Vec<Manner> {
        #[derive(Clone, Default)]
        struct Counts {
            taken: usize,
            batched: usize,
            answers: Answers<usize>,
        }
        let mut counts = vec![Counts::default(); threads];
        for (thread, acts) in acts {
            let counts = &mut counts[thread];
            let mut takes = 0;
            for (_, is_taken, connection) in batches::events(&self.all, acts) {
                takes += usize::from(is_taken);
                if is_taken { counts.answers.takes(connection) } else { counts.answers.sends(connection) }
            }
            if takes > 1 {
                counts.taken += takes;
                counts.batched += batches::answered(&self.all, acts, 2).len();
            }
        }
        let manner =
            |it: Counts| Manner { batches: it.batched > 0 && it.batched * 2 >= it.taken, own: it.answers.are_own() };
        counts.into_iter().map(manner).collect()
    }

    /// Whether a thread takes any message.
    pub(super) fn takes(&self, threads: usize) -> Vec<bool> {
        let mut takes = vec![false; threads];
        for message in &self.all {
            takes[message.to.thread] = true;
        }
        takes
    }

    /// Returns the pairs of threads with messages, in both orders.
    pub(super) fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let both =
            |message: &Message| [(message.from.thread, message.to.thread), (message.to.thread, message.from.thread)];
        self.all.iter().flat_map(both).collect()
    }

    /// Returns a thread's work for a sleep, whatever the number of messages that it then finds.
    pub(super) fn work_of_sleep(&self, thread: usize) -> u64 {
        self.sleeps.get(thread).copied().unwrap_or(0)
    }

    /// Returns the message for which a thread slept before that stretch.
    pub(super) fn before(&self, thread: usize, stretch: usize) -> Option<usize> {
        let found = self.ended.binary_search_by_key(&(thread, stretch), |&(before, _)| before);
        found.ok().map(|found| self.ended[found].1)
    }
}

/// Returns the thread and the stretch of a place.
fn stretch_of(place: Place) -> (usize, usize) {
    (place.thread, place.stretch)
}

/// Returns each thread's work for a sleep. A stretch with few messages has it, too, and one message's work less than a
/// stretch with one more. `taken` has the messages that each stretch takes.
fn sleeps(threads: &[Thread], all: &[Message], taken: &ByStretch) -> Vec<u64> {
    // The work of each thread's stretches, by their numbers of messages.
    let mut works: BTreeMap<usize, BTreeMap<usize, Vec<u64>>> = BTreeMap::new();
    for ((thread, stretch), numbers) in taken.iter().filter(|(_, numbers)| all[numbers[0]].ends_sleep) {
        let work = threads[thread].stretches[stretch].work;
        works.entry(thread).or_default().entry(numbers.len()).or_default().push(work);
    }
    let mut sleeps = vec![0; threads.len()];
    for (thread, mut works) in works {
        works.retain(|_, works| works.len() >= FEWEST);
        for works in works.values_mut() {
            works.sort_unstable();
        }
        let medians: Vec<(u64, u64)> =
            works.iter().map(|(&count, works)| (count as u64, percentile(works, 50))).collect();
        let (Some(&(few, least)), Some(&(many, most))) = (medians.first(), medians.last()) else { continue };
        if many > few {
            let each = most.saturating_sub(least) / (many - few);
            sleeps[thread] = least.saturating_sub(each * few);
        }
    }
    sleeps
}

/// Sets which messages ended sleeps, and returns them: a stretch's first, if it came in the sleep. It is taken at the
/// stretch's begin. Messages that were taken at once begin equal parts of the work until the next. `taken` has the
/// messages that each stretch takes.
fn spread(threads: &[Thread], all: &mut [Message], taken: &ByStretch) -> Vec<((usize, usize), usize)> {
    let mut ended = Vec::new();
    let mut waits = Vec::new();
    for ((thread, stretch), numbers) in taken.iter() {
        let first = numbers[0];
        let this = &threads[thread].stretches[stretch];
        if all[first].ends_sleep {
            ended.push(((thread, stretch), first));
        }
        let mut groups = numbers.chunk_by(|&one, &two| all[one].taken == all[two].taken).peekable();
        while let Some(group) = groups.next() {
            let begin = all[group[0]].to.done;
            let end = groups.peek().map_or(this.work, |next| all[next[0]].to.done).max(begin);
            for (part, &number) in group.iter().enumerate() {
                let done = begin + (u128::from(end - begin) * part as u128 / group.len() as u128) as u64;
                let ends_sleep = number == first && all[number].ends_sleep;
                waits.push((number, if ends_sleep { 0 } else { done }, ends_sleep.then_some(this.woken)));
            }
        }
    }
    for (number, done, woken) in waits {
        let message = &mut all[number];
        message.to.done = done;
        message.ends_sleep = woken.is_some();
        if let Some(woken) = woken {
            message.taken = woken.max(message.sent);
        }
    }
    ended
}
