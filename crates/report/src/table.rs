//! Tables that fit a terminal. In a file or pipe, a row is one line.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle, Width,
};
use vruntime_trace::SchedPolicy;

use crate::frequency::CpuFrequency;
use crate::latency::Latency;
use crate::printable::printable;
use crate::results::{Account, IdleWaits, Results};
use crate::units::{count, percent, three, time};

/// The most columns of a table, unless changed by [`set_width`].
pub const WIDTH: u16 = 100;

/// The width of tables, or [`ENDLESS`].
static TABLE_WIDTH: AtomicU16 = AtomicU16::new(WIDTH);
const ENDLESS: u16 = u16::MAX;

/// Sets the columns of all tables. None: a row is one line, for programs.
pub fn set_width(columns: Option<u16>) {
    TABLE_WIDTH.store(columns.unwrap_or(ENDLESS), Ordering::Relaxed);
}

/// The most rows of a printed table. JSON has all.
const ROWS: usize = 40;

/// Returns all rows in order, or the [`ROWS`] with the highest `rank`.
fn first<T, K: Ord>(rows: impl IntoIterator<Item = T>, rank: impl Fn(&T) -> K) -> Vec<T> {
    let mut rows: Vec<T> = rows.into_iter().collect();
    if rows.len() > ROWS {
        rows.sort_by_key(|row| Reverse(rank(row)));
        rows.truncate(ROWS);
    }
    rows
}

/// Words up to this length, and names of several words, are never broken, for copying.
const UNBROKEN: usize = 64;
/// The shortest piece of a longer word.
const PIECE: usize = 32;

/// A rule under the head, blanks between columns, no frame.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─'))
    .content_lines(ContentLineStyle::none());

/// Returns a table within [`set_width`]. All columns but the first `left` are right-aligned.
pub fn grid(head: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    grid_of(TABLE_WIDTH.load(Ordering::Relaxed), head, left, rows)
}

/// Breaks a paragraph into lines within [`set_width`] and [`WIDTH`]. Words, which may be paths, are not broken. Lines
/// begin with `indent`, after the first also with two blanks unless it is empty. Without a limit, it is one line.
pub fn fit_text(text: &str, indent: &str) -> String {
    match TABLE_WIDTH.load(Ordering::Relaxed) {
        ENDLESS => format!("{indent}{text}"),
        width => wrap_at(width.min(WIDTH), text, indent),
    }
}

/// Breaks a paragraph at [`WIDTH`] even without a limit.
pub(crate) fn wrap(text: &str) -> String {
    wrap_at(TABLE_WIDTH.load(Ordering::Relaxed).min(WIDTH), text, "")
}

fn wrap_at(width: u16, text: &str, indent: &str) -> String {
    let others = if indent.is_empty() { String::new() } else { format!("{indent}  ") };
    let options = textwrap::Options::new(usize::from(width))
        .initial_indent(indent)
        .subsequent_indent(&others)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::fill(text, options)
}

/// Whether [`grid`] has room for these cells in single lines.
pub(crate) fn has_room(head: &[&str], rows: &[Vec<String>]) -> bool {
    has_room_in(TABLE_WIDTH.load(Ordering::Relaxed), head, rows)
}

pub(crate) fn has_room_in(width: u16, head: &[&str], rows: &[Vec<String>]) -> bool {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    width == ENDLESS || total_width(&headed(head, &rows), 1) <= usize::from(width)
}

/// Returns the columns' widths with whole cells, and two-line heads where that helps.
fn headed(head: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let cells = longest(&vec![""; head.len()], rows, |_, _| false, usize::MAX);
    let heads = longest(head, &[], breaks, UNBROKEN);
    cells.into_iter().zip(heads).map(|(cell, head)| cell.max(head)).collect()
}

/// Whether a cell may be broken.
fn breaks(column: usize, cell: &str) -> bool {
    column > 0 || cell.chars().count() > UNBROKEN
}

fn total_width(widths: &[usize], gap: usize) -> usize {
    widths.iter().map(|width| width + gap).sum::<usize>().saturating_sub(gap)
}

fn grid_of(width: u16, head: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    if width == ENDLESS {
        table.set_content_arrangement(ContentArrangement::Disabled);
    } else {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.set_header(head);
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    // Bounds on fitting cells would make columns uneven.
    let whole = longest(head, &rows, |_, _| false, usize::MAX);
    let (headed, broken) = (headed(head, &rows), longest(head, &rows, breaks, UNBROKEN));
    let room = usize::from(width);
    // By preference: distant columns, near columns, broken cells, a table beyond the terminal's edge.
    let ways = [(&whole, 2), (&whole, 1), (&headed, 2), (&headed, 1), (&broken, 2), (&broken, 1)];
    let fits = |(widths, gap): (&Vec<usize>, usize)| width == ENDLESS || total_width(widths, gap) <= room;
    let way = ways.iter().position(|&way| fits(way)).unwrap_or(ways.len() - 1);
    let (widths, gap) = ways[way];
    // The rule extends a column beyond the last cell, if possible.
    let last_padding = u16::from(width == ENDLESS || total_width(widths, gap) < room);
    table.add_rows(rows);
    let last = head.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        let left_padding = if index > 0 { gap as u16 - 1 } else { 0 };
        let right_padding = if index < last { 1 } else { last_padding };
        column.set_padding((left_padding, right_padding));
        if index >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if way >= 2 {
            let least = widths[index] as u16 + left_padding + right_padding;
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns each column's longest cell, or its longest word if it `breaks`, or a [`PIECE`] if beyond `most`.
fn longest(head: &[&str], rows: &[Vec<String>], breaks: impl Fn(usize, &str) -> bool, most: usize) -> Vec<usize> {
    let mut widths = vec![0; head.len()];
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        for (index, (width, cell)) in widths.iter_mut().zip(row).enumerate() {
            let may = breaks(index, cell);
            let parts = cell.split(|c: char| may && c == ' ').map(|part| part.chars().count());
            let parts = parts.map(|part| if part > most { PIECE } else { part });
            *width = parts.fold(*width, usize::max);
        }
    }
    widths
}

/// Returns the tables of a run: classes of tasks, groups, limits, CPUs.
pub fn results_table(results: &Results) -> String {
    let mut text = classes(results);
    text.push_str(&responses(results));
    if results.tasks.iter().any(|task| (task.policy, task.nice) != (SchedPolicy::Normal, 0)) {
        text.push('\n');
        text.push_str(&policies(results));
    }
    if results.account.deadline.is_some() {
        text.push('\n');
        text.push_str(&deadlines(results));
    }
    if results.groups.len() > 1 {
        text.push('\n');
        text.push_str(&groups(results));
    }
    if results.groups.iter().any(|group| group.limit.is_some()) {
        text.push('\n');
        text.push_str(&limits(results));
    }
    let sentences = results.group_sentences();
    if !sentences.is_empty() {
        text.push('\n');
        for sentence in sentences {
            text.extend([&fit_text(&sentence, ""), "\n"]);
        }
    }
    if results.groups.iter().skip(1).any(|group| group.nr_rt_throttled > 0) {
        text.push('\n');
        text.push_str(&rt_limits(results));
    }
    text.push('\n');
    text.push_str(&cpus(results));
    text.push('\n');
    if !results.frequencies.is_empty() {
        text.push_str(&frequencies(results));
        text.push('\n');
    }
    if let Some(ns) = results.overutilized_ns {
        let share = percent(ns as f64 / results.elapsed_ns.max(1) as f64);
        let line = format!("energy: wakeups ignored the energy model for {share} % of the time (overutilized)\n");
        text.push_str(&line);
    }
    if let Some(visits) = results.h_load {
        let [updates, groups, idle] = [visits.updates, visits.groups, visits.idle].map(|value| count(value as f64));
        let times = if visits.updates == 1 { "once".to_owned() } else { format!("{updates} times") };
        let of = if visits.groups == 1 { "group" } else { "groups" };
        let line = format!("weights of groups: computed {times}, visiting {groups} {of} ({idle} idle)");
        text.extend([&fit_text(&line, ""), "\n\n"]);
    }
    text.push_str(&averages(results));
    if results.account.idle_waits.count > 0 {
        text.push('\n');
        text.push_str(&idle_waits(results));
    }
    text
}

/// As [`results_table`], for real kernels, without CPUs and entitlements.
pub fn measured_table(results: &Results) -> String {
    let mut text = classes(results);
    text.push_str(&responses(results));
    if results.tasks.iter().any(|task| (task.policy, task.nice) != (SchedPolicy::Normal, 0)) {
        text.push('\n');
        text.push_str(&policies(results));
    }
    if results.groups.len() > 1 {
        let rows = first(&results.groups, |group| group.cpu_ns).into_iter().map(|group| {
            vec![
                group.path.clone(),
                group.weight.to_string(),
                count(group.tasks as f64),
                percent(results.share(group.cpu_ns)),
                known(group.unmeasured.waits, percent(results.share(group.run_delay_ns))),
                count(results.per_second(group.switches)),
            ]
        });
        text.push('\n');
        text.push_str(&grid(&["group", "weight", "tasks", "CPU %", "wait %", "switch/s"], 1, rows));
        more(&mut text, results.groups.len(), "group", "groups", "most CPU time");
    }
    if results.groups.iter().any(|group| group.limit.is_some()) {
        text.push('\n');
        text.push_str(&limits(results));
    }
    text
}

fn idle_waits(results: &Results) -> String {
    let Some(conservation) = &results.conservation else { return String::new() };
    let row = |name: String, waits: &IdleWaits| {
        vec![name, count(waits.count as f64), time(waits.total_ns as f64), time(waits.worst_ns as f64)]
    };
    let affected = results.classes.iter().filter(|class| class.account.idle_waits.count > 0);
    let total = affected.clone().count();
    let mut rows: Vec<Vec<String>> = first(affected, |class| class.account.idle_waits.total_ns)
        .into_iter()
        .map(|class| row(name_of(&class.name, class.tasks), &class.account.idle_waits))
        .collect();
    if total > 1 {
        rows.push(row(of_all(results), &results.account.idle_waits));
    }
    let (least, most) = (time(conservation.least_interval_ns as f64), time(conservation.most_interval_ns as f64));
    let interval = if least == most { least } else { format!("{least} to {most}") };
    let title =
        format!("Waits of more than a balance interval ({interval}) although an idle CPU could have run the task:");
    let mut text = format!("{}\n", fit_text(&title, ""));
    text.push_str(&grid(&["tasks", "waits", "beyond the interval", "worst"], 1, rows));
    more(&mut text, total, "class of tasks", "classes of tasks", "the longest such waits in all");
    if let Some(worst) = conservation.worst {
        let name = results.tasks.get(worst.task).map_or_else(|| "?".to_owned(), |task| printable(&task.name));
        let [since, at] = [worst.since, worst.at].map(|ns| ns as f64 / 1e9);
        let line = format!("worst: {name} waited on CPU {} from {since:.6} s to {at:.6} s\n", worst.cpu);
        text.push_str(&line);
    }
    text
}

/// Returns a name for the row of all tasks that no class has.
fn of_all(results: &Results) -> String {
    let is_taken = |name: &String| results.classes.iter().any(|class| name_of(&class.name, class.tasks) == *name);
    let names = ["all", "all tasks"].map(str::to_owned).into_iter();
    let numbered = (2..).map(|number: usize| format!("all tasks ({number})"));
    names.chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// Returns a class with the number of its tasks.
pub(crate) fn name_of(class: &str, tasks: usize) -> String {
    let class = printable(class);
    if tasks == 1 { class } else { format!("{class} x{tasks}") }
}

fn known(unmeasured: bool, figure: String) -> String {
    if unmeasured { "-".to_owned() } else { figure }
}

fn latency(latency: Option<Latency>, pick: fn(Latency) -> u64) -> String {
    latency.map_or_else(|| "-".to_owned(), |latency| time(pick(latency) as f64))
}

fn classes(results: &Results) -> String {
    let row = |name: String, tasks: usize, account: &Account, wakeup: Option<Latency>, loops: Option<Latency>| {
        vec![
            name,
            percent(results.share(account.cpu_ns)),
            known(account.unmeasured.waits, percent(results.share(account.run_delay_ns))),
            latency(wakeup, |latency| latency.p50_ns),
            latency(wakeup, |latency| latency.p99_ns),
            latency(wakeup, |latency| latency.max_ns),
            count(results.per_second(account.switches()) / tasks.max(1) as f64),
            known(account.unmeasured.migrations, count(account.migrations as f64)),
            count(account.loops as f64),
            latency(loops, |latency| latency.p50_ns),
        ]
    };
    let mut rows: Vec<Vec<String>> = first(&results.classes, |class| class.account.cpu_ns)
        .into_iter()
        .map(|class| {
            row(name_of(&class.name, class.tasks), class.tasks, &class.account, class.late(), class.loop_duration)
        })
        .collect();
    if results.classes.len() > 1 {
        // Lateness differs in kind between classes.
        rows.push(row(of_all(results), results.tasks.len(), &results.account, None, None));
    }
    let head =
        ["tasks", "CPU %", "wait %", "lateness p50", "p99", "max", "switch/s", "migrations", "loops", "loop p50"];
    let mut text = grid(&head, 1, rows);
    more(&mut text, results.classes.len(), "class of tasks", "classes of tasks", "most CPU time");
    text
}

/// Returns response times. Empty if not measured.
fn responses(results: &Results) -> String {
    let known = || results.classes.iter().filter_map(|class| Some((class, class.response?)));
    let rows = first(known(), |(_, response)| response.times.max_ns).into_iter().map(|(class, response)| {
        let times = response.times;
        let mut row = vec![name_of(&class.name, class.tasks), count(times.count as f64)];
        row.extend([times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns].map(|ns| time(ns as f64)));
        row.extend(results.target_ns.map(|_| percent(response.above())));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let above = results.target_ns.map(|target| format!("above {} %", time(target as f64)));
    let mut head = vec!["tasks", "rounds", "response p50", "p90", "p99", "max"];
    head.extend(above.as_deref());
    let mut text = format!("\n{}", grid(&head, 1, rows));
    more(&mut text, known().count(), "class of tasks", "classes of tasks", "the longest response");
    text
}

/// Returns final policies and priorities, a row for each kind in a class.
fn policies(results: &Results) -> String {
    let mut kinds: BTreeMap<(usize, i16, &'static str, i8, u8), usize> = BTreeMap::new();
    for task in &results.tasks {
        let rt_priority = if task.policy.is_rt() { task.rt_priority } else { 0 };
        *kinds.entry((task.class, task.prio(), task.policy.name(), task.nice, rt_priority)).or_default() += 1;
    }
    let rows = first(&kinds, |(kind, _)| results.classes[kind.0].account.cpu_ns);
    let rows = rows.into_iter().map(|(&(class, prio, policy, nice, rt_priority), &tasks)| {
        let rt_priority = if rt_priority == 0 { "-".to_owned() } else { rt_priority.to_string() };
        let name = name_of(&results.classes[class].name, tasks);
        vec![name, policy.to_owned(), prio.to_string(), rt_priority, nice.to_string()]
    });
    let mut text = grid(&["tasks", "policy", "prio", "rt priority", "nice"], 2, rows);
    more(&mut text, kinds.len(), "kind of tasks", "kinds of tasks", "most CPU time of their class");
    text
}

fn deadlines(results: &Results) -> String {
    let dated = || results.classes.iter().filter_map(|class| Some((class, class.account.deadline?)));
    // A rarely used column.
    let has_overruns = dated().any(|(_, deadline)| deadline.overruns > 0);
    let rows = first(dated(), |(_, deadline)| (deadline.misses, deadline.max_late_ns));
    let rows = rows.into_iter().map(|(class, deadline)| {
        let late = if deadline.misses == 0 { "-".to_owned() } else { time(deadline.max_late_ns as f64) };
        let [throttled, misses, overruns] =
            [deadline.throttled, deadline.misses, deadline.overruns].map(|times| count(times as f64));
        let mut row = vec![name_of(&class.name, class.tasks), throttled, misses, late];
        row.extend(has_overruns.then_some(overruns));
        row
    });
    let head = ["deadline tasks", "throttled", "missed", "latest", "overruns"];
    let mut text = grid(&head[..head.len() - usize::from(!has_overruns)], 1, rows);
    more(&mut text, dated().count(), "class of deadline tasks", "classes of deadline tasks", "most missed deadlines");
    text
}

fn groups(results: &Results) -> String {
    let rows = first(&results.groups, |group| group.cpu_ns).into_iter().map(|group| {
        let ratio = if group.entitled_ns == 0 {
            "-".to_owned()
        } else {
            format!("{:.1}", 100.0 * group.cpu_ns as f64 / group.entitled_ns as f64)
        };
        vec![
            group.path.clone(),
            match group.guarantee {
                Some(percent) => format!("{percent} %"),
                None if group.idle => "idle".to_owned(),
                None => group.weight.to_string(),
            },
            count(group.tasks as f64),
            percent(results.share(group.cpu_ns)),
            percent(results.share(group.entitled_ns)),
            ratio,
            percent(results.share(group.run_delay_ns)),
            percent(results.share(group.pressure.some.total_ns)),
            count(results.per_second(group.switches)),
        ]
    });
    let head = ["group", "weight", "tasks", "CPU %", "entitled %", "% of entitled", "wait %", "pressure %", "switch/s"];
    let mut text = grid(&head, 1, rows);
    more(&mut text, results.groups.len(), "group", "groups", "most CPU time");
    text
}

fn limits(results: &Results) -> String {
    let limited = || results.groups.iter().filter_map(|group| group.limit.map(|limit| (group, limit)));
    let rows = first(limited(), |(_, limit)| limit.throttled_ns).into_iter().map(|(group, limit)| {
        let of = |part: u64| if limit.nr_periods == 0 { 0.0 } else { part as f64 / limit.nr_periods as f64 };
        vec![
            group.path.clone(),
            limit.max.map_or_else(|| "-".to_owned(), |(quota, period)| percent(quota as f64 / period.max(1) as f64)),
            percent(results.share(group.cpu_ns)),
            count(limit.nr_periods as f64),
            count(limit.nr_throttled as f64),
            percent(of(limit.nr_throttled)),
            time(limit.throttled_ns as f64),
            count(limit.nr_bursts as f64),
            time(limit.burst_ns as f64),
        ]
    });
    let head = [
        "limited group",
        "limit %",
        "CPU %",
        "periods",
        "throttled",
        "% of periods",
        "throttled for",
        "bursts",
        "burst",
    ];
    let mut text = grid(&head, 1, rows);
    more(&mut text, limited().count(), "group with a limit", "groups with a limit", "the longest throttling");
    text
}

fn rt_limits(results: &Results) -> String {
    let throttled = || results.groups.iter().filter(|group| group.nr_rt_throttled > 0);
    let rows = first(throttled(), |group| group.rt_throttled_ns)
        .into_iter()
        .map(|group| vec![group.path.clone(), count(group.nr_rt_throttled as f64), time(group.rt_throttled_ns as f64)]);
    let mut text = grid(&["rt-limited group", "throttled", "throttled for"], 1, rows);
    more(
        &mut text,
        throttled().count(),
        "group with a real-time limit",
        "groups with a real-time limit",
        "the longest throttling",
    );
    text
}

fn cpus(results: &Results) -> String {
    let throttled = results.cpus.iter().any(|cpu| cpu.rt_throttled_ns > 0);
    let row = |name: String, cpu: &crate::CpuResult, of: usize| {
        let share = |ns: u64| percent(results.share(ns) / of.max(1) as f64);
        let balance = cpu.balance_total();
        let mut row = vec![
            name,
            share(cpu.busy_ns),
            share(cpu.overhead_ns),
            share(cpu.idle_ns),
            count(results.per_second(cpu.switches)),
            count(balance.attempts as f64),
            count(balance.tasks as f64),
        ];
        if throttled {
            row.push(time(cpu.rt_throttled_ns as f64));
        }
        row
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    // More CPUs differ too little to be read singly.
    if results.cpus.len() <= 16 {
        rows.extend(results.cpus.iter().enumerate().map(|(index, cpu)| row(index.to_string(), cpu, 1)));
    }
    rows.push(row(format!("all {}", results.cpus.len()), &results.machine(), results.cpus.len()));
    let head = ["CPU", "busy %", "overhead %", "idle %", "switch/s", "balanced", "tasks pulled", "rt throttled"];
    grid(if throttled { &head } else { &head[..7] }, 1, rows)
}

fn frequencies(results: &Results) -> String {
    let mhz = |khz: f64| count((khz / 1000.0).round());
    let row = |frequency: &CpuFrequency| {
        let total: u64 = frequency.residency.iter().map(|(_, ns)| ns).sum();
        let share = |ns: u64| percent(ns as f64 / total.max(1) as f64);
        // The most frequent frequency, and the highest.
        let most = frequency.residency.iter().max_by_key(|(_, ns)| *ns).copied().unwrap_or_default();
        let highest = frequency.residency.last().copied().unwrap_or_default();
        vec![
            frequency.cpu.to_string(),
            mhz(frequency.mean_khz() as f64),
            count(frequency.changes as f64),
            mhz(f64::from(most.0)),
            share(most.1),
            mhz(f64::from(highest.0)),
            share(highest.1),
            frequency.energy_uj.map(joules).unwrap_or_default(),
        ]
    };
    let shown = first(&results.frequencies, |frequency| frequency.changes);
    let mut rows: Vec<Vec<String>> = shown.into_iter().map(row).collect();
    let head = ["CPU", "mean MHz", "changes", "main MHz", "time %", "highest MHz", "time %", "energy J"];
    let all = results.energy_uj();
    match all {
        Some(all) => {
            let mut sum = vec![String::new(); head.len()];
            (sum[0], sum[head.len() - 1]) = (format!("all {}", results.frequencies.len()), joules(all));
            rows.push(sum);
        }
        None => rows.iter_mut().for_each(|row| row.truncate(head.len() - 1)),
    }
    let columns = if all.is_some() { &head[..] } else { &head[..head.len() - 1] };
    let mut text = grid(columns, 1, rows);
    more(&mut text, results.frequencies.len(), "CPU", "CPUs", "most changes");
    text
}

fn joules(uj: u64) -> String {
    three(uj as f64 / 1e6)
}

/// Returns load averages and pressure at the end, as `/proc/loadavg` and `/proc/pressure/cpu`.
fn averages(results: &Results) -> String {
    let mut text = String::new();
    if let Some(load) = results.loadavg {
        let line = format!("load average {load}\n");
        text.push_str(&line);
    }
    if let Some(root) = results.groups.first() {
        let line = format!("CPU pressure some {}\n", root.pressure.some);
        text.push_str(&line);
    }
    text
}

/// Counts the rows that [`first`] omitted. `rank` names its order.
fn more(text: &mut String, total: usize, one: &str, several: &str, rank: &str) {
    if total > ROWS {
        let more = total - ROWS;
        let what = if more == 1 { one } else { several };
        let line = format!("and {more} more {what} (shown: the {ROWS} with {rank}; --json has all)");
        text.extend([fit_text(&line, "").as_str(), "\n"]);
    }
}

#[cfg(test)]
mod tests;
