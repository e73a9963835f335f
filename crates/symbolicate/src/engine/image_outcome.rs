//! The entry of an image in an enriched report.

use super::{ImageOutcome, References};
use crate::answer::Judged;
use crate::plan::PlannedImage;
use crate::symcache::SymCache;
use unslide_model::{CpuType, FileAddress, LoadAddress, Slide};

impl ImageOutcome {
    /// Describes the symbols of an image that frames refer to.
    pub(super) fn new(image: &PlannedImage<'_>, judged: &Judged<'_>, references: References) -> ImageOutcome {
        let text = judged.symbols.map(SymCache::text_address);
        let preferred = image.vmaddr.map(FileAddress);
        ImageOutcome {
            debug_id: image.debug_id,
            name: image.name(),
            arch: image
                .cpu
                .or_else(|| judged.symbols.map(SymCache::cpu))
                .map(CpuType::name)
                .filter(|name| *name != "unknown"),
            status: judged.status,
            slide: preferred
                .or(text)
                .filter(|_| !image.is_bundle())
                .map(|preferred| Slide::from_addresses(LoadAddress(image.start), preferred).0),
            generation: judged.generation,
            frames: references.frames,
            system: image.system,
            stripped: references.lack_dsym || judged.lacks_dsym(image),
            vmaddr_differs: preferred.zip(text).is_some_and(|(device, object)| device != object),
        }
    }
}
