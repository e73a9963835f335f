//! Decides which unit answers for which addresses.

/// The ranges of addresses that units answer for: start, end and unit.
pub(super) struct Owners {
    /// Ascending, without overlap.
    ranges: Vec<(u32, u32, usize)>,
    /// Positions of the ranges, by unit.
    by_unit: Vec<u32>,
    /// Start of each unit's positions in `by_unit`, and the end of the last.
    starts: Vec<u32>,
}

impl Owners {
    /// Builds the ranges from the address ranges that units claim.
    pub(super) fn from_claims(claims: &[(u32, u32, usize)], units: usize) -> Owners {
        let ranges = assign_owners(claims);
        let mut starts = vec![0_u32; units + 1];
        for (_, _, unit) in &ranges {
            starts[unit + 1] += 1;
        }
        for unit in 0..units {
            starts[unit + 1] += starts[unit];
        }
        let mut free = starts.clone();
        let mut by_unit = vec![0; ranges.len()];
        for (place, (_, _, unit)) in (0..).zip(&ranges) {
            by_unit[free[*unit] as usize] = place;
            free[*unit] += 1;
        }
        Owners { ranges, by_unit, starts }
    }

    /// Returns the position of the first range that ends after an address.
    pub(super) fn first_after(&self, address: u32) -> usize {
        self.ranges.partition_point(|owner| owner.1 <= address)
    }

    /// Returns the range at a position.
    pub(super) fn get(&self, place: usize) -> Option<(u32, u32, usize)> {
        self.ranges.get(place).copied()
    }

    /// Returns the ranges of a unit, ascending.
    pub(super) fn unit_ranges(&self, unit: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let start = |unit: usize| self.starts.get(unit).map_or(0, |start| *start as usize);
        let places = self.by_unit.get(start(unit)..start(unit + 1)).unwrap_or_default();
        places.iter().filter_map(|place| self.get(*place as usize)).map(|(low, high, _)| (low, high))
    }
}

/// Assigns addresses to units by the ranges that units claim. If several claim an address (folded
/// functions), the unit that answered just before continues, else the first in the file answers.
fn assign_owners(claims: &[(u32, u32, usize)]) -> Vec<(u32, u32, usize)> {
    let mut ends: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * claims.len());
    for (low, high, unit) in claims.iter().filter(|c| c.0 < c.1) {
        ends.push((*low, true, *unit));
        ends.push((*high, false, *unit));
    }
    ends.sort_unstable();
    let mut open: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    let mut owners: Vec<(u32, u32, usize)> = Vec::new();
    let mut previous = 0;
    for (address, is_start, unit) in ends {
        if previous < address {
            match (owners.last_mut(), open.first_key_value()) {
                (Some(last), Some(_)) if last.1 == previous && open.contains_key(&last.2) => last.1 = address,
                (_, Some((first, _))) => owners.push((previous, address, *first)),
                (_, None) => {}
            }
        }
        if is_start {
            *open.entry(unit).or_default() += 1;
        } else if let Some(count) = open.get_mut(&unit) {
            *count -= 1;
            if *count == 0 {
                open.remove(&unit);
            }
        }
        previous = address;
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_that_answered_before_goes_on_and_ties_go_to_the_first() {
        assert_eq!(assign_owners(&[(0, 4, 1), (0, 4, 0)]), [(0, 4, 0)]);
        assert_eq!(assign_owners(&[(4, 8, 0), (0, 8, 1)]), [(0, 8, 1)]);
        assert_eq!(assign_owners(&[(0, 4, 1), (6, 8, 0)]), [(0, 4, 1), (6, 8, 0)]);
        assert_eq!(assign_owners(&[(0, 4, 1), (4, 8, 1), (4, 8, 0)]), [(0, 8, 1)]);
        assert_eq!(assign_owners(&[(3, 3, 1)]), []);
    }

    #[test]
    fn each_unit_has_its_own_ranges_in_order() {
        let owners = Owners::from_claims(&[(8, 12, 0), (0, 4, 2), (4, 8, 0), (12, 16, 2)], 3);
        let of = |unit| owners.unit_ranges(unit).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2)), (vec![(4, 12)], vec![], vec![(0, 4), (12, 16)]));
    }
}
