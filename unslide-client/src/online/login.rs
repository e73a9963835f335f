//! `unslide login` and `unslide logout`: the address and key that later commands use.

use crate::prelude::*;
use serde::Deserialize;
use std::time::Duration;
use unslide_cli::{
    ApiLogin, ApiProfile, DEFAULT_PROFILE, DEFAULT_URL, KEY_VARIABLE, LoginSource, PROFILE_VARIABLE,
    ProfileFile, URL_VARIABLE, check_address, check_name, read_answer, read_secret,
};

/// Arguments of the command `unslide login`.
#[derive(Args)]
#[command(after_help = "\
The key is not shown while it is typed. It is kept in ~/.config/unslide/config.toml (or below XDG_CONFIG_HOME), which only this user
can read. Of the environment, UNSLIDE_URL and UNSLIDE_API_KEY win over the profile, and the option --profile wins over them.

Examples:
  unslide login
  unslide login --url https://crashes.example.com
  unslide login --profile staging --url https://staging.example.com < key.txt")]
pub struct LoginArguments {
    /// The API's address; asked for if absent
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The name of the profile [default: default]
    #[arg(long, value_name = "NAME", env = PROFILE_VARIABLE)]
    profile: Option<String>,
    /// Keep the address and the key without trying them
    #[arg(long)]
    no_check: bool,
}

/// Arguments of the command `unslide logout`.
#[derive(Args)]
pub struct LogoutArguments {
    /// The name of the profile [default: default]
    #[arg(long, value_name = "NAME", env = PROFILE_VARIABLE)]
    profile: Option<String>,
}

/// The key as the API describes it.
#[derive(Deserialize)]
struct OwnKey {
    tenant: String,
    scopes: Vec<String>,
}

/// Asks for an address and a key, tries them, and keeps them.
pub fn log_in(arguments: &LoginArguments) -> Outcome {
    let name = arguments.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
    check_name(name)?;
    let mut file = ProfileFile::read()?;
    let known = file.find_profile(name).ok().flatten().map(|profile| profile.url);
    let url = match &arguments.url {
        Some(url) => url.clone(),
        None => read_answer("Address of the API", known.as_deref().unwrap_or(DEFAULT_URL))?,
    };
    let url = check_address(&url)?;
    let key = read_secret("API key (not shown)")?;
    if key.is_empty() {
        return Err(CommandError::usage("there is no key: type it, or give it on standard input").into());
    }
    if !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CommandError::usage(
            "the key has characters that no key has: give it alone, on one line",
        )
        .into());
    }
    if !arguments.no_check {
        let source = LoginSource::Option("this login");
        let login =
            ApiLogin { url: url.clone(), url_source: source.clone(), key: key.clone(), key_source: source };
        let key: OwnKey = block_on(async {
            let client = Client::with_login(login, Duration::ZERO)?;
            if client.is_insecure() {
                note!("the address begins with http://, so others on the way can read the key");
            }
            Ok(client.get("/v1/key").await?)
        })?;
        say!("the key is of the tenant {}, with {}", key.tenant, key.scopes.join(", "));
    }
    file.set_profile(name, &ApiProfile { url: url.clone(), api_key: key })?;
    file.write()?;
    say!("the profile {name} is kept in {}: {url}", file.path().display());
    for variable in [URL_VARIABLE, KEY_VARIABLE] {
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            note!("{variable} is set in this shell and wins over the profile, unless --profile names it");
        }
    }
    Ok(Exit::Ready)
}

/// Removes a profile from the file.
pub fn log_out(arguments: &LogoutArguments) -> Outcome {
    let name = arguments.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
    check_name(name)?;
    let mut file = ProfileFile::read()?;
    if !file.remove_profile(name) {
        return Err(CommandError::caused("nothing was removed", file.unknown_profile(name)).into());
    }
    file.write()?;
    say!("the profile {name} is removed; its key is valid until it is revoked");
    Ok(Exit::Ready)
}
