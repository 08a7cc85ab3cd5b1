//! The search: which of the differences of two sides move a figure.
//!
//! A side is a kernel, or a file. Each difference is tried in both directions: alone on the first side, and left out of
//! the second. Groups come first: a group that changes no event of any seed has no member that does, and is not looked
//! into. What is left is halved until it is a single difference. The share of a difference is the mean of its two
//! effects.

use std::collections::BTreeMap;

use vruntime_report::Results;

/// What the runs of one combination gave.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    /// The figure, one value a seed.
    pub(super) values: Vec<f64>,
    /// Digests of the runs' events.
    pub(super) digests: Vec<u64>,
    /// The results of the runs.
    pub(super) results: Vec<Results>,
}

impl Ran {
    pub(super) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    /// Half the range of its values.
    pub(super) fn noise(&self) -> f64 {
        let most = self.values.iter().copied().fold(f64::MIN, f64::max);
        let least = self.values.iter().copied().fold(f64::MAX, f64::min);
        if self.values.is_empty() { 0.0 } else { (most - least) / 2.0 }
    }
}

/// Two sides, and what lies between them. Differences go by their numbers.
pub(super) trait Between {
    /// One combination, ready to run.
    type Variant: Clone;
    type Error;

    /// Returns one side (`backward`: the second) with these of the other's, and which were taken over: those, and what
    /// they need. `None`: there is no such combination.
    fn variant(&self, backward: bool, set: &[usize]) -> Option<(Self::Variant, Vec<usize>)>;

    /// Runs combinations, several at once, in their order: with all seeds, or with the first alone.
    fn run(&mut self, variants: &[Self::Variant], seeds: Seeds) -> Result<Vec<Ran>, Self::Error>;
}

/// With which seeds a combination runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seeds {
    First,
    Rest,
    All,
}

/// What one difference does.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) difference: usize,
    /// Of the difference alone, on the first side. `None`: it is possible only with others, or changes nothing.
    pub(super) alone: Option<f64>,
    /// What is lost without it in the second side.
    pub(super) left_out: Option<f64>,
    /// Differences that it needs.
    pub(super) with: Vec<usize>,
}

impl Effect {
    pub(super) fn mean(&self) -> f64 {
        f64::midpoint(self.alone.unwrap_or(0.0), self.left_out.unwrap_or(0.0))
    }

    /// Whether it moves the figure.
    pub(super) fn moves(&self) -> bool {
        self.alone.is_some_and(|by| by != 0.0) || self.left_out.is_some_and(|by| by != 0.0)
    }
}

/// One combination that ran with all seeds.
#[derive(Clone, Debug)]
pub(super) struct Combination {
    /// Whether it is the second side with some of the first, not the reverse.
    pub(super) backward: bool,
    pub(super) taken: Vec<usize>,
    pub(super) values: Vec<f64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) from: Ran,
    pub(super) to: Ran,
    /// Differences that change something, the largest effect first.
    pub(super) effects: Vec<Effect>,
    /// How many differences there are.
    pub(super) of: usize,
    /// The smallest set found whose members together explain the difference, and what they do together.
    pub(super) together: Vec<usize>,
    pub(super) joint: f64,
    /// How many combinations were run.
    pub(super) combinations: usize,
    /// Those that ran with all seeds.
    pub(super) log: Vec<Combination>,
}

impl Found {
    pub(super) fn total(&self) -> f64 {
        self.to.mean() - self.from.mean()
    }

    /// What seeds alone move the figure by.
    pub(super) fn noise(&self) -> f64 {
        self.from.noise().max(self.to.noise())
    }
}

/// What a single difference gave, and what went along with it.
type Single = (usize, Ran, Vec<usize>);

/// A search under way.
struct Search<'a, B> {
    sides: &'a mut B,
    combinations: usize,
    log: Vec<Combination>,
}

/// What is wanted of a difference that explains enough: the joint effect is within a tenth of the whole, or the noise.
const ENOUGH: f64 = 0.1;

/// The size of the first groups. Most differences change nothing in a workload, and a group of them is run once.
const GROUP: usize = 6;

/// Searches among `differences` for what moves the figure between two sides.
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
    // First those in the direction of the whole, last those against it.
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

/// What a combination gave, and what was taken over.
type Run = (Ran, Vec<usize>);

impl<B: Between> Search<'_, B> {
    /// Runs sets of differences on one side; those of which there is no combination are left out.
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

    /// Which sets change any event. A set that does so with the first seed is not run with the others.
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

    /// The differences that change any event when taken over one at a time.
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

    /// Returns a small set that explains the difference. Adds the largest effects first, until the set does. Then
    /// removes each one without which the rest explains as much.
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

    /// A figure that is a function of which of some differences are there, the first side's without any.
    struct Model {
        differences: usize,
        figure: fn(&[bool]) -> f64,
        /// Runs, of a seed each.
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
        // 80 differences one by one, with four seeds, would be 320.
        assert!(runs < 130, "{runs} runs");
    }

    /// Two that do nothing alone: only leaving one out of the second side shows them.
    #[test]
    fn an_interaction_is_found() {
        let (found, _) = found(|there| if there[3] && there[30] { 20.0 } else { 10.0 });
        assert_eq!(found.together, [3, 30]);
        assert!(found.effects.iter().all(|effect| effect.alone.is_none() && effect.left_out == Some(10.0)));
    }

    /// What is not possible alone is found with what it needs.
    #[test]
    fn what_is_possible_only_together_is_found_together() {
        let (found, _) = found(|there| if there[39] { 4.0 } else { 10.0 });
        assert!(matches!(found.together[..], [38 | 39]), "{found:?}");
        let with: Vec<&[usize]> = found.effects.iter().map(|effect| &effect.with[..]).collect();
        assert_eq!(with, [[39], [38]]);
    }
}
