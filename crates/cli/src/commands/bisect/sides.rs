//! The sides of a bisection: two kernels under one workload, or two scenario files.

use std::borrow::Cow;

use vruntime_report::{Figure, Results};
use vruntime_sched::Kernel;
use vruntime_sched::kernels::Difference;
use vruntime_sched::kernels::behaviours::Certainty;
use vruntime_sim::Config;
use vruntime_workload::program::Workload;

use super::search::{Between, Ran, Seeds, Stage};
use super::settings::Files;
use crate::args::Bisect;
use crate::input::Input;
use crate::simulate::{self, Budget, Failure, Job};
use crate::{error_place, interrupt};

/// A difference in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// The name of a behaviour, feature or tunable, or the path of a setting.
    pub(super) name: String,
    /// The releases that have it, or the side with it on; may be empty.
    pub(super) releases: String,
    /// Its effect.
    pub(super) what: String,
    /// Source of `releases`; may be empty.
    pub(super) certainty: &'static str,
    /// How to switch it off on a real kernel (the second); may be empty.
    pub(super) switch: String,
}

#[derive(Clone, Debug)]
pub(super) struct Variant<'a> {
    pub(super) workload: Cow<'a, Workload>,
    pub(super) config: Config,
}

/// Two sides and their differences.
#[derive(Debug)]
pub(super) enum Space<'a> {
    Kernels { workload: &'a Workload, from: &'a Config, to: &'a Config, differences: Vec<Difference> },
    Files(Box<Files<'a>>),
}

impl<'a> Space<'a> {
    /// Returns the two sides.
    pub(super) fn ends(&self) -> [Variant<'a>; 2] {
        match self {
            Self::Kernels { workload, from, to, .. } => {
                [from, to].map(|config| Variant { workload: Cow::Borrowed(*workload), config: (*config).clone() })
            }
            Self::Files(files) => files.ends(),
        }
    }

    /// Describes the differences. `from` and `to` name the sides.
    pub(super) fn words(&self, from: &str, to: &str) -> Vec<Words> {
        match self {
            Self::Kernels { from: first, to: last, differences, .. } => {
                let (kernels, cpus) = ([&first.kernel, &last.kernel], last.machine.topology.nr_cpus());
                differences.iter().map(|one| of_difference(*one, kernels, cpus, from, to)).collect()
            }
            Self::Files(files) => files.words(),
        }
    }
}

/// Describes a difference of two kernels. `from` and `to` name the sides.
pub(super) fn of_difference(one: Difference, [first, last]: [&Kernel; 2], cpus: usize, from: &str, to: &str) -> Words {
    let on = match one {
        Difference::Feature(feature) => last.features.has(feature),
        Difference::Behaviour(behaviour) => last.behaviours.has(behaviour),
        _ => true,
    };
    let releases = match one {
        // Both have it, and one switches it off by default or by name.
        Difference::Feature(feature) if [first, last].iter().all(|kernel| kernel.has_feature(feature)) => {
            format!("on in {}", if on { to } else { from })
        }
        _ => one.releases(),
    };
    let certainty = one.certainty().map_or("", Certainty::name);
    let switch = one.switch(last, first, cpus);
    Words { name: one.name().to_owned(), releases, what: one.what().to_owned(), certainty, switch }
}

pub(super) struct Sides<'a> {
    pub(super) space: Space<'a>,
    /// The input for places of errors.
    pub(super) input: &'a Input,
    pub(super) seeds: u16,
    /// The figure, once known.
    pub(super) figure: Option<Figure>,
    /// Whether runs have their results. Combinations need the figure only.
    pub(super) keeps_results: bool,
    pub(super) budget: Budget,
    /// The events of complete runs, and the number of these.
    events: u64,
    runs: u64,
}

/// The fewest seeds with which a figure has a noise.
const FEWEST_SEEDS: u16 = 2;

impl<'a> Sides<'a> {
    pub(super) fn new(space: Space<'a>, input: &'a Input, bisect: &Bisect) -> Self {
        let budget = Budget::new(u64::from(super::budget(bisect)) * 1_000_000);
        Self { space, input, seeds: bisect.seeds, figure: None, keeps_results: true, budget, events: 0, runs: 0 }
    }

    /// Runs the two sides with all seeds.
    ///
    /// Both run with the seeds, and again with other ones. If these runs would need more than a third of the budget,
    /// there are fewer seeds.
    pub(super) fn run_ends(&mut self) -> miette::Result<[Ran; 2]> {
        let ends = self.space.ends();
        let first = self.run(&ends, Seeds::First)?;
        let of_seed = 4 * self.events.div_ceil(self.runs.max(1));
        let affordable = (self.budget.events / 3).checked_div(of_seed).unwrap_or(u64::MAX);
        let fewest = self.seeds.min(FEWEST_SEEDS);
        self.seeds = self.seeds.min(u16::try_from(affordable).unwrap_or(u16::MAX)).max(fewest);
        let rest = self.run(&ends, Seeds::Rest)?;
        let mut both = first.into_iter().zip(rest).map(|(first, rest)| first.and(rest));
        Ok([both.next().unwrap_or_default(), both.next().unwrap_or_default()])
    }

    /// Returns complete runs.
    fn done<T>(&self, runs: Vec<Result<T, Failure>>) -> miette::Result<Vec<T>> {
        let runs = runs.into_iter().map(|run| run.map_err(|failure| error_place::report(self.input, failure)));
        let done = runs.collect::<miette::Result<Vec<T>>>()?;
        if interrupt::asked() { Err(miette::miette!("interrupted")) } else { Ok(done) }
    }

    fn numbers(&self, seeds: Seeds) -> std::ops::Range<u64> {
        match seeds {
            Seeds::First => 0..1,
            Seeds::Rest => 1..u64::from(self.seeds),
            Seeds::All => 0..u64::from(self.seeds),
            Seeds::Fresh => u64::from(self.seeds)..2 * u64::from(self.seeds),
        }
    }
}

impl<'a> Between for Sides<'a> {
    type Variant = Variant<'a>;
    type Error = miette::Report;

    fn variant(&self, backward: bool, set: &[usize]) -> Option<(Variant<'a>, Vec<usize>)> {
        match &self.space {
            Space::Kernels { workload, from, to, differences } => {
                let (base, other) = if backward { (to, from) } else { (from, to) };
                let set: Vec<Difference> = set.iter().map(|&one| differences[one]).collect();
                let (kernel, taken) = base.kernel.taking(&other.kernel, &set);
                let number = |one: &Difference| differences.iter().position(|known| known == one);
                let config = Config { kernel, ..(*base).clone() };
                let taken = taken.iter().filter_map(number).collect();
                Some((Variant { workload: Cow::Borrowed(*workload), config }, taken))
            }
            Space::Files(files) => files.variant(backward, set),
        }
    }

    fn run(&mut self, variants: &[Variant<'a>], seeds: Seeds) -> miette::Result<Vec<Ran>> {
        let seeds: Vec<u64> = self.numbers(seeds).collect();
        if seeds.is_empty() || variants.is_empty() {
            return Ok(vec![Ran::default(); variants.len()]);
        }
        let jobs: Vec<Job<'_>> = variants.iter().flat_map(|variant| jobs(variant, &seeds)).collect();
        let done = self.done(simulate::all_of(&jobs, &self.budget))?;
        let events = done.iter().map(|run| run.outcome.events).sum::<u64>();
        self.runs += done.len() as u64;
        self.events += events;
        self.budget.spent += events;
        let of_variants = done.chunks(seeds.len()).map(|runs| {
            let results: Vec<Results> = runs.iter().map(|run| run.results.clone()).collect();
            let values = self.figure.as_ref().map_or_else(Vec::new, |figure| values(figure, &results));
            let digests = runs.iter().map(|run| run.digest).collect();
            if !self.keeps_results {
                return Ran { values, digests, ..Ran::default() };
            }
            Ran { values, digests, marks: runs.iter().map(|run| run.marks.clone()).collect(), results }
        });
        Ok(of_variants.collect())
    }

    fn differ(&mut self, variants: &[Variant<'a>], seeds: Seeds, base: &Ran) -> miette::Result<Vec<bool>> {
        let range = self.numbers(seeds);
        let seeds: Vec<u64> = range.clone().collect();
        if seeds.is_empty() {
            return Ok(vec![false; variants.len()]);
        }
        let marks = || range.clone().filter_map(|seed| base.marks.get(seed as usize).map(Vec::as_slice));
        let jobs = variants.iter().flat_map(|variant| jobs(variant, &seeds).into_iter().zip(marks()));
        let jobs: Vec<(Job<'_>, &[u64])> = jobs.collect();
        let done = self.done(simulate::compared(&jobs, &self.budget))?;
        self.budget.spent += done.iter().map(|run| run.events).sum::<u64>();
        Ok(done.chunks(seeds.len()).map(|runs| runs.iter().any(|run| run.differs)).collect())
    }

    /// Expects of each run the mean events of the complete runs so far.
    fn left(&self, seeds: Seeds, stage: Stage) -> usize {
        let seeds = self.numbers(seeds).count() as u64;
        let events = (self.budget.events / 3 * stage.thirds()).saturating_sub(self.budget.spent);
        let of_combination = self.events.div_ceil(self.runs.max(1)).saturating_mul(seeds);
        events.checked_div(of_combination).map_or(usize::MAX, |left| left as usize)
    }

    fn is_switchable(&self, difference: usize) -> bool {
        match &self.space {
            Space::Kernels { from, to, differences, .. } => {
                let cpus = to.machine.topology.nr_cpus();
                differences.get(difference).is_some_and(|one| !one.switch(&to.kernel, &from.kernel, cpus).is_empty())
            }
            Space::Files(files) => files.is_switchable(difference),
        }
    }

    fn switched(&self, set: &[usize]) -> Option<Variant<'a>> {
        match &self.space {
            Space::Kernels { workload, from, to, differences } => {
                let set: Vec<Difference> = set.iter().filter_map(|&one| differences.get(one).copied()).collect();
                let kernel = to.kernel.after_commands(&from.kernel, &set);
                Some(Variant { workload: Cow::Borrowed(*workload), config: Config { kernel, ..(*to).clone() } })
            }
            Space::Files(files) => files.switched(set),
        }
    }
}

/// Returns a variant's run with each seed.
fn jobs<'v>(variant: &'v Variant<'_>, seeds: &[u64]) -> Vec<Job<'v>> {
    let job = |&index: &u64| {
        let config = Config { seed: variant.config.seed.wrapping_add(index), ..variant.config.clone() };
        Job::new(&variant.workload, config, variant.config.kernel.name)
    };
    seeds.iter().map(job).collect()
}

pub(super) fn values(figure: &Figure, runs: &[Results]) -> Vec<f64> {
    runs.iter().filter_map(|run| figure.value(run)).collect()
}
