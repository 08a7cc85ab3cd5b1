//! Reads rt-app files and scenarios and prints what is wrong with them: `cargo run --example lint -- FILE...`

use std::path::Path;
use std::process::ExitCode;

use miette::{GraphicalReportHandler, GraphicalTheme};
use vruntime_workload::{Error, check, rtapp, scenario};

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        match read(&path) {
            Ok(found) => found.iter().for_each(print),
            Err(error) => {
                print(&error);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn read(path: &str) -> Result<Vec<Error>, Error> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("."));
    let bytes = std::fs::read(path).unwrap_or_default();
    let options = rtapp::Options::default();
    let (workload, source_map, mut found) = if Path::new(path).extension().is_some_and(|extension| extension == "toml")
    {
        let loader = &mut |file: &Path| std::fs::read(folder.join(file));
        let read = scenario::parse(path, &bytes, &options, loader)?;
        (read.workload, read.source_map, read.warnings)
    } else {
        let read = rtapp::parse(path, &bytes, &options)?;
        (read.workload, read.source_map, read.warnings)
    };
    found.extend(check::check(&workload, &source_map));
    Ok(found)
}

fn print(error: &Error) {
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    if handler.render_report(&mut text, error).is_ok() {
        print!("{text}");
    }
}
