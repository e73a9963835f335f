//! The report-level `symbolication` object that we write, read back.

mod finding;
mod frame;
mod own_frames;
mod place;
mod removal;
mod variable;

use crate::Number;
use crate::json::{Value, debug_id};
use crate::report::javascript::ours::{OurJavaScriptFrame, read_frames};
pub use finding::OurFinding;
pub use frame::{OurCall, OurFrame};
pub use own_frames::OwnFrames;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{DebugId, ReportGrouping};
pub use variable::{OurVariable, format_value};

/// The prefix of the name of each of our engines.
pub const ENGINE_PREFIX: &str = "unslide/";

/// Our report-level member. Members of it that are absent or of another type are `None`, 0 or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ours {
    /// The version of the object's format.
    pub version: u64,
    /// The engine that wrote it, such as `unslide/0.1.0`.
    pub engine: String,
    /// The revision of this report, from 1.
    pub revision: Option<u32>,
    /// The revision that this one replaces.
    pub supersedes: Option<u32>,
    /// `complete`, `partial` or `none`.
    pub status: String,
    /// The reason for the status `none`, such as `no_frames`.
    pub reason: Option<String>,
    /// The tenant's slug.
    pub tenant: Option<String>,
    /// The time when the report was symbolicated.
    pub processed_at: Option<OffsetDateTime>,
    /// The number of frames in each status.
    pub frames: FrameCounts,
    /// The images that a frame refers to.
    pub images: Vec<OurImage>,
    /// The debug ids of the symbols that the report waits for.
    pub missing: Vec<DebugId>,
    /// The warnings about the report.
    pub warnings: Vec<String>,
    /// The report's bug. `None` if the report says neither what happened nor where.
    pub grouping: Option<ReportGrouping>,
    /// The words of an analysis that the title of the bug has in place of the exception's name.
    pub headline: Option<String>,
    /// The frames of the report's JavaScript error, the innermost first.
    pub javascript: Vec<OurJavaScriptFrame>,
    /// The findings of analyses.
    pub findings: Vec<OurFinding>,
    /// The variables of the innermost frame.
    pub variables: Vec<OurVariable>,
}

/// The number of frames in each status. The field names are those of the JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the frame status of its name")]
pub struct FrameCounts {
    pub total: u64,
    pub symbolicated: u64,
    pub device: u64,
    /// Frames of `device` that lie in an image of the app: its dSYM is missing. They are a subset, so they
    /// do not add to `total`.
    pub device_app: u64,
    pub missing_symbol: u64,
    pub unknown_image: u64,
    pub missing: u64,
    pub malformed: u64,
    pub unsupported: u64,
    pub fetching_failed: u64,
    pub invalid_address: u64,
    pub invalid: u64,
}

/// One item of `symbolication.images`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurImage {
    /// The image's debug id. `None` for an image without one.
    pub debug_id: Option<DebugId>,
    /// The image's file name.
    pub name: Option<String>,
    /// Its architecture, such as `arm64e`.
    pub arch: Option<String>,
    /// `found`, `missing`, `malformed`, `unsupported` or `fetching_failed`.
    pub status: String,
    /// The slide in bytes, signed.
    pub slide: Option<i128>,
    /// The generation of the symbols that were used.
    pub generation: Option<u64>,
    /// True for an image of the operating system, by its path.
    pub system: bool,
    /// True for an image of the app that has only the symbols of a stripped binary: its dSYM is missing.
    pub stripped: bool,
}

impl Ours {
    /// Reads a report-level `symbolication` object. Returns `None` if it is not ours.
    pub(crate) fn from_value(value: Value<'_>) -> Option<Ours> {
        let mut ours = Ours::default();
        let (mut version, mut engine) = (None, None);
        value.each_member(|key, value| match key {
            b"version" => version = value.as_unsigned(),
            b"engine" => engine = value.decode_string(),
            b"revision" => ours.revision = value.unsigned_32(),
            b"supersedes" => ours.supersedes = value.unsigned_32(),
            b"status" => ours.status = value.decode_string().unwrap_or_default(),
            b"reason" => ours.reason = value.decode_string(),
            b"tenant" => ours.tenant = value.decode_string(),
            b"processed_at" => {
                ours.processed_at =
                    value.decode_string().and_then(|t| OffsetDateTime::parse(&t, &Rfc3339).ok());
            }
            b"frames" => ours.frames = FrameCounts::from_value(value),
            b"images" => ours.images = value.items().into_iter().map(OurImage::from_value).collect(),
            b"missing" => {
                ours.missing =
                    value.items().into_iter().filter_map(|id| id.as_uuid().and_then(debug_id)).collect();
            }
            b"warnings" => {
                ours.warnings = value.items().into_iter().filter_map(Value::decode_string).collect();
            }
            b"grouping" => {
                ours.grouping = read_grouping(value);
                ours.headline = value.get("headline").and_then(Value::decode_string);
            }
            b"javascript" => ours.javascript = read_frames(value),
            b"variables" => ours.variables = variable::read_variables(value),
            _ => finding::read_finding(key, value, &mut ours.findings),
        });
        ours.version = version?;
        ours.engine = engine.filter(|engine| engine.starts_with(ENGINE_PREFIX))?;
        Some(ours)
    }
}

impl FrameCounts {
    fn from_value(value: Value<'_>) -> FrameCounts {
        let mut counts = FrameCounts::default();
        value.each_member(|key, value| {
            let count = match key {
                b"total" => &mut counts.total,
                b"symbolicated" => &mut counts.symbolicated,
                b"device" => &mut counts.device,
                b"device_app" => &mut counts.device_app,
                b"missing_symbol" => &mut counts.missing_symbol,
                b"unknown_image" => &mut counts.unknown_image,
                b"missing" => &mut counts.missing,
                b"malformed" => &mut counts.malformed,
                b"unsupported" => &mut counts.unsupported,
                b"fetching_failed" => &mut counts.fetching_failed,
                b"invalid_address" => &mut counts.invalid_address,
                b"invalid" => &mut counts.invalid,
                _ => return,
            };
            *count = value.as_unsigned().unwrap_or(0);
        });
        counts
    }
}

/// Reads `symbolication.grouping`. Returns `None` without a fingerprint.
fn read_grouping(value: Value<'_>) -> Option<ReportGrouping> {
    let (mut grouping, mut fingerprint) = (ReportGrouping::default(), None);
    value.each_member(|key, value| match key {
        b"fingerprint" => fingerprint = value.as_uuid(),
        b"kind" => grouping.kind = value.decode_string().unwrap_or_default(),
        b"provisional" => grouping.provisional = value.as_boolean().unwrap_or(false),
        b"title" => grouping.title = value.decode_string().unwrap_or_default(),
        b"culprit" => grouping.culprit = value.decode_string().unwrap_or_default(),
        _ => {}
    });
    grouping.fingerprint = fingerprint?;
    Some(grouping)
}

impl OurImage {
    /// Returns true for an image of the app if better symbols would name frames.
    #[must_use]
    pub fn lacks_symbols(&self) -> bool {
        !self.system && (self.status != "found" || self.stripped)
    }

    fn from_value(value: Value<'_>) -> OurImage {
        let mut image = OurImage::default();
        value.each_member(|key, value| match key {
            b"debug_id" => image.debug_id = value.as_uuid().and_then(debug_id),
            b"name" => image.name = value.decode_string(),
            b"arch" => image.arch = value.decode_string(),
            b"status" => image.status = value.decode_string().unwrap_or_default(),
            b"slide" => {
                image.slide = value.as_number().and_then(|n| match n {
                    Number::Int { magnitude, negative } => {
                        let magnitude = i128::from(magnitude);
                        Some(if negative { -magnitude } else { magnitude })
                    }
                    Number::Float(_) => None,
                });
            }
            b"generation" => image.generation = value.as_unsigned(),
            b"system" => image.system = value.as_boolean().unwrap_or(false),
            b"stripped" => image.stripped = value.as_boolean().unwrap_or(false),
            _ => {}
        });
        image
    }
}
