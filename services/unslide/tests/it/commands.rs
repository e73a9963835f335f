//! Commands that need no server.

use std::process::{Command, Output};

fn unslide(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSLIDE_")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

const FINE: [(&str, &str); 4] = [
    ("UNSLIDE_POSTGRES__URL", "postgres://unslide:hush@127.0.0.1/unslide"),
    ("UNSLIDE_OBJECTS__BUCKET", "unslide"),
    ("UNSLIDE_OBJECTS__ENDPOINT", "http://127.0.0.1:9000"),
    ("UNSLIDE_KAFKA__BOOTSTRAP", "127.0.0.1:9092"),
];

#[test]
fn a_fine_configuration_is_called_fine() {
    let output = unslide(&["config", "check"], &FINE);
    assert!(output.status.success(), "{}", stdout(&output));
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_no_secret_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unslide.toml");
    std::fs::write(&file, "[api]\nlisten = 'here'\ncolour = 'red'\n[log]\nfilter = '=='\n").unwrap();
    let mut variables = FINE.to_vec();
    variables[0] = ("UNSLIDE_POSTGRES__URL", "mysql://unslide:hush@127.0.0.1/unslide");
    variables.push(("UNSLIDE_PROCESS__DRAIN_SECONDS", "soon"));
    variables.push(("UNSLIDE_KAFKA__BOTSTRAP", "x"));
    let output = unslide(&["config", "check", "--config", file.to_str().unwrap()], &variables);
    let text = stdout(&output);
    assert!(!output.status.success());
    for key in
        ["api.listen", "api.colour", "log.filter", "postgres.url", "process.drain_seconds", "kafka.botstrap"]
    {
        assert!(text.lines().any(|line| line.starts_with(key)), "{key} is not in\n{text}");
    }
    assert!(text.contains("the variable UNSLIDE_KAFKA__BOTSTRAP") && text.contains("unslide.toml"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn a_service_does_not_start_on_a_wrong_configuration() {
    for service in ["api", "symbolizer", "builder", "indexer"] {
        let output = unslide(&[service], &[("UNSLIDE_NONSENSE__KEY", "1")]);
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("nonsense.key"), "{service}: {error}");
    }
}

#[test]
fn an_upload_of_nothing_is_a_failure_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        unslide(&["upload", folder.path().to_str().unwrap(), "/does/not/exist"], &[("UNSLIDE_API_KEY", "x")]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/does/not/exist"), "{error}");
}

#[test]
fn the_version_is_told() {
    assert!(stdout(&unslide(&["version"], &[])).starts_with("unslide 0."));
}
