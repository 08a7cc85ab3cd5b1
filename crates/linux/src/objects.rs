//! The workload's synchronisation objects, on futexes and pipes: waits and wakeups are real programs' system calls.
//! Every wait ends with the run ([`Objects::stop`]).

use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::{self, Flags};
use vruntime_workload::program::{Channel, Spin, Workload};

use crate::sys;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) spins: Vec<SpinWord>,
    /// The next beat of each timer, or 0.
    pub(crate) timers: &'static [AtomicU64],
}

impl Objects {
    /// Creates the objects; `across`: in memory shared by forked processes.
    pub(crate) fn new(workload: &Workload, across: bool) -> io::Result<Self> {
        let (mutexes, conditions) = (workload.mutexes.len(), workload.conditions.len());
        let (barriers, semaphores) = (workload.barriers.len(), workload.semaphores.len());
        // Words: barriers five; conditions, semaphores and spin words two.
        let count = mutexes + 2 * conditions + 5 * barriers + 2 * semaphores + 2 * workload.spins.len();
        let (words, timers) = sys::shared_words(count, workload.timers.len())?;
        let mut words = Words { words: words.iter(), flags: if across { Flags::empty() } else { Flags::PRIVATE } };
        Ok(Self {
            mutexes: { workload.mutexes.iter() }
                .map(|this| Mutex::new(&mut words, this.priority_inheritance))
                .collect::<io::Result<_>>()?,
            conditions: { workload.conditions.iter() }
                .map(|_| Condition::new(&mut words))
                .collect::<io::Result<_>>()?,
            barriers: { workload.barriers.iter() }
                .map(|this| Barrier::new(&mut words, this.parties))
                .collect::<io::Result<_>>()?,
            semaphores: { workload.semaphores.iter() }
                .map(|this| Semaphore::new(&mut words, this.initial))
                .collect::<io::Result<_>>()?,
            pipes: workload.pipes.iter().map(Pipe::of).collect::<io::Result<_>>()?,
            spins: { workload.spins.iter() }.map(|this| SpinWord::new(&mut words, this)).collect::<io::Result<_>>()?,
            timers,
        })
    }

    /// Ends all waits. Called, with `stop` set, until none remain.
    pub(crate) fn stop(&self) {
        let locks = self.mutexes.iter().chain(self.barriers.iter().map(|barrier| &barrier.lock));
        for mutex in locks.filter(|mutex| !mutex.inherits) {
            mutex.word.wake(u32::MAX);
        }
        for condition in self.conditions.iter().chain(self.barriers.iter().map(|barrier| &barrier.met)) {
            condition.sequence.fetch_add(1, Ordering::SeqCst);
            condition.sequence.wake(u32::MAX);
        }
        for semaphore in &self.semaphores {
            semaphore.count.wake(u32::MAX);
        }
        for pipe in &self.pipes {
            pipe.stop();
        }
    }
}

/// Two words to spin at. Locks and flags count posted and taken events; barriers count arrived tasks and completions.
#[derive(Debug)]
pub(crate) struct SpinWord {
    posted: Word,
    taken: Word,
    /// Whether waiters take numbers, and await the event so numbered.
    fair: bool,
    parties: u32,
}

impl SpinWord {
    fn new(words: &mut Words, spin: &Spin) -> io::Result<Self> {
        let this = Self { posted: words.next()?, taken: words.next()?, fair: spin.fair, parties: spin.parties };
        this.posted.store(spin.initial, Ordering::SeqCst);
        Ok(this)
    }

    pub(crate) fn post(&self, events: u32) {
        self.posted.fetch_add(events, Ordering::SeqCst);
    }

    /// Spins for an event, and takes it. `over`: whether the run is.
    pub(crate) fn wait(&self, over: impl Fn() -> bool) -> Result<(), Stopped> {
        if self.fair {
            let number = self.taken.fetch_add(1, Ordering::SeqCst);
            // Both wrap at the same number.
            return spin_until(|| self.posted.load(Ordering::SeqCst).wrapping_sub(number).cast_signed() > 0, over);
        }
        spin_until(
            || {
                let taken = self.taken.load(Ordering::SeqCst);
                let some = self.posted.load(Ordering::SeqCst) != taken;
                let next = taken.wrapping_add(1);
                some && self.taken.compare_exchange(taken, next, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            },
            over,
        )
    }

    pub(crate) fn meet(&self, over: impl Fn() -> bool) -> Result<(), Stopped> {
        let round = self.taken.load(Ordering::SeqCst);
        if self.posted.fetch_add(1, Ordering::SeqCst) + 1 >= self.parties {
            self.posted.store(0, Ordering::SeqCst);
            self.taken.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        spin_until(|| self.taken.load(Ordering::SeqCst) != round, over)
    }
}

/// Spins until `done`, or the run is `over`, checked regularly.
fn spin_until(done: impl Fn() -> bool, over: impl Fn() -> bool) -> Result<(), Stopped> {
    const LOOKS: u32 = 1 << 10;
    loop {
        for _ in 0..LOOKS {
            if done() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        if over() {
            return Err(Stopped);
        }
    }
}

struct Words {
    words: std::slice::Iter<'static, AtomicU32>,
    flags: Flags,
}

impl Words {
    fn next(&mut self) -> io::Result<Word> {
        let none = || io::Error::other("more words are needed than were made");
        self.words.next().map(|word| Word { word, flags: self.flags }).ok_or_else(none)
    }
}

/// A futex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    word: &'static AtomicU32,
    flags: Flags,
}

impl std::ops::Deref for Word {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        self.word
    }
}

impl Word {
    pub(crate) fn shared(word: &'static AtomicU32) -> Self {
        Self { word, flags: Flags::empty() }
    }

    pub(crate) fn wait(&self, value: u32) {
        self.wait_for(value, None);
    }

    pub(crate) fn wait_for(&self, value: u32, most: Option<&rustix::time::Timespec>) {
        // On an error (changed word, signal, timeout) the caller checks again.
        let _looks_again = futex::wait(self.word, self.flags, value, most);
    }

    /// Waits until `at` of the monotonic clock at most, nanoseconds.
    pub(crate) fn wait_until(&self, value: u32, at: u64) {
        let at = crate::work::timespec(at);
        // As in `wait_for`, the caller checks again.
        let _looks_again = futex::wait_bitset(self.word, self.flags, value, Some(&at), NonZeroU32::MAX);
    }

    pub(crate) fn wake(&self, nr: u32) {
        // The kernel counts in an int. Waking fails only for a missing word.
        let _woken = futex::wake(self.word, self.flags, nr.min(i32::MAX as u32));
    }
}

pub(crate) fn is_over(stop: &AtomicU32) -> bool {
    stop.load(Ordering::SeqCst) != 0
}

/// A mutex, (un)locked in user mode without waiters, as glibc's.
#[derive(Debug)]
pub(crate) struct Mutex {
    /// Plain: 0 free, 1 taken, 2 taken with waiters. Priority inheritance: the owner's thread id, as the kernel
    /// requires.
    word: Word,
    inherits: bool,
}

impl Mutex {
    fn new(words: &mut Words, inherits: bool) -> io::Result<Self> {
        Ok(Self { word: words.next()?, inherits })
    }

    /// Takes it. Even after the run, the caller has it and must unlock it.
    pub(crate) fn lock(&self, tid: u32, stop: &AtomicU32) -> Result<(), Stopped> {
        let mine = if self.inherits { tid } else { 1 };
        if self.word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        if self.inherits {
            // Its owner unlocks it at the end of the run, too.
            while let Err(error) = futex::lock_pi(&self.word, self.word.flags, None) {
                if error != rustix::io::Errno::INTR && error != rustix::io::Errno::AGAIN {
                    return Err(Stopped);
                }
            }
            return Ok(());
        }
        while self.word.swap(2, Ordering::Acquire) != 0 {
            if is_over(stop) {
                return Err(Stopped);
            }
            self.word.wait(2);
        }
        Ok(())
    }

    pub(crate) fn unlock(&self, tid: u32) {
        if self.inherits {
            if self.word.compare_exchange(tid, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                // Not the owner: this unlock of the program changes nothing.
                let _not_mine = futex::unlock_pi(&self.word, self.word.flags);
            }
        } else if self.word.swap(0, Ordering::Release) == 2 {
            self.word.wake(1);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Condition {
    sequence: Word,
    waiters: Word,
}

impl Condition {
    fn new(words: &mut Words) -> io::Result<Self> {
        Ok(Self { sequence: words.next()?, waiters: words.next()? })
    }

    /// Waits for a signal, with `mutex` unlocked.
    pub(crate) fn wait(&self, mutex: &Mutex, tid: u32, stop: &AtomicU32) -> Result<(), Stopped> {
        let sequence = self.sequence.load(Ordering::SeqCst);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        mutex.unlock(tid);
        while self.sequence.load(Ordering::SeqCst) == sequence && !is_over(stop) {
            self.sequence.wait(sequence);
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
            self.sequence.wake(nr);
        }
    }
}

/// A barrier of a mutex and a condition, as rt-app's.
#[derive(Debug)]
pub(crate) struct Barrier {
    parties: u32,
    lock: Mutex,
    met: Condition,
    arrived: Word,
    generation: Word,
}

impl Barrier {
    fn new(words: &mut Words, parties: u32) -> io::Result<Self> {
        let (lock, met) = (Mutex::new(words, false)?, Condition::new(words)?);
        Ok(Self { parties, lock, met, arrived: words.next()?, generation: words.next()? })
    }

    pub(crate) fn wait(&self, tid: u32, stop: &AtomicU32) -> Result<(), Stopped> {
        self.lock.lock(tid, stop)?;
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 >= self.parties {
            self.arrived.store(0, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.met.broadcast();
        } else {
            let generation = self.generation.load(Ordering::SeqCst);
            while self.generation.load(Ordering::SeqCst) == generation {
                self.met.wait(&self.lock, tid, stop)?;
                if is_over(stop) {
                    break;
                }
            }
        }
        self.lock.unlock(tid);
        if is_over(stop) { Err(Stopped) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub(crate) struct Semaphore {
    count: Word,
    waiters: Word,
}

impl Semaphore {
    fn new(words: &mut Words, initial: u32) -> io::Result<Self> {
        let this = Self { count: words.next()?, waiters: words.next()? };
        this.count.store(initial, Ordering::SeqCst);
        Ok(this)
    }

    pub(crate) fn post(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.count.wake(1);
        }
    }

    /// Decrements it if above 0, and returns whether it was.
    pub(crate) fn try_wait(&self) -> bool {
        let take = |count: u32| count.checked_sub(1);
        self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    pub(crate) fn wait(&self, stop: &AtomicU32) -> Result<(), Stopped> {
        loop {
            if self.try_wait() {
                return Ok(());
            }
            if is_over(stop) {
                return Err(Stopped);
            }
            self.waiters.fetch_add(1, Ordering::SeqCst);
            self.count.wait(0);
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    fn of(pipe: &vruntime_workload::program::Pipe) -> io::Result<Self> {
        match pipe.kind {
            Channel::Pipe => Self::new(pipe.capacity),
            Channel::Packets => Self::with(rustix::pipe::PipeFlags::DIRECT, pipe.capacity),
            // The kernel decides its capacity; the model copies that.
            Channel::Socket => Self::socket(),
        }
    }

    pub(crate) fn socket() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        Ok(Self { reader: reader.into(), writer: writer.into() })
    }

    pub(crate) fn new(capacity: u32) -> io::Result<Self> {
        Self::with(rustix::pipe::PipeFlags::empty(), capacity)
    }

    fn with(flags: rustix::pipe::PipeFlags, capacity: u32) -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | flags)?;
        // The kernel has at least a page; a bigger pipe blocks its writers later.
        rustix::pipe::fcntl_setpipe_size(&writer, capacity as usize)?;
        Ok(Self { reader, writer })
    }

    pub(crate) fn write(&self, bytes: &[u8], stop: &AtomicU32) -> Result<(), Stopped> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let wrote = rustix::io::write(&self.writer, bytes);
            if is_over(stop) {
                return Err(Stopped);
            }
            bytes = &bytes[wrote.unwrap_or(0)..];
        }
        Ok(())
    }

    pub(crate) fn read(&self, bytes: &mut [u8], stop: &AtomicU32) -> Result<(), Stopped> {
        let mut filled = 0;
        while filled < bytes.len() {
            let read = rustix::io::read(&self.reader, &mut bytes[filled..]);
            if is_over(stop) {
                return Err(Stopped);
            }
            filled += read.unwrap_or(0);
        }
        Ok(())
    }

    /// Ends all waits for data or room.
    fn stop(&self) {
        let nonblocking = rustix::fs::OFlags::NONBLOCK;
        for end in [&self.reader, &self.writer] {
            // No task waits from now on; earlier waiters are woken below. Neither call can fail on our pipe.
            let _set = rustix::fs::fcntl_setfl(end, nonblocking);
        }
        let mut drained = [0; 4096];
        // A socket wakes its writers when it is mostly empty, a pipe when a page is.
        while rustix::io::read(&self.reader, &mut drained).is_ok_and(|read| read == drained.len()) {}
        let _bytes = rustix::io::write(&self.writer, &[0; 64]);
    }
}
