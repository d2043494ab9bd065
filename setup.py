"""Compiles the hot modules with mypyc; everything else about the distribution is in setup.cfg.

Where compiling is not possible (no C compiler, no mypyc) the install goes on in pure Python: the same files are
interpreted, slower but with the same behaviour. `ARTEMIS_PY_PURE=1` asks for that.
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, SetupError


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


def hot_extensions() -> list[Extension]:
    """The hot modules as one group, so that calls between them are C calls; empty if they stay interpreted."""
    if os.environ.get("ARTEMIS_PY_PURE", "0") not in ("", "0"):
        return []
    paths = hot_modules()
    os.environ["MYPYPATH"] = "protocols"
    try:
        from mypyc.build import mypycify

        # No configuration file: strictness is checked by tox, here only what the compiler needs.
        options = ["--config-file=", "--explicit-package-bases"]
        extensions: list[Extension] = mypycify(options + paths, group_name="artemis_py")
    except (ImportError, SystemExit) as error:
        print(f"artemis_py: mypyc cannot compile here, installing pure Python: {error}", file=sys.stderr)
        return []
    return extensions


class BuildAllOrNothing(build_ext):
    """A group compiled in part fails on import, so one failure takes the whole group back to pure Python."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except (BaseError, CCompilerError, OSError) as error:
            print(f"artemis_py: compiling failed, installing pure Python: {error}", file=sys.stderr)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=hot_extensions(), cmdclass={"build_ext": BuildAllOrNothing})
