//! Whatever the bytes, an answer: never a panic, never a hang.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[path = "../../../tests/mutate.rs"]
mod mutate;

use mutate::mutate;
use proptest::prelude::*;
use vruntime_workload::program::Workload;
use vruntime_workload::rtapp::{self, Options};
use vruntime_workload::{Error, SourceMap, check, recording, scenario};

/// Few tasks, so that thousands of files are read in the time of one.
fn options(strict: bool) -> Options {
    Options { strict, max_tasks: 1000 }
}

/// What the checks find can be shown, and no reader makes references to what is not there.
fn is_sound(workload: &Workload, source_map: &SourceMap) {
    for error in check::check(workload, source_map) {
        can_be_shown(&error);
        assert!(!error.message().contains("does not exist"), "{error}");
    }
    let names: BTreeSet<_> = workload.tasks.iter().map(|task| &task.name).collect();
    assert_eq!(names.len(), workload.tasks.len(), "two tasks have one name");
}

/// Every place of an error can be shown.
fn can_be_shown(error: &Error) {
    for error in error.all() {
        assert!(!error.message().is_empty());
        if let Some(span) = error.span() {
            assert!(error.source_text().text().get(span).is_some());
            assert!(error.location().is_some());
        }
    }
}

fn read_rtapp(bytes: &[u8]) {
    for strict in [false, true] {
        match rtapp::parse("fuzz.json", bytes, &options(strict)) {
            Ok(read) => {
                read.warnings.iter().for_each(can_be_shown);
                is_sound(&read.workload, &read.source_map);
            }
            Err(error) => can_be_shown(&error),
        }
    }
}

fn read_scenario(bytes: &[u8]) {
    let loader = &mut |path: &Path| match path.to_str() {
        Some("a.json") => Ok(br#"{ "tasks" : { "a" : { "run" : 1, "suspend" } } }"#.to_vec()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    match scenario::parse("fuzz.toml", bytes, &options(false), loader) {
        Ok(read) => {
            read.warnings.iter().for_each(can_be_shown);
            is_sound(&read.workload, &read.source_map);
        }
        Err(error) => can_be_shown(&error),
    }
}

/// The committed inputs of the fuzz target `name`.
fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "the corpus of {name} is missing");
    paths
}

fn corpus_bytes(name: &str) -> Vec<Vec<u8>> {
    corpus(name).iter().map(|path| fs::read(path).expect("it was just listed")).collect()
}

#[test]
fn the_corpus_of_rtapp_is_read() {
    for bytes in corpus_bytes("rtapp") {
        read_rtapp(&bytes);
    }
}

#[test]
fn the_corpus_of_scenarios_is_read() {
    for bytes in corpus_bytes("scenario") {
        read_scenario(&bytes);
    }
}

#[test]
fn files_cut_off_anywhere_are_answered() {
    for bytes in corpus_bytes("rtapp") {
        (0..bytes.len()).for_each(|end| read_rtapp(&bytes[..end]));
    }
    for bytes in corpus_bytes("scenario") {
        (0..bytes.len()).for_each(|end| read_scenario(&bytes[..end]));
    }
}

/// Each of these would take minutes if reading it were quadratic.
#[test]
fn long_files_are_read_in_linear_time() {
    let tasks = |task: &dyn Fn(usize) -> String, count: usize| {
        let tasks: String = (0..count).flat_map(|number| [task(number), ",\n".to_owned()]).collect();
        format!("{{ \"tasks\" : {{ {tasks} }} }}").into_bytes()
    };
    read_rtapp(&tasks(&|_| r#""a" : { "run" : 1 }"#.to_owned(), 100_000));
    let many = Options { strict: false, max_tasks: 1 << 20 };
    let same = tasks(&|_| r#""a" : { "run" : 1 }"#.to_owned(), 100_000);
    assert_eq!(rtapp::parse("same.json", &same, &many).map(|read| read.workload.tasks.len()).ok(), Some(100_000));
    let forks =
        tasks(&|n| format!(r#""t{n}" : {{ "fork" : "t{}", "resume" : "x{n}", "run" : 1 }}"#, (n + 1) % 50_000), 50_000);
    let read = rtapp::parse("forks.json", &forks, &many).expect("it is right");
    assert!(!check::check(&read.workload, &read.source_map).is_empty());
    let events = |event: &dyn Fn(usize) -> String| {
        let events: String = (0..100_000).flat_map(|number| [event(number), ",\n".to_owned()]).collect();
        format!("{{ \"tasks\" : {{ \"a\" : {{ {events} }} }} }}").into_bytes()
    };
    read_rtapp(&events(&|_| r#""run" : 1"#.to_owned()));
    read_rtapp(&events(&|n| format!(r#""unknown{n}" : 1"#)));
    read_rtapp(&events(&|n| format!(r#""timer" : {{ "ref" : "unique{n}", "period" : 1 }}"#)));
    read_rtapp(&events(&|n| format!(r#""lock" : "m{n}""#)));
    read_rtapp(&events(&|_| r#""phases" : {}"#.to_owned()));
    read_rtapp("[".repeat(1_000_000).as_bytes());
    read_rtapp("\"".repeat(1_000_000).as_bytes());
    read_rtapp("/*".repeat(1_000_000).as_bytes());
    read_rtapp("// \n".repeat(300_000).as_bytes());
    read_scenario("[[task]]\n".repeat(50_000).as_bytes());
    read_scenario("[".repeat(100_000).as_bytes());
    read_scenario(format!("a = {}", "[".repeat(100_000)).as_bytes());
    let many_copies =
        "[[workload]]\ncopies = 1000000\nrtapp_inline = '{ \"tasks\" : {} }'\ngroup = \"/a-{copy}/b/c/d/e/f\"\n";
    read_scenario(many_copies.repeat(1000).as_bytes());
    read_scenario("a.".repeat(100_000).as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_rtapp(&bytes);
        read_scenario(&bytes);
        if let Err(error) = recording::parse("fuzz.json", &bytes) {
            can_be_shown(&error);
        }
    }

    #[test]
    fn any_text_of_json_like_words(words in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"tasks\"", "\"global\"", "\"a\"", "\"run\"", "\"suspend\"", "\"timer\"", "\"phases\"",
        "\"instance\"", "\"fork\"", "\"loop\"", "\"ref\"", "\"period\"", "\"lock\"", "\"cpus\"", "\"unique\"", "0", "-1", "1e9", "\"é\"",
        "9999999999999999999", "true", "null", "/* c */", "// c\n", "'", "\\", "\u{feff}",
    ]), 0..60)) {
        read_rtapp(words.join(" ").as_bytes());
    }

    #[test]
    fn garbled_files(
        which in any::<prop::sample::Index>(),
        mutations in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..8),
    ) {
        for name in ["rtapp", "scenario"] {
            let files = corpus_bytes(name);
            let mut bytes = which.get(&files).clone();
            for (at, kind, byte) in &mutations {
                mutate(&mut bytes, *at, *kind, *byte);
            }
            if name == "rtapp" { read_rtapp(&bytes) } else { read_scenario(&bytes) }
        }
    }
}
