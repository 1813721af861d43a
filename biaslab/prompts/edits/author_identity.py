"""Diversity: whom the author is said to be; the text stays."""

from biaslab.prompts.edits.base import constant

_SOURCE = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1 (diversity); Zhou et al. 2026, JudgeBiasBench (gender)"

woman = constant("author_woman", "written by a woman", "Say that the author is a woman.", _SOURCE)
man = constant("author_man", "written by a man", "Say that the author is a man.", _SOURCE)
black = constant("author_black", "written by a Black author", "Say that the author is Black.", _SOURCE)
white = constant("author_white", "written by a white author", "Say that the author is white.", _SOURCE)
