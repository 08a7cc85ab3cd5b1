//! Example machines.

/// A machine with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// The name.
    pub name: &'static str,
    /// The description for [`parse_topology`](super::parse_topology).
    pub topology: &'static str,
    /// A description for users.
    pub what: &'static str,
}

const fn machine(name: &'static str, topology: &'static str, what: &'static str) -> Example {
    Example { name, topology, what }
}

/// All examples.
pub const EXAMPLES: &[Example] = &[
    machine("laptop", "pack:1 core:4 pu:2", "4 cores of 2 threads, one cache"),
    machine("desktop", "pack:1 l3:2 core:8 pu:2", "2 chiplets of 8 cores of 2 threads, a cache each"),
    machine("cloud-small", "pack:1 core:1 pu:2", "2 virtual CPUs: the threads of one core"),
    machine("cloud-large", "pack:1 core:16 pu:2", "32 virtual CPUs of one socket"),
    machine("server", "pack:2 core:32 pu:2", "2 sockets of 32 cores of 2 threads"),
    machine("epyc", "pack:2 l3:12 core:8 pu:2", "2 sockets of 12 chiplets of 8 cores of 2 threads"),
];

/// Returns the example `name`.
pub fn example(name: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.name == name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_machine() {
        for example in EXAMPLES {
            assert!(super::super::parse_topology(example.topology).is_ok(), "{}", example.name);
        }
        assert_eq!(example(" laptop "), Some(&EXAMPLES[0]));
    }
}
