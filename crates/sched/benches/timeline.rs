//! The timeline of a run queue against `BTreeSet`: the first entity leaves and returns with a later key, as in a
//! context switch.
//!
//! `cargo bench -p vruntime-sched --bench timeline` prints nanoseconds for each switch. An entity returns among the
//! queued ones (`near`: mixed slices and weights) or behind them (`back`: equal ones). `pick_timeline` is EEVDF's
//! switch, which skips ineligible entities.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use divan::Bencher;
use divan::counter::ItemsCount;
use vruntime_sched::class::fair::timeline::{Ticket, Timeline};

/// Numbers of queued entities.
const LENGTHS: [u32; 10] = [1, 2, 4, 8, 16, 64, 256, 1024, 4096, 16384];
const SWITCHES: usize = 1024;
const STEP: u64 = 1000;

fn main() {
    divan::main();
}

/// The delays of returning entities, equal in both.
struct Delays {
    table: Vec<u64>,
    at: usize,
}

impl Delays {
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
    entities: Vec<(Ticket, u64)>,
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
