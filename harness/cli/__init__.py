"""The command line. It composes everything and is imported by nobody."""
