//! Searches for the differences of two sides (kernels or files) that move a figure.
//!
//! Each difference runs alone on the first side, and left out of the second. Its share is the mean of both effects.
//! Groups run first, and are halved only if they change an event with any seed.

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
    /// Differences that change any event, largest effect first.
    pub(super) effects: Vec<Effect>,
    /// Number of differences.
    pub(super) of: usize,
    /// The smallest set found that explains the change, and its joint effect.
    pub(super) together: Vec<usize>,
    pub(super) joint: f64,
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
}

/// A single difference, its runs, and the differences that it needs.
type Single = (usize, Ran, Vec<usize>);

struct Search<'a, B> {
    sides: &'a mut B,
    combinations: usize,
    log: Vec<Combination>,
}

/// A set explains the change if its effect misses at most this part, or the noise.
const ENOUGH: f64 = 0.1;

/// The size of the first groups. Most differences change nothing.
const GROUP: usize = 6;

/// Searches `0..differences`. `ends` are the runs of the two sides.
pub(super) fn search<B: Between>(sides: &mut B, differences: usize, ends: (Ran, Ran)) -> Result<Found, B::Error> {
    let mut search = Search { sides, combinations: 2, log: Vec::new() };
    let (first, last) = ends;
    let alone = search.singles(false, &first, differences)?;
    let left_out = search.singles(true, &last, differences)?;
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
    let mut effects: Vec<Effect> = effects.into_values().collect();
    let total = last.mean() - first.mean();
    // Effects in the direction of the whole first, those against it last.
    let towards = |effect: &Effect| effect.mean() * total.signum();
    effects.sort_by(|a, b| towards(b).total_cmp(&towards(a)).then(a.difference.cmp(&b.difference)));
    let noise = first.noise().max(last.noise());
    let (together, joint) = search.explain(&effects, &first, total, noise)?;
    effects.sort_by(|a, b| b.mean().abs().total_cmp(&a.mean().abs()).then(a.difference.cmp(&b.difference)));
    Ok(Found {
        from: first,
        to: last,
        effects,
        of: differences,
        together,
        joint,
        combinations: search.combinations,
        log: search.log,
    })
}

/// The runs of a combination, and the differences taken.
type Run = (Ran, Vec<usize>);

impl<B: Between> Search<'_, B> {
    /// Runs sets of differences on one side. `None`: impossible.
    fn run(&mut self, sets: &[Vec<usize>], backward: bool) -> Result<Vec<Option<Run>>, B::Error> {
        let variants: Vec<_> = sets.iter().map(|set| self.sides.variant(backward, set)).collect();
        let possible: Vec<B::Variant> = variants.iter().flatten().map(|(variant, _)| variant.clone()).collect();
        self.combinations += possible.len();
        let mut ran = self.sides.run(&possible, Seeds::All)?.into_iter();
        let runs = variants.into_iter().map(|variant| {
            let (_, taken) = variant?;
            Some((ran.next()?, taken))
        });
        let runs: Vec<Option<Run>> = runs.collect();
        self.log.extend(runs.iter().flatten().map(|(ran, taken)| Combination {
            backward,
            taken: taken.clone(),
            values: ran.values.clone(),
        }));
        Ok(runs)
    }

    /// Returns the sets that change any event, and the impossible ones. Stops at the first seed with a change.
    fn changing(&mut self, sets: Vec<Vec<usize>>, backward: bool, base: &Ran) -> Result<Vec<Vec<usize>>, B::Error> {
        let variants: Vec<_> = sets.iter().map(|set| self.sides.variant(backward, set)).collect();
        let mut changes: Vec<bool> = variants.iter().map(Option::is_none).collect();
        for seeds in [Seeds::First, Seeds::Rest] {
            let open: Vec<usize> = (0..sets.len()).filter(|&at| !changes[at]).collect();
            let run: Vec<B::Variant> =
                open.iter().filter_map(|&at| variants[at].as_ref().map(|(variant, _)| variant.clone())).collect();
            if seeds == Seeds::First {
                self.combinations += run.len();
            }
            let digests = if seeds == Seeds::First { &base.digests[..1] } else { &base.digests[1..] };
            if run.is_empty() || digests.is_empty() {
                break;
            }
            for (at, ran) in open.into_iter().zip(self.sides.run(&run, seeds)?) {
                changes[at] = ran.digests != digests;
            }
        }
        Ok(sets.into_iter().zip(changes).filter(|(_, changes)| *changes).map(|(set, _)| set).collect())
    }

    /// Returns the differences that change any event one at a time.
    fn singles(&mut self, backward: bool, base: &Ran, differences: usize) -> Result<Vec<Single>, B::Error> {
        let mut found = Vec::new();
        let all: Vec<usize> = (0..differences).collect();
        let mut groups: Vec<Vec<usize>> = all.chunks(GROUP).map(<[usize]>::to_vec).collect();
        while !groups.is_empty() {
            let (singles, several): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.len() == 1);
            let ran = self.run(&singles, backward)?;
            for (single, (ran, taken)) in singles.into_iter().zip(ran).filter_map(|(single, ran)| Some((single, ran?)))
            {
                if ran.digests != base.digests {
                    let with = taken.into_iter().filter(|one| *one != single[0]).collect();
                    found.push((single[0], ran, with));
                }
            }
            groups = Vec::new();
            for group in self.changing(several, backward, base)? {
                let (left, right) = group.split_at(group.len() / 2);
                groups.extend([left.to_vec(), right.to_vec()]);
            }
        }
        Ok(found)
    }

    /// Returns a small set that explains the change, and its joint effect. Adds the largest effects first, then removes
    /// unneeded ones.
    fn explain(
        &mut self,
        effects: &[Effect],
        first: &Ran,
        total: f64,
        noise: f64,
    ) -> Result<(Vec<usize>, f64), B::Error> {
        let explains = |joint: f64| (total - joint).abs() <= (total.abs() * ENOUGH).max(noise.min(total.abs() / 4.0));
        let ranked: Vec<usize> = effects.iter().map(|effect| effect.difference).collect();
        let prefixes: Vec<Vec<usize>> = (1..=ranked.len()).map(|count| ranked[..count].to_vec()).collect();
        let mut best: (Vec<usize>, f64) = (Vec::new(), 0.0);
        for some in prefixes.chunks(4) {
            let ran = self.run(some, false)?;
            let ran = some.iter().zip(&ran).filter_map(|(set, ran)| Some((set, ran.as_ref()?)));
            let joints = ran.map(|(set, (ran, _))| (set.clone(), ran.mean() - first.mean()));
            for (set, joint) in joints {
                if (total - joint).abs() < (total - best.1).abs() {
                    best = (set, joint);
                }
                if explains(best.1) {
                    return self.shrink(best, first, explains);
                }
            }
        }
        Ok(best)
    }

    fn shrink(
        &mut self,
        mut best: (Vec<usize>, f64),
        first: &Ran,
        explains: impl Fn(f64) -> bool,
    ) -> Result<(Vec<usize>, f64), B::Error> {
        while best.0.len() > 1 {
            let without = |index: usize| {
                best.0.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, one)| *one).collect::<Vec<_>>()
            };
            let smaller: Vec<Vec<usize>> = (0..best.0.len()).map(without).collect();
            let ran = self.run(&smaller, false)?;
            let ran = smaller.into_iter().zip(ran).filter_map(|(set, ran)| Some((set, ran?)));
            let joints = ran.map(|(set, (ran, _))| (set, ran.mean() - first.mean()));
            let Some(next) = joints.into_iter().rfind(|(_, joint)| explains(*joint)) else { break };
            best = next;
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure as a function of the differences taken. The first side has none of them.
    struct Model {
        differences: usize,
        figure: fn(&[bool]) -> f64,
        /// Number of runs, one per combination and seed.
        runs: usize,
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
            let seeds = match seeds {
                Seeds::First => 1,
                Seeds::Rest => 3,
                Seeds::All => 4,
            };
            self.runs += seeds * variants.len();
            let ran = variants.iter().map(|there| (self.figure)(there));
            Ok(ran
                .map(|value| Ran {
                    values: vec![value; seeds],
                    digests: vec![value.to_bits(); seeds],
                    results: Vec::new(),
                })
                .collect())
        }
    }

    fn found(figure: fn(&[bool]) -> f64) -> (Found, usize) {
        let mut model = Model { differences: 40, figure, runs: 0 };
        let mut ends = model.run(&[vec![false; 40], vec![true; 40]], Seeds::All).unwrap();
        let (last, first) = (ends.pop().unwrap(), ends.pop().unwrap());
        let found = search(&mut model, 40, (first, last)).unwrap();
        (found, model.runs)
    }

    #[test]
    fn a_single_cause_is_found_and_no_other_blamed() {
        let (found, runs) = found(|there| if there[17] { 3.0 } else { 10.0 });
        assert_eq!(found.together, [17]);
        assert_eq!(found.effects.len(), 1);
        assert!((found.joint + 7.0).abs() < 1e-9);
        // One by one, with 4 seeds, 40 differences in both directions take 320 runs.
        assert!(runs < 130, "{runs} runs");
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
}
