"""ArchiveTool's verbs that write: plans over an archive's folder while no archive runs there. Source: ArchiveTool.

Each module has one verb: a function that looks at the folder and gives a :class:`~everlog.core.plan.plan.RepairPlan`;
nothing has changed until that is applied. :mod:`everlog.aeron.archive.tool.steps` has the changes, each of which says
what it undoes; :mod:`everlog.aeron.archive.tool.undo` brings back what a plan's backup has kept."""
