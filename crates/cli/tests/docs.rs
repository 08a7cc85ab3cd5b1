//! What the documents print is what the command prints: each block that begins with `$ vruntime run` or `compare` and a
//! scenario of this repository is run, and each of its lines has to be among those it prints. Others that a block
//! leaves out may be there.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command of a block and the lines below it, if it is one command of those that can be run here.
fn command(block: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let mut lines = block.lines();
    let arguments: Vec<&str> = lines.next()?.strip_prefix("$ vruntime ")?.split_whitespace().collect();
    let printed: Vec<&str> = lines.map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let plain = matches!(arguments.first(), Some(&("run" | "compare"))) && arguments.get(1)?.starts_with("scenarios/");
    // Benchmarks print their own command lines.
    let one = !printed.iter().any(|line| line.starts_with("$ vruntime"));
    (plain && one && !printed.is_empty()).then_some((arguments, printed))
}

#[test]
fn documents_print_what_the_command_prints() {
    let mut checked = 0;
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("there are documents")
        .filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.extension().is_some_and(|kind| kind == "md")))
        .collect();
    pages.sort();
    let mut stale = String::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a document is text");
        for (arguments, printed) in text.split("```\n").filter_map(command) {
            checked += 1;
            let mut vruntime = Command::cargo_bin("vruntime").expect("cargo has built it");
            let output = vruntime.current_dir(root()).args(&arguments).output().expect("it runs");
            if !output.status.success() {
                // What is refused is told on standard error, as wide as the terminal is.
                continue;
            }
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            let found: Vec<&str> = output.lines().map(str::trim_end).collect();
            for line in printed.iter().filter(|line| !found.contains(line)) {
                stale.extend([&page.display().to_string(), ": ", &arguments.join(" "), ": ", line, "\n"]);
            }
        }
    }
    assert!(checked >= 5, "only {checked} blocks were found");
    assert!(stale.is_empty(), "lines of documents that the command does not print:\n{stale}");
}
