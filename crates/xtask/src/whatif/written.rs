//! A program's throughput for real: the bytes that its processes write, as the kernel counts them.
//!
//! A server writes its replies, a compiler its files, a pool its results. `wchar` in `/proc/PID/io` counts the bytes,
//! also of sockets. The bytes of children that have ended count, too. pgbench and the Java program write only so that
//! their work can be counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use miette::{IntoDiagnostic, WrapErr, miette};
use rustix::time::{ClockId, clock_gettime};

use super::programs::{Group, Program};

/// Time between two samples. Each reads a file of every process.
const INTERVAL: Duration = Duration::from_millis(200);

/// Written bytes at several times.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Nanoseconds of `CLOCK_MONOTONIC`, the clock of recordings, and the bytes until then.
    samples: Vec<(u64, u64)>,
}

impl Written {
    /// Runs `work`. Returns its result, and what `program` writes meanwhile.
    pub(super) fn during<T: Send>(program: &Program, groups: &[&Group], work: impl FnOnce() -> T) -> (T, Self) {
        std::thread::scope(|threads| {
            let (done, ends) = channel::<()>();
            let sampler = threads.spawn(move || {
                let mut samples = vec![(now(), written(program, groups))];
                while ends.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    samples.push((now(), written(program, groups)));
                }
                samples
            });
            let result = work();
            drop(done);
            (result, Self { samples: sampler.join().unwrap_or_default() })
        })
    }

    /// Returns the bytes per second between two times. None: nothing was written, or samples cover less than half of
    /// that time.
    pub(super) fn speed(&self, from: u64, to: u64) -> Option<f64> {
        let mut during = self.samples.iter().filter(|(at, _)| (from..=to).contains(at));
        let (&(began, before), &(ended, after)) = (during.next()?, during.next_back()?);
        let covers = (ended - began) * 2 >= to - from && after > before;
        covers.then(|| (after - before) as f64 * 1e9 / (ended - began) as f64)
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
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
    use std::time::Instant;

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
        let began = now();
        let ((), written) = Written::during(make, &[&group], || std::thread::sleep(Duration::from_secs(2)));
        let speed = written.speed(began, now());
        // At most 100 times a second.
        assert!(speed.is_some_and(|speed| (1000.0..125_000.0).contains(&speed)), "{speed:?}");
    }

    #[test]
    fn throughput_is_that_between_two_times() {
        let written = Written { samples: vec![(100, 5), (200, 10), (300, 30), (400, 31)] };
        assert_eq!(written.speed(150, 350), Some(20.0 * 1e9 / 100.0));
        assert_eq!(written.speed(150, 500), Some(21.0 * 1e9 / 200.0));
        assert_eq!(written.speed(190, 210), None, "one sample");
        assert_eq!(written.speed(150, 700), None, "less than half");
        let nothing = Written { samples: vec![(100, 5), (200, 5)] };
        assert_eq!(nothing.speed(100, 200), None);
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
