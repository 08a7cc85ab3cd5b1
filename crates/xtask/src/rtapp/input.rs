//! Adapts files for rt-app: calibration, duration, folder of logs.
//!
//! Edits the text without parsing, since rt-app's files are not always JSON.

/// rt-app's calibration: nanoseconds per turn of its loop.
///
/// rt-app reads whole nanoseconds, and a turn has about 15: rounding would change the work by up to 3 %. So rt-app gets
/// this value, and [`adapted`] lengthens each `run`.
pub(super) const CALIBRATION_NS: f64 = 100.0;

/// Returns the text with `key` set in `global`. Adds a missing `global`.
pub(super) fn with_global(text: &str, key: &str, value: &str) -> String {
    let quoted = format!("\"{key}\"");
    let ours = format!("{quoted} : {value}");
    let global = text.find("\"global\"");
    if let Some(at) = global.and_then(|global| Some(global + text[global..].find(&quoted)?)) {
        let rest = &text[at..];
        let end = rest.find([',', '}', '\n']).unwrap_or(rest.len());
        return format!("{}{ours}{}", &text[..at], &rest[end..]);
    }
    let global = global.and_then(|at| Some(at + text[at..].find('{')? + 1));
    match (global, text.rfind('}')) {
        (Some(at), _) => format!("{}\n\t\t{ours},{}", &text[..at], &text[at..]),
        (None, Some(at)) => {
            let before = text[..at].trim_end().trim_end_matches(',');
            format!("{before},\n\t\"global\" : {{\n\t\t{ours}\n\t}}\n{}", &text[at..])
        }
        (None, None) => text.to_owned(),
    }
}

/// Returns the text with each `run` multiplied by `times`.
fn with_runs(text: &str, times: f64) -> String {
    let mut longer = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\"run") {
        let (before, key) = rest.split_at(at);
        longer.push_str(before);
        let name = key[1..].split('"').next().unwrap_or_default();
        let behind = &key[(name.len() + 2).min(key.len())..];
        let number = behind.trim_start().strip_prefix(':').map(str::trim_start).unwrap_or_default();
        let digits = number.len() - number.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        match number[..digits].parse::<f64>() {
            Ok(microseconds) if !name.starts_with("runtime") => {
                longer.push_str(&key[..key.len() - number.len()]);
                longer += &(microseconds * times).round().to_string();
                rest = &number[digits..];
            }
            _ => {
                longer.push_str(&key[..key.len() - behind.len()]);
                rest = behind;
            }
        }
    }
    longer + rest
}

/// Adapts a file to a turn of `pace_ns`, and to `seconds`.
pub(super) fn adapted(text: &str, pace_ns: f64, seconds: u64) -> String {
    let text = with_runs(text, CALIBRATION_NS / pace_ns);
    let text = with_global(&text, "calibration", &format!("{CALIBRATION_NS}"));
    let text = with_global(&text, "duration", &seconds.to_string());
    // rt-app requires it for logs.
    with_global(&text, "logdir", "\"./\"")
}

/// Returns the duration of a file, seconds. None if missing or endless.
pub(super) fn duration(text: &str) -> Option<u64> {
    let global = &text[text.find("\"global\"")?..];
    let behind = global.split("\"duration\"").nth(1)?.trim_start().strip_prefix(':')?.trim_start();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globals_are_set() {
        let set = |text: &str| with_global(text, "calibration", "87");
        assert_eq!(
            set("{\n\t\"global\" : {\n\t\t\"calibration\" : \"CPU0\",\n\t\t\"x\" : 1\n\t}\n}"),
            "{\n\t\"global\" : {\n\t\t\"calibration\" : 87,\n\t\t\"x\" : 1\n\t}\n}"
        );
        assert_eq!(set("{ \"global\" : { \"calibration\" : 5 } }"), "{ \"global\" : { \"calibration\" : 87} }");
        assert_eq!(set("{ \"global\" : { \"x\" : 1 } }"), "{ \"global\" : {\n\t\t\"calibration\" : 87, \"x\" : 1 } }");
        assert!(set("{ \"tasks\" : { }, }").contains("},\n\t\"global\" : {\n\t\t\"calibration\" : 87\n\t}"));
    }

    #[test]
    fn runs_are_as_much_longer_as_a_turn_is_shorter() {
        let text = "{ \"tasks\" : { \"run\" : { \"run\" : 1000, \"runtime\" : 500, \"run1\":20, \"iorun\" : 7, \"memrun\" : {} } } }";
        let expected = "{ \"tasks\" : { \"run\" : { \"run\" : 6667, \"runtime\" : 500, \"run1\":133, \"iorun\" : 7, \"memrun\" : {} } } }";
        assert_eq!(with_runs(text, 100.0 / 15.0), expected);
        assert_eq!((with_runs("\"run", 2.0), with_runs("\"run\" :", 2.0)), ("\"run".into(), "\"run\" :".into()));
    }

    #[test]
    fn a_file_gets_all_settings() {
        let text = adapted("{ \"tasks\" : { \"t\" : { \"run\" : 3 } } }", 50.0, 4);
        for part in ["\"run\" : 6 ", "\"calibration\" : 100", "\"duration\" : 4,", "\"logdir\" : \"./\","] {
            assert!(text.contains(part), "{part} {text}");
        }
        let own = super::adapted("{ \"global\" : { \"duration\" : 60, \"logdir\" : \"/tmp/\" } }", 50.0, 4);
        assert!(
            own.contains("\"duration\" : 4,") && own.contains("\"logdir\" : \"./\"") && !own.contains("/tmp/"),
            "{own}"
        );
    }

    #[test]
    fn a_file_says_how_long_it_runs() {
        assert_eq!(duration("{ \"global\" : { \"duration\" : 6,"), Some(6));
        let resource = "{ \"resources\" : { \"duration\" : 0 }, \"global\" : { \"duration\" : 5 } }";
        assert_eq!(duration(resource), Some(5), "what is held for so long is something else");
        assert_eq!((duration("\"global\" : { \"duration\": -1"), duration("{}")), (None, None));
        assert!(
            with_global(resource, "duration", "2").contains("\"duration\" : 0 }, \"global\" : { \"duration\" : 2}")
        );
    }
}
