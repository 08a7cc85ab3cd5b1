//! Runs other programs.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use miette::{IntoDiagnostic, WrapErr, miette};

/// `program` with `arguments` and empty input.
pub(crate) fn command<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command, and returns its standard output.
///
/// # Errors
/// If it cannot be started or fails, with its messages. `package` is Debian's package.
pub(crate) fn output(mut command: Command, package: &str) -> miette::Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command
        .output()
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot start {program}; on Debian: apt-get install {package}"))?;
    if status.success() {
        return Ok(stdout);
    }
    let message = String::from_utf8_lossy(&stderr);
    Err(miette!("{program} ended with {status}: {}", message.trim()))
}

/// Builds `vruntime` for release.
pub(crate) fn build() -> miette::Result<PathBuf> {
    eprintln!("building vruntime");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    output(command(&cargo, ["build", "--release", "--package", "vruntime"]), "cargo")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("release/vruntime"))
}
