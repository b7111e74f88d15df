"""docs/imports.md: who imports whom in the Rust crates, drawn from their sources.

`python tools/imports_page.py docs/imports.md` writes the page, `--check` before the file fails when
it is not what would be written, and `--circles FOLDER` prints the circles of files in a checkout.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import marked

Module = tuple[str, ...]
Graph = dict[str, set[str]]

ROOT = Path(__file__).resolve().parent.parent
_BEGIN = "<!-- generated: tools/imports_page.py -->"
_END = "<!-- end of generated -->"
# The crates whose modules are drawn, each with what the picture is called.
_DRAWN = {
    "anabranch-transport": "The protocols",
    "anabranch": "Links, applications, simulation, scenarios",
}


def crates(root: Path) -> dict[str, dict[Module, str]]:
    """The sources of every crate by module, without comments and tests."""
    folders = sorted(path.parent for path in root.glob("crates/*/src/lib.rs"))
    return {folder.parent.name: _sources(folder) for folder in folders}


def _sources(folder: Path) -> dict[Module, str]:
    found: dict[Module, str] = {}

    def read(file: Path, below: Path, module: Module) -> None:
        text = _without_tests(file.read_text("utf-8"))
        found[module] = text
        for name in re.findall(r"^(?:pub(?:\(\w+\))? )?mod (\w+);", text, re.MULTILINE):
            flat = below / f"{name}.rs"
            read(flat if flat.exists() else below / name / "mod.rs", below / name, (*module, name))

    read(folder / "lib.rs", folder, ())
    return found


def _without_tests(text: str) -> str:
    """The source without comments and without tests, which stand at the end or elsewhere."""
    kept = []
    lines = iter(text.splitlines())
    for line in lines:
        if line == "#[cfg(test)]":
            item = next(lines, "")
            if item.startswith("mod ") and item.endswith("{"):
                break
            if not item.endswith(";"):
                kept.append(item)
        elif line == "#[cfg(doc)]":
            next(lines, "")
        else:
            kept.append(line.split("//")[0])
    return "\n".join(kept)


def _paths(text: str) -> Iterator[Module]:
    """The paths that the text begins with: one, or one for each member of a group in braces."""
    if text.startswith("{"):
        for member in _members(text):
            yield from _paths(member.strip())
        return
    name = re.match(r"\w*", text)
    assert name is not None
    rest = text[name.end() :]
    if rest.startswith("::"):
        for path in _paths(rest[2:].lstrip()):
            yield (name[0], *path)
    else:
        yield (name[0],)


def _members(group: str) -> Iterator[str]:
    depth, start = 0, 1
    for at, character in enumerate(group):
        depth += (character == "{") - (character == "}")
        if depth == 0 or (depth == 1 and character == ","):
            yield group[start:at]
            start = at + 1
        if depth == 0:
            return


def _absolute(module: Module, path: Module) -> Module:
    if path[0] == "crate":
        return path[1:]
    ups = next((index for index, name in enumerate(path) if name != "super"), len(path))
    return module[: len(module) - ups] + path[ups:]


def _imports(module: Module, text: str) -> Iterator[Module]:
    for start in re.finditer(r"(?<![:\w])(?:crate|super)::", text):
        for path in _paths(text[start.start() :]):
            yield _absolute(module, path)


def files(sources: Mapping[Module, str]) -> Graph:
    """For each file of a crate, named by its module, the others that it imports."""
    handed: dict[Module, Module] = {}
    for module, text in sources.items():
        uses = re.findall(r"\bpub(?:\([\w: ]+\))? use ([^;]+);", text)
        for path in (path for use in uses for path in _paths(use)):
            if path[0] in ("crate", "super"):
                target = _absolute(module, path)
            elif (*module, path[0]) in sources:
                target = module + path
            else:
                continue
            handed[(*module, target[-1])] = target

    def home(path: Module) -> Module:
        depth = 0
        while depth < len(path):
            if path[: depth + 1] in sources:
                depth += 1
            elif path[: depth + 1] in handed:
                path, depth = handed[path[: depth + 1]] + path[depth + 1 :], 0
            else:
                break
        return path[:depth]

    return {
        "/".join(module): {"/".join(home(path)) for path in _imports(module, text)}
        - {"/".join(module)}
        for module, text in sources.items()
    }


def modules(graph: Graph) -> Graph:
    """The same between the modules right below the crate."""
    found: Graph = {file.split("/")[0]: set() for file in graph if file}
    for file, imported in graph.items():
        if file:
            found[file.split("/")[0]] |= {other.split("/")[0] for other in imported if other}
    return {module: imported - {module} for module, imported in found.items()}


def reached(graph: Graph) -> Graph:
    """All that each leads to."""
    found: Graph = {}
    for start in graph:
        seen: set[str] = set()
        left = [start]
        while left:
            new = graph.get(left.pop(), set()) - seen
            seen |= new
            left += new
        found[start] = seen
    return found


def circles(graph: Graph) -> list[list[str]]:
    """The sets of those that lead to each other, largest first."""
    leads = reached(graph)
    found = {
        tuple(sorted(other for other in leads[start] if start in leads.get(other, set())))
        for start in graph
        if start in leads[start]
    }
    return sorted((list(circle) for circle in found), key=lambda circle: (-len(circle), circle))


def _picture(title: str, graph: Graph) -> str:
    """The arrows as a Mermaid flowchart, without those that follow from others."""
    leads = reached(graph)
    lines = ["```mermaid", "flowchart TB", f"  accTitle: {title}"]
    for module in sorted(graph):
        direct = {
            other
            for other in graph[module]
            if not any(other in leads[between] for between in graph[module] - {other})
        }
        lines.append("  " + (f"{module} --> {' & '.join(sorted(direct))}" if direct else module))
    return "\n".join([*lines, "```"])


def generated(root: Path) -> str:
    """The part of the page that follows from the sources."""
    sources = crates(root)
    pictures = [
        f"## {title}: `{name}`\n\n{_picture(title, modules(files(sources[name])))}"
        for name, title in _DRAWN.items()
    ]
    return "\n\n".join(pictures)


def page(text: str, root: Path) -> str:
    """The page with its generated part made anew."""
    return marked.replaced(text, _BEGIN, _END, generated(root))


def main(arguments: list[str]) -> int:
    """Runs the command; the exit code."""
    match arguments:
        case ["--circles", root]:
            for name, sources in crates(Path(root)).items():
                graph = files(sources)
                print(f"{name}: {len(graph)} files, circles of modules {circles(modules(graph))}")
                for circle in circles(graph):
                    print(f"  {len(circle)}: {' '.join(file or 'lib' for file in circle)}")
            return 0
        case ["--check", name]:
            text = Path(name).read_text("utf-8")
            if page(text, ROOT) == text:
                return 0
            print(f"{name} is not what the sources say: run `make docs`", file=sys.stderr)
            return 1
        case [name]:
            path = Path(name)
            path.write_text(page(path.read_text("utf-8"), ROOT), "utf-8")
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
