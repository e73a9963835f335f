//! `unslide public-key show`: a public key with the versions of apps that use it.

use super::key_path;
use clap::Args;
use serde_json::Value;
use unslide_cli::{ApiServer, Client, Console, Exit, Outcome, Table, block_on, say};

/// The columns of the versions.
const VERSION_COLUMNS: [&str; 5] = ["VERSION", "APP", "REPORTS", "RUNS", "LAST DAY"];

/// The arguments of `unslide public-key show`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Id of the public key, 8 hexadecimal digits, as the console and dead letters show it
    id: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let path = key_path(&arguments.id)?;
    block_on(async {
        let shown: Value = Client::new(&arguments.server)?.get(&path).await?;
        if arguments.json {
            Console::get().print_json(&shown)?;
        } else {
            print_key(&shown);
        }
        Ok(Exit::Ready)
    })
}

fn print_key(shown: &Value) {
    let text = |member: &str, absent: &str| shown[member].as_str().unwrap_or(absent).to_owned();
    let apps: Vec<&str> = shown["apps"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    say!("{}, {}, for {}", text("name", ""), text("state", ""), apps.join(", "));
    say!("last used: {}", text("last_used_at", "never"));
    say!("{}", describe_loss(&shown["today"]));
    let mut table = Table::new(&VERSION_COLUMNS);
    for version in shown["versions"].as_array().into_iter().flatten() {
        let cell = |member: &str| match &version[member] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.add_row(["version", "app", "reports", "runs", "last_day"].map(cell));
    }
    table.print();
}

/// Returns a sentence about the reports of today that closing the key would lose.
fn describe_loss(today: &Value) -> String {
    let count = |member: &str| today[member].as_u64().unwrap_or_default();
    let (lost, all) = (count("reports"), count("all_reports").max(count("reports")));
    let Some(permille) = (lost * 1_000).checked_div(all) else {
        return "there are no reports today".to_owned();
    };
    format!("closing it loses {lost} of today's {all} reports ({}.{} %)", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_loss_is_a_share_of_all_reports_of_today() {
        let loss = |reports: u64, all: u64| describe_loss(&json!({"reports": reports, "all_reports": all}));
        assert_eq!(loss(0, 0), "there are no reports today");
        assert_eq!(loss(12, 1_000), "closing it loses 12 of today's 1000 reports (1.2 %)");
        // Reports that are not stored yet.
        assert_eq!(loss(3, 1), "closing it loses 3 of today's 3 reports (100.0 %)");
    }
}
