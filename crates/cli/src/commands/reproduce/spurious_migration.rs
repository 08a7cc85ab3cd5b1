//! Five threads on two clusters of four cores: 3.17 migrates them to no use.

use std::collections::BTreeMap;

use vruntime_report::{Chart, Claim, FigureTable, Reproduced, Series};
use vruntime_sched::Kernel;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::parallel;
use vruntime_trace::{CpuId, Event, MigrateCause, Running, Sink, TaskId, TaskInfo};

use super::published::spurious_migration::{COMMANDS, DOCUMENT, PUSHED, SAMPLES};
use super::{range, scenario, simulate, table};

const SCENARIO: &str = include_str!("../../../embedded/scenarios/history/spurious-migration.toml");
const KERNELS: [&str; 3] = ["3.17", "3.18", "6.12"];
const SEEDS: u64 = 5;

/// Counts `sched_migrate_task` by the command on its CPU, as `perf record -e`.
#[derive(Debug, Default)]
struct Commands {
    /// The samples of each fork. Up to 4.7, `sched_fork` and `wake_up_new_task` each record one, whether or not the CPU
    /// changes.
    of_fork: u64,
    classes: Vec<String>,
    running: Vec<Option<Running>>,
    counts: BTreeMap<String, u64>,
}

impl Commands {
    fn under(kernel: &Kernel) -> Self {
        let of_fork = if kernel.behaviours.has(Behaviour::ForkCountsMigrations) { 2 } else { 0 };
        Self { of_fork, ..Self::default() }
    }

    fn all(&self) -> u64 {
        self.counts.values().sum()
    }

    fn by_stopper(&self) -> u64 {
        self.counts.iter().filter(|(name, _)| name.starts_with("migration/")).map(|(_, count)| count).sum()
    }

    fn percent(&self, command: &str) -> f64 {
        100.0 * *self.counts.get(command).unwrap_or(&0) as f64 / self.all().max(1) as f64
    }

    /// Returns the command that runs on `cpu`.
    fn command(&self, cpu: CpuId) -> String {
        match self.running.get(cpu.index()).copied().flatten() {
            None | Some(Running::Idle) => "swapper".to_owned(),
            Some(Running::Stopper) => format!("migration/{}", cpu.0),
            Some(Running::Task(task)) => self.classes.get(task.index()).cloned().unwrap_or_default(),
        }
    }
}

impl Sink for Commands {
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        if self.classes.len() <= id.index() {
            self.classes.resize(id.index() + 1, String::new());
        }
        // The program of a thread `sysbench/main`.
        info.class.split('/').next().unwrap_or_default().clone_into(&mut self.classes[id.index()]);
    }

    fn event(&mut self, _at: u64, cpu: CpuId, event: &Event) {
        match event {
            Event::Switch { next, .. } => {
                if self.running.len() <= cpu.index() {
                    self.running.resize(cpu.index() + 1, None);
                }
                self.running[cpu.index()] = Some(*next);
            }
            Event::Fork { parent: Some(parent), .. } if self.of_fork > 0 => {
                let command = self.classes.get(parent.index()).cloned().unwrap_or_default();
                *self.counts.entry(command).or_default() += self.of_fork;
            }
            Event::Migrate { from, cause, .. } => {
                let command = match cause {
                    // The source CPU's stopper migrates, but the event has the target CPU.
                    MigrateCause::Active => self.command(*from),
                    // An idle CPU balances for others.
                    MigrateCause::NohzIdle => "swapper".to_owned(),
                    _ => self.command(cpu),
                };
                *self.counts.entry(command).or_default() += 1;
            }
            _ => {}
        }
    }
}

pub(super) fn reproduce() -> miette::Result<Reproduced> {
    let migrations = Migrations::new()?;
    Ok(Reproduced {
        name: "spurious-migration".to_owned(),
        title: "Five threads compute on two clusters of four cores. They should stay on their CPUs, but are migrated."
            .to_owned(),
        document: DOCUMENT.to_owned(),
        tables: vec![migrations.commands_table(), migrations.seeds_table()],
        charts: vec![migrations.chart()],
        claims: migrations.claims(),
        findings: Vec::new(),
        method: vec![
            "Simulated: scenarios/history/spurious-migration.toml, 5 s at HZ=200, seeds 1 to 5. Costs are the default ones, except that a \
             search of a domain takes 5 us. As in perf, a migration is counted for the task that ran on the CPU that made it: \
             migration/N is the stopper of CPU N."
                .to_owned(),
            "Most of the published 20 are sysbench's own: its first thread creates the others. Up to Linux 4.7, each fork records two \
             samples, even on the same CPU. The other tasks are those of the document, which does not state their load."
                .to_owned(),
        ],
    })
}

/// Migrations by command, with a row for each of [`KERNELS`] and a column for each seed.
struct Migrations(Vec<Vec<Commands>>);

impl Migrations {
    fn new() -> miette::Result<Self> {
        let mut jobs = Vec::new();
        for kernel in KERNELS {
            let (input, config) = scenario("spurious-migration.toml", SCENARIO, kernel)?;
            for seed in 1..=SEEDS {
                jobs.push((input.workload.clone(), vruntime_sim::Config { seed, ..config.clone() }));
            }
        }
        let runs = parallel(&jobs, |_, (workload, config)| {
            let mut commands = Commands::under(&config.kernel);
            simulate(workload, config, &mut commands).map(|_| commands)
        });
        let mut runs = runs.into_iter();
        let of_kernel = |_| runs.by_ref().take(SEEDS as usize).collect::<miette::Result<Vec<Commands>>>();
        KERNELS.iter().map(of_kernel).collect::<miette::Result<_>>().map(Self)
    }

    /// Returns a kernel's run with the first seed.
    fn first(&self, kernel: usize) -> &Commands {
        &self.0[kernel][0]
    }

    fn all(&self, kernel: usize) -> Vec<u64> {
        self.0[kernel].iter().map(Commands::all).collect()
    }

    fn by_stopper(&self, kernel: usize) -> Vec<u64> {
        self.0[kernel].iter().map(Commands::by_stopper).collect()
    }

    /// Returns the document's commands, and other ones here.
    fn commands(&self) -> Vec<&str> {
        let mut names: Vec<&str> = COMMANDS.iter().map(|row| row.0).collect();
        for name in (0..KERNELS.len()).flat_map(|kernel| self.first(kernel).counts.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn commands_table(&self) -> FigureTable {
        let samples = |kernel: usize| self.first(kernel).all().to_string();
        let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let ours = |kernel: usize, name: &str| {
            let run = self.first(kernel);
            percent(run.counts.contains_key(name).then(|| run.percent(name)))
        };
        let [before, after] = SAMPLES.map(|samples| samples.to_string());
        let mut rows = vec![vec!["samples".to_owned(), before, samples(0), after, samples(1), samples(2)]];
        for name in self.commands() {
            let (before, after) = published(name);
            let cells = [percent(before), ours(0, name), percent(after), ours(1, name), ours(2, name)];
            rows.push([vec![name.to_owned()], cells.to_vec()].concat());
        }
        table(
            "Samples of sched:sched_migrate_task in 5 s, and the percentage of each running command (ours: seed 1)",
            &["command", "before: published", "3.17", "after: published", "3.18", "6.12"],
            1,
            rows,
        )
    }

    fn seeds_table(&self) -> FigureTable {
        let row = |kernel: usize, published: Option<(u64, u64)>| {
            let (all, by_stopper) = published.map_or_else(
                || ("-".to_owned(), "-".to_owned()),
                |(all, by_stopper)| (all.to_string(), by_stopper.to_string()),
            );
            vec![KERNELS[kernel].to_owned(), all, range(&self.all(kernel)), by_stopper, range(&self.by_stopper(kernel))]
        };
        table(
            "Migrations (ours: least and most of five seeds)",
            &["kernel", "all: published", "ours", "by migration/N: published", "ours"],
            1,
            vec![row(0, Some((SAMPLES[0], PUSHED))), row(1, Some((SAMPLES[1], 1))), row(2, None)],
        )
    }

    /// Charts the document's commands before the change.
    fn chart(&self) -> Chart {
        let [samples, _] = SAMPLES;
        let count = |percent: f64| (percent * samples as f64 / 100.0).round();
        let charted = COMMANDS.iter().filter_map(|&(name, before, _)| Some((name, before?)));
        let ours = |name: &str| *self.first(0).counts.get(name).unwrap_or(&0) as f64;
        Chart {
            title: "Tasks that migrated others, before the change".to_owned(),
            y: "migrations in 5 s".to_owned(),
            labels: charted.clone().map(|(name, _)| name.to_owned()).collect(),
            series: vec![
                Series::published("published", charted.clone().map(|(_, percent)| count(percent))),
                Series::ours("3.17 here", charted.map(|(name, _)| ours(name))),
            ],
            ..Chart::default()
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let [before, after, today] = [0, 1, 2].map(|kernel| self.all(kernel));
        let pushed = self.by_stopper(0);
        let over = |counts: &[u64]| format!("{} over {SEEDS} seeds", range(counts));
        let near =
            |counts: &[u64], published: u64| counts.iter().all(|&count| 4 * count.abs_diff(published) <= published);
        let [all, fixed] = SAMPLES;
        vec![
            Claim::new(
                format!("3.17: {all} migrations, {PUSHED} by migration/N; each within 25 %"),
                near(&before, all) && near(&pushed, PUSHED),
                format!("{}, {} by migration/N, over {SEEDS} seeds", range(&before), range(&pushed)),
            ),
            Claim::new(format!("3.18: {fixed}, within 25 %"), near(&after, fixed), over(&after)),
            Claim::new("6.12: at most 10", today.iter().all(|&count| count <= 10), over(&today)),
        ]
    }
}

/// Returns a command's per cent of the published samples, before and after the change.
fn published(name: &str) -> (Option<f64>, Option<f64>) {
    COMMANDS.iter().find(|row| row.0 == name).map_or((None, None), |row| (row.1, row.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vruntime_trace::PrevState;

    /// `FORK_COUNTS_MIGRATIONS`: a fork is two samples of its parent, without a migration.
    #[test]
    fn a_fork_is_two_samples_up_to_4_7() {
        let samples = |on| {
            let mut kernel = vruntime_sched::kernel("3.18").unwrap();
            assert!(kernel.behaviours.has(Behaviour::ForkCountsMigrations));
            kernel.force(Behaviour::ForkCountsMigrations, on);
            let mut commands = Commands::under(&kernel);
            commands.task(TaskId(0), &TaskInfo { name: "a-0", class: "a", ..TaskInfo::default() });
            commands.event(0, CpuId(0), &Event::Fork { parent: Some(TaskId(0)), child: TaskId(1) });
            commands.counts
        };
        assert_eq!(samples(true), BTreeMap::from([("a".to_owned(), 2)]));
        assert_eq!(samples(false), BTreeMap::new());
    }

    #[test]
    fn a_migration_counts_for_the_running_command() {
        let mut commands = Commands::default();
        commands.task(TaskId(0), &TaskInfo { name: "a-0", class: "a", ..TaskInfo::default() });
        let switch = |next| Event::Switch { prev: Running::Idle, prev_state: PrevState::Preempted, next };
        let migrate = |cause| Event::Migrate { task: TaskId(0), from: CpuId(1), to: CpuId(0), cause };
        commands.event(0, CpuId(0), &migrate(MigrateCause::NewIdle));
        commands.event(1, CpuId(0), &switch(Running::Task(TaskId(0))));
        commands.event(1, CpuId(1), &switch(Running::Stopper));
        commands.event(2, CpuId(0), &migrate(MigrateCause::Wakeup));
        commands.event(3, CpuId(0), &migrate(MigrateCause::Active));
        // Under today's kernels, a fork is no sample.
        let fork = Event::Fork { parent: Some(TaskId(0)), child: TaskId(1) };
        commands.event(4, CpuId(0), &fork);
        let expected = [("a", 1), ("migration/1", 1), ("swapper", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(commands.counts, BTreeMap::from(expected));
        assert_eq!((commands.all(), commands.by_stopper()), (3, 1));
        commands.of_fork = 2;
        commands.event(5, CpuId(0), &fork);
        assert_eq!((commands.all(), commands.by_stopper()), (5, 1));
    }
}
