//! One crash, as each of its tellers writes it: the process is the same in all of them.

use crate::{frame, header, readers};
use serde_json::{Value, json};
use unslide_report::{ProcessIdentity, ReadLimits, Report};

const APP: &str = "A1B2C3D4-0000-3111-8222-0123456789AB";
const KERNEL: &str = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";
const DYLD: &str = "C1B2C3D4-0000-3111-8222-0123456789AB";

/// A process: its id, and where the executable and the system's libraries lie.
#[derive(Clone, Copy)]
struct Process {
    pid: u64,
    app: u64,
    system: u64,
}

const PROCESS: Process = Process { pid: 731, app: 0x1_0493_8000, system: 0x1_de4a_1000 };

impl Process {
    /// Returns the frames of the threads, the innermost first: the image, its name, its load address, and the offset. The first thread began
    /// with the executable.
    fn threads(self) -> [Vec<(&'static str, &'static str, u64, u64)>; 2] {
        let app = |offset| (APP, "Shop", self.app, offset);
        let dyld = (DYLD, "dyld", self.system + 0x90_0000, 0x40);
        [
            vec![app(4_096), app(4_200), dyld],
            vec![(KERNEL, "libsystem_kernel.dylib", self.system, 0x80), app(9_000)],
        ]
    }

    fn images(self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            (APP, "/private/var/containers/Bundle/Application/1/Shop.app/Shop", self.app),
            (KERNEL, "/usr/lib/system/libsystem_kernel.dylib", self.system),
            (DYLD, "/usr/lib/dyld", self.system + 0x90_0000),
        ]
    }

    fn log(self) -> Value {
        let images = self.images().into_iter().map(|(id, path, base)| {
            let name = path.rsplit('/').next();
            json!({"source": "P", "arch": "arm64", "base": base, "size": 65_536, "uuid": id, "path": path, "name": name})
        });
        json!({"incident": "11111111-2222-3333-4444-555555555555", "pid": self.pid, "procName": "Shop", "procPath": self.images()[0].1,
            "captureTime": "2026-03-02 10:11:11.9012 +0900", "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV"},
            "faultingThread": 0, "usedImages": images.collect::<Value>(),
            "threads": [{"id": 1, "triggered": true, "frames": [frame(0, 4_096), frame(0, 4_200), frame(2, 64)]},
                        {"id": 2, "frames": [frame(1, 128), frame(0, 9_000)]}]})
    }

    /// Returns a tree of frames, of which each has those that called it.
    fn tree(self, keys: [&str; 2], is_named: bool) -> Value {
        let chain = |frames: &[(&str, &str, u64, u64)]| {
            frames.iter().rev().fold(json!([]), |inner, (id, name, base, offset)| {
                let mut frame = json!({"binaryUUID": id, "address": base + offset, "offsetIntoBinaryTextSegment": offset,
                    "sampleCount": 1, "subFrames": inner});
                if is_named {
                    frame["binaryName"] = json!(name);
                }
                json!([frame])
            })
        };
        let threads = self.threads();
        let thread = |place: usize| json!({"threadAttributed": place == 0, keys[1]: chain(&threads[place])});
        json!({"callStackPerThread": true, keys[0]: [thread(0), thread(1)]})
    }

    fn payload(self) -> Value {
        json!({"timeStampBegin": "2026-03-01 15:00:00", "timeStampEnd": "2026-03-02 15:00:00", "crashDiagnostics": [{
            "version": "1.0.0", "callStackTree": self.tree(["callStacks", "callStackRootFrames"], true),
            "diagnosticMetaData": {"appVersion": "4.2.0", "osVersion": "iPhone OS 26.1 (23B85)", "deviceType": "iPhone16,1",
                "bundleIdentifier": "org.example.shop", "pid": self.pid, "exceptionType": 1, "exceptionCode": 1, "signal": 11}}]})
    }

    fn diagnostic_report(self) -> Value {
        let mut tree = self.tree(["callStackThreads", "rootFrames"], false);
        tree["binaryInfo"] = [(APP, "Shop"), (KERNEL, "libsystem_kernel.dylib"), (DYLD, "dyld")]
            .map(|(id, name)| json!({"uuid": id, "name": name}))
            .to_vec()
            .into();
        json!({"version": "2.0.0", "timeRange": {"begin": 794_106_671.9, "end": 794_106_671.9},
            "environment": {"bundleIdentifier": "org.example.shop", "applicationVersion": "4.2.0", "pid": self.pid},
            "crashDiagnostic": {"exceptionType": 1, "exceptionCode": 1, "signal": 11, "callStackTree": tree}})
    }

    /// Returns a report of KSCrash, or of its monitor for MetricKit.
    fn kscrash(self, monitor: &str) -> Value {
        let images = self.images().into_iter();
        let images = images.map(
            |(id, path, base)| json!({"uuid": id, "name": path, "image_addr": base, "image_size": 65_536}),
        );
        json!({"report": {"id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "monitor_id": monitor},
            "system": {"CFBundleIdentifier": "org.example.shop", "process_id": self.pid, "process_name": "Shop"},
            "crash": {"error": {"type": "mach"}, "threads": [{"index": 0, "crashed": true}]},
            "binary_images": images.collect::<Value>()})
    }

    /// Returns the documents of all tellers.
    fn documents(self) -> Vec<(&'static str, Vec<u8>)> {
        let log = format!("{}\n{}\n", header(), self.log()).into_bytes();
        let json = |document: Value| document.to_string().into_bytes();
        vec![
            ("log", log),
            ("payload", json(self.payload())),
            ("report since iOS 27", json(self.diagnostic_report())),
            ("handler", json(self.kscrash("MachException"))),
            ("extension", json(self.kscrash("Corpse"))),
            ("monitor of MetricKit", json(self.kscrash("MetricKit"))),
        ]
    }
}

fn identity(document: &[u8]) -> Option<ProcessIdentity> {
    let readers = readers();
    let opened = readers.open(document, &ReadLimits::default()).unwrap();
    Report::read(opened.json(), &ReadLimits::default()).unwrap().process_identity()
}

#[test]
fn each_teller_names_the_same_process() {
    for (teller, document) in PROCESS.documents() {
        let found = identity(&document).unwrap_or_else(|| panic!("{teller} names no process"));
        assert_eq!(
            (found.pid, found.executable.1, found.system.1),
            (731, PROCESS.app, PROCESS.system),
            "{teller}"
        );
        let others = [
            Process { pid: 732, ..PROCESS },
            Process { app: PROCESS.app + 0x4000, ..PROCESS },
            Process { system: PROCESS.system + 0x4000, ..PROCESS },
        ];
        for (_, other) in others.into_iter().flat_map(Process::documents) {
            assert_ne!(identity(&other), Some(found), "{teller}");
        }
    }
}

#[test]
fn a_diagnostic_that_does_not_show_its_executable_names_no_process() {
    let without = |change: fn(&mut Value)| {
        let mut report = PROCESS.diagnostic_report();
        change(&mut report["crashDiagnostic"]["callStackTree"]);
        identity(report.to_string().as_bytes())
    };
    // No thread reaches the dynamic linker, or it has called a library of the system.
    let cut =
        without(|tree| tree["callStackThreads"][0]["rootFrames"][0]["subFrames"][0]["subFrames"] = json!([]));
    assert_eq!(cut, None);
    let in_library = without(|tree| {
        tree["callStackThreads"][0]["rootFrames"][0]["subFrames"][0]["binaryUUID"] = json!(KERNEL);
    });
    assert_eq!(in_library, None);
    // Without addresses the places of images are made up.
    let without_addresses = without(|tree| {
        for thread in 0..2 {
            let mut next = tree["callStackThreads"][thread]["rootFrames"].get_mut(0);
            while let Some(frame) = next {
                frame.as_object_mut().unwrap().remove("address");
                next = frame["subFrames"].get_mut(0);
            }
        }
    });
    assert_eq!(without_addresses, None);
    let no_pid = {
        let mut report = PROCESS.diagnostic_report();
        report["environment"].as_object_mut().unwrap().remove("pid");
        identity(report.to_string().as_bytes())
    };
    assert_eq!(no_pid, None);
}
