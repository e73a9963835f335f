//! Errors of JavaScript, and the source maps of their bundles.
//!
//! A bundle is an image with the debug id of [`BundleIdentity`] or one of its own, and a source map is an object:
//! what is missing is waited for and comes late as a dSYM does.

mod answer;
mod build;
mod identity;
mod mappings;
mod output;
mod source_map;
mod table;

pub use answer::FunctionSource;
pub(crate) use answer::{JavaScriptAnswer, answers};
pub(crate) use build::build;
pub use build::build_for;
pub use identity::BundleIdentity;
pub(crate) use output::{JavaScriptDetail, least_bytes, write};
pub use source_map::with_debug_id;
pub(crate) use source_map::{SourceMapFacts, facts, is_json};
pub(crate) use table::SourceMapTable;

use crate::plan::PlannedImage;
use std::collections::HashMap;
use unslide_model::CpuType;
use unslide_report::{JavaScriptError, JavaScriptFrame};

/// Bundles of one error.
const MOST_BUNDLES: usize = 32;

/// An error of JavaScript, and the bundle of each of its frames.
#[derive(Debug)]
pub(crate) struct PlannedJavaScript {
    pub(crate) error: JavaScriptError,
    /// For each frame the position of its bundle among the plan's images.
    pub(crate) images: Vec<Option<u32>>,
}

impl PlannedJavaScript {
    /// Adds the bundles of an error to the images of a plan.
    pub(crate) fn plan(error: JavaScriptError, images: &mut Vec<PlannedImage<'_>>) -> PlannedJavaScript {
        let mut known = HashMap::new();
        let mut of_frames = Vec::with_capacity(error.frames.len());
        for frame in &error.frames {
            let Some(bundle) = &frame.bundle else {
                of_frames.push(None);
                continue;
            };
            let debug_id = frame.debug_id.or_else(|| identity(&error, bundle).map(|known| known.debug_id()));
            let image = known.get(&(bundle, debug_id)).copied().or_else(|| {
                let position = u32::try_from(images.len()).ok().filter(|_| known.len() < MOST_BUNDLES)?;
                images.push(PlannedImage::bundle(bundle.clone(), debug_id));
                known.insert((bundle, debug_id), position);
                Some(position)
            });
            of_frames.push(image);
        }
        PlannedJavaScript { images: of_frames, error }
    }

    /// The frames with the positions of their bundles.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&JavaScriptFrame, Option<u32>)> {
        self.error.frames.iter().zip(self.images.iter().copied())
    }
}

/// What the report knows of a bundle; `None` where it does not name its app.
pub(crate) fn identity<'b>(error: &'b JavaScriptError, bundle: &'b str) -> Option<BundleIdentity<'b>> {
    let JavaScriptError { app, platform, version, build, .. } = error;
    (!app.is_empty()).then_some(BundleIdentity { app, platform, version, build, bundle })
}

/// True for the bundle of an error of JavaScript.
pub(crate) fn is_bundle(image: &PlannedImage<'_>) -> bool {
    image.cpu == Some(CpuType::JAVASCRIPT)
}

#[cfg(test)]
mod tests;
