//! The cost of counting context switches by group, in nested groups.

use std::ops::Range;

use vruntime_report::{Chart, Claim, Collector, FigureTable, Reproduced, Results, Series};
use vruntime_sim::{Config, MachineSpec, parallel, parse_topology};
use vruntime_workload::model;

use super::native::instructions::{Counted, per_switch};
use super::native::measure::{Times, measure};
use super::native::subject::{Subject, nested};
use super::published::group_switches::{DOCUMENT, MESSAGING_S};
use super::{percent_more, simulate, table};

const MESSAGING: &str = "hackbench -pipe 1 process 4000";
/// Simulated time: counts of both methods agree at any length.
const SIMULATED_NS: u64 = 500_000_000;
const DEPTHS: [usize; 3] = [0, 3, 30];
/// The nearest to the document's kernel, and a recent one. hackbench hardly switches under 6.12, so [`MEASURED`] has
/// another benchmark for it.
const KERNELS: [&str; 2] = ["3.10", "6.12"];
const MEASURED: [&str; 2] = [MESSAGING, "lat_ctx -s 0 20"];
/// Calls per script, and number of rounds.
const CALLS: usize = 30_000;
const ROUNDS: usize = 40;

/// Switches from tasks of the deepest group, by the scheduler's counters and by events, and those to idle.
struct Counts {
    kernel: &'static str,
    depth: usize,
    counted: Vec<u64>,
    emitted: Vec<u64>,
    to_idle: u64,
}

pub(super) fn reproduce() -> miette::Result<Reproduced> {
    let counts = counts()?;
    let measured = Measured::new()?;
    Ok(Reproduced {
        name: "group-switches".to_owned(),
        title: "Switches away from tasks are counted for each group and its ancestors. Measured: the cost of counting in nested groups, and \
            the cost of nesting."
            .to_owned(),
        document: DOCUMENT.to_owned(),
        tables: vec![measured.costs_table(), measured.nesting_table(), counts_table(&counts)],
        charts: vec![measured.chart()],
        claims: [vec![counts_claim(&counts)], measured.claims()].concat(),
        findings: measured.findings(),
        method: measured.method(),
    })
}

/// Costs of the scheduler's own code per switch, of each kernel at each depth, without and with counting
/// ([`Measured::at`]).
struct Measured {
    /// Instructions.
    counted: Counted,
    /// Nanoseconds in each round.
    times: Vec<Times>,
}

impl Measured {
    fn new() -> miette::Result<Self> {
        let mut subjects = Vec::new();
        for (kernel, command) in KERNELS.into_iter().zip(MEASURED) {
            for depth in DEPTHS {
                for counts in [false, true] {
                    subjects.push(Subject { depth, counts, ..Subject::new(kernel, command) });
                }
            }
        }
        // With and without counting, the script is the same.
        let plain: Vec<&Subject> = subjects.iter().step_by(2).collect();
        let scripts = parallel(&plain, |_, subject| subject.script(CALLS));
        let scripts = scripts.into_iter().collect::<miette::Result<Vec<_>>>()?;
        let sides = subjects.iter().enumerate().map(|(index, subject)| subject.side(&scripts[index / 2]));
        let sides: Vec<_> = sides.collect();
        let counted = per_switch(&sides);
        let times = sides.chunks(2 * DEPTHS.len()).flat_map(|sides| measure(sides, ROUNDS)).collect();
        Ok(Self { counted, times })
    }

    /// Returns the index in `counted` and `times`, from those in [`KERNELS`] and [`DEPTHS`].
    fn at(kernel: usize, depth: usize, counting: bool) -> usize {
        2 * (kernel * DEPTHS.len() + depth) + usize::from(counting)
    }

    fn time_ratio(&self, side: usize, than: usize) -> f64 {
        self.times[side].ratio_to(&self.times[than])
    }

    /// Returns the time of a switch at this depth, without counting, relative to the root.
    fn to_root(&self, kernel: usize, depth: usize) -> f64 {
        self.time_ratio(Self::at(kernel, depth, false), Self::at(kernel, 0, false))
    }

    fn costs_table(&self) -> FigureTable {
        let mut rows = Vec::new();
        for (index, (depth, without, with, difference)) in MESSAGING_S.into_iter().enumerate() {
            let published = [format!("{without:.3}"), format!("{with:.3}"), format!("{difference} %")];
            let head = vec![format!("{depth} deep"), "published: s".to_owned()];
            rows.push([head, published.to_vec(), vec![String::new(); 2]].concat());
            for (kernel, name) in KERNELS.iter().enumerate() {
                let head = vec![String::new(), format!("{name}: ns")];
                rows.push([head, self.costs(kernel, index).to_vec()].concat());
            }
        }
        table(
            "hackbench -pipe 1 process 4000: published, seconds of the benchmark without and with counting; ours, nanoseconds of the \
             scheduler a switch (median), and instructions (6.12: of lat_ctx -s 0 20)",
            &["groups", "", "off", "on", "difference", "instructions off", "on"],
            2,
            rows,
        )
    }

    /// Returns the time without and with counting, and the difference; then instructions without counting, and the
    /// difference.
    fn costs(&self, kernel: usize, depth: usize) -> [String; 5] {
        let [off, on] = [false, true].map(|counting| Self::at(kernel, depth, counting));
        [
            format!("{:.1}", self.times[off].median()),
            format!("{:.1}", self.times[on].median()),
            percent_more(self.time_ratio(on, off)),
            self.counted.get(off).map_or_else(dash, |count| format!("{count:.0}")),
            self.counted.ratio(on, off).map_or_else(dash, percent_more),
        ]
    }

    fn nesting_table(&self) -> FigureTable {
        let rows = (1..DEPTHS.len()).map(|depth| {
            let ours = |kernel: usize| {
                let count = self.counted.ratio(Self::at(kernel, depth, false), Self::at(kernel, 0, false));
                let count = count.map_or_else(dash, |ratio| format!("{ratio:.2}"));
                [format!("{:.2}", self.to_root(kernel, depth)), count]
            };
            let published = format!("{:.2}", published_to_root(depth));
            [vec![format!("{} deep", DEPTHS[depth]), published], ours(0).to_vec(), ours(1).to_vec()].concat()
        });
        table(
            "A switch in nested groups, relative to one in the root (published: the whole benchmark)",
            &["groups", "published", "3.10: time", "instructions", "6.12: time", "instructions"],
            1,
            rows.collect(),
        )
    }

    fn chart(&self) -> Chart {
        let (_, root_s, ..) = MESSAGING_S[0];
        let ours = |counting: bool| {
            let root = Self::at(0, 0, false);
            [0, 1, 2].map(|depth| self.time_ratio(Self::at(0, depth, counting), root))
        };
        Chart {
            title: "A switch, relative to one in the root without counting".to_owned(),
            y: "root, off = 1".to_owned(),
            x: "levels of groups".to_owned(),
            labels: DEPTHS.map(|depth| depth.to_string()).to_vec(),
            series: vec![
                Series::published("published, off", MESSAGING_S.map(|(_, off, ..)| off / root_s)),
                Series::published("published, on", MESSAGING_S.map(|(_, _, on, _)| on / root_s)),
                Series::ours("3.10 here, off", ours(false)),
                Series::ours("3.10 here, on", ours(true)),
            ],
            ..Chart::default()
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let (shallow, deep) = (self.cost_of_counting(0..2), self.cost_of_counting(2..3));
        let [before, today] = [0, 1].map(|kernel| self.to_root(kernel, 2));
        vec![
            Claim::new("counting costs at most 0.2 % at depth 0 and 3", shallow.0 <= 0.002, shallow.1),
            Claim::new("counting costs at most 2 % at depth 30 (published: 12 %)", deep.0 <= 0.02, deep.1),
            Claim::new(
                "a switch at depth 30 takes at most 1.3 times the root's (published: 1.82, of the whole benchmark)",
                before.max(today) <= 1.3,
                format!("of the scheduler alone {before:.2} times under 3.10, {today:.2} times under 6.12"),
            ),
        ]
    }

    /// Returns the largest ratio with counting at these depths, by instructions if they were counted, and a text of
    /// all.
    fn cost_of_counting(&self, depths: Range<usize>) -> (f64, String) {
        let mut worst = f64::MIN;
        let mut sentences = Vec::new();
        for (kernel, name) in KERNELS.iter().enumerate() {
            for depth in depths.clone() {
                let [off, on] = [false, true].map(|counting| Self::at(kernel, depth, counting));
                let (time, count) = (self.time_ratio(on, off), self.counted.ratio(on, off));
                worst = worst.max(count.unwrap_or(time));
                let count =
                    count.map_or_else(String::new, |count| format!("{:+.2} % instructions, ", (count - 1.0) * 100.0));
                sentences.push(format!("{name} at {}: {count}{} time", DEPTHS[depth], percent_more(time)));
            }
        }
        (worst - 1.0, sentences.join("; "))
    }

    fn findings(&self) -> Vec<String> {
        let [deep, root] = [2, 0].map(|depth| self.times[Self::at(0, depth, false)].median());
        let deeper_us = (deep - root) / 1e3;
        vec![
            format!(
                "The published benchmark takes {:.1} us of CPU time for a message in the root (4 CPUs, 1.6 million messages). Under 3.10, a \
                 switch 30 levels deep takes {:.2} us more here than one in the root. With one switch for a message, this adds {:.0} %; the \
                 published 30 levels add {:.0} %.",
                message_us(),
                deeper_us,
                100.0 * deeper_us / message_us(),
                (published_to_root(2) - 1.0) * 100.0
            ),
            "A switch below the root picks the group's entity, and defers the update of the levels above, where nothing changes while other \
             tasks of the group are queued. The deferred update is one batch with bit-identical results. Two costs grow with the depth: each \
             level begins a new period of its averages once a millisecond, and each tick visits it."
                .to_owned(),
            "The document's hook walks from the task's group to the root at each switch and counts in every group. Ours counts in the task's \
             own group only, and a reader sums up the tree, so the cost does not grow with the depth. In the root ours counts, too, where \
             the document's takes only a branch."
                .to_owned(),
        ]
    }

    fn method(&self) -> Vec<String> {
        vec![
            format!(
                "Times: as in ctxsw. {CALLS} calls of a simulated run on one CPU, made to the scheduler alone, {ROUNDS} rounds in turns; \
                 differences and ratios are medians over the rounds."
            ),
            self.counted.method(),
            "The published seconds are of the whole benchmark. Pipes, system calls and caches are part of both sides, so every ratio is \
             smaller than the scheduler's own."
                .to_owned(),
        ]
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// Returns the published time at this depth, without counting, relative to the root.
fn published_to_root(depth: usize) -> f64 {
    MESSAGING_S[depth].1 / MESSAGING_S[0].1
}

fn counts_table(counts: &[Counts]) -> FigureTable {
    let number = |count: Option<&u64>| count.map_or_else(dash, u64::to_string);
    let rows = counts.iter().map(|Counts { kernel, depth, counted, emitted, to_idle }| {
        vec![
            format!("{kernel}, {depth} deep"),
            number(counted.first()),
            number(emitted.first()),
            number(counted.last()),
            number(emitted.last()),
            to_idle.to_string(),
        ]
    });
    table(
        "Switches as counted by the scheduler and as in the trace (simulated, 4 CPUs, the benchmark's first 500 ms)",
        &["kernel", "root: counted", "traced", "deepest: counted", "traced", "to the idle task"],
        1,
        rows.collect(),
    )
}

fn counts_claim(counts: &[Counts]) -> Claim {
    let are_equal = |counts: &Counts| counts.counted == counts.emitted && counts.counted.len() == counts.depth + 1;
    let groups: usize = counts.iter().map(|counts| counts.counted.len()).sum();
    Claim::new(
        "counts equal the trace's in every group, going idle included",
        counts.iter().all(are_equal),
        format!("{} runs, {groups} groups", counts.len()),
    )
}

/// Returns the published CPU time per message in the root, microseconds: 20 senders send 4000 to each of 20 receivers.
fn message_us() -> f64 {
    MESSAGING_S[0].1 * 4.0 * 1e6 / (20.0 * 20.0 * 4000.0)
}

/// Counts switches in both ways, in one run of each kernel at each depth.
fn counts() -> miette::Result<Vec<Counts>> {
    let mut jobs = Vec::new();
    for name in KERNELS {
        let mut kernel = vruntime_sched::kernel(name).map_err(|error| miette::miette!("{error}"))?;
        kernel.group_switches = true;
        let topology = parse_topology("4").map_err(|error| miette::miette!("{}", error.message))?;
        let config = Config { duration: Some(SIMULATED_NS), ..Config::new(kernel, MachineSpec::new(topology)) };
        for depth in DEPTHS {
            let workload = model::parse(MESSAGING).map_err(|error| miette::miette!("{error}"))?;
            jobs.push((name, depth, nested(workload, depth), config.clone()));
        }
    }
    let runs = parallel(&jobs, |_, (kernel, depth, workload, config)| {
        let mut sinks = (Collector::new(config.machine.topology.nr_cpus()), ToIdle::default());
        let outcome = simulate(workload, config, &mut sinks)?;
        let results: Results = sinks.0.into_results();
        let emitted = results.groups.iter().map(|group| group.switches).collect();
        Ok(Counts { kernel, depth: *depth, counted: outcome.group_switches, emitted, to_idle: sinks.1.0 })
    });
    runs.into_iter().collect()
}

#[derive(Debug, Default)]
struct ToIdle(u64);

impl vruntime_trace::Sink for ToIdle {
    fn event(&mut self, _at: u64, _cpu: vruntime_trace::CpuId, event: &vruntime_trace::Event) {
        use vruntime_trace::{Event, Running};
        if let Event::Switch { prev: Running::Task(_), next: Running::Idle, .. } = event {
            self.0 += 1;
        }
    }
}
