//! JSON in rt-app's dialect, with places.
//!
//! Objects keep the order and repetitions of keys, which matter to rt-app. The parser accepts the extensions of json-c,
//! workgen and their users: comments, trailing commas, single quotes, keys without values, text after the end. It
//! reports them to [`Problems`], in strict mode as errors.

use std::borrow::Cow;
use std::ops::Range;

use super::read::LEAST;
use crate::error::{Error, Problems};

pub(crate) type Span = Range<usize>;

/// The deepest nesting. rt-app's grammar has 6 levels.
pub(crate) const MAX_DEPTH: usize = 64;

#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    /// Its text is that of its span.
    Number,
    String(String),
    Array(Vec<Value>),
    Object(Vec<Member>),
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    /// None for a bare `"suspend",`.
    pub(crate) value: Option<Value>,
}

impl Kind {
    /// Returns the kind, with an article.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Reads `problems.source` up to a syntax error. `problems` receives deviations from JSON.
pub(crate) fn parse(problems: &mut Problems) -> Result<Value, Error> {
    let source = problems.source.clone();
    let mut parser = Parser { text: source.text(), at: 0, depth: 0, problems };
    if parser.text.starts_with('\u{feff}') {
        parser.tolerate(0..3, "the file begins with a byte order mark", "not JSON", "save it as UTF-8 without BOM");
        parser.at = 3;
    }
    parser.skip_blank()?;
    if parser.peek().is_none() {
        let example = format!("the least is {LEAST}");
        return Err(parser.error(parser.last(), "the file is empty", "expected `{`").with_help(example));
    }
    let value = parser.value()?;
    parser.skip_blank()?;
    if parser.peek().is_some() {
        let error = parser
            .error(
                parser.at..parser.at + 1,
                "there is text after the end of the workload",
                "expected the end of the file",
            )
            .with_help("one file is one object; remove what follows, or check that no brace is closed too early");
        // rt-app also stops here, and users rely on it.
        parser.problems.warn(error);
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    problems: &'a mut Problems,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, span: Span, message: impl Into<String>, label: impl Into<String>) -> Error {
        self.problems.new_error(span, message, label)
    }

    /// Returns the last character that is not blank.
    fn last(&self) -> Span {
        let text = self.text.trim_end();
        text.char_indices().next_back().map_or(0..0, |(at, _)| at..text.len())
    }

    fn tolerate(&mut self, span: Span, message: &str, label: &str, help: &str) {
        self.problems.tolerate(|problems| problems.new_error(span, message, label).with_help(help));
    }

    /// Returns an error about the character here.
    fn unexpected(&self, expected: &str) -> Error {
        match self.rest().chars().next() {
            // Points at the last character.
            None => self
                .error(self.last(), "the file ends too early", format!("expected {expected} after this"))
                .with_help("was it cut off? every `{`, `[` and `\"` needs its partner"),
            Some(c) => {
                let shown = if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
                let span = self.at..self.at + c.len_utf8();
                let help = match c {
                    '#' => "`#` begins no comment here: comments are /* ... */, or // up to the end of the line",
                    _ => "an object is { \"key\" : value, \"key\" : value }",
                };
                self.error(span, format!("found `{shown}`"), format!("expected {expected}")).with_help(help)
            }
        }
    }

    fn skip_blank(&mut self) -> Result<(), Error> {
        loop {
            let rest = self.rest();
            // json-c's blanks are C's isspace, with vertical tab and form feed.
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).len();
            self.at += blank;
            let rest = self.rest();
            let length = if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(self
                        .error(self.at..self.at + 2, "this comment never ends", "expected a `*/` after it")
                        .with_help("close the comment with `*/`"));
                };
                end + 4
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else {
                return Ok(());
            };
            self.tolerate(
                self.at..self.at + length,
                "there is a comment",
                "JSON has no comments",
                "remove it, or read the file without --strict",
            );
            self.at += length;
        }
    }

    fn value(&mut self) -> Result<Value, Error> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"' | b'\'') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9' | b'+' | b'.') => self.number()?,
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Value { span: start..self.at, kind })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Kind, Error>) -> Result<Kind, Error> {
        if self.depth == MAX_DEPTH {
            return Err(self
                .error(self.at..self.at + 1, format!("more than {MAX_DEPTH} objects inside each other"), "one too deep")
                .with_help("rt-app's grammar needs six levels; is this an rt-app file?"));
        }
        self.depth += 1;
        self.at += 1;
        let kind = read(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn array(&mut self) -> Result<Kind, Error> {
        let mut values = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some(b']') {
                break;
            }
            values.push(self.value()?);
            if !self.comma(b']', "`,` or `]`")? {
                break;
            }
        }
        self.at += 1;
        Ok(Kind::Array(values))
    }

    fn object(&mut self) -> Result<Kind, Error> {
        let mut members = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some(b'}') {
                break;
            }
            if !matches!(self.peek(), Some(b'"' | b'\'')) {
                return Err(self.unexpected("a key in quotes, or `}`"));
            }
            let start = self.at;
            let key = self.string()?;
            let key_span = start..self.at;
            self.skip_blank()?;
            let value = match self.peek() {
                Some(b':') => {
                    self.at += 1;
                    self.skip_blank()?;
                    Some(self.value()?)
                }
                // workgen adds the missing value.
                Some(b',' | b'}') if key.starts_with("suspend") || key.starts_with("yield") => {
                    self.tolerate(
                        key_span.clone(),
                        &format!("`{key}` has no value"),
                        "expected `: \"a name\"` after it",
                        "name the object to suspend on; without a value it is the task itself",
                    );
                    None
                }
                _ => return Err(self.unexpected("`:` and a value")),
            };
            members.push(Member { key, key_span, value });
            if !self.comma(b'}', "`,` or `}`")? {
                break;
            }
        }
        self.at += 1;
        Ok(Kind::Object(members))
    }

    /// Skips a comma. Returns false if the closing bracket follows.
    fn comma(&mut self, close: u8, expected: &str) -> Result<bool, Error> {
        self.skip_blank()?;
        match self.peek() {
            Some(b',') => {
                let comma = self.at;
                self.at += 1;
                self.skip_blank()?;
                if self.peek() != Some(close) {
                    return Ok(true);
                }
                self.tolerate(comma..comma + 1, "there is a comma after the last entry", "one too many", "remove it");
                Ok(false)
            }
            Some(c) if c == close => Ok(false),
            Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9') => {
                Err(self.unexpected(expected).with_help("is a comma missing before it?"))
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn string(&mut self) -> Result<String, Error> {
        let start = self.at;
        let quote = if self.text.as_bytes()[start] == b'\'' { '\'' } else { '"' };
        if quote == '\'' {
            self.tolerate(start..start + 1, "a string in single quotes", "expected `\"`", "use double quotes");
        }
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = self.rest();
            let Some(stop) = rest.find([quote, '\\', '\n']) else { break };
            text += &rest[..stop];
            self.at += stop;
            match rest.as_bytes()[stop] {
                b'\\' => text.to_mut().push(self.escape()?),
                b'\n' => break,
                _ => {
                    self.at += 1;
                    return Ok(text.into_owned());
                }
            }
        }
        Err(self
            .error(start..start + 1, "this string never ends", "opened here")
            .with_help(format!("close it with `{quote}` on the same line")))
    }

    fn escape(&mut self) -> Result<char, Error> {
        let start = self.at;
        let code = self.text.as_bytes().get(start + 1);
        self.at = start + 2;
        let found = match code {
            Some(b'n') => Some('\n'),
            Some(b't') => Some('\t'),
            Some(b'r') => Some('\r'),
            Some(b'b') => Some('\x08'),
            Some(b'f') => Some('\x0c'),
            Some(c @ (b'"' | b'\'' | b'\\' | b'/')) => Some(char::from(*c)),
            Some(b'u') => self.unicode_escape(),
            _ => None,
        };
        found.ok_or_else(|| {
            self.error(
                start..start + 1,
                "an escape that JSON does not know",
                "expected \\n, \\t, \\\", \\\\, \\/ or \\u and four hexadecimal digits",
            )
            .with_help("write `\\\\` for a backslash")
        })
    }

    /// Reads four digits, and the second half of a surrogate pair.
    fn unicode_escape(&mut self) -> Option<char> {
        let high = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        if !self.rest().starts_with("\\u") {
            return None;
        }
        self.at += 2;
        let low = self.four_digits().filter(|low| (0xdc00..0xe000).contains(low))?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let number = digits.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?;
        self.at += 4;
        number
    }

    fn number(&mut self) -> Result<Kind, Error> {
        let start = self.at;
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')))
            .unwrap_or(rest.len());
        self.at += length;
        // Rust's floats also include "+1", "1." and "inf".
        let text = &rest[..length];
        if text.bytes().all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c)) && text.parse::<f64>().is_ok() {
            return Ok(Kind::Number);
        }
        Err(self
            .error(start..self.at, "this is not a number", "expected digits")
            .with_help("numbers carry no unit here: times are microseconds"))
    }

    fn word(&mut self) -> Result<Kind, Error> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        let kind = match word.to_ascii_lowercase().as_str() {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "null" => Kind::Null,
            _ => {
                return Err(self
                    .error(start..self.at, format!("found the bare word `{word}`"), "expected a value")
                    .with_help("put strings in double quotes"));
            }
        };
        if word.bytes().any(|c| c.is_ascii_uppercase()) {
            let help = "write true, false and null in small letters";
            self.tolerate(start..start + length, "a capital letter in a JSON word", "expected small letters", help);
        }
        Ok(kind)
    }
}
