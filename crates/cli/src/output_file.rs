//! Output files that appear only when complete.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use crate::inputs;

/// A file under a temporary name in its folder. [`OutputFile::keep`] renames it. Without that, it is removed, and an
/// existing file stays.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    /// The temporary and the final name. `None`: written in place.
    renamed: Option<(TempPath, PathBuf)>,
    listed: Option<Listed>,
}

/// The temporary names of incomplete files.
static INCOMPLETE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns all temporary names. The set of a poisoned lock is whole.
fn incomplete() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes incomplete files before an exit without drops.
pub(crate) fn remove_incomplete() {
    for path in incomplete().iter() {
        // A failure cannot be reported.
        let _removed = fs::remove_file(path);
    }
}

/// An entry in [`INCOMPLETE`], removed on drop.
#[derive(Debug)]
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        incomplete().insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        incomplete().remove(&self.0);
    }
}

impl OutputFile {
    /// Creates a file. Fails if the command has read `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        inputs::check_output(path)?;
        match replaceable(path).and_then(|(path, there)| temporary(path, there.as_ref()).ok()) {
            Some(file) => Ok(file),
            None => Ok(Self { file: File::create(path)?, renamed: None, listed: None }),
        }
    }

    /// Gives the complete file its name.
    pub(crate) fn keep(self) -> io::Result<()> {
        let Self { mut file, renamed, listed } = self;
        file.flush()?;
        drop(file);
        let renamed = renamed.map_or(Ok(()), |(temporary, path)| temporary.persist(path).map_err(|error| error.error));
        drop(listed);
        renamed
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes)?;
    file.keep()
}

fn temporary(path: PathBuf, there: Option<&fs::Metadata>) -> io::Result<OutputFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".vruntime-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        // The umask applies, as for every new file.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (file, temporary) = builder.tempfile_in(folder)?.into_parts();
    if let Some(there) = there {
        file.set_permissions(there.permissions())?;
    }
    let listed = Some(Listed::new(&temporary));
    Ok(OutputFile { file, renamed: Some((temporary, path)), listed })
}

/// Returns the file that a rename may replace, and its metadata. `None` if a rename would break it: devices, pipes,
/// hard links, files of other users, standard output.
fn replaceable(path: &Path) -> Option<(PathBuf, Option<fs::Metadata>)> {
    if ["/dev", "/proc"].iter().any(|open| path.starts_with(open)) {
        return None;
    }
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Some((path.to_owned(), None));
    }
    let path = fs::canonicalize(path).ok()?;
    let there = fs::metadata(&path).ok()?;
    (there.is_file() && is_only_ours(&there) && !inputs::is_stdout(&path)).then_some((path, Some(there)))
}

#[cfg(unix)]
fn is_only_ours(there: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    there.nlink() == 1 && there.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_only_ours(_there: &fs::Metadata) -> bool {
    true
}
