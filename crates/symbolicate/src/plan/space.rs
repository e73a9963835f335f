//! The address space of a crashed process, as one image list describes it, and the cleaning of a report's
//! addresses in it.

use super::index::{AddressStretch, ImageExtent, ImageIndex};
use std::sync::OnceLock;
use unslide_model::{CpuFamily, CpuType, DebugId};
use unslide_report::{Image, Number, ReportPart};

/// The lowest address that can be code: the page at 0 is never mapped.
const FIRST_VALID: u64 = 0x1000;

/// Widths of arm64 addresses without their signature bits, the widest first, as KSCrash's normalisers and the
/// kernel's settings leave them.
const SIGNED_POINTER_BITS: [u32; 3] = [47, 39, 36];

/// An address in the form that the table and the images use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The address of an instruction: no sign, no fraction, no instruction-set bits, no signature.
    pub address: u64,
    /// Bits of a 64-bit ARM return address that `address` lacks. Swift resumes an async function at its first
    /// instruction and records that address plus one: without the bit, the byte before it is in another
    /// function.
    pub low_bits: u8,
    /// True if the report had a float, which has too few digits for an address.
    pub imprecise: bool,
    /// True if a pointer's signature was stripped.
    pub pac_stripped: bool,
}

impl Cleaned {
    /// Returns the address, for a frame that a call returns to: the byte before it is part of the call.
    #[must_use]
    pub fn return_address(self) -> u64 {
        self.address | u64::from(self.low_bits)
    }

    /// False for addresses in the page at 0.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.address >= FIRST_VALID
    }
}

/// The location of a listed image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// `image_addr`, without its sign.
    pub(crate) start: Option<u64>,
    /// True if `image_addr` is a float.
    pub(crate) imprecise: bool,
    /// The image's CPU; `None` if the list does not say.
    pub(crate) family: Option<CpuFamily>,
}

/// One image list, indexed.
#[derive(Debug)]
pub(crate) struct Space<'r, 'a> {
    pub(crate) images: &'r [Image<'a>],
    pub(crate) placed: Vec<Placed>,
    pub(crate) index: ImageIndex,
    by_uuid: OnceLock<Vec<(DebugId, ImageExtent)>>,
    /// The CPU family of every image, if all agree.
    uniform: Option<CpuFamily>,
    /// The CPU family of addresses that lie in no image.
    process: CpuFamily,
    any_arm64: bool,
}

impl<'r, 'a> Space<'r, 'a> {
    /// Indexes an image list. `part` contains the frames that refer to it. Its own fields supply CPU types that
    /// the list lacks.
    pub(crate) fn new(images: &'r [Image<'a>], part: &ReportPart<'_>) -> Space<'r, 'a> {
        let stated = if part.proc_translated == Some(true) {
            Some(CpuFamily::X86_64)
        } else {
            known_family(part.binary_cpu.map(CpuType::family)).or(known_family(part.cpu.map(CpuType::family)))
        };
        let placed: Vec<Placed> = images.iter().map(place_image).collect();
        let mut families = placed.iter().filter_map(|p| p.family);
        let first = families.next();
        let mixed = families.any(|f| Some(f) != first);
        let process = stated.or(first).unwrap_or(CpuFamily::Other);
        let extents = (0..).zip(images).zip(&placed).filter_map(|((image, listed), placed)| {
            Some(ImageExtent { image, start: placed.start?, size: listed.size })
        });
        Space {
            index: ImageIndex::from_images(extents),
            by_uuid: OnceLock::new(),
            uniform: if mixed { None } else { first.or(Some(process)) },
            process: if mixed { process } else { first.unwrap_or(process) },
            any_arm64: placed.iter().any(|p| p.family == Some(CpuFamily::Arm64)),
            images,
            placed,
        }
    }

    /// Cleans an address: sign, float, instruction-set bits, signature. Returns `None` if the number is not an
    /// address. `near` is the stretch of the last look-up: most addresses lie near each other.
    pub(crate) fn clean_address(&self, number: Number, near: &mut AddressStretch) -> Option<Cleaned> {
        let unsigned = self.to_unsigned(number)?;
        let mut family = self.family_at(unsigned);
        let mut address = unsigned & !instruction_set_bits(family);
        let mut pac_stripped = false;
        if self.any_arm64
            && self.find_image(address, near).is_none()
            && self.find_around(address).is_none()
            && let Some(plain) = self.without_signature(address)
        {
            family = CpuFamily::Arm64;
            address = plain & !instruction_set_bits(family);
            pac_stripped = true;
        }
        // A 32-bit ARM return address has the Thumb bit, which is not part of the address.
        let is_thumb = family == CpuFamily::Arm;
        let low_bits = if is_thumb { 0 } else { (unsigned & instruction_set_bits(family)) as u8 };
        Some(Cleaned { address, low_bits, imprecise: number.is_imprecise(), pac_stripped })
    }

    /// Returns a number as an unsigned address. Negative ones wrap at the width of the process's addresses.
    pub(crate) fn to_unsigned(&self, number: Number) -> Option<u64> {
        let bits = number.to_bits()?;
        let negative = match number {
            Number::Int { negative, .. } => negative,
            Number::Float(float) => float < 0.0,
        };
        if !negative {
            return Some(bits);
        }
        let low = bits & 0xFFFF_FFFF;
        let narrow = match self.uniform {
            Some(family) => family.is_32_bit(),
            None if self.find_around(bits).is_some() => false,
            None => self.find_around(low).map_or(self.process, |image| self.family_of(image)).is_32_bit(),
        };
        Some(if narrow { low } else { bits })
    }

    /// Returns an address without its signature bits, if the result lies in an arm64 image.
    fn without_signature(&self, address: u64) -> Option<u64> {
        SIGNED_POINTER_BITS
            .into_iter()
            .map(|bits| address & ((1 << bits) - 1))
            .filter(|plain| *plain != address)
            .find(|plain| self.find_around(*plain).is_some_and(|image| self.is_arm64(image)))
    }

    /// Returns the image that contains an address.
    pub(crate) fn find_image(&self, address: u64, near: &mut AddressStretch) -> Option<u32> {
        if !near.contains(address) {
            *near = self.index.stretch_at(address);
        }
        near.image
    }

    /// Returns the image that contains an address or ends at it: a return address may be one past the end.
    fn find_around(&self, address: u64) -> Option<u32> {
        self.index.image_at(address).or_else(|| self.index.image_at(address.checked_sub(1)?))
    }

    fn is_arm64(&self, image: u32) -> bool {
        self.placed.get(image as usize).is_some_and(|p| p.family == Some(CpuFamily::Arm64))
    }

    fn family_of(&self, image: u32) -> CpuFamily {
        self.placed.get(image as usize).and_then(|p| p.family).unwrap_or(self.process)
    }

    fn family_at(&self, address: u64) -> CpuFamily {
        self.uniform
            .unwrap_or_else(|| self.find_around(address).map_or(self.process, |image| self.family_of(image)))
    }

    /// Returns an image listed with a debug id at `start`, unless its size excludes `address`: the smallest
    /// that contains it, else one without size.
    pub(crate) fn listed_as(&self, id: DebugId, start: u64, address: u64) -> Option<u32> {
        let offset = address.checked_sub(start)?;
        let by_uuid = self.by_uuid.get_or_init(|| self.sort_by_uuid());
        let at = by_uuid.partition_point(|(uuid, e)| (*uuid, e.start, e.size) <= (id, start, offset));
        let unsized_at = by_uuid.partition_point(|(uuid, e)| (*uuid, e.start) < (id, start));
        let fits = |(uuid, e): &&(DebugId, ImageExtent)| (*uuid, e.start) == (id, start);
        by_uuid
            .get(at)
            .filter(fits)
            .or_else(|| by_uuid.get(unsized_at).filter(fits).filter(|(_, e)| e.size == 0))
            .map(|(_, e)| e.image)
    }

    /// Returns the first image, of any size, that is listed with a debug id at `start`. `None` if `address`
    /// is before it.
    pub(crate) fn listed_from(&self, id: DebugId, start: u64, address: u64) -> Option<u32> {
        if address < start {
            return None;
        }
        let by_uuid = self.by_uuid.get_or_init(|| self.sort_by_uuid());
        let at = by_uuid.partition_point(|(uuid, e)| (*uuid, e.start) < (id, start));
        by_uuid.get(at).filter(|(uuid, e)| (*uuid, e.start) == (id, start)).map(|(_, e)| e.image)
    }

    fn sort_by_uuid(&self) -> Vec<(DebugId, ImageExtent)> {
        let mut sorted: Vec<(DebugId, ImageExtent)> = (0..)
            .zip(self.images)
            .zip(&self.placed)
            .filter_map(|((image, listed), placed)| {
                Some((listed.uuid?, ImageExtent { image, start: placed.start?, size: listed.size }))
            })
            .collect();
        sorted.sort_unstable_by_key(|(uuid, e)| (*uuid, e.start, e.size, e.image));
        sorted
    }
}

fn place_image(image: &Image<'_>) -> Placed {
    let family = known_family(image.cpu.map(CpuType::family));
    let narrow = family.is_some_and(CpuFamily::is_32_bit);
    let wrap = |number: Number| {
        let bits = number.to_bits()?;
        let negative = matches!(number, Number::Int { negative: true, .. });
        Some(if narrow && negative { bits & 0xFFFF_FFFF } else { bits })
    };
    Placed {
        start: image.addr.and_then(wrap),
        imprecise: image.addr.is_some_and(Number::is_imprecise),
        family,
    }
}

fn known_family(family: Option<CpuFamily>) -> Option<CpuFamily> {
    family.filter(|f| *f != CpuFamily::Other)
}

/// Returns the low bits of a code address that are not part of it: the Thumb bit on 32-bit ARM, and on 64-bit
/// ARM the bits that four-byte instructions leave unused.
fn instruction_set_bits(family: CpuFamily) -> u64 {
    match family {
        CpuFamily::Arm => 1,
        CpuFamily::Arm64 | CpuFamily::Arm64_32 => 3,
        CpuFamily::X86 | CpuFamily::X86_64 | CpuFamily::Other => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM64: CpuType = CpuType { cpu_type: 0x0100_000C, cpu_subtype: 2 };
    const ARM64_32: CpuType = CpuType { cpu_type: 0x0200_000C, cpu_subtype: 1 };
    const ARMV7: CpuType = CpuType { cpu_type: 12, cpu_subtype: 9 };
    const X86_64: CpuType = CpuType { cpu_type: 0x0100_0007, cpu_subtype: 3 };

    fn image<'a>(addr: u64, size: u64, cpu: CpuType) -> Image<'a> {
        let addr = Some(Number::from_unsigned(addr));
        Image { addr, vmaddr: None, size, uuid: None, name: None, cpu: Some(cpu) }
    }

    fn part(facts: impl FnOnce(&mut ReportPart<'static>)) -> ReportPart<'static> {
        let mut part = ReportPart::default();
        facts(&mut part);
        part
    }

    fn negative(magnitude: u64) -> Number {
        Number::Int { magnitude, negative: true }
    }

    #[track_caller]
    fn check(images: &[Image<'_>], number: Number, address: u64, pac_stripped: bool) {
        let space = Space::new(images, &ReportPart::default());
        let cleaned = space.clean_address(number, &mut AddressStretch::EMPTY.clone()).unwrap();
        assert_eq!((cleaned.address, cleaned.pac_stripped), (address, pac_stripped), "{number:?}");
        assert_eq!(cleaned.imprecise, number.is_imprecise(), "{number:?}");
    }

    #[test]
    fn the_instruction_set_bits_go_by_the_images_cpu() {
        for (cpu, cleaned) in [(ARM64, 0x5004), (ARM64_32, 0x5004), (ARMV7, 0x5006), (X86_64, 0x5007)] {
            check(&[image(0x5000, 0x100, cpu)], Number::from_unsigned(0x5007), cleaned, false);
            // Each image by its own CPU where they differ.
            check(
                &[image(0x9000, 0x100, X86_64), image(0x5000, 0x100, cpu), image(0xA000, 0x100, ARM64)],
                Number::from_unsigned(0x5007),
                cleaned,
                false,
            );
        }
    }

    #[test]
    fn a_return_address_keeps_its_low_bits_unless_they_select_thumb() {
        let code = |address: u64, cpu| image(address, 0x100, cpu);
        let returned = |images: &[Image<'_>], address: u64| {
            let space = Space::new(images, &ReportPart::default());
            space
                .clean_address(Number::from_unsigned(address), &mut AddressStretch::EMPTY.clone())
                .unwrap()
                .return_address()
        };
        for (cpu, address) in [(ARM64, 0x5005), (ARM64_32, 0x5005), (ARMV7, 0x5004), (X86_64, 0x5005)] {
            assert_eq!(returned(&[code(0x5000, cpu)], 0x5005), address, "{cpu:?}");
            assert_eq!(returned(&[code(0x9000, X86_64), code(0x5000, cpu)], 0x5005), address, "{cpu:?}");
            assert_eq!(returned(&[code(0x5000, cpu)], 0x5004), 0x5004, "{cpu:?}");
        }
        let signed = 0x7F32_0000_0000_0000;
        for images in [&[code(0x5000, ARM64)][..], &[code(0x9000, ARMV7), code(0x5000, ARM64)]] {
            assert_eq!(returned(images, signed | 0x5005), 0x5005);
        }
    }

    #[test]
    fn negative_addresses_wrap_at_the_width_of_the_images_addresses() {
        let at = |address: u64| address.wrapping_neg();
        let high = 0xFFFF_FFFF_8000_1000;
        check(&[image(0x8000_0000, 0x10_0000, ARMV7)], negative(at(high)), 0x8000_1000, false);
        check(&[image(0x8000_0000, 0x10_0000, ARM64_32)], negative(at(high)), 0x8000_1000, false);
        check(&[image(high - 0x1000, 0x10_0000, ARM64)], negative(at(high)), high, false);
        let mixed = [image(0x8000_0000, 0x10_0000, ARMV7), image(0x1000, 0x10, X86_64)];
        check(&mixed, negative(at(high)), 0x8000_1000, false);
        let mixed = [image(0x8000_0000, 0x10, ARMV7), image(high - 0x1000, 0x10_0000, X86_64)];
        check(&mixed, negative(at(high)), high, false);
    }

    #[test]
    fn an_images_own_negative_start_wraps_too() {
        let mut own = image(0, 0x10_0000, ARMV7);
        own.addr = Some(negative(0x8000_0000));
        check(&[own], negative(0x7FFF_F000), 0x8000_1000, false);
        assert_eq!(Space::new(&[own], &ReportPart::default()).index.image_at(0x8000_1000), Some(0));
    }

    #[test]
    fn floats_are_rounded_and_marked() {
        check(&[image(0x5000, 0x100, X86_64)], Number::Float(20_480.6), 0x5001, false);
        check(&[], Number::Float(1.84467e19), 18_446_700_000_000_000_000, false);
        let space = Space::new(&[], &ReportPart::default());
        assert_eq!(
            space.clean_address(Number::Float(f64::INFINITY), &mut AddressStretch::EMPTY.clone()),
            None
        );
    }

    #[test]
    fn a_signature_is_taken_off_by_the_first_mask_that_hits_an_arm64_image() {
        for (plain, signature) in [
            (0x1_0000_5008, 0x7F32_0000_0000_0000_u64),
            (0x1_0000_5008, 0x0032_8000_0000_0000),
            (0x1_0000_5008, 0x7F32_4500_0000_0000),
            (0x1_0000_5008, 0x7F32_45E0_0000_0000),
        ] {
            let images = [image(0x1_0000_0000, 0x1_0000, ARM64)];
            check(&images, Number::from_unsigned(plain | signature), plain, true);
        }
        // The widest mask that hits goes first.
        let near = image(0x1_0000_0000, 0x1_0000, ARM64);
        let far = image(0x4001_0000_0000, 0x1_0000, ARM64);
        check(&[near, far], Number::from_unsigned(0x8F00_4001_0000_5008), 0x4001_0000_5008, true);
    }

    #[test]
    fn an_address_that_hits_as_given_keeps_its_high_bits() {
        let high = 0x7F32_0001_0000_0000;
        let images = [image(0x1_0000_0000, 0x1_0000, ARM64), image(high, 0x1_0000, ARM64)];
        check(&images, Number::from_unsigned(high + 8), high + 8, false);
        // One beyond the end is a hit: the call was the image's last instruction.
        check(&images, Number::from_unsigned(high + 0x1_0000), high + 0x1_0000, false);
        // So is one beyond the end once the signature is off.
        check(&images, Number::from_unsigned(0x0F32_0001_0001_0000), 0x1_0001_0000, true);
    }

    #[test]
    fn signatures_are_an_arm64_matter_whatever_the_hardware_is() {
        let signed = 0x7F32_0001_0000_5008;
        for cpu in [X86_64, ARM64_32, ARMV7, CpuType { cpu_type: 0, cpu_subtype: 0 }] {
            let images = [image(0x1_0000_0000, 0x1_0000, cpu), image(0x2_0000_0000, 8, ARM64)];
            let space = Space::new(&images, &part(|p| p.cpu = Some(ARM64)));
            let cleaned = space
                .clean_address(Number::from_unsigned(signed), &mut AddressStretch::EMPTY.clone())
                .unwrap();
            assert_eq!((cleaned.address, cleaned.pac_stripped), (signed, false), "{cpu:?}");
        }
    }

    #[test]
    fn translated_processes_are_x86_64() {
        let translated = part(|p| (p.proc_translated, p.cpu) = (Some(true), Some(ARM64)));
        assert_eq!(
            Space::new(&[], &translated)
                .clean_address(Number::from_unsigned(0x5007), &mut AddressStretch::EMPTY.clone())
                .unwrap()
                .address,
            0x5007
        );
        let native = part(|p| (p.binary_cpu, p.cpu) = (Some(ARM64), Some(X86_64)));
        assert_eq!(
            Space::new(&[], &native)
                .clean_address(Number::from_unsigned(0x5007), &mut AddressStretch::EMPTY.clone())
                .unwrap()
                .address,
            0x5004
        );
    }

    #[test]
    fn the_first_page_holds_no_code() {
        let space = Space::new(&[], &ReportPart::default());
        for (address, valid) in [(0, false), (0xFFF, false), (0x1000, true), (u64::MAX, true)] {
            assert_eq!(
                space
                    .clean_address(Number::from_unsigned(address), &mut AddressStretch::EMPTY.clone())
                    .unwrap()
                    .is_valid(),
                valid,
                "{address:#x}"
            );
        }
    }
}
