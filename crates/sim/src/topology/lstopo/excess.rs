//! Bounds of XML files, beyond which the XML library overflows the stack, or takes too long.

/// The deepest machines have some twenty levels of elements.
pub(super) const MAX_DEPTH: usize = 256;
/// The most attributes of an element. lstopo writes at most some twenty.
const MAX_ATTRIBUTES: usize = 1024;

/// Returns the offset of the first element that the XML library should not read, and the problem. Inside more than
/// [`MAX_DEPTH`] others, the library would overflow the stack. With more than [`MAX_ATTRIBUTES`], its time grows with
/// their square. Levels of entities in a DOCTYPE count as if used. For invalid XML, which the library reports, the
/// result is arbitrary.
pub(super) fn excess(text: &str) -> Option<(usize, String)> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    // Returns the end of the text from `from` to `end`.
    let after = |from: usize, end: &str| text[from..].find(end).map_or(bytes.len(), |found| from + found + end.len());
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        let rest = &text[start..];
        if rest.starts_with("<!--") {
            at = after(start + 4, "-->");
        } else if rest.starts_with("<![CDATA[") {
            at = after(start + 9, "]]>");
        } else if rest.starts_with("<?") {
            at = after(start + 2, "?>");
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            at = after(start + 2, ">");
        } else if rest.starts_with("<!") {
            at = start + 2;
        } else {
            let (mut quote, mut attributes) = (None, 0);
            let ends = |&(_, &byte): &(usize, &u8)| {
                match (quote, byte) {
                    (None, b'"' | b'\'') => quote = Some(byte),
                    (Some(open), _) if open == byte => quote = None,
                    (None, b'=') => attributes += 1,
                    _ => {}
                }
                quote.is_none() && byte == b'>'
            };
            let end = bytes.iter().enumerate().skip(start + 1).find(ends).map_or(bytes.len(), |(end, _)| end);
            at = (end + 1).min(bytes.len());
            if attributes > MAX_ATTRIBUTES {
                return Some((start, format!("the element has more than {MAX_ATTRIBUTES} attributes")));
            }
            if bytes[end - 1] != b'/' {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some((start, format!("elements are nested more than {MAX_DEPTH} levels deep")));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_a_bounded_number_of_attributes() {
        let with = |count: usize| {
            let attributes = (0..count).map(|index| format!(" a{index}='='")).collect::<Vec<_>>().concat();
            format!("<topology><object{attributes}/></topology>")
        };
        assert_eq!(excess(&with(MAX_ATTRIBUTES)), None);
        let (offset, message) = excess(&with(MAX_ATTRIBUTES + 1)).unwrap();
        assert_eq!((offset, message.as_str()), (10, "the element has more than 1024 attributes"));
    }
}
