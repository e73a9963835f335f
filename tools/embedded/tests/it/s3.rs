//! The S3 endpoint, with Amazon's client.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tokio::task::JoinSet;
use unslide_embedded::S3Endpoint;

const BUCKET: &str = "bucket";
/// The least bytes of a part that is not the last.
const PART_BYTES: usize = 5 << 20;

struct Server {
    endpoint: S3Endpoint,
    client: Client,
    folder: TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = S3Endpoint::start(folder.path(), BUCKET).unwrap();
        let client = connect(&endpoint, &endpoint.access_key, &endpoint.secret_key);
        Server { endpoint, client, folder }
    }

    /// Stores an object. Returns its ETag.
    async fn put(&self, key: &str, body: &[u8]) -> String {
        let put = self.client.put_object().bucket(BUCKET).key(key).body(body.to_vec().into());
        put.send().await.unwrap().e_tag.unwrap()
    }

    async fn get(&self, key: &str) -> Result<Vec<u8>, String> {
        let got =
            self.client.get_object().bucket(BUCKET).key(key).send().await.map_err(|error| code(&error))?;
        Ok(got.body.collect().await.unwrap().to_vec())
    }

    async fn delete(&self, key: &str) {
        self.client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    }

    /// Returns the keys and common prefixes of a list, page by page.
    async fn list(&self, prefix: &str, delimiter: Option<&str>, page: i32) -> Vec<Vec<String>> {
        let list = self.client.list_objects_v2().bucket(BUCKET).prefix(prefix).max_keys(page);
        let mut pages = list.set_delimiter(delimiter.map(str::to_owned)).into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.unwrap();
            let keys = page.contents().iter().filter_map(|object| object.key());
            let prefixes = page.common_prefixes().iter().filter_map(|prefix| prefix.prefix());
            let mut lines: Vec<String> = keys.chain(prefixes).map(str::to_owned).collect();
            assert_eq!(usize::try_from(page.key_count().unwrap()).unwrap(), lines.len());
            lines.sort();
            all.push(lines);
        }
        all
    }

    async fn begin_upload(&self, key: &str) -> String {
        let begun = self.client.create_multipart_upload().bucket(BUCKET).key(key).metadata("quality", "4");
        begun.send().await.unwrap().upload_id.unwrap()
    }

    async fn put_part(&self, key: &str, id: &str, number: i32, body: Vec<u8>) -> Result<String, String> {
        let part = self.client.upload_part().bucket(BUCKET).key(key).upload_id(id).part_number(number);
        let put = part.body(body.into()).send().await.map_err(|error| code(&error))?;
        Ok(put.e_tag.unwrap())
    }

    async fn complete(&self, key: &str, id: &str, parts: &[(i32, &str)]) -> Result<String, String> {
        let parts = parts
            .iter()
            .map(|(number, etag)| CompletedPart::builder().part_number(*number).e_tag(*etag).build());
        let upload = CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build();
        let complete = self.client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(id);
        let completed = complete.multipart_upload(upload).send().await.map_err(|error| code(&error))?;
        Ok(completed.e_tag.unwrap())
    }

    fn count_files(&self, folder: &str) -> usize {
        fs::read_dir(self.folder.path().join("s3").join(folder)).unwrap().count()
    }
}

fn connect(endpoint: &S3Endpoint, access_key: &str, secret_key: &str) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint.url())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new(access_key, secret_key, None, None, "test"))
        .force_path_style(true)
        .build();
    Client::from_conf(config)
}

/// Returns the code of an error, or the status of an answer without a body.
fn code<E: ProvideErrorMetadata + std::error::Error + Debug + 'static>(
    error: &SdkError<E, aws_sdk_s3::config::http::HttpResponse>,
) -> String {
    let status = error.raw_response().map(|response| response.status().as_u16().to_string());
    let code = error.code().map(str::to_owned).or(status);
    code.unwrap_or_else(|| DisplayErrorContext(error).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_has_its_bytes_and_headers_until_it_is_deleted() {
    let server = Server::start();
    let put = server.client.put_object().bucket(BUCKET).key("a").body(b"0123456789".to_vec().into());
    let put =
        put.content_type("text/plain").metadata("quality", "4").metadata("of", "a b").send().await.unwrap();
    let etag = put.e_tag().unwrap();
    assert_eq!(etag, "\"781e5e245d69b566979b86e28d23f2c7\"");
    let head = server.client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(
        (head.content_length(), head.content_type(), head.e_tag()),
        (Some(10), Some("text/plain"), Some(etag))
    );
    assert_eq!(head.metadata().unwrap()["quality"], "4");
    assert_eq!(head.metadata().unwrap()["of"], "a b");
    assert!(head.last_modified().is_some());
    let range = async |range: &str| {
        let got = server.client.get_object().bucket(BUCKET).key("a").range(range).send().await;
        let got = got.map_err(|error| code(&error))?;
        let shown = got.content_range().map(str::to_owned);
        Ok::<_, String>((shown.unwrap_or_default(), got.body.collect().await.unwrap().to_vec()))
    };
    assert_eq!(range("bytes=2-4").await.unwrap(), ("bytes 2-4/10".to_owned(), b"234".to_vec()));
    assert_eq!(range("bytes=-3").await.unwrap(), ("bytes 7-9/10".to_owned(), b"789".to_vec()));
    assert_eq!(range("bytes=8-100").await.unwrap().1, b"89");
    assert_eq!(range("bytes=10-").await.unwrap_err(), "InvalidRange");
    let get = |matches: &str| server.client.get_object().bucket(BUCKET).key("a").if_match(matches);
    assert!(get(etag).send().await.is_ok());
    assert_eq!(
        get("\"other\"").send().await.map_err(|error| code(&error)).unwrap_err(),
        "PreconditionFailed"
    );
    server.put("empty", b"").await;
    assert_eq!(server.get("empty").await.unwrap(), b"");
    server.delete("a").await;
    server.delete("a").await;
    assert_eq!(server.get("a").await.unwrap_err(), "NoSuchKey");
    server.delete("empty").await;
    assert_eq!((server.count_files(BUCKET), server.count_files(".facts")), (0, 0));
    let head = server.client.head_object().bucket(BUCKET).key("a").send().await;
    assert_eq!(head.map_err(|error| code(&error)).unwrap_err(), "NotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_of_the_folder_is_valid_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s3-credentials"), "first secret-1\nsecond secret-2\n").unwrap();
    let endpoint = S3Endpoint::start(folder.path(), BUCKET).unwrap();
    assert_eq!((endpoint.access_key.as_str(), endpoint.secret_key.as_str()), ("first", "secret-1"));
    let head = async |access_key: &str, secret_key: &str| {
        let client = connect(&endpoint, access_key, secret_key);
        client.list_objects_v2().bucket(BUCKET).send().await.map(drop).map_err(|error| code(&error))
    };
    assert_eq!(head("first", "secret-1").await, Ok(()));
    assert_eq!(head("second", "secret-2").await, Ok(()));
    assert_eq!(head("first", "secret-2").await, Err("SignatureDoesNotMatch".to_owned()));
    assert_eq!(head("third", "secret-1").await, Err("InvalidAccessKeyId".to_owned()));
    // The port and the keys stay.
    let url = endpoint.url();
    endpoint.stop().await;
    assert_eq!(S3Endpoint::start(folder.path(), BUCKET).unwrap().url(), url);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_is_an_object_of_its_own_inside_the_folder() {
    let server = Server::start();
    let long = "\u{e4}/%".repeat(256);
    let name = "n".repeat(1_024);
    let name_on_disk = "n".repeat(240);
    let longer = format!("{name_on_disk}x");
    let mut keys = vec![
        "a",
        "a/b",
        "a/b/c",
        "a/",
        "a.b",
        "a-b",
        "a//b",
        "../outside",
        "..",
        ".",
        "/",
        "/etc",
        "b/../c",
        "%",
        "%2E",
        "%+/a",
        "\\",
        "\\+/a",
        "a/\\",
        "a b+\u{e4}&<x>",
        "\u{1F980}",
        "line\nbreak",
        "x?y=1#z",
        &long,
        &name,
        &longer,
        &name_on_disk,
    ];
    for key in &keys {
        server.put(key, key.as_bytes()).await;
    }
    for key in &keys {
        assert_eq!(server.get(key).await.as_deref(), Ok(key.as_bytes()), "{key}");
    }
    keys.sort_unstable();
    assert_eq!(server.list("", None, 1_000).await.concat(), keys);
    for page in [1, 2, 7] {
        assert_eq!(server.list("", None, page).await.concat(), keys, "pages of {page}");
    }
    let outside = fs::read_dir(server.folder.path())
        .unwrap()
        .chain(fs::read_dir(server.folder.path().join("s3")).unwrap());
    let mut names: Vec<_> = outside.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".facts", ".uploads", ".writing", "bucket", "s3", "s3-credentials", "s3-port"]);
    // A key goes without the keys below it, and the other way round.
    server.delete("a").await;
    assert_eq!(server.get("a").await.unwrap_err(), "NoSuchKey");
    assert_eq!(server.get("a/b").await.unwrap(), b"a/b");
    server.delete("a/b/c").await;
    assert_eq!(server.get("a/b").await.unwrap(), b"a/b");
    for key in &keys {
        server.delete(key).await;
    }
    assert_eq!((server.count_files(BUCKET), server.count_files(".facts")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_each_key_once_in_pages() {
    let server = Server::start();
    let mut keys: Vec<String> = (0..2_500).map(|n| format!("builds/{:02}/{n:04}", n % 40)).collect();
    keys.extend([
        "builds".to_owned(),
        "builds-old/a".to_owned(),
        "builds/7".to_owned(),
        "other/a".to_owned(),
    ]);
    let mut puts = JoinSet::new();
    for chunk in keys.chunks(700) {
        let (client, chunk) = (server.client.clone(), chunk.to_vec());
        puts.spawn(async move {
            for key in chunk {
                client.put_object().bucket(BUCKET).key(key).body(b"x".to_vec().into()).send().await.unwrap();
            }
        });
    }
    puts.join_all().await;
    keys.sort();
    let pages = server.list("", None, 1_000).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 504]);
    assert_eq!(pages.concat(), keys);
    let of_folder = keys.iter().filter(|key| key.starts_with("builds/1")).cloned().collect::<Vec<_>>();
    assert_eq!(server.list("builds/1", None, 99).await.concat(), of_folder);
    assert_eq!(
        server.list("", Some("/"), 1_000).await.concat(),
        ["builds", "builds-old/", "builds/", "other/"]
    );
    assert_eq!(server.list("", Some("/"), 1).await.concat(), ["builds", "builds-old/", "builds/", "other/"]);
    let mut folders: Vec<_> =
        (0..40).map(|n| format!("builds/{n:02}/")).chain(["builds/7".to_owned()]).collect();
    folders.sort();
    for page in [1, 7, 40, 1_000] {
        assert_eq!(server.list("builds/", Some("/"), page).await.concat(), folders, "pages of {page}");
    }
    assert_eq!(server.list("builds/0", Some("0"), 1_000).await.concat()[..2], ["builds/00", "builds/01/0"]);
    assert!(server.list("nothing/at/all", None, 10).await.concat().is_empty());
    assert!(server.list("builds/7/", None, 10).await.concat().is_empty());
    let after = |key: &str| server.client.list_objects_v2().bucket(BUCKET).start_after(key).max_keys(1);
    let next = after("builds/7").send().await.unwrap();
    assert_eq!((next.contents()[0].key(), next.is_truncated()), (Some("other/a"), Some(false)));
    assert_eq!(next.contents()[0].size(), Some(1));
    assert!(next.contents()[0].last_modified().is_some() && next.contents()[0].e_tag().is_some());
    let none = server.client.list_objects_v2().bucket(BUCKET).max_keys(0).send().await.unwrap();
    assert_eq!((none.key_count(), none.is_truncated()), (Some(0), Some(false)));
    let encoded = server.client.list_objects_v2().bucket(BUCKET).prefix("builds-old/");
    let encoded = encoded.encoding_type(aws_sdk_s3::types::EncodingType::Url).send().await.unwrap();
    assert_eq!(encoded.contents()[0].key(), Some("builds-old%2Fa"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_writers_of_a_new_key_succeeds() {
    let server = Server::start();
    let mut puts = JoinSet::new();
    for writer in 0..20_u8 {
        let put = server
            .client
            .put_object()
            .bucket(BUCKET)
            .key("lock")
            .if_none_match("*")
            .body(vec![writer].into());
        puts.spawn(async move { put.send().await.map_err(|error| code(&error)).map(|_| writer) });
    }
    let (stored, refused): (Vec<_>, Vec<_>) = puts.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((stored.len(), refused.len()), (1, 19));
    assert!(refused.iter().all(|refused| refused == &Err("PreconditionFailed".to_owned())), "{refused:?}");
    assert_eq!(server.get("lock").await.unwrap(), [stored[0].clone().unwrap()]);

    // Of writers that replace what they read, one succeeds each time.
    let etag = server.put("count", b"0").await;
    let replace = |etag: &str| {
        server.client.put_object().bucket(BUCKET).key("count").if_match(etag).body(b"1".to_vec().into())
    };
    assert!(replace(&etag).send().await.is_ok());
    assert_eq!(replace(&etag).send().await.map_err(|error| code(&error)).unwrap_err(), "PreconditionFailed");
    server.delete("count").await;
    assert_eq!(replace(&etag).send().await.map_err(|error| code(&error)).unwrap_err(), "NoSuchKey");
    assert_eq!(server.count_files(".facts"), 1);
}

/// A reader sees one of the objects, whole and with its own metadata.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_replaced_at_once() {
    let server = Server::start();
    let put = |writer: u8| {
        let put = server.client.put_object().bucket(BUCKET).key("a/b").metadata("writer", writer.to_string());
        put.body(vec![writer; 10_000 + usize::from(writer)].into())
    };
    put(0).send().await.unwrap();
    let mut tasks = JoinSet::new();
    for writer in 1..5_u8 {
        let puts: Vec<_> = (0..50).map(|_| put(writer)).collect();
        tasks.spawn(async move {
            for put in puts {
                put.send().await.unwrap();
            }
        });
    }
    let deleted = server.client.clone();
    tasks.spawn(async move {
        for _ in 0..50 {
            // The folder of the object comes and goes, and the object of the folder.
            deleted
                .put_object()
                .bucket(BUCKET)
                .key("a")
                .body(b"folder".to_vec().into())
                .send()
                .await
                .unwrap();
            deleted.delete_object().bucket(BUCKET).key("a").send().await.unwrap();
        }
    });
    while !tasks.is_empty() {
        let got = server.client.get_object().bucket(BUCKET).key("a/b").send().await.unwrap();
        let writer: u8 = got.metadata().unwrap()["writer"].parse().unwrap();
        let body = got.body.collect().await.unwrap().to_vec();
        assert_eq!(body, vec![writer; 10_000 + usize::from(writer)]);
        while let Some(ended) = tasks.try_join_next() {
            ended.unwrap();
        }
    }
    assert_eq!((server.count_files(".facts"), server.count_files(".writing")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_sent_in_chunks_with_a_checksum_behind_them() {
    let server = Server::start();
    let (path, bytes) =
        (server.folder.path().join("file"), (0..3_000_001).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    fs::write(&path, &bytes).unwrap();
    let body = ByteStream::from_path(&path).await.unwrap();
    let put = server.client.put_object().bucket(BUCKET).key("file").body(body).send().await.unwrap();
    assert!(put.e_tag().is_some());
    assert!(server.get("file").await.unwrap() == bytes);
    assert!(
        fs::read(server.folder.path().join("s3/bucket/file")).unwrap() == bytes,
        "the file has the bytes"
    );
}

/// People and tests may place files by hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_the_folder_is_an_object() {
    let server = Server::start();
    let folder = server.folder.path().join("s3/bucket/by/hand");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("file"), b"placed").unwrap();
    assert_eq!(server.get("by/hand/file").await.unwrap(), b"placed");
    assert_eq!(server.list("by/", None, 10).await.concat(), ["by/hand/file"]);
    let head = server.client.head_object().bucket(BUCKET).key("by/hand/file").send().await.unwrap();
    let put = server.client.put_object().bucket(BUCKET).key("by/hand/file").if_match(head.e_tag().unwrap());
    put.body(b"replaced".to_vec().into()).send().await.unwrap();
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"replaced");
    server.delete("by/hand/file").await;
    assert!(!folder.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_become_an_object_once_they_are_complete() {
    let server = Server::start();
    let key = "upload/a b";
    let id = server.begin_upload(key).await;
    let last = server.put_part(key, &id, 7, vec![7; 17]).await.unwrap();
    let replaced = server.put_part(key, &id, 1, vec![9; PART_BYTES]).await.unwrap();
    let first = server.put_part(key, &id, 1, vec![1; PART_BYTES]).await.unwrap();
    let small = server.put_part(key, &id, 2, vec![2; 10]).await.unwrap();
    assert_eq!(server.get(key).await.unwrap_err(), "NoSuchKey");
    for (parts, refused) in [
        (&[(1, first.as_str()), (3, &last)][..], "InvalidPart"),
        (&[(1, &replaced), (7, &last)], "InvalidPart"),
        (&[(1, &first), (7, "\"other\"")], "InvalidPart"),
        (&[(7, &last), (1, &first)], "InvalidPartOrder"),
        (&[(1, &first), (1, &first)], "InvalidPartOrder"),
        (&[(1, &first), (2, &small), (7, &last)], "EntityTooSmall"),
        (&[], "MalformedXML"),
    ] {
        assert_eq!(server.complete(key, &id, parts).await.unwrap_err(), refused, "{parts:?}");
    }
    for (other_key, other_id) in
        [("other", id.as_str()), (key, "0"), (key, "../bucket"), (key, &"0".repeat(32))]
    {
        let refused = server.complete(other_key, other_id, &[(1, &first)]).await.unwrap_err();
        assert_eq!(refused, "NoSuchUpload", "{other_id}");
    }
    let etag = server.complete(key, &id, &[(1, &first), (7, &last)]).await.unwrap();
    // As the SDKs of AWS compute it: MD5 of the MD5s of the parts.
    assert!(etag.ends_with("-2\"") && etag.len() == 36, "{etag}");
    let got = server.client.get_object().bucket(BUCKET).key(key).send().await.unwrap();
    assert_eq!((got.e_tag(), got.metadata().unwrap()["quality"].as_str()), (Some(etag.as_str()), "4"));
    let body = got.body.collect().await.unwrap().to_vec();
    assert!(body == [vec![1; PART_BYTES], vec![7; 17]].concat());
    assert_eq!(server.complete(key, &id, &[(1, &first)]).await.unwrap_err(), "NoSuchUpload");
    assert_eq!(server.put_part(key, &id, 1, vec![1]).await.unwrap_err(), "NoSuchUpload");
    let left = [".uploads", ".writing", ".facts"].map(|folder| server.count_files(folder));
    assert_eq!(left, [0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_holds_for_parts_too_and_an_aborted_upload_leaves_nothing() {
    let server = Server::start();
    server.put("a", b"there").await;
    let id = server.begin_upload("a").await;
    let part = server.put_part("a", &id, 1, b"part".to_vec()).await.unwrap();
    let upload = CompletedMultipartUpload::builder();
    let upload = upload.parts(CompletedPart::builder().part_number(1).e_tag(&part).build()).build();
    let complete = server
        .client
        .complete_multipart_upload()
        .bucket(BUCKET)
        .key("a")
        .upload_id(&id)
        .multipart_upload(upload);
    let refused = complete.if_none_match("*").send().await.map_err(|error| code(&error));
    assert_eq!(refused.unwrap_err(), "PreconditionFailed");
    assert_eq!(server.get("a").await.unwrap(), b"there");
    let abort = async || {
        let abort = server.client.abort_multipart_upload().bucket(BUCKET).key("a").upload_id(&id);
        abort.send().await.map(drop).map_err(|error| code(&error))
    };
    assert_eq!(abort().await, Ok(()));
    assert_eq!(abort().await, Err("NoSuchUpload".to_owned()));
    assert_eq!(server.put_part("a", &id, 2, b"part".to_vec()).await.unwrap_err(), "NoSuchUpload");
    let left = [".uploads", ".writing", ".facts"].map(|folder| server.count_files(folder));
    assert_eq!(left, [0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_deletes_what_was_not_complete_and_keeps_everything_else() {
    let server = Server::start();
    let put = server.client.put_object().bucket(BUCKET).key("a").metadata("quality", "4");
    put.body(b"kept".to_vec().into()).send().await.unwrap();
    let id = server.begin_upload("b").await;
    let part = server.put_part("b", &id, 1, b"part".to_vec()).await.unwrap();
    let Server { endpoint, folder, .. } = server;
    endpoint.stop().await;
    let writing: &Path = &folder.path().join("s3/.writing");
    fs::write(writing.join("half"), b"half").unwrap();
    let endpoint = S3Endpoint::start(folder.path(), BUCKET).unwrap();
    let client = connect(&endpoint, &endpoint.access_key, &endpoint.secret_key);
    let server = Server { endpoint, client, folder };
    assert_eq!(server.count_files(".writing"), 0);
    let head = server.client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(head.metadata().unwrap()["quality"], "4");
    server.complete("b", &id, &[(1, &part)]).await.unwrap();
    assert_eq!(server.get("b").await.unwrap(), b"part");
}
