//! Overlapping address ranges: later painted ranges cover earlier ones.

use std::collections::BTreeMap;

/// Disjoint ranges with a value each.
#[derive(Default)]
pub(super) struct Canvas(BTreeMap<u32, (u32, u32)>);

impl Canvas {
    /// Sets `low..high` to `value`, replacing earlier values.
    pub(super) fn paint_range(&mut self, low: u32, high: u32, value: u32) {
        if low >= high {
            return;
        }
        if let Some((_, (end, old))) = self.0.range_mut(..low).next_back() {
            let (old_end, old) = (*end, *old);
            if old_end > low {
                *end = low;
                if old_end > high {
                    self.0.insert(high, (old_end, old));
                }
            }
        }
        let covered: Vec<u32> = self.0.range(low..high).map(|(start, _)| *start).collect();
        for start in covered {
            if let Some((end, old)) = self.0.remove(&start).filter(|(end, _)| *end > high) {
                self.0.insert(high, (end, old));
            }
        }
        self.0.insert(low, (high, value));
    }

    /// Sets `low..high` to `value`, as one range with the adjoining and contained ranges of that value. On
    /// a canvas painted this way, [`Canvas::blank_parts`] visits at most one range more than it finds parts.
    pub(super) fn paint_joined(&mut self, mut low: u32, mut high: u32, value: u32) {
        if low >= high {
            return;
        }
        if let Some((start, (end, old))) = self.0.range(..low).next_back()
            && *end >= low
            && *old == value
        {
            (low, high) = (*start, high.max(*end));
        }
        if let Some((_, (end, old))) = self.0.range(..=high).next_back()
            && *end > high
            && *old == value
        {
            high = *end;
        }
        self.paint_range(low, high, value);
    }

    /// Returns the parts of `low..high` that have no value yet.
    pub(super) fn blank_parts(&self, low: u32, high: u32) -> Vec<(u32, u32)> {
        let mut at = low;
        if let Some((_, (end, _))) = self.0.range(..=low).next_back() {
            at = at.max(*end);
        }
        let mut blank = Vec::new();
        for (start, (end, _)) in self.0.range(low..high) {
            if at < *start {
                blank.push((at, *start));
            }
            at = at.max(*end);
        }
        if at < high {
            blank.push((at, high));
        }
        blank
    }

    /// Returns start, end and value of each range, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.0.iter().map(|(low, (high, value))| (*low, *high, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_coat_shows(coats in proptest::collection::vec((0_u32..40, 0_u32..40), 0..20)) {
            let mut canvas = Canvas::default();
            let mut cells = [None; 40];
            for (value, (low, high)) in coats.into_iter().enumerate() {
                canvas.paint_range(low, high, value as u32);
                for cell in cells.iter_mut().take(high as usize).skip(low as usize) {
                    *cell = Some(value as u32);
                }
            }
            let mut seen = [None; 40];
            for (low, high, value) in canvas.iter() {
                for cell in &mut seen[low as usize..high as usize] {
                    prop_assert_eq!(cell.replace(value), None);
                }
            }
            prop_assert_eq!(seen, cells);
            let blank: Vec<u32> = canvas.blank_parts(3, 37).into_iter().flat_map(|(low, high)| low..high).collect();
            let expected: Vec<u32> = (3..37).filter(|i| cells[*i as usize].is_none()).collect();
            prop_assert_eq!(blank, expected);
        }

        #[test]
        fn what_is_spread_is_one_range_with_its_like(
            coats in proptest::collection::vec((0_u32..40, 0_u32..40, 0_u32..2), 0..20),
        ) {
            let (mut spread, mut painted) = (Canvas::default(), Canvas::default());
            for (low, high, value) in coats {
                spread.paint_joined(low, high, value);
                painted.paint_range(low, high, value);
            }
            let mut expected: Vec<(u32, u32, u32)> = Vec::new();
            for (low, high, value) in painted.iter() {
                match expected.last_mut() {
                    Some(last) if last.1 == low && last.2 == value => last.1 = high,
                    _ => expected.push((low, high, value)),
                }
            }
            prop_assert_eq!(spread.iter().collect::<Vec<_>>(), expected);
        }
    }
}
