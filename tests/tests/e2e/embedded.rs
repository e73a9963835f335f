//! The embedded default, from the outside: what the demo shows, who may talk to the servers, and that
//! nothing stays behind.

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use unslide_tests::binary;
use unslide_tests::topics::Topics;

/// Processes that work in the folder, or were started with it.
fn at_work_in(folder: &Path) -> Vec<String> {
    let wanted = folder.to_str().expect("a path");
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let of = |entry: std::fs::DirEntry| {
        let line = String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).ok()?).into_owned();
        let at = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        (at.starts_with(folder) || line.contains(wanted)).then(|| line.replace('\0', " "))
    };
    processes.filter_map(of).collect()
}

#[test]
fn the_demo_shows_names_and_lines_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let done = binary::build_command(&["demo", "--data-dir", data.to_str().expect("a path")])
        .stdin(Stdio::null())
        .output()
        .expect("starts");
    let page = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{page}\n{}", String::from_utf8_lossy(&done.stderr));
    let (before, after) = page.split_once("as Unslide published it").expect("both");
    assert!(
        before.contains("as the device sent it") && !before.contains(".swift:") && !before.contains(".cpp:")
    );
    let named = after.lines().filter(|line| line.contains('(') && !line.contains("(symbols")).count();
    assert!(named >= 3 && after.contains("[inlined]"), "{after}");
    assert!(after.contains("/v1/reports/"), "{after}");
    assert_eq!(at_work_in(&data), Vec::<String>::new());
}

/// Amazon's own client of an S3 endpoint, as anybody would set it up.
fn s3_client(endpoint: &str, access_key: &str, secret_key: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(access_key, secret_key, None, None, "test"))
        .force_path_style(true)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// Puts an object, finds it in the list, reads it and takes it away.
async fn use_bucket(client: &aws_sdk_s3::Client, bucket: &str) {
    let (key, body) = ("notes/a b+\u{e4}.txt", b"kept by the embedded endpoint");
    let put = client.put_object().bucket(bucket).key(key).body(ByteStream::from_static(body)).send().await;
    put.expect("put");
    let list = client.list_objects_v2().bucket(bucket).prefix("notes/").send().await.expect("a list");
    assert_eq!(list.contents().iter().map(|object| object.key()).collect::<Vec<_>>(), [Some(key)]);
    let read =
        client.get_object().bucket(bucket).key(key).range("bytes=8-9").send().await.expect("an object");
    assert_eq!(read.body.collect().await.expect("a body").into_bytes(), body[8..10].to_vec());
    client.delete_object().bucket(bucket).key(key).send().await.expect("deleted");
    let gone = client.get_object().bucket(bucket).key(key).send().await.expect_err("it is gone");
    assert_eq!(gone.code(), Some("NoSuchKey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_client_may_talk_to_the_embedded_servers_and_ctrl_c_ends_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, unslide_embedded::free_port().expect("a port")));
    let mut child = binary::build_command(&["dev", "--json", "--listen", "127.0.0.1:0"])
        .arg("--data-dir")
        .arg(&data)
        .arg("--kafka-listen")
        .arg(free.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let facts: serde_json::Value = serde_json::from_str(&line).expect("one line of JSON");
    let fact = |name: &str| facts[name].as_str().unwrap_or_else(|| panic!("no {name} in {facts}"));
    assert_eq!(fact("kafka_bootstrap"), free.to_string());

    let topics = Topics::connect(fact("kafka_bootstrap"));
    topics
        .produce_record("crash.reports", None, &[("tenant", fact("tenant"))], b"{\"report\":{\"id\":\"x\"}}")
        .await;

    let (endpoint, bucket) = (fact("s3_endpoint"), fact("s3_bucket"));
    use_bucket(&s3_client(endpoint, fact("s3_access_key"), fact("s3_secret_key")), bucket).await;
    let stranger = s3_client(endpoint, fact("s3_access_key"), "guessed");
    let refused = stranger.list_objects_v2().bucket(bucket).send().await.expect_err("another secret");
    assert_eq!(refused.code(), Some("SignatureDoesNotMatch"));

    assert!(!at_work_in(&data).is_empty());
    let id = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(id), Signal::SIGINT).expect("sent");
    assert!(tokio::task::block_in_place(|| child.wait()).expect("ends").success());
    assert_eq!(at_work_in(&data), Vec::<String>::new());
}
