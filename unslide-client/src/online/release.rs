//! `unslide release show`: one version of an app, before and after it is released to everyone.

use super::groups::format_state;
use crate::prelude::*;
use unslide_cli::ClientError;
use unslide_cli::listing::{app_path, filter_given, item_text, with_query};
use unslide_model::figures::format_fraction;

/// Groups and images that are listed of each kind.
const LISTED_ENTRIES: usize = 20;
/// The most versions of an app that are searched.
const VERSIONS_LIMIT: usize = 500;

/// The subcommands of `unslide release`.
#[derive(Subcommand)]
pub enum Command {
    /// Show a version: whether it is worse than the one before, its new bugs, those that came back or grow, and the dSYMs that
    /// are missing
    Show(ShowReleaseArguments),
}

/// Arguments of `unslide release show`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:read.

Examples:
  unslide release show 2.5.0
  unslide release show 2.5.0 --app com.example.shop --json")]
pub struct ShowReleaseArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The version of the app
    version: String,
    /// Bundle identifier of the app; not needed if there is only one app with this version
    #[arg(long)]
    app: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A version of an app, by several operations of the API.
struct Release {
    app: String,
    version: String,
    reports: Value,
    /// The figures, compared with those of the version before; null without sessions and metrics.
    figures: Value,
    /// Ends of the app for lack of memory, in all versions.
    memory_ends: Value,
    new: Vec<Value>,
    regressed: Vec<Value>,
    growing: Vec<Value>,
    missing: Vec<Value>,
}

/// Runs a command on versions.
pub fn run(command: &Command) -> Outcome {
    let Command::Show(arguments) = command;
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let release = Release::load(&client, arguments.app.as_deref(), &arguments.version).await?;
        if arguments.json {
            Console::get().print_json(&release.to_json())?;
        } else {
            release.print();
        }
        Ok(Exit::Ready)
    })
}

impl Release {
    async fn load(client: &Client, app: Option<&str>, version: &str) -> Result<Release, BoxError> {
        let (app, reports) = find_app(client, app, version).await?;
        let groups = async |more: &[(&'static str, &str)]| {
            let pairs = [("app", app.as_str())].into_iter().chain(more.iter().copied());
            list(client, "/v1/groups", pairs).await
        };
        let health = app_path(&app, &["health", "versions"])?;
        let figures = client.get(&with_query(&health, &[("versions", version.to_owned())])?).await;
        let figures: Value = match figures {
            Err(ClientError::Refused { status: 404, .. }) => Value::Null,
            found => found?,
        };
        // Of the new bugs of a version some are older, and came back in it.
        let found = groups(&[("new_in", version), ("sort", "reports")]).await?;
        let (regressed, new) = found.into_iter().partition(|group| group["regressed_in"] == version);
        Ok(Release {
            reports,
            figures: figures["versions"][0].clone(),
            memory_ends: figures["memory_ends"].clone(),
            new,
            regressed,
            growing: groups(&[("version", version), ("sort", "growing")]).await?,
            missing: list(client, "/v1/missing-symbols", [("app", app.as_str()), ("version", version)])
                .await?,
            version: version.to_owned(),
            app,
        })
    }

    fn to_json(&self) -> Value {
        json!({"app": self.app, "version": self.version, "reports": self.reports, "figures": self.figures, "memory_ends": self.memory_ends,
               "new": self.new, "regressed": self.regressed, "growing": self.growing, "missing_symbols": self.missing})
    }

    fn print(&self) {
        say!("{} {}: {} reports", self.app, self.version, self.reports);
        say!("{}", describe_verdict(&self.figures));
        if let Some(checked) = describe_memory_ends(&self.memory_ends) {
            say!("{checked}");
        }
        print_groups("new bugs", &self.new);
        print_groups("bugs that came back", &self.regressed);
        print_groups("bugs that grow", &self.growing);
        say!("");
        if self.missing.is_empty() {
            say!("no dSYM is missing");
            return;
        }
        say!("missing dSYMs");
        let mut table = Table::new(&["UUID", "NAME", "ARCH", "REPORTS"]);
        for image in &self.missing {
            let id = item_text(image, "debug_id");
            table.add_row([
                id,
                item_text(image, "name"),
                item_text(image, "arch"),
                image["reports"].to_string(),
            ]);
        }
        table.print();
    }
}

fn print_groups(title: &str, groups: &[Value]) {
    say!("");
    if groups.is_empty() {
        say!("no {title}");
        return;
    }
    say!("{title}");
    let mut table = Table::new(&["SHORT ID", "STATE", "REPORTS", "DEVICES", "TITLE"]);
    for group in groups {
        table.add_row([
            item_text(group, "short_id"),
            format_state(group),
            group["reports"].to_string(),
            group["affected_devices"].to_string(),
            item_text(group, "title"),
        ]);
    }
    table.print();
}

/// Says in one sentence whether a version is worse than the one that it is compared with.
fn describe_verdict(figures: &Value) -> String {
    let Some(before) = figures["version_before"].as_str() else {
        return "no sessions and no metrics of this version and one before it: nothing to compare".to_owned();
    };
    let changed = |verdict: &str| -> Vec<String> {
        let signals = figures["signals"].as_array().into_iter().flatten();
        signals.filter(|signal| signal["change"] == verdict).map(describe_figure).collect()
    };
    let (worse, better) = (changed("worse"), changed("better"));
    let better = if better.is_empty() { String::new() } else { format!("; better: {}", better.join(", ")) };
    match worse.as_slice() {
        [] => format!("not worse than {before} by more than noise{better}"),
        worse => format!("worse than {before}: {}{better}", worse.join(", ")),
    }
}

/// Describes how often the inferred ends of the app for lack of memory were right, if MetricKit reported some.
fn describe_memory_ends(found: &Value) -> Option<String> {
    let count = |name: &str| found[name].as_i64().unwrap_or_default();
    let (exceptions, joined) = (count("exceptions"), count("joined"));
    let (right, inferred) = (count("inferred_right"), count("inferred"));
    (exceptions > 0).then(|| {
        format!(
            "memory exceptions of the app: {joined} of {exceptions} belong to a known session; {right} of {inferred} inferred ends were right"
        )
    })
}

fn describe_figure(signal: &Value) -> String {
    let unit = item_text(signal, "unit");
    let show = |name: &str| {
        let value = signal[name].as_f64().unwrap_or_default();
        if unit == "1" { format_fraction(value) } else { format!("{value:.1} {unit}") }
    };
    let statistic = item_text(signal, "statistic");
    let statistic = if statistic == "share" { String::new() } else { format!(" {statistic}") };
    let name = item_text(signal, "signal").replace('_', " ");
    format!("{name}{statistic} {} from {}", show("value"), show("before"))
}

/// Returns the app with a version, and the number of its reports.
async fn find_app(client: &Client, app: Option<&str>, version: &str) -> Result<(String, Value), BoxError> {
    let apps = match app {
        Some(app) => vec![app.to_owned()],
        None => list(client, "/v1/apps", []).await?.iter().map(|app| item_text(app, "app")).collect(),
    };
    let mut found = Vec::new();
    for app in apps {
        let path = with_query(&app_path(&app, &["versions"])?, &[("limit", VERSIONS_LIMIT.to_string())])?;
        let page: Value = match client.get(&path).await {
            Err(ClientError::Refused { status: 404, .. }) => continue,
            page => page?,
        };
        let versions = page["items"].as_array().into_iter().flatten();
        let known = versions.into_iter().find(|item| item["version"] == version);
        found.extend(known.map(|item| (app, item["reports"].clone())));
    }
    match found.len() {
        0 => Err(CommandError::missing(format!("there is no report of the version {version}")).into()),
        1 => Ok(found.remove(0)),
        _ => {
            let apps: Vec<String> = found.into_iter().map(|(app, _)| app).collect();
            let text =
                format!("several apps have the version {version}: add --app with one of {}", apps.join(", "));
            Err(CommandError::usage(text).into())
        }
    }
}

/// Reads the first entries of a list.
async fn list<'v>(
    client: &Client,
    path: &str,
    pairs: impl IntoIterator<Item = (&'static str, &'v str)>,
) -> Result<Vec<Value>, BoxError> {
    let mut query = filter_given([("limit", Some(LISTED_ENTRIES.to_string()))]);
    query.extend(pairs.into_iter().map(|(name, value)| (name, value.to_owned())));
    let mut page: Value = client.get(&with_query(path, &query)?).await?;
    Ok(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_worse_by_what_is_more_than_noise() {
        let figure = |name: &str, change: &str| json!({"signal": name, "statistic": "share", "unit": "1", "value": 0.8952, "before": 0.9393, "change": change});
        let launch = json!({"signal": "launch_time", "statistic": "p50", "unit": "ms", "value": 410.0, "before": 500.0,
            "change": "better"});
        let signals =
            json!([figure("crash_free_users", "worse"), figure("request_failures", "within_noise"), launch]);
        let bad = json!({"version": "2.5.0", "version_before": "2.4.0", "signals": signals});
        assert_eq!(
            describe_verdict(&bad),
            "worse than 2.4.0: crash free users 89.52 % from 93.93 %; better: launch time p50 410.0 ms from 500.0 ms"
        );
        let same = json!({"version_before": "2.4.0", "signals": [figure("a", "within_noise")]});
        assert_eq!(describe_verdict(&same), "not worse than 2.4.0 by more than noise");
        assert!(describe_verdict(&Value::Null).starts_with("no sessions"));
        let nearly =
            json!({"signal": "a", "statistic": "share", "unit": "1", "value": 0.999_996, "before": 1.0});
        assert_eq!(describe_figure(&nearly), "a 99.99 % from 100.00 %");
    }
}
