//! Addresses. A runtime address, an address in a file and an offset from an image's start are all
//! 64-bit numbers. A type for each prevents that one is used as another.

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

impl RelativeAddress {
    /// Returns the file address of this offset if `__TEXT` has the vm address `text`. Returns `None` if the
    /// sum does not fit 64 bits.
    #[must_use]
    pub fn in_file(self, text: FileAddress) -> Option<FileAddress> {
        self.0.checked_add(text.0).map(FileAddress)
    }

    /// Returns the address one byte lower, which lies in the call that returns here. 0 stays 0.
    #[must_use]
    pub fn previous_byte(self) -> RelativeAddress {
        RelativeAddress(self.0.saturating_sub(1))
    }
}

/// Load address − preferred address of an image, in bytes. Signed: an image may be loaded below
/// its preferred address. An i128, so that every pair of 64-bit addresses has a slide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide(pub i128);

impl Slide {
    /// Returns the slide of an image that prefers `preferred` and was loaded at `loaded`.
    #[must_use]
    pub fn from_addresses(loaded: LoadAddress, preferred: FileAddress) -> Slide {
        Slide(i128::from(loaded.0) - i128::from(preferred.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slide_and_an_offset_agree_on_the_file_address(image: u64, text: u64, offset: u64) {
            let address = i128::from(image) + i128::from(offset);
            let slide = Slide::from_addresses(LoadAddress(image), FileAddress(text));
            let by_slide = u64::try_from(address - slide.0).ok().map(FileAddress);
            prop_assert_eq!(by_slide, RelativeAddress(offset).in_file(FileAddress(text)));
        }
    }
}
