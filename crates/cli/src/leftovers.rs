//! Removes files of an earlier run of the same command, which would look like results of this run.
//!
//! A list in the folder has each file and its writer. Files of users, of other commands or in other formats stay.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{inputs, output_file};

/// The name of the list.
const LIST: &str = ".vruntime-files";

/// Removes files of `writer` in `folder` that are not in `written`, and lists the files in `written`.
///
/// # Errors
///
/// If a file cannot be removed, or the list cannot be read or written.
pub(crate) fn replace(folder: &Path, writer: &str, written: &BTreeSet<String>) -> io::Result<()> {
    let list = folder.join(LIST);
    let before = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let (ours, others): (Vec<_>, Vec<_>) = before
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(_, name)| is_plain(name))
        .partition(|(by, _)| *by == writer);
    for (_, name) in ours {
        let path = folder.join(name);
        // Inputs of the command stay.
        if written.contains(name) || inputs::check_output(&path).is_err() {
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let others = others.into_iter().filter(|(_, name)| !written.contains(*name));
    let lines = others.chain(written.iter().map(|name| (writer, name.as_str())));
    let text: String = lines.flat_map(|(by, name)| [by, "\t", name, "\n"]).collect();
    if text == before { Ok(()) } else { output_file::write(&list, text.as_bytes()) }
}

/// Whether the name is without folders.
fn is_plain(name: &str) -> bool {
    PathBuf::from(name).file_name().is_some_and(|file| file == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_same_writer_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, outside) = (folder.path().join("in"), folder.path().join("outside"));
        fs::create_dir(&path).unwrap();
        let there = || {
            let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name != LIST).collect::<BTreeSet<String>>()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        for name in ["a", "b", "c", "mine"] {
            fs::write(path.join(name), "").unwrap();
        }
        fs::write(&outside, "").unwrap();
        replace(&path, "run csv", &names(&["a", "b"])).unwrap();
        replace(&path, "trace csv", &names(&["c"])).unwrap();
        assert_eq!(there(), names(&["a", "b", "c", "mine"]));
        replace(&path, "run csv", &names(&["a"])).unwrap();
        assert_eq!(there(), names(&["a", "c", "mine"]));
        // A file belongs to its last writer.
        replace(&path, "trace csv", &names(&["a", "c"])).unwrap();
        replace(&path, "run csv", &names(&[])).unwrap();
        assert_eq!(there(), names(&["a", "c", "mine"]));
        // Names outside the folder are ignored.
        fs::write(path.join(LIST), "run csv\t../outside\nrun csv\t/tmp\n").unwrap();
        replace(&path, "run csv", &names(&[])).unwrap();
        assert!(outside.exists());
    }
}
