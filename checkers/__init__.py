"""Pure functions from a history to a verdict, and the Spark pipeline that runs them at scale."""
