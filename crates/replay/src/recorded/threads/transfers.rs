//! Data that threads sent and received.

use std::collections::BTreeMap;

use super::Activity;
use crate::recorded::Event;

/// A place in a thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recorded) struct Place {
    pub(in crate::recorded) thread: usize,
    pub(in crate::recorded) stretch: usize,
    /// The stretch's work before.
    pub(in crate::recorded) done: u64,
}

/// Data that a thread sent, or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recorded) struct Transfer {
    pub(in crate::recorded) at: u64,
    /// None: the thread is unknown.
    pub(in crate::recorded) place: Option<Place>,
    /// Its number in [`Sockets`].
    pub(in crate::recorded) socket: usize,
    pub(in crate::recorded) bytes: u64,
    pub(in crate::recorded) sent: bool,
}

/// The sockets of a trace. The kernel reuses the addresses of closed ones.
#[derive(Clone, Debug, Default)]
pub(in crate::recorded) struct Sockets {
    /// The number of each address's socket, and how many there were.
    now: BTreeMap<u64, usize>,
    all: usize,
    /// The last socket with these ports.
    ports: BTreeMap<(u16, u16), usize>,
    /// Sockets that are known to be connected.
    pub(in crate::recorded) peers: BTreeMap<usize, usize>,
}

impl Sockets {
    /// Begins a connection.
    pub(super) fn connect(&mut self, address: u64, (port, peer_port): (u16, u16)) {
        let new = self.all;
        self.all += 1;
        self.now.insert(address, new);
        self.ports.insert((port, peer_port), new);
        if let Some(peer) = self.ports.remove(&(peer_port, port)) {
            self.ports.remove(&(port, peer_port));
            self.peers.extend([(new, peer), (peer, new)]);
        }
    }

    /// Returns the number of sockets.
    pub(in crate::recorded) fn count(&self) -> usize {
        self.all
    }

    fn number(&mut self, address: u64) -> usize {
        let next = self.all;
        let number = *self.now.entry(address).or_insert(next);
        self.all += usize::from(number == next);
        number
    }
}

impl Activity {
    pub(super) fn transferred(&mut self, event: &Event<'_>, (socket, bytes): (u64, u64), sent: bool) {
        let place = self.pids.get(&event.pid).and_then(|&thread| {
            let stretch = self.threads[thread].stretches.len().checked_sub(1)?;
            Some(Place { thread, stretch, done: self.done(thread) })
        });
        let socket = self.sockets.number(socket);
        self.transfers.push(Transfer { at: self.now, place, socket, bytes, sent });
    }

    /// Corrects the places of a thread's transfers since its arrival, which was guessed as `arrived`, and was `later`.
    /// The stretch had the work `work` before it.
    pub(super) fn transferred_later(
        &mut self,
        (thread, stretch): (usize, usize),
        work: u64,
        (arrived, later): (u64, u64),
    ) {
        let since = self.transfers.iter_mut().rev().take_while(|transfer| transfer.at >= arrived);
        let places = since.map(|transfer| &mut transfer.place);
        let own = places.filter_map(|place| place.as_mut().filter(|place| place.thread == thread));
        for place in own.take_while(|place| place.stretch == stretch && place.done > work) {
            place.done = place.done.saturating_sub(later).max(work);
        }
    }
}
