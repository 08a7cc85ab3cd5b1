//! Threads that move the kernel's trace buffers into files.
//!
//! A thread serves several CPUs ten times a second, and moves whole pages by splice without copying. So it neither
//! wakes for each event nor leaves half-empty pages in the file.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use super::tracefs::Instance;
use crate::urgent::Urgent;

const CPUS: usize = 8;
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The most pages of one move.
const AT_ONCE: usize = 16;

struct Cpu {
    pages: File,
    file: File,
    bytes: u64,
}

/// What the recording threads and the waiting one share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    over: AtomicBool,
    bytes: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    /// Returns the size of the recorded events.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether a thread has ended with an error.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn has_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether the recording has ended.
    pub(super) fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The pages of a thread's CPUs, and the error that ended the thread.
type Done = (Vec<Pages>, Option<io::Error>);

/// The file of a CPU's pages, and its bytes.
pub(super) type Pages = (File, u64);

#[derive(Debug)]
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Done>>,
    tids: Vec<i32>,
}

impl Readers {
    /// Starts to read an instance's buffers into nameless files in `folder`.
    pub(super) fn start(instance: &Instance, cpus: u32, page: u32, folder: &Path) -> io::Result<Self> {
        let mut all = Vec::new();
        for cpu in 0..cpus {
            all.push(Cpu { pages: instance.pages(cpu)?, file: scratch(folder)?, bytes: 0 });
        }
        let shared = Arc::new(Shared::default());
        let mut this = Self { shared, threads: Vec::new(), tids: Vec::new() };
        while !all.is_empty() {
            let mine: Vec<Cpu> = all.drain(..all.len().min(CPUS)).collect();
            let shared = this.shared.clone();
            let (tell, receiver) = std::sync::mpsc::channel();
            let body = move || {
                let _sent = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
                let _urgent = Urgent::take();
                let done = read(mine, page as usize, &shared);
                if done.1.is_some() {
                    shared.has_failed();
                }
                done
            };
            this.threads.push(thread::Builder::new().name("vruntime-reader".to_owned()).spawn(body)?);
            this.tids.extend(receiver.recv());
        }
        Ok(this)
    }

    pub(super) fn tids(&self) -> &[i32] {
        &self.tids
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads the rest, and returns each CPU's file and size, even if incomplete.
    pub(super) fn finish(mut self) -> (Vec<Pages>, Option<io::Error>) {
        let (mut files, mut failed) = (Vec::new(), None);
        self.shared.is_over();
        for thread in std::mem::take(&mut self.threads) {
            thread.thread().unpark();
            match thread.join() {
                Ok((of_thread, error)) => {
                    files.extend(of_thread);
                    failed = failed.or(error);
                }
                Err(_) => failed = Some(io::Error::other("a reader ended early")),
            }
        }
        (files, failed)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.is_over();
        for thread in &self.threads {
            thread.thread().unpark();
        }
        // The instance can be removed only after its files are closed.
        for thread in std::mem::take(&mut self.threads) {
            let _ended = thread.join();
        }
    }
}

/// Returns a nameless file, which ends with the process.
pub(super) fn scratch(folder: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};

    match open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Some file systems have none; then a file is created and unlinked.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let path = folder.join(format!(".{}", crate::cgroup::own_name()));
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(path)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

/// A thread's body; returns the pages of its CPUs. After an error, such as a full disk, these are the pages so far.
fn read(mut cpus: Vec<Cpu>, page: usize, shared: &Shared) -> Done {
    let failed = read_all(&mut cpus, page, shared).err();
    let whole = |cpu: Cpu| {
        let Cpu { mut file, bytes, .. } = cpu;
        let bytes = bytes - bytes % page.max(1) as u64;
        // Removes a page that was written in part.
        file.set_len(bytes).and_then(|()| file.rewind()).ok()?;
        Some((file, bytes))
    };
    (cpus.into_iter().map_while(whole).collect(), failed)
}

fn read_all(cpus: &mut [Cpu], page: usize, shared: &Shared) -> io::Result<()> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
    loop {
        // Read first, so that later events are read below.
        let over = shared.over();
        for cpu in &mut *cpus {
            loop {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                match splice(&cpu.pages, None, &to, None, page * AT_ONCE, flags) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(moved) => {
                        let mut left = moved;
                        while left > 0 {
                            let written = splice(&from, None, &cpu.file, None, left, SpliceFlags::MOVE)?;
                            left -= written;
                            cpu.bytes += written as u64;
                        }
                        shared.add(moved as u64);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if over {
            break;
        }
        thread::park_timeout(LOOK);
    }
    let mut last = vec![0; page];
    for cpu in cpus {
        cpu.rest(&mut last)?;
    }
    Ok(())
}

impl Cpu {
    /// Reads the last pages, which are not full.
    fn rest(&mut self, page: &mut [u8]) -> io::Result<()> {
        loop {
            match self.pages.read(page) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    // Pads a short read, so that pages stay aligned.
                    page[read..].fill(0);
                    self.file.write_all(page)?;
                    self.bytes += page.len() as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
