"""Statistics with the context as the sampling unit: bootstrap, tests, agreement, correlation, tidy frames."""
