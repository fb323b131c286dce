"""Places where a test's nodes live, and the control that each offers over them."""
