//! Which threads drive each other. It depends on the pools, and on whether closed loops continue. Programs of all
//! couplings share it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::causes::{Cause, Causes};
use super::cycle::Cycle;
use super::lives::Act;
use super::locks::Locks;
use super::messages::Message;
use super::pools::Pools;
use super::prepared::Prepared;

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
}

impl Roles {
    pub(super) fn new(prepared: &Prepared, pools: u32, goes_on: bool) -> Self {
        let causes = prepared.causes();
        let chosen = pools;
        let mut pools = prepared.pools.clone();
        pools.retain(chosen);
        let said = |thread: usize| prepared.how.closed.get(&thread).copied();
        let cycle = Cycle::new(&causes, &pools, (prepared.duration_ns, goes_on), &said);
        if goes_on {
            pools.without(causes.threads, &|thread| !cycle.goes_on[thread]);
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
        let by_message =
            |thread, stretch| prepared.messages.before(thread, stretch).is_some_and(|number| messages[number]);
        let wakes = wakes(&causes, &cycle, &pools, &prepared.locks, &by_message);
        Self { pools, cycle, wakes, sends, messages }
    }
}

/// Returns the threads that each thread wakes in the replay, without pool members and waits for locks.
fn wakes(
    causes: &Causes<'_>,
    cycle: &Cycle,
    pools: &Pools,
    locks: &Locks,
    by_message: &dyn Fn(usize, usize) -> bool,
) -> Vec<BTreeSet<usize>> {
    let mut wakes = vec![BTreeSet::new(); causes.threads.len()];
    let counts =
        |by: usize, woken: usize| follows(cycle, by, woken) && (!pools.are_mates(by, woken) || cycle.by_itself[by]);
    for (thread, life) in causes.threads.iter().enumerate() {
        for (number, stretch) in life.stretches.iter().enumerate() {
            if let Cause::Thread(by) = causes.of(thread, number)
                && counts(by, thread)
                && locks.wait(thread, number).is_none()
                && !by_message(thread, number)
            {
                wakes[by].insert(thread);
            }
            for (_, act) in &stretch.acts {
                if let Act::HandsBack { thread: woken, .. } = *act
                    && counts(thread, woken)
                    && !(locks.is_regular(thread) && locks.is_regular(woken))
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
