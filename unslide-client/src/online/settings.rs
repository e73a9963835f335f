//! `unslide settings`: the settings of a tenant and of its apps.

use super::search::{self, PersonSearchArguments};
use crate::prelude::*;
use unslide_cli::listing::{item_text, with_query};
use unslide_model::AppSignal;

/// Apps that are asked for with one request.
const PAGE_LIMIT: &str = "500";
/// The settings of apps in the API.
const APP_SETTINGS: &str = "/v1/app-settings";
/// The commands on the settings of apps.
#[derive(Subcommand)]
#[command(after_help = "The key needs the scope tenant:admin.")]
pub enum Command {
    /// Show the settings of all apps, or of one
    Show(ShowSettingsArguments),
    /// Change settings of an app; those that are not named stay
    Set(SetArguments),
    /// Show whether reports are found by ids of devices, installations and users, or change it
    PersonSearch(PersonSearchArguments),
}

/// Arguments of the command `unslide settings show`.
#[derive(Args)]
pub struct ShowSettingsArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app
    #[arg(long)]
    app: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of the command `unslide settings set`.
#[derive(Args)]
#[command(after_help = "\
Crashes are always kept. The rules of grouping are set with `unslide groups rules`.

Examples:
  unslide settings set --app com.example.shop --source-url 'https://git.example.com/shop/blob/v{version}/{path}#L{line}'
  unslide settings set --app com.example.shop --drop hangs --keep sessions
  unslide settings set --app com.example.shop --source-url ''")]
pub struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app
    #[arg(long)]
    app: String,
    /// URL of a source file in the console: a template with {path}, and optionally {line}, {version} and {build}; empty: no links
    #[arg(long, value_name = "URL")]
    source_url: Option<String>,
    /// The folder that held the repository during the build; empty: none
    #[arg(long, value_name = "FOLDER")]
    source_root: Option<String>,
    /// Keep events of this signal, such as hangs or sessions; may be given several times
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    keep: Vec<AppSignal>,
    /// Drop events of this signal when they arrive; may be given several times
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    drop: Vec<AppSignal>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Parses the name of a signal.
fn parse_signal(text: &str) -> Result<AppSignal, String> {
    let known = AppSignal::ALL.into_iter().find(|known| known.as_str() == text);
    known.ok_or_else(|| format!("it is none of {}", AppSignal::ALL.map(AppSignal::as_str).join(", ")))
}

/// Runs a command on settings.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::Show(arguments) => show_settings(&arguments).await,
            Command::Set(arguments) => change_settings(&arguments).await,
            Command::PersonSearch(arguments) => search::switch_person_search(&arguments).await,
        }
    })
}

async fn show_settings(arguments: &ShowSettingsArguments) -> Outcome {
    let mut apps = read_apps(&Client::new(&arguments.server)?).await?;
    if let Some(app) = &arguments.app {
        apps.retain(|settings| item_text(settings, "app") == *app);
        if apps.is_empty() {
            apps.push(default_settings(app));
        }
    }
    print_settings(&apps, arguments.json)
}

async fn change_settings(arguments: &SetArguments) -> Outcome {
    let SetArguments { app, source_url, source_root, keep, drop, .. } = arguments;
    if source_url.is_none() && source_root.is_none() && keep.is_empty() && drop.is_empty() {
        return Err(
            CommandError::usage("say what to set: --source-url, --source-root, --keep or --drop").into()
        );
    }
    let client = Client::new(&arguments.server)?;
    let found = read_apps(&client).await?.into_iter().find(|settings| item_text(settings, "app") == *app);
    let mut settings = found.unwrap_or_else(|| default_settings(app));
    if let Some(url) = source_url {
        settings["source_url"] = url.as_str().into();
    }
    if let Some(folder) = source_root {
        settings["source_root"] = folder.as_str().into();
    }
    for (signals, is_kept) in [(keep, true), (drop, false)] {
        for signal in signals {
            settings["signals"][signal.as_str()] = is_kept.into();
        }
    }
    let settings: Value = client.put(APP_SETTINGS, &settings).await?;
    print_settings(&[settings], arguments.json)
}

/// Returns the settings of an app that has none of its own.
fn default_settings(app: &str) -> Value {
    let signals: serde_json::Map<String, Value> =
        AppSignal::ALL.iter().map(|signal| (signal.to_string(), true.into())).collect();
    json!({ "app": app, "source_url": "", "source_root": "", "signals": signals })
}

/// Reads the apps that have settings.
async fn read_apps(client: &Client) -> Result<Vec<Value>, BoxError> {
    let (mut apps, mut cursor): (Vec<Value>, Option<String>) = (Vec::new(), None);
    loop {
        let mut query = vec![("limit", PAGE_LIMIT.to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page: Value = client.get(&with_query(APP_SETTINGS, &query)?).await?;
        apps.extend(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(apps);
        }
    }
}

fn print_settings(apps: &[Value], as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(&apps)?;
        return Ok(Exit::Ready);
    }
    if apps.is_empty() {
        note!("no app has settings: all signals are kept, and the console has no links to source code");
        return Ok(Exit::Ready);
    }
    let mut table = Table::new(&["APP", "DROPPED", "SOURCE URL", "SOURCE ROOT"]);
    for settings in apps {
        table.add_row([
            item_text(settings, "app"),
            list_dropped(&settings["signals"]),
            item_text(settings, "source_url"),
            item_text(settings, "source_root"),
        ]);
    }
    table.print();
    Ok(Exit::Ready)
}

/// Returns the signals that are dropped.
fn list_dropped(signals: &Value) -> String {
    let dropped = AppSignal::ALL.iter().filter(|signal| signals[signal.as_str()] == false);
    dropped.map(|signal| signal.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_and_those_that_are_dropped_are_listed() {
        assert_eq!(parse_signal("memory"), Ok(AppSignal::Memory));
        assert!(parse_signal("crashes").unwrap_err().contains("hangs, javascript"));
        let mut settings = default_settings("shop");
        assert_eq!(list_dropped(&settings["signals"]), "");
        settings["signals"]["hangs"] = false.into();
        settings["signals"]["captures"] = false.into();
        assert_eq!(list_dropped(&settings["signals"]), "hangs, captures");
    }
}
