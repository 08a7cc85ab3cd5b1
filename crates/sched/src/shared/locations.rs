//! The location of every task, in a table that grows while it is read.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;

use crate::ids::{CpuId, TaskId};
use crate::sync::AtomicU64;

/// A table of doubling chunks, which never moves entries, so that it can grow while it is read.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: [OnceBox<Vec<T>>; 27],
}

/// Entries of the first chunk; chunk `n` has `FIRST << n`.
const FIRST: u32 = if cfg!(loom) { 2 } else { 64 };

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: core::array::from_fn(|_| OnceBox::new()) }
    }

    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let shifted = u64::from(index) + u64::from(FIRST);
        let chunk = shifted.ilog2() - FIRST.ilog2();
        (chunk as usize, (shifted - (u64::from(FIRST) << chunk)) as usize)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = Self::place(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Returns an entry, creating its chunk with `fresh` values if needed.
    pub(crate) fn entry(&self, index: u32, fresh: impl Fn() -> T) -> &T {
        let (chunk, offset) = Self::place(index);
        let chunk = self.chunks[chunk]
            .get_or_init(|| Box::new((0..u64::from(FIRST) << chunk).map(|_| fresh()).collect::<Vec<T>>()));
        &chunk[offset]
    }
}

const IN_FLIGHT: u64 = u64::MAX;
/// Ended, or not created yet.
const GONE: u64 = u64::MAX - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On a CPU's run queue, at this index.
    On(CpuId, u32),
    /// Between two run queues.
    InFlight,
    /// Ended, or not created yet.
    Gone,
}

/// All locations. Written only under the lock of the run queue that the task leaves or joins.
#[derive(Debug)]
pub(crate) struct Locations(Table<AtomicU64>);

impl Locations {
    pub(crate) fn new() -> Self {
        Self(Table::new())
    }

    /// Returns the location, which may be outdated.
    #[inline]
    pub(crate) fn place(&self, task: TaskId) -> Place {
        match self.0.get(task.0).map(|place| place.load(Relaxed)) {
            None | Some(GONE) => Place::Gone,
            Some(IN_FLIGHT) => Place::InFlight,
            Some(place) => Place::On(CpuId((place >> 32) as u32), place as u32),
        }
    }

    /// Sets the location; `None` while the task moves.
    #[inline]
    pub(crate) fn set(&self, task: TaskId, place: Option<(CpuId, u32)>) {
        let value = place.map_or(IN_FLIGHT, |(cpu, index)| u64::from(cpu.0) << 32 | u64::from(index));
        self.0.entry(task.0, || AtomicU64::new(GONE)).store(value, Relaxed);
    }

    pub(crate) fn forget(&self, task: TaskId) {
        self.0.entry(task.0, || AtomicU64::new(GONE)).store(GONE, Relaxed);
    }
}
