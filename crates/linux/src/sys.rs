//! The system calls that no safe library has: `sched_setattr` and `sched_getattr`.
#![allow(unsafe_code)]

use std::io;

/// `struct sched_attr`, as of Linux 5.3.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedAttr {
    /// Filled in by [`set_attr`].
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

/// It may use what other deadline tasks leave of theirs.
pub(crate) const FLAG_RECLAIM: u64 = 0x02;
/// Policy and parameters stay as they are: only the utilisation clamps are meant.
pub(crate) const FLAG_KEEP_ALL: u64 = 0x08 | 0x10;
pub(crate) const FLAG_UTIL_CLAMP_MIN: u64 = 0x20;
pub(crate) const FLAG_UTIL_CLAMP_MAX: u64 = 0x40;

/// The size without the clamps, which kernels without them insist on.
const SIZE_VER0: u32 = 48;
const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// `sched_setattr` of a thread; 0 is the calling one.
pub(crate) fn set_attr(tid: u32, attr: SchedAttr) -> io::Result<()> {
    let clamps = attr.flags & (FLAG_UTIL_CLAMP_MIN | FLAG_UTIL_CLAMP_MAX) != 0;
    let attr = SchedAttr { size: if clamps { SIZE } else { SIZE_VER0 }, ..attr };
    // SAFETY: the kernel reads `size` bytes, which `attr` has, and writes at most its first field back on E2BIG; `attr` lives
    // until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `sched_getattr` of the calling thread.
pub(crate) fn attr() -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most the `SIZE` bytes it is told of, which `attr` has; every bit pattern is a valid `SchedAttr`.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    if done == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
