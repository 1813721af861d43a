"""From a design to its trials: what a study costs and can detect (`planning`, `spending`), and `collect` itself."""
