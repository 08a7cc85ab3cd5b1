//! Names of compared files.

use std::path::{Path, PathBuf};

use vruntime_report::printable;

/// Names files. Files of one name get as much of their paths as distinguishes them.
pub(super) fn file_names(names: &[&str], paths: &[PathBuf]) -> Vec<String> {
    // From behind: the name, and the folders it is in.
    let folders: Vec<Vec<String>> = paths
        .iter()
        .map(|path| {
            let folders = path.parent().into_iter().flat_map(Path::components).rev();
            folders.map(|folder| printable(&folder.as_os_str().to_string_lossy())).collect()
        })
        .collect();
    let of_depth = |index: usize, depth: usize| {
        let mut parts: Vec<&str> = folders[index].iter().take(depth).map(String::as_str).collect();
        parts.reverse();
        parts.push(names[index]);
        parts.join("/").replace("//", "/")
    };
    let name = |index: usize| {
        let same = || (0..names.len()).filter(|&other| names[other] == names[index] && paths[other] != paths[index]);
        let most = folders.iter().map(Vec::len).max().unwrap_or(0);
        let depth = (0..=most).find(|&depth| same().all(|other| of_depth(other, depth) != of_depth(index, depth)));
        // In one folder, only extensions, or names in the files, differ.
        depth.map_or_else(|| printable(&paths[index].display().to_string()), |depth| of_depth(index, depth))
    };
    (0..names.len()).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_are_distinguished_by_their_folders() {
        let named = |files: &[(&str, &str)]| {
            let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            file_names(&names, &files.iter().map(|(_, path)| PathBuf::from(path)).collect::<Vec<_>>())
        };
        assert_eq!(named(&[("a", "x/a.toml"), ("b", "y/b.toml")]), ["a", "b"]);
        assert_eq!(named(&[("app", "before/app.toml"), ("app", "after/app.toml")]), ["before/app", "after/app"]);
        assert_eq!(named(&[("s", "s.toml"), ("s", "d/s.toml"), ("t", "d/t.toml")]), ["s", "d/s", "t"]);
        assert_eq!(named(&[("s", "/1/x/s.toml"), ("s", "/2/x/s.toml")]), ["1/x/s", "2/x/s"]);
        assert_eq!(named(&[("s", "/s.toml"), ("s", "d/s.toml")]), ["/s", "d/s"]);
        assert_eq!(named(&[("s", "d/s.toml"), ("s", "d/s.json")]), ["d/s.toml", "d/s.json"]);
        assert_eq!(named(&[("s", "d/s.toml"), ("s", "d/s.toml")]), ["s", "s"], "one file, twice");
        assert_eq!(named(&[]), Vec::<String>::new());
    }
}
