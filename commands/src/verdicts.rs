//! `unslide release check`: a gate for phased releases. `unslide release regressions`: when a resolved group comes back.

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::{Value, json};
use unslide_cli::listing::{app_path, filter_given, item_text, with_query};
use unslide_cli::{
    ApiServer, Client, ClientFeature, Console, Exit, FeatureCommand, Outcome, block_on, note, say,
};

const RULE_PATH: &str = "/v1/regression-rule";

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[
        FeatureCommand { follows: "release show", command: Arguments::command, run, key_kind: None },
        FeatureCommand {
            follows: "release check",
            command: RegressionArguments::command,
            run: run_regressions,
            key_kind: None,
        },
    ],
    ..ClientFeature::new("verdicts")
};

/// Check whether a version may go on to more people: exits with 0 if it is good, 1 if it is bad, 4 if it is too early to say
#[derive(Parser)]
#[command(
    name = "check",
    after_help = "\
The key needs the scope reports:read. The check compares the version with an older one on the days on which both have
sessions. It may run every day: the chance of a wrong verdict over all days together is at most 1 %.

Exits with 0 if the version is good, 1 if it is bad, and 4 if it is too early to say.

Examples:
  unslide release check --app com.example.shop --version 2.5.0
  unslide release check --app com.example.shop --version 2.5.0 --against 2.4.1 --json"
)]
struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app
    #[arg(long)]
    app: String,
    /// The version to check
    #[arg(long = "app-version", visible_alias = "version", value_name = "VERSION")]
    app_version: String,
    /// The version to compare with; the older one with the most sessions on the same days if absent
    #[arg(long, value_name = "VERSION")]
    against: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Show or set when a resolved group comes back: with any report, or when its verdict says that it is not fixed
#[derive(Parser)]
#[command(
    name = "regressions",
    after_help = "\
The key needs the scope tenant:admin.

  any_report  with the first report that contradicts that the group is resolved
  not_fixed   when the verdict on its page says that it is not fixed. For apps without sessions, with any report

Examples:
  unslide release regressions
  unslide release regressions --rule not_fixed"
)]
struct RegressionArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The rule that holds from now on
    #[arg(long, value_parser = ["any_report", "not_fixed"])]
    rule: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn run_regressions(matches: &ArgMatches) -> Outcome {
    let RegressionArguments { server, rule, json } = RegressionArguments::from_arg_matches(matches)?;
    block_on(async {
        let client = Client::new(&server)?;
        let settings: Value = match rule {
            Some(rule) => client.put(RULE_PATH, &json!({"rule": rule})).await?,
            None => client.get(RULE_PATH).await?,
        };
        if json {
            Console::get().print_json(&settings)?;
        } else {
            say!("{}", item_text(&settings, "rule"));
        }
        Ok(Exit::Ready)
    })
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { server, app, app_version, against, json } = Arguments::from_arg_matches(matches)?;
    let path = app_path(&app, &["versions", &app_version, "check"])?;
    let path = with_query(&path, &filter_given([("against", against)]))?;
    block_on(async {
        let client = Client::new(&server)?;
        let check: Value = client.get(&path).await?;
        if json {
            Console::get().print_json(&check)?;
        } else {
            print_check(&check);
        }
        Ok(choose_exit(&item_text(&check, "verdict")))
    })
}

fn print_check(check: &Value) {
    for reason in check["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        say!("{reason}");
    }
    if check["verdict"] == "too_early" {
        note!("check again tomorrow");
    }
}

/// Returns the exit code of a verdict. One that a newer server has is none yet.
fn choose_exit(verdict: &str) -> Exit {
    match verdict {
        "good" => Exit::Ready,
        "bad" => Exit::Failed,
        _ => Exit::Unreachable,
    }
}
