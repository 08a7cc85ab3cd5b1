//! Recordings that cannot be replayed, and the places that errors name.

use crate::recorded::rules::Rules;
use crate::{ReadOptions, Recording, Replay, Setup};
use vruntime_sim::plan::Overrides;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/groups.pftrace");

#[test]
fn errors_name_the_file_and_say_how_to_mend_it() {
    let error = Recording::open("no/such/trace.dat", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read no/such/trace.dat: "), "{error}");
    let text = b"a-1 [000] d..2. 1.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    let error = Recording::from_bytes("waking.txt", text, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("waking.txt cannot be replayed, for it lacks "), "{error}");
    assert!(error.help().unwrap().contains("sched_switch"));
    assert!(error.in_text().is_none());
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let recording = Recording::open(TRACE, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &Setup::default()).unwrap();
    let unknown = Overrides { kernel: Some("9.9".to_owned()), ..Overrides::default() };
    let error = replay.plan(&unknown).unwrap_err();
    assert!(error.plan().is_some() && error.to_string().contains("`9.9`"), "{error}");
    let mut rules = Rules::default();
    rules.add("comm=nobody-has-this-name: nice=5").unwrap();
    let plan = replay.plan(&Overrides::default()).unwrap();
    let error = replay.what_if(plan, &rules, &[]).unwrap_err();
    assert_eq!(error.in_text().unwrap().location(), Some((1, 1)), "{error}");
    let small = ReadOptions { machine: Some(vruntime_sim::parse_topology("1").unwrap()), ..ReadOptions::default() };
    assert!(Recording::open(TRACE, &small).unwrap_err().to_string().contains("and the machine has 1"));
}

#[test]
fn a_replay_without_changes_is_the_replay_as_recorded() {
    let recording = Recording::open(TRACE, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &Setup::default()).unwrap();
    let plan = replay.plan(&Overrides::default()).unwrap();
    let what_if = replay.what_if(plan, &Rules::default(), &[]).unwrap();
    assert_eq!(what_if.workload, replay.recorded.workload);
    let (replayed, again) = (replay.run().unwrap(), replay.run_what_if(&what_if, &Rules::default()).unwrap());
    assert_eq!(replayed.results, again.results);
    // A task that is removed leaves no program behind.
    let name = replay.recorded.workload.tasks[0].name.clone();
    let thread = replay.recorded.threads.iter().find(|thread| thread.task == Some(0)).unwrap();
    let mut rules = Rules::default();
    rules.add(&format!("pid={}: remove", thread.pid)).unwrap();
    let without = replay.what_if(replay.plan(&Overrides::default()).unwrap(), &rules, &[]).unwrap();
    assert!(without.workload.tasks.iter().all(|task| task.name != name));
    assert_eq!(without.workload.tasks.len() + 1, what_if.workload.tasks.len());
}
