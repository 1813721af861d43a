"""Run a study in windows of whole contexts: each is asked, read, put into columns and dropped."""
