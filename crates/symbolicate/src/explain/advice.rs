//! Advice on how to supply missing symbols.

use crate::plan::{PlannedImage, PlannedJavaScript};
use unslide_model::shell_word;
use unslide_report::{Report, ReportSummary};

/// The longest name, version or build in an advice, in characters.
const ADVICE_NAME_CHARS_LIMIT: usize = 64;

/// The report's own build and system, used in advice.
pub(super) struct Advisor(ReportSummary);

impl Advisor {
    pub(super) fn new(report: &Report<'_>) -> Advisor {
        Advisor(report.summary())
    }

    /// Says which symbols would answer for an image without any, and how to supply them.
    pub(super) fn advise_missing(&self, image: &PlannedImage<'_>) -> String {
        let name = shorten_text(&image.name());
        let Some(id) = image.debug_id else {
            return format!("{name} has no UUID in the report, so no symbols can be found for it");
        };
        if image.system {
            let system = join_parts([&self.0.os_name, &self.0.os_version, &self.0.os_build]);
            return format!(
                "no symbols are known for {name} (UUID {id}) of {}; an operator uploads them: unslide upload \
                 --system PATH",
                if system.is_empty() { "the operating system" } else { &system }
            );
        }
        format!("no symbols are known for {name} (UUID {id}); {}", self.advise_upload(image))
    }

    /// Says which dSYM would answer for an image of the app that has only the symbols of a stripped
    /// binary.
    pub(super) fn advise_stripped(&self, image: &PlannedImage<'_>) -> String {
        let id = image.debug_id.map_or_else(String::new, |id| format!(" (UUID {id})"));
        format!(
            "the symbols of {}{id} are of a stripped binary; {}",
            shorten_text(&image.name()),
            self.advise_upload(image)
        )
    }

    /// Says how to restore the names that a build with bitcode has hidden in an image's dSYM.
    pub(super) fn advise_hidden(&self, image: &PlannedImage<'_>) -> String {
        let dsym = shell_word(&self.dsym_name(image));
        format!(
            "its dSYM is obfuscated: a build with bitcode has hidden the names; put them back with the build's symbol \
             maps and upload it again: dsymutil --symbol-map BCSymbolMaps {dsym} && unslide upload {dsym}"
        )
    }

    /// Says which dSYM would give more detail than the symbol table of an image of the app.
    pub(super) fn without_lines(&self, image: &PlannedImage<'_>) -> String {
        format!(
            "the symbols of {} have no debug information that is read, so no file, line or inlined function; {}",
            shorten_text(&image.name()),
            self.advise_upload(image)
        )
    }

    fn advise_upload(&self, image: &PlannedImage<'_>) -> String {
        let build = self.0.build.as_ref().map(|build| format!("build {}", shorten_text(build)));
        let app = join_parts([&self.0.app, &self.0.version, &build]);
        format!(
            "upload its dSYM{}: unslide upload {}",
            if app.is_empty() { String::new() } else { format!(" of {app}") },
            shell_word(&self.dsym_name(image))
        )
    }

    /// Returns the name of an image's dSYM.
    fn dsym_name(&self, image: &PlannedImage<'_>) -> String {
        shorten_text(&dsym_name_for_path(
            &image.path.map(|path| path.decode().into_owned()).unwrap_or_default(),
        ))
    }
}

/// Says which source map would answer for a bundle without one, and how to supply it.
pub(super) fn missing_map(error: &PlannedJavaScript, bundle: &PlannedImage<'_>) -> String {
    let name = shorten_text(&bundle.name());
    let Some(id) = bundle.debug_id else {
        return format!("the report does not name its app, so no source map can be found for {name}");
    };
    let by_name =
        crate::javascript::bundle_identity(&error.error, &bundle.name()).map(|known| known.debug_id());
    if by_name != Some(id) {
        return format!("no source map is known for {name}; upload the one that has the debug id {id}");
    }
    let command = error.error.upload_command(&bundle.name());
    format!("no source map is known for {name} (debug id {id}); upload it: {command}")
}

/// Joins the parts that are present with spaces.
fn join_parts(parts: [&Option<String>; 3]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| shorten_text(part)).collect();
    parts.join(" ")
}

/// Returns the name that Xcode gives an image's dSYM: the name of the product that contains the image.
fn dsym_name_for_path(path: &str) -> String {
    const BUNDLES: [&str; 8] =
        [".app", ".appex", ".framework", ".xctest", ".xpc", ".bundle", ".systemextension", ".kext"];
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    let bundle = parts.find(|part| BUNDLES.iter().any(|bundle| part.ends_with(bundle)));
    // Xcode 16 puts the code of a debug build into a library next to a program that only loads it.
    let debug = file.strip_suffix(".debug.dylib");
    let product = match (debug, bundle) {
        (_, None) => debug.map_or_else(|| file.to_owned(), |program| format!("{program}.app")),
        (None, Some(_)) if file.ends_with(".dylib") && file != "__preview.dylib" => file.to_owned(),
        (_, Some(bundle)) => bundle.to_owned(),
    };
    format!("{product}.dSYM")
}

fn shorten_text(text: &str) -> String {
    text.chars().take(ADVICE_NAME_CHARS_LIMIT).collect()
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
            ("/x/Shop.app/Shop.debug.dylib", "Shop.app.dSYM"),
            ("/x/Shop.app/__preview.dylib", "Shop.app.dSYM"),
            ("/x/Shop.app/PlugIns/Share.appex/Share", "Share.appex.dSYM"),
            ("/x/Shop.app/PlugIns/Share.appex/Share.debug.dylib", "Share.appex.dSYM"),
            ("/x/Shop.app/Frameworks/Kit.framework/Versions/A/Kit", "Kit.framework.dSYM"),
            ("/x/Kit.framework/Frameworks/libkit.dylib", "libkit.dylib.dSYM"),
            (
                "/x/Shop.app/Contents/XPCServices/com.example.Pay.xpc/Contents/MacOS/com.example.Pay",
                "com.example.Pay.xpc.dSYM",
            ),
            ("/x/Shop.beta.app/Shop.beta", "Shop.beta.app.dSYM"),
            ("Shop.debug.dylib", "Shop.app.dSYM"),
            ("libkit.dylib", "libkit.dylib.dSYM"),
            ("/usr/local/bin/tool", "tool.dSYM"),
        ] {
            assert_eq!(dsym_name_for_path(path), name);
        }
    }
}
