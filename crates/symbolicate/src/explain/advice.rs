//! What to do about symbols that are missing.

use crate::plan::{PlannedImage, PlannedJavaScript};
use unslide_model::shell_word;
use unslide_report::{Report, ReportSummary};

/// The longest name, version or build in an advice, in characters.
const LONGEST: usize = 64;

/// What a report says of its own build and system.
pub(super) struct Advisor(ReportSummary);

impl Advisor {
    pub(super) fn new(report: &Report<'_>) -> Advisor {
        Advisor(report.summary())
    }

    /// Which symbols would answer for an image without any, and how they come.
    pub(super) fn missing(&self, image: &PlannedImage<'_>) -> String {
        let name = short(&image.name());
        let Some(id) = image.debug_id else {
            return format!("{name} has no UUID in the report, so no symbols can be found for it");
        };
        if image.system {
            let system = joined([&self.0.os_name, &self.0.os_version, &self.0.os_build]);
            return format!(
                "no symbols are known for {name} (UUID {id}) of {}; an operator uploads them: unslide upload \
                 --system PATH",
                if system.is_empty() { "the operating system" } else { &system }
            );
        }
        format!("no symbols are known for {name} (UUID {id}); {}", self.upload(image))
    }

    /// Which dSYM would answer for an image of the app that has only the symbols of a stripped binary.
    pub(super) fn stripped(&self, image: &PlannedImage<'_>) -> String {
        let id = image.debug_id.map_or_else(String::new, |id| format!(" (UUID {id})"));
        format!(
            "the symbols of {}{id} are of a stripped binary; {}",
            short(&image.name()),
            self.upload(image)
        )
    }

    fn upload(&self, image: &PlannedImage<'_>) -> String {
        let build = self.0.build.as_ref().map(|build| format!("build {}", short(build)));
        let app = joined([&self.0.app, &self.0.version, &build]);
        let dsym = short(&dsym(&image.path.map(|path| path.decode().into_owned()).unwrap_or_default()));
        format!(
            "upload its dSYM{}: unslide upload {}",
            if app.is_empty() { String::new() } else { format!(" of {app}") },
            shell_word(&dsym)
        )
    }
}

/// Which source map would answer for a bundle without one, and how it comes.
pub(super) fn missing_map(error: &PlannedJavaScript, bundle: &PlannedImage<'_>) -> String {
    let name = short(&bundle.name());
    let Some(id) = bundle.debug_id else {
        return format!("the report does not name its app, so no source map can be found for {name}");
    };
    let by_name = crate::javascript::identity(&error.error, &bundle.name()).map(|known| known.debug_id());
    if by_name != Some(id) {
        return format!("no source map is known for {name}; upload the one that has the debug id {id}");
    }
    let command = error.error.upload_command(&bundle.name());
    format!("no source map is known for {name} (debug id {id}); upload it: {command}")
}

/// What is there, with blanks between.
fn joined(parts: [&Option<String>; 3]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| short(part)).collect();
    parts.join(" ")
}

/// The name that Xcode gives an image's dSYM.
fn dsym(path: &str) -> String {
    const BUNDLES: [&str; 4] = [".app", ".appex", ".framework", ".xctest"];
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    let mut around = parts.filter(|part| BUNDLES.iter().any(|bundle| part.ends_with(bundle)));
    let bundle = if file.contains('.') { None } else { around.next() };
    format!("{}.dSYM", bundle.unwrap_or(file))
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsym_is_named_after_the_bundle_of_its_image() {
        for (path, name) in [
            ("/private/var/containers/Bundle/Application/1/Shop.app/Shop", "Shop.app.dSYM"),
            ("/Applications/Shop.app/Contents/MacOS/Shop", "Shop.app.dSYM"),
            ("/x/Shop.app/Frameworks/Kit.framework/Kit", "Kit.framework.dSYM"),
            ("/x/Shop.app/Frameworks/libkit.dylib", "libkit.dylib.dSYM"),
            ("/usr/local/bin/tool", "tool.dSYM"),
        ] {
            assert_eq!(dsym(path), name);
        }
    }
}
