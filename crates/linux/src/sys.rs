//! System calls that no safe library has: `sched_setattr` and `sched_getattr`, `fork`, and shared memory.
#![allow(unsafe_code)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// `struct sched_attr` of Linux 5.3.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedAttr {
    /// Set by [`set_attr`].
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
    pub(crate) util_min: u32,
    pub(crate) util_max: u32,
}

pub(crate) const SCHED_OTHER: u32 = libc::SCHED_OTHER as u32;
pub(crate) const SCHED_FIFO: u32 = libc::SCHED_FIFO as u32;
pub(crate) const SCHED_RR: u32 = libc::SCHED_RR as u32;
pub(crate) const SCHED_BATCH: u32 = libc::SCHED_BATCH as u32;
pub(crate) const SCHED_IDLE: u32 = libc::SCHED_IDLE as u32;
pub(crate) const SCHED_DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

/// Its children do not inherit the policy.
pub(crate) const FLAG_RESET_ON_FORK: u64 = 0x01;
/// It may use unused runtime of other deadline tasks.
pub(crate) const FLAG_RECLAIM: u64 = 0x02;
/// Sets only the utilisation clamps.
pub(crate) const FLAG_KEEP_ALL: u64 = 0x08 | 0x10;
pub(crate) const FLAG_UTIL_CLAMP_MIN: u64 = 0x20;
pub(crate) const FLAG_UTIL_CLAMP_MAX: u64 = 0x40;

/// The size without clamps, which kernels without them require.
const SIZE_VER0: u32 = 48;
const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// `sched_setattr` of a thread; 0 is the calling one.
pub(crate) fn set_attr(tid: u32, attr: SchedAttr) -> io::Result<()> {
    let clamps = attr.flags & (FLAG_UTIL_CLAMP_MIN | FLAG_UTIL_CLAMP_MAX) != 0;
    let attr = SchedAttr { size: if clamps { SIZE } else { SIZE_VER0 }, ..attr };
    // SAFETY: the kernel reads `size` bytes, which `attr` has, and at most writes back its first field on E2BIG. `attr`
    // lives until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn attr() -> io::Result<SchedAttr> {
    attr_of(0)
}

/// `sched_getattr` of a thread; 0 is the calling one.
pub(crate) fn attr_of(tid: u32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most `SIZE` bytes, which `attr` has; every bit pattern is a valid `SchedAttr`.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, SIZE, 0) };
    if done == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// Allocates zeroed words that forked processes share with this one. Some KiB for each run, never freed.
pub(crate) fn shared_words(u32s: usize, u64s: usize) -> io::Result<(&'static [AtomicU32], &'static [AtomicU64])> {
    let bytes = u64s * size_of::<AtomicU64>() + u32s * size_of::<AtomicU32>();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = base.cast::<AtomicU64>();
    // SAFETY: the mapping begins at a page, has `u64s` and then `u32s` words without overlap, is zeroed, which is valid
    // for both, and is never unmapped. All other writers use the same atomics.
    Ok(unsafe {
        let long = std::slice::from_raw_parts(base, u64s);
        (std::slice::from_raw_parts(base.add(u64s).cast::<AtomicU32>(), u32s), long)
    })
}

/// Forks. The child runs `body` and exits with its result. Returns the child's id.
///
/// The child has only the calling thread, and locks of other threads stay locked. So `body` must not use a lock that
/// another thread may hold, such as standard output's. (glibc's allocator handles its own.)
pub(crate) fn fork(body: impl FnOnce() -> i32) -> io::Result<libc::pid_t> {
    // SAFETY: the child continues on a copy of this thread's stack and memory, runs `body` under the condition above,
    // and ends without destructors or exit handlers.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
            // SAFETY: it does not return.
            unsafe { libc::_exit(code) }
        }
        child => Ok(child),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_writes_where_its_parent_reads() {
        use std::sync::atomic::Ordering;
        let (short, long) = shared_words(3, 2).unwrap();
        assert_eq!((short.len(), long.len()), (3, 2));
        let child = fork(|| {
            short[2].store(7, Ordering::SeqCst);
            long[1].store(8, Ordering::SeqCst);
            3
        });
        let pid = rustix::process::Pid::from_raw(child.unwrap());
        let status = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap().unwrap().1;
        assert_eq!(status.exit_status(), Some(3));
        assert_eq!((short[2].load(Ordering::SeqCst), long[1].load(Ordering::SeqCst)), (7, 8));
        assert_eq!(short[0].load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_set_is_there() {
        std::thread::spawn(|| {
            set_attr(0, SchedAttr { policy: SCHED_BATCH, nice: 7, ..SchedAttr::default() }).unwrap();
            let now = attr().unwrap();
            assert_eq!((now.policy, now.nice), (SCHED_BATCH, 7));
            let bad = set_attr(0, SchedAttr { policy: 4711, ..SchedAttr::default() }).unwrap_err();
            assert_eq!(bad.raw_os_error(), Some(libc::EINVAL));
        })
        .join()
        .unwrap();
    }
}
