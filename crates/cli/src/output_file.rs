//! Files that appear when they are complete: a full disk leaves none that only looks complete.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use crate::inputs;

/// A file that is written under a temporary name in its own folder. [`OutputFile::keep`] renames it; without that, it
/// is removed, and an earlier file stays.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    /// The temporary name and the name to be; none if the file is written in place.
    renamed: Option<(TempPath, PathBuf)>,
    /// The temporary name among all such.
    listed: Option<Listed>,
}

/// The temporary names of files that are not complete.
static INCOMPLETE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns all temporary names. The set is whole also after a panic of another thread.
fn incomplete() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that are not complete: the program ends at once, and nothing is dropped.
pub(crate) fn remove_incomplete() {
    for path in incomplete().iter() {
        // There is no place left to report an error.
        let _removed = fs::remove_file(path);
    }
}

/// An entry in [`INCOMPLETE`], while it exists.
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
    /// Begins a file. Fails if `path` names a file that the command has read.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        inputs::check_output(path)?;
        match replaceable(path).and_then(|(path, there)| temporary(path, there.as_ref()).ok()) {
            Some(file) => Ok(file),
            None => Ok(Self { file: File::create(path)?, renamed: None, listed: None }),
        }
    }

    /// Gives the file its name, when everything is written.
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

/// Writes a whole file.
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

        // As for every new file, the umask decides.
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

/// Returns the file that a rename may replace, and its metadata. None if the file's other names, its owner or an open
/// descriptor would be lost: devices, pipes, hard links, files of others, standard output.
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
