//! What a reviewer would say of any file: how long it and its lines may be (CONTRIBUTING.md, "How code reads here").

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file at most.
const LINES: usize = 700;
/// Columns of a comment at most, unless it is a table or code. rustfmt breaks code there, but not comments.
const COMMENT: usize = 120;
/// Columns of any other line at most: rustfmt does not break strings.
const COLUMNS: usize = 160;

/// Every Rust file of the project below `folder`, by its path from there.
fn sources(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of the project can be read").flatten() {
        let path = folder.join(entry.file_name());
        let kind = entry.file_type().expect("what is there is of some kind");
        // Cargo's output is not checked.
        if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            sources(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What is beyond its measure in a file.
fn too_long(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > LINES {
        found.push(format!("{path}: {lines} lines, the most is {LINES}: split it along its subjects"));
    }
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let width = line.chars().count();
        let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start());
        is_code = comment.is_some_and(|comment| comment.starts_with("```") != is_code);
        let is_prose = comment.is_some_and(|comment| !is_code && !comment.starts_with('|'));
        let columns = if is_prose { COMMENT } else { COLUMNS };
        if width > columns {
            found.push(format!("{path}:{}: {width} columns, the most is {columns}: break it", index + 1));
        }
    }
    found
}

#[test]
fn no_file_and_no_line_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    sources(&root, Path::new(""), &mut paths);
    paths.sort();
    assert!(paths.iter().any(|path| path == Path::new("crates/xtask/tests/tidy.rs")), "{paths:?}");
    let read = |path: &PathBuf| fs::read_to_string(root.join(path)).expect("a source file is text");
    let found: Vec<String> = paths.iter().flat_map(|path| too_long(&path.display().to_string(), &read(path))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// At the edges.
#[test]
fn what_is_too_long_is_found() {
    let lines = |count: usize| "\n".repeat(count);
    assert_eq!(too_long("a.rs", &lines(LINES)), [""; 0]);
    let output = too_long("a.rs", &lines(LINES + 1));
    assert_eq!(output, ["a.rs: 701 lines, the most is 700: split it along its subjects"]);
    // Columns, not bytes.
    let line = |columns: usize| format!("\n{}\n", "…".repeat(columns));
    assert_eq!(too_long("a.rs", &line(COLUMNS)), [""; 0]);
    assert_eq!(too_long("a.rs", &line(COLUMNS + 1)), ["a.rs:2: 161 columns, the most is 160: break it"]);
    let comment = |columns: usize| format!("    //! {}\n", "…".repeat(columns - 8));
    assert_eq!(too_long("a.rs", &comment(COMMENT)), [""; 0]);
    assert_eq!(too_long("a.rs", &comment(COMMENT + 1)), ["a.rs:1: 121 columns, the most is 120: break it"]);
    // Tables and code cannot be broken.
    let long = comment(COMMENT + 1);
    assert_eq!(too_long("a.rs", &long.replacen('…', "|", 1)), [""; 0]);
    let output = too_long("a.rs", &format!("/// ```\n{long}/// ```\n{long}"));
    assert_eq!(output, ["a.rs:4: 121 columns, the most is 120: break it"]);
}
