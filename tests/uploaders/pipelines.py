"""The steps of the action for GitHub and of the component for GitLab, run as their systems run them, and a release to install from."""
import functools
import http.server
import os
import re
import shutil
import subprocess
import textwrap
import threading

import clients

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ACTION = re.compile(r"^ *- uses: unslide/unslide/(?P<file>\S+)@v(?P<version>\S+)$", re.M)
COMPONENT = re.compile(r"^ *- remote: https://raw\.githubusercontent\.com/unslide/unslide/v(?P<version>[^/]+)/(?P<file>\S+)$", re.M)
# In place of the address that the page has.
EXAMPLE_URL = "https://crashes.example.com"


class Step:
    """A script with the variables of its own."""

    def __init__(self, script, variables, shell):
        self.script, self.variables, self.shell = script, variables, shell


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as opened:
        return opened.read()


def program_version():
    return re.search(r'^\[workspace\.package\](?:\n[^\[].*)*?\nversion = "(.*)"$', read("Cargo.toml"), re.M)[1]


def is_pipeline(text):
    return bool(ACTION.search(text) or COMPONENT.search(text))


def pairs(text):
    """Returns the lines `name: value` of a text."""
    return {name: value.strip("'\"") for name, value in re.findall(r"^ *([\w-]+): (.+)$", text, re.M)}


def section(text, name):
    """Returns the lines that are deeper than the first one with this name."""
    found = re.search(rf"^( *){name}:(?: \|)?\n((?:\1 +.*\n|\n)+)", text + "\n", re.M)
    return textwrap.dedent(found[2]) if found else ""


def defaults(text):
    """Returns the defaults of inputs."""
    return {name: value for name, value in re.findall(r"^ *([\w-]+):\n(?: +description: .*\n)?(?: +required: .*\n)? +default: (\S+)$", text, re.M)}


def steps(text, key, url):
    """Returns the steps that a page's use of the action or the component runs."""
    used = ACTION.search(text) or COMPONENT.search(text)
    if used["version"] != program_version():
        raise ValueError(f"the page uses version {used['version']}, and this is {program_version()}")
    given = {name: value.replace(EXAMPLE_URL, url).replace("${{ secrets.UNSLIDE_API_KEY }}", key)
             for name, value in pairs(section(text, "with") or section(text, "inputs")).items()}
    if ACTION.search(text):
        action = read(os.path.join(used["file"], "action.yml"))
        return action_steps(action, defaults(action) | given)
    component = read(used["file"])
    return component_steps(component, defaults(component) | given)


def action_steps(text, inputs):
    # As `shell: bash` is run.
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    fill = functools.partial(re.sub, r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]])
    parts = re.split(r"^    - name: .*\n", text, flags=re.M)[1:]
    if text.count("shell: bash\n") != len(parts):
        raise ValueError("a step of the action is not for bash")
    return [Step(section(part, "run"), pairs(fill(section(part, "env"))), shell) for part in parts]


def component_steps(text, inputs):
    job = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: inputs[found[1]], text.split("\n---\n")[1])
    lines = re.findall(r"^- (.*)$", section(job, "script"), re.M)
    return [Step("\n".join(lines), pairs(section(job, "variables")), ["sh", "-e", "-c"])]


def run_steps(found, variables, folder, timeout):
    """Runs steps until one fails. Returns the result of the last one."""
    temporary = os.path.join(folder, "runner")
    os.makedirs(temporary, exist_ok=True)
    paths = os.path.join(temporary, "paths")
    open(paths, "w", encoding="utf-8").close()
    github = {"GITHUB_ACTION_PATH": os.path.join(TOP, "deploy", "github"), "GITHUB_PATH": paths, "RUNNER_TEMP": temporary}
    for step in found:
        with open(paths, encoding="utf-8") as opened:
            path = os.pathsep.join([*reversed(opened.read().split()), variables["PATH"]])
        done = clients.run([*step.shell, step.script], {**variables, **github, **step.variables, "PATH": path}, folder, timeout)
        if done.status != 0:
            break
    return done


class Release:
    """A release of the program for build machines, on a port of this machine."""

    def __init__(self, client, lab):
        root = os.path.join(lab, "releases")
        self.folder = os.path.join(root, "download", "v" + program_version())
        script = os.path.join(TOP, "scripts", "release")
        for arguments in (["--program", client, "unslide-client", self.folder], ["sums", self.folder]):
            subprocess.run([script, *arguments], check=True, stdout=subprocess.DEVNULL)
        shutil.copy(os.path.join(TOP, "deploy", "install.sh"), self.folder)
        handler = functools.partial(Quiet, directory=root)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def change_installer(self):
        with open(os.path.join(self.folder, "install.sh"), "a", encoding="utf-8") as opened:
            opened.write("# changed\n")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass
