//! Reports at random, always the same for a seed.

use super::{ARM64, ARM64_32, ARM64E, ARMV7, Error, Frame, Image, Json, Report, Style, Thread, X86_64};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const SYSTEM: [&str; 6] =
    ["UIKitCore", "Foundation", "CoreFoundation", "libdispatch", "WebCore", "GraphicsServices"];

/// A pretty-printed report of a bad access with this many images and frames, the frames in threads
/// of sixteen and each in one of the images, as a device would name them. 150 images and 160
/// frames make about 74 KB in [`Style::Compact`].
#[must_use]
pub fn sized(seed: u64, images: usize, frames: usize) -> Report {
    let mut rng = StdRng::seed_from_u64(seed);
    let list: Vec<(String, String, u64)> = (0..images)
        .map(|n| {
            let address = 0x1_0000_0000 + n as u64 * 0x40_0000;
            let name = match n {
                0 => "Shop".to_owned(),
                n => format!("{}{n}", SYSTEM[n % SYSTEM.len()]),
            };
            (name, uuid(&mut rng), address)
        })
        .collect();
    let mut report = Report::standard().images(list.iter().enumerate().map(|(n, (name, uuid, address))| {
        let path = match n {
            0 => format!("/private/var/containers/Bundle/Application/{name}.app/{name}"),
            _ => format!("/System/Library/Frameworks/{name}.framework/{name}"),
        };
        Image::new(&path, uuid, *address).size(0x3f_0000).cpu(ARM64E).library([1, 2, 3])
    }));
    let mut left = frames;
    for index in 0_u64.. {
        if left == 0 || list.is_empty() {
            break;
        }
        let here = left.min(16);
        left -= here;
        let stack: Vec<(u64, Frame)> = (0..here)
            .filter_map(|_| {
                let (name, _, start) = list.choose(&mut rng)?;
                let symbol = start + rng.random_range(0x1000..0x30_0000_u64) / 4 * 4;
                let address = symbol + rng.random_range(1..100_u64) * 4;
                let function = format!("-[{name}Controller handleEvent{}:]", symbol & 0xfff);
                Some((address, Frame::at(address).object(name, *start).symbol(&function, symbol)))
            })
            .collect();
        let pc = stack.first().map_or(0, |(address, _)| *address);
        let mut thread = Thread::new(index).frames(stack.into_iter().map(|(_, frame)| frame));
        if index == 0 {
            thread = thread.crashed().queue("com.apple.main-thread").all_registers(ARM64E, pc);
        }
        report = report.thread(thread);
    }
    report
}

/// A report of random form: version, error, images of one CPU, threads, spellings of addresses,
/// sections that are missing or of the wrong type, parts inside parts, and white space.
#[must_use]
pub fn random(seed: u64) -> Report {
    let rng = &mut StdRng::seed_from_u64(seed);
    let mut report = part(rng);
    for _ in 0..[0, 0, 0, 1, 1, 2, 5][rng.random_range(0..7)] {
        report = part(rng).recrash(report).set("report.type", "minimal");
    }
    if rng.random_bool(0.2) {
        report = report.images_last();
    }
    if rng.random_bool(0.2) {
        report = report.sorted();
    }
    let style = match rng.random_range(0..4) {
        0 => Style::Compact,
        1 => Style::Pretty,
        2 => Style::Apple,
        _ => Style::Wild(rng.random()),
    };
    report.style(style)
}

fn part(rng: &mut StdRng) -> Report {
    const VERSIONS: [&str; 9] =
        ["2.0", "3.1.0", "3.2.0", "3.3.0", "3.4.1", "3.5.0", "3.6.0", "3.7.1", "3.9.0"];
    let error = Error::ALL[rng.random_range(0..Error::ALL.len())];
    let cpu = [ARM64, ARM64E, ARM64_32, ARMV7, X86_64][rng.random_range(0..5)];
    let mut report = Report::standard().version(VERSIONS[rng.random_range(0..VERSIONS.len())]).error(error);
    let report_id = uuid(rng);
    report = report.id(&report_id);
    let images: Vec<(String, u64)> =
        (0..rng.random_range(0..8_u64)).map(|n| (uuid(rng), 0x10_0000 * (n + 1))).collect();
    for (n, (id, address)) in images.iter().enumerate() {
        let image = Image::new(&format!("/usr/lib/lib{n}.dylib"), id, *address).cpu(cpu);
        report = report.image(match rng.random_range(0..6) {
            0 => image.size(0),
            1 => image.set("uuid", Json::null()),
            2 => image.without("image_vmaddr"),
            _ => image,
        });
    }
    if error.has_threads() {
        for index in 0..rng.random_range(0..5) {
            let frames: Vec<Frame> = (0..rng.random_range(0..6)).map(|_| frame(rng, &images)).collect();
            let mut thread = Thread::new(index).frames(frames);
            thread = match rng.random_range(0..5) {
                0 => thread.crashed().all_registers(cpu, 0x10_0000),
                1 => thread.current(),
                2 => thread.skipped(7),
                3 => thread.set("backtrace.contents.1", "cut off"),
                _ => thread,
            };
            report = report.thread(thread);
        }
    }
    if error == Error::Profile {
        let frames: Vec<Frame> = (0..4).map(|_| frame(rng, &images)).collect();
        report = report.profile_frames(frames);
    }
    if rng.random_bool(0.3) {
        let frames: Vec<Frame> = (0..3).map(|_| frame(rng, &images)).collect();
        report = report.last_exception(frames);
    }
    if rng.random_bool(0.2) {
        report = report.deallocated_exception(0x1234, [frame(rng, &images)]);
    }
    match rng.random_range(0..12) {
        0 => report.without("binary_images"),
        1 => report.without("report"),
        2 => report.set("process", Json::array([])),
        3 => report.set("system", "lost"),
        4 => report.set("crash.threads", Json::Raw("17".into())),
        5 => report.duplicate("", "crash", Json::object([("error", error.json())])),
        6 => report.set("symbolication", Json::object([("version", Json::from(1))])),
        _ => report,
    }
}

fn frame(rng: &mut StdRng, images: &[(String, u64)]) -> Frame {
    let address = rng.random_range(0..0xa0_0000_u64);
    let frame = match rng.random_range(0..10) {
        0 => Frame::of(Json::negative(address | 0xffff_ffff_0000_0000)),
        1 => Frame::of(Json::float(address | 0xffff_0000_0000_0000)),
        2 => Frame::at(address | 0x0012_3400_0000_0000),
        3 => Frame::of(Json::from("0x1000")),
        4 => Frame(Json::Object(Vec::new())),
        5 => Frame::at(address).set("symbolication", Json::object([("by", Json::from("another"))])),
        _ => Frame::at(address),
    };
    match images.choose(rng) {
        Some((id, start)) if rng.random_bool(0.5) => {
            frame.object("lib0.dylib", *start).uuid(id).symbol("_ZN3fooEv", *start)
        }
        _ => frame,
    }
}

/// A version 4 UUID in upper case.
fn uuid(rng: &mut StdRng) -> String {
    let bits: u128 = rng.random::<u128>() & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let group = |shift: u32| (bits >> shift) as u16;
    let (first, last) = ((bits >> 96) as u32, bits as u64 & 0xffff_ffff_ffff);
    format!("{first:08X}-{:04X}-{:04X}-{:04X}-{last:012X}", group(80), group(64), group(48))
}
