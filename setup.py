"""Builds the compiled modules: every ``_*.pyx`` under ``src``. Each is optional: without a C compiler the Python
twins run instead.

``EVERLOG_ONLY=everlog.jlog._walk python setup.py build_ext --inplace`` builds one of them.
``EVERLOG_NO_EXTENSIONS=1`` builds none.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

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
    modules: list[Extension] = cythonize(found, include_path=[str(SOURCE)], language_level=3, show_all_warnings=False)
    for module in modules:
        module.optional = True  # cythonize does not carry it over
    return modules


setup(ext_modules=extensions())
