//! Raises the priority of threads that record or measure. On a busy machine they would run too late, and lose events.

use crate::sys::{self, SchedAttr};

/// Until dropped, the calling thread has a real-time policy or, if refused, the lowest nice value.
#[derive(Debug)]
pub(crate) struct Urgent {
    before: Option<SchedAttr>,
}

impl Urgent {
    pub(crate) fn take() -> Self {
        let before = sys::attr().ok();
        // Threads and processes created meanwhile do not inherit it.
        let flags = sys::FLAG_RESET_ON_FORK;
        let first = SchedAttr { policy: sys::SCHED_FIFO, priority: 1, flags, ..SchedAttr::default() };
        let second = SchedAttr { policy: sys::SCHED_OTHER, nice: -20, flags, ..SchedAttr::default() };
        let _refused = sys::set_attr(0, first).or_else(|_| sys::set_attr(0, second));
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // The kernel reports the default slice of ordinary tasks, too, which would count as a request.
            let runtime = if before.policy == sys::SCHED_DEADLINE { before.runtime } else { 0 };
            let _refused = sys::set_attr(0, SchedAttr { runtime, ..before });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_urgent_for_a_while() {
        std::thread::spawn(|| {
            let before = sys::attr().unwrap();
            let urgent = Urgent::take();
            let now = sys::attr().unwrap();
            drop(urgent);
            let after = sys::attr().unwrap();
            assert_eq!((after.policy, after.nice, after.priority), (before.policy, before.nice, before.priority));
            if (now.policy, now.nice) == (before.policy, before.nice) {
                crate::skip::skip("the kernel refuses real-time policies and negative nice values");
                return;
            }
            assert!(now.policy == sys::SCHED_FIFO || now.nice == -20, "{now:?}");
        })
        .join()
        .unwrap();
    }
}
