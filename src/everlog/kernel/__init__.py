"""The hot loops' shared code. Each compiled module has a readable twin in plain Python that passes the same tests.

``load`` imports the compiled module, or the twin, with one warning, if it was not built. ``EVERLOG_PURE_PYTHON=1``
selects the twins.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType

PURE_PYTHON = os.environ.get("EVERLOG_PURE_PYTHON", "") not in ("", "0")
_warned = False


def load(compiled: str, twin: str) -> ModuleType:
    """Import the module ``compiled``, or ``twin`` if that fails."""
    global _warned
    if not PURE_PYTHON:
        try:
            return importlib.import_module(compiled)
        except ImportError as error:
            if not _warned:
                _warned = True
                warnings.warn(
                    f"everlog runs without its compiled modules ({error}): results are the same, but bulk reading is "
                    "about 50 times slower; reinstall with a C compiler present",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return importlib.import_module(twin)
