//! The search, on figures that are functions of the differences taken.

use super::*;

/// A figure as a function of the differences taken. The first side has none of them.
struct Model {
    differences: usize,
    figure: fn(&[bool]) -> f64,
    /// How far seeds shift it.
    spread: f64,
    /// What the first four seeds add to it by chance.
    luck: fn(&[bool]) -> f64,
    /// Differences that a real kernel can switch off.
    switchable: &'static [usize],
    /// Number of runs, one per combination and seed.
    runs: usize,
    /// Most runs.
    budget: usize,
}

impl Between for Model {
    type Variant = Vec<bool>;
    type Error = ();

    fn variant(&self, backward: bool, set: &[usize]) -> Option<(Vec<bool>, Vec<usize>)> {
        // The last two need each other.
        let mut taken = set.to_vec();
        for (one, other) in [(38, 39), (39, 38)] {
            if taken.contains(&one) && !taken.contains(&other) {
                taken.push(other);
            }
        }
        let there = (0..self.differences).map(|one| taken.contains(&one) != backward).collect();
        Some((there, taken))
    }

    fn run(&mut self, variants: &[Vec<bool>], seeds: Seeds) -> Result<Vec<Ran>, ()> {
        self.runs += number(seeds).count() * variants.len();
        Ok(variants.iter().map(|there| self.ran(there, seeds)).collect())
    }

    fn differ(&mut self, variants: &[Vec<bool>], seeds: Seeds, base: &Ran) -> Result<Vec<bool>, ()> {
        let of_seeds = |seed: u64| base.digests[seed as usize];
        let digests: Vec<u64> = number(seeds).map(of_seeds).collect();
        Ok(self.run(variants, seeds)?.iter().map(|ran| ran.digests != digests).collect())
    }

    fn left(&self, seeds: Seeds, stage: Stage) -> usize {
        (self.budget * stage.thirds() as usize / 3).saturating_sub(self.runs) / number(seeds).count()
    }

    fn is_switchable(&self, difference: usize) -> bool {
        self.switchable.contains(&difference)
    }

    fn switched(&self, set: &[usize]) -> Option<Vec<bool>> {
        self.variant(true, set).map(|(there, _)| there)
    }
}

fn number(seeds: Seeds) -> std::ops::Range<u64> {
    match seeds {
        Seeds::First => 0..1,
        Seeds::Rest => 1..4,
        Seeds::All => 0..4,
        Seeds::Fresh => 4..8,
    }
}

impl Model {
    /// Returns a model of 40 differences.
    fn of(figure: fn(&[bool]) -> f64) -> Self {
        let budget = usize::MAX / 3;
        Self { differences: 40, figure, spread: 0.0, luck: |_| 0.0, switchable: &[], runs: 0, budget }
    }

    /// Searches between the side without differences and the one with all.
    fn searched(&mut self) -> Found {
        let mut ends = self.run(&[vec![false; 40], vec![true; 40]], Seeds::All).unwrap();
        let (last, first) = (ends.pop().unwrap(), ends.pop().unwrap());
        search(self, 40, (first, last), None).unwrap()
    }

    /// Seeds shift the figure by up to `spread`, in another way for each combination that changes an event.
    fn ran(&self, there: &[bool], seeds: Seeds) -> Ran {
        let value = |seed: u64| (self.figure)(there) + if seed < 4 { (self.luck)(there) } else { 0.0 };
        let values: Vec<f64> = number(seeds).map(|seed| value(seed) + self.spread * chance(there, seed)).collect();
        let digests = values.iter().map(|value| value.to_bits()).collect();
        Ran { values, digests, ..Ran::default() }
    }
}

/// Returns a random number from -1 to 1 for a combination and a seed.
fn chance(there: &[bool], seed: u64) -> f64 {
    let mixed = there
        .iter()
        .fold(seed + 1, |mixed, &one| (mixed ^ u64::from(one)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn searched(figure: fn(&[bool]) -> f64, spread: f64, budget: usize) -> (Found, usize) {
    let mut model = Model { spread, budget, ..Model::of(figure) };
    (model.searched(), model.runs)
}

fn found(figure: fn(&[bool]) -> f64) -> (Found, usize) {
    searched(figure, 0.0, usize::MAX / 3)
}

#[test]
fn a_single_cause_is_found_and_no_other_blamed() {
    let (found, runs) = found(|there| if there[17] { 3.0 } else { 10.0 });
    assert_eq!(found.explained_by, [17]);
    assert_eq!(found.effects.len(), 1);
    assert!((found.joint + 7.0).abs() < 1e-9);
    // One by one, with 4 seeds, 40 differences in both directions take 320 runs.
    assert!(runs < 100, "{runs} runs");
}

/// Two differences without an effect alone: only leaving one out of the second side shows them.
#[test]
fn an_interaction_is_found() {
    let (found, _) = found(|there| if there[3] && there[30] { 20.0 } else { 10.0 });
    assert_eq!(found.explained_by, [3, 30]);
    assert!(found.effects.iter().all(|effect| effect.alone.is_none() && effect.left_out == Some(10.0)));
}

#[test]
fn what_is_possible_only_together_is_found_together() {
    let (found, _) = found(|there| if there[39] { 4.0 } else { 10.0 });
    assert!(matches!(found.explained_by[..], [38 | 39]), "{found:?}");
    let with: Vec<&[usize]> = found.effects.iter().map(|effect| &effect.with[..]).collect();
    assert_eq!(with, [[39], [38]]);
}

/// Any two of three suffice, and a fourth is needed: no single one has an effect on either side.
#[test]
fn an_interaction_without_single_effects_is_found() {
    let (found, _) = found(|there| {
        let some = [there[5], there[20], there[33]].into_iter().filter(|one| *one).count();
        if some > 1 { 20.0 } else { 10.0 }
    });
    assert_eq!(found.effects.len(), 0);
    assert_eq!(found.explained_by.len(), 2, "{found:?}");
    assert!(found.explained_by.iter().all(|one| [5, 20, 33].contains(one)));
}

/// Either of two differences makes the whole change, and the other one is named, too.
#[test]
fn other_single_causes_are_alternatives() {
    let (found, _) = found(|there| if there[3] || there[30] { 20.0 } else { 10.0 });
    assert_eq!((&found.explained_by[..], &found.alternatives[..]), (&[3][..], &[30][..]), "{found:?}");
    assert!(found.effects.iter().all(|effect| effect.alone == Some(10.0) && effect.left_out.is_none()));
    // A difference that takes the named one along is no other cause.
    let (found, _) = self::found(|there| if there[39] { 4.0 } else { 10.0 });
    assert!(found.alternatives.is_empty(), "{found:?}");
}

/// A difference has an effect on the second side only, and makes the rest that the first cause leaves. The mean of its
/// two effects is within the noise.
#[test]
fn a_rest_beyond_the_noise_gets_the_next_cause() {
    let figure = |there: &[bool]| match (there[17], there[20]) {
        (true, true) => -100.0,
        (true, false) => -84.0,
        _ => 0.0,
    };
    let mut model = Model::of(figure);
    let first = Ran { values: vec![-9.0, 9.0, 0.0, 0.0], digests: vec![0; 4], ..Ran::default() };
    let last = model.ran(&[true; 40], Seeds::All);
    let found = search(&mut model, 40, (first, last), None).unwrap();
    assert_eq!((&found.explained_by[..], found.joint), (&[17, 20][..], -100.0), "{found:?}");
}

/// As before, but other seeds lack the effect of the second difference.
#[test]
fn a_rest_that_other_seeds_lack_gets_no_cause() {
    let figure = |there: &[bool]| if there[17] { -84.0 } else { 0.0 };
    let luck = |there: &[bool]| if there[17] && there[20] { -16.0 } else { 0.0 };
    let mut model = Model { luck, ..Model::of(figure) };
    let first = Ran { values: vec![-9.0, 9.0, 0.0, 0.0], digests: vec![0; 4], ..Ran::default() };
    let last = model.ran(&[true; 40], Seeds::All);
    assert!((last.mean() + 100.0).abs() < 1e-9, "{}", last.mean());
    let found = search(&mut model, 40, (first, last), None).unwrap();
    assert_eq!((&found.explained_by[..], found.joint), (&[17][..], -84.0), "{found:?}");
}

/// Returns the sum of independent effects of differences 3 and 30.
fn sum(there: &[bool], third: f64, thirtieth: f64) -> f64 {
    (if there[3] { third } else { 0.0 }) + if there[30] { thirtieth } else { 0.0 }
}

/// A difference that opposes the change is no cause of it, although the change is smaller with it.
#[test]
fn a_difference_against_the_change_is_apart_from_the_causes() {
    let (up, _) = found(|there| sum(there, 6.0, -2.0));
    let (down, _) = found(|there| sum(there, -6.0, 2.0));
    for found in [up, down] {
        assert_eq!((&found.explained_by[..], &found.counteracted_by[..]), (&[3][..], &[30][..]), "{found:?}");
        assert!((found.joint.abs() - 4.0).abs() < 1e-9, "{found:?}");
    }
}

/// What a real kernel can switch off is named only if that undoes most of the change.
#[test]
fn an_undo_is_what_it_undoes_on_the_second_side() {
    let undo = |figure: fn(&[bool]) -> f64, switchable: &'static [usize]| {
        Model { switchable, ..Model::of(figure) }.searched().undo
    };
    let one = |there: &[bool]| if there[17] { 3.0 } else { 10.0 };
    assert_eq!(undo(one, &[17]), Some(Undo { causes: vec![17], by: -7.0 }));
    assert_eq!(undo(one, &[16]), None);
    // Each of two differences makes the change alone, so the second side does not change without one of them.
    let either = |there: &[bool]| if there[3] || there[30] { 20.0 } else { 10.0 };
    assert_eq!(undo(either, &[3]), None);
    // The switchable cause is the smaller one.
    let parts = |there: &[bool]| sum(there, 8.0, 2.0);
    assert_eq!(undo(parts, &[30]), None);
    assert_eq!(undo(parts, &[3, 30]), Some(Undo { causes: vec![3, 30], by: 10.0 }));
    // A difference that opposes the change is not switched off.
    let against = |there: &[bool]| sum(there, 6.0, -2.0);
    assert_eq!(undo(against, &[3, 30]), Some(Undo { causes: vec![3], by: 6.0 }));
}

/// Of two differences, the one with the smaller share makes the change alone, and the other more than that.
#[test]
fn a_larger_share_is_not_left_out() {
    let (found, _) = found(|there| match (there[3], there[30]) {
        (true, true) => 20.0,
        (true, false) => 24.0,
        (false, true) => 19.5,
        _ => 10.0,
    });
    assert_eq!(found.explained_by, [3, 30], "{found:?}");
}

/// Values that all are above those of the other side differ, although one of them is far away.
#[test]
fn sides_without_a_common_value_differ() {
    let figure = |there: &[bool]| if there[17] { 13.0 } else { 10.0 };
    let mut model = Model::of(figure);
    let first = Ran { values: vec![0.0, 10.0, 10.0, 10.0], digests: vec![0; 4], ..Ran::default() };
    let last = Ran { values: vec![11.0; 4], digests: vec![1; 4], ..Ran::default() };
    assert!(last.mean() - first.mean() < first.noise());
    let found = search(&mut model, 40, (first, last), None).unwrap();
    assert!(found.differs() && found.explained_by == [17], "{found:?}");
}

/// Without a figure, the differences that change an event are found in both directions.
#[test]
fn differences_that_change_events_are_found_without_a_figure() {
    let figure = |there: &[bool]| f64::from(u8::from(there[3] && there[30])) + if there[12] { 4.0 } else { 0.0 };
    let mut model = Model::of(figure);
    let ends = model.run(&[vec![false; 40], vec![true; 40]], Seeds::All).unwrap();
    let changing = changing(&mut model, 40, [&ends[0], &ends[1]]).unwrap();
    assert_eq!((&changing.differences[..], changing.stopped), (&[3, 12, 30][..], false));
    model.budget = 3 * model.runs;
    assert!(super::changing(&mut model, 40, [&ends[0], &ends[1]]).unwrap().stopped);
}

/// The table lacks what changed the figure.
#[test]
fn no_set_is_named_that_explains_less_than_half() {
    let mut model = Model::of(|there| if there[7] { 13.0 } else { 10.0 });
    let first = model.ran(&[false; 40], Seeds::All);
    let last = Ran { values: vec![20.0; 4], digests: vec![0; 4], ..Ran::default() };
    let found = search(&mut model, 40, (first, last), None).unwrap();
    assert_eq!((found.explained_by.len(), found.whole), (0, Some(3.0)));
}

/// Noise never adds an innocent difference to a true one: 30 others change events, and shift every seed.
#[test]
fn no_difference_within_the_noise_is_blamed_beside_one_beyond_it() {
    for size in [3_u32, 4, 6, 10] {
        let figure = match size {
            3 => |there: &[bool]| if there[11] { 3.0 } else { 0.0 },
            4 => |there: &[bool]| if there[12] { 4.0 } else { 0.0 },
            6 => |there: &[bool]| if there[13] { 6.0 } else { 0.0 },
            _ => |there: &[bool]| if there[14] { 10.0 } else { 0.0 },
        };
        let (found, _) = searched(figure, 1.0, usize::MAX / 3);
        assert!(found.effects.len() > 30, "all change events");
        assert_eq!(found.explained_by.len(), 1, "{size}: {:?} {}", found.explained_by, found.joint);
    }
}

#[test]
fn a_change_within_the_noise_has_no_cause() {
    let figure = |there: &[bool]| if there[1] { 0.5 } else { 0.0 };
    let mut model = Model::of(figure);
    let end = |mean: f64| Ran { values: vec![mean - 1.0, mean + 1.0], digests: vec![1, 2], ..Ran::default() };
    let found = search(&mut model, 40, (end(0.0), end(0.5)), None).unwrap();
    assert!(!found.differs() && found.explained_by.is_empty());
}

/// A budget bounds the runs. What is known then is still there.
#[test]
fn a_search_ends_at_its_budget() {
    let cause = |there: &[bool]| if there[17] { 30.0 } else { 10.0 };
    for budget in [16, 60, 120, 400] {
        let (found, runs) = searched(cause, 1.0, budget);
        assert!(runs <= budget && found.stopped, "{runs} of {budget}");
        assert!(found.whole.is_some());
        assert!(budget < 60 || found.explained_by.contains(&17), "{budget}: {:?}", found.explained_by);
    }
    let (found, _) = searched(cause, 1.0, 4000);
    assert!(!found.stopped && found.explained_by == [17]);
}

/// The first seeds differ by luck. Other seeds do not, so nothing is blamed.
#[test]
fn a_difference_that_other_seeds_do_not_show_has_no_cause() {
    let mut model = Model {
        spread: 0.1,
        luck: |there| if there[5] { 1.0 } else { 0.0 },
        ..Model::of(|there| if there[6] { 1.0 } else { 1.01 })
    };
    let ends = |model: &mut Model, seeds| {
        let ran = model.run(&[vec![false; 40], vec![true; 40]], seeds).unwrap();
        <[Ran; 2]>::try_from(ran).unwrap()
    };
    let [first, last] = ends(&mut model, Seeds::All);
    assert!(may_differ_by_chance([&first, &last]));
    let fresh = ends(&mut model, Seeds::Fresh);
    let found = search(&mut model, 40, (first.clone(), last.clone()), Some(&fresh)).unwrap();
    assert_eq!((found.verdict, found.explained_by), (Verdict::Chance, Vec::new()));
    // Without the other seeds, the lucky difference is blamed. With seeds that show the change again, it is right.
    let found = search(&mut model, 40, (first.clone(), last.clone()), None).unwrap();
    assert_eq!((found.verdict, found.explained_by), (Verdict::Differs, vec![5]));
    let found = search(&mut model, 40, (first.clone(), last.clone()), Some(&[first, last])).unwrap();
    assert_eq!((found.verdict, found.explained_by), (Verdict::Differs, vec![5]));
}
