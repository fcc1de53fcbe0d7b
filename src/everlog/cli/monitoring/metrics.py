"""``everlog metrics``: exposes stores as Prometheus metrics, once or over HTTP. Each family defines its own metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from everlog.cli.text import print_error, warn
from everlog.core.family.record import load
from everlog.errors import MissingDependency, UsageError
from everlog.stores import FAMILIES, family_of, storage_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

DEFAULT_LISTEN = "127.0.0.1:9464"
MAX_PORT = 65_535
LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")


@click.command
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, help="HOST:PORT to serve on; port 0 picks a free one."
)
@click.option("--once", is_flag=True, help="Print the metrics once to stdout instead.")
@click.option("--family", type=click.Choice(list(FAMILIES)), help="Treat each PATH as a store of this family.")
def metrics(paths: tuple[str, ...], listen: str, once: bool, family: str | None) -> None:
    """Serve the state of the drivers, archives and journals at PATH... to Prometheus. They are read at each scrape; one
    that can't be read is reported on stderr. Nothing is changed."""
    host, port = parse_listen(listen)
    registry = registry_of(paths, family)
    if once:
        from prometheus_client import generate_latest

        click.echo(generate_latest(registry).decode(), nl=False)
    else:
        serve(registry, host, port)


def parse_listen(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[IPv6]:PORT``, or a port on loopback. Raises :class:`UsageError`."""
    match = re.fullmatch(r"(?:(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]+)):)?([0-9]{1,5})", text)
    if match is None or int(match[3]) > MAX_PORT:
        raise UsageError("--listen", found=repr(text), expected=f"HOST:PORT, for example {DEFAULT_LISTEN}")
    return match[1] or match[2] or DEFAULT_LISTEN.partition(":")[0], int(match[3])


def registry_of(paths: tuple[str, ...], family: str | None) -> CollectorRegistry:
    """A registry with the collectors of all stores. Raises :class:`UsageError` for a family without metrics,
    :class:`NotAStore`, or :class:`MissingDependency`."""
    by_family: dict[str, list[str]] = {}
    for path in paths:
        name = family or family_of(storage_of(path))
        if FAMILIES[name].collector is None:
            known = " or ".join(record.title for record in FAMILIES.values() if record.collector)
            message = f"no metrics for {path}: {FAMILIES[name].title}s have none; known: {known}"
            raise UsageError(path, found=name, expected=known, message=message)
        by_family.setdefault(name, []).append(path)
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise MissingDependency(
            "everlog metrics",
            found="prometheus-client not installed",
            message="everlog metrics needs prometheus-client: pip install 'everlog[metrics]'",
        ) from error
    registry = CollectorRegistry()
    for name, group in by_family.items():
        make: Callable[..., Collector] = load(str(FAMILIES[name].collector))
        registry.register(make(group, open_storage=storage_of, on_error=ErrorPrinter()))
    return registry


class ErrorPrinter:
    """Prints why a store can't be read, unless its last scrape failed for the same reason."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def __call__(self, path: str, error: Exception) -> None:
        """Print a scrape's error."""
        text = str(error)
        if self._last.get(path) != text:
            self._last[path] = text
            warn(text if text.startswith(path) else f"{path}: {text}")


def serve(registry: CollectorRegistry, host: str, port: int) -> None:
    """Serve until interrupted. Raises :class:`UsageError` if the address can't be bound."""
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        found = f"{host}:{port}: {(error.strerror or str(error)).lower()}"
        raise UsageError(
            "--listen", found=found, expected="a free address", message=f"can't listen on {found}"
        ) from error
    if not LOOPBACK.fullmatch(host):
        warn(f"{host} is not a loopback address: anyone who can reach it can read paths, channels and subscriber names")
    place = f"[{host}]" if ":" in host else host
    print_error(f"serving http://{place}:{server.server_port}/metrics")
    try:
        thread.join()
    finally:
        server.shutdown()
        server.server_close()
