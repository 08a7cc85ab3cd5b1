//! Numbers and words in bytes. `str::parse` needs UTF-8, and names of tasks are any bytes.

use memchr::{memchr, memmem};

/// Parses leading digits; returns the number and their count. None without any, or beyond `u64`.
#[inline]
pub(super) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value: u64 = 0;
    let mut count = 0;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = if count < 19 {
            value * 10 + u64::from(digit)
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))?
        };
        count += 1;
    }
    (count > 0).then_some((value, count))
}

/// Parses a leading whole number, decimal or `0x…`.
#[inline]
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    if let [b'0', b'x' | b'X', rest @ ..] = bytes {
        let mut value: u64 = 0;
        let mut any = false;
        for &byte in rest {
            let Some(digit) = (byte as char).to_digit(16) else { break };
            value = value.checked_mul(16)?.checked_add(u64::from(digit))?;
            any = true;
        }
        return any.then_some(value);
    }
    digits(bytes).map(|(value, _)| value)
}

/// Parses a leading whole number with an optional sign.
#[inline]
pub(super) fn signed(bytes: &[u8]) -> Option<i32> {
    match bytes {
        [b'-', rest @ ..] => i32::try_from(-(i64::try_from(digits(rest)?.0).ok()?)).ok(),
        _ => i32::try_from(unsigned(bytes)?).ok(),
    }
}

#[inline]
pub(super) fn trim_start(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &bytes[spaces..]
}

#[inline]
pub(super) fn trim_end(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &bytes[..bytes.len() - spaces]
}

/// Splits after the first word.
#[inline]
pub(super) fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b' ', bytes).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// Fields in the form `name=value`, each searched behind the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// Skips `key`, which must be next and ends with `=`.
    #[inline]
    fn next(&mut self, key: &[u8]) -> Option<()> {
        self.0 = trim_start(self.0).strip_prefix(key)?;
        Some(())
    }

    /// Returns everything up to ` key`, since a name may have spaces.
    #[inline]
    fn until(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        let mut from = 0;
        loop {
            let space = from + memchr(b' ', &self.0[from..])?;
            if self.0[space + 1..].starts_with(key) {
                let value = &self.0[..space];
                self.0 = &self.0[space + 1..];
                return Some(value);
            }
            from = space + 1;
        }
    }

    /// Returns the value of `key`, the next field, up to `following`.
    #[inline]
    pub(super) fn text(&mut self, key: &[u8], following: &[u8]) -> Option<&'a [u8]> {
        self.next(key)?;
        self.until(following).map(trim_end)
    }

    #[inline]
    pub(super) fn word(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        self.next(key)?;
        let (value, rest) = word(self.0);
        self.0 = rest;
        Some(value)
    }

    #[inline]
    pub(super) fn signed(&mut self, key: &[u8]) -> Option<i32> {
        self.word(key).and_then(signed)
    }

    #[inline]
    pub(super) fn unsigned(&mut self, key: &[u8]) -> Option<u64> {
        self.word(key).and_then(unsigned)
    }

    /// -1 is `u32::MAX`, as in `state=4294967295`.
    #[inline]
    pub(super) fn u32(&mut self, key: &[u8]) -> Option<u32> {
        let value = self.word(key)?;
        if value == b"-1" { Some(u32::MAX) } else { unsigned(value).and_then(|value| u32::try_from(value).ok()) }
    }

    /// Returns the value of a later field.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        let mut from = 0;
        loop {
            let at = from + memmem::find(&self.0[from..], key)?;
            if at == 0 || self.0[at - 1] == b' ' {
                self.0 = &self.0[at..];
                return self.word(key);
            }
            from = at + 1;
        }
    }

    /// Skips a word, such as `==>`, if it is next.
    #[inline]
    pub(super) fn skip(&mut self, what: &[u8]) {
        let rest = trim_start(self.0);
        self.0 = rest.strip_prefix(what).unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_end_at_the_first_other_byte_and_numbers_fit_or_are_none() {
        assert_eq!(digits(b"0123x"), Some((123, 4)));
        assert_eq!(digits(b"x"), None);
        assert_eq!(digits(b"18446744073709551615"), Some((u64::MAX, 20)));
        assert_eq!(digits(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"0x1fZ"), Some(31));
        assert_eq!(unsigned(b"0x"), None);
        assert_eq!(signed(b"-12 "), Some(-12));
        assert_eq!(signed(b"-99999999999"), None);
        assert_eq!(signed(b"--1"), None);
    }

    #[test]
    fn values_may_have_spaces_and_equals_signs() {
        let mut fields = Fields(b"comm=a b=c pid d pid=7 prio=120 state=-1");
        assert_eq!(fields.text(b"comm=", b"pid="), Some(&b"a b=c pid d"[..]));
        assert_eq!(fields.signed(b"pid="), Some(7));
        assert_eq!(fields.find(b"state="), Some(&b"-1"[..]));
        assert_eq!(fields.signed(b"prio="), None);
    }
}
