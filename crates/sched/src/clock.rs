//! The clocks of a run queue.

/// Time as one CPU's run queue sees it, nanoseconds. Moves only when the run queue is worked on, and never back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `rq_clock` and, as interrupts are charged to the task they hit, also `rq_clock_task`.
    now: u64,
    /// `rq_clock_pelt`: stretched by the CPU's capacity, so that the same work weighs the same on every CPU; catches
    /// up while the CPU is idle.
    pelt: u64,
}

/// Where the PELT clock begins: at 0 an average would look as if it had never been attached to a queue. No kernel runs a
/// task in the first microsecond after power-on.
const PELT_EPOCH: u64 = 1 << 20;

impl Default for Clock {
    fn default() -> Self {
        Self { now: 0, pelt: PELT_EPOCH }
    }
}

impl Clock {
    /// Moves on to `now`. `capacity` is the CPU's, of 1024; `idle` whether the idle task runs.
    #[inline]
    pub fn update(&mut self, now: u64, capacity: u32, idle: bool) {
        if now <= self.now {
            return;
        }
        let delta = now - self.now;
        self.now = now;
        if idle || capacity == 1024 {
            // A CPU of full capacity never falls behind; an idle one catches up at once.
            self.pelt = if idle { now.wrapping_add(PELT_EPOCH) } else { self.pelt.wrapping_add(delta) };
        } else {
            self.pelt = self.pelt.wrapping_add(((u128::from(delta) * u128::from(capacity)) >> 10) as u64);
        }
    }

    /// Nanoseconds since the start of the host's clock.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The clock load averages are kept by.
    #[inline]
    pub const fn pelt(&self) -> u64 {
        self.pelt
    }
}
