//! `cargo xtask layers`: the layers of `crates/sched`, and the import cycles among its modules (ARCHITECTURE.md,
//! "Layers").

mod cycles;
mod imports;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::print;

pub(crate) use cycles::largest;
pub(crate) use imports::imports;
pub(crate) use order::against;

/// The crate whose modules are checked.
pub(crate) const SOURCES: &str = "crates/sched/src";

/// Files that are not part of the library: tests in files of their own.
const TESTS: [&str; 2] = ["tests.rs", "loom_model.rs"];

/// A module's path: `["class", "rt"]`. The crate's root is empty.
pub(crate) type Module = Vec<String>;
/// The modules that each module imports from, with the imported items.
pub(crate) type Imports = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

/// Print the largest import cycle among the modules of crates/sched, and imports from higher layers
#[derive(Debug, Args)]
pub(crate) struct Layers {
    /// Print every import between modules of the cycle
    #[arg(long)]
    imports: bool,
}

impl Layers {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let imports = read(&root.join(SOURCES))?;
        let cycle = largest(&imports);
        for line in against(&imports) {
            print::line!("{line}");
        }
        print::line!("{} modules, {} in the largest cycle", imports.len(), cycle.len());
        for module in &cycle {
            print::line!("{}", name(module));
            if self.imports {
                for (from, items) in imports[module].iter().filter(|(from, _)| cycle.contains(*from)) {
                    let items: Vec<&str> = items.iter().map(String::as_str).collect();
                    print::line!("    {}: {}", name(from), items.join(", "));
                }
            }
        }
        Ok(())
    }
}

/// Returns the module's path as in Rust.
pub(crate) fn name(module: &Module) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// Reads the imports of all modules below a source folder.
pub(crate) fn read(sources: &Path) -> miette::Result<Imports> {
    let mut paths = Vec::new();
    files(sources, Path::new(""), &mut paths)?;
    let mut texts = BTreeMap::new();
    for path in paths {
        let whole = sources.join(&path);
        let text = fs::read_to_string(&whole).into_diagnostic().wrap_err_with(|| whole.display().to_string())?;
        texts.insert(module_of(&path), text);
    }
    imports(&texts).map_err(|error| miette!("{}: {error}", sources.display()))
}

/// Finds every source file that is not a test, by its path below `sources`.
fn files(sources: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> miette::Result<()> {
    let whole = sources.join(folder);
    for entry in fs::read_dir(&whole).into_diagnostic().wrap_err_with(|| whole.display().to_string())? {
        let entry = entry.into_diagnostic()?;
        let path = folder.join(entry.file_name());
        if entry.file_type().into_diagnostic()?.is_dir() {
            files(sources, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !TESTS.iter().any(|test| entry.file_name() == *test)
        {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the module of a file: `class/rt/mod.rs` and `class/rt.rs` are both `class::rt`.
fn module_of(path: &Path) -> Module {
    let mut module: Module = path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}
