//! Lists the keys of a bucket, in the order of their bytes.

use super::body::{Body, S3Answer};
use super::error::S3Error;
use super::folder::Folder;
use super::names::{self, DiskName, OWN_FILE};
use super::request::UrlQuery;
use super::signature::{self, SIGNED_QUERY};
use super::{run_blocking, xml};
use hyper::Response;
use hyper::header::CONTENT_TYPE;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::OffsetDateTime;

/// The most keys of one answer, as of S3.
const KEYS_LIMIT: usize = 1_000;

/// The parameters of a list.
struct ListQuery {
    prefix: String,
    delimiter: String,
    /// The last key or common prefix that is not listed, empty for none.
    after: String,
    /// True if the former page ended there, and not the client chose it.
    is_next_page: bool,
    max_keys: usize,
    is_url_encoded: bool,
}

/// One line of a list.
enum Item {
    Object { key: String, size: u64, modified: i64, etag: String },
    CommonPrefix(String),
}

/// A file or folder below the bucket.
struct Entry {
    /// The key, or the beginning of all keys in the folder.
    key: String,
    path: PathBuf,
    is_folder: bool,
}

/// One walk through a bucket.
struct Walk<'w> {
    folder: &'w Folder,
    query: &'w ListQuery,
    items: Vec<Item>,
    is_truncated: bool,
}

pub(super) async fn list_objects(
    folder: Arc<Folder>,
    bucket: PathBuf,
    query: &UrlQuery,
) -> Result<S3Answer, S3Error> {
    let list = ListQuery::read(query)?;
    run_blocking(move || {
        let mut walk = Walk { folder: &folder, query: &list, items: Vec::new(), is_truncated: false };
        let start = names::prefix_folder(&bucket, &list.prefix);
        let base = list.prefix.rfind('/').and_then(|slash| list.prefix.get(..=slash)).unwrap_or_default();
        if list.max_keys > 0 {
            walk.list_folder(&start, base)?;
        }
        let name = bucket.file_name().unwrap_or_default().to_string_lossy();
        let mut answer = Response::new(Body::from_text(write_list(&name, &list, &walk)));
        answer.headers_mut().insert(CONTENT_TYPE, xml::CONTENT_TYPE);
        Ok(answer)
    })
    .await
}

impl ListQuery {
    fn read(query: &UrlQuery) -> Result<ListQuery, S3Error> {
        let text = |name| query.find(name).unwrap_or_default().to_owned();
        let token = query.find("continuation-token").map(|token| {
            let text = signature::read_hex(token).and_then(|bytes| String::from_utf8(bytes).ok());
            text.ok_or(S3Error::InvalidArgument("the continuation token is none of this endpoint"))
        });
        let token = token.transpose()?;
        let max_keys = query.find("max-keys").map_or(Ok(KEYS_LIMIT), str::parse);
        Ok(ListQuery {
            prefix: text("prefix"),
            delimiter: text("delimiter"),
            is_next_page: token.is_some(),
            after: token.unwrap_or_else(|| text("start-after")),
            max_keys: max_keys
                .map_err(|_| S3Error::InvalidArgument("max-keys is no number"))?
                .min(KEYS_LIMIT),
            is_url_encoded: query.find("encoding-type") == Some("url"),
        })
    }

    /// Returns the common prefix that stands for a key.
    fn group<'k>(&self, key: &'k str) -> Option<&'k str> {
        let rest = key.strip_prefix(self.prefix.as_str()).filter(|_| !self.delimiter.is_empty())?;
        let end = self.prefix.len() + rest.find(&self.delimiter)? + self.delimiter.len();
        key.get(..end)
    }

    /// Returns true if the answer has the key, or its common prefix.
    fn includes(&self, key: &str) -> bool {
        let line = self.group(key).filter(|_| self.is_next_page).unwrap_or(key);
        key.starts_with(&self.prefix) && line > self.after.as_str()
    }

    /// Returns true if the answer may have keys that begin with this.
    fn may_include(&self, start: &str) -> bool {
        let is_before = start < self.after.as_str() && !self.after.starts_with(start);
        let is_listed =
            self.is_next_page && self.group(start).is_some_and(|group| group <= self.after.as_str());
        (start.starts_with(&self.prefix) || self.prefix.starts_with(start)) && !is_before && !is_listed
    }
}

impl Walk<'_> {
    /// Lists a folder whose keys begin with `base`.
    fn list_folder(&mut self, path: &Path, base: &str) -> io::Result<()> {
        let mut entries = Vec::new();
        self.read_folder(path, base, &mut entries)?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        for entry in entries {
            if let Some(Item::CommonPrefix(last)) = self.items.last()
                && entry.key.starts_with(last)
            {
                continue;
            }
            if entry.is_folder {
                self.list_folder(&entry.path, &entry.key)?;
            } else {
                self.list_object(entry)?;
            }
            if self.is_truncated {
                break;
            }
        }
        Ok(())
    }

    fn read_folder(&self, path: &Path, base: &str, entries: &mut Vec<Entry>) -> io::Result<()> {
        let files = match fs::read_dir(path) {
            Ok(files) => files,
            // Its last object was deleted.
            Err(error) if super::folder::is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for file in files {
            let file = file?;
            let name = match names::read_name(&file.file_name()) {
                Some(DiskName::Whole(name)) => name,
                Some(DiskName::Continued(first)) => {
                    self.read_folder(&file.path(), &format!("{base}{first}"), entries)?;
                    continue;
                }
                Some(DiskName::Own) | None => continue,
            };
            let key = format!("{base}{name}");
            if !file.file_type()?.is_dir() {
                entries.extend(self.query.includes(&key).then(|| Entry {
                    key,
                    path: file.path(),
                    is_folder: false,
                }));
                continue;
            }
            let (own, below) = (file.path().join(OWN_FILE), format!("{key}/"));
            if self.query.includes(&key) && own.is_file() {
                entries.push(Entry { key, path: own, is_folder: false });
            }
            let is_wanted = self.query.may_include(&below);
            entries.extend(is_wanted.then(|| Entry { key: below, path: file.path(), is_folder: true }));
        }
        Ok(())
    }

    fn list_object(&mut self, entry: Entry) -> io::Result<()> {
        let item = match self.query.group(&entry.key) {
            Some(group) => Item::CommonPrefix(group.to_owned()),
            None => match self.folder.open_object(&entry.path)? {
                Some(object) => {
                    let (size, modified, etag) = (object.size, object.modified, object.facts.etag);
                    Item::Object { key: entry.key, size, modified, etag }
                }
                // It was deleted just now.
                None => return Ok(()),
            },
        };
        self.is_truncated = self.items.len() == self.query.max_keys;
        if !self.is_truncated {
            self.items.push(item);
        }
        Ok(())
    }
}

fn write_list(bucket: &str, query: &ListQuery, walk: &Walk<'_>) -> String {
    let encode = |key: &str| {
        let encoded = query
            .is_url_encoded
            .then(|| percent_encoding::utf8_percent_encode(key, SIGNED_QUERY).to_string());
        encoded.unwrap_or_else(|| xml::escape(key))
    };
    let mut text = format!(
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{bucket}</Name><Prefix>{}</Prefix>\
         <KeyCount>{}</KeyCount><MaxKeys>{}</MaxKeys><IsTruncated>{}</IsTruncated>",
        encode(&query.prefix),
        walk.items.len(),
        query.max_keys,
        walk.is_truncated
    );
    if !query.delimiter.is_empty() {
        text += &format!("<Delimiter>{}</Delimiter>", encode(&query.delimiter));
    }
    if query.is_url_encoded {
        text += "<EncodingType>url</EncodingType>";
    }
    if let Some(Item::Object { key: last, .. } | Item::CommonPrefix(last)) =
        walk.items.last().filter(|_| walk.is_truncated)
    {
        let token = signature::hex(last.as_bytes());
        text += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    for item in &walk.items {
        text += &match item {
            Item::Object { key, size, modified, etag } => format!(
                "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>&quot;{etag}&quot;</ETag>\
                 <Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                encode(key),
                write_time(*modified)
            ),
            Item::CommonPrefix(prefix) => {
                format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", encode(prefix))
            }
        };
    }
    xml::document(&(text + "</ListBucketResult>"))
}

fn write_time(nanos: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = time.to_hms();
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", time.date(), time.millisecond())
}
