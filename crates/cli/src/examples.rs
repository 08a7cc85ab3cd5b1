//! Embedded examples, which run by name: files of the repository's `scenarios/`.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use include_dir::{Dir, include_dir};
use vruntime_workload::nearest;

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/embedded/scenarios");

/// An embedded scenario.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// The name on the command line, and in the scenario.
    pub(crate) name: &'static str,
    /// The file, relative to `scenarios/`.
    pub(crate) file: &'static str,
}

/// All examples, the simplest first.
pub(crate) const EXAMPLES: [Example; 5] = [
    Example { name: "demo", file: "demo/demo.toml" },
    Example { name: "web", file: "examples/web.toml" },
    Example { name: "build", file: "examples/build.toml" },
    Example { name: "phone", file: "examples/phone.toml" },
    Example { name: "real-time", file: "examples/real-time.toml" },
];

impl Example {
    /// Returns the example that a path names, unless a file (not a folder) of that name exists.
    pub(crate) fn at(path: &Path) -> Option<&'static Self> {
        let found = path.to_str().and_then(Self::named)?;
        let is_taken = fs::symlink_metadata(path).is_ok() && !path.is_dir();
        (!is_taken).then_some(found)
    }

    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        EXAMPLES.iter().find(|example| example.name == name)
    }

    /// Returns the scenario as one text, with the rt-app files that it names.
    pub(crate) fn text(&self) -> String {
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        let mut text = String::new();
        for line in embedded(self.file).lines() {
            let named = line.strip_prefix("rtapp = \"").and_then(|rest| rest.strip_suffix('"'));
            let inlined = named.map(|name| format!("rtapp_inline = '''\n{}'''", embedded(folder.join(name))));
            text.push_str(&inlined.map_or(Cow::Borrowed(line), Cow::Owned));
            text.push('\n');
        }
        text
    }

    pub(crate) fn description(&self) -> String {
        let file: Option<toml::Table> = embedded(self.file).parse().ok();
        let described = file.as_ref().and_then(|file| file.get("scenario")?.get("description")?.as_str());
        described.unwrap_or_default().to_owned()
    }
}

/// Returns the scenario that `vruntime init` writes.
pub(crate) fn start() -> &'static str {
    embedded("examples/start.toml")
}

/// Returns an embedded file; a test checks that it exists.
fn embedded(path: impl AsRef<Path>) -> &'static str {
    SCENARIOS.get_file(path).and_then(include_dir::File::contents_utf8).unwrap_or_default()
}

/// Suggests an example if there is no file at `path`. `help` suggests a file.
pub(crate) fn suggestion(path: &Path, help: &str) -> String {
    let is_name = path.components().count() == 1;
    let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_name);
    match name.and_then(|name| nearest(name, EXAMPLES.iter().map(|example| example.name))) {
        Some(name) if help.starts_with("did you mean") => {
            format!("{help} An embedded example has the name `{name}`; `vruntime example` lists all")
        }
        Some(name) => format!("did you mean the embedded example `{name}`? `vruntime example` lists all"),
        None if !is_name || help.starts_with("did you mean") => help.to_owned(),
        None => format!("{help}; `vruntime example` lists the embedded examples"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_embedded_and_described() {
        for example in &EXAMPLES {
            let text = example.text();
            assert!(!text.contains("\nrtapp = "), "{}: it names another file", example.name);
            assert!(text.lines().count() > 30 && text.starts_with("# "), "{}: {text}", example.name);
            let described = example.description();
            assert!((20..=80).contains(&described.len()), "{}: {described}", example.name);
            let file: toml::Table = text.parse().expect("it is TOML");
            assert_eq!(file["scenario"]["name"].as_str(), Some(example.name));
        }
        assert_eq!(Example::named("demo").map(|demo| demo.text().matches("rtapp_inline = '''").count()), Some(3));
        assert!(start().contains("[[task]]"));
    }

    #[test]
    fn a_file_has_priority_over_an_example() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Example::at(Path::new("demo")), Some(&EXAMPLES[0]));
        assert_eq!(Example::at(&folder.path().join("demo")), None, "a path is no name");
        // Tests run in the folder of their crate.
        assert_eq!(Example::at(Path::new("src")), None);
    }

    #[test]
    fn suggestions_name_the_nearest_example() {
        let of = |path: &str, help: &str| suggestion(Path::new(path), help);
        assert_eq!(of("dmeo", "name a file"), "did you mean the embedded example `demo`? `vruntime example` lists all");
        assert_eq!(of("phone.toml", "name a file"), of("phone", "name a file"));
        assert_eq!(
            of("wob", "did you mean wob.json?"),
            "did you mean wob.json? An embedded example has the name `web`; `vruntime example` lists all"
        );
        assert_eq!(of("else", "name a file"), "name a file; `vruntime example` lists the embedded examples");
        assert_eq!([of("a/demo", "name a file"), of("else", "did you mean b?")], ["name a file", "did you mean b?"]);
    }
}
