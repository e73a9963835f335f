"""Writes a crash report of the demo's program, in the format of KSCrash 3, with the addresses that this
very build would have left on the stack: the load without a check, and the return addresses above it."""

import json
import os
import re
import subprocess
import sys

program, dsym, target = sys.argv[1:]
suffix = os.environ["LLVM"]
TEXT, LOAD = 0x100000000, 0x102D58000  # where the program wants to be, and where it was loaded


def tool(name, *arguments, text=None):
    return subprocess.run([name + suffix, *arguments], input=text, check=True, capture_output=True, text=True).stdout


uuid = re.search(r"UUID: (\S+)", tool("llvm-dwarfdump", "--uuid", dsym)).group(1)
code, function = [], None
for line in tool("llvm-objdump", "-d", "--no-show-raw-insn", program).splitlines():
    if match := re.match(r"[0-9a-f]+ <(.+)>:$", line):
        function = match.group(1)
    elif match := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line):
        code.append((function, int(match.group(1), 16), match.group(2), match.group(3)))


def returns_to(caller, call):
    """The address after the call of `call` in `caller`: what the stack holds."""
    for index, (function, _, name, operands) in enumerate(code):
        if function == caller and name in ("bl", "blr") and call in operands:
            return code[index + 1][1]
    raise SystemExit(f"{caller} does not call {call}")


loads = [(f"0x{a:x}", a) for f, a, name, _ in code if f == "__ZNK4cafe4Cart5totalEv" and name.startswith("ldr")]
answers = json.loads(
    "[" + ",".join(tool("llvm-symbolizer", "--output-style=JSON", f"--obj={dsym}", text="\n".join(a for a, _ in loads)).split("\n")[:-1]) + "]"
)
crash = next(address for (_, address), answer in zip(loads, answers) if "Discount::of" in answer["Symbol"][0]["FunctionName"])
block = next(function for function, *_ in code if "block_invoke" in function)
frames = [
    crash,
    returns_to("__ZNK4cafe8Checkout6chargeERKNS_4CartE", "total"),
    returns_to("_cafe_charge", "charge"),
    returns_to(block, "cafe_charge"),
    None,
    returns_to("-[OrderController pay:]", ""),
    None,
    returns_to("_main", ""),
    None,
]
UIKIT, DYLD, DISPATCH = 0x18F2A4000, 0x1B4C10000, 0x195E30000
system = iter([("libdispatch.dylib", DISPATCH, DISPATCH + 0x40D8), ("UIKitCore", UIKIT, UIKIT + 0x4A1B38), ("dyld", DYLD, DYLD + 0x3D44)])
contents = []
CART = 0x16D0A1C20  # on the stack of the caller
for address in frames:
    if address is None:
        name, base, pc = next(system)
        contents.append({"object_name": name, "object_addr": base, "symbol_name": "<redacted>", "symbol_addr": pc - 0x40, "instruction_addr": pc})
    else:
        pc = address - TEXT + LOAD
        contents.append({"object_name": "Cafe", "object_addr": LOAD, "symbol_name": "<redacted>", "symbol_addr": LOAD, "instruction_addr": pc})
pc = contents[0]["instruction_addr"]
image = {"cpu_type": 16777228, "cpu_subtype": 0}
report = {
    "report": {"id": "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10", "process_name": "Cafe", "timestamp": 1784210415123456, "type": "standard", "version": "3.6.0"},
    "binary_images": [
        {**image, "name": "/private/var/containers/Bundle/Application/0B1F3C52-8C3E-4B5D-9A47-5E2D61F0A9C3/Cafe.app/Cafe", "uuid": uuid, "image_addr": LOAD, "image_vmaddr": TEXT, "image_size": 0x8000},
        {**image, "name": "/System/Library/PrivateFrameworks/UIKitCore.framework/UIKitCore", "uuid": "6D2F4A11-93C4-3F6E-8E0B-0C5A1E7D9F22", "image_addr": UIKIT, "image_vmaddr": 0x182A4000, "image_size": 0x1A00000},
        {**image, "name": "/usr/lib/system/libdispatch.dylib", "uuid": "C2B4E8D0-7A15-3F88-9D21-44E60A3B5C77", "image_addr": DISPATCH, "image_vmaddr": 0x195E0000, "image_size": 0x46000},
        {**image, "name": "/usr/lib/dyld", "uuid": "1E8A7C40-5B2D-3C19-A7F3-7B90D2E4C611", "image_addr": DYLD, "image_vmaddr": 0, "image_size": 0x90000},
    ],
    "system": {
        "CFBundleExecutable": "Cafe", "CFBundleIdentifier": "com.example.cafe", "CFBundleName": "Cafe",
        "CFBundleShortVersionString": "2.4.0", "CFBundleVersion": "381", "system_name": "iOS", "system_version": "18.1",
        "os_version": "22B83", "machine": "iPhone16,1", "model": "D83AP", "cpu_arch": "arm64", "cpu_type": 16777228, "cpu_subtype": 0,
        "process_name": "Cafe", "process_id": 734, "parent_process_id": 1, "device_app_hash": "d0c1f8a27be94e51b3a6f7c0911d5a64e8b2c937",
        "app_uuid": uuid, "time_zone": "CET", "kernel_version": "Darwin Kernel Version 24.1.0",
    },
    "crash": {
        "error": {
            "type": "mach", "address": 0,
            "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1, "code_name": "KERN_INVALID_ADDRESS", "subcode": 0},
            "signal": {"signal": 11, "name": "SIGSEGV", "code": 0, "code_name": "SEGV_NOOP"},
            "reason": "Attempted to dereference null pointer.",
        },
        "threads": [
            {
                "index": 0, "crashed": True, "current_thread": False, "name": "main",
                "backtrace": {"contents": contents, "skipped": 0},
                # The loop is at the second of four items, of which the discount is no pointer: x13.
                "registers": {
                    "basic": {
                        "pc": pc, "lr": contents[1]["instruction_addr"], "sp": 0x16D0A1B40, "fp": 0x16D0A1B80, "cpsr": 0x80001000,
                        "x0": 1620, "x1": CART, "x2": 0x280C4D3A0, "x8": CART + 0x40, "x9": 3, "x10": 0x5C28F5C28F5C28F5, "x11": 450, "x12": 2, "x13": 0,
                    },
                    # A data abort of a read: the kernel's words for a translation that failed.
                    "exception": {"exception": 0, "esr": 0x92000006, "far": 0},
                },
            },
        ],
    },
    "user": {"table": 7},
}
with open(target, "w") as out:
    json.dump(report, out, indent=1)
    out.write("\n")
