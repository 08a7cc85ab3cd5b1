//! Each crate can be published: `make package` builds the packages, and this test checks what it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs the tests");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// The packages that are published.
fn published() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).expect("it is JSON");
    // An empty list of registries: it is not published.
    let is_published = |package: &Value| package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
    list(&metadata["packages"]).into_iter().filter(is_published).collect()
}

#[test]
fn crates_have_what_a_registry_asks_for() {
    let published = published();
    for package in &published {
        let name = package["name"].as_str().expect("a package has a name").to_owned();
        for field in ["description", "license", "repository", "readme"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        // crates.io takes at most 5 of each.
        let [keywords, categories] = ["keywords", "categories"].map(|field| list(&package[field]).len());
        assert!((3..=5).contains(&keywords) && (1..=5).contains(&categories), "{name}");
        for dependency in list(&package["dependencies"]) {
            assert_ne!(dependency["req"], "*", "{name}: {} has a path and no version", dependency["name"]);
        }
    }
    assert!(published.len() >= 8, "{} packages", published.len());
}

/// Both licences ask for their text in every copy.
#[test]
fn packages_have_their_licences_and_the_readme() {
    for package in published() {
        let name = package["name"].as_str().expect("a package has a name");
        let files = cargo(&["package", "--list", "--package", name, "--allow-dirty", "--offline"]);
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "Cargo.lock"] {
            assert!(files.lines().any(|line| line == file), "{name}: no {file}");
        }
    }
}

/// Recordings and scenarios are outside its folder, and its package has them all the same.
#[test]
fn the_command_s_package_has_what_it_embeds() {
    let files = cargo(&["package", "--list", "--package", "vruntime", "--allow-dirty", "--offline"]);
    let recordings = files.lines().filter(|file| file.starts_with("embedded/ground-truth/linux-")).count();
    let scenarios = files.lines().filter(|file| file.starts_with("embedded/scenarios/")).count();
    assert!(recordings > 20 && scenarios > 20, "{recordings} recordings, {scenarios} scenarios");
    for file in ["THIRD-PARTY.txt", "embedded/scenarios/history/cpurc.toml", "embedded/suite/everywhere.json"] {
        assert!(files.lines().any(|line| line == file), "{file}");
    }
}

/// No source of a package includes a file of another folder.
#[test]
fn sources_include_nothing_from_outside() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                found.push(path);
            }
        }
    }
    let mut outside = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("it can be read").flatten() {
        let folder = entry.path();
        if folder.ends_with("xtask") {
            continue;
        }
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files {
            // Tests run in the repository.
            if file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source is text");
            // What is only for tests stands at the end.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let depth = file.strip_prefix(&folder).map_or(0, |path| path.components().count() - 1);
            for included in text.split("include_str!(\"").skip(1) {
                let up = included.split('/').take_while(|part| *part == "..").count();
                if up > depth {
                    outside.push(file.display().to_string());
                }
            }
            if text.contains("CARGO_MANIFEST_DIR/..") {
                outside.push(file.display().to_string());
            }
        }
    }
    assert!(outside.is_empty(), "{outside:?}");
}
