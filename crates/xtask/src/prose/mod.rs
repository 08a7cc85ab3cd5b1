//! `cargo xtask prose`: checks the English of the project (CONTRIBUTING.md, "How text reads here").

mod counts;
mod rules;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::print;

pub(crate) use counts::Counts;
pub(crate) use rules::{Finding, Measure};
pub(crate) use text::Source;

pub(crate) const ALLOWED: &str = "crates/xtask/prose.txt";

/// Print every finding of the language check, and the word and sentence counts
#[derive(Debug, Args)]
pub(crate) struct Prose {
    /// Print only findings of files whose path starts with this
    #[arg(value_name = "PATH")]
    only: Option<String>,
    /// Print the counts only
    #[arg(long)]
    counts: bool,
    /// Print only the counts of another folder of the project, such as a worktree of an earlier commit
    #[arg(long, value_name = "DIR", conflicts_with = "update")]
    of: Option<PathBuf>,
    /// Lower the allowed numbers in crates/xtask/prose.txt to what is found
    #[arg(long)]
    update: bool,
}

impl Prose {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if let Some(other) = &self.of {
            print_measures(&check(other)?);
            return Ok(());
        }
        let checked = check(&root)?;
        let is_wanted = |finding: &&Finding| self.only.as_ref().is_none_or(|only| finding.path.starts_with(only));
        if !self.counts {
            for finding in checked.findings.iter().filter(is_wanted) {
                print::line!("{finding}");
            }
        }
        print_measures(&checked);
        let allowed = Counts::read(&root.join(ALLOWED))?;
        let found = checked.counts();
        if self.update {
            return allowed.lowered(&found).write(&root.join(ALLOWED));
        }
        let below = allowed.below(&found);
        if !below.is_empty() {
            print::line!("\nLower these numbers in {ALLOWED} (`cargo xtask prose --update`):\n{}", below.join("\n"));
        }
        match allowed.above(&found).as_slice() {
            [] => Ok(()),
            above => Err(miette!("more findings than {ALLOWED} allows:\n{}", above.join("\n"))),
        }
    }
}

fn print_measures(checked: &Checked) {
    print::line!("{}", Measure::HEAD);
    for (group, measure) in &checked.measures {
        print::line!("{}", measure.row(group));
    }
}

#[derive(Debug)]
pub(crate) struct Checked {
    /// In the order of the paths.
    pub(crate) findings: Vec<Finding>,
    /// Words and sentences by group of documents.
    pub(crate) measures: BTreeMap<&'static str, Measure>,
    units: Vec<String>,
}

impl Checked {
    /// Returns the findings by unit: a page, the help texts, or one kind of a crate's texts.
    pub(crate) fn counts(&self) -> Counts {
        Counts::of(self.units.iter().cloned(), self.findings.iter().map(|finding| finding.unit.clone()))
    }
}

/// Checks all texts of the project.
///
/// # Errors
/// If a file or folder cannot be read.
pub(crate) fn check(root: &Path) -> miette::Result<Checked> {
    let mut checked = Checked { findings: Vec::new(), measures: BTreeMap::new(), units: Vec::new() };
    for path in texts(root)? {
        let text = fs::read_to_string(root.join(&path)).into_diagnostic().wrap_err_with(|| path.clone())?;
        for source in Source::of(&path, &text) {
            checked.units.push(source.unit.clone());
            checked.findings.extend(source.findings());
            if let Some(group) = source.group {
                checked.measures.entry(group).or_default().add(&source.blocks);
            }
        }
    }
    Ok(checked)
}

/// Returns the paths of all texts, in a fixed order.
fn texts(root: &Path) -> miette::Result<Vec<String>> {
    const FRONT: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "python/README.md"];
    let mut found: Vec<String> = FRONT.map(str::to_owned).into();
    walk(root, Path::new("docs"), &mut |path| text::is(path, "md"), &mut found)?;
    walk(
        root,
        Path::new("crates"),
        &mut |path| {
            let is_help = path.contains("/snapshots/cli__help-") && text::is(path, "snap");
            let is_page = path.contains("/assets/") && !path.contains("/uPlot/");
            is_help || is_page || text::is(path, "rs") || text::is(path, "md")
        },
        &mut found,
    )?;
    walk(root, Path::new("fidelity"), &mut |path| text::is(path, "md"), &mut found)?;
    walk(root, Path::new("scenarios"), &mut |path| text::is(path, "toml"), &mut found)?;
    walk(root, Path::new("python/vruntime"), &mut |path| text::is(path, "py"), &mut found)?;
    Ok(found)
}

fn walk(
    root: &Path,
    folder: &Path,
    is_text: &mut dyn FnMut(&str) -> bool,
    found: &mut Vec<String>,
) -> miette::Result<()> {
    let entries = fs::read_dir(root.join(folder)).into_diagnostic().wrap_err_with(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| folder.join(entry.file_name())).collect();
    paths.sort();
    for path in paths {
        if root.join(&path).is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                walk(root, &path, is_text, found)?;
            }
        } else if let Some(text) = path.to_str()
            && is_text(text)
        {
            found.push(text.to_owned());
        }
    }
    Ok(())
}
