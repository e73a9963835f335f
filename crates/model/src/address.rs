//! Addresses. A runtime address, an address in a file and an offset from an image's start are all
//! 64-bit numbers; giving each a type keeps one from being used as another.

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// An address in the crashed process's memory, as the device reported it (slid).
    LoadAddress
}
address! {
    /// An address in the Mach-O file's own address space (a vm address, not slid).
    FileAddress
}
address! {
    /// Bytes from the start of an image's `__TEXT` segment, the same in memory and in the file.
    RelativeAddress
}

impl LoadAddress {
    /// The offset of this address in the image loaded at `image`; `None` below the image's start.
    #[must_use]
    pub fn relative_to(self, image: LoadAddress) -> Option<RelativeAddress> {
        self.0.checked_sub(image.0).map(RelativeAddress)
    }
}

impl RelativeAddress {
    /// The file address of this offset where `__TEXT` has the vm address `text`; `None` where the
    /// sum does not fit 64 bits.
    #[must_use]
    pub fn in_file(self, text: FileAddress) -> Option<FileAddress> {
        self.0.checked_add(text.0).map(FileAddress)
    }

    /// The address one byte lower, where a call that returns here lies; 0 stays 0.
    #[must_use]
    pub fn before(self) -> RelativeAddress {
        RelativeAddress(self.0.saturating_sub(1))
    }
}

/// Load address − preferred address of an image, in bytes. Signed: an image may be loaded below
/// the address that it prefers. Held as i128 so that every pair of 64-bit addresses has a slide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide(pub i128);

impl Slide {
    /// The slide of an image that prefers `preferred` and was loaded at `loaded`.
    #[must_use]
    pub fn between(loaded: LoadAddress, preferred: FileAddress) -> Slide {
        Slide(i128::from(loaded.0) - i128::from(preferred.0))
    }

    /// The file address of a runtime address; `None` where it falls outside 64 bits.
    #[must_use]
    pub fn undo(self, address: LoadAddress) -> Option<FileAddress> {
        u64::try_from(i128::from(address.0) - self.0).ok().map(FileAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slide_and_an_offset_agree_on_the_file_address(image: u64, text: u64, offset: u64) {
            let address = LoadAddress(image.wrapping_add(offset));
            prop_assume!(image.checked_add(offset).is_some());
            let by_slide = Slide::between(LoadAddress(image), FileAddress(text)).undo(address);
            let by_offset = address.relative_to(LoadAddress(image)).and_then(|o| o.in_file(FileAddress(text)));
            prop_assert_eq!(by_slide, by_offset);
        }

        #[test]
        fn an_address_below_the_image_has_no_offset(image in 1u64.., below in 1u64..) {
            prop_assume!(below <= image);
            prop_assert_eq!(LoadAddress(image - below).relative_to(LoadAddress(image)), None);
        }
    }
}
