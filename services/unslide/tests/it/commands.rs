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

#[test]
fn what_the_api_signs_the_symbolizers_have_to_take() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unslide.toml");
    let check = |own: &str, tenants: &str| {
        let keys = "name = 'api'\npublic_key = 'PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw='";
        let required = "[symbolizer.signatures]\nrequired = true\n[[symbolizer.signatures.keys]]";
        std::fs::write(&file, format!("{required}\n{keys}\ntenants = ['{tenants}']\n[api.signing]\n{own}\n"))
            .unwrap();
        let output = unslide(&["config", "check", "--config", file.to_str().unwrap()], &FINE);
        (output.status.success(), stdout(&output))
    };
    let own = "name = 'api'\nkey = 'TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs='";
    assert!(check(own, "*").0, "{}", check(own, "*").1);
    for (own, tenants, said) in
        [("", "*", "no_signature"), (own, "acme", "not among"), (&own.replace("api", "x"), "*", "not among")]
    {
        let (fine, text) = check(own, tenants);
        assert!(!fine && text.starts_with("api.signing.key") && text.contains(said), "{text}");
    }
}

#[test]
fn wrong_arguments_are_refused_with_what_is_wrong_and_what_would_do() {
    let id = "7d444840-9dc0-41d1-b245-5ffdce74fad2";
    let wrong: [(&[&str], [&str; 2]); 10] = [
        (&["tenant", "create", "No Slug"], ["No Slug", "a-z, 0-9"]),
        (&["tenant", "limits", "acme", "--reports-per-second", "many"], ["--reports-per-second", "many"]),
        (&["key", "create", "--tenant", "x", "--scope", "reports:read"], ["--tenant", "2 to 40"]),
        (&["key", "create", "--tenant", "acme", "--scope", "reports:rite"], ["--scope", "reports:write"]),
        (
            &["key", "create", "--tenant", "acme", "--scope", "operator", "--expires", "soon"],
            ["--expires", "90d"],
        ),
        (&["key", "revoke", "--tenant", "acme", "the-first"], ["<ID>", "the-first"]),
        (&["dead-letter", "list", "--api-key", "x", "--from", "yesterday"], ["--from", "90m"]),
        (&["dead-letter", "replay", id, "--api-key", "x", "--dry-run"], ["cannot be used", "--dry-run"]),
        (&["reprocess", "--api-key", "x", "--from", "soon"], ["--from", "90m"]),
        (&["audit", "--from", "2h", "--tenant", "-"], ["--tenant", "2 to 40"]),
    ];
    for (arguments, said) in wrong {
        let output = unslide(arguments, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(said.iter().all(|words| error.contains(words)), "{arguments:?}: {error}");
    }
    let none = unslide(&["reprocess"], &[("UNSLIDE_API_KEY", "x")]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8(none.stderr).unwrap().contains("say which reports, or --all"));
}
