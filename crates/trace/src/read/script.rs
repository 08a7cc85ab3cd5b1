//! Checks the columns of `perf script`: missing ones, and time differences.

use super::head::{Dress, Head};
use super::notes::Error;

/// The number of first events that decide.
const JUDGED: u64 = 64;
/// If one in this many events decreases, the times are invalid: perf sorts its output.
const BACK: u64 = 8;

/// A shorter uptime is implausible.
const NEAR_ZERO_NS: i64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Script {
    settled: bool,
    events: u64,
    /// Lines with an event in perf's form, but without thread, CPU or time.
    lacking: u64,
    /// Set if the first time is 0 or close to it, as with --deltatime and --reltime.
    near_zero: bool,
    latest: i64,
    /// Times before their predecessor.
    back: u64,
}

impl Script {
    /// Whether more lines are needed.
    #[inline]
    pub(super) fn watches(&self) -> bool {
        !self.settled
    }

    #[cold]
    pub(super) fn event(&mut self, head: &Head, name: &[u8]) {
        // Without the thread, a name such as `cc-3` looks like ftrace's name and thread; but ftrace does not print
        // the event's system.
        if head.dress == Dress::Ftrace {
            self.lacking += u64::from(is_event(name));
            self.events += u64::from(!is_event(name));
            return;
        }
        if name.starts_with(b"PERF_RECORD_") {
            // perf's records of earlier tasks have time 0.
            return;
        }
        if self.events == 0 {
            self.near_zero = head.at < NEAR_ZERO_NS;
        }
        self.back += u64::from(head.at < self.latest);
        self.latest = head.at;
        self.events += 1;
    }

    #[cold]
    pub(super) fn no_event(&mut self, line: &[u8]) {
        let mut words = line.split(u8::is_ascii_whitespace);
        self.lacking += u64::from(words.any(|word| word.strip_suffix(b":").is_some_and(is_event)));
    }

    /// Judges the text after enough events, or at its end.
    ///
    /// # Errors
    /// If the text is not readable.
    #[cold]
    pub(super) fn judge(&mut self, over: bool) -> Result<(), Error> {
        if self.settled || !(over || self.events + self.lacking >= JUDGED) {
            return Ok(());
        }
        self.settled = true;
        if self.lacking > self.events {
            return Err(Error::NotRead {
                what: "text of perf script without the thread, the CPU or the time of each event".to_owned(),
                help: "print them: perf script --ns -F comm,tid,cpu,time,event,trace; or give the perf.data itself",
            });
        }
        if self.near_zero && self.back >= 2 && self.back * BACK >= self.events {
            return Err(Error::NotRead {
                what: "text of perf script --deltatime, whose times are rounded differences between events,".to_owned(),
                help: "print times instead: perf script --ns, without --deltatime; or give the perf.data itself",
            });
        }
        Ok(())
    }
}

/// `sched:sched_switch`: an event with its system.
fn is_event(name: &[u8]) -> bool {
    let plain = |part: &[u8]| {
        part.first().is_some_and(|&byte| byte.is_ascii_lowercase() || byte == b'_')
            && part.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut parts = name.splitn(2, |&byte| byte == b':');
    parts.next().is_some_and(plain) && parts.next().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use crate::read::TextReader;

    /// Returns the error, or the number of events.
    fn message_of(text: &str) -> String {
        let (mut reader, mut events) = (TextReader::new(text.as_bytes()), 0);
        loop {
            match reader.next_record() {
                Ok(Some(_)) => events += 1,
                Ok(None) => return format!("{events} events"),
                Err(error) => return format!("{error}: {}", error.help().unwrap_or_default()),
            }
        }
    }

    /// Returns a recording of 2.000 s in these columns of perf.
    fn script(line: impl Fn(u64, u64) -> String) -> String {
        (0..200_u64).map(|event| line(event, 1_000_000 + event * event % 97 * 10 + event * 1000)).collect()
    }

    const SWITCH: &str = "sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120";

    #[test]
    fn differences_are_no_times() {
        let time = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        let delta = |event: u64| if event == 0 { 0 } else { 3 + event * 37 % 97 };
        let with = |time: &dyn Fn(u64, u64) -> String| {
            script(|event, at| format!("  a 7 [000] {}: {SWITCH}\n", time(event, at)))
        };
        let differences = with(&|event, _| time(delta(event)));
        let message = message_of(&differences);
        assert!(message.contains("--deltatime") && message.contains("perf script --ns"), "{message}");
        let few: String = differences.split_inclusive('\n').take(9).collect();
        assert!(message_of(&few).contains("--deltatime"), "a short one as well: {}", message_of(&few));
        // Relative to the first, unordered, or with a first line at time 0: still times.
        assert_eq!(message_of(&with(&|event, _| time(event * 50))), "200 events");
        assert_eq!(message_of(&with(&|event, at| time(at - delta(event) % 2 * 2000))), "200 events");
        let tasks = "  a 7 [000] 0.000000: PERF_RECORD_COMM: b:8/8\n".repeat(100);
        assert_eq!(message_of(&(tasks.clone() + &with(&|_, at| time(at)))), "300 events");
        assert!(message_of(&(tasks.clone() + &differences)).contains("--deltatime"), "with --show-task-events");
        let since_exec = differences.replacen("0.000000", "0.045939", 1);
        assert!(message_of(&(tasks + &since_exec)).contains("--deltatime"), "of which the last has a time");
        assert_eq!(
            message_of(&differences.replace(" 7 [", "-7 [").replace("sched:", "")),
            "200 events",
            "perf has not printed that"
        );
    }

    #[test]
    fn the_error_requests_missing_columns() {
        for columns in ["a [000] 1.000001:", "cc-3 [000] 1.000001:", "a 7 1.000001:", "a 7 [000]", "a 7", ""] {
            let message = message_of(&script(|_, _| format!("  {columns}     {SWITCH}\n")));
            assert!(message.contains("-F comm,tid,cpu,time,event,trace"), "`{columns}`: {message}");
            assert!(message.contains("without the thread, the CPU or the time"), "`{columns}`: {message}");
        }
        for columns in ["7 [000] 1.000001:", "a b-c 7/8 [000] 1.000001:"] {
            assert_eq!(message_of(&script(|_, _| format!("  {columns} {SWITCH}\n"))), "200 events", "`{columns}`");
        }
        let whole = script(|_, _| format!("  a 7 [000] 1.000001: {SWITCH}\n"));
        assert_eq!(message_of(&format!("  a [000] 1.000001: {SWITCH}\n{whole}")), "200 events");
    }
}
