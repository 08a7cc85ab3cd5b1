//! Messages of sockets, from the trace's events of sending and receiving.
//!
//! A wakeup shows one message, and only to a sleeping thread. These events show all. So a replayed thread takes a
//! message where its thread took it, and sleeps when the message is not there yet. If it is faster or slower than its
//! partner, it sleeps at other places than in the recording. Like a server, it takes the first message of any socket.

mod streams;

use std::collections::{BTreeMap, BTreeSet};

use super::causes::Cause;
use super::habits::percentile;
use super::lives::{Act, Place, Thread, Transfer};
use super::{Connection, batches, causes};
use batches::Manner;
use streams::Streams;
pub(super) use streams::shared;

/// Fewer stretches show no typical work.
const FEWEST: usize = 20;
/// The least percentage of messages that a thread sends on the connection of a message just taken, if it answers there.
/// It is 97 to 100 for servers, `wrk` and `ab -k`, 87 to 99 for `pgbench`, and 0 for HAProxy. But it is 1 to 100 for
/// `redis-benchmark`, which first reads other replies: the limit does not find all threads that answer there.
pub(super) const OWN_PCT: usize = 90;

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
    /// The message that ended the sleep before a thread's stretch.
    ended: BTreeMap<(usize, usize), usize>,
    /// Each thread's work for a sleep, whatever the number of messages that it then finds.
    sleeps: Vec<u64>,
    /// The connection of each link.
    pub(super) connections: Vec<Connection>,
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
        let mut streams = Streams::new(threads.len(), transfers);
        let (mut all, mut numbers, mut connections) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (link, (from, to, offset)) in streams.links(threads, peers).into_iter().enumerate() {
            let connection = (from.min(to), from.max(to));
            connections.push(connection);
            if !without.contains(&connection) {
                let next = numbers.len();
                let number = *numbers.entry(connection).or_insert(next);
                all.extend(streams.messages(threads, (from, to, offset), (link, number)));
            }
        }
        all.sort_by_key(|message| (message.taken, message.link));
        let mut ended = BTreeMap::new();
        spread(threads, &mut all, &mut ended);
        let sleeps = sleeps(threads, &all, &ended);
        Self { all, ended, sleeps, connections }
    }

    /// Overrides the causes of sleeps until messages: their senders.
    pub(super) fn add_causes(&self, kept: &[bool], causes: &mut [Vec<Cause>]) {
        for (&(thread, stretch), &number) in &self.ended {
            let from = self.all[number].from.thread;
            if kept[thread] && kept[from] && from != thread {
                causes[thread][stretch] = Cause::Thread(from);
            }
        }
    }

    /// Adds the acts of sending and taking to the stretches.
    pub(super) fn add_acts(&self, threads: &mut [Thread]) {
        // Of acts at the same place, the earlier is first. Of those at the same time, a message is taken first. It is
        // sent last.
        let mut added = BTreeMap::<(usize, usize), Vec<(u64, u64, u8, Act)>>::new();
        for (message, it) in self.all.iter().enumerate() {
            let mut add = |place: Place, rank, act| {
                let at = causes::time(threads, act);
                added.entry((place.thread, place.stretch)).or_default().push((place.done, at, rank, act));
            };
            add(it.to, 0, Act::TakesMessage { message, at: it.taken });
            add(it.from, 2, Act::SendsMessage { message, at: it.sent });
        }
        let mut sorted = BTreeMap::new();
        for ((thread, stretch), mut acts) in added {
            let others = threads[thread].stretches[stretch].acts.iter();
            acts.extend(others.map(|&(done, act)| (done, causes::time(threads, act), 1, act)));
            acts.sort_by_key(|&(done, at, rank, _)| (done, at, rank));
            let acts: Vec<(u64, Act)> = acts.into_iter().map(|(done, _, _, act)| (done, act)).collect();
            sorted.insert((thread, stretch), acts);
        }
        let manners = self.manners(threads.len(), &sorted);
        for ((thread, stretch), acts) in sorted {
            let stretch = &mut threads[thread].stretches[stretch];
            stretch.acts.clear();
            stretch.acts.extend(batches::regrouped(&self.all, acts, stretch.work, manners[thread]));
        }
    }

    /// How each thread mostly answers. Messages that came alone do not show whether it reads all of them first.
    fn manners(&self, threads: usize, acts: &BTreeMap<(usize, usize), Vec<(u64, Act)>>) -> Vec<Manner> {
        #[derive(Clone, Copy, Default)]
        struct Counts {
            taken: usize,
            batched: usize,
            sent: usize,
            own: usize,
        }
        let mut counts = vec![Counts::default(); threads];
        for (&(thread, _), acts) in acts {
            let takes = acts.iter().filter(|(_, act)| matches!(act, Act::TakesMessage { .. })).count();
            let counts = &mut counts[thread];
            if takes > 1 {
                counts.taken += takes;
                counts.batched += batches::answered(&self.all, acts, 2).len();
            }
            let (sent, own) = batches::sent(&self.all, acts);
            counts.sent += sent;
            counts.own += own;
        }
        let manner = |it: Counts| Manner {
            batches: it.batched > 0 && it.batched * 2 >= it.taken,
            own: it.own * 100 >= it.sent * OWN_PCT,
        };
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
        self.ended.get(&(thread, stretch)).copied()
    }
}

/// Returns each thread's work for a sleep. A stretch with few messages has it, too, and one message's work less than a
/// stretch with one more.
fn sleeps(threads: &[Thread], all: &[Message], ended: &BTreeMap<(usize, usize), usize>) -> Vec<u64> {
    let mut taken: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for message in all {
        *taken.entry((message.to.thread, message.to.stretch)).or_default() += 1;
    }
    // The work of each thread's stretches, by their numbers of messages.
    let mut works: BTreeMap<usize, BTreeMap<usize, Vec<u64>>> = BTreeMap::new();
    for (&(thread, stretch), &count) in taken.iter().filter(|(place, _)| ended.contains_key(place)) {
        let work = threads[thread].stretches[stretch].work;
        works.entry(thread).or_default().entry(count).or_default().push(work);
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

/// Sets which messages ended sleeps: a stretch's first, if it came in the sleep. It is taken at the stretch's begin.
/// Messages that were taken at once begin equal parts of the work until the next.
fn spread(threads: &[Thread], all: &mut [Message], ended: &mut BTreeMap<(usize, usize), usize>) {
    let mut taken: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (number, message) in all.iter().enumerate() {
        taken.entry((message.to.thread, message.to.stretch)).or_default().push(number);
    }
    for ((thread, stretch), numbers) in taken {
        let this = &threads[thread].stretches[stretch];
        if all[numbers[0]].ends_sleep {
            ended.insert((thread, stretch), numbers[0]);
        }
        for &number in &numbers[usize::from(all[numbers[0]].ends_sleep)..] {
            all[number].ends_sleep = false;
        }
        let groups: Vec<&[usize]> = numbers.chunk_by(|&one, &two| all[one].taken == all[two].taken).collect();
        let begins: Vec<u64> = groups.iter().map(|group| all[group[0]].to.done).collect();
        let mut places = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let begin = begins[index];
            let end = begins.get(index + 1).copied().unwrap_or(this.work).max(begin);
            for (part, &number) in group.iter().enumerate() {
                let done = begin + (u128::from(end - begin) * part as u128 / group.len() as u128) as u64;
                let first = index == 0 && part == 0 && all[number].ends_sleep;
                places.push((number, if first { 0 } else { done }));
            }
        }
        for (number, done) in places {
            all[number].to.done = done;
            if all[number].ends_sleep {
                all[number].taken = this.woken.max(all[number].sent);
            }
        }
    }
}
