//! The texts of the project keep to the rules of CONTRIBUTING.md ("How text reads here"), or have no more findings than
//! `crates/xtask/prose.txt` allows.
#![allow(dead_code, unused_imports, unused_macros, reason = "the command prints more than this test needs")]

use std::path::Path;

#[path = "../src/print.rs"]
mod print;
#[path = "../src/prose/mod.rs"]
mod prose;

#[test]
fn texts_have_no_new_findings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked = prose::check(&root).expect("the texts can be read");
    let allowed = prose::Counts::read(&root.join(prose::ALLOWED)).expect("the numbers can be read");
    let found = checked.counts();
    let above = allowed.above(&found);
    for line in allowed.below(&found) {
        eprintln!("lower the number in {} (`cargo xtask prose --update`): {line}", prose::ALLOWED);
    }
    let units: Vec<&str> = above.iter().filter_map(|line| line.rsplit_once(": ")).map(|(unit, _)| unit).collect();
    let findings = checked.findings.iter().filter(|finding| units.contains(&finding.unit.as_str()));
    let findings: Vec<String> = findings.map(ToString::to_string).collect();
    let shown = findings.len().min(60);
    assert!(
        above.is_empty(),
        "{}\n`cargo xtask prose PATH` prints all findings; the first are\n{}",
        above.join("\n"),
        findings[..shown].join("\n")
    );
}

/// Every group of texts is there: a folder that moves is not skipped.
#[test]
fn every_group_is_checked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked = prose::check(&root).expect("the texts can be read");
    let groups: Vec<&str> = checked.measures.keys().copied().collect();
    assert_eq!(groups, ["docs", "front", "help", "rustdoc"]);
}
