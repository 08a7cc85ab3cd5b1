//! Makes foreign text safe to print: no control of the terminal, and a limited length.

/// Most characters of a quoted name.
const QUOTED: usize = 80;

/// Most characters of a message.
const MESSAGE: usize = 2000;

/// Whether a terminal obeys a character, or shows nothing: controls, line separators, writing directions, characters
/// without a width.
fn obeyed(character: char) -> bool {
    const DIRECTIONS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    /// Soft hyphen, separators without a width.
    const INVISIBLE: [char; 4] = ['\u{ad}', '\u{180e}', '\u{200b}', '\u{feff}'];
    character.is_control()
        || DIRECTIONS.contains(&character)
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || INVISIBLE.contains(&character)
        || matches!(character, '\u{2060}'..='\u{2064}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes the characters of a name that terminals obey.
pub(crate) fn escaped(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if obeyed(character) {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// Returns the character, or a substitute.
pub(crate) fn visible(character: char) -> char {
    match character {
        _ if !obeyed(character) => character,
        _ if character.is_ascii() => '?',
        _ => '\u{bf}',
    }
}

/// Makes a message with quoted input printable. Escapes characters that terminals obey. Shortens `quotations` to 80
/// characters, the message to 2000. Keeps line breaks outside quotations.
///
/// ```
/// use vruntime_workload::plain;
///
/// assert_eq!(plain("task `a\u{1b}[2J\n`"), "task `a\\u{1b}[2J\\n`");
/// assert_eq!(plain(&format!("unknown key `{}`", "x".repeat(1000))), format!("unknown key `{}…`", "x".repeat(80)));
/// ```
pub fn plain(message: &str) -> String {
    let mut text = String::new();
    let (mut shown, mut quoted, mut inside) = (0, 0, false);
    for character in message.chars() {
        if shown == MESSAGE {
            text.push('\u{2026}');
            break;
        }
        if character == '`' {
            (quoted, inside) = (0, !inside);
        } else if inside {
            quoted += 1;
            if quoted == QUOTED + 1 {
                text.push('\u{2026}');
            }
            if quoted > QUOTED {
                continue;
            }
        }
        shown += 1;
        if obeyed(character) && (inside || !matches!(character, '\n' | '\t')) {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}
