//! Other programs.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use miette::{IntoDiagnostic, WrapErr, miette};

/// `program` with `arguments`, and nothing to read.
pub(crate) fn command<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end. What it printed on standard output.
///
/// # Errors
/// If it is not there (`package` is Debian's that has it), or did not end well: then with what it said.
pub(crate) fn output(mut command: Command, package: &str) -> miette::Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command
        .output()
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot start {program}; on Debian: apt-get install {package}"))?;
    if status.success() {
        return Ok(stdout);
    }
    let said = String::from_utf8_lossy(&stderr);
    Err(miette!("{program} ended with {status}: {}", said.trim()))
}
