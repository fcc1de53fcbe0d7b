"""ArchiveTool's commands that write: plans over an archive's folder while no archive runs there. Source: ArchiveTool.

Each module has one command: a function that reads the folder and returns a
:class:`~everlog.core.plan.plan.RepairPlan`; nothing changes until that is applied.
:mod:`everlog.aeron.archive.tool.steps` has the changes, each with the way to undo it;
:mod:`everlog.aeron.archive.tool.undo` restores what a plan's backup has kept."""
