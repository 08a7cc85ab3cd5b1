//! The timeline against a plain sorted `Vec`, and the rules of the tree after every step.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Entry, FEW, FEW_AGAIN, Shape, Ticket, Timeline, before};

impl Timeline {
    fn check(&self) {
        match &self.shape {
            Shape::Few(few) => {
                assert!(few.len() <= FEW);
                assert!(
                    few.windows(2).all(|w| before(w[0].key, w[1].key) || (w[0].key == w[1].key && w[0].seq < w[1].seq))
                );
            }
            Shape::Many(tree) => {
                assert!(tree.len() > FEW_AGAIN);
                tree.check();
            }
        }
    }
}

#[derive(Default)]
struct Model {
    queued: Vec<(Entry, Ticket)>,
}

impl Model {
    fn insert(&mut self, entry: Entry, ticket: Ticket) {
        let at = self.queued.iter().take_while(|(e, _)| !before(entry.key, e.key)).count();
        self.queued.insert(at, (entry, ticket));
    }

    fn vruntimes(&self) -> impl Iterator<Item = u64> + '_ {
        self.queued.iter().map(|(e, _)| e.vruntime)
    }

    fn slices(&self) -> impl Iterator<Item = u64> + '_ {
        self.queued.iter().map(|(e, _)| e.slice)
    }

    fn assert_same(&self, timeline: &Timeline, threshold: u64) {
        let entity = |at: usize| self.queued.get(at).map(|(e, _)| e.entity);
        assert_eq!(timeline.len(), self.queued.len());
        assert_eq!(timeline.is_empty(), self.queued.is_empty());
        assert_eq!(timeline.first(), entity(0));
        assert_eq!(timeline.second(), entity(1));
        assert_eq!(timeline.last(), self.queued.last().map(|(e, _)| e.entity));
        assert_eq!(timeline.min_vruntime(), self.vruntimes().reduce(|a, b| if before(b, a) { b } else { a }));
        assert_eq!(timeline.min_slice(), self.slices().min());
        assert_eq!(timeline.max_slice(), self.slices().max());
        let eligible = |vruntime| !before(threshold, vruntime);
        let picked = self.queued.iter().find(|(e, _)| eligible(e.vruntime)).map(|(e, _)| e.entity);
        assert_eq!(timeline.pick(eligible), picked);
    }

    fn assert_same_order(&self, timeline: &Timeline) {
        assert!(timeline.iter().eq(self.queued.iter().map(|(e, _)| e.entity)));
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Key and vruntime are offsets from the moving start of the window.
    Insert {
        key: u64,
        vruntime: u64,
        slice: u64,
    },
    /// Position in the queue, in 65536ths.
    Remove(u16),
    /// Queues the first again with a later key, as a scheduler does.
    Requeue {
        later: u64,
    },
    PopFirst,
    PopLast,
}

/// Steps whose mix of inserts and removes is `grow` to 10, for queues of all lengths.
fn steps(grow: u32, spread: u64, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        grow => (0..spread, 0..spread, 1_u64..5).prop_map(|(key, vruntime, slice)| Step::Insert { key, vruntime, slice }),
        5 => any::<u16>().prop_map(Step::Remove),
        3 => (0..spread).prop_map(|later| Step::Requeue { later }),
        3 => Just(Step::PopFirst),
        2 => Just(Step::PopLast),
    ];
    proptest::collection::vec(step, 0..count)
}

/// Grows to thousands, shrinks to nothing, then some of both.
fn history() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let start = prop_oneof![Just(0), Just(u64::MAX - 20), Just(i64::MAX as u64 - 20), any::<u64>()];
    // 3: most keys are equal; 40: many; the last: as far apart as allowed.
    let spread = prop_oneof![Just(3_u64), Just(40), Just(100_000), Just(1 << 61)];
    let length = prop_oneof![4 => Just(60_usize), 3 => Just(600), 1 => Just(5000)];
    (start, spread, length).prop_flat_map(|(start, spread, length)| {
        (steps(60, spread, length), steps(4, spread, length), steps(12, spread, length))
            .prop_map(move |(a, b, c)| (start, [a, b, c].concat()))
    })
}

fn replay(start: u64, steps: &[Step]) {
    let mut timeline = Timeline::new();
    let mut model = Model::default();
    let mut names = 0..;
    let mut threshold = start;
    for (count, step) in steps.iter().enumerate() {
        let take = |model: &mut Model, timeline: &mut Timeline, at: usize| {
            let (entry, ticket) = model.queued.remove(at);
            let next = model.queued.get(at).map(|(e, _)| e.entity);
            assert_eq!(timeline.next_after(ticket), next);
            assert_eq!(timeline.remove(ticket), Some(entry.entity));
            assert_eq!(timeline.next_after(ticket), None);
            assert_eq!(timeline.remove(ticket), None);
            entry
        };
        let put = |model: &mut Model, timeline: &mut Timeline, entry: Entry| {
            let ticket = timeline.insert(entry.entity, entry.key, entry.vruntime, entry.slice);
            assert_eq!(ticket.key(), entry.key);
            model.insert(entry, ticket);
        };
        let len = model.queued.len();
        match *step {
            Step::Insert { key, vruntime, slice } => {
                let entity = names.next().unwrap_or(0);
                let (key, vruntime) = (start.wrapping_add(key), start.wrapping_add(vruntime));
                threshold = vruntime;
                put(&mut model, &mut timeline, Entry { key, seq: 0, vruntime, slice, entity });
            }
            Step::Remove(at) if len > 0 => _ = take(&mut model, &mut timeline, (at as usize * len) >> 16),
            Step::PopFirst if len > 0 => _ = take(&mut model, &mut timeline, 0),
            Step::PopLast if len > 0 => _ = take(&mut model, &mut timeline, len - 1),
            Step::Requeue { later } if len > 0 => {
                let mut entry = take(&mut model, &mut timeline, 0);
                // Not past the window: at most a quarter of all keys from its start.
                entry.key = start.wrapping_add(entry.key.wrapping_sub(start).wrapping_add(later).min(1 << 62));
                entry.vruntime = entry.key.wrapping_sub(entry.slice);
                put(&mut model, &mut timeline, entry);
            }
            _ => {}
        }
        model.assert_same(&timeline, threshold);
        if steps.len() < 1000 || count % 64 == 0 {
            timeline.check();
            model.assert_same_order(&timeline);
        }
    }
    timeline.check();
    model.assert_same_order(&timeline);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn behaves_like_a_sorted_list((start, steps) in history()) {
        replay(start, &steps);
    }
}

/// Xorshift64 (Marsaglia 2003).
fn scramble(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn three_thousand_in_and_out() {
    for keys in [1, 7, 1000, u64::MAX >> 2] {
        let mut timeline = Timeline::new();
        let mut model = Model::default();
        let mut state = 42;
        for entity in 0..3000 {
            let (key, vruntime) = ((scramble(&mut state) % keys).wrapping_sub(keys / 2), scramble(&mut state) >> 2);
            let slice = scramble(&mut state) % 9;
            let ticket = timeline.insert(entity, key, vruntime, slice);
            model.insert(Entry { key, seq: 0, vruntime, slice, entity }, ticket);
            model.assert_same(&timeline, scramble(&mut state) >> 2);
            if entity % 16 == 0 {
                timeline.check();
            }
        }
        model.assert_same_order(&timeline);
        while !model.queued.is_empty() {
            let at = scramble(&mut state) as usize % model.queued.len();
            let (entry, ticket) = model.queued.remove(at);
            assert_eq!(timeline.remove(ticket), Some(entry.entity));
            model.assert_same(&timeline, scramble(&mut state) >> 2);
            if model.queued.len() % 16 == 0 {
                timeline.check();
                model.assert_same_order(&timeline);
            }
        }
        assert!(timeline.is_empty());
    }
}

/// Lengths around one, two and three leaves: a tree appears, disappears, and has an almost empty root.
#[test]
fn swings_around_every_small_length() {
    let mut state = 7;
    for most in [6, 12, 18, 24, 40, 60] {
        let mut timeline = Timeline::new();
        let mut model = Model::default();
        for entity in 0..4000 {
            let grow = scramble(&mut state) % 100 < if (entity / 50) % 2 == 0 { 70 } else { 30 };
            if grow && model.queued.len() < most {
                let (key, vruntime) = (scramble(&mut state) % 64, scramble(&mut state) % 64);
                let ticket = timeline.insert(entity, key, vruntime, entity as u64 % 3);
                model.insert(Entry { key, seq: 0, vruntime, slice: entity as u64 % 3, entity }, ticket);
            } else if !model.queued.is_empty() {
                // From the back half the time, so that the head stays full and the tree short.
                let at = (scramble(&mut state) as usize % model.queued.len())
                    .max(model.queued.len() * (entity as usize % 2) / 2);
                let (entry, ticket) = model.queued.remove(at);
                assert_eq!(timeline.remove(ticket), Some(entry.entity));
            }
            timeline.check();
            model.assert_same(&timeline, scramble(&mut state) % 64);
        }
        model.assert_same_order(&timeline);
    }
}

/// A root leaf may hold one or two entries, but must not become such a child when the head splits.
#[test]
fn head_splits_before_a_small_root() {
    for left in 1..=5 {
        let mut timeline = Timeline::new();
        let tickets: Vec<Ticket> = (0..17).map(|i| timeline.insert(i, u64::from(i), 0, 1)).collect();
        for &ticket in &tickets[12 + left..] {
            assert!(timeline.remove(ticket).is_some());
        }
        for i in 17..22 {
            timeline.insert(i, 0, 0, 1);
            timeline.check();
        }
        assert!(timeline.iter().eq([0].into_iter().chain(17..22).chain(1..12 + left as u32)));
    }
}

#[test]
fn equal_keys_run_first_in_first_out() {
    for count in [2, FEW as u32, 17, 500] {
        let mut timeline = Timeline::new();
        timeline.insert(9999, 6, 0, 1);
        let tickets: Vec<Ticket> = (0..count).map(|entity| timeline.insert(entity, 5, 0, 1)).collect();
        timeline.insert(9998, 4, 0, 1);
        assert!(timeline.iter().eq([9998].into_iter().chain(0..count).chain([9999])));
        // Every second one moves to the end of its equals.
        for (entity, &ticket) in (0..count).zip(&tickets).step_by(2) {
            assert_eq!(timeline.remove(ticket), Some(entity));
            timeline.insert(entity, 5, 0, 1);
        }
        timeline.check();
        let (odd, even) = ((1..count).step_by(2), (0..count).step_by(2));
        assert!(timeline.iter().eq([9998].into_iter().chain(odd).chain(even).chain([9999])));
    }
}

/// Keys advance without end. A fence that stayed behind would compare as the future half a turn later.
#[test]
fn time_wraps_round_many_times() {
    let mut timeline = Timeline::new();
    let mut queued: alloc::collections::VecDeque<Ticket> = (0..100).map(|i| timeline.insert(i, 0, 0, 1)).collect();
    let mut now = 0_u64;
    for turn in 0..20_000_u32 {
        let Some(ticket) = queued.pop_front() else { unreachable!("a hundred are queued") };
        assert_eq!(timeline.first(), Some(turn % 100));
        assert_eq!(timeline.remove(ticket), Some(turn % 100));
        now = now.wrapping_add(1 << 53);
        queued.push_back(timeline.insert(turn % 100, now, now.wrapping_sub(5), 1));
        if turn % 97 == 0 {
            timeline.check();
        }
    }
}

#[test]
fn pick_asks_little() {
    let mut timeline = Timeline::new();
    let count = 16_384_u64;
    // The later the deadline, the earlier the vruntime: the worst order for a pick from the left.
    for i in 0..count {
        timeline.insert(i as u32, i, count - i, 1);
    }
    for threshold in [0, 1, 2, 100, count / 2, count - 1, count] {
        let calls = core::cell::Cell::new(0);
        let picked = timeline.pick(|vruntime| {
            calls.set(calls.get() + 1);
            vruntime <= threshold
        });
        assert_eq!(picked, (threshold > 0).then(|| (count - threshold) as u32));
        assert!(calls.get() <= 1 + 4 * 16, "{} calls at {threshold}", calls.get());
    }
}

#[test]
fn small_when_little_is_queued() {
    assert_eq!(size_of::<Timeline>(), 32);
    assert_eq!(size_of::<Option<Ticket>>(), 16);
    let mut timeline = Timeline::new();
    let room = |timeline: &Timeline| match &timeline.shape {
        Shape::Few(few) => few.capacity(),
        Shape::Many(_) => usize::MAX,
    };
    assert_eq!(room(&timeline), 0);
    let first = timeline.insert(1, 1, 1, 1);
    assert_eq!(room(&timeline), 1);
    let tickets: Vec<Ticket> = (2..=20).map(|i| timeline.insert(i, 1, 1, 1)).collect();
    assert_eq!(room(&timeline), usize::MAX);
    for ticket in tickets {
        timeline.remove(ticket);
    }
    assert!(room(&timeline) <= FEW, "an array again");
    assert_eq!(timeline.remove(first), Some(1));
}
