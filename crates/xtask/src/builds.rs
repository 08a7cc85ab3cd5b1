//! `cargo xtask builds`: compares all output of two builds of the command, for every scenario.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::print;

/// Run every scenario with two builds of the command, and compare their output byte by byte
#[derive(Debug, Args)]
pub(crate) struct Builds {
    /// The command before a change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The command after it
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Compare these kernels too, besides those of the scenarios; can be repeated
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Compare only scenarios whose path contains this
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Allow changed words in tables and messages: print changed lines once, and compare all other outputs
    #[arg(long)]
    reworded: bool,
}

/// Outputs whose words may change with `--reworded`.
const WORDS: [&str; 2] = ["table", "messages"];
/// The most changed lines to print.
const LINES: usize = 60;

impl Builds {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut scenarios = Vec::new();
        walk(&root.join("scenarios"), &mut scenarios)?;
        let is_wanted =
            |path: &PathBuf| self.scenario.as_ref().is_none_or(|text| path.display().to_string().contains(text));
        scenarios.retain(is_wanted);
        scenarios.sort();
        let kernels = [None].into_iter().chain(self.kernel.iter().map(Some));
        let runs: Vec<_> = kernels.flat_map(|kernel| scenarios.iter().map(move |path| (path, kernel))).collect();
        let mut different = 0;
        let mut lines = BTreeSet::new();
        for &(scenario, kernel) in &runs {
            let name = scenario.strip_prefix(root.join("scenarios")).unwrap_or(scenario).display().to_string();
            let label = kernel.map_or(name.clone(), |kernel| format!("{name}, {kernel}"));
            let [before, after] = [&self.before, &self.after].map(|build| outputs(build, scenario, kernel));
            let [mut before, mut after] = [before?, after?];
            if self.reworded {
                lines.extend(reworded(&before, &after));
                for outputs in [&mut before, &mut after] {
                    outputs.retain(|(name, _)| !WORDS.contains(&name.as_str()));
                }
            }
            let differences = differences(&before, &after);
            print::line!("{label}: {}", if differences.is_empty() { "equal" } else { "DIFFERENT" });
            for line in &differences {
                print::line!("  {line}");
            }
            different += usize::from(!differences.is_empty());
        }
        if !lines.is_empty() {
            print::line!("\n{} lines of tables and messages changed, without their numbers:", lines.len());
            lines.iter().take(LINES).for_each(|line| print::line!("  {line}"));
        }
        if different > 0 {
            return Err(miette!("{different} of {} runs differ", runs.len()));
        }
        print::line!("all {} runs are equal", runs.len());
        Ok(())
    }
}

type Output = (String, Vec<u8>);

/// Returns the table, the JSON and the files of a run.
fn outputs(build: &Path, scenario: &Path, kernel: Option<&String>) -> miette::Result<Vec<Output>> {
    let folder = tempfile::tempdir().into_diagnostic()?;
    let out = folder.path().join("out");
    let run = |more: &[&str]| -> miette::Result<(Vec<u8>, Vec<u8>)> {
        let mut command = Command::new(build);
        command.arg("run").arg(scenario).args(more).env("NO_COLOR", "1").env("COLUMNS", "100");
        command.args(kernel.into_iter().flat_map(|kernel| ["--kernel", kernel]));
        let output = command.output().into_diagnostic().wrap_err_with(|| build.display().to_string())?;
        Ok((output.stdout, output.stderr))
    };
    let (table, messages) = run(&[])?;
    let (json, _) = run(&["--json"])?;
    run(&["--out", &out.display().to_string()])?;
    let mut found = vec![("table".to_owned(), table), ("messages".to_owned(), messages), ("JSON".to_owned(), json)];
    let mut files = Vec::new();
    if out.is_dir() {
        all_files(&out, &mut files)?;
    }
    // The list of written files has times.
    files.retain(|file| file.file_name().is_none_or(|name| name != ".vruntime-files"));
    files.sort();
    for file in files {
        let name = file.strip_prefix(&out).unwrap_or(&file).display().to_string();
        found.push((name, fs::read(&file).into_diagnostic()?));
    }
    Ok(found)
}

/// Returns lines of tables and messages that only one side has: `-` the first, `+` the second. Numbers are `#`, so a
/// change in many scenarios is one line.
fn reworded(before: &[Output], after: &[Output]) -> BTreeSet<String> {
    let lines = |outputs: &[Output]| -> BTreeSet<String> {
        let texts = outputs.iter().filter(|(name, _)| WORDS.contains(&name.as_str()));
        texts
            .flat_map(|(_, bytes)| String::from_utf8_lossy(bytes).lines().map(without_numbers).collect::<Vec<_>>())
            .collect()
    };
    let [before, after] = [before, after].map(lines);
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect()
}

/// Replaces numbers by `#`, rules of tables by `─`, and several spaces by one.
fn without_numbers(line: &str) -> String {
    let word = |word: &str| {
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        let is_number = has_digit && word.starts_with(|c: char| c.is_ascii_digit() || "+-~x".contains(c));
        match word {
            rule if rule.starts_with('─') => "─".to_owned(),
            _ if is_number => "#".to_owned(),
            word => word.to_owned(),
        }
    };
    line.split_whitespace().map(word).collect::<Vec<String>>().join(" ")
}

/// Returns the first different line of each output that differs.
fn differences(before: &[Output], after: &[Output]) -> Vec<String> {
    let names = before.iter().chain(after.iter().filter(|(name, _)| !before.iter().any(|(other, _)| other == name)));
    let find = |outputs: &[Output], name: &str| {
        outputs.iter().find(|(other, _)| other == name).map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
    };
    let mut found = Vec::new();
    for (name, _) in names {
        match (find(before, name), find(after, name)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let pairs = one.lines().zip(other.lines()).enumerate();
                let line = pairs.filter(|(_, (a, b))| a != b).map(|(index, (a, b))| {
                    let [a, b] = [a, b].map(|text| text.chars().take(100).collect::<String>());
                    format!("line {}: `{a}`, now `{b}`", index + 1)
                });
                found.push(format!(
                    "{name}: {}",
                    line.take(1).next().unwrap_or_else(|| "the length differs".to_owned())
                ));
            }
            (None, _) => found.push(format!("{name}: only after")),
            (_, None) => found.push(format!("{name}: only before")),
        }
    }
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> miette::Result<()> {
    let mut all = Vec::new();
    all_files(folder, &mut all)?;
    found.extend(all.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "toml" || kind == "json")));
    Ok(())
}

fn all_files(folder: &Path, found: &mut Vec<PathBuf>) -> miette::Result<()> {
    let entries = fs::read_dir(folder).into_diagnostic().wrap_err_with(|| folder.display().to_string())?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            all_files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and spaces do not matter.
    #[test]
    fn changed_words_are_listed_without_numbers() {
        let outputs = |table: &str| vec![("table".to_owned(), table.into()), ("digest".to_owned(), b"1".to_vec())];
        let before = outputs("late p50\n───\nweb   1.5 ms  10\nweb  2.5 ms  +20\n");
        let after = outputs("lateness p50\n─────\nweb  1.7 ms  10\n");
        assert_eq!(reworded(&before, &after).into_iter().collect::<Vec<_>>(), ["+ lateness p50", "- late p50"]);
        assert!(reworded(&before, &before).is_empty());
    }

    #[test]
    fn differences_name_the_output_and_the_line() {
        let outputs =
            |table: &str, file: &str| vec![("table".to_owned(), table.into()), (file.to_owned(), b"x".to_vec())];
        let before = outputs("a\nb\n", "trace");
        assert_eq!(differences(&before, &before), [""; 0]);
        assert_eq!(
            differences(&before, &outputs("a\nc\n", "digest")),
            ["table: line 2: `b`, now `c`", "trace: only before", "digest: only after"]
        );
        assert_eq!(differences(&before, &outputs("a\nb\nc\n", "trace")), ["table: the length differs"]);
    }
}
