//! `vruntime diff`: the first differences of two traces, and their common events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use imara_diff::Token;
use miette::miette;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use vruntime_report::{DataTable, Kind, counted, fit_text, grid};
use vruntime_trace::read::{Events, Losses};
use vruntime_trace::{Named, TaskState, Tracepoint};

use crate::args::Diff;
use crate::output_paths::OutputPaths;
use crate::trace_file::{ROUND, explain, open};
use crate::{Ended, interrupt, output, tables};

/// The distinct events of both traces, as texts without times. Lanes have their numbers.
#[derive(Debug, Default)]
struct Steps {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Steps {
    fn number(&mut self, text: String) -> miette::Result<u32> {
        if let Some(&number) = self.numbers.get(&text) {
            return Ok(number);
        }
        let help = "compare less: --task, --cpu or --limit";
        let number = u32::try_from(self.texts.len())
            .map_err(|_| miette!(help = help, "the traces have 2^32 different events"))?;
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        Ok(number)
    }

    fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }
}

/// The events of one CPU.
#[derive(Debug, Default)]
struct Lane {
    /// Nanoseconds since the trace's first compared event.
    times: Vec<i64>,
    steps: Vec<u32>,
    /// Events beyond `--limit`.
    not_compared: usize,
}

/// The compared part of a trace.
#[derive(Debug, Default)]
struct Side {
    lanes: BTreeMap<u32, Lane>,
    /// Compared events, and events beyond `--limit`.
    events: usize,
    not_compared: usize,
    /// Unreadable parts of the file, and lost events, in sentences.
    damage: Vec<String>,
}

impl Side {
    /// Whether differences can be in parts that are not compared.
    fn is_incomplete(&self) -> bool {
        self.not_compared > 0 || !self.damage.is_empty()
    }
}

/// Names of tasks. Equal pid and name are the same task in both traces, as in a recording and its replay. Otherwise,
/// tasks of one name are numbered by first appearance, since pids differ between runs. Renames (`exec`) apply from
/// then on.
#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<(i32, Vec<u8>), String>,
    /// The last name of each pid.
    last: BTreeMap<i32, String>,
    /// The number of tasks per name, and all names given.
    counts: BTreeMap<String, u32>,
    given: BTreeSet<String>,
    /// The names in the other trace.
    other: BTreeMap<(i32, Vec<u8>), String>,
}

impl Names {
    fn beside(other: Self) -> Self {
        Self { other: other.known, ..Self::default() }
    }

    fn of(&mut self, task: Named<'_>) -> String {
        if task.pid == 0 {
            return "idle".to_owned();
        }
        // Kernels print this for forgotten names.
        if matches!(task.comm, b"" | b"<...>")
            && let Some(name) = self.last.get(&task.pid)
        {
            return name.clone();
        }
        let Self { known, counts, given, other, last } = self;
        let key = (task.pid, task.comm.to_vec());
        let name = known.entry(key).or_insert_with_key(|key| {
            if let Some(name) = other.get(key)
                && given.insert(name.clone())
            {
                return name.clone();
            }
            let comm = String::from_utf8_lossy(task.comm).into_owned();
            let count = counts.entry(comm.clone()).or_default();
            loop {
                *count += 1;
                let name = if *count == 1 { comm.clone() } else { format!("{comm}#{count}") };
                if given.insert(name.clone()) {
                    return name;
                }
            }
        });
        last.insert(task.pid, name.clone());
        name.clone()
    }
}

pub(crate) fn diff(diff: &Diff) -> miette::Result<Ended> {
    diff.tables.output_paths(OutputPaths::default().reads([&diff.a, &diff.b])).check()?;
    let (mut names, mut steps) = (Names::default(), Steps::default());
    let Some(one) = side(&diff.a, diff, &mut names, &mut steps)? else { return Ok(Ended::Interrupted) };
    has_events(&diff.a, &one, diff, &names)?;
    let mut names = Names::beside(names);
    let Some(other) = side(&diff.b, diff, &mut names, &mut steps)? else { return Ok(Ended::Interrupted) };
    has_events(&diff.b, &other, diff, &names)?;
    let Some(lanes) = compare(&one, &other, steps.texts.len()) else { return Ok(Ended::Interrupted) };
    let damage = [(&diff.a, &one), (&diff.b, &other)]
        .into_iter()
        .flat_map(|(path, side)| side.damage.iter().map(|what| format!("{} is damaged: {what}", path.display())));
    // Prints the result before errors of writing.
    let written =
        tables::write(&diff.tables, "diff", vec![vec![table(&lanes)].into()], &damage.collect::<Vec<String>>());
    if diff.json {
        output::print_json(&json!(lanes.iter().map(|lane| lane.json(&steps, [&one, &other])).collect::<Vec<Value>>()));
    } else {
        output::print(&text(diff, &steps, [&one, &other], &lanes));
    }
    written?;
    Ok(if lanes.iter().any(|lane| lane.first.is_some()) {
        Ended::Detected
    } else if [&one, &other].iter().any(|side| side.is_incomplete()) {
        Ended::NotMet
    } else {
        Ended::Well
    })
}

/// Fails if a trace has no events to compare.
fn has_events(path: &Path, side: &Side, diff: &Diff, names: &Names) -> miette::Result<()> {
    if side.events > 0 {
        return Ok(());
    }
    let path = path.display();
    if let Some(task) = diff.task.iter().find(|&task| !names.given.contains(task)) {
        let near = vruntime_workload::nearest(task, names.given.iter().map(String::as_str));
        let help = near.map_or_else(
            || format!("vruntime trace info {path} lists its tasks"),
            |near| format!("did you mean `{near}`? vruntime trace info {path} lists its tasks"),
        );
        return Err(miette!(help = help, "there is no task `{task}` in {path}"));
    }
    let (help, of) = match diff.cpu {
        Some(cpu) => ("leave --cpu out, or name another", format!(" on CPU {cpu}")),
        None => ("vruntime trace info describes it", String::new()),
    };
    let help = side.damage.iter().cloned().chain([help.to_owned()]).collect::<Vec<String>>().join("\n");
    Err(miette!(help = help, "{path} has no event of the scheduler to compare{of}"))
}

/// Reads the compared events of a trace. `None` after Ctrl-C.
fn side(path: &Path, diff: &Diff, names: &mut Names, steps: &mut Steps) -> miette::Result<Option<Side>> {
    let mut events: Box<dyn Events> = open(path)?;
    let mut side = Side::default();
    let (mut began, mut count, mut losses) = (None, 0_u64, Losses::default());
    let is_compared = |cpu| diff.cpu.is_none_or(|compared| compared == cpu);
    let wanted = |name: &str| diff.task.is_empty() || diff.task.iter().any(|task| task == name);
    while let Some(record) = events.next_record().map_err(|error| explain(path, &error))? {
        count += 1;
        if count.is_multiple_of(ROUND) && interrupt::asked() {
            return Ok(None);
        }
        let (involved, step) = match record.point {
            Tracepoint::Switch { prev, prev_state, next, .. } => {
                let (prev, next) = (names.of(prev), names.of(next));
                // Old kernels and some formats do not distinguish preemption from yielding, nor sleeps of idle kernel
                // threads from others.
                let state = match prev_state {
                    TaskState::Preempted => TaskState::Running,
                    TaskState::Idle => TaskState::Sleeping,
                    state => state,
                };
                let state = state.letters();
                let step = format!("switch {prev} ({state}) -> {next}");
                (vec![prev, next], step)
            }
            Tracepoint::Wakeup(wakeup) | Tracepoint::WakeupNew(wakeup) => {
                let task = names.of(wakeup.task);
                let target = wakeup.target_cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
                (vec![task.clone()], format!("wakeup {task}{target}"))
            }
            Tracepoint::MigrateTask { task, orig_cpu, dest_cpu, .. } => {
                let task = names.of(task);
                (vec![task.clone()], format!("migrate {task} from {orig_cpu} to {dest_cpu}"))
            }
            Tracepoint::Lost { events } => {
                if is_compared(record.cpu) {
                    losses.add(events);
                }
                continue;
            }
            _ => continue,
        };
        if !involved.iter().any(|name| wanted(name)) || !is_compared(record.cpu) {
            continue;
        }
        let began = *began.get_or_insert(record.at);
        let lane = side.lanes.entry(record.cpu).or_default();
        if diff.limit.is_none_or(|limit| lane.steps.len() < limit) {
            lane.times.push(record.at - began);
            lane.steps.push(steps.number(step)?);
            side.events += 1;
        } else {
            lane.not_compared += 1;
            side.not_compared += 1;
        }
    }
    side.damage = events.notes().damage();
    side.damage.extend(losses.sentence());
    Ok((!interrupt::asked()).then_some(side))
}

/// One CPU in both traces.
struct Compared<'a> {
    cpu: u32,
    lanes: [&'a Lane; 2],
    ops: Vec<DiffOp>,
    /// Number of common events.
    alike: usize,
    /// Set if the search was not exhaustive, and more events may be alike.
    lower_bound: bool,
    /// Number of events before the first difference, in each trace.
    first: Option<(usize, usize)>,
    /// Median delay of common events in the second trace, nanoseconds.
    shift_ns: i64,
}

static NOTHING: Lane = Lane { times: Vec::new(), steps: Vec::new(), not_compared: 0 };

/// The most events of a CPU, without a common beginning and end, for an exhaustive search, whose time is quadratic.
const EXHAUSTIVE: usize = 10_000;

/// Returns the operations from `a` to `b`, and whether more events may be alike.
fn operations(a: &[u32], b: &[u32], texts: usize) -> (Vec<DiffOp>, bool) {
    let alike = |(a, b): &(&u32, &u32)| a == b;
    let start = a.iter().zip(b).take_while(alike).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(alike).count();
    let differing = a.len().max(b.len()) - start - end;
    if differing <= EXHAUSTIVE {
        return (capture_diff_slices(Algorithm::Myers, a, b), false);
    }
    let [a_tokens, b_tokens] = [a, b].map(|steps| steps.iter().copied().map(Token).collect::<Vec<Token>>());
    let mut found = imara_diff::Diff::default();
    found.compute_with(imara_diff::Algorithm::Myers, &a_tokens, &b_tokens, u32::try_from(texts).unwrap_or(u32::MAX));
    let (mut ops, mut old, mut new) = (Vec::new(), 0, 0);
    let equal = |old: usize, new: usize, to: usize| {
        (to > old).then(|| DiffOp::Equal { old_index: old, new_index: new, len: to - old })
    };
    for hunk in found.hunks() {
        let [before, after] = [hunk.before, hunk.after].map(|range| range.start as usize..range.end as usize);
        ops.extend(equal(old, new, before.start));
        (old, new) = (before.end, after.end);
        let (old_index, new_index, old_len, new_len) = (before.start, after.start, before.len(), after.len());
        ops.push(match (old_len, new_len) {
            (_, 0) => DiffOp::Delete { old_index, old_len, new_index },
            (0, _) => DiffOp::Insert { old_index, new_index, new_len },
            _ => DiffOp::Replace { old_index, old_len, new_index, new_len },
        });
    }
    ops.extend(equal(old, new, a.len()));
    (ops, true)
}

/// Compares all CPUs. `None` after Ctrl-C.
fn compare<'a>(one: &'a Side, other: &'a Side, texts: usize) -> Option<Vec<Compared<'a>>> {
    let mut cpus: Vec<u32> = one.lanes.keys().chain(other.lanes.keys()).copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.into_iter()
        .map(|cpu| {
            let lanes = [one, other].map(|side| side.lanes.get(&cpu).unwrap_or(&NOTHING));
            let [a, b] = lanes;
            let (ops, lower_bound) = operations(&a.steps, &b.steps, texts);
            let mut shifts = Vec::new();
            for op in &ops {
                if let DiffOp::Equal { old_index, new_index, len } = *op {
                    shifts.extend((0..len).map(|step| b.times[new_index + step] - a.times[old_index + step]));
                }
            }
            shifts.sort_unstable();
            let first = ops.iter().find(|op| !matches!(op, DiffOp::Equal { .. }));
            let first = first.map(|op| (op.old_range().start, op.new_range().start));
            let shift_ns = shifts.get(shifts.len() / 2).copied().unwrap_or(0);
            let alike = shifts.len();
            (!interrupt::asked()).then_some(Compared { cpu, lanes, ops, alike, lower_bound, first, shift_ns })
        })
        .collect()
}

impl Compared<'_> {
    /// Returns the time of the first difference, nanoseconds: the earlier of its two events.
    fn parts_at(&self) -> Option<i64> {
        let (a, b) = self.first?;
        let at = |lane: usize, index: usize| self.lanes[lane].times.get(index).copied();
        [at(0, a), at(1, b)].into_iter().flatten().min()
    }

    fn share(&self) -> f64 {
        100.0 * self.alike as f64 / self.longer().max(1) as f64
    }

    fn longer(&self) -> usize {
        self.lanes.iter().map(|lane| lane.steps.len()).max().unwrap_or(0)
    }

    /// Returns the share in per mille, rounded down: 100 % means that all events are alike.
    fn per_mille(&self) -> usize {
        self.alike.saturating_mul(1000) / self.longer().max(1)
    }

    fn json(&self, steps: &Steps, sides: [&Side; 2]) -> Value {
        let event = |lane: usize, index: usize| {
            let &step = self.lanes[lane].steps.get(index)?;
            Some(json!({ "at_ns": self.lanes[lane].times[index], "event": steps.text(step) }))
        };
        json!({
            "cpu": self.cpu,
            "events": self.lanes.map(|lane| lane.steps.len()),
            "not_compared": self.lanes.map(|lane| lane.not_compared),
            "alike": self.alike,
            "alike_is_lower_bound": self.lower_bound,
            "shift_ns": self.shift_ns,
            "damage": sides.map(|side| &side.damage),
            "first_divergence": self.first.map(|(a, b)| json!({ "after": a, "a": event(0, a), "b": event(1, b) })),
        })
    }
}

fn table(lanes: &[Compared<'_>]) -> DataTable {
    let columns = [
        ("cpu", "CPU", Kind::Count),
        ("events_a", "Events A", Kind::Count),
        ("events_b", "Events B", Kind::Count),
        ("alike", "Alike", Kind::Count),
        ("share_alike", "Alike", Kind::Share),
        ("until_event", "Until event", Kind::Count),
        ("parts_at_ns", "At", Kind::Nanoseconds),
        ("shift_ns", "B later", Kind::Nanoseconds),
        ("not_compared_a", "Not compared A", Kind::Count),
        ("not_compared_b", "Not compared B", Kind::Count),
        ("alike_is_lower_bound", "Alike is a lower bound", Kind::Count),
    ];
    let mut table = DataTable::new("diff", "Common events of two traces, by CPU", &columns);
    for lane in lanes {
        table.push(vec![
            lane.cpu.into(),
            lane.lanes[0].steps.len().into(),
            lane.lanes[1].steps.len().into(),
            lane.alike.into(),
            (lane.share() / 100.0).into(),
            lane.first.map(|(after, _)| after).into(),
            lane.parts_at().into(),
            lane.shift_ns.into(),
            lane.lanes[0].not_compared.into(),
            lane.lanes[1].not_compared.into(),
            usize::from(lane.lower_bound).into(),
        ]);
    }
    table
}

fn milliseconds(ns: i64) -> String {
    format!("{:.6}", ns as f64 / 1e6)
}

fn text(diff: &Diff, steps: &Steps, sides: [&Side; 2], lanes: &[Compared<'_>]) -> String {
    let [ours, theirs] = sides.map(|side| {
        let events = counted(side.events as u64, "event", "events");
        if side.not_compared == 0 { events } else { format!("{events} compared, {} not (--limit)", side.not_compared) }
    });
    let mut text = format!("A {}: {ours}\nB {}: {theirs}\n", diff.a.display(), diff.b.display());
    for (name, side) in ["A", "B"].iter().zip(sides) {
        for what in &side.damage {
            let _ = writeln!(text, "{}", fit_text(&format!("{name} is damaged: {what}"), ""));
        }
    }
    text.push('\n');
    let rows = lanes.iter().map(|lane| {
        vec![
            lane.cpu.to_string(),
            lane.lanes[0].steps.len().to_string(),
            lane.lanes[1].steps.len().to_string(),
            lane.alike.to_string(),
            format!("{}.{}", lane.per_mille() / 10, lane.per_mille() % 10),
            lane.first.map_or_else(|| "-".to_owned(), |(after, _)| after.to_string()),
            lane.parts_at().map_or_else(|| "never".to_owned(), milliseconds),
            milliseconds(lane.shift_ns),
        ]
    });
    let head = ["CPU", "events A", "events B", "alike", "% alike", "until event", "ms", "B later, ms"];
    text.push_str(&grid(&head, 1, rows));
    let bounds = lanes.iter().filter(|lane| lane.lower_bound).map(|lane| lane.cpu.to_string()).collect::<Vec<_>>();
    if !bounds.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n`alike` is a lower bound on CPU {}: more than {EXHAUSTIVE} events lie between the first difference and the last.",
            bounds.join(", ")
        );
    }
    let Some(earliest) = lanes.iter().filter(|lane| lane.first.is_some()).min_by_key(|lane| lane.parts_at()) else {
        let [a, b] = sides.map(|side| side.not_compared);
        if sides.iter().any(|side| !side.damage.is_empty()) {
            text.push_str("\nThe compared events do not differ. The damage may hide differences.\n");
        }
        if a + b == 0 && sides.iter().all(|side| side.damage.is_empty()) {
            text.push_str("\nThe same events in the same order on every CPU.\n");
        } else if a + b > 0 {
            let _ = writeln!(
                text,
                "\nThe compared events do not differ. Not compared because of --limit: {} of A, {} of B.",
                counted(a as u64, "event", "events"),
                counted(b as u64, "event", "events")
            );
        }
        return text;
    };
    let _ = writeln!(text, "\nThey differ on CPU {} (ms since the beginning of each trace):\n", earliest.cpu);
    hunks(&mut text, earliest, steps, diff);
    text
}

/// Prints the first differences, each with its context and a bounded number of events.
fn hunks(text: &mut String, lane: &Compared<'_>, steps: &Steps, diff: &Diff) {
    let groups = similar::group_diff_ops(lane.ops.clone(), diff.context);
    for (number, group) in groups.iter().take(diff.hunks).enumerate() {
        if number > 0 {
            text.push_str("  ...\n");
        }
        hunk(text, lane, steps, group, diff.lines);
    }
    if groups.len() > diff.hunks {
        let more = counted((groups.len() - diff.hunks) as u64, "more place", "more places");
        let _ = writeln!(text, "  ... and {more} on this CPU (--hunks)");
    }
}

/// Prints one difference: of a long one, the beginning in each trace.
fn hunk(text: &mut String, lane: &Compared<'_>, steps: &Steps, group: &[DiffOp], most: usize) {
    let (mut left, mut hidden) = (most, 0);
    // Writes up to `room` events, and returns their number.
    let mut lines = |text: &mut String, sign: char, side: usize, range: Range<usize>, room: usize| {
        let shown = room.min(range.len());
        let of = lane.lanes[side];
        for index in range.clone().take(shown) {
            let _ = writeln!(text, "{sign} {:>14}  {}", milliseconds(of.times[index]), steps.text(of.steps[index]));
        }
        if 0 < shown && shown < range.len() {
            let _ = writeln!(text, "{sign} {:>14}", "...");
        }
        hidden += range.len() - shown;
        shown
    };
    for op in group {
        if let DiffOp::Equal { old_index, len, .. } = *op {
            left -= lines(text, ' ', 0, old_index..old_index + len, left);
        } else {
            let (old, new) = (op.old_range(), op.new_range());
            // If both are too long, each has half.
            let of_old = old.len().min(left.saturating_sub(new.len().min(left / 2)));
            left -= lines(text, 'A', 0, old, of_old);
            left -= lines(text, 'B', 1, new, left);
        }
    }
    if hidden > 0 {
        let more = counted(hidden as u64, "more event", "more events");
        let _ = writeln!(text, "  ... and {more} here (--lines)");
    }
}
