//! Searches for the differences of two sides (kernels or files) that move a figure.
//!
//! Each difference runs alone on the first side, and left out of the second. Its share is the mean of both effects.
//! Groups run first, and are halved only if they change an event with the first seed. Then sets of the largest effects
//! run together. If none of them explains the change, the set of all differences is halved.

mod goal;

use std::collections::{BTreeMap, BTreeSet};

use vruntime_report::Results;

use self::goal::Goal;
pub(super) use self::goal::{Verdict, may_differ_by_chance};

/// The runs of one combination, one for each seed.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    /// The figure.
    pub(super) values: Vec<f64>,
    pub(super) digests: Vec<u64>,
    /// Digests on the way, of the two sides.
    pub(super) marks: Vec<Vec<u64>>,
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

    /// Adds the runs with more seeds.
    pub(super) fn and(mut self, more: Self) -> Self {
        self.values.extend(more.values);
        self.digests.extend(more.digests);
        self.marks.extend(more.marks);
        self.results.extend(more.results);
        self
    }

    /// Whether all values are above those of the other, or all below.
    fn is_disjoint(&self, other: &Self) -> bool {
        let above = |a: &Self, b: &Self| a.values.iter().all(|a| b.values.iter().all(|b| a > b));
        above(self, other) || above(other, self)
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

    /// Runs combinations until they differ from `base` in an event with one of the seeds, and returns which do.
    fn differ(&mut self, variants: &[Self::Variant], seeds: Seeds, base: &Ran) -> Result<Vec<bool>, Self::Error>;

    /// Returns the number of combinations that the budget still allows.
    fn left(&self, seeds: Seeds, stage: Stage) -> usize;

    /// Whether a real kernel can switch a difference off.
    fn is_switchable(&self, difference: usize) -> bool;

    /// Returns the second side after the commands that switch `set` off.
    fn switched(&self, set: &[usize]) -> Option<Self::Variant>;
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
    /// As many as all, and none of them.
    Fresh,
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
    pub(super) verdict: Verdict,
    /// Differences that change any event, largest effect first.
    pub(super) effects: Vec<Effect>,
    /// Number of differences.
    pub(super) of: usize,
    /// Effect of all differences together. `None`: the combination is impossible, or did not run.
    pub(super) whole: Option<f64>,
    /// The causes in the smallest set found that explains the change. Empty if no set explains most of it.
    pub(super) explained_by: Vec<usize>,
    /// The other differences of that set, whose effects oppose the change.
    pub(super) counteracted_by: Vec<usize>,
    /// The joint effect of the set.
    pub(super) joint: f64,
    /// The causes that a real kernel can switch off, if that undoes most of the change.
    pub(super) undo: Option<Undo>,
    /// Single differences that explain the change alone, without those of `explained_by`.
    pub(super) alternatives: Vec<usize>,
    /// Whether the budget ended the search.
    pub(super) stopped: bool,
    /// Whether every smaller set was tried. If not, some of the set may not be needed.
    pub(super) is_smallest: bool,
    pub(super) combinations: usize,
    pub(super) log: Vec<Combination>,
}

impl Found {
    /// Whether the figure differs.
    pub(super) fn differs(&self) -> bool {
        self.verdict == Verdict::Differs
    }

    pub(super) fn total(&self) -> f64 {
        self.to.mean() - self.from.mean()
    }

    /// Returns the change of the figure between seeds.
    pub(super) fn noise(&self) -> f64 {
        self.from.noise().max(self.to.noise())
    }

    pub(super) fn goal(&self) -> Goal {
        Goal::of([&self.from, &self.to])
    }
}

/// Causes that were left out of the second side, with seeds that did not choose them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Undo {
    pub(super) causes: Vec<usize>,
    /// The change that is lost without the causes.
    pub(super) by: f64,
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
    /// Whether the first seed of a single difference suffices.
    is_brief: bool,
    combinations: usize,
    log: Vec<Combination>,
    /// Mean effects of single differences, in the direction of the change.
    weights: BTreeMap<usize, f64>,
}

/// The size of the first groups. Most differences change nothing.
const GROUP: usize = 6;

/// Searches `0..differences`. `ends` are the runs of the two sides, and `fresh` those with other seeds. `None`: the
/// change is no chance.
pub(super) fn search<B: Between>(
    sides: &mut B,
    differences: usize,
    ends: (Ran, Ran),
    fresh: Option<&[Ran; 2]>,
) -> Result<Found, B::Error> {
    let mut search = Search::new(sides);
    let (first, last) = ends;
    let goal = Goal::of([&first, &last]);
    let verdict = Verdict::of([&first, &last], fresh);
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
    search.weights = effects.iter().map(|effect| (effect.difference, towards(effect))).collect();
    let (set, joint) = if verdict == Verdict::Differs {
        search.explain(&effects, &all, whole, &first, goal)?
    } else {
        Joint::default()
    };
    let alternatives = alternatives(&effects, &set, goal);
    let (explained_by, counteracted_by) = search.sided(set);
    let undo = search.undone(&explained_by, goal)?;
    effects.sort_by(|a, b| b.mean().abs().total_cmp(&a.mean().abs()).then(a.difference.cmp(&b.difference)));
    Ok(Found {
        from: first,
        to: last,
        verdict,
        effects,
        of: differences,
        whole,
        explained_by,
        counteracted_by,
        joint,
        undo,
        alternatives,
        stopped: search.stopped,
        is_smallest: search.is_smallest,
        combinations: search.combinations,
        log: search.log,
    })
}

/// The differences that change any event alone, in order, and whether the budget ended the search for them.
pub(super) struct Changing {
    pub(super) differences: Vec<usize>,
    pub(super) stopped: bool,
}

/// Searches `0..differences` for those that change any event when they are added to the first side, or removed from the
/// second. `ends` are the runs of the two sides.
pub(super) fn changing<B: Between>(sides: &mut B, differences: usize, ends: [&Ran; 2]) -> Result<Changing, B::Error> {
    let mut search = Search { is_brief: true, stage: Stage::Alone, ..Search::new(sides) };
    let mut all = search.singles(false, ends[0], differences)?;
    search.stage = Stage::LeftOut;
    all.extend(search.singles(true, ends[1], differences)?);
    let all: BTreeSet<usize> = all.into_iter().map(|(difference, ..)| difference).collect();
    Ok(Changing { differences: all.into_iter().collect(), stopped: search.stopped })
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

/// Returns the differences that explain the change alone, apart from the set that is named, largest effect first.
fn alternatives(effects: &[Effect], explained_by: &[usize], goal: Goal) -> Vec<usize> {
    let is_named =
        |effect: &Effect| effect.with.iter().chain([&effect.difference]).any(|one| explained_by.contains(one));
    let explains = |effect: &&Effect| effect.alone.is_some_and(|alone| goal.is_met(alone)) && !is_named(effect);
    let named = if explained_by.is_empty() { &[] } else { effects };
    named.iter().filter(explains).map(|effect| effect.difference).collect()
}

/// Runs some variants.
type Work<'a, B, T> = &'a mut dyn FnMut(&mut B, &[<B as Between>::Variant]) -> Result<Vec<T>, <B as Between>::Error>;

/// The runs of a combination, and the differences taken.
type Run = (Ran, Vec<usize>);

impl<'a, B: Between> Search<'a, B> {
    /// Counts the two ends, which ran.
    fn new(sides: &'a mut B) -> Self {
        Self {
            sides,
            stage: Stage::Together,
            stopped: false,
            is_smallest: true,
            is_brief: false,
            combinations: 2,
            log: Vec::new(),
            weights: BTreeMap::new(),
        }
    }

    /// Whether a part of a set weighs more than the rest, by more than the noise. Then the rest explains the change
    /// only because the part does too much.
    fn outweighs(&self, part: &[usize], set: &[usize], goal: Goal) -> bool {
        let most = |all: &mut dyn Iterator<Item = &usize>| {
            all.filter_map(|one| self.weights.get(one)).copied().fold(0.0, f64::max)
        };
        most(&mut part.iter()) > most(&mut set.iter().filter(|one| !part.contains(one))) + goal.noise
    }

    /// Parts a set into the differences whose mean effects have the direction of the change, and those that oppose it.
    /// If all oppose it, only their interaction makes the change, and none is apart.
    fn sided(&self, set: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let opposes = |one: &usize| self.weights.get(one).is_some_and(|towards| *towards < 0.0);
        if set.iter().all(opposes) { (set, Vec::new()) } else { set.into_iter().partition(|one| !opposes(one)) }
    }

    /// Runs the second side after the commands that switch causes off on a real kernel. `None`: that does not undo most
    /// of the change, there is no such cause, or the budget does not suffice.
    ///
    /// Other seeds count here: with those of the search, a difference can be among the causes by chance.
    fn undone(&mut self, causes: &[usize], goal: Goal) -> Result<Option<Undo>, B::Error> {
        let causes: Vec<usize> = causes.iter().copied().filter(|&one| self.sides.is_switchable(one)).collect();
        if causes.is_empty() || !self.is_smallest {
            return Ok(None);
        }
        let sides = [self.sides.variant(true, &[]).map(|(last, _)| last), self.sides.switched(&causes)];
        let [Some(last), Some(switched)] = sides else { return Ok(None) };
        let by = self.fresh_effect(&[last, switched])?.map(|by| -by);
        Ok(by.filter(|by| goal.is_most(*by)).map(|by| Undo { causes, by }))
    }

    /// Returns the effect of the second of two variants beyond the first's, with fresh seeds. `None`: beyond the
    /// budget.
    fn fresh_effect(&mut self, variants: &[B::Variant; 2]) -> Result<Option<f64>, B::Error> {
        let runs = self.budgeted(variants, Seeds::Fresh, &mut |sides, some| sides.run(some, Seeds::Fresh))?;
        let means: Vec<f64> = runs.iter().flatten().map(Ran::mean).collect();
        self.combinations += means.len();
        Ok(if let [one, other] = means[..] { Some(other - one) } else { None })
    }

    /// Whether the budget does not allow another combination.
    fn is_spent(&self) -> bool {
        self.sides.left(Seeds::All, self.stage) == 0
    }

    /// Does `work` for variants while the budget lasts. `None`: it did not last.
    fn budgeted<T: Clone>(
        &mut self,
        variants: &[B::Variant],
        seeds: Seeds,
        work: Work<'_, B, T>,
    ) -> Result<Vec<Option<T>>, B::Error> {
        let mut done: Vec<Option<T>> = Vec::new();
        while done.len() < variants.len() {
            let open = &variants[done.len()..];
            let some = self.sides.left(seeds, self.stage).min(open.len());
            if some == 0 {
                self.stopped = true;
                break;
            }
            done.extend(work(self.sides, &open[..some])?.into_iter().map(Some));
        }
        done.resize(variants.len(), None);
        Ok(done)
    }

    /// Runs sets of differences on one side. `None`: impossible, or beyond the budget.
    fn run(&mut self, sets: &[Vec<usize>], backward: bool, seeds: Seeds) -> Result<Vec<Option<Run>>, B::Error> {
        let variants: Vec<_> = sets.iter().map(|set| self.sides.variant(backward, set)).collect();
        let possible: Vec<B::Variant> = variants.iter().flatten().map(|(variant, _)| variant.clone()).collect();
        let mut ran = self.budgeted(&possible, seeds, &mut |sides, some| sides.run(some, seeds))?.into_iter();
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

    /// Returns which sets change any event with some seeds. Impossible sets count as changing. Those beyond the budget
    /// do not.
    fn changing(
        &mut self,
        sets: &[Vec<usize>],
        backward: bool,
        seeds: Seeds,
        base: &Ran,
    ) -> Result<Vec<bool>, B::Error> {
        let variants: Vec<_> = sets.iter().map(|set| self.sides.variant(backward, set)).collect();
        let possible: Vec<B::Variant> = variants.iter().flatten().map(|(variant, _)| variant.clone()).collect();
        let differ = self.budgeted(&possible, seeds, &mut |sides, some| sides.differ(some, seeds, base))?;
        self.combinations += differ.iter().flatten().count();
        let mut differ = differ.into_iter();
        Ok(variants.into_iter().map(|variant| variant.is_none() || differ.next().flatten().unwrap_or(false)).collect())
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
            let changes = self.changing(&groups, backward, seeds, base)?;
            let mut singles = Vec::new();
            for (group, changes) in std::mem::take(&mut groups).into_iter().zip(changes) {
                match (changes, group.len()) {
                    (false, _) => silent.extend(group),
                    (true, 0 | 1) => singles.extend(group),
                    (true, length) => {
                        let (left, right) = group.split_at(length / 2);
                        groups.extend([left.to_vec(), right.to_vec()]);
                    }
                }
            }
            found.extend(self.completed(&singles, backward)?);
        }
        silent.sort_unstable();
        Ok((found, silent))
    }

    /// Runs single differences with all seeds.
    fn completed(&mut self, singles: &[usize], backward: bool) -> Result<Vec<Single>, B::Error> {
        if self.is_brief {
            let possible = singles.iter().filter(|&&single| self.sides.variant(backward, &[single]).is_some());
            return Ok(possible.map(|&single| (single, Ran::default(), Vec::new())).collect());
        }
        let sets: Vec<Vec<usize>> = singles.iter().map(|&single| vec![single]).collect();
        let runs = self.run(&sets, backward, Seeds::All)?;
        let mut found = Vec::new();
        for (&single, run) in singles.iter().zip(runs).filter_map(|(single, run)| Some((single, run?))) {
            self.note(backward, &run);
            let (ran, taken) = run;
            found.push((single, ran, taken.into_iter().filter(|one| *one != single).collect()));
        }
        Ok(found)
    }

    /// Returns a small set that explains the change, and its joint effect.
    ///
    /// Differences with an own effect beyond the noise come first, the largest first. If there is none, those that make
    /// more than half of the change come first. Only if these do not explain the change, the others count: then the
    /// search makes the set of all smaller.
    fn explain(
        &mut self,
        effects: &[Effect],
        all: &[usize],
        whole: Option<f64>,
        first: &Ran,
        goal: Goal,
    ) -> Result<Joint, B::Error> {
        let beyond = |least: f64| effects.iter().partition(|effect| effect.mean().abs() > least);
        let (mut own, mut others): (Vec<&Effect>, Vec<&Effect>) = beyond(goal.noise);
        if own.is_empty() {
            (own, others) = beyond(goal.total.abs() / 2.0);
        }
        let number = |effect: &&Effect| effect.difference;
        let nearest = self.prefix(&own.iter().map(number).collect::<Vec<usize>>(), first, goal)?;
        if goal.is_met(nearest.1) {
            return self.shrink(nearest, first, goal);
        }
        if goal.is_most(nearest.1)
            && let Some(larger) = self.extended(&nearest, effects, first, goal)?
        {
            return self.shrink(larger, first, goal);
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

    /// Adds one of the differences with the largest effects on the rest that a set leaves. `None`: no such difference
    /// makes the set explain the change.
    ///
    /// A difference can have an effect on the second side only, so its mean effect can be within the noise. Here one
    /// of the two effects must be beyond the noise, and at least half of the rest. Such a difference may need others,
    /// so those that make half of the rest are tried with it. With fresh seeds, what is added must again make at least
    /// half of the rest: of many differences, some have such an effect by chance.
    fn extended(
        &mut self,
        set: &Joint,
        effects: &[Effect],
        first: &Ran,
        goal: Goal,
    ) -> Result<Option<Joint>, B::Error> {
        const MOST: usize = 4;
        let rest = goal.total - set.1;
        let towards = |effect: &Effect| {
            let both = [effect.alone, effect.left_out].map(|by| by.unwrap_or(0.0) * rest.signum());
            both[0].max(both[1])
        };
        let mut next: Vec<&Effect> = effects.iter().filter(|effect| !set.0.contains(&effect.difference)).collect();
        next.retain(|effect| towards(effect) > rest.abs() / 2.0);
        next.sort_by(|a, b| towards(b).total_cmp(&towards(a)).then(a.difference.cmp(&b.difference)));
        next.truncate(MOST);
        let beyond = next.iter().filter(|effect| towards(effect) > goal.noise).count();
        let with = |some: &[&Effect]| {
            let added = some.iter().map(|effect| effect.difference);
            set.0.iter().copied().chain(added).collect::<Vec<usize>>()
        };
        let mut sets: Vec<Vec<usize>> = next[..beyond].chunks(1).map(with).collect();
        // One may do nothing without another.
        let lengths = if beyond == 0 { 0 } else { next.len() };
        sets.extend((2..=lengths).map(|length| with(&next[..length])));
        let joints = self.joints(sets, first)?.into_iter().filter(|(_, joint)| goal.is_met(*joint));
        let distance = |joint: f64| (goal.total - joint).abs();
        // The first of the nearest has the fewest differences.
        let Some(larger) = joints.min_by(|(_, a), (_, b)| distance(*a).total_cmp(&distance(*b))) else {
            return Ok(None);
        };
        let sides = [&set.0, &larger.0].map(|set| self.sides.variant(false, set).map(|(variant, _)| variant));
        let [Some(smaller), Some(wider)] = sides else { return Ok(None) };
        let again = self.fresh_effect(&[smaller, wider])?;
        Ok(again.filter(|by| by * rest.signum() >= rest.abs() / 2.0).map(|_| larger))
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
        let dispensable = parts.iter().filter(|part| !self.outweighs(part, set, goal));
        let smaller = dispensable.map(|part| kept(part)).filter(|set| !set.is_empty()).collect();
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
mod tests;
