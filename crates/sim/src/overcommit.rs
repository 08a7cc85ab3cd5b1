//! A virtual machine with more busy CPUs than its host has.
//!
//! The host shares its CPUs among the virtual ones. What the guest sees of it, without knowing, is that its tasks take longer
//! over their work though they are charged for all the time, and that its interrupts come late: a virtual CPU that is off
//! the host's CPUs takes none. This is a fluid model: every busy virtual CPU runs at its part of the host all the
//! time, and each interrupt waits for a drawn time, rather than stopping and going in the host's time slices.

/// The host's CPUs against the guest's.
#[derive(Clone, Debug)]
pub(crate) struct Overcommit {
    cpus: u64,
    efficiency_permille: u64,
    busy: u64,
}

impl Overcommit {
    pub(crate) fn new(cpus: u32, efficiency_permille: u64) -> Self {
        Self { cpus: u64::from(cpus.max(1)), efficiency_permille: efficiency_permille.clamp(1, 1000), busy: 0 }
    }

    /// So many virtual CPUs are busy now. True when that changes their speed.
    pub(crate) fn update(&mut self, busy: u64) -> bool {
        let before = self.speed_permille();
        self.busy = busy;
        self.speed_permille() != before
    }

    /// More virtual CPUs are busy than the host has.
    pub(crate) fn crowded(&self) -> bool {
        self.busy > self.cpus
    }

    /// How many other virtual CPUs each busy one has on its real one, in thousandths: an interrupt waits for their time slices.
    pub(crate) fn ahead_permille(&self) -> u64 {
        self.busy.saturating_sub(self.cpus) * 1000 / self.cpus
    }

    /// Speed of each busy virtual CPU, in thousandths of what it has alone.
    pub(crate) fn speed_permille(&self) -> u32 {
        if self.crowded() { (self.cpus * self.efficiency_permille / self.busy) as u32 } else { 1000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_the_host_only_when_it_is_too_small() {
        let mut host = Overcommit::new(2, 650);
        assert!(!host.update(2) && !host.crowded());
        assert_eq!(host.speed_permille(), 1000);
        assert!(host.update(4) && host.crowded());
        assert_eq!((host.speed_permille(), host.ahead_permille()), (325, 1000));
        assert!(host.update(1));
        assert_eq!(host.speed_permille(), 1000);
    }
}
