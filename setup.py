"""Compiles the hot modules with mypyc, and writes the page on the index; everything else is in setup.cfg.

Where compiling is not possible (no C compiler, no headers of Python, no mypyc) the install goes on in pure Python: the
same files are interpreted, slower but with the same behaviour. `ARTEMIS_PY_PURE=1` asks for that. pip shows what is
printed here with `-v`.
"""

import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, SetupError

# Steps of an install that build nothing. Each is a run of this file, and mypyc takes a minute to write its C code.
WITHOUT_EXTENSIONS = {"dist_info", "egg_info", "sdist", "--long-description", "--name", "--version"}
# Nothing outside the group calls its C functions. Hidden, they are called directly; otherwise each call goes through a
# table, because another library might replace the function.
HIDDEN = "-fvisibility=hidden"
# Compilers side by side: one takes up to 120 MB, and a container may have the memory for two of a machine's many cores.
MOST_COMPILERS = 8


def say(text: str) -> None:
    """Print a line for whoever watches the build."""
    print(f"artemis-py-broker: {text}", file=sys.stderr, flush=True)


def hot_modules() -> list[str]:
    """The files to compile, as pyproject.toml names them. Raises SetupError for a name that is no module."""
    with open("pyproject.toml", "rb") as file:
        packages = tomllib.load(file)["tool"]["artemis_py"]["compiled"]
    found: list[str] = []
    for package, names in packages.items():
        for name in names:
            paths = sorted(path for path in Path(package).glob(f"{name}.py") if path.name != "__init__.py")
            if not paths:
                raise SetupError(f"pyproject.toml: tool.artemis_py.compiled: {package}/{name}.py does not exist")
            found += map(str, paths)
    return found


def why_not() -> str | None:
    """Return why nothing can be compiled here; None if it can.

    Compiles a file of one line: that takes a moment, and many machines have a compiler but not the headers of Python.
    """
    # Python 3.12 has no distutils; this one comes with setuptools.
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler

    with TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return 0; }\n", encoding="ascii")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            include = [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
            compiler.compile([str(source)], output_dir=folder, include_dirs=include)
        except (BaseError, CCompilerError, OSError) as error:
            return f"no C compiler that finds Python.h ({error})"
    return None


def hot_extensions() -> list[Extension]:
    """The hot modules as one group, so that calls between them are C calls; empty if they stay interpreted."""
    paths = hot_modules()
    if WITHOUT_EXTENSIONS & set(sys.argv):
        return []
    if os.environ.get("ARTEMIS_PY_PURE", "0") not in ("", "0"):
        say("installing pure Python, as ARTEMIS_PY_PURE asks for")
        return []
    reason = why_not()
    if reason is not None:
        say(f"{reason}: installing pure Python, which is slower and behaves the same")
        return []
    os.environ["MYPYPATH"] = "protocols"
    try:
        from mypyc.build import mypycify

        say(f"compiling {len(paths)} modules, which takes some minutes; ARTEMIS_PY_PURE=1 installs pure Python instead")
        # No configuration file: strictness is checked by tox, here only what the compiler needs.
        options = ["--config-file=", "--explicit-package-bases"]
        # Level 3, the default, takes twice as long to compile, and what it makes is no faster.
        extensions: list[Extension] = mypycify(
            options + paths, group_name="artemis_py", opt_level="2", debug_level="0", multi_file=True
        )
    except (ImportError, SystemExit) as error:
        say(f"mypyc cannot compile here, installing pure Python: {error}")
        return []
    if sys.platform != "win32":
        for extension in extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, HIDDEN]
    return extensions


class BuildAllOrNothing(build_ext):
    """A group compiled in part fails on import, so one failure takes the whole group back to pure Python."""

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile

        def compile_side_by_side(sources: Sequence[str], *args: object, **options: object) -> list[str]:
            """Each module is a C file; `build_ext --parallel` means extensions, and these are files of one."""
            with ThreadPoolExecutor(self.parallel or min(os.cpu_count() or 1, MOST_COMPILERS)) as pool:
                compiled = pool.map(lambda source: compile_in_turn([source], *args, **options), sources)
                return [path for paths in compiled for path in paths]

        self.compiler.compile = compile_side_by_side
        try:
            super().build_extensions()
        except (BaseError, CCompilerError, OSError) as error:
            say(f"compiling failed, installing pure Python: {error}")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


def long_description() -> str:
    """README for a page that is not beside our files: a link to one of them gets the address of the repository.

    As long as setup.cfg has no `url`, such a link becomes the name of the file, which the source distribution holds.
    """
    config = ConfigParser()
    config.read("setup.cfg", encoding="utf-8")
    home = config.get("metadata", "url", fallback="").rstrip("/")

    def absolute(match: re.Match[str]) -> str:
        text, path = match.groups()
        if home:
            return f"[{text}]({home}/blob/main/{path})"
        return f"`{path}`" if text == path else f"{text} (`{path}`)"

    readme = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)", absolute, readme)


setup(
    ext_modules=hot_extensions(),
    cmdclass={"build_ext": BuildAllOrNothing},
    long_description=long_description(),
)
