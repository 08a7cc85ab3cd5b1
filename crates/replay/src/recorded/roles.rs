//! Which threads drive each other. It depends on the pools, and on whether closed loops continue. Programs of all
//! couplings share it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::causes::{Cause, Causes};
use super::cycle::Cycle;
use super::exits::Exits;
use super::locks::Locks;
use super::messages::Message;
use super::pools::Pools;
use super::prepared::Prepared;
use super::threads::Act;

/// The place of roles. The first caller fills it, and others wait.
pub(super) type Place = Arc<OnceLock<Roles>>;

/// The roles of all threads.
#[derive(Debug)]
pub(super) struct Roles {
    /// Pools whose members do each other's work.
    pub(super) pools: Pools,
    pub(super) cycle: Cycle,
    /// The threads that each thread wakes, except by messages.
    pub(super) wakes: Vec<BTreeSet<usize>>,
    /// The threads to which each thread sends messages.
    pub(super) sends: Vec<BTreeSet<usize>>,
    /// Whether the replay has each message.
    pub(super) messages: Vec<bool>,
    /// Sleeps before stretches, until there is [room](super::messages) for a message that the replay has.
    pub(super) rooms: BTreeSet<(usize, usize)>,
    /// Whether each thread serves messages: they end nearly all its sleeps.
    serves: Vec<bool>,
}

/// Percentage of the sleeps of a thread that serves messages, which messages end. It is 97 to 100 in 15 recordings, 87
/// to 90 in databases whose clients contend for rows, 87 in Node.js, and 71 in PHP. Locks that end a tenth of the
/// sleeps limit a program. With 50 %, PostgreSQL with TPC-B would gain 20 % from hogs at nice 10, which really do not
/// help it.
const SERVES_PCT: u64 = 95;

impl Roles {
    pub(super) fn new(prepared: &Prepared, pools: u32, goes_on: bool) -> Self {
        let causes = prepared.causes();
        let chosen = pools;
        let mut pools = prepared.pools.clone();
        pools.retain(chosen);
        let by_rule = |thread: usize| prepared.how.closed.get(&thread).copied();
        let cycle = Cycle::new(&causes, (&pools, &prepared.exits), (prepared.duration_ns, goes_on), &by_rule);
        if goes_on {
            let ends: Vec<bool> = (0..causes.threads.len()).map(|thread| pools.ends(thread)).collect();
            pools.without(causes.threads, &|thread| !cycle.goes_on[thread] && !ends[thread]);
        }
        let own = |thread: usize| {
            pools.of(thread).is_none() && prepared.endless[thread].is_none() && prepared.paces[thread].is_none()
        };
        let has = |message: &Message| {
            let (from, to) = (message.from.thread, message.to.thread);
            let both = from != to && causes.kept[from] && causes.kept[to] && own(from) && own(to);
            let locks = message.ends_sleep && prepared.locks.wait(to, message.to.stretch).is_some();
            both && !locks && follows(&cycle, from, to)
        };
        let messages: Vec<bool> = prepared.messages.all.iter().map(has).collect();
        let mut sends = vec![BTreeSet::new(); causes.threads.len()];
        for (message, _) in prepared.messages.all.iter().zip(&messages).filter(|(_, has)| **has) {
            sends[message.from.thread].insert(message.to.thread);
        }
        let sends_by = |&&(thread, stretch): &&(usize, usize)| match causes.of(thread, stretch) {
            Cause::Thread(by) => sends[thread].contains(&by),
            _ => false,
        };
        let rooms: BTreeSet<_> = prepared.messages.rooms.waits.keys().filter(sends_by).copied().collect();
        let by_message =
            |thread, stretch| prepared.messages.before(thread, stretch).is_some_and(|number| messages[number]);
        let serves = |thread: usize| prepared.workers.contains(&thread) || serves(&causes, thread, &by_message);
        let serves: Vec<bool> = (0..causes.threads.len()).map(serves).collect();
        let counts = |by: usize, woken: usize, stretch: usize| {
            !by_message(woken, stretch)
                && !rooms.contains(&(woken, stretch))
                && prepared.locks.wait(woken, stretch).is_none()
                && !prepared.exits.ends_sleep(causes.threads, woken, stretch)
                && !contend(&serves, &sends, by, woken)
        };
        let wakes = wakes(&causes, &cycle, &pools, (&prepared.locks, &prepared.exits), &counts);
        Self { pools, cycle, wakes, sends, messages, rooms, serves }
    }

    /// Whether two threads wake each other only for locks: both serve messages, and have none for each other. In
    /// another order of events, they would wait for them at other places.
    pub(super) fn contend(&self, by: usize, woken: usize) -> bool {
        contend(&self.serves, &self.sends, by, woken)
    }
}

fn contend(serves: &[bool], sends: &[BTreeSet<usize>], by: usize, woken: usize) -> bool {
    serves[by] && serves[woken] && !sends[by].contains(&woken) && !sends[woken].contains(&by)
}

/// Whether messages end nearly all sleeps of a thread that other threads end.
fn serves(causes: &Causes<'_>, thread: usize, by_message: &dyn Fn(usize, usize) -> bool) -> bool {
    let (mut all, mut messages) = (0, 0);
    for stretch in 0..causes.threads[thread].stretches.len() {
        if matches!(causes.of(thread, stretch), Cause::Thread(_)) {
            all += 1;
            messages += u64::from(by_message(thread, stretch));
        }
    }
    messages > 0 && messages * 100 >= all * SERVES_PCT
}

/// Returns the threads that each thread wakes in the replay. `counts` says whether a waker's wakeup before a thread's
/// stretch does. Wakeups in a pool do not.
fn wakes(
    causes: &Causes<'_>,
    cycle: &Cycle,
    pools: &Pools,
    (locks, exits): (&Locks, &Exits),
    counts: &dyn Fn(usize, usize, usize) -> bool,
) -> Vec<BTreeSet<usize>> {
    let mut wakes = vec![BTreeSet::new(); causes.threads.len()];
    let may = |by: usize, woken: usize, at: u64| {
        follows(cycle, exits.behind(by, at), woken) && (!pools.are_mates(by, woken) || cycle.by_itself[by])
    };
    for (thread, life) in causes.threads.iter().enumerate() {
        for (number, stretch) in life.stretches.iter().enumerate() {
            if let Cause::Thread(by) = causes.of(thread, number)
                && may(by, thread, stretch.woken)
                && counts(by, thread, number)
            {
                wakes[by].insert(thread);
            }
            for (_, act) in &stretch.acts {
                if let Act::HandsBack { thread: woken, at } = *act
                    && may(thread, woken, at)
                    && !(locks.locks_always(thread) && locks.locks_always(woken))
                {
                    wakes[thread].insert(woken);
                }
            }
        }
    }
    wakes
}

/// Whether a woken thread waits for its waker's progress. A closed loop's input from outside takes its recorded
/// duration: a thread with recorded times would delay the loop.
pub(super) fn follows(cycle: &Cycle, by: usize, woken: usize) -> bool {
    cycle.driven[by] || !cycle.driven[woken]
}
