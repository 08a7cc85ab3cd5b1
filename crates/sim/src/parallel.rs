//! Independent runs on several CPUs of the host.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` for each job and its index, with at most one thread per CPU of the host. Returns the results in order.
///
/// Threads share only the list of jobs: each run is as it would be alone.
///
/// ```
/// let squares = vruntime_sim::parallel(&[3, 4, 5], |index, job| (index, job * job));
/// assert_eq!(squares, [(0, 9), (1, 16), (2, 25)]);
/// ```
pub fn parallel<T: Sync, R: Send>(jobs: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let result = work(index, job);
            // The data of a poisoned lock is whole.
            done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If the kernel refuses a thread, fewer do the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// Calls both functions, on two threads if the host has two CPUs. Returns their results.
///
/// ```
/// assert_eq!(vruntime_sim::both(|| 3 + 4, || "five"), (7, "five"));
/// ```
pub fn both<A: Send, B>(one: impl Fn() -> A + Sync, two: impl FnOnce() -> B) -> (A, B) {
    if thread::available_parallelism().map_or(1, NonZero::get) < 2 {
        return (one(), two());
    }
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, &one) {
        Ok(thread) => {
            let two = two();
            (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), two)
        }
        // The kernel refused a thread.
        Err(_) => (one(), two()),
    })
}
