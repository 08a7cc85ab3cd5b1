//! `vruntime reproduce`.

use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn vruntime(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    command.env("NO_COLOR", "1").env("COLUMNS", "100").args(arguments);
    command.output().expect("it runs")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("it prints UTF-8")
}

/// Simulated experiments, and so their claims, are the same everywhere.
#[test]
fn simulated_experiments_show_what_they_must() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    let output = vruntime(&["reproduce", "spurious-migration", "--json", "--out", out]);
    assert!(output.status.success(), "{}", text(output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let left = std::fs::read(folder.path().join("reproduce.json")).expect("it was left");
    assert_eq!(serde_json::from_slice::<Value>(&left).expect("JSON"), printed);
    let claims = printed[0]["claims"].as_array().expect("an array");
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| claim["met"] == true), "{claims:?}");
    // The published figures are beside ours, in every chart.
    let series = printed[0]["charts"][0]["series"].as_array().expect("an array");
    assert!(series.iter().any(|one| one["published"] == true) && series.iter().any(|one| one["published"] == false));
}

#[test]
fn the_text_fits_a_terminal_and_ends_with_the_count() {
    let output = vruntime(&["reproduce", "spurious-migration"]);
    let text = text(output.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("\nmigration/0") && text.contains("\nHow it is measured\n"), "{text}");
    assert!(text.ends_with("3 of 3 claims met\n"), "{text}");
}

/// Runs of minutes do not begin without a writable folder.
#[test]
fn a_folder_that_cannot_be_written_is_reported_before_the_runs() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let out = file.path().join("out").display().to_string();
    let output = vruntime(&["reproduce", "spurious-migration", "--out", &out]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(output.stdout), "", "nothing was run");
    let stderr = text(output.stderr);
    assert!(stderr.contains("cannot make the folder") && stderr.contains("out"), "{stderr}");
}

#[test]
fn an_unknown_experiment_lists_the_known_ones() {
    let output = vruntime(&["reproduce", "lat-ctx"]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(output.stderr);
    assert!(text.contains("spurious-migration") && text.contains("idle-groups"), "{text}");
}
