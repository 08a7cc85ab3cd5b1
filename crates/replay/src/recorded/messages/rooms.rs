//! Sockets with full buffers: a thread that sends sleeps until the receiver has taken enough.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_workload::program::Room;

use super::Message;
use super::streams::{Link, Streams};
use crate::recorded::habits::percentile;
use crate::recorded::threads::{End, Stretch, Thread, Waker};

/// Fewer waits show no buffer.
const FEWEST: usize = 20;

/// Full buffers of links.
#[derive(Clone, Debug, Default)]
pub(in crate::recorded) struct Rooms {
    /// By the number of the link.
    pub(in crate::recorded) of_links: BTreeMap<usize, Room>,
    /// The link for whose room a thread slept before a stretch.
    pub(in crate::recorded) waits: BTreeMap<(usize, usize), usize>,
}

impl Rooms {
    pub(super) fn new(threads: &[Thread], streams: &Streams<'_>, links: &[Link], all: &[Message]) -> Self {
        let mut waits = waits(threads, streams, links, all);
        let mut by_link = BTreeMap::<usize, Vec<(usize, usize)>>::new();
        for (&wait, &link) in &waits {
            by_link.entry(link).or_default().push(wait);
        }
        by_link.retain(|_, waits| waits.len() >= FEWEST);
        let mut traffic = BTreeMap::<usize, Traffic>::new();
        for message in all.iter().filter(|message| by_link.contains_key(&message.link)) {
            traffic.entry(message.link).or_default().add(message);
        }
        let room = |(link, waits): (usize, Vec<(usize, usize)>)| {
            let room = room(threads, &waits, &traffic.remove(&link)?.sorted())?;
            Some((link, room))
        };
        let of_links: BTreeMap<usize, Room> = by_link.into_iter().filter_map(room).collect();
        waits.retain(|_, link| of_links.contains_key(link));
        Self { of_links, waits }
    }
}

/// Finds sleeps that the receiver of a link ended, and after which the thread sent a message there.
fn waits(
    threads: &[Thread],
    streams: &Streams<'_>,
    links: &[Link],
    all: &[Message],
) -> BTreeMap<(usize, usize), usize> {
    let mut receivers = BTreeMap::<usize, BTreeSet<usize>>::new();
    for message in all {
        receivers.entry(message.link).or_default().insert(message.to.thread);
    }
    let of_socket: BTreeMap<usize, usize> = links.iter().enumerate().map(|(link, &(from, ..))| (from, link)).collect();
    let mut waits = BTreeMap::new();
    for (thread, life) in threads.iter().enumerate() {
        for stretch in 1..life.stretches.len() {
            let Some(first) = streams.first(thread, stretch).filter(|first| first.sent) else { continue };
            let Some(link) = of_socket.get(&first.socket) else { continue };
            let Some(receivers) = receivers.get(link) else { continue };
            // It may have slept again before it could send.
            let silent = |earlier: &usize| *earlier == stretch || streams.first(thread, *earlier).is_none();
            let slept_for_room = |earlier: &usize| {
                matches!(life.stretches[*earlier].waker, Waker::Thread(by) if receivers.contains(&by))
                    && life.stretches[*earlier - 1].end == End::Sleep
            };
            let sleeps = (1..=stretch).rev().take_while(silent).take_while(slept_for_room);
            waits.extend(sleeps.map(|earlier| ((thread, earlier), *link)));
        }
    }
    waits
}

/// When the messages of a link were sent and taken.
#[derive(Default)]
struct Traffic {
    sent: Vec<u64>,
    taken: Vec<u64>,
}

impl Traffic {
    fn add(&mut self, message: &Message) {
        self.sent.push(message.sent);
        self.taken.push(message.taken);
    }

    fn sorted(mut self) -> Self {
        self.sent.sort_unstable();
        self.taken.sort_unstable();
        self
    }

    /// Returns the messages that were on their way.
    fn under_way(&self, at: u64) -> u64 {
        let until = |times: &[u64]| times.partition_point(|&time| time <= at) as u64;
        until(&self.sent).saturating_sub(until(&self.taken))
    }
}

/// Returns the room of a link with these waits. A buffer that is full at different lengths is not limited by their
/// number: then the middle half of them is not near the median.
fn room(threads: &[Thread], waits: &[(usize, usize)], traffic: &Traffic) -> Option<Room> {
    let sorted = |time: fn(&[Stretch], usize) -> u64| {
        let under_way =
            |&(thread, stretch): &(usize, usize)| traffic.under_way(time(&threads[thread].stretches, stretch));
        let mut counts: Vec<u64> = waits.iter().map(under_way).collect();
        counts.sort_unstable();
        counts
    };
    let full = sorted(|stretches, stretch| stretches[stretch - 1].ended);
    let free = sorted(|stretches, stretch| stretches[stretch].woken);
    let most = percentile(&full, 50);
    let is_near = |part: usize| percentile(&full, part).abs_diff(most) <= most / 10;
    (most > 0 && is_near(25) && is_near(75)).then(|| Room { most, few: percentile(&free, 50).min(most - 1) })
}
