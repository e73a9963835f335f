//! Which process a report is of.

use crate::read;
use unslide_report::ProcessIdentity;
use unslide_testkit::reports::{Image, Report};

const SHOP: &str = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0";
const KERNEL: &str = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";
const SHOP_AT: u64 = 0x1_0493_8000;
const KERNEL_AT: u64 = 0x1_de4a_1000;

fn process(report: &Report) -> Option<ProcessIdentity> {
    read(&report.bytes()).process_identity()
}

/// As KSCrash writes it: all images, with their paths.
fn told_by_kscrash(pid: u64, shop_at: u64, kernel_at: u64) -> Report {
    Report::standard().set("report.monitor_id", "MachException").set("system.process_id", pid).images([
        Image::new("/private/var/containers/Bundle/Application/Shop.app/Shop", SHOP, shop_at),
        Image::new("/usr/lib/system/libsystem_platform.dylib", SHOP, kernel_at + 0x9000),
        Image::new("/usr/lib/system/libsystem_kernel.dylib", KERNEL, kernel_at),
    ])
}

/// As its MetricKit monitor writes it: the images of the frames, by their file names.
fn told_by_metric_kit() -> Report {
    let bare = |name: &str, id: &str, at: u64| Image::new(name, id, at).size(0).without("image_vmaddr");
    let images = [bare("libsystem_kernel.dylib", KERNEL, KERNEL_AT), bare("Shop", SHOP, SHOP_AT)];
    Report::standard().set("report.monitor_id", "MetricKit").set("system.process_id", 734_u64).images(images)
}

#[test]
fn kscrash_and_metric_kit_name_a_process_alike_and_no_two_processes() {
    let process_of = |pid, shop_at, kernel_at| process(&told_by_kscrash(pid, shop_at, kernel_at));
    let found = process(&told_by_metric_kit());
    assert!(found.is_some_and(|process| process.pid == 734 && process.executable.1 == SHOP_AT));
    assert_eq!(process_of(734, SHOP_AT, KERNEL_AT), found);
    // Another start of the app, of the device, and a process that is started again.
    assert_ne!(process_of(734, SHOP_AT + 0x4000, KERNEL_AT), found);
    assert_ne!(process_of(734, SHOP_AT, KERNEL_AT + 0x4000), found);
    assert_ne!(process_of(735, SHOP_AT, KERNEL_AT), found);
}

#[test]
fn a_process_that_is_not_known_well_is_none() {
    let without = |path: &str| process(&told_by_metric_kit().without(path));
    for path in ["system.process_id", "binary_images.0", "binary_images.1.uuid", "binary_images.1.image_addr"]
    {
        assert_eq!(without(path), None, "{path}");
    }
    let renamed = told_by_metric_kit().set("report.process_name", "Bank").set("system.process_name", "Bank");
    assert_eq!(process(&renamed), None);
    // The next run of the app tells how the one before it ended.
    let ended = told_by_kscrash(734, SHOP_AT, KERNEL_AT).without("crash").set("crash_type", "foom_crash");
    assert_eq!(process(&ended), None);
}
