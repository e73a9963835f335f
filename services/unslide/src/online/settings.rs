//! `unslide settings`: what a tenant has set for its apps.

use crate::prelude::*;
use std::str::FromStr;
use unslide_client::listing::{item_text, with_query};
use unslide_store::app_signals::{AppSignal, MOST_ONE_IN};

/// Apps that are asked for with one request.
const PAGE_LIMIT: &str = "500";
/// The settings of apps in the API.
const APP_SETTINGS: &str = "/v1/app-settings";
/// The commands on settings.
#[derive(Subcommand)]
#[command(after_help = "The key needs the scope tenant:admin.")]
pub enum Command {
    /// Show the settings of all apps, or of one
    Show(ShowSettingsArguments),
    /// Change settings of an app; those that are not named stay
    Set(SetArguments),
}

/// Arguments of `unslide settings show`.
#[derive(Args)]
pub struct ShowSettingsArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier
    #[arg(long)]
    app: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `unslide settings set`.
#[derive(Args)]
#[command(after_help = "\
Crashes are always kept. The rules of grouping are set with `unslide groups rules`.

Examples:
  unslide settings set --app com.example.shop --source-url 'https://git.example.com/shop/blob/v{version}/{path}#L{line}'
  unslide settings set --app com.example.shop --keep hangs=10 --keep sessions=100
  unslide settings set --app com.example.shop --source-url ''")]
pub struct SetArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier
    #[arg(long)]
    app: String,
    /// URL of a source file in the console: a template with {path}, and optionally {line}, {version} and {build}; empty: no links
    #[arg(long, value_name = "URL")]
    source_url: Option<String>,
    /// The folder that held the repository during the build; empty: none
    #[arg(long, value_name = "FOLDER")]
    source_root: Option<String>,
    /// How much is kept of a signal, such as hangs or sessions: all, none, or one of this number; may be given several times
    #[arg(long, value_name = "SIGNAL=SHARE")]
    keep: Vec<SignalShare>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How much is kept of one signal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SignalShare {
    signal: AppSignal,
    /// One in this number; 0 keeps nothing.
    one_in: u32,
}

impl FromStr for SignalShare {
    type Err = String;

    fn from_str(text: &str) -> Result<SignalShare, String> {
        let (signal, share) = text.split_once('=').ok_or("write SIGNAL=SHARE, such as hangs=10")?;
        let known = AppSignal::ALL.into_iter().find(|known| known.as_str() == signal);
        let known = known.ok_or_else(|| {
            format!("{signal:?} is no signal: {}", AppSignal::ALL.map(|signal| signal.as_str()).join(", "))
        })?;
        let one_in = match share {
            "all" => Some(1),
            "none" => Some(0),
            number => number.parse().ok().filter(|number| (1..=MOST_ONE_IN).contains(number)),
        };
        let one_in = one_in.ok_or_else(|| {
            format!("{share:?} is no share: all, none, or 1 to {MOST_ONE_IN} for one of that many")
        })?;
        Ok(SignalShare { signal: known, one_in })
    }
}

/// Runs a command on settings.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::Show(arguments) => show_settings(&arguments).await,
            Command::Set(arguments) => change_settings(&arguments).await,
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
    let SetArguments { app, source_url, source_root, keep, .. } = arguments;
    if source_url.is_none() && source_root.is_none() && keep.is_empty() {
        return Err(CommandError::usage("say what to set: --source-url, --source-root or --keep").into());
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
    for share in keep {
        settings["signals"][share.signal.as_str()] = share.one_in.into();
    }
    let settings: Value = client.put(APP_SETTINGS, &settings).await?;
    print_settings(&[settings], arguments.json)
}

/// Returns the settings of an app that has none of its own.
fn default_settings(app: &str) -> Value {
    let signals: serde_json::Map<String, Value> =
        AppSignal::ALL.iter().map(|signal| (signal.to_string(), 1.into())).collect();
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
        note!("no app has settings: all signals are kept whole, and the console has no links to source code");
        return Ok(Exit::Ready);
    }
    let mut table = Table::new(&["APP", "KEPT", "SOURCE URL", "SOURCE ROOT"]);
    for settings in apps {
        table.add_row([
            item_text(settings, "app"),
            describe_shares(&settings["signals"]),
            item_text(settings, "source_url"),
            item_text(settings, "source_root"),
        ]);
    }
    table.print();
    Ok(Exit::Ready)
}

/// Says how much is kept of the signals that are not kept whole.
fn describe_shares(signals: &Value) -> String {
    let reduced = AppSignal::ALL.iter().filter_map(|signal| match signals[signal.as_str()].as_u64() {
        None | Some(1) => None,
        Some(0) => Some(format!("no {signal}")),
        Some(number) => Some(format!("1 of {number} {signal}")),
    });
    let reduced: Vec<String> = reduced.collect();
    if reduced.is_empty() { "all".to_owned() } else { reduced.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_names_its_signal_and_how_much_is_kept() {
        let share = |text: &str| text.parse::<SignalShare>().map(|share| (share.signal, share.one_in));
        assert_eq!(share("hangs=10"), Ok((AppSignal::Hangs, 10)));
        assert_eq!(share("captures=none"), Ok((AppSignal::Captures, 0)));
        assert_eq!(share("memory=all"), Ok((AppSignal::Memory, 1)));
        for (wrong, said) in [
            ("hangs", "SIGNAL=SHARE"),
            ("crashes=2", "no signal"),
            ("hangs=0", "no share"),
            ("hangs=1001", "no share"),
        ] {
            assert!(share(wrong).unwrap_err().contains(said), "{wrong}");
        }
    }

    #[test]
    fn only_signals_that_are_not_kept_whole_are_named() {
        let mut settings = default_settings("shop");
        assert_eq!(describe_shares(&settings["signals"]), "all");
        settings["signals"]["hangs"] = 10.into();
        settings["signals"]["captures"] = 0.into();
        assert_eq!(describe_shares(&settings["signals"]), "1 of 10 hangs, no captures");
    }
}
