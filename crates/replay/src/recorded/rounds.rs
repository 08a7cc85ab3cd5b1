//! Rounds: work of one length, of which a thread does a whole number between two sleeps.

use std::f64::consts::TAU;

/// The least concentration of places in their round: 1 if all have the same place, 0 if they have any.
const CONCENTRATION: f64 = 0.9;
/// Fewer stretches could be regular by chance.
pub(super) const FEWEST: usize = 16;
/// The most stretches to try.
const MOST_TRIES: usize = 32;
/// The shortest stretches are tried as 1 to this many rounds.
const MOST_DIVISIONS: u64 = 8;
/// The most rounds of a stretch that tells a round's length. In more rounds, inaccuracies add up.
const MOST_ROUNDS: u64 = 100;
/// The shortest round, nanoseconds.
const SHORTEST_NS: u64 = 10_000;

/// Returns the nearest whole number of rounds, at least 1.
pub(super) fn whole(work: u64, round: u64) -> u64 {
    ((work + round / 2) / round).max(1)
}

/// Returns the lengths of rounds of which all `works`, which are sorted, are multiples. The longest is first: rounds of
/// half its length fit, too.
pub(super) fn lengths(works: &[u64]) -> impl Iterator<Item = u64> {
    let short = &works[..works.len().min(MOST_TRIES)];
    let tries = short.iter().flat_map(|work| (1..=MOST_DIVISIONS).map(move |parts| work / parts));
    let mut tries: Vec<u64> = tries.filter(|&length| length >= SHORTEST_NS).collect();
    tries.sort_unstable();
    tries.dedup();
    tries.into_iter().rev().filter_map(|length| {
        let mut length = length;
        for _ in 0..2 {
            let few = works.iter().filter(|&&work| work <= MOST_ROUNDS * length);
            let (sum, count) = few.fold((0, 0), |(sum, count), &work| (sum + work, count + whole(work, length)));
            length = (sum / count.max(1)).max(1);
        }
        let few = works.iter().filter(|&&work| work <= MOST_ROUNDS * length).map(|&work| (work % length, length));
        let enough = few.clone().count() >= FEWEST;
        let (near, concentration) = place(few);
        (enough && concentration >= CONCENTRATION && !(0.1..0.9).contains(&near)).then_some(length)
    })
}

/// Returns the mean place in a round, from 0 to 1, and how concentrated places are. Each has its round's length.
pub(super) fn place(places: impl Iterator<Item = (u64, u64)>) -> (f64, f64) {
    let (mut x, mut y, mut count) = (0.0, 0.0, 0.0);
    for (at, round) in places {
        let angle = TAU * at as f64 / round.max(1) as f64;
        (x, y, count) = (x + angle.cos(), y + angle.sin(), count + 1.0);
    }
    let concentration = if count > 0.0 { f64::hypot(x, y) / count } else { 0.0 };
    ((f64::atan2(y, x) / TAU).rem_euclid(1.0), concentration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_have_a_length() {
        let works: Vec<u64> = (0..40).map(|number| 1_000_000 * (2 + number / 8) + number % 8 * 3_000).collect();
        let length = lengths(&works).next().expect("all are multiples");
        assert!(length.abs_diff(1_000_000) < 20_000, "{length}");
    }

    #[test]
    fn other_works_have_none() {
        let works: Vec<u64> = (0..40).map(|number| 500_000 + number * number * 7_919).collect();
        assert_eq!(lengths(&works).next(), None);
        assert_eq!(lengths(&[1_000_000; FEWEST - 1]).next(), None, "too few");
    }
}
