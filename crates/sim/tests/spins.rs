//! Waits that do not sleep, and requests from outside.

mod support;

use std::path::Path;

use support::*;
use vruntime_report::{Collector, Results};
use vruntime_sim::{Config, Costs, MachineSpec, Outcome, parse_topology};
use vruntime_workload::program::Workload;
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

fn workload(text: &str) -> Workload {
    let no_files = &mut |path: &Path| match path.to_str() {
        Some("arrivals.txt") => Ok(b"# seconds\n0.010\n30ms\n20ms\n".to_vec()),
        _ => Err(std::io::Error::other("it is not here")),
    };
    scenario::parse("x.toml", text.as_bytes(), &Options::default(), no_files).unwrap().workload
}

/// Without costs.
fn run(text: &str, cpus: &str, ms: u64) -> (Results, Outcome) {
    let mut spec = MachineSpec::new(parse_topology(cpus).unwrap());
    spec.costs = Costs::ZERO;
    let cpus = spec.topology.nr_cpus();
    let config = Config { duration: Some(ms * MS), ..Config::new(vruntime_sched::kernel("6.12").unwrap(), spec) };
    let mut sinks = (Collector::new(cpus), Ledger::default());
    let outcome = simulate(&workload(text), &config, &mut sinks).unwrap();
    sinks.1.check(&outcome);
    (sinks.0.into_results(), outcome)
}

fn of<'a>(results: &'a Results, class: &str) -> &'a vruntime_report::Account {
    &results.classes.iter().find(|one| one.name == class).unwrap().account
}

const MEET: &str = "[[task]]\nname = \"t\"\ninstance = 2\nsteps = [{ run = \"1ms\" }, { spin_barrier = \"b\" }]\n\
                    [[task]]\nname = \"slow\"\nsteps = [{ run = \"3ms\" }, { spin_barrier = \"b\" }]\n";

#[test]
fn a_barrier_keeps_its_cpus() {
    let (results, _) = run(MEET, "3", 300);
    let (fast, slow) = (of(&results, "t"), of(&results, "slow"));
    assert_eq!((fast.cpu_ns, slow.cpu_ns), (600 * MS, 300 * MS));
    // 3 ms and the time in which a cache line moves.
    assert!((99..=100).contains(&slow.loops), "{}", slow.loops);
    assert_eq!((fast.voluntary, slow.voluntary), (0, 0));
}

/// Three tasks on two CPUs lose more than their work requires.
#[test]
fn a_preempted_task_keeps_the_others_spinning() {
    let sleeping = MEET.replace("{ spin_barrier = \"b\" }", "{ sleep = \"1us\" }");
    let [spinning, sleeping] = [MEET, &sleeping].map(|text| of(&run(text, "2", 1000).0, "slow").loops);
    assert!(3 * spinning < 2 * sleeping, "{spinning} against {sleeping}");
}

/// A preempted holder stops all others. A fair lock also stops them while the first waiter has no CPU.
#[test]
fn a_lock_belongs_to_one_task() {
    let lock = |fair: bool| {
        format!(
            "[[task]]\nname = \"t\"\ninstance = 6\nsteps = [{{ spin_lock = \"l\", fair = {fair} }}, {{ run = \"50us\" }}, \
             {{ spin_unlock = \"l\" }}, {{ run = \"50us\" }}]\n"
        )
    };
    let [alone, fair_alone] = [false, true].map(|fair| of(&run(&lock(fair), "6", 500).0, "t").loops);
    // The lock is always held, except while its cache line moves.
    assert!((9_900..=10_000).contains(&alone) && (9_900..=10_000).contains(&fair_alone), "{alone}, {fair_alone}");
    let [crowded, fair_crowded] = [false, true].map(|fair| of(&run(&lock(fair), "2", 500).0, "t").loops);
    assert!(crowded < alone && 2 * fair_crowded < crowded, "{crowded}, fair {fair_crowded}");
}

#[test]
fn a_flag_lets_one_task_continue_for_each_event() {
    let text = "[[task]]\nname = \"waits\"\ninstance = 2\nsteps = [{ spin_wait = \"go\" }, { run = \"10us\" }]\n\
                [[task]]\nname = \"posts\"\nsteps = [{ sleep = \"10ms\" }, { spin_post = \"go\", events = 3 }]\n";
    let (results, _) = run(text, "3", 1000);
    let posted = of(&results, "posts").loops * 3;
    assert!((posted - 3..=posted + 3).contains(&of(&results, "waits").loops), "{posted}");
    assert!(of(&results, "waits").cpu_ns > 1_900 * MS, "they spin all the time");
}

/// A waiter that spins at the end has waited since its last attempt, and not since the beginning.
#[test]
fn a_task_that_spins_at_the_end_is_not_reported() {
    let lock = "[[task]]\nname = \"w\"\ninstance = 6\nsteps = [{ spin_lock = \"l\" }, { run = \"300us\" }, \
                { spin_unlock = \"l\" }, { run = \"100us\" }]\n";
    for (text, cpus) in [(lock, "6"), (MEET, "2")] {
        let (_, outcome) = run(text, cpus, 1000);
        assert_eq!(outcome.notes, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_task_that_spins_for_ever_is_reported() {
    let text = "[[task]]\nname = \"meets\"\nsteps = [{ run = \"2ms\" }, { spin_barrier = \"b\" }]\n\
                [[task]]\nname = \"never\"\nstart = \"10s\"\nsteps = [{ spin_barrier = \"b\" }, { run = \"1ms\" }]\n";
    let (results, outcome) = run(text, "2", 100);
    assert_eq!(of(&results, "meets").cpu_ns, 100 * MS);
    assert!(
        outcome.notes.iter().any(|note| note.contains("`meets` waits for barrier `b` and spins, from 2 ms to the end")),
        "{:?}",
        outcome.notes
    );
}

const SERVE: &str = "[[task]]\nname = \"w\"\ninstance = 2\nsteps = [{ wait_event = \"q\", exclusive = true }, { run = \"1ms\" }]\n\
                     [[requests]]\nqueue = \"q\"\n";

/// A round is due when its request arrived, even if no task was free.
#[test]
fn response_times_are_from_the_arrival() {
    let (results, outcome) = run(&format!("{SERVE}rate = 100\narrivals = \"constant\"\ncount = 50\n"), "4", 1000);
    assert_eq!(of(&results, "w").cpu_ns, 50 * MS);
    assert!(outcome.notes.iter().all(|note| !note.contains("requests")), "{:?}", outcome.notes);
    let response = results.classes[0].response.unwrap().times;
    assert_eq!((response.count, response.max_ns), (50, MS));
    // Twice as many as two tasks can serve: half of them wait at the end, and the last were served late.
    let (results, outcome) = run(&format!("{SERVE}rate = 4000\narrivals = \"constant\"\n"), "4", 1000);
    let left = outcome.notes.iter().find(|note| note.contains("requests of `q` still waited")).expect("a note");
    let count: u64 = left.split(' ').next().unwrap().parse().unwrap();
    assert!((1_990..=2_010).contains(&count), "{left}");
    assert!(results.classes[0].response.unwrap().times.max_ns > 490 * MS);
}

#[test]
fn arrivals_are_a_poisson_process_of_the_seed_or_the_times_of_a_file() {
    let (results, _) = run(&format!("{SERVE}rate = 500\n"), "4", 10_000);
    let served = of(&results, "w").loops;
    // The standard deviation is 71.
    assert!((4_700..=5_300).contains(&served), "{served}");
    let response = results.classes[0].response.unwrap().times;
    assert!(response.max_ns > 2 * MS, "some arrive at once: {}", response.max_ns);
    let (results, _) = run(&format!("{SERVE}file = \"arrivals.txt\"\nstart = \"5ms\"\n"), "4", 100);
    assert_eq!(of(&results, "w").cpu_ns, 3 * MS);
    // The first begins at 15 ms.
    let (results, _) = run(&format!("{SERVE}file = \"arrivals.txt\"\nstart = \"5ms\"\n"), "4", 15);
    assert_eq!(of(&results, "w").cpu_ns, 0);
}

#[test]
fn work_without_end_and_refusals() {
    let text = "[[task]]\nname = \"for-ever\"\nrun = -1\n\
                [[task]]\nname = \"big\"\npolicy = \"SCHED_DEADLINE\"\nruntime = \"90ms\"\nperiod = \"100ms\"\ninstance = 2\n";
    let workload = workload(text);
    let spec = MachineSpec::new(parse_topology("1").unwrap());
    let kernel = vruntime_sched::kernel("6.12").unwrap();
    let strict = Config { duration: Some(1000 * MS), ..Config::new(kernel, spec) };
    assert!(simulate(&workload, &strict, &mut vruntime_trace::NoSink).is_err());
    let mut collector = Collector::new(1);
    let outcome = simulate(&workload, &Config { end_if_refused: false, ..strict }, &mut collector).unwrap();
    let note = outcome.notes.iter().find(|note| note.contains("`big-1`")).expect("a note");
    assert!(note.contains("(EBUSY)") && note.contains("the kernel refused the call"), "{note}");
    let results = collector.into_results();
    let policies: Vec<_> = results.tasks.iter().map(|task| task.policy).collect();
    assert_eq!(policies[1..], [vruntime_sched::SchedPolicy::Deadline, vruntime_sched::SchedPolicy::Normal]);
    // A deadline task without work takes its whole budget.
    assert!((890 * MS..=910 * MS).contains(&results.tasks[1].account.cpu_ns), "{}", results.tasks[1].account.cpu_ns);
    assert_eq!(results.tasks[0].account.loops, 0);
}
