//! `vruntime calibrate`.

use std::path::Path;

use miette::{IntoDiagnostic, WrapErr, miette};

use super::leave;
use crate::args::Calibrate;
use crate::{Ended, interrupt, machine_file, output};

pub(crate) fn calibrate(calibrate: &Calibrate) -> miette::Result<Ended> {
    let calibration = match vruntime_linux::calibrate(&interrupt::asked) {
        Err(vruntime_linux::Error::Interrupted) => return Ok(Ended::Interrupted),
        measured => measured.into_diagnostic().wrap_err("this machine could not be measured")?,
    };
    for note in calibration.notes.iter().chain(&calibration.host.notes) {
        output::note(note);
    }
    let text = machine_file::write(&calibration);
    output::print(&text);
    let help = "name a file with --out";
    let path = match &calibrate.out {
        Some(path) => path.clone(),
        None => {
            machine_file::saved().ok_or_else(|| miette!(help = help, "there is no home directory to leave it in"))?
        }
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str());
    leave(folder, name.ok_or_else(|| miette!("{} names no file", path.display()))?, &text)?;
    let machine = if calibrate.out.is_some() { path.display().to_string() } else { machine_file::HOST.to_owned() };
    output::note(&format!("left in {}: simulate it with --machine {machine}", path.display()));
    Ok(Ended::Well)
}
