//! `vruntime record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Record {
    /// Stop after this time, such as 10s or 500ms [default: 10s; with COMMAND: when it ends]
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Write the recording to this file; a file of that name is replaced
    #[arg(short, long, value_name = "FILE", default_value = "vruntime.dat")]
    pub(crate) out: PathBuf,
    /// Name the task group that the recording is about, such as /system.slice/redis.service
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Stop when the events take this much space, such as 500MB or 2GB
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = size)]
    pub(crate) max_size: u64,
    /// Skip the measurement of costs, which takes a second
    #[arg(long)]
    pub(crate) no_calibrate: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A program with arguments: record until it ends
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Reads a number of bytes, such as `500MB`.
fn size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1 << 20;
    let wrong = || "expected a size from 1MB, such as 500MB or 2GB".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|&bytes| bytes >= LEAST).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = ["1048576", "500MB", "2G", "1 GiB", "3mb"].map(|text| size(text).ok());
        assert_eq!(sizes, [1 << 20, 500 << 20, 2 << 30, 1 << 30, 3 << 20].map(Some));
        for wrong in ["", "x", "1", "-1GB", "1.5GB", "99999999999T", "5 parsecs"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
