//! `cargo xtask notices`: the licences of the command's packages, and a bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde_json::{Value, json};

use crate::print;

/// The platform of releases.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The released package.
const RELEASED: &str = "vruntime";

#[derive(Debug, Args)]
pub(crate) struct Notices {
    /// Fail if the file of notices does not agree with Cargo.lock, and write nothing
    #[arg(long)]
    check: bool,
    /// Also write a bill of materials, in the format of CycloneDX 1.5
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: String,
    repository: String,
    folder: PathBuf,
    /// Whether it belongs to this repository.
    own: bool,
}

impl Notices {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let root = root();
        let packages = packages(&root)?;
        let file = root.join("crates/cli/THIRD-PARTY.txt");
        let text = notices(&packages)?;
        if self.check {
            let there = fs::read_to_string(&file).unwrap_or_default();
            if there != text {
                let help = "run `cargo xtask notices`, and commit the file";
                return Err(miette!(help = help, "{} does not agree with Cargo.lock", file.display()));
            }
        } else {
            fs::write(&file, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", file.display()))?;
            print::line!("{}", file.display());
        }
        if let Some(sbom) = &self.sbom {
            let text = format!("{:#}\n", bill(&packages));
            fs::write(sbom, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", sbom.display()))?;
            print::line!("{}", sbom.display());
        }
        Ok(())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// By name and version.
fn packages(root: &Path) -> miette::Result<BTreeSet<Package>> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM];
    let output = Command::new("cargo").args(arguments).current_dir(root).output().into_diagnostic()?;
    if !output.status.success() {
        return Err(miette!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).into_diagnostic()?;
    reached(&metadata).ok_or_else(|| miette!("cargo metadata has no package {RELEASED}"))
}

/// Returns the released package and its dependencies, without those of build scripts and tests.
fn reached(metadata: &Value) -> Option<BTreeSet<Package>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let first = packages.values().find(|package| package["name"] == RELEASED)?;
    let mut open = vec![text(&first["id"])];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dep in list(&nodes.get(&id)?["deps"]) {
            if list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.push(text(&dep["pkg"]));
            }
        }
    }
    let package = |id: &String| {
        let package = packages.get(id)?;
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        Some(Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
            repository: text(&package["repository"]),
            folder: manifest.parent()?.to_owned(),
            own: package["source"].is_null(),
        })
    };
    Some(seen.iter().filter_map(package).collect())
}

/// Returns the licence files of a package, by name.
fn texts(folder: &Path) -> miette::Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).into_diagnostic().wrap_err_with(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_uppercase();
        let is_licence =
            ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start));
        if is_licence && file.is_file() {
            let bytes = fs::read(&file).into_diagnostic()?;
            // Line ends do not matter.
            let text = String::from_utf8_lossy(&bytes).replace('\r', "");
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            texts.push(lines.join("\n").trim_matches('\n').to_owned());
        }
    }
    Ok(texts)
}

/// The file: a line for each package, and each text once.
fn notices(packages: &BTreeSet<Package>) -> miette::Result<String> {
    let others: Vec<&Package> = packages.iter().filter(|package| !package.own).collect();
    let mut text = String::from(
        "vruntime contains these packages of others. Each line has a package, its version and its licence.\n\
         The texts of the licences follow. `cargo xtask notices` writes this file.\n\n",
    );
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &others {
        let Package { name, version, licence, repository, folder, .. } = package;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name} {version}: {licence}{}",
            if repository.is_empty() { String::new() } else { format!(" ({repository})") }
        );
        for one in texts(folder)? {
            by_text.entry(one).or_default().push(name.clone());
        }
    }
    let uplot = fs::read_to_string(root().join("crates/report/assets/uPlot/LICENSE")).into_diagnostic()?;
    text.push_str("uPlot: MIT (https://github.com/leeoniya/uPlot)\n");
    by_text.entry(uplot.trim().to_owned()).or_default().push("uPlot".to_owned());
    let mut sorted: Vec<(String, Vec<String>)> = by_text.into_iter().collect();
    sorted.sort_by(|(_, one), (_, other)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    for (licence, mut names) in sorted {
        names.dedup();
        let _ = write!(text, "\n{}\nOf {}:\n\n{licence}\n", "-".repeat(80), names.join(", "));
    }
    Ok(text)
}

fn bill(packages: &BTreeSet<Package>) -> Value {
    let version = packages.iter().find(|package| package.name == RELEASED).map(|package| package.version.clone());
    let component = |package: &Package| {
        let mut component = json!({
            "type": "library",
            "name": package.name,
            "version": package.version,
            "purl": format!("pkg:cargo/{}@{}", package.name, package.version),
        });
        if !package.licence.is_empty() {
            component["licenses"] = json!([{ "expression": package.licence.replace('/', " OR ") }]);
        }
        component
    };
    let components: Vec<Value> = packages.iter().filter(|package| package.name != RELEASED).map(component).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": RELEASED, "version": version } },
        "components": components,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, own: bool) -> Package {
        let text = |text: &str| text.to_owned();
        let (version, licence) = (text("1.0.0"), text("MIT/Apache-2.0"));
        Package { name: text(name), version, licence, repository: String::new(), folder: PathBuf::new(), own }
    }

    #[test]
    fn what_tests_and_build_scripts_need_is_no_part() {
        let of = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": "x", "manifest_path": "/x/Cargo.toml" });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [of("vruntime"), of("a"), of("b"), of("c"), of("d")],
            "resolve": { "nodes": [
                { "id": "vruntime", "deps": [dep("a", Value::Null), dep("c", json!("dev"))] },
                { "id": "a", "deps": [dep("b", Value::Null), dep("d", json!("build"))] },
                { "id": "b", "deps": [] },
            ] },
        });
        let names: Vec<String> = reached(&metadata).unwrap().into_iter().map(|package| package.name).collect();
        assert_eq!(names, ["a", "b", "vruntime"]);
    }

    #[test]
    fn the_bill_names_each_part_once() {
        let packages = [package("vruntime", true), package("vruntime-sim", true), package("toml", false)].into();
        let bill = bill(&packages);
        assert_eq!(bill["metadata"]["component"]["version"], "1.0.0");
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(2));
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/toml@1.0.0");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }

    /// The file in the repository agrees with Cargo.lock.
    #[test]
    fn the_notices_are_complete() {
        Notices { check: true, sbom: None }.run().unwrap();
    }
}
