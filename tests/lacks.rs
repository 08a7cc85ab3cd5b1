//! What a trace lacks, as `vruntime trace info`, `trace analyse` and `replay` tell it. The command's tests compare the
//! three for recordings of ours, `cargo xtask traces` for any others; each has this file as a module.

use serde_json::Value;

const NAMES: [&str; 3] = ["broken_switches", "missing_arrivals", "unwoken"];

/// How many switches away from a task, switches from the idle task and wakeups are missing, by what the commands print
/// with `--json`.
///
/// # Errors
/// If they do not agree, or say nothing of it.
pub(crate) fn lacks(info: &Value, analysed: &Value, replayed: Option<&Value>) -> Result<[u64; 3], String> {
    let number = |json: &Value, what: &str| json[what].as_u64().ok_or_else(|| format!("no `{what}` in {json}"));
    let list =
        |json: &Value, what: &str| json[what].as_array().cloned().ok_or_else(|| format!("no `{what}` in {json}"));
    let mut of_analysis = [0; 3];
    for (count, what) in of_analysis.iter_mut().zip(NAMES) {
        *count = number(&analysed["faults"], what)?;
    }
    let mut unwoken = 0;
    for task in list(info, "tasks")? {
        unwoken += number(&task, NAMES[2])?;
    }
    let of_info = [number(&info["loss"], NAMES[0])?, number(&info["loss"], NAMES[1])?, unwoken];
    if of_info != of_analysis {
        return Err(format!("`trace info` says that {NAMES:?} are {of_info:?}, `trace analyse` {of_analysis:?}"));
    }
    let Some(replayed) = replayed else { return Ok(of_analysis) };
    let notes = list(replayed, "notes")?;
    // Notes begin with a number; what follows is another for 1 than for more.
    let count = |one: &str, more: &str| {
        let number = |note: &Value| {
            let (number, rest) = note.as_str()?.split_once(' ')?;
            number.parse::<u64>().ok().filter(|&number| rest.starts_with(if number == 1 { one } else { more }))
        };
        notes.iter().find_map(number).unwrap_or(0)
    };
    let of_replay = [
        count("switch away from a task is missing", "switches away from a task are missing"),
        count("switch to a task is missing", "switches to a task are missing"),
        count("sleep has no wakeup event", "sleeps have no wakeup event"),
    ];
    // A replay knows of wakeups that reach a task on its way to sleep: such a sleep has an end, which the others miss.
    let agrees = of_replay[..2] == of_analysis[..2] && of_replay[2] <= of_analysis[2];
    if !agrees {
        return Err(format!("`trace analyse` says that {NAMES:?} are {of_analysis:?}, `replay` {of_replay:?}"));
    }
    if count("task ran when the trace began", "tasks ran when the trace began") > list(info, "cpus")?.len() as u64 {
        return Err(format!("more tasks ran when the trace began than it has CPUs: {notes:?}"));
    }
    Ok(of_analysis)
}
