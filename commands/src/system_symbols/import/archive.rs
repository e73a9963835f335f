//! Archives of caches and libraries, and images of disks, which cannot be read here.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use unslide_system_symbols_formats::dyld_cache::is_dyld_cache;
use zip::ZipArchive;

/// The most unpacked bytes of one archive.
const MAX_UNPACKED_BYTES: u64 = 64 << 30;
/// The most entries of one archive.
const MAX_ENTRIES: usize = 200_000;
/// The longest path of an entry.
const MAX_PATH_BYTES: usize = 1_024;
/// Bytes that decide whether an entry is kept.
const HEAD_BYTES: usize = 16;

/// An archive's files in a temporary folder, which is deleted when this is dropped.
pub struct UnpackedFolder(TempDir);

impl UnpackedFolder {
    /// Returns the folder with the unpacked files.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Says of an image of a disk, or of a firmware, how to get the cache out of it. `None` for any other file.
pub fn describe_image(path: &Path, name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let is_image = |name: &str| [".dmg", ".dmg.aea", ".aea"].iter().any(|end| name.ends_with(end));
    let inside = match lower.ends_with(".ipsw") {
        true => File::open(path).ok().and_then(|file| find_largest(file, is_image)).unwrap_or_default(),
        false if is_image(&lower) => name.to_owned(),
        false => return None,
    };
    let kind = if inside.ends_with(".aea") { "an encrypted APFS image" } else { "an APFS image" };
    let image = if inside.is_empty() { "an image".to_owned() } else { inside };
    Some(format!(
        "the system lies in {image}, {kind} that cannot be read here. Run: ipsw extract --dyld {name}, then import \
         the folder that it makes"
    ))
}

/// Returns the name of the largest entry of a zip archive with a wanted name.
fn find_largest(file: File, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut archive = ZipArchive::new(BufReader::new(file)).ok()?;
    let mut largest: Option<(u64, String)> = None;
    for index in 0..archive.len().min(MAX_ENTRIES) {
        let entry = archive.by_index_raw(index).ok()?;
        let Ok(name) = entry.name() else { continue };
        if is_wanted(&name) && largest.as_ref().is_none_or(|(size, _)| entry.size() > *size) {
            largest = Some((entry.size(), name.into_owned()));
        }
    }
    largest.map(|(_, name)| name)
}

/// Unpacks the caches and libraries of a zip or tar archive into a temporary folder.
///
/// # Errors
/// Returns the reason, for people.
pub fn unpack_archive(path: &Path) -> Result<UnpackedFolder, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let mut sink = EntrySink { folder: folder.path().to_path_buf(), bytes: 0, entries: 0 };
    let unpacked = File::open(path).and_then(|file| unpack_into(file, &mut sink));
    unpacked.map_err(|error| {
        format!("cannot unpack it: {error} (temporary files are in {})", folder.path().display())
    })?;
    Ok(UnpackedFolder(folder))
}

fn unpack_into(mut file: File, sink: &mut EntrySink) -> io::Result<()> {
    let mut head = [0; 4];
    let length = file.read(&mut head)?;
    file.rewind()?;
    match head.get(..length).unwrap_or_default() {
        [b'P', b'K', ..] => {
            let mut archive = ZipArchive::new(BufReader::new(file)).map_err(io::Error::other)?;
            for index in 0..archive.len() {
                let mut entry = archive.by_index(index).map_err(io::Error::other)?;
                let name = entry.name().map_err(io::Error::other)?.into_owned();
                if entry.is_file() {
                    sink.add(&name, &mut entry)?;
                }
            }
            Ok(())
        }
        [0x1f, 0x8b, ..] => unpack_tar(flate2::read::MultiGzDecoder::new(BufReader::new(file)), sink),
        _ => unpack_tar(BufReader::new(file), sink),
    }
}

fn unpack_tar(source: impl Read, sink: &mut EntrySink) -> io::Result<()> {
    let mut archive = tar::Archive::new(source);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type().is_file() {
            sink.add(&name, &mut entry)?;
        }
    }
    Ok(())
}

/// Writes entries below a folder.
struct EntrySink {
    folder: PathBuf,
    bytes: u64,
    entries: usize,
}

impl EntrySink {
    /// Writes an entry that is a file of a cache or a Mach-O file. Others are skipped.
    fn add(&mut self, name: &str, content: &mut dyn Read) -> io::Result<()> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let mut head = Vec::new();
        content.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        let is_mach_o = [[0xcf, 0xfa, 0xed, 0xfe], [0xce, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
        let is_wanted = is_dyld_cache(&head) || is_mach_o.iter().any(|magic| head.starts_with(magic));
        let Some(path) = self.entry_path(name).filter(|_| is_wanted) else { return Ok(()) };
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        let mut file = File::create_new(&path)?;
        let left = MAX_UNPACKED_BYTES.saturating_sub(self.bytes);
        let written = io::copy(&mut head.as_slice().chain(content).take(left + 1), &mut file)?;
        self.bytes += written;
        if written > left {
            let text = format!("it has more than {} GiB unpacked", MAX_UNPACKED_BYTES >> 30);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        Ok(())
    }

    /// Returns the path of an entry below the folder. `None` for a path that leaves it.
    fn entry_path(&self, name: &str) -> Option<PathBuf> {
        let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let is_inside = !parts.is_empty() && parts.iter().all(|part| *part != ".." && !part.contains('\\'));
        (is_inside && name.len() <= MAX_PATH_BYTES)
            .then(|| parts.iter().fold(self.folder.clone(), |p, part| p.join(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use unslide_testkit::fixtures;
    use zip::write::SimpleFileOptions;

    #[test]
    fn an_archive_keeps_caches_and_libraries_inside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        let library = fs::read(fixtures::binary("kit-arm64")).unwrap();
        for (name, bytes) in [
            ("26.2 (23B87)/Symbols/usr/lib/kit", &library[..]),
            ("../outside", &library),
            ("26.2 (23B87)/Info.plist", b"<plist/>"),
            ("26.2 (23B87)/dyld_shared_cache_arm64e", b"dyld_v1  arm64e\0"),
        ] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let unpacked = unpack_archive(&path).unwrap();
        let release = unpacked.path().join("26.2 (23B87)");
        assert_eq!(fs::read(release.join("Symbols/usr/lib/kit")).unwrap(), library);
        assert!(release.join("dyld_shared_cache_arm64e").exists() && !release.join("Info.plist").exists());
        assert_eq!(fs::read_dir(unpacked.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_firmware_names_the_image_with_the_system_and_what_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iPhone17,1_26.2_23B87_Restore.ipsw");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        for (name, size) in [("BuildManifest.plist", 9_000), ("090-1.dmg.aea", 5_000), ("090-2.dmg", 100)] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(&vec![0; size]).unwrap();
        }
        zip.finish().unwrap();
        let text = describe_image(&path, "iPhone17,1_26.2_23B87_Restore.ipsw").unwrap();
        assert!(text.starts_with("the system lies in 090-1.dmg.aea, an encrypted APFS image"), "{text}");
        assert!(text.contains("ipsw extract --dyld iPhone17,1_26.2_23B87_Restore.ipsw"), "{text}");
        assert_eq!(describe_image(Path::new("a.zip"), "a.zip"), None);
    }
}
