"""Programs in plain asyncio Python, unchanged, as the nodes of a simulation (`embedding`)."""
