//! Machines in words: hwloc's synthetic strings, QEMU's `-smp`, lstopo's XML, and this machine itself.

mod error;
mod host;
mod lstopo;
mod qemu;
mod synthetic;

pub use error::ParseTopologyError;
pub use host::{from_sysfs, host};
pub use lstopo::parse_lstopo;
pub use qemu::parse_qemu_smp;
pub use synthetic::parse_synthetic;

use vruntime_sched::Topology;

/// No machine is larger; Linux's own limit (`NR_CPUS`) is 8192.
pub const MAX_CPUS: usize = 8192;

/// A machine in one line:
///
/// - `host`: this machine, read from `/sys`;
/// - `8`: so many CPUs that share one cache;
/// - `pack:2 l3:1 core:4 pu:2`: hwloc's synthetic description, see [`parse_synthetic`];
/// - `8,sockets=2,cores=4,threads=1`: QEMU's `-smp`, see [`parse_qemu_smp`].
///
/// ```
/// use vruntime_sim::parse_topology;
///
/// assert_eq!(parse_topology("pack:2 core:4 pu:2").unwrap().nr_cpus(), 16);
/// let error = parse_topology("pack:2 cor:4").unwrap_err();
/// assert_eq!((error.offset, error.help.as_str()), (7, "did you mean `core`?"));
/// ```
///
/// # Errors
///
/// When the text is none of these, with the place and how to mend it.
pub fn parse_topology(text: &str) -> Result<Topology, ParseTopologyError> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("host") {
        return host();
    }
    if !trimmed.contains([':', '(']) && trimmed.contains([',', '=']) {
        return parse_qemu_smp(text);
    }
    parse_synthetic(text)
}
