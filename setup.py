"""Builds the compiled modules: every ``_*.pyx`` under ``src``, all of them or none: without a C compiler the Python
twins run instead, and a twin does not work together with a compiled module.

``EVERLOG_ONLY=everlog.jlog.reading._walk python setup.py build_ext --inplace`` builds one of them,
``EVERLOG_NO_EXTENSIONS=1`` none.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

if sys.platform == "win32":
    sys.exit("everlog does not run on Windows: it needs pread and fcntl locks (use Linux, macOS or WSL)")

SOURCE = Path("src")
CODE = (".py", ".pyi", ".pyx", ".pxd", ".pxi")


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
        found,
        nthreads=os.cpu_count() or 1,
        include_path=[str(SOURCE)],
        language_level=3,
        show_all_warnings=False,
        quiet=True,  # errors are told all the same
    )
    for module in modules:
        module.optional = True  # cythonize does not carry it over
    return modules


def stale(folder: Path) -> list[Path]:
    """Compiled modules in a folder, and the C code that they were made of, whose source has moved or is gone: they
    would still be imported."""
    made = (path for path in folder.rglob("_*") if path.suffix in (".so", ".c"))
    return sorted(path for path in made if not path.with_name(path.name.partition(".")[0] + ".pyx").exists())


def is_current(module: Path, sources: list[str]) -> bool:
    """Whether a module was made of these sources: one of before is still there where they don't compile."""
    return module.exists() and all(os.stat(source).st_mtime <= module.stat().st_mtime for source in sources)


class CurrentModules(build_py):
    """Takes modules out of the build's folder that are sources no more: a wheel would have them."""

    def run(self) -> None:
        """Copy, then look at what is there."""
        super().run()
        if self.editable_mode:
            return
        current = {Path(name) for name in self.get_outputs(include_bytecode=False)}
        folder = Path(self.build_lib)
        for path in [path for path in folder.rglob("*.p*") if path.suffix in CODE and path not in current]:
            path.unlink()
        for path in stale(folder):
            path.unlink()


class AllOrNone(build_ext):
    """Builds on all cores: all modules, or none where none can be built. In the tree a source that does not compile is
    an error, and what has no source is removed."""

    in_tree = False

    def finalize_options(self) -> None:
        """As many compilers at once as there are cores."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        """Build; setuptools copies what was built into the tree."""
        self.in_tree = bool(self.inplace)  # which is not set while it builds
        for path in stale(SOURCE) if self.in_tree else ():
            self.warn(f"{path} is removed: its source is gone")
            path.unlink()
        super().run()

    def build_extensions(self) -> None:
        """Compile, then look at what is there."""
        super().build_extensions()
        built = {module.name: Path(self.get_ext_fullpath(module.name)) for module in self.extensions}
        missing = [module.name for module in self.extensions if not is_current(built[module.name], module.sources)]
        if not missing:
            return
        if self.in_tree and (len(missing) < len(built) or os.environ.get("EVERLOG_ONLY")):
            raise CompileError(f"not built: {', '.join(missing)}")
        for name, path in built.items():
            path.unlink(missing_ok=True)
            if self.in_tree:
                (SOURCE / self.get_ext_filename(name)).unlink(missing_ok=True)
        self.warn(
            "everlog is installed without its compiled modules: is there a C compiler, are there Python's headers?"
        )


# Where processes are not forked, those that Cython starts import this file, too.
if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone, "build_py": CurrentModules})
