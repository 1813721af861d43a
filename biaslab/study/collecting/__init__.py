"""Run a study in windows of whole contexts, which are asked, parsed, put into columns and discarded."""
