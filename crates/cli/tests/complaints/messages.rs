//! Errors, warnings and notes as JSON, for programs.

use super::support::{data, text};
use super::*;

/// The lines that a failing command prints for programs.
fn messages_as_json(arguments: &[&str]) -> Vec<serde_json::Value> {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    let output =
        command.current_dir(data("")).env("VRUNTIME_MESSAGES", "json").args(arguments).output().expect("it runs");
    assert!(output.stdout.is_empty() || output.status.success(), "{arguments:?}");
    text(&output.stderr).lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn json_messages_name_each_part() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file =
        written(folder.path(), "two.json", "{\"tasks\": {\n  \"a\": {\"run\": \"x\"},\n  \"b\": {\"loop\": \"y\"}}}");
    let messages = messages_as_json(&["run", &file]);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["level"], "error");
    assert_eq!(messages[0]["message"], "`run` is a string");
    assert_eq!(messages[0]["label"], "expected a number of microseconds");
    assert_eq!(
        (&messages[0]["file"], &messages[0]["line"], &messages[0]["column"]),
        (&file.into(), &2.into(), &16.into())
    );
    assert_eq!((&messages[1]["line"], &messages[1]["message"]), (&3.into(), &"`loop` is a string".into()));
    let shown = messages[0]["text"].as_str().expect("all of it, too");
    assert!(shown.contains("╰── expected a number of microseconds") && !shown.contains('\u{1b}'), "{shown}");

    let [missing] = &messages_as_json(&["run", "nowhere.json"])[..] else { panic!("it is one error") };
    assert_eq!(missing["message"], "cannot read nowhere.json");
    assert_eq!(missing["causes"], serde_json::json!(["No such file or directory (os error 2)"]));
    assert!(missing["help"].is_string() && missing.get("line").is_none());

    let [mistake] = &messages_as_json(&["run", "beat.json", "--nothing"])[..] else { panic!("it is one error") };
    assert_eq!(mistake["message"], "unexpected argument '--nothing' found");
    assert!(mistake["text"].as_str().is_some_and(|text| text.contains("Usage: vruntime run")));
    assert!(mistake["help"].as_str().is_some_and(|help| help.contains("'-- --nothing'")), "{mistake}");
    let [missing] = &messages_as_json(&["compare"])[..] else { panic!("it is one error") };
    assert_eq!(missing["message"], "the following required arguments were not provided: <FILE>...");
    assert_eq!(messages_as_json(&[])[0]["message"], "a command is missing");
}

#[test]
fn json_messages_have_notes_and_warnings() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = written(folder.path(), "odd.json", "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1, \"rum\": 2}}}");
    let messages = messages_as_json(&["run", &file, "--json"]);
    assert_eq!((messages.len(), &messages[0]["level"]), (1, &"warning".into()), "{messages:?}");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo/demo.toml");
    let messages = messages_as_json(&["run", demo.to_str().expect("a path in UTF-8"), "--duration", "2s"]);
    assert_eq!((messages.len(), &messages[0]["level"]), (1, &"note".into()), "{messages:?}");
    assert!(messages[0]["message"].as_str().is_some_and(|text| text.starts_with("the file names several kernels")));
}
