//! The reports that are stored: crashes of many bugs, devices, versions and users, spread as a tenant's are.

use unslide_testkit::reports::{Error, Style};
use unslide_tests::app::App;

const APPS: u64 = 40;
const VERSIONS: u64 = 25;
/// Bugs of each app. Half of the reports are of an eighth of them.
const BUGS: u64 = 500;
const MODELS: u64 = 40;
const SYSTEMS: u64 = 30;
/// Names are words: digits in them would be masked.
const LETTERS: &[u8; 16] = b"abcdefghijklmnop";

/// Builds the report with a number. Its values depend on the number alone, and its device is one of `devices`.
pub fn build(app: &App, number: u32, devices: u32) -> Vec<u8> {
    let mut drawn = u64::from(number) << 32;
    let mut draw = |bound: u64| {
        drawn = mix(drawn.wrapping_add(1));
        drawn % bound
    };
    let bug = (BUGS as f64 * (draw(1 << 20) as f64 / f64::from(1 << 20)).powi(3)) as usize;
    let name: String =
        [bug >> 8, bug >> 4, bug].map(|digit| char::from(LETTERS[digit & 15])).iter().collect();
    let device = format!("{:040x}", mix(draw(u64::from(devices.max(1)))));
    let [id, run] = [(); 2].map(|()| uuid::Uuid::from_u64_pair(draw(u64::MAX), draw(u64::MAX)).to_string());
    let bundle = format!("com.example.app{}", draw(APPS));
    app.build_report(number)
        .id(&id)
        .app(&bundle, &format!("{}.0", draw(VERSIONS)), "45")
        .error(Error::NsException)
        .set("crash.error.nsexception.name", format!("ShopError{name}"))
        .set("report.run_id", run)
        .set("system.device_app_hash", device.as_str())
        .set("system.machine", format!("iPhone{},1", draw(MODELS)))
        .set("system.system_version", format!("18.{}", draw(SYSTEMS)))
        .set("user.id", format!("user-{device}"))
        .set("user.plan", "pro")
        .set("user.screen", format!("screen-{}", draw(20)))
        .style(Style::Compact)
        .bytes()
}

/// Scatters a number (SplitMix64).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
