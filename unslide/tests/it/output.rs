//! What commands print, where nobody reads it or a terminal would obey it.

use crate::api::Api;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// A place to write to that nobody reads.
fn closed() -> Stdio {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    Stdio::from(OwnedFd::from(ours))
}

fn unslide(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unslide"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSLIDE_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("UNSLIDE_API_KEY", "x").stdin(Stdio::null());
    command
}

#[test]
fn a_command_that_lists_ends_quietly_where_nobody_reads() {
    let id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    for arguments in [
        &["version"][..],
        &["symbols", "check", "--dry-run", id],
        &["upload", "--help"],
        &["config", "check"],
    ] {
        let done = unslide(arguments).stdout(closed()).stderr(Stdio::piped()).output().unwrap();
        let expected = if arguments[0] == "config" { 2 } else { 0 };
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), error.as_str()), (Some(expected), ""), "{arguments:?}");
        let status = unslide(arguments).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn an_export_is_read_no_further_than_it_is_printed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert!(connection.read(&mut request).unwrap() > 0);
        connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").unwrap();
        // More than buffers take.
        (0..4_000).any(|_| connection.write_all(&b"a,line\n".repeat(10_000)).is_err())
    });
    let mut command = unslide(&["reports", "--csv", "--url", &url]);
    let mut export = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 7];
    export.stdout.take().unwrap().read_exact(&mut line).unwrap();
    assert_eq!((&line, export.wait().unwrap().code()), (b"a,line\n", Some(0)));
    assert!(server.join().unwrap(), "the whole list was read");
}

#[test]
fn an_upload_sends_every_file_where_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..5).map(|n| folder.path().join(format!("{n}.zip"))).collect();
    for (n, file) in files.iter().enumerate() {
        std::fs::write(file, format!("PK\x03\x04 {n}")).unwrap();
    }
    for error in [Stdio::null(), closed()] {
        let api = Api::empty("");
        let mut command = unslide(&["upload", "--jobs", "1", "--url", &api.url]);
        let status = command.args(&files).stdout(closed()).stderr(error).status().unwrap();
        assert_eq!((status.code(), api.count("POST")), (Some(0), 5));
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let done = unslide(&["version"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8(done.stderr).unwrap().contains("cannot write the output"));
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("A\u{1b}[2J.zip");
    std::fs::write(&file, b"PK\x03\x04").unwrap();
    let other = folder.path().join("D\u{1b}[2J");
    std::fs::write(&other, b"text").unwrap();
    let api = Api::empty(r#"{"path":"B\u001b]0;x\u0007\u009b","reason":"link","detail":"C\u001b[1m"}"#);
    for more in [&[][..], &["--json"], &["--dry-run"]] {
        let mut command = unslide(&["upload", "--url", &api.url]);
        let done = command.args(more).arg(&file).arg(&other).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert!(said.contains("[2J.zip") && said.contains("D\\u{1b}[2J"), "{said:?}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    }
}
