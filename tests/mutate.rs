//! Changes files at random, for tests of readers. Each test that needs it has this file as a module.

/// Inserts, removes or changes a byte, cuts the end off, or doubles a stretch.
pub(crate) fn mutate(bytes: &mut Vec<u8>, at: usize, kind: u8, byte: u8) {
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    match kind % 5 {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        2 => _ = bytes.remove(at),
        3 => bytes.truncate(at),
        _ => {
            let end = (at + usize::from(byte)).min(bytes.len());
            let stretch = bytes[at..end].to_vec();
            bytes.splice(at..at, stretch);
        }
    }
}
