//! What all processes of a run share: memory that was mapped before they were forked.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::objects::Word;
use crate::{sys, work};

/// The most threads that can be changed.
const TIDS: usize = 1 << 15;

/// The state of a run, in shared memory.
#[derive(Debug)]
pub(crate) struct Common {
    /// Set when the run is over, so that all waits end.
    stop: Word,
    /// Threads may begin, at [`Self::start`].
    pub(crate) open: Word,
    /// Threads that are ready to begin.
    pub(crate) ready: Word,
    /// Programs that have not come to their end.
    live: Word,
    /// It is 1 when there are no such.
    done: Word,
    /// The common start and the end, monotonic nanoseconds; 0 until they are known.
    start: &'static AtomicU64,
    end: &'static AtomicU64,
    /// How many have been forked of each task.
    pub(crate) forked: &'static [AtomicU32],
    /// How many of `tids` were ever used.
    used: &'static AtomicU32,
    /// The thread of each instance that lives: its task's index, and its id.
    tids: &'static [AtomicU64],
}

impl Common {
    /// `live` of `tasks` tasks are begun. `changes`: threads have to be found.
    pub(crate) fn new(tasks: usize, live: usize, changes: bool) -> io::Result<Self> {
        let (words, long) = sys::shared_words(tasks + 6, 2 + if changes { TIDS } else { 0 })?;
        let (own, forked) = words.split_at(6);
        let (times, tids) = long.split_at(2);
        let [stop, open, ready, all, done] = [0, 1, 2, 3, 4].map(|index| Word::shared(&own[index]));
        all.store(live as u32, Ordering::SeqCst);
        times[1].store(u64::MAX, Ordering::SeqCst);
        let (start, end) = (&times[0], &times[1]);
        Ok(Self { stop, open, ready, live: all, done, start, end, forked, used: &own[5], tids })
    }

    pub(crate) fn stop(&self) -> &AtomicU32 {
        &self.stop
    }

    /// Ends the run for all tasks.
    pub(crate) fn stop_all(&self) {
        self.stop.store(1, Ordering::SeqCst);
        self.stop.wake(u32::MAX);
    }

    /// Waits until the run is over.
    pub(crate) fn wait_for_stop(&self) {
        while self.stop.load(Ordering::SeqCst) == 0 {
            self.stop.wait(0);
        }
    }

    /// Sleeps until that time, or until the run is over.
    pub(crate) fn sleep_until(&self, at: u64) {
        while !self.over() && work::now() < at {
            self.stop.wait_until(0, at);
        }
    }

    /// Lets all begin.
    pub(crate) fn begin(&self, start: u64, end: u64) {
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.open_all();
    }

    /// Lets all go on: to begin, or, if no start is known, to end.
    pub(crate) fn open_all(&self) {
        self.open.store(1, Ordering::SeqCst);
        self.open.wake(u32::MAX);
    }

    /// Waits until all begin, or the run is over before.
    pub(crate) fn wait_for_begin(&self) {
        while self.open.load(Ordering::SeqCst) == 0 {
            self.open.wait(0);
        }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub(crate) fn end_at(&self, at: u64) {
        self.end.fetch_min(at, Ordering::SeqCst);
    }

    pub(crate) fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0 || work::now() >= self.end()
    }

    /// One thread more is ready.
    pub(crate) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::SeqCst);
        self.ready.wake(u32::MAX);
    }

    pub(crate) fn one_more(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    /// A program has come to its end; with the last the run is over.
    pub(crate) fn one_less(&self) {
        if self.live.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.end_at(work::now());
            self.done.store(1, Ordering::SeqCst);
            self.done.wake(u32::MAX);
        }
    }

    /// Programs that have not come to their end.
    pub(crate) fn live(&self) -> u32 {
        self.live.load(Ordering::SeqCst)
    }

    /// Waits until there are none, or for at most `most`.
    pub(crate) fn wait_until_done(&self, most: Duration) {
        let most = work::timespec(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        self.done.wait_for(0, Some(&most));
    }

    /// Registers a thread for changes. Returns its place.
    pub(crate) fn here_is(&self, task: usize, tid: u32) -> usize {
        let at = self.used.fetch_add(1, Ordering::SeqCst) as usize;
        if let Some(slot) = self.tids.get(at) {
            slot.store((task as u64) << 32 | u64::from(tid), Ordering::SeqCst);
        }
        at
    }

    /// It is gone.
    pub(crate) fn gone(&self, at: usize) {
        if let Some(slot) = self.tids.get(at) {
            slot.store(0, Ordering::SeqCst);
        }
    }

    /// The threads that live: task and id.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (usize, u32)> {
        let used = (self.used.load(Ordering::SeqCst) as usize).min(self.tids.len());
        let slots = self.tids[..used].iter().map(|slot| slot.load(Ordering::SeqCst));
        slots.filter(|&slot| slot != 0).map(|slot| ((slot >> 32) as usize, slot as u32))
    }
}
