"""The client for asyncio programs."""
