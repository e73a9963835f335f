//! The builds of the two apps, and the bugs in each.

use super::DAYS;
use crate::demo::{CRASH, DSYM};

/// The id of the demo's build, in its dSYM.
const OWN_UUID: &str = "4C4C44B6-5555-3144-A12A-80A257B474E2";

/// A program that was compiled for the demo. Builds have it under other UUIDs.
pub struct Program {
    /// The archive of its dSYM.
    pub dsym: &'static [u8],
    /// The UUID that the dSYM and the report have.
    pub uuid: &'static str,
    /// The report of a crash in it.
    pub crash: &'static [u8],
    /// Its source files, by their paths in the dSYM.
    pub sources: [(&'static str, &'static str); 4],
}

const HEADER: (&str, &str) = ("/Users/ci/Cafe/src/cart.hpp", include_str!("../../../demo/src/cart.hpp"));
const MAIN: (&str, &str) = ("/Users/ci/Cafe/src/main.m", include_str!("../../../demo/src/main.m"));
const ORDER: (&str, &str) = ("/Users/ci/Cafe/src/order.m", include_str!("../../../demo/src/order.m"));
const CART_PATH: &str = "/Users/ci/Cafe/src/cart.cpp";

/// The program of all builds but one.
pub static PROGRAM: Program = Program {
    dsym: DSYM,
    uuid: OWN_UUID,
    crash: CRASH,
    sources: [(CART_PATH, include_str!("../../../demo/src/cart.cpp")), HEADER, MAIN, ORDER],
};

/// The program of the bad release: a function was edited.
pub static EDITED_PROGRAM: Program = Program {
    dsym: include_bytes!("../../../demo/Cafe-2.5.0.dSYM.zip"),
    uuid: "4C4C44A7-5555-3144-A11C-EEF1EA54E231",
    crash: include_bytes!("../../../demo/crash-2.5.0.json"),
    sources: [(CART_PATH, include_str!("../../../demo/src/2.5.0/cart.cpp")), HEADER, MAIN, ORDER],
};

/// The version with the edited program.
pub const BAD_VERSION: &str = "2.5.0";
/// The version that is to mend its bugs.
pub const REPAIR_VERSION: &str = "2.5.1";

/// When a build's dSYM is uploaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UploadTime {
    Before,
    Late,
    Never,
}

/// A build and its reports of each day, the oldest first.
pub struct Build {
    pub app: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    pub number: &'static str,
    pub uuid: &'static str,
    pub upload: UploadTime,
    pub days: [u32; DAYS as usize],
    /// How often each of the bugs happens in it.
    pub bugs: [u32; 8],
}

pub const CAFE: &str = "com.example.cafe";
const BAKERY: &str = "com.example.bakery";

impl Build {
    /// Returns the program that the build is made of.
    pub fn program(&self) -> &'static Program {
        if self.version == BAD_VERSION { &EDITED_PROGRAM } else { &PROGRAM }
    }

    /// Returns true for builds before the release that breaks paying.
    pub fn is_before_bad_release(&self) -> bool {
        self.app != CAFE || self.version < "2.5"
    }
}

const fn build(
    (app, name): (&'static str, &'static str),
    (version, number): (&'static str, &'static str),
    uuid: &'static str,
    upload: UploadTime,
    days: [u32; DAYS as usize],
    bugs: [u32; 8],
) -> Build {
    Build { app, name, version, number, uuid, upload, days, bugs }
}

pub static BUILDS: [Build; 7] = [
    build(
        (CAFE, "Cafe"),
        ("2.3.0", "370"),
        "A1D00230-5555-3144-A12A-80A257B474E2",
        UploadTime::Before,
        [26, 20, 15, 10, 6, 4],
        [3, 0, 5, 2, 1, 1, 0, 0],
    ),
    build(
        (CAFE, "Cafe"),
        ("2.4.0", "381"),
        OWN_UUID,
        UploadTime::Before,
        [20, 35, 40, 30, 18, 10],
        [6, 1, 3, 2, 1, 2, 1, 0],
    ),
    build(
        (CAFE, "Cafe"),
        (BAD_VERSION, "390"),
        "A1D00250-5555-3144-A12A-80A257B474E2",
        UploadTime::Before,
        [0, 0, 0, 8, 160, 60],
        [1, 20, 1, 1, 0, 1, 0, 24],
    ),
    build(
        (CAFE, "Cafe"),
        (REPAIR_VERSION, "391"),
        "A1D00251-5555-3144-A12A-80A257B474E2",
        UploadTime::Late,
        [0, 0, 0, 0, 7, 12],
        [1, 0, 2, 1, 0, 0, 0, 0],
    ),
    build(
        (CAFE, "Cafe"),
        ("2.6.0", "400"),
        "A1D00260-5555-3144-A12A-80A257B474E2",
        UploadTime::Never,
        [0, 0, 0, 3, 5, 6],
        [2, 0, 1, 0, 0, 0, 0, 0],
    ),
    build(
        (BAKERY, "Bakery"),
        ("1.0", "10"),
        "BA4E0100-5555-3144-A12A-80A257B474E2",
        UploadTime::Before,
        [6, 5, 5, 3, 2, 1],
        [0, 0, 3, 1, 1, 0, 0, 0],
    ),
    build(
        (BAKERY, "Bakery"),
        ("1.1", "12"),
        "BA4E0110-5555-3144-A12A-80A257B474E2",
        UploadTime::Before,
        [1, 3, 4, 6, 7, 8],
        [1, 0, 1, 2, 0, 1, 0, 0],
    ),
];
