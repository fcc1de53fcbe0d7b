"""Builds the compiled modules: every ``_*.pyx`` under ``src``, all of them or none: without a C compiler the Python
twins run instead, and a twin does not work together with a compiled module.

``EVERLOG_ONLY=everlog.jlog._walk python setup.py build_ext --inplace`` builds one of them,
``EVERLOG_NO_EXTENSIONS=1`` none.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if sys.platform == "win32":
    sys.exit("everlog does not run on Windows: it needs pread and fcntl locks (use Linux, macOS or WSL)")

SOURCE = Path("src")


def extensions() -> list[Extension]:
    if os.environ.get("EVERLOG_NO_EXTENSIONS"):
        return []
    from Cython.Build import cythonize

    only = os.environ.get("EVERLOG_ONLY")
    found = []
    for path in sorted(SOURCE.rglob("_*.pyx")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if only in (None, "", name):
            found.append(Extension(name, [str(path)], extra_compile_args=["-O3", "-g0"]))
    modules: list[Extension] = cythonize(
        found, nthreads=os.cpu_count() or 1, include_path=[str(SOURCE)], language_level=3, show_all_warnings=False
    )
    for module in modules:
        module.optional = True  # cythonize does not carry it over
    return modules


class AllOrNone(build_ext):
    """Builds on all cores; takes what was built away again when a module could not be."""

    def finalize_options(self) -> None:
        """As many compilers at once as there are cores."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Compile, then look at what is there."""
        super().build_extensions()
        built = [Path(self.get_ext_fullpath(module.name)) for module in self.extensions]
        if all(path.exists() for path in built):
            return
        for path in built:
            path.unlink(missing_ok=True)
        self.warn(
            "everlog is installed without its compiled modules: is there a C compiler, are there Python's headers?"
        )


# Where processes are not forked, those that Cython starts import this file, too.
if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
