from .choice import parse_choice as parse_choice
from .scores import parse_score as parse_score, parse_scores as parse_scores
from .thoughts import split_thought as split_thought
