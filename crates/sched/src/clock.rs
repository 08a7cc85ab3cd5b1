//! The clocks of a run queue.

/// Clocks of a run queue, nanoseconds. They move only while the run queue is worked on, and never back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `rq_clock` and, since interrupts are charged to tasks, also `rq_clock_task`.
    now: u64,
    /// `rq_clock_pelt`: scaled by the CPU's capacity, so that equal work counts equally on all CPUs. Catches up while
    /// the CPU is idle, except for lost time.
    pelt: u64,
    /// Time by which the PELT clock stays behind for good, nanoseconds: added when a fully used CPU becomes idle
    /// (`lost_idle_time`).
    lost: u64,
    /// Time of the last skipped update, nanoseconds.
    skipped: u64,
    /// Capacity at the highest frequency, of 1024.
    capacity: u32,
    /// Frequency, of 1024 for the highest.
    freq: u32,
}

/// The start of the PELT clock; at 0 an average would seem never attached to a queue.
pub(crate) const PELT_EPOCH: u64 = 1 << 20;

impl Clock {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { now: 0, pelt: PELT_EPOCH, lost: 0, skipped: 0, capacity, freq: 1024 }
    }

    pub(crate) fn set_frequency(&mut self, freq: u32) {
        self.freq = freq;
    }

    /// Present capacity, of 1024.
    pub(crate) fn speed(&self) -> u32 {
        (self.capacity * self.freq) >> 10
    }

    /// Advances to `now`; `idle`: whether the idle task runs.
    #[inline]
    pub fn update(&mut self, now: u64, idle: bool) {
        if now <= self.now {
            return;
        }
        let delta = now - self.now;
        self.now = now;
        if idle || (self.capacity & self.freq) == 1024 {
            // At full capacity and frequency it is never behind; an idle one catches up at once.
            self.pelt = if idle { self.caught_up() } else { self.pelt.wrapping_add(delta) };
        } else {
            let scaled = |delta: u64, by: u32| ((u128::from(delta) * u128::from(by)) >> 10) as u64;
            self.pelt = self.pelt.wrapping_add(scaled(scaled(delta, self.capacity), self.freq));
        }
    }

    /// Returns the value of [`Self::pelt`] without delay.
    #[inline]
    fn caught_up(&self) -> u64 {
        self.now.wrapping_add(PELT_EPOCH).wrapping_sub(self.lost)
    }

    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.pelt != self.caught_up()
    }

    /// Brings the PELT clock up to date as the CPU becomes idle. If `saturated`, the delay becomes lost.
    pub(crate) fn goes_idle(&mut self, saturated: bool) {
        if saturated {
            self.lost = self.lost.wrapping_add(self.caught_up().wrapping_sub(self.pelt));
        }
        self.pelt = self.caught_up();
    }

    /// Skips the update to `now`.
    #[inline]
    pub(crate) fn skip(&mut self, now: u64) {
        self.skipped = now;
    }

    /// Returns the time without the effect of [`skip`](Self::skip), to compare several clocks.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.now.max(self.skipped)
    }

    /// Nanoseconds since the start of the host's clock.
    #[inline]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns the clock of load averages.
    #[inline]
    pub const fn pelt(&self) -> u64 {
        self.pelt
    }
}
