//! `unslide upload` before an API that answers as the test says.

use crate::api::Api;
use crate::commands::unslide;
use serde_json::Value;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

/// An API that has the upload already, and passed this over in it. Gives its address.
fn api(skipped: &str) -> String {
    let object = r#"{"sha256":"0","arch":"arm64","status":"ready"}"#;
    let body = format!(r#"{{"id":"7","status":"done","objects":[{object}],"skipped":[{skipped}]}}"#);
    Api::start(move |_| (200, body.clone())).url
}

/// So many files that an upload sends.
fn files(folder: &tempfile::TempDir, count: usize) -> Vec<PathBuf> {
    let file = |n| {
        let path = folder.path().join(format!("{n}.zip"));
        std::fs::write(&path, format!("PK\x03\x04 {n}")).unwrap();
        path
    };
    (0..count).map(file).collect()
}

/// Runs an upload: exit code, standard output, standard error.
fn upload(url: &str, key: &str, more: &[&str], files: &[PathBuf]) -> (Option<i32>, String, String) {
    let mut arguments = [&["upload"], more].concat();
    arguments.extend(files.iter().map(|file| file.to_str().unwrap()));
    let Output { status, stdout, stderr } =
        unslide(&arguments, &[("UNSLIDE_URL", url), ("UNSLIDE_API_KEY", key)]);
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_wrong_key_fails_once_and_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let api = Api::start(|_| (401, r#"{"title":"Unauthorized"}"#.to_owned()));
    let (code, output, error) = upload(&api.url, "x", &["--jobs", "2"], &files(&folder, 20));
    assert_eq!((code, error.lines().count()), (Some(5), 1), "{output}{error}");
    assert!(error.contains("Unauthorized (401"), "{error}");
    assert_eq!(api.asked().len(), 1, "{:?}", api.asked());
}

#[test]
fn a_dead_api_is_named_tried_for_a_while_and_named_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let files = files(&folder, 5);
    // It takes connections and says nothing.
    let (code, _, error) = upload(&url, "x", &["--retry-for", "4"], &files);
    assert_eq!((code, error.lines().count()), (Some(4), 2), "{error}");
    let told = format!("the API at {url} has not answered for 2 s; trying for up to 4 s");
    assert!(error.contains(&told) && error.contains("did not answer within 4 s"), "{error}");
    // There is nothing.
    drop(listener);
    let (code, _, error) = upload(&url, "x", &["--retry-for", "2"], &files);
    assert_eq!(code, Some(4), "{error}");
    assert_eq!(error.matches("cannot be reached; trying for up to 2 s").count(), 1, "{error}");
    assert_eq!(error.matches("does not answer").count(), 1, "{error}");
    let (code, _, error) = upload(&url, "x", &["--retry-for", "0"], &files);
    assert!(code == Some(4) && !error.contains("trying"), "{error}");
}

#[test]
fn a_path_that_is_not_there_ends_an_upload_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let api = Api::empty("");
    let paths = [files(&folder, 1).remove(0), folder.path().join("gone.zip")];
    let (code, output, error) = upload(&api.url, "x", &[], &paths);
    assert_eq!((code, output.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains("gone.zip") && api.asked().is_empty(), "{error}");
}

#[test]
fn a_file_without_bytes_is_a_mistake_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.zip");
    std::fs::write(&empty, "").unwrap();
    let url = api("");
    let (code, _, error) = upload(&url, "x", &[], std::slice::from_ref(&empty));
    assert!(code == Some(2) && error.contains("empty"), "{error}");
    let (code, _, error) = upload(&url, "x", &[], &[files(&folder, 1).remove(0), empty]);
    assert_eq!(code, Some(1), "the other one was sent: {error}");
}

#[test]
fn the_default_address_is_called_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = files(&folder, 1).remove(0);
    let arguments = ["upload", "--retry-for", "0", file.to_str().unwrap()];
    let done = unslide(&arguments, &[("UNSLIDE_API_KEY", "x")]);
    let error = String::from_utf8(done.stderr).unwrap();
    // Something else may listen there.
    assert!(
        done.status.code() != Some(4) || error.contains("the default: UNSLIDE_URL, --url or `unslide login`"),
        "{error}"
    );
}

#[test]
fn a_key_may_end_with_a_newline_and_what_is_no_key_or_no_url_is_called_that() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder, 1);
    let api = Api::empty("");
    assert_eq!(upload(&api.url, "unslide_a_b\n", &[], &files).0, Some(0));
    assert!(api.asked().iter().all(|asked| asked.authorization == "Bearer unslide_a_b"));
    for (url, key, said) in [
        ("localhost", "x", "not a URL: localhost"),
        (&*api.url, "", "UNSLIDE_API_KEY"),
        (&*api.url, "a\nb", "characters that no key has"),
    ] {
        let (code, _, error) = upload(url, key, &[], &files);
        assert!(code == Some(2) && error.contains(said), "{error}");
    }
}

#[test]
fn an_upload_can_be_quiet_speak_json_or_only_look() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder, 2);
    let api = Api::empty("");
    let (code, output, error) = upload(&api.url, "x", &["--dry-run"], &files);
    assert_eq!((code, api.count("POST")), (Some(0), 0), "{error}");
    assert!(output.ends_with("2 would be uploaded, 0 known before, 0 failed\n"), "{output}");
    assert_eq!(upload(&api.url, "x", &["--quiet"], &files), (Some(0), String::new(), String::new()));
    let text = folder.path().join("text");
    std::fs::write(&text, "no symbols").unwrap();
    let wrong = [&files[..], &[text]].concat();
    let (code, output, error) = upload(&api.url, "x", &["--json"], &wrong);
    assert!(code == Some(1) && error.contains("text: this is text; symbols are a dSYM"), "{error}");
    let said: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&said["uploaded"], &said["failed"]), (&2.into(), &1.into()));
    let file = said["files"].as_array().unwrap().iter().find(|file| file["status"] == "uploaded").unwrap();
    assert_eq!(file["objects"][0]["arch"], "arm64");
}

#[test]
fn what_the_server_passed_over_is_shown_and_fails_where_it_may_hold_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("App.zip");
    std::fs::write(&file, b"PK\x03\x04 and so on").unwrap();
    let upload = |skipped| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
        command.args(["upload", "--url", &api(skipped), "--api-key", "x"]).arg(&file);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let link = r#"{"path":"App.framework/App","reason":"link","detail":"links are not followed"}"#;
    let locked = r#"{"path":"App.dSYM/App","reason":"encrypted","detail":"encrypted"}"#;
    let (code, text) = upload(link);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("App.zip: skipped: App.framework/App: links are not followed\n"), "{text}");
    let (code, text) = upload(&format!("{link},{locked}"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("App.zip: skipped: App.dSYM/App: encrypted\n"), "{text}");
    assert!(text.contains("0 uploaded, 0 known before, 1 failed"), "{text}");
}

#[test]
fn a_source_map_goes_out_under_its_own_id_and_that_of_the_app() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, map: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, map).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("main.jsbundle.map", r#"{"version":3,"sources":[],"mappings":""}"#);
    let own = file(
        "own.map",
        r#"{"version":3,"sources":[],"mappings":"","debugId":"6f9619ff-8b86-d011-b42d-00c04fc964ff"}"#,
    );
    let app = ["--app", "com.example.shop", "--platform", "ios", "--app-version", "1.2", "--build", "7"];
    let sent = |more: &[&str]| {
        let api = Api::empty("");
        let (code, output, error) = upload(&api.url, "x", more, &[]);
        (code, api.count("POST"), output + &error)
    };
    let (code, posts, _) = sent(&[&["--source-map", &plain], &app[..]].concat());
    assert_eq!((code, posts), (Some(0), 1));
    let (code, posts, _) = sent(&["--source-map", &own]);
    assert_eq!((code, posts), (Some(0), 1));
    let (code, posts, _) = sent(&[&["--source-map", &own], &app[..]].concat());
    assert_eq!((code, posts), (Some(0), 2));
    let (code, posts, told) = sent(&["--source-map", &plain]);
    assert_eq!((code, posts), (Some(1), 0), "{told}");
    assert!(told.contains("it has no debug id: give --app, --platform and --app-version"), "{told}");
    let (code, _, told) = sent(&["--source-map", &plain, "--app", "com.example.shop"]);
    assert_eq!(code, Some(2), "{told}");
}

/// An API that builds each file into a build with this debug id, and refuses commits if `keeps` is false.
fn building_api(debug_id: &'static str, keeps: bool) -> Api {
    let object = format!(r#"{{"debug_id":"{debug_id}","sha256":"0","arch":"arm64","status":"ready"}}"#);
    let done = format!(r#"{{"id":"7","status":"done","objects":[{object}],"skipped":[]}}"#);
    Api::start(move |line| match line.split_once(' ').unwrap() {
        ("POST", _) => (202, r#"{"id":"7","existing":false}"#.to_owned()),
        ("PUT", "/v1/builds/commit") if keeps => (200, r#"{"builds":1}"#.to_owned()),
        (_, path) if path.starts_with("/v1/symbols/uploads/7") => (200, done.clone()),
        _ => (404, r#"{"title":"Not found"}"#.to_owned()),
    })
}

#[test]
fn the_commit_of_a_build_is_kept_and_the_password_of_its_repository_stays_here() {
    const ID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    const GITLAB: [(&str, &str); 3] = [
        ("CI_COMMIT_SHA", "3f2a9c1d0e4b5a6978f1e2d3c4b5a69788796a5b"),
        ("CI_PROJECT_URL", "https://gitlab-ci-token:hunter2@gitlab.com/example/shop"),
        ("CI_MERGE_REQUEST_IID", "7"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = files(&folder, 1).remove(0);
    let send = |api: &Api, more: &[&str]| {
        let arguments = [&["upload", file.to_str().unwrap()], more].concat();
        let server = [("UNSLIDE_URL", api.url.as_str()), ("UNSLIDE_API_KEY", "x")];
        let done = unslide(&arguments, &[&server[..], &GITLAB].concat());
        let commits = api.asked().into_iter().filter(|asked| asked.line == "PUT /v1/builds/commit");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let bodies: Vec<Value> = commits.map(|asked| serde_json::from_str(&asked.body).unwrap()).collect();
        (done.status.code(), text(done.stdout), text(done.stderr), bodies)
    };
    let (code, output, error, sent) = send(&building_api(ID, true), &[]);
    assert_eq!((code, sent.len()), (Some(0), 1), "{error}");
    assert!(output.contains("the commit 3f2a9c1d0e4b is kept with 1 build"), "{output}");
    assert!(error.contains("is sent without the user name, password or token in it"), "{error}");
    assert!(!format!("{output}{error}{sent:?}").contains("hunter2"));
    assert_eq!(sent[0]["repository"], "https://gitlab.com/example/shop");
    assert_eq!((&sent[0]["debug_ids"][0], &sent[0]["pull_request"]), (&ID.into(), &7.into()));
    // Options win, and no commit is sent on request or by a look.
    let given =
        ["--commit", "0A1B2C3", "--repository", "git@github.com:example/shop.git", "--pull-request", "9"];
    let (_, _, error, sent) = send(&building_api(ID, true), &given);
    assert_eq!((&sent[0]["commit"], &sent[0]["pull_request"]), (&"0a1b2c3".into(), &9.into()), "{error}");
    assert_eq!(sent[0]["repository"], "git@github.com:example/shop.git");
    for none in ["--no-commit", "--dry-run"] {
        assert!(send(&building_api(ID, true), &[none]).3.is_empty(), "{none}");
    }
    // An older API has no such operation: the symbols are uploaded.
    let (code, _, error, _) = send(&building_api(ID, false), &[]);
    assert!(code == Some(0) && error.contains("the commit is not kept: "), "{error}");
    let (code, _, error, _) = send(&building_api(ID, true), &["--commit", "main"]);
    assert!(code == Some(2) && error.contains("7 to 64 hexadecimal digits"), "{error}");
}
