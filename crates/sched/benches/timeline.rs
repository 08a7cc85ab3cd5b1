//! The timeline of a run queue against `BTreeSet`, what a reader would have used: the first entity is taken off and
//! queued again with a later key, as each context switch does it.
//!
//! `cargo bench -p vruntime-sched --bench timeline` prints nanoseconds for each switch. The names say where the entity
//! comes back: `near` is a deadline among those queued (mixed slices and weights), `back` is behind all others (equal
//! slices and weights). `pick_timeline` is EEVDF's switch: who is ahead of the average vruntime is passed over.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use divan::Bencher;
use divan::counter::ItemsCount;
use vruntime_sched::class::fair::timeline::{Ticket, Timeline};

/// How many are queued.
const LENGTHS: [u32; 10] = [1, 2, 4, 8, 16, 64, 256, 1024, 4096, 16384];
/// Context switches in one measured iteration.
const SWITCHES: usize = 1024;
/// The mean distance between two keys in the queue.
const STEP: u64 = 1000;

fn main() {
    divan::main();
}

/// How much later each entity comes back: the same for both contestants.
struct Delays {
    table: Vec<u64>,
    at: usize,
}

impl Delays {
    /// Uniform over twice the length of the queue.
    fn near(len: u32) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let table = (0..65536)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % (2 * STEP * u64::from(len))
            })
            .collect();
        Self { table, at: 0 }
    }

    /// Always the length of the queue.
    fn back(len: u32) -> Self {
        Self { table: vec![STEP * u64::from(len); 65536], at: 0 }
    }

    fn next(&mut self) -> u64 {
        self.at = (self.at + 1) & 0xffff;
        self.table[self.at]
    }
}

fn btree_set(bencher: Bencher<'_, '_>, len: u32, mut delays: Delays) {
    let mut queue: BTreeSet<(u64, u32)> = (0..len).map(|entity| (u64::from(entity) * STEP, entity)).collect();
    let mut switch = move || {
        if let Some((key, entity)) = queue.pop_first() {
            queue.insert((key + delays.next(), entity));
        }
    };
    for _ in 0..4 * len {
        switch();
    }
    bencher.counter(ItemsCount::new(SWITCHES)).bench_local(|| (0..SWITCHES).for_each(|_| switch()));
}

struct Queue {
    timeline: Timeline,
    /// The ticket and the vruntime of each entity.
    entities: Vec<(Ticket, u64)>,
    /// The sum of all vruntimes.
    sum: u64,
    delays: Delays,
}

impl Queue {
    fn new(len: u32, delays: Delays) -> Self {
        let mut timeline = Timeline::new();
        let keys = (0..len).map(|entity| (entity, u64::from(entity) * STEP));
        let entities: Vec<_> = keys.map(|(entity, key)| (timeline.insert(entity, key, key, STEP), key)).collect();
        let sum = entities.iter().map(|&(_, vruntime)| vruntime).sum();
        Self { timeline, entities, sum, delays }
    }

    fn switch(&mut self, entity: Option<u32>) {
        let Some(entity) = entity else { return };
        let (ticket, vruntime) = &mut self.entities[entity as usize];
        self.timeline.remove(*ticket);
        let (key, delay) = (ticket.key(), self.delays.next());
        self.sum -= *vruntime;
        *vruntime = key + delay / 2;
        self.sum += *vruntime;
        *ticket = self.timeline.insert(entity, key + delay, *vruntime, STEP);
    }

    fn switch_to_first(&mut self) {
        self.switch(self.timeline.first());
    }

    fn switch_to_first_eligible(&mut self) {
        let len = self.entities.len() as u64;
        self.switch(self.timeline.pick(|vruntime| vruntime * len <= self.sum));
    }
}

fn timeline(bencher: Bencher<'_, '_>, len: u32, delays: Delays, switch: impl Fn(&mut Queue)) {
    let mut queue = Queue::new(len, delays);
    for _ in 0..4 * len {
        switch(&mut queue);
    }
    bencher.counter(ItemsCount::new(SWITCHES)).bench_local(|| (0..SWITCHES).for_each(|_| switch(&mut queue)));
}

#[divan::bench(args = LENGTHS)]
fn near_btree_set(bencher: Bencher<'_, '_>, len: u32) {
    btree_set(bencher, len, Delays::near(len));
}

#[divan::bench(args = LENGTHS)]
fn near_timeline(bencher: Bencher<'_, '_>, len: u32) {
    timeline(bencher, len, Delays::near(len), Queue::switch_to_first);
}

#[divan::bench(args = LENGTHS)]
fn back_btree_set(bencher: Bencher<'_, '_>, len: u32) {
    btree_set(bencher, len, Delays::back(len));
}

#[divan::bench(args = LENGTHS)]
fn back_timeline(bencher: Bencher<'_, '_>, len: u32) {
    timeline(bencher, len, Delays::back(len), Queue::switch_to_first);
}

#[divan::bench(args = LENGTHS)]
fn pick_timeline(bencher: Bencher<'_, '_>, len: u32) {
    timeline(bencher, len, Delays::near(len), Queue::switch_to_first_eligible);
}
