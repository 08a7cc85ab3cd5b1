//! The search: which of the differences of two kernels move a figure.
//!
//! Each difference is tried in both directions: alone on the first kernel, and left out of the second. Groups come
//! first: a group that changes no event of any seed has no member that does, and is not looked into. What is left is
//! halved until it is a single difference. The share of a difference is the mean of its two effects.

use std::collections::BTreeMap;

use vruntime_report::{Figure, Results};
use vruntime_sched::Kernel;
use vruntime_sched::kernels::Difference;

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

/// Runs kernels: several at once, in their order.
pub(super) trait Runner {
    type Error;
    fn run(&mut self, kernels: &[Kernel]) -> Result<Vec<Ran>, Self::Error>;
}

/// What one difference does.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) difference: Difference,
    /// Of the difference alone, on the first kernel.
    pub(super) alone: f64,
    /// What is lost without it in the second kernel.
    pub(super) left_out: f64,
    /// Differences that it needs.
    pub(super) with: Vec<Difference>,
}

impl Effect {
    pub(super) fn mean(&self) -> f64 {
        f64::midpoint(self.alone, self.left_out)
    }
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
    pub(super) together: Vec<Difference>,
    pub(super) joint: f64,
    /// How many combinations were run.
    pub(super) combinations: usize,
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
type Single = (Difference, Ran, Vec<Difference>);

/// Two kernels between which is searched.
struct Search<'a, R> {
    from: &'a Kernel,
    to: &'a Kernel,
    runner: &'a mut R,
    combinations: usize,
}

/// What is wanted of a difference that explains enough: the joint effect is within a tenth of the whole, or the noise.
const ENOUGH: f64 = 0.1;

/// Searches for what moves the figure between two kernels.
pub(super) fn search<R: Runner>(
    from: &Kernel,
    to: &Kernel,
    differences: &[Difference],
    runner: &mut R,
    ends: (Ran, Ran),
) -> Result<Found, R::Error> {
    let mut search = Search { from, to, runner, combinations: 2 };
    let (first, last) = ends;
    let alone = search.singles(false, &first, differences)?;
    let left_out = search.singles(true, &last, differences)?;
    let mut effects: BTreeMap<Difference, Effect> = BTreeMap::new();
    let mut note = |(difference, ran, with): Single, forward: bool| {
        let fresh = || Effect { difference, alone: 0.0, left_out: 0.0, with: Vec::new() };
        let effect = effects.entry(difference).or_insert_with(fresh);
        if forward {
            effect.alone = ran.mean() - first.mean();
        } else {
            effect.left_out = last.mean() - ran.mean();
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
        of: differences.len(),
        together,
        joint,
        combinations: search.combinations,
    })
}

impl<R: Runner> Search<'_, R> {
    fn run(&mut self, sets: &[Vec<Difference>], backward: bool) -> Result<Vec<(Ran, Vec<Difference>)>, R::Error> {
        let (base, other) = if backward { (self.to, self.from) } else { (self.from, self.to) };
        let (kernels, taken): (Vec<Kernel>, Vec<Vec<Difference>>) =
            sets.iter().map(|set| base.taking(other, set)).unzip();
        self.combinations += kernels.len();
        Ok(self.runner.run(&kernels)?.into_iter().zip(taken).collect())
    }

    /// The differences that change any event when taken over one at a time.
    fn singles(&mut self, backward: bool, base: &Ran, differences: &[Difference]) -> Result<Vec<Single>, R::Error> {
        let mut found = Vec::new();
        // Small groups at once: most differences change nothing, and the rest is found with few more runs.
        let mut groups: Vec<Vec<Difference>> = differences.chunks(4).map(<[Difference]>::to_vec).collect();
        while !groups.is_empty() {
            let ran = self.run(&groups, backward)?;
            let mut next = Vec::new();
            for (group, (ran, taken)) in groups.into_iter().zip(ran) {
                if ran.digests == base.digests {
                    continue;
                }
                if let [only] = group[..] {
                    let with = taken.into_iter().filter(|&one| one != only).collect();
                    found.push((only, ran, with));
                    continue;
                }
                let (left, right) = group.split_at(group.len() / 2);
                next.extend([left.to_vec(), right.to_vec()]);
            }
            groups = next;
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
    ) -> Result<(Vec<Difference>, f64), R::Error> {
        let explains = |joint: f64| (total - joint).abs() <= (total.abs() * ENOUGH).max(noise.min(total.abs() / 4.0));
        let ranked: Vec<Difference> = effects.iter().map(|effect| effect.difference).collect();
        let prefixes: Vec<Vec<Difference>> = (1..=ranked.len()).map(|count| ranked[..count].to_vec()).collect();
        let mut best: (Vec<Difference>, f64) = (Vec::new(), 0.0);
        for some in prefixes.chunks(4) {
            let ran = self.run(some, false)?;
            let joints = some.iter().zip(&ran).map(|(set, (ran, _))| (set.clone(), ran.mean() - first.mean()));
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
        mut best: (Vec<Difference>, f64),
        first: &Ran,
        explains: impl Fn(f64) -> bool,
    ) -> Result<(Vec<Difference>, f64), R::Error> {
        while best.0.len() > 1 {
            let without = |index: usize| {
                best.0.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, one)| *one).collect::<Vec<_>>()
            };
            let smaller: Vec<Vec<Difference>> = (0..best.0.len()).map(without).collect();
            let ran = self.run(&smaller, false)?;
            let joints = smaller.into_iter().zip(ran).map(|(set, (ran, _))| (set, ran.mean() - first.mean()));
            let Some(next) = joints.into_iter().rfind(|(_, joint)| explains(*joint)) else { break };
            best = next;
        }
        Ok(best)
    }
}

/// The values of a figure in some runs.
pub(super) fn values(figure: &Figure, runs: &[Results]) -> Vec<f64> {
    runs.iter().filter_map(|run| figure.value(run)).collect()
}

#[cfg(test)]
mod tests {
    use vruntime_sched::kernel;
    use vruntime_sched::kernels::Behaviour;

    use super::*;

    /// A figure that is a function of the behaviours.
    struct Model(fn(&Kernel) -> f64);

    impl Runner for Model {
        type Error = ();
        fn run(&mut self, kernels: &[Kernel]) -> Result<Vec<Ran>, ()> {
            let ran = kernels.iter().map(|kernel| (self.0)(kernel));
            Ok(ran
                .map(|value| Ran { values: vec![value], digests: vec![value.to_bits()], results: Vec::new() })
                .collect())
        }
    }

    fn found(from: &str, to: &str, figure: fn(&Kernel) -> f64) -> Found {
        let (from, to) = (kernel(from).unwrap(), kernel(to).unwrap());
        let differences = from.differences(&to).unwrap();
        let mut model = Model(figure);
        let mut ends = model.run(&[from.clone(), to.clone()]).unwrap();
        let (last, first) = (ends.pop().unwrap(), ends.pop().unwrap());
        search(&from, &to, &differences, &mut model, (first, last)).unwrap()
    }

    #[test]
    fn a_single_cause_is_found_and_no_other_blamed() {
        let found =
            found("6.6", "6.12", |kernel| if kernel.behaviours.has(Behaviour::ClusterFirst) { 3.0 } else { 10.0 });
        assert_eq!(found.together, [Difference::Behaviour(Behaviour::ClusterFirst)]);
        assert_eq!(found.effects.len(), 1);
        assert!((found.joint + 7.0).abs() < 1e-9);
    }

    /// Two that do nothing alone: only leaving one out of the second kernel shows them.
    #[test]
    fn an_interaction_is_found() {
        let found = found("6.6", "6.12", |kernel| {
            let has = |one| kernel.behaviours.has(one);
            if has(Behaviour::ClusterFirst) && has(Behaviour::DelayedCounts) { 20.0 } else { 10.0 }
        });
        let both = [Behaviour::ClusterFirst, Behaviour::DelayedCounts].map(Difference::Behaviour);
        assert_eq!(found.together, both);
        assert!(found.effects.iter().all(|effect| effect.alone.abs() < 1e-9 && (effect.left_out - 10.0).abs() < 1e-9));
    }
}
