"""The verbs of ``everlog archive`` that Aeron's ArchiveTool has, too."""
