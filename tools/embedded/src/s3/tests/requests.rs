//! Requests over a connection, written by hand.

use crate::S3Endpoint;
use crate::s3::signature::{compute_mac, derive_key, hex, write_canonical};
use hmac::Mac;
use hyper::Request;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unslide_model::{Clock, SystemClock};

const SCOPE_END: &str = "us-east-1/s3/aws4_request";

struct Server {
    endpoint: S3Endpoint,
    folder: TempDir,
}

/// A request with its signature, as bytes without a body.
struct Signed {
    head: String,
    date: String,
    scope: String,
    signing_key: [u8; 32],
    signature: String,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        Server { endpoint: S3Endpoint::start(folder.path(), "bucket").unwrap(), folder }
    }

    fn sign(&self, method: &str, uri: &str, body: &str, headers: &[(&str, &str)]) -> Signed {
        let now = SystemClock.now();
        let (hour, minute, second) = now.to_hms();
        let date = format!("{}T{hour:02}{minute:02}{second:02}Z", now.date().to_string().replace('-', ""));
        let mut headers = headers.to_vec();
        headers.extend([("host", "localhost"), ("x-amz-content-sha256", body), ("x-amz-date", &date)]);
        headers.sort_unstable();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let scope = format!("{}/{SCOPE_END}", date.split('T').next().unwrap());
        let hash = hex(&Sha256::digest(write_canonical(&parts, &names, body)));
        let signing_key = derive_key(&self.endpoint.secret_key, &scope);
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
        let signature = hex(&compute_mac(&signing_key, &text).finalize().into_bytes());
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let credential = format!("{}/{scope}", self.endpoint.access_key);
        let head = format!(
            "{method} {uri} HTTP/1.1\r\n{lines}authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, \
             Signature={signature}\r\nconnection: close\r\n"
        );
        Signed { head, date, scope, signing_key, signature }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.endpoint.url().trim_start_matches("http://")).await.unwrap()
    }

    /// Sends a request with these bytes behind its headers. Returns the whole answer.
    async fn send(&self, head: &str, body: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(&[head.as_bytes(), b"\r\n", body].concat()).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request without a body.
    async fn ask(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> String {
        self.send(&self.sign(method, uri, "UNSIGNED-PAYLOAD", headers).head, b"").await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("s3").join(name)
    }
}

fn count_files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[track_caller]
fn assert_answer(answer: &str, status: u16, code: &str) {
    let start = format!("HTTP/1.1 {status} ");
    assert!(
        answer.starts_with(&start) && answer.contains(&format!("<Code>{code}</Code>")),
        "{code}: {answer}"
    );
}

#[tokio::test]
async fn a_body_that_is_not_the_announced_one_is_not_stored() {
    let server = Server::start();
    let hash = hex(&Sha256::digest(b"hello"));
    let put = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("content-length", "5")]].concat();
        server.sign("PUT", "/bucket/a", &hash, &headers).head
    };
    assert_answer(&server.send(&put(&[]), b"hellO").await, 400, "XAmzContentSHA256Mismatch");
    for (name, value) in [
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-checksum-crc32c", "AAAAAA=="),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ("x-amz-checksum-sha256", "AAAA"),
    ] {
        assert_answer(&server.send(&put(&[(name, value)]), b"hello").await, 400, "BadDigest");
    }
    assert_answer(
        &server.send(&put(&[("x-amz-checksum-sha1", "AAAA")]), b"hello").await,
        501,
        "NotImplemented",
    );
    assert_answer(&server.send(&put(&[("content-md5", "AAAA")]), b"hello").await, 400, "InvalidArgument");
    assert_eq!(count_files(&server.path("bucket")), 0);
    assert_eq!((count_files(&server.path(".writing")), count_files(&server.path(".facts"))), (0, 0));

    for (name, value) in [
        ("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="),
        ("x-amz-checksum-crc32", "NhCmhg=="),
        ("x-amz-checksum-crc32c", "mnG7TA=="),
        ("x-amz-checksum-sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
    ] {
        let answer = server.send(&put(&[(name, value)]), b"hello").await;
        assert!(answer.contains("etag: \"5d41402abc4b2a76b9719d911017c592\""), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    let server = Server::start();
    let head = server.sign("PUT", "/bucket/a", "UNSIGNED-PAYLOAD", &[("content-length", "4000000")]).head;
    let mut socket = server.connect().await;
    socket.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    socket.write_all(&vec![7; 3_000_000]).await.unwrap();
    while count_files(&server.path(".writing")) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(socket);
    while count_files(&server.path(".writing")) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((count_files(&server.path("bucket")), count_files(&server.path(".facts"))), (0, 0));
}

#[tokio::test]
async fn chunks_and_their_trailer_are_signed_one_after_the_other() {
    let server = Server::start();
    let headers = [
        ("content-encoding", "aws-chunked"),
        ("content-length", "298"),
        ("x-amz-decoded-content-length", "5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    let chunked = |checksum: &str, change: fn(String) -> String| {
        let streaming = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
        let signed = server.sign("PUT", "/bucket/a", streaming, &headers);
        let (none, mut former) = (hex(&Sha256::digest(b"")), signed.signature);
        let mut sign = |kind: &str, hashes: String| {
            let text =
                format!("AWS4-HMAC-SHA256-{kind}\n{}\n{}\n{former}\n{hashes}", signed.date, signed.scope);
            former = hex(&compute_mac(&signed.signing_key, &text).finalize().into_bytes());
            former.clone()
        };
        let first = sign("PAYLOAD", format!("{none}\n{}", hex(&Sha256::digest(b"hello"))));
        let last = sign("PAYLOAD", format!("{none}\n{none}"));
        let trailer = format!("x-amz-checksum-crc32:{checksum}");
        let of_trailer = sign("TRAILER", hex(&Sha256::digest(format!("{trailer}\n"))));
        let body = format!(
            "5;chunk-signature={first}\r\nhello\r\n0;chunk-signature={last}\r\n{trailer}\r\n\
             x-amz-trailer-signature:{of_trailer}\r\n\r\n"
        );
        assert_eq!(body.len(), 298, "the length is signed");
        (signed.head, change(body))
    };
    let send = async |checksum: &str, change: fn(String) -> String| {
        let (head, body) = chunked(checksum, change);
        server.send(&head, body.as_bytes()).await
    };
    assert_answer(
        &send("NhCmhg==", |body| body.replace("hello", "hellO")).await,
        403,
        "SignatureDoesNotMatch",
    );
    assert_answer(&send("NhCmhg==", |body| body.replace("NhCm", "NhCn")).await, 403, "SignatureDoesNotMatch");
    assert_answer(&send("NhCmhw==", |body| body).await, 400, "BadDigest");
    assert_eq!(count_files(&server.path("bucket")), 0);
    let answer = send("NhCmhg==", |body| body).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(std::fs::read(server.path("bucket/a")).unwrap(), b"hello");
    // The encoding of the request is none of the object.
    let answer = server.ask("GET", "/bucket/a", &[]).await;
    assert!(answer.ends_with("\r\n\r\nhello") && !answer.contains("aws-chunked"), "{answer}");
}

#[tokio::test]
async fn requests_that_are_not_served_say_so() {
    let server = Server::start();
    for (method, uri, headers, status, code) in [
        ("GET", "/", &[][..], 501, "NotImplemented"),
        ("GET", "/bucket", &[], 501, "NotImplemented"),
        ("PUT", "/bucket", &[("content-length", "0")], 501, "NotImplemented"),
        ("GET", "/bucket?list-type=2&versions", &[], 501, "NotImplemented"),
        ("GET", "/bucket/a?versionId=1", &[], 501, "NotImplemented"),
        ("PUT", "/bucket/a?acl", &[("content-length", "0")], 501, "NotImplemented"),
        (
            "PUT",
            "/bucket/a",
            &[("content-length", "0"), ("x-amz-copy-source", "/bucket/b")],
            501,
            "NotImplemented",
        ),
        ("PUT", "/bucket/a", &[], 411, "MissingContentLength"),
        ("PUT", "/bucket/a", &[("content-length", "5368709121")], 400, "EntityTooLarge"),
        ("PATCH", "/bucket/a", &[], 405, "MethodNotAllowed"),
        ("GET", "/nowhere/a", &[], 404, "NoSuchBucket"),
        ("GET", "/.facts/a", &[], 404, "NoSuchBucket"),
        ("GET", "/../bucket", &[], 404, "NoSuchBucket"),
        ("GET", "/bucket/a", &[], 404, "NoSuchKey"),
        ("GET", "/bucket/%ff", &[], 400, "InvalidArgument"),
        ("GET", "/bucket?list-type=2&continuation-token=x", &[], 400, "InvalidArgument"),
        ("GET", "/bucket?list-type=2&max-keys=many", &[], 400, "InvalidArgument"),
        ("PUT", "/bucket/a?partNumber=0&uploadId=a", &[("content-length", "0")], 400, "InvalidArgument"),
        ("PUT", "/bucket/a?partNumber=1&uploadId=../a", &[("content-length", "0")], 404, "NoSuchUpload"),
        ("DELETE", "/bucket/a?uploadId=a", &[], 404, "NoSuchUpload"),
    ] {
        assert_answer(&server.ask(method, uri, headers).await, status, code);
    }
    let long = format!("/bucket/{}", "a".repeat(1_025));
    assert_answer(&server.ask("GET", &long, &[]).await, 400, "KeyTooLongError");
    let metadata = "a".repeat(2_100);
    let headers = [("content-length", "0"), ("x-amz-meta-a", metadata.as_str())];
    assert_answer(&server.ask("PUT", "/bucket/a", &headers).await, 400, "MetadataTooLarge");
    assert_answer(
        &server.send("GET /bucket/a HTTP/1.1\r\nconnection: close\r\n", b"").await,
        403,
        "AccessDenied",
    );
    let answer = server.ask("HEAD", "/bucket/a", &[]).await;
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}
