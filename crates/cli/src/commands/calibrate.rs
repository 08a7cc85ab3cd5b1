//! `vruntime calibrate`.

use std::fs;
use std::path::PathBuf;

use miette::{IntoDiagnostic, WrapErr, miette};

use crate::args::Calibrate;
use crate::output_paths::{self, OutputPaths};
use crate::{Ended, complaint, interrupt, machine_file, output};

pub(crate) fn calibrate(calibrate: &Calibrate) -> miette::Result<Ended> {
    let path = calibrate.out.clone().map_or_else(saved, Ok)?;
    // Fails before the measurement.
    OutputPaths::default().file("--out", Some(&path)).check()?;
    let calibration = match vruntime_linux::calibrate(&interrupt::asked) {
        Err(vruntime_linux::Error::Interrupted) => return Ok(Ended::Interrupted),
        measured => measured
            .map_err(|error| complaint::with_help(&error, error.help()))
            .wrap_err("this machine could not be measured")?,
    };
    for note in calibration.notes.iter().chain(&calibration.host.notes) {
        output::note(note);
    }
    let text = machine_file::write(&calibration);
    output::print(&text);
    output_paths::write(&path, &text)?;
    let machine = if calibrate.out.is_some() { path.display().to_string() } else { machine_file::HOST.to_owned() };
    output::note(&format!("left in {}: simulate it with --machine {machine}", path.display()));
    Ok(Ended::Well)
}

/// Returns the default file. Creates its folder.
fn saved() -> miette::Result<PathBuf> {
    let help = "name a file with --out";
    let path = machine_file::saved().ok_or_else(|| miette!(help = help, "there is no home directory for the file"))?;
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).into_diagnostic();
    made.wrap_err_with(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
