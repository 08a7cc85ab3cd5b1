//! Hostile traces for replays. The tests of `vruntime-trace` read traces of events alone, those of `vruntime-workload`
//! workloads.

use std::path::Path;

#[path = "../../../fuzz/replays.rs"]
mod replays;

/// The seeds and the kept inputs of the replay fuzzer.
#[test]
fn the_fuzzers_corpus_is_replayed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/replay");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(corpus).expect("there is a corpus") {
        let path = entry.expect("it can be listed").path();
        let replayed = replays::replay(&std::fs::read(&path).expect("it was just listed"));
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
        // Those that it begins with are as they should be, and their rules make a difference.
        let tasks = match name.as_str() {
            "births.txt" => Some([3, 3]),
            "wakes.txt" => Some([2, 2]),
            "groups.txt" => Some([3, 4]),
            "removed.txt" => Some([2, 1]),
            "rule.txt" => Some([2, 4]),
            _ => None,
        };
        if let Some(tasks) = tasks {
            assert!(replayed.events > 5 && replayed.refused.is_empty(), "{name}: {replayed:?}");
            assert_eq!(replayed.tasks, tasks, "{name}: {replayed:?}");
            names.push(name);
        }
    }
    assert_eq!(names.len(), 5, "{names:?}");
}
