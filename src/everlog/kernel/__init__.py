"""What all hot loops share. Each compiled module has a readable twin in plain Python, under the same tests.

``load`` picks the compiled module where it was built, else the twin, with one warning. ``EVERLOG_PURE_PYTHON=1``
asks for the twins.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType

PURE_PYTHON = os.environ.get("EVERLOG_PURE_PYTHON", "") not in ("", "0")
_warned = False


def load(compiled: str, twin: str) -> ModuleType:
    """The module ``compiled``, or ``twin`` where it can't be imported."""
    global _warned
    if not PURE_PYTHON:
        try:
            return importlib.import_module(compiled)
        except ImportError as error:
            if not _warned:
                _warned = True
                warnings.warn(
                    f"everlog runs without its compiled modules ({error}): results are the same, bulk reading is some "
                    "50 times slower; reinstall with a C compiler present",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return importlib.import_module(twin)
