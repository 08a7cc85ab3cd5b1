//! Finds random tests by their sources.

use std::fs;
use std::path::Path;

use miette::{IntoDiagnostic, WrapErr};

/// proptest's default number of cases.
const CASES: u64 = 256;

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Random {
    /// The name of its function.
    pub(crate) name: String,
    /// Cases under one seed.
    pub(crate) cases: u64,
    /// Its test binary. None for tests of the library.
    pub(crate) target: Option<String>,
}

impl Random {
    /// Whether the binary of `target` may have it: `tests/a.rs` and `tests/a/b.rs` are part of `a`.
    pub(crate) fn may_be_in(&self, target: &str) -> bool {
        self.target.as_ref().is_none_or(|name| name == target)
    }
}

/// Finds the random tests of the package in a folder.
///
/// # Errors
/// If a source cannot be read.
pub(crate) fn random_tests(package: &Path) -> miette::Result<Vec<Random>> {
    let mut found = Vec::new();
    walk(&package.join("src"), None, &mut found)?;
    walk(&package.join("tests"), Some(""), &mut found)?;
    Ok(found)
}

/// Reads all sources below a folder. `target` is their test binary, or empty in `tests`, where each entry has one.
fn walk(folder: &Path, target: Option<&str>, found: &mut Vec<Random>) -> miette::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let target = target.map(|target| if target.is_empty() { stem.as_str() } else { target });
        if path.is_dir() {
            walk(&path, target, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
            let target = target.map(str::to_owned);
            found.extend(of_text(&text).map(|(name, cases)| Random { name, cases, target: target.clone() }));
        }
    }
    Ok(())
}

/// Returns a source's random tests and numbers of cases. They are in a `proptest!`, or call `any_seed()`, possibly
/// through other functions, and then have one case.
fn of_text(text: &str) -> impl Iterator<Item = (String, u64)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut others = String::new();
    while let Some(at) = rest.find("proptest! {") {
        let block = braced(&rest[at..]);
        found.extend(tests(block).map(|name| (name.to_owned(), cases(block))));
        others.push_str(&rest[..at]);
        rest = &rest[at + block.len()..];
    }
    others.push_str(rest);
    let functions: Vec<(&str, &str)> = functions(&others).filter(|(name, _)| *name != "any_seed").collect();
    let mut seeded = vec!["any_seed"];
    // Repeats until no function that calls one of these is left.
    while let Some((name, _)) =
        functions.iter().find(|(name, body)| !seeded.contains(name) && seeded.iter().any(|called| calls(body, called)))
    {
        seeded.push(name);
    }
    found.extend(tests(&others).filter(|name| seeded.contains(name)).map(|name| (name.to_owned(), 1)));
    found.into_iter()
}

fn functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("fn ").filter_map(|(at, _)| {
        let after = &text[at + 3..];
        let name = &after[..after.find(|char: char| char != '_' && !char.is_ascii_alphanumeric())?];
        Some((name, braced(&after[after.find('{')?..])))
    })
}

/// Whether a body calls a function, with or without types.
fn calls(body: &str, name: &str) -> bool {
    body.match_indices(name).any(|(at, _)| {
        let before = body[..at].chars().next_back().is_none_or(|char| char != '_' && !char.is_ascii_alphanumeric());
        let after = &body[at + name.len()..];
        before && (after.starts_with('(') || after.starts_with("::<"))
    })
}

/// Returns the text up to the brace that closes the first one.
fn braced(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..=at],
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text
}

fn tests(text: &str) -> impl Iterator<Item = &str> {
    text.split("#[test]").skip(1).filter_map(|after| {
        let name = &after[after.find("fn ")? + 3..];
        Some(&name[..name.find('(')?])
    })
}

/// Returns the cases of the tests in a `proptest!`.
fn cases(block: &str) -> u64 {
    let config = block.find("proptest_config(").map_or("", |at| block[at..].split("#[test]").next().unwrap_or(""));
    let number = ["cases: ", "with_cases(", "config(config("].iter().find_map(|before| {
        let digits = &config[config.find(before)? + before.len()..];
        digits[..digits.find(|char: char| !char.is_ascii_digit())?].parse().ok()
    });
    number.unwrap_or(CASES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_tests_are_found_with_their_cases() {
        // A separate file, since this source would seem to have these tests.
        let text = include_str!("sources/blocks.txt");
        let found: Vec<(String, u64)> = of_text(text).collect();
        let expected = [("usual", 256), ("seven", 7), ("also", 7), ("sixty", 60)];
        assert_eq!(found, expected.map(|(name, cases)| (name.to_owned(), cases)));
    }

    #[test]
    fn tests_with_a_seed_of_their_own_are_found() {
        let text = include_str!("sources/seeded.txt");
        let found: Vec<(String, u64)> = of_text(text).collect();
        assert_eq!(found, ["draws", "drives"].map(|name| (name.to_owned(), 1)));
    }

    /// Tests in a module of a test, in a single file, and in a library.
    #[test]
    fn those_of_the_workspace_are_found() {
        let found = random_tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../sched")).unwrap();
        let of =
            |name: &str| found.iter().find(|test| test.name == name).map(|test| (test.target.as_deref(), test.cases));
        let limits = of("no_group_uses_more_than_its_limit_and_lags_keep_their_bounds");
        assert_eq!(limits, Some((Some("limits"), 1500)));
        assert_eq!(of("invariants_hold_after_every_call"), Some((Some("invariants"), 4000)));
        assert_eq!(of("behaves_like_a_sorted_list"), Some((None, 384)));
        assert_eq!(of("nothing_is_lost_under_cfs"), Some((Some("threads"), 1)));
    }
}
