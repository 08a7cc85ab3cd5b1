//! Sockets with full buffers: a thread that sends sleeps until the receiver has taken enough.

use std::collections::{BTreeMap, BTreeSet};

use super::Message;
use super::streams::{Link, Streams};
use crate::recorded::habits::percentile;
use crate::recorded::lives::{End, Stretch, Thread, Waker};
use vruntime_workload::program::Room;

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
        let mut receivers = BTreeMap::<usize, BTreeSet<usize>>::new();
        for message in all {
            receivers.entry(message.link).or_default().insert(message.to.thread);
        }
        let of_socket: BTreeMap<usize, usize> =
            links.iter().enumerate().map(|(link, &(from, ..))| (from, link)).collect();
        let mut waits = BTreeMap::new();
        for (thread, life) in threads.iter().enumerate() {
            for stretch in 1..life.stretches.len() {
                let Some(first) = streams.first(thread, stretch).filter(|first| first.sent) else { continue };
                let Some(link) = of_socket.get(&first.socket) else { continue };
                let Some(receivers) = receivers.get(link) else { continue };
                // It may have slept again before it could send.
                let silent = |earlier: &usize| *earlier == stretch || streams.first(thread, *earlier).is_none();
                for earlier in (1..=stretch).rev().take_while(silent) {
                    let woken = matches!(life.stretches[earlier].waker, Waker::Thread(by) if receivers.contains(&by));
                    if !woken || life.stretches[earlier - 1].end != End::Sleep {
                        break;
                    }
                    waits.insert((thread, earlier), *link);
                }
            }
        }
        let mut by_link = BTreeMap::<usize, Vec<(usize, usize)>>::new();
        for (&wait, &link) in &waits {
            by_link.entry(link).or_default().push(wait);
        }
        by_link.retain(|_, waits| waits.len() >= FEWEST);
        let mut times = BTreeMap::<usize, [Vec<u64>; 2]>::new();
        for message in all.iter().filter(|message| by_link.contains_key(&message.link)) {
            let [sent, taken] = times.entry(message.link).or_default();
            sent.push(message.sent);
            taken.push(message.taken);
        }
        let mut of_links = BTreeMap::new();
        for (link, waits) in by_link {
            let times = times.entry(link).or_default();
            for times in times.iter_mut() {
                times.sort_unstable();
            }
            let [sent, taken] = times.each_ref().map(|times| |at| times.partition_point(|&time| time <= at) as u64);
            let sorted = |at: &dyn Fn(&[Stretch], usize) -> u64| {
                let at = |&(thread, stretch): &(usize, usize)| at(&threads[thread].stretches, stretch);
                let counts = waits.iter().map(at).map(|at| sent(at).saturating_sub(taken(at)));
                let mut counts: Vec<u64> = counts.collect();
                counts.sort_unstable();
                counts
            };
            let full = sorted(&|stretches, stretch| stretches[stretch - 1].ended);
            let free = sorted(&|stretches, stretch| stretches[stretch].woken);
            let most = percentile(&full, 50);
            // A buffer that is full at other lengths is not limited by their number.
            if [25, 75].iter().all(|&part| percentile(&full, part).abs_diff(most) <= most / 10) && most > 0 {
                of_links.insert(link, Room { most, few: percentile(&free, 50).min(most - 1) });
            }
        }
        waits.retain(|_, link| of_links.contains_key(link));
        Self { of_links, waits }
    }
}
