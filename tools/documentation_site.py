"""The documentation as a static site: `make site`.

The pages are those of docs/ and a few of the repository's root, as they are. They are put below
`target/site/source` in the same places, so that a link between two of them works in the site as it
does on the code host. What the code knows is added there: commands and their options, the Python
API, the figures of the gallery, which its commands draw, and the outputs of notebooks, which it
executes. `docs/index.md` is the navigation.

Any warning, such as a link that leads nowhere or a page that the navigation lacks, is an error.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import anabranch
from anabranch import cli, lab
from anabranch.cli.app import app
from anabranch.errors import AnabranchError

ROOT = Path(__file__).parent.parent
ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORY = re.compile(r"^\| `#([\w-]+)` \| (.+?) \|", re.MULTILINE)
FIGURE = re.compile(r"\]\((gallery/[^)]+)\)")

SETTINGS: dict[str, Any] = {
    "project": "Anabranch",
    "release": anabranch.__version__,
    "html_title": f"Anabranch {anabranch.__version__}",
    "html_theme": "furo",
    "extensions": ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"],
    # Anchors as the code host makes them from headings.
    "myst_heading_anchors": 4,
    "nb_execution_mode": "force",
    "nb_execution_raise_on_error": True,
    "nb_ipywidgets_js": {},  # it would be loaded from another host
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "autodoc_member_order": "bysource",
    "autodoc_preserve_defaults": True,
    "default_role": "literal",  # a docstring's single backquotes
    "toc_object_entries": False,
}

DRESS: dict[str, Any] = {
    "html_static_path": ["_static"],
    "html_css_files": ["site.css"],
    "html_favicon": "docs/icon.svg",  # without one, browsers ask the server for a file of theirs
}
"""How the pages look: what only HTML needs, from files that `stage` puts there."""


def main() -> None:
    """Build the site."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where source and html go")
    parser.add_argument("--check", action="store_true", help="look for warnings, and write no html")
    options = parser.parse_args()
    source = options.folder.resolve() / "source"
    for old in (source, source.parent / "doctrees"):
        shutil.rmtree(old, ignore_errors=True)
    stage(source)
    html = source.parent / "html"
    if options.check:
        blank_gallery(source)
        SETTINGS["nb_execution_mode"] = "off"
        build(source, "dummy")
    else:
        draw_gallery(source)
        shutil.rmtree(html, ignore_errors=True)
        add_lab(source, html)
        calm_kernels(source.parent / "ipython")
        build(source, "html")
        print(f"wrote {options.folder / 'html' / 'index.html'}")


def stage(source: Path) -> None:
    """Copies the pages and what they link to, each to its own place, and adds what is generated."""
    shutil.copytree(ROOT / "docs", source / "docs")
    shutil.copy(ROOT / "README.md", source / "index.md")
    (source / "_static").mkdir()
    shutil.copy(Path(__file__).with_suffix(".css"), source / "_static" / "site.css")
    sections = navigation((source / "docs" / "index.md").read_text("utf-8"))
    named = {"index", *(page for _, entries in sections for _, page in entries)}
    pages = [source / "index.md", *(source / "docs").rglob("*.md")]
    for page in pages:  # it grows
        pages += copy_targets(page, source)
        name = str(page.relative_to(source).with_suffix(""))
        if not name.startswith("docs/") and name not in named:
            page.write_text(f"---\norphan: true\n---\n{page.read_text('utf-8')}", "utf-8")
    for name, text in (
        ("index.md", toctrees(sections)),
        ("docs/command-line.md", commands()),
        ("docs/python.md", python_api()),
    ):
        with (source / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


def copy_targets(page: Path, source: Path) -> list[Path]:
    """Copies what `page` links to outside of docs/; those of them that are pages.

    A link to a folder becomes its text, as the site has no folders.
    """

    def without_folders(link: re.Match[str]) -> str:
        goal = page.parent / link[2]
        folder = (ROOT / os.path.relpath(goal, source)).is_dir()
        return link[1] if folder else link[0]

    text = re.sub(r"\[([^\[\]]+)\]\(([^)#:\s]+)\)", without_folders, page.read_text("utf-8"))
    page.write_text(text, "utf-8")
    new = []
    for target in LINK.findall(text):
        goal = Path(os.path.normpath(page.parent / target))
        if ":" in target or goal.exists() or not goal.is_relative_to(source):
            continue
        original = ROOT / goal.relative_to(source)
        if original.is_file():  # Otherwise Sphinx will say so.
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(original, goal)
            new += [goal] * (goal.suffix == ".md")
    return new


def navigation(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The sections of docs/index.md, each with its entries: a title, and a page from the root."""
    sections = []
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        entries = [
            (title, os.path.normpath(Path("docs", target).with_suffix("")))
            for title, target in ENTRY.findall(body)
        ]
        sections.append((heading, entries))
    return sections


def toctrees(sections: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """The navigation in Sphinx's form."""
    trees = []
    for heading, entries in (("", [("Overview", "docs/index")]), *sections):
        options = [":hidden:"] + ([f":caption: {heading}"] if heading else [])
        lines = [f"{title} <{page}>" for title, page in entries]
        trees += ["```{toctree}", *options, *lines, "```", ""]
    return "\n".join(trees)


def commands() -> str:
    """Every command with its arguments and options; the import of `cli` has added them."""
    text = app.generate_docs(output_format="markdown", include_hidden=False)
    return text[text.index("\n## anabranch ") :]


def python_api() -> str:
    """What `anabranch` and `anabranch.stats` hand on, for autodoc."""
    lines = []
    for module in (anabranch, anabranch.stats):
        for name in module.__all__:
            thing = getattr(module, name)
            full = f"{module.__name__}.{name}"
            if isinstance(thing, type):
                lines += [f".. autoclass:: {full}", "   :members:", ""]
            elif callable(thing):
                lines += [f".. autofunction:: {full}", ""]
    return "\n".join(("```{eval-rst}", *lines, "```", ""))


def add_lab(source: Path, html: Path) -> None:
    """Puts the lab into the site, with its stories; leaves it out if it is not built.

    The table of stories has links to them. Where a page tells its reader to play one, it is there,
    and begins when it is opened. Like the lab itself, it needs a server: browsers do not load
    WebAssembly from files.
    """
    try:
        lab.write_site(html / "lab")
    except AnabranchError as error:
        print(f"the site has no lab: {error}", file=sys.stderr)
        return
    page = source / "docs" / "lab.md"
    text = page.read_text("utf-8")
    for other in (source / "docs").glob("*.md"):
        told = other.read_text("utf-8")
        other.write_text(with_stories(told, dict(STORY.findall(text))), "utf-8")
    linked = r'| <a href="../lab/index.html#\1"><code>#\1</code></a> | \2 |'
    page.write_text(STORY.sub(linked, text), "utf-8")


def with_stories(text: str, titles: dict[str, str]) -> str:
    """A page with the stories (name: title) behind each paragraph that names them and the lab."""
    parts = []
    for paragraph in text.split("\n\n"):
        parts.append(paragraph)
        if "](lab.md#stories)" in paragraph:
            words = " ".join(paragraph.split())
            parts += [
                f'<details class="story"><summary>Play it here: {title}</summary>'
                f'<iframe src="../lab/index.html#{name}" title="{title}" loading="lazy"></iframe>'
                "</details>"
                for name, title in titles.items()
                if f'"{title}"' in words
            ]
    return "\n\n".join(parts)


def draw_gallery(source: Path) -> None:
    """Runs the gallery's commands where its figures are looked for."""
    os.environ["MPLBACKEND"] = "Agg"
    docs = source / "docs"
    (docs / "scenarios").symlink_to(ROOT / "scenarios")
    with contextlib.chdir(docs), quiet():
        for kind, body in BLOCK.findall((docs / "gallery.md").read_text("utf-8")):
            if kind == "python":
                exec(compile(body, "docs/gallery.md", "exec"), {})
                continue
            for line in body.splitlines():
                program, *words = shlex.split(line)
                if program != "anabranch" or cli.main(words) != 0:
                    sys.exit(f"docs/gallery.md: this failed: {line}")
    (docs / "scenarios").unlink()


def blank_gallery(source: Path) -> None:
    """Empty files in place of the gallery's figures, for a check of all else."""
    docs = source / "docs"
    (docs / "gallery").mkdir()
    for name in FIGURE.findall((docs / "gallery.md").read_text("utf-8")):
        (docs / name).touch()


def calm_kernels(folder: Path) -> None:
    """Has the notebooks' kernels print errors alone.

    They warn that they talk over TCP; it is the loopback address of this machine.
    """
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        'c.IPKernelApp.log_level = "ERROR"\n', "utf-8"
    )
    os.environ["IPYTHONDIR"] = str(folder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What commands print is no part of the build's output."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def build(source: Path, builder: str) -> None:
    """Has Sphinx make the pages; a warning ends it with exit code 1."""
    sphinx = Sphinx(
        srcdir=source,
        confdir=None,
        outdir=source.parent / builder,
        doctreedir=source.parent / "doctrees",
        buildername=builder,
        confoverrides=SETTINGS | (DRESS if builder == "html" else {}),
        status=None,
        warningiserror=True,
        keep_going=True,
    )
    for name in ("csv", "mermaid"):  # Pygments has none.
        sphinx.add_lexer(name, TextLexer)
    sphinx.build()
    if sphinx.statuscode:
        sys.exit(sphinx.statuscode)


if __name__ == "__main__":
    main()
