//! The clocks of a run queue.

/// Time as one CPU's run queue sees it, nanoseconds. Moves only when the run queue is worked on, and never back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `rq_clock` and, as interrupts are charged to the task they hit, also `rq_clock_task`.
    now: u64,
    /// `rq_clock_pelt`: scaled by the CPU's capacity, so that equal work counts equally on every CPU. Catches up while
    /// the CPU is idle, except for lost time.
    pelt: u64,
    /// The delay at times when the CPU became idle after having been busy all along. At full speed it would have had no
    /// idle time either, so it does not catch up (`lost_idle_time`).
    lost: u64,
    /// When an update was left out last.
    skipped: u64,
    /// What the CPU does at its highest frequency, of 1024.
    capacity: u32,
    /// Its frequency now, of 1024 for the highest.
    freq: u32,
}

/// Where the PELT clock begins: at 0 an average would look as if it had never been attached to a queue. No kernel runs
/// a task in the first microsecond after power-on.
pub(crate) const PELT_EPOCH: u64 = 1 << 20;

impl Clock {
    /// Of a CPU of `capacity`, of 1024, at its highest frequency.
    pub(crate) fn new(capacity: u32) -> Self {
        Self { now: 0, pelt: PELT_EPOCH, lost: 0, skipped: 0, capacity, freq: 1024 }
    }

    /// The CPU's frequency from now on, of 1024.
    pub(crate) fn set_frequency(&mut self, freq: u32) {
        self.freq = freq;
    }

    /// What the CPU does now, of 1024.
    pub(crate) fn speed(&self) -> u32 {
        (self.capacity * self.freq) >> 10
    }

    /// Moves on to `now`; `idle` is whether the idle task runs.
    #[inline]
    pub fn update(&mut self, now: u64, idle: bool) {
        if now <= self.now {
            return;
        }
        let delta = now - self.now;
        self.now = now;
        if idle || (self.capacity & self.freq) == 1024 {
            // A CPU of full capacity and frequency never falls behind; an idle one catches up at once.
            self.pelt = if idle { self.abreast() } else { self.pelt.wrapping_add(delta) };
        } else {
            let scaled = |delta: u64, by: u32| ((u128::from(delta) * u128::from(by)) >> 10) as u64;
            self.pelt = self.pelt.wrapping_add(scaled(scaled(delta, self.capacity), self.freq));
        }
    }

    /// What [`Self::pelt`] is when it has caught up.
    #[inline]
    fn abreast(&self) -> u64 {
        self.now.wrapping_add(PELT_EPOCH).wrapping_sub(self.lost)
    }

    /// Whether [`Self::pelt`] is behind.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.pelt != self.abreast()
    }

    /// Notes that the CPU becomes idle. `saturated`: it had no idle time.
    pub(crate) fn goes_idle(&mut self, saturated: bool) {
        if saturated {
            self.lost = self.lost.wrapping_add(self.abreast().wrapping_sub(self.pelt));
        }
        self.pelt = self.abreast();
    }

    /// It stays where it is, though it is `now`.
    #[inline]
    pub(crate) fn skip(&mut self, now: u64) {
        self.skipped = now;
    }

    /// Returns the time without the effect of [`skip`](Self::skip), for comparisons of several clocks.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.now.max(self.skipped)
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
