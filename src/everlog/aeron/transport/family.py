"""A media driver's folders, as everlog knows them."""

from __future__ import annotations

from everlog.aeron.family_options import TIMESTAMP_FROM
from everlog.core.family.record import Family

DRIVER = Family(
    name="aeron-driver",
    title="Aeron media driver's folder",
    store="everlog.aeron.transport.store.DriverStore",
    usual_file="cnc.dat",
    options=(TIMESTAMP_FROM,),
    colour="#cc79a7",
    not_followed="a driver reuses its log buffers, so that records would be missed: follow an archive instead",
)
