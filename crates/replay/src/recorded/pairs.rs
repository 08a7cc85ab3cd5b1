//! Pairs of threads whose first wakes the second, and how closely they stay together in a replay.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_workload::program::{Follow, Op};

use super::Recorded;
use super::pools::Pools;

/// How far a waker may run ahead of a thread that works for it, in a replay.
///
/// A trace records wakeups of sleeping threads, not data that a thread found while awake. By wakeups alone, a waker
/// could run ahead further than any program: a client sends its next request after the reply. So threads that wake each
/// other, also indirectly, stay together. Programs differ in the distance: a replay tries each of these, and keeps the
/// nearest to the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coupling {
    /// After a wakeup, the waker continues when the woken thread has done all earlier work.
    #[default]
    Together,
    /// A thread is woken only when it has done all earlier work and sleeps.
    Asleep,
    /// A thread is woken when it has begun the work of the previous wakeup.
    OneAhead,
    /// The waker waits for none of the threads that it wakes.
    Free,
    /// As [`Self::Free`], but the woken thread does not overtake its waker's data.
    InStep,
    /// As [`Self::InStep`], but threads with several messages on their way between them sleep when none is there, and
    /// not when they slept in the recording.
    Flowing,
}

impl Coupling {
    /// All couplings.
    pub const ALL: [Self; 6] = [Self::Together, Self::Asleep, Self::OneAhead, Self::Free, Self::InStep, Self::Flowing];

    /// Returns a word for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Asleep => "asleep",
            Self::OneAhead => "one-ahead",
            Self::Free => "free",
            Self::InStep => "in-step",
            Self::Flowing => "flowing",
        }
    }

    const fn follow(self) -> Follow {
        match self {
            Self::Together => Follow::Together,
            Self::Asleep => Follow::Asleep,
            Self::OneAhead => Follow::OneAhead,
            Self::Free | Self::InStep | Self::Flowing => Follow::Free,
        }
    }

    /// Whether the coupling decides only [how wakers follow](Follow).
    pub(crate) const fn only_follows(self) -> bool {
        !matches!(self, Self::InStep | Self::Flowing)
    }
}

/// Returns programs that were made with [`Coupling::Together`] as they are with a coupling that [only
/// follows](Coupling::only_follows). Tasks without such wakeups share their phases with `together`.
pub(crate) fn recoupled(together: &Recorded, coupling: Coupling) -> Recorded {
    debug_assert!(coupling.only_follows(), "other couplings have more operations");
    let mut recorded = together.clone();
    let follows = |op: &Op| matches!(op, Op::InboxWake { follow: Follow::Together, .. });
    for task in &mut recorded.workload.tasks {
        if coupling == Coupling::Together || !task.phases.iter().any(|phase| phase.ops.iter().any(follows)) {
            continue;
        }
        let mut phases = task.phases.to_vec();
        for op in phases.iter_mut().flat_map(|phase| &mut phase.ops) {
            if let Op::InboxWake { follow: follow @ Follow::Together, .. } = op {
                *follow = coupling.follow();
            }
        }
        task.phases = phases.into();
    }
    recorded
}

/// The waits of threads for their wakers.
///
/// A thread waits for its first waker: a server for any client, `make` for any child. Under other conditions, they
/// arrive in another order. Each waker gets the next answer that it got in the recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    /// The inbox of each woken thread.
    inboxes: BTreeMap<usize, usize>,
    /// What each thread counts as ([`Op::InboxWake`]): itself, or its pool, where chance assigns the work.
    wakers: Vec<usize>,
    /// How each thread follows each that it wakes.
    follow: BTreeMap<(usize, usize), Follow>,
    /// The inbox of each thread to which messages [flow](super::flows).
    flows: BTreeMap<usize, usize>,
    /// Wakers and woken threads whose messages flow.
    flowing: BTreeSet<(usize, usize)>,
    /// The inbox of each thread that takes [messages](super::messages). Other wakeups come there, too: an event loop
    /// waits for all at once.
    messages: BTreeMap<usize, usize>,
    /// Links of messages count as wakers from this number on.
    links: usize,
    /// Senders and takers of messages.
    sends: usize,
    /// Wakers and woken threads with [synchronous](super::sync) wakeups.
    sync: BTreeSet<(usize, usize)>,
}

impl Pairs {
    /// Makes inboxes in `all`, with the threads' `names`. `wakes` has the threads that each wakes.
    pub(super) fn new(
        coupling: Coupling,
        wakes: &[BTreeSet<usize>],
        names: &dyn Fn(usize) -> String,
        pools: &Pools,
        all: &mut Vec<String>,
    ) -> Self {
        let circles = circles(wakes);
        let waker = |thread: usize| pools.of(thread).map_or(thread, |pool| wakes.len() + pool);
        let mut this = Self { wakers: (0..wakes.len()).map(waker).collect(), ..Self::default() };
        let each = wakes.iter().enumerate().flat_map(|(by, woken)| woken.iter().map(move |&woken| (by, woken)));
        for (by, woken) in each {
            let mutual = circles[by] == circles[woken];
            this.inboxes.entry(woken).or_insert_with(|| {
                all.push(names(woken));
                all.len() - 1
            });
            // Members of a pool take work from a queue, and not from each other's hands.
            let closely = mutual && !pools.are_mates(by, woken);
            this.follow.insert((by, woken), if closely { coupling.follow() } else { Follow::Free });
        }
        this
    }

    /// Makes the wakeups of these wakers and woken threads synchronous.
    pub(super) fn synchronize(&mut self, sync: BTreeSet<(usize, usize)>) {
        self.sync = sync;
    }

    /// Lets the messages of these wakers and woken threads flow.
    pub(super) fn flow(
        &mut self,
        flowing: BTreeSet<(usize, usize)>,
        names: &dyn Fn(usize) -> String,
        all: &mut Vec<String>,
    ) {
        for &(_, woken) in &flowing {
            self.flows.entry(woken).or_insert_with(|| {
                all.push(names(woken));
                all.len() - 1
            });
        }
        self.flowing = flowing;
    }

    /// Makes inboxes for the messages of these threads. `sends` has the threads to which each sends.
    pub(super) fn exchange(
        &mut self,
        sends: &[BTreeSet<usize>],
        names: &dyn Fn(usize) -> String,
        all: &mut Vec<String>,
    ) {
        self.links = self.wakers.iter().max().map_or(0, |most| most + 1);
        for &taker in sends.iter().flatten() {
            self.sends += 1;
            let inbox = *self.inboxes.entry(taker).or_insert_with(|| {
                all.push(names(taker));
                all.len() - 1
            });
            self.messages.insert(taker, inbox);
        }
    }

    /// Returns how a thread sends a message to `to` on that link. The kernel wakes readers of sockets synchronously
    /// (`sock_def_readable`).
    pub(super) fn send_message(&self, to: usize, link: usize, ops: &mut Vec<Op>) {
        let wake = |&inbox: &usize| Op::InboxWake { inbox, from: self.links + link, follow: Follow::Free, sync: true };
        ops.extend(self.messages.get(&to).map(wake));
    }

    /// Returns how `to` takes the next message, of whichever link; in the recording, it was of this one.
    pub(super) fn take_message(&self, to: usize, link: usize, ops: &mut Vec<Op>) {
        ops.extend(self.messages.get(&to).map(|&inbox| Op::InboxWait { inbox, from: self.links + link }));
    }

    /// Returns the work of `to` for a sleep until a message, if it sleeps.
    pub(super) fn pay_for_sleep(&self, to: usize, work: u64, ops: &mut Vec<Op>) {
        ops.extend(self.messages.get(&to).filter(|_| work > 0).map(|&inbox| Op::RunIfSlept { inbox, work }));
    }

    /// Returns how `thread` puts off what follows until it has taken all messages that are there.
    pub(super) fn put_off(&self, thread: usize, ops: &mut Vec<Op>) {
        ops.extend(self.messages.get(&thread).map(|&inbox| Op::PutOff { inbox }));
    }

    /// Whether messages flow from `by` to `woken`.
    pub(super) fn are_flowing(&self, by: usize, woken: usize) -> bool {
        self.flowing.contains(&(by, woken))
    }

    /// Returns how `by` sends a message to `woken`.
    pub(super) fn send(&self, by: usize, woken: usize, ops: &mut Vec<Op>) {
        let sync = self.sync.contains(&(by, woken));
        ops.extend(self.flows.get(&woken).map(|&inbox| Op::InboxWake { inbox, from: 0, follow: Follow::Free, sync }));
    }

    /// Returns the wait of `woken` for a message.
    pub(super) fn receive(&self, woken: usize, ops: &mut Vec<Op>) {
        ops.extend(self.flows.get(&woken).map(|&inbox| Op::InboxWait { inbox, from: 0 }));
    }

    /// Returns the number from which on wakers are links of messages.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    /// Returns the number of pairs.
    pub(super) fn number(&self) -> usize {
        self.follow.len() + self.sends
    }

    /// Returns the sleep of `woken` until any of its wakers wakes it; `by` did in the recording.
    pub(super) fn wait(&self, by: usize, woken: usize, ops: &mut Vec<Op>) {
        ops.extend(self.inboxes.get(&woken).map(|&inbox| Op::InboxWait { inbox, from: self.waker(by, woken) }));
    }

    /// Returns what `by` counts as for `woken`. For members of a pool, all wakers are one: chance decides which work a
    /// member does. So it does its own in the recorded order. Otherwise, it could wait for progress of the pool that
    /// needs work which it has put off.
    fn waker(&self, by: usize, woken: usize) -> usize {
        if self.wakers[woken] == woken { self.wakers[by] } else { self.wakers[woken] }
    }

    /// Returns how `by` wakes `woken`. `early`: without following, since the other was still awake, or it holds a lock.
    pub(super) fn wake(&self, by: usize, woken: usize, early: bool, ops: &mut Vec<Op>) {
        let Some((&inbox, &follow)) = self.inboxes.get(&woken).zip(self.follow.get(&(by, woken))) else { return };
        let follow = if early || self.messages.contains_key(&woken) { Follow::Free } else { follow };
        ops.push(Op::InboxWake { inbox, from: self.waker(by, woken), follow, sync: self.sync.contains(&(by, woken)) });
    }
}

/// Returns the circle of each node of a graph: nodes that reach each other share a number (Tarjan's algorithm).
fn circles(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let (mut order, mut low, mut circle) = (vec![UNSEEN; edges.len()], vec![0; edges.len()], vec![UNSEEN; edges.len()]);
    let (mut next, mut found, mut open) = (0, 0, Vec::new());
    for start in 0..edges.len() {
        if order[start] != UNSEEN {
            continue;
        }
        // A stack of its own: chains of wakers can be long.
        let mut path = vec![(start, edges[start].iter())];
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            if order[node] == UNSEEN {
                (order[node], low[node]) = (next, next);
                next += 1;
                open.push(node);
            }
            if let Some(&to) = rest.next() {
                if order[to] == UNSEEN {
                    path.push((to, edges[to].iter()));
                } else if circle[to] == UNSEEN {
                    low[node] = low[node].min(order[to]);
                }
                continue;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                low[*above] = low[*above].min(low[node]);
            }
            if low[node] == order[node] {
                while let Some(member) = open.pop() {
                    circle[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    circle
}

#[cfg(test)]
mod tests {
    use super::circles;

    #[test]
    fn nodes_that_reach_each_other_are_a_circle() {
        let edges = |edges: &[&[usize]]| edges.iter().map(|to| to.iter().copied().collect()).collect::<Vec<_>>();
        // 0 and 1 wake each other, 2 to 4 go round, and 5 is woken by both.
        let found = circles(&edges(&[&[1, 5], &[0, 2], &[3], &[4], &[2, 5], &[]]));
        assert_eq!(found[0], found[1]);
        assert_eq!((found[2], found[3]), (found[4], found[4]));
        assert!(found[0] != found[2] && found[5] != found[0] && found[5] != found[2]);
    }

    #[test]
    fn a_long_chain_is_no_circle() {
        let chain: Vec<_> =
            (1..=100_000).map(|next| [next % 100_000].into_iter().filter(|&to| to > 0).collect()).collect();
        let mut found = circles(&chain);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 100_000);
    }
}
