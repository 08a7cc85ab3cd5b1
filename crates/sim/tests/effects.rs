//! Every behaviour has an effect: a run without it differs. So no row of the table is without code.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::Path;

use vruntime_sched::event::Event;
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernels::Behaviour;
use vruntime_sched::kernels::behaviours::BEHAVIOURS;
use vruntime_sim::plan::{Input, Overrides, Plan, plan};
use vruntime_sim::run_dyn;
use vruntime_trace::Sink;
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario::{self, Scenario};

/// The simulated time of a run, nanoseconds.
const DURATION: u64 = 400_000_000;

/// A kernel, a file of `scenarios/`, and behaviours of that kernel that change the run.
type Shown = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const SHOWN: &[Shown] = &[
    ("2.6.15-cpurc", "wasted-cores/overload-on-wakeup", &[
        "BALANCE_COUNTS_TASKS",
    ]),
    ("2.6.15-cpurc", "history/spurious-migration", &[
        "POWER_PER_THREAD",
    ]),
    ("2.6.15-cpurc", "wasted-cores/group-construction", &[
        "BALANCE_TRIES_ONE_QUEUE",
    ]),
    ("7.2", "capacity/clamps", &[
        "BALANCE_IN_SOFTIRQ", "SKIP_CLOCK_UPDATE", "LEVELS_ALIKE", "ROOT_OVERLOAD", "NOHZ_UPDATES_BLOCKED",
        "BALANCE_BY_TYPE", "BUSY_FACTOR_16", "BUSY_INTERVAL_DRIFTS", "EEVDF", "UTIL_EST_OF_WAITERS",
        "SCHEDSTAT_17", "DEADLINE_HAS_WHOLE", "IDLE_GROUPS",
    ]),
    ("2.6.22", "capacity/energy", &[
        "O1_BOUNDS_SLEEP", "SCHEDSTAT_14",
    ]),
    ("3.10", "demo/demo", &[
        "LOAD_IS_WEIGHT", "H_LOAD_OF_ALL_GROUPS",
    ]),
    ("3.12", "wasted-cores/group-construction", &[
        "UNEVEN_BY_SPREAD",
    ]),
    ("3.12", "demo/demo", &[
        "WAKE_WIDE",
    ]),
    ("5.4", "capacity/phone", &[
        "PICKS_ANY_LOADED_GROUP",
    ]),
    ("3.17", "examples/web", &[
        "IDLE_LEAVES_IDLER",
    ]),
    ("5.4", "history/idle-groups", &[
        "IDLE_LEAVES_FITTING",
    ]),
    ("6.17", "waits/herd", &[
        "NEWIDLE_COST_RISES",
    ]),
    ("4.18-el8", "examples/web", &[
        "LIMIT_SLICES_EXPIRE",
    ]),
    ("3.17", "history/spurious-migration", &[
        "NOHZ_KICK_FOR_BUSY_CACHE",
    ]),
    ("3.18", "capacity/energy", &[
        "NOHZ_OWN_CPU_FIRST",
    ]),
    ("7.2", "demo/demo", &[
        "ATTACH_IN_REVERSE", "WAKE_RECENT_CPU", "NEWIDLE_GATE_BY_COST", "WAKE_QUEUES_ON_IDLE",
        "EMPTY_GROUP_KEEPS_WEIGHT", "LAG_BY_LONGEST", "PREEMPTS_AWAKE", "REWEIGHT_KEEPS_PROTECTION",
    ]),
    ("4.19", "demo/demo", &[
        "CPU_LOAD_AVERAGES",
    ]),
    ("5.10", "capacity/phone", &[
        "PUSH_RESETS_FAILURES",
    ]),
    ("4.18-el8", "history/spurious-migration", &[
        "NEWIDLE_BACKS_OFF",
    ]),
    ("6.11", "cpusets/partitions", &[
        "RT_THROTTLE",
    ]),
    ("7.2", "wasted-cores/group-construction", &[
        "AFFINITY_REQUEUES", "AFFINITY_SPREADS", "NUMA_IMBALANCE_BY_CACHES", "CHANGE_KEEPS_PROTECTION",
    ]),
    ("5.4", "cpusets/partitions", &[
        "GROUPS_BY_UTILISATION",
    ]),
    ("4.18-el8", "capacity/energy", &[
        "WAKE_IDLE_CORES",
    ]),
    ("3.18", "examples/web", &[
        "LIMIT_LAST_FIRST",
    ]),
    ("7.2", "real-time/groups", &[
        "UCLAMP_GROUP_PROTECTS",
    ]),
    ("7.2", "examples/phone", &[
        "ENERGY_AWARE", "HEADROOM_OF_USE",
    ]),
    ("7.2", "wasted-cores/missing-domains", &[
        "IMBALANCE_PCT_117", "RUNNABLE_BOOST",
    ]),
    ("7.2", "deadline/pipeline", &[
        "RELAXES_LOAD", "SIBLINGS_BY_CORES", "OVERLOAD_BY_WAITING", "LAZY_OR_FULL",
    ]),
    ("5.10", "wasted-cores/group-construction", &[
        "NUMA_ALLOWS_PAIR",
    ]),
    ("5.15", "wasted-cores/group-construction", &[
        "NUMA_ALLOWS_QUARTER",
    ]),
    ("7.2", "examples/web", &[
        "WAKE_SEARCHES_ONCE", "LIMIT_PERIODS_APART",
    ]),
    ("7.2", "history/idle-groups", &[
        "IDLE_LAG_DECAYS", "NEWIDLE_RATE",
    ]),
    ("7.2", "wasted-cores/group-imbalance", &[
        "FULLY_BUSY_SPARES_SMT",
    ]),
    ("7.2", "capacity/phone", &[
        "FIRST_OF_EQUAL_MISFITS", "MISFIT_IF_ALLOWED",
    ]),
    ("6.6", "reports/quota", &[
        "EMPTY_IS_NOT_THROTTLED",
    ]),
    ("7.2", "cpusets/partitions", &[
        "GROUP_LOAD_RATE_LIMIT", "SERVER_LINGERS",
    ]),
    ("6.12", "capacity/clamps", &[
        "CUSTOM_SLICES",
    ]),
    ("7.2", "classes/yielding", &[
        "NEW_TASK_PLACED_ONCE", "HRTICK_AT_SWITCH", "FORK_DOES_NOT_PREEMPT", "SLICE_ENDS_AT_DEADLINE",
        "HRTICK_ONCE",
    ]),
    ("6.14", "demo/demo", &[
        "SHORT_OVERTAKES",
    ]),
    ("7.0", "capacity/clamps", &[
        "UTIL_EST_OF_LAST_UPDATE",
    ]),
    ("6.12", "demo/demo", &[
        "DELAYED_COUNTS",
    ]),
    ("7.2", "examples/real-time", &[
        "RT_WAKES_ON_DEADLINE",
    ]),
    ("7.0", "demo/demo", &[
        "REWEIGHT_PLACES",
    ]),
    ("7.2", "examples/build", &[
        "INELIGIBLE_STAYS",
    ]),
    ("6.17", "demo/demo", &[
        "PROTECTS_SHORTEST_SLICE",
    ]),
    ("7.2", "limits/night", &[
        "TASK_THROTTLE",
    ]),
    ("7.0", "limits/shop", &[
        "BUDDY_IN_PICK",
    ]),
    ("7.2", "capacity/idle", &[
        "IDLE_ENDS_AT_SWITCH",
    ]),
    ("7.2", "history/benchmarks", &[
        "DELAYED_KEEPS_DEBT",
    ]),
    ("6.12", "history/benchmarks", &[
        "PIPE_WAKES_IN_VAIN",
    ]),
    ("3.10", "capacity/energy", &[
        "SCHEDSTAT_15",
    ]),
    ("6.11", "capacity/clamps", &[
        "SCHEDSTAT_16",
    ]),
];

/// Behaviours that no run above shows, and that tests of their own name.
#[rustfmt::skip]
const OWN_TESTS: &[&str] = &[
    "BALANCE_EARLY", "NEWIDLE_COST", "PUSHES_ANY_IMBALANCE", "PUSH_CLEARS_FAILURES", "LEAVES_REDUCED_CPU",
    "DEADLINE_BY_CAPACITY", "WAKE_AGES_IDLE", "CLUSTER_DOMAINS", "WAKE_BESIDE_IDLE", "WAKE_SIBLINGS_FIRST",
    "CPUSET_FORGETS_AFFINITY", "SIBLING_OF_BUSIEST", "SMT_BALANCE", "WHOLE_CORE_BALANCES", "SPARE_CORE_FIRST",
    "WAKE_CLUSTER_FIRST", "INIT_UTIL_SCALE", "MISFIT_DOES_NOT_COUNT", "CLAMPS_LAST", "YIELD_FORFEITS",
    "FORK_COUNTS_FORBIDDEN", "SPARES_BIG_CPUS", "WAKEUP_SHORTENS_PROTECTION", "IDLE_NOT_BESIDE_IDLE",
    "LAZY_PREEMPTION", "SCHED_BATCH", "SCHED_IDLE", "AUTOGROUPS", "SCHED_DEADLINE", "DEADLINE_RECLAIMS",
    "DEADLINE_OVERRUN_SIGNALS", "VCPU_PACK", "WAKE_WIDE_OF_BOTH", "NEWIDLE_COST_FADES", "FORK_TO_SHALLOWEST",
    "ABSENT_LOAD_DECAYS", "CLASS_CHANGE_MOVES_LOAD", "GROUP_MOVE_PLACES", "RT_TIMER_AT_ONCE",
    "RECORDS_PINNED_WAKEES", "SLICE_LIMITED", "PRIO_CHANGE_LOOKS", "GROUP_MOVE_RESCHEDULES",
    "IDLE_ONLY_BALANCES_SOON", "SMT_IGNORES_HEAT", "PER_CPU_KTHREADS_STAY", "REDUCED_IS_MISFIT", "GRUB_BOUNDED",
    "CPUSET_EXCLUSIVE", "IDLE_LOSES_PROTECTION", "GROUPS_BEFORE_POLICIES", "FAIR_SERVER",
    "UTIL_EST_IGNORES_BIGGER", "NARROW_RUNNABLE_SUM", "SERVER_WAITS_PERIOD", "SERVER_FORGETS_DEADLINE",
    "TASK_GROUPS", "RT_GROUPS", "GROUP_LIMITS", "CPUSET_PARTITIONS", "UTIL_CLAMPS", "GROUP_UTIL_CLAMPS",
    "LIMIT_BURSTS", "DEBUG_FOLDER", "SERVER_STAYS_ON_IDLE", "ENERGY_MOVES_MISFITS",
    "NEWIDLE_RETRIES", "REWEIGHT_STRETCHES_SLEEPERS", "BUDDY_IF_PROTECTED", "BOOST_MOVES_WAITING",
    "FORK_COUNTS_MIGRATIONS",
];

/// Hashes all events.
struct Digest(DefaultHasher);

impl Sink for Digest {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        (at, cpu.0, format!("{event:?}")).hash(&mut self.0);
    }
}

/// Returns the digest of a run, and of the CPUs' state in its middle.
fn digest(file: &str, kernel: &str, without: Option<Behaviour>) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file).with_extension("toml");
    let load = &mut |file: &Path| fs::read(path.with_file_name(file));
    let text = fs::read(&path).unwrap();
    let scenario: Scenario = scenario::parse(file, &text, &Options::default(), load).unwrap();
    let overrides = Overrides { kernel: Some(kernel.to_owned()), ..Overrides::default() };
    let Plan { mut config, .. } = plan(Input::Scenario(&scenario), &overrides, load).unwrap();
    if let Some(behaviour) = without {
        assert!(config.kernel.behaviours.has(behaviour), "{kernel} has no {}", behaviour.name());
        config.kernel.force(behaviour, false);
        config.kernel.check().unwrap();
    }
    config.duration = Some(config.duration.map_or(DURATION, |own| own.min(DURATION)));
    config.debug_at = Some(DURATION / 2);
    let mut digest = Digest(DefaultHasher::new());
    let go_on = &mut |_| ControlFlow::Continue(());
    let outcome = run_dyn(&scenario.workload, &config, &mut digest, go_on).unwrap();
    format!("{:?}", outcome.debug).hash(&mut digest.0);
    digest.0.finish()
}

/// Returns the behaviours whose absence leaves these runs as they are.
fn without_effect(shown: impl Iterator<Item = &'static Shown>) -> Vec<String> {
    let mut none = Vec::new();
    for &(kernel, file, names) in shown {
        let with = digest(file, kernel, None);
        assert_eq!(with, digest(file, kernel, None), "{file} under {kernel} is repeatable");
        let same = |name: &&&str| digest(file, kernel, Behaviour::named(name)) == with;
        none.extend(names.iter().filter(same).map(|name| format!("{name} in {file} under {kernel}")));
    }
    none
}

/// Two tests, so that they run at the same time.
#[test]
fn a_run_without_a_behaviour_differs() {
    assert_eq!(without_effect(SHOWN.iter().step_by(2)), Vec::<String>::new());
}

#[test]
fn another_run_without_a_behaviour_differs() {
    assert_eq!(without_effect(SHOWN.iter().skip(1).step_by(2)), Vec::<String>::new());
}

#[test]
fn the_lists_have_every_behaviour_once() {
    let shown = SHOWN.iter().flat_map(|(_, _, names)| *names);
    let names: Vec<&str> = shown.chain(OWN_TESTS).copied().collect();
    let all: BTreeSet<&str> = BEHAVIOURS.iter().map(|row| row.name).collect();
    assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), all);
    assert_eq!(names.len(), all.len(), "one is twice there");
}

/// The texts of tests but this file: those of `tests/`, and what follows `#[cfg(test)]`.
fn texts_of_tests() -> String {
    fn read(folder: &Path, whole: bool, texts: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                read(&path, whole || name == "tests", texts);
            } else if path.extension().is_some_and(|end| end == "rs") && name != "effects.rs" {
                let text = fs::read_to_string(&path).unwrap();
                let tests = if whole || name == "tests.rs" { Some(0) } else { text.find("#[cfg(test)]") };
                texts.push_str(tests.map_or("", |from| &text[from..]));
            }
        }
    }
    let mut texts = String::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["sched", "sim", "cli"] {
        read(&crates.join(name).join("src"), false, &mut texts);
        read(&crates.join(name).join("tests"), true, &mut texts);
    }
    texts
}

/// Whether a text has a word, not only a part of one.
fn names(text: &str, word: &str) -> bool {
    let part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    text.match_indices(word)
        .any(|(at, _)| !part(text[..at].chars().next_back()) && !part(text[at + word.len()..].chars().next()))
}

#[test]
fn tests_name_the_behaviours_that_they_show() {
    let texts = texts_of_tests();
    let named = |name: &str| {
        let variant = format!("Behaviour::{:?}", Behaviour::named(name).unwrap());
        names(&texts, name) || names(&texts, &variant)
    };
    let missing: Vec<&&str> = OWN_TESTS.iter().filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}
