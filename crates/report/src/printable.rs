//! Escapes names, which can be any bytes, for a terminal.

use std::fmt::Write as _;

pub use vruntime_trace::obeyed;

/// Escapes a name for one line: characters that break a table or control a terminal.
///
/// ```
/// assert_eq!(vruntime_report::printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
/// ```
pub fn printable(name: &str) -> String {
    escaped(name, |_| false)
}

/// As [`printable`], but line breaks and tabs remain.
pub fn printable_text(text: &str) -> String {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// Returns equivalent, printable JSON. Only strings need escapes.
pub fn printable_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if obeyed(character) && character != '\n' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _written = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    safe
}

fn escaped(text: &str, remains: fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if obeyed(character) && !remains(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_speaks_to_the_terminal() {
        assert_eq!(printable("\u{e4}b\tc\u{9b}d\u{202e}e\u{7f}"), "\u{e4}b\\tc\\u{9b}d\\u{202e}e\\u{7f}");
        assert_eq!(printable_text("a\n\tb\u{7}"), "a\n\tb\\u{7}");
        assert_eq!(printable("a\u{200f}\u{2028}b\u{61c}\u{200d}"), "a\\u{200f}\\u{2028}b\\u{61c}\u{200d}");
        let hidden = "a\u{200b}\u{feff}\u{ad}\u{fff9}\u{e0041}b";
        assert_eq!(printable(hidden), "a\\u{200b}\\u{feff}\\u{ad}\\u{fff9}\\u{e0041}b");
        let json = printable_json(&format!("\"{hidden}\""));
        assert!(json.is_ascii() && serde_json::from_str::<String>(&json).unwrap() == hidden, "{json}");
        let json = printable_json("{\n \"a\": \"\u{9b}2J\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), serde_json::json!({ "a": "\u{9b}2J" }));
        assert_eq!(json, "{\n \"a\": \"\\u009b2J\"\n}");
    }
}
