"""Writes where the demo's framework traps, recurses and is called: offsets in its image."""

import json
import os
import re
import subprocess
import sys

framework, dsym, target = sys.argv[1:]
suffix = os.environ["LLVM"]


def tool(name, *arguments):
    return subprocess.run([name + suffix, *arguments], check=True, capture_output=True, text=True).stdout


functions, function = {}, None
for line in tool("llvm-objdump", "-d", "--no-show-raw-insn", framework).splitlines():
    if match := re.match(r"[0-9a-f]+ <(.+)>:$", line):
        function = functions.setdefault(match.group(1), [])
    elif match := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line):
        function.append((int(match.group(1), 16), match.group(2), match.group(3)))


def returns_to(caller, call):
    """The address after the call of `call` in `caller`: what the stack holds."""
    code = functions[caller]
    return next(code[index + 1][0] for index, (_, name, operands) in enumerate(code) if name == "bl" and call in operands)


add, earn, recursion = "_$s7Loyalty7AccountV3addyySiF", "_$s7Loyalty7AccountV4earnyySiF", "_$s7Loyalty4TierC4nextyySiF"
facts = {
    "uuid": re.search(r"UUID: (\S+)", tool("llvm-dwarfdump", "--uuid", dsym)).group(1),
    "size": 0x8000,
    "trap": next(address for address, name, _ in functions[add] if name == "brk"),
    "after_add": returns_to(earn, add),
    "stack_full": next(address for address, name, _ in functions[recursion] if name == "stp"),
    "after_recursion": returns_to(recursion, recursion),
    "after_next": returns_to(earn, recursion),
}
with open(target, "w") as out:
    json.dump(facts, out, indent=1)
    out.write("\n")
