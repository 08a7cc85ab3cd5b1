//! Atomics of the processor or, under `cfg(loom)`, of the model checker (`loom_model.rs`).

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

#[inline]
pub(crate) fn spin() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
