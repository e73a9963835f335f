//! Commands that need no server.

use std::process::{Command, Output};

pub fn unslide(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
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
    variables.push(("UNSLIDE_PROCESS__DRAIN", "soon"));
    variables.push(("UNSLIDE_KAFKA__BOTSTRAP", "x"));
    let output = unslide(&["config", "check", "--config", file.to_str().unwrap()], &variables);
    let text = stdout(&output);
    assert!(!output.status.success());
    for key in ["api.listen", "api.colour", "log.filter", "postgres.url", "process.drain", "kafka.botstrap"] {
        assert!(text.lines().any(|line| line.starts_with(key)), "{key} is not in\n{text}");
    }
    assert!(text.contains("the variable UNSLIDE_KAFKA__BOTSTRAP") && text.contains("unslide.toml"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn a_service_does_not_start_on_a_wrong_configuration() {
    for service in ["api", "symbolizer", "builder", "indexer", "door"] {
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
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/does/not/exist"), "{error}");
    let nothing = unslide(&["upload", folder.path().to_str().unwrap()], &[("UNSLIDE_API_KEY", "x")]);
    assert_eq!(nothing.status.code(), Some(3));
}

#[test]
fn an_address_that_is_not_set_or_does_not_answer_is_named_with_its_setting() {
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = unslide(arguments, variables);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let list = ["tenant", "list"];
    let (code, error) = said(&list, &[]);
    assert_eq!(code, Some(2), "{error}");
    for part in ["postgres.url", "UNSLIDE_POSTGRES__URL", "--config", "UNSLIDE_CONFIG"] {
        assert!(error.contains(part), "{error}");
    }
    let database = "postgres://unslide:hush@127.0.0.1:1/shop";
    let (code, error) = said(&list, &[("UNSLIDE_POSTGRES__URL", database)]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("127.0.0.1:1/shop") && !error.contains("hush"), "{error}");
    let (code, error) = said(&["migrate"], &[("UNSLIDE_POSTGRES__URL", database)]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("127.0.0.1:1/shop") && !error.contains("hush"), "{error}");
    let (code, error) = said(&["audit"], &[("UNSLIDE_KAFKA__BOOTSTRAP", "127.0.0.1:1")]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("127.0.0.1:1") && error.contains("kafka.bootstrap"), "{error}");
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
    let wrong: [(&[&str], [&str; 2]); 13] = [
        (&["tenant", "create", "No Slug"], ["No Slug", "a-z, 0-9"]),
        (&["tenant", "limits", "acme", "--units-per-second", "many"], ["--units-per-second", "many"]),
        (&["key", "create", "--tenant", "x", "--scope", "reports:read"], ["--tenant", "2 to 40"]),
        (&["key", "create", "--tenant", "acme", "--scope", "reports:rite"], ["--scope", "reports:write"]),
        (
            &["key", "create", "--tenant", "acme", "--scope", "operator", "--expires", "soon"],
            ["--expires", "90m"],
        ),
        (&["dead-letter", "list", "--api-key", "x", "--from", "someday"], ["--from", "90m"]),
        (&["dead-letter", "replay", id, "--api-key", "x", "--dry-run"], ["cannot be used", "--dry-run"]),
        (&["reprocess", "--api-key", "x", "--from", "soon"], ["--from", "90m"]),
        (&["audit", "--from", "2h", "--tenant", "-"], ["--tenant", "2 to 40"]),
        (&["groups", "rules", "clear", "--api-key", "x"], ["This moves stored reports", "--yes"]),
        (&["reprocess", "--api-key", "x", "--app", "a", "--yes"], ["--all", "required"]),
        (&["tenant", "limits", "acme", "--symbol-bytes", "100 potatoes"], ["--symbol-bytes", "10GB"]),
        (&["symbols", "check", "--wait", "--timeout", "soon", "x"], ["--timeout", "5min"]),
    ];
    for (arguments, said) in wrong {
        let output = unslide(arguments, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(said.iter().all(|words| error.contains(words)), "{arguments:?}: {error}");
    }
    let none = unslide(&["reprocess"], &[("UNSLIDE_API_KEY", "x")]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr).unwrap().contains("say which reports, or --all"));
}

#[test]
fn what_is_not_set_says_how_to_set_it() {
    let output = unslide(&["config", "check"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    for (key, variable) in [
        ("kafka.bootstrap", "UNSLIDE_KAFKA__BOOTSTRAP"),
        ("postgres.url", "UNSLIDE_POSTGRES__URL"),
        ("objects.bucket", "UNSLIDE_OBJECTS__BUCKET"),
    ] {
        let said = format!("{key}: is not set: set {variable}, or ");
        assert!(text.lines().any(|line| line.starts_with(&said)), "{said} is not in\n{text}");
    }
}

#[test]
fn a_check_of_one_service_asks_for_what_that_service_reads() {
    let variables: Vec<(&str, &str)> =
        FINE.into_iter().filter(|(key, _)| !key.contains("POSTGRES")).collect();
    let check = |service: &str| {
        let output = unslide(&["config", "check", "--service", service], &variables);
        (output.status.code(), stdout(&output))
    };
    for service in ["symbolizer", "audit"] {
        let (code, said) = check(service);
        assert_eq!((code, said.lines().next()), (Some(0), Some("the configuration is fine")), "{service}");
    }
    for service in ["api", "builder", "indexer", "migrate"] {
        let (code, said) = check(service);
        assert!(code == Some(2) && said.starts_with("postgres.url: is not set"), "{service}: {said}");
    }
    let output = unslide(&["config", "check", "--service", "web"], &variables);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("symbolizer, indexer, migrate"), "{error}");
}

#[test]
fn a_check_says_where_spans_go_without_secrets() {
    let check = |traces: &[(&str, &str)]| {
        let variables = [&FINE[..], traces].concat();
        let output = unslide(&["config", "check", "--service", "symbolizer"], &variables);
        (output.status.code(), stdout(&output))
    };
    let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hidden@collector:4318/?token=hidden");
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hidden");
    let (code, said) = check(&[]);
    assert!(code == Some(0) && said.contains("traces are not exported"), "{said}");
    let (code, said) = check(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.1), headers]);
    assert!(code == Some(0) && said.contains("traces are exported to http://collector:4318/ ("), "{said}");
    assert!(said.contains("parentbased_always_on") && !said.contains("hidden"), "{said}");
    let (code, said) = check(&[collector, headers, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert!(
        code == Some(2) && said.starts_with("OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not supported"),
        "{said}"
    );
    assert!(!said.contains("hidden"), "{said}");
}

#[test]
fn the_rights_of_each_login_are_printed_without_a_server() {
    let variables =
        [("UNSLIDE_KAFKA__BOOTSTRAP", "127.0.0.1:1"), ("UNSLIDE_KAFKA__TOPIC_PREFIX", "staging.")];
    let printed = |further: &[&str]| {
        let arguments = [&["migrate", "--acls"], further].concat();
        let output = unslide(&arguments, &variables);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    };
    let commands = printed(&["--principal", "indexer=shop-indexer"]);
    let lines: Vec<&str> = commands.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("kafka-acls.sh --bootstrap-server 127.0.0.1:1 ")));
    let relay = "--add --allow-principal User:unslide-builder --operation Write --transactional-id staging.unslide.relay";
    assert!(lines.iter().any(|line| line.ends_with(relay)), "{commands}");
    assert!(
        commands.contains("User:shop-indexer") && !commands.contains("User:unslide-indexer"),
        "{commands}"
    );
    let rules: Vec<serde_json::Value> = serde_json::from_str(&printed(&["--json"])).unwrap();
    assert_eq!(rules.len(), lines.len());
    let relay = serde_json::json!({
        "principal": "User:unslide-builder", "login": "builder", "resource": "transactional_id", "pattern": "literal",
        "names": ["staging.unslide.relay"], "operations": ["Write"],
    });
    assert!(rules.contains(&relay), "{rules:?}");
    // With the rights to pass records on to another cell; its own prefix is none of another.
    let cells = printed(&["--cell-prefix", "east.", "--cell-prefix", "staging."]);
    let (own, passing): (Vec<&str>, Vec<&str>) = cells.lines().partition(|line| !line.contains(" east."));
    assert_eq!(own, printed(&[]).lines().collect::<Vec<_>>());
    let indexer = "--add --allow-principal User:unslide-indexer --operation Write --topic east.crash.symbolicated --topic east.crash.sessions";
    assert!(passing.len() == 2 && passing.iter().any(|line| line.contains(indexer)), "{passing:?}");
}

#[test]
fn what_is_unsafe_on_a_network_is_a_warning_and_nothing_local_is() {
    assert!(!stdout(&unslide(&["config", "check"], &FINE)).contains("warning"));
    let variables = [
        ("UNSLIDE_POSTGRES__URL", "postgres://unslide:hush@db/unslide"),
        ("UNSLIDE_OBJECTS__BUCKET", "unslide"),
        ("UNSLIDE_OBJECTS__ENDPOINT", "http://s3:9000"),
        ("UNSLIDE_KAFKA__BOOTSTRAP", "127.0.0.1:9092,kafka:9092"),
    ];
    let output = unslide(&["config", "check"], &variables);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for key in ["kafka.security.protocol", "objects.endpoint", "postgres.url"] {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("warning: {key}: "))),
            "{key} is not in\n{text}"
        );
    }
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn the_settings_in_effect_are_shown_with_their_sources_and_without_secrets() {
    let mut variables = FINE.to_vec();
    variables.push(("UNSLIDE_API__CACHE_SIZE", "3GiB"));
    variables.push(("UNSLIDE_KAFKA__CLIENT", "{'sasl.password' = 'hush', 'fetch.wait.max.ms' = '5'}"));
    let output = unslide(&["config", "show"], &variables);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "api.cache_size = \"3GiB\"   # the variable UNSLIDE_API__CACHE_SIZE",
        "postgres.url = \"***\"   # the variable UNSLIDE_POSTGRES__URL",
        "log.filter = \"info\"   # default",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("hush") && text.contains("fetch.wait.max.ms"), "{text}");
    let json = unslide(&["config", "show", "--json"], &variables);
    let settings: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    let bytes = settings.iter().find(|setting| setting["key"] == "api.cache_size").unwrap();
    assert_eq!(bytes["value"], "3GiB");
}

#[test]
fn health_is_the_answer_of_the_admin_port() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        for status in ["200 OK", "503 Service Unavailable"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /readyz "));
            let body = "{\"ready\":\"as the status says\"}";
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let variables = [("UNSLIDE_ADMIN__LISTEN", address.as_str())];
    assert!(unslide(&["health"], &variables).status.success());
    let unready = unslide(&["health"], &variables);
    assert_eq!(unready.status.code(), Some(1));
    assert!(stdout(&unready).contains("as the status says"));
    server.join().unwrap();
    let dead = unslide(&["health"], &variables);
    assert_eq!(dead.status.code(), Some(1), "Docker reserves other codes");
    let error = String::from_utf8(dead.stderr).unwrap();
    assert!(error.contains(&address) && error.contains("admin.listen"), "{error}");
}
