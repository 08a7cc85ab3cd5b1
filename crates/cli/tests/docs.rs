//! The documents' output is the command's. Each command that can run here is run, and must print the lines below it, in
//! this order. Documents may leave out lines.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

#[path = "docs/page.rs"]
mod page;
#[path = "docs/prose.rs"]
mod prose;
#[path = "support/recordings.rs"]
mod recordings;
#[path = "docs/replayed.rs"]
mod replayed;
#[path = "../../../tests/skip.rs"]
mod skip;

const EXAMPLES: [&str; 2] = ["demo", "web"];

/// Whether a file is a scenario of this repository.
fn is_scenario(file: &str) -> bool {
    file.starts_with("scenarios/") || file.starts_with("docs/")
}

/// Documented refusals: the page, the command, and the text on standard error.
const REFUSED: [(&str, &str); 1] = [("historical.md", "run scenarios/demo/demo.toml --kernel 2.6.22")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command of a document, and the lines below it.
struct Shown {
    page: String,
    arguments: Vec<String>,
    printed: Vec<String>,
}

impl Shown {
    fn command(&self) -> String {
        self.arguments.join(" ")
    }

    /// The folder with the first named file, where the command can run. None for files of the reader or another project
    /// (`cargo xtask traces` has those), and for results of this machine.
    fn folder(&self) -> Option<PathBuf> {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let (["run" | "compare" | "replay", file, ref rest @ ..] | ["trace", "analyse" | "info", file, ref rest @ ..]) =
            words[..]
        else {
            return None;
        };
        if rest.windows(2).any(|pair| pair == ["--machine", "host"]) {
            return None;
        }
        // The command reports a scenario of this repository that is not there. An example has a name and no folder.
        let ours = (is_scenario(file) || EXAMPLES.contains(&file)).then(root);
        let data = root().join("crates/cli/tests/data");
        ours.or_else(|| Some(data).filter(|folder| folder.join(file).exists()))
    }
}

/// The commands behind a `$` in a page's blocks.
fn shown(page: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(page).expect("a document is text");
    let page = page.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
    let mut found: Vec<Shown> = Vec::new();
    // The language of the block that a line is in, and whether a command of ours stands above it there.
    let (mut language, mut ours) = (None, false);
    for line in text.lines() {
        if let Some(tag) = line.strip_prefix("```") {
            language = if language.is_some() { None } else { Some(tag.to_owned()) };
            ours = false;
            continue;
        }
        // Where a block is no dialogue with a shell, benchmarks print command lines of their own.
        let prompt = language.as_ref().map(|tag| if tag == "console" { "$ " } else { "$ vruntime " });
        let Some(prompt) = prompt else { continue };
        if line.starts_with(prompt) {
            let arguments = line.strip_prefix("$ vruntime ");
            ours = arguments.is_some();
            let Some(arguments) = arguments else { continue };
            // What stands behind it is for people.
            let arguments = arguments.split("  #").next().unwrap_or_default();
            let arguments = arguments.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect();
            found.push(Shown { page: page.clone(), arguments, printed: Vec::new() });
        } else if let Some(shown) = found.last_mut().filter(|_| ours && !line.trim().is_empty() && line != "...") {
            shown.printed.push(line.trim_end().to_owned());
        }
    }
    found
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read").flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The table of `docs/costs.md` has the profiles of `crates/sim/src/costs.rs`.
#[test]
fn the_page_of_costs_has_every_value() {
    let page = fs::read_to_string(root().join("docs/costs.md")).expect("the page can be read");
    let shown: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(name, rest)| {
            [&[name][..], &rest.trim_end_matches(" |").split(" | ").skip(1).collect::<Vec<_>>()].concat()
        })
        .filter(|row| row.len() == 4)
        .collect();
    let source = fs::read_to_string(root().join("crates/sim/src/costs.rs")).expect("the source can be read");
    let of_line = |line: &str| {
        let (name, values) = line.trim().strip_suffix(';')?.split_once(':').filter(|(name, _)| !name.contains(' '))?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().replace('_', "")).collect();
        let [_, bare_metal, vm, emulated] = &values[..] else { return None };
        Some([name.to_owned(), bare_metal.clone(), vm.clone(), emulated.clone()])
    };
    let defined: Vec<[String; 4]> = source.lines().filter_map(of_line).collect();
    assert!(defined.len() > 30, "{defined:?}");
    assert_eq!(shown, defined);
}

/// Returns what a script of `docs` prints. None without Python.
fn script(name: &str, arguments: &[&Path]) -> Option<Vec<u8>> {
    let mut python = std::process::Command::new("python3");
    python.arg("-B").arg(root().join("docs").join(name)).arg(assert_cmd::cargo::cargo_bin("vruntime")).args(arguments);
    let output = python.output().ok()?;
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// The pictures are what this build draws: `docs/picture.py` and `docs/pictures.py` draw them again.
#[test]
fn pictures_are_of_this_version() {
    let to = tempfile::tempdir().expect("a folder");
    let Some(front) = script("picture.py", &[]) else {
        skip::skip("there is no python3");
        return;
    };
    fs::write(to.path().join("demo.svg"), front).expect("it can be written");
    script("pictures.py", &[to.path()]);
    let docs = root().join("docs");
    let drawn = fs::read_dir(to.path()).expect("the folder can be read").flatten().map(|entry| entry.file_name());
    let mut drawn: Vec<String> = drawn.filter_map(|name| name.into_string().ok()).collect();
    drawn.sort();
    let kept = |folder: &Path| {
        let names = fs::read_dir(folder).expect("the folder can be read").flatten().map(|entry| entry.path());
        names.filter(|path| path.extension().is_some_and(|kind| kind == "svg")).collect::<Vec<PathBuf>>()
    };
    let mut all: Vec<PathBuf> = [kept(&docs), kept(&docs.join("concepts"))].concat();
    all.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let names: Vec<&str> = all.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, drawn, "every picture is drawn by a script");
    for (path, name) in all.iter().zip(&drawn) {
        let [old, new] = [path.clone(), to.path().join(name)].map(|path| fs::read_to_string(path).expect("it is text"));
        let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
        assert!(
            old == new,
            "{}: draw it again with {}: {differs:?}",
            path.display(),
            "docs/picture.py or docs/pictures.py"
        );
    }
}

#[test]
fn documents_print_what_the_command_prints() {
    let mut pages = pages(&root().join("docs"));
    pages.push(root().join("README.md"));
    let all: String = pages.iter().map(|page| fs::read_to_string(page).expect("a document is text")).collect();
    let (mut of_scenarios, mut refused, mut beside) = (0, Vec::new(), Vec::new());
    let mut stale = String::new();
    for shown in pages.iter().flat_map(|page| shown(page)) {
        let Some(folder) = shown.folder() else { continue };
        let command = shown.command();
        let of = (shown.page.as_str(), command.as_str());
        let mut vruntime = Command::cargo_bin("vruntime").expect("cargo has built it");
        // Errors are as wide as the terminal.
        vruntime.current_dir(&folder).env("NO_COLOR", "1").env("COLUMNS", "80").args(&shown.arguments);
        let output = vruntime.output().expect("it runs");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("it prints UTF-8"));
        let expected = if REFUSED.contains(&of) { (Some(1), &err) } else { (Some(0), &out) };
        assert_eq!(output.status.code(), expected.0, "{of:?}: {err}");
        let mut found = expected.1.lines().map(str::trim_end);
        for line in &shown.printed {
            if !found.by_ref().any(|found| found == line) {
                stale.extend([&shown.page, ": ", &command, ": ", line, "\n"]);
                // Also searches the lines after it.
                found = expected.1.lines().map(str::trim_end);
            }
        }
        if REFUSED.contains(&of) {
            refused.push((shown.page.clone(), command));
        } else if shown.arguments.iter().any(|word| is_scenario(word) || EXAMPLES.contains(&word.as_str())) {
            of_scenarios += 1;
        } else {
            beside.push(shown.arguments[0].clone());
        }
    }
    assert!(stale.is_empty(), "lines of documents that the command does not print, or not in this order:\n{stale}");
    assert_eq!(refused.len(), REFUSED.len(), "{refused:?}");
    let commands = all.lines().filter(|line| {
        let file = line.strip_prefix("$ vruntime run ").or_else(|| line.strip_prefix("$ vruntime compare "));
        let file = file.and_then(|rest| rest.split_whitespace().next());
        file.is_some_and(|file| is_scenario(file) || EXAMPLES.contains(&file)) && !line.contains("--machine host")
    });
    assert_eq!(of_scenarios + refused.len(), commands.count(), "all commands of scenarios are run");
    beside.sort();
    assert_eq!(beside, ["replay", "trace"], "of recordings of this crate's");
}
