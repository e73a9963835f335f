//! `unslide system-symbols coverage`: the builds that lack names, and what to import.

use clap::Args;
use unslide_cli::listing::{filter_given, with_query};
use unslide_cli::{
    AddedLine, ApiServer, Client, Console, CoreCommand, Exit, Outcome, Table, block_on, inform, say,
};
use unslide_system_symbols_formats::{BuildCoverage, SystemSymbolCoverage, advise_import, format_release};

/// Arguments of `unslide system-symbols coverage`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read.

Examples:
  unslide system-symbols coverage --days 7
  unslide system-symbols coverage --app com.example.shop --json")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Days up to now, 1 to 90
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=90))]
    days: u32,
    /// Bundle identifier; all apps if absent
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// Print the API's answer as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the builds of recent reports, and what to import.
pub fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let query = filter_given([("days", Some(arguments.days.to_string())), ("app", arguments.app.clone())]);
    let path = with_query("/v1/system-symbols/coverage", &query)?;
    if arguments.json {
        let answer: serde_json::Value = block_on(async { Ok(client.get(&path).await?) })?;
        Console::get().print_json(&answer)?;
        return Ok(Exit::Ready);
    }
    let coverage: SystemSymbolCoverage = block_on(async { Ok(client.get(&path).await?) })?;
    show_result(&coverage);
    Ok(Exit::Ready)
}

fn show_result(coverage: &SystemSymbolCoverage) {
    let mut table = Table::new(&["SYSTEM", "REPORTS", "IMAGES", "NAMED", "EXPORTS ONLY"]);
    for build in &coverage.items {
        let numbers = [build.reports, build.images, build.named_images, build.exports_only_images];
        let [reports, images, named, exports] = numbers.map(|number| number.to_string());
        table.add_row([format_release(build), reports, images, named, exports]);
    }
    table.print();
    let sample = if coverage.is_sample { ", the most recent ones of the period" } else { "" };
    inform!("reports read: {}{sample}", coverage.reports);
    if let Some(advice) = coverage.items.iter().find_map(advise_import) {
        say!("{}", advice.reason);
        say!("{}", advice.command);
    }
}

/// Says in one line of `unslide doctor` whether the builds of recent reports have names, if a report has a frame in an
/// image of the system.
pub fn add_line<'c>(client: &'c Client, command: CoreCommand<'c>) -> AddedLine<'c> {
    Box::pin(async move {
        let CoreCommand::Doctor = command else { return Ok(None) };
        let coverage: SystemSymbolCoverage = client.get("/v1/system-symbols/coverage").await?;
        Ok(describe_coverage(&coverage.items))
    })
}

fn describe_coverage(builds: &[BuildCoverage]) -> Option<String> {
    let counted = builds.iter().filter(|build| build.images > 0).count();
    let lacking = builds.iter().filter(|build| build.images > build.named_images);
    let number = lacking.clone().count();
    Some(match lacking.clone().next() {
        Some(worst) => format!(
            "warning: {number} of {counted} builds of operating systems lack names of their functions, most of all {}: \
             `unslide system-symbols coverage` says what to import",
            format_release(worst)
        ),
        None if counted > 0 => "ok: the system frames of recent reports have symbols".to_owned(),
        None => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_system_symbols_formats::CoverageState;

    #[test]
    fn the_line_of_the_doctor_names_the_build_that_lacks_most() {
        let build = |number: &str, images, named_images| BuildCoverage {
            os: Some("iOS".to_owned()),
            version: None,
            build: Some(number.to_owned()),
            state: CoverageState::None,
            reports: 1,
            images,
            named_images,
            exports_only_images: 0,
            lacking: Vec::new(),
        };
        let line =
            describe_coverage(&[build("23B87", 3, 0), build("23A1", 2, 1), build("22A1", 2, 2)]).unwrap();
        assert!(
            line.starts_with("warning: 2 of 3 builds") && line.contains("most of all iOS (23B87):"),
            "{line}"
        );
        assert!(describe_coverage(&[build("22A1", 2, 2)]).unwrap().starts_with("ok:"));
        assert_eq!(describe_coverage(&[build("22A1", 0, 0)]), None);
    }
}
