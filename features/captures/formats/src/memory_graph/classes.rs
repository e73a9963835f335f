//! The names of classes, from the symbols of the images that hold their class objects, metadata and vtables.

use super::class_names::{NameBudget, demangle_class, strip_phrase};
use super::graph::{ClassKind, MemoryGraph};
use crate::profile::{LackingImages, ProfileImage};
use std::collections::BTreeSet;
use unslide_model::{DebugId, RelativeAddress};
use unslide_symbolicate::symcache::{ClassSymbol, SymCache};
use unslide_symbolicate::{ImageOutcome, ImageSymbols};

/// The result of naming classes by symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedClasses {
    /// Classes that symbols have named.
    pub named: u64,
    /// Classes without a name although their image has symbols: those have no symbol at the class's address.
    pub without_symbol: u64,
    /// The images with classes that have no names because symbols are missing. Their frames are classes.
    pub lacking: Vec<ImageOutcome>,
}

impl MemoryGraph {
    /// Returns the images whose symbols name classes that the file does not name, each once.
    #[must_use]
    pub fn list_unnamed_images(&self) -> Vec<&ProfileImage> {
        let unnamed = self.classes.iter().filter(|class| class.name.is_empty());
        let images: BTreeSet<u32> = unnamed.filter_map(|class| class.image).collect();
        images.into_iter().filter_map(|image| self.images.get(image as usize)).collect()
    }

    /// Demangles the names of classes in the file, and names the classes that it does not name.
    pub fn name_classes<'s>(
        &mut self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    ) -> NamedClasses {
        let mut told = NamedClasses::default();
        let mut lacking = LackingImages::default();
        let mut budget = NameBudget::default();
        for class in self.classes.iter_mut().filter(|class| !class.name.is_empty()) {
            if let Some((name, kind)) = demangle_class(&class.name, class.kind, &mut budget) {
                class.name = name;
                class.kind = if class.kind == ClassKind::Unknown { kind } else { class.kind };
            }
        }
        for class in self.classes.iter_mut().filter(|class| class.name.is_empty()) {
            let Some(image) = class.image.and_then(|image| self.images.get(image as usize)) else { continue };
            let found = image.debug_id.as_ref().and_then(symbols);
            let Some(ImageSymbols::Found { symcache, .. }) = found else {
                lacking.add_image(image, found, image.origin());
                continue;
            };
            match read_class_name(symcache, RelativeAddress(class.address - image.start)) {
                Some((name, kind)) => {
                    class.name = name;
                    class.kind = if class.kind == ClassKind::Unknown { kind } else { class.kind };
                    told.named += 1;
                }
                None => told.without_symbol += 1,
            }
        }
        told.lacking = lacking.into_list();
        told
    }
}

fn read_class_name(symcache: &SymCache, address: RelativeAddress) -> Option<(String, ClassKind)> {
    let ClassSymbol { symbol, name } = symcache.class_symbol(address)?;
    let name = name.decode();
    let kind = match symbol.raw() {
        raw if raw.starts_with(b"_ZTV") => ClassKind::Cpp,
        raw if raw.starts_with(b"$s") || raw.starts_with(b"_Tt") => ClassKind::Swift,
        _ => ClassKind::ObjectiveC,
    };
    Some((strip_phrase(&name), kind))
}
