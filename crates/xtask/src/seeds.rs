//! `cargo xtask seeds`: runs random tests under many seeds.
//!
//! `make test` uses one seed, from the commit's hash. This builds the test binaries once, and runs each random test
//! alone under successive seeds, until it fails.

mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde_json::Value;

use crate::command::{command, output};
use crate::print;
use sources::{Random, random_tests};

/// The variable of proptest and `tests/seed.rs`.
const VARIABLE: &str = "PROPTEST_RNG_SEED";

#[derive(Debug, Args)]
pub(crate) struct Seeds {
    /// How many seeds each test runs under
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// The first seed; the others follow it
    #[arg(long, value_name = "SEED", default_value = "1")]
    from: u64,
    /// How many tests run at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: u32,
    /// Only tests whose package, binary or name contains this text; can be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Start no run after this time, and report how many seeds each test ran under
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// List the tests, and run none
    #[arg(long)]
    list: bool,
}

#[derive(Debug)]
struct Test {
    /// The printed name: `vruntime-sched limits random::no_group…`.
    name: String,
    /// The name in its binary.
    path: String,
    binary: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    cases: u64,
}

#[derive(Debug, Default)]
struct Progress {
    seeds: u64,
    took: Duration,
    failed: bool,
}

impl Seeds {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let last = self.from.checked_add(self.count - 1).ok_or_else(|| miette!("no seed is beyond {}", u64::MAX))?;
        let mut tests = tests()?;
        tests.retain(|test| self.only.is_empty() || self.only.iter().any(|text| test.name.contains(text)));
        if tests.is_empty() {
            return Err(miette!("no test that draws at random is called so"));
        }
        if self.list {
            for test in &tests {
                print::line!("{:>5} cases  {}", test.cases, test.name);
            }
            return Ok(());
        }
        eprintln!("{} tests, seeds {} to {last}", tests.len(), self.from);
        let until = self.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        // The first seed measures each test. Quick tests run first, to show failures early.
        let mut all: Vec<(Test, Progress)> = self.each(tests, |test| {
            let mut progress = Progress::default();
            run_seeds(test, &mut progress, self.from..=self.from, until)?;
            Ok(progress)
        })?;
        all.sort_by_key(|(_, progress)| progress.took);
        let all = self.each(all, |(test, first)| {
            let mut progress = Progress { ..*first };
            if !progress.failed && self.from < last {
                run_seeds(test, &mut progress, self.from + 1..=last, until)?;
            }
            print::line!("{}", line(test, &progress));
            Ok(progress)
        })?;
        summary(&all.iter().map(|((test, _), progress)| (test, progress)).collect::<Vec<_>>())
    }

    /// Calls `work` for each item on `jobs` threads, and returns items and outcomes in order.
    fn each<T: Sync, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(&T) -> miette::Result<R> + Sync,
    ) -> miette::Result<Vec<(T, R)>> {
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, miette::Result<R>)>> = Mutex::new(Vec::new());
        std::thread::scope(|threads| {
            for _ in 0..self.jobs {
                threads.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(index) else { return };
                        let outcome = work(item);
                        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, outcome));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        items.into_iter().zip(done).map(|(item, (_, outcome))| Ok((item, outcome?))).collect()
    }
}

/// Runs the test under successive seeds, until failure, which is printed, or until time is over.
fn run_seeds(
    test: &Test,
    progress: &mut Progress,
    seeds: std::ops::RangeInclusive<u64>,
    until: Option<Instant>,
) -> miette::Result<()> {
    for seed in seeds {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let began = Instant::now();
        let mut run = command(&test.binary.to_string_lossy(), [test.path.as_str(), "--exact"]);
        run.current_dir(&test.folder);
        run.env(VARIABLE, seed.to_string()).env("RUST_BACKTRACE", "0");
        let outcome = run.output().into_diagnostic().wrap_err_with(|| test.binary.display().to_string())?;
        progress.took += began.elapsed();
        progress.seeds += 1;
        let printed = String::from_utf8_lossy(&outcome.stdout);
        if !outcome.status.success() {
            progress.failed = true;
            print::line!("FAILED: {VARIABLE}={seed} {}\n{}", test.name, failure(&printed));
            break;
        }
        if !printed.contains("1 passed") {
            return Err(miette!("{} was not run by its name", test.name));
        }
    }
    Ok(())
}

/// Returns the output of a failure: from the shrunk input on, or all.
fn failure(printed: &str) -> &str {
    let from = printed.rfind("Test failed: ").or_else(|| printed.find("panicked at ")).unwrap_or(0);
    let printed = &printed[from..];
    printed[..printed.find("\nfailures:\n").unwrap_or(printed.len())].trim_end()
}

fn line(test: &Test, progress: &Progress) -> String {
    let state = if progress.failed { "FAILED" } else { "ok" };
    let Progress { seeds, took, .. } = progress;
    let cases = seeds * test.cases;
    format!("{state:<6} {seeds:>5} seeds {cases:>9} cases {:>8.1} s  {}", took.as_secs_f64(), test.name)
}

/// Prints sums.
///
/// # Errors
/// If a test failed.
fn summary(all: &[(&Test, &Progress)]) -> miette::Result<()> {
    let failed = all.iter().filter(|(_, progress)| progress.failed).count();
    let runs: u64 = all.iter().map(|(_, progress)| progress.seeds).sum();
    let cases: u64 = all.iter().map(|(test, progress)| progress.seeds * test.cases).sum();
    let fewest = all.iter().map(|(_, progress)| progress.seeds).min().unwrap_or(0);
    print::line!(
        "{} tests, {failed} failed; {runs} runs, {cases} cases; every test ran under {fewest} seeds or more",
        all.len()
    );
    if failed > 0 {
        return Err(miette!("{failed} of {} tests failed under some seed", all.len()));
    }
    Ok(())
}

/// Builds the test binaries of packages with random tests, and finds these tests.
fn tests() -> miette::Result<Vec<Test>> {
    let mut sources: Vec<(PathBuf, Vec<Random>)> = Vec::new();
    let crates = fs::read_dir("crates").into_diagnostic().wrap_err("run this in the repository's root")?;
    for folder in crates.flatten().map(|entry| entry.path()) {
        let found = random_tests(&folder)?;
        if !found.is_empty() {
            sources.push((folder.canonicalize().into_diagnostic()?, found));
        }
    }
    let names = sources.iter().map(|(folder, _)| package(folder)).collect::<miette::Result<Vec<String>>>()?;
    eprintln!("building the tests of {}", names.join(", "));
    let mut found = Vec::new();
    let built = build(&names)?;
    for ((folder, random), package) in sources.iter().zip(&names) {
        let mut missing: Vec<&Random> = random.iter().collect();
        for (target, binary) in
            built.iter().filter(|(manifest, _, _)| manifest.parent() == Some(folder.as_path())).map(|it| (&it.1, &it.2))
        {
            for path in listed(binary)? {
                let name = path.rsplit("::").next().unwrap_or(&path);
                if let Some(is) = random.iter().find(|is| is.name == name && is.may_be_in(target)) {
                    missing.retain(|missing| missing.name != is.name);
                    let (name, binary) = (format!("{package} {target} {path}"), binary.clone());
                    found.push(Test { name, path, binary, folder: folder.clone(), cases: is.cases });
                }
            }
        }
        if let Some(missing) = missing.first() {
            return Err(miette!("{package} has `{}` in its sources, but in no test binary", missing.name));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn package(folder: &Path) -> miette::Result<String> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).into_diagnostic().wrap_err_with(|| manifest.display().to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    line.map(str::to_owned).ok_or_else(|| miette!("{} names no package", manifest.display()))
}

/// Builds the test binaries of packages. Returns manifest, target and path.
fn build(packages: &[String]) -> miette::Result<Vec<(PathBuf, String, PathBuf)>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut arguments = vec!["test", "--lib", "--tests", "--no-run", "--message-format=json"];
    for package in packages {
        arguments.extend(["--package", package.as_str()]);
    }
    let messages = output(command(&cargo, arguments), "cargo")?;
    let lines = messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let binaries = lines.filter_map(|message| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let binary = text(&message["executable"])?;
        let is_test = message["profile"]["test"] == true;
        let manifest = PathBuf::from(text(&message["manifest_path"])?);
        is_test.then_some((manifest, text(&message["target"]["name"])?, PathBuf::from(binary)))
    });
    Ok(binaries.collect())
}

fn listed(binary: &Path) -> miette::Result<Vec<String>> {
    let list = output(command(&binary.to_string_lossy(), ["--list", "--format", "terse"]), "cargo")?;
    let text = String::from_utf8_lossy(&list);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
