//! Output files that appear only when complete. Every error names the file.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use crate::inputs;

/// The error of a file that cannot be written. Its source is the cause.
#[derive(Debug)]
struct Unwritten {
    path: PathBuf,
    cause: io::Error,
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}", self.path.display())
    }
}

impl Error for Unwritten {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Names the file of an error. The kind stays.
fn of_file(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    |cause| io::Error::new(cause.kind(), Unwritten { path: path.to_owned(), cause })
}

/// A file under a temporary name in its folder. [`OutputFile::keep`] gives it its name. Without that, it is removed,
/// and an existing file stays.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The name for errors.
    path: PathBuf,
    file: File,
    /// `None`: written in place.
    temporary: Option<Temporary>,
}

/// A file under a temporary name, and what it becomes.
#[derive(Debug)]
struct Temporary {
    path: TempPath,
    becomes: Becomes,
    _listed: Listed,
}

#[derive(Debug)]
enum Becomes {
    /// This file, by a rename.
    File(PathBuf),
    /// The content of this existing file, which has other names or another owner.
    ContentOf(PathBuf),
}

impl Temporary {
    fn keep(self) -> io::Result<()> {
        let Self { path: temporary, becomes, .. } = self;
        match becomes {
            Becomes::File(path) => temporary.persist(path).map_err(|error| error.error),
            Becomes::ContentOf(path) => copy(&temporary, &path).or_else(|error| {
                let there = temporary.keep().map_err(|error| error.error)?;
                Err(io::Error::new(error.kind(), format!("{error}; the whole content is in {}", there.display())))
            }),
        }
    }

    /// As [`Temporary::keep`], for a new file. Fails if the file exists.
    fn keep_new(self) -> io::Result<()> {
        match self.becomes {
            Becomes::File(path) => self.path.persist_noclobber(path).map_err(|error| error.error),
            Becomes::ContentOf(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

/// Replaces the content of a file. Its names, owner and permissions stay. Without room, the old content stays, too.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = OpenOptions::new().write(true).open(to)?;
    let size = from.metadata()?.len();
    reserve(&to, size)?;
    io::copy(&mut from, &mut to)?;
    to.set_len(size)
}

/// Reserves room for a file's first `size` bytes.
#[cfg(target_os = "linux")]
fn reserve(file: &File, size: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    let old = file.metadata()?.len();
    if size == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, size) {
        // Some file systems cannot reserve.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => {
            // Frees a part that was reserved.
            file.set_len(old)?;
            Err(error.into())
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _size: u64) -> io::Result<()> {
    Ok(())
}

/// An output file that is closed between writes.
#[derive(Debug)]
pub(crate) struct ClosedFile {
    /// The name for errors.
    path: PathBuf,
    temporary: Option<Temporary>,
}

impl ClosedFile {
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let there: &Path = self.temporary.as_ref().map_or(&self.path, |temporary| &temporary.path);
        let appended = OpenOptions::new().append(true).open(there).and_then(|mut file| file.write_all(bytes));
        appended.map_err(of_file(&self.path))
    }

    /// Gives the complete file its name.
    pub(crate) fn keep(self) -> io::Result<()> {
        self.temporary.map_or(Ok(()), Temporary::keep).map_err(of_file(&self.path))
    }
}

/// The temporary names of incomplete files.
static INCOMPLETE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns all temporary names. The set of a poisoned lock is whole.
fn incomplete() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    INCOMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folders that this program created.
static CREATED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Creates a folder, and those above it, if missing.
fn create_folder(folder: &Path) -> io::Result<()> {
    let missing = folder.ancestors().filter(|above| above.symlink_metadata().is_err() && *above != Path::new(""));
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    fs::create_dir_all(folder)?;
    CREATED.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
    Ok(())
}

/// Removes incomplete files, and created folders that are then empty, before an exit without drops.
pub(crate) fn remove_incomplete() {
    for path in incomplete().iter() {
        // A failure cannot be reported.
        let _removed = fs::remove_file(path);
    }
    remove_empty_folders();
}

/// Removes created folders without files.
fn remove_empty_folders() {
    // A folder precedes its subfolders.
    for folder in CREATED.lock().unwrap_or_else(PoisonError::into_inner).iter().rev() {
        // It fails if the folder has files.
        let _removed = fs::remove_dir(folder);
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
        Self::created(path).map_err(of_file(path))
    }

    /// As [`OutputFile::create`]. Creates missing folders, too.
    pub(crate) fn create_below(path: &Path) -> io::Result<Self> {
        let folder = path.parent().map_or(Ok(()), create_folder);
        folder.and_then(|()| Self::created(path)).map_err(of_file(path))
    }

    fn created(path: &Path) -> io::Result<Self> {
        inputs::check_output(path)?;
        let (file, temporary) = match Target::of(path).and_then(|target| target.temporary().ok()) {
            Some((file, temporary)) => (file, Some(temporary)),
            None => (File::create(path)?, None),
        };
        Ok(Self { path: path.to_owned(), file, temporary })
    }

    /// Whether the file has a temporary name until [`OutputFile::keep`].
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Gives the complete file its name.
    pub(crate) fn keep(self) -> io::Result<()> {
        self.completed(Temporary::keep)
    }

    /// As [`OutputFile::keep`], for a new file. Fails if another program has created the file.
    pub(crate) fn keep_new(self) -> io::Result<()> {
        self.completed(Temporary::keep_new)
    }

    fn completed(self, keep: fn(Temporary) -> io::Result<()>) -> io::Result<()> {
        let Self { path, mut file, temporary } = self;
        let flushed = file.flush();
        drop(file);
        flushed.and_then(|()| temporary.map_or(Ok(()), keep)).map_err(of_file(&path))
    }

    /// Closes the file, to append to it later.
    pub(crate) fn close(self) -> ClosedFile {
        ClosedFile { path: self.path, temporary: self.temporary }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(of_file(&self.path))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(of_file(&self.path))
    }
}

/// Writes a file. Creates missing folders.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::create_below(path)?;
    file.write_all(bytes)?;
    file.keep()
}

/// A file that an output replaces.
struct Target {
    path: PathBuf,
    /// `None`: there is none yet.
    there: Option<fs::Metadata>,
}

impl Target {
    /// `None` if the output must be written in place: devices, pipes, standard output.
    fn of(path: &Path) -> Option<Self> {
        if ["/dev", "/proc"].iter().any(|open| path.starts_with(open)) {
            return None;
        }
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Some(Self { path: path.to_owned(), there: None });
        }
        let path = fs::canonicalize(path).ok()?;
        let there = fs::metadata(&path).ok()?;
        (there.is_file() && !inputs::is_stdout(&path)).then_some(Self { path, there: Some(there) })
    }

    fn temporary(self) -> io::Result<(File, Temporary)> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".vruntime-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;

            // The umask applies, as for every new file.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let Self { path, there } = self;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (file, temporary) = builder.tempfile_in(folder)?.into_parts();
        if let Some(there) = &there {
            file.set_permissions(there.permissions())?;
        }
        let listed = Listed::new(&temporary);
        let only_ours = there.as_ref().is_none_or(is_only_ours);
        let becomes = if only_ours { Becomes::File(path) } else { Becomes::ContentOf(path) };
        Ok((file, Temporary { path: temporary, becomes, _listed: listed }))
    }
}

/// Whether a rename replaces the whole file: it has no other name, and no other owner.
#[cfg(unix)]
fn is_only_ours(there: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    there.nlink() == 1 && there.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_only_ours(_there: &fs::Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    /// An output that is not completed leaves the old content under both names.
    #[test]
    fn a_file_with_two_names_changes_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "old and long").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let mut file = OutputFile::create(&one).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!((fs::read_to_string(&other).unwrap().as_str(), entries(folder.path())), ("old and long", 2));
        write(&one, b"new").unwrap();
        assert_eq!((fs::read_to_string(&other).unwrap().as_str(), entries(folder.path())), ("new", 2));
    }

    /// Folders with files, and those that were there before, stay.
    #[test]
    fn an_exit_removes_new_folders_without_files() {
        let folder = tempfile::tempdir().unwrap();
        let [new, used, old] = ["new", "used", "old"].map(|name| folder.path().join(name));
        fs::create_dir(&old).unwrap();
        create_folder(&new.join("below")).unwrap();
        create_folder(&used).unwrap();
        create_folder(&old).unwrap();
        fs::write(used.join("file"), "").unwrap();
        remove_empty_folders();
        assert!(!new.exists() && used.exists() && old.exists());
    }

    #[test]
    fn a_new_file_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"ours").unwrap();
        assert!(!path.exists(), "it is incomplete");
        fs::write(&path, "another program's").unwrap();
        assert_eq!(file.keep_new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(folder.path())), ("another program's", 1));
    }

    #[test]
    fn a_closed_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for kept in [false, true] {
            let file = OutputFile::create(&path).unwrap().close();
            file.append(b"a").and_then(|()| file.append(b"b")).unwrap();
            assert!(!path.exists());
            if kept {
                file.keep().unwrap();
            } else {
                drop(file);
                assert_eq!(entries(folder.path()), 0);
            }
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "ab");
    }
    /// The error of each kind of output names the file, and has the kind and the cause.
    #[test]
    fn an_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (there, text) = (folder.path().join("folder"), folder.path().join("text"));
        fs::create_dir(&there).unwrap();
        fs::write(&text, "").unwrap();
        let named = |path: &Path, error: io::Error, kind: io::ErrorKind| {
            assert_eq!((error.to_string(), error.kind()), (format!("cannot write {}", path.display()), kind));
            assert!(error.get_ref().and_then(Error::source).is_some(), "the cause is missing");
        };
        named(&there, OutputFile::create(&there).unwrap_err(), io::ErrorKind::IsADirectory);
        named(&there, write(&there, b"").unwrap_err(), io::ErrorKind::IsADirectory);
        let below = text.join("file");
        named(&below, OutputFile::create_below(&below).unwrap_err(), io::ErrorKind::AlreadyExists);
        // Every write to this device fails.
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut file = OutputFile::create(full).unwrap();
            named(full, file.write_all(b"a").unwrap_err(), io::ErrorKind::StorageFull);
            named(full, file.close().append(b"a").unwrap_err(), io::ErrorKind::StorageFull);
        }
        let path = folder.path().join("new");
        let file = OutputFile::create(&path).unwrap();
        fs::write(&path, "another program's").unwrap();
        named(&path, file.keep_new().unwrap_err(), io::ErrorKind::AlreadyExists);
    }
}
