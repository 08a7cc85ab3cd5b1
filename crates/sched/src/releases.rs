//! Versions of releases, and how the releases of facts are known.

/// A version, with 0 for missing numbers: `6.12` is `[6, 12, 0]`.
pub(crate) type Version = [u32; 3];

/// `6.12`, `v6.12.3`, `6.13-rc1`; None for anything else. Numbers behind the third are ignored.
pub(crate) fn version(name: &str) -> Option<Version> {
    let name = name.trim().trim_start_matches(['v', 'V']);
    let numbers = name.split(['-', '+']).next().unwrap_or(name);
    let mut version = [0; 3];
    for (at, number) in numbers.split('.').enumerate() {
        let number = number.parse().ok()?;
        // Vendors add numbers, as in 6.6.87.2.
        if let Some(place) = version.get_mut(at) {
            *place = number;
        }
    }
    Some(version)
}

/// How the release of a behaviour is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Certainty {
    /// Recordings, or instructions of running kernels, show the difference.
    Recorded,
    /// Read in the source of kernels with and without it.
    Read,
}

impl Certainty {
    /// Returns the word in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Read => "read",
        }
    }
}

impl Certainty {
    /// Returns the kind of source that is behind the releases.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Recorded => "recordings, or instructions of running kernels",
            Self::Read => "sources of kernels with and without it",
        }
    }
}
