//! Formats of older kernels and other tools. A recording of ours is rewritten in each, and must have all events.

use vruntime_trace::TaskState;

use super::*;

/// The header and the events of `ftrace-tgid.txt`.
fn lines() -> (Vec<String>, Vec<String>) {
    let text = std::fs::read_to_string(fixture("ftrace-tgid.txt")).unwrap();
    text.lines().map(str::to_owned).partition(|line| line.starts_with('#'))
}

fn read_text(text: &str) -> (Vec<String>, Summary, Notes) {
    read_events(read::from_reader(Cursor::new(text.as_bytes().to_vec())).unwrap(), bare)
}

/// Android 4 has only task, CPU and time, without flags and process.
fn without_columns(line: &str) -> String {
    let (task, rest) = line.split_once(" (").unwrap();
    let (_, rest) = rest.split_once(") ").unwrap();
    let (cpu, rest) = rest.split_once("] ").unwrap();
    let (_flags, rest) = rest.split_once(' ').unwrap();
    format!("{task} {cpu}] {}", rest.trim_start())
}

fn join(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// systrace's two kinds of pages: the trace in its own script, or in a string of a script.
fn pages(events: &str) -> [String; 2] {
    let header = "# tracer: nop\n#\n";
    let foreign = "<script class=\"trace-data\" type=\"application/json\">\n{\"traceEvents\": []}\n</script>\n";
    let begin = "<!DOCTYPE html>\n<html>\n<head><title>a trace</title>\n<style>\n  body { margin: 0; }\n</style>\n</head>\n<body>\n";
    let end = "<script>\n  const shown = document.querySelector('body-1 [000] 1.000000: sched_switch: ');\n</script>\n</body>\n</html>\n";
    [
        format!(
            "{begin}<script class=\"trace-data\" type=\"application/text\">\n{header}{events}</script>\n{foreign}{end}"
        ),
        format!(
            "{begin}<script>\n  var linuxPerfData = \"\\\n{}\";\n</script>\n{end}",
            format!("{header}{events}").lines().flat_map(|line| [line, "\\n\\\n"]).collect::<String>()
        ),
    ]
}

#[test]
fn pages_of_systrace_say_the_same() {
    let (_, events) = lines();
    let (plain, ..) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    let old: Vec<String> = events.iter().map(|line| without_columns(line)).collect();
    for (columns, events) in [("all", &events), ("few", &old)] {
        for (at, page) in pages(&join(events)).iter().enumerate() {
            let (found, summary, notes) = read_text(page);
            without_loss(&notes, Kind::Systrace);
            same(&format!("page {at}, {columns} columns"), &found, &plain);
            assert_eq!(summary.has_tgid(), columns == "all");
        }
    }
}

/// A page that was not completely written lacks its end. All events before are read.
#[test]
fn a_page_that_is_cut_is_read_to_there() {
    let (_, events) = lines();
    let (plain, ..) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    let [page, _] = pages(&join(&events));
    let end = page.find(events[100].as_str()).unwrap();
    let (found, _, notes) = read_text(&page[..end + 20]);
    same("page", &found, &plain[..100]);
    assert!(notes.unterminated.is_some());
}

#[test]
fn few_columns_say_the_same() {
    let (header, events) = lines();
    let (plain, ..) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    let old: Vec<String> = header[..2].iter().cloned().chain(events.iter().map(|line| without_columns(line))).collect();
    let (found, summary, notes) = read_text(&join(&old));
    without_loss(&notes, Kind::Ftrace);
    same("few columns", &found, &plain);
    assert!(!summary.has_tgid());
}

/// Older kernels print whether a wakeup succeeded, and the oldest lack the target CPU.
#[test]
fn wakeups_of_older_kernels() {
    let (plain, ..) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    let text = std::fs::read_to_string(fixture("ftrace-tgid.txt")).unwrap();
    let wakeups = plain.iter().filter(|line| line.contains("target_cpu: Some(")).count();
    assert!(wakeups > 20, "{wakeups}");
    let (found, _, notes) = read_text(&text.replace(" target_cpu=", " success=1 target_cpu="));
    without_loss(&notes, Kind::Ftrace);
    same("success=1", &found, &plain);
    let (found, _, notes) = read_text(&text.replace(" target_cpu=", " success=0 target_cpu="));
    without_loss(&notes, Kind::Ftrace);
    let failed: Vec<String> = plain.iter().map(|line| line.replace("success: true", "success: false")).collect();
    assert_ne!(failed, plain);
    same("success=0", &found, &failed);
    let (found, _, notes) =
        read_text(&text.replace(" target_cpu=000", " success=1").replace(" target_cpu=001", " success=1"));
    without_loss(&notes, Kind::Ftrace);
    assert_eq!(found.iter().filter(|line| line.contains("target_cpu: None")).count(), wakeups);
}

/// atrace writes the time of its own clock after the trace, without task and time. Marks of programs were once called
/// `0`.
#[test]
fn a_line_of_time_zero_is_one_that_strays() {
    let (header, events) = lines();
    let (_, before, _) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    let old = events.iter().map(|line| without_columns(line).replace(": tracing_mark_write: ", ": 0: "));
    let stray = "           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=0.0".to_owned();
    let text: Vec<String> = header[..2].iter().cloned().chain(old).chain([stray]).collect();
    let (_, summary, notes) = read_text(&join(&text));
    without_loss(&notes, Kind::Ftrace);
    assert_eq!(before.clock().strays(), 0);
    assert_eq!(summary.clock().strays(), 1);
    assert_eq!(summary.clock().span_ns(), before.clock().span_ns());
    assert_eq!(summary.count_of("0"), before.count_of("tracing_mark_write") + 1);
    assert_eq!(summary.events(), before.events() + 1);
}

#[test]
fn raw_states_of_an_older_kernel() {
    let states = |text: &str| {
        let (lines, summary, notes) =
            read_events(read::from_reader(Cursor::new(text.as_bytes().to_vec())).unwrap(), |record| {
                match record.point {
                    Tracepoint::Switch { prev_state, .. } => prev_state.letters().to_owned(),
                    _ => String::new(),
                }
            });
        without_loss(&notes, Kind::TraceCmdRaw);
        assert_eq!(summary.broken_switches(), 0);
        lines.into_iter().filter(|state| !state.is_empty()).collect::<Vec<_>>()
    };
    let text = std::fs::read_to_string(fixture("trace-cmd-report-R.txt")).unwrap();
    let ours = states(&text);
    assert!(!ours.contains(&TaskState::Unknown.letters().to_owned()));
    // Here all runnable tasks count as preempted.
    let old = text.replace("prev_state=0 ", "prev_state=4096 ").replace("prev_state=128 ", "prev_state=1026 ");
    let found = states(&old);
    let expected = ours.iter().map(|state| if state == "R" { "R+".to_owned() } else { state.clone() });
    let expected: Vec<String> = expected.collect();
    assert_ne!(expected, ours);
    same("states", &found, &expected);
}

#[test]
fn events_of_other_subsystems_are_counted() {
    let others = "          <idle>-0     (-----) [001] d..1 46736.600000: cpu_idle: state=1 cpu_id=1\n\
        \x20         <idle>-0     (-----) [001] d..1 46736.600001: cpu_frequency: state=1190400 cpu_id=1\n\
        \x20         <idle>-0     (-----) [001] d..1 46736.600002: sched_blocked_reason: pid=7 iowait=0 caller=wait_on_page+0x1/0x2\n\
        \x20         <idle>-0     (-----) [001] d..1 46736.600003: sched_overutilized: overutilized=1\n\
        \x20         <idle>-0     (-----) [001] d..1 46736.600004: sched_load_se: cpu=1 path=/ comm=a pid=7 load=5 util=6\n";
    let (header, events) = lines();
    let (found, summary, notes) = read_text(&format!("{}{others}{}", join(&header), join(&events)));
    let (plain, before, _) = read_lines(&fixture("ftrace-tgid.txt"), bare);
    without_loss(&notes, Kind::Ftrace);
    same("events", &found[5..], &plain);
    for name in ["cpu_idle", "cpu_frequency", "sched_blocked_reason", "sched_overutilized", "sched_load_se"] {
        assert_eq!((before.count_of(name), summary.count_of(name)), (0, 1), "{name}");
    }
}
