"""Count what the experiments of the papers cost: the tables of the site's appendix of papers."""
