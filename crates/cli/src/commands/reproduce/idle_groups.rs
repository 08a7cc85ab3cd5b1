//! The cost of 10,000 groups without tasks, beside 1000 tasks that wake each millisecond.

use vruntime_report::{Chart, Claim, FigureTable, GroupVisits, Reproduced, Results, Series};
use vruntime_sim::{Config, parallel};
use vruntime_trace::{CpuId, Event, Sink};
use vruntime_workload::program::Workload;

use super::native::instructions::count;
use super::native::measure::{cpu_ns, take_turns};
use super::published::idle_groups::{DOCUMENT, GROUPS, GROUPS_CHANGED, NO_GROUPS, TG_LOAD_DOWN, Top};
use super::{percent_more, results, scenario, simulate, table};

const SCENARIO: &str = include_str!("../../../embedded/scenarios/history/idle-groups.toml");
const KERNELS: [&str; 2] = ["3.10", "3.12"];
const GROUPS_MANY: usize = 10_000;
/// Rounds of measuring our own time.
const ROUNDS: usize = 11;
/// The counted part of the run, nanoseconds: after the creation of groups.
const COUNTED_NS: [u64; 2] = [10_000_000, 40_000_000];
/// The allowed cost of idle groups in our own time.
const OWN_MOST: f64 = 1.01;

/// Returns the scenario without and with its idle groups.
pub(super) fn workloads(kernel: &str) -> miette::Result<([Workload; 2], Config)> {
    let (input, config) = scenario("idle-groups.toml", SCENARIO, kernel)?;
    let with = input.workload;
    let mut without = with.clone();
    // All tasks are in the root, the first group.
    without.groups.truncate(1);
    Ok(([without, with], config))
}

/// Returns the values of `top`. The rest to 100 is time of interrupts.
fn top(results: &Results) -> Top {
    let all = results.machine();
    let percent = |ns: u64| 100.0 * ns as f64 / (results.elapsed_ns.max(1) * results.cpus.len().max(1) as u64) as f64;
    Top { user: percent(all.times.user), system: percent(all.times.system), idle: percent(all.times.idle) }
}

/// Measures from the first event, which follows the creation of groups, to the end.
#[derive(Debug, Default)]
struct Stopwatch {
    began: Option<u64>,
    ended: u64,
}

impl Sink for Stopwatch {
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {
        if self.began.is_none() {
            self.began = Some(cpu_ns());
        }
    }

    fn finish(&mut self, _at: u64) {
        self.ended = cpu_ns();
    }
}

pub(super) fn reproduce() -> miette::Result<Reproduced> {
    let measured = Measured::new()?;
    let own = OwnGrowth::new("3.12")?;
    Ok(Reproduced {
        name: "idle-groups".to_owned(),
        title: "A thousand tasks of the root group wake each millisecond on 8 CPUs, beside ten thousand groups without a task. Measured: the \
            cost of these groups."
            .to_owned(),
        document: DOCUMENT.to_owned(),
        tables: vec![measured.top_table(), measured.walk_table()],
        charts: vec![measured.chart()],
        claims: [measured.claims(), vec![own.claim()]].concat(),
        findings: Vec::new(),
        method: vec![
            "Simulated: scenarios/history/idle-groups.toml, 300 ms at HZ=1000, default costs; the wakers' work is the published 17.8 % \
             of 8 CPUs. Each visit to a group costs h_load_ns. As in the document, CPUs search for work each time they become idle (migration_cost_ns = 0)."
                .to_owned(),
            format!(
                "Our own time: CPU time of the simulation from its first event to its end, both sides in turns on one CPU, {ROUNDS} rounds, \
                 the median of the ratios. Instructions: counted by valgrind's callgrind from 10 to 40 ms of the run."
            ),
            "A property test checks that h_load on demand equals the result of the walk over all groups, and that it visits no idle group: \
             cargo test -p vruntime-sched h_load."
                .to_owned(),
        ],
    })
}

// Indices in `Measured::runs`: the kernel, and the number of idle groups.
const OLD_NONE: usize = 0;
const OLD_MANY: usize = 1;
const NEW_NONE: usize = 2;
const NEW_MANY: usize = 3;

struct Measured {
    runs: Vec<Results>,
    tops: Vec<Top>,
    /// The charge for a visit to a group under 3.10.
    h_load_ns: u64,
}

impl Measured {
    fn new() -> miette::Result<Self> {
        let mut jobs = Vec::new();
        for kernel in KERNELS {
            let (workloads, config) = workloads(kernel)?;
            jobs.extend(workloads.map(|workload| (workload, config.clone())));
        }
        let runs = parallel(&jobs, |_, (workload, config)| results(workload, config));
        let runs = runs.into_iter().collect::<miette::Result<Vec<Results>>>()?;
        let h_load_ns = jobs[OLD_MANY].1.machine.costs.h_load_ns;
        Ok(Self { tops: runs.iter().map(top).collect(), runs, h_load_ns })
    }

    /// Returns the walks over all groups, and their charge, nanoseconds.
    fn walks(&self) -> (GroupVisits, u64) {
        let visits = self.runs[OLD_MANY].h_load.unwrap_or_default();
        (visits, visits.groups * self.h_load_ns)
    }

    fn top_table(&self) -> FigureTable {
        let row = |what: &str, published: Option<Top>, run: usize| {
            let pair = |get: fn(&Top) -> f64| {
                let published = published.as_ref().map_or_else(|| "-".to_owned(), |top| format!("{:.1}", get(top)));
                [published, format!("{:.1}", get(&self.tops[run]))]
            };
            let cells = [pair(|top| top.user), pair(|top| top.system), pair(|top| top.idle)].concat();
            let visits = self.runs[run].h_load.map_or(0, |visits| visits.idle);
            [vec![what.to_owned()], cells, vec![visits.to_string()]].concat()
        };
        table(
            "Cpu(s) of top, per cent of 8 CPUs: user, system, idle (the rest: interrupts); and visits of the balancer to idle groups",
            &[
                "kernel, idle groups",
                "us: published",
                "ours",
                "sy: published",
                "ours",
                "id: published",
                "ours",
                "visits",
            ],
            1,
            vec![
                row("3.10, none", Some(NO_GROUPS), OLD_NONE),
                row("3.10, 10000", Some(GROUPS), OLD_MANY),
                row("3.12, none", None, NEW_NONE),
                row("3.12, 10000", Some(GROUPS_CHANGED), NEW_MANY),
            ],
        )
    }

    fn walk_table(&self) -> FigureTable {
        let machine = self.runs[OLD_MANY].machine();
        let worked = machine.busy_ns + machine.overhead_ns;
        let (_, charged) = self.walks();
        let percent = 100.0 * charged as f64 / worked.max(1) as f64;
        table(
            "The walk over all groups (perf top: tg_load_down), per cent of the cycles that are not idle",
            &["kernel, idle groups", "published", "ours"],
            1,
            vec![vec!["3.10, 10000".to_owned(), format!("{TG_LOAD_DOWN:.2}"), format!("{percent:.2}")]],
        )
    }

    fn chart(&self) -> Chart {
        let published = [Some(NO_GROUPS), Some(GROUPS), None, Some(GROUPS_CHANGED)];
        let labels = ["3.10, no groups", "3.10, 10000 idle", "3.12, no groups", "3.12, 10000 idle"];
        Chart {
            title: "The system's part of the CPUs' time".to_owned(),
            y: "% of 8 CPUs".to_owned(),
            labels: labels.map(str::to_owned).to_vec(),
            series: vec![
                Series::published("published", published.map(|top| top.map(|top| top.system))),
                Series::ours("here", self.tops.iter().map(|top| top.system)),
            ],
            ..Chart::default()
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let Self { runs, tops, h_load_ns } = self;
        let [none, many] = [OLD_NONE, OLD_MANY].map(|run| tops[run].system);
        let (visits, charged) = self.walks();
        let added = runs[OLD_MANY].machine().overhead_ns.saturating_sub(runs[OLD_NONE].machine().overhead_ns);
        let same = runs[NEW_NONE].machine() == runs[NEW_MANY].machine();
        let walks = runs[NEW_MANY].h_load;
        vec![
            Claim::new(
                "3.10: system time grows at least 1.5 times with 10,000 idle groups (published: 24.3 to 48.7 %)",
                many / none >= 1.5,
                format!("{none:.1} to {many:.1} %, {:.2} times", many / none),
            ),
            Claim::new(
                "3.10: the balancer's visits to idle groups are counted and charged",
                // Charges that are due at the end are lost, and delays on one CPU move tasks of others.
                visits.idle > 0 && added as f64 > 0.9 * charged as f64,
                format!(
                    "{} visits in {} walks, {h_load_ns} ns each: {:.0} ms; the kernel's time grew by {:.0} ms",
                    visits.idle,
                    visits.updates,
                    charged as f64 / 1e6,
                    added as f64 / 1e6
                ),
            ),
            Claim::new(
                "3.12: no idle group is ever visited",
                walks.is_none() && same,
                format!(
                    "{} walks over all groups; the CPUs' times are {} with and without the groups",
                    walks.map_or(0, |visits| visits.updates),
                    if same { "equal to the nanosecond" } else { "not equal" }
                ),
            ),
        ]
    }
}

/// The ratio of our own time with groups to that without.
struct OwnGrowth {
    /// Ratio of CPU time.
    time: f64,
    /// Ratio of instructions, or why it is unknown.
    instructions: Result<f64, String>,
}

impl OwnGrowth {
    fn new(kernel: &str) -> miette::Result<Self> {
        let (both, config) = workloads(kernel)?;
        let times = take_turns(&both, ROUNDS, |workload| {
            let mut watch = Stopwatch::default();
            // It has run before.
            let ran = simulate(workload, &config, &mut watch);
            debug_assert!(ran.is_ok(), "{ran:?}");
            watch.ended.saturating_sub(watch.began.unwrap_or(watch.ended)) as f64
        });
        let tasks: Vec<String> = [0, GROUPS_MANY]
            .into_iter()
            .flat_map(|groups| COUNTED_NS.map(|ns| format!("idle-groups;{ns};{kernel};{groups}")))
            .collect();
        let counts: Result<Vec<u64>, String> = parallel(&tasks, |_, task| count(task)).into_iter().collect();
        let instructions = counts.map(|counts| (counts[3] - counts[2]) as f64 / (counts[1] - counts[0]).max(1) as f64);
        Ok(Self { time: times[1].ratio_to(&times[0]), instructions })
    }

    fn claim(&self) -> Claim {
        let time = percent_more(self.time);
        Claim::new(
            "3.12: our own time and instructions grow by at most 1 % with the groups",
            self.time <= OWN_MOST && self.instructions.as_ref().is_ok_and(|ratio| *ratio <= OWN_MOST),
            match &self.instructions {
                Ok(ratio) => format!("{} instructions, {time} CPU time", percent_more(*ratio)),
                Err(why) => format!("{time} CPU time; {why}"),
            },
        )
    }
}
