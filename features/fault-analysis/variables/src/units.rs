//! Facts about a unit of the debug information.

/// The language of a unit, as far as rules distinguish it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitLanguage {
    /// C, C++ and their Objective forms.
    CFamily,
    Swift,
    Rust,
    #[default]
    Other,
}

/// The language of a unit, and whether it has data that leads to other data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFacts {
    pub language: UnitLanguage,
    /// True if it has a global or static variable that is a pointer or a structure.
    pub has_global_pointers: bool,
}

const GLOBAL_POINTERS_BIT: u8 = 1 << 7;

impl UnitFacts {
    pub(crate) fn to_byte(self) -> u8 {
        let language = match self.language {
            UnitLanguage::Other => 0,
            UnitLanguage::CFamily => 1,
            UnitLanguage::Swift => 2,
            UnitLanguage::Rust => 3,
        };
        if self.has_global_pointers { language | GLOBAL_POINTERS_BIT } else { language }
    }

    pub(crate) fn from_byte(byte: u8) -> UnitFacts {
        let language = match byte & !GLOBAL_POINTERS_BIT {
            1 => UnitLanguage::CFamily,
            2 => UnitLanguage::Swift,
            3 => UnitLanguage::Rust,
            _ => UnitLanguage::Other,
        };
        UnitFacts { language, has_global_pointers: byte & GLOBAL_POINTERS_BIT != 0 }
    }
}
