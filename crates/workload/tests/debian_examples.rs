//! The example files of Debian's rt-app package, where it is installed. They are not ours to copy.

use std::fs;
use std::path::{Path, PathBuf};

use vruntime_workload::rtapp::{self, Options};

#[path = "../../../tests/skip.rs"]
mod skip;

/// Every JSON file below `folder`.
fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            json_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
}

#[test]
fn every_example_is_read_and_every_part_is_named_as_one() {
    let mut files = Vec::new();
    json_files(Path::new("/usr/share/doc/rt-app/examples"), &mut files);
    files.sort();
    // Images of Debian for containers install packages without their documents.
    if files.is_empty() {
        skip::skip("there are no examples of Debian's rt-app package in /usr/share/doc/rt-app/examples");
        return;
    }
    let parts = files.iter().filter(|path| path.iter().any(|folder| folder == "merge")).count();
    assert!(parts >= 6 && files.len() - parts >= 18, "{files:?}");
    for path in files {
        let bytes = fs::read(&path).expect("the file was just listed");
        let name = path.display().to_string();
        let result = rtapp::parse(&name, &bytes, &Options::default());
        if name.contains("/merge/") {
            let error = result.expect_err(&name);
            let help = error.help().unwrap_or_default();
            assert!(
                help.contains("merge.py") || help.contains("events") || help.contains("`lock`"),
                "{name}: {error} {help}"
            );
        } else {
            let read = result.unwrap_or_else(|error| panic!("{name}: {error} at {:?}", error.location()));
            assert!(!read.workload.tasks.is_empty(), "{name}");
        }
    }
}
