//! `vruntime calibrate`.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};

use crate::args::Calibrate;
use crate::{Ended, interrupt, machine_file, output};

pub(crate) fn calibrate(calibrate: &Calibrate) -> miette::Result<Ended> {
    let path = calibrate.out.clone().map_or_else(saved, Ok)?;
    // What cannot be left is told before three seconds are spent.
    writable(&path)?;
    let calibration = match vruntime_linux::calibrate(&interrupt::asked) {
        Err(vruntime_linux::Error::Interrupted) => return Ok(Ended::Interrupted),
        measured => measured.into_diagnostic().wrap_err("this machine could not be measured")?,
    };
    for note in calibration.notes.iter().chain(&calibration.host.notes) {
        output::note(note);
    }
    let text = machine_file::write(&calibration);
    output::print(&text);
    fs::write(&path, &text).into_diagnostic().wrap_err_with(|| cannot(&path))?;
    let machine = if calibrate.out.is_some() { path.display().to_string() } else { machine_file::HOST.to_owned() };
    output::note(&format!("left in {}: simulate it with --machine {machine}", path.display()));
    Ok(Ended::Well)
}

/// The file of who names none. Its folder is made: nobody has to make one for what he does not name.
fn saved() -> miette::Result<PathBuf> {
    let help = "name a file with --out";
    let path =
        machine_file::saved().ok_or_else(|| miette!(help = help, "there is no home directory to leave it in"))?;
    path.parent().map_or(Ok(()), fs::create_dir_all).into_diagnostic().wrap_err_with(|| cannot(&path))?;
    Ok(path)
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Whether a file can be written: it is there, or its folder is; nothing is left behind.
fn writable(path: &Path) -> miette::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let (help, folder) = ("make it first, or name another with --out", folder.display());
        return Err(miette!(help = help, "{}: there is no folder {folder}", cannot(path)));
    }
    let opened =
        if path.exists() { OpenOptions::new().write(true).open(path).map(drop) } else { super::scratch(folder) };
    opened.into_diagnostic().wrap_err_with(|| cannot(path))
}
