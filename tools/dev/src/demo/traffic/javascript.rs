//! Errors of JavaScript in a screen of the Bakery, and the source map of its bundle.

use super::builds::{BUILDS, Build};
use super::{BoxError, REFUSED, Sent, made};
use rand::rngs::SmallRng;
use serde_json::json;
use unslide_symbolicate::{BundleIdentity, with_debug_id};

/// The first id of the reports.
const IDS: u64 = 1 << 22;
/// Reports, one each ten minutes.
const REPORTS: i64 = 3;
const BUNDLE: &str = "main.jsbundle";
const SOURCE: &str = "export function heat(oven) {
  return oven.timer.start();
}

export function bake(order) {
  return heat(order.oven);
}
";

/// Returns the build of the Bakery that is sold.
pub fn bakery() -> &'static Build {
    &BUILDS[BUILDS.len() - 1]
}

/// Returns the source map of the bundle, under the id that reports of the build know.
pub fn source_map() -> Result<Vec<u8>, BoxError> {
    let build = bakery();
    let identity = BundleIdentity {
        app: build.app,
        platform: "ios",
        version: build.version,
        build: build.number,
        bundle: BUNDLE,
    };
    // Column 10 of the bundle is line 2, column 20 is line 6.
    let map = json!({"version": 3, "sources": ["src/oven.ts"], "sourcesContent": [SOURCE], "names": ["heat"],
                     "mappings": "AAAA,UACS,UAIAA"});
    let named = with_debug_id(map.to_string().as_bytes(), identity.debug_id());
    Ok(named.ok_or("the source map is none")?)
}

/// Creates the reports, the last of them of now.
pub fn reports(now: i64, random: &mut SmallRng) -> Result<Vec<Sent>, BoxError> {
    let frame = |name: &str, column: u32| json!({"methodName": name, "file": format!("app:///{BUNDLE}"), "lineNumber": 1, "column": column});
    let mut sent = Vec::new();
    for number in 0..REPORTS {
        let at = now - number * 600_000;
        let id = IDS + number.unsigned_abs();
        let (run, mut report) = made(bakery(), REFUSED, id, at, random)?;
        let user = json!({"name": "TypeError", "language": "react-native",
                          "backtrace": [frame("a", 14), frame("b", 24)]});
        report["crash"]["error"] = json!({"type": "user", "user_reported": user,
            "reason": "undefined is not an object (evaluating 'oven.timer.start')"});
        sent.push(Sent::from_run(run, REFUSED, &report)?);
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use unslide_report::{ReadLimits, Report};

    #[test]
    fn the_errors_are_of_javascript_and_the_source_map_is_that_of_their_bundle() {
        let sent = reports(1_800_000_000_000, &mut SmallRng::seed_from_u64(7)).unwrap();
        let map = source_map().unwrap();
        let objects = unslide_symbolicate::object::list_objects(&map).unwrap();
        let uploaded = objects[0].object.as_ref().unwrap().debug_id.unwrap();
        for sent in &sent {
            let report = Report::read(&sent.body, &ReadLimits::default()).unwrap();
            let error = report.javascript_error().unwrap();
            assert_eq!(error.frames.len(), 2);
            let identity = BundleIdentity {
                app: &error.app,
                platform: &error.platform,
                version: &error.version,
                build: &error.build,
                bundle: error.mapped_bundle(&error.frames[0]).unwrap(),
            };
            assert_eq!(identity.debug_id(), uploaded);
        }
    }
}
