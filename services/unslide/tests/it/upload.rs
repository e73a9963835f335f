//! `unslide upload` before an api that has one answer.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

/// An api that has the upload already, and passed this over in it. Gives its address.
fn api(skipped: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let object = r#"{"sha256":"0","arch":"arm64","status":"ready"}"#;
    let body = format!(r#"{{"id":"7","status":"done","objects":[{object}],"skipped":[{skipped}]}}"#);
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let request = BufReader::new(connection.try_clone().unwrap());
            // To the end of the head; there is no body.
            request.lines().map_while(Result::ok).find(String::is_empty);
            connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
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
    assert!(text.contains("App.zip: passed over: App.framework/App: links are not followed\n"), "{text}");
    let (code, text) = upload(&format!("{link},{locked}"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("App.zip: passed over: App.dSYM/App: encrypted\n"), "{text}");
    assert!(text.contains("0 uploaded, 0 known before, 1 failed"), "{text}");
}
