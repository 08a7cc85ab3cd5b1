//! The timeline of a `cfs_rq`: its queued entities in running order.
//!
//! CFS orders entities by vruntime and runs the leftmost. EEVDF orders by virtual deadline and runs the leftmost
//! *eligible* one (vruntime not ahead of the average), which needs each subtree's smallest vruntime. The kernel's tree
//! is red-black; this is an augmented B+tree (Bayer and McCreight 1972; EEVDF search: Stoica and Abdel-Wahab 1995,
//! section 5). An array of sixteen is faster than sixteen pointers.
//!
//! Shapes by the number of entities:
//!
//! * none: 32 bytes and no allocation, as in most timelines (groups times CPUs);
//! * up to eight: one sorted array;
//! * more: leaves of up to sixteen. The first leaf is the head; the others are under inner nodes.
//!
//! Keys and vruntimes are wrapping `u64`: all queued keys must lie within 2^63.

mod inner;
mod leaf;
mod tree;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use tree::Tree;

/// Most entities in one sorted array.
const FEW: usize = 8;
/// Entities at which a tree becomes an array: below [`FEW`], so that a steady run queue keeps its shape.
const FEW_AGAIN: usize = FEW / 2;

/// Whether `a` is before `b` on a clock that wraps.
#[inline]
const fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

#[inline]
const fn earlier(a: u64, b: u64) -> u64 {
    if before(b, a) { b } else { a }
}

/// A queued entity's receipt, for [`Timeline::remove`]. Its sequence number keeps removal fast among equal deadlines.
/// An `Option<Ticket>` is no larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    key: u64,
    seq: NonZeroU64,
}

impl Ticket {
    /// Returns the virtual deadline (EEVDF) or vruntime (CFS) at insertion.
    #[inline]
    pub const fn key(self) -> u64 {
        self.key
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    key: u64,
    /// Increases with each insertion; never 0.
    seq: u64,
    vruntime: u64,
    slice: u64,
    entity: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Summary {
    min_vruntime: u64,
    min_slice: u64,
    max_slice: u64,
}

impl Summary {
    #[inline]
    const fn of(vruntime: u64, slice: u64) -> Self {
        Self { min_vruntime: vruntime, min_slice: slice, max_slice: slice }
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        Self {
            min_vruntime: earlier(self.min_vruntime, other.min_vruntime),
            min_slice: self.min_slice.min(other.min_slice),
            max_slice: self.max_slice.max(other.max_slice),
        }
    }

    /// Whether it may change when `gone` leaves the subtree.
    #[inline]
    const fn rests_on(self, gone: Self) -> bool {
        self.min_vruntime == gone.min_vruntime || self.min_slice == gone.min_slice || self.max_slice == gone.max_slice
    }
}

/// The entities queued on one `cfs_rq`, by key, and in order of insertion among equals.
///
/// `n` is their number. Any `u32` names an entity.
///
/// ```
/// use vruntime_sched::class::fair::timeline::Timeline;
///
/// let mut timeline = Timeline::new();
/// let late = timeline.insert(7, 3_000, 0, 3_000); // entity, deadline, vruntime, slice
/// timeline.insert(8, 2_000, 1_500, 500);
/// assert_eq!(timeline.first(), Some(8));
/// assert_eq!(timeline.pick(|vruntime| vruntime <= 1_000), Some(7));
/// assert_eq!(timeline.remove(late), Some(7));
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    shape: Shape,
    seq: u64,
}

#[derive(Clone, Debug)]
enum Shape {
    Few(Vec<Entry>),
    Many(Box<Tree>),
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// Returns an empty timeline. Allocates nothing.
    pub const fn new() -> Self {
        Self { shape: Shape::Few(Vec::new()), seq: 0 }
    }

    /// Returns the number of queued entities.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.shape {
            Shape::Few(few) => few.len(),
            Shape::Many(tree) => tree.len(),
        }
    }

    /// Whether no entity is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.shape {
            Shape::Few(few) => few.is_empty(),
            Shape::Many(_) => false,
        }
    }

    /// Queues an entity, after all whose key is equal or before. O(log n).
    ///
    /// `key` is its virtual deadline (EEVDF) or vruntime (CFS). A changed argument needs another insertion.
    #[inline]
    pub fn insert(&mut self, entity: u32, key: u64, vruntime: u64, slice: u64) -> Ticket {
        self.seq += 1;
        let entry = Entry { key, seq: self.seq, vruntime, slice, entity };
        match &mut self.shape {
            Shape::Few(few) if few.len() < FEW => {
                if few.len() == few.capacity() {
                    grow(few);
                }
                // From the back: the entity has mostly just run, and has the latest key.
                let mut at = few.len();
                while at > 0 && before(key, few[at - 1].key) {
                    at -= 1;
                }
                few.insert(at, entry);
            }
            Shape::Few(few) => {
                let mut tree = Box::new(Tree::of(few));
                tree.insert(entry);
                self.shape = Shape::Many(tree);
            }
            Shape::Many(tree) => tree.insert(entry),
        }
        Ticket { key, seq: NonZeroU64::MIN.saturating_add(self.seq - 1) }
    }

    /// Removes and returns an entity, or `None` if it was removed before. O(log n).
    #[inline]
    pub fn remove(&mut self, ticket: Ticket) -> Option<u32> {
        let seq = ticket.seq.get();
        match &mut self.shape {
            Shape::Few(few) => {
                let at = few.iter().position(|entry| entry.seq == seq)?;
                Some(few.remove(at).entity)
            }
            Shape::Many(tree) => {
                let entity = tree.remove(ticket.key, seq)?;
                if tree.len() <= FEW_AGAIN {
                    self.shape = Shape::Few(tree.entries().collect());
                }
                Some(entity)
            }
        }
    }

    /// Returns the entity with the smallest key. O(1).
    #[inline]
    pub fn first(&self) -> Option<u32> {
        match &self.shape {
            Shape::Few(few) => few.first().map(|entry| entry.entity),
            Shape::Many(tree) => Some(tree.first().entity),
        }
    }

    /// Returns the entity after [`first`](Self::first). O(1).
    #[inline]
    pub fn second(&self) -> Option<u32> {
        match &self.shape {
            Shape::Few(few) => few.get(1).map(|entry| entry.entity),
            Shape::Many(tree) => tree.second().map(|entry| entry.entity),
        }
    }

    /// Returns the entity with the largest key. O(log n).
    #[inline]
    pub fn last(&self) -> Option<u32> {
        match &self.shape {
            Shape::Few(few) => few.last().map(|entry| entry.entity),
            Shape::Many(tree) => Some(tree.last().entity),
        }
    }

    /// Returns the entity after the one with this ticket, if both are queued. O(log n).
    #[inline]
    pub fn next_after(&self, ticket: Ticket) -> Option<u32> {
        let seq = ticket.seq.get();
        match &self.shape {
            Shape::Few(few) => {
                let at = few.iter().position(|entry| entry.seq == seq)?;
                few.get(at + 1).map(|entry| entry.entity)
            }
            Shape::Many(tree) => tree.next_after(ticket.key, seq).map(|entry| entry.entity),
        }
    }

    /// Returns the first entity whose vruntime is eligible, which is EEVDF's choice. O(log n).
    ///
    /// `eligible` must be monotone: true for all vruntimes before a true one.
    #[inline]
    pub fn pick(&self, eligible: impl Fn(u64) -> bool) -> Option<u32> {
        match &self.shape {
            Shape::Few(few) => few.iter().find(|entry| eligible(entry.vruntime)).map(|entry| entry.entity),
            Shape::Many(tree) => tree.pick(eligible).map(|entry| entry.entity),
        }
    }

    /// Returns the earliest queued vruntime. O(1).
    #[inline]
    pub fn min_vruntime(&self) -> Option<u64> {
        match &self.shape {
            Shape::Few(few) => few.iter().map(|entry| entry.vruntime).reduce(earlier),
            Shape::Many(tree) => Some(tree.min_vruntime()),
        }
    }

    /// Returns the shortest queued slice. O(1).
    #[inline]
    pub fn min_slice(&self) -> Option<u64> {
        match &self.shape {
            Shape::Few(few) => few.iter().map(|entry| entry.slice).min(),
            Shape::Many(tree) => Some(tree.min_slice()),
        }
    }

    /// Returns the longest queued slice. O(1).
    #[inline]
    pub fn max_slice(&self) -> Option<u64> {
        match &self.shape {
            Shape::Few(few) => few.iter().map(|entry| entry.slice).max(),
            Shape::Many(tree) => Some(tree.max_slice()),
        }
    }

    /// Returns the entities in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (few, tree) = match &self.shape {
            Shape::Few(few) => (few.as_slice(), None),
            Shape::Many(tree) => (&[][..], Some(tree)),
        };
        few.iter().copied().chain(tree.into_iter().flat_map(|tree| tree.entries())).map(|entry| entry.entity)
    }
}

/// From one: most timelines hold at most two, and there may be a million.
#[cold]
fn grow(few: &mut Vec<Entry>) {
    few.reserve_exact(few.len().max(1));
}
