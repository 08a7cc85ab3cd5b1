//! Allowed findings of each unit. They may only fall.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use miette::{IntoDiagnostic, WrapErr, miette};

/// The head of the file.
const HEAD: &str = "\
# The number of findings of `cargo xtask prose` that each text may have. A text that is not listed has none.
# The numbers may only fall: `cargo xtask prose --update` lowers them.
";

/// Findings by unit. A missing unit has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, usize>);

impl Counts {
    /// Counts findings by unit. `all` are the checked units.
    pub(crate) fn of(all: impl IntoIterator<Item = String>, findings: impl IntoIterator<Item = String>) -> Self {
        let mut counts: BTreeMap<String, usize> = all.into_iter().map(|unit| (unit, 0)).collect();
        for unit in findings {
            *counts.entry(unit).or_default() += 1;
        }
        Self(counts)
    }

    /// Reads lines of a number and a unit, and comments.
    ///
    /// # Errors
    /// If the file cannot be read, or a line has another form.
    pub(crate) fn read(path: &Path) -> miette::Result<Self> {
        let text = fs::read_to_string(path).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> miette::Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let count = |line: &str| {
            let (count, unit) = line.split_once(' ')?;
            Some((unit.to_owned(), count.parse().ok()?))
        };
        lines
            .map(|line| count(line).ok_or_else(|| miette!("`{line}`: expected `NUMBER TEXT`")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> miette::Result<()> {
        fs::write(path, self.text()).into_diagnostic().wrap_err_with(|| path.display().to_string())
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (unit, count) in self.0.iter().filter(|(_, count)| **count > 0) {
            let _infallible = writeln!(text, "{count} {unit}");
        }
        text
    }

    fn get(&self, unit: &str) -> usize {
        self.0.get(unit).copied().unwrap_or(0)
    }

    /// These numbers, at most `found`.
    pub(crate) fn lowered(&self, found: &Self) -> Self {
        Self(self.0.iter().map(|(unit, count)| (unit.clone(), found.get(unit).min(*count))).collect())
    }

    /// Returns a line for each unit with too many findings.
    pub(crate) fn above(&self, found: &Self) -> Vec<String> {
        let above = found.0.iter().filter(|(unit, count)| **count > self.get(unit));
        above.map(|(unit, count)| format!("{unit}: {count} findings, at most {} are allowed", self.get(unit))).collect()
    }

    /// Returns a line for each unit with fewer findings than allowed.
    pub(crate) fn below(&self, found: &Self) -> Vec<String> {
        let below = self.0.iter().filter(|(unit, count)| found.get(unit) < **count);
        below.map(|(unit, count)| format!("{unit}: {} findings, {count} are allowed", found.get(unit))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Higher and lower numbers are found. Lowering never raises.
    #[test]
    fn counts_only_fall() {
        let allowed = Counts::parse("# head\n3 a.md\n2 b.md\n1 gone.md\n").unwrap();
        let unit = |name: &str, count| std::iter::repeat_n(name.to_owned(), count);
        let found = unit("a.md", 4).chain(unit("b.md", 1)).chain(unit("new.md", 1));
        let found = Counts::of(["a.md", "b.md", "clean.md", "new.md"].map(str::to_owned), found);
        assert_eq!(
            allowed.above(&found),
            ["a.md: 4 findings, at most 3 are allowed", "new.md: 1 findings, at most 0 are allowed"]
        );
        assert_eq!(allowed.below(&found), ["b.md: 1 findings, 2 are allowed", "gone.md: 0 findings, 1 are allowed"]);
        assert_eq!(allowed.lowered(&found).text(), format!("{HEAD}3 a.md\n1 b.md\n"));
        assert!(Counts::parse("many a.md").is_err());
    }
}
