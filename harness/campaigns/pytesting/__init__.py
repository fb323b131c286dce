"""The plug-in for pytest: a fixture that runs tests, and fails with the verdict, the witness and the replay command."""
