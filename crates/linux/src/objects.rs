//! What tasks synchronise with, on the kernel's futexes and pipes, so that each wait and wakeup is the system call a program's
//! would be. Every wait ends when the run does ([`Objects::stop`]).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::thread::futex::{self, Flags};
use vruntime_workload::program::{Channel, Workload};

/// The run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// All objects of a workload, by its indices.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) pipes: Vec<Pipe>,
    /// The next beat of each timer, once it has one.
    pub(crate) timers: Vec<StdMutex<Option<u64>>>,
}

impl Objects {
    pub(crate) fn new(workload: &Workload) -> io::Result<Self> {
        let barrier = |parties| Barrier {
            parties,
            lock: Mutex::new(false),
            met: Condition::default(),
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        };
        Ok(Self {
            mutexes: workload.mutexes.iter().map(|mutex| Mutex::new(mutex.priority_inheritance)).collect(),
            conditions: workload.conditions.iter().map(|_| Condition::default()).collect(),
            barriers: workload.barriers.iter().map(|this| barrier(this.parties)).collect(),
            semaphores: workload.semaphores.iter().map(|this| Semaphore::new(this.initial)).collect(),
            pipes: workload.pipes.iter().map(Pipe::of).collect::<io::Result<_>>()?,
            timers: workload.timers.iter().map(|_| StdMutex::new(None)).collect(),
        })
    }

    /// Ends every wait there is. `stop` is set already; called until nobody waits any more.
    pub(crate) fn stop(&self) {
        let locks = self.mutexes.iter().chain(self.barriers.iter().map(|barrier| &barrier.lock));
        for mutex in locks.filter(|mutex| !mutex.inherits) {
            wake(&mutex.word, u32::MAX);
        }
        for condition in self.conditions.iter().chain(self.barriers.iter().map(|barrier| &barrier.met)) {
            condition.sequence.fetch_add(1, Ordering::SeqCst);
            wake(&condition.sequence, u32::MAX);
        }
        for semaphore in &self.semaphores {
            wake(&semaphore.count, u32::MAX);
        }
        for pipe in &self.pipes {
            pipe.stop();
        }
    }
}

/// Sleeps while `word` is `value`.
fn wait(word: &AtomicU32, value: u32) {
    // An error means that it is not any more, or a signal: the caller looks again either way.
    let _looks_again = futex::wait(word, Flags::PRIVATE, value, None);
}

fn wake(word: &AtomicU32, nr: u32) {
    // The kernel counts in an int. Waking fails only for a word that is not there.
    let _woken = futex::wake(word, Flags::PRIVATE, nr.min(i32::MAX as u32));
}

/// A mutex: taken and given back in user mode while nobody waits, as glibc's.
#[derive(Debug)]
pub(crate) struct Mutex {
    /// Plain: 0 free, 1 taken, 2 taken and waited for. With priority inheritance: the owner's thread id, as the kernel wants it.
    word: AtomicU32,
    inherits: bool,
}

impl Mutex {
    fn new(inherits: bool) -> Self {
        Self { word: AtomicU32::new(0), inherits }
    }

    /// Takes it; even if the run is over, the caller has it then and must give it back.
    pub(crate) fn lock(&self, tid: u32, stop: &AtomicBool) -> Result<(), Stopped> {
        let mine = if self.inherits { tid } else { 1 };
        if self.word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        if self.inherits {
            // Its owner gives it back at the end of the run, too.
            while let Err(error) = futex::lock_pi(&self.word, Flags::PRIVATE, None) {
                if error != rustix::io::Errno::INTR && error != rustix::io::Errno::AGAIN {
                    return Err(Stopped);
                }
            }
            return Ok(());
        }
        while self.word.swap(2, Ordering::Acquire) != 0 {
            if stop.load(Ordering::SeqCst) {
                return Err(Stopped);
            }
            wait(&self.word, 2);
        }
        Ok(())
    }

    pub(crate) fn unlock(&self, tid: u32) {
        if self.inherits {
            if self.word.compare_exchange(tid, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                // Not the owner: the program gives back what it has not got, which changes nothing.
                let _not_mine = futex::unlock_pi(&self.word, Flags::PRIVATE);
            }
        } else if self.word.swap(0, Ordering::Release) == 2 {
            wake(&self.word, 1);
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    sequence: AtomicU32,
    waiters: AtomicU32,
}

impl Condition {
    /// Waits for a signal, `mutex` being given back meanwhile.
    pub(crate) fn wait(&self, mutex: &Mutex, tid: u32, stop: &AtomicBool) -> Result<(), Stopped> {
        let sequence = self.sequence.load(Ordering::SeqCst);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        mutex.unlock(tid);
        while self.sequence.load(Ordering::SeqCst) == sequence && !stop.load(Ordering::SeqCst) {
            wait(&self.sequence, sequence);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        mutex.lock(tid, stop)
    }

    pub(crate) fn signal(&self) {
        self.wake(1);
    }

    pub(crate) fn broadcast(&self) {
        self.wake(u32::MAX);
    }

    fn wake(&self, nr: u32) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.sequence.fetch_add(1, Ordering::SeqCst);
            wake(&self.sequence, nr);
        }
    }
}

/// A barrier, made of a mutex and a condition, as rt-app's.
#[derive(Debug)]
pub(crate) struct Barrier {
    parties: u32,
    lock: Mutex,
    met: Condition,
    arrived: AtomicU32,
    generation: AtomicU32,
}

impl Barrier {
    pub(crate) fn wait(&self, tid: u32, stop: &AtomicBool) -> Result<(), Stopped> {
        self.lock.lock(tid, stop)?;
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 >= self.parties {
            self.arrived.store(0, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.met.broadcast();
        } else {
            let generation = self.generation.load(Ordering::SeqCst);
            while self.generation.load(Ordering::SeqCst) == generation {
                self.met.wait(&self.lock, tid, stop)?;
                if stop.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
        self.lock.unlock(tid);
        if stop.load(Ordering::SeqCst) { Err(Stopped) } else { Ok(()) }
    }
}

/// A counting semaphore.
#[derive(Debug)]
pub(crate) struct Semaphore {
    count: AtomicU32,
    waiters: AtomicU32,
}

impl Semaphore {
    fn new(initial: u32) -> Self {
        Self { count: AtomicU32::new(initial), waiters: AtomicU32::new(0) }
    }

    pub(crate) fn post(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            wake(&self.count, 1);
        }
    }

    pub(crate) fn wait(&self, stop: &AtomicBool) -> Result<(), Stopped> {
        loop {
            let take = |count: u32| count.checked_sub(1);
            if self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                return Ok(());
            }
            if stop.load(Ordering::SeqCst) {
                return Err(Stopped);
            }
            self.waiters.fetch_add(1, Ordering::SeqCst);
            wait(&self.count, 0);
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A pipe of the kernel, or a stream socket.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn of(pipe: &vruntime_workload::program::Pipe) -> io::Result<Self> {
        match pipe.kind {
            Channel::Pipe => Self::new(pipe.capacity),
            // What one holds is the kernel's affair: the model has it from there.
            Channel::Socket => Self::socket(),
        }
    }

    /// A pair of connected stream sockets, as `socketpair` makes them: what is written to one end is read from the other.
    pub(crate) fn socket() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        Ok(Self { reader: reader.into(), writer: writer.into() })
    }

    pub(crate) fn new(capacity: u32) -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // The kernel has at least a page; a pipe that holds more than was asked for blocks its writers later.
        rustix::pipe::fcntl_setpipe_size(&writer, capacity as usize)?;
        Ok(Self { reader, writer })
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(&self, bytes: &[u8], stop: &AtomicBool) -> Result<(), Stopped> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let wrote = rustix::io::write(&self.writer, bytes);
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            bytes = &bytes[wrote.unwrap_or(0)..];
        }
        Ok(())
    }

    /// Fills `bytes`.
    pub(crate) fn read(&self, bytes: &mut [u8], stop: &AtomicBool) -> Result<(), Stopped> {
        let mut filled = 0;
        while filled < bytes.len() {
            let read = rustix::io::read(&self.reader, &mut bytes[filled..]);
            if stop.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            filled += read.unwrap_or(0);
        }
        Ok(())
    }

    /// Whoever waits finds something to read, and room to write.
    fn stop(&self) {
        let nonblocking = rustix::fs::OFlags::NONBLOCK;
        for end in [&self.reader, &self.writer] {
            // From now on nobody waits; those who do already are woken below. Neither can fail on a pipe of ours.
            let _set = rustix::fs::fcntl_setfl(end, nonblocking);
        }
        let mut drained = [0; 4096];
        // A socket wakes its writers when it is mostly empty, a pipe when a page is.
        while rustix::io::read(&self.reader, &mut drained).is_ok_and(|read| read == drained.len()) {}
        let _bytes = rustix::io::write(&self.writer, &[0; 64]);
    }
}
