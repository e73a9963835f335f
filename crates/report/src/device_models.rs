//! Names of Apple's devices by their model codes.
//!
//! Source: for Macs, the line "Model Identifier" of Apple's support pages "Identify your MacBook Air model" and the like; for all
//! other devices, the key `ProductType` in the manifests of Apple's restore images. Only codes of public products are
//! here, and an unknown code stays a code.

use std::borrow::Cow;

/// Names of phones and players with their codes.
const PHONES: &[(&str, &str)] = &[
    ("iPhone 6s", "iPhone8,1"),
    ("iPhone 6s Plus", "iPhone8,2"),
    ("iPhone SE (1st generation)", "iPhone8,4"),
    ("iPhone 7", "iPhone9,1 iPhone9,3"),
    ("iPhone 7 Plus", "iPhone9,2 iPhone9,4"),
    ("iPhone 8", "iPhone10,1 iPhone10,4"),
    ("iPhone 8 Plus", "iPhone10,2 iPhone10,5"),
    ("iPhone X", "iPhone10,3 iPhone10,6"),
    ("iPhone XS", "iPhone11,2"),
    ("iPhone XS Max", "iPhone11,4 iPhone11,6"),
    ("iPhone XR", "iPhone11,8"),
    ("iPhone 11", "iPhone12,1"),
    ("iPhone 11 Pro", "iPhone12,3"),
    ("iPhone 11 Pro Max", "iPhone12,5"),
    ("iPhone SE (2nd generation)", "iPhone12,8"),
    ("iPhone 12 mini", "iPhone13,1"),
    ("iPhone 12", "iPhone13,2"),
    ("iPhone 12 Pro", "iPhone13,3"),
    ("iPhone 12 Pro Max", "iPhone13,4"),
    ("iPhone 13 Pro", "iPhone14,2"),
    ("iPhone 13 Pro Max", "iPhone14,3"),
    ("iPhone 13 mini", "iPhone14,4"),
    ("iPhone 13", "iPhone14,5"),
    ("iPhone SE (3rd generation)", "iPhone14,6"),
    ("iPhone 14", "iPhone14,7"),
    ("iPhone 14 Plus", "iPhone14,8"),
    ("iPhone 14 Pro", "iPhone15,2"),
    ("iPhone 14 Pro Max", "iPhone15,3"),
    ("iPhone 15", "iPhone15,4"),
    ("iPhone 15 Plus", "iPhone15,5"),
    ("iPhone 15 Pro", "iPhone16,1"),
    ("iPhone 15 Pro Max", "iPhone16,2"),
    ("iPhone 16 Pro", "iPhone17,1"),
    ("iPhone 16 Pro Max", "iPhone17,2"),
    ("iPhone 16", "iPhone17,3"),
    ("iPhone 16 Plus", "iPhone17,4"),
    ("iPhone 16e", "iPhone17,5"),
    ("iPod touch (6th generation)", "iPod7,1"),
    ("iPod touch (7th generation)", "iPod9,1"),
];

/// Names of tablets with their codes.
const TABLETS: &[(&str, &str)] = &[
    ("iPad mini 4", "iPad5,1 iPad5,2"),
    ("iPad Air 2", "iPad5,3 iPad5,4"),
    ("iPad Pro (9.7-inch)", "iPad6,3 iPad6,4"),
    ("iPad Pro (12.9-inch)", "iPad6,7 iPad6,8"),
    ("iPad (5th generation)", "iPad6,11 iPad6,12"),
    ("iPad Pro (12.9-inch, 2nd generation)", "iPad7,1 iPad7,2"),
    ("iPad Pro (10.5-inch)", "iPad7,3 iPad7,4"),
    ("iPad (6th generation)", "iPad7,5 iPad7,6"),
    ("iPad (7th generation)", "iPad7,11 iPad7,12"),
    ("iPad Pro (11-inch)", "iPad8,1 iPad8,2 iPad8,3 iPad8,4"),
    ("iPad Pro (12.9-inch, 3rd generation)", "iPad8,5 iPad8,6 iPad8,7 iPad8,8"),
    ("iPad Pro (11-inch, 2nd generation)", "iPad8,9 iPad8,10"),
    ("iPad Pro (12.9-inch, 4th generation)", "iPad8,11 iPad8,12"),
    ("iPad mini (5th generation)", "iPad11,1 iPad11,2"),
    ("iPad Air (3rd generation)", "iPad11,3 iPad11,4"),
    ("iPad (8th generation)", "iPad11,6 iPad11,7"),
    ("iPad (9th generation)", "iPad12,1 iPad12,2"),
    ("iPad Air (4th generation)", "iPad13,1 iPad13,2"),
    ("iPad Pro (11-inch, 3rd generation)", "iPad13,4 iPad13,5 iPad13,6 iPad13,7"),
    ("iPad Pro (12.9-inch, 5th generation)", "iPad13,8 iPad13,9 iPad13,10 iPad13,11"),
    ("iPad Air (5th generation)", "iPad13,16 iPad13,17"),
    ("iPad (10th generation)", "iPad13,18 iPad13,19"),
    ("iPad mini (6th generation)", "iPad14,1 iPad14,2"),
    ("iPad Pro (11-inch, 4th generation)", "iPad14,3 iPad14,4"),
    ("iPad Pro (12.9-inch, 6th generation)", "iPad14,5 iPad14,6"),
    ("iPad Air (11-inch, M2)", "iPad14,8 iPad14,9"),
    ("iPad Air (13-inch, M2)", "iPad14,10 iPad14,11"),
    ("iPad Air (11-inch, M3)", "iPad15,3 iPad15,4"),
    ("iPad Air (13-inch, M3)", "iPad15,5 iPad15,6"),
    ("iPad (A16)", "iPad15,7 iPad15,8"),
    ("iPad mini (A17 Pro)", "iPad16,1 iPad16,2"),
    ("iPad Pro (11-inch, M4)", "iPad16,3 iPad16,4"),
    ("iPad Pro (13-inch, M4)", "iPad16,5 iPad16,6"),
];

/// Names of watches, set-top boxes and headsets with their codes.
const OTHERS: &[(&str, &str)] = &[
    ("Apple Watch Series 1", "Watch2,6 Watch2,7"),
    ("Apple Watch Series 2", "Watch2,3 Watch2,4"),
    ("Apple Watch Series 3", "Watch3,1 Watch3,2 Watch3,3 Watch3,4"),
    ("Apple Watch Series 4", "Watch4,1 Watch4,2 Watch4,3 Watch4,4"),
    ("Apple Watch Series 5", "Watch5,1 Watch5,2 Watch5,3 Watch5,4"),
    ("Apple Watch SE", "Watch5,9 Watch5,10 Watch5,11 Watch5,12"),
    ("Apple Watch Series 6", "Watch6,1 Watch6,2 Watch6,3 Watch6,4"),
    ("Apple Watch Series 7", "Watch6,6 Watch6,7 Watch6,8 Watch6,9"),
    ("Apple Watch SE (2nd generation)", "Watch6,10 Watch6,11 Watch6,12 Watch6,13"),
    ("Apple Watch Series 8", "Watch6,14 Watch6,15 Watch6,16 Watch6,17"),
    ("Apple Watch Ultra", "Watch6,18"),
    ("Apple Watch Series 9", "Watch7,1 Watch7,2 Watch7,3 Watch7,4"),
    ("Apple Watch Ultra 2", "Watch7,5"),
    ("Apple Watch Series 10", "Watch7,8 Watch7,9 Watch7,10 Watch7,11"),
    ("Apple TV HD", "AppleTV5,3"),
    ("Apple TV 4K", "AppleTV6,2"),
    ("Apple TV 4K (2nd generation)", "AppleTV11,1"),
    ("Apple TV 4K (3rd generation)", "AppleTV14,1"),
    ("Apple Vision Pro", "RealityDevice14,1"),
];

/// Names of Macs with Apple's processors, with their codes.
const MACS: &[(&str, &str)] = &[
    ("MacBook Air (M1, 2020)", "MacBookAir10,1"),
    ("MacBook Pro (13-inch, M1, 2020)", "MacBookPro17,1"),
    ("Mac mini (M1, 2020)", "Macmini9,1"),
    ("iMac (24-inch, M1, 2021)", "iMac21,1 iMac21,2"),
    ("MacBook Pro (16-inch, 2021)", "MacBookPro18,1 MacBookPro18,2"),
    ("MacBook Pro (14-inch, 2021)", "MacBookPro18,3 MacBookPro18,4"),
    ("Mac Studio (2022)", "Mac13,1 Mac13,2"),
    ("MacBook Air (M2, 2022)", "Mac14,2"),
    ("Mac mini (2023)", "Mac14,3 Mac14,12"),
    ("MacBook Pro (14-inch, 2023)", "Mac14,5 Mac14,9"),
    ("MacBook Pro (16-inch, 2023)", "Mac14,6 Mac14,10"),
    ("MacBook Pro (13-inch, M2, 2022)", "Mac14,7"),
    ("Mac Pro (2023)", "Mac14,8"),
    ("Mac Studio (2023)", "Mac14,13 Mac14,14"),
    ("MacBook Air (15-inch, M2, 2023)", "Mac14,15"),
    ("MacBook Pro (14-inch, M3, Nov 2023)", "Mac15,3"),
    ("iMac (24-inch, 2023)", "Mac15,4 Mac15,5"),
    ("MacBook Pro (14-inch, Nov 2023)", "Mac15,6 Mac15,8 Mac15,10"),
    ("MacBook Pro (16-inch, Nov 2023)", "Mac15,7 Mac15,9 Mac15,11"),
    ("MacBook Air (13-inch, M3, 2024)", "Mac15,12"),
    ("MacBook Air (15-inch, M3, 2024)", "Mac15,13"),
    ("iMac (24-inch, 2024)", "Mac16,2 Mac16,3"),
    ("MacBook Pro (14-inch, 2024)", "Mac16,1 Mac16,6 Mac16,8"),
    ("MacBook Pro (16-inch, 2024)", "Mac16,5 Mac16,7"),
    ("Mac mini (2024)", "Mac16,10 Mac16,11"),
    ("Mac Studio (2025)", "Mac15,14 Mac16,9"),
    ("MacBook Air (13-inch, M4, 2025)", "Mac16,12"),
    ("MacBook Air (15-inch, M4, 2025)", "Mac16,13"),
];

/// Returns the name of the device with a model code, such as `iPhone16,1`.
#[must_use]
pub fn find_device_name(code: &str) -> Option<&'static str> {
    let mut models = [PHONES, TABLETS, OTHERS, MACS].into_iter().flatten();
    models.find(|(_, codes)| codes.split(' ').any(|known| known == code)).map(|(name, _)| *name)
}

/// Returns the name of a device, or its code if the name is unknown.
#[must_use]
pub fn name_or_code(code: &str) -> &str {
    find_device_name(code).unwrap_or(code)
}

/// Returns the name of a device with its code, or the code alone if the name is unknown.
#[must_use]
pub fn name_with_code(code: &str) -> Cow<'_, str> {
    match find_device_name(code) {
        Some(name) => Cow::Owned(format!("{name} ({code})")),
        None => Cow::Borrowed(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_known_code_has_a_name_and_an_unknown_one_stays_a_code() {
        for (code, name) in [
            ("iPhone8,1", "iPhone 6s"),
            ("iPhone16,1", "iPhone 15 Pro"),
            ("iPad13,19", "iPad (10th generation)"),
            ("Watch6,18", "Apple Watch Ultra"),
            ("AppleTV5,3", "Apple TV HD"),
            ("Mac14,2", "MacBook Air (M2, 2022)"),
        ] {
            assert_eq!(find_device_name(code), Some(name));
        }
        for unknown in ["", " ", "iPhone", "iPhone1", "iphone16,1", "iPhone99,9", "iPad8,1 iPad8,2", "x86_64"]
        {
            assert_eq!(name_or_code(unknown), unknown);
        }
        assert_eq!(name_with_code("iPhone16,1"), "iPhone 15 Pro (iPhone16,1)");
        assert_eq!(name_with_code("D83AP"), "D83AP");
    }

    #[test]
    fn no_code_has_two_names_and_no_name_two_rows() {
        let (mut codes, mut names) = (HashSet::new(), HashSet::new());
        for (name, of_name) in [PHONES, TABLETS, OTHERS, MACS].into_iter().flatten() {
            assert!(names.insert(name), "{name}");
            for code in of_name.split(' ') {
                assert!(code.split_once(',').is_some() && codes.insert(code), "{code}");
            }
        }
    }
}
