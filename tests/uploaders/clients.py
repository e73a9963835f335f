"""The clients: how each is started, and fresh dSYMs for it to upload."""
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import time
import uuid

LC_UUID = 0x1B
FAT_MAGIC = b"\xca\xfe\xba\xbe"
THIN_MAGIC = b"\xcf\xfa\xed\xfe"


class Target:
    """A server, a tenant in it, and the credential of each kind of client."""

    def __init__(self, base, tenant, app, key, sentry_token=None):
        self.base, self.tenant, self.app, self.key = base.rstrip("/"), tenant, app, key
        self.sentry_token = sentry_token or key

    def changed(self, **changes):
        other = Target.__new__(Target)
        other.__dict__.update(self.__dict__, **changes)
        return other


class Result:
    """The end of a client."""

    def __init__(self, status, text):
        self.status = status
        self.text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

    def reports_failure(self):
        """Returns True if the client said that something failed: datadog-ci ends with 0 after most failures."""
        words = r"Failed upload|have not been uploaded|Configuration error"
        return self.status != 0 or re.search(words, self.text) is not None


def run(arguments, environment, home, timeout):
    kept = {name: os.environ[name] for name in ("LANG", "TZ", "TMPDIR") if name in os.environ}
    environment = {**kept, "HOME": home, "NO_COLOR": "1", "CI": "1", "no_proxy": "*", **environment}
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=timeout,
                              env=environment, cwd=home, stdin=subprocess.DEVNULL)
        return Result(done.returncode, done.stdout + done.stderr)
    except subprocess.TimeoutExpired as expired:
        return Result("timeout", (expired.stdout or b"").decode(errors="replace"))


class Clients:
    """The clients in a folder that ./install made."""

    def __init__(self, folder, home):
        self.folder, self.home = os.path.abspath(folder), home
        os.makedirs(home, exist_ok=True)
        self.path = os.path.join(self.folder, "bin") + os.pathsep + os.environ.get("PATH", "")

    def list(self):
        """Returns the clients that are there: the function, the request with the bytes, and whether it takes archives."""
        def is_there(*parts):
            return os.path.exists(os.path.join(self.folder, *parts))
        has_tools = is_there("bin", "dwarfdump") and is_there("bin", "lipo")
        chunks = r"chunk-upload/$"
        return [client for client in [
            ("sentry-cli 3", lambda *a, **k: self.sentry_cli(3, *a, **k), chunks, True, is_there("sentry-3", "bin", "sentry-cli")),
            ("sentry-cli 2", lambda *a, **k: self.sentry_cli(2, *a, **k), chunks, True, is_there("sentry-2", "bin", "sentry-cli")),
            ("sentry 0", self.sentry, chunks, True, is_there("node_modules", ".bin", "sentry")),
            ("datadog-ci", self.datadog, r"^/api/v2/srcmap$", True, has_tools and is_there("node_modules", ".bin", "datadog-ci")),
            ("bugsnag-cli", self.bugsnag, r"^/dsym$", True, has_tools and is_there("bin", "bugsnag-cli")),
            ("posthog-cli", self.posthog, r"symbol_sets/[^/]*\.[^/]*$", False, has_tools and is_there("bin", "posthog-cli")),
            ("bugsnag-dsym-upload", self.bugsnag_curl, r"^/$", False, shutil.which("curl") is not None),
        ] if client[-1]]

    def sentry_cli(self, major, target, path, timeout=120, arguments=("--wait-for", "60"), only_token=False):
        command = [os.path.join(self.folder, f"sentry-{major}", "bin", "sentry-cli")]
        command += [] if only_token else ["--url", target.base]
        command += ["--auth-token", target.sentry_token, "debug-files", "upload", "--project", target.app]
        command += [] if only_token else ["--org", target.tenant]
        return run([*command, *arguments, path], {"PATH": self.path}, self.home, timeout)

    def sentry_maps(self, major, target, folder, release, dist):
        """Uploads main.jsbundle and its source map in a folder, as a build of React Native does."""
        command = [os.path.join(self.folder, f"sentry-{major}", "bin", "sentry-cli"), "--url", target.base]
        command += ["--auth-token", target.key, "sourcemaps", "upload", "--org", target.tenant, "--project", target.app]
        command += ["--release", release, "--dist", dist, "--wait"]
        command += [os.path.join(folder, name) for name in ("main.jsbundle", "main.jsbundle.map")]
        return run(command, {"PATH": self.path}, self.home, 120)

    def sentry(self, target, path, timeout=120, arguments=("--wait-for", "60"), only_token=False):
        # A home of its own: the client keeps a database of servers and tokens there, and runs would depend on each other.
        home = os.path.join(self.home, "sentry-" + uuid.uuid4().hex[:8])
        os.makedirs(home)
        environment = {"PATH": self.path, "SENTRY_URL": target.base, "SENTRY_AUTH_TOKEN": target.sentry_token,
                       "SENTRY_ORG": target.tenant, "SENTRY_PROJECT": target.app,
                       "SENTRY_CLI_NO_TELEMETRY": "1", "SENTRY_CLI_NO_UPDATE_CHECK": "1"}
        if only_token:
            del environment["SENTRY_ORG"]
        program = os.path.join(self.folder, "node_modules", ".bin", "sentry")
        return run(["node", program, "debug-files", "upload", *arguments, path], environment, home, timeout)

    def datadog(self, target, path, timeout=180):
        # After a failure the client asks https://api.<site>; this site keeps that on this machine.
        environment = {"PATH": self.path, "DATADOG_API_KEY": target.key, "DATADOG_SITE": "localhost",
                       "DATADOG_DSYM_INTAKE_URL": target.base}
        program = os.path.join(self.folder, "node_modules", ".bin", "datadog-ci")
        return run(["node", program, "dsyms", "upload", path], environment, self.home, timeout)

    def bugsnag(self, target, path, timeout=120):
        program = os.path.join(self.folder, "bin", "bugsnag-cli")
        command = [program, "upload", "xcode-build", "--upload-api-root-url", target.base, "--api-key", target.key,
                   "--project-root", "/src", path]
        return run(command, {"PATH": self.path}, self.home, timeout)

    def posthog(self, target, path, timeout=180):
        environment = {"PATH": self.path, "POSTHOG_CLI_HOST": target.base, "POSTHOG_CLI_API_KEY": "phx_" + target.key,
                       "POSTHOG_CLI_PROJECT_ID": "101"}
        program = os.path.join(self.folder, "bin", "posthog-cli")
        return run([program, "dsym", "upload", "--directory", path], environment, self.home, timeout)

    def bugsnag_curl(self, target, path, timeout=120):
        """Runs the curl call of bugsnag-dsym-upload for each DWARF file: the key comes after the file."""
        text, status = "", 0
        for file in sorted(dwarf_files(path)):
            form = ["-F", f"dsym=@{file}", "-F", "projectRoot=/src", "-F", f"apiKey={target.key}"]
            done = run(["curl", "-sS", "--fail", "--http1.1", *form, target.base + "/"], {"PATH": self.path}, self.home, timeout)
            status = status or done.status or int(done.text == "invalid apiKey")
            text += done.text + "\n"
        return Result(status, text)


def dwarf_files(folder):
    for parent, _, files in os.walk(folder):
        if parent.endswith(".dSYM/Contents/Resources/DWARF"):
            yield from (os.path.join(parent, file) for file in files)


def bundle_id(app, version, build, bundle="main.jsbundle"):
    """Returns the debug id of a JavaScript bundle of an app for iOS (docs/javascript.md#bundles)."""
    namespace = uuid.UUID("5c0a8d3e-9b1f-5e6a-8f27-3d4c1b7a6e90")
    return str(uuid.uuid5(namespace, "\n".join((app, "ios", version, build, bundle))))


CART = """int price(int count) {
  int one = 7;
  return one * count;
}

int total(int count) {
  return price(count) + 1;
}
"""


def build_dsym(folder):
    """Compiles a source file of its folder into a dSYM. Returns the debug id, the path and the address of a line of it."""
    source, program = os.path.join(folder, "cart.c"), os.path.join(folder, "cart")
    dwarf = os.path.join(folder, "cart.dSYM", "Contents", "Resources", "DWARF", "cart")
    os.makedirs(os.path.dirname(dwarf))
    with open(source, "w", encoding="utf-8") as opened:
        opened.write(CART)
    target = ["-target", "arm64-apple-ios14.0", "-g", "-O0", "-c", source, "-o", program + ".o"]
    subprocess.run(["clang-19", *target], check=True)
    linked = ["-arch", "arm64", "-platform_version", "ios", "14.0", "14.0", "-dylib", "-no_adhoc_codesign"]
    subprocess.run(["ld64.lld-19", *linked, "-undefined", "dynamic_lookup", "-o", program, program + ".o"], check=True)
    subprocess.run(["dsymutil-19", "-f", "-o", dwarf, program], check=True)
    lines = subprocess.run(["llvm-dwarfdump-19", "--debug-line", dwarf], check=True, capture_output=True, text=True).stdout
    address = int(re.search(r"^0x([0-9a-f]+) +3 +\d+ ", lines, re.M).group(1), 16)
    identity = subprocess.run(["llvm-dwarfdump-19", "--uuid", dwarf], check=True, capture_output=True, text=True).stdout
    return re.search(r"[0-9A-F-]{36}", identity).group(0).lower(), source, address


def crash_report(app, debug_id, address):
    """Returns a report in KSCrash's form whose only frame lies at an address of an image that is loaded at 4 GiB."""
    load = 1 << 32
    image = {"image_addr": load, "image_vmaddr": 0, "image_size": 1 << 20, "name": "/App.app/Frameworks/cart", "uuid": debug_id,
             "cpu_type": 16777228, "cpu_subtype": 0}
    contents = [{"instruction_addr": load + address}]
    thread = {"index": 0, "crashed": True, "backtrace": {"contents": contents}}
    crash = {"error": {"type": "signal", "signal": {"signal": 11}}, "threads": [thread]}
    report = {"id": str(uuid.uuid4()), "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return {"report": report, "system": {"CFBundleIdentifier": app, "cpu_arch": "arm64"}, "crash": crash, "binary_images": [image]}


def write_bundle(folder):
    """Writes a JavaScript bundle and its source map."""
    source_map = {"version": 3, "sources": ["a.js"], "sourcesContent": ["f()"], "names": ["f"], "mappings": "AAAAA"}
    with open(os.path.join(folder, "main.jsbundle"), "w", encoding="utf-8") as opened:
        opened.write("f();\n//# sourceMappingURL=main.jsbundle.map\n")
    with open(os.path.join(folder, "main.jsbundle.map"), "w", encoding="utf-8") as opened:
        json.dump(source_map, opened)


def with_new_uuids(data, salt):
    """Returns a Mach-O file with other UUIDs, and these. Other UUIDs make other hashes as well."""
    data, found = bytearray(data), []

    def renew(start):
        commands, = struct.unpack_from("<I", data, start + 16)
        at = start + 32
        for _ in range(commands):
            command, size = struct.unpack_from("<II", data, at)
            if command == LC_UUID:
                digest = hashlib.md5(bytes(data[at + 8:at + 24]) + salt).digest()
                new = uuid.UUID(bytes=digest, version=3)
                data[at + 8:at + 24] = new.bytes
                found.append(str(new))
            at += size

    if data[:4] == FAT_MAGIC:
        for index in range(struct.unpack_from(">I", data, 4)[0]):
            renew(struct.unpack_from(">I", data, 8 + 20 * index + 8)[0])
    else:
        renew(0)
    return bytes(data), found


def copy_fresh(fixtures, folder, names=("app", "kit"), padding=0):
    """Copies dSYMs with new UUIDs, and random bytes behind thin files. Returns the debug ids."""
    ids, salt = [], os.urandom(16)
    for name in names:
        shutil.copytree(os.path.join(fixtures, name + ".dSYM"), os.path.join(folder, name + ".dSYM"))
        for file in dwarf_files(os.path.join(folder, name + ".dSYM")):
            with open(file, "rb") as opened:
                data, found = with_new_uuids(opened.read(), salt)
            if data[:4] == THIN_MAGIC:
                data += os.urandom(padding)
            with open(file, "wb") as opened:
                opened.write(data)
            ids += found
    return ids
