//! The framework of the two apps, which is in Swift. It crashes by an arithmetic overflow and a recursion
//! without an end.

use super::{BoxError, OVERFLOW, backtraces};
use serde::Deserialize;
use serde_json::{Value, json};

/// The framework's dSYM, as an upload. It is the same for all builds of the apps.
pub const DSYM: &[u8] = include_bytes!("../../../demo/Loyalty.dSYM.zip");
/// The id, the size and the crash offsets of the framework, as JSON.
const FRAMEWORK: &[u8] = include_bytes!("../../../demo/loyalty.json");
/// The offset of its load address from the app's image.
const BEHIND_APP: u64 = 0x10_0000;
/// Calls of the recursion in a report.
const CALLS: usize = 300;

/// The framework in the process of a report: its id and size, its load address, and offsets in its code.
#[derive(Deserialize)]
pub struct Framework {
    uuid: String,
    size: u64,
    #[serde(skip)]
    base: u64,
    /// The offsets at which the sum of points overflows, and at which its caller continues.
    trap: u64,
    after_add: u64,
    /// The offsets at which the recursion exhausts the stack, at which each of its calls continues, and of
    /// its first caller.
    stack_full: u64,
    after_recursion: u64,
    after_next: u64,
}

impl Framework {
    /// Adds the framework's image to a report.
    pub fn load(report: &mut Value) -> Result<Framework, BoxError> {
        let mut framework: Framework = serde_json::from_slice(FRAMEWORK)?;
        let mut image = report["binary_images"][0].clone();
        let app = image["name"].as_str().unwrap_or_default();
        let folder = app.rsplit_once('/').map_or(app, |(folder, _)| folder);
        framework.base = image["image_addr"].as_u64().unwrap_or_default() + BEHIND_APP;
        image["name"] = json!(format!("{folder}/Frameworks/Loyalty.framework/Loyalty"));
        image["uuid"] = json!(framework.uuid);
        image["image_addr"] = json!(framework.base);
        image["image_vmaddr"] = json!(0);
        image["image_size"] = json!(framework.size);
        if let Some(images) = report["binary_images"].as_array_mut() {
            images.push(image);
        }
        Ok(framework)
    }

    /// Returns the frames of the sum of points as it returns, the innermost first.
    pub fn sum(&self) -> Vec<Value> {
        // The function returns right before the trap.
        self.sum_at(self.trap - 4)
    }

    fn sum_at(&self, offset: u64) -> Vec<Value> {
        vec![self.frame(offset), self.frame(self.after_add)]
    }

    /// Returns the frames of a recursion with this number of calls, the innermost first.
    pub fn recursion(&self, calls: usize) -> Vec<Value> {
        let mut frames = vec![self.frame(self.after_recursion); calls];
        frames.insert(0, self.frame(self.stack_full));
        frames.push(self.frame(self.after_next));
        frames
    }

    fn frame(&self, offset: u64) -> Value {
        json!({"object_name": "Loyalty", "object_addr": self.base, "symbol_name": "<redacted>",
               "symbol_addr": self.base, "instruction_addr": self.base + offset})
    }
}

/// Lets the framework crash that the crashed thread of a report has called.
pub fn crash_in_framework(report: &mut Value, bug: usize) -> Result<(), BoxError> {
    let framework = Framework::load(report)?;
    let stack_pointer =
        report["crash"]["threads"][0]["registers"]["basic"]["sp"].as_u64().unwrap_or_default();
    let (address, called) = if bug == OVERFLOW {
        (framework.base + framework.trap, framework.sum_at(framework.trap))
    } else {
        (stack_pointer.saturating_sub(16), framework.recursion(CALLS))
    };
    report["crash"]["error"]["address"] = json!(address);
    // The thread stopped at the innermost frame's address, which is no return address.
    report["crash"]["threads"][0]["registers"]["basic"]["pc"] = called[0]["instruction_addr"].clone();
    if let Some(frames) = backtraces(report).next() {
        frames.splice(..0, called);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::builds::BUILDS;
    use super::super::tests::symbols_from_archive;
    use super::super::{RECURSION, report};
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use unslide_report::{ReadLimits, Report};
    use unslide_symbolicate::{Context, Plan};

    #[test]
    fn the_framework_traps_and_recurses_as_its_dsym_says() {
        let (own, symbols) = symbols_from_archive(DSYM);
        let title = |bug: usize| {
            let mut random = SmallRng::seed_from_u64(7);
            let sent = report(&BUILDS[1], bug, 1, 1_800_000_000_000, &mut random).unwrap();
            let read = Report::read(&sent.body, &ReadLimits::default()).unwrap();
            let plan = Plan::new(&read);
            let enriched = plan.enrich_within(&|id| (*id == own).then_some(&symbols), &Context::default());
            enriched.grouping.unwrap().title
        };
        assert_eq!(title(OVERFLOW), "Arithmetic overflow in Loyalty.Account.add");
        assert_eq!(title(RECURSION), "Stack overflow in Loyalty.Tier.next");
    }
}
