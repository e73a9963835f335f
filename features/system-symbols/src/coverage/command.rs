//! `unslide system-symbols coverage`: the builds that lack names, and what to import.

use super::{BuildCoverage, CoverageState, SystemSymbolCoverage};
use clap::Args;
use unslide_client::listing::{filter_given, with_query};
use unslide_client::{ApiServer, Client, Console, Exit, Outcome, Table, block_on, inform, say};

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
        table.add_row([release_name(build), reports, images, named, exports]);
    }
    table.print();
    let sample = if coverage.is_sample { ", the most recent ones of the period" } else { "" };
    inform!("{} reports{sample}", coverage.reports);
    if let Some(line) = coverage.items.iter().find_map(advise_import) {
        say!("{line}");
    }
}

fn release_name(build: &BuildCoverage) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let release = format!("{} {} ({})", text(&build.os), text(&build.version), text(&build.build));
    release.replace(" ()", "").trim().to_owned()
}

/// Says how to get the names of a build; `None` if nothing is missing.
fn advise_import(build: &BuildCoverage) -> Option<String> {
    let release = release_name(build);
    let number = build.build.as_deref().unwrap_or("BUILD");
    let first = build.lacking.first()?;
    Some(match build.state {
        CoverageState::Whole => return None,
        CoverageState::None => format!(
            "{release} has no names. On a Mac that had such a device connected: unslide system-symbols import \
             ~/Library/Developer/Xcode/\"iOS DeviceSupport\". From a firmware: ipsw extract --dyld FILE.ipsw, then unslide \
             system-symbols import --build {number} FOLDER"
        ),
        CoverageState::ExportsOnly => format!(
            "{release} was imported without local symbols. Import the cache again with its file .symbols beside it"
        ),
        CoverageState::Partly => format!(
            "{release} lacks {}, among others, in {} reports: import the cache of another model or architecture of this \
             build",
            first.debug_id, first.reports
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::UnnamedImage;
    use super::*;
    use unslide_model::DebugId;

    #[test]
    fn each_state_has_its_own_advice() {
        let build = |state| BuildCoverage {
            os: Some("iOS".to_owned()),
            version: Some("26.2".to_owned()),
            build: Some("23B87".to_owned()),
            state,
            reports: 12,
            images: 3,
            named_images: 0,
            exports_only_images: 0,
            lacking: vec![UnnamedImage { debug_id: DebugId([7; 16]), reports: 5 }],
        };
        let advice = |state| advise_import(&build(state)).unwrap_or_default();
        assert!(advice(CoverageState::None).starts_with("iOS 26.2 (23B87) has no names."));
        assert!(advice(CoverageState::None).contains("--build 23B87"));
        assert!(advice(CoverageState::ExportsOnly).contains(".symbols"));
        assert!(advice(CoverageState::Partly).contains("07070707-0707-0707-0707-070707070707"));
        assert_eq!(advice(CoverageState::Whole), "");
    }
}
