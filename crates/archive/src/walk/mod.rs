//! Walks an upload, layer by layer.

mod sparse;
mod tar;
mod zip;

use super::budget::Budget;
use super::describe::describe_format;
use super::magic::{self, DETECTION_HEAD_BYTES, FileKind};
use super::member::copy_to_file;
use super::{ArchiveError, Contents, MemberSink, SkipReason, UnpackLimits};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};

/// A nested archive is held in memory up to this many bytes, then in a file.
const SPOOL_BYTES: usize = 1 << 20;

/// Unpacks an upload: sends every Mach-O file in it to `sink`, within `limits`. `name` is the name of a bare
/// file.
///
/// # Errors
/// Returns [`ArchiveError`] if the upload as a whole is refused; the members in `sink` are then useless. A
/// broken archive within the upload is a skipped entry, not an error.
pub fn unpack_upload(
    source: impl Read + Seek,
    name: &str,
    limits: &UnpackLimits,
    sink: &mut dyn MemberSink,
) -> Result<Contents, ArchiveError> {
    let mut source = BufReader::new(source);
    let size = source.seek(SeekFrom::End(0)).map_err(ArchiveError::Disk)?;
    source.rewind().map_err(ArchiveError::Disk)?;
    let budget = Budget::new(limits, size);
    let mut walk = Walk { budget: &budget, sink, contents: Contents::default() };
    let mut head = Vec::with_capacity(DETECTION_HEAD_BYTES);
    (&mut source).take(DETECTION_HEAD_BYTES as u64).read_to_end(&mut head).map_err(ArchiveError::Disk)?;
    source.rewind().map_err(ArchiveError::Disk)?;
    match magic::detect_file_kind(&head) {
        _ if head.is_empty() => return Err(ArchiveError::Empty),
        FileKind::Zip => zip::walk_entries(&mut walk, &mut source, "", 1)?,
        FileKind::Unsupported(format) => return Err(ArchiveError::Unsupported(format)),
        FileKind::StaticLibrary => return Err(ArchiveError::Unsupported("ar (static library)")),
        FileKind::Other | FileKind::BundleManifest => {
            return Err(ArchiveError::Unrecognised(describe_format(&head)));
        }
        FileKind::Binary(binary) => {
            budget.charge_member()?;
            walk.sink.receive_member(name, binary, &mut source)?;
        }
        layer @ (FileKind::Gzip | FileKind::Zstd) => {
            walk.walk_packed(layer, &mut source, name, "", 1)?;
        }
        FileKind::Tar => tar::walk_entries(&mut walk, &mut source, "", 1)?,
    }
    let mut contents = walk.contents;
    contents.entries = budget.entry_count();
    contents.unpacked_bytes = budget.unpacked_bytes();
    Ok(contents)
}

pub(super) struct Walk<'w> {
    pub(super) budget: &'w Budget<'w>,
    sink: &'w mut dyn MemberSink,
    contents: Contents,
}

impl Walk<'_> {
    pub(super) fn record_skipped(&mut self, path: &str, reason: SkipReason) {
        self.contents.record_skipped(path, reason);
    }

    pub(super) fn member_count(&self) -> usize {
        self.sink.len()
    }

    /// Handles an entry of an archive, or the content of a gzip or zstd layer. `container` is the innermost archive
    /// with a path of its own. If it is broken, the caller handles the error.
    pub(super) fn walk_content(
        &mut self,
        content: &mut dyn Read,
        path: &str,
        container: &str,
        depth: usize,
    ) -> Result<(), ArchiveError> {
        let mut head = Vec::with_capacity(DETECTION_HEAD_BYTES);
        let read_failed =
            |e| ArchiveError::from_io(e, |e| convert_decoder_error(e, container, "an entry", 0));
        (&mut *content).take(DETECTION_HEAD_BYTES as u64).read_to_end(&mut head).map_err(read_failed)?;
        let kind = magic::detect_file_kind(&head);
        let mut content = Cursor::new(head).chain(content);
        match kind {
            FileKind::Other => Ok(()),
            FileKind::BundleManifest => self.sink.receive_manifest(path, &mut content),
            FileKind::Binary(binary) => {
                self.budget.charge_member()?;
                self.sink.receive_member(path, binary, &mut content)
            }
            FileKind::StaticLibrary => {
                self.record_skipped(path, SkipReason::StaticLibrary);
                Ok(())
            }
            FileKind::Unsupported(format) if path.is_empty() => Err(ArchiveError::Unsupported(format)),
            FileKind::Unsupported(format) => {
                self.record_skipped(path, SkipReason::Format(format));
                Ok(())
            }
            FileKind::Zip | FileKind::Gzip | FileKind::Zstd | FileKind::Tar
                if depth >= self.budget.limits.depth =>
            {
                self.record_skipped(path, SkipReason::TooDeep);
                Ok(())
            }
            FileKind::Zip | FileKind::Gzip | FileKind::Zstd | FileKind::Tar => {
                let kept = self.sink.len();
                let walked = match kind {
                    FileKind::Zip => self.spooled_zip(&mut content, path, depth + 1),
                    FileKind::Gzip | FileKind::Zstd => {
                        self.walk_packed(kind, &mut content, path, path, depth + 1)
                    }
                    _ => tar::walk_entries(self, &mut content, path, depth + 1),
                };
                match walked {
                    // An archive among an app's resources may be anything; if it is broken, only it is skipped.
                    Err(error) if !path.is_empty() && error.broken_container() == Some(path) => {
                        self.sink.truncate(kept);
                        self.record_skipped(path, SkipReason::Broken(error.to_string()));
                        Ok(())
                    }
                    other => other,
                }
            }
        }
    }

    fn spooled_zip(&mut self, content: &mut dyn Read, path: &str, depth: usize) -> Result<(), ArchiveError> {
        let mut spool = self.sink.create_spool(SPOOL_BYTES);
        copy_to_file(content, &mut spool)?;
        zip::walk_entries(self, &mut spool, path, depth)
    }

    /// Handles a layer of gzip or zstd. `path` is the path of its content; errors name the archive `container`.
    fn walk_packed(
        &mut self,
        layer: FileKind,
        packed: &mut dyn Read,
        path: &str,
        container: &str,
        depth: usize,
    ) -> Result<(), ArchiveError> {
        let budget = self.budget;
        let layer = PackedLayer::new(layer, packed, container)?;
        let mut unpacked = budget.wrap_decompressor(path, layer);
        budget.charge_entry()?;
        // A tar directly below the upload has no path of its own: if it is broken, the upload fails.
        let inner = if container.is_empty() { "" } else { path };
        let mut head = Vec::with_capacity(DETECTION_HEAD_BYTES);
        let failed = |e| ArchiveError::from_io(e, ArchiveError::Disk);
        (&mut unpacked).take(DETECTION_HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        let kind = magic::detect_file_kind(&head);
        if kind == FileKind::Other && container.is_empty() {
            return Err(ArchiveError::Unrecognised(format!("unpacked, {}", describe_format(&head))));
        }
        let mut content = Cursor::new(head).chain(&mut unpacked);
        match kind {
            FileKind::Tar => tar::walk_entries(self, &mut content, inner, depth + 1)?,
            FileKind::Zip => self.spooled_zip(&mut content, inner, depth + 1)?,
            _ => self.walk_content(&mut content, path, inner, depth)?,
        }
        // The checksum at the end is verified too.
        io::copy(&mut unpacked, &mut io::sink()).map_err(failed)?;
        Ok(())
    }
}

/// A decoder of gzip or zstd. Its errors name the broken archive and the offset.
struct PackedLayer<'a> {
    decoder: Box<dyn Read + 'a>,
    container: &'a str,
    /// The words for its content.
    what: &'static str,
    at: u64,
}

impl<'a> PackedLayer<'a> {
    fn new(
        layer: FileKind,
        packed: &'a mut dyn Read,
        container: &'a str,
    ) -> Result<PackedLayer<'a>, ArchiveError> {
        let packed = BufReader::new(packed);
        let (decoder, what): (Box<dyn Read + 'a>, _) = match layer {
            FileKind::Zstd => {
                let decoder = zstd::Decoder::with_buffer(packed).map_err(ArchiveError::Disk)?;
                (Box::new(ZstdErrors(decoder)), "its zstd stream, unpacked,")
            }
            _ => (Box::new(MultiGzDecoder::new(packed)), "its gzip stream, unpacked,"),
        };
        Ok(PackedLayer { decoder, container, what, at: 0 })
    }
}

impl Read for PackedLayer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer).map_err(|error| {
            ArchiveError::from_io(error, |e| convert_decoder_error(e, self.container, self.what, self.at))
                .into_io()
        })?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Gives the errors of zstd about its input the kind that gzip gives them: zstd has none of its own.
struct ZstdErrors<R>(R);

impl<R: Read> Read for ZstdErrors<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Other if !ArchiveError::is_inside(&error) => {
                io::Error::new(io::ErrorKind::InvalidData, error)
            }
            _ => error,
        })
    }
}

/// Converts a decoder's plain error to one about its input.
pub(super) fn convert_decoder_error(error: io::Error, container: &str, what: &str, at: u64) -> ArchiveError {
    let container = container.to_owned();
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            ArchiveError::Truncated { container, what: format!("{what} ends"), at }
        }
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            ArchiveError::Corrupt { container, what: format!("{what} is wrong ({error})"), at }
        }
        _ => ArchiveError::Disk(error),
    }
}

/// Returns the path of an entry below its archive, for people. A path that would leave the archive is kept
/// inside: the root, a drive and `..` are removed.
///
/// # Errors
/// Returns [`SkipReason::PathTooLong`] if the path is too long.
pub(super) fn entry_path(container: &str, name: &[u8], limits: &UnpackLimits) -> Result<String, SkipReason> {
    if container.len() + name.len() > limits.path_bytes {
        return Err(SkipReason::PathTooLong);
    }
    let name = String::from_utf8_lossy(name).replace('\\', "/");
    let name = name.replace('\0', "\u{FFFD}");
    let is_drive = |part: &str| part.len() == 2 && part.ends_with(':');
    let is_shown = |part: &&str| !matches!(*part, "" | "." | "..") && !is_drive(part);
    let path = name.split('/').filter(is_shown).collect::<Vec<&str>>().join("/");
    // Only an archive itself has an empty path.
    let path = if path.is_empty() { "unnamed".to_owned() } else { path };
    if container.is_empty() { Ok(path) } else { Ok(format!("{container}/{path}")) }
}
