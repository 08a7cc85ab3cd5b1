//! `cargo xtask traces DIR`: checks the command on real traces that licence or size keeps out of the repository.
//!
//! `trace info`, `trace analyse` and `replay` must agree on every trace. Traces in [`known`] must match the counts of
//! an independent parser, and `docs/replay.md`.

mod known;
#[path = "../../../tests/lacks.rs"]
mod losses;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde_json::Value;

use crate::command::{build, command, output};
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Traces {
    /// The folder of the traces; other files in it are left alone
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

struct Reader {
    vruntime: PathBuf,
    folder: PathBuf,
}

impl Reader {
    /// Returns the output of the command in that folder.
    fn prints(&self, arguments: &[&str]) -> miette::Result<String> {
        let mut run = command(&self.vruntime.to_string_lossy(), arguments);
        run.current_dir(&self.folder).env("NO_COLOR", "1").env("COLUMNS", "100");
        let out = output(run, "rust-all").wrap_err_with(|| arguments.join(" "))?;
        String::from_utf8(out).into_diagnostic()
    }

    fn json(&self, arguments: &[&str]) -> miette::Result<Value> {
        serde_json::from_str(&self.prints(&[arguments, &["--json"]].concat())?).into_diagnostic()
    }

    /// Returns the gaps of a trace, on which all commands agree. None if the file is no trace.
    fn lacks(&self, file: &str) -> miette::Result<Option<[u64; 3]>> {
        let Ok(info) = self.json(&["trace", "info", file]) else { return Ok(None) };
        let analysed = self.json(&["trace", "analyse", file])?;
        let possible = info["replay"]["possible"] == true;
        let replayed = possible.then(|| self.json(&["replay", file, "--as-recorded"])).transpose()?;
        losses::lacks(&info, &analysed, replayed.as_ref()).map(Some).map_err(|error| miette!("{error}"))
    }
}

impl Traces {
    pub(crate) fn run(&self) -> miette::Result<()> {
        let files = files(&self.folder)?;
        let vruntime = build()?.canonicalize().into_diagnostic().wrap_err("cargo has built no command")?;
        let reader = Reader { vruntime, folder: self.folder.clone() };
        let (mut traces, mut of_known, mut wrong) = (0, 0, 0);
        for file in &files {
            let mut found = Vec::new();
            match reader.lacks(file) {
                Ok(Some([broken, missing, unwoken])) => {
                    traces += 1;
                    print::line!("{file}: {broken} switches, {missing} arrivals and {unwoken} wakeups are missing");
                }
                Ok(None) if known::of(file).is_none() => continue,
                Ok(None) => found.push("is no trace".to_owned()),
                Err(error) => found.push(error.to_string()),
            }
            if let Some(known) = known::of(file) {
                of_known += 1;
                match known.differences(&reader) {
                    Ok(differences) => found.extend(differences),
                    Err(error) => found.push(format!("{error:?}")),
                }
            }
            wrong += found.len();
            for difference in &found {
                print::line!("{file}: {difference}");
            }
        }
        for known in known::KNOWN.iter().filter(|known| files.iter().all(|file| file != known.file)) {
            print::line!("{}: is not there ({})", known.file, known.source);
        }
        let summary = format!("{traces} traces, {of_known} of the {} known ones", known::KNOWN.len());
        if traces == 0 {
            return Err(miette!("there are no traces in {}", self.folder.display()));
        }
        if wrong > 0 {
            return Err(miette!("{wrong} differences in {summary}"));
        }
        print::line!("{summary}: no differences");
        Ok(())
    }
}

fn files(folder: &Path) -> miette::Result<Vec<String>> {
    let failed = || format!("cannot read {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_diagnostic().wrap_err_with(failed)? {
        let entry = entry.into_diagnostic().wrap_err_with(failed)?;
        if entry.path().is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
