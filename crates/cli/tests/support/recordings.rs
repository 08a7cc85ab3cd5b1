//! Whole recordings, compressed in the readers' tests.

use std::fs::File;
use std::path::Path;

/// Writes the recording `nice` or `mix` into `folder`. Returns its path.
pub(crate) fn whole(name: &str, folder: &Path) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data");
    let mut kept = File::open(data.join(format!("{name}.perf-script.txt.zst"))).expect("it is there");
    let mut reader = ruzstd::decoding::StreamingDecoder::new(&mut kept).expect("it is a frame of zstd");
    let path = folder.join(format!("{name}.perf-script.txt"));
    std::io::copy(&mut reader, &mut File::create(&path).expect("there is room")).expect("it is whole");
    path.to_str().expect("it is UTF-8").to_owned()
}
