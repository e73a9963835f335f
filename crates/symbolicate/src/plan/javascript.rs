//! JavaScript errors: the bundle of each frame is an image.

use super::PlannedImage;
use crate::javascript::bundle_identity;
use std::collections::HashMap;
use unslide_report::{JavaScriptError, JavaScriptFrame};

/// The most bundles of one error.
const MOST_BUNDLES: usize = 32;

/// A JavaScript error, and the bundle of each of its frames.
#[derive(Debug)]
pub(crate) struct PlannedJavaScript {
    pub(crate) error: JavaScriptError,
    /// The position of each frame's bundle among the plan's images.
    pub(crate) images: Vec<Option<u32>>,
}

impl PlannedJavaScript {
    /// Adds the bundles of an error to the images of a plan.
    pub(crate) fn from_error(
        error: JavaScriptError,
        images: &mut Vec<PlannedImage<'_>>,
    ) -> PlannedJavaScript {
        let mut known = HashMap::new();
        let mut of_frames = Vec::with_capacity(error.frames.len());
        for frame in &error.frames {
            let Some(bundle) = error.mapped_bundle(frame) else {
                of_frames.push(None);
                continue;
            };
            let debug_id =
                frame.debug_id.or_else(|| bundle_identity(&error, bundle).map(|known| known.debug_id()));
            let image = known.get(&(bundle, debug_id)).copied().or_else(|| {
                let position = u32::try_from(images.len()).ok().filter(|_| known.len() < MOST_BUNDLES)?;
                images.push(PlannedImage::from_bundle(bundle.to_owned(), debug_id));
                known.insert((bundle, debug_id), position);
                Some(position)
            });
            of_frames.push(image);
        }
        PlannedJavaScript { images: of_frames, error }
    }

    /// Returns the frames with the positions of their bundles.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&JavaScriptFrame, Option<u32>)> {
        self.error.frames.iter().zip(self.images.iter().copied())
    }
}
