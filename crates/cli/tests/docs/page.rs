//! Figures of a page that the command does not print: computed again, and searched for in the text.

use assert_cmd::Command;

use super::root;

pub(super) fn well(arguments: &[&str]) -> Vec<u8> {
    let output = Command::cargo_bin("vruntime").expect("cargo has built it").args(arguments).output().expect("it runs");
    // 2: traces that are compared are not alike.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{arguments:?}: {stderr}");
    output.stdout
}

pub(super) fn range(values: &[f64], digits: usize) -> String {
    let [least, most] = [f64::min, f64::max].map(|pick| values.iter().copied().reduce(pick).expect("there are some"));
    let [least, most] = [least, most].map(|value| format!("{value:.digits$}"));
    if least == most { least } else { format!("{least} to {most}") }
}

/// A page, and the text missing from it.
pub(super) struct Page {
    name: &'static str,
    pub(super) text: String,
    pub(super) stale: Vec<String>,
}

impl Page {
    /// A page of `docs/`, with single spaces.
    pub(super) fn open(name: &'static str) -> Self {
        let text = std::fs::read_to_string(root().join("docs").join(name)).expect("a document is text");
        Self { name, text: text.split_whitespace().collect::<Vec<_>>().join(" "), stale: Vec::new() }
    }

    pub(super) fn has(&mut self, figures: String) {
        if !self.text.contains(&figures) {
            self.stale.push(figures);
        }
    }

    pub(super) fn check(self) {
        assert!(self.stale.is_empty(), "docs/{} does not say:\n{}", self.name, self.stale.join("\n"));
    }
}
