//! Protobuf messages, decoded in place without allocation.

/// A message's fields. They end at the first invalid byte, and [`damaged`](Self::damaged) reports it.
#[derive(Clone, Debug)]
pub(super) struct Message<'a> {
    rest: &'a [u8],
    damaged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// 32 or 64 bits, which no used field has.
    Fixed,
}

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, damaged: false }
    }

    pub(super) fn damaged(&self) -> bool {
        self.damaged
    }

    #[inline]
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let (key, rest) = varint(self.rest)?;
        // Protobuf has no field 0, so zeros are damage.
        if key >> 3 == 0 {
            return None;
        }
        let (value, rest) = match key & 7 {
            0 => {
                let (value, rest) = varint(rest)?;
                (Value::Varint(value), rest)
            }
            1 => (Value::Fixed, rest.get(8..)?),
            2 => {
                let (size, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
                (Value::Bytes(bytes), rest)
            }
            5 => (Value::Fixed, rest.get(4..)?),
            _ => return None,
        };
        self.rest = rest;
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let field = self.field();
        self.damaged = field.is_none();
        field
    }
}

impl<'a> Value<'a> {
    #[inline]
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    #[inline]
    pub(super) fn number(self) -> Option<u64> {
        if let Value::Varint(number) = self { Some(number) } else { None }
    }
}

/// Parses a number; returns it and the rest.
#[inline]
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// A message's numbers and texts, by field numbers up to 11.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few<'a>([Option<Value<'a>>; 12]);

impl<'a> Few<'a> {
    /// Reads a message. As in protobuf, the last of repeated fields counts.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = [None; 12];
        let mut message = Message::new(bytes);
        for (tag, value) in &mut message {
            if let Some(field) = fields.get_mut(tag as usize) {
                *field = Some(value);
            }
        }
        (!message.damaged()).then_some(Self(fields))
    }

    /// Returns text; empty if missing.
    #[inline]
    pub(super) fn text(&self, tag: usize) -> &'a [u8] {
        self.0[tag].and_then(Value::bytes).unwrap_or(b"")
    }

    #[inline]
    pub(super) fn number(&self, tag: usize) -> Option<u64> {
        self.0[tag].and_then(Value::number)
    }

    /// Returns a signed number of 32 bits; 0 if missing.
    #[inline]
    pub(super) fn i32(&self, tag: usize) -> i32 {
        self.number(tag).unwrap_or(0) as i32
    }

    #[inline]
    pub(super) fn u32(&self, tag: usize) -> u32 {
        self.number(tag).unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind_and_what_is_none() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x19, 0, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0];
        let fields: Vec<_> = Message::new(&bytes).collect();
        assert_eq!(fields, [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed), (4, Value::Fixed)]);
        for end in [1, 2, 4, 6, 10, 18] {
            let mut message = Message::new(&bytes[..end]);
            assert!(message.by_ref().count() < 4);
            assert!(message.damaged(), "{end}");
        }
        for zeros in [&[0, 0][..], &[0; 9], &[2, 0]] {
            let mut message = Message::new(zeros);
            assert!(message.by_ref().count() == 0 && message.damaged(), "no field has number 0: {zeros:?}");
        }
        assert!(varint(&[0xff; 11]).is_none());
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Some((u64::MAX, &[][..])));
    }
}
