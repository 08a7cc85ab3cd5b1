//! A program's throughput for real: the bytes that its processes write, as the kernel counts them.
//!
//! A server writes its replies, a compiler its files, a pool its results. `wchar` in `/proc/PID/io` counts the bytes,
//! also of sockets. The bytes of children that have ended count, too. pgbench and the Java program write only so that
//! their work can be counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use miette::{IntoDiagnostic, WrapErr, miette};

use super::programs::{Group, Program};

/// Time from the start of a recording to that of the measurement, and from the measurement's end to the recording's.
const MARGIN: Duration = Duration::from_millis(300);

/// Runs `work`, which must take `duration`. Returns its result, and the bytes per second that `program` writes
/// meanwhile. None: it writes nothing.
pub(super) fn during<T: Send>(
    program: &Program,
    groups: &[&Group],
    duration: Duration,
    work: impl FnOnce() -> T,
) -> (T, Option<f64>) {
    std::thread::scope(|threads| {
        let measurement = threads.spawn(|| {
            std::thread::sleep(MARGIN);
            let (began, before) = (Instant::now(), written(program, groups));
            std::thread::sleep(duration.saturating_sub(2 * MARGIN));
            let (elapsed, after) = (began.elapsed(), written(program, groups));
            (after > before).then(|| (after - before) as f64 / elapsed.as_secs_f64())
        });
        let result = work();
        (result, measurement.join().ok().flatten())
    })
}

/// Returns the bytes that `program` has written.
fn written(program: &Program, groups: &[&Group]) -> u64 {
    let members = groups.iter().flat_map(|group| group.members());
    let writers = members.filter(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        program.writers.iter().any(|prefix| name.starts_with(prefix))
    });
    // A process may end before its file is read. Its parent's count then includes its bytes.
    writers.filter_map(|pid| wchar(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)).sum()
}

fn wchar(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}

/// Returns the path of the file beside a recording that has the throughput.
fn file_beside(recording: &Path) -> PathBuf {
    recording.with_extension("written")
}

/// Writes the bytes per second to the file beside a recording.
pub(super) fn write(recording: &Path, speed: Option<f64>) -> miette::Result<()> {
    let (file, text) = (file_beside(recording), speed.map_or_else(String::new, |speed| format!("{speed:.0}\n")));
    fs::write(&file, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", file.display()))
}

/// Reads the bytes per second during a recording, if they were measured.
pub(super) fn read(recording: &Path) -> miette::Result<Option<f64>> {
    let file = file_beside(recording);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
    match text.trim() {
        "" => Ok(None),
        number => number.parse().map(Some).map_err(|_| miette!("{}: {number} is no number of bytes", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::programs::PROGRAMS;
    use super::*;

    /// Bytes of a process, of a child, and of an ended child.
    #[test]
    fn written_bytes_are_counted() {
        if !Path::new("/proc/self/io").exists() {
            eprintln!("skipped: this kernel does not count written bytes (CONFIG_TASK_IO_ACCOUNTING)");
            return;
        }
        let writes = "head -c 100000 /dev/zero >/dev/null; (printf '%2000d' 0 >/dev/null; exec sleep 60) & printf '%3000d' 0 >/dev/null
                      while :; do sleep 1; done";
        let group = Group::start("sh", &["-c", writes], Path::new("/")).unwrap();
        let make = PROGRAMS.iter().find(|program| program.name == "make").unwrap();
        let began = Instant::now();
        while written(make, &[&group]) < 105_000 && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(written(make, &[&group]), 105_000);
        let sysbench = PROGRAMS.iter().find(|program| program.name == "sysbench").unwrap();
        assert_eq!(written(sysbench, &[&group]), 0, "it has no writers");
    }

    #[test]
    fn throughput_is_that_during_the_work() {
        if !Path::new("/proc/self/io").exists() {
            eprintln!("skipped: this kernel does not count written bytes (CONFIG_TASK_IO_ACCOUNTING)");
            return;
        }
        let group =
            Group::start("sh", &["-c", "while :; do printf '%1000d' 0; sleep 0.01; done >/dev/null"], Path::new("/"))
                .unwrap();
        let make = PROGRAMS.iter().find(|program| program.name == "make").unwrap();
        let ((), speed) =
            during(make, &[&group], Duration::from_secs(2), || std::thread::sleep(Duration::from_secs(2)));
        // At most 100 times a second.
        assert!(speed.is_some_and(|speed| (1000.0..125_000.0).contains(&speed)), "{speed:?}");
    }

    #[test]
    fn throughput_is_kept_beside_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("redis.0.1.dat");
        assert_eq!(read(&recording).unwrap(), None, "not measured");
        write(&recording, None).unwrap();
        assert_eq!(read(&recording).unwrap(), None, "nothing is written");
        write(&recording, Some(1234.4)).unwrap();
        assert_eq!(read(&recording).unwrap(), Some(1234.0));
        fs::write(file_beside(&recording), "many").unwrap();
        assert!(read(&recording).unwrap_err().to_string().contains("many is no number"));
    }
}
