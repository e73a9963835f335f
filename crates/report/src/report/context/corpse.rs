//! The snapshot of a process that has ended: `corpse`, which KSCrash 3.0 makes in the crash report extension of iOS 27.
//!
//! Format: `CorpseSnapshot` of KSCrash 3.0, read from its sources. No snapshot of a device has been seen. Times are left
//! out, because their unit depends on the device. So are its images: their sizes reach to the end of the shared cache.

use super::room::ContextRoom;
use crate::json::Value;
use crate::report::summary::facts::PartFacts;

/// The maximum number of notes of the kernel.
const NOTES_LIMIT: usize = 20;

/// A fact of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpseFact {
    /// Its name for people.
    pub name: &'static str,
    /// Its value.
    pub value: CorpseValue,
}

/// The value of a fact of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorpseValue {
    /// A size in bytes.
    Bytes(u64),
    /// A number or an id.
    Number(u64),
    /// A text, on one line.
    Text(String),
}

/// The unit of a member of the snapshot.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Mebibytes,
    Number,
    Text,
}

/// The members that are read, in the order in which they are shown: name, path, unit.
const MEMBERS: [(&str, &[&str], Unit); 20] = [
    ("Exit reason", &["crashInfo", "exitReasonDescription"], Unit::Text),
    ("Role", &["taskRole"], Unit::Text),
    ("Kernel's id of the crashed thread", &["crashInfo", "crashedThreadID"], Unit::Number),
    ("Memory", &["rusage", "physFootprint"], Unit::Bytes),
    ("Largest memory", &["rusage", "lifetimeMaxPhysFootprint"], Unit::Bytes),
    ("Memory limit", &["crashInfo", "memoryLimitMB"], Unit::Mebibytes),
    ("Left to the limit", &["vmInfo", "limitBytesRemaining"], Unit::Bytes),
    ("Limit of the resource", &["crashInfo", "resource", "limitMB"], Unit::Mebibytes),
    ("Compressed memory", &["ledgers", "internalMemoryCompressed"], Unit::Bytes),
    ("Memory of graphics", &["ledgers", "graphicsFootprint"], Unit::Bytes),
    ("Memory of media", &["ledgers", "mediaFootprint"], Unit::Bytes),
    ("Memory of neural networks", &["ledgers", "neuralFootprint"], Unit::Bytes),
    ("Regions of memory", &["vmInfo", "regionCount"], Unit::Number),
    ("Read from storage", &["rusage", "diskioBytesRead"], Unit::Bytes),
    ("Written to storage", &["rusage", "diskioBytesWritten"], Unit::Bytes),
    ("Threads of work queues", &["workqueue", "totalThreads"], Unit::Number),
    ("Blocked threads of work queues", &["workqueue", "blockedThreads"], Unit::Number),
    ("Times suspended", &["basicInfo", "suspendCount"], Unit::Number),
    ("Signed as", &["codeSigning", "signingID"], Unit::Text),
    ("Signed by team", &["codeSigning", "teamID"], Unit::Text),
];

/// Reads the facts of the snapshot and the notes of the kernel in it. Members of another type are left out.
pub(super) fn read_corpse(facts: &PartFacts<'_, '_>, room: &mut ContextRoom) -> Vec<CorpseFact> {
    let Some(corpse) = facts.corpse() else { return Vec::new() };
    let mut read: Vec<CorpseFact> = MEMBERS
        .into_iter()
        .filter_map(|(name, path, unit)| {
            let value = read_member(corpse.find_path(path)?, unit, room)?;
            Some(CorpseFact { name, value })
        })
        .collect();
    let mut notes = 0;
    if let Some(triage) = corpse.get("kernelTriage") {
        triage.each_item(|note| {
            if notes == NOTES_LIMIT {
                return room.cut();
            }
            notes += 1;
            let value = read_member(note, Unit::Text, room);
            read.extend(value.map(|value| CorpseFact { name: "Note of the kernel", value }));
        });
    }
    read
}

fn read_member(value: Value<'_>, unit: Unit, room: &mut ContextRoom) -> Option<CorpseValue> {
    match unit {
        Unit::Bytes => value.as_unsigned().map(CorpseValue::Bytes),
        Unit::Mebibytes => {
            value.as_unsigned().and_then(|size| size.checked_mul(1 << 20)).map(CorpseValue::Bytes)
        }
        Unit::Number => value.as_unsigned().map(CorpseValue::Number),
        Unit::Text => {
            value.as_text()?;
            Some(CorpseValue::Text(room.take_value(value)))
                .filter(|text| *text != CorpseValue::Text(String::new()))
        }
    }
}
