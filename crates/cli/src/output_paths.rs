//! Checks output paths before a command runs, so that a wrong path does not cost minutes of simulation.
//!
//! The checks create and change nothing.

use std::collections::BTreeMap;
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};

use miette::{IntoDiagnostic, miette};

use crate::args::{Options, Reports, Tables};
use crate::commands::RESULT_FILES;
use crate::inputs::Inputs;
use crate::{leftovers, output_file, rtapp_log, tables};

/// Options whose folders get a list of the written files.
const LISTING: [&str; 3] = ["--out", "--tables", "--rtapp-log"];

#[derive(Debug, Default)]
pub(crate) struct OutputPaths {
    files: Vec<Named>,
    /// Folders, created if missing.
    folders: Vec<Named>,
    /// Files in the folders with derived names, if known before the run.
    derived: Vec<Named>,
    /// The folder of `--rtapp-log`.
    log_folder: Option<PathBuf>,
    /// Inputs, which must not be overwritten.
    inputs: Vec<PathBuf>,
}

/// A path, and the option or argument that names it, with its kind.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    option: &'static str,
    kind: &'static str,
}

impl OutputPaths {
    pub(crate) fn reads<'p>(mut self, inputs: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        self.inputs.extend(inputs.into_iter().cloned());
        self
    }

    /// Adds the file of an option, or of an argument, by its name in the usage, such as `OUT`.
    pub(crate) fn file(mut self, option: &'static str, path: Option<&Path>) -> Self {
        self.files.extend(path.map(|path| Named { path: path.to_owned(), option, kind: "file" }));
        self
    }

    /// Adds the folder of an option, and files in it.
    pub(crate) fn folder(mut self, option: &'static str, path: Option<&Path>, files: &[&str]) -> Self {
        if let Some(path) = path {
            let named = |path| Named { path, option, kind: "folder" };
            self.folders.push(named(path.to_owned()));
            self.files.extend(files.iter().map(|name| named(path.join(name))));
            if LISTING.contains(&option) {
                self.derived.push(named(path.join(leftovers::LIST)));
            }
        }
        self
    }

    /// Adds the folder of `--tables`. Names of its files begin with `prefixes`.
    pub(crate) fn tables(self, asked: &Tables, prefixes: &[String]) -> Self {
        let Some(folder) = &asked.folder else { return self };
        let names = prefixes.iter().flat_map(|prefix| tables::file_names(prefix, asked.format));
        let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
        self.folder("--tables", Some(folder), &[]).derived("--tables", paths)
    }

    pub(crate) fn rtapp_log(self, folder: Option<&Path>) -> Self {
        // The tasks are not known yet, but only an existing log can be an input.
        let there = folder.map_or_else(Vec::new, rtapp_log::logs_in);
        Self { log_folder: folder.map(Path::to_owned), ..self }
            .folder("--rtapp-log", folder, &[])
            .derived("--rtapp-log", there)
    }

    fn derived(mut self, option: &'static str, paths: Vec<PathBuf>) -> Self {
        self.derived.extend(paths.into_iter().map(|path| Named { path, option, kind: "folder" }));
        self
    }

    /// Checks that no output is an input. Called again after reading the inputs, which can name others.
    pub(crate) fn check_inputs(&self) -> miette::Result<()> {
        let inputs = Inputs::all(&self.inputs);
        for named in self.files.iter().chain(&self.derived) {
            let Some(input) = inputs.same_as(&named.path) else { continue };
            let path = named.path.display();
            let another = named.another();
            return Err(if input.is_at(&named.path) {
                miette!(help = another, "{path} would be written over itself")
            } else {
                miette!(help = another, "{path} would be written over {}: they are one file", input.name())
            });
        }
        match inputs.same_as_stdout() {
            Some(input) => {
                let help = "send standard output to another file";
                Err(miette!(help = help, "standard output would be written over {}", input.name()))
            }
            None => Ok(()),
        }
    }

    /// Checks that all outputs can be written, and that standard input is read once.
    pub(crate) fn check(&self) -> miette::Result<()> {
        if self.inputs.iter().filter(|input| *input == Path::new("-")).count() > 1 {
            let help = "`-` can be given once: write the input to a file, and name the file";
            return Err(miette!(help = help, "standard input can be read only once"));
        }
        self.folders.iter().try_for_each(folder)?;
        self.check_distinct()?;
        self.check_inputs()?;
        // The check of the folder covers files that do not exist.
        let exists = |named: &&Named| named.path.symlink_metadata().is_ok();
        self.files.iter().chain(self.derived.iter().filter(exists)).try_for_each(|named| self.file_can_be(named))
    }

    /// Checks that no two options name one file.
    fn check_distinct(&self) -> miette::Result<()> {
        let mut taken: BTreeMap<PathBuf, &Named> = BTreeMap::new();
        for folder in &self.folders {
            taken.entry(whole(&folder.path)).or_insert(folder);
        }
        for derived in &self.derived {
            taken.entry(whole(&derived.path)).or_insert(derived);
        }
        for file in self.files.iter().filter(|file| !is_device(&file.path)) {
            self.check_no_log(file)?;
            let Some(other) = taken.insert(whole(&file.path), file) else { continue };
            let (path, options) = (file.path.display(), [other.option, file.option]);
            // The error suggests changing the option that names a file.
            let named = if file.kind == "file" { file } else { other };
            return Err(miette!(help = named.another(), "both {} and {} would write {path}", options[0], options[1]));
        }
        Ok(())
    }

    /// Fails for a file that is named like a log of `--rtapp-log`, in its folder. Tasks, and so the logs, are not known
    /// yet.
    fn check_no_log(&self, file: &Named) -> miette::Result<()> {
        let Some(folder) = &self.log_folder else { return Ok(()) };
        let path = whole(&file.path);
        if path.parent() == Some(&whole(folder)) && rtapp_log::is_log(&path) {
            let path = file.path.display();
            return Err(miette!(help = file.another(), "{path} is named like a log, which --rtapp-log writes there"));
        }
        Ok(())
    }

    fn file_can_be(&self, named: &Named) -> miette::Result<()> {
        let (path, another) = (&named.path, named.another());
        match fs::metadata(path) {
            Ok(there) => {
                if let Some(problem) = problem(path, &there) {
                    return Err(miette!(help = another, "{}: {problem}", cannot(path)));
                }
                if !there.is_file() {
                    // Our devices and pipes are open, and opening others can have effects.
                    return Ok(());
                }
                wrapped(OpenOptions::new().write(true).open(path).map(drop), path, &another)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => wrapped(Err(error), path, &another),
            Err(_) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                if parent.is_dir() {
                    wrapped(scratch(parent), path, &another)
                } else if self.will_be(parent) {
                    Ok(())
                } else {
                    let (help, parent) = (format!("make it first, or {another}"), parent.display());
                    Err(miette!(help = help, "{}: there is no folder {parent}", cannot(path)))
                }
            }
        }
    }

    /// Whether the command will create this folder.
    fn will_be(&self, folder: &Path) -> bool {
        let (Ok(folder), absolute) = (std::path::absolute(folder), std::path::absolute::<&Path>) else { return false };
        self.folders.iter().any(|made| absolute(&made.path).is_ok_and(|made| made.starts_with(&folder)))
    }
}

impl Named {
    /// Returns the help of errors.
    fn another(&self) -> String {
        let with = if self.option.starts_with("--") { "with" } else { "as" };
        format!("name another {} {with} {}", self.kind, self.option)
    }
}

impl Options {
    /// Returns the outputs of `--out` for one plan.
    pub(crate) fn output_paths(&self) -> OutputPaths {
        OutputPaths::default().folder("--out", self.out.as_deref(), &RESULT_FILES)
    }
}

impl Reports {
    pub(crate) fn output_paths(&self, outputs: OutputPaths) -> OutputPaths {
        self.tables.output_paths(outputs.file("--html", self.html.as_deref()))
    }
}

impl Tables {
    pub(crate) fn output_paths(&self, outputs: OutputPaths) -> OutputPaths {
        outputs.tables(self, &[String::new()])
    }
}

/// Returns the canonical path, as far as it exists.
fn whole(path: &Path) -> PathBuf {
    let Ok(path) = std::path::absolute(path) else { return path.to_owned() };
    for above in path.ancestors() {
        if let (Ok(mut whole), Ok(rest)) = (fs::canonicalize(above), path.strip_prefix(above)) {
            // A missing part is no link, so `..` leads back to its parent.
            for part in rest.components() {
                if part == Component::ParentDir {
                    whole.pop();
                } else {
                    whole.push(part);
                }
            }
            return whole;
        }
    }
    path
}

/// Whether several outputs can share the path, such as /dev/null and /dev/stdout.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Checks that the folder, or its nearest existing ancestor, can be written in.
fn folder(named: &Named) -> miette::Result<()> {
    let path = &named.path;
    let what = if path.symlink_metadata().is_ok() { "cannot write in" } else { "cannot make the folder" };
    let wrong = |why: String| Err(miette!(help = named.another(), "{what} {}: {why}", path.display()));
    let current = Path::new(".");
    let mut above = path.ancestors().map(|part| if part.as_os_str().is_empty() { current } else { part });
    // A dangling link exists, and no folder can replace it.
    let there = above.find(|part| part.symlink_metadata().is_ok()).unwrap_or(current);
    if !there.is_dir() {
        return wrong(format!("{} is no folder", there.display()));
    }
    scratch(there).or_else(|error| wrong(error.to_string()))
}

/// Checks that files can be created in a folder, with a temporary one.
fn scratch(folder: &Path) -> io::Result<()> {
    // The original error has the name of the temporary file.
    tempfile::tempfile_in(folder).map(drop).map_err(|error| match error.kind() {
        // The folder exists, so this error would mislead.
        io::ErrorKind::NotFound if folder.is_dir() => {
            io::Error::other(format!("the file system at {} takes no new files", folder.display()))
        }
        kind => io::Error::new(kind, format!("{kind} in {}", folder.display())),
    })
}

/// Returns why an existing file cannot be replaced, apart from permissions.
#[cfg(unix)]
fn problem(path: &Path, there: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;

    let kind = there.file_type();
    if kind.is_dir() {
        Some("it is a folder")
    } else if kind.is_fifo() && !["/dev", "/proc"].iter().any(|open| path.starts_with(open)) {
        // Pipes of /dev/stdout and of the shell's >(command) are open.
        Some("it is a named pipe, and writing would wait for a reader; /dev/stdout writes to a pipe of the shell")
    } else if kind.is_block_device() || kind.is_socket() {
        Some("it is no ordinary file")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn problem(_path: &Path, there: &Metadata) -> Option<&'static str> {
    there.is_dir().then_some("it is a folder")
}

fn wrapped(tried: io::Result<()>, path: &Path, help: &str) -> miette::Result<()> {
    tried.map_err(|error| miette!(help = help.to_owned(), "{}: {error}", cannot(path)))
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Writes a file whose path was checked. Its folder can be one that the command creates.
pub(crate) fn write(path: &Path, text: &str) -> miette::Result<()> {
    output_file::write(path, text.as_bytes()).into_diagnostic()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> String {
        OutputPaths::default()
            .file("--html", Some(path))
            .check()
            .map_or_else(|error| message_of(&error), |()| String::new())
    }

    fn folder(path: &Path) -> String {
        let outputs = OutputPaths::default().folder("--out", Some(path), &["results.json"]);
        outputs.check().map_or_else(|error| message_of(&error), |()| String::new())
    }

    fn message_of(error: &miette::Report) -> String {
        format!("{error} ({})", error.help().expect("it tells how to mend it"))
    }

    #[test]
    fn the_check_leaves_writable_paths_unchanged() {
        let there = tempfile::tempdir().unwrap();
        let page = there.path().join("page.html");
        assert_eq!(file(&page), "");
        assert!(!page.exists(), "it was only tried");
        fs::write(&page, "before").unwrap();
        assert_eq!(file(&page), "");
        assert_eq!(fs::read_to_string(&page).unwrap(), "before");
        let deep = there.path().join("a/b");
        assert_eq!(folder(&deep), "");
        assert!(!there.path().join("a").exists(), "no folder is made");
        assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1, "nothing else is there");
        for open in ["/dev/null", "/dev/stdout"] {
            assert_eq!(file(Path::new(open)), "");
        }
    }

    #[test]
    fn what_cannot_be_written_says_why() {
        let there = tempfile::tempdir().unwrap();
        let page = there.path().join("page.html");
        fs::write(&page, "").unwrap();
        let why = file(there.path());
        assert!(why.ends_with(": it is a folder (name another file with --html)"), "{why}");
        let why = file(&there.path().join("none/page.html"));
        assert!(why.contains("there is no folder ") && why.contains("(make it first, or name another file"), "{why}");
        let why = file(&page.join("under"));
        assert!(why.contains("cannot write "), "{why}");
        let why = folder(&page);
        assert!(why.contains("page.html is no folder (name another folder with --out)"), "{why}");
        let why = folder(&page.join("a/b"));
        assert!(why.contains("page.html is no folder"), "{why}");
        fs::create_dir(there.path().join("results.json")).unwrap();
        let why = folder(there.path());
        assert!(why.contains("results.json: it is a folder (name another folder with --out)"), "{why}");
    }

    #[test]
    fn what_is_read_is_not_written_over() {
        let there = tempfile::tempdir().unwrap();
        let input = there.path().join("results.json");
        let page = there.path().join("page.html");
        fs::write(&input, "").unwrap();
        let outputs = || OutputPaths::default().reads([&input]);
        let message_of = |outputs: OutputPaths| message_of(&outputs.check().unwrap_err());
        let why = message_of(outputs().file("--html", Some(&there.path().join("./results.json"))));
        assert!(why.ends_with("results.json would be written over itself (name another file with --html)"), "{why}");
        let why = message_of(outputs().folder("--out", Some(there.path()), &["results.json"]));
        assert!(why.ends_with("written over itself (name another folder with --out)"), "{why}");
        assert!(outputs().file("--html", Some(&page)).check().is_ok());
        let why = message_of(outputs().file("OUT", Some(&input)));
        assert!(why.ends_with("written over itself (name another file as OUT)"), "{why}");
    }

    #[test]
    fn no_file_is_written_twice() {
        let there = tempfile::tempdir().unwrap();
        let out = there.path().join("out");
        let both = |page: &Path| {
            let outputs = OutputPaths::default().folder("--out", Some(&out), &["trace.txt"]).file("--html", Some(page));
            outputs.check().map_or_else(|error| message_of(&error), |()| String::new())
        };
        let why = both(&out.join("../out/./trace.txt"));
        assert!(why.starts_with("both --out and --html would write "), "{why}");
        assert!(why.ends_with("out/./trace.txt (name another file with --html)"), "{why}");
        let why = both(&out);
        assert!(why.starts_with("both --out and --html would write "), "the folder is a file: {why}");
        assert_eq!(both(&out.join("page.html")), "");
        let null = Some(Path::new("/dev/null"));
        assert!(OutputPaths::default().file("--html", null).file("--out", null).check().is_ok());
    }

    fn tables(folder: &Path) -> OutputPaths {
        let tables = Tables { folder: Some(folder.to_owned()), ..Tables::default() };
        tables.output_paths(OutputPaths::default())
    }

    #[test]
    fn derived_names_are_written_once() {
        let there = tempfile::tempdir().unwrap();
        let folder = there.path().join("missing");
        let why = |outputs: OutputPaths| outputs.check().map_or_else(|error| message_of(&error), |()| String::new());
        let page = |name: &str| why(tables(&folder).file("--html", Some(&folder.join(name))));
        assert!(page("classes.csv").starts_with("both --tables and --html would write "), "{}", page("classes.csv"));
        assert!(page("classes.csv").ends_with("(name another file with --html)"), "{}", page("classes.csv"));
        assert_eq!(page("page.html"), "");
        let out = why(tables(&folder).folder("--out", Some(&folder), &["comparison.csv"]));
        assert!(out.starts_with("both --tables and --out would write "), "{out}");
        let logged = |name: &str| {
            let outputs = OutputPaths::default().rtapp_log(Some(&folder));
            why(outputs.file("--html", Some(&folder.join(name))))
        };
        assert!(logged("rt-app-w-4.log").contains("is named like a log, which --rtapp-log writes there (name another"));
        assert_eq!(logged("page.html"), "");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pipes_under_derived_names_are_refused() {
        for name in ["classes.csv", "rt-app-w-0.log"] {
            let there = tempfile::tempdir().unwrap();
            let made = std::process::Command::new("mkfifo").arg(there.path().join(name)).status().unwrap();
            assert!(made.success());
            let why = message_of(&tables(there.path()).rtapp_log(Some(there.path())).check().unwrap_err());
            assert!(why.contains("it is a named pipe") && why.contains("(name another folder with --"), "{why}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_to_nowhere_and_places_of_the_kernel_are_found_out() {
        let there = tempfile::tempdir().unwrap();
        let link = there.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(folder(&link).contains("link is no folder"));
        // Even root creates no files there; others have no permission.
        let denied = if rustix::process::geteuid().is_root() {
            "the file system at /proc takes no new files"
        } else {
            "permission denied in /proc"
        };
        let why = folder(Path::new("/proc/vruntime/out"));
        let expected = format!("cannot make the folder /proc/vruntime/out: {denied} (name another folder with --out)");
        assert_eq!(why, expected);
        let why = file(Path::new("/proc/vruntime.html"));
        assert!(why.starts_with(&format!("cannot write /proc/vruntime.html: {denied} (")), "{why}");
    }

    #[test]
    fn a_page_may_lie_in_a_folder_that_will_be_made() {
        let there = tempfile::tempdir().unwrap();
        let (out, page) = (there.path().join("a/out"), there.path().join("a/./page.html"));
        let outputs = OutputPaths::default().file("--html", Some(&page));
        assert!(outputs.check().is_err());
        assert!(outputs.folder("--out", Some(&out), &["results.json"]).check().is_ok());
    }
}
