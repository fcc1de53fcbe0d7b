"""A media driver's folders, as everlog knows them."""

from __future__ import annotations

from everlog.aeron.family_options import OWNER_OPTIONS, TIMESTAMP_FROM
from everlog.core.family.record import Family
from everlog.core.monitoring.levels import FREE_SPACE, CheckOption, Levels

DRIVER = Family(
    name="aeron-driver",
    title="Aeron media driver's folder",
    store="everlog.aeron.transport.store.DriverStore",
    usual_file="cnc.dat",
    options=(TIMESTAMP_FROM,),
    colour="#cc79a7",
    collector="everlog.aeron.transport.monitoring.metrics.DriverCollector",
    checking="everlog.aeron.transport.monitoring.checking.check",
    check_options=(
        FREE_SPACE,
        *OWNER_OPTIONS,
        CheckOption(
            field="lost_bytes",
            flag="--lost-bytes",
            default=Levels(),
            help="Aeron: bytes lost by images with losses within the window.",
        ),
    ),
    not_followed="a driver reuses its log buffers, so that records would be missed: follow an archive instead",
)
