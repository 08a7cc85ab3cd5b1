//! The command's built-in examples, and the scenario of `vruntime init`.

mod support;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use support::*;
use tempfile::TempDir;

fn empty() -> TempDir {
    tempfile::tempdir().expect("there is a folder for temporary files")
}

/// Runs the command in a folder. Returns the exit status, standard output and standard error.
fn run_in(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    command.current_dir(folder).env("NO_COLOR", "1").env("COLUMNS", "100").args(arguments);
    let output = command.output().expect("it runs");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// As [`run_in`]; the command must succeed with nothing on standard error.
fn quietly(folder: &Path, arguments: &[&str]) -> String {
    let (status, out, err) = run_in(folder, arguments);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

fn digest(printed: &str) -> &str {
    printed.lines().find(|line| line.starts_with("seed 1 digest ")).unwrap_or_else(|| panic!("no digest: {printed}"))
}

fn listed() -> Vec<(String, String)> {
    let list = json(&["example", "--json"]);
    let field = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let rows = list.as_array().expect("an array");
    rows.iter().map(|row| (field(row, "example"), field(row, "file"))).collect()
}

#[test]
fn every_example_runs_by_name_from_its_file_and_from_what_is_printed() {
    let folder = empty();
    let examples = listed();
    let names: Vec<&str> = examples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["demo", "web", "build", "phone", "real-time"]);
    for (name, file) in &examples {
        // A single run says on standard error that it takes the first kernel of several.
        // In rt-app files a comment is a warning, and those of the demo have some.
        let options = ["--kernel", "6.12", "--strict"];
        let kernel = if name == "demo" { &options[..2] } else { &options[..] };
        let by_name = quietly(folder.path(), &[&["run", name], kernel].concat());
        let head = format!("{name} (embedded example) under Linux 6.12 on ");
        assert!(by_name.starts_with(&head), "{by_name}");
        let in_repository = data("../../../..").join(file);
        let file = in_repository.to_str().expect("a path in UTF-8");
        let by_file = quietly(folder.path(), &[&["run", file], kernel].concat());
        assert!(by_file.starts_with(&format!("{name} under Linux 6.12 on ")), "{by_file}");
        let copy = format!("{name}-copy.toml");
        fs::write(folder.path().join(&copy), quietly(folder.path(), &["example", name])).expect("it can be written");
        let by_copy = quietly(folder.path(), &[&["run", &copy], kernel].concat());
        assert_eq!([digest(&by_name), digest(&by_file)], [digest(&by_copy); 2], "{name}");
    }
    // Each differs from the others, and those that name no other file are printed as they are.
    for (name, file) in examples.iter().filter(|(name, _)| name != "demo") {
        let written = fs::read_to_string(data("../../../..").join(file)).expect("it is there");
        assert_eq!(quietly(folder.path(), &["example", name]), written, "{name}");
    }
}

/// The commands in an example's comments run in an empty folder.
#[test]
fn commands_in_examples_run() {
    let folder = empty();
    let mut tried = 0;
    for (name, _) in listed() {
        let printed = quietly(folder.path(), &["example", &name]);
        for line in printed.lines().filter_map(|line| line.strip_prefix("#   vruntime ")) {
            // What stands behind the command is for people.
            let command = line.split("   ").next().unwrap_or_default();
            let (mut arguments, mut quoted) = (vec![String::new()], false);
            for c in command.trim().chars() {
                match c {
                    '\'' => quoted = !quoted,
                    ' ' if !quoted => arguments.push(String::new()),
                    c => arguments.last_mut().expect("there is one").push(c),
                }
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--duration", "1s"]).collect();
            let (status, out, err) = run_in(folder.path(), &arguments);
            assert_eq!(status, Some(0), "{line}: {err}");
            assert!(out.contains(&format!("{name} (embedded example) under Linux ")), "{line}: {out}");
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn comparisons_name_embedded_examples() {
    let folder = empty();
    let compared = quietly(folder.path(), &["compare", "demo"]);
    assert!(compared.starts_with("6.1: demo (embedded example) under Linux 6.1 on "), "{compared}");
    assert!(compared.contains("\n6.12: demo (embedded example) under Linux 6.12 on "), "{compared}");
    let both = quietly(folder.path(), &["compare", "web", "phone"]);
    assert!(both.starts_with("web, 4 CPUs: web (embedded example) under Linux 6.12 on 4 CPUs"), "{both}");
    assert!(fs::read_dir(folder.path()).expect("it is there").next().is_none(), "nothing is left");
}

#[test]
fn a_file_or_a_folder_of_the_name() {
    let folder = empty();
    let run = ["run", "web", "--duration", "5s"];
    // A folder is no workload, so the example is meant.
    fs::create_dir(folder.path().join("web")).expect("a folder can be made");
    assert!(quietly(folder.path(), &run).starts_with("web (embedded example) "));
    fs::remove_dir(folder.path().join("web")).expect("it is empty");
    fs::write(folder.path().join("web"), "machine = \"2\"\n[[task]]\nname = \"mine\"\nrun = \"1ms\"\n")
        .expect("written");
    let mine = quietly(folder.path(), &run);
    assert!(mine.starts_with("web under Linux 6.12 on 2 CPUs") && mine.contains("\nmine "), "{mine}");
    let (status, _, err) = run_in(folder.path(), &["run", "./demo"]);
    assert!(status == Some(1) && err.contains("cannot read ./demo"), "a path is no name of an example: {err}");
}

#[test]
fn names_that_are_none_are_reported_with_the_nearest() {
    let folder = empty();
    let error_of = |arguments: &[&str]| {
        let (status, out, err) = run_in(folder.path(), arguments);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{arguments:?}");
        err.split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    for command in ["run", "compare"] {
        let err = error_of(&[command, "dmeo"]);
        assert!(err.contains("cannot read dmeo"), "{err}");
        assert!(err.contains("did you mean the embedded example `demo`? `vruntime example` lists all"), "{err}");
    }
    assert!(error_of(&["run", "phone.toml"]).contains("embedded example `phone`"));
    assert!(error_of(&["run", "nothing-alike"]).contains("`vruntime example` lists the embedded examples"));
    let err = error_of(&["example", "dmeo"]);
    assert!(err.contains("invalid value 'dmeo'") && err.contains("'demo'"), "{err}");
    // A file that is nearly called so is suggested first.
    fs::write(folder.path().join("demoy"), "").expect("it can be written");
    let err = error_of(&["run", "demox"]);
    assert!(err.contains("did you mean demoy? An embedded example has the name `demo`"), "{err}");
}

#[test]
fn the_list_has_a_line_each() {
    let list = well(&["example"]);
    for (name, file) in listed() {
        let line = list.lines().find(|line| line.starts_with(&format!("{name} "))).expect("a line");
        let written = fs::read_to_string(data("../../../..").join(file)).expect("it is there");
        let described = line[name.len()..].trim();
        assert!(written.contains(&format!("\ndescription = \"{described}\"\n")), "{line}");
    }
    assert!(well(&["completions", "bash"]).contains("demo web build phone real-time"));
    assert!(fails(&["example", "demo", "--json"]).contains("cannot be used with"));
}

#[test]
fn init_writes_a_scenario_that_runs_and_overwrites_nothing() {
    let folder = empty();
    let path = folder.path().join("scenario.toml");
    let stdout = quietly(folder.path(), &["init"]);
    assert_eq!(stdout, "wrote scenario.toml; run it: vruntime run scenario.toml\n");
    let written = fs::read_to_string(&path).expect("it was written");
    assert_eq!(written, quietly(folder.path(), &["init", "-"]));
    let run = quietly(folder.path(), &["run", "scenario.toml", "--strict"]);
    assert!(run.starts_with("scenario under Linux 6.12 on 4 CPUs"), "{run}");
    assert!(["worker x4 ", "job x4 ", "/web ", "/batch "].iter().all(|row| run.contains(row)), "{run}");

    fs::write(&path, "mine").expect("it can be written");
    let (status, out, err) = run_in(folder.path(), &["init"]);
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(err.contains("scenario.toml exists already") && err.contains("--force"), "{err}");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "mine");
    quietly(folder.path(), &["init", "--force"]);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), written);

    quietly(folder.path(), &["init", "my shop.toml"]);
    assert!(quietly(folder.path(), &["run", "my shop.toml"]).starts_with("my shop under "));
    let (status, _, err) = run_in(folder.path(), &["init", "shop.json"]);
    assert!(status == Some(1) && err.contains("name shop.toml"), "{err}");
    let (status, _, err) = run_in(folder.path(), &["init", "none/shop.toml"]);
    assert!(status == Some(1) && err.contains("there is no folder none"), "{err}");
}

/// Every alternative in the scenario of `init` runs: each line and block without its `#`.
#[test]
fn alternatives_of_init_run() {
    let folder = empty();
    let written = quietly(folder.path(), &["init", "-"]);
    fs::write(folder.path().join("app.json"), r#"{ "tasks": { "a": { "run": 1000, "sleep": 1000 } } }"#)
        .expect("written");
    let lines: Vec<&str> = written.lines().collect();
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned()).filter(|key| !key.contains(' '));
    let mut tried = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let start = index;
        index += 1;
        let Some(alternative) = lines[start].strip_prefix("# ") else { continue };
        let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        if alternative.starts_with('[') {
            // A block ends before the next line that is no comment.
            while index < lines.len() && lines[index].starts_with('#') {
                index += 1;
            }
            for line in &mut changed[start..index] {
                *line = line.trim_start_matches("# ").trim_start_matches('#').to_owned();
            }
        } else if let Some(key) = key(alternative) {
            alternative.clone_into(&mut changed[start]);
            // What it is instead of stands above it in the same table.
            let table = lines[..start].iter().rposition(|line| line.starts_with('[')).unwrap_or(0);
            let instead = |line: &str| {
                let of = line.split_once(" = ").map(|(other, _)| other);
                of == Some(key.as_str()) || of == Some("weight") && key == "idle"
            };
            changed[table..start].iter_mut().filter(|line| instead(line)).for_each(String::clear);
            // Pairs: a limit and its burst, a policy and its priority.
            let needs = [("burst", "max"), ("priority", "policy")].iter().find(|(what, _)| *what == key);
            if let Some((_, needed)) = needs {
                let line = (table..start).find(|&line| lines[line].starts_with(&format!("# {needed} = ")));
                let line = line.expect("it stands above");
                changed[line] = lines[line][2..].to_owned();
            }
        } else {
            continue;
        }
        fs::write(folder.path().join("changed.toml"), changed.join("\n")).expect("it can be written");
        let (status, _, err) =
            run_in(folder.path(), &["run", "changed.toml", "--duration", "3s", "--kernel", "6.12", "--strict"]);
        assert_eq!(status, Some(0), "{alternative}: {err}");
        tried.push(alternative);
    }
    assert!(tried.len() >= 17, "{tried:#?}");
    assert!(tried.iter().any(|tried| tried.starts_with("[[change]]")), "{tried:#?}");
}
