//! Searches for the differences of two sides (kernels or files) that move a figure.
//!
//! Each difference runs alone on the first side, and left out of the second. Its share is the mean of both effects.
//! Groups run first, and are halved only if they change an event with the first seed. Then sets of the largest effects
//! run together. If none of them explains the change, the set of all differences is halved.

use std::collections::BTreeMap;

use vruntime_report::Results;

/// The runs of one combination, one for each seed.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    /// The figure.
    pub(super) values: Vec<f64>,
    pub(super) digests: Vec<u64>,
    pub(super) results: Vec<Results>,
}

impl Ran {
    pub(super) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    /// Returns half the range of the values.
    pub(super) fn noise(&self) -> f64 {
        let most = self.values.iter().copied().fold(f64::MIN, f64::max);
        let least = self.values.iter().copied().fold(f64::MAX, f64::min);
        if self.values.is_empty() { 0.0 } else { (most - least) / 2.0 }
    }
}

/// Two sides and their differences, which have numbers from 0.
pub(super) trait Between {
    type Variant: Clone;
    type Error;

    /// Returns one side (`backward`: the second) with `set` of the other's, and the differences taken: `set`, and those
    /// that it needs. `None`: impossible.
    fn variant(&self, backward: bool, set: &[usize]) -> Option<(Self::Variant, Vec<usize>)>;

    /// Runs combinations, and returns their runs in order.
    fn run(&mut self, variants: &[Self::Variant], seeds: Seeds) -> Result<Vec<Ran>, Self::Error>;

    /// Returns the number of combinations that the budget still allows.
    fn left(&self, seeds: Seeds, stage: Stage) -> usize;
}

/// Stages of the search. Each has a third of the budget, and what earlier ones left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Alone,
    LeftOut,
    Together,
}

impl Stage {
    /// Returns the thirds of the budget that are spent at its end.
    pub(super) const fn thirds(self) -> u64 {
        match self {
            Self::Alone => 1,
            Self::LeftOut => 2,
            Self::Together => 3,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seeds {
    First,
    Rest,
    All,
}

#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) difference: usize,
    /// Effect alone, on the first side. `None`: it changes no event, or is impossible.
    pub(super) alone: Option<f64>,
    /// Effect lost without it, on the second side.
    pub(super) left_out: Option<f64>,
    pub(super) with: Vec<usize>,
}

impl Effect {
    pub(super) fn mean(&self) -> f64 {
        f64::midpoint(self.alone.unwrap_or(0.0), self.left_out.unwrap_or(0.0))
    }

    pub(super) fn moves(&self) -> bool {
        self.alone.is_some_and(|by| by != 0.0) || self.left_out.is_some_and(|by| by != 0.0)
    }
}

/// A combination that ran with all seeds.
#[derive(Clone, Debug)]
pub(super) struct Combination {
    /// Set for the second side with differences of the first.
    pub(super) backward: bool,
    pub(super) taken: Vec<usize>,
    pub(super) values: Vec<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) from: Ran,
    pub(super) to: Ran,
    /// Whether the figure differs by more than the noise, and by enough to matter.
    pub(super) differs: bool,
    /// Differences that change any event, largest effect first.
    pub(super) effects: Vec<Effect>,
    /// Number of differences.
    pub(super) of: usize,
    /// Effect of all differences together. `None`: the combination is impossible, or did not run.
    pub(super) whole: Option<f64>,
    /// The smallest set found that explains the change, and its joint effect. Empty if no set explains most of it.
    pub(super) together: Vec<usize>,
    pub(super) joint: f64,
    /// Whether the budget ended the search.
    pub(super) stopped: bool,
    /// Whether every smaller set was tried. If not, some of `together` may not be needed.
    pub(super) is_smallest: bool,
    pub(super) combinations: usize,
    pub(super) log: Vec<Combination>,
}

impl Found {
    pub(super) fn total(&self) -> f64 {
        self.to.mean() - self.from.mean()
    }

    /// Returns the change of the figure between seeds.
    pub(super) fn noise(&self) -> f64 {
        self.from.noise().max(self.to.noise())
    }

    pub(super) fn goal(&self) -> Goal {
        Goal { total: self.total(), noise: self.noise() }
    }
}

/// A change to be explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    total: f64,
    noise: f64,
}

impl Goal {
    /// Whether the rest that an effect leaves is a tenth of the change at most, or within the noise.
    pub(super) fn is_near(self, joint: f64) -> bool {
        (self.total - joint).abs() <= (self.total.abs() * ENOUGH).max(self.noise)
    }

    /// Whether an effect is more than half of the change.
    pub(super) fn is_most(self, joint: f64) -> bool {
        joint * self.total.signum() > self.total.abs() / 2.0
    }

    fn is_met(self, joint: f64) -> bool {
        self.is_near(joint) && self.is_most(joint)
    }

    /// Whether the noise of the two means that it compares can make up the rest.
    fn may_be_met(self, joint: f64) -> bool {
        self.is_most(joint) && (self.total - joint).abs() <= 2.0 * self.noise
    }
}

/// A single difference, its runs, and the differences that it needs.
type Single = (usize, Ran, Vec<usize>);

/// A set of differences, and its joint effect on the first side.
type Joint = (Vec<usize>, f64);

struct Search<'a, B> {
    sides: &'a mut B,
    stage: Stage,
    stopped: bool,
    is_smallest: bool,
    combinations: usize,
    log: Vec<Combination>,
}

/// A set explains the change if its effect misses at most this part, or the noise.
const ENOUGH: f64 = 0.1;

/// The size of the first groups. Most differences change nothing.
const GROUP: usize = 6;

/// Searches `0..differences`. `ends` are the runs of the two sides.
///
/// `matters`: their figures differ by enough to matter.
pub(super) fn search<B: Between>(
    sides: &mut B,
    differences: usize,
    ends: (Ran, Ran),
    matters: bool,
) -> Result<Found, B::Error> {
    let mut search =
        Search { sides, stage: Stage::Together, stopped: false, is_smallest: true, combinations: 2, log: Vec::new() };
    let (first, last) = ends;
    let goal = Goal { total: last.mean() - first.mean(), noise: first.noise().max(last.noise()) };
    let differs = matters && goal.total.abs() > goal.noise;
    let all: Vec<usize> = (0..differences).collect();
    let whole = search.joints(vec![all.clone()], &first)?.pop().map(|(_, whole)| whole);
    search.stage = Stage::Alone;
    let alone = search.singles(false, &first, differences)?;
    search.stage = Stage::LeftOut;
    let left_out = search.singles(true, &last, differences)?;
    search.stage = Stage::Together;
    let mut effects = effects(alone, left_out, &first, &last);
    // Effects in the direction of the whole first, those against it last.
    let towards = |effect: &Effect| effect.mean() * goal.total.signum();
    effects.sort_by(|a, b| towards(b).total_cmp(&towards(a)).then(a.difference.cmp(&b.difference)));
    let (together, joint) =
        if differs { search.explain(&effects, &all, whole, &first, goal)? } else { Joint::default() };
    effects.sort_by(|a, b| b.mean().abs().total_cmp(&a.mean().abs()).then(a.difference.cmp(&b.difference)));
    Ok(Found {
        from: first,
        to: last,
        differs,
        effects,
        of: differences,
        whole,
        together,
        joint,
        stopped: search.stopped,
        is_smallest: search.is_smallest,
        combinations: search.combinations,
        log: search.log,
    })
}

/// Returns the effects of single differences, from their runs on both sides.
fn effects(alone: Vec<Single>, left_out: Vec<Single>, first: &Ran, last: &Ran) -> Vec<Effect> {
    let mut effects: BTreeMap<usize, Effect> = BTreeMap::new();
    let mut note = |(difference, ran, with): Single, forward: bool| {
        let fresh = || Effect { difference, alone: None, left_out: None, with: Vec::new() };
        let effect = effects.entry(difference).or_insert_with(fresh);
        if forward {
            effect.alone = Some(ran.mean() - first.mean());
        } else {
            effect.left_out = Some(last.mean() - ran.mean());
        }
        effect.with.extend(with);
        effect.with.sort_unstable();
        effect.with.dedup();
    };
    for one in alone {
        note(one, true);
    }
    for one in left_out {
        note(one, false);
    }
    effects.into_values().collect()
}

/// The runs of a combination, and the differences taken.
type Run = (Ran, Vec<usize>);

impl<B: Between> Search<'_, B> {
    /// Whether the budget does not allow another combination.
    fn is_spent(&self) -> bool {
        self.sides.left(Seeds::All, self.stage) == 0
    }

    /// Runs variants while the budget lasts. `None`: it did not last.
    fn budgeted(&mut self, variants: &[B::Variant], seeds: Seeds) -> Result<Vec<Option<Ran>>, B::Error> {
        let mut done: Vec<Option<Ran>> = Vec::new();
        while done.len() < variants.len() {
            let open = &variants[done.len()..];
            let some = self.sides.left(seeds, self.stage).min(open.len());
            if some == 0 {
                self.stopped = true;
                break;
            }
            done.extend(self.sides.run(&open[..some], seeds)?.into_iter().map(Some));
        }
        done.resize(variants.len(), None);
        Ok(done)
    }

    /// Runs sets of differences on one side. `None`: impossible, or beyond the budget.
    fn run(&mut self, sets: &[Vec<usize>], backward: bool, seeds: Seeds) -> Result<Vec<Option<Run>>, B::Error> {
        let variants: Vec<_> = sets.iter().map(|set| self.sides.variant(backward, set)).collect();
        let possible: Vec<B::Variant> = variants.iter().flatten().map(|(variant, _)| variant.clone()).collect();
        let mut ran = self.budgeted(&possible, seeds)?.into_iter();
        let runs = variants.into_iter().map(|variant| {
            let (_, taken) = variant?;
            Some((ran.next()??, taken))
        });
        Ok(runs.collect())
    }

    fn note(&mut self, backward: bool, (ran, taken): &Run) {
        self.log.push(Combination { backward, taken: taken.clone(), values: ran.values.clone() });
    }

    /// Runs sets with all seeds on the first side. Returns those that ran, with their effects.
    fn joints(&mut self, sets: Vec<Vec<usize>>, first: &Ran) -> Result<Vec<Joint>, B::Error> {
        let runs = self.run(&sets, false, Seeds::All)?;
        let mut joints = Vec::new();
        for (set, run) in sets.into_iter().zip(runs).filter_map(|(set, run)| Some((set, run?))) {
            self.combinations += 1;
            self.note(false, &run);
            joints.push((set, run.0.mean() - first.mean()));
        }
        Ok(joints)
    }

    /// Runs sets with some seeds, and tells which change any event. Impossible sets count as changing, without runs.
    fn changing(
        &mut self,
        sets: &[Vec<usize>],
        backward: bool,
        seeds: Seeds,
        base: &Ran,
    ) -> Result<Vec<(bool, Option<Run>)>, B::Error> {
        let is_possible: Vec<bool> = sets.iter().map(|set| self.sides.variant(backward, set).is_some()).collect();
        let runs = self.run(sets, backward, seeds)?;
        self.combinations += runs.iter().flatten().count();
        let digests = base.digests.split_at(base.digests.len().min(1));
        let digests = if seeds == Seeds::First { digests.0 } else { digests.1 };
        let changes = |(run, possible): (Option<Run>, bool)| {
            let changes = run.as_ref().map_or(!possible, |(ran, _)| ran.digests != digests);
            (changes, run)
        };
        Ok(runs.into_iter().zip(is_possible).map(changes).collect())
    }

    /// Returns the differences that change any event one at a time.
    ///
    /// Groups run with the first seed. What changes nothing then runs together with the other seeds.
    fn singles(&mut self, backward: bool, base: &Ran, differences: usize) -> Result<Vec<Single>, B::Error> {
        let all: Vec<usize> = (0..differences).collect();
        let groups: Vec<Vec<usize>> = all.chunks(GROUP).map(<[usize]>::to_vec).collect();
        let (mut found, silent) = self.halved(groups, backward, Seeds::First, base)?;
        if base.digests.len() > 1 && !silent.is_empty() {
            found.extend(self.halved(vec![silent], backward, Seeds::Rest, base)?.0);
        }
        Ok(found)
    }

    /// Halves groups that change any event with some seeds, down to single differences. Returns these with the runs of
    /// all seeds, and the differences that change nothing.
    fn halved(
        &mut self,
        mut groups: Vec<Vec<usize>>,
        backward: bool,
        seeds: Seeds,
        base: &Ran,
    ) -> Result<(Vec<Single>, Vec<usize>), B::Error> {
        let (mut found, mut silent) = (Vec::new(), Vec::new());
        while !groups.is_empty() {
            let runs = self.changing(&groups, backward, seeds, base)?;
            let mut singles = Vec::new();
            for (group, (changes, run)) in std::mem::take(&mut groups).into_iter().zip(runs) {
                match (changes, group.len(), run) {
                    (false, ..) => silent.extend(group),
                    (true, 1, Some(run)) => singles.push((group[0], run)),
                    (true, 0 | 1, _) => {}
                    (true, length, _) => {
                        let (left, right) = group.split_at(length / 2);
                        groups.extend([left.to_vec(), right.to_vec()]);
                    }
                }
            }
            found.extend(self.completed(singles, backward, seeds)?);
        }
        silent.sort_unstable();
        Ok((found, silent))
    }

    /// Runs single differences with the other seeds, too.
    fn completed(&mut self, singles: Vec<(usize, Run)>, backward: bool, seeds: Seeds) -> Result<Vec<Single>, B::Error> {
        let sets: Vec<Vec<usize>> = singles.iter().map(|(single, _)| vec![*single]).collect();
        let others = self.run(&sets, backward, if seeds == Seeds::First { Seeds::Rest } else { Seeds::First })?;
        let mut found = Vec::new();
        for ((single, (ran, taken)), other) in singles.into_iter().zip(others) {
            let Some((other, _)) = other else { continue };
            let (mut ran, rest) = if seeds == Seeds::First { (ran, other) } else { (other, ran) };
            ran.values.extend(rest.values);
            ran.digests.extend(rest.digests);
            let run = (ran, taken);
            self.note(backward, &run);
            let (ran, taken) = run;
            found.push((single, ran, taken.into_iter().filter(|one| *one != single).collect()));
        }
        Ok(found)
    }

    /// Returns a small set that explains the change, and its joint effect.
    ///
    /// Differences with an own effect beyond the noise come first, the largest first. Only if these do not explain the
    /// change, the others count: then the search makes the set of all smaller.
    fn explain(
        &mut self,
        effects: &[Effect],
        all: &[usize],
        whole: Option<f64>,
        first: &Ran,
        goal: Goal,
    ) -> Result<Joint, B::Error> {
        let (own, others): (Vec<&Effect>, Vec<&Effect>) =
            effects.iter().partition(|effect| effect.mean().abs() > goal.noise);
        let number = |effect: &&Effect| effect.difference;
        let nearest = self.prefix(&own.iter().map(number).collect::<Vec<usize>>(), first, goal)?;
        if goal.is_met(nearest.1) {
            return self.shrink(nearest, first, goal);
        }
        if goal.may_be_met(nearest.1) {
            let total = nearest.1;
            return self.shrink(nearest, first, Goal { total, ..goal });
        }
        if let Some(whole) = whole.filter(|whole| goal.is_most(*whole)) {
            let mut ranked: Vec<usize> = own.iter().chain(&others).map(number).collect();
            let silent: Vec<usize> = all.iter().copied().filter(|one| !ranked.contains(one)).collect();
            ranked.extend(silent);
            return self.shrink((ranked, whole), first, Goal { total: whole, ..goal });
        }
        Ok(if goal.is_most(nearest.1) { nearest } else { Joint::default() })
    }

    /// Returns the first of the larger and larger prefixes that explains the change, else the nearest.
    fn prefix(&mut self, ranked: &[usize], first: &Ran, goal: Goal) -> Result<Joint, B::Error> {
        let mut nearest = Joint::default();
        let lengths = std::iter::successors(Some(1), |length| Some(2 * length));
        let mut lengths: Vec<usize> = lengths.take_while(|length| *length < ranked.len()).collect();
        lengths.extend(Some(ranked.len()).filter(|length| *length > 0));
        for some in lengths.chunks(4) {
            let sets = some.iter().map(|&length| ranked[..length].to_vec()).collect();
            for joint in self.joints(sets, first)? {
                if (goal.total - joint.1).abs() < (goal.total - nearest.1).abs() {
                    nearest = joint;
                }
                if goal.is_met(nearest.1) {
                    return Ok(nearest);
                }
            }
        }
        Ok(nearest)
    }

    /// Leaves out parts of a set while the rest explains as much: halves first, single differences last.
    fn shrink(&mut self, mut best: Joint, first: &Ran, goal: Goal) -> Result<Joint, B::Error> {
        let mut size = best.0.len() / 2;
        while size > 0 && best.0.len() > 1 {
            let parts: Vec<Vec<usize>> = best.0.chunks(size).map(<[usize]>::to_vec).collect();
            let smaller = self.without(&best.0, &parts, first, goal)?;
            self.is_smallest = smaller.is_some() || !self.is_spent();
            match smaller {
                Some(smaller) => {
                    best = smaller;
                    size = size.min(best.0.len() / 2).max(1);
                }
                None => size /= 2,
            }
        }
        Ok(best)
    }

    /// Leaves out all parts of a set that are not needed, or the last of them. `None`: each is needed.
    fn without(
        &mut self,
        set: &[usize],
        parts: &[Vec<usize>],
        first: &Ran,
        goal: Goal,
    ) -> Result<Option<Joint>, B::Error> {
        let kept = |part: &[usize]| set.iter().copied().filter(|one| !part.contains(one)).collect::<Vec<usize>>();
        let smaller = parts.iter().map(|part| kept(part)).filter(|set| !set.is_empty()).collect();
        let enough: Vec<Joint> =
            self.joints(smaller, first)?.into_iter().filter(|(_, joint)| goal.is_met(*joint)).collect();
        if enough.len() > 1 {
            let common = set.iter().copied().filter(|one| enough.iter().all(|(set, _)| set.contains(one)));
            let common: Vec<usize> = common.collect();
            let joint = if common.is_empty() { None } else { self.joints(vec![common], first)?.pop() };
            if let Some(joint) = joint.filter(|(_, joint)| goal.is_met(*joint)) {
                return Ok(Some(joint));
            }
        }
        Ok(enough.into_iter().next_back())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure as a function of the differences taken. The first side has none of them.
    struct Model {
        differences: usize,
        figure: fn(&[bool]) -> f64,
        /// How far seeds shift it.
        spread: f64,
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

        fn left(&self, seeds: Seeds, stage: Stage) -> usize {
            (self.budget * stage.thirds() as usize / 3).saturating_sub(self.runs) / number(seeds).count()
        }
    }

    fn number(seeds: Seeds) -> std::ops::Range<u64> {
        match seeds {
            Seeds::First => 0..1,
            Seeds::Rest => 1..4,
            Seeds::All => 0..4,
        }
    }

    impl Model {
        /// Seeds shift the figure by up to `spread`, in another way for each combination that changes an event.
        fn ran(&self, there: &[bool], seeds: Seeds) -> Ran {
            let value = (self.figure)(there);
            let values: Vec<f64> = number(seeds).map(|seed| value + self.spread * chance(there, seed)).collect();
            let digests = values.iter().map(|value| value.to_bits()).collect();
            Ran { values, digests, results: Vec::new() }
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
        let mut model = Model { differences: 40, figure, spread, runs: 0, budget };
        let mut ends = model.run(&[vec![false; 40], vec![true; 40]], Seeds::All).unwrap();
        let (last, first) = (ends.pop().unwrap(), ends.pop().unwrap());
        let found = search(&mut model, 40, (first, last), true).unwrap();
        (found, model.runs)
    }

    fn found(figure: fn(&[bool]) -> f64) -> (Found, usize) {
        searched(figure, 0.0, usize::MAX / 3)
    }

    #[test]
    fn a_single_cause_is_found_and_no_other_blamed() {
        let (found, runs) = found(|there| if there[17] { 3.0 } else { 10.0 });
        assert_eq!(found.together, [17]);
        assert_eq!(found.effects.len(), 1);
        assert!((found.joint + 7.0).abs() < 1e-9);
        // One by one, with 4 seeds, 40 differences in both directions take 320 runs.
        assert!(runs < 100, "{runs} runs");
    }

    /// Two differences without an effect alone: only leaving one out of the second side shows them.
    #[test]
    fn an_interaction_is_found() {
        let (found, _) = found(|there| if there[3] && there[30] { 20.0 } else { 10.0 });
        assert_eq!(found.together, [3, 30]);
        assert!(found.effects.iter().all(|effect| effect.alone.is_none() && effect.left_out == Some(10.0)));
    }

    #[test]
    fn what_is_possible_only_together_is_found_together() {
        let (found, _) = found(|there| if there[39] { 4.0 } else { 10.0 });
        assert!(matches!(found.together[..], [38 | 39]), "{found:?}");
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
        assert_eq!(found.together.len(), 2, "{found:?}");
        assert!(found.together.iter().all(|one| [5, 20, 33].contains(one)));
    }

    /// The table lacks what changed the figure.
    #[test]
    fn no_set_is_named_that_explains_less_than_half() {
        let mut model = Model {
            differences: 40,
            figure: |there| if there[7] { 13.0 } else { 10.0 },
            spread: 0.0,
            runs: 0,
            budget: usize::MAX / 3,
        };
        let first = model.ran(&[false; 40], Seeds::All);
        let last = Ran { values: vec![20.0; 4], digests: vec![0; 4], results: Vec::new() };
        let found = search(&mut model, 40, (first, last), true).unwrap();
        assert_eq!((found.together.len(), found.whole), (0, Some(3.0)));
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
            assert_eq!(found.together.len(), 1, "{size}: {:?} {}", found.together, found.joint);
        }
    }

    #[test]
    fn a_change_within_the_noise_has_no_cause() {
        let figure = |there: &[bool]| if there[1] { 0.5 } else { 0.0 };
        let mut model = Model { differences: 40, figure, spread: 0.0, runs: 0, budget: usize::MAX / 3 };
        let end = |mean: f64| Ran { values: vec![mean - 1.0, mean + 1.0], digests: vec![1, 2], results: Vec::new() };
        let found = search(&mut model, 40, (end(0.0), end(0.5)), true).unwrap();
        assert!(!found.differs && found.together.is_empty());
    }

    /// A budget bounds the runs. What is known then is still there.
    #[test]
    fn a_search_ends_at_its_budget() {
        let cause = |there: &[bool]| if there[17] { 30.0 } else { 10.0 };
        for budget in [16, 60, 120, 400] {
            let (found, runs) = searched(cause, 1.0, budget);
            assert!(runs <= budget && found.stopped, "{runs} of {budget}");
            assert!(found.whole.is_some());
            assert!(budget < 60 || found.together.contains(&17), "{budget}: {:?}", found.together);
        }
        let (found, _) = searched(cause, 1.0, 4000);
        assert!(!found.stopped && found.together == [17]);
    }
}
