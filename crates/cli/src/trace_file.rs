//! Files that a machine left: its trace, and what it says of its groups.

use std::env;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use miette::{IntoDiagnostic, WrapErr, miette};
use vruntime_trace::read::{self, Events, TextReader};
use vruntime_workload::cgroups::Cgroups;

use crate::{input, inputs, interrupt};

/// Events between two looks for Ctrl-C.
pub(crate) const ROUND: u64 = 1 << 16;

/// Opens a file, or standard input if it is `-`. Text is read as it comes; a binary file is read to and fro, so that it
/// is kept first.
pub(crate) fn open(path: &Path) -> miette::Result<Box<dyn Events>> {
    inputs::record(path);
    if path == Path::new("-") {
        let mut first = Vec::new();
        io::stdin().lock().take(16).read_to_end(&mut first).into_diagnostic()?;
        if !read::is_text(&first) {
            let kept = interrupt::reading(|| kept(&mut Cursor::new(first).chain(io::stdin().lock())))
                .into_diagnostic()
                .wrap_err_with(|| format!("cannot keep standard input in {}", env::temp_dir().display()))?;
            return read::from_reader(kept).map_err(|error| explain(path, &error));
        }
        return Ok(Box::new(TextReader::new(Cursor::new(first).chain(io::stdin()))));
    }
    read::open(path).map_err(|error| explain(path, &error))
}

/// All that there is to read as a file that has no name, and is gone with the program.
fn kept(from: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(from, &mut file)?;
    file.rewind()?;
    Ok(file)
}

pub(crate) fn explain(path: &Path, error: &read::Error) -> miette::Report {
    let message = format!("cannot read {}: {error}", path.display());
    let wanted = "name a trace: trace.dat, perf.data, a Perfetto trace or ftrace text; `-` reads standard input";
    let help = match error {
        read::Error::Io(error) => input::help_with(path, error, wanted),
        read::Error::NoEvents { .. } | read::Error::WithoutEvents { .. }
            if path != Path::new("-") && input::is_workload(path) =>
        {
            format!("it looks like a workload, which `vruntime run {}` runs", path.display())
        }
        other => other.help().unwrap_or(wanted).to_owned(),
    };
    miette!(help = help, "{message}")
}

/// Reads what `--cgroups` names.
pub(crate) fn cgroups(path: &Path) -> miette::Result<Cgroups> {
    let bytes = input::contents(path, "name what the script of docs/replay.md wrote")?;
    Ok(Cgroups::read(&path.display().to_string(), &bytes)?)
}
