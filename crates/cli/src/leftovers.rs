//! Removes files of an earlier run of the same command, which would look like results of this run.
//!
//! A list in the folder distinguishes them from the user's files: a line for each file, with its writer. All commands
//! that write to `--out` count as one writer. So do the tables of one command, in any format.
//!
//! Files may be in a subfolder. The list has the length and the time of each such file: a file that changed since is
//! the user's, and stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path};
use std::time::UNIX_EPOCH;

use miette::{IntoDiagnostic, WrapErr};

use crate::{inputs, output_file};

/// The name of the list.
pub(crate) const LIST: &str = ".vruntime-files";
/// The end of the names of writers to `--out`.
const OUT: &str = " --out";
/// What stands between the command and the format in the names of writers of tables.
const TABLES: &str = " --tables ";

/// Removes files of `writer` in `folder` that are not in `written`, and lists the files in `written`.
///
/// # Errors
///
/// If a file cannot be removed, or the list cannot be read or written.
pub(crate) fn replace(folder: &Path, writer: &str, written: &BTreeSet<String>) -> io::Result<()> {
    update(folder, writer, written, false).map(drop)
}

/// As [`replace`], for the tables of `command` in files that end in `ending`. Returns each other command with tables
/// that stay in the folder, and the number of these tables.
///
/// # Errors
///
/// As [`replace`].
pub(crate) fn replace_tables(
    folder: &Path,
    command: &str,
    ending: &str,
    written: &BTreeSet<String>,
) -> io::Result<BTreeMap<String, usize>> {
    let mut others = BTreeMap::new();
    for (by, name) in update(folder, &format!("{command}{TABLES}{ending}"), written, false)? {
        if let Some((command, _)) = by.split_once(TABLES)
            && folder.join(name).exists()
        {
            *others.entry(command.to_owned()).or_default() += 1;
        }
    }
    Ok(others)
}

/// Removes what any command left in its folder of `--out`, after `command` wrote the files in `written`. These may be
/// in subfolders: `6.12/digest`. Removes subfolders that are then empty.
///
/// # Errors
///
/// As [`replace`].
pub(crate) fn replace_out(folder: &Path, command: &str, written: &BTreeSet<String>) -> miette::Result<()> {
    update(folder, &format!("{command}{OUT}"), written, true)
        .map(drop)
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot remove the files of an earlier run from {}", folder.display()))
}

/// Whether both are one writer: the names are equal, both commands write to `--out`, or one command writes tables.
fn is_same(a: &str, b: &str) -> bool {
    let tables_of = |writer: &str| writer.split_once(TABLES).map(|(command, _)| command.to_owned());
    a == b || a.ends_with(OUT) && b.ends_with(OUT) || tables_of(a).is_some_and(|command| tables_of(b) == Some(command))
}

/// Removes and lists files. Returns writer and name of other writers' files.
///
/// `stamped`: the new files are complete, and the list gets their stamps.
fn update(folder: &Path, writer: &str, written: &BTreeSet<String>, stamped: bool) -> io::Result<Vec<(String, String)>> {
    let list = folder.join(LIST);
    let before = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(named(&list, &error)),
    };
    let entries = before.lines().filter_map(|line| {
        let (by, rest) = line.split_once('\t')?;
        Some((by, rest.split_once('\t').map_or((rest, None), |(name, stamp)| (name, Some(stamp)))))
    });
    let (ours, others): (Vec<_>, Vec<_>) =
        entries.filter(|(_, (name, _))| is_below(folder, name)).partition(|(by, _)| is_same(by, writer));
    for (_, (name, as_left)) in ours {
        let path = folder.join(name);
        let changed = as_left.is_some_and(|as_left| stamp(&path).as_deref() != Some(as_left));
        // What the command reads is no leftover, whatever the list says.
        if written.contains(name) || changed || inputs::check_output(&path).is_err() {
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(&path, &error)),
            _ => {}
        }
        if let Some(subfolder) = Path::new(name).parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // It fails if the user has files there.
            let _removed = fs::remove_dir(folder.join(subfolder));
        }
    }
    let others = others.into_iter().filter(|(_, (name, _))| !written.contains(*name));
    let others: Vec<_> = others.map(|(by, (name, stamp))| (by, name, stamp.map(str::to_owned))).collect();
    let stay = others.iter().map(|&(by, name, _)| (by.to_owned(), name.to_owned())).collect();
    let new = written.iter().map(|name| {
        let stamp = if stamped { stamp(&folder.join(name)) } else { None };
        (writer, name.as_str(), stamp)
    });
    let mut text = String::new();
    for (by, name, stamp) in others.into_iter().chain(new) {
        text.extend([by, "\t", name]);
        if let Some(stamp) = stamp {
            text.extend(["\t", &stamp]);
        }
        text.push('\n');
    }
    if text != before {
        output_file::write(&list, text.as_bytes())?;
    }
    Ok(stay)
}

/// Names the file of an error.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether that is the name of a file in the folder, or in a subfolder that is no link.
fn is_below(folder: &Path, name: &str) -> bool {
    let path = Path::new(name);
    let plain = !name.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_folder = |at: &Path| folder.join(at).symlink_metadata().is_ok_and(|there| there.is_dir());
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    plain && above.into_iter().all(is_folder)
}

/// Returns the length and the time of the last change of a file, as the list has them.
fn stamp(path: &Path) -> Option<String> {
    let there = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    let changed = there.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {}", there.len(), changed.as_nanos()))
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

    #[test]
    fn tables_of_one_command_are_removed_in_any_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let left = |command: &str, files: &[&str]| {
            let ending = files[0].rsplit_once('.').unwrap().1;
            let others = replace_tables(path, command, ending, &names(files)).unwrap();
            for file in files {
                fs::write(path.join(file), "").unwrap();
            }
            others.into_iter().collect::<Vec<_>>()
        };
        assert!(left("run", &["cpus.csv", "tasks.csv"]).is_empty());
        assert_eq!(left("trace analyse", &["latency.csv"]), [("run".to_owned(), 2)]);
        // The lists of earlier versions have the same lines.
        let list = fs::read_to_string(path.join(LIST)).unwrap();
        assert!(list.starts_with("run --tables csv\tcpus.csv\n"), "{list}");
        assert_eq!(left("run", &["tasks.json"]), [("trace analyse".to_owned(), 1)]);
        let there = |name: &str| path.join(name).exists();
        assert!(!there("cpus.csv") && !there("tasks.csv") && there("tasks.json") && there("latency.csv"));
        fs::remove_file(path.join("latency.csv")).unwrap();
        assert!(left("run", &["tasks.parquet"]).is_empty(), "no note about a file that is gone");
        assert!(!there("tasks.json"));
    }

    #[test]
    fn files_in_subfolders_are_removed_unless_they_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let left = |names: &[&str]| {
            for name in names {
                let file = path.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "left").unwrap();
            }
        };
        let all = ["a/x", "a/y", "b/x", "c/x", "top"];
        left(&all);
        left(&["b/mine", "d/x"]);
        replace_out(path, "compare", &names(&all)).unwrap();
        fs::write(path.join("c/x"), "changed").unwrap();
        left(&["e/x"]);
        replace_out(path, "compare", &names(&["e/x"])).unwrap();
        assert!(!path.join("a").exists() && !path.join("b/x").exists() && !path.join("top").exists());
        for kept in ["b/mine", "c/x", "d/x", "e/x"] {
            assert!(path.join(kept).exists(), "{kept}");
        }
        // Another command with --out, and one that writes tables.
        left(&["results.json", "classes.csv"]);
        replace(path, "run csv", &names(&["classes.csv"])).unwrap();
        replace_out(path, "run", &names(&["results.json"])).unwrap();
        assert!(!path.join("e").exists() && path.join("classes.csv").exists());
        left(&["comparison.json"]);
        replace_out(path, "compare", &names(&["comparison.json"])).unwrap();
        assert!(!path.join("results.json").exists() && path.join("classes.csv").exists());
        // A list of paths that lead out of the folder.
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("x"), "").unwrap();
        let absolute = outside.path().join("x").display().to_string();
        fs::write(path.join(LIST), format!("compare --out\ta/../../x\ncompare --out\t{absolute}\nrun --out\t../x\n"))
            .unwrap();
        replace_out(path, "compare", &names(&[])).unwrap();
        assert!(outside.path().join("x").exists());
    }
}
