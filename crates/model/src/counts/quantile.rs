//! Approximate quantiles of weighted values.
//!
//! A `DDSketch` (Masson, Rim and Lee, VLDB 2019): the buckets' bounds grow by a constant factor, so that each quantile
//! is at most 1 % off. Values lie between 10⁻³ and 10¹⁵, which bounds the number of buckets. Sketches of parts merge
//! into the sketch of the whole, in any order. The lowest and the highest value are exact, so equal values are exact.
//!
//! # Stored form
//!
//! Version 1: a byte with the version, and for a sketch with values the lowest and the highest value as `f64`,
//! little-endian, the weight of zero, and then each bucket's distance from the bucket before it and its weight, all three as
//! LEB128.

use std::collections::BTreeMap;

/// The smallest value that does not count as zero.
const LEAST: f64 = 1e-3;
/// Larger values count as this one.
const LARGEST_VALUE: f64 = 1e15;
/// The buckets of [`LEAST`] and of [`LARGEST_VALUE`].
const BUCKETS: std::ops::RangeInclusive<i16> = -345..=1727;
/// The first byte of a stored sketch.
const FORM_VERSION: u8 = 1;

/// The distribution of values. It supports adding, merging, quantiles and storing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantileSketch {
    nothing: u64,
    buckets: BTreeMap<i16, u64>,
    /// `None` without values.
    bounds: Option<ValueBounds>,
}

/// The lowest and the highest value of a sketch, neither of them negative.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueBounds {
    lowest: f64,
    highest: f64,
}

impl ValueBounds {
    fn include(self, other: ValueBounds) -> ValueBounds {
        ValueBounds { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }
}

impl QuantileSketch {
    /// The largest relative error of a quantile.
    pub const RELATIVE_ERROR: f64 = 0.01;

    /// Adds a value `weight` times. Negative values count as 0; NaN is ignored.
    pub fn add_value(&mut self, value: f64, weight: u64) {
        if value.is_nan() || weight == 0 {
            return;
        }
        let counted = if value > 0.0 { value.min(LARGEST_VALUE) } else { 0.0 };
        self.include_bounds(ValueBounds { lowest: counted, highest: counted });
        let own = match find_bucket(value) {
            Some(bucket) => self.buckets.entry(bucket).or_default(),
            None => &mut self.nothing,
        };
        *own = own.saturating_add(weight);
    }

    /// Adds every value that was added to another sketch.
    pub fn merge(&mut self, other: &QuantileSketch) {
        if let Some(bounds) = other.bounds {
            self.include_bounds(bounds);
        }
        self.nothing = self.nothing.saturating_add(other.nothing);
        for (bucket, weight) in &other.buckets {
            let own = self.buckets.entry(*bucket).or_default();
            *own = own.saturating_add(*weight);
        }
    }

    /// Widens the bounds by those of added values.
    fn include_bounds(&mut self, bounds: ValueBounds) {
        self.bounds = Some(self.bounds.map_or(bounds, |own| own.include(bounds)));
    }

    /// Returns the value if all values are equal, so that every quantile is exact.
    #[must_use]
    pub fn exact_value(&self) -> Option<f64> {
        self.bounds.filter(|bounds| bounds.lowest == bounds.highest).map(|bounds| bounds.lowest)
    }

    /// Returns the weight of all values.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.buckets.values().fold(self.nothing, |sum, weight| sum.saturating_add(*weight))
    }

    /// Returns the sum of all values, each as often as it was added: at most 1 % off, and exact if all values are equal.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a sum that is approximate anyway")]
    pub fn sum(&self) -> f64 {
        match self.exact_value() {
            Some(value) => value * self.total_weight() as f64,
            None => self.buckets.iter().map(|(bucket, weight)| bucket_middle(*bucket) * *weight as f64).sum(),
        }
    }

    /// Returns the quantile of `share` (0 to 1): exact for the lowest and the highest value. Returns `None` if the sketch
    /// has no values.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is positive, and approximate like its value"
    )]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let weight = self.total_weight();
        let last_rank = weight.checked_sub(1)?;
        let rank = (share.clamp(0.0, 1.0) * last_rank as f64) as u64;
        let approximate = self.find_rank(rank);
        Some(match self.bounds {
            Some(bounds) if rank == 0 => bounds.lowest,
            Some(bounds) if rank >= last_rank => bounds.highest,
            Some(bounds) => approximate.clamp(bounds.lowest, bounds.highest),
            None => approximate,
        })
    }

    /// Returns the weight of the values above a value. Those in its bucket, at most 2 % off, are not above it.
    #[must_use]
    pub fn weight_above(&self, value: f64) -> u64 {
        let own = find_bucket(value);
        let above = self.buckets.iter().filter(|(bucket, _)| own.is_none_or(|own| **bucket > own));
        above.map(|(_, weight)| *weight).fold(0, u64::saturating_add)
    }

    /// Returns the middle of the bucket with the value of this rank.
    fn find_rank(&self, rank: u64) -> f64 {
        let mut below = self.nothing;
        if rank < below {
            return 0.0;
        }
        let mut last = 0.0;
        for (bucket, weight) in &self.buckets {
            last = bucket_middle(*bucket);
            below = below.saturating_add(*weight);
            if rank < below {
                break;
            }
        }
        last
    }

    /// Returns the sketch as bytes: a few for each bucket that has a value.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM_VERSION];
        let Some(ValueBounds { lowest, highest }) = self.bounds else { return bytes };
        bytes.extend_from_slice(&lowest.to_le_bytes());
        bytes.extend_from_slice(&highest.to_le_bytes());
        write_varint(&mut bytes, self.nothing);
        let mut last = i32::from(*BUCKETS.start());
        for (bucket, weight) in &self.buckets {
            let bucket = i32::from(*bucket);
            write_varint(&mut bytes, u64::try_from(bucket - last).unwrap_or_default());
            write_varint(&mut bytes, *weight);
            last = bucket;
        }
        bytes
    }

    /// Reads a sketch. Returns `None` if [`QuantileSketch::to_bytes`] did not write the bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<QuantileSketch> {
        let mut rest = bytes.strip_prefix(&[FORM_VERSION])?;
        if rest.is_empty() {
            return Some(QuantileSketch::default());
        }
        let bounds = ValueBounds { lowest: read_float(&mut rest)?, highest: read_float(&mut rest)? };
        let nothing = read_varint(&mut rest)?;
        let mut sketch = QuantileSketch { nothing, buckets: BTreeMap::new(), bounds: Some(bounds) };
        let mut last = *BUCKETS.start();
        while !rest.is_empty() {
            let distance = i16::try_from(read_varint(&mut rest)?).ok()?;
            if distance == 0 && !sketch.buckets.is_empty() {
                return None;
            }
            last = last.checked_add(distance).filter(|bucket| BUCKETS.contains(bucket))?;
            let weight = read_varint(&mut rest)?;
            if weight == 0 {
                return None;
            }
            sketch.buckets.insert(last, weight);
        }
        sketch.has_values_within(bounds).then_some(sketch)
    }

    /// Returns true if the lowest and the highest value lie in the first and the last bucket with values.
    fn has_values_within(&self, ValueBounds { lowest, highest }: ValueBounds) -> bool {
        let range = self.buckets.keys().next().zip(self.buckets.keys().next_back());
        let first = if self.nothing > 0 { None } else { range.map(|(first, _)| *first) };
        let are_numbers = lowest.is_sign_positive() && lowest <= highest && highest <= LARGEST_VALUE;
        let is_empty = self.nothing == 0 && self.buckets.is_empty();
        are_numbers
            && !is_empty
            && find_bucket(lowest) == first
            && find_bucket(highest) == range.map(|(_, last)| *last)
    }
}

/// Returns the ratio of a bucket's upper bound to its lower bound.
fn growth_factor() -> f64 {
    (1.0 + QuantileSketch::RELATIVE_ERROR) / (1.0 - QuantileSketch::RELATIVE_ERROR)
}

#[expect(clippy::cast_possible_truncation, reason = "the bounds of values bound the number")]
fn find_bucket(value: f64) -> Option<i16> {
    let number = || (value.min(LARGEST_VALUE).ln() / growth_factor().ln()).ceil() as i16;
    (value >= LEAST).then(|| number().clamp(*BUCKETS.start(), *BUCKETS.end()))
}

/// Returns the value of a bucket that has the same relative distance from both bounds.
fn bucket_middle(bucket: i16) -> f64 {
    growth_factor().powi(bucket.into()) * 2.0 / (growth_factor() + 1.0)
}

fn read_float(bytes: &mut &[u8]) -> Option<f64> {
    let (float, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(f64::from_le_bytes(*float))
}

fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits || (*byte == 0 && shift > 0) {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch(of: &[(f64, u64)]) -> QuantileSketch {
        let mut sketch = QuantileSketch::default();
        of.iter().for_each(|(value, weight)| sketch.add_value(*value, *weight));
        sketch
    }

    /// The exact value at the rank that a sketch looks for.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    fn exact(values: &[(f64, u64)], share: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let weight: u64 = sorted.iter().map(|(_, weight)| weight).sum();
        let rank = (share * (weight - 1) as f64) as u64;
        let mut below = 0;
        let reached = |(_, weight): &&(f64, u64)| {
            below += weight;
            rank < below
        };
        sorted.iter().find(reached).unwrap().0
    }

    #[test]
    fn what_cannot_be_told_apart_or_is_no_number_does_no_harm() {
        assert_eq!(QuantileSketch::default().quantile(0.5), None);
        let odd = [f64::NAN, -1.0, 0.0, 1e-9, f64::INFINITY, f64::NEG_INFINITY].map(|value| (value, 1));
        let sketch = sketch(&odd);
        assert_eq!((sketch.total_weight(), sketch.quantile(0.5)), (5, Some(0.0)));
        let most = sketch.quantile(1.0).unwrap();
        assert!((most / LARGEST_VALUE - 1.0).abs() <= f64::EPSILON, "{most}");
        let bounds = [LEAST, LARGEST_VALUE].map(|value| find_bucket(value).unwrap());
        assert_eq!(bounds, [*BUCKETS.start(), *BUCKETS.end()]);
    }

    #[test]
    fn values_above_a_quantile_are_counted() {
        let sketch = sketch(&[(0.0, 3), (100.0, 80), (500.0, 12), (2_000.0, 5)]);
        let above = |share| sketch.weight_above(sketch.quantile(share).unwrap());
        assert_eq!([above(0.5), above(0.9), above(1.0)], [17, 5, 0]);
        assert_eq!(QuantileSketch::default().weight_above(0.0), 0);
    }

    #[test]
    fn a_weight_is_as_many_values() {
        assert_eq!(sketch(&[(7.0, 3)]), sketch(&[(7.0, 1), (7.0, 2)]));
        let full = sketch(&[(7.0, u64::MAX), (7.0, 1), (1.0, 1)]);
        assert_eq!((full.total_weight(), full.quantile(1.0).is_some()), (u64::MAX, true));
    }

    #[test]
    fn equal_values_and_the_ends_are_exact() {
        for value in [100_000.0, 200_000_000.0, 0.1, 1e-9, 0.0, 1e15] {
            let equal = sketch(&[(value, 1), (value, 70)]);
            assert_eq!(equal.exact_value(), Some(value));
            for share in [0.0, 0.05, 0.5, 0.95, 1.0] {
                assert_eq!(equal.quantile(share), Some(value));
            }
        }
        let mixed = sketch(&[(99.0, 1), (100.0, 5), (101.0, 1)]);
        assert_eq!((mixed.quantile(0.0), mixed.quantile(1.0)), (Some(99.0), Some(101.0)));
        assert_eq!((mixed.exact_value(), QuantileSketch::default().exact_value()), (None, None));
    }

    /// Stored sketches outlive the program: these bytes stay.
    #[test]
    fn the_form_of_a_stored_sketch_stays() {
        let bytes = sketch(&[(0.0, 2), (1.0, 1), (1_000.0, 300)]).to_bytes();
        let counts = [2, 217, 2, 1, 218, 2, 172, 2];
        let bounds = [0.0_f64, 1_000.0].map(f64::to_le_bytes).concat();
        assert_eq!(bytes, [&[1][..], &bounds, &counts].concat());
        assert_eq!(QuantileSketch::default().to_bytes(), [1]);
        assert_eq!(QuantileSketch::from_bytes(&[1]), Some(QuantileSketch::default()));
        let bounded = |lowest: f64, highest: f64| {
            [&[1][..], &lowest.to_le_bytes(), &highest.to_le_bytes(), &counts].concat()
        };
        assert!(QuantileSketch::from_bytes(&bounded(1e-9, 999.0)).is_some());
        for (lowest, highest) in [(1.0, 1_000.0), (0.0, 2_000.0), (-0.0, 1_000.0), (f64::NAN, 1_000.0)] {
            assert_eq!(QuantileSketch::from_bytes(&bounded(lowest, highest)), None, "{lowest} {highest}");
        }
        for bytes in [&[][..], &[0], &[2], &[1, 0]] {
            assert_eq!(QuantileSketch::from_bytes(bytes), None, "{bytes:?}");
        }
        // Of one value in the bucket of 1.
        let with_counts = |counts: &[u8]| {
            let one = 1.0_f64.to_le_bytes();
            QuantileSketch::from_bytes(&[&[1][..], &one, &one, counts].concat())
        };
        assert!(with_counts(&[0, 217, 2, 1]).is_some());
        for counts in [
            &[][..],
            &[0],
            &[0x80],
            &[0, 217],
            &[0, 217, 2],
            &[0, 217, 2, 0],
            &[0, 217, 2, 1, 0, 1],
            &[0, 0xff, 0x7f, 1],
        ] {
            assert_eq!(with_counts(counts), None, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn a_quantile_lies_within_the_stated_error(
            values in proptest::collection::vec((0.001_f64..1e12, 1_u64..5_000), 1..300),
            share in 0.0_f64..=1.0,
        ) {
            let (found, exact) = (sketch(&values).quantile(share).unwrap(), exact(&values, share));
            // One part in a million for the rounding of logarithms.
            prop_assert!((found / exact - 1.0).abs() <= QuantileSketch::RELATIVE_ERROR + 1e-6, "{found} for {exact}");
        }

        #[test]
        fn a_sum_lies_within_the_stated_error(
            values in proptest::collection::vec((0.001_f64..1e12, 1_u64..5_000), 1..300),
        ) {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let exact: f64 = values.iter().map(|(value, weight)| value * *weight as f64).sum();
            let found = sketch(&values).sum();
            prop_assert!((found / exact - 1.0).abs() <= QuantileSketch::RELATIVE_ERROR + 1e-6, "{found} for {exact}");
        }

        #[test]
        fn sketches_of_parts_make_the_sketch_of_the_whole(
            one in proptest::collection::vec((0.0_f64..1e6, 0_u64..1_000_000), 0..200),
            two in proptest::collection::vec((0.0_f64..1e6, 0_u64..1_000_000), 0..200),
        ) {
            let mut merged = sketch(&one);
            merged.merge(&sketch(&two));
            let whole = sketch(&[two, one].concat());
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(QuantileSketch::from_bytes(&whole.to_bytes()), Some(whole));
        }

        #[test]
        fn any_bytes_are_a_sketch_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(sketch) = QuantileSketch::from_bytes(&bytes) {
                let _ = sketch.quantile(0.5);
                prop_assert_eq!(sketch.to_bytes(), bytes);
            }
        }
    }
}
