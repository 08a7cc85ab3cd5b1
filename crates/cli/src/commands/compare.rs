//! `vruntime compare`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use miette::miette;
use vruntime_replay::fit;
use vruntime_replay::recorded::rules::Rules;
use vruntime_report::{Comparison, Variant, fit_text, printable_json};
use vruntime_workload::program::Workload;

use super::compared_trace::{Checked, ComparedTrace, compared_trace, match_classes, match_groups, snapshots};
use super::file_names::file_names;
use super::replay_input::note_left_out;
use super::saved::{self, Saved};
use super::{
    RESULT_FILES, finished, folder_name, html, of_seeds, print_notes, ran_json, runs_json, stopped_early, write_file,
    write_results,
};
use crate::args::{Compare, Model, Options, setting};
use crate::input::{Input, InputKind};
use crate::output_paths::OutputPaths;
use crate::plan::{Plan, host_words, kernels_of, machine_words, note_large_limits, plan};
use crate::simulate::{Done, Job};
use crate::tables::Part;
use crate::trace_file::cgroups;
use crate::vary::{self, Point};
use crate::{Ended, error_place, input, interrupt, leftovers, output, policies, rules, simulate, tables};

struct Side<'a> {
    input: &'a Input,
    /// Index of its file among the workloads of the command line.
    file_index: usize,
    /// Index of its trace among the traces; None for a workload.
    trace: Option<usize>,
    path: &'a Path,
    /// The file's name, with as much of its path as distinguishes it.
    file: String,
    /// The input's workload; a trace's is fitted to the machine.
    workload: Cow<'a, Workload>,
    plan: Plan,
    /// For a trace: the names that other files have for its groups.
    groups: BTreeMap<String, String>,
    /// Whether it is the changed side beside an unchanged one, by the rules of `--map`. Without rules: by features and
    /// settings of the command line. False for sides of `--vary`.
    what_if: bool,
    /// Changes to the file and the kernel, in words.
    changes: Vec<String>,
    label: String,
}

pub(crate) fn compare(compare: &Compare) -> miette::Result<Ended> {
    let options = &compare.options;
    let outputs = OutputPaths::default().folder("--out", options.out.as_deref(), &["comparison.json"]);
    compare.reports.output_paths(outputs.reads(read_files(compare))).check()?;
    let (mut runnable, mut saved) = saved::taken(compare)?;
    if runnable.part.is_some() {
        runnable.options.seeds.repeat = 1;
    }
    let compare = &runnable;
    let options = &compare.options;
    let rules = rules::read(&compare.map)?;
    vary::check(compare)?;
    let points = vary::points(&compare.vary)?;
    let mut all_rules = vec![rules.clone()];
    if !points.is_empty() {
        all_rules = points.iter().map(|point| rules_of(point, compare)).collect::<miette::Result<_>>()?;
    }
    let Some((inputs, traces)) = read(compare, &all_rules)? else { return Ok(Ended::Interrupted) };
    let what_ifs = what_ifs(&inputs, &traces, &all_rules, compare)?;
    let mut sides = sides(&inputs, &what_ifs, &rules, &points, compare, saved.len())?;
    for side in &mut sides {
        let seed = &mut side.plan.config.seed;
        *seed = seed.wrapping_add(compare.part.unwrap_or(0).into());
    }
    number(&sides, &mut saved);
    check_folders(&sides, compare)?;
    for input in &inputs {
        let duration = options.duration.or(input.workload.duration);
        input::suspect(duration.map_or_else(Vec::new, |end| error_place::too_late(input, end)), options.strict)?;
    }
    let mut runs = run(&sides, &traces, &rules, compare)?;
    let replays = runs.split_off(sides.len() * usize::from(options.seeds.repeat));
    let checks = replays.into_iter().zip(&traces).map(|(run, trace)| trace.check(&run)).collect();
    for (side, runs) in sides.iter().zip(runs.chunks_mut(usize::from(options.seeds.repeat))) {
        if matches!(side.input.kind, InputKind::Trace(..)) {
            side.match_results(runs);
        }
    }
    let ran = sides.iter().zip(runs.chunks(usize::from(options.seeds.repeat))).map(|(side, runs)| Ran { side, runs });
    let compared = Compared::new(ran.collect(), &saved, checks)?;
    let json = if compare.part.is_some() { compared.part() } else { compared.json() };
    print_notes(&runs);
    let write_all = || {
        let written = options.out.as_ref().map_or(Ok(()), |out| compared.write_out(out, &json));
        simulate::all_written(&runs).and(written).and(compared.write_reports(compare))
    };
    let print = || if options.json { output::print_json(&json) } else { output::print(&compared.text(compare)) };
    // Prints the comparison before errors of writing.
    interrupt::write_and_print(write_all, print)?;
    Ok(if compared.interrupted() { Ended::Interrupted } else { Ended::Well })
}

fn read_files(compare: &Compare) -> impl Iterator<Item = &PathBuf> {
    compare.files.iter().chain(&compare.cgroups)
}

/// Checks that all outputs can be written, including the folders of the sides.
fn check_folders(sides: &[Side<'_>], compare: &Compare) -> miette::Result<()> {
    let prefixes: Vec<String> = sides.iter().map(|side| format!("{}-", folder_name(&side.label))).collect();
    let mut outputs = compare.reports.output_paths(OutputPaths::default().reads(read_files(compare)));
    outputs = outputs.tables(&compare.reports.tables, &prefixes);
    outputs = outputs.folder("--out", compare.options.out.as_deref(), &["comparison.json"]);
    for folder in sides.iter().filter_map(|side| side.folder(compare)) {
        outputs = outputs.folder("--out", Some(&folder), &RESULT_FILES);
    }
    outputs.check()
}

/// Runs every side with each seed, and then the replay of each trace as recorded.
fn run(sides: &[Side<'_>], traces: &[ComparedTrace], rules: &Rules, compare: &Compare) -> miette::Result<Vec<Done>> {
    let seeds = compare.options.seeds;
    let of_sides = sides.iter().flat_map(|side| {
        let numbered = seeds.from(side.plan.config.seed).enumerate();
        numbered.map(|(index, seed)| side.job(index == 0, seed, compare))
    });
    let jobs: Vec<Job<'_>> = of_sides.chain(traces.iter().map(ComparedTrace::job)).collect();
    let repeat = usize::from(seeds.repeat);
    let runs = simulate::all_by_seed(&jobs, sides.len(), repeat).into_iter().enumerate();
    let runs = runs.map(|(job, run)| {
        run.map_err(|failure| match sides.get(job / repeat) {
            Some(side) if side.what_if => match traces.get(side.trace.unwrap_or(usize::MAX)) {
                Some(trace) => trace.report(failure, &side.workload, rules),
                None => rules::report(rules, side.input, failure),
            },
            Some(side) => error_place::report(side.input, failure),
            None => failure.into(),
        })
    });
    runs.collect()
}

impl Side<'_> {
    /// Returns the side's folder below `--out`.
    fn folder(&self, compare: &Compare) -> Option<PathBuf> {
        Some(compare.options.out.as_ref()?.join(folder_name(&self.label)))
    }

    /// Returns the job that runs the side with a seed. The first run has traces and charts.
    fn job(&self, is_first: bool, seed: u64, compare: &Compare) -> Job<'_> {
        let config = vruntime_sim::Config { seed, ..self.plan.config.clone() };
        Job {
            analyse: (is_first && compare.reports.html.is_some()).then(|| match self.input.kind {
                InputKind::Trace(..) => html::watch_replayed(),
                _ => html::watch(None),
            }),
            overview: is_first,
            target: compare.options.model.target,
            unsettled: !matches!(self.input.kind, InputKind::Trace(..)),
            traces: self.folder(compare).filter(|_| is_first),
            ..Job::new(&self.workload, config, &self.plan.kernel)
        }
    }

    /// Renames a trace's groups as other files name them, and removes loops, which recordings do not show.
    fn match_results(&self, runs: &mut [Done]) {
        for run in &mut *runs {
            run.results.forget_loops();
            for group in &mut run.results.groups {
                if let Some(name) = self.groups.get(&group.path) {
                    group.path.clone_from(name);
                }
            }
        }
    }
}

struct Ran<'a> {
    side: &'a Side<'a>,
    runs: &'a [Done],
}

impl<'a> Ran<'a> {
    fn finished(&self) -> usize {
        finished(self.runs)
    }

    /// Returns the complete runs. If no side has one (`unfinished`), returns the run that got furthest.
    fn counted(&self, unfinished: bool) -> impl Iterator<Item = &'a Done> + use<'a> {
        // `max_by_key` returns the last of several: in reverse order, this is the first run.
        let furthest = self.runs.iter().rev().max_by_key(|run| run.outcome.end).filter(|_| unfinished);
        self.runs.iter().filter(|run| !run.outcome.interrupted).chain(furthest)
    }

    fn json(&self) -> serde_json::Value {
        let Self { side, runs } = self;
        ran_json(&side.label, side.path, &side.input.name, &side.plan, &side.changes, runs)
    }

    /// Describes the side and its runs.
    fn description(&self) -> String {
        let Self { side: Side { input, file, plan, changes, label, .. }, runs } = self;
        let ended = self.finished();
        let seconds = self.counted(ended == 0).next().map_or(0, |run| run.outcome.end) as f64 / 1e9;
        let default = if plan.machine_by_default { ", the default" } else { "" };
        let stopped = match ended {
            _ if ended == runs.len() => String::new(),
            0 if runs.len() == 1 => ", stopped early".to_owned(),
            _ => format!(", {ended} of {} seeds: stopped early", runs.len()),
        };
        let embedded = if input.example.is_some() { " (embedded example)" } else { "" };
        let with = if changes.is_empty() { String::new() } else { format!(", with {}", changes.join("; ")) };
        format!(
            "{label}: {}{embedded} under {} on {}{default}, preempt {}, {seconds} s simulated{stopped}{with}",
            file,
            policies::words(&plan.kernel),
            machine_words(plan),
            plan.config.effective_preempt().name()
        )
    }
}

/// Applies `of_side` to each side and `of_saved` to each saved result. Returns the values in the order of the files.
fn columns<'a, T>(
    ran: &[Ran<'a>],
    saved: &[Saved],
    of_side: impl Fn(&Ran<'a>) -> T,
    of_saved: impl Fn(&Saved) -> T,
) -> Vec<T> {
    let mut columns = Vec::new();
    let mut saved = saved.iter().peekable();
    for ran in ran {
        while let Some(saved) = saved.next_if(|saved| saved.after <= ran.side.file_index) {
            columns.push(of_saved(saved));
        }
        columns.push(of_side(ran));
    }
    columns.extend(saved.map(of_saved));
    columns
}

/// All sides beside each other.
struct Compared<'a> {
    ran: Vec<Ran<'a>>,
    saved: &'a [Saved],
    /// Whether Ctrl-C stopped the command before the first run was complete. The parts of runs are not compared.
    unfinished: bool,
    comparison: Comparison,
    checks: Vec<Checked<'a>>,
}

impl<'a> Compared<'a> {
    fn new(ran: Vec<Ran<'a>>, saved: &'a [Saved], checks: Vec<Checked<'a>>) -> miette::Result<Self> {
        let unfinished = saved.is_empty() && ran.iter().all(|ran| ran.finished() == 0);
        let of_side = |ran: &Ran<'a>| Variant {
            label: ran.side.label.clone(),
            runs: ran.counted(unfinished).map(|run| run.results.clone()).collect(),
        };
        let comparison = Comparison::new(columns(&ran, saved, of_side, Saved::variant))
            .ok_or_else(|| miette!("nothing was run that could be compared"))?;
        let comparison = if unfinished { comparison.unfinished() } else { comparison };
        Ok(Self { ran, saved, unfinished, comparison, checks })
    }

    fn runs(&self) -> impl Iterator<Item = &'a Done> {
        self.ran.iter().flat_map(|ran| ran.runs)
    }

    fn interrupted(&self) -> bool {
        self.runs().any(|run| run.outcome.interrupted)
    }

    /// Returns each side's label and its first run that counts.
    fn firsts(&self) -> Vec<(String, &'a Done)> {
        let first = |ran: &Ran<'a>| Some((ran.side.label.clone(), ran.counted(self.unfinished).next()?));
        self.ran.iter().filter_map(first).collect()
    }

    fn json(&self) -> serde_json::Value {
        let mut json = self.comparison.json();
        if let serde_json::Value::Object(fields) = &mut json {
            fields.insert("runs".to_owned(), columns(&self.ran, self.saved, Ran::json, Saved::json).into());
            if !self.checks.is_empty() {
                fields.insert("replays".to_owned(), self.checks.iter().map(Checked::json).collect());
            }
            if self.interrupted() {
                fields.insert("interrupted".to_owned(), true.into());
            }
        }
        json
    }

    /// As [`Self::json`], with the results of each run in `whole`. Results of several parts are compared as saved ones.
    fn part(&self) -> serde_json::Value {
        let mut json = self.json();
        let runs = json.get_mut("runs").and_then(serde_json::Value::as_array_mut).into_iter().flatten();
        for (entry, Ran { side, runs }) in runs.zip(&self.ran) {
            let mut all = runs_json(&side.input.name, &side.plan, &side.changes, runs);
            entry["whole"] = all["observed"].take();
        }
        json
    }

    /// Writes the files of `--out`, except the traces, which the runs wrote.
    fn write_out(&self, out: &Path, json: &serde_json::Value) -> miette::Result<()> {
        for Ran { side, runs } in &self.ran {
            let folder = out.join(folder_name(&side.label));
            write_results(&folder, &side.input.name, &side.plan, &side.changes, runs)?;
        }
        write_file(out, "comparison.json", &printable_json(&format!("{json:#}\n")))?;
        let of_side = |ran: &Ran<'_>| RESULT_FILES.map(|file| format!("{}/{file}", folder_name(&ran.side.label)));
        let written = self.ran.iter().flat_map(of_side).chain(["comparison.json".to_owned()]).collect();
        leftovers::replace_out(out, "compare", &written)
    }

    fn write_reports(&self, compare: &Compare) -> miette::Result<()> {
        if let Some(path) = &compare.reports.html {
            let lead = columns(&self.ran, self.saved, Ran::description, Saved::description);
            let mut page = html::compare_page(&lead.join("; "), &self.comparison, &self.firsts(), &self.checks);
            if !compare.vary.is_empty() {
                self.comparison.bars().into_iter().for_each(|bars| page.bars(bars));
            }
            html::write(&page, path)?;
        }
        if compare.reports.tables.folder.is_none() {
            return Ok(());
        }
        let of_side = |(label, done): &(String, &Done)| Part {
            prefix: format!("{}-", folder_name(label)),
            tables: done.results.tables(),
        };
        let firsts = self.firsts();
        let parts = std::iter::once(vec![self.comparison.data_table()].into()).chain(firsts.iter().map(of_side));
        let of_run = |(label, done): &(String, &Done)| {
            done.outcome.notes.iter().map(|note| format!("{label}: {note}")).collect::<Vec<String>>()
        };
        let stopped = self.ran.iter().flat_map(|ran| {
            ran.runs.iter().filter_map(stopped_early).map(|stopped| format!("{}: {stopped}", ran.side.label))
        });
        let notes = stopped.chain(self.checks.iter().flat_map(Checked::damage)).chain(firsts.iter().flat_map(of_run));
        tables::write(&compare.reports.tables, "compare", parts.collect(), &notes.collect::<Vec<String>>())
    }

    fn text(&self, compare: &Compare) -> String {
        let Self { ran, saved, comparison, checks, .. } = self;
        let options = &compare.options;
        let descriptions = columns(ran, saved, Ran::description, Saved::description);
        let mut lines: Vec<String> = descriptions.iter().map(|text| fit_text(text, "")).collect();
        if ran.is_empty() {
            lines.push("mean of the saved runs, ± half the spread, ~ change within the spread".to_owned());
        } else if options.seeds.repeat > 1 {
            let seeds = of_seeds(self.runs(), options.seeds.repeat);
            lines.push(format!("{seeds}, ± half the spread, ~ change within the spread"));
        } else {
            lines.push("1 seed: a change can be chance; --repeat 5, the default, shows the spread".to_owned());
        }
        let table = match (compare.vary.is_empty(), compare.all) {
            (false, all) => comparison.values_table(all),
            (true, true) => comparison.whole_table(),
            (true, false) => comparison.table(),
        };
        for check in checks {
            lines.extend([String::new(), fit_text(&check.summary(), "")]);
        }
        lines.extend([String::new(), comparison.sentence(), String::new(), table]);
        if !checks.is_empty() {
            lines.push("how well each task of a trace is reproduced: vruntime replay FILE --as-recorded\n".to_owned());
        }
        if let (Some(out), Some(first)) = (&options.out, ran.first()) {
            let (out, first) = (out.display(), folder_name(&first.side.label));
            let line = format!(
                "results and traces are in {out}; open {out}/{first}/trace.perfetto-trace on https://ui.perfetto.dev"
            );
            lines.push(format!("{}\n", fit_text(&line, "")));
        }
        lines.join("\n")
    }
}

/// Reads the workloads and traces. `None`: Ctrl-C stopped the reading of a trace.
fn read(compare: &Compare, rules: &[Rules]) -> miette::Result<Option<(Vec<Input>, Vec<ComparedTrace>)>> {
    let Options { duration, strict, model, .. } = &compare.options;
    let cgroups = compare.cgroups.iter().map(|file| cgroups(file)).collect::<miette::Result<Vec<_>>>()?;
    let of_traces = compare.files.iter().filter(|file| !input::is_workload(file)).count();
    let mut snapshots = snapshots(&cgroups, of_traces)?.into_iter();
    let (mut inputs, mut traces) = (Vec::new(), Vec::new());
    for file in &compare.files {
        if input::is_workload(file) {
            inputs.push(input::read(file, *duration, *strict)?);
        } else {
            let snapshot = snapshots.next().flatten();
            let recorded_kernel = compare.recorded_kernel.as_deref();
            let read = compared_trace(file, recorded_kernel, snapshot, model, rules)?;
            let Some((input, trace)) = read else { return Ok(None) };
            inputs.push(input);
            traces.push(trace);
        }
    }
    match_classes(&mut inputs, &mut traces);
    Ok(Some((inputs, traces)))
}

/// Applies each set of rules to each file: those of `--map`, or of each combination of `--vary`. `None` for an empty
/// set.
fn what_ifs<'a>(
    inputs: &[Input],
    traces: &'a [ComparedTrace],
    rules: &[Rules],
    compare: &Compare,
) -> miette::Result<Vec<Vec<Option<Cow<'a, Workload>>>>> {
    let of_file = |((input, file), trace): ((&Input, &PathBuf), Option<usize>)| {
        if let Some(trace) = trace.and_then(|trace| traces.get(trace)) {
            return Ok(trace.what_ifs().iter().map(|what_if| what_if.as_ref().map(Cow::Borrowed)).collect());
        }
        let applied = |rules: &Rules| (!rules.is_empty()).then(|| rules::applied(rules, input, file)).transpose();
        rules.iter().map(|rules| Ok(applied(rules)?.map(Cow::Owned))).collect()
    };
    inputs.iter().zip(&compare.files).zip(trace_indices(inputs)).map(of_file).collect()
}

/// Returns each input's index among the traces.
fn trace_indices(inputs: &[Input]) -> impl Iterator<Item = Option<usize>> {
    let mut traces = 0..;
    inputs.iter().map(move |input| matches!(input.kind, InputKind::Trace(..)).then(|| traces.next()).flatten())
}

/// Returns the rules of `--map`, then those of the combination.
fn rules_of(point: &Point, compare: &Compare) -> miette::Result<Rules> {
    rules::read(&[&compare.map[..], &point.rules].concat())
}

/// Returns the kernels of a file's sides: those of the command line, else the file's, else the default.
fn kernels(compare: &Compare, input: &Input) -> Vec<Option<String>> {
    let given = if compare.kernel.is_empty() { kernels_of(input) } else { compare.kernel.clone() };
    if given.is_empty() { vec![None] } else { given.into_iter().map(Some).collect() }
}

/// Returns the machines of a file's sides: those of the command line, else the default.
fn machines(compare: &Compare) -> Vec<Option<String>> {
    if compare.machine.is_empty() { vec![None] } else { compare.machine.iter().cloned().map(Some).collect() }
}

/// Returns each kernel with each machine.
fn products(kernels: &[Option<String>], machines: &[Option<String>]) -> Vec<[Option<String>; 2]> {
    let of_kernel =
        |kernel: &Option<String>| machines.iter().map(|machine| [kernel.clone(), machine.clone()]).collect::<Vec<_>>();
    kernels.iter().flat_map(of_kernel).collect()
}

/// Returns every combination of `--vary` with the kernels and machines that it does not choose. The number is the index
/// of the combination's what-if.
fn combinations(points: &[Point], compare: &Compare, input: &Input) -> Vec<(usize, Point)> {
    let varies = |of: fn(&Point) -> bool| points.iter().any(of);
    let kernels = if varies(|point| point.kernel.is_some()) { vec![None] } else { kernels(compare, input) };
    let machines = if varies(|point| point.machine.is_some()) { vec![None] } else { machines(compare) };
    let products = products(&kernels, &machines);
    let [many_kernels, many_machines] = [kernels.len() > 1, machines.len() > 1];
    let combined = products.into_iter().flat_map(|[kernel, machine]| {
        points.iter().enumerate().map(move |(index, point)| {
            let named = [kernel.as_ref().filter(|_| many_kernels), machine.as_ref().filter(|_| many_machines)];
            let parts = named.into_iter().flatten().chain([&point.label]).map(String::as_str);
            let label = parts.collect::<Vec<&str>>().join(", ");
            let [kernel, machine] =
                [point.kernel.clone().or(kernel.clone()), point.machine.clone().or(machine.clone())];
            (index, Point { label, kernel, machine, ..point.clone() })
        })
    });
    combined.collect()
}

/// Returns the sides of `--vary`: each file with every combination of values.
fn varied<'a>(
    inputs: &'a [Input],
    what_ifs: &'a [Vec<Option<Cow<'a, Workload>>>],
    points: &[Point],
    compare: &'a Compare,
    saved: usize,
) -> miette::Result<Vec<Side<'a>>> {
    let mut sides = Vec::new();
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let files = file_names(&names, &compare.files);
    for (file_index, ((((input, path), file), workloads), trace)) in
        inputs.iter().zip(&compare.files).zip(files).zip(what_ifs).zip(trace_indices(inputs)).enumerate()
    {
        for (index, point) in &combinations(points, compare, input) {
            let workload = workloads.get(*index).and_then(Option::as_deref);
            let mut model = compare.options.model.clone();
            (model.preempt, model.hz) = (point.preempt.or(model.preempt), point.hz.or(model.hz));
            model.feature.extend(point.features.iter().cloned());
            for text in &point.set {
                model.set.push(setting(text).map_err(|why| miette!("--vary {text}: {why}"))?);
            }
            let mut plan = plan(input, point.kernel.as_deref(), point.machine.as_deref(), &model)?;
            plan.config.duration = compare.options.duration;
            plan.config.strict = compare.options.strict;
            plan.config.end_if_refused = compare.options.strict;
            let rules = rules_of(point, compare)?;
            rules.check_cpus(plan.config.machine.topology.nr_cpus())?;
            let mut workload = Cow::Borrowed(workload.unwrap_or(&input.workload));
            if matches!(input.kind, InputKind::Trace(..)) {
                note_left_out(&fit(workload.to_mut(), &plan.config), &plan.config);
            }
            sides.push(Side {
                input,
                file_index,
                trace,
                path,
                file: file.clone(),
                workload,
                plan,
                groups: match_groups(input, inputs),
                what_if: false,
                changes: rules::changes(&rules, &model),
                label: if compare.files.len() + saved > 1 {
                    format!("{file}, {}", point.label)
                } else {
                    point.label.clone()
                },
            });
        }
    }
    distinguish(&mut sides);
    Ok(sides)
}

/// Returns every combination of files, kernels and machines, each file unchanged and with each of `what_ifs`. All are
/// compared with the first. `saved` is the number of columns from saved results.
fn sides<'a>(
    inputs: &'a [Input],
    what_ifs: &'a [Vec<Option<Cow<'a, Workload>>>],
    rules: &Rules,
    points: &[Point],
    compare: &'a Compare,
    saved: usize,
) -> miette::Result<Vec<Side<'a>>> {
    if !points.is_empty() {
        return varied(inputs, what_ifs, points, compare, saved);
    }
    let mut sides = Vec::new();
    let of_kernel = rules::changes(&Rules::default(), &compare.options.model);
    let of_what_if = rules::changes(rules, &compare.options.model);
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let paths = compare.files.iter().map(PathBuf::as_path);
    let files = file_names(&names, &compare.files);
    for (file_index, ((((input, path), file), what_if), trace)) in
        inputs.iter().zip(paths).zip(files).zip(what_ifs).zip(trace_indices(inputs)).enumerate()
    {
        for [kernel, machine] in products(&kernels(compare, input), &machines(compare)) {
            let mut plan = plan(input, kernel.as_deref(), machine.as_deref(), &compare.options.model)?;
            plan.config.duration = compare.options.duration;
            plan.config.strict = compare.options.strict;
            plan.config.end_if_refused = compare.options.strict;
            let side = |workload, what_if: bool| Side {
                input,
                file_index,
                trace,
                path,
                file: file.clone(),
                workload,
                plan: plan.clone(),
                groups: match_groups(input, inputs),
                what_if,
                changes: if what_if { of_what_if.clone() } else { of_kernel.clone() },
                label: String::new(),
            };
            let mut workload = Cow::Borrowed(&input.workload);
            if matches!(input.kind, InputKind::Trace(..)) {
                note_left_out(&fit(workload.to_mut(), &plan.config), &plan.config);
            }
            sides.push(side(workload, false));
            if let Some(workload) = what_if.first().and_then(Option::as_deref) {
                let cpus = plan.config.machine.topology.nr_cpus();
                rules.check_cpus(cpus)?;
                note_large_limits(workload, cpus);
                let mut workload = Cow::Borrowed(workload);
                if trace.is_some() {
                    fit(workload.to_mut(), &plan.config);
                }
                sides.push(side(workload, true));
            }
        }
    }
    if let [only] = &mut sides[..]
        && !of_kernel.is_empty()
    {
        // The only side becomes the changed one: compare it with one without the features and settings.
        let model = Model { feature: Vec::new(), set: Vec::new(), ..compare.options.model.clone() };
        let kernel = compare.kernel.first().cloned().or_else(|| kernels_of(only.input).into_iter().next());
        let mut plan = plan(only.input, kernel.as_deref(), compare.machine.first().map(String::as_str), &model)?;
        plan.config.duration = compare.options.duration;
        plan.config.strict = compare.options.strict;
        plan.config.end_if_refused = compare.options.strict;
        only.what_if = true;
        let unchanged = Side {
            input: only.input,
            file_index: only.file_index,
            trace: only.trace,
            path: only.path,
            file: only.file.clone(),
            workload: only.workload.clone(),
            plan,
            groups: only.groups.clone(),
            what_if: false,
            changes: Vec::new(),
            label: String::new(),
        };
        sides.insert(0, unchanged);
    }
    if sides.len() + saved < 2 {
        let help = "give two kernels (--kernel 6.1 --kernel 6.12), two machines (--machine 4 --machine 8), \
                    two files (workloads, traces or results.json of `run --out`), a feature or setting \
                    (--feature NO_RUN_TO_PARITY), or a what-if (--map 'cgroup=/app: weight=200')";
        return Err(miette!(help = help, "there is nothing to compare with"));
    }
    label(&mut sides, compare, saved);
    Ok(sides)
}

/// Labels each side by what distinguishes it from the others.
fn label(sides: &mut [Side<'_>], compare: &Compare, saved: usize) {
    if sides.is_empty() {
        return;
    }
    let differs = |of: &dyn Fn(&Side<'_>) -> String| {
        let first = of(&sides[0]);
        sides.iter().any(|side| of(side) != first)
    };
    let files = saved > 0 || compare.files.len() > 1 && differs(&|side| side.file.clone());
    let kernels = differs(&|side| side.plan.kernel.clone());
    let machines = differs(&|side| side.plan.machine.clone());
    let host = |side: &Side<'_>| host_words(&side.plan.config.machine).unwrap_or_else(|| "no host".to_owned());
    // Different names of files already distinguish hosts.
    let hosts = !differs(&|side| side.input.name.clone()) && differs(&host);
    let what_ifs = differs(&|side| side.what_if.to_string());
    for (index, side) in sides.iter_mut().enumerate() {
        let mut parts = Vec::new();
        if files {
            parts.push(side.file.clone());
        }
        if kernels {
            parts.push(side.plan.kernel.clone());
        }
        if machines {
            parts.push(machine_label(&side.plan.machine));
        }
        if hosts {
            parts.push(host(side));
        }
        if what_ifs {
            parts.push(match (side.what_if, compare.map.is_empty()) {
                (true, true) => side.changes.join(", "),
                (false, true) => "default".to_owned(),
                (true, false) => "the what-if".to_owned(),
                (false, false) => "the file".to_owned(),
            });
        }
        side.label = if parts.is_empty() { format!("#{}", index + 1) } else { parts.join(", ") };
    }
    distinguish(sides);
}

/// Returns a machine as given. A plain number is a number of CPUs.
fn machine_label(machine: &str) -> String {
    machine.parse().map_or_else(|_| machine.to_owned(), |cpus| vruntime_report::counted(cpus, "CPU", "CPUs"))
}

/// Numbers labels with equal folder names, as of a kernel that is given twice.
fn distinguish(sides: &mut [Side<'_>]) {
    for index in 1..sides.len() {
        if sides[..index].iter().any(|earlier| folder_name(&earlier.label) == folder_name(&sides[index].label)) {
            sides[index].label = format!("{} #{}", sides[index].label, index + 1);
        }
    }
}

/// Numbers columns of saved results whose label another column has.
fn number(sides: &[Side<'_>], saved: &mut [Saved]) {
    for index in 0..saved.len() {
        let (earlier, others) = saved.split_at_mut(index);
        let label = &mut others[0].label;
        let mut labels = sides.iter().map(|side| &side.label).chain(earlier.iter().map(|saved| &saved.label));
        if labels.any(|other| other == label) {
            *label = format!("{label} #{}", sides.len() + index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn labels_become_harmless_folder_names() {
        assert_eq!(folder_name("6.12, pack:2 core:4"), "6.12__pack_2_core_4");
        assert_eq!(folder_name("../../etc"), "_.._etc");
        assert_eq!(folder_name(".."), "");
    }
}
