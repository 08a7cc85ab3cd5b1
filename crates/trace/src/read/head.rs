//! The first columns of a line of text: task, CPU, time and event.
//!
//! ```text
//!      bash-20662   ( 20662) [001] d..2. 45540.969217: sched_switch: …        the kernel, trace-cmd
//!      bash-20662   1d..2. 45540.969217: sched_switch: …                      with latency-format, report -l
//!      bash 20662/20662 [001] 45540.969217483:      sched:sched_switch: …     perf script
//! ```
//!
//! A name can contain spaces, brackets and dashes. Columns are therefore found by `[cpu]` and the thread's id before
//! it.

use std::ops::Range;

use memchr::memchr;

use super::scan::{digits, trim_end, trim_start};
use crate::event::Context;

/// Bound of CPU numbers; Linux stops at 8192.
pub(super) const MAX_CPUS: u32 = 1 << 20;

/// The part of a line that is searched for `[cpu]`.
const HEAD: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dress {
    /// The kernel or trace-cmd.
    Ftrace,
    /// `perf script`.
    Perf,
}

/// The columns of a line; ranges are within the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) dress: Dress,
    pub(super) comm: Range<usize>,
    pub(super) pid: i32,
    pub(super) tgid: Option<i32>,
    pub(super) cpu: u32,
    pub(super) context: Option<Context>,
    pub(super) at: i64,
    /// Set if the time has no fraction: a count of a clock without a unit.
    pub(super) counts: bool,
    pub(super) name: Range<usize>,
    pub(super) fields: Range<usize>,
}

/// Parses the columns of `line`; none if it is no event.
#[inline]
pub(super) fn head(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(HEAD)];
    let mut from = 0;
    while let Some(at) = memchr(b'[', &window[from..]) {
        let open = from + at;
        if let Some(head) = bracketed(line, open) {
            return Some(head);
        }
        from = open + 1;
    }
    latency(line)
}

/// Parses a line whose `[cpu]` is at `open`.
#[inline]
fn bracketed(line: &[u8], open: usize) -> Option<Head> {
    let (cpu, length) = digits(&line[open + 1..])?;
    let close = open + 1 + length;
    if line.get(close) != Some(&b']') {
        return None;
    }
    let mut who = trim_end(&line[..open]);
    let mut tgid = None;
    if who.last() == Some(&b')') {
        let (id, before) = in_brackets(who)?;
        (tgid, who) = (id, trim_end(before));
    }
    let (dress, comm, pid, process) = identity(who)?;
    let mut rest = trim_start(&line[close + 1..]);
    if rest.first() == Some(&b'(') {
        // The process's column in 4.13 to 4.18.
        let end = memchr(b')', rest)?;
        (tgid, _) = in_brackets(&rest[..=end])?;
        rest = trim_start(&rest[end + 1..]);
    }
    let (context, (at, counts, rest)) = if let Some(found) = time(rest) {
        (None, found)
    } else {
        let (flags, rest) = rest.split_at(memchr(b' ', rest)?);
        (context(flags), time(trim_start(rest))?)
    };
    let tgid = tgid.or(process);
    let head = Head { dress, comm, pid, tgid, cpu: valid_cpu(cpu)?, context, at, counts, name: 0..0, fields: 0..0 };
    Some(finish(line, head, rest))
}

/// Returns the context by ftrace's third flag. In an interrupt it is `h`, or `H` if that interrupted a softirq. In an
/// NMI it is `z` or `Z`, in a softirq `s`.
fn context(flags: &[u8]) -> Option<Context> {
    match flags.get(2)? {
        b'h' | b'H' | b'z' | b'Z' => Some(Context::Hardirq),
        b's' => Some(Context::Softirq),
        b'.' => Some(Context::Task),
        _ => None,
    }
}

fn valid_cpu(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|&cpu| cpu < MAX_CPUS)
}

/// Parses `( 20662)` or `(-----)` at the end of `text`; returns the number, and the text before.
fn in_brackets(text: &[u8]) -> Option<(Option<i32>, &[u8])> {
    let open = text.iter().rposition(|&byte| byte == b'(')?;
    let inside = trim_start(&text[open + 1..text.len() - 1]);
    let id = match digits(inside) {
        Some((id, length)) if length == trim_end(inside).len() => Some(i32::try_from(id).ok()?),
        None if inside.first() == Some(&b'-') => None,
        _ => return None,
    };
    Some((id, &text[..open]))
}

/// Parses `comm-pid` of ftrace, or `comm pid` or `comm pid/tid` of perf.
#[inline]
fn identity(text: &[u8]) -> Option<(Dress, Range<usize>, i32, Option<i32>)> {
    let number = |end: usize| -> Option<(i32, usize)> {
        let start = text[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
        let (value, _) = digits(&text[start..end])?;
        Some((i32::try_from(value).ok()?, start))
    };
    let (mut pid, mut start) = number(text.len())?;
    let before = |start: usize| start.checked_sub(1).map(|at| text[at]);
    // perf prints -1 if unknown. Otherwise a dash joins ftrace's name and thread.
    let negative = |start: usize| {
        before(start) == Some(b'-')
            && match before(start - 1) {
                None | Some(b' ') => true,
                Some(b'/') => before(start - 2).is_some_and(|byte| byte.is_ascii_digit()),
                _ => false,
            }
    };
    let mut process = None;
    if negative(start) {
        (pid, start) = (-pid, start - 1);
    }
    if before(start) == Some(b'/') {
        let (mut id, mut first) = number(start - 1)?;
        if negative(first) {
            (id, first) = (-id, first - 1);
        }
        (process, start) = (Some(id), first);
    }
    let (dress, end) = match before(start) {
        Some(b'-') if process.is_none() => (Dress::Ftrace, start - 1),
        Some(b' ' | b'\t') => (Dress::Perf, start - 1),
        None => (Dress::Perf, 0),
        _ => return None,
    };
    let name = trim_start(&text[..end]);
    let from = end - name.len();
    Some((dress, from..from + trim_end(name).len(), pid, process))
}

/// Parses a time with its colon, in nanoseconds or counts.
#[inline]
fn time(text: &[u8]) -> Option<(i64, bool, &[u8])> {
    let (negative, number) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, length) = digits(number)?;
    let rest = &number[length..];
    let (nanoseconds, counts, rest) = match rest {
        [b'.', rest @ ..] => {
            let (fraction, length) = digits(rest)?;
            let fraction = match length {
                6 => fraction * 1000,
                9 => fraction,
                1..=8 => fraction * 10_u64.pow(9 - length as u32),
                _ => return None,
            };
            (whole.checked_mul(1_000_000_000)?.checked_add(fraction)?, false, &rest[length..])
        }
        // With latency-format the kernel counts microseconds from the first event, and marks long steps.
        [b'u', b's', mark, rest @ ..] if !mark.is_ascii_alphanumeric() => {
            let rest = if *mark == b':' { &number[length + 2..] } else { rest };
            (whole.checked_mul(1000)?, false, trim_start(rest))
        }
        _ => (whole, true, rest),
    };
    let rest = rest.strip_prefix(b":")?;
    let at = i64::try_from(nanoseconds).ok()?;
    Some((if negative { -at } else { at }, counts, rest))
}

/// Skips the time since the previous event, `(+12)` or `(+-3)`, of `trace-cmd report --ts-diff`.
#[inline]
fn since_before(text: &[u8]) -> Option<&[u8]> {
    let number = text.strip_prefix(b"(+")?;
    let number = number.strip_prefix(b"-").unwrap_or(number);
    let (_, length) = digits(number)?;
    number[length..].strip_prefix(b")")
}

#[inline]
fn finish(line: &[u8], mut head: Head, rest: &[u8]) -> Head {
    let mut rest = trim_start(rest);
    if head.dress == Dress::Perf
        && let Some((_, length)) = digits(rest)
        && rest.get(length) == Some(&b' ')
    {
        // The sample's period.
        rest = trim_start(&rest[length..]);
    }
    if head.dress == Dress::Ftrace
        && let Some(behind) = since_before(rest)
    {
        rest = trim_start(behind);
    }
    let start = line.len() - rest.len();
    let end = start + memchr(b' ', rest).unwrap_or(rest.len());
    let token = &line[start..end];
    let (mut name, mut fields) = match memchr(b'(', token) {
        // `sys_read(fd: 3`, `PERF_RECORD_FORK(1:1):(0:0)`.
        Some(open) if open > 0 => (start..start + open, start + open..line.len()),
        _ if token.ends_with(b":") => (start..end - 1, end..line.len()),
        _ if token.starts_with(b"PERF_RECORD_") => (start..end, end..line.len()),
        // Function tracers print no event's name.
        _ => (start..start, start..line.len()),
    };
    if head.dress == Dress::Perf
        && let Some(colon) = memchr(b':', &line[name.clone()])
    {
        // `sched:sched_switch`; but `cycles:u` is an event with a modifier.
        let event = &line[name.start + colon + 1..name.end];
        if !event.iter().all(|byte| b"ukhGHpPSDIeWbR".contains(byte)) {
            name.start += colon + 1;
        }
    }
    fields.start += line[fields.clone()].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (head.name, head.fields) = (name, fields);
    head
}

/// Parses a line without `[cpu]`: CPU and flags are one word, `1d..2.`.
#[cold]
fn latency(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(HEAD)];
    let mut from = 0;
    while let Some(at) = memchr(b'-', &window[from..]) {
        let dash = from + at;
        from = dash + 1;
        if let Some(head) = latency_at(line, dash) {
            return Some(head);
        }
    }
    None
}

fn latency_at(line: &[u8], dash: usize) -> Option<Head> {
    let (pid, length) = digits(&line[dash + 1..])?;
    let rest = &line[dash + 1 + length..];
    if rest.first() != Some(&b' ') {
        return None;
    }
    let rest = trim_start(rest);
    let (number, length) = digits(rest)?;
    let flags = &rest[length..];
    let end = memchr(b' ', flags)?;
    // Four or five letters, dots and digits (for depths).
    if !(4..=5).contains(&end) || !flags[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b".#".contains(byte))
    {
        return None;
    }
    let (at, counts, rest) = time(trim_start(&flags[end..]))?;
    let name = trim_start(&line[..dash]);
    let head = Head {
        dress: Dress::Ftrace,
        comm: dash - name.len()..dash,
        pid: i32::try_from(pid).ok()?,
        tgid: None,
        cpu: valid_cpu(number)?,
        context: context(&flags[..end]),
        at,
        counts,
        name: 0..0,
        fields: 0..0,
    };
    Some(finish(line, head, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let Some(head) = head(line.as_bytes()) else { return "none".to_owned() };
        let text = |range: Range<usize>| &line[range];
        let dress = if head.dress == Dress::Perf { "perf" } else { "ftrace" };
        format!(
            "{dress}|{}|{}|{:?}|{}|{}|{}|{}",
            text(head.comm),
            head.pid,
            head.tgid,
            head.cpu,
            head.at,
            text(head.name),
            text(head.fields)
        )
    }

    #[test]
    fn columns_of_the_kernel_and_of_trace_cmd() {
        for (line, expected) in [
            ("  bash-206  [001]  45.969217: cpu_idle: state=1", "ftrace|bash|206|None|1|45969217000|cpu_idle|state=1"),
            ("  bash-206  [001] d..2. 45.969217: cpu_idle: x", "ftrace|bash|206|None|1|45969217000|cpu_idle|x"),
            (
                "  bash-206  ( 99) [001] d..2 45.969217: cpu_idle: x",
                "ftrace|bash|206|Some(99)|1|45969217000|cpu_idle|x",
            ),
            ("<idle>-0    (-----) [006] d..2 5.000001: cpu_idle: x", "ftrace|<idle>|0|None|6|5000001000|cpu_idle|x"),
            (
                "  bash-206  [001] (   99) d..2 45.9692: cpu_idle: x",
                "ftrace|bash|206|Some(99)|1|45969200000|cpu_idle|x",
            ),
            ("<...>-1701  [001]  76.211513483: cpu_idle:   x", "ftrace|<...>|1701|None|1|76211513483|cpu_idle|x"),
            ("  bash-206  1d..2. 45.969217: cpu_idle: x", "ftrace|bash|206|None|1|45969217000|cpu_idle|x"),
            ("  bash-206  1d..2. 38344us!: cpu_idle: x", "ftrace|bash|206|None|1|38344000|cpu_idle|x"),
            ("  bash-206  1d..2. 38344us : cpu_idle: x", "ftrace|bash|206|None|1|38344000|cpu_idle|x"),
            ("  bash-206  [001] .... 4569217: cpu_idle: x", "ftrace|bash|206|None|1|4569217|cpu_idle|x"),
            ("  bash-206  [001] .... -4.000001: cpu_idle: x", "ftrace|bash|206|None|1|-4000001000|cpu_idle|x"),
            ("kworker/u17:1-9 [001] 4.000001: 0: C|1|x|2", "ftrace|kworker/u17:1|9|None|1|4000001000|0|C|1|x|2"),
            ("a [7] b-c-3 [001] 4.000001: x: y", "ftrace|a [7] b-c|3|None|1|4000001000|x|y"),
            ("kworker/-3 [001] 4.000001: x: y", "ftrace|kworker/|3|None|1|4000001000|x|y"),
            ("-7 [001] 4.000001: x: y", "perf||-7|None|1|4000001000|x|y"),
            ("a-3 [001] 4.000001: sys_read(fd: 3, buf: 0)", "ftrace|a|3|None|1|4000001000|sys_read|(fd: 3, buf: 0)"),
            ("  bash-206  [001]  45.969217: (+3)     cpu_idle: x", "ftrace|bash|206|None|1|45969217000|cpu_idle|x"),
            ("  bash-206  1d..2. 45.969217: (+-31) cpu_idle: x", "ftrace|bash|206|None|1|45969217000|cpu_idle|x"),
            ("a-3 [001] 4.000001: (+x) y", "ftrace|a|3|None|1|4000001000||(+x) y"),
            ("a-3 [001] 4.000001: do_idle <-cpu_idle", "ftrace|a|3|None|1|4000001000||do_idle <-cpu_idle"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn flags_tell_the_handlers_of_interrupts() {
        for (line, expected) in [
            ("  bash-206  [001]  45.969217: cpu_idle: state=1", None),
            ("  bash-206  [001] d.h2. 45.969217: cpu_idle: x", Some(Context::Hardirq)),
            ("  bash-206  [001] dNH2 45.969217: cpu_idle: x", Some(Context::Hardirq)),
            ("  bash-206  [001] d.Z2. 45.969217: cpu_idle: x", Some(Context::Hardirq)),
            ("  bash-206  [001] dNs2. 45.969217: cpu_idle: x", Some(Context::Softirq)),
            ("  bash-206  [001] d..2. 45.969217: cpu_idle: x", Some(Context::Task)),
            ("  bash-206  1d.h2. 45.969217: cpu_idle: x", Some(Context::Hardirq)),
            ("  bash-206  [001] xxxx 45.969217: cpu_idle: x", None),
            ("  bash 206 [001] 45.969217: sched:x: y", None),
        ] {
            assert_eq!(head(line.as_bytes()).expect("an event").context, expected, "{line}");
        }
    }

    #[test]
    fn columns_of_perf_script() {
        for (line, expected) in [
            (
                "  perf 134/135 [000]  2.990869570: sched:sched_switch: x",
                "perf|perf|135|Some(134)|0|2990869570|sched_switch|x",
            ),
            ("  perf 135 [000]  2.990869:   sched:sched_switch: x", "perf|perf|135|None|0|2990869000|sched_switch|x"),
            (
                "  a b-c  135 [000]  2.990869: 229 sched:sched_switch: x",
                "perf|a b-c|135|None|0|2990869000|sched_switch|x",
            ),
            ("  :-1    -1/-1  [000]  2.990869: sched:x: y", "perf|:-1|-1|Some(-1)|0|2990869000|x|y"),
            (
                "  a 135 [000]  2.990869:   250000 cycles:u:  ffff0 main (/bin/a)",
                "perf|a|135|None|0|2990869000|cycles:u|ffff0 main (/bin/a)",
            ),
            (
                "  a 135 [000]  2.990869: PERF_RECORD_LOST lost 12",
                "perf|a|135|None|0|2990869000|PERF_RECORD_LOST|lost 12",
            ),
            ("  a 0 [000]  0.000000: PERF_RECORD_FORK(1:1):(0:0)", "perf|a|0|None|0|0|PERF_RECORD_FORK|(1:1):(0:0)"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_events() {
        for line in [
            "",
            "cpus=2",
            "# tracer: nop",
            "a-3 [x] 4.0: x: y",
            "a-3 [001 4.0: x: y",
            "a-3 [9999999] 4.000001: x: y",
            "a-3 [001] 4.0000000001: x: y",
            "a-3 [001] 99999999999999999.000001: x: y",
            "a [001] 4.000001: x: y",
            "a-99999999999 [001] 4.000001: x: y",
            " => do_syscall_64",
        ] {
            assert_eq!(read(line), "none", "{line}");
        }
    }
}
