//! `vruntime compare`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use miette::miette;
use vruntime_report::{Comparison, Variant, fit_text, printable};
use vruntime_workload::program::Workload;
use vruntime_workload::recorded::rules::Rules;

use super::replay::cgroups;
use super::traced::{
    Checked, Traced, fit, match_classes, match_groups, semaphores, snapshots, traced, without_semaphores,
};
use super::{LEFT, finished, html, leave, leave_results, ran_json, tell_notes};
use crate::args::{Compare, Options};
use crate::input::{Input, Says};
use crate::places::Places;
use crate::plan::{Plan, host_words, kernels_of, machine_words, plan, tell_large_limits};
use crate::simulate::{Done, Job};
use crate::{Ended, input, located, output, rules, simulate, tables};

struct Side<'a> {
    input: &'a Input,
    path: &'a Path,
    /// What tells its file from the others: its name, or more of its path.
    file: String,
    /// The input's, fitted to the machine if it is a trace's.
    workload: Cow<'a, Workload>,
    plan: Plan,
    /// What to call groups of a trace that other files have, too.
    groups: BTreeMap<String, String>,
    /// Whether it is what the rules of `--map` make of the file.
    what_if: bool,
    /// What is not as the file and the kernel have it.
    changes: Vec<String>,
    label: String,
}

pub(crate) fn compare(compare: &Compare) -> miette::Result<Ended> {
    let options = &compare.options;
    let places = Places::default().folder("--out", options.out.as_deref(), &["comparison.json"]);
    let read_files = || compare.files.iter().chain(&compare.cgroups);
    compare.reports.places(places.reads(read_files())).check()?;
    let rules = rules::read(&compare.map)?;
    if let Some(trace) = compare.files.iter().find(|file| !rules.is_empty() && !input::is_workload(file)) {
        let help = format!("vruntime replay {} --map RULE does that with a trace", trace.display());
        return Err(miette!(help = help, "--map changes what is in a file, and {} is a trace", trace.display()));
    }
    let Some((inputs, traces)) = read(compare)? else { return Ok(Ended::Interrupted) };
    let what_ifs = what_ifs(&inputs, &rules, compare)?;
    let sides = sides(&inputs, &what_ifs, &rules, compare)?;
    let folders = sides.iter().filter_map(|side| Some(options.out.as_ref()?.join(folder_name(&side.label))));
    folders
        .fold(Places::default().reads(read_files()), |places, folder| places.folder("--out", Some(&folder), &LEFT))
        .check()?;
    for input in &inputs {
        let ends = options.duration.or(input.workload.duration);
        input::suspect(ends.map_or_else(Vec::new, |end| located::too_late(input, end)), options.strict)?;
    }
    let mut jobs = Vec::new();
    for side in &sides {
        for index in 0..options.repeat {
            let seed = side.plan.config.seed.wrapping_add(u64::from(index));
            jobs.push(Job {
                detect: false,
                analyse: (index == 0 && compare.reports.html.is_some()).then(|| match side.input.says {
                    Says::Trace(_) => html::watch_replayed(),
                    _ => html::watch(None),
                }),
                overview: index == 0,
                workload: &side.workload,
                config: vruntime_sim::Config { seed, ..side.plan.config.clone() },
                traces: options.out.as_ref().filter(|_| index == 0).map(|out| out.join(folder_name(&side.label))),
                rtapp_log: None,
                kernel: side.plan.kernel.clone(),
                identities: None,
            });
        }
    }
    let compared = jobs.len();
    jobs.extend(traces.iter().map(Traced::job));
    let runs = simulate::all(&jobs).into_iter().enumerate();
    let runs = runs.map(|(job, run)| {
        run.map_err(|failure| match sides.get(job / usize::from(options.repeat)) {
            Some(side) if side.what_if => rules::report(&rules, side.input, failure),
            Some(side) => located::report(side.input, failure),
            None => failure.into(),
        })
    });
    let mut runs = runs.collect::<miette::Result<Vec<Done>>>()?;
    let checks = runs.split_off(compared).into_iter().zip(&traces).map(|(run, trace)| trace.check(run));
    let checks: Vec<Checked<'_>> = checks.collect();
    for (side, runs) in sides.iter().zip(runs.chunks_mut(usize::from(options.repeat))) {
        if matches!(side.input.says, Says::Trace(_)) {
            // A recording does not say where a loop begins: those of its program are the replay's own.
            for run in &mut *runs {
                run.results.forget_loops();
                for group in &mut run.results.groups {
                    if let Some(name) = side.groups.get(&group.path) {
                        group.path.clone_from(name);
                    }
                }
            }
            without_semaphores(runs, &semaphores(&side.workload));
        }
    }
    let of_side: Vec<&[Done]> = runs.chunks(usize::from(options.repeat)).collect();
    // After Ctrl-C, what has come to its end is compared; if nothing has, there are the parts of runs, and nothing is said of them.
    let unfinished = of_side.iter().all(|runs| finished(runs) == 0);
    let variants = sides.iter().zip(&of_side).map(|(side, runs)| Variant {
        label: side.label.clone(),
        runs: counted(runs, unfinished).map(|run| run.results.clone()).collect(),
    });
    let comparison =
        Comparison::new(variants.collect()).ok_or_else(|| miette!("nothing was run that could be compared"))?;
    let comparison = if unfinished { comparison.unfinished() } else { comparison };
    let mut json = comparison.json();
    let interrupted = runs.iter().any(|run| run.outcome.interrupted);
    if let serde_json::Value::Object(fields) = &mut json {
        let ran = sides.iter().zip(&of_side).map(|(side, runs)| {
            let mut json = ran_json(&side.label, side.path, &side.input.name, &side.plan, &side.changes, runs);
            if let serde_json::Value::Object(fields) = &mut json {
                fields.insert("finished".to_owned(), finished(runs).into());
            }
            json
        });
        fields.insert("runs".to_owned(), ran.collect());
        if !checks.is_empty() {
            fields.insert("replays".to_owned(), checks.iter().map(Checked::json).collect());
        }
        if interrupted {
            fields.insert("interrupted".to_owned(), true.into());
        }
    }
    if let Some(out) = &options.out {
        for (side, runs) in sides.iter().zip(&of_side) {
            leave_results(&out.join(folder_name(&side.label)), &side.input.name, &side.plan, &side.changes, runs)?;
        }
        leave(out, "comparison.json", &format!("{json:#}\n"))?;
    }
    tell_notes(&runs);
    let firsts = || {
        let sides = sides.iter().zip(&of_side);
        sides.filter_map(|(side, runs)| Some((side.label.clone(), counted(runs, unfinished).next()?)))
    };
    if let Some(path) = &compare.reports.html {
        let lead: Vec<String> = sides.iter().zip(&of_side).map(|(side, runs)| what(side, runs)).collect();
        let page = html::compare_page(&lead.join("; "), &comparison, &firsts().collect::<Vec<_>>(), &checks);
        html::write(&page, path)?;
    }
    if let Some(folder) = &compare.reports.tables.folder {
        tables::write(folder, compare.reports.tables.format, "", &[comparison.data_table()])?;
        for (label, done) in firsts() {
            let prefix = format!("{}-", folder_name(&label));
            tables::write(folder, compare.reports.tables.format, &prefix, &done.results.tables())?;
        }
    }
    if options.json {
        output::print_json(&json);
    } else {
        output::print(&report(&sides, &of_side, &checks, &comparison, compare));
    }
    Ok(if interrupted { Ended::Interrupted } else { Ended::Well })
}

/// The runs of one side that count: those that came to their end, or, where Ctrl-C left none on any side, the one that got furthest.
fn counted(runs: &[Done], unfinished: bool) -> impl Iterator<Item = &Done> {
    let furthest = furthest(runs).filter(|_| unfinished);
    runs.iter().filter(|run| !run.outcome.interrupted).chain(furthest)
}

/// The first of those that got furthest.
fn furthest(runs: &[Done]) -> Option<&Done> {
    runs.iter().rev().max_by_key(|run| run.outcome.end)
}

/// Workloads, and traces of some; none: Ctrl-C came before the end of one.
fn read(compare: &Compare) -> miette::Result<Option<(Vec<Input>, Vec<Traced>)>> {
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
            let Some((input, trace)) = traced(file, compare.recorded_kernel.as_deref(), snapshot, model)? else {
                return Ok(None);
            };
            inputs.push(input);
            traces.push(trace);
        }
    }
    match_classes(&mut inputs);
    Ok(Some((inputs, traces)))
}

/// What the rules of `--map` make of each file; nothing if there are none.
fn what_ifs(inputs: &[Input], rules: &Rules, compare: &Compare) -> miette::Result<Vec<Option<Workload>>> {
    let files = inputs.iter().zip(&compare.files);
    files.map(|(input, file)| (!rules.is_empty()).then(|| rules::applied(rules, input, file)).transpose()).collect()
}

/// Every combination of files, kernels and machines, each file as it is and as `what_ifs` has it; the first is what the others are compared
/// with.
fn sides<'a>(
    inputs: &'a [Input],
    what_ifs: &'a [Option<Workload>],
    rules: &Rules,
    compare: &'a Compare,
) -> miette::Result<Vec<Side<'a>>> {
    let mut sides = Vec::new();
    let of_kernel = rules::changes(&Rules::default(), &compare.options.model);
    let of_what_if = rules::changes(rules, &compare.options.model);
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let paths = compare.files.iter().map(PathBuf::as_path);
    for (((input, path), file), what_if) in
        inputs.iter().zip(paths).zip(file_names(&names, &compare.files)).zip(what_ifs)
    {
        let mut kernels: Vec<Option<String>> = compare.kernel.iter().cloned().map(Some).collect();
        if kernels.is_empty() {
            kernels = kernels_of(input).into_iter().map(Some).collect();
        }
        if kernels.is_empty() {
            kernels.push(None);
        }
        let mut machines: Vec<Option<&str>> = compare.machine.iter().map(|machine| Some(machine.as_str())).collect();
        if machines.is_empty() {
            machines.push(None);
        }
        for (kernel, machine) in
            kernels.iter().flat_map(|kernel| machines.iter().map(move |machine| (kernel, *machine)))
        {
            let mut plan = plan(input, kernel.as_deref(), machine, &compare.options.model)?;
            plan.config.duration = compare.options.duration;
            plan.config.strict = compare.options.strict;
            let side = |workload, what_if: bool| Side {
                input,
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
            if matches!(input.says, Says::Trace(_)) {
                fit(workload.to_mut(), &plan.config);
            }
            sides.push(side(workload, false));
            if let Some(workload) = what_if {
                let cpus = plan.config.machine.topology.nr_cpus();
                rules.check_cpus(cpus)?;
                tell_large_limits(workload, cpus);
                sides.push(side(Cow::Borrowed(workload), true));
            }
        }
    }
    if sides.len() < 2 {
        let help = "give two kernels (--kernel 6.1 --kernel 6.12), two machines (--machine 4 --machine 8), \
                    two files, or a what-if (--map 'cgroup=/app: weight=200')";
        return Err(miette!(help = help, "there is nothing to compare with"));
    }
    label(&mut sides, compare);
    Ok(sides)
}

/// Labels tell what differs and nothing else.
fn label(sides: &mut [Side<'_>], compare: &Compare) {
    let differs = |of: &dyn Fn(&Side<'_>) -> String| {
        let first = of(&sides[0]);
        sides.iter().any(|side| of(side) != first)
    };
    let files = compare.files.len() > 1 && differs(&|side| side.file.clone());
    let kernels = differs(&|side| side.plan.kernel.clone());
    let machines = differs(&|side| side.plan.machine.clone());
    let host = |side: &Side<'_>| host_words(&side.plan.config.machine).unwrap_or_else(|| "no host".to_owned());
    // The files' names tell apart what they say of hosts, unless they are the same.
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
            parts.push(side.plan.machine.clone());
        }
        if hosts {
            parts.push(host(side));
        }
        if what_ifs {
            parts.push(if side.what_if { "the what-if" } else { "the file" }.to_owned());
        }
        side.label = if parts.is_empty() { format!("#{}", index + 1) } else { parts.join(", ") };
    }
    // One file or one kernel given twice, or two that make one name of a folder: numbered, so that no folder overwrites
    // another.
    for index in 1..sides.len() {
        if sides[..index].iter().any(|earlier| folder_name(&earlier.label) == folder_name(&sides[index].label)) {
            sides[index].label = format!("{} #{}", sides[index].label, index + 1);
        }
    }
}

/// What to call files: by their names, and those that have one name by as much of their paths as tells them apart.
fn file_names(names: &[&str], paths: &[PathBuf]) -> Vec<String> {
    // From behind: the name, and the folders it is in.
    let folders: Vec<Vec<String>> = paths
        .iter()
        .map(|path| {
            let folders = path.parent().into_iter().flat_map(Path::components).rev();
            folders.map(|folder| printable(&folder.as_os_str().to_string_lossy())).collect()
        })
        .collect();
    let of_depth = |index: usize, depth: usize| {
        let mut parts: Vec<&str> = folders[index].iter().take(depth).map(String::as_str).collect();
        parts.reverse();
        parts.push(names[index]);
        parts.join("/").replace("//", "/")
    };
    let name = |index: usize| {
        let same = || (0..names.len()).filter(|&other| names[other] == names[index] && paths[other] != paths[index]);
        let most = folders.iter().map(Vec::len).max().unwrap_or(0);
        let depth = (0..=most).find(|&depth| same().all(|other| of_depth(other, depth) != of_depth(index, depth)));
        // In one folder: their endings, or what they call themselves, is all they differ by.
        depth.map_or_else(|| printable(&paths[index].display().to_string()), |depth| of_depth(index, depth))
    };
    (0..names.len()).map(name).collect()
}

/// A label as the name of a folder.
fn folder_name(label: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-+=".contains(c) { c } else { '_' };
    label.chars().map(safe).collect::<String>().trim_start_matches('.').to_owned()
}

fn report(
    sides: &[Side<'_>],
    runs: &[&[Done]],
    checks: &[Checked<'_>],
    comparison: &Comparison,
    compare: &Compare,
) -> String {
    let options = &compare.options;
    let mut lines: Vec<String> = sides.iter().zip(runs).map(|(side, runs)| fit_text(&what(side, runs), "")).collect();
    if options.repeat > 1 {
        let interrupted = |run: &Done| run.outcome.interrupted;
        let seeds = if runs.iter().all(|runs| runs.iter().all(interrupted)) {
            "the seed that got furthest".to_owned()
        } else if runs.iter().any(|runs| runs.iter().any(interrupted)) {
            "mean of the seeds that came to their end".to_owned()
        } else {
            format!("mean of {} seeds", options.repeat)
        };
        lines.push(format!("{seeds}, ± half the spread, ~ change within the spread"));
    }
    let table = if compare.all { comparison.whole_table() } else { comparison.table() };
    for check in checks {
        lines.extend([String::new(), fit_text(&check.summary(), "")]);
    }
    lines.extend([String::new(), comparison.sentence(), String::new(), table]);
    if !checks.is_empty() {
        lines.push("how well each task of a trace is reproduced: vruntime replay FILE --as-recorded\n".to_owned());
    }
    if let Some(out) = &options.out {
        let (out, first) = (out.display(), folder_name(&sides[0].label));
        let told = format!(
            "results and traces are in {out}; open {out}/{first}/trace.perfetto-trace on https://ui.perfetto.dev"
        );
        lines.push(format!("{}\n", fit_text(&told, "")));
    }
    lines.join("\n")
}

/// What was run on one side.
fn what(side: &Side<'_>, runs: &[Done]) -> String {
    let Side { file, plan, changes, label, .. } = side;
    let ended = finished(runs);
    let seconds = counted(runs, ended == 0).next().map_or(0, |run| run.outcome.end) as f64 / 1e9;
    let default = if plan.machine_by_default { ", the default" } else { "" };
    let stopped = match ended {
        _ if ended == runs.len() => String::new(),
        0 if runs.len() == 1 => ", stopped early".to_owned(),
        _ => format!(", {ended} of {} seeds: stopped early", runs.len()),
    };
    let with = if changes.is_empty() { String::new() } else { format!(", with {}", changes.join("; ")) };
    format!(
        "{label}: {} under Linux {} on {}{default}, {seconds} s simulated{stopped}{with}",
        file,
        plan.kernel,
        machine_words(plan)
    )
}

#[cfg(test)]
mod tests {
    use super::{PathBuf, file_names, folder_name};

    #[test]
    fn files_of_one_name_are_told_apart_by_their_folders() {
        let named = |files: &[(&str, &str)]| {
            let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            file_names(&names, &files.iter().map(|(_, path)| PathBuf::from(path)).collect::<Vec<_>>())
        };
        assert_eq!(named(&[("a", "x/a.toml"), ("b", "y/b.toml")]), ["a", "b"]);
        assert_eq!(named(&[("app", "before/app.toml"), ("app", "after/app.toml")]), ["before/app", "after/app"]);
        assert_eq!(named(&[("s", "s.toml"), ("s", "d/s.toml"), ("t", "d/t.toml")]), ["s", "d/s", "t"]);
        assert_eq!(named(&[("s", "/1/x/s.toml"), ("s", "/2/x/s.toml")]), ["1/x/s", "2/x/s"]);
        assert_eq!(named(&[("s", "/s.toml"), ("s", "d/s.toml")]), ["/s", "d/s"]);
        assert_eq!(named(&[("s", "d/s.toml"), ("s", "d/s.json")]), ["d/s.toml", "d/s.json"]);
        assert_eq!(named(&[("s", "d/s.toml"), ("s", "d/s.toml")]), ["s", "s"], "one file, twice");
        assert_eq!(named(&[]), Vec::<String>::new());
    }

    #[test]
    fn labels_become_harmless_folder_names() {
        assert_eq!(folder_name("6.12, pack:2 core:4"), "6.12__pack_2_core_4");
        assert_eq!(folder_name("../../etc"), "_.._etc");
        assert_eq!(folder_name(".."), "");
    }
}
