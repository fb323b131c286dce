"""What goes wrong in an agent; it reaches the controller as one line."""


class AgentError(Exception):
    """The agent could not do what was asked."""
