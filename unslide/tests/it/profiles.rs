//! Profiles: `unslide login` keeps an address and a key, and every command that asks the API uses them.

use crate::api::Api;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code, standard output and standard error of a command.
struct Done {
    code: Option<i32>,
    output: String,
    error: String,
}

/// Runs a command of a user whose settings are in `home`, with a text on standard input.
fn run(home: &Path, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSLIDE_")) {
        command.env_remove(name);
    }
    command.env_remove("XDG_CONFIG_HOME").env("HOME", home).envs(variables.iter().copied());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: done.status.code(), output: text(done.stdout), error: text(done.stderr) }
}

/// An API with one key, which it describes, and an empty list of reports.
fn api_with_key() -> Api {
    Api::start(|line| match line.split_once(' ').unwrap().1 {
        "/v1/key" => (200, r#"{"tenant":"acme","suspended":false,"scopes":["reports:read"]}"#.to_owned()),
        path if path.starts_with("/v1/reports") => (200, r#"{"items":[],"next_cursor":null}"#.to_owned()),
        "/openapi.json" => (200, r#"{"info":{"version":"0.1.0"}}"#.to_owned()),
        _ => (404, r#"{"title":"There is no such resource"}"#.to_owned()),
    })
}

fn last_key(api: &Api) -> String {
    api.asked().last().unwrap().authorization.clone()
}

#[test]
fn a_login_is_tried_and_kept_for_this_user_alone_and_later_commands_use_it() {
    let (home, api) = (tempfile::tempdir().unwrap(), api_with_key());
    let login = run(home.path(), &["login", "--url", &api.url], &[], "unslide_a_b\n");
    assert_eq!(login.code, Some(0), "{}", login.error);
    assert!(login.output.contains("tenant acme") && login.output.contains("the profile default is kept in"));
    assert!(!format!("{}{}", login.output, login.error).contains("unslide_a_b"), "the key is not shown");
    let file = home.path().join(".config/unslide/config.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let list = run(home.path(), &["reports"], &[], "");
    assert_eq!((list.code, list.output.as_str()), (Some(0), ""), "{}", list.error);
    assert_eq!(list.error, "unslide: no report matches\n");
    assert_eq!(last_key(&api), "Bearer unslide_a_b");
    let of_no_group = run(home.path(), &["reports", "--group", "SHOP-1A2B"], &[], "");
    assert_eq!(of_no_group.code, Some(3), "a mistyped group is no empty list: {}", of_no_group.error);
    let doctor = run(home.path(), &["doctor"], &[], "");
    assert_eq!(doctor.code, Some(0), "{}", doctor.output);
    assert!(doctor.output.contains("(from the profile default) answers: unslide 0.1.0"), "{}", doctor.output);
    assert!(
        doctor.output.contains("ok: the key (from the profile default) is in force"),
        "{}",
        doctor.output
    );
    assert!(doctor.output.contains("not tried: Kafka"), "{}", doctor.output);

    let logout = run(home.path(), &["logout"], &[], "");
    assert_eq!(logout.code, Some(0), "{}", logout.error);
    let list = run(home.path(), &["reports", "--url", &api.url], &[], "");
    assert_eq!(list.code, Some(2));
    assert!(list.error.contains("there is no API key: run `unslide login`"), "{}", list.error);
}

#[test]
fn options_win_over_a_named_profile_that_over_variables_and_these_over_the_default_profile() {
    let (home, api) = (tempfile::tempdir().unwrap(), api_with_key());
    for (profile, key) in [("default", "unslide_default"), ("staging", "unslide_staging")] {
        let login =
            run(home.path(), &["login", "--profile", profile, "--url", &api.url, "--no-check"], &[], key);
        assert_eq!(login.code, Some(0), "{}", login.error);
    }
    assert!(api.asked().is_empty(), "--no-check asks nothing");
    let variable = ("UNSLIDE_API_KEY", "unslide_variable");
    for (arguments, variables, key) in [
        (&["reports"][..], &[][..], "unslide_default"),
        (&["reports"], &[("UNSLIDE_PROFILE", "staging")], "unslide_staging"),
        (&["reports"], &[variable], "unslide_variable"),
        (&["reports"], &[variable, ("UNSLIDE_PROFILE", "staging")], "unslide_variable"),
        (&["reports", "--profile", "staging"], &[variable], "unslide_staging"),
        (&["reports", "--profile", "staging", "--api-key", "unslide_option"], &[variable], "unslide_option"),
    ] {
        let list = run(home.path(), arguments, variables, "");
        assert_eq!(list.code, Some(0), "{arguments:?}: {}", list.error);
        assert_eq!(last_key(&api), format!("Bearer {key}"), "{arguments:?} {variables:?}");
    }
    let unknown = run(home.path(), &["reports", "--profile", "prod"], &[], "");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.error.contains("it has default, staging"), "{}", unknown.error);
}

#[test]
fn the_key_of_a_profile_is_sent_to_no_other_address() {
    let (home, own, other) = (tempfile::tempdir().unwrap(), api_with_key(), api_with_key());
    let login = run(home.path(), &["login", "--url", &own.url, "--no-check"], &[], "unslide_a_b");
    assert_eq!(login.code, Some(0), "{}", login.error);
    let list = run(home.path(), &["reports", "--url", &other.url], &[], "");
    assert_eq!(list.code, Some(2));
    assert!(list.error.contains(&own.url) && list.error.contains(&other.url), "{}", list.error);
    assert!(other.asked().is_empty());
    let slash = run(home.path(), &["reports", "--url", &format!("{}/", own.url)], &[], "");
    assert_eq!(slash.code, Some(0), "{}", slash.error);
}

#[test]
fn a_key_that_the_api_refuses_is_not_kept_and_the_error_names_its_source() {
    let home = tempfile::tempdir().unwrap();
    let api = Api::start(|_| (401, r#"{"title":"A valid API key is needed"}"#.to_owned()));
    let login = run(home.path(), &["login", "--url", &api.url], &[], "unslide_a_b");
    assert_eq!(login.code, Some(5), "{}", login.error);
    assert!(!home.path().join(".config").exists());
    let list = run(home.path(), &["reports", "--url", &api.url], &[("UNSLIDE_API_KEY", "unslide_a_b")], "");
    assert_eq!(list.code, Some(5));
    for part in ["The key from UNSLIDE_API_KEY", "mistyped, expired, revoked", "unslide login"] {
        assert!(list.error.contains(part), "{part} is not in {}", list.error);
    }
    let empty = run(home.path(), &["login", "--url", &api.url], &[], "\n");
    assert_eq!(empty.code, Some(2));
    assert!(empty.error.contains("there is no key"), "{}", empty.error);
}

#[test]
fn an_address_with_too_much_or_the_wrong_protocol_is_named() {
    let (home, api) = (tempfile::tempdir().unwrap(), api_with_key());
    let list = |url: &str| {
        let list =
            run(home.path(), &["reports", "--retry-for", "0", "--url", url, "--api-key", "x"], &[], "");
        assert_ne!(list.code, Some(0));
        list.error
    };
    let error = list(&format!("{}/v1", api.url));
    assert!(error.contains(&format!("use {}", api.url)), "{error}");
    let error = list(&api.url.replace("http://", "https://"));
    assert!(error.contains("speaks plain HTTP there, so the address begins with http://"), "{error}");
}

#[test]
fn the_command_line_is_completed_and_has_pages_of_a_manual() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let done = run(home.path(), &["completions", shell], &[], "");
        assert_eq!(done.code, Some(0), "{}", done.error);
        for command in ["login", "events", "alerts", "symbols"] {
            assert!(done.output.contains(command), "{shell} does not complete {command}");
        }
    }
    let page = run(home.path(), &["man", "reports", "show"], &[], "");
    assert_eq!(page.code, Some(0), "{}", page.error);
    assert!(page.output.contains(".TH") && page.output.contains("variant"), "{}", page.output);
    let unknown = run(home.path(), &["man", "reports", "shwo"], &[], "");
    assert_eq!(unknown.code, Some(2));
    let folder = home.path().join("man1");
    let all = run(home.path(), &["man", "--dir", folder.to_str().unwrap()], &[], "");
    assert_eq!(all.code, Some(0), "{}", all.error);
    for page in ["unslide.1", "unslide-reports-show.1", "unslide-alerts-list.1", "unslide-upload.1"] {
        assert!(folder.join(page).exists(), "{page} is not written");
    }
}
