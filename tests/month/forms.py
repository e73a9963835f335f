"""Reports in other forms than KSCrash 2's, each of a build of the month: KSCrash 3.0's, Apple's logs, MetricKit's documents, errors of JavaScript."""

import json
import random
import uuid
from datetime import datetime

import reports
from reports import Build

LOAD, SIZE = 0x1_0400_0000, 0x8000
# Offsets of calls in the demo's program.
OFFSETS = [16_664, 16_732, 16_760, 16_552]
SYSTEM = {"uuid": "6D2F4A11-93C4-3F6E-8E0B-0C5A1E7D9F22", "base": 0x1_8F00_0000, "size": 0x1A0_0000, "offset": 4_856_712}
APPLE_EPOCH = 978_307_200


def new_id(seed: random.Random) -> str:
    return str(uuid.UUID(int=seed.getrandbits(128), version=4)).upper()


def ips(build: Build, seed: random.Random, at: datetime) -> tuple[str, bytes]:
    """Returns a crash log of two JSON texts and its id."""
    incident, when = new_id(seed), at.strftime("%Y-%m-%d %H:%M:%S.00 +0000")
    header = {"app_name": "Cafe", "bug_type": "309", "incident_id": incident, "bundleID": build.app, "app_version": build.version,
              "build_version": build.number, "timestamp": when, "os_version": "iPhone OS 18.1 (22B83)"}
    frames = [{"imageIndex": 0, "imageOffset": offset} for offset in OFFSETS] + [{"imageIndex": 1, "imageOffset": SYSTEM["offset"]}]
    body = {
        "procName": "Cafe", "pid": 734, "cpuType": "ARM-64", "faultingThread": 0, "incident": incident, "captureTime": when,
        "crashReporterKey": uuid.UUID(int=seed.getrandbits(128)).hex, "modelCode": "iPhone16,1",
        "osVersion": {"train": "iPhone OS 18.1", "build": "22B83"},
        "bundleInfo": {"CFBundleIdentifier": build.app, "CFBundleShortVersionString": build.version, "CFBundleVersion": build.number},
        "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "codes": "0x0000000000000001, 0x0000000000000000", "rawCodes": [1, 0]},
        "threads": [{"id": 1, "triggered": True, "queue": "com.apple.main-thread", "frames": frames}],
        "usedImages": [
            {"source": "P", "arch": "arm64", "base": LOAD, "size": SIZE, "uuid": build.debug_id.lower(), "path": "/a/Cafe.app/Cafe", "name": "Cafe"},
            {"source": "P", "arch": "arm64e", "base": SYSTEM["base"], "size": SYSTEM["size"], "uuid": SYSTEM["uuid"].lower(),
             "path": "/System/Library/PrivateFrameworks/UIKitCore.framework/UIKitCore", "name": "UIKitCore"}],
    }
    return incident.lower(), f"{json.dumps(header)}\n{json.dumps(body, indent=2)}\n".encode()


def crash_text(build: Build, seed: random.Random, at: datetime) -> tuple[str, bytes]:
    """Returns a crash log as text and its id."""
    incident = new_id(seed)
    frames = "\n".join(f"{number}   Cafe               0x{LOAD + offset:016x} 0x{LOAD:x} + {offset}" for number, offset in enumerate(OFFSETS))
    identity = build.debug_id.replace("-", "").lower()
    return incident.lower(), f"""Incident Identifier: {incident}
CrashReporter Key:   {uuid.UUID(int=seed.getrandbits(128)).hex}01234567
Hardware Model:      iPhone16,1
Process:             Cafe [734]
Path:                /private/var/containers/Bundle/Application/1/Cafe.app/Cafe
Identifier:          {build.app}
Version:             {build.version} ({build.number})
Code Type:           ARM-64 (Native)
Parent Process:      launchd [1]

Date/Time:           {at.strftime("%Y-%m-%d %H:%M:%S.0000 +0000")}
OS Version:          iPhone OS 18.1 (22B83)
Report Version:      104

Exception Type:  EXC_BAD_ACCESS (SIGSEGV)
Exception Codes: 0x0000000000000001, 0x0000000000000000

Triggered by Thread:  0

Thread 0 Crashed:
{frames}

Binary Images:
       0x{LOAD:x} -        0x{LOAD + SIZE - 1:x} Cafe arm64  <{identity}> /private/var/containers/Bundle/Application/1/Cafe.app/Cafe

EOF
""".encode()


def innermost_first(build: Build) -> dict:
    """Returns the frames of a call stack tree: each lies in the one that it called."""
    frame = {}
    for offset in reversed(OFFSETS):
        inner = [frame] if frame else []
        frame = {"binaryUUID": build.debug_id, "binaryName": "Cafe", "address": LOAD + offset, "offsetIntoBinaryTextSegment": offset,
                 "sampleCount": 1, "subFrames": inner}
    return frame


def metrickit_26(build: Build, seed: random.Random, at: datetime) -> bytes:
    """Returns a payload of MetricKit up to iOS 26 with a crash."""
    about = {"bundleIdentifier": build.app, "appVersion": build.version, "appBuildVersion": build.number, "deviceType": "iPhone16,1",
             "platformArchitecture": "arm64e", "osVersion": "iPhone OS 26.1 (23B85)", "exceptionType": 1, "exceptionCode": 0, "signal": 11,
             "pid": seed.randrange(1, 1 << 30)}
    tree = {"callStackPerThread": True, "callStacks": [{"threadAttributed": True, "callStackRootFrames": [innermost_first(build)]}]}
    end = at.strftime("%Y-%m-%d %H:%M:%S")
    return json.dumps({"timeStampBegin": end, "timeStampEnd": end,
                       "crashDiagnostics": [{"version": "1.0.0", "callStackTree": tree, "diagnosticMetaData": about}]}).encode()


def metrickit_27(build: Build, seed: random.Random, at: datetime) -> bytes:
    """Returns a `DiagnosticReport` of iOS 27 with a crash."""
    seconds = at.timestamp() - APPLE_EPOCH
    tree = {"callStackPerThread": True, "binaryInfo": [{"uuid": build.debug_id, "name": "Cafe"}],
            "callStackThreads": [{"threadAttributed": True, "rootFrames": [innermost_first(build)]}]}
    return json.dumps({
        "version": "2.0.0", "timeRange": {"begin": seconds, "end": seconds},
        "environment": {
            "bundleIdentifier": build.app, "applicationVersion": build.version, "applicationBuildVersion": build.number, "deviceType": "iPhone16,1",
            "osVersion": {"platform": "iPhone OS", "number": "27.0", "buildNumber": "24A435"}, "platformArchitecture": "arm64e",
            "regionFormat": "NO", "pid": seed.randrange(1, 1 << 30), "isTestFlightApp": False, "lowPowerModeEnabled": False, "signpostData": []},
        "crashDiagnostic": {"exceptionType": 1, "exceptionCode": 0, "signal": 11, "callStackTree": tree}}).encode()


def javascript(build: Build, seed: random.Random, at: datetime, person: str) -> dict:
    """Returns an error of React Native."""
    report = reports.crash(build, seed, at, person)
    frames = [{"methodName": name, "file": "app:///main.jsbundle", "lineNumber": 1, "column": column} for name, column in (("a", 14), ("b", 24))]
    report["crash"]["error"] = {"type": "user", "reason": "undefined is not an object (evaluating 'oven.timer.start')",
                                "user_reported": {"name": "TypeError", "language": "react-native", "backtrace": frames}}
    return report


def kscrash_3(build: Build, seed: random.Random, at: datetime, person: str) -> dict:
    """Returns a crash that names its run. Each frame names its image, and the list of images is empty."""
    report = reports.crash(build, seed, at, person)
    images = {image["image_addr"]: image["uuid"] for image in report["binary_images"]}
    report["report"] |= {"run_id": new_id(seed), "version": "3.9.0", "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    report["binary_images"] = []
    for thread in report["crash"]["threads"]:
        for frame in thread.get("backtrace", {}).get("contents", []):
            if frame.get("object_addr") in images:
                frame["object_uuid"] = images[frame["object_addr"]]
    return report


def run_summary(build: Build, report: dict, at: datetime, person: str) -> dict:
    """Returns the summary of the run in which the report's crash was."""
    millis = int(at.timestamp() * 1000)
    return {
        "schema_version": 1, "sdk_version": "3.0.0", "run_id": report["report"]["run_id"], "device_id": f"i-{build.app}-{person}", "user_id": person,
        "started_at_ms": millis - 60_000, "ended_at_ms": millis, "is_being_debugged": False,
        "outcome": {"termination_reason": "crash", "user_perceptible": True}, "durations_ms": {"active": 50_000, "background": 10_000},
        "app": {"bundle_id": build.app, "version": build.number, "short_version": build.version, "host_kind": "app", "build_type": "app store"},
        "os": {"name": "iOS", "version": "27.0", "build": "24A335"}, "device": {"model": "iPhone18,1"},
    }
