//! `vruntime new-policy`: the created crate, and its command.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{fails, well};

fn checkout() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

#[test]
fn a_crate_is_created_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    let stdout = well(&["new-policy", "mine", "--folder", path.to_str().unwrap()]);
    assert!(stdout.contains("compare scenario.toml --kernel 6.18 --kernel mine"), "{stdout}");
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(path.join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("mine"));
    let named = manifest["dependencies"]["vruntime"]["path"].as_str().unwrap();
    assert_eq!(Path::new(named), checkout().join("crates/cli"));
    assert!(fs::read_to_string(path.join("src/main.rs")).unwrap().contains("(\"mine\")"));
    let again = fails(&["new-policy", "mine", "--folder", path.to_str().unwrap()]);
    assert!(again.contains("exists already") && again.contains("--folder"), "{again}");
    // The built-in kernels run its scenario.
    let scenario = path.join("scenario.toml");
    well(&["run", scenario.to_str().unwrap(), "--duration", "100ms"]);
}

#[test]
fn names_and_checkouts_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x").display().to_string();
    for (name, why) in
        [("6.12", "not a name of a policy"), ("a b", "not a name of a policy"), ("match", "cannot be called")]
    {
        let error = fails(&["new-policy", name, "--folder", &path]);
        assert!(error.contains(why) && error.contains("help: "), "{error}");
    }
    let error = fails(&["new-policy", "mine", "--folder", &path, "--vruntime", folder.path().to_str().unwrap()]);
    assert!(error.contains("is no checkout of vruntime") && error.contains("git clone"), "{error}");
    assert!(!Path::new(&path).exists(), "nothing is written");
    let error = fails(&["run", "beat.json", "--kernel", "mine"]);
    assert!(error.contains("mine"), "{error}");
}

/// The template compiles, its tests pass, and its command compares the policy with a built-in kernel.
#[test]
#[ignore = "builds the command again, which takes minutes"]
fn the_crate_is_a_command_with_the_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    well(&["new-policy", "mine", "--folder", path.to_str().unwrap()]);
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&path).args(arguments).env("CARGO_TARGET_DIR", checkout().join("target/new-policy"));
        let output = command.env("NO_COLOR", "1").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let tests = cargo(&["test", "--offline"]);
    assert!(tests.contains("tasks_run_in_turn ... ok"), "{tests}");
    let compare = ["run", "--offline", "-q", "--", "compare", "scenario.toml", "--kernel", "6.18", "--kernel", "mine"];
    let compare = [&compare[..], &["--duration", "1s", "--repeat", "2"]].concat();
    let table = cargo(&compare);
    assert!(table.contains("mine: scenario under policy mine on Linux 6.12"), "{table}");
    assert!(table.contains("6.18: scenario under Linux 6.18"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&cargo(&[&compare[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["variants"], serde_json::json!(["6.18", "mine"]));
    let digest = |side: usize| json["runs"][side]["observed"][0]["digest"].clone();
    assert_ne!(digest(0), digest(1), "the policy schedules");
    let kernels = cargo(&["run", "--offline", "-q", "--", "kernels"]);
    assert!(kernels.lines().any(|line| line.starts_with("mine ") && line.contains("your policy")), "{kernels}");
}
