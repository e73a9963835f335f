#!/usr/bin/env python3
"""Runs the marked blocks of pages against `unslide dev`, each in a folder with a new build.

    pages.py --unslide PROGRAM --demo FOLDER --clients FOLDER [--only TEXT] PAGE...

The words after a block's language mark it: `run` must end with 0, `upload` must also make the symbols of the build ready.
Further words name the programs that the block needs; without one of them it is left out. A block that uses the action for GitHub
or the component for GitLab runs their steps, with a release on this machine. Exit 0 if no block failed.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

import clients
import pipelines
from check import Api

FENCE = re.compile(r"^( *)```(sh|yaml|ruby) (run|upload)((?: [\w-]+)*)$")
BLOCK_SECONDS = 180
START_SECONDS = 120
TENANT = "acme"
# Those of a pipeline, of a developer, and of the person who makes their keys.
SCOPES = "symbols:write,symbols:read,reports:write,reports:read,groups:write,tenant:admin"


class Block:
    """A fenced block, and the heading above it."""

    def __init__(self, page, line, heading, fence):
        self.name = f"{os.path.basename(page)}:{line} {heading}"
        self.indent, self.language, self.mark, needs = len(fence[1]), fence[2], fence[3], fence[4]
        self.needs, self.lines = needs.split(), []

    def script(self):
        """Returns the block as a script of the shell."""
        if self.language == "yaml":
            return "\n".join(workflow_commands(self.lines))
        if self.language == "ruby":
            return "\n".join(lane_commands(self.lines))
        return "\n".join(self.lines)


def read_blocks(page):
    with open(page, encoding="utf-8") as opened:
        lines = opened.read().split("\n")
    heading, block = "", None
    for number, line in enumerate(lines, 1):
        if block:
            if line.strip() == "```":
                yield block
                block = None
            else:
                block.lines.append(line[block.indent:])
        elif fence := FENCE.match(line):
            block = Block(page, number, heading, fence)
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def workflow_commands(lines):
    """Returns the commands of the steps of a workflow."""
    depth = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is not None and (indent > depth or not line.strip()):
            yield line.strip()
            continue
        depth = None
        if step := re.match(r"^[ -]*run: (.*)$", line):
            if step[1] == "|":
                depth = indent
            else:
                yield step[1]


def lane_commands(lines):
    """Returns the commands that a lane of fastlane runs by its action `sh`."""
    for line in lines:
        if call := re.match(r"^ *sh\((.*)\)$", line):
            words = re.findall(r'"([^"]*)"|lane_context\[SharedValues::(\w+)\]', call[1])
            yield " ".join(f'"{text}"' if text else f'"${variable}"' for text, variable in words)


def write_build(demo, folder):
    """Writes a build folder as Xcode leaves it, with new debug ids. Returns these."""
    dsym = os.path.join(folder, "build", "dSYMs", "Shop.app.dSYM")
    with zipfile.ZipFile(os.path.join(demo, "Cafe.dSYM.zip")) as archive:
        name = next(name for name in archive.namelist() if "/Resources/DWARF/" in name and not name.endswith("/"))
        data, ids = clients.with_new_uuids(archive.read(name), os.urandom(16))
    dwarf = os.path.join(dsym, "Contents", "Resources", "DWARF")
    os.makedirs(dwarf)
    with open(os.path.join(dwarf, "Shop"), "wb") as opened:
        opened.write(data)
    with open(os.path.join(dsym, "Contents", "Info.plist"), "w", encoding="utf-8") as opened:
        opened.write('<plist version="1.0"><dict/></plist>')
    shutil.copytree(os.path.dirname(dsym), os.path.join(folder, "build", "Shop.xcarchive", "dSYMs"))
    shutil.make_archive(os.path.join(folder, "fastlane", "Shop.app.dSYM"), "zip", os.path.dirname(dsym))
    shutil.copy(os.path.join(demo, "crash.json"), folder)
    clients.write_bundle(folder)
    return ids


class Server:
    """A running `unslide dev` with a tenant and the key of a pipeline."""

    def __init__(self, program, lab):
        self.program = os.path.join(lab, "bin", "unslide")
        os.mkdir(os.path.dirname(self.program))
        os.symlink(os.path.abspath(program), self.program)
        self.log = open(os.path.join(lab, "log"), "w+", encoding="utf-8")
        command = [self.program, "dev", "--json", "--data-dir", os.path.join(lab, "data"), "--listen", "127.0.0.1:0"]
        with open(os.path.join(lab, "facts"), "w", encoding="utf-8") as facts:
            self.process = subprocess.Popen(command, stdout=facts, stderr=self.log)
        self.facts = self.wait_for_facts(os.path.join(lab, "facts"))
        self.url = self.facts["api_url"]
        self.administer("tenant", "create", TENANT)
        self.key = self.administer("key", "create", "--tenant", TENANT, "--scope", SCOPES)

    def wait_for_facts(self, path):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if os.path.getsize(path):
                with open(path, encoding="utf-8") as opened:
                    return json.load(opened)
            time.sleep(0.2)
        self.log.seek(0)
        sys.exit(f"unslide dev did not start: {self.log.read()[-2000:]}")

    def administer(self, *arguments):
        done = subprocess.run([self.program, *arguments, "--config", self.facts["config"]], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"unslide {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def environment(server, client_folder, folder):
    """Returns the variables of a pipeline: the key, those of Xcode and Xcode Cloud, and those that keep clients on this machine."""
    build = os.path.join(folder, "build")
    programs = [os.path.dirname(server.program)]
    programs += [os.path.join(client_folder, *parts) for parts in (["bin"], ["sentry-3", "bin"], ["node_modules", ".bin"])]
    return {
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
        "UNSLIDE_URL": server.url, "UNSLIDE_API_KEY": server.key,
        "CONFIGURATION": "Release", "DWARF_DSYM_FOLDER_PATH": os.path.join(build, "dSYMs"),
        "CI_ARCHIVE_PATH": os.path.join(build, "Shop.xcarchive"), "DSYM_OUTPUT_PATH": os.path.join(folder, "fastlane", "Shop.app.dSYM.zip"),
        "SENTRY_CLI_NO_TELEMETRY": "1", "SENTRY_CLI_NO_UPDATE_CHECK": "1", "DATADOG_SITE": "localhost",
    }


def run_pipeline(block, server, client, folder):
    """Runs the steps that a block uses, with the program that they install. Returns the result of the last step."""
    release = pipelines.Release(client, folder)
    variables = {"PATH": os.environ["PATH"], "UNSLIDE_RELEASES": release.url, "UNSLIDE_SIGNATURE": "none"}
    text = "\n".join(block.lines)
    steps = pipelines.steps(text, server.key, server.url)
    if pipelines.COMPONENT.search(text):
        variables |= {"UNSLIDE_URL": server.url, "UNSLIDE_API_KEY": server.key}
    done = pipelines.run_steps(steps, variables, folder, BLOCK_SECONDS)
    if done.status == 0 and pipelines.COMPONENT.search(text):
        release.change_installer()
        if pipelines.run_steps(steps, variables, folder, BLOCK_SECONDS).status == 0:
            return clients.Result("no refusal", "a changed install.sh was run")
    return done


def run_block(block, server, arguments, folder):
    """Runs a block. Returns an empty text, or why it failed."""
    ids = write_build(arguments.demo, folder)
    if pipelines.is_pipeline("\n".join(block.lines)):
        done = run_pipeline(block, server, client_program(arguments.unslide), folder)
    else:
        variables = environment(server, os.path.abspath(arguments.clients), folder)
        done = clients.run(["sh", "-e", "-c", block.script()], variables, folder, BLOCK_SECONDS)
    if done.reports_failure():
        return f"{done.status} {done.text}"
    if block.mark == "upload":
        return Api(server.url, server.key).wait_ready(ids)
    return ""


def client_program(program):
    """Returns the program for build machines, which is built beside the other."""
    return os.path.join(os.path.dirname(os.path.abspath(program)), "unslide-client")


def lacking_programs(block, arguments, path):
    """Returns what a block needs that is not there."""
    lacking = [program for program in block.needs if shutil.which(program, path=path) is None]
    if pipelines.is_pipeline("\n".join(block.lines)) and not os.path.exists(client_program(arguments.unslide)):
        lacking.append("unslide-client beside unslide")
    return lacking


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("unslide", "demo", "clients"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("pages", nargs="+")
    arguments = parser.parse_args()
    blocks = [block for page in arguments.pages for block in read_blocks(page) if arguments.only in block.name]
    lab = tempfile.mkdtemp(prefix="unslide-pages-")
    # PostgreSQL runs as another user if this is root.
    os.chmod(lab, 0o755)
    counts = {"pass": 0, "skip": 0, "FAIL": 0}
    server = Server(arguments.unslide, lab)
    try:
        for block in blocks:
            folder = tempfile.mkdtemp(dir=lab)
            path = environment(server, os.path.abspath(arguments.clients), folder)["PATH"]
            lacking = lacking_programs(block, arguments, path)
            reason = f"no {lacking[0]}" if lacking else run_block(block, server, arguments, folder)
            outcome = "skip" if lacking else "FAIL" if reason else "pass"
            counts[outcome] += 1
            print(f"{outcome}  {block.name}{': ' if reason else ''}{' | '.join(reason.strip().splitlines())[-900:]}", flush=True)
    finally:
        server.stop()
        shutil.rmtree(lab, ignore_errors=True)
    print(f"check-ci-pages: {counts['pass']} passed, {counts['skip']} left out, {counts['FAIL']} failed")
    sys.exit(0 if counts["pass"] and not counts["FAIL"] else 1)


if __name__ == "__main__":
    main()
