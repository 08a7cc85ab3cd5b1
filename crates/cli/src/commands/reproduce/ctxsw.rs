//! What a context switch costs under O(1), the first CFS with knobs, and the first CFS with constants.

use vruntime_report::{Chart, Claim, Reproduced, Series};
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_trace::NoSink;
use vruntime_workload::model;

use super::native::instructions::per_switch;
use super::native::measure::{Times, measure};
use super::native::subject::Subject;
use super::published::ctxsw::{DOCUMENT, LAT_CTX_US, MESSAGING_S, PIPE_TEST_US, SUMMARY_US};
use super::{percent_more, simulate, table};
use crate::simulate::parallel;

const LAT_CTX: &str = "lat_ctx -s 0 2";
const PIPE_TEST: &str = "pipe-test";
const MESSAGING: &str = "hackbench 50";
/// Rows of the document's table.
const RUNS: usize = 10;
/// Each of ours is the mean of so many turns.
const TURNS: usize = 5;
/// Calls of a script.
const CALLS: usize = 30_000;

/// Knobs of 6.12 may cost so much more than constants.
const KNOBS_MOST: f64 = 0.01;

pub(super) fn reproduce() -> miette::Result<Reproduced> {
    let constant = |subject: Subject| Subject { constant: true, ..subject };
    let lat_ctx = |kernel: &str| Subject::new(kernel, LAT_CTX);
    let subjects = [
        lat_ctx("2.6.22"),
        lat_ctx("2.6.23"),
        constant(lat_ctx("2.6.23")),
        lat_ctx("6.12"),
        constant(lat_ctx("6.12")),
        Subject::new("2.6.22", PIPE_TEST),
        Subject::new("2.6.23", PIPE_TEST),
        constant(Subject::new("2.6.23", PIPE_TEST)),
    ];
    let seconds = hackbench()?;
    let scripts = subjects.iter().map(|subject| subject.script(CALLS)).collect::<miette::Result<Vec<_>>>()?;
    let sides: Vec<_> = subjects.iter().zip(&scripts).map(|(subject, script)| subject.side(script)).collect();
    let counted = per_switch(&sides);
    let times: Vec<Times> =
        [&sides[..5], &sides[5..]].into_iter().flat_map(|sides| measure(sides, RUNS * TURNS)).collect();
    let runs: Vec<Times> = times.iter().map(|times| times.in_turns(TURNS)).collect();

    let us = |value: f64| format!("{value:.2}");
    let ns = |value: f64| format!("{value:.1}");
    let pairs = |what: &str, published: [String; 3], ours: [String; 3]| {
        let cells = published.into_iter().zip(ours).flat_map(|(published, ours)| [published, ours]);
        std::iter::once(what.to_owned()).chain(cells).collect()
    };
    let mut rows: Vec<Vec<String>> = LAT_CTX_US
        .iter()
        .enumerate()
        .map(|(run, published)| {
            pairs(&format!("run {}", run + 1), published.map(us), [0, 1, 2].map(|side| ns(runs[side].0[run])))
        })
        .collect();
    for (index, (name, published)) in SUMMARY_US.iter().enumerate() {
        let of: fn(&Times) -> f64 = [Times::mean, Times::least, Times::most][index];
        let ours = [0, 1, 2].map(|side| of(&runs[side]));
        let with = |value: f64, first: f64, text: String| format!("{text} ({})", percent_more(value / first));
        rows.push(pairs(
            name,
            [
                us(published[0]),
                with(published[1], published[0], us(published[1])),
                with(published[2], published[0], us(published[2])),
            ],
            [ns(ours[0]), with(ours[1], ours[0], ns(ours[1])), with(ours[2], ours[0], ns(ours[2]))],
        ));
    }
    let instructions = |side: usize| counted.get(side).map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
    let dash = || "-".to_owned();
    rows.push(pairs("instructions", [dash(), dash(), dash()], [0, 1, 2].map(instructions)));

    let ratio = |a: usize, b: usize| times[a].ratio_to(&times[b]);
    let more = |side: usize, than: usize| {
        let time = percent_more(ratio(side, than));
        match counted.ratio(side, than) {
            Some(count) => format!("{} instructions, {time} time", percent_more(count)),
            None => format!("{time} time"),
        }
    };
    let published_pipe = format!(
        "{:.2} to {:.2}",
        PIPE_TEST_US.iter().copied().fold(f64::INFINITY, f64::min),
        PIPE_TEST_US.iter().copied().fold(0.0, f64::max)
    );
    let hackbench_rows = (0..MESSAGING_S.len()).map(|run| {
        let of = |kernel: usize| seconds[kernel].get(run).map_or_else(dash, |seconds| format!("{seconds:.3}"));
        vec![
            format!("run {}", run + 1),
            format!("{:.3}", MESSAGING_S[run][0]),
            of(0),
            format!("{:.3}", MESSAGING_S[run][1]),
            of(1),
        ]
    });
    let published = |row: usize| SUMMARY_US[row].1[2] / SUMMARY_US[row].1[1];
    let knobs = counted.ratio(3, 4).unwrap_or_else(|| ratio(3, 4));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let published_hackbench = mean(&MESSAGING_S.map(|run| run[1])) / mean(&MESSAGING_S.map(|run| run[0]));
    let ours_hackbench = mean(&seconds[1]) / mean(&seconds[0]);
    Ok(Reproduced {
        name: "ctxsw".to_owned(),
        title: "Two processes that hand each other a byte: what a context switch costs under O(1), under the first CFS with knobs, and with \
                the knobs made constants."
            .to_owned(),
        document: DOCUMENT.to_owned(),
        tables: vec![
            table(
                "lat_ctx -s 0 2: published, microseconds of the whole switch on a machine of 2007; ours, nanoseconds of the scheduler's own \
                 code a switch (and instructions), here",
                &["", "v2.6.22", "ours", "2.6.23-git", "ours", "+const-param", "ours"],
                1,
                rows,
            ),
            table(
                "The same for vruntime's 6.12, and pipe-test (published: microseconds a loop of two switches, all told; ours a switch)",
                &["", "published", "knobs: ns", "instructions", "constants: ns", "instructions"],
                1,
                vec![
                    vec!["6.12, lat_ctx".to_owned(), dash(), ns(times[3].median()), instructions(3), ns(times[4].median()), instructions(4)],
                    vec!["2.6.23, pipe-test".to_owned(), published_pipe, ns(times[6].median()), instructions(6), ns(times[7].median()), instructions(7)],
                    vec!["2.6.22, pipe-test".to_owned(), dash(), ns(times[5].median()), instructions(5), dash(), dash()],
                ],
            ),
            table(
                "hackbench 50, seconds (ours: simulated, 2 CPUs, one seed a run)",
                &["", "v2.6.22", "ours", "v2.6.23-cfs", "ours"],
                1,
                hackbench_rows.collect(),
            ),
        ],
        charts: vec![
            Chart {
                title: "lat_ctx: a switch, as a part of 2.6.22's".to_owned(),
                y: "2.6.22 = 1".to_owned(),
                labels: ["2.6.22 (O(1))", "2.6.23, knobs", "2.6.23, constants"].map(str::to_owned).to_vec(),
                series: vec![
                    Series {
                        name: "published, time of the whole switch".to_owned(),
                        published: true,
                        values: SUMMARY_US[0].1.iter().map(|us| Some(us / SUMMARY_US[0].1[0])).collect(),
                    },
                    Series {
                        name: "here, time of the scheduler".to_owned(),
                        published: false,
                        values: (0..3).map(|side| Some(ratio(side, 0))).collect(),
                    },
                    Series {
                        name: "here, instructions".to_owned(),
                        published: false,
                        values: (0..3).map(|side| counted.ratio(side, 0)).collect(),
                    },
                ],
                ..Chart::default()
            },
            Chart {
                title: "hackbench 50".to_owned(),
                y: "seconds".to_owned(),
                labels: ["2.6.22 (O(1))", "2.6.23 (CFS)"].map(str::to_owned).to_vec(),
                series: vec![
                    Series {
                        name: "published".to_owned(),
                        published: true,
                        values: [0, 1].map(|kernel| Some(mean(&MESSAGING_S.map(|run| run[kernel])))).to_vec(),
                    },
                    Series {
                        name: "here, simulated".to_owned(),
                        published: false,
                        values: seconds.iter().map(|seconds| Some(mean(seconds))).collect(),
                    },
                ],
                ..Chart::default()
            },
        ],
        claims: vec![Claim::new(
            "6.12: knobs cost at most 1 % over constants",
            knobs <= 1.0 + KNOBS_MOST,
            more(3, 4),
        )],
        findings: vec![
            format!(
                "Constants against knobs: published {} on average, {} of the least, {} of the greatest; here {}. The knobs are fields of one \
                 structure, read where they are needed; next to what else a switch does, that is little on a machine of today.",
                percent_more(published(0)),
                percent_more(published(1)),
                percent_more(published(2)),
                more(2, 1)
            ),
            format!("CFS with knobs against O(1): published {} time; here {}.", percent_more(SUMMARY_US[0].1[1] / SUMMARY_US[0].1[0]), more(1, 0)),
            format!(
                "hackbench 50, CFS against O(1): published {}; here {} simulated seconds.",
                percent_more(published_hackbench),
                percent_more(ours_hackbench)
            ),
        ],
        method: vec![
            format!(
                "Times: the benchmark is simulated on one CPU (HZ=250), and what its scheduler is asked to do is written down, {CALLS} calls \
                 of wake, schedule and tick. The same calls are made to the scheduler alone; it must decide as it did. The columns take \
                 turns, pinned to one CPU, {} rounds after one to warm up; a row is the mean of {TURNS}. Time is CPU time of that thread.",
                RUNS * TURNS
            ),
            counted.method(),
            "Knobs and constants have the same values, and so decide the same; each is a type that only these measurements use, so that the \
             compiler treats them alike. Features are switches in memory on both sides.".to_owned(),
            "hackbench: the whole machine is simulated, with the default costs, which are those of a machine of today; the document \
             does not say what its machine was."
                .to_owned(),
        ],
    })
}

/// Simulated seconds under O(1) and CFS, a run a seed.
fn hackbench() -> miette::Result<[Vec<f64>; 2]> {
    let workload = model::parse(MESSAGING).map_err(|error| miette::miette!("{error}"))?;
    let mut jobs = Vec::new();
    for kernel in ["2.6.22", "2.6.23"] {
        let kernel = vruntime_sched::kernel(kernel).map_err(|error| miette::miette!("{error}"))?;
        let topology = parse_topology("2").map_err(|error| miette::miette!("{}", error.message))?;
        let config = Config::new(kernel, MachineSpec::new(topology));
        jobs.extend((1..=SEEDS).map(|seed| Config { seed, ..config.clone() }));
    }
    let runs =
        parallel(&jobs, |_, config| simulate(&workload, config, &mut NoSink).map(|outcome| outcome.end as f64 / 1e9));
    let runs = runs.into_iter().collect::<miette::Result<Vec<f64>>>()?;
    let (o1, cfs) = runs.split_at(SEEDS as usize);
    Ok([o1.to_vec(), cfs.to_vec()])
}

/// Runs of hackbench under each kernel: they take long.
const SEEDS: u64 = 2;
