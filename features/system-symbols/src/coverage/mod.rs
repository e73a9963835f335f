//! Coverage: of which builds the names of system functions are missing.

pub mod operation;
mod store;

use std::collections::BTreeMap;
use store::{ImageOfBuild, ReportsOfBuild};
use unslide_model::Quality;
use unslide_system_symbols_formats::{BuildCoverage, CoverageState, UnnamedImage};

/// The most recent reports that are read.
pub const MAX_REPORTS: u32 = 5_000;
/// The most builds of one answer.
const MAX_BUILDS: usize = 100;
/// The most images without names of one build.
const MAX_LACKING: usize = 5;

/// Name, version and build of an operating system, as reports have them.
type BuildKey = (Option<String>, Option<String>, Option<String>);

/// Joins the reports of builds with their images.
fn join_builds(reports: Vec<ReportsOfBuild>, images: Vec<ImageOfBuild>) -> Vec<BuildCoverage> {
    let mut by_build: BTreeMap<BuildKey, Vec<ImageOfBuild>> = BTreeMap::new();
    for mut image in images {
        let key = (image.os_name.take(), image.os_version.take(), image.os_build.take());
        by_build.entry(key).or_default().push(image);
    }
    let mut builds: Vec<BuildCoverage> = reports
        .into_iter()
        .map(|row| {
            let key = (row.os_name, row.os_version, row.os_build);
            let images = by_build.remove(&key).unwrap_or_default();
            measure_build(key, row.reports, &images)
        })
        .collect();
    // The reports that lack names, weighted by the images that they lack.
    let lacking = |build: &BuildCoverage| {
        let unnamed = build.images.saturating_sub(build.named_images);
        u128::from(build.reports) * u128::from(unnamed) / u128::from(build.images.max(1))
    };
    builds.sort_by(|a, b| lacking(b).cmp(&lacking(a)).then(b.reports.cmp(&a.reports)));
    builds.truncate(MAX_BUILDS);
    builds
}

fn measure_build(key: BuildKey, reports: u64, images: &[ImageOfBuild]) -> BuildCoverage {
    let count =
        |wanted: fn(Quality) -> bool| images.iter().filter(|image| wanted(image.quality)).count() as u64;
    let named_images = count(|quality| quality >= Quality::Symtab);
    let exports_only_images = count(|quality| quality == Quality::Exports);
    let state = match (named_images, exports_only_images) {
        (0, 0) => CoverageState::None,
        (0, _) => CoverageState::ExportsOnly,
        (named, _) if named == images.len() as u64 => CoverageState::Whole,
        _ => CoverageState::Partly,
    };
    let mut lacking: Vec<UnnamedImage> = images
        .iter()
        .filter(|image| image.quality < Quality::Symtab)
        .map(|image| UnnamedImage { debug_id: image.debug_id, reports: image.reports })
        .collect();
    lacking.sort_by_key(|image| (std::cmp::Reverse(image.reports), image.debug_id));
    lacking.truncate(MAX_LACKING);
    let (os, version, build) = key;
    let images = images.len() as u64;
    BuildCoverage { os, version, build, state, reports, images, named_images, exports_only_images, lacking }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_model::DebugId;

    fn image(build: &str, id: u8, reports: u64, quality: Quality) -> ImageOfBuild {
        let os_build = Some(build.to_owned());
        ImageOfBuild {
            os_name: None,
            os_version: None,
            os_build,
            debug_id: DebugId([id; 16]),
            reports,
            quality,
        }
    }

    fn reports(build: &str, reports: u64) -> ReportsOfBuild {
        ReportsOfBuild { os_name: None, os_version: None, os_build: Some(build.to_owned()), reports }
    }

    #[test]
    fn builds_with_the_most_unnamed_reports_come_first() {
        let rows = vec![reports("23B87", 90), reports("22A100", 40), reports("21A1", 10)];
        let images = vec![
            image("23B87", 1, 90, Quality::Symtab),
            image("22A100", 2, 30, Quality::None),
            image("22A100", 3, 40, Quality::None),
            image("21A1", 4, 10, Quality::Exports),
        ];
        let builds = join_builds(rows, images);
        let shown: Vec<_> = builds.iter().map(|b| (b.build.as_deref().unwrap(), b.state)).collect();
        assert_eq!(
            shown,
            [
                ("22A100", CoverageState::None),
                ("21A1", CoverageState::ExportsOnly),
                ("23B87", CoverageState::Whole)
            ]
        );
        let lacking: Vec<u64> = builds[0].lacking.iter().map(|image| image.reports).collect();
        assert_eq!((lacking, builds[0].images), (vec![40, 30], 2));
    }
}
