//! The symbols that a run lacked, for people.

use crate::note;
use crate::symbols::library::Library;
use std::collections::BTreeMap;
use unslide_model::{DebugId, find_dsym_command};
use unslide_report::Report;
use unslide_symbolicate::{Enrichment, ImageOutcome};

/// Images that are named; the others are counted.
const MOST_NAMED: usize = 50;

/// Members of a wrong type that are named; the others are counted.
const MOST_FIELDS: usize = 20;

/// The problems that keep frames of one report from being symbolicated.
#[derive(Default)]
pub struct LackedByReport {
    pub images: Vec<ImageOutcome>,
    /// Members of a wrong type, without which frames have no address or no image.
    pub wrong_fields: Vec<String>,
}

impl LackedByReport {
    /// Adds the missing parts of an enriched report. `bytes` is the original report.
    pub fn add_enriched(&mut self, enriched: &Enrichment, report: &Report<'_>, bytes: &[u8]) {
        self.images.extend(enriched.images.iter().filter(|image| image.lacks_symbols()).cloned());
        let frames = &enriched.frames;
        if frames.total == 0 || frames.invalid_address + frames.unknown_image + frames.invalid > 0 {
            self.wrong_fields
                .extend(report.warnings.iter().filter_map(|warning| warning.lost_location(bytes)));
        }
    }
}

/// The images without symbols that answered, over all reports.
#[derive(Default)]
pub struct Lacking {
    /// Reports by a member of a wrong type.
    wrong_fields: BTreeMap<String, u64>,
    /// Frames by name, debug id and the problem with the symbols.
    app: BTreeMap<(String, String, &'static str), u64>,
    system_frames: u64,
}

impl Lacking {
    pub fn add_images(&mut self, images: Vec<ImageOutcome>) {
        for image in images {
            if image.system {
                self.system_frames += image.frames;
                continue;
            }
            let id = image.debug_id.map_or_else(|| "without a UUID".to_owned(), |id| id.to_string());
            let why = if image.stripped { "stripped" } else { image.status.as_str() };
            *self.app.entry((image.name, id, why)).or_default() += image.frames;
        }
    }

    /// Adds what a report lacks.
    pub fn add_report(&mut self, lacked: LackedByReport) {
        for field in lacked.wrong_fields {
            *self.wrong_fields.entry(field).or_default() += 1;
        }
        self.add_images(lacked.images);
    }

    /// Returns true if an app lacks nothing. Few have the system's own symbols; the device names its
    /// functions.
    pub fn is_empty(&self) -> bool {
        self.app.is_empty() && self.wrong_fields.is_empty()
    }

    /// Says how many frames lack symbols, and which. `library` has the symbols that were given.
    pub fn print_lacking(&self, library: &Library) {
        for (field, reports) in self.wrong_fields.iter().take(MOST_FIELDS) {
            let reports = count_things(*reports, "report", "reports");
            note!("{field}, in {reports}: frames without an address or an image cannot be symbolicated");
        }
        if self.wrong_fields.len() > MOST_FIELDS {
            note!("and {} more members of a wrong type", self.wrong_fields.len() - MOST_FIELDS);
        }
        if !self.app.is_empty() {
            let frames: u64 = self.app.values().sum();
            note!(
                "{}; give the dSYMs or source maps with these ids to --symbols:",
                count_things(frames, "frame of the app lacks symbols", "frames of the app lack symbols")
            );
            for ((name, id, status), frames) in self.app.iter().take(MOST_NAMED) {
                let name = if name.is_empty() { "an image without a name" } else { name };
                note!("  {name} {id}: {} ({status})", count_things(*frames, "frame", "frames"));
                for line in describe_unused(library, name) {
                    note!("    {line}");
                }
            }
            if self.app.len() > MOST_NAMED {
                note!("  and {} more images", self.app.len() - MOST_NAMED);
            }
            // Spotlight knows dSYMs, and no source maps.
            let dsyms = self.app.keys().filter(|(name, _, _)| !name.ends_with("bundle"));
            if let Some(id) = dsyms.filter_map(|(_, id, _)| id.parse::<DebugId>().ok()).next() {
                note!("  {}", describe_search(id));
            }
            let unreadable = u64::try_from(library.count_unreadable()).unwrap_or(u64::MAX);
            if unreadable > 0 {
                let files = count_things(unreadable, "file", "files");
                note!("  {files} of --symbols cannot be read, see above; these symbols may be there");
            }
        }
        if self.system_frames > 0 {
            note!(
                "{} the device's names at best",
                count_things(
                    self.system_frames,
                    "frame in images of the operating system has",
                    "frames in images of the operating system have"
                )
            );
        }
    }
}

/// Returns a number with its noun.
fn count_things(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Says how to find a dSYM.
fn describe_search(id: DebugId) -> String {
    let place = if cfg!(target_os = "macos") { "on this Mac" } else { "on the Mac that made the build" };
    format!("{} finds it {place}; Xcode's Organizer has the archives of all builds", find_dsym_command(id))
}

/// Says of files that were given and not used which build they are of: most often it is another one of the same app.
fn describe_unused(library: &Library, image: &str) -> Vec<String> {
    let files = library.list_unused(image).into_iter();
    files.map(|(id, file)| format!("{file} has the UUID {id}, of another build: it was not used")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_testkit::fixtures;

    #[test]
    fn one_frame_is_not_many() {
        assert_eq!(count_things(1, "frame", "frames"), "1 frame");
        assert_eq!(count_things(0, "frame", "frames"), "0 frames");
    }

    #[test]
    fn the_dsym_of_another_build_is_named_with_its_uuid() {
        let (library, _) = Library::search_paths(&[fixtures::dsym("app-next")]).unwrap();
        let lines = describe_unused(&library, "app");
        assert!(lines.len() == 1 && lines[0].contains("app-next.dSYM/"), "{lines:?}");
        assert!(lines[0].ends_with(", of another build: it was not used"), "{lines:?}");
    }
}
