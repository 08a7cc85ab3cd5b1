//! Results of a run as data tables, for pages and files, with every printed figure.

use crate::data::{Cell, DataTable, Kind};
use crate::latency::Latency;
use crate::page::{Bar, Bars};
use crate::results::{Account, ClassResult, LimitResult, Response, Results, late};
use crate::units::percent;

pub(crate) type Head = (&'static str, &'static str, Kind);

const ACCOUNT: [Head; 11] = [
    ("cpu_ns", "CPU time", Kind::Nanoseconds),
    ("share", "CPU", Kind::Share),
    ("run_delay_ns", "Waited", Kind::Nanoseconds),
    ("run_delay", "Waited", Kind::Share),
    ("sleeping_ns", "Slept", Kind::Nanoseconds),
    ("voluntary", "Voluntary", Kind::Count),
    ("involuntary", "Involuntary", Kind::Count),
    ("switches_per_s", "Switches/s of each", Kind::Number),
    ("migrations", "Migrations", Kind::Count),
    ("loops", "Loops", Kind::Count),
    ("loop_p50_ns", "Loop p50", Kind::Nanoseconds),
];

/// Columns of [`limit_cells`].
pub(crate) const LIMIT: [Head; 9] = [
    ("quota_ns", "Quota", Kind::Nanoseconds),
    ("period_ns", "Period", Kind::Nanoseconds),
    ("limit", "Limit", Kind::Share),
    ("nr_periods", "Periods", Kind::Count),
    ("nr_throttled", "Throttled", Kind::Count),
    ("throttled_periods", "Share of periods", Kind::Share),
    ("throttled_ns", "Throttled for", Kind::Nanoseconds),
    ("nr_bursts", "Bursts", Kind::Count),
    ("burst_ns", "Burst", Kind::Nanoseconds),
];

const LATENCY: [Head; 7] = [
    ("wakeup_p50_ns", "Wakeup: p50", Kind::Nanoseconds),
    ("wakeup_p99_ns", "Wakeup: p99", Kind::Nanoseconds),
    ("wakeup_p999_ns", "Wakeup: p99.9", Kind::Nanoseconds),
    ("wakeup_max_ns", "Wakeup: max", Kind::Nanoseconds),
    ("late_p50_ns", "Lateness: p50", Kind::Nanoseconds),
    ("late_p99_ns", "Lateness: p99", Kind::Nanoseconds),
    ("late_max_ns", "Lateness: max", Kind::Nanoseconds),
];

const RESPONSE: [Head; 6] = [
    ("rounds", "Rounds", Kind::Count),
    ("response_p50_ns", "Response: p50", Kind::Nanoseconds),
    ("response_p90_ns", "Response: p90", Kind::Nanoseconds),
    ("response_p99_ns", "Response: p99", Kind::Nanoseconds),
    ("response_max_ns", "Response: max", Kind::Nanoseconds),
    ("above_target", "Above the target", Kind::Share),
];

/// Returns the account of `tasks` tasks, and their loops' duration.
fn account(account: &Account, tasks: usize, loops: Option<Latency>, results: &Results) -> Vec<Cell> {
    vec![
        account.cpu_ns.into(),
        results.share(account.cpu_ns).into(),
        account.run_delay_ns.into(),
        results.share(account.run_delay_ns).into(),
        account.sleeping_ns.into(),
        account.voluntary.into(),
        account.involuntary.into(),
        (results.per_second(account.switches()) / tasks.max(1) as f64).into(),
        account.migrations.into(),
        account.loops.into(),
        loops.map(|loops| loops.p50_ns).into(),
    ]
}

/// Returns wakeup latency and [lateness](late).
fn latency(wakeup: Option<Latency>, sleep_return: Option<Latency>) -> Vec<Cell> {
    let pick = |latency: Option<Latency>, pick: fn(Latency) -> u64| Cell::from(latency.map(pick));
    let late = late(wakeup, sleep_return);
    vec![
        pick(wakeup, |latency| latency.p50_ns),
        pick(wakeup, |latency| latency.p99_ns),
        pick(wakeup, |latency| latency.p999_ns),
        pick(wakeup, |latency| latency.max_ns),
        pick(late, |latency| latency.p50_ns),
        pick(late, |latency| latency.p99_ns),
        pick(late, |latency| latency.max_ns),
    ]
}

/// Returns the columns of [`RESPONSE`].
fn response(response: Option<Response>, target: Option<u64>) -> Vec<Cell> {
    let times = response.map(|response| response.times);
    vec![
        times.map(|times| times.count).into(),
        times.map(|times| times.p50_ns).into(),
        times.map(|times| times.p90_ns).into(),
        times.map(|times| times.p99_ns).into(),
        times.map(|times| times.max_ns).into(),
        target.and(response).map(|response| response.above()).into(),
    ]
}

pub(crate) fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Returns the columns of [`LIMIT`].
pub(crate) fn limit_cells(limit: Option<LimitResult>) -> [Cell; 9] {
    let max = limit.and_then(|limit| limit.max);
    [
        max.map(|(quota, _)| quota).into(),
        max.map(|(_, period)| period).into(),
        max.and_then(|(quota, period)| ratio(quota, period)).into(),
        limit.map(|limit| limit.nr_periods).into(),
        limit.map(|limit| limit.nr_throttled).into(),
        limit.and_then(|limit| ratio(limit.nr_throttled, limit.nr_periods)).into(),
        limit.map(|limit| limit.throttled_ns).into(),
        limit.map(|limit| limit.nr_bursts).into(),
        limit.map(|limit| limit.burst_ns).into(),
    ]
}

pub(crate) fn table(name: &'static str, title: &str, heads: &[&[Head]]) -> DataTable {
    DataTable::new(name, title, &heads.concat())
}

/// Returns the table `notes`, a row for each. None without notes.
pub fn notes_data(notes: &[String]) -> Option<DataTable> {
    let mut data = table("notes", "Notes on the other tables", &[&[("note", "Note", Kind::Text)]]);
    for note in notes {
        data.push(vec![note.as_str().into()]);
    }
    Some(data).filter(|_| !notes.is_empty())
}

impl Results {
    /// Returns all tables.
    pub fn tables(&self) -> Vec<DataTable> {
        let names: [Head; 2] = [("class", "Tasks", Kind::Text), ("tasks", "Number", Kind::Count)];
        let mut classes = table("classes", "Classes of tasks", &[&names, &ACCOUNT, &LATENCY, &RESPONSE]);
        for class in &self.classes {
            let name = vec![class.name.as_str().into(), class.tasks.into()];
            let account = account(&class.account, class.tasks, class.loop_duration, self);
            let latency = latency(class.wakeup_latency, class.sleep_return);
            classes.push(
                [name, account, latency, response(class.response, self.target_ns)].into_iter().flatten().collect(),
            );
        }
        let names: [Head; 7] = [
            ("task", "Task", Kind::Text),
            ("class", "Class", Kind::Text),
            ("group", "Group", Kind::Text),
            ("policy", "Policy", Kind::Text),
            ("prio", "Prio", Kind::Count),
            ("rt_priority", "RT priority", Kind::Count),
            ("nice", "Nice", Kind::Count),
        ];
        let mut tasks = table("tasks", "Tasks", &[&names, &ACCOUNT, &LATENCY, &RESPONSE]);
        for task in &self.tasks {
            let group = self.groups.get(task.group).map_or("/", |group| group.path.as_str());
            let class = self.classes.get(task.class).map_or("", |class| class.name.as_str());
            let name = vec![
                task.name.as_str().into(),
                class.into(),
                group.into(),
                task.policy.name().into(),
                i32::from(task.prio()).into(),
                task.policy.is_rt().then_some(u32::from(task.rt_priority)).into(),
                i32::from(task.nice).into(),
            ];
            let account = account(&task.account, 1, task.loop_duration, self);
            let latency = latency(task.wakeup_latency, task.sleep_return);
            tasks.push(
                [name, account, latency, response(task.response, self.target_ns)].into_iter().flatten().collect(),
            );
        }
        let mut tables = vec![classes, tasks];
        tables.extend(self.deadlines_table());
        if self.groups.len() > 1 {
            tables.push(self.groups_table());
        }
        tables.push(self.cpus_table());
        tables.extend(self.frequencies_table());
        tables.extend(self.averages_table());
        tables.extend(self.weights_table());
        tables.extend(self.idle_waits_table());
        tables
    }

    fn deadlines_table(&self) -> Option<DataTable> {
        let heads: [Head; 6] = [
            ("class", "Deadline tasks", Kind::Text),
            ("tasks", "Number", Kind::Count),
            ("nr_throttled", "Throttled", Kind::Count),
            ("misses", "Missed", Kind::Count),
            ("max_late_ns", "Latest", Kind::Nanoseconds),
            ("nr_overruns", "Overruns", Kind::Count),
        ];
        let mut table = DataTable::new("deadlines", "Deadlines", &heads);
        for class in &self.classes {
            let Some(deadline) = class.account.deadline else { continue };
            table.push(vec![
                class.name.as_str().into(),
                class.tasks.into(),
                deadline.throttled.into(),
                deadline.misses.into(),
                (deadline.misses > 0).then_some(deadline.max_late_ns).into(),
                deadline.overruns.into(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    fn groups_table(&self) -> DataTable {
        let heads: [Head; 15] = [
            ("group", "Group", Kind::Text),
            ("weight", "Weight", Kind::Count),
            ("guarantee", "Guarantee", Kind::Share),
            ("tasks", "Tasks", Kind::Count),
            ("cpu_ns", "CPU time", Kind::Nanoseconds),
            ("share", "CPU", Kind::Share),
            ("entitled_ns", "Entitled to", Kind::Nanoseconds),
            ("entitled", "Entitled", Kind::Share),
            ("of_entitled", "CPU / entitled", Kind::Share),
            ("run_delay_ns", "Waited", Kind::Nanoseconds),
            ("run_delay", "Waited", Kind::Share),
            ("pressure_some_ns", "Pressure (PSI)", Kind::Nanoseconds),
            ("pressure_some", "Pressure", Kind::Share),
            ("switches", "Switches", Kind::Count),
            ("switches_per_s", "Switches/s", Kind::Number),
        ];
        let rest: [Head; 3] = [
            ("nr_rt_throttled", "Real-time throttled", Kind::Count),
            ("rt_throttled_ns", "RT throttled for", Kind::Nanoseconds),
            ("idle", "Idle group", Kind::Count),
        ];
        let title = "Groups and their entitlements";
        let mut groups = table("groups", title, &[&heads, &LIMIT, &rest]);
        for group in &self.groups {
            let some = group.pressure.some.total_ns;
            let mut row = vec![
                group.path.as_str().into(),
                group.weight.into(),
                group.guarantee.map(|percent| f64::from(percent) / 100.0).into(),
                group.tasks.into(),
                group.cpu_ns.into(),
                self.share(group.cpu_ns).into(),
                group.entitled_ns.into(),
                self.share(group.entitled_ns).into(),
                ratio(group.cpu_ns, group.entitled_ns).into(),
                group.run_delay_ns.into(),
                self.share(group.run_delay_ns).into(),
                some.into(),
                self.share(some).into(),
                group.switches.into(),
                self.per_second(group.switches).into(),
            ];
            row.extend(limit_cells(group.limit));
            row.extend([group.nr_rt_throttled.into(), group.rt_throttled_ns.into(), i32::from(group.idle).into()]);
            groups.push(row);
        }
        groups
    }

    fn cpus_table(&self) -> DataTable {
        let heads: [Head; 12] = [
            ("cpu", "CPU", Kind::Count),
            ("busy_ns", "Busy", Kind::Nanoseconds),
            ("busy", "Busy", Kind::Share),
            ("overhead_ns", "Overhead", Kind::Nanoseconds),
            ("overhead", "Overhead", Kind::Share),
            ("idle_ns", "Idle", Kind::Nanoseconds),
            ("idle", "Idle", Kind::Share),
            ("switches", "Switches", Kind::Count),
            ("switches_per_s", "Switches/s", Kind::Number),
            ("balanced", "Balanced", Kind::Count),
            ("pulled", "Tasks pulled", Kind::Count),
            ("rt_throttled_ns", "RT throttled", Kind::Nanoseconds),
        ];
        let mut cpus = DataTable::new("cpus", "CPUs", &heads);
        for (index, cpu) in self.cpus.iter().enumerate() {
            let balance = cpu.balance_total();
            cpus.push(vec![
                index.into(),
                cpu.busy_ns.into(),
                self.share(cpu.busy_ns).into(),
                cpu.overhead_ns.into(),
                self.share(cpu.overhead_ns).into(),
                cpu.idle_ns.into(),
                self.share(cpu.idle_ns).into(),
                cpu.switches.into(),
                self.per_second(cpu.switches).into(),
                balance.attempts.into(),
                balance.tasks.into(),
                cpu.rt_throttled_ns.into(),
            ]);
        }
        cpus
    }

    /// Returns each CPU's time at each frequency.
    fn frequencies_table(&self) -> Option<DataTable> {
        let heads: [Head; 7] = [
            ("cpu", "CPU", Kind::Count),
            ("mean_khz", "Mean kHz", Kind::Count),
            ("total_trans", "Changes", Kind::Count),
            ("khz", "kHz", Kind::Count),
            ("time_ns", "Time", Kind::Nanoseconds),
            ("time", "Time", Kind::Share),
            ("energy_j", "Energy while busy, J", Kind::Number),
        ];
        let mut table = DataTable::new("frequencies", "Frequencies of CPUs: a row for each that a CPU ran at", &heads);
        for frequency in &self.frequencies {
            let total: u64 = frequency.residency.iter().map(|(_, ns)| ns).sum();
            for &(khz, ns) in &frequency.residency {
                table.push(vec![
                    frequency.cpu.into(),
                    frequency.mean_khz().into(),
                    frequency.changes.into(),
                    khz.into(),
                    ns.into(),
                    (ns as f64 / total.max(1) as f64).into(),
                    frequency.energy_uj.map(|uj| uj as f64 / 1e6).into(),
                ]);
            }
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// Returns load averages and pressure at the end.
    fn averages_table(&self) -> Option<DataTable> {
        let heads: [Head; 7] = [
            ("load_1min", "Load: 1 min", Kind::Number),
            ("load_5min", "Load: 5 min", Kind::Number),
            ("load_15min", "Load: 15 min", Kind::Number),
            ("some_avg10", "CPU pressure, some: 10 s", Kind::Share),
            ("some_avg60", "CPU pressure, some: 60 s", Kind::Share),
            ("some_avg300", "CPU pressure, some: 300 s", Kind::Share),
            ("some_total_ns", "CPU pressure, some: total", Kind::Nanoseconds),
        ];
        let root = self.groups.first();
        if self.loadavg.is_none() && root.is_none() {
            return None;
        }
        let load = self.loadavg.map(|load| load.hundredths().map(|hundredths| hundredths as f64 / 100.0));
        let some = root.map(|root| root.pressure.some);
        let averages = some.map(|some| some.hundredths().map(|hundredths| hundredths as f64 / 10_000.0));
        let mut row: Vec<Cell> = (0..3).map(|index| load.map(|load| load[index]).into()).collect();
        row.extend((0..3).map(|index| Cell::from(averages.map(|averages| averages[index]))));
        row.push(some.map(|some| some.total_ns).into());
        let mut table = DataTable::new("averages", "Load average and CPU pressure at the end", &heads);
        table.push(row);
        Some(table)
    }

    /// Returns the balancer's work on group loads (3.10).
    fn weights_table(&self) -> Option<DataTable> {
        let visits = self.h_load?;
        let heads: [Head; 3] = [
            ("updates", "Computed", Kind::Count),
            ("groups", "Groups visited", Kind::Count),
            ("idle", "Idle groups", Kind::Count),
        ];
        let mut table = DataTable::new("group_weights", "Weights of groups, computed by the balancer", &heads);
        table.push(vec![visits.updates.into(), visits.groups.into(), visits.idle.into()]);
        Some(table)
    }

    fn idle_waits_table(&self) -> Option<DataTable> {
        self.conservation.filter(|_| self.account.idle_waits.count > 0)?;
        let heads: [Head; 5] = [
            ("class", "Tasks", Kind::Text),
            ("tasks", "Number", Kind::Count),
            ("waits", "Waits", Kind::Count),
            ("too_long_ns", "Beyond the interval", Kind::Nanoseconds),
            ("worst_ns", "Worst", Kind::Nanoseconds),
        ];
        let title = "Waits beyond a balance interval beside an idle CPU";
        let mut table = DataTable::new("idle_waits", title, &heads);
        for class in self.classes.iter().filter(|class| class.account.idle_waits.count > 0) {
            let waits = class.account.idle_waits;
            table.push(vec![
                class.name.as_str().into(),
                class.tasks.into(),
                waits.count.into(),
                waits.total_ns.into(),
                waits.worst_ns.into(),
            ]);
        }
        Some(table)
    }

    /// Returns CPU time and entitlement of groups, or CPU time of classes without groups.
    pub fn share_bars(&self) -> Bars {
        if self.groups.len() > 1 {
            let rows = self
                .groups
                .iter()
                .skip(1)
                .map(|group| (group.path.clone(), self.share(group.cpu_ns), Some(self.share(group.entitled_ns))));
            return Bars { rows: Bars::rows_of_groups(rows.collect()), ..Bars::of_groups() };
        }
        let name = |class: &ClassResult| {
            if class.tasks > 1 { format!("{} ({})", class.name, class.tasks) } else { class.name.clone() }
        };
        let mut all: Vec<(String, f64, Option<f64>)> =
            self.classes.iter().map(|class| (name(class), self.share(class.account.cpu_ns), None)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rows = Bar::folded(all, |_, _| false, |share, _| format!("{} %", percent(share)));
        Bars {
            title: "CPU time".to_owned(),
            entry: "CPU time".to_owned(),
            sub: "CPU time of each class of tasks; 100 % is one CPU for the whole time. Classes too small to be seen share one bar; the \
                tables have each.".to_owned(),
            rows,
            ..Bars::default()
        }
    }
}

impl Bars {
    /// CPU time of groups, with entitlements.
    pub(crate) fn of_groups() -> Self {
        Self {
            title: "CPU time of groups".to_owned(),
            entry: "CPU time".to_owned(),
            sub: "The mark is the entitlement: the CPU time that weights and limits give a group, among the groups that wanted CPU time. 100 \
                % is one CPU for the whole time. Groups too small to be seen share one bar; the tables have each."
                .to_owned(),
            ..Self::default()
        }
    }

    /// Returns bars of groups: path, CPU time, entitlement.
    pub(crate) fn rows_of_groups(all: Vec<(String, f64, Option<f64>)>) -> Vec<Bar> {
        let within = |path: &str, other: &str| path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
        Bar::folded(all, within, |cpu, entitled| {
            format!("{} %, entitled to {} %", percent(cpu), percent(entitled.unwrap_or(0.0)))
        })
    }
}
