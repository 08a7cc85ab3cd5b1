//! Tunables of the CPU resource controller.

/// Numbers of the controller, by the document's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuRcTunables {
    /// `CPU_RC_SPREAD_PERIOD`, milliseconds.
    pub spread_period_ms: u64,
    /// `CPU_RC_RECALC_INTERVAL`, milliseconds.
    pub recalc_interval_ms: u64,
    /// `CPU_RC_LOAD_SCALE`: load of a class that has all of a CPU.
    pub load_scale: u64,
    /// `CPU_RC_TSFACTOR_INC`: rise of factors while no class is hungry.
    pub tsfactor_inc: u32,
    /// `CPU_RC_TSFACTOR_MAX`: factor of a slice that is not scaled.
    pub tsfactor_max: u32,
    /// `CPU_RC_STARVE_THRESHOLD`: hungry recalculations before a class starves.
    pub starve_threshold: u32,
}

impl Default for CpuRcTunables {
    fn default() -> Self {
        Self {
            spread_period_ms: 1000,
            recalc_interval_ms: 500,
            load_scale: 1 << 20,
            tsfactor_inc: 5,
            tsfactor_max: 200,
            starve_threshold: 2,
        }
    }
}
