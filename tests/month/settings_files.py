"""Settings files of cells, for the commands that an operator runs for several (docs/cells.md#commands-for-all-cells)."""

import json
import tomllib
from pathlib import Path

from servers import own_folder, write_private


def write_all(product, login: str) -> Path:
    """Writes a file for each cell with a login's secrets of now, and returns that of the first, which names the others. The login `migrate` is
    that of the owner, also at the directory."""
    folder = own_folder(product.folder / f"settings-{login}", 0o700)
    first, files = product.first, {cell.name: folder / f"{cell.name}.toml" for cell in product.cells}
    directory = product.settings("door")["UNSLIDE_CELLS__DIRECTORY"]
    if login == "migrate":
        directory = product.postgres.url("postgres", first.database)
    for cell in product.cells:
        others = {name: str(file) for name, file in files.items() if cell is first and name != first.name}
        settings = product.settings(login, cell) | {"UNSLIDE_CELLS__NAME": cell.name, "UNSLIDE_CELLS__DIRECTORY": directory}
        sections = tomllib.loads(product.config.read_text())
        for variable, text in settings.items():
            *path, key = variable.removeprefix("UNSLIDE_").lower().split("__")
            table = sections
            for name in path:
                table = table.setdefault(name, {})
            # UNSLIDE_CONFIG is in no section.
            if path:
                table[key] = to_value(text)
        sections["cells"]["files"] = others
        write_private(files[cell.name], "".join(f"{name} = {to_toml(section)}\n" for name, section in sections.items()))
    return files[first.name]


def to_value(text: str):
    """Returns the value of a variable: a list, a number, a truth or a text."""
    return json.loads(text) if text in ("true", "false") or text[:1] == "[" or text.isdigit() and len(text) < 10 else text


def to_toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {to_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
