//! Finds the layout of a log from its records, and refuses a stated layout that they do not have. A record that is read
//! in a wrong layout has a type, an address, a size or a stack that no process can have.

use super::event::{EventLayout, EventLog, NoEvent};

/// The most records that are looked at.
const MOST_TRIED_RECORDS: usize = 4_096;
/// The fewest records from which a layout is recognised.
const FEWEST_RECORDS: u64 = 8;
/// Addresses and sizes of a process lie below this one.
const ADDRESS_LIMIT: u64 = 1 << 48;
/// Slots of a table lie below this one: a larger table would have 64 GiB.
const SLOT_LIMIT: u64 = 1 << 32;

/// The records of a log do not have the layout that was stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the events are not of the layout {}: {possible} of {records} records are possible. They are of the layout {}, so \
     set that",
    .stated.as_str(),
    .fits.as_str()
)]
pub struct WrongLayout {
    stated: EventLayout,
    /// The only layout that fits.
    fits: EventLayout,
    possible: u64,
    records: u64,
}

/// The layout of a log cannot be seen from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the layout of the events cannot be seen from their {records} records: {fitting} layouts fit. Set the layout"
)]
pub struct UnclearLayout {
    records: u64,
    fitting: usize,
}

/// How many of the first records are possible.
#[derive(Clone, Copy, Debug, Default)]
struct RecordCounts {
    /// Records that are not zero.
    written: u64,
    possible: u64,
}

impl RecordCounts {
    /// Returns true if at least nine of ten records are possible.
    fn fit_layout(self) -> bool {
        self.written >= FEWEST_RECORDS && self.possible * 10 >= self.written * 9
    }
}

impl EventLayout {
    const ALL: [EventLayout; 4] =
        [EventLayout::Disk64, EventLayout::Disk32, EventLayout::Enumerator, EventLayout::Index];

    /// Returns the word for the layout in settings and documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventLayout::Disk64 => "disk",
            EventLayout::Disk32 => "disk32 (disk with pointers of 4 bytes)",
            EventLayout::Enumerator => "enumerator",
            EventLayout::Index => "index",
        }
    }

    /// Returns the layout that the records of a log have.
    ///
    /// # Errors
    /// Returns [`UnclearLayout`] if no layout fits, or more than one.
    pub fn detect_layout(bytes: &[u8]) -> Result<EventLayout, UnclearLayout> {
        let fitting = list_fitting(bytes);
        if let [layout] = fitting[..] {
            return Ok(layout);
        }
        let records = EventLog::new(bytes, EventLayout::Disk32).len() as u64;
        Err(UnclearLayout { records, fitting: fitting.len() })
    }
}

impl<'a> EventLog<'a> {
    /// Returns the log in these bytes, if its records may have this layout. Damaged records, and a log that fits no
    /// layout, are no reason to refuse it.
    ///
    /// # Errors
    /// Returns [`WrongLayout`] if fewer than half of the records are possible, and another layout fits.
    pub fn from_bytes(bytes: &'a [u8], layout: EventLayout) -> Result<EventLog<'a>, WrongLayout> {
        let log = EventLog::new(bytes, layout);
        let RecordCounts { written, possible } = log.count_records();
        if possible * 2 < written
            && let [fits] = list_fitting(bytes)[..]
        {
            return Err(WrongLayout { stated: layout, fits, possible, records: written });
        }
        Ok(log)
    }

    fn count_records(&self) -> RecordCounts {
        let mut counts = RecordCounts::default();
        let end = self.len().min(MOST_TRIED_RECORDS);
        for (number, event) in self.events(0, end).enumerate() {
            if event == Err(NoEvent::Empty) && self.is_zero(number) {
                continue;
            }
            counts.written += 1;
            let is_possible = event.is_ok_and(|event| {
                event.address < ADDRESS_LIMIT && event.size < ADDRESS_LIMIT && event.stack < SLOT_LIMIT
            });
            counts.possible += u64::from(is_possible);
        }
        counts
    }
}

/// Returns the layouts that fit the records.
fn list_fitting(bytes: &[u8]) -> Vec<EventLayout> {
    let fits = |layout: &EventLayout| EventLog::new(bytes, *layout).count_records().fit_layout();
    EventLayout::ALL.into_iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::{LAYOUTS, record};
    use super::*;

    /// A log of blocks that are allocated, moved and freed, with ranges of virtual memory between them.
    fn log(layout: EventLayout, events: u64) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let one = |_| {
            let base = if layout == EventLayout::Disk32 { 0x0400_0000 } else { 0x1_0400_0000 };
            let address = base + 16 * next(1 << 20);
            let (flags, size) = match next(8) {
                0..3 => (2 | 8, 16 + next(4_096)),
                3..6 => (4 | 8, 0),
                6 => (6 | 8, 16 + next(1 << 20)),
                _ => (16 | (next(90) as u32 + 1) << 24, 4_096 * (1 + next(64))),
            };
            record(layout, flags, address, size, 1 + next(1 << 16))
        };
        (0..events).flat_map(one).collect()
    }

    #[test]
    fn every_layout_is_detected_and_every_other_one_refused() {
        for layout in LAYOUTS {
            let bytes = log(layout, 300);
            assert_eq!(EventLayout::detect_layout(&bytes), Ok(layout));
            for stated in LAYOUTS {
                match EventLog::from_bytes(&bytes, stated) {
                    Ok(log) => assert_eq!((stated, log.len()), (layout, 300)),
                    Err(error) => assert_eq!((error.stated, error.fits), (stated, layout)),
                }
            }
        }
        let wrong = EventLog::from_bytes(&log(EventLayout::Index, 300), EventLayout::Disk64).unwrap_err();
        let said = wrong.to_string();
        assert!(said.contains("layout disk:") && said.contains("layout index, so set that"), "{said}");
    }

    #[test]
    fn few_empty_and_damaged_records_are_no_reason() {
        for layout in LAYOUTS {
            let mut bytes = log(layout, 400);
            bytes.resize(bytes.len() * 3, 0);
            assert_eq!(EventLayout::detect_layout(&bytes), Ok(layout), "an index is written in blocks");
            for stated in LAYOUTS {
                assert!(EventLog::from_bytes(&log(layout, 1)[..16], stated).is_ok());
            }
            let noise: Vec<u8> =
                (0..4_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_be_bytes()).collect();
            assert!(EventLog::from_bytes(&noise, layout).is_ok());
            assert_eq!(EventLayout::detect_layout(&noise).map_err(|error| error.fitting), Err(0));
        }
        assert_eq!(EventLayout::detect_layout(&[]).map_err(|error| error.records), Err(0));
    }
}
