"""ArchiveTool's verbs."""
