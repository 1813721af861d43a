"""Count what the experiments of the papers cost: the table at the end of docs/papers.md."""
