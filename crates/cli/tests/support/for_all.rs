//! A copy of the command that every user may execute.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies the command into `folder`, and opens that to all users: the build folder may be closed to them. Returns the
/// copy's path.
pub(crate) fn copied(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let copy = folder.join("vruntime");
    // Another process writes the copy, because a file that is open for writing cannot be executed. A process that
    // another test forks has this process's open files for a moment.
    let installed =
        Command::new("install").args(["-m", "0755"]).arg(assert_cmd::cargo::cargo_bin("vruntime")).arg(&copy).status();
    assert!(installed.as_ref().is_ok_and(std::process::ExitStatus::success), "{installed:?}");
    copy
}
