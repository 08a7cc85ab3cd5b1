//! The files that the command reads, which outputs must not replace.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// All files read so far.
static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Records that the command reads a file; `-` is standard input.
pub(crate) fn record(path: &Path) {
    // The set of a poisoned lock is whole.
    READ.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
}

/// Fails if a path names a file that the command has read.
pub(crate) fn check_output(path: &Path) -> io::Result<()> {
    refuse(Inputs::all(&[]).same_as(path))
}

pub(crate) fn is_stdout(path: &Path) -> bool {
    of_stdout().is_some_and(|stdout| of_path(path) == Some(stdout))
}

/// Fails if standard output is a file that the command has read (`vruntime run a.toml >> a.toml`).
pub(crate) fn check_stdout() -> io::Result<()> {
    refuse(Inputs::all(&[]).same_as_stdout())
}

fn refuse(input: Option<&Input>) -> io::Result<()> {
    input.map_or(Ok(()), |input| Err(io::Error::other(format!("the command reads that file as {}", input.name()))))
}

/// All inputs that are regular files. Devices and pipes may be outputs, too.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<Input>);

/// An input, and its identity under any name.
#[derive(Debug)]
pub(crate) struct Input {
    path: PathBuf,
    identity: Identity,
}

impl Inputs {
    /// Returns `named`, and the inputs read so far. Omits missing files and special files.
    pub(crate) fn all(named: &[PathBuf]) -> Self {
        let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = named.iter().chain(read.iter());
        let found = paths.filter_map(|path| {
            let identity = if path == Path::new("-") { of_stdin() } else { of_path(path) }?;
            Some(Input { path: path.clone(), identity })
        });
        Self(found.collect())
    }

    /// Returns the input that is the same file as `output`.
    pub(crate) fn same_as(&self, output: &Path) -> Option<&Input> {
        self.find(of_path(output))
    }

    pub(crate) fn same_as_stdout(&self) -> Option<&Input> {
        self.find(of_stdout())
    }

    fn find(&self, output: Option<Identity>) -> Option<&Input> {
        let output = output?;
        self.0.iter().find(|input| input.identity == output)
    }
}

impl Input {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> String {
        if self.path == Path::new("-") { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    /// Whether `output` is the same path after resolving symlinks. False for another hard link.
    pub(crate) fn is_at(&self, output: &Path) -> bool {
        let whole = |path: &Path| fs::canonicalize(path).ok();
        self.path != Path::new("-") && whole(&self.path).is_some_and(|path| whole(output) == Some(path))
    }
}

/// Device and inode.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn of(there: &fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    there.is_file().then(|| (there.dev(), there.ino()))
}

#[cfg(unix)]
fn of_path(path: &Path) -> Option<Identity> {
    // Without opening it, which has effects in tracefs.
    of(&fs::metadata(path).ok()?)
}

#[cfg(unix)]
fn of_stdin() -> Option<Identity> {
    use std::os::fd::AsFd;

    of_open(io::stdin().as_fd())
}

#[cfg(unix)]
fn of_stdout() -> Option<Identity> {
    use std::os::fd::AsFd;

    of_open(io::stdout().as_fd())
}

#[cfg(unix)]
fn of_open(open: std::os::fd::BorrowedFd<'_>) -> Option<Identity> {
    of(&File::from(open.try_clone_to_owned().ok()?).metadata().ok()?)
}

/// The canonical path: this system has no inodes.
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(not(unix))]
fn of_path(path: &Path) -> Option<Identity> {
    fs::canonicalize(path).ok().filter(|path| path.is_file())
}

#[cfg(not(unix))]
fn of_stdin() -> Option<Identity> {
    None
}

#[cfg(not(unix))]
fn of_stdout() -> Option<Identity> {
    None
}
