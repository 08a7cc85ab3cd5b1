//! Memory shared by all processes of a run, mapped before the forks.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::objects::Word;
use crate::{sys, work};

const TIDS: usize = 1 << 15;

#[derive(Debug)]
pub(crate) struct Common {
    stop: Word,
    /// Set when threads may begin, at [`Self::start`].
    pub(crate) open: Word,
    /// Number of ready threads.
    pub(crate) ready: Word,
    /// Number of unfinished programs.
    live: Word,
    /// 1 when `live` is 0.
    done: Word,
    /// Common start and end, monotonic nanoseconds; 0 while unknown.
    start: &'static AtomicU64,
    end: &'static AtomicU64,
    /// Number of forked instances of each task.
    pub(crate) forked: &'static [AtomicU32],
    /// Number of `tids` ever used.
    used: &'static AtomicU32,
    /// Task index and thread id of each live instance.
    tids: &'static [AtomicU64],
}

impl Common {
    /// `live` of `tasks` tasks begin. `changes`: threads must be found later.
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

    pub(crate) fn stop_all(&self) {
        self.stop.store(1, Ordering::SeqCst);
        self.stop.wake(u32::MAX);
    }

    pub(crate) fn wait_for_stop(&self) {
        while self.stop.load(Ordering::SeqCst) == 0 {
            self.stop.wait(0);
        }
    }

    /// Sleeps until `at`, or until the run is over.
    pub(crate) fn sleep_until(&self, at: u64) {
        while !self.over() && work::now() < at {
            self.stop.wait_until(0, at);
        }
    }

    pub(crate) fn begin(&self, start: u64, end: u64) {
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.open_all();
    }

    /// Releases all threads, to begin or, if no start is known, to end.
    pub(crate) fn open_all(&self) {
        self.open.store(1, Ordering::SeqCst);
        self.open.wake(u32::MAX);
    }

    /// Waits for the begin, or for an earlier end of the run.
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

    pub(crate) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::SeqCst);
        self.ready.wake(u32::MAX);
    }

    pub(crate) fn one_more(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    /// A program has ended. The last one ends the run.
    pub(crate) fn one_less(&self) {
        if self.live.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.end_at(work::now());
            self.done.store(1, Ordering::SeqCst);
            self.done.wake(u32::MAX);
        }
    }

    pub(crate) fn live(&self) -> u32 {
        self.live.load(Ordering::SeqCst)
    }

    /// Waits until no program is live, at most for `most`.
    pub(crate) fn wait_until_done(&self, most: Duration) {
        let most = work::timespec(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        self.done.wait_for(0, Some(&most));
    }

    /// Registers a thread for changes. Returns its index.
    pub(crate) fn here_is(&self, task: usize, tid: u32) -> usize {
        let at = self.used.fetch_add(1, Ordering::SeqCst) as usize;
        if let Some(slot) = self.tids.get(at) {
            slot.store((task as u64) << 32 | u64::from(tid), Ordering::SeqCst);
        }
        at
    }

    pub(crate) fn gone(&self, at: usize) {
        if let Some(slot) = self.tids.get(at) {
            slot.store(0, Ordering::SeqCst);
        }
    }

    /// Returns the live threads: task and id.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (usize, u32)> {
        let used = (self.used.load(Ordering::SeqCst) as usize).min(self.tids.len());
        let slots = self.tids[..used].iter().map(|slot| slot.load(Ordering::SeqCst));
        slots.filter(|&slot| slot != 0).map(|slot| ((slot >> 32) as usize, slot as u32))
    }
}
